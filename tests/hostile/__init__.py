"""Hostile and malformed files, made by hand, each beside what is sound of its kind.

Every generator takes the path of a canary, which any code that runs would create, and yields cases.
"""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Case:
    """One file. ``name`` is its name in a campaign; ``refused``: it must not be accepted as a checkpoint."""

    name: str
    data: bytes
    why: str
    refused: bool = True
