"""A tiny language model, a LoRA adapter on it and the two merged, written by the libraries once and copied from then on."""

from __future__ import annotations

import atexit
import functools
import hashlib
import json
import shutil
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

BASE = "acme/tiny"
COMMIT = "3f1c9a7be02d4586b1e07c55d9aa41f26c8e7d30"
OTHER_COMMIT = "90b7d2e4c16f8a35e7d04b9c2f61a8de53b7c014"
CONFIG = "adapter_config.json"
WEIGHTS = "model.safetensors"


def llama(seed: int) -> Any:
    """A model of two layers and a few thousand parameters."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    return LlamaForCausalLM(LlamaConfig(
        vocab_size=64, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=2,
        max_position_embeddings=32, tie_word_embeddings=False))


def adapted(seed: int = 0, *, trained: bool = True) -> Any:
    """The model of that seed under an adapter of rank 4, which is neutral when it is not ``trained``."""
    import torch
    from peft import LoraConfig, get_peft_model

    model = llama(seed)
    model.name_or_path = BASE
    model = get_peft_model(model, LoraConfig(r=4, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM"))
    torch.manual_seed(11)
    for name, value in model.named_parameters():
        if trained and "lora_B" in name:
            value.data.normal_(0, 0.3)
    return model


@functools.cache
def _store() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="tiny-adapters-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _copy(name: str, target: Path, save: Callable[[Path], Any]) -> Path:
    """Fill ``target`` with what ``save(folder)`` writes, made once under that name."""
    store = _store() / name
    if not store.exists():
        with warnings.catch_warnings():  # the libraries' own
            warnings.simplefilter("ignore")
            save(store)
    shutil.copytree(store, target, dirs_exist_ok=True)
    return target


def base(target: Path, seed: int = 0) -> Path:
    """The base model's folder."""
    return _copy(f"base-{seed}", target, lambda folder: llama(seed).save_pretrained(folder))


def adapter(target: Path, *, trained: bool = True, **config: Any) -> Path:
    """The adapter's folder; ``config`` changes fields of its configuration."""
    _copy(f"adapter-{trained}", target, lambda folder: adapted(trained=trained).save_pretrained(folder))
    change(target / CONFIG, **config)
    return target


def merged(target: Path, seed: int = 0) -> Path:
    """The adapter merged into the base of that seed."""
    return _copy(f"merged-{seed}", target, lambda folder: adapted(seed).merge_and_unload().save_pretrained(folder))


def cached(hub: Path, commit: str = COMMIT, seed: int = 0, main: str | None = None) -> Path:
    """A base model in a Hugging Face cache, with its files in ``blobs``; ``main`` is the commit of that branch."""
    repository = hub / "models--acme--tiny"
    snapshot = repository / "snapshots" / commit
    snapshot.mkdir(parents=True)
    for file in base(repository / "blobs" / commit, seed).iterdir():
        (snapshot / file.name).symlink_to(f"../../blobs/{commit}/{file.name}")
    if main is not None:
        (repository / "refs").mkdir(exist_ok=True)
        (repository / "refs/main").write_text(main)
    return snapshot


def change(file: Path, **fields: Any) -> None:
    """Change fields of a JSON file."""
    file.write_text(json.dumps(json.loads(file.read_text()) | fields, indent=2))


def sha256(file: Path) -> str:
    """The digest of a file."""
    return hashlib.sha256(file.read_bytes()).hexdigest()
