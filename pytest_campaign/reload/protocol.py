"""What the two sides of a reload say to each other. Imports nothing heavy: both sides use it."""

from __future__ import annotations

import dataclasses
import enum
import json
from collections.abc import Mapping, Sequence

from ..formats.base import Depth, Reading, Unit


@dataclasses.dataclass(frozen=True)
class FileSpec:
    """One file that a job may open, as the file table knows it.

    ``path`` is how the format calls it, ``target`` what is opened (the same, or what a link inside the
    campaign leads to), both relative to the campaign directory. The other fields identify the file: whatever
    differs when it is opened means that it changed.
    """

    path: str
    target: str
    device: int
    inode: int
    size: int
    mtime_ns: int


@dataclasses.dataclass(frozen=True)
class BaseFiles:
    """The base model that the adapters of a job belong to, where it is at hand.

    ``name`` is what a message calls it. ``root`` is the directory under which its files lie (absolute); each file's ``path``
    is relative to the model folder (``config.json``, ``model.safetensors``), its ``target`` relative to ``root`` and free
    of links (in a Hugging Face cache: the blob). Only its configuration and the headers of its weights are read.
    """

    name: str
    root: str
    files: Sequence[FileSpec]


@dataclasses.dataclass(frozen=True)
class Table:
    """Which columns of a table of records are asked for, by what the rules do with them.

    ``key`` identifies a row, ``value`` is what was predicted, ``truncated`` says that an input was cut short, ``files`` are names
    of files. ``as_text``: every column of numbers and texts, as a CSV file would have it, whatever else is asked for.
    """

    key: tuple[str, ...] = ()
    value: str | None = None
    truncated: str | None = None
    files: tuple[str, ...] = ()
    as_text: bool = False


LOADED = "reviewer's loader"  # the format of the unit that stands for the whole deliverable


@dataclasses.dataclass(frozen=True)
class Proof:
    """What a job is to do with a model that has its values.

    ``loader`` is the reviewer's own, ``module:function`` or ``/path/file.py:function``; without one the library of the format
    builds the model. ``path`` is what the loader is called with: the file or folder of the deliverable (absolute). ``probe`` is
    the file, one of the job's, with the input that the model is given.
    """

    path: str
    loader: str | None = None
    probe: str | None = None


@dataclasses.dataclass(frozen=True)
class Job:
    """One deliverable to reload: its units, the files that may be opened, and how much is wanted.

    ``base`` is the base model of its adapters, None when they have none or it is not at hand. With ``table`` the only unit is no
    checkpoint but a Parquet file, of which the rows are wanted. ``tensor_digests`` are those that were declared for tensors, by
    name. With ``proof`` the only unit is a model that is built, and ``depth`` is `Depth.HEADER`: what it is built from has been
    read before.
    """

    root: str
    units: Sequence[Unit]
    files: Sequence[FileSpec]
    depth: Depth = Depth.TENSORS
    digest: bool = False
    base: BaseFiles | None = None
    table: Table | None = None
    tensor_digests: Mapping[str, str] = dataclasses.field(default_factory=dict)
    proof: Proof | None = None


@dataclasses.dataclass(frozen=True)
class Limits:
    """``timeout``: seconds without progress; ``memory``: bytes above what the imports need; ``threads``: readers.

    ``layers`` of isolation (see `confinement`) are put into force; whoever runs the jobs fills them in.
    ``asked``: the memory is what somebody asked for, and not lowered for a job of small files.
    """

    timeout: float
    memory: int
    threads: int
    layers: Sequence[str] = ()
    asked: bool = False


class DeathKind(enum.StrEnum):
    """Why a unit has no reading. The first four lie in the files, the others in the checking machine."""

    EXCEPTION = "exception"  # the reader or the library raised
    CRASHED = "crashed"  # SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP while it read the files
    CHANGED = "changed"  # the file is not, or no longer, the one of the file table
    OUTSIDE = "outside"  # for want of a file outside of what the job may read
    TIMEOUT = "timeout"
    MEMORY = "memory"
    KILLED = "killed"  # SIGKILL, SIGTERM ... that we did not send
    UNREADABLE = "unreadable"  # the operating system refused to open or read it
    NO_ANSWER = "no-answer"  # ended without an answer, or with one that is no reading
    NO_SERVER = "no-server"  # the fresh process could not be started, or a library is missing in it


@dataclasses.dataclass(frozen=True)
class Death:
    """How a unit's reading ended instead of with an answer; ``detail`` has the number, the signal, the text."""

    kind: DeathKind
    detail: str
    path: str = ""


@dataclasses.dataclass(frozen=True)
class Answer:
    """The readings that arrived, one per unit in the job's order, and the deaths of the others.

    Exactly one of the two is not None for each unit. ``log`` is the bounded end of what the child printed.
    """

    readings: Sequence[Reading | None]
    deaths: Sequence[Death | None]
    seconds: float
    log: str = ""


@dataclasses.dataclass(frozen=True)
class Progress:
    """Where a running job is: the unit's path, bytes done of it, and bytes of it in all."""

    path: str
    done: int
    total: int


@dataclasses.dataclass(frozen=True)
class Isolation:
    """What separates the reload from this process and this machine; ``missing`` are layers that could not be had, and why."""

    level: str
    layers: Sequence[str]
    missing: Mapping[str, str]


def encode_job(job: Job, limits: Limits) -> bytes:
    """A job and its limits as ASCII JSON, which also carries names that are no UTF-8 (as surrogate escapes)."""
    return json.dumps({"job": dataclasses.asdict(job), "limits": dataclasses.asdict(limits)}).encode("ascii")


def decode_job(data: bytes) -> tuple[Job, Limits]:
    """What `encode_job` wrote."""
    value = json.loads(data)
    job = value["job"]
    base, table = job["base"], job["table"]
    return (
        Job(
            root=job["root"],
            units=[Unit.from_json(unit) for unit in job["units"]],
            files=[FileSpec(**file) for file in job["files"]],
            depth=Depth(job["depth"]),
            digest=job["digest"],
            base=None if base is None else BaseFiles(base["name"], base["root"], [FileSpec(**file) for file in base["files"]]),
            table=None if table is None else Table(**{**table, "key": tuple(table["key"]), "files": tuple(table["files"])}),
            tensor_digests=job["tensor_digests"],
            proof=None if job["proof"] is None else Proof(**job["proof"]),
        ),
        Limits(**value["limits"]),
    )
