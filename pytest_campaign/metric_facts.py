"""What is learned of a file of metrics in one pass: what is not a number, how its steps run, what an abort rule would forbid."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import math
import operator
import re
import statistics
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from . import record_facts
from .campaign import AbortRule
from .formats.trainer_state import STATE
from .key_sums import SHOWN
from .readers import event_files, ini_text, json_lines, whole_json, yaml_text
from .readers.event_files import Scalar
from .readers.fields import leaves
from .readers.rows import Header, Item, Row, Where
from .readers.strict_json import Fault, pointer_to
from .record_facts import Open, Places

DEEPEST = 64
SETTINGS = frozenset({"yaml", "yml", "toml", "ini", "cfg", "conf"})  # suffixes of what is commonly read as settings
MOST_SERIES = 100_000
_MOST_LAYOUTS = 10_000
_MOST_LABELS = 64  # different texts in one field; with more it is no name of a series (a time, a message)
_MOST_STEPS = 1000
_MOST_KINDS = 1000  # of records, by the names that have a number
_MOST_HEADS = 20  # records in which a history has its first step
_STEPS = ("step", "global_step", "trainer/global_step", "_step", "steps", "iteration", "iter", "iters", "train_step", "update",
          "num_updates")
# Counters of a whole run, whatever group of a logger they stand in (`train/global_step`, `time/total_timesteps`).
_GLOBAL_STEPS = ("global_step", "total_timesteps", "num_timesteps", "timesteps_total", "training_iteration")
_BATCHES = ("batch", "batch_idx")  # steps beside an epoch; elsewhere the size of a batch
_EPOCHS = ("epoch", "epochs", "epoch_num", "current_epoch")
_PARTS = frozenset({  # their numbers tell series apart
    "rank", "local_rank", "global_rank", "worker", "process", "device", "gpu", "fold", "seed", "run", "trial", "task", "layer",
    "group", "param_group", "class", "label", "version"})
_NOT_METRICS = frozenset({"time", "timestamp", "wall_time", "date", "datetime", "created_at", "_timestamp", "_runtime"})
# Settings that a file of metrics repeats, and what describes it; null is right there.
_SETTINGS = re.compile(
    r"(?:.*[_-])?(?:configs?|args|arguments|kwargs|hparams|hyperparameters|parameters|settings|options|env|environment|metadata"
    r"|versions?|name|id|path|url|hash|sha|commit|revision|reason|comment|description|template|instruction|checkpoint|limit"
    r"|epoch|step|iteration|index)"
    r"|config_\w+|trial_\w+|params|meta|info|model_info|n-shot|n-samples|higher_is_better|task_hashes|group_subtasks|tags?|notes?"
    r"|error|message|date|time|seed|device|dtype|fewshot_as_multiturn", re.I)
_COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    ">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le, "==": operator.eq, "!=": operator.ne}
_ORDERS = frozenset({">", ">=", "<", "<="})
# How a list of results says what is measured, and the number itself: {"name": "accuracy", "value": 0.91}.
_NAMES, _VALUES = frozenset({"name", "metric", "metric_name", "type"}), frozenset({"value", "score"})
_SOFT = re.compile(r"(?:.*[/_.])?grad_?norm\w*", re.I)  # infinite in steps that a loss scaler skips
_QUALIFIED = re.compile(  # a number with its sign of percent or its deviation
    r"\s*([-+]?[0-9]{1,20}(?:\.[0-9]{0,20})?)\s*(?:%|(?:±|\+/-|\+-)\s*[0-9.]{1,20}\s*%?|\(±?[0-9.]{1,20}\))\s*")
# Switches and modes by which a program was only tried out.
_TRIAL = re.compile(r"(?:is_)?smoke(?:_?(?:test|run|eval|evaluation|only|mode))?|(?:is_)?dry_?run|fast_dev_run", re.I)
_MODES = re.compile(r"mode|kind|type|stage|profile|preset|purpose|evaluation|(?:run|eval)_(?:mode|kind|type)", re.I)
_TRIAL_MODE = re.compile(r"smoke(?:[ _-]?(?:test|run|eval|evaluation))?|dry[ _-]?run", re.I)
_LIMITS_OF_ROWS = re.compile(r"limit|(?:max|num)_(?:eval|predict|test)_samples|limit_(?:test|val|eval)_batches")
_LIMITS = re.compile(r"limit|(?:max|num)_(?:eval_|predict_|test_)?samples|limit_(?:test|val|eval)_batches")


@dataclasses.dataclass(frozen=True)
class Wanted:
    """What the documents say of metrics: names that may be null, and the abort rules of their run."""

    nullable: frozenset[str] = frozenset()
    rules: tuple[AbortRule, ...] = ()
    alone: bool = True  # whether the file is the deliverable; what lies in a folder is no metric by being there


@dataclasses.dataclass
class Steps:
    """How the steps of a history run; ``stride`` is the usual distance of two."""

    name: str
    first: float
    first_at: Where
    last: float
    seen: list[float] = dataclasses.field(default_factory=list)
    within_epochs: bool = False

    @property
    def stride(self) -> float:
        distances = [later - earlier for earlier, later in zip(self.seen, self.seen[1:], strict=False) if later > earlier]
        return statistics.median(distances) if distances else 0.0


def joined(parts: Sequence[Steps]) -> Steps | None:
    """The steps of a history that stands in several files; the stride is that of the one with the most steps."""
    if not parts:
        return None
    first, longest = min(parts, key=lambda part: part.first), max(parts, key=lambda part: len(part.seen))
    return Steps(first.name, first.first, first.first_at, max(part.last for part in parts), longest.seen,
                 any(part.within_epochs for part in parts))


@dataclasses.dataclass
class MetricFacts:
    """One file of metrics. ``faults`` are the first of each kind, ``counts`` how many of each kind there are.

    ``forbidden`` are the abort rules that hold, each with the record at which it does; ``applied`` the ids of those whose metric
    is there. ``limited`` are settings by which only a part was evaluated.
    """

    faults: list[Fault] = dataclasses.field(default_factory=list)
    counts: dict[str, int] = dataclasses.field(default_factory=dict)
    names: tuple[str, ...] | None = None
    rows: int = 0
    numbers: int = 0
    null: Places = dataclasses.field(default_factory=Places)
    not_finite: Places = dataclasses.field(default_factory=Places)
    restarts: Places = dataclasses.field(default_factory=Places)
    repeats: Places = dataclasses.field(default_factory=Places)
    limited: Places = dataclasses.field(default_factory=Places)
    empty_columns: list[str] = dataclasses.field(default_factory=list)
    forbidden: list[tuple[AbortRule, Where, str]] = dataclasses.field(default_factory=list)
    applied: set[str] = dataclasses.field(default_factory=set)
    steps: Steps | None = None

    def fault(self, fault: Fault) -> None:
        """Something that is wrong with the file."""
        self.counts[fault.kind] = self.counts.get(fault.kind, 0) + 1
        if self.counts[fault.kind] <= SHOWN:
            self.faults.append(fault)


def readable(path: str) -> bool:
    """Whether a file of metrics with such a name is read."""
    return record_facts.readable(path) or event_files.NAME.search(path) is not None


def gather(path: str, size: int, opened: Open, wanted: Wanted) -> MetricFacts:
    """The facts of one file whose name is `readable`. OSError as by ``opened``."""
    gathering = _Gathering(path, wanted)
    if event_files.NAME.search(path):
        with opened() as stream:
            for item in event_files.scalars(stream):
                gathering.scalar(item)
    elif (kind := record_facts.suffix(path)) in SETTINGS:
        gathering.facts.rows = 1
        gathering.values(_of_settings(kind, opened, size))
    elif kind != "json":
        for record in record_facts.read(path, size, opened, record_facts.Columns(), comments=True):
            gathering.item(record)
    elif record_facts.holds_lines(opened):
        _lines(gathering, opened)
    elif path.rpartition("/")[2] == STATE:
        gathering.lenient = True
        _document(gathering, _lenient(size, opened))
    else:
        _document(gathering, record_facts.document(size, opened))
    return gathering.done()


def of_table(path: str, items: Iterator[Item], wanted: Wanted) -> MetricFacts:
    """The facts of a table of which the rows are known, each cell a text."""
    gathering = _Gathering(path, wanted)
    for item in items:
        gathering.item(item)
    return gathering.done()


def _of_settings(kind: str, opened: Open, size: int) -> Sequence[tuple[tuple[str, ...], Any, int | None]]:
    """Every value of a YAML, TOML or INI file with its keys and its line; nothing of a file that is none."""
    with opened() as stream:
        data = record_facts.whole(stream, min(size, yaml_text.MOST_BYTES + 1))
    try:
        if kind == "toml":
            return [(keys, value, None) for keys, value in leaves(tomllib.loads(data.decode("utf-8-sig")), deepest=DEEPEST)]
        fields = list(yaml_text.fields(data) if kind in ("yaml", "yml") else ini_text.fields(data))
    except (ValueError, RecursionError):
        return []
    return [(field.keys, field.value if field.quoted else _plain(field.value), field.line) for field in fields]


def _plain(text: str) -> Any:
    """What a word without quotes means in YAML, as far as it matters for metrics."""
    if text in ("", "~", "null", "Null", "NULL"):
        return None
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    return re.sub(r"^([-+]?)\.(inf|nan)$", r"\1\2", text, flags=re.I)


def _lines(gathering: _Gathering, opened: Open) -> None:
    """JSON Lines in a file that is called ``.json``: a history; two results one after the other are no document."""
    with opened() as stream:
        first = [item.value for item in itertools.islice(json_lines.records(stream), _MOST_HEADS) if isinstance(item, Row)]
    layouts = [_layout(tuple(value)) for value in first if isinstance(value, dict)]
    if not any(layout.step or layout.epoch for layout in layouts):
        gathering.facts.rows = 1
        gathering.facts.fault(Fault("joined", "two documents in one file", 2, 1, None, "text after the first one",
                                    "one document, or a history with a step in each record"))
        return
    with opened() as stream:
        for item in json_lines.records(stream):
            gathering.item(item)


def _lenient(size: int, opened: Open) -> Any:
    """A framework's own document, in which NaN has its place."""
    if size > record_facts.LARGEST_DOCUMENT:
        return record_facts.document(size, opened)
    with opened() as stream:
        data = record_facts.whole(stream, size)
    try:
        return json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return record_facts.document(size, opened)


