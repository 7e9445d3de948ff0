"""Examples of the check ``identifiers``: what comes from another run, and what is alike under two ids."""

from __future__ import annotations

import json
import shutil

import torch
from campaigns import LAST, METRICS, WEIGHTS, tensors
from safetensors.torch import save_file

from . import Level, Verdict, Written, faulty, sound

STEPS = "runs/variant/checkpoint-{}"


def history(last: int, offset: float = 0.0) -> list[dict[str, float]]:
    """The log of a training that wrote one entry each ten steps, as transformers keeps it."""
    return [{"step": step, "epoch": step / 100, "loss": round(4.0 - step / 100 + offset, 4)} for step in range(10, last + 1, 10)]


def checkpoint(made: Written, step: int, *, says: int | None = None, offset: float = 0.0, list_it: bool = True,
               seed: int | None = None) -> str:
    """One more checkpoint of the variant: weights of their own and the state of the training."""
    folder = STEPS.format(step)
    save_file(tensors(step if seed is None else seed), made / f"{folder}/model.safetensors")
    said = step if says is None else says
    (made / folder / "trainer_state.json").write_text(json.dumps({"global_step": said, "log_history": history(said, offset)}))
    if list_it:
        made.add(f"variant/step-{step}", "checkpoint", folder)
    return folder


@faulty("identifiers.other-step", "variant/step-20", STEPS.format(20) + "/trainer_state.json")
def a_renamed_folder(made: Written) -> None:
    checkpoint(made, 20, says=30)


@sound("identifiers.other-step", "variant/step-20")
def folders_that_keep_their_step(made: Written) -> None:
    shutil.copytree(made / checkpoint(made, 20), made / "runs/variant/best")  # a name without a step says nothing
    made.add("variant/best", "checkpoint", "runs/variant/best")


@faulty("identifiers.other-run", "variant/step-500", STEPS.format(500) + "/trainer_state.json")
def a_step_that_the_run_never_reached(made: Written) -> None:
    made.run("variant")["steps"] = 100
    checkpoint(made, 500)


@faulty("identifiers.other-run", "variant/step-20", STEPS.format(40) + "/trainer_state.json", verdict=Verdict.ACCEPTED)
def an_unclaimed_checkpoint_with_another_history(made: Written) -> None:
    checkpoint(made, 20)
    checkpoint(made, 40, offset=0.7, list_it=False)


@faulty("identifiers.other-run", "variant/step-40", STEPS.format(40) + "/trainer_state.json", level=Level.WARNING)
def a_listed_checkpoint_with_another_history(made: Written) -> None:
    checkpoint(made, 20)
    checkpoint(made, 40, offset=0.7)


@sound("identifiers.other-run", "variant/step-40")
def a_history_with_an_overflow(made: Written) -> None:
    for step in (20, 40):
        state = made / checkpoint(made, step) / "trainer_state.json"
        state.write_text(state.read_text().replace('"loss": 3.9', '"loss": NaN'))


@sound("identifiers.other-run", "variant/step-40")
def one_history_that_goes_on(made: Written) -> None:
    made.run("variant")["steps"] = 40
    checkpoint(made, 20)
    checkpoint(made, 40)


@faulty("identifiers.other-run", "control/metrics", METRICS)
def metrics_that_name_another_run(made: Written) -> None:
    (made / METRICS).write_text('{"run": "variant", "loss": 0.25}\n')


def rows(made: Written, *names: str) -> None:
    """Metrics of the control as a history in which each record names a run."""
    (made / "runs/control/history.csv").write_text(
        "step,run,loss\n" + "".join(f"{step},{name},{3 - step / 10}\n" for step, name in enumerate(names)))
    made.add("control/history", "metrics", "runs/control/history.csv")


@faulty("identifiers.other-run", "control/history", "runs/control/history.csv")
def a_history_of_another_run(made: Written) -> None:
    rows(made, "variant", "variant", "variant")


@sound("identifiers.other-run", "control/history")
def a_history_of_two_runs(made: Written) -> None:
    rows(made, "variant", "variant", "control")


@faulty("identifiers.other-run", "variant/step-20", STEPS.format(20) + "/adapter_config.json")
def a_configuration_that_names_another_run(made: Written) -> None:
    (made / checkpoint(made, 20) / "adapter_config.json").write_text('{"run_name": "control"}')


