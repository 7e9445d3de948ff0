"""Folders of torch.distributed.checkpoint, written by the library; each fault beside the sound folder."""

import argparse
import hashlib
import io
import json
import os
import pickle
import struct
import subprocess
import sys
import tracemalloc
import zipfile
from decimal import Decimal

import pytest
import torch
from disk_source import DiskSource, folder
from training_states import by_ranks, change_metadata, distributed, trained

from pytest_campaign.formats import distributed_metadata, torch_distributed
from pytest_campaign.formats.base import Depth, ProblemKind, from_json, to_json
from pytest_campaign.formats.distributed_metadata import Chunk, SavedTensor, coverage
from pytest_campaign.formats.pickle_survey import BadPickle

DATA = "state/__0_0.distcp"


def read(root, **options):
    (unit,) = torch_distributed.gather(folder(root, "state"))
    reading = torch_distributed.read(unit, DiskSource(root, **options))
    assert from_json(json.loads(json.dumps(to_json(reading)))).problems == list(reading.problems)
    return reading


def only(root, **options):
    (problem,) = read(root, **options).problems
    return problem


@pytest.fixture
def saved(tmp_path):
    """A folder with a model, an optimizer and a number, saved by one process."""
    distributed(tmp_path / "state")
    return tmp_path


def place_of(root, name):
    """Where an item lies in its file: (offset, length)."""
    data = (root / "state/.metadata").read_bytes()
    piece = next(piece for piece in distributed_metadata.parse(data).pieces if piece.name == name)
    return piece.start, piece.length


def storage_of(root, name):
    """The offset in the file of the values of a tensor."""
    start, length = place_of(root, name)
    with open(root / DATA, "rb") as file:
        file.seek(start)
        data = file.read(length)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        member = next(member for member in archive.infolist() if member.filename.endswith("data/0"))
    name_length, extra = struct.unpack("<HH", data[member.header_offset + 26:member.header_offset + 30])
    return start + member.header_offset + 30 + name_length + extra


def change(path, at, data):
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(data)


def test_a_sound_folder(saved):
    reading = read(saved)
    assert (reading.depth, reading.problems, reading.only_state) == (Depth.TENSORS, [], False)
    model, optimizer = trained()
    tensors = [*model.state_dict().values(),
               *(value for state in optimizer.state_dict()["state"].values() for value in state.values())]
    assert (reading.tensors, reading.elements) == (len(tensors), sum(tensor.numel() for tensor in tensors))
    assert reading.bytes_read >= sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def test_the_digests_of_all_files(saved):
    reading = read(saved, digest=True)
    assert {fact.path: fact.sha256 for fact in reading.files} == {
        f"state/{file.name}": hashlib.sha256(file.read_bytes()).hexdigest() for file in (saved / "state").iterdir()}


def test_only_the_header(saved):
    reading = read(saved, depth=Depth.HEADER)
    assert (reading.depth, reading.problems, reading.bytes_read) == (Depth.HEADER, [], 0)


def test_the_work_is_that_of_the_bytes(saved):
    (unit,) = torch_distributed.gather(folder(saved, "state"))
    source = DiskSource(saved)
    torch_distributed.read(unit, source)
    assert source.done == sum(file.stat().st_size for file in (saved / "state").iterdir())


def test_a_file_per_rank(tmp_path):
    by_ranks(tmp_path / "state")
    reading = read(tmp_path)
    assert (reading.depth, reading.problems, len(reading.files)) == (Depth.TENSORS, [], 5)


def test_the_file_of_a_rank_is_missing(tmp_path):
    by_ranks(tmp_path / "state")
    (tmp_path / "state/__1_0.distcp").unlink()
    problem = only(tmp_path)
    assert (problem.kind, problem.path) == (ProblemKind.SHARD_MISSING, "state/__1_0.distcp")
    assert "1 of 4 files are absent, with 1 of 4 items" in problem.observed


def test_all_files_are_missing(saved):
    (saved / DATA).unlink()
    reading = read(saved)
    assert (reading.depth, [problem.kind for problem in reading.problems]) == (None, [ProblemKind.SHARD_MISSING])


def test_the_metadata_is_missing(saved):
    (saved / "state/.metadata").unlink()
    problem = only(saved)
    assert (problem.kind, problem.path) == (ProblemKind.SHARD_INDEX, "state/.metadata")
    assert ".metadata.tmp" not in problem.observed


def test_the_save_was_not_finished(saved):
    (saved / "state/.metadata").rename(saved / "state/.metadata.tmp")
    assert "not finished (.metadata.tmp)" in only(saved).observed


@pytest.mark.parametrize("left", [0.02, 0.5, 0.99])
def test_the_metadata_is_cut(saved, left):
    place = saved / "state/.metadata"
    size = place.stat().st_size
    os.truncate(place, int(size * left))
    reading = read(saved)
    (problem,) = reading.problems
    assert (reading.depth, problem.kind, problem.path) == (None, ProblemKind.TRUNCATED, "state/.metadata")


