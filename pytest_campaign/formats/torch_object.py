"""The object in a torch file: its tensors by name, and where in the file their values lie.

torch itself rebuilds the object (``torch.load(weights_only=True, map_location="meta")``), with stand-ins for classes
that it does not know. It is given an archive of our own with the same pickle and one empty member per storage: so it
can neither stumble over the container, which was read by stricter code, nor read a byte of tensor data; the offset
that torch leaves at each storage on the meta device tells which member it was.
"""

from __future__ import annotations

import dataclasses
import functools
import io
import warnings
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from .base import Problem, ProblemKind
from .pickle_globals import Kind, kind
from .pickle_survey import Name, Survey
from .stand_ins import StandIn, held, stand_ins

DTYPES = {
    "float64": "F64",
    "float32": "F32",
    "float16": "F16",
    "bfloat16": "BF16",
    "complex64": "C64",
    "complex128": "C128",
    "int64": "I64",
    "int32": "I32",
    "int16": "I16",
    "int8": "I8",
    "uint64": "U64",
    "uint32": "U32",
    "uint16": "U16",
    "uint8": "U8",
    "bool": "BOOL",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
    "float8_e4m3fnuz": "F8_E4M3FNUZ",
    "float8_e5m2fnuz": "F8_E5M2FNUZ",
    "float8_e8m0fnu": "F8_E8M0",
    "float4_e2m1fn_x2": "F4",
}

_FLOATING = frozenset({name for name in DTYPES.values() if name[0] in "FCB" and name != "BOOL"})
_OPTIMIZER = frozenset({"state", "param_groups"})
MOST_NAMES = 1000
_MOST_NODES = 1_000_000
_DEEPEST = 1000
_LONGEST_NAME = 200
_PLAIN_LEVELS = 5  # how deep `plain_values` looks: Lightning keeps optimizer_states/0/param_groups/0/params
_MOST_PLAIN = 300_000
_LARGEST_KEY = 10**12
_WASTE = 4096  # a storage up to this size may be mostly unused
EXPANDED = 256 << 20  # a tensor up to this size may be an expanded view of a smaller storage

# The opcodes that torch's weights-only unpickler reads (torch/_weights_only_unpickler.py, torch 2.13).
_OPCODES = """
    GLOBAL NEWOBJ REDUCE BUILD APPEND APPENDS SETITEM SETITEMS MARK TUPLE TUPLE1 TUPLE2 TUPLE3 NONE NEWFALSE NEWTRUE
    EMPTY_TUPLE EMPTY_LIST EMPTY_DICT EMPTY_SET BININT BININT1 BININT2 BINFLOAT BINUNICODE SHORT_BINSTRING BINPERSID BINGET
    LONG_BINGET BINPUT LONG_BINPUT LONG1 PROTO STOP
"""
_READABLE = frozenset(_OPCODES.split())

# What torch rebuilds tensors with that cannot be rebuilt on the meta device, and what they are.
_NO_META = {
    "_rebuild_qtensor": "quantised",
    "_rebuild_nested_tensor": "nested",
    "_rebuild_njt": "nested",
    "_rebuild_device_tensor_from_numpy": "NumPy-backed",
    "_rebuild_wrapper_subclass": "wrapper",
}

_PLAIN = (str, bytes, int, float, complex, bool, type(None), type)
_LIGHTNING_STATE = frozenset({"callbacks", "loops"})
_MODULE_PARTS = frozenset({"_parameters", "_buffers", "_modules"})


class Unloadable(Exception):
    """The object cannot be rebuilt; ``problem`` says why."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.observed)
        self.problem = problem


@dataclasses.dataclass(frozen=True)
class Tensor:
    """One tensor of the object, on storage ``key``; ``start`` and ``stop`` bound the bytes that it uses of it.

    ``bookkeeping``: no parameter but a scalar that a trainer keeps (the best loss so far), where infinity is legal.
    """

    name: str
    key: str
    dtype: str
    item: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    start: int
    stop: int
    bookkeeping: bool

    @property
    def elements(self) -> int:
        count = 1
        for size in self.shape:
            count *= size
        return count

    @property
    def dense(self) -> bool:
        """Whether every byte between ``start`` and ``stop`` is the tensor's."""
        return self.elements * self.item >= self.stop - self.start

    @property
    def in_order(self) -> bool:
        """Whether the elements lie one behind the other, the last dimension running fastest."""
        step = 1
        for size, stride in zip(reversed(self.shape), reversed(self.stride), strict=True):
            if size > 1 and stride != step:
                return False
            step *= size
        return True


