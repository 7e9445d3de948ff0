"""Adapters built with their values on their base: each gives what the adapted model gave before it was saved."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import hugging_face
import pytest
import torch
from disk_source import DiskSource, folder
from test_peft_adapter import LORA, methods

from pytest_campaign.formats import peft_adapter, rebuilding, replaying
from pytest_campaign.formats.base import Depth

pytestmark = pytest.mark.filterwarnings("ignore")
TOKENS = {"input_ids": torch.arange(12).reshape(2, 6)}


def logits(model: Any) -> torch.Tensor:
    return replaying.call(model, TOKENS, positional=False).tensors["logits"]


def trained(target: Path, model: Any, config: Any) -> torch.Tensor:
    """Save an adapter that was changed from its beginning; what the adapted model gives."""
    import peft

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = peft.get_peft_model(model, config)
        torch.manual_seed(1)
        with torch.no_grad():
            for value in made.parameters():
                if value.requires_grad:
                    value.add_(torch.randn_like(value) * 0.3)
        made.save_pretrained(target)
    return logits(made)


def built(adapter: Path, base: Path) -> Any:
    (unit,) = peft_adapter.gather(folder(adapter))
    return peft_adapter.build(unit, DiskSource(adapter, Depth.HEADER, base=DiskSource(base, Depth.HEADER)), None)


def alike(one: torch.Tensor, other: torch.Tensor) -> bool:
    return bool((one - other).abs().max() <= 1e-4 * other.std())


@pytest.mark.parametrize("name", [*LORA, "olora"])
def test_lora(tmp_path: Path, name: str) -> None:
    import peft

    base = hugging_face.model(tmp_path / "base")
    options = {"r": 4, "target_modules": ["q_proj", "v_proj"], "task_type": "CAUSAL_LM"}
    config = peft.LoraConfig(**options | LORA.get(name, {"init_lora_weights": name}))
    expected = trained(tmp_path / "adapter", hugging_face.llama(), config)
    assert alike(logits(built(tmp_path / "adapter", base)), expected)


@pytest.mark.parametrize("name", ["adalora", "ia3", "prompt", "prefix", "encoder", "vera", "loha", "oft"])
def test_other_methods(tmp_path: Path, name: str) -> None:
    base = hugging_face.model(tmp_path / "base")
    expected = trained(tmp_path / "adapter", hugging_face.llama(), methods()[name])
    assert alike(logits(built(tmp_path / "adapter", base)), expected)


def test_a_head_that_the_base_has_not(tmp_path: Path) -> None:
    import peft
    import transformers as t

    config = t.BertConfig(hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, vocab_size=64)
    base = t.BertForMaskedLM(config)
    base.save_pretrained(tmp_path / "base")
    config.num_labels = 5
    classifier = t.BertForSequenceClassification.from_pretrained(tmp_path / "base", config=config)
    expected = trained(tmp_path / "adapter", classifier, peft.LoraConfig(
        r=4, target_modules=["query", "value"], task_type="SEQ_CLS"))
    made = logits(built(tmp_path / "adapter", tmp_path / "base"))
    assert made.shape == expected.shape


def test_a_resized_vocabulary(tmp_path: Path) -> None:
    import peft

    base = hugging_face.model(tmp_path / "base")
    model = hugging_face.llama()
    model.resize_token_embeddings(hugging_face.ROWS + 4)
    expected = trained(tmp_path / "adapter", model, peft.LoraConfig(
        r=4, target_modules=["q_proj"], modules_to_save=["embed_tokens", "lm_head"], task_type="CAUSAL_LM"))
    assert alike(logits(built(tmp_path / "adapter", base)), expected)


@pytest.mark.parametrize(("settings", "words"), [
    ({"init_lora_weights": "corda"}, "init_lora_weights is corda"),
    ({"megatron_config": {"a": 1}, "megatron_core": "antigravity"}, "asks for a module"),
])
def test_what_is_not_built(tmp_path: Path, settings: dict[str, Any], words: str) -> None:
    base = hugging_face.model(tmp_path / "base")
    hugging_face.settings(hugging_face.adapter(tmp_path / "adapter") / "adapter_config.json", **settings)
    with pytest.raises(rebuilding.NotRebuilt, match=words):
        built(tmp_path / "adapter", base)


def test_a_base_with_a_damaged_file_is_not_taken(tmp_path: Path) -> None:
    base = hugging_face.model(tmp_path / "base")
    hugging_face.adapter(tmp_path / "adapter")
    (base / "model.safetensors").write_bytes((base / "model.safetensors").read_bytes()[:-1])
    with pytest.raises(rebuilding.NotRebuilt, match="cannot be used"):
        built(tmp_path / "adapter", base)
