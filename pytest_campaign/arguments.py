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
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import ModuleType

import pytest

from .search_path import VARIABLES_THAT_WRITE, is_inside, without_inside
from .text import shown, shown_id

# pytest takes no argument with `[` or `::` in its path, and drops arguments that lie below another one. So the campaigns
# are collected through an argument of their own: a directory that exists everywhere and holds nobody's tests.
STAND_IN = Path("/proc") if os.path.isdir("/proc") else Path("/dev")


# By the name that they have in pytest's namespace; those of plugins are there only when the plugin is.
_OPTIONS_THAT_WRITE = {"basetemp": "--basetemp", "xmlpath": "--junitxml", "log_file": "--log-file", "debug": "--debug",
                       "htmlpath": "--html", "report_log": "--report-log", "json_report_file": "--json-report-file",
                       "pastebin_log": "--pastebin", "md_report_output": "--md-report-output",
                       "allure_report_dir": "--alluredir"}


@dataclasses.dataclass(frozen=True)
class Named:
    """An argument that names a part of a campaign, as given, with what it may mean: the likelier meaning first.

    A meaning is the path of a node and the name of a check, or None for every check at and below it. Paths are
    absolute and written as in node ids (`as_in_ids`), so that a pasted id of an odd name is found.
    """

    argument: str
    meanings: tuple[tuple[Path, str | None], ...]

    def matches(self, known: frozenset[tuple[Path, str]]) -> frozenset[tuple[Path, str]]:
        """Those of the ``known`` checks that are meant; none when there is no such thing."""
        for path, name in self.meanings:
            if name is not None:
                found = known & {(path, name)}
            else:
                found = frozenset(check for check in known if path in (check[0], *check[0].parents))
            if found:
                return found
        return frozenset()


@dataclasses.dataclass(frozen=True)
class Selection:
    """The campaign directories of a session (absolute), and the arguments that name parts of them; without any, all of them."""

    directories: tuple[Path, ...]
    named: tuple[Named, ...] = ()

    def chosen(self, known: frozenset[tuple[Path, str]]) -> frozenset[tuple[Path, str]]:
        """The chosen ones of the ``known`` checks; UsageError for an argument that names none."""
        if not self.named:
            return known
        found = {named.argument: named.matches(known) for named in self.named}
        for argument, checks in found.items():
            if not checks:
                raise pytest.UsageError(f"not found: {shown(argument)} (`--co -q` lists what there is)")
        return frozenset().union(*found.values())


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
    directories = _directories(cwd, namespace.campaign_dir)
    folders = list(directories)
    _refuse(config, folders)
    _guard_imports(config, folders)
    positional = namespace.file_or_dir
    named = [named for argument in dict.fromkeys(positional) if (named := _named(config, argument, directories))]
    config.stash[SELECTION] = Selection(directories, tuple(named))
    taken = {named.argument for named in named}
    positional[:] = [argument for argument in positional if argument not in taken]
    args.insert(0, str(STAND_IN))  # not at the end, where an option may lack its value
    _steer_conftests(config, folders)
    if is_inside(config.rootpath, folders):  # the cache would be written into the campaign
        if any(getattr(namespace, name, False) for name in ("lf", "failedfirst", "stepwise")):
            raise pytest.UsageError(
                "--lf, --ff and --sw need pytest's cache, which is off because pytest took the campaign directory for its root "
                f"directory; name another one: --rootdir={cwd if not is_inside(cwd, folders) else folders[0].parent}")
        for name in ("cacheprovider", "stepwise"):
            config.pluginmanager.set_blocked(name)
    sys.path[:] = without_inside(sys.path, folders) if any(is_inside(Path(p or cwd), folders) for p in sys.path) else sys.path


def take_over(config: pytest.Config) -> None:
    """Take the arguments that name parts of campaigns out of pytest's hands, which would refuse them or walk there.

    To be called when the arguments have been parsed: among the words of the command line an argument cannot be told
    from the value of an option.
    """
    taken = {named.argument for named in config.stash[SELECTION].named}
    config.args[:] = [argument for argument in config.args if argument not in taken]


