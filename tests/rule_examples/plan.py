"""Examples of the check ``plan``."""

from __future__ import annotations

import json
import math
from typing import Any

from campaigns import LAST, WEIGHTS, tensors
from safetensors.torch import save_file

from . import Level, Verdict, Written, faulty, sound

MANIFEST, PLAN = "manifest.json", "plan.json"
STATE = "runs/variant/checkpoint-30/trainer_state.json"
RULES = [{"id": "too-high", "when": "the loss is above 8", "metric": "loss", "op": ">", "value": 8},
         {"id": "no-number", "when": "the loss is not finite"}]


# ---- how the runs ended ----------------------------------------------------------------------------------------------


def aborted(made: Written, decision: str, *, cut: bool = True, rule: str | None = None, **more: object) -> None:
    """The control was aborted, and what it left is cut."""
    made.run("control").update(status="aborted", abort={"reason": "the loss was NaN from step 3 on"})
    if rule is not None:
        made.run("control")["abort"]["rule"] = rule
    made.manifest["decision"] = {"outcome": "inconclusive", "summary": decision, **more}
    if cut:
        (made / LAST).write_bytes((made / LAST).read_bytes()[:700])


@faulty("plan.abort-undecided", "control/last", MANIFEST, verdict=Verdict.ABORTED)
def nobody_says_what_follows(made: Written) -> None:
    aborted(made, "The variants were uncontrolled.")  # "control" is no word of it


@faulty("plan.abort-undecided", "control/last", MANIFEST, verdict=Verdict.ACCEPTED, campaign=Verdict.REJECTED)
def dropped_and_nobody_decided(made: Written) -> None:
    made.run("variant").update(status="not_run", reason="no time left", deliverables=[])
    (made / WEIGHTS).unlink()


@sound("plan.abort-undecided", "control/last", verdict=Verdict.ABORTED)
def the_decision_names_it(made: Written) -> None:
    aborted(made, "Nothing can be said.", based_on=["control", "variant"])


@sound("plan.abort-undecided", "control/last", verdict=Verdict.ABORTED)
def the_summary_names_it(made: Written) -> None:
    aborted(made, "Nothing can be said without control.")


@sound("plan.abort-undecided", "control/last", verdict=Verdict.ABORTED)
def a_useful_run_needs_no_decision(made: Written) -> None:
    aborted(made, "The variant helps.")
    made.planned_run("control")["priority"] = "useful"


@faulty("plan.no-decision", "control/last", MANIFEST)
def nobody_answers(made: Written) -> None:
    made.manifest.pop("decision", None)


@sound("plan.no-decision", "control/last")
def a_negative_answer(made: Written) -> None:
    made.manifest["decision"] = {"outcome": "negative", "summary": "The wider layer does not help."}


@sound("plan.no-decision", "control/last")
def an_inconclusive_answer(made: Written) -> None:
    made.manifest["decision"] = {"outcome": "inconclusive", "summary": "The difference is one row."}


@faulty("plan.unknown-abort-rule", "control/last", MANIFEST, verdict=Verdict.ABORTED)
def a_rule_that_was_made_afterwards(made: Written) -> None:
    made.plan["abort_rules"] = RULES
    aborted(made, "Nothing without control.", rule="too-slow")


@faulty("plan.unknown-abort-rule", "control/last", MANIFEST, verdict=Verdict.ABORTED)
def a_rule_where_none_is_announced(made: Written) -> None:
    aborted(made, "Nothing without control.", rule="no-number")


@sound("plan.unknown-abort-rule", "control/last", verdict=Verdict.ABORTED)
def a_rule_in_words(made: Written) -> None:
    made.plan["abort_rules"] = RULES
    aborted(made, "Nothing without control.", rule="no-number")


@sound("plan.unknown-abort-rule", "control/last", verdict=Verdict.ABORTED)
def a_rule_and_no_plan(made: Written) -> None:
    made.plan = None
    aborted(made, "Nothing without control.", rule="no-number")


