"""Which files of a deliverable hold its records, and which of their fields matter."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence

from ... import record_facts
from ...campaign import Campaign, Dataset, Deliverable
from ...inventory import Entry
from ...record_facts import Columns, RecordFacts, Rows
from ..base import Evidence
from .faults import breaks

_OF_DATASETS = frozenset({"state.json", "dataset_dict.json", "dataset_info.json"})  # of Hugging Face, beside the records


def datasets(campaign: Campaign) -> Mapping[str, Dataset]:
    """The data sets that the manifest knows, by name."""
    return campaign.manifest.datasets if campaign.manifest is not None else {}


def dataset_of(campaign: Campaign, deliverable: Deliverable) -> Dataset | None:
    """The data set that predictions refer to."""
    return datasets(campaign).get(deliverable.dataset or "")


def rows_of(campaign: Campaign, deliverable: Deliverable) -> Rows:
    """The records of predictions. Where a data set is named and nobody says its key, the key is ``id``."""
    dataset = dataset_of(campaign, deliverable)
    key = tuple(deliverable.key) or (() if dataset is None else tuple(dataset.key) or ("id",))
    return Rows(record_facts.without_twins(entries(campaign, deliverable)), columns(deliverable, key))


def columns(deliverable: Deliverable, key: Sequence[str]) -> Columns:
    """The fields of a deliverable's records that matter."""
    return Columns(tuple(key), deliverable.value, deliverable.truncated_field, tuple(deliverable.file_columns))


def entries(campaign: Campaign, deliverable: Deliverable) -> Sequence[Entry]:
    """The files with records: the one, or those of a folder; there JSON counts only when no file has lines or rows."""
    files = campaign.files_of(deliverable)
    readable = [entry for path, entry in files.items() if record_facts.readable(path) and entry.size]
    if is_one_file(campaign, deliverable):
        return readable
    plain = [entry for entry in readable if record_facts.suffix(entry.path) != "json"]
    if plain or deliverable.kind != "predictions":
        return plain
    return [entry for entry in readable if posixpath.basename(entry.path) not in _OF_DATASETS]


def is_one_file(campaign: Campaign, deliverable: Deliverable) -> bool:
    """Whether a deliverable is a file rather than a folder."""
    return campaign.target(deliverable) in {entry.path for entry in campaign.files_of(deliverable).values()}


def facts(entry: Entry, wanted: Columns, evidence: Evidence) -> RecordFacts | None:
    """What is in a file, None when it cannot be opened."""
    try:
        return evidence.record_files.records(entry, wanted)
    except OSError:
        return None


def has_keys(one: RecordFacts) -> bool:
    """Whether the key of every record of a file is known."""
    return bool(one.rows) and not (breaks(one.counts) or one.no_key.count or one.odd_key.count)


def count(rows: Rows, evidence: Evidence) -> int:
    """How many records there are."""
    return sum(evidence.record_files.records(entry, rows.columns).rows for entry in rows.entries) + len(rows.ids)
