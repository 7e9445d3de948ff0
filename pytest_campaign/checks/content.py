"""Is the deliverable there, not empty for its kind, no placeholder, and what its name says?

This check may touch the file table and the first kilobyte of a file, nothing else: it costs nothing and comes
before every reload. (Pickles beside the checkpoints are the exception: a fresh process looks through them.) A new
rule is a `Rule` at the top and a few lines in one of the functions below.
"""

from __future__ import annotations

import errno
import posixpath
import re
from collections.abc import Iterator, Sequence

from ..campaign import WEIGHTS, Campaign, Deliverable
from ..file_names import in_tool_folder, is_checkpoint, is_records, may_be_weights, may_lack_tensors, series
from ..findings import Finding, Level, Rule
from ..formats.base import ProblemKind
from ..formats.pickle_globals import keeps_code
from ..inventory import FILE, LINK, SPECIAL, UNKNOWN, Changed, Entry
from ..text import number, size
from .base import DeliverableCheck, Evidence

MISSING = Rule("content.missing", Level.ERROR, """
    The manifest lists a deliverable whose path is not there.

    One that was only useful or exploratory is shown as not delivered and rejects nothing.

    Usual causes: the copy from the rented machine was interrupted; the last save was only half done and lies in a
    staging folder (`tmp-checkpoint-500`); a link was copied and its target was not.

    Fix: copy the file while the machine is still there, or make it again.
    """, at_source=True)
DEAD_LINK = Rule("content.dead-link", Level.ERROR, """
    A link in the deliverable leads to nothing in the campaign directory.

    The copy holds the address of a file instead of the file. Whatever a link leads to outside the directory stays
    behind on the rented machine.

    Usual causes: a copy without following links (`cp -a`, `rsync -a`) from a Hugging Face cache or from a folder
    that links to a shared disk.

    Fix: copy again with links followed (`cp -L`, `rsync -L`).
    """, at_source=True)
EMPTY = Rule("content.empty", Level.ERROR, """
    A file that has content by its kind has no bytes, or a folder holds no file.

    Empty is a property of the kind of file: a marker (`DONE`), an `__init__.py` or the log of a job may be empty;
    weights, metrics and predictions may not.

    Usual causes: the disk was full; the process was killed between opening and writing.

    Fix: write or copy the file again; look at the free space first.
    """, at_source=True)
NO_RECORDS = Rule("content.no-records", Level.ERROR, """
    A file of records holds none: `{}`, `[]`, or a table that consists of its header.

    The program that wrote it ended with exit status 0 and had nothing to say, which is no result.

    Usual causes: an evaluation over an empty split; a filter that removed every row.

    Fix: run the evaluation again and look at its input.
    """, at_source=True)
PLACEHOLDER = Rule("content.placeholder", Level.ERROR, """
    The file is something else that was saved under its name.

    A Git LFS pointer is the address of the file, not the file. A web page is what a server says to somebody who is
    not signed in. Nothing but NUL bytes is what a file system leaves of a file whose data never reached the disk.

    Usual causes: `git clone` without `git lfs pull`; `wget` of a page that needs a token; a crash during the save.

    Fix: fetch the real file.
    """)
OTHER_CONTENT = Rule("content.not-what-its-name-says", Level.ERROR, """
    The name of a file promises a format that its first bytes contradict.

    A loader that goes by the name fails, or reads it as something else.

    Usual causes: a renamed file; a damaged first block.

    Fix: copy the file again; if it was renamed, give it its own name back.
    """)
KIND = Rule("content.other-kind", Level.ERROR, """
    The manifest calls a file one thing and it is another: weights that are listed as metrics, for instance.

    Whoever looks for the metrics finds none. (A data set may well be stored as tensors.)

    Usual causes: two paths that were exchanged in the manifest.

    Fix: correct `kind`, or `path`.
    """)
SPECIAL_FILE = Rule("content.special-file", Level.ERROR, """
    A part of the deliverable is no regular file: a named pipe, a socket or a device.

    It has no content that could be delivered, and opening it can hang.

    Fix: remove it from the deliverable.
    """)
