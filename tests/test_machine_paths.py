"""Which texts are paths of one machine. The examples are of the kinds that occur in published outputs."""

from __future__ import annotations

import pytest

from pytest_campaign.machine_paths import LONGEST, Lifetime, parse

JOB = [
    "/tmp/torchtune/out", "/var/tmp/x", "/tmp/tmp9zj93qpn/base", "/tmp/pytest-of-ana/pytest-0/run", "/tmp", "/private/tmp/x",
    "/private/var/folders/ab/c1/T/tmpx", "/var/folders/ab/c1/T/x", "/run/user/1000/x", "/home/ana/tmpab12cd_3/model",
    "/dev/shm/checkpoint/checkpoint-400", "/root/.cache/huggingface/hub/models--acme--tiny/snapshots/0123", "~/.cache/ray",
    "/runpod-volume/huggingface-cache/x", "/data/hf_cache_2/x", "/mnt/disk/models--acme--tiny",
    "/scratch/u1/job77/checkpoint-99", "/localscratch/ana.123.0/x", "/lscratch/88/x", "~/scratch/x", "/gpfs/scratch/p/x",
    "/local_disk0/hf", "/mnt/local/x",
    "$TMPDIR/x", "${SLURM_TMPDIR}/x", "$SCRATCH/x", "%TEMP%\\x", "${oc.env:TMPDIR}/x", "${env:HF_HOME}/hub",
    "C:\\Users\\Ana\\AppData\\Local\\Temp\\x", "C:/Users/ADMINI~1/AppData/Local/Temp/x", "C:\\Windows\\Temp\\x", "D:/temp/x",
    "/mnt/c/Users/Ana/AppData/Local/Temp/x", "file:///tmp/mlruns/0",
    "file:/tmp/x", "file://localhost/tmp/x", "sqlite:////tmp/mlflow.db",
]
MACHINE = [
    "/workspace/runs", "/content/drive/MyDrive/x", "/content/gdrive/My Drive/x", "/opt/ml/model", "/kaggle/input/x",
    "/home/ubuntu/x",
    "/root/autodl-tmp/x", "/Users/ana/x", "/mnt/d/x", "/mnt/c/Users/Ana Example/x", "/Volumes/main/x", "/e/project1/x",
    "/location1/model",
    "~", "~/models/base", "~ana/base", "$HOME/base", "${DATA_ROOT}", "%USERPROFILE%\\x",
    "C:\\Users\\Ana\\base", "d:/models/Größe", "\\\\server\\share\\x", "//server/share/x", "/home/x/../y",
    "file:///mnt/c/Users/Ana%20Example/mlruns", "file:///C:/Users/x", "file://server/share/x",
    "FILE:///workspace/x", "file:///home/x",
    "sqlite:////home/x/mlflow.db", "/templates/x", "/home/ana/tmp_results/x",
]
NONE = [
    "", "acme/tiny", "gpt2", "base", "./base", "../base", "runs/control/checkpoint-2", "C:", "c:relative", "a:b",
    "s3://acme/x", "gs://acme/x", "hf://datasets/acme/x", "https://example.org/a/b", "mlflow-artifacts:/0/8f3a",
    "dbfs:/x", "runs:/1/model", "models:/tiny/1", "abfss://x@y/z", "sqlite:///mlflow.db",
    "sqlite://", "file:./mlruns", "file:mlruns", "file://./mlruns",
    "train/loss", "${hydra:runtime.cwd}/x", "${data.dir}/x", "$x/y", "100%", "~5", "/", "//", "node1:/data/x",
    "rm -rf /tmp/cache", "see /tmp", "/tmp/a\nb", "/tmp/" + "x" * LONGEST,
]


@pytest.mark.parametrize("text", JOB)
def test_does_not_outlive_the_job(text: str) -> None:
    found = parse(text)
    assert found is not None
    assert found.lifetime is Lifetime.JOB
    assert found.rooted


@pytest.mark.parametrize("text", MACHINE)
def test_stays_on_the_machine(text: str) -> None:
    found = parse(text)
    assert found is not None
    assert found.lifetime is Lifetime.MACHINE


@pytest.mark.parametrize("text", NONE)
def test_is_no_path_of_a_machine(text: str) -> None:
    assert parse(text) is None


@pytest.mark.parametrize(("text", "path"), [
    ("file:///mnt/c/Users/Ana%20Example/x", "/mnt/c/Users/Ana Example/x"),
    ("C:\\Users\\Ana\\x\\", "C:/Users/Ana/x"),
    ("/home//ana/./x/../y/", "/home/ana/y"),
    ("\\\\server\\share\\x", "//server/share/x"),
    ("//home/ana", "/home/ana"),
])
def test_is_read_as_the_machine_reads_it(text: str, path: str) -> None:
    found = parse(text)
    assert found is not None
    assert found.path == path


@pytest.mark.parametrize(("text", "rooted"), [
    ("/home/x", True), ("/api/v1/rows", False), ("/eval/f1", False), ("/m/0abc", False)])
def test_routes_and_metrics_look_like_paths_only_in_a_field_for_paths(text: str, rooted: bool) -> None:
    found = parse(text)
    assert found is not None
    assert found.rooted is rooted
