"""What trainings leave behind: ``python trainings.py OUT`` trains tiny models and fills one folder of OUT for each campaign.

All is written by the libraries themselves, in a process of its own, as a training is. Only the stores of MLflow and W&B, whose
libraries are too heavy for a test, are laid out by hand as those write them (mlflow 3.17, ``FileStore``; wandb 0.19, offline).
"""

from __future__ import annotations

import functools
import json
import logging
import math
import os
import sys
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import hugging_face
import torch
from hugging_face import BASE, llama

STEPS = 4
OLD_MACHINE = "/workspace/acme"  # where the tracking tools say that they ran
_TEMPLATE = "{% for message in messages %}{{ message['content'] }}{% endfor %}"


@functools.cache
def _scratch() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="trainings-")


def rows() -> list[dict[str, list[int]]]:
    """Sixteen rows of eight tokens."""
    tokens = torch.randint(0, 60, (16, 8), generator=torch.Generator().manual_seed(0)).tolist()
    return [{"input_ids": row, "labels": row} for row in tokens]


@functools.cache
def trainers() -> tuple[type, type]:
    """transformers' Trainer, and one whose log shows what a run in fp16 logs when its gradients overflow."""
    from transformers import Trainer

    class Overflowing(Trainer):  # type: ignore[misc]
        def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
            odd = {2: {"loss": math.inf, "grad_norm": math.nan}, 3: {"grad_norm": math.inf}}
            super().log(logs | odd.get(self.state.global_step, {}), start_time)

    return Trainer, Overflowing


def train(
    out: Path, model: Any = None, *, tokenizer: bool = False, save: bool = True, overflow: bool = False, **options: Any
) -> Any:
    """Train with the Trainer: two checkpoints in ``out`` and, with ``save``, the model itself beside them."""
    from transformers import AutoTokenizer, TrainingArguments

    settings: dict[str, Any] = {
        "output_dir": str(out), "max_steps": STEPS, "save_steps": 2, "logging_steps": 1, "per_device_train_batch_size": 4,
        "learning_rate": 1e-2, "report_to": [], "use_cpu": True, "disable_tqdm": True}
    given: dict[str, Any] = {}
    if tokenizer:
        given["processing_class"] = AutoTokenizer.from_pretrained(hugging_face.tokenizer(Path(_scratch().name, "tokenizer")))
        given["processing_class"].chat_template = _TEMPLATE
    trainer = trainers()[overflow](model=model if model is not None else llama(), args=TrainingArguments(**settings | options),
                                   train_dataset=rows(), eval_dataset=rows()[:4], **given)
    trainer.train()
    if save:
        trainer.save_model()
    return trainer


def lora(base: str = BASE["model"], revision: str | None = BASE["revision"], **options: Any) -> Any:
    """The model that the name of the base stands for, under a new adapter."""
    import peft

    model = llama()
    model.name_or_path = base
    settings = {"r": 4, "target_modules": ["q_proj", "v_proj"], "task_type": "CAUSAL_LM", "revision": revision}
    return peft.get_peft_model(model, peft.LoraConfig(**settings | options))


def fine_tune(out: Path, seed: int = 0, **options: Any) -> None:
    """An adapter and its checkpoints as TRL's SFTTrainer leaves them: with tokenizer, chat template, events and a model card."""
    train(out, lora(**options), tokenizer=True, report_to=["tensorboard"], seed=seed)
    card = f"---\nbase_model: {BASE['model']}\nlibrary_name: peft\ntags:\n- trl\n- sft\n---\n# A model\n"
    for folder in (out, *out.glob("checkpoint-*")):
        (folder / "README.md").write_text(card)


# ---- the campaigns -------------------------------------------------------------------------------------------


def full(out: Path) -> None:
    """Four runs of the Trainer: an overflow, plain SGD, the best of all checkpoints, checkpoints to be loaded only."""
    train(out / "runs/overflow", overflow=True, save=False, seed=1)
    torch.save(torch.amp.GradScaler("cpu").state_dict(), out / "runs/overflow/checkpoint-4/scaler.pt")
    train(out / "runs/2026-11-03T10:15:00", optim="sgd", gradient_accumulation_steps=2)
    best = out / "runs/größer, mit Rand"
    train(best, tokenizer=True, eval_strategy="steps", eval_steps=2, load_best_model_at_end=True, save_total_limit=2,
          report_to=["tensorboard"])
    weights_and_biases(best)
    train(out / "runs/only", save_only_model=True, seed=2, lr_scheduler_type="cosine", warmup_steps=1)


def at_the_top(out: Path) -> None:
    """A run of the Trainer into the directory itself, as the example scripts of transformers do it."""
    trainer = train(out, tokenizer=True, report_to=["tensorboard"])
    for split in ("train", "eval"):
        trainer.save_metrics(split, {f"{split}_loss": 3.5, "epoch": 1.0})
    trainer.save_state()


def adapters(out: Path) -> None:
    """Adapters on a base in the campaign, several adapters of one model, and one that names the commit of a base elsewhere."""
    hugging_face.model(out / "base")
    hugging_face.tokenizer(out / "base")
    fine_tune(out / "outputs/2026-11-03T10:15:00", base="base", revision=None)
    fine_tune(out / "outputs/rank 8 für später", base="base", revision=None, r=8, modules_to_save=["lm_head"])
    import peft

    model = lora(base="base", revision=None)
    model.add_adapter("style", peft.LoraConfig(r=2, target_modules=["q_proj"], task_type="CAUSAL_LM"))
    for name, value in model.named_parameters():
        if "lora_B" in name:
            value.data.normal_(0, 0.3)
    model.save_pretrained(out / "outputs/two")
    fine_tune(out / "sft", seed=1)


