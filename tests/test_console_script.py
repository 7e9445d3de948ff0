"""The console script: safe with whatever lies in the directory, and the drafts and rules that it prints."""

import json
import os
from pathlib import Path

import pytest
import safetensors.torch
import torch
from sessions import listing, papers, pytest_session, script, write

from pytest_campaign.schema_files import validator

HOSTILE = ("conftest.py", "setup.py", "test_it.py", "torch.py", "safetensors.py", "sitecustomize.py", "usercustomize.py",
           "pytest.py", "xdist.py", "execnet.py", "setproctitle.py", "evil.py", "json.py",
           "pytest_campaign/__init__.py", "runs/conftest.py")


def hostile(top: Path) -> tuple[Path, Path]:
    """A campaign full of code, and the file that appears when some of it is run."""
    canary = top / "canary"
    folder = papers(top / "out")
    write(folder, dict.fromkeys(HOSTILE, f"open({str(canary)!r}, 'a').write(__file__)\n"))
    write(folder, {"model.safetensors": safetensors.torch.save({"w": torch.ones(2)}), "manifest.json": "",
                   "pytest.ini": "[pytest]\naddopts = -p evil\npythonpath = .\n",
                   "pyproject.toml": "[tool.pytest]\naddopts = ['-p', 'evil']\npythonpath = ['.']\n"})
    (folder / "manifest.json").unlink()
    return folder, canary


@pytest.mark.parametrize("cwd", [".", "out", "out/runs"])
@pytest.mark.parametrize("workers", [[], ["-n=2"]])
def test_nothing_in_the_directory_is_run(tmp_path: Path, cwd: str, workers: list[str]) -> None:
    folder, canary = hostile(tmp_path)
    before = listing(folder)
    directory = os.path.relpath(folder, tmp_path / cwd)
    session = script(tmp_path / cwd, "check", directory, *workers, "-v")
    assert not canary.exists(), canary.read_text()
    assert session.status == 1, session
    assert "model.safetensors::reload" in session.out
    assert "NOT ACCEPTED: 1 of 1 outputs reload (at least to: tensors)" in session.last
    assert "warning" not in session.out.splitlines()[-1]
    assert session.err == ""
    assert listing(folder) == before


def test_nothing_is_imported_from_a_search_path_that_leads_there(tmp_path: Path) -> None:
    """Python itself imports sitecustomize, and the script our package: both before there is anybody who could refuse."""
    folder, canary = hostile(tmp_path)
    for name in ("sitecustomize.py", "usercustomize.py", "pytest_campaign/__init__.py"):
        (folder / name).unlink()
    session = script(folder, "check", ".", "-n=2", PYTHONPATH=os.pathsep.join(["", str(folder), "runs"]))
    assert not canary.exists(), canary.read_text()
    assert "NOT ACCEPTED: 1 of 1 outputs reload (at least to: tensors)" in session.last


def test_the_trap_works(tmp_path: Path) -> None:
    folder, canary = hostile(tmp_path)
    pytest_session(folder)
    assert canary.exists()


def test_options_follow_the_directory(tmp_path: Path) -> None:
    papers(tmp_path / "out")
    papers(tmp_path / "more")
    for words in (["-k=analysis"], ["-k", "analysis"], ["--campaign-report=report.json", "-kanalysis", "--rootdir=."]):
        session = script(tmp_path, "check", "out", *words)
        assert (session.status, session.counts["passed"]) == (0, 3), session  # content, portable and fixity of the analysis
    assert (tmp_path / "report.json").exists()
    ids = script(tmp_path, "check", "out", "--co", "-q").ids
    assert ids
    assert script(tmp_path, "check", "out", ids[-1]).counts["passed"] == 1
    assert script(tmp_path, "check", "out", ids[0], ids[-1], "-n=2").counts["passed"] == 2
    assert script(tmp_path, "check", "out", "out/runs").counts["passed"] >= 4
    assert script(tmp_path, "check", "out", "more").out.count("small: ACCEPTED") == 2
    assert not (tmp_path / ".pytest_cache").exists()


WRONG = {
    "": "usage",
    "out": "did you mean: pytest-campaign check out",
    "frobnicate": "is no command",
    "check": "check needs a directory",
    "check nowhere": "nowhere is not a directory",
    "check out nowhere": "not found",
    "check out out::nowhere": "not found",
    "draft": "is not a directory",
    "draft nowhere": "nowhere is not a directory",
    "rules content.nothing": "content.nothing is no rule",
}


@pytest.mark.parametrize("words", WRONG)
def test_wrong_words(tmp_path: Path, words: str) -> None:
    papers(tmp_path / "out")
    ended = script(tmp_path, *words.split())
    assert ended.status == 4
    assert WRONG[words] in ended.out + ended.err


def test_help_and_rules(tmp_path: Path) -> None:
    assert "usage: pytest-campaign check DIR" in script(tmp_path, "--help").out
    everything = script(tmp_path, "rules")
    one = script(tmp_path, "rules", "content.empty")
    assert (everything.status, one.status) == (0, 0)
    assert "content.empty" in one.out
    assert "content.missing" not in one.out
    assert one.out.strip() in everything.out


def test_a_draft_is_valid_and_when_filled_in_accepted(tmp_path: Path) -> None:
    write(tmp_path / "out", {"runs/control/model.safetensors": safetensors.torch.save({"w": torch.ones(2)}),
                             "runs/control/metrics.json": '{"loss": 0.5}\n', "analysis.md": "Negative.\n"})
    drafted = script(tmp_path, "draft", "out")
    assert drafted.status == 0, drafted
    target = tmp_path / "out/manifest.json"
    content = json.loads(target.read_text())
    assert list(validator("manifest-1").iter_errors(content)) == []
    assert content["todo"]
    assert [run["id"] for run in content["runs"]] == ["control"]
    again = script(tmp_path, "draft", "out")
    assert (again.status, json.loads(target.read_text())) == (1, content)
    assert "never overwritten" in again.err
    option = pytest_session(tmp_path, "--campaign-dir=out", "--campaign-draft")
    assert (option.status, json.loads(target.read_text())) == (1, content)
    opened = script(tmp_path, "check", "out")
    assert opened.status == 1
    assert "to do" in opened.out or "todo" in opened.out
    target.write_text(json.dumps({**content, "todo": []}))
    assert script(tmp_path, "check", "out").status == 0


def test_a_draft_by_option(tmp_path: Path) -> None:
    write(tmp_path / "out", {"analysis.md": "Negative.\n", "conftest.py": "raise SystemExit(9)\n"})
    drafted = pytest_session(tmp_path, "--campaign-dir=out", "--campaign-draft")
    assert drafted.status == 0, drafted
    assert "wrote" in drafted.out
    assert (tmp_path / "out/manifest.json").exists()
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["analysis.md", "conftest.py", "manifest.json"]
    assert pytest_session(tmp_path, "--campaign-draft").status == 4
