"""The side of pytest: hands jobs to the fresh process, watches it, and tells a reading from a death."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import selectors
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Self

from .. import library_text
from ..formats.base import Reading
from . import confinement, interpreter, server
from . import limits as machine
from .answers import Answers, ended
from .confinement import IsolationLevel
from .protocol import Answer, Death, DeathKind, Isolation, Job, Limits, Progress, encode_job
from .remote import END, STARTUP, Server

_LOG = 16 * 1024  # bytes of what a job printed that are kept
_CHUNK = 64 * 1024
_LONGEST_TEXT = 500
_LAST_CHUNKS = 32  # a pipe holds at most 1 MiB (pipe(7)); more can only come from a process that got away

_LAYERS = ("fresh process", "isolated interpreter", "filtered module path", "scrubbed environment", "closed descriptors",
           "own session", "time limit", "no core dumps")
_LINUX_LAYERS = ("memory limit", "ends with its parent")


class Reloader:
    """Reads checkpoints in fresh processes, one job at a time.

    ``exclude`` are directories from which the fresh process must import nothing: the checked ones; the rest of the
    module search path is taken over as it is at this moment. In mode "fork" a server imports torch once and forks a
    child for each attempt; in mode "spawn" (the default where fork is not safe: everywhere but on Linux) each child
    is a new interpreter. The isolation is the highest that this machine gives, unless a lower ``level`` is given. A context
    manager: `close` ends all processes and removes their files.
    """

    def __init__(self, limits: Limits, exclude: Sequence[str] = (), mode: server.Mode | None = None,
                 level: IsolationLevel = IsolationLevel.ISOLATED) -> None:
        self._limits = limits
        self._exclude = tuple(exclude)
        self._search_path = interpreter.search_path(exclude)
        self._places = dict(library_text.python_places())
        self._mode: server.Mode = mode or ("fork" if sys.platform == "linux" else "spawn")
        self._level = level
        self._server: Server | None = None
        self._failure: str | None = None

    @functools.cached_property
    def isolation(self) -> Isolation:
        """What separates the reload from this process and this machine: each child has exactly that or reads nothing.

        Found out on first demand, by a short-lived process.
        """
        layers, missing = confinement.available(self._search_path, self._exclude)
        wanted = confinement.layers_of(self._level)
        missing = {**missing, **{layer: "it is not wanted" for layer in layers if layer not in wanted}}
        layers = [layer for layer in layers if layer in wanted]
        linux = sys.platform == "linux"
        return Isolation(
            level=confinement.level_of(layers).label,
            layers=(*_LAYERS, *(_LINUX_LAYERS if linux else ()), *layers),
            missing={**missing, **({} if linux else dict.fromkeys(_LINUX_LAYERS, "it needs Linux"))},
        )

    def start(self) -> None:
        """Start the server, which makes itself ready while the caller goes on. Nothing happens when one runs."""
        if self._server is None and self._failure is None:
            try:
                self._server = Server(self._search_path, self._exclude, self._mode)
            except OSError as error:
                self._failure = f"the reload process could not be started: {error}"

    def wait(self) -> str | None:
        """Start the server and wait until it takes jobs; why there is none, or None."""
        return None if self._ready_server() is not None else self._failure

    def run(self, job: Job, progress: Callable[[Progress], None] | None = None,
            rows: Callable[[str], None] | None = None) -> Answer:
        """Read the units of ``job``: for each a reading or a death, whatever happens to the process.

        ``progress`` is called at most about ten times a second, while bytes are read. An exception that it raises,
        like KeyboardInterrupt, ends the processes and is passed on. ``rows`` gets the rows of a table as JSON Lines, some whole
        lines at a time, from a child that is not trusted; a ValueError that it raises ends the job and says why.
        """
        started = time.monotonic()
        outcomes: list[Reading | Death] = []
        log = b""
        while len(outcomes) < len(job.units):
            if (running := self._ready_server()) is None:
                outcomes += [Death(DeathKind.NO_SERVER, self._failure or "")] * (len(job.units) - len(outcomes))
                break
            rest = dataclasses.replace(job, units=job.units[len(outcomes):])
            limits = dataclasses.replace(machine.for_job(self._limits, rest), layers=self.isolation.layers)
            attempt = _Attempt(running, rest, limits, progress, rows)
            try:
                outcomes += attempt.run()
            except BaseException:
                running.lost = True  # its child may still run
                raise
            finally:
                if running.lost:
                    self.close()
            log = (log + attempt.log)[-_LOG:]
        places = self._places | ({job.base.root: job.base.name} if job.base is not None else {}) | {job.root: ""}
        outcomes = [_without(outcome, places) for outcome in outcomes]
        return Answer(
            readings=[None if isinstance(outcome, Death) else outcome for outcome in outcomes],
            deaths=[outcome if isinstance(outcome, Death) else None for outcome in outcomes],
            seconds=time.monotonic() - started,
            log=_text(log),
        )

    def close(self) -> None:
        """End the processes and remove their files. Another `run` would start a new server."""
        if self._server is not None:
            ending, self._server = self._server, None
            ending.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None) -> None:
        self.close()

    def _ready_server(self) -> Server | None:
        """A server that takes jobs. One that never became ready is not tried again: ``_failure`` says why."""
        if self._server is not None and self._server.ready and not self._server.alive:
            self.close()
        self.start()
        if self._server is not None and not self._server.ready:
            self._failure = self._server.wait_until_ready()
            if self._failure is not None:
                self.close()
        return self._server


class _Attempt:
    """One child: it gets a job, and is watched until it is gone. ``log`` is the end of what it printed."""

    def __init__(self, running: Server, job: Job, limits: Limits, progress: Callable[[Progress], None] | None,
                 rows: Callable[[str], None] | None) -> None:
        self.log = b""
        self._server = running
        self._job = job
        self._limits = limits
        self._progress = progress
        self._sizes = {file.path: file.size for file in job.files}
        self._answers = Answers(job.units, self._sizes, rows)
        self._verdict: Death | None = None  # why we ended it
        self._deadline = time.monotonic() + STARTUP

    def run(self) -> list[Reading | Death]:
        """The outcomes of the first units, at least one; all of them when there is no death among them.

        When no process can be had, the death of each unit says so.
        """
        before = machine.oom_kills()
        with contextlib.ExitStack() as stack:
            result, log = self._launch(stack)
            code = self._watch(result, log)
            self._drain(self._take_log, log)
            self._drain(self._take_result, result)
        outcomes = self._answers.outcomes
        if not self._answers.complete:
            outcomes.append(self._verdict or self._death(code, machine.oom_kills() > before))
        last = outcomes[-1]
        if isinstance(last, Death) and last.kind is DeathKind.NO_SERVER:
            outcomes += [last] * (len(self._job.units) - len(outcomes))
        return outcomes

    def _launch(self, stack: contextlib.ExitStack) -> tuple[int, int]:
        """Start the child; the ends of its pipes for result and log from which we read."""
        with contextlib.ExitStack() as theirs:
            ours: list[int] = []
            ends: list[int] = []
            for _ in range(2):
                read, write = os.pipe()
                stack.callback(os.close, read)
                theirs.callback(os.close, write)
                os.set_blocking(read, False)
                ours.append(read)
                ends.append(write)
            self._server.launch(encode_job(self._job, self._limits), *ends)
        return ours[0], ours[1]

    def _watch(self, result: int, log: int) -> int | None:
        """Take in what comes until the child is gone: its exit status, None when the server is lost."""
        takers = {result: self._take_result, log: self._take_log}
        killed = False
        with selectors.DefaultSelector() as selector:
            for descriptor in (result, log, self._server.fileno()):
                selector.register(descriptor, selectors.EVENT_READ)
            while not self._server.lost:
                for key, _ in selector.select(max(0.0, self._deadline - time.monotonic())):
                    if key.fd not in takers:
                        message = self._server.receive()
                        return None if message is None else int(message["ended"])
                    if not takers[key.fd](key.fd):
                        selector.unregister(key.fd)
                late = time.monotonic() >= self._deadline
                if killed:
                    self._server.lost = late  # what cannot be killed is left behind with its server
                elif self._answers.complete or self._verdict is not None or late:
                    if late and not self._answers.complete:
                        self._verdict = self._verdict or self._too_late()
                    self._server.kill()
                    self._deadline = time.monotonic() + END
                    killed = True
        return None

    def _take_result(self, descriptor: int) -> bool:
        """Take in a piece of the answer; False at its end."""
        data = os.read(descriptor, _CHUNK)
        if self._answers.complete or self._verdict is not None:
            return bool(data)
        try:
            forward = self._answers.feed(data)
        except ValueError as error:
            self._verdict = Death(DeathKind.NO_ANSWER, str(error)[:_LONGEST_TEXT])
            return bool(data)
        if forward:
            self._deadline = time.monotonic() + self._limits.timeout
            if self._progress is not None and self._answers.done and not self._answers.complete:
                self._progress(self._where())
        return bool(data)

    def _take_log(self, descriptor: int) -> bool:
        data = os.read(descriptor, _CHUNK)
        self.log = (self.log + data)[-_LOG:]
        return bool(data)

    def _drain(self, take: Callable[[int], bool], descriptor: int) -> None:
        """Take in what is left in a pipe."""
        with contextlib.suppress(BlockingIOError):
            for _ in range(_LAST_CHUNKS):
                if not take(descriptor):
                    break

    def _where(self) -> Progress:
        unit = self._job.units[len(self._answers.outcomes)]
        return Progress(unit.path, self._answers.done, sum(self._sizes.get(file, 0) for file in unit.files))

    def _too_late(self) -> Death:
        if not self._answers.ready:
            return Death(DeathKind.NO_SERVER, f"the fresh process was not ready after {STARTUP:.0f} s")
        at = self._where()
        return Death(DeathKind.TIMEOUT, f"no progress for {self._limits.timeout:g} s, after {at.done:,} of {at.total:,} bytes")

    def _death(self, code: int | None, oom_killed: bool) -> Death:
        if code is None:
            return Death(DeathKind.NO_SERVER, f"the reload process ended in the middle of the job: {self._server.last_words()}")
        log = _text(self.log)
        if not self._answers.ready:
            last = log.strip().rpartition("\n")[2]
            return Death(DeathKind.NO_SERVER, f"the fresh process ended while it started: exit status {code} {last}".rstrip())
        return ended(code, log, self._limits.memory, oom_killed)


def _without(outcome: Reading | Death, places: Mapping[str, str]) -> Reading | Death:
    """The outcome with the texts of libraries as everybody may read them."""
    if isinstance(outcome, Death):
        return dataclasses.replace(outcome, detail=library_text.without(outcome.detail, places))
    problems = [dataclasses.replace(problem, observed=library_text.without(problem.observed, places),
                                    expected=library_text.without(problem.expected, places)) for problem in outcome.problems]
    return dataclasses.replace(outcome, problems=problems)


def _text(log: bytes) -> str:
    return log.decode("utf-8", "backslashreplace")
