"""Deliverables that hold the same bytes under different ids."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from .campaign import Campaign, Deliverable
from .file_names import may_be_weights
from .inventory import FILE, Entry

# The state of a training beside the weights: two runs may well have the same one.
_STATE = re.compile(r"(^|/)(optimizer|scheduler|scaler|sampler|rng_state|random_states|training_args)[^/]*$")
_COMPARED = frozenset({"predictions"})  # kinds beside weights that two runs never share to the byte
_SMALLEST = 256  # bytes below which two results may be equal by chance


def find(campaign: Campaign, sample: Callable[[Entry], bytes], digest: Callable[[Entry], str]) -> Mapping[str, str]:
    """The id of each copy with the id of the first deliverable that holds the same.

    Weights and predictions are compared, of deliverables whose runs were not aborted. Only files of equal size are looked at:
    first a ``sample`` of their bytes, then, where those are equal, their ``digest``. A file that these cannot read (OSError) is
    like no other.
    """
    contents = {d.id: _content(campaign, d) for d in campaign.by_id.values() if not campaign.aborted(d.run)}
    return _alike(contents, _SMALLEST, sample, digest)


def of_kind(campaign: Campaign, kind: str, sample: Callable[[Entry], bytes],
            digest: Callable[[Entry], str]) -> Mapping[str, str]:
    """The copies among the deliverables of one kind, as `find` gives them: here whatever has the same bytes is one."""
    contents = {d.id: _content(campaign, d) or list(campaign.files_of(d).values())
                for d in campaign.by_id.values() if d.kind == kind and not campaign.aborted(d.run)}
    return _alike(contents, 1, sample, digest)


def _alike(contents: Mapping[str, Sequence[Entry]], least: int, sample: Callable[[Entry], bytes],
           digest: Callable[[Entry], str]) -> Mapping[str, str]:
    """The copies among what has at least so many bytes."""
    groups: list[list[str]] = [[id for id, files in contents.items() if sum(file.size for file in files) >= least]]
    for look in (lambda file: str(file.size), lambda file: sample(file).hex(), digest):
        groups = [part for group in groups for part in _split(group, contents, look)]
    return {id: group[0] for group in groups for id in group[1:]}


def _split(group: Sequence[str], contents: Mapping[str, Sequence[Entry]], look: Callable[[Entry], str]) -> Iterable[list[str]]:
    """The ids of a group by what is seen of their files; those that are like no other are left out."""
    parts: dict[tuple[str, ...], list[str]] = {}
    for id in group:
        with contextlib.suppress(OSError):
            parts.setdefault(tuple(sorted(look(file) for file in contents[id])), []).append(id)
    return (part for part in parts.values() if len(part) > 1)


def _content(campaign: Campaign, deliverable: Deliverable) -> Sequence[Entry]:
    """The files that make a deliverable what it is: its weights, or its predictions."""
    entries = [(path, campaign.inventory.resolve(path)) for unit in campaign.units_of(deliverable) for path in unit.files]
    weights = {entry.path: entry for path, entry in entries
               if entry is not None and entry.kind == FILE and may_be_weights(path) and not _STATE.search(path)}
    if not weights and deliverable.kind in _COMPARED:
        return list(campaign.files_of(deliverable).values())
    return list(weights.values())
