"""Folders of ``save_pretrained``: a model's configuration, its weights in one or several files, and perhaps its tokenizer.

The weights are read by the formats of their own. Then configuration, tensors and tokenizer are compared with each other and,
where transformers is at hand, the model is rebuilt (see `rebuilding`): ``from_pretrained`` itself raises for hardly any of the
faults that are looked for here; what it does not find it fills with random values.
"""

from __future__ import annotations

import collections
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .. import paths
from ..text import number
from . import rebuilding, same_weights, sentence_modules, tensor_names, vocabulary, with_values
from .base import Candidate, Depth, Folder, Format, Holds, Pickled, Placed, Problem, ProblemKind, Reading, Source, Unit
from .model_files import (
    ADAPTER_CONFIG,
    ADAPTER_WEIGHTS,
    CONFIG,
    MODEL_WEIGHTS,
    Documents,
    as_folder,
    depth_of,
    form_of,
    read_parts,
    settings,
    tokenizer_files,
    weight_parts,
    whole_layout,
)

NAME = "Hugging Face model"
_COMPANIONS = re.compile(r"(optimizer|scheduler|scaler|rng_state.*|training_args|random_states.*)\.(pt|pth|bin|pkl)")
# Faults after which the library's own report would only say the same again in many more words.
_EXPLAINED = frozenset({ProblemKind.WRAPPER_PREFIX, ProblemKind.SHAPE, ProblemKind.QUANTISATION, ProblemKind.NO_TENSORS,
                        ProblemKind.CONFIGURATION, ProblemKind.SHARD_MISSING})


def gather(folder: Folder) -> Iterator[Unit]:
    """The model of a folder: a configuration of transformers with weights, or with none and nothing that may be weights."""
    config = folder.candidates.get(CONFIG)
    content = settings(config)
    if config is None or (content is not None and not (content.get("model_type") or content.get("architectures"))):
        return
    weights = [path for part in weight_parts(folder, MODEL_WEIGHTS) for path in part.files]
    if not weights and (content is None or _holds_something_else(folder)):
        return
    own = [config.path, *tokenizer_files(folder), *sentence_modules.files(folder), *_code(folder, content or {})]
    yield Unit(NAME, folder.path, tuple(dict.fromkeys([*own, *weights])), hollow=not weights)


def _holds_something_else(folder: Folder) -> bool:
    """Whether weights of another kind lie beside the configuration: then it is not the save that crashed."""
    for name, candidate in folder.candidates.items():
        if name == ADAPTER_CONFIG or ADAPTER_WEIGHTS.fullmatch(name):
            return True
        if not _COMPANIONS.fullmatch(name) and not name.endswith(".model") and (form_of(candidate) or _is_binary(candidate)):
            return True
    return False


def _is_binary(candidate: Candidate) -> bool:
    return b"\0" in candidate.head


def _code(folder: Folder, content: Mapping[str, Any]) -> Iterator[str]:
    """The modules in the folder that ``auto_map`` names; they are never imported."""
    for module in _modules(content):
        if (candidate := folder.candidates.get(f"{module}.py")) is not None:
            yield candidate.path


def _modules(content: Mapping[str, Any]) -> Sequence[str]:
    """The modules that ``auto_map`` expects in the folder itself (``owner/name--module.Class`` lies elsewhere)."""
    named = content.get("auto_map")
    values = named.values() if isinstance(named, dict) else ()
    flat = [item for value in values for item in (value if isinstance(value, (list, tuple)) else (value,))]
    texts = [text for text in flat if isinstance(text, str) and "--" not in text]
    return sorted({text.partition(".")[0] for text in texts if re.fullmatch(r"\w{1,200}(\.\w{1,200})+", text)})


