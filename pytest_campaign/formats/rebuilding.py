"""A model rebuilt by transformers without one byte of its weights: its configuration, and tensors that have shapes only.

``from_pretrained`` is given the names, types and shapes of the checkpoint as tensors of the meta device instead of files. It
runs the library's real conversion (transformers 5 renames and fuses while it loads) and its loading report tells what is
missing, left over or of another shape; on the meta device that costs no memory, whatever the size. Nothing is read from a
folder, nothing from the network, and no code that lies beside the checkpoint is run; nor are kernels taken from a hub, which
transformers 5.25 does where nobody says no, and which do not know the meta device.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .base import Placed

LIBRARIES = ("transformers.modeling_utils", "transformers.models.auto.modeling_auto", "accelerate")
DTYPES = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "I64": "int64", "I32": "int32", "I16": "int16",
    "I8": "int8", "U64": "uint64", "U32": "uint32", "U16": "uint16", "U8": "uint8", "BOOL": "bool", "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2", "F8_E4M3FNUZ": "float8_e4m3fnuz", "F8_E5M2FNUZ": "float8_e5m2fnuz", "C64": "complex64",
}
_CLASS = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,200}")
_OF_THE_MACHINE = ("attn_implementation", "_attn_implementation")  # a faster way to compute the same, which need not be installed
_NOT_FINITE = ("Infinity", "-Infinity", "NaN")
_LONGEST = 300  # characters of an error


class NotRebuilt(Exception):
    """The model was not rebuilt for a reason that is no fault of the files; the text says it."""


class Refused(Exception):
    """The library refuses the configuration; the text says why."""


@dataclasses.dataclass(frozen=True)
class Report:
    """What the library says about the tensors that it was given.

    ``mismatched`` are (name, shape in the checkpoint, shape in the model); ``failure`` is what it raised while it put tensors
    together. ``tied`` has the source of each tensor that the model shares. ``modules`` are the names of the model's modules.
    ``head``: the class is the one that the configuration names, and not the model without a head.
    """

    missing: Sequence[str]
    unexpected: Sequence[str]
    mismatched: Sequence[tuple[str, Sequence[int], Sequence[int]]]
    failure: str
    tied: Mapping[str, str]
    modules: frozenset[str]
    head: bool


def rebuild(content: Mapping[str, Any], layout: Mapping[str, Placed]) -> Report:
    """The loading report of the model that a ``config.json`` describes, with the tensors of a checkpoint.

    Raises `NotRebuilt` or `Refused`.
    """
    config = configuration(content)
    with reasons(content):
        made, head = model_class(content, config)
        model, info, failure = _load(made, config, meta(layout))
    mismatched = [(str(name), tuple(have), tuple(want)) for name, have, want in info.get("mismatched_keys", ())]
    return Report(
        sorted(info.get("missing_keys", ())), sorted(info.get("unexpected_keys", ())), sorted(mismatched),
        failure or "; ".join(str(text)[:_LONGEST] for text in info.get("error_msgs", ())),
        dict(getattr(model, "all_tied_weights_keys", None) or {}),
        frozenset(name for name, _ in model.named_modules()) if model is not None else frozenset(), head)


def parameter_shapes(content: Mapping[str, Any]) -> list[tuple[int, ...]]:
    """The shapes of a model's parameters in memory; the library may store them in other pieces. Raises as `rebuild`."""
    import torch

    config = configuration(content)
    with reasons(content):
        made, _ = model_class(content, config)
        with torch.device("meta"):
            return [tuple(parameter.shape) for parameter in made(config).parameters()]


def meta(layout: Mapping[str, Placed]) -> dict[str, Any]:
    """Tensors with the names, types and shapes of a checkpoint and no values."""
    import torch

    unknown = sorted({placed.dtype for placed in layout.values()} - set(DTYPES))
    if unknown:
        raise NotRebuilt(f"tensors of the type {unknown[0]} are not handed to the library")
    return {name: torch.empty(placed.shape, dtype=getattr(torch, DTYPES[placed.dtype]), device="meta")
            for name, placed in layout.items()}


