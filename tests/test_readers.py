"""The bounded readers of configuration, metadata and tables: what they find, and what they refuse."""

from __future__ import annotations

import io
import pickle
import time

import pytest
import torch
import yaml

from pytest_campaign.readers import columns, ini_text, lenient_json, pickle_strings, yaml_text
from pytest_campaign.readers.fields import Field, Unreadable


def test_json_as_python_reads_it() -> None:
    text = b'{"a": {"b": ["x", 1, {"c": "y"}]}, "loss": [NaN, Infinity], "a2": "z", "a2": "last", "n": %b}'
    data = b"\xef\xbb\xbf" + text % (b"9" * 5000)
    assert list(lenient_json.fields(data)) == [
        Field(("a", "b", "0"), "x"), Field(("a", "b", "2", "c"), "y"), Field(("a2",), "last")]


@pytest.mark.parametrize("data", [b"", b"{", b"\xff\xfe", b'{"a": 1} x', b"[" * 100_000, b'{"a":' * 50_000])
def test_json_that_cannot_be_read(data: bytes) -> None:
    with pytest.raises(Unreadable):
        list(lenient_json.fields(data))


def test_json_is_bounded() -> None:
    with pytest.raises(Unreadable):
        list(lenient_json.fields(b" " * (lenient_json.MOST_BYTES + 1)))


def test_yaml_events_with_their_lines() -> None:
    data = b"""\
artifact_uri: file:///workspace/x  # where it ran
tags: &t [one, {two: 2}]
again: *t
? [a, b]
: complex
<<: *t
job:
  run: {dir: outputs}
---
second: document
"""
    assert list(yaml_text.fields(data)) == [
        Field(("artifact_uri",), "file:///workspace/x", 1), Field(("tags", "0"), "one", 2), Field(("tags", "1", "two"), "2", 2),
        Field(("", "0"), "a", 4), Field(("", "1"), "b", 4), Field(("",), "complex", 5),
        Field(("job", "run", "dir"), "outputs", 8), Field(("second",), "document", 10)]


def test_yaml_agrees_with_the_library() -> None:
    value = {"a": [{"b": "x", "c": ["y", {"d": "z"}]}, "w"], "e": {"f": {"g": "v"}}, "h": "multi\nline", "i": "", "j": "~/x"}
    found = {field.keys: field.value for field in yaml_text.fields(yaml.safe_dump(value).encode())}
    assert found == {("a", "0", "b"): "x", ("a", "0", "c", "0"): "y", ("a", "0", "c", "1", "d"): "z", ("a", "1"): "w",
                     ("e", "f", "g"): "v", ("h",): "multi\nline", ("i",): "", ("j",): "~/x"}


def test_yaml_builds_no_object(tmp_path) -> None:
    data = f"a: !!python/object/apply:os.mkdir [{tmp_path}/made]\n".encode()
    assert [field.value for field in yaml_text.fields(data)] == [f"{tmp_path}/made"]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("data", [b"a: [", b"a: b: c", b"\xff", b"%BAD", b"a: *nowhere_closed\n- x", b"[" * 200, b"a\0b",
                                  b"- x\n" * (yaml_text.MOST_EVENTS + 1), b" " * (yaml_text.MOST_BYTES + 1)])
def test_yaml_that_cannot_be_read(data: bytes) -> None:
    start = time.monotonic()
    with pytest.raises(Unreadable):
        list(yaml_text.fields(data))
    assert time.monotonic() - start < 20


def test_yaml_aliases_are_not_expanded() -> None:
    lines = ["a0: &a0 [x, x]"] + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 30)]
    assert len(list(yaml_text.fields("\n".join(lines).encode()))) == 2


def test_ini() -> None:
    data = b"""\
# remote
[core]
    remote = store
['remote "store"']
    url = /tmp/dvc store
    ; a comment = no
name: "quoted"
"""
    assert list(ini_text.fields(data)) == [
        Field(("core", "remote"), "store", 3), Field(('remote "store', "url"), "/tmp/dvc store", 5),
        Field(('remote "store', "name"), "quoted", 7)]


