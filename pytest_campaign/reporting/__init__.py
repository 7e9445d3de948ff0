"""Reports: each renders the one record and decides nothing.

Every module here that defines ``REPORT`` is a form that ``--campaign-report`` can write, chosen by the suffix of the
file; nothing has to be registered.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ..record import Record
from .base import Report


@functools.cache
def reports() -> Mapping[str, Report]:
    """The forms of report by suffix."""
    found = {}
    for info in sorted(pkgutil.iter_modules(__path__), key=lambda info: info.name):
        report = getattr(importlib.import_module(f"{__name__}.{info.name}"), "REPORT", None)
        if isinstance(report, Report):
            found[report.suffix] = report
    return found


def writer(file: Path) -> Report:
    """The form of report for a file name; UsageError names the known suffixes."""
    if file.suffix not in reports():
        raise pytest.UsageError(f"--campaign-report: {file.name} should end in {' or '.join(reports())}")
    return reports()[file.suffix]


def as_json(record: Record) -> dict[str, Any]:
    """The record as the plain data of the JSON report."""
    from .json_report import as_data

    return as_data(record)
