"""Examples of the check ``data``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
from campaigns import METRICS
from event_files import events

from . import Level, Verdict, Written, faulty, sound

IDS = [f"t{number}" for number in range(6)]
TEST = "data/test.jsonl"
ID, ROWS, TABLE = "control/answers", "runs/control/answers.jsonl", "runs/control/answers.csv"
COLUMNS = "runs/control/answers.parquet"
HISTORY, CURVES = "control/history", "runs/control/history.csv"
SETTINGS, YAML = "control/settings", "runs/control/settings.yaml"
WARNING = {"level": Level.WARNING, "verdict": Verdict.ACCEPTED, "campaign": Verdict.ACCEPTED}


def lines(path: Path, rows: Iterable[object]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def dataset(made: Written, ids: Sequence[object] = IDS, **more: Any) -> None:
    """A data set that is a deliverable of the campaign."""
    lines(made / TEST, [{"id": id, "text": "x"} for id in ids])
    made.manifest["datasets"] = {"test": {"path": TEST, "key": ["id"], **more}}
    made.add("test", "dataset", TEST)


def answers(made: Written, rows: Iterable[object] | None = None, id: str = ID, path: str = ROWS, **more: Any) -> Path:
    """Predictions for the data set, one for each id unless told otherwise."""
    if "datasets" not in made.manifest:
        dataset(made)
    lines(made / path, [{"id": id, "answer": "yes"} for id in IDS] if rows is None else rows)
    made.add(id, "predictions", path, **{"dataset": "test", "key": ["id"], "value": "answer"} | more)
    return made / path


def table(made: Written, text: str, **more: Any) -> None:
    """The same as a table."""
    dataset(made)
    (made / TABLE).write_bytes(text.encode())
    made.add(ID, "predictions", TABLE, **{"dataset": "test", "key": ["id"], "value": "answer"} | more)


def parquet(made: Written, **options: Any) -> Path:
    """The same as a Parquet file."""
    dataset(made)
    rows = pyarrow.table({"id": IDS, "answer": ["yes"] * len(IDS)})
    pyarrow.parquet.write_table(rows, made / COLUMNS, **options)
    made.add(ID, "predictions", COLUMNS, dataset="test", key=["id"], value="answer")
    return made / COLUMNS


def history(made: Written, text: str, **more: Any) -> None:
    """One more deliverable: the history of a training."""
    (made / CURVES).write_text(text)
    made.add(HISTORY, "metrics", CURVES, **more)


def curve(steps: Iterable[int]) -> str:
    return "step,loss\n" + "".join(f"{step},{4 - step / 100:.3f}\n" for step in steps)


def settings(made: Written, text: str, path: str = YAML) -> None:
    """One more deliverable: parameters."""
    (made / path).write_text(text)
    made.add(SETTINGS, "parameters", path)


# ---- what the readers find -----------------------------------------------------------------------------------


@faulty("data.torn", ID, ROWS)
def the_last_line_breaks_off(made: Written) -> None:
    path = answers(made)
    path.write_bytes(path.read_bytes()[:-9])


@faulty("data.torn", ID, ROWS)
def a_record_breaks_off_and_the_next_follows(made: Written) -> None:
    path = answers(made)
    text = path.read_text().split("\n")
    path.write_text("\n".join([text[0], text[1][:-9] + text[2], *text[3:]]))


@faulty("data.torn", ID, TABLE)
def a_quote_is_never_closed(made: Written) -> None:
    table(made, "id,answer\n" + "".join(f"{id},yes\n" for id in IDS[:-1]) + 't5,"ye')


@faulty("data.torn", "test", TEST)
def the_corpus_breaks_off(made: Written) -> None:
    dataset(made)
    (made / TEST).write_bytes((made / TEST).read_bytes()[:-9])


@faulty("data.torn", "control/metrics", METRICS)
def the_metrics_break_off(made: Written) -> None:
    (made / METRICS).write_text('{"loss": 0.2')


@faulty("data.torn", "control/board", "runs/control/events.out.tfevents.1", **WARNING)
def the_writer_of_the_events_was_killed(made: Written) -> None:
    (made / "runs/control/events.out.tfevents.1").write_bytes(events([(step, {"loss": 0.5}) for step in range(5)])[:-7])
    made.add("control/board", "metrics", "runs/control/events.out.tfevents.1")


@sound("data.torn", ID)
def only_the_last_line_end_is_missing(made: Written) -> None:
    path = answers(made)
    path.write_bytes(path.read_bytes()[:-1])


@sound("data.torn", ID)
def quoted_line_breaks(made: Written) -> None:
    table(made, "\ufeffid,answer\r\n" + "".join(f'{id},"two\r\nlines, ""quoted"""\r\n' for id in IDS))


