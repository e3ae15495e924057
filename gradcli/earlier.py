"""What the supervisor hands from one child to the next."""

import io
import pickle
import signal
import types
from typing import Any, NamedTuple


class Earlier(NamedTuple):
    """What the children before this one did, and how the last of them ended."""

    word: int = -1  # the target it was at: its number among the targets
    line: int = 0  # its line of standard input, from 1; 0 for an argument
    text: str = ""  # that line
    stopped: bool = False  # whether it ended at that target
    status: int | None = None  # how: an exit status, negative for a signal; None where its time was up
    stack: str = ""  # where, most recent call first, as faulthandler writes it
    points: tuple[tuple[int, bytes], ...] = ()  # what it had finished of that target, by number
    statuses: tuple[int, ...] = ()  # of the targets before
    written: bool = False  # whether one of them has a report, which is in the files then
    rows: tuple[bytes, ...] = ()  # what the last page says of them, where they are shown together


_EVERYWHERE = ("gradcli", "numpy", "builtins", "copyreg", "enum")  # packages whose types every child has


class _Pickler(pickle.Pickler):
    """Pickles what a report holds; a value of a type that another child may not have is left out but for the type's name."""

    def reducer_override(self, x: Any) -> Any:
        named = isinstance(x, type | types.FunctionType | types.BuiltinFunctionType)
        home = (x if named else type(x)).__module__ or "builtins"
        if home.partition(".")[0] in _EVERYWHERE:
            return NotImplemented
        from gradcli.reports.encode import Opaque

        return Opaque, (x.__name__ if named else type(x).__name__,)


def pickled(x: Any) -> bytes:
    """Return a part of a report as the supervisor keeps it for the next child."""
    stream = io.BytesIO()
    _Pickler(stream).dump(x)
    return stream.getvalue()


def name_of(status: int) -> str:
    """Return how a process ended, in words: an exit status, or a signal by its name."""
    if status >= 0:
        return f"exit status {status}"
    try:
        return signal.Signals(-status).name
    except ValueError:
        return f"signal {-status}"
