"""How a callback holds a run: that of a ``with`` block around it, or one of its own."""

from __future__ import annotations

import atexit
import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from .campaign import Campaign
from .errors import RecordingError, RecordingWarning
from .run import PARAMETERS, Run

_NO_ERROR = "the program ended in the middle of the training"


class Held:
    """The run of a callback. ``collect`` delivers what the training has left so far."""

    def __init__(self, record: Run | Campaign, run: str | None, collect: Callable[[], None]) -> None:
        if isinstance(record, Campaign) != (run is not None):
            raise RecordingError(
                'give the callback a run, or a campaign and the id of a run: CampaignCallback(campaign, "control")')
        self._own = isinstance(record, Campaign)
        self.run: Run = record.run(run or "") if isinstance(record, Campaign) else record
        self._collect = collect
        self._begun = False

    def begin(self) -> None:
        """The training begins; a second beginning while the run goes on, after it ran out of memory, say, is none."""
        if self._begun:
            if self._own and not self.run.is_open:
                raise RecordingError(f"run {self.run.id} has ended; each training needs a run, and a callback, of its own")
            return
        self._begun = True
        self.run.at_end(self._collect)
        if self._own:
            self.run.start()
            atexit.register(self._leave)

    def parameters(self, gathered: Mapping[str, Any]) -> None:
        """Record parameters that were gathered by themselves, where the script gave none.

        Where a run goes on with others, `RecordingWarning`: the library may have changed, or where it writes to.
        """
        if not self.run.has_parameters:
            try:
                self.run.parameters(gathered)
            except RecordingError as error:
                warnings.warn(f"the parameters of run {self.run.id} stay as they were recorded first: {error}", RecordingWarning,
                              stacklevel=4)
                self.run.update(parameters=self.run.campaign.inside(self.run.folder / PARAMETERS))

    def end(self) -> None:
        """The training is over; with a ``with`` block the run goes on to its end."""
        if self._own:
            self.run.end()
        else:
            self._collect()

    def fail(self, error: BaseException) -> None:
        """The training ended with an exception."""
        if self._own and self._begun:
            self.run.fail(error)

    def _leave(self) -> None:
        """The program ends: record what was saved after the training, or why the training did not come to its end."""
        if self.run.is_open:
            error = getattr(sys, "last_value", None)
            self.run.fail(error if isinstance(error, BaseException) else RuntimeError(_NO_ERROR))
        else:
            self.run.deliver_what_is_left()
