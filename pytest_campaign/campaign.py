"""The campaign as its documents and its directory describe it, and which checks it therefore needs."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

from . import paths
from .formats.base import Depth, Unit
from .inventory import Inventory

ESSENTIAL = "essential"
WEIGHTS = frozenset({"checkpoint", "adapter"})  # kinds that are reloaded whatever lies at their path


@dataclasses.dataclass(frozen=True)
class Place:
    """Where in a document something stands: ``file`` relative to the campaign and a JSON pointer."""

    file: str
    pointer: str


@dataclasses.dataclass(frozen=True)
class DeclaredFile:
    """One line of a deliverable's file list."""

    path: str
    bytes: int | None = None
    sha256: str | None = None


@dataclasses.dataclass(frozen=True)
class Deliverable:
    """One named thing that is accepted or rejected.

    ``id`` is the full id, ``<run>/<deliverable>`` or just the id at campaign level. ``path`` is normal, "" being
    the campaign directory itself. ``place`` is where the manifest lists it; None when it was discovered.
    """

    id: str
    kind: str
    path: str
    run: str | None = None
    purpose: str | None = None
    format: str | None = None
    priority: str = ESSENTIAL
    depth: Depth | None = None
    files: Sequence[DeclaredFile] = ()
    place: Place | None = None


@dataclasses.dataclass(frozen=True)
class Run:
    """One execution with one configuration under one id, as the manifest records it."""

    id: str
    status: str
    reason: str | None
    place: Place
    abort_reason: str | None = None
    parameters: str | None = None


@dataclasses.dataclass(frozen=True)
class PlannedDeliverable:
    """One deliverable that the plan promises; ``id`` is the full id."""

    id: str
    kind: str | None
    priority: str
    depth: Depth | None
    place: Place
    run: str | None = None


@dataclasses.dataclass(frozen=True)
class PlannedRun:
    """One run that the plan promises."""

    id: str
    role: str
    priority: str
    place: Place


@dataclasses.dataclass(frozen=True)
class Plan:
    """The plan; ``sha256`` is the digest of its bytes, ``source`` "campaign" or "reviewer" (``--campaign-plan``)."""

    campaign: str
    question: str
    runs: Sequence[PlannedRun]
    deliverables: Sequence[PlannedDeliverable]
    source: str
    file: str
    sha256: str


@dataclasses.dataclass(frozen=True)
class Manifest:
    """The manifest; ``plan_path`` and ``plan_sha256`` are what it says of the plan, ``raw`` the whole document."""

    campaign: str
    runs: Sequence[Run]
    deliverables: Sequence[Deliverable]
    named_paths: Sequence[str]  # every path that an entry names (plan, data sets, parameters, probes ...)
    todo: Sequence[tuple[str, str, str | None]]  # pointer, why, command
    plan_path: str | None
    plan_sha256: str | None
    raw: Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class DocumentFault:
    """One thing that is wrong with a document, with its place in it."""

    kind: str  # syntax, duplicate-key, non-finite, encoding, too-large, schema, path, unreadable, duplicate-id
    file: str
    message: str
    line: int | None = None
    column: int | None = None
    pointer: str | None = None
    observed: str | None = None
    expected: str | None = None


@dataclasses.dataclass(frozen=True)
class Campaign:
    """Everything that the checks look at. Pure data: the same from every process that builds it.

    ``manifest`` and ``plan`` are None when absent or unusable; the faults say which. ``deliverables`` are those
    that the manifest lists or, without a usable manifest, those that were discovered. ``units`` are the
    checkpoints that were recognised by their content, wherever they lie.
    """

    inventory: Inventory
    manifest: Manifest | None
    plan: Plan | None
    faults: Sequence[DocumentFault]
    deliverables: Sequence[Deliverable]
    units: Sequence[Unit]

    @property
    def name(self) -> str:
        """The campaign's id, or the directory's name where no document says it."""
        document = self.manifest or self.plan
        return document.campaign if document else self.inventory.root.rstrip("/").rpartition("/")[2] or "/"

    @functools.cached_property
    def by_id(self) -> Mapping[str, Deliverable]:
        return {deliverable.id: deliverable for deliverable in self.deliverables}

    @functools.cached_property
    def runs(self) -> Mapping[str, Run]:
        return {run.id: run for run in self.manifest.runs} if self.manifest else {}

    @functools.cached_property
    def _nested(self) -> Mapping[str, list[str]]:
        """For each deliverable's path, the paths of other deliverables below it."""
        distinct = sorted({deliverable.path for deliverable in self.deliverables})
        return {outer: [inner for inner in distinct if inner != outer and paths.inside(inner, outer)] for outer in distinct}

    def owns(self, deliverable: Deliverable, path: str) -> bool:
        """Whether a file belongs to a deliverable: at or below its path, and to no deliverable nested in it."""
        return paths.inside(path, deliverable.path) and not any(
            paths.inside(path, inner) for inner in self._nested[deliverable.path])

    def units_of(self, deliverable: Deliverable) -> Sequence[Unit]:
        """The recognised checkpoints of a deliverable."""
        return [unit for unit in self.units if self.owns(deliverable, unit.path)]

    def aborted(self, deliverable: Deliverable) -> bool:
        """Whether the deliverable's run is validly recorded as aborted: with its reason."""
        run = self.runs.get(deliverable.run or "")
        return run is not None and run.status == "aborted" and bool(run.abort_reason)


CAMPAIGN_CHECKS = ("manifest", "identifiers")


def expected_checks(campaign: Campaign, deliverable: Deliverable) -> Sequence[str]:
    """The checks that a deliverable needs to be accepted.

    Its kind decides, so that a deleted file never makes a check disappear; weights that lie there add the
    reload whatever the kind.
    """
    if deliverable.kind in WEIGHTS or campaign.units_of(deliverable):
        return ("content", "reload")
    return ("content",)