@faulty("data.torn", ID, COLUMNS)
def the_end_of_a_parquet_file_is_lost(made: Written) -> None:
    path = parquet(made)
    path.write_bytes(path.read_bytes()[:-100])


def in_parts(made: Written, names: str, *numbers: int, folder: str = "data/corpus") -> None:
    """A data set in several files, of which those with the numbers are there."""
    for at in numbers:
        lines(made / f"{folder}/{names.format(at)}", [{"id": f"{at}-{row}", "text": "x"} for row in range(3)])
    if not made.manifest.get("deliverables"):
        made.add("corpus", "dataset", folder)


@faulty("data.part-missing", "corpus", "data/corpus/train-00002-of-00004.jsonl")
def a_part_in_the_middle_is_lost(made: Written) -> None:
    in_parts(made, "train-{:05}-of-00004.jsonl", 0, 1, 3)


@faulty("data.part-missing", "corpus", "data/corpus/shard_0_of_3.csv")
def the_first_or_the_last_part_is_lost(made: Written) -> None:
    for at in (1, 2):
        (made / f"data/corpus/shard_{at}_of_3.csv").write_text("id,text\n1,a\n")
    made.add("corpus", "dataset", "data/corpus")


@faulty("data.part-missing", ID, f"{ROWS[:-6]}/part-00000-of-00002.parquet")
def the_first_part_of_predictions_is_lost(made: Written) -> None:
    pyarrow.parquet.write_table(pyarrow.table({"id": ["t1"]}), made / f"{ROWS[:-6]}/part-00001-of-00002.parquet")
    made.add(ID, "predictions", ROWS[:-6])


@faulty("data.part-missing", "corpus", "data/corpus/test")
def a_split_of_a_saved_data_set_is_lost(made: Written) -> None:
    in_parts(made, "data-{:05}-of-00001.jsonl", 0, folder="data/corpus/train")
    made.manifest["deliverables"][0]["path"] = "data/corpus"
    (made / "data/corpus/dataset_dict.json").write_text('{"splits": ["train", "test"]}')


@faulty("data.part-missing", "corpus", "data/corpus/data-00001-of-00002.arrow")
def a_file_of_a_saved_data_set_is_lost(made: Written) -> None:
    (made / "data/corpus/data-00000-of-00002.arrow").write_bytes(b"\xff\xff\xff\xff")
    files = [{"filename": f"data-0000{at}-of-00002.arrow"} for at in (0, 1)]
    (made / "data/corpus/state.json").write_text(json.dumps({"_data_files": files, "_split": None}))
    made.add("corpus", "dataset", "data/corpus")


@faulty("data.part-missing", "corpus", "data/corpus/c4-train.00001-of-01024.jsonl", **WARNING)
def one_part_of_a_thousand(made: Written) -> None:
    in_parts(made, "c4-train.{:05}-of-01024.jsonl", 0)


@sound("data.part-missing", "corpus")
def all_parts_counted_from_1(made: Written) -> None:
    in_parts(made, "part{}-of-11.jsonl", *range(1, 12))


@sound("data.part-missing", "corpus")
def a_set_that_is_split_over_folders(made: Written) -> None:
    in_parts(made, "x-{:05}-of-00004.jsonl", 0, 1, folder="data/corpus/a")
    in_parts(made, "x-{:05}-of-00004.jsonl", 2, 3, folder="data/corpus/b")
    made.manifest["deliverables"][0]["path"] = "data/corpus"


@sound("data.part-missing", "corpus")
def splits_of_one_part_each(made: Written) -> None:
    for split in ("train", "test"):
        in_parts(made, split + "-{:05}-of-00001-a09b74b3ef9c3b56.jsonl", 0)


@sound("data.part-missing", "corpus")
def samples_of_some_steps(made: Written) -> None:
    in_parts(made, "step-{:04}-of-1000.jsonl", 100, 500, 1000)


@sound("data.part-missing", "corpus")
def one_fold_of_five(made: Written) -> None:
    in_parts(made, "fold-{}-of-5.jsonl", 1)


