"""For every rule a campaign that it must find fault with, and its nearest sound neighbour on which it must be silent.

One module for each check. An example is a function that spoils, or oddly but soundly changes, the campaign of
`campaigns.write`; the decorators `faulty` and `sound` say what has to be found in it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path

import campaigns
from campaigns import Written

from pytest_campaign import baseline, checks, snapshot
from pytest_campaign.campaign import Asked
from pytest_campaign.checks import Pair
from pytest_campaign.evidence import Files, Runner
from pytest_campaign.findings import Finding, Level, Outcome
from pytest_campaign.loaders import Loader
from pytest_campaign.record import CampaignRecord, Result, Verdict, campaign_record
from pytest_campaign.session import run_check


@dataclasses.dataclass(frozen=True)
class Example:
    """A campaign and what must be said of it.

    ``rule`` must be found (``faulty``) or must not be. ``subject`` is the deliverable with the ``verdict``. The finding
    must be of ``level`` and name ``path`` (any, if None). The last fields say under which circumstances it is checked:
    what is ``asked``, whether another copy of the plan or a baseline is given, what happens ``meanwhile`` (between the first
    look and the checks), which torch reads, which function of `LOADERS` is the reviewer's ``loader`` for the subject, and in
    which ``world`` (see `test_rules`).
    """

    rule: str
    write: Callable[[Written], None]
    faulty: bool
    subject: str | None
    verdict: Verdict
    campaign: Verdict
    level: Level | None = None
    path: str | None = None
    asked: Asked = dataclasses.field(default_factory=Asked)
    reviewer_plan: bool = False
    baseline: bool = False
    meanwhile: Callable[[Path], None] = lambda directory: None
    torch_version: str | None = None
    loader: str | None = None
    world: str = "plain"

    @property
    def name(self) -> str:
        return f"{self.rule}-{self.write.__name__}"


EXAMPLES: list[Example] = []
_Write = Callable[[Written], None]
LOADERS = Path(__file__).parents[1] / "reviewers_loaders.py"
REVIEWER_PLAN = "reviewer/plan.json"  # beside the campaign
BASELINE = "reviewer/report.json"


def faulty(rule: str, subject: str | None = None, path: str | None = None, **more: object) -> Callable[[_Write], _Write]:
    """The rule must fire. What follows for the subject and the campaign is what its level says, unless told otherwise."""
    known = checks.all_rules().get(rule)
    level = more.setdefault("level", known.level if known else None)
    worst = Verdict.UNVERIFIED if known and known.unanswered else Verdict.REJECTED if level is Level.ERROR else Verdict.ACCEPTED
    return _register(rule, True, subject, path=path, **{"verdict": worst, "campaign": worst} | more)


def sound(rule: str, subject: str | None = None, **more: object) -> Callable[[_Write], _Write]:
    """The rule must be silent, and the subject and the campaign are accepted unless told otherwise."""
    return _register(rule, False, subject, **{"verdict": Verdict.ACCEPTED, "campaign": Verdict.ACCEPTED} | more)


def _register(rule: str, fires: bool, subject: str | None, **more: object) -> Callable[[_Write], _Write]:
    def register(write: _Write) -> _Write:
        EXAMPLES.append(Example(rule, write, fires, subject, **more))
        return write

    return register


def judge(directory: Path, runner: Runner, example: Example | None = None) -> CampaignRecord:
    """The record of a directory, by the real checks, without pytest."""
    asked = example.asked if example else Asked()
    taken = snapshot.take(directory, directory.parent / REVIEWER_PLAN if example and example.reviewer_plan else None)
    report = directory.parent / BASELINE
    earlier = baseline.read(report.read_bytes(), report.name) if example and example.baseline else ()
    campaign = snapshot.campaign(snapshot.Snapshot.from_text(taken.to_text()), asked, earlier)
    own = {example.subject: Loader("*", str(LOADERS), example.loader)} if example and example.subject and example.loader else {}
    evidence = Files(campaign.inventory, runner, digest=False, loaders=own)
    if example:
        example.meanwhile(directory)
        if example.torch_version:
            evidence.torch_version = example.torch_version
    results = {}
    for pair in checks.expected(campaign):
        reason = pair.deliverable and checks.skip_reason(campaign, campaign.by_id[pair.deliverable], pair.check)
        results[pair] = Result(pair, Outcome.SKIPPED, reason=reason) if reason else run_check(campaign, pair, evidence)
    return campaign_record(campaign, results, partial=False)


def findings(record: CampaignRecord) -> list[Finding]:
    """Every finding of a record once."""
    return [*dict.fromkeys([*record.findings, *(finding for d in record.deliverables for finding in d.findings)])]


def build(example: Example, directory: Path) -> Path:
    """Write the campaign of an example."""
    made = campaigns.write(directory)
    example.write(made)
    if not made.saved:
        made.save()
    return directory


def complaints(example: Example, record: CampaignRecord) -> Iterator[str]:
    """How a record differs from what the example asks; nothing when all is as it should be."""
    found = [finding for finding in findings(record) if finding.rule == example.rule]
    if example.faulty:
        at = [f for f in found if f.level is example.level and (example.path is None or f.path == example.path)]
        if not at:
            yield f"{example.rule} ({example.level}) is not found at {example.path}"
        if any(not f.message or not f.remedy for f in found):
            yield f"{example.rule} has no message or no remedy"
    elif found:
        yield f"{example.rule} is found where all is sound"
    verdicts = {deliverable.id: deliverable.verdict for deliverable in record.deliverables}
    if example.subject is not None and verdicts.get(example.subject) is not example.verdict:
        yield f"{example.subject} is {verdicts.get(example.subject)}, not {example.verdict}"
    if record.verdict is not example.campaign:
        yield f"the campaign is {record.verdict}, not {example.campaign}"


def checked(example: Example, directory: Path, runner: Runner) -> list[str]:
    """Build and check one example: the complaints about it, with all findings when there are any."""
    record = judge(build(example, directory), runner, example)
    wrong = list(complaints(example, record))
    return wrong and [*wrong, *(f"{f.rule} {f.level} {f.place}: {f.message}" for f in findings(record))]


__all__ = ["EXAMPLES", "Asked", "Example", "Level", "Pair", "Verdict", "Written", "build", "checked", "complaints", "faulty",
           "findings", "judge", "sound"]
