"""Examples of the check ``reload``, and of a check that raises."""

from __future__ import annotations

import argparse
import json
import os
import struct
import sys
import types
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

import hugging_face
import joblib
import numpy
import other_frameworks
import torch
import training_states
from campaigns import LAST, WEIGHTS, tensors
from safetensors.torch import load_file, save_file
from torch.serialization import get_crc32_options, set_crc32_options

from pytest_campaign.findings import Level
from pytest_campaign.formats.base import Depth

from . import Asked, Verdict, Written, faulty, sound

OPEN = Verdict.UNVERIFIED
TOY = "runs/control/last.toy"


# ---- what is there ------------------------------------------------------------------------------------------


@faulty("reload.no-weights", "control/model", "runs/control/model")
def only_the_configuration(made: Written) -> None:
    (made / "runs/control/model/config.json").write_text('{"hidden_size": 4}')
    made.add("control/model", "checkpoint", "runs/control/model")


@sound("reload.no-weights", "control/tokenizer")
def a_folder_that_is_meant_to_hold_none(made: Written) -> None:
    (made / "runs/control/tokenizer/tokenizer.json").write_text('{"version": "1.0"}')
    made.add("control/tokenizer", "other", "runs/control/tokenizer")


@faulty("reload.unrecognised", "control/model", "runs/control/model.bin")
def weights_of_an_unknown_format(made: Written) -> None:
    (made / "runs/control/model.bin").write_bytes(b"\x01\x00weights of my own" * 9)
    made.add("control/model", "checkpoint", "runs/control/model.bin")


@sound("reload.unrecognised", "control/model")
def an_unknown_file_beside_the_weights(made: Written) -> None:
    save_file(tensors(3), made / "runs/control/model/model.safetensors")
    (made / "runs/control/model/index.faiss").write_bytes(b"\x01\x00IxFI" * 9)
    made.add("control/model", "checkpoint", "runs/control/model")


@faulty("reload.other-format", "control/last", LAST)
def the_wrong_format_is_declared(made: Written) -> None:
    made.deliverable("control/last")["format"] = "safetensors"


@sound("reload.other-format", "control/last")
def the_format_by_its_usual_name(made: Written) -> None:
    made.deliverable("control/last")["format"] = "PyTorch"


@faulty("reload.unknown-format-name", "control/last", "manifest.json")
def a_format_that_nobody_knows(made: Written) -> None:
    made.deliverable("control/last")["format"] = "checkpoint v2"


@sound("reload.unknown-format-name", "variant/weights")
def no_format_is_declared(made: Written) -> None:
    made.deliverable("variant/weights").pop("format", None)


# ---- the bytes ----------------------------------------------------------------------------------------------


@faulty("reload.truncated", "variant/weights", WEIGHTS)
def one_byte_is_lacking(made: Written) -> None:
    (made / WEIGHTS).write_bytes((made / WEIGHTS).read_bytes()[:-1])


@sound("reload.truncated", "variant/weights")
def a_short_file_that_is_whole(made: Written) -> None:
    save_file({"scale": torch.ones(1)}, made / WEIGHTS)


@faulty("reload.trailing-bytes", "variant/weights", WEIGHTS)
def sixteen_bytes_too_many(made: Written) -> None:
    (made / WEIGHTS).write_bytes((made / WEIGHTS).read_bytes() + bytes(16))


@sound("reload.trailing-bytes", "variant/weights")
def a_header_that_is_padded_with_blanks(made: Written) -> None:
    data = (made / WEIGHTS).read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    (made / WEIGHTS).write_bytes(struct.pack("<Q", length + 16) + data[8:8 + length] + b" " * 16 + data[8 + length:])


@faulty("reload.damaged", "variant/weights", WEIGHTS)
def a_header_with_a_flipped_byte(made: Written) -> None:
    data = bytearray((made / WEIGHTS).read_bytes())
    data[data.index(b'"dtype"')] = ord("'")
    (made / WEIGHTS).write_bytes(data)


@sound("reload.damaged", "variant/weights")
def a_header_with_metadata(made: Written) -> None:
    save_file(tensors(1), made / WEIGHTS, metadata={"format": "pt", "note": 'a "quoted" word'})


@faulty("reload.nul-tail", "variant/weights", WEIGHTS)
def the_last_blocks_never_reached_the_disk(made: Written) -> None:
    save_file({"bias": torch.ones(24), "weight": torch.randn(40, 24)}, made / WEIGHTS)
    data = (made / WEIGHTS).read_bytes()
    (made / WEIGHTS).write_bytes(data[:-1000] + bytes(1000))


@sound("reload.nul-tail", "variant/weights")
def rows_that_pad_an_embedding(made: Written) -> None:
    table = torch.randn(40, 24)
    table[30:] = 0
    save_file({"bias": torch.ones(24), "weight": table}, made / WEIGHTS)


def flip(file: Path) -> None:
    """Flip one bit of a tensor in a torch file."""
    with zipfile.ZipFile(file) as archive:
        record = max(archive.infolist(), key=lambda member: "/data/" in member.filename and member.file_size)
    data = bytearray(file.read_bytes())
    name, extra = struct.unpack("<HH", data[record.header_offset + 26:record.header_offset + 30])
    data[record.header_offset + 30 + name + extra] ^= 1
    file.write_bytes(data)


@faulty("reload.checksum", "control/last", LAST)
def a_flipped_bit(made: Written) -> None:
    flip(made / LAST)


def without_checksums(made: Written) -> None:
    before = get_crc32_options()
    set_crc32_options(False)
    try:
        torch.save({"model": tensors()}, made / LAST)
    finally:
        set_crc32_options(before)


@sound("reload.checksum", "control/last")
def checksums_that_were_switched_off(made: Written) -> None:
    without_checksums(made)


@faulty("reload.no-checksum", "control/last", LAST)
def no_checksums(made: Written) -> None:
    without_checksums(made)