@faulty("data.damaged", ID, COLUMNS)
def a_page_of_a_parquet_file_is_damaged(made: Written) -> None:
    path = parquet(made, write_page_checksum=True, compression="none")
    path.write_bytes(path.read_bytes().replace(b"t3", b"t5", 1))


@sound("data.damaged", ID)
def a_parquet_file_with_checksums(made: Written) -> None:
    parquet(made, write_page_checksum=True)


@faulty("data.joined", ID, ROWS)
def a_line_end_is_lost(made: Written) -> None:
    path = answers(made)
    path.write_text(path.read_text().replace("\n", "", 1))


@faulty("data.joined", "control/metrics", METRICS)
def two_results_in_one_document(made: Written) -> None:
    (made / METRICS).write_text('{"loss": 0.25}\n{"loss": 0.31}\n')


@sound("data.joined", "control/metrics")
def a_history_of_lines_that_is_called_json(made: Written) -> None:
    (made / METRICS).write_text('{"iteration": 0, "loss": 0.25}\n{"iteration": 20, "loss": 0.31}\n')


@faulty("data.syntax", ID, ROWS)
def a_printed_dictionary(made: Written) -> None:
    answers(made).write_text("".join(f"{ {'id': id, 'answer': 'yes'} }\n" for id in IDS))


@faulty("data.syntax", SETTINGS, "runs/control/settings.toml")
def toml_without_quotes(made: Written) -> None:
    settings(made, "optimizer = adam\n", "runs/control/settings.toml")


@sound("data.syntax", ID)
def separators_that_only_look_like_line_ends(made: Written) -> None:
    path = answers(made, [])
    path.write_text("".join(f'{{"id": "{id}", "answer": "a\u2028b\x85c"}}\r\n\r\n' for id in IDS), encoding="utf-8")


@faulty("data.nul", ID, ROWS)
def a_block_that_never_reached_the_disk(made: Written) -> None:
    path = answers(made)
    path.write_bytes(path.read_bytes() + bytes(512))


@sound("data.nul", ID)
def an_escaped_nul(made: Written) -> None:
    answers(made, [{"id": id, "answer": "a\0b"} for id in IDS])


@faulty("data.encoding", ID, TABLE)
def latin_1(made: Written) -> None:
    table(made, "id,answer\n")
    (made / TABLE).write_bytes(b"id,answer\n" + b"".join(f"{id},\xe9\n".encode("latin-1") for id in IDS))


@sound("data.encoding", ID)
def utf_8_with_a_mark(made: Written) -> None:
    table(made, "\ufeffid,answer\n" + "".join(f"{id},\xe9\n" for id in IDS))


@faulty("data.duplicate-key", ID, ROWS)
def two_answers_in_one_record(made: Written) -> None:
    path = answers(made)
    path.write_text(path.read_text().replace('"answer": "yes"}', '"answer": "no", "answer": "yes"}', 1))


@faulty("data.duplicate-key", ID, TABLE)
def two_columns_with_the_answer(made: Written) -> None:
    table(made, "id,answer,answer\n" + "".join(f"{id},no,yes\n" for id in IDS))


@faulty("data.duplicate-key", ID, TABLE, **WARNING)
def two_columns_that_do_not_matter(made: Written) -> None:
    table(made, "id,answer,x,x\n" + "".join(f"{id},no,1,2\n" for id in IDS))


@faulty("data.duplicate-key", SETTINGS, YAML)
def a_setting_twice(made: Written) -> None:
    settings(made, "rate: 0.1\nsteps: 3\nrate: 0.2\n")


@sound("data.duplicate-key", SETTINGS)
def one_name_at_two_places(made: Written) -> None:
    settings(made, "train: {rate: 0.1}\nfine: {rate: 0.2}\n")


@sound("data.fields", HISTORY)
def a_comment_above_the_header_of_metrics(made: Written) -> None:
    history(made, '#{"t_start": 1764547200.5, "env_id": "CartPole-v1"}\nr,l,t\n21.0,21,0.7\n34.0,34,1.1\n')


@faulty("data.fields", ID, TABLE)
def an_answer_with_a_comma_and_without_quotes(made: Written) -> None:
    table(made, "id,answer\n" + "".join(f"{id},no, thanks\n" for id in IDS))


@faulty("data.fields", ID, TABLE)
def a_row_that_is_short(made: Written) -> None:
    table(made, "id,answer\n" + "".join(f"{id},yes\n" for id in IDS[:-1]) + "t5\n")


@sound("data.fields", ID)
def an_answer_in_quotes_and_semicolons(made: Written) -> None:
    table(made, "id;answer\n" + "".join(f'{id};"no; thanks"\n' for id in IDS))


