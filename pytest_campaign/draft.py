"""A first manifest from what lies in a directory: what can be read from the files, and a list of what cannot."""

from __future__ import annotations

import contextlib
import hashlib
import json
import posixpath
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from . import bases, durable, paths, snapshot
from .base_lookup import Shelf
from .bases import Said
from .discovery import containers, promised, unmistakable
from .file_names import in_tool_folder, is_aside, may_lack_tensors
from .hashing import sha256
from .inventory import FOLDER, Entry, Inventory
from .snapshot import MANIFEST, PLAN, Snapshot
from .text import shown_json

_SLUG = re.compile(r"[^A-Za-z0-9._-]+")
_RUN_FOLDERS = frozenset({
    "runs", "outputs", "output", "results", "experiments", "models", "checkpoints", "multirun", "lightning_logs"})
_OF_A_RUN = ".hydra"  # Hydra keeps the settings of a run in a folder of this name in the folder of the run
# What torch.utils.tensorboard and the Trainer call a folder of events: runs/Nov03_10-15-00_host
_EVENTS_FOLDER = re.compile(r"(?:^|(?<=/))runs/[A-Z][a-z]{2}[0-9]{2}(?:[_-][0-9]{2}){3}_[^/]+/(?=events\.out\.tfevents\.)")
_KINDS: Sequence[tuple[str, re.Pattern[str]]] = tuple((kind, re.compile(pattern, re.I)) for kind, pattern in (
    ("instructions", r"(^|/)(instructions|reload|how.?to)[^/]*\.(md|txt|rst)$"),
    ("predictions", r"(predictions?|generations?|outputs?|answers)[^/]*\.(jsonl|json|csv|tsv|parquet)$"),
    ("metrics", r"(metrics?|eval|results?|scores?|history)[^/]*\.(jsonl|json|csv|tsv|yaml|yml)$"),
    ("parameters", r"(param(eter)?s|hparams|hyperparameters|config|args|settings)[^/]*\.(json|yaml|yml|toml|ini)$"),
    ("analysis", r"(^|/)(analysis|report|notebooks?|figures?|plots?)[/.]|\.ipynb$"),
    ("log", r"\.(log|out|err)$|(^|/)logs?/|(^|/)events\.out\.tfevents\."),
    ("dataset", r"(^|/)(data|datasets?)/|(^|/)(train|valid|validation|dev|test)\.(jsonl|json|csv|tsv|parquet)$"),
))


class Refused(Exception):
    """A draft that is not written; the text says why."""


def write(directory: Path, shelf: Shelf) -> tuple[Path, Mapping[str, Any]]:
    """Write ``manifest.json`` into a directory that has none and return its path and content.

    ``shelf`` knows the base models of this machine. Raises `Refused` when one is there already (also an unusable one) or
    nothing is there to list.
    """
    taken = snapshot.take(directory)
    target = Path(taken.inventory.root, MANIFEST)
    if MANIFEST in taken.inventory.by_path:
        raise Refused(f"{target} exists and is never overwritten; move it away to have a new draft")
    content = draft(taken, shelf)
    if not content["runs"] and not content["deliverables"]:
        raise Refused(f"{taken.inventory.root} holds nothing to list")
    text = shown_json(json.dumps(content, indent=2, ensure_ascii=False)) + "\n"
    try:
        durable.create(target, text.encode("utf-8"))
    except FileExistsError:
        raise Refused(f"{target} exists and is never overwritten") from None
    return target, content


def draft(taken: Snapshot, shelf: Shelf) -> dict[str, Any]:
    """The manifest that a snapshot suggests, with a ``todo`` list of what only a person knows."""
    inventory = taken.inventory
    runs: dict[str, list[dict[str, Any]]] = {}
    top: list[dict[str, Any]] = []
    listed = list(_deliverables(taken))
    around = {above for path, _ in listed for above in _above(path)}
    for path, kind in listed:
        run, rest = _run_of(path, inventory, holds_others=path in around)
        entries = runs.setdefault(run, []) if run else top
        entries.append({"id": _unique(rest or kind, entries), "kind": kind, "path": path or ".",
                        "files": _files(inventory, path, taken)})
    content: dict[str, Any] = {
        "manifest_version": 1,
        "campaign": _slug(posixpath.basename(inventory.root)) or "campaign",
        "todo": [],
        "runs": [{"id": run, "status": "completed", "deliverables": entries} for run, entries in sorted(runs.items())],
        "deliverables": top,
    }
    if (plan := inventory.by_path.get(PLAN)) is not None and taken.plan.data is not None:
        content["plan"] = {"path": plan.path, "sha256": hashlib.sha256(taken.plan.data).hexdigest()}
    content["todo"] = [*_todo(content), *_unread(content, inventory), *_fill_bases(content, inventory, shelf)]
    return content