def refused_names(names: Iterable[Name], path: str) -> tuple[list[Problem], list[Name]]:
    """What is to be said of the names that a pickle asks for, and those that need a stand-in.

    The pickle must not be handed to torch when one of the problems is an UNSAFE_GLOBAL.
    """
    by_kind: dict[Kind, list[Name]] = {each: [] for each in Kind}
    for name in sorted(names, key=lambda name: name.name):
        by_kind[kind(name)].append(name)
    problems = [
        Problem(problem, path, _listed(by_kind[of]), expected, by_kind[of][0].name, len(by_kind[of]))
        for of, problem, expected in (
            (Kind.UNSAFE, ProblemKind.UNSAFE_GLOBAL, "no function that runs code when the file is loaded"),
            (Kind.FOREIGN, ProblemKind.FOREIGN_CLASS, "tensors and plain containers, which load without the project's code"),
            (Kind.DATA, ProblemKind.FRAMEWORK_CLASS, "tensors and plain containers, which torch.load takes by default"),
        )
        if by_kind[of]
    ]
    return problems, by_kind[Kind.FOREIGN] + by_kind[Kind.DATA]


def _listed(names: Sequence[Name]) -> str:
    count = f"{len(names):,} classes or functions: " if len(names) > 1 else ""
    shown = ", ".join(name.name[:_LONGEST_NAME] for name in names[:5])
    return count + shown + (f" and {len(names) - 5:,} more" if len(names) > 5 else "")


@dataclasses.dataclass(frozen=True)
class Rebuilt:
    """The tensors of an object, the problems of those that cannot be told, and its `plain_values`."""

    tensors: Sequence[Tensor]
    problems: Sequence[Problem]
    values: Mapping[tuple[str, ...], Any]


def rebuild(pickle: bytes, survey: Survey, names: Sequence[Name], path: str) -> Rebuilt:
    """The object that a pickle describes. Raises `Unloadable` when there is none."""
    beyond = sorted(survey.opcodes - _READABLE)
    if beyond:
        raise Unloadable(
            Problem(
                ProblemKind.PICKLE_PROTOCOL,
                path,
                f"pickle protocol {survey.protocol} with {', '.join(beyond[:4])}",
                "protocol 2, torch.save's default: weights-only loading reads no other opcodes",
            )
        )
    if len(names) > MOST_NAMES:
        raise Unloadable(Problem(ProblemKind.TOO_LARGE, path, f"{len(names):,} foreign classes", f"at most {MOST_NAMES:,}"))
    if not _leaves_offsets():
        raise Unloadable(Problem(ProblemKind.UNREADABLE_KIND, path, "this torch does not tell where a tensor lies", "torch 2.13"))
    container, keys = _skeleton(pickle, survey.storages)
    try:
        loaded = _load(container, stand_ins(survey, names))
    except (MemoryError, RecursionError):
        raise
    except Exception as error:  # torch raises whatever the pickle provokes
        raise Unloadable(_unloadable(error, survey, path)) from error
    return Rebuilt(*_tensors(loaded, keys, path), plain_values(loaded))


