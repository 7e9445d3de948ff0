"""GGUF files (llama.cpp, ggml), versions 2 and 3 in little-endian byte order, and their split sets.

A file is a header, key-value metadata, tensor infos, padding, and tensor data in which every tensor starts at a multiple
of ``general.alignment`` (ggml, docs/gguf.md). There is no checksum: every count is compared with the bytes that are left, every
tensor with the end of the file, and numbers are tested, of quantised blocks the scales in them.
"""

from __future__ import annotations

import collections
import dataclasses
import io
import math
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO, cast

from .base import Candidate, Depth, FileFacts, Folder, Format, Holds, Problem, ProblemKind, Reading, Source, Unit
from .nul_tail import nul_tail, row_of
from .streaming import NO_ROWS, Found, Row, Segment, Values, exactly, never_written, non_finite, scan

NAME = "GGUF"
MAGIC = b"GGUF"
MOST_TENSORS = 100_000
MOST_KEYS = 100_000
MOST_STRINGS = 5_000_000  # in arrays of the metadata; vocabularies have some hundred thousand
LONGEST_TEXT = 4096  # bytes of a text of the metadata that is looked at
LONGEST_NAME = 1000  # bytes of a key or of a tensor's name; ggml itself allows 63 for a tensor
DEEPEST_ARRAY = 4
MOST_DIMENSIONS = 4  # GGML_MAX_DIMS
_LARGEST_ALIGNMENT = 1 << 20
_ABSURD = 1 << 44  # bytes; a length beyond it is damage and no sign of a cut file

_STRING, _ARRAY = 8, 9
_SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<B", 10: "<Q", 11: "<q", 12: "<d"}
_UNSIGNED = frozenset({0, 2, 4, 10})
_KEPT = frozenset({"general.alignment", "split.no", "split.count", "split.tensors.count"})

# Type number: name, elements of a block, bytes of a block (the ggml_type_traits of ggml.c). Missing numbers were removed.
TYPES: Mapping[int, tuple[str, int, int]] = {
    0: ("F32", 1, 4), 1: ("F16", 1, 2), 30: ("BF16", 1, 2), 28: ("F64", 1, 8),
    24: ("I8", 1, 1), 25: ("I16", 1, 2), 26: ("I32", 1, 4), 27: ("I64", 1, 8),
    2: ("Q4_0", 32, 18), 3: ("Q4_1", 32, 20), 6: ("Q5_0", 32, 22), 7: ("Q5_1", 32, 24), 8: ("Q8_0", 32, 34), 9: ("Q8_1", 32, 40),
    10: ("Q2_K", 256, 84), 11: ("Q3_K", 256, 110), 12: ("Q4_K", 256, 144), 13: ("Q5_K", 256, 176), 14: ("Q6_K", 256, 210),
    15: ("Q8_K", 256, 292),
    16: ("IQ2_XXS", 256, 66), 17: ("IQ2_XS", 256, 74), 22: ("IQ2_S", 256, 82), 18: ("IQ3_XXS", 256, 98), 21: ("IQ3_S", 256, 110),
    19: ("IQ1_S", 256, 50), 29: ("IQ1_M", 256, 56), 20: ("IQ4_NL", 32, 18), 23: ("IQ4_XS", 256, 136),
    34: ("TQ1_0", 256, 54), 35: ("TQ2_0", 256, 66), 39: ("MXFP4", 32, 17), 40: ("NVFP4", 64, 36), 41: ("Q1_0", 128, 18),
}

_NUMBERS = frozenset({"F32", "F16", "BF16", "F64"})
_INTEGERS = frozenset({"I8", "I16", "I32", "I64"})
# Where in a block its half precision numbers lie, the scale and, in some types, the minimum (the blocks of ggml-common.h).
_SCALES: Mapping[str, tuple[int, ...]] = {
    "Q4_0": (0,), "Q4_1": (0, 2), "Q5_0": (0,), "Q5_1": (0, 2), "Q8_0": (0,), "Q2_K": (80, 82), "Q3_K": (108,), "Q4_K": (0, 2),
    "Q5_K": (0, 2), "Q6_K": (208,), "IQ2_XXS": (0,), "IQ2_XS": (0,), "IQ2_S": (0,), "IQ3_XXS": (0,), "IQ3_S": (0,), "IQ1_S": (0,),
    "IQ4_NL": (0,), "IQ4_XS": (0,), "TQ1_0": (52,), "TQ2_0": (64,),
}
_BLOCK_BYTES = {label: size for label, _, size in TYPES.values()}
_PIECE = 1 << 20

