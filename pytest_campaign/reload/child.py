"""What happens in the fresh process: confine it, read the units of one job, say what was learned.

The child writes one line of JSON at a time: ``{"ready": true}`` when it is confined, ``{"progress": n}`` while it
reads (n bytes of the unit done so far), and for each unit in turn ``{"reading": …}`` or ``{"death": …}``. Of a table it
first writes ``{"rows": "…"}``, some JSON Lines at a time. It ends with its first death: after a failed reading the state of
the process is not known.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import errno
import importlib
import io
import json
import os
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, BinaryIO, NoReturn, cast

from ..formats import formats
from ..formats.base import BaseSource, Depth, Reading, Source, Unit, to_json
from ..inventory import Changed, identity, open_file
from . import confinement, limits, outside, parquet_rows, reach
from .protocol import LOADED, Death, DeathKind, FileSpec, Job, Limits, decode_job

_LIBRARIES = ("torch", "safetensors")
_PROGRESS_SECONDS = 0.1
_LONGEST_TEXT = 500
_RESERVE = 4 << 20  # bytes of address space, which cost no memory
_PR_SET_PDEATHSIG = 1  # prctl(2)
_GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)  # the table knew a regular file there


def preload() -> str | None:
    """Import what reading needs; why that is not possible, or None."""
    name = ""
    try:
        for name in _LIBRARIES:
            importlib.import_module(name)
        name = "a format module"
        formats()
    except Exception as error:  # a broken library can raise anything
        return f"{name} could not be imported: {_text(error)}"
    return None


def modules_for(job: Job) -> Sequence[str]:
    """The modules of frameworks that the units of a job need to be read as deep as it asks."""
    if job.table is not None:
        return parquet_rows.MODULES
    known = [formats()[unit.format] for unit in job.units if unit.format in formats()]
    wanted = job.depth >= Depth.MODEL or job.proof is not None
    return list(dict.fromkeys(name for form in known if wanted for name in form.preload))


def needed_by(job: Job) -> tuple[str, ...]:
    """All modules that are needed for a job, beside our own."""
    return (*_LIBRARIES, *modules_for(job))


def main(job_descriptor: int, result: int, log: int, folder: str, parent: int) -> NoReturn:
    """Run one job and end the process.

    The job is read from ``job_descriptor``, answers go to ``result``, everything printed to ``log``; ``folder``
    is for temporary files, ``parent`` the process without which this one must not go on.
    """
    os.setsid()
    _die_with(parent)
    limits.die_first()
    os.dup2(log, 1)
    os.dup2(log, 2)
    _close_others(job_descriptor, result)
    os.environ["TMPDIR"] = folder
    tempfile.tempdir = None
    channel = Channel(result)
    with os.fdopen(job_descriptor, "rb") as file:
        file.seek(0)
        job, bounds = decode_job(file.read())
    modules = modules_for(job)
    reached = reach.of(job, folder, needed_by(job))
    with _isolating(channel):
        confinement.before_imports(bounds.layers, reached)
    if (failure := preload()) is not None:
        channel.send(_death(Death(DeathKind.NO_SERVER, failure)))
        os._exit(0)
    for name in modules:  # before the limit of memory, which is for the files
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    prover = _prover(job)  # the reviewer's code too
    limits.restrict(bounds.memory)
    with _isolating(channel):
        confinement.after_imports(bounds.layers)
    watch = outside.Watch(reached)
    sys.addaudithook(watch)
    channel.send(_line({"ready": True}))
    for unit in job.units:
        if not attempt(unit, job, bounds, channel, watch, prover):
            break
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


@contextlib.contextmanager
def _isolating(channel: Channel) -> Iterator[None]:
    """End the process when a layer of isolation that is to be had cannot be put into force: it reads with all of them or not."""
    try:
        yield
    except OSError as error:
        channel.send(_death(Death(DeathKind.NO_SERVER, f"the fresh process could not be isolated: {_text(error)}")))
        os._exit(0)


def attempt(unit: Unit, job: Job, bounds: Limits, channel: Channel, watch: outside.Watch,
            prover: Callable[[Unit, Source], Reading] | None = None) -> bool:
    """Read one unit and say what came of it; whether it was a reading. ``prover`` is the reader of a job with a proof."""
    if (failure := _lacking(unit, job)) is not None:
        channel.send(_death(Death(DeathKind.NO_SERVER, failure)))
        return False
    source = JobSource(job, bounds, channel)
    watch.paths.clear()
    reserve = bytearray(_RESERVE)
    try:
        if job.table is not None:
            reading = parquet_rows.read(unit, source, job.table, lambda text: channel.send(_line({"rows": text})))
        elif prover is not None:
            reading = prover(unit, source)
        else:
            reading = _named(formats()[unit.format].read(unit, source))
            if job.tensor_digests:
                reading = _compared(reading, job.tensor_digests, source)
        source.close()
        line = _line({"reading": to_json(outside.judged(reading, unit.path, watch.paths, watch.reach))})
    except BaseException as error:  # whatever a reader or a library raises is an answer
        del reserve  # where the memory is full down to the last byte the following needs some
        traceback.clear_frames(error.__traceback__)  # gives back what filled the memory
        channel.send(_death(judge(error, bounds, watch.reach)))
        return False
    channel.send(line)
    return True


def _named(reading: Reading) -> Reading:
    """The reading with what the names of its tensors tell by themselves."""
    if not reading.layout:
        return reading
    from ..formats import tensor_names

    return tensor_names.with_wrappers(reading)


def _compared(reading: Reading, declared: Mapping[str, str], source: Source) -> Reading:
    """The reading with how its tensors compare with the digests that were declared for them."""
    from ..formats import tensor_comparison

    return dataclasses.replace(reading, comparison=tensor_comparison.compare(declared, reading, source))


def _prover(job: Job) -> Callable[[Unit, Source], Reading] | None:
    """What reads the unit of a job with a proof. The reviewer's loader, if there is one, is imported here."""
    if job.proof is None:
        return None
    from . import proving

    return proving.prover(job.proof, job.root)


