"""What is said of the bytes of the files in a campaign, and where: manifest, lists of digests, BagIt bags.

BagIt: RFC 8493. A bag is a folder with ``bagit.txt``; its payload lies in ``data``. From version 1.0 on each payload manifest
must list every payload file, before that one of them. The tag files are written in the encoding that ``bagit.txt`` names.
"""

from __future__ import annotations

import codecs
import dataclasses
import enum
import functools
import posixpath
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from . import paths
from .campaign import Campaign, DeclaredFile, Deliverable
from .file_names import bag_manifest, digest_algorithm, in_tool_folder, may_list_digests, signed
from .inventory import FILE, FOLDER, LINK, Changed, Entry
from .readers import digest_lines
from .readers.digest_lines import DIGITS, BadLine, Line

LARGEST_LIST = 64 * 2**20
_LARGEST_TAG_FILE = 2**20
_MOST_BAD_LINES = 1000
_LONGEST = 100  # characters of a line in a message
BAGIT, FETCH, PAYLOAD = "bagit.txt", "fetch.txt", "data"
_INFO = ("bag-info.txt", "package-info.txt")  # the latter up to BagIt 0.95
# No other encoding is taken: Python's registry also holds codecs that are no text encodings at all.
_ENCODINGS = frozenset({"utf-8", "ascii", "iso8859-1", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "cp1252"})
_ELEMENT = re.compile(r"\ufeff?[ \t]*([^:\s][^:]*?)[ \t]*:[ \t]*(.*?)[ \t]*")
_FOREIGN = re.compile(r"~|[A-Za-z]:[\\/]|\\\\")  # a home directory, a drive, a server

Read = Callable[[Entry, int], bytes]
T = TypeVar("T")


class FaultKind(enum.StrEnum):
    """What can be wrong with a list of digests or a bag."""

    LINE = "line"  # a line that is no digest
    UNREADABLE = "unreadable"  # the machine could not read it, or it is larger than is read
    CHANGED = "changed"
    ABSENT = "absent"  # announced, and not there
    ALGORITHM = "algorithm"  # digests that cannot be computed here
    OUTSIDE = "outside"  # a name that leads out of the bag or the campaign
    HIGHER = "higher"  # names as seen from a folder higher up
    TWICE = "twice"  # one file in several lines, which a bag of version 1.0 forbids
    TWICE_TOLERATED = "twice-tolerated"
    BAG = "bag"  # what makes a folder a bag is faulty
    OXUM = "oxum"  # number and size of the payload
    FETCH = "fetch"  # to be fetched, and not there
    UNLISTED = "unlisted"  # a payload file that a payload manifest does not list
    FORM = "form"  # a name in another Unicode form


@dataclasses.dataclass(frozen=True)
class Fault:
    """One thing that is wrong with a list of digests or a bag.

    ``path`` is the file that is spoken of, which also decides whose fault it is; ``line`` is one of it. ``nested``: it lies in
    the payload of a bag, which vouches for it as it is.
    """

    kind: FaultKind
    path: str
    message: str
    line: int | None = None
    observed: str | None = None
    expected: str | None = None
    nested: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Declared:
    """What one place says of one file: its size, a digest with its algorithm, or only that it should be there.

    ``path`` is the file, ``entry`` what lies there; ``file`` is the document that says it, with ``line`` or ``pointer``;
    ``nested``: it lies in the payload of a bag, which vouches for it as it is.
    """

    path: str
    entry: Entry | None
    file: str
    line: int | None = None
    pointer: str | None = None
    size: int | None = None
    algorithm: str | None = None
    digest: str | None = None
    nested: bool = False

    @property
    def place(self) -> str:
        """``SHA256SUMS:12`` or ``manifest.json#/datasets/test``."""
        if self.line is not None:
            return f"{self.file}:{self.line}"
        return f"{self.file}#{self.pointer}" if self.pointer else self.file


