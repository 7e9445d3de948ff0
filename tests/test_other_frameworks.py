"""Keras, HDF5, TensorFlow, Flax, Orbax, skops and diffusers: each fault beside its nearest sound neighbour."""

from __future__ import annotations

import os
import random
import shutil
import zipfile
from pathlib import Path

import h5py
import numpy as np
import other_frameworks as made
import pytest
from disk_source import DiskSource, candidate

from pytest_campaign import discovery, snapshot
from pytest_campaign.formats import formats
from pytest_campaign.formats.base import Depth, ProblemKind, Reading
from pytest_campaign.inventory import take


def readings(root: Path, **options: object) -> dict[str, Reading]:
    """Everything that is recognised below a folder, by its path, and what reading it gives."""
    units, unread = discovery.recognise(take(root))
    assert not unread
    return {unit.path: formats()[unit.format].read(unit, DiskSource(root, **options)) for unit in units}


def kinds(root: Path, **options: object) -> list[ProblemKind]:
    return [problem.kind for reading in readings(root, **options).values() for problem in reading.problems]


def only(root: Path, **options: object) -> Reading:
    (reading,) = readings(root, **options).values()
    return reading


def cut(path: Path, left: int) -> None:
    os.truncate(path, left if left >= 0 else path.stat().st_size + left)


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0x10
    path.write_bytes(data)


# ---- HDF5 and Keras


@pytest.mark.parametrize("options", [{}, {"libver": "latest"}, {"libver": "v110"}])
def test_hdf5(tmp_path: Path, options: dict[str, str]) -> None:
    made.hdf5(tmp_path / "m.h5", **options)
    reading = only(tmp_path)
    assert (reading.format, reading.depth, list(reading.problems)) == ("HDF5", Depth.HEADER, [])


@pytest.mark.parametrize("options", [{}, {"libver": "latest"}])
def test_a_cut_hdf5_file(tmp_path: Path, options: dict[str, str]) -> None:
    path = made.hdf5(tmp_path / "m.h5", **options)
    size = path.stat().st_size
    cut(path, size - 100)
    (problem,) = only(tmp_path).problems
    assert (problem.kind, problem.observed) == (ProblemKind.TRUNCATED, f"{size - 100:,} bytes, 100 are missing")
    with pytest.raises(OSError, match="truncated file"):
        h5py.File(path)


def test_hdf5_that_was_not_closed(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "m.h5", "w", libver="latest") as file:
        file["x"] = np.ones(3)
        file.swmr_mode = True
        shutil.copy(tmp_path / "m.h5", tmp_path / "open.h5")
    assert [problem.kind for problem in readings(tmp_path)["open.h5"].problems] == [ProblemKind.UNFINISHED]
    assert not readings(tmp_path)["m.h5"].problems


def test_hdf5_with_a_root_that_is_none(tmp_path: Path) -> None:
    path = made.hdf5(tmp_path / "m.h5")
    data = bytearray(path.read_bytes())
    root = int.from_bytes(data[24 + 40:24 + 48], "little")
    data[root:root + 2] = b"\0\0"
    path.write_bytes(data)
    assert kinds(tmp_path) == [ProblemKind.DAMAGED]


@pytest.mark.parametrize(("config", "found"), [
    ('{"class_name": "Lambda", "config": {"function": ["4wEA", null, null], "function_type": "lambda"}}',
     [ProblemKind.PYTHON_CODE]),
    ('{"class_name": "Lambda", "config": {"function": "relu", "function_type": "function"}}', []),
])
def test_a_whole_model_in_hdf5(tmp_path: Path, config: str, found: list[ProblemKind]) -> None:
    with h5py.File(tmp_path / "m.h5", "w") as file:
        file.attrs["model_config"] = config
    assert kinds(tmp_path) == found


def test_keras(tmp_path: Path) -> None:
    made.keras(tmp_path / "m.keras")
    reading = only(tmp_path, digest=True)
    assert (reading.format, reading.depth, list(reading.problems)) == ("Keras", Depth.HEADER, [])
    assert reading.files[0].sha256