@faulty("plan.no-abort-rule", "control/last", MANIFEST, verdict=Verdict.ABORTED)
def it_was_given_up(made: Written) -> None:
    made.plan["abort_rules"] = RULES
    aborted(made, "Nothing without control.")


@sound("plan.no-abort-rule", "control/last", verdict=Verdict.ABORTED)
def a_crash_where_no_rule_is_announced(made: Written) -> None:
    aborted(made, "Nothing without control.")


@faulty("plan.abort-step", "control/last", MANIFEST, verdict=Verdict.ABORTED)
def stopped_after_its_last_step(made: Written) -> None:
    aborted(made, "Nothing without control.")
    made.run("control")["abort"]["step"] = 310
    made.run("control")["steps"] = 30


@faulty("plan.abort-step", "control/last", MANIFEST, verdict=Verdict.ABORTED)
def stopped_before_it_began(made: Written) -> None:
    aborted(made, "Nothing without control.")
    made.run("control")["abort"]["step"] = 310
    made.run("control")["first_step"] = 600


@sound("plan.abort-step", "control/last", verdict=Verdict.ABORTED)
def stopped_at_its_last_step(made: Written) -> None:
    aborted(made, "Nothing without control.")
    made.run("control")["abort"]["step"] = 310
    made.run("control").update(steps=309, first_step=1)  # the last step that was made


@sound("plan.abort-step", "control/last", verdict=Verdict.ABORTED)
def stopped_before_the_first_step(made: Written) -> None:
    aborted(made, "Nothing without control.")
    made.run("control")["abort"]["step"] = 0
    made.run("control").update(steps=300)


@faulty("plan.abort-of-no-aborted-run", "control/last", MANIFEST, verdict=Verdict.ACCEPTED)
def completed_with_an_abort(made: Written) -> None:
    aborted(made, "The variant helps.", cut=False)
    made.run("control")["status"] = "completed"


@sound("plan.abort-of-no-aborted-run", "control/last", verdict=Verdict.ABORTED)
def aborted_with_an_abort(made: Written) -> None:
    aborted(made, "Nothing without control.")


def training(made: Written, *entries: dict[str, Any], step: int = 30) -> dict[str, Any]:
    """A checkpoint of the variant with the log of its training; the entry in the manifest."""
    folder = f"runs/variant/checkpoint-{step}"
    save_file(tensors(step), made / f"{folder}/model.safetensors")
    log = [{"step": 10 * at, "epoch": at / 10} | entry for at, entry in enumerate(entries, 1)]
    (made / folder / "trainer_state.json").write_text(json.dumps({"global_step": step, "log_history": log}))
    return made.add(f"variant/step-{step}", "checkpoint", folder)


@faulty("plan.completed-but-diverged", "variant/step-30", STATE)
def the_last_loss_is_no_number(made: Written) -> None:
    training(made, {"loss": 2.0}, {"loss": math.nan}, {"loss": math.nan}, {"train_runtime": 3.0})


@faulty("plan.completed-but-diverged", "variant/step-30", STATE)
def the_last_loss_is_infinite_and_no_rule_is_announced(made: Written) -> None:
    training(made, {"loss": 2.0}, {"loss": math.inf})


@faulty("plan.completed-but-diverged", "variant/log", STATE)
def the_state_is_delivered_as_metrics(made: Written) -> None:
    training(made, {"loss": 2.0}, {"loss": math.nan})
    made.add("variant/log", "metrics", STATE)


@faulty("plan.completed-but-diverged", "variant/step-30", STATE, level=Level.WARNING, verdict=Verdict.ACCEPTED,
        campaign=Verdict.ACCEPTED)
def the_last_evaluation_had_no_loss(made: Written) -> None:
    training(made, {"loss": 2.0}, {"loss": 1.0}, {"eval_loss": math.nan})


@sound("plan.completed-but-diverged", "variant/step-30")
def an_overflow_on_the_way(made: Written) -> None:
    training(made, {"loss": math.inf, "grad_norm": math.inf}, {"loss": 2.0}, {"loss": 1.0, "grad_norm": math.nan})


