"""The scalars in an event file of TensorBoard.

The file is a sequence of records (TFRecord): the length in 8 bytes, its checksum, the data, their checksum; checksums are
CRC-32C, masked (tensorflow/core/lib/io/record_writer.h). The data are messages of type Event
(tensorflow/core/util/event.proto), of which only the step and the scalar values of a summary are decoded.
"""

from __future__ import annotations

import functools
import re
import struct
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

from ..formats.protobuf_wire import FIXED32, LENGTH, VARINT, Cut, Field, Malformed, Window, fields
from .rows import buffered
from .strict_json import Fault

NAME = re.compile(r"(^|/)[^/]*\.tfevents\.[^/]+$")
LARGEST_RECORD = 64 << 20
MOST_CHECKED = 8 << 20  # bytes whose checksum is computed; larger records (images) are left out
_LARGEST_CHECKED = 1 << 14
_LENGTH_AND_CHECKSUM = 12
_CHECKSUM = 4


class Scalar(NamedTuple):
    """One value: its tag, its step, and the number of the record that holds it, counted from 1."""

    tag: str
    step: int
    value: float
    record: int


def scalars(stream: BinaryIO) -> Iterator[Scalar | Fault]:
    """The scalars of a file in their order, and what is wrong with it.

    The last record of a writer that was killed is cut: a fault of kind ``tail``. Other kinds are ``damaged`` (a wrong checksum or
    a message that is none; nothing follows), ``nul`` and ``limit``. Raises nothing but what ``stream`` raises.
    """
    with buffered(stream) as reader:
        yield from _records(reader)


def _records(reader: BinaryIO) -> Iterator[Scalar | Fault]:
    budget, number = MOST_CHECKED, 0
    while head := reader.read(_LENGTH_AND_CHECKSUM):
        number += 1
        if not head.strip(b"\0"):
            yield _fault("nul", "NUL bytes where a record should begin", number)
            return
        if len(head) < _LENGTH_AND_CHECKSUM:
            yield _cut(number)
            return
        length, checksum = struct.unpack("<QI", head)
        if masked_checksum(head[:8]) != checksum:
            yield _fault("damaged", "the length of a record does not fit its checksum", number)
            return
        if length > LARGEST_RECORD:
            yield Fault("limit", f"record {number:,} has {length:,} bytes", None, None, None, f"{length:,} bytes",
                        f"at most {LARGEST_RECORD:,}")
            return
        data, tail = reader.read(length), reader.read(_CHECKSUM)
        if len(data) < length or len(tail) < _CHECKSUM:
            yield _cut(number)
            return
        if length <= _LARGEST_CHECKED and budget > 0:
            budget -= length
            if masked_checksum(data) != int.from_bytes(tail, "little"):
                yield _fault("damaged", "a record does not fit its checksum", number)
                return
        try:
            yield from _event(data, number)
        except (Malformed, Cut, OSError):
            yield _fault("damaged", "a record is no event", number)
            return


def _fault(kind: str, message: str, number: int) -> Fault:
    return Fault(kind, f"{message} (record {number:,})", None, None, f"/{number}", "damage", "a whole record")


def _cut(number: int) -> Fault:
    return Fault("tail", f"the last record ({number:,}) breaks off", None, None, f"/{number}", "the end of the file",
                 "a whole record")


@functools.cache
def _table() -> tuple[int, ...]:
    """The table of CRC-32C (polynomial 1EDC6F41, reflected)."""
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return tuple(table)


def masked_checksum(data: bytes) -> int:
    """The checksum as TFRecord writes it."""
    table, value = _table(), 0xFFFFFFFF
    for byte in data:
        value = value >> 8 ^ table[(value ^ byte) & 0xFF]
    value ^= 0xFFFFFFFF
    return ((value >> 15 | value << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _event(data: bytes, number: int) -> Iterator[Scalar]:
    window = Window(lambda at, count: data[at:at + count], len(data))
    step, summaries = 0, []
    for field in fields(window, 0, len(data)):
        if field.number == 2 and field.wire == VARINT:
            step = field.value - (1 << 64) if field.value >> 63 else field.value
        elif field.number == 5 and field.wire == LENGTH:
            summaries.append(field)
    for summary in summaries:
        for field in fields(window, summary.start, summary.end):
            if field.number == 1 and field.wire == LENGTH:
                tag, value = _value(data, window, field)
                if value is not None:
                    yield Scalar(tag, step, value, number)


def _value(data: bytes, window: Window, message: Field) -> tuple[str, float | None]:
    tag, value = "", None
    for field in fields(window, message.start, message.end):
        if field.number == 1 and field.wire == LENGTH:
            tag = data[field.start:field.end].decode("utf-8", "replace")
        elif field.number == 2 and field.wire == FIXED32:
            value = struct.unpack("<f", data[field.start:field.end])[0]
        elif field.number == 8 and field.wire == LENGTH:
            value = _tensor(data, window, field)
    return tag, value


def _tensor(data: bytes, window: Window, message: Field) -> float | None:
    """The one number of a tensor of type float or double, None for all others."""
    kind, content = 0, b""
    for field in fields(window, message.start, message.end):
        if field.number == 1 and field.wire == VARINT:
            kind = field.value
        elif field.number in (4, 5, 6) and field.wire != VARINT:  # tensor_content, float_val, double_val
            content += data[field.start:field.end]
    layout = {1: "<f", 2: "<d"}.get(kind)
    return struct.unpack(layout, content)[0] if layout is not None and len(content) == struct.calcsize(layout) else None
