"""Functions made of a function: its gradient, its value along a line, a weighted sum of its outputs.

A claimed Hessian is a claimed Jacobian of the gradient; a claimed product J v is a claimed derivative along v; a claimed
product w J is a claimed gradient of the weighted sum. So every kind of claim is checked by the one mechanism.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from gradcli.core.primitive import Value
from gradcli.core.shapes import shape, size
from gradcli.core.tracer import Tracer, exact
from gradcli.errors import NotSupported
from gradcli.interpreters.program import value_and_pulled
from gradcli.source.function import Function, Notice, Output, of

STEP = "step along v"  # the input of a function along a line; no parameter can be called so


class _Derived:
    """What derived functions share: they are surveyed where the function itself was."""

    def __init__(self, f: Function) -> None:
        self.f = f
        self.kind = f.kind
        self.inputs = f.inputs
        self.outputs: tuple[Output, ...] = f.outputs
        self.seconds: float | None = None

    def __call__(self, values: Mapping[str, Value]) -> Value:
        raise NotImplementedError

    def survey(self, values: Mapping[str, Value]) -> tuple[Value, list[Notice]]:
        return self(values), []


class Gradient(_Derived):
    """The gradient of a scalar function by the reverse mode, all inputs' entries laid end to end.

    `claim` is a gradient that is claimed beside a second derivative, and checked with it.
    """

    def __init__(
        self,
        f: Function,
        wrt: tuple[str, ...],
        values: Mapping[str, Value],
        claim: Callable[[Mapping[str, Value]], Any] | None = None,
    ) -> None:
        super().__init__(f)
        self.wrt = wrt
        self.claim = claim
        self.text = f"gradient of {f.text}"
        self.outputs = tuple(Output(f"df/d{name}", shape(values[name])) for name in wrt)

    def __call__(self, values: Mapping[str, Value]) -> Value:
        xs = [values[name] for name in self.wrt]
        _, xbars = value_and_pulled(of(self.f, values, self.wrt), xs, lambda y: exact(1, y))
        return np.concatenate([np.reshape(xbar, (-1,)) for xbar in xbars])


class GivenGradient(Gradient):
    """A gradient that is claimed for a function that cannot be traced, in place of the reverse mode's."""

    def __call__(self, values: Mapping[str, Value]) -> Value:
        if self.claim is None or any(isinstance(x, Tracer) for x in values.values()):
            raise NotSupported("second derivatives are compared with differences of the claimed gradient")
        parts = self.claim({name: x for name, x in values.items() if name != STEP})
        return np.concatenate([np.reshape(parts[name], (-1,)) for name in self.wrt])


class Along(_Derived):
    """The function along a line through the point: t -> f(x + t v)."""

    def __init__(self, f: Function, v: Mapping[str, Any]) -> None:
        super().__init__(f)
        self.v = dict(v)
        self.inputs = (STEP, *f.inputs)
        self.text = f"{f.text} along v"

    def __call__(self, values: Mapping[str, Value]) -> Value:
        moved = {name: values[name] + values[STEP] * step for name, step in self.v.items()}
        return self.f({**{name: x for name, x in values.items() if name != STEP}, **moved})


class Weighted(_Derived):
    """A weighted sum of the function's outputs: one row of its Jacobian, projected."""

    def __init__(self, f: Function, w: Any, what: str) -> None:
        super().__init__(f)
        self.w = w
        self.text = what
        self.outputs = ()

    def __call__(self, values: Mapping[str, Value]) -> Value:
        return np.sum(self.f(values) * self.w)


class Completed(_Derived):
    """The function with those of its arguments that no derivative is taken by: they stay as they are."""

    def __init__(self, f: Function, others: Mapping[str, Any]) -> None:
        super().__init__(f)
        self.others = dict(others)
        self.text = f.text

    def __call__(self, values: Mapping[str, Value]) -> Value:
        return self.f({**self.others, **values})


def gradient_in(f: Function) -> Gradient | None:
    """Return the gradient that a function is, or is taken along a line of; None for other functions."""
    inner = f.f if isinstance(f, Along) else f
    return inner if isinstance(inner, Gradient) else None


def root_of(f: Function) -> Function:
    """Return the function that others were made of."""
    while isinstance(f, _Derived):
        f = f.f
    return f


def either_way(rng: np.random.Generator, size: tuple[int, ...]) -> Any:
    """Return random numbers from -1 to -0.5 and from 0.5 to 1."""
    drawn = np.asarray(rng.random(size))
    return np.where(drawn < 0.5, -0.5 - drawn, drawn)[()]


def direction(seed: int, name: str, x: Any) -> Any:
    """Return a random direction in the shape of `x`, in proportion to its entries, so that none hides behind another."""
    rng = np.random.default_rng([seed, size(x), len(name), *name.encode()[:8]])
    scale = np.maximum(np.abs(x), 1e-3 * max(1.0, float(np.max(np.abs(x), initial=0.0))))
    scale = np.where(np.asarray(x) == 0, 1.0, scale)
    v = np.asarray(either_way(rng, shape(x)) * scale)
    v.flags.writeable = False  # a claim that writes into it is given copies
    return v[()]
