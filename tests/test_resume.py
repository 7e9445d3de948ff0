"""Points to resume from, written by the libraries: whether every part of the state is there, and whether the parts agree."""

import dataclasses
import json
import math
import shutil
import warnings

import hugging_face
import pytest
import torch
from campaigns import write
from disk_source import DiskSource, folder
from rule_examples import judge
from training_states import accelerate, distributed, steps, trained, trainer, zero

from pytest_campaign.findings import Level
from pytest_campaign.formats import accelerate_state, hf_model, lightning, peft_adapter, torch_object, torch_zip, trainer_state
from pytest_campaign.formats.base import Depth, ProblemKind, Unit, from_json, to_json
from pytest_campaign.formats.optimizer_state import Optimizer, in_pieces, misfit, optimizer
from pytest_campaign.record import Verdict
from pytest_campaign.reload.client import Reloader
from pytest_campaign.reload.protocol import Limits

RESUMING = {ProblemKind.OPTIMIZER, ProblemKind.PROGRESS, ProblemKind.BEHIND, ProblemKind.NO_SCALER, ProblemKind.SHARD_MISSING}


@pytest.fixture(scope="module")
def reloader():
    with Reloader(Limits(timeout=60.0, memory=1 << 28, threads=1)) as found:
        yield found


@pytest.fixture
def four(tmp_path):
    """``checkpoint-4`` of a small training, with ``checkpoint-2`` beside it."""
    steps(tmp_path)
    return tmp_path / "checkpoint-4"


def read(place, **options):
    (unit,) = trainer_state.gather(folder(place.parent, place.name))
    reading = trainer_state.read(unit, DiskSource(place.parent, **options))
    assert from_json(json.loads(json.dumps(to_json(reading)))).parts == reading.parts
    return reading


class Setting:
    """A class of a project."""


def found(place, **options):
    """The problems of resuming: (kind, name of the file)."""
    return [(problem.kind, problem.path.rpartition("/")[2]) for problem in read(place, **options).problems
            if problem.kind in RESUMING]


def change(file, edit):
    """Load a file of torch.save, change its object, and write it back."""
    value = torch.load(file, weights_only=False)
    edit(value)
    torch.save(value, file)


def widen(optimizer):
    """Give one of the parameters the moments of a wider layer."""
    optimizer["state"][3].update(exp_avg=torch.ones(24, 24), exp_avg_sq=torch.ones(24, 24))


def at_step(step):
    """An edit of an optimizer after which it has made that many steps."""
    return lambda value: [state.update(step=torch.tensor(float(step))) for state in value["state"].values()]


# ---- the Trainer ----------------------------------------------------------------------------------------------


def test_a_sound_checkpoint(four):
    reading = read(four)
    assert (reading.depth, reading.step, reading.ranks, reading.only_state) == (Depth.TENSORS, 4, 1, True)
    assert sorted(reading.parts) == ["optimizer", "progress", "random state", "schedule"]
    assert {problem.kind for problem in reading.problems} == {ProblemKind.FRAMEWORK_CLASS}
    assert {file.path.rpartition("/")[2] for file in reading.files} == {
        "optimizer.pt", "scheduler.pt", "rng_state.pth", "training_args.bin", "trainer_state.json"}
    (model,) = hf_model.gather(folder(four.parent, four.name))
    (state,) = trainer_state.gather(folder(four.parent, four.name))
    assert set(model.files).isdisjoint(state.files)
    assert "checkpoint-4/model.safetensors" in state.beside


@pytest.mark.parametrize(("arguments", "options"), [
    ({"optim": "adafactor"}, {}), ({"optim": "sgd"}, {}), ({"optim": "sgd", "optim_args": "momentum=0.9"}, {}),
    ({"optim": "adagrad"}, {}), ({"optim": "rmsprop"}, {}), ({"gradient_accumulation_steps": 2}, {}),
    ({"lr_scheduler_type": "cosine"}, {}), ({"lr_scheduler_type": "reduce_lr_on_plateau", "eval_strategy": "no"}, {"plateau": 1}),
    ({}, {"tied": True})])
