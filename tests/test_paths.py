"""Whether a path lies in one of many folders is asked in two ways that must agree."""

from __future__ import annotations

import pytest

from pytest_campaign import paths

PLACES = ["", "a", "ab", "a/b", "a/bc", "a/b/c", "b"]


@pytest.mark.parametrize("path", [*PLACES, "a/b/c/d.pt", "c.pt"])
@pytest.mark.parametrize("folders", [(), ("",), ("a",), ("ab", "a/b"), ("a/b/c", "b"), tuple(PLACES)])
def test_within_some_folder(path: str, folders: tuple[str, ...]) -> None:
    assert paths.within(path, frozenset(folders)) is any(paths.inside(path, folder) for folder in folders)
