"""Arrays of NumPy: one or several in a ``.npy`` file, or each in a member of a zip archive, ``.npz``.

``np.load`` finds a cut array and nothing else: no flipped byte of a ``.npy``, no bytes behind the end. The archive has checksums.
An array of objects is a pickle, which is not loaded. Source of the facts: numpy/lib/_format_impl.py and _npyio_impl.py of NumPy
2.4, and files written by it.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import operator
import zlib
from collections.abc import Collection, Iterator, Sequence
from typing import BinaryIO

from ..tensor_digests import begun, header
from .base import Candidate, Depth, FileFacts, Format, Placed, Problem, ProblemKind, Reading, Source, Strided, Unit
from .numpy_header import LONGEST_HEADER, MAGIC, BadHeader, Header, parse
from .pickle_file import bad, judged
from .pickle_stream import Stream, names
from .pickle_survey import BadPickle
from .streaming import Found, Segment, Values, digest, exactly, never_written, non_finite, scan
from .zip_archive import STORED, Archive, Member, first_name, member_names, reader
from .zip_members import BadDeflate, bad_members, flat_archive, inflate

NAME = "NumPy"
_MOST_ARRAYS = 100_000  # in one .npy file
_ENDING = ".npy"
_PIECE = 1 << 20
_NO_MEMBERS = b"PK\x05\x06"  # how an archive without members begins


@dataclasses.dataclass(frozen=True)
class _Array:
    """One array: its name, its header and where its values lie in the file; ``stored`` is False in a deflated member."""

    name: str
    header: Header
    offset: int
    stored: bool = True


def recognise(candidate: Candidate) -> bool:
    """By the magic bytes, or by an archive whose members are all arrays; an archive without members by its name."""
    if candidate.head.startswith(MAGIC):
        return True
    if not candidate.head.startswith((b"PK\x03\x04", _NO_MEMBERS)) or candidate.name.endswith(".skops"):
        return False
    members = member_names(candidate.read, candidate.size)
    if members:
        return all(name.endswith(_ENDING) for name in members)
    return first_name(candidate.head).endswith(_ENDING) or (
        candidate.head.startswith(_NO_MEMBERS) and candidate.name.endswith(".npz"))


def read(unit: Unit, source: Source) -> Reading:
    """Headers, checksums and values of the arrays in one file."""
    path, size = unit.path, source.size(unit.path)
    with source.open(path) as file:
        if exactly(file, 0, min(size, len(MAGIC))) == MAGIC:
            return _read_arrays(file, size, path, source)
        return _read_archive(file, size, path, source)


def _read_arrays(file: BinaryIO, size: int, path: str, source: Source) -> Reading:
    arrays: list[_Array] = []
    problems: list[Problem] = []
    at = 0
    while at < size:
        if at and exactly(file, at, min(len(MAGIC), size - at)) != MAGIC:
            problems.append(Problem(ProblemKind.TRAILING, path, f"{size - at:,} bytes behind the end of the array", "none"))
            break
        if len(arrays) == _MOST_ARRAYS:
            observed = f"more than {_MOST_ARRAYS:,} arrays"
            problems.append(Problem(ProblemKind.TOO_LARGE, path, observed, f"at most {_MOST_ARRAYS:,}"))
            break
        name = f"array {len(arrays) + 1}" if arrays else ""
        array, found = _array(file, at, size - at, path, name, alone=False)
        problems += found
        if array is None:
            break
        if array.header.objects:
            problems += _objects(_from(file, array.offset, size), path, size, name)
            break
        arrays.append(array)
        at = array.offset + array.header.length
    complete = not any(problem.kind in (ProblemKind.TRUNCATED, ProblemKind.DAMAGED) for problem in problems)
    sound = [array for array in arrays if array.offset + array.header.length <= size]
    values = _Reader(file, size, path, source)
    problems += values.read_stored(sound, [])
    return values.reading(arrays if complete else sound, problems, Depth.HEADER if complete else None)


def _read_archive(file: BinaryIO, size: int, path: str, source: Source) -> Reading:
    archive, problems = flat_archive(file, size, path)
    values = _Reader(file, size, path, source)
    if archive is None:
        problems += values.read_stored([], [])
        return values.reading([], problems, None)
    arrays: list[_Array] = []
    for member in archive.members:
        name = member.name.removesuffix(_ENDING)
        if not member.name.endswith(_ENDING):
            problems.append(Problem(ProblemKind.DAMAGED, path, "a member that is no array", "arrays only", member.name))
            continue
        if member.method != STORED:
            array, found = _deflated(file, member, path, name)
        else:
            array, found = _array(file, member.offset, member.size, path, name, alone=True)
        problems += found
        if array is not None and array.header.objects:
            stored = _from(file, array.offset, member.offset + member.size)
            problems += _objects(stored if array.stored else _rest(inflate(file, member), array), path, member.size, name)
        elif array is not None:
            arrays.append(array)
    if not archive.members:
        problems.append(Problem(ProblemKind.NO_TENSORS, path, "0 arrays", "at least one array"))
    sound = [array for array in arrays if array.stored]
    problems += values.read_stored(sound, [member for member in archive.members if member.method == STORED])
    problems += values.read_deflated(arrays, archive)
    return values.reading(arrays, problems, Depth.HEADER)


def _array(file: BinaryIO, at: int, size: int, path: str, name: str, *, alone: bool) -> tuple[_Array | None, list[Problem]]:
    """The array that begins at ``at`` and may take ``size`` bytes; ``alone``: it must take them all."""

    def look(offset: int, length: int) -> bytes:
        return reader(file)(at + offset, min(length, size - offset))

    try:
        header = parse(look, size)
    except BadHeader as error:
        return None, [_bad_header(error, path, size, name)]
    return _Array(name, header, at + header.data), _length(header, size, path, name, alone)


def _bad_header(error: BadHeader, path: str, size: int, name: str) -> Problem:
    kind = ProblemKind.TRUNCATED if error.ends else ProblemKind.DAMAGED
    return Problem(kind, path, f"{size:,} bytes of which no header can be read: {error}", "a header of NumPy's format", name)


def _length(header: Header, size: int, path: str, name: str, alone: bool) -> list[Problem]:
    """Whether the values fit into the bytes that are there."""
    if header.objects:
        return []
    needed = header.data + header.length
    described = f"{header.data:,} + {header.length:,} bytes ({header.dtype} {list(header.shape)})"
    if needed > size:
        return [Problem(ProblemKind.TRUNCATED, path, f"{size:,} bytes, {needed - size:,} are missing", described, name)]
    if alone and needed < size:
        return [Problem(ProblemKind.TRAILING, path, f"{size - needed:,} bytes behind the end of the array", described, name)]
    return []


def _deflated(file: BinaryIO, member: Member, path: str, name: str) -> tuple[_Array | None, list[Problem]]:
    """The header of a compressed member."""
    start = b""
    try:
        for part in inflate(file, member):
            start += part
            if len(start) > LONGEST_HEADER + 64:
                break
    except BadDeflate:
        return None, []  # said with the checksums
    try:
        header = parse(lambda offset, length: start[offset:offset + length], member.size)
    except BadHeader as error:
        return None, [_bad_header(error, path, member.size, name)]
    return _Array(name, header, header.data, stored=False), _length(header, member.size, path, name, alone=True)


def _objects(pieces: Iterator[bytes], path: str, size: int, name: str) -> Iterator[Problem]:
    """What is to be said of an array of objects, by its pickle."""
    found = []
    try:
        found = list(names(Stream(pieces)))
    except BadPickle as error:
        yield bad(error, path, size, name)
    except BadDeflate:
        return  # said with the checksums
    yield from judged(found, path, "an array of objects, which is a pickle", name)


def _from(file: BinaryIO, at: int, end: int) -> Iterator[bytes]:
    while at < end:
        piece = exactly(file, at, min(_PIECE, end - at))
        at += len(piece)
        yield piece


def _rest(parts: Iterator[bytes], array: _Array) -> Iterator[bytes]:
    """The pieces of a member behind its header."""
    left = array.header.data
    for part in parts:
        yield part[left:]
        left = max(0, left - len(part))


class _Reader:
    """The values of a file's arrays: read in one pass where they are stored, and inflated where they are not."""

    def __init__(self, file: BinaryIO, size: int, path: str, source: Source) -> None:
        self._file, self._size, self._path, self._source = file, size, path, source
        self._sha256: str | None = None
        self._found: dict[str, Found] = {}
        self._digests: dict[str, str | None] = {}
        self._broken: set[str] = set()
        self._bytes = 0

    @property
    def _deep(self) -> bool:
        return self._source.depth >= Depth.TENSORS

    def read_stored(self, arrays: Sequence[_Array], members: Sequence[Member]) -> list[Problem]:
        """Checksums of the stored members, if there are any, and the values of the arrays that lie in the file as they are."""
        file, path = self._file, self._path
        parts: list[tuple[_Array | None, Member | None]] = []
        if members:
            by_name = {array.name + _ENDING: array for array in arrays}
            parts += [(by_name.get(member.name), member) for member in members]
        else:
            parts += [(array, None) for array in arrays]
        hashed = self._source.hashed([array.name for array in arrays if array.header.plain])
        segments = [self._segment(array, member, hashed) for array, member in parts]
        problems = list(never_written(path, file, self._size, segments))
        if not self._deep:
            self._sha256 = digest(file, self._size, self._source)
            return problems
        result = scan(file, self._size, segments, self._source)
        self._sha256 = result.sha256
        wrong = []
        for (array, member), found in zip(parts, result.segments, strict=True):
            if array is not None:
                self._found[array.name] = found
                self._digests[array.name] = found.sha256
            if member is not None and found.crc32 != member.crc:
                wrong.append((member, found.crc32))
        self._broken |= {member.name for member, _ in wrong}
        problems += bad_members(path, wrong, ())
        for array in arrays:
            self._bytes += array.header.length
            if array.header.turned:
                values = Values(array.header.dtype, array.header.number, turned=True)
                for piece in _from(file, array.offset, array.offset + array.header.length):
                    values.take(piece)
                self._found[array.name] = values.found()
        return problems

    def _segment(self, array: _Array | None, member: Member | None, hashed: Collection[str]) -> Segment:
        """The values of an array, in a member with the checksum that goes on from its header."""
        if array is None:
            assert member is not None
            return Segment(member.offset, member.stored, crc=True, label=member.name)
        dtype = None if array.header.turned else array.header.dtype
        start = _start(array) if array.name in hashed else None
        if member is None:
            return Segment(array.offset, array.header.length, dtype, label=array.name, header=start)
        header = exactly(self._file, member.offset, array.offset - member.offset)
        length = member.offset + member.stored - array.offset
        return Segment(array.offset, length, dtype, crc=True, label=array.name, seed=zlib.crc32(header), header=start)

    def read_deflated(self, arrays: Sequence[_Array], archive: Archive) -> Iterator[Problem]:
        """Checksums and values of the compressed members."""
        if not self._deep:
            return
        by_name = {array.name: array for array in arrays if not array.stored}
        hashed = self._source.hashed([name for name, array in by_name.items() if array.header.plain])
        wrong: list[tuple[Member, int | None]] = []
        broken: list[Member] = []
        for member in archive.members:
            if member.method == STORED:
                continue
            array = by_name.get(member.name.removesuffix(_ENDING))
            try:
                crc, found = self._inflate(member, array, array is not None and array.name in hashed)
            except BadDeflate:
                broken.append(member)
                continue
            if crc != member.crc:
                wrong.append((member, crc))
            elif array is not None:
                self._found[array.name] = found
                self._digests[array.name] = found.sha256
                self._bytes += array.header.length
        self._broken |= {member.name for member in (*broken, *(member for member, _ in wrong))}
        yield from bad_members(self._path, wrong, broken)

    def _inflate(self, member: Member, array: _Array | None, hashed: bool) -> tuple[int, Found]:
        dtype, number, turned = (array.header.dtype, array.header.number, array.header.turned) if array else (None, 1, False)
        values = Values(dtype, number, turned=turned)
        crc, left = 0, array.header.data if array else 0
        taken = begun(_start(array)) if array is not None and hashed else None
        for part in inflate(self._file, member):
            crc = zlib.crc32(part, crc)
            values.take(part[left:])
            if taken is not None:
                taken.update(part[left:])
            left = max(0, left - len(part))
            self._source.advance(len(part))
        return crc, dataclasses.replace(values.found(), sha256=taken.hexdigest() if taken is not None else None)

    def reading(self, arrays: Sequence[_Array], problems: Sequence[Problem], depth: Depth | None) -> Reading:
        """The answer, with what the values showed."""
        path = self._path
        tested = [(array.name, self._found[array.name]) for array in arrays
                  if array.name in self._found and array.name + _ENDING not in self._broken]
        unread = [array for array in arrays if array.header.unread]
        more = list(non_finite(path, tested))
        if unread:
            more.append(Problem(ProblemKind.UNREADABLE_KIND, path, unread[0].header.unread, "a type whose values can be tested",
                                unread[0].name, len(unread)))
        opaque = unread or any(problem.kind is ProblemKind.EXECUTABLE for problem in problems)
        if depth is not None and self._deep and not opaque:
            depth = Depth.TENSORS
        zero = {name for name, found in tested if found.zero}
        return Reading(
            NAME, depth, [FileFacts(path, self._size, self._sha256)], [*problems, *more], len(arrays),
            sum(array.header.elements for array in arrays), collections.Counter(array.header.dtype for array in arrays),
            self._bytes,
            {array.name: _placed(array, path, array.name in zero, self._digests.get(array.name)) for array in arrays})


def _start(array: _Array) -> bytes:
    return header(array.header.dtype, array.header.shape)


def _placed(array: _Array, path: str, zero: bool, sha256: str | None) -> Placed:
    what, plain = array.header, array.stored and not array.header.turned
    strided = None
    if what.fortran and plain:
        stride = tuple(itertools.accumulate(what.shape[:-1], operator.mul, initial=1))
        strided = Strided(array.offset, what.item, what.shape, stride)
    offset = array.offset if plain and not what.fortran else None
    return Placed(what.dtype, what.shape, path, offset, what.length, zero, sha256, strided)


FORMAT = Format(NAME, Depth.TENSORS, read, recognise, ambiguous=True, aliases=("npy", "npz", "jax"))
