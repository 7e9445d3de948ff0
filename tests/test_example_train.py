"""The example campaign trains for real, keeps the documents' promises and can be loaded and resumed."""

import hashlib
import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
import torch
from safetensors.torch import load_file

SCRIPT = Path(__file__).parents[1] / "examples" / "train_campaign.py"
SCHEMAS = Path(__file__).parents[1] / "schemas"


def run(*arguments, **options):
    return subprocess.run([sys.executable, "-B", *map(str, arguments)], capture_output=True, text=True, timeout=120, **options)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    out = tmp_path_factory.mktemp("example") / "out"
    done = run(SCRIPT, out)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].endswith(f"pytest --campaign-dir {out}")
    return out


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("train_campaign", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules["train_campaign"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules["train_campaign"]


def strict(text):
    def refuse(word):
        raise ValueError(f"{word} is no JSON")
    return json.loads(text, parse_constant=refuse)


def document(out, name):
    return strict((out / name).read_text(encoding="utf-8"))


def lines(path):
    return [strict(line) for line in path.read_text(encoding="utf-8").splitlines()]


def all_deliverables(manifest):
    return [d for owner in (manifest, *manifest["runs"]) for d in owner["deliverables"]]


@pytest.mark.parametrize("name", ["plan", "manifest"])
def test_documents_keep_the_schema(made, name):
    schema = strict((SCHEMAS / f"{name}-1.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator(schema).validate(document(made, f"{name}.json"))


def test_plan_is_the_one_of_the_manifest_and_older_than_every_run(made):
    manifest = document(made, "manifest.json")
    assert manifest["plan"]["sha256"] == hashlib.sha256((made / "plan.json").read_bytes()).hexdigest()
    plan_time = (made / "plan.json").stat().st_mtime_ns
    assert all(file.stat().st_mtime_ns >= plan_time for file in (made / "runs").rglob("*"))


def test_everything_is_declared_with_its_size_and_digest(made):
    declared = [f for d in all_deliverables(document(made, "manifest.json")) for f in d["files"]]
    for file in declared:
        data = (made / file["path"]).read_bytes()
        assert (len(data), hashlib.sha256(data).hexdigest()) == (file["bytes"], file["sha256"])
    there = {p.relative_to(made).as_posix() for p in made.rglob("*") if p.is_file()}
    assert there == {f["path"] for f in declared} | {"plan.json", "manifest.json"}


def test_completed_runs_deliver_all_that_is_planned_and_the_aborted_run_says_why(made):
    plan, manifest = document(made, "plan.json"), document(made, "manifest.json")
    planned = {r["id"]: {d["id"] for d in r["deliverables"]} for r in plan["runs"]}
    delivered = {r["id"]: {d["id"] for d in r["deliverables"]} for r in manifest["runs"]}
    assert [r["status"] for r in manifest["runs"]] == ["completed", "completed", "aborted"]
    assert delivered["control"] == planned["control"]
    assert delivered["wide"] == planned["wide"]
    assert delivered["hot"] == planned["hot"] - {"weights", "predictions"}
    abort = manifest["runs"][2]["abort"]
    assert abort["rule"] in {rule["id"] for rule in plan["abort_rules"]}
    losses = [row["loss"] for row in lines(made / "runs/hot/metrics.jsonl")]
    assert len(losses) == abort["step"] == manifest["runs"][2]["steps"]
    assert min(losses[-10:]) > 5 >= losses[-11]


def test_prediction_ids_are_the_test_set(made):
    ids = [row["id"] for row in lines(made / "data/test.jsonl")]
    for name in ("control", "wide"):
        rows = lines(made / f"runs/{name}/predictions.jsonl")
        assert [row["id"] for row in rows] == ids
        assert sum(row["prediction"] == row["label"] for row in rows) / len(rows) > 0.85


def test_every_checkpoint_loads_and_is_finite(made):
    for path in made.glob("runs/*/weights.safetensors"):
        assert all(torch.isfinite(tensor).all() for tensor in load_file(path).values())
    points = sorted(made.glob("runs/*/resume.pt"))
    assert [point.parent.name for point in points] == ["control", "hot", "wide"]
    for point in points:
        state = torch.load(point, weights_only=True)
        assert state["step"] == state["scheduler"]["last_epoch"] == state["optimizer"]["state"][0]["step"].item()
        assert all(torch.isfinite(tensor).all() for tensor in state["model"].values())


def test_one_step_from_the_resume_point_is_the_step_that_was_recorded(made, example):
    parameters = example.Parameters(**document(made, "runs/control/parameters.json"))
    training = example.Training(parameters, *example.tensors(lines(made / "data/train.jsonl")))
    fresh = training.step()
    training.load_state_dict(torch.load(made / "runs/control/resume.pt", weights_only=True))
    recorded = {row["step"]: row["loss"] for row in lines(made / "runs/control/metrics.jsonl")}
    assert 1 < training.done < parameters.steps
    assert training.step() == pytest.approx(recorded[training.done], rel=1e-4)
    assert fresh > 2 * recorded[training.done]


def test_the_code_of_the_instructions_works(made):
    predict, resume = re.findall(r"^```python\n(.*?)^```$", (made / "INSTRUCTIONS.md").read_text(encoding="utf-8"), re.M | re.S)
    done = run("-c", predict, cwd=made)
    rows = lines(made / "runs/control/predictions.jsonl")
    assert done.stdout == f"accuracy {sum(row['prediction'] == row['label'] for row in rows) / len(rows)}\n", done.stderr
    done = run("-c", resume, cwd=made)
    assert done.stdout == "steps 300 greatest difference from the delivered weights 0.0\n", done.stderr


def test_nothing_names_this_machine(made):
    for path in (p for p in made.rglob("*") if p.is_file()):
        data = path.read_bytes()
        for place in (str(made), str(made.parent), str(SCRIPT.parent), str(Path.home()) + "/"):
            assert place.encode() not in data, path


def test_a_second_campaign_is_the_same_apart_from_times(made, tmp_path):
    assert run(SCRIPT, tmp_path / "again").returncode == 0
    for path in (p for p in made.rglob("*") if p.is_file() and p.name not in ("manifest.json", "train.log")):
        assert (tmp_path / "again" / path.relative_to(made)).read_bytes() == path.read_bytes(), path


def test_a_directory_that_holds_something_is_refused_and_an_empty_one_is_not(made, tmp_path, example, monkeypatch, capsys):
    before = (made / "manifest.json").read_bytes()
    assert example.main([str(made)]) == 2
    assert "no empty directory" in capsys.readouterr().err
    assert (made / "manifest.json").read_bytes() == before
    monkeypatch.setattr(example, "RUNS", {"control": example.Parameters(steps=40)})
    assert example.main([str(tmp_path)]) == 0


def test_a_control_that_does_not_learn_stops_the_campaign(tmp_path, example, monkeypatch):
    short = {name: example.Parameters(steps=15, learning_rate=1e-9) for name in ("control", "wide")}
    monkeypatch.setattr(example, "RUNS", short)
    example.campaign(tmp_path)
    manifest = document(tmp_path, "manifest.json")
    assert [r["status"] for r in manifest["runs"]] == ["completed", "not_run"]
    assert manifest["actuals"]["decisions"][0]["choice"].startswith("stop")
    assert manifest["decision"]["outcome"] == "inconclusive"


@pytest.mark.parametrize(("losses", "rule"), [
    ([float("nan")], "not-finite"),
    ([1.0] * 20 + [float("inf")], "not-finite"),
    ([1.0] + [6.0] * 10, "diverged"),
    ([1.0] + [6.0] * 9, None),
    ([6.0] * 9 + [5.0], None),
])
def test_abort_rules(example, losses, rule):
    stopped = example.abort(losses)
    assert (stopped and stopped.rule) == rule
