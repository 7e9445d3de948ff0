"""What changed since the baseline, and what every comparison with the files shares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...campaign import Campaign, Deliverable
from ...declarations import Declared, of_baseline
from ...file_names import is_aside
from ...findings import Finding, Level
from ...hashing import SHA256
from ...inventory import Changed, Entry
from ...snapshot import MANIFEST, PLAN
from ...text import number
from ..base import Evidence
from . import rules

_ACCEPTED = "accepted"


def changes(campaign: Campaign, deliverable: Deliverable, own: Mapping[str, Entry], evidence: Evidence) -> Iterator[Finding]:
    """What is not as the baseline has it: an error where that was accepted; what was rejected should be other bytes now."""
    earlier = campaign.earlier.by_id.get(deliverable.id) if campaign.earlier is not None else None
    if campaign.earlier is None or earlier is None or not earlier.files:
        return
    level = {_ACCEPTED: Level.ERROR, "unverified": Level.WARNING}.get(earlier.verdict or "", Level.NOTE)
    listed = list(of_baseline(campaign, deliverable))
    same = {one.entry: (SHA256,) for one in listed if one.entry is not None and one.entry.size == one.size and one.digest}
    found = evidence.digests(same)
    for one in listed:
        observed: str | None = None
        if one.entry is None:
            observed = "nothing" if campaign.hidden(one.path) is None else None  # `content` says what cannot be seen
        elif one.entry.size != one.size:
            observed = f"{one.entry.size:,} bytes"
        elif one.entry in found:
            digests = found[one.entry]
            if isinstance(digests, OSError):
                yield not_read(one.path, digests)
            elif digests[SHA256] != one.digest:
                observed = f"{SHA256} {digests[SHA256]}"
        if observed is not None:
            what = "it is gone" if one.entry is None else "it is another file"
            yield rules.BASELINE.finding(
                f"{what} since {one.file}, where the deliverable was {earlier.verdict}", level=level, path=one.path,
                observed=observed, expected=expected(one), remedy="restore it, or accept the new files without the baseline")
    known = {one.entry.path for one in listed if one.entry is not None}
    for path, entry in own.items():
        if entry.path not in known and not needs_no_line(campaign, path):
            yield rules.BASELINE_ADDED.finding(
                f"the deliverable had no such file in {campaign.earlier.file}", path=path, expected="nothing",
                observed=f"a file of {entry.size:,} bytes",
                level=Level.NOTE if level is Level.NOTE else None,
                remedy="none, if it belongs there; else remove it")


def of_campaign(campaign: Campaign) -> Iterator[Finding]:
    """Another campaign's baseline, and deliverables that it has and that are gone."""
    earlier = campaign.earlier
    if earlier is None:
        return
    named = campaign.manifest is not None or campaign.plan is not None
    if earlier.campaign != campaign.name and (named or not earlier.directory):
        yield rules.OTHER_BASELINE.finding(
            f"the baseline {earlier.file} is of {earlier.campaign}, and this is {campaign.name}", path=MANIFEST,
            pointer="/campaign", observed=campaign.name, expected=earlier.campaign,
            remedy="pass a report of this campaign with --campaign-baseline")
    planned = {one.id for one in campaign.not_listed}
    for before in earlier.deliverables:
        now = campaign.by_id.get(before.id)
        if (now is None or campaign.absent(now)) and before.verdict not in (None, "missing"):
            where = "no longer in the manifest" if now is None and campaign.manifest is not None else "not there"
            known = now is not None or before.id in planned
            yield rules.BASELINE_GONE.finding(
                f"{before.id} was {before.verdict} in {earlier.file}, and is {where}", deliverable=before.id if known else None,
                path=now.path if now is not None else before.path, level=None if before.verdict == _ACCEPTED else Level.NOTE,
                observed="nothing", expected=number(len(before.files), "file"),
                remedy="restore it, and list it in the manifest")


def verdict_changed(before: str, now: str, path: str | None) -> Finding:
    """The note that a verdict is another one than in the baseline."""
    return rules.VERDICT.finding(f"it was {before} in the baseline and is {now}", path=path, observed=now, expected=before,
                                 remedy="none")


def expected(declared: Declared) -> str:
    """What a place says of a file, in words."""
    said = [f"{declared.size:,} bytes"] if declared.size is not None else []
    if declared.algorithm is not None:
        said.append(f"{declared.algorithm} {declared.digest}")
    return ", ".join(said) or "the file"


def needs_no_line(campaign: Campaign, path: str) -> bool:
    """Whether a file may lie in a deliverable without being listed: a document, a README, what another entry names."""
    return is_aside(path) or path in (MANIFEST, PLAN) or (campaign.manifest is not None and path in campaign.manifest.named)


def not_read(path: str, error: OSError) -> Finding:
    """The finding that a file could not be read, or changed meanwhile."""
    if isinstance(error, Changed):
        return rules.CHANGED.finding(str(error), path=path, remedy="wait until everything is written, and run the check again")
    return rules.UNREADABLE.finding(f"it cannot be read: {error.strerror or error}", path=path,
                                    remedy="change its permission, or run the check as its owner")
