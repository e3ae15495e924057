"""How honest the bounds of finite differences are: the share that contains the truth, how wide they are, what they cost.

    python benchmarks/bounds.py [--seeds 4] [--functions TEXT] [--json]

The truth is the mode `certified`. Functions that compute something else than they mean (float32 inside, noise, a solver
with a tolerance) are measured against what they mean. Each function is looked at in `--seeds` points: its own, and random
ones around it. Entries that a kink at the very point leaves open have no truth and are left out.
"""

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from gradcli.tracing.shapes import shape
from gradcli.errors import GradcliError
from gradcli.modes.mode import Question
from gradcli.modes.registry import MODES
from gradcli.targets.points import WHOLE, read_points
from gradcli.checks.evidence import USEFUL
from gradcli.checks.run_modes import run_mode
from gradcli.checks.probe import Located, locate_expression, locate_function

TINY = 1e-6  # of the largest entry: what is smaller is held against that, and is not well-behaved
COLUMNS = {
    "functions": ",", "entries": ",", "contained": ".3%", "contained of finite": ".3%", "cannot tell": ".2%",
    "median width": ".1e", "90th percentile": ".1e", "evaluations": ".0f", "mean evaluations": ".1f", "seconds": ".2f",
}  # fmt: skip
JITTER = 0.1  # of each entry, for the random points of Python functions

