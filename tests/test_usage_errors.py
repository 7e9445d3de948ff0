"""Options that cannot be honoured end with exit status 4 and say what to do, before anything is checked."""

import os
from pathlib import Path

import pytest
from sessions import listing, papers, pytest_session, script, write

WRONG = {
    "--campaign-dir=nowhere": "nowhere is not a directory",
    "--campaign-dir=file": "file is not a directory",
    "--campaign-max-depth=deep": "--campaign-max-depth",
    "--campaign-require-depth=": "--campaign-require-depth",
    "--campaign-timeout=0": "positive number of seconds",
    "--campaign-timeout=nan": "positive number of seconds",
    "--campaign-timeout=soon": "--campaign-timeout",
    "--campaign-memory=8 apples": "8GiB",
    "--campaign-memory=0": "8GiB",
    "--campaign-jobs=0": "1 to 999",
    "--campaign-jobs=1.5": "1 to 999",
    "--campaign-gate=useful": "essential and all",
    "-ocampaign_gate=none": "campaign_gate",
    "--campaign-plan=nowhere.json": "no such file",
    "--campaign-report=report.txt": ".json",
    "--campaign-report=nowhere/report.json": "no directory",
    "--campaign-report=out/report.json": "campaign-report.",
    "--campaign-report=out/runs/campaign-report.json": "campaign-report.",
    "--campaign-report=out/manifest.json": "campaign-report.",
    "--basetemp=out/tmp": "--basetemp",
    "--junitxml=out/junit.xml": "--junitxml",
    "-ocache_dir=out/cache": "cache_dir",
    "--rootdir=out": "--rootdir",
    "--rootdir=out/runs": "--rootdir",
    "--log-file=out/runs/pytest.log": "--log-file",
    "-olog_file=out/pytest.log": "log_file",
    "--debug=out/debug.log": "--debug",
    "--html=out/report.html": "--html",
    "-ocampaign_timeout=soon": "campaign_timeout",
}


@pytest.fixture(scope="module")
def top(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("top")
    papers(folder / "out")
    write(folder, {"file": "", "pytest.ini": "[pytest]\n"})
    return folder


@pytest.mark.parametrize("word", WRONG)
def test_a_wrong_option(top: Path, word: str) -> None:
    before = listing(top / "out")
    session = pytest_session(top, "--campaign-dir=out", word)
    assert session.status == 4
    assert session.out.strip() == ""
    assert WRONG[word] in session.err
    assert "Traceback" not in session.err
    assert listing(top / "out") == before


def test_sound_neighbours(top: Path) -> None:
    session = pytest_session(top, "--campaign-dir=out/", "--campaign-max-depth=header", "--campaign-require-depth=header",
                             "--campaign-timeout=.5", "--campaign-memory=1.5GiB", "--campaign-jobs=2",
                             "--campaign-report=report.json", "--basetemp=tmp",
                             "--junitxml=junit.xml", "-ocache_dir=cache", "--campaign-report=out/campaign-report.json",
                             "--log-file=out.log", "--debug=debug.log", "--rootdir=.")
    assert session.status == 0, session
    assert (top / "out/campaign-report.json").read_bytes() == (top / "report.json").read_bytes()
    assert pytest_session(top, "--campaign-dir=out").status == 0  # the report is no output of the campaign
    (top / "out/campaign-report.json").unlink()


@pytest.mark.parametrize("ini", ["campaign_timeout = 30\ncampaign_jobs = 2", "campaign_timeout = 1.5",
                                 'campaign_memory = "8GiB"\ncampaign_plan = ""'])
def test_numbers_in_toml(tmp_path: Path, ini: str) -> None:
    papers(tmp_path / "out")
    write(tmp_path, {"pyproject.toml": f"[tool.pytest]\n{ini}\n"})
    assert pytest_session(tmp_path, "--campaign-dir=out").status == 0


@pytest.mark.parametrize("ini", ["campaign_timeout = []", "campaign_timeout = 0", "campaign_jobs = 2.5", "campaign_jobs = true",
                                 "campaign_memory = 0", "campaign_plan = 1", "campaign_max_depth = 2"])
def test_other_values_in_toml(tmp_path: Path, ini: str) -> None:
    papers(tmp_path / "out")
    write(tmp_path, {"pyproject.toml": f"[tool.pytest]\n{ini}\n"})
    session = pytest_session(tmp_path, "--campaign-dir=out")
    assert session.status == 4, session
    assert ini.partition(" ")[0] in session.err
    assert "INTERNALERROR" not in session.out + session.err


@pytest.mark.parametrize("words", [["--campaign-dir", "out"], ["--campaign-dir=.", "inside"]])
def test_an_ini_file_inside_the_directory_names_the_safe_form(tmp_path: Path, words: list[str]) -> None:
    folder = papers(tmp_path / "out")
    write(folder, {"pytest.ini": "[pytest]\naddopts = -p evil\npythonpath = .\n",
                   "evil.py": f"open({str(tmp_path / 'canary')!r}, 'w')\n"})
    session = pytest_session(*((folder, words[0]) if "inside" in words else (tmp_path, *words)))
    assert session.status == 4, session
    assert "may already have run" in " ".join(session.err.split())
    assert f"pytest-campaign check {folder}" in session.err
    assert pytest_session(tmp_path, "--campaign-dir=out").status == 0  # written with = the file is not read


@pytest.mark.parametrize("variable", ["TMPDIR", "PYTEST_DEBUG_TEMPROOT", "PYTHONPYCACHEPREFIX"])
def test_a_variable_that_leads_there(tmp_path: Path, variable: str) -> None:
    folder = papers(tmp_path / "out")
    place = {variable: str(folder / "runs")}
    for session in (pytest_session(tmp_path, "--campaign-dir=out", **place), script(tmp_path, "check", "out", **place)):
        assert session.status == 4, session
        assert variable in session.err
    assert script(tmp_path, "check", "out", **{variable: str(tmp_path)}).status == 0


def test_a_module_that_was_loaded_from_there(tmp_path: Path) -> None:
    folder = papers(tmp_path / "out")
    write(folder, {"code/evil.py": ""})
    own = os.environ.get("PYTHONPATH", str(tmp_path))
    session = pytest_session(tmp_path, "--campaign-dir=out", "-p", "evil", PYTHONPATH=f"{own}:{folder}/code")
    assert session.status == 4, session
    assert "the module evil was already loaded" in " ".join(session.err.split())
    assert f"pytest-campaign check {folder}" in " ".join(session.err.split())
    write(tmp_path, {"sound.py": ""})
    assert pytest_session(tmp_path, "--campaign-dir=out", "-p", "sound", PYTHONPATH=f"{own}:{tmp_path}").status == 0


def test_the_cache_in_the_directory(tmp_path: Path) -> None:
    folder = papers(tmp_path / "out")
    before = listing(folder)
    assert pytest_session(folder, "--campaign-dir=.").status == 0
    last = pytest_session(folder, "--campaign-dir=.", "--lf")
    assert last.status == 4
    assert "--rootdir" in last.err
    assert listing(folder) == before
    assert pytest_session(folder, "--campaign-dir=.", "--lf", f"--rootdir={tmp_path}").status == 0
    environment = pytest_session(tmp_path, "--campaign-dir=/")
    assert environment.status == 4
    assert "environment" in environment.err
