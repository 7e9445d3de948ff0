"""The parent's hold on one server process."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Sequence
from typing import Any

from . import interpreter, server

STARTUP = 300.0  # seconds: importing torch from a cold network disk takes minutes
END = 10.0  # seconds until a killed process must be gone; one that waits for a dead disk never is
_LAST_WORDS = 4096


class Server:
    """One server process with its socket and its folder, which holds HOME, caches and temporary files.

    ``lost`` is set when it no longer does what it is told; all that is left then is to `close` it.
    """

    def __init__(self, search_path: Sequence[str], exclude: Sequence[str], mode: server.Mode) -> None:
        """Start the process without waiting for it; OSError when that is not possible.

        Libraries of the system are not sought in the directories ``exclude`` either.
        """
        self.lost = False
        self.ready = False
        with contextlib.ExitStack() as undo:
            self._folder = tempfile.mkdtemp(prefix="pytest-campaign-")
            undo.callback(shutil.rmtree, self._folder, ignore_errors=True)
            self._log = undo.enter_context(tempfile.TemporaryFile())
            self._control, theirs = socket.socketpair()
            undo.callback(self._control.close)
            self._messages = undo.enter_context(self._control.makefile("rb"))
            self._control.settimeout(STARTUP)
            with theirs:
                self._process = subprocess.Popen(
                    interpreter.command(search_path, server.__name__, theirs.fileno(), mode, self._folder, os.getpid()),
                    stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log, pass_fds=(theirs.fileno(),),
                    cwd="/", env=interpreter.environment(self._folder, exclude), start_new_session=True,
                )
            self._undo = undo.pop_all()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return not self.lost and self._process.poll() is None

    def fileno(self) -> int:
        """The descriptor that becomes readable when there is something to `receive`."""
        return self._control.fileno()

    def wait_until_ready(self) -> str | None:
        """Wait until it takes jobs; why it never will, or None."""
        try:
            message = self.receive()
        except TimeoutError:
            return f"the reload process was not ready after {STARTUP:.0f} s"
        if message is None:
            return f"the reload process ended while it started: {self.last_words()}"
        failure = message["failure"]
        self.ready = failure is None
        return None if failure is None else str(failure)

    def receive(self) -> dict[str, Any] | None:
        """Its next message; None, and ``lost``, when it is gone. TimeoutError after `STARTUP` seconds."""
        try:
            line = self._messages.readline()
        except ConnectionError:
            line = b""
        if not line.endswith(b"\n"):
            self.lost = True
            return None
        message: dict[str, Any] = json.loads(line)
        return message

    def launch(self, job: bytes, result: int, log: int) -> None:
        """Have a child started that reads ``job``, answers on ``result`` and prints to ``log``."""
        with tempfile.TemporaryFile() as file:
            file.write(job)
            file.flush()
            self._send(server.RUN, [file.fileno(), result, log])

    def kill(self) -> None:
        """Have the running child killed; its end is announced as usual."""
        self._send(server.KILL, [])

    def last_words(self) -> str:
        """How it ended, and the last line that it printed."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1)
        self._log.seek(max(0, os.fstat(self._log.fileno()).st_size - _LAST_WORDS))
        lines = self._log.read().decode("utf-8", "backslashreplace").split("\n")
        return " ".join(["exit status", str(self._process.returncode), *[line for line in lines if line.strip()][-1:]])

    def close(self) -> None:
        """End it with its child and remove its folder. It ends by itself when the socket is closed."""
        try:
            with contextlib.suppress(OSError):
                self._control.shutdown(socket.SHUT_RDWR)
            if self.ready:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(END)
        finally:
            self._process.kill()
            self._process.wait()
            self._undo.close()

    def _send(self, command: bytes, descriptors: Sequence[int]) -> None:
        try:
            socket.send_fds(self._control, [command], descriptors)
        except OSError:
            self.lost = True
