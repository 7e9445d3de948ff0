"""What is known about the files of a campaign: read once, on first demand, by whichever check asks."""

from __future__ import annotations

import dataclasses
import functools
import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from importlib import metadata
from typing import Any, BinaryIO

from . import bases, copies, declarations, hashing, merging, parameters, parquet_tables, tensor_digests
from .base_lookup import Absent, Found, Known, Shelf, open_spec
from .bases import Statement
from .campaign import Campaign, Deliverable
from .declarations import Declarations
from .formats import formats
from .formats.base import HEAD, Depth, FileFacts, Reading, Unit
from .hashing import SHA256
from .inventory import FILE, SIZE, Entry, Identity, Inventory
from .loaders import Loader
from .parameters import Parameters
from .proved import Proved, deepened
from .readers.fields import Unreadable
from .record_files import RecordFiles
from .reload.protocol import LOADED, Answer, BaseFiles, Death, FileSpec, Job, Progress, Proof

RELOAD, FIXITY = "reload", "fixity"  # the checks of which the record keeps what they learned
_SAMPLE = 4096  # bytes at each of four places of a file that is compared with others
_HEX = re.compile(r"[0-9a-f]{64}")
_File = tuple[int, int] | str  # device and inode, so that hard links count once; the path where there are none
Runner = parquet_tables.Runner


