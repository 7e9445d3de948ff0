"""What the plan promises against what the manifest lists, in both directions."""

from __future__ import annotations

from collections.abc import Iterator

from ...campaign import Campaign, Plan
from ...findings import Finding, Level
from ...snapshot import MANIFEST
from ...text import listed
from . import rules

_PLAN_FAULTS = {
    "unreadable": (rules.PLAN_UNREADABLE, "change its permission, or pass --campaign-plan=FILE"),
    "no-file": (rules.PLAN_MISSING, "copy the plan itself into the directory, or pass --campaign-plan=FILE"),
}


def plan_state(campaign: Campaign) -> Iterator[Finding]:
    """Findings about the plan itself: whether it is there, valid, unchanged, and of this campaign."""
    manifest, plan = campaign.manifest, campaign.plan
    for fault in campaign.faults:
        if fault.file != MANIFEST:
            rule, remedy = _PLAN_FAULTS.get(fault.kind, (rules.PLAN_INVALID, "restore the plan as it was before the first run"))
            yield rule.finding(fault.message, path=fault.file, line=fault.line, column=fault.column, pointer=fault.pointer,
                               observed=fault.observed, expected=fault.expected, remedy=remedy)
    broken = any(fault.file != MANIFEST for fault in campaign.faults)
    if plan is None and manifest is not None and not broken:
        if manifest.plan_path is not None:
            yield rules.PLAN_MISSING.finding(
                f"the manifest names the plan {manifest.plan_path}, which is not there", path=manifest.plan_path,
                remedy="copy the plan into the directory, or pass --campaign-plan=FILE")
        else:
            yield rules.NO_PLAN.finding("no plan: what is expected is what the manifest lists", path=MANIFEST,
                                  remedy="none; do not write a plan afterwards")
    for copy in filter(None, (plan, campaign.plan_copy)):
        if manifest is not None and manifest.plan_sha256 is not None and copy.sha256 != manifest.plan_sha256:
            whose = "the reviewer's copy of the plan" if copy.source == "reviewer" else "the plan"
            yield rules.PLAN_CHANGED.finding(
                f"{whose} is not the one that the manifest recorded", path=copy.file, observed=f"sha256 {copy.sha256}",
                expected=f"sha256 {manifest.plan_sha256}", remedy="restore the plan as it was when the campaign started")
    if plan is not None and manifest is not None and plan.campaign != manifest.campaign:
        yield rules.CAMPAIGN_ID.finding(
            f"the plan is of campaign {plan.campaign}, the manifest of {manifest.campaign}", path=MANIFEST, pointer="/campaign",
            observed=manifest.campaign, expected=plan.campaign, remedy="put the plan of this campaign beside the manifest")


def _level(campaign: Campaign, priority: str) -> Level:
    """How grave it is that something of this priority is missing."""
    return Level.ERROR if campaign.gates(priority, missing=True) else Level.NOTE


def runs(campaign: Campaign, plan: Plan) -> Iterator[Finding]:
    """Findings about runs that are planned and not listed, or listed and not planned."""
    planned = {run.id: run for run in plan.runs}
    for run in plan.runs:
        record = campaign.runs.get(run.id)
        if record is None:
            yield rules.MISSING_RUN.finding(
                f"the planned run {run.id} is not in the manifest ({run.priority})", level=_level(campaign, run.priority),
                path=MANIFEST, pointer="/runs", expected=run.id, observed=listed(campaign.runs) or "no run",
                remedy=f"add run {run.id} with its status; an aborted or dropped run keeps its id and reason")
        elif record.status == "not_run":
            yield rules.NOT_RUN.finding(f"the planned run {run.id} was not executed: {record.reason}", path=record.place.file,
                                  pointer=record.place.pointer, remedy="none")
    for id, record in campaign.runs.items():
        if id not in planned:
            origin = record.supersedes or record.repeat_of
            relation = "supersedes" if record.supersedes else "repeats"
            yield rules.UNPLANNED_RUN.finding(
                f"run {id} is not planned" + (f"; it {relation} {origin}" if origin else ""),
                level=Level.NOTE if origin in planned else None, path=record.place.file, pointer=record.place.pointer,
                expected=listed(planned), remedy="give it its planned id, or say what it supersedes or is a repeat_of")


def deliverables(campaign: Campaign, plan: Plan) -> Iterator[Finding]:
    """Findings about deliverables that are planned and not listed, listed and not planned, or of another kind."""
    for planned in campaign.not_listed:
        level = Level.NOTE if campaign.aborted(planned.run) else _level(campaign, planned.priority)
        kind = f", a {planned.kind}," if planned.kind else ""
        yield rules.MISSING_DELIVERABLE.finding(
            f"{planned.id}{kind} is planned and not in the manifest ({planned.priority})", level=level, path=planned.place.file,
            pointer=planned.place.pointer, deliverable=planned.id,
            remedy=f"fetch or make it while the machine is still there, and list it as {planned.id}")
    promises = {planned.id: planned for planned in plan.deliverables}
    detailed = {planned.run for planned in plan.deliverables}
    for deliverable in campaign.deliverables:
        file, pointer = (deliverable.place.file, deliverable.place.pointer) if deliverable.place else (MANIFEST, None)
        promised = promises.get(deliverable.id)
        if promised is None:
            if deliverable.run is None or deliverable.run in campaign.planned_runs:
                yield rules.UNPLANNED_DELIVERABLE.finding(
                    f"{deliverable.id} is delivered and not planned", path=file,
                    level=None if deliverable.run in detailed else Level.NOTE, pointer=pointer, deliverable=deliverable.id,
                    remedy="none, if it is an extra")
        elif promised.kind and promised.kind != deliverable.kind:
            yield rules.KIND.finding(
                f"{deliverable.id} is planned as {promised.kind} and listed as {deliverable.kind}",
                level=Level.NOTE if campaign.aborted(deliverable.run) else None, path=file, pointer=pointer,
                deliverable=deliverable.id, observed=deliverable.kind, expected=promised.kind,
                remedy="list the promised output under this id")