@sound("plan.completed-but-diverged", "variant/step-20")
def an_early_checkpoint_with_an_overflow(made: Written) -> None:
    training(made, {"loss": 2.0}, {"loss": math.nan}, step=20)
    training(made, {"loss": 2.0}, {"loss": math.nan}, {"loss": 1.0})


@sound("plan.completed-but-diverged", "variant/step-30", verdict=Verdict.ABORTED)
def it_says_that_it_was_aborted(made: Written) -> None:
    training(made, {"loss": 2.0}, {"loss": math.nan})
    made.run("variant").update(status="aborted", abort={"reason": "the loss was NaN"})
    made.manifest["decision"] = {"outcome": "inconclusive", "summary": "The variant diverges."}


@faulty("plan.abort-rule-ignored", "variant/step-30", STATE)
def a_rule_that_held(made: Written) -> None:
    made.plan["abort_rules"] = RULES
    training(made, {"loss": 2.0}, {"loss": 9.0}, {"loss": 1.0})


@faulty("plan.abort-rule-ignored", "variant/step-30", STATE, level=Level.WARNING, verdict=Verdict.ACCEPTED,
        campaign=Verdict.ACCEPTED)
def a_rule_that_held_before_it_was_resumed(made: Written) -> None:
    made.plan["abort_rules"] = RULES
    training(made, {"loss": 1.5}, {"loss": 9.0}, {"loss": 1.0})
    made.run("variant")["first_step"] = 20


@sound("plan.abort-rule-ignored", "variant/step-30")
def the_loss_was_high_when_it_began(made: Written) -> None:
    made.plan["abort_rules"] = RULES
    training(made, {"loss": 9.0}, {"loss": 2.0}, {"loss": 1.0})


@sound("plan.abort-rule-ignored", "variant/step-30")
def a_rule_that_almost_held(made: Written) -> None:
    made.plan["abort_rules"] = [RULES[0] | {"for_steps": 2}]
    training(made, {"loss": 9.0}, {"loss": 8.0}, {"loss": 9.0})


@sound("plan.abort-rule-ignored", "variant/step-30", campaign=Verdict.REJECTED)
def it_is_said_of_the_metrics(made: Written) -> None:
    made.plan["abort_rules"] = RULES
    log = [{"loss": 2.0}, {"loss": 9.0}, {"loss": 1.0}]
    training(made, *log)
    lines = [json.dumps({"step": at, **row}) + "\n" for at, row in enumerate(log)]
    (made / "runs/variant/history.jsonl").write_text("".join(lines))
    made.add("variant/history", "metrics", "runs/variant/history.jsonl")


def watching(made: Written, metric: str) -> None:
    """A rule about a metric, and a history of each run with another one."""
    made.plan["abort_rules"] = [RULES[0] | {"metric": metric}]
    for run in ("control", "variant"):
        (made / f"runs/{run}/history.jsonl").write_text("".join(f'{{"step": {step}, "loss": 0.5}}\n' for step in range(4)))
        made.add(f"{run}/history", "metrics", f"runs/{run}/history.jsonl")


@faulty("plan.abort-rule-not-applied", "variant/history", "plan.json")
def a_rule_about_a_metric_by_another_name(made: Written) -> None:
    watching(made, "train_loss")


@faulty("plan.abort-rule-not-applied", "variant/weights", "plan.json", level=Level.NOTE)
def a_rule_and_no_metrics(made: Written) -> None:
    made.plan["abort_rules"] = RULES


@sound("plan.abort-rule-not-applied", "variant/history")
def a_rule_about_a_metric_of_both(made: Written) -> None:
    watching(made, "loss")


@sound("plan.abort-rule-not-applied", "variant/step-30")
def a_rule_about_the_history_beside_the_checkpoint(made: Written) -> None:
    made.plan["abort_rules"] = RULES
    training(made, {"loss": 2.0})


