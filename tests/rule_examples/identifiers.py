"""Examples of the check ``identifiers``."""

from __future__ import annotations

import json
import os
import shutil

from campaigns import LAST, METRICS, WEIGHTS, tensors
from safetensors.torch import save_file

from . import REVIEWER_PLAN, Level, Verdict, Written, faulty, sound


@faulty("identifiers.missing-run", "variant/weights", "manifest.json", verdict=Verdict.MISSING)
def a_run_is_not_listed(made: Written) -> None:
    made.manifest["runs"].pop()


@faulty("identifiers.missing-run", "variant/weights", "manifest.json", level=Level.NOTE, verdict=Verdict.MISSING,
        campaign=Verdict.ACCEPTED)
def an_exploratory_run_is_not_listed(made: Written) -> None:
    made.planned_run("variant")["priority"] = "exploratory"
    made.manifest["runs"].pop()


@sound("identifiers.missing-run", "control/last")
def an_aborted_run_is_listed(made: Written) -> None:
    made.run("variant").update(status="aborted", abort={"reason": "the loss was NaN"}, deliverables=[])
    made.manifest["decision"] = {"outcome": "inconclusive", "summary": "The control alone says little.", "based_on": ["variant"]}


@faulty("identifiers.missing-deliverable", "control/last", "plan.json", verdict=Verdict.MISSING)
def a_deliverable_is_not_listed(made: Written) -> None:
    made.run("control")["deliverables"].pop(0)


@faulty("identifiers.missing-deliverable", "control/metrics", "plan.json", level=Level.NOTE, verdict=Verdict.MISSING,
        campaign=Verdict.ACCEPTED)
def a_useful_deliverable_is_not_listed(made: Written) -> None:
    made.planned("control/metrics")["priority"] = "useful"
    made.run("control")["deliverables"].pop()


@sound("identifiers.missing-deliverable", "variant/weights")
def all_listed_in_another_order(made: Written) -> None:
    made.run("control")["deliverables"].reverse()
    made.manifest["runs"].reverse()


@faulty("identifiers.unplanned-run", "control/last", "manifest.json", verdict=Verdict.ACCEPTED)
def a_renamed_run(made: Written) -> None:
    made.run("variant")["id"] = "Variant-2"


@sound("identifiers.unplanned-run", "control/last")
def a_planned_run_without_outputs(made: Written) -> None:
    made.plan["runs"].append({"id": "pilot", "role": "pilot", "priority": "useful", "deliverables": []})
    made.manifest["runs"].append({"id": "pilot", "status": "completed", "deliverables": []})


@faulty("identifiers.unplanned-run", "variant-2/weights", "manifest.json", level=Level.NOTE)
def a_run_that_repeats_a_planned_one(made: Written) -> None:
    save_file(tensors(2), made / "runs/variant-2/model.safetensors")
    made.manifest["runs"].append({"id": "variant-2", "status": "completed", "repeat_of": "variant", "deliverables": [
        {"id": "weights", "kind": "checkpoint", "path": "runs/variant-2/model.safetensors"}]})


@faulty("identifiers.unplanned-deliverable", "control/best", "manifest.json")
def an_extra(made: Written) -> None:
    shutil.copy(made / LAST, made / "runs/control/best.pt")
    made.run("control")["deliverables"].append({"id": "best", "kind": "checkpoint", "path": "runs/control/best.pt"})


@faulty("identifiers.unplanned-deliverable", "control/last", "manifest.json", level=Level.NOTE)
def a_plan_that_only_names_the_runs(made: Written) -> None:
    for run in made.plan["runs"]:
        run.pop("deliverables", None)


@sound("identifiers.unplanned-deliverable", "control/best")
def an_extra_that_is_planned(made: Written) -> None:
    shutil.copy(made / LAST, made / "runs/control/best.pt")
    made.add("control/best", "checkpoint", "runs/control/best.pt")


@faulty("identifiers.other-kind", "control/last", "manifest.json")
def a_log_instead_of_the_checkpoint(made: Written) -> None:
    (made / "runs/control/train.log").write_text("step 1\n")
    made.deliverable("control/last").update(kind="log", path="runs/control/train.log")


@sound("identifiers.other-kind", "control/last")
def a_plan_that_names_no_kind(made: Written) -> None:
    del made.planned("control/last")["kind"]


@faulty("identifiers.other-campaign", "control/last", "manifest.json", verdict=Verdict.ACCEPTED)
def the_plan_of_another_campaign(made: Written) -> None:
    made.plan["campaign"] = "depth-ablation"


@sound("identifiers.other-campaign", "control/last")
def a_directory_of_another_name(made: Written) -> None:
    made.manifest["campaign"] = made.plan["campaign"] = "depth-ablation"


@faulty("identifiers.duplicate", "control/last", "manifest.json", verdict=Verdict.REJECTED)
def an_id_that_occurs_twice(made: Written) -> None:
    made.run("control")["deliverables"].append({"id": "last", "kind": "checkpoint", "path": LAST})


@faulty("identifiers.duplicate", "control/LAST", "manifest.json", verdict=Verdict.REJECTED)
def ids_that_differ_in_case_only(made: Written) -> None:
    made.run("control")["deliverables"].append({"id": "LAST", "kind": "checkpoint", "path": LAST})


@faulty("identifiers.duplicate", "variant/weights", "manifest.json", verdict=Verdict.ACCEPTED)
def a_run_that_is_listed_twice(made: Written) -> None:
    made.manifest["runs"].append({"id": "Control", "status": "completed", "deliverables": []})


@faulty("identifiers.duplicate", "control/last", "manifest.json", verdict=Verdict.ACCEPTED)
def names_that_differ_in_their_unicode_form(made: Written) -> None:
    made.manifest["datasets"] = {"caf\u00e9": {"ids": ["a"]}, "cafe\u0301": {"ids": ["b"]}}


