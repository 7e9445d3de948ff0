"""Adapters of PEFT: real ones of many kinds, alone and on their base, and what silently breaks them."""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hugging_face
import pytest
import torch
from disk_source import DiskSource, folder
from hugging_face import Tensors
from safetensors.torch import load_file, save_file
from test_hf_model import renamed, without

from pytest_campaign.formats import peft_adapter
from pytest_campaign.formats.base import Depth, ProblemKind, Reading, Unit
from pytest_campaign.inventory import take
from pytest_campaign.reload.client import Reloader
from pytest_campaign.reload.protocol import BaseFiles, FileSpec, Job, Limits


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return hugging_face.model(tmp_path_factory.mktemp("base"))


def found(root: Path, base: Path | None = None, depth: Depth = Depth.MODEL) -> Reading:
    """The reading of the one adapter in a folder."""
    (unit,) = peft_adapter.gather(folder(root))
    source = DiskSource(root, depth, base=DiskSource(base, depth) if base else None, base_name="acme/tiny" if base else "")
    return peft_adapter.read(unit, source)


def kinds(reading: Reading) -> set[ProblemKind]:
    return {problem.kind for problem in reading.problems}


LORA: dict[str, dict[str, Any]] = {
    "plain": {},
    "all linear": {"target_modules": "all-linear"},
    "a pattern": {"target_modules": r".*layers\.1\..*q_proj"},
    "two ranks": {"rank_pattern": {"q_proj": 8}},
    "one layer": {"layers_to_transform": [1]},
    "dora": {"use_dora": True},
    "rslora": {"use_rslora": True},
    "pissa": {"init_lora_weights": "pissa"},
    "with the output layer": {"modules_to_save": ["lm_head"]},
    "on the embedding": {"target_modules": ["embed_tokens", "q_proj"]},
    "some tokens": {"trainable_token_indices": [1, 2]},
    "with biases": {"bias": "all"},
}


@pytest.mark.parametrize("name", LORA)
def test_sound_adapters_of_lora(tmp_path: Path, base: Path, name: str) -> None:
    hugging_face.adapter(tmp_path, **LORA[name])
    on_base = found(tmp_path, base)
    assert (on_base.problems, on_base.depth) == ([], Depth.MODEL)
    alone = found(tmp_path)
    assert (kinds(alone), alone.depth) == ({ProblemKind.NOT_REBUILT}, Depth.TENSORS)
    assert found(tmp_path, depth=Depth.TENSORS).problems == []


def methods() -> dict[str, Any]:
    import peft as p

    task = {"task_type": "CAUSAL_LM"}
    return {
        "adalora": p.AdaLoraConfig(target_modules=["q_proj"], total_step=10, **task),
        "ia3": p.IA3Config(target_modules=["k_proj", "down_proj"], feedforward_modules=["down_proj"], **task),
        "prompt": p.PromptTuningConfig(num_virtual_tokens=5, **task),
        "prefix": p.PrefixTuningConfig(num_virtual_tokens=5, **task),
        "encoder": p.PromptEncoderConfig(num_virtual_tokens=5, encoder_hidden_size=16, **task),
        "vera": p.VeraConfig(r=4, target_modules=["q_proj"], **task),
        "loha": p.LoHaConfig(r=4, target_modules=["q_proj"]),
        "lokr": p.LoKrConfig(r=4, target_modules=["q_proj"]),
        "oft": p.OFTConfig(oft_block_size=8, target_modules=["q_proj"]),
    }


