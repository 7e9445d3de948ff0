"""The parameters of runs as flat names with values, and in which of them two runs differ."""

from __future__ import annotations

import dataclasses
import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from .readers import ini_text, yaml_text
from .readers.fields import Unreadable, leaves

MOST_BYTES = 1 << 20
_MOST_NAMES = 20_000
_MOST_SHOWN = 200
_LONGEST = 200
# What differs between any two runs and says nothing about their configuration.
_CIRCUMSTANCE = re.compile(
    r"(^|[._-])(dir|path|file|folder|cwd|root|name|id|uuid|time|date|timestamp|started|finished|host|hostname|port|user|url)$",
    re.IGNORECASE)


@dataclasses.dataclass(frozen=True)
class Parameters:
    """The parameters of one run: the file, its values by their names, and why it could not be read."""

    path: str
    values: Mapping[str, str]
    fault: str | None = None


class Difference(NamedTuple):
    """One parameter that two runs have with different values; None where a run has no such parameter."""

    name: str
    control: str | None
    variant: str | None

    @property
    def matters(self) -> bool:
        """Whether it may be what was varied: neither a path nor a name nor a time."""
        return _CIRCUMSTANCE.search(self.name) is None


def read(path: str, data: bytes) -> Mapping[str, str]:
    """The parameters in a file, by their names joined with dots; the suffix of ``path`` says how it is written.

    Raises `Unreadable`.
    """
    if len(data) > MOST_BYTES:
        raise Unreadable(f"it has more than {MOST_BYTES:,} bytes")
    suffix = path.lower().rpartition(".")[2]
    if suffix in ("yaml", "yml"):
        pairs: Iterator[tuple[str, str]] = ((".".join(field.keys), field.value) for field in yaml_text.fields(data))
    elif suffix in ("ini", "cfg"):
        pairs = ((".".join(field.keys), field.value) for field in ini_text.fields(data))
    else:
        pairs = ((".".join(keys), value if isinstance(value, str) else json.dumps(value, default=str))
                 for keys, value in leaves(_parsed(data, suffix)))
    found: dict[str, str] = {}
    for name, value in pairs:
        found[name] = value
        if len(found) > _MOST_NAMES:
            raise Unreadable(f"it has more than {_MOST_NAMES:,} parameters")
    return found


def _parsed(data: bytes, suffix: str) -> Any:
    try:
        text = data.decode("utf-8-sig")
        return tomllib.loads(text) if suffix == "toml" else json.loads(text, parse_int=str, parse_float=str)
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"it is no {'TOML' if suffix == 'toml' else 'JSON'}: {error}") from None


def differences(control: Mapping[str, str], variant: Mapping[str, str]) -> Sequence[Difference]:
    """Every parameter whose value differs, in the order of the names. Numbers are compared as numbers: 1e-4 is 0.0001."""
    return [Difference(name, control.get(name), variant.get(name)) for name in sorted(control.keys() | variant.keys())
            if _plain(control.get(name)) != _plain(variant.get(name))]


def varied(runs: Mapping[str, Parameters], control: str | None) -> Mapping[str, Mapping[str, str | None]]:
    """For each run the values of the parameters in which some run differs from the ``control``, or from the first run."""
    readable = {id: run.values for id, run in runs.items() if run.fault is None}
    first = readable.get(control or "", next(iter(readable.values()), {}))
    names = sorted({difference.name for values in readable.values() for difference in differences(first, values)})[:_MOST_SHOWN]
    return {id: {name[:_LONGEST]: _cut(values.get(name)) for name in names} for id, values in readable.items()}


def _cut(value: str | None) -> str | None:
    return None if value is None else value[:_LONGEST]


def _plain(value: str | None) -> str | float | None:
    if value is None:
        return None
    try:
        number = float(value)
    except ValueError:
        return value.strip()
    return value.strip() if number != number else number
