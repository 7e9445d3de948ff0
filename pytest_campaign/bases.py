"""Which base model a deliverable belongs to, as far as its files and the manifest say it. Opens nothing itself.

An adapter or a merged model is worth something only with its base, exactly the one it was trained on. PEFT writes into
`adapter_config.json` what the model was loaded from (`base_model_name_or_path`: a name on the hub, a folder of the machine, or
a snapshot in its cache) and a `revision` that is null unless the author passed it by hand.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import json
import posixpath
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from . import paths
from .campaign import Base, Campaign, Deliverable
from .inventory import FILE, FOLDER, Entry, Inventory
from .readers import strict_json

ADAPTER = "PEFT adapter"  # the name of the format
ADAPTER_CONFIG = "adapter_config.json"
MODEL, REVISION = "/base_model_name_or_path", "/revision"  # JSON pointers in it
LARGEST_CONFIG = 1 << 20  # bytes; the real ones have about a thousand
LONGEST_NAME = 1024  # characters
Read = Callable[[Entry, int], bytes]

_COMMIT = re.compile(r"[0-9a-f]{40}")
_SHORT_COMMIT = re.compile(r"[0-9a-f]{7,39}")
_HUB_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*(/[A-Za-z0-9_][A-Za-z0-9._-]*)?")
_SNAPSHOT = re.compile(r"(?:^|[/\\])models--([^/\\]+)(?:[/\\]snapshots[/\\]([0-9a-f]{40})(?![^/\\]))?")
_WEIGHTS = re.compile(r"\.(safetensors|bin|pt|pth|gguf|h5|msgpack|ot)$")
_SHARD = re.compile(r"(.+)-[0-9]{5}-of-([0-9]{5})(\.[a-z]+)")


def is_commit(text: str | None) -> bool:
    """Whether a revision is a whole commit of git; a branch, a tag or a shortened commit can move or be ambiguous."""
    return text is not None and _COMMIT.fullmatch(text.lower()) is not None


def is_short_commit(text: str) -> bool:
    """Whether a revision looks like the beginning of a commit."""
    return _SHORT_COMMIT.fullmatch(text.lower()) is not None


def is_hub_name(text: str) -> bool:
    """Whether a text can be the name of a model on the hub (``acme/tiny``, ``gpt2``)."""
    return _HUB_NAME.fullmatch(text) is not None and ".." not in text


def same_name(one: str, other: str) -> bool:
    """Whether two names can be those of one model: case makes no difference, nor does an owner that only one of them has.

    Old names without an owner (``gpt2``) still lead to the model (``openai-community/gpt2``).
    """
    one, other = one.casefold(), other.casefold()
    return one == other or (("/" in one) != ("/" in other) and one.rpartition("/")[2] == other.rpartition("/")[2])


def snapshot_of(path: str) -> tuple[str, str | None] | None:
    """(name, commit) of the model that a path leads to when it lies in a Hugging Face cache.

    ``…/models--acme--tiny/snapshots/<commit>/…``: the cache writes ``/`` as ``--``, which no name contains. The commit is None
    outside of a snapshot.
    """
    found = _SNAPSHOT.search(path)
    return (found[1].replace("--", "/"), found[2]) if found else None


@dataclasses.dataclass(frozen=True)
class Said:
    """What one `adapter_config.json`, which lies at ``file``, says of its base.

    ``text`` is its `base_model_name_or_path` as it stands there. What follows from it: ``name`` on the hub, ``commit`` of the
    cache's snapshot that it names, ``folder`` of the campaign to which it leads. ``lines`` has the line of each JSON pointer.
    """

    file: str
    text: str | None = None
    revision: str | None = None
    name: str | None = None
    commit: str | None = None
    folder: str | None = None
    lines: Mapping[str, int] = dataclasses.field(default_factory=dict)

    @property
    def exact(self) -> str | None:
        """The commit that it names, None when it names none. Of a folder no loader looks at the revision."""
        if self.commit is not None:
            return self.commit
        return self.revision.lower() if self.revision is not None and self.name is not None and is_commit(self.revision) else None


def said(file: str, data: bytes, inventory: Inventory) -> Said:
    """What the adapter configuration ``data`` says; one that is no JSON object says nothing."""
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        return Said(file)
    text, revision = _text(content.get("base_model_name_or_path")), _text(content.get("revision"))
    lines = {pointer: located.value.line for pointer, located in strict_json.locate_all(data, [MODEL, REVISION]).items()}
    statement = Said(file, text, revision, lines=lines)
    if text is None:
        return statement
    cached = snapshot_of(text)
    return dataclasses.replace(
        statement, name=cached[0] if cached else text if is_hub_name(text) else None, commit=cached[1] if cached else None,
        folder=folder_of(text, posixpath.dirname(file), inventory))


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and 0 < len(value) <= LONGEST_NAME else None


def is_relative_path(text: str) -> bool:
    """Whether a text can only be a path seen from some folder: no name on the hub, nothing absolute and no address."""
    return ("/" in text or "\\" in text) and not is_hub_name(text) and not text.startswith(("/", "\\", "~", "$")) \
        and ":" not in text


def folder_of(text: str, beside: str, inventory: Inventory) -> str | None:
    """The model's folder in the campaign that a path means: absolute, seen from the top, or seen from the adapter's folder."""
    root = inventory.root.rstrip("/") + "/"
    if text.startswith("/"):
        candidates = [text[len(root):]] if text.startswith(root) else []
    else:
        candidates = [text, paths.join(beside, text)]
    for candidate in candidates:
        entry = inventory.resolve(candidate)
        if entry is not None and entry.kind == FOLDER and inventory.exists(paths.join(entry.path, "config.json")):
            return entry.path
    return None


@dataclasses.dataclass(frozen=True)
class Wanted:
    """The base to look for, as far as known. ``commit`` is exact or None; ``label`` is its name in the manifest's `bases`."""

    name: str | None
    commit: str | None
    folder: str | None
    sha256: tuple[tuple[str, str], ...] = ()
    label: str | None = None

    @property
    def title(self) -> str:
        """What a message calls it."""
        return self.name or self.folder or "the base model"


