"""The rules of the check `plan`."""

from __future__ import annotations

from ...findings import Level, Rule

# How the runs ended.

UNDECIDED = Rule("plan.abort-undecided", Level.ERROR, """
    An essential run was aborted or not executed, and no decision names it.

    The campaign was bought to answer a question. When a run without which it cannot be answered as planned ends
    early or is dropped, somebody has to say what follows from that: a negative or inconclusive outcome is a valid end.

    Usual causes: the decision was written before the abort, or not at all.

    Fix: name the run in `decision.based_on` (or in its summary) and say what follows.
    """)
NO_DECISION = Rule("plan.no-decision", Level.NOTE, """
    The manifest records no decision: nobody says what the campaign answered to the question of its plan.

    Fix: write `decision` with its outcome (positive, negative or inconclusive) and the runs that it rests on.
    """)
UNKNOWN_RULE = Rule("plan.unknown-abort-rule", Level.ERROR, """
    A run was aborted by a rule that the plan does not announce.

    A reason that was found after the fact can take any run out of the comparison.

    Usual causes: a misspelt id; a rule that was added while the campaign ran.

    Fix: cite the rule of the plan that applied. Where none did, leave `rule` out and say in `reason` what happened.
    """)
NO_RULE = Rule("plan.no-abort-rule", Level.WARNING, """
    A run was aborted and cites none of the rules that the plan announces.

    A crash or the end of the rental is no rule of a plan; a run that was given up for its results needs one.

    Fix: cite the rule in `abort.rule`, if one applied.
    """)
ABORT_STEP = Rule("plan.abort-step", Level.WARNING, """
    The step at which a run was aborted is not one of its steps.

    `steps` is the last step that the run made, `first_step` the one with which it began.

    Usual causes: `steps` is that of the last checkpoint; the step was counted in batches.

    Fix: correct `abort.step`, or `steps` of the run.
    """)
ABORT_RECORD = Rule("plan.abort-of-no-aborted-run", Level.ERROR, """
    A run has the record of an abort and another status than aborted.

    The one says that its outputs count, the other that they do not.

    Usual causes: the status was changed and the record left; a run that was started again under the same id.

    Fix: set the status to aborted. A run that was started again is another run, which `supersedes` the aborted one.
    """)
DIVERGED = Rule("plan.completed-but-diverged", Level.ERROR, """
    A run claims to be completed, and its last loss is NaN or infinite.

    What it says stands in the state of the training beside its last checkpoint. A last loss of an evaluation that is not
    finite is a warning: a batch without labels has one too.

    Usual causes: nobody looked at the loss; the run was to be aborted and nobody did it.

    Fix: record the run as aborted, with the reason; train a corrected configuration under a new id that `supersedes` it.
    """, at_source=True)
IGNORED = Rule("plan.abort-rule-ignored", Level.ERROR, """
    By a rule that the plan announced the run had to be aborted, and it claims to be completed.

    The history beside its last checkpoint says so; of metrics that are delivered `data.abort-rule` speaks. For a run
    that was resumed it is a warning, since the history is also that of the run before.

    Usual causes: nobody watched the metric; the rule was given up after the fact.

    Fix: record the run as aborted, with the rule and the step.
    """)
NOT_APPLIED = Rule("plan.abort-rule-not-applied", Level.WARNING, """
    An abort rule names a metric that no completed run has, or some of them have not, so nobody can say whether it held.

    It was looked for in the metrics that are delivered and in the history beside the checkpoints. Where a run delivers neither,
    this is a note.

    Usual causes: the metric has another name in the files (`train/loss`, `train_loss`); it was watched and never logged.

    Fix: deliver the history with that metric. The plan stays as it is; say in the decision what was watched instead.
    """)
SUPERSEDES = Rule("plan.supersedes-completed", Level.WARNING, """
    A run replaces another one that was completed, and nobody says why.

    A corrected configuration replaces one that was aborted. Where a completed run is replaced, somebody has looked at its
    results.

    Usual causes: a run that was repeated until it fitted; a `repeat_of` that was called `supersedes`.

    Fix: give the `reason` at one of the two runs, or say `repeat_of`.
    """)
TIMES = Rule("plan.times", Level.ERROR, """
    Something ends, or is stopped, before it begins.

    Nothing that is computed from such times is worth anything.

    Usual causes: the two times were exchanged; local time was written as UTC; two machines with different clocks.

    Fix: correct the times in the manifest, from the logs.
    """)

