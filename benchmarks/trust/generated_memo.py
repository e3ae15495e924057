"""Functions that remember: caches keyed on values, bytes, identities, rounded values, shapes, or filled for good.

The right gradient is that of the function as a fresh process computes it, by mpmath; the wrong claim leaves out what
flows through the cache. Some caches change nothing. Where the cache was filled before the check and never changes, no
check can see it: those claims are open.
"""

import functools
import json
from collections.abc import Callable
from typing import Any

import numpy as np
from generated import Claim, Generated, Target, mp, pick

COUNT = 60
NAMES = frozenset(
    {
        "depends-on-earlier-calls",
        "not-deterministic",
        "trace",
        "detached",
        "left-out",
        "overwritten",
        "untraced",
        "term",
    }
)  # findings and diagnoses that name the reason
WEIGHTS = (1.0, 1e-3, 1e-6)
Part = Callable[[Any], Any]


def _memo(key: Callable[[Any], Any], warm: bool = False) -> Callable[[Part, Any], Part]:
    """Return a maker of caches in a dict, by a key; warm ones are filled at the point."""

    def made(part: Part, x: Any) -> Part:
        kept: dict[Any, Any] = {}

        def cached(x: Any) -> Any:
            k = key(x)
            if k not in kept:
                kept[k] = part(x)
            return kept[k]

        if warm:
            cached(x)
        return cached

    return made


def _last(same: Callable[[Any, Any], Any]) -> Callable[[Part, Any], Part]:
    """Return a maker of caches of the last value."""

    def made(part: Part, x: Any) -> Part:
        last: list[Any] = []

        def cached(x: Any) -> Any:
            if not last or not same(last[0], x):
                last[:] = [np.array(x) if np.ndim(x) else x, part(x)]
            return last[1]

        return cached

    return made


def _lru(key: Callable[[Any], Any], back: Callable[[Any], Any]) -> Callable[[Part, Any], Part]:
    def made(part: Part, x: Any) -> Part:
        kept = functools.lru_cache(maxsize=None)(lambda k: part(back(k)))
        return lambda x: kept(key(x))

    return made


def _attribute(part: Part, x: Any) -> Part:
    """Return a cache on an object, renewed when x changes."""

    class Model:
        _x: Any = None
        _part: Any = None

        def __call__(self, x: Any) -> Any:
            if self._x is None or not np.array_equal(self._x, x):
                self._x, self._part = x, part(x)
            return self._part

    return Model()


def _attribute_for_good(part: Part, x: Any) -> Part:
    class Model:
        def __call__(self, x: Any) -> Any:
            if not hasattr(self, "_part"):
                self._part = part(x)
            return self._part

    return Model()


def _global(part: Part, x: Any) -> Part:
    """Return a cache in a global of a module."""
    source = (
        "LAST = None\nVALUE = None\n"
        "def f(x):\n    global LAST, VALUE\n"
        "    if LAST is None or not np.array_equal(LAST, x):\n        LAST, VALUE = x, part(x)\n"
        "    return VALUE\n"
    )
    names: dict[str, Any] = {"np": np, "part": part}
    exec(source, names)
    return names["f"]  # type: ignore[no-any-return]


def _by_plain_number(part: Part, x: Any) -> Part:
    """Return no cache, but a copy that a derivative does not flow through."""
    return lambda x: part(np.array(np.asarray(x, dtype=float).tolist()))


def _counting(part: Part, x: Any) -> Part:
    """Return the part itself, with a count of its calls."""
    calls = [0]

    def counted(x: Any) -> Any:
        calls[0] += 1
        return part(x)

    return counted


def _buffered(part: Part, x: Any) -> Part:
    """Return the part with a buffer that lives from call to call and is written anew in each."""
    buffer = np.empty(np.shape(x))

    def through(x: Any) -> Any:
        np.multiply(x, 1.0, out=buffer)
        return part(buffer)

    return through


def _by_constants(part: Part, x: Any) -> Part:
    """Return the part beside a cache, by shape, of what does not depend on x."""
    kept: dict[Any, Any] = {}

    def cached(x: Any) -> Any:
        return part(x) * kept.setdefault(np.shape(x), 1.0)

    return cached


