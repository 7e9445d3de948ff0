"""What the readers of records yield, and the lines of a file as they see them: split at the byte LF and at nothing else."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple, cast

from .strict_json import Fault

LONGEST = 16 << 20  # bytes of a line or of a row
BOM = b"\xef\xbb\xbf"
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_BUFFER = 1 << 20


class Row(NamedTuple):
    """One record: its line, or its JSON pointer where a file is one document."""

    line: int | None
    value: Any
    pointer: str | None = None


class Header(NamedTuple):
    """The names of the columns of a table."""

    line: int
    names: tuple[str, ...]


class Where(NamedTuple):
    """The place of a record: its file, and its line or JSON pointer."""

    path: str
    line: int | None = None
    pointer: str | None = None

    def __str__(self) -> str:
        return f"line {self.line:,}" if self.line is not None else self.pointer or ""


Item = Row | Header | Fault


@contextlib.contextmanager
def buffered(stream: BinaryIO) -> Iterator[BinaryIO]:
    """A stream that need not be buffered, read in large pieces; it stays open."""
    reader = io.BufferedReader(cast(io.RawIOBase, stream), _BUFFER)
    try:
        yield reader
    finally:
        with contextlib.suppress(ValueError):  # the stream was closed before
            reader.detach()


def lines(stream: BinaryIO) -> Iterator[tuple[int, bytes] | Fault]:
    """Every line with its number, counted from 1, and its line end; without the byte order mark of the file.

    A line with NUL bytes (what a file system leaves of a block that never reached the disk) and one longer than `LONGEST`
    are faults (kinds ``nul`` and ``limit``). UTF-16 is one fault (``encoding``), after which nothing follows.
    """
    number = 0
    with buffered(stream) as reader:
        while line := reader.readline(LONGEST + 1):
            number += 1
            if number == 1 and line.startswith(_UTF_16):
                yield Fault("encoding", "the text is UTF-16", 1, 1, None, line[:2].hex(" "), "UTF-8")
                return
            length, nuls, at = len(line), line.count(0), line.find(0)
            whole = length <= LONGEST or line.endswith(b"\n")
            while not whole and (rest := reader.readline(LONGEST)):
                length, nuls = length + len(rest), nuls + rest.count(0)
                whole = rest.endswith(b"\n")
            if nuls:
                yield Fault("nul", f"{nuls:,} NUL bytes in the line", number, at + 1 or None, None, f"{nuls:,} NUL bytes", "text")
            elif length > LONGEST + 1:
                yield Fault("limit", f"a line of {length:,} bytes", number, None, None, f"{length:,} bytes",
                            f"at most {LONGEST:,}")
            else:
                yield number, line.removeprefix(BOM) if number == 1 else line
