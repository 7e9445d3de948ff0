"""A format whose files say what their reader does. Tests put it among the formats of a copy of the package."""

import ctypes
import errno
import fcntl
import functools
import importlib
import json
import os
import resource
import signal
import socket
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
                                         "parts": [], "step": None, "comparison": None}}).encode() + b"\n",
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
        # In parts, because a path of a temporary folder is called by another name in what a reading says.
        "folders": [path.split("/") for path in (os.environ["HOME"], os.environ["TMPDIR"], temporary.name)],
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


def outcome(action):
    try:
        result = action()
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error))
    return "done" if result is None else result


def system(function, *arguments):
    """Call the C library, past everything that Python watches."""
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, function)(*arguments) < 0:
        raise OSError(ctypes.get_errno(), function)


def thread_kill():
    signal.signal(signal.SIGUSR1, lambda number, frame: None)
    signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)


def started_thread():
    thread = threading.Thread(target=time.sleep, args=(0,))
    thread.start()
    thread.join()


def signal_at_the_end_of_the_parent():
    number = ctypes.c_int()
    system("prctl", 2, ctypes.byref(number), 0, 0, 0)  # PR_GET_PDEATHSIG
    return number.value


def scratch():
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "sub")
        place.mkdir()
        Path(place, "a").write_text("x")
        Path(place, "a").rename(Path(place, "b"))
        Path(folder, "c").symlink_to("sub/b")
        assert Path(folder, "c").read_text() == "x"


def attempts(argument, source, file):
    """What comes of each of the things that a reader has no business with, and of those that it has."""
    outside, campaign, other, with_paths = json.loads(argument)
    home, own = os.environ["HOME"], os.readlink(f"/proc/self/fd/{file.fileno()}")
    open_ = functools.partial(system, "open")
    parent = os.getppid()
    forbidden = {
        "connect": lambda: socket.create_connection(("127.0.0.1", 9), 1).close(),
        "datagram": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).close(),
        "unix socket": lambda: socket.socket(socket.AF_UNIX).close(),
        "pair of sockets": lambda: socket.socketpair()[0].close(),
        "fork": lambda: os._exit(0) if os.fork() == 0 else None,
        "program": lambda: subprocess.run(["/bin/true"]) and None,
        "exec": lambda: os.execv("/nonexistent/program", ["x"]),
        "kill parent": lambda: os.kill(parent, 0),
        "kill group": lambda: os.kill(0, 0),
        "kill everybody": lambda: os.kill(-1, 0),
        "signal of the parent's thread": lambda: system("tgkill", parent, parent, 0),
        "signal by a pipe": lambda: fcntl.fcntl(1, fcntl.F_SETOWN, parent),
        "trace": lambda: system("ptrace", 16, parent, None, None),
        "limits of the parent": lambda: resource.prlimit(parent, resource.RLIMIT_CORE, (0, 0)) and None,
        "namespace": lambda: system("unshare", 0x40000000),
        "mount": lambda: system("mount", b"none", b"/mnt", b"tmpfs", 0, None),
        "shared memory": lambda: system("shmget", 4711, 4096, 0o1600),
        "chmod": lambda: os.chmod(own, 0o777),
        "chmod by descriptor": lambda: os.fchmod(file.fileno(), 0o777),
        "times": lambda: os.utime(file.fileno(), ns=(0, 0)),
        "attribute": lambda: os.setxattr(own, "user.mark", b"x"),
        "more rights": lambda: os.setuid(12345) if os.getuid() == 0 else os.setuid(0),
    }
    by_path = {
        "read passwd": lambda: open_(b"/etc/passwd", 0),
        "read outside": lambda: open_(os.fsencode(outside), 0),
        "read another deliverable": lambda: open_(os.fsencode(other), 0),
        "list the campaign": lambda: os.listdir(campaign) and None,
        "write the checkpoint": lambda: open_(os.fsencode(own), os.O_WRONLY),
        "cut the checkpoint": lambda: system("truncate", os.fsencode(own), ctypes.c_long(0)),
        "delete the checkpoint": lambda: os.unlink(own),
        "move the checkpoint": lambda: os.rename(own, own + "2"),
        "link to the checkpoint": lambda: os.link(own, os.environ["TMPDIR"] + "/link"),
        "new file in the campaign": lambda: open_(os.fsencode(campaign + "/new"), os.O_WRONLY | os.O_CREAT, 0o600),
        "new folder in the campaign": lambda: os.mkdir(campaign + "/folder"),
        "new file at home": lambda: open_(os.fsencode(home + "/new"), os.O_WRONLY | os.O_CREAT, 0o600),
        "new file in the temporary folder": lambda: open_(b"/tmp/new-file-of-a-toy", os.O_WRONLY | os.O_CREAT, 0o600),
        "way round by /proc": lambda: open_(b"/proc/self/root/etc/passwd", 0),
        "environment of the parent": lambda: open_(f"/proc/{parent}/environ".encode(), 0),
    }
    harmless = {
        "read the checkpoint again": lambda: source.open("0.toy").close(),
        "thread": started_thread,
        "signal to oneself": lambda: os.kill(os.getpid(), 0),
        "signal to a thread": thread_kill,
        "scratch": scratch,
        "null": lambda: Path("/dev/null").write_text("x") and None,
        "random": lambda: Path("/dev/urandom").open("rb").close(),
        "about the process": lambda: Path("/proc/self/status").read_text() and None,
        "about the machine": lambda: Path("/proc/cpuinfo").read_text() and Path("/proc/meminfo").read_text() and None,
        "ends with its parent": lambda: None if signal_at_the_end_of_the_parent() == signal.SIGKILL else "it does not",
        "zone": lambda: time.localtime() and None,
        "module of the library": lambda: importlib.import_module("xml.dom.minidom") and None,
        "installed module": lambda: importlib.import_module("pluggy._tracing") and None,
        "look at a file outside": lambda: os.stat("/etc/passwd") and None,
        "own limits": lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1])),
    }
    networks = [line.split(":")[0].strip() for line in Path("/proc/self/net/dev").read_text().splitlines()[2:]]
    return json.dumps({**{group: {name: outcome(action) for name, action in actions.items()} for group, actions in {
        "forbidden": forbidden, "by path": by_path if with_paths else {}, "harmless": harmless}.items()}, "networks": networks})


def look(argument, source, file):
    """Open a path as a library would."""
    with open(argument) as other:
        other.read()


def clone3(argument, source, file):
    """The answer of the kernel to a call that it does not know, and to one of another binary interface."""
    if argument == "x32":
        system("syscall", ctypes.c_long(0x40000000 + 39))
    return outcome(lambda: system("syscall", ctypes.c_long(435), None, ctypes.c_long(0)))


def multiply(argument, source, file):
    torch = sys.modules["torch"]
    torch.set_num_threads(2)
    total = float((torch.ones(512, 512) @ torch.ones(512, 512)).sum())
    return json.dumps([total, len(os.listdir("/proc/self/task"))])


ACTIONS = {function.__name__: function for function in (
    hang, slow, stall, fail, hog, end, flood, huge, forge, rewrite, facts, compute, orphan, fine, ask,
    attempts, look, clone3, multiply)}
FORMAT = Format("toy", Depth.TENSORS, read)
