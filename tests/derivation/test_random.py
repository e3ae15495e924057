"""Random expressions of matrices: what `derive` gives is the gradient, or it is refused; never wrong, never an internal error.

More of them, or others: GRADCLI_RANDOM=2000 or GRADCLI_RANDOM=5000:7000.
"""

import os
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from gradcli.checks.run_modes import run_mode
from gradcli.modes.mode import Question
from gradcli.modes.registry import MODES
from gradcli.request.point import Point
from gradcli.targets.derived import Gradient
from gradcli.targets.expression import Expression

COUNT = 200
SIZES = ({"n": 4, "m": 2}, {"n": 2, "m": 5})
ROUNDING = 1e-8  # of one and the largest entry: formulas round in other orders, and inverses amplify it
REFUSED_AT_MOST = 0.2  # of all: a generator of what is always refused would test nothing
SAMPLE = 60
first, _, last = os.environ.get("GRADCLI_RANDOM", str(COUNT)).rpartition(":")
SEEDS = range(int(first or 0), int(last))

# fmt: off
INPUTS = {"s": "", "r": "", "x": "n", "y": "n", "u": "m", "A": "n n", "B": "n n", "S": "n n", "X": "m n", "C": "m m"}
FACTS = {"y": ("", "positive", "signs", "simplex"), "A": ("", "symmetric", "diagonal", "orthogonal"), "r": ("positive",), "S": ("spd",), "u": ("", "signs", "onehot"), "C": ("", "spd")}
GROWN: dict[str, tuple[tuple[str, ...], ...]] = {
    "": (("{} + {}", "", ""), ("{} - {}", "", ""), ("{}*{}", "", ""), ("{}/(1 + {}**2)", "", ""), ("tanh({})", ""), ("log(2 + {}**2)", ""),
         ("sqrt(1 + {}**2)", ""), ("exp(-{}**2)", ""), ("{}**3", ""), ("{}@{}", "n", "n"), ("{}@{}", "m", "m"), ("sum({})", "n"), ("mean({})", "m"),
         ("var({})", "n"), ("norm({})", "n"), ("logsumexp({})", "n"), ("{}@{}@{}", "m", "m n", "n"), ("{0}@{1}@{0}", "n", "n n"), ("trace({})", "n n"),
         ("trace({}@{})", "n n", "n n"), ("sum({})", "m n"), ("sum({}**2)", "m n"), ("sum({}*{})", "m n", "m n"), ("mean({})", "n n"), ("trace({0}.T@{0})", "m n"),
         ("log(det(S + {0}@{0}.T))", "n n"), ("det(S + outer({0}, {0}))", "n"), ("{}@solve(S, {})", "n", "n"), ("2*{}", ""), ("0.5*{}", ""),
         ("{}[0]", "n"), ("{}[-1]", "m"), ("{}[0, 1]", "m n"), ("prod({})", "n"), ("sum({}[1:]**2)", "n")),
    "n": (("{} + {}", "n", "n"), ("{} - {}", "n", "n"), ("{}*{}", "n", "n"), ("{}/(1 + {}**2)", "n", "n"), ("{}@{}", "n n", "n"), ("{}@{}", "m", "m n"),
          ("{}*{}", "", "n"), ("{}/sqrt(1 + {}**2)", "n", ""), ("tanh({})", "n"), ("sigmoid({})", "n"), ("softmax({})", "n"), ("sin({})", "n"), ("exp(-{}**2)", "n"),
          ("softplus({})", "n"), ("log(1 + {}**2)", "n"), ("{}**2", "n"), ("diag({})", "n n"), ("sum({}, axis=0)", "m n"), ("mean({}, axis=1)", "n n"),
          ("solve(S, {})", "n"), ("{0} - mean({0})", "n"), ("{0}/norm({0})", "n"), ("abs({})", "n"), ("maximum({}, {})", "n", "n"), ("log_softmax({})", "n"), ("-{}", "n"),
          ("{}[1]", "m n"), ("{}[:, -1]", "n n"), ("cumsum({})", "n"), ("flip({})", "n"), ("concatenate([[1], {}[1:]])", "n")),
    "m": (("{} + {}", "m", "m"), ("{}*{}", "m", "m"), ("{}@{}", "m n", "n"), ("{}@{}", "m m", "m"), ("tanh({})", "m"), ("sum({}, axis=1)", "m n"),
          ("{}*{}", "", "m"), ("relu({})", "m"), ("exp({})/(1 + exp({}))", "m", "m"), ("log(1 + exp({}))", "m"), ("sqrt(1 + {}**2)", "m"), ("{} - 1", "m")),
    "n n": (("{} + {}", "n n", "n n"), ("{}@{}", "n n", "n n"), ("{}*{}", "n n", "n n"), ("{}.T", "n n"), ("outer({}, {})", "n", "n"), ("diag({})", "n"),
            ("{}.T@{}", "m n", "m n"), ("inv(S + {0}@{0}.T)", "n n"), ("inv(S)", ), ("{}*{}", "", "n n"), ("tanh({})", "n n"), ("exp(-{}**2)", "n n"),
            ("{} + {}", "n n", "n"), ("{}*{}[:, None]", "n n", "n"), ("softmax({}, axis=1)", "n n"), ("{} + {}*eye(n)", "n n", ""), ("{} - {}", "n n", "n n"),
            ("tril({})", "n n"), ("triu({}, 1)", "n n")),
    "m n": (("{} + {}", "m n", "m n"), ("{}*{}", "m n", "m n"), ("{}@{}", "m n", "n n"), ("{}@{}", "m m", "m n"), ("outer({}, {})", "m", "n"), ("tanh({})", "m n"),
            ("{}*{}", "", "m n"), ("{} - {}", "m n", "n"), ("{}*{}[:, None]", "m n", "m"), ("softmax({}, axis=1)", "m n"), ("sigmoid({})", "m n"),
            ("{0}/sum({0}**2, axis=1, keepdims=True)", "m n"), ("{0} - mean({0}, axis=0)", "m n")),
    "m m": (("{} + {}", "m m", "m m"), ("{}@{}", "m m", "m m"), ("{}.T", "m m"), ("{}@{}.T", "m n", "m n"), ("outer({}, {})", "m", "m"), ("sin({})", "m m")),
}
# fmt: on
ATOMIC = {shape: [name for name, own in INPUTS.items() if own == shape] for shape in GROWN}


