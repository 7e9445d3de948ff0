"""Examples of the check ``manifest``."""

from __future__ import annotations

import shutil

from campaigns import METRICS, WEIGHTS

from . import Verdict, Written, faulty, sound

UNKNOWN_FATE = {"subject": "control/last", "verdict": Verdict.UNVERIFIED}  # what the plan promises, without a manifest
STILL_CHECKED = {"subject": WEIGHTS, "verdict": Verdict.ACCEPTED}  # what is discovered


@faulty("manifest.absent", path="manifest.json", **STILL_CHECKED)
def no_manifest(made: Written) -> None:
    made.save()
    (made / "manifest.json").unlink()


@faulty("manifest.absent", path="manifest.json", **UNKNOWN_FATE)
def no_manifest_but_a_plan(made: Written) -> None:
    made.save()
    (made / "manifest.json").unlink()


@sound("manifest.absent", "control/last")
def a_manifest_that_is_a_link_inside(made: Written) -> None:
    made.save()
    (made / "manifest.json").rename(made / "documents/manifest.json")
    (made / "manifest.json").symlink_to("documents/manifest.json")


@faulty("manifest.empty-directory", path="")
def nothing(made: Written) -> None:
    made.saved = True
    shutil.rmtree(made.directory)
    made.directory.mkdir()


@faulty("manifest.empty-directory", path="")
def only_folders(made: Written) -> None:
    nothing(made)
    (made / "runs/control/checkpoint/").mkdir(parents=True)


@sound("manifest.empty-directory", WEIGHTS, campaign=Verdict.REJECTED)
def one_file(made: Written) -> None:
    no_manifest(made)
    (made / "plan.json").unlink()
    shutil.rmtree(made / "runs/control")


@faulty("manifest.no-file", path="manifest.json", **UNKNOWN_FATE)
def a_manifest_that_is_a_dead_link(made: Written) -> None:
    no_manifest(made)
    (made / "manifest.json").symlink_to("/mnt/shared/manifest.json")


@faulty("manifest.no-file", path="manifest.json", **STILL_CHECKED)
def a_manifest_that_is_a_folder(made: Written) -> None:
    no_manifest(made)
    (made / "manifest.json").mkdir()


@sound("manifest.no-file", "control/last")
def a_manifest_that_is_a_file(made: Written) -> None:
    made.save()


@faulty("manifest.unreadable", path="manifest.json", world="unprivileged", **UNKNOWN_FATE)
def no_permission(made: Written) -> None:
    made.save()
    (made / "manifest.json").chmod(0)


@sound("manifest.unreadable", "control/last", world="unprivileged")
def read_only(made: Written) -> None:
    made.save()
    (made / "manifest.json").chmod(0o400)


@faulty("manifest.directory-not-seen", path="", campaign=Verdict.UNVERIFIED)
def folders_without_end(made: Written) -> None:
    made.manifest["deliverables"] = []
    made.save()
    (made / ("d/" * 401)).mkdir(parents=True)


@faulty("manifest.directory-not-seen", path="", world="unprivileged")
def a_directory_without_permission(made: Written) -> None:
    made.save()
    made.directory.chmod(0)


@sound("manifest.directory-not-seen", "control/last")
def deep_folders(made: Written) -> None:
    (made / ("d/" * 100)).mkdir(parents=True)


@faulty("manifest.syntax", path="manifest.json", **STILL_CHECKED)
def a_comma_too_many(made: Written) -> None:
    made.save()
    text = (made / "manifest.json").read_text()
    (made / "manifest.json").write_text(text.replace("[", "[,", 1))


@faulty("manifest.syntax", path="manifest.json", **UNKNOWN_FATE)
def a_key_that_occurs_twice(made: Written) -> None:
    made.save()
    text = (made / "manifest.json").read_text()
    (made / "manifest.json").write_text(text.replace("{", '{"campaign": "another",', 1))


@faulty("manifest.syntax", path="manifest.json", **UNKNOWN_FATE)
def a_manifest_cut_in_the_middle(made: Written) -> None:
    made.save()
    text = (made / "manifest.json").read_text()
    (made / "manifest.json").write_text(text[: len(text) // 2])


@sound("manifest.syntax", "control/last")
def odd_but_strict_json(made: Written) -> None:
    made.save()
    text = (made / "manifest.json").read_text()
    (made / "manifest.json").write_text("\n\t" + text.replace("\n", "\r\n") + "\r\n\r\n")


@faulty("manifest.schema", path="manifest.json", **UNKNOWN_FATE)
def a_misspelt_property(made: Written) -> None:
    made.deliverable("control/last")["prupose"] = "resume"


@sound("manifest.schema", "control/last")
def a_property_of_ones_own(made: Written) -> None:
    made.deliverable("control/last")["extra"] = {"prupose": "resume"}


@faulty("manifest.path", "control/last", path="manifest.json", verdict=Verdict.MISSING)
def an_absolute_path(made: Written) -> None:
    made.deliverable("control/last")["path"] = str(made / "runs/control/last.pt")


@faulty("manifest.path", "control/last", path="manifest.json", verdict=Verdict.MISSING)
def a_path_that_leaves(made: Written) -> None:
    made.deliverable("control/last")["path"] = f"../{made.directory.name}/runs/control/last.pt"


@sound("manifest.path", "control/last")
def a_path_with_dots_that_stays(made: Written) -> None:
    made.deliverable("control/last")["path"] = "./runs/control/./last.pt"


@faulty("manifest.reference", "control/last", path="manifest.json", verdict=Verdict.ACCEPTED)
def a_base_that_is_not_defined(made: Written) -> None:
    made.deliverable("control/last")["base"] = "tiny"


@faulty("manifest.reference", "control/last", path="manifest.json", verdict=Verdict.ACCEPTED)
def a_corrected_configuration_under_its_old_id(made: Written) -> None:
    made.run("variant")["supersedes"] = "variant"


@faulty("manifest.reference", "control/last", path="manifest.json", verdict=Verdict.ACCEPTED)
def runs_that_repeat_each_other(made: Written) -> None:
    made.run("variant")["repeat_of"] = "control"
    made.run("control")["repeat_of"] = "variant"


@sound("manifest.reference", "control/last")
def a_base_that_is_defined(made: Written) -> None:
    made.deliverable("control/last")["base"] = "tiny"
    made.manifest["bases"] = {"tiny": {"model": "acme/tiny", "revision": "3f1c9a7be02d4586b1e07c55d9aa41f26c8e7d30"}}


@faulty("manifest.todo", "control/last", path="manifest.json", verdict=Verdict.ACCEPTED)
def an_open_entry(made: Written) -> None:
    made.manifest["todo"] = [{"pointer": "/runs/0", "why": "what the run was for"}]


@sound("manifest.todo", "control/last")
def everything_done(made: Written) -> None:
    made.manifest["todo"] = []


@faulty("manifest.nothing-declared", path="manifest.json", campaign=Verdict.REJECTED)
def runs_without_deliverables(made: Written) -> None:
    for run in made.manifest["runs"]:
        run["deliverables"] = []


@sound("manifest.nothing-declared", "summary")
def a_deliverable_of_the_campaign_only(made: Written) -> None:
    made.plan = None
    runs_without_deliverables(made)
    made.add("summary", "metrics", METRICS)
