"""NUL bytes in place of the last tensors of a file: the file has its full length, and its end was never filled.

That is what is left of a save or a download into a file that was given its size first, and of a machine that went down before
the last blocks reached the disk. No library sees it. Zeros alone prove nothing: padded rows of an embedding, biases, and layers
that begin at zero are zeros too. But they begin where a row or a tensor begins.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence
from typing import BinaryIO

from ..text import number
from .base import Problem, ProblemKind
from .streaming import CHUNK, Segment, exactly, is_floating

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


def nul_tail(path: str, file: BinaryIO, segments: Sequence[Segment]) -> Iterator[Problem]:
    """At most one NUL_TAIL problem for the tensors of a file, which are sorted, with their `Segment.row`.

    Moves the file's position, and reads no more than the zeros at the end of the last tensor and two rows before them.
    """
    filled = [segment for segment in segments if segment.length]
    if not filled:
        return
    start = _zeros_from(file, filled[0].offset, filled[-1].end)
    place = bisect.bisect_right([segment.offset for segment in filled], start) - 1
    if place < 0 or start >= filled[place].end:
        return
    cut, after = filled[place], filled[place + 1:]
    if not cut.row or not is_floating(cut.dtype) or start == cut.offset:
        return
    lost = sum(bool(segment.row and is_floating(segment.dtype)) for segment in after)
    if lost or _is_torn(file, cut, start):
        zeros = filled[-1].end - start
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
