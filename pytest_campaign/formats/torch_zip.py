"""Files of ``torch.save``: a zip archive of stored members, ``<root>/data.pkl`` and one ``<root>/data/N`` per storage.

Source of the facts about the format: torch/serialization.py and caffe2/serialize/inline_container.cc of torch 2.13, and
files written by it.
"""

from __future__ import annotations

import collections
import dataclasses
import posixpath
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO

from ..text import number
from .base import Candidate, Depth, FileFacts, Format, Holds, Pickled, Problem, ProblemKind, Reading, Source, Unit
from .optimizer_state import training_parts
from .pickle_survey import LARGEST, BadPickle, Survey, survey
from .streaming import exactly
from .torch_object import Rebuilt, Tensor, Unloadable, check_storages, only_state, rebuild, refused_names
from .torch_values import Part, read_values
from .zip_archive import Archive, ArchiveFault, Member, first_member, member_names, read_archive, reader

NAME = "torch zip"
LIGHTNING = "Lightning"
PICKLE = "data.pkl"
SCRIPT_PICKLE = b"\x80\x02c__torch__"  # the object of a TorchScript archive is always of a class of its own
_LIGHTNING_KEY = b"X\x19\x00\x00\x00pytorch-lightning_version"  # a string of 25 characters
_SMALL = 4096  # a pickle of one tensor has about 200 bytes
_MOST_KNOWN = 1000
_TAIL = 22  # an end record without a comment
_LOOK_FOR_PICKLE = 8 << 20


def is_script(names: Sequence[str]) -> bool:
    """Whether the members of an archive are those of TorchScript."""
    below = [name.partition("/")[2] for name in names]
    return any(name == "constants.pkl" or name.startswith("code/") for name in below)


def is_archive(candidate: Candidate) -> bool:
    """Whether a file can be a zip archive at all, by its first and last bytes."""
    return candidate.head.startswith(b"PK\x03\x04") or candidate.read(max(0, candidate.size - _TAIL), _TAIL).startswith(
        b"PK\x05\x06"
    )


def is_lightning(candidate: Candidate) -> bool:
    """Whether a file of torch.save is a checkpoint of Lightning, by the first keys of its object."""
    _, data = first_member(candidate.head)
    return _LIGHTNING_KEY in data and _is_torch_zip(candidate)


def recognise(candidate: Candidate) -> bool:
    """By the members; by the first member when there is no directory to read, as in a file that was cut."""
    return _is_torch_zip(candidate) and not is_lightning(candidate)


def _is_torch_zip(candidate: Candidate) -> bool:
    if not is_archive(candidate):
        return False
    names = member_names(candidate.read, candidate.size)
    if names:
        below = {name.partition("/")[2] for name in names}
        return PICKLE in below and not is_script(names) and bool(below & {"version", ".data/version", "data/0", "byteorder"})
    name, data = first_member(candidate.head)
    return name.partition("/")[2] == PICKLE and not data.startswith(SCRIPT_PICKLE) and (not data or data.startswith(b"\x80"))


def read(unit: Unit, source: Source) -> Reading:
    """Structure, object and values of one file."""
    path = unit.path
    with source.open(path) as file:
        size = source.size(path)
        try:
            archive = read_archive(reader(file), size)
        except ArchiveFault as fault:
            problem = Problem(fault.kind, path, fault.observed, fault.expected, fault.where)
            if fault.kind is ProblemKind.TRUNCATED:
                problem = dataclasses.replace(problem, expected=_whole(file, size) or fault.expected)
            return _reading(path, size, None, [problem], read_values(file, size, (), (), path, source).sha256)
        return _read_archive(path, size, file, archive, source)


def _read_archive(path: str, size: int, file: BinaryIO, archive: Archive, source: Source) -> Reading:
    found = contents(file, archive, path)
    deep = source.depth >= Depth.TENSORS and found.readable
    values = read_values(file, size, found.parts, found.sound, path, source)
    reading = _reading(path, size, Depth.TENSORS if deep else Depth.HEADER, [*found.problems, *values.problems], values.sha256,
                       found.tensors or ())
    return dataclasses.replace(
        reading,
        bytes_read=values.bytes_read,
        layout=values.layout,
        stated=found.stated,
        only_state=found.readable and only_state(found.tensors or (), found.stated),
        parts=training_parts(values.layout, found.stated),
    )


@dataclasses.dataclass(frozen=True)
class Contents:
    """What an archive holds, before its values are read: its members as parts of the file, and its object.

    ``tensors`` are None if the object is not to be had; ``stated`` are its `plain_values`.
    """

    parts: Sequence[Part]
    tensors: Sequence[Tensor] | None
    stated: Mapping[tuple[str, ...], Any]
    problems: Sequence[Problem]

    @property
    def sound(self) -> Sequence[Tensor]:
        """The tensors whose values are really there."""
        lengths = {part.key: part.length for part in self.parts if part.key is not None}
        return [tensor for tensor in self.tensors or () if tensor.stop <= lengths.get(tensor.key, -1)]

    @property
    def readable(self) -> bool:
        """Whether every tensor is of a kind whose values can be looked at."""
        return self.tensors is not None and not any(p.kind is ProblemKind.UNREADABLE_KIND for p in self.problems)


Known = dict[bytes, tuple[Survey, list[Problem], Rebuilt]]  # what is known of an object by its pickle, for one file


