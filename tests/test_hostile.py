"""Hostile and malformed directories in real sessions: nothing runs, nothing is written, every refusal says why."""

from __future__ import annotations

import hashlib
import json
import os
import re
import socket
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import torch
from hostile import Case, archives, headers, pickles
from hostile import documents as texts
from sessions import Ended, entry, manifest, pytest_session

from pytest_campaign import documents, paths
from pytest_campaign.formats import pickle_values
from pytest_campaign.formats.pickle_survey import BadPickle
from pytest_campaign.readers import strict_json

# What nobody can judge here without running code or knowing more; it is never accepted.
UNVERIFIED = frozenset(
    {
        "broken-persid.pkl",
        "zip-resource-bytearray.pt",
        "zip-resource-bytearray-huge.pt",
        "zip-resource-deep-list.pt",
        "zip-resource-deep-tuple.pt",
        "zip-resource-number-of-a-megabyte.pt",
        "zip-lie-storage-of-more-digits-than-fit.pt",
        "kind-sparse.pt",
        "zip-in-zip.zip.pt",
        "tar-outside.nemo",
        "tar-absolute.nemo",
        "tar-link.nemo",
        "tar-hard-link.nemo",
        "tar-fifo.nemo",
        "tar-device.nemo",
        "safetensors-dtype-unknown.safetensors",
        "safetensors-name-long.safetensors",
        "npz-objects.npz",
        "gguf-arrays-nested.gguf",
        "gguf-version-99.gguf",
        "gguf-big-endian.gguf",
        "other-tflite.tflite",
        "overlap.keras",
    }
)
RAW = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def contents(folder: Path) -> dict[str, str]:
    """The digest of everything in a directory."""
    found = {}
    for path in sorted(folder.rglob("*")):
        found[str(path)] = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() and not path.is_symlink() else "-"
    return found


def checked(folder: Path, *words: str) -> tuple[Ended, dict[str, Any]]:
    """One session over a campaign that must end in good order, and its report."""
    before = contents(folder)
    report = folder.parent / f"{folder.name}.json"
    ended = pytest_session(folder.parent, "-p", "no:cacheprovider", "--campaign-dir", folder, "--campaign-report", report, *words)
    assert ended.status in (0, 1), ended.out[-3000:] + ended.err
    assert not re.search("INTERNALERROR|Traceback", ended.out + ended.err)
    assert not RAW.search(ended.out + ended.err)
    assert contents(folder) == before
    return ended, strict_json.parse(report.read_bytes(), most_bytes=1 << 28)


def write(folder: Path, cases: Iterable[Case], kind: str) -> list[Case]:
    folder.mkdir()
    written = list(cases)
    for case in written:
        (folder / case.name).write_bytes(case.data)
    manifest(folder, *(entry(f"d{number}", case.name, kind) for number, case in enumerate(written)))
    return written


def judged(report: dict[str, Any], cases: list[Case]) -> dict[str, dict[str, Any]]:
    """The deliverables of a report by the name of the case."""
    by_id = {deliverable["id"]: deliverable for deliverable in report["deliverables"]}
    return {case.name: by_id[f"d{number}"] for number, case in enumerate(cases)}


def zips(canary: str) -> Iterable[Case]:
    pickle = pickles.object_pickle()
    return archives.cases(archives.torch_zip(pickle), pickle)


