"""Manifest and plan: what is built from them, and what is said of a faulty one."""

from __future__ import annotations

import copy
import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_campaign import documents
from pytest_campaign.campaign import Place
from pytest_campaign.formats.base import Depth
from pytest_campaign.inventory import take

PACKAGE = str(Path(documents.__file__).parents[1])
SHA = hashlib.sha256(b"").hexdigest()
TIME = "2026-03-02T08:00:00Z"
MANIFEST = {
    "manifest_version": 1, "campaign": "rank-ablation", "$schema": "urn:pytest-campaign:manifest-1", "extra": {"any": [1, None]},
    "todo": [{"pointer": "/decision", "why": "nobody decided", "command": "think"}],
    "plan": {"path": "./plan.json", "sha256": SHA},
    "provenance": {"git_commit": "1b9c3f0", "command": "python train.py", "environment": {"torch": "2.9.0"}, "started": TIME,
                   "finished": TIME, "extra": {}},
    "datasets": {"test": {"path": "data/test.jsonl", "key": ["id"], "rows": 2, "sha256": SHA},
                 "dev": {"ids": ["a", 1, ["b", 2]]}},
    "bases": {"tiny": {"model": "acme/tiny", "revision": None, "path": "base", "sha256": {"model.safetensors": SHA}}},
    "runs": [
        {"id": "control", "status": "completed", "role": "control", "seed": -1, "steps": 4, "first_step": 0, "world_size": 1,
         "parameters": "runs/control/parameters.json", "datasets": ["test"], "started": TIME, "finished": TIME, "extra": {},
         "deliverables": [
             {"id": "weights", "kind": "checkpoint", "path": "runs/control/model/", "purpose": "inference",
              "format": "safetensors", "task": "text-generation",
              "files": [{"path": "runs/control/model/model.safetensors", "bytes": 8, "sha256": SHA}],
              "reload": {"depth": "model", "probe": "runs/control/probe.json"}, "tensor_digests": {"w": SHA}},
             {"id": "predictions", "kind": "predictions", "path": "runs/control/predictions.jsonl", "dataset": "test",
              "key": ["id"], "value": "label", "file_columns": ["image"], "nullable": ["score"], "truncated_field": "cut"}]},
        {"id": "rank8", "status": "aborted", "priority": "useful", "resumed_from": "control/weights", "supersedes": "control",
         "repeat_of": "control", "abort": {"rule": "nan", "reason": "the loss was NaN", "step": 3, "at": TIME},
         "deliverables": [{"id": "adapter", "kind": "adapter", "path": ".", "base": "tiny"},
                          {"id": "merged", "kind": "checkpoint", "path": "m", "base": {"model": "acme/tiny", "path": "own"},
                           "priority": "exploratory", "merged_from": "rank8/adapter", "extra": {}}]},
        {"id": "rank16", "status": "not_run", "reason": "dropped at the decision point", "deliverables": []}],
    "deliverables": [{"id": "analysis", "kind": "analysis", "path": "analysis/report.md"}],
    "decision": {"outcome": "negative", "summary": "It diverges.", "based_on": ["control", "rank8"]},
    "actuals": {"steps": [{"id": "control", "started": TIME, "finished": TIME, "explanation": "late"}],
                "decisions": [{"at": TIME, "choice": "stop", "reason": "NaN"}], "costs": [{"name": "storage", "amount": "1.20"}],
                "rehearsals": [{"run": "control", "path": "rehearsal.pt", "bytes": 1, "write_seconds": 0.1,
                                "restore_seconds": 1}]},
}
PLAN = {
    "plan_version": 1, "campaign": "rank-ablation", "question": "Is rank 8 enough?", "$schema": "x", "extra": {},
    "runs": [{"id": "control", "role": "control", "priority": "useful",
              "deliverables": [{"id": "weights", "kind": "checkpoint", "depth": "tensors"},
                               {"id": "log", "kind": "log", "priority": "exploratory"}]},
             {"id": "rank8"}],
    "deliverables": [{"id": "analysis", "kind": "analysis"}],
    "abort_rules": [{"id": "nan", "when": "the loss is not finite", "metric": "loss", "op": "not_finite"},
                    {"id": "high", "when": "the loss is high", "metric": "loss", "op": ">", "value": 8, "for_steps": 5},
                    {"id": "late", "when": "the window ends"}],
    "decision_point": {"after": "control", "options": ["continue", "stop"]},
    "schedule": {"window_hours": 8, "tolerance_percent": 20,
                 "steps": [{"id": "control", "hours": 2, "start_hour": 0, "resource": "gpu"}]},
    "budget": {"currency": "EUR", "packages": [{"name": "8 hours", "price": "47.14", "hours": 8, "order": "A-1"}],
               "other": [{"name": "storage", "amount": "1"}], "unit": "checkpoint"},
}
ABSENT = object()


