"""Event files of TensorBoard, byte by byte as its writers make them; they need a library of 200 MB that the tests do without."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from pytest_campaign.readers.event_files import masked_checksum


def varint(number: int) -> bytes:
    parts = []
    number &= (1 << 64) - 1
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*parts, number])


def message(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def record(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    return length + struct.pack("<I", masked_checksum(length)) + data + struct.pack("<I", masked_checksum(data))


def simple(value: float) -> bytes:
    """As torch.utils.tensorboard writes a scalar."""
    return b"\x15" + struct.pack("<f", value)


def tensor(value: float) -> bytes:
    """As tf.summary.scalar writes one."""
    return message(8, b"\x08\x01" + message(2, b"") + message(4, struct.pack("<f", value)))


def event(step: int, values: Mapping[str, bytes]) -> bytes:
    summary = b"".join(message(1, message(1, tag.encode()) + value) for tag, value in values.items())
    return b"\x09" + struct.pack("<d", 1.7e9) + b"\x10" + varint(step) + message(5, summary)


def events(steps: Sequence[tuple[int, Mapping[str, float]]]) -> bytes:
    """A whole file: the version, then one event for each step."""
    first = b"\x09" + struct.pack("<d", 1.7e9) + message(3, b"brain.Event:2")
    written = [event(step, {tag: simple(value) for tag, value in values.items()}) for step, values in steps]
    return b"".join(map(record, [first, *written]))