@faulty("data.header-again", HISTORY, CURVES)
def a_resumed_run_wrote_its_header(made: Written) -> None:
    history(made, curve(range(5)) + curve(range(5, 10)))


@sound("data.header-again", HISTORY)
def one_header(made: Written) -> None:
    history(made, curve(range(10)))


@faulty("data.no-rows", HISTORY, CURVES)
def a_comment_and_a_header(made: Written) -> None:
    history(made, '#{"t_start": 1764547200.5, "env_id": "CartPole-v1"}\nr,l,t\n')


@faulty("data.no-rows", ID, TABLE)
def a_long_header_alone(made: Written) -> None:
    table(made, "id,answer," + ",".join(f"logit_{number}" for number in range(500)) + "\n")


@faulty("data.no-rows", SETTINGS, "runs/control/settings.toml")
def only_a_comment(made: Written) -> None:
    settings(made, "# to be filled in\n", "runs/control/settings.toml")


@sound("data.no-rows", SETTINGS)
def the_overrides_of_a_run_without_any(made: Written) -> None:
    settings(made, "[]\n")


@faulty("data.not-read", ID, "runs/control/answers.arrow")
def a_format_without_a_reader(made: Written) -> None:
    dataset(made)
    (made / "runs/control/answers.arrow").write_bytes(b"ARROW1" + bytes(40) + b"ARROW1")
    made.add(ID, "predictions", "runs/control/answers.arrow", dataset="test")


@sound("data.not-read", "corpus")
def a_corpus_without_a_reader(made: Written) -> None:
    (made / "data/corpus.arrow").write_bytes(b"ARROW1" + bytes(40) + b"ARROW1")
    made.add("corpus", "dataset", "data/corpus.arrow")


@faulty("data.not-read", ID, COLUMNS)
def an_encrypted_table(made: Written) -> None:
    path = parquet(made)
    path.write_bytes(path.read_bytes()[:-4] + b"PARE")


@sound("data.not-read", ID)
def a_parquet_table(made: Written) -> None:
    parquet(made)


@faulty("data.other-format", SETTINGS, "runs/control/command.sh", verdict=Verdict.ACCEPTED, campaign=Verdict.ACCEPTED)
def the_command_line(made: Written) -> None:
    settings(made, "train --rate 0.1\n", "runs/control/command.sh")


@sound("data.other-format", SETTINGS)
def an_ini_file(made: Written) -> None:
    settings(made, "[train]\nrate = 0.1\n", "runs/control/settings.ini")


# ---- predictions and data sets -------------------------------------------------------------------------------


@faulty("data.missing-ids", ID, ROWS)
def the_last_batch_was_dropped(made: Written) -> None:
    answers(made, [{"id": id, "answer": "yes"} for id in IDS[:-2]])


@faulty("data.missing-ids", ID, ROWS)
def the_right_number_and_the_wrong_set(made: Written) -> None:
    answers(made, [{"id": id, "answer": "yes"} for id in [*IDS[:-1], "t0"]])


@sound("data.missing-ids", ID)
def in_any_order(made: Written) -> None:
    answers(made, [{"id": id, "answer": "yes"} for id in reversed(IDS)])


@sound("data.missing-ids", ID)
def several_answers_for_each_row(made: Written) -> None:
    answers(made, [{"id": id, "sample": sample, "answer": "yes"} for id in IDS for sample in (0, 1)], key=["id", "sample"])


@faulty("data.duplicated-ids", ID, ROWS)
def the_padding_was_kept(made: Written) -> None:
    answers(made, [{"id": id, "answer": "yes"} for id in [*IDS, "t0", "t1"]])


@faulty("data.duplicated-ids", ID, ROWS)
def one_id_twice_without_a_data_set(made: Written) -> None:
    answers(made, [{"id": id, "answer": "yes"} for id in ["a", "b", "a"]])
    del made.deliverable(ID)["dataset"]


@faulty("data.duplicated-ids", "test", TEST, **WARNING)
def a_data_set_whose_key_is_none(made: Written) -> None:
    dataset(made, [*IDS, "t0"])


@sound("data.duplicated-ids", ID)
def as_often_as_in_the_data_set(made: Written) -> None:
    answers(made, [{"id": id, "answer": "yes"} for id in [*IDS, "t0"]])
    made.manifest["datasets"]["test"] = {"ids": ["t0", *IDS]}


