"""Examples of the check ``portable``."""

from __future__ import annotations

import argparse
import json
import os

import torch
from campaigns import METRICS, tensors
from safetensors.torch import save_file

from . import Level, Written, faulty, sound

MODEL = "runs/control/model"
TWO, FOUR = "runs/control/checkpoint-2", "runs/control/checkpoint-4"
META = "runs/control/mlruns/0/8f3a/meta.yaml"
ANSWERS = "runs/control/answers.csv"
COMMIT = "4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d"


def folder(made: Written, path: str = MODEL, **files: object) -> None:
    """One more deliverable: a folder with weights and JSON files beside them."""
    save_file(tensors(2), made / f"{path}/model.safetensors")
    for name, content in files.items():
        (made / f"{path}/{name}.json").write_text(json.dumps(content, indent=2))
    made.add(f"control/{path.rpartition('/')[2]}", "checkpoint", path)


def tracking(made: Written, text: str) -> None:
    """One more deliverable: a tracking folder of MLflow."""
    (made / META).write_text(text)
    (made / "runs/control/mlruns/0/8f3a/metrics/loss").write_text("1762160400000 3.8 4\n")
    made.add("control/tracking", "other", "runs/control/mlruns")


def answers(made: Written, image: str) -> None:
    """Predictions with a column that holds names of files."""
    (made / ANSWERS).write_text(f"id,prediction,image\n1,see /tmp/x,{image}\n")
    made.add("control/answers", "predictions", ANSWERS, file_columns=["image"])


@faulty("portable.temp-path", "control/model", f"{MODEL}/modules.json")
def a_module_in_a_temporary_folder(made: Written) -> None:
    folder(made, modules=[{"idx": 0, "name": "0", "path": "/tmp/tmp9zj93qpn/pooling", "type": "acme.Pooling"}])


@faulty("portable.temp-path", "control/tracking", META)
def artifacts_in_a_temporary_folder(made: Written) -> None:
    tracking(made, "artifact_uri: file:///tmp/mlruns/0/8f3a/artifacts\nrun_id: 8f3a\n")


@faulty("portable.temp-path", "control/answers", ANSWERS)
def a_declared_column_of_files(made: Written) -> None:
    answers(made, "/dev/shm/x.png")


@sound("portable.temp-path", "control/model")
def a_module_in_the_folder(made: Written) -> None:
    folder(made, modules=[{"idx": 0, "name": "0", "path": "", "type": "acme.Transformer"}],
           tokenizer={"model": {"vocab": {"/tmp": 4, "/tmp/tmp9zj93qpn": 5}}})


