"""A callback for the Trainer of Lightning: one argument records the run.

    with campaign.run("wide") as run:
        Trainer(..., callbacks=[CampaignCallback(run)]).fit(model, data)

    Trainer(..., callbacks=[CampaignCallback(campaign, "wide")]).fit(model, data)  # or without a with block

Source: lightning/pytorch/callbacks of Lightning 2.6.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

try:
    from lightning.pytorch.callbacks import Callback
except ImportError:  # the package under its older name
    from pytorch_lightning.callbacks import Callback

from . import entries
from .campaign import Campaign
from .errors import RecordingError
from .held import Held
from .run import Run


class CampaignCallback(Callback):  # type: ignore[misc]
    """Records parameters, steps and processes of a run, the checkpoints of `ModelCheckpoint`, and its metrics.

    Give it the `Run` of a ``with`` block, or the campaign and the run's id; the run then ends with `fit`. Checkpoints have to be
    written into the campaign directory. The metrics are those of a `CSVLogger` that writes there, else the last ones of the
    training, in ``metrics.json`` in the folder of the run; what other loggers write there is delivered as ``logs``.

    The ids of the deliverables are those of the plan, where it promises one of a kind (of the checkpoints the best, or the last
    one, has it), else the names of the checkpoint files, and ``metrics``; ``ids`` gives others by these.
    """

    def __init__(self, record: Run | Campaign, run: str | None = None, *, ids: Mapping[str, str] | None = None) -> None:
        self._held = Held(record, run, self._collect)
        self._run = self._held.run
        self._ids = dict(ids or {})
        self._trainer: Any = None

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        """Begin the run, with what is known of it before the first step."""
        if not trainer.is_global_zero:
            return
        self._trainer = trainer
        self._held.begin()
        first = {"first_step": trainer.global_step + 1} if trainer.global_step else {}
        seed = os.environ.get("PL_GLOBAL_SEED", "")  # seed_everything
        self._run.update(world_size=trainer.world_size, **first, **({"seed": int(seed)} if seed.isdigit() else {}))
        self._held.parameters(_parameters(trainer, pl_module))

    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
        """Record what the training left, and end a run that has no ``with`` block."""
        if trainer.is_global_zero:
            self._run.update(steps=trainer.global_step)
            self._held.end()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Record that the training ended early, and why."""
        self._held.fail(exception)

    def _collect(self) -> None:
        """Deliver the checkpoints that are there now, and the metrics."""
        trainer = self._trainer
        if trainer is None:
            return
        for number, (place, purpose) in enumerate(_checkpoints(trainer).items()):
            self._run.deliver(self._id(_name(place), "checkpoint", is_main=number == 0), "checkpoint", place, purpose=purpose)
        metrics = self._metrics()
        self._run.deliver(self._id("metrics", "metrics", is_main=True), "metrics", metrics)
        if (settings := metrics.with_name("hparams.yaml")).is_file():  # a logger keeps them beside
            self._run.deliver(self._id("hparams", "parameters", is_main=False), "parameters", settings)
        for number, place in enumerate(self._logs(metrics)):
            self._run.deliver(self._id("logs" if not number else f"logs-{number + 1}", "log", is_main=False), "log", place)
        if len(promised := self._run.campaign.promised(self._run.id, "parameters")) == 1:
            self._run.deliver(promised[0], "parameters", self._run.parameters_file)

    def _logs(self, metrics: Path) -> Iterator[Path]:
        """The folders in the campaign directory in which loggers other than that of the metrics wrote (TensorBoard)."""
        for logger in self._trainer.loggers:
            place = Path(os.path.abspath(getattr(logger, "log_dir", None) or "."))
            if not place.is_dir() or place in (metrics.parent, self._run.folder, self._run.campaign.directory):
                continue
            with contextlib.suppress(RecordingError):
                self._run.campaign.inside(place)
                if any(file.is_file() for file in place.iterdir()):
                    yield place

    def _metrics(self) -> Path:
        for logger in self._trainer.loggers:
            log_dir, save = getattr(logger, "log_dir", None), getattr(logger, "save", None)
            place = Path(os.path.abspath(log_dir or "."), "metrics.csv")
            if callable(save) and type(logger).__name__ == "CSVLogger":
                save()
                with contextlib.suppress(RecordingError):
                    if place.is_file():
                        self._run.campaign.inside(place)
                        return place
        place = self._run.folder / "metrics.json"
        values = {name: float(value) for name, value in self._trainer.callback_metrics.items()}
        place.write_bytes(entries.as_json(entries.plain({"step": self._trainer.global_step, **values})))
        return place

    def _id(self, name: str, kind: str, *, is_main: bool) -> str:
        if name in self._ids:
            return self._ids[name]
        promised = self._run.campaign.promised(self._run.id, kind)
        return promised[0] if is_main and len(promised) == 1 and name not in promised else name


def _checkpoints(trainer: Any) -> dict[Path, str]:
    """The checkpoints that there are with their purpose, the most important one first: the best, else the last."""
    found: dict[Path, str] = {}
    for keeper in trainer.checkpoint_callbacks:
        purpose = "inference" if getattr(keeper, "save_weights_only", False) else "resume"
        named = [getattr(keeper, "best_model_path", ""), getattr(keeper, "last_model_path", ""),
                 *getattr(keeper, "best_k_models", {})]
        for name in filter(None, named):
            place = Path(os.path.abspath(name))
            if place.exists() and not place.is_symlink():
                found.setdefault(place, purpose)
    return found


def _name(place: Path) -> str:
    """The id of a checkpoint: its name without what an id cannot hold (``epoch=1-step=20.ckpt``: ``epoch-1-step-20``)."""
    name = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "-" for c in place.name.removesuffix(".ckpt"))
    return name.strip("-._") or "checkpoint"


def _parameters(trainer: Any, module: Any) -> dict[str, Any]:
    """What decides the run: the module's hyperparameters and the settings of the training."""
    settings = {name: getattr(trainer, name, None) for name in (
        "max_epochs", "max_steps", "precision", "accumulate_grad_batches", "gradient_clip_val", "limit_train_batches")}
    plain: dict[str, Any] = entries.plain({
        **dict(getattr(module, "hparams", {})),
        "trainer": {name: value for name, value in settings.items() if value is not None}})
    return plain
