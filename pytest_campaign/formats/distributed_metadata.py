"""The ``.metadata`` of torch.distributed.checkpoint: which tensors were saved, in which chunks, and where each lies.

The file is a pickle that torch's own loader gives to ``pickle.load``; here it is followed without making any object of it.
Source: torch/distributed/checkpoint/metadata.py and filesystem.py of torch 2.13, and files written by it. Before torch 2.3
the properties of a tensor were a class of ``torch.distributed._shard``.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .pickle_survey import BadPickle, Name
from .pickle_values import Made, load
from .torch_object import DTYPES

LARGEST = 64 << 20
MARK = b"torch.distributed.checkpoint.metadata"  # in the first bytes: the class of the whole
_MODULE = "torch.distributed.checkpoint.metadata."
_FILES = "torch.distributed.checkpoint.filesystem."
_OLDER = "torch.distributed._shard.sharded_tensor.metadata."
_SIZE = "torch.Size"
_PATHS = {f"{module}.{name}" for module in ("pathlib", "pathlib._local")
          for name in ("PosixPath", "PurePosixPath", "WindowsPath", "PureWindowsPath")}
_ALLOWED = frozenset({
    *(_MODULE + name for name in ("Metadata", "TensorStorageMetadata", "BytesStorageMetadata", "ChunkStorageMetadata",
                                  "TensorProperties", "MetadataIndex", "StorageMeta", "_MEM_FORMAT_ENCODING")),
    _FILES + "_StorageInfo", _FILES + "_StoragePrefix", _OLDER + "TensorProperties", _OLDER + "MEM_FORMAT_ENCODING",
    _SIZE, "torch.serialization._get_layout", "collections.OrderedDict", *_PATHS, *(f"torch.{dtype}" for dtype in DTYPES)})
_MOST_COMPARED = 4_000_000  # pairs of chunks that are compared


@dataclasses.dataclass(frozen=True)
class Chunk:
    """A block of a tensor: where it begins and how large it is in each dimension."""

    offsets: tuple[int, ...]
    sizes: tuple[int, ...]

    @property
    def elements(self) -> int:
        return math.prod(self.sizes)


@dataclasses.dataclass(frozen=True)
class SavedTensor:
    """One tensor: its dtype (as safetensors writes it), its shape, and the chunks in which it was saved."""

    dtype: str
    shape: tuple[int, ...]
    chunks: Sequence[Chunk]

    @property
    def elements(self) -> int:
        return math.prod(self.shape)


@dataclasses.dataclass(frozen=True)
class Piece:
    """Where one item lies: ``length`` bytes from ``start`` in ``file`` (as written, to be judged by the reader).

    ``offsets`` tell which chunk of the tensor ``name`` it is; None for an object. ``transformed``: the bytes were compressed or
    otherwise changed by an extension.
    """

    name: str
    offsets: tuple[int, ...] | None
    file: str
    start: int
    length: int
    transformed: bool

    @property
    def label(self) -> str:
        """What a message calls it."""
        return self.name + (f"[{', '.join(map(str, self.offsets))}]" if self.offsets and any(self.offsets) else "")


@dataclasses.dataclass(frozen=True)
class Saved:
    """What the file says. ``strangers`` are names in it that do not belong there, ``trailing`` the bytes behind it."""

    tensors: Mapping[str, SavedTensor]
    objects: Sequence[str]
    pieces: Sequence[Piece]
    strangers: Sequence[Name]
    trailing: int


def parse(data: bytes) -> Saved:
    """What a ``.metadata`` says; BadPickle when it is no complete pickle or not of that kind."""
    loaded = load(data, {_SIZE: _size, "collections.OrderedDict": lambda arguments: {}})
    top = loaded.value
    if not isinstance(top, Made) or top.by != _MODULE + "Metadata":
        raise BadPickle("it describes no checkpoint of torch.distributed.checkpoint")
    items, places = top.get("state_dict_metadata"), top.get("storage_data")
    if not isinstance(items, dict) or not isinstance(places, dict):
        raise BadPickle("it has no table of items, or none of their places")
    tensors: dict[str, SavedTensor] = {}
    objects = []
    for name, item in items.items():
        if not isinstance(name, str) or not isinstance(item, Made):
            raise BadPickle("an item that is neither a tensor nor an object")
        if item.by == _MODULE + "TensorStorageMetadata":
            tensors[name] = _tensor(name, item)
        else:
            objects.append(name)
    pieces = [_piece(index, place) for index, place in places.items()]
    strangers = [name for name in loaded.names if name.name not in _ALLOWED]
    return Saved(tensors, objects, pieces, sorted(strangers, key=lambda name: name.name), len(data) - loaded.end)


def merged(parts: Sequence[Saved]) -> Saved:
    """What the files say together when every process wrote one of its own, of its own chunks (``use_collectives=False``)."""
    if len(parts) == 1:
        return parts[0]
    tensors: dict[str, SavedTensor] = {}
    for part in parts:
        for name, tensor in part.tensors.items():
            known = tensors.get(name, tensor)
            tensors[name] = SavedTensor(known.dtype, known.shape, list(dict.fromkeys([*known.chunks, *tensor.chunks])))
    objects = list(dict.fromkeys(name for part in parts for name in part.objects))
    return Saved(tensors, objects, [piece for part in parts for piece in part.pieces],
                 [name for part in parts for name in part.strangers], sum(part.trailing for part in parts))


def _size(arguments: tuple[Any, ...]) -> tuple[int, ...]:
    return _numbers(arguments[0] if len(arguments) == 1 else None, "a size")


def _numbers(value: Any, what: str) -> tuple[int, ...]:
    if isinstance(value, (tuple, list)) and all(isinstance(n, int) and 0 <= n < 1 << 62 for n in value):
        return tuple(value)
    raise BadPickle(f"{what} that is no tuple of numbers")


def _number(value: Any, what: str) -> int:
    return _numbers((value,), what)[0]


def _tensor(name: str, item: Made) -> SavedTensor:
    properties = item.get("properties")
    state = properties.state if isinstance(properties, Made) else None
    dtype = state.get("dtype") if isinstance(state, dict) else state[0] if isinstance(state, tuple) and state else None
    if not isinstance(dtype, Name) or not dtype.name.startswith("torch."):
        raise BadPickle(f"the tensor {name[:80]} without a type")
    shape = _numbers(item.get("size"), f"the shape of {name[:80]}")
    chunks = []
    for chunk in item.get("chunks") or ():
        if not isinstance(chunk, Made):
            raise BadPickle(f"a chunk of {name[:80]} that is none")
        found = Chunk(_numbers(chunk.get("offsets"), "the place of a chunk"),
                      _numbers(chunk.get("sizes"), "the shape of a chunk"))
        if not len(found.offsets) == len(found.sizes) == len(shape):
            raise BadPickle(f"a chunk of {name[:80]} with {len(found.sizes)} dimensions of {len(shape)}")
        chunks.append(found)
    plain = dtype.name.partition(".")[2]
    return SavedTensor(DTYPES.get(plain, plain.upper()), shape, chunks)


def _piece(index: Any, place: Any) -> Piece:
    if not isinstance(index, Made) or not isinstance(place, Made):
        raise BadPickle("a place of an item that is none")
    name, offset, file = index.get("fqn"), index.get("offset"), place.get("relative_path")
    if not isinstance(name, str) or not isinstance(file, str):
        raise BadPickle("a place without the name of an item or of a file")
    return Piece(name, None if offset is None else _numbers(offset, "the place of a chunk"), file,
                 _number(place.get("offset"), "a place in a file"), _number(place.get("length"), "a length in a file"),
                 bool(place.get("transform_descriptors")))


def coverage(tensor: SavedTensor) -> Iterator[str]:
    """How the chunks of a tensor fail to be exactly the tensor; nothing when they are."""
    chunks = [chunk for chunk in tensor.chunks if chunk.elements]
    for chunk in chunks:
        if any(at + size > whole for at, size, whole in zip(chunk.offsets, chunk.sizes, tensor.shape, strict=True)):
            yield f"a chunk of shape {list(chunk.sizes)} at {list(chunk.offsets)} goes beyond the shape {list(tensor.shape)}"
            return
    covered = sum(chunk.elements for chunk in chunks)
    if covered != tensor.elements:
        yield f"the chunks have {covered:,} of the {tensor.elements:,} elements"
    elif (pair := _overlap(chunks)) is not None:
        one, other = pair
        yield (f"two chunks overlap: {list(one.sizes)} at {list(one.offsets)} and {list(other.sizes)} at {list(other.offsets)}")


def _overlap(chunks: Sequence[Chunk]) -> tuple[Chunk, Chunk] | None:
    """Two chunks that share an element, found by a sweep along the dimension that divides them most."""
    if len(chunks) < 2 or not chunks[0].offsets:
        return (chunks[0], chunks[1]) if len(chunks) > 1 else None
    along = max(range(len(chunks[0].offsets)), key=lambda axis: len({chunk.offsets[axis] for chunk in chunks}))
    active: list[Chunk] = []
    compared = 0
    for chunk in sorted(chunks, key=lambda chunk: chunk.offsets[along]):
        active = [other for other in active if other.offsets[along] + other.sizes[along] > chunk.offsets[along]]
        compared += len(active)
        if compared > _MOST_COMPARED:
            return None
        for other in active:
            if all(a < b + m and b < a + n for a, n, b, m in zip(chunk.offsets, chunk.sizes, other.offsets, other.sizes,
                                                                 strict=True)):
                return other, chunk
        active.append(chunk)
    return None
