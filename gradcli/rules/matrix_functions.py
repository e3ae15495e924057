"""Functions of a square matrix: exponential, logarithm and square root. scipy is imported when one is called.

Source  Higham (2008), Functions of Matrices, theorem 3.6: f([[A, E], [0, A]]) holds the derivative of f at A in direction E
        in its upper right block. The adjoint is the derivative at the transposed matrix.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from gradcli.errors import NotSupported
from gradcli.rules.linalg import T, square
from gradcli.rules.shaping import as_value
from gradcli.tracing.cost import factored
from gradcli.tracing.primitive import Params, Primitive, Transposer, Value, declare, named
from gradcli.tracing.shapes import shape

_COST = factored(50)  # some ten products and a solve, or a Schur form
_ROUNDED = 1e-8  # relative to the largest entry: a larger imaginary part is not rounding


@dataclass(frozen=True, slots=True)
class Frechet:
    """The rule of a function of a matrix, by the same function of a matrix of twice the size."""

    name: str

    def push(self, primitive: Primitive, i: int, y: Value, xs: Sequence[Value], xdot: Value, params: Params) -> Value:
        return self.derivative(xs[0], xdot)

    def pull(self, ybar: Value, i: int, y: Value, xs: Sequence[Value], params: Params, transpose: Transposer) -> Value:
        return self.derivative(T(xs[0]), ybar)

    def derivative(self, a: Value, direction: Value) -> Value:
        """Return the derivative at `a` in a direction."""
        n = shape(a)[-1]
        upper = np.concatenate([a, direction], axis=-1)
        lower = np.concatenate([np.zeros(shape(a)), a], axis=-1)
        return named(self.name)(np.concatenate([upper, lower], axis=-2))[..., :n, n:]


def _scipys(name: str) -> Callable[[Value], Value]:
    """Return scipy's function of one matrix as a function of stacks of matrices with a real result."""

    def function(a: Value) -> Value:
        import scipy.linalg

        a = np.asarray(a)
        with warnings.catch_warnings():
            # scipy warns of singular matrices; values that are not finite become findings
            warnings.simplefilter("ignore")
            found = [getattr(scipy.linalg, name)(m) for m in a.reshape(-1, *a.shape[-2:])]
        y = np.reshape(np.stack(found), a.shape) if found else np.zeros(a.shape)
        if np.iscomplexobj(a) or not np.iscomplexobj(y):
            return y
        if np.max(np.abs(y.imag), initial=0.0) > _ROUNDED * np.max(np.abs(y), initial=0.0):
            raise NotSupported(f"{name} of this matrix is complex", do="move the point: no eigenvalue may be negative")
        return y.real

    return function


def _declared(name: str, analytic: bool) -> Primitive:
    return declare(Primitive(name, _scipys(name), (Frechet(name),), kind="differential", analytic=analytic, cost=_COST))


EXPM = _declared("expm", analytic=True)
LOGM = _declared("logm", analytic=True)
SQRTM = _declared("sqrtm", analytic=True)


def expm(A: Value) -> Value:
    """Return the exponential of a square matrix, or of each matrix of a stack."""
    return EXPM(square(as_value(A), "expm"))


def expm_frechet(A: Value, E: Value) -> Value:
    """Return the derivative of the matrix exponential at `A` in the direction `E`."""
    return Frechet("expm").derivative(square(as_value(A), "expm_frechet"), square(as_value(E), "expm_frechet"))


def logm(A: Value) -> Value:
    """Return the principal logarithm of a square matrix."""
    return LOGM(square(as_value(A), "logm"))


def sqrtm(A: Value) -> Value:
    """Return the principal square root of a square matrix."""
    return SQRTM(square(as_value(A), "sqrtm"))
