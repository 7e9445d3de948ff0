"""What comparing digests costs beside the plain alternatives, on the same trees in the page cache.

    python benchmarks/bench_fixity.py [--files 20000] [--gib 2] [--threads 2] [--rounds 3]

Two trees: many files of a few bytes, and one large file. Each is a BagIt bag with a ``SHA256SUMS``. Three sides take turns, each
in a process of its own, and the fastest round of each counts: ours (walk, recognition, all lists and the bag, without pytest),
``sha256sum -c --quiet``, and ``bagit.py --validate`` where it is installed. A tenth of the small files shows how the time grows;
the peak of our memory is what the system says.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence

ROOT = pathlib.Path(__file__).resolve().parent.parent
OURS = """
import sys
from pytest_campaign import snapshot
from pytest_campaign.campaign import Asked
from pytest_campaign.checks import Pair
from pytest_campaign.evidence import Files
from pytest_campaign.session import run_check
campaign = snapshot.campaign(snapshot.take(sys.argv[1]), Asked())
result = run_check(campaign, Pair(None, "fixity"), Files(campaign.inventory, None, digest=False, threads=int(sys.argv[2])))
sys.exit(0 if result.outcome == "passed" else str(result.findings[:3]))
"""


def write(folder: pathlib.Path, count: int, size: int) -> None:
    """A bag with ``count`` files of ``size`` bytes, and a list of digests beside its manifest."""
    lines = []
    block = os.urandom(min(size, 1 << 20))
    for number in range(count):
        path = folder / f"data/{number // 1000:03}/{number:06}.bin"
        path.parent.mkdir(parents=True, exist_ok=True)
        digest = hashlib.sha256()
        with open(path, "wb") as file:
            head = number.to_bytes(8, "little")
            for part in (head, *(block for _ in range(max(1, size // len(block))))):
                file.write(part)
                digest.update(part)
        lines.append(f"{digest.hexdigest()}  {path.relative_to(folder)}\n")
    (folder / "bagit.txt").write_text("BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n")
    for name in ("manifest-sha256.txt", "SHA256SUMS"):
        (folder / name).write_text("".join(lines))


def seconds(command: Sequence[str], folder: pathlib.Path) -> float:
    start = time.perf_counter()
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                   env=os.environ | {"PYTHONPATH": str(ROOT)})
    return time.perf_counter() - start


def compare(title: str, folder: pathlib.Path, threads: int, rounds: int) -> float:
    """Print the times of all sides; ours is returned."""
    sides = {"ours": [sys.executable, "-c", OURS, str(folder), str(threads)]}
    if shutil.which("sha256sum"):
        sides["sha256sum -c"] = ["sha256sum", "-c", "--quiet", "SHA256SUMS"]
    if importlib.util.find_spec("bagit") is not None:
        sides["bagit.py --validate"] = [sys.executable, "-m", "bagit", "--validate", "--quiet", "."]
    best = {name: min(seconds(command, folder) for _ in range(rounds)) for name, command in sides.items()}
    print(title)
    for name, took in best.items():
        print(f"  {name:22} {took:8.2f} s   ours / this {best['ours'] / took:5.2f}")
    return best["ours"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--files", type=int, default=20_000)
    parser.add_argument("--gib", type=float, default=2.0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        top = pathlib.Path(scratch)
        write(top / "few", max(1, asked.files // 10), 64)
        write(top / "many", asked.files, 64)
        write(top / "large", 1, int(asked.gib * 2**30))
        empty = top / "empty"
        empty.mkdir()
        start = seconds([sys.executable, "-c", OURS, str(empty), "1"], empty)
        few = compare(f"{asked.files // 10:,} small files", top / "few", asked.threads, asked.rounds) - start
        many = compare(f"{asked.files:,} small files", top / "many", asked.threads, asked.rounds) - start
        compare(f"one file of {asked.gib:g} GiB", top / "large", asked.threads, asked.rounds)
    print(f"ten times the small files took {many / few:.1f} times as long, without the start of {start:.2f} s")
    print(f"peak of memory {resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024:.0f} MiB")


if __name__ == "__main__":
    main()
