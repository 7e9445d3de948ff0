"""A report on the disk: marked incomplete from the first moment, with a record beside it that only grows.

Whatever ends a session, what it found is kept: each finished check is at once a line of ``<report>.partial.jsonl``. The file is
removed when the report is complete. Of several sessions that write the same report at the same time each has a record of its own
(``<report>.partial-2.jsonl``), and the report is always that of one of them: one that came to its end is not replaced by one that
did not.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from ..durable import sync_folder

_MOST_SESSIONS = 100  # at the same time on one report
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)


class _NoLocks(Exception):
    """The system has no locks for files here."""


class ReportFile:
    """One report of one session.

    Its methods raise OSError when the disk refuses, and leave what was there.
    """

    def __init__(self, file: Path) -> None:
        """Take a place for the record beside ``file``; what a session that was killed left there is removed."""
        self.file = file
        self.partial, self._descriptor = _own(file)
        self._temporary = self.partial.with_suffix(".tmp")
        self._put: tuple[int, int, int] | None = None

    def begin(self, report: str, line: str) -> None:
        """Put the report that says that nothing is finished yet, and the first line of the record."""
        self._replace(report)
        self.add(line)

    def add(self, line: str) -> None:
        """Append a line to the record; nothing when that did not work before: it must have no hole."""
        if self._descriptor < 0:
            return
        rest = memoryview(line.encode("ascii") + b"\n")
        try:
            while rest:
                rest = rest[os.write(self._descriptor, rest):]
        except OSError:
            self._give_back()
            raise

    def finish(self, report: str, *, complete: bool) -> bool:
        """Put the last report; False when it is not complete and another session has put its own there meanwhile.

        The record goes when the report is ``complete``.
        """
        if not complete and self._put != _identity(self.file):
            self._give_back()
            return False
        self._replace(report)
        if complete:
            with contextlib.suppress(OSError):
                os.unlink(self.partial)
        self._give_back()
        return True

    def abandon(self) -> None:
        """Remove the record of a session that does not take place."""
        if self._descriptor >= 0:
            with contextlib.suppress(OSError):
                os.unlink(self.partial)
        self._give_back()

    def _replace(self, text: str) -> None:
        """Put the report at once: a reader sees the one before or this one, never a half."""
        try:
            descriptor = _create(self._temporary)
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(text.encode("utf-8"))
                stream.flush()
                os.fsync(stream.fileno())
                put = os.fstat(stream.fileno())
            os.replace(self._temporary, self.file)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(self._temporary)
            raise
        self._put = (put.st_dev, put.st_ino, put.st_mtime_ns)
        sync_folder(self.file.parent)

    def _give_back(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _identity(file: Path) -> tuple[int, int, int] | None:
    with contextlib.suppress(OSError):
        status = os.lstat(file)
        return status.st_dev, status.st_ino, status.st_mtime_ns
    return None


def _own(file: Path) -> tuple[Path, int]:
    """A record beside ``file`` that no other living session writes, new and open for appending."""
    with contextlib.suppress(_NoLocks):
        for number in range(1, _MOST_SESSIONS + 1):
            path = file.with_name(f"{file.name}.partial{'' if number == 1 else f'-{number}'}.jsonl")
            with contextlib.suppress(BlockingIOError):
                return path, _take(path)
    path = file.with_name(f"{file.name}.partial-{os.getpid()}.jsonl")
    return path, _create(path)


def _take(path: Path) -> int:
    """A new file that this process holds the lock of; BlockingIOError when another holds it.

    What is there is never written to: in a directory from a stranger it may be anything. The lock ends with its process.
    """
    while True:
        with contextlib.suppress(FileNotFoundError):
            left = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                _lock(left)
                if os.path.samestat(os.fstat(left), os.lstat(path)):
                    os.unlink(path)
            finally:
                os.close(left)
        try:
            descriptor = os.open(path, _NEW | os.O_APPEND, 0o666)
        except FileExistsError:
            continue  # another session was faster
        try:
            with contextlib.suppress(BlockingIOError, FileNotFoundError):  # another session took it for one of the dead
                _lock(descriptor)
                if os.path.samestat(os.fstat(descriptor), os.lstat(path)):
                    return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _lock(descriptor: int) -> None:
    try:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except (ImportError, OSError):  # Windows, some network file systems
        raise _NoLocks from None


def _create(path: Path) -> int:
    """A new file of a name that only this session uses."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    return os.open(path, _NEW | os.O_APPEND, 0o666)
