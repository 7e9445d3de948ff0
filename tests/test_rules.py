"""Every rule: a campaign in which it must be found, a sound neighbour in which it must not, and its documentation."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import pkgutil
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import rule_examples
from rule_examples import EXAMPLES, Example, apart, checked

import pytest_campaign
from pytest_campaign import checks
from pytest_campaign.checks.reload import judge
from pytest_campaign.findings import Level
from pytest_campaign.formats.base import ProblemKind
from pytest_campaign.reload.client import Reloader
from pytest_campaign.reload.protocol import Answer, DeathKind, Job, Limits, Progress
from pytest_campaign.reporting import rules_text

for module in pkgutil.iter_modules(rule_examples.__path__):
    importlib.import_module(f"{rule_examples.__name__}.{module.name}")  # each registers its examples
ROOT = Path(pytest_campaign.__file__).parents[1]
HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def plain() -> Iterator[Reloader]:
    with Reloader(Limits(timeout=60.0, memory=1 << 28, threads=1)) as reloader:
        yield reloader


@pytest.fixture(scope="module")
def killer(plain: Reloader) -> object:
    """Somebody who kills the reading process while it reads."""

    class Killer:
        def run(self, job: Job, progress: object = None) -> Answer:
            return plain.run(job, kill)

    def kill(progress: Progress) -> None:
        for server in children(os.getpid()):
            for reader in children(server):
                os.kill(reader, signal.SIGKILL)

    return Killer()


def children(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            found += [int(child) for child in (task / "children").read_text().split()]
    return found


@pytest.fixture(scope="module", name="without torch")
def without_torch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reloader]:
    """A machine where the library cannot be loaded."""
    folder = tmp_path_factory.mktemp("broken")
    (folder / "torch.py").write_text("raise ImportError('libcudart.so.13: cannot open shared object file')")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        reloader = Reloader(Limits(timeout=60.0, memory=1 << 28, threads=1))
    with reloader:
        yield reloader


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What is wrong with each of the examples that need a process of their own."""
    folder = tmp_path_factory.mktemp("apart")
    path = [str(apart.package(folder)), str(HERE)]
    done = subprocess.run(
        [sys.executable, "-m", "rule_examples.apart", str(folder)], cwd=folder, capture_output=True, text=True, timeout=120,
        check=False, env=os.environ | {"PYTHONPATH": os.pathsep.join(path)})
    if "cannot be dropped" in done.stderr:
        pytest.skip("root here cannot give up its right to read everything")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_example(example: Example, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if example.world in apart.WORLDS:
        wrong = request.getfixturevalue("elsewhere")[example.name]
    else:
        wrong = checked(example, tmp_path / "campaign", request.getfixturevalue(example.world).run)
    assert not wrong, "\n".join(wrong)


def test_nothing_of_a_hostile_pickle_was_run(tmp_path: Path, plain: Reloader) -> None:
    example = next(example for example in EXAMPLES if example.rule == "reload.unsafe-global" and example.faulty)
    assert not checked(example, tmp_path / "campaign", plain.run)
    assert [entry.name for entry in tmp_path.iterdir()] == ["campaign"]


@pytest.mark.parametrize("faulty", [True, False])
def test_every_rule_has_an_example_and_a_neighbour(faulty: bool) -> None:
    assert {example.rule for example in EXAMPLES if example.faulty is faulty} == set(checks.all_rules())


def test_the_names_of_the_examples_are_distinct() -> None:
    names = [example.name for example in EXAMPLES]
    assert sorted(set(names)) == sorted(names)


def test_every_kind_of_problem_and_of_death_has_a_rule() -> None:
    rules = set(checks.all_rules().values())
    assert set(judge._PROBLEMS) == set(ProblemKind)
    assert set(judge._DEATHS) == set(DeathKind)
    assert {rule for rule, *_ in (*judge._PROBLEMS.values(), *judge._DEATHS.values())} <= rules


def test_a_death_rejects_if_and_only_if_its_cause_lies_in_the_files() -> None:
    in_files = {DeathKind.EXCEPTION, DeathKind.CRASHED, DeathKind.CHANGED, DeathKind.OUTSIDE}
    assert {kind for kind, (rule, *_) in judge._DEATHS.items() if rule.level is Level.ERROR} == in_files
    assert {kind for kind, (rule, *_) in judge._DEATHS.items() if rule.unanswered} == set(DeathKind) - in_files


@pytest.mark.parametrize("rule", checks.all_rules().values(), ids=lambda rule: rule.code)
def test_documentation(rule) -> None:
    title, *paragraphs = rule.text.split("\n\n")
    assert re.fullmatch(r"[^\n]+[.)]|[^\n]+(\n[^\n]+)*\.", title), "the first paragraph is a sentence"
    assert paragraphs, "why it matters, or what to do, is not said"
    fixes = [paragraph for paragraph in paragraphs if paragraph.startswith("Fix: ")]
    assert len(fixes) == 1 or (not fixes and rule.level is Level.NOTE)
    assert rule.check in {*checks.campaign_checks(), *checks.deliverable_checks(), "check"}


def test_the_page_of_the_rules_is_current() -> None:
    page = (ROOT / "docs/rules.md").read_text("utf-8")
    rules = list(checks.all_rules().values())
    assert page == rules_text.whole(rules), "run python -m pytest_campaign.reporting.rules_text > docs/rules.md"
    assert re.findall(r"^## (.+)$", page, re.M) == list(checks.all_rules())


def test_the_page_of_the_rules_is_what_the_command_prints() -> None:
    command = [sys.executable, "-m", "pytest_campaign.reporting.rules_text"]
    done = subprocess.run(command, capture_output=True, check=True, cwd=ROOT)
    assert done.stdout == (ROOT / "docs/rules.md").read_bytes()


def test_rule_codes_stand_only_with_the_checks() -> None:
    package = ROOT / "pytest_campaign"
    for file in package.rglob("*.py"):
        if package / "checks" not in file.parents:
            text = file.read_text("utf-8")
            assert not [code for code in checks.all_rules() if re.search(rf"(?<![\w.]){re.escape(code)}(?![\w-])", text)], file
