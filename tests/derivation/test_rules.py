"""Every rule that tidies products keeps their value, at random points, and leaves alone what it must."""

from fractions import Fraction
from typing import Any

import numpy as np

from gradcli.derivation.algebra import apply_rules, identity
from gradcli.derivation.axes import Value, opaque_function
from gradcli.derivation.convert import RULES
from gradcli.derivation.index import Atom, Index, IndexedFactor, IndexedTerm, Tensor, fresh_index, slot
from gradcli.derivation.units import selection_matrix, triangle_of_ones, unit_vector
from tests.derivation.evaluate import ONE, at_point, factor, known, of, sum_of, tensor
from tests.rows import for_rows

i, j, k, l, r = (fresh_index("n") for _ in range(5))
p, r_m = fresh_index("m"), fresh_index("m")
x, y, z, t = known("x", "n"), known("y", "n"), known("z", "n"), known("t", "n")
A, B, Z = known("A", "n n"), known("B", "n n"), known("Z", "m n")
S, Q, D = known("S", "n n", "spd"), known("Q", "n n", "orthogonal"), known("D", "n n", "diagonal")
SIGN, HOT, SIMPLEX = known("sign", "n", "signs"), known("hot", "n", "onehot"), known("simplex", "n", "simplex")
HOTS, ROWS = known("hots", "m n", "onehot rows"), known("rows", "m n", "simplex rows")
I = identity("n")
TWO, SIZE = Atom("number", "2"), Atom("size", "n")
VALUES: list[dict[str, Any]] = []
for seed in (0, 1):
    rng = np.random.default_rng(seed)
    own = {name: rng.normal(size=3) for name in "xyzt"} | {name: rng.normal(size=(3, 3)) for name in "AB"} | {"Z": rng.normal(size=(4, 3))}  # fmt: skip
    own |= {"u": rng.normal(size=7)}
    own |= {"S": own["A"] @ own["A"].T + np.eye(3), "Q": np.linalg.qr(own["B"])[0], "D": np.diag(own["x"])}
    own |= {"sign": np.sign(own["y"]), "hot": np.eye(3)[seed], "hots": np.eye(3)[rng.integers(3, size=4)], "s": 1.7}
    own |= {"simplex": np.abs(own["z"]) / np.sum(np.abs(own["z"])), "rows": np.abs(own["Z"]) / np.sum(np.abs(own["Z"]), axis=1, keepdims=True)}  # fmt: skip
    VALUES.append(own)


def linear(atom: Atom, *at: Index, by: int = 1) -> Tensor:
    return tensor(tuple(dict.fromkeys(at)), (by, factor(atom, *at)))


def grouped(*terms: tuple[Any, ...], free: tuple[Index, ...], to: int | Fraction = 1) -> IndexedFactor:
    """Return a sum in brackets whose first number is one."""
    coef, made = sum_of(tensor(free, *terms), to)
    assert coef == 1
    return made


def exps(atom: Atom, *at: Index, by: int = 1) -> IndexedFactor:
    return of("exp", linear(atom, *at, by=by))


def inverse(atom: Atom, a: Index, b: Index) -> IndexedFactor:
    return of("inv", linear(atom, a, b))


def inv_ab(a: Index, b: Index) -> IndexedFactor:
    return of("inv", tensor((a, b), (1, factor(A, a, r), factor(B, r, b))))


c = fresh_index("n - 1")
E0, E1, LAST, TRI = unit_vector("n", 0), unit_vector("n", 1), unit_vector("n", -1), triangle_of_ones("nn", 0)
ROWS_OF_I = selection_matrix("1:", c, i).terms[0].factors[0]


def raised(made: IndexedFactor, to: int | Fraction) -> IndexedFactor:
    return made._replace(power=Fraction(to))


