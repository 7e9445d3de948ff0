"""What the fresh process may open: the files of its job, the Python installation, its own folder, and little else."""

from __future__ import annotations

import dataclasses
import functools
import glob
import importlib.util
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from . import landlock
from .protocol import Job

# What libraries look at wherever they run: facts about the machine without a secret in them, and their own settings.
_LOOKED_AT = (
    "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/vmstat", "/proc/loadavg", "/proc/version", "/proc/uptime",
    "/proc/filesystems", "/proc/sys/vm", "/proc/sys/kernel", "/proc/sys/crypto", "/sys/devices/system", "/sys/fs/cgroup",
    "/sys/kernel/mm", "/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom",
    "/etc/localtime", "/etc/timezone", "/etc/locale.alias", "/etc/os-release", "/etc/mime.types", "/etc/nsswitch.conf",
    "/etc/ssl/openssl.cnf", "/etc/ssl/certs", "/etc/ssl/cert.pem", "/etc/pki/tls/openssl.cnf", "/etc/pki/tls/certs",
    "/etc/pki/ca-trust/extracted", "/etc/crypto-policies", "/usr/share", "/usr/lib/ssl",
)
_WRITTEN = "/dev/null"
_SHARED_LIBRARIES = ("/lib", "/lib32", "/lib64", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/local/lib", "/usr/local/lib64",
                     "/nix/store", "/gnu/store")
_LOADER = ("/etc/ld.so.cache", "/etc/ld.so.preload", "/etc/ld.so.conf", "/etc/ld.so.conf.d")
_PARTS_OF_PREFIX = ("lib", "lib32", "lib64", "libexec", "share", "etc", "ssl")
_SITE = ("site-packages", "dist-packages")
_MAPPED = re.compile(r"^\S+ \S+ \S+ \S+ \S+ +(/.*\.so(?:\.[0-9.]*)?)$")


@dataclasses.dataclass(frozen=True)
class Reach:
    """Paths that may be opened, absolute and free of links but for those of ``files``, which are as the job names them.

    ``files`` are regular files that may be read, ``folders`` may be read with all that is in them (one may also be a file),
    ``listed`` are folders of which the names may be listed, ``scratch`` is the folder in which everything is allowed.
    """

    files: frozenset[str]
    folders: Sequence[str]
    listed: Sequence[str]
    scratch: str

    def reads(self, path: str) -> bool:
        """Whether an absolute path may be opened to be read."""
        if path in self.files or path in self.listed:
            return True
        real = os.path.realpath(path)
        return real in self._real_files or real in self.listed or _within(real, (*self.folders, self.scratch))

    def writes(self, path: str) -> bool:
        """Whether an absolute path may be opened to be written, or created."""
        real = os.path.realpath(path)
        return real == _WRITTEN or _within(real, [self.scratch])

    @functools.cached_property
    def _real_files(self) -> frozenset[str]:
        return frozenset(os.path.realpath(file) for file in self.files)

    def rules(self) -> Iterator[tuple[str, int, bool]]:
        """The same for `landlock.restrict`."""
        for folder in self.folders:
            yield folder, landlock.READ, True
        for folder in self.listed:
            yield folder, landlock.READ_FOLDER, False
        for file in self.files:
            yield file, landlock.READ_FILE, False
        yield _WRITTEN, landlock.READ | landlock.WRITE_FILE, False
        yield self.scratch, landlock.EVERYTHING, False


def of(job: Job, scratch: str, modules: tuple[str, ...]) -> Reach:
    """What this process may open when it reads ``job`` with the help of ``modules``, and its folder is ``scratch``."""
    sources = [(job.root, job.files), *([(job.base.root, job.base.files)] if job.base is not None else [])]
    files = frozenset(os.path.join(root, file.target) for root, specs in sources for file in specs)
    listed = [os.path.realpath(os.path.join(job.root, unit.path)) for unit in job.units if unit.is_folder]
    own = (os.path.realpath("/proc/self"), os.path.realpath(os.path.dirname(scratch)))
    folders = [*(place for place in machine(modules) if not _within(job.root, [place])), *_reviewers(job), *own]
    return Reach(files, folders, listed, os.path.realpath(scratch))


