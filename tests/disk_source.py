"""What a format module is given, straight from a folder: the source of a reading, and files to recognise."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import threading
from collections.abc import Collection, Mapping
from typing import BinaryIO

from pytest_campaign.formats import tensor_comparison
from pytest_campaign.formats.base import HEAD, Candidate, Depth, Folder


@dataclasses.dataclass
class DiskSource:
    """A `Source` over a folder that counts the work and remembers which threads reported it."""

    root: pathlib.Path
    depth: Depth = Depth.TENSORS
    digest: bool = False
    threads: int = 1
    base: DiskSource | None = None
    base_name: str = ""
    declared: Mapping[str, str] = dataclasses.field(default_factory=dict)
    done: int = 0
    workers: set[int] = dataclasses.field(default_factory=set)

    def names(self) -> list[str]:
        return sorted(str(path.relative_to(self.root)) for path in self.root.rglob("*") if path.is_file())

    def open(self, path: str) -> BinaryIO:
        return open(self.root / path, "rb", buffering=0)

    def size(self, path: str) -> int:
        return (self.root / path).stat().st_size

    def exists(self, path: str) -> bool:
        return os.path.isfile(self.root / path)  # unlike pathlib it takes any name

    def hashed(self, names: Collection[str]) -> Collection[str]:
        return tensor_comparison.hashed(self.declared, names)

    def advance(self, count: int) -> None:
        self.done += count
        self.workers.add(threading.get_ident())


def candidate(path: pathlib.Path, name: str | None = None) -> Candidate:
    data = path.read_bytes()
    return Candidate(name or path.name, len(data), data[:HEAD], lambda offset, length: data[offset:offset + length])


def folder(root: pathlib.Path, name: str = "") -> Folder:
    inside = name + "/" if name else ""
    entries = sorted((root / name).iterdir())


    def below(subfolder: str) -> Mapping[str, Candidate]:
        top = root / name / subfolder
        return {str(path.relative_to(top)): candidate(path) for path in sorted(top.rglob("*")) if path.is_file()}

    return Folder(name, {path.name: candidate(path, inside + path.name) for path in entries
                         if path.is_file() and path.stat().st_size},
                  [path.name for path in entries if path.is_dir()], below)
