"""TorchScript archives: the container is checked, the model is never loaded, because loading it runs the code inside.

Source of the facts about the format: torch/csrc/jit/serialization/export_module.cpp of torch 2.13, and files written by
``torch.jit.save``: tensors stored as ``<root>/data/N``, code deflated below ``<root>/code/``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO

from .base import Candidate, Depth, FileFacts, Format, Holds, Problem, ProblemKind, Reading, Source, Unit
from .pickle_globals import Kind, kind
from .pickle_stream import Stream, names
from .pickle_survey import LARGEST, BadPickle
from .torch_values import Part, read_values
from .torch_zip import PICKLE, SCRIPT_PICKLE, is_archive, is_script
from .zip_archive import STORED, Archive, ArchiveFault, Member, first_member, member_names, read_archive, reader
from .zip_members import content, inflated_crc

NAME = "TorchScript"
_FIRST_MEMBER = re.compile(r"data/\d+|extra/.*|code/.*|constants\.pkl")
_OWN = "torch.jit._pickle."  # what TorchScript's pickles rebuild lists and types with
_LARGEST_CODE = 256 << 20  # bytes that the code may have when inflated


def recognise(candidate: Candidate) -> bool:
    """By the members; by the first member when there is no directory to read, as in a file that was cut."""
    if not is_archive(candidate):
        return False
    names = member_names(candidate.read, candidate.size)
    if names:
        return is_script(names)
    name, data = first_member(candidate.head)
    below = name.partition("/")[2]
    return bool(_FIRST_MEMBER.fullmatch(below)) or (below == PICKLE and data.startswith(SCRIPT_PICKLE))


def read(unit: Unit, source: Source) -> Reading:
    """The structure of one file and, from depth ``tensors`` on, the checksums of its members; its depth stays ``header``."""
    path = unit.path
    with source.open(path) as file:
        size = source.size(path)
        try:
            archive = read_archive(reader(file), size, deflated=True)
        except ArchiveFault as fault:
            problem = Problem(fault.kind, path, fault.observed, fault.expected, fault.where)
            values = read_values(file, size, (), (), path, source)
            return Reading(NAME, None, [FileFacts(path, size, values.sha256)], [problem])
        problems = [*_container(archive, path), *_pickles(file, archive, path)]
        checked = any(member.crc for member in archive.members)
        stored = [
            Part(name, member.offset, member.stored, name if name.startswith("data/") else None, member.crc if checked else None)
            for name, member in archive.below_root().items()
            if member.method == STORED
        ]
        values = read_values(file, size, stored, (), path, source)
        problems += values.problems
        if source.depth >= Depth.TENSORS:
            problems += _inflated(file, archive, path)
        return Reading(
            NAME,
            Depth.HEADER,
            [FileFacts(path, size, values.sha256)],
            problems,
            tensors=sum(part.key is not None for part in stored),
            bytes_read=values.bytes_read,
        )


def _container(archive: Archive, path: str) -> Iterator[Problem]:
    if archive.trailing:
        yield Problem(ProblemKind.TRAILING, path, f"{archive.trailing:,} bytes behind the end of the archive", "none")
    if not any(member.crc for member in archive.members):
        yield Problem(
            ProblemKind.NO_CHECKSUM,
            path,
            "every CRC-32 in the archive is zero",
            "the checksums that torch.jit.save writes by default",
        )
    members = archive.below_root()
    for needed in (PICKLE, "constants.pkl", "version"):
        if needed not in members and f".data/{needed}" not in members:
            yield Problem(
                ProblemKind.DAMAGED, path, f"member {needed} is absent", "a member of that name, as torch.jit.save writes it"
            )
    for name, member in members.items():
        if name.startswith("data/") and member.method != STORED:
            yield Problem(ProblemKind.DAMAGED, path, "a compressed tensor", "stored tensors, as torch.jit.save writes them", name)
    inflated = sum(member.size for member in archive.members if member.method != STORED)
    if inflated > _LARGEST_CODE:
        yield Problem(
            ProblemKind.TOO_LARGE, path, f"{inflated:,} bytes of compressed members", f"at most {_LARGEST_CODE:,} bytes"
        )


def _pickles(file: BinaryIO, archive: Archive, path: str) -> Iterator[Problem]:
    """What the pickles ask for, which TorchScript itself reads without running anything. Other programs may read them too."""
    for name, member in archive.below_root().items():
        if not name.endswith(".pkl"):
            continue
        data = content(file, member, LARGEST)
        try:
            found = [each.name for each in names(Stream(iter([data or b""]))) if kind(each) is Kind.UNSAFE]
        except BadPickle as error:
            if data is not None:  # else it is said by its checksum or its size
                yield Problem(ProblemKind.DAMAGED, path, str(error), "a complete pickle", name)
            continue
        unsafe = [each for each in found if not each.startswith(_OWN)]
        if unsafe:
            yield Problem(ProblemKind.UNSAFE_GLOBAL, path, unsafe[0][:200], "no function that runs code when the file is loaded",
                          name, len(unsafe))


def _inflated(file: BinaryIO, archive: Archive, path: str) -> Iterator[Problem]:
    """At most one CHECKSUM and one DAMAGED problem for the compressed members. Nothing is kept of what they hold."""
    compressed = [member for member in archive.members if member.method != STORED]
    if sum(member.size for member in compressed) > _LARGEST_CODE:
        return
    wrong: list[Member] = []
    damaged: list[Member] = []
    for member in compressed:
        crc = inflated_crc(file, member)
        if crc is None:
            damaged.append(member)
        elif crc != member.crc and member.crc:
            wrong.append(member)
    for what, members, observed, expected in (
        (ProblemKind.DAMAGED, damaged, "compressed data that cannot be inflated to the stated size", "sound deflate data"),
        (ProblemKind.CHECKSUM, wrong, "another CRC-32 than stated", "the one in the zip directory"),
    ):
        if members:
            yield Problem(what, path, observed, expected, members[0].name, len(members))


FORMAT = Format(NAME, Depth.HEADER, read, recognise, holds=Holds.WEIGHTS)
