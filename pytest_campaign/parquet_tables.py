"""Parquet tables as this process sees them: read in the fresh process, their rows kept as JSON Lines.

What arrives is not trusted: it goes unparsed into a temporary file without a name, and is read from there as strictly as any
other file of records.
"""

from __future__ import annotations

import io
import os
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping
from importlib import metadata
from typing import BinaryIO, Protocol, cast

from .formats.base import Depth, Problem, ProblemKind, Unit
from .inventory import Entry
from .readers import json_lines, tables
from .readers.rows import Header, Item, Row
from .readers.strict_json import Fault
from .reload.parquet_rows import FORMAT
from .reload.protocol import Answer, Death, DeathKind, FileSpec, Job, Progress, Table
from .text import size

OLDEST = 18  # the major version of pyarrow that the extra asks for; before 14.0.1 it runs code in a file (CVE-2023-47248)
MOST_BYTES = 4 << 30  # of the rows of one table, as they are kept

_DEATHS: Mapping[DeathKind, str] = {  # kinds of faults; CHANGED and UNREADABLE are errors of the operating system
    DeathKind.EXCEPTION: "damaged",
    DeathKind.CRASHED: "damaged",
    DeathKind.TIMEOUT: "time",
    DeathKind.MEMORY: "memory",
    DeathKind.KILLED: "process",
    DeathKind.NO_ANSWER: "process",
    DeathKind.NO_SERVER: "process",
}
_PROBLEMS: Mapping[ProblemKind, str] = {ProblemKind.TRUNCATED: "torn", ProblemKind.UNREADABLE_KIND: "feature"}


class Runner(Protocol):
    """Runs a job in a fresh process, see `reload.client.Reloader.run`."""

    def __call__(self, job: Job, progress: Callable[[Progress], None] | None = None,
                 rows: Callable[[str], None] | None = None, /) -> Answer: ...


class Tables:
    """The tables below the directory ``root``. Each is read once for each choice of columns."""

    def __init__(self, root: str, runner: Runner) -> None:
        self._root = root
        self._runner = runner
        self._kept: dict[tuple[str, Table], tuple[int, int] | Fault | OSError] = {}
        self._spool: _Spool | None = None

    def rows(self, entry: Entry, wanted: Table, progress: Callable[[Progress], None] | None = None) -> Iterator[Item]:
        """The header, and every row with as much of its cells as is wanted; or why there are none.

        Kinds of faults: ``torn``, ``damaged``; ``library``, ``time``, ``memory``, ``process`` and ``feature`` when it was not
        read although nothing may be wrong with it; ``columns`` (a name twice). OSError when it cannot be opened or has changed.
        """
        key = entry.path, wanted
        if key not in self._kept:
            self._kept[key] = self._read(entry, wanted, progress)
        kept = self._kept[key]
        if isinstance(kept, OSError):
            raise kept
        if isinstance(kept, Fault):
            yield kept
        elif self._spool is not None:
            yield from _items(self._spool.stream(*kept))

    def _read(self, entry: Entry, wanted: Table,
              progress: Callable[[Progress], None] | None) -> tuple[int, int] | Fault | OSError:
        if (lacking := _lacking()) is not None:
            return Fault("library", f"its rows were not read: {lacking}", observed=lacking, expected=f"pyarrow {OLDEST} or later")
        if self._spool is None:
            try:
                self._spool = _Spool()
            except OSError as error:
                return Fault("process", f"its rows cannot be kept in {tempfile.gettempdir()}: {error.strerror or error}")
        start = self._spool.end
        spec = FileSpec(entry.path, entry.path, entry.device, entry.inode, entry.size, entry.mtime_ns)
        job = Job(self._root, [Unit(FORMAT, entry.path, (entry.path,))], [spec], Depth.TENSORS, table=wanted)
        answer = self._runner(job, progress, self._spool.taker())
        reading, death = answer.readings[0], answer.deaths[0]
        failed: Fault | OSError | None = None
        if death is not None:
            failed = _of_death(death)
        elif reading is not None and reading.problems:
            failed = _of_problem(reading.problems[0])
        if failed is not None:
            self._spool.cut(start)
            return failed
        return start, self._spool.end


def _lacking() -> str | None:
    """Why there is no pyarrow that can be used, found without importing it."""
    try:
        found = metadata.version("pyarrow")
    except metadata.PackageNotFoundError:
        return "pyarrow is not installed"
    major = found.partition(".")[0]
    return None if not major.isdecimal() or int(major) >= OLDEST else f"pyarrow {found} is too old"


def _of_death(death: Death) -> Fault | OSError:
    kind = _DEATHS.get(death.kind)
    if kind is None:
        return OSError(death.detail)
    what = "it cannot be read" if kind == "damaged" else "its rows were not read"
    return Fault(kind, f"{what}: {death.detail}", observed=death.detail, expected="a Parquet file" if kind == "damaged" else None)


def _of_problem(problem: Problem) -> Fault:
    after = f" {problem.where}" if problem.where else ""
    kind = _PROBLEMS.get(problem.kind, "damaged")
    what = {"torn": "the file breaks off", "damaged": "it cannot be decoded", "feature": "its rows were not read"}[kind]
    return Fault(kind, f"{what}{after}: {problem.observed}", observed=problem.observed, expected=problem.expected)


def _items(stream: BinaryIO) -> Iterator[Item]:
    with stream:
        for item in json_lines.records(stream):
            if isinstance(item, Fault) or item.line is None:
                yield item
            elif item.line == 1:
                names = tuple(map(str, item.value)) if isinstance(item.value, list) else ()
                yield Header(1, names)
                yield from tables.twice(None, names)
            else:
                yield Row(None, item.value, f"row {item.line - 1:,}")


class _Spool:
    """A temporary file without a name, into which tables are written one behind the other."""

    def __init__(self) -> None:
        with tempfile.TemporaryFile() as file:
            self._descriptor = os.dup(file.fileno())
        weakref.finalize(self, os.close, self._descriptor)
        self.end = 0

    def taker(self) -> Callable[[str], None]:
        """Takes the rows of the next table; ValueError when there are too many or they cannot be kept."""
        most = self.end + MOST_BYTES

        def take(text: str) -> None:
            rest = memoryview(text.encode("utf-8", "surrogatepass"))
            if self.end + len(rest) > most:
                raise ValueError(f"the rows take more than {size(MOST_BYTES)}")
            try:
                while rest:
                    written = os.pwrite(self._descriptor, rest, self.end)
                    self.end += written
                    rest = rest[written:]
            except OSError as error:
                raise ValueError(f"the rows cannot be kept in {tempfile.gettempdir()}: {error.strerror or error}") from None

        return take

    def cut(self, end: int) -> None:
        """Give back what is behind ``end``."""
        os.ftruncate(self._descriptor, end)
        self.end = end

    def stream(self, start: int, end: int) -> BinaryIO:
        """The bytes from ``start`` to ``end``, unbuffered."""
        return cast(BinaryIO, _Part(self, self._descriptor, start, end))


class _Part(io.RawIOBase):
    def __init__(self, owner: _Spool, descriptor: int, start: int, end: int) -> None:
        self._owner = owner  # closes the descriptor when nobody needs it any more
        self._descriptor, self._at, self._end = descriptor, start, end

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        view = memoryview(buffer)[:max(0, self._end - self._at)]
        count = os.preadv(self._descriptor, [view], self._at) if view else 0
        self._at += count
        return count
