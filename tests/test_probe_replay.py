"""Probes after the reload: real models and adapters, built with their values in the fresh process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hugging_face
import pytest
import sessions
import torch
from reviewers_loaders import Net
from rule_examples import LOADERS
from safetensors.torch import load_file, save_file

from pytest_campaign import proof, snapshot
from pytest_campaign.campaign import Asked
from pytest_campaign.checks import Pair
from pytest_campaign.evidence import Files
from pytest_campaign.formats.base import Depth
from pytest_campaign.loaders import Loader
from pytest_campaign.record import Result
from pytest_campaign.reload.client import Reloader
from pytest_campaign.reload.protocol import Limits
from pytest_campaign.session import run_check

TOKENS = torch.arange(12).reshape(2, 6)
PROBE = "probe.safetensors"


@pytest.fixture(scope="module")
def reloader() -> Iterator[Reloader]:
    with Reloader(Limits(timeout=60.0, memory=1 << 27, threads=1)) as running:
        yield running


def checked(
    out: Path, path: str, running: Reloader, *, kind: str = "checkpoint", function: str | None = None, **more: Any
) -> Result:
    entries = [sessions.entry("it", path, kind, reload={"probe": PROBE}, **more)]
    if (out / "base").exists():
        entries.append(sessions.entry("base", "base", "checkpoint"))
    sessions.manifest(out, *entries)
    campaign = snapshot.campaign(snapshot.take(out), Asked())
    assert [unit.path for unit in campaign.units if unit.path == PROBE] == []
    own = {"it": Loader("*", str(LOADERS), function)} if function else {}
    return run_check(campaign, Pair("it", "reload"), Files(campaign.inventory, running.run, digest=False, loaders=own))


def told(result: Result) -> list[tuple[str, str | None]]:
    return [(finding.rule, finding.path) for finding in result.findings]


def large(model: Any) -> Any:
    """Weights as large as those of a trained model, so that every layer counts."""
    torch.manual_seed(7)
    with torch.no_grad():
        for value in model.parameters():
            if value.ndim > 1:
                value.normal_(0, 0.4)
    return model


@pytest.mark.parametrize(("dtype", "shards"), [(torch.float32, False), (torch.bfloat16, False), (torch.float16, True)], ids=str)
def test_a_language_model(tmp_path: Path, reloader: Reloader, dtype: torch.dtype, shards: bool) -> None:
    model = large(hugging_face.llama()).to(dtype)
    model.save_pretrained(tmp_path / "model", max_shard_size="4KB" if shards else "1GB")
    proof.record(model, {"input_ids": TOKENS, "attention_mask": torch.ones_like(TOKENS)}, tmp_path / PROBE)
    result = checked(tmp_path, "model", reloader)
    assert (told(result), result.depth, result.loader) == ([], Depth.PROBE, None)
    if not shards:
        hugging_face.change(tmp_path / "model/model.safetensors", lambda state: {
            **state, "model.layers.0.self_attn.q_proj.weight": state["model.layers.1.self_attn.q_proj.weight"],
            "model.layers.1.self_attn.q_proj.weight": state["model.layers.0.self_attn.q_proj.weight"]})
        result = checked(tmp_path, "model", reloader)
        assert (told(result), result.depth) == ([("reload.probe-differs", PROBE)], Depth.MODEL)


def bert() -> Any:
    import transformers as t

    return t.BertForSequenceClassification(t.BertConfig(
        hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, vocab_size=128, num_labels=3))


def t5() -> Any:
    import transformers as t

    return t.T5ForConditionalGeneration(t.T5Config(d_model=32, d_ff=64, d_kv=8, num_layers=2, num_heads=4, vocab_size=128))


def mixtral() -> Any:
    import transformers as t

    return t.MixtralForCausalLM(t.MixtralConfig(
        hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, vocab_size=128,
        max_position_embeddings=64, num_key_value_heads=2, num_local_experts=4))


@pytest.mark.parametrize(("make", "inputs"), [
    (bert, {"input_ids": TOKENS}), (mixtral, {"input_ids": TOKENS}), (t5, {"input_ids": TOKENS, "decoder_input_ids": TOKENS})])
def test_other_models(tmp_path: Path, reloader: Reloader, make: Callable[[], Any], inputs: dict[str, torch.Tensor]) -> None:
    model = make()
    model.save_pretrained(tmp_path / "model")
    proof.record(model, inputs, tmp_path / PROBE)
    result = checked(tmp_path, "model", reloader)
    assert (told(result), result.depth) == ([], Depth.PROBE)


def test_weights_in_a_torch_file(tmp_path: Path, reloader: Reloader) -> None:
    from transformers import LlamaForCausalLM

    hugging_face.model(tmp_path / "model")
    proof.record(LlamaForCausalLM.from_pretrained(tmp_path / "model"), {"input_ids": TOKENS}, tmp_path / PROBE)
    torch.save(load_file(tmp_path / "model/model.safetensors"), tmp_path / "model/pytorch_model.bin")
    (tmp_path / "model/model.safetensors").unlink()
    result = checked(tmp_path, "model", reloader)
    assert (told(result), result.depth) == ([], Depth.PROBE)


@pytest.mark.parametrize("options", [
    {}, {"use_dora": True}, {"modules_to_save": ["lm_head"]}, {"init_lora_weights": "pissa"}], ids=str)
def test_an_adapter_on_its_base(tmp_path: Path, reloader: Reloader, options: dict[str, Any]) -> None:
    large(hugging_face.llama()).save_pretrained(tmp_path / "base")
    base = large(hugging_face.llama())
    hugging_face.adapter(tmp_path / "adapter", base=base, **options)
    hugging_face.settings(tmp_path / "adapter/adapter_config.json", base_model_name_or_path="base", revision=None)
    proof.record(hugging_face.adapted(tmp_path / "adapter", large(hugging_face.llama())), {"input_ids": TOKENS}, tmp_path / PROBE)
    more = {"kind": "adapter", "base": {"model": "acme/tiny", "path": "base"}}
    result = checked(tmp_path, "adapter", reloader, **more)
    assert (told(result), result.depth) == ([], Depth.PROBE)
    if not options:
        hugging_face.change(tmp_path / "base/model.safetensors", lambda state: {
            name: value * 1.1 if "down_proj" in name else value for name, value in state.items()})
        assert told(checked(tmp_path, "adapter", reloader, **more)) == [("reload.probe-differs", PROBE)]


def test_a_model_for_which_nobody_has_the_memory(tmp_path: Path, reloader: Reloader) -> None:
    model = hugging_face.llama()
    model.save_pretrained(tmp_path / "model")
    proof.record(model, {"input_ids": TOKENS}, tmp_path / PROBE)
    data = load_file(tmp_path / "model/model.safetensors")
    data["model.embed_tokens.weight"] = torch.zeros(1 << 20, 16)
    data["lm_head.weight"] = torch.zeros(1 << 20, 16)
    save_file(data, tmp_path / "model/model.safetensors", {"format": "pt"})
    hugging_face.settings(tmp_path / "model/config.json", vocab_size=1 << 20)
    result = checked(tmp_path, "model", reloader)
    assert (result.outcome, [finding.rule for finding in result.findings]) == ("unverified", ["reload.memory-limit"])
    assert result.depth is Depth.MODEL


def test_a_probe_that_is_no_probe_is_said_by_the_fresh_process(tmp_path: Path, reloader: Reloader) -> None:
    torch.save(Net().state_dict(), tmp_path / "net.pt")
    (tmp_path / PROBE).write_bytes(b"{}")
    assert ("reload.probe-file", PROBE) in told(checked(tmp_path, "net.pt", reloader, function="net"))


def test_probes_are_no_checkpoints_of_their_own(tmp_path: Path) -> None:
    proof.record(Net(), torch.ones(2, 6), tmp_path / "runs/probe.safetensors")
    assert snapshot.take(tmp_path).units == ()