def save(target: Path, model: Any, config: Any, trained: bool = True) -> Path:
    import peft

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = peft.get_peft_model(model, config)
        with torch.no_grad():
            for value in made.parameters():
                if value.requires_grad and trained:
                    value.add_(0.1)
        made.save_pretrained(target)
    return target


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["adalora", "ia3", "prompt", "prefix", "encoder", "vera", "loha", "lokr", "oft"])
def test_sound_adapters_of_other_methods(tmp_path: Path, base: Path, name: str) -> None:
    save(tmp_path, hugging_face.llama(), methods()[name])
    reading = found(tmp_path, base)
    assert (reading.problems, reading.depth) == ([], Depth.MODEL)
    assert found(tmp_path, depth=Depth.TENSORS).problems == []


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["adalora", "ia3", "vera", "loha", "lokr", "oft"])
def test_adapters_as_they_are_before_the_first_step(tmp_path: Path, name: str) -> None:
    save(tmp_path, hugging_face.llama(), methods()[name], trained=False)
    assert kinds(found(tmp_path, depth=Depth.TENSORS)) == {ProblemKind.UNTRAINED}


@pytest.mark.filterwarnings("ignore")
def test_a_classifier_brings_its_head(tmp_path: Path) -> None:
    """The base has no head and says nothing of five labels; PEFT lists two names of heads, of which the model has one."""
    import peft
    import transformers as t

    config = t.BertConfig(hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, vocab_size=64)
    t.BertForMaskedLM(config).save_pretrained(tmp_path / "base")
    config.num_labels = 5
    save(tmp_path / "adapter", t.BertForSequenceClassification(config),
         peft.LoraConfig(r=4, target_modules=["query", "value"], task_type="SEQ_CLS"))
    reading = found(tmp_path / "adapter", tmp_path / "base")
    assert (reading.problems, reading.depth) == ([], Depth.MODEL)


@pytest.mark.filterwarnings("ignore")
def test_a_resized_vocabulary(tmp_path: Path, base: Path) -> None:
    """Tokens were added for the training; the adapter then brings the embedding, and its tokenizer has more ids than the base."""
    import peft

    model = hugging_face.llama()
    model.resize_token_embeddings(hugging_face.ROWS + 4)
    save(tmp_path, model, peft.LoraConfig(r=4, target_modules=["q_proj"], modules_to_save=["embed_tokens", "lm_head"],
                                          task_type="CAUSAL_LM"))
    hugging_face.tokenizer(tmp_path, *(f"<{number}>" for number in range(6)))
    assert found(tmp_path, base).problems == []
    hugging_face.tokenizer(tmp_path, *(f"<{number}>" for number in range(7)))
    assert kinds(found(tmp_path, base)) == {ProblemKind.VOCABULARY}


def _language_models() -> dict[str, Any]:
    import transformers as t

    return {
        "gpt2": lambda: t.GPT2LMHeadModel(t.GPT2Config(vocab_size=64, n_positions=16, n_embd=32, n_layer=1, n_head=2)),
        "narrow embedding": lambda: t.OPTForCausalLM(t.OPTConfig(
            vocab_size=64, hidden_size=32, word_embed_proj_dim=16, ffn_dim=32, num_hidden_layers=1, num_attention_heads=2,
            max_position_embeddings=16)),
        "t5": lambda: t.T5ForConditionalGeneration(t.T5Config(
            vocab_size=64, d_model=32, d_kv=8, d_ff=32, num_layers=1, num_heads=2)),
        "images and text": lambda: t.LlavaForConditionalGeneration(t.LlavaConfig(
            text_config={"model_type": "llama", "vocab_size": 64, "hidden_size": 32, "intermediate_size": 32,
                         "num_hidden_layers": 1, "num_attention_heads": 2},
            vision_config={"model_type": "clip_vision_model", "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1,
                           "num_attention_heads": 2, "image_size": 8, "patch_size": 4}, image_token_index=63)),
    }


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["gpt2", "narrow embedding", "t5", "images and text"])
def test_a_resized_vocabulary_under_other_names(tmp_path: Path, name: str) -> None:
    """How wide the embedding is, and what it and its size are called, differs from model to model."""
    import peft

    base, adapter = tmp_path / "base", tmp_path / "adapter"
    model = _language_models()[name]()
    model.save_pretrained(base)
    model = type(model).from_pretrained(base)
    model.resize_token_embeddings(70)
    targets = ["c_attn"] if name == "gpt2" else ["q"] if name == "t5" else ["q_proj"]
    copied = ["embed_tokens", "lm_head"] if name == "images and text" else None  # PEFT does not see that this one was resized
    save(adapter, model, peft.LoraConfig(r=2, target_modules=targets, modules_to_save=copied))
    assert any(value.shape[0] == 70 for value in load_file(adapter / "adapter_model.safetensors").values())
    reading = found(adapter, base)
    assert (reading.problems, reading.depth) == ([], Depth.MODEL)
    hugging_face.change(adapter / "adapter_model.safetensors", without("lora_A"))
    assert ProblemKind.MISSING_TENSORS in kinds(found(adapter, base))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["clip", "speech"])
