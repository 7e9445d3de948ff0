"""Archives in which two readers can see two things, bombs, and members that lead elsewhere."""

from __future__ import annotations

import io
import stat
import struct
import tarfile
import warnings
import zipfile
import zlib
from collections.abc import Iterator, Sequence

import torch

from . import Case

Members = Sequence[tuple[str, bytes]]


def members(pickle_: bytes, storage: bytes = struct.pack("<4f", 1, 2, 3, 4)) -> list[tuple[str, bytes]]:
    return [
        ("archive/data.pkl", pickle_),
        ("archive/byteorder", b"little"),
        ("archive/data/0", storage),
        ("archive/version", b"3\n"),
    ]


def zipped(content: Members, method: int = zipfile.ZIP_STORED) -> bytes:
    file = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(file, "w", method) as archive:
        warnings.simplefilter("ignore")  # about names that are there twice
        for name, data in content:
            archive.writestr(zipfile.ZipInfo(name), data, method)
    return file.getvalue()


def torch_zip(pickle_: bytes, storage: bytes = struct.pack("<4f", 1, 2, 3, 4)) -> bytes:
    return zipped(members(pickle_, storage))


def saved(value: object) -> bytes:
    file = io.BytesIO()
    torch.save(value, file)
    return file.getvalue()


def _directory(data: bytes) -> tuple[int, int]:
    """Where the directory and where the end record begin."""
    end = data.rindex(b"PK\x05\x06")
    return struct.unpack_from("<I", data, end + 16)[0], end


def _set(data: bytes, at: int, layout: str, *values: int) -> bytes:
    new = struct.pack(layout, *values)
    return data[:at] + new + data[at + len(new) :]


def _renamed(data: bytes, old: bytes, new: bytes, where: str = "both") -> bytes:
    """A member's name changed in its local header, in the directory, or in both; both names have one length."""
    assert len(old) == len(new)
    start, _ = _directory(data)
    local, rest = data[:start], data[start:]
    if where in ("both", "local"):
        local = local.replace(old, new)
    if where in ("both", "directory"):
        rest = rest.replace(old, new)
    return local + rest


def _first_member(data: bytes) -> tuple[int, int]:
    """Where the first local header and the first directory record begin."""
    return 0, _directory(data)[0]