def _unread(content: Mapping[str, Any], inventory: Inventory) -> Iterator[dict[str, str]]:
    """What this draft does not know because the machine could not look at it."""
    if inventory.cut is not None:
        yield {"pointer": "", "why": f"the directory was not looked through to its end ({inventory.cut}); list the rest"}
    for entry in inventory.entries:
        if entry.kind == FOLDER and entry.problem and paths.fault(entry.path) is None:
            yield {"pointer": "", "why": f"{entry.path} could not be listed ({entry.problem}); list what lies there"}
    for place, listed in _entries(content):
        for number, file in enumerate(listed["files"]):
            if "sha256" not in file:
                yield {"pointer": f"{place}/files/{number}", "why": "the file could not be read here; add its sha256"}


def _deliverables(taken: Snapshot) -> Iterator[tuple[str, str]]:
    """(path, kind) of everything that should be listed: folders of models as a whole, else single files."""
    inventory = taken.inventory
    folders = containers(inventory, taken.units)
    yield from folders.items()
    units = unmistakable(taken.units)
    weights = {file for unit in units for file in unit.files}
    for unit in units:
        if not unit.is_folder and not paths.within(unit.path, folders) and paths.fault(unit.path) is None:
            yield unit.path, "other" if may_lack_tensors(unit.path) else "checkpoint"
    below = folders.keys() - {""}
    hopes = frozenset(promised(inventory, taken.units))
    yield from ((path, "checkpoint") for path in sorted(hopes) if paths.fault(path) is None)
    for entry in inventory.entries:
        inside_a_model = paths.within(entry.path, below)
        if entry.kind == "file" and entry.size and entry.path not in weights and entry.path not in hopes and not inside_a_model \
                and entry.path not in (MANIFEST, PLAN) and not is_aside(entry.path) and paths.fault(entry.path) is None:
            yield entry.path, next((kind for kind, pattern in _KINDS if pattern.search(entry.path)), "other")


def _above(path: str) -> Iterator[str]:
    """The folders around a path, from the inside out; the directory itself left out."""
    while path := posixpath.dirname(path):
        yield path


def _is_folder(inventory: Inventory, path: str) -> bool:
    entry = inventory.resolve(path)
    return entry is not None and entry.kind == FOLDER


def _run_of(path: str, inventory: Inventory, *, holds_others: bool) -> tuple[str | None, str]:
    """The run that a path suggests, and the rest of the path: ``runs/control/last.pt`` is of the run control.

    Of a folder ``runs/control`` that is itself delivered nothing is left, nor of one that other deliverables lie in, as
    a training leaves it: the model itself and its ``checkpoint-500``. The folder of a Hydra job is a run, however deep it lies.
    """
    is_folder = _is_folder(inventory, path)
    home = next((folder for folder in ((path, *_above(path)) if is_folder else _above(path))
                 if _is_folder(inventory, paths.join(folder, _OF_A_RUN))), None)
    if home:
        return _slug("-".join(_below_run_folders(home.split("/")))) or None, "-".join(path[len(home):].strip("/").split("/"))
    kind = next((kind for kind, pattern in _KINDS if pattern.search(path)), None)
    parts = _EVENTS_FOLDER.sub("", path).split("/")
    is_run = parts[0].lower() in _RUN_FOLDERS if len(parts) == 2 else len(parts) == 1 and holds_others
    if is_folder and is_run and _slug(parts[-1]):
        return _slug(parts[-1]), ""
    parts = _below_run_folders(parts)
    if len(parts) < 2 or kind in ("analysis", "dataset") or parts[-1] == "multirun.yaml" or not _slug(parts[0]):
        return None, "-".join(parts)
    return _slug(parts[0]), "-".join(parts[1:])


def _below_run_folders(parts: list[str]) -> list[str]:
    """The parts of a path without the folders at its beginning that hold runs and are none."""
    while len(parts) > 2 and parts[0].lower() in _RUN_FOLDERS:
        parts = parts[1:]
    return parts


def _slug(text: str) -> str:
    plain = "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))  # für: fur
    return _SLUG.sub("-", plain).strip("-._")[:100]


def _unique(name: str, entries: Sequence[Mapping[str, Any]]) -> str:
    """An id that no other entry has: without the suffix of the file name where that is enough."""
    taken = {entry["id"].casefold() for entry in entries}
    stem, whole = _slug(name.rpartition(".")[0]), _slug(name) or "output"
    choices = [stem, whole, *(f"{whole}-{number}" for number in range(2, len(entries) + 3))]
    return next(choice for choice in choices if choice and choice.casefold() not in taken)


