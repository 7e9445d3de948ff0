"""torch.save's old format, and each fault beside its nearest sound neighbour."""

import argparse
import hashlib
import json
import math
import os
import pickle
import random

import pytest
import torch
from disk_source import DiskSource, candidate

from pytest_campaign.formats import formats, torch_legacy
from pytest_campaign.formats.base import Depth, ProblemKind, Unit, from_json, to_json

torch.manual_seed(0)
TENSORS = {
    "enc.weight": torch.randn(16, 16),
    "enc.bias": torch.zeros(16, dtype=torch.bfloat16),
    "none": torch.zeros(0, 3),
    "n": torch.tensor(7),
}


class Attack:
    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


class Stranger:
    def __init__(self, **fields):
        self.__dict__.update(fields)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.bin"


def save(path, obj=TENSORS, **options):
    torch.save(obj, path, _use_new_zipfile_serialization=False, **options)
    return path


def read(path, **options):
    reading = torch_legacy.read(Unit(torch_legacy.NAME, path.name, (path.name,)), DiskSource(path.parent, **options))
    assert from_json(json.loads(json.dumps(to_json(reading)))).problems == list(reading.problems)
    return reading


def kinds(reading):
    return [problem.kind for problem in reading.problems]


def fault(path):
    """The one problem of a file."""
    (problem,) = read(path).problems
    return problem


def sound(path):
    reading = read(path)
    assert (list(reading.problems), reading.depth) == ([], Depth.TENSORS)
    return reading


def recognised(path):
    return [name for name, form in formats().items() if form.recognise(candidate(path))]


def test_sound(path):
    reading = sound(save(path))
    assert recognised(path) == ["torch legacy"]
    assert (list(reading.layout), reading.elements) == (list(TENSORS), 256 + 16 + 1)
    assert (reading.dtypes, reading.bytes_read) == ({"F32": 2, "BF16": 1, "I64": 1}, 1024 + 32 + 8)


def test_the_values_are_the_right_ones(path):
    """Each tensor's own storage is looked at, in whatever order they lie."""
    for name in ("a", "b", "c"):
        tensors = {key: torch.ones(5) for key in ("a", "b", "c")}
        tensors[name][2] = math.nan
        problem = fault(save(path, tensors))
        assert (problem.kind, problem.where, problem.count) == (ProblemKind.NAN, name, 1)
    assert fault(save(path, {"w": torch.tensor([1.0, math.inf])})).kind is ProblemKind.INFINITE
    sound(save(path, {"state_dict": {"w": torch.ones(1)}, "best": torch.tensor(math.inf), "epoch": 1}))


def test_untyped_storages_views_and_ties(path):
    base = torch.ones(2000)
    reading = sound(
        save(
            path, {"u": torch.zeros(4, dtype=torch.uint16), "f8": torch.ones(2).to(torch.float8_e5m2), "a": base, "b": base[10:]}
        )
    )
    assert reading.bytes_read == 8 + 2 + 8000
    assert fault(save(path, {"b": base[:500]})).kind is ProblemKind.WASTED_STORAGE


def test_digest_and_depth(path):
    save(path)
    header = read(path, depth=Depth.HEADER, digest=True)
    assert (header.depth, header.tensors, header.bytes_read, list(header.problems)) == (Depth.HEADER, 4, 0, [])
    assert header.files[0].sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("part", [0.03, 0.2, 0.5, 1])
def test_truncated(path, part):
    whole = save(path).read_bytes()
    path.write_bytes(whole[: int(len(whole) * part) - 1])
    assert recognised(path) == ["torch legacy"]
    reading = read(path)
    assert (kinds(reading), reading.depth) == ([ProblemKind.TRUNCATED], None)
    if part == 1:
        assert reading.problems[0].expected == f"{len(whole):,} bytes (1 are missing)"


@pytest.mark.parametrize("count", [1, 70_000])
def test_appended_bytes(path, count):
    path.write_bytes(save(path).read_bytes() + b"\0" * count)
    reading = read(path)
    assert (kinds(reading), reading.depth) == ([ProblemKind.TRAILING], Depth.TENSORS)
    assert reading.problems[0].observed.startswith(f"{count:,} bytes")


