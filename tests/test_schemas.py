"""The schema files: sound, documented, closed, and found in every kind of installation."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path

import jsonschema
import pytest
import referencing.exceptions

from pytest_campaign import schema_files

DOCUMENTS = ["manifest-1", "plan-1", "report-1"]


def walk(schema, where=""):
    """Every subschema with its place."""
    if isinstance(schema, dict):
        yield where, schema
        for key, inner in schema.items():
            if key not in ("examples", "enum", "const", "required", "dependentRequired"):
                yield from walk(inner, f"{where}/{key}")
    elif isinstance(schema, list):
        for at, inner in enumerate(schema):
            yield from walk(inner, f"{where}/{at}")


def properties(name):
    for where, schema in walk(schema_files.schema(name)):
        if "properties" in schema and not where.endswith("/if"):
            for key, inner in schema["properties"].items():
                yield f"{where}/properties/{key}", inner


def test_names():
    assert schema_files.names() == DOCUMENTS


@pytest.mark.parametrize("name", DOCUMENTS)
def test_schema_is_a_schema(name):
    jsonschema.Draft202012Validator.check_schema(schema_files.schema(name))
    assert schema_files.schema(name)["$id"] == f"urn:pytest-campaign:{name}"


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_property_is_described_with_valid_examples(name):
    found = list(properties(name))
    assert len(found) > 30
    for where, schema in found:
        assert schema.get("description", "").endswith("."), where
        assert schema.get("examples"), where
        for example in schema["examples"]:
            errors = list(schema_files.validator(name).evolve(schema=schema_at(name, schema)).iter_errors(example))
            assert not errors, (where, example, errors)


def schema_at(name, schema):
    """A subschema as a schema of its own, with the definitions that it refers to."""
    return {**schema, "$defs": schema_files.schema(name)["$defs"]}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_objects_are_closed(name):
    open_ = [where for where, schema in walk(schema_files.schema(name))
             if "properties" in schema and not where.endswith("/if") and schema.get("additionalProperties") is not False]
    assert open_ == []


@pytest.mark.parametrize("name", DOCUMENTS)
def test_nothing_quadratic_and_every_pattern_is_anchored(name):
    for where, schema in walk(schema_files.schema(name)):
        assert "uniqueItems" not in schema, where
        if "pattern" in schema and isinstance(schema["pattern"], str):
            assert schema["pattern"].startswith("^"), where
            assert schema["pattern"].endswith("$(?!\\n)"), where
            for text in ("a" * 10**6 + "!", "0" * 10**6 + "!", "a." * 10**5 + "\n", "1." * 10**5):
                start = time.monotonic()
                list(jsonschema.Draft202012Validator({"pattern": schema["pattern"]}).iter_errors(text))
                assert time.monotonic() - start < 60, where  # exponential time would be hours


@pytest.mark.filterwarnings("ignore:Automatically retrieving:DeprecationWarning")  # an open registry gives it and fetches
def test_registry_is_closed(tmp_path):
    (tmp_path / "other.json").write_text("{}")
    validator = schema_files.validator("plan-1").evolve(schema={"$ref": f"file://{tmp_path}/other.json"})
    with pytest.raises(referencing.exceptions.Unresolvable):
        validator.is_valid({})


@pytest.mark.parametrize(("time_", "sound"), [
    ("2026-03-02T08:00:00Z", True), ("2026-03-02T08:00:00+00:00", True), ("2026-03-02T08:00:00.123456789Z", True),
    ("2024-02-29T23:59:59Z", True), ("2025-02-29T23:59:59Z", False), ("2026-13-02T08:00:00Z", False),
    ("2026-03-02T25:00:00Z", False), ("2026-03-02T08:00:00", False), ("2026-03-02T08:00:00+02:00", False),
    ("2026-03-02", False), ("2026-03-02T08:00:00Z\n", False), ("\u0662026-03-02T08:00:00Z", False),
])
def test_times(time_, sound):
    validator = schema_files.validator("manifest-1")
    assert validator.evolve(schema=schema_at("manifest-1", {"$ref": "#/$defs/time"})).is_valid(time_) is sound


@pytest.mark.parametrize(("id_", "sound"), [
    ("a", True), ("rank-8_lr1e-4.b", True), ("8", True), ("x" * 128, True), ("x" * 129, False), ("", False), (".a", False),
    ("a/b", False), ("a b", False), ("a\n", False), ("\u00e9", False),
])
def test_ids(id_, sound):
    validator = schema_files.validator("manifest-1")
    assert validator.evolve(schema=schema_at("manifest-1", {"$ref": "#/$defs/id"})).is_valid(id_) is sound


FIND = "from pytest_campaign import schema_files as s; print(s.folder()); print(s.schema('plan-1')['$id'])"


def find(folder: Path) -> list[str]:
    done = subprocess.run([sys.executable, "-c", FIND], cwd="/", env={"PYTHONPATH": str(folder)}, capture_output=True, text=True)
    return done.stdout.splitlines()


def test_folder_of_a_checkout_of_a_wheel_and_never_a_strangers(tmp_path):
    package = Path(schema_files.__file__).parent
    shutil.copytree(package, tmp_path / "site" / "pytest_campaign", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(schema_files.folder(), tmp_path / "site" / "schemas")
    # the schemas are not inside, and what lies beside a package without our pyproject.toml is a stranger's
    assert find(tmp_path / "site") == [str(tmp_path / "site/pytest_campaign/schemas")]
    (tmp_path / "site" / "pyproject.toml").touch()
    assert find(tmp_path / "site") == [str(tmp_path / "site/schemas"), "urn:pytest-campaign:plan-1"]
    shutil.move(tmp_path / "site/schemas", tmp_path / "site/pytest_campaign/schemas")
    assert find(tmp_path / "site") == [str(tmp_path / "site/pytest_campaign/schemas"), "urn:pytest-campaign:plan-1"]


REPORT = {
    "report_version": 1, "tool": {"version": "0.1.0", "rules": []}, "complete": False, "environment": {}, "isolation": None,
    "started": "2026-03-02T16:00:00Z", "seconds": None, "campaigns": [],
}


def test_incomplete_report_is_valid():
    assert schema_files.validator("report-1").is_valid(REPORT)
    assert not schema_files.validator("report-1").is_valid({**REPORT, "complete": "no"})
    assert not schema_files.validator("report-1").is_valid({**REPORT, "verdict": "accepted"})


def test_whole_report_is_valid():
    finding = {"rule": "reload.nan", "level": "error", "path": "m.pt", "line": None, "column": None, "pointer": "w",
               "observed": "1 NaN", "expected": "finite values", "message": "w holds NaN", "remedy": "save again",
               "deliverable": None,
               "unanswered": False, "waived": None}
    deliverable = {"id": "a/m", "kind": "checkpoint", "path": "m.pt", "format": "torch-zip", "purpose": None,
                   "priority": "essential", "verdict": "rejected", "depth": "tensors", "findings": [finding],
                   "checks": [{"check": "reload", "outcome": "failed", "seconds": 0.1, "reason": None}],
                   "files": [{"path": "m.pt", "bytes": 7, "sha256": None}]}
    campaign = {"directory": "out", "campaign": "c", "verdict": "rejected", "partial": None, "plan": None, "cost": None,
                "schedule": None, "rehearsals": [],
                "decision": {"outcome": None, "summary": None, "based_on": [], "point": None, "taken": []},
                "findings": [], "checks": [],
                "counts": {"accepted": 0, "rejected": 1, "missing": 0, "unverified": 0, "aborted": 0, "total": 1,
                           "distinct": 0},
                "inventory": {"files": 1, "bytes": 7}, "deliverables": [deliverable],
                "runs": [{"id": "a", "status": "completed", "counts": {"rejected": 1}, "parameters": None, "abort": None}]}
    report = {**REPORT, "complete": True, "seconds": 1.0, "campaigns": [campaign], "deliverables": [deliverable], "findings": []}
    validator = schema_files.validator("report-1")
    validator.validate(report)
    for change in ({"verdict": "good"}, {"kind": 1}, {"surprise": 1}):
        changed = {**campaign, "deliverables": [{**deliverable, **change}]}
        assert not validator.is_valid({**report, "campaigns": [changed]}), change
