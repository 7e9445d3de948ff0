"""Examples of the check ``content``."""

from __future__ import annotations

import datetime
import functools
import io
import json
import os
import pathlib
import pickle
import socket
import subprocess
import zipfile
import zoneinfo
from typing import Any

import joblib
import numpy
import torch
from campaigns import LAST, METRICS, WEIGHTS, tensors
from safetensors.torch import save_file
from sklearn.linear_model import LogisticRegression

from . import Level, Verdict, Written, faulty, sound

POINTER = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'4f53cda1' * 8}\nsize 9\n"
PAGE = "<!DOCTYPE html><html><title>Sign in</title><body>Please sign in to go on.</body></html>\n"
FOLDER = "runs/control/model"
PICKLE = "runs/control/state.png"
ARRAY = "runs/control/means.npy"


def folder(made: Written) -> None:
    """One more deliverable: a folder with weights and what belongs to them."""
    save_file(tensors(2), made / f"{FOLDER}/model.safetensors")
    (made / FOLDER / "notes.json").write_text('{"made": "by hand"}')
    made.add("control/model", "checkpoint", FOLDER)


@faulty("content.missing", "control/last", LAST, verdict=Verdict.MISSING)
def the_file_is_gone(made: Written) -> None:
    os.remove(made / LAST)


@faulty("content.missing", "control/last", LAST, verdict=Verdict.MISSING)
def a_link_to_the_rented_machine(made: Written) -> None:
    os.remove(made / LAST)
    (made / LAST).symlink_to("/workspace/runs/control/last.pt")


@faulty("content.missing", "control/metrics", METRICS, level=Level.NOTE, verdict=Verdict.MISSING, campaign=Verdict.ACCEPTED)
def a_useful_file_is_gone(made: Written) -> None:
    os.remove(made / METRICS)
    made.planned("control/metrics")["priority"] = "useful"


@faulty("content.missing", "control/last", LAST, level=Level.NOTE, verdict=Verdict.ABORTED, campaign=Verdict.ACCEPTED)
def a_file_of_an_aborted_run_is_gone(made: Written) -> None:
    os.remove(made / LAST)
    made.run("control").update(status="aborted", abort={"reason": "out of budget"})
    made.manifest["decision"] = {"outcome": "negative", "summary": "Too dear.", "based_on": ["control"]}


@sound("content.missing", "control/last")
def a_link_inside_the_campaign(made: Written) -> None:
    (made / LAST).rename(made / "runs/control/step-10.pt")
    (made / LAST).symlink_to("step-10.pt")


@sound("content.missing", "variant/weights")
def below_a_folder_that_is_a_link(made: Written) -> None:
    (made / "runs/variant").rename(made / "runs/variant-first")
    (made.directory / "runs/variant").symlink_to("variant-first")


@faulty("content.dead-link", "control/model", f"{FOLDER}/tokenizer.json")
def a_link_that_came_without_its_target(made: Written) -> None:
    folder(made)
    (made / FOLDER / "tokenizer.json").symlink_to("../../blobs/4f53cda1")


@sound("content.dead-link", "control/model")
def a_link_that_came_with_its_target(made: Written) -> None:
    folder(made)
    (made / "runs/control/blobs/4f53cda1").write_text("{}")
    (made / FOLDER / "tokenizer.json").symlink_to("../blobs/4f53cda1")


@faulty("content.empty", "control/last", LAST)
def no_bytes(made: Written) -> None:
    (made / LAST).write_bytes(b"")


@faulty("content.empty", "control/model", f"{FOLDER}/notes.json")
def no_bytes_in_a_folder(made: Written) -> None:
    folder(made)
    (made / FOLDER / "notes.json").write_bytes(b"")


@faulty("content.empty", "control/model", FOLDER)
def a_folder_without_files(made: Written) -> None:
    (made / FOLDER).mkdir()
    made.add("control/model", "other", FOLDER)


@sound("content.empty", "control/model")
def markers_have_no_bytes(made: Written) -> None:
    folder(made)
    (made / FOLDER / "DONE").touch()
    (made / FOLDER / "__init__.py").touch()


@sound("content.empty", "control/job")
def a_job_that_wrote_nothing(made: Written) -> None:
    (made / "runs/control/job/train.err").touch()
    made.add("control/job", "log", "runs/control/job")


@faulty("content.no-records", "control/metrics", METRICS)
def an_empty_object(made: Written) -> None:
    (made / METRICS).write_text("{ }\n")


@faulty("content.no-records", "control/answers", "runs/control/answers.csv")
def a_header_alone(made: Written) -> None:
    (made / "runs/control/answers.csv").write_text("id,prediction\n")
    made.add("control/answers", "predictions", "runs/control/answers.csv")