def _directories(cwd: Path, given: Sequence[str]) -> tuple[Path, ...]:
    """The campaign directories, each once; UsageError for one that is none or lies in another."""
    found: dict[str, Path] = {}
    for text in given:
        directory = absolute(cwd, text)
        if not directory.is_dir():
            raise pytest.UsageError(f"--campaign-dir: {shown(str(directory))} is not a directory")
        found.setdefault(os.path.realpath(directory), directory)
    for real, directory in found.items():
        for other, outer in found.items():
            if Path(other) in Path(real).parents:
                raise pytest.UsageError(f"--campaign-dir: {shown(str(directory))} lies in {shown(str(outer))}; "
                                        "check one after the other")
    return tuple(found.values())


def _refuse(config: pytest.Config, folders: list[Path]) -> None:
    inipath = config.inipath
    if inipath is not None and is_inside(inipath, folders) and not config.known_args_namespace.inifilename:
        raise pytest.UsageError(
            f"pytest took its configuration from {shown(str(inipath))}, a file inside the campaign directory. Code that is named "
            f"there may already have run. Use the safe form: pytest-campaign check {shown(str(folders[0]))}")
    if is_inside(Path(sys.prefix), folders):
        raise pytest.UsageError(f"--campaign-dir holds the running Python environment ({sys.prefix}); "
                                "name the output directory only")
    if (module := _loaded_from(folders)) is not None:
        raise pytest.UsageError(
            f"the module {shown(module)} was already loaded from the campaign directory, so code from there has run. "
            f"Use the safe form: pytest-campaign check {shown(str(folders[0]))}")
    for name, place in _written(config):
        if is_inside(place, folders):
            raise pytest.UsageError(f"{name} points into the campaign directory ({shown(str(place))}); nothing is written there, "
                                    "name a place outside")


def _loaded_from(folders: list[Path]) -> str | None:
    """The name of a module whose source lies in one of the folders."""
    sources: dict[str, str] = {}
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and os.path.isabs(file) and name != "__main__":
            sources.setdefault(os.path.dirname(file), name)
    return next((name for folder, name in sources.items() if is_inside(Path(folder), folders)), None)


def _written(config: pytest.Config) -> Iterator[tuple[str, Path]]:
    """Where pytest, its plugins and Python write, by the name of the option or setting that says it."""
    namespace, cwd = config.known_args_namespace, config.invocation_params.dir
    for name, option in _OPTIONS_THAT_WRITE.items():
        if value := getattr(namespace, name, None):
            yield option, absolute(cwd, os.path.expandvars(os.path.expanduser(str(value))))
    if namespace.rootdir:
        yield "--rootdir", absolute(cwd, os.path.expandvars(namespace.rootdir))
    if log_file := config.getini("log_file"):
        yield "log_file", absolute(cwd, log_file)
    inside_root = [absolute(cwd, directory) for directory in namespace.campaign_dir]
    if config.pluginmanager.has_plugin("cacheprovider") and not is_inside(config.rootpath, inside_root):  # else the cache is off
        yield "cache_dir", absolute(config.rootpath, os.path.expandvars(os.path.expanduser(config.getini("cache_dir"))))
    for variable in VARIABLES_THAT_WRITE:
        if value := os.environ.get(variable):
            yield variable, absolute(cwd, value)
    yield "the folder for temporary files", Path(tempfile.gettempdir())


def _named(config: pytest.Config, argument: str, directories: Sequence[Path]) -> Named | None:
    """What an argument names in the campaigns, None when it has nothing to do with them."""
    tops = {as_in_ids(form): as_in_ids(directory) for directory in directories for form in (directory, directory.resolve())}
    text, separator, name = argument.rpartition("::")
    forms: list[tuple[str, str | None]] = [(text, name), (argument, None)] if separator else [(argument, None)]
    meanings = []
    for text, check in forms:
        # A pasted node id is relative to the root directory, an argument to the working directory.
        given = [absolute(base, text) for base in (config.invocation_params.dir, config.rootpath)]
        for at in [as_in_ids(form) for path in given for form in (path, path.resolve())]:
            meanings += [(directory / at.relative_to(top), check) for top, directory in tops.items() if at.is_relative_to(top)]
    return Named(argument, tuple(dict.fromkeys(meanings))) if meanings else None


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
