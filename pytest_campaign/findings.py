"""What a check says: rules, findings and the outcome that follows from them."""

from __future__ import annotations

import dataclasses
import enum
import inspect
from collections.abc import Iterable
from typing import Any


class Level(enum.StrEnum):
    """How grave a finding is. Only an error rejects."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Outcome(enum.StrEnum):
    """How one check of one subject ended."""

    PASSED = "passed"
    FAILED = "failed"
    UNVERIFIED = "unverified"  # the question could not be answered here
    SKIPPED = "skipped"  # the question makes no sense for this subject


@dataclasses.dataclass(frozen=True)
class Rule:
    """One stable code, ``<check>.<slug>``.

    ``text`` is the rule's documentation: the first line says what is wrong, the rest why it matters,
    the usual causes and the fix. ``unanswered`` marks a cause in the checking machine rather than in
    the files: such a finding leaves the check unverified instead of rejecting the deliverable. ``at_source``
    marks a fault that can only be repaired where the file was made, so before a rented machine is given back.
    """

    code: str
    level: Level
    text: str
    unanswered: bool = False
    at_source: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", inspect.cleandoc(self.text))
        check, _, slug = self.code.partition(".")
        if not (check and slug):
            raise ValueError(f"{self.code!r}: a rule code has the form <check>.<slug>")
        if self.unanswered and self.level is Level.ERROR:
            raise ValueError(f"{self.code}: what the checking machine could not do never rejects")

    @property
    def check(self) -> str:
        return self.code.partition(".")[0]

    @property
    def title(self) -> str:
        """The first line of the documentation."""
        return self.text.partition("\n")[0]

    def finding(self, message: str, *, remedy: str, level: Level | None = None, **where: Any) -> Finding:
        """One violation of this rule; ``where`` are the other fields of `Finding`."""
        return Finding(rule=self.code, level=level or self.level, message=message, remedy=remedy,
                       unanswered=self.unanswered, **where)


@dataclasses.dataclass(frozen=True)
class Finding:
    """One violation of one rule.

    ``path`` is relative to the campaign directory ("" is the directory itself); ``line`` and ``column``
    count from 1; ``pointer`` is a JSON pointer (RFC 6901) or, inside a container, the tensor or member.
    ``deliverable`` is set by a campaign check that speaks of one deliverable.
    """

    rule: str
    level: Level
    message: str
    remedy: str
    path: str | None = None
    line: int | None = None
    column: int | None = None
    pointer: str | None = None
    observed: str | None = None
    expected: str | None = None
    deliverable: str | None = None
    unanswered: bool = False
    waived: str | None = None

    @property
    def place(self) -> str:
        """``file:line:column`` or ``file#pointer``, as far as known."""
        place = "." if self.path == "" else self.path or ""
        if self.line is not None:
            place += f":{self.line}" + (f":{self.column}" if self.column is not None else "")
        elif self.pointer:
            place += f"#{self.pointer}"
        return place


def outcome(findings: Iterable[Finding]) -> Outcome:
    """The outcome that a check's findings amount to: an error outweighs a question left open."""
    result = Outcome.PASSED
    for finding in findings:
        if finding.waived is not None:
            continue
        if finding.level is Level.ERROR:
            return Outcome.FAILED
        if finding.unanswered:
            result = Outcome.UNVERIFIED
    return result