def test_models_without_one_embedding_of_tokens(tmp_path: Path, name: str) -> None:
    """PEFT cannot say which embedding it would save with them; nobody asks it to."""
    import peft
    import transformers as t

    layers = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    model = t.CLIPModel(t.CLIPConfig(text_config=dict(layers), vision_config={**layers, "image_size": 8, "patch_size": 4})) \
        if name == "clip" else t.Wav2Vec2ForCTC(t.Wav2Vec2Config(
            **layers, vocab_size=32, conv_dim=(8, 8), conv_stride=(2, 2), conv_kernel=(3, 3), num_conv_pos_embeddings=4,
            num_conv_pos_embedding_groups=2))
    model.save_pretrained(tmp_path / "base")
    heads = ["lm_head"] if name == "speech" else None
    save(tmp_path / "adapter", model, peft.LoraConfig(r=2, target_modules=["q_proj"], modules_to_save=heads))
    reading = found(tmp_path / "adapter", tmp_path / "base")
    assert (reading.problems, reading.depth) == ([], Depth.MODEL)


def test_an_old_adapter(tmp_path: Path, base: Path) -> None:
    """A torch file, and the twelve settings that the first releases wrote; names that still have the name of the adapter."""
    hugging_face.adapter(tmp_path)
    state = load_file(tmp_path / "adapter_model.safetensors")
    (tmp_path / "adapter_model.safetensors").unlink()
    torch.save(state, tmp_path / "adapter_model.bin")
    config = json.loads((tmp_path / "adapter_config.json").read_text())
    kept = ("base_model_name_or_path", "bias", "fan_in_fan_out", "inference_mode", "init_lora_weights", "lora_alpha",
            "lora_dropout", "modules_to_save", "peft_type", "r", "target_modules", "task_type")
    (tmp_path / "adapter_config.json").write_text(json.dumps({name: config[name] for name in kept}))
    reading = found(tmp_path, base)
    assert (reading.problems, reading.depth) == ([], Depth.MODEL)


# What is found on the base and, last, whether that is also found without it, or what else.
SPOILT: dict[str, tuple[Callable[[Tensors], Tensors], ProblemKind, bool | ProblemKind]] = {
    "no tensors": (lambda state: {}, ProblemKind.NO_TENSORS, True),
    "no B": (without("lora_B"), ProblemKind.MISSING_TENSORS, True),
    "one A lost": (without("layers.0.self_attn.q_proj.lora_A"), ProblemKind.MISSING_TENSORS, True),
    "no layer 1": (without(".layers.1."), ProblemKind.MISSING_TENSORS, False),
    "no v_proj": (without("v_proj"), ProblemKind.MISSING_TENSORS, ProblemKind.PERHAPS_INCOMPLETE),
    "no prefix": (renamed("base_model.model.", ""), ProblemKind.MISSING_TENSORS, True),
    "another prefix": (renamed("base_model.", "base_model.base_model."), ProblemKind.MISSING_TENSORS, True),
    "renamed modules": (renamed("q_proj", "query"), ProblemKind.MISSING_TENSORS, ProblemKind.PERHAPS_INCOMPLETE),
    "names of another library": (renamed("lora_A", "lora_down"), ProblemKind.MISSING_TENSORS, True),
    "compiled": (renamed("base_model.model.", "base_model.model._orig_mod."), ProblemKind.WRAPPER_PREFIX, True),
    "distributed": (renamed("base_model.", "module.base_model."), ProblemKind.WRAPPER_PREFIX, True),
    "a tensor too many": (
        lambda state: state | {"base_model.model.model.norm.extra": torch.ones(2)}, ProblemKind.UNEXPECTED_TENSORS, False),
    "another rank": (
        lambda state: {n: torch.ones(8, 16) if "lora_A" in n else torch.ones(16, 8) for n in state}, ProblemKind.SHAPE, True),
    "all zero": (lambda state: {n: torch.zeros_like(state[n]) for n in state}, ProblemKind.UNTRAINED, True),
    "A zero": (lambda state: {n: state[n] * ("lora_A" not in n) for n in state}, ProblemKind.UNTRAINED, True),
    "B zero": (lambda state: {n: state[n] * ("lora_B" not in n) for n in state}, ProblemKind.UNTRAINED, True),
    "nan": (lambda state: {n: state[n] * float("nan") for n in state}, ProblemKind.NAN, True),
}


