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
           "pytest.py", "xdist.py", "execnet.py", "setproctitle.py", "evil.py", "json.py", "os.py", "numpy.py", "yaml.py",
           "_pytest/__init__.py", "pluggy.py", "jsonschema.py", "tempfile.py", "it_test.py", "__init__.py", "__main__.py",
           "pytest_campaign/__init__.py", "runs/conftest.py", "tests/conftest.py", "tests/test_it.py", "test/conftest.py")
# Each of them alone makes pytest load evil.py when it is read.
INI_FILES = {
    **dict.fromkeys(("pytest.ini", ".pytest.ini", "tox.ini"), "[pytest]\naddopts = -p evil\npythonpath = .\n"),
    **dict.fromkeys(("pytest.toml", ".pytest.toml"), "[pytest]\naddopts = ['-p', 'evil']\npythonpath = ['.']\n"),
    "setup.cfg": "[tool:pytest]\naddopts = -p evil\npythonpath = .\n",
    "pyproject.toml": "[tool.pytest]\naddopts = ['-p', 'evil']\npythonpath = ['.']\n",
}


def hostile(top: Path) -> tuple[Path, Path]:
    """A campaign full of code, and the file that appears when some of it is run."""
    canary = top / "canary"
    folder = papers(top / "out")
    write(folder, dict.fromkeys(HOSTILE, f"open({str(canary)!r}, 'a').write(__file__)\n"))
    write(folder, {"model.safetensors": safetensors.torch.save({"w": torch.ones(2)}), "manifest.json": "",
                   "doc.txt": f">>> open({str(canary)!r}, 'a')\n", **INI_FILES})
    for kind, name in (("evil.egg-info", "PKG-INFO"), ("evil-1.dist-info", "METADATA")):
        write(folder, {f"{kind}/{name}": "Metadata-Version: 2.1\nName: evil\nVersion: 1\n",
                       f"{kind}/entry_points.txt": "[pytest11]\nevil = evil\n"})
    (folder / "manifest.json").unlink()
    return folder, canary


@pytest.mark.parametrize("cwd", [".", "out", "out/runs", "/"])
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


@pytest.mark.parametrize("name", INI_FILES)
def test_each_ini_file_alone(tmp_path: Path, name: str) -> None:
    folder, canary = hostile(tmp_path)
    for other in INI_FILES.keys() - {name}:
        (folder / other).unlink()
    write(folder, {"evil.pth": f"import os; open({str(canary)!r}, 'a')\n"})
    assert script(folder, "check", ".").status == 1
    assert not canary.exists(), canary.read_text()


HABITS = {  # what a user may have in the environment or on the command line; the exit status
    "-p evil": 4, "-c pytest.ini": 1, "--rootdir=.": 1, "--import-mode=append --confcutdir=/": 1, "-o pythonpath=.": 1,
    "--doctest-modules --doctest-glob=*.txt": 1, "-p cacheprovider -o cache_dir=c": 1, "test_it.py": 4, "tests": 4,
    "--junitxml=junit.xml": 4, "--debug": 4,
}


@pytest.mark.parametrize("words", HABITS)
def test_options_from_the_environment(tmp_path: Path, words: str) -> None:
    folder, canary = hostile(tmp_path)
    before = listing(folder)
    session = script(folder, "check", ".", PYTEST_ADDOPTS=words)
    assert session.status == HABITS[words], session
    assert not canary.exists(), canary.read_text()
    assert listing(folder) == before


@pytest.mark.parametrize("words", ["-c pytest.ini", "-cpytest.ini", "-vc pytest.ini", "--config-file=pytest.ini", "--rootdir=.",
                                   "-p evil", "--pyargs evil", "-o pythonpath=. -p evil", "tests/test_it.py"])
def test_options_that_lead_there(tmp_path: Path, words: str) -> None:
    folder, canary = hostile(tmp_path)
    before = listing(folder)
    session = script(folder, "check", ".", *words.split())
    assert session.status == 4, session
    assert not canary.exists(), canary.read_text()
    assert listing(folder) == before


def test_plugins_from_the_environment(tmp_path: Path) -> None:
    folder, canary = hostile(tmp_path)
    assert script(folder, "check", ".", PYTEST_PLUGINS="evil").status == 4
    assert not canary.exists(), canary.read_text()
    assert script(folder, "check", ".", PYTEST_DISABLE_PLUGIN_AUTOLOAD="1").status == 1


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
