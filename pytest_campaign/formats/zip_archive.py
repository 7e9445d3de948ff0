"""A strict reader of zip directories, for the archives that torch, NumPy and Keras write.

torch writes one root folder, members that follow each other without gaps (alignment is padding in the extra field
of the local header), a data descriptor behind every member that is not empty, and the zip64 records always. Zip
readers differ in what they make of anything else (names that are there twice, a directory that contradicts the
local headers, bytes before or behind the archive), so that two of them can see two different checkpoints in one
file. Here every byte of the file must have one meaning, otherwise the archive is refused. Nothing is extracted.

The layout is that of PKWARE's APPNOTE 6.3.10, sections 4.3 and 4.5.3.
"""

from __future__ import annotations

import dataclasses
import stat
import struct
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import BinaryIO

from .base import ProblemKind

Read = Callable[[int, int], bytes]  # (offset, length) -> at most that many bytes

STORED, DEFLATED = 0, 8
MOST_MEMBERS = 200_000
LARGEST_DIRECTORY = 64 << 20
LONGEST_NAME = 1024

_LOCAL, _CENTRAL, _END = b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06"
_END64, _LOCATOR, _DESCRIPTOR = b"PK\x06\x06", b"PK\x06\x07", b"PK\x07\x08"
_LOCAL_SIZE, _CENTRAL_SIZE, _END_SIZE, _END64_SIZE, _LOCATOR_SIZE = 30, 46, 22, 56, 20
_FULL16, _FULL32 = 0xFFFF, 0xFFFFFFFF
_ZIP64_FIELD = 0x0001
_HAS_DESCRIPTOR, _UTF8, _DEFLATE_OPTIONS = 0x0008, 0x0800, 0x0006
_ENCRYPTED = 0x0001
_UNIX = 3
_DOS_FOLDER = 0x10
_COMMENT = 0xFFFF  # the longest comment, hence how far from the end a zip reader looks for the end record
_BLOCK = 1 << 20
_FAR = 64 << 20  # how far we look, to tell appended bytes from a file that was cut
_MOST_ENDS = 1000  # end records that are tried: tensor data may hold their four bytes by chance


class ArchiveFault(Exception):
    """An archive that is refused; the fields are those of `base.Problem`."""

    def __init__(self, kind: ProblemKind, observed: str, expected: str, where: str = "") -> None:
        super().__init__(observed)
        self.kind, self.observed, self.expected, self.where = kind, observed, expected, where


@dataclasses.dataclass(frozen=True)
class Member:
    """One member: ``offset`` and ``stored`` bytes of data in the file, ``size`` bytes when decompressed."""

    name: str
    method: int
    size: int
    stored: int
    crc: int
    header: int
    offset: int


@dataclasses.dataclass(frozen=True)
class Archive:
    """A sound archive: its members in the order of the file, and how many bytes follow behind its end."""

    members: Sequence[Member]
    trailing: int

    @property
    def root(self) -> str:
        """The one folder that everything lies in, with its slash."""
        return self.members[0].name.partition("/")[0] + "/" if self.members else ""

    def below_root(self) -> Mapping[str, Member]:
        """The members by their names without the root folder."""
        return {member.name[len(self.root) :]: member for member in self.members}


@dataclasses.dataclass(frozen=True)
class _End:
    """What the end records say: where they begin and stop, and where the directory is."""

    start: int
    stop: int
    count: int
    directory_size: int
    directory_offset: int
    comment: int  # its length, as the record says

    @property
    def shift(self) -> int:
        """How far the directory lies behind where the end record says: 0 in a sound archive."""
        return self.start - self.directory_size - self.directory_offset


@dataclasses.dataclass(frozen=True)
class _Entry:
    """One record of the directory."""

    name: bytes
    made_by: int
    flags: int
    method: int
    crc: int
    stored: int
    size: int
    header: int
    attributes: int

    @property
    def text(self) -> str:
        return self.name.decode("utf-8" if self.flags & _UTF8 else "cp437", "replace")


def reader(file: BinaryIO) -> Read:
    """Reading at an offset, bounded by the end of the file."""

    def read(offset: int, length: int) -> bytes:
        file.seek(offset)
        parts = []
        while length > 0 and (part := file.read(length)):
            parts.append(part)
            length -= len(part)
        return b"".join(parts)

    return read


