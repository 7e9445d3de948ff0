"""Some columns of a table: CSV, TSV, JSON Lines, or a JSON array of objects. What cannot be read is left out."""

from __future__ import annotations

import contextlib
import csv
import io
import json
from collections.abc import Collection, Iterator
from typing import Any

from .fields import Field


def fields(data: bytes, name: str, columns: Collection[str]) -> Iterator[Field]:
    """The texts in some columns, each with the line (in an array: the number) of its row.

    The suffix of the file's ``name`` says what it is.
    """
    text = data.decode("utf-8-sig", "replace")
    suffix = name.lower().rpartition(".")[2]
    rows = _table(text, "\t" if suffix == "tsv" else ",") if suffix in ("csv", "tsv") else _objects(text, suffix)
    for line, row in rows:
        for column in columns:
            value = row.get(column)
            for item in value if isinstance(value, list) else [value]:
                if isinstance(item, str):
                    yield Field((column,), item, line)


def _table(text: str, delimiter: str) -> Iterator[tuple[int, dict[str, Any]]]:
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter)
    with contextlib.suppress(csv.Error):
        for row in reader:
            yield reader.line_num, row


def _objects(text: str, suffix: str) -> Iterator[tuple[int, dict[str, Any]]]:
    rows: Iterator[tuple[int, Any]] = ((number, _parsed(line)) for number, line in enumerate(text.split("\n"), 1))
    if suffix == "json" and isinstance(whole := _parsed(text), list):
        rows = iter(enumerate(whole, 1))
    return ((number, row) for number, row in rows if isinstance(row, dict))


def _parsed(text: str) -> Any:
    try:
        return json.loads(text, parse_int=float)
    except (ValueError, RecursionError):
        return None