def read(unit: Unit, source: Source) -> Reading:
    """Weights, configuration and tokenizer of one folder, and the model rebuilt when `Depth.MODEL` is asked for."""
    folder = as_folder(unit, source)
    documents = Documents(unit, source)
    config = documents.object(CONFIG)
    documents.object("generation_config.json")  # only whether it can be read: the library ignores one that cannot
    parts = weight_parts(folder, MODEL_WEIGHTS)
    readings = read_parts(parts, source)
    layout = whole_layout(readings)
    problems = [problem for reading in readings for problem in reading.problems]
    if not parts:
        problems.append(_no_weights(unit))
    if config is not None:
        problems += _missing_code(unit, config)
        problems += sentence_modules.check(unit, documents, source)
        problems += vocabulary.check(unit, documents, vocabulary.rows(config, layout))
    for path in unit.files:
        if path.endswith(".py") and source.exists(path):
            documents.pass_over(path)
    problems += documents.problems
    depth = depth_of(readings)
    if config is not None and layout is not None and depth is not None:
        found, rebuilt = _against_configuration(unit, config, layout, source, explained={p.kind for p in problems} & _EXPLAINED)
        problems += found
        for other in readings[1:]:
            problems += same_weights.disagreement(layout, other.layout, source)
        if rebuilt and depth >= Depth.TENSORS:
            depth = Depth.MODEL
    dtypes: collections.Counter[str] = collections.Counter()
    for reading in readings:
        dtypes.update(reading.dtypes)
    return Reading(
        NAME, depth, [*documents.facts, *(fact for reading in readings for fact in reading.files)], problems,
        sum(reading.tensors for reading in readings[:1]), sum(reading.elements for reading in readings[:1]), dtypes,
        sum(reading.bytes_read for reading in readings), layout or {})


def _no_weights(unit: Unit) -> Problem:
    return Problem(ProblemKind.NO_WEIGHTS, paths.join(unit.path, CONFIG), "the configuration of a model and no weights beside it",
                   "model.safetensors, its shards with their index, or pytorch_model.bin")


def _missing_code(unit: Unit, config: Mapping[str, Any]) -> Iterator[Problem]:
    absent = [module for module in _modules(config) if paths.join(unit.path, f"{module}.py") not in unit.files]
    if absent and not _is_known(config):
        yield Problem(ProblemKind.FILE_MISSING, paths.join(unit.path, CONFIG),
                      f"auto_map names {absent[0]}.py, which is not in the folder; the model cannot be loaded without it",
                      f"{absent[0]}.py in the folder", "/auto_map", len(absent))


def _is_known(config: Mapping[str, Any]) -> bool:
    """Whether the library has the class itself and needs no code from the folder."""
    try:
        from transformers.models.auto.configuration_auto import CONFIG_MAPPING
    except ImportError:
        return False
    return config.get("model_type") in CONFIG_MAPPING


def _against_configuration(
    unit: Unit, config: Mapping[str, Any], layout: Mapping[str, Placed], source: Source, explained: set[ProblemKind]
) -> tuple[list[Problem], bool]:
    """What is wrong with the tensors as a model, and whether it was rebuilt."""
    method = rebuilding.method(config)
    plain = [*tensor_names.prefixes(layout), *tensor_names.emptied(layout), *tensor_names.quantised(layout, method)]
    if plain or explained or not layout:
        return plain, False
    why = ""
    if source.depth >= Depth.MODEL:
        try:
            report = rebuilding.rebuild(config, layout)
        except rebuilding.NotRebuilt as reason:
            why = str(reason)
        except rebuilding.Refused as error:
            refusal = f"transformers refuses the configuration: {error}"
            place = paths.join(unit.path, CONFIG)
            return [Problem(ProblemKind.CONFIGURATION, place, refusal, "one of which the model can be built")], False
        else:
            return [*_judge(report, layout), *_tied(report.tied, layout, source)], True
    problems = [] if method else [*tensor_names.layers(layout, config), *tensor_names.embedding(layout, config)]
    problems += _tied(tensor_names.tied(layout, config), layout, source)
    if why:
        problems.append(Problem(ProblemKind.NOT_REBUILT, paths.join(unit.path, CONFIG), f"the model was not rebuilt: {why}",
                                "the library that knows the model"))
    return problems, False


