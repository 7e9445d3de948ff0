"""An adapter on its base, compared by names and shapes: PEFT makes it anew, on the meta device, from the two configurations."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

from ..text import number
from . import rebuilding, tensor_names
from .base import Placed, Problem, ProblemKind, Source
from .model_files import ADAPTER_CONFIG, CONFIG, LARGEST_CONFIG
from .rebuilding import NotRebuilt, Refused, newer
from .streaming import exactly

_TASKS = {
    "CAUSAL_LM": "CausalLM", "SEQ_2_SEQ_LM": "Seq2SeqLM", "SEQ_CLS": "SequenceClassification", "TOKEN_CLS": "TokenClassification",
    "QUESTION_ANS": "QuestionAnswering",
}
_HEADS = ("score", "classifier", "classification_head")
_EMBEDDING = re.compile(
    r"\.(embed_tokens|lm_head|wte|word_embeddings|shared|embed_in|embed_out)\.(base_layer\.|modules_to_save\.)?weight$")
_ENDINGS = {"CausalLM": ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration"),
            "Seq2SeqLM": ("ForConditionalGeneration", "ForSeq2SeqLM")}
_LOOKED_UP: Mapping[str, Any] = {"base_model_name_or_path": None, "revision": None}
_FROM_DATA = ("corda", "loftq", "lora_ga")  # how LoRA changes the base at its start by what only the training has
_LONGEST = 300


@dataclasses.dataclass(frozen=True)
class Tensors:
    """The shapes of an adapter's tensors by name.

    ``needed`` are those that it must have, ``embeddings`` those that PEFT saves beside them when the vocabulary was resized or
    the embeddings are adapted: then all of them.
    """

    needed: Mapping[str, tuple[int, ...]]
    embeddings: Mapping[str, tuple[int, ...]]

    def wanted(self, layout: Mapping[str, Placed]) -> Mapping[str, tuple[int, ...]]:
        """The shapes that an adapter with such tensors should have."""
        return {**self.embeddings, **self.needed} if self.embeddings.keys() <= layout.keys() else self.needed

    def differing(self, layout: Mapping[str, Placed]) -> int:
        """How many names of an adapter are not as they should be."""
        return len(self.wanted(layout).keys() ^ layout.keys())


def configuration(source: Source) -> Mapping[str, Any] | None:
    """The configuration of the base model; None when the base is not at hand or has none that can be read."""
    base = source.base
    if base is None or not base.exists(CONFIG):
        return None
    try:
        with base.open(CONFIG) as file:
            content = json.loads(exactly(file, 0, min(base.size(CONFIG), LARGEST_CONFIG)))
    except (OSError, ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def unknown_settings(place: str, config: Mapping[str, Any]) -> Iterator[Problem]:
    """Settings that the installed PEFT does not know and therefore drops. One without a value changes nothing.

    Raises `NotRebuilt` without PEFT.
    """
    known, version = _fields(config)
    if known is None:
        if newer(config.get("peft_version"), version):
            yield _newer(place, config, version, f"the method {str(config.get('peft_type'))[:60]}")
        else:
            name = str(config.get("peft_type"))[:60]
            yield Problem(ProblemKind.CONFIGURATION, place, f"PEFT {version} knows no method {name!r}", "a method of PEFT",
                          "/peft_type")
        return
    unknown = [name for name, value in config.items() if name not in known and value not in (None, False, [], {}, "")]
    if unknown and newer(config.get("peft_version"), version):
        yield _newer(place, config, version, tensor_names.some(unknown))
    elif unknown:
        yield Problem(ProblemKind.UNKNOWN_SETTING, place,
                      f"PEFT {version} does not know {tensor_names.some(unknown)} and drops it",
                      "settings that PEFT knows", f"/{unknown[0]}", len(unknown))


def _newer(place: str, config: Mapping[str, Any], version: str, what: str) -> Problem:
    wrote = str(config.get("peft_version"))[:40]
    return Problem(ProblemKind.NEWER_LIBRARY, place, f"written by PEFT {wrote} with {what}, read by {version}",
                   "that version, or a later one")


def _fields(config: Mapping[str, Any]) -> tuple[set[str] | None, str]:
    """The settings of the adapter's method, None when the method is unknown, and the version of PEFT."""
    try:
        import peft
    except ImportError as error:
        raise NotRebuilt(f"a library is missing: {error}") from None
    mapping: Mapping[Any, Any] = peft.PEFT_TYPE_TO_CONFIG_MAPPING
    found = mapping.get(config.get("peft_type"))
    return (None if found is None else set(found.__dataclass_fields__)), str(peft.__version__)


