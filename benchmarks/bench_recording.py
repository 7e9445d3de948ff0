"""Kill a recording process at random moments, and time a record: ``python benchmarks/bench_recording.py [ROUNDS]``."""

from __future__ import annotations

import random
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from recorders import faults_after_kills

from pytest_campaign.recording import Campaign


def seconds_each(folder: Path, count: int) -> list[float]:
    """The seconds of each of some records, the manifest growing with each."""
    campaign = Campaign(folder / "out")
    taken = []
    with campaign.run("control") as run:
        for number in range(count):
            file = run.folder / f"{number}.txt"
            file.write_text("text\n")
            started = time.perf_counter()
            run.deliver(f"n{number}", "other", file)
            taken.append(time.perf_counter() - started)
    return taken


def main(rounds: int) -> int:
    """Print both; the exit status is 1 when something was lost."""
    seed = random.randrange(1 << 30)
    with tempfile.TemporaryDirectory() as folder:
        taken = seconds_each(Path(folder, "timed"), 500)
        few, many = (1e3 * sum(some) / 50 for some in (taken[5:55], taken[-50:]))
        print(f"a record takes {few:.1f} ms with few deliverables, {many:.1f} ms with 500")
        wrong = faults_after_kills(Path(folder), rounds, seed)
    print(f"{rounds} kills (seed {seed}): {len(wrong)} faults", *wrong[:20], sep="\n  ")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 100))
