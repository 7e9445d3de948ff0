"""Pipelines that diffusers saved: the forms in which it saves them, and what goes missing or is exchanged in them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from disk_source import DiskSource
from safetensors.torch import load_file, save_file

from pytest_campaign import discovery
from pytest_campaign.formats import formats
from pytest_campaign.formats.base import Depth, ProblemKind, Reading
from pytest_campaign.inventory import take

VOCABULARY = ["<|startoftext|>", "!", "<|endoftext|>", "l", "o", "w", "lo", "l</w>", "w</w>", "low</w>"]
UNET = "unet/diffusion_pytorch_model"


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Stable Diffusion with every part, some kilobytes each."""
    import diffusers
    import transformers

    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("vocabulary")
    (folder / "vocab.json").write_text(json.dumps({token: place for place, token in enumerate(VOCABULARY)}))
    (folder / "merges.txt").write_text("#version: 0.2\nl o\nlo w</w>\n")
    text = transformers.CLIPTextConfig(vocab_size=len(VOCABULARY), hidden_size=32, intermediate_size=37, num_hidden_layers=2,
                                       num_attention_heads=4, bos_token_id=0, eos_token_id=2, pad_token_id=1)
    unet = diffusers.UNet2DConditionModel(
        sample_size=8, layers_per_block=1, block_out_channels=(8, 16), norm_num_groups=4, cross_attention_dim=32,
        attention_head_dim=4, down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"))
    return diffusers.StableDiffusionPipeline(
        vae=diffusers.AutoencoderKL(block_out_channels=(8,), norm_num_groups=4, sample_size=16),
        text_encoder=transformers.CLIPTextModel(text), tokenizer=transformers.CLIPTokenizer.from_pretrained(str(folder)),
        unet=unet, scheduler=diffusers.DDIMScheduler(steps_offset=1, clip_sample=False), safety_checker=None,
        feature_extractor=None, requires_safety_checker=False)


def readings(root: Path) -> dict[str, Reading]:
    """Everything that is recognised below a folder, by its format and path, and what reading it gives."""
    units, unread = discovery.recognise(take(root))
    assert not unread
    return {f"{unit.format} {unit.path}": formats()[unit.format].read(unit, DiskSource(root, Depth.MODEL)) for unit in units}


def problems(root: Path) -> set[tuple[ProblemKind, str]]:
    return {(problem.kind, problem.path) for reading in readings(root).values() for problem in reading.problems}


@pytest.mark.parametrize("how", [{}, {"safe_serialization": False}, {"variant": "fp16"}, {"max_shard_size": "20KB"}], ids=str)
def test_each_form_in_which_a_pipeline_is_saved(pipeline: Any, tmp_path: Path, how: dict[str, object]) -> None:
    pipeline.save_pretrained(tmp_path / "p", **how)
    found = readings(tmp_path)
    assert {name: list(reading.problems) for name, reading in found.items() if reading.problems} == {}
    assert "diffusers pipeline p" in found


def test_a_model_of_a_pipeline_by_itself(pipeline: Any, tmp_path: Path) -> None:
    pipeline.unet.save_pretrained(tmp_path / "unet")
    assert [list(reading.problems) for reading in readings(tmp_path).values()] == [[]]


def cut(root: Path) -> None:
    path = root / f"{UNET}.safetensors"
    path.write_bytes(path.read_bytes()[:-100])


def a_nan(root: Path) -> None:
    tensors = load_file(root / f"{UNET}.safetensors")
    tensors["conv_in.weight"][0, 0, 0, 0] = float("nan")
    save_file(tensors, root / f"{UNET}.safetensors")


@pytest.mark.parametrize(("spoil", "expected"), [
    (lambda root: shutil.rmtree(root / "vae"), (ProblemKind.FILE_MISSING, "p/vae")),
    (lambda root: (root / f"{UNET}.safetensors").unlink(), (ProblemKind.NO_WEIGHTS, "p/unet")),
    (lambda root: (root / "vae/config.json").unlink(), (ProblemKind.FILE_MISSING, "p/vae/config.json")),
    (lambda root: (root / "scheduler/scheduler_config.json").unlink(), (ProblemKind.FILE_MISSING, "p/scheduler")),
    (lambda root: (root / "model_index.json").unlink(), (ProblemKind.FILE_MISSING, "p/model_index.json")),
    (cut, (ProblemKind.TRUNCATED, f"p/{UNET}.safetensors")),
    (a_nan, (ProblemKind.NAN, f"p/{UNET}.safetensors")),
], ids=["no part", "no weights", "no configuration", "no scheduler", "no index", "cut", "nan"])
def test_what_is_lost_or_spoilt_is_named(pipeline: Any, tmp_path: Path, spoil: Callable[[Path], None],
                                         expected: tuple[ProblemKind, str]) -> None:
    pipeline.save_pretrained(tmp_path / "p")
    spoil(tmp_path / "p")
    assert expected in problems(tmp_path)


def test_a_shard_that_is_missing_is_named(pipeline: Any, tmp_path: Path) -> None:
    pipeline.save_pretrained(tmp_path / "p", max_shard_size="20KB")
    lost = sorted((tmp_path / "p/unet").glob("*-00002-of-*.safetensors"))[0]
    lost.unlink()
    found = [problem for reading in readings(tmp_path).values() for problem in reading.problems]
    assert [(problem.kind, problem.path) for problem in found] == [
        (ProblemKind.SHARD_MISSING, f"p/{UNET}.safetensors.index.json")]
    assert lost.name in found[0].observed
