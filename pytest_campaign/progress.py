"""How far a long reload is: a line that is redrawn on a terminal, one line every 30 seconds elsewhere."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator

import pytest

from .reload.protocol import Progress
from .text import shown, size

_ON_TERMINAL, _ELSEWHERE = 0.5, 30.0  # seconds between two signs of life


class ProgressLine:
    """Shows the progress of one item at a time; silent with ``-qq``."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._worker = getattr(config, "workerinput", {}).get("workerid")

    @contextlib.contextmanager
    def of(self, item: pytest.Item) -> Iterator[Callable[[Progress], None]]:
        """The function to call with each progress of ``item``; the line is wiped afterwards."""
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        on_terminal = self._worker is None and reporter is not None and reporter.isatty
        started = last = time.monotonic()
        drawn = False

        def show(progress: Progress) -> None:
            nonlocal last, drawn
            now = time.monotonic()
            if getattr(self._config.option, "verbose", 0) < -1 or now - last < (_ON_TERMINAL if on_terminal else _ELSEWHERE):
                return
            last, drawn = now, True
            text = f"{shown(progress.path)}: {size(progress.done)} of {size(progress.total)} read, {now - started:.0f} s"
            with self._visible():
                if self._worker is not None:  # a worker's terminal reporter writes to nowhere
                    with contextlib.suppress(OSError):
                        os.write(2, f"[{self._worker}] {text}\n".encode("utf-8", "replace"))
                elif reporter is not None:
                    reporter.ensure_newline()  # the reporter then repeats the item's place beside its outcome
                    if on_terminal:
                        reporter.rewrite(text, erase=True)
                    else:
                        reporter.write_line(text)
                    reporter.flush()

        try:
            yield show
        finally:
            if drawn and on_terminal and reporter is not None:
                with self._visible():
                    reporter.rewrite("", erase=True)
                    reporter.write("\r")

    def _visible(self) -> contextlib.AbstractContextManager[None]:
        capture = self._config.pluginmanager.get_plugin("capturemanager")
        if capture is None:
            return contextlib.nullcontext()
        suspended: contextlib.AbstractContextManager[None] = capture.global_and_fixture_disabled()
        return suspended
