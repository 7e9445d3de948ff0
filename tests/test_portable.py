"""The check ``portable`` on what the libraries really write, and on the kinds of fields one by one."""

from __future__ import annotations

import json
import os
import shutil
import warnings
from collections.abc import Mapping
from pathlib import Path

import pytest
import sessions
import torch
from safetensors.torch import save_file

from pytest_campaign import snapshot
from pytest_campaign.campaign import Asked
from pytest_campaign.checks.portable import CHECK
from pytest_campaign.checks.portable.files import kind_of, words
from pytest_campaign.evidence import Files
from pytest_campaign.findings import Finding, Level
from pytest_campaign.reload.protocol import Answer, Job

COMMIT = "3f1c9a7be02d4586b1e07c55d9aa41f26c8e7d30"
WEIGHTS = {"w": torch.ones(2, 2)}


def no_reload(job: Job, progress: object = None) -> Answer:
    raise AssertionError("this check reloads nothing")


def judged(directory: Path, id: str | None = None) -> list[Finding]:
    """What the check finds in one deliverable of a directory, or in all of them."""
    campaign = snapshot.campaign(snapshot.take(directory, None), Asked())
    evidence = Files(campaign.inventory, no_reload, digest=False)
    chosen = [campaign.by_id[id]] if id else campaign.deliverables
    return [finding for deliverable in chosen for finding in CHECK.run(campaign, deliverable, evidence)]


def one(folder: Path, files: Mapping[str, str | bytes], kind: str = "checkpoint", **more: object) -> list[Finding]:
    """What the check finds in a deliverable ``x``, a folder with weights and these files."""
    sessions.write(folder, {f"x/{path}": content for path, content in files.items()})
    if kind in ("checkpoint", "adapter"):
        save_file(WEIGHTS, folder / "x/model.safetensors")
    sessions.manifest(folder, sessions.entry("x", "x", kind, **more))
    return judged(folder, "x")


def said(found: list[Finding]) -> list[tuple[str, str]]:
    return [(finding.rule.partition(".")[2], finding.level.value) for finding in found]


# ---- fields of which files -----------------------------------------------------------------------------------

ERROR, WARNING, NOTE = "error", "warning", "note"