def test_a_sound_checkpoint_of_another_training(tmp_path, arguments, options):
    if options.pop("plateau", None):
        place = trainer(tmp_path)
        schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(trained()[1])
        for number in range(9):
            schedule.step(number)
        torch.save(schedule.state_dict(), place / "scheduler.pt")
    else:
        place = trainer(tmp_path, hugging_face.llama(**options), **arguments)
    assert found(place) == []
    assert "optimizer" in read(place).parts


def test_frozen_parameters_have_no_state(tmp_path):
    steps(tmp_path, frozen="embed_tokens")
    assert found(tmp_path / "checkpoint-4") == []


def test_weights_in_shards(four):
    (four / "model.safetensors").unlink()
    hugging_face.model(four, shards=True)
    assert found(four) == []


@pytest.mark.parametrize("depth", [Depth.TENSORS, Depth.MODEL])
def test_the_optimizer_of_another_model(four, tmp_path, depth):
    steps(tmp_path / "deeper", layers=3)
    shutil.copy(tmp_path / "deeper/checkpoint-4/optimizer.pt", four)
    assert found(four, depth=depth) == [(ProblemKind.OPTIMIZER, "optimizer.pt")]


def test_the_optimizer_of_a_wider_model(four):
    change(four / "optimizer.pt", widen)
    (problem,) = [problem for problem in read(four).problems if problem.kind is ProblemKind.OPTIMIZER]
    assert "1 of 21 states" in problem.observed
    assert "[24, 24]" in problem.observed


def test_more_parameters_in_the_groups_than_in_the_model(four):
    change(four / "optimizer.pt", lambda value: value["param_groups"][0]["params"].extend(range(21, 30)))
    assert found(four) == [(ProblemKind.OPTIMIZER, "optimizer.pt")]


def test_moments_that_were_lost(four):
    change(four / "optimizer.pt", lambda value: value["state"].clear())
    assert found(four) == [(ProblemKind.OPTIMIZER, "optimizer.pt")]


def test_moments_of_a_projected_gradient_are_not_compared(four):
    change(four / "optimizer.pt", lambda value: value["state"][3].update(exp_avg=torch.ones(2, 5), exp_avg_sq=torch.ones(2, 5),
                                                                        projector=torch.ones(5, 16)))
    assert found(four) == []


def test_moments_of_eight_bits(four):
    def quantise(value):
        for state in value["state"].values():
            size = state.pop("exp_avg").shape
            del state["exp_avg_sq"]
            state.update(step=4, state1=torch.zeros(size, dtype=torch.uint8), state2=torch.zeros(size, dtype=torch.uint8),
                         qmap1=torch.ones(256), qmap2=torch.ones(256), absmax1=torch.ones(1), absmax2=torch.ones(1))

    change(four / "optimizer.pt", quantise)
    assert found(four) == []
    change(four / "optimizer.pt", lambda value: value["state"][0].update(step=5))
    assert found(four) == [(ProblemKind.PROGRESS, "optimizer.pt")]


def test_moments_that_are_no_numbers(four):
    change(four / "optimizer.pt", lambda value: value["state"][0]["exp_avg"].fill_(math.nan))
    assert ProblemKind.NAN in {problem.kind for problem in read(four).problems}


@pytest.mark.parametrize(("file", "edit", "kind"), [
    ("optimizer.pt", at_step(6), ProblemKind.PROGRESS),
    ("optimizer.pt", at_step(2), ProblemKind.BEHIND),
    ("scheduler.pt", lambda value: value.update(last_epoch=6), ProblemKind.PROGRESS),
    ("scheduler.pt", lambda value: value.update(last_epoch=3), ProblemKind.BEHIND),
])
def test_counters_of_another_save(four, file, edit, kind):
    change(four / file, edit)
    assert found(four) == [(kind, file)]


def test_a_schedule_that_moves_once_for_each_process(four):
    (four / "rng_state.pth").rename(four / "rng_state_0.pth")
    shutil.copy(four / "rng_state_0.pth", four / "rng_state_1.pth")
    change(four / "scheduler.pt", lambda value: value.update(last_epoch=8))
    assert found(four) == []
    assert read(four).ranks == 2


def test_a_training_of_several_steps_in_one(four):
    change(four / "optimizer.pt", at_step(16))
    change(four / "training_args.bin", lambda value: setattr(value, "num_ppo_epochs", 4))
    assert found(four) == []


