"""Strategies for hypothesis: points at which gradients are checked, hard ones among them."""

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
from hypothesis import strategies as st

from gradcli.derivation.sized_problem import parse_shapes
from gradcli.repair.stress import Around, hard_points
from gradcli.request.point import Stepping
from gradcli.targets.facts import draw_with_facts, length_of, parse_facts, size_names

_SCALES = (1.0, 0.1, 10.0, 1e-3, 100.0)


@st.composite
def points(
    draw: st.DrawFn,
    shapes: str,
    *,
    assume: str = "",
    bounds: Mapping[str, tuple[float, float]] | None = None,
    largest: int = 6,
    hard: bool = True,
) -> dict[str, Any]:
    """Return a strategy of points: a dict of arrays by input, for `assert_gradient(f, at, grad=g)`.

    `shapes` names the inputs and their sizes as `--shapes` does, such as "W: m n; x: n; lam:"; a named size is drawn up to
    `largest`. `assume` says what inputs are, such as "y: simplex; S: spd", and `bounds` gives their edges. With `hard`,
    points built to break gradients are among them: signs, zeros, ties, magnitudes, tails. Shrinking leads to small sizes, and
    to plain normal numbers.

    Raises  BadOption for shapes and assumptions that cannot be read.
    """
    dims = parse_shapes(shapes.split(";"))
    facts = parse_facts([assume] if assume else [], dims)
    names = sorted(size_names(dims.values()))
    sizes = {name: draw(st.integers(1, largest), label=name) for name in names}
    seed = draw(st.integers(0, 2**32 - 1), label="seed")
    scale = draw(st.sampled_from(_SCALES), label="scale")
    rng = np.random.default_rng(seed)
    stepping = Stepping(edges=dict(bounds or {}))
    values = {}
    for name, words in dims.items():
        shape = tuple(length_of(w, sizes) for w in words)
        x = draw_with_facts(facts.get(name, frozenset()), shape, rng)
        values[name] = stepping.moved_inside(name, x if name in facts else scale * x)
    number = draw(st.integers(0, 200), label="hard point") if hard else 0
    if not number:
        return values
    around = Around(values, tuple(values), stepping, seed=seed, sizes={}, facts=facts)
    return next(itertools.islice(hard_points(around), number - 1, None), values)
