"""Long reloads: the signs of life that they give, and what is left when somebody ends the session in the middle of one."""

import contextlib
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from sessions import entry, environment, manifest, pytest_session, write

PYTEST = Path(sys.executable).with_name("pytest")
IMPATIENT = "from pytest_campaign import progress\nprogress._ELSEWHERE = progress._ON_TERMINAL = 0.0\n"
LINE = r"model\.safetensors: [0-9.]+ [kMG]?B of [0-9.]+ GB read, [0-9]+ s"


def campaign(folder: Path, size: int) -> Path:
    """A campaign whose only checkpoint has ``size`` bytes, which the disk need not hold: they were never written."""
    header = json.dumps({"w": {"dtype": "F32", "shape": [size // 4], "data_offsets": [0, size]}}).encode()
    write(folder, {"model.safetensors": struct.pack("<Q", len(header)) + header, "analysis.md": "Flat.\n"})
    os.truncate(folder / "model.safetensors", 8 + len(header) + size)
    manifest(folder, entry("analysis", "analysis.md", "analysis"), entry("model", "model.safetensors", "checkpoint"))
    return folder


def children(of: int) -> set[int]:
    """The processes that descend from one."""
    parents = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parents[int(status.parent.name)] = int(status.read_text().rpartition(")")[2].split()[1])
    found = {of}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {of}


def reads(pid: int, file: Path) -> bool:
    """Whether a process has a file open."""
    with contextlib.suppress(OSError):
        return any(os.readlink(link) == str(file) for link in Path(f"/proc/{pid}/fd").iterdir())
    return False


def visible(line: str) -> str:
    """What a terminal shows of a line that is written over itself."""
    shown: list[str] = []
    for piece in line.split("\r"):
        shown[: len(piece)] = piece
    return "".join(shown)


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize("words", [[], ["-n2"]])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_session_keeps_what_it_found(tmp_path: Path, number: signal.Signals, words: list[str]) -> None:
    folder = campaign(tmp_path / "out", 15 * 2**30)
    report = tmp_path / "report.json"
    command = [PYTEST, "--campaign-dir=out", "--campaign-report=report.json", *words]
    with subprocess.Popen(command, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, text=True,
                          start_new_session=True) as session:
        try:
            wait_for(lambda: any(reads(pid, folder / "model.safetensors") for pid in children(session.pid)))
            assert json.loads(report.read_text())["complete"] is False
            started = children(session.pid)
            if number is signal.SIGINT:
                os.killpg(session.pid, number)  # as a terminal does
            else:
                session.send_signal(number)
            out, _ = session.communicate(timeout=60)
        finally:
            session.kill()
    assert session.returncode == 2, out
    assert "campaign small: INCOMPLETE, " in out
    content = json.loads(report.read_text())
    assert content["complete"] is False
    assert content["campaigns"][0]["verdict"] == "unverified"
    assert {d["id"]: d["verdict"] for d in content["deliverables"]}["model"] == "unverified"
    assert any(check["outcome"] == "passed" for d in content["deliverables"] for check in d["checks"])
    wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in started))


@pytest.mark.parametrize("words", [[], ["-n1"], ["-s"]])
def test_signs_of_life(tmp_path: Path, words: list[str]) -> None:
    campaign(tmp_path / "out", 2**30)
    write(tmp_path, {"conftest.py": IMPATIENT})
    session = pytest_session(tmp_path, "--campaign-dir=out", "-k", "reload", *words)
    lines = [line for line in (session.out + session.err).splitlines() if re.search(LINE, line)]
    assert len(lines) >= 2, session
    assert all(re.fullmatch(r"(\[gw0\] )?" + LINE, line) for line in lines)
    outcome = [line for line in session.out.splitlines() if line.startswith("out/model.safetensors ")]
    assert words == ["-n1"] or outcome, session


def test_silence(tmp_path: Path) -> None:
    campaign(tmp_path / "out", 2**30)
    write(tmp_path, {"conftest.py": IMPATIENT})
    session = pytest_session(tmp_path, "--campaign-dir=out", "-k", "reload", "-qq")
    assert "read," not in session.out + session.err
    patient = pytest_session(tmp_path, "--campaign-dir=out", "-k", "reload", "--noconftest")
    assert "read," not in patient.out + patient.err


def test_a_terminal_shows_one_line(tmp_path: Path) -> None:
    campaign(tmp_path / "out", 2**30)
    write(tmp_path, {"conftest.py": IMPATIENT})
    ours, theirs = pty.openpty()
    command = [PYTEST, "--campaign-dir=out", "-k", "reload", "--color=no", "-oconsole_output_style=classic"]
    with subprocess.Popen(command, cwd=tmp_path, env=environment(TERM="xterm"), stdin=theirs, stdout=theirs, stderr=theirs):
        os.close(theirs)
        out = b""
        with contextlib.suppress(OSError):  # EIO: the other end is closed
            while chunk := os.read(ours, 65536):
                out += chunk
    os.close(ours)
    lines = out.decode().split("\n")
    drawn = [line for line in lines if re.search(LINE, line)]
    assert len(drawn) == 1, lines
    assert len(re.findall(LINE, drawn[0])) >= 2
    assert "read" not in visible(drawn[0])
