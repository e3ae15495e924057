"""The state that the supervisor passes from one child process to the next."""

import io
import pickle
import types
from collections.abc import Callable
from typing import Any, NamedTuple


class Earlier(NamedTuple):
    """How an earlier child process ended, and what it had finished."""

    stopped: bool = False  # whether it ended at the target
    status: int | None = None  # its exit status, negative for a signal; None if its time was up
    stack: str = ""  # the stack at its end, most recent call first, as faulthandler writes it
    points: tuple[tuple[int, bytes], ...] = ()  # the finished points of the target, pickled, by number


_EVERYWHERE = ("gradcli", "numpy", "builtins", "copyreg", "enum")  # packages whose types every child process can load


class _Pickler(pickle.Pickler):
    """Pickles parts of reports; in place of a value whose type another child may be unable to load, `opaque(its type's name)`."""

    def __init__(self, stream: io.BytesIO, opaque: Callable[[str], Any]) -> None:
        super().__init__(stream)
        self._opaque = opaque

    def reducer_override(self, x: Any) -> Any:
        named = isinstance(x, type | types.FunctionType | types.BuiltinFunctionType)
        home = (x if named else type(x)).__module__ or "builtins"
        if home.partition(".")[0] in _EVERYWHERE:
            return NotImplemented
        return self._opaque, (x.__name__ if named else type(x).__name__,)


def pickle_part(x: Any, opaque: Callable[[str], Any]) -> bytes:
    """Return a part of a report as bytes, which the supervisor passes to the next child."""
    stream = io.BytesIO()
    _Pickler(stream, opaque).dump(x)
    return stream.getvalue()
