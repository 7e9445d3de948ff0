"""Which files and which checkpoints belong to which deliverable."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import campaigns
import pytest
from campaigns import LAST, METRICS, WEIGHTS, Written

from pytest_campaign import snapshot
from pytest_campaign.campaign import Asked, Campaign


def seen(made: Written) -> Campaign:
    return snapshot.campaign(snapshot.take(made.save().directory), Asked())


def belongings(campaign: Campaign, id: str) -> tuple[set[str], set[str]]:
    """The files and the checkpoints of a deliverable."""
    deliverable = campaign.by_id[id]
    return set(campaign.files_of(deliverable)), {unit.path for unit in campaign.units_of(deliverable)}


def test_a_file(tmp_path: Path) -> None:
    campaign = seen(campaigns.write(tmp_path))
    assert belongings(campaign, "control/last") == ({LAST}, {LAST})
    assert belongings(campaign, "control/metrics") == ({METRICS}, set())


@pytest.mark.parametrize("path", ["runs", "runs/", "./runs", "runs/."])
def test_a_folder_without_the_deliverables_in_it(tmp_path: Path, path: str) -> None:
    made = campaigns.write(tmp_path)
    (made / "runs/notes.txt").write_text("slow")
    made.add("all", "other", path)
    campaign = seen(made)
    assert belongings(campaign, "all") == ({"runs/notes.txt"}, set())
    assert belongings(campaign, "variant/weights") == ({WEIGHTS}, {WEIGHTS})


@pytest.mark.parametrize("path", [".", "./"])
def test_the_campaign_directory_itself(tmp_path: Path, path: str) -> None:
    made = campaigns.write(tmp_path)
    (made / WEIGHTS).rename(made / "model.safetensors")
    made.deliverable("variant/weights")["path"] = path
    campaign = seen(made)
    assert belongings(campaign, "variant/weights") == (
        {"manifest.json", "plan.json", "model.safetensors"}, {"model.safetensors"})
    assert belongings(campaign, "control/last") == ({LAST}, {LAST})


def test_one_path_that_is_delivered_twice(tmp_path: Path) -> None:
    made = campaigns.write(tmp_path)
    made.add("control/to-resume", "checkpoint", f"./{LAST}", purpose="resume")
    campaign = seen(made)
    assert belongings(campaign, "control/last") == belongings(campaign, "control/to-resume") == ({LAST}, {LAST})


def a_path_through_a_link(made: Written) -> None:
    (made / "runs/variant").rename(made / "first")
    (made.directory / "runs/variant").symlink_to("../first")


def a_link_to_the_file(made: Written) -> None:
    (made / WEIGHTS).rename(made / "first/model.safetensors")
    (made / WEIGHTS).symlink_to("../../first/model.safetensors")


def an_absolute_link(made: Written) -> None:
    (made / WEIGHTS).rename(made / "first/model.safetensors")
    (made / WEIGHTS).symlink_to(made / "first/model.safetensors")


@pytest.mark.parametrize("move", [a_path_through_a_link, a_link_to_the_file, an_absolute_link])
def test_links_inside(tmp_path: Path, move: Callable[[Written], None]) -> None:
    made = campaigns.write(tmp_path)
    move(made)
    campaign = seen(made)
    assert belongings(campaign, "variant/weights") == ({"first/model.safetensors"}, {"first/model.safetensors"})


def test_a_link_to_a_folder_elsewhere(tmp_path: Path) -> None:
    made = campaigns.write(tmp_path)
    (made / WEIGHTS).rename(made / "shared/model.safetensors")
    (made / "runs/variant/config.json").write_text("{}")
    (made / "runs/variant/weights").symlink_to("../../shared")
    (made / "runs/variant/up").symlink_to("..")
    made.deliverable("variant/weights")["path"] = "runs/variant"
    files, units = belongings(seen(made), "variant/weights")
    assert units == {"shared/model.safetensors"}
    assert {"runs/variant/config.json", "runs/variant/weights/model.safetensors"} <= files
    assert "shared/model.safetensors" not in files  # it is seen under the path of the link


def test_a_link_that_leaves_leads_nowhere(tmp_path: Path) -> None:
    made = campaigns.write(tmp_path / "campaign")
    (made / WEIGHTS).rename(tmp_path / "model.safetensors")
    (made / WEIGHTS).symlink_to(tmp_path / "model.safetensors")
    campaign = seen(made)
    assert campaign.absent(campaign.by_id["variant/weights"])
    assert belongings(campaign, "variant/weights") == (set(), set())


def test_a_path_that_breaks_the_grammar_leads_nowhere(tmp_path: Path) -> None:
    made = campaigns.write(tmp_path)
    made.deliverable("control/last")["path"] = str(tmp_path / LAST)
    campaign = seen(made)
    assert campaign.absent(campaign.by_id["control/last"])


def test_the_snapshot_survives_the_way_between_processes(tmp_path: Path) -> None:
    made = campaigns.write(tmp_path).save()
    (made / "plan.json").unlink()
    (made / "plan.json").symlink_to("/nowhere")
    taken = snapshot.take(made.directory)
    text = taken.to_text()
    assert text.isascii()
    assert "\n" not in text
    assert json.loads(text)
    assert snapshot.Snapshot.from_text(text) == taken