# In points, u is 1 and then random from 0.5 to 2. In order: the edge of the domain, waves and narrow peaks, large and small
# values, poles, cancellation, saturation, inputs of different sizes, kinks nearby, special functions, linear algebra,
# losses, iterations, slope zero.
EVERYWHERE = """
sin(x)  cos(x)  exp(x)  expm1(x)  tanh(x)  arctan(x)  arcsinh(x)  sqrt(x)  log(x)  log1p(x)  cbrt(x)  sigmoid(x)  softplus(x)  erf(x)  cosh(x)  1/x  x**2  x**2.5  x**-3  x
"""
PLACES = ["x=0.7*u", "x=3*u", "x=1e-12*u", "x=1e-4*u", "x=1e8*u"]
EXPRESSIONS = """
sqrt(x) at x=1e-9*u  log(x) at x=1e-9*u  sqrt(x - 1) at x=1+1e-9*u  log(x - 1) at x=1+1e-9*u  arcsin(x) at x=1-1e-9*u  arccos(x) at x=1e-6*u-1  arccosh(x) at x=1+1e-7*u
arctanh(x) at x=1-1e-6*u  log1p(x) at x=1e-8*u-1  xlogy(x, x) at x=1e-7*u  x**x at x=1e-6*u  sqrt(1 - x**2) at x=1-1e-5*u  log(1 - x) at x=1-1e-12*u  arcsin(x) at x=1-1e-3*u
sqrt(x*y) at x=1e-8*u, y=2  entr(x) at x=1e-10*u  sqrt(x)*log(x) at x=1e-5*u  log(x - 5) at x=5.0001+1e-4*u  gammaln(x) at x=1e-6*u  logit(x) at x=1e-7*u  sum(sqrt(v)) at v=[1e-8*u, 1, 100]
ellipk(x) at x=1-1e-6*u  (x - 2)**1.5 at x=2+1e-6*u  sin(1000*x) at x=u  sin(1e4*x) at x=u  sin(1e6*x) at x=u  sin(1e9*x) at x=u  x + sin(1e3*x)/1e4 at x=u  x + 1e-5*sin(1e5*x) at x=u
cos(300*x*y) at x=u, y=1.3  sin(x**5) at x=3*u  sin(1/x) at x=0.01*u  exp(sin(100*x)) at x=u  1/(1 + (1000*x)**2) at x=0.002*u  exp(-(1e4*(x - 1))**2) at x=1+1e-4*u
sigmoid(200*x) at x=0.003*u  tanh(1e5*x) at x=1e-5*u  sin(1e12*x) at x=1e-12*u  x*sin(40/x) at x=0.3*u  exp(x) + exp(-((x - 2)*1e3)**2) at x=2+1e-3*u  cos(x) + 1e-3*cos(1e4*x) at x=u
sin(5e7*x) at x=u  exp(x) at x=100*u  exp(x**2) at x=8*u  exp(-x) at x=200*u  exp(exp(x)) at x=2*u  exp(-x**2) at x=5*u  x**20 at x=3*u  x**0.1 at x=1e-3*u  x**-7 at x=0.01*u  2**x at x=50*u
1e20*x + 1e-20 at x=2e-5*u  sinh(x)/cosh(3*x) at x=5*u  exp(-1/x) at x=0.05*u  1e-200*x**2 at x=u  1e200*sin(x) at x=u  prod(v) at v=uniform(0.5, 2, 12)*u  prod(v) at v=randn(30)*u
a*b*c*d*g*h at a=u, b=1e-3, c=1e5, d=-2, g=1e-7, h=3  exp(sum(v)) at v=randn(10)*u  x**2*y**3/z**4 at x=u, y=1e3*u, z=1e-2*u  x**a at x=2.5*u, a=1.7*u  x**y**z at x=1.2*u, y=1.5, z=u
tan(x) at x=1.57  tan(x) at x=1.5707*u  1/(x - 1) at x=1+1e-4*u  1/(x - 1) at x=1+1e-9*u  x/(x**2 - 2) at x=1.4142*u  (x**2 - 1)/(x - 1) at x=1+1e-6*u  1/sin(x) at x=1e-5*u
x/(y - z) at x=u, y=1.0001, z=1  1/(exp(x) - 1) at x=1e-6*u  sin(x)/x at x=1e-3*u  1/(1e-6 + x**2) at x=1e-4*u  (x - y)/(x + y) at x=u, y=-1.001*u  gamma(x) at x=1e-4*u-2
digamma(x) at x=1e-3*u-1  exp(x) - exp(1.0000001*x) at x=u  (1e8 + x**2) - 1e8 at x=u  1e8 + x**2 at x=u  1e12 + sin(x) at x=u  (1e16 + x) - 1e16 at x=u  1 - cos(x) at x=1e-4*u
sqrt(x + 1) - sqrt(x) at x=1e8*u  log(x + 1) - log(x) at x=1e6*u  (x - 1)**6 at x=1+1e-2*u  x**6 - 6*x**5 + 15*x**4 - 20*x**3 + 15*x**2 - 6*x + 1 at x=1+1e-2*u
sin(x)**2 + cos(x)**2 + x/1e6 at x=u  var(v) at v=1e6+randn(6)*u  x**2 - y**2 at x=1e4*u, y=1e4*u  exp(x)*exp(-x)*x at x=20*u  tanh(x) - 1 at x=10*u  (x + 1e10)**2 - 1e20 at x=u
tanh(x) at x=18*u  sigmoid(x) at x=40*u  sigmoid(x) at x=-40*u  softplus(x) at x=-50*u  erf(x) at x=5*u  erfc(x) at x=5*u  tanh(sum(v)) at v=[10, 5, 2*u]  log(1 + exp(-x)) at x=30*u
ndtr(x) at x=-8*u  softmax(v) at v=[30*u, 1, -20]  arctan(x) at x=1e8*u  sum(v**2) at v=[1e-8*u, 1e6, 1]  x*y + sin(x*1e6) at x=1e-8*u, y=1e6*u  log(sum(exp(v))) at v=[1e-8*u, 10, -300]
norm(v) at v=[1e-8*u, 1e6, 2]  sin(x*1e8) + cos(y/1e6) at x=1e-8*u, y=1e6*u  x/1e12 + y at x=1e12*u, y=1e-12*u  sum(sin(v)) at v=[1e-8*u, 1e6*u, 3]  sum(sqrt(v)*v) at v=[1e-8*u, 1e6*u]
x*exp(-e*1e9) at x=u, e=1e-9*u  k*t/(p*1e23) at k=1.38e-23*u, t=300*u, p=1e5*u  a*x + b at a=1e-15*u, x=1e15, b=1*u  hypot(x, y) at x=1e-7*u, y=1e3  relu(x) at x=3e-7*u  relu(x) at x=1e-4*u
relu(x) at x=-1e-4*u  abs(x - 1) at x=1+1e-5*u  abs(x - 1) at x=1+1e-9*u  maximum(x, 2*x - 1) at x=1+1e-4*u  minimum(sin(x), 0.5) at x=0.52*u  sum(relu(v)) at v=[1e-3*u, -1e-6*u, 1]
abs(sin(x)) at x=3.1415*u  relu(x - 1) + x**2 at x=1+3e-7*u  max(v) at v=[1, 1+1e-5*u, 0]  where(x > 1, x**2, 2*x - 1) at x=1+1e-4*u  abs(x)**1.5 at x=1e-4*u  clip(x, 0, 1) at x=1-1e-6*u
abs(x) + exp(x) at x=1e-3*u  sqrt(x**2 + 1e-12) at x=1e-6*u  where(x > 1, x**2, 2*x) at x=1+1e-3*u  floor(x) + x at x=2.01  relu(x)**2 at x=1e-5*u  abs(x*y) at x=1e-11*u, y=3
sum(maximum(v, 0.1*v)) at v=randn(6)*u  gamma(x) at x=3.3*u  gammaln(x) at x=20*u  jv(2, x) at x=3*u  jv(0, x) at x=50*u  erfinv(x) at x=0.4*u  digamma(x) at x=2*u  kv(1, x) at x=u
beta(x, y) at x=u, y=2*u  i0(x) at x=5*u  y1(x) at x=2*u  expi(x) at x=u  spence(x) at x=0.5*u  ellipe(x) at x=0.3*u  hyp2f1(0.5, 1, 1.5, x) at x=0.3*u  gammainc(2, x) at x=u
dawsn(x) at x=u  det(A) at A=randn(4, 4)*u  sum(inv(A)) at A=spd(3)*u  sum(solve(A, b)) at A=spd(3), b=randn(3)*u  slogdet(A)[1] at A=spd(4)*u
norm(A @ x - b) at A=randn(3, 2), x=randn(2)*u, b=randn(3)  trace(matrix_power(A, 3)) at A=randn(3, 3)*u  inv(A)[0, 0] at A=[[1, 1], [1, 1+1e-5*u]]  x @ A @ x at x=randn(4)*u, A=randn(4, 4)
sum((A @ x)**2) at A=randn(5, 3), x=1e-3*randn(3)*u  solve(A, b) at A=spd(3), b=randn(3)*u  softmax(v) at v=randn(4)*u  -log(softmax(v)[0]) at v=3*randn(5)*u
logsumexp(v) at v=100*randn(4)*u  std(v) at v=randn(6)*u  sum(layer_norm(v)**3) at v=randn(5)*u  sum(gelu(W @ x)) at W=randn(3, 4), x=randn(4)*u
mean((sigmoid(W @ x + b) - y)**2) at W=randn(4, 3)*u, x=randn(3), b=randn(4), y=[0, 1, 1, 0]  pseudo_huber(0.1, x) at x=u  sum(silu(v)) at v=10*randn(5)*u  [x*y, x**2, sin(y)] at x=u, y=3*u
cumsum(v**2) at v=randn(4)*u  a = 3.7*x*(1 - x); b = 3.7*a*(1 - a); c = 3.7*b*(1 - b); d = 3.7*c*(1 - c); 3.7*d*(1 - d) at x=0.3*u
a = (1 + x)/2; b = (a + x/a)/2; c = (b + x/b)/2; d = (c + x/c)/2; (d + x/d)/2 at x=2*u  a = cos(x); b = cos(a); c = cos(b); d = cos(c); cos(d) at x=u
a = exp(-x); b = exp(-a*x); c = exp(-b*x); exp(-c*x) at x=2*u  a = sin(x*y); b = sin(a + x); c = sin(b*y); sin(c + 3*x) at x=u, y=2*u  x**2 at x=0  cos(x) at x=0  x**4 at x=0  x**3 at x=0
(x - 1)**2*exp(x) at x=1  sum(v**2) at v=zeros(3)  1 - cos(x*y) at x=0, y=u  x*0 + 5 at x=u  3*x - 2*y at x=u, y=1e5*u  x*y at x=0, y=u  sum(v) at v=randn(8)*u  cos(x) at x=pi/2*u
sin(x) at x=pi/2  exp(-x**2) at x=0  x - sin(x) at x=1e-3*u  x at x=0  floor(x) at x=2.5  relu(x) at x=-2*u  1e8 + x at x=0  x*1e-30 at x=u
"""


