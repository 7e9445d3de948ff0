"""Manifest and plan: from bytes to the frozen classes of `campaign`, and what is wrong with them.

A document that is no strict JSON or does not fit its schema is unusable. One with a bad path, an id that occurs
twice or a reference to nothing stays usable, so that one fault does not hide what can still be checked.
"""

from __future__ import annotations

import dataclasses
import datetime
import difflib
import hashlib
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any

from . import paths, schema_files
from .campaign import (
    ESSENTIAL,
    Abort,
    AbortRule,
    Actuals,
    Base,
    Dataset,
    Decided,
    DecisionPoint,
    DeclaredFile,
    Deliverable,
    DocumentFault,
    Manifest,
    Place,
    Plan,
    PlannedDeliverable,
    PlannedRun,
    Rehearsal,
    Run,
)
from .formats.base import Depth
from .ledger import Budget, Paid
from .readers import strict_json
from .readers.strict_json import Spot, pointer_to, shown
from .schedule import Measured, Schedule, moment

if TYPE_CHECKING:
    from jsonschema import ValidationError

MOST_FAULTS = 20
MOST_ENTRIES = 200_000  # objects and arrays in a document; validating them takes about a minute
_LONGEST_MESSAGE = 200
_MOST_COMPARED = 200  # names that a misspelt one is compared with; violations from which the first are chosen
_Parts = tuple[str | int, ...]


@dataclasses.dataclass(frozen=True)
class _Fault:
    """A fault before it has its place: ``parts`` lead to the value or, with ``at_key``, to the member's key."""

    kind: str
    parts: _Parts
    message: str
    observed: str | None = None
    expected: str | None = None
    at_key: bool = False


def read_manifest(data: bytes | None, file: str = "manifest.json") -> tuple[Manifest | None, list[DocumentFault]]:
    """The manifest in ``data`` and what is wrong with it; (None, []) when there is no file (None).

    The manifest is None when it is unusable. A path that breaks the grammar becomes one that leads to nothing in
    any directory (it ends in NUL); its deliverable is then absent, and the fault of kind ``path`` says why.
    """
    raw, faults = _load(data, file, "manifest-1", _manifest_faults)
    return (None if raw is None else _manifest(raw, file)), faults


def read_plan(data: bytes | None, file: str, source: str) -> tuple[Plan | None, list[DocumentFault]]:
    """The plan in ``data`` and what is wrong with it; (None, []) when there is no file (None).

    ``source`` is "campaign" or "reviewer". The plan is None when it is unusable.
    """
    raw, faults = _load(data, file, "plan-1", _plan_faults)
    return (None if raw is None or data is None else _plan(raw, data, file, source)), faults


def plan_path(data: bytes | None) -> str | None:
    """Where a manifest says that the plan lies, even when the rest of it is unusable; None where it says nothing usable."""
    try:
        match strict_json.parse(data or b""):
            case {"plan": {"path": str(path)}} if paths.fault(path) is None:
                return paths.normal(path)
    except strict_json.NotStrict:
        pass
    return None


def place(data: bytes, pointer: str) -> Spot | None:
    """Line and column of the value at a JSON pointer; None when the document has no such value."""
    located = strict_json.locate(data, pointer)
    return located.value if located else None


def _load(data: bytes | None, file: str, schema: str,
          unseen: Callable[[Mapping[str, Any]], Iterator[_Fault]]) -> tuple[dict[str, Any] | None, list[DocumentFault]]:
    """The document, None when it is unusable, and its faults; ``unseen(raw)`` gives those that no schema can see."""
    if data is None:
        return None, []
    try:
        raw = strict_json.parse(data)
    except strict_json.NotStrict as error:
        return None, [DocumentFault(fault.kind, file, _cut(fault.message), fault.line, fault.column, fault.pointer,
                                    fault.observed, fault.expected) for fault in error.faults]
    if _has_too_many(raw):
        return None, [DocumentFault("too-large", file, f"it has more than {MOST_ENTRIES:,} entries", expected="fewer entries")]
    usable, faults = _schema_faults(raw, schema)
    if usable:
        return raw, _placed(itertools.chain(faults, unseen(raw)), data, file)
    return None, _placed(faults, data, file)


