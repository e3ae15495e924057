"""The state that the supervisor passes from one child process to the next."""

import io
import pickle
import types
from typing import Any, NamedTuple


class Earlier(NamedTuple):
    """How an earlier child process ended, and what it had finished."""

    stopped: bool = False  # whether it ended at the target
    status: int | None = None  # its exit status, negative for a signal; None if its time was up
    stack: str = ""  # the stack at its end, most recent call first, as faulthandler writes it
    points: tuple[tuple[int, bytes], ...] = ()  # the finished points of the target, pickled, by number
    seed: int | None = None  # the seed that it drew


_EVERYWHERE = ("gradcli", "numpy", "builtins", "copyreg", "enum")  # packages whose types every child process can load


class _Pickler(pickle.Pickler):
    """Pickles parts of reports; a value whose type another child may be unable to load is replaced by its type's name."""

    def reducer_override(self, x: Any) -> Any:
        named = isinstance(x, type | types.FunctionType | types.BuiltinFunctionType)
        home = (x if named else type(x)).__module__ or "builtins"
        if home.partition(".")[0] in _EVERYWHERE:
            return NotImplemented
        from gradcli.reports.encode import Opaque

        return Opaque, (x.__name__ if named else type(x).__name__,)


def pickled(x: Any) -> bytes:
    """Return a part of a report as bytes, which the supervisor passes to the next child."""
    stream = io.BytesIO()
    _Pickler(stream).dump(x)
    return stream.getvalue()
