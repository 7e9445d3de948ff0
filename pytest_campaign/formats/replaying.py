"""A model is given an input: for the record of a probe, and for its replay.

Both sides do the same: evaluation mode, no gradients, the same random numbers. What is then still different between two
machines is the order of sums and the way attention is computed. Measured on a language model of six layers, as the largest
difference divided by the standard deviation of the output: 2e-6 in float32, 2e-3 in float16, 3e-2 in bfloat16.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .base import Problem, ProblemKind
from .probe_file import MOST_TENSORS, Probe
from .tensor_names import some

# As a part of the standard deviation of the recorded output, from the finest type to the coarsest. A matrix product of
# float32 may be computed in TF32, which keeps as many digits as float16.
TOLERANCES = {"float64": 1e-4, "float32": 1e-4, "tfloat32": 1e-2, "float16": 1e-2, "bfloat16": 1e-1}
_COARSEST = 1e-1
_ORDER = list(TOLERANCES)
_OF_LARGEST = 0.02  # the same, of the largest value, as a part of the tolerance: outputs that hardly differ from each other
_UNITS = 2  # in the last place of the largest value: less than that is rounding
_EPSILONS = {"float64": 2.0**-52, "float32": 2.0**-23, "tfloat32": 2.0**-10, "float16": 2.0**-10, "bfloat16": 2.0**-7}
_LONGEST = 300


class CallFailed(Exception):
    """The model raised when it was given the input; ``cause`` is what."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(f"{type(cause).__name__}: {str(cause).strip()[:_LONGEST]}")
        self.cause = cause


@dataclasses.dataclass(frozen=True)
class Outputs:
    """The tensors of floating point numbers of an output by name, and the names of all that is left out."""

    tensors: Mapping[str, Any]
    left_out: Sequence[str]


def call(module: Any, inputs: Mapping[str, Any], positional: bool) -> Outputs:
    """What a module of torch gives for an input. Its modes, and the random numbers of the process, are as before.

    An output is a tensor, a tuple or a mapping (so a ModelOutput); of the last two what is a tensor itself counts, not what lies
    in a tuple or a cache inside. Raises `CallFailed`; a lack of memory as it comes.
    """
    import torch

    devices = sorted({tensor.device.index for tensor in module.parameters() if tensor.device.type == "cuda"})
    with _evaluating(module), torch.no_grad(), torch.random.fork_rng(devices=devices), contextlib.ExitStack() as stack:
        for device in ("cpu", *(["cuda"] if devices else [])):
            stack.enter_context(torch.autocast(device, enabled=False))
        torch.manual_seed(0)
        try:
            result = module(*inputs.values()) if positional else module(**inputs)
        except (MemoryError, RecursionError):
            raise
        except Exception as error:  # a model may raise anything
            raise CallFailed(error) from error
    return _named(result)


def _named(result: Any) -> Outputs:
    import torch

    items: Mapping[str, Any]
    if isinstance(result, torch.Tensor):
        items = {"output": result}
    elif isinstance(result, Mapping):
        items = {str(name): value for name, value in result.items()}
    elif isinstance(result, (tuple, list)):
        items = {str(number): value for number, value in enumerate(result)}
    else:
        items = {type(result).__name__: None}
    kept = [name for name, value in items.items() if isinstance(value, torch.Tensor) and value.dtype.is_floating_point]
    kept = kept[:MOST_TENSORS // 2]
    return Outputs({name: items[name] for name in kept}, [name for name in items if name not in kept])


@contextlib.contextmanager
def _evaluating(module: Any) -> Iterator[None]:
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, training in modes:
            part.training = training


def coarsest(names: Sequence[str]) -> str:
    """The type with the fewest digits among some; float32 for none."""
    rank = {name: number for number, name in enumerate(_ORDER)}
    return max(names, key=lambda name: rank.get(name, len(rank)), default="float32")


def weights_dtype(module: Any) -> str:
    """The coarsest floating point type of a module's parameters."""
    return coarsest(sorted({str(value.dtype).removeprefix("torch.") for value in module.parameters()
                            if value.dtype.is_floating_point}))


def compare(path: str, probe: Probe, module: Any) -> Iterator[Problem]:
    """Give a module the recorded input, and say how its output differs from the recorded one. Raises `CallFailed`."""
    outputs = call(module, probe.inputs, probe.positional).tensors
    dtype = coarsest([probe.dtype, weights_dtype(module)])
    absent = [name for name in probe.outputs if name not in outputs]
    if absent:
        yield Problem(ProblemKind.PROBE_OTHER_MODEL, path,
                      f"the model gives no output {some(absent)}; it gives {some(list(outputs)) or 'no tensor'}",
                      "the outputs that were recorded", absent[0], len(absent))
        return
    for name, recorded in probe.outputs.items():
        given = outputs[name]
        if given.shape != recorded.shape:
            yield Problem(ProblemKind.PROBE_OTHER_MODEL, path, f"the output {name} has the shape {list(given.shape)}",
                          f"{list(recorded.shape)}, as recorded", name)
        else:
            yield from _difference(path, name, recorded, given, probe, dtype)


def _difference(path: str, name: str, recorded: Any, given: Any, probe: Probe, dtype: str) -> Iterator[Problem]:
    import torch

    one, other = recorded.to(torch.float64).reshape(-1), given.detach().cpu().to(torch.float64).reshape(-1)
    finite = one.isfinite() & other.isfinite()
    values = one[one.isfinite()]
    deviation = float(values.std(unbiased=False)) if values.numel() else 0.0
    largest = float(values.abs().max()) if values.numel() else 0.0
    tolerance = probe.tolerance if probe.tolerance is not None else TOLERANCES.get(dtype, _COARSEST)
    scale = deviation or largest
    rounding = max(_UNITS * _EPSILONS.get(dtype, _EPSILONS["bfloat16"]), _OF_LARGEST * TOLERANCES.get(dtype, _COARSEST)) * largest
    allowed = max(tolerance * scale, rounding)
    gap = torch.where(finite, (one - other).abs(), torch.zeros_like(one))
    same = finite | (one == other) | (one.isnan() & other.isnan())
    gap = torch.where(same, gap, torch.full_like(gap, float("inf")))
    wrong = int((gap > allowed).sum())
    if not wrong:
        return
    at = int(gap.argmax())
    worst = float(gap[at])
    place = f"{name}[{', '.join(str(int(index)) for index in torch.unravel_index(torch.tensor(at), recorded.shape))}]"
    share = f", {worst / scale:.3g} of the {'standard deviation' if deviation else 'value'} {scale:.4g}" if scale else ""
    yield Problem(
        ProblemKind.PROBE_DIFFERS, path,
        f"{place if recorded.ndim else name} is {float(other[at]):.6g}, recorded was {float(one[at]):.6g}: a difference of "
        f"{worst:.4g}{share}; {wrong:,} of {one.numel():,} values differ by more than is allowed",
        f"at most {allowed:.4g} ({tolerance:g} of the standard deviation, "
        + ("as recorded)" if probe.tolerance is not None else f"for {dtype})"), name, wrong)
