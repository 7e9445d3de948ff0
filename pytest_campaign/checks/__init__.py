"""The checks, one module each, and which of them a campaign needs.

Every module here that defines ``CHECK`` takes part, with the rules that it defines (a package: those of its
module ``rules``); nothing has to be registered. One that asks the same of the campaign as a whole, of what belongs to no
deliverable, defines ``CAMPAIGN_CHECK`` as well.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ..campaign import Campaign, Deliverable
from ..findings import Level, Rule
from .base import CampaignCheck, Check, DeliverableCheck, rules_of

RAISED = Rule("check.raised", Level.WARNING, """
    A check of this tool raised an exception, so its question stays open.

    That is a fault of the tool. The other checks are not affected.

    Fix: report it with the message.
    """, unanswered=True)


class Pair(NamedTuple):
    """One check that is needed: of a deliverable (its full id), or of the campaign as a whole (None)."""

    deliverable: str | None
    check: str


@functools.cache
def _modules() -> Sequence[tuple[Sequence[Check], Sequence[Rule]]]:
    found: list[tuple[Sequence[Check], Sequence[Rule]]] = []
    for info in sorted(pkgutil.iter_modules(__path__), key=lambda info: info.name):
        module = importlib.import_module(f"{__name__}.{info.name}")
        own = [getattr(module, name, None) for name in ("CHECK", "CAMPAIGN_CHECK")]
        if checks := [check for check in own if isinstance(check, (CampaignCheck, DeliverableCheck))]:
            found.append((checks, tuple(rules_of(vars(getattr(module, "rules", module))))))
    return found


@functools.cache
def campaign_checks() -> Mapping[str, CampaignCheck]:
    """The checks of a campaign as a whole, by name."""
    return {check.name: check for own, _ in _modules() for check in own if isinstance(check, CampaignCheck)}


@functools.cache
def deliverable_checks() -> Mapping[str, DeliverableCheck]:
    """The checks of one deliverable by name, the cheap ones first."""
    checks = [check for own, _ in _modules() for check in own if isinstance(check, DeliverableCheck)]
    return {check.name: check for check in sorted(checks, key=lambda check: check.cost)}


@functools.cache
def all_rules() -> Mapping[str, Rule]:
    """Every rule by its code, check by check."""
    return {rule.code: rule for rule in (RAISED, *(rule for _, rules in _modules() for rule in rules))}


def expected(campaign: Campaign) -> Sequence[Pair]:
    """Every check that the campaign needs, in the order in which they run.

    Documents and recognised content decide, never what was selected or what happens to lie at a path: deleting
    a file does not make its check disappear. The cheap checks of all deliverables come before any reload.
    """
    pairs = [Pair(None, name) for name in campaign_checks()]
    for name, check in deliverable_checks().items():
        pairs += [Pair(d.id, name) for d in campaign.by_id.values() if check.expected(campaign, d)]
    return pairs


def skip_reason(campaign: Campaign, deliverable: Deliverable, check: str) -> str | None:
    """Why the question makes no sense for this deliverable, or None."""
    return deliverable_checks()[check].skip(campaign, deliverable)