def version(package: str) -> str:
    """The version of an installed package, found without importing it; empty when it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


class Files:
    """The evidence of one campaign. ``runner`` reloads a job in a fresh process.

    ``digest`` says that the reload is to take the SHA-256 of every file that it reads, for the report. ``shelf`` knows where base
    models lie; without one only those inside the campaign are found. ``loaders`` are the reviewer's, by the ids of deliverables.
    ``threads`` may take digests at the same time. ``on_progress`` may be set while a check runs, to hear how far a reload is.
    """

    def __init__(self, inventory: Inventory, runner: Runner, *, digest: bool, shelf: Shelf | None = None,
                 threads: int = 1, loaders: Mapping[str, Loader] | None = None) -> None:
        self.on_progress: Callable[[Progress], None] | None = None
        self._inventory = inventory
        self._runner = runner
        self._digest = digest
        self._shelf = shelf or Shelf()
        self._heads: dict[str, bytes] = {}
        self._threads = threads
        self._loaders = loaders or {}
        self._digests: dict[_File, dict[str, str]] = {}  # by algorithm
        self._declarations: Declarations | None = None
        self._results: dict[tuple[Unit, Depth], tuple[Reading | None, Death | None]] = {}
        self._compared: dict[tuple[Unit, Depth], Mapping[str, str]] = {}  # with these digests of tensors
        self._statements: dict[str, Statement] = {}
        self._proved: dict[str, Proved] = {}
        self._copies: Mapping[str, str] | None = None
        self._unit_copies: Mapping[str, str] | None = None
        self._parameters: Mapping[str, Parameters] | None = None
        self.record_files = RecordFiles(inventory, runner, lambda: self.on_progress)
        self._bases: int | None = None  # how many base models the campaign names

    @functools.cached_property
    def torch_version(self) -> str:
        """The version of the torch that reads, found without importing it; empty when none is installed."""
        return version("torch")

    def head(self, entry: Entry) -> bytes:
        """The first kilobyte of a regular file; OSError when it cannot be read or has changed."""
        if entry.path not in self._heads:
            self._heads[entry.path] = self._inventory.read(entry, HEAD)
        return self._heads[entry.path]

    def content(self, entry: Entry, limit: int) -> bytes:
        """The first ``limit`` bytes of a regular file; OSError as for `head`."""
        return self._inventory.read(entry, limit)

    def stream(self, entry: Entry) -> BinaryIO:
        """A regular file, open for reading from its start, unbuffered; the caller closes it. OSError as for `head`."""
        return self._inventory.stream(entry)

    def sha256(self, entry: Entry) -> str:
        """The SHA-256 of a regular file, in hexadecimal; OSError as for `head`."""
        found = self.digests({entry: (SHA256,)})[entry]
        if isinstance(found, OSError):
            raise found
        return found[SHA256]

    def digests(self, wanted: Mapping[Entry, Collection[str]]) -> Mapping[Entry, Mapping[str, str] | OSError]:
        """The digests of regular files in the wanted algorithms, or the error that reading one ended with, as for `head`.

        What is known already, by a reload too, is not computed again; files that are one and the same are read once.
        """
        todo: dict[_File, tuple[Callable[[], int], Identity, set[str]]] = {}
        for entry, algorithms in wanted.items():
            if missing := {*algorithms, *([SHA256] if self._digest else ())} - self._known(entry).keys():
                job = functools.partial(self._inventory.open, entry), entry.identity, set(missing)
                todo.setdefault(_file(entry), job)[2].update(missing)
        total = sum(expected[SIZE] for _, expected, _ in todo.values())
        path = next((entry.path for entry in wanted if _file(entry) in todo), "")

        def progress(done: int) -> None:
            if self.on_progress is not None:
                self.on_progress(Progress(path, done, total))

        found = hashing.together(todo, self._threads, progress) if todo else {}
        failed = {file: result for file, result in found.items() if isinstance(result, OSError)}
        for file, result in found.items():
            if not isinstance(result, OSError):
                self._digests.setdefault(file, {}).update(result)
        return {entry: failed.get(_file(entry)) or self._known(entry) for entry in wanted}

    def _known(self, entry: Entry) -> Mapping[str, str]:
        return self._digests.get(_file(entry), {})

    def declarations(self, campaign: Campaign) -> Declarations:
        """What the documents and the lists of digests in the directory say of the bytes of its files."""
        if self._declarations is None:
            self._declarations = declarations.declarations(campaign, self.content)
        return self._declarations

    def copies(self, campaign: Campaign) -> Mapping[str, str]:
        """The id of each deliverable that holds the same bytes as an earlier one, with the id of that one."""
        if self._copies is None:
            self._copies = copies.find(campaign, self._sample, self.sha256)
        return self._copies

    def unit_copies(self, campaign: Campaign) -> Mapping[str, str]:
        """The same of the deliverables of the kind that the budget is divided by; none where it names no kind."""
        if self._unit_copies is None:
            unit = campaign.unit
            self._unit_copies = {} if unit is None else copies.of_kind(campaign, unit, self._sample, self.sha256)
        return self._unit_copies

    def _sample(self, entry: Entry) -> bytes:
        """A few kilobytes from all over a file."""
        with self.stream(entry) as file:
            return b"".join(os.pread(file.fileno(), _SAMPLE, entry.size * part // 4) for part in range(4))

    def parameters(self, campaign: Campaign) -> Mapping[str, Parameters]:
        """The parameters of the runs, by the id of the run; runs that name no file have none."""
        if self._parameters is None:
            files = {run.id: campaign.parameters_of(run) for run in campaign.runs.values()}
            self._parameters = {run: self._read_parameters(path) for run, path in files.items() if path is not None}
        return self._parameters

    def _read_parameters(self, path: str) -> Parameters:
        entry = self._inventory.resolve(path)
        try:
            if entry is None or entry.kind != FILE:
                raise Unreadable("it is no file of the campaign")
            return Parameters(path, parameters.read(path, self.content(entry, parameters.MOST_BYTES + 1)))
        except OSError as error:
            return Parameters(path, {}, error.strerror or str(error))
        except Unreadable as error:
            return Parameters(path, {}, str(error))

    def stated_base(self, campaign: Campaign, deliverable: Deliverable) -> Statement:
        """What the manifest and the adapter configurations say of a deliverable's base."""
        if deliverable.id not in self._statements:
            self._statements[deliverable.id] = bases.statement(campaign, deliverable, self.content)
        return self._statements[deliverable.id]

    def base(self, campaign: Campaign, deliverable: Deliverable) -> Found | Absent | None:
        """Where a deliverable's base lies, or why it is not at hand; None where none is named."""
        wanted = self.stated_base(campaign, deliverable).wanted
        if wanted is None:
            return None
        if self._bases is None:
            all_wanted = [self.stated_base(campaign, d).wanted for d in campaign.deliverables if bases.has_base(campaign, d)]
            self._bases = len({other.title.casefold() for other in all_wanted if other is not None})
        return self._shelf.find(wanted, campaign.inventory, only=self._bases == 1)

    def base_sha256(self, found: Found, file: FileSpec) -> str:
        """The SHA-256 of a file of a base; OSError as for `head`."""
        entry = self._inventory.by_path.get(file.target) if found.inside is not None else None
        return self._shelf.sha256(found, file) if entry is None else self.sha256(entry)

    def known_base(self, text: str, revision: str | None = None) -> Known | None:
        """The commit of a base model, by its name or the path of a directory that was given, as far as this machine knows it."""
        return self._shelf.known(text, revision)

    def merged(self, campaign: Campaign, deliverable: Deliverable, adapter: Deliverable,
               found: Found) -> merging.Difference | str:
        """How a merged model differs from its base, or why that cannot be said; OSError as for `head`."""
        theirs = [merging.File(file.path, file.size, functools.partial(self._stream_base, found, file))
                  for file in found.files.files if _holds_tensors(file.path)]
        return merging.compare(self._tensor_files(campaign, deliverable), theirs, self._tensor_files(campaign, adapter))

    def _tensor_files(self, campaign: Campaign, deliverable: Deliverable) -> Sequence[merging.File]:
        return [merging.File(path, entry.size, functools.partial(self.stream, entry))
                for path, entry in campaign.files_of(deliverable).items() if _holds_tensors(path)]

    def _stream_base(self, found: Found, file: FileSpec) -> BinaryIO:
        return os.fdopen(open_spec(found, file), "rb", buffering=0)

    def reload(self, campaign: Campaign, deliverable: Deliverable) -> Answer:
        """The reload of all the checkpoints of a deliverable; what another deliverable has read is not read again.

        The digests of tensors that a deliverable at the same place declares are compared at once; with others it is read again.
        """
        declared = tensor_digests.usable(deliverable.tensor_digests or _declared_beside(campaign, deliverable))
        return self._read(campaign, campaign.units_of(deliverable), _deepest(campaign), self._base_files(campaign, deliverable),
                          declared, again=bool(deliverable.tensor_digests))

    def look_through(self, campaign: Campaign, deliverable: Deliverable) -> Answer:
        """The structure of what was recognised in a deliverable and is no checkpoint of it: arrays, pickles."""
        return self._read(campaign, campaign.left_out(deliverable), Depth.HEADER, None, {})

    def _read(self, campaign: Campaign, units: Sequence[Unit], depth: Depth, base: BaseFiles | None,
              declared: Mapping[str, str], again: bool = False) -> Answer:
        """``again``: what was read and compared with other digests than the declared ones is read again."""
        open_units = [unit for unit in units if (unit, depth) not in self._results
                      or (again and self._compared[unit, depth] != declared)]
        seconds, log = 0.0, ""
        if open_units:
            job = self._job(campaign, open_units, depth, base, declared)
            answer = self._runner(job, self.on_progress)
            seconds, log = answer.seconds, answer.log
            for unit, reading, death in zip(open_units, answer.readings, answer.deaths, strict=True):
                self._results[unit, depth] = reading, death
                self._compared[unit, depth] = declared
                if reading is not None:
                    self._remember(unit, reading)
        results = [self._results[unit, depth] for unit in units]
        return Answer([reading for reading, _ in results], [death for _, death in results], seconds, log)

    def loader(self, campaign: Campaign, deliverable: Deliverable) -> Loader | None:
        """The reviewer's own loader for a deliverable, None where there is none."""
        return self._loaders.get(deliverable.id)

    def prove(self, campaign: Campaign, deliverable: Deliverable, model: Unit | None, probe: str | None) -> Proved:
        """A model built with its values, by its library or (``model`` None) by the reviewer's loader; given a probe's input."""
        if deliverable.id not in self._proved:
            loader = self.loader(campaign, deliverable) if model is None else None
            target = campaign.target(deliverable) or ""
            unit = model or Unit(LOADED, target, tuple(campaign.files_of(deliverable)))
            proof = Proof(os.path.join(self._inventory.root, target).rstrip("/") or "/", loader.text if loader else None, probe)
            job = dataclasses.replace(
                self._job(campaign, [unit], Depth.HEADER, self._base_files(campaign, deliverable) if model else None,
                          {}, more=[probe] if probe is not None else []), digest=False, proof=proof)
            answer = self._runner(job, self.on_progress)
            self._proved[deliverable.id] = Proved(unit, loader.shown if loader else None, answer.readings[0], answer.deaths[0])
        return self._proved[deliverable.id]

    def learned(self, campaign: Campaign, deliverable: Deliverable, check: str) -> dict[str, Any]:
        """What the record keeps of the check that just ran: the fields of a `Result` beside its findings.

        With ``digest`` the files that no reload has read are hashed with the check `fixity`, which comes after it.
        """
        if check == FIXITY:
            return {"files": self._hashed(campaign, deliverable)}
        if check != RELOAD:
            return {}
        units = campaign.units_of(deliverable)
        depth = _deepest(campaign)
        results = {unit: self._results[unit, depth] for unit in units if (unit, depth) in self._results}
        readings = [reading for reading, _ in results.values() if reading is not None]
        proved = self._proved.get(deliverable.id)
        depths = {unit: reading.depth if reading is not None else None for unit, (reading, _) in results.items()}
        return {
            "depth": reached(deepened(depths, proved)) if units or proved is None else proved.depth,
            "loader": proved.loader if proved is not None else None,
            "format": ", ".join(sorted({unit.format for unit in units})) or (LOADED if proved is not None else None),
            "bytes_read": sum(reading.bytes_read for reading in readings),
            "files": [self._with_digest(file) for reading in readings for file in reading.files],
        }

    def compared(self, campaign: Campaign, check: str) -> dict[str, Any]:
        """What the record keeps of a check of the campaign that just ran: the fields of a `Result` beside its findings."""
        if check == "plan":
            return {"copies": self._unit_copies or {}}
        if check != "identifiers":
            return {}
        return {"copies": self._copies or {}, "parameters": parameters.varied(self._parameters or {}, campaign.control)}

    def _hashed(self, campaign: Campaign, deliverable: Deliverable) -> Sequence[FileFacts]:
        files = campaign.files_of(deliverable)
        if self._digest:
            self.digests(dict.fromkeys(files.values(), (SHA256,)))  # the check itself says what cannot be read
        return [FileFacts(path, entry.size, digest) for path, entry in files.items()
                if (digest := self._known(entry).get(SHA256)) is not None]

    def _with_digest(self, file: FileFacts) -> FileFacts:
        entry = self._inventory.resolve(file.path)
        if file.sha256 is not None or entry is None:
            return file
        return dataclasses.replace(file, sha256=self._known(entry).get(SHA256))

    def _remember(self, unit: Unit, reading: Reading) -> None:
        """Keep the digests that a reload took in the same pass; the answer may name no file but those of its unit."""
        for file in reading.files:
            entry = self._inventory.resolve(file.path) if file.path in unit.files else None
            if entry is not None and file.sha256 is not None and _HEX.fullmatch(file.sha256):
                self._digests.setdefault(_file(entry), {}).setdefault(SHA256, file.sha256)

    def _base_files(self, campaign: Campaign, deliverable: Deliverable) -> BaseFiles | None:
        is_adapter = bases.has_base(campaign, deliverable) and deliverable.merged_from is None
        found = self.base(campaign, deliverable) if is_adapter else None
        return found.files if isinstance(found, Found) else None

    def _job(self, campaign: Campaign, units: Sequence[Unit], depth: Depth, base: BaseFiles | None,
             declared: Mapping[str, str], more: Sequence[str] = ()) -> Job:
        specs, digest = [], False
        for path in dict.fromkeys([*(path for unit in units for path in (*unit.files, *unit.beside)), *more]):
            entry = self._inventory.resolve(path)
            if entry is not None and entry.kind == FILE:
                specs.append(FileSpec(path, entry.path, entry.device, entry.inode, entry.size, entry.mtime_ns))
                wanted = self._digest or SHA256 in self.declarations(campaign).algorithms.get(entry.path, ())
                digest = digest or (wanted and SHA256 not in self._known(entry))
        return Job(self._inventory.root, units, specs, depth, digest, base, tensor_digests=declared)


