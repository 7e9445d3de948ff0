"""What libraries say, without the places of the machine that checks: their texts go into reports that others read."""

from __future__ import annotations

import functools
import os
import re
import sys
import sysconfig
import tempfile
from collections.abc import Iterable, Mapping

# What may stand before a path in a text, and after it when it is the whole of one.
_BEFORE, _AFTER = r"(?<![\w.~/\\-])", r"(?=[/\\]|[^\w.-]|\.?$|\.\s)"


@functools.cache
def python_places() -> Mapping[str, str]:
    """Where the interpreter and its packages lie, and what a text calls that."""
    found = [*sysconfig.get_paths().values(), *(entry for entry in sys.path if entry.endswith("-packages"))]
    if sys.prefix != sys.base_prefix:
        found.append(sys.prefix)
    return dict.fromkeys(_real(found), "<python>")


@functools.cache
def private_places() -> Mapping[str, str]:
    """The home of the user, whose name it holds."""
    return dict.fromkeys(_real([os.path.expanduser("~")]), "~")


def without(text: str, places: Mapping[str, str]) -> str:
    """``text`` with each of the absolute ``places`` called by its other name, and our folders for temporary files too.

    A place that is called "" is where what the text speaks of lies: paths below it become relative.
    """
    if "/" not in text and "\\" not in text:
        return text
    text = _scratch().sub("<temporary>", text)
    for place in sorted(places, key=len, reverse=True):
        if place in text:
            text = _named(text, place, places[place])
    return text


def _named(text: str, place: str, name: str) -> str:
    if not name:
        text = re.sub(_BEFORE + re.escape(place) + "/(?=[^/])", "", text)
    return re.sub(_BEFORE + re.escape(place) + _AFTER, lambda match: name or ".", text)


def _scratch() -> re.Pattern[str]:
    folder = tempfile.gettempdir()
    folders = "|".join(re.escape(form) for form in {folder, os.path.realpath(folder)})
    return re.compile(rf"(?:{folders})/pytest-campaign-\w+(?:/tmp\w+)?")


def _real(folders: Iterable[str]) -> Iterable[str]:
    """The folders by every absolute name; never the root."""
    forms = [form.rstrip("/") for folder in folders if os.path.isabs(folder) for form in (folder, os.path.realpath(folder))]
    return dict.fromkeys(form for form in forms if form.count("/") > 1 or form == "/root")
