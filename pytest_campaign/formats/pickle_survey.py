"""What a pickle would do, found without doing it: its opcodes are followed with a stack of what they stand for.

Nothing is imported, called or built. The survey knows which names the pickle asks for, however it spells them, what
is done to the objects made by each name, and which storages torch's persistent ids refer to. The opcodes and their
effect on the stack are those of ``pickletools`` in the standard library.
"""

from __future__ import annotations

import _compat_pickle
import dataclasses
import io
import pickletools
import re
import warnings
from collections.abc import Mapping, Sequence, Set
from typing import Any

LARGEST = 64 << 20
COMPUTED = "(computed)"  # in place of a name that the pickle makes up while it is loaded

_CONSTRUCTORS = frozenset({"copyreg._reconstructor", "copyreg.__newobj__", "copyreg.__newobj_ex__"})
_REBUILD_SUBCLASS = "torch._tensor._rebuild_from_type_v2"
_REBUILD_DENSE = frozenset({"torch._utils._rebuild_tensor", "torch._utils._rebuild_tensor_v2", "torch._utils._rebuild_tensor_v3"})
_REBUILD_WRAPPER = "torch._utils._rebuild_wrapper_subclass"
_KEY = re.compile("[0-9]{1,30}")
_HEAVIEST = 1_000_000  # parts of a tuple, those of the tuples in it counted as often as they occur
_MARK = object()

# The element sizes of the storage classes (torch/storage.py and torch/__init__.py, torch 2.13); newer dtypes are untyped.
_ITEM_BYTES = {
    "UntypedStorage": 1,
    "ByteStorage": 1,
    "CharStorage": 1,
    "BoolStorage": 1,
    "ShortStorage": 2,
    "HalfStorage": 2,
    "BFloat16Storage": 2,
    "IntStorage": 4,
    "FloatStorage": 4,
    "LongStorage": 8,
    "DoubleStorage": 8,
    "ComplexFloatStorage": 8,
    "ComplexDoubleStorage": 16,
    "QInt8Storage": 1,
    "QUInt8Storage": 1,
    "QUInt4x2Storage": 1,
    "QUInt2x4Storage": 1,
    "QInt32Storage": 4,
}


class BadPickle(ValueError):
    """The bytes are no complete pickle; ``incomplete``: they end before it does. ``names`` were asked for up to there."""

    def __init__(self, message: str, incomplete: bool = False) -> None:
        super().__init__(message)
        self.incomplete = incomplete
        self.names: Sequence[Name] = ()


class _Nested(tuple[Any, ...]):
    """A tuple with tuples in it, and how many parts it has when each is counted as often as it occurs."""

    weight: int


def bounded_tuple(items: Sequence[Any]) -> tuple[Any, ...]:
    """A tuple of what a pickle puts into it. BadPickle when tuples are in one another so often that its hash takes for ever.

    Python computes the hash of a tuple from those of its parts, every time and each part as often as it occurs: one of sixty
    pairs, each of the one before twice, makes a program hang that takes it for a key.
    """
    inner = [item for item in items if isinstance(item, tuple)]
    if not inner:
        return tuple(items)
    made = _Nested(items)
    made.weight = len(items) + sum(item.weight if isinstance(item, _Nested) else len(item) for item in inner)
    if made.weight > _HEAVIEST:
        raise BadPickle(f"tuples in one another with more than {_HEAVIEST:,} parts")
    return made


@dataclasses.dataclass(frozen=True)
class Name:
    """A global that a pickle asks for: ``spelling`` in the file, ``name`` in Python 3 (``__builtin__`` is ``builtins``)."""

    spelling: str
    name: str


@dataclasses.dataclass(frozen=True)
class StorageId:
    """A storage as a persistent id of torch names it: its class, its device and how many elements it has."""

    storage_class: str
    device: str
    elements: int

    @property
    def bytes(self) -> int | None:
        """Its size, None for a class that is not known here."""
        item = _ITEM_BYTES.get(self.storage_class.rpartition(".")[2])
        return None if item is None else item * self.elements


