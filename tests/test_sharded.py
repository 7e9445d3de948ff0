"""Sharded sets as save_pretrained lays them out, with shards of the real libraries; each fault beside a sound set."""

import hashlib
import json
import threading

import pytest
import torch
from disk_source import DiskSource, folder
from safetensors.torch import save_file

from pytest_campaign.formats import formats, sharded
from pytest_campaign.formats.base import Depth, Problem, ProblemKind, Unit, from_json, to_json
from pytest_campaign.formats.streaming import CHUNK

INDEX = "model.safetensors.index.json"


def shard(number, count=3, stem="model", suffix=".safetensors"):
    return f"{stem}-{number:05d}-of-{count:05d}{suffix}"


def tensors(number):
    return {f"layers.{number}.weight": torch.full((4, 4), float(number)), f"layers.{number}.bias": torch.zeros(4)}


def write_index(root, where, name=INDEX, **others):
    (root / name).write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": where, **others}, indent=2))


def write(root, count=3, save=save_file, stem="model", suffix=".safetensors", index=INDEX):
    """A sound set; returns its weight map."""
    where = {}
    for number in range(1, count + 1):
        name = shard(number, count, stem, suffix)
        save(tensors(number), root / name)
        where |= dict.fromkeys(tensors(number), name)
    write_index(root, where, index)
    return where


def read(root, where="", **options):
    (unit,) = sharded.gather(folder(root, where))
    reading = sharded.read(unit, DiskSource(root, **options))
    assert from_json(json.loads(json.dumps(to_json(reading)))).problems == list(reading.problems)
    return reading


def faults(root, **options) -> list[Problem]:
    return list(read(root, **options).problems)


def only(root, kind=ProblemKind.SHARD_INDEX):
    (problem,) = faults(root)
    assert problem.kind is kind
    return problem


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("where", ["", "run/final"])
def test_a_sound_set(tmp_path, where, threads):
    (tmp_path / where).mkdir(parents=True, exist_ok=True)
    write(tmp_path / where)
    (tmp_path / where / "config.json").write_text("{}")
    (unit,) = sharded.gather(folder(tmp_path, where))
    inside = where + "/" if where else ""
    assert unit == Unit("sharded", inside + INDEX, (inside + INDEX, *(inside + shard(number) for number in (1, 2, 3))))
    source = DiskSource(tmp_path, digest=True, threads=threads)
    reading = sharded.read(unit, source)
    assert not reading.problems
    assert (reading.depth, reading.tensors, reading.elements, reading.bytes_read) == (Depth.TENSORS, 6, 60, 240)
    assert reading.dtypes == {"F32": 6}
    assert [(fact.path, fact.sha256) for fact in reading.files] == [
        (path, hashlib.sha256((tmp_path / path).read_bytes()).hexdigest()) for path in unit.files]
    assert source.done == sum((tmp_path / path).stat().st_size for path in unit.files)
    assert read(tmp_path, where, depth=Depth.HEADER).depth is Depth.HEADER


@pytest.mark.parametrize(("stem", "index"), [
    ("model.fp16", "model.safetensors.index.fp16.json"),
    ("diffusion_pytorch_model", "diffusion_pytorch_model.safetensors.index.json")])
def test_other_names_of_index_and_shards(tmp_path, stem, index):
    write(tmp_path, stem=stem, index=index)
    assert not faults(tmp_path)


@pytest.mark.parametrize("old", [False, True])
def test_torch_shards_are_read_by_their_own_format(tmp_path, old):
    """With a tied tensor that both keys of the index name, as transformers 4 wrote it."""
    def save(state, path):
        torch.save(state, path, _use_new_zipfile_serialization=not old)

    where = write(tmp_path, 2, save, "pytorch_model", ".bin", "pytorch_model.bin.index.json")
    assert not faults(tmp_path)
    first = tensors(1)
    first["lm_head.weight"] = first["layers.1.weight"]
    save(first, tmp_path / shard(1, 2, "pytorch_model", ".bin"))
    write_index(tmp_path, where | {"lm_head.weight": shard(1, 2, "pytorch_model", ".bin")}, "pytorch_model.bin.index.json")
    assert not faults(tmp_path)
    first["layers.1.bias"][0] = torch.nan
    save(first, tmp_path / shard(1, 2, "pytorch_model", ".bin"))
    (problem,) = faults(tmp_path)
    assert (problem.kind, problem.where) == (ProblemKind.NAN, "layers.1.bias")


def test_two_sets_in_one_folder(tmp_path):
    write(tmp_path)
    write(tmp_path, 2, torch.save, "pytorch_model", ".bin", "pytorch_model.bin.index.json")
    units = list(sharded.gather(folder(tmp_path)))
    assert [(unit.path, len(unit.files)) for unit in units] == [(INDEX, 4), ("pytorch_model.bin.index.json", 3)]