def lying(sound: bytes, pickle_: bytes) -> Iterator[Case]:
    """Torch archives that are refused for their container alone; ``sound`` is the archive that each differs from."""
    other = torch_zip(pickle_, struct.pack("<4f", 9, 9, 9, 9))
    start, end = _directory(sound)
    local, record = _first_member(sound)
    why = "two zip readers may see two archives"
    for name, data in {
        "prefix": b"#!/bin/sh\n" + sound,
        "prefix-zeros": b"\0" * 64 + sound,
        "suffix": sound + b"abc",
        "two-archives": sound + other,
        "archive-in-the-comment": _set(sound, end + 20, "<H", len(other)) + other,
        "comment-claims-more": _set(sound, end + 20, "<H", 9),
        "end-record-twice": sound + sound[end:],
        "count-more": _set(sound, end + 8, "<HH", 9, 9),
        "count-fewer": _set(sound, end + 8, "<HH", 3, 3),
        "count-0": _set(sound, end + 8, "<HH", 0, 0),
        "counts-differ": _set(sound, end + 8, "<HH", 3, 4),
        "count-65535": _set(sound, end + 8, "<HH", 0xFFFF, 0xFFFF),
        "directory-offset-0": _set(sound, end + 16, "<I", 0),
        "directory-beyond": _set(sound, end + 16, "<I", 0x7FFFFFFF),
        "directory-size-lies": _set(sound, end + 12, "<I", 10),
        "disk-1": _set(sound, end + 4, "<H", 1),
        "zip64-without-record": _set(sound, end + 16, "<I", 0xFFFFFFFF),
        "no-directory": sound[:start],
        "cut": sound[:-7],
        "cut-in-the-directory": sound[: start + 20],
        "encrypted": _set(_set(sound, local + 6, "<H", 1), record + 8, "<H", 1),
        "encrypted-directory": _set(sound, record + 8, "<H", 1),
        "encrypted-local": _set(sound, local + 6, "<H", 1),
        "strong-encryption": _set(_set(sound, local + 6, "<H", 65), record + 8, "<H", 65),
        "patched": _set(_set(sound, local + 6, "<H", 32), record + 8, "<H", 32),
        "method-differs": _set(sound, record + 10, "<H", 8),
        "method-99": _set(_set(sound, local + 8, "<H", 99), record + 10, "<H", 99),
        "crc-differs": _set(sound, record + 16, "<I", 1),
        "crc-both-wrong": _set(_set(sound, local + 14, "<I", 1), record + 16, "<I", 1),
        "size-differs": _set(sound, record + 24, "<I", 5),
        "stored-size-differs": _set(sound, record + 20, "<I", 5),
        "size-4-gigabytes": _set(
            _set(sound, record + 20, "<II", 0xFFFFFFFE, 0xFFFFFFFE), local + 18, "<II", 0xFFFFFFFE, 0xFFFFFFFE
        ),
        "overlap": _set(sound, record + 42, "<I", 20),
        "offset-of-another": _set(sound, record + 42, "<I", start),
        "offset-beyond": _set(sound, record + 42, "<I", 0x7FFFFFFF),
        "disk-of-a-member": _set(sound, record + 34, "<H", 1),
        "local-name-differs": _renamed(sound, b"archive/data/0", b"archive/data/1", "local"),
        "directory-name-differs": _renamed(sound, b"archive/data/0", b"archive/data/1", "directory"),
        "local-signature": b"PK\x03\x05" + sound[4:],
        "link": _set(_set(sound, record + 38, "<I", stat.S_IFLNK << 16), record + 4, "<H", 0x031E),
        "fifo": _set(_set(sound, record + 38, "<I", stat.S_IFIFO << 16), record + 4, "<H", 0x031E),
        "name-with-dots": _renamed(sound, b"archive/data/0", b"archive/../..0"),
        "name-with-nul": _renamed(sound, b"archive/data/0", b"archive/data/\0"),
        "name-with-backslash": _renamed(sound, b"archive/data/0", b"archive/data\\0"),
        "name-absolute": _renamed(sound, b"archive/data/0", b"/rchive/data/0"),
        "name-with-drive": _renamed(sound, b"archive/data/0", b"archive/c:/a/0"),
        "name-with-escape": _renamed(sound, b"archive/data/0", b"archive/data/\x1b"),
        "name-in-another-root": _renamed(sound, b"archive/data/0", b"brchive/data/0"),
        "name-of-a-folder": _renamed(sound, b"archive/data/0", b"archive/data/0"[:-1] + b"/"),
        "no-version": zipped(members(pickle_)[:-1]),
        "no-storage": zipped([members(pickle_)[0], members(pickle_)[3]]),
        "deflated": zipped(members(pickle_), zipfile.ZIP_DEFLATED),
        "bomb": zipped(members(pickle_, b"\0" * (1 << 26)), zipfile.ZIP_DEFLATED),
        "bzip2": zipped(members(pickle_), zipfile.ZIP_BZIP2),
        "lzma": zipped(members(pickle_), zipfile.ZIP_LZMA),
    }.items():
        yield Case(f"container-{name}.pt", data, why)
    evil = b"\x80\x02cposix\nsystem\nX\x04\0\0\0true\x85R."
    for name, more in {
        "twin-pickle": [("archive/data.pkl", evil)],
        "twin-in-case": [("archive/DATA.PKL", evil)],
        "twin-storage": [("archive/data/0", b"\0" * 16)],
        "twin-root": [("Archive/data.pkl", evil)],
        "second-pickle": [("archive/other/data.pkl", evil)],
        "script": [("archive/constants.pkl", evil)],
        "script-code": [("archive/code/__torch__.py", b"import os")],
        "outside": [("archive/../../evil.py", b"import os")],
        "absolute": [("/tmp/evil.py", b"import os")],
        "top-level": [("evil.py", b"import os")],
        "drive": [("C:/evil.py", b"import os")],
        "long-name": [("archive/" + "a" * 60_000, b"")],
    }.items():
        yield Case(f"member-{name}.pt", zipped([*members(pickle_), *more]), "a member too many")
        yield Case(f"member-{name}-first.pt", zipped([*more, *members(pickle_)]), "a member too many, in front")
    yield Case(
        "container-40000-members.pt",
        zipped([*members(pickle_), *((f"archive/data/{n}", b"") for n in range(1, 100_000))]),
        "a hundred thousand members that nothing names",
        refused=False,
    )


