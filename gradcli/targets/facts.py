"""Assumptions about inputs: symmetric matrices, probabilities, signs; which shapes can have them, and values that do."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from gradcli.classes import dataclass
from gradcli.errors import BadOption, Place, Span
from gradcli.tracing.primitive import Value
from gradcli.tracing.shapes import shape
from gradcli.words import Kind, Severity, TargetKind

Dims = tuple[str, ...]  # of one input, a size each axis: a name, a number, or a sum such as m + k - 1
SIZE = re.compile(r"\w+(?: [+-] \w+)*")
_TERM = re.compile(r"([+-]?)\s*(\w+)")


def terms_of_size(size: str) -> list[tuple[str, str]]:
    """Return the terms of a size, such as m + k - 1, each with its sign: +, - or, of the first one, none."""
    return _TERM.findall(size)


def length_of(size: str, sizes: Mapping[str, int]) -> int:
    """Return a size, such as 3, m or m + k - 1, as a number."""
    terms = terms_of_size(size)
    return sum((-1 if sign == "-" else 1) * (int(w) if w.isdecimal() else sizes[w]) for sign, w in terms)


def size_names(dims: Iterable[Dims]) -> tuple[str, ...]:
    """Return the names of sizes, in the order in which they occur."""
    words = (w for own in dims for size in own for _, w in terms_of_size(size))
    return tuple(dict.fromkeys(w for w in words if not w.isdecimal()))


_PART = re.compile(r"\s*(\w+)\s*:\s*(.+)")
_OFF = 1e-8  # relative to the largest entry, or to 1: how far off a set a value may be that was written in decimals


@dataclass(frozen=True, slots=True)
class Surface:
    """The set of the values for which a fact holds, if it is smooth: what a check needs to stay on it.

    `bring(x)` returns the value on the set for an x beside it, and x itself for one on the set. `pull(x, g)` returns, for an
    x on the set, the gradient of a function of bring(x) whose own gradient is g: it has no part across the set. `hides` says
    what it lacks of g.
    """

    name: str
    bring: Callable[[Any], Any]
    pull: Callable[[Any, Any], Any]
    hides: str


@dataclass(frozen=True, slots=True)
class Fact:
    """An assumption: whether inputs of given sizes can have it, what it needs in words, how to make it hold, and a test.

    `holds(x)` tests a value; a value on a `surface` must be where it is brought to, too. Without a surface the values are
    single ones, such as 0 and 1, by which nothing is differentiated, unless the fact is `open`.
    """

    fits: Callable[[Dims], bool]
    needs: str
    make: Callable[[Any, Any], Any]
    holds: Callable[[Any], bool] = lambda x: True
    surface: Surface | None = None
    open: bool = False


def _make_simplex(x: Any, rng: Any) -> Any:
    return np.abs(x) / np.sum(np.abs(x), axis=-1, keepdims=True)


def _make_onehot(x: Any, rng: Any) -> Any:
    return np.eye(np.shape(x)[-1])[rng.integers(np.shape(x)[-1], size=np.shape(x)[:-1])]


def _symmetric_part(x: Any) -> Any:
    return (x + np.transpose(x)) / 2


def _keep_entries(where: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a function that keeps the entries of a square matrix that `where` keeps of a matrix of ones."""
    return lambda x: x * where(np.ones(shape(x)))


def _polar_factor(x: Any) -> Any:
    """Return the orthogonal factor of a matrix that is nearly orthogonal, by the iteration of Newton and Schulz."""
    for _ in range(_POLAR):
        x = x @ (3 * np.eye(shape(x)[0]) - np.transpose(x) @ x) / 2
    return x


def _is_one_hot(x: Any) -> bool:
    return set(np.ravel(x)) <= {0.0, 1.0} and bool(np.all(np.sum(x, axis=-1) == 1))


def _linear_surface(name: str, bring: Callable[[Any], Any], hides: str) -> Surface:
    """Return the surface of an orthogonal projection, which is its own adjoint."""
    return Surface(name, bring, lambda x, g: bring(g), hides)


