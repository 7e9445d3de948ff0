"""The path grammar of every document: relative POSIX paths that stay inside the campaign."""

from __future__ import annotations

import posixpath
import unicodedata
from collections.abc import Container, Iterator

LONGEST = 1024


def fault(path: str) -> str | None:
    """Why ``path`` is no path that a document may name, or None.

    Allowed are relative POSIX paths without ``..``; ``.``, ``./x`` and a trailing slash are fine.
    """
    if not path:
        return "it is empty"
    if len(path.encode("utf-8", "surrogatepass")) > LONGEST:
        return f"it is longer than {LONGEST} bytes"
    if "\\" in path:
        return "it contains a backslash; write it with /"
    if any(unicodedata.category(c) in ("Cc", "Cs") for c in path):
        return "it contains a control character or half a surrogate pair"
    if path.startswith("/"):
        return "it is absolute"
    if path.startswith("~"):
        return "it begins with ~"
    if len(path) > 1 and path[1] == ":" and path[0].isalpha():
        return "it begins with a drive letter"
    if "://" in path:
        return "it is an address"
    if ".." in path.split("/"):
        return "it contains .."
    return None


def normal(path: str) -> str:
    """The one spelling of a path that `fault` accepts; "" is the campaign directory itself."""
    path = posixpath.normpath(path)
    return "" if path == "." else path


def inside(path: str, folder: str) -> bool:
    """Whether ``path`` is ``folder`` or lies below it (both normal)."""
    return folder == "" or path == folder or path.startswith(folder + "/")


def join(folder: str, name: str) -> str:
    """A name in a folder, "" being the campaign directory."""
    return f"{folder}/{name}" if folder else name


def above(path: str) -> Iterator[str]:
    """The folders around a path, innermost first, the campaign directory left out."""
    while path := posixpath.dirname(path):
        yield path


def around(path: str, places: Container[str]) -> str | None:
    """The innermost of the places at or around ``path``, in as many steps as the path has parts (all normal)."""
    while path and path not in places:
        path = posixpath.dirname(path)
    return path if path in places else None


def within(path: str, folders: Container[str]) -> bool:
    """Whether ``path`` is one of the folders or lies below one (all normal)."""
    return around(path, folders) is not None


def folded(name: str) -> str:
    """The form in which two names are one where neither case nor Unicode's normal form makes a difference."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", name).casefold())
