"""What a form of report is."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from ..record import Record


@dataclasses.dataclass(frozen=True)
class Report:
    """One form of report: the ``suffix`` of its files (".json") and the text that a record becomes."""

    suffix: str
    render: Callable[[Record], str]
