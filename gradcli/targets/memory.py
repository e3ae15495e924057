"""How much memory is free, so that an array that does not fit is refused before it is allocated."""

import contextlib
import os
from pathlib import Path

_UNKNOWN = 2**40  # bytes, so many that only the limits on entries apply where the system reports nothing


def memory_bytes() -> int:
    """Return the bytes that can be allocated now: the system's free memory, or less if a container limits it."""
    return min(_free(), _left_in_container())


def _free() -> int:
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    with contextlib.suppress(OSError, ValueError, AttributeError):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return _UNKNOWN


def _left_in_container() -> int:
    with contextlib.suppress(OSError, ValueError):
        group = Path("/sys/fs/cgroup")
        return int((group / "memory.max").read_text()) - int((group / "memory.current").read_text())
    return _UNKNOWN
