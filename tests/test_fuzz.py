"""Random damage to files of every format: a parser of ours either reads it or says why not, in bounded time and memory.

So many damaged files for each parser as the environment variable ``CAMPAIGN_FUZZ_SEEDS`` says, a few by default.
"""

from __future__ import annotations

import collections
import functools
import io
import json
import os
import pickle
import random
import resource
import signal
import struct
import warnings
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from types import FrameType
from typing import Any

import joblib
import numpy
import onnx
import other_frameworks
import pytest
import torch
import torch.distributed.checkpoint
import yaml
from disk_source import DiskSource
from event_files import events
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save as safetensors

from pytest_campaign import documents, parameters, paths
from pytest_campaign.discovery import recognise
from pytest_campaign.formats import formats
from pytest_campaign.formats.base import Depth, Unit, from_json, to_json
from pytest_campaign.inventory import Changed, take
from pytest_campaign.readers import (
    columns,
    digest_lines,
    event_files,
    ini_text,
    json_lines,
    lenient_json,
    pickle_strings,
    strict_json,
    tables,
    whole_json,
    yaml_text,
)
from pytest_campaign.readers.fields import Unreadable
from pytest_campaign.text import shown

SEEDS = int(os.environ.get("CAMPAIGN_FUZZ_SEEDS", "10"))
SECONDS = 2.0  # for one file
MEMORY = 256 << 20  # for one file


class TooSlow(Exception):
    """One file took longer than it may."""


def _too_slow(number: int, frame: FrameType | None) -> None:
    raise TooSlow


@pytest.fixture(autouse=True)
def bounds() -> Iterator[None]:
    """No more memory than one file may take, on top of what the process has."""
    torch.zeros(1)
    with open("/proc/self/statm") as file:
        now = int(file.read().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (now + 2 * MEMORY, hard))
    before = signal.signal(signal.SIGALRM, _too_slow)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


NUMBERS = [bytes([byte]) * count for byte in (0, 0xFF, 0x7F, 0x80) for count in (1, 2, 4, 8)]
NUMBERS += [struct.pack(layout, number) for layout in ("<I", "<Q", ">I", ">Q") for number in (1, 1 << 20, 1 << 31, 1 << 30)]
WORDS = [
    b"9" * 400,
    b"-1",
    b"1e999",
    b"NaN",
    b"null",
    b"[" * 200,
    b"{" * 200,
    b'"',
    b"\\u0000",
    b"\\ud800",
    b"../",
    b"/",
    b"\0",
    b"\n",
    b"\x1b",
]


def damaged(data: bytes, chance: random.Random) -> bytes:
    """Data cut, flipped, shuffled, grown, or with numbers and words put into it, in one or several places."""
    made = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        size = len(made)
        at = chance.randrange(size + 1)
        other = chance.randrange(size + 1)
        length = chance.choice((1, 2, 4, 8, 16, 100))
        match chance.randrange(8):
            case 0:
                del made[at:]
            case 1:
                for place in chance.choices(range(size), k=chance.randrange(1, 9)) if size else ():
                    made[place] ^= 1 << chance.randrange(8)
            case 2:
                made[at : at + length] = chance.randbytes(length)
            case 3:
                made[at : at + length], made[other : other + length] = made[other : other + length], made[at : at + length]
            case 4:
                made[at:at] = made[other : other + length] * chance.choice((1, 2, 50))
            case 5:
                number = chance.choice(NUMBERS)
                made[at : at + len(number)] = number
            case 6:
                made[at : at + chance.choice((0, 1, 4))] = chance.choice(WORDS)
            case 7:
                del made[at : at + length]
    return bytes(made)


def each(name: str, sound: bytes, parse: Callable[[bytes], object]) -> None:
    """Parse damaged data, a seed at a time; what is not allowed comes out with the seed."""
    for seed in range(SEEDS):
        data = damaged(sound, random.Random(f"{name} {seed}"))
        signal.setitimer(signal.ITIMER_REAL, SECONDS)
        try:
            parse(data)
        except BaseException as error:
            raise AssertionError(f"seed {seed} of {name}: {data[:2000]!r}") from error
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)