def root(c: Any, tolerance: float) -> Any:
    """Return the root of x**3 + x - c by bisection, to a tolerance."""
    low, high = 0.0, 10.0
    while high - low > tolerance:
        middle = (low + high) / 2
        low, high = (low, middle) if middle**3 + middle > float(c) else (middle, high)
    return (low + high) / 2


def newton(a: Any, c: Any, tolerance: float) -> Any:
    """Return a number times the same root by Newton's method; the last step is as large as the tolerance."""
    x, change = float(c), 1.0
    while abs(change) > tolerance:
        change = (x**3 + x - float(c)) / (3 * x**2 + 1)
        x -= change
    return float(a) * x


def inside(ok: bool, value: Any) -> Any:
    """Return a value, or raise as functions do outside their domain."""
    if not ok:
        raise ValueError("outside the domain")
    return value


ROOT = "s = sqrt(c**2/4 + 1/27); cbrt(c/2 + s) - cbrt(s - c/2)"
MEANT: list[tuple[Callable[..., Any], str, str]] = [  # what is computed, what is meant, and where
    (lambda x: np.sin(x).astype(np.float32), "sin(x)", "x=u"),
    (lambda x: np.sum((x * x).astype(np.float32)), "sum(x*x)", "x=randn(4)*u"),
    (lambda x: float(np.exp(np.float32(x))), "exp(x)", "x=u"),
    (lambda A, b: np.sum(np.linalg.solve(A, b)).astype(np.float32), "sum(solve(A, b))", "A=spd(3), b=randn(3)*u"),
    (lambda x: float(np.sin(x) + 1e-10 * np.sin(1e12 * x)), "sin(x)", "x=u"),
    (lambda x: float(x**2 + 1e-6 * np.sin(1e9 * x)), "x**2", "x=u"),
    (lambda x: float(np.sum(x**3) + 1e-8 * np.sin(1e13 * np.sum(x))), "sum(x**3)", "x=randn(5)*u"),
    (lambda x: np.round(np.exp(x), 8), "exp(x)", "x=u"),
    (lambda x: float(f"{np.cosh(x):.10g}"), "cosh(x)", "x=u"),
    (lambda c: root(c, 1e-6), ROOT, "c=3*u"),
    (lambda a, c: newton(a, c, 1e-7), ROOT.replace("; ", "; a*(") + ")", "a=u, c=3*u"),
    (lambda x: np.float64(np.sum(np.linspace(0, 1, 1000, dtype=np.float32) * np.float32(x))), "500*x", "x=u"),
    (lambda x: inside(x >= 0, np.exp(x)), "exp(x)", "x=0.0"),
    (lambda x: inside(x >= 0, np.exp(x) * np.sin(3 * x)), "exp(x)*sin(3*x)", "x=1e-13*u"),
    (lambda x, y: np.where(x > 0, np.log(1 + x) * y, np.nan), "log(1 + x)*y", "x=1e-300, y=u"),
    (lambda v: inside(np.all(v >= 0), np.sum(np.sqrt(1 + v) ** 3)), "sum(sqrt(1 + v)**3)", "v=[0, 1e-12*u, 2]"),
]