def _has_too_many(raw: Any) -> bool:
    """Whether a document has more objects and arrays than can be validated in reasonable time."""
    waiting, count = [raw], 0
    while waiting and count <= MOST_ENTRIES:
        value = waiting.pop()
        if isinstance(value, (dict, list)):
            count += 1
            waiting.extend(value.values() if isinstance(value, dict) else value)
    return count > MOST_ENTRIES


def _placed(faults: Iterable[_Fault], data: bytes, file: str) -> list[DocumentFault]:
    """The first faults with line and column; one more says so when there are others."""
    kept = list(itertools.islice(faults, MOST_FAULTS + 1))
    pointers = {pointer_to(fault.parts) for fault in kept}
    located = strict_json.locate_all(data, pointers) if kept else {}
    placed = []
    for fault in kept[:MOST_FAULTS]:
        pointer = pointer_to(fault.parts)
        spots = located.get(pointer)
        line, column = (spots.key if fault.at_key and spots.key else spots.value) if spots else (None, None)
        placed.append(DocumentFault(fault.kind, file, _cut(fault.message), line, column,
                                    None if len(pointer) > strict_json.LONGEST_POINTER else pointer,
                                    fault.observed, fault.expected))
    if len(kept) > MOST_FAULTS:
        placed.append(DocumentFault(kept[-1].kind, file, f"there are more than the {MOST_FAULTS} faults that are listed"))
    return placed


def _cut(message: str) -> str:
    return message if len(message) <= _LONGEST_MESSAGE else message[:_LONGEST_MESSAGE - 1] + "…"


# ---- what the schema sees ------------------------------------------------------------------------------------


def _schema_faults(raw: Any, schema: str) -> tuple[bool, Iterator[_Fault]]:
    """Whether the document can be used, and its faults: those highest up in it first, bad paths last."""
    formal: dict[tuple[_Parts, _Parts | str], ValidationError] = {}
    wrong_paths: dict[_Parts, _Fault] = {}
    for error in schema_files.validator(schema).iter_errors(raw):
        parts: _Parts = tuple(error.absolute_path)
        if _speaks_of_path(error):
            wrong_paths.setdefault(parts, _Fault(
                "path", parts, f"{shown(error.instance)} is no path inside the campaign: {paths.fault(error.instance)}",
                shown(error.instance), "a relative path inside the campaign"))
        elif len(formal) < _MOST_COMPARED:
            # pattern and format of one string, and each absent one of the required properties, make one fault
            of_form = error.validator in ("pattern", "format")
            formal.setdefault((parts, "form" if of_form else tuple(error.absolute_schema_path)), error)
    ordered = sorted(formal.values(), key=lambda error: len(error.absolute_path))
    return not formal, itertools.chain(itertools.chain.from_iterable(map(_in_words, ordered)), wrong_paths.values())


def _speaks_of_path(error: ValidationError) -> bool:
    return isinstance(error.schema, Mapping) and error.schema.get("format") == "campaign-path" and error.validator != "type"


def _in_words(error: ValidationError) -> Iterator[_Fault]:
    """What one violation says, in our own words and without the (possibly huge) instance."""
    value: Any = error.instance
    wanted: Any = error.validator_value
    parts: _Parts = tuple(error.absolute_path)
    schema: Mapping[str, Any] = error.schema if isinstance(error.schema, Mapping) else {}
    what = _named(parts)
    match error.validator:
        case "additionalProperties":
            known = list(schema.get("properties", ()))
            unknown = [key for key in value if key not in known]
            for key in unknown[:MOST_FAULTS + 1]:
                yield _Fault("schema", (*parts, key), f"{what} has no property {shown(key)}{_did_you_mean(key, known)}"
                             + ('; properties of your own belong under "extra"' if "extra" in known else ""),
                             shown(key), "a known property", at_key=True)
        case "required":
            for key in wanted:
                if key not in value:
                    yield _Fault("schema", parts, f"{what} lacks {shown(key)}", "absent", shown(key))
        case "dependentRequired":
            for key, others in wanted.items():
                for other in others:
                    if key in value and other not in value:
                        yield _Fault("schema", parts, f"{what} has {shown(key)} and lacks {shown(other)}", "absent", shown(other))
        case "oneOf":
            choices = " or ".join(shown(key) for choice in wanted for key in choice.get("required", ()))
            yield _Fault("schema", parts, f"{what} needs exactly one of {choices}", expected=choices)
        case "type":
            types = " or ".join(_TYPES[name] for name in ([wanted] if isinstance(wanted, str) else wanted))
            yield _Fault("schema", parts, f"{what} is {_described(value)}, and should be {types}", _described(value), types)
        case "enum":
            choices = ", ".join(json.dumps(choice) for choice in wanted)
            guess = _did_you_mean(value, map(str, wanted)) if isinstance(value, str) else ""
            yield _Fault("schema", parts, f"{what} is {_described(value)}{guess}", _described(value), f"one of {choices}")
        case "const":
            yield _Fault("schema", parts, f"{what} is {_described(value)}, and should be {json.dumps(wanted)}", _described(value),
                         json.dumps(wanted))
        case "pattern" | "format":
            right = schema.get("title", f"what fits {wanted}")
            yield _Fault("schema", parts, f"{what}: {_described(value)} is not {right}", _described(value), right)
        case keyword:
            right = _BOUNDS.get(str(keyword), "{} " + str(keyword)).format(wanted)
            yield _Fault("schema", parts, f"{what} is {_described(value)}, and should have {right}", _described(value), right)


