"""What is declared against what is there, as findings."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from ...campaign import Campaign, Deliverable
from ...declarations import Declared, Fault, FaultKind, of_deliverable
from ...findings import Finding, Level, Rule
from ...hashing import SHA256
from ...inventory import LINK, Entry
from ...text import number
from ..base import Evidence
from . import rules, since
from .since import expected, needs_no_line, not_read

_AGAIN = "copy it again; if it is right, write the list again"
MOST = 1000  # findings of one rule about one deliverable
_WEAK = frozenset({"md5", "sha1"})
_LISTS = 3  # sources that a note names
_NAMES = {"md5": "MD5", "sha1": "SHA-1", "sha224": "SHA-224", SHA256: "SHA-256", "sha384": "SHA-384", "sha512": "SHA-512"}
_BLAKE2B = "blake2b"  # the number of bits stands behind it where it is not 512

_FAULTS: Mapping[FaultKind, tuple[Rule, Level | None, str]] = {
    FaultKind.LINE: (rules.LINE, None, "write the list again from inside its folder"),
    FaultKind.UNREADABLE: (rules.LIST_UNREADABLE, None, "change its permission, or run the check as its owner"),
    FaultKind.CHANGED: (rules.CHANGED, None, "wait until everything is written, and run the check again"),
    FaultKind.ABSENT: (rules.LIST_ABSENT, None, "copy the list from where the files were written"),
    FaultKind.ALGORITHM: (rules.ALGORITHM, None, "add a list with SHA-256"),
    FaultKind.OUTSIDE: (rules.OUTSIDE, None, "write the list again from inside its folder"),
    FaultKind.HIGHER: (rules.HIGHER, None, "write the list again from inside its folder, or take these folders out of its lines"),
    FaultKind.TWICE: (rules.TWICE, None, "delete one of the lines"),
    FaultKind.TWICE_TOLERATED: (rules.TWICE, Level.WARNING, "delete one of the lines"),
    FaultKind.BAG: (rules.BAG, None, "write bagit.txt as RFC 8493 asks for"),
    FaultKind.OXUM: (rules.OXUM, None, "copy the bag again, or make it again"),
    FaultKind.FETCH: (rules.FETCH, None, "fetch the file, and take its line out of fetch.txt"),
    FaultKind.UNLISTED: (rules.UNLISTED, None, "remove the file, or make the bag again"),
    FaultKind.FORM: (rules.FORM, None, "give files plain ASCII names, or write the list again where the files lie"),
}


def absent(campaign: Campaign, deliverable: Deliverable) -> str | None:
    """Why there is nothing to compare; the check `content` rejects it for the same reason."""
    return "it is not there" if campaign.target(deliverable) is None else None


def check(campaign: Campaign, deliverable: Deliverable, evidence: Evidence) -> Iterator[Finding]:
    """Findings about a deliverable's files, and about the lists of digests among them."""
    said = evidence.declarations(campaign)
    own = campaign.files_of(deliverable)
    target = campaign.target(deliverable)
    listed = list(of_deliverable(campaign, deliverable))
    subjects: dict[Entry, list[Declared]] = {entry: list(said.listed.get(entry.path, ())) for entry in own.values()}
    gone = list(said.gone_by_owner.get(target, ()))
    for declared in listed:
        if declared.entry is None:
            gone.append(declared)
        else:
            subjects.setdefault(declared.entry, []).append(declared)
    seen = {entry: path for path, entry in reversed(list(own.items()))}
    yield from _capped([
        *map(_fault, said.faults_by_owner.get(target, ())),
        *_gone(campaign, gone),
        *_added(campaign, own, listed),
        *_compared(subjects, seen, said.algorithms, evidence),
        *since.changes(campaign, deliverable, own, evidence),
    ])
    yield from _level(subjects, deliverable.path, number(len(own), "file"))


def campaign_check(campaign: Campaign, evidence: Evidence) -> Iterator[Finding]:
    """Findings about lists of digests, data sets and listed files that belong to no deliverable, and about the baseline."""
    said = evidence.declarations(campaign)
    claimed = {entry.path for deliverable in campaign.deliverables for entry in campaign.files_of(deliverable).values()}
    subjects = {declared[0].entry: list(declared) for path, declared in said.listed.items()
                if path not in claimed and declared[0].entry is not None}
    yield from _capped([
        *map(_fault, said.faults_by_owner.get(None, ())),
        *_gone(campaign, said.gone_by_owner.get(None, ())),
        *_compared(subjects, {}, said.algorithms, evidence),
        *since.of_campaign(campaign),
    ])
    if subjects:
        yield from _level(subjects, "", f"{number(len(subjects), 'listed file')} of no deliverable")


