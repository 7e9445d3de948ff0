"""One small deliverable of every format: written whole, or with the tensors changed before the save.

Each is written by the library itself where it is among those that tests install, else by hand in the layout of its source.
"""

from __future__ import annotations

import dataclasses
import pickle
import shutil
import warnings
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import h5py
import hugging_face
import joblib
import numpy as np
import other_frameworks
import torch
import training_states
from safetensors.torch import load_file, save_file

State = dict[str, torch.Tensor]
Change = Callable[[State], State]


@dataclasses.dataclass(frozen=True)
class Sample:
    """How a deliverable of one format is made; ``name`` is what its file or folder is called.

    ``write(target, change)`` writes it at ``target``, a file or a folder, with ``change`` applied to the state of which
    ``victim`` is a tensor. ``shard`` is a file of the set that can be lost, None where the deliverable is one file. ``entry`` are
    further fields of its entry in the manifest. ``layout`` tells several samples of one format apart.
    """

    format: str
    name: str
    write: Callable[[Path, Change], object]
    victim: str
    shard: str | None = None
    entry: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    layout: str = ""

    @property
    def label(self) -> str:
        return self.format + (f", {self.layout}" if self.layout else "")


def state(seed: int = 0) -> State:
    """Three tensors of which the last one in the file is a matrix of 64 by 48."""
    generator = torch.Generator().manual_seed(seed)
    return {"encoder.bias": torch.randn(48, generator=generator), "encoder.weight": torch.randn(48, 16, generator=generator),
            "head.weight": torch.randn(64, 48, generator=generator)}


VICTIM = "head.weight"


def arrays(values: State) -> dict[str, np.ndarray[Any, Any]]:
    return {name: value.numpy() for name, value in values.items()}


# ---- one file -----------------------------------------------------------------------------------------------


def safetensors(target: Path, change: Change) -> None:
    save_file(change(state()), target)


def torch_zip(target: Path, change: Change) -> None:
    torch.save({"model": change(state()), "step": 3}, target)


def torch_legacy(target: Path, change: Change) -> None:
    """With the largest tensor at the end: the storages are written in the order of their keys, which are addresses as text."""
    values = change(state())
    holders = sorted((torch.empty(0) for _ in values), key=lambda holder: str(holder.untyped_storage()._cdata))
    by_size = sorted(values, key=lambda name: values[name].numel())
    held = {name: holder.resize_(values[name].shape).copy_(values[name]) for name, holder in zip(by_size, holders, strict=True)}
    torch.save({name: held[name] for name in values}, target, _use_new_zipfile_serialization=False)


def torchscript(target: Path, change: Change) -> None:
    class Net(torch.nn.Module):
        def __init__(self, values: State) -> None:
            super().__init__()
            for name, value in values.items():
                self.register_buffer(name.replace(".", "_"), value)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + sum(value.sum() for value in self.buffers())

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.save(torch.jit.trace(Net(change(state())), torch.ones(2)), target)


def lightning(target: Path, change: Change) -> None:
    """As the library writes it, with other weights."""

    def make(folder: Path) -> None:
        import lightning as library

        class Net(library.LightningModule):
            def __init__(self) -> None:
                super().__init__()
                self.encoder, self.head = torch.nn.Linear(16, 48), torch.nn.Linear(48, 64, bias=False)

            def training_step(self, batch: Any, index: int) -> torch.Tensor:
                return self.head(self.encoder(batch[0])).square().mean()

            def configure_optimizers(self) -> Any:
                return torch.optim.AdamW(self.parameters())

        keep = library.pytorch.callbacks.ModelCheckpoint(dirpath=folder, filename="last")
        data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(4, 16)), batch_size=4)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            library.Trainer(max_epochs=1, callbacks=[keep], logger=False, enable_progress_bar=False, enable_model_summary=False,
                            accelerator="cpu").fit(Net(), data)

    folder = hugging_face.copied("lightning", target.parent / "made", make)
    written = torch.load(folder / "last.ckpt", weights_only=False)
    shutil.rmtree(folder)
    torch.save(written | {"state_dict": change(dict(written["state_dict"]))}, target)