@dataclasses.dataclass(frozen=True)
class Declarations:
    """Everything that is said of files of a campaign.

    ``listed`` is what lists of digests, bags and data sets say of files that are there, by the path of their entry; ``gone`` what
    they say of files that are not. ``algorithms`` are those of all the digests of a file, the manifest's file lists included.
    """

    listed: Mapping[str, Sequence[Declared]]
    gone: Sequence[Declared]
    faults: Sequence[Fault]
    algorithms: Mapping[str, frozenset[str]]
    _owners: Callable[[str], str | None]

    @functools.cached_property
    def gone_by_owner(self) -> Mapping[str | None, Sequence[Declared]]:
        """What is gone, by the path of the deliverable around it; None: of no deliverable."""
        return _grouped(self.gone, lambda declared: self._owners(declared.path))

    @functools.cached_property
    def faults_by_owner(self) -> Mapping[str | None, Sequence[Fault]]:
        """The faults, by the path of the deliverable around them; None: of no deliverable."""
        return _grouped(self.faults, lambda fault: self._owners(fault.path))


def _grouped(items: Iterable[T], owner: Callable[[T], str | None]) -> Mapping[str | None, Sequence[T]]:
    found: dict[str | None, list[T]] = {}
    for item in items:
        found.setdefault(owner(item), []).append(item)
    return found


def from_files(files: Sequence[DeclaredFile], campaign: Campaign, document: str, pointer: str | None) -> Iterator[Declared]:
    """What a list of files in a JSON document says; ``pointer`` leads to the list, None when its entries are not pointed to."""
    for number, file in enumerate(files):
        yield Declared(
            file.path, _file(campaign, file.path), document, pointer=None if pointer is None else f"{pointer}/{number}",
            size=file.bytes, algorithm="sha256" if file.sha256 else None, digest=file.sha256)


def of_deliverable(campaign: Campaign, deliverable: Deliverable) -> Iterator[Declared]:
    """What the manifest says of a deliverable's files."""
    if deliverable.place is not None:
        files = [file for file in deliverable.files if "\0" not in file.path]  # the check of the manifest rejects the others
        yield from from_files(files, campaign, deliverable.place.file, f"{deliverable.place.pointer}/files")


def of_baseline(campaign: Campaign, deliverable: Deliverable) -> Iterator[Declared]:
    """What an earlier report says of a deliverable's files."""
    earlier = campaign.earlier.by_id.get(deliverable.id) if campaign.earlier is not None else None
    if campaign.earlier is not None and earlier is not None:
        yield from from_files(earlier.files, campaign, campaign.earlier.file, None)


def declarations(campaign: Campaign, read: Read) -> Declarations:
    """All that is said. ``read(entry, limit)`` gives the first bytes of a file, OSError when it cannot be read."""
    reading = _Reading(campaign, read)
    reading.run()
    everything = [*reading.declared, *_datasets(campaign)]
    listed: dict[str, list[Declared]] = {}
    for declared in everything:
        if declared.entry is not None:
            listed.setdefault(declared.entry.path, []).append(declared)
    algorithms: dict[str, set[str]] = {}
    own = (declared for d in campaign.deliverables for of in (of_deliverable, of_baseline) for declared in of(campaign, d))
    for declared in (*everything, *own):
        if declared.entry is not None and declared.algorithm in DIGITS:
            algorithms.setdefault(declared.entry.path, set()).add(declared.algorithm)
    faults = [*reading.faults, *reading.unknown_algorithms(algorithms)]
    return Declarations(listed, [declared for declared in everything if declared.entry is None], faults,
                        {path: frozenset(names) for path, names in algorithms.items()}, campaign.owner)


def _file(campaign: Campaign, path: str) -> Entry | None:
    entry = campaign.inventory.resolve(path)
    return entry if entry is not None and entry.kind == FILE else None


def _datasets(campaign: Campaign) -> Iterator[Declared]:
    for dataset in campaign.manifest.datasets.values() if campaign.manifest else ():
        if dataset.path is not None and "\0" not in dataset.path and dataset.sha256 is not None:
            yield Declared(dataset.path, _file(campaign, dataset.path), dataset.place.file, pointer=dataset.place.pointer,
                           algorithm="sha256", digest=dataset.sha256)


@dataclasses.dataclass(frozen=True)
class _Bag:
    """A bag: its folder, its version (None when that cannot be told) and the encoding of its tag files."""

    folder: str
    version: tuple[int, int] | None
    encoding: str


