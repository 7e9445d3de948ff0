"""What recording can complain about."""

from __future__ import annotations


class RecordingError(Exception):
    """Something that is not recorded; the text says why and what to do. The manifest stays as it was."""


class RecordingWarning(UserWarning):
    """Something that is recorded and will not be accepted as it is."""