def best(made: Written, path: str) -> None:
    """A checkpoint of the variant, of which the state says where the best one lay."""
    state = made / checkpoint(made, 20) / "trainer_state.json"
    state.write_text(json.dumps({"global_step": 20, "best_model_checkpoint": path}))


@faulty("identifiers.other-run", "variant/step-20", STEPS.format(20) + "/trainer_state.json")
def the_best_checkpoint_was_one_of_another_run(made: Written) -> None:
    best(made, "outputs/control/checkpoint-10")


@sound("identifiers.other-run", "variant/step-20")
def the_best_checkpoint_was_one_of_this_run(made: Written) -> None:
    best(made, "outputs/control/variant/checkpoint-20")


@sound("identifiers.other-run", "variant/step-20")
def the_best_checkpoint_was_before_the_run_was_resumed(made: Written) -> None:
    made.run("variant")["resumed_from"] = "control"
    checkpoint(made, 10)
    best(made, "outputs/control/checkpoint-10")


@sound("identifiers.other-run", "control/metrics")
def metrics_that_name_their_run(made: Written) -> None:
    (made / METRICS).write_text('{"run": "control", "run_name": "dandy-moon-12", "compared_with": "variant", "loss": 0.25}\n')


@sound("identifiers.other-run", "again/metrics")
def metrics_that_name_the_run_that_is_repeated(made: Written) -> None:
    (made / "runs/again/metrics.json").write_text('{"run": "control", "loss": 0.26}\n')
    made.manifest["runs"].append({"id": "again", "status": "completed", "repeat_of": "control", "deliverables": [
        {"id": "metrics", "kind": "metrics", "path": "runs/again/metrics.json"}]})


def adapter(made: Written, step: int, rank: int, targets: list[str]) -> None:
    folder = checkpoint(made, step)
    config = {"peft_type": "LORA", "r": rank, "target_modules": targets, "peft_version": f"0.{step}"}
    (made / folder / "adapter_config.json").write_text(json.dumps(config))


@faulty("identifiers.two-configurations", None, STEPS.format(40) + "/adapter_config.json", campaign=Verdict.REJECTED)
def a_run_that_was_started_again_with_another_rank(made: Written) -> None:
    adapter(made, 20, 8, ["q_proj", "v_proj"])
    adapter(made, 40, 16, ["q_proj", "v_proj"])


@faulty("identifiers.two-configurations", "control/last", "runs/control/parameters.json", level=Level.WARNING)
def a_seed_that_differs(made: Written) -> None:
    made.run("control").update(seed=1, parameters="runs/control/parameters.json")
    (made / "runs/control/parameters.json").write_text('{"seed": 2}')


@sound("identifiers.two-configurations", None, campaign=Verdict.REJECTED)
def the_same_configuration_in_another_order(made: Written) -> None:
    adapter(made, 20, 8, ["q_proj", "v_proj"])
    adapter(made, 40, 8, ["v_proj", "q_proj"])


@faulty("identifiers.other-tensors", "variant/step-40", STEPS.format(40) + "/model.safetensors")
def a_step_whose_tensors_have_other_names(made: Written) -> None:
    checkpoint(made, 20)
    renamed = {f"module.{name}": value for name, value in tensors(40).items()}
    save_file(renamed, made / checkpoint(made, 40) / "model.safetensors")


@faulty("identifiers.other-tensors", "variant/step-40", "runs/variant/step_40.safetensors")
def a_file_with_less_beside_the_others(made: Written) -> None:
    for step in (20, 40, 60):
        held = dict(list(tensors(step).items())[:1]) if step == 40 else tensors(step)
        save_file(held, made / f"runs/variant/step_{step}.safetensors")
        made.add(f"variant/step-{step}", "checkpoint", f"runs/variant/step_{step}.safetensors")


@sound("identifiers.other-tensors", "variant/step-40")
def steps_with_the_same_tensors_in_another_order(made: Written) -> None:
    checkpoint(made, 20)
    reversed_ones = dict(reversed(tensors(40).items()))
    save_file(reversed_ones, made / checkpoint(made, 40) / "model.safetensors", metadata={"format": "pt"})
    save_file({"weight": torch.ones(32, 32)}, made / "runs/variant/small/model.safetensors")  # no step of it