@pytest.mark.parametrize("generator", [pickles.cases, zips, headers.cases], ids=["pickles", "archives", "headers"])
def test_every_file_as_a_checkpoint(generator: Callable[[str], Iterable[Case]], tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    cases = write(tmp_path / "campaign", generator(str(canary)), "checkpoint")
    ended, report = checked(tmp_path / "campaign")
    assert ended.status == 1
    assert not canary.exists()
    wrong = []
    for case, deliverable in zip(cases, judged(report, cases).values(), strict=True):
        expected = "accepted" if not case.refused else "unverified" if case.name in UNVERIFIED else "rejected"
        errors = [finding for finding in deliverable["findings"] if finding["level"] == "error"]
        told = all(finding["path"] == case.name and finding["remedy"] for finding in errors)
        if deliverable["verdict"] != expected or not told or (expected == "rejected") != bool(errors):
            wrong.append((case.name, case.why, deliverable["verdict"], [f"{f['rule']}: {f['message']}" for f in errors]))
    assert not wrong


def test_a_pickle_is_refused_whatever_it_is_said_to_be(tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    bare = (case for case in pickles.running(str(canary)) if not case.name.startswith("zip-"))
    cases = write(tmp_path / "campaign", bare, "other")
    _, report = checked(tmp_path / "campaign")
    assert not canary.exists()
    passed = {name for name, deliverable in judged(report, cases).items() if deliverable["verdict"] != "rejected"}
    assert passed == {"bare-inst.pkl"}  # a text of protocol 0 that begins as any other text


# ---- documents -----------------------------------------------------------------------------------------------


def sound_manifest(extra: bytes = b"1", path: str = "notes.md") -> bytes:
    text = json.dumps(
        {
            "manifest_version": 1,
            "campaign": "small",
            "runs": [],
            "extra": {"x": "HERE"},
            "deliverables": [{"id": "notes", "kind": "other", "path": path}],
        }
    )
    return text.encode().replace(b'"HERE"', extra)


@pytest.mark.parametrize("name", texts.REFUSED)
def test_a_manifest_that_is_no_strict_json(name: str) -> None:
    document, faults = documents.read_manifest(sound_manifest(texts.REFUSED[name]))
    assert document is None
    assert faults[0].message.isprintable()
    assert faults[0].line == 1 or (faults[0].line or 0) <= 2


@pytest.mark.parametrize("name", texts.ACCEPTED)
def test_a_manifest_that_only_looks_odd(name: str) -> None:
    document, faults = documents.read_manifest(sound_manifest(texts.ACCEPTED[name]))
    assert (document is not None, faults) == (True, [])


@pytest.mark.parametrize(
    ("name", "data"), list(texts.whole(sound_manifest())), ids=lambda value: value if isinstance(value, str) else ""
)
def test_a_manifest_as_a_whole(name: str, data: bytes) -> None:
    document, faults = documents.read_manifest(data)
    assert document is None
    assert faults
    assert sum(len(fault.message) for fault in faults) < 10_000


@pytest.mark.parametrize("path", texts.PATHS, ids=ascii)
def test_every_path_of_a_manifest_stays_inside(path: str) -> None:
    sound = json.loads(sound_manifest())
    entry = sound["deliverables"][0]
    for change in (
        {"deliverables": [entry | {"path": path}]},
        {"deliverables": [entry | {"files": [{"path": path, "bytes": 1}]}]},
        {"deliverables": [entry | {"base": {"model": "m", "path": path}}]},
        {"deliverables": [entry | {"reload": {"probe": path}}]},
        {"plan": {"path": path, "sha256": "0" * 64}},
        {"datasets": {"d": {"path": path, "key": ["id"]}}},
        {"bases": {"b": {"model": "m", "path": path}}},
        {"runs": [{"id": "r", "status": "completed", "parameters": path, "deliverables": []}]},
    ):
        document, faults = documents.read_manifest(json.dumps(sound | change).encode("utf-8", "surrogatepass"))
        assert faults
        assert all(fault.message.isprintable() for fault in faults)
        named = [*document.named_paths, document.plan_path, *(d.path for d in document.deliverables)] if document else []
        assert all(p is None or paths.fault(p) is None or p.endswith("\0") for p in named)


def test_more_entries_than_can_be_validated_are_refused_at_once() -> None:
    many = b"[" + b"{}," * documents.MOST_ENTRIES + b"{}]"
    document, faults = documents.read_manifest(sound_manifest(many))
    assert (document, [fault.kind for fault in faults]) == (None, ["too-large"])


def test_long_ways_from_run_to_run_are_gone_once() -> None:
    runs = [{"id": f"r{n}", "status": "completed", "deliverables": [], "repeat_of": f"r{n + 1}"} for n in range(3000)]
    _, faults = documents.read_manifest(json.dumps(json.loads(sound_manifest()) | {"runs": runs[:-1]}).encode())
    assert [fault.kind for fault in faults] == ["reference"]  # the last one is not there
    runs[-1]["repeat_of"] = "r1500"
    _, faults = documents.read_manifest(json.dumps(json.loads(sound_manifest()) | {"runs": runs}).encode())
    assert {fault.pointer for fault in faults[:3]} == {f"/runs/{n}/repeat_of" for n in (1500, 1501, 1502)}


@pytest.mark.parametrize(
    "build",
    [
        lambda n: {"runs": [{"id": "a", "status": "completed", "deliverables": []}] * n},  # the same id n times
        lambda n: {"todo": [{"pointer": "x" * 50}] * n},
        lambda n: {"unknown" + str(k): 1 for k in range(n)},
        lambda n: {"campaign": "a" * n},
        lambda n: {"campaign": "!" * n},
        lambda n: {"provenance": {"started": "2" * n}},
        lambda n: {"datasets": {"d" * k: {} for k in range(1, min(n, 2000))}},
        lambda n: {"deliverables": [[]] * n},
        lambda n: {"bases": {"b": {"model": "m", "sha256": {f"../{k}": "z" for k in range(n)}}}},
    ],
    ids=range(9),
)
def test_many_faults_of_a_manifest_take_little_time_and_few_words(build: Callable[[int], dict[str, Any]]) -> None:
    began = time.monotonic()
    _, faults = documents.read_manifest(json.dumps(json.loads(sound_manifest()) | build(5_000)).encode())
    assert time.monotonic() - began < 20
    assert 0 < len(faults) <= documents.MOST_FAULTS + 1
    assert all(len(fault.message) <= 200 for fault in faults)


# ---- files ---------------------------------------------------------------------------------------------------


def special_files(folder: Path, outside: Path) -> dict[str, str]:
    """Files that are none, or lead elsewhere: the verdict of each."""
    (outside / "secret.bin").write_bytes(b"the secret content")
    os.mkfifo(folder / "fifo.pt")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(os.path.relpath(folder / "socket.pt"))
    for name, target in {
        "out.pt": outside / "secret.bin",
        "dots.pt": "../outside/secret.bin",
        "loop.pt": "loop.pt",
        "one.pt": "two.pt",
        "two.pt": "one.pt",
        "environ.pt": "/proc/self/environ",
        "zero.pt": "/dev/zero",
        "dead.pt": "nothing",
        "tree": "..",
        "above": "/",
    }.items():
        (folder / name).symlink_to(target)
    (folder / "sound.pt").write_bytes(archives.saved({"w": torch.ones(4)}))
    (folder / "inside.pt").symlink_to("sound.pt")
    os.link(folder / "sound.pt", folder / "hard.pt")
    with open(folder / "giant.pt", "wb") as file:
        file.truncate(1 << 42)
    with open(folder / "giant.npy", "wb") as file:
        file.write(headers.npy("{'descr': '<f8', 'fortran_order': False, 'shape': (549755813872,)}".ljust(118)))
        file.truncate(1 << 42)
    names = {
        "fifo.pt": "rejected",
        "socket.pt": "rejected",
        "sound.pt": "accepted",
        "inside.pt": "accepted",
        "hard.pt": "accepted",
        "giant.pt": "rejected",
    }
    return names | dict.fromkeys(
        ("out.pt", "dots.pt", "loop.pt", "one.pt", "environ.pt", "zero.pt", "dead.pt", "tree", "above"), "missing"
    )


def test_files_that_are_none(tmp_path: Path) -> None:
    folder, outside = tmp_path / "campaign", tmp_path / "outside"
    folder.mkdir()
    outside.mkdir()
    expected = special_files(folder, outside)
    for odd in (
        "esc\x1b[31mred.md",
        "line\nbreak.md",
        "bidi\u202etxt.md",
        "::error::x.md",
        "##[error]y.md",
        "caf\u00e9.md",
        "cafe\u0301.md",
        "A.md",
        "a.md",
    ):
        (folder / odd).write_text("x")
    with open(os.fsencode(folder) + b"/not-utf8-\xff.md", "wb") as file:
        file.write(b"x")
    deep = folder / "/".join(["d"] * 300)
    deep.mkdir(parents=True)
    (deep / "deep.pt").write_bytes((folder / "sound.pt").read_bytes())
    manifest(folder, *(entry(f"d{number}", name, "checkpoint") for number, name in enumerate(expected)))
    began = time.monotonic()
    ended = pytest_session(tmp_path, "-p", "no:cacheprovider", "--campaign-dir", folder, "--campaign-report", tmp_path / "r.json")
    assert time.monotonic() - began < 60
    assert ended.status == 1
    assert not RAW.search(ended.out + ended.err)
    text = (tmp_path / "r.json").read_text("ascii")
    assert "the secret content" not in text + ended.out
    assert os.environ["PATH"] not in text + ended.out
    by_id = {d["path"]: d["verdict"] for d in strict_json.parse(text.encode())["deliverables"]}
    assert {name: by_id[name] for name in expected} == expected


def test_a_key_whose_hash_takes_for_ever_is_refused_at_once() -> None:
    pair = b"".join(b"h" + bytes([n]) + b"h" + bytes([n]) + b"\x86q" + bytes([n + 1]) for n in range(60))
    with pytest.raises(BadPickle, match="tuples in one another"):
        pickle_values.load(b"\x80\x02}(K\x01q\x00" + pair + b"K\x01u.", {})
    sound = pickle_values.load(b"\x80\x02}(K\x01q\x00h\x00\x86q\x01h\x01\x86K\x02u.", {})
    assert sound.value == {((1, 1), (1, 1)): 2}
