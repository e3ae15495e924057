"""The sizes at which a function is recorded: at these f is finite, what it inverts is regular, and its places exist."""

import numpy as np

from gradcli.derivation.sized_problem import RECORDINGS, DerivationProblem, parse_shapes
from gradcli.derivation.sized_recording import choose_sizes
from gradcli.targets.expression import Expression
from gradcli.targets.facts import parse_facts
from tests.rows import for_rows

# fmt: off
FOUND = [
    # function                                 sizes                                 assuming     what holds of each recording
    ("log(det(X.T@X))",                        "X: m n",                             "",          lambda s: s["m"] > s["n"]),
    ("log(det(X@X.T))",                        "X: m n",                             "",          lambda s: s["m"] < s["n"]),
    ("trace(inv(X.T@C@X)@(X.T@K@X))",          "X: m n; C: m m; K: m m",             "C: spd",    lambda s: s["m"] > s["n"]),
    ("sum(solve(X.T@X, c))",                   "c: n; X: m n",                       "",          lambda s: s["m"] > s["n"]),
    ("det(A@B)",                               "A: n m; B: m n",                     "",          lambda s: s["m"] > s["n"]),
    ("x[6]**2",                                "x: n",                               "",          lambda s: s["n"] > 6),
    ("sum(x[2:8])",                            "x: n",                               "",          lambda s: s["n"] >= 8),
    ("x@A@x",                                  "A: n n; x: n",                       "",          lambda s: s["n"] == s["n"]),
    ("sum(X@w)",                               "X: m n; w: n",                       "",          lambda s: s["m"] != s["n"]),
]
# fmt: on


@for_rows(("f", "shapes", "assume", "holds"), FOUND)
def test_sizes_suit_the_function(f: str, shapes: str, assume: str, holds) -> None:  # type: ignore[no-untyped-def]
    dims = parse_shapes([shapes])
    sizes = choose_sizes(DerivationProblem(Expression(f), dims, parse_facts([assume] if assume else [], dims)))
    assert {len(set(own)) for own in sizes.values()} == {RECORDINGS}
    for k in range(RECORDINGS):
        assert holds({n: own[k] for n, own in sizes.items()})


def test_where_no_size_suits_the_first_are_taken() -> None:
    f = Expression("log(det(outer(x, x)))")
    with np.errstate(all="ignore"):
        assert choose_sizes(DerivationProblem(f, {"x": ("n",)}, {})) == {"n": (3, 5, 7)}
