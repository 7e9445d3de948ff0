"""What a reload of many small checkpoints costs beside the plain alternative: a new interpreter for each.

Both sides load the same files of torch.save in a process that is not this one; ours also reads every byte, checks the
checksums and looks for NaN. Our first file pays for the import of torch and is shown apart; the alternative pays for
it with every file. Run it with

    python benchmarks/bench_session.py --files 20
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import torch

PLAIN = "import sys, torch; torch.load(sys.argv[1], weights_only=True)"


def write(directory: Path, count: int) -> Sequence[Path]:
    files = [directory / f"checkpoint-{number:03}.pt" for number in range(count)]
    for number, file in enumerate(files):
        torch.save({"model": {"weight": torch.randn(64, 64), "bias": torch.zeros(64)}, "step": number}, file)
    return files


def ours(directory: Path) -> list[float]:
    """Seconds of each reload, as the report of one session has them."""
    report = directory.parent / "report.json"
    subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--rootdir={directory.parent}",
                    f"--campaign-dir={directory}", f"--campaign-report={report}"],
                   stdout=subprocess.DEVNULL, cwd=directory.parent)
    deliverables = json.loads(report.read_text())["deliverables"]
    return [check["seconds"] for deliverable in deliverables for check in deliverable["checks"] if check["check"] == "reload"]


def plain(file: Path) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", PLAIN, str(file)], check=True)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--files", type=int, default=20)
    count = parser.parse_args().files
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch, "out")
        directory.mkdir()
        files = write(directory, count + 1)
        first, *others = ours(directory)
        alternative = [plain(file) for file in files[:5]]
    each, other = statistics.median(others), statistics.median(alternative)
    print(f"first reload (imports torch)  {first:6.2f} s")
    print(f"each of the others            {each:6.3f} s   at most {max(others):.3f} s")
    print(f"a new interpreter for each    {other:6.2f} s")
    print(f"ratio                         {other / each:6.0f} times")


if __name__ == "__main__":
    main()
