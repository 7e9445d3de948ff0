"""What the Trainer of transformers leaves beside the model in ``checkpoint-500``: all that it needs to go on from there.

``optimizer.pt`` (under FSDP ``optimizer.bin``), ``scheduler.pt``, ``scaler.pt`` after a training in half precision,
``rng_state.pth`` or one ``rng_state_<rank>.pth`` of each process, ``training_args.bin``, and ``trainer_state.json``, which is
written last. Random states and arguments are objects of NumPy and of the library; inert stand-ins read them. With a missing
optimizer or schedule the Trainer starts both anew and says nothing; an optimizer of another model can end the process.

The files are compared with each other and with the names and shapes of the weights in the same folder, whose values are read by
the format of the model or the adapter.

Source: transformers/trainer.py (``_save_checkpoint``, ``_load_optimizer_and_scheduler``) of transformers 5.24.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .. import paths
from . import rebuilding
from .base import (
    OPTIMIZER,
    PROGRESS,
    RANDOM,
    SCHEDULE,
    Candidate,
    Depth,
    Folder,
    Format,
    Pickled,
    Placed,
    Problem,
    ProblemKind,
    Reading,
    Source,
    Unit,
)
from .file_sets import combined, left_out
from .model_files import (
    ADAPTER_CONFIG,
    ADAPTER_WEIGHTS,
    CONFIG,
    MODEL_WEIGHTS,
    Documents,
    as_folder,
    form_of,
    read_parts,
    settings,
    weight_parts,
    whole_layout,
)
from .optimizer_state import Optimizer, Peek, Shape, in_pieces, misfit, optimizer

NAME = "Trainer state"
STATE, ARGUMENTS, SCALER = "trainer_state.json", "training_args.bin", "scaler.pt"
# The files of each part of the state. On TPUs and SageMaker each process writes its own optimizer.
FILES: Mapping[str, re.Pattern[str]] = {
    OPTIMIZER: re.compile(r"(rank[0-9]+-of-[0-9]+-)?optimizer\.pt|optimizer\.bin|optimizer\.pt_[0-9_]+"),
    SCHEDULE: re.compile(r"scheduler\.pt"),
    RANDOM: re.compile(r"rng_state(_(?P<rank>[0-9]{1,6}))?\.pth"),
    PROGRESS: re.compile(r"trainer_state\.json"),
}
_BESIDES = frozenset({ARGUMENTS, SCALER})
_STEP = re.compile(r"checkpoint-[0-9]+")
_OF_ACCELERATE = re.compile(r"random_states_[0-9]+\.pkl")
# The methods whose file holds the trained parameters as they are. Others store what they compute from them, or a part.
_PLAIN_METHODS = frozenset({"LORA", "IA3", "LOHA", "LOKR", "LN_TUNING", "PROMPT_TUNING"})
_SEVERAL_PER_STEP = ("num_ppo_epochs",)  # a training that makes several steps of the optimizer in one of its own (TRL)


def is_step(path: str) -> bool:
    """Whether a folder has the name that the Trainer gives to a step."""
    return _STEP.fullmatch(path.rpartition("/")[2]) is not None


def gather(folder: Folder) -> Iterator[Unit]:
    """The state in a folder with an optimizer, a schedule, a scaler or random states, and a mark of the Trainer."""
    names = folder.candidates
    parts = {part: [name for name in names if pattern.fullmatch(name)] for part, pattern in FILES.items()}
    marked = parts[PROGRESS] or parts[RANDOM] or ARGUMENTS in names or is_step(folder.path)
    state = [*parts[OPTIMIZER], *parts[SCHEDULE], *parts[RANDOM], *({SCALER} & names.keys())]
    if not marked or not state or any(map(_OF_ACCELERATE.fullmatch, names)):
        return
    own = sorted({*state, *parts[PROGRESS], *(_BESIDES & names.keys())})
    beside = [names[name].path for name in (CONFIG, ADAPTER_CONFIG) if name in names]
    for pattern in (MODEL_WEIGHTS, ADAPTER_WEIGHTS):
        beside += (path for part in weight_parts(folder, pattern) for path in part.files)
    yield Unit(NAME, folder.path, tuple(names[name].path for name in own), beside=tuple(dict.fromkeys(beside)))


def read(unit: Unit, source: Source) -> Reading:
    """Every file by the format of its own, against each other and against the model."""
    documents = Documents(unit, source)
    state = documents.object(STATE)
    folder = as_folder(unit, source)
    readings = {name: _read(candidate, source) for name, candidate in folder.candidates.items() if name != STATE}
    parts = [part for part, pattern in FILES.items() if any(map(pattern.fullmatch, folder.candidates))]
    optimizers = {name: found for name, reading in readings.items()
                  if FILES[OPTIMIZER].fullmatch(name) and (found := optimizer(reading, source)) is not None}
    ranks = [int(match["rank"]) for match in map(FILES[RANDOM].fullmatch, readings) if match and match["rank"]]
    problems = [dataclasses.replace(problem, kind=ProblemKind.PROGRESS) for problem in documents.problems]
    problems += _ranks(unit, ranks)
    problems += _fit(unit, optimizers, source)
    step = None
    if state is not None:
        step = _count(state.get("global_step"))
        problems += _progress(unit, state, step, readings, optimizers, len(ranks))
    whole = combined(NAME, readings.values(), problems, documents.facts)
    return dataclasses.replace(
        whole, problems=[problem for problem in whole.problems if problem.kind is not ProblemKind.NO_TENSORS],
        ranks=len(ranks) or (1 if RANDOM in parts else None), only_state=True, parts=parts, step=step)


def _read(candidate: Candidate, source: Source) -> Reading:
    return read_parts([Unit(form_of(candidate), candidate.path, (candidate.path,))], source)[0]


def _count(value: Any) -> int | None:
    return value if type(value) is int and value >= 0 else None


def _ranks(unit: Unit, ranks: Sequence[int]) -> Iterator[Problem]:
    absent = [f"rng_state_{rank}.pth" for rank in left_out(ranks)]
    if absent:
        yield Problem(ProblemKind.SHARD_MISSING, paths.join(unit.path, absent[0]),
                      f"{len(absent):,} of {len(absent) + len(ranks):,} processes left no random state: {', '.join(absent[:3])}",
                      f"numbers from 0 to {max(ranks):,} without a gap", count=len(absent))


def _fit(unit: Unit, optimizers: Mapping[str, Optimizer], source: Source) -> Iterator[Problem]:
    """Whether the optimizer is that of the model or the adapter beside it."""
    folder = as_folder(dataclasses.replace(unit, files=unit.beside), source)
    stored = _stored(folder, source) if optimizers else None
    if not stored or (why := misfit(optimizers.values(), [placed.shape for placed in stored.values()])) is None:
        return
    built = _built(folder, source)
    if (built is None and in_pieces(stored)) or (built is not None and misfit(optimizers.values(), built) is None):
        return
    yield Problem(ProblemKind.OPTIMIZER, paths.join(unit.path, next(iter(optimizers))), *why)


def _built(folder: Folder, source: Source) -> list[Shape] | None:
    """The shapes of the model's parameters in memory, None where the library does not build it."""
    config = settings(folder.candidates.get(CONFIG))
    if config is None or source.depth < Depth.MODEL:
        return None
    try:
        return rebuilding.parameter_shapes(config)
    except (rebuilding.NotRebuilt, rebuilding.Refused):
        return None