def _capped(findings: Sequence[Finding]) -> Iterator[Finding]:
    """All findings, each once, of each rule at most `MOST` and then one with their number."""
    findings = list(dict.fromkeys(findings))
    counts: collections.Counter[str] = collections.Counter()
    for finding in findings:
        counts[finding.rule] += 1
        if counts[finding.rule] <= MOST:
            yield finding
    totals = {rule: count for rule, count in counts.items() if count > MOST}
    last = {finding.rule: finding for finding in findings if finding.rule in totals}
    for rule, finding in last.items():
        yield dataclasses.replace(
            finding, line=None, pointer=None, observed=f"{totals[rule]:,} such findings", expected=None,
            message=f"{totals[rule]:,} such findings in all, of which {MOST:,} are shown; the last is about {finding.path}")


def _fault(fault: Fault) -> Finding:
    rule, level, remedy = _FAULTS[fault.kind]
    return rule.finding(fault.message, level=level or _lowered(rule, fault.nested), path=fault.path, line=fault.line,
                        observed=fault.observed, expected=fault.expected, remedy=remedy)


def _lowered(rule: Rule, nested: bool) -> Level | None:
    """What a list in the payload of a bag says is content that the bag vouches for as it is: no error, a warning."""
    return Level.WARNING if nested and rule.level is Level.ERROR else None


def _gone(campaign: Campaign, gone: Iterable[Declared]) -> Iterator[Finding]:
    """One finding for each file that is declared and not there, however many places declare it."""
    by_path: dict[str, list[Declared]] = {}
    for declared in gone:
        by_path.setdefault(declared.path, []).append(declared)
    for path, places in by_path.items():
        if (why := campaign.hidden(path)) is not None:
            yield rules.UNREADABLE.finding(
                f"{_places(places)} declares it, and nobody can say whether it is there: {why}", path=path,
                remedy="change the permission, or run the check as the owner")
            continue
        link = campaign.inventory.by_path.get(path)
        what = f"is a link to {link.link}, which is not in the directory" if link and link.kind == LINK else "is not there"
        yield rules.MISSING.finding(
            f"{_places(places)} declares it, and it {what}", path=path, observed="nothing", expected=expected(places[0]),
            level=_lowered(rules.MISSING, all(one.nested for one in places)), remedy="copy it while the machine is still there")


def _places(declared: Sequence[Declared]) -> str:
    places = list(dict.fromkeys(one.place for one in declared))
    return ", ".join(places[:_LISTS]) + (f" and {len(places) - _LISTS} more" if len(places) > _LISTS else "")


def _added(campaign: Campaign, own: Mapping[str, Entry], listed: Sequence[Declared]) -> Iterator[Finding]:
    """Files that a list in the manifest does not name, when there is one."""
    known = {declared.entry.path for declared in listed if declared.entry is not None}
    if not listed:
        return
    for path, entry in own.items():
        if entry.path not in known and not needs_no_line(campaign, path):
            yield rules.ADDED.finding(
                f"it belongs to the deliverable, and its list in {listed[0].file} does not name it", path=path,
                observed=f"a file of {entry.size:,} bytes", expected="a line in files", remedy="add it to files, or remove it")


# ---- sizes and digests ---------------------------------------------------------------------------------------


def _compared(subjects: Mapping[Entry, Sequence[Declared]], seen: Mapping[Entry, str], algorithms: Mapping[str, Collection[str]],
              evidence: Evidence) -> Iterator[Finding]:
    """Sizes first: they cost nothing, and a file of another size has another digest."""
    wanted: dict[Entry, Collection[str]] = {}
    for entry, declared in subjects.items():
        path = seen.get(entry, entry.path)
        yield from _contradictions(path, declared)
        wrong = _gravest(one for one in declared if one.size not in (None, entry.size))
        for one in wrong:
            yield rules.SIZE.finding(
                f"{one.place} says {one.size:,} bytes, and it has {entry.size:,}", level=_lowered(rules.SIZE, one.nested),
                path=path, observed=f"{entry.size:,} bytes", expected=expected(one), remedy=_AGAIN)
        if not wrong and any(one.algorithm is not None for one in declared):
            wanted[entry] = algorithms[entry.path]  # the baseline's too, so that the file is read once
    found = evidence.digests(wanted)
    for entry in wanted:
        path, digests = seen.get(entry, entry.path), found[entry]
        if isinstance(digests, OSError):
            yield not_read(path, digests)
        else:
            yield from _digests(path, [one for one in subjects[entry] if one.algorithm is not None], digests)


