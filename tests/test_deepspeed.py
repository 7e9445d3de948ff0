"""Checkpoints of DeepSpeed in the layout that its source shows; each fault beside the sound folder."""

import json
import os

import pytest
import torch
from disk_source import DiskSource, folder
from training_states import zero

from pytest_campaign.formats import deepspeed
from pytest_campaign.formats.base import Depth, ProblemKind, from_json, to_json

STEP = "run/global_step800"


def read(root, where=STEP, **options):
    (unit,) = deepspeed.gather(folder(root, where))
    reading = deepspeed.read(unit, DiskSource(root, **options))
    assert from_json(json.loads(json.dumps(to_json(reading)))).ranks == reading.ranks
    return reading


def faults(root, where=STEP):
    """What is wrong, without the note about the framework's classes."""
    return [problem for problem in read(root, where).problems if problem.kind is not ProblemKind.FRAMEWORK_CLASS]


def only(root, where=STEP):
    (problem,) = faults(root, where)
    return problem


@pytest.mark.parametrize("stage", [1, 2, 3])
@pytest.mark.parametrize("parallel", [1, 2])
@pytest.mark.parametrize("silent", [False, True])
def test_a_sound_step(tmp_path, stage, parallel, silent):
    zero(tmp_path / "run", ranks=3, stage=stage, parallel=parallel, silent=silent)
    reading = read(tmp_path)
    assert (reading.depth, reading.ranks, reading.only_state) == (Depth.TENSORS, 3 * parallel, True)
    (note,) = reading.problems
    assert (note.kind, note.count) == (ProblemKind.FRAMEWORK_CLASS, 3 * parallel)
    assert faults(tmp_path, "run") == []


def test_the_old_spelling_of_the_optimizer(tmp_path):
    step = zero(tmp_path / "run")
    for file in step.glob("*_optim_states.pt"):
        file.rename(step / file.name.replace("_optim", "optim"))
    assert faults(tmp_path) == []


def test_experts_and_layers_of_a_pipeline_belong_to_the_step(tmp_path):
    step = zero(tmp_path / "run")
    for name in ("layer_0_expert_1_mp_rank_00_model", "expp_rank_0_mp_rank_00_optim", "layer_03-model_00-model"):
        torch.save({"weight": torch.ones(3)}, step / f"{name}_states.pt")
    reading = read(tmp_path)
    assert len(reading.files) == 6
    assert faults(tmp_path) == []


@pytest.mark.parametrize("stage", [2, 3])
def test_the_other_node_was_not_copied(tmp_path, stage):
    zero(tmp_path / "run", ranks=4, said=8, stage=stage)
    problem = faults(tmp_path)[0]
    assert (problem.kind, problem.count) == (ProblemKind.SHARD_MISSING, 4)
    assert problem.path == f"{STEP}/bf16_zero_pp_rank_4_mp_rank_00_optim_states.pt"
    assert "4 of 8 files with the states of the optimizer are absent" in problem.observed
    assert len(faults(tmp_path)) == (1 if stage < 3 else 2)


@pytest.mark.parametrize("silent", [False, True])
def test_a_rank_in_the_middle_is_missing(tmp_path, silent):
    step = zero(tmp_path / "run", ranks=3, silent=silent)
    (step / "bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt").unlink()
    problem = only(tmp_path)
    assert (problem.kind, problem.path) == (ProblemKind.SHARD_MISSING, f"{STEP}/bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt")


def test_the_ranks_of_one_model_part_are_missing(tmp_path):
    step = zero(tmp_path / "run", parallel=2)
    for file in step.glob("*mp_rank_01_*"):
        file.unlink()
    assert [problem.path.rpartition("/")[2] for problem in faults(tmp_path)] == [
        "bf16_zero_pp_rank_0_mp_rank_01_optim_states.pt", "mp_rank_01_model_states.pt"]


@pytest.mark.parametrize(("stage", "name"), [(2, "mp_rank_00_model_states.pt"), (3, "zero_pp_rank_1_mp_rank_00_model_states.pt")])
def test_the_states_of_the_model_are_missing(tmp_path, stage, name):
    (zero(tmp_path / "run", stage=stage) / name).unlink()
    problem = only(tmp_path)
    assert (problem.kind, problem.path) == (ProblemKind.SHARD_MISSING, f"{STEP}/{name}")