@sound("content.no-records", "control/answers")
def one_record(made: Written) -> None:
    (made / "runs/control/answers.csv").write_text("id,prediction\n1,\n")
    made.add("control/answers", "predictions", "runs/control/answers.csv")
    (made / METRICS).write_text('{"loss": null, "f1": 0.5}')
    made.deliverable("control/metrics")["nullable"] = ["loss"]


@sound("content.no-records", "control/overrides")
def no_override_was_given(made: Written) -> None:
    (made / "runs/control/overrides.yaml").write_text("[]\n")
    made.add("control/overrides", "parameters", "runs/control/overrides.yaml")


@faulty("content.placeholder", "variant/weights", WEIGHTS)
def a_pointer_of_git_lfs(made: Written) -> None:
    (made / WEIGHTS).write_text(POINTER)


@faulty("content.placeholder", "control/last", LAST)
def a_web_page(made: Written) -> None:
    (made / LAST).write_text(PAGE)


@faulty("content.placeholder", "control/last", LAST)
def only_zeros(made: Written) -> None:
    (made / LAST).write_bytes(bytes(5000))


@sound("content.placeholder", "report")
def a_web_page_that_is_meant(made: Written) -> None:
    (made / "analysis/report.html").write_text(PAGE)
    (made / "analysis/raw.bin").write_bytes(bytes(5000))
    made.add("report", "analysis", "analysis")


@faulty("content.not-what-its-name-says", "variant/weights", WEIGHTS)
def a_torch_file_named_safetensors(made: Written) -> None:
    (made / WEIGHTS).write_bytes((made / LAST).read_bytes())


@sound("content.not-what-its-name-says", "variant/arrays")
def files_that_are_what_their_names_say(made: Written) -> None:
    numpy.save(made / "runs/variant/arrays/a.npy", numpy.ones(4))
    numpy.savez(made / "runs/variant/arrays/b.npz", a=numpy.ones(4))
    made.add("variant/arrays", "other", "runs/variant/arrays")


@faulty("content.other-kind", "control/metrics", LAST)
def weights_that_are_listed_as_metrics(made: Written) -> None:
    made.deliverable("control/metrics")["path"] = LAST


@sound("content.other-kind", "control/data")
def tensors_that_are_data(made: Written) -> None:
    save_file(tensors(4), made / "data/train.safetensors")
    made.add("control/data", "dataset", "data/train.safetensors")


@faulty("content.special-file", "control/model", f"{FOLDER}/pipe")
def a_named_pipe(made: Written) -> None:
    folder(made)
    os.mkfifo(made / FOLDER / "pipe")


@faulty("content.special-file", "control/last", LAST)
def a_socket(made: Written) -> None:
    os.remove(made / LAST)
    with socket.socket(socket.AF_UNIX) as end:  # a path of a socket has at most 107 bytes
        before = os.getcwd()
        os.chdir(made / "runs/control")
        try:
            end.bind("last.pt")
        finally:
            os.chdir(before)


@sound("content.special-file", "control/model")
def a_pipe_beside_the_deliverable(made: Written) -> None:
    folder(made)
    os.mkfifo(made / "runs/control/pipe")


def steps(made: Written, *widths: int) -> None:
    """Checkpoints of one training, each with one tensor of that width."""
    for number, width in enumerate(widths, 1):
        path = f"runs/control/checkpoint-{number * 10}"
        save_file({"weight": torch.randn(64, width)}, made / f"{path}/model.safetensors")
        made.add(f"control/step-{number * 10}", "checkpoint", path)


@faulty("content.unlike-siblings", "control/step-20", "runs/control/checkpoint-20/model.safetensors")
def one_that_holds_nearly_nothing(made: Written) -> None:
    steps(made, 64, 1, 64)


@faulty("content.unlike-siblings", "control/step-20", "runs/control/checkpoint-20/model.safetensors", level=Level.WARNING)
def one_that_is_smaller(made: Written) -> None:
    steps(made, 64, 48, 64)


def epochs(made: Written, *sizes: int) -> None:
    """Checkpoints of one training side by side in a folder."""
    for epoch, many in enumerate(sizes):
        torch.save({"weight": torch.randn(many, many)}, made / f"runs/control/epoch={epoch}-loss=0.{many}.ckpt")
        made.add(f"control/epoch-{epoch}", "checkpoint", f"runs/control/epoch={epoch}-loss=0.{many}.ckpt")


@faulty("content.unlike-siblings", "control/epoch-1", "runs/control/epoch=1-loss=0.2.ckpt")
def a_file_beside_the_others_that_holds_nearly_nothing(made: Written) -> None:
    epochs(made, 200, 2, 200)


