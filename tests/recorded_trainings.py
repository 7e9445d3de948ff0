"""Trainings that record themselves: ``python recorded_trainings.py NAME OUT`` executes one of them in a process of its own.

They are written as users write them; what they leave must be accepted as it is. A Hugging Face cache with a base model is
expected in ``HF_HUB_CACHE``; `cache` makes one.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import sys
import warnings
from pathlib import Path
from typing import Any

import hugging_face
import torch
from hugging_face import BASE, llama

from pytest_campaign.recording import Campaign

SETTINGS: dict[str, Any] = {"max_steps": 4, "save_steps": 2, "logging_steps": 1, "per_device_train_batch_size": 4,
                            "learning_rate": 1e-2, "report_to": [], "use_cpu": True, "disable_tqdm": True}


def cache(folder: Path) -> Path:
    """A Hugging Face cache that holds the base model at one commit."""
    repository = folder / "models--acme--tiny"
    hugging_face.model(repository / "snapshots" / BASE["revision"])
    (repository / "refs").mkdir()
    (repository / "refs/main").write_text(BASE["revision"])
    return folder


def snapshot() -> str:
    """The folder of the cache that a script gets from ``snapshot_download``."""
    return f"{os.environ['HF_HUB_CACHE']}/models--acme--tiny/snapshots/{BASE['revision']}"


def rows() -> list[dict[str, list[int]]]:
    tokens = torch.randint(0, 60, (16, 8), generator=torch.Generator().manual_seed(0)).tolist()
    return [{"input_ids": row, "labels": row} for row in tokens]


def trainer(model: Any, out: Path, *callbacks: Any, **options: Any) -> Any:
    from transformers import Trainer, TrainingArguments

    return Trainer(model=model, args=TrainingArguments(output_dir=str(out), **SETTINGS | options), train_dataset=rows(),
                   callbacks=list(callbacks))


def lora(base: str, rank: int = 4) -> Any:
    import peft
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(base)
    return peft.get_peft_model(model, peft.LoraConfig(r=rank, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM"))


def plan(out: Path, **runs: list[tuple[str, str]]) -> None:
    out.mkdir(parents=True, exist_ok=True)
    (out / "plan.json").write_text(json.dumps({
        "plan_version": 1, "campaign": "tiny", "question": "Does it learn?", "runs": [
            {"id": run, "role": "control" if run == "control" else "variant",
             "deliverables": [{"id": id, "kind": kind} for id, kind in promised]} for run, promised in runs.items()]}))


# ---- the trainings -------------------------------------------------------------------------------------------


def full(out: Path) -> None:
    """The Trainer in a ``with`` block, under a plan whose ids are other ones than the usual, and saved at the end."""
    from pytest_campaign.recording.transformers import CampaignCallback

    plan(out, control=[("weights", "checkpoint"), ("history", "metrics"), ("settings", "parameters")])
    campaign = Campaign(out)
    with campaign.run("control") as run:
        made = trainer(llama(), out / "runs/control", CampaignCallback(run), seed=3)
        made.train()
        made.save_model()
    campaign.decide("positive", "It learns.", ["control"])


def own(out: Path) -> None:
    """The Trainer without a ``with`` block: the run begins and ends with the training, the model is saved after it."""
    from pytest_campaign.recording.transformers import CampaignCallback

    made = trainer(llama(), out / "runs/control", CampaignCallback(Campaign(out), "control"))
    made.train()
    made.save_model()


def adapters(out: Path) -> None:
    """Adapters on a base by its folder in the cache, by its name, and on one in the campaign; two ranks."""
    from pytest_campaign.recording.transformers import CampaignCallback

    hugging_face.model(out / "base")
    campaign = Campaign(out)
    campaign.deliver("base", "checkpoint", out / "base", purpose="inference")
    bases = {"rank4": snapshot(), "rank2": BASE["model"], "inside": str(out / "base")}
    for run_id, base in bases.items():
        with campaign.run(run_id) as run:
            model, rate = lora(base, 2 if run_id == "rank2" else 4), 0.02 if run_id == "inside" else 0.01
            record = CampaignCallback(run, archive_base=run_id != "rank4")
            made = trainer(model, out / "runs" / run_id, record, seed=len(run_id), learning_rate=rate)
            made.train()
            made.save_model()


def top(out: Path) -> None:
    """The output folder is the campaign directory itself, as in the example scripts of transformers; an adapter."""
    from pytest_campaign.recording.transformers import CampaignCallback

    made = trainer(lora(snapshot()), out, CampaignCallback(Campaign(out, campaign="at-the-top"), "control"))
    made.train()
    made.save_model()


def out_of_memory(out: Path) -> None:
    """A training that ends with an exception, within a block and without one."""
    from transformers import TrainerCallback

    from pytest_campaign.recording.transformers import CampaignCallback

    class Fails(TrainerCallback):  # type: ignore[misc]
        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            if state.global_step == 3:
                raise MemoryError("the device is full")

    campaign = Campaign(out)
    try:
        with campaign.run("block") as run:
            trainer(llama(), out / "runs/block", CampaignCallback(run), Fails()).train()
    except MemoryError:
        pass
    trainer(llama(), out / "runs/none", CampaignCallback(campaign, "none"), Fails()).train()


def module(width: int = 4, fails: bool = False) -> Any:
    import lightning

    class Module(lightning.LightningModule):
        def __init__(self, width: int, fails: bool) -> None:
            super().__init__()
            self.save_hyperparameters()
            self.layer = torch.nn.Linear(4, width)

        def training_step(self, batch: torch.Tensor, index: int) -> torch.Tensor:
            if self.hparams["fails"] and index == 2:
                raise MemoryError("the device is full")
            loss = self.layer(batch).square().mean()
            self.log("loss", loss)
            return loss

        def configure_optimizers(self) -> Any:
            return torch.optim.AdamW(self.parameters(), lr=1e-2)

    return Module(width, fails)


def fit(net: Any, out: Path, *callbacks: Any, logger: Any = True, **options: Any) -> None:
    import lightning

    lightning.seed_everything(7)
    keep = lightning.pytorch.callbacks.ModelCheckpoint(dirpath=out, save_last=True, every_n_train_steps=2)
    lightning.Trainer(
        max_epochs=2, callbacks=[*callbacks, keep], accelerator="cpu", enable_progress_bar=False, enable_model_summary=False,
        log_every_n_steps=1,
        logger=lightning.pytorch.loggers.CSVLogger(str(out), name="", version="") if logger is True else logger,
        **options).fit(net, torch.utils.data.DataLoader(torch.randn(16, 4), batch_size=4))


def lightning(out: Path) -> None:
    """Lightning in a ``with`` block under a plan, and without a block; with two loggers and without one."""
    from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger

    from pytest_campaign.recording.lightning import CampaignCallback

    plan(out, control=[("best", "checkpoint"), ("metrics", "metrics")], wide=[("metrics", "metrics")])
    campaign = Campaign(out)
    with campaign.run("control") as run:
        fit(module(), out / "runs/control", CampaignCallback(run), logger=[
            TensorBoardLogger(str(out / "runs/control"), name="board"),
            CSVLogger(str(out / "runs/control"), name="", version="")])
    fit(module(8), out / "runs/wide", CampaignCallback(campaign, "wide"), logger=False)


def lightning_fails(out: Path) -> None:
    """Lightning with an exception in the middle."""
    from pytest_campaign.recording.lightning import CampaignCallback

    try:
        fit(module(fails=True), out / "runs/control", CampaignCallback(Campaign(out), "control"))
    except MemoryError:
        shutil.rmtree(out / "nothing", ignore_errors=True)


def killed(out: Path) -> None:
    """A training that is killed after its second step; executed once more it goes on from there."""
    import signal

    from transformers import TrainerCallback

    from pytest_campaign.recording.transformers import CampaignCallback

    class Killed(TrainerCallback):  # type: ignore[misc]
        def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            if state.global_step == 2 and not last:
                os.kill(os.getpid(), signal.SIGKILL)

    last = str(out / "runs/control/checkpoint-2") if (out / "runs/control/checkpoint-2").exists() else None
    with Campaign(out).run("control") as run:
        made = trainer(llama(), out / "runs/control", Killed(), CampaignCallback(run))
        made.train(resume_from_checkpoint=last)


TRAININGS = {made.__name__: made for made in (full, own, killed, adapters, top, out_of_memory, lightning, lightning_fails)}

if __name__ == "__main__":
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    TRAININGS[sys.argv[1]](Path(sys.argv[2]))
