"""Times, costs and rehearsals of a campaign, a line each, as the terminal shows them."""

from __future__ import annotations

from collections.abc import Iterator

from ..ledger import Account, Cost, written
from ..record import CampaignRecord, Times
from ..schedule import is_machine, text
from ..text import number, shown, size

_PLURALS = {"analysis": "analyses"}


def lines(campaign: CampaignRecord) -> Iterator[str]:
    """What there is to say; nothing of what no document speaks of."""
    if campaign.times is not None:
        yield from schedule(campaign.times)
    if campaign.cost is not None:
        yield cost(campaign.cost, campaign.decision["outcome"] if campaign.decision is not None else None)
    for rehearsal in campaign.rehearsals:
        what = shown(rehearsal.run or "a checkpoint", 60)
        what += f" ({size(rehearsal.bytes)})" if rehearsal.bytes is not None else ""
        seconds = [f"{word} in {value:,.3g} s" for word, value in (
            ("written", rehearsal.write_seconds), ("restored", rehearsal.restore_seconds)) if value is not None]
        yield f"rehearsal: {what} {', '.join(seconds) or 'without times'}"


def schedule(times: Times) -> Iterator[str]:
    """One line for each resource: planned, measured, and what that leaves of the window."""
    window = times.schedule.window
    for name, use in times.planned.items():
        facts = [f"{text(use.hours)} planned"]
        if name in times.measured:
            facts.append(f"{text(times.measured[name].hours)} measured")
        if window is not None and is_machine(name):
            left = use.left(window)
            facts.append(f"window {text(window)} ({text(left)} left)" if left >= 0
                         else f"window {text(window)} (exceeded by {text(-left)})")
        yield f"schedule: {shown(name, 60)}: {', '.join(facts)}"


def cost(cost: Cost, outcome: str | None) -> str:
    """The cost, for how many results, and what one of them cost; where there is no such number, why.

    Where the budget names no unit the ``outcome`` of the campaign stands beside the cost.
    """
    total = _total(cost.account)
    orders = cost.account.orders
    order = f" (order{'s' if len(orders) > 1 else ''} {shown(', '.join(orders), 200)})" if orders else ""
    if cost.unit is None:
        return f"cost: {total}, conclusion: {outcome or 'none'}{order}"
    if cost.per_unit is None:
        return f"cost: {total}, {shown(cost.reason or '', 300)}: no cost per {cost.unit}{order}"
    units = cost.units or 0
    many = _PLURALS.get(cost.unit, cost.unit if cost.unit.endswith("s") else cost.unit + "s")
    return (f"cost: {total} for {number(units, f'distinct {cost.unit}', f'distinct {many}')}, "
            f"{_money(written(cost.per_unit), cost.account)} each{order}")


def _total(account: Account) -> str:
    if account.total is None:
        return "not known"
    sums = [(word, account.sum(lines)) for word, lines in (("packages", account.packages), ("other", account.other))]
    parts = [f"{word} {written(amount)}" for word, amount in sums if amount is not None]
    if account.planned != account.total:
        parts.append(f"planned {written(account.planned)}")
    return (("at least " if account.open else "") + _money(written(account.total), account)
            + (f" ({', '.join(parts)})" if len(parts) > 1 else ""))


def _money(amount: str, account: Account) -> str:
    return f"{amount} {account.currency}" if account.currency else amount
