"""HDF5 files: the superblock and what it points to, never a library, which would follow links to other files.

The superblock says where the file ends; a file that is shorter was cut (HDF5 File Format Specification 3.0, II.A). Datasets are
not followed and there are no checksums of them. Older versions of Keras save whole models in such files.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from .base import Candidate, Depth, FileFacts, Format, Problem, ProblemKind, Reading, Source, Unit
from .streaming import digest, holds
from .zip_archive import Read, reader

NAME = "HDF5"
SIGNATURE = b"\x89HDF\r\n\x1a\n"
_SUPERBLOCK = 128  # bytes that hold a superblock of any version
_WRITING = 0x01  # of the consistency flags of version 3
# How the configuration of a Keras model, which is a text in the file, calls a function that is stored as compiled code.
_CODE = (b'"function_type": "lambda"', b'"__lambda__"')


@dataclasses.dataclass(frozen=True)
class Superblock:
    """What it says: where the file ends, where its root is, and whether it is open for writing."""

    version: int
    end: int
    root: int
    writing: bool


class BadSuperblock(ValueError):
    """The superblock cannot be used."""


def parse(read: Read) -> Superblock:
    """The superblock of a file; `BadSuperblock` when it makes no sense."""
    data = read(0, _SUPERBLOCK)
    if not data.startswith(SIGNATURE):
        raise BadSuperblock("no HDF5 signature")
    version = data[8] if len(data) > 8 else -1
    if version not in (0, 1, 2, 3):
        raise BadSuperblock(f"version {version} of the superblock")
    width, at = (data[13:14], {0: 24, 1: 28}[version]) if version < 2 else (data[9:10], 12)
    if width not in (b"\x02", b"\x04", b"\x08"):
        raise BadSuperblock(f"offsets of {width[0] if width else 0} bytes")
    size = width[0]
    # Version 0 and 1: base, free space, end, driver, then the root's entry: name and header. 2 and 3: base, extension, end, root.
    places = [at + 2 * size, at + 5 * size] if version < 2 else [at + 2 * size, at + 3 * size]
    if len(data) < places[1] + size:
        raise BadSuperblock("it ends inside the superblock")
    end, root = (int.from_bytes(data[place:place + size], "little") for place in places)
    if end == (1 << 8 * size) - 1:
        raise BadSuperblock("the end of the file is not set")
    return Superblock(version, end, root, version == 3 and bool(data[11] & _WRITING))


def check(read: Read, size: int, path: str, where: str = "") -> Iterator[Problem]:
    """What is wrong with a file of ``size`` bytes, which may be a member (``where``) of another one."""
    try:
        found = parse(read)
    except BadSuperblock as error:
        kind = ProblemKind.TRUNCATED if size < _SUPERBLOCK else ProblemKind.DAMAGED
        yield Problem(kind, path, f"{size:,} bytes: {error}", "the superblock of an HDF5 file", where)
        return
    if found.writing:
        yield Problem(ProblemKind.UNFINISHED, path, "the superblock says that the file is open for writing",
                      "a file that was closed", where)
    if size < found.end:
        yield Problem(ProblemKind.TRUNCATED, path, f"{size:,} bytes, {found.end - size:,} are missing",
                      f"{found.end:,} bytes, as the superblock says", where)
    elif not _is_header(read(found.root, 4) if found.root < size else b"", found.version):
        yield Problem(ProblemKind.DAMAGED, path, f"no object at byte {found.root:,}, where the root group is said to be",
                      "the header of the root group", where)


def _is_header(start: bytes, version: int) -> bool:
    return start == b"OHDR" or (version < 3 and start[:2] == b"\x01\x00")


def recognise(candidate: Candidate) -> bool:
    """By the signature at its beginning."""
    return candidate.head.startswith(SIGNATURE)


def read(unit: Unit, source: Source) -> Reading:
    """The superblock of one file, and whether a Keras configuration in it holds compiled code."""
    path, size = unit.path, source.size(unit.path)
    with source.open(path) as file:
        problems = list(check(reader(file), size, path))
        told = 0 if source.digest else 1  # the digest counts the same bytes
        if source.depth >= Depth.TENSORS and holds(file, size, _CODE, lambda count: source.advance(told * count)):
            problems.append(Problem(ProblemKind.PYTHON_CODE, path, "the configuration of a Keras model with a Lambda layer whose "
                                    "function is stored as compiled code", "layers that are named, not stored as code"))
        sha256 = digest(file, size, source)
    readable = not any(problem.kind in (ProblemKind.DAMAGED, ProblemKind.TRUNCATED) for problem in problems)
    return Reading(NAME, Depth.HEADER if readable else None, [FileFacts(path, size, sha256)], problems)


FORMAT = Format(NAME, Depth.HEADER, read, recognise, ambiguous=True, aliases=("h5", "keras"))
