"""What the names and shapes of a model's tensors tell by themselves, without the library that would rebuild it."""

from __future__ import annotations

import collections
import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from .base import Placed, Problem, ProblemKind, Reading

SHOWN = 3  # names in a message
# What torch.compile, FSDP and activation checkpointing put between the names of modules, wherever the wrapped module is.
_WRAPPERS = re.compile(r"(?:^|\.)(_orig_mod|_fsdp_wrapped_module|_checkpoint_wrapped_module|_forward_module)\.")
_DDP = "module."  # DataParallel and DeepSpeed wrap the whole model
_LAYER = re.compile(r"(.*?(?:^|\.)(?:layers|layer|h|blocks|block))\.(\d{1,6})\.")
_OUTPUT = re.compile(r"head|output|out_proj|decoder|score|classifier|embed_out", re.IGNORECASE)
_INPUT = re.compile(r"(^|\.)(embed_tokens|wte|word_embeddings|tok_embeddings|embed_in|shared)\.weight")
_LAYERS = ("num_hidden_layers", "n_layer", "num_layers", "n_layers")


def some(names: Iterable[str]) -> str:
    """The first names for a message, and how many more there are."""
    names = list(names)
    more = f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
    return ", ".join(name[:200] for name in names[:SHOWN]) + more


def prefixes(layout: Mapping[str, Placed]) -> Iterator[Problem]:
    """Names with what a wrapper adds, which no model has and every loader takes for tensors of another model."""
    wrapped = {name: match[1] for name in layout if (match := _WRAPPERS.search(name))}
    if not wrapped and layout and all(name.startswith(_DDP) for name in layout):
        wrapped = dict.fromkeys(layout, _DDP.rstrip("."))
    if wrapped:
        yield _wrapped(wrapped, layout, ProblemKind.WRAPPER_PREFIX)


def with_wrappers(reading: Reading) -> Reading:
    """The reading, with a problem for such names in a file of which nothing says what model it is.

    The code that loads it may wrap the model again or rename the tensors, so this is another problem. And ``module.`` may be
    a part of that name there.
    """
    if any(problem.kind is ProblemKind.WRAPPER_PREFIX for problem in reading.problems):
        return reading
    wrapped = {name: match[1] for name in reading.layout if (match := _WRAPPERS.search(name))}
    if not wrapped:
        return reading
    found = _wrapped(wrapped, reading.layout, ProblemKind.WRAPPED_NAMES)
    return dataclasses.replace(reading, problems=[*reading.problems, found])


def _wrapped(wrapped: Mapping[str, str], layout: Mapping[str, Placed], kind: ProblemKind) -> Problem:
    first, part = next(iter(wrapped.items()))
    return Problem(kind, layout[first].path,
                   f"{len(wrapped):,} of {len(layout):,} names contain {part}, which a wrapper adds: {some(wrapped)}",
                   f"names without {part}", first, len(wrapped))


def emptied(layout: Mapping[str, Placed]) -> Iterator[Problem]:
    """Tensors of shape [0], as a parameter that lies on other ranks looks when it was not gathered (ZeRO stage 3)."""
    empty = [name for name, placed in layout.items() if placed.shape == (0,)]
    if empty:
        yield Problem(ProblemKind.SHAPE, layout[empty[0]].path,
                      f"{len(empty):,} of {len(layout):,} tensors have the shape [0]: {some(empty)}",
                      "the gathered tensor", empty[0], len(empty))


def layers(layout: Mapping[str, Placed], config: Mapping[str, Any]) -> Iterator[Problem]:
    """Gaps in the numbers of the layers, and another number of layers than the configuration says."""
    numbers: dict[str, dict[int, str]] = collections.defaultdict(dict)
    for name in layout:
        if match := _LAYER.match(name):
            numbers[match[1]].setdefault(int(match[2]), name)
    said = next((config[key] for key in _LAYERS if type(config.get(key)) is int), None)
    predicted = config.get("num_nextn_predict_layers")  # layers behind the last that only speed up generation
    beyond = predicted if type(predicted) is int else 0
    for stack, found in numbers.items():
        path = layout[next(iter(found.values()))].path
        gaps = [number for number in range(min(max(found) + 1, 2 * len(found) + 1)) if number not in found]
        if gaps:
            yield Problem(ProblemKind.MISSING_TENSORS, path, f"{stack} has layers up to {max(found)} without {gaps[0]}",
                          f"every layer from 0 to {max(found)}", f"{stack}.{gaps[0]}", max(found) + 1 - len(found))
        elif len(numbers) == 1 and said is not None and len(found) < said:
            yield Problem(ProblemKind.MISSING_TENSORS, path, f"{stack} has {len(found):,} layers",
                          f"{said:,}, as the configuration says", f"{stack}.{len(found)}", said - len(found))
        elif len(numbers) == 1 and said is not None and len(found) > said + beyond:
            yield Problem(ProblemKind.UNEXPECTED_TENSORS, path, f"{stack} has {len(found):,} layers",
                          f"{said:,}, as the configuration says", found[said + beyond], len(found) - said - beyond)


