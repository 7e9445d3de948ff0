"""The report file: where it may be written, when it is complete, and that it does not depend on a terminal."""

from __future__ import annotations

import json
from pathlib import Path

import campaigns
import pytest
from sessions import pytest_session, script


@pytest.mark.parametrize("where", ["a directory", "a place where nothing can be written"])
def test_a_report_that_cannot_be_written_is_a_usage_error(tmp_path: Path, where: str) -> None:
    campaigns.write(tmp_path / "out").save()
    report = tmp_path / "report.json" if where == "a directory" else Path("/proc/report.json")
    if where == "a directory":
        report.mkdir()
    session = pytest_session(tmp_path, "--campaign-dir=out", f"--campaign-report={report}")
    assert session.status == 4
    assert "--campaign-report" in session.err
    assert "Traceback" not in session.out + session.err


@pytest.mark.parametrize("words", [("-x",), ()])
def test_a_session_that_was_cut_short_is_incomplete(tmp_path: Path, words: tuple[str, ...]) -> None:
    made = campaigns.write(tmp_path / "out").save()
    (made / campaigns.METRICS).unlink()
    session = pytest_session(tmp_path, "--campaign-dir=out", "--campaign-report=report.json", *words)
    assert session.status == 1
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["complete"] is not bool(words)
    left = [check for entry in report["deliverables"] for check in entry["checks"] if check["reason"] == "did not run"]
    assert bool(left) is bool(words)


def test_it_needs_no_terminal(tmp_path: Path) -> None:
    campaigns.write(tmp_path / "out").save()
    session = pytest_session(tmp_path, "-p", "no:terminal", "--campaign-dir=out", "--campaign-report=report.json")
    assert session.status == 0
    assert json.loads((tmp_path / "report.json").read_text())["campaigns"][0]["verdict"] == "accepted"


def test_commands_that_are_shown_can_be_pasted(tmp_path: Path) -> None:
    campaigns.write(tmp_path / "two words").save()
    (tmp_path / "two words/manifest.json").unlink()
    (tmp_path / "two words/plan.json").unlink()
    assert "--campaign-dir 'two words' --campaign-draft" in pytest_session(tmp_path, "--campaign-dir=two words").out
    assert "pytest --campaign-dir 'two words'" in script(tmp_path, "draft", "two words").out
