"""Folders of accelerate's ``save_state``, written by the library; each fault beside the sound folder."""

import json
import os

import pytest
import torch
from accelerate.data_loader import SeedableRandomSampler
from disk_source import DiskSource, folder
from hugging_face import llama
from training_states import accelerate, foreign

from pytest_campaign.formats import accelerate_state, hf_model
from pytest_campaign.formats.base import Depth, ProblemKind, from_json, to_json


@pytest.fixture(scope="session")
def written(tmp_path_factory):
    return accelerate(tmp_path_factory.mktemp("accelerate") / "state", ranks=3)


@pytest.fixture
def root(written, tmp_path):
    """A campaign with the state of three processes."""
    (tmp_path / "state").mkdir()
    for file in written.iterdir():
        (tmp_path / "state" / file.name).write_bytes(file.read_bytes())
    return tmp_path


def read(root, **options):
    (unit,) = accelerate_state.gather(folder(root, "state"))
    reading = accelerate_state.read(unit, DiskSource(root, **options))
    assert from_json(json.loads(json.dumps(to_json(reading)))).only_state
    return reading


def only(root):
    """What is wrong, without the note about the classes of NumPy."""
    (problem,) = [problem for problem in read(root).problems if problem.kind is not ProblemKind.FRAMEWORK_CLASS]
    return problem


def test_a_sound_state(root):
    reading = read(root)
    assert (reading.depth, reading.ranks, reading.only_state) == (Depth.TENSORS, 3, True)
    assert {file.path.rpartition("/")[2] for file in reading.files} == {
        "model.safetensors", "optimizer.bin", "scheduler.bin", "custom_checkpoint_0.pkl",
        *(f"random_states_{rank}.pkl" for rank in range(3))}
    (note,) = reading.problems
    assert note.kind is ProblemKind.FRAMEWORK_CLASS
    assert "numpy" in note.observed


def test_a_state_with_a_torch_file_of_weights(tmp_path):
    accelerate(tmp_path / "state", safe=False)
    reading = read(tmp_path)
    assert "state/pytorch_model.bin" in {file.path for file in reading.files}
    assert (reading.depth, reading.ranks) == (Depth.TENSORS, 1)


def test_the_random_state_of_a_process_is_missing(root):
    (root / "state/random_states_1.pkl").unlink()
    problem = only(root)
    assert (problem.kind, problem.path) == (ProblemKind.SHARD_MISSING, "state/random_states_1.pkl")
    assert read(root).ranks == 2


def test_the_last_random_state_is_missing(root):
    """Nothing in the folder tells that there was a third process."""
    (root / "state/random_states_2.pkl").unlink()
    assert [problem.kind for problem in read(root).problems] == [ProblemKind.FRAMEWORK_CLASS]
    assert read(root).ranks == 2


def test_a_gap_in_the_parts_of_a_model(root):
    for rank in (0, 2):
        torch.save({"weight": torch.ones(2)}, root / f"state/pytorch_model_fsdp_rank{rank}.bin")
    assert (only(root).kind, only(root).path) == (ProblemKind.SHARD_MISSING, "state/pytorch_model_fsdp_rank1.bin")


@pytest.mark.parametrize("name", ["optimizer.bin", "random_states_1.pkl", "model.safetensors"])
def test_a_file_is_cut(root, name):
    os.truncate(root / "state" / name, (root / "state" / name).stat().st_size // 2)
    assert (only(root).kind, only(root).path) == (ProblemKind.TRUNCATED, f"state/{name}")


def test_not_a_number_in_the_optimizer(root):
    state = torch.load(root / "state/optimizer.bin")
    state["state"][0]["exp_avg"][0] = float("nan")
    torch.save(state, root / "state/optimizer.bin")
    assert (only(root).kind, only(root).path) == (ProblemKind.NAN, "state/optimizer.bin")


def test_a_flipped_bit_in_the_optimizer(root):
    moment = torch.load(root / "state/optimizer.bin")["state"][0]["exp_avg"].numpy().tobytes()
    data = bytearray((root / "state/optimizer.bin").read_bytes())
    data[data.index(moment)] ^= 1
    (root / "state/optimizer.bin").write_bytes(data)
    assert (only(root).kind, only(root).path) == (ProblemKind.CHECKSUM, "state/optimizer.bin")


def test_a_sampler_is_a_whole_object(root):
    sampler = SeedableRandomSampler(torch.utils.data.TensorDataset(torch.zeros(4, 1)), generator=torch.Generator(), data_seed=3)
    torch.save(sampler, root / "state/sampler.bin")
    kinds = {problem.path: problem.kind for problem in read(root).problems}
    assert kinds["state/sampler.bin"] is ProblemKind.FRAMEWORK_CLASS


def test_a_class_of_the_project_is_named(root):
    with foreign("acme.training", "Progress") as progress:
        torch.save(progress(), root / "state/custom_checkpoint_0.pkl")
    assert (only(root).kind, only(root).observed) == (ProblemKind.FOREIGN_CLASS, "acme.training.Progress")


def test_a_model_beside_the_state_is_left_to_its_own_format(root):
    llama().save_pretrained(root / "state")
    (state,) = accelerate_state.gather(folder(root, "state"))
    (model,) = hf_model.gather(folder(root, "state"))
    assert "state/model.safetensors" in model.files
    assert set(state.files).isdisjoint(model.files)


def test_an_optimizer_without_random_states_is_no_state(root):
    for file in (root / "state").glob("random_states_*"):
        file.unlink()
    assert list(accelerate_state.gather(folder(root, "state"))) == []
