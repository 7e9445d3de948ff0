"""What is collected, how much of it runs, and what the exit status says."""

import json
import textwrap
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from sessions import entry, listing, manifest, papers, pytest_session, run, write

TRAP = "import pathlib\npathlib.Path({canary!r}).touch()\n"


def broken(folder: Path) -> Path:
    """A campaign that is rejected for one empty file."""
    papers(folder)
    write(folder, {"runs/variant/notes.md": ""})
    return folder


def test_the_directory_alone_or_beside_other_arguments(tmp_path: Path) -> None:
    papers(tmp_path / "out")
    write(tmp_path, {"tests/test_own.py": "def test_own(): pass\n", "pytest.ini": "[pytest]\ntestpaths = tests\n"})
    alone = pytest_session(tmp_path, "--campaign-dir=out", "--co", "-q").ids
    assert alone
    assert all(id.startswith("out") for id in alone)
    for words in (["tests"], ["."], ["tests", "out"], ["tests", "--campaign-dir=./out/"]):
        both = pytest_session(tmp_path, "--campaign-dir=out", *words, "--co", "-q").ids
        assert sorted(both) == sorted([*alone, "tests/test_own.py::test_own"]), words
    mixed = pytest_session(tmp_path, "--campaign-dir", "out", "tests", "out/analysis.md", "out::manifest", "-v")
    assert mixed.counts["passed"] == 2 + sum(id.startswith("out/analysis.md") for id in alone)
    assert mixed.last.startswith("campaign small: PARTIAL, ")


def test_paths_select_what_lies_below(tmp_path: Path) -> None:
    papers(tmp_path / "out")
    everything = pytest_session(tmp_path, "--campaign-dir=out", "--co", "-q").ids
    for words in (["out/runs/control"], ["./out/runs/control/"], [str(tmp_path / "out/runs/control")]):
        assert pytest_session(tmp_path, "--campaign-dir=out", *words, "--co", "-q").ids \
            == [id for id in everything if id.startswith("out/runs/control/")]
    inside = pytest_session(tmp_path / "out/runs", "--campaign-dir=..", "control", "-v")
    assert inside.counts["passed"] == sum(id.startswith("out/runs/control/") for id in everything)


def test_several_directories(tmp_path: Path) -> None:
    papers(tmp_path / "one")
    papers(tmp_path / "two")
    (tmp_path / "link").symlink_to("one")
    more = ["--campaign-dir=./one/", "--campaign-dir=link"]  # the same again
    session = pytest_session(tmp_path, "--campaign-dir=one", "--campaign-dir", "two", *more)
    assert session.status == 0
    assert session.out.count("campaign small: ACCEPTED") == 2
    words = ["two::manifest", "link/analysis.md"]
    chosen = pytest_session(tmp_path, "--campaign-dir=one", "--campaign-dir=two", *words, "--co", "-q").ids
    assert "two::manifest" in chosen
    assert {id.partition("::")[0] for id in chosen} == {"two", "one/analysis.md"}
    nested = pytest_session(tmp_path, "--campaign-dir=one", "--campaign-dir=one/runs")
    assert nested.status == 4
    assert "lies in" in nested.err


def test_nothing_happens_without_the_option(tmp_path: Path) -> None:
    write(tmp_path, {"test_own.py": textwrap.dedent("""
        import sys
        def test_nothing_is_imported():
            ours = {name for name in sys.modules if name.startswith("pytest_campaign")}
            assert ours <= {"pytest_campaign", "pytest_campaign.plugin", "pytest_campaign.hookspecs"}
            assert "pytest_campaign.plugin" in ours
            assert not {"torch", "jsonschema", "yaml", "safetensors"} & sys.modules.keys()
        """)})
    alone = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # other plugins import what they like
    session = pytest_session(tmp_path, "-W", "error", "-p", "pytest_campaign.plugin", **alone)
    assert session.status == 0, session.out
    assert "campaign small" not in session.out
    assert pytest_session(tmp_path, "--campaign-report=x.json").status == 4
    off = pytest_session(tmp_path, "-p", "no:campaign", "--campaign-dir=out")
    assert off.status == 4
    assert "unrecognized arguments" in off.err


