"""Where the base models lie that a campaign needs: in the campaign, in a directory that the reviewer gave, in the cache.

Only these places are looked into, never a path that a checked file names, and never the network. In a Hugging Face cache
(huggingface_hub, "Manage huggingface_hub cache-system") the files of ``models--acme--tiny/snapshots/<commit>`` are links into
``blobs``, and ``refs/main`` holds the commit that the branch had. A folder made by ``hf download --local-dir`` keeps the
commit of each file in the first line of ``.cache/huggingface/download/<file>.metadata``.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import os
import posixpath
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence

from . import paths
from .bases import Read, Wanted, is_commit, is_hub_name, is_short_commit, is_weights, same_name, snapshot_of
from .hashing import sha256
from .inventory import FILE, FOLDER, Inventory, identity, open_file
from .reload.protocol import BaseFiles, FileSpec
from .text import shown

OPTION = "--campaign-base-model"
_MOST_FILES = 10_000
_DEEPEST = 3  # folders below a model's own (onnx/, 1_Pooling/ …)
_MOST_SNAPSHOTS = 1000
_LONGEST_NOTE = 4096  # bytes of refs/main or of one download's metadata
_METADATA = (".cache/huggingface/download", ".huggingface/download")  # the latter: huggingface_hub 0.23


@dataclasses.dataclass(frozen=True)
class Given:
    """A directory that was given as a place of base models, absolute; with ``name`` it is the model of that name."""

    directory: str
    name: str | None = None

    @functools.cached_property
    def cache(self) -> str | None:
        """The directory of a cache with ``models--…`` folders, when that is what was given; None for a model's directory."""
        folder = os.path.realpath(self.directory)
        if os.path.basename(folder).startswith("models--") and os.path.isdir(os.path.join(folder, "snapshots")):
            return os.path.dirname(folder)
        return next((hub for hub in (folder, os.path.join(folder, "hub")) if _is_cache(hub)), None)

    @functools.cached_property
    def identity(self) -> tuple[str | None, str | None]:
        """(name, commit) of the model as far as known: from the name given, its place in a cache, the metadata of a download."""
        cached = snapshot_of(self.directory) or snapshot_of(os.path.realpath(self.directory)) or (None, None)
        return self.name or cached[0], cached[1] or _downloaded(self.directory)


def parse(text: str, base: str) -> Given:
    """The place that ``[NAME=]DIR`` gives, DIR seen from ``base``; ValueError when there is no model and no cache.

    What exists as a whole is a directory, even when ``=`` occurs in its name.
    """
    whole = os.path.abspath(os.path.join(base, text))
    name, separator, rest = text.partition("=")
    if separator and name and not os.path.isdir(whole):
        given = Given(os.path.abspath(os.path.join(base, rest)), name)
    else:
        given = Given(whole)
    if not os.path.isdir(given.directory):
        raise ValueError(f"{given.directory} is not a directory")
    if given.cache is None and not _is_model(given.directory):
        raise ValueError(f"{given.directory} is neither the directory of a model (config.json, weights) nor a Hugging Face cache")
    return given


def hub_cache(environment: Mapping[str, str]) -> str:
    """The local Hugging Face cache, by the variables that huggingface_hub reads (its constants.py)."""
    own = environment.get("XDG_CACHE_HOME") or os.path.join(environment.get("HOME") or os.path.expanduser("~"), ".cache")
    home = environment.get("HF_HOME") or os.path.join(own, "huggingface")
    cache = environment.get("HF_HUB_CACHE") or environment.get("HUGGINGFACE_HUB_CACHE") or os.path.join(home, "hub")
    return os.path.abspath(os.path.expandvars(os.path.expanduser(cache)))


@dataclasses.dataclass(frozen=True)
class Found:
    """A base model that is at hand. ``where`` is what a message calls the place; ``inside`` its folder in the campaign."""

    files: BaseFiles
    where: str
    inside: str | None = None

    @functools.cached_property
    def by_path(self) -> Mapping[str, FileSpec]:
        return {file.path: file for file in self.files.files}


@dataclasses.dataclass(frozen=True)
class Absent:
    """A base model that is not at hand, and why."""

    reason: str


@dataclasses.dataclass(frozen=True)
class Known:
    """A commit of a model that this machine knows, and whence in words; ``sure`` when it knows no other one."""

    name: str
    commit: str
    where: str
    sure: bool = True