def _stored(folder: Folder, source: Source) -> Mapping[str, Placed] | None:
    """The tensors of the weights in the folder, all of which can have been trained; None where they do not tell."""
    config = settings(folder.candidates.get(CONFIG)) or {}
    adapter = settings(folder.candidates.get(ADAPTER_CONFIG)) or {}
    found: dict[str, Placed] = {}
    for pattern in (MODEL_WEIGHTS, ADAPTER_WEIGHTS):
        if parts := weight_parts(folder, pattern):
            layout = whole_layout(read_parts(parts[:1], Peek(source)))
            if layout is None:
                return None
            found |= layout
            if pattern is ADAPTER_WEIGHTS and adapter.get("peft_type") not in _PLAIN_METHODS:
                return None
    return None if config.get("quantization_config") else found


def _progress(
    unit: Unit, state: Mapping[str, Any], step: int | None, readings: Mapping[str, Reading], optimizers: Mapping[str, Optimizer],
    ranks: int
) -> Iterator[Problem]:
    """The counters of the Trainer, its schedule and its optimizer against each other."""
    place = paths.join(unit.path, STATE)
    if step is None:
        shown = str(state.get("global_step"))[:40]
        yield Problem(ProblemKind.PROGRESS, place, f"global_step is {shown}", "the number of steps", "/global_step")
        return
    arguments = readings[ARGUMENTS].stated if ARGUMENTS in readings else {}
    half = arguments.get(("fp16",)) is True
    yield from _sane(place, state, step)
    if half and SCALER not in readings and optimizers:
        yield Problem(ProblemKind.NO_SCALER, paths.join(unit.path, SCALER), f"{ARGUMENTS} says fp16, and there is no {SCALER}",
                      "the state of the scaler; without it the loss scale starts at its highest again")
    for name, said in _counters(readings, optimizers):
        if name in optimizers and any((key,) in arguments for key in _SEVERAL_PER_STEP):
            continue
        where = paths.join(unit.path, name)
        observed = f"it counts {said:,} steps, and {STATE} says global_step {step:,}"
        # accelerate moves a schedule that it prepared on once for each process
        if said > step and not (name not in optimizers and said == step * ranks):
            yield Problem(ProblemKind.PROGRESS, where, observed, f"{step:,} steps: the files of one save")
        elif said < step and not half and SCALER not in readings:  # a scaler leaves out steps that overflow
            yield Problem(ProblemKind.BEHIND, where, observed, f"{step:,} steps, unless steps were left out")
    for name, one in optimizers.items():
        if step and one.keeps_state and not one.states:
            yield Problem(ProblemKind.OPTIMIZER, paths.join(unit.path, name), f"it has no state after {step:,} steps",
                          "the moments of every trained parameter")


