"""The campaign as its documents and its directory describe it, and which checks it therefore needs."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import functools
from collections.abc import Mapping, Sequence
from typing import Any

from . import paths
from .file_names import is_checkpoint
from .formats.base import Depth, Unit
from .inventory import FILE, FOLDER, LINK, Entry, Inventory
from .ledger import Budget, Paid
from .schedule import Measured, Schedule

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
class Base:
    """What the manifest says of a base model. ``name`` is its name in ``bases``, None when it stands at a deliverable.

    ``revision`` is as written, exact or not; ``path`` is where it lies in the campaign, normal; ``sha256`` has the digests of
    its files by their paths in its folder.
    """

    model: str
    place: Place
    name: str | None = None
    revision: str | None = None
    path: str | None = None
    sha256: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Dataset:
    """A data set that predictions refer to.

    ``path`` is the file with its rows, normal; None when ``ids`` holds them: one key tuple for each row. ``key`` are the fields
    that together identify a row, ``rows`` and ``sha256`` what the manifest says of the file.
    """

    name: str
    place: Place
    path: str | None = None
    ids: Sequence[tuple[str | int, ...]] | None = None
    key: Sequence[str] = ()
    rows: int | None = None
    sha256: str | None = None


@dataclasses.dataclass(frozen=True)
class Deliverable:
    """One named thing that is accepted or rejected.

    ``id`` is the full id, ``<run>/<deliverable>`` or just the id at campaign level. ``path`` is normal, "" being
    the campaign directory itself. ``place`` is where the manifest lists it; None when it was discovered.
    ``probe`` is the path of a recorded input and output, normal as ``path`` is.
    ``dataset`` is the name of the data set of predictions, ``key`` the fields that identify a row of theirs, ``value`` the field
    with the prediction, ``nullable`` the fields that may be null, ``truncated_field`` the one that says whether an input was cut
    short, ``file_columns`` are the columns that hold names of files.
    ``base`` is the base model of an adapter or a merged model, ``merged_from`` the full id of the adapter that was merged.
    ``tensor_digests`` are the digests of its tensors by name, as written (see `tensor_digests`).
    """

    id: str
    kind: str
    path: str
    run: str | None = None
    purpose: str | None = None
    format: str | None = None
    priority: str = ESSENTIAL
    depth: Depth | None = None
    probe: str | None = None
    files: Sequence[DeclaredFile] = ()
    place: Place | None = None
    dataset: str | None = None
    key: Sequence[str] = ()
    value: str | None = None
    nullable: Sequence[str] = ()
    truncated_field: str | None = None
    file_columns: Sequence[str] = ()
    base: Base | None = None
    merged_from: str | None = None
    tensor_digests: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def has_weights(self) -> bool:
        """Whether weights have to lie at its path, whatever does: by its kind, or because tensors were declared."""
        return self.kind in WEIGHTS or bool(self.tensor_digests)

    @property
    def usable(self) -> bool:
        """Whether the path may be followed; one that breaks the grammar ends in NUL, so that it leads nowhere."""
        return "\0" not in self.path


@dataclasses.dataclass(frozen=True)
class Abort:
    """Why a run was stopped: in words, by which rule of the plan, at which step and when."""

    reason: str
    rule: str | None = None
    step: int | None = None
    at: datetime.datetime | None = None


@dataclasses.dataclass(frozen=True)
class Run:
    """One execution with one configuration under one id, as the manifest records it."""

    id: str
    status: str
    reason: str | None
    place: Place
    priority: str = ESSENTIAL
    abort: Abort | None = None
    started: datetime.datetime | None = None
    finished: datetime.datetime | None = None
    supersedes: str | None = None
    repeat_of: str | None = None
    parameters: str | None = None
    steps: int | None = None
    role: str | None = None
    seed: int | None = None
    first_step: int | None = None
    resumed_from: str | None = None
    world_size: int | None = None

    @property
    def abort_reason(self) -> str | None:
        return self.abort.reason if self.abort is not None else None


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
    role: str | None
    priority: str
    place: Place


@dataclasses.dataclass(frozen=True)
class AbortRule:
    """When a run is stopped early: in words and, where ``metric`` is given, as a comparison that can be evaluated.

    ``op`` is ``>``, ``>=``, ``<``, ``<=``, ``==``, ``!=`` (with ``value``) or ``not_finite``; ``for_steps`` consecutive records
    of the metric must fulfil it.
    """

    id: str
    when: str
    place: Place
    metric: str | None = None
    op: str | None = None
    value: float | None = None
    for_steps: int = 1


@dataclasses.dataclass(frozen=True)
class DecisionPoint:
    """Where it is decided how the campaign goes on: ``after`` which run or step, and what can be chosen."""

    after: str | None = None
    options: Sequence[str] = ()


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
    abort_rules: Sequence[AbortRule] = ()
    decision_point: DecisionPoint | None = None
    schedule: Schedule | None = None
    budget: Budget | None = None


@dataclasses.dataclass(frozen=True)
class Decided:
    """What was decided while the campaign ran."""

    at: datetime.datetime
    choice: str
    reason: str


@dataclasses.dataclass(frozen=True)
class Rehearsal:
    """A trial of writing and restoring a checkpoint."""

    run: str | None = None
    path: str | None = None
    bytes: int | None = None
    write_seconds: float | None = None
    restore_seconds: float | None = None


@dataclasses.dataclass(frozen=True)
class Actuals:
    """What really happened, in the order of the manifest."""

    steps: Sequence[Measured] = ()
    decisions: Sequence[Decided] = ()
    costs: Sequence[Paid] = ()
    rehearsals: Sequence[Rehearsal] = ()


@dataclasses.dataclass(frozen=True)
class Manifest:
    """The manifest; ``plan_path`` and ``plan_sha256`` are what it says of the plan, ``raw`` the whole document.

    ``actuals`` is None where it says nothing of what really happened.
    """

    campaign: str
    runs: Sequence[Run]
    deliverables: Sequence[Deliverable]
    named_paths: Sequence[str]  # every path that an entry names (plan, data sets, parameters, probes ...)
    todo: Sequence[tuple[str, str, str | None]]  # pointer, why, command
    plan_path: str | None
    plan_sha256: str | None
    decision: Mapping[str, Any] | None
    raw: Mapping[str, Any]
    datasets: Mapping[str, Dataset] = dataclasses.field(default_factory=dict)
    actuals: Actuals | None = None

    @functools.cached_property
    def named(self) -> frozenset[str]:
        """The paths that entries name, for looking up."""
        return frozenset(self.named_paths)


@dataclasses.dataclass(frozen=True)
class DocumentFault:
    """One thing that is wrong with a document, with its place in it."""

    # syntax, duplicate-key, non-finite, encoding, too-large, schema, path, unreadable, no-file, duplicate-id, reference
    kind: str
    file: str
    message: str
    line: int | None = None
    column: int | None = None
    pointer: str | None = None
    observed: str | None = None
    expected: str | None = None


class Gate(enum.StrEnum):
    """Which deliverables decide about the campaign."""

    DELIVERED = "delivered"  # those that were delivered, and the essential ones that are missing
    ESSENTIAL = "essential"  # the essential ones alone
    ALL = "all"  # also those that are missing and were only useful or exploratory


@dataclasses.dataclass(frozen=True)
class Asked:
    """What the person who checks wants: reloads no deeper than one depth, unverified below the other, and the gate."""

    max_depth: Depth | None = None
    require_depth: Depth | None = None
    gate: Gate = Gate.DELIVERED


@dataclasses.dataclass(frozen=True)
class EarlierDeliverable:
    """What an earlier report says of a deliverable; ``path`` is None when it was only planned."""

    id: str
    path: str | None
    verdict: str | None
    files: Sequence[DeclaredFile] = ()


@dataclasses.dataclass(frozen=True)
class Earlier:
    """What an earlier report (``--campaign-baseline``) says of a campaign; ``file`` is the name of the report."""

    file: str
    campaign: str
    directory: str
    verdict: str | None
    deliverables: Sequence[EarlierDeliverable]

    @functools.cached_property
    def by_id(self) -> Mapping[str, EarlierDeliverable]:
        return {deliverable.id: deliverable for deliverable in self.deliverables}


@dataclasses.dataclass(frozen=True)
class Campaign:
    """Everything that the checks look at. Pure data: the same in every process that builds it.

    ``manifest`` and ``plan`` are None when absent or unusable; the faults say which. ``plan_copy`` is the plan
    that lies in the directory when ``plan`` is the reviewer's. ``deliverables`` are those that the manifest lists
    or, without a usable manifest, those that were discovered. ``units`` are the checkpoints that were recognised
    by their content, wherever they lie. ``unread`` says why files could not be looked at, by path. ``earlier`` is what the
    reviewer's baseline says.
    """

    inventory: Inventory
    manifest: Manifest | None
    plan: Plan | None
    plan_copy: Plan | None
    faults: Sequence[DocumentFault]
    deliverables: Sequence[Deliverable]
    units: Sequence[Unit]
    unread: Mapping[str, str]
    asked: Asked
    earlier: Earlier | None = None

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
    def _targets(self) -> Mapping[str, str | None]:
        """Where each deliverable's path leads when links are followed; None where it leads nowhere."""
        entries = {deliverable.path: self.inventory.resolve(deliverable.path) for deliverable in self.deliverables}
        return {path: entry.path if entry else None for path, entry in entries.items()}

    @functools.cached_property
    def _owners(self) -> frozenset[str]:
        return frozenset(target for target in self._targets.values() if target is not None)

    def target(self, deliverable: Deliverable) -> str | None:
        """The path of what the deliverable's path leads to, None when it is absent."""
        return self._targets[deliverable.path]

    def unseen(self, deliverable: Deliverable) -> str | None:
        """Why nobody can say here whether a deliverable is there: the file table has a gap where it would be."""
        return self.hidden(deliverable.path) if self.target(deliverable) is None else None

    def hidden(self, path: str) -> str | None:
        """Why the file table cannot say whether something lies at a path that it does not know; None when nothing does."""
        folder = path
        while folder:
            folder = folder.rpartition("/")[0]
            entry = self.inventory.resolve(folder)
            if entry is not None and entry.problem:
                return f"{entry.path}: {entry.problem}"
        return self.inventory.cut

    def absent(self, deliverable: Deliverable) -> bool:
        """Whether a deliverable is not there, as far as the directory could be looked through."""
        return self.target(deliverable) is None and self.unseen(deliverable) is None

    @functools.cached_property
    def not_listed(self) -> Sequence[PlannedDeliverable]:
        """The planned deliverables that the manifest should list and does not; none without both documents."""
        if self.plan is None or self.manifest is None:
            return ()
        dropped = {run.id for run in self.manifest.runs if run.status == "not_run"}
        return [p for p in self.plan.deliverables if p.id not in self.by_id and p.run not in dropped]

    @functools.cached_property
    def _planned(self) -> Mapping[str, PlannedDeliverable]:
        return {planned.id: planned for planned in self.plan.deliverables} if self.plan else {}

    @functools.cached_property
    def planned_runs(self) -> Mapping[str, PlannedRun]:
        """The runs of the plan by their ids."""
        return {run.id: run for run in self.plan.runs} if self.plan else {}

    @property
    def unit(self) -> str | None:
        """The kind of deliverable that the cost is divided by."""
        return self.plan.budget.unit if self.plan is not None and self.plan.budget is not None else None

    @property
    def actuals(self) -> Actuals:
        """What really happened, as far as the manifest says it."""
        return (self.manifest.actuals if self.manifest is not None else None) or Actuals()

    def planned(self, deliverable: Deliverable) -> PlannedDeliverable | None:
        """What the plan promises under the deliverable's id."""
        return self._planned.get(deliverable.id)

    def priority(self, deliverable: Deliverable) -> str:
        """How much a deliverable matters: the plan says it, and the manifest only of what is not planned."""
        planned = self.planned(deliverable)
        if planned is not None:
            return planned.priority
        run = self.planned_runs.get(deliverable.run or "")
        return run.priority if run is not None else deliverable.priority

    def gates(self, priority: str, *, missing: bool) -> bool:
        """Whether a deliverable of that priority, missing or not, decides about the campaign."""
        if priority == ESSENTIAL:
            return True
        return self.asked.gate is Gate.ALL if missing else self.asked.gate is not Gate.ESSENTIAL

    def decides(self, id: str | None) -> bool:
        """Whether the checks of a deliverable (None: those of the campaign as a whole) decide about the campaign."""
        deliverable = self.by_id[id] if id is not None else None
        return deliverable is None or self.gates(self.priority(deliverable), missing=self.absent(deliverable))

    @functools.cached_property
    def _places(self) -> frozenset[str]:
        """Where the deliverables lie; of those that are absent, where they should."""
        return self._owners | {path for path, target in self._targets.items() if target is None}

    def owner(self, path: str) -> str | None:
        """Where the innermost deliverable around a path lies, itself present or not; None when there is none."""
        return paths.around(path, self._places)

    @functools.cached_property
    def _by_target(self) -> Mapping[str | None, Deliverable]:
        """The first deliverable at each place."""
        return {self.target(deliverable): deliverable for deliverable in reversed(self.deliverables)}

    def deliverable_around(self, path: str) -> Deliverable | None:
        """The innermost deliverable that is there at or around a path; the first of several at one place."""
        at = paths.around(path, self._owners)
        return self._by_target[at] if at is not None else None

    def owns(self, deliverable: Deliverable, path: str) -> bool:
        """Whether a file belongs to a deliverable: at or below its path, and to no deliverable nested in it."""
        target = self.target(deliverable)
        return target is not None and paths.around(path, self._owners) == target

    @functools.cached_property
    def _units(self) -> Mapping[str, list[Unit]]:
        """The recognised checkpoints by the path of the innermost deliverable around them.

        A deliverable with a link to a folder elsewhere in the campaign has the checkpoints of that folder too.
        """
        units: dict[str, list[Unit]] = {}
        for unit in self.units:
            units.setdefault(self._owner(unit.path), []).append(unit)
            for member in unit.files:  # a part of a set that is listed by itself stands for the set
                if member in self._owners and is_checkpoint(member):
                    units.setdefault(member, []).append(unit)
        links = [entry for entry in self.inventory.entries if entry.kind == LINK]
        reached = {(self._owner(link.path), to.path) for link in links
                   if (to := self.inventory.resolve(link.path)) is not None and to.kind == FOLDER}
        for owner, folder in sorted(reached):
            if not paths.inside(folder, owner) and not paths.inside(owner, folder):
                units.setdefault(owner, []).extend(unit for unit in self.units if paths.inside(unit.path, folder))
        return {path: list(dict.fromkeys(own)) for path, own in units.items()}

    def _owner(self, path: str) -> str:
        """Where the innermost deliverable around a path lies; the directory itself when there is none."""
        return paths.around(path, self._owners) or ""

    @functools.cached_property
    def _units_by_file(self) -> Mapping[str, list[Unit]]:
        found: dict[str, list[Unit]] = {}
        for unit in self.units:
            for file in dict.fromkeys(unit.files):
                found.setdefault(file, []).append(unit)
        return found

    def units_of(self, deliverable: Deliverable) -> Sequence[Unit]:
        """The recognised checkpoints of a deliverable, nested deliverables excluded.

        A single file that is delivered as weights has the set of files that it belongs to. Content that may be anything
        (an array, a pickle) counts where weights are delivered and nothing clearer is there.
        """
        target = self.target(deliverable)
        if target is None:
            return ()
        own = self._units.get(target, ())
        if not own and deliverable.has_weights:
            own = self._units_by_file.get(target, ())
        clear = [unit for unit in own if not unit.ambiguous]
        if len(clear) == len(own):
            return own
        return clear if not deliverable.has_weights or any(not unit.hollow for unit in clear) else own

    def left_out(self, deliverable: Deliverable) -> Sequence[Unit]:
        """What was recognised in a deliverable and is no checkpoint of it: content that may be anything."""
        read = set(self.units_of(deliverable))
        return [unit for unit in self._units.get(self.target(deliverable) or "", ()) if unit.ambiguous and unit not in read]

    def files_of(self, deliverable: Deliverable) -> Mapping[str, Entry]:
        """The regular files of a deliverable by the path under which they are seen."""
        target = self.target(deliverable)
        if target is None:
            return {}
        found = {seen: entry for seen, entry in self.inventory.files(target) if self.owns(deliverable, seen)}
        present = set(found.values())
        for unit in self.units_of(deliverable):
            for path in unit.files:
                entry = self.inventory.resolve(path)
                if entry is not None and entry.kind == FILE and entry not in present:
                    found[path] = entry
        return found

    def role(self, run: str) -> str | None:
        """What a run is for: the plan says it, else the manifest."""
        planned = self.planned_runs.get(run)
        record = self.runs.get(run)
        return (planned.role if planned else None) or (record.role if record else None)

    def root_of(self, run: str) -> str:
        """The run that a run repeats in the end; itself when it repeats none."""
        way: dict[str, None] = {}
        while (record := self.runs.get(run)) is not None and record.repeat_of is not None and run not in way:
            way[run] = None
            run = self._roots.get(record.repeat_of, record.repeat_of)
        self._roots.update(dict.fromkeys(way, run))
        return run

    @functools.cached_property
    def _roots(self) -> dict[str, str]:
        """What `root_of` found so far: long ways are gone once."""
        return {}

    @functools.cached_property
    def _delivered_parameters(self) -> Mapping[str | None, Sequence[str]]:
        found: dict[str | None, list[str]] = {}
        for deliverable in self.deliverables:
            if deliverable.kind == "parameters" and deliverable.usable:
                found.setdefault(deliverable.run, []).append(deliverable.path)
        return found

    def parameters_of(self, run: Run) -> str | None:
        """The file with the parameters of a run: the one that it names, else the one that it delivers. Of a folder of Hydra's
        its ``config.yaml``."""
        if run.parameters is not None:
            return run.parameters
        for path in self._delivered_parameters.get(run.id, ()):
            files = [path, paths.join(path, "config.yaml"), paths.join(path, ".hydra/config.yaml")]
            for file in files:
                entry = self.inventory.resolve(file)
                if entry is not None and entry.kind == FILE:
                    return file
        return None

    @functools.cached_property
    def control(self) -> str | None:
        """The first run of the manifest that is a control."""
        return next((id for id in self.runs if self.role(id) == "control"), None)

    def ended(self, run: str | None) -> bool:
        """Whether the outputs of a run may count: it claims to be completed. Those of no run may."""
        record = self.runs.get(run or "")
        return record is None or record.status == "completed"

    def aborted(self, run: str | None) -> bool:
        """Whether a run is validly recorded as aborted: with its reason."""
        record = self.runs.get(run or "")
        return record is not None and record.status == "aborted" and bool((record.abort_reason or "").strip())
