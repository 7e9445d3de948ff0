"""Are these the bytes that were written: lists of digests, bags, an earlier report, and how often a file is read."""

from __future__ import annotations

import collections
import contextlib
import hashlib
import json
import os
import random
import shutil
import string
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import bagit
import campaigns
import pytest
from campaigns import LAST, METRICS, WEIGHTS
from hypothesis import given
from hypothesis import strategies as st
from rule_examples import fixity as examples
from sessions import papers, pytest_session, write

from pytest_campaign import baseline, checks, file_names, hashing, inventory, snapshot
from pytest_campaign.campaign import Asked
from pytest_campaign.checks import Pair
from pytest_campaign.checks.fixity import judge
from pytest_campaign.evidence import Files
from pytest_campaign.findings import Outcome
from pytest_campaign.readers import digest_lines
from pytest_campaign.readers.digest_lines import BadLine, Line
from pytest_campaign.record import Result
from pytest_campaign.reload.client import Reloader
from pytest_campaign.reload.protocol import Answer, Job, Limits
from pytest_campaign.session import run_check

SUITE = json.loads(Path(__file__).with_name("bagit_suite.json").read_text("ascii"))



def nobody(job: Job, progress: object = None) -> Answer:
    raise AssertionError("nothing is to be reloaded")


def checked(directory: Path, deliverable: str | None = None) -> Result:
    """The result of the one check of a directory."""
    campaign = snapshot.campaign(snapshot.take(directory), Asked())
    return run_check(campaign, Pair(deliverable, "fixity"), Files(campaign.inventory, nobody, digest=False, threads=2))


def found(result: Result) -> list[tuple[str, str | None]]:
    """Rule and place of every finding that is no note."""
    return [(f.rule.removeprefix("fixity."), f.place) for f in result.findings if f.level != "note"]


def sha(data: bytes, algorithm: str = "sha256") -> str:
    return hashlib.new(algorithm, data).hexdigest()


# ---- lines ---------------------------------------------------------------------------------------------------

DIGEST = "0123456789abcdef" * 4
READ = {
    f"{DIGEST}  a.bin": ("a.bin",),
    f"{DIGEST} *a.bin": ("a.bin", "*a.bin"),
    f"{DIGEST} a.bin": ("a.bin",),
    f"{DIGEST}\ta.bin": ("a.bin",),
    f"{DIGEST.upper()}  a.bin": ("a.bin",),
    f"{DIGEST}  two words.bin ": ("two words.bin ", "two words.bin"),
    f"\\{DIGEST}  a\\nb\\\\c": ("a\nb\\c",),
    f"{DIGEST}  a\\nb": ("a\\nb",),
    f"SHA256 (a (1).bin) = {DIGEST}": ("a (1).bin",),
    f"\\SHA256 (a\\nb) = {DIGEST}": ("a\nb",),
    f"SHA2-256(a.bin)= {DIGEST}": ("a.bin",),
}


@pytest.mark.parametrize("line", READ)
def test_a_line(line: str) -> None:
    assert list(digest_lines.parse(line + "\r\n", "sha256")) == [Line(1, "sha256", DIGEST, READ[line])]


@pytest.mark.parametrize("line", ["a.bin", DIGEST[1:] + "  a.bin", DIGEST, f"{DIGEST}a.bin", f"{DIGEST[:40]}  a.bin",
                                  f"SHA256 (a.bin) = {DIGEST[:40]}", "SHA256 (a.bin)", f"a.bin  {DIGEST}"])
def test_no_line(line: str) -> None:
    assert [type(one) for one in digest_lines.parse(line, "sha256")] == [BadLine]