def label(case):
    return case[0] + ("=absent" if case[1] is ABSENT else f"={case[1]}")[:20]


def changed(document, pointer, value):
    """A copy of a document with one value set or, with ABSENT, taken away."""
    document = copy.deepcopy(document)
    *parts, last = [int(part) if part.isdigit() else part.replace("~1", "/") for part in pointer.split("/")[1:]]
    inner = document
    for part in parts:
        inner = inner[part]
    if value is ABSENT:
        del inner[last]
    else:
        inner[last] = value
    return document


def manifest(document):
    return documents.read_manifest(json.dumps(document, indent=1).encode())


def plan(document):
    return documents.read_plan(json.dumps(document, indent=1).encode(), "plan.json", "campaign")


def test_whole_manifest():
    read, faults = manifest(MANIFEST)
    assert faults == []
    assert read is not None
    assert [run.id for run in read.runs] == ["control", "rank8", "rank16"]
    assert [(item.id, item.path, item.run, item.priority) for item in read.deliverables] == [
        ("control/weights", "runs/control/model", "control", "essential"),
        ("control/predictions", "runs/control/predictions.jsonl", "control", "essential"),
        ("rank8/adapter", "", "rank8", "useful"), ("rank8/merged", "m", "rank8", "exploratory"),
        ("analysis", "analysis/report.md", None, "essential")]
    weights, aborted = read.deliverables[0], read.runs[1]
    assert (weights.depth, weights.purpose, weights.format) == (Depth.MODEL, "inference", "safetensors")
    assert weights.place == Place("manifest.json", "/runs/0/deliverables/0")
    assert [(file.path, file.bytes, file.sha256) for file in weights.files] == [("runs/control/model/model.safetensors", 8, SHA)]
    assert (aborted.abort_reason, aborted.supersedes, aborted.priority) == ("the loss was NaN", "control", "useful")
    assert read.plan_path == "plan.json"
    assert read.plan_sha256 == SHA
    assert read.todo == [("/decision", "nobody decided", "think")]
    assert set(read.named_paths) == {
        "plan.json", "data/test.jsonl", "base", "own", "runs/control/parameters.json", "runs/control/model/model.safetensors",
        "runs/control/probe.json", "rehearsal.pt"}


def test_whole_plan():
    data = json.dumps(PLAN).encode()
    read, faults = documents.read_plan(data, "copies/plan.json", "reviewer")
    assert faults == []
    assert read is not None
    assert (read.campaign, read.source, read.file, read.sha256) == (
        "rank-ablation", "reviewer", "copies/plan.json", hashlib.sha256(data).hexdigest())
    assert [(run.id, run.role, run.priority) for run in read.runs] == [
        ("control", "control", "useful"), ("rank8", None, "essential")]
    assert [(item.id, item.kind, item.priority, item.depth, item.run) for item in read.deliverables] == [
        ("control/weights", "checkpoint", "useful", Depth.TENSORS, "control"),
        ("control/log", "log", "exploratory", None, "control"), ("analysis", "analysis", "essential", None, None)]
    assert read.deliverables[1].place == Place("copies/plan.json", "/runs/0/deliverables/1")


def test_smallest_documents():
    assert manifest({"manifest_version": 1, "campaign": "c", "runs": []})[1] == []
    assert plan({"plan_version": 1, "campaign": "c", "question": "q", "runs": []})[1] == []


def test_no_file():
    assert documents.read_manifest(None) == (None, [])
    assert documents.read_plan(None, "plan.json", "campaign") == (None, [])


