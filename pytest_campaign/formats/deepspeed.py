"""What DeepSpeed's ``save_checkpoint`` leaves: a folder for each step (``global_step800``), and ``latest`` with the name of one.

Every process writes its part of the optimizer, ``[bf16_]zero_pp_rank_<D>_mp_rank_<MM>_optim_states.pt``. The model is written
once for each model-parallel rank, ``mp_rank_<MM>_model_states.pt``, or in stage 3 by every process,
``zero_pp_rank_<D>_mp_rank_<MM>_model_states.pt``. ``latest`` is written last. Experts and pipeline layers have files of their
own, of which nothing says how many there are.

The states say how many there must be: ``partition_count`` of the optimizer (a number or one for each group of parameters, of
which ``zero_to_fp32.py`` takes the largest), ``dp_world_size`` and ``mp_world_size`` of the model. With MiCS only the first
group of processes writes, so that there may be fewer files than processes.

Source: deepspeed/runtime/engine.py (``_get_rank_zero_ckpt_name``, ``_get_ckpt_name``, ``_save_checkpoint``),
deepspeed/runtime/zero/stage_1_and_2.py and stage3.py, deepspeed/utils/zero_to_fp32.py of DeepSpeed 0.16.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence

from .. import paths
from .base import MODEL, OPTIMIZER, Depth, Folder, Format, Holds, Pickled, Problem, ProblemKind, Reading, Source, Unit
from .file_sets import combined, pass_over, stated
from .sharded import read_all
from .streaming import exactly

NAME = "DeepSpeed checkpoint"
LATEST = "latest"
_OPTIMIZER = re.compile(
    r"(?P<prefix>(bf16_|fp16_)?)zero_pp_rank_(?P<data>[0-9]{1,6})_mp_rank_(?P<model>[0-9]{2,6})_?optim_states\.pt")
_MODEL = re.compile(r"(zero_pp_rank_(?P<data>[0-9]{1,6})_)?mp_rank_(?P<model>[0-9]{2,6})_model_states\.pt")
_OTHERS = re.compile(  # of experts, and of the layers of a pipeline
    r"(expp_rank_[0-9]+_mp_rank_[0-9]+_optim|(layer_[0-9]+_)?expert_[0-9]+_mp_rank_[0-9]+_model|layer_[0-9]+-model_[0-9]+-model)"
    r"_states\.pt")
_STEP = re.compile(r"global_step[0-9]+")  # the tag that DeepSpeed gives by itself
_LONGEST_TAG = 200
_SHOWN = 3
_STAGE_3 = 3
_MOST_RANKS = 1_000_000
_MOST_FILES = 1_000_000


def gather(folder: Folder) -> Iterator[Unit]:
    """The states of one step, and a ``latest`` with the names of the steps beside it.

    The names of the states belong to nobody else. Those that ``latest`` chooses from stand in the unit with one file each.
    """
    states = [candidate.path for name, candidate in folder.candidates.items() if _is_state(name)]
    if states:
        yield Unit(NAME, folder.path, tuple(sorted(states)))
    latest = folder.candidates.get(LATEST)
    if latest is None or latest.size > _LONGEST_TAG:
        return
    steps = {name: first for name in folder.folders
             if (first := next((file for file in sorted(folder.below(name)) if _is_state(file)), None))}
    if steps or _STEP.fullmatch(_tag(latest.head)):
        yield Unit(NAME, folder.path, (latest.path, *(paths.join(paths.join(folder.path, name), first)
                                                      for name, first in sorted(steps.items()))))


def _is_state(name: str) -> bool:
    return any(pattern.fullmatch(name) for pattern in (_OPTIMIZER, _MODEL, _OTHERS))


def _tag(data: bytes) -> str:
    return data.decode("utf-8", "replace").strip()


def read(unit: Unit, source: Source) -> Reading:
    """The states of one step against each other and against what they say of their number; or what ``latest`` names."""
    latest = paths.join(unit.path, LATEST)
    return _read_latest(unit, latest, source) if latest in unit.files else _read_states(unit, source)


def _read_latest(unit: Unit, place: str, source: Source) -> Reading:
    with source.open(place) as file:
        tag = _tag(exactly(file, 0, source.size(place)))
    steps = [path.rpartition("/")[0].rpartition("/")[2] for path in unit.files if path != place]
    problems = []
    if tag not in steps:
        there = f"there are {_some(steps)}" if steps else "there is no other step either"
        problems.append(Problem(ProblemKind.SHARD_INDEX, place, f"it names {tag!r}, which is not there; {there}",
                                f"the folder {tag} with its states, or the name of a step that is there"))
    return Reading(NAME, min(source.depth, Depth.TENSORS), [pass_over(place, source)], problems, only_state=True)


def _read_states(unit: Unit, source: Source) -> Reading:
    there = [path for path in unit.files if source.exists(path)]
    readings = read_all(there, source)
    problems, ranks = _complete(unit.path, readings)
    optimizer = any(_OPTIMIZER.fullmatch(_name(path)) or any(name.startswith("optimizer.") for name in reading.layout)
                    for path, reading in readings.items())
    return dataclasses.replace(combined(NAME, readings.values(), problems), ranks=ranks, only_state=True,
                               parts=[MODEL, *([OPTIMIZER] if optimizer else [])])


@dataclasses.dataclass(frozen=True)
class _Said:
    """What the states say: in how many parts the optimizer was divided, how many data- and model-parallel ranks there were."""

    parts: int | None
    data: int | None
    models: int | None
    stage: int | None
    by: str  # the file that says the first

    @property
    def fewer_write(self) -> bool:
        """Whether not every process wrote its part: only one group of them did, as with MiCS."""
        return self.parts is not None and self.data is not None and self.parts < self.data


def _said(readings: Mapping[str, Reading]) -> _Said:
    parts = stated(readings, "optimizer_state_dict", "partition_count")
    data = stated(readings, "dp_world_size")
    stages = [value for _, value in (*stated(readings, "optimizer_state_dict", "zero_stage"),
                                     *stated(readings, "ds_config", "zero_optimization", "stage"))]
    stage = next((stage for stage in stages if isinstance(stage, int)), None)
    by = next((path for path, _ in (*parts, *data)), "")
    return _Said(_most(parts), _most(data), _most(stated(readings, "mp_world_size")), stage, by)


def _most(values: Sequence[tuple[str, object]]) -> int | None:
    """The largest number that any file states, alone or in a list."""
    flat = [one for _, value in values for one in (value if isinstance(value, tuple) else (value,))]
    return max((number for number in flat if isinstance(number, int) and 0 < number <= _MOST_RANKS), default=None)


def _complete(folder: str, readings: Mapping[str, Reading]) -> tuple[list[Problem], int | None]:
    """What is missing, and of how many processes the optimizer's states are there (None when that says nothing)."""
    names = [path.rpartition("/")[2] for path in readings]
    optimizer = [match for match in map(_OPTIMIZER.fullmatch, names) if match]
    model = [match for match in map(_MODEL.fullmatch, names) if match]
    if not optimizer and not model:
        return [], None
    said = _said(readings)
    announced = said.parts or said.data
    found = max((int(match["data"]) + 1 for match in (*optimizer, *model) if match["data"] is not None), default=0)
    count = max(announced or 1, found)
    models = sorted({int(match["model"]) for match in (*optimizer, *model)} | set(range(said.models or 1)))
    if count * len(models) > _MOST_FILES:
        return [Problem(ProblemKind.TOO_LARGE, folder, f"{count:,} times {len(models):,} ranks",
                        f"at most {_MOST_FILES:,} files")], None
    problems = []
    if announced is not None and found > announced:
        problems.append(Problem(ProblemKind.SHARD_INDEX, folder,
                                f"files of {found:,} ranks, where {_name(said.by)} says {announced:,}",
                                "the files of one save in the folder"))
    if optimizer or said.stage:
        prefix = optimizer[0]["prefix"] if optimizer else ""
        wanted = [f"{prefix}zero_pp_rank_{rank}_mp_rank_{part:02d}_optim_states.pt" for part in models for rank in range(count)]
        problems += _missing(folder, "the optimizer", optimizer, wanted, said)
    if said.stage == _STAGE_3 or any(match["data"] is not None for match in model):
        wanted = [f"zero_pp_rank_{rank}_mp_rank_{part:02d}_model_states.pt" for part in models for rank in range(count)]
    else:
        wanted = [f"mp_rank_{part:02d}_model_states.pt" for part in models]
    problems += _missing(folder, "the model", model, wanted, said)
    return problems, len(optimizer) if optimizer and not said.fewer_write else None


def _missing(folder: str, what: str, found: Sequence[re.Match[str]], wanted: Sequence[str], said: _Said) -> Iterator[Problem]:
    there = {match[0].replace("_optim", "optim").replace("optim", "_optim") for match in found}  # older versions wrote no _ there
    absent = [name for name in wanted if name not in there]
    if absent:
        by = f", of which {_name(said.by)} speaks" if said.by else ""
        yield Problem(ProblemKind.SHARD_MISSING, paths.join(folder, absent[0]),
                      f"{len(absent):,} of {len(wanted):,} files with the states of {what} are absent: {_some(absent)}",
                      f"a file of each of the {len(wanted):,} ranks{by}" if len(wanted) > 1 else wanted[0], count=len(absent))


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else "")


FORMAT = Format(
    NAME, Depth.TENSORS, read, gather=gather,
    aliases=("safetensors", "pytorch", "torch", "deepspeed", "zero"), of_others=True, pickled=Pickled.BY_NAME, holds=Holds.STATE)
