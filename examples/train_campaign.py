"""Train a small campaign on the CPU and deliver it: a control, a variant, and a variant that diverges and is aborted.

    python train_campaign.py OUT

Everything below ``OUT`` is what a finished campaign looks like: the plan (written before the first run), data,
parameters, metrics, predictions, final weights, points to resume from, an error analysis, instructions for loading
all of it again, and the manifest, which is written while all this happens. Beside this package it
needs torch alone, and it takes a few seconds.

The task: points on three arms of a spiral; a small network says which arm a point belongs to.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import math
import os
import random
import shlex
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

warnings.filterwarnings("ignore", message="Failed to initialize NumPy")  # torch says it where NumPy is not installed
import torch

from pytest_campaign import proof
from pytest_campaign.recording import Campaign, Run

CAMPAIGN = "spiral-width"
ARMS = 3
CHECKPOINT_EVERY = 40  # steps; the last point to resume from lies before the end, so the end can be repeated
LOSS_LIMIT, LOSS_STEPS = 5.0, 10  # the announced abort rule: above this loss for so many steps in a row
LEARNED = 0.6  # the control has learned something from this test accuracy on (guessing gives a third)
MARGIN = 0.02  # a variant counts as better from this gain in test accuracy on


@dataclasses.dataclass(frozen=True)
class Parameters:
    """Everything that decides a run, apart from the data."""

    hidden: int = 8
    dropout: float = 0.05
    learning_rate: float = 0.02
    batch_size: int = 64
    steps: int = 300
    seed: int = 1


GO_ON, STOP = "train the variants", "stop: the control does not learn"
ROLES = {"control": "control", "wide": "variant", "hot": "variant"}
PRIORITIES = {"control": "essential", "wide": "essential", "hot": "exploratory"}
RUNS = {
    "control": Parameters(),
    "wide": Parameters(hidden=32),
    "hot": Parameters(learning_rate=5.0),
}
RUN_DELIVERABLES = {  # id: (kind, file in the run's folder, what else is recorded)
    "parameters": ("parameters", "parameters.json", {}),
    "metrics": ("metrics", "metrics.jsonl", {}),
    "predictions": ("predictions", "predictions.jsonl", {"dataset": "test", "key": ["id"], "value": "prediction"}),
    "weights": ("checkpoint", "weights.safetensors", {"purpose": "inference", "probe": "probe.safetensors"}),
    "resume": ("checkpoint", "resume.pt", {"purpose": "resume"}),
    "log": ("log", "train.log", {}),
}
CAMPAIGN_DELIVERABLES = {
    "data": ("dataset", "data", {}),
    "errors": ("analysis", "analysis/errors.md", {}),
    "instructions": ("instructions", "INSTRUCTIONS.md", {}),
}


# The model and its training


def build_model(hidden: int, dropout: float) -> torch.nn.Sequential:
    """The network: a point of the plane in, a score for each arm of the spiral out."""
    return torch.nn.Sequential(
        torch.nn.Linear(2, hidden),
        torch.nn.LeakyReLU(0.1),
        torch.nn.Linear(hidden, hidden),
        torch.nn.LeakyReLU(0.1),
        torch.nn.Dropout(dropout),
        torch.nn.Linear(hidden, 3),
    )


class Training:
    """A run in progress. ``state_dict`` holds all that the next step depends on, and only plain data and tensors."""

    def __init__(self, parameters: Parameters, points: torch.Tensor, labels: torch.Tensor) -> None:
        random.seed(parameters.seed)
        torch.manual_seed(parameters.seed)
        self.points, self.labels, self.batch_size = points, labels, parameters.batch_size
        self.model = build_model(parameters.hidden, parameters.dropout)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=parameters.learning_rate)
        self.scheduler = torch.optim.lr_scheduler.OneCycleLR(
            self.optimizer, max_lr=parameters.learning_rate, total_steps=parameters.steps)
        self.done = 0  # steps
        self.order: list[int] = []  # the rows of this epoch, shuffled
        self.position = 0  # how many of them were used

    def step(self) -> float:
        """One optimizer step on the next batch; the loss before it."""
        if self.position >= len(self.order):
            self.order, self.position = random.sample(range(len(self.points)), len(self.points)), 0
        batch = self.order[self.position : self.position + self.batch_size]
        self.model.train()
        loss = torch.nn.functional.cross_entropy(self.model(self.points[batch]), self.labels[batch])
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.scheduler.step()
        self.position += len(batch)
        self.done += 1
        return loss.item()

    def state_dict(self) -> dict:
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scheduler": self.scheduler.state_dict(),
            "rng": {"python": random.getstate(), "torch": torch.get_rng_state()},
            "data": {"order": self.order, "position": self.position},
            "step": self.done,
        }

    def load_state_dict(self, state: dict) -> None:
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.scheduler.load_state_dict(state["scheduler"])
        random.setstate(state["rng"]["python"])
        torch.set_rng_state(state["rng"]["torch"])
        self.order, self.position = state["data"]["order"], state["data"]["position"]
        self.done = state["step"]


@dataclasses.dataclass(frozen=True)
class Abort:
    """Why and when a run was stopped: the plan's rule, and what was seen."""

    rule: str
    reason: str
    step: int