@sound("reload.no-checksum", "control/last")
def checksums_as_usual(made: Written) -> None:
    torch.save({"model": tensors()}, made / LAST)


@faulty("reload.out-of-storage", "control/last", LAST)
def a_tensor_larger_than_its_storage(made: Written) -> None:
    class Over:
        def __reduce__(self) -> tuple[object, ...]:
            storage = torch.ones(16)._typed_storage()
            return torch._utils._rebuild_tensor_v2, (storage, 0, (8, 8), (8, 1), False, OrderedDict())

    torch.save({"model": tensors(), "over": Over()}, made / LAST)


@sound("reload.out-of-storage", "control/last")
def an_expanded_tensor(made: Written) -> None:
    torch.save({"model": tensors(), "mask": torch.ones(8, 1).expand(8, 8)}, made / LAST)


@faulty("reload.never-written", "variant/weights", WEIGHTS)
def a_hole_in_the_tensor_data(made: Written) -> None:
    data = sparse(made)
    with open(made / WEIGHTS, "wb") as file:
        file.write(data[:-(1 << 20)])
        file.truncate(len(data))


def sparse(made: Written) -> bytes:
    """A tensor of a mebibyte of zeros; its file's bytes."""
    save_file({"mask": torch.zeros(1 << 18)}, made / WEIGHTS)
    return (made / WEIGHTS).read_bytes()


@sound("reload.never-written", "variant/weights")
def zeros_that_were_written(made: Written) -> None:
    sparse(made)


# ---- the tensors --------------------------------------------------------------------------------------------


@faulty("reload.nan", "variant/weights", WEIGHTS)
def not_a_number(made: Written) -> None:
    save_file(tensors(1) | {"layer.bias": torch.tensor([0.5, float("nan")])}, made / WEIGHTS)


def behind_a_link(made: Written, bias: float) -> None:
    """A folder whose weights lie behind a link to another folder."""
    save_file({"layer.bias": torch.tensor([bias])}, made / "shared/model.safetensors")
    (made / "runs/control/model/config.json").write_text('{"hidden_size": 1}')
    (made / "runs/control/model/weights").symlink_to("../../../shared")
    made.add("control/model", "checkpoint", "runs/control/model")


@faulty("reload.nan", "control/model", "shared/model.safetensors")
def not_a_number_behind_a_link_to_a_folder(made: Written) -> None:
    behind_a_link(made, float("nan"))


@sound("reload.nan", "control/model")
def a_number_behind_a_link_to_a_folder(made: Written) -> None:
    behind_a_link(made, 0.5)


@sound("reload.nan", "variant/weights")
def integers_with_the_bits_of_nan(made: Written) -> None:
    save_file(tensors(1) | {"packed": torch.tensor([float("nan")]).view(torch.int32)}, made / WEIGHTS)


@faulty("reload.infinite", "variant/weights", WEIGHTS)
def an_overflow(made: Written) -> None:
    save_file(tensors(1) | {"norm.weight": torch.tensor([1.0, 70000.0]).half()}, made / WEIGHTS)


@sound("reload.infinite", "variant/weights")
def an_attention_mask(made: Written) -> None:
    save_file(tensors(1) | {"attn_mask": torch.triu(torch.full((4, 4), -float("inf")), 1)}, made / WEIGHTS)


@faulty("reload.no-tensors", "variant/weights", WEIGHTS)
def a_sound_file_without_tensors(made: Written) -> None:
    save_file({}, made / WEIGHTS)


@faulty("reload.no-tensors", "control/rest", "runs/control/weights.pt")
def a_checkpoint_without_tensors_under_another_kind(made: Written) -> None:
    torch.save({"epoch": 3}, made / "runs/control/weights.pt")
    made.add("control/rest", "other", "runs/control/weights.pt")


@sound("reload.no-tensors", "control/rest")
def the_state_of_a_scheduler_by_itself(made: Written) -> None:
    scheduler = torch.optim.lr_scheduler.StepLR(torch.optim.SGD([torch.zeros(1)]), 1)
    torch.save(scheduler.state_dict(), made / "runs/control/scheduler.pt")
    made.add("control/rest", "other", "runs/control/scheduler.pt")


@sound("reload.no-tensors", "variant/weights")
def a_tensor_without_elements(made: Written) -> None:
    save_file(tensors(1) | {"removed": torch.empty(0, 4)}, made / WEIGHTS)


@faulty("reload.tensor-not-read", "control/last", LAST, verdict=OPEN, campaign=OPEN)
def a_sparse_tensor(made: Written) -> None:
    torch.save({"model": tensors(), "adjacency": torch.eye(3).to_sparse()}, made / LAST)


@sound("reload.tensor-not-read", "control/last")
def half_precision_and_integers(made: Written) -> None:
    torch.save({"model": {"a": torch.ones(4).bfloat16(), "b": torch.arange(4), "c": torch.tensor([True])}}, made / LAST)


@faulty("reload.wasted-storage", "control/last", LAST)
def a_small_view_of_a_large_tensor(made: Written) -> None:
    torch.save({"model": tensors(), "first": torch.ones(1 << 20)[:2]}, made / LAST)


@sound("reload.wasted-storage", "control/last")
def views_that_share_the_whole(made: Written) -> None:
    whole = torch.ones(1 << 20)
    torch.save({"model": tensors(), "first": whole[:1 << 19], "second": whole[1 << 19:]}, made / LAST)


# ---- sets of files ------------------------------------------------------------------------------------------


def shards(made: Written, save: Callable[..., None] = save_file, name: str = "model", suffix: str = "safetensors") -> Path:
    """A checkpoint in two files with an index; their folder."""
    where = {}
    for number in (1, 2):
        file = f"{name}-0000{number}-of-00002.{suffix}"
        part = {f"layers.{number}.{key}": value for key, value in tensors(number).items()}
        save(part, made / f"runs/control/model/{file}")
        where |= dict.fromkeys(part, file)
    index = {"metadata": {"total_size": 352}, "weight_map": where}
    (made / f"runs/control/model/{name}.{suffix}.index.json").write_text(json.dumps(index))
    made.add("control/model", "checkpoint", "runs/control/model")
    return made / "runs/control/model"


