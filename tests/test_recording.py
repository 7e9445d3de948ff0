"""The record that a campaign writes while it goes on: what is refused, what survives, and that it is accepted."""

from __future__ import annotations

import concurrent.futures
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from recorders import Recorders, faults_after_kills
from safetensors.torch import save_file
from sessions import pytest_session, script

from pytest_campaign import proof
from pytest_campaign.documents import read_manifest
from pytest_campaign.recording import Campaign, RecordingError, RecordingWarning, locks, provenance
from pytest_campaign.recording.run import UNFINISHED

COMMIT = "3f1c9a7be02d4586b1e07c55d9aa41f26c8e7d30"
PLAN = {"plan_version": 1, "campaign": "widths", "question": "Is wider better?",
        "abort_rules": [{"id": "nan", "when": "it is NaN"}],
        "runs": [{"id": "control", "role": "control", "deliverables": [{"id": "last", "kind": "checkpoint"}]}, {"id": "wide"}]}


def recorded(out: Path) -> dict[str, Any]:
    """The manifest, which must be valid."""
    data = (out / "manifest.json").read_bytes()
    assert read_manifest(data)[1] == []
    content: dict[str, Any] = json.loads(data)
    return content


def run_of(out: Path, id: str) -> dict[str, Any]:
    return next(run for run in recorded(out)["runs"] if run["id"] == id)


def put(out: Path, path: str, text: str = "text\n") -> Path:
    (out / path).parent.mkdir(parents=True, exist_ok=True)
    (out / path).write_text(text)
    return out / path


@pytest.fixture
def out(tmp_path: Path) -> Path:
    put(tmp_path / "out", "plan.json", json.dumps(PLAN))
    return tmp_path / "out"


def test_importing_it_costs_little() -> None:
    code = ("import sys, time; started = time.perf_counter(); import pytest_campaign.recording as recording;"
            "seconds = time.perf_counter() - started; heavy = {'torch', 'pytest', '_pytest', 'jsonschema', 'numpy', 'yaml',"
            " 'transformers', 'lightning', 'safetensors'} & set(sys.modules); print(seconds, sorted(heavy))")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    seconds, heavy = done.stdout.split(maxsplit=1)
    assert heavy.strip() == "[]"
    assert float(seconds) < 3  # 0.3 on an idle machine


# ---- runs ----------------------------------------------------------------------------------------------------


def test_a_run_counts_as_aborted_until_it_ends(out: Path) -> None:
    campaign = Campaign(out)
    with campaign.run("control", parameters={"rate": 0.1}, seed=3, datasets=[], steps=10) as run:
        during = run_of(out, "control")
        assert (during["status"], during["abort"]) == ("aborted", {"reason": UNFINISHED})
        run.deliver("last", "checkpoint", put(out, "runs/control/last.pt"))
        assert [entry["id"] for entry in run_of(out, "control")["deliverables"]] == ["last"]
    after = run_of(out, "control")
    assert after["status"] == "completed"
    assert "abort" not in after
    assert (after["role"], after["seed"], after["steps"]) == ("control", 3, 10)
    assert after["started"] <= after["finished"]
    assert json.loads((out / after["parameters"]).read_text()) == {"rate": 0.1}


@pytest.mark.parametrize("error", [ValueError("the loss\nis gone"), KeyboardInterrupt(), SystemExit(3), MemoryError("full")])
def test_an_exception_is_recorded_and_passed_on(out: Path, error: BaseException) -> None:
    def train() -> None:
        with Campaign(out).run("wide") as run:
            run.deliver("log", "log", put(out, "runs/wide/train.log"))
            raise error

    with pytest.raises(type(error)):
        train()
    entry = run_of(out, "wide")
    assert entry["status"] == "aborted"
    assert entry["abort"]["reason"].startswith(type(error).__name__)
    assert "\n" not in entry["abort"]["reason"]
    assert [one["id"] for one in entry["deliverables"]] == ["log"]


