"""How much a reload may use: the memory that is there, the default limits, and the limits of the operating system.

The figures come from /proc (proc(5)) and from the memory controller of cgroup v1 and v2 (Documentation/admin-guide
of the Linux kernel: cgroup-v1/memory.rst, cgroup-v2.rst). Where they are missing the physical memory counts.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import posixpath
import resource
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from .protocol import Job, Limits

TIMEOUT = 120.0
# How torch, the C++ library and Python's threads say that they got no memory without raising MemoryError.
_OUT_OF_MEMORY = ("can't allocate memory", "cannot allocate memory", "not enough memory", "std::bad_alloc",
                  "can't start new thread")
_ROOM, _TIMES = 4 * 2**30, 4  # bytes, and how often the files of a job
_MOST_THREADS = 4  # beyond that a disk, not a core, is what a reader waits for


def default_limits(workers: int = 1) -> Limits:
    """The limits when nothing else is asked: 120 s without progress, half of the memory shared by ``workers``."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return Limits(
        timeout=TIMEOUT,
        memory=memory_available() // 2 // workers,
        threads=max(1, min(_MOST_THREADS, cores // workers)),
    )


def for_job(limits: Limits, job: Job) -> Limits:
    """The limits of one job: no more memory than its files can need, so that a small file that asks for all of it is stopped.

    Readers take chunks; only the legacy format of torch needs its whole file, some of it twice. What does not depend on the size
    (the model that a framework rebuilds without values, threads, code that is loaded late) has room in `_ROOM`.
    """
    if limits.asked:
        return limits
    files = [*job.files, *(job.base.files if job.base is not None else ())]
    return dataclasses.replace(limits, memory=min(limits.memory, _ROOM + _TIMES * sum(file.size for file in files)))


def memory_available(root: str = "/") -> int:
    """Bytes that can still be had without swapping, in this machine and in this control group.

    ``root`` is where ``proc`` and ``sys`` lie.
    """
    available = _table(Path(root, "proc/meminfo")).get("MemAvailable:")
    machine = available * 1024 if available is not None else os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min([machine, *_group_memory(Path(root))])


def oom_kills(root: str = "/") -> int:
    """A number that rises whenever the kernel kills a process for want of memory."""
    base = Path(root)
    total = _table(base / "proc/vmstat").get("oom_kill", 0)
    for folder, version in _memory_groups(base):
        total += _table(folder / ("memory.events" if version == 2 else "memory.oom_control")).get("oom_kill", 0)
    return total


def ran_out_of_memory(error: BaseException) -> bool:
    """Whether an exception means that there was no memory left."""
    if isinstance(error, MemoryError):
        return True
    try:
        text = str(error).lower()
    except Exception:  # an exception of somebody else's
        return False
    return any(phrase in text for phrase in _OUT_OF_MEMORY)


def die_first() -> None:
    """Let the kernel choose this process, not pytest, when memory runs out (Linux)."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


def restrict(memory: int) -> None:
    """Limit this process to ``memory`` bytes of address space more than it has now, and let it dump no core.

    To be called after the imports: what they map counts. Raises OSError or ValueError when a limit cannot be
    had. The limit of memory is set on Linux only; elsewhere the address space is not limited.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform != "linux":
        return
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    wanted = pages * resource.getpagesize() + memory
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _group_memory(root: Path) -> Iterator[int]:
    """What is left in each control group that this process is in and that has a limit.

    Inactive pages of the file cache count as free: the kernel drops them first.
    """
    for folder, version in _memory_groups(root):
        limit = _number(folder / ("memory.max" if version == 2 else "memory.limit_in_bytes"))
        used = _number(folder / ("memory.current" if version == 2 else "memory.usage_in_bytes"))
        if limit is None or used is None:
            continue
        cache = _table(folder / "memory.stat").get("inactive_file" if version == 2 else "total_inactive_file", 0)
        yield max(0, limit - max(0, used - cache))


def _memory_groups(root: Path) -> Iterator[tuple[Path, int]]:
    """(folder, version) of the control groups that count this process's memory, from its own up to the root.

    In a container /proc may name a path of the host that is not mounted; the root of the mount is then its own group.
    """
    for line in _lines(root / "proc/self/cgroup"):
        hierarchy, controllers, path = (*line.split(":", 2), "", "")[:3]
        if hierarchy == "0" and not controllers:
            mount, version = root / "sys/fs/cgroup", 2
        elif "memory" in controllers.split(","):
            mount, version = root / "sys/fs/cgroup/memory", 1
        else:
            continue
        path = posixpath.normpath("/" + path.lstrip("/"))
        while path != "/":
            yield mount / path[1:], version
            path = posixpath.dirname(path)
        yield mount, version


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text("ascii", "replace").splitlines()
    except OSError:
        return []


def _number(path: Path) -> int | None:
    """The number in a file; None for no file and for "max"."""
    text = "".join(_lines(path)[:1])
    return int(text) if text.isdecimal() else None


def _table(path: Path) -> Mapping[str, int]:
    """Lines of the form ``name number``, as the kernel writes its counters."""
    words = (line.split() for line in _lines(path))
    return {line[0]: int(line[1]) for line in words if len(line) > 1 and line[1].isdecimal()}
