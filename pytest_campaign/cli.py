"""The console script: the form that is safe for a directory from a stranger."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .base_lookup import Given

USAGE = """\
usage: pytest-campaign check DIR [DIR ...] [options of pytest]
       pytest-campaign plan DIR
       pytest-campaign draft DIR
       pytest-campaign rules [CODE]

check   reload every checkpoint and say which deliverables are accepted; nothing in DIR
        becomes part of the configuration of pytest, nothing in it is run or written to.
        Options of pytest may follow, those of this plugin included; write them as
        --option=VALUE: --campaign-report=report.json, -k=reload, -n=2
plan    write DIR/plan.json to be filled in before the first run; never overwrites
draft   write DIR/manifest.json from what lies there; never overwrites
rules   print the documentation of all rules, or of one
"""
_OTHER_INI = re.compile(r"-[vqxsl]*c.*|--config-file(=.*)?", re.DOTALL)
_USAGE_ERROR = 4  # pytest.ExitCode.USAGE_ERROR; pytest is imported only after the module path is clean


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns pytest's exit status, 4 for wrong arguments."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    command, rest = (words[0], words[1:]) if words else ("", [])
    if command in ("", "-h", "--help"):
        print(USAGE, end="")
        return 0 if command else _USAGE_ERROR
    if command == "check":
        return check(rest)
    if command == "plan":
        return plan(rest)
    if command == "draft":
        return draft(rest)
    if command == "rules":
        return rules(rest)
    meant = f"; did you mean: pytest-campaign check {command}" if os.path.isdir(command) else ""
    return _refuse(f"{command!r} is no command{meant}")


def check(words: Sequence[str]) -> int:
    """Check the directories among ``words``; the other words, directories inside those included, go to pytest as they are."""
    found = {word: os.path.abspath(word) for word in words if not word.startswith("-") and os.path.isdir(word)}
    directories = {word: path for word, path in found.items()
                   if not any(os.path.commonpath([path, other]) == other != path for other in found.values())}
    if not directories:
        missing = next((word for word in words if not word.startswith("-") and "::" not in word), None)
        return _refuse(f"{missing} is not a directory" if missing else "check needs a directory")
    _leave(list(directories.values()))
    if (fault := _forbidden(words, [Path(path) for path in directories.values()])) is not None:
        return _refuse(fault)
    import pytest

    root = os.path.commonpath([os.path.dirname(path) for path in directories.values()])
    return int(pytest.main([
        f"--config-file={Path(__file__).with_name('isolated.ini')}", f"--rootdir={root}", f"--confcutdir={root}", "--noconftest",
        "-pno:cacheprovider", "-pcampaign", *(f"--campaign-dir={path}" for path in directories.values()),
        *(word for word in words if word not in directories)]))


def _forbidden(words: Sequence[str], folders: list[Path]) -> str | None:
    """What must be refused before pytest starts, which would read or write it at once."""
    from .search_path import VARIABLES_THAT_WRITE, is_inside

    if any(_OTHER_INI.fullmatch(word) for word in words):
        return "check has a configuration of its own and takes no other: leave -c and --config-file out"
    return next((f"{name} points into the checked directory, where nothing is written; set it to a place outside"
                 for name in VARIABLES_THAT_WRITE if os.environ.get(name) and is_inside(Path(os.environ[name]), folders)), None)


def draft(words: Sequence[str], base_models: Sequence[Given] = ()) -> int:
    """Write a draft of a manifest into each directory; ``base_models`` are places of base models beside the local cache."""
    directories = [word for word in words if os.path.isdir(word)]
    if not directories or len(directories) < len(words):
        return _refuse(f"{next((w for w in words if w not in directories), 'nothing')} is not a directory")
    _leave([os.path.abspath(directory) for directory in directories])
    from .base_lookup import Shelf, hub_cache
    from .draft import Refused, write
    from .text import number, shown

    shelf = Shelf(base_models, hub_cache(os.environ))
    status = 0
    for directory in directories:
        try:
            target, content = write(Path(directory), shelf)
        except (Refused, OSError) as error:
            print(f"pytest-campaign: {shown(str(error))}", file=sys.stderr)
            status = 1
            continue
        count = len(content["deliverables"]) + sum(len(run["deliverables"]) for run in content["runs"])
        print(f"wrote {shown(str(target))}: {number(count, 'deliverable')}, {number(len(content['runs']), 'run')}")
        for entry in content["todo"]:
            print(f"  to do at {shown(entry['pointer'])}: {shown(entry['why'])}")
        print(f"  fill these in, delete them from todo, then: pytest --campaign-dir {shown(shlex.quote(directory))}")
    return status


def plan(words: Sequence[str]) -> int:
    """Write a plan to fill in into a directory, which is made when there is none."""
    if len(words) != 1 or words[0].startswith("-"):
        return _refuse("plan needs one directory")
    _leave([os.path.abspath(words[0])])
    from .recording.errors import RecordingError
    from .recording.plan_skeleton import write
    from .text import shown

    try:
        target, places = write(Path(words[0]))
    except (RecordingError, OSError) as error:
        print(f"pytest-campaign: {shown(str(error))}", file=sys.stderr)
        return 1
    print(f"wrote {shown(str(target))}: fill in, or delete what does not apply,")
    for place in places:
        print(f"  {shown(place)}")
    print("  before the first run; its digest is recorded then, and a plan that changes later is an error")
    return 0


def rules(words: Sequence[str]) -> int:
    """Print the documentation of the rules."""
    from .checks import all_rules
    from .reporting.rules_text import document

    unknown = [word for word in words if word not in all_rules()]
    if unknown:
        return _refuse(f"{unknown[0]} is no rule; known are {', '.join(all_rules())}")
    print(document([all_rules()[word] for word in words] if words else list(all_rules().values())), end="")
    return 0


def _leave(directories: Sequence[str]) -> None:
    """Take everything that lies in the directories, or is relative, off the module path; also for workers of pytest-xdist."""
    from .search_path import without_inside

    folders = [Path(directory) for directory in directories]
    sys.path[:] = without_inside(sys.path, folders)
    os.environ["PYTHONSAFEPATH"] = "1"
    if "PYTHONPATH" in os.environ:
        os.environ["PYTHONPATH"] = os.pathsep.join(without_inside(os.environ["PYTHONPATH"].split(os.pathsep), folders))


def _refuse(text: str) -> int:
    from .text import shown

    print(f"pytest-campaign: {shown(text)}\n\n{USAGE}", end="", file=sys.stderr)
    return _USAGE_ERROR


if __name__ == "__main__":
    sys.exit(main())
