"""System calls of Linux that Python has no function for, by number: for x86-64 and for aarch64.

The numbers are those of ``arch/x86/entry/syscalls/syscall_64.tbl`` and ``include/uapi/asm-generic/unistd.h`` of the kernel.
A number once given never changes.
"""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import os
import sys
from typing import Any

_PR_SET_NO_NEW_PRIVS = 38  # prctl(2)
_CAPABILITY_VERSION = 0x20080522  # _LINUX_CAPABILITY_VERSION_3, capget(2)
_OPEN_EVERYTHING, _READ_EVERYTHING = 1 << 1, 1 << 2  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, capabilities(7)


@dataclasses.dataclass(frozen=True)
class Machine:
    """A kind of processor: its name, its number for seccomp (AUDIT_ARCH_…, linux/audit.h), its column in a table of numbers.

    ``other_abi``: system calls from this number on are those of another binary interface (x32), None where there is none.
    """

    name: str
    audit: int
    column: int
    other_abi: int | None


MACHINES = {
    "x86_64": Machine("x86_64", 0xC000003E, 0, 0x40000000),
    "aarch64": Machine("aarch64", 0xC00000B7, 1, None),
}
NUMBERS = {  # (x86-64, aarch64)
    "capget": (125, 90), "capset": (126, 91), "seccomp": (317, 277), "unshare": (272, 97),
    "landlock_create_ruleset": (444, 444), "landlock_add_rule": (445, 445), "landlock_restrict_self": (446, 446),
}


@functools.cache
def machine() -> Machine:
    """This machine; OSError when it is none of the `MACHINES`, with 64 bits and Linux."""
    if sys.platform != "linux":
        raise OSError(f"it needs Linux, this is {sys.platform}")
    name = os.uname().machine
    if name not in MACHINES or sys.maxsize < 2**32:
        raise OSError(f"it needs a processor of the kind {' or '.join(MACHINES)} with 64 bits, this is {name}")
    return MACHINES[name]


@functools.cache
def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    return libc


def call(name: str, *arguments: Any) -> int:
    """Make the system call of that name in `NUMBERS`; OSError when it fails. Integers are passed as 64 bits."""
    values = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    result = int(_libc().syscall(ctypes.c_long(NUMBERS[name][machine().column]), *values))
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return result


def no_new_privileges() -> None:
    """No program that this process or its children start gets more rights than they have (prctl(2), PR_SET_NO_NEW_PRIVS)."""
    machine()
    if _libc().prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        number = ctypes.get_errno()
        raise OSError(number, f"prctl: {os.strerror(number)}")


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Capabilities(ctypes.Structure):
    _fields_ = (("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32))


def drop_capabilities() -> None:
    """Give up for good what root may and others may not, but for reading files of other owners.

    Root in a container often has no right that allows just that, and then keeps the one that allows writing too.
    """
    header = _Header(_CAPABILITY_VERSION, 0)
    sets = (_Capabilities * 2)()
    call("capget", ctypes.byref(header), ctypes.byref(sets))
    kept = sets[0].permitted & _READ_EVERYTHING or sets[0].permitted & _OPEN_EVERYTHING
    sets = (_Capabilities * 2)(_Capabilities(kept, kept, 0))
    call("capset", ctypes.byref(header), ctypes.byref(sets))
