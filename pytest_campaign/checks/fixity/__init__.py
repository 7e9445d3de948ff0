"""Are these still the bytes that were written?

What is declared (manifest, lists of digests, BagIt bags, an earlier report) is collected by `pytest_campaign.declarations`; this
check compares it with the files. `rules` holds the rules, `judge` and `since` the pure functions. The check of a deliverable
speaks of its own files, the check of the campaign of those that belong to none.
"""

from __future__ import annotations

from ..base import CampaignCheck, DeliverableCheck
from . import rules as rules  # where the registry looks for the rules of a check that is a package
from .judge import absent, campaign_check, check

CHECK = DeliverableCheck("fixity", "Are these the bytes that were written?", check, skip=absent, cost=2)
CAMPAIGN_CHECK = CampaignCheck("fixity", "Are listed files of no deliverable as they were written?", campaign_check)
