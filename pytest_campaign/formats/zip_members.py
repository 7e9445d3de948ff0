"""The members of a zip archive as bytes: inflated in pieces, and compared with the checksums of its directory."""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Iterator, Sequence
from typing import BinaryIO

from .base import Depth, Problem, ProblemKind, Source
from .streaming import Segment, digest, exactly, never_written, scan
from .zip_archive import STORED, Archive, ArchiveFault, Member, read_archive, reader

LARGEST_INFLATED = 16 << 30  # bytes that the compressed members of one archive may have together
_PIECE = 1 << 18
_CHUNK = 1 << 20


class BadDeflate(ValueError):
    """Compressed data that cannot be inflated to the size that the directory states."""


def inflate(file: BinaryIO, member: Member) -> Iterator[bytes]:
    """The bytes of a deflated member in pieces of at most a megabyte; `BadDeflate` when they are not ``member.size`` bytes."""
    machine = zlib.decompressobj(-zlib.MAX_WBITS)
    size, at, end = 0, member.offset, member.offset + member.stored
    data = b""
    try:
        while not machine.eof and size <= member.size:
            if not data and at < end:
                data = exactly(file, at, min(_PIECE, end - at))
                at += len(data)
            part = machine.decompress(data, _CHUNK)
            if not part and not machine.unconsumed_tail and at == end:
                break
            size, data = size + len(part), machine.unconsumed_tail
            yield part
    except zlib.error:
        raise BadDeflate(member.name) from None
    if not machine.eof or machine.unused_data or at < end or size != member.size:
        raise BadDeflate(member.name)


def inflated_crc(file: BinaryIO, member: Member) -> int | None:
    """The CRC-32 of what a member inflates to, None if that is not ``member.size`` bytes."""
    crc = 0
    try:
        for part in inflate(file, member):
            crc = zlib.crc32(part, crc)
    except BadDeflate:
        return None
    return crc


def content(file: BinaryIO, member: Member, limit: int) -> bytes | None:
    """A small member whole; None when it has more than ``limit`` bytes or is damaged."""
    if member.size > limit:
        return None
    if member.method == STORED:
        return exactly(file, member.offset, member.size)
    try:
        return b"".join(inflate(file, member))
    except BadDeflate:
        return None


def flat_archive(file: BinaryIO, size: int, path: str) -> tuple[Archive | None, list[Problem]]:
    """The directory of an archive whose members lie in no folder, None when it cannot be used, and what is wrong with it."""
    try:
        archive = read_archive(reader(file), size, deflated=True, rooted=False)
    except ArchiveFault as fault:
        return None, [Problem(fault.kind, path, fault.observed, fault.expected, fault.where)]
    problems = []
    if archive.trailing:
        problems.append(Problem(ProblemKind.TRAILING, path, f"{archive.trailing:,} bytes behind the end of the archive", "none"))
    inflated = sum(member.size for member in archive.members if member.method != STORED)
    if inflated > LARGEST_INFLATED:
        problems.append(Problem(ProblemKind.TOO_LARGE, path, f"compressed members of {inflated:,} bytes",
                                f"at most {LARGEST_INFLATED:,} bytes"))
        return None, problems
    return archive, problems


def check_members(
    file: BinaryIO, size: int, members: Sequence[Member], path: str, source: Source
) -> tuple[list[Problem], str | None]:
    """What is wrong with the bytes of members, which are in the order of the file, and its digest if that is asked for.

    They are compared with their checksums from depth ``tensors`` on.
    """
    stored = [member for member in members if member.method == STORED]
    segments = [Segment(member.offset, member.stored, crc=True, label=member.name) for member in stored]
    problems = list(never_written(path, file, size, segments))
    if source.depth < Depth.TENSORS:
        return problems, digest(file, size, source)
    result = scan(file, size, segments, source)
    wrong = [(member, found.crc32) for member, found in zip(stored, result.segments, strict=True) if found.crc32 != member.crc]
    broken = []
    for member in members:
        if member.method != STORED:
            crc = inflated_crc(file, member)
            if crc is None:
                broken.append(member)
            elif crc != member.crc:
                wrong.append((member, crc))
    return [*problems, *bad_members(path, wrong, broken)], result.sha256


@dataclasses.dataclass(frozen=True)
class Checked:
    """An archive that was read: None when it has no directory, what is wrong with it and with its members, and its digest."""

    archive: Archive | None
    problems: Sequence[Problem]
    in_members: Sequence[Problem]
    sha256: str | None


def checked_archive(file: BinaryIO, size: int, path: str, source: Source) -> Checked:
    """A `flat_archive` with its members compared as `check_members` does."""
    archive, problems = flat_archive(file, size, path)
    if archive is None:
        return Checked(None, problems, (), digest(file, size, source))
    found, sha256 = check_members(file, size, archive.members, path, source)
    return Checked(archive, [*problems, *found], found, sha256)


def bad_members(path: str, wrong: Sequence[tuple[Member, int | None]], broken: Sequence[Member]) -> Iterator[Problem]:
    """At most one CHECKSUM problem (members with the CRC-32 that they really have) and one DAMAGED for deflate data."""
    if wrong:
        member, crc = wrong[0]
        yield Problem(ProblemKind.CHECKSUM, path,
                      f"the {member.size:,} bytes of member {member.name} have the CRC-32 {crc or 0:08x}",
                      f"{member.crc:08x}, which was recorded when they were written", member.name, len(wrong))
    if broken:
        yield Problem(ProblemKind.DAMAGED, path, "compressed data that cannot be inflated to the stated size",
                      "sound deflate data", broken[0].name, len(broken))
