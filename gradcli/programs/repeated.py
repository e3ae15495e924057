"""A gradient that is asked for again and again: recorded on a tape the first times, then by a program written for it.

A program is written for arguments of the same shapes, of a function that can do nothing else next time, after a few calls:
writing it takes as long as 1 to 40 of them, of 1,000 scalar operations 80. It is used only if it finds, at the point of the
call in which it is written, what the tape finds. Where it finds a nan, or raises, the tape decides.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradcli.core import levels
from gradcli.core.primitive import Primitive, Value
from gradcli.core.shapes import shape
from gradcli.programs.gradient import gradient
from gradcli.programs.pure import Isolation, Outside, is_array
from gradcli.programs.straight_line import MOST_NODES, AbstractValue, CannotCompile, Node, StraightLine
from gradcli.programs.written import written
from gradcli.source.call import Call, Calls, Wrt
from gradcli.source.standin import stand_ins

CALLS = 5  # with arguments of the same shapes, before a program is written for them
_MOST = 8  # programs of one function
_AGREEMENT = 1e-9  # of the largest entry, between a program and the tape
_NUMBERS = {float, np.float64}
Shapes = tuple[tuple[int, ...], ...]
Form = tuple[int, tuple[str, ...]]  # of a call: how many arguments are passed by position, and the names of the others
Kind = tuple[Form, tuple[Any, ...]]  # its form; of each argument the shape, or the number itself where it stands still


class Repeated:
    """The gradient of one function, and its value where it is wanted, by the inputs that `wrt` names."""

    def __init__(self, f: Callable[..., Any], wrt: Wrt, with_value: bool) -> None:
        self.calls = Calls(f, wrt)
        self.with_value = with_value
        self._moving: dict[Form, frozenset[int] | None] = {}  # positions of what is differentiated; None: of no program
        self._asked: dict[Kind, int] = {}
        self._wait: dict[Kind, int] = {}  # calls, longer for a function that keeps becoming another
        self._ready: dict[Kind, Ready] = {}

    def __call__(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Value, Any]:
        """Return the value and the gradient; a value that is not wanted may be None.

        Raises  BadShape where the value is no scalar, and what the function raises.
        """
        form, values = (len(args), tuple(kwargs)), (*args, *kwargs.values())
        moving = self._moving.get(form)
        kind = None if moving is None else _kind(form, values, moving)
        with np.errstate(all="ignore"):
            if kind is not None and (ready := self._ready.get(kind)) is not None:
                found = self._by_program(ready, kind, values)
                if found is not None:
                    return found
            call = self.calls.of(args, kwargs)
            y, xbars = call.pulled(call.xs)
            if form not in self._moving and _kind(form, values, frozenset()) is not None:
                moving = self._moving[form] = _moving(self.calls.names(call, form), call)
                kind = None if moving is None else _kind(form, values, moving)
            if kind is not None and kind not in self._ready and self._is_time(kind):
                self._write(kind, call, values, y, xbars)
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
        if any(map(_has_nan, xbars)) or (y is not None and _has_nan(y)):
            return None
        return y, xbars[0] if ready.one else tuple(xbars)

    def _is_time(self, kind: Kind) -> bool:
        """Count a call; whether the next ones are worth a program."""
        if kind not in self._asked and len(self._asked) >= _MOST:
            return False
        self._asked[kind] = asked = self._asked.get(kind, 0) + 1
        return asked == self._wait.get(kind, CALLS)

    def _write(self, kind: Kind, call: Call, values: Sequence[Any], y: Value, xbars: Sequence[Value]) -> None:
        """Write the program, where the function allows it, and keep it if it finds the value and the gradient."""
        try:
            ready = self._made(kind[0], call, values)
            found = self._by_program(ready, kind, values)
        except Exception:  # the user's code may fail in any way on values that it cannot see: the tape goes on
            return
        if found is None:
            return
        mine = (found[1],) if ready.one else found[1]
        if all(map(_agree, mine, xbars)) and (not self.with_value or _agree(found[0], y)):
            self._ready[kind] = ready

    def _made(self, form: Form, call: Call, values: Sequence[Any]) -> "Ready":
        """Return the program of a call. Raises Unread, and whatever the function raises on values that it cannot see."""
        outside, arrays, moving = Outside(), [], self._moving[form] or frozenset()
        with levels.sweep() as level:
            program = StraightLine(level, most=MOST_NODES // 4)  # the way back takes the most of it

            def stand(x: Any) -> AbstractValue:
                arrays.append(program.input(x))
                return arrays[-1]

            isolation = Isolation(outside, stand)
            isolated = isolation.isolated(self.calls.f)
            inputs = [program.input(x if is_array(x) else np.float64(x)) for x in values]
            passed = [u if k in moving or is_array(values[k]) else values[k] for k, u in enumerate(inputs)]
            if arrays:
                isolation.refuse_unlike()
            with stand_ins(program.constant):
                y = isolated(*passed[: form[0]], **dict(zip(form[1], passed[form[0] :], strict=True)))
            if type(y) is not AbstractValue or y.shape:
                raise CannotCompile("the value is no number of the trace")
            program.most = MOST_NODES
            watched = self.with_value or any(map(_may_be_nan, program.nodes))
            named = dict(zip(self.calls.names(call, form) or (), inputs, strict=True))
            bars = gradient(program, y, [named[path] for path in call.wrt])
        run = written(
            program,
            [x.number for x in (*inputs, *arrays)],
            y.number if watched else None,
            [None if x is None else x.number for x in bars],
            call.xs,
        )
        return Ready(run, outside, tuple(x.shape for x in arrays), call.one)


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


def _kind(form: Form, values: Sequence[Any], moving: frozenset[int]) -> Kind | None:
    """Return the kind of a call whose arguments are all float64's: numbers, and arrays with axes; else None."""
    found: list[Any] = []
    for k, x in enumerate(values):
        if is_array(x):
            found.append(x.shape)
        elif type(x) not in _NUMBERS:
            return None
        else:  # on a tape a number that stands still is the user's own, Python's or numpy's
            found.append(() if k in moving else (type(x), x, math.copysign(1.0, x)))
    return form, tuple(found)


def _moving(names: Sequence[str] | None, call: Call) -> frozenset[int] | None:
    """Return the positions of the arguments that are differentiated; None where their names cannot be told."""
    return None if names is None else frozenset(k for k, name in enumerate(names) if name in call.wrt)


def _shape(x: Any) -> tuple[int, ...] | None:
    return x.shape if is_array(x) else None


def _has_nan(x: Value) -> bool:
    """Whether a plain value has a nan: squares are not negative, so that no two infinities cancel."""
    total = x * x if type(x) is np.float64 else np.vdot(x, x)
    return bool(total != total)


def _may_be_nan(node: Node) -> bool:
    """Whether an operation has no value for some numbers, where its slope may have one all the same."""
    return isinstance(node.operation, Primitive) and not node.operation.dense


def _agree(a: Value, b: Value) -> bool:
    return shape(a) == shape(b) and bool(np.all(np.abs(a - b) <= _AGREEMENT * np.max(np.abs(b), initial=0.0)))
