"""The server: imports what the children need once, starts one for each attempt, and ends it with all its offspring.

It never reads a checked file and never runs a tensor operation: a process that did could not be forked (the thread
pool of the math libraries does not survive it). The parent sends single bytes over a socket: `RUN` together with
three descriptors (job, result, log), `KILL`; the server answers with lines of JSON: ``{"failure": …}`` once, then
``{"ended": status}`` for each child.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import os
import select
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, NoReturn

from . import child, interpreter, reach
from .protocol import decode_job

RUN, KILL = b"R", b"K"
Mode = Literal["fork", "spawn"]
_LOOK_AROUND = 2.0  # seconds between two looks at whether the parent is still there
_PR_SET_CHILD_SUBREAPER = 36  # prctl(2)
_MOST_SWEEPS = 100

_Launch = Callable[[int, int, int, str], int]  # (job, result, log, folder) -> pid


def main(descriptor: int, mode: Mode, folder: str, parent: int) -> NoReturn:
    """Serve until the parent closes its end of the socket or is gone; then remove ``folder`` and end the process."""
    control = socket.socket(fileno=descriptor)
    failure = child.preload() if mode == "fork" else None
    _adopt_orphans()
    try:
        _say(control, {"failure": failure})
        _serve(control, _Launcher(mode), folder, parent)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        _remove(folder)
        os._exit(0)


class _Launcher:
    """Starts the children, after importing once what their jobs need of frameworks."""

    def __init__(self, mode: Mode) -> None:
        self._mode = mode
        self._imported: set[str] = set()
        gc.freeze()  # so that a collection in a child does not copy every page

    def __call__(self, job: int, result: int, log: int, folder: str) -> int:
        if self._mode == "fork":
            self._import(job)
            if _threads() == 1:  # else a library started one: a fork could find its locks held for ever
                return _fork(job, result, log, folder)
        return _spawn(job, result, log, folder)

    def _import(self, job: int) -> None:
        """What cannot be imported is imported again in the child, which says what follows from it."""
        size = os.fstat(job).st_size
        wanted = decode_job(os.pread(job, size, 0))[0]
        for name in child.modules_for(wanted):
            if name not in self._imported:
                self._imported.add(name)
                with contextlib.suppress(Exception):
                    importlib.import_module(name)
                gc.freeze()
        reach.machine(child.needed_by(wanted))  # worked out here once, for all children


def _serve(control: socket.socket, launch: _Launch, folder: str, parent: int) -> None:
    awake, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)  # the wake-up needs a handler
    running: int | None = None
    scratch = ""
    try:
        while os.getppid() == parent:  # a fork of the parent may hold the socket open after its death
            readable = select.select([control.fileno(), awake], [], [], _LOOK_AROUND)[0]
            if awake in readable:
                os.read(awake, 4096)
            if control.fileno() in readable:
                command, descriptors, _, _ = socket.recv_fds(control, 1, 3, getattr(socket, "MSG_CMSG_CLOEXEC", 0))
                if command == RUN:
                    job, result, log = descriptors
                    scratch = tempfile.mkdtemp(dir=folder)
                    running = launch(job, result, log, scratch)
                    for descriptor in descriptors:
                        os.close(descriptor)
                elif command == KILL and running is not None:
                    _kill(running)
                elif not command:
                    break
            if running is not None and (status := _status(running)) is not None:
                _kill_group(running)
                _sweep()
                running = None
                _remove(scratch)
                _say(control, {"ended": status})
    finally:
        if running is not None:
            _kill(running)
            os.waitpid(running, 0)
            _kill_group(running)
            _sweep()


def _fork(job: int, result: int, log: int, folder: str) -> int:
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            child.main(job, result, log, folder, parent)
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(1)
    return pid


def _spawn(job: int, result: int, log: int, folder: str) -> int:
    for descriptor in (job, result, log):
        os.set_inheritable(descriptor, True)
    command = interpreter.command(sys.path, child.__name__, job, result, log, folder, os.getpid())
    to_log = [(os.POSIX_SPAWN_DUP2, log, 1), (os.POSIX_SPAWN_DUP2, log, 2)]
    return os.posix_spawn(command[0], command, os.environ, file_actions=to_log)


def _status(pid: int) -> int | None:
    """The exit status of a child that ended (negative for a signal), None while it runs."""
    found, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if found else None


def _kill(pid: int) -> None:
    """Kill a child that runs; it may not yet lead its session."""
    os.kill(pid, signal.SIGKILL)
    _kill_group(pid)


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _adopt_orphans() -> None:
    """Become the parent of every orphan among the descendants (Linux), so that `_sweep` finds those that left the session."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _sweep() -> None:
    """Kill and reap what children of ours left behind."""
    offspring = Path(f"/proc/self/task/{os.getpid()}/children")
    for _ in range(_MOST_SWEEPS):
        try:
            left = [int(pid) for pid in offspring.read_text().split()]
        except OSError:  # not Linux, or a kernel without this file
            return
        if not left:
            return
        for pid in left:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _threads() -> int:
    """The threads of this process; 1 where that cannot be seen."""
    with contextlib.suppress(OSError):
        return len(os.listdir("/proc/self/task"))
    return 1


def _remove(folder: str) -> None:
    with contextlib.suppress(RecursionError):
        shutil.rmtree(folder, ignore_errors=True)


def _say(control: socket.socket, message: Mapping[str, Any]) -> None:
    control.sendall(json.dumps(message).encode("ascii") + b"\n")
