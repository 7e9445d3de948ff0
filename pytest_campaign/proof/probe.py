"""A probe: an input, and the output that the model gave for it before it was saved."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import durable
from ..formats import replaying
from ..formats.probe_file import LARGEST_TOLERANCE, MOST_TENSORS, Probe, encoded

if TYPE_CHECKING:
    import torch


def record(model: torch.nn.Module, inputs: Mapping[str, torch.Tensor] | torch.Tensor | tuple[torch.Tensor, ...] |
           list[torch.Tensor], path: str | os.PathLike[str], *, tolerance: float | None = None) -> Path:
    """Run a model once, in evaluation mode and without gradients, and keep input and output in a small file.

    ``inputs``: tensors by the names of the arguments, or one tensor or a tuple or list of them by position; they are moved to
    the device of the model. Of the output, a tensor, a tuple, a mapping or a ModelOutput, the tensors of floating point numbers
    are kept; integers and what lies deeper (``past_key_values``, ``hidden_states``) are left out. ``tolerance`` is how far a
    value may be off after the reload, as a part of the standard deviation of the output; without it the type of the weights
    decides. The file appears whole or not at all; it is a safetensors file, `formats.probe_file` describes it. In a group of
    processes all of them call it and the first one writes. The modes of the model and the random numbers are as before.

    Returns the path. Raises TypeError or ValueError, with what to do, for what cannot be recorded; what the model raises;
    OSError.
    """
    import torch

    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"a probe is recorded from a torch.nn.Module, not from {type(model).__name__}")
    if tolerance is not None and not (isinstance(tolerance, (int, float)) and 0 < tolerance <= LARGEST_TOLERANCE):
        raise ValueError(f"tolerance is {tolerance!r}; it is a part of the standard deviation of the output, at most "
                         f"{LARGEST_TOLERANCE:g}")
    given, positional = _inputs(inputs)
    placed = {name: value.detach().to(_device(model)) for name, value in given.items()}
    with _watching_types() as types:
        try:
            result = replaying.call(model, placed, positional)
        except replaying.CallFailed as failure:
            raise failure.cause from None
    outputs = {name: value.detach().cpu() for name, value in result.tensors.items()}
    if not any(bool(value.isfinite().any()) for value in outputs.values()):
        what = "no finite number" if outputs else "no tensor of floating point numbers"
        raise ValueError(f"the output of the model has {what}, so there is nothing to compare later")
    probe = Probe(
        {name: value.cpu() for name, value in placed.items()}, outputs, positional,
        replaying.coarsest([replaying.weights_dtype(model), *types, *_short_products(model)]),
        None if tolerance is None else float(tolerance), _attention(model), result.left_out[:MOST_TENSORS])
    target = Path(path)
    data = encoded(probe)
    if not (torch.distributed.is_available() and torch.distributed.is_initialized() and torch.distributed.get_rank()):
        target.parent.mkdir(parents=True, exist_ok=True)
        durable.replace(target, data, target.with_name(f".{target.name}.{os.getpid()}.part"))
    return target


def _inputs(inputs: Any) -> tuple[dict[str, Any], bool]:
    """The inputs by name or number, and whether they are positional."""
    import torch

    if isinstance(inputs, torch.Tensor):
        inputs = (inputs,)
    positional = isinstance(inputs, (tuple, list))
    if positional:
        inputs = {str(number): value for number, value in enumerate(inputs)}
    elif not isinstance(inputs, Mapping):
        raise TypeError(f"inputs are tensors by name, one tensor, or a tuple of tensors, not {type(inputs).__name__}")
    if not inputs:
        raise ValueError("a probe needs at least one input")
    if len(inputs) > MOST_TENSORS // 2:
        raise ValueError(f"a probe has at most {MOST_TENSORS // 2} inputs, not {len(inputs)}")
    for name, value in inputs.items():
        if not isinstance(name, str) or not isinstance(value, torch.Tensor):
            raise TypeError(f"the input {name!r} is {type(value).__name__}; a probe keeps tensors only, by names that are texts")
    return dict(inputs), positional


def _device(model: torch.nn.Module) -> Any:
    import torch

    return next((value.device for value in model.parameters()), torch.device("cpu"))


def _attention(model: torch.nn.Module) -> str | None:
    name = getattr(getattr(model, "config", None), "_attn_implementation", None)
    return name if isinstance(name, str) else None


@contextlib.contextmanager
def _watching_types() -> Iterator[set[str]]:
    """The types of autocast that a model turns on inside, as accelerate's wrapper of ``forward`` does."""
    import torch

    found: set[str] = set()

    def look(module: Any, inputs: Any) -> None:
        for device in ("cpu", "cuda"):
            if torch.is_autocast_enabled(device):
                found.add(str(torch.get_autocast_dtype(device)).removeprefix("torch."))

    hook = torch.nn.modules.module.register_module_forward_pre_hook(look)
    try:
        yield found
    finally:
        hook.remove()


def _short_products(model: torch.nn.Module) -> list[str]:
    """TF32, where the model lies on a GPU that may compute products of float32 in it."""
    import torch

    if _device(model).type != "cuda":
        return []
    try:
        short = torch.backends.cuda.matmul.allow_tf32 or torch.backends.cudnn.allow_tf32
    except RuntimeError:  # set by the newer interface, which refuses to answer the older one
        short = True
    return ["tfloat32"] if short else []