@pytest.mark.parametrize(("path", "kind", "content", "expected"), [
    # references
    ("adapter_config.json", "adapter", {"base_model_name_or_path": "/workspace/base"}, [("machine-path", ERROR)]),
    ("adapter_config.json", "adapter", {"base_model_name_or_path": "C:\\Users\\Ana\\base"}, [("machine-path", ERROR)]),
    ("adapter_config.json", "adapter", {"base_model_name_or_path": "~/base"}, [("machine-path", ERROR)]),
    ("adapter_config.json", "adapter", {"base_model_name_or_path": "../models/base"}, [("machine-path", WARNING)]),
    ("adapter_config.json", "adapter", {"base_model_name_or_path": "..\\base"}, [("machine-path", WARNING)]),
    ("adapter_config.json", "adapter", {"base_model_name_or_path": "$TMPDIR/base"}, [("temp-path", ERROR)]),
    ("de/adapter_config.json", "adapter", {"base_model_name_or_path": "/dev/shm/base"}, [("temp-path", ERROR)]),
    ("modules.json", "checkpoint", [{"path": "/home/ana/model/1_Pooling"}], [("machine-path", ERROR)]),
    ("config.json", "checkpoint", {"auto_map": {"AutoModel": "/tmp/code--modeling.Tiny"}}, [("temp-path", ERROR)]),
    ("state.json", "dataset", {"_data_files": [{"filename": "/raid/x.arrow"}]}, [("machine-path", ERROR)]),
    ("tb/projector_config.pbtxt", "log", 'embeddings {\n  metadata_path: "/workspace/m.tsv"\n}', [("machine-path", ERROR)]),
    (".dvc/config", "other", "[core]\n    remote = s\n['remote \"s\"']\n    url = /mnt/dvc\n", [("machine-path", ERROR)]),
    ("last_checkpoint", "checkpoint", "/workspace/out/epoch_9.pth", [("machine-path", ERROR)]),
    ("models/tiny/version-1/meta.yaml", "other", "source: file:///home/x/1\ncurrent_stage: None\n", [("machine-path", ERROR)]),
    # by name something is loaded
    ("config.json", "checkpoint", {"text_config": {"tokenizer_path": "/workspace/tok.model"}}, [("likely-path", WARNING)]),
    ("config.json", "checkpoint", {"pretrainedBackbone": "/tmp/b.pth"}, [("likely-path", WARNING)]),
    ("tokenizer_config.json", "checkpoint", {"vocab_file": "/root/vocab.txt"}, [("likely-path", WARNING)]),
    ("adapter_config.json", "adapter", {"base_model_name_or_path": "acme/tiny", "tokenizer_name_or_path": "/tmp/t"},
     [("likely-path", WARNING)]),
    ("reload.json", "instructions", {"weights": "/workspace/out"}, [("likely-path", WARNING)]),
    # where it ran
    ("config.json", "checkpoint", {"_name_or_path": "/tmp/base", "output_dir": "/workspace/out"}, [("provenance", NOTE)]),
    ("config.json", "checkpoint", {"text_config": {"_name_or_path": "/tmp/base"}}, [("provenance", NOTE)]),
    ("model_index.json", "checkpoint", {"_name_or_path": "/workspace/sd"}, [("provenance", NOTE)]),
    ("tokenizer_config.json", "checkpoint", {"special_tokens_map_file": "/root/.cache/x"}, [("provenance", NOTE)]),
    ("adapter_config.json", "adapter", {"base_model_name_or_path": "acme/tiny", "adapters": {"0": "/tmp/expert"}},
     [("provenance", NOTE)]),
    ("hparams.yaml", "checkpoint", "data_dir: /data/x\nlr: 0.1\n", [("provenance", NOTE)]),
    ("train_config.yaml", "checkpoint", "model_path: /workspace/base\n", [("provenance", NOTE)]),
    (".hydra/config.yaml", "log", "paths:\n  root: ${oc.env:HOME}/x\n", [("provenance", NOTE)]),
    ("wandb/run-1/files/wandb-metadata.json", "log", {"program": "/home/ana/train.py"}, [("provenance", NOTE)]),
    ("run.json", "parameters", {"data": "/workspace/d"}, [("provenance", NOTE)]),
    ("run.ini", "parameters", "[paths]\nout = /workspace/d\n", [("provenance", NOTE)]),
    ("MLmodel", "other", "artifact_path: file:///home/x/artifacts\n", [("provenance", NOTE)]),
    # nothing
    ("adapter_config.json", "adapter", {"base_model_name_or_path": "acme/tiny"}, []),
    ("adapter_config.json", "adapter", {"base_model_name_or_path": "s3://acme/models/tiny"}, []),
    ("adapter_config.json", "adapter", {"base_model_name_or_path": None}, []),
    ("config.json", "checkpoint", {"id2label": {"0": "/tmp"}, "chat_template": "/tmp", "route": "/api/v1"}, []),
    ("config.json", "checkpoint", {"checkpoint": "https://x.org/a", "model": "gs://acme/x"}, []),
    ("results.json", "metrics", {"model_path": "/workspace/x", "loss": 1}, []),
    ("tokenizer_config.json", "checkpoint", {"added_tokens_decoder": {"4": {"content": "/tmp"}}}, []),
    ("tokenizer_config.json", "checkpoint", {"bos_token": "/tmp"}, []),
    ("tokenizer.json", "checkpoint", {"model": {"vocab": {"/tmp": 0}}}, []),
    ("rows.json", "predictions", [{"prediction": "/tmp/x", "path": "/tmp/x"}], []),
    ("reload.json", "instructions", {"note": "/tmp is not needed", "model": "acme/tiny", "steps": "see /tmp"}, []),
    ("train.py", "other", 'OUT = "/tmp/x"\n', []),
    ("README.md", "checkpoint", "base_model: /tmp/x\n", []),
    ("meta.yaml", "other", "artifact_uri: mlflow-artifacts:/0/8f3a/artifacts\n", []),
    ("meta.yaml", "other", "artifact_uri: file:./mlruns/0/8f3a/artifacts\n", []),
    ("dvc.lock", "other", "stages:\n  train:\n    deps:\n    - path: data/x\n    - path: s3://acme/x\n", []),
    (".dvc/config", "other", "['remote \"s\"']\n    url = s3://acme/x\n", []),
    ("last_checkpoint", "checkpoint", "epoch_9.pth", []),
    ("latest", "checkpoint", "global_step4", []),
])
def test_field(tmp_path: Path, path: str, kind: str, content: object, expected: list[tuple[str, str]]) -> None:
    text = content if isinstance(content, str) else json.dumps(content)
    assert said(one(tmp_path, {path: text}, kind)) == expected


