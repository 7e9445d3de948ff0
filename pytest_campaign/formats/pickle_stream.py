"""The names that a pickle of any size asks for, when other bytes lie between its parts, as joblib puts them there.

joblib writes an array as the pickle of a ``NumpyArrayWrapper`` and, right behind the opcode that fills it, the array's bytes
(after a byte with the length of padding, and the padding, where the wrapper says so); of an array of objects a pickle of its own
(joblib 1.6, ``joblib/numpy_pickle.py``). Nothing is imported, called or built: see `pickle_survey`.
"""

from __future__ import annotations

import math
import pickletools
import re
import warnings
from collections.abc import Iterator, Sequence
from typing import IO, Any, cast

from .pickle_survey import LARGEST, BadPickle, Name, Surveyor

_LONGEST_LINE = 1 << 16
_SMALL = 4096  # longer pieces are byte strings and texts, which cost no work
_MOST_ENTRIES = 64
_DEEPEST = 20  # pickles in arrays of objects in pickles
_WRAPPER = "joblib.numpy_pickle.NumpyArrayWrapper"
_GETATTR = "builtins.getattr"
_METHODS = frozenset({"zoneinfo.ZoneInfo._unpickle"})  # what data asks getattr for: time zones (Lib/zoneinfo/_zoneinfo.py)
_AGAIN = frozenset({"BINGET", "LONG_BINGET", "GET", "DUP"})
_TYPE = re.compile(r"[|<>=]?[A-Za-z?](\d{1,9})")


class TooLong(BadPickle):
    """The pickle is longer than is looked at."""


class Stream:
    """Bytes that come in pieces, as `pickletools` reads them; what is asked for at once is bounded."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._buffer = b""
        self._at = 0  # in the buffer
        self._before = 0  # bytes before the buffer
        self._work = 0
        self.ended = False  # more was asked for than is there

    def tell(self) -> int:
        return self._before + self._at

    def read(self, count: int) -> bytes:
        """At most ``count`` bytes, fewer only at the end."""
        if count > LARGEST:
            raise TooLong(f"a value of {count:,} bytes")
        self._work += count if count <= _SMALL else 0
        if self._work > LARGEST:
            raise TooLong(f"opcodes of more than {LARGEST:,} bytes")
        if self._at + count <= len(self._buffer):
            data = self._buffer[self._at:self._at + count]
        else:
            parts, missing = [self._buffer[self._at:]], count - (len(self._buffer) - self._at)
            while missing > 0 and self._next():
                parts.append(self._buffer[:missing])
                missing -= len(parts[-1])
            data = b"".join(parts)
            self._at = len(parts[-1]) if len(parts) > 1 else len(self._buffer)
            self.ended |= missing > 0
            return data
        self._at += count
        return data

    def readline(self) -> bytes:
        line = bytearray()
        while len(line) <= _LONGEST_LINE:
            byte = self.read(1)
            line += byte
            if not byte or byte == b"\n":
                return bytes(line)
        raise TooLong(f"a line of more than {_LONGEST_LINE:,} bytes")

    def skip(self, count: int) -> None:
        """Go over ``count`` bytes, however many."""
        while count > 0:
            here = min(count, len(self._buffer) - self._at)
            self._at += here
            count -= here
            if count and not self._next():
                self.ended = True
                raise BadPickle(f"the file ends in the values of an array, {count:,} bytes early", incomplete=True)

    def peek(self) -> bytes:
        """The next byte, b"" at the end."""
        if self._at == len(self._buffer) and not self._next():
            return b""
        return self._buffer[self._at:self._at + 1]

    def _next(self) -> bool:
        """Replace the buffer, which was used up, by the next piece."""
        for piece in self._pieces:
            if piece:
                self._before += len(self._buffer)
                self._buffer, self._at = piece, 0
                return True
        self._before += len(self._buffer)
        self._buffer, self._at = b"", 0
        return False


class _Entries:
    """A dict that the pickle fills, with its first entries by text."""

    def __init__(self) -> None:
        self.by_name: dict[str, Any] = {}


class _Dtype:
    """The type of an array's elements."""

    def __init__(self, code: Any) -> None:
        self.code = code


