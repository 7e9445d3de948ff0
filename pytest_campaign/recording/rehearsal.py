"""Saving a checkpoint before it matters: does it load again in a new process, and how long does all that take?"""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..reload.protocol import Answer, Job, Limits, Progress
from . import files
from .errors import RecordingError

if TYPE_CHECKING:
    from ..findings import Finding
    from .campaign import Campaign

Save = Callable[[Path], object]
Load = Callable[[Path], object]
_TIMEOUT = 600.0  # seconds without progress
_MEMORY = 1 << 36  # bytes; the machine that trains holds the model anyway
_THREADS = 4


@dataclasses.dataclass(frozen=True)
class Rehearsal:
    """What a rehearsal measured; ``path`` is relative to the campaign directory.

    ``write_seconds`` include the flush to the disk. ``restore_seconds`` are those of the reading in a new process, without its
    start: of ``load`` where there is one, else of the reader that checks every byte.
    """

    path: str
    bytes: int
    write_seconds: float
    restore_seconds: float


def rehearse(campaign: Campaign, path: str | os.PathLike[str], save: Save, load: Load | None = None) -> Rehearsal:
    """Save, read all of it again and, with ``load``, load it in a new process. `RecordingError` when that fails."""
    address = _address(load) if load is not None else None
    relative = campaign.inside(path)
    place = campaign.directory / relative
    place.parent.mkdir(parents=True, exist_ok=True)
    started = time.perf_counter()
    save(place)
    written = files.names(campaign.directory, relative)
    _flush([campaign.directory / name for name in written])
    write_seconds = time.perf_counter() - started
    restore_seconds = _read(place, relative)
    if address is not None:
        restore_seconds = _load(address, place)
    size = sum((campaign.directory / name).stat().st_size for name in written)
    return Rehearsal(relative, size, write_seconds, restore_seconds)


def _flush(places: Sequence[Path]) -> None:
    """Flush files to the disk and let the system forget them, so that the next reader reads what is stored."""
    for place in places:
        descriptor = os.open(place, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        try:
            os.fsync(descriptor)
            if hasattr(os, "posix_fadvise"):
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def _read(place: Path, relative: str) -> float:
    """The seconds that a fresh process reads, every byte of it; `RecordingError` for what the reload check would reject."""
    from .. import checks, inventory
    from ..campaign import Asked, Campaign, Deliverable
    from ..discovery import recognise
    from ..evidence import RELOAD, Files
    from ..findings import Level
    from ..reload.client import Reloader

    root, name = (place, "") if place.is_dir() else (place.parent, place.name)
    table = inventory.take(root, ignore=lambda other: bool(name) and other != name)
    units, unread = recognise(table)
    deliverable = Deliverable(id="rehearsal", kind="checkpoint", path=name)
    subject = Campaign(inventory=table, manifest=None, plan=None, plan_copy=None, faults=[], deliverables=[deliverable],
                       units=units, unread=unread, asked=Asked())
    seconds = 0.0
    with Reloader(Limits(_TIMEOUT, _MEMORY, _THREADS)) as reloader:
        if (failure := reloader.wait()) is not None:
            raise RecordingError(f"{relative} was not loaded again: {failure}")

        def timed(job: Job, progress: Callable[[Progress], None] | None = None, rows: Callable[[str], None] | None = None,
                  /) -> Answer:
            nonlocal seconds
            answer = reloader.run(job, progress, rows)
            seconds += answer.seconds
            return answer

        found = list(checks.deliverable_checks()[RELOAD].run(subject, deliverable, Files(table, timed, digest=False)))
    faults = [finding for finding in found if finding.level is Level.ERROR]
    if faults:
        raise RecordingError(f"{relative} does not load again: " + "; ".join(map(_in_words, faults[:3])))
    return seconds


def _in_words(finding: Finding) -> str:
    return f"{finding.path or 'it'}: {finding.message} ({finding.rule})"


def _address(load: Load) -> tuple[str, str]:
    """(module, name) by which a new process finds a function; `RecordingError` where it cannot.

    The script that trains is no such module: to import it would mean to train.
    """
    module, name = getattr(load, "__module__", None), getattr(load, "__qualname__", "")
    found: object = sys.modules.get(module or "")
    for part in name.split("."):
        found = getattr(found, part, None)
    if module is None or module == "__main__" or found is not load:
        raise RecordingError("load cannot be found by a new process; make it a function at the top of a module beside the script")
    return module, name


def _load(load: tuple[str, str], place: Path) -> float:
    """The seconds that a function takes to load ``place`` in a new process, which has the module path of this one."""
    done = subprocess.run([sys.executable, "-c", _CHILD, json.dumps(sys.path), *load, str(place)], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise RecordingError(f"{place} does not load again in a new process: {_last(done.stderr)} (status {done.returncode})")
    return float(_last(done.stdout))


def _last(text: str) -> str:
    return (text.strip().splitlines() or [""])[-1]


_CHILD = """
import functools, importlib, json, pathlib, sys, time
sys.path[:] = json.loads(sys.argv[1])
load = functools.reduce(getattr, sys.argv[3].split("."), importlib.import_module(sys.argv[2]))
started = time.perf_counter()
load(pathlib.Path(sys.argv[4]))
print()
print(time.perf_counter() - started)
"""
