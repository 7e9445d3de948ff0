"""Checkpoints of TensorFlow: ``<prefix>.index``, ``<prefix>.data-00000-of-00001`` and, beside them, a text file ``checkpoint``.

``checkpoint`` names the prefix that is loaded; an absolute path in it is followed, and leads nowhere on another machine. What the
index says of its data files is compared with them (tensorflow/python/checkpoint and core/util/tensor_bundle, TensorFlow 2.21).
"""

from __future__ import annotations

import collections
import math
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import BinaryIO

from .. import paths
from .base import Candidate, Depth, FileFacts, Folder, Format, Problem, ProblemKind, Reading, Source, Unit
from .nul_tail import nul_tail, row_of
from .streaming import Segment, exactly, never_written, non_finite, scan
from .tensorflow_index import MAGIC, Index, parse
from .zip_archive import reader

NAME = "TensorFlow checkpoint"
STATE = "checkpoint"
_LARGEST_STATE = 1 << 20
_DATA = re.compile(r"(?P<prefix>.+)\.data-(?P<number>[0-9]{5})-of-(?P<count>[0-9]{5})")
_INDEX = ".index"
_LINE = re.compile(r'^model_checkpoint_path:\s*"((?:[^"\\\n]|\\.)*)"', re.MULTILINE)
_WINDOWS = re.compile(r"[A-Za-z]:[\\/]")


def gather(folder: Folder) -> Iterator[Unit]:
    """The checkpoints of a folder together: indices by their magic number, the files named with them, and ``checkpoint``."""
    data = {name: match["prefix"] for name in folder.candidates if (match := _DATA.fullmatch(name))}
    prefixes = {name.removesuffix(_INDEX) for name, candidate in folder.candidates.items() if name.endswith(_INDEX)
                and (name.removesuffix(_INDEX) in data.values() or _is_index(candidate))}
    state = folder.candidates.get(STATE)
    named = state is not None and _LINE.match(state.head.decode("utf-8", "replace")) is not None
    if not prefixes and not named:
        return
    files = [folder.candidates[prefix + _INDEX].path for prefix in sorted(prefixes)]
    files += [folder.candidates[name].path for name in sorted(data)]
    yield Unit(NAME, folder.path, (*files, *((state.path,) if state is not None and named else ())))


def _is_index(candidate: Candidate) -> bool:
    return candidate.size >= len(MAGIC) and candidate.read(candidate.size - len(MAGIC), len(MAGIC)) == MAGIC


def read(unit: Unit, source: Source) -> Reading:
    """Indices, data files and ``checkpoint`` of one folder."""
    names = {posixpath.basename(path): path for path in unit.files}
    work = _Work(source)
    problems: list[Problem] = []
    if STATE in names:
        problems += _state(unit, names, source)
        work.pass_over(names[STATE])
    shards: dict[str, dict[int, str]] = {}
    counts: dict[str, set[int]] = {}
    for name, path in names.items():
        if (match := _DATA.fullmatch(name)) is not None:
            shards.setdefault(match["prefix"], {})[int(match["number"])] = path
            counts.setdefault(match["prefix"], set()).add(int(match["count"]))
    prefixes = {name.removesuffix(_INDEX) for name in names if name.endswith(_INDEX)}
    for prefix in sorted(prefixes | shards.keys()):
        stem = paths.join(unit.path, prefix)
        index = None
        if prefix in prefixes:
            index, found = _index(stem + _INDEX, source)
            problems += found
            work.pass_over(stem + _INDEX)
        else:
            observed = f"{prefix}{_INDEX} is absent or empty, its data are here"
            problems.append(Problem(ProblemKind.FILE_MISSING, stem + _INDEX, observed, "the index"))
        problems += _complete(stem, index, shards.get(prefix, {}), counts.get(prefix, set()))
        for number, path in shards.get(prefix, {}).items():
            problems += work.shard(path, number, index)
    return work.reading(problems)


def _state(unit: Unit, names: Mapping[str, str], source: Source) -> Iterator[Problem]:
    """Whether ``checkpoint`` names a checkpoint that is here. That it does so by an absolute path is for others to judge."""
    path = names[STATE]
    with source.open(path) as file:
        text = exactly(file, 0, min(source.size(path), _LARGEST_STATE)).decode("utf-8", "replace")
    match = _LINE.search(text)
    if match is None:
        yield Problem(ProblemKind.CONFIGURATION, path, "it names no checkpoint", 'model_checkpoint_path: "…"')
        return
    written = re.sub(r"\\(.)", r"\1", match[1])
    absolute = written.startswith("/") or _WINDOWS.match(written) is not None
    prefix = re.split(r"[\\/]", written)[-1] if absolute else paths.normal(written)
    if prefix + _INDEX not in names and "/" not in prefix:
        yield Problem(ProblemKind.FILE_MISSING, path,
                      f"it names {written[:200]}, and {prefix[:200]}{_INDEX} is not in the folder",
                      f"{prefix[:200]}{_INDEX} and its data files", "model_checkpoint_path")