class _ArraySurveyor(Surveyor):
    """The surveyor that also knows how many bytes the array behind a wrapper has."""

    def __init__(self) -> None:
        super().__init__()
        self.in_order: dict[Name, None] = {}
        self.array: _Entries | None = None  # the wrapper that was just filled
        self._getattr = 0  # how often it is on the stack for another purpose than one of the methods

    @property
    def asked(self) -> dict[Name, None]:
        """The names in their order. ``getattr`` is one of them unless it fetched nothing but methods that make data."""
        return self.in_order | ({Name(_GETATTR, _GETATTR): None} if self._getattr else {})

    def name(self, module: str, name: str) -> Name:
        result = super().name(module, name)
        if result.name == _GETATTR:
            self._getattr += 1
        else:
            self.in_order[result] = None
        return result

    def computed(self) -> None:
        super().computed()
        self.in_order |= dict.fromkeys(self.names)

    def call(self, function: Any, arguments: Any) -> Any:
        if isinstance(function, Name) and function.name == "numpy.dtype" and isinstance(arguments, tuple) and arguments:
            return _Dtype(arguments[0])
        if isinstance(function, Name) and function.name == _GETATTR and isinstance(arguments, tuple):
            method = ".".join(part.name if isinstance(part, Name) else str(part) for part in arguments)
            if method in _METHODS and isinstance(arguments[0], Name):
                self._getattr -= 1
                self.in_order[Name(method, method)] = None
                return Name(method, method)
        return super().call(function, arguments)

    def persistent(self, identity: Any) -> None:
        """Whatever a persistent id means, it names something outside of the pickle."""

    def step(self, op: pickletools.OpcodeInfo, argument: Any, at: int) -> None:
        self.array = None
        match op.name:
            case "EMPTY_DICT":
                self.stack.append(_Entries())
            case "EMPTY_TUPLE":
                self.stack.append(())
            case "SETITEM" | "SETITEMS":
                items = self.above_mark() if op.name == "SETITEMS" else self.last_two()
                target = self.stack[-1]
                if isinstance(target, _Entries) and len(target.by_name) < _MOST_ENTRIES:
                    pairs = zip(items[::2], items[1::2], strict=False)
                    target.by_name |= {key: value for key, value in pairs if isinstance(key, str)}
                self.fill(self.mappings)
            case "BUILD":
                state = self.stack.pop()
                by = getattr(self.stack[-1], "by", None)
                if isinstance(state, _Entries) and isinstance(by, Name) and by.name == _WRAPPER:
                    self.array = state
            case "PERSID":
                self.stack.append(None)
            case _:
                super().step(op, argument, at)
        if op.name in _AGAIN and isinstance(self.stack[-1], Name) and self.stack[-1].name == _GETATTR:
            self._getattr += 1
        self.texts.clear()

    def last_two(self) -> list[Any]:
        value, key = self.stack.pop(), self.stack.pop()
        return [key, value]


def names(stream: Stream) -> Sequence[Name]:
    """The names that the next pickle asks for, in their order; what is left in the stream begins behind it.

    Raises `BadPickle` (with the names up to there) when it is incomplete or makes no sense, `TooLong` when it is too much.
    """
    return list(_names(stream, 0))


def _names(stream: Stream, depth: int) -> dict[Name, None]:
    if depth > _DEEPEST:
        raise TooLong(f"pickles in pickles, more than {_DEEPEST} deep")
    machine = _ArraySurveyor()
    end = stream.tell()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about escapes in strings that are only looked at
            for op, argument, position in pickletools.genops(cast(IO[bytes], stream)):
                machine.step(op, argument, position or 0)
                if machine.array is not None:
                    _pass_over(machine, machine.array, stream, depth)
                end = stream.tell()
    except BadPickle as error:
        raise _with_names(error, machine) from None
    except (IndexError, KeyError):
        raise _with_names(BadPickle(f"the opcode behind byte {end:,} takes what is not there"), machine) from None
    except (ValueError, OverflowError) as error:
        told = f"it cannot be followed behind byte {end:,} ({str(error)[:120]})"
        raise _with_names(BadPickle(told, incomplete=stream.ended), machine) from None
    return machine.asked


def _with_names(error: BadPickle, machine: _ArraySurveyor) -> BadPickle:
    """What runs before a pickle breaks off has run."""
    error.names = [*machine.asked, *error.names]
    return error


def _pass_over(machine: _ArraySurveyor, wrapper: _Entries, stream: Stream, depth: int) -> None:
    """Go over the array behind a wrapper."""
    shape, dtype = wrapper.by_name.get("shape"), wrapper.by_name.get("dtype")
    code = dtype.code if isinstance(dtype, _Dtype) and isinstance(dtype.code, str) else ""
    size = _TYPE.fullmatch(code)
    if size is None or not isinstance(shape, tuple) or not all(isinstance(count, int) and count >= 0 for count in shape):
        raise BadPickle("an array of joblib without a shape or a type")
    if "O" in code:
        machine.in_order |= _names(stream, depth + 1)
        return
    if isinstance(wrapper.by_name.get("numpy_array_alignment_bytes"), int):
        stream.skip(int.from_bytes(stream.read(1), "little"))
    stream.skip(math.prod(shape) * int(size[1]) * (4 if "U" in code else 1))
