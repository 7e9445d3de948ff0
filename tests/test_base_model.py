"""The base of an adapter: how exactly it is named, where it is found, and that its content is the recorded one."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import adapters
import campaigns
import pytest
import sessions
import torch
from adapters import BASE, COMMIT, CONFIG, OTHER_COMMIT, WEIGHTS
from campaigns import Written
from safetensors.torch import load_file, save_file

from pytest_campaign import base_lookup, draft, inventory, merging, snapshot
from pytest_campaign.base_lookup import Absent, Found, Given, Shelf, hub_cache, parse
from pytest_campaign.bases import Said, Wanted, identifies, is_commit, said, same_name, snapshot_of
from pytest_campaign.campaign import Asked, Campaign
from pytest_campaign.checks import base_model
from pytest_campaign.evidence import Files
from pytest_campaign.findings import Finding, Level
from pytest_campaign.reload.protocol import Answer, Job

ADAPTER = "runs/variant/adapter"
SETTINGS = f"{ADAPTER}/{CONFIG}"
HEX = "4f53cda1" * 8


@pytest.fixture
def made(tmp_path: Path) -> Written:
    """A campaign with an adapter whose base is named exactly."""
    written = campaigns.write(tmp_path / "out")
    adapters.adapter(written / ADAPTER)
    written.add("variant/adapter", "adapter", ADAPTER, base={"model": BASE, "revision": COMMIT})
    return written


def nothing_runs(job: Job, on_progress: object) -> Answer:
    raise AssertionError("this check reloads nothing")


def looked_at(made: Written, shelf: Shelf | None = None) -> tuple[Campaign, Files]:
    made.save()
    campaign = snapshot.campaign(snapshot.take(made.directory), Asked())
    return campaign, Files(campaign.inventory, nothing_runs, digest=False, shelf=shelf)


def found(made: Written, shelf: Shelf | None = None, id: str = "variant/adapter") -> list[Finding]:
    campaign, evidence = looked_at(made, shelf)
    return list(base_model.CHECK.run(campaign, campaign.by_id[id], evidence))


def rules(made: Written, shelf: Shelf | None = None) -> list[str]:
    return [finding.rule for finding in found(made, shelf)]


def empty(folder: Path) -> inventory.Inventory:
    folder.mkdir(exist_ok=True)
    return inventory.take(folder)


# ---- words ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "whole"), [
    (COMMIT, True), (COMMIT.upper(), True), (COMMIT[:39], False), (COMMIT + "0", False), ("main", False), ("v1.0", False),
    ("g" * 40, False), ("", False), (None, False), (COMMIT + "\n", False)])
def test_a_commit_is_whole(text: str | None, whole: bool) -> None:
    assert is_commit(text) is whole


@pytest.mark.parametrize(("one", "other", "same"), [
    ("acme/tiny", "acme/tiny", True), ("Acme/Tiny", "acme/tiny", True), ("gpt2", "openai-community/gpt2", True),
    ("acme/tiny", "other/tiny", False), ("acme/tiny", "acme/small", False), ("tiny", "acme/tiny-2", False)])
def test_names_of_one_model(one: str, other: str, same: bool) -> None:
    assert same_name(one, other) is same is same_name(other, one)


@pytest.mark.parametrize(("path", "expected"), [
    (f"/root/.cache/huggingface/hub/models--acme--tiny/snapshots/{COMMIT}", ("acme/tiny", COMMIT)),
    (f"/x/models--acme--tiny/snapshots/{COMMIT}/", ("acme/tiny", COMMIT)),
    (f"C:\\hf\\models--gpt2\\snapshots\\{COMMIT}\\sub", ("gpt2", COMMIT)),
    ("/x/models--acme--tiny/refs", ("acme/tiny", None)),
    (f"/x/models--acme--tiny/snapshots/{COMMIT}0", ("acme/tiny", None)),
    (f"/x/snapshots/{COMMIT}", None), ("acme/tiny", None)])
def test_a_place_in_a_cache(path: str, expected: object) -> None:
    assert snapshot_of(path) == expected


@pytest.mark.parametrize(("names", "enough"), [
    (["model.safetensors"], True), (["pytorch_model.bin"], True), (["config.json", "tokenizer.json"], False),
    (["model.safetensors.index.json"], False), ([f"model-0000{n}-of-00003.safetensors" for n in (1, 2, 3)], True),
    ([f"model-0000{n}-of-00003.safetensors" for n in (1, 3)], False), ([], False)])
def test_digests_that_identify_weights(names: list[str], enough: bool) -> None:
    assert identifies(dict.fromkeys(names, HEX)) is enough


@pytest.mark.parametrize("data", [
    b"", b"[]", b"{", b"\xff\xfe", b"[" * 100_000, b'{"revision": 7, "base_model_name_or_path": [1]}',
    b'{"base_model_name_or_path": "' + b"a" * 5000 + b'"}'])
def test_a_configuration_that_says_nothing(tmp_path: Path, data: bytes) -> None:
    statement = said(SETTINGS, data, empty(tmp_path / "out"))
    assert (statement.text, statement.revision, statement.exact, statement.folder) == (None, None, None, None)


def test_a_revision_of_a_folder_says_nothing() -> None:
    assert Said(SETTINGS, "/workspace/base", COMMIT).exact is None
    assert Said(SETTINGS, BASE, COMMIT, name=BASE).exact == COMMIT


# ---- how exactly it is named ---------------------------------------------------------------------------------


def test_a_snapshot_of_the_cache_names_the_commit(made: Written) -> None:
    path = f"/root/.cache/huggingface/hub/models--acme--tiny/snapshots/{COMMIT}"
    adapters.change(made / SETTINGS, base_model_name_or_path=path)
    del made.deliverable("variant/adapter")["base"]
    assert rules(made) == ["base.not-at-hand"]
    made.deliverable("variant/adapter")["base"] = {"model": BASE, "revision": OTHER_COMMIT}
    assert rules(made) == ["base.disagrees", "base.not-at-hand"]


def test_a_path_of_the_machine_is_no_name(made: Written) -> None:
    adapters.change(made / SETTINGS, base_model_name_or_path="/workspace/base", revision=COMMIT)
    assert rules(made) == ["base.not-at-hand"]  # the manifest says it; the path itself is another check's question
    del made.deliverable("variant/adapter")["base"]
    assert rules(made) == ["base.not-stated", "base.not-at-hand"]


def test_an_adapter_that_was_found_without_a_manifest(made: Written) -> None:
    (made / "plan.json").unlink(missing_ok=True)
    campaign = snapshot.campaign(snapshot.take(made.directory), Asked())
    evidence = Files(campaign.inventory, nothing_runs, digest=False)
    adapter = next(d for d in campaign.deliverables if d.path == ADAPTER)
    assert base_model.CHECK.expected(campaign, adapter)
    levels = {finding.rule: finding.level for finding in base_model.CHECK.run(campaign, adapter, evidence)}
    assert levels == {"base.not-stated": Level.WARNING, "base.not-at-hand": Level.NOTE}


def test_an_adapter_from_its_own_cache(tmp_path: Path) -> None:
    """The commit in the path of the campaign is the adapter's, whatever the adapter says."""
    made = campaigns.write(tmp_path / f"models--me--my-adapter/snapshots/{OTHER_COMMIT}")
    adapters.adapter(made / ADAPTER, revision=OTHER_COMMIT)
    made.add("variant/adapter", "adapter", ADAPTER)
    assert "base.own-commit" in rules(made)
    adapters.change(made / SETTINGS, revision=COMMIT)
    assert "base.own-commit" not in rules(made)
    # an adapter in a subfolder of its base's own repository
    adapters.change(made / SETTINGS, revision=OTHER_COMMIT, base_model_name_or_path="me/my-adapter")
    assert "base.own-commit" not in rules(made)


