"""How fast a checkpoint is read, as ratios of two ways to do the same work in one process on the same machine.

    python benchmarks/bench_reading.py [--gib 2] [--threads 2] [--rounds 3] [--folder DIR]

Files of bfloat16 are written to a temporary folder, stay in the page cache, and are deleted at the end.
The two sides of a pair take turns; the ratio is that of their fastest rounds, so that start-up and the first touch of
memory do not count. Sides that give an answer (finite or not, a digest) must give the same one.

* values alone, against a bare loop of ``readinto`` that looks at nothing (at most 1.5 times its time);
* values alone, against ``safetensors.torch.load_file`` and ``torch.isfinite(t).all()`` of every tensor;
* values and SHA-256 in one pass, against ``hashlib`` alone (at most 1.15 times);
* values and the digest of each tensor, against ``hashlib`` alone of one tensor after the other (at most 1.2 times);
* values, SHA-256 and the digest of each tensor, against ``hashlib`` alone, which does half of that;
* values and CRC-32 of a file of ``torch.save`` in one thread, against ``readinto`` and ``zlib.crc32`` (at most 1.2 times);
* two shards in two threads, against the same in one (at least 1.7 times faster, where two processors are free).

The processor's time is shown beside the time on the wall: on a machine that is busy with other work only the former counts.
"""

import argparse
import hashlib
import json
import os
import pathlib
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Collection
from typing import Any, BinaryIO

os.environ.setdefault("OMP_NUM_THREADS", "1")  # as in the process that reloads checkpoints
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import torch
from safetensors.torch import load_file, save_file

from pytest_campaign import tensor_digests
from pytest_campaign.formats import safetensors_file, sharded, torch_zip
from pytest_campaign.formats.base import Depth, ProblemKind, Reading, Unit

TENSOR = 64 << 20  # bytes of one tensor


class Folder:
    """The source of a reading: files of a folder."""

    depth = Depth.TENSORS
    base = None
    base_name = ""

    def __init__(self, root: pathlib.Path, threads: int, digest: bool, tensors: bool = False) -> None:
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


def tensors(gib: float) -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    one = torch.randn(TENSOR // 2).mul_(0.02).to(torch.bfloat16)
    count = max(2, round(gib * 2**30 / TENSOR))
    return {f"layers.{number}.weight": one.roll(number) for number in range(count)}


def write_all(folder: pathlib.Path, gib: float) -> None:
    """The same tensors as one safetensors file, as a file of torch.save, and in two shards."""
    state = tensors(gib)
    save_file(state, folder / "model.safetensors")
    torch.save(state, folder / "model.pt")
    names = list(state)
    where = {}
    for number, part in enumerate((names[::2], names[1::2]), 1):
        name = f"shard-{number:05d}-of-00002.safetensors"
        save_file({tensor: state[tensor] for tensor in part}, folder / name)
        where |= dict.fromkeys(part, name)
    (folder / "shard.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": where}))


def ours(path: pathlib.Path, threads: int, digest: bool, tensors: bool = False) -> Reading:
    return safetensors_file.read(Unit("safetensors", path.name, (path.name,)), Folder(path.parent, threads, digest, tensors))


def torch_file(folder: pathlib.Path) -> bool:
    reading = torch_zip.read(Unit("torch zip", "model.pt", ("model.pt",)), Folder(folder, 1, False))
    return not reading.problems and reading.depth is Depth.TENSORS


def shards(folder: pathlib.Path, threads: int) -> bool:
    files = ("shard.safetensors.index.json", *sorted(path.name for path in folder.glob("shard-*")))
    return not sharded.read(Unit("sharded", files[0], files), Folder(folder, threads, False)).problems


def crc(path: pathlib.Path) -> bool:
    buffer = bytearray(1 << 20)
    value = 0
    with open(path, "rb", buffering=0) as file:
        while count := file.readinto(buffer):
            value = zlib.crc32(memoryview(buffer)[:count], value)
    return value > 0


def finite(path: pathlib.Path, threads: int) -> bool:
    return not any(problem.kind in (ProblemKind.NAN, ProblemKind.INFINITE) for problem in ours(path, threads, False).problems)


def digest(path: pathlib.Path, threads: int) -> str | None:
    return ours(path, threads, True).files[0].sha256


def by_tensor(path: pathlib.Path, threads: int) -> dict[str, str | None]:
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


def compare(
    title: str, rounds: int, mine: Callable[[], Any], theirs: Callable[[], Any], name: str, *, same: bool = True,
    most: float | None = None
) -> None:
    """Run both sides in turn and print their fastest rounds and the ratio, with what it may be at ``most``."""
    wall, work = [float("inf")] * 2, [float("inf")] * 2
    for _ in range(rounds):
        answers = []
        for side, do in enumerate((mine, theirs)):
            start, used = time.perf_counter(), time.process_time()
            answers.append(do())
            wall[side] = min(wall[side], time.perf_counter() - start)
            work[side] = min(work[side], time.process_time() - used)
        if same and answers[0] != answers[1]:
            raise SystemExit(f"{title}: the two sides disagree: {answers}")
    ratio = wall[0] / wall[1]
    judged = "" if most is None else f"   at most {most:.2f}: {'holds' if ratio <= most else 'DOES NOT HOLD'}"
    print(f"{title:<22} {wall[0]:7.3f} s   {name:<24} {wall[1]:7.3f} s   {ratio:5.2f} times the time, "
          f"{work[0] / work[1]:5.2f} times the work{judged}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare our reading of a checkpoint with simpler ways.")
    parser.add_argument("--gib", type=float, default=2.0, help="size of a file, of which there are three (default 2)")
    parser.add_argument("--threads", type=int, default=2, help="our reader threads (default 2)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each pair (default 3)")
    parser.add_argument("--folder", help="where the files are put (default: the system's temporary folder)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = pathlib.Path(name)
        write_all(folder, options.gib)
        path = folder / "model.safetensors"
        for file in folder.iterdir():
            bare(file)
        print(f"{path.stat().st_size / 2**30:.2f} GiB of bfloat16, {options.threads} reader threads, torch {torch.__version__} "
              f"with {torch.get_num_threads()} of its own, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}")
        threads, rounds = options.threads, options.rounds
        compare("values", rounds, lambda: finite(path, threads), lambda: bare(path), "readinto alone", same=False, most=1.5)
        compare("values, 1 thread", rounds, lambda: finite(path, 1), lambda: bare(path), "readinto alone", same=False)
        compare("values", min(rounds, 2), lambda: finite(path, threads), lambda: library(path), "load_file and isfinite")
        compare("values and SHA-256", rounds, lambda: digest(path, threads), lambda: sha256(path), "hashlib alone", most=1.15)
        compare("values and digests", rounds, lambda: by_tensor(path, threads), lambda: sha256_of_tensors(path),
                "hashlib, by tensor", most=1.2)
        compare("all of these", rounds, lambda: all_digests(path, threads), lambda: sha256(path), "hashlib alone")
        compare("torch zip, 1 thread", rounds, lambda: torch_file(folder), lambda: crc(folder / "model.pt"), "readinto and crc32",
                most=1.2)
        compare("2 shards, 2 threads", rounds, lambda: shards(folder, 2), lambda: shards(folder, 1), "the same in 1 thread",
                most=1 / 1.7)


if __name__ == "__main__":
    main()