@pytest.mark.parametrize(("values", "kind"), [
    ({"global_step": None}, ProblemKind.PROGRESS), ({"epoch": math.nan}, ProblemKind.PROGRESS),
    ({"max_steps": 3}, ProblemKind.BEHIND), ({"max_steps": -1}, None)])
def test_the_state_of_the_trainer(four, values, kind):
    hugging_face.settings(four / "trainer_state.json", **values)
    assert found(four) == ([(kind, "trainer_state.json")] if kind else [])


def test_a_state_of_the_trainer_that_is_cut(four):
    (four / "trainer_state.json").write_text('{"global_step": 4')
    assert found(four) == [(ProblemKind.PROGRESS, "trainer_state.json")]


def test_the_random_state_of_a_process_is_missing(four):
    (four / "rng_state.pth").rename(four / "rng_state_0.pth")
    shutil.copy(four / "rng_state_0.pth", four / "rng_state_2.pth")
    assert found(four) == [(ProblemKind.SHARD_MISSING, "rng_state_1.pth")]


def test_half_precision(four):
    change(four / "training_args.bin", lambda value: setattr(value, "fp16", True))
    assert found(four) == [(ProblemKind.NO_SCALER, "scaler.pt")]
    torch.save(torch.amp.GradScaler("cpu", enabled=True).state_dict(), four / "scaler.pt")
    assert found(four) == []


def with_adapter(**options):
    """A small model with a new LoRA adapter."""
    import peft

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the libraries about each other
        return peft.get_peft_model(hugging_face.llama(), peft.LoraConfig(
            **{"r": 4, "target_modules": ["q_proj", "v_proj"], "task_type": "CAUSAL_LM"} | options))


@pytest.mark.parametrize("options", [{}, {"modules_to_save": ["lm_head"]}, {"use_dora": True}, {"target_modules": "all-linear"}])
def test_an_adapter(tmp_path, options):
    place = trainer(tmp_path, with_adapter(**options))
    assert found(place) == []
    (state,) = trainer_state.gather(folder(tmp_path, "checkpoint-1"))
    (adapter,) = peft_adapter.gather(folder(tmp_path, "checkpoint-1"))
    assert set(adapter.files).isdisjoint(state.files)
    steps(tmp_path / "full")
    shutil.copy(tmp_path / "full/checkpoint-2/optimizer.pt", place)
    assert (ProblemKind.OPTIMIZER, "optimizer.pt") in found(place)


def test_what_is_no_state_of_the_trainer(four, tmp_path):
    own = tmp_path / "own"
    own.mkdir()
    for name in ("optimizer.pt", "scheduler.pt"):
        shutil.copy(four / name, own)
    assert list(trainer_state.gather(folder(tmp_path, "own"))) == []  # a home-made training has such files too
    for name in ("optimizer.pt", "scheduler.pt", "rng_state.pth"):
        (four / name).unlink()
    assert list(trainer_state.gather(folder(tmp_path, "checkpoint-4"))) == []  # save_only_model


# ---- shapes ---------------------------------------------------------------------------------------------------


def of(*shapes, parameters=0):
    return Optimizer(shapes, parameters, None, False, len(shapes))


@pytest.mark.parametrize(("optimizers", "fits"), [
    ([of((2, 3), (3,))], True), ([of((3,), (3,))], True), ([of((3,), (3,), (3,))], False), ([of((3, 2))], False),
    ([of((3,)), of((3,), (2, 3))], True), ([of(parameters=3)], True), ([of(parameters=4)], False), ([], True)])
def test_states_and_parameters_are_counted(optimizers, fits):
    assert (misfit(optimizers, [(2, 3), (3,), (3,)]) is None) is fits


def test_a_moment_of_one_parameter_is_lost(four):
    change(four / "optimizer.pt", lambda value: value["state"][3].pop("exp_avg"))
    assert found(four) == [(ProblemKind.OPTIMIZER, "optimizer.pt")]
    assert "it has no state.3.exp_avg" in next(p.observed for p in read(four).problems if p.kind is ProblemKind.OPTIMIZER)


