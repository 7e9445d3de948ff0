"""What the fields of a deliverable's files refer to, as findings."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ... import bases, machine_paths, paths
from ...campaign import WEIGHTS, Campaign, Deliverable
from ...findings import Finding, Level
from ...inventory import FILE, FOLDER, Entry
from ...machine_paths import Lifetime, MachinePath
from ...readers import columns
from ...readers.fields import Field, Unreadable
from ...readers.strict_json import Located, locate_all, pointer_to
from ...text import number, shown
from ..base import Evidence
from . import metadata, names, rules
from .files import POINTER, Kind, Role, kind_of, names_path

LARGEST = 16 << 20  # bytes of a file of configuration
LARGEST_TABLE = 16 << 20
LARGEST_LOCATED = 1 << 20  # bytes of JSON in which the lines of what was found are looked up
MOST_FOUND = 20  # fields of one file that are listed
LONGEST_POINTER = 4096  # bytes of a file that names a checkpoint
_DATA = re.compile(r"(.*)\.data-[0-9]{5}-of-([0-9]{5})")  # a part of a checkpoint of TensorFlow


@dataclasses.dataclass(frozen=True)
class _File:
    """One file of a deliverable, seen at ``path``. ``spots`` are the places of its fields by their JSON pointers."""

    campaign: Campaign
    deliverable: Deliverable
    path: str
    spots: Mapping[str, Located] = dataclasses.field(default_factory=dict)

    @property
    def folder(self) -> str:
        return posixpath.dirname(self.path)

    def place(self, field: Field) -> dict[str, Any]:
        """Where a field stands, as the fields of a finding."""
        if self.path.endswith(".json") and field.line is None:
            pointer = pointer_to(field.keys)
            line, column = self.spots[pointer].value if pointer in self.spots else (None, None)
            return {"path": self.path, "pointer": pointer, "line": line, "column": column}
        return {"path": self.path, "line": field.line}

    def written(self, name: str, value: str) -> str:
        """The line to put there."""
        if self.path.endswith(".json"):
            return f"{json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}"
        if self.path.endswith(("/checkpoint", ".pbtxt")):
            return f"{name}: {json.dumps(value, ensure_ascii=False)}"
        return f"{name}: {value}" if name else value


def absent(campaign: Campaign, deliverable: Deliverable) -> str | None:
    """Why there is nothing to look at."""
    return "it is not there" if campaign.target(deliverable) is None else None


def check(campaign: Campaign, deliverable: Deliverable, evidence: Evidence) -> Iterator[Finding]:
    """Findings about what a deliverable's names, links and fields refer to."""
    yield from names.check(campaign, deliverable)
    beside = {posixpath.dirname(path) for unit in campaign.units_of(deliverable) for path in unit.files}
    for path, entry in campaign.files_of(deliverable).items():
        if path != entry.path and posixpath.basename(path) == posixpath.basename(entry.path) \
                and campaign.owns(deliverable, entry.path):
            continue  # seen again through a link to a folder
        weights = deliverable.kind in WEIGHTS or posixpath.dirname(path) in beside
        with contextlib.suppress(OSError):  # what cannot be read is said by the check that asks whether it is there
            yield from _file(campaign, deliverable, path, entry, evidence, weights)
    yield from _columns(campaign, deliverable, evidence)