class Shelf:
    """The places of base models of a session. Everything is looked up and hashed once, however many deliverables ask."""

    def __init__(self, given: Sequence[Given] = (), cache: str | None = None) -> None:
        self._models = [place for place in given if place.cache is None]
        self._caches = [place.cache for place in given if place.cache is not None] + ([cache] if cache else [])
        self._found: dict[tuple[str, Wanted, bool], Found | Absent] = {}
        self._digests: dict[tuple[str, FileSpec], str] = {}

    def find(self, wanted: Wanted, inventory: Inventory, *, only: bool) -> Found | Absent:
        """Where a base lies. ``only``: the campaign needs no other base, so that an unnamed directory must be this one."""
        key = inventory.root, wanted, only
        if key not in self._found:
            self._found[key] = self._find(wanted, inventory, only)
        return self._found[key]

    def sha256(self, found: Found, file: FileSpec) -> str:
        """The digest of one file of a base, in hexadecimal; OSError when it cannot be read or has changed since."""
        key = found.files.root, file
        if key not in self._digests:
            self._digests[key] = sha256(open_spec(found, file))
        return self._digests[key]

    def known(self, text: str, revision: str | None = None) -> Known | None:
        """The commit of a model that was used on this machine; ``text`` is its name, or the path of a directory that was given.

        ``revision`` is the branch, the tag or the shortened commit by which it is named. A given directory's own commit comes
        first, then what a cache noted of that revision; without one its branch main, then its only snapshot.
        """
        named = revision.strip() if revision is not None else ""
        for place in self._models:
            name, commit = place.identity
            is_it = text in (place.directory, os.path.realpath(place.directory)) or (name is not None and same_name(name, text))
            if is_it and name is not None and commit is not None and (not is_short_commit(named) or _begins(commit, named)):
                return Known(name, commit, f"{shortened(place.directory)} is at it")
        for cache in self._caches if is_hub_name(text) else ():
            folder = _repository(cache, text)
            commits = _snapshots(folder)
            if found := _of_revision(folder, named or "main"):
                which = "the branch main" if named in ("", "main") else shown(named, 120)
                return Known(text, found, f"{which} of {folder} is at it", sure=set(commits) <= {found})
            if is_short_commit(named) and len(whole := [commit for commit in commits if _begins(commit, named)]) == 1:
                return Known(text, whole[0], f"a snapshot in {folder}")
            if named in ("", "main") and len(commits) == 1:
                return Known(text, commits[0], f"the only snapshot in {folder}")
        return None

    def _find(self, wanted: Wanted, inventory: Inventory, only: bool) -> Found | Absent:
        if wanted.folder is not None and (entry := inventory.resolve(wanted.folder)) is not None and entry.kind == FOLDER:
            return _inside(inventory, entry.path, wanted.title)
        other: str | None = None
        for place in self._candidates(wanted, only):
            commit = place.identity[1]
            if commit is None or wanted.commit is None or commit == wanted.commit:
                return self._given(place, wanted, inventory)
            other = f"{shortened(place.directory)} holds it at commit {commit}"
        if wanted.name is not None and wanted.commit is not None and is_hub_name(wanted.name):
            for cache in self._caches:
                folder = snapshot_folder(cache, wanted.name, wanted.commit)
                if os.path.isdir(folder) and (files := _listing(folder)):
                    return Found(_base_files(wanted.title, folder, files), folder)
        which = "at that commit" if wanted.commit is not None else "at an exact revision"
        return Absent(other or f"it lies neither in the campaign nor in the local cache {which}")

    def _given(self, place: Given, wanted: Wanted, inventory: Inventory) -> Found:
        """A given directory; one inside the campaign is read by its file table like everything there."""
        folder, root = os.path.realpath(place.directory), inventory.root.rstrip("/") + "/"
        if folder.startswith(root):
            return _inside(inventory, folder[len(root):], wanted.title)
        return Found(_base_files(wanted.title, place.directory, _listing(place.directory)), place.directory)

    def _candidates(self, wanted: Wanted, only: bool) -> Iterator[Given]:
        """The given directories that can be the base: first those of its name, then one that has no name."""
        nameless = []
        for place in self._models:
            name = place.name or place.identity[0]
            if name is None:
                nameless.append(place)
            elif name == wanted.label or (wanted.name is not None and same_name(name, wanted.name)):
                yield place
        by_folder = [place for place in nameless if wanted.name is not None
                     and same_name(os.path.basename(place.directory), wanted.name.rpartition("/")[2])]
        if only and len(nameless) == 1:
            yield nameless[0]
        else:
            yield from by_folder
            yield from (place for place in nameless if place not in by_folder and self._has_digest(place, wanted))

    def _has_digest(self, place: Given, wanted: Wanted) -> bool:
        """Whether a directory holds a weights file with a recorded digest."""
        found = Found(_base_files("", place.directory, _listing(place.directory)), place.directory)
        for path, digest in wanted.sha256:
            file = found.by_path.get(path)
            with contextlib.suppress(OSError):
                if file is not None and is_weights(path) and self.sha256(found, file) == digest:
                    return True
        return False


def shortened(directory: str) -> str:
    """A directory of this machine as a report may name it: by its last two names."""
    names = directory.rstrip("/").split("/")
    return f"…/{'/'.join(names[-2:])}" if directory.startswith("/") and len(names) > 3 else directory


def open_spec(found: Found, file: FileSpec) -> int:
    """A descriptor of one file of a base; OSError when it cannot be opened or has changed since it was listed."""
    return open_file(found.files.root, file.target, (file.device, file.inode, file.size, file.mtime_ns))


