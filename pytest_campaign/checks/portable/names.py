"""The names and links of a deliverable, as they stand in the file table."""

from __future__ import annotations

import posixpath
import re
import unicodedata
from collections.abc import Iterator

from ...campaign import Campaign, Deliverable
from ...findings import Finding, Level
from ...inventory import LINK, Entry, Inventory
from ...text import number, shown
from . import rules

_DEVICE = re.compile(r"(?:con|prn|aux|nul|com[1-9]|lpt[1-9])(?:\..*)?", re.I)  # Microsoft, "Naming Files, Paths, and Namespaces"
_REFUSED_BY_WINDOWS = re.compile(r'[<>:"|?*]')


def check(campaign: Campaign, deliverable: Deliverable) -> Iterator[Finding]:
    """Findings about names and links at, below and on the way to a deliverable."""
    inventory = campaign.inventory
    odd: dict[tuple[Level, str], list[str]] = {}
    for entry in _entries(campaign, deliverable):
        twin = inventory.twins.get(entry.path)
        if twin is not None:
            name = posixpath.basename(twin)
            yield rules.TWINS.finding(
                f"on Windows and macOS it is the same name as {shown(name)} beside it", path=entry.path,
                observed=f"{shown(posixpath.basename(entry.path))} and {shown(name)}", expected="names that differ in more",
                remedy="rename one of them, and what refers to it")
        if entry.kind == LINK and (entry.link or "").startswith("/"):
            yield from _absolute(inventory, entry)
        if (fault := _odd(posixpath.basename(entry.path))) is not None:
            odd.setdefault(fault, []).append(entry.path)
    for (level, what), found in odd.items():
        more = f" ({number(len(found) - 1, 'more name')} like it)" if len(found) > 1 else ""
        whether = "none needed on Linux and macOS; for Windows " if level is Level.NOTE else ""
        yield rules.ODD_NAME.finding(f"the name {what}{more}", level=level, path=found[0],
                                     remedy=f"{whether}rename it, and what refers to it")


def _entries(campaign: Campaign, deliverable: Deliverable) -> Iterator[Entry]:
    """What lies on the way to a deliverable, and all that it owns, with links as links."""
    by_path = campaign.inventory.by_path
    parts = deliverable.path.split("/") if deliverable.path else []
    way = ["/".join(parts[:count + 1]) for count in range(len(parts))]
    for path in way:
        if path in by_path:
            yield by_path[path]
    target = campaign.target(deliverable)
    if target is None:
        return
    folders: set[str] = set()
    for path, _ in campaign.inventory.walk(target):
        if path in way or not campaign.owns(deliverable, path):
            continue
        between = path
        while between != target and between not in folders and between not in way:
            folders.add(between)
            if between in by_path:
                yield by_path[between]
            between = posixpath.dirname(between)


def _absolute(inventory: Inventory, entry: Entry) -> Iterator[Finding]:
    target = inventory.resolve(entry.path)
    if target is None:
        return  # it leads out of the campaign or nowhere, which is asked elsewhere
    relative = posixpath.relpath(target.path or ".", posixpath.dirname(entry.path) or ".")
    yield rules.ABSOLUTE_LINK.finding(
        f"a link with an absolute target: {shown(entry.link or '')}", path=entry.path, observed=shown(entry.link or ""),
        expected=relative, remedy=f"ln -sfn {relative} {posixpath.basename(entry.path)}")


def _odd(name: str) -> tuple[Level, str] | None:
    """What is the matter with a name, and how bad that is."""
    if any("\ud800" <= c <= "\udfff" for c in name):
        return Level.WARNING, "is not UTF-8"
    if any(unicodedata.category(c) in ("Cc", "Cf") and c != "\u200d" for c in name):
        return Level.WARNING, "holds characters that cannot be seen"
    if "\\" in name:
        return Level.WARNING, "holds a backslash, which parts folders on Windows"
    if name.endswith((".", " ")) or name.startswith(" "):
        return Level.WARNING, "begins or ends with a blank, or ends with a dot"
    if _DEVICE.fullmatch(name):
        return Level.WARNING, "is that of a device on Windows"
    if _REFUSED_BY_WINDOWS.search(name):
        return Level.NOTE, "holds a character that Windows refuses, such as the colon"
    return None
