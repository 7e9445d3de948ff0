"""When the steps of a campaign shall run on what, and when they really ran. Hours are exact fractions.

Hour 0 of a plan is the beginning of its window. A resource does one step at a time; what people do is no time of a machine.
"""

from __future__ import annotations

import dataclasses
import datetime
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, Self

MACHINE = "machine"  # the resource of a step that names none
_PEOPLE = re.compile(
    r"(?<![a-z])(humans?|persons?|people|staff|team|operators?|engineers?|researchers?|reviewers?|annotators?|authors?|analysts?"
    r"|manual)(?![a-z])", re.I)
_RENTED = re.compile(r"(?<![a-z])(machine|gpu|cpu|tpu|npu|node|server|host|cluster|instance|vm)s?(?![a-z])", re.I)
_MICROSECONDS = 3_600_000_000  # in an hour
_MOST_PERCENT = Fraction(10**9)  # of a step that was planned with next to no time


def is_machine(resource: str) -> bool:
    """Whether a resource is one that is rented, and not the time of people, by its name."""
    return _PEOPLE.search(resource) is None or _RENTED.search(resource) is not None


def exact(number: float | None) -> Fraction | None:
    """The number as it was written: 0.1 is a tenth."""
    return None if number is None else Fraction(str(number))


def text(hours: Fraction) -> str:
    """``48 h``, ``2.25 h``."""
    return f"{float(round(hours, 2)):,.10g} h"


def moment(written: str | None) -> datetime.datetime | None:
    """The time that a document gives in ISO 8601."""
    return None if written is None else datetime.datetime.fromisoformat(written)


