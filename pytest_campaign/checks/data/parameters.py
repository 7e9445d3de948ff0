"""Parameters: a strict file with at least one entry and no number that is not finite."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from ...campaign import Campaign, Deliverable
from ...findings import Finding
from ...inventory import Entry
from ...metric_facts import DEEPEST, SETTINGS
from ...readers import ini_text, strict_json, yaml_text
from ...readers.fields import Unreadable, leaves
from ...readers.rows import BOM
from ...readers.strict_json import NotStrict, pointer_to
from ...record_facts import suffix, torn
from ...text import shown
from ..base import Evidence
from . import rules
from .faults import found
from .records import not_opened
from .sources import is_one_file

LARGEST = 1 << 20  # bytes of a file of settings that is no JSON
LARGEST_JSON = 16 << 20
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")  # as YAML 1.1 and 1.2 write them
_DOCUMENTS = re.compile(rb"\n---(?:\s|\Z)")  # several in one file


def check(campaign: Campaign, deliverable: Deliverable, evidence: Evidence) -> Iterator[Finding]:
    """Findings about parameters."""
    alone = is_one_file(campaign, deliverable)
    files = {path: entry for path, entry in campaign.files_of(deliverable).items() if entry.size}
    read = [entry for path, entry in files.items() if suffix(path) in SETTINGS or suffix(path) == "json"]
    for entry in read:
        yield from _json(entry, evidence, alone) if suffix(entry.path) == "json" else settings(entry, evidence, alone)
    if files and not read:
        yield rules.OTHER_FORMAT.finding("no file of it is read here as parameters", path=next(iter(files)),
                                         remedy="none; JSON, YAML, TOML and INI are read")


def _json(entry: Entry, evidence: Evidence, alone: bool) -> Iterator[Finding]:
    data = _content(entry, LARGEST_JSON, evidence)
    if isinstance(data, Finding):
        yield data
        return
    try:
        value = strict_json.parse(data.removeprefix(BOM))
    except NotStrict as error:
        faults = [torn(fault, data) for fault in error.faults]
        yield from found(entry.path, faults, Counter(fault.kind for fault in faults))
    else:
        if alone and not isinstance(value, (dict, list)):
            yield _empty(entry, f"only {shown(str(value), 40)}")


def settings(entry: Entry, evidence: Evidence, alone: bool = True, numbers: bool = True) -> Iterator[Finding]:
    """Findings about one file of settings that is no JSON; with ``numbers`` also about those that are not finite."""
    data = _content(entry, LARGEST, evidence)
    if isinstance(data, Finding):
        yield data
        return
    if b"\0" in data:
        yield rules.NUL.finding(f"{data.count(0):,} NUL bytes", path=entry.path, line=data.count(b"\n", 0, data.find(0)) + 1,
                                observed=f"{data.count(0):,} NUL bytes", expected="text",
                                remedy="copy it again; if the original is like this too, write it again")
        return
    try:
        data.decode()
    except UnicodeDecodeError as error:
        yield rules.ENCODING.finding("bytes that are no UTF-8", path=entry.path, line=data.count(b"\n", 0, error.start) + 1,
                                     observed=data[error.start:error.start + 4].hex(" "), expected="UTF-8",
                                     remedy='write it with encoding="utf-8"')
        return
    kind = suffix(entry.path)
    found = _toml(entry, data) if kind == "toml" else _plain(entry, data, alone, yaml=kind in ("yaml", "yml"))
    yield from (finding for finding in found if numbers or finding.rule != rules.NON_FINITE.code)


def _toml(entry: Entry, data: bytes) -> Iterator[Finding]:
    import tomllib

    try:
        value = tomllib.loads(data.removeprefix(BOM).decode())
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        yield rules.SYNTAX.finding(f"it is no TOML: {shown(str(error) or 'nested too deeply', 200)}", path=entry.path,
                                   remedy="write it with a library")
        return
    if not value:
        yield _empty(entry, "no entry")
    for keys, leaf in leaves(value, deepest=DEEPEST):
        if isinstance(leaf, float) and not math.isfinite(leaf):
            yield _not_finite(entry, str(leaf), pointer=pointer_to(keys))


def _plain(entry: Entry, data: bytes, alone: bool, *, yaml: bool) -> Iterator[Finding]:
    try:
        fields = list(yaml_text.fields(data) if yaml else ini_text.fields(data))
    except Unreadable as error:
        yield rules.SYNTAX.finding(shown(str(error), 300), path=entry.path, remedy="write it with a library")
        return
    if alone and not any(field.keys for field in fields) and data.strip() not in (b"[]", b"{}"):
        yield _empty(entry, "no entry" if not fields else "one text")
    seen: set[tuple[str, ...]] = set()
    for field in fields if yaml else ():
        if field.keys in seen and "" not in field.keys and not _DOCUMENTS.search(data):
            yield rules.DUPLICATE_KEY.finding(
                f"the key {shown(field.keys[-1], 60)} occurs twice", path=entry.path, line=field.line,
                pointer=pointer_to(field.keys), observed="again", expected="each key once",
                remedy="give the second one another name")
            break
        seen.add(field.keys)
        if _NOT_FINITE.fullmatch(field.value):
            yield _not_finite(entry, field.value, line=field.line, pointer=pointer_to(field.keys))


def _content(entry: Entry, most: int, evidence: Evidence) -> bytes | Finding:
    """The content of a file, or why it is not read."""
    if entry.size > most:
        return rules.NOT_READ.finding(f"it has {entry.size:,} bytes", path=entry.path, observed=f"{entry.size:,} bytes",
                                      expected=f"at most {most:,}", remedy="deliver the parameters without the rest")
    try:
        return evidence.content(entry, most)
    except OSError:
        return not_opened(entry.path)


def _empty(entry: Entry, what: str) -> Finding:
    return rules.NO_ROWS.finding(f"the file holds {what}", path=entry.path, observed=what, expected="at least one parameter",
                                 remedy="run what writes it again")


def _not_finite(entry: Entry, text: str, **where: Any) -> Finding:
    return rules.NON_FINITE.finding(f"a parameter is {shown(text, 20)}", path=entry.path, observed=shown(text, 20),
                                    expected="a finite number", remedy="write what is meant: a large number, or null", **where)
