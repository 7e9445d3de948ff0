"""The file of a probe: inputs that a model was once given, and the outputs that it gave for them.

It is a safetensors file with the tensors ``input.<name>`` and ``output.<name>``. The metadata, strings all, comes first in the
header, and in it the version under the name `MARK`:

=========  ==========================================================================================================
call       "keywords", or "positions": then the names of the inputs are 0, 1, 2 …
inputs     JSON: the names of the inputs, in their order
outputs    JSON: the names of the outputs
left_out   JSON: the outputs that were not recorded, for whoever looks into the file
dtype      the coarsest type that the outputs were computed in: the weights', or that of autocast
tolerance  only when one was asked for: how far an output may be off, as a part of the standard deviation of the recorded one
attention  only of a model of transformers: how it computed attention
=========  ==========================================================================================================

`encoded` is for the training side, `decoded` for the reload; the file is not trusted there.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from . import safetensors_file
from .base import Placed, ProblemKind, Source, Unit
from .rebuilding import DTYPES
from .streaming import exactly

MARK = "pytest_campaign_probe"
VERSION = "1"
LARGEST = 64 * 2**20  # bytes of a file
MOST_TENSORS = 64
LARGEST_TOLERANCE = 1.0  # beyond the standard deviation nothing is proved
KEYWORDS, POSITIONS = "keywords", "positions"
EXPECTED = "a file that pytest_campaign.proof.record wrote"
_INPUT, _OUTPUT = "input.", "output."
_ALIGNED = 8
_NAMES = {torch: name for name, torch in DTYPES.items()}


@dataclasses.dataclass(frozen=True)
class Probe:
    """What was recorded. ``inputs`` and ``outputs`` are tensors of torch by name; ``tolerance`` is None for the usual one."""

    inputs: Mapping[str, Any]
    outputs: Mapping[str, Any]
    positional: bool
    dtype: str
    tolerance: float | None = None
    attention: str | None = None
    left_out: Sequence[str] = ()


class Unusable(Exception):
    """The file is no probe that can be replayed. ``kind`` says whose fault that is."""

    def __init__(self, observed: str, expected: str = EXPECTED, kind: ProblemKind = ProblemKind.PROBE_FILE) -> None:
        super().__init__(observed)
        self.observed, self.expected, self.kind = observed, expected, kind


def encoded(probe: Probe) -> bytes:
    """The bytes of the file; ValueError where they would be more than `LARGEST` or of a type that cannot be kept."""
    metadata = {
        MARK: VERSION, "call": POSITIONS if probe.positional else KEYWORDS, "inputs": json.dumps(list(probe.inputs)),
        "outputs": json.dumps(list(probe.outputs)), "left_out": json.dumps(list(probe.left_out)), "dtype": probe.dtype,
        **({"tolerance": repr(probe.tolerance)} if probe.tolerance is not None else {}),
        **({"attention": probe.attention} if probe.attention is not None else {})}
    header: dict[str, Any] = {"__metadata__": metadata}
    data = b""
    for name, tensor in [*((_INPUT + name, value) for name, value in probe.inputs.items()),
                         *((_OUTPUT + name, value) for name, value in probe.outputs.items())]:
        dtype = _NAMES.get(str(tensor.dtype).removeprefix("torch."))
        if dtype is None:
            raise ValueError(f"{name} is of the type {tensor.dtype}, which no safetensors file holds")
        if len(data) + tensor.nbytes > LARGEST:
            raise ValueError(f"the inputs and outputs have more than {LARGEST // 2**20} MiB; use a shorter input")
        start = len(data)
        data += _bytes(tensor)
        header[name] = {"dtype": dtype, "shape": list(tensor.shape), "data_offsets": [start, len(data)]}
    text = json.dumps(header, separators=(",", ":")).encode("ascii")
    text += b" " * (-len(text) % _ALIGNED)
    made = len(text).to_bytes(8, "little") + text + data
    if len(made) > LARGEST:
        raise ValueError(f"the file would have {len(made):,} bytes, at most {LARGEST:,} are read; use a shorter input")
    return made


def _bytes(tensor: Any) -> bytes:
    """The values of a tensor. Without NumPy, which a training may not have."""
    import ctypes

    flat = tensor.detach().cpu().contiguous()
    return ctypes.string_at(flat.data_ptr(), flat.nbytes) if flat.nbytes else b""


def decoded(path: str, source: Source) -> Probe:
    """The probe in a file of the job; raises `Unusable`. ``source`` must not go deeper than `Depth.HEADER`."""
    size = source.size(path)
    if size > LARGEST:
        raise Unusable(f"it has {size:,} bytes", f"at most {LARGEST:,} bytes")
    reading = safetensors_file.read(Unit(safetensors_file.NAME, path, (path,)), source)
    for problem in reading.problems:
        raise Unusable(problem.observed, problem.expected if problem.kind is not ProblemKind.DAMAGED else EXPECTED)
    with source.open(path) as file:
        header = safetensors_file.header(file, size)
        if header is None or MARK not in header.metadata:
            raise Unusable("a safetensors file that is no probe")
        metadata = header.metadata
        if metadata[MARK] != VERSION:
            raise Unusable(f"a probe of version {metadata[MARK][:20]!r}, here version {VERSION} is read",
                           "the version of pytest-campaign that wrote it, or a later one", ProblemKind.PROBE_NOT_REPLAYED)
        if len(header.tensors) > MOST_TENSORS:
            raise Unusable(f"{len(header.tensors):,} tensors", f"at most {MOST_TENSORS}")
        tensors = {tensor.name: _tensor(tensor.name, tensor.placed(path, header.start), exactly(
            file, header.start + tensor.start, tensor.end - tensor.start)) for tensor in header.tensors}
    inputs, outputs = _list(metadata, "inputs"), _list(metadata, "outputs")
    positional = metadata.get("call") == POSITIONS
    names = [*(_INPUT + name for name in inputs), *(_OUTPUT + name for name in outputs)]
    if not inputs or not outputs or sorted(names) != sorted(tensors):
        raise Unusable(f"its metadata names {len(inputs):,} inputs and {len(outputs):,} outputs, it has {len(tensors):,} tensors")
    return Probe({name: tensors[_INPUT + name] for name in inputs}, {name: tensors[_OUTPUT + name] for name in outputs},
                 positional, metadata.get("dtype", "float32")[:20], _tolerance(metadata), metadata.get("attention"))


def _tensor(name: str, placed: Placed, data: bytes) -> Any:
    import torch

    dtype = DTYPES.get(placed.dtype)
    if dtype is None:
        raise Unusable(f"{name} is of the type {placed.dtype[:20]}")
    if not data:
        return torch.empty(placed.shape, dtype=getattr(torch, dtype))
    return torch.frombuffer(bytearray(data), dtype=getattr(torch, dtype)).reshape(placed.shape)


def _list(metadata: Mapping[str, str], key: str) -> list[str]:
    try:
        value = json.loads(metadata.get(key, ""))
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise Unusable(f"its metadata has no list of {key}")
    return value


def _tolerance(metadata: Mapping[str, str]) -> float | None:
    text = metadata.get("tolerance")
    if text is None:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value <= LARGEST_TOLERANCE:
        raise Unusable(f"a tolerance of {text[:40]!r}", f"more than 0 and at most {LARGEST_TOLERANCE:g} standard deviations")
    return value