def configuration(content: Mapping[str, Any]) -> Any:
    """The library's configuration object for the content of a ``config.json``. Raises as `rebuild`."""
    with reasons(content):
        from transformers.models.auto.configuration_auto import CONFIG_MAPPING

        model_type = content.get("model_type")
        if not isinstance(model_type, str):
            raise NotRebuilt("the configuration has no model_type")
        if model_type not in CONFIG_MAPPING:
            own = " and the code beside it (auto_map) is never run here" if content.get("auto_map") else ""
            raise NotRebuilt(f"transformers {version()} knows no model_type {model_type[:100]!r}{own}")
        if content.get("quantization_config"):
            raise NotRebuilt(f"the weights are quantised ({method(content)}), which only the library of that method rebuilds")
        return CONFIG_MAPPING[model_type].from_dict(
            {name: _numbers(content[name]) for name in content if name not in _OF_THE_MACHINE})


def _numbers(value: Any) -> Any:
    """A value of a ``config.json`` with the floats that JSON has not: transformers 5 writes ``{"__float__": "Infinity"}``."""
    if isinstance(value, list):
        return [_numbers(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {"__float__"} and value["__float__"] in _NOT_FINITE:
        return float(value["__float__"])
    return {name: _numbers(entry) for name, entry in value.items()}


def method(content: Mapping[str, Any]) -> str:
    """The quantisation method that a configuration names, "" for none."""
    settings = content.get("quantization_config")
    return str(settings.get("quant_method") or "an unknown method")[:100] if isinstance(settings, dict) else ""


def version() -> str:
    """The version of the library that reads."""
    import transformers

    return str(transformers.__version__)


def named_class(name: object, config: Any) -> Any | None:
    """The model class of that name, None when the library has none that takes such a configuration."""
    import transformers

    if not isinstance(name, str) or not _CLASS.fullmatch(name):
        return None
    found = getattr(transformers, name, None)
    if not isinstance(found, type) or not issubclass(found, transformers.PreTrainedModel):
        return None
    wanted = getattr(found, "config_class", None)
    return found if wanted is not None and isinstance(config, wanted) else None


def model_class(content: Mapping[str, Any], config: Any) -> tuple[Any, bool]:
    """The class of a model, and whether it is the one that the configuration names. Raises `NotRebuilt`."""
    from transformers.models.auto.modeling_auto import MODEL_MAPPING

    architectures = content.get("architectures")
    name = architectures[0] if isinstance(architectures, list) and architectures else None
    if name is not None:
        if (found := named_class(name, config)) is None:
            raise NotRebuilt(f"transformers {version()} has no class {str(name)[:100]} for the model_type {config.model_type}")
        return found, True
    try:
        found = MODEL_MAPPING[type(config)]
    except KeyError:
        raise NotRebuilt(f"no class is named, and transformers {version()} has none for {config.model_type}") from None
    return found[0] if isinstance(found, (tuple, list)) else found, False


def _load(made: Any, config: Any, tensors: Mapping[str, Any]) -> tuple[Any, Mapping[str, Any], str]:
    """(model, loading report, what was raised while the tensors were put together)."""
    import torch

    with torch.device("meta"):
        made(config)  # what fails here lies in the configuration and not in the tensors
    try:
        model, info = made.from_pretrained(
            None, config=config, state_dict=dict(tensors), output_loading_info=True, device_map="meta", local_files_only=True,
            ignore_mismatched_sizes=True, attn_implementation="eager", use_kernels=False)
    except RuntimeError as error:
        return None, {}, str(error)[:_LONGEST]
    return model, info, ""


@contextlib.contextmanager
def reasons(content: Mapping[str, Any]) -> Iterator[None]:
    """Tell a configuration that the library refuses from a library that is missing or too old."""
    try:
        yield
    except (NotRebuilt, MemoryError, RecursionError):
        raise
    except ImportError as error:
        raise NotRebuilt(f"a library is missing: {str(error).strip().partition(chr(10))[0][:_LONGEST]}") from None
    except (OSError, NotImplementedError) as error:
        raise NotRebuilt(f"transformers could not build it here: {type(error).__name__}: {str(error)[:_LONGEST]}") from None
    except Exception as error:
        text = f"{type(error).__name__}: {str(error)[:_LONGEST]}"
        if "meta" in text:
            raise NotRebuilt(f"the class does not work on the meta device: {text}") from None
        if newer(content.get("transformers_version"), version()):
            raise NotRebuilt(f"written by transformers {content['transformers_version']}, read by {version()}: {text}") from None
        raise Refused(text) from None


def newer(written: object, installed: str) -> bool:
    """Whether a version is newer than the installed one in its first two numbers."""
    found = re.match(r"(\d{1,6})\.(\d{1,6})", str(written))
    here = re.match(r"(\d{1,6})\.(\d{1,6})", installed)
    return bool(found and here and (int(found[1]), int(found[2])) > (int(here[1]), int(here[2])))