def test_the_words_of_a_name() -> None:
    assert words("bestModel_path") == {"best", "model", "path"}
    assert words("HFCacheDir") == {"hf", "cache", "dir"}


def test_only_what_is_listed_is_read() -> None:
    for path in ("rows.jsonl", "runs/x/train.log", "tokenizer.json", "vocab.json", "special_tokens_map.json",
                 "model.safetensors.index.json", "src/settings.py", "README.md", "wandb-summary.json",
                 "all_results.json", "generation/merges.txt"):
        assert kind_of(path, "other", beside_weights=True) is None, path


# ---- what is said --------------------------------------------------------------------------------------------


def adapter(folder: Path, model: str, **more: object) -> Finding:
    config = {"peft_type": "LORA", "base_model_name_or_path": model, "revision": None}
    found, = one(folder, {"adapter_config.json": json.dumps(config, indent=2)}, "adapter", **more)
    assert (found.path, found.line, found.pointer) == ("x/adapter_config.json", 3, "/base_model_name_or_path")
    assert found.observed == model
    return found


def test_the_remedy_names_the_commit_of_the_snapshot(tmp_path: Path) -> None:
    found = adapter(tmp_path, f"/root/.cache/huggingface/hub/models--acme--tiny/snapshots/{COMMIT}")
    assert f'"base_model_name_or_path": "acme/tiny", "revision": "{COMMIT}"' in found.remedy
    assert found.rule == "portable.temp-path"


def test_the_remedy_names_the_base_of_the_manifest(tmp_path: Path) -> None:
    found = adapter(tmp_path, "/workspace/base", base={"model": "acme/tiny", "revision": COMMIT})
    assert f'"base_model_name_or_path": "acme/tiny", "revision": "{COMMIT}"' in found.remedy


def test_a_base_in_the_campaign_is_gone_after_a_move(tmp_path: Path) -> None:
    sessions.write(tmp_path, {"base/config.json": "{}"})
    found = adapter(tmp_path, f"{tmp_path}/base")
    assert found.level is Level.ERROR
    assert "after a move" in found.message
    assert '"base_model_name_or_path": "base"' in found.remedy


def test_a_base_that_is_named_by_a_relative_path(tmp_path: Path) -> None:
    found = adapter(tmp_path, "../models/tiny", base={"model": "acme/tiny", "revision": COMMIT})
    assert (found.rule, found.level) == ("portable.machine-path", Level.WARNING)
    assert f'"base_model_name_or_path": "acme/tiny", "revision": "{COMMIT}"' in found.remedy
    sessions.write(tmp_path / "here", {"models/tiny/config.json": "{}"})
    for path in ("../models/tiny", "./models/tiny"):
        config = {"adapter_config.json": json.dumps({"peft_type": "LORA", "base_model_name_or_path": path})}
        assert one(tmp_path / "here", config, "adapter") == []


def test_a_base_that_nobody_knows(tmp_path: Path) -> None:
    assert '"<owner>/<name>"' in adapter(tmp_path, "/workspace/base").remedy


@pytest.mark.parametrize("prefix", ["/scratch/u1/job77", "C:\\Users\\Ana\\out", "/tmp/tmp9zj93qpn/x"])
def test_the_best_checkpoint_by_its_name(tmp_path: Path, prefix: str) -> None:
    separator = "\\" if "\\" in prefix else "/"
    sessions.write(tmp_path, {"x/checkpoint-2/config.json": "{}", "x/checkpoint-4/trainer_state.json": json.dumps(
        {"best_model_checkpoint": f"{prefix}{separator}checkpoint-2"})})
    found, = one(tmp_path, {"notes.txt": "4"})
    assert said([found]) == [("found-by-name", WARNING)]
    assert '"best_model_checkpoint": "x/checkpoint-2"' in found.remedy


def test_an_empty_folder_of_that_name_is_no_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "x/checkpoint-2").mkdir(parents=True)
    state = json.dumps({"best_model_checkpoint": "/scratch/out/checkpoint-2"})
    assert said(one(tmp_path, {"checkpoint-4/trainer_state.json": state})) == [("best-checkpoint", ERROR)]


