"""The options of a session as typed values: the command line, else the ini file, else a default."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from . import base_lookup, baseline, loaders
from .base_lookup import Given
from .campaign import Asked, Earlier, Gate
from .formats.base import Depth
from .loaders import Loader
from .reload.confinement import IsolationLevel
from .reload.limits import default_limits
from .reload.protocol import Limits

T = TypeVar("T")
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}


@dataclasses.dataclass(frozen=True)
class Loaders:
    """The reviewer's own loaders, and what a message calls the place where they were given. ``typed``: on the command line."""

    given: tuple[Loader, ...] = ()
    source: str = ""
    typed: bool = False


@dataclasses.dataclass(frozen=True)
class Settings:
    """What was asked of this session. ``plan`` and ``reports`` are absolute; ``base_models`` are the places that were given.

    ``baseline`` are the campaigns of an earlier report; empty when none was given. ``loaders`` are the reviewer's own.
    ``isolation`` is the least that a reload must have.
    """

    plan: Path | None
    asked: Asked
    limits: Limits
    reports: tuple[Path, ...]
    base_models: tuple[Given, ...]
    baseline: tuple[Earlier, ...] = ()
    loaders: Loaders = Loaders()
    isolation: IsolationLevel = IsolationLevel.BASIC


def parse_size(text: str) -> int:
    """Bytes from a text such as ``8GiB``, ``500MB`` or ``1000000``; ValueError for anything else."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([kmgt]i?)?b?", text.strip().lower())
    if match is None or not float(match[1]):
        raise ValueError("a size is a number with an optional unit: 8GiB, 500MB, 1000000")
    size = float(match[1]) * _UNITS[match[2] or ""]
    if size >= 2**62:
        raise ValueError("no machine has so much memory")
    return int(size)


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 < value < 1e9:
        raise ValueError("a positive number of seconds is wanted")
    return value


def _threads(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,3}", text) or not int(text):
        raise ValueError("a number of threads from 1 to 999 is wanted")
    return int(text)


def _gate(text: str) -> Gate:
    if text not in (Gate.ESSENTIAL, Gate.ALL):
        raise ValueError(f"{text!r} is no gate; known are {Gate.ESSENTIAL} and {Gate.ALL}")
    return Gate(text)


def _file(base: Path) -> Callable[[str], Path]:
    def parse(text: str) -> Path:
        path = Path(os.path.abspath(base / text))
        if not path.is_file():
            raise ValueError("there is no such file")
        return path

    return parse


def _report(base: Path) -> Callable[[str], tuple[Earlier, ...]]:
    def parse(text: str) -> tuple[Earlier, ...]:
        path = _file(base)(text)
        try:
            return baseline.read(path.read_bytes(), path.name)
        except OSError as error:
            raise ValueError(f"{path} cannot be read: {error.strerror}") from None

    return parse


def read(config: pytest.Config, workers: int) -> Settings:
    """The settings of a session that reloads in ``workers`` processes at once; UsageError names a wrong option."""
    cwd = config.invocation_params.dir
    limits = default_limits(workers)
    inipath = config.inipath
    beside = inipath.parent if inipath else cwd
    plan = _setting(config, "plan", _file(cwd), _file(beside))
    memory = _setting(config, "memory", parse_size)
    return Settings(
        plan=plan,
        asked=Asked(_setting(config, "max_depth", Depth.parse), _setting(config, "require_depth", Depth.parse),
                    _setting(config, "gate", _gate) or Gate.DELIVERED),
        limits=Limits(timeout=_setting(config, "timeout", _seconds) or limits.timeout,
                      memory=memory or limits.memory, threads=_setting(config, "jobs", _threads) or limits.threads,
                      asked=memory is not None),
        reports=tuple(Path(os.path.abspath(cwd / file)) for file in config.option.campaign_report),
        base_models=base_models(config),
        baseline=_setting(config, "baseline", _report(cwd), _report(beside)) or (),
        loaders=_loaders(config),
        isolation=_setting(config, "isolation", IsolationLevel.parse) or IsolationLevel.BASIC,
    )


def base_models(config: pytest.Config) -> tuple[Given, ...]:
    """The places of base models that were given on the command line, else in the ini file; UsageError for one that is none."""
    option, key = config.option.campaign_base_model, "campaign_base_model"
    inipath = config.inipath
    base = config.invocation_params.dir if option or inipath is None else inipath.parent
    source = base_lookup.OPTION if option else f"{key} in {inipath}"
    try:
        return tuple(base_lookup.parse(text, str(base)) for text in option or config.getini(key) or ())
    except ValueError as error:
        raise pytest.UsageError(f"{source}: {error}") from None


def _loaders(config: pytest.Config) -> Loaders:
    """The loaders that were given on the command line, else in the ini file; UsageError for one of another form."""
    option, inipath = config.option.campaign_loader, config.inipath
    base = config.invocation_params.dir if option or inipath is None else inipath.parent
    source = "--campaign-loader" if option else f"campaign_loader in {inipath}"
    try:
        given = tuple(loaders.parse(text, str(base)) for text in option or config.getini("campaign_loader") or ())
    except ValueError as error:
        raise pytest.UsageError(f"{source}: {error}") from None
    return Loaders(given, source, bool(option))


def _setting(config: pytest.Config, name: str, parse: Callable[[str], T],
             parse_ini: Callable[[str], T] | None = None) -> T | None:
    """The value of one option, else of its ini key; None where neither is given."""
    option = getattr(config.option, f"campaign_{name}")
    source = f"--campaign-{name.replace('_', '-')}"
    try:
        if option is not None:
            return parse(option)
        source = f"the setting campaign_{name}"
        value = config.getini(f"campaign_{name}")
        return (parse_ini or parse)(str(value)) if value not in (None, "") else None
    except (ValueError, TypeError, pytest.UsageError) as error:  # the last two: a TOML value of another type
        raise pytest.UsageError(f"{source}: {error}") from None