@faulty("reload.shard-missing", "control/model")
def the_second_shard_stayed_behind(made: Written) -> None:
    (shards(made) / "model-00002-of-00002.safetensors").unlink()


@sound("reload.shard-missing", "control/model")
def all_shards_are_there(made: Written) -> None:
    shards(made)


@faulty("reload.shard-index", "control/model")
def the_index_stayed_behind(made: Written) -> None:
    (shards(made) / "model.safetensors.index.json").unlink()


@sound("reload.shard-index", "control/model")
def an_index_and_a_configuration(made: Written) -> None:
    (shards(made) / "config.json").write_text("{}\n")


# ---- pickles ------------------------------------------------------------------------------------------------


def stranger(module: str, name: str, **members: object) -> object:
    """An instance of a class of a module that only the pickle knows."""
    kind = type(name, (), {"__module__": module, **members})
    sys.modules[module] = types.ModuleType(module)
    setattr(sys.modules[module], name, kind)
    return kind()


@faulty("reload.foreign-class", "control/last", LAST)
def an_object_of_the_project(made: Written) -> None:
    torch.save({"model": tensors(), "config": stranger("acme_settings", "Settings")}, made / LAST)
    del sys.modules["acme_settings"]


@sound("reload.foreign-class", "control/last")
def the_same_as_plain_data(made: Written) -> None:
    torch.save({"model": tensors(), "config": {"module": "acme_settings", "name": "Settings"}}, made / LAST)


@faulty("reload.framework-class", "control/last", LAST)
def arguments_of_the_command_line(made: Written) -> None:
    torch.save({"model": tensors(), "args": argparse.Namespace(lr=0.1)}, made / LAST)


@sound("reload.framework-class", "control/last")
def arguments_as_a_dict(made: Written) -> None:
    torch.save({"model": tensors(), "args": vars(argparse.Namespace(lr=0.1))}, made / LAST)


@faulty("reload.unsafe-global", "control/last", LAST)
def a_pickle_that_runs_a_command(made: Written) -> None:
    class Harmful:
        def __reduce__(self) -> tuple[object, ...]:
            return os.system, (f"touch {made.directory.parent}/harmed",)

    torch.save({"model": tensors(), "config": Harmful()}, made / LAST)


@sound("reload.unsafe-global", "control/last")
def a_text_that_speaks_of_one(made: Written) -> None:
    torch.save({"model": tensors(), "note": "never call os.system or subprocess.run"}, made / LAST)


@faulty("reload.pickle-protocol", "control/last", LAST)
def a_newer_pickle_protocol(made: Written) -> None:
    torch.save({"model": tensors(), "ids": {1, 2, 3}}, made / LAST, pickle_protocol=5)


@sound("reload.pickle-protocol", "control/last")
def the_default_protocol(made: Written) -> None:
    torch.save({"model": tensors(), "ids": [1, 2, 3]}, made / LAST)


def nested(levels: int) -> list[object]:
    found: list[object] = []
    for _ in range(levels):
        found = [found]
    return found


@faulty("reload.over-limit", "control/last", LAST)
def lists_in_lists_without_end(made: Written) -> None:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(20_000)
    try:
        torch.save({"model": tensors(), "deep": nested(1500)}, made / LAST)
    finally:
        sys.setrecursionlimit(before)


@sound("reload.over-limit", "control/last")
def lists_in_lists(made: Written) -> None:
    torch.save({"model": tensors(), "deep": nested(50)}, made / LAST)


# ---- how deep -----------------------------------------------------------------------------------------------


@faulty("reload.depth-not-reached", "control/last", LAST)
def the_manifest_asks_for_a_probe(made: Written) -> None:
    made.deliverable("control/last")["reload"] = {"depth": "probe"}


@faulty("reload.depth-not-reached", "control/last", LAST)
def the_plan_asks_for_the_model(made: Written) -> None:
    made.planned("control/last")["depth"] = "model"


@faulty("reload.depth-not-reached", "control/last", LAST, asked=Asked(max_depth=Depth.HEADER, require_depth=Depth.TENSORS))
def more_is_asked_than_allowed(made: Written) -> None:
    pass


@sound("reload.depth-not-reached", "control/last", asked=Asked(max_depth=Depth.HEADER))
def no_more_is_asked_than_allowed(made: Written) -> None:
    pass


@sound("reload.depth-not-reached", "control/last", asked=Asked(require_depth=Depth.TENSORS))
def as_deep_as_asked(made: Written) -> None:
    made.planned("control/last")["depth"] = "header"


@faulty("reload.torch-version", "control/last", LAST, torch_version="2.9.1+cpu")
def a_torch_with_the_fault(made: Written) -> None:
    pass


@faulty("reload.torch-version", "control/model", "runs/control/model/pytorch_model.bin.index.json", torch_version="2.9.1")
def a_torch_with_the_fault_and_shards_of_pickles(made: Written) -> None:
    shards(made, torch.save, "pytorch_model", "bin")


@sound("reload.torch-version", "control/last", torch_version="2.10.0")
def a_torch_without_the_fault(made: Written) -> None:
    pass


@sound("reload.torch-version", "variant/weights", torch_version="2.9.1")
def a_torch_with_the_fault_and_no_pickle(made: Written) -> None:
    shards(made)
    os.remove(made / LAST)
    made.plan["runs"][0]["deliverables"].pop(0)
    made.run("control")["deliverables"].pop(0)


# ---- how the process ended ----------------------------------------------------------------------------------


def saves_again(directory: Path) -> None:
    """The run goes on: the checkpoint is replaced by the next one."""
    torch.save({"model": tensors(7), "step": 11}, directory / "next.pt")
    os.replace(directory / "next.pt", directory / LAST)


