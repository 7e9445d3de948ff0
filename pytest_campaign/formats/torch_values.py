"""The bytes of a torch file, read once: checksums, digest, and NaN and infinity by tensor."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, BinaryIO

from ..tensor_digests import header, shape_of
from .base import Depth, Placed, Problem, ProblemKind, Source, Strided
from .nul_tail import nul_tail, row_of
from .streaming import NO_ROWS, Found, Segment, digest, exactly, never_written, non_finite, scan
from .torch_object import EXPANDED, Tensor

_LARGEST_VIEW = 64 << 20  # a view with gaps is copied to look at its own values alone, up to this many bytes
_AGAIN = 4  # how often the bytes of a shared storage may be read again to tell its tensors apart


@dataclasses.dataclass(frozen=True)
class Part:
    """A range of the file: the storage ``key``, or something else when that is None.

    ``crc`` is the CRC-32 that the file states for it, None if there is none to compare.
    """

    name: str
    offset: int
    length: int
    key: str | None = None
    crc: int | None = None


@dataclasses.dataclass(frozen=True)
class Values:
    """What reading the parts gave; ``bytes_read`` counts the bytes of storages, ``layout`` has the tensors by name."""

    problems: Sequence[Problem]
    sha256: str | None
    bytes_read: int
    layout: Mapping[str, Placed]


def read_values(file: BinaryIO, size: int, parts: Sequence[Part], tensors: Sequence[Tensor], path: str, source: Source) -> Values:
    """Read a file once, as deep as ``source`` wants it. The parts are sorted and do not overlap; tensors fit their storages."""
    users: dict[str, list[Tensor]] = {}
    for tensor in tensors:
        users.setdefault(tensor.key, []).append(tensor)
    hashed = source.hashed([tensor.name for tensor in tensors])
    segments = [_segment(part, users, hashed) for part in parts]
    problems = list(never_written(path, file, size, segments))
    if source.depth < Depth.TENSORS:
        return Values(problems, digest(file, size, source), 0, _layout(parts, tensors, path))
    result = scan(file, size, segments, source)
    wrong = [
        (part, segment, found)
        for part, segment, found in zip(parts, segments, result.segments, strict=True)
        if part.crc is not None and found.crc32 != part.crc
    ]
    if wrong:
        part, segment, found = wrong[0]
        problems.append(
            Problem(
                ProblemKind.CHECKSUM,
                path,
                f"the {part.length:,} bytes of member {part.name} have the CRC-32 {found.crc32:08x}"
                + (f" (the first of {len(wrong):,} such members)" if len(wrong) > 1 else ""),
                f"{part.crc:08x}, which was recorded when they were written",
                segment.label,
                len(wrong),
            )
        )
    broken = {part.key for part, _, _ in wrong}
    judged = _Blame(file, size, source)
    named: list[tuple[str, Found]] = []
    for part, found in zip(parts, result.segments, strict=True):
        if part.key is not None and part.key not in broken:
            named += judged.tensors(part, found, [tensor for tensor in users.get(part.key, ()) if _is_tested(tensor)])
    problems += non_finite(path, named)
    unproved = [place for place, part in enumerate(parts) if part.key is not None and part.crc is None]
    problems += nul_tail(path, file, [segments[place] for place in unproved], [result.segments[place] for place in unproved])
    zero = {name for name, found in named if found.zero}
    taken = {(part.key, segment.header): found.sha256
             for part, segment, found in zip(parts, segments, result.segments, strict=True) if segment.header is not None}
    # A tensor of the same type and shape as one that is all of a storage has the same place in it.
    digests = {tensor.name: taken.get((tensor.key, _header(tensor))) for tensor in tensors if tensor.in_order} if taken else {}
    layout = {name: dataclasses.replace(placed, zero=name in zero, sha256=digests.get(name))
              for name, placed in _layout(parts, tensors, path).items()}
    return Values(problems, result.sha256, sum(part.length for part in parts if part.key is not None), layout)


def _layout(parts: Sequence[Part], tensors: Sequence[Tensor], path: str) -> dict[str, Placed]:
    here = {part.key: part for part in parts if part.key is not None}
    return {tensor.name: _placed(tensor, here.get(tensor.key), path) for tensor in tensors}


def _placed(tensor: Tensor, part: Part | None, path: str) -> Placed:
    length = tensor.elements * tensor.item
    start = part.offset + tensor.start if part is not None else None
    strided = None
    # A view that repeats the elements of its storage can claim any size.
    if part is not None and start is not None and not tensor.in_order and tensor.stop <= part.length and length <= max(
            part.length, EXPANDED):
        strided = Strided(start, tensor.item, tensor.shape, tensor.stride)
    return Placed(tensor.dtype, shape_of(tensor.dtype, tensor.shape), path, start if tensor.in_order else None, length,
                  strided=strided)


def _header(tensor: Tensor) -> bytes:
    return header(tensor.dtype, shape_of(tensor.dtype, tensor.shape))


def _is_tested(tensor: Tensor) -> bool:
    return tensor.dtype in _TORCH_NAMES and not tensor.bookkeeping


def _segment(part: Part, users: Mapping[str, Sequence[Tensor]], hashed: Collection[str]) -> Segment:
    """The part as the pass wants it: labelled with its first tensor, tested as the first type that can be non-finite.

    It takes the digest of the first tensor that is all of the storage and whose digest is wanted.
    """
    here = users.get(part.key, ()) if part.key is not None else ()
    dtype = next((_SCANNED_AS.get(tensor.dtype, tensor.dtype) for tensor in here if _is_tested(tensor)), None)
    wanted = (tensor for tensor in here if tensor.name in hashed)
    whole = (tensor for tensor in wanted if tensor.in_order and tensor.elements * tensor.item == part.length)
    alone = here[0] if len(here) == 1 and here[0].in_order and here[0].elements * here[0].item == part.length else None
    return Segment(
        part.offset, part.length, dtype, crc=part.crc is not None, label=here[0].name if here and here[0].name else part.name,
        header=next(map(_header, whole), None), row=row_of(alone.shape, alone.item) if alone else NO_ROWS,
    )


class _Blame:
    """Tells which of the tensors on a storage are not finite. Only a storage that holds NaN or infinity is read again."""

    def __init__(self, file: BinaryIO, size: int, source: Source) -> None:
        self._file, self._size, self._source = file, size, _Again(source)

    def tensors(self, part: Part, found: Found, users: Sequence[Tensor]) -> Iterator[tuple[str, Found]]:
        """(name, what was seen) for each tensor on one storage."""
        left = _AGAIN * part.length
        for tensor in users:
            if not (found.nan or found.infinite) or (
                len(users) == 1 and tensor.dense and tensor.stop - tensor.start == part.length
            ):
                yield tensor.name, found
                continue
            left -= tensor.stop - tensor.start
            yield tensor.name, self._alone(part, tensor) if left >= 0 else found

    def _alone(self, part: Part, tensor: Tensor) -> Found:
        length = tensor.stop - tensor.start
        if tensor.dense or length > _LARGEST_VIEW:
            segment = Segment(part.offset + tensor.start, length, _SCANNED_AS.get(tensor.dtype, tensor.dtype))
            return scan(self._file, self._size, [segment], self._source).segments[0]
        return _look(exactly(self._file, part.offset + tensor.start, length), tensor)


def _look(data: bytes, tensor: Tensor) -> Found:
    """What the elements of a view with gaps are, whose bytes from the first to the last element are given."""
    import torch

    whole = len(data) // tensor.item
    values: Any = torch.frombuffer(bytearray(data), dtype=getattr(torch, _TORCH_NAMES[tensor.dtype]), count=whole)
    values = values.as_strided(tensor.shape, tensor.stride)
    values = torch.view_as_real(values.to(torch.complex128)) if values.is_complex() else values.to(torch.float64)
    nan, infinite = values.isnan(), values.isinf()
    mask = not bool(((values != 0) & (values != -torch.inf)).any()) and bool((values == 0).any())
    return Found(None, bool(nan.any()), bool(infinite.any()), mask)


class _Again:
    """A source for bytes that were read before: no digest, and no progress to report."""

    def __init__(self, source: Source) -> None:
        self.open, self.size, self.exists = source.open, source.size, source.exists
        self.depth, self.threads, self.digest = source.depth, source.threads, False
        self.base, self.base_name = source.base, source.base_name

    def hashed(self, names: Collection[str]) -> Collection[str]:
        return ()

    def advance(self, count: int) -> None:
        pass


_SCANNED_AS = {"COMPLEX32": "F16"}  # pairs of halves
_TORCH_NAMES = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "C64": "complex64",
    "C128": "complex128",
    "COMPLEX32": "complex32",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
    "F8_E8M0": "float8_e8m0fnu",
}
