"""Folders of save_pretrained: real models of several kinds, and what silently breaks them."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import campaigns
import hugging_face
import pytest
import torch
from disk_source import DiskSource, folder
from hugging_face import Tensors
from safetensors.torch import load_file, save_file

from pytest_campaign import snapshot
from pytest_campaign.campaign import Asked
from pytest_campaign.evidence import Files
from pytest_campaign.formats import formats, hf_model, rebuilding
from pytest_campaign.formats.base import Depth, ProblemKind, Reading, Unit
from pytest_campaign.reload.client import Reloader
from pytest_campaign.reload.protocol import Limits


def found(root: Path, depth: Depth = Depth.MODEL, **more: object) -> Reading:
    """The reading of the one model in a folder."""
    (unit,) = hf_model.gather(folder(root))
    return hf_model.read(unit, DiskSource(root, depth, **more))


def kinds(reading: Reading) -> set[ProblemKind]:
    return {problem.kind for problem in reading.problems}


SIZES = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 128,
         "max_position_embeddings": 64}


def zoo() -> dict[str, Callable[[], object]]:
    import transformers as t

    return {
        "bert": lambda: t.BertForMaskedLM(t.BertConfig(**SIZES)),
        "bert with labels": lambda: t.BertForSequenceClassification(t.BertConfig(**SIZES, num_labels=3)),
        "gpt2": lambda: t.GPT2LMHeadModel(t.GPT2Config(n_embd=32, n_layer=2, n_head=4, vocab_size=128, n_positions=64)),
        "mixtral": lambda: t.MixtralForCausalLM(t.MixtralConfig(**SIZES, num_key_value_heads=2, num_local_experts=4)),
        "t5": lambda: t.T5ForConditionalGeneration(
            t.T5Config(d_model=32, d_ff=64, d_kv=8, num_layers=2, num_heads=4, vocab_size=128)),
        "vit": lambda: t.ViTForImageClassification(t.ViTConfig(
            hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, image_size=16, patch_size=8)),
        "albert": lambda: t.AlbertForMaskedLM(t.AlbertConfig(**SIZES, embedding_size=16)),
        "mamba2": lambda: t.Mamba2ForCausalLM(t.Mamba2Config(  # its configuration holds an infinite number
            vocab_size=64, hidden_size=32, num_hidden_layers=2, state_size=4, num_heads=8, head_dim=8, n_groups=1)),
    }


@pytest.mark.parametrize("name", ["bert", "bert with labels", "gpt2", "mixtral", "t5", "vit", "albert", "mamba2"])
@pytest.mark.parametrize("depth", [Depth.TENSORS, Depth.MODEL])
def test_sound_models_of_many_kinds(tmp_path: Path, name: str, depth: Depth) -> None:
    zoo()[name]().save_pretrained(tmp_path)
    reading = found(tmp_path, depth)
    assert (reading.problems, reading.depth) == ([], depth)


@pytest.mark.parametrize("options", [{}, {"tied": True}, {"shards": True}, {"layers": 1}], ids=str)
@pytest.mark.parametrize("depth", [Depth.HEADER, Depth.TENSORS, Depth.MODEL])
def test_sound_language_models(tmp_path: Path, options: dict[str, object], depth: Depth) -> None:
    hugging_face.tokenizer(hugging_face.model(tmp_path, **options))
    reading = found(tmp_path, depth)
    assert (reading.problems, reading.depth) == ([], depth)


@pytest.mark.parametrize("depth", [Depth.TENSORS, Depth.MODEL])
@pytest.mark.parametrize("zip_format", [True, False])
def test_weights_in_a_torch_file(tmp_path: Path, depth: Depth, zip_format: bool) -> None:
    state = load_file(hugging_face.model(tmp_path, tied=True) / "model.safetensors")
    (tmp_path / "model.safetensors").unlink()
    state["lm_head.weight"] = state["model.embed_tokens.weight"]
    torch.save(state, tmp_path / "pytorch_model.bin", _use_new_zipfile_serialization=zip_format)
    reading = found(tmp_path, depth)
    assert (reading.problems, reading.depth) == ([], depth)


def without(*words: str) -> Callable[[Tensors], Tensors]:
    return lambda state: {name: state[name] for name in state if not any(word in name for word in words)}


def renamed(old: str, new: str) -> Callable[[Tensors], Tensors]:
    return lambda state: {name.replace(old, new, 1): state[name] for name in state}


SPOILT: dict[str, tuple[Callable[[Tensors], Tensors], ProblemKind, Depth]] = {
    "compiled": (lambda state: {"_orig_mod." + name: state[name] for name in state}, ProblemKind.WRAPPER_PREFIX, Depth.TENSORS),
    "compiled inside": (renamed("layers.1.", "layers.1._orig_mod."), ProblemKind.WRAPPER_PREFIX, Depth.TENSORS),
    "distributed": (lambda state: {"module." + name: state[name] for name in state}, ProblemKind.WRAPPER_PREFIX, Depth.TENSORS),
    "checkpointed": (renamed("mlp.", "_checkpoint_wrapped_module.mlp."), ProblemKind.WRAPPER_PREFIX, Depth.TENSORS),
    "no output layer": (without("lm_head"), ProblemKind.MISSING_TENSORS, Depth.TENSORS),
    "no layer 0": (without("layers.0."), ProblemKind.MISSING_TENSORS, Depth.TENSORS),
    "no last layer": (without("layers.1."), ProblemKind.MISSING_TENSORS, Depth.TENSORS),
    "not gathered": (lambda state: state | {"model.embed_tokens.weight": torch.empty(0)}, ProblemKind.SHAPE, Depth.TENSORS),
    "other rows": (lambda state: state | {"model.embed_tokens.weight": torch.ones(65, 16)}, ProblemKind.SHAPE, Depth.TENSORS),
    "one tensor lost": (without("layers.1.mlp.up_proj"), ProblemKind.MISSING_TENSORS, Depth.MODEL),
    "a norm lost": (without("model.norm"), ProblemKind.MISSING_TENSORS, Depth.MODEL),
    "renamed": (renamed("model.", "pretrained_model.model."), ProblemKind.MISSING_TENSORS, Depth.MODEL),
    "half a tensor": (lambda state: state | {"model.norm.weight": torch.ones(8)}, ProblemKind.SHAPE, Depth.MODEL),
    "a bias too many": (
        lambda state: state | {"model.layers.0.mlp.up_proj.bias": torch.ones(32)}, ProblemKind.UNEXPECTED_TENSORS, Depth.MODEL),
    "a head too many": (lambda state: state | {"score.weight": torch.ones(2, 16)}, ProblemKind.EXTRA_TENSORS, Depth.MODEL),
    "a buffer too many": (
        lambda state: state | {"model.layers.0.self_attn.masked_bias": torch.ones(1)}, ProblemKind.EXTRA_TENSORS, Depth.MODEL),
    "nan": (lambda state: state | {"model.norm.weight": torch.full((16,), float("nan"))}, ProblemKind.NAN, Depth.TENSORS),
}


@pytest.mark.parametrize("name", SPOILT)
def test_spoilt_tensors(tmp_path: Path, name: str) -> None:
    """Each is found at the depth from which it can be, and at no lesser one with another explanation."""
    spoil, kind, needed = SPOILT[name]
    hugging_face.change(hugging_face.model(tmp_path) / "model.safetensors", spoil)
    assert kinds(found(tmp_path, Depth.MODEL)) == {kind}
    assert kinds(found(tmp_path, Depth.TENSORS)) == ({kind} if needed is Depth.TENSORS else set())


def test_a_lost_expert_is_named(tmp_path: Path) -> None:
    """The library fuses the experts while it loads; of a part of one it says only that this went wrong."""
    zoo()["mixtral"]().save_pretrained(tmp_path)
    hugging_face.change(tmp_path / "model.safetensors", without("layers.1.block_sparse_moe.experts.3.w1"))
    (problem,) = found(tmp_path).problems
    assert (problem.kind, "experts" in problem.observed) == (ProblemKind.MISSING_TENSORS, True)
    hugging_face.change(tmp_path / "model.safetensors", without("layers.1.block_sparse_moe.experts.3."))
    (problem,) = found(tmp_path).problems
    assert (problem.kind, "experts" in problem.observed) == (ProblemKind.SHAPE, True)


def settings(**values: object) -> Callable[[Path], None]:
    return lambda root: hugging_face.settings(root / "config.json", **values)


CONFIGURED: dict[str, tuple[Callable[[Path], None], set[ProblemKind], Depth]] = {
    "a layer more": (settings(num_hidden_layers=3), {ProblemKind.MISSING_TENSORS}, Depth.MODEL),
    "a layer less": (settings(num_hidden_layers=1), {ProblemKind.UNEXPECTED_TENSORS}, Depth.MODEL),
    "other vocabulary": (settings(vocab_size=32), {ProblemKind.SHAPE}, Depth.MODEL),
    "a text for a number": (settings(hidden_size="wide"), {ProblemKind.CONFIGURATION}, Depth.TENSORS),
    "heads that do not divide": (settings(num_attention_heads=7, head_dim=None), {ProblemKind.CONFIGURATION}, Depth.TENSORS),
    "unknown type": (settings(model_type="acme"), {ProblemKind.NOT_REBUILT}, Depth.TENSORS),
    "unknown class": (settings(architectures=["LlamaForAcme"]), {ProblemKind.NOT_REBUILT}, Depth.TENSORS),
    "not a model": (settings(architectures=["pipeline"]), {ProblemKind.NOT_REBUILT}, Depth.TENSORS),
    "quantised": (settings(quantization_config={"quant_method": "gptq", "bits": 4}), {ProblemKind.NOT_REBUILT}, Depth.TENSORS),
    "attention of another machine": (settings(attn_implementation="flash_attention_2"), set(), Depth.MODEL),
    "code beside": (settings(auto_map={"AutoModelForCausalLM": "modeling_acme.Acme"}), set(), Depth.MODEL),
    "no class": (settings(architectures=None), {ProblemKind.EXTRA_TENSORS, ProblemKind.NOT_REBUILT}, Depth.MODEL),
}


@pytest.mark.parametrize("name", CONFIGURED)
def test_configurations(tmp_path: Path, name: str) -> None:
    change, expected, depth = CONFIGURED[name]
    change(hugging_face.model(tmp_path))
    reading = found(tmp_path)
    assert (kinds(reading), reading.depth) == (expected, depth)


@pytest.mark.parametrize("text", ["", "{", '{"model_type": "llama"', "[]", "\ufeff{}", "[" * 100_000])
def test_a_broken_configuration(tmp_path: Path, text: str) -> None:
    (hugging_face.model(tmp_path) / "config.json").write_text(text)
    units = list(hf_model.gather(folder(tmp_path)))
    if units:  # an empty file is none that recognition looks at; JSON of something else is no model
        assert ProblemKind.CONFIGURATION in kinds(found(tmp_path))


def test_the_code_beside_a_model_is_not_run(tmp_path: Path) -> None:
    hugging_face.settings(hugging_face.model(tmp_path) / "config.json", model_type="acme", auto_map={
        "AutoConfig": "configuration_acme.Acme", "AutoModelForCausalLM": "modeling_acme.Acme", "AutoTokenizer": ["a--b.C", None]})
    for name in ("configuration_acme", "modeling_acme"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'it ran')!r}, 'w')\n")
    assert kinds(found(tmp_path)) == {ProblemKind.NOT_REBUILT}
    assert not (tmp_path / "it ran").exists()
    (tmp_path / "modeling_acme.py").unlink()
    assert kinds(found(tmp_path)) == {ProblemKind.NOT_REBUILT, ProblemKind.FILE_MISSING}


def test_without_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hugging_face.model(tmp_path)
    for name in [name for name in sys.modules if name.partition(".")[0] == "transformers"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "transformers", None)
    reading = found(tmp_path)
    assert (kinds(reading), reading.depth) == ({ProblemKind.NOT_REBUILT}, Depth.TENSORS)
    assert "transformers" in reading.problems[0].observed


@pytest.mark.parametrize(("written", "installed", "expected"), [
    ("5.30.0", "5.24.0", True), ("5.24.1", "5.24.0", False), ("4.57.3", "5.24.0", False), ("6.0.0.dev0", "5.24.0", True),
    (None, "5.24.0", False), ("x", "5.24.0", False)])
def test_newer(written: object, installed: str, expected: bool) -> None:
    assert rebuilding.newer(written, installed) is expected


# ---- what belongs to a model --------------------------------------------------------------------------------


def test_gather_leaves_what_has_its_own_format(tmp_path: Path) -> None:
    hugging_face.tokenizer(hugging_face.model(tmp_path, shards=True))
    torch.save({"state": torch.ones(2)}, tmp_path / "optimizer.pt")
    (tmp_path / "README.md").write_text("a model")
    (unit,) = hf_model.gather(folder(tmp_path))
    assert unit.path == ""
    assert {"config.json", "tokenizer.json", "model.safetensors.index.json"} < set(unit.files)
    assert not {"optimizer.pt", "README.md"} & set(unit.files)


@pytest.mark.parametrize("name", ["model.gguf", "tf_model.h5", "consolidated.pth", "adapter_config.json"])
def test_a_configuration_beside_other_weights_is_no_crashed_save(tmp_path: Path, name: str) -> None:
    (hugging_face.model(tmp_path) / "model.safetensors").unlink()
    (unit,) = hf_model.gather(folder(tmp_path))
    assert unit.hollow
    (tmp_path / name).write_bytes(b"GGUF\3\0\0\0" + bytes(64))
    assert list(hf_model.gather(folder(tmp_path))) == []


@pytest.mark.parametrize("content", [{}, {"hidden_size": 4}, {"_class_name": "UNet2DModel"}, {"architecture": "resnet18"}])
def test_a_configuration_of_something_else(tmp_path: Path, content: dict[str, object]) -> None:
    save_file({"w": torch.ones(2)}, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps(content))
    assert list(hf_model.gather(folder(tmp_path))) == []


def test_shards_without_their_index(tmp_path: Path) -> None:
    hugging_face.model(tmp_path, shards=True)
    (tmp_path / "model.safetensors.index.json").unlink()
    assert ProblemKind.SHARD_INDEX in kinds(found(tmp_path))


def test_a_file_that_is_none(tmp_path: Path) -> None:
    (hugging_face.model(tmp_path) / "model.safetensors").write_text("<!DOCTYPE html><title>Sign in</title>")
    reading = found(tmp_path)
    assert (kinds(reading), reading.depth) == ({ProblemKind.DAMAGED}, None)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_two_files_of_the_same_weights(tmp_path: Path, dtype: torch.dtype) -> None:
    state = load_file(hugging_face.model(tmp_path) / "model.safetensors")
    torch.save({name: tensor.to(dtype) for name, tensor in state.items()}, tmp_path / "pytorch_model.bin")
    assert found(tmp_path).problems == []
    torch.save({name: (tensor + 0.5).to(dtype) for name, tensor in state.items()}, tmp_path / "pytorch_model.bin")
    assert kinds(found(tmp_path)) == {ProblemKind.WEIGHTS_DISAGREE}
    one = dict(state)
    one["model.norm.weight"] = one["model.norm.weight"] * 2
    torch.save({name: tensor.to(dtype) for name, tensor in one.items()}, tmp_path / "pytorch_model.bin")
    (problem,) = found(tmp_path).problems
    assert (problem.where, problem.path) == ("model.norm.weight", "pytorch_model.bin")


def test_every_byte_is_counted(tmp_path: Path) -> None:
    hugging_face.tokenizer(hugging_face.model(tmp_path))
    (unit,) = hf_model.gather(folder(tmp_path))
    for digest in (False, True):
        source = DiskSource(tmp_path, Depth.MODEL, digest=digest)
        reading = hf_model.read(unit, source)
        assert source.done == sum((tmp_path / path).stat().st_size for path in unit.files)
        assert {fact.path for fact in reading.files} == set(unit.files)
        assert all((fact.sha256 is not None) is digest for fact in reading.files)


# ---- the tokenizer ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("extra", "expected"), [(0, set()), (2, set()), (3, {ProblemKind.VOCABULARY})])
def test_tokens_beyond_the_embedding(tmp_path: Path, extra: int, expected: set[ProblemKind]) -> None:
    hugging_face.tokenizer(hugging_face.model(tmp_path), *(f"<{number}>" for number in range(extra)))
    assert kinds(found(tmp_path)) == expected


def test_the_places_of_a_unigram_vocabulary_are_its_ids(tmp_path: Path) -> None:
    hugging_face.model(tmp_path)
    for count, expected in ((64, set()), (65, {ProblemKind.VOCABULARY})):
        vocabulary = [[f"w{number}", -1.0] for number in range(count)]
        content = {"model": {"type": "Unigram", "vocab": vocabulary}, "added_tokens": []}
        (tmp_path / "tokenizer.json").write_text(json.dumps(content))
        assert kinds(found(tmp_path)) == expected


LISTS: dict[str, Callable[[int], dict[str, str]]] = {  # files of tokenizers with so many ids
    "one word a line": lambda count: {"vocab.txt": "".join(f"w{number}\n" for number in range(count))},
    "one word a line of Windows": lambda count: {"vocab.txt": "\r\n".join(f"w{number}" for number in range(count)) + "\r\n\r\n"},
    "numbered words": lambda count: {
        "vocab.json": json.dumps({f"w{number}": number for number in range(count)}), "merges.txt": "#version: 0.2\n"},
    "added words": lambda count: {"vocab.txt": "a\nb\n", "tokenizer_config.json": json.dumps(
        {"tokenizer_class": "BertTokenizer", "added_tokens_decoder": {str(count - 1): {"content": "<z>"}, "0": {"content": "a"}}},
    )},
}


@pytest.mark.parametrize("name", LISTS)
def test_the_ids_of_tokenizers_of_other_files(tmp_path: Path, name: str) -> None:
    hugging_face.model(tmp_path)
    for count, expected in ((hugging_face.ROWS, []), (hugging_face.ROWS + 1, [ProblemKind.VOCABULARY])):
        for file, text in LISTS[name](count).items():
            (tmp_path / file).write_bytes(text.encode())
        assert [problem.kind for problem in found(tmp_path).problems] == expected


def test_a_tokenizer_that_only_reads_what_the_model_says(tmp_path: Path) -> None:
    """Tokens of CTC are those of the output layer; the ends of a sentence, which the library adds, it need not have."""
    hugging_face.model(tmp_path)
    added = {str(hugging_face.ROWS + number): {"content": token} for number, token in enumerate(("<s>", "</s>"))}
    (tmp_path / "vocab.json").write_text('{"a": 0, "b": 1}')
    for kind, expected in (("Wav2Vec2CTCTokenizer", []), ("BertTokenizer", [ProblemKind.VOCABULARY])):
        settings = {"tokenizer_class": kind, "added_tokens_decoder": added}
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
        assert [problem.kind for problem in found(tmp_path).problems] == expected


@pytest.mark.parametrize(("kind", "sound"), [
    ("GPT2Tokenizer", False), ("RobertaTokenizerFast", False), ("Wav2Vec2CTCTokenizer", True)])
def test_a_vocabulary_without_its_merges(tmp_path: Path, kind: str, sound: bool) -> None:
    hugging_face.model(tmp_path)
    (tmp_path / "vocab.json").write_text('{"a": 0, "b": 1}')
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": kind}))
    expected = [] if sound else [(ProblemKind.NO_VOCABULARY, "merges.txt")]
    assert [(problem.kind, problem.path) for problem in found(tmp_path).problems] == expected
    (tmp_path / "merges.txt").write_text("#version: 0.2\n")
    assert found(tmp_path).problems == []


@pytest.mark.parametrize("name", ["preprocessor_config.json", "processor_config.json", "chat_template.json"])
def test_a_processor_that_was_cut(tmp_path: Path, name: str) -> None:
    hugging_face.model(tmp_path)
    (tmp_path / name).write_text('{"do_resize": true, "size": null}')
    assert found(tmp_path).problems == []
    (tmp_path / name).write_text('{"do_resize": tr')
    assert [(problem.kind, problem.path) for problem in found(tmp_path).problems] == [(ProblemKind.CONFIGURATION, name)]


@pytest.mark.parametrize("name", ["vocab.txt", "tokenizer.model", "spiece.model", "qwen.tiktoken", "source.spm", "vocab.json"])
def test_other_vocabularies(tmp_path: Path, name: str) -> None:
    (hugging_face.tokenizer(hugging_face.model(tmp_path)) / "tokenizer.json").unlink()
    assert kinds(found(tmp_path)) == {ProblemKind.NO_VOCABULARY}
    (tmp_path / name).write_text("{}")
    assert found(tmp_path).problems == []


# ---- the parts of a model of sentences ----------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore")
def test_the_parts_of_a_model_of_sentences(tmp_path: Path) -> None:
    parts = pytest.importorskip("sentence_transformers.sentence_transformer.modules")
    from sentence_transformers import SentenceTransformer

    hugging_face.tokenizer(tmp_path / "plain")
    zoo()["bert"]().bert.save_pretrained(tmp_path / "plain")
    made = [parts.Transformer(str(tmp_path / "plain")), parts.Pooling(32, pooling_mode="cls"), parts.Normalize()]
    SentenceTransformer(modules=made).save(str(tmp_path / "made"))
    assert found(tmp_path / "made").problems == []
    for place in (tmp_path / "made").glob("2_Normalize"):
        shutil.rmtree(place)
    assert found(tmp_path / "made").problems == []
    shutil.rmtree(tmp_path / "made/1_Pooling")
    (problem,) = found(tmp_path / "made").problems
    assert (problem.kind, problem.path) == (ProblemKind.FILE_MISSING, "1_Pooling/config.json")


# ---- in a fresh process, as deliverables --------------------------------------------------------------------


@pytest.fixture(scope="module")
def reloader() -> object:
    with Reloader(Limits(timeout=120.0, memory=1 << 28, threads=1)) as running:
        yield running


def discovered(root: Path) -> dict[str, list[Unit]]:
    campaign = snapshot.campaign(snapshot.Snapshot.from_text(snapshot.take(root).to_text()), Asked())
    return {deliverable.id: list(campaign.units_of(deliverable)) for deliverable in campaign.deliverables}


def test_the_output_directory_itself_and_its_steps(tmp_path: Path, reloader: Reloader) -> None:
    """What Trainer leaves: the model in the output directory, and its steps as deliverables of their own."""
    for folder_ in (tmp_path, tmp_path / "checkpoint-2", tmp_path / "checkpoint-4"):
        hugging_face.model(folder_)
        (folder_ / "trainer_state.json").write_text('{"log_history": [{"grad_norm": Infinity}]}')
    torch.save({"state": torch.ones(2)}, tmp_path / "checkpoint-4/optimizer.pt")
    found_here = discovered(tmp_path)
    assert list(found_here) == [".", "checkpoint-2", "checkpoint-4"]
    assert [(unit.format, unit.path) for unit in found_here["checkpoint-4"]] == [
        ("Hugging Face model", "checkpoint-4"), ("Trainer state", "checkpoint-4")]

    campaign = snapshot.campaign(snapshot.take(tmp_path), Asked())
    evidence = Files(campaign.inventory, reloader.run, digest=False)
    for deliverable in campaign.deliverables:
        answer = evidence.reload(campaign, deliverable)
        assert answer.deaths == [None] * len(answer.deaths), answer.log
        assert evidence.learned(campaign, deliverable, "reload")["depth"] is Depth.MODEL


def test_the_outermost_folder_is_the_deliverable(tmp_path: Path) -> None:
    hugging_face.model(tmp_path / "runs/a/model")
    hugging_face.model(tmp_path / "runs/a/model/best")
    (tmp_path / "runs/b").mkdir()
    (tmp_path / "runs/b/config.json").write_text((tmp_path / "runs/a/model/config.json").read_text())
    hugging_face.model(tmp_path / "runs/b/checkpoint-2")
    save_file({"w": torch.ones(2)}, tmp_path / "runs/vector.safetensors")
    assert list(discovered(tmp_path)) == ["runs/a/model", "runs/b/checkpoint-2", "runs/vector.safetensors"]


def test_a_single_file_that_is_delivered_as_weights(tmp_path: Path) -> None:
    """It has the model that it belongs to; a file of the same folder that is delivered as something else has not."""
    made = campaigns.write(tmp_path)
    hugging_face.model(made / "runs/control/model")
    made.add("control/weights", "checkpoint", "runs/control/model/model.safetensors")
    made.add("control/settings", "parameters", "runs/control/model/config.json")
    campaign = snapshot.campaign(snapshot.take(made.save().directory), Asked())
    assert [unit.format for unit in campaign.units_of(campaign.by_id["control/weights"])] == [hf_model.NAME]
    assert campaign.units_of(campaign.by_id["control/settings"]) == ()


def test_the_format_is_among_the_formats() -> None:
    assert formats()[hf_model.NAME].preload
