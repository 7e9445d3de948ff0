"""The tensors of a deliverable against the digests that the manifest holds for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from ...campaign import Deliverable
from ...findings import Finding
from ...formats import formats
from ...formats.base import ABSENT, EQUAL, OTHER, STATES, UNREAD, Comparison, Depth, Reading, Unit
from ...tensor_digests import is_digest, usable
from . import rules

_SHOWN = 10
_LONGEST = 100
_RECORD = "record the digests with pytest_campaign.proof.digests"


def check(deliverable: Deliverable, units: Sequence[Unit], readings: Sequence[Reading | None],
          is_explained: Callable[[Reading], bool]) -> Iterator[Finding]:
    """Every declared tensor has to have its values in one of the units.

    Where it has them in none, the unit counts in which most of the tensors are as declared: a folder may hold several
    checkpoints of a model, and an optimizer beside it. ``is_explained``: other findings say why a reading did not go on to the
    tensors.
    """
    declared = deliverable.tensor_digests
    if not declared:
        return
    wrong = [name for name, digest in declared.items() if not is_digest(digest)]
    if wrong:
        place = deliverable.place
        yield rules.NOT_COMPARED.finding(
            f"{len(wrong):,} of {len(declared):,} digests of tensors are no SHA-256 in 64 hexadecimal digits: {_some(wrong)}",
            path=place.file if place else deliverable.path, pointer=f"{place.pointer}/tensor_digests" if place else None,
            observed=declared[wrong[0]][:_LONGEST], expected="64 hexadecimal digits", remedy=_RECORD)
    names = list(usable(declared))
    known = [(unit, reading, reading.comparison) for unit, reading in zip(units, readings, strict=True)
             if not unit.hollow and reading is not None and reading.comparison is not None
             and len(reading.comparison.states) == len(names)]
    model = [one for one in known if not one[1].only_state or one[2].states.strip(UNREAD)] or known
    if not names or not model:
        return  # what ended the readings is said elsewhere
    unit, _, own = max(model, key=lambda one: one[2].states.count(EQUAL))
    states = [_state([one[2].states[number] for one in model], own.states[number]) for number in range(len(names))]
    found = {state: [name for name, own in zip(names, states, strict=True) if own == state] for state in STATES}
    seen = {names[number]: (path, what) for _, _, one in (*model, (unit, None, own)) for number, path, what in one.seen
            if number < len(names)}
    if found[OTHER]:
        yield _differing(found[OTHER], unit, seen, deliverable, len(names))
    if found[ABSENT] and None not in readings:
        yield _absent(found[ABSENT], unit, seen, len(names))
    unread = [one for one in model if UNREAD in one[2].states]
    if found[UNREAD] and None not in readings and not any(is_explained(one[1]) for one in unread):
        yield _unread(found[UNREAD], *unread[0], len(names))
    if found[EQUAL]:
        yield _compared(found[EQUAL], unit, own, len(names))


def _state(everywhere: Sequence[str], own: str) -> str:
    """The state of a tensor from those in all units; ``own`` is that in the unit that counts."""
    return next(state for state in (EQUAL, own if own == OTHER else EQUAL, OTHER, UNREAD, ABSENT) if state in everywhere)


def _differing(names: Sequence[str], unit: Unit, seen: Mapping[str, tuple[str, str]], deliverable: Deliverable,
               declared: int) -> Finding:
    path, what = seen.get(names[0], (unit.path, "other values"))
    expected = deliverable.tensor_digests[names[0]].lower()
    return rules.TENSOR_DIGEST.finding(
        f"{len(names):,} of {declared:,} tensors have other values than were recorded: {_some(names)}; "
        f"{names[0][:_LONGEST]} is {what}; expected: {expected}", path=path or unit.path,
        pointer=names[0], observed=what, expected=expected,
        remedy="copy or save it again; if the tensors were changed when they were saved, record the digests of what was saved")


def _absent(names: Sequence[str], unit: Unit, seen: Mapping[str, tuple[str, str]], declared: int) -> Finding:
    path, what = seen.get(names[0], ("", "not there"))
    known = f"; of {names[0][:_LONGEST]}, {what}" if path else ""
    return rules.TENSOR_ABSENT.finding(
        f"{len(names):,} of {declared:,} tensors that were recorded are not there: {_some(names)}{known}", path=path or unit.path,
        pointer=names[0], observed=f"{declared - len(names):,} tensors", expected=f"{declared:,} tensors",
        remedy="save it again from the whole model, or record the digests of the state dict that is saved")


def _unread(names: Sequence[str], unit: Unit, reading: Reading, own: Comparison, declared: int) -> Finding:
    if reading.depth is not None and reading.depth < Depth.TENSORS <= formats()[unit.format].depth:
        why = f"it was read to the depth {reading.depth.label}"
    elif len(set(own.states)) > 1:
        why = "their values do not lie in the file as they are"
    else:
        why = f"where the values of a tensor lie in the format {reading.format} is not known here"
    return rules.NOT_COMPARED.finding(
        f"{len(names):,} of {declared:,} tensors could not be compared with their recorded digests: {why}", path=unit.path,
        observed=f"{len(names):,} tensors not compared", expected=f"{declared:,} compared",
        remedy="deliver the weights as safetensors or with torch.save as well, or record the digests of the files instead")


def _compared(names: Sequence[str], unit: Unit, own: Comparison, declared: int) -> Finding:
    more = f"; nothing was recorded for {own.others:,} others: {_some(own.names, own.others)}" if own.others else ""
    return rules.TENSORS_COMPARED.finding(
        f"{len(names):,} of {declared:,} tensors have the values that were recorded{more}", path=unit.path,
        observed=f"{len(names):,} equal, {own.others:,} not recorded", remedy="none")


def _some(names: Sequence[str], count: int | None = None) -> str:
    count = len(names) if count is None else count
    more = f" and {count - _SHOWN:,} more" if count > _SHOWN else ""
    return ", ".join(name[:_LONGEST] for name in names[:_SHOWN]) + more