def plain_values(loaded: Any) -> Mapping[tuple[str, ...], Any]:
    """The numbers and short texts near the top of an object, by the keys that lead to them; lists of them as tuples.

    Every key at the top of a dict is there, with None where something else stands. Numbers are keys too, as text. Of a stand-in
    the fields are taken or, if it has none (an enumeration), its argument.
    """
    found: dict[tuple[str, ...], Any] = {}
    level: list[tuple[tuple[str, ...], Any]] = [((), loaded)]
    seen = 0
    for _ in range(_PLAIN_LEVELS):
        below = []
        for chain, container in level:
            for key, value in _items(container):
                seen += len(value) if isinstance(value, (list, tuple)) else 1
                if seen > _MOST_PLAIN:
                    return found
                if (name := _key(key)) is None:
                    continue
                plain = _plain(value)
                if plain is not None or (not chain and not isinstance(loaded, StandIn)):
                    found[*chain, name] = plain
                if plain is None and isinstance(value, (dict, list, tuple, StandIn)):
                    below.append(((*chain, name), value))
        level = below
    return found


def _key(key: Any) -> str | None:
    if type(key) is int and abs(key) < _LARGEST_KEY:
        return str(key)
    return key if type(key) is str and len(key) <= _LONGEST_NAME else None


def _items(container: Any) -> Iterable[tuple[Any, Any]]:
    """The items of a dict, a list, or of the fields of a stand-in."""
    if isinstance(container, StandIn):
        container = container.state
    if isinstance(container, dict):
        return dict.items(container)  # not container.items(): a pickle can set attributes on an OrderedDict
    return enumerate(container) if isinstance(container, (list, tuple)) else ()


def _plain(value: Any) -> Any:
    if isinstance(value, StandIn) and len(value.arguments) == 1 and value.state is None:
        value = value.arguments[0]
    if isinstance(value, (list, tuple)) and 0 < len(value) <= _MOST_PLAIN:
        parts = [_plain(part) for part in value if not isinstance(part, (list, tuple))]
        return tuple(parts) if len(parts) == len(value) and None not in parts else None
    if isinstance(value, str):
        return value if len(value) <= _LONGEST_NAME else None
    return value if isinstance(value, (bool, int, float)) else None


def only_state(tensors: Iterable[Tensor], stated: Mapping[tuple[str, ...], Any]) -> bool:
    """Whether an object is no model but what a training needs to go on: an optimizer's state, a schedule, random states.

    ``torch.optim.Optimizer.state_dict`` has exactly these two keys; the others hold no floating point tensor.
    """
    return {chain[0] for chain in stated} == _OPTIMIZER or not any(tensor.dtype in _FLOATING for tensor in tensors)


def _skeleton(pickle: bytes, storages: Iterable[str]) -> tuple[io.BytesIO, dict[int, str]]:
    """An archive with the pickle and an empty member per storage, and the storages' keys by their data's offset."""
    container = io.BytesIO()
    keys = {}
    with zipfile.ZipFile(container, "w") as archive:
        for name, data in (("data.pkl", pickle), ("version", b"3\n"), ("byteorder", b"little")):
            archive.writestr(f"archive/{name}", data)
        for key in storages:
            archive.writestr(f"archive/data/{key}", b"")
            keys[container.tell()] = key
    container.seek(0)
    return container, keys


def _load(container: io.BytesIO, allowed: Sequence[tuple[Any, str]]) -> Any:
    import torch

    with warnings.catch_warnings(), torch.serialization.safe_globals(list(allowed)):
        warnings.simplefilter("ignore")
        return torch.load(container, map_location="meta", weights_only=True)


@functools.cache
def _leaves_offsets() -> bool:
    """Whether the installed torch leaves its offset at a storage that it puts on the meta device."""
    import torch

    container = io.BytesIO()
    torch.save(torch.zeros(1), container)
    container.seek(0)
    return hasattr(_load(container, ()).untyped_storage(), "_checkpoint_offset")


def _unloadable(error: Exception, survey: Survey, path: str) -> Problem:
    for name in sorted(survey.names, key=lambda name: name.name):
        what = _NO_META.get(name.name.rpartition(".")[2])
        if what:
            return Problem(ProblemKind.UNREADABLE_KIND, path, f"{what} tensors ({name.name})", "dense tensors")
    text = str(error).rpartition("WeightsUnpickler error: ")[2].strip().partition("\n")[0]
    return Problem(
        ProblemKind.DAMAGED,
        path,
        f"torch.load refuses the pickle: {type(error).__name__}: {text[:200]}",
        "a pickle that loads with weights_only=True",
    )


