"""How fast predictions are compared with their data set, as ratios, and in how much memory.

    python benchmarks/bench_data.py [--rows 1000000] [--folder DIR] [--parquet]

A campaign with predictions and a data set of so many rows, in another order, is written to a temporary folder and deleted at the
end. The check runs in a process of its own for each measurement:

* all rows against a tenth of them (linear growth is 10);
* all rows against a bare loop of ``json.loads`` over the lines of the same two files;
* the peak of memory for all rows and for a tenth of them;
* the same with a hundred ids exchanged, which are then named.

With ``--parquet`` both are Parquet files with a single row group, and the memory of the fresh process is told as well.
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


def to_parquet(folder: pathlib.Path) -> int:
    import pyarrow.json
    import pyarrow.parquet

    for name in (PREDICTIONS, DATA):
        table = pyarrow.json.read_json(folder / name)
        (folder / name).unlink()
        pyarrow.parquet.write_table(table, (folder / name).with_suffix(".parquet"), row_group_size=len(table))
    (folder / "manifest.json").write_text((folder / "manifest.json").read_text().replace(".jsonl", ".parquet"))
    return 0


def check(folder: pathlib.Path) -> int:
    """The findings of the check ``data``."""
    from pytest_campaign import snapshot
    from pytest_campaign.campaign import Asked
    from pytest_campaign.checks import deliverable_checks
    from pytest_campaign.evidence import Files
    from pytest_campaign.reload.client import Reloader
    from pytest_campaign.reload.limits import default_limits

    campaign = snapshot.campaign(snapshot.take(folder, None), Asked())
    deliverable = campaign.by_id["control/predictions"]
    with Reloader(default_limits()) as reloader:
        evidence = Files(campaign.inventory, reloader.run, digest=False)
        found = deliverable_checks()["data"].run(campaign, deliverable, evidence)
        return sum(finding.rule.startswith("data.") for finding in found)


def bare(folder: pathlib.Path) -> int:
    for path in (PREDICTIONS, DATA):
        with open(folder / path, "rb") as file:
            for line in file:
                json.loads(line)
    return 0


def measure(work: Callable[[pathlib.Path], int], folder: pathlib.Path, pipe: multiprocessing.connection.Connection) -> None:
    started = time.process_time()  # of this process and the fresh one, whatever else the machine does
    found = work(folder)
    here, apart = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    pipe.send((time.process_time() - started + apart.ru_utime + apart.ru_stime, here.ru_maxrss / 1024, found,
               apart.ru_maxrss / 1024))


def apart(work: Callable[[pathlib.Path], int], folder: pathlib.Path) -> tuple[float, float, int, float]:
    """Seconds of the processor, peak of memory in MiB, result of some work in a new process, and the peak of its children."""
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
    parser.add_argument("--parquet", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as temporary:
        whole, tenth, wrong = (pathlib.Path(temporary) / name for name in ("whole", "tenth", "wrong"))
        write(whole, options.rows)
        write(tenth, options.rows // 10)
        write(wrong, options.rows, 100)
        plain = apart(bare, whole)
        for folder in (whole, tenth, wrong) if options.parquet else ():
            apart(to_parquet, folder)  # so that pyarrow never is in the process from which the others begin
        all_rows, few, named = apart(check, whole), apart(check, tenth), apart(check, wrong)
    assert all_rows[2] == few[2] == 0 < named[2]
    print(f"{options.rows:,} predictions against as many rows: {all_rows[0]:.1f} s, {all_rows[1]:.0f} MiB at most")
    print(f"a tenth of them: {few[0]:.2f} s, {few[1]:.0f} MiB; ratio {all_rows[0] / few[0]:.1f}")
    if options.parquet:
        print(f"the fresh process: {all_rows[3]:.0f} MiB at most, {few[3]:.0f} MiB for a tenth")
    print(f"json.loads over the same lines: {plain[0]:.1f} s; ratio {all_rows[0] / plain[0]:.2f}")
    print(f"with a hundred wrong ids: {named[0]:.1f} s, {named[1]:.0f} MiB")


if __name__ == "__main__":
    main()