@pytest.mark.parametrize("name", SPOILT)
def test_spoilt_tensors(tmp_path: Path, base: Path, name: str) -> None:
    spoil, kind, alone = SPOILT[name]
    hugging_face.change(hugging_face.adapter(tmp_path) / "adapter_model.safetensors", spoil)
    assert kinds(found(tmp_path, base)) == {kind}
    without_base = {kind if alone is True else alone} if alone else set()
    assert kinds(found(tmp_path, depth=Depth.TENSORS)) == without_base


LOST: dict[str, tuple[dict[str, Any], Callable[[Tensors], Tensors], dict[str, Any], set[ProblemKind]]] = {
    "dora without magnitudes": ({"use_dora": True}, without("magnitude"), {}, {ProblemKind.MISSING_TENSORS}),
    "magnitudes without dora": ({"use_dora": True}, dict, {"use_dora": False}, {ProblemKind.UNEXPECTED_TENSORS}),
    "tokens": ({"trainable_token_indices": [1, 2]}, without("token_adapter"), {}, {ProblemKind.MISSING_TENSORS}),
    "one of all linear": (
        {"target_modules": "all-linear"}, without("layers.1.self_attn.q_proj"), {}, {ProblemKind.MISSING_TENSORS}),
    "one layer lacks a module": ({}, without("layers.2.self_attn.q_proj"), {}, {ProblemKind.PERHAPS_INCOMPLETE}),
    "it says so": ({}, without("layers.2.self_attn.q_proj"), {"exclude_modules": ["layers.2.self_attn.q_proj"]}, set()),
    "a layer of another kind": ({}, renamed("layers.2.self_attn.q_proj", "layers.2.linear_attn.q_proj"), {}, set()),
    "two layers": ({}, without("layers.2.", "layers.1.self_attn.q_proj"), {}, set()),
}


@pytest.mark.parametrize("name", LOST)
def test_what_names_tell_without_the_base(tmp_path: Path, name: str) -> None:
    options, lose, settings, expected = LOST[name]
    layers = 2 if "target_modules" in options else 3  # of twenty modules and more PEFT writes shorter names
    hugging_face.adapter(tmp_path, base=hugging_face.llama(layers=layers), **options)
    hugging_face.change(tmp_path / "adapter_model.safetensors", lose)
    hugging_face.settings(tmp_path / "adapter_config.json", **settings)
    assert kinds(found(tmp_path, depth=Depth.TENSORS)) == expected


def test_the_length_of_a_prompt(tmp_path: Path) -> None:
    import peft

    save(tmp_path, hugging_face.llama(), peft.PromptTuningConfig(num_virtual_tokens=5, task_type="CAUSAL_LM"))
    hugging_face.settings(tmp_path / "adapter_config.json", num_virtual_tokens=8)
    assert kinds(found(tmp_path, depth=Depth.TENSORS)) == {ProblemKind.SHAPE}


