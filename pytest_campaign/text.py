"""How strings from the checked directory are shown, and how sizes are written."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

# Characters that print and show nothing (Default_Ignorable_Code_Point of Unicode, and the blank of Braille).
_INVISIBLE = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")
# What a CI service takes for a command when it reads a log: GitHub ``::error::`` at a line's start, blanks before it or not, and
# ``##[group]`` anywhere (actions/runner, issue 4692), Azure ``##vso[``, TeamCity ``##teamcity[``, GitLab ``section_start:1:x``.
_COMMANDS = re.compile(r"^(?P<before> *):(?=:)|#(?P<hash>#)(?=[A-Za-z]*\[)|(?P<section>section_(?:start|end)):(?=[0-9])")

_JSON_COMMANDS = re.compile(r"\x7f|##(?=[A-Za-z]*\[)|section_(?:start|end):(?=[0-9])")


def shown(text: str, limit: int = 0) -> str:
    """``text`` with everything escaped that does not print, or that a CI service would take for a command in a log.

    Not printed are control and format characters (bidirectional and zero-width ones too), blanks other than the space, and half
    surrogates. Applied twice it changes nothing more. With ``limit`` longer texts are cut.
    """
    if limit and len(text) > limit:
        text = text[: limit - 3] + "..."
    if not text.isprintable():
        text = "".join(c if c.isprintable() else _escaped(c) for c in text)
    if not text.isascii():
        text = _INVISIBLE.sub(lambda match: _escaped(match[0]), text)
    return _COMMANDS.sub(_broken, text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


def _broken(match: re.Match[str]) -> str:
    if match["hash"]:
        return "#\\x23"
    return (match["section"] or match["before"] or "") + "\\x3a"


def shown_json(text: str) -> str:
    """A JSON text in which what `shown` would escape stands as escapes of JSON: it means the same, and is safe to print.

    Control characters and the line ends of strings are escaped in it already, as every writer of JSON does.
    """
    if not text.isascii():
        text = "".join(c if c.isprintable() or c == "\n" else _json_escape(c) for c in text)
        text = _INVISIBLE.sub(lambda match: _json_escape(match[0]), text)
    return _JSON_COMMANDS.sub(lambda match: match[0][:-1] + _json_escape(match[0][-1]), text)


def _json_escape(character: str) -> str:
    return f"\\u{ord(character):04x}" if character.isascii() else json.dumps(character)[1:-1]


def shown_id(path: str) -> str:
    """A path for a node id: also without ``::`` and ``[``, which pytest would take for its own."""
    return shown(path).replace("::", "\\x3a\\x3a").replace("[", "\\x5b").replace("]", "\\x5d")


def size(count: int) -> str:
    """A number of bytes as people read it: 512 B, 31.2 kB, 12.4 GB."""
    if count < 1000:
        return f"{count} B"
    value = float(count)
    for unit in ("kB", "MB", "GB", "TB"):
        value /= 1000
        if value < 999.95 or unit == "TB":
            break
    return f"{value:.1f} {unit}"


def number(count: int, one: str, many: str | None = None) -> str:
    """``1 file``, ``2 files``."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def listed(names: Iterable[str], most: int = 10) -> str:
    """The first of some names, and how many there are more."""
    names = list(names)
    return ", ".join(names[:most]) + (f" and {len(names) - most:,} more" if len(names) > most else "")
