"""The reader of JSON Lines: what it takes, what it refuses and where, and that it agrees with Python's own parser."""

from __future__ import annotations

import io
import json
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_campaign import record_facts
from pytest_campaign.readers import json_lines, rows
from pytest_campaign.readers.rows import Row
from pytest_campaign.readers.strict_json import Fault

PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # the machine may be busy


def read(data: bytes) -> list[Row | Fault]:
    return list(json_lines.records(io.BytesIO(data)))


def kinds(data: bytes) -> list[tuple[str, int | None]]:
    return [(item.kind if isinstance(item, Fault) else "row", item.line) for item in read(data)]


@pytest.mark.parametrize("data", [
    b'{"a": 1}\n{"a": 2}\n', b'{"a": 1}\n{"a": 2}', b'{"a": 1}\n{"a": 2}\n\n', b'\xef\xbb\xbf{"a": 1}\r\n{"a": 2}\r\n',
    b'\n{"a": 1}\n \t\r\n{"a": 2}\n'])
def test_what_is_fine(data: bytes) -> None:
    assert [item.value for item in read(data) if isinstance(item, Row)] == [{"a": 1}, {"a": 2}]
    assert not [item for item in read(data) if isinstance(item, Fault)]


def test_lines_end_at_line_feeds_only() -> None:
    values = [{"a": "x\u2028y\u2029\x85\x0b\x0c\x1c"}, {"a": "\r"}]
    data = b"".join(json.dumps(value, ensure_ascii=False).encode() + b"\n" for value in values)
    assert [item.value for item in read(data)] == values


@pytest.mark.parametrize(("data", "expected"), [
    (b'{"a": 1}\n{"a": "x', [("row", 1), ("torn", 2)]),
    (b'{"a": 1}\n{"a": 1', [("row", 1), ("torn", 2)]),
    (b'{"a": 1}\n{"a"', [("row", 1), ("torn", 2)]),
    (b'{"a": [1, 2\n{"a": 2}\n', [("torn", 1), ("row", 2)]),
    (b'{"id": "t5", "pre{"id": "t5", "p": 2}\n{"a": 2}\n', [("torn", 1), ("row", 2)]),
    (b'{"id": "t5", {"id": "t5", "p": 2}\n', [("torn", 1)]),
    (b'{"id": "t5", {"p": 2}}\n', [("syntax", 1)]),
    (b'{"a": 1}{"a": 2}\n{"a": 3}\n', [("joined", 1), ("row", 2)]),
    (b'{"a": 1} {"a": 2}\n', [("joined", 1)]),
    (b'{"a": 1},\n{"a": 2}\n', [("syntax", 1), ("row", 2)]),
    (b"{'a': 1}\nloading model\n", [("syntax", 1), ("syntax", 2)]),
    (b'{"a": NaN}\n{"a": -Infinity}\n{"a": 1e400}\n{"a": 1}', [("non-finite", n) for n in (1, 2, 3)] + [("row", 4)]),
    (b'{"a": 1, "a": 2}\n{"a": 1, "\\u0061": 2}\n', [("duplicate-key", 1), ("duplicate-key", 2)]),
    (b'{"a": "\xff"}\n{"a": "\\ud800"}\n', [("encoding", 1), ("encoding", 2)]),
    (b'{"a": 1}\n\0\0\0\0{"a": 2}\n{"a": 3}\n\0\0', [("row", 1), ("nul", 2), ("row", 3), ("nul", 4)]),
    ('{"a": 1}\n{"a": 2}\n'.encode("utf-16"), [("encoding", 1)]),
    ('{"a": 1}\n'.encode("utf-16-le"), [("nul", 1), ("nul", 2)]),
    (b"[" * 100_000 + b"\n1\n", [("too-large", 1), ("row", 2)]),
    (b'{"a": ' + b"9" * 5000 + b"}\n", [("too-large", 1)]),
    (b"[" * 64 + b"]" * 64, [("row", 1)]),
    (b"[" * 65 + b"]" * 65, [("too-large", 1)]),
])
def test_what_is_refused_with_its_line(data: bytes, expected: list[tuple[str, int]]) -> None:
    assert kinds(data) == expected


