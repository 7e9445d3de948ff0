"""What is known about the files of records in a campaign: each read once for the fields that matter, and their keys compared."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator

from . import key_sums, machine_paths, metric_facts, parquet_tables, paths, record_facts
from .inventory import Entry, Inventory
from .key_sums import Difference, Hasher, Keys, Offenders, Sums
from .metric_facts import MetricFacts, Wanted
from .readers.rows import Item, Where
from .record_facts import PARQUET, Columns, RecordFacts, Rows
from .reload.protocol import Progress, Table


class RecordFiles:
    """Predictions, data sets and metrics of one campaign.

    ``runner`` reads Parquet tables in a fresh process; ``progress`` gives what is to be told how far that is, if anything.
    """

    def __init__(self, inventory: Inventory, runner: parquet_tables.Runner,
                 progress: Callable[[], Callable[[Progress], None] | None]) -> None:
        self._inventory = inventory
        self._progress = progress
        self._hasher = Hasher()
        self._tables = parquet_tables.Tables(inventory.root, runner)
        self._records: dict[tuple[str, Columns], RecordFacts] = {}
        self._metrics: dict[tuple[str, Wanted], MetricFacts] = {}

    def records(self, entry: Entry, columns: Columns) -> RecordFacts:
        """What one pass over a file of records shows; OSError as for `head`."""
        if (entry.path, columns) not in self._records:
            self._records[entry.path, columns] = record_facts.gather(
                entry.path, self._items(entry, columns), columns, self._hasher, self._leads_nowhere)
        return self._records[entry.path, columns]

    def metrics(self, entry: Entry, wanted: Wanted) -> MetricFacts:
        """What one pass over a file of metrics shows; OSError as for `head`."""
        if (entry.path, wanted) not in self._metrics:
            if record_facts.suffix(entry.path) == PARQUET:
                rows = self._tables.rows(entry, Table(as_text=True), self._progress())
                self._metrics[entry.path, wanted] = metric_facts.of_table(entry.path, rows, wanted)
            else:
                opened = functools.partial(self._inventory.stream, entry)
                self._metrics[entry.path, wanted] = metric_facts.gather(entry.path, entry.size, opened, wanted)
        return self._metrics[entry.path, wanted]

    def keys_differ(self, ours: Rows, theirs: Rows, times: int = 1) -> Difference | None:
        """How one multiset of keys differs from another, of which each counts so many times; None where they are equal."""
        own, other = self._sums(ours), self._sums(theirs)
        if not own.differing(other, times):
            return None
        return key_sums.difference(self._hasher, (own, self._keys(ours)), (other, self._keys(theirs)), times)

    def keys_repeated(self, rows: Rows) -> Offenders:
        """The keys that occur more than once."""
        return key_sums.repeated(self._hasher, (self._sums(rows), self._keys(rows)))

    def _sums(self, rows: Rows) -> Sums:
        sums = Sums()
        for entry in rows.entries:
            sums += self.records(entry, rows.columns).sums
        for key in rows.ids:
            sums.add(self._hasher(key))
        return sums

    def _keys(self, rows: Rows) -> Keys:
        def keys() -> Iterator[tuple[key_sums.Key, Where | None]]:
            for entry in rows.entries:
                yield from record_facts.keys(entry.path, self._items(entry, rows.columns), rows.columns.key)
            yield from ((key, None) for key in rows.ids)

        return keys

    def _items(self, entry: Entry, columns: Columns) -> Iterator[Item]:
        if record_facts.suffix(entry.path) == PARQUET:
            return self._tables.rows(entry, Table(*dataclasses.astuple(columns)), self._progress())
        return record_facts.read(entry.path, entry.size, functools.partial(self._inventory.stream, entry), columns)

    def _leads_nowhere(self, path: str) -> str | None:
        """Why the name of a file in a record leads to nothing here; None for what the check of paths speaks of."""
        if machine_paths.parse(path) is not None or "://" in path:
            return None
        fault = paths.fault(path)
        if fault is not None:
            return fault
        return None if self._inventory.exists(paths.normal(path)) else "it is not in the campaign directory"
