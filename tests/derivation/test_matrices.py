"""Tensors as expressions of matrices: what is written has the tensor's value, and sums are products where they can be."""

import random
from typing import Any

import numpy as np

from gradcli.derivation import convert  # noqa: F401  (what products are tidied by)
from gradcli.derivation.algebra import apply_rules, identity
from gradcli.derivation.index import Tensor, fresh_index
from gradcli.derivation.matrix_expression import expression_text
from gradcli.derivation.matrix_printing import Printer
from gradcli.errors import NotSupported
from gradcli.targets.expression import Expression
from tests.derivation.evaluate import SIZES, at_point, factor, known, of, sum_of, tensor
from tests.rows import for_rows

i, j, k, l = (fresh_index("n") for _ in range(4))
p = fresh_index("m")
x, y, u, A, B, X = (
    known("x", "n"),
    known("y", "n"),
    known("u", "m"),
    known("A", "n n"),
    known("B", "n n"),
    known("X", "m n"),
)
S, I = known("S", "n n", "symmetric"), identity("n")
rng = np.random.default_rng(0)
VALUES: dict[str, Any] = {
    "x": rng.normal(size=3),
    "y": rng.normal(size=3),
    "u": rng.normal(size=4),
    "A": rng.normal(size=(3, 3)),
}
VALUES |= {"B": rng.normal(size=(3, 3)), "X": rng.normal(size=(4, 3))}
VALUES["S"] = VALUES["A"] + VALUES["A"].T
PRINTER = Printer({("n",): "x", ("m",): "u", ("m", "n"): "X", ("n", "n"): "A", ("n", "m"): "X.T"})


def read(shown: str) -> Any:
    formula = Expression(shown)
    return formula({n: VALUES.get(n, np.float64(SIZES.get(n, 0))) for n in formula.inputs})


AX = tensor((i,), (1, factor(A, i, j), factor(x, j)))
# fmt: off
WRITTEN = [
    (AX,                                                                                     (i,),   "A@x"),
    (tensor((i,), (1, factor(A, j, i), factor(x, j))),                                       (i,),   "A.T@x"),
    (tensor((), (1, factor(x, i), factor(y, i))),                                            (),     "x@y"),
    (tensor((), (1, factor(x, i, power=2))),                                                 (),     "x@x"),
    (tensor((), (1, factor(x, i), factor(A, i, j), factor(y, j))),                           (),     "x@A@y"),
    (tensor((i, j), (1, factor(x, i), factor(y, j))),                                        (i, j), "outer(x, y)"),
    (tensor((i, j), (1, factor(x, i), factor(y, j))),                                        (j, i), "outer(y, x)"),
    (tensor((i, k), (1, factor(A, i, j), factor(B, j, k))),                                  (i, k), "A@B"),
    (tensor((i, k), (1, factor(A, i, j), factor(B, j, k))),                                  (k, i), "B.T@A.T"),
    (tensor((), (1, factor(A, i, j), factor(B, j, i))),                                      (),     "trace(A@B)"),
    (tensor((), (1, factor(A, i, j), factor(B, i, j))),                                      (),     "sum(A*B)"),
    (tensor((), (1, factor(A, i, i))),                                                       (),     "trace(A)"),
    (tensor((i,), (1, factor(A, i, i))),                                                     (i,),   "diag(A)"),
    (tensor((i, j), (1, factor(I, i, j), factor(x, i))),                                     (i, j), "diag(x)"),
    (tensor((p,), (1, factor(X, p, i))),                                                     (p,),   "sum(X, axis=1)"),
    (tensor((i,), (1, factor(X, p, i))),                                                     (i,),   "sum(X, axis=0)"),
    (tensor((), (1, factor(X, p, i))),                                                       (),     "sum(X)"),
    (tensor((p, i), (1, factor(X, p, i), factor(u, p))),                                     (p, i), "X*u[:, None]"),
    (tensor((p, i), (1, factor(X, p, i), factor(x, i))),                                     (p, i), "X*x"),
    (tensor((i, j), (1, factor(S, j, i))),                                                   (i, j), "S"),
    (tensor((i,), (3,)),                                                                     (i,),   "3*ones_like(x)"),
    (tensor((p, i)),                                                                         (p, i), "zeros_like(X)"),
    (tensor((i,), (1, of("exp", AX))),                                                       (i,),   "exp(A@x)"),
    (tensor((i,), (1, factor(y, i), sum_of(AX)[1]._replace(power=sum_of(AX)[1].power * -1))), (i,),  "y/(A@x)"),
]
# fmt: on


@for_rows(("made", "axes", "shown"), WRITTEN)
def test_forms(made: Tensor, axes: tuple, shown: str) -> None:
    assert expression_text(PRINTER.write(made, axes)) == shown
    np.testing.assert_allclose(read(shown), at_point(made, VALUES, axes))


PIECES = [
    lambda a, b: factor(x, a), lambda a, b: factor(y, a, power=-1), lambda a, b: factor(A, a, b), lambda a, b: factor(B, a, b), lambda a, b: factor(S, a, b),
    lambda a, b: factor(A, a, b, power=2), lambda a, b: of("exp", tensor((a,), (1, factor(x, a)))), lambda a, b: of("tanh", tensor((a, b), (1, factor(B, a, b)))) if a != b else factor(x, a),
    lambda a, b: factor(I, a, b), lambda a, b: of("softmax", tensor((a, b), (1, factor(A, a, b))), over=[b]) if a != b else factor(y, a),
    lambda a, b: sum_of(tensor((a,), (1, factor(A, a, l), factor(x, l)), (1, factor(y, a))))[1], lambda a, b: of("inv", tensor((a, b), (1, factor(A, a, b)))) if a != b else factor(x, a),
]  # fmt: skip


@for_rows("seed", range(200))
def test_random_products_are_written_or_refused(seed: int) -> None:
    rng = random.Random(seed)
    term = tensor(
        (),
        (
            rng.choice((1, -3)),
            *(rng.choice(PIECES)(*rng.choices((i, j, k), k=2)) for _ in range(rng.choice((2, 3, 4)))),
        ),
    ).terms[0]
    free = tuple(sorted(rng.sample(sorted(term.indices - {l}), min(2, len(term.indices - {l})))))
    made = Tensor(free, (apply_rules(term, free),))
    axes = free if rng.random() < 0.5 else free[::-1]
    try:
        shown = expression_text(PRINTER.write(made, axes))
    except NotSupported:
        return
    right = at_point(made, VALUES, axes)
    np.testing.assert_allclose(
        np.broadcast_to(read(shown), np.shape(right)), right, rtol=1e-8, atol=1e-9, err_msg=shown
    )


def test_a_sum_along_different_axes_is_broadcast() -> None:
    more = fresh_index("n")
    axes = (i, j, k, more)
    made = tensor(axes, (1, factor(A, i, j)), (1, factor(B, k, more)))
    np.testing.assert_allclose(read(expression_text(PRINTER.write(made, axes))), at_point(made, VALUES, axes))
