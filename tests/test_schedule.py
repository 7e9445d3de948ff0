"""Planned and measured times: exact hours, one step at a time on a resource, and what is left of the window."""

from __future__ import annotations

import datetime
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_campaign import schedule
from pytest_campaign.schedule import Measured, Schedule, Slot, Step

BEGIN = datetime.datetime(2026, 3, 2, 8, tzinfo=datetime.UTC)


def steps(*hours: float, **more: object) -> list[Step]:
    return [Step(f"s{at}", schedule.exact(value), **more) for at, value in enumerate(hours)]


def use(*planned: Step) -> schedule.Use:
    (found,) = schedule.uses(schedule.planned(Schedule(planned))).values()
    return found


def test_forty_eight_hours_leave_a_day_of_three() -> None:
    assert use(*steps(24, 20, 4)).left(Fraction(72)) == 24


def test_thirty_more_exceed_it_by_six() -> None:
    assert use(*steps(24, 20, 4, 30)).left(Fraction(72)) == -6


def test_ten_tenths_are_one() -> None:
    assert use(*steps(*[0.1] * 10)).left(Fraction(1)) == 0


def test_people_and_machines_have_time_of_their_own() -> None:
    found = schedule.uses(schedule.planned(Schedule([*steps(48), Step("reading", Fraction(30), resource="human")])))
    assert {name: (u.hours, u.end) for name, u in found.items()} == {"machine": (48, 48), "human": (30, 30)}


@pytest.mark.parametrize(("name", "machine"), [
    ("machine", True), ("gpu", True), ("node-07", True), ("human-eval-gpu", True), ("human", False), ("Human annotators", False),
    ("review_staff", False), ("steam-engine", True), ("reviewers", False), ("manually", True), ("gpu0", True)])
def test_who_is_a_machine(name: str, machine: bool) -> None:
    assert schedule.is_machine(name) is machine


def test_steps_without_a_start_go_where_they_fit() -> None:
    planned = [Step("late", Fraction(2), Fraction(4)), *steps(3, 2, 1), Step("mark", Fraction(0), Fraction(1))]
    begins = {slot.step: slot.begin for slot in schedule.planned(Schedule(planned))}
    assert begins == {"late": 4, "s0": 0, "s1": 6, "s2": 8, "mark": 1}


HOURS = st.integers(0, 40).map(lambda tenths: Fraction(tenths, 10))
FREE = st.lists(st.builds(Step, st.just(""), HOURS, st.none(), st.sampled_from(["gpu", "human"])), max_size=6)
FIXED = st.lists(st.builds(Step, st.just(""), HOURS, HOURS, st.sampled_from(["gpu", "human"])), max_size=6)


def named(found: list[Step]) -> list[Step]:
    return [Step(str(at), step.hours, step.start, step.resource) for at, step in enumerate(found)]


@given(st.data(), FREE, FIXED)
def test_a_step_without_a_start_never_overlaps(data: st.DataObject, free: list[Step], fixed: list[Step]) -> None:
    all_steps = data.draw(st.permutations(named(free + fixed)))
    slots = schedule.planned(Schedule(all_steps))
    assert [slot.step for slot in slots] == [step.id for step in all_steps]
    own = {step.id for step in all_steps if step.start is None}
    for before, slot in schedule.overlaps(slots):
        assert not own & {before.step, slot.step}
    assert sum(slot.end - slot.begin for slot in slots) == sum(step.hours or 0 for step in all_steps)
    assert all(slot.begin == step.start for slot, step in zip(slots, all_steps, strict=True) if step.start is not None)


@given(st.data(), FREE)
def test_the_order_of_steps_without_a_start_leaves_as_much(data: st.DataObject, free: list[Step]) -> None:
    all_steps = named(free)
    found = schedule.uses(schedule.planned(Schedule(all_steps)))
    assert schedule.uses(schedule.planned(Schedule(data.draw(st.permutations(all_steps))))) == found
    assert all(each.end == each.hours for each in found.values())


