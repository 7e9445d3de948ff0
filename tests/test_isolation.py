"""The levels of isolation: what each refuses, what goes on as before, and what is said of them."""

import errno
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import campaigns
import pytest
import sessions
import toy_reloads
from hypothesis import given
from hypothesis import strategies as st
from toy_reloads import death, reloading, said, toy_job

from pytest_campaign.reload import confinement, interpreter, kernel, landlock, protocol, reach, seccomp
from pytest_campaign.reload.client import Reloader
from pytest_campaign.reload.confinement import IsolationLevel
from pytest_campaign.reload.protocol import DeathKind, FileSpec, Isolation, Job

FILTERED, CONFINED, ISOLATED = IsolationLevel.FILTERED, IsolationLevel.CONFINED, IsolationLevel.ISOLATED
HERE = Path(__file__).parent
AVAILABLE, WHY_NOT = confinement.available(interpreter.search_path(()), ())
BEST = confinement.level_of(AVAILABLE)
needs = {level: pytest.mark.skipif(level > BEST, reason=f"this machine gives {BEST.label}: {WHY_NOT}")
         for level in IsolationLevel}


# ---- in the process ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def light(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return toy_reloads.light_package(tmp_path_factory.mktemp("light"))


@pytest.fixture(params=[pytest.param(level, marks=needs[level], id=level.label) for level in (FILTERED, CONFINED, ISOLATED)],
                scope="module")
def level(request: pytest.FixtureRequest) -> IsolationLevel:
    return request.param


@pytest.fixture(params=["fork", "spawn"], scope="module")
def reloader(light: Path, level: IsolationLevel, request: pytest.FixtureRequest) -> Iterator[Reloader]:
    with reloading(light, level=level, mode=request.param) as reloader:
        yield reloader


def attempt(reloader: Reloader, folder: Path, *, by_path: bool) -> dict:
    (folder / "campaign").mkdir()
    outside, other = folder / "outside.txt", folder / "campaign/other.pt"
    outside.write_text("secret")
    other.write_text("another deliverable")
    words = json.dumps([str(outside), str(folder / "campaign"), str(other), by_path])
    return json.loads(said(reloader.run(toy_job(folder / "campaign", f"attempts {words}"))))


def test_what_is_refused_and_what_goes_on(reloader: Reloader, level: IsolationLevel, tmp_path: Path) -> None:
    came = attempt(reloader, tmp_path, by_path=level >= CONFINED)
    assert set(came["harmless"].values()) == {"done"}, came["harmless"]
    assert set(came["forbidden"].values()) == {"EPERM"}, came["forbidden"]
    if level >= CONFINED:
        assert came["by path"].pop("link to the checkpoint") in ("EACCES", "EXDEV")
        assert set(came["by path"].values()) == {"EACCES"}, came["by path"]
        assert sorted(os.listdir(tmp_path / "campaign")) == ["0.toy", "other.pt"]
    if level >= ISOLATED:
        assert came["networks"] == ["lo"]