def _lacking(unit: Unit, job: Job) -> str | None:
    """Why this process cannot read such a unit at all, or None."""
    if job.table is None:
        return None if unit.format in formats() or unit.format == LOADED else f"the fresh process knows no format {unit.format!r}"
    try:
        for name in parquet_rows.MODULES:
            importlib.import_module(name)
    except Exception as error:  # a broken library can raise anything
        return f"pyarrow could not be imported: {_text(error)}"
    return None


def judge(error: BaseException, bounds: Limits, reached: reach.Reach) -> Death:
    """The death that an exception stands for."""
    text = _text(error)
    if isinstance(error, _OpenError):
        kind = DeathKind.CHANGED if error.errno in _GONE else DeathKind.UNREADABLE
        return Death(kind, error.strerror or text, error.path)
    if isinstance(error, Changed):
        return Death(DeathKind.CHANGED, error.strerror or str(error), error.path if isinstance(error, _ChangedFile) else "")
    if limits.ran_out_of_memory(error):
        return Death(DeathKind.MEMORY, f"the limit of {bounds.memory / 2**20:.3g} MiB was reached: {text}")
    if (path := outside.needed(error, text, reached)) is not None:
        return Death(DeathKind.OUTSIDE, f"it cannot be loaded without {path[:_LONGEST_TEXT]}, a file or folder outside ({text})")
    if isinstance(error, OSError) and error.errno is not None:
        return Death(DeathKind.UNREADABLE, text)
    return Death(DeathKind.EXCEPTION, text)


class _OpenError(OSError):
    """The operating system did not open a file of the job."""

    def __init__(self, error: OSError, path: str) -> None:
        super().__init__(error.errno, error.strerror)
        self.path = path


class _ChangedFile(Changed):
    def __init__(self, path: str) -> None:
        super().__init__(f"{path} changed while it was checked: the file there now is another one, or was written to")
        self.path = path


