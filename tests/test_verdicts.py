"""From the outcomes of checks to verdicts: which is the first that applies, and what the campaign then is."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import campaigns
import pytest
from campaigns import LAST, METRICS, Written

from pytest_campaign import checks, snapshot
from pytest_campaign.campaign import Asked
from pytest_campaign.checks import Pair
from pytest_campaign.findings import Finding, Level, Outcome, outcome
from pytest_campaign.formats.base import Depth, FileFacts
from pytest_campaign.record import CampaignRecord, Record, Result, Verdict, campaign_record

MISSING, REJECTED, UNVERIFIED, ABORTED, ACCEPTED = Verdict
FAILED, OPEN, SKIPPED, NEVER = Outcome.FAILED, Outcome.UNVERIFIED, Outcome.SKIPPED, None
ERROR = Finding("toy.error", Level.ERROR, "wrong", "mend it")
QUESTION = Finding("toy.question", Level.WARNING, "not known", "look again", unanswered=True)
FINDINGS = {FAILED: [ERROR], OPEN: [QUESTION]}


def as_written(made: Written) -> None:
    pass


def without_last(made: Written) -> None:
    (made / LAST).unlink()


def useful_metrics_gone(made: Written) -> None:
    (made / METRICS).unlink()
    made.planned("control/metrics")["priority"] = "useful"


def useful_metrics_gone_says_the_manifest(made: Written) -> None:
    """The plan, which says essential, has the last word."""
    (made / METRICS).unlink()
    made.deliverable("control/metrics")["priority"] = "useful"


def useful_metrics(made: Written) -> None:
    made.planned("control/metrics")["priority"] = "useful"


def not_listed(made: Written) -> None:
    made.run("control")["deliverables"].pop(0)


def not_listed_and_useful(made: Written) -> None:
    made.planned_run("control")["priority"] = "useful"
    not_listed(made)


def aborted(made: Written) -> None:
    made.run("control").update(status="aborted", abort={"reason": "the loss was NaN"})


def aborted_and_gone(made: Written) -> None:
    aborted(made)
    without_last(made)


def aborted_and_not_listed(made: Written) -> None:
    aborted(made)
    not_listed(made)


def aborted_for_no_reason(made: Written) -> None:
    made.run("control").update(status="aborted", abort={"reason": " "})


def not_run(made: Written) -> None:
    made.run("variant").update(status="not_run", reason="dropped at the decision point", deliverables=[])


def no_manifest(made: Written) -> None:
    made.save()
    (made / "manifest.json").unlink()


def listed_twice(made: Written) -> None:
    made.run("control")["deliverables"].insert(0, {"id": "last", "kind": "checkpoint", "path": METRICS})


def record_of(directory: Path, write: Callable[[Written], None], outcomes: dict[str, Outcome | None], *,
              findings: tuple[Finding, ...] = (), partial: bool = False) -> CampaignRecord:
    """The record of a campaign whose checks all passed, except those that ``outcomes`` names; None: without a result."""
    made = campaigns.write(directory)
    write(made)
    if not made.saved:
        made.save()
    campaign = snapshot.campaign(snapshot.take(directory), Asked())
    results = {}
    for pair in checks.expected(campaign):
        ended = outcomes.get(f"{pair.deliverable or 'campaign'}::{pair.check}", Outcome.PASSED)
        if ended is not None:
            results[pair] = Result(pair, ended, FINDINGS.get(ended, []) + list(findings if pair.check == "identifiers" else ()))
    return campaign_record(campaign, results, partial=partial)


SUBJECT = "control/last"
TABLE = [
    ("all passed", as_written, {}, ACCEPTED, ACCEPTED),
    ("an error", as_written, {"control/last::content": FAILED}, REJECTED, REJECTED),
    ("an open question", as_written, {"control/last::reload": OPEN}, UNVERIFIED, UNVERIFIED),
    ("an error outweighs an open question", as_written,
     {"control/last::content": FAILED, "control/last::reload": OPEN}, REJECTED, REJECTED),
    ("a check that never ran", as_written, {"control/last::reload": NEVER}, UNVERIFIED, UNVERIFIED),
    ("a skip is no pass", as_written, {"control/last::reload": SKIPPED}, UNVERIFIED, UNVERIFIED),
    ("absent outweighs an error", without_last,
     {"control/last::content": FAILED, "control/last::reload": SKIPPED}, MISSING, REJECTED),
    ("not listed", not_listed, {}, MISSING, REJECTED),
    ("not listed and useful", not_listed_and_useful, {}, MISSING, ACCEPTED),
    ("aborted", aborted, {}, ABORTED, ACCEPTED),
    ("aborted outweighs absent", aborted_and_gone, {"control/last::reload": SKIPPED}, ABORTED, ACCEPTED),
    ("aborted and not listed", aborted_and_not_listed, {}, ABORTED, ACCEPTED),
    ("aborted for no reason, and sound", aborted_for_no_reason, {}, UNVERIFIED, UNVERIFIED),
    ("aborted for no reason", aborted_for_no_reason, {"control/last::content": FAILED}, REJECTED, REJECTED),
    ("aborted, and nobody decided", aborted, {"campaign::plan": FAILED}, ABORTED, REJECTED),
    ("a campaign check failed", as_written, {"campaign::manifest": FAILED}, ACCEPTED, REJECTED),
    ("a campaign check is open", as_written, {"campaign::identifiers": OPEN}, ACCEPTED, UNVERIFIED),
    ("a campaign check never ran", as_written, {"campaign::plan": NEVER}, ACCEPTED, UNVERIFIED),
    ("another deliverable is rejected", as_written, {"variant/weights::reload": FAILED}, ACCEPTED, REJECTED),
    ("rejected outweighs unverified", as_written,
     {"variant/weights::reload": FAILED, "control/last::reload": OPEN}, UNVERIFIED, REJECTED),
    ("a useful one is rejected", useful_metrics, {"control/metrics::content": FAILED}, ACCEPTED, REJECTED),
    ("a useful one is absent", useful_metrics_gone, {}, ACCEPTED, ACCEPTED),
    ("an essential one is absent", useful_metrics_gone_says_the_manifest, {}, ACCEPTED, REJECTED),
    ("a run was dropped", not_run, {}, ACCEPTED, ACCEPTED),
    ("no manifest: what is planned is unverified", no_manifest, {}, UNVERIFIED, UNVERIFIED),
    ("no manifest, which is an error", no_manifest, {"campaign::manifest": FAILED}, UNVERIFIED, REJECTED),
]


@pytest.mark.parametrize(("write", "outcomes", "verdict", "campaign"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_verdict(tmp_path: Path, write: Callable[[Written], None], outcomes: dict[str, Outcome | None], verdict: Verdict,
                 campaign: Verdict) -> None:
    record = record_of(tmp_path / "campaign", write, outcomes)
    (subject,) = (deliverable for deliverable in record.deliverables if deliverable.id == SUBJECT)
    assert (subject.verdict, record.verdict) == (verdict, campaign)
    assert accepts(record) is (campaign is ACCEPTED)


def accepts(*records: CampaignRecord) -> bool:
    return Record(True, {}, {}, None, "2026-03-02T08:00:00Z", 1.0, records).accepted


def test_a_session_accepts_what_all_its_campaigns_accept(tmp_path: Path) -> None:
    good = record_of(tmp_path / "good", as_written, {})
    bad = record_of(tmp_path / "bad", as_written, {"control/last::content": FAILED})
    assert accepts(good, good)
    assert not accepts(good, bad)
    assert not accepts()


def test_an_error_of_a_campaign_check_rejects_the_deliverable_of_which_it_speaks(tmp_path: Path) -> None:
    error = dataclasses.replace(ERROR, deliverable="control/metrics")
    record = record_of(tmp_path / "campaign", as_written, {"campaign::identifiers": FAILED}, findings=(error,))
    assert {d.id: d.verdict for d in record.deliverables} == {
        "control/last": ACCEPTED, "control/metrics": REJECTED, "variant/weights": ACCEPTED}
    assert [d.findings for d in record.deliverables if d.id == "control/metrics"] == [[error]]
    assert record.findings == [ERROR]  # what speaks of a deliverable stands with it


def test_a_warning_of_a_campaign_check_rejects_nothing(tmp_path: Path) -> None:
    warning = dataclasses.replace(ERROR, level=Level.WARNING, deliverable="control/metrics")
    record = record_of(tmp_path / "campaign", as_written, {}, findings=(warning,))
    assert record.verdict is ACCEPTED
    assert record.count(ACCEPTED) == 3


def test_of_two_deliverables_with_one_id_only_one_is_checked(tmp_path: Path) -> None:
    record = record_of(tmp_path / "campaign", listed_twice, {})
    assert [(d.path, d.verdict) for d in record.deliverables if d.id == SUBJECT] == [(METRICS, UNVERIFIED), (LAST, ACCEPTED)]
    assert record.verdict is UNVERIFIED
    assert record.ran == record.expected == 4 + 3 * 3 + 2 + 1  # of the campaign; three of each id; reload of two ids; data


@pytest.mark.parametrize(("write", "shown"), [(useful_metrics_gone, ("useful", False)), (useful_metrics, ("useful", True)),
                                              (useful_metrics_gone_says_the_manifest, ("essential", True))])
def test_what_is_gated(tmp_path: Path, write: Callable[[Written], None], shown: tuple[str, bool]) -> None:
    record = record_of(tmp_path / "campaign", write, {})
    (metrics,) = (d for d in record.deliverables if d.id == "control/metrics")
    assert (metrics.priority, metrics.gated) == shown


def test_a_part_of_the_checks(tmp_path: Path) -> None:
    record = record_of(tmp_path / "campaign", as_written, {"control/last::reload": NEVER, "campaign::plan": NEVER}, partial=True)
    assert record.partial
    assert record.ran == record.expected - 2


def test_deleting_a_file_keeps_its_checks(tmp_path: Path) -> None:
    made = campaigns.write(tmp_path / "campaign").save()
    before = checks.expected(snapshot.campaign(snapshot.take(made.directory), Asked()))
    shutil.rmtree(made / "runs")
    assert checks.expected(snapshot.campaign(snapshot.take(made.directory), Asked())) == before
    assert Pair("control/last", "reload") in before
    assert Pair("control/metrics", "reload") not in before


def test_weights_are_reloaded_whatever_their_kind(tmp_path: Path) -> None:
    made = campaigns.write(tmp_path / "campaign")
    made.deliverable("variant/weights")["kind"] = "other"
    made.save()
    assert Pair("variant/weights", "reload") in checks.expected(snapshot.campaign(snapshot.take(made.directory), Asked()))


def test_the_cheap_checks_come_first(tmp_path: Path) -> None:
    pairs = checks.expected(snapshot.campaign(snapshot.take(campaigns.write(tmp_path / "campaign").save().directory), Asked()))
    kinds = ["campaign" if pair.deliverable is None else pair.check if pair.check in ("reload", "fixity") else "cheap"
             for pair in pairs]
    assert kinds == sorted(kinds, key=["campaign", "cheap", "reload", "fixity"].index)


def test_the_runs_with_their_counts(tmp_path: Path) -> None:
    record = record_of(tmp_path / "campaign", aborted, {"variant/weights::reload": FAILED})
    assert [(run["id"], run["status"], run["counts"]) for run in record.runs] == [
        ("control", "aborted", {"aborted": 2}), ("variant", "completed", {"rejected": 1})]


def test_a_waived_finding_counts_for_nothing() -> None:
    waived = dataclasses.replace(ERROR, waived="known, see the log of the run")
    assert outcome([waived]) is Outcome.PASSED
    assert outcome([waived, QUESTION]) is Outcome.UNVERIFIED
    assert outcome([QUESTION, ERROR]) is Outcome.FAILED


def test_a_result_survives_the_way_between_processes() -> None:
    finding = dataclasses.replace(ERROR, path="r\udcff/x", line=3, pointer="/a~1b", deliverable="control/last")
    result = Result(Pair("control/last", "reload"), Outcome.FAILED, [finding], 0.5, "why", Depth.HEADER, "torch zip", 12,
                    [FileFacts("x", 3, "00")])
    text = result.to_text()
    assert text.isascii()
    assert "\n" not in text
    assert json.loads(text)["outcome"] == "failed"
    assert Result.from_text(text) == result