def _file(campaign: Campaign, deliverable: Deliverable, path: str, entry: Entry, evidence: Evidence,
          weights: bool) -> Iterator[Finding]:
    kind = kind_of(path, deliverable.kind, beside_weights=weights)
    if kind is not None and entry.size <= LARGEST:
        data = evidence.content(entry, LARGEST)
        try:
            fields = list(kind.read(data))
        except Unreadable as error:
            if kind.referring and entry.size:
                yield rules.UNREADABLE.finding(f"its references were not looked at: {shown(str(error), 300)}", path=path,
                                               remedy="copy or write it again")
        else:
            yield from _fields(_File(campaign, deliverable, path), kind, fields, data)
    elif kind is not None and kind.referring:
        yield rules.UNREADABLE.finding(f"its references were not looked at: it has {entry.size:,} bytes", path=path,
                                       observed=f"{entry.size:,} bytes", expected=f"at most {LARGEST:,}",
                                       remedy="look at it yourself")
    elif kind is None and POINTER.fullmatch(path) and 0 < entry.size <= LONGEST_POINTER:
        text = evidence.content(entry, LONGEST_POINTER).decode("utf-8", "replace").strip()
        if machine_paths.parse(text):
            yield from _best(_File(campaign, deliverable, path), Field((), text, 1))
    elif kind is None and entry.size:
        found = metadata.texts(evidence.head(entry), entry.size, lambda limit: evidence.content(entry, limit))
        yield from _recorded(path, [(field, at) for field in found if (at := _machine(field))])


def _machine(field: Field) -> MachinePath | None:
    """The machine path in a field that is only recorded: by the look of it, or by the name of the field."""
    at = machine_paths.parse(field.value)
    return at if at is not None and (at.rooted or names_path(field.name)) else None


def _fields(file: _File, kind: Kind, fields: Sequence[Field], data: bytes) -> Iterator[Finding]:
    recorded, followed = [], []
    for field in fields:
        role = kind.role(field) if field.keys else None
        if role is Role.RECORDED:
            if at := _machine(field):
                recorded.append((field, at))
        elif role is Role.BEST or (role is not None and (machine_paths.parse(field.value) or _leads_nowhere(file, field, role))):
            followed.append((field, role))
    listed = followed[:MOST_FOUND]
    if file.path.endswith(".json") and len(data) <= LARGEST_LOCATED:
        file = dataclasses.replace(file, spots=locate_all(data, {pointer_to(field.keys) for field, _ in listed}))
    findings = [finding for field, role in listed for finding in _followed(file, field, role)]
    if findings and len(followed) > MOST_FOUND:
        more = f"; {number(len(followed) - MOST_FOUND, 'more field')} of the file may be like it"
        findings[-1] = dataclasses.replace(findings[-1], message=findings[-1].message + more)
    yield from findings
    yield from _recorded(file.path, recorded)


def _followed(file: _File, field: Field, role: Role) -> Iterator[Finding]:
    if role is Role.BEST:
        yield from _best(file, field)
    elif at := machine_paths.parse(field.value):
        yield _ROLES[role](file, field, at)
    else:
        expected, line = _base_line(file, field, None)
        yield rules.MACHINE_PATH.finding(
            f"{_name(field)} is a relative path, and no model lies there, seen from the campaign directory or from the adapter",
            level=Level.WARNING, **file.place(field), observed=shown(field.value, 300), expected=expected,
            remedy=f"put there {line}")


def _leads_nowhere(file: _File, field: Field, role: Role) -> bool:
    """Whether the base is named by a relative path behind which nothing lies."""
    return role is Role.BASE and bases.is_relative_path(field.value) \
        and bases.folder_of(field.value, file.folder, file.campaign.inventory) is None


def _recorded(path: str, found: Sequence[tuple[Field, MachinePath]]) -> Iterator[Finding]:
    """One note for a file, however many paths it records."""
    if not found:
        return
    field, _ = found[0]
    first = f"{shown(field.name, 60)}: {shown(field.value, 200)}" if names_path(field.name) else shown(field.value, 200)
    yield rules.PROVENANCE.finding(
        f"it says where the run took place, in {number(len(found), 'place')}", path=path, line=field.line, observed=first,
        remedy="none needed; take the paths out before publishing if they tell too much")


def _rule(at: MachinePath) -> Callable[..., Finding]:
    return (rules.TEMP_PATH if at.lifetime is Lifetime.JOB else rules.MACHINE_PATH).finding


def _name(field: Field) -> str:
    return shown(field.name or "it", 60)


