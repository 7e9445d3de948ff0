"""A pickle as plain values, without importing, calling or building anything that it names.

For the few files of which more than the names has to be known (see `pickle_survey` for those). Containers, strings and numbers
become themselves; what the pickle makes of a class or a function becomes a `Made`, which only keeps what it was given. Opcodes
that no such file has are refused. Source: ``pickletools`` in the standard library.
"""

from __future__ import annotations

import dataclasses
import io
import pickletools
import warnings
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

from .pickle_survey import BadPickle, Name, bounded_tuple

_MARK = object()
_KEYS = (str, int, float, bytes, tuple, type(None))


@dataclasses.dataclass(eq=False)
class Made:
    """What a name was called with, and the state that was given to the result."""

    by: str
    arguments: tuple[Any, ...] = ()
    state: Any = None

    def get(self, field: str) -> Any:
        """A field of an object whose state is a dict, as that of a data class is; None when it has none of that name."""
        return self.state.get(field) if isinstance(self.state, dict) else None


@dataclasses.dataclass(frozen=True)
class Loaded:
    """The value, the names that the pickle asks for, and the offset behind its last byte."""

    value: Any
    names: Set[Name]
    end: int


def load(data: bytes, makers: Mapping[str, Callable[[tuple[Any, ...]], Any]]) -> Loaded:
    """The value of the first pickle in ``data``; BadPickle if it is incomplete, makes no sense or has other opcodes.

    ``makers`` say what the calls of some names give; they must be harmless whatever the arguments (BadPickle for ValueError).
    Work and memory are linear in the length of ``data``, which the caller bounds.
    """
    machine = _Machine(makers)
    stream = io.BytesIO(data)
    end = 0
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for op, argument, position in pickletools.genops(stream):
                machine.step(op.name, argument)
                end = (position or 0) + 1
    except BadPickle:
        raise
    except (IndexError, KeyError):
        raise BadPickle(f"the opcode behind byte {end:,} takes what is not there") from None
    except (ValueError, OverflowError, TypeError) as error:
        what = f"it cannot be followed behind byte {end:,} ({str(error)[:120]})"
        raise BadPickle(what, incomplete=stream.tell() == len(data)) from None
    return Loaded(machine.stack[-1] if machine.stack else None, machine.names, end)


class _Machine:
    def __init__(self, makers: Mapping[str, Callable[[tuple[Any, ...]], Any]]) -> None:
        self.stack: list[Any] = []
        self.names: set[Name] = set()
        self._memo: dict[int, Any] = {}
        self._makers = makers

    def step(self, op: str, argument: Any) -> None:
        stack = self.stack
        match op:
            case "PROTO" | "FRAME" | "STOP":
                pass
            case "MEMOIZE":
                self._memo[len(self._memo)] = stack[-1]
            case "BINPUT" | "LONG_BINPUT":
                self._memo[argument] = stack[-1]
            case "BINGET" | "LONG_BINGET":
                stack.append(self._memo[argument])
            case "MARK":
                stack.append(_MARK)
            case "NONE":
                stack.append(None)
            case "NEWTRUE" | "NEWFALSE":
                stack.append(op == "NEWTRUE")
            case "BININT" | "BININT1" | "BININT2" | "LONG1" | "BINFLOAT" | "BINUNICODE" | "SHORT_BINUNICODE" | "BINUNICODE8" | \
                    "BINBYTES" | "SHORT_BINBYTES" | "BINBYTES8":
                stack.append(argument)
            case "EMPTY_DICT":
                stack.append({})
            case "EMPTY_LIST":
                stack.append([])
            case "EMPTY_SET":
                stack.append(set())
            case "EMPTY_TUPLE":
                stack.append(())
            case "TUPLE":
                stack.append(bounded_tuple(self._above_mark()))
            case "TUPLE1" | "TUPLE2" | "TUPLE3":
                count = int(op[-1])
                self._need(count)
                stack[-count:] = [bounded_tuple(stack[-count:])]
            case "SETITEM" | "SETITEMS":
                items = self._above_mark() if op == "SETITEMS" else [stack.pop(-2), stack.pop()]
                self._set(stack[-1], items)
            case "APPEND" | "APPENDS" | "ADDITEMS":
                added = self._above_mark() if op != "APPEND" else [stack.pop()]
                self._add(stack[-1], added)
            case _:
                self._call(op, argument)

    def _call(self, op: str, argument: Any) -> None:
        stack = self.stack
        match op:
            case "GLOBAL":
                module, _, name = argument.partition(" ")
                stack.append(self._name(module, name))
            case "STACK_GLOBAL":
                name, module = stack.pop(), stack.pop()
                stack.append(self._name(module, name))
            case "REDUCE" | "NEWOBJ":
                arguments, function = stack.pop(), stack.pop()
                stack.append(self._make(function, arguments))
            case "BUILD":
                state = stack.pop()
                if isinstance(stack[-1], Made):
                    stack[-1].state = state
            case _:
                raise BadPickle(f"the opcode {op}, which such a file does not have")

    def _name(self, module: Any, name: Any) -> Name:
        if not isinstance(module, str) or not isinstance(name, str):
            raise BadPickle("a name that is made up while it is loaded")
        found = Name(f"{module}.{name}", f"{module}.{name}")
        self.names.add(found)
        return found

    def _make(self, function: Any, arguments: Any) -> Any:
        if not isinstance(function, Name) or not isinstance(arguments, tuple):
            raise BadPickle("a call of something that is no name")
        maker = self._makers.get(function.name)
        return Made(function.name, arguments) if maker is None else maker(arguments)

    def _above_mark(self) -> list[Any]:
        at = len(self.stack) - 1
        while self.stack[at] is not _MARK:
            at -= 1
            if at < 0:
                raise IndexError
        items = self.stack[at + 1:]
        del self.stack[at:]
        return items

    def _need(self, count: int) -> None:
        if len(self.stack) < count:
            raise IndexError

    @staticmethod
    def _set(target: Any, items: Sequence[Any]) -> None:
        if isinstance(target, dict):
            for key, value in zip(items[::2], items[1::2], strict=True):
                if not isinstance(key, (*_KEYS, Made, Name)):
                    raise BadPickle("a key that cannot be one")
                target[key] = value

    @staticmethod
    def _add(target: Any, items: Sequence[Any]) -> None:
        if isinstance(target, list):
            target += items
        elif isinstance(target, set):
            target.update(items)
