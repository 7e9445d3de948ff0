"""A campaign that is going on, and what is recorded of it as a whole."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import warnings
from collections.abc import Generator, Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal, InvalidOperation
from pathlib import Path
from types import TracebackType
from typing import Any, Self, Unpack

from ..campaign import Plan
from ..snapshot import PLAN
from . import base_models, entries, files, provenance
from .entries import Entry, Fields
from .errors import RecordingError, RecordingWarning
from .files import Digests
from .record_file import Content, RecordFile, in_words
from .run import Run

_NO_ID = re.compile(r"[^A-Za-z0-9._-]+")


def own_id(directory: Path) -> str:
    """The id that a campaign has by the name of its directory."""
    return _NO_ID.sub("-", directory.absolute().name).strip("-._")[:100] or "campaign"


class Campaign:
    """Opens the record of a campaign, ``manifest.json`` in the directory ``out``, or goes on with the one that is there.

    ``plan`` is the plan's file in that directory; by default ``plan.json`` where there is one. Its digest is recorded now and
    never changed. ``campaign`` is the campaign's id; by default that of the plan, else the name of the directory. ``command``
    and ``environment`` add to the provenance, which is gathered by itself.

    Raises `RecordingError` when the plan is not valid, or not the one that was recorded; when the manifest is none; when it is
    that of another campaign. Every method may raise it; nothing is then recorded. Each records at once, and durably.

    Of several processes that train together only the first records (``RANK`` is 0 or not set); the others may call everything
    here, and record nothing but the end of a run by an exception.
    """

    def __init__(
        self, out: str | os.PathLike[str], plan: str | os.PathLike[str] | None = None, campaign: str | None = None, *,
        command: str | None = None, environment: Mapping[str, str] | None = None,
    ) -> None:
        self.directory = Path(out).absolute()
        self.directory.mkdir(parents=True, exist_ok=True)
        self.records = provenance.rank() == 0
        self._file = RecordFile(self.directory)
        self._digests = Digests(self.directory)
        self._plan_path = self._where_the_plan_lies(plan)
        self.plan, self._plan_digest = self._read_plan()
        if self.plan is not None and campaign not in (None, self.plan.campaign):
            raise RecordingError(f"the plan is of campaign {self.plan.campaign}, not of {campaign}")
        self.id = campaign or (self.plan.campaign if self.plan is not None else self._own_id())
        if self.records:
            with self.changed() as content:
                self._open(content, command, environment or {})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None) -> None:
        with self.changed():
            pass

    def _own_id(self) -> str:
        recorded = self.recorded().get("campaign")
        return recorded if isinstance(recorded, str) else own_id(self.directory)

    def _open(self, content: Content, command: str | None, environment: Mapping[str, str]) -> None:
        if content:
            if content.get("campaign") != self.id:
                raise RecordingError(f"{self._file.path} is that of campaign {content.get('campaign')}, not of {self.id}")
            self._compare_plan(content)
        else:
            content |= {"manifest_version": 1, "campaign": self.id}
        if self._plan_digest is not None and "plan" not in content:
            if content.get("runs"):
                raise RecordingError(f"{self._plan_path} is no plan of this campaign: runs were recorded before it was there; "
                                     "move it away, nobody should write a plan afterwards")
            content["plan"] = {"path": self._plan_path, "sha256": self._plan_digest}
        content.setdefault("provenance", provenance.gathered(command, environment))
        content.setdefault("runs", [])

    # ---- the plan ------------------------------------------------------------------------------------------------

    def _where_the_plan_lies(self, plan: str | os.PathLike[str] | None) -> str | None:
        if plan is not None:
            return files.inside(self.directory, plan)
        recorded = self.recorded().get("plan", {}).get("path")
        return recorded or (PLAN if os.path.lexists(self.directory / PLAN) else None)

    def _read_plan(self) -> tuple[Plan | None, str | None]:
        """The plan and its digest; (None, None) where there is none."""
        from ..documents import read_plan

        if self._plan_path is None:
            return None, None
        try:
            data = (self.directory / self._plan_path).read_bytes()
        except OSError as error:
            raise RecordingError(f"the plan {self._plan_path} cannot be read: {error.strerror}; "
                                 f"pytest-campaign plan {self.directory} writes one to fill in") from None
        plan, faults = read_plan(data, self._plan_path, "campaign")
        if faults:
            lines = "; ".join(f"{fault.file}:{fault.line}: {in_words(fault)}" for fault in faults[:5])
            raise RecordingError(f"the plan is not valid: {lines}")
        return plan, hashlib.sha256(data).hexdigest()

    def _compare_plan(self, content: Content) -> None:
        recorded = content.get("plan", {}).get("sha256")
        if recorded is not None and recorded != self._plan_digest:
            raise RecordingError(f"{self._plan_path} is not the plan any more that was recorded when the campaign started "
                                 f"(sha256 {recorded}, now {self._plan_digest}); restore it")

    def promised(self, run: str, kind: str) -> Sequence[str]:
        """The ids of what the plan promises of a run in one kind."""
        planned = self.plan.deliverables if self.plan is not None else ()
        return [one.id.partition("/")[2] for one in planned if one.run == run and one.kind == kind]

    # ---- what is recorded ----------------------------------------------------------------------------------------

    def run(
        self, id: str, *, parameters: Mapping[str, Any] | str | os.PathLike[str] | None = None, seed: int | None = None,
        role: str | None = None, priority: str | None = None, resumed_from: str | None = None, datasets: Sequence[str] = (),
        steps: int | None = None, first_step: int | None = None, world_size: int | None = None, supersedes: str | None = None,
        repeat_of: str | None = None, extra: Mapping[str, Any] | None = None,
    ) -> Run:
        """A run under an id of its own, to be executed in a ``with`` block.

        From its beginning it is recorded as aborted, because its process may end at any time; the end of the block makes it
        completed, an exception aborted for that reason. ``parameters`` are written to ``runs/<id>/parameters.json``, or name a
        file in the campaign directory. ``role`` is that of the plan by default, ``world_size`` what ``WORLD_SIZE`` says.
        The other arguments are those of the manifest.
        """
        planned = next((one.role for one in self.plan.runs if one.id == id), None) if self.plan is not None else None
        fields = {"role": role or planned, "priority": priority, "seed": seed, "steps": steps, "first_step": first_step,
                  "resumed_from": resumed_from, "world_size": world_size or provenance.world_size(),
                  "datasets": list(datasets) or None, "supersedes": supersedes, "repeat_of": repeat_of,
                  "extra": entries.copied(extra)}
        return Run(self, id, {name: value for name, value in fields.items() if value is not None}, parameters)

    def not_run(self, id: str, reason: str, *, role: str | None = None, priority: str | None = None) -> None:
        """Record that a run is not executed, and why."""
        planned = next((one.role for one in self.plan.runs if one.id == id), None) if self.plan is not None else None
        entry = {"id": id, "status": "not_run", "reason": reason, "role": role or planned, "priority": priority}
        with self.changed() as content:
            if any(run["id"] == id and run["status"] != "not_run" for run in content["runs"]):
                raise RecordingError(f"run {id} was executed; it cannot be dropped any more")
            entries.put(content["runs"], {key: value for key, value in entry.items() if value is not None} | {"deliverables": []})

    def deliver(self, id: str, kind: str, path: str | os.PathLike[str], **fields: Unpack[Fields]) -> None:
        """Record a deliverable of the campaign as a whole, with the sizes and digests of its files.

        ``path`` is a file or a folder in the campaign directory, relative to that or absolute. A second call under the same id
        replaces the first. See `entries.Fields` for ``fields``.
        """
        if self.records:
            entry = self.entry(id, kind, path, fields)
            with self.changed() as content:
                entries.put(content.setdefault("deliverables", []), entry)
                entries.settle(content, entry)

    def dataset(
        self, name: str, path: str | os.PathLike[str] | None = None, *, ids: Sequence[Any] | None = None,
        key: Sequence[str] | None = None, rows: int | None = None,
    ) -> None:
        """Record a data set that predictions refer to: a file in the campaign directory, with its digest, or its ids."""
        if not self.records:
            return
        entry: Entry = {} if path is None else {"path": files.inside(self.directory, path)}
        if path is not None and (self.directory / entry["path"]).is_file():
            entry["sha256"] = self._digests.declared([entry["path"]])[0]["sha256"]
        given = {"ids": entries.copied(ids), "key": entries.copied(key), "rows": rows}
        with self.changed() as content:
            content.setdefault("datasets", {})[name] = entry | {key: value for key, value in given.items() if value is not None}

    def base(
        self, name: str, model: str | os.PathLike[str], *, revision: str | None = None,
        path: str | os.PathLike[str] | None = None, sha256: Mapping[str, str] | None = None,
    ) -> str:
        """Record a base model that adapters are trained on, under a name for their ``base``; returns that name.

        ``model`` is its name on the hub, or the folder that it was loaded from. Its commit is looked up in the local Hugging Face
        cache where ``revision`` does not say it; `RecordingWarning` where it is not known. ``path`` is its place in the campaign.
        """
        text = os.fspath(model)
        if path is not None:
            entry: Entry = {"model": text, "path": files.inside(self.directory, path)}
        elif sha256 is not None:
            entry = {"model": text} | ({"revision": revision} if revision else {})
        else:
            found, doubt = base_models.resolved(self.directory, text, revision)
            if doubt is not None:
                warnings.warn(f"base {name}: {doubt}", RecordingWarning, stacklevel=2)
            entry = found or {"model": os.path.basename(text.rstrip("/")) or name}
            if revision is not None and "path" not in entry:
                entry["revision"] = revision
        if sha256 is not None:
            entry["sha256"] = dict(sha256)
        with self.changed() as content:
            content.setdefault("bases", {})[name] = entry
        return name

    def decide(self, outcome: str, summary: str, based_on: Sequence[str] = ()) -> None:
        """Record the answer to the plan's question: positive, negative or inconclusive, in words, and the runs it rests on."""
        with self.changed() as content:
            content["decision"] = {"outcome": outcome, "summary": summary, "based_on": list(based_on)}

    def choose(self, at: datetime | str | None, choice: str, reason: str) -> None:
        """Record what was decided at the decision point, or at any other time; ``at`` None is now."""
        moment = at if isinstance(at, str) else provenance.now(at)
        with self.changed() as content:
            actuals = content.setdefault("actuals", {})
            actuals.setdefault("decisions", []).append({"at": moment, "choice": choice, "reason": reason})

    @contextlib.contextmanager
    def step(self, id: str, explanation: str | None = None) -> Iterator[None]:
        """A step of the plan's schedule, executed in a ``with`` block; ``explanation`` says why it deviates.

        A step that is executed again, after its process was killed, say, is recorded as another part of it.
        """
        entry: Entry = {"id": id, "started": provenance.now()}
        if explanation is not None:
            entry["explanation"] = explanation
        with self.changed() as content:
            content.setdefault("actuals", {}).setdefault("steps", []).append(dict(entry))
        begun = dict(entry)
        try:
            yield
        except BaseException as error:
            entry.setdefault("explanation", f"it ended early: {provenance.error_text(error)}")
            raise
        finally:
            with self.changed() as content:
                steps = content.setdefault("actuals", {}).setdefault("steps", [])
                at = steps.index(begun) if begun in steps else len(steps)
                steps[at:at + 1] = [entry | {"finished": provenance.now()}]

    def cost(self, name: str, amount: str | int | Decimal) -> None:
        """Record what was really paid; it replaces the planned cost of that name. Write cents as a text: ``"1.20"``."""
        try:
            exact = Decimal(amount) if not isinstance(amount, (bool, float)) else None
        except InvalidOperation:
            exact = None
        if exact is None or not exact.is_finite() or exact < 0:
            raise RecordingError(f'the cost {name} is {amount!r}; write an amount as a text such as "1.20"')
        with self.changed() as content:
            costs = content.setdefault("actuals", {}).setdefault("costs", [])
            entries.put(costs, {"name": name, "amount": f"{exact:f}"}, key="name")

    # ---- for the runs --------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def changed(self, *, everywhere: bool = False) -> Generator[Content]:
        """The manifest, to be changed in place; on a process that does not record a change that goes nowhere.

        With ``everywhere`` every process records, if the first one has begun.
        """
        if not self.records and not (everywhere and self._file.path.exists()):
            yield {"runs": []}
            return
        with self._file.change() as content:
            yield content
            content.setdefault("provenance", {})["finished"] = provenance.now()

    def recorded(self) -> Content:
        """What the manifest says now, {} where there is none."""
        return self._file.read() or {}

    def check_plan(self) -> None:
        """Raises `RecordingError` when the plan changed since the campaign started."""
        _, self._plan_digest = self._read_plan()
        self._compare_plan(self.recorded())

    def inside(self, path: str | os.PathLike[str]) -> str:
        """A path as the manifest spells it; `RecordingError` when it lies outside the campaign directory."""
        return files.inside(self.directory, path)

    def entry(self, id: str, kind: str, path: str | os.PathLike[str], fields: Fields) -> Entry:
        """The entry of a deliverable with sizes, digests and, for an adapter, its base as far as that is known."""
        relative = files.inside(self.directory, path)
        probe = fields.get("probe")
        if probe is not None:
            fields = {**fields, "probe": files.inside(self.directory, probe)}
        entry = entries.deliverable(id, kind, relative, fields)
        archive = fields.get("archive_base", False)
        if archive and kind != "adapter":
            raise RecordingError(f"archive_base is for adapters, and {id} is of kind {kind}")
        given = list(fields.get("files", ()))
        if kind == "adapter":
            said = base_models.of_adapter(self.directory, relative)  # before it is made portable
            base = self._name_base(entry)
            if archive:
                place = self._archive_base(entry, said and said[0], base, None if archive is True else archive)
                given += [place] if given and place is not None else []
        names = [files.inside(self.directory, name) for name in given] or (
            files.names(self.directory, relative) if relative != "." else files.recognised(self.directory))
        if probe is not None:
            names = list(dict.fromkeys([*names, entry["reload"]["probe"]]))
        return entry | ({"files": self._digests.declared(names)} if names else {})

    def _archive_base(
        self, entry: Entry, said: str | None, base: Entry | None, given: str | os.PathLike[str] | None
    ) -> str | None:
        """Put the headers of the base beside the adapter and return where; `RecordingWarning` when they are not to be had."""
        from . import base_archive

        try:
            return base_archive.write(self.directory, entry["path"], said, base, given)
        except base_archive.NotArchived as reason:
            warnings.warn(f"the headers of the base of {entry['id']} are not archived: {reason}", RecordingWarning, stacklevel=5)
            return None

    def _name_base(self, entry: Entry) -> Entry | None:
        """Say the base of an adapter, from what is recorded under its name or from its own configuration; what is known of it."""
        given = entry.get("base")
        if isinstance(given, str):
            given = self.recorded().get("bases", {}).get(given)
        elif given is None and (said := base_models.of_adapter(self.directory, entry["path"])) is not None:
            given, doubt = base_models.resolved(self.directory, *said)
            if doubt is not None:
                warnings.warn(f"the base of {entry['id']}: {doubt}", RecordingWarning, stacklevel=4)
            if given is not None:
                entry["base"] = given
        if given is not None:
            base_models.make_portable(self.directory, entry["path"], dict(given))
        return dict(given) if given is not None else None
