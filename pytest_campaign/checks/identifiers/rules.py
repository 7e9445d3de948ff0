"""The rules of the check `identifiers`."""

from __future__ import annotations

from ...findings import Level, Rule

MISSING_RUN = Rule("identifiers.missing-run", Level.ERROR, """
    A planned run is not in the manifest.

    The comparison that the campaign was bought for needs every essential run, also one that was aborted: it keeps
    its id and its reason. A missing run that was only useful or exploratory is shown and rejects nothing.

    Usual causes: the run was renamed; its manifest was written into another directory; it never ran.

    Fix: add the run, with status completed, aborted or not_run and the reason.
    """, at_source=True)
MISSING_DELIVERABLE = Rule("identifiers.missing-deliverable", Level.ERROR, """
    A planned deliverable is not in the manifest.

    It was promised before the first run, and nothing says what became of it. One that was only useful or
    exploratory is shown as not delivered and rejects nothing.

    Usual causes: the last save never finished; the file was left on the rented machine; the id differs.

    Fix: fetch or make the file while the machine is still there, and list it under the planned id.
    """, at_source=True)
UNPLANNED_RUN = Rule("identifiers.unplanned-run", Level.ERROR, """
    The manifest lists a run that the plan does not know.

    A plan is compared with what happened, never rewritten. A run that supersedes an aborted one or repeats
    another one is an expected deviation and only noted.

    Usual causes: a renamed run; a run of another campaign in the same directory.

    Fix: give the run its planned id, or say what it `supersedes` or is a `repeat_of`.
    """)
UNPLANNED_DELIVERABLE = Rule("identifiers.unplanned-deliverable", Level.WARNING, """
    A run delivers something that the plan does not promise.

    It is checked like everything else. It may be a planned deliverable under another id. Where the plan promises nothing in
    particular of the run it is only noted.

    Fix: none is needed when it is an extra; else give it the planned id.
    """)
KIND = Rule("identifiers.other-kind", Level.ERROR, """
    A deliverable has another kind than the plan promises under that id.

    What was promised is a checkpoint, say, and what is listed is a log.

    Fix: list the promised output under the promised id.
    """)
CAMPAIGN_ID = Rule("identifiers.other-campaign", Level.ERROR, """
    Plan and manifest belong to different campaigns.

    Usual causes: a plan or a manifest that was copied from an earlier campaign.

    Fix: put the plan of this campaign beside its manifest.
    """)
DUPLICATE = Rule("identifiers.duplicate", Level.ERROR, """
    Two runs or two deliverables have the same id.

    An id names one configuration and its outputs. Ids that differ only in case are the same on many file
    systems.

    Usual causes: a corrected configuration under the old id; a copied entry.

    Fix: give the later one a new id; a run that corrects another one `supersedes` it.
    """)
PLAN_CHANGED = Rule("identifiers.plan-changed", Level.ERROR, """
    The plan is not the one that the manifest recorded when the campaign started.

    A plan that changes after the first result is no plan. The digest in the manifest is the campaign's own claim;
    a reviewer who has a copy passes it with --campaign-plan.

    Usual causes: the plan was edited to fit what happened; its line ends were converted on the way.

    Fix: restore the plan as it was, and record deviations in the manifest.
    """)
PLAN_MISSING = Rule("identifiers.plan-missing", Level.ERROR, """
    The manifest names a plan that is not there.

    What was promised can then not be compared with what was delivered.

    Fix: copy the plan into the directory, or pass the reviewer's copy with --campaign-plan.
    """)
PLAN_INVALID = Rule("identifiers.plan-invalid", Level.ERROR, """
    The plan is no valid plan, so what was promised cannot be compared with what was delivered.

    Fix: restore the plan as it was written before the first run; `schemas/plan-1.schema.json` describes its form.
    """)
PLAN_UNREADABLE = Rule("identifiers.plan-unreadable", Level.WARNING, """
    The plan is there and could not be read by the user who runs the check.

    Fix: change the permission, run the check as the owner, or pass the reviewer's copy with --campaign-plan.
    """, unanswered=True)
NO_PLAN = Rule("identifiers.no-plan", Level.NOTE, """
    There is no plan: what is expected is what the manifest itself lists.

    That is honest and proves less: the manifest then sets its own goal. Nobody should write a plan afterwards.

    Fix: none now; write plan.json before the first run of the next campaign.
    """)