def _says(field: Field, at: MachinePath, file: _File) -> str:
    here = _inside(file.campaign, at)
    now = "" if here is None else "; it lies in this directory now and not any more after a move"
    return f"{_name(field)} leads to {at.place}{now}"


def _inside(campaign: Campaign, at: MachinePath) -> str | None:
    """What an absolute path leads to in the campaign directory as it lies here, relative to it."""
    root = campaign.inventory.root.rstrip("/") + "/"
    relative = at.path.removeprefix(root) if at.path.startswith(root) else None
    return relative if relative is not None and campaign.inventory.exists(relative) else None


def _base(file: _File, field: Field, at: MachinePath) -> Finding:
    expected, line = _base_line(file, field, at)
    return _rule(at)(_says(field, at, file), **file.place(field), observed=shown(field.value, 300), expected=expected,
                     remedy=f"put there {line}")


def _base_line(file: _File, field: Field, at: MachinePath | None) -> tuple[str, str]:
    """What the base should be named by, and the line to put there."""
    declared = file.deliverable.base
    cached = bases.snapshot_of(field.value)
    model, commit = (declared.model, declared.revision) if declared else cached or (None, None)
    if cached and model is not None and bases.same_name(cached[0], model):
        commit = commit or cached[1]
    here = declared.path if declared and declared.path else _inside(file.campaign, at) if at is not None else None
    if model is not None and bases.is_hub_name(model) and not (declared and declared.path):
        revision = f', "revision": "{commit}"' if commit and bases.is_commit(commit) else ' and its commit as "revision"'
        line = f"{file.written(field.name, model)}{revision}"
    elif here:
        line = f"{file.written(field.name, here)} (seen from the campaign directory), or the base on the hub and its commit"
    else:
        line = f'{file.written(field.name, "<owner>/<name>")}, "revision": "<commit>": the base that was in that folder'
    return model or "the name of the base on the hub", line


def _reference(file: _File, field: Field, at: MachinePath) -> Finding:
    here = _inside(file.campaign, at)
    line = file.written(field.name, posixpath.relpath(here, file.folder or ".")) if here else \
        f"{file.written(field.name, '<path>')}, seen from {file.folder or 'the campaign directory'}, and deliver what it names"
    return _rule(at)(_says(field, at, file), **file.place(field), observed=shown(field.value, 300), expected="a relative path",
                     remedy=f"put there {line}")


def _beside(file: _File, field: Field, at: MachinePath) -> Finding:
    here = _by_name(file, at.names, empty=True)  # MLflow makes a run's folder of artifacts before there is one
    if here is not None:
        return _found(file, field, at, here, f"./{here}")
    line = file.written(field.name, f"./{paths.join(file.folder, at.names[-1])}")
    return _rule(at)(
        _says(field, at, file), **file.place(field), observed=shown(field.value, 300),
        expected="an address seen from the campaign directory", remedy=f"put there {line}, and deliver what it names")


def _likely(file: _File, field: Field, at: MachinePath) -> Finding:
    return rules.LIKELY.finding(_says(field, at, file), **file.place(field), observed=shown(field.value, 300),
                                expected="a relative path", remedy="store a path relative to the folder, or delete the field")


_ROLES: dict[Role, Callable[[_File, Field, MachinePath], Finding]] = {
    Role.BASE: _base, Role.REFERENCE: _reference, Role.BESIDE: _beside, Role.LIKELY: _likely,
}


def _found(file: _File, field: Field, at: MachinePath, here: str, line: str) -> Finding:
    return rules.NAMED_HERE.finding(
        f"{_name(field)} leads to {at.place}; what it names lies here as {shown(here) or '.'}", **file.place(field),
        observed=shown(field.value, 300), expected=shown(line), remedy=f"put there {file.written(field.name, line)}")