_SPLIT = re.compile(r"(?P<stem>.+)-(?P<number>[0-9]{5})-of-(?P<count>[0-9]{5})\.gguf")  # llama_split_path of llama.cpp


@dataclasses.dataclass(frozen=True)
class Tensor:
    """One tensor info.

    ``offset`` counts from the start of the data; ``length`` is None for an unknown type; ``row`` is that of `Segment`.
    """

    name: str
    type: str
    elements: int
    offset: int
    length: int | None
    row: Row = NO_ROWS


@dataclasses.dataclass(frozen=True)
class Header:
    """All before the data: the tensors in the order of their infos, the integers of `_KEPT`, and where the data starts."""

    tensors: Sequence[Tensor]
    values: Mapping[str, int]
    alignment: int
    data: int


class _Fault(Exception):
    """The header cannot be read any further."""

    def __init__(self, kind: ProblemKind, observed: str, expected: str, where: str = "") -> None:
        super().__init__(observed)
        self.kind, self.observed, self.expected, self.where = kind, observed, expected, where


class _Cursor:
    """Reads forward through a file and never past its end; ``place`` is what is being read, for messages."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file, self.size = file, size
        self.at = 0
        self.place = "the header"

    def need(self, count: int) -> None:
        """Fail unless ``count`` more bytes are there."""
        if count > _ABSURD:
            raise _Fault(ProblemKind.DAMAGED, f"{self.place} claims {count:,} bytes", f"at most {self.size - self.at:,}")
        if self.at + count > self.size:
            raise _Fault(ProblemKind.TRUNCATED, f"{self.size:,} bytes: the file ends inside {self.place}",
                         f"at least {self.at + count:,} bytes")

    def take(self, count: int) -> bytes:
        self.need(count)
        data = self._file.read(count)
        if len(data) < count:
            raise OSError(f"the file ends at byte {self.at + len(data):,}, its size was {self.size:,}")
        self.at += count
        return data

    def skip(self, count: int) -> None:
        self.need(count)
        self._file.seek(count, io.SEEK_CUR)
        self.at += count

    def number(self, code: str) -> int:
        return int(struct.unpack(code, self.take(struct.calcsize(code)))[0])

    def count(self, least: int, most: int, what: str) -> int:
        """A 64-bit count of things that take ``least`` bytes each, of which ``most`` are accepted."""
        count = self.number("<Q")
        if count > most:
            if count * least > self.size:
                raise _Fault(ProblemKind.DAMAGED, f"{self.place} announces {count:,} {what}",
                             f"no more than {self.size - self.at:,} bytes can hold")
            raise _Fault(ProblemKind.TOO_LARGE, f"{count:,} {what} in {self.place}", f"at most {most:,}")
        self.need(count * least)
        return count

    def name(self) -> str:
        """A short string: a key, or a tensor's name."""
        length = self.number("<Q")
        self.need(length)
        if length > LONGEST_NAME:
            raise _Fault(ProblemKind.TOO_LARGE, f"a name of {length:,} bytes in {self.place}", f"at most {LONGEST_NAME:,} bytes")
        try:
            return self.take(length).decode("utf-8")
        except UnicodeDecodeError:
            raise _Fault(ProblemKind.DAMAGED, f"a name in {self.place} is not UTF-8", "UTF-8 text") from None


def recognise(candidate: Candidate) -> bool:
    """Whether the file begins as GGUF does, in either byte order and complete or not."""
    return candidate.head.startswith(MAGIC)