@sound("plan.abort-rule-not-applied", "variant/weights")
def metrics_of_all_runs_in_one_file(made: Written) -> None:
    made.plan["abort_rules"] = RULES
    (made / "metrics.csv").write_text("run,step,loss\ncontrol,1,0.5\nvariant,1,0.4\n")
    made.add("metrics", "metrics", "metrics.csv")


@faulty("plan.supersedes-completed", "variant/weights", MANIFEST)
def it_was_repeated_until_it_fitted(made: Written) -> None:
    made.run("variant")["supersedes"] = "control"


@sound("plan.supersedes-completed", "variant/weights")
def it_says_why(made: Written) -> None:
    made.run("variant").update(supersedes="control", reason="the control was trained on the wrong split")


@sound("plan.supersedes-completed", "variant/weights")
def it_replaces_an_aborted_run(made: Written) -> None:
    aborted(made, "The variant replaces control.")
    made.run("variant")["supersedes"] = "control"


@faulty("plan.times", "control/last", MANIFEST, verdict=Verdict.ACCEPTED)
def a_run_that_ends_before_it_begins(made: Written) -> None:
    made.run("control").update(started="2026-03-02T10:00:00Z", finished="2026-03-02T08:00:00Z")


@faulty("plan.times", "control/last", MANIFEST, verdict=Verdict.ABORTED)
def stopped_before_it_was_started(made: Written) -> None:
    aborted(made, "Nothing without control.")
    made.run("control")["started"] = "2026-03-02T10:00:00Z"
    made.run("control")["abort"]["at"] = "2026-03-02T09:00:00Z"


@sound("plan.times", "control/last")
def a_run_that_took_no_second(made: Written) -> None:
    made.run("control").update(started="2026-03-02T10:00:00Z", finished="2026-03-02T10:00:00.000+00:00")


# ---- schedule and decision point -------------------------------------------------------------------------------------


def scheduled(made: Written, *steps: dict[str, Any], **more: Any) -> None:
    """The plan's schedule; by default each run takes two hours of the GPU, one after the other."""
    made.plan["schedule"] = {"window_hours": 8, "tolerance_percent": 20, **more, "steps": list(steps) or [
        {"id": "control", "hours": 2, "start_hour": 0, "resource": "gpu"},
        {"id": "variant", "hours": 2, "start_hour": 2, "resource": "gpu"}]}


def measured(made: Written, **steps: tuple[float, float, str]) -> list[dict[str, Any]]:
    """When each step really began and ended, in hours, and its explanation ("" for none)."""
    def clock(hour: float) -> str:
        return f"2026-03-02T{int(hour):02d}:{round(hour % 1 * 60):02d}:00Z"

    entries = [{"id": id, "started": clock(begin), "finished": clock(end)} | ({"explanation": why} if why else {})
               for id, (begin, end, why) in steps.items()]
    made.manifest.setdefault("actuals", {})["steps"] = entries
    return entries


@faulty("plan.overlap", "control/last", PLAN, verdict=Verdict.ACCEPTED)
def two_steps_at_once(made: Written) -> None:
    scheduled(made, {"id": "control", "hours": 2, "start_hour": 0}, {"id": "variant", "hours": 2, "start_hour": 1.5})


@faulty("plan.overlap", "control/last", MANIFEST, verdict=Verdict.ACCEPTED)
def two_recorded_steps_at_once(made: Written) -> None:
    scheduled(made)
    measured(made, control=(8, 10, ""), variant=(9.5, 11.5, ""))


@faulty("plan.overlap", "control/last", MANIFEST, level=Level.WARNING)
def two_recorded_steps_at_once_that_say_why(made: Written) -> None:
    scheduled(made)
    measured(made, control=(8, 10, ""), variant=(9.5, 11.5, "the two shared the machine for half an hour"))


@sound("plan.overlap", "control/last")
def people_and_machine_at_once(made: Written) -> None:
    scheduled(made, {"id": "control", "hours": 2, "start_hour": 0}, {"id": "variant", "hours": 2, "start_hour": 2},
              {"id": "reading", "hours": 2, "start_hour": 0, "resource": "human"}, {"id": "mark", "hours": 0, "start_hour": 1})
    measured(made, control=(8, 10, ""), reading=(8, 10, ""), variant=(10, 12, ""), mark=(9, 9, ""))