def _best(file: _File, field: Field) -> Iterator[Finding]:
    """A checkpoint of the same training that a file names: by its path or, where that leads nowhere, by its name."""
    at = machine_paths.parse(field.value)
    relative = posixpath.normpath(field.value.replace("\\", "/")) if field.value.strip() else ""
    here = _by_name(file, at.names if at else [name for name in relative.split("/") if name not in ("", ".", "..")])
    in_text = not file.path.endswith(".json")  # what TensorFlow and mmengine write is seen from the file's own folder
    if at is None:
        seen = [paths.join(file.folder, relative)] if in_text else [relative, paths.join(file.folder, relative)]
        if not relative or here is not None or any(_is_there(file.campaign, posixpath.normpath(path)) for path in seen):
            return
    elif here is not None:
        yield _found(file, field, at, here, posixpath.relpath(here, file.folder or ".") if in_text else here)
        return
    if at is not None and in_text:
        yield _reference(file, field, at)
        return
    level = Level.WARNING if file.deliverable.purpose == "inference" else None
    yield rules.BEST.finding(
        f"{_name(field)} names a checkpoint that is not here", level=level, **file.place(field), observed=shown(field.value, 300),
        expected=f"{shown(relative.rpartition('/')[2])} beside {file.folder or 'it'}",
        remedy="copy that checkpoint too" + ("" if in_text else f", or put there {json.dumps(field.name)}: null"))


def _by_name(file: _File, parts: Sequence[str], *, empty: bool = False) -> str | None:
    """Where in the campaign something lies that the last names of a path name, seen from a folder on the way to the file.

    One name alone means what lies in the file's folder or beside that; more names may begin anywhere above. ``empty``: a folder
    with nothing in it counts.
    """
    above = [file.folder]
    while above[-1]:
        above.append(posixpath.dirname(above[-1]))
    for count in range(min(len(parts), 16), 0, -1):
        for folder in above if count > 1 else above[:2]:
            path = paths.join(folder, "/".join(parts[-count:]))
            if _is_there(file.campaign, path, empty=empty):
                return path
    return None


def _is_there(campaign: Campaign, path: str, *, empty: bool = False) -> bool:
    """Whether a file, a folder with something in it, or a whole checkpoint of TensorFlow with that prefix lies at a path.

    ``empty``: a folder with nothing in it counts too.
    """
    inventory = campaign.inventory
    entry = inventory.resolve(path)
    if entry is not None:
        return entry.kind == FILE or (entry.kind == FOLDER and (empty or bool(inventory.children(entry.path))))
    index = inventory.resolve(f"{path}.index")
    if index is None:
        return False
    parts = [found for child in inventory.children(posixpath.dirname(index.path))
             if (found := _DATA.fullmatch(child.path)) and found[1] == index.path.removesuffix(".index")]
    return bool(parts) and len(parts) == int(parts[0][2])


def _columns(campaign: Campaign, deliverable: Deliverable, evidence: Evidence) -> Iterator[Finding]:
    """The columns of predictions that the manifest declares as names of files."""
    target = campaign.target(deliverable)
    entry = campaign.inventory.resolve(target) if target else None
    if not deliverable.file_columns or entry is None or entry.kind != FILE:
        return
    try:
        data = evidence.content(entry, LARGEST_TABLE)
    except OSError:
        return
    found: dict[str, list[tuple[Field, MachinePath]]] = {}
    for field in columns.fields(data, deliverable.path, deliverable.file_columns):
        if at := machine_paths.parse(field.value):
            found.setdefault(field.name, []).append((field, at))
    for column, values in found.items():
        field, at = values[0]
        yield _rule(at)(
            f"the column {shown(column, 60)} names files, and {number(len(values), 'value')} of it "
            f"{'is a path' if len(values) == 1 else 'are paths'} of one machine; the first leads to {at.place}",
            path=deliverable.path, line=field.line, observed=shown(field.value, 300),
            expected="a path relative to the campaign directory",
            remedy="deliver the files and write their paths in the campaign")
    if entry.size > LARGEST_TABLE:
        yield rules.UNREADABLE.finding(
            f"only its first {LARGEST_TABLE:,} bytes were searched for paths", path=deliverable.path,
            observed=f"{entry.size:,} bytes", remedy="look at the rest yourself")