def read_archive(read: Read, size: int, deflated: bool = False, rooted: bool = True) -> Archive:
    """The directory of an archive of ``size`` bytes, compared with every local header.

    ``deflated`` allows deflated members beside stored ones; ``rooted`` demands one folder that holds everything.
    Raises `ArchiveFault` for everything that leaves the meaning of a byte open; only bytes behind the end are left to the
    caller, because torch tolerates some.
    """
    end, later = _find_end(read, size, _FAR)
    if end is None:
        raise ArchiveFault(
            ProblemKind.TRUNCATED,
            f"the file ends after {size:,} bytes, without a zip directory{_zeros(read, size)}",
            "a zip archive, which ends with its directory",
        )
    if later is not None and end.shift == 0:
        raise ArchiveFault(
            ProblemKind.DAMAGED,
            f"a second zip archive ends at byte {later.stop:,}, behind the first one's end at {end.stop:,}",
            "one archive: zip readers disagree which of two they take",
        )
    if end.shift > 0:
        raise ArchiveFault(ProblemKind.TRAILING, f"{end.shift:,} bytes before the first member", "an archive that begins with it")
    if end.shift < 0:
        raise ArchiveFault(
            ProblemKind.DAMAGED,
            f"{-end.shift:,} bytes fewer than the end record says before the zip directory",
            f"the directory at byte {end.directory_offset:,}",
        )
    if end.comment > size - end.stop:
        raise ArchiveFault(
            ProblemKind.DAMAGED,
            f"{size - end.stop:,} bytes behind the end record",
            f"a comment of {end.comment:,} bytes, as it says",
        )
    if end.count > MOST_MEMBERS or end.directory_size > LARGEST_DIRECTORY:
        raise ArchiveFault(
            ProblemKind.TOO_LARGE,
            f"{end.count:,} members in a directory of {end.directory_size:,} bytes",
            f"at most {MOST_MEMBERS:,} members and {LARGEST_DIRECTORY:,} bytes",
        )
    entries = list(_entries(read, end))
    _check_names([entry.text for entry in entries], rooted)
    members = []
    at = 0
    for entry in sorted(entries, key=lambda entry: entry.header):
        if entry.header != at:
            raise ArchiveFault(ProblemKind.DAMAGED, _gap(entry.header - at), f"the member at byte {at:,}", entry.text)
        member, at = _member(read, entry, deflated)
        members.append(member)
        if at > end.directory_offset:
            raise ArchiveFault(
                ProblemKind.DAMAGED, f"ends at byte {at:,}", f"before the directory at {end.directory_offset:,}", entry.text
            )
    if at != end.directory_offset:
        raise ArchiveFault(ProblemKind.DAMAGED, _gap(end.directory_offset - at), f"the directory at byte {at:,}")
    return Archive(members, size - end.stop)


def member_names(read: Read, size: int) -> Sequence[str]:
    """The names in the directory, in its order; none if there is no directory that can be read. For recognition only."""
    end, _ = _find_end(read, size, _COMMENT + _END_SIZE)
    if end is None or end.shift < 0 or end.count > MOST_MEMBERS or end.directory_size > LARGEST_DIRECTORY:
        return ()
    try:
        return [
            entry.text for entry in _entries(read, dataclasses.replace(end, directory_offset=end.directory_offset + end.shift))
        ]
    except ArchiveFault:
        return ()


def any_members(read: Read, size: int) -> list[Member]:
    """The stored and deflated members that lie in the file, as a lenient reader finds them: by the directory alone.

    Raises `ArchiveFault` when there is no directory that can be followed.
    """
    end, _ = _find_end(read, size, _COMMENT + _END_SIZE)
    if end is None or end.shift < 0 or end.count > MOST_MEMBERS or end.directory_size > LARGEST_DIRECTORY:
        raise ArchiveFault(ProblemKind.DAMAGED, "no zip directory at its end", "a zip archive, which ends with its directory")
    members = []
    for entry in _entries(read, dataclasses.replace(end, directory_offset=end.directory_offset + end.shift)):
        start = entry.header + end.shift
        local = read(start, _LOCAL_SIZE)
        if len(local) < _LOCAL_SIZE or entry.flags & _ENCRYPTED or entry.method not in (STORED, DEFLATED):
            continue
        offset = start + _LOCAL_SIZE + sum(struct.unpack_from("<HH", local, 26))
        if offset + entry.stored <= size:
            members.append(Member(entry.text, entry.method, entry.size, entry.stored, entry.crc, start, offset))
    return members


