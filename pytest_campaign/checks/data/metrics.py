"""Metrics: strict files, finite numbers, histories that are whole, and runs that no abort rule forbids."""

from __future__ import annotations

import dataclasses
import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence

from ... import metric_facts
from ...campaign import AbortRule, Campaign, Deliverable, Run
from ...findings import Finding, Level
from ...inventory import Entry
from ...metric_facts import MetricFacts, Wanted
from ...readers import event_files
from ...record_facts import PARQUET, Places, suffix
from ...text import number, shown
from ..base import Evidence
from . import parameters, rules
from .faults import at, breaks, found, others
from .records import FOREIGN, no_rows, not_opened
from .sources import is_one_file

# Files of a folder that hold metrics by their names; the others (settings, samples, plots) are left alone.
_METRICS = re.compile(
    r"[^/]*(?:metric|result|score|eval|summary|history|loss|accuracy|trainer_state|progress|monitor|log)[^/]*", re.I)
_SHARE = 0.3  # of the steps that a history must reach before it counts as one in these steps


def check(campaign: Campaign, deliverable: Deliverable, evidence: Evidence) -> Iterator[Finding]:
    """Findings about metrics."""
    alone = is_one_file(campaign, deliverable)
    run = campaign.runs.get(deliverable.run or "")
    wanted = _wanted(campaign, deliverable, alone)
    entries = _entries(campaign, deliverable, alone)
    numbers = 0
    histories: dict[str, list[tuple[str, MetricFacts]]] = {}
    for entry in entries:
        if suffix(entry.path) in metric_facts.SETTINGS:
            faults = list(parameters.settings(entry, evidence, numbers=False))
            if faults:
                yield from faults
                numbers += 1
                continue
        try:
            facts = evidence.record_files.metrics(entry, wanted)
        except OSError:
            yield not_opened(entry.path)
            numbers += 1
            continue
        numbers += facts.numbers + bool(facts.faults)
        yield from found(entry.path, facts.faults, facts.counts)
        if not facts.rows and not facts.faults:
            numbers += 1
            yield from no_rows(campaign, deliverable, entry, facts.names or (), evidence)
        yield from _values(entry.path, facts)
        yield from _history(entry.path, facts, run)
        # A run that is resumed begins another event file in the same folder.
        whole = posixpath.dirname(entry.path) if event_files.NAME.search(entry.path) else entry.path
        histories.setdefault(whole, []).append((entry.path, facts))
    for parts in histories.values():
        yield from _extent(parts, run)
    if entries and not numbers:
        yield rules.ALL_EMPTY.finding("there is no number in it", path=entries[0].path, observed="0 numbers",
                                      expected="at least one number", remedy="run the evaluation again and look at its output")
    if not entries:
        yield from _not_read(campaign, deliverable)


def applicable(campaign: Campaign, run: Run | None) -> tuple[AbortRule, ...]:
    """The abort rules of the plan that can be applied to numbers of a run: it claims that none of them held."""
    if campaign.plan is None or run is None or run.status != "completed":
        return ()
    return tuple(rule for rule in campaign.plan.abort_rules if rule.metric is not None)


def broken(campaign: Campaign, deliverables: Iterable[Deliverable], evidence: Evidence) -> set[str]:
    """The ids of the abort rules that hold in the metrics among the deliverables of a run: of those this check speaks."""
    known = [facts for _, facts in delivered(campaign, deliverables, evidence) if facts is not None]
    return {rule.id for facts in known for rule, *_ in facts.forbidden}


def delivered(campaign: Campaign, deliverables: Iterable[Deliverable], evidence: Evidence,
              abort_rules: tuple[AbortRule, ...] | None = None) -> Iterator[tuple[Entry, MetricFacts | None]]:
    """The files of metrics among some deliverables with their facts, None of what cannot be read.

    The ``abort_rules`` are those that are `applicable` to the run of each, unless others are given.
    """
    for deliverable in deliverables:
        if deliverable.kind == "metrics":
            alone = is_one_file(campaign, deliverable)
            wanted = _wanted(campaign, deliverable, alone)
            if abort_rules is not None:
                wanted = dataclasses.replace(wanted, rules=abort_rules)
            for entry in _entries(campaign, deliverable, alone):
                try:
                    yield entry, evidence.record_files.metrics(entry, wanted)
                except OSError:
                    yield entry, None


def _wanted(campaign: Campaign, deliverable: Deliverable, alone: bool) -> Wanted:
    run = campaign.runs.get(deliverable.run or "")
    return Wanted(frozenset(deliverable.nullable), applicable(campaign, run), alone)


def _entries(campaign: Campaign, deliverable: Deliverable, alone: bool) -> Sequence[Entry]:
    return [entry for path, entry in campaign.files_of(deliverable).items() if entry.size
            and (metric_facts.readable(path) or (alone and suffix(path) in metric_facts.SETTINGS))
            and (alone or _METRICS.fullmatch(path.rpartition("/")[2]) or event_files.NAME.search(path))]


