"""Files outside its reach that a reading opened or needs: how a deliverable that depends on one machine shows itself.

An audit hook (PEP 578, event "open") sees every file that is opened in Python. What lies outside is refused there as Landlock
refuses it, so that a reading ends alike where there is no Landlock. It is no wall: code of a library is not seen.
"""

from __future__ import annotations

import dataclasses
import errno
import os
import re
from collections.abc import Iterable, Iterator, Sequence

from ..formats.base import Problem, ProblemKind, Reading
from .reach import Reach

_MOST = 20
_LONGEST = 300
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
# Where libraries look by themselves; a path of a checked file leads elsewhere, or the reading fails for want of it.
_OF_THE_SYSTEM = ("/etc/", "/proc/", "/sys/", "/dev/", "/run/", "/usr/", "/var/", "/lib", "/bin/", "/sbin/")
_FAILURES = (ProblemKind.NOT_REBUILT, ProblemKind.CONFIGURATION, ProblemKind.DAMAGED)
# How the operating system, torch and huggingface_hub say that a path leads to nothing that can be opened.
_IN_VAIN = re.compile(r"no such file|permission denied|not a directory|unable to open|can(?:no|')t (?:open|load|find)|not found"
                      r"|does not exist|not a local folder|incorrect path|repo id must be", re.IGNORECASE)
_PATH = re.compile(r"(?<![\w.:/\\>~$-])/(?:[^\s/'\"`:;,()<>\[\]{}]+/)+[^\s/'\"`:;,()<>\[\]{}]+")


class Watch:
    """The audit hook of one process; ``paths`` are the files outside that were opened, or were to be, each once.

    Once added (`sys.addaudithook`) it stays until the process ends.
    """

    def __init__(self, reach: Reach) -> None:
        self.paths: list[str] = []
        self.reach = reach

    def __call__(self, event: str, arguments: tuple[object, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            if isinstance(path, (str, bytes)):
                self._opened(os.fsdecode(path), flags if isinstance(flags, int) else 0)

    def _opened(self, path: str, flags: int) -> None:
        if not path.startswith("/"):  # relative to a folder that is not known here
            return
        if flags & _WRITING:
            if self.reach.writes(path):
                return
        elif self.reach.reads(path):
            return
        if path not in self.paths and len(self.paths) < _MOST and not self.reach.reads(path):
            self.paths.append(path)
        if flags & _WRITING or os.path.lexists(path):  # else the operating system says that it is not there
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)


def needed(error: BaseException, text: str, reach: Reach) -> str | None:
    """The path outside for want of which a reading ended with an error, None for none. ``text`` is what is said of the error."""
    if isinstance(error, OSError) and isinstance(error.filename, (str, bytes)):
        path = os.fsdecode(error.filename)
        return path if path.startswith("/") and not reach.reads(path) else None
    return next(_named(text, reach), None)


def judged(reading: Reading, path: str, opened: Sequence[str], reach: Reach) -> Reading:
    """The reading of the unit ``path``, with a problem when it failed for want of a file outside or looked for one."""
    for problem in reading.problems:
        if problem.kind in _FAILURES:
            outside = next(_named(problem.observed, reach), None) or next((p for p in opened if p in problem.observed), None)
            if outside is not None:
                observed = f"it cannot be loaded without {outside[:_LONGEST]}, a file or folder outside ({problem.observed})"
                others = [other for other in reading.problems if other is not problem]
                told = _problem(ProblemKind.OUTSIDE_NEEDED, problem.path, observed, problem.where)
                return dataclasses.replace(reading, problems=[*others, told])
    tried = [p for p in opened if not p.startswith(_OF_THE_SYSTEM)]
    if not tried:
        return reading
    more = f" and {len(tried) - 1} more" if len(tried) > 1 else ""
    told = _problem(ProblemKind.OUTSIDE_TRIED, path, f"loading it looks for {tried[0][:_LONGEST]}{more}, outside")
    return dataclasses.replace(reading, problems=[*reading.problems, told])


def _problem(kind: ProblemKind, path: str, observed: str, where: str = "") -> Problem:
    return Problem(kind, path, observed, "only files of the deliverable, of its base and of the Python installation", where)


def _named(text: str, reach: Reach) -> Iterator[str]:
    """Paths outside that a message says could not be used."""
    if _IN_VAIN.search(text):
        for path in _paths(text):
            if not reach.reads(path):
                yield path


def _paths(text: str) -> Iterable[str]:
    return dict.fromkeys(match[0].rstrip(".") for match in _PATH.finditer(text))