@pytest.mark.parametrize("content", ["{}", "[]", '{"weight_map": {"a": "b.h5"}}', "nothing", '{"weight_map": 3}'])
def test_other_index_files_are_no_sets(tmp_path, content):
    (tmp_path / "data.index.json").write_text(content)
    (tmp_path / "tf_model.h5.index.json").write_text(content)
    assert not list(sharded.gather(folder(tmp_path)))


def test_shards_that_are_absent(tmp_path):
    write(tmp_path, 7)
    for number in (2, 5):
        (tmp_path / shard(number, 7)).unlink()
    problem = only(tmp_path, ProblemKind.SHARD_MISSING)
    assert problem.observed == f"2 of 7 shards are absent: {shard(2, 7)}, {shard(5, 7)}"
    assert (problem.where, problem.count, problem.path) == (shard(2, 7), 2, INDEX)
    assert read(tmp_path).depth is Depth.HEADER


def test_an_index_alone(tmp_path):
    write(tmp_path)
    for number in (1, 2, 3):
        (tmp_path / shard(number)).unlink()
    reading = read(tmp_path)
    assert [p.kind for p in reading.problems] == [ProblemKind.SHARD_MISSING]
    assert reading.depth is None


def test_shards_without_an_index(tmp_path):
    write(tmp_path)
    assert not faults(tmp_path)
    (tmp_path / INDEX).unlink()
    problem = only(tmp_path)
    assert (problem.path, problem.expected) == (shard(1), INDEX)
    assert problem.observed.startswith("3 shards and no index")
    (tmp_path / shard(1)).unlink()
    assert [(p.kind, p.where) for p in faults(tmp_path)] == [(ProblemKind.SHARD_INDEX, ""), (ProblemKind.SHARD_MISSING, shard(1))]


def test_numbered_files_that_are_no_weights_are_no_set(tmp_path):
    (tmp_path / "train-00001-of-00002.parquet").write_bytes(b"PAR1" * 10)
    (tmp_path / "m-00001-of-00002.gguf").write_bytes(b"GGUF" + bytes(60))
    assert not list(sharded.gather(folder(tmp_path)))


@pytest.mark.parametrize(("name", "why"), [
    ("../model-00001-of-00001.safetensors", "it contains .."), ("/model.safetensors", "it is absolute"),
    ("https://example.org/model.safetensors", "it is an address"), (".", "it names no file")])
def test_names_that_leave_the_folder(tmp_path, name, why):
    save_file(tensors(2), tmp_path.parent / "model-00001-of-00001.safetensors")
    where = write(tmp_path, 1)
    write_index(tmp_path, where | {"x": name})
    problem = only(tmp_path)
    assert problem.observed == f'the index names the file "{name}": {why}'
    assert not sum(fact.path.startswith("..") for fact in read(tmp_path).files)


def test_shards_in_a_subfolder(tmp_path):
    (tmp_path / "parts").mkdir()
    save_file(tensors(1), tmp_path / "parts/one.safetensors")
    write_index(tmp_path, dict.fromkeys(tensors(1), "parts/one.safetensors"))
    assert not faults(tmp_path)
    assert [unit.files for unit in sharded.gather(folder(tmp_path))] == [(INDEX, "parts/one.safetensors")]
    (tmp_path / "parts/one.safetensors").unlink()
    assert only(tmp_path, ProblemKind.SHARD_MISSING).count == 1


@pytest.mark.parametrize(("spoil", "observed", "where"), [
    (lambda w: w | {"ghost": shard(1)}, "1 tensor in the index and in no shard", "ghost"),
    (lambda w: w | {"layers.1.bias": shard(2)}, "1 tensor in another shard than the index says", "layers.1.bias"),
    (lambda w: {name: file for name, file in w.items() if name != "layers.3.bias"}, "1 tensor in a shard and not in the index",
     "layers.3.bias")])
def test_an_index_that_is_not_true(tmp_path, spoil, observed, where):
    good = write(tmp_path)
    write_index(tmp_path, spoil(good))
    problem = only(tmp_path)
    assert problem.observed.startswith(observed)
    assert problem.where == where
    write_index(tmp_path, good)
    assert not faults(tmp_path)


def test_a_tensor_in_two_shards(tmp_path):
    write(tmp_path)
    save_file(tensors(2) | {"layers.1.bias": torch.ones(4)}, tmp_path / shard(2))
    problem = only(tmp_path)
    assert problem.observed.startswith("1 tensor in two shards")
    assert problem.where == "layers.1.bias"


