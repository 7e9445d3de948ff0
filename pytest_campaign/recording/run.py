"""A run that is being executed."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

from .. import durable
from . import entries, provenance
from .entries import Entry, Fields
from .errors import RecordingError, RecordingWarning

if TYPE_CHECKING:
    from .campaign import Campaign
    from .record_file import Content
    from .rehearsal import Load, Rehearsal, Save

UNFINISHED = "the process ended before the run did"
PARAMETERS = "parameters.json"


class Run:
    """One run of a campaign; made by `Campaign.run`, and recorded from the beginning of its ``with`` block to the end."""

    def __init__(self, campaign: Campaign, id: str, fields: Mapping[str, Any],
                 parameters: Mapping[str, Any] | str | os.PathLike[str] | None = None) -> None:
        self.campaign = campaign
        self.id = id
        self._fields = dict(fields)
        self._given_parameters = parameters
        self._at_end: list[Callable[[], None]] = []

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None) -> None:
        if error is None:
            self.end()
        else:
            self.fail(error)

    @property
    def folder(self) -> Path:
        """``runs/<id>`` in the campaign directory; it is made when it is first asked for."""
        folder = self.campaign.directory / "runs" / self.id
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    # ---- from the beginning to the end ---------------------------------------------------------------------------

    def start(self) -> None:
        """Record that the run has begun. Until it ends it counts as aborted, for its process may be killed at any time.

        A run of that id which was never ended goes on. Raises `RecordingError` for one that was, and when the plan changed.
        """
        if not self.campaign.records:
            return
        self.campaign.check_plan()
        before = self._recorded()
        if before is not None and before["status"] != "not_run" and not _is_open(before):
            raise RecordingError(
                f"run {self.id} is recorded as {before['status']}; a corrected configuration has an id of its own and "
                f"supersedes={self.id!r}, a repetition repeat_of={self.id!r}")
        if self._given_parameters is not None:
            self.parameters(self._given_parameters)
        with self.campaign.changed() as content:
            entry: Entry = {"id": self.id, "status": "aborted", **self._fields, "started": provenance.now()}
            for run in content["runs"]:
                if run["id"] == self.id and run["status"] == "aborted":
                    entry = run | self._fields | {"reason": f"it went on at {entry['started']} after its process had ended early"}
            entry["abort"] = {"reason": UNFINISHED}
            entry["deliverables"] = entry.pop("deliverables", [])  # last: for people who read it
            entries.put(content["runs"], entry)

    def end(self) -> None:
        """Record that the run was completed, unless it was aborted meanwhile."""
        for task in self._at_end:
            task()
        with self.campaign.changed() as content:
            entry = self._entry(content)
            if entry is not None and _is_open(entry):
                entry["status"] = "completed"
                del entry["abort"]
            self._finish(entry)

    def fail(self, error: BaseException) -> None:
        """Record that an exception ended the run. What it left is delivered; a fault of the recording leaves the run open."""
        if isinstance(error, RecordingError):
            return
        try:
            self.deliver_what_is_left()
            rank = provenance.rank()
            reason = provenance.error_text(error) + (f" (in process {rank})" if rank else "")
            with self.campaign.changed(everywhere=True) as content:
                entry = self._entry(content)
                if entry is not None and _is_open(entry):
                    entry["abort"] = {"reason": reason, "at": provenance.now()}
                self._finish(entry)
        except Exception as fault:  # the error that ended the run must not be hidden
            warnings.warn(f"run {self.id}: its end is not recorded: {fault}", RecordingWarning, stacklevel=3)

    def abort(self, rule: str | None = None, reason: str | None = None, *, step: int | None = None) -> None:
        """Record that the run is stopped, by a rule of the plan and for what was seen. It stays aborted; leave its block then.

        `RecordingWarning` for a rule that the plan does not announce.
        """
        plan = self.campaign.plan
        rules = {one.id: one.when for one in plan.abort_rules} if plan is not None else {}
        if rule is not None and plan is not None and rule not in rules:
            warnings.warn(f"run {self.id} is aborted by the rule {rule}, which the plan does not announce; it has "
                          f"{', '.join(rules) or 'none'}", RecordingWarning, stacklevel=2)
        why = reason or rules.get(rule or "")
        if not why or not why.strip():
            raise RecordingError(f"run {self.id} is aborted without a reason; say what was seen")
        given = {"rule": rule, "reason": why, "step": step, "at": provenance.now()}
        with self.campaign.changed(everywhere=True) as content:
            entry = self._entry(content)
            if entry is not None:
                entry["status"] = "aborted"
                entry["abort"] = {key: value for key, value in given.items() if value is not None}

    def at_end(self, task: Callable[[], None]) -> None:
        """Do something when the run ends, before that is recorded."""
        self._at_end.append(task)

    @property
    def is_open(self) -> bool:
        """Whether the run has begun and not ended."""
        entry = self._recorded()
        return entry is not None and _is_open(entry)

    def deliver_what_is_left(self) -> None:
        """Do now what is to be done at the end; what cannot be delivered is a `RecordingWarning`."""
        for task in self._at_end:
            try:
                task()
            except Exception as fault:
                warnings.warn(f"run {self.id}: not delivered: {fault}", RecordingWarning, stacklevel=4)

    def _finish(self, entry: Entry | None) -> None:
        if entry is not None:
            entry["finished"] = provenance.now()
            entry["deliverables"] = entry.pop("deliverables")

    def _entry(self, content: Content) -> Entry | None:
        """The run's entry. None on a process that does not record; `RecordingError` when the run has not begun."""
        entry = next((run for run in content["runs"] if run["id"] == self.id), None)
        if entry is None and self.campaign.records:
            raise RecordingError(f"run {self.id} has not begun: with campaign.run({self.id!r}) as run: ...")
        return entry

    def _recorded(self) -> Entry | None:
        return next((run for run in self.campaign.recorded().get("runs", ()) if run["id"] == self.id), None)

    # ---- what is said of it --------------------------------------------------------------------------------------

    def deliver(self, id: str, kind: str, path: str | os.PathLike[str], **fields: Unpack[Fields]) -> None:
        """Record a deliverable of the run, as `Campaign.deliver` does; also after its end."""
        if not self.campaign.records:
            return
        made = self.campaign.entry(id, kind, path, fields)
        with self.campaign.changed() as content:
            entry = self._entry(content)
            assert entry is not None
            entries.put(entry["deliverables"], made)
            entries.settle(content, made)

    def parameters(self, parameters: Mapping[str, Any] | str | os.PathLike[str]) -> None:
        """Record the hyperparameters: a file in the campaign directory, or values, which are written to ``parameters.json``.

        Raises `RecordingError` where other values were written before: a corrected configuration has an id of its own.
        """
        if not self.campaign.records:
            return
        if isinstance(parameters, Mapping):
            try:
                data = entries.as_json(entries.copied(parameters))
            except (TypeError, ValueError) as error:
                raise RecordingError(f"the parameters of run {self.id} are no JSON: {error}") from None
            place = self.folder / PARAMETERS
            if place.exists() and place.read_bytes() != data:
                raise RecordingError(f"{place} holds other parameters; another configuration has an id of its own "
                                     f"(supersedes={self.id!r})")
            if not place.exists():
                durable.create(place, data)
            parameters = place
        self.update(parameters=self.campaign.inside(parameters))

    def update(self, **fields: Any) -> None:
        """Record fields of the run as in the manifest, such as ``steps``, ``first_step``, ``seed``, ``world_size``."""
        self._fields |= fields
        with self.campaign.changed() as content:
            for entry in content["runs"]:
                if entry["id"] == self.id:
                    entry |= fields
                    entry["deliverables"] = entry.pop("deliverables")

    @property
    def has_parameters(self) -> bool:
        """Whether the parameters of the run are recorded."""
        return "parameters" in self._fields

    @property
    def parameters_file(self) -> str:
        """The file with the parameters; `RecordingError` where none are recorded."""
        if "parameters" not in self._fields:
            raise RecordingError(f"run {self.id} has no parameters")
        return str(self._fields["parameters"])

    def rehearse(self, path: str | os.PathLike[str], save: Save, load: Load | None = None) -> Rehearsal:
        """Save a checkpoint early, load it again in a new process, and record how long both took.

        ``save(path)`` writes it to ``path`` in the campaign directory. There every byte of it is read again by a fresh process;
        then, when ``load`` is given, ``load(path)`` is called in another one: a function of a module, not of the script itself.
        Raises `RecordingError` when it cannot be loaded again: better now than after the training.
        """
        from .rehearsal import rehearse

        done = rehearse(self.campaign, path, save, load)
        with self.campaign.changed() as content:
            actuals = content.setdefault("actuals", {})
            actuals.setdefault("rehearsals", []).append({
                "run": self.id, "path": done.path, "bytes": done.bytes, "write_seconds": round(done.write_seconds, 6),
                "restore_seconds": round(done.restore_seconds, 6)})
        return done


def _is_open(entry: Entry) -> bool:
    return bool(entry["status"] == "aborted" and entry["abort"]["reason"] == UNFINISHED)
