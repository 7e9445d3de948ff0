"""Predictions and data sets: whether their records parse and have the fields that they should have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ... import record_facts
from ...campaign import Campaign, Deliverable
from ...findings import Finding, Level
from ...inventory import Entry
from ...record_facts import Columns, Places, RecordFacts, Rows
from ...text import number, shown
from .. import content
from ..base import Evidence
from . import ids, rules
from .faults import at, breaks, found
from .sources import columns, datasets, entries, facts, has_keys, is_one_file, rows_of

FOREIGN = frozenset({  # formats of records, for which another reader would be needed
    "arrow", "feather", "orc", "avro", "xlsx", "xls", "pkl", "pickle", "npy", "npz", "h5", "hdf5", "db", "sqlite",
    "gz", "bz2", "xz", "zst", "zip", "wandb"})


def predictions(campaign: Campaign, deliverable: Deliverable, evidence: Evidence) -> Iterator[Finding]:
    """Findings about predictions."""
    ours = rows_of(campaign, deliverable)
    if not ours.entries:
        yield from _without_records(campaign, deliverable, ours.columns.key)
        return
    known = []
    for entry in ours.entries:
        one = facts(entry, ours.columns, evidence)
        if one is None:
            yield not_opened(entry.path)
            return
        known.append(one)
        yield from _parsed(campaign, deliverable, entry, one, evidence)
        yield from _fields(deliverable, entry.path, one, ours.columns)
    yield from _empty(ours, known)
    if not ours.columns.key:
        yield from ids.check_undeclared(campaign, deliverable, ours, evidence)
    elif all(map(has_keys, known)):
        yield from ids.check(campaign, deliverable, ours, evidence)


def dataset(campaign: Campaign, deliverable: Deliverable, evidence: Evidence) -> Iterator[Finding]:
    """Findings about a data set that is delivered; files that hold no records by their names are left alone."""
    for entry in entries(campaign, deliverable):
        declared = next((other for other in datasets(campaign).values()
                         if other.path is not None and campaign.inventory.resolve(other.path) == entry), None)
        key = tuple(declared.key) if declared is not None and declared.key else tuple(deliverable.key)
        wanted = columns(deliverable, key)
        known = facts(entry, wanted, evidence)
        if known is None:
            yield not_opened(entry.path)
            continue
        yield from _parsed(campaign, deliverable, entry, known, evidence)
        yield from _fields(deliverable, entry.path, known, wanted)
        if declared is not None and declared.rows not in (None, known.rows) and known.rows and not breaks(known.counts):
            yield rules.ROWS.finding(
                f"{number(known.rows, 'row')}, and the manifest says {declared.rows:,}", path=entry.path,
                observed=number(known.rows, "row"), expected=f"{declared.rows:,}", remedy="copy it again, or correct rows")
        if key and has_keys(known):
            again = evidence.record_files.keys_repeated(Rows((entry,), wanted))
            yield from ids.repeated(again, "the key of the data set identifies no row", Level.WARNING)


def not_opened(path: str) -> Finding:
    """A finding about a file that cannot be opened; the check of the content says why."""
    return rules.NOT_READ.finding("it cannot be read, or it changed while it was read", path=path,
                                  remedy="change its permission, or wait until everything is written")


def _without_records(campaign: Campaign, deliverable: Deliverable, key: Sequence[str]) -> Iterator[Finding]:
    """Predictions without a file of a format that is read here; what has no bytes is said by the check of the content."""
    names = [path for path, entry in campaign.files_of(deliverable).items() if entry.size]
    foreign = next((name for name in names if record_facts.suffix(name) in FOREIGN), None)
    if foreign is not None and key:
        yield rules.NOT_READ.finding(
            f"a file of the sort .{record_facts.suffix(foreign)} is not read here, so its ids were not compared", path=foreign,
            remedy="deliver it as JSON Lines or CSV as well (pandas: df.to_json(path, orient='records', lines=True))")
    elif names and key:
        fields = shown(", ".join(key), 80)
        yield rules.NO_ID.finding(
            f"a plain file has no field {fields}: what stands in it belongs to a row by its position only", path=names[0],
            observed="no records", expected=f"records with {fields}",
            remedy="write JSON Lines or CSV with the id of the row in every record")
    elif names:
        suffix = shown(record_facts.suffix(names[0]), 20)
        yield rules.OTHER_FORMAT.finding(f"a file of the sort .{suffix} is not read here, and no key or data set is declared",
                                         path=names[0], remedy="none; records with ids prove more")


def _parsed(campaign: Campaign, deliverable: Deliverable, entry: Entry, known: RecordFacts,
            evidence: Evidence) -> Iterator[Finding]:
    names = known.names or ()
    twice = {name for name in names if names.count(name) > 1}
    matter = twice & {*deliverable.key, deliverable.value, deliverable.truncated_field, *deliverable.file_columns}
    yield from found(entry.path, known.faults, known.counts, level=None if matter else Level.WARNING)
    if not known.rows and not breaks(known.counts):
        yield from no_rows(campaign, deliverable, entry, names, evidence)


def no_rows(campaign: Campaign, deliverable: Deliverable, entry: Entry, names: Sequence[str],
            evidence: Evidence) -> Iterator[Finding]:
    """A finding about a file without records, unless the check of the content sees it too."""
    if is_one_file(campaign, deliverable) and content.says_no_records(deliverable, entry, evidence):
        return
    what = f"only the header {', '.join(names)}" if names else "no record"
    yield rules.NO_ROWS.finding(f"the file holds {shown(what, 200)}", path=entry.path, observed="0 records",
                                expected="at least one record", remedy="run what writes it again, and look at its input")


def _fields(deliverable: Deliverable, path: str, known: RecordFacts, wanted: Columns) -> Iterator[Finding]:
    """Fields that are absent, or hold what they may not."""
    seen = f"columns {shown(', '.join(known.names), 100)}" if known.names else "no such field"
    key, value = shown(", ".join(wanted.key), 80), shown(wanted.value or "", 60)
    if places := known.no_key:
        yield rules.NO_ID.finding(
            f"{_lacking(places, known)} the key {key}{_next(places)}", **at(places.first[0][0], path), observed=seen,
            expected=key, remedy="write the id of the row into every record, or correct key in the manifest")
    if places := known.odd_key:
        text = shown(places.first[0][1], 100)
        yield rules.ID_TYPE.finding(
            f"{number(places.count, 'id')} cannot be compared: {text}{_next(places)}", **at(places.first[0][0], path),
            observed=text, expected="a text or an integer", remedy="write ids as texts or integers")
    if (places := known.no_value) and known.no_key.count < known.rows:  # else it is another file
        yield rules.NO_VALUE.finding(
            f"{_lacking(places, known)} the value {value}{_next(places)}", **at(places.first[0][0], path), observed=seen,
            expected=value, remedy="predict these rows again, or correct value in the manifest")
    nullable = wanted.value in deliverable.nullable
    if (places := known.null) and known.filled and not nullable:
        yield rules.NULL.finding(
            f"{value} is null in {number(places.count, 'record')}{_next(places)}", **at(places.first[0][0], path),
            observed="null", expected="a value", remedy=f"predict these rows, or list {value} in nullable")
    if (places := known.not_finite) and not known.texts and not nullable:
        text = shown(places.first[0][1], 20)
        yield rules.NON_FINITE.finding(
            f"{value} is {text} in {number(places.count, 'record')}{_next(places)}", **at(places.first[0][0], path),
            observed=text, expected="a finite number", remedy=f"find out why; or write null and list {value} in nullable")
    if places := known.truncated:
        yield rules.CUT_INPUTS.finding(
            f"{number(places.count, 'input was', 'inputs were')} cut short, of {number(known.rows, 'record')}{_next(places)}",
            **at(places.first[0][0], path), observed=f"{shown(wanted.truncated or '', 60)} is true", expected="whole inputs",
            remedy="predict these rows with a sufficient length")
    absent = [name for name in (wanted.truncated, *wanted.files) if name is not None and name not in known.seen]
    if absent and known.rows and not breaks(known.counts) and known.no_key.count < known.rows:
        listed = shown(", ".join(absent), 100)
        yield rules.NO_VALUE.finding(
            f"no record has the declared {'field' if len(absent) == 1 else 'fields'} {listed}", path=path, observed=seen,
            expected=listed, remedy="write the field, or correct truncated_field and file_columns in the manifest")
    if (places := known.without_file) and not {text for _, text in places.first} <= {*deliverable.nullable}:
        name = shown(places.first[0][1], 60)
        yield rules.LOST_FILE.finding(
            f"{number(places.count, 'record names', 'records name')} no file in {name}{_next(places)}",
            **at(places.first[0][0], path), observed="an empty text", expected="a file in the campaign",
            remedy=f"make the missing files, or list {name} in nullable")
    if places := known.lost_files:
        text = shown(places.first[0][1], 200)
        yield rules.LOST_FILE.finding(
            f"{number(places.count, 'name of a file leads', 'names of files lead')} nowhere: {text}{_next(places)}",
            **at(places.first[0][0], path), observed=text, expected="a file in the campaign",
            remedy="deliver the files, and write their paths relative to the campaign directory")


def _lacking(places: Places, known: RecordFacts) -> str:
    return "no record has" if places.count == known.rows else number(places.count, "record lacks", "records lack")


def _next(places: Places) -> str:
    """Where the others stand, after a message that says how many there are."""
    listed = ", ".join(shown(str(where), 80) for where, _ in places.first[1:] if str(where))
    return f"; the next: {listed}" if listed else ""


def _empty(ours: Rows, known: Sequence[RecordFacts]) -> Iterator[Finding]:
    """A finding when no record has content: no value or, where none is declared, nothing beside its key."""
    rows, value = sum(one.rows for one in known), ours.columns.value
    absent = sum(one.no_value.count for one in known)
    if rows > absent and not any(one.filled for one in known) and (value is not None or ours.columns.key):
        what = f"the value {shown(value, 60)} is" if value is not None else "all fields beside the key are"
        yield rules.ALL_EMPTY.finding(
            f"{what} empty in all {number(rows, 'record')}", path=ours.entries[0].path, observed="0 values",
            expected="at least one value", remedy="run it again and look at its output")