@given(st.data(), FIXED, st.sampled_from([Fraction(0), Fraction(1, 2)]))
def test_overlaps_are_found_in_any_order(data: st.DataObject, fixed: list[Step], grace: Fraction) -> None:
    slots = schedule.planned(Schedule(named(fixed)))

    def share(one: Slot, other: Slot) -> bool:
        lengths = (one.end - one.begin, other.end - other.begin)
        return one.resource == other.resource and min(lengths) > 0 \
            and min(one.end, other.end) - max(one.begin, other.begin) > grace

    found = list(schedule.overlaps(data.draw(st.permutations(slots)), grace))
    assert all(share(*pair) and pair[0].begin <= pair[1].begin for pair in found)
    in_order = sorted(slots, key=lambda slot: (slot.begin, slot.end))
    late = [later for at, later in enumerate(in_order) if any(share(earlier, later) for earlier in in_order[:at])]
    assert len(found) == len(late)


def test_a_second_is_no_overlap() -> None:
    slots = [Slot("a", "gpu", Fraction(0), Fraction(1)), Slot("b", "gpu", Fraction(3599, 3600), Fraction(2))]
    assert list(schedule.overlaps(slots))
    assert not list(schedule.overlaps(slots, Fraction(1, 3600)))


def measured(id: str, begin: float, end: float, explanation: str | None = None) -> Measured:
    hour = datetime.timedelta(hours=1)
    return Measured(id, BEGIN + begin * hour, BEGIN + end * hour, explanation)


def test_plan_and_record_stand_side_by_side() -> None:
    plan = Schedule(steps(2, 2, 4), tolerance=Fraction(20))
    found = schedule.compare(plan, [measured("s1", 3, 5.4), measured("extra", 6, 7, "why"), measured("s0", 0, 1),
                                    measured("s0", 2, 3.5, "a part had to be done again")])
    assert [(c.id, c.step is not None, c.hours, c.percent, c.exceeds(plan.tolerance), c.explanation) for c in found] == [
        ("s0", True, Fraction(5, 2), 25, True, "a part had to be done again"), ("s1", True, Fraction(12, 5), 20, False, None),
        ("s2", True, None, None, False, None), ("extra", False, 1, None, False, "why")]


def test_without_times_or_hours_there_is_nothing_to_compare() -> None:
    plan = Schedule([Step("a"), Step("b", Fraction(0)), Step("c", Fraction(1)), Step("d", Fraction(1))], tolerance=Fraction(0))
    record = [measured("a", 0, 1), measured("b", 1, 2), measured("c", 3, 2), Measured("d", BEGIN)]
    assert [comparison.percent for comparison in schedule.compare(plan, record)] == [None] * 4


def test_a_step_that_was_planned_with_next_to_no_time() -> None:
    (found,) = schedule.compare(Schedule([Step("a", schedule.exact(5e-324))]), [measured("a", 0, 1)])
    assert float(found.percent or 0) == 1e9


def test_the_clock_of_the_record_begins_with_its_first_step() -> None:
    plan = Schedule(steps(2, 2))
    slots = schedule.measured(plan, [measured("s1", 3, 5), measured("s0", 1, 3), measured("extra", -5, 0), measured("s0", 9, 8)])
    assert [(slot.step, slot.begin, slot.end) for slot in slots] == [("s1", 2, 4), ("s0", 0, 2)]


@given(st.datetimes(timezones=st.just(datetime.UTC)), st.datetimes(timezones=st.just(datetime.UTC)))
def test_hours_are_exact(one: datetime.datetime, other: datetime.datetime) -> None:
    hours = schedule.hours_between(one, other)
    assert hours == -schedule.hours_between(other, one)
    assert one + datetime.timedelta(microseconds=int(hours * 3_600_000_000)) == other


@pytest.mark.parametrize(("hours", "text"), [
    (Fraction(48), "48 h"), (Fraction(1, 3), "0.33 h"), (Fraction(9, 4), "2.25 h"), (Fraction(10**9), "1,000,000,000 h")])
def test_hours_in_words(hours: Fraction, text: str) -> None:
    assert schedule.text(hours) == text
