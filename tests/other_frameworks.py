"""Checkpoints in the layouts of libraries that are too heavy for tests, written by hand from their formats."""

from __future__ import annotations

import json
import struct
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from safetensors.numpy import save_file

TABLE_MAGIC = bytes.fromhex("57fb808b247547db")


def write_json(path: Path, value: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))
    return path


def hdf5(path: Path, values: Any = None, **options: Any) -> Path:
    """A file with one dataset, as Keras names it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(path, "w", **options) as file:
        file["layers/head/vars/0"] = np.arange(400, dtype="f4") if values is None else values
        file.attrs["keras_version"] = "3.12.0"
    return path


def layer(kind: str, **config: Any) -> dict[str, Any]:
    return {"module": "keras.layers", "class_name": kind, "config": {"name": "head", **config}}


CODE = {"class_name": "__lambda__", "config": {"code": "4wEAAAAAAAAA\n", "defaults": None, "closure": None}}


def keras(path: Path, head: Mapping[str, Any] | None = None, leave_out: str = "", config: str | None = None) -> Path:
    """A ``.keras`` archive with one layer."""
    weights = hdf5(path.with_suffix(".weights")).read_bytes()
    path.with_suffix(".weights").unlink()
    layers = [head or layer("Dense", units=4)]
    model = {"module": "keras", "class_name": "Sequential", "config": {"name": "net", "layers": layers}}
    members = {"metadata.json": json.dumps({"keras_version": "3.12.0", "date_saved": "2026-11-03@11:00:00"}),
               "config.json": json.dumps(model) if config is None else config, "model.weights.h5": weights}
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            if name != leave_out:
                archive.writestr(name, data)
    return path


def skops(path: Path, module: str = "sklearn.linear_model._logistic", leave_out: str = "") -> Path:
    """A ``.skops`` archive of an estimator with one array."""
    with zipfile.ZipFile(path, "w") as archive:
        if leave_out != "1.npy":
            with archive.open("1.npy", "w") as file:
                np.save(file, np.ones((2, 3)))
        array = {"__class__": "ndarray", "__module__": "numpy", "__loader__": "NdArrayNode", "type": "numpy", "file": "1.npy"}
        state = {"__class__": "dict", "__module__": "builtins", "__loader__": "DictNode", "content": {"coef_": array}}
        if leave_out != "schema.json":
            archive.writestr("schema.json", json.dumps({
                "__class__": "LogisticRegression", "__module__": module, "__loader__": "ObjectNode", "content": state,
                "protocol": 2, "_skops_version": "0.13.0"}))
    return path


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def field(number: int, value: int | bytes) -> bytes:
    """A field of Protocol Buffers: a number, or bytes with their length."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def table(entries: Sequence[tuple[bytes, bytes]]) -> bytes:
    """A table with one block, whose keys share what they can with the one before."""
    def block(pairs: Sequence[tuple[bytes, bytes]]) -> bytes:
        data, before = b"", b""
        for key, value in pairs:
            shared = next((i for i, (a, b) in enumerate(zip(before, key, strict=False)) if a != b), min(len(before), len(key)))
            data += varint(shared) + varint(len(key) - shared) + varint(len(value)) + key[shared:] + value
            before = key
        return data + struct.pack("<II", 0, 1)

    first = block(entries)
    out = first + bytes(5)
    empty = block([])
    meta = varint(len(out)) + varint(len(empty))
    out += empty + bytes(5)
    index = block([(entries[-1][0] + b"\0", varint(0) + varint(len(first)))])
    footer = meta + varint(len(out)) + varint(len(index))
    return out + index + bytes(5) + footer.ljust(40, b"\0") + TABLE_MAGIC


def tensorflow(folder: Path, prefix: str = "model.ckpt-500", named: str | None = "", shards: int = 1,
               values: Mapping[str, Any] | None = None) -> Path:
    """A checkpoint, each of its tensors in one of the data files in turn; ``named``: where ``checkpoint`` says that it lies."""
    folder.mkdir(parents=True, exist_ok=True)
    data = [b""] * shards
    entries = [(b"", field(1, shards) + field(3, field(1, 1)))]
    values = values or {"bias": np.ones(8, "f4"), "kernel": np.ones((8, 8), "f4")}
    for place, (name, array) in enumerate(sorted(values.items())):
        shard = place % shards
        shape = b"".join(field(2, field(1, size)) for size in array.shape)
        entries.append((name.encode(), field(1, {"f4": 1, "f8": 2}[array.dtype.str[1:]]) + field(2, shape) + field(3, shard)
                        + field(4, len(data[shard])) + field(5, array.nbytes)))
        data[shard] += array.tobytes()
    (folder / f"{prefix}.index").write_bytes(table(entries))
    for number, part in enumerate(data):
        (folder / f"{prefix}.data-{number:05}-of-{shards:05}").write_bytes(part)
    if named is not None:
        (folder / "checkpoint").write_text(
            f'model_checkpoint_path: "{named}{prefix}"\nall_model_checkpoint_paths: "{named}model.ckpt-400"\n'
            f'all_model_checkpoint_paths: "{named}{prefix}"\n')
    return folder