@sound("identifiers.duplicate", "control/last-to-resume")
def one_folder_that_is_delivered_twice(made: Written) -> None:
    made.deliverable("control/last")["purpose"] = "inference"
    made.add("control/last-to-resume", "checkpoint", LAST, purpose="resume")
    made.add("variant/last", "checkpoint", WEIGHTS)  # the same id in another run


@faulty("identifiers.plan-changed", "control/last", "plan.json", verdict=Verdict.ACCEPTED)
def a_plan_that_was_edited(made: Written) -> None:
    made.save()
    made.plan["question"] = "Does the wider layer help on Tuesdays?"
    (made / "plan.json").write_text(json.dumps(made.plan, indent=1))


@faulty("identifiers.plan-changed", "control/last", "plan.json", verdict=Verdict.ACCEPTED, reviewer_plan=True)
def a_reviewer_who_has_another_plan(made: Written) -> None:
    made.save()
    copy = made.directory.parent / REVIEWER_PLAN
    copy.parent.mkdir()
    copy.write_text(json.dumps(made.plan, indent=2))


@sound("identifiers.plan-changed", "control/last", reviewer_plan=True)
def a_reviewer_who_has_the_same_plan(made: Written) -> None:
    made.save()
    copy = made.directory.parent / REVIEWER_PLAN
    copy.parent.mkdir()
    shutil.copy(made / "plan.json", copy)


@faulty("identifiers.plan-missing", "control/last", "plan.json", verdict=Verdict.ACCEPTED)
def the_plan_is_gone(made: Written) -> None:
    made.save()
    (made / "plan.json").unlink()


@faulty("identifiers.plan-missing", "control/last", "plan.json", verdict=Verdict.ACCEPTED)
def the_plan_is_a_dead_link(made: Written) -> None:
    the_plan_is_gone(made)
    (made / "plan.json").symlink_to("/mnt/shared/plan.json")


@sound("identifiers.plan-missing", "control/last", reviewer_plan=True)
def only_the_reviewer_has_it(made: Written) -> None:
    a_reviewer_who_has_the_same_plan(made)
    (made / "plan.json").unlink()


@faulty("identifiers.plan-invalid", "control/last", "plan.json", verdict=Verdict.ACCEPTED)
def a_plan_without_its_question(made: Written) -> None:
    del made.plan["question"]


@sound("identifiers.plan-invalid", "control/last")
def a_plan_with_everything(made: Written) -> None:
    made.plan["abort_rules"] = [{"id": "diverged", "when": "the loss is not finite"}]
    made.plan["budget"] = {"currency": "EUR", "packages": [{"name": "a day", "price": "47.14", "hours": 24}]}


@faulty("identifiers.plan-unreadable", "control/last", "plan.json", verdict=Verdict.ACCEPTED, world="unprivileged")
def a_plan_without_permission(made: Written) -> None:
    made.save()
    (made / "plan.json").chmod(0)


@sound("identifiers.plan-unreadable", "control/last", world="unprivileged")
def a_plan_to_read_only(made: Written) -> None:
    made.save()
    (made / "plan.json").chmod(0o400)


@faulty("identifiers.no-plan", "control/last", "manifest.json")
def no_plan_at_all(made: Written) -> None:
    made.plan = None


@sound("identifiers.no-plan", "control/last")
def a_plan_in_a_folder(made: Written) -> None:
    made.save()
    (made / "plan.json").rename(made / "documents/plan.json")
    made.manifest["plan"]["path"] = "documents/plan.json"
    (made / "manifest.json").write_text(json.dumps(made.manifest))


@faulty("identifiers.not-run", "control/last", "manifest.json")
def a_run_that_was_dropped(made: Written) -> None:
    made.run("variant").update(status="not_run", reason="dropped at the decision point", deliverables=[])
    made.manifest["decision"] = {"outcome": "negative", "summary": "The control does not learn; variant was dropped."}
    os.remove(made / WEIGHTS)


@sound("identifiers.not-run", "variant/weights")
def all_runs_ran(made: Written) -> None:
    made.run("variant")["reason"] = "as planned"


@faulty("identifiers.unclaimed", "control/last", "runs/control/best.pt")
def a_checkpoint_that_nobody_lists(made: Written) -> None:
    shutil.copy(made / LAST, made / "runs/control/best.pt")


@sound("identifiers.unclaimed", "control/last")
def files_that_need_no_owner(made: Written) -> None:
    (made / "README.md").write_text("What this is.\n")
    (made / "runs/control/.hydra/config.yaml").write_text("seed: 1\n")
    (made / "wandb/run-1/files/output.log").write_text("step 1\n")
    (made / "runs/control/DONE").touch()
    made.manifest["datasets"] = {"test": {"path": "data/test.jsonl"}}
    (made / "data/test.jsonl").write_text('{"id": 1}\n')


@sound("identifiers.unclaimed", "control/masks")
def files_that_predictions_name(made: Written) -> None:
    rows = [{"id": number, "mask": f"images/{number}.png"} for number in range(3)]
    (made / "runs/control/masks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for row in rows:
        (made / f"images/{row['id']}.png").write_bytes(b"\x89PNG")
    made.add("control/masks", "predictions", "runs/control/masks.jsonl", key=["id"], value="mask", file_columns=["mask"])


@sound("identifiers.unclaimed", "control/last")
def files_below_a_deliverable(made: Written) -> None:
    made.deliverable("control/metrics").update(kind="other", path="runs/control/")
    made.planned("control/metrics")["kind"] = "other"
    (made / "runs/control/notes.txt").write_text("slow\n")
    assert (made / METRICS).exists()