def quoted_overlap(name: bytes = b"a.npy", count: int = 200, size: int = 1 << 20) -> bytes:
    """Many directory records that share one local record (bamsoftware.com, "A better zip bomb")."""
    kernel = zlib.compressobj(9, zlib.DEFLATED, -15)
    data = kernel.compress(b"\0" * size) + kernel.flush()
    crc = zlib.crc32(b"\0" * size)
    local = struct.pack("<4sHHHHHIIIHH", b"PK\x03\x04", 20, 0, 8, 0, 0x21, crc, len(data), size, len(name), 0) + name + data
    directory = b"".join(
        struct.pack(
            "<4sHHHHHHIIIHHHHHII", b"PK\x01\x02", 20, 20, 0, 8, 0, 0x21, crc, len(data), size, len(name), 0, 0, 0, 0, 0, 0
        )
        + name
        for _ in range(count)
    )
    end = struct.pack("<4sHHHHIIH", b"PK\x05\x06", 0, 0, count, count, len(directory), len(local), 0)
    return local + directory + end


def other_archives() -> Iterator[Case]:
    """Archives of other libraries, and tar."""
    yield Case("overlap.npz", quoted_overlap(), "records that share one member")
    yield Case("overlap.keras", quoted_overlap(b"config.json"), "records that share one member")
    yield Case("zip-in-zip.zip.pt", zipped([("archive/inner.zip", torch_zip(b"\x80\x02}."))]), "an archive in an archive")
    for name, setup in {
        "outside": {"name": "../evil"},
        "absolute": {"name": "/tmp/evil"},
        "link": {"type": tarfile.SYMTYPE, "linkname": "/etc/passwd"},
        "hard-link": {"type": tarfile.LNKTYPE, "linkname": "../../etc/passwd"},
        "fifo": {"type": tarfile.FIFOTYPE},
        "device": {"type": tarfile.CHRTYPE},
    }.items():
        file = io.BytesIO()
        with tarfile.open(fileobj=file, mode="w") as archive:
            for own in ("storages", "tensors", "pickle"):
                archive.addfile(tarfile.TarInfo(own))
            odd = tarfile.TarInfo(str(setup.pop("name", "odd")))
            for field, value in setup.items():
                setattr(odd, field, value)
            archive.addfile(odd)
        yield Case(f"tar-{name}.pt", file.getvalue(), "torch's oldest format, in a tar archive")
        yield Case(f"tar-{name}.nemo", file.getvalue(), "a tar archive")
    negative = bytearray(512)
    negative[:4] = b"evil"
    negative[124:136] = b"\xff" * 12
    negative[257:263] = b"ustar\0"
    yield Case("tar-negative-size.pt", bytes(negative) * 3, "a member of negative size")


def cases(sound: bytes, pickle_: bytes) -> Iterator[Case]:
    yield Case("container-sound.pt", sound, "the archive that the others differ from", refused=False)
    yield Case("container-saved.pt", saved({"w": torch.ones(4)}), "as torch.save writes it", refused=False)
    yield from lying(sound, pickle_)
    yield from other_archives()
