"""The section at the end of a session in the terminal: verdicts, worst first, and one line for each campaign."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from ..findings import Finding, Level, Outcome
from ..record import NOT_RUN, CampaignRecord, DeliverableRecord, Record, Verdict
from ..reload.protocol import Isolation
from ..text import number, shown, size
from . import account_lines

_MOST_ACCEPTED = 20  # lines of accepted deliverables; more only with -v
_MOST_FINDINGS = 5  # of one subject; all of them stand in the failure above and in the report
_COLOURS = {
    Verdict.MISSING: {"red": True}, Verdict.REJECTED: {"red": True}, Verdict.UNVERIFIED: {"yellow": True},
    Verdict.ABORTED: {"yellow": True}, Verdict.ACCEPTED: {"green": True},
}


def show(record: Record, reporter: pytest.TerminalReporter, cwd: Path) -> None:
    """Write the section."""
    verbose = reporter.config.get_verbosity()
    if verbose < -1:
        return
    for campaign in record.campaigns:
        reporter.write_sep("=", f"campaign {shown(campaign.campaign)}")
        if verbose >= 0 or campaign.verdict is not Verdict.ACCEPTED:
            for text, colours in _body(campaign, verbose):
                reporter.write_line(text, **colours)
            for text in account_lines.lines(campaign) if not campaign.partial else ():
                reporter.write_line(text)
        good = campaign.verdict is Verdict.ACCEPTED and not campaign.partial
        reporter.write_line(summary(campaign, cwd, complete=record.complete), bold=True,
                            **({"green": True} if good else {"yellow": True} if campaign.partial else {"red": True}))
    if record.isolation is not None and verbose >= 0:
        reporter.write_line(isolation_line(record.isolation))


def isolation_line(isolation: Isolation) -> str:
    """What separated the reloads from this machine, and what was missing."""
    missing = "; ".join(f"{layer} ({why})" for layer, why in isolation.missing.items())
    return f"isolation of the reloads: {isolation.level}" + (f"; missing: {shown(missing, 400)}" if missing else "")


def _body(campaign: CampaignRecord, verbose: int) -> Iterator[tuple[str, dict[str, bool]]]:
    yield from _findings(campaign.findings, verbose)
    for result in campaign.results:
        if result.outcome is Outcome.UNVERIFIED and not result.findings:
            yield f"UNVERIFIED  the check {result.pair.check}: {shown(result.reason or 'it did not end')}", {"yellow": True}
    for verdict in Verdict:
        found = [deliverable for deliverable in campaign.deliverables if deliverable.verdict is verdict]
        if campaign.partial:
            found = [deliverable for deliverable in found if _answered(deliverable)]  # the others were not selected
        if not campaign.described and verdict is Verdict.UNVERIFIED and verbose <= 0:
            planned = [deliverable for deliverable in found if deliverable.path is None]
            if planned:
                yield (f"UNVERIFIED  {number(len(planned), 'planned deliverable')}: without a usable manifest nobody can say "
                       "what became of them"), _COLOURS[verdict]
            found = [deliverable for deliverable in found if deliverable.path is not None]
        if verdict is Verdict.ABORTED and verbose <= 0:
            yield from ((line, _COLOURS[verdict]) for line in _aborted_runs(campaign, found))
            continue
        shown_ones = found if verdict is not Verdict.ACCEPTED or verbose > 0 else found[:_MOST_ACCEPTED]
        for deliverable in shown_ones:
            yield _line(deliverable), _COLOURS[verdict]
            yield from _findings(deliverable.findings, verbose, indent="    ")
        if len(shown_ones) < len(found):
            yield f"{verdict.value.upper():<10}  and {len(found) - len(shown_ones)} more", _COLOURS[verdict]


def _answered(deliverable: DeliverableRecord) -> bool:
    """Whether the verdict follows from a check that ran, and not from one that was left out."""
    ran = [result.outcome for result in deliverable.results if result.reason != NOT_RUN]
    return bool(ran) and (deliverable.verdict is not Verdict.UNVERIFIED or Outcome.UNVERIFIED in ran)


def _aborted_runs(campaign: CampaignRecord, aborted: Sequence[DeliverableRecord]) -> Iterator[str]:
    """One line for each aborted run, with its reason."""
    for run in campaign.runs:
        count = sum(deliverable.run == run["id"] for deliverable in aborted)
        if count:
            yield f"ABORTED     run {shown(run['id'])}: {shown(run['abort']['reason'])}  ({number(count, 'deliverable')})"


def _line(deliverable: DeliverableRecord) -> str:
    """One deliverable: its verdict, its id, and what it is."""
    facts = [deliverable.kind or "deliverable"]
    if deliverable.format:
        facts.append(deliverable.format)
    if deliverable.path is not None and deliverable.path != deliverable.id:
        facts.insert(0, deliverable.path or ".")
    if deliverable.depth is not None:
        facts.append(f"to {deliverable.depth.label}" + (f" by {deliverable.loader}" if deliverable.loader else ""))
    if deliverable.files:
        facts.append(size(sum(file.bytes for file in deliverable.files)))
    if deliverable.earlier not in (None, deliverable.verdict.value) and NOT_RUN not in {r.reason for r in deliverable.results}:
        facts.append(f"was {deliverable.earlier}")
    word = "not delivered" if deliverable.verdict is Verdict.MISSING and not deliverable.gated else deliverable.verdict.value
    unfinished = [result for result in deliverable.results
                  if result.reason and not result.findings and result.outcome is not Outcome.PASSED]
    facts += [f"{result.pair.check}: {result.reason}" for result in unfinished]
    return f"{word.upper():<10}  {shown(deliverable.id)}  ({shown(', '.join(facts))})"


def _findings(findings: Sequence[Finding], verbose: int, indent: str = "") -> Iterator[tuple[str, dict[str, bool]]]:
    order = list(Level)
    wanted = [f for f in sorted(findings, key=lambda f: order.index(f.level)) if f.level is not Level.NOTE or verbose > 0]
    most = len(wanted) if verbose > 0 else _MOST_FINDINGS
    for finding in wanted[:most]:
        level = "unverified" if finding.unanswered else finding.level.value
        colour = {"red": True} if finding.level is Level.ERROR else {"yellow": True}
        yield f"{indent}{level}: {finding.rule}: {shown(finding.place)}: {shown(finding.message, 400)}", colour
        if finding.remedy != "none":
            yield f"{indent}    -> {shown(finding.remedy, 400)}", {}
    if len(wanted) > most:
        yield f"{indent}and {number(len(wanted) - most, 'more finding')} (-v shows all)", {}


def summary(campaign: CampaignRecord, cwd: Path, *, complete: bool = True) -> str:
    """The one line that a campaign ends with; it never contradicts the exit status."""
    name = f"campaign {shown(campaign.campaign)}"
    if campaign.partial:
        return f"{name}: PARTIAL, {campaign.ran} of {campaign.expected} checks ran"
    if not complete:
        return f"{name}: INCOMPLETE, {campaign.ran} of {campaign.expected} checks ran"
    accepted, total = campaign.count(Verdict.ACCEPTED), len(campaign.deliverables)
    if campaign.only_undescribed:
        where = _relative(campaign.directory, cwd)
        return (f"{name}: NOT ACCEPTED: {accepted} of {total} outputs reload{_depth(campaign)}, but nothing says "
                f"what was promised (pytest --campaign-dir {where} --campaign-draft)")
    counted = f"{accepted} of {number(total, 'deliverable')}"
    asides = [f"{campaign.distinct} distinct"] if campaign.distinct < accepted else []
    asides += [f"{count} {word}" for word, count in (
        ("aborted", campaign.count(Verdict.ABORTED)),
        ("not delivered", sum(d.verdict is Verdict.MISSING and not d.gated for d in campaign.deliverables))) if count]
    aside = f" ({', '.join(asides)})" if asides else ""
    if campaign.verdict is Verdict.ACCEPTED:
        read = sum(deliverable.bytes_read for deliverable in campaign.deliverables)
        reloaded = f", {size(read)} reloaded" if any(d.depth is not None for d in campaign.deliverables) else ""
        return f"{name}: ACCEPTED, {counted}{aside}{reloaded}{_depth(campaign)}"
    lost = sum(deliverable.only_at_source for deliverable in campaign.deliverables)
    rescue = f" ({lost} can only be repaired where {'it was' if lost == 1 else 'they were'} made)" if lost else ""
    failed = [result.pair.check for result in campaign.results if result.outcome is Outcome.FAILED]
    by = f" by {' and '.join(failed)}" if failed else ""
    return f"{name}: {campaign.verdict.value.upper()}{by}, {counted} accepted{rescue}"


def _depth(campaign: CampaignRecord) -> str:
    return f" (at least to: {campaign.depth.label})" if campaign.depth is not None else ""


def _relative(directory: str, cwd: Path) -> str:
    path = Path(directory)
    return shown(shlex.quote(str(path.relative_to(cwd)) if path.is_relative_to(cwd) else directory))
