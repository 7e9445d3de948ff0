"""The wire format of Protocol Buffers, walked without a schema, a copy of the file or a number that is believed.

A message is a sequence of fields; a field is a tag (number and wire type) and a value: a varint, 4 or 8 bytes, or a
length and so many bytes (protobuf.dev, Encoding). Values of the last sort are given by their place, never read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
CHUNK = 1 << 16
_LONGEST_VARINT = 10
_ENDLESS = 1 << 65
_CONTINUED = bytes(range(0x80, 0x100))


class Malformed(Exception):
    """The bytes at ``at`` are no field."""

    def __init__(self, at: int, what: str) -> None:
        super().__init__(what)
        self.at, self.what = at, what


class Cut(Exception):
    """The file would have to have ``needed`` bytes at least."""

    def __init__(self, needed: int) -> None:
        super().__init__(f"{needed} bytes needed")
        self.needed = needed


class Field(NamedTuple):
    """One field. ``value`` is that of a varint, else 0; the value's bytes are those from ``start`` to ``end``."""

    number: int
    wire: int
    value: int
    start: int
    end: int


class Window:
    """A file, seen through one buffer. ``read(offset, length)`` gives bytes of it, fewer only if it was cut meanwhile."""

    def __init__(self, read: Callable[[int, int], bytes], size: int) -> None:
        self._read, self.size = read, size
        self._buffer, self._start = b"", 0

    def take(self, at: int, count: int) -> bytes:
        """At most `CHUNK` bytes; raises `Cut` when the file ends before them."""
        offset = at - self._start
        if offset < 0 or offset + count > len(self._buffer):
            if at + count > self.size:
                raise Cut(at + count)
            self._buffer, self._start, offset = self._read(at, min(CHUNK, self.size - at)), at, 0
            if len(self._buffer) < count:
                raise OSError(f"the file ends at byte {at + len(self._buffer):,}, its size was {self.size:,}")
        return self._buffer[offset:offset + count]

    def varint(self, at: int, end: int) -> tuple[int, int]:
        """The number at ``at`` in a message that ends at ``end``, and the place after it."""
        offset = at - self._start
        if 0 <= offset < len(self._buffer) and at < end and self._buffer[offset] < 0x80:  # nearly all: one byte, at hand
            return self._buffer[offset], at + 1
        value = 0
        for index in range(_LONGEST_VARINT):
            if at + index >= end:
                break
            byte = self.take(at + index, 1)[0]
            value |= (byte & 0x7F) << 7 * index
            if byte < 0x80:
                return value & 0xFFFF_FFFF_FFFF_FFFF, at + index + 1
        raise Malformed(at, "a number without an end")

    def varints(self, start: int, end: int) -> int:
        """How many varints a packed field holds."""
        count = 0
        for at in range(start, end, CHUNK):
            count += len(self.take(at, min(CHUNK, end - at)).translate(None, _CONTINUED))
        return count


def fields(window: Window, start: int, end: int | None = None) -> Iterator[Field]:
    """The fields of the message from ``start`` to ``end``, which is the end of the file when left out.

    A field that runs past the end of the file is given all the same, since what there is of it may be looked at;
    `Cut` is raised after it. Raises `Malformed` for anything that is no field or does not fit into its message.
    """
    at, limit = start, _ENDLESS if end is None else end
    while at < (window.size if end is None else end):
        tag, after = window.varint(at, limit)
        number, wire = tag >> 3, tag & 7
        if not 0 < number < 1 << 29:
            raise Malformed(at, f"a field numbered {number}")
        value = 0
        if wire == VARINT:
            value, stop = window.varint(after, limit)
        elif wire == LENGTH:
            length, after = window.varint(after, limit)
            stop = after + length
        elif wire in (FIXED32, FIXED64):
            stop = after + (4 if wire == FIXED32 else 8)
        else:
            raise Malformed(at, f"a field of wire type {wire}")
        if stop > limit:
            raise Malformed(at, f"a field of {stop - after:,} bytes where its message has {limit - after:,} left")
        yield Field(number, wire, value, after, stop)
        if stop > window.size:
            raise Cut(stop)
        at = stop
