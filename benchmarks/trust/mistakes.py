"""Mistakes planted in right gradients: slips in their code, and what is made to the right gradient as arrays."""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from cases import Case

Gradient = dict[str, Any]
Claim = Callable[..., Any]
Makes = Callable[[Gradient], Gradient]
Row = tuple[str, str, Makes]

SAME = 1e-9  # relative: a gradient this near in every entry is not changed
NEAR = 1e-7  # relative: an approximation this near in every entry is no mistake
SMALL = 1e-3  # of the largest entry: errors of an approximation in smaller ones are compared to this
ULPS = 4 * 2.0**-52  # of the largest entry: numbers nearer than this differ by rounding alone
CLEAR = 1e3  # times its rounding: an entry this large is not zero
SIZES = (("gross", 1e-2), ("1e-4", 1e-4), ("1e-6", 1e-6), ("1e-8", 0.0))
OFF = (1e-2, 1e-4, 1e-6, 1e-8)
SLIGHT = tuple(f"off by {off:.0e}" for off in OFF[1:])  # may also be called an approximation
WHOLE = (  # (kind, what it is, factor)
    ("sign",    "sign",                   -1.0),
    ("factor",  "a factor 2 too large",    2.0),
    ("factor",  "a factor 2 too small",    0.5),
    ("factor",  "degrees for radians",     np.pi / 180),
    ("factor",  "radians for degrees",     180 / np.pi),
    ("factor",  "a factor ln 10",          np.log(10.0)),
    ("factor",  "a factor 1/ln 2",         1 / np.log(2.0)),
)  # fmt: skip
STEPS = (("forward", 1e-2), ("forward", 1e-4), ("forward", 1e-6), ("central", 1e-2), ("central", 1e-3))


@dataclass(frozen=True)
class Planted:
    """A wrong gradient: what was done, how large it is, and every kind of mistake that gives the same numbers."""

    kind: str
    says: str
    size: str
    claim: Claim
    relative: float = np.inf
    kinds: frozenset[str] = frozenset()
    slip: bool = False


def planted(case: Case) -> Iterator[Planted]:
    """Yield the mistakes of a case, those that give the same numbers once; slips without effect have the size `none`."""
    right, noise = case.right(), rounding(case)
    found: list[tuple[Planted, Gradient]] = []
    for mistake in (*_slips(case), *_on_arrays(case, right, noise), *_elsewhere(case)):
        claimed = _evaluated(case, mistake)
        one = claimed and _measured(mistake, claimed, right, noise, case.resolves)
        if not claimed or one is None:
            if mistake.slip:
                yield replace(mistake, size="none")
            continue
        same = next((k for k, (_, other) in enumerate(found) if _same(claimed, other, right)), None)
        if same is None:
            found.append((one, claimed))
        else:
            first, numbers = found[same]
            found[same] = replace(first, kinds=first.kinds | one.kinds), numbers
    yield from (one for one, _ in found)


def rounding(case: Case) -> Gradient:
    """Return how far each entry of the right gradient moves when its inputs move by their rounding."""
    right, rng = case.right(), np.random.default_rng(0)
    worst = {name: np.zeros(np.shape(g)) for name, g in right.items()}
    shakes = lambda name, x, g: x * (1 + 2.0**-52 * rng.choice([-1, 1], x.shape))
    for _ in range(4):
        moved = case.by_name(_moved(case, shakes)(**case.at))
        worst = {name: np.fmax(worst[name], np.abs(moved[name] - right[name])) for name in right}
    return worst


def _evaluated(case: Case, mistake: Planted) -> Gradient | None:
    """Return the numbers of a mistake; None where it cannot be made at the point."""
    with np.errstate(all="ignore"):
        try:
            claimed = case.by_name(mistake.claim(**case.at))
        except (ArithmeticError, LookupError, NameError, TypeError, ValueError, np.linalg.LinAlgError):
            return None
    finite = all(np.all(np.isfinite(g)) for g in claimed.values())
    return claimed if finite or mistake.slip or mistake.kind == "non-finite" else None


def _measured(mistake: Planted, claimed: Gradient, right: Gradient, noise: Gradient, resolves: float) -> Planted | None:
    """Return a mistake with its size; None where it leaves the gradient unchanged."""
    made = replace(mistake, size="gross", kinds=frozenset({mistake.kind}))
    fits = set(claimed) == set(right) and all(np.shape(claimed[name]) == np.shape(g) for name, g in right.items())
    if not fits or not all(np.all(np.isfinite(g)) for g in claimed.values()):
        return made
    apart = {name: np.abs(claimed[name] - g) for name, g in right.items()}
    room = max(SAME, resolves)
    changed = sum(int(np.sum(apart[name] > room * np.abs(g) + noise[name])) for name, g in right.items())
    if not changed:
        return None
    relative = max(float(np.max(apart[name], initial=0.0)) / _largest(g) for name, g in right.items())
    made = replace(made, relative=relative)
    if mistake.slip:
        return made
    if mistake.kind == "approximation" and _is_near(apart, right, noise):
        return replace(made, size="near")
    if mistake.says.endswith(SLIGHT):
        made = replace(made, kinds=made.kinds | {"approximation"})
    alone = changed == 1 and sum(g.size for g in right.values()) > 1
    size = "one entry" if alone else next(size for size, least in SIZES if relative >= 0.99 * least)
    return replace(made, size=size)