def _files(inventory: Inventory, path: str, taken: Snapshot) -> list[dict[str, Any]]:
    """The files of a deliverable. Of the directory itself it has those that were recognised, of any other folder all.

    What a tool keeps there (W&B, caches) goes on changing and is not promised; a file that a link leads to is listed once.
    """
    nested = [folder for folder in containers(inventory, taken.units) if folder != path and paths.inside(folder, path)]
    members = dict(inventory.files(path)) if path else {}
    members = {seen: entry for seen, entry in members.items()
               if not in_tool_folder(seen[len(path) + 1:]) and (seen == entry.path or entry.path not in members)}
    for unit in taken.units:
        if unit.path == path or (not path and not unit.is_folder):
            members |= {file: entry for file in unit.files if (entry := inventory.resolve(file)) is not None}
    return [_declared(inventory, seen, entry) for seen, entry in sorted(members.items())
            if not any(paths.inside(seen, folder) for folder in nested)]


def _declared(inventory: Inventory, seen: str, entry: Entry) -> dict[str, Any]:
    """One line of a file list; without a digest when the file cannot be read here."""
    line: dict[str, Any] = {"path": seen, "bytes": entry.size}
    with contextlib.suppress(OSError):
        line["sha256"] = sha256(inventory.open(entry))
    return line


def _todo(content: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    yield {"pointer": "/campaign", "why": "the name of the directory was taken; say what the campaign is called"}
    if content["runs"]:
        yield {"pointer": "/runs", "why": "say of each run whether it was completed or aborted (with its reason), and its role"}


def _fill_bases(content: dict[str, Any], inventory: Inventory, shelf: Shelf) -> Iterator[dict[str, str]]:
    """Give every adapter its base as far as it is known here, and say which ones are still to be filled in.

    What several adapters say alike is written, and asked, once: under a name in ``bases``.
    """
    alike: dict[tuple[tuple[tuple[str, str], ...], str | None], list[tuple[str, dict[str, Any]]]] = {}
    for place, entry in _entries(content):
        base, doubt = _stated(entry, inventory, shelf)
        if base is not None:
            alike.setdefault((tuple(base.items()), doubt), []).append((place, entry))
        elif doubt is not None:
            yield {"pointer": f"{place}/base", "why": doubt}
    shared: dict[str, dict[str, str]] = {}
    for (fields, doubt), entries in alike.items():
        base = dict(fields)
        pointer, name = f"{entries[0][0]}/base", ""
        if len(entries) > 1:
            name = _unique(base["model"].rpartition("/")[2], [{"id": taken} for taken in shared])
            shared[name], pointer = base, f"/bases/{name}"
        for _, entry in entries:
            entry["base"] = name or base
        if doubt is not None:
            yield {"pointer": pointer, "why": doubt}
    if shared:
        content["bases"] = shared


def _stated(entry: Mapping[str, Any], inventory: Inventory, shelf: Shelf) -> tuple[dict[str, str] | None, str | None]:
    """The base of one entry as far as it is known, and what is open."""
    found = {file["path"]: inventory.resolve(file["path"]) for file in entry["files"]
             if posixpath.basename(file["path"]) == bases.ADAPTER_CONFIG}
    said = [bases.said(path, inventory.read(config, bases.LARGEST_CONFIG), inventory)
            for path, config in sorted(found.items()) if config is not None]
    if len({(one.text, one.revision) for one in said}) > 1:
        return None, "its adapters name different base models; list each adapter as a deliverable of its own"
    if said:
        return _base(said[0], shelf)
    return None, "say which base model the adapter belongs to, at which exact revision" if entry["kind"] == "adapter" else None


def _base(said: Said, shelf: Shelf) -> tuple[dict[str, str] | None, str | None]:
    """The base that an adapter's configuration names, with the commit if it or this machine knows it; and what is open."""
    if said.folder is not None:
        return {"model": said.name or posixpath.basename(said.folder) or "base", "path": said.folder or "."}, None
    if said.name is not None and said.exact is not None:
        return {"model": said.name, "revision": said.exact}, None
    text = said.name or said.text
    known = shelf.known(text, said.revision) if text is not None else None
    if known is not None:
        doubt = None if known.sure else f"{known.where}, and other commits are there: say which one it was trained on"
        return {"model": known.name, "revision": known.commit}, doubt
    if said.name is None:
        return None, "say which base model the adapter belongs to, at which exact revision" + (
            f" (the adapter only names a path, {said.text})" if said.text is not None else "")
    return {"model": said.name}, f"say at which revision of {said.name} it was trained: the commit of 40 hexadecimal digits"


def _entries(content: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, entry in enumerate(content["deliverables"]):
        yield f"/deliverables/{number}", entry
    for index, run in enumerate(content["runs"]):
        for number, entry in enumerate(run["deliverables"]):
            yield f"/runs/{index}/deliverables/{number}", entry
