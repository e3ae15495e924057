"""Large arrays from pages that the process already has."""

import contextlib
from functools import cache

import numpy as np

_LARGEST = 31 * 2**20  # bytes; glibc goes no further than 32 MiB


@cache
def reuse_pages() -> None:
    """Let glibc serve arrays of up to 32 MiB from its heap; elsewhere nothing changes.

    By default an array over 128 KiB gets fresh pages of the system's, which are cleared and mapped again each time: several
    times the price of the arithmetic. Freeing one large block, which was never touched, raises that limit once for all.
    """
    with contextlib.suppress(MemoryError):  # where so much may not be asked for, it stays as it is
        np.empty(_LARGEST // 8)
