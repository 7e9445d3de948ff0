"""Examples of the check ``reload``: digests of tensors that the training recorded."""

from __future__ import annotations

import numpy
import other_frameworks
import torch
import training_states
from campaigns import LAST, WEIGHTS, tensors
from hugging_face import change, llama, model
from safetensors.torch import load_file, save_file
from training_states import steps

from pytest_campaign.formats.base import Depth
from pytest_campaign.proof import digests

from . import Asked, Verdict, Written, faulty, sound

OPEN = Verdict.UNVERIFIED
MODEL = "runs/control/model"
STEP = "runs/control/steps/checkpoint-4"


def flip(made: Written, path: str, tensor: torch.Tensor) -> None:
    """Flip one bit of a tensor's values in a file."""
    data = bytearray((made / path).read_bytes())
    data[data.index(tensor.contiguous().numpy().tobytes())] ^= 1
    (made / path).write_bytes(data)


def recorded(made: Written, id: str, state: object) -> None:
    made.deliverable(id)["tensor_digests"] = digests(state)


# ---- the values ---------------------------------------------------------------------------------------------


@faulty("reload.tensor-digest", "variant/weights", WEIGHTS)
def a_flipped_bit_in_safetensors(made: Written) -> None:
    recorded(made, "variant/weights", tensors(1))
    flip(made, WEIGHTS, tensors(1)["layer.weight"])


@sound("reload.tensor-digest", "variant/weights")
def a_flipped_bit_and_no_record(made: Written) -> None:
    flip(made, WEIGHTS, tensors(1)["layer.weight"])


@sound("reload.tensor-digest", "variant/weights")
def the_recorded_values(made: Written) -> None:
    recorded(made, "variant/weights", tensors(1))


@faulty("reload.tensor-digest", "control/last", LAST)
def weights_of_another_run(made: Written) -> None:
    recorded(made, "control/last", tensors(3))


@sound("reload.tensor-digest", "control/last")
def the_model_below_a_key_of_the_object(made: Written) -> None:
    recorded(made, "control/last", tensors())


@faulty("reload.tensor-digest", "variant/weights", WEIGHTS)
def saved_in_another_type(made: Written) -> None:
    recorded(made, "variant/weights", tensors(1))
    save_file({name: tensor.bfloat16() for name, tensor in tensors(1).items()}, made / WEIGHTS)


@sound("reload.tensor-digest", "variant/weights")
def recorded_in_capital_letters_by_hand(made: Written) -> None:
    made.deliverable("variant/weights")["tensor_digests"] = {name: text.upper() for name, text in digests(tensors(1)).items()}


@faulty("reload.tensor-digest", "control/model", f"{MODEL}/model.safetensors")
def a_model_that_was_trained_on_after_the_record(made: Written) -> None:
    model(made / MODEL)
    change(made / MODEL / "model.safetensors", lambda found: found | {"lm_head.weight": found["lm_head.weight"] * 1.01})
    made.add("control/model", "checkpoint", MODEL, tensor_digests=digests(llama()))


@sound("reload.tensor-digest", "control/model")
def a_model_with_tied_weights_in_shards(made: Written) -> None:
    model(made / MODEL, tied=True, shards=True)
    made.add("control/model", "checkpoint", MODEL, tensor_digests=digests(llama(tied=True).state_dict()))


@faulty("reload.tensor-digest", "control/four", f"{STEP}/model.safetensors")
def the_checkpoint_of_another_step(made: Written) -> None:
    steps(made / "runs/control/steps")
    early = load_file(made / "runs/control/steps/checkpoint-2/model.safetensors")
    made.add("control/four", "checkpoint", STEP, purpose="resume", tensor_digests=digests(early))
    made.add("control/two", "checkpoint", "runs/control/steps/checkpoint-2", purpose="resume")


@sound("reload.tensor-digest", "control/steps")
def a_folder_of_several_steps(made: Written) -> None:
    """The record is that of the last one."""
    steps(made / "runs/control/steps")
    last = load_file(made / STEP / "model.safetensors")
    made.add("control/steps", "checkpoint", "runs/control/steps", tensor_digests=digests(last))


@sound("reload.tensor-digest", "control/as-model")
def one_folder_as_a_model_and_to_resume_from(made: Written) -> None:
    steps(made / "runs/control/steps")
    made.add("control/two", "checkpoint", "runs/control/steps/checkpoint-2", purpose="resume")
    made.add("control/to-resume", "checkpoint", STEP, purpose="resume")
    made.add("control/as-model", "checkpoint", STEP, purpose="inference",
             tensor_digests=digests(load_file(made / STEP / "model.safetensors")))


# ---- which tensors ------------------------------------------------------------------------------------------


@faulty("reload.tensor-absent", "variant/weights", WEIGHTS)
def a_tensor_that_was_left_out(made: Written) -> None:
    recorded(made, "variant/weights", tensors(1))
    save_file({name: tensor for name, tensor in tensors(1).items() if name != "layer.bias"}, made / WEIGHTS)


