"""Examples that need a process of their own: with a format and a check of our own, or without the rights of root.

``python -m rule_examples.apart FOLDER`` checks them in the package that ``PYTHONPATH`` gives, and prints what is
wrong with each by its name. `package` makes the copy of the package for it.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import sys
from pathlib import Path

import pytest_campaign

WORLDS = ("unprivileged", "toys")
FORMAT = '''
import contextlib
import ctypes
import os
import tempfile
import time

from .base import Depth, FileFacts, Format, Problem, ProblemKind, Reading


def read(unit, source):
    with source.open(unit.path) as file:
        word = file.read().decode().removeprefix("TOY ")
    if word == "raise":
        raise ValueError("no header")
    if word == "crash":
        ctypes.string_at(0)
    if word == "exit":
        os._exit(5)
    if word == "hang":
        time.sleep(1000)
    if word == "hog":
        bytearray(1 << 34)
    if word == "need":
        open("/scratch/job-4711/tokenizer.json").close()
    if word == "look":
        with contextlib.suppress(FileNotFoundError):
            open("/scratch/job-4711/tokenizer.json").close()
    if word == "look about":
        for place in ("/proc/self/status", "/proc/cpuinfo", "/dev/null", "/etc/localtime", ctypes.__file__):
            with contextlib.suppress(FileNotFoundError):
                open(place, "rb").close()
        os.stat("/etc/passwd")
        with contextlib.suppress(OSError):
            open(os.path.expanduser("~/.config/library.toml")).close()
        with tempfile.TemporaryFile() as scratch:
            scratch.write(b"my own")
    kinds = [ProblemKind.EXECUTABLE] if word == "executable" else []
    problems = [Problem(kind, unit.path, "a program", "data") for kind in kinds]
    return Reading("toy", source.depth, [FileFacts(unit.path, source.size(unit.path))], problems, tensors=1)


FORMAT = Format("toy", Depth.TENSORS, read, recognise=lambda candidate: candidate.head.startswith(b"TOY "))
'''
CHECK = '''
from .base import DeliverableCheck


def check(campaign, deliverable, evidence):
    if deliverable.id.endswith("/raising"):
        raise ZeroDivisionError("division by zero")
    return []


CHECK = DeliverableCheck("toy", "Does it raise?", check)
'''
_PR_CAPBSET_DROP, _CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH = 24, 1, 2  # linux/prctl.h, linux/capability.h


def package(folder: Path) -> Path:
    """A copy of the package with the toys in it."""
    original = Path(pytest_campaign.__file__).parent
    shutil.copytree(original, folder / "pytest_campaign", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("schemas", "pyproject.toml"):
        (folder / name).symlink_to(original.parent / name)
    (folder / "pytest_campaign/formats/toy.py").write_text(FORMAT)
    (folder / "pytest_campaign/checks/toy.py").write_text(CHECK)
    return folder


def without_rights_over_files() -> None:
    """Begin again as somebody whom permissions bind: root without the two capabilities that override them."""
    if os.geteuid() == 0 and "bound" not in sys.argv:
        for capability in (_CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH):
            if ctypes.CDLL(None, use_errno=True).prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0):
                raise OSError(ctypes.get_errno(), "the right to override permissions cannot be dropped")
        os.execv(sys.executable, [sys.executable, "-m", "rule_examples.apart", *sys.argv[1:], "bound"])


def main(folder: Path) -> None:
    from pytest_campaign.reload.client import Reloader
    from pytest_campaign.reload.protocol import Limits

    from . import EXAMPLES, checked, content, fixity, identifiers, manifest, plan, portable, reload

    assert all((content, fixity, identifiers, manifest, plan, portable, reload))  # each registers its examples
    found = {}
    with Reloader(Limits(timeout=1.5, memory=1 << 28, threads=1)) as reloader:
        for number, example in enumerate(example for example in EXAMPLES if example.world in WORLDS):
            directory = folder / str(number) / "campaign"
            try:
                found[example.name] = checked(example, directory, reloader.run)
            finally:
                for place in (directory, *directory.rglob("*")):
                    if place.is_dir() and not place.is_symlink():
                        place.chmod(0o700)
    print(json.dumps(found))


if __name__ == "__main__":
    without_rights_over_files()
    main(Path(sys.argv[1]))