INV_AB = inv_ab(i, j)
X_Y = grouped((1, factor(x, i), factor(y, i)), free=())
X_S_X = grouped((1, factor(x, i), factor(S, i, j), factor(x, j)), free=())
A_X = grouped((1, factor(A, i, j), factor(x, j)), free=(i,))
SUM_EXP = grouped((1, exps(z, k)), free=())
ROW_EXP = grouped((1, exps(Z, p, k)), free=(p,))
ONE_PLUS = grouped((1,), (1, exps(t, i)), free=(i,))
ONE_PLUS_BELOW = grouped((1,), (1, raised(exps(t, i), -1)), free=(i,))
X_TIMES_Y = tensor((i,), (1, factor(x, i), factor(y, i)))
LARGER_TIMES_Y = tensor((i,), (1, of("maximum", linear(x, i), linear(z, i)), factor(y, i)))
LOGISTIC, ABS, SGN = of("expit", linear(t, i)), of("absolute", linear(x, i)), of("sign", linear(x, i))
SOFTMAX = of("softmax", linear(z, i), over=[i])
SOFT_ROWS, SOFT_COLUMNS = of("softmax", linear(Z, p, i), over=[i]), of("softmax", linear(Z, p, i), over=[p])
CENTRED = grouped((1, factor(x, i)), (-1, factor(x, k), factor(SIZE, power=-1)), free=(i,))


def whole(op: str, atom: Atom, *at: Index) -> IndexedFactor:
    """Return a function of a whole matrix as a factor."""
    made = opaque_function(
        op,
        [Value((i, j) if atom is S else (p, i), linear(atom, *((i, j) if atom is S else (p, i))))],
        [a.dim for a in at],
    )
    return made.tensor.terms[0].factors[0]._replace(at=at)


VECTORS, VALUES_OF_S, CHOLESKY = whole("eigenvectors", S, i, j), whole("eigvalsh", S, j), whole("cholesky", S, i, j)
LEFT, SINGULAR, RIGHT = whole("left_vectors", Z, p, j), whole("svdvals", Z, j), whole("right_vectors", Z, k, j)
INV_L = of("inv", Tensor((i, j), (IndexedTerm(ONE, (CHOLESKY,)),)))
V = known("v", "m")
ROOT_HALF = factor(TWO, power=Fraction(-1, 2))
ERF = of("erf", tensor((i,), (1, factor(t, i), ROOT_HALF)))
MAX_X = Tensor((), (IndexedTerm(ONE, (IndexedFactor(Atom("max", args=(linear(x, slot(0, "n")),)), ()),)),))
LARGEST = of("equal", linear(x, i), MAX_X)

both, first, second = fresh_index("m + n"), fresh_index("m"), fresh_index("n")
MADE_OF = (
    selection_matrix(":m", first, both).terms[0].factors[0],
    selection_matrix("m:", second, both).terms[0].factors[0],
)
BLOCKS = tensor((both,), (1, factor(V, first), MADE_OF[0]), (1, factor(x, second), MADE_OF[1]))

INF = Atom("inf", "inf")
SHOWN = of("greater", linear(x, i), linear(y, i))
HIDDEN = grouped((1,), (-1, SHOWN), free=(i,))
MASKED = of("softmax", tensor((i,), (1, factor(z, i), SHOWN), (-1, factor(INF), HIDDEN)), over=[i])
HOT_X = grouped((1, factor(HOT, k), factor(x, k)), free=())
HOTS_Z = grouped((1, factor(HOTS, p, k), factor(Z, p, k, power=2)), free=(p,), to=-1)
ABOVE = triangle_of_ones("nn", -1)
CAUSAL = of(
    "softmax", tensor((i, j), (1, factor(A, i, j), factor(TRI, i, j)), (-1, factor(INF), factor(ABOVE, j, i))), over=[j]
)