def _sane(place: str, state: Mapping[str, Any], step: int) -> Iterator[Problem]:
    most, epoch = _count(state.get("max_steps")), state.get("epoch")
    if most and step > most:
        yield Problem(ProblemKind.BEHIND, place, f"global_step {step:,} is beyond max_steps {most:,}", f"at most {most:,}",
                      "/global_step")
    if isinstance(epoch, (int, float)) and not (math.isfinite(epoch) and epoch >= 0):
        yield Problem(ProblemKind.PROGRESS, place, f"epoch is {epoch}", "a number of epochs", "/epoch")


def _counters(readings: Mapping[str, Reading], optimizers: Mapping[str, Optimizer]) -> Iterator[tuple[str, int]]:
    """(file, steps that it counts). A schedule that follows a metric counts evaluations."""
    for name, reading in readings.items():
        last = _count(reading.stated.get(("last_epoch",))) if FILES[SCHEDULE].fullmatch(name) else None
        if last is not None and ("num_bad_epochs",) not in reading.stated:
            yield name, last
    for name, one in optimizers.items():
        if one.step is not None:
            yield name, one.step


FORMAT = Format(
    NAME, Depth.TENSORS, read, gather=gather, preload=rebuilding.LIBRARIES,
    aliases=("safetensors", "pytorch", "torch", "transformers", "huggingface", "hf", "trainer"),
    of_others=True, pickled=Pickled.BY_NAME)
