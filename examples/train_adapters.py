"""Fine-tune a tiny language model on the CPU and deliver it: a base, a control, and adapters of two ranks.

    python train_adapters.py OUT

The base is trained first and delivered with the campaign, so that the adapters can be loaded anywhere. The control is
the same fine-tuning of all weights; the variants train LoRA adapters on the base. Everything is made here from a
configuration; it needs torch, transformers, tokenizers and peft, no network, and takes about half a minute.

The task: a row of letters, a colon, and the same letters backwards.
"""

from __future__ import annotations

import dataclasses
import os
import random
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import peft
import tokenizers
import torch
import transformers
from train_campaign import deliver, main, write_data, write_json, write_jsonl

from pytest_campaign import proof
from pytest_campaign.recording import Campaign

CAMPAIGN = "reversal-rank"
LETTERS = "abcdefgh"
LENGTH = 4
BASE = "base"  # where the base lies, seen from the campaign directory: what the adapters name


@dataclasses.dataclass(frozen=True)
class Parameters:
    """Everything that decides a run, apart from the data. Without a rank all weights are trained."""

    rank: int | None = None
    learning_rate: float = 0.003
    batch_size: int = 32
    steps: int = 60
    seed: int = 1


RUNS = {"control": Parameters(), "rank2": Parameters(rank=2, learning_rate=0.02), "rank8": Parameters(rank=8, learning_rate=0.02)}
RECORDS = {  # id: (kind, file in the run's folder, what else is recorded)
    "parameters": ("parameters", "parameters.json", {}),
    "metrics": ("metrics", "metrics.jsonl", {}),
    "predictions": ("predictions", "predictions.jsonl", {"dataset": "test", "key": ["id"], "value": "prediction"}),
}
PROBE = "probe.safetensors"
WEIGHTS = {"model": ("checkpoint", "model", {"purpose": "inference", "depth": "probe", "probe": PROBE})}
ADAPTER = {"adapter": ("adapter", "adapter", {"purpose": "inference", "depth": "probe", "probe": PROBE, "base": BASE})}
TOGETHER = {
    "base": ("checkpoint", BASE, {"purpose": "inference", "depth": "model"}),
    "data": ("dataset", "data", {}),
    "instructions": ("instructions", "INSTRUCTIONS.md", {}),
}


def run_deliverables(run: str) -> dict[str, tuple[str, str, dict[str, Any]]]:
    """What a run delivers: its records, and a whole model or an adapter."""
    return {**RECORDS, **(WEIGHTS if RUNS[run].rank is None else ADAPTER)}


# The model, its tokenizer and the data


def build_model() -> transformers.LlamaForCausalLM:
    """A language model of some ten thousand parameters, with the weights of a fresh start."""
    torch.manual_seed(0)
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=16, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=2, max_position_embeddings=32, bos_token_id=0, eos_token_id=1, pad_token_id=2))


def build_tokenizer() -> transformers.PreTrainedTokenizerFast:
    """One token for each letter, the colon, and the beginning, end and padding of a row."""
    words = {word: number for number, word in enumerate(["<s>", "</s>", "<pad>", ":", *LETTERS])}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="<pad>"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Split("", "isolated")
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", pad_token="<pad>", model_max_length=32)


def make_rows(name: str, count: int, seed: int) -> list[dict[str, Any]]:
    """Rows with an id that never changes."""
    generator = random.Random(seed)
    texts = ["".join(generator.choices(LETTERS, k=LENGTH)) for _ in range(count)]
    return [{"id": f"{name}-{index:04}", "text": text, "label": text[::-1]} for index, text in enumerate(texts)]


def batch(tokenizer: Any, rows: Sequence[dict[str, Any]], *, answers: bool) -> torch.Tensor:
    texts = [f"{row['text']}:{row['label'] if answers else ''}" for row in rows]
    return torch.tensor([[tokenizer.bos_token_id, *tokenizer(text, add_special_tokens=False)["input_ids"]] for text in texts])


# Training and prediction


