"""Will it still be found and understood on another machine?

`rules` holds the rules, `files` says which fields of which files are references and which only record where a run took
place, `judge` turns what they hold into findings, and `names` looks at the names and links themselves.
"""

from __future__ import annotations

from ..base import DeliverableCheck
from . import rules as rules  # where the registry looks for the rules of a check that is a package
from .judge import absent, check

CHECK = DeliverableCheck(
    "portable", "Does it refer to nothing that stays behind on the machine that made it?", check, skip=absent)