def compare(place: str, config: Mapping[str, Any], layout: Mapping[str, Placed], base: Mapping[str, Any]) -> Iterator[Problem]:
    """How the tensors of an adapter differ from those that it has on its base. Raises `NotRebuilt` or `Refused`."""
    path = next(iter(layout.values())).path
    wanted = _fitting(config, base, layout)[2].wanted(layout)
    have = {name: placed.shape for name, placed in layout.items()}
    missing = [name for name in wanted if name not in have]
    left = [name for name in have if name not in wanted]
    if missing:
        lost = f"; {number(len(left), 'other')} left over: {tensor_names.some(left)}" if left else ""
        yield Problem(ProblemKind.MISSING_TENSORS, path,
                      f"{len(missing):,} of {len(wanted):,} tensors are missing: {tensor_names.some(missing)}{lost}",
                      "every tensor of the adapter on this base", missing[0], len(missing))
    elif left:
        yield Problem(ProblemKind.UNEXPECTED_TENSORS, path,
                      f"{number(len(left), 'tensor')} without a place on the base: {tensor_names.some(left)}",
                      "the tensors that the configuration describes", left[0], len(left))
    wrong = [name for name, shape in wanted.items() if name in have and have[name] != shape]
    if wrong:
        first = wrong[0]
        yield Problem(ProblemKind.SHAPE, path, f"{first} has the shape {list(have[first])}",
                      f"{list(wanted[first])}, on this base", first, len(wrong))


def rows_of_adapter(base: Mapping[str, Any], layout: Mapping[str, Placed]) -> int | None:
    """The size of the vocabulary when the adapter brings an embedding of another one: its training resized the base's."""
    sizes = {part.get("vocab_size") for part in (base, base.get("text_config")) if isinstance(part, dict)}
    rows = {placed.shape[0] for name, placed in layout.items() if _EMBEDDING.search(name) and len(placed.shape) == 2}
    return rows.pop() if len(rows) == 1 and not rows <= sizes else None


def _resized(base: Mapping[str, Any], rows: int) -> Mapping[str, Any]:
    """The configuration of the base with another size of the vocabulary, which that of a model of images and text has inside."""
    inner = base.get("text_config")
    return {**base, "vocab_size": rows, **({"text_config": {**inner, "vocab_size": rows}} if isinstance(inner, dict) else {})}


def fitting_class(config: Mapping[str, Any], base: Mapping[str, Any], layout: Mapping[str, Placed]) -> tuple[Any, Any]:
    """The class of transformers that an adapter was trained on, and its configuration as the base has it. Raises as `compare`."""
    made = _fitting(config, base, layout)[0]
    return next((found, settings) for found, settings in _classes(config, base, layout) if found is made)


def _fitting(config: Mapping[str, Any], base: Mapping[str, Any], layout: Mapping[str, Placed]) -> tuple[Any, Any, Tensors]:
    """(class, configuration, the tensors of the adapter that PEFT makes on it): the best fit of those that the task allows."""
    resized = rows_of_adapter(base, layout)
    base = base if resized is None else _resized(base, resized)
    best: tuple[Any, Any, Tensors] | None = None
    reason: Exception = NotRebuilt("transformers has no class for the task of the adapter on this base")
    for model_class, settings in _classes(config, base, layout):
        try:
            made = _made(model_class, settings, config)
        except (NotRebuilt, Refused) as error:
            reason = error if best is None and not isinstance(reason, Refused) else reason
            continue
        if best is None or made.differing(layout) < best[2].differing(layout):
            best = model_class, settings, made
        if not best[2].differing(layout):
            break
    if best is None:
        raise reason
    return best


def _classes(config: Mapping[str, Any], base: Mapping[str, Any], layout: Mapping[str, Placed]) -> Iterator[tuple[Any, Any]]:
    """The classes that the adapter may have been trained on, the likeliest first, each with its configuration."""
    content = {**base, "num_labels": labels} if (labels := _labels(layout)) is not None else base
    content = {name: value for name, value in content.items() if labels is None or name not in ("id2label", "label2id")}
    settings = rebuilding.configuration(content)
    from transformers.models.auto import modeling_auto

    seen = set()
    mapping = config.get("auto_mapping")
    names = [mapping.get("base_model_class") if isinstance(mapping, dict) else None]
    task = _TASKS.get(str(config.get("task_type")))
    architectures = base.get("architectures")
    own = architectures[0] if isinstance(architectures, list) and architectures else None
    if task is None or _suits(str(own), task):
        names.append(own)
    for name in names:
        if (found := rebuilding.named_class(name, settings)) is not None and found not in seen:
            seen.add(found)
            yield found, settings
    for group in (f"AutoModelFor{task}" if task else "", "AutoModel"):
        table = getattr(getattr(modeling_auto, group, None), "_model_mapping", {})
        try:
            found = table[type(settings)]
        except KeyError:
            continue
        found = found[0] if isinstance(found, (tuple, list)) else found
        if found not in seen:
            seen.add(found)
            yield found, settings