def _largest(g: Any) -> float:
    return max(float(np.max(np.abs(g), initial=0.0)), 1e-300)


def _is_near(apart: Gradient, right: Gradient, noise: Gradient) -> bool:
    return all(
        np.all(apart[name] <= NEAR * np.maximum(np.abs(g), SMALL * _largest(g)) + noise[name])
        for name, g in right.items()
    )


def _same(a: Gradient, b: Gradient, right: Gradient) -> bool:
    """Whether two mistakes give the same numbers, but for the last digit of the largest."""
    return set(a) == set(b) == set(right) and all(
        np.shape(a[name]) == np.shape(b[name])
        and np.allclose(a[name], b[name], rtol=SAME, atol=ULPS * _largest(g), equal_nan=True)
        for name, g in right.items()
    )


def _slips(case: Case) -> Iterator[Planted]:
    for slip in case.slips:
        try:
            claim = case.slipped(slip)
        except (SyntaxError, ValueError):
            claim = case.gradient  # not in the code, or no code: without effect
        yield Planted(slip.kind, f"{slip.old!r} -> {slip.new!r}", "gross", claim, slip=True)


def _returned(gradient: Gradient) -> Any:
    parts = tuple(gradient.values())
    return parts if len(parts) > 1 else parts[0]


def _on_arrays(case: Case, right: Gradient, noise: Gradient) -> Iterator[Planted]:
    """Yield what is made of the right gradient once it is computed."""
    for kind, says, makes in (
        *_factors(case, right), *_of_each(right), *_entries(right, noise), *_exchanges(right), *_others(right)
    ):  # fmt: skip
        yield Planted(kind, says, "", _applied(case, makes))


def _applied(case: Case, makes: Makes) -> Claim:
    def claim(**at: Any) -> Any:
        return _returned(makes(case.by_name(case.gradient(**at))))

    return claim


def _factors(case: Case, right: Gradient) -> Iterator[Row]:
    """Yield factors that every entry is off by: mistakes of formulas, of counting, of constants, and slight ones."""
    found = list(WHOLE)
    for n in _counts(case, right):
        found += [("factor", f"a factor {n}", float(n)), ("factor", f"a factor 1/{n}", 1 / n)]
        found += [("factor", f"a factor 1/({n} - 1)", 1 / (n - 1))]
    found += [("factor", f"one {name} too many", x) for name, x in _scalars(case, right)]
    found += [("scaled", f"all entries off by {off:.0e}", 1 + off) for off in OFF]
    for kind, says, factor in found:
        yield kind, says, lambda right, c=factor: {name: c * g for name, g in right.items()}


def _constants(case: Case, right: Gradient) -> dict[str, Any]:
    """Return what a function uses and is not differentiated by: arguments, and globals."""
    return {name: x for name, x in case.at.items() if name not in right} | dict(inspect.getclosurevars(case.f).globals)


def _counts(case: Case, right: Gradient) -> list[int]:
    """Return the numbers of entries that a gradient may be wrongly multiplied or divided by, two at most."""
    batch = [x.shape[0] for x in _constants(case, right).values() if isinstance(x, np.ndarray) and x.ndim]
    entries = [np.shape(x)[0] for x in right.values() if np.ndim(x)] + [next(iter(right.values())).size]
    return [n for n in dict.fromkeys([*batch[:1], *entries]) if n > 2][:2]


def _scalars(case: Case, right: Gradient) -> list[tuple[str, float]]:
    """Return the scalar constants of a case, two at most."""
    known = {**_constants(case, right), **case.at}
    found = [(name, float(x)) for name, x in known.items() if isinstance(x, float | np.floating) and np.isfinite(x)]
    return [(name, x) for name, x in found if abs(x) not in (0.0, 0.5, 1.0, 2.0)][:2]


def _of_each(right: Gradient) -> Iterator[Row]:
    """Yield what is made of the gradient of one input alone."""
    for name, x in right.items():
        for kind, says, makes in _of_one(np.asarray(x)):
            yield kind, f"{says} ({name})", lambda right, name=name, makes=makes: right | {name: makes(right[name])}


