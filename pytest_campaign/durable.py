"""Files that are there whole or not at all, also after a crash: a neighbour is written, flushed to the disk, and renamed."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path


def create(target: Path, data: bytes) -> None:
    """Create a file that must not exist; FileExistsError when something is there, also a link that leads nowhere."""
    descriptor, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        fill(descriptor, data)
        os.chmod(temporary, 0o644)
        os.link(temporary, target)
    finally:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
    sync_folder(target.parent)


def replace(target: Path, data: bytes, temporary: Path) -> None:
    """Put new content in the place of a file. Its neighbour ``temporary`` is written first and must have no other writer."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
    fill(os.open(temporary, flags | getattr(os, "O_BINARY", 0), 0o644), data)
    os.replace(temporary, target)
    sync_folder(target.parent)


def sync_folder(folder: Path) -> None:
    """Flush the names in a folder to the disk, where the system can; without it a rename may be lost in a crash."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(OSError):  # some network file systems refuse it for folders
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def fill(descriptor: int, data: bytes) -> None:
    """Write the content of a file that was opened for that, flush it to the disk, and close it."""
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())
