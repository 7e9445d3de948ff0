"""How the runs ended: aborts and what follows from them, what replaces what, and runs that were not completed as they claim."""

from __future__ import annotations

import dataclasses
import math
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...campaign import ESSENTIAL, Campaign, Deliverable, Manifest, Run
from ...file_names import in_tool_folder
from ...findings import Finding, Level
from ...formats.trainer_state import STATE
from ...inventory import FILE, Entry
from ...metric_facts import Wanted
from ...snapshot import MANIFEST
from ...text import listed
from ..base import Evidence
from ..data import metrics
from ..data.faults import at
from ..training_log import TrainingLog, read_object
from . import rules

_LOSS = re.compile(r"loss|eval_(.+_)?loss")


def check(campaign: Campaign, manifest: Manifest, evidence: Evidence) -> Iterator[Finding]:
    """Findings about the ends of the runs."""
    undecided = list(_undecided(campaign, manifest))
    yield from undecided
    if manifest.decision is None and not undecided:
        yield rules.NO_DECISION.finding("no decision is recorded", path=MANIFEST,
                                        remedy="write decision: its outcome, its summary and the runs that it is based_on")
    for run in manifest.runs:
        yield from _abort(campaign, run)
        yield from _supersedes(campaign, run)
    delivered = by_run(campaign)
    for run in manifest.runs:
        if run.status == "completed":
            yield from _completed(campaign, run, delivered.get(run.id, ()), evidence)


def by_run(campaign: Campaign) -> Mapping[str | None, Sequence[Deliverable]]:
    """The deliverables of each run by its id; those of the campaign as a whole under None."""
    found: dict[str | None, list[Deliverable]] = {}
    for deliverable in campaign.deliverables:
        found.setdefault(deliverable.run, []).append(deliverable)
    return found


def _undecided(campaign: Campaign, manifest: Manifest) -> Iterator[Finding]:
    decision = manifest.decision or {}
    words = (word.strip("._-") for word in re.findall(r"[A-Za-z0-9._-]+", decision.get("summary", "")))
    named = {*decision.get("based_on", ()), *words}
    for run in manifest.runs:
        planned = campaign.planned_runs.get(run.id)
        essential = (planned.priority if planned else run.priority) == ESSENTIAL
        if run.status != "completed" and essential and run.id not in named:
            what = f"aborted ({run.abort_reason})" if run.status == "aborted" else f"not executed ({run.reason})"
            yield rules.UNDECIDED.finding(
                f"the essential run {run.id} was {what} and no decision names it",
                path=run.place.file, pointer="/decision", remedy=f"name {run.id} in decision.based_on and say what follows")


def _abort(campaign: Campaign, run: Run) -> Iterator[Finding]:
    if run.abort is None:
        return
    file, pointer = run.place.file, f"{run.place.pointer}/abort"
    if run.status != "aborted":
        yield rules.ABORT_RECORD.finding(
            f"run {run.id} has the status {run.status} and the record of an abort ({run.abort.reason})", path=file,
            pointer=pointer, observed=run.status, expected="aborted", remedy="set its status to aborted, or remove the record")
        return
    announced = [rule.id for rule in campaign.plan.abort_rules] if campaign.plan is not None else []
    if campaign.plan is not None and run.abort.rule is not None and run.abort.rule not in announced:
        yield rules.UNKNOWN_RULE.finding(
            f"run {run.id} was aborted by rule {run.abort.rule}, and the plan announces {listed(announced) or 'no rule'}",
            path=file, pointer=f"{pointer}/rule", observed=run.abort.rule,
            expected=listed(announced) or None, remedy="cite the rule of the plan that applied, or leave rule out")
    elif announced and run.abort.rule is None:
        yield rules.NO_RULE.finding(
            f"run {run.id} was aborted ({run.abort.reason}) by none of the rules of the plan ({listed(announced)})", path=file,
            pointer=pointer, expected=listed(announced), remedy="cite the rule in abort.rule, if one of them applied")
    first, last, step = run.first_step or 0, run.steps, run.abort.step
    # The step after the last one is where a run is stopped that counts its steps from 0.
    if step is not None and (step + 1 < first or (last is not None and step > last + 1)):
        yield rules.ABORT_STEP.finding(
            f"run {run.id} was aborted at step {step:,}, and has the steps {first:,} to "
            + (f"{last:,}" if last is not None else "its end"),
            path=file, pointer=f"{pointer}/step", observed=f"{step:,}",
            expected=f"{first:,} to {last:,}" if last is not None else f"{first:,} or more",
            remedy="correct abort.step, or steps and first_step of the run")


