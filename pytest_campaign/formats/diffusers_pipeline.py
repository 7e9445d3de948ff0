"""Pipelines of diffusers: ``model_index.json`` names a class for each part, and each part lies in a folder of that name.

The weights of the parts are read by the formats of their own; here the parts are compared with the index. A single part
(``unet/``) is a model that can be delivered alone; several of them without ``model_index.json`` are a pipeline that
``DiffusionPipeline.from_pretrained`` does not find (diffusers 0.36, pipelines/pipeline_utils.py and pipeline_loading_utils.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from .. import paths
from .base import Depth, Folder, Format, Holds, Problem, ProblemKind, Reading, Source, Unit
from .model_files import CONFIG, Documents, form_of, opened, settings

NAME = "diffusers pipeline"
INDEX = "model_index.json"
_WEIGHTS = re.compile(
    r"(diffusion_pytorch_model|model|pytorch_model|adapter_model|pytorch_lora_weights|diffusion_flax_model|flax_model|tf_model)"
    r"([.-].*)?\.(safetensors|bin|msgpack|h5|onnx|gguf)")
# What a part that is no model keeps: the files that its class loads.
_SETTINGS = re.compile(r"(scheduler_config|tokenizer_config|preprocessor_config|processor_config|video_preprocessor_config|vocab|"
                       r"tokenizer|config)\.json|.*\.model")
_NO_MODEL = re.compile(r".*(Scheduler|Tokenizer|TokenizerFast|Processor|ProcessorFast|FeatureExtractor|Guider)")
# The parts by the names that diffusers' own pipelines give them.
_PARTS = ("unet", "transformer", "vae", "vqvae", "prior", "decoder", "movq", "controlnet", "text_encoder", "text_encoder_2",
          "text_encoder_3", "image_encoder", "scheduler", "tokenizer", "tokenizer_2", "safety_checker", "feature_extractor")
_DENOISERS = frozenset({"unet", "transformer", "prior", "decoder"})
_SCHEDULER = "scheduler"


def gather(folder: Folder) -> Iterator[Unit]:
    """The pipeline of a folder: by its index, or by parts that belong to one and have lost it."""
    index = folder.candidates.get(INDEX)
    value = settings(index)
    if index is None:
        parts = [name for name in _PARTS if _is_part(folder, name)]
        if not _is_pipeline(parts):
            return
    elif value is None or "_class_name" in value:
        parts = list(_named(value or {}))
    else:
        return
    files = [paths.join(folder.path, INDEX)]
    for name in parts:
        files += [paths.join(folder.path, f"{name}/{path}") for path, file in folder.below(name).items()
                  if file.size and _matters(path)]
    yield Unit(NAME, folder.path, tuple(files))


def _is_part(folder: Folder, name: str) -> bool:
    """Whether a subfolder holds a part: a configuration of diffusers, or weights or settings under the names that it uses."""
    inside = folder.below(name)
    return any("/" not in path and _matters(path) for path in inside)


def _is_pipeline(parts: list[str]) -> bool:
    """A model that removes noise, its scheduler and one more part; a training keeps models in such folders, and no scheduler."""
    return _SCHEDULER in parts and not _DENOISERS.isdisjoint(parts) and len(parts) > 2


def _matters(path: str) -> bool:
    return "/" not in path and (_WEIGHTS.fullmatch(path) is not None or _SETTINGS.fullmatch(path) is not None
                                or path.endswith(".index.json"))


def _named(index: Mapping[str, Any]) -> Iterator[str]:
    """The parts that an index names; ``[null, null]`` is one that the pipeline was saved without."""
    for name, value in index.items():
        if not name.startswith("_") and isinstance(value, list) and len(value) == 2 and isinstance(value[1], str) \
                and paths.fault(name) is None and "/" not in name:
            yield name


def read(unit: Unit, source: Source) -> Reading:
    """The index against the parts that are there."""
    documents = Documents(unit, source)
    path = paths.join(unit.path, INDEX)
    inside: dict[str, list[str]] = {}
    for file in unit.files:
        part, slash, name = file.removeprefix(unit.path).lstrip("/").partition("/")
        if slash and source.exists(file):
            inside.setdefault(part, []).append(name)
    problems: list[Problem] = []
    depth: Depth | None = min(source.depth, Depth.TENSORS)
    if not source.exists(path):
        here = f"{len(inside)} parts of a pipeline are here: {', '.join(sorted(inside)[:6])}"
        problems.append(Problem(ProblemKind.FILE_MISSING, path, f"{INDEX} is absent, and {here}",
                                f"{INDEX}, which names the class of each"))
        depth = None
    else:
        index = documents.object(INDEX)
        for part in _named(index or {}):
            problems += _part(paths.join(unit.path, part), part, (index or {})[part], inside.get(part, []))
    for part, names in inside.items():
        for name in names:
            file = paths.join(unit.path, f"{part}/{name}")
            if name.endswith(".model"):
                documents.pass_over(file)
            elif _SETTINGS.fullmatch(name):
                documents.object(f"{part}/{name}")
            elif _WEIGHTS.fullmatch(name) and not form_of(opened(file, source)):
                observed = "the file of the weights is in no format that is known here"
                problems.append(Problem(ProblemKind.DAMAGED, file, observed, "safetensors or a torch file"))
    problems += documents.problems
    return Reading(NAME, depth, documents.facts, problems)


def _part(path: str, part: str, named: list[Any], names: list[str]) -> Iterator[Problem]:
    """Whether a part that the index names can be loaded."""
    kind = named[1]
    if not names:
        yield Problem(ProblemKind.FILE_MISSING, path, f"{INDEX} names {part} ({kind[:100]}), which is absent or empty",
                      f"the folder {part} with its files", f"/{part}")
        return
    if _NO_MODEL.fullmatch(kind):
        if not any(_SETTINGS.fullmatch(name) for name in names):
            yield Problem(ProblemKind.FILE_MISSING, path, f"no settings of {part} ({kind[:100]})",
                          "the file that its class loads", f"/{part}")
        return
    if not any(_WEIGHTS.fullmatch(name) for name in names):
        yield Problem(ProblemKind.NO_WEIGHTS, path, f"{INDEX} names {part} ({kind[:100]}), whose folder holds no weights",
                      "diffusion_pytorch_model.safetensors, model.safetensors or their shards", f"/{part}")
    if CONFIG not in names and not any(name.endswith(".onnx") for name in names):
        yield Problem(ProblemKind.FILE_MISSING, f"{path}/{CONFIG}", f"{part} has weights and no {CONFIG}", CONFIG, f"/{part}")


FORMAT = Format(NAME, Depth.TENSORS, read, gather=gather, aliases=("diffusers",), holds=Holds.WEIGHTS)