def gather(folder: Folder) -> Iterator[Unit]:
    """The split sets of a folder, ``m-00001-of-00002.gguf`` and so on; they need no index. Named by the first part there is.

    Files that are named as parts belong to the set whatever they hold, if at least one of them is a GGUF file.
    """
    sets: dict[tuple[str, str], list[Candidate]] = {}
    for name, candidate in folder.candidates.items():
        match = _SPLIT.fullmatch(name)
        if match:
            sets.setdefault((match["stem"], match["count"]), []).append(candidate)
    for candidates in sets.values():
        if any(map(recognise, candidates)):
            files = sorted(candidate.path for candidate in candidates)
            yield Unit(NAME, files[0], tuple(files))


def read(unit: Unit, source: Source) -> Reading:
    """The structure of a file or of a split set, and the numbers in it, as far as all its types are known."""
    facts: list[FileFacts] = []
    named: dict[str, list[tuple[str, Found]]] = {}
    read_bytes = 0
    problems: list[Problem] = []
    headers: dict[str, Header] = {}
    for path in unit.files:
        with source.open(path) as file:
            size = source.size(path)
            try:
                headers[path] = header = parse(file, size)
                problems += _layout(path, header, size)
                segments = _segments(header, size)
                problems += never_written(path, file, size, segments)
            except _Fault as fault:
                problems.append(Problem(fault.kind, path, fault.observed, fault.expected, fault.where))
                segments = ()
            tested = segments if source.depth >= Depth.TENSORS else ()
            if tested or source.digest:
                result = scan(file, size, tested, source)
                facts.append(FileFacts(path, size, result.sha256))
                found = [(segment, seen) for segment, seen in zip(tested, result.segments, strict=True)]
                named[path] = [(segment.label, _scales(file, segment) or seen) for segment, seen in found]
                problems += nul_tail(path, file, tested, result.segments)
                read_bytes += sum(segment.length for segment in tested)
            else:
                facts.append(FileFacts(path, size))
                source.advance(size)
    for path, values in named.items():
        problems += non_finite(path, values)
    problems += _set(unit, headers)
    tensors = [tensor for header in headers.values() for tensor in header.tensors]
    if not tensors and len(headers) == len(unit.files):
        problems.append(Problem(ProblemKind.NO_TENSORS, unit.path, "0 tensors", "at least one tensor"))
    known = _NUMBERS | _INTEGERS | _SCALES.keys()
    deep = source.depth >= Depth.TENSORS and all(tensor.type in known for tensor in tensors)
    return Reading(
        format=NAME,
        depth=(Depth.TENSORS if deep else Depth.HEADER) if len(headers) == len(unit.files) else None,
        files=facts,
        problems=problems,
        tensors=len(tensors),
        elements=sum(tensor.elements for tensor in tensors),
        dtypes=dict(collections.Counter(tensor.type for tensor in tensors)),
        bytes_read=read_bytes,
    )


def parse(file: BinaryIO, size: int) -> Header:
    """The header of an unbuffered file of ``size`` bytes. The data itself is not read and may be missing."""
    file.seek(0)
    buffered = io.BufferedReader(cast(Any, file), 1 << 18)
    try:
        return _parse(_Cursor(buffered, size))
    finally:
        buffered.detach()


def _parse(cursor: _Cursor) -> Header:
    magic = cursor.take(len(MAGIC))
    if magic != MAGIC:
        raise _Fault(ProblemKind.DAMAGED, f"the file begins with {magic!r}", f"{MAGIC!r}")
    _version(cursor.number("<I"))
    tensor_count, key_count = cursor.number("<Q"), cursor.number("<Q")
    for count, most, least, what in ((key_count, MOST_KEYS, 13, "keys"), (tensor_count, MOST_TENSORS, 24, "tensors")):
        if count > most:
            absurd = count * least > max(cursor.size, 1)
            raise _Fault(ProblemKind.DAMAGED if absurd else ProblemKind.TOO_LARGE, f"{count:,} {what}", f"at most {most:,}")
    values = _metadata(cursor, key_count)
    alignment = values.get("general.alignment", 32)
    if not 0 < alignment <= _LARGEST_ALIGNMENT or alignment & (alignment - 1):
        raise _Fault(ProblemKind.DAMAGED, f"an alignment of {alignment:,}", f"a power of two up to {_LARGEST_ALIGNMENT:,}",
                     "general.alignment")
    tensors = _tensor_infos(cursor, tensor_count)
    return Header(tensors, values, alignment, _aligned(cursor.at, alignment))