def test_the_metadata_is_something_else(saved):
    (saved / "state/.metadata").write_bytes(pickle.dumps({"version": 1}))
    assert only(saved).kind is ProblemKind.DAMAGED
    (saved / "state/.metadata").write_text("{}")
    assert only(saved).kind is ProblemKind.DAMAGED


def test_bytes_behind_the_metadata(saved):
    with open(saved / "state/.metadata", "ab") as file:
        file.write(b"more")
    assert (only(saved).kind, only(saved).path) == (ProblemKind.TRAILING, "state/.metadata")


def test_a_flipped_bit(saved):
    at = storage_of(saved, "model.2.weight")
    value = (saved / DATA).read_bytes()[at]
    change(saved / DATA, at, bytes([value ^ 1]))
    problem = only(saved)
    assert (problem.kind, problem.path, problem.where) == (ProblemKind.CHECKSUM, DATA, "model.2.weight")


def test_not_a_number(tmp_path):
    state = trained()[0].state_dict()
    state["2.weight"][0, 1] = float("nan")
    distributed(tmp_path / "state", {"model": state})
    problem = only(tmp_path)
    assert (problem.kind, problem.path, problem.where) == (ProblemKind.NAN, DATA, "model.2.weight")


def test_a_mask_may_be_infinite(tmp_path):
    mask = torch.zeros(4, 4).masked_fill(torch.ones(4, 4).triu(1).bool(), float("-inf"))
    distributed(tmp_path / "state", {"model": {"mask": mask}})
    assert read(tmp_path).problems == []


def test_the_end_of_a_file_is_cut(saved):
    size = (saved / DATA).stat().st_size
    os.truncate(saved / DATA, size - 1000)
    (problem,) = read(saved).problems
    assert (problem.kind, problem.path) == (ProblemKind.TRUNCATED, DATA)
    assert f"ends after {size - 1000:,} bytes" in problem.observed
    assert f"{size:,} bytes" in problem.expected
    assert "1,000 are missing" in problem.expected


def test_bytes_behind_the_last_item(saved):
    with open(saved / DATA, "ab") as file:
        file.write(bytes(100))
    assert (only(saved).kind, only(saved).observed) == (ProblemKind.TRAILING, "100 bytes behind the last item")


def test_the_archive_of_an_item_is_damaged(saved):
    start, _ = place_of(saved, "model.0.bias")
    change(saved / DATA, start, b"XXXX")
    problem = only(saved)
    assert (problem.kind, problem.where) == (ProblemKind.DAMAGED, "model.0.bias")


def test_never_written_ranges(tmp_path):
    distributed(tmp_path / "state", {"model": {"weight": torch.ones(1 << 19)}})
    data = (tmp_path / DATA).read_bytes()
    with open(tmp_path / DATA, "wb") as file:
        file.write(data[:1 << 20])
        file.seek(len(data) - (1 << 18))
        file.write(data[-(1 << 18):])
    assert {problem.kind for problem in read(tmp_path).problems} == {ProblemKind.HOLE, ProblemKind.CHECKSUM}


def test_a_file_of_another_save(saved):
    (saved / "state/__7_0.distcp").write_bytes((saved / DATA).read_bytes())
    problem = only(saved)
    assert (problem.kind, problem.path) == (ProblemKind.SHARD_INDEX, "state/__7_0.distcp")


@pytest.mark.parametrize("name", ["../__0_0.distcp", "/tmp/__0_0.distcp", "."])
def test_a_path_that_leaves_the_folder(saved, name):
    def change(metadata):
        for place in metadata.storage_data.values():
            place.relative_path = name

    change_metadata(saved / "state", change)
    problem = only(saved)
    assert (problem.kind, problem.path) == (ProblemKind.SHARD_INDEX, "state/.metadata")


def _resize(metadata):
    metadata.state_dict_metadata["model.2.weight"].size = torch.Size([2, 9])


def _lose(metadata):
    index = next(index for index in metadata.storage_data if index.fqn == "model.2.weight")
    del metadata.storage_data[index]


def _invent(metadata):
    del metadata.state_dict_metadata["model.2.weight"]


@pytest.mark.parametrize(("edit", "said"), [(_resize, "16 of the 18 elements"), (_invent, "of items that its table lacks")])
def test_the_metadata_contradicts_itself(saved, edit, said):
    change_metadata(saved / "state", edit)
    problem = only(saved)
    assert (problem.kind, problem.path, problem.where) == (ProblemKind.SHARD_INDEX, "state/.metadata", "model.2.weight")
    assert said in problem.observed


def test_an_item_without_a_place(saved):
    change_metadata(saved / "state", _lose)
    assert "the metadata does not say where 1 item of its table can be found" in read(saved).problems[0].observed


def test_an_item_of_another_type_than_announced(saved):
    def change(metadata):
        metadata.state_dict_metadata["model.2.weight"].properties.dtype = torch.float64

    change_metadata(saved / "state", change)
    problem = only(saved)
    assert (problem.kind, problem.where, problem.path) == (ProblemKind.SHARD_INDEX, "model.2.weight", DATA)
    assert problem.observed == "the item is F32 [2, 8]"


