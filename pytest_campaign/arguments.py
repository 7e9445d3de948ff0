"""What happens to the command line before collection: campaign directories become arguments, and nothing in them
becomes pytest's configuration.

pytest chooses its root directory and ini file before any plugin is loaded and looks for `conftest.py` near every
argument. What can still be steered then is steered here; what cannot (an ini file inside the directory that was
already read) is a usage error. Only the console script is safe for a directory from a stranger.
"""

from __future__ import annotations

import dataclasses
import importlib.machinery
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import ModuleType

import pytest

from .plugin import is_inside, without_inside
from .text import shown_id


@dataclasses.dataclass(frozen=True)
class Selection:
    """What the arguments choose within campaign directories.

    ``checks`` are (path of the node, name of the check) of arguments like ``out/adapter::reload``; ``paths`` are
    arguments without a check. Without any ``checks`` pytest's own selection by path is all that is needed. All
    paths are absolute and written as in node ids (`shown_id`), so that a pasted id of an odd name is found.
    """

    directories: tuple[Path, ...]
    paths: tuple[Path, ...] = ()
    checks: frozenset[tuple[Path, str]] = frozenset()

    def wants(self, path: Path, name: str) -> bool:
        """Whether the check ``name`` of the node at ``path`` is chosen."""
        path = as_in_ids(path)
        if not self.checks or (path, name) in self.checks:
            return True
        return any(path == chosen or chosen in path.parents for chosen in self.paths)


def as_in_ids(path: Path) -> Path:
    """A path as node ids write it; applied twice it changes nothing more."""
    return Path(shown_id(str(path)))


SELECTION = pytest.StashKey[Selection]()


def absolute(base: Path, path: str) -> Path:
    """A path as seen from ``base``, without resolving links."""
    return Path(os.path.abspath(base / path))


def prepare(config: pytest.Config, args: list[str]) -> None:
    """Rewrite the arguments of a session with campaign directories in place; UsageError for what cannot be safe."""
    namespace = config.known_args_namespace
    cwd = config.invocation_params.dir
    directories = tuple(dict.fromkeys(absolute(cwd, path) for path in namespace.campaign_dir))
    for directory in directories:
        if not directory.is_dir():
            raise pytest.UsageError(f"--campaign-dir: {directory} is not a directory")
    folders = list(directories)
    _refuse(config, folders)
    _guard_imports(config, folders)
    config.stash[SELECTION] = _take_checks(config, args, directories)
    _steer_conftests(config, folders)
    if is_inside(config.rootpath, folders):  # the cache would be written into the campaign
        if any(getattr(namespace, name, False) for name in ("lf", "failedfirst", "stepwise")):
            raise pytest.UsageError(
                "--lf, --ff and --sw need pytest's cache, which is off because pytest took the campaign directory for its root "
                f"directory; name another one: --rootdir={cwd if not is_inside(cwd, folders) else folders[0].parent}")
        for name in ("cacheprovider", "stepwise"):
            config.pluginmanager.set_blocked(name)
    sys.path[:] = without_inside(sys.path, folders) if any(is_inside(Path(p or cwd), folders) for p in sys.path) else sys.path


def _refuse(config: pytest.Config, folders: list[Path]) -> None:
    inipath = config.inipath
    if inipath is not None and is_inside(inipath, folders) and not config.known_args_namespace.inifilename:
        raise pytest.UsageError(
            f"pytest took its configuration from {inipath}, a file inside the campaign directory. Code that is named there may "
            f"already have run. Use the safe form: pytest-campaign check {folders[0]}")
    if is_inside(Path(sys.prefix), folders):
        raise pytest.UsageError(f"--campaign-dir holds the running Python environment ({sys.prefix}); name the output directory only")
    namespace = config.known_args_namespace
    written = {"--basetemp": namespace.basetemp, "--junitxml": getattr(namespace, "xmlpath", None)}
    if config.pluginmanager.has_plugin("cacheprovider") and not is_inside(config.rootpath, folders):  # else the cache is off
        written["cache_dir"] = config.getini("cache_dir")
    for option, value in written.items():
        base = config.rootpath if option == "cache_dir" else config.invocation_params.dir
        if value and is_inside(absolute(base, os.path.expandvars(str(value))), folders):
            raise pytest.UsageError(f"{option} points into the campaign directory ({value}); nothing is written there")