@faulty("identifiers.copy", "variant/weights", WEIGHTS)
def two_runs_with_the_same_weights(made: Written) -> None:
    many = {"weight": torch.ones(64, 64)}
    save_file(many, made / "runs/control/model.safetensors")
    save_file(many, made / WEIGHTS)
    entry = {"id": "weights", "kind": "checkpoint", "path": "runs/control/model.safetensors"}
    made.run("control")["deliverables"].insert(0, entry)
    made.planned_run("control")["deliverables"].append({"id": "weights", "kind": "checkpoint"})


@faulty("identifiers.copy", "variant/step-40", STEPS.format(40))
def two_steps_with_the_same_weights(made: Written) -> None:
    for step in (20, 40):
        checkpoint(made, step, seed=5)


@faulty("identifiers.copy", "control/best", "runs/control/best.pt", level=Level.NOTE)
def the_last_checkpoint_is_the_best(made: Written) -> None:
    shutil.copy(made / LAST, made / "runs/control/best.pt")
    made.add("control/best", "checkpoint", "runs/control/best.pt")


@sound("identifiers.copy", "variant/weights")
def weights_of_the_same_size(made: Written) -> None:
    save_file(tensors(5), made / "runs/control/model.safetensors")
    made.add("control/weights", "checkpoint", "runs/control/model.safetensors")


@sound("identifiers.copy", "control/to-resume")
def one_file_for_two_purposes(made: Written) -> None:
    made.add("control/to-resume", "checkpoint", LAST, purpose="resume")


@faulty("identifiers.repeat", "again/weights", "manifest.json")
def a_repeat(made: Written) -> None:
    save_file(tensors(2), made / "runs/again/model.safetensors")
    made.manifest["runs"].append({"id": "again", "status": "completed", "repeat_of": "variant", "deliverables": [
        {"id": "weights", "kind": "checkpoint", "path": "runs/again/model.safetensors"}]})


@sound("identifiers.repeat", "variant/weights")
def nothing_is_repeated(made: Written) -> None:
    made.run("variant")["seed"] = 2


def parameters(made: Written, **runs: dict[str, object]) -> None:
    for run, values in runs.items():
        (made / f"runs/{run}/parameters.json").write_text(json.dumps(values))
        made.run(run)["parameters"] = f"runs/{run}/parameters.json"


@faulty("identifiers.no-parameters", "variant/weights", "manifest.json")
def only_the_control_has_parameters(made: Written) -> None:
    parameters(made, control={"width": 4})


@faulty("identifiers.no-parameters", "variant/weights", "manifest.json", level=Level.NOTE)
def no_run_has_parameters(made: Written) -> None:
    pass


@sound("identifiers.no-parameters", "variant/weights")
def parameters_that_are_delivered(made: Written) -> None:
    parameters(made, control={"width": 4})
    (made / "runs/variant/config.yaml").write_text("width: 8\n")
    made.add("variant/parameters", "parameters", "runs/variant/config.yaml")


@faulty("identifiers.unreadable-parameters", "variant/weights", "runs/variant/parameters.json")
def parameters_that_are_cut(made: Written) -> None:
    parameters(made, control={"width": 4}, variant={"width": 8})
    (made / "runs/variant/parameters.json").write_text('{"width": ')


@sound("identifiers.unreadable-parameters", "variant/weights")
def parameters_in_other_forms(made: Written) -> None:
    parameters(made, control={"width": 4})
    (made / "runs/variant/parameters.toml").write_text("[model]\nwidth = 8\n")
    made.run("variant")["parameters"] = "runs/variant/parameters.toml"


@faulty("identifiers.same-parameters", "variant/weights", "runs/variant/parameters.json")
def a_variant_that_differs_in_nothing(made: Written) -> None:
    parameters(made, control={"lr": 0.0001, "output_dir": "runs/control"}, variant={"lr": "1e-4", "output_dir": "runs/variant"})


@sound("identifiers.same-parameters", "variant/weights")
def a_variant_that_differs(made: Written) -> None:
    parameters(made, control={"lr": 0.0001, "model": {"width": 4}}, variant={"lr": 0.0001, "model": {"width": 8}})
