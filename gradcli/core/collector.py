"""The garbage collector while a tape is written: it seldom looks.

A tape is a list of tuples that all live until the way back. Python's collector goes through young objects whenever 700 more
of them live than before, and through all of them ever so often: on a long tape it finds nothing, again and again.
"""

import gc
import threading

_SELDOM = 100_000  # objects; a function that makes garbage of its own is still collected
_LOCK = threading.Lock()
_UNDER_WAY = [0]
_USUAL = [gc.get_threshold()]


class SeldomCollected:
    """Inside, the collector waits for many more objects; what was set before is put back when the last one ends."""

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