def _digests(path: str, declared: Sequence[Declared], digests: Mapping[str, str]) -> Iterator[Finding]:
    for one in _gravest(one for one in declared if one.digest != digests[one.algorithm or ""]):
        yield rules.DIGEST.finding(
            f"{one.place} has another digest of it", level=_lowered(rules.DIGEST, one.nested), path=path,
            observed=f"{one.algorithm} {digests[one.algorithm or '']}", expected=f"{one.algorithm} {one.digest}", remedy=_AGAIN)


def _gravest(wrong: Iterable[Declared]) -> Sequence[Declared]:
    """Of those that say the same the first, one that is no mere content if there is any."""
    found: dict[object, Declared] = {}
    for one in sorted(wrong, key=lambda one: one.nested):
        found.setdefault((one.size, one.algorithm, one.digest), one)
    return list(found.values())


def _contradictions(path: str, declared: Sequence[Declared]) -> Iterator[Finding]:
    """Declarations of one file that cannot all be right."""
    digests: dict[str, Declared] = {}
    size: Declared | None = None
    for one in declared:
        if one.algorithm is not None:
            first = digests.setdefault(one.algorithm, one)
            if first.digest != one.digest:
                yield _contradiction(path, first, one, f"{one.algorithm} {first.digest}", f"{one.algorithm} {one.digest}")
        if one.size is not None:
            size = size or one
            if size.size != one.size:
                yield _contradiction(path, size, one, f"{size.size:,} bytes", f"{one.size:,} bytes")


def _contradiction(path: str, one: Declared, other: Declared, first: str, second: str) -> Finding:
    return rules.CONTRADICTION.finding(
        f"{one.place} and {other.place} contradict each other", level=_lowered(rules.CONTRADICTION, one.nested or other.nested),
        path=path, observed=f"{second} ({other.place})",
        expected=f"{first} ({one.place})", remedy="find out which is right, and write the other list again")


def _name(algorithm: str) -> str:
    return _NAMES.get(algorithm) or f"BLAKE2b-{algorithm.removeprefix(_BLAKE2B) or 512}"


def _level(subjects: Mapping[Entry, Sequence[Declared]], path: str, of: str) -> Iterator[Finding]:
    """How deep the comparison went, and with what."""
    digests = [entry for entry, declared in subjects.items() if any(one.algorithm is not None for one in declared)]
    known = set(digests)
    with_size = [entry for entry, declared in subjects.items() if any(one.size is not None for one in declared)]
    sizes = [entry for entry in with_size if entry not in known]
    if not digests and not sizes:
        yield rules.NOTHING.finding(
            f"no size and no digest of its files is declared ({of})", path=path,
            remedy="none; list files with bytes and sha256 in the manifest, or add a SHA256SUMS, to have them compared")
        return
    everything = [one for declared in subjects.values() for one in declared]
    names = sorted({_name(one.algorithm) for one in everything if one.algorithm is not None})
    both = ["size"] if len(with_size) > len(sizes) else []
    parts = [f"{' and '.join([*both, *names])} of {number(len(digests), 'file')}"] if digests else []
    parts += [f"only the size of {number(len(sizes), 'file')}"] if sizes else []
    sources = list(dict.fromkeys(one.file for one in everything))
    more = f" and {len(sources) - _LISTS} more" if len(sources) > _LISTS else ""
    yield rules.COMPARED.finding(
        f"compared: {', '.join(parts)} (of {of}), with {', '.join(sources[:_LISTS])}{more}", path=path, remedy="none")
    weak = [entry.path for entry in digests if {one.algorithm for one in subjects[entry]} - {None} <= _WEAK]
    if weak:
        yield rules.WEAK.finding(
            f"{number(len(weak), 'file')} with no digest but MD5 or SHA-1, the first is {weak[0]}", path=weak[0],
            observed=" and ".join(names), expected="SHA-256", remedy="add a list with SHA-256")
