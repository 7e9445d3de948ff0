"""Examples of the check ``fixity``."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from campaigns import LAST, METRICS, WEIGHTS

from . import BASELINE, Level, Verdict, Written, faulty, sound

NOTES = "notes/loss.md"
COMPOSED, DECOMPOSED = "caf\u00e9.md", "cafe\u0301.md"
BAG = "archive"


def digest(path: Path, algorithm: str = "sha256") -> str:
    return hashlib.new(algorithm, path.read_bytes()).hexdigest()


def listed(made: Written, *files: str) -> list[dict[str, object]]:
    return [{"path": file, "bytes": (made / file).stat().st_size, "sha256": digest(made / file)} for file in files]


def declare(made: Written) -> None:
    """Sizes and digests of everything stand in the manifest."""
    for id, file in (("control/last", LAST), ("control/metrics", METRICS), ("variant/weights", WEIGHTS)):
        made.deliverable(id)["files"] = listed(made, file)


def sums(made: Written, *files: str, name: str = "SHA256SUMS", algorithm: str = "sha256") -> None:
    (made / name).write_text("".join(f"{digest(made / file, algorithm)}  {file}\n" for file in files))


def bag(made: Written, version: str = "1.0") -> Path:
    """A bag that is delivered as a whole."""
    folder = made / BAG
    (folder / "data").mkdir(parents=True)
    (folder / "data/loss.csv").write_text("step,loss\n1,0.5\n")
    (folder / "data/notes.md").write_text("Flat.\n")
    (folder / "bagit.txt").write_text(f"BagIt-Version: {version}\nTag-File-Character-Encoding: UTF-8\n")
    (folder / "bag-info.txt").write_text("Payload-Oxum: 22.2\n")
    lines = "".join(f"{digest(folder / 'data' / name)}  data/{name}\n" for name in ("loss.csv", "notes.md"))
    (folder / "manifest-sha256.txt").write_text(lines)
    made.add("control/archive", "other", BAG)
    return folder


def accepted(made: Written, id: str, path: str, *files: str) -> dict[str, object]:
    """An accepted deliverable in a report."""
    return {"id": id, "kind": "other", "path": path, "format": None, "purpose": None, "priority": "essential",
            "verdict": "accepted", "depth": None, "checks": [], "files": listed(made, *files), "findings": []}


def earlier(made: Written, **changes: Any) -> None:
    """A report in which everything that lies there now was accepted; ``changes`` are changes of the campaign in it."""
    files = {"control/last": LAST, "control/metrics": METRICS, "variant/weights": WEIGHTS}
    deliverables = [accepted(made, id, path, path) for id, path in files.items() if (made / path).exists()]
    counts = {"accepted": 3, "rejected": 0, "missing": 0, "unverified": 0, "aborted": 0, "total": 3, "distinct": 0}
    campaign = {
        "directory": "/archive/out", "campaign": "width-ablation", "verdict": "accepted", "partial": None, "plan": None,
        "counts": counts, "decision": {"outcome": None, "summary": None, "based_on": [], "point": None, "taken": []},
        "schedule": None, "cost": None, "rehearsals": [],
        "inventory": {"files": 5, "bytes": 5000}, "checks": [], "findings": [], "runs": [],
        "deliverables": deliverables} | changes
    place = made.directory.parent / BASELINE
    place.parent.mkdir(parents=True)
    place.write_text(json.dumps({
        "report_version": 1, "tool": {"version": "0.1.0", "rules": []}, "complete": True, "environment": {}, "isolation": None,
        "started": "2026-11-03T10:15:00Z", "seconds": 1.0, "campaigns": [campaign]}))


def flip(file: Path) -> None:
    """Change one character of a text, not its length."""
    data = bytearray(file.read_bytes())
    data[-3] ^= 1
    file.write_bytes(data)


@faulty("fixity.size", "control/metrics", METRICS)
def a_longer_file(made: Written) -> None:
    declare(made)
    (made / METRICS).write_text('{"loss": 0.125}\n')


@sound("fixity.size", "control/metrics")
def sizes_as_declared(made: Written) -> None:
    made.deliverable("control/metrics")["files"] = [{"path": f"./{METRICS}", "bytes": 15}]


@faulty("fixity.digest", "control/metrics", METRICS)
def another_number_of_the_same_length(made: Written) -> None:
    declare(made)
    (made / METRICS).write_text('{"loss": 0.75}\n')


@faulty("fixity.digest", "control/metrics", METRICS)
def a_list_in_a_folder(made: Written) -> None:
    (made / "runs/control/sha512sum.txt").write_text(f"SHA512 (metrics.json) = {'0' * 128}\n")


@faulty("fixity.digest", None, "data/test.csv")
def a_data_set_that_nobody_delivers(made: Written) -> None:
    (made / "data/test.csv").write_text("id,text\n1,a\n")
    made.manifest["datasets"] = {"test": {"path": "data/test.csv", "key": ["id"], "sha256": "0" * 64}}


@faulty("fixity.digest", "control/metrics", METRICS)
def a_list_whose_name_says_no_algorithm(made: Written) -> None:
    (made / "CHECKSUM").write_text(f"# made on the machine\n{digest(made / LAST)}  {LAST}\n{'0' * 32}  {METRICS}\n")


@sound("fixity.digest", "control/metrics")
def checksums_that_are_no_digests_of_files(made: Written) -> None:
    (made / "checksums.txt").write_text(f"checksums of the runs\n{'0' * 64}  {METRICS}\n")


@faulty("fixity.digest", "control/metrics", METRICS)
def a_list_of_b2sum(made: Written) -> None:
    (made / "B2SUMS").write_text(f"{'0' * 128}  {METRICS}\n")


@sound("fixity.digest", "control/metrics")
def lists_of_b2sum(made: Written) -> None:
    sums(made, LAST, METRICS, name="B2SUMS", algorithm="blake2b")
    short = hashlib.blake2b((made / METRICS).read_bytes(), digest_size=32).hexdigest()
    (made / "b2sum.txt").write_text(f"BLAKE2b-256 ({METRICS}) = {short}\n{short}  {METRICS}\n")


@sound("fixity.digest", "control/metrics")
def all_as_declared(made: Written) -> None:
    declare(made)
    sums(made, LAST, METRICS, WEIGHTS)
    (made / "data/test.csv").write_text("id,text\n1,a\n")
    made.manifest["datasets"] = {"test": {"path": "data/test.csv", "key": ["id"], "sha256": digest(made / "data/test.csv")}}


@faulty("fixity.missing", "control/figures", "figures/two.svg")
def one_of_two_figures(made: Written) -> None:
    for name in ("one", "two"):
        (made / f"figures/{name}.svg").write_text("<svg/>")
    made.add("control/figures", "analysis", "figures", files=listed(made, "figures/one.svg", "figures/two.svg"))
    os.remove(made / "figures/two.svg")


@faulty("fixity.missing", None, "data/test.csv")
def a_listed_file_of_nobody(made: Written) -> None:
    (made / "SHA256SUMS").write_text(f"{'0' * 64}  data/test.csv\n")


@sound("fixity.missing", "control/last")
def a_list_that_lists_itself(made: Written) -> None:
    sums(made, LAST)
    with open(made / "SHA256SUMS", "a") as file:
        file.write(f"{hashlib.sha256().hexdigest()}  SHA256SUMS\n")


@sound("fixity.missing", "control/last")
def a_list_as_seen_from_the_campaign(made: Written) -> None:
    sums(made, LAST, METRICS, name="runs/control/SHA256SUMS")


@sound("fixity.missing", "control/last", campaign=Verdict.ACCEPTED)
def a_useful_file_that_was_not_delivered(made: Written) -> None:
    sums(made, LAST, METRICS)
    made.planned("control/metrics")["priority"] = "useful"
    os.remove(made / METRICS)


@faulty("fixity.contradiction", "control/metrics", METRICS)
def manifest_and_list_disagree(made: Written) -> None:
    declare(made)
    (made / "SHA256SUMS").write_text(f"{'0' * 64}  {METRICS}\n")


@sound("fixity.contradiction", "control/metrics")
def manifest_and_lists_agree(made: Written) -> None:
    declare(made)
    sums(made, METRICS)
    sums(made, METRICS, name="SHA512SUMS", algorithm="sha512")


def rewrite(directory: Path) -> None:
    (directory / METRICS).write_text('{"loss": 0.75}\n')


@faulty("fixity.changed", "control/metrics", METRICS, meanwhile=rewrite)
def a_writer_that_still_runs(made: Written) -> None:
    declare(made)


@sound("fixity.changed", "control/metrics", meanwhile=lambda directory: (directory / METRICS).read_bytes())
def a_reader_that_still_runs(made: Written) -> None:
    declare(made)


@faulty("fixity.unreadable", "control/metrics", METRICS, world="unprivileged")
def no_permission(made: Written) -> None:
    declare(made)
    (made / METRICS).chmod(0)


@sound("fixity.unreadable", "control/metrics", world="unprivileged")
def permission_to_read(made: Written) -> None:
    declare(made)
    (made / METRICS).chmod(0o400)


@faulty("fixity.added", "control/figures", "figures/two.svg")
def a_figure_that_was_added(made: Written) -> None:
    (made / "figures/one.svg").write_text("<svg/>")
    made.add("control/figures", "analysis", "figures", files=listed(made, "figures/one.svg"))
    (made / "figures/two.svg").write_text("<svg/>")


@sound("fixity.added", "control/figures")
def a_list_and_a_readme_that_were_added(made: Written) -> None:
    (made / "figures/one.svg").write_text("<svg/>")
    made.add("control/figures", "analysis", "figures", files=listed(made, "figures/one.svg"))
    sums(made, "figures/one.svg", name="figures/SHA256SUMS")
    (made / "figures/README.md").write_text("One.\n")


@faulty("fixity.line", "control/last", "SHA256SUMS", verdict=Verdict.ACCEPTED)
def a_list_that_was_cut(made: Written) -> None:
    sums(made, LAST, METRICS)
    text = (made / "SHA256SUMS").read_text()
    (made / "SHA256SUMS").write_text(text[:len(text) // 2 + 20])


@sound("fixity.line", "control/last")
def comments_and_blank_lines(made: Written) -> None:
    sums(made, LAST, METRICS)
    (made / "SHA256SUMS").write_text(f"# of 2026-11-03\r\n\r\n{(made / 'SHA256SUMS').read_text()}\r\n")


@sound("fixity.line", "control/last")
def a_digest_beside_its_file(made: Written) -> None:
    (made / f"{LAST}.sha256").write_text(digest(made / LAST).upper())


@faulty("fixity.list-unreadable", "control/last", "SHA256SUMS", verdict=Verdict.ACCEPTED, world="unprivileged")
def a_closed_list(made: Written) -> None:
    sums(made, LAST)
    (made / "SHA256SUMS").chmod(0)


@sound("fixity.list-unreadable", "control/last", world="unprivileged")
def an_open_list(made: Written) -> None:
    sums(made, LAST)
    (made / "SHA256SUMS").chmod(0o400)


@faulty("fixity.list-absent", "control/last", "SHA256SUMS", verdict=Verdict.ACCEPTED)
def a_signature_of_nothing(made: Written) -> None:
    (made / "SHA256SUMS.asc").write_text("-----BEGIN PGP SIGNATURE-----\n")


@faulty("fixity.list-absent", "control/archive", f"{BAG}/manifest-sha256.txt")
def a_bag_without_a_manifest(made: Written) -> None:
    (bag(made) / "manifest-sha256.txt").unlink()


@sound("fixity.list-absent", "control/last")
def a_list_with_its_signature(made: Written) -> None:
    sums(made, LAST)
    (made / "SHA256SUMS.asc").write_text("-----BEGIN PGP SIGNATURE-----\n")
    bag(made)


@faulty("fixity.algorithm", "control/archive", f"{BAG}/manifest-blake3.txt")
def an_algorithm_that_is_not_known(made: Written) -> None:
    folder = bag(made)
    (folder / "manifest-sha256.txt").rename(folder / "manifest-blake3.txt")


@sound("fixity.algorithm", "control/archive")
def an_unknown_algorithm_beside_a_known_one(made: Written) -> None:
    folder = bag(made)
    (folder / "manifest-blake3.txt").write_bytes((folder / "manifest-sha256.txt").read_bytes())


@faulty("fixity.weak", "control/last", LAST)
def md5_alone(made: Written) -> None:
    sums(made, LAST, name="MD5SUMS", algorithm="md5")


@sound("fixity.weak", "control/last")
def md5_and_sha256(made: Written) -> None:
    sums(made, LAST, name="MD5SUMS", algorithm="md5")
    sums(made, LAST)


@faulty("fixity.outside", "control/last", "SHA256SUMS", verdict=Verdict.ACCEPTED)
def an_absolute_path(made: Written) -> None:
    (made / "SHA256SUMS").write_text(f"{digest(made / LAST)}  {made.directory.resolve() / LAST}\n")


@faulty("fixity.outside", "control/archive", f"{BAG}/manifest-sha256.txt")
def a_path_that_leaves_the_bag(made: Written) -> None:
    with open(bag(made) / "manifest-sha256.txt", "a") as file:
        file.write(f"{digest(made / METRICS)}  ../{METRICS}\n")


@faulty("fixity.higher-folder", "control/last", "SHA256SUMS", verdict=Verdict.ACCEPTED)
def a_list_that_was_written_beside_the_directory(made: Written) -> None:
    lines = "".join(f"{digest(made / file)}  ./out-2/{file}\n" for file in (LAST, METRICS, WEIGHTS))
    (made / "SHA256SUMS").write_text(lines)


@sound("fixity.higher-folder", None, campaign=Verdict.REJECTED)
def a_whole_folder_is_gone(made: Written) -> None:
    sums(made, LAST, METRICS)
    with open(made / "SHA256SUMS", "a") as file:
        file.write(f"{'0' * 64}  old/runs/control/metrics.json\n")


@sound("fixity.higher-folder", "control/last")
def a_list_elsewhere_that_was_written_in_the_directory(made: Written) -> None:
    (made / "sums").mkdir()
    sums(made, LAST, METRICS, name="sums/SHA256SUMS")


@sound("fixity.outside", "control/last")
def a_list_in_a_folder_of_its_own(made: Written) -> None:
    (made / "checksums/SHA256SUMS").write_text(f"{digest(made / LAST)}  ../{LAST}\n{digest(made / METRICS)}  ./../{METRICS}\n")


@faulty("fixity.twice", "control/archive", f"{BAG}/manifest-sha256.txt")
def two_lines_for_a_file_of_a_bag(made: Written) -> None:
    manifest = bag(made) / "manifest-sha256.txt"
    manifest.write_text(manifest.read_text() * 2)


@faulty("fixity.twice", "control/archive", f"{BAG}/manifest-sha256.txt", level=Level.WARNING)
def two_lines_in_an_old_bag(made: Written) -> None:
    manifest = bag(made, "0.97") / "manifest-sha256.txt"
    manifest.write_text(manifest.read_text() * 2)


@sound("fixity.twice", "control/last")
def two_lines_in_a_plain_list(made: Written) -> None:
    sums(made, LAST, LAST)


@faulty("fixity.bag", "control/archive", f"{BAG}/bagit.txt")
def a_byte_order_mark(made: Written) -> None:
    declaration = bag(made) / "bagit.txt"
    declaration.write_bytes(b"\xef\xbb\xbf" + declaration.read_bytes())


@faulty("fixity.bag", "control/archive", f"{BAG}/bagit.txt")
def no_declaration(made: Written) -> None:
    (bag(made) / "bagit.txt").unlink()


@sound("fixity.bag", "control/archive")
def line_ends_of_windows(made: Written) -> None:
    folder = bag(made)
    for name in ("bagit.txt", "manifest-sha256.txt", "bag-info.txt"):
        (folder / name).write_bytes((folder / name).read_bytes().replace(b"\n", b"\r\n"))


@sound("fixity.bag", "control/last")
def a_manifest_of_something_else(made: Written) -> None:
    (made / "manifest-v2.txt").write_text("What is in version 2.\n")
    made.add("control/manifest", "other", "manifest-v2.txt")


@faulty("fixity.payload-oxum", "control/archive", f"{BAG}/bag-info.txt")
def fewer_bytes_than_the_bag_says(made: Written) -> None:
    (bag(made) / "bag-info.txt").write_text("Payload-Oxum: 22.3\n")


@sound("fixity.payload-oxum", "control/archive")
def a_bag_that_does_not_say_how_much(made: Written) -> None:
    (bag(made) / "bag-info.txt").write_text("Contact-Name: Payload-Oxum: 1.1\n")


@faulty("fixity.not-fetched", "control/archive", f"{BAG}/data/notes.md")
def a_file_that_nobody_fetched(made: Written) -> None:
    folder = bag(made)
    (folder / "fetch.txt").write_text("https://example.org/notes.md 6 data/notes.md\n")
    (folder / "data/notes.md").unlink()


@sound("fixity.not-fetched", "control/archive")
def a_file_that_was_fetched(made: Written) -> None:
    (bag(made) / "fetch.txt").write_text("https://example.org/notes.md 6 data/notes.md\n")


@faulty("fixity.unlisted-payload", "control/archive", f"{BAG}/data/extra.txt")
def a_file_that_the_bag_does_not_list(made: Written) -> None:
    (bag(made) / "data/extra.txt").write_text("later\n")


@sound("fixity.unlisted-payload", "control/archive")
def a_tag_file_that_no_manifest_lists(made: Written) -> None:
    (bag(made) / "extra.txt").write_text("later\n")


@faulty("fixity.unicode-form", "control/note", "SHA256SUMS", verdict=Verdict.ACCEPTED)
def a_list_from_macos(made: Written) -> None:
    (made / COMPOSED).write_text("Open.\n")
    made.add("control/note", "other", COMPOSED)
    (made / "SHA256SUMS").write_text(f"{digest(made / COMPOSED)}  {DECOMPOSED}\n")


@sound("fixity.unicode-form", "control/note")
def a_list_in_the_form_of_the_file(made: Written) -> None:
    (made / DECOMPOSED).write_text("Open.\n")
    made.add("control/note", "other", DECOMPOSED)
    sums(made, DECOMPOSED)


@faulty("fixity.nothing-declared", "control/last", LAST)
def no_digest_anywhere(made: Written) -> None:
    pass


@sound("fixity.nothing-declared", "control/last")
def a_size_at_least(made: Written) -> None:
    for id, file in (("control/last", LAST), ("control/metrics", METRICS), ("variant/weights", WEIGHTS)):
        made.deliverable(id)["files"] = [{"path": file, "bytes": (made / file).stat().st_size}]


@faulty("fixity.compared", "control/last", LAST)
def digests_of_everything(made: Written) -> None:
    declare(made)


@sound("fixity.compared", "control/last")
def nothing_to_compare_with(made: Written) -> None:
    pass


@faulty("fixity.since-baseline", "control/metrics", METRICS, baseline=True)
def other_metrics_under_the_old_name(made: Written) -> None:
    earlier(made)
    rewrite(made.directory)


@faulty("fixity.since-baseline", "control/metrics", METRICS, baseline=True)
def other_metrics_with_a_new_digest(made: Written) -> None:
    earlier(made)
    rewrite(made.directory)
    declare(made)


@sound("fixity.since-baseline", "control/metrics", baseline=True)
def all_as_it_was(made: Written) -> None:
    earlier(made)


@faulty("fixity.since-baseline", "control/metrics", METRICS, baseline=True, level=Level.NOTE)
def what_was_rejected_is_mended(made: Written) -> None:
    earlier(made)
    report = made.directory.parent / BASELINE
    report.write_text(report.read_text().replace('"accepted", "depth"', '"rejected", "depth"'))
    rewrite(made.directory)


@faulty("fixity.added-since-baseline", "control/metrics", "runs/metrics/more.json", baseline=True)
def a_file_more(made: Written) -> None:
    os.renames(made / METRICS, made / "runs/metrics/metrics.json")
    made.deliverable("control/metrics").update(kind="other", path="runs/metrics")
    made.planned("control/metrics")["kind"] = "other"
    earlier(made, deliverables=[accepted(made, "control/metrics", "runs/metrics", "runs/metrics/metrics.json")])
    (made / "runs/metrics/more.json").write_text('{"loss": 0.5}\n')


@sound("fixity.added-since-baseline", "control/best", baseline=True)
def a_deliverable_more(made: Written) -> None:
    earlier(made)
    (made / NOTES).write_text("Flat.\n")
    made.add("control/best", "analysis", NOTES)


@faulty("fixity.gone-since-baseline", "control/last", METRICS, baseline=True, verdict=Verdict.ACCEPTED)
def a_manifest_that_no_longer_lists_it(made: Written) -> None:
    earlier(made)
    made.run("control")["deliverables"].pop()
    made.planned_run("control")["deliverables"].pop()


@faulty("fixity.gone-since-baseline", "control/metrics", METRICS, baseline=True, verdict=Verdict.MISSING)
def useful_and_gone(made: Written) -> None:
    earlier(made)
    made.planned("control/metrics")["priority"] = "useful"
    os.remove(made / METRICS)


@sound("fixity.gone-since-baseline", "control/last", baseline=True)
def all_there_in_another_order(made: Written) -> None:
    earlier(made)
    made.manifest["runs"].reverse()


@faulty("fixity.other-baseline", "control/last", "manifest.json", baseline=True, verdict=Verdict.ACCEPTED)
def the_report_of_another_campaign(made: Written) -> None:
    earlier(made, campaign="depth-ablation")


@sound("fixity.other-baseline", "control/last", baseline=True)
def the_report_of_another_directory(made: Written) -> None:
    earlier(made, directory="/elsewhere")


@faulty("fixity.verdict-changed", "control/metrics", METRICS, baseline=True, verdict=Verdict.REJECTED, campaign=Verdict.REJECTED)
def accepted_then_and_rejected_now(made: Written) -> None:
    earlier(made)
    rewrite(made.directory)


@sound("fixity.verdict-changed", "control/metrics", baseline=True)
def accepted_then_and_now(made: Written) -> None:
    earlier(made)
