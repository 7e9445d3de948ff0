"""Is the base model named exactly, do the files and the manifest agree on it, and is the one at hand that one?"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Iterator, Mapping
from typing import Any

from ..base_lookup import Absent, Found, downloaded_commit, shortened
from ..bases import (
    MODEL,
    REVISION,
    Said,
    Statement,
    has_base,
    identifies,
    is_commit,
    is_hub_name,
    is_short_commit,
    is_weights,
    same_name,
    snapshot_of,
)
from ..campaign import Base, Campaign, Deliverable
from ..findings import Finding, Level, Rule
from ..formats import base_headers
from ..inventory import FOLDER
from ..merging import Difference
from ..readers.strict_json import pointer_to
from ..text import number, shown
from .base import DeliverableCheck, Evidence

NOT_STATED = Rule("base.not-stated", Level.ERROR, """
    Nothing says exactly which base model an adapter or a merged model belongs to.

    An adapter is a difference to one model. Put on another revision of it, it loads without a word and answers something
    else. PEFT writes `"revision": null` unless the author passed one by hand, and null means: whatever the branch main is on
    the day of loading. So null alone is no fault; that the manifest does not say it either is. In an adapter that was found
    without a manifest it is a warning.

    Usual causes: the revision was never recorded; the base was named by a path of the machine.

    Fix: give the deliverable a `base` with `model` and `revision` (the commit of 40 hexadecimal digits), with `path` when the
    base is delivered too, or with `sha256` of its weights files. The machine that trained has the commit in its cache:
    `…/models--acme--tiny/snapshots/<commit>`.
    """, at_source=True)
NOT_EXACT = Rule("base.not-exact", Level.ERROR, """
    The base is named by a branch, a tag or a shortened commit.

    A branch moves and a tag can be moved: whoever loads the adapter later gets another model, without any message. Digests
    in the manifest would show it, but not lead back to the right model. (Of a base that is delivered in the campaign the
    revision does not matter; then this is a warning.)

    Usual causes: `revision="main"` in the training script; `git rev-parse --short`.

    Fix: write the commit of 40 hexadecimal digits, in `adapter_config.json` and in the manifest.
    """, at_source=True)
DISAGREES = Rule("base.disagrees", Level.ERROR, """
    The files and the manifest name different base models, or different revisions of one.

    A loader follows `adapter_config.json`, a person follows the manifest; one of them gets the wrong model. (Case makes no
    difference in a name, nor does an owner that only one of the two names.) A merged model has to have the base of the
    adapter that was merged.

    Usual causes: an entry that was copied from another adapter; a base that was replaced between two runs.

    Fix: find out which one it was trained on, and correct the other.
    """)
OWN_COMMIT = Rule("base.own-commit", Level.ERROR, """
    The revision of the base is a commit of something else: of the training code, or of the adapter's own repository.

    The base has no such commit, so the adapter cannot be loaded, or nobody knows on what.

    Usual causes: `git rev-parse HEAD` in the wrong folder; the commit of the upload was taken for the one of the base.

    Fix: write the commit of the base's own repository.
    """)
MISSING = Rule("base.missing", Level.ERROR, """
    The manifest says that the base is delivered in the campaign, and it is not there or not complete.

    Usual causes: the base was left out of the copy because of its size; a wrong `path`.

    Fix: copy the base into the campaign, correct `path`, or name the base by its commit.
    """, at_source=True)
OTHER_CONTENT = Rule("base.other-content", Level.ERROR, """
    A file of the base that is at hand is not the one whose digest is recorded.

    The names and shapes may all fit, so an adapter loads on it without a word, and its answers are wrong.

    Usual causes: the base was trained further or changed in place; another revision was given to the check.

    Fix: get the base whose digests are recorded. If the digest was recorded wrongly, correct the manifest.
    """)
NOT_AT_HAND = Rule("base.not-at-hand", Level.NOTE, """
    The base is not at hand, or a part of it, so it was not compared with what is recorded.

    That says nothing about the adapter: it is read in full. Whether its names and shapes fit the base stays open, and a
    deliverable of which the depth `model` is asked stays unverified. Where the headers of the base were archived beside the
    adapter (`base_headers.json`), they stand for it.

    Fix: give the place of the base with `--campaign-base-model=NAME=DIR` (its directory, or a Hugging Face cache).
    """)
NOT_MERGED = Rule("base.not-merged", Level.ERROR, """
    A merged model is its base: every tensor that the adapter should have changed is still the base's.

    The adapter holds values, so a merge would have changed them.

    Usual causes: the base was saved instead of the merged model; `merge_and_unload()` returns the model, and its result was
    not kept.

    Fix: merge again, and save what `merge_and_unload()` returns.
    """)
OTHER_BASE = Rule("base.merged-into-another", Level.ERROR, """
    A merged model holds tensors that are neither its base's nor touched by the adapter.

    Merging leaves them as they are, so the adapter was merged into another model than the one that is named. (Compared are
    tensors of the same name, shape and type; of large ones the beginning and the end.)

    Usual causes: the branch of the base had moved when the merge ran; a base that was trained further in place.

    Fix: merge into the base that the adapter was trained on, or name the base that was used.
    """)
NOT_COMPARED = Rule("base.not-compared", Level.NOTE, """
    A merged model could not be compared with its base.

    Safetensors files with tensors of the same names and types are compared, when adapter and base are at hand.

    Fix: deliver the adapter too, and save both models as safetensors in the same type, to have the merge checked.
    """)

_LONGEST = 120  # characters of a name in a message
_EXACT = "a commit of 40 hexadecimal digits"


def _cut(text: str) -> str:
    return shown(text, _LONGEST)


def check(campaign: Campaign, deliverable: Deliverable, evidence: Evidence) -> Iterator[Finding]:
    """Findings about the base of one adapter or merged model."""
    statement = evidence.stated_base(campaign, deliverable)
    yield from _exactness(campaign, deliverable, statement, evidence)
    foreign = _foreign_commits(campaign, deliverable, statement, evidence)
    yield from _own_commit(statement, foreign)
    yield from _disagreement(campaign, statement, foreign)
    yield from _archived(campaign, deliverable, statement, evidence)
    if deliverable.merged_from is not None:
        yield from _against_adapter(campaign, deliverable, evidence)
    found = evidence.base(campaign, deliverable)
    content = list(_content(campaign, deliverable, statement, found, evidence))
    yield from content
    other = any(finding.rule == OTHER_CONTENT.code for finding in content)
    if deliverable.merged_from is not None and isinstance(found, Found) and not other:
        yield from _merge(campaign, deliverable, found, evidence)


# ---- what is said --------------------------------------------------------------------------------------------


def _exactness(campaign: Campaign, deliverable: Deliverable, statement: Statement, evidence: Evidence) -> Iterator[Finding]:
    declared = statement.declared
    delivered = declared is not None and declared.path is not None
    doubtful = Level.WARNING if deliverable.place is None or delivered else None
    exact = declared is not None and (delivered or is_commit(declared.revision) or identifies(declared.sha256))
    inexact = False
    if declared is not None and declared.revision is not None and not is_commit(declared.revision):
        inexact = True
        yield NOT_EXACT.finding(
            f"the base {_cut(declared.model)} is named {_moving(declared.revision)}", path=declared.place.file,
            pointer=f"{declared.place.pointer}/revision", level=doubtful, observed=_cut(declared.revision),
            expected=_EXACT, remedy=_write_commit(deliverable, statement, evidence, declared.revision))
    for said in _distinct(statement):
        if said.revision is not None and not is_commit(said.revision) and said.name is not None and _open(said):
            inexact = True
            yield NOT_EXACT.finding(
                f"the base {_cut(said.name)} is named {_moving(said.revision)}", **_at(said, REVISION), level=doubtful,
                observed=_cut(said.revision), expected=_EXACT,
                remedy=_write_commit(deliverable, statement, evidence, said.revision, said.file))
    if exact or inexact:
        return
    unsaid = [said for said in _distinct(statement) if _open(said)]
    if unsaid or not statement.said:
        yield NOT_STATED.finding(
            _unstated(statement, unsaid), level=doubtful, **_place(deliverable, statement, unsaid[0] if unsaid else None),
            observed=_observed(statement, unsaid), expected=f"{_EXACT}, a path in the campaign, or digests",
            remedy=_write_commit(deliverable, statement, evidence))


def _open(said: Said) -> bool:
    """Whether a configuration leaves open which model exactly it means."""
    return said.exact is None and said.folder is None


def _distinct(statement: Statement) -> list[Said]:
    """The adapter configurations, of several that say the same the first."""
    return list({(said.text, said.revision): said for said in reversed(statement.said)}.values())[::-1]


def _moving(revision: str) -> str:
    if is_short_commit(revision):
        return f"by the shortened commit {revision}"
    return f"by {_cut(revision)!r}, a branch or a tag" if revision.strip() else "by a blank revision"


def _unstated(statement: Statement, unsaid: list[Said]) -> str:
    declared = statement.declared
    manifest = "the manifest states no base" if declared is None else \
        f"the manifest names {_cut(declared.model)} and neither its commit, nor a path, nor digests of its weights"
    if not unsaid:
        return manifest
    if unsaid[0].text is None:
        return f"the adapter's configuration names no base model, and {manifest}"
    if unsaid[0].name is None:
        return f"the base is only named by a path, {_cut(unsaid[0].text)!r}, and {manifest}"
    return f"the base {_cut(unsaid[0].name)} is named without its revision, and {manifest}"


def _observed(statement: Statement, unsaid: list[Said]) -> str:
    if unsaid:
        return "revision: null" if unsaid[0].text is not None else "no base model"
    return "no base" if statement.declared is None else "a name alone"


def _place(deliverable: Deliverable, statement: Statement, said: Said | None) -> Mapping[str, Any]:
    """Where a finding about the base points to: the adapter's configuration, else the manifest."""
    if said is not None:
        return _at(said, REVISION if said.text is not None else MODEL)
    if statement.declared is not None:
        return {"path": statement.declared.place.file, "pointer": statement.declared.place.pointer}
    if deliverable.place is not None:
        return {"path": deliverable.place.file, "pointer": deliverable.place.pointer}
    return {"path": deliverable.path}