@dataclasses.dataclass(frozen=True)
class _Node:
    """A value on the way through the object, its name as a chain from the end, and what its surroundings say of it."""

    value: Any
    chain: tuple[Any, ...] | None
    depth: int = 0
    bookkeeping: bool = False
    mixed: bool = False  # its mapping also holds other things than tensors

    @property
    def name(self) -> str:
        parts: list[str] = []
        chain = self.chain
        while chain is not None:
            parts.append(chain[0])
            chain = chain[1]
        return ".".join(reversed(parts))[:_LONGEST_NAME]


class _TooLarge(Exception):
    pass


def _tensors(loaded: Any, keys: Mapping[int, str], path: str) -> tuple[list[Tensor], list[Problem]]:
    tensors: list[Tensor] = []
    unreadable: list[tuple[str, str]] = []
    lies: list[tuple[str, str]] = []
    problems = []
    try:
        for node in _walk(loaded):
            why = _unreadable(node.value)
            if why is None and (lie := _lie(node.value)) is not None:
                lies.append((node.name, lie))
            elif why is None:
                tensors.append(_tensor(node, keys))
            else:
                unreadable.append((node.name, why))
    except _TooLarge as error:
        problems.append(
            Problem(ProblemKind.TOO_LARGE, path, str(error), f"at most {_MOST_NODES:,} objects, {_DEEPEST:,} levels deep")
        )
    if unreadable:
        name, why = unreadable[0]
        problems.append(
            Problem(ProblemKind.UNREADABLE_KIND, path, why, "a dense tensor with its values in the file", name, len(unreadable))
        )
    if lies:
        name, lie = lies[0]
        problems.append(Problem(ProblemKind.OUT_OF_STORAGE, path, lie, "elements that lie in the file", name, len(lies)))
    if not tensors and not problems:
        problems.append(Problem(ProblemKind.NO_TENSORS, path, "the object holds no tensor", "at least one tensor"))
    return tensors, problems


def _walk(root: Any) -> Iterator[_Node]:
    """Every tensor below ``root``, in the order of the containers; each container once, however often it is shared."""
    import torch

    seen: set[int] = set()
    stack = [_Node(root, None)]
    visited = 0
    while stack:
        node = stack.pop()
        visited += 1
        if visited > _MOST_NODES:
            raise _TooLarge(f"more than {_MOST_NODES:,} objects")
        if node.depth > _DEEPEST:
            raise _TooLarge(f"more than {_DEEPEST:,} levels")
        if isinstance(node.value, torch.Tensor):
            yield node
        if id(node.value) in seen:
            continue
        seen.add(id(node.value))
        stack.extend(reversed(list(_children(node))))


def _children(node: _Node) -> Iterator[_Node]:
    import torch

    value = node.value
    parts: Iterable[tuple[Any, Any]] = ()
    mixed = False
    if isinstance(value, dict):
        parts = dict.items(value)  # not value.items(): a pickle can set attributes on an OrderedDict
        mixed = not all(part is None or isinstance(part, torch.Tensor) for _, part in parts)
    elif isinstance(value, (list, tuple, set, frozenset)):
        parts = enumerate(value)
    for key, part in parts:
        if not isinstance(part, _PLAIN):
            state = node.depth == 0 and isinstance(key, str) and key in _LIGHTNING_STATE
            yield _Node(part, (_shown(key), node.chain), node.depth + 1, node.bookkeeping or state, mixed)
    for name, part in held(value):
        inside = isinstance(value, StandIn) and not name and isinstance(part, dict)
        for key, below in dict.items(part) if inside else ((name, part),):
            if not isinstance(below, _PLAIN):
                chain = node.chain if key == "" or key in _MODULE_PARTS else (_shown(key), node.chain)
                yield _Node(below, chain, node.depth + 1, node.bookkeeping, inside and key not in _MODULE_PARTS)


def _shown(key: Any) -> str:
    return str(key)[:_LONGEST_NAME] if isinstance(key, (str, int)) else f"({type(key).__name__})"


