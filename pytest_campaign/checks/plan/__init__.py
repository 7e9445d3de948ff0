"""Did the campaign go as it was planned, and is it said where it did not?

`rules` holds the rules, `runs` judges how the runs ended, `abort_rules` says which rules could not be applied, `times` the
schedule and the decision point, `costs` what was paid. The plan is compared with what happened and never rewritten; that it is
unchanged is asked by the check of the identifiers.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...campaign import Campaign
from ...findings import Finding
from ..base import CampaignCheck, Evidence
from . import abort_rules, costs, times
from . import rules as rules  # where the registry looks for the rules of a check that is a package
from . import runs as runs_


def check(campaign: Campaign, evidence: Evidence) -> Iterator[Finding]:
    """Findings about runs, times and costs against the plan."""
    plan, manifest = campaign.plan, campaign.manifest
    if plan is not None:
        yield from times.planned(plan)
    if manifest is not None:
        yield from runs_.check(campaign, manifest, evidence)
        yield from abort_rules.not_applied(campaign, manifest, evidence)
        yield from times.recorded(manifest)
    if plan is not None and manifest is not None:
        yield from times.compared(campaign, plan, manifest)
        yield from times.decided(campaign, plan, manifest)
    yield from costs.check(campaign, evidence)


CHECK = CampaignCheck("plan", "Did it go as planned, and is each deviation, abort and decision recorded?", check)
