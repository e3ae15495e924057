"""A setting of glibc that lets large arrays reuse memory pages that the process already has."""

import contextlib
from functools import cache

import numpy as np

_LARGEST = 31 * 2**20  # bytes; glibc raises its limit to at most 32 MiB


@cache
def reuse_pages() -> None:
    """Make glibc serve arrays of up to 32 MiB from its heap; other C libraries are not affected.

    By default, glibc gives every array over 128 KiB fresh pages, which the system maps and clears each time. That can cost
    several times the arithmetic. Freeing one large block raises the limit for the rest of the process. The block is never
    written to, so that it takes no memory.
    """
    with contextlib.suppress(MemoryError):  # a memory limit may forbid the block; then the default stays
        np.empty(_LARGEST // 8)
