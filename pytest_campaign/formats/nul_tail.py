"""NUL bytes in place of the last tensors of a file: the file has its full length, and its end was never filled.

That is what is left of a save or a download into a file that was given its size first, and of a machine that went down before
the last blocks reached the disk. No library sees it. Zeros alone prove nothing: padded rows of an embedding, biases, and layers
that begin at zero are zeros too. But they begin where a row or a tensor begins. And the last number may happen to be zero, in
weights that were pruned, in a kernel that is an identity, behind a ReLU: then it is not the only zero.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import BinaryIO

from ..text import number
from .base import Problem, ProblemKind
from .streaming import CHUNK, NO_ROWS, Found, Row, Segment, exactly, is_floating

_SHORTEST_ROW = 16  # elements; rows of a convolution's kernel are taken together until they are as long
_FEWEST = 8  # numbers or zeros in a row, below which they say nothing
_DENSE = 0.9  # share of numbers other than zero before a torn place


def row_of(shape: Sequence[int], width: int) -> Row:
    """The rows of a tensor whose numbers have ``width`` bytes; none of one without rows, a vector.

    Short last dimensions are cells: the kernels of a convolution, the points of a sequence that was padded.
    """
    if len(shape) < 2:
        return NO_ROWS
    row = 1
    for size in reversed(shape[1:]):
        row *= size
        if row >= _SHORTEST_ROW:
            break
    cell = math.prod(shape[-2:]) if len(shape) > 3 else shape[-1]
    return Row(row * width, (cell if 1 < cell < row else row) * width)


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
    if place < 0 or start == cut.end or not cut.row.length or not is_floating(cut.dtype):
        return
    after = [segment for segment, _ in filled[place + 1:]]
    if _is_torn(file, cut, start, any(segment.row.length and is_floating(segment.dtype) for segment in after)):
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


def _is_torn(file: BinaryIO, cut: Segment, start: int, lost: bool) -> bool:
    """Whether zeros begin in the middle of a row and of a cell, with numbers before them and above them.

    They have to fill at least one more row, unless ``lost``: the whole of a matrix behind it is zero too.
    """
    width, (length, cell) = cut.width, cut.row
    at = start - cut.offset
    at += -at % width
    row, column = divmod(at, length)
    if at >= cut.length or column % cell == 0:
        return False
    before, above = (max(0, at - length), at), ((row - 1) * length + column, row * length)
    if not lost:
        return (row > 0 and length - column >= _FEWEST * width and (row + 2) * length <= cut.length
                and _is_dense(file, cut, *above))
    return at >= _FEWEST * width and _is_dense(file, cut, *before) and (row == 0 or _is_dense(file, cut, *above))


def _is_dense(file: BinaryIO, cut: Segment, first: int, end: int) -> bool:
    """Whether the numbers from one byte of a tensor to another are other than zero, nearly all."""
    data = exactly(file, cut.offset + first, end - first)
    zeros = sum(not any(data[place:place + cut.width]) for place in range(0, len(data), cut.width))
    return zeros * cut.width <= (1 - _DENSE) * len(data)