def _document(gathering: _Gathering, value: Any) -> None:
    if isinstance(value, record_facts.Faults):
        for fault in value.faults:
            gathering.facts.fault(fault)
        return
    if isinstance(value, dict) and gathering.lenient:
        value = {"log_history": value.get("log_history", [])}
    history = [item for item in whole_json.records(value, (), None) if isinstance(item, Row) and isinstance(item.value, dict)]
    rows = isinstance(value, list) or (isinstance(value, dict) and _has_list(value)) or _of_columns(value)
    if rows and any(_layout(tuple(item.value)).step or _layout(tuple(item.value)).epoch for item in history):
        for item in history:
            gathering.item(item)
        value = {name: item for name, item in value.items() if not isinstance(item, list)} if isinstance(value, dict) else {}
    if not isinstance(value, (dict, list)):
        value = {"": value}
    gathering.facts.rows += bool(value)
    gathering.tree(value)


def _has_list(value: Mapping[str, Any]) -> bool:
    return sum(isinstance(item, list) and bool(item) and isinstance(item[0], dict) for item in value.values()) == 1


def _of_columns(value: Any) -> bool:
    return isinstance(value, dict) and bool(value) and all(isinstance(item, list) for item in value.values())


class _Layout(NamedTuple):
    """What the fields of a record are: the step, the epoch, the names of the others, and those by which it may be limited."""

    step: str | None
    epoch: str | None
    others: tuple[str, ...]
    limits: tuple[str, ...]


