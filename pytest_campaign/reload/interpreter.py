"""How a fresh interpreter is started: its command, its environment and where it finds modules."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

_BOOTSTRAP = """\
import importlib, json, sys
start = json.loads(sys.argv[1])
sys.path[:] = start["path"]
importlib.import_module(start["module"]).main(*start["arguments"])
"""

_KEPT = ("LANG", "LC_ALL", "LC_CTYPE", "TZ")
_LIBRARIES = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")  # where CUDA and conda builds of torch find their libraries
_FIXED = {
    "CUDA_VISIBLE_DEVICES": "",  # CUDA does not survive a fork and needs no limit of address space
    "HF_DATASETS_OFFLINE": "1",
    "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_OFFLINE": "1",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",  # pyarrow: a process with a second thread is not forked
    "MALLOC_ARENA_MAX": "2",  # an arena per thread would count 64 MiB of address space each
    "MKL_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "PYTHONNOUSERSITE": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "TORCH_FORCE_WEIGHTS_ONLY_LOAD": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "TRANSFORMERS_VERBOSITY": "error",
    "USE_HUB_KERNELS": "NO",  # layers of transformers compute as they are written, not by code from a hub
}


def command(search_path: Sequence[str], module: str, *arguments: int | str) -> list[str]:
    """The command that calls ``main(*arguments)`` of a module of ours in an isolated interpreter.

    It ignores PYTHON* variables and the user's site folder, writes no bytecode, buffers no output and prints
    where it was when it crashes.
    """
    start = json.dumps({"path": list(search_path), "module": module, "arguments": arguments})
    return [sys.executable, "-I", "-B", "-u", "-X", "faulthandler", "-c", _BOOTSTRAP, start]


def search_path(exclude: Iterable[str]) -> list[str]:
    """This process's module search path without relative entries and entries inside the excluded directories.

    The folder of this package is added at the end where it is missing (and not excluded).
    """
    own = str(Path(__file__).resolve().parents[2])
    kept = _outside(sys.path, exclude)
    return kept if own in kept else kept + _outside([own], exclude)


def environment(folder: str, exclude: Iterable[str]) -> dict[str, str]:
    """The environment of the server, built from scratch; ``folder`` is its own: HOME, caches and TMPDIR lie in it."""
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    for name in _LIBRARIES:
        if entries := _outside(os.environ.get(name, "").split(os.pathsep), exclude):
            kept[name] = os.pathsep.join(entries)
    return {**kept, **_FIXED, "HOME": folder, "HF_HOME": os.path.join(folder, "huggingface"), "TMPDIR": folder}


def _outside(entries: Iterable[str], exclude: Iterable[str]) -> list[str]:
    barred = [os.path.realpath(directory) for directory in exclude]
    return [entry for entry in entries if os.path.isabs(entry) and not _within(os.path.realpath(entry), barred)]


def _within(path: str, directories: Iterable[str]) -> bool:
    return any(os.path.commonpath([path, directory]) == directory for directory in directories)