SET: dict[str, tuple[dict[str, Any], set[ProblemKind]]] = {
    "another rank": ({"r": 8}, {ProblemKind.SHAPE}),
    "more modules": ({"target_modules": ["q_proj", "k_proj", "v_proj"]}, {ProblemKind.MISSING_TENSORS}),
    "modules of another model": ({"target_modules": ["query"]}, {ProblemKind.CONFIGURATION}),
    "modules that were not saved": ({"modules_to_save": ["lm_head"]}, {ProblemKind.MISSING_TENSORS}),
    "dora": ({"use_dora": True}, {ProblemKind.MISSING_TENSORS}),
    "unknown setting": ({"foobar": {"scale": 2}}, {ProblemKind.UNKNOWN_SETTING}),
    "unknown setting without a value": ({"foobar": None, "barfoo": False, "raboof": []}, set()),
    "unknown setting of a later version": ({"foobar": 2, "peft_version": "99.1.0"}, {ProblemKind.NEWER_LIBRARY}),
    "no scale": ({"lora_alpha": 0}, {ProblemKind.UNTRAINED}),
    "a scale for each module": ({"lora_alpha": 0, "alpha_pattern": {"q_proj": 8, "v_proj": 8}}, set()),
    "unknown method": ({"peft_type": "WAT"}, {ProblemKind.CONFIGURATION}),
    "no method": ({"peft_type": None}, {ProblemKind.CONFIGURATION}),
    "a path of another machine": ({"base_model_name_or_path": "/tmp/gone/base"}, set()),
}


@pytest.mark.parametrize("name", SET)
def test_settings(tmp_path: Path, base: Path, name: str) -> None:
    values, expected = SET[name]
    hugging_face.settings(hugging_face.adapter(tmp_path) / "adapter_config.json", **values)
    assert kinds(found(tmp_path, base)) == expected


def test_lost_settings(tmp_path: Path, base: Path) -> None:
    """What the tensors say and the configuration does not."""
    for number, (options, lost) in enumerate((({"use_dora": True}, {"use_dora": False}),
                                              ({"modules_to_save": ["lm_head"]}, {"modules_to_save": None}),
                                              ({"rank_pattern": {"q_proj": 8}}, {"rank_pattern": {}}))):
        place = hugging_face.adapter(tmp_path / str(number), **options)
        hugging_face.settings(place / "adapter_config.json", **lost)
        assert kinds(found(place, base)) <= {ProblemKind.UNEXPECTED_TENSORS, ProblemKind.SHAPE}
        assert found(place, base).problems


@pytest.mark.parametrize("options", [{"layers": 3}, {"tied": True}])
def test_another_base(tmp_path: Path, options: dict[str, Any]) -> None:
    hugging_face.adapter(tmp_path / "adapter")
    other = hugging_face.model(tmp_path / "other", **options)
    expected = {ProblemKind.MISSING_TENSORS} if "layers" in options else set()
    assert kinds(found(tmp_path / "adapter", other)) == expected
    hugging_face.settings(other / "config.json", num_hidden_layers=2, hidden_size=32, head_dim=16)
    assert kinds(found(tmp_path / "adapter", other)) == {ProblemKind.SHAPE}