def train(model: Any, tokenizer: Any, rows: Sequence[dict[str, Any]], parameters: Parameters) -> list[dict[str, Any]]:
    """Train what requires a gradient; the loss of each step."""
    generator = random.Random(parameters.seed)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=parameters.learning_rate)
    metrics = []
    model.train()
    for step in range(1, parameters.steps + 1):
        tokens = batch(tokenizer, generator.sample(rows, parameters.batch_size), answers=True)
        labels = tokens.clone()
        labels[:, : LENGTH + 2] = -100  # the row itself is given; only the answer counts
        loss = model(input_ids=tokens, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        metrics.append({"step": step, "loss": loss.item()})
    return metrics


@torch.inference_mode()
def predict(model: Any, tokenizer: Any, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """One record for each row, with the row's id; greedy decoding."""
    model.eval()
    tokens = batch(tokenizer, rows, answers=False)
    for _ in range(LENGTH):
        tokens = torch.cat([tokens, model(input_ids=tokens).logits[:, -1:].argmax(dim=-1)], dim=1)
    answers = ["".join(tokenizer.convert_ids_to_tokens(row)) for row in tokens[:, -LENGTH:].tolist()]
    return [{"id": row["id"], "label": row["label"], "prediction": answer} for row, answer in zip(rows, answers, strict=True)]


def execute(out: Path, folder: Path, parameters: Parameters, data: dict[str, list[dict[str, Any]]]) -> tuple[list, dict]:
    """One run from the base to the outputs in ``folder``; its predictions, and the proof that its weights are those of memory."""
    torch.manual_seed(parameters.seed)
    tokenizer = transformers.AutoTokenizer.from_pretrained(out / BASE)
    model: Any = transformers.AutoModelForCausalLM.from_pretrained(out / BASE)
    model.name_or_path = BASE  # peft writes it into adapter_config.json; the path of this machine would be lost
    if parameters.rank is not None:
        model = peft.get_peft_model(model, peft.LoraConfig(
            task_type="CAUSAL_LM", r=parameters.rank, lora_alpha=2 * parameters.rank,
            target_modules=["q_proj", "k_proj", "v_proj", "o_proj", "up_proj", "down_proj"]))
    write_jsonl(folder / "metrics.jsonl", train(model, tokenizer, data["train"], parameters))
    predictions = predict(model, tokenizer, data["test"])
    write_jsonl(folder / "predictions.jsonl", predictions)
    proven = {"tensor_digests": proof.digests(model)}  # from memory, before anything is saved
    if parameters.rank is None:
        model.save_pretrained(folder / "model")
        tokenizer.save_pretrained(folder / "model")
    else:
        model.save_pretrained(folder / "adapter")
    proof.record(model, {"input_ids": batch(tokenizer, data["test"][:2], answers=True)}, folder / PROBE)
    return predictions, proven


# The documents


def plan() -> dict[str, Any]:
    """What the campaign promises. Written before the first run and never changed afterwards."""
    promised = {run: [{"id": id, "kind": kind} for id, (kind, _, _) in run_deliverables(run).items()] for run in RUNS}
    return {
        "plan_version": 1, "campaign": CAMPAIGN,
        "question": "Which rank of an adapter comes within five points of fine-tuning all weights?",
        "runs": [{"id": run, "role": "control" if run == "control" else "variant", "priority": "essential",
                  "deliverables": promised[run]} for run in RUNS],
        "deliverables": [{"id": id, "kind": kind, "priority": "essential"} for id, (kind, _, _) in TOGETHER.items()],
        "abort_rules": [{"id": "not-finite", "when": "the training loss is not finite"}],
    }


def conclude(accuracy: dict[str, float]) -> dict[str, Any]:
    """The answer to the plan's question."""
    close = [run for run in RUNS if run != "control" and accuracy[run] >= accuracy["control"] - 0.05]
    return {"outcome": "positive" if close else "negative", "based_on": list(RUNS),
            "summary": ", ".join(f"{run}: {value:.3f}" for run, value in accuracy.items())
            + (f". Close enough: {', '.join(close)}." if close else ". No rank comes close enough.")}


INSTRUCTIONS = """\
# Loading the deliverables again

Needs torch, transformers and peft (the versions used are in `manifest.json` under `provenance`). Run it in this directory: the
adapters name their base as `base`.

```python
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("base")
control = AutoModelForCausalLM.from_pretrained("runs/control/model")
adapted = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained("base"), "runs/rank8/adapter")
```
"""


def campaign(out: Path) -> None:
    """Everything, in the order in which it must happen."""
    torch.set_num_threads(1)
    out.mkdir(parents=True, exist_ok=True)
    write_json(out / "plan.json", plan())
    record = Campaign(out, command="python train_adapters.py OUT")
    data = {"train": make_rows("train", 400, seed=10), "test": make_rows("test", 100, seed=11)}
    write_data(record, data)
    tokenizer, base = build_tokenizer(), build_model()
    train(base, tokenizer, data["train"], Parameters(steps=300))
    base.save_pretrained(out / BASE)
    tokenizer.save_pretrained(out / BASE)
    record.base(BASE, BASE, path=BASE)

    accuracy = {}
    for id, parameters in RUNS.items():
        with record.run(id, parameters=dataclasses.asdict(parameters), seed=parameters.seed, steps=parameters.steps,
                        datasets=list(data)) as run:
            rows, proven = execute(out, run.folder, parameters, data)
            accuracy[id] = sum(row["prediction"] == row["label"] for row in rows) / len(rows)
            deliver(run, run_deliverables(id), run.folder, model=proven, adapter=proven)
    (out / "INSTRUCTIONS.md").write_text(INSTRUCTIONS, encoding="utf-8")
    deliver(record, TOGETHER, out)
    record.decide(**conclude(accuracy))
    print(f"{CAMPAIGN}: " + ", ".join(f"{run} {value:.3f}" for run, value in accuracy.items()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], campaign))
