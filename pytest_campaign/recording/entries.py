"""What stands in a manifest, as the plain values that are written: entries of deliverables and where they belong."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypedDict

from .. import paths
from ..tensor_digests import is_digest
from .errors import RecordingError

Entry = dict[str, Any]
_GIVE = "give what pytest_campaign.proof.digests returns"


class Fields(TypedDict, total=False):
    """What can be said of a deliverable beside its id, kind and path; as in the manifest, but for ``depth`` and ``probe``.

    ``probe`` is the file that `pytest_campaign.proof.record` wrote; its digest is recorded with those of the files.
    ``base`` is a name that `Campaign.base` has recorded, or the base itself. ``files`` are the paths of its files where they are
    not all that lies at its path. ``archive_base`` puts the headers of an adapter's base beside it: True where the base lies on
    this machine under the name that the adapter says, else its folder.
    """

    purpose: str
    base: str | Mapping[str, Any]
    format: str
    task: str
    priority: str
    merged_from: str
    dataset: str
    key: Sequence[str]
    value: str
    nullable: Sequence[str]
    file_columns: Sequence[str]
    truncated_field: str
    depth: str
    probe: str | os.PathLike[str]
    tensor_digests: Mapping[str, str]
    files: Sequence[str]
    archive_base: bool | str | os.PathLike[str]
    extra: Mapping[str, Any]


def deliverable(id: str, kind: str, path: str, fields: Fields) -> Entry:
    """The entry of a deliverable, still without its files; `RecordingError` where ``tensor_digests`` are none."""
    _check_digests(id, fields.get("tensor_digests"))
    given = {name: value for name, value in fields.items() if value is not None}
    reload = {name: given.pop(name) for name in ("depth", "probe") if name in given}
    given = {name: value for name, value in given.items() if name not in ("files", "archive_base")}
    return {"id": id, "kind": kind, "path": path, **copied(given), **({"reload": reload} if reload else {})}


def _check_digests(id: str, digests: object) -> None:
    if digests is None:
        return
    if not isinstance(digests, Mapping):
        raise RecordingError(f"{id}: tensor_digests is a {type(digests).__name__}; {_GIVE}")
    for name, digest in digests.items():
        if not is_digest(digest):
            raise RecordingError(f"{id}: the digest of the tensor {name} is {str(digest)[:80]!r}, and no SHA-256; {_GIVE}")


def copied(value: Any) -> Any:
    """A copy in the types of JSON: mappings become objects, tuples and sets lists."""
    match value:
        case Mapping():
            return {str(key): copied(one) for key, one in value.items()}
        case str() | bytes():
            return value
        case Sequence():
            return [copied(one) for one in value]
        case set() | frozenset():
            return sorted(map(copied, value))
    return value


def plain(value: Any) -> Any:
    """Settings of any library in the types of JSON; what JSON has no word for becomes its text."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case Mapping():
            return {str(key): plain(one) for key, one in value.items()}
        case list() | tuple():
            return [plain(one) for one in value]
        case set() | frozenset():
            return sorted(map(plain, value), key=str)
    return str(value)


def as_json(content: Any) -> bytes:
    """A file of JSON; ValueError for NaN."""
    return (json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()


def put(entries: list[Entry], entry: Entry, key: str = "id") -> None:
    """Add an entry to a list, or put it in the place of the one with the same key."""
    for number, other in enumerate(entries):
        if other[key] == entry[key]:
            entries[number] = entry
            return
    entries.append(entry)


def settle(content: Mapping[str, Any], entry: Entry) -> None:
    """Give each file to the innermost deliverable around it: what others list of ``entry``, or it of them, is taken away."""
    own = paths.normal(entry["path"])
    for other in deliverables(content):
        path = paths.normal(other["path"])
        if other is entry or path == own:
            continue
        if paths.inside(path, own):
            _take_away(entry, path)
        elif paths.inside(own, path):
            _take_away(other, own)


def _take_away(entry: Entry, below: str) -> None:
    if "files" in entry:
        entry["files"] = [file for file in entry["files"] if not paths.inside(paths.normal(file["path"]), below)]


def deliverables(content: Mapping[str, Any]) -> Iterator[Entry]:
    """All entries of deliverables in a manifest."""
    yield from content.get("deliverables", ())
    for run in content.get("runs", ()):
        yield from run.get("deliverables", ())
