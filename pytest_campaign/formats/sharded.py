"""Checkpoints in several files: shards and the index that says which tensor lies in which of them.

``save_pretrained`` writes ``<stem>-00001-of-00003.safetensors`` (or ``.bin``) and ``<stem>.safetensors.index.json``, a JSON
object with ``metadata`` and ``weight_map`` (tensor name -> file name). ``from_pretrained`` needs both keys, opens every file
that the map names, takes whatever it finds there and follows any path; it does not ask whether the map is true.
``total_size`` is not reliable where tensors share memory, hence the names themselves are compared here.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import re
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import BinaryIO

from .. import paths
from ..readers import strict_json
from ..text import number
from . import formats
from .base import HEAD, Candidate, Depth, FileFacts, Folder, Format, Holds, Pickled, Problem, ProblemKind, Reading, Source, Unit
from .file_sets import pass_over
from .streaming import exactly, together

NAME = "sharded"
LARGEST_INDEX = 1 << 26  # bytes; one of a hundred thousand tensors has about ten million
MOST_VALUES = 2_000_000  # JSON values in an index, which bounds the memory that it takes; a tensor has one
_SHOWN = 3  # names in a message
_MOST_SETS = 10  # sets of shards of which the numbers are reported
_INDEX = re.compile(r"(?P<stem>.+?)(?P<suffix>\.[A-Za-z0-9_]+)?\.index(?P<variant>\.[A-Za-z0-9_-]+)?\.json")
_SHARD = re.compile(r"(?P<stem>.+)-(?P<number>[0-9]{5})-of-(?P<count>[0-9]{5})(?P<suffix>\.[A-Za-z0-9_]+)")
_SUFFIXES = (".safetensors", ".bin", ".pt", ".pth")
_INDEXED = ("safetensors", "torch zip", "torch legacy")  # formats whose loaders find the shards by an index


@dataclasses.dataclass(frozen=True)
class Index:
    """An index: the path of the file in which each tensor is said to lie, "" where its name is no path inside the folder.

    ``refused`` are those names with the reason; ``metadata`` says whether the index has that object.
    """

    files: Mapping[str, str]
    refused: Mapping[str, str]
    metadata: bool

    @property
    def shards(self) -> Sequence[str]:
        return sorted(set(self.files.values()) - {""})


class Unusable(Exception):
    """An index that says nothing."""

    def __init__(self, observed: str, expected: str, kind: ProblemKind = ProblemKind.DAMAGED) -> None:
        super().__init__(observed)
        self.kind, self.observed, self.expected = kind, observed, expected


def parse(data: bytes, folder: str) -> Index:
    """The index that lies in ``folder``; raises `Unusable`."""
    if len(data) > LARGEST_INDEX or data.count(b",") + data.count(b"{") + data.count(b"[") > MOST_VALUES:
        raise Unusable(f"an index of more than {LARGEST_INDEX:,} bytes or {MOST_VALUES:,} values", "at most that",
                       ProblemKind.TOO_LARGE)
    try:
        content = strict_json.parse(data, most_bytes=LARGEST_INDEX)
    except strict_json.NotStrict as error:
        first = error.faults[0]
        place = f" (line {first.line:,}, column {first.column:,})" if first.line and first.column else ""
        raise Unusable(f"the index is not strict JSON: {first.message}{place}", first.expected or "strict JSON") from None
    weight_map = content.get("weight_map") if isinstance(content, dict) else None
    if not isinstance(weight_map, dict) or not all(isinstance(name, str) for name in weight_map.values()):
        raise Unusable("an index without a weight_map of file names", "weight_map: an object of file names by tensor name")
    located: dict[str, str] = {}
    refused: dict[str, str] = {}
    for name in sorted(set(weight_map.values())):
        fault = paths.fault(name) or ("it names no file" if not paths.normal(name) else None)
        if fault is None:
            located[name] = paths.join(folder, paths.normal(name))
        else:
            refused[name] = fault
    return Index({tensor: located.get(name, "") for tensor, name in weight_map.items()}, refused,
                 isinstance(content.get("metadata"), dict))


# ---- which files belong together -----------------------------------------------------------------------------


def gather(folder: Folder) -> Iterator[Unit]:
    """The sets of a folder: an index with the shards that it names, or shards that have no index."""
    taken: set[str] = set()
    for name, candidate in sorted(folder.candidates.items()):
        if match := _INDEX.fullmatch(name):
            files = _of_index(folder, candidate, match)
            if files and taken.isdisjoint(files):
                taken.update(files)
                yield Unit(NAME, files[0], tuple(files))
    sets: dict[tuple[str, str], list[str]] = {}
    for name, candidate in sorted(folder.candidates.items()):
        match = _SHARD.fullmatch(name)
        if match and candidate.path not in taken and _needs_index(candidate):
            sets.setdefault((match["stem"], match["suffix"]), []).append(candidate.path)
    for files in sets.values():
        yield Unit(NAME, files[0], tuple(files))


def _needs_index(candidate: Candidate) -> bool:
    known = formats()
    return any(known[name].recognise(candidate) for name in _INDEXED if name in known)


def _of_index(folder: Folder, candidate: Candidate, name: re.Match[str]) -> list[str]:
    """The files of the set that an index describes, the index first; none when it is no index of weights.

    Shards with the same stem that the index does not list belong to the set too, so that they can be reported. Files
    in subfolders are taken from the index as they are, present or not: what a folder holds below is not known here.
    """
    weights = name["suffix"] in _SUFFIXES
    try:
        named = parse(candidate.read(0, LARGEST_INDEX + 1), folder.path).shards
    except Unusable:
        named = ()
    if not weights and not any(path.endswith(_SUFFIXES) for path in named):
        return []
    stems = {(match["stem"], match["suffix"]) for match in map(_shard, named) if match}
    if weights:
        stems.add((name["stem"] + (name["variant"] or ""), name["suffix"]))
    here = {other.path: match for other in folder.candidates.values() if (match := _SHARD.fullmatch(other.name))}
    plain = {other.path for other in folder.candidates.values()}
    files = dict.fromkeys([candidate.path, *(path for path in named if path in plain or _below(path, folder.path))])
    files |= dict.fromkeys(path for path, match in sorted(here.items()) if (match["stem"], match["suffix"]) in stems)
    return list(files)


def _shard(path: str) -> re.Match[str] | None:
    return _SHARD.fullmatch(path.rpartition("/")[2])


def _below(path: str, folder: str) -> bool:
    return path.rpartition("/")[0] != folder


# ---- reading -------------------------------------------------------------------------------------------------


def read(unit: Unit, source: Source) -> Reading:
    """A set: each shard by the reader of its own format, then the shards against the index and against their names.

    The depth is that of the shallowest shard, and no more than `Depth.HEADER` when the set contradicts itself.
    """
    shards: Sequence[str] = unit.files
    facts: list[FileFacts] = []
    index = None
    if unit.path.endswith(".json"):
        shards = [path for path in unit.files if path != unit.path and source.exists(path)]
        facts.append(pass_over(unit.path, source))
        try:
            index = parse(_content(unit.path, source), unit.path.rpartition("/")[0])
        except Unusable as error:
            problems = [Problem(error.kind, unit.path, error.observed, error.expected)]
        else:
            problems = list(_against_files(unit, index, source))
            shards = [path for path in index.shards if source.exists(path)]
    else:
        problems = list(_without_index(unit))
    readings = read_all(shards, source)
    used = {reading.format for reading in readings.values() if reading.depth is not None}
    if len(used) > 1:
        problems.append(Problem(ProblemKind.SHARD_INDEX, unit.path, f"shards of different formats: {', '.join(sorted(used))}",
                                "one format"))
    if index is not None:
        problems += _against_names(unit.path, index, readings)
    depths = [reading.depth for reading in readings.values() if reading.depth is not None]
    whole = depths and len(depths) == len(readings)
    dtypes: collections.Counter[str] = collections.Counter()
    for reading in readings.values():
        dtypes.update(reading.dtypes)
    return Reading(
        format=NAME,
        depth=min([*depths, *([Depth.HEADER] if problems else [])]) if whole else None,
        files=[*facts, *(fact for reading in readings.values() for fact in reading.files)],
        problems=[*problems, *(problem for reading in readings.values() for problem in reading.problems)],
        tensors=sum(reading.tensors for reading in readings.values()),
        elements=sum(reading.elements for reading in readings.values()),
        dtypes=dtypes,
        bytes_read=sum(reading.bytes_read for reading in readings.values()),
        layout={name: placed for reading in readings.values() for name, placed in reading.layout.items()},
        parts=sorted({part for reading in readings.values() for part in reading.parts}),
    )


def _content(path: str, source: Source) -> bytes:
    """The bytes of an index, or enough of them to see that it is too large."""
    with source.open(path) as file:
        return exactly(file, 0, min(source.size(path), LARGEST_INDEX + 1))


def _against_files(unit: Unit, index: Index, source: Source) -> Iterator[Problem]:
    """What is wrong with the index itself and with the files that it names."""
    if not index.metadata:
        yield Problem(ProblemKind.SHARD_INDEX, unit.path, "an index without metadata, which from_pretrained reads",
                      "metadata: an object")
    for name, why in itertools.islice(index.refused.items(), 1):
        yield Problem(ProblemKind.SHARD_INDEX, unit.path, f"the index names the file {strict_json.shown(name)}: {why}",
                      "a file name in the same folder", count=len(index.refused))
    if not index.files:
        yield Problem(ProblemKind.NO_TENSORS, unit.path, "0 tensors in the weight_map", "at least one tensor")
    absent = [path for path in index.shards if not source.exists(path)]
    if absent:
        yield Problem(ProblemKind.SHARD_MISSING, unit.path,
                      f"{len(absent):,} of {len(index.shards):,} shards are absent: {_some(absent)}",
                      f"{len(index.shards):,} shards", where=_name(absent[0]), count=len(absent))
    unlisted = [path for path in unit.files if path != unit.path and path not in index.shards]
    if unlisted:
        yield Problem(ProblemKind.SHARD_INDEX, unit.path, f"shards that the index does not name: {_some(unlisted)}",
                      "no other shard of that name in the folder", where=_name(unlisted[0]), count=len(unlisted))
    yield from _numbering(unit.path, index.shards, ProblemKind.SHARD_INDEX, "the index names")


def _without_index(unit: Unit) -> Iterator[Problem]:
    """What is wrong with shards that no index goes with."""
    match = _shard(unit.path)
    index = f"{match['stem']}{match['suffix']}.index.json" if match else "an index"
    yield Problem(ProblemKind.SHARD_INDEX, unit.path,
                  f"{len(unit.files):,} shards and no index, without which they cannot be loaded", index)
    yield from _numbering(unit.path, unit.files, ProblemKind.SHARD_MISSING, "there are")


def _numbering(path: str, shards: Sequence[str], kind: ProblemKind, verb: str) -> Iterator[Problem]:
    """Shards whose own names say that others belong to them, or that they belong to different sets."""
    sets: dict[tuple[str, str], dict[str, set[int]]] = {}
    for shard in shards:
        if match := _shard(shard):
            sets.setdefault((match["stem"], match["suffix"]), {}).setdefault(match["count"], set()).add(int(match["number"]))
    for (stem, suffix), counts in itertools.islice(sets.items(), _MOST_SETS):
        if len(counts) > 1:
            said = " and ".join(f"-of-{count}" for count in sorted(counts))
            yield Problem(ProblemKind.SHARD_INDEX, path, f"{verb} shards of two sets: {stem}{said}{suffix}", "shards of one set")
        for count, numbers in counts.items():
            first = 0 if 0 in numbers else 1
            expected = range(first, first + int(count))
            beyond = sorted(number for number in numbers if number not in expected)
            lacking = list(itertools.islice((number for number in expected if number not in numbers), _SHOWN))
            names = [f"{stem}-{number:05d}-of-{count}{suffix}" for number in lacking or beyond]
            if lacking:
                there = len(numbers) - len(beyond)
                yield Problem(kind, path, f"{verb} {there:,} of {len(expected):,} shards, without {', '.join(names)} …",
                              f"{len(expected):,} shards", where=names[0], count=len(expected) - there)
            elif beyond:
                yield Problem(ProblemKind.SHARD_INDEX, path, f"{verb} {_some(names)}", f"numbers up to {len(expected):,}",
                              where=names[0], count=len(names))


def _against_names(path: str, index: Index, readings: Mapping[str, Reading]) -> Iterator[Problem]:
    """Where the index and the tensors that the shards hold contradict each other.

    Only shards whose names are all known can be compared.
    """
    held = {shard: set(reading.layout) for shard, reading in readings.items()
            if reading.depth is not None and len(reading.layout) == reading.tensors}
    holders: dict[str, list[str]] = {}
    for shard, names in held.items():
        for tensor in names:
            holders.setdefault(tensor, []).append(shard)
    absent = [name for name, shard in index.files.items() if shard in held and name not in holders]
    elsewhere = [name for name, shard in index.files.items() if shard in held and name in holders and shard not in holders[name]]
    twice = [name for name, shards in holders.items() if len(shards) > 1]
    unlisted = [name for name in holders if name not in index.files]
    for tensors, observed, expected in (
        (absent, "in the index and in no shard", "a shard that holds it"),
        (elsewhere, "in another shard than the index says", "the shard that the index names"),
        (twice, "in two shards", "one shard for each tensor"),
        (unlisted, "in a shard and not in the index", "every tensor of the shards in the index"),
    ):
        if tensors:
            first = min(tensors)
            place = index.files.get(first) or holders[first][0]
            yield Problem(ProblemKind.SHARD_INDEX, path, f"{number(len(tensors), 'tensor')} {observed} ({_name(place)})",
                          expected, where=first, count=len(tensors))


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _some(files: Sequence[str]) -> str:
    more = f" and {len(files) - _SHOWN:,} more" if len(files) > _SHOWN else ""
    return ", ".join(map(_name, files[:_SHOWN])) + more


# ---- the shards ----------------------------------------------------------------------------------------------


def read_all(shards: Sequence[str], source: Source) -> Mapping[str, Reading]:
    """The reading of each file by the format that recognises it, several at a time where their formats allow it.

    The digest of one keeps one processor busy.
    """
    found = {path: _format(path, source) for path in shards}
    todo = collections.deque(shards)
    readings: dict[str, Reading] = {}
    concurrent = all(form is None or form.concurrent for form in found.values())
    threads = min(source.threads, len(shards)) if concurrent else 1
    share = _Share(source, source.threads // threads if threads > 1 else source.threads)

    def work() -> None:
        try:
            while True:
                try:
                    path = todo.popleft()
                except IndexError:
                    return
                form = found[path]
                readings[path] = form.read(Unit(form.name, path, (path,)), share) if form else _unknown(path, share)
        except _Stopped:
            return
        except BaseException:
            share.stop()
            raise

    try:
        together(work, threads)
    finally:
        share.stop()
    return {path: readings[path] for path in shards}


def _format(path: str, source: Source) -> Format | None:
    """The format of a shard by its content."""
    size = source.size(path)
    with source.open(path) as file:
        def look(offset: int, length: int) -> bytes:
            return exactly(file, offset, max(0, min(length, size - offset)))

        candidate = Candidate(path, size, look(0, HEAD), look)
        return next((form for form in formats().values() if form.recognise(candidate)), None)


def _unknown(path: str, source: Source) -> Reading:
    problem = Problem(ProblemKind.DAMAGED, path, "a file of no format that is known here", "safetensors or a torch file")
    return Reading(NAME, None, [pass_over(path, source)], [problem])


class _Share:
    """A source for one of several threads, which ends the others' reading when one fails."""

    def __init__(self, source: Source, threads: int) -> None:
        self.depth = source.depth
        self.digest = source.digest
        self.threads = threads
        self.base = source.base
        self.base_name = source.base_name
        self._source = source
        self._lock = threading.Lock()
        self._stopped = False

    def stop(self) -> None:
        self._stopped = True

    def open(self, path: str) -> BinaryIO:
        return self._source.open(path)

    def size(self, path: str) -> int:
        return self._source.size(path)

    def exists(self, path: str) -> bool:
        return self._source.exists(path)

    def hashed(self, names: Collection[str]) -> Collection[str]:
        return self._source.hashed(names)

    def advance(self, count: int) -> None:
        if self._stopped:
            raise _Stopped
        with self._lock:
            self._source.advance(count)


class _Stopped(Exception):
    """Another thread has failed; its error is the one that counts."""


FORMAT = Format(
    NAME, Depth.TENSORS, read, gather=gather,
    aliases=("safetensors", "pytorch", "torch", "diffusers"), pickled=Pickled.BY_NAME, holds=Holds.WEIGHTS)
