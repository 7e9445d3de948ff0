"""Do predictions, metrics, parameters and data sets parse strictly, and are they what was promised?

`rules` holds the rules, `faults` turns what the readers find into findings, `records` judges predictions and data sets, `metrics`
metrics, `parameters` parameters, `parts` whether all parts of a set are there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from ...campaign import Campaign, Deliverable
from ...findings import Finding
from ..base import DeliverableCheck, Evidence
from . import metrics, parameters, parts, records, rules

_KINDS: Mapping[str, Callable[[Campaign, Deliverable, Evidence], Iterator[Finding]]] = {
    "predictions": records.predictions, "dataset": records.dataset, "metrics": metrics.check, "parameters": parameters.check}


def check(campaign: Campaign, deliverable: Deliverable, evidence: Evidence) -> Iterator[Finding]:
    """Findings about the records of a deliverable."""
    yield from _KINDS[deliverable.kind](campaign, deliverable, evidence)
    if deliverable.kind != "parameters":
        yield from parts.check(campaign, deliverable, evidence)


def has_records(campaign: Campaign, deliverable: Deliverable) -> bool:
    """Whether a deliverable has records by its kind."""
    return deliverable.kind in _KINDS


def absent(campaign: Campaign, deliverable: Deliverable) -> str | None:
    """Why there is nothing to read."""
    return "it is not there" if campaign.target(deliverable) is None else None


CHECK = DeliverableCheck("data", "Do the records parse strictly, with the promised ids and finite numbers?", check,
                         expected=has_records, skip=absent)
__all__ = ["CHECK", "rules"]
