"""What the state of a training means for a deliverable: complete over all processes, and no substitute for a model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...campaign import Campaign, Deliverable
from ...file_names import may_be_weights
from ...findings import Finding, Level
from ...formats.base import ProblemKind, Reading, Unit
from ...formats.model_files import MODEL_WEIGHTS
from . import rules

RESUME, INFERENCE = "resume", "inference"
_SHOWN = 3
_OF_PROCESSES = frozenset({ProblemKind.SHARD_MISSING, ProblemKind.SHARD_INDEX})


def is_aside(
    unit: Unit, reading: Reading, campaign: Campaign, deliverable: Deliverable, others: Sequence[Reading | None]
) -> bool:
    """Whether a unit is the state of a training that the deliverable does not need: it is a model, and no point to resume from.

    A part of the state that is absent is then worth a warning. ``others`` are all the readings of the deliverable.
    """
    if deliverable.purpose == RESUME or not reading.only_state:
        return False
    return _is_file_of(unit, campaign, deliverable) or any(other is not None and not other.only_state for other in others)


def _is_file_of(unit: Unit, campaign: Campaign, deliverable: Deliverable) -> bool:
    """Whether the deliverable is a single file of a folder's set."""
    return unit.is_folder and campaign.target(deliverable) in unit.files


def eased(problem_kind: ProblemKind) -> bool:
    """Whether a problem is about parts of a set that are absent."""
    return problem_kind in _OF_PROCESSES


def ranks(unit: Unit, reading: Reading, campaign: Campaign, deliverable: Deliverable, aside: bool) -> Iterator[Finding]:
    """Compare of how many processes the state is there with how many the run had; files that say so themselves come first."""
    run = campaign.runs.get(deliverable.run or "")
    size = run.world_size if run else None
    if size is None or reading.ranks is None or reading.ranks == size or any(eased(problem.kind) for problem in reading.problems):
        return
    fewer = reading.ranks < size
    lacking = f"the state of {size - reading.ranks:,} of {size:,} processes is not there" if fewer else \
        f"the state of {reading.ranks:,} processes is there, and the run had {size:,}"
    yield rules.RANKS.finding(
        f"{reading.format}: {lacking}", path=unit.path, observed=f"files of {reading.ranks:,} processes",
        expected=f"{size:,}, the world_size of the run", level=None if fewer and not aside else Level.WARNING,
        remedy="copy the files of every node while the machines are still there, or correct world_size in the manifest" if fewer
        else "delete what is left of another save, or correct world_size in the manifest")


def no_model(
    campaign: Campaign, deliverable: Deliverable, units: Sequence[Unit], readings: Sequence[Reading | None]
) -> Iterator[Finding]:
    """A checkpoint for inference in which there is nothing but the state of a training.

    Weights of a home-made model need no configuration. But those that lie in the state of accelerate or DeepSpeed are loaded
    by the training that wrote them; ``from_pretrained`` needs the configuration beside them.
    """
    if deliverable.purpose != INFERENCE or deliverable.kind != "checkpoint":
        return
    filled = [reading for unit, reading in zip(units, readings, strict=True) if not unit.hollow]
    if not filled or not all(reading is not None and reading.only_state for reading in filled):
        return
    own = {path for unit in units for path in unit.files}
    if any(_is_file_of(unit, campaign, deliverable) for unit in units) or any(
            may_be_weights(path) and path not in own and entry.size for path, entry in campaign.files_of(deliverable).items()):
        return
    names = sorted(path.rpartition("/")[2] for unit in units if not unit.hollow for path in unit.files)
    weights = next((name for name in names if MODEL_WEIGHTS.fullmatch(name)), None)
    shown = ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else "")
    lacking = f"{weights} lies there without the config.json that says which model it is" if weights else "no weights of a model"
    yield rules.NO_MODEL.finding(
        f"it holds only the state of a training ({shown}): {lacking}", path=deliverable.path, observed=shown,
        expected="a model: config.json beside model.safetensors, or a file of weights",
        remedy="save the model with save_pretrained into the folder"
        + (f", deliver {weights} by itself if its class is your own," if weights else ",") + " or say purpose: resume")
