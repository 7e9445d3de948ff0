"""What a process may open, by path, from now on: rules of Landlock, which need no privilege.

What a rule does not allow is refused with EACCES: reading, writing, listing, creating, deleting, executing; from version 4 of
its interface TCP too, from version 6 signals to and abstract sockets of processes outside. It binds the calling thread and
those that it starts later. What it does not guard (the state of a file, other sockets, descriptors that are open) `seccomp`
does. Sources: the kernel's documentation (userspace-api/landlock.rst), linux/landlock.h.
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct
from collections.abc import Iterable

from . import kernel

READ_FILE, READ_FOLDER = 1 << 2, 1 << 3
READ = READ_FILE | READ_FOLDER
_EXECUTE, WRITE_FILE, _MAKE_DEVICES = 1 << 0, 1 << 1, 1 << 6 | 1 << 11
_MOVE, _TRUNCATE, _IOCTL = 1 << 13, 1 << 14, 1 << 15
_FILE = _EXECUTE | WRITE_FILE | READ_FILE | _TRUNCATE | _IOCTL  # what a rule on a file can allow
EVERYTHING = ((1 << 16) - 1) & ~_EXECUTE & ~_MAKE_DEVICES
_VERSION = 1  # LANDLOCK_CREATE_RULESET_VERSION
_BENEATH = 1  # LANDLOCK_RULE_PATH_BENEATH


class _Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


def version() -> int:
    """The version of the kernel's interface; OSError when it has none."""
    return kernel.call("landlock_create_ruleset", None, 0, _VERSION)


def rights(abi: int) -> tuple[int, int, int]:
    """What a version of the interface can guard: rights on files, on the network, and what is kept inside."""
    files = (1 << 13) - 1
    files |= sum(right for since, right in ((2, _MOVE), (3, _TRUNCATE), (5, _IOCTL)) if abi >= since)
    return files, 0b11 if abi >= 4 else 0, 0b11 if abi >= 6 else 0


def restrict(allowed: Iterable[tuple[str, int, bool]]) -> None:
    """Allow this thread nothing but what is given as (path, rights, whether a link at its end is followed).

    A path that is not there, or is a link that is not to be followed, allows nothing. OSError when the kernel refuses.
    `kernel.no_new_privileges` must have been called.
    """
    abi = version()
    handled = _Ruleset(*rights(abi))
    size = 8 if abi < 4 else 16 if abi < 6 else 24  # an older kernel refuses a longer structure
    ruleset = kernel.call("landlock_create_ruleset", ctypes.byref(handled), size, 0)
    try:
        for path, wanted, follow in allowed:
            _allow(ruleset, path, wanted & handled.files, follow)
        kernel.call("landlock_restrict_self", ruleset, 0)
    finally:
        os.close(ruleset)


def _allow(ruleset: int, path: str, wanted: int, follow: bool) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW))
    except (OSError, ValueError):  # the latter: a path with a NUL in it
        return
    try:
        mode = os.fstat(place).st_mode
        granted = wanted if stat.S_ISDIR(mode) else wanted & _FILE
        if granted and not stat.S_ISLNK(mode):
            kernel.call("landlock_add_rule", ruleset, _BENEATH, struct.pack("=Qi", granted, place), 0)
    finally:
        os.close(place)
