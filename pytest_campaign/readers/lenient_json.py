"""The texts in a framework's own JSON files, which are read as Python reads them: NaN and equal keys do not matter."""

from __future__ import annotations

import json
from collections.abc import Iterator

from .fields import Field, Unreadable, leaves

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
    return (Field(keys, text) for keys, text in leaves(value) if isinstance(text, str))
