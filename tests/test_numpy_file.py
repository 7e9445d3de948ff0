"""Arrays of NumPy, written by NumPy: each fault beside its nearest sound neighbour."""

from __future__ import annotations

import hashlib
import random
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import campaigns
import numpy as np
import pytest
from disk_source import DiskSource, candidate

from pytest_campaign import discovery, snapshot
from pytest_campaign.campaign import Asked
from pytest_campaign.formats import formats, numpy_file
from pytest_campaign.formats.base import Depth, Problem, ProblemKind, Reading, Unit
from pytest_campaign.formats.numpy_header import BadHeader, parse


def read(path: Path, **options: Any) -> Reading:
    assert [name for name, form in formats().items() if form.recognise(candidate(path))] == ["NumPy"]
    return numpy_file.read(Unit("NumPy", path.name, (path.name,)), DiskSource(path.parent, **options))


def fault(path: Path) -> Problem:
    (problem,) = read(path).problems
    return problem


def npy(path: Path, *arrays: Any) -> Path:
    with path.open("wb") as file:
        for array in arrays:
            np.save(file, array)
    return path


SAVES = [np.savez, np.savez_compressed]
VALUES = np.linspace(-1, 1, 2100, dtype="f4").reshape(300, 7)


@pytest.mark.parametrize(("array", "dtype"), [
    (VALUES, "F32"), (VALUES.astype("f2"), "F16"), (VALUES.astype("f8"), "F64"), (VALUES.astype("c8"), "C64"),
    (VALUES.astype("c16"), "C128"), (VALUES.astype(">f8"), "F64"), (VALUES > 0, "BOOL"), (np.arange(5), "I64"),
    (np.arange(5, dtype="u2"), "U16"), (np.asfortranarray(VALUES), "F32"), (np.float32(3), "F32"), (np.zeros((0, 3)), "F64"),
    (np.array(["a", "bcd"]), "<U3"), (np.array([b"ab"]), "|S2"), (np.array(["2026-01-01"], "M8[D]"), "<M8[D]"),
    (np.array([(1, b"x")], [("a", "i4"), ("b", "S3")]), "fields"),
])
def test_types(tmp_path: Path, array: Any, dtype: str) -> None:
    reading = read(npy(tmp_path / "a.npy", array))
    assert list(reading.problems) == []
    assert (reading.depth, dict(reading.dtypes), reading.elements) == (Depth.TENSORS, {dtype: 1}, array.size)


@pytest.mark.parametrize(("array", "what"), [
    (np.array([(1, 2.0)], [("a", "i4"), ("b", "f8")]), "floating point numbers in a type with fields"),
    (np.zeros(3, "V2"), "the type |V2, which NumPy writes for bfloat16 and for 8-bit numbers"),
    (np.zeros(3, np.longdouble), f"numbers of the type {np.dtype(np.longdouble).str}"),
])
def test_types_whose_values_are_not_looked_at(tmp_path: Path, array: Any, what: str) -> None:
    reading = read(npy(tmp_path / "a.npy", array))
    assert [(problem.kind, problem.observed) for problem in reading.problems] == [(ProblemKind.UNREADABLE_KIND, what)]
    assert reading.depth is Depth.HEADER


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_versions(tmp_path: Path, version: tuple[int, int]) -> None:
    with (tmp_path / "a.npy").open("wb") as file:
        np.lib.format.write_array(file, VALUES, version=version)
    assert list(read(tmp_path / "a.npy").problems) == []


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "c8", ">f4", ">c16"])
def test_nan_and_infinity(tmp_path: Path, dtype: str) -> None:
    array = VALUES.astype(dtype)
    array[299, 3] = np.nan
    array[2, 5] = np.inf
    assert [problem.kind for problem in read(npy(tmp_path / "a.npy", array)).problems] == [ProblemKind.NAN, ProblemKind.INFINITE]
    for save in SAVES:
        save(tmp_path / "a.npz", good=VALUES, bad=array)
        found = read(tmp_path / "a.npz").problems
        assert [(problem.kind, problem.where) for problem in found] == [(ProblemKind.NAN, "bad"), (ProblemKind.INFINITE, "bad")]


def test_a_cut_array(tmp_path: Path) -> None:
    path = npy(tmp_path / "a.npy", VALUES)
    whole = path.read_bytes()
    path.write_bytes(whole[:5000])
    problem = fault(path)
    assert (problem.kind, problem.observed) == (ProblemKind.TRUNCATED, "5,000 bytes, 3,528 are missing")
    assert problem.expected == "128 + 8,400 bytes (F32 [300, 7])"
    path.write_bytes(whole[:60])
    assert fault(path).kind is ProblemKind.TRUNCATED
    path.write_bytes(whole + b"more")
    assert fault(path).kind is ProblemKind.TRAILING


def test_arrays_that_were_saved_one_behind_the_other(tmp_path: Path) -> None:
    path = npy(tmp_path / "a.npy", VALUES, np.arange(3))
    assert (read(path).tensors, list(read(path).problems)) == (2, [])
    path.write_bytes(path.read_bytes()[:-1])
    assert (fault(path).kind, fault(path).where) == (ProblemKind.TRUNCATED, "array 2")


