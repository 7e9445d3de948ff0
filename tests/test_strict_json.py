"""Strict JSON: what is refused, where, and what stays readable."""

from __future__ import annotations

import json
import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_campaign.readers.strict_json import DEEPEST, Located, NotStrict, Spot, locate, locate_all, parse, pointer_to, shown


def faults(data: bytes | str, **limits: int):
    with pytest.raises(NotStrict) as caught:
        parse(data.encode() if isinstance(data, str) else data, **limits)
    return caught.value.faults


SOUND = [
    ('{"a": 1, "A": 2, "b": {"a": 3}}', "keys that differ in case or in their object"),
    ('{"a": 1e308, "b": -0.0, "c": 5e-324, "d": 1e-999}', "numbers at the ends of floating point"),
    ("9" * 4300, "as many digits as int() takes"),
    ("-" + "9" * 4300, "the same below zero"),
    ('"\\ud83d\\ude00 \\u00e9 \\u0000"', "a whole surrogate pair and other escapes"),
    ('"NaN Infinity // # \ufeff"', "words in a string"),
    (" \t\r\n[ ] \n", "white space around"),
    ("[" * DEEPEST + "]" * DEEPEST, "nested as deeply as is allowed"),
    ('{"a":' * DEEPEST + "1" + "}" * DEEPEST, "objects nested as deeply as is allowed"),
    ("null", "a scalar alone"),
    ('{"": {"": 1}}', "empty keys"),
]


@pytest.mark.parametrize("text", [text for text, _ in SOUND], ids=[name for _, name in SOUND])
def test_sound(text):
    assert parse(text.encode()) == json.loads(text)


REFUSED = [
    # text, kind, line, column, pointer
    ('{"a": 1,\n "a": 2}', "duplicate-key", 2, 2, "/a"),
    ('{"a": 1, "b": 3, "\\u0061": 2}', "duplicate-key", 1, 18, "/a"),
    ('[{"x": {"": 1, "": 1}}]', "duplicate-key", 1, 16, "/0/x/"),
    ('{"loss": NaN}', "non-finite", 1, 10, "/loss"),
    ('[1,\n  -Infinity]', "non-finite", 2, 3, "/1"),
    ('[Infinity]', "non-finite", 1, 2, "/0"),
    ('{"a/b": {"~": 1e400}}', "non-finite", 1, 15, "/a~1b/~0"),
    ('[-1e400]', "non-finite", 1, 2, "/0"),
    ("[" + "9" * 4301 + "]", "too-large", 1, 2, "/0"),
    ("[0." + "1" * 4301 + "]", "too-large", 1, 2, "/0"),
    ("[" * 65 + "]" * 65, "too-large", 1, 65, "/0" * 64),
    ("[" * 100_000, "too-large", 1, 65, "/0" * 64),
    ('{"a":' * 100_000, "too-large", 1, 321, "/a" * 64),
    ('["\\ud800"]', "encoding", 1, 2, "/0"),
    ('["\\udc00\\ud800"]', "encoding", 1, 2, "/0"),
    ('{"\\uD800": 1}', "encoding", 1, 2, ""),
    ("{} x", "syntax", 1, 4, ""),
    ("{}\n{}", "syntax", 2, 1, ""),
    ('{"a": 1,}', "syntax", 1, 9, ""),
    ("[1, 2,\n]", "syntax", 2, 1, ""),
    ("[,1]", "syntax", 1, 2, "/0"),
    ('{"a" 1}', "syntax", 1, 6, ""),
    ('{"a": 1 "b": 2}', "syntax", 1, 9, ""),
    ("{'a': 1}", "syntax", 1, 2, ""),
    ("{a: 1}", "syntax", 1, 2, ""),
    ('{"a": True}', "syntax", 1, 7, "/a"),
    ("// remark\n{}", "syntax", 1, 1, ""),
    ('["tab\there"]', "syntax", 1, 6, "/0"),
    ('["a\\x"]', "syntax", 1, 4, "/0"),
    ('["never', "syntax", 1, 2, "/0"),
    ('{"runs": [{"id": "a"', "syntax", 1, 21, "/runs/0"),
    ("[01]", "syntax", 1, 3, ""),
    ("[1.]", "syntax", 1, 3, ""),
    ("[+1]", "syntax", 1, 2, "/0"),
    ("[1}", "syntax", 1, 3, ""),
    ("", "syntax", 1, 1, ""),
    ("  \n ", "syntax", 2, 2, ""),
]


@pytest.mark.parametrize(("text", "kind", "line", "column", "pointer"), REFUSED, ids=[case[0][:30] for case in REFUSED])
def test_refused(text, kind, line, column, pointer):
    first = faults(text)[0]
    assert (first.kind, first.line, first.column, first.pointer) == (kind, line, column, pointer)
    assert first.message
    assert first.observed
    assert first.expected


@pytest.mark.parametrize(("data", "line", "column"), [
    (b"\xef\xbb\xbf{}", 1, 1),
    ('{"a": 1}'.encode("utf-16"), 1, 1),
    ('{"a": 1}'.encode("utf-16-le"), 1, 1),
    ('{"a": 1}'.encode("utf-32-be"), 1, 1),
    ('{\n "\u00e9": "'.encode() + b'\xff"}', 2, 8),
    ('["caf\u00e9"]'.encode("latin-1"), 1, 6),
    (b'["\xed\xa0\x80"]', 1, 3),
    (b'["\xc0\x80"]', 1, 3),
])
def test_encodings(data, line, column):
    fault, = faults(data)
    assert (fault.kind, fault.line, fault.column) == ("encoding", line, column)