def _write_commit(deliverable: Deliverable, statement: Statement, evidence: Evidence, moving: str | None = None,
                  config: str | None = None) -> str:
    """What to write and where, with the commit if the other document says it or this machine knows it.

    ``moving`` is the branch, the tag or the shortened commit that stands there now; ``config`` the adapter's configuration when
    it is the one to be corrected, and not the manifest.
    """
    declared = statement.declared
    said = [text for said in statement.said if (text := said.name or said.text) is not None]
    texts = [declared.model] if declared is not None else said
    known = next((known for text in texts if (known := evidence.known_base(text, moving)) is not None), None)
    name = known.name if known is not None else next((text for text in texts if is_hub_name(text)), None)
    stated = _stated_commit(statement, elsewhere=config is None)
    commit = stated[0] if stated is not None else known.commit if known is not None else "<commit>"
    if config is not None:
        where = f"write \"revision\": {json.dumps(commit)} into {_cut(config)}"
    elif declared is not None:
        where = f"write \"revision\": {json.dumps(commit)} into {declared.place.file}#{declared.place.pointer}"
    else:
        line = json.dumps({"model": name or "<name>", "revision": commit})
        where = f"write \"base\": {line} into the entry of {deliverable.id} in manifest.json"
    if stated is not None:
        return f"{where} ({stated[1]} has it)"
    if known is not None:
        return f"{where} ({known.where})"
    cache = f"models--{(name or 'acme/tiny').replace('/', '--')}"
    return f"{where}; the machine that trained it has the commit in its cache: …/{cache}/snapshots/<commit>"


