"""The JSON Schemas of the documents and of the report, from a checkout, an editable install or a wheel."""

from __future__ import annotations

import datetime
import functools
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import paths

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator

_SUFFIX = ".schema.json"


def folder() -> Path:
    """Where the schema files lie.

    A wheel carries them inside the package, a checkout and an editable install beside it. Only a folder beside
    our own pyproject.toml counts, so that a stranger's ``schemas`` in site-packages is never taken.
    """
    package = Path(__file__).resolve().parent
    inside = package / "schemas"
    if not inside.is_dir() and (package.parent / "pyproject.toml").is_file():
        return package.parent / "schemas"
    return inside


def names() -> list[str]:
    """The schemas that there are, such as ``manifest-1``."""
    return sorted(file.name.removesuffix(_SUFFIX) for file in folder().glob(f"*{_SUFFIX}"))


@functools.cache
def schema(name: str) -> dict[str, Any]:
    """One schema, not to be changed; FileNotFoundError when there is none of that name."""
    found: dict[str, Any] = json.loads((folder() / f"{name}{_SUFFIX}").read_text("utf-8"))
    return found


@functools.cache
def validator(name: str) -> Draft202012Validator:
    """A validator of one schema that checks the formats ``date-time`` and ``campaign-path``.

    Its registry is closed: without that, jsonschema would fetch a ``$ref`` to another document from the network
    or from the file system.
    """
    import jsonschema
    import referencing

    formats = jsonschema.FormatChecker(formats=())
    formats.checks("date-time", raises=ValueError)(_is_time)
    formats.checks("campaign-path", raises=ValueError)(_is_path)
    return jsonschema.Draft202012Validator(schema(name), registry=referencing.Registry(), format_checker=formats)


def _is_time(value: object) -> bool:
    if isinstance(value, str):
        datetime.datetime.fromisoformat(value)
    return True


def _is_path(value: object) -> bool:
    if isinstance(value, str) and (fault := paths.fault(value)):
        raise ValueError(fault)
    return True