def saved_model(folder: Path, operation: bytes = b"VarHandleOp", variables: bool = True) -> Path:
    """A SavedModel whose graph has one operation."""
    folder.mkdir(parents=True, exist_ok=True)
    graph = field(1, field(4, b"serve")) + field(2, field(1, field(1, b"kernel") + field(2, operation)))
    (folder / "saved_model.pb").write_bytes(field(1, 1) + field(2, graph))
    (folder / "fingerprint.pb").write_bytes(field(1, 12345) + field(2, 678))
    if variables:
        tensorflow(folder / "variables", "variables", named=None)
    return folder


def packed(value: Any) -> bytes:
    """MessagePack as flax writes it, with arrays as extension type 1."""
    if isinstance(value, dict):
        head = bytes([0x80 | len(value)]) if len(value) < 16 else b"\xde" + struct.pack(">H", len(value))
        return head + b"".join(packed(key) + packed(part) for key, part in value.items())
    if isinstance(value, tuple):
        return bytes([0x90 | len(value)]) + b"".join(map(packed, value))
    if isinstance(value, str):
        return bytes([0xD9, len(value.encode())]) + value.encode()
    if isinstance(value, bytes):
        return b"\xc6" + struct.pack(">I", len(value)) + value
    if isinstance(value, bool):
        return b"\xc3" if value else b"\xc2"
    if isinstance(value, int):
        return bytes([value]) if value < 0x80 else b"\xce" + struct.pack(">I", value)
    inner = packed((tuple(int(size) for size in value.shape), value.dtype.name, value.tobytes()))
    return b"\xc9" + struct.pack(">IB", len(inner), 1) + inner


def flax(path: Path, **values: Any) -> Path:
    dense = {"bias": np.zeros(4, "f4"), "kernel": np.ones((4, 300), "f2"), **values}
    path.write_bytes(packed({"step": 500, "params": {"dense": dense}}))
    return path


def manifest() -> bytes:
    """A manifest of OCDBT: magic number, its own length, and what nobody reads here."""
    return bytes.fromhex("0cdb3a2a") + struct.pack("<Q", 192) + bytes(range(180))


def orbax(folder: Path, step: bool = False) -> Path:
    """An item, or a step of a manager with one item."""
    item = folder / "default" if step else folder
    write_json(item / "_METADATA", {"tree_metadata": {"('params', 'kernel')": {}}, "use_ocdbt": True, "use_zarr3": False})
    (item / "d").mkdir()
    (item / "d/8455b51832ffcee74300e4f23ced379f").write_bytes(bytes(range(256)))
    (item / "manifest.ocdbt").write_bytes(manifest())
    handlers = {"default": "orbax.StandardCheckpointHandler"} if step else "orbax.StandardCheckpointHandler"
    write_json(folder / "_CHECKPOINT_METADATA",
               {"item_handlers": handlers, "init_timestamp_nsecs": 1, "commit_timestamp_nsecs": 2})
    return folder


CLASSES = {"unet": ["diffusers", "UNet2DConditionModel"], "vae": ["diffusers", "AutoencoderKL"],
           "text_encoder": ["transformers", "CLIPTextModel"], "scheduler": ["diffusers", "DDIMScheduler"],
           "tokenizer": ["transformers", "CLIPTokenizer"]}


def diffusers(folder: Path, parts: Sequence[str] = tuple(CLASSES), index: bool = True) -> Path:
    """A pipeline, as save_pretrained of diffusers lays it out."""
    for part in parts:
        if part == "scheduler":
            write_json(folder / part / "scheduler_config.json", {"_class_name": "DDIMScheduler", "num_train_timesteps": 1000})
        elif part == "tokenizer":
            write_json(folder / part / "tokenizer_config.json", {"tokenizer_class": "CLIPTokenizer"})
            write_json(folder / part / "vocab.json", {"a": 0})
            (folder / part / "merges.txt").write_text("#version: 0.2\n")
        else:
            write_json(folder / part / "config.json", {"_class_name": CLASSES[part][1], "_diffusers_version": "0.36.0"})
            stem = "model" if part == "text_encoder" else "diffusion_pytorch_model"
            save_file({"conv.weight": np.ones((2, 3), "f4") * len(part)}, folder / part / f"{stem}.safetensors")
    if index:
        write_json(folder / "model_index.json", {"_class_name": "StableDiffusionPipeline", "_diffusers_version": "0.36.0",
                                                 "safety_checker": [None, None], "requires_safety_checker": False,
                                                 **{part: CLASSES[part] for part in parts}})
    return folder
