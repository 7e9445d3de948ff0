"""Are the planned runs and deliverables all there, and none besides; is any output claimed by nobody?"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator

from .. import paths
from ..campaign import ESSENTIAL, Campaign, Plan
from ..declarations import BAGIT, FETCH
from ..file_names import is_aside, is_checkpoint
from ..findings import Finding, Level, Rule
from ..inventory import FILE, FOLDER
from ..snapshot import MANIFEST
from .base import CampaignCheck, Evidence

MISSING_RUN = Rule("identifiers.missing-run", Level.ERROR, """
    A planned run is not in the manifest.

    The comparison that the campaign was bought for needs every essential run, also one that was aborted: it keeps
    its id and its reason. A missing run that was only useful or exploratory is shown and rejects nothing.

    Usual causes: the run was renamed; its manifest was written into another directory; it never ran.

    Fix: add the run, with status completed, aborted or not_run and the reason.
    """, at_source=True)
MISSING_DELIVERABLE = Rule("identifiers.missing-deliverable", Level.ERROR, """
    A planned deliverable is not in the manifest.

    It was promised before the first run, and nothing says what became of it. One that was only useful or
    exploratory is shown as not delivered and rejects nothing.

    Usual causes: the last save never finished; the file was left on the rented machine; the id differs.

    Fix: fetch or make the file while the machine is still there, and list it under the planned id.
    """, at_source=True)
UNPLANNED_RUN = Rule("identifiers.unplanned-run", Level.ERROR, """
    The manifest lists a run that the plan does not know.

    A plan is compared with what happened, never rewritten. A run that supersedes an aborted one or repeats
    another one is an expected deviation and only noted.

    Usual causes: a renamed run; a run of another campaign in the same directory.

    Fix: give the run its planned id, or say what it `supersedes` or is a `repeat_of`.
    """)
UNPLANNED_DELIVERABLE = Rule("identifiers.unplanned-deliverable", Level.WARNING, """
    A run delivers something that the plan does not promise.

    It is checked like everything else. It may be a planned deliverable under another id.

    Fix: none is needed when it is an extra; else give it the planned id.
    """)
KIND = Rule("identifiers.other-kind", Level.ERROR, """
    A deliverable has another kind than the plan promises under that id.

    What was promised is a checkpoint, say, and what is listed is a log.

    Fix: list the promised output under the promised id.
    """)
CAMPAIGN_ID = Rule("identifiers.other-campaign", Level.ERROR, """
    Plan and manifest belong to different campaigns.

    Usual causes: a plan or a manifest that was copied from an earlier campaign.

    Fix: put the plan of this campaign beside its manifest.
    """)
DUPLICATE = Rule("identifiers.duplicate", Level.ERROR, """
    Two runs or two deliverables have the same id.

    An id names one configuration and its outputs. Ids that differ only in case are the same on many file
    systems.

    Usual causes: a corrected configuration under the old id; a copied entry.

    Fix: give the later one a new id; a run that corrects another one `supersedes` it.
    """)
PLAN_CHANGED = Rule("identifiers.plan-changed", Level.ERROR, """
    The plan is not the one that the manifest recorded when the campaign started.

    A plan that changes after the first result is no plan. The digest in the manifest is the campaign's own claim;
    a reviewer who has a copy passes it with --campaign-plan.

    Usual causes: the plan was edited to fit what happened; its line ends were converted on the way.

    Fix: restore the plan as it was, and record deviations in the manifest.
    """)
PLAN_MISSING = Rule("identifiers.plan-missing", Level.ERROR, """
    The manifest names a plan that is not there.

    What was promised can then not be compared with what was delivered.

    Fix: copy the plan into the directory, or pass the reviewer's copy with --campaign-plan.
    """)
PLAN_INVALID = Rule("identifiers.plan-invalid", Level.ERROR, """
    The plan is no valid plan, so what was promised cannot be compared with what was delivered.

    Fix: restore the plan as it was written before the first run; `schemas/plan-1.schema.json` describes its form.
    """)
PLAN_UNREADABLE = Rule("identifiers.plan-unreadable", Level.WARNING, """
    The plan is there and could not be read by the user who runs the check.

    Fix: change the permission, run the check as the owner, or pass the reviewer's copy with --campaign-plan.
    """, unanswered=True)
NO_PLAN = Rule("identifiers.no-plan", Level.NOTE, """
    There is no plan: what is expected is what the manifest itself lists.

    That is honest and proves less: the manifest then sets its own goal. Nobody should write a plan afterwards.

    Fix: none now; write plan.json before the first run of the next campaign.
    """)
NOT_RUN = Rule("identifiers.not-run", Level.NOTE, """
    A planned run was not executed, and the manifest gives the reason.

    Runs may be dropped at the decision point. Their deliverables are not expected.
    """)
UNCLAIMED = Rule("identifiers.unclaimed", Level.WARNING, """
    Files in the directory belong to no deliverable.

    Nobody vouches for them, nothing checks them, and the next person cannot tell whether they matter.

    Usual causes: an output that was forgotten in the manifest; leftovers of an interrupted save; scratch files.

    Fix: list them as deliverables, or remove them.
    """)

_SHOWN = 10


_PLAN_FAULTS = {
    "unreadable": (PLAN_UNREADABLE, "change its permission, or pass --campaign-plan=FILE"),
    "no-file": (PLAN_MISSING, "copy the plan itself into the directory, or pass --campaign-plan=FILE"),
}


def _listed(names: Iterable[str]) -> str:
    names = list(names)
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")


def _plan_state(campaign: Campaign, evidence: Evidence) -> Iterator[Finding]:
    manifest, plan = campaign.manifest, campaign.plan
    for fault in campaign.faults:
        if fault.file != MANIFEST:
            rule, remedy = _PLAN_FAULTS.get(fault.kind, (PLAN_INVALID, "restore the plan as it was before the first run"))
            yield rule.finding(fault.message, path=fault.file, line=fault.line, column=fault.column, pointer=fault.pointer,
                               observed=fault.observed, expected=fault.expected, remedy=remedy)
    broken = any(fault.file != MANIFEST for fault in campaign.faults)
    if plan is None and manifest is not None and not broken:
        if manifest.plan_path is not None:
            yield PLAN_MISSING.finding(
                f"the manifest names the plan {manifest.plan_path}, which is not there", path=manifest.plan_path,
                remedy="copy the plan into the directory, or pass --campaign-plan=FILE")
        else:
            yield NO_PLAN.finding("no plan: what is expected is what the manifest lists", path=MANIFEST,
                                  remedy="none; do not write a plan afterwards")
    for copy in filter(None, (plan, campaign.plan_copy)):
        if manifest is not None and manifest.plan_sha256 is not None and copy.sha256 != manifest.plan_sha256:
            whose = "the reviewer's copy of the plan" if copy.source == "reviewer" else "the plan"
            yield PLAN_CHANGED.finding(
                f"{whose} is not the one that the manifest recorded", path=copy.file, observed=f"sha256 {copy.sha256}",
                expected=f"sha256 {manifest.plan_sha256}", remedy="restore the plan as it was when the campaign started")
    if plan is not None and manifest is not None and plan.campaign != manifest.campaign:
        yield CAMPAIGN_ID.finding(
            f"the plan is of campaign {plan.campaign}, the manifest of {manifest.campaign}", path=MANIFEST, pointer="/campaign",
            observed=manifest.campaign, expected=plan.campaign, remedy="put the plan of this campaign beside the manifest")


def _level(priority: str) -> Level:
    return Level.ERROR if priority == ESSENTIAL else Level.NOTE


def _runs(campaign: Campaign, plan: Plan) -> Iterator[Finding]:
    planned = {run.id: run for run in plan.runs}
    for run in plan.runs:
        record = campaign.runs.get(run.id)
        if record is None:
            yield MISSING_RUN.finding(
                f"the planned run {run.id} is not in the manifest ({run.priority})", level=_level(run.priority), path=MANIFEST,
                pointer="/runs", expected=run.id, observed=_listed(campaign.runs) or "no run",
                remedy=f"add run {run.id} with its status; an aborted or dropped run keeps its id and reason")
        elif record.status == "not_run":
            yield NOT_RUN.finding(f"the planned run {run.id} was not executed: {record.reason}", path=record.place.file,
                                  pointer=record.place.pointer, remedy="none")
    for id, record in campaign.runs.items():
        if id not in planned:
            origin = record.supersedes or record.repeat_of
            relation = "supersedes" if record.supersedes else "repeats"
            yield UNPLANNED_RUN.finding(
                f"run {id} is not planned" + (f"; it {relation} {origin}" if origin else ""),
                level=Level.NOTE if origin in planned else None, path=record.place.file, pointer=record.place.pointer,
                expected=_listed(planned), remedy="give it its planned id, or say what it supersedes or is a repeat_of")


def _deliverables(campaign: Campaign, plan: Plan) -> Iterator[Finding]:
    for planned in campaign.not_listed:
        level = Level.NOTE if campaign.aborted(planned.run) else _level(planned.priority)
        kind = f", a {planned.kind}," if planned.kind else ""
        yield MISSING_DELIVERABLE.finding(
            f"{planned.id}{kind} is planned and not in the manifest ({planned.priority})", level=level, path=planned.place.file,
            pointer=planned.place.pointer, deliverable=planned.id,
            remedy=f"fetch or make it while the machine is still there, and list it as {planned.id}")
    promises = {planned.id: planned for planned in plan.deliverables}
    for deliverable in campaign.deliverables:
        file, pointer = (deliverable.place.file, deliverable.place.pointer) if deliverable.place else (MANIFEST, None)
        promised = promises.get(deliverable.id)
        if promised is None:
            if deliverable.run is None or deliverable.run in {run.id for run in plan.runs}:
                yield UNPLANNED_DELIVERABLE.finding(f"{deliverable.id} is delivered and not planned", path=file, pointer=pointer,
                                                    deliverable=deliverable.id, remedy="none, if it is an extra")
        elif promised.kind and promised.kind != deliverable.kind:
            yield KIND.finding(
                f"{deliverable.id} is planned as {promised.kind} and listed as {deliverable.kind}",
                level=Level.NOTE if campaign.aborted(deliverable.run) else None, path=file, pointer=pointer,
                deliverable=deliverable.id, observed=deliverable.kind, expected=promised.kind,
                remedy="list the promised output under this id")


def _unclaimed(campaign: Campaign) -> Iterator[Finding]:
    """Files that no document and no deliverable names; of empty files, links and pipes those that promise weights."""
    assert campaign.manifest is not None
    named = {paths.normal(path) for path in campaign.manifest.named_paths if paths.fault(path) is None}
    named |= {MANIFEST, "plan.json", campaign.manifest.plan_path or "plan.json"}
    owned = {target for d in campaign.deliverables if (target := campaign.target(d)) is not None}
    # A set of files may be named by its index alone; its members lie beside it.
    named |= {file for d in campaign.deliverables for unit in campaign.units_of(d) for file in unit.files}
    bags = (posixpath.split(entry.path) for entry in campaign.inventory.entries)
    named |= {paths.join(folder, FETCH) for folder, name in bags if name == BAGIT}
    left = []
    for entry in campaign.inventory.entries:
        matters = (entry.kind == FILE and entry.size > 0) or (entry.kind != FOLDER and is_checkpoint(entry.path))
        if not matters or entry.path in named:
            continue
        above = entry.path
        while above and above not in owned and above not in named:
            above = posixpath.dirname(above)
        if above or "" in owned:
            continue
        if not is_aside(entry.path):
            left.append(entry.path)
    if left:
        files = "1 file belongs" if len(left) == 1 else f"{len(left)} files belong"
        yield UNCLAIMED.finding(
            f"{files} to no deliverable: {_listed(left)}", path=left[0],
            remedy="list them in the manifest as deliverables, or remove them")


def check(campaign: Campaign, evidence: Evidence) -> Iterator[Finding]:
    """Findings about plan against manifest, and about files that neither claims."""
    listed = {f"{d.place.pointer}/id": d.id for d in campaign.deliverables if d.place is not None}
    for fault in campaign.faults:
        if fault.file == MANIFEST and fault.kind == "duplicate-id":
            yield DUPLICATE.finding(fault.message, path=fault.file, line=fault.line, column=fault.column, pointer=fault.pointer,
                                    observed=fault.observed, expected=fault.expected, deliverable=listed.get(fault.pointer or ""),
                                    remedy="give the later one a new id")
    yield from _plan_state(campaign, evidence)
    if campaign.manifest is None:
        return
    if campaign.plan is not None:
        yield from _runs(campaign, campaign.plan)
        yield from _deliverables(campaign, campaign.plan)
    yield from _unclaimed(campaign)


CHECK = CampaignCheck("identifiers", "Is what was planned all there, and is every output claimed?", check)