def _stated_commit(statement: Statement, *, elsewhere: bool) -> tuple[str, str] | None:
    """(commit, document) where one of the two documents is exact: ``elsewhere`` than in the manifest, or in the manifest."""
    declared = statement.declared
    if not elsewhere:
        exact = declared is not None and declared.revision is not None and is_commit(declared.revision)
        return (str(declared.revision).lower(), declared.place.file) if declared is not None and exact else None
    exact_ones = {said.exact: said.file for said in statement.said if said.exact is not None}
    return next(iter(exact_ones.items())) if len(exact_ones) == 1 else None


def _foreign_commits(campaign: Campaign, deliverable: Deliverable, statement: Statement, evidence: Evidence) -> Mapping[str, str]:
    """Commits that cannot be the base's, and whose they are."""
    found: dict[str, str] = {}
    wanted = statement.wanted
    git_commit = campaign.manifest.raw.get("provenance", {}).get("git_commit") if campaign.manifest else None
    if is_commit(git_commit) and (wanted is None or wanted.folder is None):
        found[str(git_commit)] = "the commit of the training code (provenance.git_commit)"
    folder = campaign.target(deliverable) or ""
    name, commit = snapshot_of(f"{campaign.inventory.root}/{folder}") or (None, None)
    if name is not None and commit is not None and not (wanted is not None and wanted.name and same_name(wanted.name, name)):
        found[commit] = f"the commit of the adapter's own repository {_cut(name)}"
    own = downloaded_commit(campaign.inventory, folder, "adapter_", evidence.content)
    if own is not None:
        found.setdefault(own, "the commit at which the adapter itself was downloaded")
    return found


def _at(said: Said, pointer: str) -> Mapping[str, Any]:
    return {"path": said.file, "pointer": pointer, "line": said.lines.get(pointer)}