@sound("content.unlike-siblings", "control/epoch-1")
def files_of_equal_size_and_one_of_another_sort(made: Written) -> None:
    epochs(made, 64, 64, 64)
    torch.save({"weight": torch.randn(2, 2)}, made / "runs/control/ema-epoch=1-loss=0.64.ckpt")
    made.add("control/ema", "checkpoint", "runs/control/ema-epoch=1-loss=0.64.ckpt")


@sound("content.unlike-siblings", "control/step-20")
def steps_of_equal_size(made: Written) -> None:
    steps(made, 64, 64, 64)
    (made / "runs/control/checkpoint-20/optimizer.pt").write_bytes((made / LAST).read_bytes())  # no model


@sound("content.unlike-siblings", "control/small")
def another_model_beside_them(made: Written) -> None:
    steps(made, 64, 64)
    save_file({"weight": torch.randn(4, 4)}, made / "runs/control/small/model.safetensors")
    made.add("control/small", "checkpoint", "runs/control/small")


@faulty("content.placeholder", "control/state", "runs/control/state.dat")
def a_huge_file_of_which_nothing_was_written(made: Written) -> None:
    with open(made / "runs/control/state.dat", "wb") as file:
        file.truncate(1 << 42)
    made.add("control/state", "other", "runs/control/state.dat")


@sound("content.placeholder", "control/state")
def a_file_with_a_hole(made: Written) -> None:
    with open(made / "runs/control/state.dat", "wb") as file:
        file.write(b"head")
        file.truncate(1 << 24)
    made.add("control/state", "other", "runs/control/state.dat")


@faulty("content.not-what-its-name-says", "control/last", LAST)
def another_archive_than_torch_writes(made: Written) -> None:
    (made / LAST).write_bytes(b"7z\xbc\xaf\x27\x1c\0\x04" + bytes(range(256)))


@faulty("content.not-what-its-name-says", "control/last", LAST)
def noise_under_a_name_of_torch(made: Written) -> None:
    (made / LAST).write_bytes(bytes(range(1, 256)) * 4)


@sound("content.not-what-its-name-says", "control/model")
def raw_numbers_and_a_picture(made: Written) -> None:
    folder(made)
    (made / FOLDER / "embedding.bin").write_bytes(b"\x89PN" + bytes(range(256)))
    (made / FOLDER / "loss.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(64))


def pickled(made: Written, value: object, kind: str = "other") -> None:
    (made / PICKLE).write_bytes(pickle.dumps(value))
    made.add("control/state", kind, PICKLE)


@faulty("content.runs-code", "control/state", PICKLE)
def a_pickle_that_runs_a_command(made: Written) -> None:
    pickled(made, functools.partial(subprocess.check_call, ["true"]))


@faulty("content.runs-code", "control/state", PICKLE)
def a_pickle_under_the_name_of_a_picture(made: Written) -> None:
    (made / PICKLE).write_bytes(b"\x80\x02cposix\nsystem\nX\x04\0\0\0true\x85R.")
    made.add("control/state", "analysis", PICKLE)


@faulty("content.runs-code", "control/model", f"{FOLDER}/means.npy")
def an_array_of_objects_beside_the_weights(made: Written) -> None:
    folder(made)
    numpy.save(made / f"{FOLDER}/means.npy", numpy.array([eval], dtype=object), allow_pickle=True)


@faulty("content.runs-code", "control/state", PICKLE, level=Level.WARNING, verdict=Verdict.ACCEPTED, campaign=Verdict.ACCEPTED)
def a_function_of_the_project_kept_with_its_code(made: Written) -> None:
    (made / PICKLE).write_bytes(b"\x80\x02ccloudpickle.cloudpickle\n_make_function\nctypes\nCodeType\n\x85R.")
    made.add("control/state", "other", PICKLE)


@faulty("content.runs-code", "control/state", PICKLE)
def a_pickle_that_breaks_off_behind_the_command(made: Written) -> None:
    (made / PICKLE).write_bytes(b"\x80\x02cposix\nsystem\nX\x04\0\0\0true\x85R\xff\xff")
    made.add("control/state", "other", PICKLE)


@faulty("content.runs-code", "control/state", PICKLE)
def a_function_made_of_code_without_a_library(made: Written) -> None:
    (made / PICKLE).write_bytes(b"\x80\x02ctypes\nFunctionType\nctypes\nCodeType\n\x85R.")
    made.add("control/state", "other", PICKLE)


@sound("content.runs-code", "control/state")
def a_pickle_of_data(made: Written) -> None:
    pickled(made, {"when": datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC), "path": pathlib.PurePosixPath("a"),
                   "values": numpy.arange(4.0), "random": numpy.random.default_rng(1), "picture": io.BytesIO(b"abc"),
                   "error": ValueError("no")})


