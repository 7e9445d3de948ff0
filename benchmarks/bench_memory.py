"""How much memory the fresh process needs for large checkpoints, beside what ``import torch`` alone needs.

    python benchmarks/bench_memory.py [--gib 4] [--folder DIR]

A safetensors file and a file of torch.save are written one after the other to a temporary folder, reloaded with their SHA-256
by the process that reloads checkpoints in a session, and deleted. The peak is the ``VmHWM`` of that process, looked at a hundred
times a second (Linux). At most 256 MiB above ``import torch`` are allowed, whatever the size; the exit status says whether that
holds.
"""

import argparse
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from pytest_campaign.formats.base import Depth, Unit
from pytest_campaign.reload.client import Reloader
from pytest_campaign.reload.protocol import FileSpec, Job, Limits

ALLOWED = 256  # MiB above what ``import torch`` needs
TENSOR = 64 << 20  # bytes of one tensor


def peak(pid: int | str) -> float:
    """The most memory that a process had, in MiB; 0 when it is gone."""
    try:
        lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return max((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:")), default=0.0)


def below(pid: int) -> set[int]:
    """The processes below a process."""
    parents = {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    found = {pid}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {pid}


class Watch:
    """The highest peak of all processes below this one, while it is entered."""

    def __enter__(self) -> "Watch":
        self.highest = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self._thread.start()
        return self

    def _look(self) -> None:
        while not self._stop.wait(0.01):
            self.highest = max(self.highest, *(peak(pid) for pid in below(os.getpid())), 0.0)

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


def write_safetensors(path: pathlib.Path, count: int) -> None:
    block = os.urandom(1 << 20).replace(b"\x7f", b"\x3f").replace(b"\xff", b"\xbf") * (TENSOR >> 20)  # no NaN
    entries = (f'"layers.{number}.weight":{{"dtype":"BF16","shape":[8192,4096],"data_offsets":[{number * TENSOR},'
               f'{(number + 1) * TENSOR}]}}' for number in range(count))
    header = ("{" + ",".join(entries) + "}").encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        for _ in range(count):
            file.write(block)


def write_torch(path: pathlib.Path, count: int) -> None:
    """In a process of its own, which needs all of it in memory."""
    code = (f"import torch; torch.save({{f'layers.{{n}}.weight': torch.full((8192, 4096), 1 + n / 128, dtype=torch.bfloat16) "
            f"for n in range({count})}}, {str(path)!r})")
    subprocess.run([sys.executable, "-I", "-c", code], check=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure the memory of the process that reloads checkpoints.")
    parser.add_argument("--gib", type=float, default=4.0, help="size of each file (default 4)")
    parser.add_argument("--folder", help="where the files are put (default: the system's temporary folder)")
    options = parser.parse_args()
    code = "import torch; print(open('/proc/self/status').read())"
    told = subprocess.run([sys.executable, "-I", "-c", code], check=True, capture_output=True, text=True,
                          env=os.environ | {"OMP_NUM_THREADS": "1"}).stdout
    alone = next(int(line.split()[1]) / 1024 for line in told.splitlines() if line.startswith("VmHWM:"))
    print(f"import torch alone: {alone:.0f} MiB")
    holds = True
    count = max(1, round(options.gib * 2**30 / TENSOR))
    for name, form, write in (("m.safetensors", "safetensors", write_safetensors), ("m.pt", "torch zip", write_torch)):
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            path = pathlib.Path(folder, name)
            write(path, count)
            status = path.stat()
            spec = FileSpec(name, name, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
            job = Job(folder, [Unit(form, name, (name,))], [spec], Depth.TENSORS, digest=True)
            with Reloader(Limits(timeout=600.0, memory=ALLOWED << 20, threads=2)) as reloader:
                reloader.wait()
                started = time.monotonic()
                with Watch() as watch:
                    answer = reloader.run(job)
        reading = answer.readings[0]
        if reading is None or reading.depth is not Depth.TENSORS:
            raise SystemExit(f"{name} was not read: {answer.deaths[0] or reading}")
        more = watch.highest - alone
        holds = holds and more <= ALLOWED
        seconds = time.monotonic() - started
        print(f"{form:<12} {status.st_size / 2**30:.2f} GiB in {seconds:5.1f} s   peak {watch.highest:.0f} MiB, "
              f"{more:+.0f} MiB ({'at most' if more <= ALLOWED else 'NOT at most'} {ALLOWED})", flush=True)
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