_TYPES = {"object": "an object", "array": "an array", "string": "a string", "integer": "an integer", "number": "a number",
          "boolean": "true or false", "null": "null"}
_BOUNDS = {"minLength": "at least {} characters", "maxLength": "at most {} characters", "minimum": "a value of at least {}",
           "maximum": "a value of at most {}", "minItems": "at least {} items", "maxItems": "at most {} items",
           "minProperties": "at least {} members"}


def _named(parts: _Parts) -> str:
    """How a message calls the value at a place."""
    if not parts:
        return "the document"
    last = parts[-1]
    return shown(last) if isinstance(last, str) else f"entry {last + 1} of {_named(parts[:-1])}"


def _described(value: object) -> str:
    """A value in a few words, whatever its size."""
    match value:
        case str():
            return shown(value)
        case dict():
            return f"an object with {len(value)} {'member' if len(value) == 1 else 'members'}"
        case list():
            return f"an array with {len(value)} {'item' if len(value) == 1 else 'items'}"
        case _:
            text = json.dumps(value)
            return text if len(text) <= 40 else text[:40] + "…"


def _did_you_mean(word: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(word[:100], itertools.islice(known, _MOST_COMPARED), n=1)
    return f" (did you mean {shown(close[0])}?)" if close else ""


# ---- what no schema sees -------------------------------------------------------------------------------------


def _manifest_faults(raw: Mapping[str, Any]) -> Iterator[_Fault]:
    runs = raw["runs"]
    yield from _twice(runs, ("runs",), "run")
    for at, run in enumerate(runs):
        yield from _twice(run["deliverables"], ("runs", at, "deliverables"), f"deliverable of run {run['id']}")
    yield from _twice(raw.get("deliverables", ()), ("deliverables",), "deliverable of the campaign")

    ids = dict.fromkeys(run["id"] for run in runs)
    datasets, bases = raw.get("datasets", {}), raw.get("bases", {})
    yield from _alike(datasets, ("datasets",), "data set")
    yield from _alike(bases, ("bases",), "base")
    listed = list(_deliverables(raw))
    origins = ids | dict.fromkeys(name for full, entry, *_ in listed for name in (full, entry["path"]))
    circles = {field: _circles({run["id"]: run.get(field) for run in runs}) for field in ("supersedes", "repeat_of")}
    for at, run in enumerate(runs):
        yield from _unfinished(run, ("runs", at))
        for field, on_circles in circles.items():
            yield from _unknown(run, field, ids, ("runs", at), "run")
            yield from _circle(run, field, on_circles, ("runs", at))
        yield from _unknown(run, "resumed_from", origins, ("runs", at), "run or deliverable")
        yield from _unknown_items(run, "datasets", datasets, ("runs", at), "data set")
    for _, deliverable, parts, _ in listed:
        yield from _unknown(deliverable, "dataset", datasets, parts, "data set")
        if isinstance(deliverable.get("base"), str):
            yield from _unknown(deliverable, "base", bases, parts, "base")
    yield from _unknown_items(raw.get("decision", {}), "based_on", ids, ("decision",), "run")
    for at, rehearsal in enumerate(raw.get("actuals", {}).get("rehearsals", ())):
        yield from _unknown(rehearsal, "run", ids, ("actuals", "rehearsals", at), "run")


def _circle(run: Mapping[str, Any], field: str, on_circles: Set[str], parts: _Parts) -> Iterator[_Fault]:
    """A fault when what a run replaces or repeats leads back to itself: a corrected configuration has an id of its own."""
    id = run["id"]
    if id in on_circles and run.get(field) is not None:
        word = "replaces" if field == "supersedes" else "repeats"
        yield _Fault("reference", (*parts, field), f"run {id} {word} itself" + ("" if run[field] == id else ", by way of others"),
                     id, "an earlier run")


def _circles(following: Mapping[str, str | None]) -> Set[str]:
    """The ids from which the way leads back to themselves, in one pass."""
    found: set[str] = set()
    passed: dict[str, str] = {}  # each id that was passed, with where that way began
    for start in following:
        way, at = [], start
        while at not in passed:
            passed[at] = start
            way.append(at)
            after = following.get(at)
            if after is None:
                break
            at = after
        else:
            if passed[at] == start:
                found.update(way[way.index(at):])
    return found


def _unfinished(run: Mapping[str, Any], parts: _Parts) -> Iterator[_Fault]:
    """Faults of a run that did not come to its end: no reason in words, or outputs of what never ran."""
    id = run["id"]
    if run["status"] == "aborted" and not run["abort"]["reason"].strip():
        yield _Fault("schema", (*parts, "abort", "reason"), f"run {id} is aborted for a blank reason", "only blanks", "a reason")
    if run["status"] == "not_run" and not run["reason"].strip():
        yield _Fault("schema", (*parts, "reason"), f"run {id} was not executed for a blank reason", "only blanks", "a reason")
    if run["status"] == "not_run" and run["deliverables"]:
        yield _Fault("schema", (*parts, "deliverables"), f"run {id} was not executed and lists deliverables",
                     f"{len(run['deliverables'])} deliverables", "none, or another status")


def _plan_faults(raw: Mapping[str, Any]) -> Iterator[_Fault]:
    runs, steps = raw["runs"], raw.get("schedule", {}).get("steps", ())
    yield from _twice(runs, ("runs",), "run")
    for at, run in enumerate(runs):
        yield from _twice(run.get("deliverables", ()), ("runs", at, "deliverables"), f"deliverable of run {run['id']}")
    yield from _twice(raw.get("deliverables", ()), ("deliverables",), "deliverable of the campaign")
    yield from _twice(raw.get("abort_rules", ()), ("abort_rules",), "abort rule")
    yield from _twice(steps, ("schedule", "steps"), "step of the schedule")
    known = dict.fromkeys(item["id"] for item in (*runs, *steps))
    yield from _unknown(raw.get("decision_point", {}), "after", known, ("decision_point",), "run or step")


def _twice(items: Sequence[Mapping[str, Any]], parts: _Parts, what: str) -> Iterator[_Fault]:
    """Ids that occur more than once among ``items``, which stand at ``parts``; case makes no difference."""
    first: dict[str, int] = {}
    for at, item in enumerate(items):
        id = item["id"]
        earlier = first.setdefault(paths.folded(id), at)
        if earlier != at:
            other = items[earlier]["id"]
            message = (f"two entries have the id {id}: {what}, first at {pointer_to((*parts, earlier))}" if other == id
                       else f"the ids {other} and {id} differ only in case: {what}")
            yield _Fault("duplicate-id", (*parts, at, "id"), message, id, "an id that occurs once, whatever its case")


def _alike(named: Mapping[str, Any], parts: _Parts, what: str) -> Iterator[_Fault]:
    """Names that are one where neither case nor Unicode's normal form makes a difference."""
    first: dict[str, str] = {}
    for name in named:
        other = first.setdefault(paths.folded(name), name)
        if other != name:
            yield _Fault("duplicate-id", (*parts, name), f"two {what}s have the names {shown(other)} and {shown(name)}, which "
                         "differ only in case or in their Unicode form", shown(name), "another name", at_key=True)


def _unknown(item: Mapping[str, Any], field: str, known: Mapping[str, Any], parts: _Parts, what: str) -> Iterator[_Fault]:
    """A fault when the name in a field is not among the known ones."""
    if field in item:
        yield from _unknown_names([(item[field], (*parts, field))], known, what)


def _unknown_items(item: Mapping[str, Any], field: str, known: Mapping[str, Any], parts: _Parts, what: str) -> Iterator[_Fault]:
    """Faults for the names in a list that are not among the known ones."""
    yield from _unknown_names([(name, (*parts, field, at)) for at, name in enumerate(item.get(field, ()))], known, what)


def _unknown_names(names: Iterable[tuple[str, _Parts]], known: Mapping[str, Any], what: str) -> Iterator[_Fault]:
    for name, parts in names:
        if name not in known:
            yield _Fault("reference", parts, f"there is no {what} {shown(name)} in this document{_did_you_mean(name, known)}",
                         shown(name), f"a {what} that the document lists")


# ---- from the raw document to the classes --------------------------------------------------------------------


def _deliverables(raw: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any], _Parts, Mapping[str, Any] | None]]:
    """(full id, entry, its place, its run) of every deliverable in a manifest or plan, the runs' first."""
    for at, run in enumerate(raw["runs"]):
        for index, entry in enumerate(run.get("deliverables", ())):
            yield f"{run['id']}/{entry['id']}", entry, ("runs", at, "deliverables", index), run
    for index, entry in enumerate(raw.get("deliverables", ())):
        yield entry["id"], entry, ("deliverables", index), None