@pytest.mark.skipif(os.geteuid() != 0, reason="it needs root to become somebody else")
@needs[CONFINED]
def test_an_ordinary_user_has_the_same() -> None:
    """Without the rights of root the layers are the same, and the interpreter may be another one."""
    python = shutil.which("python3", path="/usr/local/bin:/usr/bin:/bin")
    question = "import sys; print(sys.version_info >= (3, 11))"
    version = python and subprocess.run([python, "-c", question], capture_output=True)
    if version is None or version.stdout.strip() != b"True":
        pytest.skip("there is no Python that everybody may start")
    script = """\
import json, os, sys
sys.path[:0] = [*sys.argv[1:3], sys.argv[2] + '/site-packages']
import toy_reloads
from pytest_campaign.reload.client import Reloader
from pathlib import Path
folder = Path(sys.argv[3])
with Reloader(toy_reloads.PATIENT) as reloader:
    answer = reloader.run(toy_reloads.toy_job(folder / "campaign", "attempts " + json.dumps(
        [str(folder / "outside.txt"), str(folder / "campaign"), str(folder / "campaign/other.pt"), True])))
    print(json.dumps([reloader.isolation.level, os.geteuid(), toy_reloads.said(answer)]))
"""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "package").mkdir()
        (folder / "campaign").mkdir()
        toy_reloads.light_package(folder / "package")
        for file in ("toy_reloads.py", "toy_format.py"):
            shutil.copy(HERE / file, folder)
        (folder / "pytest.py").write_text("")
        (folder / "site-packages/pluggy").mkdir(parents=True)
        (folder / "site-packages/pluggy/__init__.py").touch()
        (folder / "site-packages/pluggy/_tracing.py").touch()
        (folder / "outside.txt").write_text("secret")
        (folder / "campaign/other.pt").write_text("another")
        for path in (folder, *folder.rglob("*")):
            os.chown(path, 65534, 65534)
        done = subprocess.run(
            [python, "-c", script, folder / "package", folder, folder], user=65534, group=65534, extra_groups=[],
            capture_output=True, text=True, cwd="/", env={"HOME": name, "PATH": os.environ["PATH"]})
        assert done.returncode == 0, done.stderr
        level, user, said = json.loads(done.stdout)
    came = json.loads(said)
    assert user == 65534
    assert IsolationLevel.parse(level) >= CONFINED
    assert set(came["harmless"].values()) == {"done"}, came["harmless"]
    assert came["forbidden"].pop("more rights") in ("EPERM", "EINVAL")  # the latter in a namespace that has no root
    assert set(came["forbidden"].values()) == {"EPERM"}, came["forbidden"]
    assert set(came["by path"].values()) <= {"EACCES", "EXDEV"}, came["by path"]


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("setpriv") is None, reason="it needs root, and setpriv")
@pytest.mark.parametrize("without", ["sys_time", "dac_read_search,-sys_admin"], ids=["all rights", "rights of a container"])
def test_root_still_reads_files_of_others(light: Path, tmp_path: Path, without: str) -> None:
    job = toy_job(tmp_path, "fine")
    file = tmp_path / "0.toy"
    os.chown(file, 65534, 65534)
    file.chmod(0o600)
    script = """\
import sys
sys.path[:0] = sys.argv[1:3]
import toy_reloads
from pytest_campaign.reload import protocol
from pytest_campaign.reload.client import Reloader
with open(sys.argv[3], "rb") as file, Reloader(toy_reloads.PATIENT) as reloader:
    print(reloader.run(protocol.decode_job(file.read())[0]).deaths)
"""
    (tmp_path / "job.json").write_bytes(protocol.encode_job(job, toy_reloads.PATIENT))
    words = ["setpriv", f"--bounding-set=-{without}", f"--inh-caps=-{without}", sys.executable, "-c", script]
    done = subprocess.run([*words, light, HERE, tmp_path / "job.json"], capture_output=True, text=True)
    assert done.stdout == "[None]\n", (done.stdout, done.stderr)


@needs[CONFINED]
def test_torch_computes_with_threads(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "campaign").mkdir()
    with reloading(toy_reloads.package(tmp_path / "package")) as reloader:
        total, threads = json.loads(said(reloader.run(toy_job(tmp_path / "campaign", "multiply"))))
    assert total == 512.0**3
    assert threads >= 2


@needs[FILTERED]
def test_calls_that_the_filter_does_not_know(reloader: Reloader, tmp_path: Path) -> None:
    assert said(reloader.run(toy_job(tmp_path, "clone3"))) == "ENOSYS"
    if os.uname().machine == "x86_64":
        end = death(reloader.run(toy_job(tmp_path, "clone3 x32")))
        assert end.kind is DeathKind.CRASHED
        assert "SIGSYS" in end.detail