@sound("plan.overlap", "control/last")
def steps_without_a_start_follow_each_other(made: Written) -> None:
    scheduled(made, {"id": "control", "hours": 2}, {"id": "variant", "hours": 3}, {"id": "warm-up", "hours": 1, "start_hour": 1})


@faulty("plan.window", "control/last", PLAN, verdict=Verdict.ACCEPTED)
def six_hours_too_much(made: Written) -> None:
    scheduled(made, {"id": "control", "hours": 48}, {"id": "variant", "hours": 30}, window_hours=72)


@faulty("plan.window", "control/last", PLAN, verdict=Verdict.ACCEPTED)
def a_short_step_at_the_end_of_the_window(made: Written) -> None:
    scheduled(made, {"id": "control", "hours": 2, "start_hour": 7})


@faulty("plan.window", "control/last", MANIFEST, level=Level.WARNING)
def the_rental_was_not_enough(made: Written) -> None:
    scheduled(made, window_hours=4)
    measured(made, control=(8, 10, ""), variant=(10.5, 12.5, ""))


@faulty("plan.window", "control/last", MANIFEST, level=Level.NOTE)
def the_rental_was_not_enough_and_it_is_said_why(made: Written) -> None:
    scheduled(made, window_hours=4)
    measured(made, control=(8, 10, ""), variant=(10.5, 12.5, "the machine was started again; half an hour was bought"))


@sound("plan.window", "control/last")
def a_day_is_left(made: Written) -> None:
    scheduled(made, {"id": "control", "hours": 24}, {"id": "variant", "hours": 24}, window_hours=72)


@sound("plan.window", "control/last")
def the_window_is_filled(made: Written) -> None:
    scheduled(made, *({"id": f"part-{at}", "hours": 0.1} for at in range(10)), window_hours=1)  # ten tenths are one


@sound("plan.window", "control/last")
def people_need_more_time(made: Written) -> None:
    scheduled(made, {"id": "control", "hours": 2}, {"id": "marking", "hours": 30, "resource": "human annotators"})


@faulty("plan.deviation", "control/last", MANIFEST, verdict=Verdict.ACCEPTED)
def half_an_hour_longer(made: Written) -> None:
    scheduled(made)
    measured(made, control=(8, 10.5, ""), variant=(10.5, 12.5, ""))


@faulty("plan.deviation", "control/last", MANIFEST, verdict=Verdict.ACCEPTED)
def an_hour_shorter_and_a_blank(made: Written) -> None:
    scheduled(made)
    measured(made, control=(8, 9, " "), variant=(10, 12, ""))


@faulty("plan.deviation", "control/last", MANIFEST, level=Level.NOTE)
def it_is_explained(made: Written) -> None:
    scheduled(made)
    measured(made, control=(8, 11, "the data loader was restarted once"), variant=(11, 13, ""))


@faulty("plan.deviation", "control/last", MANIFEST, level=Level.NOTE, verdict=Verdict.ABORTED)
def the_abort_explains_it(made: Written) -> None:
    scheduled(made)
    aborted(made, "Nothing without control.")
    measured(made, control=(8, 9, ""), variant=(10, 12, ""))


@sound("plan.deviation", "control/last")
def as_much_as_is_tolerated(made: Written) -> None:
    scheduled(made)
    measured(made, control=(8, 10.4, ""), variant=(10.4, 12, ""))


@sound("plan.deviation", "control/last")
def a_step_in_two_parts(made: Written) -> None:
    scheduled(made)
    entries = measured(made, control=(8, 9, ""), variant=(10, 12, ""))
    entries.append({"id": "control", "started": "2026-03-02T13:00:00Z", "finished": "2026-03-02T14:00:00Z"})


