"""The check ``data``: by the real command, and on the shapes in which libraries write predictions, metrics and parameters."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import event_files
import pytest
import sessions
from sessions import entry

from pytest_campaign import metric_facts, snapshot
from pytest_campaign.campaign import AbortRule, Asked, Place
from pytest_campaign.checks.data import CHECK
from pytest_campaign.evidence import Files
from pytest_campaign.findings import Finding, Level, Outcome, outcome
from pytest_campaign.metric_facts import MetricFacts, Wanted
from pytest_campaign.reload.protocol import Answer, Job

IDS = [f"t{number}" for number in range(20)]


def no_reload(job: Job, progress: object = None) -> Answer:
    raise AssertionError("this check reloads nothing")


def judged(folder: Path, files: Mapping[str, str | bytes], kind: str, path: str, run: Mapping[str, Any] | None = None,
           **more: Any) -> list[Finding]:
    """What the check finds in one deliverable of a run."""
    sessions.write(folder, files)
    datasets = more.pop("datasets", {})
    listed = [entry("it", path, kind, **more)]
    own = {"id": "control", "status": "completed", "role": "control", "deliverables": listed, **(run or {})}
    (folder / "manifest.json").write_text(json.dumps(
        {"manifest_version": 1, "campaign": "small", "datasets": datasets, "runs": [own]}))
    campaign = snapshot.campaign(snapshot.take(folder, None), Asked())
    assert not campaign.faults
    return list(CHECK.run(campaign, campaign.by_id["control/it"], Files(campaign.inventory, no_reload, digest=False)))


def rules(findings: list[Finding], level: Level = Level.ERROR) -> list[str]:
    return [finding.rule for finding in findings if finding.level is level]


def lines(*records: object) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def answers(ids: list[Any], **more: Any) -> str:
    return lines(*({"id": id, "answer": "yes", **more} for id in ids))


# ---- the command ---------------------------------------------------------------------------------------------


def test_the_command_names_the_first_ten_and_counts_all(tmp_path: Path) -> None:
    ids = [*IDS[12:], *IDS[12:15], "x1", "x2"]
    sessions.write(tmp_path / "out", {"data/test.jsonl": answers(IDS), "answers.jsonl": answers(ids)})
    listed = [entry("test", "data/test.jsonl", "dataset"), entry("answers", "answers.jsonl", "predictions", dataset="test")]
    (tmp_path / "out/manifest.json").write_text(json.dumps({
        "manifest_version": 1, "campaign": "small", "deliverables": listed, "runs": [],
        "datasets": {"test": {"path": "data/test.jsonl", "key": ["id"], "rows": 20}}}))
    session = sessions.pytest_session(tmp_path, "--campaign-dir=out", "-v")
    assert session.status == 1
    assert "out/answers.jsonl::data FAILED" in session.out
    assert "out/data/test.jsonl::data PASSED" in session.out
    for text in ("data.missing-ids: answers.jsonl: rows of the data set test without a prediction, 12 ids: t0 (line 1), t1",
                 "t9 (line 10) and 2 more",
                 "data.duplicated-ids: answers.jsonl:9: more often than in the data set test, 3 ids: t12 (line 9), t13 (line 10)",
                 "data.unknown-ids: answers.jsonl:12: not in the data set test, 2 ids: x1 (line 12), x2 (line 13)"):
        assert text in session.out


def test_the_check_is_needed_whatever_lies_there(tmp_path: Path) -> None:
    sessions.manifest(tmp_path / "out", entry("a", "a.jsonl", "predictions"), entry("b", "b.json", "metrics"),
                      entry("c", "c.yaml", "parameters"), entry("d", "d", "dataset"), entry("e", "e.md", "analysis"))
    session = sessions.pytest_session(tmp_path, "--campaign-dir=out", "--co", "-q")
    assert [id for id in session.ids if "data" in id.rpartition("::")[2]] == [
        f"out::{name}::data" for name in "abcd"] or sum("data" in id.rpartition("::")[2] for id in session.ids) == 4


# ---- predictions ---------------------------------------------------------------------------------------------


DATASETS = {"test": {"ids": IDS, "key": ["id"]}}


@pytest.mark.parametrize(("name", "text"), [
    ("a.jsonl", answers(IDS)),
    ("a.ndjson", answers(IDS)),
    ("a.json", answers(IDS)),
    ("a.json", json.dumps([{"id": id, "answer": 1} for id in IDS], indent=1)),
    ("a.json", json.dumps({"predictions": [{"id": id, "answer": 1} for id in IDS], "model": "tiny"})),
    ("a.json", json.dumps(dict.fromkeys(IDS, "yes"))),
    ("a.json", json.dumps({id: {"answer": "yes"} for id in IDS})),
    ("a.json", json.dumps({"id": IDS, "answer": [0.5] * 20})),
    ("a.json", json.dumps({name: {str(at): value for at, value in enumerate(column)} for name, column in (
        ("id", IDS), ("answer", [1] * 20))})),
    ("a.csv", "id,answer\n" + "".join(f"{id},1\n" for id in IDS)),
    ("a.csv", ",id,answer\n" + "".join(f"{at},{id},1\n" for at, id in enumerate(IDS))),
    ("a.tsv", "id\tanswer\n" + "".join(f'{id}\t"so" he said\n' for id in IDS)),
])
def test_shapes_of_predictions(tmp_path: Path, name: str, text: str) -> None:
    assert not judged(tmp_path, {name: text}, "predictions", name, datasets=DATASETS, dataset="test", value="answer")
    assert "data.missing-ids" in rules(judged(tmp_path, {name: text}, "predictions", name, dataset="test", value="answer",
                                              datasets={"test": {"ids": [*IDS, "t20"]}}))


def test_predictions_in_parts(tmp_path: Path) -> None:
    parts = {"parts/part-0.jsonl": answers(IDS[:12]), "parts/part-1.jsonl": answers(IDS[12:]), "parts/config.json": "{}"}
    assert not judged(tmp_path, parts, "predictions", "parts", datasets=DATASETS, dataset="test", value="answer")
    found = judged(tmp_path, parts | {"parts/part-1.jsonl": answers(IDS[11:])}, "predictions", "parts", datasets=DATASETS,
                   dataset="test", value="answer")
    assert [(finding.rule, finding.path, finding.line) for finding in found] == [("data.duplicated-ids", "parts/part-1.jsonl", 1)]


@pytest.mark.parametrize("id", [None, 1.0, True, [1], {"a": 1}])
def test_ids_that_cannot_be_compared(tmp_path: Path, id: object) -> None:
    found = judged(tmp_path, {"a.jsonl": answers([*IDS[:19], id])}, "predictions", "a.jsonl", datasets=DATASETS, dataset="test")
    assert [(finding.rule, finding.line) for finding in found] == [("data.id-type", 20)]


def test_the_order_of_the_fields_of_a_key_means_nothing(tmp_path: Path) -> None:
    datasets = {"test": {"ids": [["a", 1], ["a", 2], ["b", 1]], "key": ["page", "line"]}}
    text = "page,line,answer\na,1,x\nb,1,x\na,2,x\n"
    assert not judged(tmp_path, {"a.csv": text}, "predictions", "a.csv", datasets=datasets, dataset="test", key=["line", "page"])


@pytest.mark.parametrize("more", [{}, {"index": list(range(20))}])
def test_columns_and_a_list_of_rows(tmp_path: Path, more: Mapping[str, Any]) -> None:
    document = {"columns": ["id", "answer"], "data": [[id, "yes"] for id in IDS], **more}
    asked = {"datasets": DATASETS, "dataset": "test", "value": "answer"}
    assert not judged(tmp_path, {"a.json": json.dumps(document)}, "predictions", "a.json", **asked)
    document["data"].pop()
    assert rules(judged(tmp_path, {"a.json": json.dumps(document)}, "predictions", "a.json", **asked)) == ["data.missing-ids"]


def test_a_key_of_several_fields(tmp_path: Path) -> None:
    ids = [["a.png", 0], ["a.png", 1], ["b.png", 0]]
    text = lines(*({"image": image, "crop": crop, "answer": "x"} for image, crop in ids))
    datasets = {"test": {"ids": ids, "key": ["image", "crop"]}}
    assert not judged(tmp_path, {"a.jsonl": text}, "predictions", "a.jsonl", datasets=datasets, dataset="test")
    wrong = text.replace('"b.png", "crop": 0', '"b.png", "crop": 1')
    found = judged(tmp_path, {"a.jsonl": wrong}, "predictions", "a.jsonl", datasets=datasets, dataset="test")
    assert [finding.rule for finding in found] == ["data.missing-ids", "data.unknown-ids"]
    assert "(b.png, 1) (line 3)" in found[1].message


def test_samples_of_each_row(tmp_path: Path) -> None:
    records = [{"id": id, "sample": sample, "answer": "x"} for id in IDS for sample in range(3)]
    more = {"datasets": DATASETS, "dataset": "test", "key": ["id", "sample"]}
    assert not judged(tmp_path, {"a.jsonl": lines(*records)}, "predictions", "a.jsonl", **more)
    assert rules(judged(tmp_path, {"a.jsonl": lines(*records[:-1])}, "predictions", "a.jsonl", **more)) == ["data.missing-ids"]
    again = lines(*records, records[0])
    assert rules(judged(tmp_path, {"a.jsonl": again}, "predictions", "a.jsonl", **more)) == ["data.duplicated-ids"]


@pytest.mark.parametrize("text", ['{"predictions": []}', '{"id": [], "answer": []}'])
def test_a_document_without_records(tmp_path: Path, text: str) -> None:
    found = judged(tmp_path, {"a.json": text}, "predictions", "a.json", datasets=DATASETS, dataset="test", value="answer")
    assert rules(found) == ["data.no-rows"]


def test_another_file_is_told_once(tmp_path: Path) -> None:
    files = {"a.csv": "text,label\nx,1\n"}
    found = judged(tmp_path, files, "predictions", "a.csv", datasets=DATASETS, dataset="test", value="answer")
    assert rules(found) == ["data.no-id"]


def test_one_fault_is_told_once(tmp_path: Path) -> None:
    found = judged(tmp_path, {"a.jsonl": answers(IDS)[:-9]}, "predictions", "a.jsonl", datasets=DATASETS, dataset="test")
    assert [(finding.rule, finding.line) for finding in found] == [("data.torn", 20)]


def test_names_of_files(tmp_path: Path) -> None:
    images = ("images/a.png", "./images/a.png", "images/../images/a.png", "images\\a.png", "/data/a.png", "s3://x/a.png",
              "images/b.png")
    files = {"a.jsonl": lines(*({"id": id, "image": image} for id, image in enumerate(images))), "images/a.png": "x"}
    found = judged(tmp_path, files, "predictions", "a.jsonl", file_columns=["image"])
    assert rules(found) == ["data.file-missing"]
    assert (found[0].line, "3 names of files" in found[0].message) == (3, True)


def test_a_data_set_that_is_torn_does_not_pass_for_one(tmp_path: Path) -> None:
    files = {"a.jsonl": answers(IDS), "test.jsonl": answers(IDS)[:-5]}
    datasets = {"test": {"path": "test.jsonl", "key": ["id"]}}
    found = judged(tmp_path, files, "predictions", "a.jsonl", dataset="test", datasets=datasets)
    assert [finding.rule for finding in found] == ["data.no-dataset"]
    assert "line 20" in found[0].message


@pytest.mark.parametrize("name", ["corpus.txt", "corpus.bin", "corpus.npy", "corpus.arrow", "images/1.png"])
def test_data_sets_that_are_not_read(tmp_path: Path, name: str) -> None:
    assert not judged(tmp_path, {name: b"\0\xff{"}, "dataset", name.partition("/")[0])


def test_a_document_beyond_the_limit_leaves_it_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_campaign.record_facts.LARGEST_DOCUMENT", 100)
    found = judged(tmp_path, {"a.json": json.dumps([{"id": id, "answer": 1} for id in IDS], indent=0)}, "predictions", "a.json",
                   datasets=DATASETS, dataset="test")
    assert ([finding.rule for finding in found], outcome(found)) == (["data.not-read"], Outcome.UNVERIFIED)


# ---- metrics -------------------------------------------------------------------------------------------------


TRAINER = {"global_step": 6, "best_metric": None, "best_model_checkpoint": None, "log_history": [
    {"loss": 2.0, "grad_norm": math.inf, "learning_rate": 1e-4, "epoch": 0.5, "step": 2},
    {"eval_loss": 1.9, "eval_runtime": 0.1, "epoch": 1.0, "step": 2},
    {"loss": 1.5, "grad_norm": math.nan, "learning_rate": 5e-5, "epoch": 1.5, "step": 4},
    {"train_runtime": 2.0, "train_loss": 1.75, "epoch": 2.0, "step": 4}]}


@pytest.mark.parametrize(("name", "text"), [
    ("all_results.json", '{"epoch": 3.0, "eval_loss": 1.2, "eval_samples": 100, "train_runtime": 2.5}'),
    ("trainer_state.json", json.dumps(TRAINER)),
    ("metrics.csv", "epoch,lr-SGD,step,train_loss,val_loss\n,0.1,0,,\n0,,9,2.1,\n0,,9,,2.0\n,0.1,10,,\n1,,19,1.9,\n1,,19,,1.8\n"),
    ("history.json", '{"loss": [2, 1.5], "val_loss": [1.9]}'),
    ("history.json", '{"epoch": [1, 2], "loss": [2, 1.5]}'),
    ("log.jsonl", lines({"split": "train", "step": 1, "loss": 2}, {"split": "val", "step": 1, "loss": 3},
                        {"split": "train", "step": 2, "loss": 1})),
    ("log.csv", "epoch,split,loss\n1,train,2\n1,val,2.1\n2,train,1\n2,val,1.1\n"),
    ("log.csv", "time,step,loss\n" + "".join(f"2026-01-01T00:{n // 60:02}:{n % 60:02},{n},{n / 7:.3f}\n" for n in range(200))),
    ("log.csv", "fold,epoch,loss\n" + "".join(f"{fold},{epoch},1.5\n" for fold in range(3) for epoch in range(4))),
    ("log.csv", "lr,seed,step,loss\n" + "".join(f"0.1,{seed},{step},1.5\n" for seed in range(3) for step in range(4))),
    ("report.json", '{"0": {"precision": 0.5, "support": 3}, "accuracy": 0.5, "notes": null, "error": null}'),
    ("scores.csv", "model,accuracy\nsmall,0.5\nlarge,0.75\n"),
    ("scores.json", '[{"model": "small", "accuracy": 0.5}, {"model": "large", "accuracy": 0.7}]'),
    ("metrics.yaml", "accuracy: 0.5\nloss: 1.25\n"),
    ("grid.csv", "lr,batch,acc\n" + "".join(f"{lr},{batch},0.{batch}\n" for lr in (0.1, 0.2) for batch in (8, 16))),
    ("sweep.csv", "lr,step,loss\n" + "".join(f"{lr},{step},{lr / (step + 1)}\n" for lr in (0.1, 0.2) for step in range(4))),
    ("20260101.json", lines({"env_info": "x"}, *(
        {"mode": mode, "epoch": epoch, "iter": step, "loss": epoch / step}
        for epoch in (1, 2) for mode, step in (("train", 50), ("train", 100), ("val", 30))))),
    ("summary.json", '{"accuracy": 0.5, "best_epoch": null, "early_stopped": false}'),
    ("scalars.json", lines({"step": 1, "loss": 2}, {"step": 2, "loss": 1})),
    # exports of a tracking service: null where a metric was not logged at the step
    ("history.jsonl", lines(*({"_step": n, "_runtime": n / 2, "train/loss": 2 - n / 10, "eval/loss": None if n % 3 else 2.1}
                              for n in range(10)))),
    ("history.jsonl", lines(*({"step": n, "train_loss": None if n % 5 == 4 else 1.5, "val_loss": 1.6 if n % 5 == 4 else None}
                              for n in range(10)))),
    ("progress.csv", "rollout/reward,time/fps,time/iterations,time/total_timesteps,train/loss\n2,9,1,2048,\n3,8,2,4096,7\n"),
    ("progress.json", lines(*({"time/total_timesteps": 2048 * n, "train/loss": 1 / n} for n in (1, 2, 3)))),
    ("table.csv", "metric,value\naccuracy,91.2%\n"), ("scores.json", '{"f1": "0.91 ± 0.02"}'),
    ("metrics.toml", "accuracy = 0.5\n"), ("metrics.yaml", 'name: "null"\naccuracy: 0.5\nerror: null\n'),
    ("detection.json", '{"AP": {"smoke": 1.0, "fire": 0.5}, "mode": "test", "smoke": 0.25}'),
])
def test_metrics_as_libraries_write_them(tmp_path: Path, name: str, text: str) -> None:
    assert not judged(tmp_path, {name: text}, "metrics", name)


@pytest.mark.parametrize(("name", "text", "rule"), [
    ("m.json", '{"loss": "NaN"}', "data.non-finite"),
    ("m.json", '{"scores": [{"f1": null}], "x": 1}', "data.null"),
    ("m.json", '{"loss": 1e999}', "data.non-finite"),
    ("m.json", '{"loss": 1}}', "data.syntax"),
    ("m.json", "", ""),
    ("m.csv", "step,loss\n1,2\n2,-inf\n", "data.non-finite"),
    ("m.csv", "step,loss\n1,2\n2\n", "data.fields"),
    ("m.jsonl", lines({"step": 1, "loss": 2}, {"step": 2, "loss": None}), "data.null"),
    ("m.jsonl", lines(*({"step": n, "lr": 0.1, "loss": None if n > 3 else 2} for n in range(9))), "data.null"),
    ("m.jsonl", lines(*({"step": n, "lr": 0.1, "loss": None if n == 3 else 2} for n in range(9))), "data.null"),
    ("m.jsonl", lines(*({"step": n, "lr": 0.1, "loss": None} for n in range(9))), "data.null"),
    ("m.yaml", "accuracy: 0.5\nloss: ~\n", "data.null"), ("m.toml", "loss = nan\n", "data.non-finite"),
    ("m.jsonl", lines(*({"step": step, "loss": step / 7} for step in (1, 2, 3, 1, 2))), "data.history-restarts"),
    ("m.json", json.dumps([{"epoch": epoch, "loss": epoch / 7} for epoch in (1, 2, 3, 1, 2)]), "data.history-restarts"),
    ("m.csv", "epoch,step,loss\n" + "".join(f"{epoch},{step},1.5\n" for epoch, step in ((1, 1), (1, 2), (2, 3), (1, 1), (1, 2))),
     "data.history-restarts"),
    ("m.csv", "split,epoch,loss\ntrain,1,2\nval,1,2\ntrain,2,2\nval,2,2\ntrain,1,2\nval,1,2\n", "data.history-restarts"),
    ("m.yaml", "loss: .inf\n", "data.non-finite"),
    ("m.yaml", "loss: [1, 2\n", "data.syntax"),
])
def test_metrics_that_are_refused(tmp_path: Path, name: str, text: str, rule: str) -> None:
    assert rules(judged(tmp_path, {name: text}, "metrics", name)) == ([rule] if rule else [])


@pytest.mark.parametrize(("name", "text"), [
    ("m.yaml", "eval:\n  loss: 4\n"), ("m.toml", "[eval]\nloss = 4\n"), ("m.json", '{"eval": {"loss": 4}}'),
    ("m.json", '{"eval/loss": 4}'), ("m.jsonl", lines({"step": 1, "eval": {"loss": 4}, "train": {"loss": 1}}))])
def test_an_abort_rule_finds_a_metric_in_its_group(name: str, text: str) -> None:
    facts = gathered(text.encode(), name, AbortRule("high", "the loss is above 3", Place("plan.json", ""), "eval/loss", ">", 3))
    assert [rule.id for rule, *_ in facts.forbidden] == ["high"]


def test_nullable_holds_in_every_format(tmp_path: Path) -> None:
    for name, text in (("m.yaml", "a: 1\nloss: .nan\nf1: null\n"), ("m.toml", "a = 1\nloss = nan\n")):
        assert not judged(tmp_path, {name: text}, "metrics", name, nullable=["loss", "f1"])


def test_a_restart_names_its_line(tmp_path: Path) -> None:
    found = judged(tmp_path, {"m.csv": "step,loss\n1,2\n2,1\n1,2\n2,1\n"}, "metrics", "m.csv")
    assert [(finding.path, finding.line, finding.observed) for finding in found] == [("m.csv", 4, "from step 2 to 1")]


def test_event_files_of_a_resumed_run_are_one_history(tmp_path: Path) -> None:
    def part(steps: range) -> bytes:
        return event_files.events([(step, {"loss": 1 / (step + 1)}) for step in steps])

    files = {"tb/events.out.tfevents.17.host": part(range(0, 60, 10)), "tb/events.out.tfevents.18.host": part(range(50, 101, 10))}
    assert not judged(tmp_path, files, "metrics", "tb", run={"steps": 100})
    (tmp_path / "tb/events.out.tfevents.17.host").unlink()
    found = judged(tmp_path, {}, "metrics", "tb", run={"steps": 100})
    assert [finding.rule for finding in found] == ["data.history-starts-late"]


def test_an_event_file_with_a_changed_byte_is_damaged(tmp_path: Path) -> None:
    data = bytearray(event_files.events([(step, {"loss": 1.0}) for step in range(20)]))
    data[len(data) // 2] ^= 1
    assert rules(judged(tmp_path, {"events.out.tfevents.17.host": bytes(data)}, "metrics", "events.out.tfevents.17.host")) == [
        "data.damaged"]


def test_metrics_in_a_folder(tmp_path: Path) -> None:
    events = event_files.events([(step, {"loss": 1.0, "grad_norm": math.inf}) for step in range(3)])
    files = {"logs/metrics.csv": "step,loss\n1,2\n", "logs/args.json": '{"resume": null}',
             "logs/samples.jsonl": lines({"doc": None}), "logs/events.out.tfevents.17.host": events}
    assert not judged(tmp_path, files, "metrics", "logs")
    files["logs/metrics.csv"] += "2,nan\n"
    assert rules(judged(tmp_path, files, "metrics", "logs")) == ["data.non-finite"]


@pytest.mark.parametrize(("steps", "run", "rule"), [
    (range(61), {}, None), (range(1, 61), {}, None), (range(10, 61, 10), {}, None), (range(20, 61, 20), {}, None),
    (range(35, 61), {}, "data.history-starts-late"), (range(35, 61), {"first_step": 35}, None),
    (range(35, 61, 5), {}, "data.history-starts-late"), (range(35, 61), {"first_step": 5}, "data.history-starts-late"),
    (range(41), {}, "data.history-ends-early"), (range(0, 51, 10), {}, None), (range(500, 5000, 10), {}, None),
    (range(3, 8), {}, None),
])
def test_how_much_of_a_run_a_history_covers(tmp_path: Path, steps: range, run: dict[str, int], rule: str | None) -> None:
    text = "step,loss\n" + "".join(f"{step},{4 - step / 9999:.4f}\n" for step in steps)
    found = judged(tmp_path, {"m.csv": text}, "metrics", "m.csv", run={"steps": 60, **run})
    assert rules(found, Level.WARNING) == ([] if rule is None else [rule])


@pytest.mark.parametrize(("document", "limited"), [
    ({"results": {"a": {"acc": 0.5}}, "config": {"limit": 10}}, True),
    ({"results": {"a": {"acc": 0.5}}, "config": {"limit": None}}, False),
    ({"results": {"a": {"acc": 0.5}}, "config": {"limit": 0.1}}, True),
    ({"results": {"a": {"acc": 0.5}}, "config_general": {"max_samples": 5}}, True),
    ({"results": {"a": {"acc": 0.5}}, "n-samples": {"a": {"original": 90, "effective": 9}}, "config": {}}, True),
    ({"acc": 0.5, "num_samples": 1000}, False), ({"acc": 0.5, "max_samples": 10}, True), ({"acc": 0.5, "limit": None}, False),
    ({"acc": 0.5, "smoke_test": True}, True), ({"acc": 0.5, "smoke_test": False}, False), ({"acc": 0.5, "mode": "smoke"}, True),
    ({"acc": 0.5, "args": {"dry_run": True}}, True), ({"acc": 0.5, "args": {"fast_dev_run": 5}}, True),
    ([{"task": "a", "acc": 0.5, "limit": 10}], False),
])
def test_evaluations_of_a_part(tmp_path: Path, document: object, limited: bool) -> None:
    found = judged(tmp_path, {"m.json": json.dumps(document)}, "metrics", "m.json")
    assert rules(found, Level.WARNING) == ["data.limited"] * limited
    assert not rules(found)


def gathered(text: bytes, name: str, *abort_rules: AbortRule) -> MetricFacts:
    import io

    return metric_facts.gather(name, len(text), lambda: io.BytesIO(text), Wanted(rules=abort_rules))


@pytest.mark.parametrize(("op", "value", "times", "losses", "expected"), [
    (">", 5, 1, [1, 6, 1], 2), (">", 5, 2, [6, 1, 6, 1], None), (">=", 5, 2, [1, 5, 5, 9], 3), ("<", 0, 1, [1, 0], None),
    ("<=", 0, 1, [1, 0], 2), ("==", 3, 1, [1, 3], 2), ("!=", 3, 1, [3, 3], None), ("not_finite", None, 1, [1, "nan"], 2),
    ("not_finite", None, 2, [1, "inf", 2, "-inf"], None),
])
def test_abort_rules(op: str, value: float | None, times: int, losses: list[Any], expected: int | None) -> None:
    rule = AbortRule("r", "words", Place("plan.json", ""), "loss", op, value, times)
    text = "step,loss,other\n" + "".join(f"{step},{loss},99\n" for step, loss in enumerate(losses, 1))
    found = gathered(text.encode(), "m.csv", rule).forbidden
    assert [where.line for _, where, _ in found] == ([] if expected is None else [expected + 1])
    state = json.dumps({"log_history": [{"step": step, "loss": float(loss)} for step, loss in enumerate(losses)]})
    assert bool(gathered(state.encode(), "x/trainer_state.json", rule).forbidden) == (expected is not None)


@pytest.mark.parametrize(("name", "text"), [
    ("history.json", '{"loss": [%s], "accuracy": [0.1, 0.2, 0.3]}'), ("results.json", '{"run": {"train": {"loss": [%s]}}}'),
    ("history.csv", ",loss\n0,%s\n1,%s\n2,%s\n"), ("m.yaml", "loss: [%s]\n"),
    ("m.jsonl", '{"step": 0, "train": {"loss": %s}}\n{"step": 1, "train": {"loss": %s}}\n{"step": 2, "train": {"loss": %s}}\n')])
def test_a_history_of_any_layout_begins_where_an_abort_rule_is_kept(name: str, text: str) -> None:
    rule = AbortRule("r", "words", Place("plan.json", ""), "loss", ">", 5, 1)
    for losses, held in (((9, 6, 1), []), ((9, 1, 6), ["6"]), ((9, 8, 7), ["9"])):
        filled = text % (losses if text.count("%s") > 1 else ", ".join(map(str, losses)))
        assert [value for *_, value in gathered(filled.encode(), name, rule).forbidden] == held
    table = gathered(b"task,loss\na,9\nb,1\n", "m.csv", rule)
    assert [value for *_, value in table.forbidden] == ["9"]


def test_event_files() -> None:
    whole = event_files.events([(step, {"loss": step / 8, "acc": 0.5}) for step in range(4)])
    facts = gathered(whole, "events.out.tfevents.1")
    assert (facts.numbers, facts.faults, facts.steps.first, facts.steps.last) == (8, [], 0, 3)
    tensor = event_files.record(event_files.event(7, {"loss": event_files.tensor(math.inf)}))
    assert gathered(whole + tensor, "events.out.tfevents.1").not_finite.first[0][1] == "loss is inf at step 7"
    for cut in range(1, len(event_files.record(event_files.event(3, {"loss": b"12345", "acc": b"12345"})))):
        assert [fault.kind for fault in gathered(whole[:-cut], "events.out.tfevents.1").faults] == ["tail"]
    for at in range(len(whole)):
        damaged = bytearray(whole)
        damaged[at] ^= 0x10
        assert gathered(bytes(damaged), "events.out.tfevents.1").counts, at
    assert [fault.kind for fault in gathered(whole + bytes(40), "events.out.tfevents.1").faults] == ["nul"]


def test_the_checksum_is_that_of_the_standard() -> None:
    assert event_files.masked_checksum(b"123456789") == ((0xE3069283 >> 15 | 0xE3069283 << 17) + 0xA282EAD8) & 0xFFFFFFFF


# ---- parameters ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "text"), [
    ("p.json", '{"rate": 1e-4, "resume": null}'), ("p.json", "[]"), ("overrides.yaml", "[]\n"),
    ("p.yaml", "rate: 0.1\nname: .inf file\n"), ("p.yaml", "a: 1\n---\na: 2\n"), ("p.toml", "[train]\nrate = 0.1\n"),
    ("p.ini", "[train]\nrate = 0.1\n"), ("p.sh", "train --x\n")])
def test_parameters(tmp_path: Path, name: str, text: str) -> None:
    assert not rules(judged(tmp_path, {name: text}, "parameters", name))


@pytest.mark.parametrize(("name", "text", "rule"), [
    ("p.json", '{"rate": NaN}', "data.non-finite"), ("p.json", '{"rate": 1,}', "data.syntax"), ("p.json", '{"a": 1', "data.torn"),
    ("p.json", "3", "data.no-rows"), ("p.json", '{"a": 1, "a": 2}', "data.duplicate-key"),
    ("p.yaml", "rate: -.inf\n", "data.non-finite"),
    ("p.yaml", "a: b: c\n", "data.syntax"), ("p.yaml", b"a: \xff\n", "data.encoding"), ("p.yaml", b"a: 1\n\0\0\0", "data.nul"),
    ("p.yaml", "just words\n", "data.no-rows"), ("p.toml", "a = inf\n", "data.non-finite"),
    ("p.toml", "a = 1\na = 2\n", "data.syntax"),
    ("p.toml", "a = " + "[" * 100_000, "data.syntax"), ("p.yaml", "[" * 100_000, "data.syntax")])
def test_parameters_that_are_refused(tmp_path: Path, name: str, text: str | bytes, rule: str) -> None:
    assert rules(judged(tmp_path, {name: text}, "parameters", name)) == [rule]