def texts(data: bytes, size: int) -> Iterator[tuple[str, str]]:
    """The keys of the metadata with a text of at most `LONGEST_TEXT` bytes, and the text.

    ``data`` is the beginning of a file of ``size`` bytes. It ends where the data ends or makes no sense.
    """
    cursor = _Cursor(io.BytesIO(data), size)
    try:
        cursor.take(len(MAGIC))
        _version(cursor.number("<I"))
        tensor_count, key_count = cursor.number("<Q"), cursor.number("<Q")
        strings = MOST_STRINGS
        for _ in range(min(key_count, MOST_KEYS) if tensor_count <= MOST_TENSORS else 0):
            key, kind = cursor.name(), cursor.number("<I")
            if kind != _STRING:
                strings = _skip_value(cursor, kind, strings, 0)
            elif (length := cursor.number("<Q")) > LONGEST_TEXT:
                cursor.skip(length)
            else:
                yield key, cursor.take(length).decode("utf-8", "replace")
    except (_Fault, OSError):
        pass


def _version(version: int) -> None:
    if version in (2, 3):
        return
    expected = "version 2 or 3 in little-endian byte order"
    if version & 0xFFFF == 0 and version:
        raise _Fault(ProblemKind.UNREADABLE_KIND, "a big-endian file", expected)
    if 0 < version < 256:
        raise _Fault(ProblemKind.UNREADABLE_KIND, f"GGUF version {version}", expected)
    raise _Fault(ProblemKind.DAMAGED, f"GGUF version {version:,}", expected)


def _metadata(cursor: _Cursor, count: int) -> dict[str, int]:
    """Walks over the keys; gives the integers of `_KEPT`."""
    seen: set[str] = set()
    kept: dict[str, int] = {}
    strings = MOST_STRINGS
    for index in range(count):
        cursor.place = f"key {index + 1:,} of {count:,}"
        key = cursor.name()
        if key in seen:
            raise _Fault(ProblemKind.DAMAGED, f"the key {key} twice", "each key once", key)
        seen.add(key)
        cursor.place = f"the value of {key} (key {index + 1:,} of {count:,})"
        kind = cursor.number("<I")
        if key in _KEPT and kind in _SCALARS and kind not in (6, 7, 12):
            kept[key] = cursor.number(_SCALARS[kind])
        elif key == "general.alignment":
            raise _Fault(ProblemKind.DAMAGED, f"a value of type {kind}", "an unsigned integer", key)
        else:
            strings = _skip_value(cursor, kind, strings, 0)
    return kept


def _skip_value(cursor: _Cursor, kind: int, strings: int, depth: int) -> int:
    """Moves past one value; ``strings`` is how many elements may still be walked over, and what is left is returned."""
    if kind in _SCALARS:
        cursor.skip(struct.calcsize(_SCALARS[kind]))
        return strings
    if kind == _STRING:
        cursor.skip(cursor.number("<Q"))
        return strings
    if kind != _ARRAY:
        raise _Fault(ProblemKind.DAMAGED, f"{cursor.place} has the type {kind:,}", "a type from 0 to 12")
    if depth == DEEPEST_ARRAY:
        raise _Fault(ProblemKind.TOO_LARGE, f"arrays in arrays in {cursor.place}", f"at most {DEEPEST_ARRAY} levels")
    inner = cursor.number("<I")
    if inner in _SCALARS:
        cursor.skip(cursor.number("<Q") * struct.calcsize(_SCALARS[inner]))
        return strings
    count = cursor.count(8 if inner == _STRING else 12, strings, "elements")
    for _ in range(count):
        strings = _skip_value(cursor, inner, strings - 1, depth + 1)
    return strings