@pytest.mark.parametrize(("prefix", "encoding"), [(b"", "utf-8"), (b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"),
                                                  (b"\xfe\xff", "utf-16-be")])
def test_encodings_of_lists(prefix: bytes, encoding: str) -> None:
    assert digest_lines.decode(prefix + "é".encode(encoding)) == "é"


@pytest.mark.parametrize("command", ["sha256sum -z", "sha256sum", "sha256sum --tag", "sha256sum -bz", "b2sum", "b2sum -l 256",
                                     "b2sum --tag -z", "md5sum"])
def test_lists_by_the_tools_themselves(command: str, tmp_path: Path) -> None:
    program, *options = command.split()
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    names = ["a.bin", "two words", "line\nbreak", "back\\slash", "\\front"]
    for name in names:
        (tmp_path / name).write_text(name)
    text = subprocess.run([program, *options, *names], cwd=tmp_path, check=True, capture_output=True).stdout
    name = {"sha256sum": "SHA256SUMS", "b2sum": "B2SUMS", "md5sum": "checksums.txt"}[program]
    (tmp_path / name).write_bytes(text)
    result = checked(tmp_path)
    assert found(result) == []
    assert f"of {len(names)} files" in result.findings[0].message
    (tmp_path / "two words").write_text("two WORDS")
    assert found(checked(tmp_path)) == [("digest", "two words")]


@pytest.mark.parametrize("text", [f"{DIGEST}  a\n{DIGEST}  b\n\0", f"{DIGEST}  a\n{DIGEST[:20]}\0\0\0", f"{DIGEST}  a\0b\n",
                                  f"\0\0{DIGEST}  a\n"])
def test_nul_bytes_in_a_list(text: str) -> None:
    *_, last = digest_lines.parse(text, "sha256")
    assert isinstance(last, BadLine) or "\0" not in last.names[0]
    assert any(isinstance(line, BadLine) for line in digest_lines.parse(text, "sha256"))


@pytest.mark.parametrize(("text", "is_list"), [
    (f"{DIGEST}  a\n", True), (f"{DIGEST}  a", True), (f"{DIGEST[:40]}  a\n{DIGEST}  b\n", True),
    (f"# of today\n\n{DIGEST}  a\n", True), (f"; of today\n// File Checksum\n{DIGEST}  a\n", True),
    (f"SHA256 (a) = {DIGEST}\n", True), (f"{DIGEST}  a\n{DIGEST[:20]}", True),
    (f"{DIGEST}  a\n{DIGEST[:20]}\n", False), ("", False), ("# nothing\n", False), ("checksum: 12\n", False), (DIGEST, False),
    (f"files\n{DIGEST}  a\n", False)])
def test_what_shows_that_a_text_is_a_list(text: str, is_list: bool) -> None:
    assert digest_lines.is_list(list(digest_lines.parse(text)), text) is is_list


@pytest.mark.parametrize("above", ["out/", "./out/", "workspace/out/", "./a/b/c/"])
def test_a_list_written_higher_up(above: str, tmp_path: Path) -> None:
    for name in ("runs/a/x.bin", "runs/b/y.bin"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(name)
    names = ["runs/a/x.bin", "runs/b/y.bin"]
    lines = [f"{sha(name.encode())}  {above}{name}\n" for name in names]
    (tmp_path / "SHA256SUMS").write_text("".join(lines))
    assert found(checked(tmp_path)) == [("higher-folder", "SHA256SUMS:1")]
    (tmp_path / "runs/b/y.bin").write_text("runs/B/y.bin")
    assert found(checked(tmp_path)) == [("higher-folder", "SHA256SUMS:1"), ("digest", "runs/b/y.bin")]
    os.remove(tmp_path / "runs/b/y.bin")
    assert found(checked(tmp_path)) == [("higher-folder", "SHA256SUMS:1"), ("missing", "runs/b/y.bin")]


def test_a_clearsigned_list() -> None:
    text = (f"-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA512\n\n{DIGEST}  a.bin\n- {DIGEST}  -b.bin\n"
            "-----BEGIN PGP SIGNATURE-----\n\niQEzBAEBCgAdFiEE\n-----END PGP SIGNATURE-----\n")
    assert [line.names[0] for line in digest_lines.parse(text, "sha256")] == ["a.bin", "-b.bin"]


NAMES = st.text(st.characters(exclude_characters="\0/", exclude_categories=("Cs",)), min_size=1, max_size=40)


@given(NAMES)
def test_names_survive_in_the_form_of_gnu(name: str) -> None:
    escaped = any(c in name for c in "\\\n\r")
    shown = name.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    for text in (f"{DIGEST}  {shown}", f"{DIGEST} *{shown}", f"SHA256 ({shown}) = {DIGEST}"):
        (line,) = digest_lines.parse("\\" * escaped + text + "\n", "sha256")
        assert line.names[0] == name


@given(NAMES)
def test_names_survive_in_the_form_of_a_bag(name: str) -> None:
    encoded = name.replace("%", "%25").replace("\n", "%0A").replace("\r", "%0D")
    (line,) = digest_lines.parse_bag(f"{DIGEST}  data/{encoded}\r\n", "sha256")
    assert line.names[0] == f"data/{name}"


@given(st.binary(max_size=400), st.sampled_from([None, "sha256", "blake3"]))
def test_no_list_makes_the_parser_raise(data: bytes, algorithm: str | None) -> None:
    text = digest_lines.decode(data)
    lines = [*digest_lines.parse(text, algorithm, "a"), *digest_lines.parse_bag(text, algorithm or "md5")]
    assert all(0 < line.number <= text.count("\n") + text.count("\r") + 1 for line in lines)


@given(st.text(string.hexdigits + " *\\()=#\r\nSHAdat/.", max_size=300))
def test_no_text_makes_the_parser_raise(text: str) -> None:
    assert all(line.number for line in [*digest_lines.parse(text, "sha256"), *digest_lines.parse_bag(text, "sha256")])


@pytest.mark.parametrize("path", [
    "SHA256SUMS", "x/sha256sums.txt", "sha256sum.txt", "checksums.sha256", "model.safetensors.sha256", "a.sha512sum", "MD5SUMS",
    "checksums-sha256.txt", "sha256.txt", "SHA-256SUMS", "SHA256SUMS.asc", "x/bagit.txt", "tagmanifest-sha512.txt", "CHECKSUM",
    "x/checksums.txt", "checksums.txt.asc", "B2SUMS", "b2sum.txt", "last.pt.blake2b", "sha256-checksums.txt", "model.checksum"])
def test_names_of_lists(path: str) -> None:
    assert file_names.is_of_fixity(path)
    assert file_names.is_aside(path)


@pytest.mark.parametrize("path", [
    "sums.txt", "runs/sha256/model.pt", "my-sha256.json", "my-sha256", "manifest-v2.txt", "manifest.json", "checksums.json",
    "model-sha256.pt", "notes.asc", "level.b2", "checksums/model.pt", "mychecksums.txt"])
def test_names_of_other_files(path: str) -> None:
    assert not file_names.is_of_fixity(path)


# ---- bags ----------------------------------------------------------------------------------------------------

# Of the bags that draw a warning two are not as the suite meant them: a file system that ignores case made one, and the
# `.DS_Store` of the other never reached its repository. On a system with case both lack a file.
INCOMPLETE = {"v0.97/warning/duplicate-file-with-different-case", "v0.97/warning/special-system-files"}


@pytest.mark.parametrize("name", SUITE)
def test_bags_of_the_conformance_suite(name: str, tmp_path: Path) -> None:
    """The suite of the Library of Congress (public domain, https://github.com/LibraryOfCongress/bagit-conformance-suite)."""
    write(tmp_path, {path: text.encode("latin-1") for path, text in SUITE[name].items()})
    result = checked(tmp_path)
    valid = name.split("/")[1] in ("valid", "warning") and name not in INCOMPLETE
    assert result.outcome is (Outcome.PASSED if valid else Outcome.FAILED), result.findings


def made_bag(folder: Path, algorithms: tuple[str, ...] = ("sha256", "sha512")) -> Path:
    write(folder, {"loss.csv": "step,loss\n1,0.5\n", "deep/100%.md": "All of it.\n", "two words.txt": "Yes.\n",
                   "caf\u00e9.txt": "Open.\n"})
    bagit.make_bag(str(folder), checksums=list(algorithms))
    return folder


def rewrite(file: Path, change: Callable[[str], str]) -> None:
    with open(file, newline="") as stream:
        text = stream.read()
    file.write_text(change(text), newline="")


def gone(bag: Path) -> None:
    (bag / "data/loss.csv").unlink()


def more(bag: Path) -> None:
    (bag / "data/more.csv").write_text("")


def other(bag: Path) -> None:
    (bag / "data/loss.csv").write_text("step,loss\n1,0.6\n")


def tag(bag: Path) -> None:
    rewrite(bag / "bag-info.txt", lambda text: text + "Contact-Name: Ada\n")


def no_tag_file(bag: Path) -> None:
    (bag / "bag-info.txt").unlink()


def without_tags(change: Callable[[Path], None]) -> Callable[[Path], None]:
    """A change of a tag file, with the tag manifests (which a bag need not have) taken away."""

    def both(bag: Path) -> None:
        for file in bag.glob("tagmanifest-*"):
            file.unlink()
        change(bag)

    both.__name__ = change.__name__
    return both


def edited(name: str, manifest: Callable[[str], str]) -> Callable[[Path], None]:
    def change(bag: Path) -> None:
        for file in bag.glob("manifest-*"):
            rewrite(file, manifest)

    change.__name__ = name
    return without_tags(change)


def line_of(text: str, name: str) -> str:
    return next(line for line in text.splitlines(keepends=True) if name in line)


VALID: list[Callable[[Path], None]] = [
    without_tags(lambda bag: None),
    edited("crlf", lambda text: text.replace("\n", "\r\n")),
    edited("cr", lambda text: text.replace("\n", "\r")),
    edited("dot_slash", lambda text: text.replace("  data/", "  ./data/")),
    edited("star", lambda text: text.replace("  data/", " *data/")),
    edited("tabs", lambda text: text.replace("  data/", "\tdata/")),
    edited("upper_case", lambda text: "".join(line[:64].upper() + line[64:] for line in text.splitlines(keepends=True))),
    edited("percent_sign", lambda text: text.replace("100%", "100%25")),
    edited("no_final_line_end", str.rstrip),
    edited("byte_order_mark_of_a_manifest", lambda text: "\ufeff" + text),
]
VERSION = without_tags(lambda bag: rewrite(bag / "bagit.txt", lambda text: text.replace("1.0", ".97")))
INVALID: list[tuple[Callable[[Path], None], str]] = [
    (gone, "missing"), (more, "unlisted-payload"), (other, "digest"), (tag, "digest"), (no_tag_file, "missing"),
    (edited("twice", lambda text: text + line_of(text, "loss")), "twice"),
    (edited("twice_otherwise", lambda text: text + "0" * 10 + line_of(text, "loss")[10:]), "contradiction"),
    (edited("not_all", lambda text: text.replace(line_of(text, "loss"), "")), "unlisted-payload"),
    (edited("dots", lambda text: text.replace("data/loss.csv", "data/../../loss.csv")), "outside"),
    (edited("home", lambda text: text.replace("data/loss.csv", "~/loss.csv")), "outside"),
    (edited("home_of_somebody", lambda text: text.replace("data/loss.csv", "~root/loss.csv")), "outside"),
    (edited("absolute", lambda text: text.replace("data/loss.csv", "/etc/passwd")), "outside"),
    (edited("drive", lambda text: text.replace("data/loss.csv", "C:\\loss.csv")), "outside"),
    (edited("torn", lambda text: text[:-20] + "\n"), "unlisted-payload"),
    (edited("short_digest", lambda text: text[1:]), "line"),
    (without_tags(lambda bag: (bag / "bagit.txt").unlink()), "bag"),
    (without_tags(lambda bag: rewrite(bag / "bagit.txt", lambda text: "\ufeff" + text)), "bag"),
    (VERSION, "bag"),
    (without_tags(lambda bag: rewrite(bag / "bagit.txt", lambda text: text.replace("UTF-8", "rot13"))), "bag"),
    (without_tags(lambda bag: rewrite(bag / "bag-info.txt", lambda text: text.replace("Oxum: ", "Oxum: 1"))), "payload-oxum"),
    (lambda bag: write(bag, {"fetch.txt": "https://example.org/x - data/x\n"}), "not-fetched"),
    (lambda bag: write(bag, {"fetch.txt": "https://example.org/x - ../x\n"}), "outside"),
    (lambda bag: write(bag, {"fetch.txt": "data/x\n"}), "line"),
]


@pytest.mark.parametrize("algorithms", [("sha256",), ("sha256", "sha512"), ("md5",)], ids="-".join)
def test_a_bag_as_the_library_makes_it(algorithms: tuple[str, ...], tmp_path: Path) -> None:
    result = checked(made_bag(tmp_path / "bag", algorithms).parent)
    assert (result.outcome, found(result)) == (Outcome.PASSED, [])
    assert ("fixity.weak" in {finding.rule for finding in result.findings}) is (algorithms == ("md5",))


@pytest.mark.parametrize("change", VALID, ids=lambda change: change.__name__)
def test_a_valid_bag(change: Callable[[Path], None], tmp_path: Path) -> None:
    bag = made_bag(tmp_path / "bag")
    change(bag)
    result = checked(tmp_path)
    assert (result.outcome, found(result)) == (Outcome.PASSED, [])


@pytest.mark.parametrize("number", range(len(INVALID)))
def test_an_invalid_bag(number: int, tmp_path: Path) -> None:
    change, rule = INVALID[number]
    bag = made_bag(tmp_path / "bag")
    rewrite(bag / "bagit.txt", lambda text: text.replace("0.97", "1.0"))
    (bag / "tagmanifest-sha256.txt").write_text(  # as the changed declaration needs it
        "".join(f"{sha((bag / name).read_bytes())} {name}\n" for name in ("bag-info.txt", "bagit.txt", "manifest-sha256.txt")))
    (bag / "tagmanifest-sha512.txt").unlink()
    assert checked(tmp_path).outcome is Outcome.PASSED
    change(bag)
    result = checked(tmp_path)
    assert result.outcome is Outcome.FAILED
    assert rule in {name for name, _ in found(result)}, result.findings


def test_what_a_nested_bag_says_is_content(tmp_path: Path) -> None:
    inner = made_bag(tmp_path / "inner")
    (inner / "data/loss.csv").write_text("")
    bagit.make_bag(str(tmp_path), checksums=["sha256"])
    result = checked(tmp_path)
    assert result.outcome is Outcome.PASSED
    assert ("digest", "data/inner/data/loss.csv") in found(result)  # a warning


# ---- lists ---------------------------------------------------------------------------------------------------


def test_every_offending_file_is_named(tmp_path: Path) -> None:
    files = {f"notes/{number:03}.md": f"{number}\n" for number in range(300)}
    write(tmp_path, files)
    lines = [f"{sha(text.encode())}  {path}\n" for path, text in files.items()]
    write(tmp_path, {"SHA256SUMS": "".join(lines)})
    assert found(checked(tmp_path)) == []
    spoilt = sorted(random.Random(0).sample(sorted(files), 60))
    for path in spoilt[:30]:
        (tmp_path / path).unlink()
    for path in spoilt[30:]:
        (tmp_path / path).write_text("   \n"[:len(files[path])].replace(" ", "x"))
    assert sorted(place for _, place in found(checked(tmp_path))) == spoilt


def test_many_offending_files_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judge, "MOST", 10)
    write(tmp_path, {"SHA256SUMS": "".join(f"{DIGEST}  {number}.md\n" for number in range(30))})
    findings = [finding for finding in checked(tmp_path).findings if finding.rule == "fixity.missing"]
    assert len(findings) == 11
    assert "30 such findings in all" in findings[-1].message


def test_odd_names(tmp_path: Path) -> None:
    names = ["two\nlines", "back\\slash", "*star", " blank ", "%25", "(1) = x", os.fsdecode(b"\xff\xfe")]
    for name in names:
        (tmp_path / name).write_text(name, errors="surrogateescape")
    lines = b"".join(("\\" if any(c in name for c in "\n\\") else "").encode() + sha(os.fsencode(name)).encode() + b"  "
                     + os.fsencode(name.replace("\\", "\\\\").replace("\n", "\\n")) + b"\n" for name in names)
    write(tmp_path, {"SHA256SUMS": lines})
    result = checked(tmp_path)
    assert (result.outcome, found(result)) == (Outcome.PASSED, [])
    (tmp_path / names[0]).write_text("two\nLines")
    assert [rule for rule, _ in found(checked(tmp_path))] == ["digest"]


@pytest.mark.parametrize("name", ["/etc/passwd", "../secret", "notes/../../secret", "~/secret", r"\\server\share", r"C:\secret"])
def test_nothing_outside_is_read(name: str, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    write(tmp_path / "out", {"SHA256SUMS": f"{sha(b'secret')}  {name}\n", "notes/a.md": "a"})
    assert found(checked(tmp_path / "out")) == [("outside", "SHA256SUMS:1")]


def test_a_link_out_of_the_campaign_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    write(tmp_path / "out", {"SHA256SUMS": f"{sha(b'secret')}  link\n"})
    (tmp_path / "out/link").symlink_to("../secret")
    assert found(checked(tmp_path / "out")) == [("missing", "link")]


def test_a_list_that_is_a_dead_link_or_garbage(tmp_path: Path) -> None:
    (tmp_path / "SHA256SUMS").symlink_to("nowhere")
    write(tmp_path, {"x.sha256": bytes(range(256)) * 100, "y.sha256": b"\n" * 5000 + b"a\n" * 5000})
    rules = collections.Counter(rule for rule, _ in found(checked(tmp_path)))
    assert rules["list-absent"] == 1
    assert rules["line"] <= judge.MOST + 1


# ---- how often a file is read --------------------------------------------------------------------------------


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> collections.Counter[tuple[int, str]]:
    """How often this process took a digest, by inode and algorithm."""
    counts: collections.Counter[tuple[int, str]] = collections.Counter()
    real = hashing.digests

    def counting(descriptor: int, algorithms: Any, *more: Any) -> Any:
        counts.update((os.fstat(descriptor).st_ino, name) for name in algorithms)
        return real(descriptor, algorithms, *more)

    monkeypatch.setattr(hashing, "digests", counting)
    return counts


@contextlib.contextmanager
def reloading(jobs: list[Job]) -> Iterator[Any]:
    with Reloader(Limits(timeout=60.0, memory=1 << 28, threads=1)) as reloader:
        def run(job: Job, progress: Any) -> Answer:
            jobs.append(job)
            return reloader.run(job, progress)

        yield run


@pytest.mark.parametrize("report", [False, True])
@pytest.mark.parametrize("declared", [False, True])
def test_no_file_is_hashed_twice(report: bool, declared: bool, tmp_path: Path,
                                 hashed: collections.Counter[tuple[int, str]]) -> None:
    made = campaigns.write(tmp_path)
    if declared:
        examples.declare(made)
        examples.sums(made, LAST, METRICS, WEIGHTS)
        examples.sums(made, METRICS, name="SHA512SUMS", algorithm="sha512")
    os.link(made / METRICS, made / "runs/control/copy.json")
    made.add("control/copy", "metrics", "runs/control/copy.json")
    campaign = snapshot.campaign(snapshot.take(made.save().directory), Asked())
    jobs: list[Job] = []
    digests: dict[str, str | None] = {}
    with reloading(jobs) as run:
        evidence = Files(campaign.inventory, run, digest=report)
        for pair in checks.expected(campaign):
            digests |= {file.path: file.sha256 for file in run_check(campaign, pair, evidence).files if file.sha256}
    in_child = {entry.inode for job in jobs if job.digest for file in job.files
                if (entry := campaign.inventory.by_path[file.path])}
    assert set(hashed.values()) <= {1}
    assert not in_child & {inode for inode, _ in hashed}, "what the reload has read is not read again"
    inodes = {path: campaign.inventory.by_path[path].inode for path in (LAST, METRICS, WEIGHTS)}
    assert in_child == ({inodes[LAST], inodes[WEIGHTS]} if report or declared else set())
    assert ((inodes[METRICS], "sha256") in hashed) is (report or declared)
    assert {name for _, name in hashed} == ({"sha256"} if report or declared else set()) | ({"sha512"} if declared else set())
    wanted = (LAST, METRICS, WEIGHTS, "runs/control/copy.json") if report or declared else ()
    assert digests == {path: examples.digest(made / path) for path in wanted}


def test_fixity_alone_reloads_nothing(tmp_path: Path) -> None:
    made = campaigns.write(tmp_path / "out")
    examples.declare(made)
    made.save()
    (made / LAST).write_bytes((made / LAST).read_bytes()[::-1])
    session = pytest_session(tmp_path, "--campaign-dir=out", "-k", "fixity", "-v", "--campaign-report=report.json")
    assert session.status == 1
    assert (session.counts["failed"], session.counts["passed"]) == (1, 3)
    report = json.loads((tmp_path / "report.json").read_text())
    by_id = {deliverable["id"]: deliverable for deliverable in report["deliverables"]}
    assert {finding["rule"] for finding in by_id["control/last"]["findings"]} >= {"fixity.digest", "fixity.compared"}
    assert by_id["variant/weights"]["files"][0]["sha256"] == examples.digest(made / WEIGHTS)
    others = [check for d in report["deliverables"] for check in d["checks"] if check["check"] != "fixity"]
    assert {check["reason"] for check in others} == {"did not run"}


@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_a_file_that_changes_while_it_is_read(when: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "big.bin"
    file.write_bytes(bytes(6 << 20))
    (tmp_path / "SHA256SUMS").write_text(f"{sha(bytes(6 << 20))}  big.bin\n")
    assert checked(tmp_path).outcome is Outcome.PASSED
    campaign = snapshot.campaign(snapshot.take(tmp_path), Asked())
    real = inventory.open_file

    def changing(root: str, path: str, expected: Any) -> int:
        if path == "big.bin" and when == "before":
            os.replace(shutil.copy(file, tmp_path / "other"), file)
        descriptor = real(root, path, expected)
        if path == "big.bin":
            with open(file, "ab") as stream:
                stream.write(b"more")
        return descriptor

    monkeypatch.setattr(inventory, "open_file", changing)
    result = run_check(campaign, Pair(None, "fixity"), Files(campaign.inventory, nobody, digest=False))
    assert found(result) == [("changed", "big.bin")]


def test_a_writer_that_runs_while_the_directory_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "big.bin").write_bytes(bytes(1 << 20))
    real = inventory.open_file

    def changing(root: str, path: str, expected: Any) -> int:
        descriptor = real(root, path, expected)
        with open(tmp_path / path, "ab") as stream:
            stream.write(b"more")
        return descriptor

    monkeypatch.setattr(inventory, "open_file", changing)
    assert snapshot.take(tmp_path).units == ()


def test_large_files_in_threads(tmp_path: Path) -> None:
    contents = {f"{number}.bin": bytes([number]) * ((5 << 20) + number) for number in range(5)}
    write(tmp_path, contents | {"SHA256SUMS": "".join(f"{sha(data)}  {name}\n" for name, data in contents.items())})
    assert checked(tmp_path).outcome is Outcome.PASSED
    with open(tmp_path / "3.bin", "r+b") as stream:
        stream.seek(4 << 20)
        stream.write(b"\0")
    assert found(checked(tmp_path)) == [("digest", "3.bin")]


# ---- sessions ------------------------------------------------------------------------------------------------


def test_an_aborted_run_is_not_rejected(tmp_path: Path) -> None:
    made = campaigns.write(tmp_path / "out")
    examples.declare(made)
    made.run("control").update(status="aborted", abort={"reason": "the loss was NaN"})
    made.manifest["decision"] = {"outcome": "inconclusive", "summary": "The control was aborted.", "based_on": ["control"]}
    made.save()
    (made / METRICS).write_text("{}")
    session = pytest_session(tmp_path, "--campaign-dir=out", "-q")
    assert session.status == 0, session.out


def test_lists_are_no_unclaimed_outputs(tmp_path: Path) -> None:
    out = papers(tmp_path / "out")
    made_bag(out / "archive")
    write(out, {"archive/fetch.txt": ""})
    text = json.loads((out / "manifest.json").read_text())
    text["deliverables"].append({"id": "archive", "kind": "other", "path": "archive/data"})
    write(out, {"manifest.json": json.dumps(text), "SHA256SUMS": f"{sha((out / 'analysis.md').read_bytes())}  analysis.md\n"})
    session = pytest_session(tmp_path, "--campaign-dir=out", "-q", "--campaign-report=report.json")
    assert session.status == 0, session.out
    assert "unclaimed" not in session.out
    report = json.loads((tmp_path / "report.json").read_text())
    notes = {d["id"]: [f["message"] for f in d["findings"] if f["rule"] == "fixity.compared"] for d in report["deliverables"]}
    assert notes["analysis"] == ["compared: SHA-256 of 1 file (of 1 file), with SHA256SUMS"]


@pytest.fixture(scope="module")
def reviewed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the report of an accepted campaign."""
    folder = tmp_path_factory.mktemp("reviewed")
    papers(folder / "out")
    session = pytest_session(folder, "--campaign-dir=out", "-q", "--campaign-report=report.json")
    assert session.status == 0, session.out
    return folder


def test_nothing_changed_since(reviewed: Path, tmp_path: Path) -> None:
    papers(tmp_path / "moved")
    for more in ([], ["-n2"]):
        session = pytest_session(tmp_path, "--campaign-dir=moved", "-q", f"--campaign-baseline={reviewed / 'report.json'}", *more)
        assert session.status == 0, session.out


def test_what_changed_since(reviewed: Path, tmp_path: Path) -> None:
    out = papers(tmp_path / "out")
    write(out, {"runs/control/figures/loss.svg": "<SVG/>", "runs/control/figures/more.svg": "<svg/>"})
    text = json.loads((out / "manifest.json").read_text())
    text["deliverables"] = []
    write(out, {"manifest.json": json.dumps(text)})
    (tmp_path / "pytest.ini").write_text(f"[pytest]\ncampaign_baseline = {os.path.relpath(reviewed / 'report.json', tmp_path)}\n")
    session = pytest_session(tmp_path, "--campaign-dir=out", "-q", "--campaign-report=report.json")
    assert session.status == 1
    report = json.loads((tmp_path / "report.json").read_text())
    figures = next(d for d in report["deliverables"] if d["id"] == "control/figures")
    assert {(f["rule"], f["path"], f["level"]) for f in figures["findings"]} >= {
        ("fixity.since-baseline", "runs/control/figures/loss.svg", "error"),
        ("fixity.added-since-baseline", "runs/control/figures/more.svg", "warning"),
        ("fixity.verdict-changed", "runs/control/figures", "note")}
    assert {f["rule"] for f in report["findings"]} >= {"fixity.gone-since-baseline", "fixity.verdict-changed"}
    assert "was accepted" in session.out


def no_report(text: str) -> str:
    return "{}"


def cut(text: str) -> str:
    return text[:-20]


def interrupted(text: str) -> str:
    return text.replace('"complete": true', '"complete": false')


def digest_of_nothing(text: str) -> str:
    return text.replace('"sha256": "', '"sha256": "x', 1)


def misspelt(text: str) -> str:
    return text.replace('"inventory"', '"inventry"')


@pytest.mark.parametrize(("spoil", "said"), [
    (no_report, "no JSON report"), (cut, "--campaign-baseline"), (interrupted, "incomplete"), (misspelt, "no valid report"),
    (digest_of_nothing, "no list of files")])
def test_a_baseline_that_is_none(spoil: Callable[[str], str], said: str, reviewed: Path, tmp_path: Path) -> None:
    papers(tmp_path / "out")
    (tmp_path / "report.json").write_text(spoil((reviewed / "report.json").read_text()))
    session = pytest_session(tmp_path, "--campaign-dir=out", "--campaign-baseline=report.json")
    assert (session.status, session.out) == (4, "")
    assert said in session.err


def test_which_campaign_of_a_report_is_meant(reviewed: Path) -> None:
    raw = json.loads((reviewed / "report.json").read_text())
    del raw["deliverables"], raw["findings"]
    raw["campaigns"] = [raw["campaigns"][0] | {"campaign": name, "directory": f"/{name}/{number}"}
                        for name, number in (("a", 1), ("b", 1), ("b", 2))]
    read = baseline.read(json.dumps(raw).encode(), "report.json")
    chosen = {(name, place): baseline.matching(read, name, place).directory
              for name, place in (("a", "/x"), ("b", "/b/2"), ("b", "/x"), ("c", "/a/1"), ("c", "/x"))}
    assert list(chosen.values()) == ["/a/1", "/b/2", "", "/a/1", ""]