@sound("portable.temp-path", "control/answers")
def text_about_temporary_folders(made: Written) -> None:
    answers(made, "images/x.png")
    (made / "images/x.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    (made / METRICS).write_text('{"/tmp/eval/f1": 0.7, "loss": 0.25, "note": "/tmp/x"}')
    (made / "runs/control/train.log").write_text("saved to /tmp/tmpab12cd_3/adapter\n")
    made.add("control/log", "log", "runs/control/train.log")


@faulty("portable.machine-path", "control/tracking", META)
def artifacts_on_another_machine(made: Written) -> None:
    tracking(made, "artifact_uri: file:///mnt/c/Users/Ana%20Example/mlruns/0/8f3a/artifacts\nrun_id: 8f3a\n")


@faulty("portable.machine-path", "control/tf", "runs/control/tf/checkpoint")
def a_checkpoint_of_tensorflow_elsewhere(made: Written) -> None:
    (made / "runs/control/tf/checkpoint").write_text('model_checkpoint_path: "/workspace/tf/model.ckpt-5"\n')
    made.add("control/tf", "other", "runs/control/tf")


@faulty("portable.machine-path", "control/data", "data/images.dvc")
def data_of_dvc_on_another_machine(made: Written) -> None:
    (made / "data/images.dvc").write_text("outs:\n- md5: 4f53cda18c2baa0c0354bb5f9a3ecbe5.dir\n  path: /mnt/images\n")
    made.add("control/data", "other", "data/images.dvc")


@sound("portable.machine-path", "control/tracking")
def artifacts_in_a_remote_store(made: Written) -> None:
    tracking(made, "artifact_uri: s3://acme-models/0/8f3a/artifacts\nrun_id: 8f3a\n")


@sound("portable.machine-path", "control/tracking")
def artifacts_by_a_relative_path(made: Written) -> None:
    tracking(made, "artifact_uri: ./mlruns/0/8f3a/artifacts\nrun_id: 8f3a\n")


@sound("portable.machine-path", "control/settings")
def where_it_ran_may_be_recorded(made: Written) -> None:
    (made / "runs/control/settings.json").write_text(json.dumps({"data": "/workspace/data", "route": "/api/v1/rows", "steps": 4}))
    made.add("control/settings", "parameters", "runs/control/settings.json")


@faulty("portable.found-by-name", "control/checkpoint-4", f"{FOUR}/trainer_state.json")
def the_best_checkpoint_lies_beside(made: Written) -> None:
    folder(made, TWO)
    folder(made, FOUR, trainer_state={"best_model_checkpoint": "/scratch/u1/job77/checkpoint-2", "global_step": 4})


@faulty("portable.found-by-name", "control/tracking", META)
def the_artifacts_lie_beside(made: Written) -> None:
    tracking(made, "artifact_uri: file:///workspace/mlruns/0/8f3a/artifacts\nrun_id: 8f3a\n")
    (made / "runs/control/mlruns/0/8f3a/artifacts/model.txt").write_text("a small model\n")


@sound("portable.found-by-name", "control/checkpoint-4")
def the_best_checkpoint_by_a_relative_path(made: Written) -> None:
    folder(made, TWO)
    folder(made, FOUR, trainer_state={"best_model_checkpoint": TWO, "global_step": 4})


@faulty("portable.best-checkpoint", "control/checkpoint-4", f"{FOUR}/trainer_state.json")
def the_best_checkpoint_is_gone(made: Written) -> None:
    folder(made, FOUR, trainer_state={"best_model_checkpoint": "/scratch/u1/job77/checkpoint-99", "global_step": 4})


@faulty("portable.best-checkpoint", "control/checkpoint-4", f"{FOUR}/trainer_state.json")
def the_best_checkpoint_is_gone_by_a_relative_path(made: Written) -> None:
    folder(made, FOUR, trainer_state={"best_model_checkpoint": "out/checkpoint-99", "global_step": 4})


@faulty("portable.best-checkpoint", "control/checkpoint-4", f"{FOUR}/trainer_state.json", level=Level.WARNING)
def the_best_checkpoint_is_gone_and_nobody_resumes(made: Written) -> None:
    folder(made, FOUR, trainer_state={"best_model_checkpoint": "/scratch/u1/job77/checkpoint-99", "global_step": 4})
    made.deliverable("control/checkpoint-4")["purpose"] = "inference"


@sound("portable.best-checkpoint", "control/checkpoint-4")
def it_is_the_best_itself(made: Written) -> None:
    folder(made, FOUR, trainer_state={"best_model_checkpoint": "out/checkpoint-4", "log_history": [float("inf")]})


@sound("portable.best-checkpoint", "control/checkpoint-4")
def no_best_checkpoint_was_kept(made: Written) -> None:
    folder(made, FOUR, trainer_state={"best_model_checkpoint": None, "global_step": 4})


@faulty("portable.likely-path", "control/model", f"{MODEL}/tokenizer_config.json")
def a_vocabulary_elsewhere(made: Written) -> None:
    folder(made, tokenizer_config={"vocab_file": "C:\\Users\\Ana\\vocab.txt", "tokenizer_class": "BertTokenizer"})


@faulty("portable.likely-path", "instructions", "reload.yaml")
def instructions_that_lead_to_the_rented_machine(made: Written) -> None:
    (made / "reload.yaml").write_text("command: python load.py\ncheckpoint: ~/out/last.pt\n")
    made.add("instructions", "instructions", "reload.yaml")


@sound("portable.likely-path", "control/model")
def a_vocabulary_in_the_folder(made: Written) -> None:
    folder(made, tokenizer_config={"vocab_file": "vocab.txt", "special_tokens_map_file": "/root/.cache/x", "extra": ["/tmp"]},
           config={"_name_or_path": "/workspace/base", "id2label": {"0": "/tmp"}, "vocab_size": 4})


@faulty("portable.provenance", "control/args", "runs/control/args.pt")
def arguments_in_a_pickle(made: Written) -> None:
    torch.save({"model": tensors(3), "args": argparse.Namespace(output_dir="/workspace/out")}, made / "runs/control/args.pt")
    made.add("control/args", "checkpoint", "runs/control/args.pt")


@faulty("portable.provenance", "control/job", "runs/control/job/.hydra/hydra.yaml")
def a_working_directory_of_hydra(made: Written) -> None:
    (made / "runs/control/job/.hydra/hydra.yaml").write_text("hydra:\n  runtime:\n    cwd: /home/ana/project\n")
    made.add("control/job", "log", "runs/control/job")


@sound("portable.provenance", "control/args")
def arguments_without_paths(made: Written) -> None:
    torch.save({"model": tensors(3), "args": {"output_dir": "out", "metric": "/eval/f1", "hub": "acme/tiny"}},
               made / "runs/control/args.pt")
    made.add("control/args", "checkpoint", "runs/control/args.pt")


@faulty("portable.not-understood", "control/tracking", META)
def a_torn_file_of_mlflow(made: Written) -> None:
    tracking(made, "artifact_uri: [s3://acme")


@sound("portable.not-understood", "control/job")
def a_torn_file_that_nobody_follows(made: Written) -> None:
    (made / "runs/control/job/.hydra/config.yaml").write_text("model: [${size}")
    (made / "runs/control/job/checkpoint").write_bytes(bytes(range(256)))
    made.add("control/job", "log", "runs/control/job")


@faulty("portable.absolute-link", "control/best", "runs/control/best.pt")
def an_absolute_link_into_the_campaign(made: Written) -> None:
    (made / "runs/control/best.pt").symlink_to(made / "runs/control/last.pt")
    made.add("control/best", "checkpoint", "runs/control/best.pt")


@faulty("portable.absolute-link", "control/model", f"{MODEL}/model.safetensors")
def an_absolute_link_in_a_folder(made: Written) -> None:
    folder(made)
    (made / f"{MODEL}/model.safetensors").rename(made / "runs/control/blobs/4f53cda1")
    (made / f"{MODEL}/model.safetensors").symlink_to(made / "runs/control/blobs/4f53cda1")


@sound("portable.absolute-link", "control/best")
def a_relative_link(made: Written) -> None:
    (made / "runs/control/best.pt").symlink_to("last.pt")
    made.add("control/best", "checkpoint", "runs/control/best.pt")


@faulty("portable.twin-names", "control/model", f"{MODEL}/notes.json")
def names_that_differ_in_case(made: Written) -> None:
    folder(made, notes={"made": "by hand"}, Notes={"made": "by a script"})


@faulty("portable.twin-names", "control/model", f"{MODEL}/r\u00e9sum\u00e9.json")
def names_that_differ_in_their_normal_form(made: Written) -> None:
    folder(made)
    for name in ("r\u00e9sum\u00e9.json", "re\u0301sume\u0301.json"):
        (made / f"{MODEL}/{name}").write_text('{"made": "by hand"}')


@faulty("portable.twin-names", "control/last", "runs/control")
def runs_that_differ_in_case(made: Written) -> None:
    (made / "runs/Control/train.log").write_text("step 1\n")
    made.add("control/log", "log", "runs/Control/train.log")


@sound("portable.twin-names", "control/model")
def the_same_name_in_two_folders(made: Written) -> None:
    folder(made, notes={"made": "by hand"}, notes2={"made": "by hand"})
    (made / f"{MODEL}/more/Notes.json").write_text('{"made": "by a script"}')


@faulty("portable.odd-name", "control/model", f"{MODEL}/aux.json")
def the_name_of_a_device(made: Written) -> None:
    folder(made, aux={"made": "by hand"})


@faulty("portable.odd-name", "control/model")
def a_name_in_no_encoding(made: Written) -> None:
    folder(made)
    with open(os.fsencode(made / MODEL) + b"/gr\xf6sse.txt", "w") as file:
        file.write("4\n")


@faulty("portable.odd-name", "control/model", f"{MODEL}/10:15:00.json", level=Level.NOTE)
def a_time_in_a_name(made: Written) -> None:
    folder(made)
    (made / f"{MODEL}/10:15:00.json").write_text('{"made": "by hand"}')


@sound("portable.odd-name", "control/model")
def names_with_accents_and_blanks(made: Written) -> None:
    folder(made)
    for name in ("r\u00e9sum\u00e9 (2), lr=0.1.json", "auxiliary.json", "\u5b9f\u9a13.json"):
        (made / f"{MODEL}/{name}").write_text('{"made": "by hand"}')