class Fetched:
    """Pickled as what `getattr` fetches from a class, several times with the same function."""

    def __init__(self, *methods: str) -> None:
        self.methods = methods

    def __reduce__(self) -> Any:
        return tuple, (tuple(_Method(name) for name in self.methods),)


class _Method:
    def __init__(self, name: str) -> None:
        self.name = name

    def __reduce__(self) -> Any:
        return getattr, (zoneinfo.ZoneInfo, self.name)


@sound("content.runs-code", "control/state")
def a_time_zone(made: Written) -> None:
    pickled(made, Fetched("_unpickle", "_unpickle"))


@faulty("content.runs-code", "control/state", PICKLE)
def another_method_beside_that_of_a_time_zone(made: Written) -> None:
    pickled(made, Fetched("_unpickle", "clear_cache"))


def array(made: Written, cut: int = 0) -> None:
    numpy.save(made / ARRAY, numpy.arange(100.0))
    os.truncate(made / ARRAY, (made / ARRAY).stat().st_size - cut)
    made.add("control/means", "analysis", ARRAY)


@faulty("content.damaged", "control/means", ARRAY)
def an_array_that_was_cut(made: Written) -> None:
    array(made, cut=8)


@faulty("content.damaged", "control/state", "runs/control/state.pkl")
def a_pickle_that_was_cut(made: Written) -> None:
    (made / "runs/control/state.pkl").write_bytes(pickle.dumps(list(range(1000)))[:-9])
    made.add("control/state", "other", "runs/control/state.pkl")


@faulty("content.damaged", "control/code", "runs/control/code.zip")
def an_archive_that_leads_out(made: Written) -> None:
    with zipfile.ZipFile(made / "runs/control/code.zip", "w") as archive:
        archive.writestr("../../evil.py", "import os")
    made.add("control/code", "other", "runs/control/code.zip")


@faulty("content.runs-code", "control/code", "runs/control/code.zip")
def an_archive_with_a_pickle_that_runs_a_command(made: Written) -> None:
    with zipfile.ZipFile(made / "runs/control/code.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/model.bin", b"\x80\x02cposix\nsystem\nX\x04\0\0\0true\x85R.")
    made.add("control/code", "other", "runs/control/code.zip")


@sound("content.damaged", "control/code")
def an_archive_of_the_code(made: Written) -> None:
    with zipfile.ZipFile(made / "runs/control/code.zip", "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("src/..train.py", "import torch")
        archive.writestr("src/config.json", "{}")
    made.add("control/code", "other", "runs/control/code.zip")


@sound("content.damaged", "control/means")
def a_whole_array(made: Written) -> None:
    array(made)


@sound("content.damaged", "control/raw")
def raw_numbers_that_begin_as_a_pickle(made: Written) -> None:
    (made / "runs/control/raw.dat").write_bytes(b"\x80\x02}q\0" + bytes(100))
    made.add("control/raw", "other", "runs/control/raw.dat")


@sound("content.runs-code", "control/state")
def an_estimator(made: Written) -> None:
    joblib.dump(LogisticRegression().fit([[0.0], [1.0]], [0, 1]), made / PICKLE)
    made.add("control/state", "other", PICKLE)


@faulty("content.changed", "control/metrics", METRICS, meanwhile=lambda directory: (directory / METRICS).write_text("{}"))
def the_run_goes_on(made: Written) -> None:
    pass


@sound("content.changed", "control/metrics", meanwhile=lambda directory: (directory / "runs/control/metrics.csv").write_text("1"))
def something_else_is_written(made: Written) -> None:
    pass


@faulty("content.unreadable", "control/metrics", METRICS, world="unprivileged")
def no_permission(made: Written) -> None:
    (made / METRICS).chmod(0)


@faulty("content.unreadable", "control/last", LAST, world="unprivileged")
def no_permission_for_the_folder(made: Written) -> None:
    (made.directory / "runs/control").chmod(0)


@faulty("content.unreadable", "last", "last.pt", verdict=Verdict.UNVERIFIED, campaign=Verdict.UNVERIFIED)
def a_walk_that_did_not_come_there(made: Written) -> None:
    made.plan = None
    made.manifest["deliverables"] = [{"id": "last", "kind": "checkpoint", "path": "last.pt"}]
    (made / ("d/" * 401)).mkdir(parents=True)


@sound("content.unreadable", "control/metrics", world="unprivileged")
def read_only(made: Written) -> None:
    (made / METRICS).chmod(0o400)
    assert json.loads((made / METRICS).read_text())
