"""Ways to call each primitive alone: its parameters, its constant arguments, and random values for the others."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gradcli.rules.composites import CONVOLVE
from gradcli.rules.fourier import DFT_COS, DFT_SIN
from gradcli.rules.linalg import (
    CHOLESKY,
    DET,
    EIGENVALUES,
    EIGENVECTORS,
    EINSUM,
    INV,
    LOGDET,
    MATMUL,
    PINV,
    QR,
    SINGULAR_VALUES,
    SINGULAR_VECTORS,
    SOLVE,
)
from gradcli.rules.reductions import CUMSUM, LOGSUMEXP, MAX, NORM, SUM
from gradcli.rules.shaping import BROADCAST, GETITEM, JOIN, PUT, RESHAPE, SCATTER, SELECT, TRANSPOSE
from gradcli.study.accuracy import PARAMS
from gradcli.tracing.primitive import (
    ABOVE_1,
    INSIDE_1,
    POSITIVE,
    REAL,
    UNIT,
    Domain,
    Params,
    Primitive,
    Value,
    table_by_name,
)

Draw = Callable[[Any], Value]
_V, _M, _K, _S, _TALL = (3,), (2, 3), (2, 3, 4), (3, 3), (4, 2)
_MASK = np.array([[True, False, True], [False, True, True]])
_JUMP = 0.02  # relative to the period: the distance to keep from the jumps of remainder


@dataclass(frozen=True)
class Sample:
    """One way to call a primitive: a function that draws each argument, or its constant value; and the parameters.

    `prepare` is applied to each argument inside the checked function, such as to make a matrix symmetric. Points that do
    not satisfy `fits` are drawn again.
    """

    arguments: tuple[Draw | Value, ...]
    params: Params = field(default_factory=dict)
    prepare: Callable[[Value], Value] = lambda x: x
    fits: Callable[..., bool] = lambda *xs: True

    @property
    def moving(self) -> tuple[int, ...]:
        """The positions of the arguments that are differentiated."""
        return tuple(i for i, argument in enumerate(self.arguments) if callable(argument))

    def points(self, rng: Any) -> Iterator[tuple[Value, ...]]:
        """Yield random arguments that satisfy `fits`, without end."""
        while True:
            xs = tuple(argument(rng) if callable(argument) else argument for argument in self.arguments)
            if self.fits(*xs):
                yield xs


def draw_from_domain(domain: Domain) -> Draw:
    """Return a function that draws an ordinary number from a domain."""
    return lambda rng: np.float64(domain.sample(rng, 1)[0])


def draw_array(*shape: int) -> Draw:
    """Return a function that draws an array of normally distributed numbers; one number if no sizes are given."""
    return lambda rng: rng.normal(size=shape) if shape else np.float64(rng.normal())


def _draw_regular_matrix(rng: Any) -> Value:
    return rng.normal(size=_S) + 4 * np.eye(3)


def _draw_positive_definite(rng: Any) -> Value:
    a = rng.normal(size=_S)
    return a @ a.T + np.eye(3)


def _symmetric_part(a: Value) -> Value:
    """Return the symmetric part, because factorisations of symmetric matrices read only one triangle."""
    return (a + np.transpose(a)) / 2


_TRIANGLES = tuple(Sample((draw_array(*_S),), {"uplo": uplo}, prepare=_symmetric_part) for uplo in "LU")
# fmt: off
#  choices of the constant orders and parameters, and the domain of the differentiated argument
ORDERS: Mapping[str, tuple[tuple[tuple[float, ...], ...], Domain]] = {
    **dict.fromkeys(("jv", "yv", "iv", "kv", "ive", "kve"), (((0,), (1,), (2.5,)), POSITIVE)),
    "expn":             (((1,), (2,), (3,)), POSITIVE),
    "hyp0f1":           (((1.5,), (-0.5,)), REAL),
    "hyp1f1":           (((0.5, 1.5), (-0.7, 2)), REAL),
    "hyp2f1":           (((0.5, 1, 2.5), (-0.7, 2, 1.3)), INSIDE_1),
    "hyperu":           (((0.5, 1.5), (1.5, 2.5)), POSITIVE),
    **dict.fromkeys(("betainc", "betaincc"), (((2.5, 0.7), (1, 3)), UNIT)),
    "stdtr":            (((1,), (3.5,)), REAL),
    "eval_jacobi":      (((3, 0.5, 1.5), (1, 2, 0)), INSIDE_1),
    "eval_gegenbauer":  (((3, 0.5), (1, 2)), INSIDE_1),
    **dict.fromkeys(("eval_legendre", "eval_chebyt", "eval_chebyu"), (((0,), (1,), (4,)), INSIDE_1)),
    **dict.fromkeys(("eval_hermite", "eval_hermitenorm"), (((0,), (1,), (4,)), REAL)),
    "eval_laguerre":    (((0,), (1,), (4,)), ABOVE_1),
    "eval_genlaguerre": (((3, 0.5), (1, 2)), ABOVE_1),
}
#  primitives of arrays
ARRAYS: Mapping[str, tuple[Sample, ...]] = table_by_name({
    GETITEM:        (Sample((draw_array(*_K),), {"index": (slice(None, None, -1), [2, 0, 2], 1)}),
                     Sample((draw_array(*_M),), {"index": _MASK})),
    SCATTER:        (Sample((draw_array(*_V),), {"index": ([0, 0, 2],), "into": (4,)}),),
    RESHAPE:        (Sample((draw_array(*_K),), {"to": (4, 6)}),),
    TRANSPOSE:      (Sample((draw_array(*_K),), {"axes": (1, 2, 0)}),),
    BROADCAST:      (Sample((draw_array(2, 1),), {"to": (4, 2, 3)}),),
    JOIN:           (Sample((draw_array(*_M), draw_array(2, 1)), {"axis": 1}),),
    PUT:            (Sample((draw_array(*_M), draw_array(2)), {"index": (slice(None), 1)}),),
    SELECT:         (Sample((_MASK, draw_array(*_M), draw_array(*_V))),),
    CONVOLVE:       (Sample((draw_array(4), draw_array(*_V))),),
    SUM:            (Sample((draw_array(*_K),), {"axis": (0, 2)}),),
    CUMSUM:         (Sample((draw_array(*_M),), {"axis": 1}),),
    MAX:            (Sample((draw_array(*_K),), {"axis": (0, 2)}),),
    NORM:           (Sample((draw_array(*_V),)), Sample((draw_array(*_M),))),
    LOGSUMEXP:      (Sample((draw_array(*_M),), {"axis": (0,)}),),
    MATMUL:         (Sample((draw_array(*_M), draw_array(3, 2))), Sample((draw_array(2, 3, 4), draw_array(2, 4, 2)))),
    EINSUM:         (Sample((draw_array(*_M), draw_array(3, 2)), {"subscripts": "ij,jk->ik"}),
                     Sample((draw_array(2, 2, 3), draw_array(*_V)), {"subscripts": "iij,j->i"})),
    DET:            (Sample((_draw_regular_matrix,)), Sample((draw_array(2, 3, 3),))),
    LOGDET:         (Sample((_draw_regular_matrix,)),),
    INV:            (Sample((_draw_regular_matrix,)),),
    SOLVE:          (Sample((_draw_regular_matrix, draw_array(3, 2))),),
    CHOLESKY:       (Sample((_draw_positive_definite,), prepare=_symmetric_part),),
    EIGENVALUES:    _TRIANGLES,
    EIGENVECTORS:   _TRIANGLES,
    SINGULAR_VALUES:(Sample((draw_array(*_S),)), Sample((draw_array(*_TALL),))),
    SINGULAR_VECTORS:   (Sample((draw_array(*_S),)), Sample((draw_array(*_TALL),))),
    PINV:           (Sample((draw_array(*_TALL),), {"rcond": 1e-15}), Sample((draw_array(*_S),), {"rcond": 1e-15})),
    QR:             (Sample((draw_array(*_S),)), Sample((draw_array(*_TALL),))),
    DFT_COS:        (Sample((draw_array(5),), {"axis": 0}), Sample((draw_array(3, 4),), {"axis": 1})),
    DFT_SIN:        (Sample((draw_array(5),), {"axis": 0}), Sample((draw_array(3, 4),), {"axis": 1})),
})
# fmt: on


def samples(row: Primitive) -> tuple[Sample, ...]:
    """Return the ways to call a primitive alone; empty if none is known."""
    if row.name in ARRAYS and not row.body:
        return ARRAYS[row.name]
    if row.name in ORDERS and not row.body:
        choices, domain = ORDERS[row.name]
        return tuple(Sample((*map(np.float64, orders), draw_from_domain(domain))) for orders in choices)
    if row.kind != "elementwise" or len(row.on) != len(row.rules):
        return ()
    draws = tuple(map(draw_from_domain, row.on))
    if row.name in ("remainder", "fmod"):
        return (Sample(draws, fits=lambda a, b: bool(abs((a / b + 0.5) % 1 - 0.5) > _JUMP)),)
    return tuple(Sample(draws, params) for params in (({},) if row.body else PARAMS.get(row.name, ({},))))