def _tensor_infos(cursor: _Cursor, count: int) -> list[Tensor]:
    tensors: list[Tensor] = []
    names: set[str] = set()
    for index in range(count):
        cursor.place = f"the info of tensor {index + 1:,} of {count:,}"
        name = cursor.name()
        if name in names:
            raise _Fault(ProblemKind.DAMAGED, "two tensors of this name", "each name once", name)
        names.add(name)
        dimensions = cursor.number("<I")
        if dimensions > MOST_DIMENSIONS:
            raise _Fault(ProblemKind.DAMAGED, f"{dimensions:,} dimensions", f"at most {MOST_DIMENSIONS}", name)
        shape = [cursor.number("<Q") for _ in range(dimensions)]
        number, offset = cursor.number("<I"), cursor.number("<Q")
        elements = math.prod(shape)
        if number not in TYPES:
            tensors.append(Tensor(name, f"type {number}", elements, offset, None))
            continue
        label, block, block_bytes = TYPES[number]
        if (shape[0] if shape else 1) % block:
            raise _Fault(ProblemKind.DAMAGED, f"rows of {shape[0] if shape else 1:,} elements of type {label}",
                         f"a multiple of {block}", name)
        tensors.append(Tensor(name, label, elements, offset, elements // block * block_bytes,
                              row_of(shape[::-1], block_bytes) if block == 1 else NO_ROWS))
    return tensors


def _aligned(position: int, alignment: int) -> int:
    return position + -position % alignment


def _layout(path: str, header: Header, size: int) -> Iterator[Problem]:
    """Whether the tensors follow each other without overlap or gap, and end where the file ends."""
    unknown = [tensor for tensor in header.tensors if tensor.length is None]
    if unknown:
        yield Problem(ProblemKind.UNREADABLE_KIND, path, f"a tensor of ggml {unknown[0].type}", "a known ggml type",
                      unknown[0].name, len(unknown))
    crooked = [tensor for tensor in header.tensors if tensor.offset % header.alignment]
    if crooked:
        yield Problem(ProblemKind.DAMAGED, path, f"data at offset {crooked[0].offset:,}", f"a multiple of {header.alignment}",
                      crooked[0].name, len(crooked))
    ordered = sorted(header.tensors, key=lambda tensor: (tensor.offset, tensor.length or 0))
    yield from _neighbours(path, ordered, header.alignment)
    yield from _ending(path, ordered, header, size)


def _neighbours(path: str, ordered: Sequence[Tensor], alignment: int) -> Iterator[Problem]:
    """The first overlap or gap. What follows a tensor of unknown length is not judged."""
    end: int | None = 0
    before = "the start of the data"
    for tensor in ordered:
        if end is not None and tensor.offset < end:
            yield Problem(ProblemKind.DAMAGED, path, f"data at offset {tensor.offset:,}, inside {before}",
                          f"offset {_aligned(end, alignment):,} or later", tensor.name)
            return
        if end is not None and tensor.offset >= _aligned(end, alignment) + alignment:
            yield Problem(ProblemKind.DAMAGED, path,
                          f"data at offset {tensor.offset:,}, {tensor.offset - _aligned(end, alignment):,} bytes after {before}",
                          f"offset {_aligned(end, alignment):,}", tensor.name)
            return
        end = None if tensor.length is None else tensor.offset + tensor.length
        before = tensor.name


def _ending(path: str, ordered: Sequence[Tensor], header: Header, size: int) -> Iterator[Problem]:
    """What is missing at the end of the file, or too much there."""
    ends = {tensor.name: header.data + tensor.offset + (tensor.length or 0) for tensor in ordered}
    cut = [tensor for tensor in ordered if ends[tensor.name] > size and tensor.length != 0]
    needed = max(ends.values(), default=min(header.data, size))
    if cut:
        absurd = needed > _ABSURD
        yield Problem(ProblemKind.DAMAGED if absurd else ProblemKind.TRUNCATED, path,
                      f"{size:,} bytes: {needed - size:,} are missing, {len(cut):,} of {len(ordered):,} tensors are cut",
                      f"{needed:,} bytes", cut[0].name, len(cut))
    elif size >= needed + header.alignment and not any(tensor.length is None for tensor in ordered):
        yield Problem(ProblemKind.TRAILING, path, f"{size - needed:,} bytes after the last tensor",
                      f"fewer than {header.alignment} bytes of padding")