def test_without_the_library(tmp_path: Path, base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hugging_face.adapter(tmp_path)
    monkeypatch.setitem(sys.modules, "peft", None)
    reading = found(tmp_path, base)
    assert (kinds(reading), reading.depth) == ({ProblemKind.NOT_REBUILT}, Depth.TENSORS)


# ---- what belongs to an adapter -----------------------------------------------------------------------------


def test_tensors_without_a_configuration_and_the_other_way_round(tmp_path: Path) -> None:
    hugging_face.adapter(tmp_path)
    config = (tmp_path / "adapter_config.json").read_text()
    (tmp_path / "adapter_config.json").unlink()
    (problem,) = found(tmp_path).problems
    assert (problem.kind, problem.path) == (ProblemKind.FILE_MISSING, "adapter_config.json")
    (tmp_path / "adapter_config.json").write_text(config)
    (tmp_path / "adapter_model.safetensors").unlink()
    (unit,) = peft_adapter.gather(folder(tmp_path))
    assert (unit.hollow, kinds(found(tmp_path))) == (True, {ProblemKind.NO_WEIGHTS})


def test_the_configuration_of_a_model_over_that_of_the_adapter(tmp_path: Path) -> None:
    hugging_face.model(hugging_face.adapter(tmp_path))
    assert kinds(found(tmp_path)) == {ProblemKind.NOT_REBUILT}
    (tmp_path / "adapter_config.json").write_text((tmp_path / "config.json").read_text())
    (problem,) = found(tmp_path).problems
    assert (problem.kind, problem.path) == (ProblemKind.CONFIGURATION, "adapter_config.json")
    assert "llama" in problem.observed


# ---- many adapters on one base, in fresh processes ----------------------------------------------------------


@pytest.fixture(scope="module")
def reloader() -> Iterator[Reloader]:
    with Reloader(Limits(timeout=120.0, memory=1 << 28, threads=1)) as running:
        yield running


def specs(root: Path) -> list[FileSpec]:
    return [FileSpec(entry.path, entry.path, entry.device, entry.inode, entry.size, entry.mtime_ns)
            for entry in take(root).entries if entry.kind == "file"]


def test_many_adapters_on_one_base(tmp_path: Path, base: Path, reloader: Reloader) -> None:
    """The libraries are imported once, of the base only the configuration is read, and each adapter takes as long as another."""
    (base / "model.safetensors").chmod(0)
    try:
        files = BaseFiles("acme/tiny", str(base), specs(base))
        seconds = []
        for number in range(6):
            place = f"runs/{number}"
            hugging_face.adapter(tmp_path / place)
            own = [spec for spec in specs(tmp_path) if spec.path.startswith(f"{place}/")]
            unit = Unit(peft_adapter.NAME, place, tuple(spec.path for spec in own if not spec.path.endswith(".md")))
            begin = time.monotonic()
            answer = reloader.run(Job(str(tmp_path), [unit], own, Depth.MODEL, base=files))
            seconds.append(time.monotonic() - begin)
            assert answer.readings[0] is not None, (answer.deaths, answer.log)
            assert (answer.readings[0].problems, answer.readings[0].depth) == ([], Depth.MODEL)
        assert max(seconds[2:]) < seconds[0]
    finally:
        (base / "model.safetensors").chmod(0o600)


def test_the_base_is_opened_within_its_own_folder(tmp_path: Path, base: Path, reloader: Reloader) -> None:
    """A base that has changed since it was looked up is not at hand; that is no fault of the adapter."""
    hugging_face.adapter(tmp_path / "adapter")
    own = specs(tmp_path)
    unit = Unit(peft_adapter.NAME, "adapter", tuple(spec.path for spec in own))
    stale = [FileSpec(spec.path, spec.target, spec.device, spec.inode, spec.size, spec.mtime_ns + 1) for spec in specs(base)]
    answer = reloader.run(Job(str(tmp_path), [unit], own, Depth.MODEL, base=BaseFiles("acme/tiny", str(base), stale)))
    assert answer.readings[0] is not None, answer.deaths
    assert kinds(answer.readings[0]) == {ProblemKind.NOT_REBUILT}


def test_a_file_that_no_format_knows(tmp_path: Path) -> None:
    hugging_face.adapter(tmp_path)
    (tmp_path / "adapter_model.safetensors").write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    assert kinds(found(tmp_path)) == {ProblemKind.DAMAGED}
    save_file({}, tmp_path / "adapter_model.safetensors")
    assert kinds(found(tmp_path)) == {ProblemKind.NO_TENSORS}
