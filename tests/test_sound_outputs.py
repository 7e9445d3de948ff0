"""What real trainings leave is accepted: drafted, its ``todo`` filled in as a user would, moved and checked.

Every output has broken neighbours, so that accepting it means something.
"""

from __future__ import annotations

import copy
import dataclasses
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import hugging_face
import pytest
import trainings
from hugging_face import BASE
from sessions import Ended, environment, pytest_session

_TORCH = "reload.framework-class"  # training_args.bin, rng_state.pth, the hyperparameters of Lightning
_PLACE = "portable.provenance"
_COPY = "identifiers.copy"  # the last checkpoint is also what was saved at the end
_NO_BASE = {"base.not-at-hand", "reload.not-rebuilt"}  # of an adapter whose base is not here
BEST = "runs/größer, mit Rand"
COLON = "2026-11-03T10:15:00"
JOB = "outputs/2026-11-03/10-15-00"
STORE = "mlruns/18/bda1b44d10c342fb"


@dataclasses.dataclass(frozen=True)
class Sound:
    """One campaign of `trainings` and what is to be seen of it.

    ``asked`` are the pointers of its draft's ``todo``; ``delivered`` the depth of each deliverable by its full id; ``warned``
    (rule, file) of its warnings, ``noted`` the rules of its notes. ``also`` are entries that a user adds. ``broken`` are the
    rules and files of what must be found by deliverable, after ``breaks`` has spoiled the directory and its manifest;
    ``with_them`` are other deliverables that are broken with them.
    """

    asked: list[str]
    delivered: Mapping[str, str | None]
    breaks: Callable[[Path, dict[str, Any]], None]
    broken: Mapping[str, tuple[str, str]]
    warned: frozenset[tuple[str, str]] = frozenset()
    noted: frozenset[str] = frozenset()
    also: tuple[dict[str, Any], ...] = ()
    with_them: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Checked:
    """How a session ended, and the record of each campaign by its name."""

    ended: Ended
    records: Mapping[str, Mapping[str, Any]]