@faulty("data.unknown-ids", ID, ROWS)
def ids_of_another_split(made: Written) -> None:
    answers(made, [{"id": id.replace("t", "v"), "answer": "yes"} for id in IDS])


@faulty("data.unknown-ids", ID, TABLE)
def ids_that_were_read_as_numbers(made: Written) -> None:
    table(made, "id,answer\n" + "".join(f"{number},yes\n" for number in range(6)))
    made.manifest["datasets"]["test"] = {"ids": [f"{number:03}" for number in range(6)], "key": ["id"]}


@sound("data.unknown-ids", ID)
def integers_as_numbers_and_as_text(made: Written) -> None:
    table(made, "id,answer\n" + "".join(f"{number},yes\n" for number in range(6)))
    made.manifest["datasets"]["test"] = {"ids": list(range(6)), "key": ["id"]}


@faulty("data.no-id", ID, "runs/control/answers.txt")
def labels_alone(made: Written) -> None:
    dataset(made)
    (made / "runs/control/answers.txt").write_text("yes\n" * 6)
    made.add(ID, "predictions", "runs/control/answers.txt", dataset="test", key=["id"])


@faulty("data.no-id", ID, ROWS)
def one_record_without_its_id(made: Written) -> None:
    answers(made, [{"answer": "yes"}, *({"id": id, "answer": "yes"} for id in IDS[1:])])


@sound("data.no-id", "control/labels")
def labels_of_which_nothing_was_promised(made: Written) -> None:
    (made / "runs/control/labels.txt").write_text("yes\n" * 6)
    made.add("control/labels", "predictions", "runs/control/labels.txt")


@faulty("data.id-type", ID, ROWS)
def a_column_of_integers_that_became_fractions(made: Written) -> None:
    answers(made, [{"id": float(number), "answer": "yes"} for number in range(6)])


@sound("data.id-type", ID)
def integers(made: Written) -> None:
    dataset(made, range(6))
    answers(made, [{"id": number, "answer": "yes"} for number in range(6)])


@faulty("data.no-value", ID, ROWS)
def a_request_without_an_answer(made: Written) -> None:
    answers(made, [{"id": "t0", "error": "503"}, *({"id": id, "answer": "yes"} for id in IDS[1:])])


@faulty("data.no-value", ID, ROWS)
def nothing_says_whether_inputs_were_cut(made: Written) -> None:
    answers(made, truncated_field="was_cut")


@faulty("data.no-value", ID, ROWS)
def the_column_of_the_files_is_called_otherwise(made: Written) -> None:
    answers(made, file_columns=["mask"])


@sound("data.no-value", ID)
def columns_in_one_document(made: Written) -> None:
    answers(made, id="control/spare")
    (made / "runs/control/answers.json").write_text(json.dumps({"id": IDS, "answer": ["yes"] * 6}))
    made.add(ID, "predictions", "runs/control/answers.json", dataset="test", value="answer")


@faulty("data.all-empty", ID, TABLE)
def ten_of_ten_are_empty(made: Written) -> None:
    table(made, "id,answer\n" + "".join(f'{id},""\n' for id in IDS))


@faulty("data.all-empty", ID, ROWS)
def nothing_beside_the_id(made: Written) -> None:
    answers(made, [{"id": id, "answer": ""} for id in IDS])
    del made.deliverable(ID)["value"]


@faulty("data.all-empty", "control/metrics", METRICS)
def metrics_without_a_number(made: Written) -> None:
    (made / METRICS).write_text('{"status": "ok"}')


@sound("data.all-empty", ID)
def one_of_six_is_empty(made: Written) -> None:
    table(made, "id,answer\nt0,\n" + "".join(f"{id},yes\n" for id in IDS[1:]))


@faulty("data.null", ID, ROWS)
def one_answer_is_null(made: Written) -> None:
    answers(made, [{"id": "t0", "answer": None}, *({"id": id, "answer": "yes"} for id in IDS[1:])])


@faulty("data.null", "control/metrics", METRICS)
def a_metric_is_null(made: Written) -> None:
    (made / METRICS).write_text('{"loss": 0.2, "scores": {"f1": null}}')


@faulty("data.null", "control/metrics", METRICS, campaign=Verdict.REJECTED)
def another_metric_may_be_null(made: Written) -> None:
    (made / METRICS).write_text('{"loss": 0.2, "f1": null}')
    made.deliverable("control/metrics")["nullable"] = ["loss"]