def test_counts_that_disagree(path):
    data = bytearray(save(path, {"w": torch.ones(6)}).read_bytes())
    at = len(data) - 6 * 4 - 8
    assert data[at : at + 8] == (6).to_bytes(8, "little")
    data[at] = 5
    path.write_bytes(data)
    assert fault(path).kind is ProblemKind.DAMAGED


def test_a_key_list_that_disagrees(path):
    data = save(path, {"w": torch.ones(6)}).read_bytes()
    key = data[data.rindex(b"X", 0, data.rindex(b"a.")) + 5 :].partition(b"q")[0]
    assert data.count(key) == 2
    at = data.rindex(key)
    path.write_bytes(data[:at] + b"1" * len(key) + data[at + len(key) :])
    assert fault(path).kind is ProblemKind.DAMAGED


def test_a_tensor_larger_than_its_storage(path):
    data = save(path, {"w": torch.ones(3, 5)}).read_bytes()
    assert data.count(b"K\x03K\x05\x86") == 1
    path.write_bytes(data.replace(b"K\x03K\x05\x86", b"K\x03K\x06\x86"))
    assert fault(path).kind is ProblemKind.OUT_OF_STORAGE


def test_an_attack_is_not_run(path, tmp_path):
    mark = tmp_path / "executed"
    reading = read(save(path, {"w": torch.ones(2), "x": Attack(os.system, f"touch {mark}")}))
    assert not mark.exists()
    assert (kinds(reading), reading.depth) == ([ProblemKind.UNSAFE_GLOBAL], Depth.HEADER)
    magic, version = (
        pickle.dumps(value, 2) for value in (torch.serialization.MAGIC_NUMBER, torch.serialization.PROTOCOL_VERSION)
    )
    path.write_bytes(
        magic + version + pickle.dumps(Attack(os.system, f"touch {mark}"), 2) + pickle.dumps({}, 2) + pickle.dumps([], 2)
    )
    assert fault(path).kind is ProblemKind.DAMAGED  # in the facts about the machine
    assert not mark.exists()


def test_foreign_classes(path):
    reading = read(save(path, {"s": Stranger(w=torch.full((2,), math.nan)), "n": argparse.Namespace(v=torch.ones(2))}))
    assert {problem.kind: problem.where for problem in reading.problems} == {
        ProblemKind.FOREIGN_CLASS: f"{__name__}.Stranger",
        ProblemKind.FRAMEWORK_CLASS: "argparse.Namespace",
        ProblemKind.NAN: "s.w",
    }


def test_whole_module(path):
    reading = read(save(path, torch.nn.Sequential(torch.nn.Linear(2, 2))))
    assert (kinds(reading), reading.depth) == ([ProblemKind.FRAMEWORK_CLASS, ProblemKind.UNREADABLE_KIND], Depth.HEADER)


@pytest.mark.parametrize("protocol", [3, 4, 5])
def test_pickle_protocols(path, protocol):
    save(path, pickle_protocol=protocol)
    assert recognised(path) == ["torch legacy"]
    assert kinds(read(path)) == ([] if protocol == 3 else [ProblemKind.PICKLE_PROTOCOL])


def test_no_tensors(path):
    assert fault(save(path, {"epoch": 1})).kind is ProblemKind.NO_TENSORS


def test_not_ours(path):
    for obj in ({"a": 1}, torch.serialization.MAGIC_NUMBER + 1):
        path.write_bytes(pickle.dumps(obj, 2))
        assert recognised(path) == ["pickle"]


def test_random_damage_is_always_an_answer(path):
    whole = save(path).read_bytes()
    generator = random.Random(5)
    for _ in range(300):
        data = bytearray(whole[: generator.randrange(1, len(whole) + 1)])
        for _ in range(generator.randrange(4)):
            data[generator.randrange(len(data))] = generator.randrange(256)
        path.write_bytes(data)
        torch_legacy.recognise(candidate(path))
        read(path)
