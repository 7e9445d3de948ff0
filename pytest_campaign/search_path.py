"""What lies in a checked directory, and a search path without it.

Imports nothing that could be found on a search path which still leads there.
"""

from __future__ import annotations

import os
from pathlib import Path

VARIABLES_THAT_WRITE = ("TMPDIR", "TEMP", "TMP", "PYTEST_DEBUG_TEMPROOT", "PYTHONPYCACHEPREFIX")
"""Variables of the environment that name a folder in which Python or pytest write."""


def is_inside(path: Path, folders: list[Path]) -> bool:
    """Whether a path is one of the folders or lies below one, links resolved or not."""
    forms = {Path(os.path.abspath(path)), Path(os.path.realpath(path))}
    tops = {form for folder in folders for form in (Path(os.path.abspath(folder)), Path(os.path.realpath(folder)))}
    return any(form == top or top in form.parents for form in forms for top in tops)


def without_inside(entries: list[str], folders: list[Path]) -> list[str]:
    """The entries of a search path that are absolute and do not lie in one of the folders."""
    return [entry for entry in entries if entry and os.path.isabs(entry) and not is_inside(Path(entry), folders)]