def test_an_abort_stays_and_cites_its_rule(out: Path) -> None:
    campaign = Campaign(out)
    with campaign.run("wide") as run:
        run.abort("nan", "the loss of step 7 is NaN", step=7)
        run.deliver("log", "log", put(out, "runs/wide/train.log"))
    entry = run_of(out, "wide")
    assert entry["status"] == "aborted"
    assert (entry["abort"]["rule"], entry["abort"]["step"]) == ("nan", 7)
    with campaign.run("hot") as run, pytest.warns(RecordingWarning, match="does not announce; it has nan"):
        run.abort("too-hot", "it is hot")
    with campaign.run("cold") as run, pytest.raises(RecordingError, match="without a reason"):
        run.abort()
    assert run_of(out, "hot")["abort"]["rule"] == "too-hot"


def test_an_ended_run_is_not_executed_again(out: Path) -> None:
    campaign = Campaign(out)
    with campaign.run("control"):
        pass
    with pytest.raises(RecordingError, match=r"recorded as completed.*supersedes='control'"), campaign.run("control"):
        pass
    with pytest.raises(ValueError), campaign.run("wide"):
        raise ValueError
    with pytest.raises(RecordingError, match="recorded as aborted"), campaign.run("wide"):
        pass
    with campaign.run("wide-2", supersedes="wide"):
        pass
    assert [run["status"] for run in recorded(out)["runs"]] == ["completed", "aborted", "completed"]


def test_a_run_whose_process_was_killed_goes_on(out: Path) -> None:
    first = Campaign(out).run("control", parameters={"rate": 0.1})
    first.start()
    first.deliver("last", "checkpoint", put(out, "runs/control/last.pt"))
    with Campaign(out).run("control", parameters={"rate": 0.1}):
        assert "after its process had ended early" in run_of(out, "control")["reason"]
    assert [entry["id"] for entry in run_of(out, "control")["deliverables"]] == ["last"]
    third = Campaign(out).run("wide", parameters={"rate": 0.1})
    third.start()
    with pytest.raises(RecordingError, match=r"holds other parameters"), Campaign(out).run("wide", parameters={"rate": 0.2}):
        pass


def test_a_fault_of_the_recording_leaves_the_run_open(out: Path) -> None:
    campaign = Campaign(out)
    with pytest.raises(RecordingError), campaign.run("control") as run:
        run.deliver("last", "checkpoint", "runs/control/typo.pt")
    assert run_of(out, "control")["abort"] == {"reason": UNFINISHED}
    with campaign.run("control"):
        pass
    assert run_of(out, "control")["status"] == "completed"


def test_a_run_that_is_dropped(out: Path) -> None:
    campaign = Campaign(out)
    campaign.not_run("wide", "the control does not learn")
    assert run_of(out, "wide") == {"id": "wide", "status": "not_run", "reason": "the control does not learn", "deliverables": []}
    with campaign.run("control"):
        pass
    with pytest.raises(RecordingError, match="was executed"):
        campaign.not_run("control", "no")


# ---- the plan ------------------------------------------------------------------------------------------------


def test_the_digest_of_the_plan_is_that_of_the_start(out: Path) -> None:
    campaign = Campaign(out)
    digest = hashlib.sha256((out / "plan.json").read_bytes()).hexdigest()
    assert recorded(out)["plan"] == {"path": "plan.json", "sha256": digest}
    (out / "plan.json").write_text(json.dumps(PLAN | {"question": "Is narrower better?"}))
    with pytest.raises(RecordingError, match="is not the plan any more"), campaign.run("control"):
        pass
    with pytest.raises(RecordingError, match="is not the plan any more"):
        Campaign(out)
    (out / "plan.json").unlink()
    with pytest.raises(RecordingError, match="cannot be read"):
        Campaign(out)
    assert recorded(out)["plan"]["sha256"] == digest


