"""What a session found is kept, and what is kept is true: killed at any moment, on a full disk, beside another session."""

import contextlib
import json
import os
import random
import resource
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import campaigns
import pytest
from sessions import SCRIPT, environment, papers, pytest_session, script

from pytest_campaign.baseline import read
from pytest_campaign.reporting.report_file import ReportFile
from pytest_campaign.schema_files import validator

KILLED_AT = """
import os, signal
def pytest_runtest_call(item):
    if item.name == "{}":
        os.kill(os.getpid(), signal.SIGKILL)
"""
KILLS = int(os.environ.get("PYTEST_CAMPAIGN_KILLS", "3"))


def spoiled(folder: Path) -> Path:
    """A campaign with an accepted and a rejected deliverable."""
    made = campaigns.write(folder)
    (made / campaigns.METRICS).write_text('{"loss": NaN}\n')
    made.save()
    return folder


def lines(partial: Path) -> Iterator[dict[str, Any]]:
    """The whole lines of a record; the last one may be cut."""
    for line in partial.read_text("ascii").splitlines(keepends=True)[1:]:
        if line.endswith("\n"):
            yield json.loads(line)


def assert_true(folder: Path, report: Path, truth: dict[str, str]) -> bool:
    """The report is whole and claims nothing that was not found; whether it is complete."""
    content = json.loads(report.read_bytes())
    assert validator("report-1").is_valid(content)
    verdicts = {entry["id"]: entry["verdict"] for entry in content.get("deliverables", ())}
    for id, verdict in verdicts.items():
        assert verdict in ((truth[id],) if content["complete"] else (truth[id], "unverified")), (id, verdict)
    if content["complete"]:
        assert verdicts == truth
    else:
        assert all(campaign["verdict"] != "accepted" for campaign in content["campaigns"])
        with pytest.raises(ValueError, match="incomplete"):
            read(report.read_bytes(), report.name)
    for partial in folder.glob("report.json.partial*.jsonl"):
        for line in lines(partial):
            assert truth.get(line["deliverable"]) != "accepted" or line["outcome"] in ("passed", "skipped"), line
    return bool(content["complete"])