def _index(path: str, source: Source) -> tuple[Index | None, list[Problem]]:
    size = source.size(path)
    with source.open(path) as file:
        read = reader(file)
        if size < len(MAGIC) or read(size - len(MAGIC), len(MAGIC)) != MAGIC:
            return None, [Problem(ProblemKind.TRUNCATED, path, f"{size:,} bytes that do not end with the footer of a table",
                                  "the footer with its magic number")]
        return parse(read, size), []


def _complete(stem: str, index: Index | None, shards: Mapping[int, str], counts: set[int]) -> Iterator[Problem]:
    """Whether every data file is there."""
    if len(counts) > 1:
        numbers = " and of ".join(map(str, sorted(counts)))
        yield Problem(ProblemKind.SHARD_INDEX, min(shards.values()), f"data files of {numbers} parts",
                      "the data files of one save")
        return
    count = index.shards if index is not None else next(iter(counts), 0)
    if index is not None and counts and counts != {index.shards}:
        yield Problem(ProblemKind.SHARD_INDEX, stem + _INDEX, f"the index says {index.shards} data files",
                      f"{next(iter(counts))}, as their names say")
        return
    absent = [f"{stem}.data-{number:05}-of-{count:05}" for number in range(min(count, 100_000)) if number not in shards]
    if absent or not count:
        path = absent[0] if absent else f"{stem}.data-00000-of-00001"
        observed = f"{len(absent)} of {count} data files are absent or empty" if count else "no data file is here"
        yield Problem(ProblemKind.SHARD_MISSING, path, observed, posixpath.basename(path), count=max(1, len(absent)))


class _Work:
    """What was read so far."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._facts: list[FileFacts] = []
        self._dtypes: collections.Counter[str] = collections.Counter()
        self._elements = self._tensors = self._bytes = 0
        self._clear = True  # every tensor's place is known

    def pass_over(self, path: str) -> None:
        size = self._source.size(path)
        with self._source.open(path) as file:
            self._fact(path, file, size, ())

    def _fact(self, path: str, file: BinaryIO, size: int, segments: Sequence[Segment]) -> Iterator[Problem]:
        deep = self._source.depth >= Depth.TENSORS
        sha256 = None
        found: Iterator[Problem] = iter(())
        if (segments and deep) or self._source.digest:
            result = scan(file, size, segments if deep else (), self._source)
            sha256 = result.sha256
            if deep:
                self._bytes += sum(segment.length for segment in segments)
                tested = [(s.label, seen) for s, seen in zip(segments, result.segments, strict=True)]
                found = iter([*non_finite(path, tested), *nul_tail(path, file, segments, result.segments)])
        else:
            self._source.advance(size)
        self._facts.append(FileFacts(path, size, sha256))
        return found

    def shard(self, path: str, number: int, index: Index | None) -> Iterator[Problem]:
        """One data file against the index, None when that cannot be followed."""
        size = self._source.size(path)
        entries = [entry for entry in index.entries if entry.shard == number] if index is not None else []
        self._clear &= index is not None
        self._tensors += len(entries)
        self._elements += sum(math.prod(entry.shape) for entry in entries)
        self._dtypes.update(entry.dtype or "other" for entry in entries)
        needed = max((entry.offset + entry.size for entry in entries), default=0)
        if needed > size:
            cut = [entry.name for entry in entries if entry.offset + entry.size > size]
            yield Problem(ProblemKind.TRUNCATED, path,
                          f"{size:,} bytes ({needed - size:,} missing; {len(cut):,} of {len(entries):,} tensors cut)",
                          f"{needed:,} bytes, as the index says", cut[0], len(cut))
        segments: list[Segment] = []
        for entry in sorted(entries, key=lambda entry: entry.offset):
            if entry.offset + entry.size <= size and (not segments or entry.offset >= segments[-1].end):
                segments.append(Segment(entry.offset, entry.size, entry.dtype or None, label=entry.name,
                                        row=row_of(entry.shape, entry.size // max(1, math.prod(entry.shape)))))
        with self._source.open(path) as file:
            yield from never_written(path, file, size, segments)
            yield from self._fact(path, file, size, segments)

    def reading(self, problems: Sequence[Problem]) -> Reading:
        """The answer. Where an index cannot be followed, the files are complete by their names only."""
        deep = self._source.depth >= Depth.TENSORS and self._clear and self._tensors
        return Reading(NAME, Depth.TENSORS if deep else Depth.HEADER, self._facts, problems, self._tensors, self._elements,
                       self._dtypes, self._bytes)


FORMAT = Format(NAME, Depth.HEADER, read, gather=gather, aliases=("tensorflow", "tf"))
