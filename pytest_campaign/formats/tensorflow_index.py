"""The index of a TensorFlow checkpoint (``<prefix>.index``): which tensor lies where in which data file.

It is a table of sorted keys, as LevelDB has them, without compression: blocks, an index of the blocks, and a footer of 48 bytes
with a magic number. The key "" holds the number of data files, every other key is a tensor (tensorflow/core/util/tensor_bundle,
tensor_bundle.proto, and tsl/lib/io/format.cc).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from .protobuf_wire import LENGTH, VARINT, Cut, Malformed, Window, fields
from .zip_archive import Read

MAGIC = (0xDB4775248B80FB57).to_bytes(8, "little")
FOOTER = 48
LARGEST = 256 << 20
MOST_TENSORS = 1_000_000
_LARGEST_BLOCK = 64 << 20
_LONGEST_KEY = 4096
_TRAILER = 5  # behind each block: its compression and its checksum
_MOST_DIMENSIONS = 254

# DataType of types.proto, as safetensors calls it; text, resources and variants have no bytes that can be tested.
TYPES: Mapping[int, str] = {1: "F32", 2: "F64", 3: "I32", 4: "U8", 5: "I16", 6: "I8", 8: "C64", 9: "I64", 10: "BOOL", 14: "BF16",
                            17: "U16", 18: "C128", 19: "F16", 22: "U32", 23: "U64", 24: "F8_E5M2", 25: "F8_E4M3"}


@dataclasses.dataclass(frozen=True)
class Entry:
    """One tensor: its type, its shape and the bytes of the data file ``shard`` that it takes."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    shard: int
    offset: int
    size: int


@dataclasses.dataclass(frozen=True)
class Index:
    """How many data files there are, and the tensors in them."""

    shards: int
    entries: Sequence[Entry]


class _Unclear(Exception):
    """It is no table as TensorFlow writes it."""


def parse(read: Read, size: int) -> Index | None:
    """What an index says, None when it cannot be followed."""
    if not FOOTER <= size <= LARGEST:
        return None
    footer = Window(lambda offset, length: read(size - FOOTER + offset, min(length, FOOTER - offset)), FOOTER)
    try:
        _, at = footer.varint(0, FOOTER)
        _, at = footer.varint(at, FOOTER)
        offset, at = footer.varint(at, FOOTER)
        length, at = footer.varint(at, FOOTER)
        shards, total = 0, 0
        entries: list[Entry] = []
        for _, handle in _block(read, offset, length, size):
            window = _over(handle)
            start, at = window.varint(0, len(handle))
            count, at = window.varint(at, len(handle))
            total += count
            if total > size:
                raise _Unclear  # blocks that overlap
            for key, value in _block(read, start, count, size):
                if not key:
                    shards = _number(value, 1)
                else:
                    entries.append(_entry(key.decode("utf-8", "backslashreplace"), value))
                if len(entries) > MOST_TENSORS:
                    return None
    except (_Unclear, Malformed, Cut):
        return None
    return Index(shards, entries) if shards else None


def _over(data: bytes) -> Window:
    return Window(lambda offset, length: data[offset:offset + length], len(data))


def _block(read: Read, offset: int, length: int, size: int) -> Iterator[tuple[bytes, bytes]]:
    """The keys and values of a block, whose keys leave out what they share with the one before."""
    if length > _LARGEST_BLOCK or offset + length + _TRAILER > size:
        raise _Unclear
    data = read(offset, length + 1)
    if len(data) < length + 1 or length < 4 or data[length] != 0:
        raise _Unclear
    restarts = int.from_bytes(data[length - 4:length], "little")
    end = length - 4 - 4 * restarts
    if end < 0:
        raise _Unclear
    window, at, key = _over(data), 0, b""
    while at < end:
        shared, at = window.varint(at, end)
        own, at = window.varint(at, end)
        value, at = window.varint(at, end)
        if shared > len(key) or shared + own > _LONGEST_KEY or at + own + value > end:
            raise _Unclear
        key = key[:shared] + data[at:at + own]
        at += own + value
        yield key, data[at - value:at]


def _number(message: bytes, number: int) -> int:
    return next((field.value for field in fields(_over(message), 0) if field.number == number and field.wire == VARINT), 0)


def _entry(name: str, message: bytes) -> Entry:
    """A BundleEntryProto: dtype 1, shape 2, shard_id 3, offset 4, size 5."""
    numbers = {1: 0, 3: 0, 4: 0, 5: 0}
    shape: list[int] = []
    window = _over(message)
    for field in fields(window, 0):
        if field.wire == VARINT and field.number in numbers:
            numbers[field.number] = field.value
        elif field.number == 2 and field.wire == LENGTH:
            for dimension in fields(window, field.start, field.end):
                if dimension.number == 2 and dimension.wire == LENGTH and len(shape) < _MOST_DIMENSIONS:
                    shape.append(_number(message[dimension.start:dimension.end], 1))
    return Entry(name, TYPES.get(numbers[1], ""), tuple(shape), numbers[3], numbers[4], numbers[5])