def test_code_in_the_directory_is_not_run_and_nothing_is_written(tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    trap = TRAP.format(canary=str(canary))
    folder = papers(tmp_path / "test_out")
    names = ("conftest.py", "test_it.py", "setup.py", "__init__.py", "runs/conftest.py", "runs/control/test_x.py")
    write(folder, dict.fromkeys(names, trap))
    (tmp_path / "testalias").symlink_to("test_out")
    before = listing(folder)
    for cwd, words in (
        (tmp_path, ["--campaign-dir=test_out"]),
        (tmp_path, ["--campaign-dir", "test_out", ".", "test_out/runs"]),
        (folder / "runs", ["--campaign-dir=..", "-n2"]),
        (folder, ["--campaign-dir=.", "."]),
    ):
        session = pytest_session(cwd, *words)
        assert session.status == 0, session
        assert not canary.exists()
        assert listing(folder) == before
    ordinary = pytest_session(tmp_path, "test_out")
    assert canary.exists(), ordinary  # the trap does work


@pytest.fixture(scope="module")
def rejected(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a campaign ``out`` of which two deliverables at one path are rejected."""
    top = tmp_path_factory.mktemp("rejected")
    broken(top / "out")
    return top


def test_selections_never_narrow_what_is_asked_for(rejected: Path) -> None:
    total = len(pytest_session(rejected, "--campaign-dir=out", "--co", "-q").ids)
    for words, status in (
        (["-k", "analysis"], 0),
        (["-k", "variant/again"], 1),
        (["-m", "not campaign"], 5),
        (["--deselect", "out/runs"], 0),
        (["out/runs/variant"], 1),
    ):
        session = pytest_session(rejected, "--campaign-dir=out", *words, "--strict-markers")
        ran = sum(session.counts.get(word, 0) for word in ("passed", "failed"))
        assert session.last == f"campaign small: PARTIAL, {ran} of {total} checks ran", words
        assert session.status == status, words
    whole = pytest_session(rejected, "--campaign-dir=out", "-m", "campaign", "-W", "error")
    assert whole.status == 1
    assert "REJECTED" in whole.last
    assert whole.counts == {"failed": 2, "passed": total - 2}


def test_failures_come_again(rejected: Path) -> None:
    assert pytest_session(rejected, "--campaign-dir=out", "-q").status == 1
    last = pytest_session(rejected, "--campaign-dir=out", "--lf")
    assert (last.status, last.counts["failed"], last.counts.get("passed")) == (1, 2, None)
    assert "PARTIAL" in last.last
    first = pytest_session(rejected, "--campaign-dir=out", "--ff", "-v")
    assert first.counts["passed"] > 1
    stopped = pytest_session(rejected, "--campaign-dir=out", "-x")
    assert (stopped.status, stopped.counts["failed"]) == (1, 1)
    assert "ACCEPTED," not in stopped.last


def test_places_of_failures(rejected: Path) -> None:
    session = pytest_session(rejected, "--campaign-dir=out", "--junitxml=junit.xml", "--durations=3", "-p", "no:cacheprovider")
    summary = [line for line in session.out.splitlines() if line.startswith("FAILED")]
    assert len(summary) == 2
    assert all("out/runs/variant/notes.md::content" in line for line in summary)
    assert all("content.empty: runs/variant/notes.md" in line for line in summary)
    cases = ET.parse(rejected / "junit.xml").getroot().iter("testcase")
    failures = [case for case in cases if case.find("failure") is not None]
    assert len(failures) == 2
    for case in failures:
        properties = {(element.get("name"), element.get("value")) for element in case.iter("property")}
        assert ("campaign_rule", "content.empty") in properties
        assert ("campaign", "small") in properties
        assert "runs/variant/notes.md" in case.find("failure").get("message")


def test_how_much_is_said(rejected: Path) -> None:
    said = {words: pytest_session(rejected, "--campaign-dir=out", *words.split())
            for words in ("-q", "-qq", "-v", "-p no:terminal", "--no-summary")}
    assert {words: session.status for words, session in said.items()} == dict.fromkeys(said, 1)
    assert "REJECTED" in said["-q"].last
    assert "control/figures" in said["-v"].out
    assert said["-p no:terminal"].out == ""
    assert "campaign small" not in said["-qq"].out
    assert "campaign small: " not in said["--no-summary"].out
    listed = pytest_session(rejected, "--campaign-dir=out", "--co")
    assert listed.status == 0
    assert "REJECTED" not in listed.out


CONFTESTS = {
    "skips": """
        def pytest_collection_modifyitems(items):
            for item in items:
                item.add_marker("skip")
        """,
    "expects failures": """
        import pytest
        def pytest_collection_modifyitems(items):
            for item in items:
                item.add_marker(pytest.mark.xfail(run=False))
        """,
    "passes all": """
        import pytest
        @pytest.hookimpl(wrapper=True)
        def pytest_runtest_makereport():
            report = yield
            report.outcome, report.longrepr = "passed", None
            return report
        """,
    "loses results": """
        import pytest
        @pytest.hookimpl(wrapper=True, tryfirst=True)
        def pytest_runtest_makereport():
            report = yield
            vars(report).pop("campaign_result", None)
            return report
        """,
    "runs nothing": """
        def pytest_runtest_protocol(item):
            return True
        """,
}


@pytest.mark.parametrize("conftest", CONFTESTS)
def test_a_conftest_cannot_accept(tmp_path: Path, conftest: str) -> None:
    (papers if conftest != "passes all" else broken)(tmp_path / "out")
    write(tmp_path, {"conftest.py": textwrap.dedent(CONFTESTS[conftest])})
    session = pytest_session(tmp_path, "--campaign-dir=out", "--campaign-report=report.json")
    assert session.status == 1, session
    assert ": ACCEPTED" not in session.out
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["campaigns"][0]["verdict"] in ("unverified", "rejected")


def test_each_conftest_above_the_campaign_takes_part(tmp_path: Path) -> None:
    """Also in a session that is started for other tests; those of the other tests do not."""
    papers(tmp_path / "out")
    hook = "def pytest_runtest_call(item):\n    print('{} saw', item.nodeid)\n"
    write(tmp_path, {"conftest.py": hook.format("root"), "tests/conftest.py": hook.format("neighbour"),
                     "tests/test_own.py": "def test_own(): pass\n"})
    session = pytest_session(tmp_path, "tests", "--campaign-dir=out", "-s")
    assert "root saw out::manifest" in session.out
    assert "neighbour saw tests/test_own.py::test_own" in session.out
    assert "neighbour saw out" not in session.out


def test_a_plan_of_the_session_accepts_nothing(tmp_path: Path) -> None:
    papers(tmp_path / "out")
    session = pytest_session(tmp_path, "--campaign-dir=out", "--setup-plan")
    assert session.status == 1
    assert "INCOMPLETE, 0 of" in session.last


def test_an_empty_directory_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    session = pytest_session(tmp_path, "--campaign-dir=out")
    assert session.status == 1
    assert "REJECTED" in session.last


def test_an_aborted_or_missing_deliverable_is_shown(tmp_path: Path) -> None:
    write(tmp_path / "out", {"here.md": "x\n"})
    manifest(tmp_path / "out", entry("here", "here.md"), entry("gone", "gone.md"))
    session = pytest_session(tmp_path, "--campaign-dir=out")
    assert session.status == 1
    assert "MISSING     gone" in session.out
    assert "ACCEPTED    here" in session.out


def test_the_module_can_be_run(tmp_path: Path) -> None:
    import sys

    papers(tmp_path / "out")
    assert run([sys.executable, "-m", "pytest", "--campaign-dir=out", "-q"], tmp_path).status == 0