def _file(entry: Entry) -> _File:
    return (entry.device, entry.inode) if entry.inode else entry.path


def _declared_beside(campaign: Campaign, deliverable: Deliverable) -> Mapping[str, str]:
    """The digests of tensors that another deliverable at the same place declares."""
    place = campaign.target(deliverable)
    return next((other.tensor_digests for other in campaign.deliverables
                 if other.tensor_digests and campaign.target(other) == place), {})


def _deepest(campaign: Campaign) -> Depth:
    """How deep a reload goes: as deep as our readers can, unless less is asked."""
    return min(campaign.asked.max_depth or Depth.PROBE, Depth.MODEL)


def _holds_tensors(path: str) -> bool:
    return path.endswith(".safetensors")


def reached(depths: Mapping[Unit, Depth | None]) -> Depth | None:
    """How deep the reload of a deliverable went, None when some part of it was not read.

    The part that lags behind what its format allows decides. When none does it is the deepest: the optimizer beside a model
    that was rebuilt has no model of its own to rebuild.
    """
    known = [depth for depth in depths.values() if depth is not None]
    if len(known) < len(depths) or not known:
        return None
    lagging = [depth for unit, depth in depths.items() if depth is not None and depth < formats()[unit.format].depth]
    return min(lagging) if lagging else max(known)
