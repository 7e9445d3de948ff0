"""The texts in a framework's own JSON files, which are read as Python reads them: NaN and equal keys do not matter."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from .fields import Field, Unreadable

MOST_BYTES = 16 << 20


def fields(data: bytes) -> Iterator[Field]:
    """Every text in a JSON document, without its line. Raises `Unreadable`."""
    if len(data) > MOST_BYTES:
        raise Unreadable(f"it has more than {MOST_BYTES:,} bytes")
    try:
        # numbers do not matter here, and int() refuses long ones
        value = json.loads(data.decode("utf-8-sig"), parse_int=float)
    except RecursionError:
        raise Unreadable("it is nested too deeply") from None
    except ValueError as error:
        raise Unreadable(f"it is no JSON: {error}") from None
    return _texts(value)


def _texts(value: Any) -> Iterator[Field]:
    waiting: list[tuple[tuple[str, ...], Any]] = [((), value)]
    while waiting:
        keys, value = waiting.pop()
        if isinstance(value, str):
            yield Field(keys, value)
        elif isinstance(value, dict):
            waiting += [((*keys, key), item) for key, item in reversed(value.items()) if isinstance(item, (str, dict, list))]
        elif isinstance(value, list):
            waiting += [((*keys, str(at)), value[at]) for at in range(len(value) - 1, -1, -1)
                        if isinstance(value[at], (str, dict, list))]
