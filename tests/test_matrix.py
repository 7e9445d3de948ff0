"""Every format that is known, whole and with each typical fault, without and with digests that were recorded before it."""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import json
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import hugging_face
import pytest
import torch
from format_samples import SAMPLES, Sample, State
from sessions import pytest_session

from pytest_campaign.formats import formats


class Fault(enum.StrEnum):
    """What happens to a deliverable. The changes of tensors happen before the save, the others to the file that holds them."""

    INTACT = "intact"
    TRUNCATED = "truncated"
    FLIPPED = "byte flipped"
    DROPPED = "tensor dropped"
    RENAMED = "tensor renamed"
    NAN = "NaN"
    SHAPE = "wrong shape"
    NUL_TAIL = "NUL tail"
    SHARD = "shard missing"


def dropped(state: State, victim: str) -> State:
    return {name: value for name, value in state.items() if name != victim}


def renamed(state: State, victim: str) -> State:
    return {f"{name}_old" if name == victim else name: value for name, value in state.items()}


def with_nan(state: State, victim: str) -> State:
    value = state[victim].clone()
    value.view(-1)[3] = torch.nan
    return state | {victim: value}


def reshaped(state: State, victim: str) -> State:
    value = state[victim]
    return state | {victim: torch.cat([value, value[:1]])}


DOCUMENT = Path(__file__).parent.parent / "docs/formats.md"
TITLE = "## What is seen without a digest"
BY_NAME = {str(fault): fault for fault in Fault if fault is not Fault.INTACT}
BEFORE: Mapping[Fault, Callable[[State, str], State]] = {
    Fault.DROPPED: dropped, Fault.RENAMED: renamed, Fault.NAN: with_nan, Fault.SHAPE: reshaped}