@dataclass(frozen=True)
class Drawn:
    """One random problem."""

    f: str
    wrt: str
    shapes: dict[str, str]
    assume: dict[str, str]
    kind: str

    def argv(self) -> list[str]:
        shapes = "; ".join(f"{n}: {dims}" for n, dims in self.shapes.items())
        assume = "; ".join(f"{n}: {word}" for n, word in self.assume.items())
        options = ["--shapes", shapes, "--wrt", self.wrt, "--order", "2" if self.kind == "hessian" else "1"]
        return ["derive", self.f, *options, *(["--assume", assume] if assume else [])]


def grown(shape: str, depth: int, rng: random.Random) -> str:
    """Return a random expression of a shape, in brackets where it is more than a name."""
    if depth == 0:
        return rng.choice(ATOMIC[shape])
    form, *parts = rng.choice(GROWN[shape])
    return f"({form.format(*(grown(part, max(0, depth - rng.choice((1, 1, 2))), rng) for part in parts))})"


def drawn(seed: int) -> Drawn:
    """Return a random problem: a gradient mostly, a Jacobian or a Hessian now and then."""
    rng = random.Random(seed)
    kind = rng.choices(("gradient", "jacobian", "hessian"), (8, 1, 1))[0]
    depth = {"gradient": rng.choice((2, 3, 3, 4)), "jacobian": 2, "hessian": 2}[kind]
    while True:
        f = grown(rng.choice(("n", "m")) if kind == "jacobian" else "", depth, rng)
        names = [n for n in Expression(f).inputs if n in INPUTS]
        vectors = [n for n in names if len(INPUTS[n].split()) < 2]
        if choices := names if kind == "gradient" else vectors:
            break
    assume = {n: word for n in names if n in FACTS and (word := rng.choice(FACTS[n]))}
    shapes = {n: INPUTS[n] for n in names}
    return Drawn(f, rng.choice(choices), shapes, assume, kind)


