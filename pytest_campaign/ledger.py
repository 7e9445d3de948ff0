"""What a campaign cost, in exact decimal arithmetic, and how many distinct results that bought.

A package has one price, whatever it contains. Nothing is added that the documents do not say: no tax, no fee, no hour.
"""

from __future__ import annotations

import dataclasses
import decimal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, Self

# A document gives an amount in at most 40 characters, so that no sum of them is ever rounded.
_EXACT = decimal.Context(prec=200, rounding=decimal.ROUND_HALF_EVEN, traps=[decimal.Inexact, decimal.InvalidOperation])


@dataclasses.dataclass(frozen=True)
class Item:
    """One cost of the plan's budget; ``order`` is the reference of the order of a package."""

    name: str | None
    amount: Decimal | None
    order: str | None = None


@dataclasses.dataclass(frozen=True)
class Budget:
    """What the plan says of costs; ``unit`` is the kind of deliverable that the total is divided by."""

    packages: Sequence[Item] = ()
    other: Sequence[Item] = ()
    currency: str | None = None
    unit: str | None = None

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Self:
        """The budget in a valid plan."""
        return cls([Item(package.get("name"), _amount(package.get("price")), package.get("order"))
                    for package in raw.get("packages", ())],
                   [Item(item["name"], _amount(item["amount"])) for item in raw.get("other", ())],
                   raw.get("currency"), raw.get("unit"))


@dataclasses.dataclass(frozen=True)
class Paid:
    """One cost that was really paid."""

    name: str
    amount: Decimal

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Self:
        """One of the costs in a valid manifest."""
        return cls(raw["name"], Decimal(raw["amount"]))


def _amount(written: str | None) -> Decimal | None:
    return None if written is None else Decimal(written)


def add(amounts: Iterable[Decimal]) -> Decimal:
    """The exact sum."""
    total = Decimal(0)
    for amount in amounts:
        total = _EXACT.add(total, amount)
    return total


def written(amount: Decimal) -> str:
    """The amount as the documents write it: ``47.14``, never ``4.714E+1``."""
    return f"{amount:f}"


def divide(total: Decimal, units: int) -> Decimal:
    """The share of one of so many units, to two places, half to even. ZeroDivisionError for none."""
    numerator, denominator = total.as_integer_ratio()
    hundredths = round(Fraction(numerator * 100, denominator * units))
    return _EXACT.scaleb(Decimal(hundredths), -2)


@dataclasses.dataclass(frozen=True)
class Line:
    """One line of the account: what was planned beside what was paid; None where nothing is said."""

    name: str | None
    planned: Decimal | None
    actual: Decimal | None
    order: str | None = None

    @property
    def amount(self) -> Decimal | None:
        """What counts: what was paid, else what was planned."""
        return self.planned if self.actual is None else self.actual


@dataclasses.dataclass(frozen=True)
class Account:
    """The costs of a campaign, packages and others apart."""

    packages: Sequence[Line]
    other: Sequence[Line]
    currency: str | None = None

    @property
    def lines(self) -> Sequence[Line]:
        return [*self.packages, *self.other]

    @property
    def open(self) -> Sequence[Line]:
        """The lines of which nobody says how much they are."""
        return [line for line in self.lines if line.amount is None]

    @property
    def total(self) -> Decimal | None:
        """The sum of what is known; None, never zero, where nothing is."""
        return self.sum(self.lines)

    @staticmethod
    def sum(lines: Iterable[Line]) -> Decimal | None:
        """The sum of the lines that have an amount; None where none has."""
        known = [line.amount for line in lines if line.amount is not None]
        return add(known) if known else None

    @property
    def planned(self) -> Decimal:
        """The sum of what was planned."""
        return add(line.planned for line in self.lines if line.planned is not None)

    @property
    def orders(self) -> Sequence[str]:
        """The references of the orders, each once."""
        return list(dict.fromkeys(line.order for line in self.packages if line.order is not None))