def test_the_finding_has_the_line(made: Written) -> None:
    adapters.change(made / SETTINGS, revision="main")
    finding = next(finding for finding in found(made) if finding.rule == "base.not-exact")
    lines = (made / SETTINGS).read_text().splitlines()
    assert (finding.path, finding.pointer) == (SETTINGS, "/revision")
    assert finding.line is not None
    assert '"revision": "main"' in lines[finding.line - 1]


# ---- where it is found ---------------------------------------------------------------------------------------


EXACT = Wanted(BASE, COMMIT, None)


def test_the_cache_at_exactly_the_revision(tmp_path: Path) -> None:
    adapters.cached(tmp_path / "hub")
    adapters.cached(tmp_path / "hub", OTHER_COMMIT, seed=1)
    shelf, out = Shelf(cache=str(tmp_path / "hub")), empty(tmp_path / "out")
    at_hand = shelf.find(EXACT, out, only=True)
    assert isinstance(at_hand, Found)
    weights = at_hand.by_path[WEIGHTS]
    assert at_hand.files.root == str(tmp_path / "hub/models--acme--tiny")
    assert weights.target == f"blobs/{COMMIT}/{WEIGHTS}"
    assert shelf.sha256(at_hand, weights) == adapters.sha256(tmp_path / "hub/models--acme--tiny/blobs" / COMMIT / WEIGHTS)
    for wanted in (Wanted(BASE, "0" * 40, None), Wanted(BASE, None, None), Wanted("acme/small", COMMIT, None),
                   Wanted("../../hub/models--acme--tiny", COMMIT, None)):
        assert isinstance(shelf.find(wanted, out, only=True), Absent), wanted


