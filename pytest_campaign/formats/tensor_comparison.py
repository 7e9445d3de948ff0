"""The tensors of a reading against the digests that were declared for them.

A declared tensor is looked for under its name. Writers store the same tensors under other names as a whole: below a key of the
object (``model.``), or without the prefix of a wrapper (``module.`` of DDP, ``_orig_mod.`` of torch.compile); so one prefix may
stand before all names on either side. A tensor that is tied to another one is stored once, under the other's name.
"""

from __future__ import annotations

import collections
from collections.abc import Collection, Iterator, Mapping

from ..tensor_digests import begun, header
from . import tensor_bytes
from .base import ABSENT, EQUAL, OTHER, UNREAD, Comparison, Depth, Placed, Reading, Source

SHOWN = 10  # tensors that a message names
_MOST_PARTS = 16  # of a name, from its beginning, that may be a prefix
_MOST_PREFIXES = 8
_LONGEST_NAME = 4096
# What wrappers put around any part of a model.
_INSIDE = ("_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module")

_Prefixes = tuple[str, str]  # what stands before the declared names, and before the stored ones


def hashed(declared: Collection[str], stored: Collection[str]) -> Collection[str]:
    """The stored tensors of a file that may be declared ones, by their names alone."""
    as_they_are = [name for name in stored if name in declared]
    if 2 * len(as_they_are) > len(stored):
        return frozenset(as_they_are)
    names = _Names(stored)
    return {found for prefixes in _prefixes(declared, names) for found in names.paired(declared, prefixes).values()}


def compare(declared: Mapping[str, str], reading: Reading, source: Source) -> Comparison:
    """Compare the tensors of a reading with the ``declared`` digests by name.

    Digests that the reading did not take are taken now. Where the library has rebuilt the model from the tensors, their names are
    right as they are.
    """
    if not reading.layout or reading.depth is None or reading.depth < Depth.TENSORS:
        return Comparison(UNREAD * len(declared))
    return _Comparing(declared, reading, source).comparison()


class _Names:
    """The names of stored tensors, also without the parts that wrappers put into them."""

    def __init__(self, stored: Collection[str]) -> None:
        self.stored = stored if isinstance(stored, (Mapping, set, frozenset)) else frozenset(stored)
        self._bare = {_bare(name): name for name in stored}

    def __contains__(self, name: str) -> bool:
        """Of a name without such parts."""
        return name in self._bare

    def get(self, name: str) -> str | None:
        return name if name in self.stored else self._bare.get(_bare(name))

    def paired(self, declared: Collection[str], prefixes: _Prefixes) -> dict[str, str]:
        """The stored name of each declared one, for those that are found."""
        mine, theirs = prefixes
        if len(declared) == 1 and list(self.stored) == [""]:  # a file of one tensor without a name
            return dict.fromkeys(declared, "")
        found = {}
        for name in declared:
            bare = _bare(name)
            if bare.startswith(mine) and (stored := self.get(name if mine == theirs else theirs + bare[len(mine):])) is not None:
                found[name] = stored
        return found


def _bare(name: str) -> str:
    if not any(part in name for part in _INSIDE):
        return name
    return ".".join(part for part in name.split(".") if part not in _INSIDE)


def _prefixes(declared: Collection[str], stored: _Names) -> Iterator[_Prefixes]:
    """What may stand before all names on one side: first nothing on either, then the likeliest."""
    yield "", ""
    counts: collections.Counter[_Prefixes] = collections.Counter()
    asked = _Names(declared)
    for name in map(_bare, declared):
        for prefix, rest in _cuts(name):
            if rest in stored:
                counts[prefix, ""] += 1
    for name in map(_bare, stored.stored):
        for prefix, rest in _cuts(name):
            if rest in asked:
                counts["", prefix] += 1
    yield from (prefixes for prefixes, _ in counts.most_common(_MOST_PREFIXES))


def _cuts(name: str) -> Iterator[tuple[str, str]]:
    """The name cut at each of its first dots."""
    at = -1
    for _ in range(_MOST_PARTS):
        at = name.find(".", at + 1)
        if at < 0 or len(name) > _LONGEST_NAME:
            return
        yield name[:at + 1], name[at + 1:]


class _Comparing:
    def __init__(self, declared: Mapping[str, str], reading: Reading, source: Source) -> None:
        self._declared, self._layout, self._source = declared, reading.layout, source
        self._rebuilt = reading.depth is not None and reading.depth >= Depth.MODEL
        self._digests: dict[str, str | None] = {}

    def comparison(self) -> Comparison:
        names = _Names(self._layout)
        pairs: dict[str, str] = {}
        best = (-1, -1)
        for prefixes in _prefixes(self._declared, names):
            tried = names.paired(self._declared, prefixes)
            if len(tried) <= best[0]:
                continue  # it can have no more equal ones
            score = sum(self._digest(stored) == self._declared[name] for name, stored in tried.items()), len(tried)
            if score > best:
                pairs, best = tried, score
            if 2 * len(pairs) > len(self._declared) and prefixes == ("", ""):
                break  # the names are right as they are
        return self._judged(pairs)

    def _judged(self, pairs: Mapping[str, str]) -> Comparison:
        taken = set(pairs.values())
        left = dict.fromkeys(name for name in self._layout if name not in taken)
        lacking = [name for name in self._declared if name not in pairs]
        if lacking:  # perhaps under another name: then all values have to be known
            for stored in left:
                self._digest(stored)
        by_digest = {digest: stored for stored in reversed([*left, *pairs.values()])
                     if (digest := self._digests.get(stored)) is not None}
        states: list[str] = []
        seen: list[tuple[int, str, str]] = []
        shown = collections.Counter({OTHER: SHOWN, ABSENT: SHOWN})
        for number, (name, digest) in enumerate(self._declared.items()):
            state, path, what = self._state(digest, pairs.get(name), by_digest.get(digest), left)
            states.append(state)
            if shown[state] > 0:
                shown[state] -= 1
                seen.append((number, path, what))
        declared = set(self._declared.values())
        others = [name for name in left if self._digests.get(name) not in declared]
        return Comparison("".join(states), tuple(seen), len(others), tuple(others[:SHOWN]))

    def _state(self, digest: str, stored: str | None, alike: str | None, left: Mapping[str, None]) -> tuple[str, str, str]:
        """The state of a declared tensor, and in which file what was seen."""
        if stored is not None:
            placed, own = self._layout[stored], self._digest(stored)
            if own is None:
                return UNREAD, placed.path, ""
            return (EQUAL, "", "") if own == digest else (OTHER, placed.path, f"{_kind(placed)} with the digest {own}")
        if alike is None:
            return ABSENT, "", "not there"
        placed = self._layout[alike]
        if self._rebuilt or (alike not in left and not tensor_bytes.constant(placed, self._source)):
            return EQUAL, "", ""  # tied, or the library knows it by the other name; that zeros equal zeros proves nothing
        return ABSENT, placed.path, f"its values are those of {alike}"

    def _digest(self, stored: str) -> str | None:
        if stored not in self._digests:
            placed = self._layout[stored]
            self._digests[stored] = placed.sha256 or self._taken(placed)
        return self._digests[stored]

    def _taken(self, placed: Placed) -> str | None:
        if not tensor_bytes.known(placed):
            return None
        taken = begun(header(placed.dtype, placed.shape))
        for piece in tensor_bytes.pieces(placed, self._source):
            taken.update(piece)
        return taken.hexdigest()


def _kind(placed: Placed) -> str:
    return f"{placed.dtype} [{', '.join(map(str, placed.shape[:8]))}]"
