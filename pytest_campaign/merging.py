"""How a merged model differs from its base, tensor by tensor.

Merging adds an adapter's product to the modules that it targets and leaves all other tensors as they are, byte for byte. So
a merged model whose other tensors are not the base's was made from another one, and a model in which the targeted modules
are the base's too was never merged. Only safetensors files are compared, and only tensors of the same type: a change of the
type rounds, so that nothing can be said then.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import BinaryIO

from .formats.safetensors_file import Tensor, header
from .formats.streaming import exactly

_ENDS = 1 << 20  # bytes at the beginning and at the end of a tensor that are compared
_CHUNK = 1 << 20
_PREFIX = "base_model.model."  # what PEFT puts in front of a module's name
# The parts of a name that PEFT adds below a module (peft/tuners/*: lora_A, ia3_l, hada_w1_a, oft_R, vera_lambda_b ...).
_LEAF = re.compile(r"(lora|ia3|hada|lokr|oft|boft|vera|randlora|fourierft|bone|shira|hra|token_adapter|trainable_tokens)(_.*)?")
_B = re.compile(r"\.lora_(embedding_)?B(\.|$)")
_LAYER = re.compile(r"\.[0-9]+\.")


@dataclasses.dataclass(frozen=True)
class File:
    """One safetensors file: its path, its size, and how to open it unbuffered (OSError when that fails)."""

    path: str
    size: int
    open: Callable[[], BinaryIO]


@dataclasses.dataclass(frozen=True)
class Difference:
    """What came of a comparison. Every tensor counts that both models hold in the same type and shape.

    ``touched`` are those of the modules that the adapter targets, ``others`` all else; ``changed`` and ``foreign`` are the ones
    among them that are not the base's. ``files`` says in which file of the merged model each of these lies. ``neutral`` is
    whether the adapter itself changes nothing: every B of LoRA is zero, or it has none.
    """

    touched: Sequence[str]
    changed: Sequence[str]
    others: Sequence[str]
    foreign: Sequence[str]
    files: Mapping[str, str]
    neutral: bool


@dataclasses.dataclass(frozen=True)
class _Place:
    file: File
    at: int
    tensor: Tensor

    @property
    def size(self) -> int:
        return self.tensor.end - self.tensor.start


def compare(merged: Sequence[File], base: Sequence[File], adapter: Sequence[File]) -> Difference | str:
    """The difference, or why there is nothing to compare. OSError when a file cannot be read or has changed."""
    ours, theirs, keys = _table(merged), _table(base), _table(adapter)
    if not ours or not theirs or not keys:
        return "only sound safetensors files are compared"
    shared = [name for name in ours if name in theirs and ours[name].tensor.shape == theirs[name].tensor.shape
              and ours[name].tensor.dtype == theirs[name].tensor.dtype]
    if not shared:
        return "no tensor has the same name, shape and type in both"
    modules = _modules(keys)
    touched = {name for name in ours if _is_touched(name, modules)}
    if not modules <= {above for name in ours for above in _above(name)}:
        return "the adapter calls the modules otherwise than the files do"
    if any(_LAYER.search(name) is None and len(ours[name].tensor.shape) > 1 for name in touched):
        # An embedding and an output layer may be one tensor under two names.
        touched |= {name for name in ours if _LAYER.search(name) is None}
    own, others = [name for name in shared if name in touched], [name for name in shared if name not in touched]
    neutral = not any(_holds_a_value(place) for key, place in keys.items() if _B.search(key))
    with contextlib.ExitStack() as stack:
        opened = {file.path: stack.enter_context(file.open()) for file in merged}
        originals = {file.path: stack.enter_context(file.open()) for file in base}

        def same(name: str, *, whole: bool) -> bool:
            one, other = ours[name], theirs[name]
            file, original = opened[one.file.path], originals[other.file.path]
            return all(exactly(file, one.at + start, length) == exactly(original, other.at + start, length)
                       for start, length in _ranges(one.size, whole))

        changed = [name for name in own if not same(name, whole=True)]
        foreign = [name for name in others if not same(name, whole=False)]
    return Difference(own, changed, others, foreign, {name: ours[name].file.path for name in (*own, *foreign)}, neutral)


def _table(files: Sequence[File]) -> Mapping[str, _Place]:
    """Every tensor by its name; files that are no sound safetensors files hold none."""
    found: dict[str, _Place] = {}
    for file in files:
        with file.open() as stream:
            head = header(stream, file.size)
        if head is not None:
            found |= {tensor.name: _Place(file, head.start + tensor.start, tensor) for tensor in head.tensors}
    return found


def _holds_a_value(place: _Place) -> bool:
    """Whether a tensor has a bit that is not zero."""
    with place.file.open() as stream:
        return any(any(exactly(stream, place.at + start, length)) for start, length in _ranges(place.size, whole=True))


def _modules(keys: Iterable[str]) -> frozenset[str]:
    """The modules that an adapter's tensors belong to: their names up to the part that PEFT added, or to the parameter."""
    modules = set()
    for key in keys:
        parts = key.removeprefix(_PREFIX).split(".")
        end = next((at for at, part in enumerate(parts) if _LEAF.fullmatch(part)), len(parts) - 1)
        modules.add(".".join(parts[:end]))
    return frozenset(modules)


def _is_touched(name: str, modules: frozenset[str]) -> bool:
    return any(above in modules for above in _above(name))


def _above(name: str) -> Iterator[str]:
    """A tensor's name and those of the modules around it."""
    parts = name.split(".")
    return (".".join(parts[:end]) for end in range(1, len(parts) + 1))


def _ranges(size: int, whole: bool) -> Iterator[tuple[int, int]]:
    """(start, length) of the parts of a tensor that are compared: all of it, or both ends."""
    if whole or size <= 2 * _ENDS:
        yield from ((start, min(_CHUNK, size - start)) for start in range(0, size, _CHUNK))
    else:
        yield from ((0, _ENDS), (size - _ENDS, _ENDS))
