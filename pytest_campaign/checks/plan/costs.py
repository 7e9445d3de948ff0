"""Costs: names that do not match, prices that nobody gives, and results that count once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from ... import ledger
from ...campaign import WEIGHTS, Campaign
from ...findings import Finding
from ...ledger import Budget
from ...snapshot import MANIFEST
from ...text import listed, number, shown
from ..base import Evidence
from . import rules

_SAID = WEIGHTS | {"predictions"}  # kinds of which the check of the identifiers says what is a copy


def check(campaign: Campaign, evidence: Evidence) -> Iterator[Finding]:
    """Findings about budget and payments."""
    budget, paid = campaign.plan.budget if campaign.plan is not None else None, campaign.actuals.costs
    if budget is not None:
        yield from _names(campaign, budget)
        for line in ledger.account(budget, paid).open:
            name = f"package {shown(line.name, 80)}" if line.name is not None else "a package without a name"
            yield rules.NO_PRICE.finding(
                f"nobody says what {name} cost", path=campaign.plan.file if campaign.plan else None, pointer="/budget/packages",
                observed="no price", expected="a price, or a payment of that name", remedy="record the payment in actuals.costs")
    for id, original in evidence.unit_copies(campaign).items():
        copy = campaign.by_id[id]
        if copy.kind not in _SAID:
            yield rules.UNIT_COPY.finding(f"{id} holds the same bytes as {original}: they count once", path=copy.path,
                                          deliverable=id, remedy="none")


def _names(campaign: Campaign, budget: Budget) -> Iterator[Finding]:
    payments: dict[str, list[int]] = {}
    for at, payment in enumerate(campaign.actuals.costs):
        payments.setdefault(payment.name, []).append(at)
    planned = Counter(item.name for item in (*budget.packages, *budget.other))
    strange = [name for name in payments if not planned[name]]
    if strange:
        names = listed(shown(name, 80) for name in strange)
        yield rules.UNPLANNED_COST.finding(
            f"{_sum(campaign, budget, [at for name in strange for at in payments[name]])} were paid for what the budget does not "
            f"have: {names}", path=MANIFEST, pointer=f"/actuals/costs/{payments[strange[0]][0]}", observed=names,
            expected=listed(shown(name, 40) for name in planned if name is not None) or None,
            remedy="give it the name that it has in the budget, if any")
    for name, own in payments.items():
        if planned[name] and planned[name] != len(own):
            yield rules.COST_NAME.finding(
                f"{shown(name, 80)} is planned {number(planned[name], 'time')} and paid {number(len(own), 'time')}: the "
                f"{_sum(campaign, budget, own)} that were paid replace all that was planned under it", path=MANIFEST,
                pointer=f"/actuals/costs/{own[0]}", observed=number(len(own), "payment"), expected=f"{planned[name]}",
                remedy="record as many payments as were planned")


def _sum(campaign: Campaign, budget: Budget, payments: Sequence[int]) -> str:
    amount = ledger.add(campaign.actuals.costs[at].amount for at in payments)
    return ledger.written(amount) + (f" {budget.currency}" if budget.currency else "")