@functools.lru_cache(_MOST_LAYOUTS)
def _layout(names: tuple[str, ...]) -> _Layout:
    lower = {str(name).lower(): name for name in reversed(names)}
    epoch = next((lower[name] for name in _EPOCHS if name in lower), None)
    steps = _STEPS if epoch is None else _STEPS + _BATCHES
    step = next((lower[name] for name in steps if name in lower), None)
    if step is None:
        last = {name.rpartition("/")[2]: lower[name] for name in reversed(lower)}
        step = next((last[name] for name in _GLOBAL_STEPS if name in last), None)
    others = tuple(name for name in names
                   if name not in (step, epoch) and name.lower() not in _NOT_METRICS and name.lower() not in _STEPS)
    limits = tuple(name for name in others if any(kind.fullmatch(name) for kind in (_TRIAL, _MODES, _LIMITS_OF_ROWS)))
    return _Layout(step, epoch, others, limits)


class _Cells:
    """What the cells of one column of a table are."""

    def __init__(self) -> None:
        self.numbers = self.texts = 0
        self.empty, self.not_finite = Places(), Places()


class _Gaps:
    """Where the records of a history have no value: by the name and by the kind of the record, which is the names that it has."""

    def __init__(self) -> None:
        self._kinds: dict[tuple[str, ...], int] = {}
        self._empty: dict[str, dict[tuple[str, ...], Places]] = {}
        self._again: set[str] = set()  # names that have a value after one was missing

    def see(self, names: tuple[str, ...], empty: Sequence[str], where: Where) -> None:
        """The next record: the names of its numbers, and those of what is null."""
        if names not in self._kinds and len(self._kinds) == _MOST_KINDS:
            names = ()
        self._kinds[names] = self._kinds.get(names, 0) + 1
        for name in empty:
            self._empty.setdefault(name, {}).setdefault(names, Places()).add(where, name)
        if self._empty:
            self._again.update(name for name in names if name in self._empty)

    def lost(self) -> Iterator[Places]:
        """The places where a value is missing, without those where none belongs.

        None belongs into a record of another kind: one with a metric that the records with this value never have. And none is
        missing of what is written now and then only: most records are without it, and it comes again.
        """
        for name, places in self._empty.items():
            having = [kind for kind in self._kinds if name in kind]
            together = {other for kind in having for other in kind}
            left = [at for kind, at in places.items() if not having or together.issuperset(kind)]
            now_and_then = name in self._again and sum(at.count for at in left) >= sum(self._kinds[kind] for kind in having)
            if not now_and_then:
                yield from left