def adapter_at_the_top(out: Path) -> None:
    """An adapter in the directory itself whose configuration leaves the revision open, as it nearly always is."""
    fine_tune(out, revision=None)


def others(out: Path) -> None:
    """What other libraries leave."""
    accelerated(out / "runs/accelerated")
    lightning(out)
    hydra(out / "outputs/2026-11-03/10-15-00")
    sentences(out / "models/embed small")
    mlflow(out / "mlruns")


def accelerated(out: Path) -> None:
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.AdamW(model.parameters())
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    model, optimizer, scheduler = accelerator.prepare(model, optimizer, scheduler)
    accelerator.backward(model(torch.ones(2, 4)).sum())
    optimizer.step()
    scheduler.step()
    accelerator.save_state(str(out / "step_1"))
    accelerator.save_model(model, str(out / "model"))


def lightning(out: Path) -> None:
    import lightning

    class Module(lightning.LightningModule):
        def __init__(self, width: int = 4, root: str = "/data/rows") -> None:
            super().__init__()
            self.save_hyperparameters()
            self.layer = torch.nn.Linear(width, 1)

        def training_step(self, batch: torch.Tensor) -> torch.Tensor:
            loss = self.layer(batch).square().mean()
            self.log("train/loss", loss)
            return loss

        def configure_optimizers(self) -> Any:
            optimizer = torch.optim.Adam(self.parameters())
            return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1)]

    lightning.Trainer(
        max_epochs=1, default_root_dir=str(out), accelerator="cpu", enable_progress_bar=False, enable_model_summary=False,
        log_every_n_steps=1, logger=lightning.pytorch.loggers.CSVLogger(str(out)),
    ).fit(Module(), torch.utils.data.DataLoader(torch.randn(16, 4), batch_size=4))


def hydra(out: Path) -> None:
    import hydra

    @hydra.main(version_base=None, config_path=None)
    def job(settings: Any) -> None:
        torch.manual_seed(settings.seed)
        torch.save(torch.nn.Linear(4, 4).state_dict(), out / "last.pt")
        (out / "metrics.json").write_text('{"loss": 0.5}')

    sys.argv = ["train.py", f"hydra.run.dir={out}", "+seed=1", "+data.root=/data/rows", "+data.cache_dir=${oc.env:HOME}/rows"]
    job()


def sentences(out: Path) -> None:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer
    from transformers import BertConfig, BertModel

    source = Path(_scratch().name, "bert")
    hugging_face.tokenizer(source)
    BertModel(BertConfig(vocab_size=hugging_face.ROWS, hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
                         intermediate_size=32, max_position_embeddings=32)).save_pretrained(source)
    SentenceTransformer(modules=[Transformer(str(source)), Pooling(16), Normalize()], device="cpu").save(str(out))


def mlflow(out: Path) -> None:
    """A file store with an experiment of two runs, of which one logged no artifact."""
    here = f"file://{out}"
    for number, name in ("0", "Default"), ("18", "tiny"):
        _write(out / number, {"meta.yaml": _yaml(
            artifact_location=f"{here}/{number}", experiment_id=f"'{number}'", lifecycle_stage="active", name=name)})
    for run in ("bda1b44d10c342fb", "879c27bf55a346ed"):
        _write(out / "18" / run, {
            "meta.yaml": _yaml(
                artifact_uri=f"{here}/18/{run}/artifacts", end_time=1796131029055, entry_point_name="''", experiment_id="'18'",
                lifecycle_stage="active", run_id=run, run_name=run[:4], status=3, user_id="root"),
            "metrics/loss": "1796131029044 0.5 1\n", "params/lr": "0.1", "tags/mlflow.source.name": f"{OLD_MACHINE}/train.py"})
        (out / "18" / run / "artifacts").mkdir()
    (out / "18/bda1b44d10c342fb/artifacts/plot.svg").write_text("<svg/>")


def weights_and_biases(out: Path) -> None:
    """The folder of an offline run, with the links that it has."""
    run = out / "wandb/offline-run-20261103_101500-abcd1234"
    metadata = {"os": "Linux", "program": f"{OLD_MACHINE}/train.py", "root": OLD_MACHINE, "executable": "/usr/bin/python3"}
    _write(run, {
        "run-abcd1234.wandb": ":W&B\x00", "files/wandb-metadata.json": json.dumps(metadata), "files/output.log": "",
        "files/config.yaml": f"output_dir:\n    value: {OLD_MACHINE}/out\n", "files/wandb-summary.json": '{"train/loss": NaN}',
        "logs/debug.log": f"INFO {OLD_MACHINE}\n"})
    os.symlink(f"{OLD_MACHINE}/.cache/wandb/logs/core-debug.log", run / "logs/debug-core.log")
    os.symlink(run.name, out / "wandb/latest-run")
    os.symlink(f"{run.name}/logs/debug.log", out / "wandb/debug.log")


def _yaml(**fields: object) -> str:
    return "".join(f"{name}: {value}\n" for name, value in fields.items())


def _write(folder: Path, files: Mapping[str, str]) -> None:
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")


CAMPAIGNS = {made.__name__: made for made in (full, at_the_top, adapters, adapter_at_the_top, others)}


def main(out: Path) -> None:
    """Train everything."""
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    for name, make in CAMPAIGNS.items():
        (out / name).mkdir(parents=True)
        make(out / name)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
