"""Are the planned runs and deliverables all there, and none besides; is any output claimed by nobody?

`rules` holds the rules, `planned` compares plan and manifest, `claims` looks for files that nobody claims, `origins` for what
comes from another run, and `likeness` for runs and deliverables that are alike although their ids differ.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...campaign import Campaign
from ...findings import Finding
from ...snapshot import MANIFEST
from ..base import CampaignCheck, Evidence
from . import claims, likeness, origins, planned
from . import rules as rules  # where the registry looks for the rules of a check that is a package


def check(campaign: Campaign, evidence: Evidence) -> Iterator[Finding]:
    """Findings about plan against manifest, and about outputs that are claimed by nobody or belong elsewhere."""
    listed = {f"{d.place.pointer}/id": d.id for d in campaign.deliverables if d.place is not None}
    for fault in campaign.faults:
        if fault.file == MANIFEST and fault.kind == "duplicate-id":
            yield rules.DUPLICATE.finding(
                fault.message, path=fault.file, line=fault.line, column=fault.column, pointer=fault.pointer,
                observed=fault.observed, expected=fault.expected, deliverable=listed.get(fault.pointer or ""),
                remedy="give the later one a new id")
    yield from planned.plan_state(campaign)
    if campaign.manifest is None:
        return
    if campaign.plan is not None:
        yield from planned.runs(campaign, campaign.plan)
        yield from planned.deliverables(campaign, campaign.plan)
    yield from claims.unclaimed(campaign, evidence)
    yield from origins.check(campaign, evidence)
    yield from likeness.check(campaign, evidence)


CHECK = CampaignCheck("identifiers", "Is what was planned all there, and is every output claimed?", check)
