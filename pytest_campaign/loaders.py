"""The reviewer's own loaders: which deliverables they are for, and where their code lies. Nothing is imported here.

A loader is named as ``PATTERN=module:function`` or ``PATTERN=/path/file.py:function``. Its code is imported in the fresh process.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import importlib.util
import os
import re
from collections.abc import Sequence
from pathlib import Path

from .campaign import Deliverable
from .search_path import is_inside

FORM = "KIND-OR-GLOB=module:function or KIND-OR-GLOB=/path/file.py:function"
_NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")


@dataclasses.dataclass(frozen=True)
class Loader:
    """One loader. ``code`` is the name of a module or the absolute path of a file, ``function`` a name in it.

    ``pattern`` is a kind of deliverables, or a pattern (fnmatch) of full ids or of paths in the campaign.
    """

    pattern: str
    code: str
    function: str

    @property
    def text(self) -> str:
        return f"{self.code}:{self.function}"

    @property
    def shown(self) -> str:
        """What a report calls it: without the folder, which means something on one machine only."""
        return f"{os.path.basename(self.code)}:{self.function}"

    @property
    def is_file(self) -> bool:
        return self.code.endswith(".py")

    def fits(self, deliverable: Deliverable) -> bool:
        """Whether it is meant for a deliverable."""
        return self.pattern == deliverable.kind or any(
            fnmatch.fnmatchcase(name, self.pattern) for name in (deliverable.id, deliverable.path))


def parse(text: str, base: str) -> Loader:
    """A loader with its pattern; a relative file is meant from the directory ``base``. ValueError says what is wrong."""
    pattern, separator, target = text.rpartition("=")
    if not separator or not pattern:
        raise ValueError(f"{text!r} does not say which deliverables it loads; the form is {FORM}")
    return target_of(target, base, pattern)


def target_of(text: str, base: str, pattern: str = "*") -> Loader:
    """A loader from ``module:function`` or ``file.py:function``. ValueError as for `parse`."""
    code, _, function = text.rpartition(":")
    if not code or not _NAME.fullmatch(function):
        raise ValueError(f"{text!r} names no function; the form is module:function or /path/file.py:function")
    if code.endswith(".py"):
        code = os.path.abspath(os.path.join(base, code))
        if not os.path.isfile(code):
            raise ValueError(f"there is no file {code}")
    elif not _NAME.fullmatch(code):
        raise ValueError(f"{code!r} is neither the name of a module nor a file that ends in .py")
    return Loader(pattern, code, function)


def misplaced(loader: Loader, folders: Sequence[Path]) -> str | None:
    """Why the code of a loader cannot be used: it lies in a checked directory, or nowhere. None when all is well."""
    if loader.is_file:
        return f"{loader.code} lies in the campaign directory, from which no code is taken" \
            if is_inside(Path(loader.code), list(folders)) else None
    top = loader.code.partition(".")[0]
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError) as error:  # also the refusal of a module in a campaign directory
        return f"the module {top} cannot be used: {error}"
    if spec is None:
        return f"there is no module {top} on the module search path; a file is given as /path/file.py:function"
    origins = [spec.origin] if spec.origin and os.path.isabs(spec.origin) else list(spec.submodule_search_locations or ())
    if any(is_inside(Path(origin), list(folders)) for origin in origins):
        return f"the module {top} lies in the campaign directory, from which no code is taken"
    return None


def chosen(loaders: Sequence[Loader], deliverable: Deliverable) -> Loader | None:
    """The loader for a deliverable: the last that fits; None when none does."""
    return next((loader for loader in reversed(loaders) if loader.fits(deliverable)), None)