def test_a_link_without_its_blob_is_no_file(tmp_path: Path) -> None:
    adapters.cached(tmp_path / "hub")
    (tmp_path / "hub/models--acme--tiny/blobs" / COMMIT / WEIGHTS).unlink()
    at_hand = Shelf(cache=str(tmp_path / "hub")).find(EXACT, empty(tmp_path / "out"), only=True)
    assert isinstance(at_hand, Found)
    assert set(at_hand.by_path) == {"config.json", "generation_config.json"}


@pytest.mark.parametrize(("text", "expected"), [
    ("models/tiny", Given("models/tiny")), ("acme/tiny=models/tiny", Given("models/tiny", "acme/tiny")),
    ("models/lr=3", Given("models/lr=3")), ("hub", Given("hub")), ("hub/models--acme--tiny", Given("hub/models--acme--tiny"))])
def test_what_may_be_given(tmp_path: Path, text: str, expected: Given) -> None:
    adapters.base(tmp_path / "models/tiny")
    adapters.base(tmp_path / "models/lr=3")
    adapters.cached(tmp_path / "hub")
    assert parse(text, str(tmp_path)) == Given(str(tmp_path / expected.directory), expected.name)


@pytest.mark.parametrize(("text", "message"), [
    ("absent", "absent is not a directory"), ("acme/tiny=absent", "absent is not a directory"),
    ("notes", "neither the directory of")])
def test_what_may_not_be_given(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "notes").mkdir()
    with pytest.raises(ValueError, match=message):
        parse(text, str(tmp_path))


@pytest.fixture
def two(tmp_path: Path) -> Mapping[str, str]:
    """Two models, one of them from a download of a known commit."""
    one, other = adapters.base(tmp_path / "models/first"), adapters.base(tmp_path / "models/second", seed=1)
    (other / ".cache/huggingface/download").mkdir(parents=True)
    (other / ".cache/huggingface/download/config.json.metadata").write_text(f"{COMMIT}\nabc\n1.0\n")
    return {"first": str(one), "second": str(other)}


@pytest.mark.parametrize(("given", "wanted", "only", "expected"), [
    ([("first", None)], EXACT, True, "first"),
    ([("first", None)], EXACT, False, None),  # which of several bases it is, nobody says
    ([("first", "acme/tiny")], EXACT, False, "first"),
    ([("first", "acme/small")], EXACT, True, None),
    ([("first", "shared")], Wanted(BASE, COMMIT, None, label="shared"), False, "first"),
    ([("first", None), ("second", None)], EXACT, True, None),
    ([("first", None), ("second", None)], Wanted("acme/second", COMMIT, None), False, "second"),
    ([("first", None), ("second", "acme/tiny")], EXACT, False, "second"),
    ([("second", "acme/tiny")], Wanted(BASE, OTHER_COMMIT, None), True, None),  # the download is another revision
])
def test_which_given_directory(two: Mapping[str, str], tmp_path: Path, given: list[tuple[str, str | None]], wanted: Wanted,
                               only: bool, expected: str | None) -> None:
    shelf = Shelf([Given(two[folder], name) for folder, name in given])
    at_hand = shelf.find(wanted, empty(tmp_path / "out"), only=only)
    assert (at_hand.where if isinstance(at_hand, Found) else None) == (two[expected] if expected else None)


