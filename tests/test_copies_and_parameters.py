"""What counts once, and in which parameters the runs differ, as the report of a real session has it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import campaigns
import pytest
import torch
from campaigns import WEIGHTS, Written
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file
from sessions import pytest_session

from pytest_campaign.parameters import differences, read
from pytest_campaign.readers.fields import Unreadable

COPY = "runs/again/model.safetensors"


def session(made: Written, *words: str) -> tuple[str, dict[str, object]]:
    made.save()
    ended = pytest_session(made.directory.parent, f"--campaign-dir={made.directory.name}", "--campaign-report=r.json", *words)
    return ended.last, json.loads((made.directory.parent / "r.json").read_text())["campaigns"][0]


def again(made: Written, **more: str) -> None:
    """One more run with its weights."""
    made.manifest["runs"].append({"id": "again", "status": "completed", **more, "deliverables": [
        {"id": "weights", "kind": "checkpoint", "path": COPY}]})


def a_repeat(made: Written) -> None:
    save_file({"weight": torch.ones(32, 32)}, made / COPY)
    again(made, repeat_of="variant")


def a_copy(made: Written) -> None:
    save_file({"weight": torch.ones(32, 32)}, made / WEIGHTS)
    shutil.copy(made / WEIGHTS, made / COPY)
    again(made, supersedes="variant")


def another(made: Written) -> None:
    save_file({"weight": torch.ones(32, 32)}, made / COPY)
    again(made, supersedes="variant")


@pytest.mark.parametrize(("write", "distinct"), [(a_repeat, 3), (a_copy, 3), (another, 4)])
@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "xdist"])
def test_what_counts_once(tmp_path: Path, write: object, distinct: int, workers: tuple[str, ...]) -> None:
    made = campaigns.write(tmp_path / "out")
    assert callable(write)
    write(made)
    last, campaign = session(made, *workers)
    counts = campaign["counts"]
    assert isinstance(counts, dict)
    assert (counts["accepted"], counts["distinct"]) == (4, distinct)
    assert ("3 distinct" in last) == (distinct == 3)


def test_the_parameters_in_which_the_runs_differ(tmp_path: Path) -> None:
    made = campaigns.write(tmp_path / "out")
    (made / "runs/control/parameters.json").write_text('{"lr": 0.0001, "model": {"width": 4, "depth": 2}, "seed": 1}')
    (made / "runs/variant/.hydra/config.yaml").write_text("lr: 1e-4\nmodel:\n  width: 8\n  depth: 2\n  wide: true\nseed: 1\n")
    made.run("control")["parameters"] = "runs/control/parameters.json"
    made.add("variant/settings", "parameters", "runs/variant/.hydra")
    _, campaign = session(made)
    runs = campaign["runs"]
    assert isinstance(runs, list)
    assert {run["id"]: run["parameters"] for run in runs} == {
        "control": {"model.wide": None, "model.width": "4"}, "variant": {"model.wide": "true", "model.width": "8"}}


@pytest.mark.parametrize(("path", "text", "values"), [
    ("p.json", '{"a": {"b": [1, 2.50]}, "c": null}', {"a.b.0": "1", "a.b.1": "2.50", "c": "null"}),
    ("p.yaml", "a:\n  b: [1, 2.50]\nc: null\n", {"a.b.0": "1", "a.b.1": "2.50", "c": "null"}),
    ("p.toml", "c = true\n[a]\nb = 1\n", {"c": "true", "a.b": "1"}),
    ("p.ini", "[a]\nb = 1\n", {"a.b": "1"}),
])
def test_forms_of_parameters(path: str, text: str, values: dict[str, str]) -> None:
    assert read(path, text.encode()) == values


@pytest.mark.parametrize(("path", "data"), [
    ("p.json", b'{"a": '), ("p.json", b"[" * 100_000), ("p.yaml", b"a: [1"), ("p.toml", b"a ="), ("p.json", b" " * (2 << 20)),
    ("p.json", b"\xff")])
def test_parameters_that_cannot_be_read(path: str, data: bytes) -> None:
    with pytest.raises(Unreadable):
        read(path, data)


@given(st.dictionaries(st.sampled_from("abcdef"), st.sampled_from(["1", "1.0", "1e0", "x", " x", "nan", "true"])))
def test_nothing_differs_from_itself(values: dict[str, str]) -> None:
    assert differences(values, dict(values)) == []


@pytest.mark.parametrize(("name", "matters"), [("lr", True), ("seed", True), ("model.hidden_size", True), ("output_dir", False),
                                               ("run_name", False), ("hydra.run.dir", False), ("wandb.id", False)])
def test_what_may_have_been_varied(name: str, matters: bool) -> None:
    assert [difference.matters for difference in differences({name: "1"}, {name: "2"})] == [matters]
