"""Folders of torch.distributed.checkpoint: ``.metadata`` and a file ``__<rank>_<number>.distcp`` of each writer.

``.metadata`` is written last and names file, offset and length of every item; each of these ranges is a complete archive of
``torch.save`` with one chunk of a tensor, or with an object. The sharded states of FSDP (``pytorch_model_fsdp_0``,
``optimizer_0``) are such folders. torch's loader believes the ``.metadata``, gives it to ``pickle.load`` and looks at no
checksum; here every range is read once, in the pass over its file, without a process group. Processes that save without
coordination (``use_collectives=False``) write ``__<rank>.metadata`` each instead.

Source: torch/distributed/checkpoint/filesystem.py of torch 2.13, and folders written by it.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import BinaryIO

from .. import paths
from ..tensor_digests import shape_of
from ..text import number
from .base import Depth, FileFacts, Folder, Format, Holds, Pickled, Placed, Problem, ProblemKind, Reading, Source, Unit
from .distributed_metadata import LARGEST, MARK, Piece, Saved, coverage, merged, parse
from .file_sets import combined, once, pass_over
from .optimizer_state import training_parts
from .pickle_survey import BadPickle
from .streaming import exactly
from .torch_object import Tensor, refused_names
from .torch_values import Part, read_values
from .torch_zip import Known, contents
from .zip_archive import ArchiveFault, Read, read_archive, reader

NAME = "torch distributed checkpoint"
METADATA = ".metadata"
_METADATA = re.compile(r"(__[0-9]+)?\.metadata")
_UNFINISHED = re.compile(r"(__[0-9]+)?\.metadata\.tmp")
_DATA = re.compile(r".+\.distcp")
_SHOWN = 3
_OPTIMIZER = re.compile(r"optim(izer)?s?\b.*")


def gather(folder: Folder) -> Iterator[Unit]:
    """The checkpoint of a folder: the files of its writers, its metadata, or both."""
    metadata = [candidate for name, candidate in folder.candidates.items() if _METADATA.fullmatch(name)]
    data = [candidate.path for name, candidate in folder.candidates.items() if _DATA.fullmatch(name)]
    if not data and not any(MARK in candidate.head for candidate in metadata):
        return
    left = [candidate.path for name, candidate in folder.candidates.items() if _UNFINISHED.fullmatch(name)]
    yield Unit(NAME, folder.path, (*sorted(candidate.path for candidate in metadata), *sorted(data), *left))


def read(unit: Unit, source: Source) -> Reading:
    """The metadata, the files that it names, and every item in them."""
    place = paths.join(unit.path, METADATA)
    there = [path for path in unit.files if source.exists(path)]
    data = [path for path in there if _DATA.fullmatch(_name(path))]
    facts = [pass_over(path, source) for path in there if path not in data]
    metadata = [place] if place in there else [path for path in there if _METADATA.fullmatch(_name(path))]
    try:
        saved = _saved(unit, metadata, data, source)
    except _Unusable as reason:
        return _unread(data, facts, [reason.problem], source)
    problems, strange = _strangers(saved, metadata[0])
    if strange:
        return _unread(data, facts, problems, source)
    by_file, found = _by_file(unit.path, metadata[0], saved, data)
    problems += [*found, *_coverage(saved, metadata[0])]
    if not saved.tensors:
        problems.append(Problem(ProblemKind.NO_TENSORS, metadata[0], "it names no tensor", "at least one tensor"))
    files = [_File(path, by_file.get(path, ()), saved, source).read() for path in data]
    whole = combined(NAME, files, problems, facts)
    names = [name for name, tensor in saved.tensors.items() if tensor.elements]
    return dataclasses.replace(
        whole,
        tensors=len(saved.tensors),
        elements=sum(tensor.elements for tensor in saved.tensors.values()),
        dtypes=collections.Counter(tensor.dtype for tensor in saved.tensors.values()),
        only_state=bool(names) and all(_OPTIMIZER.fullmatch(name.partition(".")[0]) for name in names),
        parts=training_parts([*saved.tensors, *saved.objects], {}),
        layout=_layout(saved, {label: placed for reading in files for label, placed in reading.layout.items()}),
    )


def _layout(saved: Saved, items: Mapping[str, Placed]) -> Mapping[str, Placed]:
    """The tensors, of those that were saved in several chunks too where these are blocks of their rows."""
    pieces: dict[str, list[Piece]] = {}
    for piece in saved.pieces:
        pieces.setdefault(piece.name, []).append(piece)
    found = {}
    for name, tensor in saved.tensors.items():
        own = [items.get(piece.label) for piece in sorted(pieces.get(name, ()), key=lambda piece: piece.offsets or ())]
        placed = [item for item in own if item is not None]
        shape = shape_of(tensor.dtype, tensor.shape)
        if len(placed) < len(own) or any(chunk.sizes[1:] != tensor.shape[1:] for chunk in tensor.chunks):
            found[name] = Placed(tensor.dtype, shape, METADATA, None, tensor.elements)  # where its values lie is not known
        elif len(placed) == 1:
            found[name] = placed[0]
        else:
            found[name] = Placed(tensor.dtype, shape, placed[0].path if placed else METADATA, None,
                                 sum(item.length for item in placed), parts=tuple(placed))
    return found


class _Unusable(Exception):
    """There is no metadata, or none that says anything."""

    def __init__(self, kind: ProblemKind, path: str, observed: str, expected: str) -> None:
        super().__init__(observed)
        self.problem = Problem(kind, path, observed, expected)


def _saved(unit: Unit, metadata: Sequence[str], data: Sequence[str], source: Source) -> Saved:
    if not metadata:
        unfinished = [path for path in unit.files if _UNFINISHED.fullmatch(_name(path))]
        why = f"; the save was not finished ({_name(unfinished[0])})" if unfinished else ""
        raise _Unusable(ProblemKind.SHARD_INDEX, paths.join(unit.path, METADATA),
                        f"{len(data):,} files of a distributed checkpoint and no {METADATA} (or an empty one), which is written "
                        f"last{why}",
                        f"{METADATA}, without which nothing of them can be loaded")
    size = sum(source.size(path) for path in metadata)
    if size > LARGEST:
        raise _Unusable(ProblemKind.TOO_LARGE, metadata[0], f"{size:,} bytes of metadata", f"at most {LARGEST:,} bytes")
    parts = []
    for path in metadata:
        with source.open(path) as file:
            content = exactly(file, 0, source.size(path))
        try:
            parts.append(parse(content))
        except BadPickle as error:
            kind = ProblemKind.TRUNCATED if error.incomplete else ProblemKind.DAMAGED
            raise _Unusable(kind, path, f"{len(content):,} bytes that are no metadata: {error}",
                            "a complete pickle of the metadata") from None
    return merged(parts)


def _unread(data: Sequence[str], facts: Sequence[FileFacts], problems: Sequence[Problem], source: Source) -> Reading:
    return Reading(NAME, None, [*facts, *(pass_over(path, source) for path in data)], problems)


def _strangers(saved: Saved, place: str) -> tuple[list[Problem], bool]:
    """What is to be said of names that do not belong into the metadata, and whether nothing of it is to be believed."""
    problems, unsafe = [], False
    if saved.trailing:
        problems.append(Problem(ProblemKind.TRAILING, place, f"{saved.trailing:,} bytes behind the end of the metadata", "none"))
    if saved.strangers:
        found, _ = refused_names(saved.strangers, place)
        problems += found
        unsafe = any(problem.kind is ProblemKind.UNSAFE_GLOBAL for problem in found)
    return problems, unsafe


def _by_file(
    folder: str, place: str, saved: Saved, data: Sequence[str]
) -> tuple[Mapping[str, Sequence[Piece]], list[Problem]]:
    """The pieces of each file that is there, in their order, and what is wrong with the files that the metadata names."""
    problems = []
    by_file: dict[str, list[Piece]] = {}
    refused: dict[str, str] = {}
    for piece in saved.pieces:
        if fault := paths.fault(piece.file) or (None if paths.normal(piece.file) else "it names no file"):
            refused[piece.file] = fault
        else:
            by_file.setdefault(paths.join(folder, paths.normal(piece.file)), []).append(piece)
    for name, why in itertools.islice(refused.items(), 1):
        problems.append(Problem(ProblemKind.SHARD_INDEX, place, f"the metadata names the file {name[:80]!r}: {why}",
                                "a file in the same folder", count=len(refused)))
    absent = sorted(path for path in by_file if path not in data)
    if absent:
        items = sum(len(by_file[path]) for path in absent)
        problems.append(Problem(
            ProblemKind.SHARD_MISSING, absent[0],
            f"{len(absent):,} of {len(by_file):,} files are absent, with {items:,} of {len(saved.pieces):,} items: "
            + _some(absent),
            f"the {len(by_file):,} files that {METADATA} names", count=len(absent)))
    unnamed = [path for path in data if path not in by_file]
    if unnamed and not refused:
        problems.append(Problem(ProblemKind.SHARD_INDEX, unnamed[0],
                                f"{number(len(unnamed), 'file')} that {METADATA} does not name: {_some(unnamed)}",
                                "the files of one save in the folder", count=len(unnamed)))
    return {path: sorted(pieces, key=lambda piece: piece.start) for path, pieces in by_file.items()}, problems


def _coverage(saved: Saved, place: str) -> Iterator[Problem]:
    """Tensors whose chunks are not exactly the tensor, and chunks of which nothing says where they lie."""
    placed = {(piece.name, piece.offsets) for piece in saved.pieces}
    odd = [(name, fault) for name, tensor in saved.tensors.items() for fault in coverage(tensor)]
    lost = [name for name, tensor in saved.tensors.items() for chunk in tensor.chunks
            if chunk.elements and (name, chunk.offsets) not in placed]
    lost += [name for name in saved.objects if not {(name, None), (name, ())} & placed]
    unknown = [piece.name for piece in saved.pieces if piece.name not in saved.tensors and piece.name not in saved.objects]
    if odd:
        yield Problem(ProblemKind.SHARD_INDEX, place, f"{odd[0][0]}: {odd[0][1]}", "chunks that cover the tensor once",
                      odd[0][0], len(odd))
    if lost:
        yield Problem(ProblemKind.SHARD_INDEX, place,
                      f"the metadata does not say where {number(len(lost), 'item')} of its table can be found",
                      "a place for every item", lost[0], len(lost))
    if unknown:
        yield Problem(ProblemKind.SHARD_INDEX, place,
                      f"the metadata has {number(len(unknown), 'place')} of items that its table lacks",
                      "a place for every item and no other", unknown[0], len(unknown))


class _File:
    """The reading of one file with the items in it."""

    def __init__(self, path: str, pieces: Sequence[Piece], saved: Saved, source: Source) -> None:
        self._path, self._pieces, self._saved, self._source = path, pieces, saved, source
        self._size = source.size(path)
        self._problems: list[Problem] = []
        self._parts: list[Part] = []
        self._tensors: list[Tensor] = []
        self._known: Known = {}
        self._readable = True

    def read(self) -> Reading:
        with self._source.open(self._path) as file:
            for number, piece in enumerate(self._whole()):
                self._piece(file, number, piece)
            values = read_values(file, self._size, self._parts, self._tensors, self._path, self._source)
        deep = self._readable and self._source.depth >= Depth.TENSORS
        return Reading(NAME, Depth.TENSORS if deep else Depth.HEADER, [FileFacts(self._path, self._size, values.sha256)],
                       once(_counted([*self._problems, *values.problems])), bytes_read=values.bytes_read, layout=values.layout)

    def _whole(self) -> Iterator[Piece]:
        """The pieces that lie in the file as a whole and apart from each other."""
        end = 0
        cut = [piece for piece in self._pieces if piece.start + piece.length > self._size]
        for piece in self._pieces:
            if piece.start + piece.length > self._size:
                continue
            if piece.start < end:
                self._report(ProblemKind.SHARD_INDEX, f"it begins at byte {piece.start:,}, inside the item before it",
                             f"byte {end:,} or later", piece)
                continue
            if piece.start > end:
                self._report(ProblemKind.SHARD_INDEX, f"{piece.start - end:,} bytes before it that belong to no item",
                             f"byte {end:,}", piece)
            end = piece.start + piece.length
            yield piece
        if cut:
            needed = max(piece.start + piece.length for piece in cut)
            self._problems.append(Problem(
                ProblemKind.TRUNCATED, self._path,
                f"the file ends after {self._size:,} bytes: {len(cut):,} of its {len(self._pieces):,} items are cut",
                f"{needed:,} bytes, as {METADATA} says ({needed - self._size:,} are missing)", cut[0].label, len(cut)))
        elif self._pieces and end < self._size:
            behind = f"{self._size - end:,} bytes behind the last item"
            self._problems.append(Problem(ProblemKind.TRAILING, self._path, behind, "none"))

    def _piece(self, file: BinaryIO, number: int, piece: Piece) -> None:
        if piece.transformed:
            self._readable = False
            self._report(ProblemKind.UNREADABLE_KIND, "an item that an extension transformed (compressed, encrypted)",
                         "items as torch.save writes them", piece)
            return
        try:
            archive = read_archive(_window(file, piece), piece.length)
        except ArchiveFault as fault:
            self._readable = False
            self._report(fault.kind, f"the item at byte {piece.start:,}: {fault.observed}", fault.expected, piece)
            return
        found = contents(file, archive, self._path, piece.start, self._known)
        is_tensor = piece.name in self._saved.tensors
        for problem in found.problems:
            if problem.kind is not ProblemKind.NO_TENSORS:
                self._problems.append(dataclasses.replace(problem, where=piece.label if is_tensor else piece.name))
        self._readable &= found.readable
        if is_tensor and found.readable:
            self._compare(piece, found.tensors or ())
        own = f"{number}/"
        self._parts += [dataclasses.replace(part, key=own + part.key if part.key is not None else None) for part in found.parts]
        for tensor in found.sound:
            name = piece.label if not tensor.name else f"{piece.name}.{tensor.name}"
            self._tensors.append(dataclasses.replace(tensor, key=own + tensor.key, name=name))

    def _compare(self, piece: Piece, tensors: Sequence[Tensor]) -> None:
        """Whether the archive holds the chunk that the metadata announces."""
        saved = self._saved.tensors[piece.name]
        sizes = next((chunk.sizes for chunk in saved.chunks if chunk.offsets == (piece.offsets or chunk.offsets)), saved.shape)
        there = [(tensor.dtype, tensor.shape) for tensor in tensors]
        if there != [(saved.dtype, sizes)]:
            said = f"{there[0][0]} {list(there[0][1])}" if len(there) == 1 else f"{len(there):,} tensors"
            self._report(ProblemKind.SHARD_INDEX, f"the item is {said}",
                         f"{saved.dtype} {list(sizes)}, as {METADATA} says", piece)

    def _report(self, kind: ProblemKind, observed: str, expected: str, piece: Piece) -> None:
        self._problems.append(Problem(kind, self._path, observed, expected, piece.label))


def _window(file: BinaryIO, piece: Piece) -> Read:
    """Reading at an offset in one item, bounded by its end."""
    whole = reader(file)

    def read(offset: int, length: int) -> bytes:
        return whole(piece.start + offset, max(0, min(length, piece.length - offset)))

    return read


def _counted(problems: Sequence[Problem]) -> Iterator[Problem]:
    """Of each kind of fault of a file the first, with the number of them."""
    kinds: dict[ProblemKind, list[Problem]] = {}
    for problem in problems:
        kinds.setdefault(problem.kind, []).append(problem)
    for same in kinds.values():
        yield dataclasses.replace(same[0], count=sum(problem.count for problem in same))


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _some(files: Sequence[str]) -> str:
    more = f" and {len(files) - _SHOWN:,} more" if len(files) > _SHOWN else ""
    return ", ".join(map(_name, files[:_SHOWN])) + more


FORMAT = Format(
    NAME, Depth.TENSORS, read, gather=gather,
    aliases=("pytorch", "torch", "dcp", "fsdp", "distcp"), pickled=Pickled.YES, holds=Holds.STATE)
