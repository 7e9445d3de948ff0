"""How a whole check grows with the size of the campaign: time and memory for all of it and for a tenth of it.

    python benchmarks/bench_scale.py [--files 100000] [--deliverables 10000] [--folder DIR]

Two kinds of campaign are written to a temporary folder and deleted at the end: one data set of so many small files, and so many
deliverables of mixed kinds (metrics in JSON and CSV, predictions, parameters, logs, weights) with digests in the manifest and a
plan. Each is checked by the real command, in a process of its own, whose time of the processor and peak of memory count (with the
processes that it starts). Linear growth is a ratio of 10; it should stay below 12.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parent.parent
MOST = 12  # times the tenth
PER_RUN = 10


def small_files(folder: pathlib.Path, count: int) -> None:
    """One deliverable of ``count`` files of a few bytes."""
    for number in range(count):
        path = folder / f"data/{number // 1000:03}/{number:06}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(str(number))
    (folder / "manifest.json").write_text(json.dumps({
        "manifest_version": 1, "campaign": "files", "runs": [],
        "deliverables": [{"id": "data", "kind": "dataset", "path": "data"}]}))


def _weights(number: int) -> bytes:
    header = json.dumps({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
    return struct.pack("<Q", len(header)) + header + struct.pack("<2f", number, 1)


_KINDS: tuple[tuple[str, str, str, Callable[[int], bytes]], ...] = (
    ("metrics", "metrics", "json", lambda number: json.dumps({"loss": number / 7}).encode()),
    ("history", "metrics", "csv", lambda number: b"step,loss\n" + b"".join(b"%d,%d.5\n" % (n, number) for n in range(20))),
    ("answers", "predictions", "jsonl", lambda number: b"".join(b'{"id": %d, "answer": %d}\n' % (n, number) for n in range(20))),
    ("table", "predictions", "csv", lambda number: b"id,answer\n" + b"".join(b"%d,%d\n" % (id, number) for id in range(20))),
    ("parameters", "parameters", "json", lambda number: json.dumps({"lr": number / 1e6}).encode()),
    ("log", "log", "log", lambda number: b"done\n"),
)


def mixed(folder: pathlib.Path, count: int, weights: int) -> None:
    """``count`` deliverables, ten in each run, the first ``weights`` runs with weights that are reloaded."""
    runs = []
    for run in range(count // PER_RUN):
        at = f"runs/r{run}"
        (folder / at).mkdir(parents=True)
        listed = [_entry(folder, at, run * PER_RUN + place, run < weights and place == 0) for place in range(PER_RUN)]
        runs.append({"id": f"r{run}", "status": "completed", "deliverables": listed})
    plan = json.dumps({"plan_version": 1, "campaign": "mixed", "question": "How does it grow?", "runs": [
        {"id": run["id"], "deliverables": [{"id": one["id"], "kind": one["kind"]} for one in run["deliverables"]]}
        for run in runs]}).encode()
    (folder / "plan.json").write_bytes(plan)
    (folder / "manifest.json").write_text(json.dumps({
        "manifest_version": 1, "campaign": "mixed", "runs": runs,
        "plan": {"path": "plan.json", "sha256": hashlib.sha256(plan).hexdigest()}}))


def _entry(folder: pathlib.Path, at: str, number: int, weights: bool) -> dict[str, object]:
    name, kind, suffix, content = ("weights", "checkpoint", "safetensors", _weights) if weights else _KINDS[number % len(_KINDS)]
    path, data = f"{at}/{name}-{number}.{suffix}", content(number)
    (folder / path).write_bytes(data)
    more: dict[str, object] = {"key": ["id"], "value": "answer"} if kind == "predictions" else {}
    files = [{"path": path, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}]
    return {"id": f"{name}-{number}", "kind": kind, "path": path, "files": files, **more}


class Measured(NamedTuple):
    """Seconds of the processor and MiB at most of one check."""

    seconds: float
    memory: float


def check(folder: pathlib.Path) -> Measured:
    """Check a campaign by the real command; it must be accepted."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "--campaign-dir", str(folder)]
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, cwd=folder.parent, stdout=output, stderr=output,
                                   env=os.environ | {"PYTHONPATH": str(ROOT)})
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            output.seek(0)
            sys.exit(output.read().decode(errors="replace")[-2000:])
    return Measured(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def compare(title: str, write: Callable[[pathlib.Path, int], None], count: int, scratch: pathlib.Path) -> Iterator[str]:
    """The lines about one kind of campaign."""
    measured = []
    for part in (count // 10, count):
        folder = scratch / f"{title.split()[-1]}-{part}"
        folder.mkdir()
        write(folder, part)
        measured.append(check(folder))
    tenth, whole = measured
    yield f"{count:,} {title}: {whole.seconds:.1f} s, {whole.memory:.0f} MiB at most"
    ratio = whole.seconds / tenth.seconds
    yield (f"  a tenth of them: {tenth.seconds:.1f} s, {tenth.memory:.0f} MiB; ratio {ratio:.1f}"
           + ("" if ratio < MOST else f", NOT BELOW {MOST}"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--deliverables", type=int, default=10_000)
    parser.add_argument("--weights", type=int, default=10, help="runs with weights that are reloaded, of each campaign")
    parser.add_argument("--folder", type=pathlib.Path)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=asked.folder) as temporary:
        scratch = pathlib.Path(temporary)
        for line in compare("small files", small_files, asked.files, scratch):
            print(line, flush=True)
        write = functools.partial(mixed, weights=asked.weights)
        for line in compare("deliverables", write, asked.deliverables, scratch):
            print(line, flush=True)


if __name__ == "__main__":
    main()
