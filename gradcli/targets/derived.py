"""Functions derived from a function: its gradient, its value along a line, a weighted sum of its outputs.

A claimed Hessian is a claimed Jacobian of the gradient; a claimed product J v is a claimed derivative along v; a claimed
product w J is a claimed gradient of the weighted sum. So one mechanism checks every kind of claim.
"""

import functools
import itertools
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from gradcli.arithmetic.dual import jvp
from gradcli.arithmetic.recorded_program import record, value_and_gradient
from gradcli.arithmetic.tape import METER, Line, Recorded
from gradcli.errors import NotSupported
from gradcli.report import numbers
from gradcli.targets.constants import Constants
from gradcli.targets.facts import Function, Notice, OutputPart, Surface, restrict_to_inputs
from gradcli.targets.nesting import ContainerNode, Leaf, Node, put_together, take_apart
from gradcli.targets.python import PythonFunction
from gradcli.targets.solver_tolerances import watch_solvers
from gradcli.tracing.primitive import Params, Primitive, Transposer, Value
from gradcli.tracing.shapes import iterate_blocks, shape, size
from gradcli.tracing.tracer import Tracer, arithmetic_of, exact_integer

STEP = "step along v"  # the input of a function along a line; no parameter can have this name


class _Derived:
    """Base of the derived functions. The original function has been surveyed, so they report no notices."""

    def __init__(self, f: Function, text: str | None = None, outputs: tuple[OutputPart, ...] | None = None) -> None:
        self.f = f
        self.kind = f.kind
        self.inputs = f.inputs
        self.text = f.text if text is None else text
        self.outputs = f.outputs if outputs is None else outputs

    def __call__(self, values: Mapping[str, Value]) -> Value:
        raise NotImplementedError

    def survey(self, values: Mapping[str, Value]) -> tuple[Value, list[Notice]]:
        return self(values), []


class Gradient(_Derived):
    """The gradient of a scalar function by the reverse mode, as one vector.

    `claim` is the user's gradient, if one is claimed together with a second derivative.

    Shapes  the value is (n,), n the number of entries of all inputs in `wrt`.
    """

    def __init__(
        self,
        f: Function,
        wrt: tuple[str, ...],
        values: Mapping[str, Value],
        claim: Callable[[Mapping[str, Value]], Any] | None = None,
    ) -> None:
        super().__init__(f, f"gradient of {f.text}", tuple(OutputPart(f"df/d{n}", shape(values[n])) for n in wrt))
        self.wrt = wrt
        self.claim = claim

    def __call__(self, values: Mapping[str, Value]) -> Value:
        xs = [values[name] for name in self.wrt]
        _, xbars = value_and_gradient(restrict_to_inputs(self.f, values, self.wrt), xs, lambda y: exact_integer(1, y))
        return np.concatenate([np.reshape(xbar, (-1,)) for xbar in xbars])


class GivenGradient(Gradient):
    """The claimed gradient of a function that cannot be traced, in place of the reverse mode's.

    Raises  NotSupported when called on tracers, or without a claim.
    """

    def __call__(self, values: Mapping[str, Value]) -> Value:
        if self.claim is None or any(isinstance(x, Tracer) for x in values.values()):
            raise NotSupported("second derivatives are compared with differences of the claimed gradient")
        with watch_solvers():
            parts = self.claim({name: x for name, x in values.items() if name != STEP})
        return np.concatenate([np.reshape(parts[name], (-1,)) for name in self.wrt])


class Along(_Derived):
    """The function along a line through the point: t -> f(x + t v)."""

    def __init__(self, f: Function, v: Mapping[str, Any]) -> None:
        super().__init__(f, f"{f.text} {numbers.free_letters('along v', f.inputs)}")
        self.v = dict(v)
        self.inputs = (STEP, *f.inputs)

    def __call__(self, values: Mapping[str, Value]) -> Value:
        moved = {name: values[name] + values[STEP] * step for name, step in self.v.items()}
        return self.f({**{name: x for name, x in values.items() if name != STEP}, **moved})


class Weighted(_Derived):
    """A weighted sum of the function's outputs, sum(w * f); its gradient is the product w J."""

    def __init__(self, f: Function, w: Any, what: str | None = None) -> None:
        super().__init__(f, f"{numbers.free_letters('w .', f.inputs)} {f.text}" if what is None else what, ())
        self.w = w

    def __call__(self, values: Mapping[str, Value]) -> Value:
        return np.sum(self.f(values) * self.w)


class SumOfEntries(_Derived):
    """The sum of the entries of a function whose Jacobian is diagonal: its gradient is that diagonal."""

    def __init__(self, f: Function) -> None:
        super().__init__(f, f"sum of the entries of {f.text}", ())

    def __call__(self, values: Mapping[str, Value]) -> Value:
        return np.sum(self.f(values))


class OnSurfaces(_Derived):
    """The function of inputs that are brought back to the sets they lie on, such as symmetric matrices.

    Its gradient is that along the sets: of a function that reads one triangle alone, such as a Cholesky factor, it is
    symmetric, too.
    """

    def __init__(self, f: Function, surfaces: Mapping[str, Surface]) -> None:
        super().__init__(f)
        self.surfaces = dict(surfaces)

    def __call__(self, values: Mapping[str, Value]) -> Value:
        back = {name: surface.bring(values[name]) for name, surface in self.surfaces.items() if name in values}
        return self.f({**values, **back})


def tangent_to_surfaces(surfaces: Mapping[str, Surface], at: Mapping[str, Any], v: Mapping[str, Any]) -> dict[str, Any]:
    """Return a direction along the sets that inputs lie on: the derivative of bringing the inputs back to them."""
    along = {name: jvp(s.bring, [at[name]], [v[name]])[1] for name, s in surfaces.items() if name in v}
    return {**v, **along}


