"""What accelerate's ``save_state`` leaves: weights, optimizers, schedules, samplers, and the random states of every process.

All files but safetensors are those of ``torch.save`` whatever they are called. The random states, which every process writes
last, need names of NumPy, and a sampler is a whole object; inert stand-ins read both. Under FSDP or DeepSpeed model and
optimizer lie in folders of their own (see `torch_distributed` and `deepspeed`), and a hook of the training may save the model
elsewhere, so a folder without a model is no fault by itself.

Source of the names: accelerate/checkpointing.py, utils/constants.py and utils/fsdp_utils.py of accelerate 1.15.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence

from .. import paths
from . import hf_model, peft_adapter
from .base import (
    MODEL,
    OPTIMIZER,
    PROGRESS,
    RANDOM,
    SCHEDULE,
    Candidate,
    Depth,
    Folder,
    Format,
    Holds,
    Pickled,
    Placed,
    Problem,
    ProblemKind,
    Reading,
    Source,
    Unit,
)
from .file_sets import combined, left_out
from .model_files import MODEL_WEIGHTS, as_folder, form_of, read_parts, weight_parts
from .optimizer_state import Peek, in_pieces, misfit, optimizer

NAME = "accelerate state"
_RANDOM = re.compile(r"random_states_(?P<rank>[0-9]{1,6})\.pkl")
_RANKED = re.compile(r"(?P<stem>(pytorch_model_fsdp|optimizer)(_[0-9]+)?_rank)(?P<rank>[0-9]{1,6})\.bin")
_OWN = re.compile(
    rf"{_RANDOM.pattern}|(optimizer|scheduler|sampler|dl_state_dict)(_[0-9]+)?\.bin|scaler\.pt|custom_checkpoint_[0-9]+\.pkl"
    rf"|model_[0-9]+\.safetensors|pytorch_model_[0-9]+\.bin|pytorch_model_fsdp(_[0-9]+)?\.bin"
    r"|(pytorch_model_fsdp|optimizer)(_[0-9]+)?_rank[0-9]{1,6}\.bin")

_OPTIMIZER = re.compile(r"optimizer(_[0-9]+)?\.bin")
_PARTS = {
    MODEL: re.compile(r"(pytorch_)?model"),
    OPTIMIZER: re.compile("optimizer"),
    SCHEDULE: re.compile("scheduler"),
    RANDOM: _RANDOM,
    PROGRESS: re.compile("sampler|dl_state_dict|custom_checkpoint"),
}


def gather(folder: Folder) -> Iterator[Unit]:
    """The state in a folder with the random states of some process; what belongs to a model or an adapter there is left to it."""
    if not any(_RANDOM.fullmatch(name) and form_of(candidate) for name, candidate in folder.candidates.items()):
        return
    models = [path for unit in (*hf_model.gather(folder), *peft_adapter.gather(folder)) for path in unit.files]
    weights = [path for part in weight_parts(folder, MODEL_WEIGHTS) for path in part.files]
    own = [candidate.path for name, candidate in folder.candidates.items() if _OWN.fullmatch(name)]
    yield Unit(NAME, folder.path, tuple(dict.fromkeys(path for path in (*sorted(own), *weights) if path not in models)),
               beside=tuple(path for path in weights if path in models))


def read(unit: Unit, source: Source) -> Reading:
    """Each file by the format of its own, and whether every process left its part."""
    folder = as_folder(unit, source)
    weights = weight_parts(folder, MODEL_WEIGHTS)
    taken = {path for part in weights for path in part.files}
    rest = [_part(candidate) for candidate in folder.candidates.values() if candidate.path not in taken]
    random = [int(match["rank"]) for match in map(_RANDOM.fullmatch, folder.candidates) if match]
    units = [*weights, *rest]
    readings = dict(zip((part.path for part in units), read_parts(units, source), strict=True))
    problems = [*_gaps(unit, folder, random), *_fit(unit, readings, source)]
    names = [path.rpartition("/")[2] for path in readings]
    return dataclasses.replace(
        combined(NAME, readings.values(), problems), ranks=len(random), only_state=True,
        parts=[part for part, pattern in _PARTS.items() if any(map(pattern.match, names))],
        layout=_models([readings[part.path] for part in weights]))


def _models(readings: Sequence[Reading]) -> Mapping[str, Placed]:
    """The tensors of the models; none where they cannot all be told apart by their names."""
    found: dict[str, Placed] = {}
    for reading in readings:
        if reading.depth is None or len(reading.layout) != reading.tensors or not found.keys().isdisjoint(reading.layout):
            return {}
        found |= reading.layout
    return found


def _fit(unit: Unit, readings: Mapping[str, Reading], source: Source) -> Iterator[Problem]:
    """Whether the optimizers are those of the models; a hook of the training may save these elsewhere."""
    beside = weight_parts(as_folder(dataclasses.replace(unit, files=unit.beside), source), MODEL_WEIGHTS)
    found: dict[str, Placed] = {}
    for path, reading in (*readings.items(), *zip((part.path for part in beside), read_parts(beside, Peek(source)), strict=True)):
        if _PARTS[MODEL].match(path.rpartition("/")[2]):
            if reading.depth is None or len(reading.layout) != reading.tensors:
                return
            found |= {f"{path}#{name}": placed for name, placed in reading.layout.items()}
    for path, reading in readings.items():
        if found and not in_pieces(found) and _OPTIMIZER.fullmatch(path.rpartition("/")[2]):
            one = optimizer(reading, source)
            if one is not None and (why := misfit([one], [placed.shape for placed in found.values()])):
                yield Problem(ProblemKind.OPTIMIZER, path, *why)


def _part(candidate: Candidate) -> Unit:
    return Unit(form_of(candidate), candidate.path, (candidate.path,))


def _gaps(unit: Unit, folder: Folder, random: list[int]) -> Iterator[Problem]:
    """Numbers of processes that are left out: they count from zero."""
    numbered = {"random_states_{}.pkl": random}
    for match in filter(None, map(_RANKED.fullmatch, folder.candidates)):
        numbered.setdefault(match["stem"] + "{}.bin", []).append(int(match["rank"]))
    for name, numbers in numbered.items():
        absent = [name.format(number) for number in left_out(numbers)]
        if absent:
            yield Problem(ProblemKind.SHARD_MISSING, paths.join(unit.path, absent[0]),
                          f"{len(absent):,} of {len(absent) + len(numbers):,} processes left no {name.format('N')}: "
                          + ", ".join(absent[:3]), f"numbers from 0 to {max(numbers):,} without a gap", count=len(absent))


FORMAT = Format(
    NAME, Depth.TENSORS, read, gather=gather,
    aliases=("safetensors", "pytorch", "torch", "fsdp", "accelerate"), of_others=True, pickled=Pickled.BY_NAME, holds=Holds.STATE)