def downloaded_commit(inventory: Inventory, folder: str, prefix: str, read: Read) -> str | None:
    """The commit at which files of a folder of the campaign were downloaded, when the metadata of all with ``prefix`` agree."""
    lines = []
    for place in _METADATA:
        for entry in inventory.children(paths.join(folder, place)):
            name = posixpath.basename(entry.path)
            if entry.kind == FILE and name.startswith(prefix) and name.endswith(".metadata"):
                with contextlib.suppress(OSError):
                    lines.append(_line(read(entry, _LONGEST_NOTE)))
    return _agreed(lines)


def _inside(inventory: Inventory, folder: str, title: str) -> Found:
    files = [FileSpec(seen[len(folder) + 1:] if folder else seen, entry.path, entry.device, entry.inode, entry.size,
                      entry.mtime_ns) for seen, entry in itertools.islice(inventory.files(folder), _MOST_FILES)]
    return Found(BaseFiles(title, inventory.root, files), folder or ".", folder)


# ---- directories outside the campaign ------------------------------------------------------------------------


def _is_cache(folder: str) -> bool:
    with contextlib.suppress(OSError), os.scandir(folder) as listing:
        return any(item.name.startswith("models--") and item.is_dir() for item in itertools.islice(listing, _MOST_FILES))
    return False


def _is_model(folder: str) -> bool:
    with contextlib.suppress(OSError), os.scandir(folder) as listing:
        return any(item.name == "config.json" or is_weights(item.name) for item in itertools.islice(listing, _MOST_FILES))
    return False


def snapshot_folder(cache: str, name: str, commit: str) -> str:
    """Where a Hugging Face cache keeps a model at a commit."""
    return os.path.join(_repository(cache, name), "snapshots", commit)


def _repository(cache: str, name: str) -> str:
    return os.path.join(cache, "models--" + name.replace("/", "--"))


def _of_revision(repository: str, revision: str) -> str | None:
    """The commit at which a cache noted a branch or a tag: it keeps it in a file of that name in ``refs``."""
    if revision.startswith("/") or not set(revision.split("/")).isdisjoint(("", ".", "..")) or "\0" in revision:
        return None
    line = _first_line(os.path.join(repository, "refs", revision))
    return line if is_commit(line) else None


def _begins(commit: str, short: str) -> bool:
    return commit.startswith(short.lower())


def _snapshots(repository: str) -> Sequence[str]:
    with contextlib.suppress(OSError), os.scandir(os.path.join(repository, "snapshots")) as listing:
        return sorted(item.name for item in itertools.islice(listing, _MOST_SNAPSHOTS) if is_commit(item.name) and item.is_dir())
    return ()


def _listing(folder: str) -> Mapping[str, tuple[str, os.stat_result]]:
    """(real path, status) of the files of a model's directory by their path in it; links are followed, dot names left out."""
    found: dict[str, tuple[str, os.stat_result]] = {}
    waiting = [("", 0)]
    while waiting and len(found) < _MOST_FILES:
        below, depth = waiting.pop()
        with contextlib.suppress(OSError), os.scandir(os.path.join(folder, below)) as listing:
            for item in itertools.islice(listing, _MOST_FILES):
                path = posixpath.join(below, item.name)
                if item.name.startswith("."):
                    continue
                with contextlib.suppress(OSError):  # a link without its target is as good as no file
                    status = item.stat()
                    if stat.S_ISREG(status.st_mode):
                        found[path] = os.path.realpath(item.path), status
                    elif item.is_dir(follow_symlinks=False) and depth < _DEEPEST:
                        waiting.append((path, depth + 1))
    return found


def _base_files(title: str, folder: str, listed: Mapping[str, tuple[str, os.stat_result]]) -> BaseFiles:
    """The files under the lowest directory that holds them all, which in a cache is the model's folder with its blobs."""
    root = os.path.commonpath([os.path.realpath(folder), *(os.path.dirname(real) for real, _ in listed.values())])
    return BaseFiles(title, root, [FileSpec(path, os.path.relpath(real, root), *_identity(real, status))
                                   for path, (real, status) in sorted(listed.items())])


def _identity(real: str, status: os.stat_result) -> tuple[int, int, int, int]:
    device, inode, size, mtime_ns = identity(os.lstat(real) if os.name == "nt" else status)
    return device, inode, size, mtime_ns


def _downloaded(folder: str) -> str | None:
    lines = []
    for place in _METADATA:
        with contextlib.suppress(OSError), os.scandir(os.path.join(folder, place)) as listing:
            names = [item.path for item in itertools.islice(listing, _MOST_FILES) if item.name.endswith(".metadata")]
            lines += [_first_line(name) for name in names]
    return _agreed(lines)


def _first_line(path: str) -> str | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        with os.fdopen(descriptor, "rb") as file:
            return _line(file.read(_LONGEST_NOTE))
    except OSError:
        return None


def _line(data: bytes) -> str:
    return data.partition(b"\n")[0].strip().decode("ascii", "replace")


def _agreed(lines: Iterable[str | None]) -> str | None:
    """The one commit in all lines, None when they hold none or several."""
    commits = {line.lower() for line in lines if line is not None and is_commit(line)}
    return commits.pop() if len(commits) == 1 else None
