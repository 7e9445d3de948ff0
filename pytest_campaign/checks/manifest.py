"""Is there a manifest, is it valid, do its paths stay inside, is anything declared at all?"""

from __future__ import annotations

from collections.abc import Iterator

from ..campaign import Campaign, DocumentFault
from ..findings import Finding, Level, Rule
from ..inventory import FOLDER
from ..snapshot import MANIFEST
from .base import CampaignCheck, Evidence

ABSENT = Rule("manifest.absent", Level.ERROR, """
    There is no manifest.json, so nothing says what was promised.

    Without a manifest every checkpoint that is found is still reloaded, but nobody can tell whether something is
    missing, which run a file belongs to, or which of two files counts.

    Usual causes: the campaign was never described, or the directory above or below the campaign was named.

    Fix: `pytest-campaign draft DIR` writes a manifest with everything that can be read from the files; fill in
    what its `todo` list asks for.
    """)
EMPTY = Rule("manifest.empty-directory", Level.ERROR, """
    The directory holds no file at all.

    Usual causes: the copy from the rented machine failed, or the wrong directory was named.

    Fix: copy the outputs again before the machine is given back, or name the right directory.
    """)
NO_FILE = Rule("manifest.no-file", Level.ERROR, """
    What lies at manifest.json is no file: a folder, or a link that leads to nothing in the directory.

    Usual causes: a copy without following links, so that the manifest stayed behind.

    Fix: put the file itself there.
    """)
UNREADABLE = Rule("manifest.unreadable", Level.WARNING, """
    manifest.json is there and could not be read.

    The machine that checks has no permission, or its disk failed. What is planned stays unverified; what is
    discovered is checked all the same.

    Fix: make the file readable for the user who runs the check, and run it again.
    """, unanswered=True)
NOT_SEEN = Rule("manifest.directory-not-seen", Level.WARNING, """
    The directory could not be looked through to its end, so whatever lies in the rest was not checked.

    The machine that checks has no permission to list it, or it holds more entries or more levels of folders than
    are looked at.

    Fix: make it readable for the user who runs the check; name the campaign's own directory, not one far above it.
    """, unanswered=True)
SYNTAX = Rule("manifest.syntax", Level.ERROR, """
    manifest.json is no strict JSON.

    Two readers would understand it differently or not at all: a missing comma, a key that occurs twice, the
    literals NaN and Infinity, bytes that are no UTF-8, text after the end.

    Usual causes: an edit by hand; a writer that was killed; two processes that wrote the same file.

    Fix: correct the named line. One fault of syntax hides later ones, so run the check again.
    """)
SCHEMA = Rule("manifest.schema", Level.ERROR, """
    manifest.json does not have the form of a manifest.

    A required property is missing, a value has the wrong type or form, or a property is unknown (often a
    misspelling, which would silently be ignored). Your own properties belong under "extra".

    Fix: correct the named place; `schemas/manifest-1.schema.json` describes every property.
    """)
PATH = Rule("manifest.path", Level.ERROR, """
    A path in manifest.json is not a relative POSIX path inside the campaign.

    An absolute path or one with `..` names something on the machine where it was written; it is lost, or it is
    another file, after the move. Such a path is never opened.

    Usual causes: `str(Path(...).resolve())` written into the manifest; a base model beside the campaign.

    Fix: write the path relative to the campaign directory, with `/`, and copy what lies outside into it.
    """)
REFERENCE = Rule("manifest.reference", Level.ERROR, """
    manifest.json refers to something that it does not define.

    A deliverable names a base or a data set, or a run names another run, under an id that does not occur. What
    was meant cannot be checked.

    Usual causes: a renamed run; a misspelt name.

    Fix: define it, or correct the name.
    """)
TODO = Rule("manifest.todo", Level.ERROR, """
    The manifest still has an open entry in its todo list.

    A draft states what could be read from the files. What only a person can know (what a run was for, which base
    exactly) stands in `todo` until it is filled in.

    Fix: fill in the named place and delete the entry.
    """)
NOTHING_DECLARED = Rule("manifest.nothing-declared", Level.ERROR, """
    The manifest lists no deliverable.

    A campaign without deliverables cannot be accepted: there is nothing to accept.

    Usual causes: the manifest was written before the first run ended and never completed.

    Fix: list what each run delivered; `pytest-campaign draft` shows what lies in the directory.
    """)

_BY_KIND = {"schema": SCHEMA, "path": PATH, "reference": REFERENCE, "unreadable": UNREADABLE, "no-file": NO_FILE}


def _fault(fault: DocumentFault) -> Finding:
    rule = _BY_KIND.get(fault.kind, SYNTAX)
    remedy = {
        UNREADABLE: "make the file readable and run the check again",
        NO_FILE: "put the file itself there (cp -L follows links)",
        PATH: "write a path relative to the campaign directory, or copy the file into it",
        REFERENCE: "define what is named, or correct the name",
        SCHEMA: "correct this place; schemas/manifest-1.schema.json describes every property",
    }.get(rule, "correct this line; the rest of the file is read once its syntax is right")
    return rule.finding(fault.message, remedy=remedy, path=fault.file, line=fault.line, column=fault.column,
                        pointer=fault.pointer, observed=fault.observed, expected=fault.expected)


def check(campaign: Campaign, evidence: Evidence) -> Iterator[Finding]:
    """Findings about the manifest as a document; what it promises is the question of other checks."""
    faults = [fault for fault in campaign.faults if fault.file == MANIFEST and fault.kind != "duplicate-id"]
    yield from map(_fault, faults)
    if campaign.inventory.cut is not None:
        yield NOT_SEEN.finding(campaign.inventory.cut, path="", remedy="make it readable, or name the campaign's own directory")
    elif all(entry.kind == FOLDER for entry in campaign.inventory.entries):
        yield EMPTY.finding("there is no file in the directory", path="",
                            remedy="copy the outputs again, or name the directory that holds them")
    elif campaign.manifest is None and not faults:
        yield ABSENT.finding(
            f"there is no {MANIFEST}: nothing says what was promised", path=MANIFEST,
            remedy="write a draft with: pytest-campaign draft DIR (it never overwrites), and fill in its todo list")
    if campaign.manifest is None:
        for entry in campaign.inventory.entries:
            if entry.kind == FOLDER and entry.problem:
                yield NOT_SEEN.finding(f"it cannot be listed: {entry.problem}", path=entry.path, remedy="make it readable")
    if campaign.manifest is not None:
        if not campaign.manifest.deliverables:
            yield NOTHING_DECLARED.finding("the manifest lists no deliverable", path=MANIFEST, pointer="/runs",
                                           remedy="list what each run delivered")
        for number, (pointer, why, command) in enumerate(campaign.manifest.todo):
            yield TODO.finding(
                f"{pointer or 'the document'} is still to be filled in: {why}", path=MANIFEST, pointer=f"/todo/{number}",
                remedy=(f"run `{command}` to find out, " if command else "") + f"fill in {pointer} and delete this entry of todo")


CHECK = CampaignCheck("manifest", "Is there a manifest, is it valid, is anything declared?", check)