def test_a_checkpoint_of_another_run_is_not_meant(tmp_path: Path) -> None:
    sessions.write(tmp_path, {"checkpoint-2/config.json": "{}", "y/checkpoint-2/config.json": "{}"})
    state = json.dumps({"best_model_checkpoint": "/scratch/out/checkpoint-2"})
    assert said(one(tmp_path, {"checkpoint-4/trainer_state.json": state})) == [("best-checkpoint", ERROR)]


@pytest.mark.parametrize(("parts", "expected"), [((0, 1), "found-by-name"), ((0,), "machine-path"), ((), "machine-path")])
def test_a_checkpoint_of_tensorflow_is_there_with_all_its_parts(tmp_path: Path, parts: tuple[int, ...], expected: str) -> None:
    files = {f"model.ckpt-5.data-0000{part}-of-00002": "x" for part in parts} | {"model.ckpt-5.index": "x"}
    found, = one(tmp_path, files | {"checkpoint": 'model_checkpoint_path: "/location1/model.ckpt-5"\n'}, "other")
    assert found.rule == f"portable.{expected}"
    assert (found.path, found.line) == ("x/checkpoint", 1)


def test_an_experiment_of_mlflow_that_was_moved(tmp_path: Path) -> None:
    found, = one(tmp_path, {"mlruns/0/meta.yaml": "artifact_location: file:///home/x/mlruns/0\nexperiment_id: '0'\n"}, "other")
    assert said([found]) == [("found-by-name", WARNING)]
    assert "artifact_location: ./x/mlruns/0" in found.remedy


def test_columns_are_counted(tmp_path: Path) -> None:
    sessions.write(tmp_path, {"rows.jsonl": "".join(json.dumps({"id": n, "image": f"/data/{n}.png"}) + "\n" for n in range(30))})
    sessions.manifest(tmp_path, sessions.entry("x", "rows.jsonl", "predictions", file_columns=["image"]))
    found, = judged(tmp_path)
    assert (found.rule, found.line) == ("portable.machine-path", 1)
    assert "30 values" in found.message


def test_a_large_state_is_not_read(tmp_path: Path) -> None:
    sessions.write(tmp_path, {"x/trainer_state.json": ""})
    os.truncate(tmp_path / "x/trainer_state.json", 20 << 20)
    assert said(one(tmp_path, {})) == [("not-understood", WARNING)]


def test_many_references_in_one_file(tmp_path: Path) -> None:
    content = json.dumps([{"path": f"/tmp/{number}"} for number in range(20_000)])
    found = one(tmp_path, {"modules.json": content})
    assert len(found) == 20
    assert found[-1].message.endswith("19,980 more fields of the file may be like it")
    assert found[-1].line == 1


def test_links_in_folders_that_are_links(tmp_path: Path) -> None:
    sessions.write(tmp_path, {"store/blob": "x", "x/a.txt": "x"})
    (tmp_path / "store/again").symlink_to(tmp_path / "store/blob")
    (tmp_path / "x/sub").symlink_to("../store")
    (tmp_path / "x/circle").symlink_to(tmp_path / "x")
    found = one(tmp_path, {})
    assert [(f.rule, f.path, f.expected) for f in found] == [("portable.absolute-link", "x/circle", ".")]


