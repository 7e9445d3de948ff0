"""A small sound campaign, written by the real libraries, for tests to check as it is or to spoil."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

LAST = "runs/control/last.pt"
METRICS = "runs/control/metrics.json"
WEIGHTS = "runs/variant/model.safetensors"


def tensors(seed: int = 0) -> dict[str, torch.Tensor]:
    """A state dict of three tensors, finite and never all zero."""
    generator = torch.Generator().manual_seed(seed)
    return {"layer.weight": torch.randn(8, 4, generator=generator), "layer.bias": torch.randn(8, generator=generator),
            "norm.weight": torch.ones(4)}


@dataclasses.dataclass
class Written:
    """A campaign in a directory: its files are there, its documents as plain data until `save` writes them."""

    directory: Path
    manifest: dict[str, Any]
    plan: dict[str, Any] | None
    saved: bool = False

    def __truediv__(self, path: str) -> Path:
        """The place of a file in the campaign; the folders above it are made."""
        place = self.directory / path
        place.parent.mkdir(parents=True, exist_ok=True)
        return place

    def run(self, id: str) -> dict[str, Any]:
        """The manifest's entry of a run."""
        return next(run for run in self.manifest["runs"] if run["id"] == id)

    def planned_run(self, id: str) -> dict[str, Any]:
        """The plan's entry of a run."""
        assert self.plan is not None
        return next(run for run in self.plan["runs"] if run["id"] == id)

    def deliverable(self, id: str) -> dict[str, Any]:
        """The manifest's entry of a deliverable, by its full id."""
        run, _, own = id.rpartition("/")
        entries = self.run(run)["deliverables"] if run else self.manifest["deliverables"]
        return next(entry for entry in entries if entry["id"] == own)

    def planned(self, id: str) -> dict[str, Any]:
        """The plan's entry of a deliverable of a run, by its full id."""
        run, _, own = id.rpartition("/")
        return next(entry for entry in self.planned_run(run)["deliverables"] if entry["id"] == own)

    def add(self, id: str, kind: str, path: str, **more: Any) -> dict[str, Any]:
        """List one more deliverable, by its full id, in manifest and plan."""
        run, _, own = id.rpartition("/")
        entry = {"id": own, "kind": kind, "path": path, **more}
        (self.run(run) if run else self.manifest).setdefault("deliverables", []).append(entry)
        if self.plan is not None:
            (self.planned_run(run) if run else self.plan).setdefault("deliverables", []).append({"id": own, "kind": kind})
        return entry

    def save(self) -> Written:
        """Write the plan, if there is one, and the manifest with its digest."""
        if self.plan is not None:
            text = json.dumps(self.plan, indent=1)
            (self / "plan.json").write_text(text)
            self.manifest["plan"] = {"path": "plan.json", "sha256": hashlib.sha256(text.encode()).hexdigest()}
        (self / "manifest.json").write_text(json.dumps(self.manifest, indent=1))
        self.saved = True
        return self


def write(directory: Path) -> Written:
    """Two runs: the control delivers a torch checkpoint and its metrics, the variant a safetensors file."""
    entries = {
        "control": [{"id": "last", "kind": "checkpoint", "path": LAST}, {"id": "metrics", "kind": "metrics", "path": METRICS}],
        "variant": [{"id": "weights", "kind": "checkpoint", "path": WEIGHTS}],
    }
    made = Written(
        directory,
        manifest={"manifest_version": 1, "campaign": "width-ablation",
                  "runs": [{"id": run, "status": "completed", "deliverables": listed} for run, listed in entries.items()]},
        plan={"plan_version": 1, "campaign": "width-ablation", "question": "Does the wider layer help?",
              "runs": [{"id": run, "role": "control" if run == "control" else "variant", "priority": "essential",
                        "deliverables": [{"id": entry["id"], "kind": entry["kind"]} for entry in listed]}
                       for run, listed in entries.items()]})
    torch.save({"model": tensors(), "step": 10}, made / LAST)
    (made / METRICS).write_text('{"loss": 0.25}\n')
    save_file(tensors(1), made / WEIGHTS)
    return made
