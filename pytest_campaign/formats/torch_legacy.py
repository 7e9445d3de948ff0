"""Files of ``torch.save`` before torch 1.6, still written with ``_use_new_zipfile_serialization=False``.

Five pickles follow each other: a magic number, the protocol version, facts about the writing machine, the object, and
the list of its storages' keys. Behind them comes, for each key, the number of elements as an int64 and the elements.
There are no checksums. Source: ``_legacy_save`` and ``_legacy_load`` in torch/serialization.py of torch 2.13, and
files written by it.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO

from .base import Candidate, Depth, FileFacts, Format, Holds, Pickled, Problem, ProblemKind, Reading, Source, Unit
from .optimizer_state import training_parts
from .pickle_survey import LARGEST, BadPickle, Survey, survey
from .streaming import exactly
from .torch_object import Tensor, Unloadable, check_storages, only_state, rebuild, refused_names
from .torch_values import Part, read_values
from .zip_archive import reader

NAME = "torch legacy"
_MAGIC = re.compile(
    rb"\x80[\x02-\x05](\x95.{8})?\x8a\x0a" + re.escape((0x1950A86A20F9469CFC6C).to_bytes(10, "little")) + rb"\.", re.DOTALL
)
_SMALL_PICKLE = 64  # the magic number and the protocol version, each in a pickle of its own, have at most 23 bytes
_MACHINE_LIMIT = 4096  # the pickle with the writing machine's facts has about 200 bytes
_BIG_ENDIAN = re.compile(rb"little_endian(q.|\x94)?\x89", re.DOTALL)  # the key, perhaps kept in the memo, and False
_PIECES = (1 << 20, 8 << 20, LARGEST)


class _Fault(Exception):
    """What ends a reading, as a problem."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.observed)
        self.problem = problem


@dataclasses.dataclass(frozen=True)
class _Layout:
    """What the pickles say: the object's pickle and its survey, the keys in the order of their storages, the first's place."""

    pickle: bytes
    survey: Survey
    keys: Sequence[str]
    data: int

    @property
    def size(self) -> int:
        """How long the file has to be."""
        return self.data + sum(8 + (storage.bytes or 0) for storage in self.survey.storages.values())


def recognise(candidate: Candidate) -> bool:
    """By the magic number, whatever protocol it was pickled with."""
    return _MAGIC.match(candidate.head) is not None


def read(unit: Unit, source: Source) -> Reading:
    """Structure, object and values of one file."""
    path = unit.path
    with source.open(path) as file:
        size = source.size(path)
        problems: list[Problem] = []
        parts: list[Part] = []
        tensors: Sequence[Tensor] = ()
        stated: Mapping[tuple[str, ...], Any] = {}
        state = False
        depth: Depth | None = None
        try:
            layout = _layout(file, size, path)
            parts = list(_parts(file, size, layout, path))
            depth = Depth.HEADER
            if size > layout.size:
                problems.append(
                    Problem(ProblemKind.TRAILING, path, f"{size - layout.size:,} bytes behind the last storage", "none")
                )
            named, strangers = refused_names(layout.survey.names, path)
            problems += named
            if layout.survey.modules:
                problems.append(
                    Problem(ProblemKind.UNREADABLE_KIND, path, "whole modules, pickled with their source code", "a state dict")
                )
            elif not any(problem.kind is ProblemKind.UNSAFE_GLOBAL for problem in named):
                made = rebuild(layout.pickle, layout.survey, strangers, path)
                tensors = made.tensors
                stated = made.values
                problems += [
                    *made.problems,
                    *check_storages(tensors, layout.survey, {part.key or "": part.length for part in parts}, path),
                ]
                if not any(problem.kind is ProblemKind.UNREADABLE_KIND for problem in made.problems):
                    depth = min(source.depth, Depth.TENSORS)
                    state = only_state(tensors, stated)
        except (_Fault, Unloadable) as end:
            problems.append(end.problem)
        values = read_values(file, size, parts, tensors, path, source)
    return Reading(
        NAME,
        depth,
        [FileFacts(path, size, values.sha256)],
        [*problems, *values.problems],
        len(tensors),
        sum(tensor.elements for tensor in tensors),
        collections.Counter(tensor.dtype for tensor in tensors),
        values.bytes_read,
        values.layout,
        stated=stated,
        only_state=state,
        parts=training_parts(values.layout, stated),
    )