def account(budget: Budget, paid: Sequence[Paid]) -> Account:
    """The account: what was paid replaces what was planned under its name, and stands with the other costs where nothing was.

    Of several costs of one name each payment replaces one when there are as many; else their sum replaces their sum.
    """
    payments: dict[str, list[Decimal]] = {}
    for payment in paid:
        payments.setdefault(payment.name, []).append(payment.amount)
    lines: dict[bool, list[Line]] = {True: [], False: []}
    for name, items in _by_name(budget):
        amounts = payments.pop(name, []) if name is not None else []
        if amounts and len(amounts) != len(items):
            known = [item.amount for _, item in items if item.amount is not None]
            orders = ", ".join(dict.fromkeys(item.order for _, item in items if item.order is not None))
            lines[items[0][0]].append(Line(name, add(known) if known else None, add(amounts), orders or None))
            continue
        for at, (is_package, item) in enumerate(items):
            lines[is_package].append(Line(name, item.amount, amounts[at] if amounts else None, item.order))
    lines[False] += [Line(name, None, add(amounts)) for name, amounts in payments.items()]
    return Account(lines[True], lines[False], budget.currency)


def _by_name(budget: Budget) -> Iterator[tuple[str | None, Sequence[tuple[bool, Item]]]]:
    """The items of each name, with whether each is a package; those without a name are alone."""
    named: dict[str, list[tuple[bool, Item]]] = {}
    for entry in (*((True, item) for item in budget.packages), *((False, item) for item in budget.other)):
        name = entry[1].name
        if name is None:
            yield None, [entry]
        else:
            named.setdefault(name, []).append(entry)
    yield from named.items()


def same(ids: Iterable[str], copies: Iterable[tuple[str, str]], root_of: Callable[[str], str]) -> Mapping[str, str]:
    """For each full id of a deliverable one id that stands for all that count as one with it.

    That are those under one id in a run and in its repeats (``root_of`` gives the run that a run repeats in the end), and
    ``copies``, each with what it is a copy of. What stands for a group does not depend on any order.
    """
    roots: dict[str, str] = {}

    def root(id: str) -> str:
        while roots.setdefault(id, id) != id:
            roots[id] = id = roots[roots[id]]
        return id

    def join(one: str, other: str) -> None:
        first, second = sorted((root(one), root(other)))
        roots[second] = first

    known = list(ids)
    for id in known:
        run, slash, own = id.rpartition("/")
        join(id, f"{root_of(run)}{slash}{own}")
    for copy, original in copies:
        join(copy, original)
    return {id: root(id) for id in known}


@dataclasses.dataclass(frozen=True)
class Cost:
    """What a campaign cost for how many accepted distinct results of one kind.

    ``units`` is None when no kind is named, or not everything was checked; ``reason`` says why there is no cost of one unit.
    """

    account: Account
    unit: str | None = None
    units: int | None = None
    reason: str | None = None

    @property
    def per_unit(self) -> Decimal | None:
        """The cost of one accepted distinct unit; None, never zero, where it is not defined."""
        total = self.account.total
        return divide(total, self.units) if self.reason is None and self.units and total is not None else None


def cost(account: Account, unit: str | None, units: int | None, others: str, unchecked: str | None = None) -> Cost:
    """The cost of a campaign with so many accepted distinct ``units``.

    ``others`` says what became of those that are not accepted, ``unchecked`` why the number is not known.
    """
    if unit is None:
        return Cost(account, reason="the budget names no unit")
    if unchecked is not None or units is None:
        return Cost(account, unit, None, unchecked or "the number of units is not known")
    if not units:
        return Cost(account, unit, 0, f"no accepted {unit}" + (f" ({others})" if others else ""))
    if account.open:
        names = ", ".join(line.name or "a package without a name" for line in account.open)
        return Cost(account, unit, units, f"nobody says how much was paid for {names}")
    return Cost(account, unit, units)
