"""A model of transformers, or an adapter of PEFT on its base, built with its values.

As in `rebuilding` the library gets the tensors and opens no file: each is read by our own reader at the place where the strict
parser of its format found it. No code that lies beside the checkpoint is run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import adapter_on_base, rebuilding
from .base import Placed, Reading, Source
from .rebuilding import DTYPES, NotRebuilt
from .streaming import CHUNK, exactly

_ATTENTION = frozenset({"eager", "sdpa"})  # what every machine has


def tensors(layout: Mapping[str, Placed], files: Source, work: Source) -> dict[str, Any]:
    """The tensors of a checkpoint with their values. ``files`` has them, ``work`` hears how far the reading is.

    Raises `NotRebuilt` for one that does not lie in the file in the order of its shape, or of a type that torch has not.
    """
    import torch

    found = {}
    for name, placed in layout.items():
        if placed.offset is None or placed.dtype not in DTYPES:
            raise NotRebuilt(f"the values of {name[:100]} do not lie in the file as torch has them in memory")
        dtype = getattr(torch, DTYPES[placed.dtype])
        if not placed.length:
            found[name] = torch.empty(placed.shape, dtype=dtype)
            continue
        data = bytearray(placed.length)
        with files.open(placed.path) as file:
            for start in range(0, placed.length, CHUNK):
                count = min(CHUNK, placed.length - start)
                data[start:start + count] = exactly(file, placed.offset + start, count)
                work.advance(count)
        found[name] = torch.frombuffer(data, dtype=dtype).reshape(placed.shape)
    return found


def model(config: Mapping[str, Any], reading: Reading, source: Source, attention: str | None) -> Any:
    """The model that a ``config.json`` describes, with the tensors of a reading. ``attention``: how it is computed, where known.

    Raises `NotRebuilt` or `Refused`.
    """
    settings = rebuilding.configuration(config)
    with rebuilding.reasons(config):
        model_class, _ = rebuilding.model_class(config, settings)
        return _loaded(model_class, settings, tensors(reading.layout, source, source), attention)


def adapter(config: Mapping[str, Any], reading: Reading, base: Reading, source: Source, attention: str | None) -> Any:
    """An adapter on its base; ``base`` is the reading of the files that ``source.base`` reaches. Raises as `model`."""
    content = adapter_on_base.configuration(source)
    if content is None or source.base is None:
        raise NotRebuilt(f"its base model{source.base_name and ' ' + source.base_name} is not at hand")
    if base.problems or base.depth is None:
        what = f": {base.problems[0].observed}" if base.problems else ""
        raise NotRebuilt(f"the weights of its base {source.base_name} that are at hand cannot be used{what}")
    model_class, settings = adapter_on_base.fitting_class(config, content, reading.layout)
    with rebuilding.reasons(content):
        under = _loaded(model_class, settings, tensors(base.layout, source.base, source), attention)
        rows = adapter_on_base.rows_of_adapter(content, reading.layout)
        if rows is not None:
            under.resize_token_embeddings(rows)
    return adapter_on_base.adapted(under, config, tensors(reading.layout, source, source))


def _loaded(model_class: Any, settings: Any, values: Mapping[str, Any], attention: str | None) -> Any:
    how = {"attn_implementation": attention} if attention in _ATTENTION else {}
    return model_class.from_pretrained(None, config=settings, state_dict=dict(values), local_files_only=True, use_kernels=False,
                                       **how)