UNLIKE_SIBLINGS = Rule("content.unlike-siblings", Level.ERROR, """
    A weights file is much smaller than the same file in the other checkpoints of the run.

    The steps of one training hold the same tensors, so their files have the same size but for a few bytes. One of 443
    bytes among those of 13 MB holds no weights. Where the sizes only differ it is a warning: tensors may be missing.

    Usual causes: a save that was interrupted; a gather of sharded parameters that ran on one process only.

    Fix: copy or write the file again; else take the checkpoint before.
    """, at_source=True)
CHANGED = Rule("content.changed", Level.ERROR, """
    A file changed while it was checked.

    What was checked is then not what lies there now.

    Usual causes: the training or the copy is still running.

    Fix: wait until everything is written, and run the check again.
    """)
UNREADABLE = Rule("content.unreadable", Level.WARNING, """
    A file could not be read by the user who runs the check.

    That says nothing about the file, nor about one that would lie in a folder that cannot be listed. safetensors 0.8
    writes files with mode 0600 whatever the umask, so that another user cannot read them.

    Fix: change the permission, or run the check as the owner.
    """, unanswered=True)
RUNS_CODE = Rule("content.runs-code", Level.ERROR, """
    A file asks for functions that run code when it is loaded.

    That is a pickle, whatever its name says, or an array of objects, which is a pickle too. It was not loaded, only
    looked through. Where it seems to hold nothing worse than functions of the project, kept with their code by
    cloudpickle or dill, it is a warning.

    Usual causes: an object with a function in it that was pickled as it is; an attack.

    Fix: do not load it; deliver data in a format that holds data only.
    """)
DAMAGED = Rule("content.damaged", Level.ERROR, """
    A file that is no checkpoint by its kind is cut or damaged, as its own structure tells: an array, a pickle, HDF5.

    Its name says what it is to be, and its beginning agrees.

    Usual causes: the copy was interrupted; the disk was full.

    Fix: copy or write the file again.
    """, at_source=True)

_MODEL_WEIGHTS = re.compile(r"(model|adapter_model|pytorch_model)[^/]*\.(safetensors|bin)")
_MUCH = 10  # times smaller
_MOST_SIBLINGS = 5000  # more are no checkpoints
_SAME = 0.01  # share by which the files of equal tensors may differ: metadata, and the pickle of a torch file
_PAGE = re.compile(rb"\s*(<!doctype\s+html|<html|<\?xml[^>]*>\s*<(error|html))", re.I)
_PERMISSION = "change its permission, or run the check as its owner"
_MAY_BE_EMPTY = frozenset({"log", "other"})
_OF_RECORDS = frozenset({"predictions", "metrics", "parameters", "dataset"})
_NEVER_TENSORS = frozenset({"predictions", "metrics", "parameters", "log", "instructions"})
_OF_ARRAYS = re.compile(r"\.(npy|npz|h5|hdf5|pkl|pickle|joblib|zip)$", re.I)
_BROKEN = frozenset({ProblemKind.TRUNCATED, ProblemKind.DAMAGED, ProblemKind.TRAILING, ProblemKind.CHECKSUM})
_SIGNATURES = {  # of formats whose name nobody uses for something else
    "safetensors": ("a length and a JSON header", re.compile(rb".{3}[\0-\5]\0{4}\s*\{", re.S)),  # at most 100 MB
    "gguf": ("the bytes GGUF", re.compile(rb"GGUF")),
    "npy": ("the bytes \\x93NUMPY", re.compile(rb"\x93NUMPY")),
    "npz": ("a zip archive", re.compile(rb"PK\x03\x04|PK\x05\x06")),
    "parquet": ("the bytes PAR1", re.compile(rb"PAR1|PARE")),
}
# How a file of torch can begin, which is no name for anything else: a zip archive, a pickle, either of them compressed.
_OF_TORCH = re.compile(rb"PK|\x80[\x01-\x05]|[](}c]|\x1f\x8b|BZh|\xfd7zXZ|\x28\xb5\x2f\xfd|\x04\x22\x4d\x18")
# What never holds weights by itself, whatever its name. A tar archive may, under names that are not those of one file.
_OTHER_THINGS = (
    ("a 7-Zip archive", re.compile(rb"7z\xbc\xaf\x27\x1c")), ("a RAR archive", re.compile(rb"Rar!\x1a\x07")),
    ("a program", re.compile(rb"\x7fELF|MZ.{58,512}PE\0\0|[\xce\xcf]\xfa\xed\xfe", re.S)),
    ("an image", re.compile(rb"\x89PNG\r\n\x1a\n|GIF8[79]a|\xff\xd8\xff[\xdb\xe0\xe1\xee]")),
    ("a PDF document", re.compile(rb"%PDF-")), ("a script", re.compile(rb"#!\s*/")),
)
_TAR = re.compile(rb".{257}ustar", re.S)