@pytest.mark.parametrize(("head", "found"), [
    (made.layer("Lambda", function=made.CODE), [ProblemKind.PYTHON_CODE]),
    (made.layer("Lambda", function=["4wEA", None, None], function_type="lambda"), [ProblemKind.PYTHON_CODE]),
    (made.layer("TimeDistributed", layer=made.layer("Lambda", function=made.CODE)), [ProblemKind.PYTHON_CODE]),
    (made.layer("Lambda", function={"class_name": "function", "config": "relu", "module": "keras.activations"}), []),
    (made.layer("Dense", name="__lambda__"), []),
])
def test_compiled_code(tmp_path: Path, head: dict[str, object], found: list[ProblemKind]) -> None:
    made.keras(tmp_path / "m.keras", head)
    assert kinds(tmp_path) == found


def test_a_keras_archive_without_a_member(tmp_path: Path) -> None:
    for name, kind in (("metadata.json", ProblemKind.FILE_MISSING), ("config.json", ProblemKind.FILE_MISSING),
                       ("model.weights.h5", ProblemKind.NO_WEIGHTS)):
        made.keras(tmp_path / "m.keras", leave_out=name)
        assert kinds(tmp_path) == [kind]


@pytest.mark.parametrize("config", ["{", "[]", '{"layers": []}', ""])
def test_a_keras_configuration_that_is_none(tmp_path: Path, config: str) -> None:
    made.keras(tmp_path / "m.keras", config=config)
    assert kinds(tmp_path) == [ProblemKind.CONFIGURATION]


