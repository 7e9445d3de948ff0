"""Adapters of PEFT: ``adapter_config.json`` and a file with the few tensors that were trained.

PEFT loads an adapter with no tensors, with half of them or with renamed ones and says so in a warning at most. Here its names
are compared with each other and with the configuration and, where PEFT and the configuration of the base model are at hand,
with those that PEFT itself makes for that base on the meta device: no value of the base is read.

Source of the names: ``peft.utils.save_and_load`` and ``peft.tuners`` (peft 0.21), and adapters written by it.
"""

from __future__ import annotations

import collections
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .. import paths
from . import adapter_on_base, base_headers, hf_model, rebuilding, tensor_names, vocabulary, with_values
from .base import Depth, Folder, Format, Holds, Pickled, Placed, Problem, ProblemKind, Reading, Source, Unit
from .base_headers import BaseHeaders
from .model_files import (
    ADAPTER_CONFIG,
    ADAPTER_WEIGHTS,
    CONFIG,
    MODEL_WEIGHTS,
    Documents,
    as_folder,
    depth_of,
    read_parts,
    settings,
    tokenizer_files,
    weight_parts,
    whole_layout,
)
from .streaming import exactly

NAME = "PEFT adapter"
PREFIX = "base_model.model."  # in front of the name that a module has in the base
_EXPECTED = "adapter_model.safetensors"
# What is zero before the first step, so that the adapter changes nothing (peft.tuners.*.layer, reset_parameters).
_ZERO_AT_FIRST = re.compile(
    r"(^|\.)(lora_B(\.weight|\.bias)?|lora_embedding_A|lora_E|p?vera_lambda_b|hada_w2_b|b?oft_R(\.weight)?|lokr_w1(_a)?"
    r"|randlora_lambda|waveft_spectrum|(delora|gralora|lily)_B(\.weight)?)$")
_OF_METHOD = re.compile(
    r"(^|\.)(lora|p?vera|hada|b?oft|lokr|randlora|waveft|delora|gralora|lily|ia3)_[A-Za-z0-9_]+(\.weight|\.bias)?$")
_A = re.compile(r"(^|\.)lora_(A|embedding_B)(\.[A-Za-z0-9_-]+)?(\.weight)?$")  # of LoRA; never zero at first
_ONE_AT_FIRST = re.compile(r"(^|\.)ia3_l$")
_ONE = {"F32": "0000803f", "F16": "003c", "BF16": "803f"}  # the number one as it lies in a file
_LONGEST_SCALES = 1 << 24  # bytes of a vector that is looked at
_IN_LAYER = re.compile(r"(.+)\.(\d{1,6})\.([^\d.][^.]*(?:\.[^\d.][^.]*)*)")  # the innermost number parts the layers
_FEWEST_LAYERS = 2
_LORA = re.compile(r"(?P<module>.+)\.lora_(?P<embedding>embedding_)?(?P<side>[AB])(\.[A-Za-z0-9_-]+)?(\.weight)?")


def gather(folder: Folder) -> Iterator[Unit]:
    """The adapter of a folder: its configuration, its tensors, or both; with the tokenizer where no model has it."""
    config = folder.candidates.get(ADAPTER_CONFIG)
    weights = [path for part in weight_parts(folder, ADAPTER_WEIGHTS) for path in part.files]
    if config is None and not weights:
        return
    own = [config.path] if config else []
    if (headers := folder.candidates.get(base_headers.FILE)) is not None:
        own.append(headers.path)
    if CONFIG not in folder.candidates or not weight_parts(folder, MODEL_WEIGHTS):
        own += tokenizer_files(folder)
    yield Unit(NAME, folder.path, tuple(dict.fromkeys([*own, *weights])), hollow=not weights and settings(config) is not None)


