"""Examples of the check ``plan``."""

from __future__ import annotations

from campaigns import LAST, WEIGHTS

from . import Verdict, Written, faulty, sound


def aborted(made: Written, decision: str, **more: object) -> None:
    """The control was aborted, and what it left is cut."""
    made.run("control").update(status="aborted", abort={"reason": "the loss was NaN from step 3 on"})
    made.manifest["decision"] = {"outcome": "inconclusive", "summary": decision, **more}
    (made / LAST).write_bytes((made / LAST).read_bytes()[:700])


@faulty("plan.abort-undecided", "control/last", "manifest.json", verdict=Verdict.ABORTED)
def nobody_says_what_follows(made: Written) -> None:
    aborted(made, "The variants were uncontrolled.")  # "control" is no word of it


@faulty("plan.abort-undecided", "control/last", "manifest.json", verdict=Verdict.ACCEPTED, campaign=Verdict.REJECTED)
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
