"""Whether a training can go on from a deliverable: every part of its state is there, and the parts agree.

Only ``purpose: resume`` asks for it. What a folder of the Trainer lacks is worth a warning when nobody says what it is for;
a model for inference needs none of it.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence

from ... import paths
from ...campaign import WEIGHTS, Campaign, Deliverable
from ...findings import Finding, Level
from ...formats import accelerate_state, deepspeed, formats, lightning, trainer_state
from ...formats.base import MODEL, OPTIMIZER, PROGRESS, RANDOM, SCHEDULE, Holds, Problem, ProblemKind, Reading, Unit
from ...inventory import Entry
from . import rules
from .training_state import INFERENCE, RESUME

_OF_RESUMING = frozenset({ProblemKind.OPTIMIZER, ProblemKind.PROGRESS, ProblemKind.BEHIND, ProblemKind.NO_SCALER})
_VALUES = frozenset({ProblemKind.NAN, ProblemKind.INFINITE})
# The parts of a checkpoint of the Trainer: the file to name, and what happens without it.
_NEEDED = (
    (OPTIMIZER, "optimizer.pt", "the Trainer starts optimizer and schedule anew, and says nothing"),
    (SCHEDULE, "scheduler.pt", "the Trainer starts optimizer and schedule anew, and says nothing"),
    (PROGRESS, trainer_state.STATE, "the Trainer does not resume without it, and it is written last"),
    (RANDOM, "rng_state.pth", "the order of the data and the dropout are then others"),
)
_REMEDY = "copy it from where it was trained, or save with save_only_model=False; say purpose: inference if it is a model only"
_MAY_BE_OPTIMIZER = re.compile(r"(^|[/._-])optim", re.IGNORECASE)
_NAMED_STEP = re.compile(r"(^|[-_])step=(?P<step>[0-9]{1,15})(?=[-_.]|$)")
_NAMED_EPOCH = re.compile(r"(^|[-_])epoch=(?P<epoch>[0-9]{1,15})(?=[-_.]|$)")
_SHOWN = 3


def level(problem: Problem, reading: Reading, deliverable: Deliverable) -> Level | None:
    """The level of a problem where it is not that of its rule: what only matters for resuming matters less elsewhere.

    Nobody needs the arguments of a training to load or to resume it, and many projects have a class of their own for them.
    """
    kind, is_model = problem.kind, deliverable.purpose == INFERENCE
    if kind in _OF_RESUMING and deliverable.purpose != RESUME:
        return Level.NOTE if is_model else Level.WARNING
    if kind in _VALUES and is_model and reading.only_state and MODEL not in reading.parts:
        return Level.WARNING
    is_arguments = posixpath.basename(problem.path) == trainer_state.ARGUMENTS
    return Level.WARNING if kind is ProblemKind.FOREIGN_CLASS and is_arguments else None


def check(
    campaign: Campaign, deliverable: Deliverable, units: Sequence[Unit], readings: Sequence[Reading | None]
) -> Iterator[Finding]:
    """What is missing to resume, and names that say another step than the content."""
    known = dict(zip(units, readings, strict=True))
    yield from _other_step(known)
    if deliverable.purpose == INFERENCE or not (deliverable.purpose == RESUME or deliverable.kind in WEIGHTS):
        return
    files = campaign.files_of(deliverable)
    folders = sorted({unit.path for unit in units if unit.format == trainer_state.NAME} or {
        posixpath.dirname(path) for path in files if posixpath.basename(path) == trainer_state.STATE})
    for folder in folders:
        missing = list(_missing(folder, files, known))
        if missing and deliverable.purpose == RESUME:
            yield from missing
        elif missing and trainer_state.is_step(folder):
            names = [posixpath.basename(finding.path or "") for finding in missing]
            yield rules.NOT_RESUMABLE.finding(
                f"the training cannot go on from here: {', '.join(names)} {'is' if len(names) == 1 else 'are'} not there",
                path=folder, level=Level.WARNING, observed=f"no {', '.join(names)}", expected="the whole state of the training",
                remedy="say purpose: inference if it is meant as a model; else copy the files from where it was trained")
    if deliverable.purpose == RESUME and not folders:
        yield from _without_optimizer(deliverable, files, known)


def _missing(folder: str, files: Mapping[str, Entry], known: Mapping[Unit, Reading | None]) -> Iterator[Finding]:
    """The parts that a folder of the Trainer lacks. Under FSDP and DeepSpeed the optimizer lies in a folder below."""
    names = {posixpath.basename(path) for path, entry in files.items() if posixpath.dirname(path) == folder and entry.size}
    below = {unit: reading for unit, reading in known.items()
             if unit.is_folder and unit.path != folder and paths.inside(unit.path, folder)}
    found = {part for reading in below.values() for part in (reading.parts if reading is not None else [OPTIMIZER])}
    if any(unit.format == deepspeed.NAME for unit in (*below, *(unit for unit in known if unit.path == folder))):
        found |= {OPTIMIZER, SCHEDULE}
    for part, name, effect in _NEEDED:
        if part not in found and not any(map(trainer_state.FILES[part].fullmatch, names)):
            yield rules.NOT_RESUMABLE.finding(
                f"{name} is not there (or has no bytes): {effect}", path=paths.join(folder, name), observed=f"no {name}",
                expected=f"the {part} of the training", remedy=_REMEDY)


def _without_optimizer(
    deliverable: Deliverable, files: Mapping[str, Entry], known: Mapping[Unit, Reading | None]
) -> Iterator[Finding]:
    """A point to resume from without any optimizer: an error where the format tells, else a warning."""
    filled = {unit: reading for unit, reading in known.items() if not unit.hollow}
    if not filled or any(reading is None or reading.depth is None or OPTIMIZER in reading.parts for reading in filled.values()):
        return
    own = {path for unit in filled for path in unit.files}
    own_formats = {unit.format for unit in filled}
    held = {formats()[name].holds for name in own_formats}
    if Holds.UNKNOWN in held or any(_MAY_BE_OPTIMIZER.search(path) for path in files if path not in own):
        return
    names = sorted({posixpath.basename(path) for path in own})
    shown = ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else "")
    first = next(iter(filled))
    if held == {Holds.WEIGHTS}:
        said, remedy = f"it holds weights alone ({shown})", "save the state of the optimizer beside them"
    elif own_formats == {lightning.NAME}:
        said, remedy = "it was saved without optimizer_states", "save with save_weights_only=False"
    elif accelerate_state.NAME in own_formats:
        said, remedy = f"it holds no optimizer ({shown})", "prepare the optimizer with accelerate and save the state again"
    else:
        said, remedy = f"nothing in it looks like an optimizer ({shown})", "save the state of the optimizer with it"
    sure = all(formats()[name].holds is Holds.WEIGHTS or name in (lightning.NAME, accelerate_state.NAME) for name in own_formats)
    yield rules.NOT_RESUMABLE.finding(
        f"{said}: a training that goes on from it starts its optimizer anew",
        path=first.path if len(filled) == 1 else deliverable.path, observed=said, level=None if sure else Level.WARNING,
        expected="the state of the optimizer", remedy=f"{remedy}, or say purpose: inference")


def _other_step(known: Mapping[Unit, Reading | None]) -> Iterator[Finding]:
    """Lightning writes ``epoch=1-step=500.ckpt``; the step in the name is that of the content.

    Trainings that log their epoch under the name ``step``, which draws curves over epochs, have it in the name too.
    """
    for unit, reading in known.items():
        name = posixpath.basename(unit.path)
        named = _NAMED_STEP.search(name) if unit.format == lightning.NAME else None
        if named is None or reading is None or reading.step is None:
            continue
        step, epoch = int(named["step"]), _NAMED_EPOCH.search(name)
        if step != reading.step and not (epoch and step - int(epoch["epoch"]) in (0, 1)):
            yield rules.OTHER_STEP.finding(
                f"its name says step {step:,}, its content step {reading.step:,}", path=unit.path,
                observed=f"global_step {reading.step:,}", expected=f"{step:,}, as in the name",
                remedy="give it the name that it was saved under, or deliver the checkpoint that the name means")