def _not_read(campaign: Campaign, deliverable: Deliverable) -> Iterator[Finding]:
    names = [path for path, entry in campaign.files_of(deliverable).items() if entry.size]
    if not names:
        return
    kind = suffix(names[0])
    if all(suffix(name) in FOREIGN for name in names):
        yield rules.NOT_READ.finding(f"a file of the sort .{kind} is not read here", path=names[0],
                                     remedy="deliver the metrics as JSON, JSON Lines or CSV as well")
    else:
        yield rules.OTHER_FORMAT.finding("no file of it is read here as metrics", path=names[0],
                                         remedy="none; metrics in JSON, JSON Lines or CSV prove more")


def _values(path: str, facts: MetricFacts) -> Iterator[Finding]:
    """Values that are no numbers, and settings by which they are those of a part."""
    if places := facts.null:
        names = _distinct(places)
        yield rules.NULL.finding(
            f"{names} {'is' if places.count == 1 else 'are'} null or empty{_next(places)}", **at(places.first[0][0], path),
            observed="no value", expected="a finite number", remedy=f"compute it, or list {names} in nullable")
    if places := facts.not_finite:
        text = shown(places.first[0][1], 100)
        yield rules.NON_FINITE.finding(
            f"{text}{_next(places)}", **at(places.first[0][0], path), observed=text, expected="a finite number",
            remedy="find out why; if it is undefined, write null and list the name in nullable")
    if facts.empty_columns and facts.numbers:
        listed = shown(", ".join(facts.empty_columns[:10]), 200)
        yield rules.EMPTY_COLUMN.finding(
            f"{number(len(facts.empty_columns), 'column')} without a value in {number(facts.rows, 'row')}: {listed}", path=path,
            line=None if suffix(path) == PARQUET else 1, observed="only empty cells", expected="numbers",
            remedy="leave it out, or list it in nullable")
    if places := facts.limited:
        text = shown("; ".join(text for _, text in places.first), 300)
        yield rules.LIMITED.finding(
            f"only a part was evaluated: {text}", **at(places.first[0][0], path), observed=text, expected="no limit",
            remedy="evaluate without the limit")


def _distinct(places: Places) -> str:
    return shown(", ".join(dict.fromkeys(text for _, text in places.first)), 200)


def _next(places: Places) -> str:
    return others(places.count, [str(where) for where, _ in places.first[1:]])


def _history(path: str, facts: MetricFacts, run: Run | None) -> Iterator[Finding]:
    """How the steps run, against each other and against what the manifest says of the run."""
    if places := facts.restarts:
        resumed = run is not None and bool(run.resumed_from or run.first_step)
        yield rules.RESTARTED.finding(
            f"the history goes back {shown(places.first[0][1], 100)}{_next(places)}", **at(places.first[0][0], path),
            observed=shown(places.first[0][1], 100), expected="steps that grow", level=Level.WARNING if resumed else None,
            remedy="deliver the history of the run that counts; say resumed_from where it was resumed")
    if places := facts.repeats:
        yield rules.REPEATED_STEPS.finding(
            f"several values at one step: {shown(places.first[0][1], 100)}{_next(places)}", **at(places.first[0][0], path),
            observed="several values", expected="one value", remedy="log from one process, or add a column that tells them apart")
    for rule, where, text in facts.forbidden:
        message, limit = in_words(rule, text)
        yield rules.FORBIDDEN.finding(message, **at(where, path), observed=text, expected=f"not {limit}",
                                      remedy=f"record the run as aborted by {rule.id}")


def in_words(rule: AbortRule, value: str) -> tuple[str, str]:
    """What it means that an abort rule holds for a run that claims to be completed, and the limit of the rule."""
    limit = "not finite" if rule.op == "not_finite" else f"{rule.op} {rule.value:g}"
    limit += f" in {rule.for_steps} records in a row" if rule.for_steps > 1 else ""
    return (f"{shown(rule.metric or '', 60)} is {value}: by rule {rule.id} of the plan a run is aborted when it is {limit}, and "
            "this one claims to be completed"), limit


def _extent(parts: Sequence[tuple[str, MetricFacts]], run: Run | None) -> Iterator[Finding]:
    """How much of its run a history covers, of one file or of several."""
    if any(facts.restarts or breaks(facts.counts) for _, facts in parts):
        return
    steps = metric_facts.joined([facts.steps for _, facts in parts if facts.steps is not None])
    path = parts[-1][0]
    if steps is None or run is None or not run.steps or len(steps.seen) < 3 or steps.within_epochs:
        return
    if run.status != "completed" or not _SHARE * run.steps <= steps.last <= run.steps + steps.stride + 1:
        return  # counted in other steps
    begin = run.first_step or 0
    name = shown(steps.name, 60)
    if steps.first > begin + 2 * steps.stride + 1:
        yield rules.LATE_START.finding(
            f"it begins at {name} {steps.first:,.10g}, then goes on by {steps.stride:,.10g}; the run began at {begin:,} and has "
            f"{run.steps:,} steps", **at(steps.first_at, path), observed=f"{name} {steps.first:,.10g}",
            expected=f"about {begin + steps.stride:,.10g}", remedy="deliver the first part as well, or say first_step of the run")
    if steps.last + 2 * steps.stride + 1 < run.steps:
        yield rules.EARLY_END.finding(
            f"it ends at {name} {steps.last:,.10g} of {run.steps:,}", path=path, observed=f"{steps.last:,.10g}",
            expected=f"about {run.steps:,}", remedy="copy it again, or correct steps of the run")