def _segments(header: Header, size: int) -> Sequence[Segment]:
    """The tensors that lie in the file, as ranges that do not overlap."""
    segments: list[Segment] = []
    end = header.data
    for tensor in sorted(header.tensors, key=lambda tensor: tensor.offset):
        start = header.data + tensor.offset
        if tensor.length and start >= end and start + tensor.length <= size:
            segments.append(Segment(start, tensor.length, tensor.type, label=tensor.name, row=tensor.row))
            end = start + tensor.length
    return segments


def _scales(file: BinaryIO, segment: Segment) -> Found | None:
    """What the scales in the blocks of a quantised tensor are; None for a type without scales that are known here."""
    places = _SCALES.get(segment.dtype or "")
    if places is None:
        return None
    block = _BLOCK_BYTES[segment.dtype or ""]
    values = Values("F16", 2)
    step = _PIECE - _PIECE % block
    for at in range(segment.offset, segment.end, step):
        data = exactly(file, at, min(step, segment.end - at))
        for place in places:
            low, high = data[place::block], data[place + 1::block]
            scales = bytearray(2 * len(high))
            scales[0::2], scales[1::2] = low, high
            values.take(bytes(scales))
    return values.found()


def _base(path: str) -> str:
    return path.rpartition("/")[2]


def _set(unit: Unit, headers: Mapping[str, Header]) -> Iterator[Problem]:
    """Whether the parts say of themselves what their names say, and are all there."""
    for path, header in headers.items():
        yield from _claim(path, header)
    match = _SPLIT.fullmatch(unit.path)
    if match is None:
        return
    count, present = int(match["count"]), frozenset(unit.files)
    parts = (f"{match['stem']}-{number:05}-of-{count:05}.gguf" for number in range(1, count + 1))
    absent = [_base(part) for part in parts if part not in present]
    if absent:
        names = ", ".join(absent[:3]) + (" …" if len(absent) > 3 else "")
        yield Problem(ProblemKind.SHARD_MISSING, unit.path, f"{len(absent)} of {count} parts are absent or empty: {names}",
                      f"{count} parts", count=len(absent))
    yield from _across(unit, headers, complete=not absent and len(headers) == len(unit.files))


def _claim(path: str, header: Header) -> Iterator[Problem]:
    """Whether the metadata and the name of one file agree on which part of how many it is."""
    match = _SPLIT.fullmatch(_base(path))
    named = (int(match["number"]), int(match["count"])) if match else (1, 1)
    number, count = header.values.get("split.no", 0) + 1, header.values.get("split.count", 1)
    if (number, count) == named:
        return
    if match:
        yield Problem(ProblemKind.SHARD_INDEX, path, f"the metadata says part {number} of {count}",
                      f"part {named[0]} of {named[1]}, as the file's name says")
    else:
        yield Problem(ProblemKind.SHARD_MISSING, path, f"part {number} of {count}, alone and not named as a part",
                      f"a whole model, or {count} files named as llama.cpp does (…-00001-of-{count:05}.gguf)")


def _across(unit: Unit, headers: Mapping[str, Header], complete: bool) -> Iterator[Problem]:
    """Tensor names that stand in two parts, and a total that differs from what the metadata announces."""
    holder: dict[str, str] = {}
    twice = []
    for path, header in headers.items():
        for tensor in header.tensors:
            if holder.setdefault(tensor.name, path) != path:
                twice.append((tensor.name, path))
    if twice:
        name, path = twice[0]
        yield Problem(ProblemKind.SHARD_INDEX, path, f"a tensor that is in {_base(holder[name])} too",
                      "each tensor in one part", name, len(twice))
    announced = {header.values["split.tensors.count"] for header in headers.values() if "split.tensors.count" in header.values}
    if complete and not twice and announced and announced != {len(holder)}:
        yield Problem(ProblemKind.SHARD_INDEX, unit.path, f"{len(holder):,} tensors in all parts",
                      f"{', '.join(f'{total:,}' for total in sorted(announced))}, as the metadata says")


FORMAT = Format(NAME, Depth.HEADER, read, recognise, gather, holds=Holds.WEIGHTS)
