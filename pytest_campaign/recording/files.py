"""What is delivered, as files of the campaign directory with their sizes and digests."""

from __future__ import annotations

import functools
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from .. import hashing, paths
from ..file_names import in_tool_folder
from ..inventory import SIZE, Identity, identity
from .errors import RecordingError

_THREADS = 4


def inside(root: Path, path: str | os.PathLike[str]) -> str:
    """The path as the manifest spells it: relative to the campaign directory ``root``, "." for that directory itself.

    A relative path is seen from the campaign directory or, where nothing lies there, from the working directory. Raises
    `RecordingError` for one that leads outside, also through a link.
    """
    text = os.fspath(path)
    candidates = [root / text, Path(os.path.abspath(text))]
    place = next((candidate for candidate in candidates if os.path.lexists(candidate) and _below(root, candidate) is not None),
                 candidates[0])
    relative = _below(root, place)
    if relative is None or not _is_inside(root, place):
        raise RecordingError(f"{text} lies outside the campaign directory {root}, where nobody will find it later; "
                             "write or copy it into that directory")
    if fault := paths.fault(relative):
        raise RecordingError(f"{text!r} is no path that a manifest can name: {fault}; rename it")
    return relative


def _below(root: Path, place: Path) -> str | None:
    """A path relative to the root, by its spelling or by what it leads to."""
    for top, at in ((os.path.abspath(root), os.path.abspath(place)), (os.path.realpath(root), os.path.realpath(place))):
        if at == top or at.startswith(top.rstrip(os.sep) + os.sep):
            return Path(os.path.relpath(at, top)).as_posix()
    return None


def _is_inside(root: Path, place: Path) -> bool:
    top, at = os.path.realpath(root), os.path.realpath(place)
    return at == top or at.startswith(top.rstrip(os.sep) + os.sep)


class Digests:
    """Digests of the files of one campaign. A file that is the same as before is not read again."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._known: dict[Identity, str] = {}

    def declared(self, names: Sequence[str]) -> list[dict[str, Any]]:
        """Path, size and SHA-256 of files, whose paths are relative to the root; `RecordingError` when one cannot be read."""
        try:
            found = {name: identity(os.stat(self._root / name)) for name in names}
            new = {name: which for name, which in found.items() if which not in self._known}
            results = hashing.together(
                {name: (functools.partial(os.open, self._root / name, os.O_RDONLY | getattr(os, "O_BINARY", 0)), which,
                        (hashing.SHA256,)) for name, which in new.items()}, min(_THREADS, os.cpu_count() or 1))
            for name, result in results.items():
                if isinstance(result, OSError):
                    raise RecordingError(f"{name} cannot be read: {result}") from result
                self._known[new[name]] = result[hashing.SHA256]
        except OSError as error:
            raise RecordingError(f"a file cannot be read: {error}") from error
        return [{"path": name, "bytes": which[SIZE], "sha256": self._known[which]} for name, which in found.items()]


def names(root: Path, path: str) -> list[str]:
    """The regular files of a deliverable, sorted: the one file, or all below the folder but those of tools (W&B, caches).

    Raises `RecordingError` when there are none, or when a link leads out of the campaign directory.
    """
    place = root / path
    if not place.exists():
        raise RecordingError(f"there is nothing at {path} in {root}; write it before it is delivered")
    if place.is_file():
        return [path]
    prefix = "" if paths.normal(path) == "" else paths.normal(path) + "/"
    found = [prefix + name for name in _below_folder(place)]
    for name in found:
        if not _is_inside(root, root / name):
            raise RecordingError(f"{name} is a link to {os.path.realpath(root / name)}, outside the campaign directory {root}; "
                                 "copy the file into it (cp -L)")
    if not found:
        raise RecordingError(f"{path} in {root} holds no file; write it before it is delivered")
    return sorted(found)


def _below_folder(folder: Path) -> Iterator[str]:
    for above, folders, files in os.walk(folder):
        folders.sort()
        for name in files:
            relative = Path(above, name).relative_to(folder).as_posix()
            if not in_tool_folder(relative) and paths.fault(relative) is None and _is_regular(Path(above, name)):
                yield relative


def _is_regular(place: Path) -> bool:
    try:
        return stat.S_ISREG(os.stat(place).st_mode)
    except FileNotFoundError as error:
        raise RecordingError(f"{place} is a link that leads to nothing") from error


def recognised(root: Path) -> list[str]:
    """The files of a model that was saved into the campaign directory itself, among everything else that lies there."""
    from ..snapshot import take

    return sorted({file for unit in take(root).units if unit.path == "" or "/" not in unit.path for file in unit.files})
