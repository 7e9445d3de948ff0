"""Pickles that are no torch file: of joblib, of scikit-learn, of ``pickle.dump``, also compressed as joblib does it.

Such a file can only be loaded by running what it asks for, so it never is. The opcodes are followed to their end, which finds a
cut file, and the names that they ask for are judged (see `pickle_globals`). A joblib file holds the bytes of its arrays between
the opcodes; compressed it is one stream of zlib, gzip, bz2, xz, lzma or LZ4 (joblib 1.6, ``joblib/compressor.py``).
"""

from __future__ import annotations

import bz2
import lzma
import pickletools
import re
import warnings
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO, Protocol

from .base import HEAD, Candidate, Depth, FileFacts, Format, Problem, ProblemKind, Reading, Source, Unit
from .pickle_globals import Kind, by_danger, kind
from .pickle_stream import Stream, TooLong, names
from .pickle_survey import BadPickle, Name
from .streaming import EndedEarly, digest
from .torch_legacy import recognise as is_torch_legacy

NAME = "pickle"
LARGEST_INFLATED = 16 << 30
_PIECE = 1 << 20
_PROTOCOL = 0x80  # the opcode that a pickle begins with
_LZ4 = b"\x04\x22\x4d\x18"
_LONGEST_BLOCK = 1 << 20  # bz2 gives nothing before the end of a block of 900,000 bytes
_LZMA_MEMORY = 256 << 20
_NAMES = (".joblib", ".pkl", ".pickle", ".lz4")  # of files whose beginning does not say what they hold
_NAMES_SHOWN = 3
_LONGEST_NAME = 200
# How the text of protocol 0 and the bytes of protocol 1 begin: a global, or a dict or list that goes into the memo.
_OLD = re.compile(rb"c[A-Za-z_][\w.]*\n[A-Za-z_][\w.]*\n|\([dl]p0\n|\(i[A-Za-z_][\w.]*\n|[\]}]q\x00")
# What rebuilds a tensor in a plain pickle; it loads a torch file that lies in the pickle as bytes.
_NESTED_TORCH = "torch.storage._load_from_bytes"


class _Machine(Protocol):
    """A decompressor of the standard library."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int = ..., /) -> bytes: ...


class _Zlib:
    """zlib and gzip, with the unread input kept as the other decompressors keep it."""

    def __init__(self) -> None:
        self._machine = zlib.decompressobj(zlib.MAX_WBITS | 32)

    @property
    def eof(self) -> bool:
        return self._machine.eof

    @property
    def unused_data(self) -> bytes:
        return self._machine.unused_data

    def decompress(self, data: bytes, max_length: int = 0, /) -> bytes:
        return self._machine.decompress(self._machine.unconsumed_tail + data, max_length)


# The first bytes of compressed data, the compression's name and what inflates it.
_COMPRESSIONS: Sequence[tuple[re.Pattern[bytes], str, Callable[[], _Machine]]] = (
    (re.compile(rb"\x78[\x01\x5e\x9c\xda]"), "zlib", _Zlib),
    (re.compile(rb"\x1f\x8b\x08"), "gzip", _Zlib),
    (re.compile(rb"BZh[1-9]"), "bz2", bz2.BZ2Decompressor),
    (re.compile(rb"\xfd7zXZ\x00"), "xz", lambda: lzma.LZMADecompressor(memlimit=_LZMA_MEMORY)),
    (re.compile(rb"\x5d\x00\x00"), "lzma", lambda: lzma.LZMADecompressor(lzma.FORMAT_ALONE, memlimit=_LZMA_MEMORY)),
)
_BEGINNINGS = frozenset(b"\x80\x04\x78\x1f\x5d\xfdBc(}]")
_DECOMPRESSION_ERRORS = (zlib.error, OSError, lzma.LZMAError, EOFError, ValueError)


class _Fault(Exception):
    """The file cannot be followed any further."""

    def __init__(self, kind_: ProblemKind, observed: str, expected: str) -> None:
        super().__init__(observed)
        self.kind, self.observed, self.expected = kind_, observed, expected


def recognise(candidate: Candidate) -> bool:
    """By the opcodes at the beginning, of the file or of what it inflates to."""
    head = candidate.head
    if not head or head[0] not in _BEGINNINGS:
        return False
    if head.startswith(_LZ4):
        return is_pickle_name(candidate.name)
    if _OLD.match(head):
        return candidate.read(candidate.size - 1, 1) == b"."
    compression = _compression(head)
    if compression is not None:
        try:
            head = compression[1]().decompress(candidate.read(0, _LONGEST_BLOCK), HEAD)
        except _DECOMPRESSION_ERRORS:
            head = b""
        if is_pickle_name(candidate.name):
            return True  # a flipped byte may make anything of what is compressed
    named = candidate.head[0] == _PROTOCOL and is_pickle_name(candidate.name)  # as a pickle, cut or damaged as it may be
    return (named or begins_as_pickle(head)) and not is_torch_legacy(candidate)


def _compression(head: bytes) -> tuple[str, Callable[[], _Machine]] | None:
    return next(((name, make) for magic, name, make in _COMPRESSIONS if magic.match(head)), None)


def is_pickle_name(name: str) -> bool:
    """Whether a file's name is one of pickles."""
    return name.lower().endswith(_NAMES)


def begins_as_pickle(head: bytes) -> bool:
    """Whether the first bytes of a file are those of a pickle from protocol 2 on, complete or not."""
    if len(head) < 3 or head[0] != 0x80 or not 2 <= head[1] <= 5:
        return False
    count = 0
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for _ in pickletools.genops(head):
                count += 1
    except (ValueError, OverflowError):
        return count > 2  # it goes on behind these bytes, or has an array between its opcodes
    return True