def test_byte_order_mark_is_named():
    assert "byte order mark" in faults(b"\xef\xbb\xbf{}")[0].message


def test_size_limit():
    assert parse(b"[1, 2]", most_bytes=6) == [1, 2]
    assert faults(b"[1, 2] ", most_bytes=6)[0].kind == "too-large"


def test_all_duplicates_are_listed_and_bounded():
    assert [fault.pointer for fault in faults('{"a": 1, "a": 2, "b": 3, "a": 4, "b": 5, "c": NaN}')] == ["/a", "/a", "/b", "/c"]
    assert len(faults("[" + "NaN," * 1000 + "1]")) == 20


def test_a_hint_names_the_remedy():
    assert "JSON writes null" in faults('{"a": None}')[0].message
    assert "may have been cut" in faults('{"a": [1, 2')[0].message


def test_messages_are_short_and_printable():
    for text in ('{"' + "k" * 10**6 + '": \x1b[31m}', '["' + "x" * 10**6, '{"\u202e\\ud800": NaN}', '{"\\ud800": {"a": NaN}}'):
        for fault in faults(text):
            assert len(fault.message) < 200
            assert (fault.message + (fault.observed or "")).isprintable()
            assert len((fault.pointer or "").encode()) < 4000  # half a surrogate pair would not survive this


def test_lower_limit_of_digits_in_this_interpreter():
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(640)
    try:
        assert faults("[" + "9" * 1000 + "]")[0].kind == "too-large"
    finally:
        sys.set_int_max_str_digits(before)


DOCUMENT = b"""{
  "runs": [
    {"id": "a", "x/y": null},
    {"id": "\xc3\xa9", "b": [1, [2, 3]]}
  ], "~": {}
}
"""


def test_locate():
    assert locate(DOCUMENT, "") == Located(Spot(1, 1), None)
    assert locate(DOCUMENT, "/runs") == Located(Spot(2, 11), Spot(2, 3))
    assert locate(DOCUMENT, "/runs/1") == Located(Spot(4, 5), None)
    assert locate(DOCUMENT, "/runs/0/x~1y") == Located(Spot(3, 24), Spot(3, 17))
    assert locate(DOCUMENT, "/runs/1/b/1/0") == Located(Spot(4, 27), None)
    assert locate(DOCUMENT, "/~0") == Located(Spot(5, 11), Spot(5, 6))
    assert locate(DOCUMENT, "/runs/2") is None
    assert locate(DOCUMENT, "/runs/0/id/0") is None


def test_locate_all_in_one_pass():
    assert set(locate_all(DOCUMENT, ["/runs/1/id", "/runs/0", "/nothing"])) == {"/runs/0", "/runs/1/id"}


def test_locate_before_the_fault():
    assert locate(b'{"a": 1, "b": ', "/a") == Located(Spot(1, 7), Spot(1, 2))
    assert locate(b"\xff", "/a") is None


def test_pointer_and_shown():
    assert pointer_to(["a/b", 0, "~"]) == "/a~1b/0/~0"
    assert shown('a"\n\x7f\u00e9') == '"a\\"\\n\\x7f\u00e9"'
    assert shown("x" * 100, 10) == '"xxxxxxxxxx…"'


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4), max_leaves=20)


@settings(deadline=None, max_examples=100)
@given(VALUES, st.booleans(), st.sampled_from([None, 1]))
def test_everything_that_json_writes_is_read(value, ascii_only, indent):
    assert parse(json.dumps(value, ensure_ascii=ascii_only, indent=indent).encode()) == value


def pointers(value, parts=()):
    yield parts, value
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in members:
        yield from pointers(inner, (*parts, key))


@settings(deadline=None, max_examples=100)
@given(VALUES, st.sampled_from([None, 1]))
def test_every_value_is_found_where_it_stands(value, indent):
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    lines = text.split("\n")
    for parts, inner in pointers(value):
        located = locate(text.encode(), pointer_to(parts))
        assert located is not None
        line, column = located.value
        rest = "\n".join([lines[line - 1][column - 1:], *lines[line:]])
        assert json.JSONDecoder().raw_decode(rest)[0] == inner


@settings(deadline=None, max_examples=300)
@given(VALUES, st.data())
def test_damage_is_read_or_refused_and_nothing_else(value, data):
    text = bytearray(json.dumps(value, ensure_ascii=data.draw(st.booleans())).encode())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, max(len(text) - 1, 0)))
        text[at:at + data.draw(st.integers(0, 2))] = data.draw(st.sampled_from(
            [b"", b"\xff", b'"', b"\\", b"{", b"]", b",", b"\\ud800", b"NaN", b"1e999", b"\xef\xbb\xbf", b"\0", b"9"]))
    try:
        parsed = parse(bytes(text))
    except NotStrict as error:
        assert 1 <= len(error.faults) <= 20  # noqa: PT017 - refusing is one of the two sound outcomes
    else:
        assert json.loads(text) == parsed
        json.dumps(parsed, allow_nan=False).encode()


@pytest.mark.parametrize("text", [
    '"' + "\\" * 10**6, '"' + "a" * 10**6, "[" * 10**6, "[" + "[]," * 300_000, '{"a":1,' * 60 + '"a":1' + ',"a":1' * 10**5,
    "-" * 10**6, "1" * 10**6, "0." + "1" * 10**6 + "e", " " * 10**6, '["\\ud83d\\ude00",' * 10**5,
], ids=lambda text: f"{text[:12]} … {text[-12:]}")
def test_hostile_texts_take_linear_time(text):
    start = time.monotonic()
    assert faults(text)
    assert time.monotonic() - start < 60  # quadratic time would be far more