def _reviewers(job: Job) -> Iterator[str]:
    """Where the reviewer's loader lies and what it imports beside it, without the campaign, which may lie there too."""
    code = job.proof.loader.rpartition(":")[0] if job.proof is not None and job.proof.loader is not None else ""
    for place in [code] if os.path.isabs(code) else _places(code.partition(".")[0]) if code else ():
        folder = os.path.dirname(os.path.realpath(place))
        beside = [folder] if not _within(job.root, [folder]) else (entry.path for entry in os.scandir(folder))
        yield from (path for path in beside if not _within(job.root, [path]))


@functools.lru_cache
def machine(modules: tuple[str, ...]) -> Sequence[str]:
    """The part that is the same for every job that needs ``modules``, without links; worked out once.

    To be called where they are loaded, as far as they ever are: that tells where the installation lies. A process that
    forks children calls it before, and they need not.
    """
    real = {os.path.realpath(place) for place in (*installation(modules), *_LOOKED_AT) if os.path.isabs(place)}
    return _outermost(sorted(real - {"/"}))


def installation(modules: Iterable[str]) -> Iterator[str]:
    """The folders of the Python that runs and of the system's libraries: what is loaded, or is going to be.

    A place on the module path counts where packages are installed; of others, like the folder that pytest was started in,
    only the packages that are needed.
    """
    prefixes = {sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix}
    known = [*(os.path.join(prefix, part) for prefix in prefixes for part in _PARTS_OF_PREFIX), os.path.dirname(os.__file__),
             *(entry for entry in sys.path if _holds_installed(entry)),
             *os.environ.get("LD_LIBRARY_PATH", "").split(":"), *_SHARED_LIBRARIES, *_LOADER, *_loader_folders()]
    yield from known
    usual = tuple(folder.rstrip("/") + "/" for folder in known if os.path.isabs(folder))
    names = {name.partition(".")[0] for name in (*modules, __name__, *list(sys.modules))}
    for place in (*(place for name in names for place in _places(name)), *_mapped()):
        if not place.startswith(usual):
            yield place


def _holds_installed(entry: str) -> bool:
    name = os.path.basename(entry)
    return name in _SITE or name == "lib-dynload" or bool(glob.glob(os.path.join(glob.escape(entry), "*.dist-info")))


def _places(name: str) -> Iterator[str]:
    """Where the top-level module of that name lies: its folder when it is a package, else its file."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):  # also what a module without a proper specification raises
        return
    if spec is not None and spec.submodule_search_locations is not None:
        yield from map(os.fspath, spec.submodule_search_locations)  # an editable install may give paths of pathlib
    elif spec is not None and spec.has_location and spec.origin:
        yield spec.origin


def _loader_folders() -> Iterator[str]:
    """Where the system's loader looks for libraries beside the usual places (ldconfig(8))."""
    for file in ("/etc/ld.so.conf", *glob.glob("/etc/ld.so.conf.d/*.conf")):
        try:
            yield from (line for line in Path(file).read_text().split("\n") if line.startswith("/"))
        except (OSError, ValueError):
            continue


def _mapped() -> Iterator[str]:
    """The folders of the libraries that this process has mapped (proc(5))."""
    try:
        lines = Path("/proc/self/maps").read_text(errors="surrogateescape").split("\n")
    except OSError:
        return
    for line in lines:
        if (found := _MAPPED.match(line)) is not None:
            yield os.path.dirname(found[1])


def _outermost(folders: Sequence[str]) -> Sequence[str]:
    """Sorted folders without those that lie in another one of them."""
    kept: list[str] = []
    for folder in folders:
        if not _within(folder, kept):
            kept.append(folder)
    return kept


def _within(path: str, folders: Iterable[str]) -> bool:
    return any(path == folder or path.startswith(folder.rstrip("/") + "/") for folder in folders)
