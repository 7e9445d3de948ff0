"""Small campaign directories and real sessions over them, each in a process of its own."""

import dataclasses
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

SCRIPT = Path(sys.executable).with_name("pytest-campaign")


@dataclasses.dataclass(frozen=True)
class Ended:
    """How a command ended: its exit status and what it printed."""

    status: int
    out: str
    err: str

    @property
    def last(self) -> str:
        """The line that a campaign ends with."""
        return [line for line in self.out.splitlines() if line.startswith("campaign ") and ": " in line][-1]

    @property
    def ids(self) -> list[str]:
        """The node ids that ``--co -q`` printed."""
        return [line for line in self.out.splitlines() if "::" in line]

    @property
    def counts(self) -> dict[str, int]:
        """The numbers of pytest's own last line: passed, failed, deselected ..."""
        line = next(line for line in reversed(self.out.splitlines()) if re.search(r" in [0-9.]+s", line))
        return {word: int(count) for count, word in re.findall(r"([0-9]+) ([a-z]+)", line.rpartition(" in ")[0])}


def environment(**more: str) -> dict[str, str]:
    """This process's environment without what pytest put there or takes from there."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_") and name != "CI"}
    return own | {"COLUMNS": "160"} | more


def run(command: Sequence[str | Path], cwd: Path, **more: str) -> Ended:
    """Run a command to its end."""
    done = subprocess.run(command, cwd=cwd, env=environment(**more), capture_output=True, stdin=subprocess.DEVNULL, timeout=120)
    return Ended(done.returncode, done.stdout.decode("utf-8", "surrogateescape"), done.stderr.decode("utf-8", "surrogateescape"))


def pytest_session(cwd: Path, *words: str | Path, **more: str) -> Ended:
    """One session of the ``pytest`` command."""
    return run([Path(sys.executable).with_name("pytest"), *words], cwd, **more)


def script(cwd: Path, *words: str | Path, **more: str) -> Ended:
    """One run of the ``pytest-campaign`` command."""
    return run([SCRIPT, *words], cwd, **more)


def write(folder: Path, files: Mapping[str, str | bytes]) -> None:
    """Write files by their path."""
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content if isinstance(content, bytes) else content.encode())


def entry(id: str, path: str, kind: str = "other", **more: object) -> dict[str, object]:
    """One deliverable of a manifest."""
    return {"id": id, "kind": kind, "path": path, **more}


def manifest(folder: Path, *deliverables: Mapping[str, object], runs: Mapping[str, Sequence[Mapping[str, object]]] = {}) -> None:
    """Write the manifest of a campaign called ``small`` with completed runs."""
    write(folder, {"manifest.json": json.dumps({
        "manifest_version": 1, "campaign": "small", "deliverables": deliverables,
        "runs": [{"id": id, "status": "completed", "deliverables": entries} for id, entries in runs.items()],
    })})


def papers(folder: Path) -> Path:
    """A sound campaign without weights: a folder, a deliverable nested in it, and two at the same path."""
    write(folder, {"runs/control/figures/loss.svg": "<svg/>", "runs/control/figures/notes.md": "Flat.\n",
                   "runs/variant/notes.md": "Steep.\n", "analysis.md": "The variant wins.\n"})
    manifest(folder, entry("analysis", "analysis.md", "analysis"), runs={
        "control": [entry("figures", "runs/control/figures"), entry("notes", "runs/control/figures/notes.md")],
        "variant": [entry("notes", "runs/variant/notes.md", "analysis"), entry("again", "runs/variant/notes.md", "analysis")]})
    return folder


def listing(folder: Path) -> dict[str, tuple[int, int]]:
    """Size and time of change of everything in a directory."""
    return {str(path): (path.lstat().st_size, path.lstat().st_mtime_ns) for path in sorted(folder.rglob("*"))}