MAKE: dict[str, Callable[[Any], Any]] = {
    "": lambda x: x,
    "positive": lambda x: np.abs(x) + 0.3,
    "signs": lambda x: np.where(x < 0, -1.0, 1.0),
    "simplex": lambda x: np.abs(x) / np.sum(np.abs(x)),
    "onehot": lambda x: np.eye(len(x))[0],
    "symmetric": lambda x: x + x.T,
    "diagonal": lambda x: np.diag(np.diag(x)),
    "orthogonal": lambda x: np.linalg.qr(x)[0],
    "spd": lambda x: x @ x.T + np.eye(len(x)),
}


def point(problem: Drawn, sizes: dict[str, int], seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    values = {n: rng.normal(size=tuple(sizes[d] for d in dims.split())) for n, dims in problem.shapes.items()}
    return {n: np.asarray(MAKE[problem.assume.get(n, "")](x))[()] for n, x in values.items()}


def truth(problem: Drawn, at: dict[str, Any], sizes: dict[str, int]) -> Any:
    """Return the derivative by reverse mode; of the gradient by reverse mode, for a Hessian."""
    f: Any = Expression(problem.f)
    whole = at | {n: np.float64(s) for n, s in sizes.items() if n in f.inputs}
    if problem.kind == "hessian":
        f = Gradient(f, (problem.wrt,), whole)
    found = run_mode(MODES["reverse"], Question(f, Point(whole), (problem.wrt,))).estimate
    assert found is not None, problem
    return np.asarray(found.value[problem.wrt])


def verdict(gradcli: Callable[..., Any], problem: Drawn) -> str:
    """Return right, or refused, or what is wrong."""
    ran = gradcli(*problem.argv(), "--json")
    if ran.exit_status == 3:
        return "refused"
    if ran.exit_status != 0 or "Traceback" in ran.stderr:
        return f"status {ran.exit_status}: {ran.stdout[:300]} {ran.stderr}"
    (result,) = ran.json["results"]
    if result["kind"] != problem.kind:
        return f"a {result['kind']}, not a {problem.kind}"
    scope: dict[str, Any] = {}
    exec(result["code"]["numpy"], scope)
    for k, sizes in enumerate(SIZES):
        at = point(problem, sizes, k)
        with np.errstate(all="ignore"):
            right, found = truth(problem, at, sizes), np.asarray(scope[problem.kind](**at))
        if right.size != found.size or (right.shape != found.shape and problem.kind == "gradient"):
            return f"shape {found.shape}, not {right.shape}: {result['formula']['expression']}"
        error = np.max(np.abs(found - right.reshape(found.shape)), initial=0.0)
        scale = 1 + np.max(np.abs(right), initial=0.0)
        if np.all(np.isfinite(right)) and not error <= ROUNDING * scale:
            return f"wrong by {error / scale:.1e}: {result['formula']['expression']}"
    return "right"


@pytest.mark.parametrize("seed", SEEDS)
def test_random_expressions_are_right_or_refused(gradcli: Callable[..., Any], seed: int) -> None:
    assert verdict(gradcli, drawn(seed)) in ("right", "refused"), drawn(seed).argv()


@pytest.mark.slow
def test_few_are_refused(gradcli: Callable[..., Any]) -> None:
    told = [verdict(gradcli, drawn(seed)) for seed in range(SAMPLE)]
    assert told.count("refused") <= REFUSED_AT_MOST * SAMPLE
