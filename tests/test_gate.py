"""``--campaign-gate``: which deliverables decide about the campaign and the exit status."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import campaigns
import pytest
from campaigns import LAST, METRICS, Written
from sessions import pytest_session


def empty(made: Written) -> None:
    (made / METRICS).write_bytes(b"")


def gone(made: Written) -> None:
    (made / METRICS).unlink()


def not_listed(made: Written) -> None:
    made.run("control")["deliverables"].pop()


def written(folder: Path, spoil: Callable[[Written], None], priority: str) -> Written:
    """A spoilt campaign whose metrics have that priority."""
    made = campaigns.write(folder / "out")
    made.planned("control/metrics")["priority"] = priority
    spoil(made)
    return made.save()


@pytest.mark.parametrize(("spoil", "priority", "gate", "status"), [
    (empty, "essential", None, 1), (empty, "essential", "essential", 1), (empty, "essential", "all", 1),
    (empty, "useful", None, 1), (empty, "useful", "essential", 0), (empty, "exploratory", "all", 1),
    (gone, "essential", "essential", 1), (gone, "useful", None, 0), (gone, "useful", "essential", 0), (gone, "useful", "all", 1),
    (not_listed, "essential", "essential", 1), (not_listed, "useful", None, 0), (not_listed, "useful", "all", 1),
])
def test_what_decides(tmp_path: Path, spoil: Callable[[Written], None], priority: str, gate: str | None, status: int) -> None:
    written(tmp_path, spoil, priority)
    option = () if gate is None else (f"--campaign-gate={gate}",)
    session = pytest_session(tmp_path, "--campaign-dir=out", "--campaign-report=r.json", *option)
    assert session.status == status, session
    report = json.loads((tmp_path / "r.json").read_text())
    assert report["campaigns"][0]["verdict"] == ("accepted" if status == 0 else "rejected")
    verdict = next(d for d in report["deliverables"] if d["id"] == "control/metrics")["verdict"]
    assert verdict == ("rejected" if spoil is empty else "missing")  # shown as it is, whatever decides


@pytest.mark.parametrize(("gate", "status"), [("essential", 0), ("all", 1)])
def test_with_workers(tmp_path: Path, gate: str, status: int) -> None:
    written(tmp_path, empty, "useful")
    session = pytest_session(tmp_path, "--campaign-dir=out", f"--campaign-gate={gate}", "-n", "1")
    assert session.status == status, session


def test_selected_checks_of_what_does_not_decide(tmp_path: Path) -> None:
    written(tmp_path, empty, "useful")
    assert pytest_session(tmp_path, "--campaign-dir=out", f"out/{METRICS}").status == 1
    session = pytest_session(tmp_path, "--campaign-dir=out", "--campaign-gate=essential", f"out/{METRICS}")
    assert session.status == 0
    assert "PARTIAL" in session.out


def test_an_essential_neighbour_still_decides(tmp_path: Path) -> None:
    made = written(tmp_path, empty, "useful")
    (made / LAST).write_bytes(b"")
    assert pytest_session(tmp_path, "--campaign-dir=out", "--campaign-gate=essential").status == 1