@dataclass(frozen=True, slots=True)
class Case:
    """One function at one point: what is differenced, and the question whose certified gradient is the truth."""

    group: str
    name: str
    asked: Question
    exact: Question


@dataclass(frozen=True)
class Measured:
    """What came of one case, entry by entry of the Jacobian; `evaluations` are per entry of the inputs."""

    group: str
    name: str
    labels: list[str]
    truth: Any
    estimate: Any
    bound: Any
    evaluations: float
    seconds: float

    @cached_property
    def ratio(self) -> Any:
        """The error in units of the bound: above one, the bound is wrong; nan where the bound says nothing."""
        error = np.where(np.isfinite(self.bound), np.abs(self.estimate - self.truth), np.nan)
        return np.where(error == 0, 0.0, error / self.bound)

    @cached_property
    def tame(self) -> Any:
        return np.abs(self.truth) > TINY * np.max(np.abs(self.truth))

    @cached_property
    def width(self) -> Any:
        """The bound relative to the entry, or to what entries count as zero below."""
        size = np.maximum(np.abs(self.truth), TINY * np.max(np.abs(self.truth)))
        return np.where(np.isnan(self.ratio), np.inf, self.bound / np.where(size > 0, size, np.inf))


def question(found: Located) -> Question:
    return Question(found.f, found.points[0], found.wrt)


