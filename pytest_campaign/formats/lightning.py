"""Checkpoints of Lightning: a file of ``torch.save`` with the model's tensors in ``state_dict`` beside the state of the trainer.

Source: ``dump_checkpoint`` in lightning/pytorch/trainer/connectors/checkpoint_connector.py of Lightning 2.6, whose first keys
are ``epoch``, ``global_step`` and ``pytorch-lightning_version``. The sharded strategies of FSDP and DeepSpeed leave folders
instead; the ``meta.pt`` beside an FSDP checkpoint is such a file without tensors.
"""

from __future__ import annotations

import dataclasses

from . import torch_zip
from .base import Depth, Format, Problem, ProblemKind, Reading, Source, Unit

NAME = torch_zip.LIGHTNING
_VERSION = "pytorch-lightning_version"
_BESIDE_SHARDS = "meta.pt"


def read(unit: Unit, source: Source) -> Reading:
    """The file as torch_zip reads it, and whether the model is in it."""
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
    return dataclasses.replace(reading, format=NAME, problems=problems)


FORMAT = Format(NAME, Depth.TENSORS, read, torch_zip.is_lightning)