def _absent(campaign: Campaign, deliverable: Deliverable) -> Finding:
    link = next((e for e in campaign.inventory.entries if e.kind == LINK and deliverable.path.startswith(e.path)
                 and deliverable.path[len(e.path):][:1] in ("", "/")), None)
    why = f": {link.path} is a link to {link.link}, which is not in the directory" if link else ""
    name = deliverable.path.rpartition("/")[2]
    near = next((e.path for e in campaign.inventory.entries if e.path.rpartition("/")[2] in (f"tmp-{name}", f"{name}.tmp")), None)
    remedy = f"the save was not finished ({near}); repeat it or take the checkpoint before" if near else \
        "copy it while the machine is still there, or correct the path"
    level = Level.ERROR if campaign.gates(campaign.priority(deliverable), missing=True) else Level.NOTE
    listed = "the manifest lists it and it is not there" if deliverable.place is not None else "it is not there"
    return MISSING.finding(f"{listed}{why}", level=level, path=deliverable.path, remedy=remedy,
                           observed="nothing", expected=f"{deliverable.id} ({deliverable.kind})")


def _may_be_empty(deliverable: Deliverable, path: str, alone: bool) -> bool:
    """Alone, the deliverable's kind decides; in a folder, the name of the file."""
    if alone:
        return deliverable.kind in _MAY_BE_EMPTY and not may_be_weights(path)
    return not (may_be_weights(path) or (is_records(path) and deliverable.kind not in _MAY_BE_EMPTY))


def _without_records(deliverable: Deliverable, head: bytes, path: str, size: int) -> str | None:
    """What a short file of records consists of when it holds no record."""
    text = head.removeprefix(b"\xef\xbb\xbf").strip()
    if not text:
        return "only blanks, as far as it was looked at"
    if size > len(head):
        return None
    if deliverable.kind == "parameters" and text == b"[]":
        return None  # Hydra's overrides.yaml of a run without any
    if path.endswith((".csv", ".tsv")):
        return "only a header" if text.count(b"\n") == 0 and not re.search(rb"(^|[,;\t])\"?-?\.?[0-9]", text) else None
    return repr(text.decode("ascii")) if re.fullmatch(rb"\{\s*\}|\[\s*\]|null|---", text) else None


def says_no_records(deliverable: Deliverable, entry: Entry, evidence: Evidence) -> bool:
    """Whether this check already says that a file of records holds none; the check of the records need not say it again."""
    alone = deliverable.kind in _OF_RECORDS and entry.size > 0
    return alone and _without_records(deliverable, evidence.head(entry), entry.path, entry.size) is not None


def _never_starts_with_zeros(deliverable: Deliverable, path: str) -> bool:
    """Outside checkpoints a `.bin` may be raw data, zeros included."""
    if path.endswith(".bin") and deliverable.kind not in WEIGHTS:
        return False
    return may_be_weights(path) or is_records(path)