def test_plans_that_are_none(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(RecordingError, match="pytest-campaign plan"):
        Campaign(out, plan="plan.json")
    put(out, "plan.json", json.dumps(PLAN | {"question": ""}))
    with pytest.raises(RecordingError, match=r"plan\.json:1: .*/question"):
        Campaign(out)
    put(out, "plan.json", json.dumps(PLAN))
    with pytest.raises(RecordingError, match="of campaign widths, not of other"):
        Campaign(out, campaign="other")
    assert not (out / "manifest.json").exists()
    (out / "plan.json").unlink()
    with Campaign(out, campaign="late").run("control"):
        pass
    put(out, "plan.json", json.dumps(PLAN | {"campaign": "late"}))
    with pytest.raises(RecordingError, match="afterwards"):
        Campaign(out)


def test_a_plan_to_fill_in(tmp_path: Path) -> None:
    ended = script(tmp_path, "plan", "new/out")
    assert ended.status == 0
    assert "plan.json:5: /question" in ended.out
    before = (tmp_path / "new/out/plan.json").read_bytes()
    with pytest.raises(RecordingError, match="not valid"):
        Campaign(tmp_path / "new/out")
    assert script(tmp_path, "plan", "new/out").status == 1
    assert (tmp_path / "new/out/plan.json").read_bytes() == before
    filled = json.loads(before)
    filled["question"], filled["runs"] = "Is wider better?", filled["runs"][:1]
    del filled["schedule"], filled["budget"]
    (tmp_path / "new/out/plan.json").write_text(json.dumps(filled))
    assert Campaign(tmp_path / "new/out").id == "out"
    (tmp_path / "new/out/plan.json").unlink()
    ended = script(tmp_path, "plan", "new/out")
    assert ended.status == 1
    assert "before the first run" in ended.err
    assert script(tmp_path, "plan").status == 4


# ---- deliverables --------------------------------------------------------------------------------------------


def test_paths_are_seen_from_the_campaign_or_from_here(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    campaign = Campaign(out)
    put(out, "a/b.txt")
    monkeypatch.chdir(out.parent)
    for number, path in enumerate(("a/b.txt", out / "a/b.txt", Path("out/a/b.txt"), "./a/../a/b.txt")):
        campaign.deliver(f"n{number}", "other", path)
    assert {entry["path"] for entry in recorded(out)["deliverables"]} == {"a/b.txt"}
    [file] = recorded(out)["deliverables"][0]["files"]
    assert file == {"path": "a/b.txt", "bytes": 5, "sha256": hashlib.sha256(b"text\n").hexdigest()}


def test_what_lies_outside_is_refused(out: Path, tmp_path: Path) -> None:
    campaign = Campaign(out)
    put(tmp_path, "elsewhere/last.pt")
    (out / "link.pt").symlink_to(tmp_path / "elsewhere/last.pt")
    put(out, "folder/a.txt")
    (out / "folder/link.pt").symlink_to(tmp_path / "elsewhere/last.pt")
    (out / "empty").mkdir()
    for path, why in ((tmp_path / "elsewhere/last.pt", "outside"), ("../elsewhere/last.pt", "outside"), ("link.pt", "outside"),
                      ("folder", "a link to .* outside"), ("nothing.pt", "nothing at"), ("empty", "holds no file")):
        with pytest.raises(RecordingError, match=why):
            campaign.deliver("last", "checkpoint", path)
    assert "deliverables" not in recorded(out)


def test_digests_of_tensors_are_recorded(out: Path) -> None:
    campaign = Campaign(out)
    model = torch.nn.Linear(2, 2)
    torch.save(model.state_dict(), put(out, "last.pt"))
    campaign.deliver("last", "checkpoint", "last.pt", tensor_digests=proof.digests(model))
    assert recorded(out)["deliverables"][0]["tensor_digests"] == proof.digests(model.state_dict())
    wrong: Any
    for wrong, why in ((model, "tensor_digests is a Linear; give what pytest_campaign.proof.digests returns"),
                       ({"weight": "4f53"}, "the digest of the tensor weight is '4f53', and no SHA-256"),
                       (model.state_dict(), "the digest of the tensor weight is .*, and no SHA-256")):
        with pytest.raises(RecordingError, match=why):
            campaign.deliver("other", "checkpoint", "last.pt", tensor_digests=wrong)
    assert [entry["id"] for entry in recorded(out)["deliverables"]] == ["last"]


def test_the_campaign_may_be_reached_by_a_link(out: Path, tmp_path: Path) -> None:
    (tmp_path / "short").symlink_to(out)
    campaign = Campaign(tmp_path / "short")
    campaign.deliver("a", "other", put(out, "a.txt"))
    campaign.deliver("b", "other", tmp_path / "short/a.txt")
    assert [entry["path"] for entry in recorded(out)["deliverables"]] == ["a.txt", "a.txt"]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_files_belong_to_the_innermost(out: Path, order: tuple[int, int]) -> None:
    campaign = Campaign(out)
    put(out, "model/config.json")
    put(out, "model/checkpoint-2/a.pt")
    put(out, "model/wandb/run.txt")
    both = (("model", "model"), ("step", "model/checkpoint-2"))
    for number in order:
        campaign.deliver(both[number][0], "checkpoint", both[number][1])
    files = {entry["id"]: [file["path"] for file in entry["files"]] for entry in recorded(out)["deliverables"]}
    assert files == {"model": ["model/config.json"], "step": ["model/checkpoint-2/a.pt"]}


def test_what_would_not_be_valid_changes_nothing(out: Path) -> None:
    campaign = Campaign(out)
    put(out, "a.txt")
    campaign.deliver("a", "other", "a.txt")
    before = (out / "manifest.json").read_bytes()
    wrong: list[Callable[[], object]] = [
        lambda: campaign.deliver("a b", "other", "a.txt"), lambda: campaign.deliver("b", "weights", "a.txt"),
        lambda: campaign.deliver("A", "other", "a.txt"), lambda: campaign.deliver("b", "predictions", "a.txt", dataset="test"),
        lambda: campaign.decide("perhaps", "so"), lambda: campaign.decide("positive", "so", ["unknown"]),
        lambda: campaign.cost("storage", "-1"), lambda: campaign.cost("storage", 1.2),  # type: ignore[arg-type]
        lambda: campaign.deliver("b", "other", "a.txt", extra={"x": float("nan")}), lambda: campaign.choose("now", "go", "so")]
    for call in wrong:
        with pytest.raises(RecordingError):
            call()
    assert (out / "manifest.json").read_bytes() == before


def test_a_manifest_that_is_none_is_left_alone(out: Path) -> None:
    put(out, "manifest.json", "{")
    with pytest.raises(RecordingError, match="is no manifest"):
        Campaign(out)
    assert (out / "manifest.json").read_text() == "{"


def test_what_others_wrote_stays(out: Path) -> None:
    put(out, "manifest.json", json.dumps({"manifest_version": 1, "campaign": "widths", "extra": {"mine": 1}, "runs": [
        {"id": "wide", "status": "completed", "deliverables": []}]}))
    with pytest.raises(RecordingError, match="afterwards"):
        Campaign(out)
    (out / "plan.json").unlink()
    with Campaign(out).run("control"):
        pass
    assert recorded(out)["extra"] == {"mine": 1}
    assert [run["id"] for run in recorded(out)["runs"]] == ["wide", "control"]


def test_steps_decisions_costs_and_provenance(out: Path) -> None:
    campaign = Campaign(out, command="python train.py OUT", environment={"driver": "570"})
    with pytest.raises(OSError), campaign.step("control", "the loader was slow"):
        raise OSError
    with campaign.step("control"):
        pass
    with pytest.raises(OSError, match="no disk"), campaign.step("wide"):
        raise OSError("no disk")
    campaign.cost("storage", "1.2")
    campaign.cost("storage", "1.20")
    campaign.choose(None, "go on", "it learns")
    campaign.choose("2026-03-02T10:10:00Z", "go on", "it learns")
    actuals = recorded(out)["actuals"]
    assert [(step["id"], step.get("explanation")) for step in actuals["steps"]] == [
        ("control", "the loader was slow"), ("control", None), ("wide", "it ended early: OSError: no disk")]
    assert all(step["started"] <= step["finished"] for step in actuals["steps"])
    assert actuals["costs"] == [{"name": "storage", "amount": "1.20"}]
    assert len(actuals["decisions"]) == 2
    found = recorded(out)["provenance"]
    assert found["command"] == "python train.py OUT"
    assert found["environment"]["torch"] == torch.__version__
    assert found["environment"]["driver"] == "570"
    assert found["started"] <= found["finished"]


def test_a_step_whose_process_was_killed_keeps_its_beginning(out: Path) -> None:
    killed = Campaign(out).step("control")
    killed.__enter__()
    with Campaign(out).step("control"):
        pass
    first, second = recorded(out)["actuals"]["steps"]
    killed.__exit__(None, None, None)
    assert first.keys() == {"id", "started"}
    assert first["started"] <= second["started"] <= second["finished"]


def test_a_command_without_paths_and_secrets() -> None:
    words = ["/home/me/train.py", "--out", "/home/me/out/", "--hub_token", "hf_abc", "--api-key=abc", "--tokenizer", "--lr=0.1"]
    assert provenance.spelled(words) == "python train.py --out out --hub_token '***' '--api-key=***' --tokenizer --lr=0.1"


# ---- several processes ---------------------------------------------------------------------------------------


def test_only_the_first_of_several_processes_records(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "4")
    campaign = Campaign(out)
    run = campaign.run("control")
    run.start()
    assert run_of(out, "control")["world_size"] == 4
    before = (out / "manifest.json").read_bytes()
    monkeypatch.setenv("RANK", "2")
    other = Campaign(out)
    other.decide("positive", "so")
    other.dataset("test", "nothing.jsonl")
    same = other.run("control", parameters={"rate": 1})
    same.start()
    same.deliver("last", "checkpoint", "nothing.pt")
    same.end()
    assert (out / "manifest.json").read_bytes() == before
    with pytest.raises(MemoryError), other.run("control"):
        raise MemoryError("full")
    run.end()
    assert run_of(out, "control")["abort"]["reason"] == "MemoryError: full (in process 2)"


def test_eight_processes_at_once(tmp_path: Path) -> None:
    out, count = tmp_path / "out", 12
    with Recorders() as recorders:
        for number in range(8):
            recorders.start(out, f"run{number}", 100 * number, count)
        looks = 0
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(recorders.wait)
            while not waiting.done():
                if (out / "manifest.json").exists():
                    recorded(out)
                    looks += 1
                time.sleep(0.02)
        done, status = waiting.result()
    assert status == 0
    assert looks > 5
    assert sorted(done) == [100 * run + number for run in range(8) for number in range(count)]
    content = recorded(out)
    assert {run["id"]: run["status"] for run in content["runs"]} == {f"run{number}": "completed" for number in range(8)}
    assert sorted(int(one["id"][1:]) for run in content["runs"] for one in run["deliverables"]) == sorted(done)
    assert sorted(os.listdir(out)) == ["manifest.json", "runs"]


def test_killed_at_any_moment(tmp_path: Path) -> None:
    assert faults_after_kills(tmp_path, rounds=30, seed=1) == []


@pytest.mark.parametrize("system", [True, False])
def test_threads(out: Path, monkeypatch: pytest.MonkeyPatch, system: bool) -> None:
    if not system:
        monkeypatch.setattr(locks, "_lock_folder", lambda *arguments: False)
    campaign = Campaign(out)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: campaign.cost(f"n{number}", number), range(24)))
    assert len(recorded(out)["actuals"]["costs"]) == 24
    assert sorted(os.listdir(out)) == ["manifest.json", "plan.json"]


