"""A new check with its rule, a new format and a new report are one file each; a new rule of a check is one edit."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import campaigns
import pytest

import pytest_campaign

ORIGINAL = Path(pytest_campaign.__file__).parent
CHECK = '''
"""Is the deliverable called by a proper name?"""

from ..findings import Level, Rule
from .base import DeliverableCheck

NAME = Rule("toy.name", Level.ERROR, """
    The id of the deliverable holds the word "final".

    Nothing ever is.

    Fix: name it after the step.
    """)


def check(campaign, deliverable, evidence):
    if "final" in deliverable.id:
        yield NAME.finding(f"{deliverable.id} is called final", path=deliverable.path, remedy="name it after the step")


CHECK = DeliverableCheck("toy", "Is it called by a proper name?", check)
'''
FORMAT = '''
"""A count in four bytes, and as many bytes."""

from .base import Depth, FileFacts, Format, Problem, ProblemKind, Reading

MAGIC = b"TOY1"


def read(unit, source):
    (path,) = unit.files
    with source.open(path) as file:
        data = file.read()
    count, found = int.from_bytes(data[4:8], "little"), len(data) - 8
    problems = [Problem(ProblemKind.TRUNCATED, path, f"{found} bytes", f"{count} bytes")] if found < count else []
    return Reading("toy", Depth.TENSORS, [FileFacts(path, len(data))], problems, tensors=1, bytes_read=found)


FORMAT = Format("toy", Depth.TENSORS, read, recognise=lambda candidate: candidate.head.startswith(MAGIC))
'''
REPORT = '''
"""One line for each deliverable."""

from .base import Report


def render(record):
    return "".join(f"{d.verdict.value} {d.id} {d.format}\\n" for campaign in record.campaigns for d in campaign.deliverables)


REPORT = Report(".toy", render)
'''
RULE = '''
HASTY = Rule("content.hasty", Level.ERROR, """
    The id of the deliverable begins with "quick".

    Fix: take the time.
    """)
'''


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A folder with a copy of the package."""
    shutil.copytree(ORIGINAL, tmp_path / "copy/pytest_campaign", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ORIGINAL.parent / "schemas", tmp_path / "copy/schemas")
    shutil.copy(ORIGINAL.parent / "pyproject.toml", tmp_path / "copy")
    return tmp_path / "copy"


@pytest.fixture
def campaign(tmp_path: Path) -> campaigns.Written:
    """A sound campaign with two deliverables more, in the new format: one of them is cut."""
    made = campaigns.write(tmp_path / "campaign")
    for name, data in (("whole", b"TOY1\4\0\0\0abcd"), ("final", b"TOY1\4\0\0\0abcd"), ("cut", b"TOY1\4\0\0\0abc")):
        (made / f"runs/control/{name}.toy").write_bytes(data)
        made.add(f"control/{name}", "checkpoint", f"runs/control/{name}.toy")
    return made.save()


def run(copy: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a module of the copy."""
    script = (f"import pytest_campaign, runpy; assert pytest_campaign.__file__.startswith({str(copy)!r}); "
              f"runpy.run_module({words[0]!r}, None, '__main__')")
    return subprocess.run(
        [sys.executable, "-c", script, *words[1:]], cwd=copy.parent, capture_output=True, text=True, timeout=120, check=False,
        env=os.environ | {"PYTHONPATH": str(copy), "PYTEST_ADDOPTS": ""})


def check(copy: Path, directory: Path, report: str) -> subprocess.CompletedProcess[str]:
    """The everyday command with the copy."""
    loaded = [] if _is_installed() else ["-p", "pytest_campaign.plugin"]
    return run(copy, "pytest", *loaded, "-p", "no:cacheprovider", f"--campaign-dir={directory}", f"--campaign-report={report}")


def _is_installed() -> bool:
    from importlib.metadata import entry_points

    return any(entry.value == "pytest_campaign.plugin" for entry in entry_points(group="pytest11"))


def verdicts(copy: Path, report: str) -> dict[str, tuple[str, set[str]]]:
    """The verdict of each deliverable with the codes of its findings, notes left out."""
    data = json.loads((copy.parent / report).read_text())
    return {d["id"]: (d["verdict"], {finding["rule"] for finding in d["findings"] if finding["level"] != "note"})
            for d in data["deliverables"]}


def changed(copy: Path) -> list[str]:
    """The modules of the copy that differ from ours."""
    ours = {file.relative_to(ORIGINAL): file.read_bytes() for file in ORIGINAL.rglob("*.py")}
    theirs = {file.relative_to(copy / "pytest_campaign"): file.read_bytes() for file in (copy / "pytest_campaign").rglob("*.py")}
    return sorted(file.as_posix() for file in ours.keys() | theirs.keys() if ours.get(file) != theirs.get(file))


def test_before(copy: Path, campaign: campaigns.Written) -> None:
    """Without the three files nothing of what they bring is there."""
    assert check(copy, campaign.directory, "report.json").returncode == 1
    found = verdicts(copy, "report.json")
    assert found["control/final"] == found["control/cut"] == found["control/whole"] == ("unverified", {"reload.unrecognised"})
    assert "toy.name" not in run(copy, "pytest_campaign.cli", "rules").stdout
    refused = check(copy, campaign.directory, "report.toy")
    assert refused.returncode == 4
    assert "report.toy should end in" in refused.stderr


def test_one_file_each(copy: Path, campaign: campaigns.Written) -> None:
    for folder, text in (("checks", CHECK), ("formats", FORMAT), ("reporting", REPORT)):
        (copy / "pytest_campaign" / folder / "toy.py").write_text(text)
    assert changed(copy) == ["checks/toy.py", "formats/toy.py", "reporting/toy.py"]

    done = check(copy, campaign.directory, "report.json")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "toy.name" in done.stdout
    assert verdicts(copy, "report.json") == {
        "control/last": ("accepted", set()), "control/metrics": ("accepted", set()), "variant/weights": ("accepted", set()),
        "control/whole": ("accepted", set()), "control/final": ("rejected", {"toy.name"}),
        "control/cut": ("rejected", {"reload.truncated"})}

    assert check(copy, campaign.directory, "report.toy").returncode == 1
    assert "rejected control/cut toy" in (copy.parent / "report.toy").read_text().splitlines()
    rules = run(copy, "pytest_campaign.cli", "rules", "toy.name")
    assert "## toy.name" in rules.stdout
    assert "Nothing ever is." in rules.stdout


def test_a_rule_is_one_edit(copy: Path, campaign: campaigns.Written) -> None:
    module = copy / "pytest_campaign/checks/content.py"
    lines = module.read_text().split("\n")
    at = next(number for number, line in enumerate(lines) if line.startswith("def check("))
    after = next(number for number, line in enumerate(lines) if number > at and '"""' in line)
    lines[after] += ('\n    if deliverable.id.endswith("/last"):'
                     '\n        yield HASTY.finding("too quick", path=deliverable.path, remedy="take the time")')
    lines[at] = RULE + "\n\n" + lines[at]
    module.write_text("\n".join(lines))
    assert changed(copy) == ["checks/content.py"]

    check(copy, campaign.directory, "report.json")
    found = verdicts(copy, "report.json")
    assert found["control/last"] == ("rejected", {"content.hasty"})
    assert found["variant/weights"] == ("accepted", set())
    assert "## content.hasty" in run(copy, "pytest_campaign.cli", "rules", "content.hasty").stdout
