"""Strict JSON (RFC 8259): every fault with line, column and JSON pointer.

Python's own parser reads UTF-16, takes the last of two equal keys, and accepts NaN, 1e400 and half a surrogate
pair; all of that is refused here. A sound document is parsed by it all the same, because it is fast. Only what it
refuses, or what looks doubtful, is walked through again by the scanner below, which does not recurse and needs a
time proportional to the length.
"""

from __future__ import annotations

import codecs
import dataclasses
import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Never

MOST_BYTES = 16 * 2**20
DEEPEST = 64
MOST_DIGITS = 4300  # what int() converts by default (sys.set_int_max_str_digits)
MOST_FAULTS = 20
LONGEST_POINTER = 1000  # characters; a longer one is left out of a fault


class Spot(NamedTuple):
    """A place in a text: line and column in characters, both counted from 1."""

    line: int
    column: int


class Located(NamedTuple):
    """Where a value begins and, for a member of an object, where its key begins."""

    value: Spot
    key: Spot | None


@dataclasses.dataclass(frozen=True)
class Fault:
    """One reason why a text is no strict JSON.

    ``kind`` is syntax, duplicate-key, non-finite, encoding or too-large; ``pointer`` is the JSON pointer of the
    value that is at fault or, for a fault of syntax, of the value in which it was met.
    """

    kind: str
    message: str
    line: int | None = None
    column: int | None = None
    pointer: str | None = None
    observed: str | None = None
    expected: str | None = None


class NotStrict(ValueError):
    """A text is no strict JSON; ``faults`` are all that were found, at most `MOST_FAULTS`, in their order."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        super().__init__(faults[0].message)
        self.faults = tuple(faults)


def parse(data: bytes, *, most_bytes: int = MOST_BYTES, deepest: int = DEEPEST) -> Any:
    """The value of a JSON text in UTF-8.

    ``most_bytes`` bounds its size; ``deepest`` is how many arrays and objects may be nested. Raises `NotStrict`
    for everything that is not strict JSON within these limits.
    """
    text = _text(data, most_bytes)
    try:
        value = _PARSER.decode(text)
    except (ValueError, RecursionError) as error:
        raise NotStrict(_faults(text, deepest) or [Fault("syntax", str(error))]) from None
    if (_SURROGATE_ESCAPE.search(text) or _deeper(value, deepest)) and (faults := _faults(text, deepest)):
        raise NotStrict(faults)
    return value


def locate(data: bytes, pointer: str) -> Located | None:
    """Where the value at a JSON pointer stands; None when there is no such value."""
    return locate_all(data, [pointer]).get(pointer)


def locate_all(data: bytes, pointers: Collection[str]) -> Mapping[str, Located]:
    """Where the values at some JSON pointers stand, in one pass; those that lead to no value are left out."""
    wanted = {_parts(pointer): pointer for pointer in pointers}
    try:
        text = _text(data, len(data))
    except NotStrict:
        return {}
    found: dict[str, tuple[int, int | None]] = {}
    path: list[str] = []
    key_at: int | None = None
    try:
        for event in _scan(text, DEEPEST, path):
            if event.is_key:
                key_at = event.at
                continue
            pointer = wanted.get(tuple(path))
            if pointer is not None:
                found.setdefault(pointer, (event.at, key_at))
                if len(found) == len(wanted):
                    break
            key_at = None
    except _Broken:
        pass  # what stands before the fault has its place all the same
    spots = _spots(text, [at for pair in found.values() for at in pair if at is not None])
    return {pointer: Located(spots[at], None if key is None else spots[key]) for pointer, (at, key) in found.items()}


def pointer_to(parts: Iterable[str | int]) -> str:
    """The JSON pointer (RFC 6901) of a path of keys and indices."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in parts)


def shown(text: str, most: int = 60) -> str:
    """A text in quotes for a message: cut, on one line, with escapes for what cannot be printed."""
    quoted = json.dumps(text[:most], ensure_ascii=False)
    printable = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in quoted)
    return printable if len(text) <= most else printable[:-1] + '…"'


# ---- the fast path -------------------------------------------------------------------------------------------


class _Refused(ValueError):
    """A number or literal that the grammar of Python's parser lets pass and that is not accepted here."""

    def __init__(self, kind: str, message: str, observed: str, expected: str) -> None:
        super().__init__(message)
        self.kind, self.message, self.observed, self.expected = kind, message, observed, expected


def _long(digits: str) -> _Refused:
    return _Refused("too-large", f"a number of {len(digits)} characters", f"{digits[:20]}…", f"at most {MOST_DIGITS} digits")


def _integer(digits: str) -> int:
    if len(digits) > MOST_DIGITS + digits.startswith("-"):
        raise _long(digits)
    try:
        return int(digits)
    except ValueError:  # the limit of this interpreter is lower
        raise _long(digits) from None


def _fraction(digits: str) -> float:
    if len(digits) > MOST_DIGITS:
        raise _long(digits)
    value = float(digits)
    if math.isinf(value):
        raise _Refused("non-finite", "a number too large for floating point: it would be read as infinite", digits[:60],
                       "a finite number")
    return value