_Fits = tuple[Callable[[Dims], bool], str]
_POLAR = 10  # iterations: from singular values of 0.1 to 1.7 to 1
_VECTOR: _Fits = (lambda dims: len(dims) == 1, "a vector")
_ROWS: _Fits = (lambda dims: len(dims) == 2, "a matrix")
_MATRIX: _Fits = (lambda dims: len(dims) == 2 and dims[0] == dims[1], "a square matrix")
_ANY: _Fits = (lambda dims: True, "")
SYMMETRIC = _linear_surface("symmetric matrices", _symmetric_part, "its skew-symmetric part")
_SPD = _linear_surface("symmetric positive definite matrices", _symmetric_part, "its skew-symmetric part")
_SKEW = _linear_surface("skew-symmetric matrices", lambda x: (x - np.transpose(x)) / 2, "its symmetric part")
_DIAGONAL = _linear_surface(
    "diagonal matrices", _keep_entries(lambda one: np.diag(np.diag(one))), "its entries off the diagonal"
)
_LOWER = _linear_surface("lower triangular matrices", _keep_entries(np.tril), "its entries above the diagonal")
_UPPER = _linear_surface("upper triangular matrices", _keep_entries(np.triu), "its entries below the diagonal")
_ORTHOGONAL = Surface(
    "orthogonal matrices", _polar_factor, lambda x, g: (g - x @ np.transpose(g) @ x) / 2, "its part normal to them"
)
_UNIT = Surface(
    "unit vectors", lambda x: x / np.sqrt(np.sum(x * x)),
    lambda x, g: g - x * np.sum(x * g), "its part along the vector",
)  # fmt: skip
_SIMPLEX = Surface(
    "the simplex", lambda x: x / np.sum(x, axis=-1, keepdims=True),
    lambda x, g: g - np.sum(x * g, axis=-1, keepdims=True), "a number added to all its entries",
)  # fmt: skip
_SIMPLICES = Surface("rows on the simplex", _SIMPLEX.bring, _SIMPLEX.pull, "a number added to all entries of a row")
FACTS: dict[str, Fact] = {
    "symmetric":    Fact(*_MATRIX, lambda x, rng: (x + x.T) / 2, surface=SYMMETRIC),
    "spd":          Fact(*_MATRIX, lambda x, rng: x @ x.T / len(x) + np.eye(len(x)),
                         lambda x: bool(np.all(np.linalg.eigvalsh(x) > 0)), _SPD),
    "tied":         Fact(*_MATRIX, lambda x, rng: (x + x.T) / 2, surface=SYMMETRIC),
    "skew":         Fact(*_MATRIX, lambda x, rng: (x - x.T) / 2, surface=_SKEW),
    "diagonal":     Fact(*_MATRIX, lambda x, rng: np.diag(np.diag(x)), surface=_DIAGONAL),
    "lower":        Fact(*_MATRIX, lambda x, rng: np.tril(x), surface=_LOWER),
    "upper":        Fact(*_MATRIX, lambda x, rng: np.triu(x), surface=_UPPER),
    "orthogonal":   Fact(*_MATRIX, lambda x, rng: np.linalg.qr(x)[0], surface=_ORTHOGONAL),
    "unit":         Fact(*_VECTOR, lambda x, rng: x / np.linalg.norm(x), surface=_UNIT),
    "simplex":      Fact(*_VECTOR, _make_simplex, lambda x: bool(np.all(x >= 0)), _SIMPLEX),
    "onehot":       Fact(*_VECTOR, _make_onehot, _is_one_hot),
    "simplex rows": Fact(*_ROWS,   _make_simplex, lambda x: bool(np.all(x >= 0)), _SIMPLICES),
    "onehot rows":  Fact(*_ROWS,   _make_onehot, _is_one_hot),
    "signs":        Fact(*_ANY,    lambda x, rng: np.where(x < 0, -1.0, 1.0), lambda x: bool(np.all(np.abs(x) == 1))),
    "mask":         Fact(*_ANY,    lambda x, rng: np.where(x < 0, 0.0, 1.0), lambda x: set(np.ravel(x)) <= {0.0, 1.0}),
    "positive":     Fact(*_ANY,    lambda x, rng: np.abs(x) + 0.3, lambda x: bool(np.all(x > 0)), open=True),
    "index":        Fact(*_ANY,    lambda x, rng: np.floor(np.abs(3 * x)) % 3,
                         lambda x: bool(np.all((x >= 0) & (x == np.floor(x))))),
}  # fmt: skip


def first_broken_fact(words: frozenset[str], x: Any) -> str | None:
    """Return the first assumption that does not hold for a value, or None; a value may be 1e-8 of its size off a surface."""
    x = np.asarray(x, dtype=np.float64)
    with np.errstate(all="ignore"):
        for word in FACTS:
            if word not in words:
                continue
            surface = FACTS[word].surface
            if surface is not None:
                off = float(np.max(np.abs(surface.bring(x) - x), initial=0.0))
                if not off <= _OFF * max(1.0, float(np.max(np.abs(x), initial=0.0))):
                    return word
            if not FACTS[word].holds(x):
                return word
    return None


