"""Multisets of keys, compared in little memory however many there are.

Each key is hashed with a secret that nobody who writes the files can know, and the hashes of a multiset are added up modulo
2^128, in 4,096 buckets by their first bits. Equal sums mean equal multisets (but for one chance in 2^128). Only the buckets that
differ are then looked at key by key, so many at a time as memory allows.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

from .readers.rows import Where

Key = tuple[str, ...]
Keys = Callable[[], Iterator[tuple[Key, Where | None]]]  # every key of a multiset with its place, as often as it is called

BUCKETS = 4096
MOST_KEYS = 1_000_000  # that are held at once
SHOWN = 10
_MODULUS = 1 << 128


class Hasher:
    """The hash of a key, with a secret of its own."""

    def __init__(self, secret: bytes | None = None) -> None:
        self._new = functools.partial(hashlib.blake2b, digest_size=16, key=secret or os.urandom(32))

    def __call__(self, key: Key) -> int:
        text = key[0] if len(key) == 1 else repr(key)
        return int.from_bytes(self._new(text.encode("utf-8", "surrogatepass")).digest(), "little")


class Sums:
    """What is kept of a multiset: how many keys, and the sum of their hashes, by bucket. Buckets without a key take no memory."""

    def __init__(self) -> None:
        self.counts: Counter[int] = Counter()
        self.totals: Counter[int] = Counter()

    def add(self, hash: int) -> None:
        """One more key, by its hash."""
        bucket = hash % BUCKETS
        self.counts[bucket] += 1
        self.totals[bucket] += hash

    @property
    def count(self) -> int:
        return sum(self.counts.values())

    def differing(self, other: Sums, times: int = 1) -> list[int]:
        """The buckets in which this is not the other multiset, each of its keys taken so many ``times``."""
        return [bucket for bucket in sorted(self.counts.keys() | other.counts.keys())
                if self.counts[bucket] != times * other.counts[bucket]
                or (self.totals[bucket] - times * other.totals[bucket]) % _MODULUS]

    def __iadd__(self, other: Sums) -> Sums:
        self.counts.update(other.counts)
        self.totals.update(other.totals)
        return self


@dataclasses.dataclass
class Offenders:
    """How many keys there are of one sort, and the first of them with their places."""

    count: int = 0
    first: list[tuple[Key, Where | None]] = dataclasses.field(default_factory=list)

    def add(self, key: Key, place: Where | None, times: int = 1) -> None:
        self.count += times
        if len(self.first) < SHOWN:
            self.first.append((key, place))


@dataclasses.dataclass
class Difference:
    """How one multiset differs from what it should be: keys too few, too many, and unknown."""

    missing: Offenders = dataclasses.field(default_factory=Offenders)
    repeated: Offenders = dataclasses.field(default_factory=Offenders)
    unknown: Offenders = dataclasses.field(default_factory=Offenders)

    def __bool__(self) -> bool:
        return bool(self.missing.count or self.repeated.count or self.unknown.count)


@dataclasses.dataclass
class _Seen:
    wanted: int = 0
    found: int = 0
    place: Where | None = None


def difference(hasher: Hasher, ours: tuple[Sums, Keys], theirs: tuple[Sums, Keys], times: int = 1) -> Difference:
    """How ``ours`` differs from ``theirs``, of which each key counts so many ``times``."""
    result = Difference()
    sizes = ours[0].counts + theirs[0].counts
    for buckets in _batches(ours[0].differing(theirs[0], times), sizes):
        seen: dict[Key, _Seen] = {}
        for key, place in _of(hasher, theirs[1], buckets):
            seen.setdefault(key, _Seen(place=place)).wanted += times
        for key, place in _of(hasher, ours[1], buckets):
            state = seen.setdefault(key, _Seen())
            state.found += 1
            if state.found > state.wanted:
                (result.repeated if state.wanted else result.unknown).add(key, place)
        for key, state in seen.items():
            if state.found < state.wanted:
                result.missing.add(key, state.place, state.wanted - state.found)
    return result


def repeated(hasher: Hasher, ours: tuple[Sums, Keys]) -> Offenders:
    """The keys that occur more than once, each time but the first."""
    result = Offenders()
    for buckets in _batches([bucket for bucket, count in ours[0].counts.items() if count > 1], ours[0].counts):
        seen: set[int] = set()
        for key, place in _of(hasher, ours[1], buckets):
            hash = hasher(key)
            if hash in seen:
                result.add(key, place)
            seen.add(hash)
    return result


def _of(hasher: Hasher, keys: Keys, buckets: frozenset[int]) -> Iterable[tuple[Key, Where | None]]:
    every = len(buckets) == BUCKETS
    return ((key, place) for key, place in keys() if every or hasher(key) % BUCKETS in buckets)


def _batches(buckets: Iterable[int], sizes: Mapping[int, int]) -> Iterator[frozenset[int]]:
    """The buckets in groups of at most `MOST_KEYS` keys (more only where a single bucket has more)."""
    batch: set[int] = set()
    total = 0
    for bucket in buckets:
        if batch and total + sizes[bucket] > MOST_KEYS:
            yield frozenset(batch)
            batch, total = set(), 0
        batch.add(bucket)
        total += sizes[bucket]
    if batch:
        yield frozenset(batch)
