"""Examples of the check ``reload``: models with their values, by the reviewer's loader and with a recorded input."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import hugging_face
import torch
from campaigns import LAST
from reviewers_loaders import Net

from pytest_campaign import proof
from pytest_campaign.formats.base import Depth

from . import Asked, Verdict, Written, faulty, sound

OPEN = Verdict.UNVERIFIED
PROBE = "runs/control/probe.safetensors"
MODEL = "runs/control/model"
NET = "runs/control/net.pt"
TOKENS = torch.arange(12).reshape(2, 6)


def model(made: Written, **inputs: torch.Tensor) -> Path:
    """A model of transformers with its probe, delivered as ``control/model``."""
    from transformers import LlamaForCausalLM

    folder = hugging_face.model(made / MODEL, seed=3)
    proof.record(LlamaForCausalLM.from_pretrained(folder), inputs or {"input_ids": TOKENS}, made / PROBE)
    made.add("control/model", "checkpoint", MODEL, reload={"probe": PROBE})
    return folder


def swap(one: str, other: str) -> Any:
    return lambda state: {**state, one: state[other], other: state[one]}


@faulty("reload.probe-differs", "control/model", PROBE)
def two_layers_exchanged(made: Written) -> None:
    hugging_face.change(model(made) / "model.safetensors", swap(
        "model.layers.0.mlp.gate_proj.weight", "model.layers.1.mlp.gate_proj.weight"))


@sound("reload.probe-differs", "control/model")
def the_model_that_was_recorded(made: Written) -> None:
    model(made)


@sound("reload.probe-differs", "control/model")
def saved_with_fewer_digits(made: Written) -> None:
    folder = model(made)
    hugging_face.change(folder / "model.safetensors", lambda state: {name: value.bfloat16() for name, value in state.items()})
    hugging_face.settings(folder / "config.json", dtype="bfloat16")


@faulty("reload.probe-other-model", "control/net", PROBE, loader="net")
def an_input_of_another_width(made: Written) -> None:
    home_made(made)
    proof.record(torch.nn.Linear(5, 3), torch.randn(2, 5), made / PROBE)


@faulty("reload.probe-other-model", "control/model", PROBE)
def an_output_of_another_model(made: Written) -> None:
    model(made)
    made_of = torch.nn.Sequential(torch.nn.Embedding(64, 3))
    proof.record(made_of, TOKENS, made / PROBE)


def home_made(made: Written) -> None:
    torch.manual_seed(0)
    net = Net()
    torch.save(net.state_dict(), made / NET)
    proof.record(net, {"points": torch.randn(5, 6)}, made / PROBE)
    made.add("control/net", "checkpoint", NET, reload={"probe": PROBE})


@sound("reload.probe-other-model", "control/net", loader="net")
def an_input_by_its_name(made: Written) -> None:
    home_made(made)


@faulty("reload.probe-file", "control/model", PROBE)
def the_probe_was_not_copied(made: Written) -> None:
    model(made)
    (made / PROBE).unlink()


@faulty("reload.probe-file", "control/model", PROBE)
def weights_for_a_probe(made: Written) -> None:
    folder = model(made)
    (made / PROBE).write_bytes((folder / "model.safetensors").read_bytes())


@faulty("reload.probe-file", "control/model", PROBE)
def a_cut_probe(made: Written) -> None:
    model(made)
    (made / PROBE).write_bytes((made / PROBE).read_bytes()[:-8])


@sound("reload.probe-file", "control/model")
def a_probe_in_the_folder_of_the_model(made: Written) -> None:
    (model(made) / "check.safetensors").write_bytes((made / PROBE).read_bytes())
    (made / PROBE).unlink()
    made.deliverable("control/model")["reload"]["probe"] = f"{MODEL}/check.safetensors"


@faulty("reload.probe-not-replayed", "control/adapter", PROBE)
def a_base_that_is_not_at_hand(made: Written) -> None:
    adapter = hugging_face.adapter(made / "runs/control/adapter")
    proof.record(hugging_face.adapted(adapter), {"input_ids": TOKENS}, made / PROBE)
    made.add("control/adapter", "adapter", "runs/control/adapter", base=dict(hugging_face.BASE), reload={"probe": PROBE})


@sound("reload.probe-not-replayed", "control/adapter")
def a_base_in_the_campaign(made: Written) -> None:
    hugging_face.model(made / "base")
    made.add("control/base", "checkpoint", "base")
    adapter = hugging_face.adapter(made / "runs/control/adapter")
    hugging_face.settings(adapter / "adapter_config.json", base_model_name_or_path="base", revision=None)
    proof.record(hugging_face.adapted(adapter), {"input_ids": TOKENS}, made / PROBE)
    made.add("control/adapter", "adapter", "runs/control/adapter", base={"model": "acme/tiny", "path": "base"},
             reload={"probe": PROBE})


@faulty("reload.probe-skipped", "control/net", PROBE)
def a_class_that_nobody_knows(made: Written) -> None:
    home_made(made)


@faulty("reload.probe-skipped", "control/net", PROBE, verdict=OPEN, campaign=OPEN)
def a_class_that_nobody_knows_and_the_probe_is_asked(made: Written) -> None:
    home_made(made)
    made.deliverable("control/net")["reload"]["depth"] = "probe"


@faulty("reload.probe-skipped", "control/model", PROBE, asked=Asked(max_depth=Depth.MODEL))
def no_deeper_than_the_model(made: Written) -> None:
    model(made)


@sound("reload.probe-skipped", "control/net", loader="net")
def a_class_that_the_loader_knows(made: Written) -> None:
    home_made(made)
    made.deliverable("control/net")["reload"]["depth"] = "probe"


@faulty("reload.loader-failed", "control/last", LAST, loader="raises")
def a_loader_that_raises(made: Written) -> None:
    made.deliverable("control/last")


@faulty("reload.loader-failed", "control/last", LAST, loader="has_no_values")
def a_model_without_values(made: Written) -> None:
    made.deliverable("control/last")


@sound("reload.loader-failed", "control/last", loader="any_linear")
def a_loader_that_loads(made: Written) -> None:
    made.deliverable("control/last")


@sound("reload.unrecognised", "control/net", loader="scrambled")
def weights_of_an_unknown_format_that_the_loader_knows(made: Written) -> None:
    data = b"".join(value.detach().numpy().tobytes() for value in Net().parameters())
    (made / "runs/control/net.bin").write_bytes(b"MINE\0\0\0\0" + bytes(255 - byte for byte in data))
    made.add("control/net", "checkpoint", "runs/control/net.bin", reload={"depth": "model"})


@faulty("reload.depth-not-reached", "control/model", MODEL)
def the_probe_is_asked_and_there_is_none(made: Written) -> None:
    model(made)
    made.deliverable("control/model")["reload"] = {"depth": "probe"}
    (made / PROBE).unlink()


@sound("reload.depth-not-reached", "control/model")
def the_probe_is_asked_and_replayed(made: Written) -> None:
    folder = model(made)
    torch.save({"step": 3, "state": torch.ones(3)}, folder / "extra.pt")  # what has no model of its own
    made.deliverable("control/model")["reload"]["depth"] = "probe"