@faulty("reload.changed", "control/last", LAST, meanwhile=saves_again)
def saved_while_it_was_checked(made: Written) -> None:
    pass


@sound("reload.changed", "control/last", meanwhile=lambda directory: saves_again(directory.parent / "elsewhere"))
def another_checkpoint_was_saved(made: Written) -> None:
    (made.directory.parent / "elsewhere/runs/control").mkdir(parents=True)


@faulty("reload.unreadable", "control/last", LAST, world="unprivileged", meanwhile=lambda directory: (directory / LAST).chmod(0))
def permission_was_taken(made: Written) -> None:
    pass


@sound("reload.unreadable", "control/last", world="unprivileged", meanwhile=lambda directory: (directory / LAST).chmod(0o400))
def permission_to_write_was_taken(made: Written) -> None:
    pass


def toy(made: Written, word: str, name: str = "control/toy") -> None:
    """One more deliverable, in a format whose reader does what the file says (see `apart`)."""
    (made / TOY).write_text(f"TOY {word}")
    made.add(name, "checkpoint", TOY)


def with_a_toy(rule: str, word: str) -> None:
    """The toy that ends in one way must be found fault with; the toy that reads to its end must not."""

    def ends(made: Written) -> None:
        toy(made, word)

    def reads_to_the_end(made: Written) -> None:
        toy(made, "fine")

    faulty(rule, "control/toy", TOY, world="toys")(ends)
    sound(rule, "control/toy", world="toys")(reads_to_the_end)


with_a_toy("reload.executable-format", "executable")
with_a_toy("reload.failed", "raise")
with_a_toy("reload.crashed", "crash")
with_a_toy("reload.no-answer", "exit")
with_a_toy("reload.time-limit", "hang")
with_a_toy("reload.memory-limit", "hog")


@faulty("reload.outside-file", "control/toy", TOY, world="toys")
def what_needs_a_file_of_another_machine(made: Written) -> None:
    toy(made, "need")


@faulty("reload.outside-file", "control/toy", TOY, world="toys", level=Level.WARNING)
def what_goes_on_without_such_a_file(made: Written) -> None:
    toy(made, "look")


@sound("reload.outside-file", "control/toy", world="toys")
def what_every_library_looks_at(made: Written) -> None:
    toy(made, "look about")


@faulty("check.raised", "control/raising", world="toys", path=None)
def a_check_that_raises(made: Written) -> None:
    toy(made, "fine", "control/raising")


@sound("check.raised", "control/quiet", world="toys")
def a_check_that_does_not(made: Written) -> None:
    toy(made, "fine", "control/quiet")


@faulty("reload.killed", "control/last", LAST, world="killer")
def killed_from_outside(made: Written) -> None:
    torch.save({"weight": torch.ones(16 << 20)}, made / LAST)


@sound("reload.killed", "control/last")
def left_alone(made: Written) -> None:
    torch.save({"weight": torch.ones(1 << 20)}, made / LAST)


@faulty("reload.no-process", "control/last", LAST, world="without torch")
def a_library_is_broken(made: Written) -> None:
    pass


@sound("reload.no-process", "control/last")
def all_libraries_are_there(made: Written) -> None:
    pass


# ---- models and adapters -----------------------------------------------------------------------------------

MODEL = "runs/control/model"
STATE = f"{MODEL}/model.safetensors"
OWN_CODE = {"model_type": "acme", "auto_map": {"AutoModelForCausalLM": "modeling_acme.Acme"}}
ADAPTER = "runs/variant/adapter"
ADAPTED = f"{ADAPTER}/adapter_model.safetensors"
LORA = f"{ADAPTER}/adapter_config.json"


def a_model(made: Written, **options: object) -> Path:
    made.add("control/model", "checkpoint", MODEL)
    return hugging_face.model(made / MODEL, **options)


def an_adapter(made: Written, **options: object) -> Path:
    made.add("variant/adapter", "adapter", ADAPTER, base=hugging_face.BASE)
    return hugging_face.adapter(made / ADAPTER, **options)


@faulty("reload.configuration", "control/model", f"{MODEL}/generation_config.json")
def settings_that_the_library_ignores(made: Written) -> None:
    (a_model(made) / "generation_config.json").write_text('{"max_length": 20,')


@sound("reload.configuration", "control/model")
def settings_that_are_not_strict(made: Written) -> None:
    (a_model(made) / "generation_config.json").write_text('{"max_length": 20, "max_time": Infinity}')


@faulty("reload.file-missing", "control/model", f"{MODEL}/config.json")
def a_module_that_was_not_copied(made: Written) -> None:
    hugging_face.settings(a_model(made) / "config.json", **OWN_CODE)


@sound("reload.file-missing", "control/model")
def a_module_that_lies_beside(made: Written) -> None:
    hugging_face.settings(a_model(made) / "config.json", **OWN_CODE)
    (made / MODEL / "modeling_acme.py").write_text("raise SystemExit('this must not run')\n")


@faulty("reload.wrapper-prefix", "control/model", STATE)
def saved_from_the_compiled_model(made: Written) -> None:
    hugging_face.change(a_model(made) / "model.safetensors", lambda state: {f"_orig_mod.{name}": state[name] for name in state})


@faulty("reload.wrapper-prefix", "control/own", "runs/control/own.pt", level=Level.WARNING)
def a_home_made_model_that_was_compiled(made: Written) -> None:
    torch.save({"model": {"_orig_mod.net.weight": torch.ones(4)}, "step": 7}, made / "runs/control/own.pt")
    made.add("control/own", "checkpoint", "runs/control/own.pt")


@faulty("reload.wrapper-prefix", "control/own", "runs/control/own.safetensors", level=Level.WARNING)
def a_part_of_fsdp_alone(made: Written) -> None:
    save_file({"_fsdp_wrapped_module.net.weight": torch.ones(4)}, made / "runs/control/own.safetensors")
    made.add("control/own", "checkpoint", "runs/control/own.safetensors")


