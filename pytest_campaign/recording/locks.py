"""One process, and one thread of it, at a time."""

from __future__ import annotations

import contextlib
import errno
import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

from .errors import RecordingError

PATIENCE = 120.0  # seconds; a change of the manifest takes some thousandths
STALE = 60.0  # seconds after which a lock file is that of a process that was killed
_LOCK_FILE = ".manifest.json.lock"
_LONGEST_PAUSE = 0.02
_TAKEN = frozenset({errno.EAGAIN, errno.EACCES, errno.EWOULDBLOCK})


@contextlib.contextmanager
def exclusive(folder: Path, patience: float = PATIENCE) -> Iterator[None]:
    """Hold the lock of a folder.

    The lock lies on the open folder itself, so that it leaves no file and ends with its process, however that ends. Where the
    system has no such locks (Windows, some network file systems) an empty file stands for it. Raises `RecordingError` when
    somebody else holds it for longer than ``patience`` seconds.
    """
    deadline = time.monotonic() + patience
    with contextlib.ExitStack() as stack:
        if not _lock_folder(folder, deadline, stack):
            _lock_file(folder / _LOCK_FILE, deadline, stack)
        yield


def _lock_folder(folder: Path, deadline: float, stack: contextlib.ExitStack) -> bool:
    """Take the lock of the system; False where there is none."""
    try:
        import fcntl
    except ImportError:
        return False
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    stack.callback(os.close, descriptor)
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in _TAKEN:
                return False
            _wait(folder, deadline)
        else:
            # given back by name: a child that was forked meanwhile has the descriptor too
            stack.callback(fcntl.flock, descriptor, fcntl.LOCK_UN)
            return True


def _lock_file(path: Path, deadline: float, stack: contextlib.ExitStack) -> None:
    """Create a file that nobody else can create at the same time; one that was left behind is removed."""
    while True:
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
        except FileExistsError:
            with contextlib.suppress(FileNotFoundError):
                _remove_if_stale(path)
            _wait(path.parent, deadline)
        else:
            stack.callback(path.unlink, missing_ok=True)
            return


def _remove_if_stale(path: Path) -> None:
    """Remove a lock file that is too old for a living process; it is first renamed, which only one process can do."""
    before = path.stat()
    if time.time() - before.st_mtime < STALE:
        return
    aside = path.with_name(f"{path.name}.{os.getpid()}.{random.getrandbits(32):08x}")
    os.rename(path, aside)
    if aside.stat().st_mtime_ns != before.st_mtime_ns:  # a fresh one: another process was faster
        with contextlib.suppress(FileExistsError):
            os.link(aside, path)
    aside.unlink()


def _wait(folder: Path, deadline: float) -> None:
    if time.monotonic() > deadline:
        raise RecordingError(f"another process holds the lock of {folder}; see which one writes its manifest.json")
    time.sleep(random.uniform(0.001, _LONGEST_PAUSE))
