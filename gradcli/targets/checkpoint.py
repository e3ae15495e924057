"""Checkpointing: the operations of a function are not stored on the tape but computed again in the reverse sweep."""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from gradcli.arithmetic.dual import jvp
from gradcli.arithmetic.program import record
from gradcli.arithmetic.tape import METER, Line, Recorded
from gradcli.errors import NotSupported
from gradcli.targets.python import PythonFunction
from gradcli.targets.structure import Branch, Leaf, Node, put_together, taken_apart
from gradcli.tracing.primitive import Params, Primitive, Transposer, Value
from gradcli.tracing.shapes import shape
from gradcli.tracing.tracer import Tracer

_KEEP: ContextVar[bool] = ContextVar("keep", default=False)


@contextmanager
def keeping() -> Iterator[None]:
    """Record checkpointed functions line by line, as the analyses of kinks and of rounding need it."""
    token = _KEEP.set(True)
    try:
        yield
    finally:
        _KEEP.reset(token)


def checkpoint(f: Callable[..., Any]) -> Callable[..., Any]:
    """Return `f` such that a reverse sweep stores only its arguments, and runs it again to differentiate it.

    Cost    one more evaluation of f in each reverse sweep. A chain of L layers in sqrt(L) groups, each checkpointed,
            holds about 2 sqrt(L) layers' activations instead of L.
    Raises  NotSupported if f uses a traced value that is not among its arguments.
    Source  Chen et al. (2016), Training deep nets with sublinear memory cost; Griewank and Walther (2008), chapter 12.

    >>> from gradcli import checkpoint, grad
    >>> float(grad(checkpoint(lambda x: x**3))(2.0))
    12.0
    """

    @functools.wraps(f)
    def checkpointed(*args: Any, **kwargs: Any) -> Any:
        node, leaves = taken_apart("", (args, kwargs))
        traced = [path for path, x in leaves.items() if isinstance(x, Tracer)]
        top = max((leaves[path] for path in traced), key=lambda x: x.level, default=None)
        if not isinstance(top, Recorded) or _KEEP.get():
            METER.kept = _KEEP.get()
            return f(*args, **kwargs)
        again = _Again(f, node, leaves, traced)
        return again.result([leaves[path] for path in traced])

    return checkpointed


def inside(line: Line) -> list[Line]:
    """Return the lines that a checkpointed call replaces on the tape; an empty list for any other line."""
    primitive, _, xs, *_ = line
    if primitive is None or not primitive.rules or not isinstance(primitive.rules[0], _Again):
        return []
    return record(primitive.rules[0].run, xs)[2].lines


class _Again:
    """One call of a checkpointed function, which can be repeated with other values of its traced arguments."""

    def __init__(self, f: Callable[..., Any], node: Node, leaves: Mapping[str, Any], traced: Sequence[str]) -> None:
        self.f = f
        still = {path: x for path, x in leaves.items() if path not in traced}
        self.leaves = {path: x.copy() if type(x) is np.ndarray else x for path, x in still.items()}
        self.traced = traced
        self.output: Node = Leaf("")
        self.shapes: dict[str, tuple[int, ...]] = {}
        self._pulled: tuple[Value, list[Value]] | None = None
        self._call = PythonFunction(
            lambda both: f(*both[0], **both[1]), getattr(f, "__name__", "f"), {"both": node}, ()
        )

    def result(self, xs: Sequence[Value]) -> Any:
        """Return the function's result, recorded as one line; a tuple or dict is cut from the value of that line."""
        row = Primitive(
            f"checkpoint of {self._call.text}", self.run, (self,) * len(xs), kind="differential", analytic=False
        )
        y = row(*xs)
        if isinstance(self.output, Leaf):
            return y
        parts, start = {}, 0
        for path, size in self.shapes.items():
            stop = start + int(np.prod(size))
            parts[path] = np.reshape(y[start:stop], size)
            start = stop
        return put_together(self.output, parts)

    def run(self, *xs: Value) -> Value:
        """Run the function on other values and return its result; the parts of a tuple or dict become one vector.

        Raises  NotSupported if the function uses a traced value that is not among its arguments.
        """
        y = self._call.returned(self.leaves | dict(zip(self.traced, xs, strict=True)))
        self.output, leaves = taken_apart("", y)
        self.shapes = {path: shape(x) for path, x in leaves.items()}
        found = (
            np.concatenate([np.reshape(x, (-1,)) for x in leaves.values()]) if isinstance(self.output, Branch) else y
        )
        mine = max((x.level for x in xs if isinstance(x, Tracer)), default=0)
        if isinstance(found, Tracer) and found.level > mine:
            raise NotSupported(
                f"{self._call.text} is checkpointed and uses a traced value that is not among its arguments",
                do="pass the value as an argument",
            )
        return found

    def push(self, primitive: Primitive, i: int, y: Value, xs: Sequence[Value], xdot: Value, params: Params) -> Value:
        return jvp(lambda x: self.run(*xs[:i], x, *xs[i + 1 :]), [xs[i]], [xdot])[1]

    def pull(self, ybar: Value, i: int, y: Value, xs: Sequence[Value], params: Params, transpose: Transposer) -> Value:
        if self._pulled is None or self._pulled[0] is not ybar:
            y, inputs, tape = record(self.run, xs)
            METER.nested(tape)
            self._pulled = ybar, tape.pull(y, ybar, inputs)
        found = self._pulled[1][i]
        if i == len(xs) - 1:
            self._pulled = None
        return found
