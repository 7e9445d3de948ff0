"""The schedule of the plan, what was measured, and what was decided at the decision point."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from ... import schedule as clock
from ...campaign import Campaign, Manifest, Plan
from ...findings import Finding, Level
from ...schedule import Comparison, Schedule, Slot
from ...snapshot import MANIFEST
from ...text import listed, number, shown
from . import rules

_GRACE = Fraction(1, 3600)  # a second: times are often recorded without fractions
_ACTUAL = "/actuals/steps"


def planned(plan: Plan) -> Iterator[Finding]:
    """Findings about the schedule itself: steps on one resource that overlap, and steps that end after the window."""
    if plan.schedule is None:
        return
    slots = clock.planned(plan.schedule)
    index = {step.id: at for at, step in enumerate(plan.schedule.steps)}
    for before, slot, more in _first_overlaps(slots, Fraction(0)):
        yield rules.OVERLAP.finding(
            _overlap("planned", before, slot, more), path=plan.file, pointer=f"/schedule/steps/{index[slot.step]}",
            observed=f"{slot.step} begins {clock.text(before.end - slot.begin)} before {before.step} ends",
            expected=f"start_hour {_hour(before.end)} or later",
            remedy="plan one after the other, or give them different resources if they use different ones")
    window = plan.schedule.window
    for use in clock.uses(slots).values():
        if window is not None and clock.is_machine(use.resource) and use.left(window) < 0:
            last = max((slot for slot in slots if slot.resource == use.resource), key=lambda slot: slot.end)
            yield rules.WINDOW.finding(
                f"the steps on {shown(use.resource, 60)} need {clock.text(use.hours)} and end at hour {_hour(use.end)} "
                f"({last.step}); the window is {clock.text(window)}, which they exceed by {clock.text(-use.left(window))}",
                path=plan.file, pointer=f"/schedule/steps/{index[last.step]}", observed=clock.text(use.end),
                expected=f"at most {clock.text(window)}", remedy="plan fewer or shorter steps, or a longer window")


def _hour(hours: Fraction) -> str:
    return clock.text(hours).removesuffix(" h")


def _first_overlaps(slots: Sequence[Slot], grace: Fraction) -> Iterator[tuple[Slot, Slot, int]]:
    """The first overlap on each resource, and how many more there are."""
    found: dict[str, list[tuple[Slot, Slot]]] = {}
    for before, slot in clock.overlaps(slots, grace):
        found.setdefault(slot.resource, []).append((before, slot))
    for pairs in found.values():
        yield *pairs[0], len(pairs) - 1


def _overlap(what: str, before: Slot, slot: Slot, more: int) -> str:
    shared = clock.text(min(before.end, slot.end) - slot.begin)
    return (f"the {what} steps {before} and {slot} share {shared} of {shown(slot.resource, 60)}"
            + (f"; so do {number(more, 'more pair')}" if more else ""))


# ---- what is recorded ------------------------------------------------------------------------------------------------


def recorded(manifest: Manifest) -> Iterator[Finding]:
    """Findings about times of the manifest that cannot be."""
    raw = manifest.raw
    yield from _reversed("the campaign", "/provenance", raw.get("provenance", {}))
    for at, run in enumerate(raw["runs"]):
        yield from _reversed(f"run {run['id']}", f"/runs/{at}", run)
        stopped = {"started": run.get("started"), "finished": run.get("abort", {}).get("at")}
        yield from _reversed(f"run {run['id']}", f"/runs/{at}/abort", stopped, "at")
    for at, step in enumerate(raw.get("actuals", {}).get("steps", ())):
        yield from _reversed(f"step {step['id']}", f"{_ACTUAL}/{at}", step)


def _reversed(what: str, pointer: str, entry: Mapping[str, Any], field: str = "finished") -> Iterator[Finding]:
    begin, end = clock.moment(entry.get("started")), clock.moment(entry.get("finished"))
    if begin is not None and end is not None and end < begin:
        yield rules.TIMES.finding(
            f"{what} ends at {entry['finished']}, {clock.text(clock.hours_between(end, begin))} before it begins at "
            f"{entry['started']}", path=MANIFEST, pointer=f"{pointer}/{field}", observed=entry["finished"],
            expected=f"{entry['started']} or later", remedy="correct the times, from the logs")


# ---- plan and record -------------------------------------------------------------------------------------------------


def compared(campaign: Campaign, plan: Plan, manifest: Manifest) -> Iterator[Finding]:
    """Findings about what was measured against what was planned."""
    schedule, actual = plan.schedule or Schedule(), campaign.actuals.steps
    if schedule.steps and not actual:
        yield rules.NO_ACTUALS.finding(
            f"{number(len(schedule.steps), 'step is', 'steps are')} planned, and no step was measured", path=MANIFEST,
            pointer="/actuals" if manifest.actuals is not None else None, remedy="record actuals.steps while the campaign runs")
    elif plan.budget is not None and manifest.actuals is None:
        yield rules.NO_ACTUALS.finding("the plan has a budget, and no cost is recorded: planned ones stand for the real ones",
                                       path=MANIFEST, remedy="record actuals.costs")
    if not schedule.steps or not actual:
        return
    pointers = {step.id: f"{_ACTUAL}/{at}" for at, step in reversed([*enumerate(actual)])}
    comparisons = clock.compare(schedule, actual)
    for comparison in comparisons:
        yield from _step(campaign, schedule, comparison, pointers)
    explained = {comparison.id for comparison in comparisons if comparison.explanation}
    slots = clock.measured(schedule, actual)
    for before, slot, more in _first_overlaps(slots, _GRACE):
        yield rules.OVERLAP.finding(
            _overlap("recorded", before, slot, more), path=MANIFEST, pointer=pointers[slot.step],
            level=Level.WARNING if explained & {before.step, slot.step} else None,
            observed=f"{slot.step} begins {clock.text(before.end - slot.begin)} before {before.step} ends",
            expected="one step at a time", remedy="correct the times, from the logs")
    yield from _window(schedule, slots, pointers, explained)


def _step(campaign: Campaign, schedule: Schedule, comparison: Comparison, pointers: Mapping[str, str]) -> Iterator[Finding]:
    id, run = comparison.id, campaign.runs.get(comparison.id)
    unfinished = run is not None and run.status != "completed"
    why = comparison.explanation
    if comparison.step is None:
        replaces = run is not None and (run.supersedes or run.repeat_of)
        yield rules.UNPLANNED_STEP.finding(
            f"step {id} is recorded and not planned" + (f": {why}" if why else ""), path=MANIFEST, pointer=pointers[id],
            level=Level.NOTE if why or replaces else None, observed=id,
            expected=listed(step.id for step in schedule.steps),
            remedy="none" if why or replaces else "give it its planned id, or write its explanation")
    elif comparison.hours is None and not why and not unfinished and not (
            comparison.parts and all(part.finished for part in comparison.parts)):
        yield rules.STEP_MISSING.finding(
            f"nobody says how long step {id} took" + (f"; {clock.text(comparison.step.hours)} were planned"
                                                      if comparison.step.hours is not None else ""),
            path=MANIFEST, pointer=pointers.get(id, _ACTUAL), remedy="write its started and finished, or the explanation")
    elif comparison.exceeds(schedule.tolerance):
        assert comparison.hours is not None
        assert comparison.step.hours is not None
        assert comparison.percent is not None
        assert schedule.tolerance is not None
        aborted = campaign.aborted(id) and comparison.percent < 0
        reason = why or (f"the run was aborted ({run.abort_reason})" if aborted and run is not None else None)
        yield rules.DEVIATION.finding(
            f"step {id} took {clock.text(comparison.hours)} instead of {clock.text(comparison.step.hours)} "
            f"({float(comparison.percent):+.3g} %; {float(schedule.tolerance):g} % are tolerated)"
            + (f": {shown(reason, 300)}" if reason else ", and nobody says why"), path=MANIFEST, pointer=pointers[id],
            level=Level.NOTE if reason else None, observed=clock.text(comparison.hours),
            expected=f"{clock.text(comparison.step.hours)}, or an explanation",
            remedy="none" if reason else "write the explanation of the step; leave the plan as it is")


def _window(schedule: Schedule, slots: Sequence[Slot], pointers: Mapping[str, str], explained: set[str]) -> Iterator[Finding]:
    rented = [slot for slot in slots if clock.is_machine(slot.resource)]
    if schedule.window is None or not rented:
        return
    last = max(rented, key=lambda slot: slot.end)
    taken = last.end - min(slot.begin for slot in rented)
    if taken > schedule.window:
        late = not explained & {slot.step for slot in rented}
        yield rules.WINDOW.finding(
            f"the recorded steps took {clock.text(taken)} from the first to the last ({last.step}); the window is "
            f"{clock.text(schedule.window)}, which they exceed by {clock.text(taken - schedule.window)}", path=MANIFEST,
            pointer=pointers[last.step], level=Level.WARNING if late else Level.NOTE, observed=clock.text(taken),
            expected=f"at most {clock.text(schedule.window)}",
            remedy="write the explanation of the step that took longer" if late else "none")


# ---- decision point --------------------------------------------------------------------------------------------------


def decided(campaign: Campaign, plan: Plan, manifest: Manifest) -> Iterator[Finding]:
    """Findings about the decision at the decision point; none where the campaign never came there."""
    point = plan.decision_point
    if point is None or _never_reached(campaign, point.after):
        return
    decisions = campaign.actuals.decisions
    after = f" after {point.after}" if point.after else ""
    options = {_folded(option) for option in point.options}
    chosen = [decision for decision in decisions if not options or _folded(decision.choice) in options]
    between = listed((shown(option, 60) for option in point.options), 5)
    if not decisions:
        yield rules.DECISION_MISSING.finding(
            f"the plan has a decision point{after}" + (f" ({between})" if between else "") + ", and no decision is recorded",
            path=MANIFEST, pointer="/actuals" if manifest.actuals is not None else None, observed="no decision",
            expected=between or "a decision", remedy="record in actuals.decisions when it was decided, what, and why")
    elif not chosen:
        yield rules.OTHER_OPTION.finding(
            f"{shown(decisions[0].choice, 100)} was decided, and the options{after} were {between}", path=MANIFEST,
            pointer="/actuals/decisions/0/choice", observed=shown(decisions[0].choice, 100), expected=between,
            remedy="write the option of the plan as choice, and the rest as reason")
    else:
        end = _end(campaign, point.after)
        latest = max(chosen, key=lambda decision: decision.at)
        if end is not None and latest.at < end:
            yield rules.EARLY.finding(
                f"{shown(latest.choice, 100)} was decided {clock.text(clock.hours_between(latest.at, end))} before the end of "
                f"{point.after}", path=MANIFEST, pointer=f"/actuals/decisions/{decisions.index(latest)}/at",
                observed=latest.at.isoformat(), expected=f"{end.isoformat()} or later",
                remedy="correct the time, or say in the reason what it was based on")


def _never_reached(campaign: Campaign, after: str | None) -> bool:
    """Whether the run after which it is decided was dropped, or is not there; the latter is said elsewhere."""
    run = campaign.runs.get(after or "")
    return run.status == "not_run" if run is not None else after in campaign.planned_runs


def _folded(text: str) -> str:
    return " ".join(text.split()).casefold()


def _end(campaign: Campaign, after: str | None) -> datetime.datetime | None:
    """When the step or the run ended, as far as it is recorded."""
    ends = [step.finished for step in campaign.actuals.steps if step.id == after and step.finished is not None]
    run = campaign.runs.get(after or "")
    if ends or run is None:
        return max(ends, default=None)
    return run.finished or (run.abort.at if run.abort is not None else None)