@pytest.mark.parametrize("edit", [
    lambda state: state.pop(3),  # a parameter that got no gradient
    lambda state: [state[number].update(max_exp_avg_sq=state[number]["exp_avg"]) for number in range(4)],  # a group with amsgrad
    lambda state: [state[number].pop("exp_avg") for number in range(4)],  # a group without momentum
    lambda state: state[3].update(exp_avg_sq_row=torch.ones(2), exp_avg_sq_col=state[3].pop("exp_avg_sq"))])  # factored
def test_parameters_may_have_different_states(four, edit):
    change(four / "optimizer.pt", lambda value: edit(value["state"]))
    assert found(four) == []


def test_experts_are_stored_in_pieces():
    assert in_pieces(["model.layers.0.block_sparse_moe.experts.7.w1.weight"])
    assert not in_pieces(["model.layers.0.mlp.up_proj.weight", "experts.gate"])


def test_experts_that_the_library_holds_in_one_piece(tmp_path):
    from transformers import MixtralConfig, MixtralForCausalLM

    model = MixtralForCausalLM(MixtralConfig(
        vocab_size=64, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=2,
        num_local_experts=2, max_position_embeddings=32))
    place = trainer(tmp_path, model)
    assert found(place, depth=Depth.TENSORS) == []
    assert found(place, depth=Depth.MODEL) == []
    change(place / "optimizer.pt", widen)
    assert found(place, depth=Depth.MODEL) == [(ProblemKind.OPTIMIZER, "optimizer.pt")]


def test_values_of_shared_containers_are_bounded():
    inner = {"x": torch.ones(1)}
    for _ in range(5):
        inner = {f"k{number}": inner for number in range(1000)}
    assert len(torch_object.plain_values(inner)) < 300_001


# ---- accelerate and Lightning ---------------------------------------------------------------------------------


def test_accelerate(tmp_path):
    place = accelerate(tmp_path / "state")
    (unit,) = accelerate_state.gather(folder(tmp_path, "state"))
    reading = accelerate_state.read(unit, DiskSource(tmp_path))
    assert sorted(reading.parts) == ["model", "optimizer", "progress", "random state", "schedule"]
    assert {problem.kind for problem in reading.problems} == {ProblemKind.FRAMEWORK_CLASS}
    torch.save(trained(width=12)[1].state_dict(), place / "optimizer.bin")
    (problem,) = [one for one in accelerate_state.read(unit, DiskSource(tmp_path)).problems if one.kind in RESUMING]
    assert (problem.kind, problem.path) == (ProblemKind.OPTIMIZER, "state/optimizer.bin")
    (place / "model.safetensors").unlink()  # a hook of the training saved it elsewhere
    (unit,) = accelerate_state.gather(folder(tmp_path, "state"))
    assert not [one for one in accelerate_state.read(unit, DiskSource(tmp_path)).problems if one.kind in RESUMING]