@sound("plan.deviation", "control/last")
def no_tolerance_is_planned(made: Written) -> None:
    scheduled(made)
    del made.plan["schedule"]["tolerance_percent"]
    measured(made, control=(8, 9, ""), variant=(10, 12, ""))


@faulty("plan.unplanned-step", "control/last", MANIFEST, verdict=Verdict.ACCEPTED)
def a_misspelt_step(made: Written) -> None:
    scheduled(made)
    measured(made, contrl=(8, 10, ""), variant=(10, 12, ""))


@faulty("plan.unplanned-step", "control/last", MANIFEST, level=Level.NOTE)
def work_that_nobody_had_planned(made: Written) -> None:
    scheduled(made)
    measured(made, control=(8, 10, ""), variant=(10, 12, ""), cleaning=(12, 13, "the test set had rows twice"))


@sound("plan.unplanned-step", "control/last")
def nothing_was_planned(made: Written) -> None:
    measured(made, control=(8, 10, ""))


@faulty("plan.step-not-measured", "control/last", MANIFEST)
def one_step_was_not_measured(made: Written) -> None:
    scheduled(made)
    measured(made, control=(8, 10, ""))


@faulty("plan.step-not-measured", "control/last", MANIFEST)
def the_process_was_killed_in_the_first_part_of_a_step(made: Written) -> None:
    scheduled(made)
    measured(made, control=(8, 10, ""), variant=(10, 12, ""))
    made.manifest["actuals"]["steps"].insert(1, {"id": "variant", "started": "2026-03-02T09:00:00Z"})


@sound("plan.step-not-measured", "control/last")
def it_is_said_why(made: Written) -> None:
    scheduled(made)
    measured(made, control=(8, 10, ""))
    made.manifest["actuals"]["steps"].append({"id": "variant", "explanation": "the log of the times was lost"})


@sound("plan.step-not-measured", "control/last")
def the_run_was_dropped(made: Written) -> None:
    scheduled(made)
    measured(made, control=(8, 10, ""))
    made.run("variant").update(status="not_run", reason="no time left", deliverables=[])
    made.manifest["decision"] = {"outcome": "inconclusive", "summary": "The variant was dropped."}
    (made / WEIGHTS).unlink()


@faulty("plan.no-actuals", "control/last", MANIFEST)
def nothing_was_measured(made: Written) -> None:
    scheduled(made)


@faulty("plan.no-actuals", "control/last", MANIFEST)
def no_cost_is_recorded(made: Written) -> None:
    made.plan["budget"] = {"currency": "USD", "packages": [{"name": "rental", "price": "47.14"}]}


@sound("plan.no-actuals", "control/last")
def neither_times_nor_costs_are_planned(made: Written) -> None:
    pass


@sound("plan.no-actuals", "control/last")
def all_was_measured(made: Written) -> None:
    scheduled(made)
    measured(made, control=(8, 10, ""), variant=(10, 12, ""))


def chosen(made: Written, choice: str | None, hour: int = 11, after: str = "control") -> None:
    """The plan asks after the control whether to go on, and the manifest says what was chosen at that hour."""
    made.plan["decision_point"] = {"after": after, "options": ["continue", "stop"]}
    if choice is not None:
        decision = {"at": f"2026-03-02T{hour:02d}:00:00Z", "choice": choice, "reason": "it works"}
        made.manifest["actuals"] = {"decisions": [decision]}


@faulty("plan.decision-missing", "control/last", MANIFEST, verdict=Verdict.ACCEPTED)
def nobody_chose(made: Written) -> None:
    chosen(made, None)


@sound("plan.decision-missing", "control/last")
def somebody_chose(made: Written) -> None:
    chosen(made, " Continue")


@sound("plan.decision-missing", "control/last")
def it_never_came_to_that(made: Written) -> None:
    chosen(made, None, after="variant")
    made.run("variant").update(status="not_run", reason="no time left", deliverables=[])
    made.manifest["decision"] = {"outcome": "inconclusive", "summary": "The variant was dropped."}
    (made / WEIGHTS).unlink()