def read(unit: Unit, source: Source) -> Reading:
    """Configuration and tensors of one adapter, and the adapter on its base when `Depth.MODEL` is asked for."""
    documents = Documents(unit, source)
    config = documents.object(ADAPTER_CONFIG)
    place = paths.join(unit.path, ADAPTER_CONFIG)
    readings = read_parts(weight_parts(as_folder(unit, source), ADAPTER_WEIGHTS), source)
    layout = whole_layout(readings)
    problems = [problem for reading in readings for problem in reading.problems]
    if not readings:
        problems.append(
            Problem(ProblemKind.NO_WEIGHTS, place, "the configuration of an adapter and no tensors beside it", _EXPECTED))
    if place not in unit.files:
        problems.append(
            Problem(ProblemKind.FILE_MISSING, place, "tensors without the configuration that they need", ADAPTER_CONFIG))
    depth = depth_of(readings)
    headers, wrong = base_headers.read(unit, source)
    problems += wrong
    base = adapter_on_base.configuration(source)
    archived = headers if base is None else None
    if archived is not None:
        base = archived.config
    elif headers is not None and source.base is not None and source.depth >= Depth.MODEL:
        problems += base_headers.compare(base_headers.place(unit), headers, source.base)
    if config is not None:
        method = config.get("peft_type")
        if not isinstance(method, str):
            problems.append(_no_adapter(place, config))
        elif layout and depth is not None:
            found, rebuilt = _against_configuration(place, config, layout, base, source)
            problems += found
            if rebuilt and depth >= Depth.TENSORS:
                depth = Depth.MODEL
                if archived is not None:
                    problems.append(_on_headers(base_headers.place(unit), archived))
    problems += vocabulary.check(unit, documents, _rows(base, layout))
    problems += documents.problems
    dtypes: collections.Counter[str] = collections.Counter()
    for reading in readings:
        dtypes.update(reading.dtypes)
    return Reading(
        NAME, depth,
        [*documents.facts, *base_headers.facts(unit, source), *(fact for reading in readings for fact in reading.files)],
        problems, sum(reading.tensors for reading in readings), sum(reading.elements for reading in readings), dtypes,
        sum(reading.bytes_read for reading in readings), layout or {})


def _on_headers(place: str, headers: BaseHeaders) -> Problem:
    tensors = f"{len(headers.by_name):,} tensors" if headers.tensors else "without tensors"
    return Problem(ProblemKind.ARCHIVED_BASE, place,
                   f"the adapter was compared with the archived headers of {headers.title} ({tensors}), not with the base itself",
                   "the base, which is not at hand")


def _no_adapter(place: str, config: Mapping[str, Any]) -> Problem:
    kind = config.get("model_type")
    other = f"it is the configuration of a model ({kind[:60]})" if isinstance(kind, str) else "no peft_type"
    return Problem(ProblemKind.CONFIGURATION, place, f"{other}; PEFT cannot tell what kind of adapter it is",
                   "a configuration with peft_type", "/peft_type")


def _rows(base: Mapping[str, Any] | None, layout: Mapping[str, Placed] | None) -> int | None:
    """The rows of the embedding that the adapter brings or, without one, of its base's; None when that is not known."""
    own = vocabulary.rows({}, layout)
    return own if own is not None else vocabulary.rows(base, None) if base is not None else None


def _against_configuration(
    place: str, config: Mapping[str, Any], layout: Mapping[str, Placed], base: Mapping[str, Any] | None, source: Source
) -> tuple[list[Problem], bool]:
    """What is wrong with the tensors as an adapter, and whether it was put on its base."""
    problems = [*tensor_names.prefixes(layout), *_untrained(place, config, layout, source)]
    if any(problem.kind is ProblemKind.WRAPPER_PREFIX for problem in problems):
        return problems, False
    why = ""
    if source.depth >= Depth.MODEL:
        try:
            problems += adapter_on_base.unknown_settings(place, config)
            if base is None:
                raise rebuilding.NotRebuilt(f"its base model{source.base_name and ' ' + source.base_name} is not at hand")
            problems += adapter_on_base.compare(place, config, layout, base)
        except rebuilding.NotRebuilt as reason:
            why = str(reason)
        except rebuilding.Refused as error:
            return [*problems, Problem(ProblemKind.CONFIGURATION, place, f"PEFT refuses the adapter on its base: {error}",
                                       "a configuration that fits the base")], False
        else:
            return problems, True
    problems += [*_pairs(layout), *_names(config, layout), *_ranks(place, config, layout), *_saved_modules(config, layout),
                 *_settings(config, layout), *_prompt(place, config, layout), *_incomplete(config, layout)]
    if why:
        problems.append(Problem(ProblemKind.NOT_REBUILT, place, f"the adapter was not compared with its base: {why}",
                                "the base model, and the libraries that know it"))
    return problems, False


