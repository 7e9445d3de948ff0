"""Multisets of keys: the comparison by sums and the exact one, against `collections.Counter`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_campaign import key_sums
from pytest_campaign.key_sums import Hasher, Key, Keys, Sums, difference, repeated

PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # the machine may be busy
HASHER = Hasher(b"a secret of the test")
KEYS = st.lists(st.tuples(st.text("ab", max_size=2), st.text("ab", max_size=2)) | st.tuples(st.sampled_from("abcdefgh")))


def multiset(keys: Sequence[Key]) -> tuple[Sums, Keys]:
    sums = Sums()
    for key in keys:
        sums.add(HASHER(key))
    return sums, lambda: iter([(key, None) for key in keys])


@PATIENT
@given(KEYS, KEYS, st.integers(1, 3), st.sampled_from([1, 2, 500_000]))
def test_it_agrees_with_counter(ours: list[Key], theirs: list[Key], times: int, most: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(key_sums, "MOST_KEYS", most)
        one, other = multiset(ours), multiset(theirs)
        have, want = Counter(ours), Counter({key: count * times for key, count in Counter(theirs).items()})
        assert bool(one[0].differing(other[0], times)) == (have != want)
        found = difference(HASHER, one, other, times)
        assert bool(found) == (have != want)
        assert found.missing.count == (want - have).total()
        assert found.repeated.count == sum(count - want[key] for key, count in have.items() if 0 < want[key] < count)
        assert found.unknown.count == sum(count for key, count in have.items() if not want[key])
        assert {key for key, _ in found.missing.first} <= set(want - have)
        assert {key for key, _ in found.unknown.first} <= set(have) - set(want)
        assert repeated(HASHER, one).count == have.total() - len(have)


@PATIENT
@given(KEYS, st.randoms())
def test_the_order_makes_no_difference(keys: list[Key], random: object) -> None:
    mixed = [*keys]
    random.shuffle(mixed)  # type: ignore[attr-defined]
    assert not multiset(keys)[0].differing(multiset(mixed)[0])


def test_keys_of_several_parts_are_not_run_together() -> None:
    assert HASHER(("a", "bc")) != HASHER(("ab", "c")) != HASHER(("abc",))
    assert multiset([("a", "b"), ("c", "d")])[0].differing(multiset([("a", "d"), ("c", "b")])[0])


def test_each_session_has_a_secret_of_its_own() -> None:
    assert Hasher()(("a",)) != Hasher()(("a",))


def test_the_first_ten_are_named_and_all_are_counted() -> None:
    found = difference(HASHER, multiset([(str(number),) for number in range(1000)]), multiset([]))
    assert (found.unknown.count, len(found.unknown.first)) == (1000, 10)