class _Reading:
    """Reads every list of digests and every bag of a campaign once."""

    def __init__(self, campaign: Campaign, read: Read) -> None:
        self.declared: list[Declared] = []
        self.faults: list[Fault] = []
        self._inventory = campaign.inventory
        self._read = read
        self._unknown: dict[tuple[str, str], list[str]] = {}  # files by (list, algorithm)
        self._payloads: frozenset[str] = frozenset()

    def run(self) -> None:
        bags: dict[str, list[Entry]] = {}  # manifests by folder
        lists: list[Entry] = []
        for entry in self._inventory.entries:
            if entry.kind == FOLDER or in_tool_folder(entry.path):
                continue
            folder, name = posixpath.split(entry.path)
            if name == BAGIT:
                bags.setdefault(folder, [])
            elif bag_manifest(entry.path) is not None:
                bags.setdefault(folder, []).append(entry)
            elif may_list_digests(entry.path):
                lists.append(entry)
            elif (list_ := signed(entry.path)) != entry.path and may_list_digests(list_) and list_ not in self._inventory.by_path:
                self._fault(FaultKind.ABSENT, list_, f"{entry.path} signs it, and it is not there",
                            expected="a list of digests")
        bags = {folder: manifests for folder, manifests in bags.items()
                if paths.join(folder, BAGIT) in self._inventory.by_path or self._is_folder(paths.join(folder, PAYLOAD))}
        self._payloads = frozenset(paths.join(folder, PAYLOAD) for folder in bags)
        for entry in lists:
            self._list(entry)
        for folder, manifests in bags.items():
            self._bag(folder, manifests)

    def unknown_algorithms(self, known: Mapping[str, object]) -> Iterator[Fault]:
        """Lists in algorithms that are not known here, as far as nothing else has a digest of their files."""
        for (path, algorithm), files in self._unknown.items():
            if left := [file for file in files if file not in known]:
                yield Fault(FaultKind.ALGORITHM, path, f"its digests ({algorithm}) cannot be computed here, and {len(left):,} of "
                            "its files have no other", observed=algorithm, expected=", ".join(DIGITS))

    def _is_folder(self, path: str) -> bool:
        entry = self._inventory.resolve(path)
        return entry is not None and entry.kind == FOLDER

    def _fault(self, kind: FaultKind, path: str, message: str, line: int | None = None, observed: str | None = None,
               expected: str | None = None) -> None:
        nested = self._nested(path, payload=kind in (FaultKind.UNLISTED, FaultKind.FETCH))
        self.faults.append(Fault(kind, path, message, line, observed, expected, nested))

    def _nested(self, path: str, payload: bool = False) -> bool:
        """Whether a list (with ``payload`` a file of the bag itself) lies in the payload of another bag."""
        around = [folder for folder in paths.above(path) if folder in self._payloads]
        return len(around) > payload

    def _bytes(self, path: str, limit: int) -> bytes | None:
        """The content of a list or a tag file; None when there is none, which a fault then says."""
        entry = self._inventory.resolve(path)
        if entry is None or entry.kind == FOLDER:
            link = self._inventory.by_path.get(path)
            why = f"it is a link to {link.link}, which is not in the directory" if link and link.kind == LINK else "it is no file"
            self._fault(FaultKind.ABSENT, path, why, observed="no file", expected="a file")
            return None
        if entry.kind != FILE:
            self._fault(FaultKind.UNREADABLE, path, f"it cannot be read: {entry.problem or 'it is no regular file'}")
            return None
        if entry.size > limit:
            self._fault(FaultKind.UNREADABLE, path, f"it has {entry.size:,} bytes, and at most {limit:,} are read")
            return None
        try:
            return self._read(entry, limit)
        except Changed as error:
            self._fault(FaultKind.CHANGED, path, str(error))
        except OSError as error:
            self._fault(FaultKind.UNREADABLE, path, f"it cannot be read: {error.strerror or error}")
        return None

    # ---- lists of digests

    def _list(self, entry: Entry) -> None:
        target = self._inventory.resolve(entry.path)
        if entry.kind == LINK and target is not None and may_list_digests(target.path):
            return  # it is read where it lies
        data = self._bytes(entry.path, LARGEST_LIST)
        if data is None:
            return
        algorithm, folder = digest_algorithm(entry.path), posixpath.dirname(entry.path)
        text = digest_lines.decode(data)
        alone = None
        if algorithm is not None and len(text.split(None, 2)) == 1:  # a digest and nothing else: of what the list is named after
            alone = re.sub(r"\.[^.]+$", "", posixpath.basename(entry.path.removesuffix(".txt")))
        lines = list(digest_lines.parse(text, algorithm, alone))
        if algorithm is None and not digest_lines.is_list(lines, text):
            return
        self._lines(entry.path, *self._as_written(entry.path, folder, lines), None)

    def _as_written(self, path: str, folder: str, lines: Sequence[Line | BadLine]) -> tuple[str, Sequence[Line | BadLine]]:
        """The folder from which a list was written, and its lines as seen from there, with a fault where that is higher up.

        A list in a folder of its own, of which only the names as seen from the campaign directory lead to files, is sound.
        """
        named = [line for line in lines if isinstance(line, Line)]
        names = [line.names[0].removeprefix("./") for line in named]
        if folder and not any(self._is_file(paths.join(folder, name)) for name in names) and any(map(self._is_file, names)):
            return "", lines
        above = self._higher(folder, names)
        if not above:
            return folder, lines
        self._fault(FaultKind.HIGHER, path, f"it was written from a folder higher up: all its names begin with {above}, which is "
                    "not there, and are read without it", named[0].number, named[0].names[0][:_LONGEST],
                    named[0].names[0].removeprefix("./").removeprefix(above)[:_LONGEST])
        return folder, [line._replace(names=tuple(name.removeprefix("./").removeprefix(above) for name in line.names))
                        if isinstance(line, Line) else line for line in lines]

    def _higher(self, folder: str, names: Sequence[str]) -> str:
        """The folders with which all names begin and which are not there, where without them a name leads to a file; else ""."""
        parts = posixpath.commonprefix([name.split("/")[:-1] for name in (min(names), max(names))]) if names else []
        if not parts or parts[0] in ("", "..", ".") or _FOREIGN.match(parts[0]):
            return ""
        if self._inventory.exists(paths.join(folder, parts[0])):
            return ""
        starts = ("/".join(parts[:count]) + "/" for count in range(1, len(parts) + 1))
        return next((start for start in starts if any(self._is_file(paths.join(folder, n[len(start):])) for n in names)), "")

    def _is_file(self, path: str) -> bool:
        entry = self._inventory.resolve(path)
        return entry is not None and entry.kind == FILE

    def _lines(self, path: str, folder: str, lines: Iterable[Line | BadLine], bag: _Bag | None) -> set[str]:
        """Take in the lines of a list; the paths of the entries that it names."""
        named: set[str] = set()
        seen: dict[str, tuple[int, str]] = {}
        bad, nested = 0, self._nested(path)
        for line in lines:
            if isinstance(line, BadLine):
                bad += 1
                if bad <= _MOST_BAD_LINES:
                    self._fault(FaultKind.LINE, path, f"it is no line of a list of digests; expected: {line.why}", line.number,
                                repr(line.text[:_LONGEST]), line.why)
                continue
            found = self._find(path, line.number, folder, line.names, bag)
            if found is None:
                continue
            name, entry = found
            if name == path:  # `sha256sum * > SHA256SUMS` lists the list itself, as it was before it was written
                continue
            if entry is not None:
                named.add(entry.path)
            known = line.algorithm in DIGITS
            if not known and entry is not None:
                self._unknown.setdefault((path, line.algorithm), []).append(entry.path)
            self.declared.append(Declared(name, entry, path, line.number, algorithm=line.algorithm if known else None,
                                          digest=line.digest if known else None, nested=nested))
            before = seen.setdefault(name, (line.number, line.digest))
            if before[0] != line.number and before[1] == line.digest and bag is not None:
                old = bag.version is not None and bag.version < (1, 0)
                self._fault(FaultKind.TWICE_TOLERATED if old else FaultKind.TWICE, path,
                            f"{name} is listed a second time, first in line {before[0]}", line.number,
                            expected="one line for each file")
        if bad > _MOST_BAD_LINES:
            self._fault(FaultKind.LINE, path, f"{bad:,} lines of it are no lines of a list of digests")
        return named

    def _find(self, path: str, number: int, folder: str, names: Sequence[str],
              bag: _Bag | None) -> tuple[str, Entry | None] | None:
        """The path that a line names and what lies there; None for one that leads outside, which is never followed."""
        plain = self._inventory.by_path.get(paths.join(folder, names[0]))
        if plain is not None and plain.kind == FILE:  # the paths of the table are normal and lead nowhere else
            return plain.path, plain
        first: str | None = None
        for name in self._spellings(names, folder, bag):
            at = posixpath.normpath(posixpath.join("/", folder, name))[1:] if not name.startswith("/") else None
            outside = at is None or _climbs_out(name, folder) or (bag is not None and not paths.inside(at, bag.folder))
            if at is None or outside:
                continue
            first = at if first is None else first
            entry = self._inventory.resolve(at)
            if entry is None and (twin := self._other_form.get(unicodedata.normalize("NFC", at))) is not None:
                entry = self._inventory.resolve(twin)
                self._fault(FaultKind.FORM, path, f"it names {at!a}, and the file is called {twin!a}", number,
                            observed=ascii(twin), expected=ascii(at))
            if entry is not None and entry.kind == FILE:
                return at, entry
        if first is None or _FOREIGN.match(names[0]):
            limit = "the bag" if bag is not None else "the campaign directory"
            self._fault(FaultKind.OUTSIDE, path, f"{names[0]} leads out of {limit}", number, observed=names[0][:_LONGEST],
                        expected="a path relative to the folder of the list")
            return None
        return first, None

    def _spellings(self, names: Sequence[str], folder: str, bag: _Bag | None) -> Iterator[str]:
        """The ways to read a name: as it is; outside of bags also as seen from the campaign, or with ``\\`` for ``/``."""
        yield from names
        if bag is None:
            for name in names:
                relative = name.removeprefix("./")
                if folder and relative.startswith(folder + "/"):
                    yield relative[len(folder) + 1:]
                if "\\" in name:
                    yield name.replace("\\", "/")

    @functools.cached_property
    def _other_form(self) -> Mapping[str, str]:
        """The paths that are not plain ASCII, by their composed form."""
        odd = (entry.path for entry in self._inventory.entries if not entry.path.isascii())
        return {unicodedata.normalize("NFC", path): path for path in odd}

    # ---- bags

    def _bag(self, folder: str, manifests: Sequence[Entry]) -> None:
        bag = self._declaration(folder)
        payload = {entry.path: seen for seen, entry in self._inventory.files(paths.join(folder, PAYLOAD))}
        named: list[tuple[str, set[str]]] = []
        for entry in manifests:
            algorithm, of_tags = bag_manifest(entry.path) or ("", False)
            text = self._tags(bag, entry.path, LARGEST_LIST)
            if text is not None:
                found = self._lines(entry.path, folder, digest_lines.parse_bag(text, algorithm), bag)
                if not of_tags:
                    named.append((entry.path, found))
        if not any(not (bag_manifest(entry.path) or ("", True))[1] for entry in manifests):
            self._fault(FaultKind.ABSENT, paths.join(folder, "manifest-sha256.txt"), "the bag has no payload manifest",
                        observed="none", expected="manifest-sha256.txt or manifest-sha512.txt")
        if bag.version is not None and bag.version < (1, 0) and named:
            named = [(", ".join(path for path, _ in named), set().union(*(found for _, found in named)))]
        for path, found in named:
            for target, seen in payload.items():
                if target not in found:
                    self._fault(FaultKind.UNLISTED, seen, f"it lies in the payload of a bag, and {path} does not list it",
                                observed="an unlisted file", expected=f"a line in {path}")
        self._oxum(bag, payload)
        if self._inventory.exists(paths.join(folder, FETCH)):
            self._fetch(bag, paths.join(folder, FETCH))

    def _declaration(self, folder: str) -> _Bag:
        """The bag that ``bagit.txt`` declares, with faults for what it does not say."""
        path = paths.join(folder, BAGIT)
        unknown = _Bag(folder, None, "utf-8")
        if path not in self._inventory.by_path:
            self._fault(FaultKind.BAG, path, "there are manifests of a bag and no bagit.txt", observed="nothing",
                        expected="bagit.txt")
            return unknown
        data = self._bytes(path, _LARGEST_TAG_FILE)
        if data is None:
            return unknown
        text = data.decode("utf-8", "replace")
        lines = text.splitlines()
        elements = {found[1].lower(): found[2] for line in lines if (found := _ELEMENT.fullmatch(line))}
        version = re.fullmatch(r"([0-9]{1,4})\.([0-9]{1,4})", elements.get("bagit-version", ""))
        number = (int(version[1]), int(version[2])) if version else None
        encoding = _encoding(elements.get("tag-file-character-encoding", ""))
        strict = number is None or number >= (1, 0)
        shape = (r"BagIt-Version: \S+\s*", r"Tag-File-Character-Encoding: \S+\s*")
        if data.startswith(codecs.BOM_UTF8):
            self._fault(FaultKind.BAG, path, "it begins with a byte order mark, which RFC 8493 forbids", 1)
        elif number is None:
            self._fault(FaultKind.BAG, path, "its first line gives no version", 1, observed=repr(text[:_LONGEST]),
                        expected="BagIt-Version: 1.0")
        elif encoding is None:
            self._fault(FaultKind.BAG, path, "its second line gives no encoding that is known", 2, observed=repr(text[:_LONGEST]),
                        expected="Tag-File-Character-Encoding: UTF-8")
        elif strict and not (len(lines) == 2 and all(map(re.fullmatch, shape, lines))):
            self._fault(FaultKind.BAG, path, "it has not exactly the two lines that RFC 8493 asks for", 1,
                        observed=repr(text[:_LONGEST]), expected="'BagIt-Version: 1.0' and 'Tag-File-Character-Encoding: UTF-8'")
        return _Bag(folder, number, encoding or "utf-8")

    def _tags(self, bag: _Bag, path: str, limit: int) -> str | None:
        data = self._bytes(path, limit)
        if data is None:
            return None
        return data.decode(bag.encoding, "surrogateescape" if bag.encoding == "utf-8" else "replace").removeprefix("\ufeff")

    def _oxum(self, bag: _Bag, payload: Mapping[str, str]) -> None:
        for name in _INFO:
            path = paths.join(bag.folder, name)
            text = self._tags(bag, path, _LARGEST_TAG_FILE) if path in self._inventory.by_path else None
            for number, line in enumerate((text or "").splitlines(), 1):
                found = _ELEMENT.fullmatch(line)
                if found is None or found[1].lower() != "payload-oxum":
                    continue
                entries = [self._inventory.by_path[path] for path in payload]
                observed = f"{sum(entry.size for entry in entries)}.{len(entries)}"
                if not re.fullmatch(r"[0-9]{1,20}\.[0-9]{1,10}", found[2]):
                    self._fault(FaultKind.LINE, path, "Payload-Oxum is no size and number of files", number, found[2][:_LONGEST],
                                "bytes.files")
                elif tuple(map(int, found[2].split("."))) != tuple(map(int, observed.split("."))):
                    has, says = (text.replace(".", " bytes in ") for text in (observed, found[2]))
                    self._fault(FaultKind.OXUM, path, f"the payload has {has} files, and Payload-Oxum says {says}", number,
                                observed, found[2])

    def _fetch(self, bag: _Bag, path: str) -> None:
        text = self._tags(bag, path, LARGEST_LIST)
        fetched: set[str] = set()
        for number, line in enumerate(re.split(r"\r\n|\n|\r", text or ""), 1):
            found = re.fullmatch(r"(\S+)[ \t]+([0-9]{1,20}|-)[ \t]+(.+)", line)
            if found is None:
                if line.strip():
                    self._fault(FaultKind.LINE, path, "it is no line of fetch.txt", number, repr(line[:_LONGEST]),
                                "address, length, name")
                continue
            names = dict.fromkeys((digest_lines.percent_decoded(found[3]), found[3]))
            at = self._find(path, number, bag.folder, tuple(names), bag)
            if at is None:
                continue
            if at[1] is None:
                fetched.add(at[0])
                self._fault(FaultKind.FETCH, at[0], f"{path}:{number} says that it is to be fetched from {found[1][:_LONGEST]}, "
                            "and it is not there", observed="nothing", expected="the file")
            elif found[2] != "-":
                self.declared.append(Declared(at[0], at[1], path, number, size=int(found[2])))
        self.declared = [one for one in self.declared if one.entry is not None or one.path not in fetched]


def _encoding(name: str) -> str | None:
    """The codec of an encoding that tag files may have, None for any other."""
    try:
        codec = codecs.lookup(name).name if name.isascii() and len(name) < 40 else ""
    except LookupError:
        return None
    return codec if codec in _ENCODINGS else None


def _climbs_out(name: str, folder: str) -> bool:
    """Whether the ``..`` of a name lead above the campaign directory."""
    depth = len([part for part in folder.split("/") if part])
    for part in name.split("/"):
        if part == "..":
            depth -= 1
        elif part not in ("", "."):
            depth += 1
        if depth < 0:
            return True
    return False
