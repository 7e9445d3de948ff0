"""Safetensors files, by a strict header parser of our own.

A file is the length of the header (8 bytes, little-endian), the header (JSON: name -> dtype, shape, data_offsets) and the
tensor data, which the offsets cover without gap or overlap up to the last byte (huggingface/safetensors, README, "Format").
There is no checksum. The library says neither how much of a cut file is missing nor which tensors are cut, takes the
last of two equal names where the offsets allow it, and maps the file, so that loading it reads none of the bytes.
"""

from __future__ import annotations

import collections
import dataclasses
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, BinaryIO, TypeGuard

from .. import tensor_digests
from ..readers import strict_json
from .base import Candidate, Depth, FileFacts, Format, Holds, Placed, Problem, ProblemKind, Reading, Source, Unit
from .nul_tail import nul_tail, row_of
from .optimizer_state import training_parts
from .streaming import Found, Segment, digest, exactly, never_written, non_finite, scan

NAME = "safetensors"
LONGEST_HEADER = 100_000_000  # bytes; the format's own limit
MOST_VALUES = 4_000_000  # JSON values in a header, which bounds the memory that it takes; a tensor has about nine
LONGEST_NAME = 4096  # characters
_LENGTH = 8  # bytes of the length in front of the header
_METADATA = "__metadata__"
_LARGEST_SIZE = 1 << 64  # numbers in a header are 64 bits wide

# Bits of an element (safetensors 0.8, Dtype::bitsize).
DTYPES: Mapping[str, int] = {
    "BOOL": 8, "U8": 8, "I8": 8, "U16": 16, "I16": 16, "U32": 32, "I32": 32, "U64": 64, "I64": 64,
    "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
    "F16": 16, "BF16": 16, "F32": 32, "F64": 64, "C64": 64,
}

PROBE = b'{"__metadata__":{"pytest_campaign_probe":'  # a recorded input and output, which is no checkpoint
_TYPE = re.compile("[A-Z][A-Z0-9_]{0,30}")
_BEGINNING = re.compile(rb'[ \t\r\n]*\{[ \t\r\n]*(?:["}]|\Z)')


@dataclasses.dataclass(frozen=True)
class Tensor:
    """One entry of a header; ``start`` and ``end`` count from the first byte after the header."""

    name: str
    dtype: str
    shape: Sequence[int]
    start: int
    end: int

    @property
    def elements(self) -> int:
        """The number of elements; at most 2**64, where the shape says more."""
        product = 1
        for size in self.shape:
            product = min(product * size, _LARGEST_SIZE)
        return product

    def placed(self, path: str, start: int) -> Placed:
        """Where the values lie in the file ``path``, whose data begins at ``start``."""
        return Placed(self.dtype, tuple(self.shape), path, start + self.start, self.end - self.start)