class _Gathering:
    """The facts of one file while it is gone through."""

    def __init__(self, path: str, wanted: Wanted) -> None:
        self.facts = MetricFacts()
        self.lenient = False
        self._epochs = 0
        self._path, self._wanted = path, wanted
        self._columns: dict[str, _Cells] = {}
        self._labels: dict[str, set[str] | None] = {}  # the texts in a field; None when they are too many
        self._last: dict[tuple[object, ...], tuple[float | None, float | None, Any]] = {}  # of each series: step, epoch, value
        self._constants: dict[str, tuple[float, int]] = {}  # fields that kept their value since the history began, and how often
        self._gaps = _Gaps()
        self._streaks: dict[tuple[object, ...], int] = {}
        self._so_far: dict[tuple[object, ...], tuple[AbortRule, Where, str]] = {}  # rules that held from the first record on
        self._told: set[str] = set()

    @property
    def is_history(self) -> bool:
        """Whether a record had a step or an epoch."""
        return self.facts.steps is not None or self._epochs > 0

    def done(self) -> MetricFacts:
        """The facts, when everything was seen."""
        for rule, where, text in self._so_far.values():
            self._forbid(rule, where, text)
        for places in self._gaps.lost():
            self._merge(self.facts.null, places)
        self.facts.null.first.sort(key=lambda place: place[0].line or 0)
        for name, cells in self._columns.items():
            if name in self._wanted.nullable:
                continue
            if not cells.texts:
                self._merge(self.facts.not_finite, cells.not_finite)
                if cells.numbers and not self.is_history:
                    self._merge(self.facts.null, cells.empty)
            if name and not cells.texts and not cells.numbers and self.facts.rows:
                self.facts.empty_columns.append(name)
        return self.facts

    @staticmethod
    def _merge(places: Places, more: Places) -> None:
        places.count += more.count
        places.first = (places.first + more.first)[:SHOWN]

    # ---- documents -------------------------------------------------------------------------------------------

    def tree(self, value: Any) -> None:
        """The numbers of a document, wherever they stand."""
        if isinstance(value, dict):
            self._limits((keys, item, Where(self._path, None, pointer_to(keys))) for keys, item in leaves(value, deepest=DEEPEST))
            self._samples(value)
            if isinstance(value.get("results"), dict) and ("config" in value or "configs" in value or "config_general" in value):
                value = {name: value[name] for name in ("results", "groups") if name in value}  # an evaluation harness
        names: dict[tuple[str, ...], tuple[str, ...]] = {}
        for keys, item in leaves(value, deepest=DEEPEST):
            if isinstance(item, str) and keys and keys[-1] in _NAMES:
                names[keys[:-1]] = (*names.get(keys[:-1], ()), item)
        for keys, item in leaves(value, deepest=DEEPEST):
            self._leaf(keys, item, Where(self._path, None, pointer_to(keys)), names.get(keys[:-1], ()))

    def values(self, found: Sequence[tuple[tuple[str, ...], Any, int | None]]) -> None:
        """The values of a file of another kind, each with its keys and its line."""
        placed = [(keys, value, Where(self._path, line, pointer_to(keys))) for keys, value, line in found if keys]
        self._limits(placed)
        for keys, value, where in placed:
            self._leaf(keys, value, where)

    def _leaf(self, keys: tuple[str, ...], value: Any, where: Where, called: tuple[str, ...] = (), *,
              in_history: bool = False) -> None:
        """A value of a document; ``called`` are the names that its neighbours give it.

        A list of numbers under one name is a history by itself, as Keras and data frames write it: ``{"loss": [2.3, 1.9]}``.
        """
        name = next((key for key in reversed(keys) if not key.isdigit()), "")
        nullable = _may_be_null(keys, self._wanted.nullable)
        if nullable and type(value) not in (int, float):
            return
        if value is None:
            if not any(_SETTINGS.fullmatch(key) for key in keys):
                self.facts.null.add(where, name)
            return
        number = _number(value)
        if number is None:
            return
        self.facts.numbers += 1
        excused = nullable or self.lenient or any(_SETTINGS.fullmatch(key) for key in keys[:-1])
        if not math.isfinite(number) and not excused:
            self.facts.not_finite.add(where, f"{name} is {value}")
        self._leaf_rules(keys, number, where, called, in_history=in_history or bool(keys and keys[-1].isdigit()))

    def _leaf_rules(self, keys: tuple[str, ...], number: float, where: Where, called: tuple[str, ...], *,
                    in_history: bool) -> None:
        named = [key for key in keys if not key.isdigit()]
        names = [named[-1] if named else "", "/".join(named), ".".join(named)]
        if named and named[-1] in _VALUES:
            names += [*named[-2:-1], *called]
        self._rules(names, ("", *named, *called), number, where, in_history=in_history)

    def _limits(self, values: Iterable[tuple[tuple[str, ...], Any, Where]]) -> None:
        """What says that only a part of the data was evaluated."""
        for keys, value, where in values:
            of_settings = any(_SETTINGS.fullmatch(key) for key in keys[:-1]) or (len(keys) == 1 and keys[-1] != "num_samples")
            if of_settings and _limits(keys[-1], value):
                self.facts.limited.add(where, f"{keys[-1]} is {value}")

    def _samples(self, document: Mapping[str, Any]) -> None:
        """The numbers of samples that an evaluation harness says: those there are, and those it looked at."""
        samples = document.get("n-samples")
        for task, counts in samples.items() if isinstance(samples, dict) else ():
            match counts:
                case {"original": int(original), "effective": int(effective)} if effective < original:
                    self.facts.limited.add(Where(self._path, None, pointer_to(("n-samples", task))),
                                           f"{task}: {effective:,} of {original:,} samples")

    # ---- records ---------------------------------------------------------------------------------------------

    def item(self, item: Item) -> None:
        """The next record, or what is wrong with it."""
        if isinstance(item, Fault):
            self.facts.fault(item)
        elif isinstance(item, Header):
            self.facts.names = item.names
            self._columns = {name: _Cells() for name in _layout(item.names).others}
        else:
            self.facts.rows += 1
            where = Where(self._path, item.line, item.pointer)
            if isinstance(item.value, dict):
                self._record(item.value, where)
            elif self._wanted.alone:
                for keys, value in leaves(item.value, deepest=DEEPEST):
                    if keys:
                        self._leaf(keys, value, where)

    def scalar(self, item: Scalar | Fault) -> None:
        """The next value of an event file."""
        if isinstance(item, Fault):
            self.facts.fault(item)
            return
        self.facts.rows += 1
        self.facts.numbers += 1
        where = Where(self._path, None, f"/{item.record}")
        if not math.isfinite(item.value) and item.tag not in self._wanted.nullable and not _SOFT.fullmatch(item.tag):
            self.facts.not_finite.add(where, f"{item.tag} is {item.value} at step {item.step:,}")
        self._see_step("step", item.step, where)
        self._series((item.tag,), item.step, None, item.value, where)
        self._rules((item.tag,), (item.tag,), item.value, where, in_history=True)

    def _record(self, record: Mapping[str, Any], where: Where) -> None:
        layout = _layout(tuple(record))
        step = _number(record[layout.step]) if layout.step is not None else None
        epoch = _number(record[layout.epoch]) if layout.epoch is not None else None
        self._epochs += epoch is not None
        if layout.step is not None and step is not None and math.isfinite(step):
            self._see_step(layout.step, step, where)
        table = self.facts.names is not None
        for name in layout.limits:
            setting = _number(record[name]) if table and _number(record[name]) is not None else record[name]
            if _limits(name, setting, _LIMITS_OF_ROWS):
                self.facts.limited.add(where, f"{name} is {record[name]}")
        values: list[tuple[str, float]] = []
        labels: list[object] = []
        empty: list[str] = []
        in_history = step is not None or epoch is not None
        counted = table and _number(record.get("")) == self.facts.rows - 1  # the index of a data frame, which has no name
        for name in layout.others:
            value = record[name]
            if table and isinstance(value, str) and name in self._columns:
                value = self._cell(self._columns[name], name, value, where)
            if isinstance(value, (dict, list)):
                for keys, leaf in leaves(value, (name,), DEEPEST):
                    self._leaf(keys, leaf, where, in_history=in_history)
                    number = _number(leaf)
                    if number is not None:
                        values.append(("/".join(keys), number))
                continue
            number = _number(value)
            if name.lower() in _PARTS or (number is None and isinstance(value, str)):
                labels.append(self._label(name, str(value)))
            elif number is not None:
                values.append((name, number))
            if not table and (self._wanted.alone or in_history):
                if value is None and in_history and name not in self._wanted.nullable and not _SETTINGS.fullmatch(name):
                    empty.append(name)
                else:
                    self._leaf_of_record(name, value, number, where)
        self.facts.numbers += len(values)
        if not table and in_history:
            self._gaps.see(tuple(name for name, _ in values), empty, where)
        if self._is_another_run(values):
            self._last.clear()
        for name, number in values:
            if in_history:
                self._series((name, *labels), step, epoch, number, where)
            self._rules((name, *(label for label in labels if isinstance(label, str))), (name, *labels), number, where,
                        in_history=in_history or counted)

    def _is_another_run(self, values: Sequence[tuple[str, float]]) -> bool:
        """Whether a field that was constant so far has another value, as a setting has in the rows of the next run."""
        known = ((number, *self._constants.get(name, (number, 0))) for name, number in values)
        changed = any(times > 1 and before != number for number, before, times in known)
        if changed:
            self._constants.clear()
        for name, number in values:
            before, times = self._constants.get(name, (number, 0))
            self._constants[name] = (number, times + 1) if before == number else (math.nan, 0)
        return changed

    def _leaf_of_record(self, name: str, value: Any, number: float | None, where: Where) -> None:
        if name in self._wanted.nullable or _SETTINGS.fullmatch(name):
            return
        if value is None:
            self.facts.null.add(where, name)
        elif number is not None and not math.isfinite(number) and not self.lenient:
            self.facts.not_finite.add(where, f"{name} is {value}")

    def _cell(self, cells: _Cells, name: str, text: str, where: Where) -> Any:
        text = text.strip()
        if not text:
            cells.empty.add(where, name)
            return ""
        number = _number(text)
        if number is None:
            cells.texts += 1
            return text
        cells.numbers += 1
        if not math.isfinite(number):
            cells.not_finite.add(where, f"{name} is {text}")
        return number

    def _label(self, name: str, text: str) -> str | None:
        """A text that tells series apart; None in a field with too many different ones."""
        known = self._labels.setdefault(name, set())
        if known is None:
            return None
        known.add(text[:200])
        if len(known) > _MOST_LABELS:
            self._labels[name] = None
            return None
        return text[:200]

    # ---- series ----------------------------------------------------------------------------------------------

    def _see_step(self, name: str, step: float, where: Where) -> None:
        if self.facts.steps is None:
            self.facts.steps = Steps(name, step, where, step, [step])
            return
        steps = self.facts.steps
        if step > steps.last and len(steps.seen) < _MOST_STEPS:
            steps.seen.append(step)
        steps.last = max(steps.last, step)
        if step < steps.first:
            steps.first, steps.first_at = step, where

    def _series(self, series: tuple[object, ...], step: float | None, epoch: float | None, value: float, where: Where) -> None:
        if series not in self._last and len(self._last) >= MOST_SERIES:
            return
        before, epoch_before, value_before = self._last.get(series, (None, None, None))
        self._last[series] = step, epoch, value
        later_epoch = epoch is not None and epoch_before is not None and epoch > epoch_before
        if step is None or before is None:
            if epoch is not None and epoch_before is not None and epoch < epoch_before:
                self._back(f"from epoch {epoch_before:g} to {epoch:g}", where)
        elif step < before:
            if later_epoch:
                assert self.facts.steps is not None
                self.facts.steps.within_epochs = True
            else:
                self._back(f"from step {before:,.10g} to {step:,.10g}", where)
        elif step == before and not later_epoch and value != value_before:
            self.facts.repeats.add(where, f"{series[0]} of step {step:,.10g}")

    def _back(self, text: str, where: Where) -> None:
        if text not in self._told and len(self._told) < _MOST_STEPS:
            self._told.add(text)
            self.facts.restarts.add(where, text)

    def _rules(self, names: Sequence[str], series: tuple[object, ...], number: float, where: Where, *,
               in_history: bool) -> None:
        """Apply the abort rules to one number.

        A training begins with a high loss and a low accuracy: a limit that says nothing of a number of records is none before it
        was kept for the first time, unless it never is.
        """
        for rule in self._wanted.rules:
            if rule.metric not in names:
                continue
            self.facts.applied.add(rule.id)
            key = (rule.id, *series)
            if not holds(rule, number):
                self._streaks[key] = 0
                self._so_far.pop(key, None)
            elif in_history and rule.for_steps == 1 and rule.op in _ORDERS and key not in self._streaks:
                self._so_far.setdefault(key, (rule, where, f"{number:g}"))
            else:
                self._streaks[key] = self._streaks.get(key, 0) + 1
                if self._streaks[key] == rule.for_steps:
                    self._forbid(rule, where, f"{number:g}")

    def _forbid(self, rule: AbortRule, where: Where, text: str) -> None:
        if all(rule is not told for told, *_ in self.facts.forbidden):
            self.facts.forbidden.append((rule, where, text))