def test_a_lock_that_is_held_and_one_that_was_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with locks.exclusive(tmp_path), pytest.raises(RecordingError, match="another process holds the lock"), \
            locks.exclusive(tmp_path, patience=0.1):
        pass
    monkeypatch.setattr(locks, "_lock_folder", lambda *arguments: False)
    left = put(tmp_path, ".manifest.json.lock", "")
    with pytest.raises(RecordingError, match="holds the lock"), locks.exclusive(tmp_path, patience=0.1):
        pass
    os.utime(left, (time.time() - 100, time.time() - 100))
    with locks.exclusive(tmp_path, patience=5):
        assert left.exists()
    assert not list(tmp_path.iterdir())


# ---- base models ---------------------------------------------------------------------------------------------


@pytest.fixture
def snapshot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model in a local Hugging Face cache."""
    repository = tmp_path / "hub/models--acme--tiny"
    put(repository, f"snapshots/{COMMIT}/config.json", "{}")
    put(repository, "refs/main", COMMIT)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    return repository / "snapshots" / COMMIT


def adapter(out: Path, base: str) -> Path:
    put(out, "adapter/adapter_model.safetensors")
    put(out, "adapter/adapter_config.json", json.dumps({"r": 4, "base_model_name_or_path": base, "revision": None}))
    return out / "adapter"


def config(out: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((out / "adapter/adapter_config.json").read_text())
    return found


@pytest.mark.parametrize("by_name", [True, False])
def test_a_base_of_the_cache(out: Path, snapshot: Path, by_name: bool) -> None:
    Campaign(out).deliver("adapter", "adapter", adapter(out, "acme/tiny" if by_name else str(snapshot)))
    [entry] = recorded(out)["deliverables"]
    assert entry["base"] == {"model": "acme/tiny", "revision": COMMIT}
    assert config(out)["base_model_name_or_path"] == "acme/tiny"
    assert config(out)["revision"] == (None if by_name else COMMIT)
    [digest] = [file["sha256"] for file in entry["files"] if file["path"].endswith("config.json")]
    assert digest == hashlib.sha256((out / "adapter/adapter_config.json").read_bytes()).hexdigest()


def test_a_base_in_the_campaign(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(out.parent)
    put(out, "base/config.json", "{}")
    for base in (str(out / "base"), "out/base", "base"):
        Campaign(out).deliver("adapter", "adapter", adapter(out, base))
        assert recorded(out)["deliverables"][0]["base"] == {"model": "base", "path": "base"}
        assert config(out)["base_model_name_or_path"] == "base"


def test_a_base_that_is_not_known(out: Path, tmp_path: Path, snapshot: Path) -> None:
    put(tmp_path, "models/mine/config.json", "{}")
    told_of = {str(tmp_path / "models/mine"): "a path of this machine", "acme/other": "commit of acme/other is not known"}
    for base, told in told_of.items():
        with pytest.warns(RecordingWarning, match=told):
            Campaign(out).deliver("adapter", "adapter", adapter(out, base))
        assert config(out)["base_model_name_or_path"] == base


def test_a_base_that_is_said(out: Path, tmp_path: Path, snapshot: Path) -> None:
    campaign = Campaign(out)
    put(tmp_path, "models/mine/config.json", "{}")
    assert campaign.base("mine", "acme/mine", revision=COMMIT) == "mine"
    campaign.deliver("adapter", "adapter", adapter(out, str(tmp_path / "models/mine")), base="mine")
    assert recorded(out)["bases"] == {"mine": {"model": "acme/mine", "revision": COMMIT}}
    assert (config(out)["base_model_name_or_path"], config(out)["revision"]) == ("acme/mine", COMMIT)
    campaign.base("tiny", snapshot)
    assert recorded(out)["bases"]["tiny"] == {"model": "acme/tiny", "revision": COMMIT}
    put(snapshot.parent, f"{'0' * 40}/config.json", "{}")
    with pytest.warns(RecordingWarning, match="other commits are there"):
        campaign.base("tiny", "acme/tiny")


# ---- rehearsals ----------------------------------------------------------------------------------------------


def test_a_rehearsal_is_timed(out: Path) -> None:
    with Campaign(out).run("control") as run:
        done = run.rehearse("runs/control/last.pt", lambda path: torch.save({"w": torch.ones(1000)}, path), load=torch.load)
    [entry] = recorded(out)["actuals"]["rehearsals"]
    assert (entry["run"], entry["path"], entry["bytes"]) == ("control", "runs/control/last.pt", done.bytes)
    assert entry["write_seconds"] > 0
    assert entry["restore_seconds"] > 0


def not_there(path: Path) -> None:
    raise KeyError("w")


def test_what_does_not_load_again_is_said_before_the_training(out: Path) -> None:
    def cut(path: Path) -> None:
        save_file({"w": torch.ones(1000)}, path)
        os.truncate(path, 2000)

    run = Campaign(out).run("control")
    run.start()
    with pytest.raises(RecordingError, match=r"does not load again: .*\(reload\."):
        run.rehearse("runs/control/w.safetensors", cut)
    with pytest.raises(RecordingError, match="KeyError: 'w'"):
        run.rehearse("runs/control/last.pt", lambda path: torch.save({"w": torch.ones(10)}, path), load=not_there)
    with pytest.raises(RecordingError, match="cannot be found by a new process"):
        run.rehearse("runs/control/last.pt", lambda path: None, load=lambda path: None)
    assert "actuals" not in recorded(out)


# ---- the whole -----------------------------------------------------------------------------------------------


def test_what_is_recorded_is_accepted(out: Path) -> None:
    campaign = Campaign(out)
    put(out, "data/test.jsonl", '{"id": 1}\n{"id": 2}\n')
    campaign.dataset("test", "data/test.jsonl", key=["id"], rows=2)
    campaign.deliver("data", "dataset", "data")
    for number, id in enumerate(("control", "wide")):
        with campaign.run(id, parameters={"width": number}, seed=number, datasets=["test"]) as run:
            torch.save({"w": torch.ones(4, 4) * (number + 1)}, run.folder / "last.pt")
            run.deliver("last", "checkpoint", run.folder / "last.pt", purpose="inference", depth="tensors")
            put(run.folder, "predictions.jsonl", f'{{"id": 1, "answer": {number}}}\n{{"id": 2, "answer": 2}}\n')
            run.deliver("predictions", "predictions", run.folder / "predictions.jsonl", dataset="test", value="answer")
    campaign.decide("positive", "Wider is better.", ["control", "wide"])
    put(out, ".manifest.json.part", "{")  # left by a killed process
    session = pytest_session(out.parent, f"--campaign-dir={out}", "-p", "no:cacheprovider")
    assert session.status == 0, session
    assert "ACCEPTED, 5 of 5 deliverables" in session.last
    assert ".part" not in session.out


def test_a_killed_run_is_not_accepted(out: Path) -> None:
    code = ("from pytest_campaign.recording import Campaign; import os, signal\n"
            f"with Campaign({str(out)!r}).run('control') as run:\n"
            "    (run.folder / 'a.txt').write_text('a'); run.deliver('last', 'other', run.folder / 'a.txt')\n"
            "    os.kill(os.getpid(), signal.SIGKILL)")
    assert subprocess.run([sys.executable, "-c", code]).returncode == -signal.SIGKILL
    session = pytest_session(out.parent, f"--campaign-dir={out}", "-p", "no:cacheprovider")
    assert session.status == 1
    assert UNFINISHED in session.out


def test_no_warning_where_nothing_is_wrong(out: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with Campaign(out).run("control") as run:
            run.deliver("last", "checkpoint", put(out, "runs/control/last.pt"))
