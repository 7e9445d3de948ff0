"""Checkpoint formats, one module each.

Every module of this package that defines ``FORMAT`` takes part; nothing has to be registered. A set of files
(``gather``) wins over its single files; among single files the first format in alphabetical order of module
names that recognises the content is taken, so signatures must not overlap.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Mapping

from .base import Format


@functools.cache
def formats() -> Mapping[str, Format]:
    """All formats by name, in alphabetical order of their modules."""
    found: dict[str, Format] = {}
    for module in sorted(pkgutil.iter_modules(__path__), key=lambda module: module.name):
        value = getattr(importlib.import_module(f"{__name__}.{module.name}"), "FORMAT", None)
        if isinstance(value, Format):
            found[value.name] = value
    return found
