"""Folders that distributed trainings leave, found without a manifest: each is one deliverable."""

import json

import hugging_face
import torch
from campaigns import tensors
from training_states import accelerate, distributed, trained, zero

from pytest_campaign import snapshot
from pytest_campaign.campaign import Asked


def found(root):
    """The deliverables that are discovered, by path with the formats of their checkpoints."""
    campaign = snapshot.campaign(snapshot.take(root), Asked())
    return {deliverable.path: sorted({unit.format for unit in campaign.units_of(deliverable)})
            for deliverable in campaign.deliverables}


def test_a_distributed_checkpoint(tmp_path):
    distributed(tmp_path / "runs/a/state")
    assert found(tmp_path) == {"runs/a/state": ["torch distributed checkpoint"]}


def test_a_distributed_checkpoint_without_its_metadata(tmp_path):
    (distributed(tmp_path / "runs/a/state") / ".metadata").unlink()
    assert found(tmp_path) == {"runs/a/state": ["torch distributed checkpoint"]}


def test_a_state_of_fsdp_is_one_with_its_folders(tmp_path):
    model, optimizer = trained()
    state = accelerate(tmp_path / "runs/a/state")
    for name in ("model.safetensors", "optimizer.bin"):
        (state / name).unlink()
    distributed(state / "pytorch_model_fsdp_0", {"model": model.state_dict()})
    distributed(state / "optimizer_0", {"optimizer": optimizer.state_dict()})
    assert found(tmp_path) == {"runs/a/state": ["accelerate state", "torch distributed checkpoint"]}


def test_a_step_of_the_trainer_with_fsdp(tmp_path):
    step = tmp_path / "runs/a/checkpoint-100"
    distributed(step / "pytorch_model_fsdp_0", {"model": tensors()})
    (step / "trainer_state.json").write_text(json.dumps({"global_step": 100}))
    torch.save({"last_epoch": 100}, step / "scheduler.pt")
    assert found(tmp_path) == {"runs/a/checkpoint-100": ["Trainer state", "torch distributed checkpoint"]}


def test_a_checkpoint_of_deepspeed_is_one_with_its_steps(tmp_path):
    zero(tmp_path / "runs/a/zero", 400)
    zero(tmp_path / "runs/a/zero", 800)
    assert found(tmp_path) == {"runs/a/zero": ["DeepSpeed checkpoint"]}


def test_a_step_of_deepspeed_alone(tmp_path):
    zero(tmp_path / "runs/a", 800, latest=False)
    assert found(tmp_path) == {"runs/a/global_step800": ["DeepSpeed checkpoint"]}


def test_a_step_of_the_trainer_with_deepspeed(tmp_path):
    hugging_face.model(tmp_path / "runs/a/checkpoint-800")
    zero(tmp_path / "runs/a/checkpoint-800", 800)
    assert found(tmp_path) == {"runs/a/checkpoint-800": ["DeepSpeed checkpoint", "Hugging Face model"]}


def test_a_state_beside_a_model(tmp_path):
    hugging_face.model(accelerate(tmp_path / "runs/a/state"))
    assert found(tmp_path) == {"runs/a/state": ["Hugging Face model", "accelerate state"]}


def test_a_file_called_latest_makes_nothing_of_a_folder(tmp_path):
    (tmp_path / "runs").mkdir()
    for name in ("a.pt", "b.pt"):
        torch.save(tensors(), tmp_path / "runs" / name)
    (tmp_path / "runs/latest").write_text("b.pt")
    assert found(tmp_path) == {"runs/a.pt": ["torch zip"], "runs/b.pt": ["torch zip"]}