@faulty("data.null", HISTORY, CURVES)
def an_empty_cell_among_results(made: Written) -> None:
    history(made, "model,accuracy\nsmall,0.5\nlarge,\n")


@sound("data.null", "control/metrics")
def a_metric_that_may_be_null(made: Written) -> None:
    (made / METRICS).write_text('{"loss": 0.2, "scores": {"f1": null}, "f1_reason": "one class", "config": {"limit": null}}')
    made.deliverable("control/metrics")["nullable"] = ["f1"]


@sound("data.null", HISTORY)
def training_and_validation_in_rows_of_their_own(made: Written) -> None:
    rows = "".join(f"{epoch},{epoch * 10},{2 - epoch / 9:.3f},\n{epoch},{epoch * 10},,2\n" for epoch in range(1, 6))
    history(made, "epoch,step,train_loss,val_loss\n" + rows)


@faulty("data.non-finite", "control/metrics", METRICS)
def nan_in_json(made: Written) -> None:
    (made / METRICS).write_text('{"loss": NaN}')


@faulty("data.non-finite", HISTORY, CURVES)
def nan_in_a_table(made: Written) -> None:
    history(made, curve(range(5)) + "5,nan\n")


@faulty("data.non-finite", ID, TABLE)
def a_score_that_is_infinite(made: Written) -> None:
    table(made, "id,answer\n" + "".join(f"{id},{score}\n" for id, score in zip(IDS, [0.5, 0.25, 1, "inf", 0, 1], strict=True)))


@faulty("data.non-finite", SETTINGS, YAML)
def a_parameter_that_is_nan(made: Written) -> None:
    settings(made, "rate: .nan\n")


@faulty("data.non-finite", "control/board", "runs/control/events.out.tfevents.1")
def nan_in_an_event_file(made: Written) -> None:
    (made / "runs/control/events.out.tfevents.1").write_bytes(events([(1, {"loss": 0.5}), (2, {"loss": float("nan")})]))
    made.add("control/board", "metrics", "runs/control/events.out.tfevents.1")


@sound("data.non-finite", ID)
def the_word_nan_is_an_answer(made: Written) -> None:
    words = ["nan", "naan", "none", "inf", "x", ""]
    table(made, "id,answer\n" + "".join(f"{id},{word}\n" for id, word in zip(IDS, words, strict=True)))


@sound("data.non-finite", HISTORY)
def nan_where_it_may_be(made: Written) -> None:
    history(made, "step,loss,f1\n1,2.0,nan\n2,1.5,0.5\n", nullable=["f1"])


@faulty("data.rows", "test", TEST)
def fewer_rows_than_declared(made: Written) -> None:
    dataset(made, rows=7)


@sound("data.rows", "test")
def as_many_rows_as_declared(made: Written) -> None:
    dataset(made, rows=6)


@faulty("data.cut-inputs", ID, ROWS)
def two_inputs_were_cut(made: Written) -> None:
    answers(made, [{"id": id, "answer": "yes", "cut": id in ("t1", "t4")} for id in IDS], truncated_field="cut")


@sound("data.cut-inputs", ID)
def no_input_was_cut(made: Written) -> None:
    answers(made, [{"id": id, "answer": "yes", "cut": False} for id in IDS], truncated_field="cut")


@faulty("data.file-missing", ID, ROWS)
def the_masks_were_left_behind(made: Written) -> None:
    answers(made, [{"id": id, "answer": f"masks/{id}.png"} for id in IDS], file_columns=["answer"])


@sound("data.file-missing", ID)
def the_masks_are_there(made: Written) -> None:
    answers(made, [{"id": id, "answer": f"runs/control/masks/{id}.png"} for id in IDS], file_columns=["answer"])
    for id in IDS:
        (made / f"runs/control/masks/{id}.png").write_bytes(b"\x89PNG")
    made.add("control/masks", "other", "runs/control/masks")


@faulty("data.file-missing", ID, TABLE)
def a_cell_without_the_file(made: Written) -> None:
    table(made, "id,answer,mask\n" + "".join(f"{id},yes,{TEST if id != 't2' else ''}\n" for id in IDS), file_columns=["mask"])


@sound("data.file-missing", ID)
def a_row_that_needs_no_file(made: Written) -> None:
    table(made, "id,answer,mask\n" + "".join(f"{id},yes,{TEST if id != 't2' else ''}\n" for id in IDS), file_columns=["mask"],
          nullable=["mask"])