class JobSource:
    """The `pytest_campaign.formats.base.Source` of one unit: files of the job only, each compared before and after."""

    def __init__(self, job: Job, bounds: Limits, channel: Channel | None) -> None:
        """With ``channel`` the work is reported there."""
        self.depth: Depth = job.depth
        self.digest = job.digest
        self.threads = bounds.threads
        self.base: BaseSource | None = None
        self.base_name = ""
        if job.base is not None:
            own = Job(job.base.root, (), job.base.files, job.depth)
            self.base, self.base_name = JobSource(own, bounds, None), job.base.name
        self._root = job.root
        self._declared = job.tensor_digests
        self._files = {file.path: file for file in job.files}
        self._opened: list[_WatchedFile] = []
        self._channel = channel
        self._lock = threading.Lock()
        self._done = 0
        self._said = 0.0

    def names(self) -> Sequence[str]:
        return list(self._files)

    def open(self, path: str) -> BinaryIO:
        spec = self._spec(path)
        try:
            descriptor = open_file(self._root, spec.target, _expected(spec))
        except Changed:
            raise _ChangedFile(path) from None
        except OSError as error:
            if error.errno == errno.EACCES and self._is_another(spec):  # no other file may be read
                raise _ChangedFile(path) from None
            raise _OpenError(error, path) from None
        file = _WatchedFile(descriptor, spec)
        self._opened.append(file)
        return cast(BinaryIO, file)

    def _is_another(self, spec: FileSpec) -> bool:
        """Whether something else lies where a file was."""
        try:
            return identity(os.lstat(os.path.join(self._root, spec.target))) != _expected(spec)
        except OSError:
            return True

    def size(self, path: str) -> int:
        return self._spec(path).size

    def exists(self, path: str) -> bool:
        return path in self._files

    def hashed(self, names: Collection[str]) -> Collection[str]:
        if not self._declared:
            return ()
        from ..formats import tensor_comparison

        return tensor_comparison.hashed(self._declared, names)

    def advance(self, count: int) -> None:
        if self._channel is None:
            return
        with self._lock:
            self._done += count
            now = time.monotonic()
            if now - self._said >= _PROGRESS_SECONDS:
                self._said = now
                self._channel.send(_line({"progress": self._done}))

    def close(self) -> None:
        """Close what is still open; raises `Changed` when a file was written to since it was opened."""
        for file in self._opened:
            file.close()
        for file in self._opened:
            if file.changed:
                raise _ChangedFile(file.spec.path)

    def _spec(self, path: str) -> FileSpec:
        try:
            return self._files[path]
        except KeyError:
            raise FileNotFoundError(f"{path} is no file of this job") from None


class _WatchedFile(io.FileIO):
    """A file that says whether it was written to while it was open."""

    def __init__(self, descriptor: int, spec: FileSpec) -> None:
        super().__init__(descriptor, "rb")
        self.spec = spec
        self.changed = False

    def close(self) -> None:
        if not self.closed:
            self.changed = identity(os.fstat(self.fileno())) != _expected(self.spec)
        super().close()


class Channel:
    """Where lines to the parent go, from any thread."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = threading.Lock()

    def send(self, line: bytes) -> None:
        rest = memoryview(line)
        with self._lock:
            while rest:
                rest = rest[os.write(self._descriptor, rest):]


def _line(message: Mapping[str, Any]) -> bytes:
    return json.dumps(message, allow_nan=False).encode("ascii") + b"\n"


def _death(death: Death) -> bytes:
    return _line({"death": {"kind": death.kind, "detail": death.detail, "path": death.path}})


def _expected(spec: FileSpec) -> tuple[int, int, int, int]:
    return spec.device, spec.inode, spec.size, spec.mtime_ns


def _text(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:
        text = "(its text cannot be shown)"
    name = type(error).__name__
    return f"{name}: {text[:_LONGEST_TEXT]}" if text else name


def _die_with(parent: int) -> None:
    """Have the kernel kill this process when its parent dies (Linux), also when that already happened."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _close_others(*kept: int) -> None:
    """Close every descriptor but the standard ones and ``kept``."""
    start = 3
    for descriptor in sorted(kept):
        os.closerange(start, descriptor)
        start = descriptor + 1
    os.closerange(start, os.sysconf("SC_OPEN_MAX"))