def test_of_several_the_one_with_the_digest(two: Mapping[str, str], tmp_path: Path) -> None:
    digest = adapters.sha256(Path(two["second"]) / WEIGHTS)
    shelf = Shelf([Given(two["first"]), Given(two["second"])])
    at_hand = shelf.find(Wanted(BASE, None, None, ((WEIGHTS, digest),)), empty(tmp_path / "out"), only=False)
    assert isinstance(at_hand, Found)
    assert at_hand.where == two["second"]


def test_another_revision_is_not_taken_for_the_base(two: Mapping[str, str], made: Written) -> None:
    made.deliverable("variant/adapter")["base"] = {"model": BASE, "revision": OTHER_COMMIT, "sha256": {WEIGHTS: HEX}}
    (finding,) = found(made, Shelf([Given(two["second"], BASE)]))
    assert finding.rule == "base.not-at-hand"
    assert COMMIT in finding.message


def test_no_path_of_an_adapter_is_followed(made: Written, tmp_path: Path) -> None:
    outside = adapters.base(tmp_path / "base")
    relative = os.path.relpath(outside, made.directory)
    for text in (str(outside), relative, os.path.relpath(outside, made / ADAPTER)):
        adapters.change(made / SETTINGS, base_model_name_or_path=text)
        campaign, evidence = looked_at(made)
        assert isinstance(evidence.base(campaign, campaign.by_id["variant/adapter"]), Absent), text
    (made.directory / "base").symlink_to(outside)
    made.deliverable("variant/adapter")["base"] = {"model": BASE, "path": "base"}
    assert rules(made) == ["base.missing"]


def test_a_given_directory_in_the_campaign_is_read_by_its_file_table(made: Written, tmp_path: Path) -> None:
    secret = tmp_path / "secret.safetensors"
    secret.write_bytes(b"secret")
    (adapters.base(made / "base") / "other.safetensors").symlink_to(secret)
    campaign, evidence = looked_at(made, Shelf([Given(str(made / "base"))]))
    at_hand = evidence.base(campaign, campaign.by_id["variant/adapter"])
    assert isinstance(at_hand, Found)
    assert at_hand.inside == "base"
    assert "other.safetensors" not in at_hand.by_path


@pytest.mark.parametrize(("variables", "expected"), [
    ({"HF_HUB_CACHE": "/a"}, "/a"), ({"HF_HOME": "/b"}, "/b/hub"), ({"HF_HUB_CACHE": "/a", "HF_HOME": "/b"}, "/a"),
    ({"XDG_CACHE_HOME": "/c"}, "/c/huggingface/hub"), ({"HOME": "/home/me"}, "/home/me/.cache/huggingface/hub"),
    ({"HUGGINGFACE_HUB_CACHE": "/d"}, "/d")])
def test_the_local_cache(variables: Mapping[str, str], expected: str) -> None:
    assert hub_cache(variables) == expected


def test_forty_adapters_on_one_base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = adapters.base(tmp_path / "base")
    made = campaigns.write(tmp_path / "out")
    made.manifest["bases"] = {"tiny": {"model": BASE, "revision": COMMIT, "sha256": {WEIGHTS: adapters.sha256(base / WEIGHTS)}}}
    for number in range(40):
        adapters.adapter(made / f"runs/variant/adapter-{number}")
        made.add(f"variant/adapter-{number}", "adapter", f"runs/variant/adapter-{number}", base="tiny")
    listings, opened = [], []
    monkeypatch.setattr(base_lookup, "_listing", count(base_lookup._listing, listings))
    monkeypatch.setattr(base_lookup, "open_spec", count(base_lookup.open_spec, opened))
    campaign, evidence = looked_at(made, Shelf([Given(str(base))]))
    for number in range(40):
        assert not list(base_model.CHECK.run(campaign, campaign.by_id[f"variant/adapter-{number}"], evidence))
    assert (len(listings), len(opened)) == (1, 1)