def _take_checks(config: pytest.Config, args: list[str], directories: tuple[Path, ...]) -> Selection:
    """Take arguments of the form ``PATH::check`` out of pytest's hands (it refuses those of directories)."""
    cwd, positional = config.invocation_params.dir, config.known_args_namespace.file_or_dir
    tops = {as_in_ids(directory): directory for directory in directories}
    paths: list[Path] = []
    checks: set[tuple[Path, str]] = set()
    named: set[Path] = set()
    for argument in list(positional):
        text, separator, name = argument.partition("::")
        # A pasted node id is relative to the root directory, an argument to the working directory.
        candidates = [as_in_ids(absolute(base, text)) for base in (cwd, config.rootpath)]
        match = next(((path, top) for path in candidates for top in tops if path == top or top in path.parents), None)
        if match is None:
            continue
        path, directory = match[0], tops[match[1]]
        named.add(directory)
        if not separator:
            paths.append(path)
            continue
        checks.add((path, name))
        args[:] = [str(directory) if word == argument and (not i or args[i - 1] != "--deselect") else word
                   for i, word in enumerate(args)]
        positional[:] = [str(directory) if word == argument else word for word in positional]
    args.extend(str(directory) for directory in directories if directory not in named)
    return Selection(directories, tuple(paths), frozenset(checks))


def _steer_conftests(config: pytest.Config, folders: list[Path]) -> None:
    """Keep the search for initial `conftest.py` files out of the campaign directories.

    pytest probes every argument and every `test*` folder beside it. A file as an argument is not searched around,
    so the arguments are narrowed to the `conftest.py` files that may be loaded.
    """
    namespace, cwd = config.known_args_namespace, config.invocation_params.dir
    if is_inside(cwd, folders):
        namespace.noconftest = True
        os.environ["PYTHONSAFEPATH"] = "1"  # pytest-xdist starts its workers in the same folder with `python -c`
        return
    anchors = [absolute(cwd, argument.partition("::")[0]) for argument in namespace.file_or_dir]
    if not anchors and cwd == config.rootpath:
        anchors = [absolute(cwd, path) for path in config.getini("testpaths") if not any(c in path for c in "*?[")]
    anchors = anchors or [cwd]
    beside = [folder for anchor in anchors if anchor.is_dir() for folder in anchor.glob("test*") if folder.is_dir()]
    if any(is_inside(path, folders) for path in (*anchors, *beside)):
        outside = [path for path in (*anchors, *beside) if not is_inside(path, folders)]
        files = [path if path.is_file() else path / "conftest.py" for path in outside]
        namespace.file_or_dir[:] = [str(path) for path in files if path.is_file()] or [__file__]


class _Guard:
    """A finder in front of all others that refuses every module whose source lies in a campaign directory."""

    def __init__(self, folders: list[Path]) -> None:
        self._folders = folders

    def find_spec(self, name: str, path: Sequence[str] | None = None,
                  target: ModuleType | None = None) -> importlib.machinery.ModuleSpec | None:
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and any(is_inside(Path(origin), self._folders) for origin in _origins(spec)):
            raise ImportError(f"refused to import {name!r} from a campaign directory")
        return None


def _origins(spec: importlib.machinery.ModuleSpec) -> Iterable[str]:
    if spec.origin and os.path.isabs(spec.origin):
        return [spec.origin]
    return spec.submodule_search_locations or []


def _guard_imports(config: pytest.Config, folders: list[Path]) -> None:
    guard = _Guard(folders)
    sys.meta_path.insert(0, guard)
    config.add_cleanup(lambda: sys.meta_path.remove(guard) if guard in sys.meta_path else None)
