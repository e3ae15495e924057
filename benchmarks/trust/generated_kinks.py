"""Exact kinks in some inputs beside smooth terms in others, at scales from 1e-8 to 1e8.

What is true comes from the pieces that meet: each term states the gradients of its smooth pieces, and a claim is a
subgradient if it lies in their convex hull (terms have inputs of their own, so the hull of a sum is the product of hulls).
Smooth entries come from mpmath.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from generated import Claim, Generated, Gradient, Target, compiled, mp, pick, scale
from scipy.optimize import linprog

COUNT = 200
NAMES = frozenset({"not-a-subgradient", "kink"})  # findings that name the reason
OFF = (1e-7, 1e-5, 1e-3, 0.1, 1.0)  # of the largest slope along an input
PLACES = (0.0, 0.5, 1.0, -3.0, 0.1, 1e-3, 100.0)
LEAST = 1e-6  # of the largest slope: what linear programming tells from 0 with certainty


@dataclass(frozen=True)
class Term:
    """A term with a kink: its text, the values of its inputs, and a row of slopes for each piece."""

    text: str
    at: dict[str, Any]
    pieces: Any
    python_only: bool = False

    @property
    def slopes(self) -> Any:
        """The largest slope along each entry."""
        return np.max(np.abs(self.pieces), axis=0)

    def gradient(self, weights: Any) -> Any:
        """Return a mean of the pieces' gradients, in one vector."""
        return np.asarray(weights) @ self.pieces