def abort(losses: Sequence[float]) -> Abort | None:
    """What the plan's abort rules say about the losses so far."""
    step, latest = len(losses), losses[-LOSS_STEPS:]
    if not math.isfinite(losses[-1]):
        return Abort("not-finite", f"the training loss of step {step} is {losses[-1]}", step)
    if len(latest) == LOSS_STEPS and min(latest) > LOSS_LIMIT:
        return Abort("diverged", f"the training loss was above {LOSS_LIMIT} from step {step - LOSS_STEPS + 1} to {step}", step)
    return None


def train(folder: Path, parameters: Parameters, rows: Sequence[dict[str, Any]]) -> tuple[Training, Abort | None]:
    """Run to the end or to an abort; writes metrics, log and resume points into ``folder``."""
    training = Training(parameters, *tensors(rows))
    losses: list[float] = []
    stopped = None
    with (open(folder / "metrics.jsonl", "w", encoding="utf-8") as metrics,
          open(folder / "train.log", "w", encoding="utf-8") as log):
        while training.done < parameters.steps and stopped is None:
            rate = training.optimizer.param_groups[0]["lr"]
            losses.append(training.step())
            stopped = abort(losses)
            if math.isfinite(losses[-1]):  # JSON has no word for other numbers; the log and the abort record name them
                metrics.write(line({"step": training.done, "loss": losses[-1], "learning_rate": rate}))
            if training.done % 10 == 0 or stopped:
                log.write(f"{now()} step {training.done} of {parameters.steps}: loss {losses[-1]:.4f}\n")
            if training.done % CHECKPOINT_EVERY == 0 and not stopped:
                save_resume_point(folder / "resume.pt", training)
                log.write(f"{now()} step {training.done}: resume point written\n")
        log.write(f"{now()} " + (f"aborted by rule {stopped.rule}: {stopped.reason}\n" if stopped else "completed\n"))
    return training, stopped


def save_resume_point(path: Path, training: Training) -> None:
    """Replace the previous point in one step: a crash while writing must not take it away."""
    temporary = path.with_name(path.name + ".partial")
    torch.save(training.state_dict(), temporary)
    os.replace(temporary, path)