def leads_out(name: str) -> bool:
    """Whether a member would be unpacked outside of the folder that is meant for it."""
    return name.startswith(("/", "\\")) or ".." in name.replace("\\", "/").split("/") or (name[1:2] == ":" and name[0].isalpha())


def first_name(head: bytes) -> str:
    """The name of the first member, compressed or not, by the first bytes of the file; "" if there is none."""
    if len(head) < _LOCAL_SIZE or not head.startswith(_LOCAL):
        return ""
    (length,) = struct.unpack_from("<H", head, 26)
    return head[_LOCAL_SIZE : _LOCAL_SIZE + length].decode("utf-8", "replace")


def first_member(head: bytes) -> tuple[str, bytes]:
    """The name of a stored first member and the beginning of its data, by the first bytes of the file.

    Both are empty if the file does not begin with such a member; the data are empty if ``head`` ends before them.
    """
    if len(head) < _LOCAL_SIZE or not head.startswith(_LOCAL):
        return "", b""
    method, name_length, extra_length = (*struct.unpack_from("<H", head, 8), *struct.unpack_from("<HH", head, 26))
    name = head[_LOCAL_SIZE : _LOCAL_SIZE + name_length]
    if method != STORED or len(name) < name_length:
        return "", b""
    return name.decode("utf-8", "replace"), head[_LOCAL_SIZE + name_length + extra_length :]


def _zeros(read: Read, size: int) -> str:
    """What to say of NUL bytes where the directory should be: the file may have its full length, and its end was never filled."""
    tail = read(max(0, size - _BLOCK), min(size, _BLOCK))
    zeros = len(tail) - len(tail.rstrip(b"\0"))
    if zeros < _END_SIZE:
        return ""
    return f"; its last {zeros:,} bytes{' or more' if zeros == len(tail) else ''} are NUL"


def _gap(count: int) -> str:
    if count < 0:
        return f"overlaps the member before it by {-count:,} bytes"
    return f"{count:,} bytes before it that belong to nothing"


def _find_end(read: Read, size: int, far: int) -> tuple[_End | None, _End | None]:
    """The end record whose directory lies right before it, else the last one that parses; and one that parses behind it."""
    last = None
    tried = 0
    stop = size
    while stop > max(0, size - far):
        start = max(0, stop - _BLOCK if stop < size else stop - _COMMENT - _END_SIZE)
        block = read(start, stop - start + _END_SIZE - 1)
        found = block.rfind(_END)
        while found >= 0:
            end = _parse_end(read, start + found)
            if end is not None and end.shift == 0:
                return end, last
            last = last or end
            tried += 1
            if tried == _MOST_ENDS:
                return last, None
            found = block.rfind(_END, 0, found + len(_END) - 1)
        stop = start
    return last, None


def _parse_end(read: Read, at: int) -> _End | None:
    record = read(at, _END_SIZE)
    if len(record) < _END_SIZE:
        return None
    disk, first_disk, here, count, directory_size, directory_offset, comment = struct.unpack_from("<HHHHIIH", record, 4)
    if (disk, first_disk) != (0, 0) or here != count:
        return None
    start = at
    tail = read(at - _END64_SIZE - _LOCATOR_SIZE, _END64_SIZE + _LOCATOR_SIZE) if at >= _END64_SIZE + _LOCATOR_SIZE else b""
    if tail.startswith(_END64) and tail[_END64_SIZE:].startswith(_LOCATOR):
        start -= len(tail)
        length, _, disk, first_disk, here64, count64, size64, offset64 = struct.unpack_from("<QIIIQQQQ", tail, 4)
        located_disk, located, disks = struct.unpack_from("<IQI", tail, _END64_SIZE + 4)
        agree = all(
            small in (full, large)
            for small, full, large in (
                (count, _FULL16, count64),
                (directory_size, _FULL32, size64),
                (directory_offset, _FULL32, offset64),
            )
        )
        one_disk = (disk, first_disk, located_disk) == (0, 0, 0) and disks == 1 and here64 == count64
        if not (agree and one_disk) or length != _END64_SIZE - 12 or located != offset64 + size64:
            return None
        count, directory_size, directory_offset = count64, size64, offset64
    if directory_size > start or count * _CENTRAL_SIZE > directory_size:
        return None
    return _End(start, at + _END_SIZE, count, directory_size, directory_offset, comment)


