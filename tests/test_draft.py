"""Drafts: what they list, what they leave out, and that a draft whose todo is done is accepted."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from pytest_campaign import snapshot
from pytest_campaign.base_lookup import Shelf
from pytest_campaign.documents import read_manifest
from pytest_campaign.draft import Refused, draft, write


def put(directory: Path, files: Mapping[str, str | bytes]) -> None:
    for path, content in files.items():
        target = directory / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content if isinstance(content, bytes) else content.encode())


def put_weights(directory: Path, *paths: str) -> None:
    for path in paths:
        (directory / path).parent.mkdir(parents=True, exist_ok=True)
        if path.endswith(".safetensors"):
            save_file({"layer.weight": torch.ones(4, 4)}, directory / path)
        else:
            torch.save({"layer.weight": torch.ones(4, 4)}, directory / path)


def listed(directory: Path) -> dict[str, tuple[str, str]]:
    """Full id -> (kind, path) of a draft, which must itself be a valid manifest."""
    content = draft(snapshot.take(directory), Shelf())
    manifest, faults = read_manifest(json.dumps(content).encode())
    assert manifest is not None
    assert not faults
    return {deliverable.id: (deliverable.kind, deliverable.path) for deliverable in manifest.deliverables}


def test_runs_ids_and_kinds_come_from_the_paths(tmp_path: Path) -> None:
    put_weights(tmp_path, "runs/control/final.safetensors", "runs/control/last.pt", "runs/rank8/last.pt")
    put(tmp_path, {
        "runs/control/metrics.json": '{"loss": 1}', "runs/control/predictions.jsonl": '{"id": 1}\n',
        "runs/control/train.log": "done\n", "runs/control/hparams.yaml": "lr: 1\n", "data/test.jsonl": '{"id": 1}\n',
        "analysis/errors.md": "none\n", "notes.bin": b"\1\2",
    })
    assert listed(tmp_path) == {
        "control/final": ("checkpoint", "runs/control/final.safetensors"),
        "control/last": ("checkpoint", "runs/control/last.pt"),
        "control/metrics": ("metrics", "runs/control/metrics.json"),
        "control/predictions": ("predictions", "runs/control/predictions.jsonl"),
        "control/train": ("log", "runs/control/train.log"),
        "control/hparams": ("parameters", "runs/control/hparams.yaml"),
        "rank8/last": ("checkpoint", "runs/rank8/last.pt"),
        "data-test": ("dataset", "data/test.jsonl"),
        "analysis-errors": ("analysis", "analysis/errors.md"),
        "notes": ("other", "notes.bin"),
    }


def test_what_needs_no_deliverable_is_left_out(tmp_path: Path) -> None:
    put_weights(tmp_path, "last.pt")
    put(tmp_path, {"README.md": "x", "wandb/run/config.yaml": "x", ".hydra/config.yaml": "x", "DONE": "", "plan.json": "{}"})
    assert listed(tmp_path) == {"last": ("checkpoint", "last.pt")}


def test_a_folder_with_others_in_it_is_a_run(tmp_path: Path) -> None:
    for folder in ("sft", "sft/checkpoint-2", "alone"):
        put_weights(tmp_path, f"{folder}/adapter_model.safetensors")
        put(tmp_path, {f"{folder}/adapter_config.json": "{}"})
    assert listed(tmp_path) == {"sft/adapter": ("adapter", "sft"), "sft/checkpoint-2": ("adapter", "sft/checkpoint-2"),
                                "alone": ("adapter", "alone")}


def test_each_job_of_hydra_is_a_run(tmp_path: Path) -> None:
    for job in ("outputs/2026-11-03/10-15-00", "multirun/2026-11-03/10-20-00/0", "multirun/2026-11-03/10-20-00/1"):
        put_weights(tmp_path, f"{job}/model.pt")
        put(tmp_path, {f"{job}/.hydra/config.yaml": "seed: 1\n"})
    put(tmp_path, {"multirun/2026-11-03/10-20-00/multirun.yaml": "hydra: 1\n"})
    assert listed(tmp_path) == {
        "2026-11-03-10-15-00/model": ("checkpoint", "outputs/2026-11-03/10-15-00/model.pt"),
        "2026-11-03-10-20-00-0/model": ("checkpoint", "multirun/2026-11-03/10-20-00/0/model.pt"),
        "2026-11-03-10-20-00-1/model": ("checkpoint", "multirun/2026-11-03/10-20-00/1/model.pt"),
        "2026-11-03-10-20-00-multirun": ("other", "multirun/2026-11-03/10-20-00/multirun.yaml"),
    }


def test_events_of_tensorboard_are_logs_and_make_no_run(tmp_path: Path) -> None:
    put_weights(tmp_path, "last.pt")
    put(tmp_path, {"runs/Nov03_10-15-00_host/events.out.tfevents.1.host.2.0": "x", "runs/control/events.out.tfevents.1": "x"})
    assert listed(tmp_path) == {
        "last": ("checkpoint", "last.pt"),
        "events.out.tfevents.1.host.2": ("log", "runs/Nov03_10-15-00_host/events.out.tfevents.1.host.2.0"),
        "control/events.out.tfevents": ("log", "runs/control/events.out.tfevents.1"),
    }


def test_the_state_of_a_scheduler_is_no_checkpoint(tmp_path: Path) -> None:
    put_weights(tmp_path, "run/model.pt", "run/scheduler.pt")
    assert listed(tmp_path) == {"run/model": ("checkpoint", "run/model.pt"), "run/scheduler": ("other", "run/scheduler.pt")}


def test_a_folder_is_promised_without_what_tools_keep_there_and_each_file_once(tmp_path: Path) -> None:
    put_weights(tmp_path, "model/model.safetensors")
    put(tmp_path, {
        "model/config.json": '{"model_type": "llama"}', "model/wandb/run-1/config.yaml": "x", "model/parts/a.txt": "x"})
    os.symlink("run-1", tmp_path / "model/wandb/latest-run")
    os.symlink("parts", tmp_path / "model/latest")
    [entry] = draft(snapshot.take(tmp_path), Shelf())["deliverables"]
    assert [file["path"] for file in entry["files"]] == ["model/config.json", "model/model.safetensors", "model/parts/a.txt"]


def test_what_is_shared_is_asked_once(tmp_path: Path) -> None:
    named = {"r2": "acme/tiny", "r4": "acme/tiny", "r8": "acme/other"}
    for folder, base in named.items():
        put_weights(tmp_path, f"{folder}/adapter_model.safetensors")
        put(tmp_path, {f"{folder}/adapter_config.json": json.dumps({"base_model_name_or_path": base, "revision": None})})
    content = draft(snapshot.take(tmp_path), Shelf())
    assert content["bases"] == {"tiny": {"model": "acme/tiny"}}
    assert [entry["base"] for entry in content["deliverables"]] == ["tiny", "tiny", {"model": "acme/other"}]
    assert [entry["pointer"] for entry in content["todo"]] == ["/campaign", "/bases/tiny", "/deliverables/2/base"]


def test_accents_are_left_out_of_ids(tmp_path: Path) -> None:
    put_weights(tmp_path, "für später/épée 1.pt")
    assert listed(tmp_path) == {"fur-spater/epee-1": ("checkpoint", "für später/épée 1.pt")}


def test_ids_are_unique_and_fit_the_grammar(tmp_path: Path) -> None:
    put_weights(tmp_path, "a/x.pt", "a/x.safetensors", "a/épée 1.pt", "a/X.pth", "a/--.pt", "a/__")
    found = listed(tmp_path)
    assert len(found) == 6
    assert len({id.casefold() for id in found}) == 6


@pytest.mark.parametrize("name", ["bad\nname", "back\\slash"])
def test_a_path_that_no_manifest_may_name_is_left_out(tmp_path: Path, name: str) -> None:
    put_weights(tmp_path, "last.pt", f"{name}/last.pt", f"{name}.pt")
    put(tmp_path, {f"{name}.txt": "x"})
    assert listed(tmp_path) == {"last": ("checkpoint", "last.pt")}


def test_sizes_and_digests_are_those_of_the_files(tmp_path: Path) -> None:
    put_weights(tmp_path, "last.pt")
    [entry] = draft(snapshot.take(tmp_path), Shelf())["deliverables"]
    data = (tmp_path / "last.pt").read_bytes()
    assert entry["files"] == [{"path": "last.pt", "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}]


def test_a_plan_is_recorded_with_its_digest(tmp_path: Path) -> None:
    put_weights(tmp_path, "last.pt")
    put(tmp_path, {"plan.json": "{}"})
    assert draft(snapshot.take(tmp_path), Shelf())["plan"] == {"path": "plan.json", "sha256": hashlib.sha256(b"{}").hexdigest()}


@pytest.mark.parametrize("there", ["file", "link", "folder"])
def test_nothing_is_overwritten(tmp_path: Path, there: str) -> None:
    put_weights(tmp_path, "last.pt")
    target = tmp_path / "manifest.json"
    {"file": lambda: target.write_text("mine"), "link": lambda: os.symlink("elsewhere", target), "folder": target.mkdir}[there]()
    before = sorted(os.listdir(tmp_path))
    with pytest.raises(Refused, match="never overwritten"):
        write(tmp_path, Shelf())
    assert sorted(os.listdir(tmp_path)) == before


def test_an_empty_directory_has_no_draft(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="nothing to list"):
        write(tmp_path, Shelf())
    assert not list(tmp_path.iterdir())


def test_only_the_manifest_is_written(tmp_path: Path) -> None:
    put_weights(tmp_path, "runs/control/last.pt")
    target, content = write(tmp_path, Shelf())
    written: dict[str, Any] = json.loads(target.read_text())
    assert written == content
    assert sorted(path.name for path in tmp_path.iterdir()) == ["manifest.json", "runs"]
    assert [entry["pointer"] for entry in written["todo"]] == ["/campaign", "/runs"]
