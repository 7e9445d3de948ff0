"""Files of skops (``.skops``): a zip archive with ``schema.json``, which describes an object of scikit-learn, and its arrays.

``skops.io.load`` builds the classes that the schema names and asks for consent to those that it does not trust. Here the archive,
its checksums, the schema and the arrays that it names are checked, and the names are judged as those of a pickle are
(skops/io/_persist.py and _general.py, skops 0.13).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..text import number
from .base import Candidate, Depth, FileFacts, Format, Problem, ProblemKind, Reading, Source, Unit
from .model_files import LARGEST, loads
from .pickle_globals import Kind, kind
from .pickle_survey import Name
from .zip_archive import Archive, member_names
from .zip_members import checked_archive, content

NAME = "skops"
_SCHEMA = "schema.json"
_SHOWN = 3


def recognise(candidate: Candidate) -> bool:
    """By the schema; by its name when there is no directory to read, since the schema is written last."""
    if not candidate.head.startswith(b"PK\x03\x04"):
        return False
    names = member_names(candidate.read, candidate.size)
    return _SCHEMA in names if names else candidate.name.endswith(".skops")


def read(unit: Unit, source: Source) -> Reading:
    """The archive of one file, its checksums, its schema."""
    path, size = unit.path, source.size(unit.path)
    with source.open(path) as file:
        checked = checked_archive(file, size, path, source)
        facts, problems = [FileFacts(path, size, checked.sha256)], list(checked.problems)
        if checked.archive is None:
            return Reading(NAME, None, facts, problems)
        schema = next((member for member in checked.archive.members if member.name == _SCHEMA), None)
        if schema is None:
            observed = f"member {_SCHEMA} is absent"
            problems.append(Problem(ProblemKind.FILE_MISSING, path, observed, "a member of that name", _SCHEMA))
        elif not any(problem.where == _SCHEMA for problem in checked.in_members):
            problems += _described(content(file, schema, LARGEST), checked.archive, path)
    return Reading(NAME, Depth.HEADER, facts, problems)


def _described(data: bytes | None, archive: Archive, path: str) -> Iterator[Problem]:
    """Whether the schema is one, and its arrays are there; the classes of projects that it names."""
    try:
        schema = loads(data) if data is not None else None
    except ValueError as error:
        yield Problem(ProblemKind.CONFIGURATION, path, f"it is no JSON: {error}", "JSON that skops reads", _SCHEMA)
        return
    if not isinstance(schema, dict) or "__class__" not in schema or "__loader__" not in schema:
        expected = "__class__, __module__ and __loader__"
        yield Problem(ProblemKind.CONFIGURATION, path, "its JSON describes no object", expected, _SCHEMA)
        return
    members = {member.name for member in archive.members}
    files: dict[str, None] = {}
    foreign: dict[str, None] = {}
    for node in _nodes(schema):
        file, module, name = node.get("file"), node.get("__module__"), node.get("__class__")
        if isinstance(file, str) and file not in members:
            files[file] = None
        if isinstance(module, str) and isinstance(name, str):
            spelled = f"{module}.{name}"
            if kind(Name(spelled, spelled)) is Kind.FOREIGN:
                foreign[spelled[:200]] = None
    if files:
        yield Problem(ProblemKind.FILE_MISSING, path,
                      f"the schema names {number(len(files), 'array')} without a member: {_listed(files)}",
                      "a member for each", next(iter(files))[:200], len(files))
    if foreign:
        yield Problem(ProblemKind.FOREIGN_CLASS, path, _listed(foreign), "classes of libraries that the receiver can install",
                      next(iter(foreign)), len(foreign))


def _nodes(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    stack: list[Any] = [schema]
    while stack:
        value = stack.pop()
        if isinstance(value, dict):
            yield value
            stack += value.values()
        elif isinstance(value, list):
            stack += value


def _listed(names: Mapping[str, None]) -> str:
    shown = ", ".join(name[:200] for name in list(names)[:_SHOWN])
    return shown + (f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else "")


FORMAT = Format(NAME, Depth.HEADER, read, recognise, aliases=("sklearn", "scikit-learn"))