def _first_bytes(deliverable: Deliverable, path: str, entry: Entry, head: bytes, alone: bool) -> Iterator[Finding]:
    if head.startswith(b"version https://git-lfs"):
        yield PLACEHOLDER.finding(
            "a Git LFS pointer, not the file itself", path=path, remedy="run git lfs pull, or fetch the real file",
            observed=f"{entry.size} bytes that begin with 'version https://git-lfs'")
    elif (may_be_weights(path) or is_records(path)) and _PAGE.match(head):
        yield PLACEHOLDER.finding(
            "a web page or an error message of a server, saved under the name of the file", path=path,
            observed=repr(head[:40].decode("ascii", "replace")), remedy="fetch the real file (with the token that it needs)")
    elif _never_starts_with_zeros(deliverable, path) and not head.strip(b"\0"):
        yield PLACEHOLDER.finding(f"it begins with {len(head)} NUL bytes: its data never reached the disk", path=path,
                                  observed=f"{len(head)} NUL bytes", remedy="write or copy the file again")
    elif (signature := _SIGNATURES.get(path.rpartition(".")[2].lower())) and not signature[1].match(head):
        yield OTHER_CONTENT.finding(f"the name says {path.rpartition('.')[2]}, the content does not", path=path,
                                    observed=f"first bytes {head[:8].hex(' ')}", expected=signature[0],
                                    remedy="copy the file again, or give it the name of what it is")
    elif may_be_weights(path) and (other := _other_thing(path, head)) is not None:
        yield OTHER_CONTENT.finding(f"the name is one of weights, the content is {other}", path=path,
                                    observed=f"first bytes {head[:8].hex(' ')}", expected="a checkpoint",
                                    remedy="copy the file again, or give it the name of what it is")
    elif alone and deliverable.kind in _OF_RECORDS and (what := _without_records(deliverable, head, path, entry.size)):
        yield NO_RECORDS.finding(f"{deliverable.kind} without a record: the file holds {what}", path=path, observed=what,
                                 expected="at least one record", remedy="run what writes it again, and look at its input")


def _other_thing(path: str, head: bytes) -> str | None:
    """What a file is that has the name of weights, when it is clearly something else."""
    if is_checkpoint(path) and _TAR.match(head):
        return "a tar archive"
    if path.lower().endswith((".pt", ".pth")) and not _OF_TORCH.match(head):
        return "nothing that torch writes"
    return next((what for what, signature in _OTHER_THINGS if signature.match(head)), None)


def _file(deliverable: Deliverable, path: str, entry: Entry, evidence: Evidence, alone: bool) -> Iterator[Finding]:
    if entry.size == 0:
        if not _may_be_empty(deliverable, path, alone):
            yield EMPTY.finding("the file has no bytes", path=path, observed="0 bytes", expected="content",
                                remedy="write or copy the file again; look at the free space first")
        return
    try:
        head = evidence.head(entry)
    except Changed as error:
        yield CHANGED.finding(str(error), path=path, remedy="wait until everything is written, and run the check again")
    except OSError as error:
        if error.errno == errno.EFBIG:
            yield PLACEHOLDER.finding(f"its data never reached the disk: {error.strerror}", path=path, observed=error.strerror,
                                      remedy="write or copy the file again")
        else:
            yield UNREADABLE.finding(f"the file cannot be read: {error.strerror or error}", path=path, remedy=_PERMISSION)
    else:
        yield from _first_bytes(deliverable, path, entry, head, alone)


def _siblings(campaign: Campaign, path: str) -> Sequence[Entry]:
    """The same file at the other steps of a training: in ``checkpoint-1000`` beside ``checkpoint-500``, or ``epoch_2.pt``."""
    place = series(path)
    if place is None or len(campaign.inventory.series.get(place[0], ())) > _MOST_SIBLINGS:
        return ()
    return [entry for entry in campaign.inventory.series.get(place[0], ()) if entry.path != path]


def _unlike(campaign: Campaign, path: str, entry: Entry) -> Iterator[Finding]:
    """A finding when a file of model weights has another size than all of its siblings."""
    name = posixpath.basename(path)
    if not (_MODEL_WEIGHTS.fullmatch(name) or (is_checkpoint(name) and not may_lack_tensors(name))) or not entry.size:
        return
    others = sorted(sibling.size for sibling in _siblings(campaign, path))
    if not others:
        return
    smallest, largest = others[0], others[-1]
    many = entry.size * _MUCH < smallest
    if many or (len(others) > 1 and largest - smallest <= largest * _SAME and entry.size < smallest * (1 - _SAME)):
        yield UNLIKE_SIBLINGS.finding(
            f"{size(entry.size)}, and the same file of {number(len(others), 'other checkpoint')} of the run has {size(smallest)}",
            level=None if many else Level.WARNING, path=path, observed=f"{entry.size:,} bytes",
            expected=f"about {smallest:,} bytes", remedy="copy or write it again; else take the checkpoint before")


def _is_said_elsewhere(campaign: Campaign, deliverable: Deliverable, path: str, entry: Entry) -> bool:
    """Whether something is only seen again here, through a link to a folder of the same deliverable."""
    return path != entry.path and entry.kind == LINK and campaign.owns(deliverable, entry.path)


