"""Does what happened agree with what was planned: aborts and the decision that follows from them?"""

from __future__ import annotations

from collections.abc import Iterator

from ..campaign import ESSENTIAL, Campaign
from ..findings import Finding, Level, Rule
from .base import CampaignCheck, Evidence

UNDECIDED = Rule("plan.abort-undecided", Level.ERROR, """
    An essential run was aborted and no decision names it.

    The campaign was bought to answer a question. When a run without which it cannot be answered as planned ends
    early, somebody has to say what follows from that: a negative or inconclusive outcome is a valid end.

    Usual causes: the decision was written before the abort, or not at all.

    Fix: name the run in `decision.based_on` (or in its summary) and say what follows.
    """)
NO_REASON = Rule("plan.abort-without-reason", Level.ERROR, """
    A run is recorded as aborted without a reason.

    An aborted run keeps its id and its reason. Without the reason it cannot be told from a run that was lost.

    Fix: add `abort.reason`, and `abort.rule` when an announced rule ended it.
    """)


def check(campaign: Campaign, evidence: Evidence) -> Iterator[Finding]:
    """Findings about aborted runs."""
    if campaign.manifest is None:
        return
    priorities = {run.id: run.priority for run in campaign.plan.runs} if campaign.plan else {}
    decision = campaign.manifest.decision or {}
    named = {*decision.get("based_on", ())}
    for run in campaign.manifest.runs:
        if run.status != "aborted":
            continue
        if not run.abort_reason:
            yield NO_REASON.finding(f"run {run.id} is aborted and has no reason", path=run.place.file,
                                    pointer=run.place.pointer, remedy="add abort.reason to the run")
        elif priorities.get(run.id, run.priority) == ESSENTIAL and run.id not in named and run.id not in decision.get("summary", ""):
            yield UNDECIDED.finding(
                f"the essential run {run.id} was aborted ({run.abort_reason}) and no decision names it",
                path=run.place.file, pointer="/decision", remedy=f"name {run.id} in decision.based_on and say what follows")


CHECK = CampaignCheck("plan", "Have aborted runs a reason, and a decision that names them?", check)
