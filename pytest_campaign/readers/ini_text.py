"""The values in INI files and in messages of protocol buffers in their text format, line by line."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .fields import Field, Unreadable

MOST_BYTES = 1 << 20

_SECTION = re.compile(r"\[(.*)\]")
_VALUE = re.compile(r"([^\s=:#;\[][^=:]*?)\s*[=:]\s*(.*)")
_QUOTED = re.compile(r"(\w+)\s*:\s*\"((?:[^\"\\]|\\.)*)\"")
_ESCAPE = re.compile(rb"\\(?:([0-7]{1,3})|x([0-9a-fA-F]{1,2})|(.))", re.S)
_LETTERS = {b"n": b"\n", b"t": b"\t", b"r": b"\r"}


def _lines(data: bytes) -> list[str]:
    if len(data) > MOST_BYTES:
        raise Unreadable(f"it has more than {MOST_BYTES:,} bytes")
    try:
        return data.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise Unreadable("it is no UTF-8 text") from None


def fields(data: bytes) -> Iterator[Field]:
    """Every value of an INI file with its section and its line; nothing is interpolated. Raises `Unreadable`."""
    return _values(_lines(data))


def _values(lines: list[str]) -> Iterator[Field]:
    section = ""
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if header := _SECTION.fullmatch(text):
            section = header[1].strip("'\" ")
        elif value := _VALUE.fullmatch(text):
            keys = (section, value[1]) if section else (value[1],)
            yield Field(keys, value[2].strip().strip("'\""), number)


def quoted(data: bytes) -> Iterator[Field]:
    """Every ``name: "text"`` of a message in the text format of protocol buffers, one a line. Raises `Unreadable`."""
    return (Field((found[1],), _unescaped(found[2]), number) for number, line in enumerate(_lines(data), 1)
            if (found := _QUOTED.fullmatch(line.strip())))


def _unescaped(text: str) -> str:
    """Without the escapes, of which those in octal stand for the bytes of UTF-8."""
    def byte(match: re.Match[bytes]) -> bytes:
        octal, hexadecimal, letter = match.groups()
        if letter is not None:
            return _LETTERS.get(letter, letter)
        return bytes([(int(octal, 8) if octal else int(hexadecimal, 16)) & 0xFF])

    return _ESCAPE.sub(byte, text.encode()).decode("utf-8", "replace")
