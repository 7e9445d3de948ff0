"""Parquet files of predictions, data sets and metrics: written by pyarrow, read in the fresh process, judged like any others."""

from __future__ import annotations

import datetime
import decimal
import json
import math
import os
import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy
import pyarrow as pa
import pytest
import sessions
from pyarrow import parquet
from sessions import entry

from pytest_campaign import parquet_tables, snapshot
from pytest_campaign.campaign import Asked
from pytest_campaign.checks.data import CHECK
from pytest_campaign.evidence import Files
from pytest_campaign.findings import Finding, Level, Outcome, outcome
from pytest_campaign.formats.base import Unit
from pytest_campaign.reload.answers import Answers
from pytest_campaign.reload.client import Reloader
from pytest_campaign.reload.protocol import Answer, Death, DeathKind, Job, Limits

IDS = [f"t{number}" for number in range(20)]
DATASETS = {"test": {"ids": IDS, "key": ["id"]}}
SEEN = """
import sys
def pytest_sessionfinish(): print("\\npyarrow here:", "pyarrow" in sys.modules)
"""


@pytest.fixture(scope="module")
def light(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with stand-ins for libraries that no table needs: torch takes seconds to import."""
    folder = tmp_path_factory.mktemp("light")
    sessions.write(folder, {"torch.py": "", "safetensors.py": ""})
    return folder


def first(*folders: Path) -> dict[str, str]:
    """The environment in which modules are sought in these folders first."""
    return {"PYTHONPATH": os.pathsep.join([*map(str, folders), os.environ.get("PYTHONPATH", "")])}


@pytest.fixture(scope="module")
def reloader(light: Path) -> Iterator[Reloader]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(light), *sys.path])
        running = Reloader(Limits(timeout=30.0, memory=2**28, threads=2))
    with running:
        yield running


class Judge:
    """What the check finds in one deliverable of a campaign."""

    def __init__(self, folder: Path, runner: parquet_tables.Runner) -> None:
        self.folder = folder
        self.runner = runner

    def __call__(self, path: str, kind: str = "predictions", **more: Any) -> list[Finding]:
        datasets = more.pop("datasets", DATASETS)
        own = {"id": "control", "status": "completed", "role": "control", "deliverables": [entry("it", path, kind, **more)]}
        (self.folder / "manifest.json").write_text(json.dumps(
            {"manifest_version": 1, "campaign": "small", "datasets": datasets, "runs": [own]}))
        campaign = snapshot.campaign(snapshot.take(self.folder, None), Asked())
        assert not campaign.faults
        return list(CHECK.run(campaign, campaign.by_id["control/it"], Files(campaign.inventory, self.runner, digest=False)))

    def answers(self, columns: Mapping[str, Any] | pa.Table, **more: Any) -> list[Finding]:
        """The same for predictions of the data set, a Parquet file with these columns."""
        write(self.folder / "a.parquet", columns)
        wanted = {"dataset": "test", "value": "answer"} | more
        return self("a.parquet", **{name: value for name, value in wanted.items() if value is not None})


@pytest.fixture
def judge(tmp_path: Path, reloader: Reloader) -> Judge:
    return Judge(tmp_path, reloader.run)


def write(path: Path, columns: Mapping[str, Any] | pa.Table, **options: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(columns if isinstance(columns, pa.Table) else pa.table(columns), path, **options)


def rules(findings: Sequence[Finding], level: Level = Level.ERROR) -> list[str]:
    return [finding.rule for finding in findings if finding.level is level]


def told(findings: Sequence[Finding]) -> list[tuple[str, str]]:
    return [(finding.rule, finding.place) for finding in findings]


# ---- the command ---------------------------------------------------------------------------------------------


def campaign(folder: Path, ids: Sequence[str] = IDS) -> Path:
    """A data set in two files, as the library datasets names them, with its images; predictions for it."""
    for part in (0, 1):
        own = IDS[part * 10:part * 10 + 10]
        images = [{"bytes": b"\x89PNG", "path": None}] * 10
        write(folder / f"data/test-0000{part}-of-00002.parquet", {"id": own, "image": images, "text": own})
    write(folder / "answers.parquet", {"id": ids, "answer": ["yes"] * len(ids)})
    listed = [entry("test", "data", "dataset", key=["id"]), entry("answers", "answers.parquet", "predictions", dataset="test")]
    (folder / "manifest.json").write_text(json.dumps({
        "manifest_version": 1, "campaign": "small", "deliverables": listed, "runs": [],
        "datasets": {"test": {"path": "data", "key": ["id"]}}}))
    return folder


@pytest.mark.parametrize("workers", [(), ("-n", "2")])
def test_the_command_accepts_a_sound_campaign(tmp_path: Path, light: Path, workers: Sequence[str]) -> None:
    campaign(tmp_path / "out")
    (tmp_path / "conftest.py").write_text(SEEN)
    before = sessions.listing(tmp_path / "out")
    session = sessions.pytest_session(tmp_path, "--campaign-dir=out", *workers, **first(light))
    assert (session.status, "ACCEPTED, 2 of 2" in session.last) == (0, True), session.out
    assert "pyarrow here: False" in session.out
    assert sessions.listing(tmp_path / "out") == before


def test_the_command_names_rows(tmp_path: Path, light: Path) -> None:
    campaign(tmp_path / "out", [*IDS[12:], *IDS[12:15], "x1", "x2"])
    session = sessions.pytest_session(tmp_path, "--campaign-dir=out", "-v", **first(light))
    assert session.status == 1
    assert "out/answers.parquet::data FAILED" in session.out
    assert "out/data::data PASSED" in session.out
    for text in ("data.missing-ids: answers.parquet: rows of the data set test without a prediction, 12 ids: t0 (row 1), t1",
                 "data.duplicated-ids: answers.parquet#row 9: more often than in the data set test, 3 ids: t12 (row 9)",
                 "data.unknown-ids: answers.parquet#row 12: not in the data set test, 2 ids: x1 (row 12), x2 (row 13)"):
        assert text in session.out


OPENS = "import os, signal, time, pyarrow\npyarrow.PythonFile = lambda file, mode: file\ndef ParquetFile(*args, **more): "


@pytest.mark.parametrize(("body", "version", "verdict", "texts"), [
    (OPENS + "os.kill(os.getpid(), signal.SIGSEGV)", "99.0", "REJECTED",
     ["data.damaged: answers.parquet: it cannot be read: the process crashed with SIGSEGV while it read the files"]),
    (OPENS + "time.sleep(600)", "99.0", "UNVERIFIED",
     ["data.not-read: answers.parquet: its rows were not read: no progress for 1 s", "or raise --campaign-timeout"]),
    ("raise ImportError('libarrow.so is missing')", "99.0", "UNVERIFIED",
     ["data.not-read: answers.parquet: its rows were not read: pyarrow could not be imported: ImportError: libarrow.so is"]),
    ("", "14.0.2", "UNVERIFIED", ["data.not-read: answers.parquet: its rows were not read: pyarrow 14.0.2 is too old",
                                'pip install "pytest-campaign[parquet]"']),
])
def test_what_happens_to_the_library(tmp_path: Path, light: Path, body: str, version: str, verdict: str,
                                     texts: Sequence[str]) -> None:
    """With another pyarrow that is imported first."""
    campaign(tmp_path / "out")
    other = tmp_path / "site"
    sessions.write(other, {
        "pyarrow/__init__.py": "ArrowException = ArithmeticError\ndef set_memory_pool(pool): pass\nsystem_memory_pool = dict",
        "pyarrow/compute.py": "", "pyarrow/parquet.py": body,
        f"pyarrow-{version}.dist-info/METADATA": f"Metadata-Version: 2.1\nName: pyarrow\nVersion: {version}\n"})
    session = sessions.pytest_session(tmp_path, "--campaign-dir=out", "--campaign-timeout=1", **first(other, light))
    assert session.status == 1
    assert f"{verdict:12}answers" in session.out, session.out
    for text in texts:
        assert text in session.out


def test_memory_that_does_not_suffice(tmp_path: Path, light: Path) -> None:
    """A long text in every row takes no room in the file, and none in memory where the column is one of a dictionary."""
    texts = pa.DictionaryArray.from_arrays(numpy.zeros(200, numpy.int32), ["x" * 1_000_000])
    for name, column in (("sound", texts), ("large", texts.dictionary_decode())):
        write(tmp_path / f"out/{name}.parquet", {"id": list(range(200)), "answer": column})
    sessions.manifest(tmp_path / "out", *(entry(name, f"{name}.parquet", "predictions", key=["id"], value="answer")
                                          for name in ("sound", "large")))
    session = sessions.pytest_session(tmp_path, "--campaign-dir=out", "--campaign-memory=100MB", **first(light))
    for text in ("ACCEPTED    sound", "UNVERIFIED  large", "raise --campaign-memory",
                 "data.not-read: large.parquet: its rows were not read: the limit of 95.4 MiB was reached"):
        assert text in session.out


# ---- what is wrong with a file -------------------------------------------------------------------------------


SOUND = {"id": IDS, "answer": ["yes"] * 20}


def test_a_sound_file(judge: Judge) -> None:
    assert not judge.answers(SOUND)
    assert told(judge.answers({**SOUND, "id": [*IDS[:19], "x"]})) == [
        ("data.missing-ids", "a.parquet"), ("data.unknown-ids", "a.parquet#row 20")]


@pytest.mark.parametrize(("spoil", "rule", "text"), [
    (lambda data: data[:-1], "data.torn", "the file breaks off"),
    (lambda data: data[:len(data) // 2], "data.torn", "the file breaks off"),
    (lambda data: b"PAR1", "data.torn", "its 4 bytes end in"),
    (lambda data: b"id,answer\nt0,yes\n", "data.damaged", "it begins with 69 64 2c 61"),
    (lambda data: data[:-8] + b"\xff\xff\xff\x0fPAR1", "data.damaged", "its footer claims 268,435,455 bytes"),
    (lambda data: b"PAR1" + bytes(40) + b"\x10\0\0\0PAR1", "data.damaged", "it cannot be decoded"),
    (lambda data: b"PAR1" + bytes(100) + data[104:], "data.damaged", "it cannot be decoded after 0 rows"),
    (lambda data: data[:-4] + b"PARE", "data.not-read", "the file is encrypted"),
])
def test_damage(judge: Judge, spoil: Any, rule: str, text: str) -> None:
    write(judge.folder / "a.parquet", SOUND)
    assert not judge("a.parquet", dataset="test", value="answer")
    (judge.folder / "a.parquet").write_bytes(spoil((judge.folder / "a.parquet").read_bytes()))
    found = judge("a.parquet", dataset="test", value="answer")
    assert told(found) == [(rule, "a.parquet")]
    assert text in found[0].message
    # the same file as the data set
    (judge.folder / "a.parquet").rename(judge.folder / "test.parquet")
    sessions.write(judge.folder, {"b.csv": "id\n" + "\n".join(IDS)})
    found = judge("b.csv", dataset="test", datasets={"test": {"path": "test.parquet", "key": ["id"]}})
    assert "data.not-compared" in rules(found, Level.WARNING) if rule == "data.not-read" else "data.no-dataset" in rules(found)


def test_a_later_page_is_damaged(judge: Judge) -> None:
    ids = [f"t{number:05}" for number in range(30_000)]
    write(judge.folder / "a.parquet", {"id": ids, "answer": ids}, row_group_size=10_000, compression="none", use_dictionary=False,
          write_page_checksum=True)
    datasets = {"test": {"ids": ids, "key": ["id"]}}
    assert not judge("a.parquet", dataset="test", value="answer", datasets=datasets)
    data = (judge.folder / "a.parquet").read_bytes()
    at = data.index(b"t25000")
    (judge.folder / "a.parquet").write_bytes(data[:at] + b"t25001" + data[at + 6:])
    found = judge("a.parquet", dataset="test", value="answer", datasets=datasets)
    assert told(found) == [("data.damaged", "a.parquet")]
    assert "after 20,000 rows" in found[0].message


@pytest.mark.parametrize(("columns", "more", "expected"), [
    ({"id": [], "answer": []}, {}, [("data.no-rows", "a.parquet")]),
    ({"key": IDS, "answer": IDS}, {}, [("data.no-id", "a.parquet#row 1")]),
    ({"id": IDS, "text": IDS}, {}, [("data.no-value", "a.parquet#row 1")]),
    ({"id": [*IDS[:19], None], "answer": IDS}, {}, [("data.id-type", "a.parquet#row 20")]),
    ({"id": [float(at) for at in range(20)], "answer": IDS}, {}, [("data.id-type", "a.parquet#row 1")]),
    ({"id": [True] * 20, "answer": IDS}, {}, [("data.id-type", "a.parquet#row 1")]),
    ({"id": [[1]] * 20, "answer": IDS}, {}, [("data.id-type", "a.parquet#row 1")]),
    ({"id": IDS, "answer": [None, *IDS[1:]]}, {}, [("data.null", "a.parquet#row 1")]),
    ({"id": IDS, "answer": [None, *IDS[1:]]}, {"nullable": ["answer"]}, []),
    ({"id": IDS, "answer": [""] * 20}, {}, [("data.all-empty", "a.parquet")]),
    ({"id": IDS, "answer": ["", " " * 100] * 10}, {}, [("data.all-empty", "a.parquet")]),
    ({"id": IDS, "answer": [*[""] * 19, " " * 100 + "yes"]}, {}, []),
    ({"id": IDS, "answer": [[]] * 20}, {}, [("data.all-empty", "a.parquet")]),
    ({"id": IDS, "answer": [[], *[[1]] * 19]}, {}, []),
    ({"id": IDS, "answer": [b""] * 20}, {}, [("data.all-empty", "a.parquet")]),
    ({"id": IDS, "answer": pa.nulls(20)}, {}, [("data.all-empty", "a.parquet")]),
    ({"id": IDS, "answer": [0.5, math.nan] * 10}, {}, [("data.non-finite", "a.parquet#row 2")]),
    ({"id": IDS, "answer": [0.5, -math.inf] * 10}, {}, [("data.non-finite", "a.parquet#row 2")]),
    ({"id": IDS, "answer": [0.5, math.nan] * 10}, {"nullable": ["answer"]}, []),
    ({"id": IDS, "answer": [0.5] * 20, "other": [math.nan] * 20}, {}, []),
    ({"id": IDS, "answer": [[0.5], [0.5, math.nan]] * 10}, {}, [("data.non-finite", "a.parquet#row 2")]),
    ({"id": IDS, "answer": [{"a": [0.5]}, {"a": [math.inf]}] * 10}, {}, [("data.non-finite", "a.parquet#row 2")]),
    ({"id": IDS, "answer": [[0.5, None], None] * 10}, {}, [("data.null", "a.parquet#row 2")]),
    ({"id": IDS, "answer": IDS, "cut": [False, True] * 10}, {"truncated_field": "cut"}, [("data.cut-inputs", "a.parquet#row 2")]),
    ({"id": IDS, "answer": IDS, "cut": [False] * 20}, {"truncated_field": "cut"}, []),
    ({"id": IDS, "answer": ["a.png"] * 20}, {"file_columns": ["answer"]}, []),
    ({"id": IDS, "answer": [["a.png"], ["b"]] * 10}, {"file_columns": ["answer"]}, [("data.file-missing", "a.parquet#row 2")]),
])
def test_rules(judge: Judge, columns: Mapping[str, Any], more: Mapping[str, Any], expected: Sequence[tuple[str, str]]) -> None:
    sessions.write(judge.folder, {"a.png": "x"})
    assert [place for place in told(judge.answers(columns, **more)) if place[0] != "data.missing-ids"] == expected


def test_a_name_twice(judge: Judge) -> None:
    twice = pa.Table.from_arrays([pa.array(IDS), pa.array(IDS), pa.array(IDS)], ["id", "answer", "answer"])
    assert told(judge.answers(twice)) == [("data.duplicate-key", "a.parquet")]
    aside = pa.Table.from_arrays([pa.array(IDS)] * 4, ["id", "answer", "text", "text"])
    assert rules(judge.answers(aside), Level.WARNING) == ["data.duplicate-key"]


# ---- types ---------------------------------------------------------------------------------------------------


NUMBERS = list(range(20))
TIMES = [datetime.datetime(2024, 1, 1, 12, 0, at) for at in NUMBERS]
UUIDS = [uuid.UUID(int=at) for at in NUMBERS]


@pytest.mark.parametrize(("ids", "column"), [
    *((list(map(str, NUMBERS)), pa.array(NUMBERS, kind)) for kind in (
        pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64())),
    ([str(2**64 - 1 - at) for at in NUMBERS], pa.array([2**64 - 1 - at for at in NUMBERS], pa.uint64())),
    (NUMBERS, pa.array([decimal.Decimal(at) for at in NUMBERS], pa.decimal128(38, 0))),
    (IDS, pa.array(IDS, pa.large_string())),
    (IDS, pa.array(IDS).dictionary_encode()),
    (IDS, pa.array([id.encode() for id in IDS])),
    ([f"2024-01-01 12:00:{at:02}" for at in NUMBERS], pa.array(TIMES, pa.timestamp("ns"))),
    ([f"2024-01-01 12:00:{at:02}Z" for at in NUMBERS], pa.array(TIMES, pa.timestamp("ms", "UTC"))),
    ([f"2024-01-{at + 1:02}" for at in NUMBERS], pa.array([datetime.date(2024, 1, at + 1) for at in NUMBERS])),
    ([str(id) for id in UUIDS], pa.array([id.bytes for id in UUIDS], pa.binary(16))),
])
def test_ids_of_all_types(judge: Judge, ids: Sequence[object], column: pa.Array) -> None:
    assert not judge.answers({"id": column, "answer": IDS}, datasets={"test": {"ids": ids, "key": ["id"]}})


@pytest.mark.parametrize("column", [
    pa.array(NUMBERS, pa.int16()), pa.array([decimal.Decimal("1.25")] * 20), pa.array(TIMES, pa.timestamp("ns", "Europe/Berlin")),
    pa.array([True, False] * 10), pa.array(numpy.ones(20, numpy.float16)), pa.array(IDS, pa.large_string()),
    pa.array(["a", "b"] * 10).dictionary_encode(), pa.array([[["a"]]] * 20), pa.array([{"a": {"b": 1}}] * 20),
    pa.array([[("a", 1.0)]] * 20, pa.map_(pa.string(), pa.float64())), pa.array([[1, 2]] * 20, pa.list_(pa.int8(), 2)),
    pa.array([datetime.timedelta(1)] * 20), pa.array([datetime.time(1)] * 20),
])
def test_values_of_all_types(judge: Judge, column: pa.Array) -> None:
    assert not judge.answers({"id": IDS, "answer": column})
    assert not judge.answers({"id": IDS, "answer": column}, value=None)
    empty = pa.array([None] * 20, column.type)
    assert rules(judge.answers({"id": IDS, "answer": empty})) == ["data.all-empty"]
    assert rules(judge.answers({"id": IDS, "answer": empty}, value=None)) == ["data.all-empty"]


def test_a_dictionary_with_null(judge: Judge) -> None:
    column = pa.array(["a", None, "b", "a"] * 5).dictionary_encode()
    assert told(judge.answers({"id": IDS, "answer": column})) == [("data.null", "a.parquet#row 2")]
    assert not judge.answers({"id": IDS, "answer": column}, nullable=["answer"])
    write(judge.folder / "m.parquet", {"loss": [0.5] * 20, "split": column})
    assert not judge("m.parquet", "metrics")


def test_columns_that_nobody_asked_for(judge: Judge) -> None:
    masks = pa.array([b"\x89PNG"] * 20)
    assert not judge.answers({"id": IDS, "mask": masks, "note": [""] * 20}, value=None)
    assert rules(judge.answers({"id": IDS, "mask": pa.nulls(20, pa.binary())}, value=None)) == ["data.all-empty"]
    assert rules(judge.answers({"id": IDS, "note": [""] * 20, "__index_level_0__": NUMBERS}, value=None)) == ["data.all-empty"]
    assert not judge.answers({"id": IDS, "a.b": ["x"] * 20, "a": [""] * 20}, value=None)


# ---- several files -------------------------------------------------------------------------------------------


def test_a_data_set_in_parts(judge: Judge) -> None:
    write(judge.folder / "data/test-00000-of-00002.parquet", {"id": IDS[:12], "text": IDS[:12]})
    write(judge.folder / "data/test-00001-of-00002.parquet", {"id": IDS[12:], "text": IDS[12:]})
    datasets = {"test": {"path": "data", "key": ["id"]}}
    assert not judge.answers(SOUND, datasets=datasets)
    (judge.folder / "data/test-00001-of-00002.parquet").unlink()
    found = judge.answers(SOUND, datasets=datasets)
    assert told(found) == [("data.no-dataset", "manifest.json#/datasets/test")]


def test_the_same_table_as_text_counts_once(judge: Judge) -> None:
    for folder in ("data", "parts"):
        write(judge.folder / folder / "test.parquet", SOUND)
        sessions.write(judge.folder, {f"{folder}/test.csv": "id,answer\n" + "".join(f"{id},yes\n" for id in IDS)})
    datasets = {"test": {"path": "data", "key": ["id"]}}
    assert not judge("parts", dataset="test", datasets=datasets)
    (judge.folder / "parts/test.csv").rename(judge.folder / "parts/more.csv")
    assert rules(judge("parts", dataset="test", datasets=datasets)) == ["data.duplicated-ids"]


def test_rows_of_a_data_set(judge: Judge) -> None:
    write(judge.folder / "test.parquet", SOUND)
    assert not judge("test.parquet", "dataset", datasets={"test": {"path": "test.parquet", "key": ["id"], "rows": 20}})
    assert rules(judge("test.parquet", "dataset", datasets={"test": {"path": "test.parquet", "key": ["id"], "rows": 21}})) == [
        "data.rows"]


# ---- metrics -------------------------------------------------------------------------------------------------


STEPS = list(range(40))


@pytest.mark.parametrize(("columns", "expected"), [
    ({"step": STEPS, "loss": [4 - step / 100 for step in STEPS]}, []),
    ({"step": STEPS, "loss": [None, *[0.5] * 39]}, []),
    ({"step": STEPS, "loss": pa.array([0.5] * 40, pa.float32()), "split": ["train"] * 40}, []),
    ({"step": [*STEPS[:20], *STEPS[:20]], "loss": [1 + at / 9 for at in STEPS]}, [("data.history-restarts", "m.parquet#row 21")]),
    ({"step": STEPS, "loss": [0.5] * 39 + [math.nan]}, [("data.non-finite", "m.parquet#row 40")]),
    ({"loss": [0.5, None]}, [("data.null", "m.parquet#row 2")]),
    ({"loss": pa.array([], pa.float64())}, [("data.no-rows", "m.parquet")]),
    ({"name": ["loss"]}, [("data.all-empty", "m.parquet")]),
])
def test_metrics(judge: Judge, columns: Mapping[str, Any], expected: Sequence[tuple[str, str]]) -> None:
    write(judge.folder / "m.parquet", columns)
    assert [place for place in told(judge("m.parquet", "metrics")) if place[0] != "data.empty-column"] == expected


# ---- the machine ---------------------------------------------------------------------------------------------


def failing(kind: DeathKind) -> parquet_tables.Runner:
    def run(job: Job, progress: object = None, rows: object = None, /) -> Answer:
        return Answer([None], [Death(kind, "so it ended")], 0.0)

    return run


@pytest.mark.parametrize(("kind", "result"), [
    (DeathKind.EXCEPTION, Outcome.FAILED), (DeathKind.CRASHED, Outcome.FAILED), (DeathKind.CHANGED, Outcome.UNVERIFIED),
    (DeathKind.UNREADABLE, Outcome.UNVERIFIED), (DeathKind.TIMEOUT, Outcome.UNVERIFIED), (DeathKind.MEMORY, Outcome.UNVERIFIED),
    (DeathKind.KILLED, Outcome.UNVERIFIED), (DeathKind.NO_ANSWER, Outcome.UNVERIFIED), (DeathKind.NO_SERVER, Outcome.UNVERIFIED),
])
def test_how_a_reading_ends(tmp_path: Path, kind: DeathKind, result: Outcome) -> None:
    assert outcome(Judge(tmp_path, failing(kind)).answers(SOUND)) is result


def no_process(job: Job, progress: object = None, rows: object = None, /) -> Answer:
    raise AssertionError("no process is needed")


def test_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", absent)
    found = Judge(tmp_path, no_process).answers(SOUND)
    assert ([finding.rule for finding in found], outcome(found)) == (["data.not-read"], Outcome.UNVERIFIED)
    assert "pyarrow is not installed" in found[0].message
    assert 'pip install "pytest-campaign[parquet]"' in found[0].remedy


def test_more_rows_than_are_kept(judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_tables, "MOST_BYTES", 100)
    found = judge.answers(SOUND)
    assert ([finding.rule for finding in found], outcome(found)) == (["data.not-read"], Outcome.UNVERIFIED)
    assert "the rows take more than 100 B" in found[0].message


def test_what_a_child_says_of_rows() -> None:
    taken: list[str] = []
    units = [Unit("Parquet", "a", ("a",))]
    rows = b'{"rows": "[1]\\n"}\n'
    with pytest.raises(ValueError, match="out of order"):
        Answers(units, ["a"], taken.append).feed(rows)
    with pytest.raises(ValueError, match="out of order"):
        Answers(units, ["a"]).feed(b'{"ready": true}\n' + rows)
    with pytest.raises(ValueError, match="out of order"):
        Answers(units, ["a"], taken.append).feed(b'{"ready": true}\n{"rows": [1]}\n')
    answers = Answers(units, ["a"], taken.append)
    assert answers.feed(b'{"ready": true}\n' + rows)
    assert not answers.feed(b'{"rows": ""}\n')
    assert taken == ["[1]\n", ""]
