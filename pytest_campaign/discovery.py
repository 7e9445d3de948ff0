"""Checkpoints recognised by their content, and the deliverables that follow when no manifest names them."""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence

from .campaign import Deliverable
from .formats import formats
from .formats.base import HEAD, Candidate, Folder, Unit
from .inventory import FILE, FOLDER, LINK, Entry, Inventory

_MOST_READ = 1 << 26  # bytes that recognition may read of one file in one go


def recognise(inventory: Inventory) -> tuple[Sequence[Unit], dict[str, str]]:
    """All units of a directory in the order of their paths, and why files could not be looked at, by path."""
    units: list[Unit] = []
    unread: dict[str, str] = {}
    for folder in ["", *(entry.path for entry in inventory.entries if entry.kind == FOLDER)]:
        candidates: dict[str, Candidate] = {}
        for child in inventory.children(folder):
            entry = inventory.resolve(child.path) if child.kind == LINK else child
            if entry is None or entry.kind != FILE or entry.size == 0:
                continue
            try:
                candidate = _candidate(inventory, child.path, entry)
            except OSError as error:
                unread[child.path] = error.strerror or str(error)
            else:
                candidates[candidate.name] = candidate
        units += _units(Folder(folder, candidates))
    return tuple(sorted(units, key=lambda unit: unit.path)), unread


def _candidate(inventory: Inventory, path: str, entry: Entry) -> Candidate:
    return Candidate(path, entry.size, inventory.read(entry, HEAD), functools.partial(_read, inventory, entry))


def _read(inventory: Inventory, entry: Entry, offset: int, length: int) -> bytes:
    descriptor = inventory.open(entry)
    try:
        return os.pread(descriptor, max(0, min(length, _MOST_READ, entry.size - offset)), offset)
    finally:
        os.close(descriptor)


def _units(folder: Folder) -> list[Unit]:
    """The units of one folder: sets first, then the single files that belong to none."""
    units: list[Unit] = []
    for form in formats().values():
        taken = {file for unit in units for file in unit.files}
        units += (unit for unit in form.gather(folder) if taken.isdisjoint(unit.files))
    taken = {file for unit in units for file in unit.files}
    for candidate in folder.candidates.values():
        if candidate.path not in taken:
            name = next((name for name, form in formats().items() if form.recognise(candidate)), None)
            if name is not None:
                units.append(Unit(name, candidate.path, (candidate.path,)))
    return units


def discovered(inventory: Inventory, units: Sequence[Unit]) -> Sequence[Deliverable]:
    """Each recognised checkpoint as a deliverable that is named by its path.

    A link to a file that is itself recognised is no second deliverable.
    """
    own = {unit.path for unit in units}
    found = []
    for unit in units:
        entry = inventory.resolve(unit.path)
        if entry is not None and entry.path != unit.path and entry.path in own:
            continue
        found.append(Deliverable(id=unit.path, kind="checkpoint", path=unit.path))
    return found
