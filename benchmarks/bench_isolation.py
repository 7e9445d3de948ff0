"""What each level of isolation costs a reload, beside the time that the reload takes anyway.

The same small file of safetensors is read in one forked child after the other, at each level that this machine gives. Finding out
what it gives happens once in a session, while torch is imported. Run it with

    python benchmarks/bench_isolation.py --rounds 50
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import tempfile
import time
from pathlib import Path

import torch
from safetensors.torch import save_file

from pytest_campaign.formats.base import Depth, Unit
from pytest_campaign.reload.client import Reloader
from pytest_campaign.reload.confinement import IsolationLevel
from pytest_campaign.reload.protocol import FileSpec, Job, Limits


def job(folder: Path) -> Job:
    path = folder / "model.safetensors"
    save_file({"weight": torch.randn(256, 256)}, path)
    status = path.stat()
    spec = FileSpec(path.name, path.name, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
    return Job(str(folder), [Unit("safetensors", path.name, (path.name,))], [spec], Depth.TENSORS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=50)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        work = job(Path(folder))
        reloaders = {level: stack.enter_context(Reloader(Limits(60.0, 1 << 30, 1), level=level)) for level in IsolationLevel}
        begin = time.perf_counter()
        given = reloaders[IsolationLevel.ISOLATED].isolation.level
        print(f"finding out what this machine gives ({given})  {1000 * (time.perf_counter() - begin):6.1f} ms")
        seconds: dict[IsolationLevel, list[float]] = {level: [] for level in reloaders}
        for _ in range(rounds + 1):  # in turn, so that a change of the machine's load hits all of them
            for level, reloader in reloaders.items():
                seconds[level].append(reloader.run(work).seconds)
        basic = statistics.median(seconds[IsolationLevel.BASIC][1:])
        for level, taken in seconds.items():
            median = statistics.median(taken[1:])  # the first imports torch
            print(f"{reloaders[level].isolation.level:10} {1000 * median:6.1f} ms   {1000 * (median - basic):+5.1f} ms")


if __name__ == "__main__":
    main()
