"""Models of Keras 3 (``.keras``): a zip archive with ``metadata.json``, ``config.json`` and ``model.weights.h5`` (or ``.npz``).

The structure is checked, no library is asked. A ``Lambda`` layer can hold its function as compiled Python code, which runs under
one minor version of Python only and which loading has to run (keras/src/saving/saving_lib.py and serialization_lib.py, Keras 3).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

from . import hdf5_file
from .base import Candidate, Depth, FileFacts, Format, Problem, ProblemKind, Reading, Source, Unit
from .model_files import LARGEST, loads
from .streaming import exactly
from .zip_archive import STORED, Member, first_name, member_names
from .zip_members import checked_archive, content

NAME = "Keras"
_METADATA, _CONFIG = "metadata.json", "config.json"
_WEIGHTS = ("model.weights.h5", "model.weights.npz")
_SHOWN = 3


def recognise(candidate: Candidate) -> bool:
    """By the members; by the first one when there is no directory to read, as in a file that was cut."""
    if not candidate.head.startswith(b"PK\x03\x04"):
        return False
    names = set(member_names(candidate.read, candidate.size))
    if names:
        return len({_METADATA, _CONFIG} & names) + any(name in names for name in _WEIGHTS) >= 2
    return first_name(candidate.head) == _METADATA


def read(unit: Unit, source: Source) -> Reading:
    """The archive of one file, its checksums, its configuration and the end of its weights."""
    path, size = unit.path, source.size(unit.path)
    with source.open(path) as file:
        checked = checked_archive(file, size, path, source)
        facts, problems = [FileFacts(path, size, checked.sha256)], list(checked.problems)
        if checked.archive is None:
            return Reading(NAME, None, facts, problems)
        broken = {problem.where for problem in checked.in_members if problem.kind in (ProblemKind.CHECKSUM, ProblemKind.DAMAGED)}
        members = {member.name: member for member in checked.archive.members}
        for needed in (_METADATA, _CONFIG):
            if needed not in members:
                observed = f"member {needed} is absent"
                problems.append(Problem(ProblemKind.FILE_MISSING, path, observed, "a member of that name", needed))
        if not any(name in members for name in _WEIGHTS):
            problems.append(Problem(ProblemKind.NO_WEIGHTS, path, "no member with the weights", " or ".join(_WEIGHTS)))
        for name in {_METADATA, _CONFIG} & members.keys() - broken:
            problems += _configuration(file, members[name], path)
        for name in {_WEIGHTS[0]} & members.keys() - broken:
            problems += _weights(file, members[name], path)
    return Reading(NAME, Depth.HEADER, facts, problems)


def _configuration(file: BinaryIO, member: Member, path: str) -> Iterator[Problem]:
    data = content(file, member, LARGEST)
    if data is None:
        yield Problem(ProblemKind.TOO_LARGE, path, f"{member.size:,} bytes of JSON", f"at most {LARGEST:,} bytes", member.name)
        return
    try:
        value = loads(data)
    except ValueError as error:
        yield Problem(ProblemKind.CONFIGURATION, path, f"it is no JSON: {error}", "JSON that Keras reads", member.name)
        return
    if not isinstance(value, dict) or (member.name == _CONFIG and not isinstance(value.get("class_name"), str)):
        expected = "an object with class_name" if member.name == _CONFIG else "an object"
        yield Problem(ProblemKind.CONFIGURATION, path, "its JSON describes no model", expected, member.name)
    elif member.name == _CONFIG:
        yield from _compiled(value, path)


def _compiled(config: Mapping[str, Any], path: str) -> Iterator[Problem]:
    """Functions that are stored as compiled code, named by the layer that holds them."""
    layers: list[str] = []
    stack: list[tuple[Any, str]] = [(config, "")]
    while stack:
        value, layer = stack.pop()
        if isinstance(value, dict):
            inner = value.get("config")
            if isinstance(value.get("class_name"), str) and isinstance(inner, dict) and isinstance(inner.get("name"), str):
                layer = inner["name"]
            if value.get("class_name") == "__lambda__" or value.get("function_type") == "lambda":
                layers.append(layer)
            stack += [(part, layer) for part in value.values()]
        elif isinstance(value, list):
            stack += [(part, layer) for part in value]
    if layers:
        shown = ", ".join(json.dumps(name)[:100] for name in sorted(layers)[:_SHOWN])
        yield Problem(ProblemKind.PYTHON_CODE, path, f"compiled Python code of functions: {len(layers):,}, in {shown}",
                      "layers that are named, not stored as code", _CONFIG, len(layers))


def _weights(file: BinaryIO, member: Member, path: str) -> Iterator[Problem]:
    if member.method != STORED:
        return  # inflated once, for its checksum

    def look(offset: int, length: int) -> bytes:
        return exactly(file, member.offset + offset, max(0, min(length, member.size - offset)))

    yield from hdf5_file.check(look, member.size, path, member.name)


FORMAT = Format(NAME, Depth.HEADER, read, recognise)
