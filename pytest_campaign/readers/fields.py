"""What the readers of configuration files yield: every text in a file with the keys that lead to it, and values of a document."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple


class Unreadable(ValueError):
    """A file is not what the reader reads, or larger or deeper than it goes."""


class Field(NamedTuple):
    """One text in a file. ``keys`` lead to it, indices as text; ``line`` counts from 1 where the reader knows it.

    ``quoted``: it stands in quotes, or in a block, so that it is a text whatever it says.
    """

    keys: tuple[str, ...]
    value: str
    line: int | None = None
    quoted: bool = False

    @property
    def name(self) -> str:
        """The innermost key that is no index, "" when there is none."""
        return next((key for key in reversed(self.keys) if not key.isdigit()), "")


def leaves(value: Any, above: tuple[str, ...] = (), deepest: int | None = None) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every value in a document that is no object and no list, in their order, with the keys that lead to it behind ``above``.

    With ``deepest`` an object or a list below so many keys is a value itself.
    """
    waiting: list[tuple[tuple[str, ...], Any]] = [(above, value)]
    while waiting:
        keys, value = waiting.pop()
        further = deepest is None or len(keys) < deepest
        if isinstance(value, dict) and further:
            waiting += [((*keys, str(key)), item) for key, item in reversed(value.items())]
        elif isinstance(value, list) and further:
            waiting += [((*keys, str(at)), value[at]) for at in range(len(value) - 1, -1, -1)]
        else:
            yield keys, value
