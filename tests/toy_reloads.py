"""Reloads of toy files (see `toy_format`) by a copy of the package that knows no other format."""

import contextlib
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import pytest_campaign
from pytest_campaign.formats.base import Unit
from pytest_campaign.reload.client import Reloader
from pytest_campaign.reload.protocol import Answer, Death, FileSpec, Job, Limits

PATIENT = Limits(timeout=30.0, memory=2**27, threads=3)
TOY = Path(__file__).with_name("toy_format.py")


def package(folder: Path) -> Path:
    """Make a copy of the package whose only format is the toy."""
    original = Path(pytest_campaign.__file__).parent
    shutil.copytree(original, folder / "pytest_campaign", ignore=shutil.ignore_patterns("__pycache__", "formats"))
    (folder / "pytest_campaign/formats").mkdir()
    for file in (original / "formats/__init__.py", original / "formats/base.py", TOY):
        shutil.copy(file, folder / "pytest_campaign/formats")
    return folder


def light_package(folder: Path) -> Path:
    """Make one with stand-ins for the libraries, for questions about processes only: torch takes seconds to import."""
    package(folder)
    (folder / "torch.py").touch()
    (folder / "safetensors.py").touch()
    return folder


@contextlib.contextmanager
def reloading(package: Path, bounds: Limits = PATIENT, **options) -> Iterator[Reloader]:
    """Fresh processes that import such a copy."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(package), "", "relative", *sys.path])
        patch.setenv("SECRET_TOKEN", "hunter2")
        reloader = Reloader(bounds, **options)
        reloader.start()
    with reloader:
        yield reloader


def toy_job(folder: Path, *actions: str, **options) -> Job:
    """A job of toy files that are written into a folder, one for each action."""
    files = []
    for number, action in enumerate(actions):
        name = f"{number}.toy"
        (folder / name).write_text(action)
        status = (folder / name).stat()
        files.append(FileSpec(name, name, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns))
    return Job(str(folder), [Unit("toy", file.path, (file.path,)) for file in files], files, **options)


def death(answer: Answer) -> Death:
    """The death of the only unit."""
    assert answer.readings == [None]
    (death,) = answer.deaths
    assert death is not None
    return death


def said(answer: Answer) -> str:
    """What the toy reader said of the only unit."""
    assert answer.deaths == [None]
    (reading,) = answer.readings
    return reading.problems[0].observed
