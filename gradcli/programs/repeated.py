"""A gradient that is asked for again and again: recorded on a tape the first times, then by a program written for it.

A program is written for arguments of the same shapes, of a function that can do nothing else next time, when the calls so
far have cost about what writing it does. It is used only if it finds, at the point of the call in which it is written, what
the tape finds. Where it finds a nan, or raises, the tape decides.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradcli.core import levels
from gradcli.core.primitive import Value
from gradcli.core.shapes import shape
from gradcli.programs.gradient import gradient
from gradcli.programs.program import Program, Unread, Unseen
from gradcli.programs.pure import Isolation, Outside, is_array
from gradcli.programs.written import written
from gradcli.source.call import Call, Calls, Wrt
from gradcli.source.standin import stand_ins

CALLS = 20  # with arguments of the same shapes, before a program is written for them
_MOST = 8  # programs of one function
_AGREEMENT = 1e-9  # of the largest entry, between a program and the tape
_NUMBERS = {float, np.float64}
Shapes = tuple[tuple[int, ...], ...]
Kind = tuple[Shapes, tuple[str, ...]]  # of a call: the shapes of its arguments, and the names of those passed by name


class Repeated:
    """The gradient of one function, and its value where it is wanted, by the inputs that `wrt` names."""

    def __init__(self, f: Callable[..., Any], wrt: Wrt, with_value: bool) -> None:
        self.calls = Calls(f, wrt)
        self.with_value = with_value
        self._asked: dict[Kind, int] = {}
        self._wait: dict[Kind, int] = {}  # calls, longer for a function that keeps becoming another
        self._ready: dict[Kind, Ready] = {}

    def __call__(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Value, Any]:
        """Return the value and the gradient; a value that is not wanted may be None.

        Raises  BadShape where the value is no scalar, and what the function raises.
        """
        kind = _kind(args, kwargs)
        with np.errstate(all="ignore"):
            if kind is not None and (ready := self._ready.get(kind)) is not None:
                found = self._by_program(ready, kind, (*args, *kwargs.values()))
                if found is not None:
                    return found
            call = self.calls.of(args, kwargs)
            y, xbars = call.pulled(call.xs)
            if kind is not None and kind not in self._ready and self._is_time(kind):
                self._write(kind, call, args, kwargs, y, xbars)
        return y, call.structured(xbars)

    def _by_program(self, ready: "Ready", kind: Kind, values: Sequence[Any]) -> tuple[Value, Any] | None:
        captured = ready.captured()
        if captured is None:  # it has become another function
            self._ready.pop(kind, None)
            self._asked[kind], self._wait[kind] = 0, 2 * self._wait.get(kind, CALLS)
            return None
        try:
            y, xbars = ready.run(*values, *captured)
        except (ArithmeticError, ValueError, np.linalg.LinAlgError):  # the tape says what the matter is
            return None
        if any(map(_has_nan, xbars)):
            return None
        return y, xbars[0] if ready.one else tuple(xbars)

    def _is_time(self, kind: Kind) -> bool:
        """Count a call; whether the next ones are worth a program."""
        if kind not in self._asked and len(self._asked) >= _MOST:
            return False
        self._asked[kind] = asked = self._asked.get(kind, 0) + 1
        return asked == self._wait.get(kind, CALLS)

    def _write(
        self, kind: Kind, call: Call, args: Sequence[Any], kwargs: Mapping[str, Any], y: Value, xbars: Sequence[Value]
    ) -> None:
        """Write the program, where the function allows it, and keep it if it finds the value and the gradient."""
        try:
            ready = _made(self.calls.f, call, args, kwargs, self.with_value)
            found = self._by_program(ready, kind, (*args, *kwargs.values()))
        except Exception:  # the user's code may fail in any way on values that it cannot see: the tape goes on
            return
        if found is None:
            return
        mine = (found[1],) if ready.one else found[1]
        if all(map(_agree, mine, xbars)) and (not self.with_value or _agree(found[0], y)):
            self._ready[kind] = ready


@dataclass(frozen=True, slots=True)
class Ready:
    """A program and what it takes from outside the function; `one` says that its gradient is of one argument alone."""

    run: Callable[..., tuple[Value, list[Value]]]
    outside: Outside
    seen: Shapes
    one: bool

    def captured(self) -> list[Any] | None:
        """Return the arrays that the function reads from outside, or None where it has become another function."""
        if not self.outside.unchanged():
            return None
        if not self.seen:
            return []
        found = [read() for read in self.outside.arrays]
        return found if tuple(map(_shape, found)) == self.seen else None


def _made(f: Callable[..., Any], call: Call, args: Sequence[Any], kwargs: Mapping[str, Any], with_value: bool) -> Ready:
    """Return the program of a call. Raises Unread, and whatever the function raises on values that it cannot see."""
    outside, arrays = Outside(), []
    with levels.sweep() as level:
        program = Program(level)

        def stand(x: Any) -> Unseen:
            arrays.append(program.input(x))
            return arrays[-1]

        isolated = Isolation(outside, stand).isolated(f)
        unseen = [program.input(x if type(x) is np.ndarray else np.float64(x)) for x in args]
        by_name = {name: program.input(x if type(x) is np.ndarray else np.float64(x)) for name, x in kwargs.items()}
        with stand_ins(program.constant):
            y = isolated(*unseen, **by_name)
        if type(y) is not Unseen or y.shape:
            raise Unread("the value is no number of the trace")
        others = (path for path in call.leaves if path not in by_name)
        named = by_name | dict(zip(others, unseen, strict=True))
        bars = gradient(program, y, [named[path] for path in call.wrt])
    run = written(
        program,
        [x.number for x in (*unseen, *by_name.values(), *arrays)],
        y.number if with_value else None,
        [None if x is None else x.number for x in bars],
        call.xs,
    )
    return Ready(run, outside, tuple(x.shape for x in arrays), call.one)


def _kind(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Kind | None:
    """Return the names and shapes of arguments that are all float64's: numbers, and arrays with axes; else None."""
    found = []
    for x in (*args, *kwargs.values()):
        if is_array(x):
            found.append(x.shape)
        elif type(x) in _NUMBERS:
            found.append(())
        else:
            return None
    return tuple(found), tuple(kwargs)


def _shape(x: Any) -> tuple[int, ...] | None:
    return x.shape if is_array(x) else None


def _has_nan(x: Value) -> bool:
    """Whether a plain value has a nan: squares are not negative, so that no two infinities cancel."""
    total = x * x if type(x) is np.float64 else np.vdot(x, x)
    return bool(total != total)


def _agree(a: Value, b: Value) -> bool:
    return shape(a) == shape(b) and bool(np.all(np.abs(a - b) <= _AGREEMENT * np.max(np.abs(b), initial=0.0)))
