"""The headers of a base, archived beside an adapter: recorded with real models, and read from untrusted files."""

from __future__ import annotations

import json
import shutil
import time
import warnings
from pathlib import Path
from typing import Any

import hugging_face
import pytest
import torch
from disk_source import DiskSource, folder
from hugging_face import BASE
from sessions import pytest_session

from pytest_campaign.formats import base_headers, peft_adapter
from pytest_campaign.formats.base import Depth, ProblemKind, Reading
from pytest_campaign.formats.base_headers import BaseHeaders, NotHeaders, Tensor, parse
from pytest_campaign.recording import Campaign, RecordingError, RecordingWarning

SMALL = {"base_headers_version": 1, "config": {"model_type": "llama"}, "tensors": {"model.safetensors": {"a": ["F32", [2, 3]]}}}


def found(root: Path, base: Path | None = None, depth: Depth = Depth.MODEL) -> Reading:
    """The reading of the one adapter in a folder."""
    (unit,) = peft_adapter.gather(folder(root))
    return peft_adapter.read(unit, DiskSource(root, depth, base=DiskSource(base, depth) if base else None, base_name="acme/tiny"))


def kinds(reading: Reading) -> set[ProblemKind]:
    return {problem.kind for problem in reading.problems}


def saved(out: Path, base: Path, **options: Any) -> Path:
    """An adapter in a campaign, trained on a base that was loaded from a folder of this machine."""
    place = hugging_face.adapter(out / "runs/a/adapter", **options)
    hugging_face.settings(place / "adapter_config.json", base_model_name_or_path=str(base), revision=None)
    return place


# ---- recording -------------------------------------------------------------------------------------------------------


def test_depth_model_without_the_base(tmp_path: Path) -> None:
    """On a machine without the base, the archive makes the difference between the depths."""
    out, base = tmp_path / "out", hugging_face.model(tmp_path / "models/tiny")
    for name, archive in (("with", True), ("without", False)):
        campaign = Campaign(out / name)
        campaign.base("tiny", BASE["model"], revision=BASE["revision"])
        with campaign.run("a", parameters={"rank": 4}) as run:
            run.deliver("adapter", "adapter", saved(out / name, base), base="tiny", archive_base=archive)
        campaign.decide("positive", "It learns.", based_on=["a"])
    shutil.rmtree(base)
    report = tmp_path / "report.json"
    session = pytest_session(tmp_path, f"--campaign-dir={out}/with", f"--campaign-dir={out}/without", "-p", "no:cacheprovider",
                             f"--campaign-report={report}")
    assert session.status == 0, session.out
    campaigns = {Path(one["directory"]).name: one for one in json.loads(report.read_text())["campaigns"]}
    depths = {name: one["deliverables"][0]["depth"] for name, one in campaigns.items()}
    assert depths == {"with": "model", "without": "tensors"}
    findings = {finding["rule"]: finding for finding in campaigns["with"]["deliverables"][0]["findings"]}
    assert f"{BASE['model']}\" at {BASE['revision']} (21 tensors)" in findings["reload.archived-base"]["message"]
    for one in campaigns.values():
        assert {finding["level"] for finding in (*one["findings"], *one["deliverables"][0]["findings"])} == {"note"}


def test_what_is_written(tmp_path: Path) -> None:
    base = hugging_face.model(tmp_path / "tiny", shards=True)
    hugging_face.settings(base / "config.json", _name_or_path="/workspace/tiny")
    adapter = saved(tmp_path / "out", base)
    Campaign(tmp_path / "out").deliver("adapter", "adapter", adapter, base=BASE, archive_base=True)
    headers = parse((adapter / base_headers.FILE).read_bytes())
    assert (headers.model, headers.revision) == (BASE["model"], BASE["revision"])
    assert headers.config == {name: value for name, value in json.loads((base / "config.json").read_text()).items()
                              if name != "_name_or_path"}
    assert len(headers.tensors) > 1
    assert {name: tensor.shape for name, tensor in headers.by_name.items()} == {
        name: tuple(value.shape) for name, value in hugging_face.llama().state_dict().items()}
    [entry] = json.loads((tmp_path / "out/manifest.json").read_text())["deliverables"]
    assert "archive_base" not in entry
    assert "runs/a/adapter/base_headers.json" in {file["path"] for file in entry["files"]}
    shutil.rmtree(base)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # what was archived is kept where the base is gone
        Campaign(tmp_path / "out").deliver("adapter", "adapter", adapter, base=BASE, archive_base=True)
    assert parse((adapter / base_headers.FILE).read_bytes()) == headers


