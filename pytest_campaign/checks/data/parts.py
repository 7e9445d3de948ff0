"""Sets of records in numbered parts (``train-00000-of-00004.parquet``), and data sets of Hugging Face: is every part there?

Hugging Face datasets and TensorFlow count parts from 0, others from 1; the names say how many there are. ``save_to_disk`` of the
library datasets lists the files of a data set in ``state.json`` (``_data_files``), and its splits in ``dataset_dict.json``.
"""

from __future__ import annotations

import itertools
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from ... import paths
from ...campaign import Campaign, Deliverable
from ...findings import Finding, Level
from ...text import listed, number, shown
from ..base import Evidence
from ..training_log import read_object
from . import rules
from .sources import is_one_file

STATE, SPLITS = "state.json", "dataset_dict.json"
_PART = re.compile(
    r"(?P<before>.*?(?:(?<![0-9])(?=[0-9]{4})|(?:part|shard|chunk|rank)[-_.]?))(?P<number>[0-9]{1,9})"
    r"(?P<after>[-_]of[-_](?P<count>[0-9]{1,9})(?![0-9]))(?:-[0-9a-f]{8,64}(?=\.))?(?P<end>.*)", re.I)
_PLACE = re.compile(r"(?:checkpoint|ckpt|epoch|step|iter(?:ation)?)[-_.=]?$", re.I)
_COPY = "copy the missing parts; if they were never written, write the set again"
_SHOWN = 10
_MANY = 10  # parts of which a single one may be a sample


class Parts(NamedTuple):
    """A set of parts: what all their names have before and behind the number, and how many there should be."""

    before: str
    after: str
    total: int


def parts(names: Iterable[str]) -> Mapping[Parts, Mapping[int, str]]:
    """The sets of which files are parts by their names, each with the numbers that are there as they are written.

    ``step-0500-of-1000`` is a place in a training and no part.
    """
    found: dict[Parts, dict[int, str]] = {}
    for name in names:
        if (part := _PART.fullmatch(name)) is not None and _PLACE.search(part["before"]) is None:
            of = Parts(part["before"], part["after"] + part["end"], int(part["count"]))
            found.setdefault(of, {})[int(part["number"])] = part["number"]
    return found


def lacking(of: Parts, there: Mapping[int, str]) -> tuple[int, list[str]]:
    """How many parts of a set are missing, and the names of the first; of both candidates where it may count from 0 or from 1."""
    starts = [0] if 0 in there else [1] if of.total in there else [0, 1]
    count = min(of.total - sum(start <= at < start + of.total for at in there) for start in starts)
    digits = min(map(len, there.values()))
    missing = (at for at in range(starts[0], starts[-1] + of.total) if at not in there)
    names = (f"{of.before}{at:0{digits}}{of.after}" for at in missing)
    return count, list(itertools.islice(names, _SHOWN)) if count else []


def is_sample(of: Parts, there: Mapping[int, str], alone: bool = False) -> bool:
    """Whether what is there may be meant as a sample: one part of many, or one that is named ``alone``."""
    return len(there) == 1 and (alone or of.total >= _MANY)


def check(campaign: Campaign, deliverable: Deliverable, evidence: Evidence) -> Iterator[Finding]:
    """Findings about parts that are missing of the sets to which the files of a deliverable belong."""
    files = campaign.files_of(deliverable)
    by_folder: dict[str, list[str]] = {}
    told: set[str] = set()
    for path, entry in files.items():
        folder, name = posixpath.split(path)
        by_folder.setdefault(folder, []).append(name)
        for named in _named(name, read_object(evidence, entry) or {}) if name in (STATE, SPLITS) else ():
            missing = posixpath.normpath(paths.join(folder, named))
            if paths.fault(named) is None and not campaign.inventory.exists(missing) and campaign.hidden(missing) is None:
                told.add(missing)
                yield rules.PARTS.finding(f"{path} names it, and it is not there", path=missing, observed="nothing",
                                          expected="a part of the data set", remedy="copy it, or save the data set again")
    for folder, names in by_folder.items():
        for of, there in parts(names).items():
            yield from _gap(campaign, deliverable, folder, of, there, told)


def _named(document: str, content: Mapping[str, Any]) -> Iterator[str]:
    """The files that the state of a data set names, or the folders of its splits."""
    items = content.get("_data_files" if document == STATE else "splits")
    for item in items if isinstance(items, list) else ():
        name = item.get("filename") if isinstance(item, dict) else item
        if isinstance(name, str):
            yield name


def _gap(campaign: Campaign, deliverable: Deliverable, folder: str, of: Parts, there: Mapping[int, str],
         told: set[str]) -> Iterator[Finding]:
    """A finding when the set of some parts in a folder is not complete: neither there nor with what lies in other folders."""
    there = {**there, **_of(campaign, folder, of)}
    if lacking(of, there)[0]:
        there = {**there, **_elsewhere(campaign, deliverable, folder, of)}
    count, names = lacking(of, there)
    missing = [paths.join(folder, name) for name in names]
    said = {*told, *(other.path for other in campaign.deliverables)} if missing else set()
    if not said.issuperset(missing):
        sample = is_sample(of, there, is_one_file(campaign, deliverable))
        which = f"{'one of ' * (len(names) > count)}{shown(listed(names, 5), 300)}"
        yield rules.PARTS.finding(
            f"{number(count, 'part')} of {of.total:,} {'is' if count == 1 else 'are'} missing: {which}", path=missing[0],
            level=Level.WARNING if sample else None, observed=f"{len(there):,} of {number(of.total, 'part')}",
            expected=f"all {of.total:,}", remedy=_COPY)


def _of(campaign: Campaign, folder: str, of: Parts) -> Mapping[int, str]:
    """The parts of a set that lie in a folder, whichever deliverable they belong to."""
    return parts(posixpath.basename(entry.path) for entry in campaign.inventory.children(folder)).get(of, {})


def _elsewhere(campaign: Campaign, deliverable: Deliverable, folder: str, of: Parts) -> Mapping[int, str]:
    """The parts of a set that was split over folders: those in other folders of the run where it is not whole either."""
    others = [other for other in campaign.deliverables if other.run == deliverable.run]
    folders = {posixpath.dirname(path) for other in others for path in campaign.files_of(other)} - {folder}
    found = [there for other in sorted(folders) if (there := _of(campaign, other, of)) and lacking(of, there)[0]]
    return {at: text for there in found for at, text in there.items()}
