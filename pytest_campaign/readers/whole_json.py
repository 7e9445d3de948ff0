"""Records in one JSON document: a list, an object of columns, columns with rows, or an object of records by their ids."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..text import shown
from .rows import Header, Item, Row
from .strict_json import Fault, pointer_to


def records(value: Any, key: Sequence[str], field: str | None) -> Iterator[Item]:
    """The records in a parsed document, each with its JSON pointer.

    ``key`` are the fields that identify a record; where records stand under their ids, the id becomes the key field, and a
    value that is no object becomes ``field``.
    """
    at, found = _list(value, key)
    if isinstance(value, dict) and _is_split(value):
        yield Header(1, tuple(value["columns"]))
        for index, cells in enumerate(value["data"]):
            yield Row(None, dict(zip(value["columns"], cells, strict=True)), pointer_to(("data", index)))
    elif isinstance(found, list):
        for index, item in enumerate(found):
            yield Row(None, item, pointer_to((*at, index)))
    elif isinstance(value, dict) and _columns(value, key):
        yield from _rows(value)
    elif isinstance(value, dict):
        for name, item in value.items():
            row = item if isinstance(item, dict) else {field or "value": item}
            yield Row(None, {key[0]: name} | row if len(key) == 1 else row, pointer_to((name,)))
    else:
        yield Row(None, value, "")


def _is_split(value: Mapping[str, Any]) -> bool:
    """Whether a document is a table as pandas (orient="split") and trackers of experiments write it: columns and data."""
    columns, data = value.get("columns"), value.get("data")
    if not (isinstance(columns, list) and isinstance(data, list) and value.keys() <= {"columns", "data", "index"}):
        return False
    return all(isinstance(name, str) for name in columns) and all(
        isinstance(cells, list) and len(cells) == len(columns) for cells in data)


def _list(value: Any, key: Sequence[str]) -> tuple[tuple[str, ...], list[Any] | None]:
    """The list of records, and where it stands: the whole, or the one member that is a list of objects."""
    if isinstance(value, list):
        return (), value
    if isinstance(value, dict) and not any(name in value for name in key):
        lists = [name for name, item in value.items() if isinstance(item, list) and item and isinstance(item[0], dict)]
        if not lists and len(value) == 1:  # a list that could have held records
            lists = [name for name, item in value.items() if item == []]
        if len(lists) == 1:
            return (lists[0],), value[lists[0]]
    return (), None


def _columns(value: Mapping[str, Any], key: Sequence[str]) -> bool:
    columns = [value.get(name) for name in key] if key else list(value.values())
    return bool(columns) and (all(isinstance(column, list) for column in columns)
                              or (bool(key) and all(isinstance(column, dict) for column in columns)))  # pandas, by its index


def _rows(value: Mapping[str, Any]) -> Iterator[Item]:
    columns = {name: list(column.values()) if isinstance(column, dict) else column for name, column in value.items()
               if isinstance(column, (list, dict))}
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{shown(name, 40)}: {length}" for name, length in list(lengths.items())[:10])
        yield Fault("fields", "columns of different lengths", None, None, "", listed, "one length")
        return
    yield Header(1, tuple(columns))
    for index, cells in enumerate(zip(*columns.values(), strict=True)):
        yield Row(None, dict(zip(columns, cells, strict=True)), pointer_to((next(iter(columns)), index)))
