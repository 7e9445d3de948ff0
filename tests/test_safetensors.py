"""Safetensors: files of the real library, and each fault beside its nearest sound neighbour."""

import hashlib
import json
import os
import struct

import pytest
import torch
from disk_source import DiskSource, candidate
from safetensors import deserialize
from safetensors.torch import load_file, save_file

from pytest_campaign.formats import safetensors_file
from pytest_campaign.formats.base import Candidate, Depth, ProblemKind, Unit, from_json, to_json
from pytest_campaign.formats.streaming import holes

TENSORS = {
    "model.embed.weight": torch.arange(12.0).reshape(3, 4), "model.norm.weight": torch.ones(4, dtype=torch.bfloat16),
    "model.steps": torch.tensor(7), "model.empty": torch.zeros(0, 4),
}
ONE = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


def read(path, **options):
    source = DiskSource(path.parent, **options)
    reading = safetensors_file.read(Unit("safetensors", path.name, (path.name,)), source)
    assert from_json(json.loads(json.dumps(to_json(reading)))).problems == list(reading.problems)
    assert source.done == path.stat().st_size
    return reading


def fault(path, **options):
    """The one problem of a file."""
    (problem,) = read(path, **options).problems
    return problem


def save(path, tensors=TENSORS, **options):
    save_file(tensors, path, **options)
    return path