# fmt: off
APPLIES = {  # what a rule must change: its name, the free indices, and the factors
    "a sum along blocks":           ("at_blocks", (), [of("tanh", BLOCKS)]),
    "a sum along blocks, and more": ("at_blocks", (), [of("exp", BLOCKS), factor(Atom("input", "u", dims=("m + n",)), both), factor(y, i), factor(x, i)]),
    "an identity joins":            ("_delta", (i, k), [factor(A, i, j), factor(I, j, k)]),
    "an identity joins a bound":    ("_delta", (), [factor(x, i), factor(I, i, j), factor(y, j)]),
    "the trace of an identity":     ("_delta", (), [factor(I, i, i)]),
    "the trace, and more":          ("_delta", (), [factor(I, i, i), factor(x, j), factor(y, j)]),
    "an identity on a diagonal":    ("_delta", (i,), [factor(I, i, i), factor(x, i)]),
    "a power of an identity":       ("_delta", (i, j), [factor(I, i, j, power=3), factor(A, i, j)]),
    "a row of an identity":         ("_delta", (i,), [factor(I, i, j)]),
    "all of an identity":           ("_delta", (), [factor(I, i, j)]),
    "all of an identity, and more": ("_delta", (k,), [factor(I, i, j), factor(x, k)]),
    "inv(A) A":                     ("_inverse", (i, k), [inverse(A, i, j), factor(A, j, k)]),
    "A inv(A)":                     ("_inverse", (i, k), [factor(A, i, j), inverse(A, j, k)]),
    "A' inv(A)'":                   ("_inverse", (i, k), [factor(A, j, i), inverse(A, k, j)]),
    "inv(A)' A'":                   ("_inverse", (i, k), [inverse(A, j, i), factor(A, k, j)]),
    "inv(S) S":                     ("_inverse", (i, k), [inverse(S, i, j), factor(S, k, j)]),
    "inv(2 A) A":                   ("_inverse", (i, k), [of("inv", linear(A, i, j, by=2)), factor(A, j, k)]),
    "inv(A B) A":                   ("inverse_of_product", (i, k), [INV_AB, factor(A, j, k)]),
    "A' inv(A B)'":                 ("inverse_of_product", (i, k), [inv_ab(l, j), factor(A, j, k), factor(x, l), factor(y, i)]),
    "B inv(A B)":                   ("inverse_of_product", (i, k), [factor(B, i, j), inv_ab(j, k)]),
    "inv(B A B) B":                 ("inverse_of_product", (i, k), [of("inv", tensor((i, j), (1, factor(B, i, l), factor(A, l, r), factor(B, r, j)))), factor(B, j, k)]),
    "inv(A' B) A'":                 ("inverse_of_product", (i, k), [of("inv", tensor((i, j), (1, factor(A, l, i), factor(B, l, j)))), factor(A, k, j)]),
    "inv(S B) S":                   ("inverse_of_product", (i, k), [of("inv", tensor((i, j), (1, factor(S, i, l), factor(B, l, j)))), factor(S, k, j)]),
    "(x' y) / (x' y)":              ("over_itself", (), [factor(x, i), factor(y, i), raised(X_Y, -1)]),
    "(x' y) / (x' y)**3":           ("over_itself", (k,), [factor(x, i), factor(y, i), raised(X_Y, -3), factor(z, k)]),
    "(x' S x) / sqrt(x' S x)":      ("over_itself", (), [factor(x, j), factor(S, j, k), factor(x, k), raised(X_S_X, Fraction(-1, 2))]),
    "(A x) / (A x), row by row":    ("over_itself", (i,), [factor(A, i, j), factor(x, j), raised(A_X, -1), factor(y, i)]),
    "x[0]":                         ("at_unit", (), [raised(factor(x, i), 2), factor(E0, i)]),
    "a unit vector, squared":       ("at_unit", (i,), [factor(E0, i, power=2)]),
    "all of a unit vector":         ("at_unit", (), [factor(E0, i)]),
    "x times a unit vector":        ("at_unit", (i,), [factor(x, i), factor(E1, i)]),
    "A x at a place":               ("at_unit", (), [factor(A, i, j), factor(x, j), factor(y, i), factor(E0, i)]),
    "a diagonal at a place":        ("at_unit", (), [factor(A, i, i), factor(E1, i)]),
    "exp(t) at a place":            ("at_unit", (), [exps(t, i), factor(E0, i)]),
    "|x| at a place":               ("at_unit", (i,), [ABS, factor(LAST, i)]),
    "a sum at a place":             ("at_unit", (), [grouped((1, factor(x, i)), (2, factor(y, i)), (3,), free=(i,)), factor(LAST, i)]),
    "a root of a sum at a place":   ("at_unit", (), [grouped((1,), (1, factor(x, i, power=2)), free=(i,), to=Fraction(1, 2)), factor(E1, i)]),
    "a maximum at a place":         ("at_unit", (), [of("maximum", linear(x, i), linear(y, i)), factor(E1, i)]),
    "an identity at a place":       ("at_unit", (j,), [factor(I, i, j), factor(E1, i)]),
    "a unit vector at its place":   ("at_unit", (), [factor(E1, i), IndexedFactor(E1, (i,)), factor(x, j)]),
    "a unit vector at another":     ("at_unit", (i,), [factor(E1, i), factor(E0, i)]),
    "first and last":               ("at_unit", (i,), [factor(E0, i), factor(LAST, i)]),
    "softmax squared at a place":   ("at_unit", (), [raised(SOFTMAX, 2), factor(E0, i)]),
    "rows of x":                    ("at_rows", (c,), [ROWS_OF_I, factor(x, i)]),
    "rows of x and A, a sum":       ("at_rows", (j,), [ROWS_OF_I, factor(x, i, power=2), factor(A, j, i)]),
    "rows of a diagonal":           ("at_rows", (c,), [ROWS_OF_I, factor(A, i, i)]),
    "rows of a sum":                ("at_rows", (c,), [ROWS_OF_I, grouped((1, factor(x, i)), (-1, factor(y, i)), (2,), free=(i,), to=2)]),
    "rows of exp(t)":               ("at_rows", (c,), [ROWS_OF_I, exps(t, i)]),
    "rows of softmax":              ("at_rows", (c,), [ROWS_OF_I, SOFTMAX]),
    "rows alone":                   ("at_rows", (c,), [ROWS_OF_I, factor(x, j)]),
    "all of the rows":              ("at_rows", (), [ROWS_OF_I, factor(x, j)]),
    "e x / (e' x)":                 ("_picked", (i,), [factor(HOT, i), factor(x, i), factor(y, i), raised(HOT_X, -1)]),
    "e x**2 / (e' x)**3":           ("_picked", (), [factor(HOT, i), factor(x, i, power=2), factor(y, i), raised(HOT_X, -3)]),
    "Y Z**3 / (Y Z**2), by row":    ("_picked", (p, i), [factor(HOTS, p, i), factor(Z, p, i, power=3), HOTS_Z]),
    "what a softmax shows":         ("_masked", (i,), [MASKED, SHOWN, factor(x, i)]),
    "what it hides is 0":           ("_masked", (i,), [MASKED, HIDDEN]),
    "what is not above":            ("_masked", (i, j), [raised(CAUSAL, 2), factor(TRI, i, j)]),
    "what is above is 0":           ("_masked", (i,), [CAUSAL, factor(ABOVE, j, i), factor(A, i, j)]),
    "a triangle squared":           ("_facts", (i, j), [factor(TRI, i, j, power=2)]),
    "Q' Q":                         ("_inverse", (j, k), [factor(Q, i, j), factor(Q, i, k)]),
    "Q Q'":                         ("_inverse", (j, k), [factor(Q, j, i), factor(Q, k, i)]),
    "a sign squared":               ("_facts", (i,), [factor(SIGN, i, power=2), factor(x, i)]),
    "a sign cubed":                 ("_facts", (i,), [factor(SIGN, i, power=3)]),
    "one over a sign":              ("_facts", (i,), [factor(SIGN, i, power=-1)]),
    "|sign| squared, summed":       ("_signs", (), [raised(of("absolute", linear(SIGN, i)), 2)]),
    "a sign squared, summed":       ("_facts", (), [factor(SIGN, i, power=2)]),
    "an indicator squared":         ("_facts", (i,), [factor(HOT, i, power=2)]),
    "rows of indicators cubed":     ("_facts", (p, i), [factor(HOTS, p, i, power=3)]),
    "a comparison squared":         ("_facts", (i,), [raised(of("greater", linear(x, i), linear(y, i)), 2)]),
    "D x":                          ("_diagonal", (i,), [factor(D, i, j), factor(x, j)]),
    "x' D y":                       ("_diagonal", (), [factor(x, i), factor(D, i, j), factor(y, j)]),
    "a bracket of one product":     ("_facts", (i,), [IndexedFactor(Atom("group", args=grouped((1, factor(A, i, j), factor(x, j)), free=(i,)).atom.args, dims=("n",)), (i,))]),
    "|x| squared":                  ("_signs", (i,), [raised(ABS, 2)]),
    "|x| to the -4":                ("_signs", (i,), [raised(ABS, -4)]),
    "sign(x) |x|":                  ("_signs", (i,), [SGN, ABS]),
    "sign(x) |x| cubed":            ("_signs", (i,), [SGN, raised(ABS, 3)]),
    "sign(x) squared":              ("_signs", (i,), [raised(SGN, 2)]),
    "sign(x) squared, summed":      ("_signs", (j,), [raised(SGN, 2), factor(x, j)]),
    "sign(x) to the -3":            ("_signs", (i,), [raised(SGN, -3)]),
    "softmax":                      ("_softmax", (i,), [exps(z, i), raised(SUM_EXP, -1)]),
    "softmax squared":              ("_softmax", (i,), [raised(exps(z, i), 2), raised(SUM_EXP, -2)]),
    "softmax over another sum":     ("_softmax", (i,), [exps(z, i), raised(SUM_EXP, -3)]),
    "one over softmax":             ("_softmax", (i,), [raised(exps(z, i), -1), SUM_EXP]),
    "softmax of rows":              ("_softmax", (p, i), [exps(Z, p, i), raised(ROW_EXP, -1)]),
    "softmax of rows, bound":       ("_softmax", (p,), [exps(Z, p, i), raised(ROW_EXP, -1), factor(x, i)]),
    "1/(1 + exp(t))":               ("_sigmoid", (i,), [raised(ONE_PLUS, -1)]),
    "exp(t)/(1 + exp(t))":          ("_sigmoid", (i,), [exps(t, i), raised(ONE_PLUS, -1)]),
    "exp(t)/(1 + exp(t))**2":       ("_sigmoid", (i,), [exps(t, i), raised(ONE_PLUS, -2)]),
    "1/(1 + exp(-t))":              ("_sigmoid", (i,), [raised(ONE_PLUS_BELOW, -1)]),
    "exp(-t)/(1 + exp(-t))**2":     ("_sigmoid", (i,), [raised(exps(t, i), -1), raised(ONE_PLUS_BELOW, -2)]),
    "exp(t)**3/(1 + exp(t))":       ("_sigmoid", (i,), [raised(exps(t, i), 3), raised(ONE_PLUS, -1)]),
    "sigmoid(t)/exp(t)":            ("_logistic", (i,), [LOGISTIC, raised(exps(t, i), -1)]),
    "1 - sigmoid(t)":               ("_logistic", (i,), [grouped((1,), (-1, LOGISTIC), free=(i,))]),
    "x (1 - sigmoid(t))":           ("_logistic", (i,), [factor(x, i), grouped((1,), (-1, LOGISTIC), free=(i,))]),
    "all of softmax":               ("_sums_to_one", (), [SOFTMAX]),
    "a row of softmax":             ("_sums_to_one", (p,), [SOFT_ROWS, factor(known("v", "m"), p)]),
    "a column of softmax":          ("_sums_to_one", (i,), [SOFT_COLUMNS]),
    "all of a simplex":             ("_sums_to_one", (j,), [factor(SIMPLEX, i), factor(x, j)]),
    "a row of indicators":          ("_sums_to_one", (p,), [factor(HOTS, p, i)]),
    "a row of simplices":           ("_sums_to_one", (p,), [factor(ROWS, p, i)]),
    "all of an indicator":          ("_sums_to_one", (), [factor(HOT, i)]),
    "what is centred":              ("_centred", (), [CENTRED]),
    "what is centred, and more":    ("_centred", (j,), [CENTRED, factor(x, j)]),
    "V diag(w) V'":                 ("spectral", (i, k), [VECTORS, VALUES_OF_S, IndexedFactor(VECTORS.atom, (k, j))]),
    "V V'":                         ("spectral", (i, k), [VECTORS, IndexedFactor(VECTORS.atom, (k, j))]),
    "V diag(1/w) V' x":             ("spectral", (i,), [VECTORS, raised(VALUES_OF_S, -1), IndexedFactor(VECTORS.atom, (k, j)), factor(x, k)]),
    "V diag(w)^3 V'":               ("spectral", (i, k), [VECTORS, raised(VALUES_OF_S, 3), IndexedFactor(VECTORS.atom, (k, j))]),
    "U diag(s) V'":                 ("spectral", (p, k), [LEFT, SINGULAR, RIGHT]),
    "tril(L)":                      ("triangular", (i, j), [factor(TRI, i, j), CHOLESKY]),
    "tril(L')":                     ("triangular", (i, j), [factor(TRI, j, i), CHOLESKY]),
    "inv(L)' inv(L)":               ("inverse_factors", (j, k), [INV_L, IndexedFactor(INV_L.atom, (i, k))]),
    "inv(L)' inv(L) x":             ("inverse_factors", (j,), [INV_L, IndexedFactor(INV_L.atom, (i, k)), factor(x, k)]),
    "v v**(v - 1)":                ("one_base", (p,), [factor(V, p), of("power", linear(V, p), tensor((p,), (1, factor(V, p)), (-1,)))]),
    "w v**v / v":                  ("one_base", (p,), [factor(Z, p, i), factor(V, p, power=-1), of("power", linear(V, p), linear(V, p)), factor(x, i)]),
    "erfc(-t/sqrt(2))":             ("normal", (i,), [of("erfc", tensor((i,), (-1, factor(t, i), ROOT_HALF)))]),
    "erfc(t/sqrt(2)) squared":      ("normal", (i,), [raised(of("erfc", tensor((i,), (1, factor(t, i), ROOT_HALF))), 2)]),
    "1 + erf(t/sqrt(2))":           ("normal", (i,), [grouped((1,), (1, ERF), free=(i,)), factor(x, i)]),
    "1 - erf(t/sqrt(2))":           ("normal", (i,), [grouped((1,), (-1, ERF), free=(i,))]),
    "exp(-t^2/2)/sqrt(2 pi)":       ("density", (i,), [raised(of("exp", tensor((i,), (Fraction(1, 2), factor(t, i, power=2)))), -1), ROOT_HALF, factor(Atom("pi", "pi"), power=Fraction(-1, 2))]),
    "1/(1 - ndtr(t))":              ("normal", (i,), [raised(grouped((1,), (-1, of("ndtr", linear(t, i))), free=(i,)), -1)]),
    "x y > max(x, z) y, x > z":     ("_contradiction", (i,), [of("greater", X_TIMES_Y, LARGER_TIMES_Y), of("greater", linear(x, i), linear(z, i)), factor(t, i)]),
    "sign(x) x":                    ("sign_times", (i,), [SGN, factor(x, i)]),
    "sign(x) x cubed":              ("sign_times", (i,), [SGN, factor(x, i, power=3), factor(y, i)]),
    "(1 - sigmoid(t)) exp(t)":      ("_logistic", (i,), [grouped((1,), (-1, LOGISTIC), free=(i,)), exps(t, i), LOGISTIC]),
    "all of the largest":           ("_sums_to_one", (), [LARGEST]),
    "2 cubed":                      ("_numbers", (), [factor(TWO, power=3)]),
    "2 to the 3/2":                 ("_numbers", (), [factor(TWO, power=Fraction(3, 2))]),
    "2 to the -5/2":                ("_numbers", (i,), [factor(TWO, power=Fraction(-5, 2)), factor(x, i)]),
}
STAYS = {  # what looks like it and is not: the free indices, and the factors
    "inv(A) A'":                    ((i, k), [inverse(A, i, j), factor(A, k, j)]),
    "inv(A) B":                     ((i, k), [inverse(A, i, j), factor(B, j, k)]),
    "inv(A) A entry by entry":      ((i, j), [inverse(A, i, j), factor(A, i, j)]),
    "inv(A) A and a third":         ((i, k), [inverse(A, i, j), factor(A, j, k), factor(x, j)]),
    "inv(A B) B":                   ((i, k), [INV_AB, factor(B, j, k)]),
    "inv(A B) A'":                  ((i, k), [INV_AB, factor(A, k, j)]),
    "A inv(A B)":                   ((i, k), [factor(A, i, j), inv_ab(j, k)]),
    "inv(A B) A entry by entry":    ((i, j), [INV_AB, factor(A, i, j)]),
    "inv(A B) A and a third":       ((i, k), [INV_AB, factor(A, j, k), factor(x, j)]),
    "inv(Z' Z) Z'":                 ((i, p), [of("inv", tensor((i, j), (1, factor(Z, r_m, i), factor(Z, r_m, j)))), factor(Z, p, j)]),
    "(x' y) / (x' z)":              ((), [factor(x, i), factor(z, i), raised(X_Y, -1)]),
    "(x' y) times (x' y)":          ((), [factor(x, i), factor(y, i), raised(X_Y, 2)]),
    "x y / (x' y)":                 ((i,), [factor(x, i), factor(y, i), raised(X_Y, -1)]),
    "(A x) / (A x), other rows":    ((i, k), [factor(A, i, j), factor(x, j), A_X._replace(at=(k,), power=Fraction(-1))]),
    "x, A and z at one / (A x)":    ((i,), [factor(A, i, j), factor(x, j), factor(z, j), raised(A_X, -1)]),
    "an entry of x":                ((), [factor(x, i), factor(E0, i)]),
    "a unit vector alone":          ((i,), [factor(E0, i)]),
    "rows of the identity":         ((c, i), [ROWS_OF_I]),
    "rows of the identity, and x":  ((c, i), [ROWS_OF_I, factor(x, i)]),
    "inv(A) squared A":             ((i, k), [raised(inverse(A, i, j), 2), factor(A, j, k)]),
    "Q Q":                          ((i, k), [factor(Q, i, j), factor(Q, j, k)]),
    "Q' Q, weighted":               ((j, k), [factor(Q, i, j), factor(Q, i, k), factor(x, i)]),
    "an identity alone":            ((i, j), [factor(I, i, j)]),
    "a diagonal matrix alone":      ((i, j), [factor(D, i, j)]),
    "|x| sign(y)":                  ((i,), [ABS, of("sign", linear(y, i))]),
    "|x|":                          ((i,), [ABS]),
    "exp over another sum":         ((i,), [exps(x, i), raised(SUM_EXP, -1)]),
    "exp over the other sum":       ((p, i), [exps(Z, p, i), raised(grouped((1, exps(Z, p, k)), free=(k,)), -1)._replace(at=(i,))]),
    "softmax weighted":             ((), [SOFTMAX, factor(x, i)]),
    "softmax over the other axis":  ((i,), [SOFT_ROWS]),
    "softmax squared, summed":      ((), [raised(SOFTMAX, 2)]),
    "x / (e' x)":                   ((i,), [factor(x, i), raised(HOT_X, -1)]),
    "e y / (e' x)":                 ((i,), [factor(HOT, i), factor(y, i), raised(HOT_X, -1)]),
    "e (e' x) x":                   ((i,), [factor(HOT, i), factor(x, i), HOT_X]),
    "another comparison":           ((i,), [MASKED, of("greater", linear(y, i), linear(z, i))]),
    "what is shown elsewhere":      ((i, j), [CAUSAL, factor(TRI, j, i)]),
    "a simplex weighted":           ((), [factor(SIMPLEX, i), factor(x, i)]),
    "a simplex squared":            ((), [factor(SIMPLEX, i, power=2)]),
    "columns of indicators":        ((i,), [factor(HOTS, p, i)]),
    "an indicator's root":          ((i,), [factor(x, i), factor(HOT, i)]),
    "2 - sigmoid(t)":               ((i,), [sum_of(tensor((i,), (2,), (-1, LOGISTIC)))[1]]),
    "sigmoid(t) exp(t)":            ((i,), [LOGISTIC, exps(t, i)]),
    "1 + sigmoid(t)":               ((i,), [grouped((1,), (1, LOGISTIC), free=(i,))]),
    "1/(2 + exp(t))":               ((i,), [raised(sum_of(tensor((i,), (2,), (1, exps(t, i))))[1], -1)]),
    "1/(1 + exp(t)) of two":        ((i, j), [exps(t, j), raised(ONE_PLUS, -1)]),
    "V diag(w) x":                  ((i,), [VECTORS, VALUES_OF_S, factor(x, j)]),
    "V diag(x) V'":                 ((i, k), [VECTORS, factor(x, j), IndexedFactor(VECTORS.atom, (k, j))]),
    "V diag(w)^(1/2) V'":           ((i, k), [VECTORS, raised(VALUES_OF_S, Fraction(1, 2)), IndexedFactor(VECTORS.atom, (k, j))]),
    "U V'":                         ((p, k), [LEFT, RIGHT]),
    "U diag(s) U'":                 ((p, r_m), [LEFT, SINGULAR, IndexedFactor(LEFT.atom, (r_m, j))]),
    "tril(A)":                      ((i, j), [factor(TRI, i, j), factor(A, i, j)]),
    "inv(L) inv(L)'":               ((i, k), [INV_L, IndexedFactor(INV_L.atom, (k, j))]),
    "erfc(t)":                      ((i,), [of("erfc", linear(t, i))]),
    "1 + erf(t)":                   ((i,), [grouped((1,), (1, of("erf", linear(t, i))), free=(i,))]),
    "exp(-t^2)/sqrt(2 pi)":         ((i,), [raised(of("exp", tensor((i,), (1, factor(t, i, power=2)))), -1), ROOT_HALF, factor(Atom("pi", "pi"), power=Fraction(-1, 2))]),
    "exp(-t^3/2)/sqrt(2 pi)":       ((i,), [raised(of("exp", tensor((i,), (Fraction(1, 2), factor(t, i, power=3)))), -1), ROOT_HALF, factor(Atom("pi", "pi"), power=Fraction(-1, 2))]),
    "1 + ndtr(t)":                  ((i,), [grouped((1,), (1, of("ndtr", linear(t, i))), free=(i,))]),
    "sign(x) y":                    ((i,), [SGN, factor(y, i)]),
    "x v**v":                      ((i, p), [factor(x, i), of("power", linear(V, p), linear(V, p))]),
    "the largest, weighted":        ((), [LARGEST, factor(x, i)]),
    "what is centred, weighted":    ((), [CENTRED, factor(y, i)]),
}
# fmt: on
BY_NAME = {rule.rewrite.__name__: rule for rule in RULES}
for own in VALUES:
    own["v"] = np.arange(1.0, 5.0)


