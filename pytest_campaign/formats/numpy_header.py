"""The header of a ``.npy`` array, read strictly and without evaluating anything.

A file is ``\\x93NUMPY``, the version (1.0, 2.0 or 3.0), the length of the header (2 bytes, from 2.0 on 4) and the header: the
text of a Python dict with ``descr``, ``fortran_order`` and ``shape``, padded with blanks (numpy/lib/_format_impl.py, NumPy 2.4).
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from .zip_archive import Read

MAGIC = b"\x93NUMPY"
LONGEST_HEADER = 1 << 20
MOST_DIMENSIONS = 64  # NumPy's own limit
_DEEPEST = 20
_MOST_TOKENS = 100_000
_LARGEST = 1 << 63
_MOST_EMPTY = 1 << 32  # elements that take no bytes
_FIXED = 10  # bytes up to the header of version 1.0; from 2.0 on two more
_TOKEN = re.compile(
    r"""\s*(?: (?P<sign>[{}()\[\],:]) | (?P<number>\d{1,20})L? | '(?P<text>[^'\\]*)' | "(?P<other>[^"\\]*)"
              | (?P<word>True|False|None) )""", re.VERBOSE)
_SIMPLE = re.compile(r"(?P<order>[<>|=])?(?P<kind>[?bBhHiIuUlLqQefdgcFDGOSVmMa])(?P<size>\d{0,10})(?P<unit>\[[\w/]{1,40}\])?")
_CLOSING = {"(": ")", "[": "]", "{": "}"}

# Kinds of numbers and the types as safetensors calls them, by size.
_NAMES: Mapping[str, str] = {"f2": "F16", "f4": "F32", "f8": "F64", "c8": "C64", "c16": "C128", "b1": "BOOL",
                             **{f"i{size}": f"I{8 * size}" for size in (1, 2, 4, 8)},
                             **{f"u{size}": f"U{8 * size}" for size in (1, 2, 4, 8)}}
_COMPLEX = frozenset({"C64", "C128"})


class BadHeader(ValueError):
    """The header cannot be read; ``ends``: the array ends before it does."""

    def __init__(self, message: str, ends: bool = False) -> None:
        super().__init__(message)
        self.ends = ends


@dataclasses.dataclass(frozen=True)
class Header:
    """What a header says. ``item`` are the bytes of an element, ``data`` is where the elements begin.

    ``dtype`` is the type as safetensors calls it, where it has a name, else NumPy's own; ``turned``: its numbers begin with the
    highest byte. ``objects``: the elements are Python objects, hence a pickle. ``unread`` says why floating point numbers in it
    cannot be tested, "" when there are none or they can. ``fortran``: the first dimension runs fastest.
    """

    dtype: str
    shape: tuple[int, ...]
    item: int
    data: int
    turned: bool = False
    objects: bool = False
    unread: str = ""
    fortran: bool = False

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def length(self) -> int:
        return self.elements * self.item

    @property
    def plain(self) -> bool:
        """Whether the bytes are those of the digest of a tensor: little-endian, in the order of the shape."""
        return not (self.turned or self.fortran)

    @property
    def number(self) -> int:
        """The bytes of one number: half an element when it is complex."""
        return self.item // 2 if self.dtype in _COMPLEX else max(self.item, 1)


def parse(read: Read, size: int) -> Header:
    """The header of an array that may take ``size`` bytes; `BadHeader` when it cannot be used."""
    start = read(0, _FIXED + 2)
    if not start.startswith(MAGIC):
        cut = MAGIC.startswith(start) and size < len(MAGIC)
        raise BadHeader(f"it begins with {start[:6]!r} and not with {MAGIC!r}", ends=cut)
    if len(start) < _FIXED + 2:
        raise BadHeader("it ends inside its header", ends=True)
    version = start[6], start[7]
    if version not in ((1, 0), (2, 0), (3, 0)):
        raise BadHeader(f"version {version[0]}.{version[1]}")
    width = 2 if version == (1, 0) else 4
    length, at = int.from_bytes(start[8:8 + width], "little"), 8 + width
    if length > LONGEST_HEADER:
        raise BadHeader(f"a header of {length:,} bytes")
    if at + length > size:
        raise BadHeader(f"it ends inside its header of {length:,} bytes", ends=True)
    try:
        text = read(at, length).decode("utf-8" if version == (3, 0) else "latin-1")
    except UnicodeDecodeError:
        raise BadHeader("the header is no text") from None
    return _header(_literal(text), at + length)


def _header(value: Any, data: int) -> Header:
    if not isinstance(value, dict) or set(value) != {"descr", "fortran_order", "shape"}:
        raise BadHeader("the header is no dict of descr, fortran_order and shape")
    shape = value["shape"]
    if not isinstance(shape, tuple) or len(shape) > MOST_DIMENSIONS or not all(type(size) is int for size in shape):
        raise BadHeader("the shape is no tuple of numbers")
    if type(value["fortran_order"]) is not bool:
        raise BadHeader("fortran_order is neither True nor False")
    descr = value["descr"]
    kind = _simple(descr, data, shape) if isinstance(descr, str) else _structured(descr, data, shape, 0)
    if kind.elements >= (_LARGEST if kind.item else _MOST_EMPTY) or kind.length >= _LARGEST:
        raise BadHeader(f"a shape of {kind.elements:,} elements")
    return dataclasses.replace(kind, fortran=value["fortran_order"] and sum(size > 1 for size in shape) > 1)


def _simple(descr: str, data: int, shape: tuple[int, ...]) -> Header:
    match = _SIMPLE.fullmatch(descr)
    if match is None:
        raise BadHeader(f"the type {descr[:40]!r}")
    kind, size = match["kind"], int(match["size"] or 0)
    if kind == "O":
        return Header("O", shape, 8, data, objects=True)
    item = 4 * size if kind == "U" else size or (1 if kind in "?bB" else 0)
    name = _NAMES.get(f"{kind}{item}", "")
    if kind in "?B":
        name = "BOOL" if kind == "?" else "U8"
    unread = ""
    if kind in "fcgGedFD" and not name:
        unread = f"numbers of the type {descr}"
    elif kind == "V" and size in (1, 2):
        unread = f"the type {descr}, which NumPy writes for bfloat16 and for 8-bit numbers"
    if kind in "fiucmM" and not item:
        raise BadHeader(f"the type {descr[:40]!r} without a size")
    turned = match["order"] == ">" and bool(name) and item > 1
    return Header(name or descr, shape, item, data, turned, unread=unread)


def _structured(descr: Any, data: int, shape: tuple[int, ...], depth: int) -> Header:
    """A type with fields: a list of (name, type) or (name, type, shape), where a name may be a pair with a title."""
    if not isinstance(descr, list) or not descr or depth > _DEEPEST:
        raise BadHeader("a type that is neither a text nor a list of fields")
    item, objects, unread = 0, False, ""
    for field in descr:
        if not isinstance(field, tuple) or len(field) not in (2, 3):
            raise BadHeader("a field that is no name and type")
        inner = field[2] if len(field) == 3 else ()
        inner = (inner,) if type(inner) is int else inner
        if not isinstance(inner, tuple) or not all(type(size) is int for size in inner):
            raise BadHeader("a field whose shape is no tuple of numbers")
        part = _simple(field[1], 0, inner) if isinstance(field[1], str) else _structured(field[1], 0, inner, depth + 1)
        item += part.length
        objects |= part.objects
        unread = unread or part.unread or ("floating point numbers in a type with fields" if part.dtype[:1] in "FC" else "")
    return Header("fields", shape, item, data, objects=objects, unread="" if objects else unread)


def _literal(text: str) -> Any:
    """The value of a Python literal of dicts, lists, tuples, numbers, texts, True, False and None."""
    tokens = _tokens(text)
    value = _value(next(tokens, None), tokens, 0)
    if next(tokens, None) is not None:
        raise BadHeader("the header goes on behind its dict")
    return value


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    at, end, count = 0, len(text.rstrip()), 0
    while at < end:
        match = _TOKEN.match(text, at)
        count += 1
        if match is None or count > _MOST_TOKENS:
            raise BadHeader(f"the header cannot be read at {text[at:at + 20]!r}")
        kind = match.lastgroup or ""
        yield "text" if kind == "other" else kind, match[kind]
        at = match.end()


def _value(token: tuple[str, str] | None, tokens: Iterator[tuple[str, str]], depth: int) -> Any:
    if token is None or depth > _DEEPEST:
        raise BadHeader("the header is not complete" if token is None else "the header is nested too deeply")
    kind, text = token
    if kind == "number":
        return int(text)
    if kind == "text":
        return text
    if kind == "word":
        return {"True": True, "False": False, "None": None}[text]
    if text not in _CLOSING:
        raise BadHeader(f"{text!r} where a value is expected")
    return _container(text, tokens, depth)


def _container(opening: str, tokens: Iterator[tuple[str, str]], depth: int) -> Any:
    items: list[Any] = []
    entries: dict[Any, Any] = {}
    comma = True
    while True:
        token = next(tokens, None)
        if token == ("sign", _CLOSING[opening]):
            break
        if not comma:
            raise BadHeader("the header lacks a comma")
        value = _value(token, tokens, depth + 1)
        after = next(tokens, None)
        if opening == "{":
            if not isinstance(value, str) or value in entries or after != ("sign", ":"):
                raise BadHeader("the header is no dict with each name once")
            entries[value] = _value(next(tokens, None), tokens, depth + 1)
            after = next(tokens, None)
        else:
            items.append(value)
        comma = after == ("sign", ",")
        if after == ("sign", _CLOSING[opening]):
            break
        if not comma:
            raise BadHeader("the header lacks a comma")
    if opening == "{":
        return entries
    if opening == "[":
        return items
    return items[0] if len(items) == 1 and not comma else tuple(items)