@faulty("data.other-ids", "variant/answers", "runs/variant/answers.jsonl")
def the_variant_predicted_less(made: Written) -> None:
    the_variant_predicted_the_same(made)
    lines(made / "runs/variant/answers.jsonl", [{"id": id, "answer": "no"} for id in IDS[:-1]])


@faulty("data.other-ids", "variant/answers", "runs/variant/answers.jsonl")
def the_variant_predicted_less_and_nobody_says_the_key(made: Written) -> None:
    the_variant_predicted_less(made)
    for run in ("control", "variant"):
        del made.deliverable(f"{run}/answers")["key"]


@sound("data.other-ids", "variant/answers")
def each_answer_has_a_number_of_its_own(made: Written) -> None:
    the_variant_predicted_the_same(made)
    lines(made / "runs/variant/answers.jsonl", [{"id": f"answer-{at}", "answer": "no"} for at in range(3)])
    for run in ("control", "variant"):
        del made.deliverable(f"{run}/answers")["key"]


@sound("data.other-ids", "variant/answers")
def the_variant_predicted_the_same(made: Written) -> None:
    for run in ("control", "variant"):
        answers(made, id=f"{run}/answers", path=f"runs/{run}/answers.jsonl")
        del made.deliverable(f"{run}/answers")["dataset"]


@faulty("data.no-dataset", ID, "manifest.json")
def the_data_set_was_left_behind(made: Written) -> None:
    answers(made)
    made.manifest["datasets"]["test"]["path"] = "data/other.jsonl"


@faulty("data.no-dataset", ID, "manifest.json")
def the_data_set_has_another_key(made: Written) -> None:
    answers(made)
    made.manifest["datasets"]["test"]["key"] = ["row"]


@sound("data.no-dataset", ID)
def the_ids_stand_in_the_manifest(made: Written) -> None:
    answers(made)
    made.manifest["datasets"]["test"] = {"ids": IDS, "key": ["row"]}


@faulty("data.not-compared", ID, "manifest.json")
def the_data_set_is_in_another_format(made: Written) -> None:
    answers(made)
    (made / "data/test.arrow").write_bytes(b"ARROW1" + bytes(40) + b"ARROW1")
    made.manifest["datasets"]["test"]["path"] = "data/test.arrow"


@sound("data.not-compared", ID)
def the_data_set_is_a_table(made: Written) -> None:
    answers(made)
    (made / "data/test.csv").write_text("id,text\n" + "".join(f"{id},x\n" for id in IDS))
    made.manifest["datasets"]["test"]["path"] = "data/test.csv"


# ---- metrics -------------------------------------------------------------------------------------------------


@faulty("data.history-restarts", HISTORY, CURVES)
def a_header_behind_a_sign_of_comment(made: Written) -> None:
    history(made, "# trained on one device\n# step,loss\n1,4.0\n2,3.5\n1,4.0\n2,3.4\n")


@faulty("data.history-restarts", HISTORY, CURVES)
def epochs_begin_again(made: Written) -> None:
    history(made, "epoch,loss\n" + "".join(f"{epoch},{3 - epoch / 9:.3f}\n" for epoch in (1, 2, 3, 4, 1, 2, 3)))


@faulty("data.history-restarts", HISTORY, CURVES, **WARNING)
def a_resumed_run_repeats_a_few_steps(made: Written) -> None:
    history(made, curve([*range(30), *range(25, 50)]))
    made.run("control")["resumed_from"] = "control/last"


@sound("data.history-restarts", HISTORY)
def batches_are_counted_in_each_epoch(made: Written) -> None:
    rows = [f"{epoch},{batch},{epoch / 7:.3f}\n" for epoch in range(3) for batch in range(5)]
    history(made, "epoch,batch,loss\n" + "".join(rows))


@sound("data.history-restarts", HISTORY)
def one_metric_after_the_other(made: Written) -> None:
    rows = [f"{name},{step},{step / 9:.3f}\n" for name in ("loss", "f1") for step in range(5)]
    history(made, "metric,step,value\n" + "".join(rows))


@faulty("data.repeated-steps", HISTORY, CURVES, **WARNING)
def every_process_logged(made: Written) -> None:
    history(made, "step,loss\n" + "".join(f"{step},{rank / 9:.3f}\n" for step in range(5) for rank in range(4)))


@sound("data.repeated-steps", HISTORY)
def every_process_with_its_rank(made: Written) -> None:
    history(made, "step,rank,loss\n" + "".join(f"{step},{rank},{rank / 9:.3f}\n" for step in range(5) for rank in range(4)))


