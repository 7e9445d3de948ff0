"""With workers of pytest-xdist: the same report, one look at the directory, and no verdict from what a worker lost."""

import json
import textwrap
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from sessions import entry, manifest, papers, pytest_session, write

pytest.importorskip("xdist")


def weights(folder: Path) -> Path:
    """A campaign with a control in the torch format and a variant in safetensors, one of them with a value that is no number."""
    tensors = {"weight": torch.arange(12.0).reshape(3, 4), "bias": torch.ones(3)}
    (folder / "control").mkdir(parents=True)
    torch.save(tensors, folder / "control/last.pt")
    write(folder, {"variant/model.safetensors": safetensors.torch.save({**tensors, "bias": torch.full((3,), float("nan"))}),
                   "analysis.md": "The control wins.\n"})
    manifest(folder, entry("analysis", "analysis.md", "analysis"), runs={
        "control": [entry("last", "control/last.pt", "checkpoint")],
        "variant": [entry("model", "variant/model.safetensors", "checkpoint"), entry("gone", "variant/gone.pt", "checkpoint")]})
    return folder


def without_times(value: Any) -> Any:
    """A report without what is never the same twice."""
    if isinstance(value, dict):
        return {key: without_times(item) for key, item in value.items() if key not in ("seconds", "started")}
    return [without_times(item) for item in value] if isinstance(value, list) else value


def test_the_report_is_the_same(tmp_path: Path) -> None:
    weights(tmp_path / "out")
    reports, lines = [], []
    for words in ([], ["-n2"], ["-n2", "--dist=loadscope"], ["-n2", "--dist=worksteal"]):
        session = pytest_session(tmp_path, "--campaign-dir=out", "--campaign-report=report.json", *words)
        assert session.status == 1, session
        reports.append(without_times(json.loads((tmp_path / "report.json").read_text())))
        starts = ("MISSING", "REJECTED", "ACCEPTED", "campaign small: ")
        lines.append([line for line in session.out.splitlines() if line.startswith(starts)])
    assert reports[0]["complete"]
    assert {d["id"]: d["verdict"] for d in reports[0]["deliverables"]} \
        == {"control/last": "accepted", "variant/model": "rejected", "variant/gone": "missing", "analysis": "accepted"}
    assert reports[1:] == reports[:1] * 3
    assert lines[1:] == lines[:1] * 3


def test_the_directory_is_looked_at_once(tmp_path: Path) -> None:
    """A checkpoint that a worker makes before it looks around is seen by nobody: not collected and not counted."""
    write(tmp_path, {"out/model.safetensors": safetensors.torch.save({"w": torch.ones(2)}), "conftest.py": textwrap.dedent("""
        import os, pathlib
        if worker := os.environ.get("PYTEST_XDIST_WORKER"):
            pathlib.Path("out", worker + ".safetensors").write_bytes(pathlib.Path("out/model.safetensors").read_bytes())
        """)})
    session = pytest_session(tmp_path, "--campaign-dir=out", "--campaign-report=report.json", "-n2", "-k", "content", "-v")
    assert (tmp_path / "out/gw0.safetensors").exists()
    assert session.counts == {"passed": 1}, session
    [campaign] = json.loads((tmp_path / "report.json").read_text())["campaigns"]
    assert campaign["inventory"]["files"] == 1
    again = pytest_session(tmp_path, "--campaign-dir=out", "-k", "content")
    assert again.counts["passed"] == 3


def test_a_worker_that_dies_leaves_its_check_open(tmp_path: Path) -> None:
    papers(tmp_path / "out")
    write(tmp_path, {"conftest.py": textwrap.dedent("""
        import os
        def pytest_runtest_call(item):
            if item.nodeid.endswith("analysis.md::content") and "PYTEST_XDIST_WORKER" in os.environ:
                os._exit(3)
        """)})
    session = pytest_session(tmp_path, "--campaign-dir=out", "--campaign-report=report.json", "-n2")
    assert session.status == 1, session
    assert "UNVERIFIED  analysis" in session.out
    assert "the worker that ran it died" in session.out
    report = json.loads((tmp_path / "report.json").read_text())
    assert {d["id"]: d["verdict"] for d in report["deliverables"]}["analysis"] == "unverified"
    assert report["campaigns"][0]["verdict"] == "unverified"
    assert pytest_session(tmp_path, "--campaign-dir=out", "-n2", "--noconftest").status == 0
