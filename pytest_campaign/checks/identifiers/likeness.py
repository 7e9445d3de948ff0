"""What is alike although its ids differ: copies, repeats, and variants with the parameters of the control."""

from __future__ import annotations

import itertools
import json
import posixpath
from collections.abc import Iterator, Mapping, Sequence

from ...campaign import Campaign, Deliverable, Run
from ...file_names import in_tool_folder, series
from ...findings import Finding, Level
from ...inventory import Entry
from ...parameters import Parameters, differences
from ...text import listed, number, shown
from ..base import Evidence
from . import rules
from .origins import STEP

_WEIGHTS = frozenset({"model.safetensors", "adapter_model.safetensors"})
_LONGEST_HEADER = 16 << 20
_MOST_COMPARED = 100  # with each other
_Listed = tuple[Entry, Mapping[str, tuple[object, object]]]


def check(campaign: Campaign, evidence: Evidence) -> Iterator[Finding]:
    """Findings about outputs and parameters of runs that are the same."""
    yield from _copies(campaign, evidence)
    for run in campaign.runs.values():
        if run.repeat_of is not None:
            yield rules.REPEAT.finding(f"run {run.id} repeats {run.repeat_of}: their outputs count once", path=run.place.file,
                                       pointer=run.place.pointer, remedy="none")
    yield from _parameters(campaign, evidence)
    yield from _tensors(campaign, evidence)


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


def _tensors(campaign: Campaign, evidence: Evidence) -> Iterator[Finding]:
    """Steps of one training whose safetensors files list other tensors than most of them, or than the step before."""
    for members in campaign.inventory.series.values():
        entries = [entry for entry in members if _holds_tensors(entry.path)]
        if len(entries) < 2:
            continue
        headers = [(entry, header) for entry in entries if (header := _header(evidence, entry)) is not None]
        for (before, wanted), (entry, header) in _pairs(headers):
            lost, new = sorted(wanted.keys() - header.keys()), sorted(header.keys() - wanted.keys())
            other = sorted(name for name in wanted.keys() & header.keys() if wanted[name] != header[name])
            if not (lost or new or other):
                continue
            parts = [f"{number(len(names), 'tensor')} {what} ({listed(names, 3)})"
                     for names, what in ((lost, "less"), (new, "more"), (other, "of another type or shape")) if names]
            owner = campaign.deliverable_around(entry.path)
            if owner is None or not campaign.aborted(owner.run):
                yield rules.OTHER_TENSORS.finding(
                    f"compared with {before.path}: {', '.join(parts)}", path=entry.path, pointer=(lost + new + other)[0],
                    deliverable=owner.id if owner else None, observed=number(len(header), "tensor"),
                    expected=number(len(wanted), "tensor"), remedy="save it again, or take the checkpoint before")


def _holds_tensors(path: str) -> bool:
    """Whether a file of a series is to list the same tensors at each step: the model, or a file that is a step by itself."""
    name = posixpath.basename(path)
    return (name in _WEIGHTS or (name.endswith(".safetensors") and series(name) is not None)) and not in_tool_folder(path)


def _pairs(headers: Sequence[_Listed]) -> Iterator[tuple[_Listed, _Listed]]:
    """Each that may be unlike, after what it is compared with: one of the many that agree, or the one before."""
    for listed_one in headers:
        alike = sum(listed_one[1] == header for _, header in headers)
        if 2 * alike > len(headers) > 2:
            yield from ((listed_one, other) for other in headers if other[1] != listed_one[1])
            return
        if len(headers) > _MOST_COMPARED:
            break
    yield from itertools.pairwise(headers)


def _header(evidence: Evidence, entry: Entry) -> Mapping[str, tuple[object, object]] | None:
    """Type and shape of each tensor of a safetensors file; None when it has no header that can be read."""
    try:
        length = int.from_bytes(evidence.head(entry)[:8], "little")
        if length > _LONGEST_HEADER:
            return None
        header = json.loads(evidence.content(entry, 8 + length)[8:])
        return {name: (value["dtype"], value["shape"]) for name, value in header.items() if name != "__metadata__"}
    except (OSError, ValueError, RecursionError, AttributeError, TypeError, KeyError):
        return None  # the reload says what is wrong with it


def _related(campaign: Campaign, one: Deliverable, other: Deliverable) -> bool:
    """Whether one run repeats or was resumed from the other, or both repeat the same one."""
    runs = [campaign.runs.get(deliverable.run or "") for deliverable in (one, other)]
    roots = {campaign.root_of(run.id) for run in runs if run is not None}
    origins = {run.resumed_from for run in runs if run is not None}
    return len(roots) == 1 or not origins.isdisjoint({one.run, other.run, one.id, other.id, one.path, other.path})


def _parameters(campaign: Campaign, evidence: Evidence) -> Iterator[Finding]:
    known = evidence.parameters(campaign)
    delivering = {deliverable.run for deliverable in campaign.deliverables}
    delivered = {deliverable.path for deliverable in campaign.deliverables if deliverable.kind == "parameters"}
    completed = [run for run in campaign.runs.values() if run.status == "completed" and run.id in delivering]
    if completed and not known:
        first = completed[0].place
        yield rules.NO_PARAMETERS.finding(
            f"no run names its parameters ({number(len(completed), 'completed run')})", level=Level.NOTE, path=first.file,
            pointer=first.pointer, remedy="name the file with its hyperparameters in parameters of each run")
    for run in campaign.runs.values():
        own = known.get(run.id)
        if own is None:
            if known and run.status == "completed" and run.id in delivering:
                yield rules.NO_PARAMETERS.finding(
                    f"run {run.id} has no parameters, and {listed(known)} {'has' if len(known) == 1 else 'have'}",
                    path=run.place.file, pointer=run.place.pointer, remedy=f"name the file in parameters of run {run.id}")
        elif own.fault is not None and own.path not in delivered:  # of a deliverable the check of the data says it
            yield rules.UNREADABLE_PARAMETERS.finding(
                f"the parameters of run {run.id} cannot be read: {own.fault}", path=own.path,
                remedy="write them as JSON, YAML, TOML or INI")
        elif own.fault is None:
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
