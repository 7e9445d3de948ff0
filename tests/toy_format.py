"""A format whose files say what their reader does. Tests put it among the formats of a copy of the package."""

import ctypes
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from pytest_campaign.formats.base import Depth, FileFacts, Format, Problem, ProblemKind, Reading, Source, Unit
from pytest_campaign.inventory import Changed


def read(unit: Unit, source: Source) -> Reading:
    with source.open(unit.path) as file:
        action, _, argument = file.read().decode().partition(" ")
        said = ACTIONS[action](argument, source, file)
    problems = [Problem(ProblemKind.DAMAGED, unit.path, said, "")] if said else []
    return Reading("toy", source.depth, [FileFacts(unit.path, source.size(unit.path))], problems)


def hang(argument, source, file):
    if argument == "deaf":
        os.closerange(3, 100)
    if argument == "tell":
        source.advance(os.getpid())
    time.sleep(1000)


def slow(argument, source, file):
    for _ in range(12):
        time.sleep(0.1)
        source.advance(50)


def stall(argument, source, file):
    source.advance(7)
    while True:
        source.advance(0)
        time.sleep(0.01)


def fail(argument, source, file):
    if argument == "deep":
        fail(argument, source, file)
    if argument == "locked":
        raise PermissionError(13, "Permission denied")
    if argument == "shrunk":
        raise Changed("it shrank")
    raise ValueError("no header\nx" + "y" * 10_000)


def hog(argument, source, file):
    if argument == "pieces":
        pieces = []
        while True:
            pieces.append([None] * 100)
    if argument == "all":  # down to the last byte
        pieces, size = [], 2**20
        while size:
            try:
                pieces.append(bytes(size))
            except MemoryError:
                size //= 2
        raise MemoryError
    if argument == "tensor":
        import torch

        torch.empty(2**34)
    if argument == "rust":
        os.write(2, b"memory allocation of 17179869184 bytes failed\n")
        os.abort()
    bytearray(2**34)


def end(argument, source, file):
    if argument == "segv":
        ctypes.string_at(0)
    if argument == "exit":
        os._exit(5)
    os.kill(os.getpid(), getattr(signal, argument))


def flood(argument, source, file):
    line = b"x" * 99 + b"\n"
    for _ in range(100_000):
        os.write(1, line)
    print("the last line")
    while argument == "endless":
        os.write(2, line)


def huge(argument, source, file):
    return "x" * 20_000_000


def forge(argument, source, file):
    """Write to the channel of the answers: it is the last descriptor that is a pipe."""
    pipes = [fd for fd in range(3, 100) if Path(f"/proc/self/fd/{fd}").exists() and fd != file.fileno()]
    message = {
        "garbage": b"hello\n",
        "infinity": b'{"progress": Infinity}\n',
        "long number": b'{"progress": ' + b"9" * 4000 + b"}\n",
        "nested": b"[" * 100_000 + b"\n",
        "timeout": b'{"death": {"kind": "timeout", "detail": "", "path": ""}}\n',
        "other": json.dumps({"reading": {"format": "safetensors", "depth": "tensors", "files": [], "problems": [], "tensors": 1,
                                         "elements": 1, "dtypes": {}, "bytes_read": 1,
                                         "ranks": None, "only_state": False,
                                         "parts": [], "step": None, "proof": None}}).encode() + b"\n",
        "part": b'{"progress": ',
    }[argument]
    os.write(pipes[0], message)
    os._exit(0)


def rewrite(argument, source, file):
    os.utime(file.fileno(), ns=(0, 0))


def facts(argument, source, file):
    with tempfile.NamedTemporaryFile(delete=False) as temporary:
        temporary.write(b"left behind")
    return json.dumps({
        "environment": dict(os.environ),
        "path": sys.path,
        "cwd": os.getcwd(),
        "stdin": os.readlink("/proc/self/fd/0"),
        "descriptors": [os.readlink(f"/proc/self/fd/{fd}") for fd in range(3, 200) if os.path.islink(f"/proc/self/fd/{fd}")],
        "own session": os.getsid(0) == os.getpid(),
        "isolated": sys.flags.isolated,
        "bytecode": not sys.flags.dont_write_bytecode,
        "core": resource.getrlimit(resource.RLIMIT_CORE),
        "oom_score_adj": Path("/proc/self/oom_score_adj").read_text(),
        "python threads": threading.active_count(),
        "threads": len(os.listdir("/proc/self/task")),
        "temporary": temporary.name,
        "pid": os.getpid(),
        "depth": source.depth.label,
        "digest": source.digest,
        "readers": source.threads,
    })


def compute(argument, source, file):
    torch = sys.modules["torch"]
    total = float((torch.ones(300, 300) @ torch.ones(300, 300)).sum())
    return json.dumps([torch.cuda.is_available(), torch.get_num_threads(), total])


def orphan(argument, source, file):
    """Leave a process behind that is in a session of its own."""
    code = "import os, time\nif os.fork():\n os._exit(0)\nos.setsid()\nprint(os.getpid(), flush=True)\ntime.sleep(1000)"
    with subprocess.Popen([sys.executable, "-I", "-c", code], stdout=subprocess.PIPE) as process:
        return process.stdout.readline().decode().strip()


def fine(argument, source, file):
    source.advance(source.size(argument) if argument else 1)


def ask(argument, source, file):
    if not source.exists(argument):
        source.open(argument)
    with source.open(argument) as other:
        return other.read().decode()


ACTIONS = {function.__name__: function for function in (
    hang, slow, stall, fail, hog, end, flood, huge, forge, rewrite, facts, compute, orphan, fine, ask)}
FORMAT = Format("toy", Depth.TENSORS, read)
