"""Base models as the manifest names them: by their name on the hub with the commit, or by their folder in the campaign."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from .. import durable, machine_paths
from ..base_lookup import Given, Known, Shelf, hub_cache
from ..bases import ADAPTER_CONFIG, LARGEST_CONFIG, is_commit, is_hub_name, snapshot_of
from . import files
from .errors import RecordingError


def resolved(root: Path, model: str, revision: str | None = None) -> tuple[dict[str, str] | None, str | None]:
    """(the base as far as it is known, what is open) of a model that is named as `from_pretrained` takes it.

    ``model`` is a name on the hub, a folder, or a snapshot in the local Hugging Face cache; ``revision`` what is known of its
    revision. The first is None where nothing but a path of this machine is known.
    """
    folder = folder_of(root, model)
    if folder is not None:
        return {"model": Path(root, folder).resolve().name, "path": folder}, None
    cached = snapshot_of(model) if os.path.isabs(model) else None
    if cached is not None and cached[1] is not None:
        return {"model": cached[0], "revision": cached[1]}, None
    name = cached[0] if cached is not None else model
    if is_commit(revision) and is_hub_name(name) and not os.path.isdir(name):
        return {"model": name, "revision": str(revision).lower()}, None
    known = _known(name)
    if known is not None:
        others = f"{known.where}, and other commits are there: say which one it was" if not known.sure else None
        return {"model": known.name, "revision": known.commit}, others
    if is_hub_name(name) and not os.path.isdir(name):
        return {"model": name}, (f"the commit of {name} is not known here: it is not in the local Hugging Face cache; "
                                 "pass revision= with its 40 hexadecimal digits")
    return None, (f"{model} is a path of this machine, and nothing here says which model it is; name it with "
                  'campaign.base(name, "owner/model", revision="<commit>"), or copy it into the campaign directory')


def folder_of(root: Path, model: str) -> str | None:
    """The model's folder in the campaign that is meant, relative to it."""
    for place in (root / model, Path(model).absolute()):
        if (place / "config.json").is_file():
            try:
                return files.inside(root, place)
            except RecordingError:
                continue
    return None


def _known(model: str) -> Known | None:
    given = [Given(os.path.abspath(model))] if os.path.isdir(model) else []
    return Shelf(given, hub_cache(os.environ)).known(given[0].directory if given else model)


def of_adapter(root: Path, path: str) -> tuple[str, str | None] | None:
    """(base, revision) that the configuration of an adapter names; None when a folder holds none that can be read."""
    config = _config(root / path / ADAPTER_CONFIG) or {}
    text, revision = config.get("base_model_name_or_path"), config.get("revision")
    return (text, revision if isinstance(revision, str) else None) if isinstance(text, str) and text else None


def make_portable(root: Path, path: str, base: dict[str, Any]) -> None:
    """Where an adapter names its base by a folder of this machine, put the base's name and commit, or its place in the campaign.

    PEFT writes down what the model was loaded from, and its loader follows that. Nothing else in the file changes.
    """
    place = root / path / ADAPTER_CONFIG
    config = _config(place)
    text = config.get("base_model_name_or_path") if config is not None else None
    target = base.get("path") or base["model"]
    is_local = isinstance(text, str) and ("path" in base or machine_paths.parse(text) is not None or os.path.isdir(text))
    if config is None or not is_local or text == target:
        return
    config["base_model_name_or_path"] = target
    if base.get("revision") and not base.get("path"):
        config["revision"] = base["revision"]
    data = json.dumps(config, indent=2, ensure_ascii=False).encode()
    durable.replace(place, data, place.with_name(f".{ADAPTER_CONFIG}.part"))


def _config(place: Path) -> dict[str, Any] | None:
    try:
        with open(place, "rb") as file:
            config = json.loads(file.read(LARGEST_CONFIG))
    except (OSError, ValueError):
        return None
    return config if isinstance(config, dict) else None
