"""What the Trainer of transformers says of a training in ``trainer_state.json``, as several checks read it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from typing import Any

from ..inventory import Entry
from .base import Evidence

_MOST_BYTES = 16 << 20


def read_object(evidence: Evidence, entry: Entry) -> Mapping[str, Any] | None:
    """The object in a framework's own JSON file, read as Python reads it; None when it is no such file."""
    if entry.size > _MOST_BYTES:
        return None
    try:
        value = json.loads(evidence.content(entry, _MOST_BYTES))
    except (OSError, ValueError, RecursionError):
        return None  # other checks say what is wrong with it
    return value if isinstance(value, dict) else None


@dataclasses.dataclass(frozen=True)
class TrainingLog:
    """The object in the file: how far the training was, and the values that it logged."""

    content: Mapping[str, Any]

    @property
    def step(self) -> int | None:
        step = self.content.get("global_step")
        return step if type(step) is int else None

    def values(self) -> Iterator[tuple[int, Any, str, float]]:
        """(number of the entry, its step, name, value) of everything in the log that is no whole number."""
        log = self.content.get("log_history")
        for number, entry in enumerate(log if isinstance(log, list) else ()):
            for name, value in entry.items() if isinstance(entry, dict) else ():
                if isinstance(value, float):
                    yield number, entry.get("step"), name, value
