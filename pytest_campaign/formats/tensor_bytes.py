"""The bytes of one tensor in a file, in the order of its elements and in bounded memory, wherever in the file they lie."""

from __future__ import annotations

import ctypes
import itertools
import math
import operator
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

from .base import Placed, Source, Strided
from .streaming import CHUNK, exactly

_BLOCK = 32 << 20  # bytes that a block of a tensor with gaps may span


def known(placed: Placed) -> bool:
    """Whether it is known where the bytes lie."""
    if placed.parts:
        return all(map(known, placed.parts))
    return placed.offset is not None or placed.strided is not None or not placed.length


def pieces(placed: Placed, source: Source) -> Iterator[bytes]:
    """The bytes of a tensor of which that is `known`, some at a time; `source.advance` is told how many."""
    for part in placed.parts:
        yield from pieces(part, source)
    if placed.parts or not placed.length:
        return
    with source.open(placed.path) as file:
        for data in _in_order(file, placed) if placed.strided is None else _gathered(file, placed.strided):
            source.advance(len(data))
            yield data


def _in_order(file: BinaryIO, placed: Placed) -> Iterator[bytes]:
    for at in range(0, placed.length, CHUNK):
        yield exactly(file, (placed.offset or 0) + at, min(CHUNK, placed.length - at))


def constant(placed: Placed, source: Source) -> bool:
    """Whether all elements of a tensor have the same bits."""
    width = placed.length // (math.prod(placed.shape) or 1) or 1
    first = b""
    rest = b""
    for piece in pieces(placed, source):
        piece = rest + piece
        first = first or piece[:width]
        whole = len(piece) - len(piece) % width
        if piece[:whole] != first * (whole // width):
            return False
        rest = piece[whole:]
    return True


def _gathered(file: BinaryIO, tensor: Strided) -> Iterator[bytes]:
    """The bytes in row-major order, a block of rows (of the first dimension) at a time."""
    item, shape, stride = tensor.item, tensor.shape, tensor.stride
    if max(_span(shape, stride), math.prod(shape)) * item <= _BLOCK:
        yield _block(exactly(file, tensor.start, _span(shape, stride) * item), tensor)
        return
    row = math.prod(shape[1:]) * item
    if shape[0] > 1 and row <= _BLOCK and stride[0] == min(step for size, step in zip(shape, stride, strict=True) if size > 1):
        # The rows lie closer to each other than the elements of a row: a matrix that was transposed.
        count = max(1, _BLOCK // max(row, stride[0] * item))
        part = _by_columns
    else:
        room = _BLOCK // item - _span(shape[1:], stride[1:])
        count = max(1, min(room // stride[0] if stride[0] else shape[0], _BLOCK // row))
        part = _gathered if count > 1 else _first_row
    for at in range(0, shape[0], count):
        rows = min(count, shape[0] - at)
        yield from part(file, Strided(tensor.start + at * stride[0] * item, item, (rows, *shape[1:]), stride))


def _first_row(file: BinaryIO, tensor: Strided) -> Iterator[bytes]:
    return _gathered(file, Strided(tensor.start, tensor.item, tensor.shape[1:], tensor.stride[1:]))


def _by_columns(file: BinaryIO, tensor: Strided) -> Iterator[bytes]:
    """The bytes of a block: for each place in a row those of all its rows are read at once."""
    import torch

    item, (rows, *shape), (step, *stride) = tensor.item, tensor.shape, tensor.stride
    length = ((rows - 1) * step + 1) * item
    block = torch.empty((rows, math.prod(shape), item), dtype=torch.uint8)
    for column, index in enumerate(itertools.product(*map(range, shape))):
        at = tensor.start + sum(map(operator.mul, index, stride)) * item
        data = torch.frombuffer(bytearray(exactly(file, at, length)), dtype=torch.uint8)
        block[:, column] = data.as_strided((rows, item), (step * item, 1))
    yield _bytes(block)


def _block(data: bytes, tensor: Strided) -> bytes:
    """The elements of a block, whose bytes from the first to the last element are given."""
    import torch

    values = torch.frombuffer(bytearray(data), dtype=torch.uint8)
    stride = [step * tensor.item for step in tensor.stride]
    return _bytes(values.as_strided((*tensor.shape, tensor.item), (*stride, 1)).contiguous())


def _bytes(values: Any) -> bytes:
    """The bytes of a contiguous tensor; NumPy, through which torch gives them, need not be there."""
    return ctypes.string_at(values.data_ptr(), values.numel())


def _span(shape: Sequence[int], stride: Sequence[int]) -> int:
    """How many elements lie from the first to the last."""
    return sum((size - 1) * step for size, step in zip(shape, stride, strict=True)) + 1
