"""Accept or reject the outputs of a training campaign.

PYTEST_DONT_REWRITE: the console script imports the package before pytest, which would warn that it cannot rewrite it.
"""

__version__ = "0.1.0"
