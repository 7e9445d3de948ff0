"""Abort rules that can be evaluated, and runs in which nothing has their metric."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...campaign import AbortRule, Campaign, Deliverable, Manifest
from ...findings import Finding, Level
from ...metric_facts import Wanted
from ...text import listed, shown
from ..base import Evidence
from ..data import metrics
from . import rules
from .runs import by_run, states_of

_SHOWN = 3


def not_applied(campaign: Campaign, manifest: Manifest, evidence: Evidence) -> Iterator[Finding]:
    """One finding for each rule whose metric is not in the files of some completed run."""
    delivered = by_run(campaign)
    lacking: dict[AbortRule, dict[str, Sequence[str]]] = {}
    for run in manifest.runs:
        wanted = metrics.applicable(campaign, run)
        looked_at = _looked_at(campaign, wanted, delivered.get(run.id, ()), evidence) if wanted else None
        if looked_at is not None:
            applied, files = looked_at
            for rule in wanted:
                if rule.id not in applied:
                    lacking.setdefault(rule, {})[run.id] = files
    if lacking:
        together = metrics.delivered(campaign, delivered.get(None, ()), evidence, tuple(lacking))
        elsewhere = {id for _, facts in together if facts is not None for id in facts.applied}
        yield from (_finding(rule, runs) for rule, runs in lacking.items() if rule.id not in elsewhere)


def _looked_at(campaign: Campaign, wanted: tuple[AbortRule, ...], delivered: Sequence[Deliverable],
               evidence: Evidence) -> tuple[set[str], Sequence[str]] | None:
    """The rules whose metric a run has, and its files with numbers; None when one of them could not be read."""
    applied: set[str] = set()
    files: list[str] = []
    for entry, facts in metrics.delivered(campaign, delivered, evidence):
        if facts is None or facts.faults:
            return None  # other checks speak of it
        applied |= facts.applied
        files += [entry.path] * bool(facts.numbers)
    if len(applied) < len(wanted):
        for state in states_of(campaign, delivered, evidence):
            try:
                facts = evidence.record_files.metrics(state.entry, Wanted(rules=wanted, alone=False))
            except OSError:
                return None
            applied |= facts.applied
            files.append(state.entry.path)
    return applied, files


def _finding(rule: AbortRule, runs: dict[str, Sequence[str]]) -> Finding:
    files = [file for own in runs.values() for file in own]
    name = shown(rule.metric or "", 60)
    seen = f"looked at {shown(', '.join(files[:_SHOWN]), 200)}" if files else "neither metrics nor a history is delivered"
    more = f" and {len(files) - _SHOWN:,} more" if len(files) > _SHOWN else ""
    return rules.NOT_APPLIED.finding(
        f"rule {rule.id} was not applied to {listed(list(runs))}: nothing there has a number for {name} ({seen}{more})",
        path=rule.place.file, pointer=f"{rule.place.pointer}/metric", level=None if files else Level.NOTE, observed="no number",
        expected=name, remedy=f"deliver the history with {name}, or say in the decision what was watched instead")