def _judge(report: rebuilding.Report, layout: Mapping[str, Placed]) -> Iterator[Problem]:
    """The loading report as problems. Tensors are named as the library calls them, which may differ from the file."""
    path = next(iter(layout.values())).path
    if report.failure:
        odd = tensor_names.uneven(layout)
        yield Problem(ProblemKind.MISSING_TENSORS, path,
                      f"the library cannot put the tensors together: {tensor_names.some(odd) or report.failure}",
                      "as many tensors of one shape as the model has parts", odd[0] if odd else "")
        return
    if report.missing:
        left = report.unexpected
        lost = f"; {number(len(left), 'other')} left over: {tensor_names.some(left)}" if left else ""
        absent = tensor_names.some(report.missing)
        yield Problem(ProblemKind.MISSING_TENSORS, path,
                      f"{number(len(report.missing), 'tensor')} missing, which the library makes up: {absent}{lost}",
                      "every tensor of the model", report.missing[0], len(report.missing))
    else:
        yield from _left_over(report, layout, path)
    if report.mismatched:
        name, have, want = report.mismatched[0]
        yield Problem(ProblemKind.SHAPE, layout[name].path if name in layout else path, f"{name} has the shape {list(have)}",
                      f"{list(want)}, as the configuration says", name, len(report.mismatched))
    if not report.head:
        yield Problem(ProblemKind.NOT_REBUILT, path, "the configuration names no architecture, so a head was not checked",
                      "architectures")


def _left_over(report: rebuilding.Report, layout: Mapping[str, Placed], path: str) -> Iterator[Problem]:
    """Tensors that the model does not take, although it has all that it needs."""
    own = [name for name in report.unexpected if _is_own(name, report, layout)]
    rest = [name for name in report.unexpected if name not in own]
    for kind, names, expected in (
        (ProblemKind.UNEXPECTED_TENSORS, own, "a configuration that has a place for each of them"),
        (ProblemKind.EXTRA_TENSORS, rest, "the tensors of the model"),
    ):
        if names:
            yield Problem(kind, layout[names[0]].path if names[0] in layout else path,
                          f"{number(len(names), 'tensor')} without a place in the model: {tensor_names.some(names)}",
                          expected, names[0], len(names))


def _is_own(name: str, report: rebuilding.Report, layout: Mapping[str, Placed]) -> bool:
    """Whether a tensor that was left over falls into the model's own name space.

    It does when it is a parameter of a module that the model has, or of a layer behind the last of its layers. What hangs
    beside (a head, a pooler) or is a buffer (of more dimensions than a bias has, or no weight and no bias) does not.
    """
    parents = name.split(".")[:-1]
    numbers = [at for at, part in enumerate(parents) if part.isdigit()]
    if numbers and ".".join(parents[:numbers[0]]) in report.modules and ".".join(parents[:numbers[0] + 1]) not in report.modules:
        return True
    placed = layout.get(name)
    leaf = name.rpartition(".")[2]
    return (".".join(parents) in report.modules and bool(parents)
            and (leaf == "weight" or (leaf == "bias" and (placed is None or len(placed.shape) == 1))))


def _tied(tied: Mapping[str, str], layout: Mapping[str, Placed], source: Source) -> Iterator[Problem]:
    """Tied tensors that were stored twice with different values, or under the derived name alone."""
    for derived, name in tied.items():
        if derived not in layout:
            continue
        if name in layout:
            if layout[derived].shape == layout[name].shape and not same_weights.equal(layout[name], layout[derived], source):
                yield Problem(ProblemKind.TIED_COPY, layout[derived].path,
                              f"{derived} is tied to {name} and was stored with other values, which the library drops",
                              "the same values, or tie_word_embeddings: false", derived)
        elif derived.endswith(".weight"):
            yield Problem(ProblemKind.TIED_NAME, layout[derived].path,
                          f"{derived} was stored, {name} was not; the library ties them", f"the name {name}", derived)


def build(unit: Unit, source: Source, attention: str | None) -> Any:
    """The model with its values; raises `rebuilding.NotRebuilt` or `rebuilding.Refused`."""
    return with_values.model(Documents(unit, source).object(CONFIG) or {}, read(unit, source), source, attention)


FORMAT = Format(
    NAME, Depth.MODEL, read, gather=gather, build=build, preload=rebuilding.LIBRARIES,
    aliases=("safetensors", "pytorch", "torch", "transformers", "huggingface", "hf"),
    of_others=True, pickled=Pickled.BY_NAME, holds=Holds.WEIGHTS)
