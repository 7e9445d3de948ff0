"""The JSON report, in the form of ``schemas/report-1.schema.json``."""

from __future__ import annotations

import base64
import dataclasses
import datetime
import json
import os
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

from ..findings import Finding
from ..ledger import Cost, Line, written
from ..record import REPORT_VERSION, CampaignRecord, DeliverableRecord, Record, Result, Times, Verdict
from ..reload.protocol import Isolation
from ..schedule import Comparison, is_machine
from ..text import shown, shown_json
from .base import Report


def render(record: Record) -> str:
    """The report as printable ASCII text."""
    return shown_json(json.dumps(as_data(record), indent=1, allow_nan=False)) + "\n"


def first_line(record: Record, directories: Sequence[str]) -> str:
    """The first line of the record beside a report: what the session set out to do."""
    data = {"report_version": REPORT_VERSION, "tool": record.tool["version"], "started": record.started,
            "directories": list(directories)}
    return shown_json(json.dumps(_whole(data)))


def line(directory: str, result: Result) -> str:
    """One finished check as a line of the record beside a report."""
    data = {"directory": directory, "deliverable": result.pair.deliverable, **_check(result),
            "findings": [_finding(finding) for finding in result.findings]}
    return shown_json(json.dumps(_whole(data)))


def as_data(record: Record) -> dict[str, Any]:
    """The report as plain data. With a single campaign its deliverables and findings stand at the top level too.

    Texts for people are escaped as on the terminal. Names are as they are; in one that is no UTF-8 the odd bytes are escaped,
    and where it is a path it stands beside itself as ``path_b64``.
    """
    campaigns = [_campaign(campaign) for campaign in record.campaigns]
    data = {
        "report_version": REPORT_VERSION,
        "tool": dict(record.tool),
        "complete": record.complete,
        "environment": dict(record.environment),
        "isolation": _isolation(record.isolation) if record.isolation is not None else None,
        "started": record.started,
        "seconds": record.seconds,
        "campaigns": campaigns,
    }
    if len(campaigns) == 1:
        data |= {"deliverables": campaigns[0]["deliverables"], "findings": campaigns[0]["findings"]}
    whole: dict[str, Any] = _whole(data)
    return whole


def _whole(value: Any) -> Any:
    """The value with texts that are Unicode: half surrogates escaped."""
    if isinstance(value, str):
        return value if value.isascii() else _text(value)
    if isinstance(value, dict):
        return {_whole(key): _whole(item) for key, item in value.items()}
    return [_whole(item) for item in value] if isinstance(value, list | tuple) else value


def _text(value: str) -> str:
    return value.encode("utf-8", "backslashreplace").decode("utf-8")


def _exact(path: str | None) -> dict[str, str]:
    """The bytes of a path that is no UTF-8."""
    if path is None or path.isascii() or _text(path) == path:
        return {}
    return {"path_b64": base64.b64encode(os.fsencode(path)).decode("ascii")}


def _isolation(isolation: Isolation) -> dict[str, Any]:
    return {"level": isolation.level, "layers": list(isolation.layers), "missing": list(isolation.missing)}


def _campaign(campaign: CampaignRecord) -> dict[str, Any]:
    return {
        "directory": campaign.directory,
        "campaign": campaign.campaign,
        "verdict": None if campaign.partial else campaign.verdict.value,
        "partial": {"ran": campaign.ran, "expected": campaign.expected} if campaign.partial else None,
        "plan": {"source": campaign.plan[0], "sha256": campaign.plan[1]} if campaign.plan else None,
        "counts": {"total": len(campaign.deliverables), "distinct": campaign.distinct}
        | {verdict.value: campaign.count(verdict) for verdict in Verdict},
        "decision": _decision(campaign),
        "schedule": _schedule(campaign.times),
        "cost": _cost(campaign.cost),
        "rehearsals": [dataclasses.asdict(rehearsal) for rehearsal in campaign.rehearsals],
        "inventory": {"files": campaign.inventory[0], "bytes": campaign.inventory[1]},
        "checks": [_check(result) for result in campaign.results],
        "findings": [_finding(finding) for finding in campaign.findings],
        "runs": [dict(run) for run in campaign.runs],
        "deliverables": [_deliverable(deliverable) for deliverable in campaign.deliverables],
    }


