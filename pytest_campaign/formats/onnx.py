"""ONNX models: the structure of the protobuf message, of every tensor in it, and of external data files.

An ``.onnx`` file is one serialised ModelProto (onnx.proto, IR versions up to 14). It has no magic number, no length of its
own and no checksum: an empty file is a valid empty message, and a file that was cut between two fields parses. Tensors
lie in the message or, as ranges, in files beside it, which ``onnx.checker`` does not compare with their size.
"""

from __future__ import annotations

import codecs
import collections
import dataclasses
import itertools
import math
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from typing import BinaryIO

from .. import paths
from ..text import listed, number
from .base import Candidate, Depth, FileFacts, Folder, Format, Holds, Problem, ProblemKind, Reading, Source, Unit
from .nul_tail import nul_tail, row_of
from .protobuf_wire import FIXED32, FIXED64, LENGTH, VARINT, Cut, Field, Malformed, Window, fields
from .streaming import Segment, never_written, non_finite, scan

NAME = "ONNX"
MOST_FIELDS = 10_000_000
MOST_TENSORS = 500_000
MOST_LOCATIONS = 10_000  # external data files of one model
MOST_DIMENSIONS = 64
MOST_NAMES = 2_000_000  # of values in graphs; in a model with more nobody asks where its inputs come from
DEEPEST = 100  # messages in messages, as protobuf's own parsers allow
LARGEST = 1 << 31  # bytes of a message (protobuf.dev, Proto Limits)
_LONGEST_TEXT = 1024  # bytes of a name that are looked at

NEWEST_IR = 14  # the version whose fields are listed here
_MOST_IR = 30  # what recognition takes for a version
_MOST_TOP_FIELDS = 1000  # that recognition looks at
_MOST_FIELDS_AT_FIRST = 1_000_000  # for a look in pytest's own process
_OLDEST_IR_WITH_OPSETS = 3

# The fields of ModelProto and GraphProto, with their wire types.
MODEL_FIELDS: Mapping[int, int] = {
    1: VARINT, 2: LENGTH, 3: LENGTH, 4: LENGTH, 5: VARINT, 6: LENGTH, 7: LENGTH, 8: LENGTH, 14: LENGTH, 20: LENGTH, 25: LENGTH,
    26: LENGTH}
GRAPH_FIELDS = frozenset({1, 2, 5, 10, 11, 12, 13, 14, 15, 16})  # all with a length
_IR_VERSION, _GRAPH, _OPSETS, _DOC_STRING = 1, 7, 8, 6
_ONCE = frozenset({1, 2, 3, 4, 5, 6, 7})

# Where tensors are: the fields of each message that lead to one.
MESSAGES: Mapping[str, Mapping[int, str]] = {
    "ModelProto": {7: "GraphProto", 20: "TrainingInfoProto", 25: "FunctionProto"},
    "TrainingInfoProto": {1: "GraphProto", 2: "GraphProto"},
    "FunctionProto": {7: "NodeProto", 11: "AttributeProto"},
    "GraphProto": {1: "NodeProto", 5: "TensorProto", 15: "SparseTensorProto"},
    "NodeProto": {5: "AttributeProto"},
    "AttributeProto": {5: "TensorProto", 6: "GraphProto", 10: "TensorProto", 11: "GraphProto", 22: "SparseTensorProto",
                       23: "SparseTensorProto"},
    "SparseTensorProto": {1: "TensorProto", 2: "TensorProto"},
}
_SPARSE_INDICES = 2
_NODE_INPUT, _NODE_OUTPUT, _GRAPH_INPUT = 1, 2, 11

