"""Zip archives of no format that is known here: they are not unpacked, only looked through.

A name that leads out of the folder it is unpacked into, a link, and a pickle that runs code are faults in any archive. Its
directory is read as other programs read it, not as strictly as that of a checkpoint: people make archives with many tools.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import BinaryIO

from . import formats
from .base import HEAD, Candidate, Depth, FileFacts, Format, Problem, ProblemKind, Reading, Source, Unit
from .pickle_file import begins_as_pickle, is_pickle_name
from .pickle_globals import Kind, by_danger, kind
from .pickle_stream import Stream, names
from .pickle_survey import BadPickle
from .streaming import digest, exactly
from .zip_archive import STORED, ArchiveFault, Member, any_members, leads_out, reader
from .zip_members import BadDeflate, inflate

NAME = "zip"
_PIECE = 1 << 20
_BEGINNINGS = (b"PK\x03\x04", b"PK\x05\x06")


def recognise(candidate: Candidate) -> bool:
    """By the first bytes, when no other format knows it."""
    others = (form for name, form in formats().items() if name != NAME)
    return candidate.head.startswith(_BEGINNINGS) and not any(form.recognise(candidate) for form in others)


def read(unit: Unit, source: Source) -> Reading:
    """What is wrong with the names and the pickles in an archive. It is no checkpoint, so that no depth is reached."""
    path, size = unit.path, source.size(unit.path)
    with source.open(path) as file:
        try:
            members = any_members(reader(file), size)
            problems = [*_names(members, path), *_pickles(file, members, path)]
            observed = f"a zip archive with {len(members):,} members"
        except ArchiveFault as fault:
            problems, observed = [], f"a zip archive that cannot be followed: {fault.observed}"
        problems.append(Problem(ProblemKind.UNREADABLE_KIND, path, observed, "a checkpoint of a format that is known here"))
        sha256 = digest(file, size, source)
    if not source.digest:
        source.advance(size)
    return Reading(NAME, None, [FileFacts(path, size, sha256)], problems)


def _names(members: list[Member], path: str) -> Iterator[Problem]:
    out = [member.name for member in members if leads_out(member.name)]
    if out:
        yield Problem(ProblemKind.DAMAGED, path, "a member whose name leads out of the archive", "names inside", out[0][:200],
                      len(out))


def _pickles(file: BinaryIO, members: list[Member], path: str) -> Iterator[Problem]:
    unsafe: dict[str, str] = {}  # the names by the members that ask for them
    for member in members:
        pieces = _content(file, member)
        try:
            head = next(pieces, b"")
            if not (head[:1] == b"\x80" and is_pickle_name(member.name)) and not begins_as_pickle(head[:HEAD]):
                continue
            found = names(Stream(itertools.chain((head,), pieces)))
        except BadDeflate:
            continue
        except BadPickle as error:
            found = error.names
        asked = sorted((name.name for name in found if kind(name) is Kind.UNSAFE), key=by_danger)
        if asked:
            unsafe[member.name] = asked[0]
    if unsafe:
        member_name, name = next(iter(unsafe.items()))
        yield Problem(ProblemKind.UNSAFE_GLOBAL, path, f"{name[:200]} in member {member_name[:200]}",
                      "no function that runs code when the file is loaded", name[:200], len(unsafe))


def _content(file: BinaryIO, member: Member) -> Iterator[bytes]:
    """The bytes of a member in pieces; nothing of one that is compressed in another way than by deflate."""
    if member.method == STORED:
        for at in range(member.offset, member.offset + member.stored, _PIECE):
            yield exactly(file, at, min(_PIECE, member.offset + member.stored - at))
    else:
        yield from inflate(file, member)


FORMAT = Format(NAME, Depth.HEADER, read, recognise, ambiguous=True)