def holds(rule: AbortRule, number: float) -> bool:
    """Whether a value fulfils the comparison of an abort rule."""
    if rule.op == "not_finite":
        return not math.isfinite(number)
    return rule.op is not None and rule.value is not None and _COMPARISONS[rule.op](number, rule.value)


def _number(value: Any) -> float | None:
    """The number that a value is or that its text says (``91.2%``, ``0.91 ± 0.02``); None for all others, and for ``1_000``."""
    if type(value) in (int, float):
        try:
            return float(value)
        except OverflowError:
            return None
    if isinstance(value, str) and len(value) <= 64 and "_" not in value:
        try:
            return float(value)
        except ValueError:
            qualified = _QUALIFIED.fullmatch(value)
            return float(qualified[1]) if qualified is not None else None
    return None


def _limits(name: str, value: Any, limits: re.Pattern[str] = _LIMITS) -> bool:
    """Whether a setting limits an evaluation: a number of samples, a share below all, a switch that is on."""
    if _TRIAL.fullmatch(name):
        counted = name == "fast_dev_run" and type(value) in (int, float) and value > 0  # "smoke" may be a class with a score
        return value is True or counted or (isinstance(value, str) and value.lower() in ("true", "yes"))
    if isinstance(value, str):
        return _MODES.fullmatch(name) is not None and _TRIAL_MODE.fullmatch(value) is not None
    if isinstance(value, bool) or not limits.fullmatch(name):
        return False
    if name.endswith("_batches"):
        return (isinstance(value, (int, float)) and value not in (1.0, -1)) or (isinstance(value, float) and value < 1.0)
    return isinstance(value, (int, float)) and value > 0


def _may_be_null(keys: Sequence[str], nullable: frozenset[str]) -> bool:
    names = [key for key in keys if not key.isdigit()]
    return not nullable.isdisjoint({*names, "/".join(names), ".".join(names)})