def _supersedes(campaign: Campaign, run: Run) -> Iterator[Finding]:
    other = campaign.runs.get(run.supersedes or "")
    if other is not None and other is not run and other.status == "completed" \
            and not any((one.reason or "").strip() for one in (run, other)):
        yield rules.SUPERSEDES.finding(
            f"run {run.id} supersedes {other.id}, which was completed, and neither says why", path=run.place.file,
            pointer=f"{run.place.pointer}/supersedes", observed="a completed run", expected="an aborted run, or a reason",
            remedy=f"give the reason of run {run.id} or of run {other.id}, or say repeat_of")


# ---- runs that claim to be completed ---------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class State:
    """The state of the training that a deliverable holds."""

    deliverable: Deliverable
    entry: Entry
    log: TrainingLog

    @property
    def step(self) -> int:
        return self.log.step or 0

    def last_losses(self) -> Mapping[str, tuple[int, float, Any]]:
        """The last value of each loss by its name: the number of its entry in the log, the value and the step."""
        return {name: (number, value, step) for number, step, name, value in self.log.values() if _LOSS.fullmatch(name)}


def _completed(campaign: Campaign, run: Run, delivered: Sequence[Deliverable], evidence: Evidence) -> Iterator[Finding]:
    """What the state beside the last checkpoint of a run says against its claim."""
    states = list(states_of(campaign, delivered, evidence))
    if not states:
        return
    last = max(state.step for state in states)
    abort_rules = metrics.applicable(campaign, run)
    told = metrics.broken(campaign, delivered, evidence) if abort_rules else set()
    for state in states:
        if state.step == last:
            ignored = list(_ignored(run, state, Wanted(rules=abort_rules, alone=False), told, evidence))
            yield from (finding for _, finding in ignored)
            said = {rule.metric for rule in abort_rules if rule.id in told} | {metric for metric, _ in ignored}
            yield from _diverged(run, state, said)


def states_of(campaign: Campaign, delivered: Sequence[Deliverable], evidence: Evidence) -> Iterator[State]:
    """The states of the training that the Trainer of transformers left in some deliverables."""
    for deliverable in delivered:
        for path, entry in campaign.files_of(deliverable).items():
            if entry.kind == FILE and posixpath.basename(path) == STATE and not in_tool_folder(path):
                content = read_object(evidence, entry)
                if content is not None:
                    yield State(deliverable, entry, TrainingLog(content))


def _ignored(run: Run, state: State, wanted: Wanted, told: set[str],
             evidence: Evidence) -> Sequence[tuple[str | None, Finding]]:
    """The metrics for which an abort rule holds, with what is to be said of them."""
    if state.deliverable.kind == "metrics" or not wanted.rules:
        return ()
    try:
        facts = evidence.record_files.metrics(state.entry, wanted)
    except OSError:
        return ()  # other checks say that it cannot be read
    level = Level.WARNING if run.resumed_from or run.first_step else None
    found = []
    for rule, where, value in facts.forbidden:
        if rule.id not in told:
            message, limit = metrics.in_words(rule, value)
            found.append((rule.metric, rules.IGNORED.finding(
                f"run {run.id}: {message}", **at(where, state.entry.path), deliverable=state.deliverable.id, level=level,
                observed=value, expected=f"not {limit}", remedy=f"record the run as aborted by {rule.id}")))
    return found


def _diverged(run: Run, state: State, said: set[str | None]) -> Iterator[Finding]:
    for name, (number, value, step) in state.last_losses().items():
        if not math.isfinite(value) and name not in said:
            yield rules.DIVERGED.finding(
                f"run {run.id} claims to be completed, and its last {name} is {value}"
                + (f", at step {step:,}" if isinstance(step, int) else ""),
                path=state.entry.path, pointer=f"/log_history/{number}/{name}", deliverable=state.deliverable.id,
                level=None if name == "loss" else Level.WARNING, observed=f"{name} {value}", expected="a finite loss",
                remedy="record the run as aborted, with the reason" if name == "loss"
                else "look at what was evaluated; record the run as aborted if it diverged")