@pytest.mark.parametrize(("chunks", "sound"), [
    ([((0, 0), (4, 6))], True),
    ([((0, 0), (2, 6)), ((2, 0), (2, 6))], True),
    ([((0, 0), (2, 3)), ((0, 3), (2, 3)), ((2, 0), (2, 6)), ((4, 0), (0, 6))], True),  # an empty part of a fifth process
    ([((0, 0), (2, 6))], False),
    ([((0, 0), (2, 6)), ((1, 0), (2, 6))], False),
    ([((0, 0), (4, 3)), ((0, 2), (4, 3))], False),
    ([((0, 0), (2, 6)), ((3, 0), (2, 6))], False),
])
def test_chunks_cover_a_tensor_once(chunks, sound):
    tensor = SavedTensor("F32", (4, 6), [Chunk(*chunk) for chunk in chunks])
    assert (list(coverage(tensor)) == []) is sound


def test_many_chunks_along_the_second_dimension_take_little_time():
    tensor = SavedTensor("F32", (2, 4096), [Chunk((0, at), (2, 1)) for at in range(4096)])
    assert list(coverage(tensor)) == []


def test_the_optimizer_alone_is_no_model(tmp_path):
    _, optimizer = trained()
    distributed(tmp_path / "state", {"optimizer": optimizer.state_dict()})
    assert read(tmp_path).only_state


def test_an_object_with_a_class_of_a_framework(tmp_path):
    distributed(tmp_path / "state", {"model": trained()[0].state_dict(), "settings": argparse.Namespace(rate=0.1)})
    assert [problem.kind for problem in read(tmp_path).problems] == [ProblemKind.FRAMEWORK_CLASS]


class Command:
    def __reduce__(self):
        return os.system, ("touch ran",)


def test_nothing_of_a_hostile_metadata_is_run(saved, monkeypatch):
    change_metadata(saved / "state", lambda metadata: setattr(metadata, "planner_data", Command()))
    monkeypatch.chdir(saved)
    reading = read(saved)
    assert [problem.kind for problem in reading.problems] == [ProblemKind.UNSAFE_GLOBAL]
    assert reading.depth is None
    assert not (saved / "ran").exists()


def test_nothing_of_a_hostile_item_is_run(tmp_path, monkeypatch):
    distributed(tmp_path / "state", {"model": trained()[0].state_dict(), "note": Command()})
    monkeypatch.chdir(tmp_path)
    assert [problem.kind for problem in read(tmp_path).problems] == [ProblemKind.UNSAFE_GLOBAL]
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("data", [
    b"\x80\x04\x8c\x01a\x94" + b"j\xff\xff\xff\x7f.",  # a place of the memo that is not there
    b"\x80\x04" + b"(" * 1000 + b".",
    b"\x80\x04]]\x93.",
    b"\x80\x04}]Ns.",  # a list as a key
    b"\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\x7fx.",  # bytes that are not there
    b"\x80\x04u.",
    b"\x80\x04\x85.",
    b"",
])
def test_odd_pickles_are_refused(data):
    tracemalloc.start()
    with pytest.raises(BadPickle):
        distributed_metadata.parse(data)
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


def test_an_unknown_class_is_named(saved):
    change_metadata(saved / "state", lambda metadata: setattr(metadata, "extra", Decimal(1)))
    problem = only(saved)
    assert (problem.kind, problem.path) == (ProblemKind.FRAMEWORK_CLASS, "state/.metadata")


PROCESSES = '''
import os, sys, torch
import torch.distributed as dist, torch.distributed.checkpoint as checkpoint
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

def work(rank, size, folder, store):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=size, init_method=f"file://{store}")
    model = torch.nn.Linear(4, 5)
    fully_shard(model, mesh=init_device_mesh("cpu", (size,)))
    checkpoint.save({"model": model.state_dict()}, checkpoint_id=folder)
    checkpoint.save({"model": model.state_dict()}, checkpoint_id=folder + "-apart", use_collectives=False)
    dist.barrier()
    dist.destroy_process_group()

if __name__ == "__main__":
    torch.multiprocessing.spawn(work, (2, sys.argv[1], sys.argv[2]), nprocs=2)
'''


def test_two_processes_with_fsdp(tmp_path):
    script = tmp_path / "save.py"
    script.write_text(PROCESSES)
    done = subprocess.run([sys.executable, script, tmp_path / "state", tmp_path / "store"], capture_output=True, text=True,
                          check=False, env=os.environ | {"OMP_NUM_THREADS": "1"}, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    reading = read(tmp_path)
    assert (reading.depth, reading.problems, reading.tensors, reading.elements) == (Depth.TENSORS, [], 2, 25)
    (tmp_path / "state").rename(tmp_path / "coordinated")
    (tmp_path / "state-apart").rename(tmp_path / "state")
    reading = read(tmp_path)
    assert (reading.depth, reading.problems, reading.elements) == (Depth.TENSORS, [], 25)
    (tmp_path / "state/__1.metadata").unlink()
    assert {problem.kind for problem in read(tmp_path).problems} == {ProblemKind.SHARD_INDEX}