def _of_one(x: Any) -> Iterator[tuple[str, str, Callable[[Any], Any]]]:
    """Yield mistakes in the gradient of one input, by its shape."""
    yield "detached", "zero", np.zeros_like
    weights = np.random.default_rng(1).dirichlet(np.ones(3), x.shape)
    yield "shape", "not summed over a leading axis", lambda g: np.moveaxis(weights * g[..., None], -1, 0)
    if x.ndim == 1 and x.size > 1:
        order = np.random.default_rng(2).permutation(x.size)
        yield "permuted", "in random order", lambda g: g[order]
        yield "permuted", "reversed", lambda g: g[::-1]
        yield "shifted", "shifted by one", lambda g: np.roll(g, 1)
        yield "broadcast", "its mean", lambda g: np.full(g.shape, np.mean(g))
    if x.ndim == 2 and min(x.shape) > 1:
        square = x.shape[0] == x.shape[1]
        yield "transposed", "transposed" if square else "in the order of columns", lambda g: g.T.reshape(g.shape)
        yield "broadcast", "means of rows", lambda g: np.broadcast_to(np.mean(g, axis=1, keepdims=True), g.shape)
        yield "detached", "a row is zero", lambda g: np.concatenate([g[:-1], 0 * g[-1:]])


def _entries(right: Gradient, noise: Gradient) -> Iterator[Row]:
    """Yield mistakes in one entry: the last that is not zero, and the smallest."""
    flat = [(name, k) for name, g in right.items() for k in range(np.size(g))]
    clear = [(name, k) for name, k in flat if abs(right[name].flat[k]) > CLEAR * noise[name].flat[k]]
    if not clear:
        return
    smallest = min(clear, key=lambda at: abs(right[at[0]].flat[at[1]]) / _largest(right[at[0]]))
    yield "sign", f"the sign of one entry, {clear[-1]}", _entry(clear[-1], -1.0)
    for which, at in (("the last", clear[-1]), ("the smallest", smallest)):
        for off in OFF:
            yield "entry", f"{which} entry {at} off by {off:.0e}", _entry(at, 1 + off)
    yield "non-finite", "one entry is nan", _entry(flat[-1], np.nan)


def _entry(at: tuple[str, int], factor: float) -> Makes:
    def made(right: Gradient) -> Gradient:
        g = np.array(right[at[0]])
        g.flat[at[1]] *= factor
        return right | {at[0]: g}

    return made


def _exchanges(right: Gradient) -> Iterator[Row]:
    """Yield the gradients of neighbours of one shape exchanged."""
    names = list(right)
    for k, a in enumerate(names):
        b = next((other for other in names[k + 1 :] if np.shape(right[other]) == np.shape(right[a])), None)
        if b is not None:
            yield "swapped", f"{a} and {b} exchanged", lambda g, a=a, b=b: g | {a: g[b], b: g[a]}


def _others(right: Gradient) -> Iterator[Row]:
    constant = 1e-3 * max(_largest(g) for g in right.values())
    yield "constant", f"{constant:.3g} added", lambda right: {name: g + constant for name, g in right.items()}
    rounded = lambda right: {name: g.astype(np.float32).astype(float) for name, g in right.items()}
    yield "approximation", "rounded to float32", rounded


def _elsewhere(case: Case) -> Iterator[Planted]:
    """Yield the right gradient of another point, and differences instead of a gradient."""
    names = list(case.right())
    stale: dict[str, Callable[[str, Any, Any], Any]] = {
        "one step of descent behind": lambda name, x, g: x - 0.01 * g,
        "at 0.9 x": lambda name, x, g: 0.9 * x,
        "at the point rounded to 2 digits": lambda name, x, g: np.vectorize(lambda v: float(f"{v:.1e}"))(x),
    }
    for says, moves in stale.items():
        yield Planted("stale", says, "", _moved(case, moves))
    for side, h in STEPS:
        yield Planted("approximation", f"{side} differences, h = {h:.0e}", "", _differences(case, names, side, h))


def _moved(case: Case, moves: Callable[[str, Any, Any], Any]) -> Claim:
    def claim(**at: Any) -> Any:
        right = case.by_name(case.gradient(**at))
        moved = {name: np.asarray(moves(name, np.asarray(at[name], dtype=float), g))[()] for name, g in right.items()}
        return _returned(case.by_name(case.gradient(**{**at, **moved})))

    return claim


def _differences(case: Case, names: list[str], side: str, h: float) -> Claim:
    """Return a claim made of differences of f with a fixed step."""

    def claim(**at: Any) -> Any:
        found = {}
        for name in names:
            x = np.asarray(at[name], dtype=float)
            g = np.zeros(x.shape)
            for k in range(x.size):
                step = h * np.eye(1, x.size, k).reshape(x.shape)
                back = step if side == "central" else 0.0
                above, below = (case.f(**{**at, name: moved[()]}) for moved in (x + step, np.asarray(x - back)))
                g.flat[k] = (above - below) / (2 * h if side == "central" else h)
            found[name] = g
        return _returned(found)

    return claim
