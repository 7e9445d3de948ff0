"""How fast a checkpoint is read, as ratios of two ways to do the same work in one process on the same machine.

    python benchmarks/bench_reading.py [--gib 2] [--threads 2] [--rounds 3] [--folder DIR]

One bfloat16 safetensors file is written to a temporary folder, stays in the page cache, and is deleted at the end.
The two sides of a pair take turns; the ratio is that of their fastest rounds, so that start-up and the first touch of
memory do not count. Sides that give an answer (finite or not, a digest) must give the same one.

* values alone, against a bare loop of ``readinto`` that looks at nothing;
* values alone, against ``safetensors.torch.load_file`` and ``torch.isfinite(t).all()`` of every tensor;
* values and SHA-256 in one pass, against ``hashlib`` alone;
* values and the digest of each tensor, against ``hashlib`` alone of one tensor after the other;
* values, SHA-256 and the digest of each tensor, against ``hashlib`` alone, which does half of that.
"""

import argparse
import hashlib
import os
import pathlib
import sys
import tempfile
import time
from collections.abc import Callable, Collection
from typing import Any, BinaryIO

os.environ.setdefault("OMP_NUM_THREADS", "1")  # as in the process that reloads checkpoints
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import torch
from safetensors.torch import load_file, save_file

from pytest_campaign import tensor_digests
from pytest_campaign.formats import safetensors_file
from pytest_campaign.formats.base import Depth, ProblemKind, Reading, Unit

TENSOR = 64 << 20  # bytes of one tensor


class Folder:
    """The source of a reading: files of a folder."""

    depth = Depth.TENSORS

    def __init__(self, root: pathlib.Path, threads: int, digest: bool, tensors: bool) -> None:
        self.root, self.threads, self.digest, self.tensors = root, threads, digest, tensors

    def open(self, path: str) -> BinaryIO:
        return open(self.root / path, "rb", buffering=0)

    def size(self, path: str) -> int:
        return (self.root / path).stat().st_size

    def exists(self, path: str) -> bool:
        return (self.root / path).exists()

    def hashed(self, names: Collection[str]) -> Collection[str]:
        return names if self.tensors else ()

    def advance(self, count: int) -> None:
        pass


def write(path: pathlib.Path, gib: float) -> None:
    torch.manual_seed(0)
    one = torch.randn(TENSOR // 2).mul_(0.02).to(torch.bfloat16)
    count = max(1, round(gib * 2**30 / TENSOR))
    save_file({f"layers.{number}.weight": one.roll(number) for number in range(count)}, path)


def ours(path: pathlib.Path, threads: int, digest: bool, tensors: bool = False) -> Reading:
    return safetensors_file.read(Unit("safetensors", path.name, (path.name,)), Folder(path.parent, threads, digest, tensors))


def finite(path: pathlib.Path, threads: int) -> bool:
    return not any(problem.kind in (ProblemKind.NAN, ProblemKind.INFINITE) for problem in ours(path, threads, False).problems)


def digest(path: pathlib.Path, threads: int) -> str | None:
    return ours(path, threads, True).files[0].sha256


def tensors(path: pathlib.Path, threads: int) -> dict[str, str | None]:
    return {name: placed.sha256 for name, placed in ours(path, threads, False, True).layout.items()}


def all_digests(path: pathlib.Path, threads: int) -> str | None:
    return ours(path, threads, True, True).files[0].sha256


def bare(path: pathlib.Path) -> None:
    buffer = bytearray(1 << 20)
    with open(path, "rb", buffering=0) as file:
        while file.readinto(buffer):
            pass


def library(path: pathlib.Path) -> bool:
    return all(bool(torch.isfinite(tensor).all()) for tensor in load_file(path).values())


def sha256(path: pathlib.Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256_of_tensors(path: pathlib.Path) -> dict[str, str | None]:
    """Each tensor by itself, as somebody would do who knows where it lies."""
    found: dict[str, str | None] = {}
    buffer = memoryview(bytearray(1 << 20))
    with open(path, "rb", buffering=0) as file:
        header = safetensors_file.parse(file, path.stat().st_size)
        for tensor in header.tensors:
            digest = hashlib.sha256(tensor_digests.header(tensor.dtype, tensor.shape))
            file.seek(header.start + tensor.start)
            left = tensor.end - tensor.start
            while left:
                count = file.readinto(buffer[:min(left, len(buffer))]) or 0
                digest.update(buffer[:count])
                left -= count
            found[tensor.name] = digest.hexdigest()
    return found


def compare(title: str, rounds: int, mine: Callable[[], Any], theirs: Callable[[], Any], name: str, same: bool = True) -> None:
    """Run both sides in turn and print their fastest rounds and the ratio."""
    best = [float("inf"), float("inf")]
    for _ in range(rounds):
        answers = []
        for side, work in enumerate((mine, theirs)):
            start = time.perf_counter()
            answers.append(work())
            best[side] = min(best[side], time.perf_counter() - start)
        if same and answers[0] != answers[1]:
            raise SystemExit(f"{title}: the two sides disagree: {answers}")
    faster = f"{best[1] / best[0]:.1f} times faster" if best[0] < best[1] / 1.5 else f"{best[0] / best[1]:.2f} times the time"
    print(f"{title:<20} {best[0]:8.3f} s   {name:<26} {best[1]:8.3f} s   {faster}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare our reading of a checkpoint with simpler ways.")
    parser.add_argument("--gib", type=float, default=2.0, help="size of the file (default 2)")
    parser.add_argument("--threads", type=int, default=2, help="our reader threads (default 2)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each pair (default 3)")
    parser.add_argument("--folder", help="where the file is put (default: the system's temporary folder)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        path = pathlib.Path(folder) / "model.safetensors"
        write(path, options.gib)
        bare(path)
        print(f"{path.stat().st_size / 2**30:.2f} GiB of bfloat16, {options.threads} reader threads, torch {torch.__version__} "
              f"with {torch.get_num_threads()} of its own, {os.cpu_count()} processors")
        threads = options.threads
        compare("values", options.rounds, lambda: finite(path, threads), lambda: bare(path), "readinto alone", same=False)
        compare("values", min(options.rounds, 2), lambda: finite(path, threads), lambda: library(path), "load_file and isfinite")
        compare("values and SHA-256", options.rounds, lambda: digest(path, threads), lambda: sha256(path), "hashlib alone")
        compare("values and digests", options.rounds, lambda: tensors(path, threads), lambda: sha256_of_tensors(path),
                "hashlib alone, by tensor")
        compare("all of these", options.rounds, lambda: all_digests(path, threads), lambda: sha256(path), "hashlib alone")


if __name__ == "__main__":
    main()