# ---- readers of pytest's own process -------------------------------------------------------------------------


def unless(parse: Callable[[bytes], Any], *allowed: type[Exception]) -> Callable[[bytes], object]:
    """A parser that may raise some exceptions; what it yields is taken."""

    def run(data: bytes) -> object:
        try:
            found = parse(data)
            return collections.deque(found, maxlen=0) if isinstance(found, Iterator) else found
        except allowed:
            return None

    return run


MANIFEST = {
    "manifest_version": 1,
    "campaign": "c",
    "provenance": {"git_commit": "a" * 40, "started": "2026-01-01T00:00:00Z", "environment": {"torch": "2"}},
    "datasets": {"test": {"path": "data/test.csv", "key": ["id"], "rows": 3, "sha256": "0" * 64}},
    "bases": {"b": {"model": "org/name", "revision": "f" * 40}},
    "runs": [
        {
            "id": "a",
            "status": "aborted",
            "abort": {"reason": "no", "step": 3},
            "seed": 1,
            "steps": 10,
            "deliverables": [
                {
                    "id": "w",
                    "kind": "adapter",
                    "path": "runs/a/w",
                    "base": "b",
                    "files": [{"path": "runs/a/w/x", "bytes": 3, "sha256": "0" * 64}],
                    "reload": {"depth": "tensors"},
                },
                {
                    "id": "p",
                    "kind": "predictions",
                    "path": "runs/a/p.jsonl",
                    "dataset": "test",
                    "key": ["id"],
                    "value": "y",
                    "nullable": ["y"],
                },
            ],
        }
    ],
    "decision": {"outcome": "positive", "summary": "yes", "based_on": ["a"]},
    "actuals": {
        "steps": [{"id": "s", "started": "2026-01-01T00:00:00Z", "finished": "2026-01-01T01:00:00Z"}],
        "costs": [{"name": "x", "amount": "1.5"}],
    },
    "extra": {"a": [1, {"b": None}]},
}
PLAN = {
    "plan_version": 1,
    "campaign": "c",
    "question": "why",
    "runs": [
        {"id": "a", "role": "control", "priority": "useful", "deliverables": [{"id": "w", "kind": "adapter", "depth": "model"}]}
    ],
    "abort_rules": [{"id": "r", "when": "loss is high", "metric": "loss", "op": ">", "value": 3.5, "for_steps": 2}],
    "decision_point": {"after": "a", "options": ["go"]},
    "schedule": {
        "window_hours": 5,
        "tolerance_percent": 10,
        "steps": [{"id": "s", "hours": 1, "start_hour": 0, "resource": "gpu"}],
    },
    "budget": {
        "currency": "EUR",
        "packages": [{"name": "p", "price": "47.14", "hours": 3, "order": "7"}],
        "other": [{"name": "o", "amount": "1"}],
        "unit": "adapter",
    },
}
JSON = json.dumps(
    {"a": [1, -2.5e3, True, None, "x\u00e9\n\U0001f600"], "b": {"c": [{"id": 1, "y": 2.0}, {"id": 2, "y": None}]}}
).encode()
ROWS = b"\n".join(json.dumps({"id": n, "loss": n / 3, "text": "a,b"}).encode() for n in range(5)) + b"\n"
TABLE = b'id,loss,text\r\n1,0.5,"a ""b"", c"\r\n2,,x\r\n3,1e-3,"two\nlines"\r\n'
YAML = yaml.safe_dump(
    {"a": [{"b": "x", "c": ["y", {"d": 1.5}]}, "w"], "e": {"f": {"g": "v"}}, "h": "multi\nline", "i": None}
).encode()
INI = b"[a]\nx = 1\ny: two\n# no\n[b c]\nz = 'q'\n"
TOML = b'a = 1\n[b]\nc = "x"\nd = [1, 2]\n[[e]]\nf = 1979-05-27T07:32:00Z\n'
SUMS = (
    b"a" * 64
    + b"  runs/x.pt\n"
    + b"\\"
    + b"b" * 64
    + b" *a\\nb\n# c\nSHA256 (x y) = "
    + b"c" * 64
    + b"\n-----BEGIN PGP SIGNED MESSAGE-----\n"
    + b"d" * 40
    + b"\tz\n"
)
EVENTS = events([(n, {"loss": n / 2, "lr": 0.1}) for n in range(4)])
PICKLE = pickle.dumps({"a": [1, 2.5, "x", (None, True)], "b": {"c": b"y" * 50}, "when": PurePosixPath("a/b")}, 4)


