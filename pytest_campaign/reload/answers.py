"""What a child said, judged: its lines are untrusted, its end is told from what it said last."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Collection
from typing import Any, NoReturn

from ..formats.base import Reading, Unit, from_json
from .protocol import Death, DeathKind

LONGEST_LINE = 16 * 2**20
_LONGEST_TEXT = 1000
_LONGEST_NUMBER = 20  # digits: 2**64 has 20
_SAYABLE = frozenset({DeathKind.EXCEPTION, DeathKind.CHANGED, DeathKind.OUTSIDE, DeathKind.MEMORY, DeathKind.UNREADABLE,
                      DeathKind.NO_SERVER})
_CRASHES = frozenset({signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT, signal.SIGTRAP, signal.SIGSYS})
# What Rust and C++ print before they abort for want of memory.
_OUT_OF_MEMORY = ("memory allocation of", "std::bad_alloc")


class Answers:
    """The outcomes of ``units`` in their order, as far as they arrived.

    ``ready`` is set when the child says that it begins, ``done`` is the progress in the unit it is at. ``rows`` takes the rows of
    a table, where some are expected: whole lines, as text; a ValueError of it says that it takes no more.
    """

    def __init__(self, units: Collection[Unit], paths: Collection[str], rows: Callable[[str], None] | None = None) -> None:
        self.outcomes: list[Reading | Death] = []
        self.ready = False
        self.done = 0
        self._formats = [unit.format for unit in units]
        self._paths = paths
        self._rows = rows
        self._rest = bytearray()

    @property
    def complete(self) -> bool:
        """Whether there is nothing more to be said: every unit has its outcome, or one was a death."""
        return len(self.outcomes) == len(self._formats) or any(isinstance(outcome, Death) for outcome in self.outcomes)

    def feed(self, data: bytes) -> bool:
        """Take in bytes from the child; whether they are a step forward. ValueError when they are no answer."""
        searched = len(self._rest)
        self._rest += data
        forward = False
        start = 0
        while not self.complete and (end := self._rest.find(b"\n", max(start, searched))) >= 0:
            forward |= self._line(bytes(self._rest[start:end]))
            start = end + 1
        del self._rest[:start]
        if len(self._rest) > LONGEST_LINE:
            raise ValueError(f"its answer is longer than {LONGEST_LINE // 2**20} MiB")
        return forward

    def _line(self, line: bytes) -> bool:
        try:
            message = json.loads(line, parse_int=_integer, parse_float=_refuse, parse_constant=_refuse)
            (key, value), = message.items()
        except (ValueError, AttributeError, RecursionError):
            raise ValueError("its answer is no message") from None
        if key == "ready" and value is True and not self.ready:
            self.ready = True
            return True
        if key == "progress" and self.ready and type(value) is int:
            forward = value > self.done
            self.done = max(self.done, value)
            return forward
        if key == "rows" and self.ready and self._rows is not None and type(value) is str:
            self._rows(value)
            return value != ""
        if key == "reading" and self.ready:
            self.outcomes.append(self._reading(value))
            self.done = 0
            return True
        if key == "death":
            self.outcomes.append(self._death(value))
            return True
        raise ValueError(f"its answer is out of order: {key[:20]!r}")

    def _reading(self, value: Any) -> Reading:
        reading = from_json(value)
        expected = self._formats[len(self.outcomes)]
        if reading.format != expected:
            raise ValueError(f"its answer speaks of {reading.format[:20]!r} where {expected!r} was asked")
        return reading

    def _death(self, value: Any) -> Death:
        try:
            kind, detail, path = DeathKind(value["kind"]), value["detail"], value["path"]
        except (KeyError, TypeError):
            raise ValueError("its answer is no message") from None
        if type(detail) is not str or type(path) is not str:
            raise ValueError("its answer is no message")
        if kind not in _SAYABLE or (path and path not in self._paths):
            raise ValueError(f"its answer tells of an impossible end: {kind}")
        return Death(kind, detail[:_LONGEST_TEXT], path)


def ended(code: int, log: str, memory: int, oom_killed: bool) -> Death:
    """The death of a child that ended by itself without saying why.

    ``code`` is its exit status, negative for a signal; ``memory`` the limit in bytes; ``oom_killed`` whether the
    kernel killed a process for want of memory meanwhile.
    """
    if code >= 0:
        return Death(DeathKind.NO_ANSWER, f"the process ended with exit status {code} and without an answer")
    name = _signal_name(-code)
    if -code == signal.SIGABRT and any(phrase in log for phrase in _OUT_OF_MEMORY):
        return Death(DeathKind.MEMORY, f"the limit of {memory / 2**20:.3g} MiB was reached: the library aborted ({name})")
    if -code in _CRASHES:
        return Death(DeathKind.CRASHED, f"the process crashed with {name} while it read the files")
    detail = f"the process was killed by {name} from outside"
    if -code == signal.SIGKILL:
        detail += ", most likely out of memory"
        if oom_killed:
            detail += " (the kernel counted a process killed for want of memory meanwhile)"
    return Death(DeathKind.KILLED, detail)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _integer(digits: str) -> int:
    if len(digits) > _LONGEST_NUMBER:
        raise ValueError("a number is too long")
    return int(digits)


def _refuse(text: str) -> NoReturn:
    raise ValueError(f"{text[:20]} is no count")
