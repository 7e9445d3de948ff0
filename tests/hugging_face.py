"""Tiny models and adapters, written by the real libraries from a configuration; nothing is downloaded."""

from __future__ import annotations

import functools
import json
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import torch
from safetensors.torch import load_file, save_file

from pytest_campaign.recording import base_archive

Tensors = dict[str, torch.Tensor]
WORDS = 62  # tokens of the tokenizer
ROWS = 64  # of the embedding
BASE = {"model": "acme/tiny", "revision": "3f1c9a7be02d4586b1e07c55d9aa41f26c8e7d30"}


def llama(*, tied: bool = False, seed: int = 0, layers: int = 2, **more: Any) -> Any:
    """A language model of a few thousand parameters."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    return LlamaForCausalLM(LlamaConfig(
        vocab_size=ROWS, hidden_size=16, intermediate_size=32, num_hidden_layers=layers, num_attention_heads=2,
        num_key_value_heads=2, max_position_embeddings=32, tie_word_embeddings=tied, **more))


@functools.cache
def _store() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="hugging-face-")


def copied(key: str, target: Path, make: Callable[[Path], object]) -> Path:
    """Make something once for each process, and copy it."""
    kept = Path(_store().name, key)
    if not kept.exists():
        make(kept)
    shutil.copytree(kept, target, dirs_exist_ok=True)
    return target


def model(target: Path, *, tied: bool = False, seed: int = 0, layers: int = 2, shards: bool = False) -> Path:
    """A saved model, without a tokenizer."""
    options: dict[str, Any] = {"max_shard_size": "4KB"} if shards else {}
    return copied(f"model-{tied}-{seed}-{layers}-{shards}", target,
                 lambda folder: llama(tied=tied, seed=seed, layers=layers).save_pretrained(folder, **options))


def tokenizer(target: Path, *extra: str) -> Path:
    """A tokenizer of 62 words and the extra ones."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = {f"w{number}": number for number in range(WORDS - 2)} | {"[UNK]": WORDS - 2, "[PAD]": WORDS - 1}
    made = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    fast = PreTrainedTokenizerFast(tokenizer_object=made, unk_token="[UNK]", pad_token="[PAD]", model_max_length=32)
    fast.add_tokens(list(extra))
    fast.save_pretrained(target)
    return target


def adapter(target: Path, *, trained: bool = True, name: str = "default", base: Any = None, **options: Any) -> Path:
    """A saved LoRA adapter of rank 4 on q_proj and v_proj."""
    import peft

    def make(folder: Path) -> None:
        settings: dict[str, Any] = {"r": 4, "lora_alpha": 8, "target_modules": ["q_proj", "v_proj"], "task_type": "CAUSAL_LM"}
        under = llama() if base is None else base
        under.name_or_path = BASE["model"]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # peft's own use of what transformers deprecates
            made = peft.get_peft_model(under, peft.LoraConfig(**settings | options, revision=BASE["revision"]), adapter_name=name)
        torch.manual_seed(1)
        with torch.no_grad():
            for value in made.parameters():
                if trained and value.requires_grad:
                    value.add_(torch.randn_like(value) * 0.3)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made.save_pretrained(folder)

    return copied(f"adapter-{trained}-{name}-{base and id(base)}-{sorted(options.items())}", target, make)


def headers(adapter: Path, base: Path | None = None, **options: Any) -> Path:
    """The headers of a base, archived beside its adapter: of ``base``, else of a `model` that is not kept."""
    with tempfile.TemporaryDirectory() as folder:
        place = base or model(Path(folder), **options)
        return adapter.parent / base_archive.write(adapter.parent, adapter.name, None, BASE, place)


def adapted(adapter: Path, base: Any = None) -> Any:
    """A base model under a saved adapter."""
    import peft

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # peft's own use of what transformers deprecates
        return peft.PeftModel.from_pretrained(llama() if base is None else base, adapter)


def change(file: Path, change: Callable[[Tensors], Tensors]) -> None:
    """Write the tensors of a file anew."""
    made = change({name: tensor.clone() for name, tensor in load_file(file).items()})
    save_file({name: tensor.contiguous().clone() for name, tensor in made.items()}, file, {"format": "pt"})


def settings(file: Path, **values: Any) -> None:
    """Change values of a JSON file."""
    file.write_text(json.dumps(json.loads(file.read_text()) | values))
