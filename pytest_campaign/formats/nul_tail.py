"""NUL bytes in place of the last tensors of a file: the file has its full length, and its end was never filled.

That is what is left of a save or a download into a file that was given its size first, and of a machine that went down before
the last blocks reached the disk. No library sees it. Zeros alone prove nothing: padded rows of an embedding, biases, and layers
that begin at zero are zeros too. But they begin where a row or a tensor begins.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import BinaryIO

from ..text import number
from .base import Problem, ProblemKind
from .streaming import CHUNK, Found, Segment, exactly, is_floating

_SHORTEST_ROW = 16  # elements; rows of a convolution's kernel are taken together until they are as long
_FEWEST_COLUMNS = 8  # zeros of a torn row, below which they may be numbers that happen to be zero
_DENSE = 0.9  # share of numbers other than zero in the row before a torn one


def row_of(shape: Sequence[int], width: int) -> int:
    """The bytes of one row of a tensor whose numbers have ``width`` bytes; 0 for one without rows, a vector."""
    row = 1
    for size in reversed(shape[1:]):
        row *= size
        if row >= _SHORTEST_ROW:
            break
    return row * width if len(shape) > 1 else 0


def nul_tail(path: str, file: BinaryIO, segments: Sequence[Segment], found: Sequence[Found]) -> Iterator[Problem]:
    """At most one NUL_TAIL problem for the tensors of a file, which are sorted, with their `Segment.row`.

    ``found`` is what `scan` saw in each of them: tensors of which it knows that they are zero are not read again. Moves the
    file's position.
    """
    filled = [(segment, seen.zero) for segment, seen in zip(segments, found, strict=True) if segment.length]
    place, start = len(filled) - 1, 0
    while place >= 0:
        cut, zero = filled[place]
        start = cut.offset if zero else _zeros_from(file, cut.offset, cut.end)
        if start > cut.offset:
            break
        place -= 1
    if place < 0 or start == cut.end or not cut.row or not is_floating(cut.dtype):
        return
    after = [segment for segment, _ in filled[place + 1:]]
    lost = sum(bool(segment.row and is_floating(segment.dtype)) for segment in after)
    if lost or _is_torn(file, cut, start):
        zeros = filled[-1][0].end - start
        more = f" and the whole of {number(len(after), 'tensor')} behind it" if after else ""
        yield Problem(ProblemKind.NUL_TAIL, path, f"the last {zeros:,} bytes of the tensor data are NUL, from byte {start:,} on: "
                      f"{cut.end - start:,} of {cut.length:,} bytes of {cut.label}{more}",
                      "numbers up to the end", cut.label)


def _zeros_from(file: BinaryIO, first: int, end: int) -> int:
    """Where the zeros begin that go on to ``end``; not before ``first``."""
    length = 4096  # enough to see that there are none
    while end > first:
        length = min(length, end - first)
        left = len(exactly(file, end - length, length).rstrip(b"\0"))
        if left:
            return end - length + left
        end -= length
        length = CHUNK
    return first


def _is_torn(file: BinaryIO, cut: Segment, start: int) -> bool:
    """Whether zeros begin in the middle of a row, where the row before has numbers, and fill at least one more row."""
    width = cut.width
    at = start - cut.offset
    at += -at % width
    row, column = divmod(at, cut.row)
    columns = (cut.row - column) // width
    if not column or not row or columns < _FEWEST_COLUMNS or (row + 2) * cut.row > cut.length:
        return False
    before = exactly(file, cut.offset + (row - 1) * cut.row + column, cut.row - column)
    zeros = sum(not any(before[place:place + width]) for place in range(0, len(before), width))
    return zeros <= (1 - _DENSE) * columns