def as_records(data: bytes) -> Iterator[object]:
    value = strict_json.parse(data)
    return iter([*whole_json.records(value, ("id",), "y"), *whole_json.records(value, (), None)])


def as_manifest(data: bytes) -> object:
    return documents.read_manifest(data), documents.plan_path(data)


READERS: dict[str, tuple[bytes, Callable[[bytes], object]]] = {
    "strict_json": (JSON, unless(strict_json.parse, strict_json.NotStrict)),
    "strict_json-places": (JSON, lambda data: strict_json.locate_all(data, ["", "/a/0", "/b/c/1/y", "/~1"])),
    "whole_json": (JSON, unless(as_records, strict_json.NotStrict)),
    "lenient_json": (JSON, unless(lenient_json.fields, Unreadable)),
    "json_lines": (ROWS, unless(lambda data: json_lines.records(io.BytesIO(data)))),
    "tables": (TABLE, unless(lambda data: tables.records(io.BytesIO(data), "x.csv"))),
    "tables-tsv": (TABLE.replace(b",", b"\t"), unless(lambda data: tables.records(io.BytesIO(data), "x.tsv", quotes=False))),
    "columns": (TABLE, unless(lambda data: columns.fields(data, "x.csv", ["text"]))),
    "columns-lines": (ROWS, unless(lambda data: columns.fields(data, "x.jsonl", ["text"]))),
    "yaml": (YAML, unless(yaml_text.fields, Unreadable)),
    "ini": (INI, unless(ini_text.fields, Unreadable)),
    "quoted": (TOML, unless(ini_text.quoted, Unreadable)),
    "digests": (SUMS, unless(lambda data: digest_lines.parse(digest_lines.decode(data), "sha256", "x"))),
    "digests-bag": (SUMS, unless(lambda data: digest_lines.parse_bag(digest_lines.decode(data), "sha256"))),
    "events": (EVENTS, unless(lambda data: event_files.scalars(io.BytesIO(data)))),
    "pickle_strings": (PICKLE, unless(pickle_strings.fields)),
    "manifest": (json.dumps(MANIFEST, indent=1).encode(), as_manifest),
    "plan": (json.dumps(PLAN, indent=1).encode(), lambda data: documents.read_plan(data, "plan.json", "campaign")),
    **{
        f"parameters-{name}": (data, unless(functools.partial(parameters.read, f"x.{name}"), Unreadable))
        for name, data in (("json", JSON), ("yaml", YAML), ("toml", TOML), ("ini", INI))
    },
}


@pytest.mark.parametrize("name", READERS)
def test_readers(name: str) -> None:
    sound, parse = READERS[name]
    parse(sound)
    each(name, sound, parse)


@given(st.text() | st.binary().map(lambda data: data.decode("utf-8", "surrogateescape")))
@settings(max_examples=SEEDS * 4, deadline=None)
def test_texts_are_shown_and_judged(text: str) -> None:
    assert shown(text).isprintable()
    assert shown(shown(text)) == shown(text)
    if paths.fault(text) is None:
        assert not os.path.isabs(paths.normal(text))
        assert paths.normal(paths.normal(text)) == paths.normal(text)
        assert ".." not in paths.normal(text).split("/")


# ---- formats -------------------------------------------------------------------------------------------------


def _saved(value: Any, **options: Any) -> bytes:
    file = io.BytesIO()
    torch.save(value, file, **options)
    return file.getvalue()


