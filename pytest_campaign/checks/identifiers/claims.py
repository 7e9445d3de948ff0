"""Which files no document and no deliverable claims."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from ... import paths
from ...campaign import Campaign
from ...declarations import BAGIT, FETCH
from ...file_names import is_aside, is_checkpoint
from ...findings import Finding
from ...inventory import FILE, FOLDER
from ...snapshot import MANIFEST
from ...text import listed
from ..base import Evidence
from ..data import sources
from . import rules


def unclaimed(campaign: Campaign, evidence: Evidence) -> Iterator[Finding]:
    """Files that no document and no deliverable names; of empty files, links and pipes those that promise weights."""
    assert campaign.manifest is not None
    named = {paths.normal(path) for path in campaign.manifest.named_paths if paths.fault(path) is None}
    named |= {MANIFEST, "plan.json", campaign.manifest.plan_path or "plan.json"}
    owned = {target for d in campaign.deliverables if (target := campaign.target(d)) is not None}
    # A set of files may be named by its index alone; its members lie beside it.
    named |= {file for d in campaign.deliverables for unit in campaign.units_of(d) for file in unit.files}
    named |= _of_records(campaign, evidence)
    bags = (posixpath.split(entry.path) for entry in campaign.inventory.entries)
    named |= {paths.join(folder, FETCH) for folder, name in bags if name == BAGIT}
    claimed = owned | (named - {""})
    left = []
    for entry in campaign.inventory.entries:
        matters = (entry.kind == FILE and entry.size > 0) or (entry.kind != FOLDER and is_checkpoint(entry.path))
        if matters and not paths.within(entry.path, claimed) and not is_aside(entry.path):
            left.append(entry.path)
    if left:
        files = "1 file belongs" if len(left) == 1 else f"{len(left)} files belong"
        yield rules.UNCLAIMED.finding(
            f"{files} to no deliverable: {listed(left)}", path=left[0],
            remedy="list them in the manifest as deliverables, or remove them")


def _of_records(campaign: Campaign, evidence: Evidence) -> set[str]:
    """The files that predictions name, record by record, in the columns that are there for it."""
    found: set[str] = set()
    for deliverable in campaign.deliverables:
        if deliverable.file_columns and deliverable.kind == "predictions":
            rows = sources.rows_of(campaign, deliverable)
            for entry in rows.entries:
                known = sources.facts(entry, rows.columns, evidence)
                if known is not None:
                    found |= {paths.normal(name) for name in known.files if paths.fault(name) is None}
    return found
