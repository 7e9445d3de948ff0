"""What lies in the folder of a run and comes from another one: its own records say so."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import json
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any

from ... import paths, record_facts
from ...campaign import Campaign, Deliverable, Run
from ...file_names import in_tool_folder
from ...findings import Finding, Level
from ...formats.trainer_state import STATE
from ...inventory import FILE, Entry
from ...readers.rows import Row
from ...text import shown
from ..base import Evidence
from ..training_log import TrainingLog, read_object
from . import rules

STEP = re.compile(r"(?:^|/)checkpoint-([0-9]{1,18})$")
_LOGGED = frozenset({"loss", "eval_loss", "grad_norm"})
_RUN_FIELDS = ("run", "run_id", "run_name")
_OF_ONE_RUN = frozenset({"metrics", "parameters", "predictions"})
_OF_WEIGHTS = frozenset({"checkpoint", "adapter"})
# What makes a model or an adapter another one; the rest of a configuration may change from save to save.
_SETTINGS: Mapping[str, Sequence[str]] = {
    "adapter_config.json": ("peft_type", "r", "lora_alpha", "target_modules", "modules_to_save", "num_virtual_tokens",
                            "use_dora", "use_rslora"),
    "config.json": ("model_type", "architectures", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size",
                    "num_key_value_heads", "d_model", "n_layer", "n_embd", "n_head", "num_labels"),
}


@dataclasses.dataclass(frozen=True)
class _State:
    """The state of a training in the folder of one checkpoint: the run whose folder it is, and the deliverable, if any."""

    path: str
    run: Run
    deliverable: Deliverable | None
    log: TrainingLog

    @property
    def folder(self) -> str:
        return posixpath.dirname(self.path)

    @functools.cached_property
    def history(self) -> Mapping[tuple[int, str], str]:
        """The values of the log by step and name, as text: NaN equals NaN. The speed of a step is of no interest."""
        return {(step, name): repr(value) for _, step, name, value in self.log.values()
                if isinstance(step, int) and name in _LOGGED}

    @property
    def id(self) -> str | None:
        return self.deliverable.id if self.deliverable else None


def check(campaign: Campaign, evidence: Evidence) -> Iterator[Finding]:
    """Findings about checkpoints and records that belong to another run, or to another configuration of it."""
    states = list(_states(campaign, evidence))
    for state in states:
        yield from _steps(state)
        yield from _best(campaign, state)
    by_folder = sorted(states, key=lambda state: (posixpath.dirname(state.folder), state.log.step or 0))
    for _, group in itertools.groupby(by_folder, key=lambda state: (posixpath.dirname(state.folder), state.run.id)):
        siblings = list(group)
        yield from _histories(siblings)
        yield from _configurations(campaign, evidence, siblings)
    yield from _names(campaign, evidence)


def _states(campaign: Campaign, evidence: Evidence) -> Iterator[_State]:
    runs_in = functools.cache(lambda: _runs_in(campaign))
    for entry in campaign.inventory.entries:
        if entry.kind == FILE and posixpath.basename(entry.path) == STATE and not in_tool_folder(entry.path):
            owner = campaign.deliverable_around(entry.path)
            run = campaign.runs.get(owner.run or "") if owner is not None else _run_around(campaign, entry.path, runs_in())
            content = read_object(evidence, entry)
            if run is not None and content is not None and not campaign.aborted(run.id):
                yield _State(entry.path, run, owner, TrainingLog(content))


def _run_around(campaign: Campaign, path: str, runs_in: Mapping[str, Set[str | None]]) -> Run | None:
    """The run beside whose outputs a file lies, when it is one run's folder."""
    folder = posixpath.dirname(posixpath.dirname(path))
    runs = list(runs_in.get(folder, ())) if folder else []
    return campaign.runs.get(runs[0] or "") if len(runs) == 1 else None


def _runs_in(campaign: Campaign) -> Mapping[str, Set[str | None]]:
    """The runs whose deliverables lie at or below a path, by that path."""
    found: dict[str, set[str | None]] = {}
    for deliverable in campaign.deliverables:
        target = campaign.target(deliverable) or ""
        for folder in (target, *paths.above(target)):
            found.setdefault(folder, set()).add(deliverable.run)
    return found


def _steps(state: _State) -> Iterator[Finding]:
    if state.log.step is None:
        return
    named = STEP.search(state.folder)
    if named is not None and int(named[1]) != state.log.step:
        yield rules.OTHER_STEP.finding(
            f"the folder is called {posixpath.basename(state.folder)} and holds the state of step {state.log.step}",
            path=state.path, pointer="/global_step", observed=str(state.log.step), expected=named[1], deliverable=state.id,
            remedy="give the folder the name of its step, or copy it again")
    if state.run.steps is not None and state.log.step > state.run.steps:
        yield rules.OTHER_RUN.finding(
            f"the state of the training is at step {state.log.step}, and run {state.run.id} ended at step {state.run.steps}",
            path=state.path, pointer="/global_step", observed=str(state.log.step), expected=f"at most {state.run.steps}",
            deliverable=state.id, remedy="move it to the run that it belongs to, or remove it; or correct steps in the manifest")


def _best(campaign: Campaign, state: _State) -> Iterator[Finding]:
    """A state whose best checkpoint lies in the folder of another run."""
    best = state.log.content.get("best_model_checkpoint")
    parts = best.replace("\\", "/").rstrip("/").split("/") if isinstance(best, str) else []
    if len(parts) < 2 or state.run.id in parts or not _is_another(campaign, state.run, parts[-2]):
        return
    yield rules.OTHER_RUN.finding(
        f"its best checkpoint lay in the folder of run {parts[-2]}, and it lies in that of run {state.run.id}", path=state.path,
        pointer="/best_model_checkpoint", observed=shown(str(best), 100), expected=state.run.id, deliverable=state.id,
        remedy="move it to the run that it belongs to, or remove it; or say resumed_from where the run went on from that one")


