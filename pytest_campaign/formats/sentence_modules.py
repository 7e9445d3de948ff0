"""The parts of a sentence-transformers model: ``modules.json`` in the folder of the model names a folder for each.

Every part but the first loads ``config.json`` from its folder; ``Normalize`` needs none, and its folder, which older versions
left empty, is lost by every tool that copies files only (sentence-transformers 6.2, ``Module.load``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from .. import paths
from ..text import number
from .base import Folder, Problem, ProblemKind, Source, Unit
from .model_files import CONFIG, Documents, content

MODULES = "modules.json"
_WITHOUT_SETTINGS = frozenset({"Normalize"})
_SETTINGS = re.compile(r"config_sentence_transformers\.json|sentence_[a-z0-9-]+_config\.json")


def files(folder: Folder) -> Iterator[str]:
    """``modules.json``, the settings beside it and those of its parts, present or not: what lies below is not known here."""
    candidate = folder.candidates.get(MODULES)
    if candidate is not None:
        yield candidate.path
        yield from (beside.path for name, beside in folder.candidates.items() if _SETTINGS.fullmatch(name))
        for path in _parts(content(candidate)):
            yield paths.join(folder.path, f"{path}/{CONFIG}")


def check(unit: Unit, documents: Documents, source: Source) -> Iterator[Problem]:
    """Parts whose settings are not there."""
    parts = _parts(documents.content(MODULES))
    beside = [path for path in unit.files if _SETTINGS.fullmatch(path.rpartition("/")[2])]
    for path in (*beside, *(paths.join(unit.path, f"{path}/{CONFIG}") for path in parts)):
        if source.exists(path):
            documents.pass_over(path)
    needed = [paths.join(unit.path, f"{path}/{CONFIG}") for path, kind in parts.items() if kind not in _WITHOUT_SETTINGS]
    absent = [path for path in needed if not source.exists(path)]
    if absent:
        yield Problem(ProblemKind.FILE_MISSING, absent[0], f"{MODULES} names {number(len(absent), 'part')} without settings",
                      absent[0], count=len(absent))


def _parts(modules: object) -> Mapping[str, str]:
    """The folders of the parts that have one of their own, and the name of each part's class."""
    found = {}
    for module in modules if isinstance(modules, list) else ():
        path, kind = (module.get("path"), module.get("type")) if isinstance(module, Mapping) else (None, None)
        if not isinstance(path, str) or not isinstance(kind, str):
            continue
        if path and paths.fault(path) is None and paths.normal(path):  # the first part lies in the folder itself
            found[paths.normal(path)] = kind.rpartition(".")[2]
    return found