# TensorProto.DataType: name, bits of an element in raw data, the field of typed data.
TYPES: Mapping[int, tuple[str, int, int]] = {
    1: ("FLOAT", 32, 4), 10: ("FLOAT16", 16, 5), 16: ("BFLOAT16", 16, 5), 11: ("DOUBLE", 64, 10),
    14: ("COMPLEX64", 64, 4), 15: ("COMPLEX128", 128, 10), 9: ("BOOL", 8, 5), 8: ("STRING", 0, 6),
    3: ("INT8", 8, 5), 5: ("INT16", 16, 5), 6: ("INT32", 32, 5), 7: ("INT64", 64, 7),
    2: ("UINT8", 8, 5), 4: ("UINT16", 16, 5), 12: ("UINT32", 32, 11), 13: ("UINT64", 64, 11),
    17: ("FLOAT8E4M3FN", 8, 5), 18: ("FLOAT8E4M3FNUZ", 8, 5), 19: ("FLOAT8E5M2", 8, 5), 20: ("FLOAT8E5M2FNUZ", 8, 5),
    24: ("FLOAT8E8M0", 8, 5), 27: ("FLOAT6E2M3", 6, 5), 28: ("FLOAT6E3M2", 6, 5), 23: ("FLOAT4E2M1", 4, 5),
    21: ("UINT4", 4, 5), 22: ("INT4", 4, 5), 25: ("UINT2", 2, 5), 26: ("INT2", 2, 5),
}
_COMPLEX = frozenset({14, 15})
_STRING = 8
# How the values of a type are tested, where they lie as they are: in raw data, and in the fields of float and double.
_TESTED: Mapping[int, str] = {1: "F32", 10: "F16", 16: "BF16", 11: "F64", 14: "C64", 15: "C128", 17: "F8_E4M3", 18: "F8_E4M3FNUZ",
                              19: "F8_E5M2", 20: "F8_E5M2FNUZ", 24: "F8_E8M0"}
_TYPED = {4: FIXED32, 5: VARINT, 6: LENGTH, 7: VARINT, 10: FIXED64, 11: VARINT}
_WIDTH = {FIXED32: 4, FIXED64: 8}