def test_a_damaged_keras_archive(tmp_path: Path) -> None:
    path = made.keras(tmp_path / "m.keras")
    whole = path.read_bytes()
    flip(path, len(whole) // 2)
    assert kinds(tmp_path) == [ProblemKind.CHECKSUM]
    path.write_bytes(whole[:len(whole) // 2])
    assert kinds(tmp_path) == [ProblemKind.TRUNCATED]
    path.write_bytes(whole + b"x")
    assert kinds(tmp_path) == [ProblemKind.TRAILING]


def test_keras_weights_that_were_cut_before_they_were_packed(tmp_path: Path) -> None:
    path = made.keras(tmp_path / "m.keras", leave_out="model.weights.h5")
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("model.weights.h5", made.hdf5(tmp_path / "w").read_bytes()[:-100])
    (tmp_path / "w").unlink()
    (problem,) = only(tmp_path).problems
    assert (problem.kind, problem.where) == (ProblemKind.TRUNCATED, "model.weights.h5")


# ---- skops


def test_skops(tmp_path: Path) -> None:
    path = made.skops(tmp_path / "m.skops")
    reading = only(tmp_path)
    assert (reading.format, reading.depth, list(reading.problems)) == ("skops", Depth.HEADER, [])
    made.skops(path, module="acme.models")
    (problem,) = only(tmp_path).problems
    assert (problem.kind, problem.observed) == (ProblemKind.FOREIGN_CLASS, "acme.models.LogisticRegression")
    made.skops(path, leave_out="1.npy")
    assert kinds(tmp_path) == [ProblemKind.FILE_MISSING]
    made.skops(path)
    flip(path, 180)
    assert kinds(tmp_path) == [ProblemKind.CHECKSUM]
    made.skops(path)
    cut(path, 300)
    reading = only(tmp_path)
    assert (reading.format, [problem.kind for problem in reading.problems]) == ("skops", [ProblemKind.TRUNCATED])


# ---- TensorFlow


def test_tensorflow(tmp_path: Path) -> None:
    made.tensorflow(tmp_path / "tf", shards=2)
    reading = readings(tmp_path, digest=True)["tf"]
    assert list(reading.problems) == []
    assert (reading.format, reading.depth, reading.tensors, reading.elements) == ("TensorFlow checkpoint", Depth.TENSORS, 2, 72)
    assert all(file.sha256 for file in reading.files)
    assert len(reading.files) == 4
    assert readings(tmp_path, depth=Depth.HEADER)["tf"].depth is Depth.HEADER


def test_an_index_that_cannot_be_followed(tmp_path: Path) -> None:
    """Its files are complete by their names, and no more is said."""
    folder = made.tensorflow(tmp_path / "tf")
    (folder / "model.ckpt-500.index").write_bytes(bytes(range(200)) + made.TABLE_MAGIC)
    reading = only(tmp_path)
    assert (reading.depth, list(reading.problems)) == (Depth.HEADER, [])


@pytest.mark.parametrize(("name", "kind"), [
    ("model.ckpt-500.data-00001-of-00002", ProblemKind.SHARD_MISSING),
    ("model.ckpt-500.data-00000-of-00002", ProblemKind.SHARD_MISSING),
])
def test_a_data_file_is_absent(tmp_path: Path, name: str, kind: ProblemKind) -> None:
    folder = made.tensorflow(tmp_path / "tf", shards=2)
    (folder / name).unlink()
    (problem,) = only(tmp_path).problems
    assert (problem.kind, problem.path) == (kind, f"tf/{name}")


def test_all_data_files_are_absent(tmp_path: Path) -> None:
    folder = made.tensorflow(tmp_path / "tf", named="/location1/")
    (folder / "model.ckpt-500.data-00000-of-00001").unlink()
    assert kinds(tmp_path) == [ProblemKind.SHARD_MISSING]


@pytest.mark.parametrize("named", ["", "./", "/location1/", "C:\\\\runs\\\\"])
def test_where_checkpoint_says_that_it_lies(tmp_path: Path, named: str) -> None:
    """What is named by the path of another machine lies here all the same; the check of paths says so."""
    made.tensorflow(tmp_path / "tf", named=named)
    assert kinds(tmp_path) == []


def test_checkpoint_names_another_step(tmp_path: Path) -> None:
    folder = made.tensorflow(tmp_path / "tf")
    (folder / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-600"\n')
    (problem,) = only(tmp_path).problems
    assert (problem.kind, problem.path) == (ProblemKind.FILE_MISSING, "tf/checkpoint")
    for path in folder.glob("model.*"):
        path.unlink()
    assert kinds(tmp_path) == [ProblemKind.FILE_MISSING]


def test_a_cut_tensorflow_checkpoint(tmp_path: Path) -> None:
    folder = made.tensorflow(tmp_path / "tf")
    cut(folder / "model.ckpt-500.data-00000-of-00001", -4)
    (problem,) = only(tmp_path).problems
    assert (problem.kind, problem.where) == (ProblemKind.TRUNCATED, "kernel")
    made.tensorflow(folder)
    cut(folder / "model.ckpt-500.index", -4)
    assert kinds(tmp_path) == [ProblemKind.TRUNCATED]
    (folder / "model.ckpt-500.index").unlink()
    assert set(kinds(tmp_path)) == {ProblemKind.FILE_MISSING}


def test_nan_in_a_tensorflow_checkpoint(tmp_path: Path) -> None:
    made.tensorflow(tmp_path / "tf", values={"a": np.ones(3, "f4"), "b": np.array([1, np.nan], "f8")})
    (problem,) = only(tmp_path).problems
    assert (problem.kind, problem.where) == (ProblemKind.NAN, "b")


def test_other_files_with_such_names(tmp_path: Path) -> None:
    (tmp_path / "book.index").write_bytes(bytes(60))
    (tmp_path / "checkpoint").write_text("see model.ckpt\n")
    (tmp_path / "train.data-00000-of-00001").write_bytes(bytes(60))
    assert readings(tmp_path) == {}


def test_a_saved_model(tmp_path: Path) -> None:
    made.saved_model(tmp_path / "m")
    assert {path: (reading.format, list(reading.problems)) for path, reading in readings(tmp_path, digest=True).items()} == {
        "m": ("SavedModel", []), "m/variables": ("TensorFlow checkpoint", [])}
    cut(tmp_path / "m/saved_model.pb", -3)
    assert kinds(tmp_path) == [ProblemKind.TRUNCATED]


def test_a_saved_model_without_its_variables(tmp_path: Path) -> None:
    made.saved_model(tmp_path / "frozen", b"Const", variables=False)
    assert kinds(tmp_path) == []
    made.saved_model(tmp_path / "m", variables=False)
    assert kinds(tmp_path) == [ProblemKind.FILE_MISSING]


def test_a_saved_model_without_its_graph(tmp_path: Path) -> None:
    made.saved_model(tmp_path / "m")
    (tmp_path / "m/saved_model.pb").unlink()
    (problem,) = [problem for reading in readings(tmp_path).values() for problem in reading.problems]
    assert (problem.kind, problem.path) == (ProblemKind.FILE_MISSING, "m/saved_model.pb")


# ---- JAX


def test_flax(tmp_path: Path) -> None:
    made.flax(tmp_path / "m.msgpack")
    reading = only(tmp_path)
    assert (reading.format, reading.depth, list(reading.problems)) == ("Flax", Depth.TENSORS, [])
    assert (reading.tensors, reading.elements, dict(reading.dtypes)) == (2, 1204, {"F32": 1, "F16": 1})
    assert set(reading.layout) == {"params.dense.bias", "params.dense.kernel"}


def test_nan_in_flax(tmp_path: Path) -> None:
    made.flax(tmp_path / "m.msgpack", scale=np.array([1, np.nan], "f4"))
    (problem,) = only(tmp_path).problems
    assert (problem.kind, problem.where) == (ProblemKind.NAN, "params.dense.scale")


def test_a_cut_flax_file(tmp_path: Path) -> None:
    path = made.flax(tmp_path / "m.msgpack")
    whole = path.read_bytes()
    path.write_bytes(whole[:-30])
    assert kinds(tmp_path) == [ProblemKind.TRUNCATED]
    path.write_bytes(whole + b"\0")
    assert kinds(tmp_path) == [ProblemKind.TRAILING]
    path.write_bytes(whole.replace(b"float16", b"float64"))
    assert kinds(tmp_path) == [ProblemKind.DAMAGED]


def test_msgpack_of_something_else(tmp_path: Path) -> None:
    (tmp_path / "rows.msgpack").write_bytes(made.packed({"a": 1, "b": {"c": "text", "d": b"raw"}}))
    assert readings(tmp_path) == {}


@pytest.mark.parametrize("step", [False, True])
def test_orbax(tmp_path: Path, step: bool) -> None:
    folder = made.orbax(tmp_path / "5", step)
    assert kinds(tmp_path, digest=True) == []
    assert {reading.format for reading in readings(tmp_path).values()} == {"Orbax"}
    item = folder / "default" if step else folder
    cut(item / "manifest.ocdbt", 100)
    assert kinds(tmp_path) == [ProblemKind.TRUNCATED]
    (item / "manifest.ocdbt").unlink()
    assert kinds(tmp_path) == [ProblemKind.FILE_MISSING]
    (item / "manifest.ocdbt").write_bytes(made.manifest())
    shutil.rmtree(item / "d")
    assert kinds(tmp_path) == [ProblemKind.FILE_MISSING]


def test_orbax_with_values_of_a_process(tmp_path: Path) -> None:
    folder = made.orbax(tmp_path / "5")
    (folder / "ocdbt.process_0").mkdir()
    (folder / "ocdbt.process_0/manifest.ocdbt").write_bytes(made.manifest())
    (folder / "d").rename(folder / "ocdbt.process_0/d")
    assert kinds(tmp_path) == []


def test_an_item_that_is_absent(tmp_path: Path) -> None:
    folder = made.orbax(tmp_path / "5", step=True)
    shutil.rmtree(folder / "default")
    (problem,) = only(tmp_path).problems
    assert (problem.kind, problem.path) == (ProblemKind.FILE_MISSING, "5/default")


def test_an_unfinished_save(tmp_path: Path) -> None:
    made.orbax(tmp_path / "5.orbax-checkpoint-tmp-1700000000")
    assert kinds(tmp_path) == [ProblemKind.UNFINISHED]


# ---- diffusers


def test_a_pipeline(tmp_path: Path) -> None:
    made.diffusers(tmp_path / "p")
    found = readings(tmp_path, digest=True)
    assert {path: list(reading.problems) for path, reading in found.items() if reading.problems} == {}
    assert found["p"].format == "diffusers pipeline"


def test_a_pipeline_without_its_index(tmp_path: Path) -> None:
    made.diffusers(tmp_path / "p", index=False)
    (problem,) = readings(tmp_path)["p"].problems
    assert (problem.kind, problem.path) == (ProblemKind.FILE_MISSING, "p/model_index.json")


@pytest.mark.parametrize("parts", [("unet",), ("unet", "text_encoder"), ("vae", "scheduler"), ("scheduler", "tokenizer")])
def test_parts_that_are_no_pipeline(tmp_path: Path, parts: tuple[str, ...]) -> None:
    made.diffusers(tmp_path / "p", parts, index=False)
    assert "p" not in readings(tmp_path)
    assert kinds(tmp_path) == []


@pytest.mark.parametrize(("lost", "path", "kind"), [
    ("unet", "p/unet", ProblemKind.FILE_MISSING),
    ("scheduler", "p/scheduler", ProblemKind.FILE_MISSING),
    ("unet/diffusion_pytorch_model.safetensors", "p/unet", ProblemKind.NO_WEIGHTS),
    ("unet/config.json", "p/unet/config.json", ProblemKind.FILE_MISSING),
    ("scheduler/scheduler_config.json", "p/scheduler", ProblemKind.FILE_MISSING),
])
def test_a_part_that_is_named_and_lost(tmp_path: Path, lost: str, path: str, kind: ProblemKind) -> None:
    folder = made.diffusers(tmp_path / "p")
    if (folder / lost).is_dir():
        shutil.rmtree(folder / lost)
    else:
        (folder / lost).unlink()
    (problem,) = readings(tmp_path)["p"].problems
    assert (problem.kind, problem.path) == (kind, path)


def test_a_part_whose_weights_are_none(tmp_path: Path) -> None:
    folder = made.diffusers(tmp_path / "p")
    (folder / "unet/diffusion_pytorch_model.safetensors").write_bytes(b"\0" * 500)
    (problem,) = readings(tmp_path)["p"].problems
    assert (problem.kind, problem.path) == (ProblemKind.DAMAGED, "p/unet/diffusion_pytorch_model.safetensors")
    made.diffusers(folder)
    (folder / "vae/config.json").write_text("{")
    assert [problem.kind for problem in readings(tmp_path)["p"].problems] == [ProblemKind.CONFIGURATION]


def test_a_pipeline_is_one_deliverable(tmp_path: Path) -> None:
    made.diffusers(tmp_path / "runs/p")
    made.diffusers(tmp_path / "runs/lost", index=False)
    made.saved_model(tmp_path / "runs/m")
    made.tensorflow(tmp_path / "runs/tf")
    made.orbax(tmp_path / "runs/5", step=True)
    made.keras(tmp_path / "runs/m.keras")
    taken = snapshot.take(tmp_path)
    assert [(found.path, found.kind) for found in discovery.discovered(taken.inventory, taken.units)] == [
        (f"runs/{name}", "checkpoint") for name in ("5", "lost", "m", "m.keras", "p", "tf")]


# ---- whatever the bytes


@pytest.mark.parametrize("write", [made.hdf5, made.keras, made.skops, made.flax])
def test_random_damage_is_always_an_answer(tmp_path: Path, write: object) -> None:
    path = tmp_path / "m.skops"
    whole = write(path).read_bytes()  # type: ignore[operator]
    form = next(form for form in formats().values() if form.recognise(candidate(path)))
    generator = random.Random(5)
    for _ in range(150):
        data = bytearray(whole[: generator.randrange(1, len(whole) + 1)])
        for _ in range(generator.randrange(4)):
            data[generator.randrange(len(data))] = generator.randrange(256)
        path.write_bytes(data)
        form.recognise(candidate(path))
        form.read(discovery.Unit(form.name, path.name, (path.name,)), DiskSource(tmp_path))


def test_random_damage_of_an_index(tmp_path: Path) -> None:
    folder = made.tensorflow(tmp_path / "tf")
    path = folder / "model.ckpt-500.index"
    whole = path.read_bytes()
    generator = random.Random(5)
    for _ in range(150):
        data = bytearray(whole)
        for _ in range(generator.randrange(1, 4)):
            data[generator.randrange(len(data) - 8)] = generator.randrange(256)
        path.write_bytes(data)
        readings(tmp_path)