def _own_commit(statement: Statement, foreign: Mapping[str, str]) -> Iterator[Finding]:
    declared = statement.declared
    places: list[tuple[str | None, Mapping[str, Any]]] = [(said.exact, _at(said, REVISION)) for said in _distinct(statement)]
    if declared is not None and declared.revision is not None:
        places.append((declared.revision.lower(), {"path": declared.place.file, "pointer": f"{declared.place.pointer}/revision"}))
    for commit, place in places:
        if commit is not None and commit in foreign:
            yield OWN_COMMIT.finding(
                f"the revision of the base is {foreign[commit]}", **place, observed=commit,
                expected="a commit of the base's repository", remedy="write the commit of the base's own repository")


def _disagreement(campaign: Campaign, statement: Statement, foreign: Mapping[str, str]) -> Iterator[Finding]:
    declared = statement.declared
    if declared is None:
        return
    for said in _distinct(statement):
        if said.folder is not None:
            entry = campaign.inventory.resolve(declared.path) if declared.path is not None else None
            if entry is not None and entry.path != said.folder:
                yield _differs(said, MODEL, f"the adapter leads to {said.folder}", said.folder, declared, entry.path)
        elif said.name is not None and is_hub_name(declared.model) and not same_name(said.name, declared.model):
            yield _differs(said, MODEL, f"the adapter names {_cut(said.name)}", _cut(said.name), declared,
                           declared.model)
        elif said.exact is not None and said.exact not in foreign and is_commit(declared.revision) \
                and said.exact != str(declared.revision).lower():
            yield _differs(said, REVISION if said.commit is None else MODEL, f"the adapter names commit {said.exact}", said.exact,
                           declared, str(declared.revision))


def _archived(campaign: Campaign, deliverable: Deliverable, statement: Statement, evidence: Evidence) -> Iterator[Finding]:
    """Archived headers that are, as they say themselves, those of another base than the one that is named."""
    wanted = statement.wanted
    for path, entry in campaign.files_of(deliverable).items():
        if wanted is None or posixpath.basename(path) != base_headers.FILE or not 0 < entry.size <= base_headers.LARGEST:
            continue
        try:
            headers = base_headers.parse(evidence.content(entry, base_headers.LARGEST))
        except (OSError, base_headers.NotHeaders):
            continue  # the reload says so
        for pointer, theirs, ours, same in (
            ("/model", headers.model, wanted.name, same_name),
            ("/revision", headers.revision, wanted.commit, lambda one, other: one.lower() == other or not is_commit(one)),
        ):
            if theirs is not None and ours is not None and is_hub_name(theirs) and is_hub_name(ours) and not same(theirs, ours):
                yield DISAGREES.finding(
                    f"the archived headers are those of {_cut(theirs)}, the base is {_cut(ours)}", path=path, pointer=pointer,
                    observed=_cut(theirs), expected=_cut(ours),
                    remedy="find out on which one it was trained, and archive the headers of that one")
                break


def _differs(said: Said, pointer: str, message: str, observed: str, declared: Base, expected: str) -> Finding:
    return DISAGREES.finding(
        f"{message}, the manifest {_cut(expected)}", **_at(said, pointer), observed=observed,
        expected=f"{_cut(expected)} ({declared.place.file}#{declared.place.pointer})",
        remedy="find out on which one it was trained, and correct the other")


def _against_adapter(campaign: Campaign, deliverable: Deliverable, evidence: Evidence) -> Iterator[Finding]:
    """A merged model whose own entry names another base than its adapter."""
    adapter = campaign.by_id.get(deliverable.merged_from or "")
    if adapter is None or adapter.merged_from is not None or deliverable.base is None:
        return
    ours, theirs = evidence.stated_base(campaign, deliverable).wanted, evidence.stated_base(campaign, adapter).wanted
    if ours is None or theirs is None:
        return
    own, other = ours.commit, theirs.commit
    if ours.name and theirs.name and is_hub_name(ours.name) and is_hub_name(theirs.name) \
            and not same_name(ours.name, theirs.name):
        own, other = ours.name, theirs.name
    if own is not None and other is not None and own != other:
        yield DISAGREES.finding(
            f"the merged model's base is {own}, and {adapter.id}, which was merged, belongs to {other}",
            path=deliverable.base.place.file, pointer=deliverable.base.place.pointer, observed=own, expected=other,
            remedy="find out which base was used, and correct the other; if they differ, merge again")


# ---- what is at hand -----------------------------------------------------------------------------------------


