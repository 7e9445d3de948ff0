"""Real trainings with the callbacks: what they leave is accepted without an edit of the manifest, or says why it is not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from recorded_trainings import BASE, cache
from sessions import environment, pytest_session

SCRIPT = Path(__file__).with_name("recorded_trainings.py")
Trained = Callable[..., Path]


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return cache(tmp_path_factory.mktemp("hub"))


@pytest.fixture
def trained(tmp_path: Path, hub: Path) -> Trained:
    def train(name: str, status: int = 0) -> Path:
        done = subprocess.run([sys.executable, SCRIPT, name, tmp_path / name], capture_output=True, text=True,
                              env=environment(HF_HUB_CACHE=str(hub), HF_HUB_OFFLINE="1"), cwd=tmp_path)
        assert done.returncode == status, done.stderr
        return tmp_path / name
    return train


def manifest(out: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((out / "manifest.json").read_text())
    return content


def listed(run: dict[str, Any]) -> dict[str, tuple[str, str, str | None]]:
    return {entry["id"]: (entry["kind"], entry["path"], entry.get("purpose")) for entry in run["deliverables"]}


def verdicts(out: Path, hub: Path, *words: str) -> dict[str, Any]:
    """The report of an accepted campaign."""
    report = out.parent / "report.json"
    session = pytest_session(out.parent, f"--campaign-dir={out}", f"--campaign-report={report}", "-p", "no:cacheprovider", *words,
                             HF_HUB_CACHE=str(hub))
    assert session.status == 0, session.out
    [campaign] = json.loads(report.read_text())["campaigns"]
    assert campaign["verdict"] == "accepted"
    found: dict[str, Any] = campaign
    return found


def test_the_trainer_under_a_plan(trained: Trained, hub: Path) -> None:
    out = trained("full")
    [run] = manifest(out)["runs"]
    assert (run["status"], run["seed"], run["steps"], run["world_size"]) == ("completed", 3, 4, 1)
    assert listed(run) == {
        "checkpoint-2": ("checkpoint", "runs/control/checkpoint-2", "resume"),
        "checkpoint-4": ("checkpoint", "runs/control/checkpoint-4", "resume"),
        "weights": ("checkpoint", "runs/control", "inference"),
        "history": ("metrics", "runs/control/trainer_state.json", None),
        "settings": ("parameters", "runs/control/parameters.json", None)}
    assert json.loads((out / run["parameters"]).read_text())["training"]["learning_rate"] == 0.01
    assert str(out).encode() not in (out / run["parameters"]).read_bytes()
    assert [entry["depth"] for entry in verdicts(out, hub)["deliverables"] if entry["id"] == "control/weights"] == ["model"]


def test_the_trainer_without_a_block(trained: Trained, hub: Path) -> None:
    out = trained("own")
    [run] = manifest(out)["runs"]
    assert run["status"] == "completed"
    assert listed(run)["model"] == ("checkpoint", "runs/control", "inference")  # saved after the training
    verdicts(out, hub)


def test_adapters_name_their_base_exactly(trained: Trained, hub: Path) -> None:
    out = trained("adapters")
    content = manifest(out)
    assert "todo" not in content
    bases = {run["id"]: {json.dumps(entry["base"]) for entry in run["deliverables"] if entry["kind"] == "adapter"}
             for run in content["runs"]}
    assert bases == {"rank4": {json.dumps(BASE)}, "rank2": {json.dumps(BASE)},
                     "inside": {json.dumps({"model": "base", "path": "base"})}}
    for config in out.rglob("adapter_config.json"):
        assert json.loads(config.read_text())["base_model_name_or_path"] in (BASE["model"], "base")
    archives = {path.relative_to(out / "runs").as_posix() for path in out.rglob("base_headers.json")}
    assert archives == {f"{run}/{place}base_headers.json" for run in ("rank2", "inside")
                        for place in ("", "checkpoint-2/", "checkpoint-4/")}
    campaign = verdicts(out, hub)
    assert {entry["depth"] for entry in campaign["deliverables"] if entry["kind"] == "adapter"} == {"model"}
    problems = [finding for entry in campaign["deliverables"] for finding in entry["findings"] if finding["level"] != "note"]
    assert not problems
    assert not [finding for finding in campaign["findings"] if finding["level"] != "note"]


def test_the_output_folder_is_the_campaign_itself(trained: Trained, hub: Path) -> None:
    out = trained("top")
    [run] = manifest(out)["runs"]
    assert listed(run)["adapter"] == ("adapter", ".", "inference")
    verdicts(out, hub)


def test_a_training_that_fails(trained: Trained) -> None:
    out = trained("out_of_memory", status=1)
    for run in manifest(out)["runs"]:
        assert (run["status"], run["abort"]["reason"]) == ("aborted", "MemoryError: the device is full")
        assert list(listed(run)) == ["checkpoint-2"]


def test_a_training_that_is_killed_goes_on(trained: Trained, hub: Path) -> None:
    out = trained("killed", status=-9)
    [run] = manifest(out)["runs"]
    assert (run["status"], run["abort"]["reason"]) == ("aborted", "the process ended before the run did")
    [run] = manifest(trained("killed"))["runs"]
    assert (run["status"], run["first_step"], run["steps"]) == ("completed", 3, 4)
    assert set(listed(run)) == {"checkpoint-2", "checkpoint-4", "metrics"}
    verdicts(out, hub)


def test_lightning(trained: Trained, hub: Path) -> None:
    out = trained("lightning")
    control, wide = manifest(out)["runs"]
    assert {run["status"] for run in (control, wide)} == {"completed"}
    assert (control["seed"], control["steps"], control["world_size"]) == (7, 8, 1)
    assert listed(control) == {
        "best": ("checkpoint", "runs/control/epoch=1-step=8.ckpt", "resume"),
        "last": ("checkpoint", "runs/control/last.ckpt", "resume"),
        "metrics": ("metrics", "runs/control/metrics.csv", None), "hparams": ("parameters", "runs/control/hparams.yaml", None),
        "logs": ("log", "runs/control/board/version_0", None)}
    assert listed(wide)["metrics"] == ("metrics", "runs/wide/metrics.json", None)
    assert json.loads((out / wide["parameters"]).read_text())["width"] == 8
    assert "identifiers.unclaimed" not in {finding["rule"] for finding in verdicts(out, hub)["findings"]}


def test_lightning_that_fails(trained: Trained) -> None:
    [run] = manifest(trained("lightning_fails"))["runs"]
    assert (run["status"], run["abort"]["reason"]) == ("aborted", "MemoryError: the device is full")
    assert "last" in listed(run)


def test_an_output_folder_outside_is_refused_before_the_first_step(tmp_path: Path) -> None:
    from pytest_campaign.recording import Campaign, RecordingError
    from pytest_campaign.recording.transformers import CampaignCallback

    class State:
        is_world_process_zero = True

    class Arguments:
        output_dir = os.fspath(tmp_path / "elsewhere")

    with pytest.raises(RecordingError, match="outside the campaign directory"):
        CampaignCallback(Campaign(tmp_path / "out"), "control").on_train_begin(Arguments(), State(), None)
    with pytest.raises(RecordingError, match="the id of a run"):
        CampaignCallback(Campaign(tmp_path / "out"))