FORMAL = [
    # pointer, value, pointer of the fault, words of its message
    ("/manifest_version", 2, "/manifest_version", "should be 1"),
    ("/manifest_version", True, "/manifest_version", "should be 1"),
    ("/campaign", "a b", "/campaign", "an id"),
    ("/campaign", ABSENT, "", 'lacks "campaign"'),
    ("/runs", {}, "/runs", "should be an array"),
    ("/runs/0/status", "complete", "/runs/0/status", 'did you mean "completed"'),
    ("/runs/1/abort", ABSENT, "/runs/1", 'lacks "abort"'),
    ("/runs/1/abort/reason", "", "/runs/1/abort/reason", "at least 1 characters"),
    ("/runs/2/reason", ABSENT, "/runs/2", 'lacks "reason"'),
    ("/runs/0/seed", "1", "/runs/0/seed", "should be an integer"),
    ("/runs/0/seeds", 1, "/runs/0/seeds", 'did you mean "seed"'),
    ("/runs/0/steps", -1, "/runs/0/steps", "at least 0"),
    ("/runs/0/world_size", 0, "/runs/0/world_size", "at least 1"),
    ("/runs/0/started", "yesterday", "/runs/0/started", "time in UTC"),
    ("/runs/0/started", "2025-02-29T00:00:00Z", "/runs/0/started", "time in UTC"),
    ("/runs/0/deliverables/0/kind", "model", "/runs/0/deliverables/0/kind", '"model"'),
    ("/runs/0/deliverables/0/path", 7, "/runs/0/deliverables/0/path", "should be a string"),
    ("/runs/0/deliverables/0/loader", "m:f", "/runs/0/deliverables/0/loader", 'no property "loader"'),
    ("/runs/0/deliverables/0/files/0/sha256", SHA.upper(), "/runs/0/deliverables/0/files/0/sha256", "lower case"),
    ("/runs/0/deliverables/0/files/0/bytes", 1.5, "/runs/0/deliverables/0/files/0/bytes", "should be an integer"),
    ("/runs/0/deliverables/0/reload/depth", "full", "/runs/0/deliverables/0/reload/depth", '"full"'),
    ("/runs/1/deliverables/0/base", 5, "/runs/1/deliverables/0/base", "a string or an object"),
    ("/runs/1/deliverables/1/base/model", ABSENT, "/runs/1/deliverables/1/base", 'lacks "model"'),
    ("/datasets/test/ids", ["a"], "/datasets/test", "exactly one of"),
    ("/datasets/test/path", ABSENT, "/datasets/test", "exactly one of"),
    ("/bases/tiny", "acme/tiny", "/bases/tiny", "should be an object"),
    ("/actuals/costs/0/amount", 1.2, "/actuals/costs/0/amount", "should be a string"),
    ("/actuals/costs/0/amount", "-1", "/actuals/costs/0/amount", "decimal"),
    ("/decision/outcome", "yes", "/decision/outcome", '"yes"'),
    ("/provenance/git_commit", "main", "/provenance/git_commit", "hexadecimal"),
    ("/extras", {}, "/extras", 'did you mean "extra"'),
    ("/plan/sha256", ABSENT, "/plan", 'lacks "sha256"'),
]


@pytest.mark.parametrize(("pointer", "value", "at", "words"), FORMAL, ids=map(label, FORMAL))
def test_manifest_that_does_not_fit_the_schema(pointer, value, at, words):
    document = changed(MANIFEST, pointer, value)
    data = json.dumps(document, indent=1).encode()
    read, faults = documents.read_manifest(data)
    assert read is None
    assert [fault.kind for fault in faults] == ["schema"]
    fault = faults[0]
    assert fault.pointer == at
    assert words in fault.message + (fault.expected or "")
    spot = documents.place(data, at)
    assert spot is not None
    assert fault.line == spot.line


PLAN_FAULTS = [
    ("/question", "", "/question"), ("/runs/0/role", "baseline", "/runs/0/role"),
    ("/abort_rules/1/value", ABSENT, "/abort_rules/1"),
    ("/abort_rules/1/op", "=>", "/abort_rules/1/op"), ("/abort_rules/0/op", ABSENT, "/abort_rules/0"),
    ("/abort_rules/2/for_steps", 3, "/abort_rules/2"), ("/budget/currency", "euro", "/budget/currency"),
    ("/budget/packages/0/price", 47.14, "/budget/packages/0/price"), ("/schedule/window_hours", -1, "/schedule/window_hours"),
    ("/runs/0/deliverables/0/path", "x", "/runs/0/deliverables/0/path"), ("/budget/unit", "epoch", "/budget/unit"),
]


@pytest.mark.parametrize(("pointer", "value", "at"), PLAN_FAULTS, ids=map(label, PLAN_FAULTS))
def test_plan_that_does_not_fit_the_schema(pointer, value, at):
    read, faults = plan(changed(PLAN, pointer, value))
    assert read is None
    assert [(fault.kind, fault.pointer) for fault in faults] == [("schema", at)]


def test_unknown_property_is_shown_at_its_key():
    data = b'{"manifest_version": 1, "campaign": "c",\n  "runs": [],\n  "run": {\n }}'
    fault, = documents.read_manifest(data)[1]
    assert (fault.line, fault.column, fault.pointer) == (3, 3, "/run")
    assert 'did you mean "runs"' in fault.message
    assert '"extra"' in fault.message


