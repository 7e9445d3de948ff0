"""The reader of tables: what it takes, what it refuses and where, and that it agrees with the csv module."""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Sequence

import numpy
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from pytest_campaign import record_facts
from pytest_campaign.readers import rows, tables
from pytest_campaign.readers.rows import Header, Item, Row
from pytest_campaign.readers.strict_json import Fault
from pytest_campaign.record_facts import Columns

PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # the machine may be busy


def read(data: bytes, name: str = "rows.csv") -> list[Item]:
    return list(record_facts.read(name, len(data), lambda: io.BytesIO(data), Columns()))


def cells(data: bytes, name: str = "rows.csv") -> list[list[str]]:
    return [list(item.names) if isinstance(item, Header) else list(item.value.values())
            for item in read(data, name) if not isinstance(item, Fault)]


def kinds(data: bytes, name: str = "rows.csv") -> list[tuple[str, int | None]]:
    return [(item.kind if isinstance(item, Fault) else "header" if isinstance(item, Header) else "row", item.line)
            for item in read(data, name) if not isinstance(item, Header)]


@pytest.mark.parametrize(("data", "expected"), [
    (b"id,a\n1,x\n2,y\n", [["id", "a"], ["1", "x"], ["2", "y"]]),
    (b"\xef\xbb\xbfid,a\r\n1,x\r\n\r\n2,y", [["id", "a"], ["1", "x"], ["2", "y"]]),
    (b'id,a\n1,"two\nlines"\n2,"a ""quoted"" word"\n', [["id", "a"], ["1", "two\nlines"], ["2", 'a "quoted" word']]),
    (b'id,a\n1,"\r\n\r\n"\n2,5" disk\n', [["id", "a"], ["1", "\r\n\r\n"], ["2", '5" disk']]),
    (b'"id","a"\n"1",""\n"",""\n', [["id", "a"], ["1", ""], ["", ""]]),
    ("id,a\n1,x\u2028y\x85z\n".encode(), [["id", "a"], ["1", "x\u2028y\x85z"]]),
    (b"id;a\n1;x,y\n", [["id", "a"], ["1", "x,y"]]),
    (b"id\ta\n1\tx,y\n", [["id", "a"], ["1", "x,y"]]),
    (b"id\nt0\nt1\n", [["id"], ["t0"], ["t1"]]),
])
def test_what_is_fine(data: bytes, expected: list[list[str]]) -> None:
    assert cells(data) == expected
    assert not [item for item in read(data) if isinstance(item, Fault)]


@pytest.mark.parametrize(("data", "expected"), [
    (b'id\ta\n1\t"he" said\n', ["1", '"he" said']),
    (b'id\ta\n1\t"x\n', ["1", '"x']),
    (b'id\ta\n1\t"x\ty"\n', ["1", "x\ty"]),
])
def test_quotes_in_tsv_are_quotes_where_that_makes_sense(data: bytes, expected: list[str]) -> None:
    assert cells(data, "rows.tsv") == [["id", "a"], expected]


@pytest.mark.parametrize(("data", "expected"), [
    (b"id,a\n1\n2,x\n3,x,y\n", [("fields", 2), ("row", 3), ("fields", 4)]),
    (b'id,a\n1,"x\ny"\n2\n', [("row", 2), ("fields", 4)]),
    (b'id,a\n1,"x\n2,y\n3,z\n', [("torn", 2)]),
    (b'id,a\n1,"x"y\n2,z\n', [("syntax", 2), ("row", 3)]),
    (b"id,a\n1,x\nid,a\n2,y\n", [("row", 2), ("header", 3), ("row", 4)]),
    (b"id,a,a\n1,x,y\n", [("columns", 1), ("row", 2)]),
    (b"1,1,0\n1,1,0\n", [("row", 2)]),
    (b"id,a\n1,\xff\n2,y\n", [("encoding", 2), ("row", 2), ("row", 3)]),
    (b"id,a\n1,x\n\0\0\0\0\n2,y\n", [("row", 2), ("nul", 3), ("row", 4)]),
    (b"id,a\n", []),
    (b"id,a\r1,x\r2,y\r", [("syntax", 1)]),
    ("id,a\n1,x\n".encode("utf-16"), [("encoding", 1)]),
])
def test_what_is_refused_with_its_line(data: bytes, expected: list[tuple[str, int]]) -> None:
    assert kinds(data) == expected


def test_a_quote_that_takes_the_file_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "LONGEST", 1000)
    assert kinds(b'id,a\n1,"' + b"x\n" * 10_000 + b'"\n') == [("torn", 2)]


def test_a_long_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "LONGEST", 1000)
    assert kinds(b"id,a\n1," + b"x" * 2000 + b"\n2,y\n") == [("limit", 2), ("row", 3)]