@dataclasses.dataclass(frozen=True)
class Header:
    """A parsed header: its tensors in the order of their data, where the data begins and ends in the file, and its metadata."""

    tensors: Sequence[Tensor]
    start: int
    end: int
    metadata: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def segments(self, hashed: Collection[str] = ()) -> Sequence[Segment]:
        """The tensors as the pass wants them; ``hashed`` are the names of those whose digests are to be taken."""
        return [Segment(self.start + tensor.start, tensor.end - tensor.start, tensor.dtype, label=tensor.name,
                        header=tensor_digests.header(tensor.dtype, tensor.shape) if tensor.name in hashed else None,
                        row=row_of(tensor.shape, DTYPES.get(tensor.dtype, 0) // 8))
                for tensor in self.tensors]


class _Fault(Exception):
    """The header cannot be used; becomes a `Problem`."""

    def __init__(self, kind: ProblemKind, observed: str, expected: str, where: str = "") -> None:
        super().__init__(observed)
        self.kind, self.observed, self.expected, self.where = kind, observed, expected, where


def recognise(candidate: Candidate) -> bool:
    """Whether the file begins with a plausible length and then JSON with a name in it, complete or not; and is no probe."""
    return (candidate.size > _LENGTH and _plausible(candidate.head) and bool(_BEGINNING.match(candidate.head, _LENGTH))
            and not candidate.head.startswith(PROBE, _LENGTH))


def _plausible(head: bytes) -> bool:
    return 2 <= int.from_bytes(head[:_LENGTH], "little") <= LONGEST_HEADER


def read(unit: Unit, source: Source) -> Reading:
    """One file. Tensor data is read when the structure is sound and `Depth.TENSORS` is asked for."""
    path = unit.path
    size = source.size(path)
    with source.open(path) as file:
        try:
            header = parse(file, size)
        except _Fault as fault:
            problem = Problem(fault.kind, path, fault.observed, fault.expected, fault.where)
            return Reading(NAME, None, [_facts(path, file, size, source)], [problem])
        unknown = list(_unknown_dtypes(path, header))
        problems = [*_ends(path, header, size), *unknown]
        if not header.tensors:
            problems.append(Problem(ProblemKind.NO_TENSORS, path, "0 tensors", "at least one tensor"))
        depth, bytes_read = Depth.HEADER, 0
        values: Sequence[Found] = [Found()] * len(header.tensors)
        if header.end > size:
            facts = _facts(path, file, size, source)
        else:
            segments = header.segments(source.hashed([tensor.name for tensor in header.tensors]))
            problems += never_written(path, file, size, segments)
            if source.depth >= Depth.TENSORS:
                result = scan(file, size, segments, source)
                facts = FileFacts(path, size, result.sha256)
                names = [tensor.name for tensor in header.tensors]
                problems += nul_tail(path, file, segments, result.segments)
                problems += non_finite(path, zip(names, result.segments, strict=True))
                values = result.segments
                depth, bytes_read = Depth.TENSORS, header.end - header.start
            else:
                facts = _facts(path, file, size, source)
    layout = {tensor.name: dataclasses.replace(tensor.placed(path, header.start), zero=found.zero, sha256=found.sha256)
              for tensor, found in zip(header.tensors, values, strict=True)}
    return Reading(
        format=NAME,
        depth=Depth.HEADER if unknown else depth,  # bytes of a type that nobody knows prove nothing
        files=[facts],
        problems=problems,
        tensors=len(header.tensors),
        elements=sum(tensor.elements for tensor in header.tensors),
        dtypes=collections.Counter(tensor.dtype for tensor in header.tensors),
        bytes_read=bytes_read,
        layout=layout,
        parts=training_parts(layout, {}),
    )


def _facts(path: str, file: BinaryIO, size: int, source: Source) -> FileFacts:
    """The facts of a file whose tensors are not looked at."""
    if not source.digest:
        source.advance(size)
    return FileFacts(path, size, digest(file, size, source))


def parse(file: BinaryIO, size: int) -> Header:
    """The header of a file of ``size`` bytes, without reading the data, which may end early or be followed by more."""
    data = _header_bytes(file, size)
    if sum(data.count(byte) for byte in b"{[,") > MOST_VALUES:
        raise _Fault(ProblemKind.TOO_LARGE, f"a header of {len(data):,} bytes with more than {MOST_VALUES:,} values",
                     f"at most {MOST_VALUES:,}")
    try:
        content = strict_json.parse(data, most_bytes=LONGEST_HEADER)
    except strict_json.NotStrict as error:
        raise _not_json(error.faults[0]) from None
    if not isinstance(content, dict):
        raise _Fault(ProblemKind.DAMAGED, "the header is no JSON object", "an object of tensors by name")
    metadata = _metadata(content.pop(_METADATA, None))
    tensors = sorted((_tensor(name, entry) for name, entry in content.items()), key=lambda t: (t.start, t.end))
    _layout(tensors)
    start = _LENGTH + len(data)
    return Header(tensors, start, start + (tensors[-1].end if tensors else 0), metadata)


def header(file: BinaryIO, size: int) -> Header | None:
    """The header of a whole file; None when it cannot be used or the data ends early."""
    try:
        found = parse(file, size)
    except _Fault:
        return None
    return found if found.end <= size else None


def _header_bytes(file: BinaryIO, size: int) -> bytes:
    length = int.from_bytes(exactly(file, 0, min(_LENGTH, size)), "little")
    if length > LONGEST_HEADER:
        raise _Fault(ProblemKind.DAMAGED, f"a header of {length:,} bytes is announced", f"at most {LONGEST_HEADER:,} bytes")
    if _LENGTH + length > size:
        missing = _LENGTH + length - size
        raise _Fault(ProblemKind.TRUNCATED, f"the file has {size:,} bytes and ends inside its header ({missing:,} missing)",
                     f"at least {_LENGTH} + {length:,} bytes")
    return exactly(file, _LENGTH, length)


def _not_json(fault: strict_json.Fault) -> _Fault:
    if fault.kind == "duplicate-key":
        name = (fault.pointer or "").removeprefix("/").replace("~1", "/").replace("~0", "~")
        return _Fault(ProblemKind.DAMAGED, f"the header has the name {strict_json.shown(name)} twice", "every name once", name)
    place = f" at character {fault.column:,} of line {fault.line:,}" if fault.line and fault.column else ""
    return _Fault(ProblemKind.DAMAGED, f"the header is not JSON: {fault.message}{place}", fault.expected or "strict JSON")


def _metadata(metadata: Any) -> Mapping[str, str]:
    if metadata is None:
        return {}
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise _Fault(ProblemKind.DAMAGED, "values in the metadata that are no text", "an object of strings", _METADATA)
    return metadata


def _tensor(name: str, entry: Any) -> Tensor:
    if len(name) > LONGEST_NAME:
        raise _Fault(ProblemKind.TOO_LARGE, f"a name of {len(name):,} characters", f"at most {LONGEST_NAME:,}", name[:60])
    fault = _Fault(ProblemKind.DAMAGED, "no description of a tensor", "dtype, shape and data_offsets", name)
    if not isinstance(entry, dict):
        raise fault
    dtype, shape, offsets = entry.get("dtype"), entry.get("shape"), entry.get("data_offsets")
    if not isinstance(dtype, str) or not _TYPE.fullmatch(dtype) or not _sizes(shape) or not _sizes(offsets) or len(offsets) != 2:
        raise fault
    tensor = Tensor(name, dtype, shape, offsets[0], offsets[1])
    if tensor.start > tensor.end:
        raise _Fault(ProblemKind.DAMAGED, f"data from {tensor.start:,} to {tensor.end:,}", "an end after the start", name)
    bits = DTYPES.get(dtype)
    if bits is not None and tensor.elements * bits != (tensor.end - tensor.start) * 8:
        raise _Fault(ProblemKind.DAMAGED, f"{dtype} {_shape(shape)} in {tensor.end - tensor.start:,} bytes",
                     f"{_bytes(tensor.elements * bits)} bytes", name)
    return tensor


def _sizes(value: Any) -> TypeGuard[list[int]]:
    return isinstance(value, list) and all(type(item) is int and 0 <= item < _LARGEST_SIZE for item in value)


def _shape(shape: Sequence[int]) -> str:
    shown = ", ".join(map(str, shape[:8]))
    return f"[{shown}, … {len(shape)} dimensions]" if len(shape) > 8 else f"[{shown}]"


def _bytes(bits: int) -> str:
    whole, rest = divmod(bits, 8)
    return f"{whole:,}" if not rest else f"{whole:,} and {rest}/8"


def _layout(tensors: Sequence[Tensor]) -> None:
    """The data of the tensors follows one another without gap or overlap."""
    end = 0
    for tensor in tensors:
        if tensor.start != end:
            fault = "overlaps the one before" if tensor.start < end else "leaves a gap to the one before"
            raise _Fault(ProblemKind.DAMAGED, f"the data starts at {tensor.start:,} and {fault}, which ends at {end:,}",
                         f"a start at {end:,}", tensor.name)
        end = tensor.end


def _ends(path: str, header: Header, size: int) -> Iterator[Problem]:
    described = f"{_LENGTH} + {header.start - _LENGTH:,} + {header.end - header.start:,} bytes"
    if size < header.end:
        cut = [tensor.name for tensor in header.tensors if header.start + tensor.end > size]
        yield Problem(
            ProblemKind.TRUNCATED, path,
            f"the file has {size:,} bytes ({header.end - size:,} missing; {len(cut):,} of {len(header.tensors):,} tensors cut, "
            f"the first is {cut[0]})", described, where=cut[0], count=len(cut))
    elif size > header.end:
        yield Problem(ProblemKind.TRAILING, path, f"{size - header.end:,} bytes after the last tensor", described)


def _unknown_dtypes(path: str, header: Header) -> Iterator[Problem]:
    unknown = [tensor for tensor in header.tensors if tensor.dtype not in DTYPES]
    if unknown:
        yield Problem(ProblemKind.UNREADABLE_KIND, path, f"dtype {strict_json.shown(unknown[0].dtype)}",
                      f"one of {', '.join(DTYPES)}", where=unknown[0].name, count=len(unknown))


FORMAT = Format(NAME, Depth.TENSORS, read, recognise, concurrent=True, aliases=("diffusers",), holds=Holds.WEIGHTS)
