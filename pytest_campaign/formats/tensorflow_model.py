"""SavedModels of TensorFlow: a folder with ``saved_model.pb`` and the checkpoint ``variables/variables``.

The message is walked to its end and not interpreted; the checkpoint is a unit of its own (see `tensorflow_checkpoint`). A graph
without variables has none (tensorflow/cc/saved_model/constants.h and saved_model.proto, TensorFlow 2.21).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from .. import paths
from .base import Depth, FileFacts, Folder, Format, Problem, ProblemKind, Reading, Source, Unit
from .protobuf_wire import LENGTH, VARINT, Cut, Malformed, Window, fields
from .streaming import digest, holds
from .zip_archive import reader

NAME = "SavedModel"
_MODEL, _VARIABLES = "saved_model.pb", "variables"
_INDEX = "variables/variables.index"
_BESIDE = ("fingerprint.pb", "keras_metadata.pb")
_BEGINNING = b"\x08\x01\x12"  # version 1 of the schema and the first graph
_MOST_FIELDS = 10_000
_OPERATIONS = (b"VarHandleOp", b"VariableV2")  # which need a value from the checkpoint


def gather(folder: Folder) -> Iterator[Unit]:
    """The model of a folder; also one that has lost ``saved_model.pb`` and still has its variables."""
    model = folder.candidates.get(_MODEL)
    has_variables = "variables.index" in folder.below(_VARIABLES)
    if (model is not None and model.head.startswith(_BEGINNING)) or has_variables:
        own = [candidate.path for name in _BESIDE if (candidate := folder.candidates.get(name)) is not None]
        yield Unit(NAME, folder.path, (paths.join(folder.path, _MODEL), *own, paths.join(folder.path, _INDEX)))


def read(unit: Unit, source: Source) -> Reading:
    """The structure of the message, and whether the variables are there that it needs."""
    model, index = paths.join(unit.path, _MODEL), paths.join(unit.path, _INDEX)
    facts: list[FileFacts] = []
    problems: list[Problem] = []
    depth: Depth | None = Depth.HEADER
    for path in unit.files:
        if path == index or not source.exists(path):
            continue
        size = source.size(path)
        with source.open(path) as file:
            problems += _message(file, size, path, model=path == model)
            if path == model and not source.exists(index) and holds(file, size, _OPERATIONS):
                observed = f"{_INDEX} is absent, and the graph has variables"
                problems.append(Problem(ProblemKind.FILE_MISSING, index, observed, "the index"))
            sha256 = digest(file, size, source)
        if not source.digest:
            source.advance(size)
        facts.append(FileFacts(path, size, sha256))
    if not source.exists(model):
        observed = f"{_MODEL} is absent or empty, its variables are here"
        problems.append(Problem(ProblemKind.FILE_MISSING, model, observed, "the graph"))
        depth = None
    return Reading(NAME, depth, facts, problems)


def _message(file: BinaryIO, size: int, path: str, *, model: bool) -> Iterator[Problem]:
    """Whether the fields of a message tile the file; a model has its version and graphs and nothing else."""
    try:
        for count, field in enumerate(fields(Window(reader(file), size), 0)):
            if count > _MOST_FIELDS or (model and (field.number, field.wire) not in ((1, VARINT), (2, LENGTH))):
                raise Malformed(field.start, f"field {field.number} of wire type {field.wire}")
    except Cut as cut:
        yield Problem(ProblemKind.TRUNCATED, path, f"{size:,} bytes: the file ends inside its message",
                      f"at least {cut.needed:,} bytes")
    except Malformed as fault:
        yield Problem(ProblemKind.DAMAGED, path, f"{fault.what} at byte {fault.at:,}",
                      "a message as saved_model.proto describes it")


FORMAT = Format(NAME, Depth.HEADER, read, gather=gather, aliases=("tensorflow", "tf"))
