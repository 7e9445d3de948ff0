"""Every node id that pytest prints can be given back to it, wherever the directory lies and whatever is in its names."""

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import safetensors.torch
import torch
from sessions import entry, environment, manifest, papers, pytest_session, write

ONE_BY_ONE = """
import contextlib, io, json, pytest, sys

class Seen:
    def __init__(self):
        self.items = []
    def pytest_runtest_call(self, item):
        self.items.append([str(item.path), item.name])

for words in [[], *([id] for id in json.load(sys.stdin))]:
    seen = Seen()
    with contextlib.redirect_stdout(io.StringIO()):
        status = pytest.main([*sys.argv[1:], *words], plugins=[seen])
    print(json.dumps([seen.items, int(status)]))
"""


@dataclasses.dataclass(frozen=True)
class Layout:
    """Where the campaign lies, and where and how pytest is started, all relative to one folder."""

    directory: str = "out"
    cwd: str = "."
    words: tuple[str, ...] = ("--campaign-dir={directory}",)
    ini: str | None = None
    absolute: bool = False


LAYOUTS = {
    "plain": Layout(),
    "space form, absolute, trailing slash": Layout(words=("--campaign-dir", "{directory}/"), absolute=True),
    "ini file above": Layout(directory="deep/er/out", cwd="deep", ini="pytest.ini"),
    "root directory elsewhere": Layout(directory="far/out", cwd="near", ini="near/pytest.ini"),
    "inside": Layout(cwd="out/runs"),
    "in the campaign itself": Layout(cwd="out", words=("--campaign-dir=.",)),
    "build": Layout(directory="build"),
    "test_out": Layout(directory="test_out", ini="pytest.ini"),
    "odd name": Layout(directory="a b/[x] é::y", ini="pytest.ini"),
    "odd name elsewhere": Layout(directory="a b/[x] é::y", cwd="near", ini="near/pytest.ini"),
    "name with an escape sequence": Layout(directory="out\x1b[31m\n", ini="pytest.ini"),
}


def arranged(top: Path, layout: Layout) -> tuple[Path, list[str]]:
    """Make the campaign of a layout; the working directory and the words for pytest."""
    directory = papers(top / layout.directory)
    cwd = top / layout.cwd
    cwd.mkdir(exist_ok=True)
    if layout.ini:
        write(top, {layout.ini: "[pytest]\n"})
    spelled = str(directory) if layout.absolute else os.path.relpath(directory, cwd)
    return cwd, [word.format(directory=spelled) for word in layout.words]


def one_by_one(cwd: Path, words: list[str], ids: list[str]) -> list[tuple[list[list[str]], int]]:
    """(path and name of the items that ran, exit status): of a session with everything, then with each id alone."""
    done = subprocess.run([sys.executable, "-P", "-c", ONE_BY_ONE, *words], cwd=cwd, env=environment(), input=json.dumps(ids),
                          capture_output=True, text=True, timeout=120)
    return [tuple(json.loads(line)) for line in done.stdout.splitlines() if line.startswith("[")]


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_every_id_selects_its_item(tmp_path: Path, layout: Layout) -> None:
    cwd, words = arranged(tmp_path, layout)
    collected = pytest_session(cwd, *words, "--co", "-q")
    ids = collected.ids
    assert collected.status == 0, collected
    assert len(ids) >= 8
    assert len(set(ids)) == len(ids)
    assert all(id.isprintable() for id in ids)
    (everything, _), *alone = one_by_one(cwd, words, ids)
    assert alone == [([item], 0) for item in everything]
    assert len(alone) == len(ids)


@pytest.mark.parametrize("layout", [LAYOUTS[name] for name in ("plain", "inside", "odd name elsewhere")])
def test_ids_select_in_workers_too(tmp_path: Path, layout: Layout) -> None:
    cwd, words = arranged(tmp_path, layout)
    chosen = pytest_session(cwd, *words, "--co", "-q").ids[::3]
    session = pytest_session(cwd, *words, *chosen, "-n2", "-v")
    assert session.counts == {"passed": len(chosen)}
    assert all(f"::{id.rpartition('::')[2]} " in session.out for id in chosen)


def test_names_of_files_are_escaped(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    names = ["a b.bin", "[x].bin", "y::z.bin", "\x1b[31mred.bin", "line\nfeed.bin", "é.bin", os.fsdecode(b"\xff.bin")]
    for name in names:
        write(folder, {name: safetensors.torch.save({"w": torch.ones(2)})})
    collected = pytest_session(tmp_path, "--campaign-dir=out", "--co", "-q")
    ids = [id for id in collected.ids if id.endswith("::content")]
    assert len(ids) == len(names)
    assert all(id.isprintable() for id in collected.ids)
    _, *alone = one_by_one(tmp_path, ["--campaign-dir=out"], ids)
    assert sorted(alone) == [([[str(folder / name), "content"]], 0) for name in sorted(names)]
    session = pytest_session(tmp_path, "--campaign-dir=out", *(id.replace("content", "reload") for id in ids), "-n2", "-q")
    assert session.counts == {"passed": len(names)}
    assert "\x1b" not in session.out


def test_absent_deliverables_stand_at_the_campaign(tmp_path: Path) -> None:
    write(tmp_path / "out", {"here.md": "x\n"})
    manifest(tmp_path / "out", entry("here", "here.md"), entry("gone", "gone.md"))
    ids = pytest_session(tmp_path, "--campaign-dir=out", "--co", "-q").ids
    assert {"out/here.md::content", "out::content:gone"} <= set(ids)
    session = pytest_session(tmp_path, "--campaign-dir=out", "out::content:gone")
    assert session.status == 1
    assert session.counts in ({"failed": 1}, {"skipped": 1})


@pytest.mark.parametrize("id", ["out::nonsense", "out/runs::content", "out/nothing::content", "out/analysis.md::",
                                "out/nothing", "elsewhere::content"])
def test_an_unknown_id_is_a_usage_error(tmp_path: Path, id: str) -> None:
    papers(tmp_path / "out")
    session = pytest_session(tmp_path, "--campaign-dir=out", id)
    assert session.status == 4
    assert "not found" in session.err
    assert id.partition("::")[0] in session.err
