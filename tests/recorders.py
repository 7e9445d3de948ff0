"""A process that starts recording children in no time, so that many can be killed: ``python recorders.py``.

Each line of its input starts a child (``OUT RUN FIRST COUNT``), which prints ``done NUMBER`` after each deliverable that it has
recorded. An empty line waits for the children and prints ``end``.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Self

from pytest_campaign import documents, schema_files
from pytest_campaign.recording import Campaign


def record(out: str, run: str, first: int, count: int) -> None:
    campaign = Campaign(out)
    with campaign.run(run) as recorded:
        for number in range(first, first + count):
            file = recorded.folder / f"{number}.txt"
            file.write_text(f"{run} {number}\n")
            recorded.deliver(f"n{number}", "other", file)
            os.write(1, f"done {number}\n".encode())


def main() -> None:
    schema_files.validator("manifest-1")
    documents.read_manifest(b'{"manifest_version": 1, "campaign": "warm", "runs": []}')
    children = []
    for line in sys.stdin:
        if words := line.split():
            child = os.fork()
            if not child:
                random.seed()
                record(words[0], words[1], int(words[2]), int(words[3]))
                os._exit(0)
            children.append(child)
            os.write(1, f"pid {child}\n".encode())
        else:
            status = max((abs(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])) for child in children), default=0)
            children.clear()
            os.write(1, f"end {status}\n".encode())


class Recorders:
    """The process, and what its children say. A context manager."""

    def __enter__(self) -> Self:
        self._done: list[int] = []
        self._process = subprocess.Popen([sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return self

    def __exit__(self, *error: object) -> None:
        self._process.communicate()

    def start(self, out: Path, run: str, first: int, count: int) -> int:
        """The id of a child that has begun."""
        self._say(f"{out} {run} {first} {count}\n")
        while not (line := self._line()).startswith("pid"):
            self._done.append(int(line.split()[1]))
        return int(line.split()[1])

    def wait(self) -> tuple[list[int], int]:
        """The numbers that the children said were recorded, and the greatest of their exit statuses."""
        self._say("\n")
        while not (line := self._line()).startswith("end"):
            self._done.append(int(line.split()[1]))
        done, self._done = self._done, []
        return done, int(line.split()[1])

    def _say(self, text: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(text)
        self._process.stdin.flush()

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()


def faults_after_kills(folder: Path, rounds: int, seed: int) -> list[str]:
    """What is wrong after each of many kills at random moments; the same run goes on after each, ten times in one directory."""
    generator = random.Random(seed)
    wrong: list[str] = []
    known: dict[Path, set[int]] = {}
    with Recorders() as recorders:
        for number in range(rounds):
            out = folder / f"out{number // 10}"
            said = known.setdefault(out, set())
            child = recorders.start(out, "control", 1000 * number, 1000)
            time.sleep(generator.uniform(0.0, 0.25))
            os.kill(child, signal.SIGKILL)
            done, _ = recorders.wait()
            said.update(done)
            wrong += [f"round {number}: {fault}" for fault in faults(out, said)]
    return wrong


def faults(out: Path, said: set[int]) -> list[str]:
    """What is wrong with the record of a run that was killed, after it said what it had recorded."""
    file = out / "manifest.json"
    if not file.exists():
        return ["recorded and no manifest"] if said else []
    manifest, found = documents.read_manifest(file.read_bytes())
    if manifest is None or found:
        return [str(found)]
    listed = {int(entry.id.rpartition("n")[2]) for entry in manifest.deliverables}
    wrong = [f"{len(said - listed)} recorded deliverables are lost"] if said - listed else []
    wrong += [f"run {run.id} is {run.status}: {run.abort_reason}" for run in manifest.runs
              if (run.status, run.abort_reason) != ("aborted", "the process ended before the run did")]
    wrong += [f"{path} is left" for path in os.listdir(out) if path not in ("manifest.json", ".manifest.json.part", "runs")]
    return wrong + [f"{entry.path} differs" for entry in manifest.deliverables
                    if (out / entry.path).stat().st_size != entry.files[0].bytes]


if __name__ == "__main__":
    main()
