"""What the readers find wrong with a file, as findings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...findings import Finding, Level, Rule
from ...readers.rows import Where
from ...readers.strict_json import Fault
from ...text import number, shown
from . import rules

_WRITE_AGAIN = "copy it again; if the original is like this too, write it again"
_RULES: Mapping[str, tuple[Rule, str]] = {
    "torn": (rules.TORN, _WRITE_AGAIN),
    "tail": (rules.TORN, "none, if the run was stopped there; else copy it again"),
    "joined": (rules.JOINED, "put each record on a line of its own"),
    "syntax": (rules.SYNTAX, "write it with a library"),
    "too-large": (rules.SYNTAX, "write it with less"),
    "nul": (rules.NUL, _WRITE_AGAIN),
    "encoding": (rules.ENCODING, 'write it with encoding="utf-8"'),
    "duplicate-key": (rules.DUPLICATE_KEY, "give the second one another name"),
    "columns": (rules.DUPLICATE_KEY, "give the second one another name"),
    "fields": (rules.FIELDS, "write the table with a library, which puts quotes where they are needed"),
    "header": (rules.HEADER_AGAIN, "keep one header; deliver the rows of two runs in two files"),
    "non-finite": (rules.NON_FINITE, "write null for what is undefined, and list the field in nullable"),
    "damaged": (rules.DAMAGED, _WRITE_AGAIN),
    "library": (rules.NOT_READ, 'pip install "pytest-campaign[parquet]"; or deliver it as JSON Lines or CSV as well'),
    "time": (rules.NOT_READ, "copy it to a local disk, or raise --campaign-timeout"),
    "memory": (rules.NOT_READ, "raise --campaign-memory; or deliver it as JSON Lines or CSV as well"),
    "process": (rules.NOT_READ, "mend what the message names and run the check again; or deliver it as JSON Lines or CSV too"),
    "feature": (rules.NOT_READ, "deliver it as JSON Lines or CSV as well"),
    "limit": (rules.NOT_READ, "deliver it as JSON Lines with shorter lines"),
}


def breaks(counts: Mapping[str, int]) -> bool:
    """Whether records of a file are lost because of its faults, so that comparing them would say the same once more."""
    return any(kind not in ("columns", "tail") for kind in counts)


def not_read(faults: Sequence[Fault]) -> tuple[Fault, str] | None:
    """Why a file was not read although nothing may be wrong with it, and what to do; None when it was read."""
    first = next((fault for fault in faults if _RULES[fault.kind][0] is rules.NOT_READ), None)
    return None if first is None else (first, _RULES[first.kind][1])


def found(path: str, faults: Sequence[Fault], counts: Mapping[str, int], *, level: Level | None = None) -> Iterator[Finding]:
    """One finding for each kind of fault, with the place of the first; ``level`` is that of a column name that occurs twice."""
    for kind, count in counts.items():
        of_kind = [fault for fault in faults if fault.kind == kind]
        first, (rule, remedy) = of_kind[0], _RULES[kind]
        next_ones = [f"line {fault.line:,}" for fault in of_kind[1:] if fault.line is not None]
        yield rule.finding(
            f"{first.message}{others(count, next_ones)}", path=path, line=first.line, column=first.column, pointer=first.pointer,
            observed=first.observed, expected=first.expected, remedy=remedy,
            level={"columns": level, "tail": Level.WARNING}.get(kind))


def others(count: int, places: Sequence[str]) -> str:
    """The rest of a message about ``count`` places, of which the first is told already: the next ones, and how many there are."""
    if count < 2:
        return ""
    listed = ", ".join(shown(place, 80) for place in places)
    return f"; {count:,} in all" + (f", the next: {listed}" if listed else "")


def at(where: Where | None, otherwise: str) -> dict[str, Any]:
    """The place of a finding; a path where there is none."""
    return {"path": where.path, "line": where.line, "pointer": where.pointer} if where is not None else {"path": otherwise}


def told(count: int, one: str, first: Sequence[tuple[str, Where | None]]) -> str:
    """``12 ids: t1 (line 4), t9 (line 7) and 10 more``."""
    listed = ", ".join(shown(what, 60) + (f" ({where})" if where is not None and str(where) else "") for what, where in first)
    more = f" and {count - len(first):,} more" if count > len(first) else ""
    return f"{number(count, one)}: {listed}{more}"
