"""The state of a directory at one moment, taken once and carried to every process that checks it."""

from __future__ import annotations

import base64
import dataclasses
import json
import os
import posixpath
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from . import inventory as table
from .campaign import Asked, Campaign, DocumentFault, Earlier, Manifest, Plan
from .formats.base import Unit
from .inventory import FILE, SPECIAL, UNKNOWN, Entry, Inventory
from .readers.strict_json import MOST_BYTES

MANIFEST = "manifest.json"
MANIFEST_IN_WORK = ".manifest.json.part"  # left behind where a process was killed while it recorded
PLAN = "plan.json"
REPORT_STEM = "campaign-report."


@dataclasses.dataclass(frozen=True)
class Document:
    """The bytes of a document, or why there are none (both None: nothing is there).

    ``kind`` tells a document that could not be read ("unreadable") from one that is no file ("no-file").
    """

    file: str
    data: bytes | None
    problem: str | None = None
    kind: str = "unreadable"


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """What one walk saw: the file table, the recognised checkpoints, and the documents' bytes."""

    inventory: Inventory
    units: Sequence[Unit]
    unread: Mapping[str, str]
    manifest: Document
    plan: Document
    reviewer_plan: Document | None

    def to_text(self) -> str:
        """One ASCII line of JSON, which every channel between processes carries unharmed."""
        return json.dumps({
            "inventory": self.inventory.to_json(),
            "units": [dataclasses.asdict(unit) for unit in self.units],
            "unread": dict(self.unread),
            "documents": [_pack(document) for document in (self.manifest, self.plan, self.reviewer_plan)],
        })

    @classmethod
    def from_text(cls, text: str) -> Self:
        """The snapshot that `to_text` wrote."""
        data = json.loads(text)
        manifest, plan, reviewer_plan = (_unpack(document) for document in data["documents"])
        assert manifest is not None
        assert plan is not None
        return cls(Inventory.from_json(data["inventory"]),
                   tuple(Unit.from_json(unit) for unit in data["units"]),
                   data["unread"], manifest, plan, reviewer_plan)


def _pack(document: Document | None) -> list[str | None] | None:
    if document is None:
        return None
    data = base64.b85encode(document.data).decode("ascii") if document.data is not None else None
    return [document.file, data, document.problem, document.kind]


def _unpack(packed: list[str | None] | None) -> Document | None:
    if packed is None:
        return None
    file, data, problem, kind = packed
    return Document(file or "", base64.b85decode(data) if data is not None else None, problem, kind or "")


def take(directory: str | os.PathLike[str], plan: str | os.PathLike[str] | None = None) -> Snapshot:
    """Look at a directory once. ``plan`` is the reviewer's own copy; OSError when that cannot be read."""
    from .discovery import recognise

    inventory = table.take(directory, ignore=_is_no_output)
    units, unread = recognise(inventory)
    reviewer_plan = None if plan is None else Document(os.fspath(plan), Path(plan).read_bytes())
    manifest = _document(inventory, MANIFEST)
    return Snapshot(inventory, units, unread, manifest, _document(inventory, _plan_path(manifest)), reviewer_plan)


def _is_no_output(path: str) -> bool:
    """Reports that the user puts into the directory are no output of the campaign, nor is a manifest that was never finished."""
    return "/" not in path and (path.startswith(REPORT_STEM) or path == MANIFEST_IN_WORK)


def _plan_path(manifest: Document) -> str:
    """Where the manifest says that the plan lies; the default where it says nothing usable."""
    from .documents import plan_path

    return plan_path(manifest.data) or PLAN


def _document(inventory: Inventory, path: str) -> Document:
    entry = inventory.resolve(path)
    if entry is None:
        link = inventory.by_path.get(path)
        problem = None if link is None else f"it is a link to {link.link!r}, which leads to nothing in the directory"
        return Document(path, None, problem, "no-file")
    if entry.kind == UNKNOWN:
        return Document(path, None, entry.problem)
    if entry.kind != FILE:
        return Document(path, None, _what_it_is(entry), "no-file")
    try:
        return Document(path, inventory.read(entry, MOST_BYTES + 1))
    except OSError as error:
        return Document(path, None, error.strerror or str(error))


def _what_it_is(entry: Entry) -> str:
    return f"it is no regular file but a {'pipe, a socket or a device' if entry.kind == SPECIAL else entry.kind}"


def campaign(snapshot: Snapshot, asked: Asked, baseline: Sequence[Earlier] = ()) -> Campaign:
    """The campaign that a snapshot shows; pure, so that every process arrives at the same one.

    ``baseline`` are the campaigns of an earlier report, of which one may be this one.
    """
    from .baseline import matching
    from .discovery import discovered
    from .documents import read_manifest, read_plan

    faults: list[DocumentFault] = []
    manifest: Manifest | None = None
    if snapshot.manifest.data is not None:
        manifest, found = read_manifest(snapshot.manifest.data, snapshot.manifest.file)
        faults += found
    elif snapshot.manifest.problem:
        faults.append(DocumentFault(snapshot.manifest.kind, snapshot.manifest.file, snapshot.manifest.problem))
    own: Plan | None = None
    if snapshot.plan.data is not None:
        own, found = read_plan(snapshot.plan.data, snapshot.plan.file, "campaign")
        faults += found
    elif snapshot.plan.problem:
        faults.append(DocumentFault(snapshot.plan.kind, snapshot.plan.file, snapshot.plan.problem))
    plan = own
    if snapshot.reviewer_plan is not None:
        plan, found = read_plan(snapshot.reviewer_plan.data or b"", posixpath.basename(snapshot.reviewer_plan.file), "reviewer")
        faults += found
    deliverables = manifest.deliverables if manifest else discovered(snapshot.inventory, snapshot.units)
    seen = Campaign(
        inventory=snapshot.inventory, manifest=manifest, plan=plan,
        plan_copy=own if snapshot.reviewer_plan is not None else None,
        faults=faults, deliverables=deliverables, units=snapshot.units, unread=snapshot.unread, asked=asked)
    return dataclasses.replace(seen, earlier=matching(baseline, seen.name, snapshot.inventory.root)) if baseline else seen