def _numpy(save: Callable[..., None], *arguments: Any, **named: Any) -> bytes:
    file = io.BytesIO()
    save(file, *arguments, **named)
    return file.getvalue()


def _script() -> bytes:
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.save(torch.jit.script(torch.nn.Linear(2, 2)), file)
    return file.getvalue()


def _zip() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/readme.txt", "hello" * 20)
        archive.writestr("a/x.pkl", PICKLE)
    return file.getvalue()


def _gguf() -> bytes:
    def text(value: bytes) -> bytes:
        return struct.pack("<Q", len(value)) + value

    pairs = text(b"general.architecture") + struct.pack("<I", 8) + text(b"llama")
    pairs += (
        text(b"tokens")
        + struct.pack("<IIQ", 9, 8, 2)
        + text(b"a")
        + text(b"b")
        + text(b"n")
        + struct.pack("<IIQ", 9, 4, 2)
        + bytes(8)
    )
    infos = text(b"w") + struct.pack("<IQQIQ", 2, 4, 2, 0, 0) + text(b"q") + struct.pack("<IQIQ", 1, 32, 8, 32)
    head = b"GGUF" + struct.pack("<IQQ", 3, 2, 3) + pairs + infos
    return head + bytes(-len(head) % 32) + struct.pack("<8f", *range(8)) + bytes(34)


STATE = {"model": {"w": torch.ones(4, 2), "b": torch.zeros(3, dtype=torch.bfloat16)}, "step": 3, "names": ["x", ("y", None)]}
SHARD = safetensors({"w": torch.ones(4)})
INDEX = {
    "metadata": {"total_size": 32},
    "weight_map": {"w": "model-00001-of-00002.safetensors", "v": "model-00002-of-00002.safetensors"},
}
CONFIG = {
    "model_type": "gpt2",
    "architectures": ["GPT2LMHeadModel"],
    "n_embd": 4,
    "vocab_size": 3,
    "torch_dtype": "float32",
    "tie_word_embeddings": True,
}
TRAINER = {
    "epoch": 1.0,
    "global_step": 2,
    "max_steps": 2,
    "log_history": [{"loss": 1.5, "step": 1}, {"loss": 1.0, "step": 2}],
    "best_model_checkpoint": "x/checkpoint-2",
}


def _files(files: dict[str, bytes]) -> Callable[[Path], None]:
    def write(root: Path) -> None:
        for name, data in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes(data)

    return write


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


def _distributed(root: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.distributed.checkpoint.save({"w": torch.ones(3, 2), "step": 3}, checkpoint_id=root, no_dist=True)


def _onnx(root: Path) -> None:
    weight = onnx.numpy_helper.from_array(numpy.ones((2, 2), "f4"), "w")
    node = onnx.helper.make_node("MatMul", ["x", "w"], ["y"])
    values = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2, 2]) for name in "xy"]
    graph = onnx.helper.make_graph([node], "g", values[:1], values[1:], [weight])
    onnx.save(onnx.helper.make_model(graph), root / "m.onnx")
    onnx.save(onnx.helper.make_model(graph), root / "e.onnx", save_as_external_data=True, location="e.data", size_threshold=0)


