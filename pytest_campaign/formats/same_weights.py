"""Whether tensors that should hold the same values do: in two files of one model, or under two names that are tied."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .base import Placed, Problem, ProblemKind, Source
from .streaming import CHUNK, exactly

_TORCH = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}
_ROUNDED = 1e-2  # what a value may differ by, relatively, when one of the two was rounded to a shorter type


def disagreement(taken: Mapping[str, Placed], other: Mapping[str, Placed], source: Source) -> Iterator[Problem]:
    """At most one problem: how the weights beside those that the library takes differ from them.

    Tensors that only one of the two has are no difference: a format that keeps tied tensors twice is usual.
    """
    shared = [name for name in other if name in taken]
    differing = [name for name in shared if not equal(taken[name], other[name], source)]
    if differing:
        first = differing[0]
        yield Problem(
            ProblemKind.WEIGHTS_DISAGREE, other[first].path,
            f"{len(differing):,} of {len(shared):,} tensors differ from those in {taken[first].path.rpartition('/')[2]}, "
            "which is the one that the library loads", "the same values in both, or one file", first, len(differing))
    elif not shared and taken and other:
        first = next(iter(other))
        yield Problem(
            ProblemKind.WEIGHTS_DISAGREE, other[first].path,
            f"no tensor has a name that is also in {next(iter(taken.values())).path.rpartition('/')[2]}",
            "the same tensors in both, or one file", first, len(other))


def equal(one: Placed, other: Placed, source: Source) -> bool:
    """Whether two tensors hold the same values, those of a shorter type being rounded; True where that cannot be told."""
    if one.shape != other.shape:
        return False
    if one.offset is None or other.offset is None or (one.path, one.offset) == (other.path, other.offset):
        return True
    if one.dtype != other.dtype and not (one.dtype in _TORCH and other.dtype in _TORCH):
        return True
    return all(_alike(left, right, one.dtype, other.dtype) for left, right in _pieces(one, other, source))


def _pieces(one: Placed, other: Placed, source: Source) -> Iterator[tuple[bytes, bytes]]:
    """The values of both in pieces of as many elements."""
    elements = 1
    for size in one.shape:
        elements *= size
    if not elements or one.length % elements or other.length % elements:
        if one.length != other.length:
            yield b"", b"-"
            return
        elements = one.length
    if not elements:
        return
    widths = one.length // elements, other.length // elements
    step = max(1, CHUNK // max(widths))
    with source.open(one.path) as left, source.open(other.path) as right:
        for at in range(0, elements, step):
            count = min(step, elements - at)
            source.advance(0)
            yield (exactly(left, (one.offset or 0) + at * widths[0], count * widths[0]),
                   exactly(right, (other.offset or 0) + at * widths[1], count * widths[1]))


def _alike(one: bytes, other: bytes, dtype: str, other_dtype: str) -> bool:
    if dtype == other_dtype:
        return one == other
    left, right = _numbers(one, dtype), _numbers(other, other_dtype)
    return bool(((left - right).abs() <= _ROUNDED * left.abs().clamp(min=1e-3)).all())


def _numbers(data: bytes, dtype: str) -> Any:
    import torch

    return torch.frombuffer(bytearray(data), dtype=getattr(torch, _TORCH[dtype])).to(torch.float64)