def spoil(sample: Sample, target: Path, fault: Fault, values: bytes) -> None:
    """Damage the file with the values of the victim, or lose another one of the set."""
    if fault is Fault.SHARD:
        assert sample.shard is not None
        (target / sample.shard).unlink()
        return
    files = [target] if target.is_file() else sorted(file for file in target.rglob("*") if file.is_file())
    (file,) = [file for file in files if values in file.read_bytes()]
    data = bytearray(file.read_bytes())
    if fault is Fault.TRUNCATED:
        del data[len(data) * 3 // 5:]
    elif fault is Fault.FLIPPED:
        data[data.index(values) + len(values) // 2] ^= 1
    else:
        start = data.index(values) + len(values) * 4 // 7
        data[start:] = bytes(len(data) - start)
    file.write_bytes(data)


def write(sample: Sample, target: Path, fault: Fault) -> None:
    """One deliverable with one fault."""
    values = b""

    def change(state: State) -> State:
        nonlocal values
        values = state[sample.victim].contiguous().numpy().tobytes()
        return BEFORE[fault](state, sample.victim) if fault in BEFORE else state

    target.parent.mkdir(parents=True)
    sample.write(target, change)
    if fault is not Fault.INTACT and fault not in BEFORE:
        spoil(sample, target, fault, values)


def place(sample: Sample, fault: Fault) -> str:
    return re.sub("[^A-Za-z0-9]+", "-", f"{sample.label} {fault}")


@dataclasses.dataclass(frozen=True)
class Expected:
    """A row of the table: the depth ("unverified" where nothing is accepted) and what is said of each fault, as it is written."""

    depth: str
    cells: Mapping[Fault, str]

    def rules(self, fault: Fault) -> set[tuple[str, str]]:
        """The rules that the table names, with their levels."""
        named = re.findall(r"`([a-z-]+)`( \(warning\))?", self.cells.get(fault, ""))
        return {(f"reload.{rule}", "warning" if warning else "error") for rule, warning in named}


def documented() -> dict[str, Expected]:
    """The table of the documentation by the first column."""
    text = DOCUMENT.read_text().split(TITLE)[1].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()
            if line.startswith("|")]
    assert rows[0] == ["format", "accepted at", *BY_NAME]
    return {name: Expected(depth, dict(zip(BY_NAME.values(), cells, strict=True))) for name, depth, *cells in rows[2:]}


def makes_sense(sample: Sample, fault: Fault) -> bool:
    """Whether the table says what is seen, and not why there is no such fault."""
    cell = TABLE[sample.label].cells.get(fault, "not seen")
    return cell == "not seen" or "`" in cell


# What is no matter of the values: the model beside the state of each training is the same, a pickle is never loaded, and
# TensorFlow's `checkpoint` names what was lost.
BESIDE = frozenset({"identifiers.copy", "reload.executable-format", "portable.best-checkpoint"})
TABLE = documented()
CELLS = [(sample, fault) for sample in SAMPLES for fault in Fault if makes_sense(sample, fault)]


def digests(root: Path, path: str) -> list[dict[str, object]]:
    """The entries of ``files`` for a deliverable."""
    top = root / path
    files = [top] if top.is_file() else sorted(file for file in top.rglob("*") if file.is_file())
    return [{"path": file.relative_to(root).as_posix(), "bytes": file.stat().st_size,
             "sha256": hashlib.sha256(file.read_bytes()).hexdigest()} for file in files]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All deliverables, each in a folder with the name of its cell."""
    root = tmp_path_factory.mktemp("written")
    hugging_face.model(root / "base")
    for sample, fault in CELLS:
        write(sample, root / place(sample, fault) / sample.name, fault)
    return root


def run(root: Path, written: Path, recorded: bool) -> Mapping[str, Mapping[str, Any]]:
    """What a session says of all cells as deliverables of one campaign."""
    out = shutil.copytree(written, root / "out")
    entries = []
    for sample, fault in CELLS:
        id = place(sample, fault)
        entry = {"id": id, "kind": "checkpoint", "path": f"{id}/{sample.name}", **sample.entry}
        if recorded:
            whole = place(sample, Fault.INTACT)
            entry["files"] = [listed | {"path": str(listed["path"]).replace(whole, id, 1)}
                              for listed in digests(out, f"{whole}/{sample.name}")]
        entries.append(entry)
    (out / "manifest.json").write_text(json.dumps({
        "manifest_version": 1, "campaign": "matrix", "runs": [], "deliverables": entries,
        "bases": {"tiny": {"model": hugging_face.BASE["model"], "path": "base"}}}))
    session = pytest_session(root, "-qq", "--campaign-dir=out", "--campaign-report=report.json", HF_HOME=str(root))
    assert session.status == 1, session.out
    record, = json.loads((root / "report.json").read_text())["campaigns"]
    return {entry["id"]: entry for entry in record["deliverables"]}


@pytest.fixture(scope="module", params=[False, True], ids=["without digests", "with digests"])
def checked(
    request: pytest.FixtureRequest, written: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[bool, Mapping[str, Any]]:
    return request.param, run(tmp_path_factory.mktemp("matrix"), written, request.param)


def test_the_table_has_every_format_and_every_row_a_sample() -> None:
    assert {sample.format for sample in SAMPLES} == set(formats()) - {"zip"}  # an archive of anything is no checkpoint
    assert [sample.label for sample in SAMPLES] == list(TABLE)


def test_no_fault_is_left_out_without_a_reason() -> None:
    left_out = {(sample.label, fault): TABLE[sample.label].cells[fault] for sample in SAMPLES for fault in Fault
                if not makes_sense(sample, fault)}
    single = {(sample.label, Fault.SHARD): "one file" for sample in SAMPLES if sample.shard is None}
    assert left_out == single | {("NumPy, `.npy`", fault): "one array" for fault in (Fault.DROPPED, Fault.RENAMED)}


@pytest.mark.parametrize(("sample", "fault"), [pytest.param(*cell, id=place(*cell)) for cell in CELLS])
def test_cell(sample: Sample, fault: Fault, checked: tuple[bool, Mapping[str, Any]]) -> None:
    recorded, entries = checked
    entry = entries[place(sample, fault)]
    row = TABLE[sample.label]
    errors = {(finding["rule"], finding["level"]) for finding in entry["findings"]
              if finding["level"] != "note" and finding["rule"] not in BESIDE}
    by_digest = {(rule, level) for rule, level in errors if rule.startswith("fixity.")}
    assert errors - by_digest == row.rules(fault)
    assert bool(by_digest) == (recorded and fault is not Fault.INTACT)
    if any(level == "error" for _, level in errors):
        assert entry["verdict"] == "rejected"
    elif row.depth == "unverified":
        assert entry["verdict"] == "unverified"
    else:
        assert (entry["verdict"], entry["depth"]) == ("accepted", row.depth)


@pytest.mark.parametrize(("sample", "fault"), [pytest.param(*cell, id=place(*cell)) for cell in CELLS])
def test_message(sample: Sample, fault: Fault, checked: tuple[bool, Mapping[str, Any]]) -> None:
    """Each names a file of the deliverable, what was seen, what was expected and what to do."""
    id = place(sample, fault)
    for finding in checked[1][id]["findings"]:
        if finding["rule"].startswith("reload.") and finding["level"] != "note":
            assert finding["path"].startswith(f"{id}/{sample.name}")
            assert finding["observed"]
            assert finding["expected"]
            assert finding["remedy"]
            assert "Error" not in finding["message"]