def test_at_every_level_a_file_outside_is_refused_and_named(light: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    (tmp_path / "campaign").mkdir()
    for level in IsolationLevel:
        with reloading(light, level=level) as reloader:
            for path in (secret, Path("/etc/passwd"), tmp_path / "absent/tokenizer.json"):
                end = death(reloader.run(toy_job(tmp_path / "campaign", f"look {path}")))
                assert end.kind is DeathKind.OUTSIDE
                assert str(path) in end.detail


@needs[FILTERED]
def test_a_layer_that_cannot_be_had_is_never_left_out(light: Path, tmp_path: Path) -> None:
    """What is promised and refused in the child leaves the file unread."""
    with reloading(light) as reloader:
        there = reloader.isolation
        file = light / "pytest_campaign/reload/seccomp.py"
        before = file.read_text()
        file.write_text(before + "\n\ndef restrict():\n    raise OSError(22, 'Invalid argument')\n")
        reloader.close()  # the next process reads the file anew
        try:
            end = death(reloader.run(toy_job(tmp_path, "fine")))
        finally:
            file.write_text(before)
    assert there.level != "basic"
    assert end.kind is DeathKind.NO_SERVER
    assert "could not be isolated: OSError: [Errno 22] Invalid argument" in end.detail


# ---- the filter ----------------------------------------------------------------------------------------------


def run(program: list[seccomp.Instruction], architecture: int, number: int, arguments: tuple[int, ...] = ()) -> int:
    """What a program answers, by the rules of linux/filter.h and linux/seccomp.h."""
    words = [number, architecture, 0, 0]
    for argument in (*arguments, *[0] * (6 - len(arguments))):
        words += [argument & 0xFFFFFFFF, argument >> 32]
    at = accumulator = 0
    while True:
        code, true, false, operand = program[at]
        at += 1
        if code == 0x20:
            accumulator = words[operand // 4]
        elif code == 0x06:
            return operand
        else:
            holds = {0x15: accumulator == operand, 0x35: accumulator >= operand, 0x45: bool(accumulator & operand)}[code]
            at += true if holds else false


PID = 4711
EPERM = 0x00050000 | errno.EPERM
ENOSYS = 0x00050000 | errno.ENOSYS
machines = pytest.mark.parametrize("machine", kernel.MACHINES.values(), ids=kernel.MACHINES)
CONDITIONAL = (seccomp.CLONE, seccomp.CLONE3, seccomp.KILL_PROCESS, seccomp.KILL_THREAD, seccomp.KILL_TASK, seccomp.LIMITS,
               seccomp.CONTROL)
words = st.integers(0, 2**64 - 1)


@machines
@given(number=st.integers(0, 600), arguments=st.tuples(*[words] * 6))
def test_every_call_gets_its_answer(machine: kernel.Machine, number: int, arguments: tuple[int, ...]) -> None:
    refused = {numbers[machine.column] for numbers in seccomp.REFUSED.values()}
    by_argument = {numbers[machine.column] for numbers in CONDITIONAL}
    assert not refused & by_argument
    if number not in by_argument:
        answer = run(seccomp.program(machine, PID), machine.audit, number, arguments)
        assert answer == (EPERM if number in refused else seccomp.ALLOW)


@machines
def test_calls_that_are_refused_by_an_argument(machine: kernel.Machine) -> None:
    program = seccomp.program(machine, PID)

    def answer(numbers: tuple[int, int], *arguments: int) -> int:
        return run(program, machine.audit, numbers[machine.column], arguments)

    thread = 0x3D0F00  # what the C library gives clone for a thread
    assert answer(seccomp.CLONE, thread) == seccomp.ALLOW
    assert answer(seccomp.CLONE, thread | 0x40000000) == EPERM  # with a network of its own
    assert answer(seccomp.CLONE, 0x1200011) == EPERM  # fork
    assert answer(seccomp.CLONE, 0x4111) == EPERM  # posix_spawn
    assert answer(seccomp.CLONE3, 0, 88) == ENOSYS
    for call in (seccomp.KILL_PROCESS, seccomp.KILL_THREAD, seccomp.KILL_TASK):
        assert answer(call, PID, PID, 9) == seccomp.ALLOW
        for other in (0, 1, PID + 1, 2**32 - PID, 2**32 - 1):
            assert answer(call, other, PID, 9) == EPERM
    assert answer(seccomp.LIMITS, 0) == answer(seccomp.LIMITS, PID) == seccomp.ALLOW
    assert answer(seccomp.LIMITS, 1) == EPERM
    assert answer(seccomp.CONTROL, 1, 8, 1) == answer(seccomp.CONTROL, 1, 15, 0) == EPERM
    assert answer(seccomp.CONTROL, 1, 3) == answer(seccomp.CONTROL, 8, 1) == seccomp.ALLOW


@machines
@given(number=st.integers(0, 2**32 - 1), architecture=st.integers(0, 2**32 - 1))
def test_another_binary_interface_ends_the_process(machine: kernel.Machine, number: int, architecture: int) -> None:
    program = seccomp.program(machine, PID)
    if architecture != machine.audit:
        assert run(program, architecture, number) == seccomp.KILL
    if machine.other_abi is not None and number >= machine.other_abi:
        assert run(program, machine.audit, number) == seccomp.KILL


@machines
def test_the_kernel_takes_programs_of_this_length(machine: kernel.Machine) -> None:
    program = seccomp.program(machine, PID)
    assert len(program) < 4096  # BPF_MAXINSNS
    jumps = [(at, step) for at, step in enumerate(program) if step.code in (0x15, 0x35, 0x45)]
    assert all(at + 1 + max(step.true, step.false) < len(program) for at, step in jumps)


@pytest.mark.parametrize(("column", "header"), [
    (0, "/usr/include/x86_64-linux-gnu/asm/unistd_64.h"), (1, "/usr/include/asm-generic/unistd.h")])
def test_the_numbers_are_those_of_the_kernel(column: int, header: str) -> None:
    """As far as its header files are installed, and know the call."""
    if not Path(header).is_file():
        pytest.skip("there is no such header")
    known = {name: int(number) for name, number in
             re.findall(r"^#define __NR(?:3264)?_(\w+)\s+([0-9]+)", Path(header).read_text(), re.M)}
    ours = {**seccomp.REFUSED, **kernel.NUMBERS, "clone": seccomp.CLONE, "clone3": seccomp.CLONE3, "kill": seccomp.KILL_PROCESS,
            "tgkill": seccomp.KILL_THREAD, "tkill": seccomp.KILL_TASK, "prlimit64": seccomp.LIMITS, "fcntl": seccomp.CONTROL}
    newest = max(known.values())
    for name, numbers in ours.items():
        if numbers[column] is None or numbers[column] <= newest:
            assert known.get(name) == numbers[column], name


# ---- Landlock, and what may be read --------------------------------------------------------------------------


def test_an_older_landlock_is_asked_for_what_it_knows() -> None:
    assert landlock.rights(1) == (0x1FFF, 0, 0)
    assert landlock.rights(2) == (0x3FFF, 0, 0)
    assert landlock.rights(3) == (0x7FFF, 0, 0)
    assert landlock.rights(4) == (0x7FFF, 3, 0)
    assert landlock.rights(5) == (0xFFFF, 3, 0)
    assert landlock.rights(6) == landlock.rights(7) == (0xFFFF, 3, 3)


def test_a_place_on_the_module_path_is_not_read_for_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder that pytest was started in is on the path, and may be the home or hold the campaign."""
    project, target, campaign = tmp_path / "project", tmp_path / "target", tmp_path / "project/out"
    (project / "needed").mkdir(parents=True)
    (project / "needed/__init__.py").touch()
    (project / "id_rsa").touch()
    (target / "wheel-1.0.dist-info").mkdir(parents=True)
    campaign.mkdir()
    (campaign / "a.pt").touch()
    (campaign / "b.pt").touch()
    monkeypatch.setattr(sys, "path", [str(project), str(target), *sys.path])
    (tmp_path / "home/scratch").mkdir(parents=True)
    job = Job(str(campaign), (), [FileSpec("a.pt", "a.pt", 0, 0, 0, 0)])
    reached = reach.of(job, str(tmp_path / "home/scratch"), ("needed.part",))
    assert reached.reads(str(campaign / "a.pt"))
    assert reached.reads(str(project / "needed/part.py"))
    assert reached.reads(str(target / "library.py"))
    assert reached.reads(os.__file__)
    assert reached.reads(pytest.__file__)
    assert reached.reads(str(tmp_path / "home/config"))
    assert not reached.reads(str(campaign / "b.pt"))
    assert not reached.reads(str(project / "id_rsa"))
    assert not reached.reads("/etc/passwd")
    assert not reached.reads("/proc/self/root/etc/passwd")
    assert reached.writes(str(tmp_path / "home/scratch/new"))
    assert reached.writes("/dev/null")
    assert not reached.writes(str(tmp_path / "home/config"))
    assert not reached.writes(str(campaign / "a.pt"))


# ---- what is said --------------------------------------------------------------------------------------------


def test_levels_follow_from_the_layers() -> None:
    nnp, filter, rules, spaces = confinement.PRIVILEGES, confinement.SECCOMP, confinement.LANDLOCK, confinement.NAMESPACES
    assert confinement.level_of([]) is IsolationLevel.BASIC
    assert confinement.level_of([nnp, rules, spaces]) is IsolationLevel.BASIC
    assert confinement.level_of([nnp, filter, spaces]) is FILTERED  # gVisor
    assert confinement.level_of([nnp, filter, rules]) is CONFINED  # a Docker container
    assert confinement.level_of([nnp, filter, rules, spaces]) is ISOLATED


def test_an_isolation_says_what_it_has_and_why_the_rest_is_missing(light: Path) -> None:
    with reloading(light, level=CONFINED) as reloader:
        isolation = reloader.isolation
    assert isolation.level == min(CONFINED, BEST).label
    assert {"fresh process", "memory limit"} <= set(isolation.layers)
    assert not set(isolation.layers) & set(isolation.missing)
    assert {*isolation.layers, *isolation.missing} >= set(confinement.LAYERS)
    assert "namespaces" in isolation.missing
    assert all(isolation.missing.values())


def test_too_little_is_said_with_the_reason() -> None:
    isolation = Isolation("confined", ["seccomp", "landlock"], {"namespaces": "unshare: Operation not permitted"})
    assert confinement.shortfall(CONFINED, isolation) is None
    assert confinement.shortfall(ISOLATED, isolation) == (
        "isolated is asked, and this machine gives confined (no namespaces: unshare: Operation not permitted)")


@pytest.mark.parametrize(("platform", "machine", "why"), [("darwin", "arm64", "Linux"), ("linux", "riscv64", "riscv64")])
def test_other_machines_have_none_and_say_so(platform: str, machine: str, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel.machine.cache_clear()
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(os, "uname", lambda: os.uname_result((platform, "host", "1", "1", machine)))
    for attempt in (kernel.no_new_privileges, landlock.version, seccomp.restrict):
        with pytest.raises(OSError, match=why):
            attempt()
    kernel.machine.cache_clear()


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("session")
    sessions.papers(folder / "out")
    return folder


def test_the_least_that_is_asked_is_a_condition(campaign: Path) -> None:
    words = ("-p", "no:cacheprovider", "--campaign-dir=out")
    enough = sessions.pytest_session(campaign, *words, f"--campaign-isolation={BEST.label}")
    assert enough.status == 0, enough.out
    wrong = sessions.pytest_session(campaign, *words, "--campaign-isolation=strict")
    assert wrong.status == 4
    assert "'strict' is no isolation level; known are basic, filtered, confined, isolated" in wrong.err
    wrong = sessions.pytest_session(campaign, *words, "-o", "campaign_isolation=strict")
    assert (wrong.status, "the setting campaign_isolation: 'strict'" in wrong.err) == (4, True)


@needs[CONFINED]
def test_a_session_that_cannot_have_it_does_not_start(tmp_path: Path) -> None:
    """Inside a process that may not make namespaces, by a filter as containers have it."""
    campaigns.write(tmp_path / "out").save()
    code = ("import ctypes, sys, pytest\n"
            "from pytest_campaign.reload import kernel, seccomp\n"
            "seccomp.REFUSED = {'unshare': (272, 97)}\n"
            "seccomp.CLONE3 = seccomp.CLONE = seccomp.KILL_PROCESS = seccomp.KILL_TASK = seccomp.KILL_THREAD = (600, 600)\n"
            "kernel.no_new_privileges()\n"
            "seccomp.restrict()\n"
            "sys.exit(pytest.main(sys.argv[1:]))\n")
    words = [sys.executable, "-c", code, "-p", "no:cacheprovider", "--campaign-dir=out", "--campaign-report=report.json"]
    path = str(HERE.parent)
    ended = sessions.run([*words, "--campaign-isolation=isolated"], tmp_path, PYTHONPATH=path)
    assert ended.status == 4, ended.out
    assert ("--campaign-isolation: isolated is asked, and this machine gives confined "
            "(no namespaces: unshare: Operation not permitted)") in ended.err
    assert json.loads((tmp_path / "report.json").read_text())["complete"] is False
    ended = sessions.run(words, tmp_path, PYTHONPATH=path)
    assert ended.status == 0, ended.out
    assert "isolation of the reloads: confined; missing: namespaces (unshare: Operation not permitted)" in ended.out
    stated = json.loads((tmp_path / "report.json").read_text())["isolation"]
    assert (stated["level"], stated["missing"]) == ("confined", ["namespaces"])
    assert {"seccomp", "landlock"} <= set(stated["layers"])
