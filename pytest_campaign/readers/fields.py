"""What the readers of configuration files yield: every text in a file with the keys that lead to it."""

from __future__ import annotations

from typing import NamedTuple


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
