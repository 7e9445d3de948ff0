"""What is learned of predictions and data sets in one pass: counts, sums of keys, and the first of what is wrong."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, BinaryIO

from .inventory import Entry
from .key_sums import SHOWN, Hasher, Key, Sums
from .readers import json_lines, strict_json, tables, whole_json
from .readers.rows import BOM, Header, Item, Row, Where
from .readers.strict_json import Fault, NotStrict

LARGEST_DOCUMENT = 64 << 20  # bytes of a JSON document, which is not read line by line
MOST_FILES = 1_000_000  # of which the names are kept
_LINES = ("jsonl", "ndjson", "jsonlines")
_TABLES = ("csv", "tsv", "tab")
PARQUET = "parquet"  # tables that are read in the fresh process, see `parquet_tables`
_EMPTY: tuple[object, ...] = ("", None, [], {})

Open = Callable[[], BinaryIO]


@dataclasses.dataclass(frozen=True)
class Columns:
    """Which fields of the records matter: the ``key``, the ``value``, the one that says an input was ``truncated``, and
    those that are names of ``files``."""

    key: tuple[str, ...] = ()
    value: str | None = None
    truncated: str | None = None
    files: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Rows:
    """The records of some files, or a list of ``ids``, as a multiset of their keys."""

    entries: tuple[Entry, ...]
    columns: Columns
    ids: tuple[Key, ...] = ()


@dataclasses.dataclass
class Places:
    """How many records there are of one sort, and where the first of them stand, each with a text."""

    count: int = 0
    first: list[tuple[Where, str]] = dataclasses.field(default_factory=list)

    def __bool__(self) -> bool:
        return self.count > 0

    def add(self, where: Where, text: str = "") -> None:
        self.count += 1
        if len(self.first) < SHOWN:
            self.first.append((where, text))


@dataclasses.dataclass
class RecordFacts:
    """One file of records. ``faults`` are the first of each kind, ``counts`` how many of each kind there are.

    ``filled`` counts the records with a value that is not empty: of the declared field or, where none is declared, of any
    field beside the key. ``texts`` counts the values that are no numbers.
    """

    rows: int = 0
    names: tuple[str, ...] | None = None  # of the columns of a table
    faults: list[Fault] = dataclasses.field(default_factory=list)
    counts: dict[str, int] = dataclasses.field(default_factory=dict)
    sums: Sums = dataclasses.field(default_factory=Sums)
    no_key: Places = dataclasses.field(default_factory=Places)
    odd_key: Places = dataclasses.field(default_factory=Places)
    no_value: Places = dataclasses.field(default_factory=Places)
    null: Places = dataclasses.field(default_factory=Places)
    not_finite: Places = dataclasses.field(default_factory=Places)
    truncated: Places = dataclasses.field(default_factory=Places)
    lost_files: Places = dataclasses.field(default_factory=Places)
    without_file: Places = dataclasses.field(default_factory=Places)  # an empty text where the name of a file should stand
    files: set[str] = dataclasses.field(default_factory=set)  # of the campaign that records name, as they name them
    seen: set[str] = dataclasses.field(default_factory=set)  # those of the fields that may be left out which some record has
    filled: int = 0
    texts: int = 0

    def fault(self, fault: Fault) -> None:
        """Something that is wrong with the file."""
        self.counts[fault.kind] = self.counts.get(fault.kind, 0) + 1
        if self.counts[fault.kind] <= SHOWN:
            self.faults.append(fault)


def readable(name: str) -> bool:
    """Whether the suffix of a name is one of records that are read: by `read`, or as `PARQUET`."""
    return suffix(name) in (*_LINES, *_TABLES, "json", PARQUET)


def without_twins(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """The files without the Parquet files beside which the same table lies as text: under the same name up to its suffix."""
    entries = tuple(entries)
    texts = {_stem(entry.path) for entry in entries if suffix(entry.path) != PARQUET}
    return tuple(entry for entry in entries if suffix(entry.path) != PARQUET or _stem(entry.path) not in texts)


def _stem(path: str) -> str:
    return path.rpartition(".")[0]


def suffix(name: str) -> str:
    """What stands after the last dot of a name, in small letters."""
    return name.rpartition("/")[2].lower().rpartition(".")[2]


def read(name: str, size: int, opened: Open, columns: Columns, *, comments: bool = False) -> Iterator[Item]:
    """The records of a file of ``size`` bytes whose name is `readable` and not `PARQUET`, with its faults.

    A ``.json`` file may hold JSON Lines all the same. A TSV file in which quotes do not make sense is read without them. A table
    may have ``comments`` at its head. OSError as by ``opened``.
    """
    kind = suffix(name)
    if kind in _LINES:
        with opened() as stream:
            yield from json_lines.records(stream)
    elif kind in _TABLES:
        yield from _table(name, kind != "csv", opened, comments)
    else:
        yield from _json(size, opened, columns)


def _table(name: str, maybe_plain: bool, opened: Open, comments: bool) -> Iterator[Item]:
    def records(quotes: bool) -> Iterator[Item]:
        with opened() as stream:
            yield from tables.records(stream, name, quotes=quotes, comments=comments)

    quotes = True
    if maybe_plain:
        quotes = not any(isinstance(item, Fault) for item in records(True)) or any(
            isinstance(item, Fault) for item in records(False))
    yield from records(quotes)


def _json(size: int, opened: Open, columns: Columns) -> Iterator[Item]:
    if holds_lines(opened):
        with opened() as stream:
            yield from json_lines.records(stream)
        return
    value = document(size, opened)
    if isinstance(value, Faults):
        yield from value.faults
    else:
        yield from whole_json.records(value, columns.key, columns.value)


def holds_lines(opened: Open) -> bool:
    """Whether a file holds JSON Lines whatever it is called: two records on its first two lines."""
    with opened() as stream:
        items = json_lines.records(stream)
        first, second = next(items, None), next(items, None)
    return isinstance(first, Row) and isinstance(second, Row) and isinstance(first.value, (dict, list))


@dataclasses.dataclass(frozen=True)
class Faults:
    """Why a document has no value."""

    faults: Sequence[Fault]


def document(size: int, opened: Open) -> Any | Faults:
    """The value of a strict JSON document of ``size`` bytes."""
    if size > LARGEST_DOCUMENT:
        return Faults([Fault("limit", f"one JSON document of {size:,} bytes", None, None, None, f"{size:,} bytes",
                             f"at most {LARGEST_DOCUMENT:,} bytes; JSON Lines may be of any size")])
    with opened() as stream:
        data = whole(stream, size)
    try:
        return strict_json.parse(data.removeprefix(BOM), most_bytes=LARGEST_DOCUMENT)
    except NotStrict as error:
        return Faults([torn(fault, data) for fault in error.faults])


def whole(stream: BinaryIO, most: int) -> bytes:
    """All of a stream, which is unbuffered, or its first ``most`` bytes."""
    parts = []
    while most > 0 and (part := stream.read(most)):
        parts.append(part)
        most -= len(part)
    return b"".join(parts)


def torn(fault: Fault, data: bytes) -> Fault:
    """The fault of a document, of kind ``torn`` when it is that the document breaks off, ``nul`` when it has NUL bytes."""
    if fault.kind == "syntax" and b"\0" in data:
        return dataclasses.replace(fault, kind="nul", message=f"{data.count(0):,} NUL bytes, the first at byte {data.find(0):,}",
                                   observed=f"{data.count(0):,} NUL bytes", expected="text")
    ends = fault.observed == strict_json.THE_END or fault.message.startswith("a string that never ends")
    return dataclasses.replace(fault, kind="torn") if fault.kind == "syntax" and ends else fault


def key_of(value: Any, fields: Sequence[str]) -> Key | str:
    """The key of a record, or in words why it has none that can be compared."""
    if not isinstance(value, dict):
        return "absent"
    parts = []
    for field in fields:
        part = value.get(field, _ABSENT)
        if type(part) is str:
            parts.append(part)
        elif type(part) is int:
            parts.append(str(part))
        elif part is _ABSENT:
            return "absent"
        else:
            return f"{field} is {_NAMES.get(type(part), 'an object')}" + (f" ({part!r})" if type(part) is float else "")
    return tuple(parts)


_ABSENT = object()
_NAMES: dict[type, str] = {type(None): "null", bool: "a truth value", float: "a fraction", list: "a list", dict: "an object"}


def keys(path: str, items: Iterator[Item], fields: Sequence[str]) -> Iterator[tuple[Key, Where]]:
    """The keys of the records that have one, with their places."""
    for item in items:
        if type(item) is Row:
            key = key_of(item.value, fields)
            if type(key) is tuple:
                yield key, Where(path, item.line, item.pointer)


def gather(path: str, items: Iterator[Item], columns: Columns, hasher: Hasher,
           lost: Callable[[str], str | None] = lambda value: None) -> RecordFacts:
    """The facts of one file, of which the places say ``path``. ``lost`` says why the name of a file leads nowhere, or None."""
    facts = RecordFacts()
    fields, value = columns.key, columns.value
    for item in items:
        if type(item) is Row:
            line, record, pointer = item
            facts.rows += 1
            if fields:
                key = key_of(record, fields)
                if type(key) is tuple:
                    facts.sums.add(hasher(key))
                elif key == "absent":
                    facts.no_key.add(Where(path, line, pointer))
                else:
                    facts.odd_key.add(Where(path, line, pointer), str(key))
            if type(record) is not dict:
                facts.filled += 1
                continue
            if value is None:
                facts.filled += any(cell not in _EMPTY for name, cell in record.items() if name not in fields)
            elif value not in record:
                facts.no_value.add(Where(path, line, pointer))
            else:
                _value(facts, record[value], Where(path, line, pointer))
            if columns.truncated is not None and columns.truncated in record:
                facts.seen.add(columns.truncated)
                if _true(record[columns.truncated]):
                    facts.truncated.add(Where(path, line, pointer))
            for name in columns.files:
                if name in record:
                    facts.seen.add(name)
                for file in _texts(record.get(name)):
                    if not file:
                        facts.without_file.add(Where(path, line, pointer), name)
                    elif problem := lost(file):
                        facts.lost_files.add(Where(path, line, pointer), f"{file}: {problem}")
                    elif len(facts.files) < MOST_FILES:
                        facts.files.add(file)
        elif type(item) is Header:
            facts.names = item.names
        elif isinstance(item, Fault):
            facts.fault(item)
    return facts


def _value(facts: RecordFacts, value: Any, where: Where) -> None:
    if value is None:
        facts.null.add(where)
        return
    if type(value) is str:
        if not value.strip():
            return
        number = _number(value)
        facts.texts += number is None
        if number is not None and not math.isfinite(number):
            facts.not_finite.add(where, value.strip())
    elif value in ([], {}):
        return
    facts.filled += 1


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _true(value: Any) -> bool:
    return value is True or (type(value) in (int, float) and value != 0) or (
        isinstance(value, str) and value.strip().lower() in ("true", "yes", "1"))


def _texts(value: Any) -> list[str]:
    return [item for item in (value if isinstance(value, list) else [value]) if isinstance(item, str)]
