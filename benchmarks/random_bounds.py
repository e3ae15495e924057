"""How often an error bound does not hold: random cases of linear algebra and of cancellation, against mpmath.

    python benchmarks/random_bounds.py [COUNT] [--seed N] [--json]

A case is an expression at a random point: matrices of random sizes and conditions, a singular value near 0, sums that
cancel. Each mode that answers gives a value and a bound for each entry of the gradient; the truth is a difference in 120
digits. A violation is an entry whose error is larger than its bound, by more than the rounding of the value itself.
"""

import argparse
import json
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import mpmath
import numpy as np

from gradcli.modes.mode import Question
from gradcli.modes.registry import MODES
from gradcli.request.point import Point
from gradcli.targets.expression import Expression
from gradcli.checks.run_modes import run_mode

DIGITS, STEP = 120, "1e-30"
MODE_NAMES = ("certified", "forward", "reverse", "complex-step", "finite-difference")
SHOWN = 20  # violations
Exact = Callable[[Any], Any]


def weighted(function: Exact) -> Exact:
    """Return a function of a matrix A and weights W: the sum of W times the function's entries."""
    return lambda A, W: sum(w * y for w, y in zip(W, function(A), strict=True))


def singular_values(A: Any) -> Any:
    """Return the singular values."""
    return mpmath.svd_r(A, compute_uv=False)


MATRICES: dict[str, Exact] = {  # an expression of A and W, and its value in mpmath
    "sum(W*expm(A))": weighted(mpmath.expm),
    "sum(W*inv(A))": weighted(lambda A: A**-1),
    "det(A)": lambda A, W: mpmath.det(A),
    "logdet(A@A.T)": lambda A, W: 2 * mpmath.log(abs(mpmath.det(A))),
    "sum(svdvals(A))": lambda A, W: sum(singular_values(A)),
    "sum(W*(A@A))": weighted(lambda A: A * A),
    "norm(A)": lambda A, W: mpmath.sqrt(sum(a**2 for a in A)),
}
SUMS: dict[str, Exact] = {  # an expression of x and c, and its value in mpmath
    "sum(c*x)": lambda x, c: sum(b * a for a, b in zip(x, c, strict=True)),
    "sum(c*x**2)": lambda x, c: sum(b * a**2 for a, b in zip(x, c, strict=True)),
    "sum(c*sin(x))": lambda x, c: sum(b * mpmath.sin(a) for a, b in zip(x, c, strict=True)),
    "sum(c*exp(x/9))": lambda x, c: sum(b * mpmath.exp(a / 9) for a, b in zip(x, c, strict=True)),
}


def cases(count: int, seed: int) -> Iterator[tuple[str, str, dict[str, Any], Exact]]:
    """Yield expressions, the input that is differentiated, points, and the function in mpmath."""
    for number in range(count):
        rng = np.random.default_rng([seed, number])
        if number % 2:
            text = list(MATRICES)[int(rng.integers(len(MATRICES)))]
            yield text, "A", _matrices(rng), MATRICES[text]
        else:
            text = list(SUMS)[int(rng.integers(len(SUMS)))]
            yield text, "x", _summands(rng), SUMS[text]


def _matrices(rng: np.random.Generator) -> dict[str, Any]:
    n = int(rng.integers(2, 5))
    u, v = (np.linalg.qr(rng.normal(size=(n, n)))[0] for _ in range(2))
    singular = 10.0 ** np.append(rng.uniform(-1, 0.5, n - 1), rng.uniform(-13, 0.5))
    return {"A": u @ np.diag(singular) @ v, "W": rng.normal(size=(n, n))}


def _summands(rng: np.random.Generator) -> dict[str, Any]:
    n = int(rng.integers(2, 7))
    x, c = rng.normal(size=n), rng.normal(size=n) * 10.0 ** rng.uniform(-3, 24, n)
    if rng.random() < 0.5:
        x[-1], c[-1] = x[0], -c[0]  # the largest may cancel
    return {"x": x, "c": c}


def truth(exact: Exact, name: str, at: dict[str, Any]) -> Any:
    """Return the gradient by central differences in 120 digits."""
    with mpmath.workdps(DIGITS):
        h = mpmath.mpf(STEP)
        values = [mpmath.matrix(x.tolist()) for x in at.values()]
        k, x = list(at).index(name), at[name]
        found = np.empty(x.shape, dtype=object)
        for where in np.ndindex(x.shape):
            sides = []
            for sign in (1, -1):
                moved = values[k].copy()
                moved[where if x.ndim == 2 else where[0]] += sign * h
                sides.append(exact(*(moved if i == k else y for i, y in enumerate(values))))
            found[where] = (sides[0] - sides[1]) / (2 * h)
        return found


def measure(count: int, seed: int) -> dict[str, Any]:
    """Return how many entries each mode bounded, how many bounds did not hold, and the first of these."""
    entries: Counter[str] = Counter()
    violated: Counter[str] = Counter()
    shown = []
    for number, (text, name, at, exact) in enumerate(cases(count, seed)):
        right = truth(exact, name, at)
        q = Question(Expression(text, frozenset(at)), Point(dict(at)), (name,))
        for mode in MODE_NAMES:
            estimate = run_mode(MODES[mode], q).estimate
            if estimate is None:
                continue
            value, bound = np.asarray(estimate.value[name]), np.broadcast_to(estimate.bound[name], right.shape)
            for where in np.ndindex(right.shape):
                entries[mode] += 1
                off, room = abs(right[where] - float(value[where])), float(bound[where]) + np.spacing(abs(value[where]))
                if off > room:
                    violated[mode] += 1
                    shown.append(
                        (number, text, mode, where, float(right[where]), float(value[where]), float(bound[where]))
                    )
    return {"cases": count, "entries": dict(entries), "violations": dict(violated), "first": shown[:SHOWN]}


def main() -> None:
    """Print the counts, and the first violations."""
    parser = argparse.ArgumentParser()
    parser.add_argument("count", nargs="?", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with np.errstate(all="ignore"):
        found = measure(options.count, options.seed)
    if options.json:
        print(json.dumps(found, indent=1))
        return
    print(f"{found['cases']:,} cases")
    for mode, number in found["entries"].items():
        print(f"{mode:18} {number:8,} entries  {found['violations'].get(mode, 0):6,} bounds that do not hold")
    for number, text, mode, where, right, value, bound in found["first"]:
        print(f"  case {number}: {text}, {mode}, {list(where)}: {value:.17g} +- {bound:.1e}, true {right:.17g}")


if __name__ == "__main__":
    main()
