"""One walk of the campaign directory: an immutable table of everything in it.

Links are never followed while walking. A link counts as what it leads to only when its target is itself an
entry of the table; everything else in the program opens files through this table and through nothing else.
"""

from __future__ import annotations

import dataclasses
import errno
import functools
import os
import posixpath
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO, Self

from . import file_names, paths

FILE, FOLDER, LINK, SPECIAL, UNKNOWN = "file", "folder", "link", "special", "unknown"
MOST_ENTRIES = 1_000_000
DEEPEST = 400
Identity = tuple[int, int, int, int]  # device, inode, size, time of change
SIZE = 2
_HUGE = 16 << 30
_NEARLY_ALL = 64
_BLOCK = 512  # bytes of a block of st_blocks (stat(2))
_MOST_HOPS = 40  # as Linux does (path_resolution(7))


class Changed(OSError):
    """A file is not, or no longer, the one that the table describes."""


@dataclasses.dataclass(frozen=True)
class Entry:
    """One name in the directory. ``path`` is relative and POSIX; bytes that are no UTF-8 are surrogate escapes.

    ``kind``: a regular file, a folder, a link, something special (FIFO, socket, device) or unknown (could not
    be looked at; ``problem`` says why, as it does for a folder that could not be listed).
    """

    path: str
    kind: str
    size: int = 0
    device: int = 0
    inode: int = 0
    mtime_ns: int = 0
    link: str | None = None
    problem: str | None = None

    def __hash__(self) -> int:
        return hash(self.path)

    @property
    def identity(self) -> Identity:
        """What makes a regular file the same file."""
        return self.device, self.inode, self.size, self.mtime_ns


@dataclasses.dataclass(frozen=True)
class Inventory:
    """The file table of one directory; ``root`` is absolute. ``entries`` are sorted by path."""

    root: str
    entries: tuple[Entry, ...]
    cut: str | None = None  # why the walk stopped early

    @functools.cached_property
    def by_path(self) -> Mapping[str, Entry]:
        return {entry.path: entry for entry in self.entries}

    @functools.cached_property
    def _children(self) -> Mapping[str, list[Entry]]:
        children: dict[str, list[Entry]] = {}
        for entry in self.entries:
            children.setdefault(posixpath.dirname(entry.path), []).append(entry)
        return children

    @functools.cached_property
    def twins(self) -> Mapping[str, str]:
        """The paths whose names in their folder are one name where case or the normal form makes no difference.

        Each with another one of the same name. Windows and macOS compare like this.
        """
        first: dict[tuple[str, str], str] = {}
        twins: dict[str, str] = {}
        for entry in self.entries:
            folder, name = posixpath.split(entry.path)
            other = first.setdefault((folder, paths.folded(name)), entry.path)
            if other != entry.path:
                twins[entry.path] = other
                twins.setdefault(other, entry.path)
        return twins

    @functools.cached_property
    def series(self) -> Mapping[str, Sequence[Entry]]:
        """The files that are the same one at the steps of a training, by what their paths have in common, in their order."""
        found: dict[str, list[tuple[int, Entry]]] = {}
        for entry in self.entries:
            if entry.kind == FILE and entry.size and (place := file_names.series(entry.path)) is not None:
                found.setdefault(place[0], []).append((place[1], entry))
        return {name: [entry for _, entry in sorted(members, key=lambda member: member[0])] for name, members in found.items()}

    def children(self, folder: str) -> Sequence[Entry]:
        """What lies directly in a folder, in the order of the table."""
        return self._children.get(folder, ())

    def resolve(self, path: str) -> Entry | None:
        """The entry that ``path`` leads to when the links of the table are followed, None when it leads nowhere.

        A link that leaves the directory, dangles or turns in a circle leads nowhere. The directory itself is a
        folder entry with the path "".
        """
        entry = self.by_path.get(path)
        if entry is not None and entry.kind != LINK:  # the paths of the table go through no link
            return entry
        hops = 0
        parts = list(reversed([part for part in path.split("/") if part and part != "."]))
        at = ""
        while parts:
            part = parts.pop()
            if part == "..":
                if not at:
                    return None
                at = posixpath.dirname(at)
                continue
            entry = self.by_path.get(paths.join(at, part))
            if entry is None:
                return None
            if entry.kind == LINK:
                hops += 1
                target = entry.link or ""
                if hops > _MOST_HOPS or not target:
                    return None
                if target.startswith("/"):
                    relative = self._below_root(target)
                    if relative is None:
                        return None
                    at, target = "", relative
                parts.extend(reversed([part for part in target.split("/") if part and part != "."]))
                continue
            if parts and entry.kind != FOLDER:
                return None
            at = entry.path
        return self.by_path[at] if at else Entry("", FOLDER)

    def _below_root(self, target: str) -> str | None:
        target = posixpath.normpath(target)
        if target == self.root:
            return ""
        prefix = self.root.rstrip("/") + "/"
        return target[len(prefix):] if target.startswith(prefix) else None

    def exists(self, path: str) -> bool:
        return self.resolve(path) is not None

    def walk(self, path: str) -> Iterator[tuple[str, Entry]]:
        """(path as seen, resolved entry) of everything at and below ``path``, links inside the directory included.

        A folder that a link leads to is listed too, under the link's own path; circles end.
        """
        start = self.resolve(path)
        if start is None:
            return
        stack: list[tuple[str, Entry, tuple[str, ...]]] = [(path, start, ())]
        while stack:
            seen, entry, above = stack.pop()
            if seen != path or entry.kind != FOLDER:
                yield seen, entry
            if entry.kind != FOLDER or entry.path in above:
                continue
            for child in reversed(self.children(entry.path)):
                leads_to = self.resolve(child.path) if child.kind == LINK else child
                stack.append((paths.join(seen, posixpath.basename(child.path)), leads_to or child, (*above, entry.path)))

    def files(self, path: str) -> Iterator[tuple[str, Entry]]:
        """(path as seen, entry) of every regular file at or below ``path``."""
        return ((seen, entry) for seen, entry in self.walk(path) if entry.kind == FILE)

    def open(self, entry: Entry) -> int:
        """A descriptor of the regular file that ``entry`` describes.

        Raises `Changed` when something else is there now, OSError when it cannot be opened.
        """
        return open_file(self.root, entry.path, entry.identity)

    def stream(self, entry: Entry) -> BinaryIO:
        """The same as an unbuffered file at its start; the caller closes it."""
        return os.fdopen(self.open(entry), "rb", buffering=0)

    def read(self, entry: Entry, limit: int) -> bytes:
        """The first ``limit`` bytes of a regular file."""
        with os.fdopen(self.open(entry), "rb") as file:
            return file.read(limit)

    def to_json(self) -> dict[str, Any]:
        return {"root": self.root, "cut": self.cut, "entries": [list(dataclasses.astuple(entry)) for entry in self.entries]}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        return cls(data["root"], tuple(Entry(*fields) for fields in data["entries"]), data["cut"])


