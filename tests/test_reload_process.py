"""The fresh process: whatever a reader does to it, each unit gets its reading or its death, and nothing is left behind."""

import dataclasses
import functools
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import toy_reloads
from toy_reloads import death, reloading, said, toy_job

from pytest_campaign.formats.base import Depth, Reading, Unit, to_json
from pytest_campaign.reload import limits
from pytest_campaign.reload.answers import Answers
from pytest_campaign.reload.client import Reloader
from pytest_campaign.reload.confinement import IsolationLevel
from pytest_campaign.reload.protocol import BaseFiles, DeathKind, FileSpec, Job, Limits, Progress

IMPATIENT = Limits(timeout=0.5, memory=2**27, threads=3)


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return toy_reloads.package(tmp_path_factory.mktemp("package"))


@pytest.fixture(scope="module")
def light(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return toy_reloads.light_package(tmp_path_factory.mktemp("light"))


@pytest.fixture(scope="module")
def forking(package: Path) -> Iterator[Reloader]:
    with reloading(package, mode="fork") as reloader:
        yield reloader


@pytest.fixture(scope="module")
def spawning(light: Path) -> Iterator[Reloader]:
    with reloading(light, mode="spawn") as reloader:
        yield reloader


@pytest.fixture(scope="module")
def impatient(light: Path) -> Iterator[Reloader]:
    with reloading(light, IMPATIENT) as reloader:
        yield reloader


@pytest.fixture(scope="module")
def basic(light: Path) -> Iterator[Reloader]:
    """Where the kernel refuses nothing."""
    with reloading(light, level=IsolationLevel.BASIC) as reloader:
        yield reloader


@pytest.fixture(params=["forking", "spawning"])
def reloader(request: pytest.FixtureRequest) -> Reloader:
    return request.getfixturevalue(request.param)


@pytest.fixture
def job(tmp_path: Path) -> Callable[..., Job]:
    return functools.partial(toy_job, tmp_path)


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def eventually(condition: Callable[[], bool], seconds: float = 10.0) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def test_reads_in_both_modes(reloader: Reloader, job: Callable[..., Job]) -> None:
    answer = reloader.run(job("fine", "fine"))
    assert answer.deaths == [None, None]
    assert [reading.files[0].path for reading in answer.readings] == ["0.toy", "1.toy"]
    assert all(reading.depth is Depth.TENSORS for reading in answer.readings)


def test_the_process_is_fresh_and_confined(reloader: Reloader, job: Callable[..., Job]) -> None:
    facts = json.loads(said(reloader.run(job("facts", depth=Depth.HEADER, digest=True))))
    environment = facts["environment"]
    assert "SECRET_TOKEN" not in environment
    assert not any(name.startswith(("PYTEST", "PYTHONPATH")) for name in environment)
    assert environment["HF_HUB_OFFLINE"] == environment["TORCH_FORCE_WEIGHTS_ONLY_LOAD"] == "1"
    home, scratch, temporary = map(Path, map("/".join, facts["folders"]))
    assert str(home) != os.environ.get("HOME")
    assert (scratch.parent, temporary.parent) == (home, scratch)
    assert home.exists()
    assert not scratch.exists()
    assert all(entry.startswith(("/", "<python>")) for entry in facts["path"])
    assert (facts["cwd"], facts["stdin"], facts["core"]) == ("/", "/dev/null", [0, 0])
    assert facts["own session"]
    assert facts["isolated"]
    assert not facts["bytecode"]
    file, channel = sorted(facts["descriptors"])  # nothing else is open
    assert file == "0.toy"  # a path of the campaign, without where that lies
    assert channel.startswith("pipe:")
    assert facts["oom_score_adj"].strip() == "1000"
    assert facts["threads"] == 1
    assert (facts["depth"], facts["digest"], facts["readers"]) == ("header", True, 3)
    assert gone(facts["pid"])


def test_torch_computes_after_the_fork(forking: Reloader, job: Callable[..., Job]) -> None:
    assert json.loads(said(forking.run(job("compute")))) == [False, 1, 300.0**3]


def test_torch_computes_in_a_new_interpreter(package: Path, job: Callable[..., Job]) -> None:
    with reloading(package, mode="spawn") as reloader:
        assert json.loads(said(reloader.run(job("compute")))) == [False, 1, 300.0**3]


@pytest.mark.parametrize(("action", "kind", "text"), [
    ("fail", DeathKind.EXCEPTION, "ValueError: no header"),
    ("fail deep", DeathKind.EXCEPTION, "RecursionError: "),
    ("fail locked", DeathKind.UNREADABLE, "Permission denied"),
    ("fail shrunk", DeathKind.CHANGED, "it shrank"),
    ("end segv", DeathKind.CRASHED, "SIGSEGV"),
    ("end SIGBUS", DeathKind.CRASHED, "SIGBUS"),
    ("end SIGABRT", DeathKind.CRASHED, "SIGABRT"),
    ("end SIGKILL", DeathKind.KILLED, "SIGKILL from outside, most likely out of memory"),
    ("end SIGTERM", DeathKind.KILLED, "SIGTERM from outside"),
    ("end exit", DeathKind.NO_ANSWER, "exit status 5"),
    ("hog", DeathKind.MEMORY, "128 MiB"),
    ("hog pieces", DeathKind.MEMORY, "128 MiB"),
    ("hog all", DeathKind.MEMORY, "128 MiB"),
    ("hog tensor", DeathKind.MEMORY, "128 MiB"),
    ("hog rust", DeathKind.MEMORY, "128 MiB"),
    ("huge", DeathKind.NO_ANSWER, "longer than 16 MiB"),
    ("forge garbage", DeathKind.NO_ANSWER, "no message"),
    ("forge infinity", DeathKind.NO_ANSWER, "no message"),
    ("forge long number", DeathKind.NO_ANSWER, "no message"),
    ("forge nested", DeathKind.NO_ANSWER, "no message"),
    ("forge timeout", DeathKind.NO_ANSWER, "impossible end: timeout"),
    ("forge other", DeathKind.NO_ANSWER, "'safetensors' where 'toy' was asked"),
    ("forge part", DeathKind.NO_ANSWER, "without an answer"),
    ("ask nothing", DeathKind.EXCEPTION, "nothing is no file of this job"),
])
def test_every_end_is_told_apart(forking: Reloader, job: Callable[..., Job], action: str, kind: DeathKind, text: str) -> None:
    end = death(forking.run(job(action)))
    assert end.kind is kind
    assert text in end.detail


@pytest.mark.parametrize(("action", "text"), [
    ("hang", "no progress for 0.5 s, after 0 of 4 bytes"),
    ("hang deaf", "no progress for 0.5 s, after 0 of 9 bytes"),
    ("stall", "no progress for 0.5 s, after 7 of 5 bytes"),
    ("flood endless", "no progress for 0.5 s, after 0 of 13 bytes"),
])
def test_a_reading_without_progress_is_ended(impatient: Reloader, job: Callable[..., Job], action: str, text: str) -> None:
    end = death(impatient.run(job(action)))
    assert end.kind is DeathKind.TIMEOUT
    assert end.detail == text


def test_a_spawned_child_that_crashes_is_told_too(spawning: Reloader, job: Callable[..., Job]) -> None:
    answer = spawning.run(job("end segv"))
    assert death(answer).kind is DeathKind.CRASHED
    assert "Segmentation fault" in answer.log


def test_a_long_text_of_the_child_is_cut(forking: Reloader, job: Callable[..., Job]) -> None:
    assert 400 < len(death(forking.run(job("fail"))).detail) < 600


def test_the_units_after_a_death_are_read(forking: Reloader, job: Callable[..., Job]) -> None:
    answer = forking.run(job("fine", "end segv", "fine", "fail", "end exit", "fine"))
    assert [bool(reading) for reading in answer.readings] == [True, False, True, False, False, True]
    kinds = [end and end.kind for end in answer.deaths]
    assert kinds == [None, DeathKind.CRASHED, None, DeathKind.EXCEPTION, DeathKind.NO_ANSWER, None]


def test_progress_keeps_a_slow_reading_alive(impatient: Reloader, job: Callable[..., Job]) -> None:
    seen: list[Progress] = []
    answer = impatient.run(job("slow"), seen.append)
    assert answer.deaths == [None]
    assert answer.seconds > 2 * IMPATIENT.timeout
    assert 5 < len(seen) <= 20
    assert (seen[0].path, seen[0].total) == ("0.toy", 4)
    assert [at.done for at in seen] == sorted(at.done for at in seen)


def test_the_log_is_bounded_and_keeps_the_end(forking: Reloader, job: Callable[..., Job]) -> None:
    answer = forking.run(job("flood"))
    assert answer.deaths == [None]
    assert len(answer.log) <= 16 * 1024
    assert answer.log.endswith("the last line\n")


def test_a_process_that_left_the_session_is_found(basic: Reloader, job: Callable[..., Job]) -> None:
    assert gone(int(said(basic.run(job("orphan")))))


def test_a_file_that_is_written_to_meanwhile(basic: Reloader, job: Callable[..., Job]) -> None:
    end = death(basic.run(job("rewrite")))
    assert (end.kind, end.path) == (DeathKind.CHANGED, "0.toy")
    assert "0.toy changed while it was checked" in end.detail


def test_only_files_of_the_job_as_the_table_knows_them(forking: Reloader, job: Callable[..., Job], tmp_path: Path) -> None:
    sound = job("ask 1.toy", "fine")
    assert forking.run(sound).readings[0].problems[0].observed == "fine"

    (tmp_path / "1.toy").write_text("longer than before")
    changed = forking.run(sound).deaths[0]
    assert (changed.kind, changed.path) == (DeathKind.CHANGED, "1.toy")
    (tmp_path / "1.toy").unlink()
    assert forking.run(sound).deaths[0].kind is DeathKind.CHANGED
    os.mkfifo(tmp_path / "1.toy")
    assert forking.run(sound).deaths[0].kind is DeathKind.CHANGED
    (tmp_path / "1.toy").unlink()
    (tmp_path / "1.toy").symlink_to("0.toy")
    assert forking.run(sound).deaths[0].kind is DeathKind.CHANGED


def test_a_file_that_the_system_does_not_open(forking: Reloader, job: Callable[..., Job]) -> None:
    sound = job("fine")
    spec = dataclasses.replace(sound.files[0], target="x" * 300)
    end = death(forking.run(dataclasses.replace(sound, files=[spec])))
    assert (end.kind, end.detail, end.path) == (DeathKind.UNREADABLE, "File name too long", "0.toy")


def test_a_format_that_the_fresh_process_does_not_know(forking: Reloader, job: Callable[..., Job]) -> None:
    sound = job("fine")
    end = death(forking.run(dataclasses.replace(sound, units=[Unit("unheard-of", "0.toy", ("0.toy",))])))
    assert end.kind is DeathKind.NO_SERVER
    assert "'unheard-of'" in end.detail


READING = to_json(Reading("toy", Depth.TENSORS))


def test_answers_in_pieces() -> None:
    answers = Answers([Unit("toy", "a", ("a",))], {"a"})
    line = json.dumps({"ready": True}).encode() + b"\n" + json.dumps({"reading": READING}).encode() + b"\n"
    for byte in line:
        assert not answers.complete
        answers.feed(bytes([byte]))
    assert [to_json(outcome) for outcome in answers.outcomes] == [json.loads(json.dumps(READING))]


@pytest.mark.parametrize("message", [
    7, [], {}, "ready", None, {"ready": False}, {"ready": True}, {"progress": "7"}, {"progress": 0.5}, {"progress": True},
    {"a": 1, "b": 2}, {"reading": None}, {"reading": {}}, {"reading": {**READING, "tensors": -1}},
    {"reading": {**READING, "depth": "x" * 10_000}}, {"reading": {**READING, "files": [[]]}},
    {"reading": {**READING, "dtypes": 3}}, {"death": None}, {"death": {}}, {"death": {"kind": [], "detail": "", "path": ""}},
    {"death": {"kind": "memory", "detail": 1, "path": ""}}, {"death": {"kind": "memory", "detail": "", "path": []}},
    {"death": {"kind": "memory", "detail": "", "path": "/etc/passwd"}}, {"death": {"kind": "crashed", "detail": "", "path": ""}},
])
def test_what_is_no_answer(message: object) -> None:
    answers = Answers([Unit("toy", "a", ("a",))], {"a"})
    answers.feed(b'{"ready": true}\n')
    with pytest.raises(ValueError):
        answers.feed(json.dumps(message).encode() + b"\n")


def test_a_reading_before_the_child_is_confined_is_refused() -> None:
    with pytest.raises(ValueError, match="out of order"):
        Answers([Unit("toy", "a", ("a",))], {"a"}).feed(json.dumps({"reading": READING}).encode() + b"\n")


def test_names_that_are_no_text_arrive(forking: Reloader, tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9.toy")
    (tmp_path / name).write_text("fine")
    status = (tmp_path / name).stat()
    spec = FileSpec(name, name, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
    answer = forking.run(Job(str(tmp_path), [Unit("toy", name, (name,))], [spec]))
    assert answer.readings[0].files[0].path == name


def test_a_job_after_the_first_is_fast(forking: Reloader, job: Callable[..., Job]) -> None:
    forking.run(job("fine"))
    assert min(forking.run(job("fine")).seconds for _ in range(5)) < 0.2  # importing torch again takes more than a second


def test_the_server_is_replaced_after_its_death(light: Path, job: Callable[..., Job]) -> None:
    pids: list[int] = []

    def kill_server(progress: Progress) -> None:
        pids.append(progress.done)
        os.kill(parent_of(progress.done), signal.SIGKILL)

    with reloading(light) as reloader:
        answer = reloader.run(job("fine", "hang tell", "fine"), lambda at: kill_server(at) if at.path == "1.toy" else None)
        assert [end and end.kind for end in answer.deaths] == [None, DeathKind.NO_SERVER, DeathKind.NO_SERVER]
        assert "exit status -9" in answer.deaths[1].detail
        assert eventually(lambda: gone(pids[0]))
        assert reloader.run(job("fine")).deaths == [None]


def test_two_reloaders_do_not_disturb_each_other(forking: Reloader, light: Path, job: Callable[..., Job], tmp_path: Path) -> None:
    fine, hang = job("fine", "hang").units
    files = job("fine", "hang").files
    with reloading(light, IMPATIENT) as other, ThreadPoolExecutor() as pool:
        hanging = pool.submit(other.run, Job(str(tmp_path), [hang], files))
        while not hanging.done():
            assert forking.run(Job(str(tmp_path), [fine], files)).deaths == [None]
        assert death(hanging.result()).kind is DeathKind.TIMEOUT
    assert forking.run(Job(str(tmp_path), [fine], files)).deaths == [None]


def test_nothing_is_left_open_or_behind(light: Path, job: Callable[..., Job], tmp_path: Path) -> None:
    def descriptors() -> int:
        return len(os.listdir("/proc/self/fd"))

    before = descriptors()
    with reloading(light, mode="spawn") as reloader:
        reloader.run(job("fine"))
        during = descriptors()
        facts = json.loads(said(reloader.run(job("facts"))))
        assert descriptors() == during
    assert descriptors() == before
    assert not os.path.exists("/".join(facts["folders"][0]))


def test_an_exception_in_the_caller_ends_the_child(light: Path, job: Callable[..., Job]) -> None:
    pids: list[int] = []

    def interrupt(progress: Progress) -> None:
        pids.append(progress.done)
        raise KeyboardInterrupt

    with reloading(light) as reloader:
        with pytest.raises(KeyboardInterrupt):
            reloader.run(job("hang tell"), interrupt)
        assert gone(pids[0])
        assert reloader.run(job("fine")).deaths == [None]


@pytest.mark.parametrize("mode", ["fork", "spawn"])
def test_a_missing_torch_is_said_for_every_unit(package: Path, job: Callable[..., Job], mode: str) -> None:
    site = importlib.util.find_spec("torch").submodule_search_locations[0]
    with reloading(package, exclude=[os.path.dirname(site)], mode=mode) as reloader:
        deaths = reloader.run(job("fine", "fine")).deaths
        assert [end.kind for end in deaths] == [DeathKind.NO_SERVER] * 2
        assert "torch could not be imported: ModuleNotFoundError" in deaths[1].detail


def test_modules_beside_the_checkpoints_are_not_imported(light: Path, job: Callable[..., Job], tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise SystemError('imported from the checked directory')")
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(tmp_path), str(tmp_path / "link"), *sys.path])
        patch.setenv("LD_LIBRARY_PATH", f"{tmp_path}/lib:relative::/opt/elsewhere")
        with reloading(light, exclude=[str(tmp_path)]) as reloader:
            facts = json.loads(said(reloader.run(job("facts"))))
    assert not any(str(tmp_path) in entry for entry in facts["path"])
    assert facts["environment"]["LD_LIBRARY_PATH"] == "/opt/elsewhere"


def test_a_library_that_starts_a_thread_prevents_the_fork(light: Path, job: Callable[..., Job], tmp_path: Path) -> None:
    threaded = tmp_path / "threaded"
    shutil.copytree(light, threaded)
    with (threaded / "pytest_campaign/formats/toy_format.py").open("a") as file:
        file.write("\nthreading.Thread(target=time.sleep, args=(1000,), daemon=True).start()\n")
    with reloading(threaded) as reloader:
        facts = json.loads(said(reloader.run(job("facts"))))
    assert facts["python threads"] == 2  # a forked child would have lost the thread


DRIVER = """\
import json, os, sys, time
sys.path.insert(0, sys.argv[1])
from pytest_campaign.formats.base import Unit
from pytest_campaign.reload.client import Reloader
from pytest_campaign.reload.protocol import FileSpec, Job, Limits

root = sys.argv[2]
status = os.stat(root + "/0.toy")
file = FileSpec("0.toy", "0.toy", status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
with Reloader(Limits(60, 2**30, 1), mode=sys.argv[3]) as reloader:
    reloader.start()
    if sys.argv[4] == "forked" and os.fork() == 0:
        time.sleep(15)
        os._exit(0)
    reloader.run(Job(root, [Unit("toy", "0.toy", ("0.toy",))], [file]), lambda at: print(at.done, flush=True))
"""


@pytest.mark.parametrize(("mode", "end", "how"), [
    ("fork", signal.SIGKILL, "alone"),
    ("spawn", signal.SIGKILL, "alone"),
    ("fork", signal.SIGKILL, "forked"),
    ("fork", signal.SIGINT, "alone"),
])
def test_all_processes_end_with_pytest(light: Path, job: Callable[..., Job], mode: str, end: signal.Signals, how: str) -> None:
    root = job("hang tell").root
    with subprocess.Popen([sys.executable, "-c", DRIVER, str(light), root, mode, how], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True) as driver:
        child = int(driver.stdout.readline())
        server = parent_of(child)
        command = Path(f"/proc/{server}/cmdline").read_bytes().split(b"\0")
        folder = Path(json.loads(command[-2])["arguments"][2])
        assert folder.is_dir()
        driver.send_signal(end)
        driver.wait()
        assert eventually(lambda: gone(child) and gone(server) and not folder.exists())


def test_the_memory_of_a_job_follows_its_files() -> None:
    def job(size: int, base: int = 0) -> Job:
        file, below = (FileSpec("x", "x", 1, 1, bytes, 1) for bytes in (size, base))
        return Job("/", (), [file], base=BaseFiles("base", "/", [below]) if base else None)

    roomy = Limits(timeout=1, memory=2**40, threads=1)
    assert limits.for_job(roomy, job(1000)).memory == 2**32 + 4000
    assert limits.for_job(roomy, job(2**34)).memory == 2**32 + 2**36
    assert limits.for_job(roomy, job(1000, 2**30)).memory == 2**33 + 4000
    assert limits.for_job(dataclasses.replace(roomy, memory=2**30), job(2**34)).memory == 2**30
    assert limits.for_job(dataclasses.replace(roomy, asked=True), job(1000)).memory == 2**40


def test_memory_available_follows_the_control_group(tmp_path: Path) -> None:
    def write(path: str, text: str) -> None:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)

    write("proc/meminfo", "MemTotal:       16000000 kB\nMemAvailable:    8000000 kB\n")
    assert limits.memory_available(str(tmp_path)) == 8_000_000 * 1024

    write("proc/self/cgroup", "0::/job/step\n")
    write("sys/fs/cgroup/job/memory.max", "4000000000\n")
    write("sys/fs/cgroup/job/memory.current", "3000000000\n")
    write("sys/fs/cgroup/job/memory.stat", "anon 500000000\ninactive_file 2500000000\n")
    write("sys/fs/cgroup/job/step/memory.max", "max\n")
    write("sys/fs/cgroup/job/step/memory.current", "3000000000\n")
    assert limits.memory_available(str(tmp_path)) == 3_500_000_000

    write("proc/self/cgroup", "4:memory:/docker/0123\n0::/\n")
    write("sys/fs/cgroup/memory/memory.limit_in_bytes", "1000000000\n")
    write("sys/fs/cgroup/memory/memory.usage_in_bytes", "400000000\n")
    assert limits.memory_available(str(tmp_path)) == 600_000_000
    write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n")
    assert limits.memory_available(str(tmp_path)) == 8_000_000 * 1024


def test_the_kernels_count_of_killed_processes_is_read(tmp_path: Path) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/vmstat").write_text("pgfault 7\noom_kill 2\n")
    assert limits.oom_kills(str(tmp_path)) == 2
    (tmp_path / "proc/self/cgroup").write_text("0::/\n")
    (tmp_path / "sys/fs/cgroup").mkdir(parents=True)
    (tmp_path / "sys/fs/cgroup/memory.events").write_text("low 0\noom 1\noom_kill 1\n")
    assert limits.oom_kills(str(tmp_path)) == 3


def test_default_limits_share_the_machine() -> None:
    alone, shared = limits.default_limits(), limits.default_limits(workers=4)
    assert alone.timeout == 120.0
    assert 0 < shared.memory < alone.memory < limits.memory_available()
    assert shared.threads >= 1
