"""The ids of predictions, compared as multisets: with those of the data set, or with those of the control."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence
from typing import Any

from ... import record_facts
from ...campaign import Campaign, Dataset, Deliverable
from ...findings import Finding, Level
from ...inventory import FILE
from ...key_sums import Difference, Key, Offenders
from ...readers.rows import Where
from ...record_facts import Columns, RecordFacts, Rows
from ...text import listed, number, shown
from ..base import Evidence
from . import parts, rules
from .faults import at, breaks, not_read, told
from .sources import count, dataset_of, facts, has_keys, rows_of

_USUAL = "id"  # the field that identifies a row where nobody says another one


def check(campaign: Campaign, deliverable: Deliverable, ours: Rows, evidence: Evidence) -> Iterator[Finding]:
    """Findings about the ids of predictions, of which every record has one."""
    dataset = dataset_of(campaign, deliverable)
    if dataset is not None:
        yield from _against_dataset(campaign, dataset, ours, evidence)
        return
    again = evidence.record_files.keys_repeated(ours)
    yield from repeated(again, f"{_names(ours.columns.key)} identifies no record")
    control = _of_control(campaign, deliverable)
    if not again.count and control is not None:
        yield from _against_control(control.id, rows_of(campaign, control), ours, evidence)


def check_undeclared(campaign: Campaign, deliverable: Deliverable, ours: Rows, evidence: Evidence) -> Iterator[Finding]:
    """Findings about predictions of which neither a key nor a data set is declared: they are compared with those of the control.

    Their key is that of the control, else ``id``. Where that is the number of an answer and of no row, the two have none in
    common, and nothing follows.
    """
    control = _of_control(campaign, deliverable)
    if control is None:
        return
    theirs = rows_of(campaign, control)
    columns = Columns(theirs.columns.key or (_USUAL,))
    ours, theirs = Rows(ours.entries, columns), Rows(theirs.entries, columns)
    known = [facts(entry, columns, evidence) for entry in (*ours.entries, *theirs.entries)]
    if ours.entries and theirs.entries and all(one is not None and has_keys(one) for one in known):
        differing = evidence.record_files.keys_differ(ours, theirs) or Difference()
        if differing.missing.count < count(theirs, evidence) and differing.unknown.count < count(ours, evidence):
            yield from _against_control(control.id, theirs, ours, evidence)


def _names(key: Sequence[str]) -> str:
    return shown(", ".join(key), 80)


# ---- the control ---------------------------------------------------------------------------------------------


def _against_control(control: str, theirs: Rows, ours: Rows, evidence: Evidence) -> Iterator[Finding]:
    known = [facts(entry, theirs.columns, evidence) for entry in theirs.entries]
    sound = all(one is not None and has_keys(one) for one in known)
    if not known or not sound or len(theirs.columns.key) != len(ours.columns.key):
        return  # what is wrong with the control is said there
    if difference := evidence.record_files.keys_differ(_in_order(ours, theirs.columns.key), theirs):
        sorts = (("without", difference.missing), ("more often", difference.repeated), ("with", difference.unknown))
        listed = "; ".join(f"{word} {told(sort.count, 'id', _named(sort))}" for word, sort in sorts if sort.count)
        first = next((sort.first[0][1] for _, sort in reversed(sorts) if sort.count and sort is not difference.missing), None)
        yield rules.OTHER_IDS.finding(
            f"other rows than {control}: {listed}", **at(first, ours.entries[0].path),
            observed=number(count(ours, evidence), "record"), expected=f"the ids of {control}",
            remedy="predict the same rows in both, or declare the data set of both")


def _in_order(ours: Rows, key: tuple[str, ...]) -> Rows:
    """Our records with the fields of their key in the order of ``key``, if they are the same fields."""
    if ours.columns.key == key or sorted(ours.columns.key) != sorted(key):
        return ours
    return Rows(ours.entries, Columns(key), ours.ids)


def _of_control(campaign: Campaign, deliverable: Deliverable) -> Deliverable | None:
    """What the control delivers under the same id, None for the control itself and where there is none."""
    if campaign.manifest is None or deliverable.run is None:
        return None
    controls = [run.id for run in campaign.manifest.runs if campaign.role(run.id) == "control" and run.status == "completed"]
    if deliverable.run in controls:
        return None
    own = deliverable.id.rpartition("/")[2]
    found = (campaign.by_id.get(f"{control}/{own}") for control in controls)
    return next((other for other in found if other is not None and other.kind == deliverable.kind), None)


# ---- the data set --------------------------------------------------------------------------------------------


def _against_dataset(campaign: Campaign, dataset: Dataset, ours: Rows, evidence: Evidence) -> Iterator[Finding]:
    theirs = _rows(campaign, dataset, ours.columns.key, evidence)
    if isinstance(theirs, Finding):
        yield theirs
        return
    key, times = theirs.columns.key, 1
    ours = _in_order(ours, key)
    if len(key) < len(ours.columns.key) and set(key) < set(ours.columns.key):  # several predictions of each row, as many of each
        again = evidence.record_files.keys_repeated(ours)
        yield from repeated(again, f"{_names(ours.columns.key)} identifies no record")
        if again.count:
            return
        ours = Rows(ours.entries, Columns(key))
        times = max(1, round(count(ours, evidence) / max(1, count(theirs, evidence))))
    elif len(key) != len(ours.columns.key):
        yield rules.DATASET.finding(
            f"the data set {shown(dataset.name, 60)} goes by {_names(key)}, its predictions by {_names(ours.columns.key)}",
            **_place(dataset), observed=_names(ours.columns.key), expected=_names(key), remedy="name the same fields in both")
        return
    if difference := evidence.record_files.keys_differ(ours, theirs, times):
        yield from _difference(difference, shown(dataset.name, 60), ours.entries[0].path, {
            "observed": number(count(ours, evidence), "record"),
            "expected": f"{number(times * count(theirs, evidence), 'record')}, the ids of {shown(dataset.name, 60)}"})


def _difference(difference: Difference, name: str, path: str, counts: dict[str, Any]) -> Iterator[Finding]:
    missing, unknown = difference.missing, difference.unknown
    if missing.count:
        yield rules.MISSING_IDS.finding(
            f"rows of the data set {name} without a prediction, {told(missing.count, 'id', _named(missing))}", path=path,
            remedy="predict the missing rows", **counts)
    yield from repeated(difference.repeated, f"more often than in the data set {name}", **counts)
    if unknown.count:
        yield rules.UNKNOWN_IDS.finding(
            f"not in the data set {name}, {told(unknown.count, 'id', _named(unknown))}", **at(unknown.first[0][1], path),
            remedy="predict the rows of the data set, and carry its ids along as text", **counts)


def repeated(again: Offenders, why: str, level: Level | None = None, **counts: Any) -> Iterator[Finding]:
    """A finding about keys that occur too often, if there are any."""
    if again.count:
        yield rules.REPEATED_IDS.finding(
            f"{why}, {told(again.count, 'id', _named(again))}", **at(again.first[0][1], ""), level=level,
            remedy="keep one record for each row; if there are several on purpose, put their number into key", **counts)


def _named(offenders: Offenders) -> list[tuple[str, Where | None]]:
    return [(_text(key), where) for key, where in offenders.first]


def _text(key: Key) -> str:
    return key[0] if len(key) == 1 else f"({', '.join(key)})"


def _place(dataset: Dataset) -> dict[str, Any]:
    return {"path": dataset.place.file, "pointer": dataset.place.pointer}


def _rows(campaign: Campaign, dataset: Dataset, key: tuple[str, ...], evidence: Evidence) -> Rows | Finding:
    """The rows of a data set, or what keeps them from being compared."""
    fields, name = tuple(dataset.key) or key, shown(dataset.name, 60)
    if dataset.ids is not None:
        return Rows((), Columns(fields), tuple(tuple(str(part) for part in id) for id in dataset.ids))
    entry = campaign.inventory.resolve(dataset.path or "")
    if entry is None:
        return rules.DATASET.finding(
            f"the data set {name} is not there: {shown((dataset.path or '').rstrip(chr(0)), 200)}", **_place(dataset),
            observed="nothing", expected="its file", remedy="deliver it, or list its ids in the manifest")
    entries = (entry,) if entry.kind == FILE else record_facts.without_twins(
        found for seen, found in campaign.inventory.files(entry.path)
        if record_facts.readable(seen) and record_facts.suffix(seen) != "json" and found.size)
    if not entries or not all(record_facts.readable(item.path) for item in entries):
        return rules.NOT_COMPARED.finding(
            f"the data set {name} ({shown(entry.path, 200)}) is in a format that is not read here", **_place(dataset),
            remedy="list its ids in the manifest, or deliver them as JSON Lines or CSV")
    for of, there in parts.parts(posixpath.basename(item.path) for item in entries).items():
        missing, first = parts.lacking(of, there)
        if missing and not parts.is_sample(of, there):
            return rules.DATASET.finding(
                f"the data set {name} lacks {number(missing, 'part')} of {of.total:,}: {shown(listed(first, 5), 200)}",
                **_place(dataset), observed=f"{len(there):,} parts", expected=f"{of.total:,}", remedy="deliver the missing parts")
    rows = Rows(entries, Columns(fields))
    for item in entries:
        known = facts(item, rows.columns, evidence)
        if known is None:
            return rules.NOT_COMPARED.finding(f"the data set {name} cannot be read", path=item.path,
                                              remedy="change its permission")
        if (unread := not_read(known.faults)) is not None:
            return rules.NOT_COMPARED.finding(f"the data set {name} was not read: {unread[0].message}", path=item.path,
                                              observed=unread[0].observed, remedy=unread[1])
        if not has_keys(known):
            return rules.DATASET.finding(
                f"the ids of the data set {name} cannot be taken from {shown(item.path, 200)}: {_problem(known, fields)}",
                **_place(dataset), remedy="repair the data set, or correct its key in the manifest")
    return rows


def _problem(known: RecordFacts, key: Sequence[str]) -> str:
    """Why the ids of a data set are not known."""
    if breaks(known.counts):
        first = known.faults[0]
        return first.message + (f" (line {first.line:,})" if first.line is not None else "")
    if known.no_key.count:
        return f"{number(known.no_key.count, 'row has', 'rows have')} no {_names(key)}"
    return shown(known.odd_key.first[0][1], 100) if known.odd_key.count else "it has no rows"