def identity(status: os.stat_result) -> Identity:
    """What makes a file the same file: device, inode, size and time of change."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def open_file(root: str, path: str, expected: Identity) -> int:
    """Open a regular file below ``root`` and compare it with what was seen before; never blocks.

    The comparison also catches a folder of the path that was replaced by a link in the meantime. A huge file that is nearly all
    holes is not opened (`errno.EFBIG`): reading it takes hours, whatever it is to be.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    descriptor = os.open(os.path.join(root, path), flags)
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or identity(status) != expected:
        os.close(descriptor)
        raise Changed(f"{path} changed while it was checked: the file there now is another one, or was written to")
    if _is_hollow(descriptor, status):
        os.close(descriptor)
        written = f"about {status.st_blocks * _BLOCK:,} were ever written"
        raise OSError(errno.EFBIG, f"it has {status.st_size:,} bytes, of which {written}")
    return descriptor


def _is_hollow(descriptor: int, status: os.stat_result) -> bool:
    """Whether a huge file is nearly all holes. A file system that compresses writes fewer blocks too, and tells of no hole."""
    if status.st_size < _HUGE or not hasattr(os, "SEEK_HOLE") or status.st_blocks * _BLOCK * _NEARLY_ALL > status.st_size:
        return False
    try:
        return os.lseek(descriptor, 0, os.SEEK_HOLE) < status.st_size
    except OSError:
        return False
    finally:
        os.lseek(descriptor, 0, os.SEEK_SET)


def take(root: str | os.PathLike[str], ignore: Callable[[str], bool] = lambda path: False) -> Inventory:
    """Walk ``root`` once. Paths for which ``ignore`` is true are left out."""
    root = os.path.realpath(root)
    entries: list[Entry] = []
    stack = [("", 0)]
    cut = None
    while stack and cut is None:
        folder, depth = stack.pop()
        try:
            with os.scandir(os.path.join(root, folder)) as listing:
                names = sorted(listing, key=lambda item: item.name)
        except OSError as error:
            entries = [dataclasses.replace(e, problem=error.strerror or str(error)) if e.path == folder else e for e in entries]
            if not folder:
                cut = f"the directory cannot be listed: {error.strerror}"
            continue
        for item in names:
            path = paths.join(folder, item.name)
            if ignore(path):
                continue
            entry = _entry(path, item)
            entries.append(entry)
            if entry.kind == FOLDER:
                if depth + 1 >= DEEPEST:
                    cut = f"more than {DEEPEST} levels of folders, at {path[:200]}"
                    break
                stack.append((path, depth + 1))
        if len(entries) > MOST_ENTRIES:
            cut = f"more than {MOST_ENTRIES} entries"
    return Inventory(root, tuple(sorted(entries, key=lambda entry: entry.path)), cut)


def _entry(path: str, item: os.DirEntry[str]) -> Entry:
    try:
        status = item.stat(follow_symlinks=False)
        mode = status.st_mode
        if stat.S_ISREG(mode):
            device, inode, size, mtime_ns = identity(os.lstat(item.path) if os.name == "nt" else status)
            return Entry(path, FILE, size, device, inode, mtime_ns)
        if stat.S_ISDIR(mode):
            return Entry(path, FOLDER)
        if stat.S_ISLNK(mode):
            return Entry(path, LINK, link=os.readlink(item.path))
        return Entry(path, SPECIAL)
    except OSError as error:
        return Entry(path, UNKNOWN, problem=error.strerror or str(error))