def contents(file: BinaryIO, archive: Archive, path: str, start: int = 0, known: Known | None = None) -> Contents:
    """The contents of an archive that begins at byte ``start`` of a file.

    A file of many archives passes the same ``known`` for all: tensors of one shape have one pickle, which is followed once.
    """
    members = {name: dataclasses.replace(member, offset=member.offset + start) for name, member in archive.below_root().items()}
    problems = []
    if archive.trailing:
        problems.append(Problem(ProblemKind.TRAILING, path, f"{archive.trailing:,} bytes behind the end of the archive", "none"))
    checked = any(member.crc for member in archive.members)
    if not checked:
        problems.append(
            Problem(
                ProblemKind.NO_CHECKSUM,
                path,
                "every CRC-32 in the archive is zero",
                "the checksums that torch.save writes by default",
            )
        )
    others = [name for name in members if name.endswith(".pkl") and name != PICKLE]
    if others:
        problems.append(Problem(ProblemKind.DAMAGED, path, "one more pickle", f"{PICKLE} and no other", others[0], len(others)))
    tensors, stated, found = _object(file, members, path, checked, {} if known is None else known)
    return Contents([_part(name, member, checked) for name, member in members.items()], tensors, stated, [*problems, *found])


def _part(name: str, member: Member, checked: bool) -> Part:
    folder, key = posixpath.split(name)
    return Part(name, member.offset, member.stored, key if folder == "data" else None, member.crc if checked else None)


def _object(
    file: BinaryIO, members: Mapping[str, Member], path: str, checked: bool, known: Known
) -> tuple[Sequence[Tensor] | None, Mapping[tuple[str, ...], Any], list[Problem]]:
    """The tensors, None if the object is not to be had, its plain values, and the problems on the way."""
    problems: list[Problem] = []
    try:
        pickle = _pickle(file, members, path)
        if checked and zlib.crc32(pickle) != members[PICKLE].crc:
            return None, {}, []  # reported with the other members; what a damaged pickle says is not to be believed
        if pickle in known:
            found, problems, made = known[pickle]
        else:
            found = survey(pickle)
            named, strangers = refused_names(found.names, path)
            problems += named
            if found.end < len(pickle):
                behind = f"{len(pickle) - found.end:,} bytes behind the end of the pickle"
                problems.append(Problem(ProblemKind.DAMAGED, path, behind, "none", PICKLE))
            if any(problem.kind is ProblemKind.UNSAFE_GLOBAL for problem in named):
                return None, {}, problems
            made = rebuild(pickle, found, strangers, path)
            if len(pickle) <= _SMALL and len(known) < _MOST_KNOWN:
                known[pickle] = found, problems, made
    except BadPickle as error:
        return None, {}, [Problem(ProblemKind.DAMAGED, path, str(error), "a complete pickle", PICKLE)]
    except Unloadable as refusal:
        return None, {}, [*problems, refusal.problem]
    lengths = {posixpath.basename(name): member.size for name, member in members.items() if posixpath.dirname(name) == "data"}
    return made.tensors, made.values, [*problems, *made.problems, *check_storages(made.tensors, found, lengths, path)]


def _pickle(file: BinaryIO, members: Mapping[str, Member], path: str) -> bytes:
    for needed, place in ((PICKLE, PICKLE), ("version", ".data/version")):
        if needed not in members and place not in members:
            observed = f"member {needed} is absent"
            raise Unloadable(Problem(ProblemKind.DAMAGED, path, observed, "a member of that name, as torch.save writes it"))
    member = members[PICKLE]
    if member.size > LARGEST:
        observed = f"a pickle of {member.size:,} bytes"
        raise Unloadable(Problem(ProblemKind.TOO_LARGE, path, observed, f"at most {LARGEST:,} bytes", PICKLE))
    order = members.get("byteorder")
    if order is not None and exactly(file, order.offset, min(order.size, 6)) != b"little":
        observed = "values that are not little-endian"
        raise Unloadable(Problem(ProblemKind.UNREADABLE_KIND, path, observed, "little-endian values", "byteorder"))
    return exactly(file, member.offset, member.size)


def _whole(file: BinaryIO, size: int) -> str | None:
    """How long a file that was cut must have been, as far as its pickle, which comes first, still tells."""
    head = reader(file)(0, min(size, _LOOK_FOR_PICKLE))
    name, data = first_member(head)
    if name.partition("/")[2] != PICKLE:
        return None
    try:
        found: Survey = survey(data)
    except BadPickle:
        return None
    stored = sum(storage.bytes or 0 for storage in found.storages.values())
    needed = len(head) - len(data) + found.end + stored
    storages = f"{number(len(found.storages), 'storage')} of {stored:,} bytes alone"
    return f"more than {needed:,} bytes: {storages}" if needed > size else f"a zip directory behind the members: {storages}"


def _reading(
    path: str, size: int, depth: Depth | None, problems: Sequence[Problem], sha256: str | None, tensors: Sequence[Tensor] = ()
) -> Reading:
    return Reading(
        NAME,
        depth,
        [FileFacts(path, size, sha256)],
        problems,
        len(tensors),
        sum(tensor.elements for tensor in tensors),
        collections.Counter(tensor.dtype for tensor in tensors),
    )


FORMAT = Format(NAME, Depth.TENSORS, read, recognise, aliases=("pytorch", "torch", "pt"), pickled=Pickled.YES, holds=Holds.STATE)