@dataclasses.dataclass(frozen=True)
class Survey:
    """What was learned. ``end`` is the offset behind the pickle's last byte.

    ``mappings``, ``sequences`` and ``tensors`` are the names whose objects are filled like a dict, like a list, or
    are tensor subclasses. ``storages`` are by their keys, in the order of the pickle; ``views`` are the offsets of
    the opcode that pushes the sixth element of a storage's id, which only torch's old format has and where it is
    None. ``texts`` are the strings, in the order of the pickle. ``modules``: persistent ids name classes too, as the
    old format does for ``torch.nn.Module``.
    """

    protocol: int
    opcodes: Set[str]
    names: Set[Name]
    mappings: Set[Name]
    sequences: Set[Name]
    tensors: Set[Name]
    storages: Mapping[str, StorageId]
    views: Set[int]
    texts: Sequence[str]
    modules: bool
    end: int


@dataclasses.dataclass(frozen=True)
class _Made:
    """An object that the pickle makes by calling a name."""

    by: Name


@dataclasses.dataclass(frozen=True)
class _Nothing:
    """None, and where it was pushed."""

    at: int


class Surveyor:
    """The stack machine. Values: `Name`, `_Made`, `_Nothing`, str, int, tuples of them; None for anything else."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        self.protocol = 0
        self.opcodes: set[str] = set()
        self.names: set[Name] = set()
        self.mappings: set[Name] = set()
        self.sequences: set[Name] = set()
        self.tensors: set[Name] = set()
        self.storages: dict[str, StorageId] = {}
        self.views: set[int] = set()
        self.texts: list[str] = []
        self.modules = False

    def above_mark(self) -> list[Any]:
        items = []
        while (item := self.stack.pop()) is not _MARK:
            items.append(item)
        items.reverse()
        return items

    def name(self, module: str, name: str) -> Name:
        spelling = f"{module}.{name}"
        if (module, name) in _compat_pickle.NAME_MAPPING:
            module, name = _compat_pickle.NAME_MAPPING[module, name]
        else:
            module = _compat_pickle.IMPORT_MAPPING.get(module, module)
        result = Name(spelling, f"{module}.{name}")
        self.names.add(result)
        return result

    def computed(self) -> None:
        self.names.add(Name(COMPUTED, COMPUTED))

    def call(self, function: Any, arguments: Any) -> _Made | None:
        if not isinstance(function, Name):
            self.computed()
            return None
        given = arguments if isinstance(arguments, tuple) else ()
        if function.name in _REBUILD_DENSE:
            _no_negative(given[1:4])
        elif function.name == _REBUILD_SUBCLASS and len(given) > 1 and isinstance(given[1], Name):
            self.tensors.add(given[1])
        elif function.name == _REBUILD_WRAPPER and given and isinstance(given[0], Name):
            self.tensors.add(given[0])
        elif function.name in _CONSTRUCTORS and given and isinstance(given[0], Name):
            return _Made(given[0])
        return _Made(function)

    def persistent(self, identity: Any) -> Name | None:
        """What an id stands for: ("storage", class, key, device, elements[, view]) or ("module", class, file, source)."""
        if not (isinstance(identity, tuple) and identity):
            raise BadPickle("a persistent id that is no tuple")
        if identity[0] == "module" and len(identity) == 4 and isinstance(identity[1], Name):
            self.modules = True
            return identity[1]
        if identity[0] != "storage" or len(identity) not in (5, 6):
            raise BadPickle("a persistent id that names no storage")
        self.storage(identity)
        return None

    def storage(self, identity: tuple[Any, ...]) -> None:
        _, storage_class, key, device, elements, *view = identity
        if not (
            isinstance(storage_class, Name)
            and isinstance(key, str)
            and _KEY.fullmatch(key)
            and isinstance(device, str)
            and isinstance(elements, int)
        ):
            raise BadPickle("a storage's id that is not made of class, key, device and count")
        found = StorageId(storage_class.name, device, elements)
        if elements < 0 or self.storages.setdefault(key, found) != found:
            raise BadPickle(f"storage {key[:40]} is described in two ways")
        if view:
            if not isinstance(view[0], _Nothing):
                raise BadPickle(f"storage {key[:40]} is a view of another, as torch wrote them before 0.4")
            self.views.add(view[0].at)

    def fill(self, kinds: set[Name]) -> None:
        target = self.stack[-1]
        if isinstance(target, _Made):
            kinds.add(target.by)

    def step(self, op: pickletools.OpcodeInfo, argument: Any, at: int) -> None:
        stack = self.stack
        match op.name:
            case "BINPUT" | "LONG_BINPUT" | "PUT":
                self.memo[argument] = stack[-1]
            case "MEMOIZE":
                self.memo[len(self.memo)] = stack[-1]
            case "BINGET" | "LONG_BINGET" | "GET":
                stack.append(self.memo[argument])
            case "MARK":
                stack.append(_MARK)
            case "GLOBAL":
                stack.append(self.name(*_two(argument)))
            case "STACK_GLOBAL":
                name, module = stack.pop(), stack.pop()
                if isinstance(module, str) and isinstance(name, str):
                    stack.append(self.name(module, name))
                else:
                    self.computed()
                    stack.append(None)
            case "EXT1" | "EXT2" | "EXT4":
                self.computed()
                stack.append(None)
            case "INST":
                self.above_mark()
                stack.append(_Made(self.name(*_two(argument))))
            case "OBJ":
                function, *arguments = self.above_mark()
                stack.append(self.call(function, tuple(arguments)))
            case "REDUCE" | "NEWOBJ":
                arguments, function = stack.pop(), stack.pop()
                stack.append(self.call(function, arguments))
            case "NEWOBJ_EX":
                _, arguments, function = stack.pop(), stack.pop(), stack.pop()
                stack.append(self.call(function, arguments))
            case "BINPERSID":
                stack.append(self.persistent(stack.pop()))
            case "TUPLE":
                stack.append(bounded_tuple(self.above_mark()))
            case "TUPLE1" | "TUPLE2" | "TUPLE3":
                count = int(op.name[-1])
                stack[-count:] = [bounded_tuple(stack[-count:])]
            case "SETITEM" | "SETITEMS":
                self.above_mark() if op.name == "SETITEMS" else (stack.pop(), stack.pop())
                self.fill(self.mappings)
            case "APPEND" | "APPENDS" | "ADDITEMS":
                stack.pop() if op.name == "APPEND" else self.above_mark()
                self.fill(self.sequences)
            case "BUILD":
                stack.pop()
            case "DUP":
                stack.append(stack[-1])
            case "NONE":
                stack.append(_Nothing(at))
            case "PROTO":
                self.protocol = argument
            case _:
                self.other(op, argument)

    def other(self, op: pickletools.OpcodeInfo, argument: Any) -> None:
        """An opcode that only moves plain data: it takes and gives what pickletools says."""
        if pickletools.markobject in op.stack_before:
            self.above_mark()
        else:
            for _ in op.stack_before:
                self.stack.pop()
        if isinstance(argument, str):
            self.texts.append(argument)
        for _ in op.stack_after:
            self.stack.append(argument if isinstance(argument, (str, int)) else None)


def _no_negative(place: Sequence[Any]) -> None:
    """Refuse a negative offset, size or stride, which torch replaces by another one on the meta device."""
    for part in place:
        if any(isinstance(number, int) and number < 0 for number in (part if isinstance(part, tuple) else (part,))):
            raise BadPickle("a tensor with a negative offset, size or stride")


def _two(argument: str) -> tuple[str, str]:
    module, _, name = argument.partition(" ")
    return module, name


def survey(data: bytes) -> Survey:
    """Follow the first pickle in ``data``; BadPickle if it is incomplete or makes no sense.

    Work and memory are linear in the pickle's own length (at most `LARGEST` bytes).
    """
    if len(data) > LARGEST:
        raise BadPickle(f"longer than {LARGEST:,} bytes")
    machine = Surveyor()
    end = 0
    stream = io.BytesIO(data)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about escapes in strings that are only looked at
            for op, argument, position in pickletools.genops(stream):
                machine.opcodes.add(op.name)
                machine.step(op, argument, position or 0)
                end = (position or 0) + 1
    except BadPickle:
        raise
    except (IndexError, KeyError):
        raise BadPickle(f"the opcode behind byte {end:,} takes what is not there") from None
    except (ValueError, OverflowError) as error:
        what = f"it cannot be followed behind byte {end:,} ({str(error)[:120]})"
        raise BadPickle(what, incomplete=stream.tell() == len(data)) from None
    return Survey(
        machine.protocol,
        machine.opcodes,
        machine.names,
        machine.mappings,
        machine.sequences,
        machine.tensors,
        machine.storages,
        machine.views,
        machine.texts,
        machine.modules,
        end,
    )
