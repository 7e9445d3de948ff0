"""The training side: write the manifest while the campaign runs.

    from pytest_campaign.recording import Campaign

    campaign = Campaign("out")
    with campaign.run("control", parameters={"learning_rate": 0.01}, seed=1) as run:
        torch.save(train().state_dict(), "out/runs/control/last.pt")
        run.deliver("last", "checkpoint", "runs/control/last.pt")

Importing it imports neither torch nor pytest nor jsonschema. Callbacks for transformers' Trainer and for Lightning lie in
`recording.transformers` and `recording.lightning`.
"""

from .campaign import Campaign
from .errors import RecordingError, RecordingWarning
from .rehearsal import Rehearsal
from .run import Run

__all__ = ["Campaign", "RecordingError", "RecordingWarning", "Rehearsal", "Run"]