def check(campaign: Campaign, deliverable: Deliverable, evidence: Evidence) -> Iterator[Finding]:
    """Findings about one deliverable's files, from their sizes and first bytes."""
    target = campaign.target(deliverable)
    if target is None:
        gap = campaign.unseen(deliverable)
        yield _absent(campaign, deliverable) if gap is None else UNREADABLE.finding(
            f"nobody can say whether it is there: {gap}", path=deliverable.path, remedy=_PERMISSION)
        return
    top = campaign.inventory.resolve(target)
    alone = top is not None and top.kind == FILE
    if top is not None and top.problem:
        yield UNREADABLE.finding(f"it cannot be looked at: {top.problem}", path=deliverable.path, remedy=_PERMISSION)
        return
    for path, entry in campaign.inventory.walk(target):
        if not campaign.owns(deliverable, path) or _is_said_elsewhere(campaign, deliverable, path, entry):
            continue
        if entry.kind == SPECIAL:
            yield SPECIAL_FILE.finding("it is no regular file but a pipe, a socket or a device", path=path, remedy="remove it")
        elif entry.kind == LINK:
            of_tool = in_tool_folder(path)
            yield DEAD_LINK.finding(
                f"it is a link to {entry.link}, which is not in the directory", path=path, observed=entry.link,
                level=Level.NOTE if of_tool else None, expected="a file in the campaign",
                remedy=("none, if only the tool needs it; else " if of_tool else "") +
                "copy it again with links followed (cp -L, rsync -L)")
        elif entry.kind == UNKNOWN or entry.problem:
            yield UNREADABLE.finding(f"it cannot be looked at: {entry.problem}", path=path, remedy=_PERMISSION)
    files = campaign.files_of(deliverable)
    if top is not None and top.kind == SPECIAL:
        return
    if not alone and not any(entry.size or _may_be_empty(deliverable, path, alone=True) for path, entry in files.items()):
        yield EMPTY.finding(f"the folder holds {'no file' if not files else 'only empty files'}", path=deliverable.path,
                            observed=f"{len(files)} files", expected="content", remedy="copy the folder again, or make it again")
        return
    for path, entry in files.items():
        yield from _file(deliverable, path, entry, evidence, alone)
        yield from _unlike(campaign, path, entry)
    yield from _running(campaign, deliverable, evidence)
    if alone and deliverable.kind in _NEVER_TENSORS and (units := campaign.units_of(deliverable)):
        yield KIND.finding(
            f"the manifest calls it {deliverable.kind}, and it is a checkpoint ({units[0].format})", path=deliverable.path,
            observed=units[0].format, expected=deliverable.kind, remedy="correct kind or path")


def _running(campaign: Campaign, deliverable: Deliverable, evidence: Evidence) -> Iterator[Finding]:
    """Findings about files that are no checkpoint of the deliverable, and whose loading runs code."""
    units = campaign.left_out(deliverable)
    if not units:
        return
    answer = evidence.look_through(campaign, deliverable)
    for unit, reading, death in zip(units, answer.readings, answer.deaths, strict=True):
        if death is not None:
            yield UNREADABLE.finding(f"it could not be looked through: {death.detail}", path=unit.path,
                                     remedy="run the check again, with more time or memory")
        for problem in reading.problems if reading is not None else ():
            if problem.kind in _BROKEN and _OF_ARRAYS.search(problem.path):
                yield DAMAGED.finding(
                    f"{problem.observed}; expected: {problem.expected}", path=problem.path, pointer=problem.where or None,
                    observed=problem.observed, expected=problem.expected, remedy="copy or write the file again")
            if problem.kind is ProblemKind.UNSAFE_GLOBAL:
                yield RUNS_CODE.finding(
                    f"loading it runs code: it asks for {problem.observed}", path=problem.path, pointer=problem.where or None,
                    level=Level.WARNING if keeps_code(problem.where) else None, observed=problem.observed,
                    expected=problem.expected, remedy="do not load it; deliver data in a format that holds data only")


def no_path(campaign: Campaign, deliverable: Deliverable) -> str | None:
    """Why there is nothing to look for: `manifest.path` says what is wrong with the path."""
    return None if deliverable.usable else "the manifest gives it a path that leads nowhere"


CHECK = DeliverableCheck("content", "Is it there, with the content that its kind and its name promise?", check, skip=no_path)