@faulty("plan.other-option", "control/last", MANIFEST, verdict=Verdict.ACCEPTED)
def another_way_was_found(made: Written) -> None:
    chosen(made, "train longer")


@sound("plan.other-option", "control/last")
def another_decision_beside_it(made: Written) -> None:
    chosen(made, "continue")
    made.manifest["actuals"]["decisions"].insert(
        0, {"at": "2026-03-02T09:00:00Z", "choice": "use the smaller batch", "reason": "the memory was full"})


@faulty("plan.early-decision", "control/last", MANIFEST)
def decided_before_it_ended(made: Written) -> None:
    chosen(made, "continue", hour=9)
    made.run("control").update(started="2026-03-02T08:00:00Z", finished="2026-03-02T10:00:00Z")


@sound("plan.early-decision", "control/last")
def decided_when_it_ended(made: Written) -> None:
    chosen(made, "continue", hour=10)
    made.run("control").update(started="2026-03-02T08:00:00Z", finished="2026-03-02T10:00:00Z")


# ---- costs -----------------------------------------------------------------------------------------------------------


def budgeted(made: Written, *paid: tuple[str, str], **more: Any) -> None:
    """A budget with a package and storage, and what was paid."""
    made.plan["budget"] = {"currency": "USD", "packages": [{"name": "rental", "price": "47.14", "hours": 8, "order": "4711"}],
                           "other": [{"name": "storage", "amount": "1.20"}], **more}
    made.manifest["actuals"] = {"costs": [{"name": name, "amount": amount} for name, amount in paid]}


@faulty("plan.unplanned-cost", "control/last", MANIFEST)
def a_cost_that_nobody_had_planned(made: Written) -> None:
    budgeted(made, ("storage", "1.20"), ("egress", "3.00"))


@sound("plan.unplanned-cost", "control/last")
def costs_of_the_budget(made: Written) -> None:
    budgeted(made, ("storage", "1.50"), ("rental", "47.14"))


@sound("plan.unplanned-cost", "control/last")
def costs_without_a_budget(made: Written) -> None:
    made.manifest["actuals"] = {"costs": [{"name": "rental", "amount": "47.14"}]}


@faulty("plan.ambiguous-cost", "control/last", MANIFEST)
def one_cost_in_two_payments(made: Written) -> None:
    budgeted(made, ("storage", "1.20"), ("storage", "1.20"))


@sound("plan.ambiguous-cost", "control/last")
def two_packages_of_one_name(made: Written) -> None:
    budgeted(made, ("rental", "47.14"), ("rental", "50.00"), packages=[{"name": "rental", "price": "47.14"}] * 2)


@faulty("plan.no-price", "control/last", PLAN)
def a_package_without_a_price(made: Written) -> None:
    budgeted(made, packages=[{"name": "rental", "hours": 8}])


@sound("plan.no-price", "control/last")
def a_package_that_was_paid_by_the_hour(made: Written) -> None:
    budgeted(made, ("rental", "31.07"), packages=[{"name": "rental", "hours": 8}])


def corpora(made: Written, *texts: str) -> None:
    """Data sets that the campaign delivers."""
    made.manifest["datasets"] = {}
    for at, text in enumerate(texts):
        path = f"corpora/part-{at}.jsonl"
        (made / path).write_text(json.dumps({"id": 1, "text": text}) + "\n")
        made.add(f"corpus-{at}", "dataset", path)


@faulty("plan.unit-copy", "corpus-1", "corpora/part-1.jsonl")
def one_corpus_twice(made: Written) -> None:
    budgeted(made, unit="dataset")
    corpora(made, "one", "one")


@sound("plan.unit-copy", "corpus-1")
def two_corpora(made: Written) -> None:
    budgeted(made, unit="dataset")
    corpora(made, "one", "two")


@sound("plan.unit-copy", "corpus-1")
def no_unit_of_the_budget(made: Written) -> None:
    budgeted(made, unit="checkpoint")
    corpora(made, "one", "one")
