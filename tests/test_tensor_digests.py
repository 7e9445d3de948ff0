"""Digests of tensors: the same in memory and in every format, and compared with what lies in the files."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import hugging_face
import lightning
import numpy
import pytest
import torch
from disk_source import DiskSource, folder
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file, save_model
from test_hf_model import zoo

from pytest_campaign.formats import formats, hf_model, peft_adapter, sharded, tensor_bytes, tensor_comparison, torch_distributed
from pytest_campaign.formats.base import (
    ABSENT,
    EQUAL,
    OTHER,
    UNREAD,
    Comparison,
    Depth,
    Placed,
    Reading,
    Strided,
    Unit,
    from_json,
    to_json,
)
from pytest_campaign.proof import digests

NAMES = {
    torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.complex64: "C64",
    torch.int64: "I64", torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint64: "U64", torch.uint32: "U32",
    torch.uint16: "U16", torch.uint8: "U8", torch.bool: "BOOL", torch.float8_e4m3fn: "F8_E4M3", torch.float8_e5m2: "F8_E5M2",
    torch.float8_e4m3fnuz: "F8_E4M3FNUZ", torch.float8_e5m2fnuz: "F8_E5M2FNUZ", torch.float8_e8m0fnu: "F8_E8M0",
}


def by_hand(dtype: str, shape: list[int], data: bytes) -> str:
    """The digest as the documentation defines it."""
    return hashlib.sha256(f"{dtype}|{','.join(map(str, shape))}|".encode() + data).hexdigest()


def raw(tensor: torch.Tensor) -> bytes:
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b""


def compared(path: Path, form: str, declared: dict[str, str], **options: Any) -> Comparison:
    """The proof of one file, by the reader of a format."""
    source = DiskSource(path.parent, declared=declared, **options)
    return tensor_comparison.compare(declared, formats()[form].read(Unit(form, path.name, (path.name,)), source), source)


def saved(tensors: Any, path: Path, form: str) -> Path:
    if form == "safetensors":
        save_file({name: tensor.contiguous().clone() for name, tensor in tensors.items()}, path)
    else:
        torch.save(tensors, path, _use_new_zipfile_serialization=form == "torch zip")
    return path


FORMS = ["safetensors", "torch zip", "torch legacy"]
MODEL = {"layer.weight": torch.arange(12.0).reshape(3, 4), "layer.bias": torch.ones(3), "norm.weight": torch.ones(4)}


# ---- in memory ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", NAMES)
@pytest.mark.parametrize("shape", [(), (0, 3), (5,), (2, 3, 4)])
def test_the_definition(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    generator = torch.Generator().manual_seed(1)
    count = torch.Size(shape).numel() * dtype.itemsize
    tensor = torch.randint(0, 2 if dtype is torch.bool else 256, (count,), dtype=torch.uint8, generator=generator)
    tensor = tensor.view(dtype).reshape(shape)
    assert digests({"t": tensor}) == {"t": by_hand(NAMES[dtype], list(shape), raw(tensor))}


def test_four_bits_are_named_as_safetensors_names_them(tmp_path: Path) -> None:
    tensors = {"t": torch.arange(24, dtype=torch.uint8).reshape(4, 6).view(torch.float4_e2m1fn_x2)}
    declared = {"t": by_hand("F4", [4, 12], bytes(range(24)))}
    assert digests(tensors) == declared
    for form in FORMS:
        assert compared(saved(tensors, tmp_path / form.replace(" ", ""), form), form, declared).states == EQUAL


@pytest.mark.parametrize("block", [1 << 25, 64, 8])
def test_strides_make_no_difference(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["pytest_campaign.proof.digests"], "_BLOCK", block)
    tensor = torch.arange(120.0).reshape(4, 5, 6)
    complex_ = torch.randn(7, 3, dtype=torch.complex64)
    views = [tensor.transpose(0, 2), tensor[:, ::2], tensor[1], tensor.permute(1, 2, 0),
             torch.arange(3.0)[:, None].expand(3, 5), complex_.conj(), complex_.conj().imag, torch.arange(9.0)[::3],
             torch.randn(2, 8, 3, 3).to(memory_format=torch.channels_last), torch.nn.Parameter(tensor)]
    for view in views:
        copy = view.detach().resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format)
        assert digests({"t": view}) == digests({"t": copy}), (view.shape, view.stride())


def test_a_module_has_the_names_of_its_state_dict() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3))
    model.register_buffer("scratch", torch.ones(2), persistent=False)
    assert list(digests(model)) == list(model.state_dict())
    assert digests(model) == digests(model.state_dict())
    assert list(digests(torch.nn.DataParallel(model))) == [f"module.{name}" for name in model.state_dict()]


def test_importing_it_imports_nothing_heavy() -> None:
    code = "import sys, pytest_campaign.proof; print({'torch', 'numpy', 'pytest', '_pytest', 'safetensors'} & sys.modules.keys())"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"


def distributed() -> Any:
    class Wrapper(torch.Tensor):
        @staticmethod
        def __new__(cls: Any) -> Any:
            return torch.Tensor._make_wrapper_subclass(cls, (2, 2))

        def __tensor_flatten__(self) -> Any:
            return [], None

        @staticmethod
        def __tensor_unflatten__(*arguments: Any) -> Any:
            raise NotImplementedError

        @classmethod
        def __torch_dispatch__(cls, *arguments: Any) -> Any:
            raise NotImplementedError

    return Wrapper()


@pytest.mark.parametrize(("make", "says"), [
    (lambda: torch.zeros(2, device="meta"), "meta device"),
    (lambda: torch.eye(3).to_sparse(), "sparse_coo"),
    (lambda: torch.eye(3).to_sparse_csr(), "sparse_csr"),
    (lambda: torch.nested.nested_tensor([torch.ones(1), torch.ones(2)]), "nested"),
    (lambda: torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8), "quantised"),
    (lambda: torch.nn.LazyLinear(2).weight, "no values yet"),
    (distributed, "gather"),
], ids=["meta", "sparse", "csr", "nested", "quantised", "lazy", "wrapper"])
def test_tensors_without_values_of_their_own(make: Any, says: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tensor = make()
    with pytest.raises(ValueError, match=r"^the\.name: ") as caught:
        digests({"the.name": tensor})
    assert says in str(caught.value)


@pytest.mark.parametrize("wrong", [{"model": MODEL}, {"step": 3, **MODEL}, [1], "model"])
def test_what_is_no_state_dict(wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"no tensor; give the state dict|neither a module nor a state dict"):
        digests(wrong)
    with pytest.raises(ValueError, match="no tensor in it"):
        digests({})


# ---- in files ------------------------------------------------------------------------------------------------

BITS = st.sampled_from(list(NAMES))
SHAPES = st.lists(st.integers(0, 4), max_size=4)


@st.composite
def state_dicts(draw: st.DrawFn) -> dict[str, torch.Tensor]:
    found = {}
    for name in draw(st.lists(st.text("ab.", min_size=1, max_size=5), min_size=1, max_size=4, unique=True)):
        dtype, shape = draw(BITS), draw(SHAPES)
        size = torch.Size(shape).numel() * dtype.itemsize
        data = draw(st.binary(min_size=size, max_size=size))
        flat = torch.tensor(list(data), dtype=torch.uint8)
        flat = flat % 2 if dtype is torch.bool else flat
        tensor = flat.view(dtype).reshape(shape)
        found[name] = tensor.permute(draw(st.permutations(range(len(shape)))))
    return found


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tensors=state_dicts(), threads=st.sampled_from([1, 2]), digest=st.booleans())
def test_memory_and_files_agree(tmp_path: Path, tensors: dict[str, torch.Tensor], threads: int, digest: bool) -> None:
    declared = digests(tensors)
    for form in FORMS:
        path = saved(tensors, tmp_path / form.replace(" ", ""), form)
        assert compared(path, form, declared, threads=threads, digest=digest).states == EQUAL * len(declared)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("threads", [1, 2])
def test_a_flipped_bit_is_found(tmp_path: Path, form: str, threads: int) -> None:
    path = saved(MODEL, tmp_path / "model", form)
    data = bytearray(path.read_bytes())
    data[data.index(raw(MODEL["layer.weight"])) + 17] ^= 1
    path.write_bytes(data)
    proof = compared(path, form, digests(MODEL), threads=threads)
    assert proof.states == OTHER + EQUAL * 2
    ((number, place, what),) = proof.seen
    assert (number, place) == (0, "model")
    assert what.startswith("F32 [3, 4] with the digest ")


def test_another_type_or_shape_is_another_tensor(tmp_path: Path) -> None:
    declared = digests({"a": torch.ones(2, 3), "b": torch.ones(4)})
    save_file({"a": torch.ones(3, 2), "b": torch.ones(4).half()}, tmp_path / "f")
    assert compared(tmp_path / "f", "safetensors", declared).states == OTHER * 2


@pytest.mark.parametrize("form", FORMS)
def test_an_absent_and_an_undeclared_tensor(tmp_path: Path, form: str) -> None:
    left = {name: tensor for name, tensor in MODEL.items() if name != "layer.bias"} | {"extra": torch.arange(3.0)}
    proof = compared(saved(left, tmp_path / "f", form), form, digests(MODEL))
    assert (proof.states, proof.seen) == (EQUAL + ABSENT + EQUAL, ((1, "", "not there"),))
    assert (proof.others, proof.names) == (1, ("extra",))


def test_a_renamed_tensor_is_absent_and_found_by_its_values(tmp_path: Path) -> None:
    renamed = {("layer.wieght" if name == "layer.weight" else name): tensor for name, tensor in MODEL.items()}
    proof = compared(saved(renamed, tmp_path / "f", "safetensors"), "safetensors", digests(MODEL))
    assert (proof.states, proof.seen) == (ABSENT + EQUAL * 2, ((0, "f", "its values are those of layer.wieght"),))


@pytest.mark.parametrize(("declared", "stored"), [
    (lambda name: name, lambda name: f"module.{name}"), (lambda name: f"module.{name}", lambda name: name),
    (lambda name: f"_orig_mod.{name}", lambda name: name), (lambda name: name, lambda name: f"_orig_mod.{name}"),
    (lambda name: f"module._orig_mod.{name}", lambda name: name),
    (lambda name: name.replace("layer.", "layer._checkpoint_wrapped_module."), lambda name: name),
    (lambda name: name.replace("layer.", "_fsdp_wrapped_module.layer._fsdp_wrapped_module."), lambda name: f"model.{name}"),
])
def test_a_prefix_of_all_names_makes_no_difference(tmp_path: Path, declared: Any, stored: Any) -> None:
    save_file({stored(name): tensor.clone() for name, tensor in MODEL.items()}, tmp_path / "f")
    wanted = digests({declared(name): tensor for name, tensor in MODEL.items()})
    assert compared(tmp_path / "f", "safetensors", wanted).states == EQUAL * 3


def test_the_model_in_an_object_with_other_things(tmp_path: Path) -> None:
    """An average of the weights beside them has the same names; the one with the recorded values counts."""
    averaged = {name: tensor * 0.5 for name, tensor in MODEL.items()}
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(2)).sum().backward()
    optimizer.step()
    for order in (("ema", "model"), ("model", "ema")):
        parts = {"ema": averaged, "model": MODEL}
        torch.save({**{name: parts[name] for name in order}, "optimizer": optimizer.state_dict(), "step": 3}, tmp_path / "f")
        proof = compared(tmp_path / "f", "torch zip", digests(MODEL))
        assert (proof.states, proof.others) == (EQUAL * 3, 9)
    torch.save({"ema": averaged, "optimizer": optimizer.state_dict()}, tmp_path / "f")
    assert compared(tmp_path / "f", "torch zip", digests(MODEL)).states == OTHER * 3


def test_only_what_may_be_declared_is_hashed_in_the_pass() -> None:
    names = ["model.a.weight", "ema.a.weight", "optimizer.state.0.exp_avg", "other.bias"]
    assert set(tensor_comparison.hashed(["a.weight", "a.bias"], names)) == {"model.a.weight", "ema.a.weight"}
    assert set(tensor_comparison.hashed(["module.a.weight"], ["a.weight", "b.weight"])) == {"a.weight"}
    assert not tensor_comparison.hashed(["x"], names)


@pytest.mark.parametrize("form", FORMS)
def test_digests_are_taken_in_the_pass_that_reads_the_values(tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved({"model": MODEL} if form != "safetensors" else MODEL, tmp_path / "f", form)
    monkeypatch.setattr(tensor_bytes, "pieces", lambda *arguments: pytest.fail("it is read a second time"))
    assert compared(path, form, digests(MODEL)).states == EQUAL * 3
    assert compared(path, form, digests(MODEL) | {"layer.bias": "0" * 64}).states == EQUAL + OTHER + EQUAL


def test_many_names_are_compared_in_a_moment() -> None:
    names = [f"model.layers.{number // 90}.experts.{number % 90}.gate_proj.weight" for number in range(20_000)]
    declared = {name: f"{number:064x}" for number, name in enumerate(names)}
    placed = {name: Placed("F32", (1,), "f", 0, 4, sha256=digest) for name, digest in declared.items()}
    for prefix in ("", "module."):
        reading = Reading("safetensors", Depth.TENSORS, layout={prefix + name: one for name, one in placed.items()})
        started = time.process_time()
        proof = tensor_comparison.compare(declared, reading, DiskSource(Path()))
        assert proof.states == EQUAL * len(declared)
        assert time.process_time() - started < 5


class Tied(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = torch.nn.Embedding(5, 3), torch.nn.Linear(3, 5, bias=False)
        self.head.weight = self.embed.weight
        self.norm, self.last = torch.nn.LayerNorm(3), torch.nn.LayerNorm(3)


def test_tied_tensors_are_stored_once(tmp_path: Path) -> None:
    model = Tied()
    declared = digests(model)
    assert declared["embed.weight"] == declared["head.weight"]
    save_model(model, str(tmp_path / "f"))
    assert len(load_file(tmp_path / "f")) == len(declared) - 1
    assert compared(tmp_path / "f", "safetensors", declared).states == EQUAL * len(declared)
    for form in FORMS[1:]:
        assert compared(saved(model.state_dict(), tmp_path / "g", form), form, declared).states == EQUAL * len(declared)


def test_ones_that_equal_other_ones_are_not_tied(tmp_path: Path) -> None:
    state = Tied().state_dict()
    del state["last.weight"]
    proof = compared(saved(state, tmp_path / "f", "torch zip"), "torch zip", digests(Tied().state_dict() | state))
    absent = list(Tied().state_dict()).index("last.weight")
    assert [at for at, state in enumerate(proof.states) if state == ABSENT] == [absent]


def test_views_and_shared_storages(tmp_path: Path) -> None:
    flat = torch.arange(64.0)
    state = {"a": flat[:16].view(4, 4), "b": flat[16:48].view(4, 8).t(), "c": flat[48:], "d": flat.view(8, 8)[:, ::2],
             "e": flat[5], "f": flat[3:4].expand(3, 2)}
    for form in FORMS[1:]:
        assert compared(saved(state, tmp_path / "f", form), form, digests(state)).states == EQUAL * len(state)
    with (tmp_path / "f").open("r+b") as file:
        at = (tmp_path / "f").read_bytes().index(raw(flat))
        file.seek(at + 4 * 50)
        file.write(raw(torch.tensor([-1.0])))
    assert compared(tmp_path / "f", "torch legacy", digests(state)).states == EQUAL * 2 + OTHER * 2 + EQUAL * 2


@pytest.mark.parametrize("block", [1 << 25, 600, 64, 16])
def test_a_tensor_with_gaps_is_read_in_blocks(tmp_path: Path, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensor_bytes, "_BLOCK", block)
    data = torch.arange(720, dtype=torch.int16).reshape(2, 3, 4, 5, 6)
    (tmp_path / "f").write_bytes(raw(data))
    views = [data.permute(order) for order in itertools.permutations(range(5))]
    views += [data[:, :, ::2], data[..., ::3], data[1, :, 1:3].transpose(0, 2), data[0, 0, 0, 0, :1].expand(7, 30), data[:, 1:2]]
    for view in views:
        strided = Strided(view.storage_offset() * 2, 2, tuple(view.shape), view.stride())
        placed = Placed("I16", tuple(view.shape), "f", None, view.numel() * 2, strided=strided)
        read = list(tensor_bytes.pieces(placed, DiskSource(tmp_path)))
        assert b"".join(read) == raw(view), (view.shape, view.stride())
        assert max(map(len, read)) <= max(block, 2)


def test_arrays_of_numpy(tmp_path: Path) -> None:
    arrays = {"w": numpy.arange(12, dtype="<f4").reshape(3, 4), "f": numpy.asfortranarray(numpy.arange(6.0).reshape(2, 3)),
              "flags": numpy.array([True, False]), "step": numpy.array(7)}
    declared = digests({name: torch.from_numpy(array) for name, array in arrays.items()})
    numpy.savez(tmp_path / "a.npz", **arrays)
    assert compared(tmp_path / "a.npz", "NumPy", declared).states == EQUAL * 4
    numpy.savez_compressed(tmp_path / "a.npz", **arrays)
    assert compared(tmp_path / "a.npz", "NumPy", declared).states == EQUAL + UNREAD + EQUAL * 2
    arrays["w"][0, 0] = 9
    numpy.savez(tmp_path / "a.npz", **arrays)
    assert compared(tmp_path / "a.npz", "NumPy", declared).states == OTHER + EQUAL * 3
    numpy.save(tmp_path / "a.npy", arrays["step"])
    assert compared(tmp_path / "a.npy", "NumPy", {"step": declared["step"]}).states == EQUAL
    numpy.save(tmp_path / "a.npy", numpy.array(7, dtype=">i8"))
    assert compared(tmp_path / "a.npy", "NumPy", {"step": declared["step"]}).states == UNREAD


# ---- models and adapters -------------------------------------------------------------------------------------


def of_folder(root: Path, form: Any, declared: dict[str, str], depth: Depth, **options: Any) -> tuple[Comparison, Depth | None]:
    (unit,) = form.gather(folder(root))
    source = DiskSource(root, depth, declared=declared, **options)
    reading = form.read(unit, source)
    return tensor_comparison.compare(declared, reading, source), reading.depth


@pytest.mark.parametrize("name", ["bert", "bert with labels", "gpt2", "mixtral", "t5", "vit", "albert"])
def test_models_have_the_names_that_are_saved(tmp_path: Path, name: str) -> None:
    model = zoo()[name]()
    declared = digests(model)
    model.save_pretrained(tmp_path)
    assert declared.keys() == load_file(tmp_path / "model.safetensors").keys()
    for depth in (Depth.TENSORS, Depth.MODEL):
        assert of_folder(tmp_path, hf_model, declared, depth) == (Comparison(EQUAL * len(declared)), depth)
    assert digests(type(model).from_pretrained(tmp_path)) == declared


@pytest.mark.parametrize("options", [{}, {"tied": True}], ids=str)
@pytest.mark.parametrize("shards", [False, True])
@pytest.mark.parametrize("of", ["module", "state dict"])
def test_language_models(tmp_path: Path, options: dict[str, Any], shards: bool, of: str) -> None:
    model = hugging_face.llama(**options)
    declared = digests(model if of == "module" else model.state_dict())
    hugging_face.model(tmp_path, shards=shards, **options)
    for depth in (Depth.TENSORS, Depth.MODEL):
        assert of_folder(tmp_path, hf_model, declared, depth, threads=2)[0].states == EQUAL * len(declared)
    (file, *_) = sorted(tmp_path.glob("*.safetensors"))
    lost = sorted(load_file(file))[0]
    hugging_face.change(file, lambda tensors: tensors | {lost: tensors[lost] * 1.5})
    proof, _ = of_folder(tmp_path, hf_model, declared, Depth.TENSORS)
    assert {name for name, state in zip(declared, proof.states, strict=True) if state == OTHER} == {lost}


def test_shards_by_themselves(tmp_path: Path) -> None:
    hugging_face.model(tmp_path, shards=True)
    for other in tmp_path.glob("*config.json"):
        other.unlink()
    declared = digests(hugging_face.llama())
    assert of_folder(tmp_path, sharded, declared, Depth.TENSORS, threads=2)[0].states == EQUAL * len(declared)


@pytest.mark.parametrize("options", [{}, {"modules_to_save": ["lm_head"]}, {"use_dora": True}, {"name": "other"}], ids=str)
def test_adapters(tmp_path: Path, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    import peft

    kept: dict[str, dict[str, str]] = {}
    save = peft.PeftModel.save_pretrained
    monkeypatch.setattr(peft.PeftModel, "save_pretrained", lambda model, at: (kept.update(found=digests(model)), save(model, at)))
    base = hugging_face.llama(seed=5)
    hugging_face.adapter(tmp_path, base=base, **options)
    place = tmp_path / options.get("name", "")
    declared = kept["found"]
    assert declared.keys() == load_file(place / "adapter_model.safetensors").keys()
    (unit,) = peft_adapter.gather(folder(place))
    source = DiskSource(place, declared=declared)
    assert tensor_comparison.compare(declared, peft_adapter.read(unit, source), source) == Comparison(EQUAL * len(declared))


# ---- on the way to the parent --------------------------------------------------------------------------------

COMPARISON = Comparison(EQUAL + OTHER + ABSENT + UNREAD, [(1, "model.safetensors", "F32 [2]"), (2, "", "not there")], 2,
                        ["a", "b"])


def test_a_comparison_arrives() -> None:
    for comparison in (COMPARISON, None):
        reading = Reading("safetensors", Depth.TENSORS, comparison=comparison)
        assert from_json(json.loads(json.dumps(to_json(reading)))).comparison == comparison


@pytest.mark.parametrize("spoilt", [
    {"states": "=!"}, {"states": 3}, {"seen": [[-1, "", ""]]}, {"seen": [[0, "", 1]]}, {"seen": [[0, ""]]}, {"seen": 3},
    {"others": -1}, {"names": [1]}, {"names": None},
], ids=str)
def test_what_is_no_comparison(spoilt: dict[str, object]) -> None:
    data = to_json(Reading("safetensors", Depth.TENSORS, comparison=COMPARISON))
    data["comparison"] |= spoilt
    with pytest.raises(ValueError, match=r"not a reading|unpack"):
        from_json(data)


# ---- distributed trainings -----------------------------------------------------------------------------------

PROCESSES = '''
import json, sys, warnings
warnings.simplefilter("ignore")
import torch
import torch.distributed as dist, torch.distributed.checkpoint as checkpoint
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Shard, distribute_tensor
from pytest_campaign import proof

def work(rank, size, folder, store):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=size, init_method=f"file://{store}")
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.LayerNorm(5))
    plain = proof.digests(model)
    mesh = init_device_mesh("cpu", (size,))
    fully_shard(model, mesh=mesh)
    try:
        proof.digests(model)
    except ValueError as error:
        assert "gather the whole state dict first" in str(error)
    else:
        raise AssertionError("a part was taken for the whole")
    columns = torch.arange(8.0).reshape(2, 4)
    whole = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
    checkpoint.save({"model": model.state_dict() | {"columns": distribute_tensor(columns, mesh, [Shard(1)])}},
                    checkpoint_id=folder)
    if rank == 0:
        assert proof.digests(whole) == plain
        with open(folder + ".json", "w") as file:
            json.dump(plain | proof.digests({"columns": columns}), file)
    dist.barrier()
    dist.destroy_process_group()

if __name__ == "__main__":
    torch.multiprocessing.spawn(work, (2, sys.argv[1], sys.argv[2]), nprocs=2)
'''


def test_shards_of_two_processes_are_compared_with_the_whole(tmp_path: Path) -> None:
    script = tmp_path / "save.py"
    script.write_text(PROCESSES)
    done = subprocess.run([sys.executable, script, tmp_path / "state", tmp_path / "store"], capture_output=True, text=True,
                          check=False, env=os.environ | {"OMP_NUM_THREADS": "1"}, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    declared = json.loads((tmp_path / "state.json").read_text())
    assert of_folder(tmp_path / "state", torch_distributed, declared, Depth.TENSORS)[0].states == EQUAL * 4 + UNREAD
    other = {name: digest.translate(str.maketrans("01", "10")) for name, digest in declared.items()}
    proof, _ = of_folder(tmp_path / "state", torch_distributed, other, Depth.TENSORS)
    assert proof.states == OTHER * 4 + UNREAD
    assert proof.seen[0][1] == "__0_0.distcp"


def test_a_checkpoint_of_lightning(tmp_path: Path) -> None:
    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = Tied()

    module = Module()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer = lightning.Trainer(accelerator="cpu", logger=False, enable_progress_bar=False, barebones=True)
        trainer.strategy.connect(module)
        trainer.save_checkpoint(tmp_path / "last.ckpt", weights_only=True)
    for declared in (digests(module), digests(module.model)):
        assert compared(tmp_path / "last.ckpt", "Lightning", declared).states == EQUAL * len(declared)