def test_it_takes_no_more_than_linear_time() -> None:
    started = time.monotonic()
    assert kinds(b'id,a\n1,"' + b"\n" * 300_000 + b'"\n') == [("row", 2)]
    assert kinds(b'id,a\n1,"' + b'""' * 300_000 + b'"\n') == [("row", 2)]
    assert time.monotonic() - started < 5


NAMES = st.lists(st.text("abcxyz_ ", min_size=1).filter(lambda name: name.strip() == name), min_size=1, max_size=4, unique=True)
CELLS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)


@PATIENT
@given(NAMES, st.data(), st.sampled_from(["\n", "\r\n"]), st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]))
def test_it_agrees_with_csv(names: Sequence[str], data: st.DataObject, end: str, quoting: int) -> None:
    table = data.draw(st.lists(st.lists(CELLS, min_size=len(names), max_size=len(names)).filter(lambda row: row != [*names])))
    assume(all([cell.strip() for cell in row] != list(names) for row in table))
    file = io.StringIO(newline="")
    writer = csv.writer(file, lineterminator=end, quoting=quoting)
    writer.writerows([names, *table])
    text = file.getvalue()
    assume([row for row in csv.reader(io.StringIO(text, newline="")) if row] == [list(names), *table])  # csv forgets to quote CR
    assert cells(text.encode()) == [list(names), *table]
    assert not [item for item in read(text.encode()) if isinstance(item, Fault)]


@PATIENT
@given(st.binary() | st.lists(st.sampled_from([b"a", b",", b'"', b"\n", b"\r", b";", b"\t", b"\0", b"\xff", b"1"])).map(b"".join),
       st.sampled_from(["x.csv", "x.tsv"]))
def test_nothing_else_is_raised(data: bytes, name: str) -> None:
    width = None
    for item in read(data, name):
        if isinstance(item, Header):
            width = len(set(item.names))
        elif isinstance(item, Row):
            assert len(item.value) == width


# ---- comments at the head of measured values -----------------------------------------------------------------


def headed(data: bytes, name: str = "m.csv") -> list[tuple[int | None, list[str]]]:
    found = []
    for item in record_facts.read(name, len(data), lambda: io.BytesIO(data), Columns(), comments=True):
        assert not isinstance(item, Fault), item
        found.append((item.line, list(item.names) if isinstance(item, Header) else list(item.value.values())))
    return found


@pytest.mark.parametrize(("data", "name", "expected"), [
    (b'#{"t_start": 1.5, "env_id": "A", "seed": 3}\nr,l,t\n1,2,3\n', "m.csv", [(2, ["r", "l", "t"]), (3, ["1", "2", "3"])]),
    (b'#{"t_start": 1.5, "env_id": null}\n0.5,2\n', "monitor.csv", [(2, ["0.5", "2"])]),
    (b"# step,loss\n1,0.5\n", "m.csv", [(1, ["step", "loss"]), (2, ["1", "0.5"])]),
    (b"#step\tloss\n1\t0.5\n", "m.tsv", [(1, ["step", "loss"]), (2, ["1", "0.5"])]),
    (b"# lr 0.1, seed 3\n\nstep,loss\n1,0.5\n", "m.csv", [(3, ["step", "loss"]), (4, ["1", "0.5"])]),
    (b"\xef\xbb\xbf# of today\r\n# step;loss\r\n1;0,5\r\n", "m.csv", [(2, ["step", "loss"]), (3, ["1", "0,5"])]),
    (b"#,name,score\n1,a,0.5\n", "m.csv", [(1, ["", "name", "score"]), (2, ["1", "a", "0.5"])]),
    (b"name,score\n#1,0.5\n", "m.csv", [(1, ["name", "score"]), (2, ["#1", "0.5"])]),
    (b"# step,loss\n", "m.csv", [(1, ["step", "loss"])]),
    (b"# loss\n0.5\n0.4\n", "m.csv", [(1, ["loss"]), (2, ["0.5"]), (3, ["0.4"])]),
])
def test_comments_at_the_head(data: bytes, name: str, expected: list[tuple[int, list[str]]]) -> None:
    assert headed(data, name) == expected


def test_elsewhere_a_number_sign_is_a_character() -> None:
    assert cells(b"#tag,text\n#1,a\n") == [["#tag", "text"], ["#1", "a"]]
    assert kinds(b"# by the script\nid,text\n1,a\n") == [("fields", 2), ("fields", 3)]


def test_what_numpy_writes() -> None:
    text = io.StringIO()
    numpy.savetxt(text, [[1, 0.5], [2, 0.25]], delimiter=",", header="by the script\nstep,loss", fmt="%g")
    assert headed(text.getvalue().encode()) == [(2, ["step", "loss"]), (3, ["1", "0.5"]), (4, ["2", "0.25"])]