def test_two_absent_properties_of_one_object_are_both_named():
    _, faults = manifest(changed(changed(MANIFEST, "/runs/1/abort", ABSENT), "/runs/1/deliverables", ABSENT))
    assert [(fault.pointer, fault.expected) for fault in faults] == [("/runs/1", '"deliverables"'), ("/runs/1", '"abort"')]


def test_highest_fault_first():
    document = changed(changed(MANIFEST, "/runs/0/deliverables/0/kind", "model"), "/campaign", 7)
    assert [fault.pointer for fault in manifest(document)[1]] == ["/campaign", "/runs/0/deliverables/0/kind"]


@pytest.mark.parametrize(("data", "kind"), [
    (b'{"manifest_version": 1,', "syntax"), (b"", "syntax"), (b'{"a": 1, "a": 2}', "duplicate-key"),
    (b'{"a": NaN}', "non-finite"), (b"\xff\xfe{}", "encoding"), (b"[" * 1000, "too-large"),
    (b"[]", "schema"), (b"null", "schema"),
])
def test_manifest_that_is_no_strict_json(data, kind):
    read, faults = documents.read_manifest(data)
    assert read is None
    assert faults[0].kind == kind
    assert faults[0].file == "manifest.json"
    assert (faults[0].line, faults[0].column) != (None, None)


PATHS = [
    "/plan/path", "/datasets/test/path", "/bases/tiny/path", "/runs/0/parameters", "/runs/0/deliverables/0/path",
    "/runs/0/deliverables/0/files/0/path", "/runs/0/deliverables/0/reload/probe", "/runs/1/deliverables/1/base/path",
    "/actuals/rehearsals/0/path",
]


@pytest.mark.parametrize("pointer", PATHS)
def test_path_fault_leaves_the_manifest_usable(pointer):
    assert manifest(changed(MANIFEST, pointer, "a/./b/"))[1] == []
    read, faults = manifest(changed(MANIFEST, pointer, "/home/user/out"))
    assert read is not None
    assert [(fault.kind, fault.pointer) for fault in faults] == [("path", pointer)]
    assert "it is absolute" in faults[0].message
    assert faults[0].line
    assert not any("home" in path for path in read.named_paths)


@pytest.mark.parametrize("path", [
    "", "/", "/model", "../model", "model/../model", "x\\y", "~/model", "C:/model", "https://x/y", "m\n", "x" * 1025])
def test_bad_path_of_a_deliverable_leads_to_nothing(tmp_path, path):
    (tmp_path / "model").mkdir()
    read, faults = manifest(changed(MANIFEST, "/runs/0/deliverables/0/path", path))
    assert read is not None
    assert [fault.kind for fault in faults] == ["path"]
    inventory = take(tmp_path)
    assert inventory.resolve("model") is not None
    assert inventory.resolve(read.deliverables[0].path) is None


def test_fields_and_other_texts_are_no_paths():
    for pointer in ("/runs/0/deliverables/1/file_columns/0", "/decision/summary", "/bases/tiny/model", "/provenance/command"):
        assert manifest(changed(MANIFEST, pointer, "/home/../user"))[1] == []


TWICE = [
    ("/runs/2/id", "control", "/runs/2/id", "two entries have the id control"),
    ("/runs/2/id", "Control", "/runs/2/id", "differ only in case"),
    ("/runs/0/deliverables/1/id", "weights", "/runs/0/deliverables/1/id", "first at /runs/0/deliverables/0"),
]


@pytest.mark.parametrize(("pointer", "value", "at", "words"), TWICE)
def test_id_that_occurs_twice(pointer, value, at, words):
    read, faults = manifest(changed(MANIFEST, pointer, value))
    assert read is not None
    assert [(fault.kind, fault.pointer) for fault in faults] == [("duplicate-id", at)]
    assert words in faults[0].message


def test_same_id_in_two_runs_or_at_two_levels_is_fine():
    assert manifest(changed(MANIFEST, "/runs/1/deliverables/0/id", "weights"))[1] == []
    assert manifest(changed(MANIFEST, "/deliverables/0/id", "weights"))[1] == []


@pytest.mark.parametrize(("pointer", "first"), [
    ("/runs/1/id", "control"), ("/runs/0/deliverables/1/id", "WEIGHTS"), ("/abort_rules/1/id", "nan")])
def test_id_that_occurs_twice_in_the_plan(pointer, first):
    read, faults = plan(changed(PLAN, pointer, first))
    assert read is not None
    assert [(fault.kind, fault.pointer) for fault in faults] == [("duplicate-id", pointer)]


