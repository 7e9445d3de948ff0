"""A filter for system calls: what no reader of checkpoints needs fails with EPERM, for this process for good.

A list of what is refused, and not of what is allowed: the latter would break with each new C library. Threads can be started,
processes cannot. The filter is a program for the kernel's small interpreter (seccomp(2); "Seccomp BPF" in the kernel's
documentation, userspace-api/seccomp_filter.rst; linux/filter.h). Its numbers are those of `kernel`.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from . import kernel

ALLOW, KILL = 0x7FFF0000, 0x80000000  # SECCOMP_RET_ALLOW, SECCOMP_RET_KILL_PROCESS
_ERRNO = 0x00050000  # SECCOMP_RET_ERRNO
_SET_MODE_FILTER = 1
_TSYNC = 1  # all threads of the process
_SPEC_ALLOW = 4  # no mitigation that slows the whole process down on kernels before 5.16: nothing can leave it anyway
_LOAD, _JUMP_EQUAL, _JUMP_FROM, _JUMP_SET, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16  # in struct seccomp_data; an argument has 8 bytes, the lower half first

_CLONE_THREAD = 0x00010000  # clone(2)
_CLONE_NEW = 0x7E020080  # every CLONE_NEW… that clone(2) takes
_F_SETOWN, _F_SETOWN_EX = 8, 15  # fcntl(2): whom the kernel is to send a signal

# (x86-64, aarch64); None where the processor has no such call.
REFUSED: Mapping[str, tuple[int | None, int | None]] = {
    # the network, and other ways to another process
    "socket": (41, 198), "socketpair": (53, 199), "connect": (42, 203), "bind": (49, 200), "listen": (50, 201),
    "accept": (43, 202), "accept4": (288, 242), "sendto": (44, 206), "sendmsg": (46, 211), "sendmmsg": (307, 269),
    "shmget": (29, 194), "shmat": (30, 196), "shmctl": (31, 195), "msgget": (68, 186), "msgsnd": (69, 189), "msgrcv": (70, 188),
    "msgctl": (71, 187), "semget": (64, 190), "semop": (65, 193), "semtimedop": (220, 192), "semctl": (66, 191),
    "mq_open": (240, 180), "mq_unlink": (241, 181),
    # programs and processes
    "execve": (59, 221), "execveat": (322, 281), "fork": (57, None), "vfork": (58, None),
    "rt_sigqueueinfo": (129, 138), "rt_tgsigqueueinfo": (297, 240), "pidfd_open": (434, 434), "pidfd_getfd": (438, 438),
    "pidfd_send_signal": (424, 424), "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "process_madvise": (440, 440), "process_mrelease": (448, 448), "kcmp": (312, 272), "migrate_pages": (256, 238),
    "move_pages": (279, 239),
    # file systems and namespaces
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51), "move_mount": (429, 429),
    "open_tree": (428, 428), "open_tree_attr": (467, 467), "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432),
    "fspick": (433, 433), "mount_setattr": (442, 442), "unshare": (272, 97), "setns": (308, 268), "swapon": (167, 224),
    "swapoff": (168, 225), "quotactl": (179, 60), "quotactl_fd": (443, 443), "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265), "fanotify_init": (300, 262), "mknod": (133, None), "mknodat": (259, 33),
    # what is said of a file: Landlock does not guard it, and a descriptor that only reads is enough
    "chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452), "chown": (92, None),
    "fchown": (93, 55), "lchown": (94, None), "fchownat": (260, 54), "utime": (132, None), "utimes": (235, None),
    "futimesat": (261, None), "utimensat": (280, 88), "setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7),
    "setxattrat": (463, 463), "removexattr": (197, 14), "lremovexattr": (198, 15), "fremovexattr": (199, 16),
    "removexattrat": (466, 466), "file_setattr": (469, 469),
    # parts of the kernel that have often been a way into it
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427), "bpf": (321, 280),
    "userfaultfd": (323, 282), "perf_event_open": (298, 241), "memfd_secret": (447, 447), "add_key": (248, 217),
    "request_key": (249, 218), "keyctl": (250, 219), "personality": (135, 92), "modify_ldt": (154, None), "iopl": (172, None),
    "ioperm": (173, None), "uselib": (134, None), "lookup_dcookie": (212, 18), "nfsservctl": (180, 42),
    # the machine
    "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106), "kexec_load": (246, 104),
    "kexec_file_load": (320, 294), "reboot": (169, 142), "settimeofday": (164, 170), "clock_settime": (227, 112),
    "clock_adjtime": (305, 266), "adjtimex": (159, 171), "sethostname": (170, 161), "setdomainname": (171, 162),
    "syslog": (103, 116), "acct": (163, 89), "vhangup": (153, 58),
}
# Refused or not by an argument.
CLONE, CLONE3, KILL_PROCESS, KILL_THREAD, KILL_TASK, LIMITS, CONTROL = (
    (56, 220), (435, 435), (62, 129), (234, 131), (200, 130), (302, 261), (72, 25))


class Instruction(NamedTuple):
    """One instruction: what it does, how many others it passes over when its question is true or false, its operand."""

    code: int
    true: int
    false: int
    operand: int


def program(machine: kernel.Machine, pid: int) -> Sequence[Instruction]:
    """The filter for the process ``pid`` on such a machine."""
    wrong = [] if machine.other_abi is None else [Instruction(_JUMP_FROM, 0, 1, machine.other_abi), _return(KILL)]
    return [
        Instruction(_LOAD, 0, 0, _ARCHITECTURE), Instruction(_JUMP_EQUAL, 1, 0, machine.audit), _return(KILL),
        Instruction(_LOAD, 0, 0, _NUMBER), *wrong, *_calls(machine, pid), _return(ALLOW),
    ]


def _calls(machine: kernel.Machine, pid: int) -> Iterator[Instruction]:
    refuse = _return(_ERRNO | errno.EPERM)
    only_own = [_argument(0), Instruction(_JUMP_EQUAL, 0, 1, pid), _return(ALLOW), refuse]
    conditional: Sequence[tuple[tuple[int, int], Sequence[Instruction]]] = (
        # The C library starts a thread with clone where there is no clone3.
        (CLONE3, [_return(_ERRNO | errno.ENOSYS)]),
        (CLONE, [_argument(0), Instruction(_JUMP_SET, 2, 0, _CLONE_NEW), Instruction(_JUMP_SET, 0, 1, _CLONE_THREAD),
                 _return(ALLOW), refuse]),
        (KILL_PROCESS, only_own),
        (KILL_THREAD, only_own),
        (KILL_TASK, only_own),
        (LIMITS, [_argument(0), Instruction(_JUMP_EQUAL, 1, 0, 0), Instruction(_JUMP_EQUAL, 0, 1, pid), _return(ALLOW), refuse]),
        (CONTROL, [_argument(1), Instruction(_JUMP_EQUAL, 1, 0, _F_SETOWN), Instruction(_JUMP_EQUAL, 0, 1, _F_SETOWN_EX),
                   refuse, _return(ALLOW)]),
    )
    for numbers, body in (*((numbers, [refuse]) for numbers in REFUSED.values()), *conditional):
        number = numbers[machine.column]
        if number is not None:
            yield Instruction(_JUMP_EQUAL, 0, len(body), number)
            yield from body


def _return(value: int) -> Instruction:
    return Instruction(_RETURN, 0, 0, value)


def _argument(index: int) -> Instruction:
    """Load the lower half of an argument: all that the kernel looks at in those that are used here."""
    return Instruction(_LOAD, 0, 0, _FIRST_ARGUMENT + 8 * index)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def restrict() -> None:
    """Put all threads of this process under the filter; OSError when that is not possible.

    `kernel.no_new_privileges` must have been called.
    """
    instructions = program(kernel.machine(), os.getpid())
    filters = _Program(len(instructions), b"".join(struct.pack("=HBBI", *instruction) for instruction in instructions))
    other = kernel.call("seccomp", _SET_MODE_FILTER, _TSYNC | _SPEC_ALLOW, ctypes.byref(filters))
    if other:
        raise OSError(f"seccomp: the thread {other} has a filter of its own")
