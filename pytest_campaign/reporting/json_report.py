"""The JSON report, in the form of ``schemas/report-1.schema.json``."""

from __future__ import annotations

import json
from typing import Any

from ..findings import Finding
from ..record import REPORT_VERSION, CampaignRecord, DeliverableRecord, Record, Result, Verdict
from .base import Report


def render(record: Record) -> str:
    """The report as ASCII text: names that are no UTF-8 survive as escapes."""
    return json.dumps(as_data(record), indent=1, allow_nan=False) + "\n"


def as_data(record: Record) -> dict[str, Any]:
    """The report as plain data. With a single campaign its deliverables and findings stand at the top level too."""
    campaigns = [_campaign(campaign) for campaign in record.campaigns]
    data = {
        "report_version": REPORT_VERSION,
        "tool": dict(record.tool),
        "complete": record.complete,
        "environment": dict(record.environment),
        "isolation": dict(record.isolation),
        "started": record.started,
        "seconds": record.seconds,
        "campaigns": campaigns,
    }
    if len(campaigns) == 1:
        data |= {"deliverables": campaigns[0]["deliverables"], "findings": campaigns[0]["findings"]}
    return data


def _campaign(campaign: CampaignRecord) -> dict[str, Any]:
    return {
        "directory": campaign.directory,
        "campaign": campaign.campaign,
        "verdict": None if campaign.partial else campaign.verdict.value,
        "partial": {"ran": campaign.ran, "expected": campaign.expected} if campaign.partial else None,
        "plan": {"source": campaign.plan[0], "sha256": campaign.plan[1]} if campaign.plan else None,
        "counts": {"total": len(campaign.deliverables), "distinct": campaign.distinct}
        | {verdict.value: campaign.count(verdict) for verdict in Verdict},
        "cost": None,
        "inventory": {"files": campaign.inventory[0], "bytes": campaign.inventory[1]},
        "checks": [_check(result) for result in campaign.results],
        "findings": [_finding(finding) for finding in campaign.findings],
        "runs": [dict(run) for run in campaign.runs],
        "deliverables": [_deliverable(deliverable) for deliverable in campaign.deliverables],
    }


def _deliverable(deliverable: DeliverableRecord) -> dict[str, Any]:
    return {
        "id": deliverable.id,
        "kind": deliverable.kind,
        "path": deliverable.path,
        "format": deliverable.format,
        "purpose": deliverable.purpose,
        "priority": deliverable.priority,
        "verdict": deliverable.verdict.value,
        "depth": deliverable.depth.label if deliverable.depth is not None else None,
        "checks": [_check(result) for result in deliverable.results],
        "files": [{"path": file.path, "bytes": file.bytes, "sha256": file.sha256} for file in deliverable.files],
        "findings": [_finding(finding) for finding in deliverable.findings],
    }


def _check(result: Result) -> dict[str, Any]:
    return {"check": result.pair.check, "outcome": result.outcome.value, "seconds": result.seconds, "reason": result.reason}


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "rule": finding.rule, "level": finding.level.value, "path": finding.path, "line": finding.line, "column": finding.column,
        "pointer": finding.pointer, "observed": finding.observed, "expected": finding.expected, "message": finding.message,
        "remedy": finding.remedy, "deliverable": finding.deliverable, "unanswered": finding.unanswered, "waived": finding.waived,
    }


REPORT = Report(".json", render)