def surface_of(words: frozenset[str]) -> Surface | None:
    """Return the surface of the values for which assumptions hold; None if they leave the value free, or fix it.

    Raises  BadOption for assumptions with two surfaces.
    """
    surfaces = [s for word in FACTS if word in words and (s := FACTS[word].surface) is not None]
    if len({s.bring for s in surfaces}) > 1:
        raise BadOption(f"no check stays on two sets at once: {', '.join(sorted(words))}", do="assume one of them")
    return surfaces[0] if surfaces else None


def is_fixed(words: frozenset[str]) -> bool:
    """Whether assumptions leave single values, such as 0 and 1, by which nothing is differentiated."""
    return any(FACTS[word].surface is None and not FACTS[word].open for word in words)


def dims_of_values(values: Mapping[str, Any]) -> dict[str, Dims]:
    """Return the lengths of each input's axes as texts, as assumptions read them."""
    return {name: tuple(map(str, np.shape(x))) for name, x in values.items() if isinstance(x, np.ndarray | np.floating)}


def parse_facts(texts: list[str], dims: Mapping[str, Dims]) -> dict[str, frozenset[str]]:
    """Return the assumptions about each input, read from strings such as `S: spd, tied; y: simplex`.

    Raises  BadOption for an unknown assumption or input, or an assumption that cannot hold.
    """
    found: dict[str, frozenset[str]] = {}
    for part in (p for text in texts for p in text.split(";") if p.strip()):
        match = _PART.fullmatch(part)
        if match is None:
            raise BadOption(f"the assumption '{part.strip()}' cannot be read", do='write --assume "S: spd; y: simplex"')
        name, words = match[1], match[2]
        if name not in dims:
            raise BadOption(f"--assume names '{name}', which is not an input", do=f"inputs: {', '.join(dims)}")
        rest = words.strip().lower()
        found.setdefault(name, frozenset())
        while rest:
            word = next((w for w in sorted(FACTS, key=len, reverse=True) if re.match(rf"{w}\b", rest)), None)
            if word is None:
                raise BadOption(f"'{rest.split()[0]}' is no assumption", do=f"known: {', '.join(FACTS)}")
            if not FACTS[word].fits(dims[name]):
                own = " x ".join(dims[name]) or "a number"
                raise BadOption(f"{name} is {own} and cannot be {word}", do=f"{word} is for {FACTS[word].needs}")
            found[name] |= {word}
            rest = rest[len(word) :].lstrip(" ,")
    return found


def draw_with_facts(facts: frozenset[str], shape: tuple[int, ...], rng: Any) -> Any:
    """Return a random value for which the facts hold."""
    return impose_facts(facts, rng.standard_normal(shape) if shape else np.float64(rng.standard_normal()), rng)


def impose_facts(facts: frozenset[str], x: Any, rng: Any) -> Any:
    """Return the value nearest at hand for which the facts hold."""
    for word in FACTS:
        if word in facts:
            x = FACTS[word].make(x, rng)
    return np.asarray(x, dtype=np.float64)[()]


# The protocol of the functions that are differentiated: functions of named inputs, wherever they come from.


@dataclass(frozen=True, slots=True)
class Notice:
    """A remark about a function that runs; `severity` says whether a verdict is still possible."""

    kind: Kind
    severity: Severity
    message: str
    at: Span | Place | None = None
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class OutputPart:
    """One part of a tuple or dict of outputs; the parts are concatenated into one vector."""

    name: str
    shape: tuple[int, ...]


class Function(Protocol):
    """A function of named inputs: on numpy values the user's function runs unchanged; on tracers it is traced."""

    @property
    def text(self) -> str:
        """What the user wrote."""

    @property
    def kind(self) -> TargetKind:
        """`expression` or `python`."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the inputs, in order."""

    @property
    def outputs(self) -> tuple[OutputPart, ...]:
        """The parts of the result, where it is a tuple or a dict of outputs."""

    def __call__(self, values: Mapping[str, Value]) -> Value:
        """Return the value at named inputs."""

    def survey(self, values: Mapping[str, Value]) -> tuple[Value, list[Notice]]:
        """Return the value on plain inputs and the notices about it; an expression's sizes are checked before allocation."""


def restrict_to_inputs(f: Function, at: Mapping[str, Value], names: Sequence[str]) -> Callable[..., Value]:
    """Return `f` as a function of the inputs `names` alone, the others fixed at their values in `at`."""
    fixed = dict(at)

    def g(*xs: Value) -> Value:
        return f(fixed | dict(zip(names, xs, strict=True)))

    return g
