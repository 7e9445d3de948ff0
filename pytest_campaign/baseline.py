"""An earlier JSON report, as the state that a campaign is compared with."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Sequence
from typing import Any

from .campaign import DeclaredFile, Earlier, EarlierDeliverable
from .readers import strict_json
from .schema_files import validator

_LARGEST = 2**30
_LONG = frozenset({"files", "checks", "findings"})
_OF_A_FILE = frozenset({"path", "path_b64", "bytes", "sha256"})
_SHA256 = re.compile(r"[0-9a-f]{64}")


def read(data: bytes, file: str) -> tuple[Earlier, ...]:
    """The campaigns of a report; ``file`` is what messages call it. ValueError when it is none, or did not come to its end."""
    raw = strict_json.parse(data, most_bytes=_LARGEST)
    if not isinstance(raw, dict) or "report_version" not in raw:
        raise ValueError(f"{file} is no JSON report of pytest-campaign")
    for error in validator("report-1").iter_errors(_outline(raw)):
        raise ValueError(f"{file} is no valid report: {error.json_path}: {error.message[:200]}")
    if (where := next(_odd_files(raw), None)) is not None:
        raise ValueError(f"{file} is no valid report: {where} is no list of files with their sizes and digests")
    if not raw["complete"]:
        raise ValueError(f"{file} is incomplete: its session was interrupted; take a report of one that came to its end")
    if not raw["campaigns"]:
        raise ValueError(f"{file} is the report of no campaign")
    return tuple(_campaign(campaign, file) for campaign in raw["campaigns"])


def _outline(raw: dict[str, Any]) -> dict[str, Any]:
    """A report without its long lists, for which a schema takes minutes: what is not read, and the files (see `_odd_files`)."""
    outline = {name: value for name, value in raw.items() if name not in ("deliverables", "findings")}
    if isinstance(raw.get("campaigns"), list):
        outline["campaigns"] = [
            campaign | {"checks": [], "findings": [], "deliverables": [
                {name: [] if name in _LONG and isinstance(value, list) else value for name, value in deliverable.items()}
                if isinstance(deliverable, dict) else deliverable for deliverable in campaign["deliverables"]]}
            if isinstance(campaign, dict) and isinstance(campaign.get("deliverables"), list) else campaign
            for campaign in raw["campaigns"]]
    return outline


def _odd_files(raw: dict[str, Any]) -> Iterator[str]:
    """The places of file lists, in a report of sound outline, that are not as the schema has them."""
    for number, campaign in enumerate(raw["campaigns"]):
        for index, deliverable in enumerate(campaign["deliverables"]):
            for file in deliverable["files"]:
                match file:
                    case {"path": str(), "bytes": int(size), "sha256": None | str() as digest} if size >= 0 \
                            and not isinstance(size, bool) and (digest is None or _SHA256.fullmatch(digest)) \
                            and isinstance(file.get("path_b64", ""), str) and file.keys() <= _OF_A_FILE:
                        continue
                yield f"$.campaigns[{number}].deliverables[{index}].files"
                break


def matching(baseline: Sequence[Earlier], name: str, directory: str) -> Earlier:
    """The campaign of a report that a directory is to be compared with: of its name, of its place, or the only one.

    Where there is none of these it is one without deliverables that has the names of all.
    """
    same = [earlier for earlier in baseline if earlier.campaign == name] or list(baseline)
    found = next((earlier for earlier in same if earlier.directory == directory), same[0] if len(same) == 1 else None)
    return found or Earlier(baseline[0].file, ", ".join(sorted({earlier.campaign for earlier in baseline})), "", None, ())


def _campaign(campaign: dict[str, Any], file: str) -> Earlier:
    return Earlier(
        file, campaign["campaign"], campaign["directory"], campaign["verdict"],
        [EarlierDeliverable(_path(d) if d["id"] == d["path"] else d["id"], _path(d), d["verdict"],
                            [DeclaredFile(_path(f), f["bytes"], f["sha256"]) for f in d["files"]])
         for d in campaign["deliverables"]])


def _path(entry: dict[str, Any]) -> Any:
    """The path of a deliverable or a file; one that is no UTF-8 as the system has it."""
    if "path_b64" not in entry:
        return entry["path"]
    try:
        return base64.b64decode(entry["path_b64"], validate=True).decode("utf-8", "surrogateescape")
    except ValueError:  # text of a file that is not trusted
        return entry["path"]