def count(function: Any, calls: list[object]) -> Any:
    def counted(*arguments: Any) -> Any:
        calls.append(arguments)
        return function(*arguments)

    return counted


def test_the_reload_is_told_where_the_base_lies(made: Written, tmp_path: Path) -> None:
    base = adapters.base(tmp_path / "base")
    jobs: list[Job] = []

    def run(job: Job, on_progress: object) -> Answer:
        jobs.append(job)
        raise InterruptedError

    made.save()
    campaign = snapshot.campaign(snapshot.take(made.directory), Asked())
    evidence = Files(campaign.inventory, run, digest=False, shelf=Shelf([Given(str(base))]))
    for id in ("variant/adapter", "variant/weights"):
        with pytest.raises(InterruptedError):
            evidence.reload(campaign, campaign.by_id[id])
    assert jobs[0].base is not None
    assert jobs[0].base.name == BASE
    assert {file.path for file in jobs[0].base.files} == {"config.json", "generation_config.json", WEIGHTS}
    assert jobs[1].base is None


# ---- what this machine knows ---------------------------------------------------------------------------------


def remedy(made: Written, shelf: Shelf) -> str:
    return next(finding.remedy for finding in found(made, shelf) if finding.rule == "base.not-stated")


def test_the_remedy_names_the_commit(made: Written, tmp_path: Path) -> None:
    del made.deliverable("variant/adapter")["base"]
    assert "snapshots/<commit>" in remedy(made, Shelf())
    adapters.cached(tmp_path / "one")
    assert f'"base": {{"model": "{BASE}", "revision": "{COMMIT}"}}' in remedy(made, Shelf(cache=str(tmp_path / "one")))
    adapters.cached(tmp_path / "two", main=OTHER_COMMIT)
    adapters.cached(tmp_path / "two", OTHER_COMMIT)
    assert OTHER_COMMIT in remedy(made, Shelf(cache=str(tmp_path / "two")))
    adapters.cached(tmp_path / "three")
    adapters.cached(tmp_path / "three", OTHER_COMMIT)  # which of the two, nobody knows
    assert "<commit>" in remedy(made, Shelf(cache=str(tmp_path / "three")))


def not_exact(made: Written, shelf: Shelf) -> str:
    return next(finding.remedy for finding in found(made, shelf) if finding.rule == "base.not-exact")


def test_the_remedy_says_which_of_the_two_documents_is_to_be_corrected(made: Written) -> None:
    adapters.change(made / SETTINGS, revision="main")
    made.deliverable("variant/adapter")["base"] = {"model": BASE, "revision": COMMIT}
    assert not_exact(made, Shelf()).startswith(f'write "revision": "{COMMIT}" into {SETTINGS} (manifest.json has it)')
    adapters.change(made / SETTINGS, revision=COMMIT)
    made.deliverable("variant/adapter")["base"] = {"model": BASE, "revision": "main"}
    remedy = not_exact(made, Shelf())
    assert remedy.startswith(f'write "revision": "{COMMIT}" into manifest.json#')
    assert SETTINGS in remedy


def test_the_remedy_names_the_commit_of_that_branch_or_tag(made: Written, tmp_path: Path) -> None:
    """Not the one of the branch main, which is another model."""
    del made.deliverable("variant/adapter")["base"]
    snapshot = adapters.cached(tmp_path, main=OTHER_COMMIT)
    adapters.cached(tmp_path, OTHER_COMMIT)
    shelf = Shelf(cache=str(tmp_path))
    for revision, commit in (("main", OTHER_COMMIT), (COMMIT[:8].upper(), COMMIT), ("v1.0", "<commit>"), ("../main", "<commit>")):
        adapters.change(made / SETTINGS, revision=revision)
        assert f'"revision": "{commit}"' in not_exact(made, shelf)
    refs = snapshot.parent.parent / "refs"
    (refs / "pr").mkdir()
    for revision in ("v1.0", "pr/3"):
        (refs / revision).write_text(COMMIT)
        adapters.change(made / SETTINGS, revision=revision)
        assert f'"revision": "{COMMIT}"' in not_exact(made, shelf)