def by_hand(path, header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


def library_reads(path):
    try:
        deserialize(path.read_bytes())
    except Exception:
        return False
    return True


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.safetensors"


def test_a_sound_file(path):
    save(path, metadata={"format": "pt"})
    reading = read(path, digest=True)
    assert not reading.problems
    assert reading.depth is Depth.TENSORS
    assert (reading.tensors, reading.elements, reading.bytes_read) == (4, 17, 64)
    assert reading.dtypes == {"F32": 2, "BF16": 1, "I64": 1}
    assert sorted(reading.layout) == sorted(TENSORS)
    assert reading.files[0].sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


def test_the_depth_header_reads_no_tensor(path, monkeypatch):
    save(path, {"w": torch.tensor([torch.nan])})
    assert fault(path).kind is ProblemKind.NAN
    monkeypatch.setattr(safetensors_file, "scan", None)
    reading = read(path, depth=Depth.HEADER)
    assert (reading.depth, reading.problems, reading.bytes_read) == (Depth.HEADER, [], 0)


@pytest.mark.parametrize("dtype", [
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex64, torch.int64, torch.int32, torch.int16,
    torch.int8, torch.uint8, torch.uint16, torch.uint32, torch.uint64, torch.bool, torch.float8_e4m3fn, torch.float8_e5m2,
    torch.float8_e4m3fnuz, torch.float8_e5m2fnuz, torch.float8_e8m0fnu])
def test_every_type_that_the_library_writes(path, dtype):
    save(path, {"t": torch.ones(3, 5).to(dtype), "nothing": torch.ones(0).to(dtype)})
    reading = read(path)
    assert (reading.problems, reading.tensors, reading.elements) == ([], 2, 15)


def test_four_bit_elements_are_counted_one_by_one(path):
    save(path, {"t": torch.zeros(4, 8, dtype=torch.uint8).view(torch.float4_e2m1fn_x2)})
    reading = read(path)
    assert (reading.problems, reading.elements, reading.bytes_read) == ([], 64, 32)


@pytest.mark.parametrize(("dtype", "shape", "length", "sound"), [
    ("F4", [8], 4, True), ("F4", [7], 4, False), ("F6_E2M3", [4], 3, True), ("F6_E3M2", [5], 4, False), ("F32", [1], 4, True),
    ("F32", [2], 4, False), ("F32", [0, 2**62, 2**62], 0, True), ("F32", [2**62, 2**62], 0, False), ("F32", [], 4, True),
    ("F32", [-1], 4, False), ("F32", [1.0], 4, False), ("F32", [True], 4, False), ("U8", [2**70], 4, False)])
def test_shapes_agree_with_the_library(path, dtype, shape, length, sound):
    by_hand(path, {"t": {"dtype": dtype, "shape": shape, "data_offsets": [0, length]}}, bytes(length))
    assert library_reads(path) is sound
    assert [problem.kind for problem in read(path).problems] == ([] if sound else [ProblemKind.DAMAGED])


@pytest.mark.parametrize(("header", "data", "sound"), [
    ({"t": ONE}, 8, True),
    ({"t": ONE, "__metadata__": {"format": "pt"}}, 8, True),
    ({"t": ONE, "__metadata__": None}, 8, True),
    ({"t": ONE, "__metadata__": {"step": 1}}, 8, False),
    (b"  " + json.dumps({"t": ONE}).encode() + b"   ", 8, True),
    (json.dumps({"t": ONE}).encode() + b"\0", 8, False),
    (json.dumps({"t": ONE}).encode() + b"}", 8, False),
    (b'{"t"', 0, False),
    (b"[]", 0, False),
    (b'{"t\xff": 1}', 0, False),
    ({"t": {**ONE, "dtype": None}}, 8, False),
    ({"t": {"dtype": "F32", "shape": [2]}}, 8, False),
    ({"t": {**ONE, "data_offsets": [8, 0]}}, 8, False),
    ({"t": {**ONE, "data_offsets": [0, 8, 8]}}, 8, False),
    ({"t": {**ONE, "shape": [float("nan")]}}, 8, False),
    ({"t": ONE, "u": {**ONE, "data_offsets": [8, 16]}}, 16, True),
    ({"t": ONE, "u": {**ONE, "data_offsets": [12, 20]}}, 20, False),  # a gap
    ({"t": ONE, "u": {**ONE, "data_offsets": [4, 12]}}, 12, False),  # an overlap
    ({"t": ONE, "u": ONE}, 8, False),  # two tensors in one place
    ({"t": {**ONE, "data_offsets": [1, 9]}}, 9, False),  # a gap at the start
])
def test_headers_agree_with_the_library(path, header, data, sound):
    by_hand(path, header, bytes(data))
    assert library_reads(path) is sound
    reading = read(path)
    assert [problem.kind for problem in reading.problems] == ([] if sound else [ProblemKind.DAMAGED])
    assert (reading.depth is None) is not sound


def test_a_name_twice_is_refused_where_the_library_takes_the_last(path):
    once, twice = json.dumps({"t": ONE})[1:-1], b'{"t": %s, "\\u0074": %s}'
    by_hand(path, b"{" + once.encode() + b"}", bytes(8))
    assert not read(path).problems
    entry = json.dumps(ONE).encode()
    by_hand(path, twice % (entry, entry), bytes(8))
    assert library_reads(path)
    problem = fault(path)
    assert (problem.kind, problem.where) == (ProblemKind.DAMAGED, "t")
    assert "twice" in problem.observed


def test_a_type_that_is_not_known_is_said_and_the_rest_is_read(path):
    header = {"t": {**ONE, "dtype": "F2"}, "u": {**ONE, "data_offsets": [8, 16]}}
    by_hand(path, header, bytes(8) + struct.pack("<2f", 1, float("nan")))
    reading = read(path)
    assert [(p.kind, p.where) for p in reading.problems] == [(ProblemKind.UNREADABLE_KIND, "t"), (ProblemKind.NAN, "u")]


def test_a_file_without_tensors(path):
    for metadata in (None, {"format": "pt"}):
        save(path, {}, metadata=metadata)
        assert fault(path).kind is ProblemKind.NO_TENSORS
    save(path, {"nothing": torch.zeros(0)})
    assert not read(path).problems


def test_a_cut_file_says_what_is_missing(path):
    tensors = {f"layer.{index}": torch.full((1000,), 1.0) for index in range(40)}
    save(path, tensors)
    whole = path.read_bytes()
    header = len(whole) - 160_000 - 8
    path.write_bytes(whole[:-8_786])
    problem = fault(path, digest=True)
    assert problem.kind is ProblemKind.TRUNCATED
    assert problem.expected == f"8 + {header:,} + 160,000 bytes"
    assert (problem.count, problem.where) == (3, in_order(whole)[37])
    assert "(8,786 missing; 3 of 40 tensors cut" in problem.observed
    assert read(path).depth is Depth.HEADER
    path.write_bytes(whole)
    assert not read(path).problems


def in_order(data):
    """The names of a file in the order of their data."""
    header = json.loads(data[8:8 + int.from_bytes(data[:8], "little")])
    header.pop("__metadata__", None)
    return sorted(header, key=lambda name: header[name]["data_offsets"])


@pytest.mark.parametrize("missing", [1, 4, 12])
def test_a_file_that_lacks_a_few_bytes(path, missing):
    whole = save(path).read_bytes()
    path.write_bytes(whole[:-missing])
    problem = fault(path)
    assert problem.kind is ProblemKind.TRUNCATED
    assert f"({missing} missing; " in problem.observed


@pytest.mark.parametrize("kept", [9, 10, 40, 100])
def test_a_file_cut_inside_its_header(path, kept):
    whole = save(path).read_bytes()
    path.write_bytes(whole[:kept])
    assert safetensors_file.recognise(candidate(path))
    problem = fault(path)
    assert problem.kind is ProblemKind.TRUNCATED
    assert "inside its header" in problem.observed


@pytest.mark.parametrize("extra", [b"\0", b"x" * 70_000])
def test_bytes_after_the_last_tensor(path, extra):
    save(path)
    path.write_bytes(path.read_bytes() + extra)
    reading = read(path)
    (problem,) = reading.problems
    assert (problem.kind, reading.depth) == (ProblemKind.TRAILING, Depth.TENSORS)
    assert problem.observed == f"{len(extra):,} bytes after the last tensor"


def test_a_header_over_the_limits(path):
    path.write_bytes(struct.pack("<Q", 100_000_001) + b"{" * 10)
    problem = fault(path)
    assert (problem.kind, problem.expected) == (ProblemKind.DAMAGED, "at most 100,000,000 bytes")
    by_hand(path, {"t" * 5000: ONE}, bytes(8))
    assert fault(path).kind is ProblemKind.TOO_LARGE
    by_hand(path, b'{"t": ' + b"[" * 5000 + b"]" * 5000 + b"}")
    assert fault(path).kind is ProblemKind.DAMAGED
    by_hand(path, b'{"t": [' + b"[]," * 2_100_000 + b"[]]}")
    assert fault(path).kind is ProblemKind.TOO_LARGE


def test_numbers_that_are_not_finite(path):
    sound = {"a.weight": torch.ones(3), "b.weight": torch.ones(3, dtype=torch.float16), "c.weight": torch.ones(2)}
    save(path, sound)
    assert not read(path).problems
    sound["b.weight"][1] = torch.nan
    sound["c.weight"][0] = torch.nan
    sound["a.weight"][2] = -torch.inf
    save(path, sound)
    nan, infinite = read(path).problems
    assert (nan.kind, nan.where, nan.count) == (ProblemKind.NAN, "c.weight", 2)  # the file has the wider types first
    assert (infinite.kind, infinite.where, infinite.count) == (ProblemKind.INFINITE, "a.weight", 1)
    assert torch.isnan(load_file(path)["c.weight"]).any()  # the library loads it all the same


def test_masks_may_hold_infinity_but_no_nan(path):
    additive = torch.triu(torch.full((8, 8), -torch.inf), diagonal=1)
    save(path, {"attn.bias": additive, "attn.causal_mask": torch.tensor([1.0, torch.inf])})
    assert not read(path).problems
    save(path, {"attn.causal_mask": torch.tensor([1.0, torch.nan])})
    assert fault(path).kind is ProblemKind.NAN
    save(path, {"attn.bias": additive + 1})
    assert fault(path).kind is ProblemKind.INFINITE


def test_bits_of_integers_are_no_numbers(path):
    save(path, {"ids": torch.full((100,), -1), "flags": torch.full((7,), 0xFF, dtype=torch.uint8)})
    assert not read(path).problems


def test_a_range_that_was_never_written(path):
    save(path, {"a": torch.ones(1 << 16), "b": torch.ones(1 << 16)})
    whole = path.read_bytes()
    assert not read(path).problems
    with path.open("wb") as file:
        file.write(whole[:1 << 18])
        os.truncate(file.fileno(), len(whole))
        os.fsync(file.fileno())
    with path.open("rb", buffering=0) as file:
        if not holes(file, len(whole)):
            pytest.skip("this file system makes no holes")
    reading = read(path, depth=Depth.HEADER)
    (problem,) = reading.problems
    assert problem.kind is ProblemKind.HOLE
    assert "bytes were never written" in problem.observed


@pytest.mark.parametrize("name", ["model.safetensors", "model.bin", "noextension"])
def test_recognised_by_content(tmp_path, name):
    assert safetensors_file.recognise(candidate(save(tmp_path / name)))


@pytest.mark.parametrize("data", [
    b"", b"{}", b'{"weight_map": {}}', b'{"a": 1}' * 4, b"PK\x03\x04" + bytes(60), b"GGUF" + bytes(60), bytes(100),
    b"\x80\x02}q\x00." * 9,
    struct.pack("<Q", 40) + b"x" * 40, struct.pack("<Q", 1 << 40) + b'{"a":1}', b"version https://git-lfs.github.com/spec/v1\n",
    b"\x93NUMPY" + bytes(100), struct.pack("<Q", 40) + b"[1, 2]" + b" " * 34])
def test_other_content_is_not_taken(data):
    assert not safetensors_file.recognise(Candidate("model.safetensors", len(data), data, lambda o, n: data[o:o + n]))


def test_torch_files_are_not_taken(tmp_path):
    torch.save({"w": torch.ones(3)}, tmp_path / "zip.safetensors")
    torch.save({"w": torch.ones(3)}, tmp_path / "old.safetensors", _use_new_zipfile_serialization=False)
    for path in tmp_path.iterdir():
        assert not safetensors_file.recognise(candidate(path))
