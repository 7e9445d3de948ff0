"""Examples of the check ``reload``: points to resume from."""

from __future__ import annotations

import shutil
from pathlib import Path

import torch
from campaigns import WEIGHTS, tensors
from training_states import steps

from . import Level, Verdict, Written, faulty, sound

TWO, FOUR = "runs/control/steps/checkpoint-2", "runs/control/steps/checkpoint-4"


def resumable(made: Written, *, purpose: str = "resume", **options: object) -> Path:
    """The folder of ``checkpoint-4``, delivered as ``control/four``, with ``checkpoint-2`` beside it."""
    steps(made / "runs/control/steps", **options)
    made.add("control/two", "checkpoint", TWO, purpose="resume")
    made.add("control/four", "checkpoint", FOUR, purpose=purpose)
    return made / FOUR


@faulty("reload.not-resumable", "control/four", f"{FOUR}/scheduler.pt")
def no_schedule(made: Written) -> None:
    (resumable(made) / "scheduler.pt").unlink()


@sound("reload.not-resumable", "control/four")
def the_whole_state(made: Written) -> None:
    resumable(made)


@sound("reload.not-resumable", "control/four")
def a_model_for_inference(made: Written) -> None:
    folder = resumable(made, purpose="inference")
    for name in ("optimizer.pt", "scheduler.pt", "rng_state.pth"):
        (folder / name).unlink()


@faulty("reload.not-resumable", "variant/weights", WEIGHTS)
def weights_alone(made: Written) -> None:
    made.deliverable("variant/weights")["purpose"] = "resume"


@faulty("reload.not-resumable", "control/last", "runs/control/last.pt", level=Level.WARNING, verdict=Verdict.ACCEPTED,
        campaign=Verdict.ACCEPTED)
def a_file_of_ones_own_without_an_optimizer(made: Written) -> None:
    made.deliverable("control/last")["purpose"] = "resume"


@sound("reload.not-resumable", "control/last")
def a_file_of_ones_own_with_an_optimizer(made: Written) -> None:
    made.deliverable("control/last")["purpose"] = "resume"
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(3))], lr=0.1)
    torch.save({"model": tensors(), "opt": optimizer.state_dict(), "step": 10}, made / "runs/control/last.pt")


@faulty("reload.optimizer", "control/four", f"{FOUR}/optimizer.pt")
def the_optimizer_of_a_deeper_model(made: Written) -> None:
    folder = resumable(made)
    steps(made / "deeper", layers=3)
    shutil.copy(made / "deeper/checkpoint-4/optimizer.pt", folder)
    shutil.rmtree(made / "deeper")


@sound("reload.optimizer", "control/four")
def an_embedding_that_was_frozen(made: Written) -> None:
    resumable(made, frozen="embed_tokens")


@faulty("reload.progress", "control/two", f"{TWO}/optimizer.pt")
def the_optimizer_of_a_later_step(made: Written) -> None:
    folder = resumable(made)
    shutil.copy(folder / "optimizer.pt", made / TWO)


@sound("reload.progress", "control/two")
def two_steps_of_one_training(made: Written) -> None:
    resumable(made)


@faulty("reload.progress-behind", "control/four", f"{FOUR}/scheduler.pt")
def the_schedule_of_an_earlier_step(made: Written) -> None:
    shutil.copy(made / TWO / "scheduler.pt", resumable(made))


def scaler(folder: Path) -> None:
    torch.save({"scale": 1024.0, "growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 2000, "_growth_tracker": 1},
               folder / "scaler.pt")


@sound("reload.progress-behind", "control/four")
def steps_that_a_scaler_left_out(made: Written) -> None:
    folder = resumable(made)
    shutil.copy(made / TWO / "scheduler.pt", folder)
    scaler(folder)


def in_half_precision(made: Written) -> Path:
    folder = resumable(made)
    arguments = torch.load(folder / "training_args.bin", weights_only=False)
    arguments.fp16 = True
    torch.save(arguments, folder / "training_args.bin")
    return folder


@faulty("reload.no-scaler", "control/four", f"{FOUR}/scaler.pt")
def half_precision_without_a_scaler(made: Written) -> None:
    in_half_precision(made)


@sound("reload.no-scaler", "control/four")
def half_precision_with_its_scaler(made: Written) -> None:
    scaler(in_half_precision(made))


def lightning(made: Written, name: str, step: int) -> None:
    path = f"runs/control/{name}"
    torch.save({"epoch": 1, "global_step": step, "pytorch-lightning_version": "2.6.6", "state_dict": tensors()}, made / path)
    made.add("control/epoch", "checkpoint", path)


@faulty("reload.other-step", "control/epoch", "runs/control/epoch=1-step=40.ckpt")
def a_file_under_another_name(made: Written) -> None:
    lightning(made, "epoch=1-step=40.ckpt", 20)


@sound("reload.other-step", "control/epoch")
def a_name_with_the_epoch_as_step(made: Written) -> None:
    lightning(made, "epoch=1-step=1.ckpt", 20)


@sound("reload.other-step", "control/epoch")
def the_name_that_it_was_given(made: Written) -> None:
    lightning(made, "epoch=1-step=20-v1.ckpt", 20)
