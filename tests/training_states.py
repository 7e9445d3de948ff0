"""States of trainings, written by the libraries themselves; those of DeepSpeed by hand in the layout that its source shows."""

from __future__ import annotations

import contextlib
import os
import pickle
import random
import sys
import types
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hugging_face
import torch


def trained(seed: int = 0, width: int = 8) -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    """A small net after one step of AdamW."""
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(4, width), torch.nn.ReLU(), torch.nn.Linear(width, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model(torch.randn(3, 4)).square().sum().backward()
    optimizer.step()
    return model, optimizer


def distributed(folder: Path, state: dict[str, Any] | None = None, writers: int = 1) -> Path:
    """A folder of torch.distributed.checkpoint, saved without a process group; several writers have a file each."""
    import torch.distributed.checkpoint as checkpoint

    if state is None:
        model, optimizer = trained()
        state = {"model": model.state_dict(), "optim": optimizer.state_dict(), "step": 3}
    writer = checkpoint.FileSystemWriter(folder, thread_count=writers, single_file_per_rank=writers == 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        checkpoint.save(state, storage_writer=writer, no_dist=True)
    return folder


def change_metadata(folder: Path, change: Any) -> None:
    """Load the ``.metadata`` that the library wrote, change it and write it back."""
    place = folder / ".metadata"
    value = pickle.loads(place.read_bytes())
    change(value)
    place.write_bytes(pickle.dumps(value))


def by_ranks(folder: Path, ranks: int = 4) -> Path:
    """A folder as that many processes leave it: the writers of one process are renamed to those of many."""
    distributed(folder, {"model": trained()[0].state_dict()}, ranks)

    def rename(metadata: Any) -> None:
        for place in metadata.storage_data.values():
            place.relative_path = place.relative_path.replace("__0_", "__").replace(".distcp", "_0.distcp")

    change_metadata(folder, rename)
    for rank in range(ranks):
        (folder / f"__0_{rank}.distcp").rename(folder / f".{rank}")
    for rank in range(ranks):
        (folder / f".{rank}").rename(folder / f"__{rank}_0.distcp")
    return folder


@contextlib.contextmanager
def foreign(module: str, name: str, base: type = object) -> Iterator[type]:
    """A class of a module that need not be installed, for as long as files with it are written."""
    parts = [module.rsplit(".", count)[0] for count in range(module.count("."), -1, -1)]
    made = [part for part in parts if part not in sys.modules]
    for part in made:
        sys.modules[part] = types.ModuleType(part)
    cls = type(name, (base,), {"__module__": module})
    setattr(sys.modules[module], name, cls)
    try:
        yield cls
    finally:
        for part in made:
            del sys.modules[part]


def zero(folder: Path, step: int = 800, *, ranks: int = 2, stage: int = 2, parallel: int = 1, said: int | None = None,
         silent: bool = False, data: int | None = None, latest: bool = True) -> Path:
    """A ZeRO checkpoint of ``ranks`` data-parallel times ``parallel`` model-parallel processes; returns the step's folder.

    ``said`` is the number of partitions that it speaks of (``ranks``), ``data`` the number of data-parallel processes (the
    same); with ``silent`` it speaks of neither.
    """
    place = folder / f"global_step{step}"
    place.mkdir(parents=True)
    if latest:
        (folder / "latest").write_text(f"global_step{step}")
    with foreign("deepspeed.runtime.zero.config", "ZeroStageEnum", int) as stage_of:
        for part in range(parallel):
            for rank in range(ranks):
                optimizer = _zero_optimizer(rank, stage) | {"zero_stage": stage_of(stage)}
                if not silent:
                    optimizer["partition_count"] = [said or ranks, 1] if stage < 3 else said or ranks
                torch.save({"optimizer_state_dict": optimizer, "ds_config": _config(stage), "ds_version": "0.16.5"},
                           place / f"bf16_zero_pp_rank_{rank}_mp_rank_{part:02d}_optim_states.pt")
            for prefix in [""] if stage < 3 else [f"zero_pp_rank_{rank}_" for rank in range(ranks)]:
                model = _zero_model(step, stage) | {"mp_world_size": parallel}
                if not silent:
                    model["dp_world_size"] = data or said or ranks
                torch.save(model, place / f"{prefix}mp_rank_{part:02d}_model_states.pt")
    return place


def _config(stage: int) -> dict[str, Any]:
    return {"zero_optimization": {"stage": stage}, "bf16": {"enabled": True}}


def _zero_optimizer(rank: int, stage: int) -> dict[str, Any]:
    flat = torch.full((20,), rank + 1.0)
    inner = {"state": {0: {"step": torch.tensor(3.0), "exp_avg": flat / 9}}, "param_groups": [{"lr": 0.001, "params": [0]}]}
    return {"loss_scaler": None, "overflow": False, "ds_version": "0.16.5",
            "base_optimizer_state" if stage < 3 else "optimizer_state_dict": inner,
            "single_partition_of_fp32_groups" if stage < 3 else "fp32_flat_groups": [flat]}


def _zero_model(step: int, stage: int) -> dict[str, Any]:
    state = trained()[0].state_dict()
    return {"module": {key: value.bfloat16() for key, value in state.items()} if stage < 3 else {}, "buffer_names": [],
            "optimizer": None, "param_shapes": [{key: value.shape for key, value in state.items()}], "lr_scheduler": None,
            "global_steps": step, "skipped_steps": 0, "ds_config": _config(stage), "ds_version": "0.16.5"}


def accelerate(folder: Path, *, ranks: int = 1, safe: bool = True) -> Path:
    """What accelerate's ``save_state`` leaves; the random states of further processes as accelerate writes them."""
    from accelerate import Accelerator
    from accelerate.checkpointing import save_accelerator_state

    accelerator = Accelerator(cpu=True)
    model, optimizer = trained()
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 10)
    prepared = accelerator.prepare(model, optimizer, schedule)

    class Progress:
        def state_dict(self) -> dict[str, int]:
            return {"epoch": 1}

        def load_state_dict(self, state: dict[str, int]) -> None:
            pass

    del prepared
    accelerator.register_for_checkpointing(Progress())
    accelerator.save_state(os.fspath(folder), safe_serialization=safe)
    for rank in range(1, ranks):
        random.seed(rank)
        save_accelerator_state(os.fspath(folder), [], [], [], [], rank, 0)
    accelerator.free_memory()
    return folder


def trainer(folder: Path, model: Any = None, *, steps: int = 1, save: int | None = None, **arguments: Any) -> Path:
    """The last of the ``checkpoint-N`` that the Trainer of transformers leaves in ``folder`` after a few steps."""
    from transformers import Trainer, TrainingArguments

    torch.manual_seed(3)
    rows = [{"input_ids": torch.randint(0, 60, (8,)), "labels": torch.randint(0, 60, (8,))} for _ in range(8)]
    settings = TrainingArguments(
        os.fspath(folder), max_steps=steps, save_steps=save or steps, logging_steps=1, per_device_train_batch_size=2,
        report_to=[], use_cpu=True, disable_tqdm=True, **arguments)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the libraries about each other
        Trainer(model=hugging_face.llama() if model is None else model, train_dataset=rows, args=settings).train()
    return folder / f"checkpoint-{steps}"


def steps(target: Path, *, layers: int = 2, frozen: str = "no such part") -> Path:
    """``checkpoint-2`` and ``checkpoint-4`` of one training; parameters with ``frozen`` in their names are not trained."""

    def make(folder: Path) -> None:
        model = hugging_face.llama(layers=layers)
        for name, parameter in model.named_parameters():
            parameter.requires_grad = frozen not in name
        trainer(folder, model, steps=4, save=2)

    return hugging_face.copied(f"steps-{layers}-{frozen}", target, make)
