"""How strings from the checked directory are shown, and how sizes are written."""

from __future__ import annotations

from collections.abc import Iterable


def shown(text: str, limit: int = 0) -> str:
    """``text`` with everything escaped that does not print: control and format characters, half surrogates.

    Applied twice it changes nothing more. With ``limit`` longer texts are cut.
    """
    if limit and len(text) > limit:
        text = text[: limit - 3] + "..."
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode("ascii") for c in text)


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
