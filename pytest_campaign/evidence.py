"""What is known about the files of a campaign: read once, on first demand, by whichever check asks."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
from collections.abc import Callable, Sequence
from importlib import metadata
from typing import Any

from .campaign import Campaign, Deliverable
from .formats.base import HEAD, Depth, FileFacts, Reading, Unit
from .inventory import FILE, Entry, Inventory
from .reload.protocol import Answer, Death, FileSpec, Job, Progress

Runner = Callable[[Job, Callable[[Progress], None] | None], Answer]


def version(package: str) -> str:
    """The version of an installed package, found without importing it; empty when it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


class Files:
    """The evidence of one campaign. ``runner`` reloads a job in a fresh process.

    ``digest`` says that the reload is to take the SHA-256 of every file that it reads, for the report.
    ``on_progress`` may be set while a check runs, to hear how far a reload is.
    """

    def __init__(self, inventory: Inventory, runner: Runner, *, digest: bool) -> None:
        self.on_progress: Callable[[Progress], None] | None = None
        self._inventory = inventory
        self._runner = runner
        self._digest = digest
        self._heads: dict[str, bytes] = {}
        self._digests: dict[str, str] = {}
        self._results: dict[tuple[str, Depth], tuple[Reading | None, Death | None]] = {}

    @functools.cached_property
    def torch_version(self) -> str:
        """The version of the torch that reads, found without importing it; empty when none is installed."""
        return version("torch")

    def head(self, entry: Entry) -> bytes:
        """The first kilobyte of a regular file; OSError when it cannot be read or has changed."""
        if entry.path not in self._heads:
            self._heads[entry.path] = self._inventory.read(entry, HEAD)
        return self._heads[entry.path]

    def sha256(self, entry: Entry) -> str:
        """The SHA-256 of a regular file, in hexadecimal; OSError as for `head`."""
        if entry.path not in self._digests:
            with os.fdopen(self._inventory.open(entry), "rb") as file:
                self._digests[entry.path] = hashlib.file_digest(file, "sha256").hexdigest()
        return self._digests[entry.path]

    def reload(self, campaign: Campaign, deliverable: Deliverable) -> Answer:
        """The reload of all the checkpoints of a deliverable; what another deliverable has read is not read again."""
        units = campaign.units_of(deliverable)
        depth = min(campaign.asked.max_depth or Depth.PROBE, Depth.TENSORS)
        open_units = [unit for unit in units if (unit.path, depth) not in self._results]
        seconds, log = 0.0, ""
        if open_units:
            answer = self._runner(self._job(open_units, depth), self.on_progress)
            seconds, log = answer.seconds, answer.log
            for unit, reading, death in zip(open_units, answer.readings, answer.deaths, strict=True):
                self._results[unit.path, depth] = reading, death
        results = [self._results[unit.path, depth] for unit in units]
        return Answer([reading for reading, _ in results], [death for _, death in results], seconds, log)

    def learned(self, campaign: Campaign, deliverable: Deliverable, check: str) -> dict[str, Any]:
        """What the record keeps of the check that just ran: the fields of a `Result` beside its findings.

        With ``digest`` the files that no reload reads are hashed by the deliverable's cheapest check.
        """
        units = campaign.units_of(deliverable)
        if check != "reload":
            return {"files": self._hashed(campaign, deliverable)} if self._digest and check == "content" else {}
        results = [result for unit in units for (path, _), result in self._results.items() if path == unit.path]
        readings = [reading for reading, _ in results if reading is not None]
        depths = [reading.depth if reading is not None else None for reading, _ in results]
        return {
            "depth": min((d for d in depths if d is not None), default=None) if None not in depths else None,
            "format": ", ".join(sorted({unit.format for unit in units})) or None,
            "bytes_read": sum(reading.bytes_read for reading in readings),
            "files": [file for reading in readings for file in reading.files],
        }

    def _hashed(self, campaign: Campaign, deliverable: Deliverable) -> Sequence[FileFacts]:
        read = {path for unit in campaign.units_of(deliverable) for path in unit.files}
        found = []
        for path, entry in campaign.files_of(deliverable).items():
            if path not in read:
                with contextlib.suppress(OSError):  # the check itself says what cannot be read
                    found.append(FileFacts(path, entry.size, self.sha256(entry)))
        return found

    def _job(self, units: Sequence[Unit], depth: Depth) -> Job:
        specs = []
        for path in dict.fromkeys(path for unit in units for path in unit.files):
            entry = self._inventory.resolve(path)
            if entry is not None and entry.kind == FILE:
                specs.append(FileSpec(path, entry.path, entry.device, entry.inode, entry.size, entry.mtime_ns))
        return Job(self._inventory.root, units, specs, depth, self._digest)