def _layout(file: BinaryIO, size: int, path: str) -> _Layout:
    """Follow the pickles; the file is read in larger pieces until they end in one."""
    for length in _PIECES:
        data = reader(file)(0, length)
        try:
            return _follow(data, path)
        except BadPickle as error:
            if error.incomplete and length < size and length < _PIECES[-1]:
                continue
            if error.incomplete and size <= length:
                raise _Fault(
                    Problem(
                        ProblemKind.TRUNCATED,
                        path,
                        f"the file ends after {size:,} bytes, inside its pickles",
                        "five pickles and the storages",
                    )
                ) from None
            if error.incomplete:
                raise _Fault(
                    Problem(ProblemKind.TOO_LARGE, path, f"pickles of more than {length:,} bytes", f"at most {length:,} bytes")
                ) from None
            raise _Fault(Problem(ProblemKind.DAMAGED, path, str(error), "five complete pickles")) from None
    raise AssertionError("the last piece either holds the pickles or raises")


def _follow(data: bytes, path: str) -> _Layout:
    at = survey(data[:_SMALL_PICKLE]).end
    at += survey(data[at : at + _SMALL_PICKLE]).end
    machine = survey(data[at : at + _MACHINE_LIMIT])
    if _BIG_ENDIAN.search(data, at, at + machine.end):
        raise _Fault(Problem(ProblemKind.UNREADABLE_KIND, path, "values that are not little-endian", "little-endian values"))
    at += machine.end
    found = survey(data[at:])
    cuts = [-1, *sorted(found.views), found.end]
    pickle = b"".join(data[at + before + 1 : at + cut] for before, cut in itertools.pairwise(cuts))
    at += found.end
    keys = survey(data[at:])
    if machine.names or keys.names or sorted(keys.texts) != sorted(found.storages):
        raise _Fault(
            Problem(
                ProblemKind.DAMAGED,
                path,
                f"{len(keys.texts):,} storages are listed",
                f"the {len(found.storages):,} of the object, once each",
            )
        )
    return _Layout(pickle, found, keys.texts, at + keys.end)


def _parts(file: BinaryIO, size: int, layout: _Layout, path: str) -> Iterator[Part]:
    """The storages, one behind the other; each says once more how many elements it has."""
    at = layout.data
    for number, key in enumerate(layout.keys, 1):
        storage = layout.survey.storages[key]
        if storage.bytes is None:
            raise _Fault(
                Problem(ProblemKind.UNREADABLE_KIND, path, f"a storage of class {storage.storage_class}", "a class of torch")
            )
        if at + 8 + storage.bytes > size:
            raise _Fault(
                Problem(
                    ProblemKind.TRUNCATED,
                    path,
                    f"the file ends after {size:,} bytes, in storage {number:,} of {len(layout.keys):,}",
                    f"{layout.size:,} bytes ({layout.size - size:,} are missing)",
                    f"storage {key}",
                )
            )
        (count,) = struct.unpack("<q", exactly(file, at, 8))
        if count != storage.elements:
            raise _Fault(
                Problem(
                    ProblemKind.DAMAGED,
                    path,
                    f"{count:,} elements",
                    f"{storage.elements:,}, as the object says",
                    f"storage {key}",
                )
            )
        yield Part(f"storage {key}", at + 8, storage.bytes, key)
        at += 8 + storage.bytes


FORMAT = Format(NAME, Depth.TENSORS, read, recognise, aliases=("pytorch", "torch", "pt"), pickled=Pickled.YES, holds=Holds.STATE)
