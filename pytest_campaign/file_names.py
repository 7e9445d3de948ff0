"""What the name of a file promises, whatever it holds."""

from __future__ import annotations

import re

_WEIGHTS = re.compile(
    r"\.(safetensors|pt|pth|pt2|bin|ckpt|gguf|onnx|npz|npy|h5|hdf5|keras|skops|msgpack|distcp|pkl|pickle|joblib|tar)$", re.I)
_WITHOUT_TENSORS = re.compile(r"(^|/)((lr_?)?scheduler|scaler|training_args)([_-][0-9]+)?\.(pt|pth|bin|pkl)$", re.I)
_RECORDS = re.compile(r"\.(json|jsonl|ndjson|csv|tsv|parquet|yaml|yml)$", re.I)
# Names that nobody gives to anything else; arrays, pickles and raw data share the other endings.
_CHECKPOINT = re.compile(
    r"\.(safetensors|pt|pth|ckpt|gguf|onnx|keras|skops)$|(^|/)(pytorch_model|adapter_model)[^/]*\.bin$", re.I)
_TOOL_FOLDERS = frozenset({".hydra", "wandb", "mlruns", "mlartifacts", "lightning_logs", ".git", ".cache", ".ipynb_checkpoints",
                           "__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache"})
_README_STEMS = frozenset({"readme", "license", "licence", "copying", "changelog", "citation", "notice", "authors"})


def may_be_weights(path: str) -> bool:
    """Whether weights are kept under such names, though not always."""
    return _WEIGHTS.search(path) is not None


def is_checkpoint(path: str) -> bool:
    """Whether the name promises weights and nothing else."""
    return _CHECKPOINT.search(path) is not None


def may_lack_tensors(path: str) -> bool:
    """Whether the name is that of a part of a training's state which holds no tensor, and is no checkpoint by itself."""
    return _WITHOUT_TENSORS.search(path) is not None


def is_records(path: str) -> bool:
    """Whether the name promises records: JSON, a table, YAML."""
    return _RECORDS.search(path) is not None


def in_tool_folder(path: str) -> bool:
    """Whether a file lies in the folder of a tool, which keeps what it likes there."""
    return not _TOOL_FOLDERS.isdisjoint(path.split("/")[:-1])


def is_aside(path: str) -> bool:
    """Whether a file needs no deliverable that claims it: in the folder of a tool, or a README and its like."""
    return in_tool_folder(path) or path.rpartition("/")[2].partition(".")[0].lower() in _README_STEMS
