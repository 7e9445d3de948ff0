"""Checkpoints of Lightning: a file of ``torch.save`` with the model's tensors in ``state_dict`` beside the state of the trainer.

Source: ``dump_checkpoint`` in lightning/pytorch/trainer/connectors/checkpoint_connector.py of Lightning 2.6, whose first keys
are ``epoch``, ``global_step`` and ``pytorch-lightning_version``. The sharded strategies of FSDP and DeepSpeed leave folders
instead; the ``meta.pt`` beside an FSDP checkpoint is such a file without tensors.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from . import torch_zip
from .base import MODEL, OPTIMIZER, PROGRESS, SCHEDULE, Depth, Format, Holds, Pickled, Problem, ProblemKind, Reading, Source, Unit
from .optimizer_state import misfit, optimizer

NAME = torch_zip.LIGHTNING
_VERSION = "pytorch-lightning_version"
_BESIDE_SHARDS = "meta.pt"
_PARTS = {"state_dict": MODEL, "optimizer_states": OPTIMIZER, "lr_schedulers": SCHEDULE, "loops": PROGRESS}


def read(unit: Unit, source: Source) -> Reading:
    """The file as torch_zip reads it, whether the model is in it, and whether the optimizers are that model's."""
    reading = torch_zip.read(unit, source)
    problems = list(reading.problems)
    tensors = any(name.startswith("state_dict.") for name in reading.layout)
    if reading.stated and not tensors and unit.path.rpartition("/")[2] != _BESIDE_SHARDS:
        problems = [problem for problem in problems if problem.kind is not ProblemKind.NO_TENSORS]
        keys = ", ".join(sorted({chain[0] for chain in reading.stated})[:8])
        observed = "an empty state_dict" if ("state_dict",) in reading.stated else f"no state_dict: {keys}"
        problems.append(Problem(
            ProblemKind.NO_WEIGHTS, unit.path,
            f"a checkpoint of Lightning {reading.stated.get((_VERSION,), '')} with {observed}",
            "state_dict with the model's tensors", "state_dict"))
    step = reading.stated.get(("global_step",))
    step = step if type(step) is int and step >= 0 else None
    problems += _optimizers(unit.path, reading, step, source)
    return dataclasses.replace(reading, format=NAME, problems=problems, step=step,
                               parts=[part for key, part in _PARTS.items() if (key,) in reading.stated])


def _optimizers(path: str, reading: Reading, step: int | None, source: Source) -> Iterator[Problem]:
    """The optimizers against the model and against the number of steps, which counts those of all optimizers together."""
    numbers = sorted({chain[1] for chain in reading.stated if chain[0] == "optimizer_states" and len(chain) > 1})
    found = [one for number in numbers if (one := optimizer(reading, source, "optimizer_states", number)) is not None]
    model = [placed.shape for name, placed in reading.layout.items() if name.startswith("state_dict.")]
    if model and (why := misfit(found, model)):
        yield Problem(ProblemKind.OPTIMIZER, path, *why, "optimizer_states")
    made = max((one.step for one in found if one.step is not None), default=None)
    if made is not None and step is not None and made > step:
        yield Problem(ProblemKind.PROGRESS, path, f"an optimizer has made {made:,} steps, and global_step is {step:,}",
                      f"at most {step:,} steps", "optimizer_states")


FORMAT = Format(
    NAME, Depth.TENSORS, read, torch_zip.is_lightning,
    aliases=("pytorch", "torch", "pt"), pickled=Pickled.YES, holds=Holds.STATE)