def _constant(name: str) -> Never:
    raise _Refused("non-finite", f"{name} is no JSON", name, "a finite number or null")


class _Twice(ValueError):
    """An object has a key twice."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise _Twice("a key occurs twice")
    return members


_PARSER = json.JSONDecoder(
    parse_int=_integer, parse_float=_fraction, parse_constant=_constant, object_pairs_hook=_object)
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")


def _text(data: bytes, most_bytes: int) -> str:
    if len(data) > most_bytes:
        raise NotStrict([Fault("too-large", "the file is larger than the limit for a JSON document",
                               observed=f"{len(data)} bytes or more", expected=f"at most {most_bytes} bytes")])
    if data.startswith(codecs.BOM_UTF8):
        raise NotStrict([Fault("encoding", "the text begins with a byte order mark, which JSON does not allow", 1, 1, "",
                               observed="EF BB BF", expected="UTF-8 without a byte order mark")])
    if data and not data.strip(b"\0"):
        raise NotStrict([Fault("syntax", "NUL bytes and nothing else", 1, 1, "", observed=f"{len(data):,} NUL bytes",
                               expected="text")])
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or b"\0" in data[:4]:
        raise NotStrict([Fault("encoding", "the text is UTF-16 or UTF-32, or no text at all", 1, 1, "",
                               observed=data[:4].hex(" ").upper(), expected="UTF-8")])
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[:error.start].decode("utf-8")
        line, column = _spot(before, len(before))
        if error.reason == "unexpected end of data":
            raise NotStrict([Fault("syntax", "the text ends within a character; it may have been cut", line, column,
                                   observed=THE_END, expected="the whole character")]) from None
        raise NotStrict([Fault("encoding", "the text is not UTF-8", line, column,
                               observed=data[error.start:error.end].hex(" ").upper(), expected="UTF-8")]) from None


def _deeper(value: Any, deepest: int) -> bool:
    """Whether more than ``deepest`` arrays and objects are nested."""
    level = [value]
    for _ in range(deepest):
        level = [inner for outer in level if isinstance(outer, (dict, list))
                 for inner in (outer.values() if isinstance(outer, dict) else outer)]
        if not level:
            return False
    return any(isinstance(outer, (dict, list)) for outer in level)


# ---- the scanner ---------------------------------------------------------------------------------------------


class _Event(NamedTuple):
    """A key or a value begins at ``at``. ``value`` is None for arrays and objects, `_Refused` for what is not accepted;
    ``earlier`` is where the same key stood before."""

    is_key: bool
    at: int
    value: Any
    earlier: int | None = None


class _Broken(Exception):
    """The text cannot be followed any further."""

    def __init__(self, at: int, message: str, observed: str, expected: str, kind: str = "syntax") -> None:
        super().__init__(message)
        self.at, self.message, self.observed, self.expected, self.kind = at, message, observed, expected, kind


def _kept(convert: Callable[[str], Any]) -> Callable[[str], Any]:
    def keep(text: str) -> Any:
        try:
            return convert(text)
        except _Refused as refusal:
            return refusal

    return keep


_SCALARS = json.JSONDecoder(parse_int=_kept(_integer), parse_float=_kept(_fraction), parse_constant=_kept(_constant))
_SPACE = re.compile(r"[ \t\n\r]*")
_WORD = re.compile(r"\w{1,20}|(?s:.)?")
# What is left at the end of a text that was cut within a number or a literal.
_STUMP = re.compile(r"(?:-|\.|[eE][-+]?|t(?:ru?)?|f(?:a(?:ls?)?)?|n(?:ul?)?)\s*\Z")
KEY = "a key in double quotes"  # what is expected before each colon
THE_END = "the end of the file"  # what is observed where a text breaks off
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_STRING_FAULTS = (("Unterminated", "a string that never ends", 'a closing "'),
                  ("Invalid control", "a control character in a string", "its escape, such as \\n or \\t"),
                  ("Invalid", "an escape that JSON does not know", 'one of \\" \\\\ \\/ \\b \\f \\n \\r \\t \\uXXXX'))
_HINTS = {"'": "JSON writes strings in double quotes", "/": "JSON has no comments", "#": "JSON has no comments",
          "True": "JSON writes true", "False": "JSON writes false", "None": "JSON writes null", "undefined": "JSON writes null",
          "nan": "JSON has no NaN; use null", "inf": "JSON has no infinity; use null"}


@dataclasses.dataclass(slots=True)
class _Container:
    """An array or object that is being read; ``keys`` are those seen so far and where, None for an array."""

    end: str
    keys: dict[str, int] | None
    count: int = 0


def _scan(text: str, deepest: int, path: list[str]) -> Iterator[_Event]:
    """All keys and values in their order; ``path`` holds the keys and indices that lead to the value (to the object of a key).

    Raises `_Broken` where the text is no JSON; ``path`` then leads to the value in which that was met.
    """
    open_: list[_Container] = []
    state = "value"
    at = 0
    while True:
        at = _space(text, at)
        char = text[at:at + 1]
        if state == "value":
            if char == "[" or char == "{":
                if len(open_) == deepest:
                    raise _Broken(at, "arrays and objects are nested too deeply", f"{deepest + 1} levels",
                                  f"at most {deepest} levels", "too-large")
                yield _Event(False, at, None)
                open_.append(_Container("]", None) if char == "[" else _Container("}", {}))
                at, state = at + 1, "first"
            else:
                value, end = _scalar(text, at, "a value")
                yield _Event(False, at, value)
                at, state = end, "end"
        elif state == "first" and char == open_[-1].end:
            open_.pop()
            at, state = at + 1, "end"
        elif state == "first" or state == "member":
            container = open_[-1]
            if state == "member" and char == container.end:
                raise _Broken(at, f"a comma before {char}", shown(char), "no comma after the last one")
            if container.keys is None:
                path.append(str(container.count))
            else:
                if char != '"':
                    raise _unexpected(text, at, KEY)
                key, end = _scalar(text, at, KEY)
                yield _Event(True, at, key, container.keys.get(key))
                container.keys.setdefault(key, at)
                at = _space(text, end)
                if text[at:at + 1] != ":":
                    raise _unexpected(text, at, "a colon after the key")
                at += 1
                path.append(key)
            container.count += 1
            state = "value"
        elif not open_:
            if char:
                raise _Broken(at, "text after the end of the document", shown(text[at:at + 20]), "the end of the file")
            return
        else:
            path.pop()
            if char == ",":
                at, state = at + 1, "member"
            elif char == open_[-1].end:
                open_.pop()
                at += 1
            else:
                raise _unexpected(text, at, f"a comma or {open_[-1].end}")


def _space(text: str, at: int) -> int:
    """The end of the white space that begins at ``at``."""
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _scalar(text: str, at: int, expected: str) -> tuple[Any, int]:
    """The string, number or literal that begins at ``at``, and where it ends."""
    try:
        return _SCALARS.raw_decode(text, at)
    except json.JSONDecodeError as error:
        if text[at:at + 1] == '"':
            for begin, message, right in _STRING_FAULTS:
                if error.msg.startswith(begin):
                    raise _Broken(error.pos, message, shown(text[error.pos:error.pos + 20]), right) from None
        raise _unexpected(text, at, expected) from None


def _unexpected(text: str, at: int, expected: str) -> _Broken:
    match = _WORD.match(text, at)
    word = match.group() if match else ""
    if not word:
        return _Broken(at, f"the text ends where {expected} should follow; it may have been cut", THE_END, expected)
    if _STUMP.match(text, at):
        return _Broken(at, "the text ends within a value; it may have been cut", THE_END, "the whole value")
    hint = _HINTS.get(word)
    return _Broken(at, f"{shown(word)} where {expected} should stand" + (f"; {hint}" if hint else ""), shown(word), expected)


def _faults(text: str, deepest: int) -> list[Fault]:
    """What is wrong with a text, in its order, at most `MOST_FAULTS`."""
    found: list[Fault] = []
    path: list[str] = []

    def add(kind: str, at: int, message: str, observed: str, expected: str, *below: str) -> None:
        pointer = pointer_to([*path, *below]).encode("utf-8", "backslashreplace").decode()
        found.append(Fault(kind, message, *_spot(text, at), None if len(pointer) > LONGEST_POINTER else pointer,
                           observed, expected))

    try:
        for event in _scan(text, deepest, path):
            if event.earlier is not None:
                add("duplicate-key", event.at, f"the key {shown(event.value)} occurs twice in one object",
                    f"again; first on line {_spot(text, event.earlier).line}", "each key once", event.value)
            if isinstance(event.value, _Refused):
                add(event.value.kind, event.at, event.value.message, event.value.observed, event.value.expected)
            elif isinstance(event.value, str) and _LONE_SURROGATE.search(event.value):
                add("encoding", event.at, "half a surrogate pair, which is no character", shown(event.value), "whole characters")
            if len(found) >= MOST_FAULTS:
                break
    except _Broken as error:
        add(error.kind, error.at, error.message, error.observed, error.expected)
    return found


def _spot(text: str, at: int) -> Spot:
    return Spot(text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at))


def _spots(text: str, offsets: Iterable[int]) -> Mapping[int, Spot]:
    """The places of some offsets, in one pass over the text."""
    spots: dict[int, Spot] = {}
    line, begin, before = 1, 0, 0
    for at in sorted(set(offsets)):
        line += text.count("\n", before, at)
        begin = text.rfind("\n", before, at) + 1 or begin
        before = at
        spots[at] = Spot(line, at - begin + 1)
    return spots


def _parts(pointer: str) -> tuple[str, ...]:
    """The keys and indices of a JSON pointer; ValueError when it is none."""
    if pointer and not pointer.startswith("/"):
        raise ValueError(f"{pointer!r} is no JSON pointer")
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:])
