"""Does every checkpoint reload in a fresh process, completely, and is it what it says?

The reading itself happens in the reload process (`pytest_campaign.formats`); this check turns what it answered
into findings. `rules` holds the rules, `judge` the pure function.
"""

from __future__ import annotations

from ..base import DeliverableCheck
from . import rules as rules  # where the registry looks for the rules of a check that is a package
from .judge import absent, check, has_weights

CHECK = DeliverableCheck(
    "reload", "Does it reload in a fresh process, every byte of it?", check, expected=has_weights, skip=absent, cost=1)
