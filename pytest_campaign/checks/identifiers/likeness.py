"""What is alike although its ids differ: copies, repeats, and variants with the parameters of the control."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...campaign import Campaign, Deliverable, Run
from ...findings import Finding, Level
from ...parameters import Parameters, differences
from ...text import listed, number, shown
from ..base import Evidence
from . import rules
from .origins import STEP


def check(campaign: Campaign, evidence: Evidence) -> Iterator[Finding]:
    """Findings about outputs and parameters of runs that are the same."""
    yield from _copies(campaign, evidence)
    for run in campaign.runs.values():
        if run.repeat_of is not None:
            yield rules.REPEAT.finding(f"run {run.id} repeats {run.repeat_of}: their outputs count once", path=run.place.file,
                                       pointer=run.place.pointer, remedy="none")
    yield from _parameters(campaign, evidence)


def _copies(campaign: Campaign, evidence: Evidence) -> Iterator[Finding]:
    for id, original in evidence.copies(campaign).items():
        copy, first = campaign.by_id[id], campaign.by_id[original]
        if copy.path == first.path:
            continue  # one folder that is delivered for two purposes
        steps = STEP.search(copy.path) is not None and STEP.search(first.path) is not None
        suspicious = steps if copy.run == first.run else not _related(campaign, copy, first)
        yield rules.COPY.finding(
            f"{id} holds the same bytes as {original}: they count once", path=copy.path, deliverable=id,
            level=None if suspicious else Level.NOTE, observed=f"the content of {first.path}",
            expected="weights that were trained further" if steps else "the output of its own run" if suspicious else None,
            remedy="look for the run's own output while the machine is still there" if suspicious else "none")


def _related(campaign: Campaign, one: Deliverable, other: Deliverable) -> bool:
    """Whether one run repeats or was resumed from the other, or both repeat the same one."""
    runs = [campaign.runs.get(deliverable.run or "") for deliverable in (one, other)]
    roots = {campaign.root_of(run.id) for run in runs if run is not None}
    origins = {run.resumed_from for run in runs if run is not None}
    return len(roots) == 1 or not origins.isdisjoint({one.run, other.run, one.id, other.id, one.path, other.path})


def _parameters(campaign: Campaign, evidence: Evidence) -> Iterator[Finding]:
    known = evidence.parameters(campaign)
    delivering = {deliverable.run for deliverable in campaign.deliverables}
    for run in campaign.runs.values():
        own = known.get(run.id)
        if own is None:
            if known and run.status == "completed" and run.id in delivering:
                yield rules.NO_PARAMETERS.finding(
                    f"run {run.id} has no parameters, and {listed(known)} {'has' if len(known) == 1 else 'have'}",
                    path=run.place.file, pointer=run.place.pointer, remedy=f"name the file in parameters of run {run.id}")
        elif own.fault is not None:
            yield rules.UNREADABLE_PARAMETERS.finding(
                f"the parameters of run {run.id} cannot be read: {own.fault}", path=own.path,
                remedy="write them as JSON, YAML, TOML or INI")
        else:
            yield from _seed(run, own)
    yield from _variants(campaign, known)


def _seed(run: Run, own: Parameters) -> Iterator[Finding]:
    written = own.values.get("seed")
    if run.seed is not None and written is not None and written != str(run.seed):
        yield rules.TWO_CONFIGURATIONS.finding(
            f"the manifest says that run {run.id} had seed {run.seed}, its parameters say {shown(written, 40)}",
            level=Level.WARNING, path=own.path, pointer="/seed", observed=written, expected=str(run.seed),
            remedy="correct the wrong one; a run with another seed has an id of its own")


def _variants(campaign: Campaign, known: Mapping[str, Parameters]) -> Iterator[Finding]:
    control = known.get(campaign.control or "")
    if control is None or control.fault is not None:
        return
    for id, own in known.items():
        if campaign.role(id) == "variant" and own.fault is None and not campaign.aborted(id) \
                and not any(difference.matters for difference in differences(control.values, own.values)):
            yield rules.SAME_PARAMETERS.finding(
                f"variant {id} has the same parameters as the control {campaign.control}", path=own.path,
                observed=f"{number(len(own.values), 'parameter')}, none of which differs", expected="at least one that differs",
                remedy="write what the variant changes into its parameters; where it lies in the code, say so in provenance")
