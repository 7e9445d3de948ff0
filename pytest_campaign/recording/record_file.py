"""The manifest of a campaign that is still going on: read, changed and replaced as a whole, by one process at a time."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Container, Iterator
from pathlib import Path
from typing import Any

from .. import durable
from ..campaign import DocumentFault
from ..readers import strict_json
from ..snapshot import MANIFEST, MANIFEST_IN_WORK
from . import entries, locks
from .entries import Entry
from .errors import RecordingError

Content = dict[str, Any]
_REFERRING = frozenset({"id", "kind", "path", "base", "dataset"})


class RecordFile:
    """The manifest in one directory. Nothing is kept in memory, so that others may change it at any time."""

    def __init__(self, root: Path) -> None:
        self.path = root / MANIFEST
        self._in_work = root / MANIFEST_IN_WORK

    def read(self) -> Content | None:
        """The content; None when there is no manifest yet. Raises `RecordingError` when it is no strict JSON object."""
        try:
            content = strict_json.parse(self.path.read_bytes())
        except FileNotFoundError:
            return None
        except strict_json.NotStrict as error:
            raise RecordingError(f"{self.path} is no manifest: {error.faults[0].message}; move it away or mend it") from None
        if not isinstance(content, dict):
            raise RecordingError(f"{self.path} is no manifest; move it away")
        return content

    @contextlib.contextmanager
    def change(self) -> Iterator[Content]:
        """The content to be changed in place, empty when there is no manifest yet; it is written when the block ends well.

        Nobody else changes it meanwhile. Raises `RecordingError`, and writes nothing, when it would not be valid any more.
        """
        with locks.exclusive(self.path.parent):
            content = self.read() or {}
            before = {json.dumps(entry) for entry in entries.deliverables(content)}
            yield content
            try:
                data = entries.as_json(content)
            except (TypeError, ValueError) as error:  # no type of JSON, NaN, half a surrogate pair
                raise RecordingError(f"not recorded: {error}") from None
            _refuse_invalid(content, before)
            durable.replace(self.path, data, self._in_work)


def _refuse_invalid(content: Content, before: Container[str]) -> None:
    """Raise `RecordingError` for a manifest that is not valid. What was there before can only have lost what it refers to."""
    from ..documents import read_manifest

    def short(owner: Entry) -> Entry:
        return {**owner, "deliverables": [
            {key: value for key, value in entry.items() if key in _REFERRING} if json.dumps(entry) in before else entry
            for entry in owner["deliverables"]]} if "deliverables" in owner else owner

    _, faults = read_manifest(json.dumps({**short(content), "runs": [short(run) for run in content["runs"]]}).encode())
    if faults:
        raise RecordingError("not recorded: " + "; ".join(map(in_words, faults[:3])))


def in_words(fault: DocumentFault) -> str:
    """A fault of a document with its place."""
    return f"{fault.message} ({fault.pointer})" if fault.pointer else fault.message
