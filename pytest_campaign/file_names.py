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
# A place in a training: checkpoint-500, epoch=1-step=100, global_step100; and the score that some put into the name.
_PLACE = re.compile(
    r"(?<![A-Za-z])((?:checkpoint|ckpt|epoch|(?:global_?)?step|iter(?:ation)?)[-_=]?)([0-9]{1,18})(?![0-9])", re.I)
_SCORE = re.compile(r"=-?[0-9]+\.[0-9]+")
_TOOL_FOLDERS = frozenset({".hydra", "wandb", "mlruns", "mlartifacts", "lightning_logs", ".git", ".cache", ".ipynb_checkpoints",
                           "__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache"})
_ALGORITHM = r"(md5|sha-?(?:1|224|256|384|512)|b2(?=[-_.]?(?:check)?sum)|blake2b?)"
# SHA256SUMS, sha256sum.txt, checksums-sha512.txt, last.pt.sha256 …
_DIGESTS = re.compile(rf"(?:(?:^|/)(?:checksums?[-_.])?|\.){_ALGORITHM}(?:[-_.]?(?:check)?sums?)?(?:\.txt)?$", re.I)
_SUMS = re.compile(r"(?:^|[/._-])checksums?(?:\.(?:txt|lst|list|sums?|chk))?$", re.I)  # CHECKSUM, checksums.txt …
_SIGNATURE = re.compile(r"\.(asc|sig|gpg|sign|minisig)$", re.I)
_BAG_MANIFEST = re.compile(r"(?:^|/)(tag)?manifest-([A-Za-z0-9-]+)\.txt$")
_OF_BAGS = frozenset({"bagit.txt", "bag-info.txt", "package-info.txt"})
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


def series(path: str) -> tuple[str, int] | None:
    """What the files of all steps of one training have in common in their paths, and the step; None when no step is named.

    The step stands in the name of the file (``epoch_3.pt``) or else in that of its folder (``checkpoint-500/model.safetensors``).
    """
    above, _, rest = path.rpartition("/")
    if _PLACE.search(rest) is None:
        above, _, folder = above.rpartition("/")
        if _PLACE.search(folder) is None:
            return None
        rest = f"{folder}/{rest}"
    step = [int(found[2]) for found in _PLACE.finditer(rest.partition("/")[0])][-1]
    return above + "/" + _SCORE.sub("=#", _PLACE.sub(r"\1#", rest)), step


def is_records(path: str) -> bool:
    """Whether the name promises records: JSON, a table, YAML."""
    return _RECORDS.search(path) is not None


def in_tool_folder(path: str) -> bool:
    """Whether a file lies in the folder of a tool, which keeps what it likes there."""
    return not _TOOL_FOLDERS.isdisjoint(path.split("/")[:-1])


def digest_algorithm(path: str) -> str | None:
    """The algorithm of a list of digests (``SHA256SUMS``, ``last.pt.sha256``: "sha256"); None when the name says none."""
    found = _DIGESTS.search(path)
    if found is None:
        return None
    name = found[1].lower().replace("-", "")
    return "blake2b" if name.startswith("b") else name


def may_list_digests(path: str) -> bool:
    """Whether the name is that of a list of digests; where it says no algorithm (``checksums.txt``) the content must show it."""
    return digest_algorithm(path) is not None or _SUMS.search(path) is not None


def signed(path: str) -> str:
    """The path of what a detached signature signs (``SHA256SUMS.asc``), the path itself when it is no signature."""
    return _SIGNATURE.sub("", path)


def bag_manifest(path: str) -> tuple[str, bool] | None:
    """(algorithm, whether it lists tag files) of a manifest of a BagIt bag (RFC 8493, 2.1.3 and 2.2.1), by its name."""
    found = _BAG_MANIFEST.search(path)
    return (found[2].lower().replace("-", ""), found[1] is not None) if found else None


def is_of_fixity(path: str) -> bool:
    """Whether a file only says what others hold: a list of digests, its signature, a tag file of a bag."""
    return (may_list_digests(signed(path)) or path.rpartition("/")[2] in _OF_BAGS
            or ((manifest := bag_manifest(path)) is not None and digest_algorithm(f".{manifest[0]}") is not None))


def is_aside(path: str) -> bool:
    """Whether a file needs no deliverable that claims it: in the folder of a tool, a README and its like, a list of digests."""
    return in_tool_folder(path) or is_of_fixity(path) or path.rpartition("/")[2].partition(".")[0].lower() in _README_STEMS