@faulty("data.history-starts-late", HISTORY, CURVES, **WARNING)
def the_resumed_run_wiped_the_file(made: Written) -> None:
    history(made, curve(range(35, 61)))
    made.run("control")["steps"] = 60


@sound("data.history-starts-late", HISTORY)
def an_evaluation_every_hundred_steps(made: Written) -> None:
    history(made, curve(range(100, 1001, 100)))
    made.run("control")["steps"] = 1000


@sound("data.history-starts-late", HISTORY)
def the_run_began_later(made: Written) -> None:
    history(made, curve(range(35, 61)))
    made.run("control").update(steps=60, first_step=35)


@faulty("data.history-ends-early", HISTORY, CURVES, **WARNING)
def copied_while_the_training_went_on(made: Written) -> None:
    history(made, curve(range(41)))
    made.run("control")["steps"] = 60


@sound("data.history-ends-early", HISTORY)
def the_last_steps_fill_no_interval(made: Written) -> None:
    history(made, curve(range(500, 3001, 500)))
    made.run("control")["steps"] = 3200


RULE = {"id": "diverged", "when": "the loss is above 3 for three steps", "metric": "loss", "op": ">", "value": 3, "for_steps": 3}


@faulty("data.abort-rule", HISTORY, CURVES)
def nobody_aborted_it(made: Written) -> None:
    history(made, "step,loss\n1,2\n2,3.5\n3,4\n4,4.5\n5,1\n")
    made.plan["abort_rules"] = [RULE]


@faulty("data.abort-rule", HISTORY, CURVES)
def it_never_came_below_the_limit(made: Written) -> None:
    history(made, "step,loss\n1,9\n2,5\n3,4\n")
    made.plan["abort_rules"] = [{**RULE, "for_steps": 1}]


@faulty("data.abort-rule", "control/metrics", METRICS)
def a_limit_of_a_metric_that_may_be_null(made: Written) -> None:
    (made / METRICS).write_text('{"test": {"accuracy": 0.41}}')
    made.deliverable("control/metrics")["nullable"] = ["accuracy"]
    made.plan["abort_rules"] = [{"id": "poor", "when": "worse than guessing", "metric": "accuracy", "op": "<", "value": 0.5}]


@faulty("data.abort-rule", "control/metrics", METRICS)
def a_limit_of_a_metric_in_a_list_of_results(made: Written) -> None:
    (made / METRICS).write_text('[{"name": "f1", "value": 0.8}, {"name": "accuracy", "value": 0.41}]')
    made.plan["abort_rules"] = [{"id": "poor", "when": "worse than guessing", "metric": "accuracy", "op": "<", "value": 0.5}]


@sound("data.abort-rule", HISTORY)
def it_began_above_the_limit(made: Written) -> None:
    history(made, "step,loss,accuracy\n1,9,0.1\n2,2,0.4\n3,1,0.7\n")
    made.plan["abort_rules"] = [{**RULE, "for_steps": 1},
                                {"id": "poor", "when": "worse than guessing", "metric": "accuracy", "op": "<", "value": 0.5}]


@sound("data.abort-rule", HISTORY)
def never_three_in_a_row(made: Written) -> None:
    history(made, "step,loss\n1,2\n2,3.5\n3,4\n4,1\n5,4\n6,5\n")
    made.plan["abort_rules"] = [RULE]


def harness(limit: int | None) -> str:
    return json.dumps({
        "results": {"arc": {"acc,none": 0.5, "acc_stderr,none": "N/A"}}, "git_hash": None, "chat_template": None,
        "config": {"limit": limit, "device": None}, "n-samples": {"arc": {"original": 90, "effective": limit or 90}}})


@faulty("data.limited", "control/metrics", METRICS, **WARNING)
def a_smoke_test_of_the_harness(made: Written) -> None:
    (made / METRICS).write_text(harness(10))


@sound("data.limited", "control/metrics")
def a_whole_run_of_the_harness(made: Written) -> None:
    (made / METRICS).write_text(harness(None))


@faulty("data.empty-column", HISTORY, CURVES, **WARNING)
def a_metric_that_was_never_computed(made: Written) -> None:
    history(made, "step,loss,f1\n1,2,\n2,1,\n")


@sound("data.empty-column", HISTORY)
def a_metric_that_was_computed_once(made: Written) -> None:
    history(made, "step,loss,f1\n1,2,\n2,1,0.5\n")