def _suits(name: str, task: str) -> bool:
    """Whether a class of that name is made for a task."""
    return name.endswith(_ENDINGS.get(task, (f"For{task}",)))


def _labels(layout: Mapping[str, Placed]) -> int | None:
    """How many labels the head has that the adapter brings."""
    for name, placed in layout.items():
        parts = name.split(".")
        is_head = parts[-1] == "weight" and any(part in _HEADS for part in parts) and parts[-2] in (*_HEADS, "out_proj")
        if is_head and len(placed.shape) == 2:
            return placed.shape[0]
    return None


def _made(model_class: Any, settings: Any, config: Mapping[str, Any]) -> Tensors:
    import torch

    try:
        import peft
    except ImportError as error:
        raise NotRebuilt(f"a library is missing: {error}") from None
    with rebuilding.reasons({}), torch.device("meta"):
        model = model_class(settings)
        model.tie_weights()
    with _reasons(config):
        own = _own(_without_values(config))
        with torch.device("meta"):
            adapted = peft.get_peft_model(model, own) if own.is_prompt_learning else peft.get_peft_model(
                model, own, low_cpu_mem_usage=True)
            needed = peft.get_peft_model_state_dict(adapted, save_embedding_layers=False)
            possible = needed
            with contextlib.suppress(NotImplementedError, AttributeError):  # a model that has no embedding of tokens
                possible = peft.get_peft_model_state_dict(adapted, save_embedding_layers=True)
    return Tensors(_shapes(needed), _shapes({name: tensor for name, tensor in possible.items() if name not in needed}))


def adapted(model: Any, config: Mapping[str, Any], tensors: Mapping[str, Any]) -> Any:
    """A model with its values under an adapter with its own. Raises `NotRebuilt` or `Refused`."""
    import peft

    start = config.get("init_lora_weights")
    if isinstance(start, str) and start.startswith(_FROM_DATA):
        raise NotRebuilt(f"init_lora_weights is {start[:40]}, which needs the data of the training")
    with _reasons(config):
        own = _own({**config, **_LOOKED_UP})
        own.inference_mode = True
        made = peft.get_peft_model(model, own)
        peft.set_peft_model_state_dict(made, dict(tensors))
    return made


def _own(config: Mapping[str, Any]) -> Any:
    """PEFT's configuration object, which it makes from a file only. `NotRebuilt` for one that names a module to import."""
    import peft

    if config.get("megatron_config"):  # peft.tuners.lora.tp_layer then imports whatever megatron_core names
        raise NotRebuilt("megatron_config asks for a module of the training to be imported")
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, ADAPTER_CONFIG), "w", encoding="utf-8") as file:
            json.dump(config, file)
        return peft.PeftConfig.from_pretrained(folder)


@contextlib.contextmanager
def _reasons(config: Mapping[str, Any]) -> Iterator[None]:
    """Tell an adapter that PEFT refuses from a library that is missing or too old."""
    import peft

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except (NotRebuilt, MemoryError, RecursionError):
        raise
    except ImportError as error:
        raise NotRebuilt(f"a library is missing: {str(error)[:_LONGEST]}") from None
    except Exception as error:
        text = f"{type(error).__name__}: {str(error)[:_LONGEST]}"
        if newer(config.get("peft_version"), str(peft.__version__)) or "meta" in text:
            raise NotRebuilt(f"PEFT {peft.__version__} could not build it: {text}") from None
        raise Refused(text) from None


def _without_values(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The configuration without what is looked up or computed from the values of the base (PiSSA, LoftQ ...)."""
    return {**config, **_LOOKED_UP, **({"init_lora_weights": True} if "init_lora_weights" in config else {})}


def _shapes(state: Mapping[str, Any]) -> Mapping[str, tuple[int, ...]]:
    return {str(name): tuple(tensor.shape) for name, tensor in state.items()}