def _decision(campaign: CampaignRecord) -> dict[str, Any]:
    point, answer = campaign.decision_point, campaign.decision or {}
    return {
        "outcome": answer.get("outcome"), "summary": answer.get("summary"), "based_on": list(answer.get("based_on", ())),
        "point": {"after": point.after, "options": list(point.options)} if point is not None else None,
        "taken": [{"at": _time(taken.at), "choice": taken.choice, "reason": taken.reason} for taken in campaign.decisions],
    }


def _schedule(times: Times | None) -> dict[str, Any] | None:
    if times is None:
        return None
    window = times.schedule.window
    resources = [{
        "resource": name, "planned_hours": _number(use.hours), "planned_end_hour": _number(use.end),
        "left_hours": _number(use.left(window)) if window is not None and is_machine(name) else None,
        "measured_hours": _number(times.measured[name].hours) if name in times.measured else None,
    } for name, use in times.planned.items()]
    return {"window_hours": _number(window), "tolerance_percent": _number(times.schedule.tolerance), "resources": resources,
            "steps": [_step(step, times) for step in times.steps]}


def _step(step: Comparison, times: Times) -> dict[str, Any]:
    started = [part.started for part in step.parts if part.started is not None]
    finished = [part.finished for part in step.parts if part.finished is not None]
    return {
        "id": step.id, "resource": step.step.resource if step.step is not None else None,
        "planned_hours": _number(step.step.hours) if step.step is not None else None,
        "planned_start_hour": _number(times.begins.get(step.id)),
        "started": _time(min(started)) if started else None, "finished": _time(max(finished)) if finished else None,
        "measured_hours": _number(step.hours), "deviation_percent": _number(step.percent), "explanation": step.explanation,
    }


def _cost(cost: Cost | None) -> dict[str, Any] | None:
    if cost is None:
        return None
    return {
        "currency": cost.account.currency, "packages": [_line(line, "order") for line in cost.account.packages],
        "other": [_line(line) for line in cost.account.other], "planned": written(cost.account.planned),
        "total": _money(cost.account.total), "unit": cost.unit, "accepted": cost.units, "per_unit": _money(cost.per_unit),
        "reason": cost.reason,
    }


def _line(line: Line, *more: str) -> dict[str, Any]:
    amounts = {"planned": _money(line.planned), "actual": _money(line.actual), "amount": _money(line.amount)}
    return {"name": line.name, **amounts, **{name: getattr(line, name) for name in more}}


def _money(amount: Decimal | None) -> str | None:
    return None if amount is None else written(amount)


def _number(value: Fraction | None) -> float | None:
    return None if value is None else float(round(value, 6))


def _time(value: datetime.datetime) -> str:
    return value.isoformat().replace("+00:00", "Z")


def _deliverable(deliverable: DeliverableRecord) -> dict[str, Any]:
    return {
        "id": deliverable.id,
        "kind": deliverable.kind,
        "path": deliverable.path,
        **_exact(deliverable.path),
        "format": deliverable.format,
        "purpose": deliverable.purpose,
        "priority": deliverable.priority,
        "verdict": deliverable.verdict.value,
        "depth": deliverable.depth.label if deliverable.depth is not None else None,
        "loader": deliverable.loader,
        "checks": [_check(result) for result in deliverable.results],
        "files": [{"path": file.path, "bytes": file.bytes, "sha256": file.sha256} | _exact(file.path)
                  for file in deliverable.files],
        "findings": [_finding(finding) for finding in deliverable.findings],
    }


def _check(result: Result) -> dict[str, Any]:
    return {"check": result.pair.check, "outcome": result.outcome.value, "seconds": result.seconds,
            "reason": _shown(result.reason)}


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "rule": finding.rule, "level": finding.level.value, "path": finding.path, **_exact(finding.path), "line": finding.line,
        "column": finding.column, "pointer": finding.pointer, "observed": _shown(finding.observed),
        "expected": _shown(finding.expected), "message": shown(finding.message), "remedy": shown(finding.remedy),
        "deliverable": finding.deliverable, "unanswered": finding.unanswered, "waived": _shown(finding.waived),
    }


def _shown(text: str | None) -> str | None:
    return None if text is None else shown(text)


REPORT = Report(".json", render)
