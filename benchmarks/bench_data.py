"""How fast predictions are compared with their data set, as ratios, and in how much memory.

    python benchmarks/bench_data.py [--rows 1000000] [--folder DIR]

A campaign with predictions and a data set of so many rows, in another order, is written to a temporary folder and deleted at the
end. The check runs in a process of its own for each measurement:

* all rows against a tenth of them (linear growth is 10);
* all rows against a bare loop of ``json.loads`` over the lines of the same two files;
* the peak of memory for all rows and for a tenth of them;
* the same with a hundred ids exchanged, which are then named.
"""

import argparse
import json
import multiprocessing
import multiprocessing.connection
import pathlib
import random
import resource
import sys
import tempfile
import time
from collections.abc import Callable

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

PREDICTIONS, DATA = "runs/control/predictions.jsonl", "data/test.jsonl"


def write(folder: pathlib.Path, rows: int, wrong: int = 0) -> None:
    order = list(range(rows))
    (folder / "data").mkdir(parents=True)
    (folder / "runs/control").mkdir(parents=True)
    with open(folder / DATA, "w") as file:
        for number in order:
            file.write(f'{{"id": "row-{number:08}", "text": "the text of row {number}", "label": {number % 3}}}\n')
    random.Random(0).shuffle(order)
    with open(folder / PREDICTIONS, "w") as file:
        for place, number in enumerate(order):
            id = f"other-{number}" if place < wrong else f"row-{number:08}"
            file.write(f'{{"id": "{id}", "prediction": "{number % 3}", "scores": [0.25, 0.5, 0.25]}}\n')
    (folder / "manifest.json").write_text(json.dumps({
        "manifest_version": 1, "campaign": "large", "datasets": {"test": {"path": DATA, "key": ["id"], "rows": rows}},
        "runs": [{"id": "control", "status": "completed", "deliverables": [
            {"id": "predictions", "kind": "predictions", "path": PREDICTIONS, "dataset": "test", "key": ["id"],
             "value": "prediction"}]}]}))


def check(folder: pathlib.Path) -> int:
    """The findings of the check ``data``."""
    from pytest_campaign import snapshot
    from pytest_campaign.campaign import Asked
    from pytest_campaign.checks import deliverable_checks
    from pytest_campaign.evidence import Files

    campaign = snapshot.campaign(snapshot.take(folder, None), Asked())
    evidence = Files(campaign.inventory, lambda job, progress: None, digest=False)
    deliverable = campaign.by_id["control/predictions"]
    return sum(finding.rule.startswith("data.") for finding in deliverable_checks()["data"].run(campaign, deliverable, evidence))


def bare(folder: pathlib.Path) -> int:
    for path in (PREDICTIONS, DATA):
        with open(folder / path, "rb") as file:
            for line in file:
                json.loads(line)
    return 0


def measure(work: Callable[[pathlib.Path], int], folder: pathlib.Path, pipe: multiprocessing.connection.Connection) -> None:
    started = time.process_time()  # of this process alone, whatever else the machine does
    found = work(folder)
    pipe.send((time.process_time() - started, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, found))


def apart(work: Callable[[pathlib.Path], int], folder: pathlib.Path) -> tuple[float, float, int]:
    """Seconds of the processor, peak of memory in MiB and result of some work in a new process."""
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=measure, args=(work, folder, there))
    process.start()
    answer = here.recv()
    process.join()
    return answer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--folder", type=pathlib.Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as temporary:
        whole, tenth, wrong = (pathlib.Path(temporary) / name for name in ("whole", "tenth", "wrong"))
        write(whole, options.rows)
        write(tenth, options.rows // 10)
        write(wrong, options.rows, 100)
        all_rows, few, plain, named = apart(check, whole), apart(check, tenth), apart(bare, whole), apart(check, wrong)
    assert all_rows[2] == few[2] == 0 < named[2]
    print(f"{options.rows:,} predictions against as many rows: {all_rows[0]:.1f} s, {all_rows[1]:.0f} MiB at most")
    print(f"a tenth of them: {few[0]:.2f} s, {few[1]:.0f} MiB; ratio {all_rows[0] / few[0]:.1f}")
    print(f"json.loads over the same lines: {plain[0]:.1f} s; ratio {all_rows[0] / plain[0]:.2f}")
    print(f"with a hundred wrong ids: {named[0]:.1f} s, {named[1]:.0f} MiB")


if __name__ == "__main__":
    main()
