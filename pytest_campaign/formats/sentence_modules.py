"""The parts of a sentence-transformers model: ``modules.json`` in the folder of the model names a folder for each.

Every part but the first loads ``config.json`` from its folder; ``Normalize`` has nothing to load, and its folder, which is then
empty, is lost by every tool that copies files only (sentence-transformers 6.2, ``Module.load``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from .. import paths
from .base import Folder, Problem, ProblemKind, Source, Unit
from .model_files import CONFIG, Documents, content

MODULES = "modules.json"
_WITHOUT_SETTINGS = frozenset({"Normalize"})


def files(folder: Folder) -> Iterator[str]:
    """``modules.json`` and what its parts need, present or not: what a folder holds below is not known here."""
    candidate = folder.candidates.get(MODULES)
    if candidate is not None:
        yield candidate.path
        for path in _parts(content(candidate)):
            yield paths.join(folder.path, f"{path}/{CONFIG}")


def check(unit: Unit, documents: Documents, source: Source) -> Iterator[Problem]:
    """Parts whose settings are not there."""
    needed = [paths.join(unit.path, f"{path}/{CONFIG}") for path in _parts(documents.content(MODULES))]
    for path in needed:
        if source.exists(path):
            documents.pass_over(path)
    absent = [path for path in needed if not source.exists(path)]
    if absent:
        yield Problem(ProblemKind.FILE_MISSING, absent[0], f"{MODULES} names {len(absent):,} parts whose settings are absent",
                      absent[0], count=len(absent))


def _parts(modules: object) -> Sequence[str]:
    """The folders that must hold settings."""
    found = []
    for module in modules if isinstance(modules, list) else ():
        path, kind = (module.get("path"), module.get("type")) if isinstance(module, Mapping) else (None, None)
        if not isinstance(path, str) or not isinstance(kind, str) or kind.rpartition(".")[2] in _WITHOUT_SETTINGS:
            continue
        if path and paths.fault(path) is None and paths.normal(path):  # the first part lies in the folder itself
            found.append(paths.normal(path))
    return found
