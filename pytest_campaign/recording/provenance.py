"""What is executed, with what, by which process of how many, and when."""

from __future__ import annotations

import os
import platform
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

# Libraries whose version can decide whether an output loads again.
_LIBRARIES = (
    "accelerate", "bitsandbytes", "datasets", "deepspeed", "diffusers", "flax", "huggingface-hub", "jax", "keras", "lightning",
    "numpy", "optimum", "orbax-checkpoint", "peft", "pytest-campaign", "pytorch-lightning", "safetensors", "scikit-learn",
    "sentence-transformers", "tensorflow", "timm", "tokenizers", "torch", "torchvision", "transformers", "trl", "unsloth")
_SECRET = re.compile(r"token|secret|passw|credential|(api|access)[_-]?key", re.I)
_GIT_SECONDS = 10


def now(at: datetime | None = None) -> str:
    """A moment as the documents write it; the present one by default. A time without a zone is taken for local time."""
    return (at or datetime.now(UTC)).astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def rank() -> int:
    """The number of this process among those that train together, 0 for the one that records.

    Launchers set ``RANK``; where only ``LOCAL_RANK`` and ``NODE_RANK`` are set, any process but the first of the first node
    counts as another one.
    """
    whole = _number("RANK")
    return whole if whole is not None else (_number("LOCAL_RANK") or 0) + (_number("NODE_RANK") or 0)


def world_size() -> int | None:
    """How many processes train together, None where the launcher does not say so."""
    count = _number("WORLD_SIZE")
    return count if count is not None and count >= 1 else None


def _number(variable: str) -> int | None:
    try:
        return int(os.environ.get(variable, ""))
    except ValueError:
        return None


def gathered(command: str | None, environment: Mapping[str, str]) -> dict[str, Any]:
    """The provenance of a campaign that starts now. ``environment`` adds versions that are not found here."""
    place = Path(sys.argv[0] or ".").resolve()
    folder = place.parent if place.is_file() else Path.cwd()
    commit = _git(folder, "rev-parse", "HEAD")
    found: dict[str, Any] = {}
    if commit is not None and re.fullmatch("[0-9a-f]{40,64}", commit):
        found["git_commit"] = commit
        changed = _git(folder, "status", "--porcelain", "--untracked-files=no")
        if changed:
            found["extra"] = {"uncommitted_changes": len(changed.splitlines())}
    found["command"] = command or spelled(sys.argv)
    found["environment"] = {"python": platform.python_version(), **_versions(), **environment}
    return found | {"started": now()}


def spelled(words: Sequence[str]) -> str:
    """A command line without where the machine keeps its files, and without secrets: ``python train.py --hub_token=***``."""
    shown: list[str] = []
    for number, word in enumerate(words):
        option, separator, _ = word.partition("=")
        after = words[number - 1] if number else ""
        if _SECRET.search(option) and separator:
            word = f"{option}=***"
        elif after.startswith("-") and "=" not in after and _SECRET.search(after) and not word.startswith("-"):
            word = "***"
        elif os.path.isabs(word):
            word = os.path.basename(word.rstrip("/")) or word
        shown.append(word)
    if shown and shown[0] == "-c":
        shown = ["-c", "..."]
    return shlex.join(["python", *filter(None, shown)])[:20000]


def _versions() -> dict[str, str]:
    """The versions of the libraries that are installed; none of them is imported for that."""
    found = {}
    for name in _LIBRARIES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    cuda = getattr(getattr(sys.modules.get("torch"), "version", None), "cuda", None)
    return found | ({"cuda": cuda} if isinstance(cuda, str) else {})


def _git(folder: Path, *words: str) -> str | None:
    """What git says about a folder; None without git, outside a repository, or when it takes too long."""
    try:
        done = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True, timeout=_GIT_SECONDS,
                              stdin=subprocess.DEVNULL, env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"})
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def error_text(error: BaseException) -> str:
    """An exception in one line: ``OutOfMemoryError: tried to allocate 2 GiB``."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"[:2000] if text else type(error).__name__
