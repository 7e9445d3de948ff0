"""Digests of the tensors in the memory of a training (see `pytest_campaign.tensor_digests`)."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from ..formats.torch_object import DTYPES
from ..tensor_digests import begun, header, shape_of

_BLOCK = 32 << 20  # bytes of a tensor that are copied at a time, where they do not lie in memory as they are needed


def digests(model: Any) -> dict[str, str]:
    """The digest of each tensor of a module or a state dict by its name, as ``tensor_digests`` of a manifest.

    The names are those of the state dict: parameters, and buffers that are saved. Of a model of transformers and of PEFT they are
    those that ``save_pretrained`` writes, of PEFT those of the active adapter alone. Take them when the training ends, before the
    model is saved: a digest that is taken of a file says only that the copy is right. Tensors on any device are taken, at most
    32 MiB of them at a time.

    Raises TypeError for what is neither a module nor a state dict, and ValueError for a tensor that has no values here: on the
    meta device, sparse, quantised, a part of a distributed tensor.
    """
    if sys.byteorder != "little":
        raise ValueError("the digests of tensors are those of little-endian values, and this machine is big-endian")
    found = {}
    for name, value in _state_dict(model).items():
        if _is_tensor(value):
            found[str(name)] = _digest(str(name), value)
        elif value is not None and not str(name).endswith("_extra_state"):
            raise TypeError(f"{name!r} is a {type(value).__name__} and no tensor; give the state dict of the model alone")
    if not found:
        raise ValueError("there is no tensor in it")
    return found


def _is_tensor(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor)


def _state_dict(model: Any) -> Mapping[str, Any]:
    import torch

    if isinstance(model, Mapping):
        return model
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"a {type(model).__name__} is neither a module nor a state dict")
    inner = _unwrapped(model)
    peft, transformers = sys.modules.get("peft"), sys.modules.get("transformers.modeling_utils")  # where they are in use
    if peft is not None and isinstance(inner, peft.PeftModel):
        adapter: Mapping[str, Any] = peft.get_peft_model_state_dict(inner, adapter_name=inner.active_adapter)
        return adapter
    if transformers is not None and isinstance(inner, transformers.PreTrainedModel):
        return _as_saved(inner, transformers)
    state: Mapping[str, Any] = model.state_dict()
    return state


def _unwrapped(model: Any) -> Any:
    """The module inside those of torch.compile and of data parallel training."""
    import torch

    while True:
        if isinstance(model, (torch.nn.DataParallel, torch.nn.parallel.DistributedDataParallel)):
            model = model.module
        elif hasattr(model, "_orig_mod"):
            model = model._orig_mod
        else:
            return model


def _as_saved(model: Any, library: Any) -> Mapping[str, Any]:
    """The state dict as ``save_pretrained`` writes it: without tied tensors, and from version 5 on with the names and the parts
    that the checkpoint had before the library fused or renamed them (``transformers/modeling_utils.py`` of 5.24)."""
    state = dict(model.state_dict())
    for name in getattr(model, "_keys_to_ignore_on_save", None) or ():
        state.pop(name, None)
    if hasattr(library, "remove_tied_weights_from_state_dict"):
        state = library.remove_tied_weights_from_state_dict(state, model)
    if hasattr(library, "revert_weight_conversion"):
        state = library.revert_weight_conversion(model, state)
    return state


def _digest(name: str, tensor: Any) -> str:
    if why := _unreadable(tensor):
        raise ValueError(f"{name}: {why}")
    dtype = str(tensor.dtype).rpartition(".")[2]
    dtype = DTYPES.get(dtype, dtype.upper())
    taken = begun(header(dtype, shape_of(dtype, tuple(tensor.shape))))
    for block in _blocks(tensor.detach().resolve_conj().resolve_neg()):
        taken.update(_memory(block))
        del block
    return taken.hexdigest()


def _unreadable(tensor: Any) -> str | None:
    """Why a tensor has no values here that could be taken, None if it has."""
    import torch
    from torch.utils._python_dispatch import is_traceable_wrapper_subclass

    if isinstance(tensor, torch.nn.parameter.UninitializedTensorMixin):
        return "it has no values yet; run the model once"
    if tensor.is_meta:
        return "it is on the meta device and has no values; take the digests of the model that was trained"
    if tensor.is_nested or tensor.layout != torch.strided:
        return f"its layout is {'nested' if tensor.is_nested else tensor.layout}; only dense tensors have a digest"
    if tensor.is_quantized:
        return "it is quantised; take the digests of what is saved (its int_repr and scales)"
    if is_traceable_wrapper_subclass(tensor):
        return (f"a {type(tensor).__name__} holds no values itself; gather the whole state dict first (of FSDP: "
                "get_model_state_dict with full_state_dict), or take the digests of the tensors inside it")
    try:
        tensor.untyped_storage().data_ptr()
    except (NotImplementedError, RuntimeError) as error:
        return f"a {type(tensor).__name__} without values: {str(error).partition(chr(10))[0]}"
    return None


def _blocks(tensor: Any) -> Iterator[Any]:
    """Contiguous tensors on the CPU that together are the elements in their order."""
    if tensor.device.type == "cpu" and tensor.is_contiguous():
        yield tensor
        return
    size = tensor.numel() * tensor.element_size()
    if size <= _BLOCK:
        yield tensor.cpu().contiguous()
        return
    if tensor.is_contiguous():
        tensor = tensor.reshape(-1)
    rows = max(1, _BLOCK * tensor.shape[0] // size)
    for at in range(0, tensor.shape[0], rows):
        part = tensor.narrow(0, at, min(rows, tensor.shape[0] - at))
        yield from _blocks(part[0] if rows == 1 else part)


def _memory(tensor: Any) -> memoryview:
    """The bytes of a contiguous tensor where they lie. The tensor has to live as long as they are used."""
    size = tensor.numel() * tensor.element_size()
    return memoryview((ctypes.c_char * size).from_address(tensor.data_ptr())).cast("B") if size else memoryview(b"")