def _priority(entry: Mapping[str, Any], run: Mapping[str, Any] | None) -> str:
    priority: str = entry.get("priority") or (run or {}).get("priority") or ESSENTIAL
    return priority


def _depth(label: str | None) -> Depth | None:
    return None if label is None else Depth.parse(label)


def _sound(path: str | None) -> str | None:
    """The normal spelling of a path, None when it breaks the grammar."""
    return None if path is None or paths.fault(path) else paths.normal(path)


def _leading(path: str) -> str:
    """The normal spelling of a path. One that breaks the grammar gets a NUL, which no file name contains."""
    sound = _sound(path)
    return path + "\0" if sound is None else sound


def _manifest(raw: Mapping[str, Any], file: str) -> Manifest:
    plan = raw.get("plan", {})
    bases = {name: _base(base, Place(file, pointer_to(("bases", name))), name) for name, base in raw.get("bases", {}).items()}
    return Manifest(
        campaign=raw["campaign"],
        runs=[_run(run, Place(file, pointer_to(("runs", at)))) for at, run in enumerate(raw["runs"])],
        deliverables=[_deliverable(full, entry, run, Place(file, pointer_to(parts)), bases)
                      for full, entry, parts, run in _deliverables(raw)],
        named_paths=[sound for path in _named_paths(raw) if (sound := _sound(path)) is not None],
        todo=[(entry["pointer"], entry["why"], entry.get("command")) for entry in raw.get("todo", ())],
        plan_path=_sound(plan.get("path")), plan_sha256=plan.get("sha256"), decision=raw.get("decision"), raw=raw,
        datasets={name: _dataset(name, entry, Place(file, pointer_to(("datasets", name))))
                  for name, entry in raw.get("datasets", {}).items()},
        actuals=_actuals(raw["actuals"]) if "actuals" in raw else None)


