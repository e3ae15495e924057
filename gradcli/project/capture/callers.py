"""Where in the source a call begins that a library makes."""

import sys
from typing import Any


def caller(*packages: str) -> tuple[str, int] | None:
    """Return file and line of the innermost frame outside of gradcli and these packages."""
    frame: Any = sys._getframe(1)
    skipped = ("gradcli", *packages)
    while frame is not None:
        if str(frame.f_globals.get("__name__", "")).partition(".")[0] not in skipped:
            return frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back
    return None