def written(text: str, point: dict[str, Any]) -> Question:
    return question(locate_expression(text, [point]))


def listed(table: str) -> list[str]:
    """Return what a table lists, two blanks apart."""
    return re.split(r"\n| {2,}", table.strip())


def point_of(at: str, u: float) -> dict[str, Any]:
    """Return the point a text names, in which u is a number."""
    return read_points([re.sub(r"\bu\b", repr(u), at)], seed=int(1e6 * u))[0]


def jittered(q: Question, seed: int) -> Question:
    """Return the question at a random point nearby; seed 0 is its own."""
    rng = np.random.default_rng(seed)
    size = JITTER if seed else 0.0
    moved = {name: q.point.values[name] * (1 + size * rng.normal(size=shape(q.point.values[name]))) for name in q.wrt}
    return replace(q, point=replace(q.point, values=q.point.values | moved, value=None, seconds=None))


def cases(seeds: int, wanted: str) -> Iterator[Case]:
    """Yield every function at every point; an expression whose point has no u has one."""
    from tests.corpus.test_corpus import ALL, named

    table = [(text, at) for text in listed(EVERYWHERE) for at in PLACES]
    table += [(text, at) for text, _, at in (row.partition(" at ") for row in listed(EXPRESSIONS))]
    for seed in range(seeds):
        u = 1.0 if seed == 0 else float(2 ** np.random.default_rng(seed).uniform(-1, 1))
        for text, at in table:
            if wanted in text and (seed == 0 or re.search(r"\bu\b", at)):
                q = written(text, point_of(at, u))
                yield Case("expressions", f"{text} at {at}", q, q)
        for k, (f, text, at) in enumerate(MEANT):
            name = f"{text} computed otherwise, {k}"
            if wanted in name:
                asked = question(locate_function(f, "f", [point_of(at, u)]))
                yield Case("computed otherwise", name, asked, written(text, point_of(at, u)))
        for f, at in ALL.items():
            if wanted in named(f):
                q = jittered(question(locate_function(f, f.__name__, [{WHOLE: at}])), seed)
                yield Case("corpus", named(f), q, q)