def _actuals(raw: Mapping[str, Any]) -> Actuals:
    return Actuals(
        steps=[Measured.from_json(step) for step in raw.get("steps", ())],
        decisions=[Decided(datetime.datetime.fromisoformat(entry["at"]), entry["choice"], entry["reason"])
                   for entry in raw.get("decisions", ())],
        costs=[Paid.from_json(cost) for cost in raw.get("costs", ())],
        rehearsals=[Rehearsal(entry.get("run"), _sound(entry.get("path")), _whole(entry.get("bytes")),
                              entry.get("write_seconds"), entry.get("restore_seconds")) for entry in raw.get("rehearsals", ())])


def _run(run: Mapping[str, Any], place: Place) -> Run:
    return Run(id=run["id"], status=run["status"], reason=run.get("reason"), place=place, priority=_priority(run, None),
               abort=_abort(run["abort"]) if "abort" in run else None, started=moment(run.get("started")),
               finished=moment(run.get("finished")), supersedes=run.get("supersedes"),
               repeat_of=run.get("repeat_of"), parameters=_sound(run.get("parameters")), steps=_whole(run.get("steps")),
               role=run.get("role"), seed=_whole(run.get("seed")), first_step=_whole(run.get("first_step")),
               resumed_from=run.get("resumed_from"), world_size=_whole(run.get("world_size")))


def _abort(raw: Mapping[str, Any]) -> Abort:
    return Abort(raw["reason"], raw.get("rule"), _whole(raw.get("step")), moment(raw.get("at")))


