"""A plan to fill in before the first run. Empty texts and nulls are no valid plan, so that nothing can be forgotten in it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .. import durable
from ..documents import read_plan
from ..snapshot import MANIFEST, PLAN
from .campaign import own_id
from .errors import RecordingError


def skeleton(campaign: str) -> dict[str, Any]:
    """A control and one variant, an abort rule, a decision point, a schedule and a budget; delete what does not apply."""
    delivered = [{"id": "weights", "kind": "checkpoint", "depth": "tensors"}, {"id": "metrics", "kind": "metrics"},
                 {"id": "parameters", "kind": "parameters"}]
    return {
        "$schema": "urn:pytest-campaign:plan-1",
        "plan_version": 1,
        "campaign": campaign,
        "question": "",
        "runs": [{"id": "control", "role": "control", "priority": "essential", "deliverables": delivered},
                 {"id": "", "role": "variant", "priority": "essential", "deliverables": delivered}],
        "deliverables": [{"id": "analysis", "kind": "analysis", "priority": "useful"}],
        "abort_rules": [{"id": "loss-not-finite", "when": "the training loss is NaN or infinite", "metric": "loss",
                         "op": "not_finite"}],
        "decision_point": {"after": "control", "options": ["train the variant", "stop"]},
        "schedule": {"window_hours": None, "tolerance_percent": 20, "steps": [
            {"id": "control", "hours": None, "start_hour": 0, "resource": "gpu"},
            {"id": "", "hours": None, "start_hour": None, "resource": "gpu"}]},
        "budget": {"currency": "", "packages": [{"name": "", "price": "", "hours": None, "order": ""}], "other": [],
                   "unit": "checkpoint"},
    }


def write(directory: Path) -> tuple[Path, Sequence[str]]:
    """Write ``plan.json`` into a directory, which is made; its path, and what is to be filled in, each with its line.

    Raises `RecordingError` when there is one, or when the campaign has begun: nobody should write a plan afterwards.
    """
    directory.mkdir(parents=True, exist_ok=True)
    target = directory / PLAN
    if (directory / MANIFEST).exists():
        raise RecordingError(f"{directory / MANIFEST} is there already: a plan is written before the first run, not afterwards")
    data = (json.dumps(skeleton(own_id(directory)), indent=2) + "\n").encode()
    try:
        durable.create(target, data)
    except FileExistsError:
        raise RecordingError(f"{target} exists and is never overwritten") from None
    _, faults = read_plan(data, PLAN, "campaign")
    open_places = sorted((fault.line or 0, fault.pointer) for fault in faults if fault.pointer is not None)
    return target, [f"{PLAN}:{line}: {pointer}" for line, pointer in open_places]