def _unreadable(tensor: Any) -> str | None:
    """Why a tensor's values cannot be read from the file, None if they can."""
    import torch

    if tensor.is_nested:
        return "a nested tensor"
    if tensor.is_quantized:
        return "a quantised tensor"
    if tensor.layout != torch.strided:
        return f"a sparse tensor ({tensor.layout})"
    try:
        storage = tensor.untyped_storage()
    except (NotImplementedError, RuntimeError):
        return "a tensor subclass without a storage of its own"
    if getattr(storage, "_checkpoint_offset", None) is None and not tensor.numel():
        return "a tensor of the meta device"
    return None


def _lie(tensor: Any) -> str | None:
    """Why a dense tensor has no values; None when it can have some."""
    if getattr(tensor.untyped_storage(), "_checkpoint_offset", None) is None:
        return f"shape {list(tensor.shape)[:8]} on the meta device, saved without values"
    return None


def _tensor(node: _Node, keys: Mapping[int, str]) -> Tensor:
    tensor = node.value
    shape, stride, item = tuple(tensor.shape), tuple(tensor.stride()), tensor.element_size()
    start = stop = 0
    if tensor.numel():
        start = tensor.storage_offset() * item
        stop = start + (sum((size - 1) * step for size, step in zip(shape, stride, strict=True)) + 1) * item
    dtype = str(tensor.dtype).rpartition(".")[2]
    return Tensor(
        node.name,
        keys[tensor.untyped_storage()._checkpoint_offset],
        DTYPES.get(dtype, dtype.upper()),
        item,
        shape,
        stride,
        start,
        stop,
        node.bookkeeping or (node.mixed and not shape),
    )


def check_storages(tensors: Sequence[Tensor], survey: Survey, lengths: Mapping[str, int], path: str) -> Iterator[Problem]:
    """Compare tensors and storages with how many bytes the file really has for each storage (``lengths``).

    torch believes the pickle in all of this.
    """
    by_key: dict[str, list[Tensor]] = {}
    for tensor in tensors:
        by_key.setdefault(tensor.key, []).append(tensor)
    found: dict[str, list[tuple[str, str, str]]] = {}
    for key, storage in survey.storages.items():
        users = by_key.get(key, [])
        name = users[0].name if users else f"data/{key}"
        if key not in lengths:
            found.setdefault("absent", []).append(
                (name, f"its values (storage {key}) are not in the file", "a storage for every tensor")
            )
            continue
        length = lengths[key]
        if storage.bytes is not None and storage.bytes != length:
            found.setdefault("size", []).append(
                (name, f"storage {key} has {length:,} bytes", f"{storage.bytes:,} bytes, as the pickle says")
            )
            continue
        over = next(
            (tensor for tensor in users if tensor.stop > length or tensor.elements * tensor.item > max(length, EXPANDED)), None
        )
        if over is not None:
            found.setdefault("over", []).append(
                (
                    over.name,
                    f"{over.dtype} {list(over.shape)} on a storage of {length:,} bytes",
                    f"{max(over.stop, over.elements * over.item):,} bytes",
                )
            )
            continue
        used = _covered(users)
        if users and length > _WASTE and 2 * used < length:
            found.setdefault("waste", []).append(
                (name, f"{used:,} of the {length:,} bytes of its storage are used", "a copy of the part that is used (clone)")
            )
    for what, kind_ in (
        ("absent", ProblemKind.DAMAGED),
        ("size", ProblemKind.DAMAGED),
        ("over", ProblemKind.OUT_OF_STORAGE),
        ("waste", ProblemKind.WASTED_STORAGE),
    ):
        if what in found:
            where, observed, expected = found[what][0]
            yield Problem(kind_, path, observed, expected, where, len(found[what]))


def _covered(users: Sequence[Tensor]) -> int:
    """How many bytes of their common storage the tensors span together."""
    covered = at = 0
    for start, stop in sorted((tensor.start, tensor.stop) for tensor in users):
        covered += max(0, stop - max(start, at))
        at = max(at, stop)
    return covered