def cut(file: Path) -> None:
    """Cut a file in the middle, as a full disk does."""
    file.write_bytes(file.read_bytes()[:file.stat().st_size // 2])


def flip(file: Path) -> None:
    """Flip one bit in the middle."""
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def without_half(file: Path) -> None:
    """Leave out every second tensor."""
    hugging_face.change(file, lambda tensors: dict(list(tensors.items())[::2]))


def break_full(out: Path, manifest: dict[str, Any]) -> None:
    cut(out / "runs/overflow/checkpoint-4/optimizer.pt")
    hugging_face.change(out / f"runs/{COLON}/model.safetensors",
                        lambda tensors: {name: tensor * float("nan") for name, tensor in tensors.items()})
    hugging_face.settings(out / BEST / "checkpoint-4/trainer_state.json",
                          best_model_checkpoint=f"{trainings.OLD_MACHINE}/out/checkpoint-3")
    without_half(out / "runs/only/checkpoint-2/model.safetensors")


def break_at_the_top(out: Path, manifest: dict[str, Any]) -> None:
    cut(out / "model.safetensors")
    hugging_face.tokenizer(out / "checkpoint-2", *(f"new{number}" for number in range(9)))


def break_adapters(out: Path, manifest: dict[str, Any]) -> None:
    without_half(out / "outputs/rank 8 für später/adapter_model.safetensors")
    (out / "outputs/two/style/adapter_model.safetensors").unlink()
    hugging_face.settings(out / f"outputs/{COLON}/checkpoint-2/adapter_config.json", r=16)
    for name in ("adapter_config.json", "checkpoint-2/adapter_config.json", "checkpoint-4/adapter_config.json"):
        hugging_face.settings(out / "sft" / name, revision="main")
    next(base for base in manifest["bases"].values() if base["model"] == BASE["model"])["revision"] = "main"


def break_adapter_at_the_top(out: Path, manifest: dict[str, Any]) -> None:
    del next(iter(manifest["bases"].values()))["revision"]


def break_others(out: Path, manifest: dict[str, Any]) -> None:
    cut(out / "runs/accelerated/step_1/optimizer.bin")
    flip(out / "lightning_logs/version_0/checkpoints/epoch=0-step=4.ckpt")
    (out / "models/embed small/1_Pooling/config.json").unlink()
    cut(out / f"{JOB}/last.pt")
    shutil.rmtree(out / STORE / "artifacts")


SOUND = {
    "full": Sound(
        asked=["/campaign", "/runs"],
        delivered={f"{run}/{id}": "model" for run in ("2026-11-03T10-15-00", "gro-er-mit-Rand", "only", "overflow")
                   for id in ("checkpoint", "checkpoint-2", "checkpoint-4") if (run, id) != ("overflow", "checkpoint")},
        warned=frozenset({
            *(("portable.found-by-name", f"{BEST}/checkpoint-{step}/trainer_state.json") for step in (2, 4)),
            *(("reload.not-resumable", f"runs/only/checkpoint-{step}") for step in (2, 4))}),
        noted=frozenset({_TORCH, _PLACE, _COPY, "portable.odd-name", "content.dead-link"}),
        breaks=break_full,
        broken={"overflow/checkpoint-4": ("reload.truncated", "runs/overflow/checkpoint-4/optimizer.pt"),
                "2026-11-03T10-15-00/checkpoint": ("reload.nan", f"runs/{COLON}/model.safetensors"),
                "gro-er-mit-Rand/checkpoint-4": ("portable.best-checkpoint", f"{BEST}/checkpoint-4/trainer_state.json"),
                "only/checkpoint-2": ("reload.missing-tensors", "runs/only/checkpoint-2/model.safetensors")}),
    "at_the_top": Sound(
        asked=["/campaign"],
        delivered={"checkpoint": "model", "checkpoint-2": "model", "checkpoint-4": "model", "all_results": None,
                   "eval_results": None, "train_results": None, "trainer_state": None, "events": None},
        noted=frozenset({_TORCH, _PLACE, _COPY}),
        breaks=break_at_the_top,
        broken={"checkpoint": ("reload.truncated", "model.safetensors"),
                "checkpoint-2": ("reload.vocabulary", "checkpoint-2/tokenizer.json")}),
    "adapters": Sound(
        asked=["/campaign", "/runs"],
        delivered={"base": "model", "two/adapter": "model", "two/style": "model"}
        | {f"{run}/{id}": "model" for run in ("2026-11-03T10-15-00", "rank-8-fur-spater")
           for id in ("adapter", "checkpoint-2", "checkpoint-4")}
        | {f"sft/{id}": "tensors" for id in ("adapter", "checkpoint-2", "checkpoint-4")},
        noted=frozenset({_TORCH, _PLACE, _COPY, "portable.odd-name", *_NO_BASE}),
        breaks=break_adapters,
        broken={"rank-8-fur-spater/adapter": ("reload.missing-tensors", "outputs/rank 8 für später/adapter_model.safetensors"),
                "two/style": ("reload.no-weights", "outputs/two/style/adapter_config.json"),
                "2026-11-03T10-15-00/checkpoint-2": ("reload.shape", f"outputs/{COLON}/checkpoint-2/adapter_model.safetensors"),
                "sft/adapter": ("base.not-exact", "sft/adapter_config.json")},
        with_them=("sft/checkpoint-2", "sft/checkpoint-4")),
    "adapter_at_the_top": Sound(
        asked=["/campaign", "/bases/tiny"],
        delivered={"adapter": "tensors", "checkpoint-2": "tensors", "checkpoint-4": "tensors", "events": None},
        noted=frozenset({_TORCH, _PLACE, _COPY, *_NO_BASE}),
        breaks=break_adapter_at_the_top,
        broken={id: ("base.not-stated", f"{folder}adapter_config.json")
                for id, folder in (("adapter", ""), ("checkpoint-2", "checkpoint-2/"), ("checkpoint-4", "checkpoint-4/"))}),
    "others": Sound(
        asked=["/campaign", "/runs"],
        delivered={"accelerated/model-model": "tensors", "accelerated/step_1": "tensors",
                   "version_0/checkpoints-epoch-0-step-4": "tensors",
                   "2026-11-03-10-15-00/last": "tensors", "2026-11-03-10-15-00/metrics": None, "embed-small/checkpoint": "model",
                   "tracking": None, "settings": None, "lightning": None, "job-log": None},
        also=({"id": "tracking", "kind": "other", "path": "mlruns"},
              {"id": "settings", "kind": "parameters", "path": f"{JOB}/.hydra"},
              {"id": "lightning", "kind": "parameters", "path": "lightning_logs/version_0/hparams.yaml"},
              {"id": "job-log", "kind": "log", "path": f"{JOB}/trainings.log"}),
        warned=frozenset(("portable.found-by-name", f"mlruns/{path}meta.yaml")
                         for path in ("0/", "18/", "18/879c27bf55a346ed/", "18/bda1b44d10c342fb/")),
        noted=frozenset({_TORCH, _PLACE}),
        breaks=break_others,
        broken={"accelerated/step_1": ("reload.truncated", "runs/accelerated/step_1/optimizer.bin"),
                "version_0/checkpoints-epoch-0-step-4": (
                    "reload.checksum", "lightning_logs/version_0/checkpoints/epoch=0-step=4.ckpt"),
                "embed-small/checkpoint": ("reload.file-missing", "models/embed small/1_Pooling/config.json"),
                "2026-11-03-10-15-00/last": ("reload.truncated", f"{JOB}/last.pt"),
                "tracking": ("portable.temp-path", f"{STORE}/meta.yaml")}),
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All campaigns, moved away from where they were trained: no absolute path in them leads anywhere any more."""
    folder = tmp_path_factory.mktemp("trained")
    subprocess.run([sys.executable, trainings.__file__, str(folder / "machine")], cwd=folder, env=environment(), check=True,
                   capture_output=True, timeout=300)
    return (folder / "machine").rename(folder / "archive")


def fill_in(manifest: dict[str, Any], also: tuple[dict[str, Any], ...]) -> None:
    """Answer what a draft asks."""
    for entry in manifest["todo"]:
        _, first, *rest = entry["pointer"].split("/")
        if first == "campaign":
            manifest["campaign"] = "sound"
        elif first == "bases":
            manifest["bases"][rest[0]]["revision"] = BASE["revision"]
        elif first == "runs":
            for number, run in enumerate(manifest["runs"]):
                run |= {"status": "completed", "role": "variant" if number else "control"}
    manifest["todo"] = []
    manifest["deliverables"] += also
    for listed in manifest["deliverables"]:
        if "tfevents" in listed["path"]:
            listed["id"] = "events"  # the draft names it by a host and a time


@pytest.fixture(scope="module")
def drafted(trained: Path) -> Mapping[str, dict[str, Any]]:
    """The manifest of each campaign as the draft has it."""
    ended = pytest_session(trained, *(f"--campaign-dir={name}" for name in SOUND), "--campaign-draft")
    assert ended.status == 0, ended.out
    return {name: json.loads((trained / name / "manifest.json").read_text()) for name in SOUND}


@pytest.fixture(scope="module")
def filled(drafted: Mapping[str, dict[str, Any]]) -> Mapping[str, dict[str, Any]]:
    """The drafts as a user makes manifests of them."""
    manifests = copy.deepcopy(dict(drafted))
    for name, manifest in manifests.items():
        fill_in(manifest, SOUND[name].also)
    return manifests


def checked(folder: Path, manifests: Mapping[str, Mapping[str, Any]]) -> Checked:
    """Check the campaigns of a folder in one session."""
    for name, manifest in manifests.items():
        (folder / name / "manifest.json").write_text(json.dumps(manifest))
    ended = pytest_session(folder, *(f"--campaign-dir={name}" for name in manifests), "--campaign-report=report.json",
                           HF_HOME=str(folder))
    records = json.loads((folder / "report.json").read_text())["campaigns"]
    return Checked(ended, {Path(record["directory"]).name: record for record in records})


@pytest.fixture(scope="module")
def sound(trained: Path, filled: Mapping[str, dict[str, Any]]) -> Checked:
    """All campaigns as they are."""
    return checked(trained, filled)


@pytest.fixture(scope="module")
def spoiled(trained: Path, filled: Mapping[str, dict[str, Any]], tmp_path_factory: pytest.TempPathFactory) -> Checked:
    """All campaigns after each was broken in several places."""
    folder = shutil.copytree(trained, tmp_path_factory.mktemp("spoiled") / "archive", symlinks=True)
    manifests = copy.deepcopy(dict(filled))
    for name, manifest in manifests.items():
        SOUND[name].breaks(folder / name, manifest)
    return checked(folder, manifests)


def test_all_are_accepted(sound: Checked) -> None:
    assert sound.ended.status == 0, sound.ended.out


@pytest.mark.parametrize("name", SOUND)
def test_the_draft_asks_only_what_no_file_says(name: str, drafted: Mapping[str, dict[str, Any]]) -> None:
    assert [entry["pointer"] for entry in drafted[name]["todo"]] == SOUND[name].asked


@pytest.mark.parametrize("name", SOUND)
def test_each_deliverable_is_reloaded_as_deep_as_it_can(name: str, sound: Checked) -> None:
    found = {entry["id"]: (entry["verdict"], entry["depth"]) for entry in sound.records[name]["deliverables"]}
    assert found == {id: ("accepted", depth) for id, depth in SOUND[name].delivered.items()}


@pytest.mark.parametrize("name", SOUND)
def test_nothing_is_said_that_is_not_so(name: str, sound: Checked) -> None:
    record = sound.records[name]
    findings = [*record["findings"], *(finding for entry in record["deliverables"] for finding in entry["findings"])]
    loud = {(finding["rule"], finding["path"]) for finding in findings if finding["level"] != "note"}
    assert loud == SOUND[name].warned
    quiet = {finding["rule"] for finding in findings if finding["level"] == "note"}
    listed_by_hand = {"fixity.nothing-declared"} if SOUND[name].also else set()
    several = {"identifiers.no-parameters"} if len(record["runs"]) > 1 else set()  # nobody says in what they differ
    always = {"identifiers.no-plan", "plan.no-decision", "fixity.compared"}
    assert quiet == SOUND[name].noted | always | several | listed_by_hand
    assert not [finding for finding in findings if "latest-run" in finding["path"]]  # seen once, not again through the link


@pytest.mark.parametrize(("name", "id"), [(name, id) for name in SOUND for id in SOUND[name].broken])
def test_a_broken_neighbour_is_rejected(name: str, id: str, spoiled: Checked) -> None:
    assert spoiled.ended.status == 1
    [entry] = [entry for entry in spoiled.records[name]["deliverables"] if entry["id"] == id]
    assert entry["verdict"] == "rejected"
    errors = {(finding["rule"], finding["path"]) for finding in entry["findings"] if finding["level"] == "error"}
    assert SOUND[name].broken[id] in errors


@pytest.mark.parametrize("name", SOUND)
def test_a_broken_neighbour_spoils_nothing_else(name: str, spoiled: Checked) -> None:
    entries = spoiled.records[name]["deliverables"]
    assert {entry["id"] for entry in entries if entry["verdict"] != "accepted"} == {*SOUND[name].broken, *SOUND[name].with_them}