def embedding(layout: Mapping[str, Placed], config: Mapping[str, Any]) -> Iterator[Problem]:
    """An embedding with another number of rows than ``vocab_size``, and an output layer that is neither there nor tied."""
    tables = [name for name in layout if _INPUT.search(name)]
    size = config.get("vocab_size")
    if len(tables) != 1 or type(size) is not int:
        return
    table, placed = tables[0], layout[tables[0]]
    if len(placed.shape) == 2 and placed.shape[0] != size:
        yield Problem(ProblemKind.SHAPE, placed.path, f"{table} has {placed.shape[0]:,} rows", f"{size:,}, as vocab_size says",
                      table)
    architectures = config.get("architectures")
    writes = isinstance(architectures, list) and str(architectures[:1]).endswith("ForCausalLM']")
    if writes and config.get("tie_word_embeddings") is False and not any(
            _OUTPUT.search(name) for name in layout if not _LAYER.match(name)):
        yield Problem(ProblemKind.MISSING_TENSORS, placed.path,
                      "no output layer, although the configuration does not tie it to the embedding",
                      "the output layer, or tie_word_embeddings: true")


def tied(layout: Mapping[str, Placed], config: Mapping[str, Any]) -> Mapping[str, str]:
    """The tensors that the usual names say are tied (derived name -> the other), when the configuration ties them."""
    tables = [name for name in layout if _INPUT.search(name)]
    return {"lm_head.weight": tables[0]} if config.get("tie_word_embeddings") is True and len(tables) == 1 else {}


def quantised(layout: Mapping[str, Placed], method: str) -> Iterator[Problem]:
    """Packed weights without what makes numbers of them, for the methods whose tensors are known.

    Source: bitsandbytes (``QuantState.as_dict``, ``Linear8bitLt``), and the names in GPTQ and AWQ checkpoints.
    """
    lacking: list[tuple[str, str]] = []
    for name, placed in layout.items():
        stem = name.rpartition(".")[0]
        if method == "bitsandbytes" and name.endswith(".weight"):
            if placed.dtype == "U8" and len(placed.shape) == 2 and placed.shape[1] == 1:
                lacking += [(name, part) for part in ("absmax", "quant_state") if not _has(layout, f"{name}.{part}")]
            elif placed.dtype == "I8" and f"{stem}.SCB" not in layout:
                lacking.append((name, "SCB"))
        elif method in ("gptq", "awq") and name.endswith(".qweight"):
            lacking += [(name, part) for part in ("qzeros", "scales") if f"{stem}.{part}" not in layout]
    if lacking:
        first, part = lacking[0]
        names = list(dict.fromkeys(name for name, _ in lacking))
        yield Problem(ProblemKind.QUANTISATION, layout[first].path,
                      f"{len(names):,} packed weights without their {part}: {some(names)}",
                      f"the quantisation state of {method} beside each of them", first, len(names))


def _has(layout: Mapping[str, Placed], prefix: str) -> bool:
    return prefix in layout or any(f"{prefix}.{kind}" in layout for kind in ("bitsandbytes__nf4", "bitsandbytes__fp4"))


def uneven(layout: Mapping[str, Placed]) -> Sequence[str]:
    """Names with numbers in them that stand alone: fewer of their like, or of another shape, than of their neighbours."""
    families: dict[str, list[str]] = collections.defaultdict(list)
    for name in layout:
        families[re.sub(r"\d+", "*", name)].append(name)
    shapes = {family: collections.Counter(layout[name].shape for name in names).most_common(1)[0][0]
              for family, names in families.items()}
    odd = [name for family, names in families.items() for name in names if layout[name].shape != shapes[family]]
    by_folder: dict[str, list[str]] = collections.defaultdict(list)
    for family in families:
        by_folder[family.rpartition("*")[0]].append(family)
    for related in by_folder.values():
        most = max(len(families[family]) for family in related)
        odd += [f"{family} ({len(families[family]):,}, not {most:,})" for family in related if len(families[family]) < most]
    return odd