def gguf(target: Path, change: Change, **options: Any) -> None:
    import gguf as library

    writer = library.GGUFWriter(str(target), "llama", **options)
    writer.add_block_count(1)
    writer.add_token_list(["<s>", "ein", "zwei"])
    for name, value in arrays(change(state())).items():
        writer.add_tensor(name, value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def gguf_parts(target: Path, change: Change) -> None:
    target.mkdir()
    gguf(target / "model.gguf", change, split_max_tensors=2)


def onnx(target: Path, change: Change, external: bool = False) -> None:
    """Two products of matrices, with ``external`` in a folder with the numbers in a file of their own."""
    import onnx as library

    given = [library.helper.make_tensor_value_info(name, library.TensorProto.FLOAT, [None, width])
             for name, width in (("x", 48), ("y", 64))]
    nodes = [library.helper.make_node("Gemm", ["x", "head.weight"], ["y"], transB=1),
             library.helper.make_node("Gemm", ["x", "encoder.weight", "encoder.bias"], ["z"])]
    tensors = [library.numpy_helper.from_array(value, name) for name, value in arrays(change(state())).items()]
    graph = library.helper.make_graph(nodes, "net", given[:1], given[1:], tensors)
    model = library.helper.make_model(graph, opset_imports=[library.helper.make_opsetid("", 17)], ir_version=9)
    if external:
        target.mkdir()
        library.save(model, target / "model.onnx", save_as_external_data=True, location="weights.bin", size_threshold=0)
    else:
        library.save(model, target)


def onnx_external(target: Path, change: Change) -> None:
    onnx(target, change, external=True)


def numpy(target: Path, change: Change) -> None:
    np.savez(target, **arrays(change(state())))


def numpy_array(target: Path, change: Change) -> None:
    (value,) = arrays(change({VICTIM: state()[VICTIM]})).values()
    np.save(target, value)


def flax(target: Path, change: Change) -> None:
    target.write_bytes(other_frameworks.packed({"step": 500, "params": arrays(change(state()))}))


def hdf5(target: Path, change: Change) -> None:
    with h5py.File(target, "w") as file:
        for name, value in arrays(change(state())).items():
            file[name.replace(".", "/")] = value


def keras(target: Path, change: Change) -> None:
    inner = target.with_suffix(".h5")
    hdf5(inner, change)
    other_frameworks.keras(target)
    with zipfile.ZipFile(target) as archive:
        members = {name: archive.read(name) for name in archive.namelist()} | {"model.weights.h5": inner.read_bytes()}
    inner.unlink()
    with zipfile.ZipFile(target, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)


def skops(target: Path, change: Change) -> None:
    other_frameworks.skops(target)
    with zipfile.ZipFile(target) as archive:
        schema = archive.read("schema.json")
    with zipfile.ZipFile(target, "w") as archive:
        for name, value in arrays(change({"1": state()[VICTIM]})).items():
            with archive.open(f"{name}.npy", "w") as file:
                np.save(file, value)
        archive.writestr("schema.json", schema)


def estimator(target: Path, change: Change) -> None:
    from sklearn.linear_model import LogisticRegression

    generator = np.random.default_rng(0)
    model = LogisticRegression().fit(generator.standard_normal((40, 300)), np.arange(40) % 2)
    fitted = change({"coef_": torch.from_numpy(model.coef_)})
    model.__dict__.pop("coef_")
    model.__dict__.update(arrays(fitted))
    joblib.dump(model, target)


# ---- folders ------------------------------------------------------------------------------------------------


def sharded(target: Path, change: Change) -> None:
    """The shards alone, as they are without a configuration; the second holds the victim."""
    hugging_face.model(target, shards=True)
    (target / "config.json").unlink()
    (target / "generation_config.json").unlink(missing_ok=True)
    hugging_face.change(target / _shard_of(target), change)


def _shard_of(folder: Path) -> str:
    return next(file.name for file in sorted(folder.glob("*.safetensors")) if MODEL_VICTIM in load_file(file))


MODEL_VICTIM = "model.layers.1.mlp.up_proj.weight"


def hf_model(target: Path, change: Change) -> None:
    hugging_face.change(hugging_face.model(target) / "model.safetensors", change)


def hf_shards(target: Path, change: Change) -> None:
    hugging_face.model(target, shards=True)
    hugging_face.change(target / _shard_of(target), change)


def adapter(target: Path, change: Change) -> None:
    hugging_face.change(hugging_face.adapter(target) / "adapter_model.safetensors", change)


def trainer(target: Path, change: Change) -> None:
    """A checkpoint of transformers' Trainer as two processes leave it; the state that changes is that of the optimizer."""
    shutil.copytree(hugging_face.copied("matrix-steps", target.parent / f".{target.name}", _steps) / "checkpoint-4", target)
    shutil.rmtree(target.parent / f".{target.name}")
    shutil.copy(target / "rng_state.pth", target / "rng_state_1.pth")
    (target / "rng_state.pth").rename(target / "rng_state_0.pth")
    written = torch.load(target / "optimizer.pt")
    flat = {f"{index}.{key}": value for index, one in written["state"].items() for key, value in one.items()}
    states: dict[Any, dict[str, Any]] = {}
    for name, value in change(flat).items():
        index, _, key = name.partition(".")
        states.setdefault(int(index), {})[key] = value
    torch.save(written | {"state": states}, target / "optimizer.pt")


def _steps(folder: Path) -> None:
    training_states.steps(folder)


def accelerate(target: Path, change: Change) -> None:
    folder = hugging_face.copied("accelerate", target, lambda folder: training_states.accelerate(folder, ranks=3))
    hugging_face.change(folder / "model.safetensors", change)


def distributed(target: Path, change: Change) -> None:
    training_states.distributed(target, {"model": change(state()), "step": 3}, writers=2)


def deepspeed(target: Path, change: Change) -> None:
    place = training_states.zero(target, ranks=2)
    file = place / "mp_rank_00_model_states.pt"
    written = torch.load(file)
    torch.save(written | {"module": change(state())}, file)


def diffusers(target: Path, change: Change) -> None:
    other_frameworks.diffusers(target)
    save_file(change(state()), target / "unet/diffusion_pytorch_model.safetensors")


def tensorflow(target: Path, change: Change) -> None:
    other_frameworks.tensorflow(target, shards=2, values=arrays(change(state())))


def saved_model(target: Path, change: Change) -> None:
    other_frameworks.saved_model(target, variables=False)
    other_frameworks.tensorflow(target / "variables", "variables", named=None, shards=2, values=arrays(change(state())))


def orbax(target: Path, change: Change) -> None:
    target.mkdir()
    other_frameworks.orbax(target)
    (target / "d/8455b51832ffcee74300e4f23ced379f").write_bytes(pickle.dumps(arrays(change(state()))))


SAMPLES = (
    Sample("safetensors", "model.safetensors", safetensors, VICTIM),
    Sample("sharded", "set", sharded, MODEL_VICTIM, "model-00001-of-00010.safetensors"),
    Sample("torch zip", "last.pt", torch_zip, VICTIM),
    Sample("torch legacy", "old.pth", torch_legacy, VICTIM),
    Sample("TorchScript", "traced.pt", torchscript, VICTIM),
    Sample("Hugging Face model", "model", hf_model, MODEL_VICTIM),
    Sample("Hugging Face model", "model", hf_shards, MODEL_VICTIM, "model-00001-of-00010.safetensors", layout="in shards"),
    Sample("Trainer state", "checkpoint-4", trainer, "0.exp_avg", "rng_state_0.pth", {"purpose": "resume"}),
    Sample("PEFT adapter", "adapter", adapter, "base_model.model.model.layers.1.self_attn.q_proj.lora_B.weight",
           entry={"kind": "adapter", "base": "tiny"}),
    Sample("accelerate state", "step_1", accelerate, "0.weight", "random_states_1.pkl", {"purpose": "resume"}),
    Sample("torch distributed checkpoint", "dcp", distributed, VICTIM, "__0_0.distcp"),
    Sample("DeepSpeed checkpoint", "zero", deepspeed, VICTIM, "global_step800/bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt",
           {"purpose": "resume"}),
    Sample("Lightning", "last.ckpt", lightning, VICTIM),
    Sample("diffusers pipeline", "pipeline", diffusers, VICTIM, "vae/diffusion_pytorch_model.safetensors"),
    Sample("GGUF", "model.gguf", gguf, VICTIM),
    Sample("GGUF", "parts", gguf_parts, VICTIM, "model-00001-of-00002.gguf", layout="in parts"),
    Sample("ONNX", "model.onnx", onnx, VICTIM),
    Sample("ONNX", "onnx", onnx_external, VICTIM, "weights.bin", layout="external data"),
    Sample("NumPy", "weights.npz", numpy, VICTIM, layout="`.npz`"),
    Sample("NumPy", "weights.npy", numpy_array, VICTIM, layout="`.npy`"),
    Sample("Flax", "model.msgpack", flax, VICTIM),
    Sample("HDF5", "weights.h5", hdf5, VICTIM),
    Sample("Keras", "model.keras", keras, VICTIM),
    Sample("skops", "model.skops", skops, "1"),
    Sample("pickle", "model.joblib", estimator, "coef_"),
    Sample("TensorFlow checkpoint", "tf", tensorflow, VICTIM, "model.ckpt-500.data-00001-of-00002"),
    Sample("SavedModel", "saved", saved_model, VICTIM, "variables/variables.data-00001-of-00002"),
    Sample("Orbax", "orbax", orbax, VICTIM, "d/8455b51832ffcee74300e4f23ced379f"),
)
