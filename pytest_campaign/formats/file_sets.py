"""One reading out of those of many files."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from .base import FileFacts, Problem, ProblemKind, Reading, Source
from .streaming import digest

_SAID_ONCE = frozenset({ProblemKind.FRAMEWORK_CLASS, ProblemKind.NO_CHECKSUM, ProblemKind.PICKLE_PROTOCOL})


def combined(name: str, readings: Iterable[Reading], problems: Sequence[Problem], facts: Sequence[FileFacts] = ()) -> Reading:
    """What is known of a set whose files were read one by one, as format ``name``; ``problems`` are those of the set itself.

    Its depth is that of the shallowest file. That a file holds no tensor is a fault only when none of them does.
    """
    readings = list(readings)
    found = [problem for reading in readings for problem in reading.problems]
    if any(reading.tensors for reading in readings):
        found = [problem for problem in found if problem.kind is not ProblemKind.NO_TENSORS]
    depths = [reading.depth for reading in readings]
    dtypes: collections.Counter[str] = collections.Counter()
    for reading in readings:
        dtypes.update(reading.dtypes)
    return Reading(
        name,
        min((depth for depth in depths if depth is not None), default=None) if None not in depths else None,
        [*facts, *(fact for reading in readings for fact in reading.files)],
        [*problems, *once(found)],
        sum(reading.tensors for reading in readings),
        sum(reading.elements for reading in readings),
        dtypes,
        sum(reading.bytes_read for reading in readings),
    )


def once(problems: Iterable[Problem]) -> Sequence[Problem]:
    """The problems, with what many files of a set have in common said of the first of them, and counted."""
    kept: dict[object, Problem] = {}
    for problem in problems:
        key: object = (problem.kind, problem.observed) if problem.kind in _SAID_ONCE else problem
        if key in kept:
            kept[key] = dataclasses.replace(kept[key], count=kept[key].count + problem.count)
        else:
            kept[key] = problem
    return list(kept.values())


def pass_over(path: str, source: Source) -> FileFacts:
    """Count a small file of a set as done, with its digest if that is asked for."""
    size = source.size(path)
    if not source.digest:
        source.advance(size)
        return FileFacts(path, size)
    with source.open(path) as file:
        return FileFacts(path, size, digest(file, size, source))


def left_out(numbers: Iterable[int]) -> Sequence[int]:
    """The numbers that a set which counts from zero lacks below its highest."""
    there = set(numbers)
    return [number for number in range(max(there, default=-1)) if number not in there]


def stated(readings: Mapping[str, Reading], *keys: str) -> Sequence[tuple[str, object]]:
    """What the files of a set say under one chain of keys: (path, value) for those that say anything."""
    return [(path, reading.stated[keys]) for path, reading in readings.items() if reading.stated.get(keys) is not None]