@sound("reload.wrapper-prefix", "control/own")
def a_part_that_is_called_module(made: Written) -> None:
    torch.save({"module.weight": torch.ones(4), "module.bias": torch.ones(4)}, made / "runs/control/own.pt")
    made.add("control/own", "checkpoint", "runs/control/own.pt")


@faulty("reload.missing-tensors", "control/model", STATE)
def an_output_layer_that_is_not_tied(made: Written) -> None:
    hugging_face.change(a_model(made) / "model.safetensors", lambda state: {n: state[n] for n in state if n != "lm_head.weight"})


@sound("reload.missing-tensors", "control/model")
def an_output_layer_that_is_tied(made: Written) -> None:
    assert "lm_head.weight" not in load_file(a_model(made, tied=True) / "model.safetensors")


@faulty("reload.shape", "control/model", STATE)
def a_parameter_that_was_not_gathered(made: Written) -> None:
    hugging_face.change(a_model(made) / "model.safetensors", lambda state: state | {"model.norm.weight": torch.empty(0)})


@sound("reload.shape", "control/model")
def an_embedding_with_spare_rows(made: Written) -> None:
    hugging_face.tokenizer(a_model(made))
    assert hugging_face.WORDS < hugging_face.ROWS


@faulty("reload.unexpected-tensors", "control/model", STATE)
def the_configuration_of_a_smaller_model(made: Written) -> None:
    hugging_face.settings(a_model(made) / "config.json", num_hidden_layers=1)


@sound("reload.unexpected-tensors", "control/model")
def a_model_of_one_layer(made: Written) -> None:
    a_model(made, layers=1)


@faulty("reload.extra-tensors", "control/model", STATE)
def a_head_of_another_class(made: Written) -> None:
    hugging_face.change(a_model(made) / "model.safetensors", lambda state: state | {"v_head.summary.weight": torch.ones(1, 16)})


@sound("reload.extra-tensors", "control/model")
def in_several_files(made: Written) -> None:
    a_model(made, shards=True)


@faulty("reload.tied-copy", "control/model", STATE)
def a_tie_that_was_broken(made: Written) -> None:
    hugging_face.change(a_model(made, tied=True) / "model.safetensors",
                        lambda state: state | {"lm_head.weight": torch.ones(64, 16)})


@sound("reload.tied-copy", "control/model")
def a_tied_tensor_that_was_stored_twice(made: Written) -> None:
    hugging_face.change(a_model(made, tied=True) / "model.safetensors",
                        lambda state: state | {"lm_head.weight": state["model.embed_tokens.weight"]})


@faulty("reload.tied-name", "control/model", STATE)
def the_unusual_name_of_a_tied_tensor(made: Written) -> None:
    hugging_face.change(a_model(made, tied=True) / "model.safetensors",
                        lambda state: {n.replace("model.embed_tokens", "lm_head"): t for n, t in state.items()})


@sound("reload.tied-name", "control/model")
def the_usual_name_of_a_tied_tensor(made: Written) -> None:
    a_model(made, tied=True)


@faulty("reload.weights-disagree", "control/model", f"{MODEL}/pytorch_model.bin")
def an_older_save_beside(made: Written) -> None:
    state = load_file(a_model(made) / "model.safetensors")
    torch.save({name: tensor + 0.5 for name, tensor in state.items()}, made / MODEL / "pytorch_model.bin")


@sound("reload.weights-disagree", "control/model")
def the_same_weights_in_two_formats(made: Written) -> None:
    torch.save(load_file(a_model(made) / "model.safetensors"), made / MODEL / "pytorch_model.bin")


