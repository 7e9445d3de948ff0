"""What comes from the directory is shown, and shown escaped: on the terminal, in every report, in a draft, with workers."""

import json
import os
from pathlib import Path

import naughty
import pytest
import safetensors.torch
import torch
from sessions import Ended, pytest_session, script

from pytest_campaign.text import shown, shown_json

SECRETS = {"CANARY": "c4nary-of-the-environment", "HF_TOKEN": "c4nary-of-the-token"}
REPORTS = ("--campaign-report=report.json", "--junitxml=junit.xml")
FEW = {name: naughty.STRINGS[name] for name in ("escape", "return", "bidi", "github line", "github old", "gitlab", "xml")}


@pytest.mark.parametrize("name", naughty.STRINGS)
def test_a_string_is_escaped_once(name: str) -> None:
    text = naughty.STRINGS[name]
    once = shown(text)
    assert naughty.raw(once) == []
    assert shown(once) == once
    for ascii_only in (True, False):
        written = shown_json(json.dumps({text: [text]}, ensure_ascii=ascii_only))
        assert naughty.raw(written) == []
        assert json.loads(written) == {text: [text]}


@pytest.mark.parametrize("text", ["std::bad_alloc", "Größe 漢字 \u05e9\u05dc\u05d5\u05dd", "# a heading", "## a heading", "a: b",
                                  "section_start: the first", "[x]", "e\u0301"])
def test_a_sound_neighbour_stays_as_it_is(text: str) -> None:
    assert shown(text) == text
    assert shown_json(json.dumps(text, ensure_ascii=False)) == json.dumps(text, ensure_ascii=False)


def assert_clean(session: Ended, *reports: Path) -> None:
    texts = [session.out, session.err, *(report.read_text("utf-8") for report in reports)]
    for text in texts:
        assert naughty.raw(text) == []
        assert "c4nary" not in text
        assert "INTERNALERROR" not in text
        assert "check.raised: " not in text
    for report in reports:
        text = report.read_text("utf-8")
        assert naughty.MARK in text
        for private in (str(Path.home()) + "/", "site-packages", "/pytest-campaign-"):
            assert private not in text.replace(str(report.parent), "")
    assert naughty.MARK in session.out


@pytest.mark.parametrize(("strings", "words"), [(naughty.STRINGS, []), (FEW, ["-n2"])], ids=["alone", "workers"])
def test_names_and_contents(tmp_path: Path, strings: dict[str, str], words: list[str]) -> None:
    naughty.fill(tmp_path / "out", strings, share=4 if strings is naughty.STRINGS else 1)
    session = script(tmp_path, "check", "out", "-v", "-rA", *REPORTS, *words, **SECRETS)
    assert session.status == 1
    assert_clean(session, tmp_path / "report.json", tmp_path / "junit.xml")
    report = json.loads((tmp_path / "report.json").read_bytes())
    assert {path.rpartition("/")[2] for path in naughty.decoded(report)} >= {"\udcff\udcfe.safetensors"}
    json.dumps(report, ensure_ascii=False).encode("utf-8")  # no half surrogate in it


def test_documents(tmp_path: Path) -> None:
    naughty.fill(tmp_path / "out", FEW, named=False)
    (tmp_path / "out/manifest.json").write_text(json.dumps(naughty.document(FEW)))
    (tmp_path / "out/plan.json").write_text(json.dumps(naughty.plan(FEW)))
    session = script(tmp_path, "check", "out", "-v", "-rA", *REPORTS, **SECRETS)
    assert_clean(session, tmp_path / "report.json", tmp_path / "junit.xml")
    assert "manifest.schema: " not in session.out
    assert len(json.loads((tmp_path / "report.json").read_bytes())["deliverables"]) == len(FEW) * len(naughty.KINDS)


def test_documents_with_faults(tmp_path: Path) -> None:
    directories = []
    for number, data in enumerate(naughty.broken(naughty.STRINGS)):
        directories.append(f"out{number}")
        (tmp_path / directories[-1]).mkdir()
        (tmp_path / directories[-1] / "manifest.json").write_bytes(data)
    session = script(tmp_path, "check", *directories, *REPORTS, **SECRETS)
    assert_clean(session, tmp_path / "report.json", tmp_path / "junit.xml")


def test_lists_and_drafts(tmp_path: Path) -> None:
    naughty.fill(tmp_path / "out", FEW)
    assert_clean(script(tmp_path, "check", "out", "--co", "-q", **SECRETS))
    drafted = script(tmp_path, "draft", "out", **SECRETS)
    assert drafted.status == 0, drafted
    assert_clean(drafted, tmp_path / "out/manifest.json")


def test_under_ci_and_in_html(tmp_path: Path) -> None:
    naughty.fill(tmp_path / "out", {"github": naughty.STRINGS["github"], "html": naughty.STRINGS["html"]})
    session = pytest_session(tmp_path, "--campaign-dir=out", "-vv", "--tb=short", "--html=report.html", CI="true", **SECRETS)
    assert naughty.raw(session.out) == []
    assert f"<script>{naughty.MARK}" not in (tmp_path / "report.html").read_text()


def test_a_name_that_is_no_utf8_is_compared_with_a_baseline(tmp_path: Path) -> None:
    name = os.fsencode(tmp_path) + b"/out/a\xff.safetensors"
    (tmp_path / "out").mkdir()
    words = ["--campaign-report=report.json"]
    for data, changed in ((1.0, False), (1.0, False), (2.0, True)):
        with open(name, "wb") as file:
            file.write(safetensors.torch.save({"w": torch.full((2,), data)}))
        session = script(tmp_path, "check", "out", "-v", *words)
        assert ("error: fixity." in session.out) is changed, session
        words = ["--campaign-baseline=report.json"]