NOT_RUN = Rule("identifiers.not-run", Level.NOTE, """
    A planned run was not executed, and the manifest gives the reason.

    Runs may be dropped at the decision point. Their deliverables are not expected.
    """)
UNCLAIMED = Rule("identifiers.unclaimed", Level.WARNING, """
    Files in the directory belong to no deliverable.

    Nobody vouches for them, nothing checks them, and the next person cannot tell whether they matter.

    Usual causes: an output that was forgotten in the manifest; leftovers of an interrupted save; scratch files.

    Fix: list them as deliverables, or remove them.
    """)
OTHER_RUN = Rule("identifiers.other-run", Level.ERROR, """
    An output in the folder of a run belongs to another run.

    Its own record says so: the state of the training has more steps than the run, or another history at the same steps,
    or the file names another run of this campaign. Whoever picks it up compares the wrong things.

    Usual causes: an earlier run wrote into the same folder (`overwrite_output_dir`); a file that was copied to the wrong
    place; `steps` in the manifest that is not the last step.

    Fix: move it to the run that it belongs to, or remove it; if the manifest is wrong, correct `steps`.
    """)
OTHER_STEP = Rule("identifiers.other-step", Level.ERROR, """
    The name of a checkpoint says another step than the state in it.

    transformers writes `checkpoint-500` at step 500. Where the two differ, one of them comes from another save.

    Usual causes: a renamed folder; files of two saves that were copied over each other.

    Fix: give the folder the name of its step, or copy it again.
    """)
TWO_CONFIGURATIONS = Rule("identifiers.two-configurations", Level.ERROR, """
    One run id stands for two configurations.

    The checkpoints of a run differ in what the model or the adapter is (its rank, its layers), or the manifest and the run's
    parameters name different seeds. A corrected configuration is another run and gets a new id.

    Usual causes: a run that was started again with other settings into the same folder; a copied entry of the manifest.

    Fix: give the corrected run an id of its own, which `supersedes` the old one.
    """)
OTHER_TENSORS = Rule("identifiers.other-tensors", Level.WARNING, """
    Two checkpoints of one training hold different tensors.

    The steps of a training have the same tensors with the same types and shapes. Where one of them differs, something was
    left out or renamed in the save, or it is a checkpoint of another model.

    Usual causes: a wrapper (compile, DDP) that was taken off for one save only; a gather that left parameters out; a
    layer that was added when the training was started again.

    Fix: save it again, or take the checkpoint before; another model is another run.
    """, at_source=True)
COPY = Rule("identifiers.copy", Level.WARNING, """
    Two deliverables hold the same bytes.

    Two trainings never end with the same weights to the last bit, nor do two models give the same answers: one is most
    likely a copy of the other. Two ids for one result count once. It is also said of two steps of one training
    (`checkpoint-500`, `checkpoint-1000`) that hold the same weights: nothing was trained between them. Where a run says that
    it is a `repeat_of` the other, and when the last checkpoint is also the best, it is only noted.

    Usual causes: an output path that did not contain the run's name, so that the last run overwrote the others; a variant
    that was started with the settings of the control.

    Fix: find the run's own output while the machine is still there, or train it again.
    """, at_source=True)
REPEAT = Rule("identifiers.repeat", Level.NOTE, """
    A run repeats another one: its outputs count once.

    Each output is checked and has a verdict of its own. Where accepted results are counted, those of a run and of its
    repeats are one.
    """)
NO_PARAMETERS = Rule("identifiers.no-parameters", Level.WARNING, """
    A completed run comes without its parameters.

    Nobody can say later in what it differed from the control. It is a warning where other runs have theirs, and a note where no
    run has any.

    Usual causes: the parameters were written only by the first run; the file was forgotten in the manifest.

    Fix: name the file in `parameters` of the run, or deliver it with kind parameters.
    """)
UNREADABLE_PARAMETERS = Rule("identifiers.unreadable-parameters", Level.WARNING, """
    The parameters of a run cannot be read, so that they are not compared with those of the control.

    Fix: write them as JSON, YAML, TOML or INI.
    """)
SAME_PARAMETERS = Rule("identifiers.same-parameters", Level.WARNING, """
    A variant has the same parameters as the control.

    Then what was varied is not in the parameters: it may lie in the code, or the variant was never applied.

    Usual causes: an override with a misspelt name; a default that hides the setting; a variant of the code.

    Fix: look at what the variant changes, and write it into its parameters.
    """)