@dataclasses.dataclass(frozen=True)
class Statement:
    """All that is said of a deliverable's base: by the manifest (``declared``) and by its adapter configurations."""

    declared: Base | None
    said: Sequence[Said] = ()

    @functools.cached_property
    def wanted(self) -> Wanted | None:
        """What to look for; the manifest comes first. None where nobody names a base."""
        declared = self.declared
        names = {said.name or said.text for said in self.said if said.text is not None}
        if declared is None and len(names) != 1:
            return None  # none, or several adapters on different bases
        first = next((said for said in self.said if said.text is not None), Said(""))
        if declared is None:
            return Wanted(first.name, first.exact, first.folder)
        commit = declared.revision.lower() if declared.revision is not None and is_commit(declared.revision) else None
        folder = declared.path if declared.path is not None and "\0" not in declared.path else None
        return Wanted(declared.model, commit or first.exact, folder if folder is not None else first.folder,
                      tuple(sorted(declared.sha256.items())), declared.name)


def has_base(campaign: Campaign, deliverable: Deliverable) -> bool:
    """Whether a deliverable is worth something only with its base: an adapter, by its kind or its content, or a merged model."""
    return (deliverable.kind == "adapter" or deliverable.merged_from is not None
            or any(unit.format == ADAPTER for unit in campaign.units_of(deliverable)))


def statement(campaign: Campaign, deliverable: Deliverable, read: Read) -> Statement:
    """What is said of a deliverable's base. A merged model whose entry names none has that of its adapter.

    ``read(entry, limit)`` gives the beginning of a file; one that cannot be read says nothing.
    """
    declared = deliverable.base
    adapter = campaign.by_id.get(deliverable.merged_from or "")
    if deliverable.merged_from is None:
        return Statement(declared, list(_configs(campaign, deliverable, read)))
    if declared is None and adapter is not None and adapter.merged_from is None:
        return statement(campaign, adapter, read)
    return Statement(declared)


def _configs(campaign: Campaign, deliverable: Deliverable, read: Read) -> Iterable[Said]:
    for path, entry in campaign.files_of(deliverable).items():
        if posixpath.basename(path) == ADAPTER_CONFIG and entry.kind == FILE and entry.size <= LARGEST_CONFIG:
            try:
                data = read(entry, LARGEST_CONFIG)
            except OSError:
                continue
            yield said(path, data, campaign.inventory)


def is_weights(name: str) -> bool:
    """Whether a file of a model's folder holds weights, by its name."""
    return _WEIGHTS.search(name) is not None


def identifies(sha256: Mapping[str, str]) -> bool:
    """Whether digests tell a model's weights from all others: those of a weights file, or of every shard of a set."""
    weights = [name for name in sha256 if is_weights(name)]
    shards = {name: found for name in weights if (found := _SHARD.fullmatch(name))}
    if len(shards) < len(weights):
        return True
    sets = collections.Counter(found.groups() for found in shards.values())
    return any(count >= int(of) for (_, of, _), count in sets.items())
