"""Was it decided what follows from the runs that were aborted or dropped?"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..campaign import ESSENTIAL, Campaign
from ..findings import Finding, Level, Rule
from .base import CampaignCheck, Evidence

UNDECIDED = Rule("plan.abort-undecided", Level.ERROR, """
    An essential run was aborted or not executed, and no decision names it.

    The campaign was bought to answer a question. When a run without which it cannot be answered as planned ends
    early or is dropped, somebody has to say what follows from that: a negative or inconclusive outcome is a valid end.

    Usual causes: the decision was written before the abort, or not at all.

    Fix: name the run in `decision.based_on` (or in its summary) and say what follows.
    """)


def check(campaign: Campaign, evidence: Evidence) -> Iterator[Finding]:
    """Findings about runs that did not come to their end."""
    if campaign.manifest is None:
        return
    priorities = {run.id: run.priority for run in campaign.plan.runs} if campaign.plan else {}
    decision = campaign.manifest.decision or {}
    words = (word.strip("._-") for word in re.findall(r"[A-Za-z0-9._-]+", decision.get("summary", "")))
    named = {*decision.get("based_on", ()), *words}
    for run in campaign.manifest.runs:
        essential = priorities.get(run.id, run.priority) == ESSENTIAL
        if run.status != "completed" and essential and run.id not in named:
            what = f"aborted ({run.abort_reason})" if run.status == "aborted" else f"not executed ({run.reason})"
            yield UNDECIDED.finding(
                f"the essential run {run.id} was {what} and no decision names it",
                path=run.place.file, pointer="/decision", remedy=f"name {run.id} in decision.based_on and say what follows")


CHECK = CampaignCheck("plan", "Is there a decision that names the runs that were aborted or dropped?", check)