def packed(made: Written, *, state: bool) -> None:
    method = {"quant_method": "bitsandbytes", "load_in_4bit": True}
    hugging_face.settings(a_model(made) / "config.json", quantization_config=method)

    def pack(tensors_: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        found = {}
        for name, tensor in tensors_.items():
            found[name] = torch.ones(tensor.numel() // 2, 1, dtype=torch.uint8) if "_proj" in name else tensor
            if "_proj" in name and state:
                found |= {f"{name}.absmax": torch.ones(8), f"{name}.quant_map": torch.ones(16),
                          f"{name}.quant_state.bitsandbytes__nf4": torch.ones(9, dtype=torch.uint8)}
        return found

    hugging_face.change(made / STATE, pack)


@faulty("reload.quantisation", "control/model", STATE)
def packed_weights_alone(made: Written) -> None:
    packed(made, state=False)


@sound("reload.quantisation", "control/model")
def packed_weights_with_their_state(made: Written) -> None:
    packed(made, state=True)


@faulty("reload.vocabulary", "control/model", f"{MODEL}/tokenizer.json")
def tokens_were_added_and_nothing_was_resized(made: Written) -> None:
    hugging_face.tokenizer(a_model(made), "<a>", "<b>", "<c>")


@sound("reload.vocabulary", "control/model")
def the_last_row_is_used(made: Written) -> None:
    hugging_face.tokenizer(a_model(made), "<a>", "<b>")


@faulty("reload.no-vocabulary", "control/model", f"{MODEL}/tokenizer.json")
def only_the_settings_of_the_tokenizer(made: Written) -> None:
    (hugging_face.tokenizer(a_model(made)) / "tokenizer.json").unlink()


@sound("reload.no-vocabulary", "control/model")
def a_tokenizer_that_needs_no_file(made: Written) -> None:
    (a_model(made) / "tokenizer_config.json").write_text('{"tokenizer_class": "ByT5Tokenizer", "extra_ids": 0}')


@faulty("reload.untrained", "variant/adapter", ADAPTED)
def four_steps_and_nothing_changed(made: Written) -> None:
    an_adapter(made, trained=False)
    made.run("variant")["steps"] = 4


@sound("reload.untrained", "variant/adapter")
def no_step_was_made(made: Written) -> None:
    an_adapter(made, trained=False)
    made.run("variant")["steps"] = 0


@faulty("reload.perhaps-incomplete", "variant/adapter", ADAPTED, verdict=Verdict.ACCEPTED, campaign=Verdict.ACCEPTED)
def a_module_without_tensors_and_no_base_to_ask(made: Written) -> None:
    folder = an_adapter(made)
    hugging_face.change(folder / "adapter_model.safetensors",
                        lambda tensors: {name: value for name, value in tensors.items() if "v_proj" not in name})


@sound("reload.perhaps-incomplete", "variant/adapter")
def every_module_has_its_tensors(made: Written) -> None:
    an_adapter(made)


@faulty("reload.unknown-setting", "variant/adapter", LORA)
def a_setting_that_is_dropped(made: Written) -> None:
    hugging_face.settings(an_adapter(made) / "adapter_config.json", foobar={"scale": 2})


@sound("reload.unknown-setting", "variant/adapter")
def an_unknown_setting_without_a_value(made: Written) -> None:
    hugging_face.settings(an_adapter(made) / "adapter_config.json", foobar=None)


@faulty("reload.newer-library", "variant/adapter", LORA)
def a_setting_of_a_later_version(made: Written) -> None:
    hugging_face.settings(an_adapter(made) / "adapter_config.json", foobar={"scale": 2}, peft_version="99.0.0")


@sound("reload.newer-library", "variant/adapter")
def a_later_version_that_says_nothing_new(made: Written) -> None:
    hugging_face.settings(an_adapter(made) / "adapter_config.json", peft_version="99.0.0")


@faulty("reload.not-rebuilt", "variant/adapter", LORA)
def an_adapter_without_its_base(made: Written) -> None:
    an_adapter(made)


@sound("reload.not-rebuilt", "control/model")
def a_model_that_is_rebuilt(made: Written) -> None:
    made.add("control/model", "checkpoint", MODEL, reload={"depth": "model"})
    hugging_face.model(made / MODEL)


HEADERS = f"{ADAPTER}/base_headers.json"


def an_archived_base(made: Written, *, at_hand: bool = False, **options: object) -> Path:
    """An adapter with the headers of its base, which is delivered or only asked for by the depth; the path of the headers."""
    base = hugging_face.BASE | ({"path": "base"} if at_hand else {})
    made.add("variant/adapter", "adapter", ADAPTER, base=base, reload={"depth": "model"})
    if at_hand:
        hugging_face.model(made / "base", **options)
    return hugging_face.headers(hugging_face.adapter(made / ADAPTER))


@faulty("reload.archived-base", "variant/adapter", HEADERS)
def the_headers_stand_for_the_base(made: Written) -> None:
    an_archived_base(made)


@sound("reload.archived-base", "variant/adapter")
def the_base_is_at_hand_too(made: Written) -> None:
    an_archived_base(made, at_hand=True)


@faulty("reload.shape", "variant/adapter", ADAPTED)
def another_rank_than_the_configuration_says_on_archived_headers(made: Written) -> None:
    an_archived_base(made)
    hugging_face.settings(made / LORA, rank_pattern={"layers.1.self_attn.q_proj": 8})


@faulty("reload.missing-tensors", "variant/adapter", ADAPTED)
def the_base_has_a_layer_more_say_archived_headers(made: Written) -> None:
    an_archived_base(made)
    hugging_face.headers(made / ADAPTER, layers=3)


@faulty("reload.base-headers", "variant/adapter", HEADERS)
def headers_of_a_base_with_a_layer_less(made: Written) -> None:
    an_archived_base(made, at_hand=True, layers=3)


@faulty("reload.base-headers", "variant/adapter", HEADERS)
def headers_that_are_not_those_of_their_configuration(made: Written) -> None:
    file = an_archived_base(made)
    file.write_text(file.read_text().replace('"hidden_size":16', '"hidden_size":32'))


@faulty("reload.base-headers", "variant/adapter", HEADERS)
def headers_that_were_cut(made: Written) -> None:
    file = an_archived_base(made)
    file.write_bytes(file.read_bytes()[:-40])


@sound("reload.base-headers", "variant/adapter")
def headers_of_the_base_in_another_number_of_files(made: Written) -> None:
    an_archived_base(made, at_hand=True, shards=True)


@faulty("reload.base-settings", "variant/adapter", HEADERS)
def headers_of_a_base_with_another_position_encoding(made: Written) -> None:
    an_archived_base(made, at_hand=True)
    hugging_face.settings(made / "base/config.json", rope_parameters={"rope_theta": 500000.0, "rope_type": "default"})


@faulty("reload.base-settings", "variant/adapter", HEADERS)
def headers_of_a_base_in_another_type(made: Written) -> None:
    an_archived_base(made, at_hand=True)
    hugging_face.change(made / "base/model.safetensors",
                        lambda tensors: {name: tensor.bfloat16() for name, tensor in tensors.items()})


@sound("reload.base-settings", "variant/adapter")
def the_base_was_saved_by_another_version(made: Written) -> None:
    an_archived_base(made, at_hand=True)
    hugging_face.settings(made / "base/config.json", transformers_version="4.51.3", _name_or_path="/workspace/tiny",
                          use_cache=False)


# ---- states of trainings ------------------------------------------------------------------------------------


POINT = "runs/control/state"


def a_state(made: Written, purpose: str, ranks: int = 1) -> Path:
    """A folder of accelerate's save_state, delivered for a purpose."""
    made.add("control/state", "checkpoint", POINT, purpose=purpose)
    return training_states.accelerate(made / POINT, ranks=ranks)


@faulty("reload.ranks", "control/state", POINT)
def the_random_state_of_the_second_process_is_missing(made: Written) -> None:
    made.run("control")["world_size"] = 2
    a_state(made, "resume")


@sound("reload.ranks", "control/state")
def the_random_states_of_both_processes(made: Written) -> None:
    made.run("control")["world_size"] = 2
    a_state(made, "resume", ranks=2)


@faulty("reload.ranks", "control/state", f"{POINT}/global_step9")
def the_other_node_is_missing_and_no_file_says_so(made: Written) -> None:
    made.run("control")["world_size"] = 4
    made.add("control/state", "checkpoint", POINT, purpose="resume")
    training_states.zero(made / POINT, 9, silent=True)


@sound("reload.ranks", "control/state")
def every_node_is_there(made: Written) -> None:
    made.run("control")["world_size"] = 4
    made.add("control/state", "checkpoint", POINT, purpose="resume")
    training_states.zero(made / POINT, 9, ranks=2, parallel=2, silent=True)


@faulty("reload.ranks", "control/state", POINT, level=Level.WARNING, verdict=Verdict.ACCEPTED, campaign=Verdict.ACCEPTED)
def a_random_state_is_missing_beside_a_model(made: Written) -> None:
    made.run("control")["world_size"] = 2
    hugging_face.model(a_state(made, "inference"))


@faulty("reload.ranks", "control/state", POINT)
def a_random_state_is_missing_and_a_model_beside_it_is_no_excuse(made: Written) -> None:
    made.run("control")["world_size"] = 2
    hugging_face.model(a_state(made, "resume"))


@faulty("reload.ranks", "control/state", POINT, level=Level.WARNING, verdict=Verdict.ACCEPTED, campaign=Verdict.ACCEPTED)
def random_states_of_more_processes_than_there_were(made: Written) -> None:
    made.run("control")["world_size"] = 2
    a_state(made, "resume", ranks=3)


@sound("reload.ranks", "control/state")
def one_process_wrote_for_all(made: Written) -> None:
    made.run("control")["world_size"] = 8
    made.add("control/state", "checkpoint", POINT, purpose="resume")
    training_states.distributed(made / POINT)


@faulty("reload.no-model", "control/state", POINT)
def the_state_of_a_training_for_inference(made: Written) -> None:
    a_state(made, "inference")


@sound("reload.no-model", "control/state")
def the_state_of_a_training_to_resume_from(made: Written) -> None:
    a_state(made, "resume")


@sound("reload.no-model", "control/state")
def the_state_of_a_training_with_the_model_beside_it(made: Written) -> None:
    hugging_face.model(a_state(made, "inference"))


@sound("reload.no-model", "control/weights")
def the_weights_out_of_the_state_by_themselves(made: Written) -> None:
    training_states.accelerate(made / POINT)
    made.add("control/weights", "checkpoint", f"{POINT}/model.safetensors", purpose="inference")


@faulty("reload.no-model", "control/state", POINT)
def only_the_optimizer_for_inference(made: Written) -> None:
    _, optimizer = training_states.trained()
    torch.save(optimizer.state_dict(), made / f"{POINT}/opt.pt")
    torch.save(torch.optim.lr_scheduler.StepLR(optimizer, 3).state_dict(), made / f"{POINT}/schedule.pt")
    torch.save({"cpu": torch.get_rng_state()}, made / f"{POINT}/rng_state.pth")
    made.add("control/state", "checkpoint", POINT, purpose="inference")


@sound("reload.no-model", "control/state")
def weights_of_ones_own_beside_the_optimizer(made: Written) -> None:
    model, optimizer = training_states.trained()
    torch.save(optimizer.state_dict(), made / f"{POINT}/opt.pt")
    torch.save(model.state_dict(), made / f"{POINT}/net.pt")
    made.add("control/state", "checkpoint", POINT, purpose="inference")


@faulty("reload.no-model", "control/state", POINT)
def the_shards_of_deepspeed_for_inference(made: Written) -> None:
    training_states.zero(made / POINT)
    made.add("control/state", "checkpoint", POINT, purpose="inference")


@sound("reload.no-model", "control/last")
def a_home_made_checkpoint_for_inference(made: Written) -> None:
    made.deliverable("control/last")["purpose"] = "inference"


@sound("reload.no-model", "control/state")
def a_distributed_checkpoint_of_a_model_for_inference(made: Written) -> None:
    training_states.distributed(made / POINT)
    made.add("control/state", "checkpoint", POINT, purpose="inference")


@faulty("reload.shard-missing", "control/state", f"{POINT}/__1_0.distcp")
def the_file_of_a_rank_is_missing(made: Written) -> None:
    training_states.by_ranks(made / POINT)
    (made / f"{POINT}/__1_0.distcp").unlink()
    made.add("control/state", "checkpoint", POINT, purpose="resume")


@sound("reload.shard-missing", "control/state")
def a_file_of_every_rank(made: Written) -> None:
    training_states.by_ranks(made / POINT)
    made.add("control/state", "checkpoint", POINT, purpose="resume")


@faulty("reload.shard-index", "control/state", f"{POINT}/latest")
def latest_names_a_step_that_is_not_there(made: Written) -> None:
    training_states.zero(made / POINT, 800)
    (made / f"{POINT}/latest").write_text("global_step1000")
    made.add("control/state", "checkpoint", POINT, purpose="resume")


@sound("reload.shard-index", "control/state")
def latest_names_one_of_two_steps(made: Written) -> None:
    training_states.zero(made / POINT, 400)
    training_states.zero(made / POINT, 800)
    made.add("control/state", "checkpoint", POINT, purpose="resume")


@faulty("reload.shard-index", "control/state", f"{POINT}/latest", level=Level.WARNING, verdict=Verdict.ACCEPTED,
        campaign=Verdict.ACCEPTED)
def the_shards_were_left_out_beside_a_model(made: Written) -> None:
    hugging_face.model(made / POINT)
    (made / f"{POINT}/latest").write_text("global_step800")
    made.add("control/state", "checkpoint", POINT, purpose="inference")


@faulty("reload.no-weights", "control/state", f"{POINT}/last.ckpt")
def a_lightning_checkpoint_without_its_model(made: Written) -> None:
    torch.save({"epoch": 0, "global_step": 2, "pytorch-lightning_version": "2.6.6", "loops": {}}, made / f"{POINT}/last.ckpt")
    made.add("control/state", "checkpoint", f"{POINT}/last.ckpt")


@sound("reload.no-weights", "control/state")
def a_lightning_checkpoint(made: Written) -> None:
    torch.save({"epoch": 0, "global_step": 2, "pytorch-lightning_version": "2.6.6", "state_dict": tensors()},
               made / f"{POINT}/last.ckpt")
    made.add("control/state", "checkpoint", f"{POINT}/last.ckpt", format="lightning")


# ---- formats of other libraries -----------------------------------------------------------------------------


KERAS = "runs/control/model.keras"
TENSORFLOW = "runs/control/tensorflow"
ORBAX = "runs/control/steps/500"


@faulty("reload.python-code", "control/keras", KERAS)
def a_function_that_is_stored_as_code(made: Written) -> None:
    other_frameworks.keras(made / KERAS, other_frameworks.layer("Lambda", function=other_frameworks.CODE))
    made.add("control/keras", "checkpoint", KERAS)


@sound("reload.python-code", "control/keras")
def a_function_of_the_library(made: Written) -> None:
    relu = {"class_name": "function", "config": "relu", "module": "keras.activations"}
    other_frameworks.keras(made / KERAS, other_frameworks.layer("Lambda", function=relu))
    made.add("control/keras", "checkpoint", KERAS)


@faulty("reload.shard-missing", "control/tensorflow", f"{TENSORFLOW}/model.ckpt-500.data-00001-of-00002")
def a_data_file_of_tensorflow_is_absent(made: Written) -> None:
    other_frameworks.tensorflow(made / TENSORFLOW, shards=2)
    (made / TENSORFLOW / "model.ckpt-500.data-00001-of-00002").unlink()
    made.add("control/tensorflow", "checkpoint", TENSORFLOW)


@sound("reload.shard-missing", "control/tensorflow")
def all_data_files_of_tensorflow(made: Written) -> None:
    other_frameworks.tensorflow(made / TENSORFLOW, shards=2, named="/location1/")
    made.add("control/tensorflow", "checkpoint", TENSORFLOW)


@faulty("reload.unfinished", "control/orbax", f"{ORBAX}.orbax-checkpoint-tmp-17")
def a_save_under_way(made: Written) -> None:
    other_frameworks.orbax(made / f"{ORBAX}.orbax-checkpoint-tmp-17", step=True)
    made.add("control/orbax", "checkpoint", "runs/control/steps")


@faulty("reload.unfinished", "control/orbax", f"{ORBAX}.orbax-checkpoint-tmp-17", level=Level.WARNING)
def a_save_under_way_beside_one_that_is_finished(made: Written) -> None:
    other_frameworks.orbax(made / "runs/control/steps/400", step=True)
    a_save_under_way(made)


@sound("reload.unfinished", "control/orbax")
def a_save_that_is_finished(made: Written) -> None:
    other_frameworks.orbax(made / ORBAX, step=True)
    made.add("control/orbax", "checkpoint", "runs/control/steps")


PIPELINE = "runs/control/pipeline"


@faulty("reload.file-missing", "control/pipeline", f"{PIPELINE}/model_index.json")
def a_pipeline_without_its_index(made: Written) -> None:
    other_frameworks.diffusers(made / PIPELINE, index=False)
    made.add("control/pipeline", "checkpoint", PIPELINE)


@sound("reload.file-missing", "control/pipeline")
def a_whole_pipeline(made: Written) -> None:
    other_frameworks.diffusers(made / PIPELINE)
    made.add("control/pipeline", "checkpoint", PIPELINE)


@sound("reload.file-missing", "control/pipeline")
def one_part_of_a_pipeline(made: Written) -> None:
    other_frameworks.diffusers(made / PIPELINE, ("unet",), index=False)
    made.add("control/pipeline", "checkpoint", f"{PIPELINE}/unet")


ESTIMATOR = "runs/control/cleaner.joblib"


@faulty("reload.executable-format", "control/cleaner", ESTIMATOR)
def a_pickle_of_plain_data(made: Written) -> None:
    joblib.dump({"words": ["um", "eh"]}, made / ESTIMATOR)
    made.add("control/cleaner", "checkpoint", ESTIMATOR)


@sound("reload.executable-format", "control/cleaner")
def the_same_as_arrays(made: Written) -> None:
    numpy.savez(made / "runs/control/cleaner.npz", words=numpy.array(["um", "eh"]))
    made.add("control/cleaner", "checkpoint", "runs/control/cleaner.npz")


@faulty("reload.foreign-class", "control/cleaner", ESTIMATOR)
def a_pickle_of_an_object_of_the_project(made: Written) -> None:
    joblib.dump(stranger("acme_cleaning", "Clean"), made / ESTIMATOR)
    del sys.modules["acme_cleaning"]
    made.add("control/cleaner", "checkpoint", ESTIMATOR)


@sound("reload.foreign-class", "control/cleaner", verdict=OPEN, campaign=OPEN)
def a_pickle_of_an_estimator(made: Written) -> None:
    from sklearn.linear_model import LinearRegression

    joblib.dump(LinearRegression(), made / ESTIMATOR)
    made.add("control/cleaner", "checkpoint", ESTIMATOR)


@faulty("reload.nan", "control/arrays", "runs/control/arrays.npz")
def arrays_with_nan(made: Written) -> None:
    numpy.savez(made / "runs/control/arrays.npz", a=numpy.array([1, numpy.nan]))
    made.add("control/arrays", "checkpoint", "runs/control/arrays.npz")


@sound("reload.nan", "control/arrays")
def data_with_nan(made: Written) -> None:
    numpy.savez(made / "runs/control/arrays.npz", a=numpy.array([1, numpy.nan]))
    made.add("control/arrays", "other", "runs/control/arrays.npz")