def _untrained(place: str, config: Mapping[str, Any], layout: Mapping[str, Placed], source: Source) -> Iterator[Problem]:
    """An adapter without effect: its tensors are those of the first step, one side of every product is zero, or its scale is."""
    if not all(_OF_METHOD.search(name) for name in layout):
        return
    neutral = [name for name in layout if name.endswith("lora_E")]  # of AdaLoRA, whose lora_B does not start at zero
    neutral = neutral or [name for name in layout if _ZERO_AT_FIRST.search(name)]
    scaled = not any("magnitude" in name for name in layout)  # DoRA's magnitudes have an effect of their own
    first = [name for name in layout if scaled and _A.search(name)]
    scales = [name for name in layout if _ONE_AT_FIRST.search(name)]
    if neutral and all(layout[name].zero for name in neutral):
        yield Problem(ProblemKind.UNTRAINED, layout[neutral[0]].path,
                      f"all of the {len(neutral):,} tensors that start at zero are still zero: {tensor_names.some(neutral)}",
                      "values other than zero", neutral[0], len(neutral))
    elif first and all(layout[name].zero for name in first):
        yield Problem(ProblemKind.UNTRAINED, layout[first[0]].path,
                      f"all of the {len(first):,} tensors lora_A are zero, so it adds nothing: {tensor_names.some(first)}",
                      "values other than zero", first[0], len(first))
    elif scales and len(scales) == len(layout) and all(_is_one(layout[name], source) for name in scales):
        yield Problem(ProblemKind.UNTRAINED, layout[scales[0]].path,
                      f"all of the {len(scales):,} vectors of IA3 are still one: {tensor_names.some(scales)}",
                      "values other than one", scales[0], len(scales))
    elif first and config.get("peft_type") == "LORA" and config.get("lora_alpha") == 0 and not config.get("alpha_pattern"):
        yield Problem(ProblemKind.UNTRAINED, place, "lora_alpha is 0, so the adapter adds nothing", "a scale other than zero",
                      "/lora_alpha")


