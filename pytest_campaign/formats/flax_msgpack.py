"""Files of ``flax.serialization.to_bytes``: one MessagePack map of names, with an array as extension type 1.

An array is a MessagePack list of its shape, the name of its type and its bytes; one of more than a gigabyte is a map of its
pieces (flax/serialization.py, flax 0.12; msgpack.org, spec.md). There is no checksum.
"""

from __future__ import annotations

import collections
import dataclasses
import math
from collections.abc import Iterator, Mapping

from .base import Candidate, Depth, FileFacts, Format, Placed, Problem, ProblemKind, Reading, Source, Unit
from .nul_tail import nul_tail, row_of
from .protobuf_wire import Cut, Window
from .streaming import Segment, digest, never_written, non_finite, scan
from .zip_archive import reader

NAME = "Flax"
MOST_OBJECTS = 5_000_000
MOST_ARRAYS = 200_000
LONGEST_NAME = 4096
DEEPEST = 500
_MOST_DIMENSIONS = 64
_AT_FIRST = 1000  # objects that recognition looks at
_ARRAY = 1  # the extension type

_SIZES = {"float64": ("F64", 8), "float32": ("F32", 4), "float16": ("F16", 2), "bfloat16": ("BF16", 2), "complex64": ("C64", 8),
          "complex128": ("C128", 16), "bool": ("BOOL", 1), "float8_e4m3fn": ("F8_E4M3", 1), "float8_e5m2": ("F8_E5M2", 1),
          "float8_e4m3fnuz": ("F8_E4M3FNUZ", 1), "float8_e5m2fnuz": ("F8_E5M2FNUZ", 1), "float8_e8m0fnu": ("F8_E8M0", 1),
          **{f"{sign}int{8 * size}": (f"{sign.upper() or 'I'}{8 * size}", size) for sign in ("", "u") for size in (1, 2, 4, 8)}}

# First bytes beside those that hold a number themselves: (kind, bytes of the length or of the value).
_FIXED = {0xC0: 0, 0xC2: 0, 0xC3: 0, 0xCA: 4, 0xCB: 8, 0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8, 0xD0: 1, 0xD1: 2, 0xD2: 4, 0xD3: 8}
_TEXTS = {0xD9: 1, 0xDA: 2, 0xDB: 4}
_BYTES = {0xC4: 1, 0xC5: 2, 0xC6: 4}
_LISTS = {0xDC: 2, 0xDD: 4}
_MAPS = {0xDE: 2, 0xDF: 4}
_EXTENSIONS = {0xC7: 1, 0xC8: 2, 0xC9: 4}
_FIXED_EXTENSIONS = {0xD4: 1, 0xD5: 2, 0xD6: 4, 0xD7: 8, 0xD8: 16}


class _Fault(Exception):
    """The file cannot be followed any further."""

    def __init__(self, kind: ProblemKind, observed: str, expected: str, where: str = "") -> None:
        super().__init__(observed)
        self.kind, self.observed, self.expected, self.where = kind, observed, expected, where


@dataclasses.dataclass(frozen=True)
class Item:
    """One object: its kind, the number or the count in it, the type of an extension, and where its content lies."""

    kind: str  # number, text, bytes, list, map, extension
    value: int
    start: int
    end: int