def _dataset(name: str, entry: Mapping[str, Any], place: Place) -> Dataset:
    ids = entry.get("ids")
    path = entry.get("path")
    return Dataset(
        name=name, place=place, path=None if path is None else _leading(path), key=entry.get("key", ()),
        ids=None if ids is None else [tuple(id) if isinstance(id, list) else (id,) for id in ids],
        rows=_whole(entry.get("rows")), sha256=entry.get("sha256"))


def _base(base: Mapping[str, Any], place: Place, name: str | None = None) -> Base:
    path = base.get("path")
    return Base(model=base["model"], place=place, name=name, revision=base.get("revision"),
                path=None if path is None else _leading(path), sha256=base.get("sha256", {}))


def _base_of(entry: Mapping[str, Any], place: Place, bases: Mapping[str, Base]) -> Base | None:
    """The base of a deliverable; None where it has none, or names one that is not in the document."""
    match entry.get("base"):
        case str(name):
            return bases.get(name)
        case Mapping() as own:
            return _base(own, Place(place.file, f"{place.pointer}/base"))
        case _:
            return None


def _deliverable(full: str, entry: Mapping[str, Any], run: Mapping[str, Any] | None, place: Place,
                 bases: Mapping[str, Base]) -> Deliverable:
    return Deliverable(
        id=full, kind=entry["kind"], path=_leading(entry["path"]), run=run["id"] if run else None,
        purpose=entry.get("purpose"), format=entry.get("format"), priority=_priority(entry, run),
        depth=_depth(entry.get("reload", {}).get("depth")),
        probe=_leading(probe) if (probe := entry.get("reload", {}).get("probe")) is not None else None,
        files=[DeclaredFile(_leading(declared["path"]), _whole(declared.get("bytes")), declared.get("sha256"))
               for declared in entry.get("files", ())],
        place=place, dataset=entry.get("dataset"), key=entry.get("key", ()), value=entry.get("value"),
        nullable=entry.get("nullable", ()), truncated_field=entry.get("truncated_field"),
        file_columns=entry.get("file_columns", ()), base=_base_of(entry, place, bases),
        merged_from=entry.get("merged_from"), tensor_digests=entry.get("tensor_digests", {}))


def _whole(number: float | None) -> int | None:
    """JSON Schema counts 3.0 among the integers."""
    return None if number is None else int(number)


def _named_paths(raw: Mapping[str, Any]) -> Iterator[str | None]:
    """Every path that an entry names beside the deliverables' own; None where an entry names none."""
    yield raw.get("plan", {}).get("path")
    for dataset in raw.get("datasets", {}).values():
        yield dataset.get("path")
    for base in raw.get("bases", {}).values():
        yield base.get("path")
    for run in raw["runs"]:
        yield run.get("parameters")
    for _, entry, _, _ in _deliverables(raw):
        yield from (declared["path"] for declared in entry.get("files", ()))
        yield entry.get("reload", {}).get("probe")
        if isinstance(entry.get("base"), Mapping):
            yield entry["base"].get("path")
    for rehearsal in raw.get("actuals", {}).get("rehearsals", ()):
        yield rehearsal.get("path")


def _plan(raw: Mapping[str, Any], data: bytes, file: str, source: str) -> Plan:
    point = raw.get("decision_point")
    return Plan(
        campaign=raw["campaign"], question=raw["question"],
        runs=[PlannedRun(run["id"], run.get("role"), _priority(run, None), Place(file, pointer_to(("runs", at))))
              for at, run in enumerate(raw["runs"])],
        deliverables=[
            PlannedDeliverable(id=full, kind=entry.get("kind"), priority=_priority(entry, run), depth=_depth(entry.get("depth")),
                               place=Place(file, pointer_to(parts)), run=run["id"] if run else None)
            for full, entry, parts, run in _deliverables(raw)],
        source=source, file=file, sha256=hashlib.sha256(data).hexdigest(),
        abort_rules=[AbortRule(rule["id"], rule["when"], Place(file, pointer_to(("abort_rules", at))), rule.get("metric"),
                               rule.get("op"), rule.get("value"), _whole(rule.get("for_steps")) or 1)
                     for at, rule in enumerate(raw.get("abort_rules", ()))],
        decision_point=DecisionPoint(point.get("after"), point.get("options", ())) if point is not None else None,
        schedule=Schedule.from_json(raw["schedule"]) if "schedule" in raw else None,
        budget=Budget.from_json(raw["budget"]) if "budget" in raw else None)
