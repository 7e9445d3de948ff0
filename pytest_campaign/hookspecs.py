"""What other plugins may implement.

PYTEST_DONT_REWRITE: imported in every pytest run, like the entry point.
"""

from __future__ import annotations

from typing import Any

import pytest


@pytest.hookspec
def pytest_campaign_record(config: pytest.Config, record: dict[str, Any]) -> None:
    """Receive the finished record of the session, once, in the process that writes the reports.

    :param record: the JSON report as plain data, in the form of ``schemas/report-1.schema.json``.
    """

