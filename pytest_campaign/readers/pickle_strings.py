"""The texts in a pickle, taken from its opcodes: nothing is imported, called or built.

A text that directly follows another one is taken for the value of that key: dictionaries and the state of objects are
written as key, value, key, value.
"""

from __future__ import annotations

import pickletools
import warnings
from collections.abc import Iterator

from .fields import Field

MOST_BYTES = 1 << 20
LONGEST = 4096  # characters of a text
_PUT = frozenset({"PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"})
_GET = frozenset({"GET", "BINGET", "LONG_BINGET"})
_NO_TEXT = frozenset({"GLOBAL", "INST", "PERSID"})  # their arguments stand for something else


def fields(data: bytes) -> Iterator[Field]:
    """The texts in the first `MOST_BYTES` of one or several pickles, up to where they end or make no sense."""
    data = data[:MOST_BYTES]
    end: int | None = 0
    while end is not None and data:
        found, end = _first(data)
        yield from found
        data = data[end:] if end is not None else b""


def _first(data: bytes) -> tuple[list[Field], int | None]:
    """The texts of the first pickle, and the offset behind it; None if it does not end."""
    found: list[Field] = []
    memo: dict[int, str | None] = {}
    before: str | None = None  # the text that was pushed last, when nothing was pushed since
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about escapes in strings that are only looked at
        try:
            for op, argument, position in pickletools.genops(data):
                if op.name == "STOP":
                    return found, (position or 0) + 1
                if op.name in _PUT:
                    memo[len(memo) if argument is None else argument] = before
                    continue
                text: object = memo.get(argument or 0) if op.name in _GET else argument
                if isinstance(text, str) and op.name not in _NO_TEXT and len(text) <= LONGEST:
                    found.append(Field((before,) if before is not None else (), text))
                    before = text
                else:
                    before = None
        except (ValueError, OverflowError, IndexError, KeyError):
            pass  # it ends in the middle, or is no pickle from here on
    return found, None
