"""Hostile and malformed directories in real sessions: nothing runs, nothing is written, every refusal says why."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hostile import Case, archives, headers, pickles
from sessions import Ended, entry, manifest, pytest_session

from pytest_campaign.readers import strict_json

# What nobody can judge here without running code or knowing more; it is never accepted.
UNVERIFIED = frozenset({
    "broken-persid.pkl", "zip-resource-bytearray.pt", "zip-resource-bytearray-huge.pt", "zip-resource-deep-list.pt",
    "zip-resource-deep-tuple.pt", "zip-resource-number-of-a-megabyte.pt", "zip-lie-storage-of-more-digits-than-fit.pt",
    "kind-sparse.pt", "zip-in-zip.zip.pt", "tar-outside.nemo", "tar-absolute.nemo", "tar-link.nemo", "tar-hard-link.nemo",
    "tar-fifo.nemo", "tar-device.nemo", "safetensors-dtype-unknown.safetensors", "safetensors-name-long.safetensors",
    "npz-objects.npz", "gguf-arrays-nested.gguf", "gguf-version-99.gguf", "gguf-big-endian.gguf", "other-tflite.tflite",
    "overlap.keras",
})
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


def every_case(canary: Path) -> list[Case]:
    pickle = pickles.object_pickle()
    return [*pickles.cases(str(canary)), *archives.cases(archives.torch_zip(pickle), pickle), *headers.cases(str(canary))]


def test_every_file_as_a_checkpoint(tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    cases = write(tmp_path / "campaign", every_case(canary), "checkpoint")
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
