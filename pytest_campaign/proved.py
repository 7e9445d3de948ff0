"""What was proved of a deliverable with a model that has its values."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from .formats.base import Depth, Reading, Unit
from .reload.protocol import LOADED, Death


@dataclasses.dataclass(frozen=True)
class Proved:
    """How the job ended: a reading or a death. ``unit`` is the model, or stands for the whole deliverable that a loader read.

    ``loader`` is what a report calls the reviewer's loader, None when the library of the format built the model.
    """

    unit: Unit
    loader: str | None
    reading: Reading | None
    death: Death | None

    @property
    def depth(self) -> Depth | None:
        return self.reading.depth if self.reading is not None else None


def deepened(depths: Mapping[Unit, Depth | None], proved: Proved | None) -> Mapping[Unit, Depth | None]:
    """The depths of the units of a deliverable, with what was proved. A loader reads all of them, the library one."""
    reached = proved.depth if proved is not None else None
    if proved is None or reached is None:
        return depths
    return {unit: max(depth, reached) if depth is not None and (unit == proved.unit or proved.unit.format == LOADED) else depth
            for unit, depth in depths.items()}