@dataclasses.dataclass
class Tensor:
    """One TensorProto while it is read.

    ``raw`` is the length of its raw data, ``typed`` counts the values of typed data by field, ``indices`` marks the
    places of the values of a sparse tensor. ``initializer``: it is one of a graph, and no constant of a node. ``numbers`` is
    where its values lie in one piece in the model's own file.
    """

    name: str = ""
    type: int = 0
    shape: list[int] = dataclasses.field(default_factory=list)
    raw: int | None = None
    typed: dict[int, int] = dataclasses.field(default_factory=dict)
    external: bool = False
    entries: dict[str, str] = dataclasses.field(default_factory=dict)
    indices: bool = False
    initializer: bool = False
    numbers: Segment | None = None

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        """What the elements take as raw data."""
        return -(-self.elements * TYPES[self.type][1] // 8)

    @property
    def values(self) -> int:
        """What they take as typed data: complex numbers two values, elements of 4 and 2 bits share one, all others one."""
        if self.type in _COMPLEX:
            return 2 * self.elements
        return self.bytes if TYPES[self.type][1] in (4, 2) else self.elements


class _Fault(Exception):
    """The model cannot be read any further."""

    def __init__(self, kind: ProblemKind, observed: str, expected: str) -> None:
        super().__init__(observed)
        self.kind, self.observed, self.expected = kind, observed, expected


@dataclasses.dataclass
class _Scope:
    """The names of the values of one graph: what its inputs, initializers and nodes give, and what its nodes take."""

    given: set[str] = dataclasses.field(default_factory=set)
    taken: set[str] = dataclasses.field(default_factory=set)


# Recognition


def recognise(candidate: Candidate) -> bool:
    """Whether the file begins as a ModelProto, complete, or cut or damaged inside or behind its graph.

    It must begin with a version, go on with known fields of the right type, texts that are text and an operator set
    that is one, and reach a graph whose first field a graph has.
    """
    if len(candidate.head) < 2 or candidate.head[0] != _IR_VERSION << 3 | VARINT or not 0 < candidate.head[1] <= _MOST_IR:
        return False
    window = Window(candidate.read, candidate.size)
    seen: set[int] = set()
    try:
        for field in itertools.islice(fields(window, 0), _MOST_TOP_FIELDS):
            if MODEL_FIELDS.get(field.number) != field.wire or (field.number in _ONCE and field.number in seen):
                return False
            if not _plausible(window, field):
                return False
            seen.add(field.number)
            if {_GRAPH, _OPSETS} <= seen:
                return True
    except (Cut, Malformed):
        pass
    return _GRAPH in seen


def _plausible(window: Window, field: Field) -> bool:
    if field.number == _GRAPH:
        return _begins_as_graph(window, field)
    if field.number == _OPSETS:
        return field.end > window.size or _is_opset(window, field)
    if field.number in (2, 3, 4, _DOC_STRING):
        long = field.number == _DOC_STRING
        return (long or field.end - field.start <= _LONGEST_TEXT) and _is_text(window, field, lines=long)
    return True


def _begins_as_graph(window: Window, graph: Field) -> bool:
    try:
        first = next(fields(window, graph.start, graph.end), None)
    except Cut:
        return False
    return first is not None and first.number in GRAPH_FIELDS and first.wire == LENGTH


def _is_opset(window: Window, field: Field) -> bool:
    """OperatorSetIdProto: a domain (text) and a version (number)."""
    inner = list(fields(window, field.start, field.end)) if field.end - field.start <= _LONGEST_TEXT else []
    return bool(inner) and all((part.number, part.wire) in ((1, LENGTH), (2, VARINT)) for part in inner)


def _is_text(window: Window, field: Field, lines: bool) -> bool:
    data = window.take(field.start, min(field.end, window.size, field.start + _LONGEST_TEXT) - field.start)
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(data)
    except UnicodeDecodeError:
        return False
    return not any(unicodedata.category(c) == "Cc" and not (lines and c in "\t\n\r") for c in text)


def gather(folder: Folder) -> Iterator[Unit]:
    """Each model of a folder that has external data, with the files it names, whether they exist or not."""
    for candidate in filter(recognise, folder.candidates.values()):
        files = _external_files(candidate)
        if files:
            yield Unit(NAME, candidate.path, (candidate.path, *files))


def _external_files(candidate: Candidate) -> list[str]:
    files: dict[str, None] = {}

    def note(tensor: Tensor) -> None:
        location = tensor.entries.get("location", "")
        if tensor.external and not paths.fault(location) and len(files) < MOST_LOCATIONS:
            files[_beside(candidate.path, location)] = None

    _Walk(Window(candidate.read, candidate.size), note, first_look=True).run()
    files.pop(candidate.path, None)
    return list(files)


def _beside(path: str, location: str) -> str:
    """Where external data lies: its location is relative to the model's folder."""
    return paths.join(path.rpartition("/")[0], paths.normal(location))


# Reading


def read(unit: Unit, source: Source) -> Reading:
    """The structure of a model and of its external data, and the numbers of its parameters."""
    checks = _Checks(unit.path, source)
    deep = source.depth >= Depth.TENSORS
    read_bytes = 0
    with source.open(unit.path) as file:
        size = source.size(unit.path)
        walk = _Walk(Window(_reader(file), size), checks.tensor)
        walk.run()
        for problem in walk.problems(unit.path):
            checks.note(problem)
        for problem in never_written(unit.path, file, size, (Segment(0, size),)):
            checks.note(problem)
        sha256, count = checks.values(file, size, unit.path)
        facts = [FileFacts(unit.path, size, sha256)]
        read_bytes += count
    for path in dict.fromkeys((*unit.files[1:], *checks.ranges)):
        if path != unit.path and source.exists(path):
            with source.open(path) as file:
                size = source.size(path)
                for problem in never_written(path, file, size, checks.segments(path)):
                    checks.note(problem)
                sha256, count = checks.values(file, size, path)
                facts.append(FileFacts(path, size, sha256))
                read_bytes += count
    deep = deep and walk.finished and not checks.untested
    return Reading(
        format=NAME,
        depth=(Depth.TENSORS if deep else Depth.HEADER) if walk.complete else None,
        files=facts,
        problems=checks.problems(),
        tensors=sum(checks.dtypes.values()),
        elements=checks.elements,
        dtypes={name: count for name, count in checks.dtypes.items() if count},
        bytes_read=read_bytes,
    )


def _reader(file: BinaryIO) -> Callable[[int, int], bytes]:
    def read(offset: int, length: int) -> bytes:
        file.seek(offset)
        data = b""
        while len(data) < length and (more := file.read(length - len(data))):
            data += more
        return data
    return read


class _Walk:
    """One walk over all messages that may hold a tensor; each tensor is handed to ``on_tensor`` when it is complete.

    A ``first_look`` goes over fewer fields and does not count the values of typed data.
    """

    def __init__(self, window: Window, on_tensor: Callable[[Tensor], None], *, first_look: bool = False) -> None:
        self._window, self._on_tensor, self._first_look = window, on_tensor, first_look
        self._most_fields = _MOST_FIELDS_AT_FIRST if first_look else MOST_FIELDS
        self._fields = self._tensors = 0
        self._place = "the model"  # what is being read, for messages
        self._where = ""
        self._end = 0  # of the last top-level field, also when the file ends inside it
        self._twice: list[str] = []
        self._scopes: list[_Scope] = []  # of the graphs that are being read, the outermost first
        self._names = 0
        self._lacking: list[str] = []
        self._fault: _Fault | None = None

    @property
    def complete(self) -> bool:
        """Whether the structure could be followed as far as the file goes."""
        return self._fault is None or self._fault.kind in (ProblemKind.TRUNCATED, ProblemKind.TRAILING)

    @property
    def finished(self) -> bool:
        """Whether the walk came to the end of the file."""
        return self._fault is None

    def run(self) -> None:
        """Walk; what ends it early is kept for `problems`."""
        seen: set[int] = set()
        size = self._window.size
        try:
            self._model(seen)
        except Cut as cut:
            needed = max(cut.needed, self._end)
            kind = ProblemKind.TRUNCATED if needed <= LARGEST else ProblemKind.DAMAGED
            self._fault = _Fault(kind, f"{size:,} bytes: the file ends inside {self._place}", f"at least {needed:,} bytes")
        except Malformed as fault:
            if fault.at >= self._end and {_GRAPH, _OPSETS} <= seen:
                observed = f"{size - fault.at:,} bytes after the model ({fault.what})"
                self._fault = _Fault(ProblemKind.TRAILING, observed, f"{fault.at:,} bytes")
            else:
                self._fault = _Fault(ProblemKind.DAMAGED, f"{fault.what} at byte {fault.at:,}, in {self._place}",
                                     "a message as onnx.proto describes it")
        except _Fault as fault:
            self._fault = fault

    def problems(self, path: str) -> Iterator[Problem]:
        if self._fault is not None:
            yield Problem(self._fault.kind, path, self._fault.observed, self._fault.expected, self._where)
        if self._twice:
            yield Problem(ProblemKind.DAMAGED, path, "two initializers of this name in one graph", "each name once",
                          self._twice[0], len(self._twice))
        if self._lacking and self.finished and self._names <= MOST_NAMES:
            lacking = sorted(self._lacking)
            yield Problem(ProblemKind.MISSING_TENSORS, path,
                          f"nodes take {number(len(lacking), 'value')} that the graph does not have: {listed(lacking, 3)}",
                          "an initializer, an input or the output of a node for each", lacking[0], len(lacking))

    def _model(self, seen: set[int]) -> None:
        version = 0
        for field in self._each(0):
            known = MODEL_FIELDS.get(field.number)
            if known is None and version <= NEWEST_IR:
                raise Malformed(self._end, f"field {field.number}, which a model has not")
            if known is not None and known != field.wire:
                raise Malformed(self._end, f"field {field.number} with wire type {field.wire}")
            if field.number in _ONCE and field.number in seen:
                raise Malformed(self._end, f"field {field.number} a second time")
            self._end = field.end
            seen.add(field.number)
            if field.number == _IR_VERSION:
                version = field.value
            kind = MESSAGES["ModelProto"].get(field.number)
            if kind is not None:
                self._place = {"GraphProto": "the graph", "FunctionProto": "a function"}.get(kind, "the training information")
                self._message(kind, field.start, field.end, 1)
            self._place = "the model"
        if _GRAPH not in seen:
            raise _Fault(ProblemKind.DAMAGED, "no graph", "a graph (field 7 of the model)")
        if _OPSETS not in seen and version >= _OLDEST_IR_WITH_OPSETS:
            raise _Fault(ProblemKind.TRUNCATED, f"{self._window.size:,} bytes: the file ends without an operator set",
                         "an operator set (field 8 of the model), which follows the graph")

    def _each(self, start: int, end: int | None = None) -> Iterator[Field]:
        for field in fields(self._window, start, end):
            self._fields += 1
            if self._fields > self._most_fields:
                raise _Fault(ProblemKind.TOO_LARGE, f"more than {self._most_fields:,} fields", f"at most {self._most_fields:,}")
            yield field

    def _message(self, kind: str, start: int, end: int, depth: int) -> None:
        if depth > DEEPEST:
            raise _Fault(ProblemKind.TOO_LARGE, f"messages in messages, more than {DEEPEST} deep", f"at most {DEEPEST}")
        if kind == "GraphProto":
            self._graph(start, end, depth)
        else:
            self._parts_of(kind, start, end, depth)

    def _graph(self, start: int, end: int, depth: int) -> None:
        """A graph with its names. What a graph inside a node takes may come from the graph around it."""
        scope = _Scope()
        self._scopes.append(scope)
        self._parts_of("GraphProto", start, end, depth)
        self._scopes.pop()
        absent = scope.taken - scope.given
        if self._scopes:
            self._scopes[-1].taken |= absent
        elif self._place == "the graph":  # functions and training graphs have names from elsewhere
            self._lacking += absent

    def _name(self, kind: str, field: Field) -> None:
        """Note a name of a value that a node takes or gives, or that comes in."""
        if not self._scopes or self._first_look or field.wire != LENGTH or self._names > MOST_NAMES:
            return
        scope = self._scopes[-1]
        if kind == "NodeProto" and field.number in (_NODE_INPUT, _NODE_OUTPUT):
            self._names += 1
            if name := self._text(field):  # an optional input that is left out has no name
                (scope.taken if field.number == _NODE_INPUT else scope.given).add(name)
        elif kind == "GraphProto" and field.number == _GRAPH_INPUT:
            self._names += 1
            scope.given.update(self._text(part) for part in self._each(field.start, field.end)
                               if (part.number, part.wire) == (1, LENGTH))

    def _parts_of(self, kind: str, start: int, end: int, depth: int) -> None:
        names: set[str] = set()
        for field in self._each(start, end):
            self._name(kind, field)
            inner = MESSAGES[kind].get(field.number)
            if inner is None:
                continue
            if field.wire != LENGTH:
                raise Malformed(field.start, f"field {field.number} of {kind} with wire type {field.wire}")
            if inner != "TensorProto":
                self._message(inner, field.start, field.end, depth + 1)
                continue
            indices = kind == "SparseTensorProto" and field.number == _SPARSE_INDICES
            name = self._tensor(field, indices=indices, initializer=kind == "GraphProto")
            if self._scopes and kind in ("GraphProto", "SparseTensorProto"):  # a sparse initializer has the name of its values
                self._scopes[-1].given.add(name)
            if kind == "GraphProto":
                if name in names:
                    self._twice.append(name)
                names.add(name)

    def _tensor(self, message: Field, *, indices: bool, initializer: bool) -> str:
        self._tensors += 1
        if self._tensors > MOST_TENSORS:
            raise _Fault(ProblemKind.TOO_LARGE, f"more than {MOST_TENSORS:,} tensors", f"at most {MOST_TENSORS:,}")
        tensor, place = Tensor(indices=indices, initializer=initializer), self._place
        self._place = "a tensor"
        for field in self._each(message.start, message.end):
            self._part(tensor, field)
            self._where = tensor.name
        self._place, self._where = place, ""
        self._on_tensor(tensor)
        return tensor.name

    def _part(self, tensor: Tensor, field: Field) -> None:
        """One field of a TensorProto."""
        number, wire = field.number, field.wire
        if number == 1:
            tensor.shape += self._numbers(field)
            if len(tensor.shape) > MOST_DIMENSIONS:
                raise _Fault(ProblemKind.TOO_LARGE, f"more than {MOST_DIMENSIONS} dimensions", f"at most {MOST_DIMENSIONS}")
        elif number == 2 and wire == VARINT:
            tensor.type = field.value
        elif number == 8 and wire == LENGTH:
            tensor.name = self._text(field)
        elif number == 9 and wire == LENGTH:
            tensor.raw = field.end - field.start
            tensor.numbers = Segment(field.start, tensor.raw)
        elif number == 13 and wire == LENGTH:
            key, value = self._entry(field)
            tensor.entries[key] = value
            if len(tensor.entries) > MOST_DIMENSIONS:
                raise _Fault(ProblemKind.TOO_LARGE, "a long list of external data entries", f"at most {MOST_DIMENSIONS}")
        elif number == 14 and wire == VARINT:
            tensor.external = field.value == 1
        elif number in _TYPED and not self._first_look:
            if wire == LENGTH and _TYPED[number] in _WIDTH and number not in tensor.typed:
                tensor.numbers = Segment(field.start, field.end - field.start)
            tensor.typed[number] = tensor.typed.get(number, 0) + self._count(field)

    def _count(self, field: Field) -> int:
        """How many values a field of typed data holds: one, or as many as were packed into it."""
        wire = _TYPED[field.number]
        if field.wire == wire:
            return 1
        if field.wire != LENGTH:
            raise Malformed(field.start, f"field {field.number} of a tensor with wire type {field.wire}")
        if wire == VARINT:
            return self._window.varints(field.start, field.end)
        if (field.end - field.start) % _WIDTH[wire]:
            raise Malformed(field.start, f"field {field.number} of a tensor with {field.end - field.start:,} bytes")
        return (field.end - field.start) // _WIDTH[wire]

    def _numbers(self, field: Field) -> list[int]:
        if field.wire == VARINT:
            return [field.value]
        if field.wire != LENGTH or field.end - field.start > 10 * MOST_DIMENSIONS:
            raise Malformed(field.start, "a shape that is no list of numbers")
        numbers, at = [], field.start
        while at < field.end:
            value, at = self._window.varint(at, field.end)
            numbers.append(value)
        return numbers

    def _text(self, field: Field) -> str:
        length = min(field.end - field.start, _LONGEST_TEXT)
        return self._window.take(field.start, length).decode("utf-8", "backslashreplace")

    def _entry(self, field: Field) -> tuple[str, str]:
        """A StringStringEntryProto."""
        parts = {part.number: self._text(part) for part in self._each(field.start, field.end) if part.wire == LENGTH}
        return parts.get(1, ""), parts.get(2, "")


class _Checks:
    """What is found while tensors come by: counts, and one problem for each sort of fault."""

    def __init__(self, path: str, source: Source) -> None:
        self._path, self._source = path, source
        self._problems: dict[tuple[ProblemKind, str, str], Problem] = {}
        self.dtypes: collections.Counter[str] = collections.Counter()
        self.elements = 0
        self.ranges: dict[str, list[Segment]] = {}  # of external data and of parameters in the model, by file
        self.untested = 0  # parameters whose numbers do not lie in one piece

    def problems(self) -> list[Problem]:
        return list(self._problems.values())

    def note(self, problem: Problem, sort: str = "") -> None:
        """Keep a problem, or count it with the first of its sort in the same file."""
        key = (problem.kind, problem.path, sort or problem.observed)
        first = self._problems.get(key)
        self._problems[key] = dataclasses.replace(first, count=first.count + problem.count) if first else problem

    def tensor(self, tensor: Tensor) -> None:
        """Whether one tensor has as much data as its shape and type need."""
        if tensor.type not in TYPES:
            kind = ProblemKind.UNREADABLE_KIND if tensor.type else ProblemKind.DAMAGED
            self._fault(kind, tensor, "type", f"the data type {tensor.type}", "a data type of TensorProto")
            return
        label, _, field = TYPES[tensor.type]
        self.dtypes[label] += not tensor.indices
        if any(size >= 1 << 63 for size in tensor.shape):
            self._fault(ProblemKind.DAMAGED, tensor, "shape", "a negative dimension", "no dimension below zero")
            return
        self.elements += 0 if tensor.indices else tensor.elements
        if tensor.external:
            self._external(tensor)
        elif tensor.raw is not None:
            if tensor.type == _STRING or tensor.raw != tensor.bytes:
                self._fault(ProblemKind.DAMAGED, tensor, "raw", f"{tensor.raw:,} bytes of raw data", self._needs(tensor))
            else:
                self._test(tensor, self._path, tensor.numbers)
        elif tensor.typed.get(field, 0) != tensor.values:
            self._fault(ProblemKind.DAMAGED, tensor, "typed", f"{tensor.typed.get(field, 0):,} values",
                        f"{tensor.values:,} ({label} of shape {tensor.shape})")
        else:
            self._test(tensor, self._path, tensor.numbers)

    def _needs(self, tensor: Tensor) -> str:
        size = "text, which is never raw data" if tensor.type == _STRING else f"{tensor.bytes:,} bytes"
        return f"{size} ({TYPES[tensor.type][0]} of shape {tensor.shape})"

    def _fault(self, kind: ProblemKind, tensor: Tensor, sort: str, observed: str, expected: str, path: str | None = None) -> None:
        self.note(Problem(kind, path or self._path, observed, expected, tensor.name), sort)

    def _external(self, tensor: Tensor) -> None:
        location = tensor.entries.get("location", "")
        wrong = paths.fault(location)
        if wrong:
            self._fault(ProblemKind.SHARD_INDEX, tensor, "location", f"external data at {location!r}: {wrong}",
                        "a path inside the model's own folder")
            return
        path = _beside(self._path, location)
        if not self._source.exists(path):
            self._fault(ProblemKind.SHARD_MISSING, tensor, location, f"the external data file {location} is absent",
                        "that file beside the model, with the numbers of this tensor")
            return
        size = self._source.size(path)
        offset = _decimal(tensor.entries.get("offset", "0"))
        length = _decimal(tensor.entries["length"]) if "length" in tensor.entries else tensor.bytes
        if offset is None or length is None or tensor.type == _STRING:
            given = {key: tensor.entries[key][:100] for key in ("offset", "length") if key in tensor.entries}
            self._fault(ProblemKind.DAMAGED, tensor, "range", f"external data with {given}", self._needs(tensor))
        elif length != tensor.bytes:
            self._fault(ProblemKind.DAMAGED, tensor, "length", f"{length:,} bytes of external data", self._needs(tensor))
        elif offset + length > size:
            self._fault(ProblemKind.TRUNCATED, tensor, "cut", f"the file has {size:,} bytes ({offset + length - size:,} missing)",
                        f"at least {offset + length:,} bytes, as {self._path} says", path)
        elif length:
            self._test(tensor, path, Segment(offset, length))

    def _test(self, tensor: Tensor, path: str, numbers: Segment | None) -> None:
        """Keep where the values of a tensor lie; constants and single numbers may be infinite or NaN by design."""
        dtype = _TESTED.get(tensor.type)
        is_parameter = tensor.initializer and tensor.elements > 1
        if numbers is not None and numbers.length == tensor.bytes and (path != self._path or (dtype and is_parameter)):
            tested = dtype if is_parameter else None
            row = row_of(tensor.shape, numbers.length // max(1, tensor.elements))
            segment = Segment(numbers.offset, numbers.length, tested, label=tensor.name, row=row)
            self.ranges.setdefault(path, []).append(segment)
        elif dtype and is_parameter:
            self.untested += 1

    def values(self, file: BinaryIO, size: int, path: str) -> tuple[str | None, int]:
        """Test the numbers in a file as deep as is asked for; its digest, and how many bytes of tensors were looked at."""
        segments = self.segments(path) if self._source.depth >= Depth.TENSORS else []
        if not segments and not self._source.digest:
            self._source.advance(size)
            return None, 0
        result = scan(file, size, segments, self._source)
        for problem in non_finite(path, [(part.label, seen) for part, seen in zip(segments, result.segments, strict=True)]):
            self.note(problem)
        for problem in nul_tail(path, file, segments, result.segments):
            self.note(problem)
        return result.sha256, sum(segment.length for segment in segments)

    def segments(self, path: str) -> list[Segment]:
        """The ranges of a file that tensors use, without those that overlap an earlier one."""
        segments: list[Segment] = []
        for segment in sorted(self.ranges.get(path, ()), key=lambda segment: segment.offset):
            if not segments or segment.offset >= segments[-1].end:
                segments.append(segment)
        return segments


def _decimal(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else None


FORMAT = Format(NAME, Depth.HEADER, read, recognise, gather, holds=Holds.WEIGHTS)