def _entries(read: Read, end: _End) -> Iterator[_Entry]:
    directory = read(end.directory_offset, end.directory_size)
    at = 0
    for _ in range(end.count):
        if len(directory) - at < _CENTRAL_SIZE or directory[at : at + 4] != _CENTRAL:
            raise ArchiveFault(
                ProblemKind.DAMAGED,
                f"no directory record at byte {end.directory_offset + at:,}",
                f"{end.count:,} records in the zip directory",
            )
        (
            made_by,
            _needed,
            flags,
            method,
            _time,
            _date,
            crc,
            stored,
            size,
            name_length,
            extra_length,
            comment_length,
            disk,
            _internal,
            attributes,
            header,
        ) = struct.unpack_from("<HHHHHHIIIHHHHHII", directory, at + 4)
        name = directory[at + _CENTRAL_SIZE : at + _CENTRAL_SIZE + name_length]
        extra = directory[at + _CENTRAL_SIZE + name_length : at + _CENTRAL_SIZE + name_length + extra_length]
        at += _CENTRAL_SIZE + name_length + extra_length + comment_length
        large = _zip64(extra)
        if size == _FULL32:
            size, large = _next64(large)
        if stored == _FULL32:
            stored, large = _next64(large)
        if header == _FULL32:
            header, large = _next64(large)
        if disk != 0:
            raise ArchiveFault(ProblemKind.DAMAGED, "a member on another disk of a split archive", "one file", _shown(name))
        yield _Entry(name, made_by, flags, method, crc, stored, size, header, attributes)
    if at != len(directory):
        raise ArchiveFault(
            ProblemKind.DAMAGED,
            f"{len(directory) - at:,} bytes left over in the zip directory",
            f"{end.count:,} records that fill it",
        )


def _zip64(extra: bytes) -> bytes:
    """The content of the zip64 field of an extra field, empty if there is none."""
    at = 0
    while at + 4 <= len(extra):
        tag, length = struct.unpack_from("<HH", extra, at)
        if tag == _ZIP64_FIELD:
            return extra[at + 4 : at + 4 + length]
        at += 4 + length
    return b""


def _next64(field: bytes) -> tuple[int, bytes]:
    if len(field) < 8:
        raise ArchiveFault(ProblemKind.DAMAGED, "a size that needs a zip64 field, which is absent", "the zip64 field")
    return int.from_bytes(field[:8], "little"), field[8:]


def _check_names(names: Sequence[str], rooted: bool) -> None:
    seen: dict[str, str] = {}
    for name in names:
        fault = _name_fault(name if rooted else f"root/{name}")
        if fault:
            expected = "relative names below one folder" if rooted else "relative names"
            raise ArchiveFault(ProblemKind.DAMAGED, f"a member's name {fault}", expected, name[:200])
        twin = seen.setdefault(name.casefold(), name)
        if twin is not name:
            raise ArchiveFault(
                ProblemKind.DAMAGED,
                "there twice" if twin == name else f"differs from {twin} in case only",
                "each name once: zip readers disagree which of two they take",
                name,
            )
    roots = sorted({name.partition("/")[0] for name in names})
    if rooted and len(roots) > 1:
        raise ArchiveFault(
            ProblemKind.DAMAGED,
            f"{len(roots):,} folders at the top, among them {roots[0]} and {roots[1]}",
            "one folder that holds everything",
        )