# (text of u, rows of slopes du); u is exactly 0 at the point
ONE = (
    ("np.abs({u})", [[-1.0], [1.0]]),
    ("np.maximum({u}, 0)", [[0.0], [1.0]]),
    ("np.minimum({u}, 0)", [[0.0], [1.0]]),
    ("np.clip({u}, 0, 2)", [[0.0], [1.0]]),
    ("np.clip({u}, -2, 0)", [[0.0], [1.0]]),
    ("np.where({u} > 0, {u}, 0.25*({u}))", [[0.25], [1.0]]),
    ("np.maximum(0, -2*({u}))", [[-2.0], [0.0]]),
    ("np.exp(np.abs({u}))", [[-1.0], [1.0]]),
    ("np.sqrt(1 + np.abs({u}))", [[-0.5], [0.5]]),
    ("np.maximum({u}, 3*({u}))", [[1.0], [3.0]]),
    ("np.maximum(np.abs({u}), 2*({u}))", [[-1.0], [2.0]]),
    ("(np.abs({u}) + np.abs(3*({u})))", [[-4.0], [4.0]]),
    ("(np.maximum({u}, 0) - np.maximum(-({u}), 0))", [[1.0]]),  # is u
    ("(np.abs({u}) - np.maximum({u}, -({u})))", [[0.0]]),
    ("np.abs({u})*({u})", [[0.0]]),
)
BRANCHES = (  # as Python writes them
    ("(({u}) if ({u}) > 0 else -({u}))", [[-1.0], [1.0]]),
    ("({u})*(({u}) > 0)", [[0.0], [1.0]]),
    ("max({u}, 0.0)", [[0.0], [1.0]]),
    ("abs({u})", [[-1.0], [1.0]]),
)
TWO = (  # u and v are exactly 0
    ("np.maximum({u}, {v})", [[1.0, 0.0], [0.0, 1.0]]),
    ("np.minimum({u}, {v})", [[1.0, 0.0], [0.0, 1.0]]),
    ("np.abs({u} - ({v}))", [[1.0, -1.0], [-1.0, 1.0]]),
    ("np.maximum({u}, 3*({v}))", [[1.0, 0.0], [0.0, 3.0]]),
    ("(np.abs({u} + {v}) + np.abs({u} - ({v})))", [[2.0, 0.0], [-2.0, 0.0], [0.0, 2.0], [0.0, -2.0]]),
    ("(np.maximum({u}, {v}) + np.minimum({u}, {v}))", [[1.0, 1.0]]),
    ("np.maximum(np.maximum({u}, {v}), 0)", [[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]),
)
SMOOTH: tuple[tuple[str, Callable[[Any], Any]], ...] = (
    ("np.sin({y})", mp.cos),
    ("{y}**2", lambda y: 2 * y),
    ("np.exp({y})", mp.exp),
    ("np.log({y})", lambda y: 1 / y),
    ("{y}**3", lambda y: 3 * y**2),
    ("np.tanh({y})", lambda y: mp.sech(y) ** 2),
)


def generated(number: int, seed: int) -> Generated:
    """Return one case."""
    rng = np.random.default_rng([seed, 1, number])
    python = bool(rng.integers(2))
    terms = [_term(rng, "abc"[k], python) for k in range(1 + int(rng.integers(2)))]
    texts, at, smooth = [term.text for term in terms], {}, {}
    for term in terms:
        at.update(term.at)
    for name in ("y", "z")[: 1 + int(rng.integers(2))]:
        text, slope = pick(rng, SMOOTH)
        c, y = scale(rng, -8, 8), round(float(rng.uniform(0.3, 2)), 3)
        texts.append(f"{c!r}*{text.format(y=name)}")
        at[name], smooth[name] = y, float(c * slope(mp.mpf(y)))
    body = " + ".join(texts)
    family = "Python" if python else "expression"
    return Generated(family, body, lambda: _target(body, tuple(at), python), at, tuple(_claims(rng, terms, smooth)))


def _target(body: str, names: tuple[str, ...], python: bool) -> Target:
    if not python:
        return re.sub(r"np\.(linalg\.)?", "", body)
    return compiled(f"def f({', '.join(names)}):\n    return {body}\n", {"np": np})


def _term(rng: np.random.Generator, name: str, python: bool) -> Term:
    c = scale(rng, -8, 8)
    kind = pick(rng, ("one", "one", "two", "two", "apart", "vector", "ties"))
    if kind == "vector":
        return _vector(rng, name, c)
    if kind == "ties":
        return _ties(rng, name, c)
    if kind == "one":
        text, rows = pick(rng, ONE + BRANCHES * 2 if python else ONE)
        x = pick(rng, PLACES)
        return Term(f"{c!r}*{text.format(u=_zero(name, x))}", {name: x}, c * np.array(rows))
    text, rows = pick(rng, TWO)
    x, y = pick(rng, PLACES), pick(rng, PLACES)
    factor = scale(rng, -4, 4) if kind == "apart" else 1.0  # slopes of two sizes at one kink
    u, v = _zero(f"{name}1", x), f"{factor!r}*({_zero(f'{name}2', y)})"
    return Term(f"{c!r}*{text.format(u=u, v=v)}", {f"{name}1": x, f"{name}2": y}, c * np.array(rows) * [1.0, factor])


def _zero(name: str, x: float) -> str:
    return name if x == 0 else f"({name} - {x!r})" if x > 0 else f"({name} + {-x!r})"


def _vector(rng: np.random.Generator, name: str, c: float) -> Term:
    """Return a norm, or a sum of hinges, of a vector with one or two zeros."""
    n, zeros = int(rng.integers(2, 5)), int(rng.integers(1, 3))
    x = np.round(rng.uniform(0.2, 2, n) * rng.choice([-1, 1], n), 2)
    x[:zeros] = 0.0
    text, sides = pick(rng, (
        ("np.sum(np.abs({v}))", (-1.0, 1.0)), ("np.linalg.norm({v}, 1)", (-1.0, 1.0)), ("np.sum(np.maximum({v}, 0))", (0.0, 1.0)),
    ))  # fmt: skip
    side = np.where(x > 0, sides[1], sides[0])
    rows = [
        np.concatenate([corner, side[zeros:]])
        for corner in np.stack(np.meshgrid(*[sides] * zeros), axis=-1).reshape(-1, zeros)
    ]
    return Term(f"{c!r}*{text.format(v=name)}", {name: x}, c * np.array(rows))


def _ties(rng: np.random.Generator, name: str, c: float) -> Term:
    """Return the largest or smallest entry of a vector, which two or three share."""
    n, tied = int(rng.integers(3, 5)), int(rng.integers(2, 4))
    top = pick(rng, (("np.max({v})", -1.0), ("np.min({v})", 1.0)))
    x = 1.0 + top[1] * np.round(rng.uniform(0.2, 2, n), 2)
    x[:tied] = 1.0
    return Term(f"{c!r}*{top[0].format(v=name)}", {name: x}, c * np.eye(n)[:tied])


def _claims(rng: np.random.Generator, terms: list[Term], smooth: Gradient) -> Iterator[Claim]:
    """Yield two right claims, and wrong ones: outside along one input, outside jointly, a smooth entry off."""
    truth = "subgradient" if any(len(term.pieces) > 1 for term in terms) else "right"
    inside = lambda term: term.gradient(rng.dirichlet(np.ones(len(term.pieces))))
    corner = lambda term: term.pieces[int(rng.integers(len(term.pieces)))]
    claimed = lambda parts: {**_by_name(terms, parts), **smooth}
    yield Claim(truth, "inside", claimed([inside(term) for term in terms]), 0.0)
    yield Claim(truth, "end point", claimed([corner(term) for term in terms]), 0.0)
    for off in rng.choice(OFF, 2, replace=False):
        parts = [inside(term) for term in terms]
        k = int(rng.integers(len(terms)))
        parts[k], says = _outside(rng, terms[k], parts[k], off)
        yield Claim("wrong", says, claimed(parts), off)
    for k, term in enumerate(terms):
        joint = _joint(rng, term)
        if joint is not None:
            parts = [inside(term) for term in terms]
            parts[k], distance = joint
            yield Claim("wrong", f"jointly outside by {distance:.1e}", claimed(parts), distance)
    name, off = pick(rng, list(smooth)), pick(rng, (1e-9, 1e-6, 1e-2))
    found = claimed([inside(term) for term in terms])
    yield Claim("wrong", f"{name} off by {off:.0e}", {**found, name: found[name] * (1 + off)}, off)


def _by_name(terms: list[Term], parts: list[Any]) -> Gradient:
    found: Gradient = {}
    for term, part in zip(terms, parts, strict=True):
        stops = np.cumsum([np.size(x) for x in term.at.values()])[:-1]
        for (name, x), g in zip(term.at.items(), np.split(np.asarray(part, dtype=float), stops), strict=True):
            found[name] = g if np.ndim(x) else float(g[0])
    return found


def _outside(rng: np.random.Generator, term: Term, inside: Any, off: float) -> tuple[Any, str]:
    """Return a claim that one entry of leaves the interval of its slopes."""
    k = int(rng.integers(inside.size))
    low, high = np.min(term.pieces[:, k]), np.max(term.pieces[:, k])
    unit = term.slopes[k] or np.max(term.slopes) or abs(float(term.text.split("*")[0]))
    found = inside.copy()
    found[k] = high + off * unit if rng.integers(2) else low - off * unit
    return found, f"outside by {off:.0e}"


def _joint(rng: np.random.Generator, term: Term) -> tuple[Any, float] | None:
    """Return a claim of which every entry lies between its slopes, and which is no subgradient; its distance."""
    if len(term.pieces) < 2 or term.pieces.shape[1] < 2:
        return None
    low, high = np.min(term.pieces, axis=0), np.max(term.pieces, axis=0)
    centre = term.gradient(np.full(len(term.pieces), 1 / len(term.pieces)))
    off = pick(rng, (1e-5, 5e-3, 0.1, 0.4))
    for _ in range(20):
        found = centre + off * rng.choice([-1.0, 1.0], centre.size) * term.slopes * (high > low)
        distance = _distance(term, found)
        if np.all((low <= found) & (found <= high)) and distance > LEAST:
            return found, distance
    return None


def _distance(term: Term, claim: Any) -> float:
    """Return how far a claim is from the hull: the largest entry, in units of the slopes along it."""
    units = np.where(term.slopes > 0, term.slopes, 1.0)
    rows, wanted = (term.pieces / units).T, claim / units
    n, m = rows.shape
    above, below = np.hstack([rows, -np.ones((n, 1))]), np.hstack([-rows, -np.ones((n, 1))])
    found = linprog(
        np.r_[np.zeros(m), 1.0], A_ub=np.vstack([above, below]), b_ub=np.r_[wanted, -wanted],
        A_eq=[np.r_[np.ones(m), 0.0]], b_eq=[1.0],
    )  # fmt: skip
    return float(found.fun)