def test_a_shard_that_the_index_does_not_name(tmp_path):
    write(tmp_path)
    save_file(tensors(9), tmp_path / shard(9, 9, "other"))
    units = list(sharded.gather(folder(tmp_path)))
    assert [len(unit.files) for unit in units] == [4, 1]
    (tmp_path / shard(9, 9, "other")).unlink()
    save_file(tensors(9), tmp_path / shard(4, 5))
    problem = only(tmp_path)
    assert problem.observed == f"shards that the index does not name: {shard(4, 5)}"


def test_numbers_in_the_names(tmp_path):
    where = write(tmp_path)
    write_index(tmp_path, {name: file for name, file in where.items() if file != shard(3)})
    (tmp_path / shard(3)).unlink()
    problem = only(tmp_path)
    assert problem.observed == f"the index names 2 of 3 shards, without {shard(3)} …"
    (tmp_path / shard(2)).rename(tmp_path / shard(2, 2))
    write_index(tmp_path, {name: shard(2, 2) if file == shard(2) else file for name, file in where.items() if file != shard(3)})
    assert any("shards of two sets: model-of-00002 and -of-00003" in problem.observed for problem in faults(tmp_path))


def test_numbers_from_zero_are_complete_too(tmp_path):
    where = {}
    for number in (0, 1):
        save_file(tensors(number), tmp_path / shard(number, 2))
        where |= dict.fromkeys(tensors(number), shard(number, 2))
    write_index(tmp_path, where)
    assert not faults(tmp_path)


@pytest.mark.parametrize(("text", "kind"), [
    ('{"metadata": {}, "weight_map": {"a": ', ProblemKind.DAMAGED),
    ('{"metadata": {}, "weight_map": {"a": "x", "a": "x"}}', ProblemKind.DAMAGED),
    ('{"metadata": {}, "weight_map": {"a": 3}}', ProblemKind.DAMAGED),
    ('{"metadata": {}}', ProblemKind.DAMAGED)])
def test_an_index_that_cannot_be_used(tmp_path, text, kind):
    """The shards are read all the same."""
    write(tmp_path)
    (tmp_path / INDEX).write_text(text)
    only(tmp_path, kind)
    save_file({"w": torch.tensor([torch.nan])}, tmp_path / shard(2))
    assert [p.kind for p in faults(tmp_path)] == [kind, ProblemKind.NAN]


def test_an_index_without_metadata_or_tensors(tmp_path):
    where = write(tmp_path)
    write_index(tmp_path, where, metadata=None)
    assert only(tmp_path).observed.startswith("an index without metadata")
    write_index(tmp_path, {})
    assert [p.kind for p in faults(tmp_path)] == [ProblemKind.NO_TENSORS, ProblemKind.SHARD_INDEX]


def test_an_index_over_the_limits(tmp_path, monkeypatch):
    write(tmp_path)
    monkeypatch.setattr(sharded, "MOST_VALUES", 5)
    only(tmp_path, ProblemKind.TOO_LARGE)


@pytest.mark.parametrize("threads", [1, 2])
def test_faults_inside_shards_keep_their_file(tmp_path, threads):
    write(tmp_path)
    (tmp_path / shard(1)).write_bytes((tmp_path / shard(1)).read_bytes()[:-1])
    (tmp_path / shard(2)).write_bytes(b"no checkpoint")
    save_file(tensors(3) | {"layers.3.bias": torch.tensor([torch.nan])}, tmp_path / shard(3))
    reading = read(tmp_path, threads=threads)
    assert [(p.kind, p.path) for p in reading.problems] == [
        (ProblemKind.TRUNCATED, shard(1)), (ProblemKind.DAMAGED, shard(2)), (ProblemKind.NAN, shard(3))]
    assert reading.depth is None


def test_shards_of_two_formats(tmp_path):
    write(tmp_path)
    torch.save(tensors(2), tmp_path / shard(2))
    assert only(tmp_path).observed.startswith("shards of different formats: safetensors, torch")


def test_threads_read_several_shards_and_end_when_one_fails(tmp_path):
    where = {}
    for number in range(1, 5):
        save_file({f"{number}": torch.ones(3 * CHUNK)}, tmp_path / shard(number, 4))
        where[f"{number}"] = shard(number, 4)
    write_index(tmp_path, where)
    (unit,) = sharded.gather(folder(tmp_path))
    source = DiskSource(tmp_path, digest=True, threads=2)
    assert not sharded.read(unit, source).problems
    assert len(source.workers) == 2

    class Failing(DiskSource):
        def open(self, path):
            if threading.current_thread() is not threading.main_thread():
                raise PermissionError(13, "refused", path)
            return super().open(path)

    before = threading.active_count()
    with pytest.raises(PermissionError, match="refused"):
        sharded.read(unit, Failing(tmp_path, digest=True, threads=2))
    assert threading.active_count() == before


def test_the_formats_that_need_an_index_exist():
    assert set(sharded._INDEXED) <= set(formats())