@pytest.fixture(scope="module")
def net(tmp_path_factory):
    """What Lightning saves after three steps, with and without the state of the training."""
    import lightning as library

    class Net(library.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = torch.nn.Linear(4, 1)

        def training_step(self, batch, index):
            return self.net(batch[0]).square().mean()

        def configure_optimizers(self):
            optimizer = torch.optim.AdamW(self.parameters())
            return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1)]

    place = tmp_path_factory.mktemp("lightning")
    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(6, 4)), batch_size=2)
    fitting = library.Trainer(max_epochs=1, logger=False, enable_progress_bar=False, enable_model_summary=False,
                              accelerator="cpu", enable_checkpointing=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the library about itself
        fitting.fit(Net(), data)
        fitting.save_checkpoint(place / "epoch=0-step=3.ckpt")
        fitting.save_checkpoint(place / "weights.ckpt", weights_only=True)
    return place


def lightning_problems(root, name):
    reading = lightning.read(Unit(lightning.NAME, name, (name,)), DiskSource(root))
    return reading, [problem.kind for problem in reading.problems]


def test_lightning(net, tmp_path):
    reading, problems = lightning_problems(net, "epoch=0-step=3.ckpt")
    assert (reading.step, list(reading.parts), problems) == (3, ["model", "optimizer", "schedule", "progress"], [])
    reading, problems = lightning_problems(net, "weights.ckpt")
    assert "optimizer" not in reading.parts
    whole = torch.load(net / "epoch=0-step=3.ckpt", weights_only=False)
    torch.save(whole | {"global_step": 2}, tmp_path / "early.ckpt")
    assert lightning_problems(tmp_path, "early.ckpt")[1] == [ProblemKind.PROGRESS]
    torch.save(whole | {"optimizer_states": [trained()[1].state_dict()]}, tmp_path / "other.ckpt")
    assert lightning_problems(tmp_path, "other.ckpt")[1] == [ProblemKind.OPTIMIZER]


# ---- verdicts -------------------------------------------------------------------------------------------------


def verdicts(made, reloader):
    """The verdict of each deliverable, and what the reload says of it, notes left out."""
    record = judge(made.directory, reloader.run)
    return {one.id.rpartition("/")[2]: (one.verdict, sorted({f"{f.rule} {f.level}" for f in one.findings if "reload." in f.rule
                                                             and f.level is not Level.NOTE})) for one in record.deliverables}


def deliver(made, path, kind="checkpoint"):
    """One path, as a model, as a point to resume from, and without a word about it."""
    for id, purpose in (("model", {"purpose": "inference"}), ("resume", {"purpose": "resume"}), ("unsaid", {})):
        made.add(f"control/{id}", kind, path, **purpose)
    made.save()


@pytest.fixture
def made(tmp_path):
    return write(tmp_path / "out")


def test_one_folder_with_two_verdicts(made, reloader):
    place = trainer(made / "runs/control/steps", save_only_model=True)
    torch.save({"optimizer": trained()[1].state_dict()}, place / "own.pt")  # the Trainer does not look for it there
    deliver(made, "runs/control/steps/checkpoint-1")
    record = judge(made.directory, reloader.run)
    by_id = {one.id: one for one in record.deliverables}
    assert by_id["control/model"].verdict is Verdict.ACCEPTED
    assert by_id["control/resume"].verdict is Verdict.REJECTED
    assert by_id["control/unsaid"].verdict is Verdict.ACCEPTED
    lacking = [finding for finding in by_id["control/resume"].findings if finding.rule == "reload.not-resumable"]
    assert [finding.path.rpartition("/")[2] for finding in lacking] == ["optimizer.pt", "scheduler.pt", "rng_state.pth"]
    assert all("save_only_model=False" in finding.remedy for finding in lacking)
    (warning,) = [finding for finding in by_id["control/unsaid"].findings if finding.rule == "reload.not-resumable"]
    assert (warning.level, warning.path) == (Level.WARNING, "runs/control/steps/checkpoint-1")
    assert not [finding for finding in by_id["control/model"].findings if finding.rule == "reload.not-resumable"]


def test_a_fault_of_the_state_alone(made, reloader):
    steps(made / "runs/control/steps")
    place = "runs/control/steps/checkpoint-4"
    change(made / place / "optimizer.pt", lambda value: value["state"][0]["exp_avg"].fill_(math.nan))
    change(made / place / "scheduler.pt", lambda value: value.update(last_epoch=9))
    deliver(made, place)
    found = verdicts(made, reloader)
    assert found["model"] == (Verdict.ACCEPTED, ["reload.nan warning"])
    assert found["resume"] == (Verdict.REJECTED, ["reload.nan error", "reload.progress error"])
    assert found["unsaid"] == (Verdict.REJECTED, ["reload.nan error", "reload.progress warning"])


def test_lightning_without_the_state(made, reloader, net):
    shutil.copy(net / "weights.ckpt", made / "runs/control/weights.ckpt")
    deliver(made, "runs/control/weights.ckpt")
    found = verdicts(made, reloader)
    assert found["model"] == (Verdict.ACCEPTED, [])
    assert found["resume"] == (Verdict.REJECTED, ["reload.not-resumable error"])
    assert found["unsaid"] == (Verdict.ACCEPTED, [])


def sound_points(made, net):
    accelerate(made / "runs/a")
    zero(made / "runs/b")
    distributed(made / "runs/c")
    distributed(made / "runs/d/pytorch_model_fsdp_0", {"model": trained()[0].state_dict()})
    distributed(made / "runs/d/optimizer_0", {"optim": trained()[1].state_dict()})
    shutil.copy(net / "epoch=0-step=3.ckpt", made / "runs/e.ckpt")
    steps(made / "runs/f")
    (made / "runs/f/checkpoint-4/optimizer.pt").unlink()  # as FSDP saves it
    distributed(made / "runs/f/checkpoint-4/optimizer_0", {"optim": trained()[1].state_dict()})
    return ["runs/a", "runs/b", "runs/c", "runs/d", "runs/e.ckpt", "runs/f/checkpoint-4"]


def test_sound_points_of_every_framework(made, reloader, net):
    for number, path in enumerate(sound_points(made, net)):
        made.add(f"control/{number}", "checkpoint", path, purpose="resume")
    made.save()
    assert set(map(str, verdicts(made, reloader).values())) == {str((Verdict.ACCEPTED, []))}


def test_points_without_an_optimizer(made, reloader):
    accelerate(made / "runs/a")
    (made / "runs/a/optimizer.bin").unlink()
    distributed(made / "runs/b", {"model": trained()[0].state_dict()})
    hugging_face.model(made / "runs/c")
    hugging_face.adapter(made / "runs/d")
    for id, kind in {"a": "checkpoint", "b": "checkpoint", "c": "checkpoint", "d": "adapter"}.items():
        made.add(f"control/{id}", kind, f"runs/{id}", purpose="resume", **({"base": hugging_face.BASE} if id == "d" else {}))
    made.save()
    found = verdicts(made, reloader)
    assert {id: found[id] for id in "abcd"} == {
        "a": (Verdict.REJECTED, ["reload.not-resumable error"]), "b": (Verdict.ACCEPTED, ["reload.not-resumable warning"]),
        "c": (Verdict.REJECTED, ["reload.not-resumable error"]), "d": (Verdict.REJECTED, ["reload.not-resumable error"])}


def test_what_is_not_looked_into_may_hold_an_optimizer(made, reloader):
    import numpy

    numpy.save(made / "runs/control/own.npy", numpy.ones(3))
    made.add("control/own", "checkpoint", "runs/control/own.npy", purpose="resume")
    made.save()
    assert verdicts(made, reloader)["own"] == (Verdict.ACCEPTED, [])


def test_what_was_found_without_a_manifest_gets_no_error(tmp_path, reloader):
    out = tmp_path / "out"
    steps(out / "run")
    trainer(out / "short", save_only_model=True)
    hugging_face.model(out / "model")
    trainer(out / "adapted", with_adapter())
    change(out / "adapted/checkpoint-1/training_args.bin", lambda value: value.__dict__.update(own=Setting()))
    record = judge(out, reloader.run)
    errors = [finding for one in record.deliverables for finding in one.findings if finding.level is Level.ERROR]
    assert [finding.rule for finding in errors if finding.rule.startswith("reload.")] == []
    assert {one.id: one.kind for one in record.deliverables} == {
        "adapted/checkpoint-1": "adapter", "model": "checkpoint", "run/checkpoint-2": "checkpoint",
        "run/checkpoint-4": "checkpoint", "short/checkpoint-1": "checkpoint"}


def test_the_object_of_a_home_made_training(tmp_path):
    model, adam = trained()
    torch.save({"trainer": {"adam": adam.state_dict()}, "weights": model.state_dict()}, tmp_path / "a.pt")
    torch.save([model.state_dict(), adam.state_dict()], tmp_path / "b.pt")
    torch.save({"model": model.state_dict(), "options": {"width": 4, "optim": "adam"}, "optimizer": "sgd"}, tmp_path / "c.pt")
    assert {name: torch_zip.read(Unit("torch zip", name, (name,)), DiskSource(tmp_path)).parts
            for name in ("a.pt", "b.pt", "c.pt")} == {"a.pt": ["optimizer"], "b.pt": ["optimizer"], "c.pt": []}


def test_only_an_optimizer_that_was_read_whole_is_compared(tmp_path):
    torch.save(trained()[1].state_dict(), tmp_path / "a.pt")
    reading = torch_zip.read(Unit("torch zip", "a.pt", ("a.pt",)), DiskSource(tmp_path))
    one = optimizer(reading, DiskSource(tmp_path))
    assert (sorted(one.shapes), one.parameters, one.step, one.keeps_state) == ([(2,), (2, 8), (8,), (8, 4)], 4, 1, True)
    assert optimizer(dataclasses.replace(reading, tensors=99), DiskSource(tmp_path)) is None