@pytest.mark.parametrize("words", [[], ["-n2"]], ids=["alone", "workers"])
def test_killed_at_any_moment(tmp_path: Path, words: list[str]) -> None:
    spoiled(tmp_path / "out")
    report = tmp_path / "report.json"
    command = ["check", "out", "--campaign-report=report.json", *words]
    started = time.monotonic()
    assert script(tmp_path, *command).status == 1
    longest = time.monotonic() - started
    truth = {entry["id"]: entry["verdict"] for entry in json.loads(report.read_bytes())["deliverables"]}
    assert set(truth.values()) == {"accepted", "rejected"}
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    for _ in range(KILLS):
        report.unlink(missing_ok=True)
        number = chance.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
        with subprocess.Popen([SCRIPT, *command], cwd=tmp_path, env=environment(), start_new_session=True,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as session:
            time.sleep(chance.uniform(0, longest))
            twice = chance.random() < 0.3
            for _ in range(1 + twice):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(session.pid, number)
                time.sleep(0.05 * twice)
            session.wait(60)
        if report.exists():
            assert_true(tmp_path, report, truth)
    assert script(tmp_path, *command).status == 1, seed
    assert assert_true(tmp_path, report, truth)
    assert {path.name for path in tmp_path.iterdir()} == {"out", "report.json"}, seed


def test_a_killed_session_leaves_its_findings(tmp_path: Path) -> None:
    spoiled(tmp_path / "out")
    (tmp_path / "conftest.py").write_text(KILLED_AT.format("reload"))
    session = pytest_session(tmp_path, "--campaign-dir=out", "--campaign-report=report.json")
    assert session.status == -signal.SIGKILL
    content = json.loads((tmp_path / "report.json").read_bytes())
    assert (content["complete"], content["campaigns"]) == (False, [])
    found = list(lines(tmp_path / "report.json.partial.jsonl"))
    assert {(line["deliverable"], line["check"], line["outcome"]) for line in found} >= {
        (None, "manifest", "passed"), ("control/last", "content", "passed"), ("control/metrics", "data", "failed")}
    assert not any(line["check"] == "reload" for line in found)
    assert any(finding["rule"].startswith("data.") for line in found for finding in line["findings"])


@pytest.mark.parametrize("words", [["--co"], ["--campaign-gate=none"], ["out::nothing"], ["--help"]])
def test_a_session_that_checks_nothing_leaves_no_record(tmp_path: Path, words: list[str]) -> None:
    papers(tmp_path / "out")
    pytest_session(tmp_path, "--campaign-dir=out", "--campaign-report=report.json", *words)
    assert not list(tmp_path.glob("*partial*"))


@pytest.mark.parametrize("more", [-100, 500])
def test_a_full_disk(tmp_path: Path, more: int) -> None:
    """A limit of the size of files stands for it: too small for the first report by 100 bytes, or too small for the last one."""
    papers(tmp_path / "out")
    (tmp_path / "conftest.py").write_text(KILLED_AT.format("manifest"))
    pytest_session(tmp_path, "--campaign-dir=out", "--campaign-report=begun.json")
    limit = (tmp_path / "begun.json").stat().st_size + more

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    session = subprocess.run([SCRIPT, "check", "out", "--campaign-report=report.json"], cwd=tmp_path,
                             env=environment(), capture_output=True, text=True, preexec_fn=limited, timeout=300)
    text = session.stdout + session.stderr
    assert session.returncode == 4, session
    assert "report.json" in text
    assert "File too large" in text
    assert "Traceback" not in text
    if more < 0:
        assert not (tmp_path / "report.json").exists()
    else:
        assert "campaign small: ACCEPTED" in text  # what was found is shown all the same
        assert json.loads((tmp_path / "report.json").read_bytes())["complete"] is False
        assert next(lines(tmp_path / "report.json.partial.jsonl"))["outcome"] == "passed"
    assert not list(tmp_path.glob("*.tmp"))


def test_two_sessions_on_one_report(tmp_path: Path) -> None:
    spoiled(tmp_path / "out")
    command = [SCRIPT, "check", "out", "--campaign-report=report.json"]
    both = [subprocess.Popen(command, cwd=tmp_path, env=environment(), stdout=subprocess.DEVNULL) for _ in range(2)]
    assert [session.wait(300) for session in both] == [1, 1]
    assert json.loads((tmp_path / "report.json").read_bytes())["complete"] is True
    assert {path.name for path in tmp_path.iterdir()} == {"out", "report.json"}


def test_a_report_that_came_to_its_end_is_not_replaced_by_one_that_did_not(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    one, other = ReportFile(report), ReportFile(report)
    assert one.partial != other.partial
    one.begin("one begins", "one")
    other.begin("other begins", "other")
    assert other.finish("other", complete=True)
    one.add("more")
    assert not one.finish("one", complete=False)
    assert report.read_text() == "other"
    assert one.partial.read_text() == "one\nmore\n"
    assert not other.partial.exists()
    third = ReportFile(report)  # takes the place of the dead
    assert third.partial == one.partial
    third.begin("third begins", "third")
    assert third.finish("third", complete=False)
    assert (report.read_text(), third.partial.read_text()) == ("third", "third\n")


@pytest.mark.parametrize("trap", ["link", "hard link", "pipe"])
def test_what_lies_at_the_place_of_the_record_is_never_written_to(tmp_path: Path, trap: str) -> None:
    precious = tmp_path / "precious"
    precious.write_text("mine")
    place = tmp_path / "report.json.partial.jsonl"
    if trap == "pipe":
        os.mkfifo(place)
    else:
        os.symlink(precious, place) if trap == "link" else os.link(precious, place)
    with contextlib.suppress(OSError):
        ReportFile(tmp_path / "report.json").begin("report", "line")
    assert precious.read_text() == "mine"
