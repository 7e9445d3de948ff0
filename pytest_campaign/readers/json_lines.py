"""JSON Lines: one strict JSON text on each line. What is wrong with one line does not hide the others.

Fine are a byte order mark, CR LF, blank lines, and a last line without its end; U+2028 and U+0085 end no line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, BinaryIO, Never

from ..text import shown
from . import strict_json
from .rows import LONGEST, Row, lines
from .strict_json import Fault, NotStrict

_BLANK = b" \t\r\n"
# What Python's parser lets pass, or may: half a surrogate pair, a number that becomes infinite.
_DOUBTFUL = re.compile(r"\\u[dD]|[0-9][eE]\+?[0-9]{3}|[0-9]{300}")
_STARTS = re.compile(r"[\[{]\s*[\"\]}\[{]")
_MOST_STARTS = 100


def records(stream: BinaryIO) -> Iterator[Row | Fault]:
    """Every record with its line, and a fault for each line that holds none.

    Kinds beside those of `strict_json` are ``torn`` (a record without its end), ``joined`` (two records on one line), ``nul``
    and ``limit``. Raises nothing but what ``stream`` raises.
    """
    for item in lines(stream):
        if isinstance(item, Fault):
            yield item
            continue
        number, line = item
        if not line.strip(_BLANK):
            continue
        try:
            value = parse(line)
        except NotStrict as error:
            yield from _explained(number, line, error)
        else:
            yield Row(number, value)


def parse(line: bytes) -> Any:
    """The strict JSON text on one line. Raises `NotStrict`."""
    try:
        text = line.decode()
        if text.count("{") + text.count("[") <= strict_json.DEEPEST and not _DOUBTFUL.search(text):
            return _PARSER.decode(text)
    except (ValueError, RecursionError):
        pass  # what is wrong is found below
    return strict_json.parse(line.rstrip(_BLANK), most_bytes=LONGEST + 1)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError
    return members


def _constant(name: str) -> Never:
    raise ValueError(name)


_PARSER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant)


def _explained(number: int, line: bytes, error: NotStrict) -> Iterator[Fault]:
    """The faults of one line, in the words of a file of lines."""
    first = error.faults[0]
    text = line.decode("utf-8", "replace").rstrip("\r\n")
    if first.kind != "syntax" and not (first.kind == "encoding" and _ends_with_a_record(text)):
        for fault in error.faults:
            observed = "again" if fault.kind == "duplicate-key" else fault.observed
            yield Fault(fault.kind, fault.message, number, fault.column, None, observed, fault.expected)
        return
    at = max(0, (first.column or 1) - 1)
    end = f"{shown(text[-30:])} at the end of the line"
    if _is_joined(text, at):
        yield Fault("joined", "two records on one line: the line end between them is lost", number, first.column, None,
                    shown(text[max(0, at - 10):at + 20]), "one record on each line")
    elif _ends_with_a_record(text) or (text[at:at + 1] == "{" and first.expected == strict_json.KEY and _is_record(text[at:])):
        yield Fault("torn", "a record that breaks off, and the next one begins on the same line", number, first.column, None,
                    shown(text[max(0, at - 20):at + 20]), "one whole record on each line")
    elif first.observed == strict_json.THE_END or first.message.startswith("a string that never ends"):
        yield Fault("torn", "the record breaks off", number, first.column, None, end, "a whole record")
    else:
        yield Fault("syntax", first.message, number, first.column, None, first.observed, first.expected)


def _is_joined(text: str, at: int) -> bool:
    """Whether a whole record ends before ``at`` and something like another one begins there."""
    try:
        _, end = _PARSER.raw_decode(text[:at].lstrip())
    except (ValueError, RecursionError):
        return False
    return end > 0 and text[at:at + 1] in "{["


def _is_record(text: str) -> bool:
    """Whether a text is one whole record."""
    try:
        return type(_PARSER.decode(text)) is dict
    except (ValueError, RecursionError):
        return False


def _ends_with_a_record(text: str) -> bool:
    """Whether a whole object begins in the middle of the line and reaches to its end."""
    for count, start in enumerate(_STARTS.finditer(text, 1)):
        if count == _MOST_STARTS:
            break
        try:
            _, end = _PARSER.raw_decode(text, start.start())
        except (ValueError, RecursionError):
            continue
        if end == len(text.rstrip()) and text[start.start()] == "{" and not _nested(text, start.start()):
            return True
    return False


def _nested(text: str, at: int) -> bool:
    """Whether the object at ``at`` is a value in the record around it, which then is what breaks off."""
    return text[:at].rstrip()[-1:] in (":", ",", "[")
