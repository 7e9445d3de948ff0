"""``base_headers.json``: what a base model looks like, kept beside its adapter for a machine that has no copy of the base.

A strict JSON object with ``base_headers_version`` 1, ``model`` and ``revision`` as far as they are known, ``config`` (the content
of the base's `config.json` without where it was loaded from) and ``tensors``: for each safetensors file of the base the type and
the shape of each tensor by its name, ``{"model.safetensors": {"lm_head.weight": ["F32", [64, 16]]}}``. No values.

The file comes with the data that is checked: it is read within limits, and has to agree with itself and, where that is at hand,
with the base.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO

from .. import paths
from ..readers import strict_json
from . import rebuilding, safetensors_file, tensor_names
from .base import Depth, FileFacts, Placed, Problem, ProblemKind, Source, Unit
from .file_sets import pass_over
from .model_files import CONFIG, LARGEST_CONFIG
from .streaming import exactly

FILE = "base_headers.json"
LARGEST = strict_json.MOST_BYTES
_VERSION = 1
_FIELDS = frozenset({"base_headers_version", "model", "revision", "config", "tensors"})
_WEIGHTS, _INDEX = "model.safetensors", "model.safetensors.index.json"  # what from_pretrained takes first
_LARGEST_INDEX = 1 << 26
_LONGEST = 1024  # characters of a name of a model or a file, and of a type
_MOST_SIZES = 32  # dimensions of a tensor
_MOST_ELEMENTS = 1 << 56
_LOADED_FROM = "_name_or_path"
# Settings that say with what, or in which form, a model was saved, and not how it computes.
_OF_THE_SAVE = frozenset({_LOADED_FROM, "transformers_version", "torch_dtype", "dtype", "use_cache"})

Opened = Callable[[str], BinaryIO | None]


class NotHeaders(ValueError):
    """A file of that name cannot be used; the text says why."""


@dataclasses.dataclass(frozen=True)
class Tensor:
    """Type, as safetensors writes it, and shape."""

    dtype: str
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.dtype} {list(self.shape)}"


@dataclasses.dataclass(frozen=True)
class BaseHeaders:
    """The content of the file. ``tensors`` has those of each file of weights by their names; none of other formats."""

    config: Mapping[str, Any]
    tensors: Mapping[str, Mapping[str, Tensor]]
    model: str | None = None
    revision: str | None = None

    @property
    def by_name(self) -> Mapping[str, Tensor]:
        """All tensors of the base."""
        return {name: tensor for of_file in self.tensors.values() for name, tensor in of_file.items()}

    @property
    def title(self) -> str:
        """What a message calls the base."""
        name = strict_json.shown(self.model) if self.model is not None else "a base without a name"
        return name + (f" at {self.revision}" if self.revision is not None else "")

    def encoded(self) -> bytes:
        """The file; `NotHeaders` when it would be too large."""
        named = {"model": self.model, "revision": self.revision}
        tensors = {file: {name: [tensor.dtype, tensor.shape] for name, tensor in of_file.items()}
                   for file, of_file in self.tensors.items()}
        content = {"base_headers_version": _VERSION, **{key: value for key, value in named.items() if value is not None},
                   "config": self.config, "tensors": tensors}
        try:
            data = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode() + b"\n"
        except ValueError as error:
            raise NotHeaders(f"the configuration of the base is no strict JSON: {error}") from None
        if len(data) > LARGEST:
            raise NotHeaders(f"it would have {len(data):,} bytes, and at most {LARGEST:,} are read")
        return data


def collect(opened: Opened) -> BaseHeaders | None:
    """The headers of the model in a folder; None when it has no configuration that can be read.

    ``opened(name)`` opens a file of the folder unbuffered, None where there is none. Of weights those in safetensors are taken.
    """
    config = _object(opened, CONFIG, LARGEST_CONFIG)
    if config is None:
        return None
    tensors = {}
    for name in _weight_files(opened):
        if (file := opened(name)) is not None:
            with file:
                header = safetensors_file.header(file, file.seek(0, os.SEEK_END))
            if header is not None:
                tensors[name] = {tensor.name: Tensor(tensor.dtype, tuple(tensor.shape)) for tensor in header.tensors}
    return BaseHeaders({name: value for name, value in config.items() if name != _LOADED_FROM}, tensors)


def _weight_files(opened: Opened) -> Sequence[str]:
    whole = opened(_WEIGHTS)
    if whole is not None:
        whole.close()
        return [_WEIGHTS]
    shards = (_object(opened, _INDEX, _LARGEST_INDEX) or {}).get("weight_map")
    return sorted({name for name in shards.values() if isinstance(name, str)}) if isinstance(shards, dict) else []


def _object(opened: Opened, name: str, limit: int) -> Mapping[str, Any] | None:
    file = opened(name)
    if file is None:
        return None
    with file:
        size = file.seek(0, os.SEEK_END)
        try:
            content = json.loads(exactly(file, 0, size)) if size <= limit else None
        except (ValueError, RecursionError):
            return None
    return content if isinstance(content, dict) else None


def parse(data: bytes) -> BaseHeaders:
    """The headers in such a file; `NotHeaders` for anything else."""
    try:
        content = strict_json.parse(data)
    except strict_json.NotStrict as error:
        raise NotHeaders(f"it is no strict JSON: {error}") from None
    if not isinstance(content, dict) or content.get("base_headers_version") != _VERSION:
        raise NotHeaders(f"it has no base_headers_version {_VERSION}")
    if unknown := sorted(content.keys() - _FIELDS):
        raise NotHeaders(f"it has the unknown field {strict_json.shown(unknown[0])}")
    config, tensors = content.get("config"), content.get("tensors")
    if not isinstance(config, dict):
        raise NotHeaders("its config is no object")
    if not isinstance(tensors, dict):
        raise NotHeaders("its tensors are no object of files")
    found: dict[str, Mapping[str, Tensor]] = {}
    for file, of_file in tensors.items():
        if not isinstance(of_file, dict):
            raise NotHeaders(f"the tensors of {strict_json.shown(file)} are no object")
        found[file] = {name: _tensor(name, entry) for name, entry in of_file.items()}
    return BaseHeaders(config, found, _text(content, "model"), _text(content, "revision"))


def _text(content: Mapping[str, Any], name: str) -> str | None:
    value = content.get(name)
    if value is not None and not (isinstance(value, str) and 0 < len(value) <= _LONGEST):
        raise NotHeaders(f"its {name} is no text of at most {_LONGEST:,} characters")
    return value


def _tensor(name: str, entry: object) -> Tensor:
    match entry:
        case [str(dtype), list(sizes)] if name and len(name) <= safetensors_file.LONGEST_NAME and 0 < len(dtype) <= _LONGEST:
            if len(sizes) <= _MOST_SIZES and all(type(size) is int and 0 <= size <= _MOST_ELEMENTS for size in sizes) \
                    and math.prod(sizes) <= _MOST_ELEMENTS:
                return Tensor(dtype, tuple(sizes))
    raise NotHeaders(f"the entry of {strict_json.shown(name)} is no type and shape of a tensor")


# ---- in a reading ----------------------------------------------------------------------------------------------------


def place(unit: Unit) -> str:
    """Where the file of a unit would lie."""
    return paths.join(unit.path, FILE)


def read(unit: Unit, source: Source) -> tuple[BaseHeaders | None, list[Problem]]:
    """The headers beside an adapter, and what is wrong with them in themselves; None where there are none that can be used."""
    path = place(unit)
    if path not in unit.files or not source.exists(path):
        return None, []
    size = source.size(path)
    try:
        if size > LARGEST:
            raise NotHeaders(f"it has {size:,} bytes, and at most {LARGEST:,} are read")
        with source.open(path) as file:
            headers = parse(exactly(file, 0, size))
    except NotHeaders as reason:
        return None, [_wrong(path, str(reason), f"what pytest-campaign writes as {FILE}")]
    problems = list(_inner(path, headers, source.depth))
    return (None if problems else headers), problems


def _wrong(path: str, observed: str, expected: str, where: str = "", count: int = 1) -> Problem:
    return Problem(ProblemKind.BASE_HEADERS, path, observed, expected, where, count)


def _inner(path: str, headers: BaseHeaders, depth: Depth) -> Iterator[Problem]:
    """Whether the tensors are those of the model that the configuration describes."""
    layout = {name: Placed(tensor.dtype, tensor.shape, path, None, 0) for name, tensor in headers.by_name.items()}
    if not layout:
        return
    for problem in tensor_names.layers(layout, headers.config):
        yield _wrong(path, f"its tensors are not those of its configuration: {problem.observed}", problem.expected, problem.where,
                     problem.count)
        return
    if depth < Depth.MODEL:
        return
    try:
        report = rebuilding.rebuild(headers.config, layout)
    except (rebuilding.NotRebuilt, rebuilding.Refused):
        return  # is said of the adapter
    if report.mismatched:
        name, have, want = report.mismatched[0]
        yield _wrong(path, f"its tensors are not those of its configuration: {name} has the shape {list(have)}", f"{list(want)}",
                     name, len(report.mismatched))


def compare(path: str, headers: BaseHeaders, base: Source) -> Iterator[Problem]:
    """How the headers differ from those of the base that is at hand."""
    try:
        own = collect(lambda name: base.open(name) if base.exists(name) else None)
    except OSError:  # it cannot be read, or changed: then it is not at hand
        return
    if own is None:
        return
    ours, theirs = headers.by_name, own.by_name
    if ours and theirs:
        other = [name for name in ours.keys() | theirs.keys()
                 if name not in ours or name not in theirs or ours[name].shape != theirs[name].shape]
        if other:
            first = min(other)
            yield _wrong(path, f"{len(other):,} tensors are archived otherwise than in the base that is at hand: {first} is "
                         + _is(ours.get(first)), _is(theirs.get(first)), first, len(other))
            return
        types = sorted(name for name in ours if ours[name].dtype != theirs[name].dtype)
        if types:
            yield Problem(ProblemKind.BASE_SETTINGS, path,
                          f"{len(types):,} tensors have another type in the base that is at hand: {types[0]} is archived as "
                          f"{ours[types[0]].dtype}", theirs[types[0]].dtype, types[0], len(types))
    settings = sorted(name for name in headers.config.keys() & own.config.keys() - _OF_THE_SAVE
                      if headers.config[name] != own.config[name])
    if settings:
        first = settings[0]
        yield Problem(ProblemKind.BASE_SETTINGS, path,
                      f"the archived configuration is not that of the base that is at hand ({tensor_names.some(settings)}): "
                      f"{first} is {_value(headers.config[first])}", _value(own.config[first]), f"/config/{first}", len(settings))


def _is(tensor: Tensor | None) -> str:
    return "absent" if tensor is None else str(tensor)


def _value(value: Any) -> str:
    return strict_json.shown(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def facts(unit: Unit, source: Source) -> Iterator[FileFacts]:
    """What is known of the file, with its digest if that is asked for."""
    path = place(unit)
    if path in unit.files and source.exists(path):
        yield pass_over(path, source)