def _is_one(placed: Placed, source: Source) -> bool:
    """Whether every value of a short tensor is known to be one."""
    one = bytes.fromhex(_ONE.get(placed.dtype, ""))
    if source.depth < Depth.TENSORS or placed.offset is None or not one or not 0 < placed.length <= _LONGEST_SCALES:
        return False
    with source.open(placed.path) as file:
        return exactly(file, placed.offset, placed.length) == one * (placed.length // len(one))


def _pairs(layout: Mapping[str, Placed]) -> Iterator[Problem]:
    """A of LoRA without B, or B without A."""
    sides: dict[tuple[str, bool], dict[str, str]] = collections.defaultdict(dict)
    for name in layout:
        if match := _LORA.fullmatch(name):
            sides[match["module"], match["embedding"] is not None][match["side"]] = name
    single = [next(iter(found.values())) for found in sides.values() if len(found) == 1]
    if single:
        first = single[0]
        yield Problem(ProblemKind.MISSING_TENSORS, layout[first].path,
                      f"{len(single):,} of {len(sides):,} modules have only one of A and B: {tensor_names.some(single)}",
                      "A and B for each module", first, len(single))


def _names(config: Mapping[str, Any], layout: Mapping[str, Placed]) -> Iterator[Problem]:
    """Names that PEFT does not look for. An adapter of a prompt has no modules and no such prefix."""
    if config.get("peft_type") != "LORA":
        return
    other = [name for name in layout if not name.startswith(PREFIX)]
    if other:
        yield Problem(ProblemKind.MISSING_TENSORS, layout[other[0]].path,
                      f"{len(other):,} of {len(layout):,} names do not begin with {PREFIX}, so PEFT does not find them: "
                      f"{tensor_names.some(other)}", f"names that begin with {PREFIX}", other[0], len(other))


def _ranks(place: str, config: Mapping[str, Any], layout: Mapping[str, Placed]) -> Iterator[Problem]:
    """Another rank than ``r`` and ``rank_pattern`` say. With ``target_parameters`` the experts lie one behind the other."""
    rank, patterns = config.get("r"), config.get("rank_pattern")
    if config.get("peft_type") != "LORA" or type(rank) is not int or patterns or config.get("target_parameters"):
        return
    wrong = []
    for name, placed in layout.items():
        match = _LORA.fullmatch(name)
        if match and len(placed.shape) == 2 and placed.shape[0 if match["side"] == "A" else 1] != rank:
            wrong.append(name)
    if wrong:
        shape = list(layout[wrong[0]].shape)
        yield Problem(ProblemKind.SHAPE, place, f"r is {rank}, {len(wrong):,} tensors have another rank: {wrong[0]} {shape}",
                      "the rank that was trained", "/r", len(wrong))


def _saved_modules(config: Mapping[str, Any], layout: Mapping[str, Placed]) -> Iterator[Problem]:
    """``modules_to_save`` of which not one is there. PEFT lists several heads by itself, of which a model has one."""
    named = config.get("modules_to_save")
    names = [name for name in named if isinstance(name, str)] if isinstance(named, list) else []
    if names and not any(f".{name}." in f".{key}." for name in names for key in layout):
        path = next(iter(layout.values())).path
        yield Problem(ProblemKind.MISSING_TENSORS, path,
                      f"modules_to_save names {tensor_names.some(names)}, and the file holds none of them",
                      "a full copy of each of these modules", names[0], len(names))


def _settings(config: Mapping[str, Any], layout: Mapping[str, Placed]) -> Iterator[Problem]:
    """Settings of LoRA that bring tensors of their own, and no such tensors; and no tensor of LoRA at all."""
    if config.get("peft_type") != "LORA":
        return
    path = next(iter(layout.values())).path
    for asked, mark, what in (
        (config.get("target_modules") or config.get("target_parameters"), "lora_A", "the tensors of LoRA"),
        (config.get("use_dora"), "lora_magnitude_vector", "the magnitudes of DoRA, which use_dora asks for"),
        (config.get("trainable_token_indices"), "token_adapter", "the tokens of trainable_token_indices"),
    ):
        if asked and not any(mark in name.replace("lora_embedding_A", "lora_A") for name in layout):
            yield Problem(ProblemKind.MISSING_TENSORS, path, f"no name contains {mark}: {what}",
                          "every tensor that the configuration describes", mark)
    magnitudes = [name for name in layout if "lora_magnitude_vector" in name]
    if magnitudes and not config.get("use_dora"):
        yield Problem(ProblemKind.UNEXPECTED_TENSORS, path,
                      f"{len(magnitudes):,} magnitudes of DoRA, dropped without use_dora: {tensor_names.some(magnitudes)}",
                      "use_dora: true", magnitudes[0], len(magnitudes))


def _prompt(place: str, config: Mapping[str, Any], layout: Mapping[str, Placed]) -> Iterator[Problem]:
    """A prompt of another length than ``num_virtual_tokens`` says, once for each submodule that has one."""
    tokens, parts = config.get("num_virtual_tokens"), config.get("num_transformer_submodules")
    placed = layout.get("prompt_embeddings")
    if type(tokens) is not int or placed is None or len(placed.shape) != 2 or config.get("peft_type") == "CARTRIDGE":
        return
    rows = placed.shape[0]
    right = rows == tokens * parts if type(parts) is int and config.get("peft_type") != "PREFIX_TUNING" else \
        tokens > 0 and rows % tokens == 0
    if not right:
        yield Problem(ProblemKind.SHAPE, place, f"num_virtual_tokens is {tokens}, prompt_embeddings has {rows:,} rows",
                      "the length that was trained", "/num_virtual_tokens")


def _incomplete(config: Mapping[str, Any], layout: Mapping[str, Placed]) -> Iterator[Problem]:
    """What makes an adapter of LoRA look incomplete although, without the base, nobody can be sure.

    A name in ``target_modules`` without tensors (a list may name modules of several models; one with the number of a layer, as
    PEFT writes it for ``all-linear``, is that of a module which the base has), and a layer that has some of what all of the
    others have and nothing else.
    """
    targets = config.get("target_modules")
    if config.get("peft_type") != "LORA" or not isinstance(targets, list):
        return
    path = next(iter(layout.values())).path
    modules = [match["module"] for name in layout if (match := _LORA.fullmatch(name))]
    names = [target for target in targets if isinstance(target, str)]
    absent = [name for name in names if not any(f".{module}".endswith(f".{name}") for module in modules)]
    of_layers = [name for name in absent if re.search(r"(^|\.)\d+\.", name)]
    if modules and of_layers:
        yield Problem(ProblemKind.MISSING_TENSORS, path,
                      f"target_modules names {tensor_names.some(of_layers)}, and there are no tensors of it",
                      "tensors for each module", of_layers[0], len(of_layers))
    elif modules and absent:
        yield Problem(ProblemKind.PERHAPS_INCOMPLETE, path,
                      f"target_modules names {tensor_names.some(absent)}, and there are no tensors of it",
                      "tensors for each name, unless the base has no such module", absent[0], len(absent))
    limited = ("layers_to_transform", "layers_pattern", "exclude_modules", "target_parameters", "layer_replication")
    if any(config.get(name) not in (None, [], "") for name in limited) or any(re.search(r"(^|\.)\d+\.", name) for name in names):
        return
    for stack, number, lost in _uneven(modules):
        yield Problem(ProblemKind.PERHAPS_INCOMPLETE, path,
                      f"{stack}.{number} lacks {tensor_names.some(lost)}, which all other layers of {stack} have",
                      "the same tensors in each layer", f"{stack}.{number}.{lost[0]}", len(lost))


def _uneven(modules: Sequence[str]) -> Iterator[tuple[str, int, Sequence[str]]]:
    """(stack, number, modules) of a layer that lacks what all others of its stack have, and has nothing that they have not."""
    stacks: dict[str, dict[int, set[str]]] = collections.defaultdict(lambda: collections.defaultdict(set))
    for module in modules:
        if match := _IN_LAYER.fullmatch(module):
            stacks[match[1]][int(match[2])].add(match[3])
    for stack, found in stacks.items():
        counts = collections.Counter(name for names in found.values() for name in names)
        for number, names in found.items():
            common = {name for name, count in counts.items() if count - (name in names) == len(found) - 1}
            if len(found) > _FEWEST_LAYERS and names < common:
                yield stack, number, sorted(common - names)
                break


def build(unit: Unit, source: Source, attention: str | None) -> Any:
    """The adapter with its values on its base with its own; raises `rebuilding.NotRebuilt` or `rebuilding.Refused`."""
    if source.base is None:
        raise rebuilding.NotRebuilt(f"its base model{source.base_name and ' ' + source.base_name} is not at hand")
    base = hf_model.read(Unit(hf_model.NAME, "", tuple(source.base.names())), source.base)
    config = Documents(unit, source).object(ADAPTER_CONFIG) or {}
    return with_values.adapter(config, read(unit, source), base, source, attention)


FORMAT = Format(
    NAME, Depth.MODEL, read, gather=gather, build=build, preload=(*rebuilding.LIBRARIES, "peft"),
    aliases=("safetensors", "pytorch", "torch", "peft", "lora"), of_others=True, pickled=Pickled.BY_NAME, holds=Holds.WEIGHTS)