def _name_fault(name: str) -> str | None:
    if len(name) > LONGEST_NAME:
        return f"has more than {LONGEST_NAME:,} characters"
    root, slash, below = name.partition("/")  # the root is the stem of the file's name when it was saved, odd or not
    if not root:
        return "is absolute"
    if not slash:
        return "lies in no folder"
    if "\0" in root or any(unicodedata.category(c) in ("Cc", "Cs") for c in below):
        return "holds a control character"
    if "�" in below:
        return "cannot be decoded"
    if "\\" in below:
        return "holds a backslash"
    if below[1:2] == ":" and below[0].isalpha():
        return "is absolute"
    if ".." in name.split("/"):
        return "holds .."
    if below.startswith("/"):
        return "is absolute"
    return None


def _member(read: Read, entry: _Entry, deflated: bool) -> tuple[Member, int]:
    """A member and the offset of what follows it, after its local header and descriptor were compared with the directory."""
    name = entry.text

    def damaged(observed: str, expected: str) -> ArchiveFault:
        return ArchiveFault(ProblemKind.DAMAGED, observed, expected, name)

    if entry.flags & ~(_HAS_DESCRIPTOR | _UTF8 | _DEFLATE_OPTIONS):
        raise damaged(f"encrypted, patched or otherwise special (flags {entry.flags:#06x})", "a plain member")
    if entry.method != STORED and not (deflated and entry.method == DEFLATED):
        raise damaged(f"compressed (method {entry.method})", "a stored member, as torch.save writes it")
    if entry.method == STORED and entry.stored != entry.size:
        raise damaged(f"stored in {entry.stored:,} bytes", f"its {entry.size:,} bytes as they are")
    mode = entry.attributes >> 16 if entry.made_by >> 8 == _UNIX else 0
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise damaged("a link or a special file", "a regular member")
    if entry.size and (name.endswith("/") or entry.attributes & _DOS_FOLDER):
        raise damaged(f"a folder with {entry.size:,} bytes", "a file, or an empty folder")

    local = read(entry.header, _LOCAL_SIZE + len(entry.name))
    if len(local) < _LOCAL_SIZE + len(entry.name) or not local.startswith(_LOCAL):
        raise damaged(f"no local header at byte {entry.header:,}", "one there, as the directory says")
    _needed, flags, method, _time, _date, crc, stored, size, name_length, extra_length = struct.unpack_from(
        "<HHHHHIIIHH", local, 4
    )
    if name_length != len(entry.name) or local[_LOCAL_SIZE:] != entry.name:
        raise damaged(f"the local header says {_shown(local[_LOCAL_SIZE:])}", f"{name}, as the directory says")
    extra = read(entry.header + len(local), extra_length)
    large = _zip64(extra)
    if stored == _FULL32 and size == _FULL32 and len(large) >= 16:
        size, stored = struct.unpack_from("<QQ", large)
    if (flags, method) != (entry.flags, entry.method):
        raise damaged(
            f"flags {flags:#06x} and method {method} in the local header",
            f"{entry.flags:#06x} and {entry.method}, as in the directory",
        )
    in_directory = (entry.crc, entry.stored, entry.size)
    if (crc, stored, size) != in_directory and not (flags & _HAS_DESCRIPTOR and (crc, stored, size) == (0, 0, 0)):
        raise damaged(
            f"{size:,} bytes with CRC {crc:08x} in the local header", f"{entry.size:,} with {entry.crc:08x}, as in the directory"
        )
    offset = entry.header + len(local) + extra_length
    end = offset + entry.stored
    if flags & _HAS_DESCRIPTOR:
        layout = "<4sIQQ" if large or max(entry.stored, entry.size) > _FULL32 else "<4sIII"
        descriptor = read(end, struct.calcsize(layout))
        if descriptor != struct.pack(layout, _DESCRIPTOR, *in_directory):
            raise damaged(
                f"no data descriptor at byte {end:,} that agrees with the directory",
                f"{entry.size:,} bytes with CRC {entry.crc:08x}",
            )
        end += len(descriptor)
    return Member(name, entry.method, entry.size, entry.stored, entry.crc, entry.header, offset), end


def _shown(name: bytes) -> str:
    return name[:200].decode("utf-8", "backslashreplace")
