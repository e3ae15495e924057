"""A context in which Python's garbage collector runs rarely, for use while a tape is recorded.

A tape is a list of tuples that all stay alive until the reverse sweep. By default, Python's collector scans the young objects
whenever there are 700 more of them, and all objects from time to time. On a long tape these scans find nothing to free.
"""

import gc
import threading

_SELDOM = 100_000  # objects; not infinite, so that garbage made by the user's function is still collected
_LOCK = threading.Lock()
_UNDER_WAY = [0]
_USUAL = [gc.get_threshold()]


class SeldomCollected:
    """A context in which the collector waits for many more objects; the last one to end restores the usual threshold."""

    __slots__ = ()

    def __enter__(self) -> None:
        with _LOCK:
            _UNDER_WAY[0] += 1
            if _UNDER_WAY[0] == 1:
                _USUAL[0] = gc.get_threshold()
                if 0 < _USUAL[0][0] < _SELDOM:
                    gc.set_threshold(_SELDOM, *_USUAL[0][1:])

    def __exit__(self, *raised: object) -> None:
        with _LOCK:
            _UNDER_WAY[0] -= 1
            if _UNDER_WAY[0] == 0:
                gc.set_threshold(*_USUAL[0])
