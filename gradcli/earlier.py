"""The state that the supervisor passes from one child process to the next."""

import io
import pickle
import signal
import types
from typing import Any, NamedTuple


class Earlier(NamedTuple):
    """What earlier child processes did, and how the last of them ended."""

    word: int = -1  # the target at which it ended: its position on the command line
    line: int = 0  # the line of standard input of this target, from 1; 0 for an argument
    text: str = ""  # the text of that line
    stopped: bool = False  # whether it ended at that target
    status: int | None = None  # its exit status, negative for a signal; None if its time was up
    stack: str = ""  # the stack at its end, most recent call first, as faulthandler writes it
    points: tuple[tuple[int, bytes], ...] = ()  # the finished points of that target, pickled, by number
    statuses: tuple[int, ...] = ()  # of the earlier targets
    written: bool = False  # whether a report of them was written to the files
    rows: tuple[bytes, ...] = ()  # their pickled rows of the page, if all targets share one


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


def name_of(status: int) -> str:
    """Return in words how a process ended: by an exit status, or by the name of a signal."""
    if status >= 0:
        return f"exit status {status}"
    try:
        return signal.Signals(-status).name
    except ValueError:
        return f"signal {-status}"
