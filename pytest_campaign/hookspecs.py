"""What other plugins may implement.

PYTEST_DONT_REWRITE: imported in every pytest run, like the entry point.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


@pytest.hookspec
def pytest_campaign_record(config: pytest.Config, record: dict[str, Any]) -> None:
    """Receive the finished record of the session, once, in the process that writes the reports.

    :param record: the JSON report as plain data, in the form of ``schemas/report-1.schema.json``.
    """


@pytest.hookspec(firstresult=True)
def pytest_campaign_loader(config: pytest.Config, deliverable_id: str, kind: str, path: Path, format: str | None) -> str | None:
    """Name a loader of your own for a deliverable: ``module:function`` or ``/path/file.py:function``; None for none.

    The function is called in the fresh process with the path and returns a ``torch.nn.Module``. Asked once for each deliverable
    that is reloaded, before anything is collected; a loader given with ``--campaign-loader`` comes first. A relative file is
    meant from the root directory.

    :param path: the file or folder of the deliverable (absolute). Nothing in it should be read or run here.
    :param format: what its content was recognised as; several formats joined by a comma, None for none.
    """