def _histories(siblings: Sequence[_State]) -> Iterator[Finding]:
    """Checkpoints in one folder whose logs contradict each other. The one that nobody claims is the stranger."""
    known: dict[tuple[int, str], tuple[str, _State]] = {}
    for later in siblings:
        before = ((value, *known.setdefault(key, (value, later))) for key, value in later.history.items())
        earlier = next((state for value, logged, state in before if value != logged), None)
        if earlier is None:
            continue
        common = earlier.history.keys() & later.history.keys()
        differing = sorted(key for key in common if earlier.history[key] != later.history[key])
        stranger, other = (earlier, later) if earlier.deliverable is None else (later, earlier)
        step, name = differing[0]
        yield rules.OTHER_RUN.finding(
            f"its history is not that of {other.folder}: {name} at step {step} differs, as in {len(differing)} of {len(common)} "
            "values", level=None if stranger.deliverable is None else Level.WARNING, path=stranger.path, pointer="/log_history",
            observed=stranger.history[step, name], expected=other.history[step, name], deliverable=stranger.id,
            remedy="move it to the run that it belongs to, or remove it")
        return  # one stranger contradicts every sibling


def _configurations(campaign: Campaign, evidence: Evidence, siblings: Sequence[_State]) -> Iterator[Finding]:
    for name, settings in _SETTINGS.items():
        found = []
        for state in siblings:
            entry = campaign.inventory.resolve(paths.join(state.folder, name))
            config = read_object(evidence, entry) if entry is not None and entry.kind == FILE else None
            if config is not None:
                found.append((state, {setting: _comparable(config.get(setting)) for setting in settings}))
        for (first, wanted), (state, config) in itertools.pairwise(found):
            differing = [setting for setting in settings if config[setting] != wanted[setting]]
            if differing:
                setting = differing[0]
                path = paths.join(state.folder, name)
                yield rules.TWO_CONFIGURATIONS.finding(
                    f"run {state.run.id} has two configurations: {', '.join(differing)} of {path} and of {first.folder} differ",
                    path=path, pointer=f"/{setting}", observed=shown(config[setting], 100), expected=shown(wanted[setting], 100),
                    remedy="give the corrected run an id of its own, which supersedes the old one")


def _comparable(value: Any) -> str:
    """A setting as text; the order of a list of names means nothing."""
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        value = sorted(value)
    return json.dumps(value, sort_keys=True)


def _names(campaign: Campaign, evidence: Evidence) -> Iterator[Finding]:
    """Records of one run, and what lies beside its weights, that name another run of the campaign as theirs."""
    for deliverable in campaign.deliverables:
        run = campaign.runs.get(deliverable.run or "")
        if run is None or campaign.aborted(run.id):
            continue
        for path, entry in _told_of_run(campaign, deliverable):
            field, name = _run_named(campaign, run, entry, evidence)
            if field is not None:
                yield rules.OTHER_RUN.finding(
                    f"it says that it is of run {name}, and the manifest lists it under run {run.id}", path=path,
                    pointer=f"/{field}", observed=name, expected=run.id, deliverable=deliverable.id,
                    remedy=f"put the {deliverable.kind} of run {run.id} there, or list it under run {name}")


def _told_of_run(campaign: Campaign, deliverable: Deliverable) -> Iterator[tuple[str, Entry]]:
    """The files of a deliverable in which the name of its run may stand."""
    if deliverable.kind in _OF_ONE_RUN:
        names = [deliverable.path]
    elif deliverable.kind in _OF_WEIGHTS:
        names = [paths.join(deliverable.path, name) for name in (STATE, *_SETTINGS)]
    else:
        return
    for name in names:
        entry = campaign.inventory.resolve(name)
        if entry is not None and entry.kind == FILE and record_facts.readable(entry.path):
            yield name, entry


def _run_named(campaign: Campaign, run: Run, entry: Entry, evidence: Evidence) -> tuple[str | None, str]:
    """The field of a document, or of every record of a file, that names one other run of the campaign, and that run."""
    content = read_object(evidence, entry) if entry.path.endswith(".json") else None
    if content is None and (entry.path.endswith(".json") or record_facts.suffix(entry.path) == record_facts.PARQUET):
        return None, ""
    records = iter([content] if content is not None else _records(evidence, entry))
    with contextlib.suppress(OSError):
        first = next(records, {})
        for field in _RUN_FIELDS:
            name = first.get(field)
            if isinstance(name, str) and _is_another(campaign, run, name):
                return (field, name) if all(record.get(field) == name for record in records) else (None, "")
    return None, ""


def _records(evidence: Evidence, entry: Entry) -> Iterator[Mapping[str, Any]]:
    opened = functools.partial(evidence.stream, entry)
    for item in record_facts.read(entry.path, entry.size, opened, record_facts.Columns()):
        if isinstance(item, Row) and isinstance(item.value, dict):
            yield item.value


def _is_another(campaign: Campaign, run: Run, name: str) -> bool:
    """Whether a name is that of another run of the campaign, of which this one does not carry on the name."""
    return name != run.id and name in campaign.runs and name not in _relatives(campaign, run)


def _relatives(campaign: Campaign, run: Run) -> set[str | None]:
    """Runs whose name a run may carry on: those that it repeats, replaces or continues."""
    return {run.repeat_of, run.supersedes, run.resumed_from, (run.resumed_from or "").partition("/")[0]}
