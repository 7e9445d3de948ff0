"""Checkpoints of Orbax, the library of JAX: a folder with ``_METADATA`` and ``manifest.ocdbt``, and the values below ``d/``.

A step of a ``CheckpointManager`` is a folder with ``_CHECKPOINT_METADATA`` and such a folder for each item. A save is written
into a folder ``<name>.orbax-checkpoint-tmp-<time>`` and renamed when it is complete. Names and lengths are checked; the values
are compressed and lie in files without a checksum that is known here (orbax-checkpoint 0.12; TensorStore, OCDBT format).
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from typing import Any

from .. import paths
from .base import Candidate, Depth, Folder, Format, Problem, ProblemKind, Reading, Source, Unit
from .model_files import Documents, settings
from .streaming import exactly

NAME = "Orbax"
_METADATA, _STEP, _MANIFEST = "_METADATA", "_CHECKPOINT_METADATA", "manifest.ocdbt"
_MAGIC = b"\x0c\xdb\x3a\x2a"
_HEADER = 12  # the magic number and the length of the whole manifest
_UNFINISHED = ".orbax-checkpoint-tmp"
_PROCESS = "ocdbt.process_"
_OWN = (_METADATA, _STEP, _MANIFEST, "_sharding", "_COMMIT_SUCCESS", "commit_success.txt")
_MOST_FILES = 100_000


def gather(folder: Folder) -> Iterator[Unit]:
    """The item or the step of a folder, or a folder that is not finished, with the files of its values."""
    name = posixpath.basename(folder.path)
    if name.startswith(_PROCESS):
        return  # what one process wrote; the manifest of the folder above refers to it
    manifest = folder.candidates.get(_MANIFEST)
    is_item = (manifest is not None and manifest.head.startswith(_MAGIC)) or _is_metadata(folder.candidates.get(_METADATA))
    step = settings(folder.candidates.get(_STEP))
    if not is_item and step is None and _UNFINISHED not in name:
        return
    own = [candidate.path for name in _OWN if (candidate := folder.candidates.get(name)) is not None]
    values = [f"d/{path}" for path, file in folder.below("d").items() if file.size]
    values += [f"{place}/{path}" for place in _places(folder) for path, file in folder.below(place).items() if file.size]
    items = [f"{item}/{path}" for item in _items(step) for path in (_METADATA, _MANIFEST, item)]
    rest = [paths.join(folder.path, path) for path in (*values[:_MOST_FILES], *items)]
    yield Unit(NAME, folder.path, tuple(dict.fromkeys([*own, *rest])))


def _places(folder: Folder) -> Iterator[str]:
    """The folders of the processes, as many as follow one another."""
    number = 0
    while folder.below(f"{_PROCESS}{number}") and number < 10_000:
        yield f"{_PROCESS}{number}"
        number += 1


def _is_metadata(candidate: Candidate | None) -> bool:
    content = settings(candidate)
    return content is not None and "tree_metadata" in content


def _items(step: Mapping[str, Any] | None) -> Iterator[str]:
    """The items that a step names, each in a folder of its own."""
    handlers = (step or {}).get("item_handlers")
    for name in handlers if isinstance(handlers, dict) else ():
        if isinstance(name, str) and paths.fault(name) is None and "/" not in name:
            yield name


def read(unit: Unit, source: Source) -> Reading:
    """Whether a save is finished and its parts are there."""
    documents = Documents(unit, source)
    problems: list[Problem] = []
    name = posixpath.basename(unit.path)
    if _UNFINISHED in name:
        problems.append(Problem(ProblemKind.UNFINISHED, unit.path, f"the folder still has the name of a save under way: {name}",
                                name.partition(_UNFINISHED)[0]))
    step = documents.object(_STEP)
    metadata = documents.object(_METADATA)
    manifest = paths.join(unit.path, _MANIFEST)
    values = [path for path in unit.files if source.exists(path) and _is_value(path.removeprefix(unit.path).lstrip("/"))]
    if source.exists(manifest):
        problems += _manifest(manifest, source)
        documents.pass_over(manifest)
        if not values:
            problems.append(Problem(ProblemKind.FILE_MISSING, paths.join(unit.path, "d"),
                                    f"{_MANIFEST} is here, and no file with values", "the files below d/"))
    elif metadata is not None and (values or metadata.get("use_ocdbt") is True):
        problems.append(Problem(ProblemKind.FILE_MISSING, manifest, f"{_MANIFEST} is absent", "the manifest of the values"))
    problems += _absent_items(unit, step, source)
    for path in values:
        documents.pass_over(path)
    others = {paths.join(unit.path, name) for name in (*_OWN[3:], *(f"{item}/{item}" for item in _items(step)))}
    for path in unit.files:
        if path in others and source.exists(path):
            documents.pass_over(path)
    problems += documents.problems
    return Reading(NAME, Depth.HEADER, documents.facts, problems)


def _is_value(inside: str) -> bool:
    return inside.startswith(("d/", _PROCESS))


def _manifest(path: str, source: Source) -> Iterator[Problem]:
    """Whether a manifest is as long as it says."""
    size = source.size(path)
    with source.open(path) as file:
        start = exactly(file, 0, min(size, _HEADER))
    if not start.startswith(_MAGIC):
        yield Problem(ProblemKind.DAMAGED, path, f"it begins with {start[:4]!r}", f"{_MAGIC!r}")
        return
    length = int.from_bytes(start[4:], "little") if len(start) == _HEADER else _HEADER
    if size < length:
        yield Problem(ProblemKind.TRUNCATED, path, f"{size:,} bytes, {length - size:,} are missing",
                      f"{length:,} bytes, as it says")
    elif size > length:
        yield Problem(ProblemKind.TRAILING, path, f"{size - length:,} bytes behind its end", f"{length:,} bytes, as it says")


def _absent_items(unit: Unit, step: Mapping[str, Any] | None, source: Source) -> Iterator[Problem]:
    """Items that a step names and that have no file of their own."""
    for item in _items(step):
        prefix = paths.join(unit.path, item)
        if not any(source.exists(paths.join(prefix, name)) for name in (_METADATA, _MANIFEST, item)):
            yield Problem(ProblemKind.FILE_MISSING, prefix,
                          f"{_STEP} names the item {item}, which is absent or has lost {_METADATA}",
                          f"the folder {item} with its files", "/item_handlers")


FORMAT = Format(NAME, Depth.HEADER, read, gather=gather, aliases=("flax", "jax"))