@faulty("reload.tensor-absent", "variant/weights", WEIGHTS)
def a_renamed_tensor(made: Written) -> None:
    recorded(made, "variant/weights", tensors(1))
    save_file({name.replace("layer.bias", "layer.beta"): tensor for name, tensor in tensors(1).items()}, made / WEIGHTS)


@sound("reload.tensor-absent", "variant/weights")
def names_with_the_prefix_of_a_wrapper(made: Written) -> None:
    recorded(made, "variant/weights", {f"module.{name}": tensor for name, tensor in tensors(1).items()})


@sound("reload.tensor-absent", "control/last")
def a_record_of_some_tensors(made: Written) -> None:
    recorded(made, "control/last", {"layer.weight": tensors()["layer.weight"]})


# ---- what was compared --------------------------------------------------------------------------------------


@faulty("reload.tensors-compared", "variant/weights", WEIGHTS)
def tensors_with_a_record(made: Written) -> None:
    recorded(made, "variant/weights", tensors(1))


@sound("reload.tensors-compared", "variant/weights")
def tensors_without_a_record(made: Written) -> None:
    save_file(tensors(1), made / WEIGHTS)


@faulty("reload.tensors-not-compared", "variant/weights", "manifest.json")
def a_text_that_is_no_digest(made: Written) -> None:
    recorded(made, "variant/weights", tensors(1))
    made.deliverable("variant/weights")["tensor_digests"]["layer.bias"] = "sha256:0123"


@faulty("reload.tensors-not-compared", "variant/weights", WEIGHTS, asked=Asked(max_depth=Depth.HEADER))
def only_headers_are_read(made: Written) -> None:
    recorded(made, "variant/weights", tensors(1))


@faulty("reload.tensors-not-compared", "control/states", "runs/control/model.h5")
def a_format_in_which_no_single_tensor_is_found(made: Written) -> None:
    other_frameworks.hdf5(made / "runs/control/model.h5")
    made.add("control/states", "checkpoint", "runs/control/model.h5", tensor_digests=digests(tensors()))


@sound("reload.tensors-not-compared", "control/states")
def the_same_without_a_record(made: Written) -> None:
    other_frameworks.hdf5(made / "runs/control/model.h5")
    made.add("control/states", "checkpoint", "runs/control/model.h5")


@sound("reload.tensors-not-compared", "control/states")
def a_distributed_checkpoint(made: Written) -> None:
    training_states.distributed(made / "runs/control/states", {"model": tensors()})
    made.add("control/states", "checkpoint", "runs/control/states", tensor_digests=digests(tensors()))


@faulty("reload.tensor-digest", "control/states", "runs/control/states/__0_0.distcp")
def a_distributed_checkpoint_of_another_run(made: Written) -> None:
    training_states.distributed(made / "runs/control/states", {"model": tensors()})
    made.add("control/states", "checkpoint", "runs/control/states", tensor_digests=digests(tensors(3)))


@sound("reload.tensors-not-compared", "control/states")
def the_state_of_accelerate(made: Written) -> None:
    training_states.accelerate(made / "runs/control/states")
    model = training_states.trained()[0]
    made.add("control/states", "checkpoint", "runs/control/states", purpose="resume", tensor_digests=digests(model))


@faulty("reload.tensor-absent", "control/states", "runs/control/states")
def the_state_of_another_model(made: Written) -> None:
    training_states.accelerate(made / "runs/control/states")
    made.add("control/states", "checkpoint", "runs/control/states", purpose="resume", tensor_digests=digests(tensors()))


@sound("reload.tensors-not-compared", "variant/weights", verdict=Verdict.REJECTED, campaign=Verdict.REJECTED)
def a_file_that_was_cut(made: Written) -> None:
    """That it was cut says why."""
    recorded(made, "variant/weights", tensors(1))
    (made / WEIGHTS).write_bytes((made / WEIGHTS).read_bytes()[:-1])


@sound("reload.tensors-not-compared", "control/arrays")
def arrays_of_data_with_a_record(made: Written) -> None:
    arrays = {"scores": numpy.arange(6.0).reshape(2, 3), "rows": numpy.array([3, 1])}
    numpy.savez(made / "runs/control/arrays.npz", **arrays)
    state = {name: torch.from_numpy(array) for name, array in arrays.items()}
    made.add("control/arrays", "other", "runs/control/arrays.npz", tensor_digests=digests(state))


@faulty("reload.tensor-digest", "control/arrays", "runs/control/arrays.npz")
def arrays_of_data_with_other_values(made: Written) -> None:
    arrays_of_data_with_a_record(made)
    numpy.savez(made / "runs/control/arrays.npz", scores=numpy.ones((2, 3)), rows=numpy.array([3, 1]))


@faulty("reload.no-weights", "control/notes", "runs/control/notes.txt")
def a_record_of_tensors_and_none_there(made: Written) -> None:
    (made / "runs/control/notes.txt").write_text("nothing but words\n")
    made.add("control/notes", "other", "runs/control/notes.txt", tensor_digests=digests(tensors()))