def test_the_optimizer_is_missing_as_a_whole(tmp_path):
    for file in zero(tmp_path / "run").glob("*_optim_states.pt"):
        file.unlink()
    assert only(tmp_path).path == f"{STEP}/zero_pp_rank_0_mp_rank_00_optim_states.pt"


def test_without_zero_there_is_one_file(tmp_path):
    for file in zero(tmp_path / "run", ranks=1, stage=0).glob("*_optim_states.pt"):
        file.unlink()
    assert (faults(tmp_path), read(tmp_path).ranks) == ([], None)


def test_only_one_group_of_processes_writes(tmp_path):
    """With MiCS there are fewer parts than processes, and nobody can tell the latter from the files."""
    zero(tmp_path / "run", ranks=2, data=8, stage=3)
    assert (faults(tmp_path), read(tmp_path).ranks) == ([], None)


def test_files_of_an_older_save_of_more_processes(tmp_path):
    zero(tmp_path / "run", ranks=4, said=2)
    problem = only(tmp_path)
    assert (problem.kind, problem.path) == (ProblemKind.SHARD_INDEX, STEP)
    assert "files of 4 ranks" in problem.observed


def test_a_file_is_cut(tmp_path):
    file = zero(tmp_path / "run") / "bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt"
    os.truncate(file, file.stat().st_size // 2)
    assert (only(tmp_path).kind, only(tmp_path).path) == (ProblemKind.TRUNCATED, f"{STEP}/{file.name}")


def test_not_a_number_in_one_part(tmp_path):
    step = zero(tmp_path / "run")
    name = "bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt"
    optimizer = {"partition_count": 2, "single_partition_of_fp32_groups": [torch.tensor([1.0, float("nan")])]}
    torch.save({"optimizer_state_dict": optimizer}, step / name)
    assert (only(tmp_path).kind, only(tmp_path).path) == (ProblemKind.NAN, f"{STEP}/{name}")


def test_a_flipped_bit(tmp_path):
    file = zero(tmp_path / "run") / "bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt"
    data = bytearray(file.read_bytes())
    data[data.index(torch.full((20,), 2.0).numpy().tobytes())] ^= 1
    file.write_bytes(data)
    assert (only(tmp_path).kind, only(tmp_path).path) == (ProblemKind.CHECKSUM, f"{STEP}/{file.name}")


def test_something_else_under_the_name_of_a_state(tmp_path):
    (zero(tmp_path / "run") / "mp_rank_00_model_states.pt").write_text("<html>")
    assert (only(tmp_path).kind, only(tmp_path).path) == (ProblemKind.DAMAGED, f"{STEP}/mp_rank_00_model_states.pt")


# ---- latest ---------------------------------------------------------------------------------------------------


def test_latest_names_a_step_that_is_not_there(tmp_path):
    zero(tmp_path / "run")
    (tmp_path / "run/latest").write_text("global_step1000\n")
    problem = only(tmp_path, "run")
    assert (problem.kind, problem.path) == (ProblemKind.SHARD_INDEX, "run/latest")
    assert "'global_step1000'" in problem.observed
    assert "global_step800" in problem.observed


@pytest.mark.parametrize("text", ["global_step800", "global_step800\n"])
def test_latest_names_one_of_several(tmp_path, text):
    zero(tmp_path / "run", 400)
    zero(tmp_path / "run", 800)
    (tmp_path / "run/latest").write_text(text)
    assert faults(tmp_path, "run") == []


def test_the_step_was_left_out_of_the_copy(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run/latest").write_text("global_step800")
    assert "no other step either" in only(tmp_path, "run").observed


def test_a_tag_of_the_users_own(tmp_path):
    zero(tmp_path / "run").rename(tmp_path / "run/pytorch_model")
    (tmp_path / "run/latest").write_text("pytorch_model")
    assert faults(tmp_path, "run") == []
    (tmp_path / "run/latest").write_text("pytorch_model_1")
    assert only(tmp_path, "run").kind is ProblemKind.SHARD_INDEX


@pytest.mark.parametrize("text", ["epoch=3.ckpt", "1234", "2026-01-01 12:00"])
def test_a_latest_of_another_program(tmp_path, text):
    (tmp_path / "run").mkdir()
    (tmp_path / "run/latest").write_text(text)
    torch.save({"weight": torch.ones(2)}, tmp_path / "run/last.pt")
    assert list(deepspeed.gather(folder(tmp_path, "run"))) == []