REFERENCES = [
    ("/runs/0/datasets/0", "tset", 'did you mean "test"'), ("/runs/0/deliverables/1/dataset", "train", "data set"),
    ("/runs/1/deliverables/0/base", "tinny", 'did you mean "tiny"'), ("/decision/based_on/1", "rank9", "run"),
    ("/runs/1/supersedes", "first", "run"), ("/runs/1/repeat_of", "first", "run"),
    ("/runs/1/resumed_from", "control/last", "run or deliverable"), ("/actuals/rehearsals/0/run", "trial", "run"),
]


@pytest.mark.parametrize(("pointer", "value", "words"), REFERENCES, ids=[case[0] for case in REFERENCES])
def test_reference_to_nothing(pointer, value, words):
    read, faults = manifest(changed(MANIFEST, pointer, value))
    assert read is not None
    assert [(fault.kind, fault.pointer) for fault in faults] == [("reference", pointer)]
    assert words in faults[0].message


def test_references_that_are_known():
    for origin in ("control", "control/weights", "analysis", "runs/control/predictions.jsonl"):
        assert manifest(changed(MANIFEST, "/runs/1/resumed_from", origin))[1] == []
    assert plan(changed(PLAN, "/decision_point/after", "rank8"))[1] == []
    assert [fault.kind for fault in plan(changed(PLAN, "/decision_point/after", "rank9"))[1]] == ["reference"]


def test_plan_path():
    assert documents.plan_path(json.dumps(MANIFEST).encode()) == "plan.json"
    assert documents.plan_path(b'{"plan": {"path": "docs/plan.json"}, "unknown": 1}') == "docs/plan.json"
    for data in (None, b"", b"[]", b'{"plan": 1}', b'{"plan": {"path": "/plan.json"}}', b'{"plan": {"path": 1}}'):
        assert documents.plan_path(data) is None


def test_faults_are_bounded_in_number_and_length():
    many = {f"{'k' * 300}{i}": i for i in range(20_000)}
    read, faults = manifest({**MANIFEST, **many})
    assert read is None
    assert len(faults) == documents.MOST_FAULTS + 1
    assert "more than" in faults[-1].message
    entries = [{"id": f"d{i}", "kind": "predictions", "path": "/x", "dataset": f"{'n' * 200}{i}"} for i in range(5000)]
    read, faults = manifest({**MANIFEST, "deliverables": entries})
    assert read is not None
    assert len(faults) == documents.MOST_FAULTS + 1
    _, more = manifest({**MANIFEST, "campaign": ["x" * 10**6], "runs": "y" * 10**6, "k" * 10**5: 1})
    for fault in faults + more:
        assert len(fault.message) <= 200
        assert len(fault.observed or "") < 200
        assert len(fault.pointer or "") <= 1000


def test_a_type_fault_behind_many_path_faults_makes_the_manifest_unusable():
    entries = [{"id": f"d{i}", "kind": "log", "path": "/x"} for i in range(300)]
    read, faults = manifest({**MANIFEST, "deliverables": [*entries, {"id": 7, "kind": "log", "path": "x"}]})
    assert read is None
    assert (faults[0].kind, faults[0].pointer) == ("schema", "/deliverables/300/id")


def test_the_same_from_every_process():
    document = changed(MANIFEST, "/decision/based_on/1", "rank9")
    document["runs"] += [{"id": f"rank9{letter}", "status": "completed", "deliverables": []} for letter in "abcdef"]
    script = "import sys; from pytest_campaign.documents import *; print(read_manifest(sys.stdin.buffer.read())[1])"
    data = json.dumps(document).encode()
    first, second = (subprocess.run([sys.executable, "-c", script], input=data, capture_output=True, check=True,
                                    env={"PYTHONPATH": PACKAGE, "PYTHONHASHSEED": seed}).stdout for seed in "12")
    assert first == second
    assert b"did you mean" in first


@pytest.mark.parametrize(("run", "pointer"), [
    ({"status": "aborted", "abort": {"reason": " \t"}}, "/runs/0/abort/reason"),
    ({"status": "not_run", "reason": "  "}, "/runs/0/reason"),
    ({"status": "not_run", "reason": "late", "deliverables": [{"id": "w", "kind": "log", "path": "x"}]}, "/runs/0/deliverables"),
])
def test_a_run_without_an_end_says_why_and_lists_nothing(run, pointer):
    def of(**entry):
        return manifest({"manifest_version": 1, "campaign": "c", "runs": [{"id": "a", "deliverables": [], **entry}]})[1]

    assert [(fault.kind, fault.pointer) for fault in of(**run)] == [("schema", pointer)]
    assert of(status="not_run", reason="late") == []