@pytest.mark.parametrize("save", SAVES)
def test_archives(tmp_path: Path, save: Callable[..., None]) -> None:
    path = tmp_path / "a.npz"
    save(path, a=VALUES, b=np.arange(3), c=np.zeros(3))
    reading = read(path, digest=True)
    assert (reading.depth, reading.tensors, list(reading.problems)) == (Depth.TENSORS, 3, [])
    assert reading.files[0].sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert [name for name, placed in reading.layout.items() if placed.zero] == ["c"]
    whole = path.read_bytes()
    path.write_bytes(whole[:len(whole) // 2])
    assert fault(path).kind is ProblemKind.TRUNCATED
    path.write_bytes(whole[:1000] + bytes([whole[1000] ^ 1]) + whole[1001:])
    assert fault(path).kind in (ProblemKind.CHECKSUM, ProblemKind.DAMAGED)
    assert fault(path).where in ("a", "a.npy")


def test_an_archive_without_arrays(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz")
    assert fault(tmp_path / "a.npz").kind is ProblemKind.NO_TENSORS


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_member_that_is_shorter_than_its_header_says(tmp_path: Path, method: int) -> None:
    data = npy(tmp_path / "a.npy", VALUES).read_bytes()
    for part, kind in ((data[:-40], ProblemKind.TRUNCATED), (data + b"x", ProblemKind.TRAILING), (b"text", ProblemKind.DAMAGED)):
        with zipfile.ZipFile(tmp_path / "a.npz", "w", method) as archive:
            archive.writestr("a.npy", part)
        assert (fault(tmp_path / "a.npz").kind, fault(tmp_path / "a.npz").where) == (kind, "a")


class Evil:
    def __reduce__(self) -> tuple[Any, tuple[str]]:
        import os

        return os.system, ("true",)


@pytest.mark.parametrize(("value", "kinds"), [
    ({"a": 1}, [ProblemKind.EXECUTABLE]), (Evil(), [ProblemKind.UNSAFE_GLOBAL, ProblemKind.EXECUTABLE])])
def test_arrays_of_objects_are_never_loaded(tmp_path: Path, value: Any, kinds: list[ProblemKind]) -> None:
    array = np.array([value, 1], dtype=object)
    np.save(tmp_path / "a.npy", array, allow_pickle=True)
    np.savez(tmp_path / "b.npz", a=VALUES, o=array)
    np.savez_compressed(tmp_path / "c.npz", a=VALUES, o=array)
    for name in ("a.npy", "b.npz", "c.npz"):
        reading = read(tmp_path / name)
        assert [problem.kind for problem in reading.problems] == kinds
        assert reading.depth is Depth.HEADER


@pytest.mark.parametrize("text", [
    "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }\n", "{'descr': '<f4', 'fortran_order': False, 'shape': (3L,)}",
    '{"descr": "<f4", "shape": (3, ), "fortran_order": True}', "{'shape':(3,),'descr':'<f4','fortran_order':False,}   \n"])
def test_headers(text: str) -> None:
    data = numpy_header(text)
    assert parse(lambda offset, length: data[offset:offset + length], len(data)).shape == (3,)


@pytest.mark.parametrize("text", [
    "{'descr': '<f4', 'fortran_order': False}", "{'descr': '<f4', 'fortran_order': False, 'shape': (3)}",
    "{'descr': '<f4', 'fortran_order': 0, 'shape': (3,)}", "{'descr': '<f4', 'fortran_order': False, 'shape': (-3,)}",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (3,)} + x", "{'descr': exec('x'), 'fortran_order': False, 'shape': (3,)}",
    "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (3,)}",
    "{'descr': '<q9x', 'fortran_order': False, 'shape': ()}",
    "{'descr': [('a', '<f4', (2, 'x'))], 'fortran_order': False, 'shape': (3,)}", "{" * 500, "", "(((((", "-" * 9000, "[1, 2",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (9999999999, 9999999999)}",
    "{'descr': '|V0', 'fortran_order': False, 'shape': (4611686018427387904, 2)}"])
def test_headers_that_are_none(text: str) -> None:
    data = numpy_header(text)
    with pytest.raises(BadHeader):
        parse(lambda offset, length: data[offset:offset + length], len(data))


def numpy_header(text: str) -> bytes:
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode("latin-1")


def test_random_damage_is_always_an_answer(tmp_path: Path) -> None:
    generator = random.Random(5)
    np.savez(tmp_path / "b.npz", a=VALUES[:9], o=np.array([{}, 1], dtype=object))
    np.savez_compressed(tmp_path / "c.npz", a=VALUES[:9], o=np.array([{}, 1], dtype=object))
    for whole in (npy(tmp_path / "a.npy", VALUES[:9]).read_bytes(), (tmp_path / "b.npz").read_bytes(),
                  (tmp_path / "c.npz").read_bytes()):
        for _ in range(150):
            data = bytearray(whole[: generator.randrange(1, len(whole) + 1)])
            for _ in range(generator.randrange(4)):
                data[generator.randrange(len(data))] = generator.randrange(256)
            (tmp_path / "d").write_bytes(data)
            numpy_file.recognise(candidate(tmp_path / "d"))
            numpy_file.read(Unit("NumPy", "d", ("d",)), DiskSource(tmp_path))


def test_an_array_is_no_checkpoint_by_itself(tmp_path: Path) -> None:
    """It counts where it is delivered as weights, and not beside other weights or as another kind."""
    made = campaigns.write(tmp_path)
    broken = np.array([1, np.nan])
    for name in ("data", "weights"):
        (made / name).mkdir()
        np.savez(made / name / "arrays.npz", a=broken)
    np.save(made / "runs/control/scores.npy", broken)
    made.add("data", "dataset", "data")
    made.add("weights", "checkpoint", "weights")
    taken = snapshot.take(made.save().directory)
    campaign = snapshot.campaign(taken, Asked())
    formats_of = {found.id: [unit.format for unit in campaign.units_of(found)] for found in campaign.deliverables}
    assert (formats_of["data"], formats_of["weights"]) == ([], ["NumPy"])
    assert all("NumPy" not in found for name, found in formats_of.items() if name != "weights")
    found = {each.path for each in discovery.discovered(taken.inventory, taken.units)}
    assert not [path for path in found if path.endswith((".npy", ".npz")) or path in ("data", "weights")]
