"""Checkpoints recognised by their content, and the deliverables that follow when no manifest names them."""

from __future__ import annotations

import functools
import os
import posixpath
import re
from collections.abc import Mapping, Sequence

from . import paths
from .campaign import Deliverable
from .file_names import in_tool_folder, is_checkpoint
from .formats import formats
from .formats.base import HEAD, Candidate, Folder, Unit
from .formats.peft_adapter import NAME as ADAPTER
from .inventory import FILE, FOLDER, LINK, Entry, Inventory

_MOST_READ = 1 << 26  # bytes that recognition may read of one file in one go
_TAIL = 64  # bytes at the end of a file that most recognitions look at


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
        folders = [posixpath.basename(child.path) for child in inventory.children(folder) if child.kind == FOLDER]
        units += _units(Folder(folder, candidates, folders, functools.partial(_below, inventory, folder)))
    return tuple(sorted(units, key=lambda unit: unit.path)), unread


def _below(inventory: Inventory, folder: str, name: str) -> Mapping[str, Candidate]:
    """The regular files below a subfolder, by their paths in it, without their heads."""
    top = paths.join(folder, name)
    return {path.removeprefix(top + "/"): Candidate(path, entry.size, b"", functools.partial(_read, inventory, entry))
            for path, entry in inventory.files(top)}


def _candidate(inventory: Inventory, path: str, entry: Entry) -> Candidate:
    descriptor = inventory.open(entry)
    try:
        head = os.pread(descriptor, HEAD, 0)
        tail = os.pread(descriptor, _TAIL, entry.size - _TAIL) if entry.size > HEAD else head
    finally:
        os.close(descriptor)
    return Candidate(path, entry.size, head, functools.partial(_read, inventory, entry, head=head, tail=tail))


def _read(inventory: Inventory, entry: Entry, offset: int, length: int, head: bytes = b"", tail: bytes = b"") -> bytes:
    """Some bytes of a file, without opening it where they are among its first or its last ones."""
    length = max(0, length)
    if offset + length <= len(head):
        return head[offset:offset + length]
    if tail and offset >= (start := entry.size - len(tail)):
        return tail[offset - start:offset - start + length]
    try:
        descriptor = inventory.open(entry)
    except OSError:
        return b""  # it changed since its first bytes were read, which the checks say
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
                units.append(Unit(name, candidate.path, (candidate.path,), ambiguous=formats()[name].ambiguous))
    return units


def unmistakable(units: Sequence[Unit]) -> Sequence[Unit]:
    """The units whose content is that of a checkpoint and of nothing else."""
    return [unit for unit in units if not unit.ambiguous]


# Files that make a folder one thing: the configuration of a model, an adapter, a pipeline, the state of a training ...
_MARKS = frozenset({"config.json", "adapter_config.json", "trainer_state.json", ".metadata"})
_MARKS_OF_PARTS = frozenset({"model_index.json", "modules.json"})  # the weights lie in folders below
_STEP = re.compile(r"checkpoint-[0-9]+")


def containers(inventory: Inventory, units: Sequence[Unit]) -> Mapping[str, str]:
    """The kind (adapter or checkpoint) of each folder that is delivered as a whole, by its path, in the order of the paths.

    The outermost folder wins; only the steps of a training (``checkpoint-500``) and the folders of adapters inside it are
    deliverables of their own.
    """
    units = unmistakable(units)
    own: dict[str, str] = {}
    for unit in units:
        if unit.is_folder and not _is_shell(unit, units) and own.get(unit.path) != "adapter":
            own[unit.path] = "adapter" if unit.format == ADAPTER else "checkpoint"
    for unit in units:
        folder = posixpath.dirname(unit.path)
        if not unit.is_folder and folder and any(inventory.exists(paths.join(folder, mark)) for mark in _MARKS):
            own.setdefault(folder, "checkpoint")
        own |= {above: "checkpoint" for above in paths.above(unit.path) if above not in own
                and any(inventory.exists(paths.join(above, mark)) for mark in _MARKS_OF_PARTS)}
    found: dict[str, str] = {}
    for path, kind in sorted(own.items()):
        is_step = _STEP.fullmatch(posixpath.basename(path)) is not None
        if is_step or kind == "adapter" or not paths.within(path, found):
            found[path] = kind
    return found


def _is_shell(unit: Unit, units: Sequence[Unit]) -> bool:
    """Whether a folder has a configuration only, and weights lie in folders below it."""
    return unit.hollow and any(not other.hollow and paths.inside(other.path, unit.path) for other in units)


def promised(inventory: Inventory, units: Sequence[Unit]) -> Sequence[str]:
    """Paths that promise a checkpoint by their name and hold none that is recognised: empty, cut, replaced, a dead link.

    Parts of a folder that is delivered as a whole are left to the checks of that folder.
    """
    taken = {file for unit in unmistakable(units) for file in unit.files}
    folders = containers(inventory, units)
    return [entry.path for entry in inventory.entries if entry.kind != FOLDER and is_checkpoint(entry.path)
            and entry.path not in taken and not in_tool_folder(entry.path)
            and not paths.within(entry.path, folders)]


def discovered(inventory: Inventory, units: Sequence[Unit]) -> Sequence[Deliverable]:
    """What is delivered when no manifest says it: folders as a whole, and single checkpoints, named by their paths.

    A link to a file that is itself recognised is no second deliverable.
    """
    units = unmistakable(units)
    folders = containers(inventory, units)
    found = [Deliverable(id=path or ".", kind=kind, path=path) for path, kind in folders.items()]
    own = {unit.path for unit in units}
    for unit in units:
        entry = inventory.resolve(unit.path)
        is_link = entry is not None and entry.path != unit.path and entry.path in own
        if not is_link and not _is_shell(unit, units) and not paths.within(unit.path, folders):
            found.append(Deliverable(id=unit.path, kind="checkpoint", path=unit.path))
    found += [Deliverable(id=path, kind="checkpoint", path=path) for path in promised(inventory, units)]
    return sorted(found, key=lambda deliverable: deliverable.path)
