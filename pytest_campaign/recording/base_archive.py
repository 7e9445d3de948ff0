"""The headers of an adapter's base, put beside the adapter so that a machine without the base can compare the two."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from .. import durable
from ..base_lookup import hub_cache, snapshot_folder
from ..formats import base_headers
from . import base_models


class NotArchived(Exception):
    """There are no headers; the text says why."""


def write(root: Path, path: str, said: str | None, base: Mapping[str, Any] | None, given: str | os.PathLike[str] | None) -> str:
    """Archive the headers of the base of the adapter whose folder lies at ``path`` in the campaign directory ``root``.

    ``said`` is what the adapter was loaded on, ``base`` what the manifest says of it, ``given`` the folder of the base where
    somebody named it. Returns the path of the file. What was archived before is kept where the base cannot be found any more;
    `NotArchived` when there is nothing.
    """
    target = root / path / base_headers.FILE
    relative = f"{path}/{base_headers.FILE}"
    try:
        found = next(filter(None, map(_collected, _places(root, said, base, given))), None)
        if found is None and given is None and target.is_file():
            return relative
        if found is None:
            raise NotArchived(f"{os.fspath(given)} is no folder of a model" if given is not None else
                              "the base is not found on this machine; pass its folder as archive_base")
        known = base_headers.BaseHeaders(found.config, found.tensors, (base or {}).get("model"), (base or {}).get("revision"))
        durable.replace(target, known.encoded(), target.with_name(f".{target.name}.part"))
    except (OSError, base_headers.NotHeaders) as error:
        raise NotArchived(str(error)) from error
    return relative


def _places(root: Path, said: str | None, base: Mapping[str, Any] | None, given: str | os.PathLike[str] | None) -> Iterable[Path]:
    """The folders in which the base may lie, the surest first."""
    if given is not None:
        yield Path(given)
        return
    if said is not None:
        folder = base_models.folder_of(root, said)
        yield root / folder if folder is not None else Path(said)
    if base is not None and "path" in base:
        yield root / base["path"]
    if base is not None and "revision" in base:
        yield Path(snapshot_folder(hub_cache(os.environ), base["model"], base["revision"]))


def _collected(place: Path) -> base_headers.BaseHeaders | None:
    return base_headers.collect(lambda name: _opened(place, name))


def _opened(folder: Path, name: str) -> BinaryIO | None:
    try:
        return open(folder / name, "rb", buffering=0)
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        return None
