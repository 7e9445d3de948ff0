"""The one record of a session: verdicts and counts, from which every report and the exit status follow."""

from __future__ import annotations

import dataclasses
import enum
import json
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from . import checks, ledger, schedule
from .campaign import Campaign, Decided, DecisionPoint, Deliverable, Rehearsal, Run
from .checks import Pair
from .checks.fixity.since import verdict_changed
from .checks.manifest import ABSENT
from .findings import Finding, Level, Outcome, outcome
from .formats.base import Depth, FileFacts
from .ledger import Budget, Cost
from .reload.protocol import Isolation
from .schedule import Comparison, Schedule, Use

REPORT_VERSION = 1
NOT_RUN = "did not run"  # the reason of a check that was needed and was not selected, or came after the end


class Verdict(enum.StrEnum):
    """What becomes of a deliverable, worst first as reports show it."""

    MISSING = "missing"
    REJECTED = "rejected"
    UNVERIFIED = "unverified"
    ABORTED = "aborted"
    ACCEPTED = "accepted"


@dataclasses.dataclass(frozen=True)
class Result:
    """How one check of one subject ended.

    ``depth``, ``format``, ``bytes_read``, ``loader`` (the reviewer's own, if any) and ``files`` are what a reload learned,
    ``copies`` (the id of each deliverable that is one, with the id of the original) and ``parameters`` (by run, those in which
    the runs differ) what the checks of the identifiers and the plan learned; the other checks leave them empty. ``reason`` says
    why a check was skipped or did not end.
    """

    pair: Pair
    outcome: Outcome
    findings: Sequence[Finding] = ()
    seconds: float = 0.0
    reason: str | None = None
    depth: Depth | None = None
    format: str | None = None
    bytes_read: int = 0
    files: Sequence[FileFacts] = ()
    copies: Mapping[str, str] = dataclasses.field(default_factory=dict)
    parameters: Mapping[str, Mapping[str, str | None]] = dataclasses.field(default_factory=dict)
    loader: str | None = None

    def to_text(self) -> str:
        """One ASCII line of JSON, which a pytest report carries unharmed between processes."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_text(cls, text: str) -> Result:
        """The result that `to_text` wrote."""
        data = json.loads(text)
        data["pair"] = Pair(*data["pair"])
        data["outcome"] = Outcome(data["outcome"])
        data["findings"] = [Finding(**{**f, "level": Level(f["level"])}) for f in data["findings"]]
        data["depth"] = None if data["depth"] is None else Depth(data["depth"])
        data["files"] = [FileFacts(**file) for file in data["files"]]
        return cls(**data)


@dataclasses.dataclass(frozen=True)
class DeliverableRecord:
    """One deliverable with its verdict. ``path`` is None when it was only planned, or has none that can be followed.

    ``earlier`` is the verdict that it had in the baseline, ``loader`` the reviewer's own loader that read it.
    """

    id: str
    kind: str | None
    path: str | None
    format: str | None
    purpose: str | None
    priority: str
    run: str | None
    verdict: Verdict
    gated: bool
    depth: Depth | None
    bytes_read: int
    results: Sequence[Result]
    files: Sequence[FileFacts]
    findings: Sequence[Finding]
    earlier: str | None = None
    loader: str | None = None

    @property
    def only_at_source(self) -> bool:
        """Whether it can only be repaired where it was made, hence before a rented machine is given back."""
        rules = checks.all_rules()
        errors = [finding for finding in self.findings if finding.level is Level.ERROR]
        return self.verdict in (Verdict.MISSING, Verdict.REJECTED) and any(rules[error.rule].at_source for error in errors)


@dataclasses.dataclass(frozen=True)
class Times:
    """The schedule beside what was measured. ``planned`` and ``measured`` are the use of each resource."""

    schedule: Schedule
    steps: Sequence[Comparison]
    begins: Mapping[str, Fraction]
    planned: Mapping[str, Use]
    measured: Mapping[str, Use]


@dataclasses.dataclass(frozen=True)
class CampaignRecord:
    """One campaign with its verdict. ``ran`` of ``expected`` checks ended; ``partial`` when some were not selected.

    ``distinct`` is how many accepted deliverables there are when repeats and copies count once. ``decision`` is what the campaign
    answered to its question, ``decisions`` what was decided on the way; ``cost`` and ``times`` are None where nothing is said of
    them.
    """

    directory: str
    campaign: str
    described: bool
    verdict: Verdict
    partial: bool
    ran: int
    expected: int
    plan: tuple[str, str] | None
    inventory: tuple[int, int]
    results: Sequence[Result]
    findings: Sequence[Finding]
    runs: Sequence[Mapping[str, Any]]
    deliverables: Sequence[DeliverableRecord]
    distinct: int
    decision: Mapping[str, Any] | None
    decision_point: DecisionPoint | None
    decisions: Sequence[Decided]
    times: Times | None
    cost: Cost | None
    rehearsals: Sequence[Rehearsal]

    def count(self, verdict: Verdict) -> int:
        """How many deliverables have this verdict."""
        return sum(deliverable.verdict is verdict for deliverable in self.deliverables)

    @property
    def only_undescribed(self) -> bool:
        """Whether everything that was found reloads, and nothing but the manifest is absent."""
        errors = {finding.rule for finding in self.findings if finding.level is Level.ERROR}
        return errors == {ABSENT.code} and bool(self.deliverables) and self.count(Verdict.ACCEPTED) == len(self.deliverables)

    @property
    def depth(self) -> Depth | None:
        """The lowest depth that an accepted deliverable was reloaded to."""
        return min((d.depth for d in self.deliverables if d.verdict is Verdict.ACCEPTED and d.depth is not None), default=None)


@dataclasses.dataclass(frozen=True)
class Record:
    """Everything that a session found. ``complete`` is false until the session has ended in good order.

    ``isolation`` is that of the reloads, None where there was nothing to reload.
    """

    complete: bool
    tool: Mapping[str, Any]
    environment: Mapping[str, str]
    isolation: Isolation | None
    started: str
    seconds: float
    campaigns: Sequence[CampaignRecord]

    @property
    def accepted(self) -> bool:
        """Whether every campaign is accepted."""
        return bool(self.campaigns) and all(campaign.verdict is Verdict.ACCEPTED for campaign in self.campaigns)


def _verdict(campaign: Campaign, deliverable: Deliverable, needed: Sequence[str], results: Mapping[str, Result],
             findings: Sequence[Finding]) -> Verdict:
    if campaign.aborted(deliverable.run):
        return Verdict.ABORTED
    if campaign.absent(deliverable):
        return Verdict.MISSING
    if outcome(findings) is Outcome.FAILED:
        return Verdict.REJECTED
    if not campaign.ended(deliverable.run) or any(
            name not in results or results[name].outcome is not Outcome.PASSED for name in needed):
        return Verdict.UNVERIFIED
    return Verdict.ACCEPTED


def campaign_record(campaign: Campaign, results: Mapping[Pair, Result], *, partial: bool) -> CampaignRecord:
    """The record of one campaign from the results that arrived. Pure."""
    expected = checks.expected(campaign)
    own = [results[pair] for pair in expected if pair.deliverable is None and pair in results]
    said: dict[str | None, list[Finding]] = {}
    for finding in (finding for result in own for finding in result.findings):
        said.setdefault(finding.deliverable, []).append(finding)
    needed: dict[str | None, list[str]] = {}
    for pair in expected:
        needed.setdefault(pair.deliverable, []).append(pair.check)
    deliverables = [_deliverable(campaign, d, needed.get(d.id, ()), results, said.get(d.id, ())) for d in campaign.deliverables]
    deliverables += _only_planned(campaign, said)
    ran = sum(pair in results for pair in expected)
    verdict = _campaign_verdict(expected, results, deliverables)
    before = campaign.earlier.verdict if campaign.earlier is not None else None
    if before not in (None, verdict.value) and ran == len(expected):
        said.setdefault(None, []).append(verdict_changed(str(before), verdict.value, ""))
    files = [entry for entry in campaign.inventory.entries if entry.kind == "file"]
    same = ledger.same((d.id for d in deliverables), (pair for result in own for pair in result.copies.items()), campaign.root_of)
    return CampaignRecord(
        directory=campaign.inventory.root,
        campaign=campaign.name,
        described=campaign.manifest is not None,
        verdict=verdict,
        partial=partial,
        ran=ran,
        expected=len(expected),
        plan=(campaign.plan.source, campaign.plan.sha256) if campaign.plan else None,
        inventory=(len(files), sum({(e.device, e.inode): e.size for e in files}.values())),
        results=own,
        findings=said.get(None, ()),
        runs=_runs(campaign, deliverables, own),
        deliverables=deliverables,
        distinct=distinct(deliverables, same),
        decision=campaign.manifest.decision if campaign.manifest else None,
        decision_point=campaign.plan.decision_point if campaign.plan else None,
        decisions=campaign.actuals.decisions,
        times=_times(campaign),
        cost=_cost(campaign, deliverables, same, None if ran == len(expected) else f"{ran} of {len(expected)} checks ran"),
        rehearsals=campaign.actuals.rehearsals,
    )


def _deliverable(campaign: Campaign, deliverable: Deliverable, needed: Sequence[str], results: Mapping[Pair, Result],
                 said: Sequence[Finding]) -> DeliverableRecord:
    # Of two deliverables with one id only one can have been checked.
    known = results if campaign.by_id[deliverable.id] is deliverable else {}
    own = {name: known[pair] for name in needed if (pair := Pair(deliverable.id, name)) in known}
    left = [Result(Pair(deliverable.id, name), Outcome.UNVERIFIED, reason=NOT_RUN) for name in needed if name not in own]
    findings = [f for result in own.values() for f in result.findings]
    findings += said
    verdict = _verdict(campaign, deliverable, needed, own, findings)
    earlier = campaign.earlier.by_id.get(deliverable.id) if campaign.earlier is not None else None
    if earlier is not None and earlier.verdict not in (None, verdict.value) and not left:
        findings.append(verdict_changed(str(earlier.verdict), verdict.value, deliverable.path if deliverable.usable else None))
    priority = campaign.priority(deliverable)
    learned = next((result for result in own.values() if result.format is not None), None)
    digests = {file.path: file for result in own.values() for file in result.files}
    return DeliverableRecord(
        id=deliverable.id, kind=deliverable.kind, path=deliverable.path if deliverable.usable else None,
        format=learned.format if learned else deliverable.format,
        purpose=deliverable.purpose, priority=priority, run=deliverable.run, verdict=verdict,
        gated=campaign.gates(priority, missing=verdict is Verdict.MISSING),
        depth=learned.depth if learned else None, bytes_read=sum(result.bytes_read for result in own.values()),
        results=[*own.values(), *left],
        files=[digests.get(path, FileFacts(path, entry.size)) for path, entry in campaign.files_of(deliverable).items()],
        findings=findings, earlier=earlier.verdict if earlier is not None else None, loader=learned.loader if learned else None,
    )


def _only_planned(campaign: Campaign, said: Mapping[str | None, Sequence[Finding]]) -> Sequence[DeliverableRecord]:
    """Deliverables that only the plan knows; with an unusable manifest nobody can say what became of them."""
    if campaign.plan is None:
        return []
    if campaign.manifest is None:
        planned, verdict = list(campaign.plan.deliverables), Verdict.UNVERIFIED
    else:
        planned, verdict = list(campaign.not_listed), Verdict.MISSING
    return [DeliverableRecord(
        id=p.id, kind=p.kind, path=None, format=None, purpose=None, priority=p.priority, run=p.run,
        verdict=Verdict.ABORTED if campaign.aborted(p.run) else verdict, gated=campaign.gates(p.priority, missing=True),
        depth=None, bytes_read=0, results=[], files=[], findings=said.get(p.id, ()))
        for p in planned]


def _campaign_verdict(expected: Sequence[Pair], results: Mapping[Pair, Result],
                      deliverables: Sequence[DeliverableRecord]) -> Verdict:
    outcomes = [results[pair].outcome if pair in results else Outcome.UNVERIFIED for pair in expected if pair.deliverable is None]
    verdicts = {deliverable.verdict for deliverable in deliverables if deliverable.gated}
    if Outcome.FAILED in outcomes or not verdicts.isdisjoint((Verdict.MISSING, Verdict.REJECTED)):
        return Verdict.REJECTED
    if any(outcome is not Outcome.PASSED for outcome in outcomes) or Verdict.UNVERIFIED in verdicts:
        return Verdict.UNVERIFIED
    return Verdict.ACCEPTED


def distinct(deliverables: Sequence[DeliverableRecord], same: Mapping[str, str], kind: str | None = None) -> int:
    """How many accepted deliverables there are, of one kind or of all, when those that are the ``same`` count once."""
    return len({same[deliverable.id] for deliverable in deliverables
                if deliverable.verdict is Verdict.ACCEPTED and kind in (None, deliverable.kind)})


def _cost(campaign: Campaign, deliverables: Sequence[DeliverableRecord], same: Mapping[str, str],
          unchecked: str | None) -> Cost | None:
    """What the campaign cost; None where no document names a cost."""
    budget = campaign.plan.budget if campaign.plan is not None else None
    account = ledger.account(budget or Budget(), campaign.actuals.costs)
    if not account.lines:
        return None
    verdicts = [d.verdict for d in deliverables if d.kind == campaign.unit and d.verdict is not Verdict.ACCEPTED]
    others = ", ".join(f"{verdicts.count(verdict)} {verdict.value}" for verdict in Verdict if verdict in verdicts)
    return ledger.cost(account, campaign.unit, distinct(deliverables, same, campaign.unit), others or "none was delivered",
                       unchecked)


def _times(campaign: Campaign) -> Times | None:
    """Schedule and measured times; None where there are neither."""
    planned = (campaign.plan.schedule if campaign.plan is not None else None) or Schedule()
    actual = campaign.actuals.steps
    if not planned.steps and not actual:
        return None
    slots = schedule.planned(planned)
    return Times(planned, schedule.compare(planned, actual), {slot.step: slot.begin for slot in slots}, schedule.uses(slots),
                 schedule.uses(schedule.measured(planned, actual)))


def _runs(campaign: Campaign, deliverables: Sequence[DeliverableRecord],
          results: Sequence[Result]) -> Sequence[Mapping[str, Any]]:
    parameters = {run: values for result in results for run, values in result.parameters.items()}
    verdicts: dict[str | None, list[Verdict]] = {}
    for deliverable in deliverables:
        verdicts.setdefault(deliverable.run, []).append(deliverable.verdict)
    found = []
    for run in campaign.manifest.runs if campaign.manifest else ():
        own = verdicts.get(run.id, [])
        counts = {verdict.value: own.count(verdict) for verdict in Verdict if verdict in own}
        found.append({
            "id": run.id, "status": run.status, "counts": counts,
            "parameters": parameters.get(run.id), "abort": _abort(run)})
    return found


def _abort(run: Run) -> Mapping[str, Any] | None:
    if run.abort is None:
        return None
    at = run.abort.at.isoformat().replace("+00:00", "Z") if run.abort.at is not None else None
    return {"rule": run.abort.rule, "reason": run.abort.reason, "step": run.abort.step, "at": at}