def assert_equal(before: Tensor, after: Tensor) -> None:
    for values in VALUES:
        np.testing.assert_allclose(at_point(after, values, before.free), at_point(before, values), rtol=1e-9, atol=1e-11)  # fmt: skip


def test_every_rule_is_tested() -> None:
    assert {name for name, _, _ in APPLIES.values()} == set(BY_NAME)


@for_rows("coef", [Fraction(1), Fraction(-3, 2), 0.1], parts=3)
@for_rows(("rule", "free", "factors"), APPLIES.values(), ids=APPLIES)
def test_a_rule_keeps_the_value(rule: str, free: tuple[Index, ...], factors: list[IndexedFactor], coef: Any) -> None:
    before = IndexedTerm(coef, tuple(factors))
    after = BY_NAME[rule].apply(before, free)
    assert after is not None and after != before
    assert_equal(Tensor(free, (before,)), Tensor(free, (after,)))
    assert_equal(Tensor(free, (before,)), Tensor(free, (apply_rules(before, free),)))


@for_rows(("free", "factors"), STAYS.values(), ids=STAYS)
def test_what_only_looks_like_it_keeps_its_value(free: tuple[Index, ...], factors: list[IndexedFactor]) -> None:
    before = IndexedTerm(ONE, tuple(factors))
    assert_equal(Tensor(free, (before,)), Tensor(free, (apply_rules(before, free),)))