def is_target(f: Function) -> bool:
    """Whether a function is the target itself, if only on the sets that its inputs lie on, or the sum of its entries."""
    return (f.f if isinstance(f, OnSurfaces | SumOfEntries) else f) is original_function(f)


class Completed(_Derived):
    """The function with fixed values for the arguments that are not differentiated."""

    def __init__(self, f: Function, others: Mapping[str, Any]) -> None:
        super().__init__(f)
        self.others = dict(others)

    def __call__(self, values: Mapping[str, Value]) -> Value:
        return self.f({**self.others, **values})


class WithConstants(_Derived):
    """The function such that a tape records what it computes with some inputs, and with constants of its code, too.

    `fixed` are the names of the inputs. They are no inputs of the tape.
    """

    def __init__(self, f: Function, fixed: Collection[str], constants: Constants) -> None:
        super().__init__(f)
        self.fixed = frozenset(fixed)
        self.constants = constants

    def __call__(self, values: Mapping[str, Value]) -> Value:
        traced = max((x for x in values.values() if isinstance(x, Recorded)), key=lambda x: x.level, default=None)
        if traced is None:
            return self.f(values)
        system = arithmetic_of(traced)

        def on_tape(x: Value) -> Recorded:
            return traced.tape.variable(x if system is None else system.lift(x))

        own = {name: on_tape(x) if name in self.fixed else x for name, x in values.items()}
        with self.constants.with_numbers([on_tape(x) for x in self.constants.numbers]):
            return self.f(own)


def inner_gradient(f: Function) -> Gradient | None:
    """Return the gradient if the function is one, one along a line, or the sum of its entries; else None."""
    inner = f.f if isinstance(f, Along | SumOfEntries) else f
    return inner if isinstance(inner, Gradient) else None


def original_function(f: Function) -> Function:
    """Return the original function, from which all derived ones were made."""
    while isinstance(f, _Derived):
        f = f.f
    return f


def random_signs(rng: np.random.Generator, size: tuple[int, ...]) -> Any:
    """Return random numbers from -1 to -0.5 and from 0.5 to 1."""
    made = np.empty(size)
    entries = made.reshape(-1)
    for part in iterate_blocks(entries.size):
        drawn = rng.random(out=entries[part])
        # a mask of random numbers is slow to choose by
        np.copysign(drawn + 0.5 * (drawn < 0.5), drawn - 0.5, out=drawn)
    return made[()]


def random_direction(seed: int, name: str, x: Any) -> Any:
    """Return a random direction in proportion to the entries of `x`, so that a large entry does not hide a small one.

    Shapes  as x.
    """
    rng = np.random.default_rng([seed, size(x), len(name), *name.encode()[:8]])
    scale = np.maximum(np.abs(x), 1e-3 * max(1.0, float(np.max(np.abs(x), initial=0.0))))
    scale = np.where(np.asarray(x) == 0, 1.0, scale)
    v = np.asarray(random_signs(rng, shape(x)) * scale)
    v.flags.writeable = False  # a claim that tries to write into it is called again on copies
    return v[()]


# Checkpointing: the operations of a function are not stored on the tape but computed again in the reverse sweep.

_KEEP: ContextVar[bool] = ContextVar("keep", default=False)


@contextmanager
def record_checkpoints() -> Iterator[None]:
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
        node, leaves = take_apart("", (args, kwargs))
        traced = [path for path, x in leaves.items() if isinstance(x, Tracer)]
        top = max((leaves[path] for path in traced), key=lambda x: x.level, default=None)
        if not isinstance(top, Recorded) or _KEEP.get():
            METER.kept = _KEEP.get()
            return f(*args, **kwargs)
        return _Again(f, node, leaves, traced).result([leaves[path] for path in traced])

    return checkpointed


def lines_of_checkpoint(line: Line) -> list[Line]:
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
        call = lambda both: f(*both[0], **both[1])
        self._call = PythonFunction(call, getattr(f, "__name__", "f"), {"both": node}, ())

    def result(self, xs: Sequence[Value]) -> Any:
        """Return the function's result, recorded as one line; a tuple or dict is cut from the value of that line."""
        name, rules = f"checkpoint of {self._call.text}", (self,) * len(xs)
        y = Primitive(name, self.run, rules, kind="differential", analytic=False)(*xs)
        if isinstance(self.output, Leaf):
            return y
        stops = itertools.accumulate(map(math.prod, self.shapes.values()))
        parts = {
            path: np.reshape(y[stop - math.prod(sizes) : stop], sizes)
            for (path, sizes), stop in zip(self.shapes.items(), stops, strict=True)
        }
        return put_together(self.output, parts)

    def run(self, *xs: Value) -> Value:
        """Run the function on other values and return its result; the parts of a tuple or dict become one vector.

        Raises  NotSupported if the function uses a traced value that is not among its arguments.
        """
        y = self._call.returned(self.leaves | dict(zip(self.traced, xs, strict=True)))
        self.output, leaves = take_apart("", y)
        self.shapes = {path: shape(x) for path, x in leaves.items()}
        several = isinstance(self.output, ContainerNode)
        found = np.concatenate([np.reshape(x, (-1,)) for x in leaves.values()]) if several else y
        mine = max((x.level for x in xs if isinstance(x, Tracer)), default=0)
        if isinstance(found, Tracer) and found.level > mine:
            says = f"{self._call.text} is checkpointed and uses a traced value that is not among its arguments"
            raise NotSupported(says, do="pass the value as an argument")
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