def _content(campaign: Campaign, deliverable: Deliverable, statement: Statement, found: Found | Absent | None,
             evidence: Evidence) -> Iterator[Finding]:
    declared, wanted = statement.declared, statement.wanted
    if declared is not None and declared.path is not None and "\0" not in declared.path:
        entry = campaign.inventory.resolve(declared.path)
        weights = isinstance(found, Found) and found.inside is not None and any(is_weights(path) for path in found.by_path)
        if entry is None or entry.kind != FOLDER or not weights:
            lacking = "it is not there" if entry is None else "no weights are there"
            yield MISSING.finding(
                f"the base should lie in {declared.path or '.'}, and {lacking}", path=declared.path,
                observed="nothing" if entry is None else "no weights", expected=_cut(declared.model),
                remedy="copy the base into the campaign, correct base.path, or name it by its commit")
            return
    place = _place(deliverable, statement, statement.said[0] if statement.said else None)
    if isinstance(found, Absent) and wanted is not None:
        yield NOT_AT_HAND.finding(f"not checked against {_cut(wanted.title)}: {found.reason}", **place,
                                  remedy=f"give it with --campaign-base-model={_cut(wanted.name or 'NAME')}=DIR")
    if not isinstance(found, Found) or declared is None:
        return
    for path, expected in declared.sha256.items():
        pointer = declared.place.pointer + pointer_to(("sha256", path))
        file = found.by_path.get(path)
        if file is None and found.inside is not None:
            yield MISSING.finding(
                f"the digest of {_cut(path)} is recorded, and the base in {shown(shortened(found.where))} has no such file",
                path=declared.place.file, pointer=pointer, observed="nothing", expected=f"sha256 {expected}",
                remedy="copy the whole base, or correct the manifest")
        elif file is None:
            yield NOT_AT_HAND.finding(
                f"{_cut(path)} of the base was not compared: {shown(shortened(found.where))} has no such file",
                path=declared.place.file,
                pointer=pointer, remedy="give the directory of the whole base with --campaign-base-model=NAME=DIR")
        else:
            try:
                digest = evidence.base_sha256(found, file)
            except OSError as error:
                yield NOT_AT_HAND.finding(
                    f"{_cut(path)} of the base was not compared: {error.strerror or error}", path=declared.place.file,
                    pointer=pointer, remedy="make it readable, and run the check again")
                continue
            if digest != expected:
                yield OTHER_CONTENT.finding(
                    f"{_cut(path)} of the base in {shown(shortened(found.where))} is not the file whose digest is recorded",
                    path=declared.place.file, pointer=pointer, observed=f"sha256 {digest}", expected=f"sha256 {expected}",
                    remedy="get the base whose digests are recorded; or correct the manifest, if the digest was recorded wrongly")


def _merge(campaign: Campaign, deliverable: Deliverable, found: Found, evidence: Evidence) -> Iterator[Finding]:
    adapter = campaign.by_id.get(deliverable.merged_from or "")
    difference: Difference | str = f"there is no deliverable {deliverable.merged_from}"
    if adapter is not None:
        try:
            difference = evidence.merged(campaign, deliverable, adapter, found)
        except OSError as error:
            difference = error.strerror or str(error)
    if isinstance(difference, str):
        yield NOT_COMPARED.finding(f"the merged model was not compared with its base: {difference}", path=deliverable.path,
                                   remedy="deliver the adapter too, and save both models as safetensors in the same type")
    elif difference.foreign:
        first = difference.foreign[0]
        yield OTHER_BASE.finding(
            f"{len(difference.foreign)} of {number(len(difference.others), 'tensor')} that the adapter leaves alone are not "
            f"those of {_cut(found.files.name)} in {shown(shortened(found.where))}", path=difference.files[first], pointer=first,
            observed="other values", expected=f"the values of {_cut(found.files.name)}",
            remedy="merge into the base that the adapter was trained on, or name the base that was used")
    elif difference.touched and not difference.changed and not difference.neutral:
        first = difference.touched[0]
        yield NOT_MERGED.finding(
            f"all of the {number(len(difference.touched), 'tensor')} that {deliverable.merged_from} changes are still the base's",
            path=difference.files[first], pointer=first, observed="the values of the base",
            expected="values changed by the adapter", remedy="merge again, and save what merge_and_unload() returns")


def _absent(campaign: Campaign, deliverable: Deliverable) -> str | None:
    return "it is not there" if campaign.target(deliverable) is None else None


CHECK = DeliverableCheck("base", "Is the base model named exactly?", check, expected=has_base, skip=_absent)