def read(unit: Unit, source: Source) -> Reading:
    """The opcodes of one file and the names in it; its depth is `Depth.HEADER`, since nothing is rebuilt."""
    path, size = unit.path, source.size(unit.path)
    problems: list[Problem] = []
    found: list[Name] = []
    depth: Depth | None = None
    with source.open(path) as file:
        what = "a pickle"
        head = _head(file)
        compression = _compression(head)
        if head.startswith(_LZ4):
            what = "a pickle compressed with LZ4, whose names were not looked at"
        else:
            pieces = _pieces(file, size, source)
            if compression is not None:
                what = f"a pickle compressed with {compression[0]}"
                pieces = _inflated(pieces, *compression)
            try:
                for more in pickles(Stream(pieces)):
                    found += more
                depth = Depth.HEADER
            except _Fault as fault:
                problems.append(Problem(fault.kind, path, fault.observed, fault.expected))
            except BadPickle as error:
                problems.append(bad(error, path, size))
                found += error.names
        problems += judged(found, path, what)
        sha256 = digest(file, size, source)
    return Reading(NAME, depth, [FileFacts(path, size, sha256)], problems)


def bad(error: BadPickle, path: str, size: int, where: str = "") -> Problem:
    """What is wrong with a pickle that cannot be followed."""
    if isinstance(error, TooLong):
        return Problem(ProblemKind.TOO_LARGE, path, str(error), "what the bounded reader takes", where)
    if error.incomplete:
        return Problem(ProblemKind.TRUNCATED, path, f"the pickle does not end within {size:,} bytes ({error})",
                       "an opcode STOP at its end", where)
    return Problem(ProblemKind.DAMAGED, path, str(error), "a complete pickle", where)


def pickles(stream: Stream) -> Iterator[Sequence[Name]]:
    """The names of each of the pickles that follow one another in a stream, which must hold nothing else."""
    yield names(stream)
    while first := stream.peek():
        if first != b"\x80":
            raise _Fault(ProblemKind.TRAILING, f"bytes behind the end of the pickle, at {stream.tell():,}", "none")
        yield names(stream)


def judged(found: Sequence[Name], path: str, what: str, where: str = "") -> Iterator[Problem]:
    """What is to be said of a pickle that asks for these names: what runs code, what is foreign, and that it is not loaded."""
    ordered = list(dict.fromkeys(found))
    unsafe = [name.name for name in ordered if kind(name) is Kind.UNSAFE and name.name != _NESTED_TORCH]
    unsafe.sort(key=by_danger)
    foreign = [name.name for name in ordered if kind(name) is Kind.FOREIGN]
    if unsafe:
        yield Problem(ProblemKind.UNSAFE_GLOBAL, path, _listed(unsafe), "no function that runs code when the file is loaded",
                      unsafe[0][:_LONGEST_NAME], len(unsafe))
    if foreign:
        yield Problem(ProblemKind.FOREIGN_CLASS, path, _listed(foreign), "classes of libraries that the receiver can install",
                      foreign[0][:_LONGEST_NAME], len(foreign))
    others = [name.name for name in ordered]
    needs = f" that needs {_listed(others)}" if others else ""
    yield Problem(ProblemKind.EXECUTABLE, path, f"{what}{needs}; it was not loaded, because that runs code",
                  "a format that loads without running code", where)


def _listed(shown: Sequence[str]) -> str:
    more = f" and {len(shown) - _NAMES_SHOWN:,} more" if len(shown) > _NAMES_SHOWN else ""
    return ", ".join(name[:_LONGEST_NAME] for name in shown[:_NAMES_SHOWN]) + more


def _head(file: BinaryIO) -> bytes:
    file.seek(0)
    return file.read(16)


def _pieces(file: BinaryIO, size: int, source: Source) -> Iterator[bytes]:
    """The whole file in pieces."""
    at = 0
    while at < size:
        file.seek(at)
        piece = file.read(min(_PIECE, size - at))
        if not piece:
            raise EndedEarly(at, size)
        at += len(piece)
        source.advance(0 if source.digest else len(piece))
        yield piece


def _inflated(pieces: Iterator[bytes], name: str, make: Callable[[], _Machine]) -> Iterator[bytes]:
    """What one or several compressed streams hold; `_Fault` when they are cut, damaged or too much."""
    total = 0
    machine = make()
    data = b""
    while True:
        if machine.eof:
            data = machine.unused_data or next(pieces, b"")
            if not data:
                return
            machine = make()
        else:
            try:
                part = machine.decompress(data, _PIECE)
            except _DECOMPRESSION_ERRORS as error:
                raise _Fault(ProblemKind.DAMAGED, f"{name} data that cannot be inflated: {str(error)[:100]}",
                             f"sound {name} data") from None
            data = b""
            total += len(part)
            if total > LARGEST_INFLATED:
                raise _Fault(ProblemKind.TOO_LARGE, f"more than {LARGEST_INFLATED:,} bytes of {name} data", "less")
            if part:
                yield part
            elif not machine.eof and not (data := next(pieces, b"")):
                raise _Fault(ProblemKind.TRUNCATED, f"the {name} data do not end", "their end")


FORMAT = Format(NAME, Depth.HEADER, read, recognise, ambiguous=True, aliases=("joblib", "pkl", "sklearn", "scikit-learn"))