RECORD = json.dumps({"a": 0.5, "b": -1.25e-07, "c": True, "d": None, "e": False, "f": 'é"\u20ac\\', "g": [1, {"h": 2}]},
                    ensure_ascii=False).encode()


@pytest.mark.parametrize("end", [b"", b"\n", b"\n" + RECORD, RECORD + b"\n"], ids=("end", "line", "next line", "next record"))
def test_a_record_is_torn_wherever_it_was_cut(end: bytes) -> None:
    for count in range(1, len(RECORD)):
        found = kinds(RECORD + b"\n" + RECORD[:count] + end)
        assert [kind for kind, _ in found if kind != "row"] == ["torn"], RECORD[:count]


def test_a_document_is_torn_wherever_it_was_cut() -> None:
    for count in range(1, len(RECORD)):
        document = record_facts.document(count, lambda count=count: io.BytesIO(RECORD[:count]))  # type: ignore[misc]
        assert isinstance(document, record_facts.Faults)
        assert [fault.kind for fault in document.faults] == ["torn"], RECORD[:count]


def test_a_document_of_nul_bytes_is_no_other_encoding() -> None:
    document = record_facts.document(9, lambda: io.BytesIO(bytes(9)))
    assert isinstance(document, record_facts.Faults)
    assert [fault.kind for fault in document.faults] == ["nul"]


def test_a_fault_names_its_column() -> None:
    fault = read(b'{"a": 1}\n{"a": 1, "b": NaN}\r\n')[1]
    assert isinstance(fault, Fault)
    assert (fault.line, fault.column, fault.observed) == (2, 15, "NaN")


def test_a_line_that_never_ends_is_passed_over_in_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "LONGEST", 100)
    data = b'{"a": "' + b"x" * 1000 + b'"}\n{"a": 1}\n' + bytes(1000)
    assert kinds(data) == [("limit", 1), ("row", 2), ("nul", 3)]


def test_a_line_of_the_greatest_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "LONGEST", 12)
    assert kinds(b'{"a": "xyz"}\n{"a": "xyz"}\n{"a": "wxyz"}\n') == [("row", 1), ("row", 2), ("limit", 3)]


def test_damage_takes_no_more_than_linear_time() -> None:
    started = time.monotonic()
    read(b'{"a' * 100_000 + b"\n" + b'{"a":[' * 100_000 + b"\n" + b'{"x": "' + b'{"' * 200_000)
    assert time.monotonic() - started < 5


def test_the_stream_stays_open() -> None:
    stream = io.BytesIO(b'{"a": 1}\n')
    assert next(json_lines.records(stream)) == Row(1, {"a": 1})
    assert list(json_lines.records(stream)) == []
    assert not stream.closed


TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
PIECES = [b'{"a"', b": ", b"1", b"}", b"{", b"\n", b'"', b"\\", b"\xff", b"\0", b"NaN", b"[", b"]", b",", b"\\ud800", b"1e999",
          b"\r"]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12)


@PATIENT
@given(st.lists(VALUES), st.booleans(), st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_it_agrees_with_json(values: list[object], ascii: bool, end: str, last: bool) -> None:
    text = end.join(json.dumps(value, ensure_ascii=ascii) for value in values) + (end if last else "")
    assert [item.value for item in read(text.encode()) if isinstance(item, Row)] == values
    assert not [item for item in read(text.encode()) if isinstance(item, Fault)]


@PATIENT
@given(st.binary() | st.lists(st.sampled_from(PIECES)).map(b"".join))
def test_nothing_else_is_raised_and_what_is_taken_is_json(data: bytes) -> None:
    taken = {item.line: item.value for item in read(data) if isinstance(item, Row)}
    for number, line in enumerate(data.removeprefix(rows.BOM).split(b"\n"), 1):
        if number in taken:
            assert json.loads(line.decode()) == taken[number]
