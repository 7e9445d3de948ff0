"""A callback for the Trainer of transformers, TRL and their like: one argument records the run.

    with campaign.run("rank8") as run:
        trainer = Trainer(..., callbacks=[CampaignCallback(run)])
        trainer.train()
        trainer.save_model()

    Trainer(..., callbacks=[CampaignCallback(campaign, "rank8")])  # or without a with block

Source: transformers/trainer.py and trainer_callback.py of transformers 5.24.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from . import entries
from .campaign import Campaign
from .entries import Fields
from .held import Held
from .run import Run

_CHECKPOINT = re.compile(r"checkpoint-([0-9]+)")
_ADAPTER, _ADAPTER_CONFIG = re.compile(r"adapter_model.*\.(safetensors|bin)"), "adapter_config.json"
_MODEL = re.compile(r"(model|pytorch_model)[.-].*(safetensors|bin)")
# What the Trainer needs to go on; the folders are those of FSDP and DeepSpeed.
_OPTIMIZER = re.compile(r"(rank[0-9]+-of-[0-9]+-)?optimizer\.pt|optimizer\.bin|optimizer_[0-9]+|global_step[0-9]+")
_STATE = "trainer_state.json"
_PLACES = frozenset({"output_dir", "logging_dir", "run_name", "deepspeed", "hub_token", "push_to_hub_token",
                      "resume_from_checkpoint", "local_rank"})


class CampaignCallback(TrainerCallback):  # type: ignore[misc]
    """Records parameters, seed, steps and processes of a run, its checkpoints, and the model that is saved into `output_dir`.

    Give it the `Run` of a ``with`` block; what was saved until the end of that block is then recorded. Or give it the campaign
    and the run's id: the run then ends with the training, what is saved later is recorded at the end of the program, and an
    exception is known only then. ``output_dir`` has to lie in the campaign directory.

    The ids of the deliverables are those of the plan, where it promises one of a kind, else ``model`` or ``adapter``,
    ``checkpoint-<step>`` and ``metrics``; ``ids`` gives others by these. ``archive_base`` is that of `Run.deliver`, for each
    adapter.
    """

    def __init__(self, record: Run | Campaign, run: str | None = None, *, ids: Mapping[str, str] | None = None,
                 archive_base: bool | str | os.PathLike[str] = False) -> None:
        self._held = Held(record, run, self._collect)
        self._run = self._held.run
        self._ids = dict(ids or {})
        self._archive_base = archive_base
        self._output: Path | None = None
        self._commit: tuple[str, str] | None = None  # the base of an adapter, and the commit that was loaded

    def on_train_begin(self, args: Any, state: Any, control: Any, *, model: Any = None, **kwargs: Any) -> None:
        """Begin the run, with what is known of it before the first step."""
        if not state.is_world_process_zero:
            return
        self._output = Path(os.path.abspath(args.output_dir))
        self._output.mkdir(parents=True, exist_ok=True)
        self._run.campaign.inside(self._output)
        self._held.begin()
        self._run.update(seed=args.seed, world_size=args.world_size,
                         **({"first_step": state.global_step + 1} if state.global_step else {}))
        self._held.parameters(_parameters(args, model))
        text, commit = getattr(model, "name_or_path", None), getattr(getattr(model, "config", None), "_commit_hash", None)
        if isinstance(text, str) and isinstance(commit, str):
            self._commit = text, commit

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Record what the training left, and end a run that has no ``with`` block."""
        if not state.is_world_process_zero or self._output is None:
            return
        self._run.update(steps=state.global_step)
        state.save_to_json(os.path.join(self._output, _STATE))
        self._held.end()

    def _collect(self) -> None:
        """Deliver all that lies in the output folder now."""
        if self._output is None:
            return
        models = {f"checkpoint-{step}": self._output / f"checkpoint-{step}" for step in _steps(self._output)}
        names = os.listdir(self._output)
        if any(map(_ADAPTER.fullmatch, names)) or any(map(_MODEL.fullmatch, names)):
            models["adapter" if _ADAPTER_CONFIG in names else "model"] = self._output
        main = list(models)[-1] if models else None  # the model itself, else the last checkpoint
        for name, folder in models.items():
            kind = "adapter" if (folder / _ADAPTER_CONFIG).exists() else "checkpoint"
            resume = folder != self._output and any(map(_OPTIMIZER.fullmatch, os.listdir(folder)))
            fields: Fields = {"purpose": "resume" if resume else "inference"}
            if kind == "adapter" and self._commit is not None and (base := self._base(folder)) is not None:
                fields["base"] = base
            if kind == "adapter":
                fields["archive_base"] = self._archive_base
            self._run.deliver(self._id(name, kind, is_main=name == main), kind, folder, **fields)
        if (self._output / _STATE).is_file():
            self._run.deliver(self._id("metrics", "metrics", is_main=True), "metrics", self._output / _STATE)
        if self._run.has_parameters and len(promised := self._run.campaign.promised(self._run.id, "parameters")) == 1:
            self._run.deliver(promised[0], "parameters", self._run.parameters_file)

    def _base(self, folder: Path) -> dict[str, str] | None:
        """The base of an adapter when it is the model that the library loaded at a commit it knows."""
        from . import base_models

        root, said = self._run.campaign.directory, base_models.of_adapter(self._run.campaign.directory,
                                                                         self._run.campaign.inside(folder))
        if said is None or self._commit is None or said[0] != self._commit[0]:
            return None
        found, doubt = base_models.resolved(root, said[0], self._commit[1])
        return found if doubt is None else None

    def _id(self, name: str, kind: str, *, is_main: bool) -> str:
        if name in self._ids:
            return self._ids[name]
        promised = self._run.campaign.promised(self._run.id, kind)
        return promised[0] if is_main and len(promised) == 1 and name not in promised else name


def _steps(folder: Path) -> list[int]:
    """The numbers of the checkpoints in a folder."""
    found = [match for name in os.listdir(folder) if (match := _CHECKPOINT.fullmatch(name))]
    return sorted(int(match[1]) for match in found if any((folder / match[0]).iterdir()))


def _parameters(args: Any, model: Any) -> dict[str, Any]:
    """What decides the run: the arguments of the training, the adapter's and the model's configuration."""
    found: dict[str, Any] = {
        "training": {name: value for name, value in args.to_dict().items() if name not in _PLACES and value is not None}}
    adapters = getattr(model, "peft_config", None)
    if isinstance(adapters, Mapping):
        found["adapters"] = {name: {key: value for key, value in config.to_dict().items() if value is not None
                                    and key not in ("base_model_name_or_path", "revision")} for name, config in adapters.items()}
    if callable(settings := getattr(getattr(model, "config", None), "to_diff_dict", None)):
        found["model"] = {key: value for key, value in settings().items() if key != "_name_or_path"}
    plain: dict[str, Any] = entries.plain(found)
    return plain