def test_where_the_base_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the local cache by its name and commit, in the campaign, or where the user says."""
    repository = tmp_path / "hub/models--acme--tiny"
    hugging_face.model(repository / "snapshots" / BASE["revision"])
    (repository / "refs").mkdir()
    (repository / "refs/main").write_text(BASE["revision"])
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    hugging_face.model(tmp_path / "out/base")
    elsewhere = hugging_face.model(tmp_path / "elsewhere")
    campaign = Campaign(tmp_path / "out")
    for text, given, archive in ((BASE["model"], None, True), ("base", None, True), ("acme/other", BASE, elsewhere)):
        adapter = hugging_face.adapter(tmp_path / "out/adapter")
        hugging_face.settings(adapter / "adapter_config.json", base_model_name_or_path=text, revision=None)
        campaign.deliver("adapter", "adapter", adapter, **({"base": given} if given else {}), archive_base=archive)
        assert len(parse((adapter / base_headers.FILE).read_bytes()).by_name) == 21
        (adapter / base_headers.FILE).unlink()


def test_an_adapter_that_was_saved_into_the_campaign_itself(tmp_path: Path) -> None:
    base = hugging_face.model(tmp_path / "tiny")
    hugging_face.adapter(tmp_path / "out")
    Campaign(tmp_path / "out").deliver("adapter", "adapter", ".", base=BASE, archive_base=base)
    [entry] = json.loads((tmp_path / "out/manifest.json").read_text())["deliverables"]
    assert {file["path"] for file in entry["files"]} >= {"adapter_model.safetensors", base_headers.FILE}


def test_where_there_is_nothing_to_archive(tmp_path: Path) -> None:
    campaign = Campaign(tmp_path / "out")
    adapter = saved(tmp_path / "out", tmp_path / "gone")
    for archive, told in ((True, "not found on this machine"), (tmp_path, "is no folder of a model")):
        with pytest.warns(RecordingWarning, match=told):
            campaign.deliver("adapter", "adapter", adapter, base=BASE, archive_base=archive)
    assert not (adapter / base_headers.FILE).exists()
    with pytest.raises(RecordingError, match="for adapters"):
        campaign.deliver("model", "checkpoint", adapter, archive_base=True)


# ---- reading ---------------------------------------------------------------------------------------------------------


def test_a_base_without_safetensors_has_its_configuration_archived(tmp_path: Path) -> None:
    base = hugging_face.model(tmp_path / "tiny")
    torch.save(hugging_face.llama().state_dict(), base / "pytorch_model.bin")
    (base / "model.safetensors").unlink()
    adapter = hugging_face.adapter(tmp_path / "adapter")
    hugging_face.headers(adapter, base)
    assert not parse((adapter / base_headers.FILE).read_bytes()).tensors
    assert (kinds(found(adapter)), found(adapter).depth) == ({ProblemKind.ARCHIVED_BASE}, Depth.MODEL)
    assert kinds(found(adapter, hugging_face.model(tmp_path / "other"))) == set()


def test_a_lower_depth_asks_nothing_of_the_libraries(tmp_path: Path) -> None:
    adapter = hugging_face.adapter(tmp_path / "adapter")
    hugging_face.headers(adapter)
    reading = found(adapter, depth=Depth.TENSORS)
    assert (kinds(reading), reading.depth) == (set(), Depth.TENSORS)
    assert "base_headers.json" in {fact.path for fact in reading.files}


def test_a_base_that_cannot_be_read_is_compared_no_further(tmp_path: Path) -> None:
    adapter = hugging_face.adapter(tmp_path / "adapter")
    hugging_face.headers(adapter)
    base = hugging_face.model(tmp_path / "tiny")
    (base / "model.safetensors").write_bytes(b"not one")
    assert kinds(found(adapter, base)) == set()


def test_the_file_again() -> None:
    headers = BaseHeaders({"model_type": "llama"}, {"model.safetensors": {"é": Tensor("BF16", (0, 4)), "b": Tensor("F32", ())}},
                          "acme/tiny", None)
    assert parse(headers.encoded()) == headers


@pytest.mark.parametrize("change", [
    {"base_headers_version": 2}, {"more": 1}, {"config": []}, {"tensors": []}, {"tensors": {"x": []}}, {"model": 3},
    {"revision": ""},
    *({"tensors": {"x": {"a": entry}}} for entry in (
        None, [], ["F32"], ["F32", [-1]], ["F32", [True]], ["F32", [1.5]], ["F32", "12"], [3, [1]], ["F32", [1], 2],
        ["F32", [1] * 40], ["F32", [1 << 30, 1 << 30]], ["", [1]], {"dtype": "F32"})),
    {"tensors": {"x": {"": ["F32", [1]]}}}, {"tensors": {"x": {"a" * 5000: ["F32", [1]]}}}])
def test_what_is_no_such_file(tmp_path: Path, change: dict[str, Any]) -> None:
    with pytest.raises(NotHeaders):
        parse(json.dumps(SMALL | change).encode())


@pytest.mark.parametrize("data", [
    b"[]", b"{}", b"", b"{", b"\xff", b'{"base_headers_version": 1, "base_headers_version": 1}', b"[" * 100_000])
def test_what_is_no_json_of_ours(tmp_path: Path, data: bytes) -> None:
    adapter = hugging_face.adapter(tmp_path / "adapter")
    (adapter / base_headers.FILE).write_bytes(data or b" ")
    reading = found(adapter)
    assert (kinds(reading), reading.depth) == ({ProblemKind.BASE_HEADERS, ProblemKind.NOT_REBUILT}, Depth.TENSORS)


def test_a_large_archive_is_read_in_time_that_grows_with_its_size() -> None:
    tensors = {f"model.layers.{number}.mlp.experts.{number}.down_proj.weight": Tensor("BF16", (7168, 2048))
               for number in range(20_000)}
    data = BaseHeaders({}, {"model.safetensors": tensors}).encoded()
    begin = time.process_time()
    assert len(parse(data).by_name) == 20_000
    assert time.process_time() - begin < 5
    with pytest.raises(NotHeaders, match="at most"):
        BaseHeaders({"x": "y" * base_headers.LARGEST}, {}).encoded()