FORMATS: dict[str, Callable[[Path], object]] = {
    "safetensors": _files({"a.safetensors": safetensors({"w": torch.ones(4, 2), "b": torch.zeros(3)}, {"format": "pt"})}),
    "torch zip": _files({"a.pt": _saved(STATE)}),
    "torch legacy": _files({"a.pt": _saved(STATE, _use_new_zipfile_serialization=False)}),
    "TorchScript": _files({"a.pt": _script()}),
    "pickle": _files({"a.pkl": PICKLE}),
    "zip": _files({"a.zip": _zip()}),
    "npy": _files({"a.npy": _numpy(numpy.save, numpy.ones((3, 2)))}),
    "npz": _files({"a.npz": _numpy(numpy.savez_compressed, a=numpy.ones(3), b=numpy.zeros(2))}),
    "joblib": lambda root: joblib.dump({"a": numpy.ones(5), "b": [1, "x"]}, root / "a.joblib"),
    "joblib compressed": lambda root: joblib.dump({"a": numpy.ones(5)}, root / "a.joblib", compress=3),
    "GGUF": _files({"a.gguf": _gguf()}),
    "ONNX": _onnx,
    "distributed": _distributed,
    "HDF5": lambda root: other_frameworks.hdf5(root / "a.h5"),
    "Keras": lambda root: other_frameworks.keras(root / "a.keras"),
    "skops": lambda root: other_frameworks.skops(root / "a.skops"),
    "Flax": lambda root: other_frameworks.flax(root / "flax_model.msgpack", w=numpy.ones((2, 2), "f4")),
    "TensorFlow": lambda root: other_frameworks.tensorflow(root),
    "SavedModel": lambda root: other_frameworks.saved_model(root),
    "Orbax": lambda root: other_frameworks.orbax(root),
    "sharded": _files(
        {
            "model.safetensors.index.json": _json(INDEX),
            "model-00001-of-00002.safetensors": SHARD,
            "model-00002-of-00002.safetensors": safetensors({"v": torch.ones(4)}),
        }
    ),
    "Hugging Face": _files(
        {
            "config.json": _json(CONFIG),
            "model.safetensors": safetensors({"transformer.wte.weight": torch.ones(3, 4)}),
            "tokenizer.json": _json({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}}),
            "generation_config.json": _json({"eos_token_id": 1}),
            "tokenizer_config.json": _json({"tokenizer_class": "GPT2Tokenizer"}),
        }
    ),
    "adapter": _files(
        {
            "adapter_config.json": _json(
                {
                    "peft_type": "LORA",
                    "r": 2,
                    "lora_alpha": 4,
                    "target_modules": ["q"],
                    "base_model_name_or_path": "org/x",
                    "revision": None,
                }
            ),
            "adapter_model.safetensors": safetensors(
                {"base_model.model.q.lora_A.weight": torch.ones(2, 4), "base_model.model.q.lora_B.weight": torch.ones(4, 2)}
            ),
        }
    ),
    "Trainer": _files(
        {
            "checkpoint-2/trainer_state.json": _json(TRAINER),
            "checkpoint-2/config.json": _json(CONFIG),
            "checkpoint-2/model.safetensors": SHARD,
            "checkpoint-2/optimizer.pt": _saved(
                {
                    "state": {0: {"step": torch.tensor(2.0), "exp_avg": torch.ones(4)}},
                    "param_groups": [{"lr": 0.1, "params": [0]}],
                }
            ),
            "checkpoint-2/scheduler.pt": _saved({"last_epoch": 2, "_step_count": 3}),
            "checkpoint-2/rng_state.pth": _saved({"cpu": torch.get_rng_state()[:64]}),
        }
    ),
}


def _read(root: Path, units: Sequence[Unit]) -> None:
    """Recognise what lies there and read it, and the units that were there before."""
    found, _ = recognise(take(root))
    for unit in dict.fromkeys((*found, *units)):
        if not all((root / path).is_file() for path in unit.files) and unit not in found:
            continue
        try:
            reading = formats()[unit.format].read(unit, DiskSource(root, depth=Depth.TENSORS))
        except Changed:
            continue
        from_json(json.loads(json.dumps(to_json(reading), allow_nan=False)))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", FORMATS)
def test_formats(name: str, tmp_path: Path) -> None:
    FORMATS[name](tmp_path)
    units, _ = recognise(take(tmp_path))
    assert units
    files = [path for path in sorted(tmp_path.rglob("*")) if path.is_file() and path.stat().st_size]
    for number, file in enumerate(files):
        sound = file.read_bytes()

        def parse(data: bytes, file: Path = file) -> None:
            file.write_bytes(data)
            _read(tmp_path, units)

        each(f"{name} {number}", sound, parse)
        file.write_bytes(sound)