def test_ini_that_cannot_be_read() -> None:
    for data in (b"\xff = 1", b"a" * (ini_text.MOST_BYTES + 1)):
        with pytest.raises(Unreadable):
            list(ini_text.fields(data))


def test_quoted_text_of_protocol_buffers() -> None:
    data = rb'''model_checkpoint_path: "/gr\303\266\303\237e/a\"b\\c.ckpt"
embeddings {
  tensor_path: "x.tsv"
}
steps: 4
'''
    assert list(ini_text.quoted(data)) == [
        Field(("model_checkpoint_path",), '/größe/a"b\\c.ckpt', 1), Field(("tensor_path",), "x.tsv", 3)]


class Settings:
    def __init__(self) -> None:
        self.output_dir = "/tmp/out"
        self.steps = 4
        self.tags = ["a", "b"]
        self.again = self.output_dir


@pytest.mark.parametrize("protocol", range(2, 6))
def test_pickle_strings_with_their_keys(protocol: int) -> None:
    found = list(pickle_strings.fields(pickle.dumps(Settings(), protocol)))
    assert Field(("output_dir",), "/tmp/out") in found
    assert Field(("again",), "/tmp/out") in found
    assert Field(("tags",), "a") not in found


def test_pickles_behind_each_other_and_what_follows_them() -> None:
    data = pickle.dumps({"a": "x"}, 2) + pickle.dumps({"b": "y"}, 4) + bytes(range(256))
    assert {(field.name, field.value) for field in pickle_strings.fields(data)} >= {("a", "x"), ("b", "y")}


def test_old_torch_file() -> None:
    buffer = io.BytesIO()
    torch.save({"model": torch.ones(3), "args": {"output_dir": "/scratch/x"}}, buffer, _use_new_zipfile_serialization=False)
    assert Field(("output_dir",), "/scratch/x") in list(pickle_strings.fields(buffer.getvalue()))


def test_pickle_is_not_run(tmp_path) -> None:
    text = f"{tmp_path}/made".encode()
    data = b"\x80\x04cos\nmkdir\nX" + len(text).to_bytes(4, "little") + text + b"\x85R."
    assert [field.value for field in pickle_strings.fields(data)] == [text.decode()]
    assert not list(tmp_path.iterdir())
    pickle.loads(data)
    assert list(tmp_path.iterdir())  # it would have run


@pytest.mark.parametrize("data", [b"", b"\x80\x04", b"\x80\x04X\xff\xff\xff\xff", b"\xff", b"\x80\x04" + b"(" * 3_000_000,
                                  b"\x80\x04h\x05.", b"g999999999\n.", b"p-1\n."])
def test_pickles_that_make_no_sense_end(data: bytes) -> None:
    assert list(pickle_strings.fields(data)) == []


def test_columns_of_tables() -> None:
    expected = [Field(("image",), "a.png", 2), Field(("image",), "/tmp/b.png", 3)]
    assert list(columns.fields(b"\xef\xbb\xbfid,image\r\n1,a.png\r\n2,/tmp/b.png\r\n", "t.csv", ["image"])) == expected
    assert list(columns.fields(b"id\timage\n1\ta.png\n2\t/tmp/b.png\n", "t.tsv", ["image", "absent"])) == expected
    assert list(columns.fields(b'\n{"image": "a.png"}\n{"image": "/tmp/b.png"}\n{"image": ', "t.jsonl", ["image"])) == expected
    rows = b'[{"image": null}, {"image": ["a.png", 3]}, {"image": "/tmp/b.png"}, 4]'
    assert list(columns.fields(rows, "t.json", ["image"])) == expected
    assert list(columns.fields(b'{"image": "x"}\n{"image": "y"}', "t.json", ["image"])) == [
        Field(("image",), "x", 1), Field(("image",), "y", 2)]


def test_the_name_of_a_field_is_its_innermost_key() -> None:
    assert Field(("modules", "0", "path"), "x").name == "path"
    assert Field(("paths", "0"), "x").name == "paths"
    assert Field((), "x").name == ""