# Schedule and decision point.

OVERLAP = Rule("plan.overlap", Level.ERROR, """
    Two steps use one resource at the same time.

    A machine does one step at a time; the hours of the plan, or those that were measured, then cannot be right. Steps that
    name no resource share one. For recorded steps that explain it, this is a warning.

    Usual causes: a `start_hour` that was not moved along; two machines that have one name; the work of people that has
    the name of the machine.

    Fix: give what is another machine, or the time of people, another `resource`; correct the times.
    """)
WINDOW = Rule("plan.window", Level.ERROR, """
    The schedule does not fit its window.

    Hour 0 of the schedule is the beginning of the rental. A step of a machine that ends after its window can only be left
    out. The time of people (a `resource` called human, staff, reviewer and the like) needs no machine and does not
    count. Recorded steps that together take longer than the window are a warning, and a note where they explain it.

    Usual causes: a step was added without a look at the sum; reserves were not planned.

    Fix: plan fewer or shorter steps, or a longer window, before the first run.
    """)
DEVIATION = Rule("plan.deviation", Level.ERROR, """
    A step took longer or shorter than planned by more than the plan tolerates, and nobody says why.

    Both times stand in the report. With an explanation, or for a run whose abort explains it, this is a note.

    Usual causes: the estimate was wrong; the machine stood still; the step did something else.

    Fix: write the `explanation` of the step in `actuals.steps`; leave the plan as it is.
    """)
UNPLANNED_STEP = Rule("plan.unplanned-step", Level.ERROR, """
    A step is recorded that the schedule does not have, and nobody says why.

    With an explanation it is a note, and also where it is a run that replaces or repeats another one.

    Usual causes: a misspelt id; work that nobody had planned.

    Fix: give it the id that it has in the plan, or write its `explanation`.
    """)
STEP_MISSING = Rule("plan.step-not-measured", Level.WARNING, """
    Other steps were measured, and of this one, or of a part of it, nobody says how long it took.

    Fix: write its `started` and `finished` into `actuals.steps`, or the `explanation`.
    """)
NO_ACTUALS = Rule("plan.no-actuals", Level.NOTE, """
    The plan has a schedule or a budget, and the manifest does not say what came of it.

    Planned costs then stand for the real ones, and the schedule was compared with nothing.

    Fix: record `actuals` while the next campaign runs.
    """)
DECISION_MISSING = Rule("plan.decision-missing", Level.ERROR, """
    The plan has a decision point, and no decision is recorded.

    What was done after it was then not decided by what had been seen, as far as anybody can tell.

    Usual causes: it was decided and not written down; the campaign went on by itself.

    Fix: record in `actuals.decisions` when it was decided, what, and why.
    """)
OTHER_OPTION = Rule("plan.other-option", Level.ERROR, """
    What was decided at the decision point is none of its options.

    Usual causes: the option is told in other words; the plan did not foresee it.

    Fix: write the option of the plan as `choice`, in its words, and all else as the `reason`.
    """)
EARLY = Rule("plan.early-decision", Level.WARNING, """
    The decision was made before the end of what it was to be based on.

    Usual causes: the times are of different clocks; the result was not waited for.

    Fix: correct the time; else say in the `reason` what it was based on.
    """)

# Costs.

UNPLANNED_COST = Rule("plan.unplanned-cost", Level.WARNING, """
    Something was paid for that the budget does not have.

    It is added to the total. Under a misspelt name a cost counts twice: as it was planned, and as it was paid.

    Fix: give it the name that it has in the budget, if it has one.
    """)
COST_NAME = Rule("plan.ambiguous-cost", Level.WARNING, """
    One name stands for several costs, planned or paid, and there are not as many of the one as of the other.

    What was paid under the name then replaces all that was planned under it.

    Fix: give each cost a name of its own in the next plan; in the manifest record as many payments as were planned.
    """)
NO_PRICE = Rule("plan.no-price", Level.WARNING, """
    Nobody says what a package cost: the budget has no price of it, and no payment is recorded.

    The total lacks it, and there is no cost of one unit.

    Fix: record the payment in `actuals.costs` under the name of the package.
    """)
UNIT_COPY = Rule("plan.unit-copy", Level.NOTE, """
    Two deliverables of the kind that the cost is divided by hold the same bytes: they count once.

    Of weights and predictions `identifiers.copy` says it.
    """)
