"""Files that promise weights by their name and hold none that is recognised are named, with and without a manifest."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import campaigns
import pytest
import torch
from campaigns import tensors
from rule_examples import judge
from safetensors.torch import save_file

from pytest_campaign import snapshot
from pytest_campaign.base_lookup import Shelf
from pytest_campaign.draft import draft
from pytest_campaign.record import CampaignRecord, Verdict
from pytest_campaign.reload.client import Reloader
from pytest_campaign.reload.limits import default_limits


@pytest.fixture(scope="module")
def reloader() -> Iterator[Reloader]:
    with Reloader(default_limits()) as running:
        yield running


def verdicts(record: CampaignRecord) -> dict[str, Verdict]:
    return {deliverable.id: deliverable.verdict for deliverable in record.deliverables}


def empty(path: Path) -> None:
    path.write_bytes(b"")


def cut(path: Path) -> None:
    torch.save(tensors(), path)
    path.write_bytes(path.read_bytes()[:30])


def page(path: Path) -> None:
    path.write_text("<!DOCTYPE html><html><body>Please sign in</body></html>")


def dead_link(path: Path) -> None:
    path.symlink_to("/nowhere/last.pt")


def pipe(path: Path) -> None:
    os.mkfifo(path)


SPOILED = {empty: Verdict.REJECTED, cut: Verdict.UNVERIFIED, page: Verdict.REJECTED, dead_link: Verdict.MISSING,
           pipe: Verdict.REJECTED}


@pytest.mark.parametrize(("spoil", "verdict"), SPOILED.items(), ids=lambda value: getattr(value, "__name__", ""))
def test_without_a_manifest(tmp_path: Path, reloader: Reloader, spoil: Callable[[Path], None], verdict: Verdict) -> None:
    save_file(tensors(), tmp_path / "good.safetensors")
    spoil(tmp_path / "last.pt")
    assert verdicts(judge(tmp_path, reloader.run)) == {"good.safetensors": Verdict.ACCEPTED, "last.pt": verdict}


@pytest.mark.parametrize("spoil", [spoil for spoil in SPOILED if spoil is not pipe], ids=lambda value: value.__name__)
def test_a_draft_lists_it_as_a_checkpoint(tmp_path: Path, spoil: Callable[[Path], None]) -> None:
    spoil(tmp_path / "last.pt")
    listed = draft(snapshot.take(tmp_path), Shelf())["deliverables"]
    assert [(entry["kind"], entry["path"]) for entry in listed] == [("checkpoint", "last.pt")]


@pytest.mark.parametrize("name", ["notes.txt", "data.bin", "vocabulary.pkl", "array.npy"])
def test_other_names_promise_nothing(tmp_path: Path, reloader: Reloader, name: str) -> None:
    save_file(tensors(), tmp_path / "good.safetensors")
    (tmp_path / name).write_bytes(b"\x93NUMPY something")
    assert verdicts(judge(tmp_path, reloader.run)) == {"good.safetensors": Verdict.ACCEPTED}


@pytest.mark.parametrize("spoil", [empty, dead_link], ids=lambda value: value.__name__)
def test_beside_a_manifest_it_is_unclaimed(tmp_path: Path, reloader: Reloader, spoil: Callable[[Path], None]) -> None:
    made = campaigns.write(tmp_path).save()
    spoil(made / "runs/control/best.pt")
    [finding] = [f for f in judge(tmp_path, reloader.run).findings if f.rule == "identifiers.unclaimed"]
    assert "runs/control/best.pt" in finding.message


def test_a_shard_that_is_listed_by_itself_stands_for_its_set(tmp_path: Path, reloader: Reloader) -> None:
    made = campaigns.write(tmp_path)
    names = [f"model-{number:05}-of-00002.safetensors" for number in (1, 2)]
    for number, name in enumerate(names):
        save_file({f"layer{number}.weight": torch.ones(64, 64)}, made / f"runs/variant/sharded/{name}")
        made.add(f"variant/shard{number}", "other", f"runs/variant/sharded/{name}")
    index = {"metadata": {}, "weight_map": {f"layer{number}.weight": name for number, name in enumerate(names)}}
    (made / "runs/variant/sharded/model.safetensors.index.json").write_text(json.dumps(index))
    made.save()
    sound = verdicts(judge(tmp_path, reloader.run))
    assert sound["variant/shard0"] is sound["variant/shard1"] is Verdict.ACCEPTED
    os.truncate(tmp_path / f"runs/variant/sharded/{names[1]}", 500)
    broken = verdicts(judge(tmp_path, reloader.run))
    assert broken["variant/shard0"] is broken["variant/shard1"] is Verdict.REJECTED