def hours_between(begin: datetime.datetime, end: datetime.datetime) -> Fraction:
    """How many hours lie between two times; negative when they are the other way round."""
    return Fraction((end - begin) // datetime.timedelta(microseconds=1), _MICROSECONDS)


@dataclasses.dataclass(frozen=True)
class Step:
    """A planned step: how many hours it takes, and how many after the beginning it starts; None where the plan does not say."""

    id: str
    hours: Fraction | None = None
    start: Fraction | None = None
    resource: str = MACHINE


@dataclasses.dataclass(frozen=True)
class Schedule:
    """The plan's schedule. ``window`` is how many hours the machine is there, ``tolerance`` a percentage."""

    steps: Sequence[Step] = ()
    window: Fraction | None = None
    tolerance: Fraction | None = None

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Self:
        """The schedule in a valid plan."""
        return cls([Step(step["id"], exact(step.get("hours")), exact(step.get("start_hour")), step.get("resource", MACHINE))
                    for step in raw.get("steps", ())], exact(raw.get("window_hours")), exact(raw.get("tolerance_percent")))


@dataclasses.dataclass(frozen=True)
class Measured:
    """When a step really ran, and why otherwise than planned. A step that was interrupted has several of them."""

    id: str
    started: datetime.datetime | None = None
    finished: datetime.datetime | None = None
    explanation: str | None = None

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Self:
        """One of the steps in a valid manifest; an explanation of blanks explains nothing."""
        return cls(raw["id"], moment(raw.get("started")), moment(raw.get("finished")),
                   raw.get("explanation", "").strip() or None)

    @property
    def hours(self) -> Fraction | None:
        """How long it took; None where that is not recorded, or it ends before it begins."""
        if self.started is None or self.finished is None or self.finished < self.started:
            return None
        return hours_between(self.started, self.finished)


@dataclasses.dataclass(frozen=True)
class Slot:
    """A time on a resource, in hours after the beginning."""

    step: str
    resource: str
    begin: Fraction
    end: Fraction

    def __str__(self) -> str:
        return f"{self.step} ({float(round(self.begin, 2)):,.10g} to {text(self.end)})"


def planned(schedule: Schedule) -> Sequence[Slot]:
    """When each planned step has its resource, in the order of the plan.

    Steps without a ``start`` follow each other in that order, each as soon as it fits whole between those that have one.
    """
    slots: dict[str, Slot] = {}
    for resource, steps in _by_resource(schedule.steps).items():
        fixed = [Slot(step.id, resource, step.start, step.start + (step.hours or 0)) for step in steps if step.start is not None]
        slots |= {slot.step: slot for slot in fixed}
        waiting = sorted((slot for slot in fixed if slot.end > slot.begin), key=lambda slot: slot.begin, reverse=True)
        free = Fraction(0)
        for step in steps:
            if step.start is None:
                length = step.hours or Fraction(0)
                while waiting and waiting[-1].begin < free + length:
                    free = max(free, waiting.pop().end)
                slots[step.id] = Slot(step.id, resource, free, free + length)
                free += length
    return [slots[step.id] for step in schedule.steps if step.id in slots]


def measured(schedule: Schedule, actual: Sequence[Measured]) -> Sequence[Slot]:
    """When each planned step really had its resource, in hours after the first of them began; unplanned steps have none."""
    resources = {step.id: step.resource for step in schedule.steps}
    known = [(step, step.started, step.hours) for step in actual if step.id in resources]
    begins = [started for _, started, hours in known if started is not None and hours is not None]
    slots = []
    for step, started, hours in known:
        if started is not None and hours is not None:
            begin = hours_between(min(begins), started)
            slots.append(Slot(step.id, resources[step.id], begin, begin + hours))
    return slots


def _by_resource(steps: Iterable[Step]) -> Mapping[str, list[Step]]:
    found: dict[str, list[Step]] = {}
    for step in steps:
        found.setdefault(step.resource, []).append(step)
    return found


def overlaps(slots: Iterable[Slot], grace: Fraction = Fraction(0)) -> Iterator[tuple[Slot, Slot]]:
    """Each slot that begins before an earlier one on its resource has ended, after that one; the order of the slots is free.

    A slot of no length overlaps nothing, and neither do two that share no more than the ``grace``.
    """
    last: dict[str, Slot] = {}
    for slot in sorted(slots, key=lambda slot: (slot.begin, slot.end)):
        if slot.end > slot.begin:
            before = last.get(slot.resource)
            if before is not None and min(before.end, slot.end) - slot.begin > grace:
                yield before, slot
            if before is None or slot.end > before.end:
                last[slot.resource] = slot


@dataclasses.dataclass(frozen=True)
class Use:
    """What the steps need of one resource: hours, and the hour at which the last of them ends."""

    resource: str
    hours: Fraction
    end: Fraction

    def left(self, window: Fraction) -> Fraction:
        """How many hours of the window are left after the last step; negative when it is exceeded."""
        return window - self.end


def uses(slots: Iterable[Slot]) -> Mapping[str, Use]:
    """The use of each resource, in the order in which they first occur."""
    found: dict[str, Use] = {}
    for slot in slots:
        before = found.get(slot.resource, Use(slot.resource, Fraction(0), Fraction(0)))
        found[slot.resource] = Use(slot.resource, before.hours + slot.end - slot.begin, max(before.end, slot.end))
    return found


@dataclasses.dataclass(frozen=True)
class Comparison:
    """One step of the plan or of the manifest. ``step`` is None when it is not planned, ``parts`` are what is recorded of it."""

    id: str
    step: Step | None
    parts: Sequence[Measured] = ()

    @property
    def hours(self) -> Fraction | None:
        """How long it really took, all parts together; None where a part has no times."""
        lengths = [part.hours for part in self.parts]
        known = [length for length in lengths if length is not None]
        return sum(known, Fraction(0)) if known and len(known) == len(lengths) else None

    @property
    def percent(self) -> Fraction | None:
        """By how many percent it was longer (shorter: negative) than planned; None where there is nothing to compare."""
        planned_hours = self.step.hours if self.step is not None else None
        if not planned_hours or self.hours is None:
            return None
        return min((self.hours - planned_hours) / planned_hours * 100, _MOST_PERCENT)

    @property
    def explanation(self) -> str | None:
        """Why it deviated."""
        return "; ".join(part.explanation for part in self.parts if part.explanation is not None) or None

    def exceeds(self, tolerance: Fraction | None) -> bool:
        """Whether it deviates by more than the tolerance."""
        return tolerance is not None and self.percent is not None and abs(self.percent) > tolerance


def compare(schedule: Schedule, actual: Sequence[Measured]) -> Sequence[Comparison]:
    """Plan and record side by side: the planned steps in their order, then those that are recorded only."""
    parts: dict[str, list[Measured]] = {}
    for part in actual:
        parts.setdefault(part.id, []).append(part)
    steps = [Comparison(step.id, step, parts.pop(step.id, ())) for step in schedule.steps]
    return [*steps, *(Comparison(id, None, own) for id, own in parts.items())]