def save_weights(path: Path, model: torch.nn.Module) -> None:
    """A safetensors file: the length of the header, the header, the bytes of the tensors one after the other.

    ``safetensors.torch.save_file`` writes the same. It needs NumPy, and this campaign is to need torch alone.
    """
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    data = b""
    for name, tensor in model.state_dict().items():
        start = len(data)
        data += bytes(tensor.contiguous().view(torch.uint8).flatten().tolist())
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [start, len(data)]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def load(path: Path) -> torch.nn.Module:
    """The network of a run with the delivered weights. A reviewer gives it to the check, which then replays the probe:

    pytest --campaign-dir OUT --campaign-loader='*/weights=train_campaign.py:load'
    """
    from safetensors.torch import load_file

    parameters = json.loads((path.parent / "parameters.json").read_text(encoding="utf-8"))
    model = build_model(parameters["hidden"], parameters["dropout"])
    model.load_state_dict(load_file(path))
    return model


@torch.inference_mode()
def predict(model: torch.nn.Module, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """One record for each row, with the row's id."""
    model.eval()
    confidence, arm = torch.softmax(model(tensors(rows)[0]), dim=1).max(dim=1)
    return [{"id": row["id"], "label": row["label"], "prediction": int(a), "confidence": round(float(c), 6)}
            for row, a, c in zip(rows, arm, confidence, strict=True)]


# The data


def make_rows(name: str, count: int, seed: int) -> list[dict[str, Any]]:
    """Noisy points on the arms of a spiral, each with an id that never changes."""
    generator = random.Random(seed)
    rows = []
    for index in range(count):
        label = index % ARMS
        radius = math.sqrt(generator.random())
        angle = 5 * radius + 2 * math.pi * label / ARMS + generator.gauss(0, 0.2)
        rows.append({"id": f"{name}-{index:04}", "x": round(radius * math.cos(angle), 6),
                     "y": round(radius * math.sin(angle), 6), "label": label})
    return rows


def tensors(rows: Sequence[dict[str, Any]]) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.tensor([[row["x"], row["y"]] for row in rows]), torch.tensor([row["label"] for row in rows])


# The documents


def plan() -> dict[str, Any]:
    """What the campaign promises. Written before the first run and never changed afterwards."""
    promised = [{"id": id, "kind": kind} | ({"depth": "tensors"} if kind == "checkpoint" else {})
                for id, (kind, _, _) in RUN_DELIVERABLES.items()]
    return {
        "plan_version": 1,
        "campaign": CAMPAIGN,
        "question": f"Which one change of the control raises its test accuracy by {MARGIN:.0%} of the points or more: "
                    "a hidden layer four times as wide, or a learning rate 250 times as high?",
        "runs": [{"id": run, "role": ROLES[run], "priority": PRIORITIES[run], "deliverables": promised} for run in RUNS],
        "deliverables": [{"id": id, "kind": kind, "priority": "essential"} for id, (kind, _, _) in CAMPAIGN_DELIVERABLES.items()],
        "abort_rules": [
            {"id": "not-finite", "when": "the training loss is not finite"},
            {"id": "diverged", "when": f"the training loss is above {LOSS_LIMIT} for {LOSS_STEPS} steps in a row",
             "metric": "loss", "op": ">", "value": LOSS_LIMIT, "for_steps": LOSS_STEPS},
        ],
        "decision_point": {"after": "control", "options": [GO_ON, STOP]},
    }


def deliver(record: Campaign | Run, known: Mapping[str, tuple[str, str, Any]], folder: Path, **more: Mapping[str, Any]) -> None:
    """Record the deliverables that are there, each with the size and digest of its files, and what ``more`` is known of some."""
    for id, (kind, name, fields) in known.items():
        if (folder / name).exists():
            probe = {"probe": folder / fields["probe"]} if "probe" in fields else {}
            record.deliver(id, kind, folder / name, **{**fields, **probe, **more.get(id, {})})


def decide(predictions: Sequence[dict[str, Any]] | None) -> tuple[str, str]:
    """What the plan's decision point comes to, and why, given the control's predictions (None when it was aborted)."""
    if predictions is None:
        return STOP, "the control was aborted"
    accuracy = score(predictions)
    return GO_ON if accuracy >= LEARNED else STOP, f"the control's test accuracy is {accuracy:.3f}"


def conclude(accuracy: Mapping[str, float], aborts: Mapping[str, Abort]) -> dict[str, Any]:
    """The answer to the plan's question, by the margin that the plan announced."""
    gains = {run: value - accuracy["control"] for run, value in accuracy.items() if run != "control"}
    if not gains:
        return {"outcome": "inconclusive", "summary": "No variant was trained to its end.", "based_on": [*accuracy, *aborts]}
    sentences = [f"{run}: test accuracy {accuracy[run]:.3f}, {gain:+.3f} against the control ({accuracy['control']:.3f})."
                 for run, gain in gains.items()]
    sentences += [f"{run}: aborted at step {stopped.step}, {stopped.reason}." for run, stopped in aborts.items()]
    better = any(gain >= MARGIN for gain in gains.values())
    return {"outcome": "positive" if better else "negative", "summary": " ".join(sentences), "based_on": [*accuracy, *aborts]}


def error_analysis(predictions: Mapping[str, Sequence[dict[str, Any]]]) -> str:
    """Markdown: accuracy and errors of each run, and which points all runs miss."""
    missed = {run: {row["id"] for row in rows if row["prediction"] != row["label"]} for run, rows in predictions.items()}
    lines = ["# Errors on the test set", "", "| run | accuracy | errors | by arm |", "|---|---|---|---|"]
    for run, rows in predictions.items():
        by_arm = [sum(row["label"] == arm for row in rows if row["id"] in missed[run]) for arm in range(ARMS)]
        lines.append(f"| {run} | {score(rows):.3f} | {len(missed[run])} of {len(rows)} | {', '.join(map(str, by_arm))} |")
    if len(missed) > 1:
        lines += ["", f"Missed by all of {', '.join(missed)}: {', '.join(sorted(set.intersection(*missed.values()))) or 'none'}."]
    lines += ["", "A run without a row made no predictions; the manifest gives the reason.", ""]
    return "\n".join(lines)


def instructions() -> str:
    """Markdown with code that runs as it stands; model and training loop are quoted from this very file."""
    model, loop = inspect.getsource(build_model), inspect.getsource(Training)
    parameters = inspect.getsource(Parameters)
    return f"""\
# Loading the deliverables again

Needs Python, torch and safetensors (the versions used are in `manifest.json` under `provenance`).
Run the code in this directory.

## Predict with the final weights of a run

```python
import json

import torch
from safetensors.torch import load_file


{model}

with open("runs/control/parameters.json") as file:
    parameters = json.load(file)
with open("data/test.jsonl") as file:
    rows = [json.loads(line) for line in file]
model = build_model(parameters["hidden"], parameters["dropout"])
model.load_state_dict(load_file("runs/control/weights.safetensors"))
model.eval()
with torch.inference_mode():
    arms = model(torch.tensor([[row["x"], row["y"]] for row in rows])).argmax(dim=1).tolist()
print("accuracy", sum(arm == row["label"] for arm, row in zip(arms, rows)) / len(rows))
```

## Go on from the last resume point of a run

The last point lies before the end of the run: going on from it arrives at the delivered weights.

```python
import dataclasses
import json
import random

import torch
from safetensors.torch import load_file


{parameters}

{model}

{loop}

with open("runs/control/parameters.json") as file:
    parameters = Parameters(**json.load(file))
with open("data/train.jsonl") as file:
    rows = [json.loads(line) for line in file]
points, labels = torch.tensor([[row["x"], row["y"]] for row in rows]), torch.tensor([row["label"] for row in rows])
torch.set_num_threads(1)
training = Training(parameters, points, labels)
training.load_state_dict(torch.load("runs/control/resume.pt", weights_only=True))
while training.done < parameters.steps:
    training.step()
weights = load_file("runs/control/weights.safetensors")
difference = max((value - weights[name]).abs().max().item() for name, value in training.model.state_dict().items())
print("steps", training.done, "greatest difference from the delivered weights", difference)
```
"""


# Small helpers


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def line(record: dict[str, Any]) -> str:
    return json.dumps(record, allow_nan=False) + "\n"


def write_json(path: Path, document: dict[str, Any]) -> None:
    path.write_text(json.dumps(document, indent=2, allow_nan=False) + "\n", encoding="utf-8")


def write_jsonl(path: Path, records: Iterable[dict[str, Any]]) -> None:
    path.write_text("".join(map(line, records)), encoding="utf-8")


def write_data(record: Campaign, data: Mapping[str, Sequence[dict[str, Any]]]) -> None:
    """The data sets in the folder ``data``, under their names."""
    (record.directory / "data").mkdir()
    for name, rows in data.items():
        write_jsonl(record.directory / "data" / f"{name}.jsonl", rows)
        record.dataset(name, f"data/{name}.jsonl", key=["id"], rows=len(rows))


def score(rows: Sequence[dict[str, Any]]) -> float:
    return sum(row["prediction"] == row["label"] for row in rows) / len(rows)


# The campaign


def campaign(out: Path) -> None:
    """Everything, in the order in which it must happen: plan, data, runs, analysis. The manifest grows with each of them."""
    torch.set_num_threads(1)  # the same sums in the same order, however many processors there are
    out.mkdir(parents=True, exist_ok=True)
    write_json(out / "plan.json", plan())
    record = Campaign(out, command="python train_campaign.py OUT")
    data = {"train": make_rows("train", 600, seed=10), "test": make_rows("test", 300, seed=11)}
    write_data(record, data)

    predictions: dict[str, list[dict[str, Any]]] = {}
    aborts: dict[str, Abort] = {}
    choice = GO_ON
    for id, parameters in RUNS.items():
        if choice == STOP:
            record.not_run(id, f"dropped at the decision point ({STOP})", priority=PRIORITIES[id])
            continue
        with record.run(id, parameters=dataclasses.asdict(parameters), seed=parameters.seed, priority=PRIORITIES[id],
                        datasets=list(data), first_step=1, world_size=1) as run:
            training, stopped = train(run.folder, parameters, data["train"])
            proven = {"tensor_digests": proof.digests(training.model)}  # from memory, before anything is saved
            run.update(steps=training.done)
            if stopped:
                aborts[id] = stopped
                run.abort(stopped.rule, stopped.reason, step=stopped.step)
            else:
                predictions[id] = predict(training.model, data["test"])
                save_weights(run.folder / "weights.safetensors", training.model)
                proof.record(training.model, tensors(data["test"][:8])[0], run.folder / "probe.safetensors")
                write_jsonl(run.folder / "predictions.jsonl", predictions[id])
            deliver(run, RUN_DELIVERABLES, run.folder, weights=proven)
        if id == "control":
            choice, reason = decide(predictions.get(id))
            record.choose(None, choice, reason)

    (out / "analysis").mkdir()
    (out / "analysis" / "errors.md").write_text(error_analysis(predictions), encoding="utf-8")
    (out / "INSTRUCTIONS.md").write_text(instructions(), encoding="utf-8")
    deliver(record, CAMPAIGN_DELIVERABLES, out)
    record.decide(**conclude({run: score(rows) for run, rows in predictions.items()}, aborts))
    print(f"{CAMPAIGN}: completed {', '.join(predictions) or 'none'}; aborted {', '.join(aborts) or 'none'}")


def main(argv: Sequence[str], make: Callable[[Path], None] = campaign) -> int:
    """``argv`` is the directory to ``make``; the exit status: 0 made, 2 not a new or empty directory."""
    if len(argv) != 1:
        print(f"usage: python {Path(sys.argv[0]).name} OUT", file=sys.stderr)
        return 2
    out = Path(argv[0])
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        print(f"{out} is there already and is no empty directory; name a new one", file=sys.stderr)
        return 2
    make(out)
    print(f"plan, data, parameters, metrics, predictions, checkpoints and manifest are in {out}; check them with")
    print(f"    pytest --campaign-dir {shlex.quote(str(out))}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