def test_the_remedy_for_a_folder_that_was_downloaded(made: Written, two: Mapping[str, str]) -> None:
    del made.deliverable("variant/adapter")["base"]
    adapters.change(made / SETTINGS, base_model_name_or_path=two["second"])
    shelf = Shelf([Given(two["second"], BASE)])
    assert f'{{"model": "{BASE}", "revision": "{COMMIT}"}}' in remedy(made, shelf)
    assert "<commit>" in remedy(made, Shelf([Given(two["first"], "acme/small")]))  # what was not given is not looked into


def drafted(made: Written, shelf: Shelf) -> tuple[object, list[str]]:
    (made / "manifest.json").unlink(missing_ok=True)
    content = draft.draft(snapshot.take(made.directory), shelf)
    place, entry = next((place, entry) for place, entry in draft._entries(content) if entry["path"] == ADAPTER)
    return entry.get("base"), [todo["why"] for todo in content["todo"] if todo["pointer"] == f"{place}/base"]


def test_the_draft_fills_in_the_base(made: Written, tmp_path: Path) -> None:
    known = {"model": BASE, "revision": COMMIT}
    base, todo = drafted(made, Shelf())
    assert base == {"model": BASE}
    assert len(todo) == 1
    adapters.cached(tmp_path / "hub", main=COMMIT)
    assert drafted(made, Shelf(cache=str(tmp_path / "hub"))) == (known, [])
    adapters.cached(tmp_path / "hub", OTHER_COMMIT)
    base, todo = drafted(made, Shelf(cache=str(tmp_path / "hub")))
    assert (base, len(todo)) == (known, 1)  # likely, and to be confirmed
    adapters.change(made / SETTINGS, revision=OTHER_COMMIT)
    assert drafted(made, Shelf()) == ({"model": BASE, "revision": OTHER_COMMIT}, [])
    adapters.base(made / "base")
    adapters.change(made / SETTINGS, base_model_name_or_path="base", revision=None)
    assert drafted(made, Shelf()) == ({"model": "base", "path": "base"}, [])
    adapters.change(made / SETTINGS, base_model_name_or_path="/workspace/base")
    base, todo = drafted(made, Shelf())
    assert base is None
    assert "/workspace/base" in todo[0]


# ---- merged models -------------------------------------------------------------------------------------------


def files(*paths: Path) -> list[merging.File]:
    return [merging.File(str(path), path.stat().st_size, lambda path=path: open(path, "rb", buffering=0)) for path in paths]


def compared(folder: Path, merged: Mapping[str, torch.Tensor], base: Mapping[str, torch.Tensor],
             adapter: Mapping[str, torch.Tensor]) -> merging.Difference | str:
    folder.mkdir(exist_ok=True)
    for name, state in (("merged", merged), ("base", base), ("adapter", adapter)):
        save_file(dict(state), folder / name)
    return merging.compare(*(files(folder / name) for name in ("merged", "base", "adapter")))


@pytest.fixture
def states(tmp_path: Path) -> Iterator[dict[str, torch.Tensor]]:
    return (load_file(folder / file) for folder, file in (
        (adapters.merged(tmp_path / "m"), WEIGHTS), (adapters.base(tmp_path / "b"), WEIGHTS),
        (adapters.adapter(tmp_path / "a"), "adapter_model.safetensors")))


def test_a_merge_changes_what_the_adapter_targets_and_nothing_else(tmp_path: Path, states: Any) -> None:
    merged, base, adapter = states
    difference = compared(tmp_path / "x", merged, base, adapter)
    assert isinstance(difference, merging.Difference)
    assert set(difference.changed) == set(difference.touched) == {
        f"model.layers.{layer}.self_attn.{module}_proj.weight" for layer in (0, 1) for module in "qv"}
    assert (len(difference.others), difference.foreign, difference.neutral) == (17, [], False)


def test_another_type_is_not_compared(tmp_path: Path, states: Any) -> None:
    merged, base, adapter = states
    assert isinstance(compared(tmp_path / "x", {k: v.half() for k, v in merged.items()}, base, adapter), str)
    larger = merged | {"model.embed_tokens.weight": torch.zeros(70, 16)}
    difference = compared(tmp_path / "x", larger, base, adapter)
    assert isinstance(difference, merging.Difference)
    assert difference.foreign == []


