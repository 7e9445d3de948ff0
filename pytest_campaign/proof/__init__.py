"""The training side of a proof: what the memory of the training held, and what a checkpoint must still give after a reload.

    from pytest_campaign import proof

    proof.record(model, {"input_ids": tokens}, "out/runs/control/probe.safetensors")
    run.deliver("model", "checkpoint", "runs/control/model", tensor_digests=proof.digests(model))

Importing it imports neither torch nor pytest.
"""

from .digests import digests
from .probe import record

__all__ = ["digests", "record"]