@dataclasses.dataclass(frozen=True)
class Array:
    """One array and where its bytes lie."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    start: int
    length: int


def item(window: Window, at: int) -> Item:
    """The object at a place; ``end`` is behind its header where it is a list or a map."""
    first = window.take(at, 1)[0]
    at += 1
    if first < 0x80 or first >= 0xE0:
        return Item("number", first, at, at)
    if first < 0x90:
        return Item("map", first & 0x0F, at, at)
    if first < 0xA0:
        return Item("list", first & 0x0F, at, at)
    if first < 0xC0:
        return Item("text", 0, at, at + (first & 0x1F))
    if first in _FIXED:
        width = _FIXED[first]
        return Item("number", int.from_bytes(window.take(at, width), "big"), at, at + width)
    if first in _FIXED_EXTENSIONS:
        return Item("extension", window.take(at, 1)[0], at + 1, at + 1 + _FIXED_EXTENSIONS[first])
    for kind, widths in (("text", _TEXTS), ("bytes", _BYTES), ("list", _LISTS), ("map", _MAPS), ("extension", _EXTENSIONS)):
        if first in widths:
            width = widths[first]
            length = int.from_bytes(window.take(at, width), "big")
            at += width
            if kind == "extension":
                return Item(kind, window.take(at, 1)[0], at + 1, at + 1 + length)
            return Item(kind, length, at, at) if kind in ("list", "map") else Item(kind, 0, at, at + length)
    raise _Fault(ProblemKind.DAMAGED, f"byte {first:#04x} at {at - 1:,}", "an object of MessagePack")


def walk(window: Window, most: int) -> Iterator[Array]:
    """The arrays of a file in their order. Ends with `_Fault` for what makes no sense and `Cut` where the file ends early."""
    top = item(window, 0)
    if top.kind != "map":
        raise _Fault(ProblemKind.DAMAGED, f"a {top.kind} at the top", "a map of names")
    stack = [_Level(True, top.value, "")]
    at, objects = top.end, 0
    while stack:
        level = stack[-1]
        if not level.left:
            stack.pop()
            continue
        level.left -= 1
        objects += 1
        if objects > most or len(stack) > DEEPEST:
            raise _Fault(ProblemKind.TOO_LARGE, f"more than {most:,} objects or {DEEPEST} levels", "fewer")
        name = level.name
        if level.is_map:
            key = item(window, at)
            if key.kind not in ("text", "number") or key.end - key.start > LONGEST_NAME:
                raise _Fault(ProblemKind.DAMAGED, f"a key that is no name, at byte {at:,}", "names as keys", name)
            word = window.take(key.start, key.end - key.start).decode("utf-8", "backslashreplace")
            text = word if key.kind == "text" else str(key.value)
            name, at = (f"{name}.{text}" if name else text)[:LONGEST_NAME], key.end
        found = item(window, at)
        if found.kind in ("map", "list"):
            stack.append(_Level(found.kind == "map", found.value, name))
        elif found.kind == "extension" and found.value == _ARRAY:
            yield _array(window, found, name)
        elif found.end > window.size:
            raise Cut(found.end)
        at = found.end
    if at < window.size:
        raise _Fault(ProblemKind.TRAILING, f"{window.size - at:,} bytes behind the end of the map", f"{at:,} bytes")


@dataclasses.dataclass
class _Level:
    """A map or a list on the way: how many entries are left."""

    is_map: bool
    left: int
    name: str


def _array(window: Window, extension: Item, name: str) -> Array:
    fault = _Fault(ProblemKind.DAMAGED, "an extension of type 1 that is no array", "its shape, its type and its bytes", name)
    parts = item(window, extension.start)
    if parts.kind != "list" or parts.value != 3:
        raise fault
    shape, at = item(window, parts.end), parts.end
    if shape.kind != "list" or shape.value > _MOST_DIMENSIONS:
        raise fault
    at, sizes = shape.end, []
    for _ in range(shape.value):
        size = item(window, at)
        if size.kind != "number":
            raise fault
        sizes.append(size.value)
        at = size.end
    dtype = item(window, at)
    if dtype.kind != "text" or dtype.end - dtype.start > 64:
        raise fault
    word = window.take(dtype.start, dtype.end - dtype.start).decode("ascii", "replace")
    data = item(window, dtype.end)
    if data.kind != "bytes" or data.end != extension.end:
        raise fault
    label, width = _SIZES.get(word, (word, 0))
    if width and math.prod(sizes) * width != data.end - data.start:
        raise _Fault(ProblemKind.DAMAGED, f"{data.end - data.start:,} bytes for {word} {sizes}",
                     f"{math.prod(sizes) * width:,} bytes", name)
    return Array(name, label, tuple(sizes), data.start, data.end - data.start)


def recognise(candidate: Candidate) -> bool:
    """Whether the file begins as a map of names that leads to an array."""
    head = candidate.head
    if len(head) < 2 or not (0x81 <= head[0] <= 0x8F or head[0] in _MAPS):
        return False
    try:
        return next(walk(Window(candidate.read, candidate.size), _AT_FIRST), None) is not None
    except (_Fault, Cut):
        return False


def read(unit: Unit, source: Source) -> Reading:
    """The map of one file and the values of its arrays."""
    path, size = unit.path, source.size(unit.path)
    problems: list[Problem] = []
    arrays: list[Array] = []
    depth: Depth | None = Depth.HEADER
    with source.open(path) as file:
        try:
            for array in walk(Window(reader(file), size), MOST_OBJECTS):
                if len(arrays) == MOST_ARRAYS:
                    raise _Fault(ProblemKind.TOO_LARGE, f"more than {MOST_ARRAYS:,} arrays", f"at most {MOST_ARRAYS:,}")
                arrays.append(array)
                if array.start + array.length > size:
                    raise Cut(array.start + array.length)
        except _Fault as fault:
            problems.append(Problem(fault.kind, path, fault.observed, fault.expected, fault.where))
            depth = depth if fault.kind is ProblemKind.TRAILING else None
        except Cut as cut:
            where = arrays[-1].name if arrays else ""
            observed = f"{size:,} bytes: the file ends in or behind {where or 'its first name'}"
            problems.append(Problem(ProblemKind.TRUNCATED, path, observed, f"at least {cut.needed:,} bytes", where))
            depth = None
        whole = [array for array in arrays if array.start + array.length <= size]
        segments = [Segment(array.start, array.length, array.dtype, label=array.name,
                            row=row_of(array.shape, array.length // max(1, math.prod(array.shape)))) for array in whole]
        problems += never_written(path, file, size, segments)
        zero: Mapping[str, bool] = {}
        if source.depth >= Depth.TENSORS:
            result = scan(file, size, segments, source)
            sha256 = result.sha256
            named = [(array.name, found) for array, found in zip(whole, result.segments, strict=True)]
            zero = {name: found.zero for name, found in named}
            problems += non_finite(path, named)
            problems += nul_tail(path, file, segments, result.segments)
            depth = Depth.TENSORS if depth is not None else None
        else:
            sha256 = digest(file, size, source)
    unknown = [array for array in arrays if array.dtype not in {label for label, _ in _SIZES.values()}]
    if unknown:
        problems.append(Problem(ProblemKind.UNREADABLE_KIND, path, f"the type {unknown[0].dtype[:40]}",
                                "a type that is known here", unknown[0].name, len(unknown)))
        depth = Depth.HEADER if depth is not None else None
    return Reading(
        NAME, depth, [FileFacts(path, size, sha256)], problems, len(arrays), sum(math.prod(array.shape) for array in arrays),
        collections.Counter(array.dtype for array in arrays),
        sum(array.length for array in whole) if depth is Depth.TENSORS else 0,
        {array.name: Placed(array.dtype, array.shape, path, array.start, array.length, zero.get(array.name, False))
         for array in whole})


FORMAT = Format(NAME, Depth.TENSORS, read, recognise, aliases=("msgpack", "jax"))