def test_modules_under_other_names_are_not_compared(tmp_path: Path, states: Any) -> None:
    merged, base, adapter = states
    renamed = {key.replace("self_attn", "attention"): value for key, value in adapter.items()}
    assert isinstance(compared(tmp_path / "x", merged, base, renamed), str)


def test_copies_of_whole_modules_are_touched(tmp_path: Path, states: Any) -> None:
    merged, base, adapter = states
    changed = {"model.norm.weight": torch.full((16,), 2.0), "model.embed_tokens.weight": torch.ones(64, 16),
               "lm_head.weight": torch.ones(64, 16)}  # tied in the original, so both change when one is trained
    saved = adapter | {"base_model.model.model.norm.weight": changed["model.norm.weight"],
                       "base_model.model.model.embed_tokens.weight": changed["model.embed_tokens.weight"]}
    difference = compared(tmp_path / "x", merged | changed, base, saved)
    assert isinstance(difference, merging.Difference)
    assert difference.foreign == []
    difference = compared(tmp_path / "x", merged | changed, base, adapter)
    assert isinstance(difference, merging.Difference)
    assert set(difference.foreign) == set(changed)


def test_the_ends_of_a_large_tensor(tmp_path: Path) -> None:
    base = {"layer.weight": torch.zeros(1 << 20), "q.weight": torch.zeros(4)}
    adapter = {"base_model.model.q.lora_A.weight": torch.ones(4), "base_model.model.q.lora_B.weight": torch.ones(4)}
    for position, seen in ((0, True), (1 << 19, False), ((1 << 20) - 1, True)):
        other = base["layer.weight"].clone()
        other[position] = 1.0
        difference = compared(tmp_path / "x", base | {"layer.weight": other}, base, adapter)
        assert isinstance(difference, merging.Difference)
        assert bool(difference.foreign) is seen


def test_damaged_files_are_not_compared(tmp_path: Path, states: Any) -> None:
    merged, base, adapter = states
    compared(tmp_path / "x", merged, base, adapter)
    whole = (tmp_path / "x/base").read_bytes()
    (tmp_path / "x/base").write_bytes(whole[:-4])
    assert isinstance(merging.compare(*(files(tmp_path / "x" / name) for name in ("merged", "base", "adapter"))), str)


# ---- whole sessions ------------------------------------------------------------------------------------------


def reported(report: Path) -> list[str]:
    record = json.loads(report.read_text())
    (entry,) = (entry for entry in record["deliverables"] if entry["id"] == "variant/adapter")
    return sorted(finding["rule"] for finding in entry["findings"] if finding["rule"].startswith("base."))


def test_sessions(made: Written, tmp_path: Path) -> None:
    """The option, its key in the ini file, and the local cache."""
    right = adapters.base(tmp_path / "right")
    adapters.base(tmp_path / "wrong", seed=1)
    adapters.cached(tmp_path / "hub")
    made.deliverable("variant/adapter")["base"]["sha256"] = {WEIGHTS: adapters.sha256(right / WEIGHTS)}
    made.save()
    (tmp_path / "ini").mkdir()
    (tmp_path / "ini/pytest.ini").write_text("[pytest]\ncampaign_base_model =\n    acme/tiny=../right\n")
    none = {"HF_HUB_CACHE": str(tmp_path / "none")}
    for words, variables, expected in (
        ([f"--campaign-base-model={BASE}=right"], none, []),
        (["--campaign-base-model", "wrong"], none, ["base.other-content"]),
        (["-c", "ini/pytest.ini"], none, []),
        ([], {"HF_HUB_CACHE": str(tmp_path / "hub")}, []),
        ([], none, ["base.not-at-hand"]),
    ):
        sessions.pytest_session(tmp_path, "--campaign-dir=out", "--campaign-report=report.json", "-k", "adapter and not reload",
                                *words, **variables)
        assert reported(tmp_path / "report.json") == expected, words


def test_a_wrong_place_is_a_usage_error(made: Written, tmp_path: Path) -> None:
    ended = sessions.pytest_session(tmp_path, "--campaign-dir=out", "--campaign-base-model=absent")
    assert ended.status == 4
    assert "--campaign-base-model" in ended.err
    assert "is not a directory" in ended.err
