"""What a campaign cost, for how many distinct results: exact, and the same in whatever order things are told."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import ROUND_HALF_EVEN, Decimal
from fractions import Fraction
from pathlib import Path

import campaigns
import pytest
from campaigns import METRICS, Written
from hypothesis import given
from hypothesis import strategies as st
from sessions import pytest_session

from pytest_campaign import checks, ledger, schema_files, snapshot
from pytest_campaign.campaign import Asked
from pytest_campaign.checks import Pair
from pytest_campaign.evidence import Files
from pytest_campaign.findings import Finding, Level, Outcome
from pytest_campaign.ledger import Account, Budget, Item, Paid
from pytest_campaign.record import CampaignRecord, Result, campaign_record
from pytest_campaign.reporting import account_lines
from pytest_campaign.session import run_check

RENTAL = {"name": "8-hour rental", "price": "47.14", "hours": 8, "order": "4711"}
ERROR = Finding("toy.error", Level.ERROR, "wrong", "mend it")


def corpora(made: Written, *texts: str, run: str = "") -> None:
    """Data sets that the campaign or a run of it delivers."""
    for text in texts:
        number = len(list((made / "corpora/x").parent.iterdir()))
        (made / f"corpora/{number}.jsonl").write_text(json.dumps({"id": 1, "text": text}) + "\n")
        made.add(f"{run}/corpus" if run else f"corpus-{number}", "dataset", f"corpora/{number}.jsonl")


def repeat(made: Written, run: str, of: str) -> None:
    made.manifest["runs"].append({"id": run, "status": "completed", "repeat_of": of, "deliverables": []})
    made.plan["runs"].append({"id": run})


def record(directory: Path, write: Callable[[Written], None], budget: dict | None, *, actuals: dict | None = None,
           rejected: tuple[str, ...] = (), left_out: str | None = None) -> CampaignRecord:
    """The record of a campaign whose checks all passed, but for what is ``rejected``; the plan is really checked."""
    made = campaigns.write(directory)
    if budget is not None:
        made.plan["budget"] = budget
    if actuals is not None:
        made.manifest["actuals"] = actuals
    write(made)
    made.save()
    campaign = snapshot.campaign(snapshot.take(directory), Asked())
    evidence = Files(campaign.inventory, lambda job, progress: pytest.fail("nothing is to be reloaded"), digest=False)
    results = {}
    for pair in checks.expected(campaign):
        bad = pair.deliverable in rejected and pair.check == "content"
        results[pair] = Result(pair, Outcome.FAILED, [ERROR]) if bad else Result(pair, Outcome.PASSED)
        if pair in (Pair(None, "plan"), Pair(None, "identifiers")):
            results[pair] = run_check(campaign, pair, evidence)
        if pair.check == left_out:
            del results[pair]
    return campaign_record(campaign, results, partial=False)


def line(record: CampaignRecord) -> str:
    (found,) = (line for line in account_lines.lines(record) if line.startswith("cost: "))
    return found


def one(made: Written) -> None:
    corpora(made, "one")


def two(made: Written) -> None:
    corpora(made, "one", "two")


def five_times(made: Written) -> None:
    corpora(made, *["one"] * 5)


def five_times_and_another(made: Written) -> None:
    corpora(made, "one", "one", "two", "one", "one", "one")


def a_run_and_its_repeat(made: Written) -> None:
    repeat(made, "again", "control")
    corpora(made, "one", run="control")
    corpora(made, "another", run="again")


def a_copy_of_the_repeat(made: Written) -> None:
    a_run_and_its_repeat(made)
    corpora(made, "another", run="variant")


def aborted_too(made: Written) -> None:
    two(made)
    corpora(made, "three", run="variant")
    made.run("variant").update(status="aborted", abort={"reason": "no time"})
    made.manifest["decision"] = {"outcome": "inconclusive", "summary": "The variant was aborted."}


def none(made: Written) -> None:
    pass


PER_DATASET = {"currency": "USD", "packages": [RENTAL], "unit": "dataset"}


@pytest.mark.parametrize(("write", "budget", "rejected", "expected"), [
    (two, PER_DATASET, (), "cost: 47.14 USD for 2 distinct datasets, 23.57 USD each (order 4711)"),
    (two, PER_DATASET | {"packages": [RENTAL] * 2}, (), "cost: 94.28 USD for 2 distinct datasets, 47.14 USD each (order 4711)"),
    (two, PER_DATASET | {"packages": [RENTAL, RENTAL | {"order": "4712"}]}, (),
     "cost: 94.28 USD for 2 distinct datasets, 47.14 USD each (orders 4711, 4712)"),
    (one, PER_DATASET, (), "cost: 47.14 USD for 1 distinct dataset, 47.14 USD each (order 4711)"),
    (five_times, PER_DATASET, (), "cost: 47.14 USD for 1 distinct dataset, 47.14 USD each (order 4711)"),
    (five_times, PER_DATASET, ("corpus-0",), "cost: 47.14 USD for 1 distinct dataset, 47.14 USD each (order 4711)"),
    (five_times_and_another, PER_DATASET, (), "cost: 47.14 USD for 2 distinct datasets, 23.57 USD each (order 4711)"),
    (a_run_and_its_repeat, PER_DATASET, (), "cost: 47.14 USD for 1 distinct dataset, 47.14 USD each (order 4711)"),
    (a_copy_of_the_repeat, PER_DATASET, (), "cost: 47.14 USD for 1 distinct dataset, 47.14 USD each (order 4711)"),
    (aborted_too, PER_DATASET, (), "cost: 47.14 USD for 2 distinct datasets, 23.57 USD each (order 4711)"),
    (two, PER_DATASET, ("corpus-0", "corpus-1"),
     "cost: 47.14 USD, no accepted dataset (2 rejected): no cost per dataset (order 4711)"),
    (none, PER_DATASET, (), "cost: 47.14 USD, no accepted dataset (none was delivered): no cost per dataset (order 4711)"),
    (two, {"currency": "USD", "packages": [RENTAL]}, (), "cost: 47.14 USD, conclusion: none (order 4711)"),
    (two, PER_DATASET | {"other": [{"name": "storage", "amount": "1.20"}]}, (),
     "cost: 48.34 USD (packages 47.14, other 1.20) for 2 distinct datasets, 24.17 USD each (order 4711)"),
    (two, PER_DATASET | {"packages": [{"name": "rental", "hours": 8}]}, (),
     "cost: not known, nobody says how much was paid for rental: no cost per dataset"),
    (two, PER_DATASET | {"packages": [{"name": "rental", "hours": 8}, RENTAL]}, (),
     "cost: at least 47.14 USD, nobody says how much was paid for rental: no cost per dataset (order 4711)"),
    (two, {"packages": [{"price": "47.14"}], "unit": "checkpoint"}, (), "cost: 47.14 for 2 distinct checkpoints, 23.57 each"),
])
def test_worked_examples(tmp_path: Path, write: Callable[[Written], None], budget: dict, rejected: tuple[str, ...],
                         expected: str) -> None:
    found = record(tmp_path / "out", write, budget, rejected=rejected)
    assert line(found) == expected
    assert found.cost is not None
    assert (found.cost.units or 0) <= found.distinct


def test_a_payment_replaces_what_was_planned_under_its_name(tmp_path: Path) -> None:
    budget = PER_DATASET | {"other": [{"name": "storage", "amount": "1.20"}]}
    actuals = {"costs": [{"name": "storage", "amount": "2.00"}, {"name": "egress", "amount": "0.86"}]}
    found = record(tmp_path / "out", two, budget, actuals=actuals)
    assert line(found) == ("cost: 50.00 USD (packages 47.14, other 2.86, planned 48.34) for 2 distinct datasets, 25.00 USD each "
                           "(order 4711)")
    assert [finding.rule for finding in found.findings if finding.rule.startswith("plan.unplanned")] == ["plan.unplanned-cost"]


def test_the_conclusion_stands_beside_a_cost_without_a_unit(tmp_path: Path) -> None:
    def write(made: Written) -> None:
        made.manifest["decision"] = {"outcome": "negative", "summary": "It does not help."}

    assert line(record(tmp_path / "out", write, {"packages": [{"price": "5"}]})) == "cost: 5, conclusion: negative"


def test_without_any_cost_nothing_is_said(tmp_path: Path) -> None:
    found = record(tmp_path / "out", two, {"currency": "USD", "unit": "dataset"})
    assert found.cost is None
    assert record(tmp_path / "other", two, None).cost is None


def test_the_cost_of_one_unit_needs_every_check(tmp_path: Path) -> None:
    found = record(tmp_path / "out", two, PER_DATASET, left_out="identifiers")
    assert found.cost is not None
    assert (found.cost.units, found.cost.per_unit) == (None, None)
    assert "checks ran" in (found.cost.reason or "")


def test_copies_of_data_sets_count_once_in_all_numbers(tmp_path: Path) -> None:
    assert record(tmp_path / "out", five_times, PER_DATASET).distinct == 1 + 3
    assert record(tmp_path / "other", five_times, None).distinct == 5 + 3  # nobody asked whether they are the same


def test_a_session_shows_it(tmp_path: Path) -> None:
    made = campaigns.write(tmp_path / "out")
    two(made)
    made.plan |= {"budget": PER_DATASET, "decision_point": {"after": "control", "options": ["continue", "stop"]},
                  "schedule": {"window_hours": 72, "tolerance_percent": 20, "steps": [{"id": "control", "hours": 48}]}}
    made.manifest["actuals"] = {
        "steps": [{"id": "control", "started": "2026-03-02T08:00:00Z", "finished": "2026-03-04T08:00:00Z"}],
        "decisions": [{"at": "2026-03-04T09:00:00Z", "choice": "continue", "reason": "it works"}],
        "costs": [{"name": "8-hour rental", "amount": "47.14"}],
        "rehearsals": [{"run": "control", "bytes": 1048576, "write_seconds": 0.41, "restore_seconds": 0.2}]}
    abort = {"rule": "slow", "reason": "too slow", "step": 3, "at": "2026-03-04T10:00:00Z"}
    made.run("variant").update(status="aborted", abort=abort)
    made.plan["abort_rules"] = [{"id": "slow", "when": "it is too slow"}]
    made.manifest["decision"] = {"outcome": "negative", "summary": "The variant is too slow.", "based_on": ["control", "variant"]}
    made.save()
    session = pytest_session(tmp_path, "--campaign-dir=out", "--campaign-report=report.json")
    assert session.status == 0, session.out
    shown = [text for text in session.out.splitlines() if text.startswith(("cost:", "schedule:", "rehearsal:"))]
    assert shown == ["schedule: machine: 48 h planned, 48 h measured, window 72 h (24 h left)",
                     "cost: 47.14 USD for 2 distinct datasets, 23.57 USD each (order 4711)",
                     "rehearsal: control (1.0 MB) written in 0.41 s, restored in 0.2 s"]
    report = json.loads((tmp_path / "report.json").read_text())
    schema_files.validator("report-1").validate(report)
    (campaign,) = report["campaigns"]
    assert campaign["cost"] == {
        "currency": "USD", "planned": "47.14", "total": "47.14", "unit": "dataset", "accepted": 2, "per_unit": "23.57",
        "packages": [{"name": "8-hour rental", "planned": "47.14", "actual": "47.14", "amount": "47.14", "order": "4711"}],
        "other": [], "reason": None}
    assert campaign["decision"]["outcome"] == "negative"
    assert campaign["decision"]["point"] == {"after": "control", "options": ["continue", "stop"]}
    assert campaign["decision"]["taken"] == [{"at": "2026-03-04T09:00:00Z", "choice": "continue", "reason": "it works"}]
    assert campaign["schedule"]["resources"] == [
        {"resource": "machine", "planned_hours": 48, "planned_end_hour": 48, "left_hours": 24, "measured_hours": 48}]
    assert campaign["schedule"]["steps"][0]["deviation_percent"] == 0
    assert campaign["rehearsals"] == [
        {"run": "control", "path": None, "bytes": 1048576, "write_seconds": 0.41, "restore_seconds": 0.2}]
    assert campaign["runs"][1]["abort"] == abort


def test_a_part_of_the_checks_tells_no_cost(tmp_path: Path) -> None:
    made = campaigns.write(tmp_path / "out")
    made.plan["budget"] = PER_DATASET
    made.save()
    session = pytest_session(tmp_path, f"out/{METRICS}::content", "--campaign-dir=out", "--campaign-report=report.json")
    assert "cost:" not in session.out
    (campaign,) = json.loads((tmp_path / "report.json").read_text())["campaigns"]
    assert (campaign["cost"]["total"], campaign["cost"]["accepted"], campaign["cost"]["per_unit"]) == ("47.14", None, None)


# ---- arithmetic ------------------------------------------------------------------------------------------------------

AMOUNTS = st.from_regex(r"[0-9]{1,30}(\.[0-9]{1,9})?", fullmatch=True).map(Decimal)
NAMES = st.sampled_from(["rental", "storage", "egress"])
ITEMS = st.lists(st.builds(Item, st.none() | NAMES, st.none() | AMOUNTS, st.none() | st.just("4711")), max_size=5)
PAID = st.lists(st.builds(Paid, NAMES, AMOUNTS), max_size=5)


@given(st.lists(AMOUNTS))
def test_sums_are_exact(amounts: list[Decimal]) -> None:
    assert Fraction(ledger.add(amounts)) == sum(map(Fraction, amounts))
    assert ledger.add(amounts) == ledger.add(reversed(amounts))


@pytest.mark.parametrize(("total", "units", "each"), [
    ("47.14", 2, "23.57"), ("47.14", 3, "15.71"), ("0.25", 10, "0.02"), ("0.35", 10, "0.04"), ("0.05", 2, "0.02"),
    ("1", 3, "0.33"), ("2", 3, "0.67"), ("0.00", 4, "0.00"), ("9" * 38, 1, "9" * 38 + ".00")])
def test_shares_are_rounded_half_to_even(total: str, units: int, each: str) -> None:
    assert ledger.written(ledger.divide(Decimal(total), units)) == each


@given(AMOUNTS, st.integers(1, 10_000))
def test_a_share_is_the_nearest_one(total: Decimal, units: int) -> None:
    share = ledger.divide(total, units)
    assert abs(Fraction(share) * units - Fraction(total)) <= Fraction(units, 200)
    assert share == share.quantize(Decimal("0.01"), ROUND_HALF_EVEN) if share < 10**20 else True


def test_a_share_of_none_is_no_number() -> None:
    with pytest.raises(ZeroDivisionError):
        ledger.divide(Decimal("47.14"), 0)


@given(st.data(), ITEMS, ITEMS, PAID)
def test_the_order_of_what_is_told_changes_no_sum(data: st.DataObject, packages: list[Item], other: list[Item],
                                                  paid: list[Paid]) -> None:
    account = ledger.account(Budget(packages, other), paid)
    shuffled = ledger.account(Budget(*(data.draw(st.permutations(items)) for items in (packages, other))),
                              data.draw(st.permutations(paid)))
    assert (shuffled.total, shuffled.planned) == (account.total, account.planned)


@given(ITEMS, ITEMS, PAID)
def test_nothing_is_lost_and_nothing_is_invented(packages: list[Item], other: list[Item], paid: list[Paid]) -> None:
    account = ledger.account(Budget(packages, other), paid)
    names = {payment.name for payment in paid}
    kept = [item.amount for item in (*packages, *other) if item.name not in names and item.amount is not None]
    counted = [*kept, *(payment.amount for payment in paid)]
    assert account.total == (ledger.add(counted) if counted else None)
    assert ledger.add(item.amount for item in (*packages, *other) if item.amount is not None) == account.planned
    assert {line.name for line in account.packages} <= {item.name for item in packages}


def test_an_amount_is_never_written_with_an_exponent() -> None:
    account = Account(*([ledger.Line("dust", Decimal("0.0000001"), None)] * 1 for _ in range(2)))
    assert ledger.written(account.total or Decimal(0)) == "0.0000002"


# ---- what counts once ------------------------------------------------------------------------------------------------

IDS = [f"{run}{slash}{own}" for run, slash in (("", ""), ("a", "/"), ("b", "/"), ("c", "/")) for own in ("x", "y")]
PAIRS = st.lists(st.tuples(st.sampled_from(IDS), st.sampled_from(IDS)), max_size=5)
REPEATS = st.sampled_from([{}, {"b": "a"}, {"c": "b"}, {"b": "a", "c": "a"}])


def count(ids: list[str], copies: list[tuple[str, str]], repeats: dict[str, str], accepted: set[str]) -> int:
    same = ledger.same(ids, copies, lambda run: repeats.get(run, run))
    return len({same[id] for id in ids if id in accepted})


@given(st.data(), PAIRS, REPEATS, st.sets(st.sampled_from(IDS)))
def test_no_order_changes_what_counts(data: st.DataObject, copies: list[tuple[str, str]], repeats: dict[str, str],
                                      accepted: set[str]) -> None:
    known = count(IDS, copies, repeats, accepted)
    turned = [(b, a) if data.draw(st.booleans()) else (a, b) for a, b in data.draw(st.permutations(copies))]
    ids = data.draw(st.permutations(IDS))
    assert count(ids, turned, repeats, accepted) == known
    one, other = (ledger.same(*told, lambda run: repeats.get(run, run)) for told in ((IDS, copies), (ids, turned)))
    assert one == other


def test_a_copy_of_what_is_repeated() -> None:
    ids = {"a/y", "b/x", "c/x"}
    assert count(IDS, [("b/x", "a/y")], {"c": "b"}, ids) == count(IDS, [("a/y", "b/x")], {"c": "b"}, ids) == 1


@given(PAIRS, PAIRS, REPEATS, st.sets(st.sampled_from(IDS)))
def test_copies_and_repeats_add_nothing(copies: list[tuple[str, str]], more: list[tuple[str, str]], repeats: dict[str, str],
                                        accepted: set[str]) -> None:
    known = count(IDS, copies, repeats, accepted)
    assert known <= len(accepted)
    assert count(IDS, copies + more, repeats, accepted) <= known
    if accepted:
        original = min(accepted)
        again = [*IDS, "a/copy"]
        assert count(again, [*copies, ("a/copy", original)], repeats, accepted | {"a/copy"}) == known


@given(PAIRS, REPEATS, st.sets(st.sampled_from(IDS)), st.sets(st.sampled_from(IDS)))
def test_units_never_exceed_what_is_distinct(copies: list[tuple[str, str]], repeats: dict[str, str], accepted: set[str],
                                             of_kind: set[str]) -> None:
    assert count(IDS, copies, repeats, accepted & of_kind) <= count(IDS, copies, repeats, accepted)