# ---- what the libraries write --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Trainer's output with an adapter, moved away from where it was made."""
    transformers = pytest.importorskip("transformers")
    peft = pytest.importorskip("peft")
    made = tmp_path_factory.mktemp("rental")
    config = transformers.LlamaConfig(vocab_size=32, hidden_size=8, intermediate_size=8, num_hidden_layers=1,
                                      num_attention_heads=2, num_key_value_heads=2)
    transformers.LlamaForCausalLM(config).save_pretrained(made / "base")
    base = transformers.AutoModelForCausalLM.from_pretrained(made / "base")
    rows = [{"input_ids": [1, 2, 3], "labels": [1, 2, 3]}] * 4
    arguments = transformers.TrainingArguments(
        output_dir=str(made / "out"), max_steps=2, per_device_train_batch_size=2, save_steps=1, eval_strategy="steps",
        eval_steps=1, load_best_model_at_end=True, report_to=[], use_cpu=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the libraries about each other
        model = peft.get_peft_model(base, peft.LoraConfig(task_type="CAUSAL_LM", target_modules=["q_proj"], r=2))
        trainer = transformers.Trainer(model, arguments, train_dataset=rows, eval_dataset=rows)
        trainer.train()
        trainer.save_model()
        trainer.save_state()
    shutil.move(made / "out", made / "campaign")
    return made / "campaign"


def test_what_the_trainer_and_peft_write(trained: Path) -> None:
    found = judged(trained)
    base = {(f.path or "").rpartition("/")[2] for f in found if f.level is Level.ERROR}
    assert base == {"adapter_config.json"}
    best = [f for f in found if f.level is Level.WARNING]
    assert {f.rule for f in best} == {"portable.found-by-name"}
    assert {(f.path or "").rpartition("/")[2] for f in best} == {"trainer_state.json"}
    notes = [f for f in found if f.level is Level.NOTE]
    assert {(f.path or "").rpartition("/")[2] for f in notes} == {"training_args.bin"}
    assert all("output_dir" in (f.observed or "") for f in notes)


def test_what_the_remedies_make_of_it(trained: Path, tmp_path: Path) -> None:
    shutil.copytree(trained, tmp_path / "campaign")
    for file in (tmp_path / "campaign").rglob("adapter_config.json"):
        file.write_text(json.dumps(json.loads(file.read_text()) | {"base_model_name_or_path": "acme/tiny", "revision": COMMIT}))
    for file in (tmp_path / "campaign").rglob("trainer_state.json"):
        state = json.loads(file.read_text())
        file.write_text(json.dumps(state | {"best_model_checkpoint": Path(state["best_model_checkpoint"]).name}))
    assert {f.level for f in judged(tmp_path / "campaign")} == {Level.NOTE}


@pytest.mark.filterwarnings("ignore")  # of the libraries about each other
def test_what_lightning_writes(tmp_path: Path) -> None:
    lightning = pytest.importorskip("lightning.pytorch")

    class Module(lightning.LightningModule):
        def __init__(self, data_dir: str = "/data/rows") -> None:
            super().__init__()
            self.save_hyperparameters()
            self.layer = torch.nn.Linear(2, 1)

        def training_step(self, batch: list[torch.Tensor], index: int) -> torch.Tensor:
            return self.layer(batch[0]).sum()

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(4, 2)))
    trainer = lightning.Trainer(max_steps=2, default_root_dir=tmp_path / "out", accelerator="cpu", enable_progress_bar=False,
                                logger=lightning.loggers.CSVLogger(tmp_path / "out"), enable_model_summary=False)
    trainer.fit(Module(), loader)
    shutil.move(tmp_path / "out", tmp_path / "campaign")
    sessions.manifest(tmp_path / "campaign", sessions.entry("logs", "lightning_logs", "checkpoint"))
    found = judged(tmp_path / "campaign")
    assert {f.level for f in found} == {Level.NOTE}
    assert {Path(f.path or "").name.rpartition(".")[2] for f in found} == {"ckpt", "yaml"}


def test_metadata_of_safetensors_and_gguf(tmp_path: Path) -> None:
    gguf = pytest.importorskip("gguf")
    (tmp_path / "x").mkdir()
    save_file(WEIGHTS, tmp_path / "x/lora.safetensors", metadata={"ss_output_name": "tiny", "ss_sd_model_name": "/mnt/sd.ckpt"})
    save_file(WEIGHTS, tmp_path / "x/sound.safetensors", metadata={"format": "pt", "note": "see /tmp"})
    for name, dataset in (("bad", "/training_dir/calibration.txt"), ("sound", "calibration.txt")):
        writer = gguf.GGUFWriter(tmp_path / f"x/{name}.gguf", "llama")
        writer.add_array("tokenizer.ggml.tokens", ["/tmp", "/tmp/x"])
        writer.add_string("quantize.imatrix.dataset", dataset)
        writer.add_string("quantize.imatrix.file", "/models_out/tiny.imatrix" if name == "bad" else "tiny.imatrix")
        writer.add_tensor("w", WEIGHTS["w"].numpy())
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
    found = one(tmp_path, {})
    assert [(f.path, f.rule) for f in found] == [
        ("x/bad.gguf", "portable.provenance"), ("x/lora.safetensors", "portable.provenance")]
    assert found[0].observed == "quantize.imatrix.file: /models_out/tiny.imatrix"


def test_a_tracking_folder_with_many_files(tmp_path: Path) -> None:
    for number in range(500):
        sessions.write(tmp_path, {f"x/mlruns/0/{number:04}/metrics/loss": "1762160400000 3.8 4\n"})
    assert one(tmp_path, {}, "other") == []