tolist = lambda x: np.asarray(x, dtype=float).tolist()
tobytes = lambda x: np.asarray(x, dtype=float).tobytes()
TOUCHED = "stale nearby"  # the cache answers with an older value for points that are near
FAMILIES: tuple[tuple[str, str, Callable[[Part, Any], Part]], ...] = (
    ("by value",     "dict by x.tobytes()",       _memo(tobytes)),
    ("by value",     "dict by tuple",             _memo(lambda x: tuple(np.ravel(tolist(x)).tolist()))),
    ("by value",     "dict by json",              _memo(lambda x: json.dumps(tolist(x)))),
    ("by value",     "dict by hash of bytes",     _memo(lambda x: hash(tobytes(x)))),
    ("by value",     "dict by float of the sum",  _memo(lambda x: float(np.sum(x) + 1e-3 * np.sum(x * x)))),
    ("by value",     "lru_cache",                 _lru(tobytes, lambda k: np.frombuffer(k))),
    ("by value",     "array_equal with the last", _last(np.array_equal)),
    ("by value",     "all(==) with the last",     _last(lambda a, b: bool(np.all(a == b)))),
    ("by value",     "attribute self._x",         _attribute),
    ("by value",     "module global",             _global),
    ("by value",     "warm dict by x.tobytes()",  _memo(tobytes, warm=True)),
    ("by value",     "plain copy",                _by_plain_number),
    (TOUCHED,        "dict by round(x, 6)",       _memo(lambda x: np.round(np.asarray(x, dtype=float), 6).tobytes())),
    (TOUCHED,        "dict by round(x, 3)",       _memo(lambda x: np.round(np.asarray(x, dtype=float), 3).tobytes())),
    (TOUCHED,        "dict by repr",              _memo(lambda x: str(np.asarray(x, dtype=float)))),
    (TOUCHED,        "allclose with the last",    _last(np.allclose)),
    ("for good",     "dict by shape",             _memo(np.shape)),
    ("for good",     "attribute, filled once",    _attribute_for_good),
    ("for good",     "dict by type",              _memo(lambda x: np.asarray(x, dtype=float).dtype.char)),
    ("by identity",  "dict by id(x)",             _memo(id)),
    ("filled before", "warm dict by shape",       _memo(np.shape, warm=True)),
    ("harmless",     "counts its calls",          _counting),
    ("harmless",     "buffer",                    _buffered),
    ("harmless",     "cached constants",          _by_constants),
)  # fmt: skip


# After its first call such a function has no slope in that term; or the addresses of freed memory decide whether it has one.
_UNDECIDED = ("filled before", "for good", "by identity", TOUCHED)


def generated(number: int, seed: int) -> Generated:
    """Return one case: sum(sin(x)) and a cached part, added or multiplied, on a number or a vector."""
    rng = np.random.default_rng([seed, 2, number])
    family, name, maker = FAMILIES[number % len(FAMILIES)]
    weight, product = pick(rng, WEIGHTS), bool(rng.integers(2))
    x: Any = np.round(rng.uniform(0.2, 1.5, int(rng.integers(2, 4))), 3)
    part: Part = lambda x: weight * np.sum(np.exp(0.5 * x))

    def make() -> Target:
        cached = maker(part, x)

        def f(x: Any) -> Any:
            main = np.sum(np.sin(x))
            return main * (1 + cached(x)) if product else main + cached(x)

        return f

    right, without = _gradients(x, weight, product)
    error = float(np.max(np.abs(right - without) / np.abs(right)))
    truths = ("open", "open") if family in _UNDECIDED else ("right", "wrong")
    claims = (
        Claim(truths[0], "the gradient", {"x": right}, 0.0),
        Claim(truths[1], "without what is cached", {"x": without}, error),
        Claim("wrong", "twice the gradient", {"x": 2 * right}, 1.0),
    )
    title = f"{name}, weight {weight:g}, {'times' if product else 'plus'}, at {x}"
    return Generated(family, title, make, {"x": x}, claims)


def _gradients(x: Any, weight: float, product: bool) -> tuple[Any, Any]:
    """Return the gradient, and the gradient with the cached part taken for a constant."""
    v = [mp.mpf(float(t)) for t in x]
    main, cached = mp.fsum(map(mp.sin, v)), weight * mp.fsum(mp.exp(t / 2) for t in v)
    slopes, slope = [mp.cos(t) for t in v], [weight * mp.exp(t / 2) / 2 for t in v]
    if product:
        without = [s * (1 + cached) for s in slopes]
        right = [w + main * c for w, c in zip(without, slope, strict=True)]
    else:
        without, right = slopes, [s + c for s, c in zip(slopes, slope, strict=True)]
    return np.array(right, dtype=float), np.array(without, dtype=float)