def measured(case: Case) -> Measured | None:
    """Return the entries whose truth is known; None where `certified` has no answer."""
    asked, exact = case.asked, case.exact
    try:
        truth = run_mode(MODES["certified"], exact).estimate
        asked.prepare()
        found = run_mode(MODES["finite-difference"], asked).estimate
    except GradcliError as error:
        print(f"{case.name}: {error}", file=sys.stderr)
        return None
    if truth is None or found is None:
        return None
    rows = []
    for k, name in enumerate(exact.wrt):
        right, value, bound = (np.asarray(a[name]) for a in (truth.value, found.value, found.bound))
        for at in np.ndindex(right.shape):
            own = at[right.ndim - np.ndim(exact.xs[k]) :]
            if not any(np.asarray(mark.reach[k])[own] for mark in exact.kinks):
                label = f"{name}[{', '.join(map(str, at))}]" if at else name
                rows.append((label, *(float(a[at]) for a in (right, value, bound))))
    if not rows:
        return None
    labels, *numbers = zip(*rows, strict=True)
    evaluations = found.cost.evaluations / sum(map(np.size, asked.xs))
    return Measured(case.group, case.name, list(labels), *map(np.array, numbers), evaluations, found.cost.seconds)


def summary(found: Sequence[Measured]) -> dict[str, Any]:
    """Return the figures."""
    ratio, width, tame = (np.concatenate([getattr(one, part) for one in found]) for part in ("ratio", "width", "tame"))
    wide: Counter[str] = Counter()
    for one in found:
        wide[one.name] += int(np.sum(one.width > USEFUL))
    violators = [
        {"function": one.name, "entry": one.labels[k], "truth": one.truth[k], "estimate": one.estimate[k], "bound": one.bound[k],
         "ratio": one.ratio[k]}
        for one in found for k in np.nonzero(one.ratio > 1)[0]
    ]  # fmt: skip
    return {
        "functions": len(found),
        "entries": len(ratio),
        "contained": 1 - len(violators) / max(1, len(ratio)),
        "contained of finite": 1 - len(violators) / max(1, np.sum(ratio >= 0)),
        "cannot tell": float(np.mean(width > USEFUL)),
        "median width": float(np.median(width[tame])),
        "90th percentile": float(np.quantile(width[tame], 0.9, method="higher")),
        "evaluations": float(np.median([one.evaluations for one in found])),
        "mean evaluations": float(np.mean([one.evaluations for one in found])),
        "seconds": sum(one.seconds for one in found),
        "violators": sorted(violators, key=lambda v: -v["ratio"]),
        "cannot tell by function": {name: count for name, count in wide.most_common() if count},
    }


def main() -> None:
    """Print the figures by group, the violators, and where nothing is known."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=4, help="points for each function")
    parser.add_argument("--functions", default="", help="only functions whose name has this text in it")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    np.seterr(all="ignore")
    found = [one for case in cases(args.seeds, args.functions) if (one := measured(case)) is not None]
    if not found:
        raise SystemExit("no function has that text in its name")
    total = summary(found)
    if args.json:
        print(json.dumps(total, indent=2))
        return
    print(" " * 18, *(f"{name:>{len(name) + 2}}" for name in COLUMNS))
    groups = {group: summary([one for one in found if one.group == group]) for group in {one.group: 0 for one in found}}
    for group, figures in {**groups, "all": total}.items():
        print(f"{group:18}", *(f"{figures[name]:{len(name) + 2}{how}}" for name, how in COLUMNS.items()))
    print(f"\n{len(total['violators'])} bounds do not contain the truth")
    for v in total["violators"]:
        print("  {function} {entry}: {truth:.10g}, found {estimate:.10g} ±{bound:.1e}, ratio {ratio:.1f}".format(**v))
    print("\nbounds that are infinite or wider than 1e-3")
    for name, count in total["cannot tell by function"].items():
        print(f"  {count:4} {name}")


if __name__ == "__main__":
    main()
