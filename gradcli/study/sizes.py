"""Counts at any sizes, exactly: programs recorded at small sizes, carried to others line by line, and polynomials.

A program holds nothing but shapes, so it can be made for sizes that no memory could hold. The lengths in its lines are
polynomials of the sizes, which are determined by recording it at a few small sizes, and confirmed at two more and at larger
ones as far as these are quick. A size that changes how many lines there are, such as a number of layers, keeps its value.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, Self

import numpy as np

from gradcli.classes import dataclass
from gradcli.errors import GradcliError, NotSupported

Sizes = Mapping[str, int]
_SPACINGS = (12, 60, 64)  # between recorded sizes, so that size // 2, size // 3, size // 4, ... are polynomials, too
_POINTS = 4  # along each size: enough for a polynomial of degree 2, and one more to confirm it
_DEGREE = 4  # the highest degree of a count in one size
_LEAST = 3  # the smallest size that is recorded to carry a program: at 1, axes vanish and views appear
_WORK = 2 * 10**7  # operations of a program that is recorded to confirm what is carried
_HELD = 64  # a size of at most this may keep its value, such as a number of heads by which a width is divided
_RECORDED = 96  # a program is recorded as it is where all sizes are at most this
_RUN = 2_000  # and at most this where it cannot be carried; the limits of any check hold there


class NotPolynomial(Exception):
    """What was counted at small sizes follows no polynomial of a degree low enough to be confirmed."""


@dataclass(frozen=True)
class SizePolynomial:
    """A polynomial in named sizes: the coefficient of each product of powers, by the powers in the order of the names."""

    names: tuple[str, ...]
    terms: Mapping[tuple[int, ...], Fraction]

    @classmethod
    def read(cls, text: str, names: Sequence[str]) -> Self:
        """Return the polynomial that is written in a text as `str` writes it: `12 L n d^2 + 2 L n^2 d`."""
        terms: dict[tuple[int, ...], Fraction] = {}
        for term in text.replace("- ", "+ -").split(" + "):
            powers, factor = dict.fromkeys(names, 0), Fraction(1)
            for word in term.split():
                sign, word = (-1, word[1:]) if word.startswith("-") else (1, word)
                base, _, power = word.partition("^")
                factor *= sign
                if base in powers:
                    powers[base] += int(power or 1)
                else:
                    factor *= Fraction(base)
            key = tuple(powers.values())
            terms[key] = terms.get(key, Fraction(0)) + factor
        return cls(tuple(names), terms)

    def at(self, sizes: Sizes) -> int:
        """Return the value at some sizes, exactly; a half is rounded up, as that of a number of bytes."""
        total = Fraction(0)
        for powers, factor in self.terms.items():
            total += factor * math.prod(sizes[name] ** power for name, power in zip(self.names, powers, strict=True))
        return math.ceil(total)

    def __str__(self) -> str:
        order = sorted(self.terms, key=lambda powers: (-sum(powers), [-p for p in powers]))
        words: list[str] = []
        for factor, powers in ((self.terms[powers], powers) for powers in order if self.terms[powers]):
            product = [n if p == 1 else f"{n}^{p}" for n, p in zip(self.names, powers, strict=True) if p]
            text = " ".join(product if product and abs(factor) == 1 else [str(abs(factor)), *product])
            sign = "-" if factor < 0 else "+" if words else ""
            words.append(f"{sign} {text}" if words else sign + text)
        return " ".join(words) or "0"


def _divided_differences(xs: Sequence[int], ys: Sequence[int | Fraction]) -> list[Fraction]:
    """Return the divided differences of the polynomial of least degree through all points, without zeros at the end."""
    found, column = [Fraction(ys[0])], [Fraction(y) for y in ys]
    for order in range(1, len(xs)):
        column = [(b - a) / (xs[k + order] - xs[k]) for k, (a, b) in enumerate(itertools.pairwise(column))]
        found.append(column[0])
    while found and not found[-1]:
        found.pop()
    return found


def polynomial_at(xs: Sequence[int], ys: Sequence[int], n: int) -> Fraction:
    """Return the value at n of the polynomial of least degree through all points.

    Raises  NotPolynomial if no point is left to confirm it.
    Source  Newton's divided differences.
    """
    if all(y == ys[0] for y in ys):
        return Fraction(ys[0])
    found = _divided_differences(xs, ys)
    if len(found) == len(xs):
        raise NotPolynomial
    value = Fraction(0)
    for x, c in reversed(list(zip(xs, found, strict=False))):
        value = value * (n - x) + c
    return value


def _coefficients(xs: Sequence[int], ys: Sequence[Fraction]) -> list[Fraction]:
    """Return the coefficients of 1, n, n^2, ... of the polynomial through all points."""
    total = [Fraction(0)] * len(xs)
    for x, c in reversed(list(itertools.zip_longest(xs, _divided_differences(xs, ys), fillvalue=Fraction(0)))):
        shifted = [Fraction(0), *total[:-1]]
        total = [a - x * b for a, b in zip(shifted, total, strict=True)]
        total[0] += c
    return total


class Programs:
    """The programs of a function at any sizes: recorded where sizes are small, else carried there line by line.

    `record` returns the program at some sizes as nested tuples of integers and of what does not depend on sizes, `length`
    how many lines it has, and `work` about how many operations it takes.
    """

    def __init__(
        self, record: Callable[[Sizes], Any], names: Sequence[str], length: Callable[[Any], int], work: Callable[[Any], int]
    ) -> None:  # fmt: skip
        self.record = record
        self.names = tuple(names)
        self.length = length
        self.work = work
        self.largest: dict[str, int] = {}  # the largest value of each size at which the program was recorded
        self._known: dict[tuple[int, ...], Any] = {}
        self._fixed: frozenset[str] | None = None

    def at(self, sizes: Sizes) -> Any:
        """Return the program at some sizes.

        Raises  NotPolynomial where its lengths follow no polynomial; NotSupported at once; what else `record` raises at all
                small sizes.
        """
        if all(n <= _RECORDED for n in sizes.values()):
            return self._record_at(sizes)
        try:
            return self._first_found(sizes, lambda tried: self._carry_program(sizes, tried))
        except NotSupported:
            raise
        except (NotPolynomial, GradcliError, ValueError):
            if all(n <= _RUN for n in sizes.values()):
                return self._record_at(sizes)
            raise

    def _first_found(self, sizes: Sizes, find: Callable[[Mapping[str, Sequence[int]]], Any]) -> Any:
        """Return what is found with the first small sizes with which anything is; raise the last error where nothing is."""
        last: Exception = NotPolynomial()
        for tried in self._sizes_to_try(sizes):
            try:
                return find(tried)
            except NotSupported:  # other sizes change nothing, and may take long
                raise
            except (NotPolynomial, GradcliError, ValueError) as error:
                last = error
        raise last

    def _record_at(self, sizes: Sizes) -> Any:
        key = tuple(sizes[name] for name in self.names)
        if key not in self._known:
            self._known[key] = self.record(dict(sizes))
            self.largest = {name: max(n, self.largest.get(name, 0)) for name, n in sizes.items()}
        return self._known[key]

    @property
    def recorded_first(self) -> Sizes:
        """The sizes at which the program was recorded first."""
        return dict(zip(self.names, next(iter(self._known)), strict=True))

    def recorded_like(self, made: Any) -> Sizes:
        """The sizes at which a program with as many lines was recorded."""
        found = next(at for at, program in self._known.items() if self.length(program) == self.length(made))
        return dict(zip(self.names, found, strict=True))

    def recorded_at(self, sizes: Sizes) -> bool:
        """Whether the program was recorded at some sizes, and not carried there."""
        return tuple(sizes[name] for name in self.names) in self._known

    def _carry_program(self, sizes: Sizes, tried: Mapping[str, Sequence[int]]) -> Any:
        fixed = self._sizes_that_change_lines(sizes, tried)
        base = {name: n if name in fixed else tried[name][0] for name, n in sizes.items()}
        free = [name for name in self.names if name not in fixed and sizes[name] != base[name]]
        along = [{**base, name: x} for name in free for x in tried[name][1:]]
        further = [{**base, **{name: tried[name][ks[i % 2]] for i, name in enumerate(free)}} for ks in ((2, 1), (1, 3))]
        points = [base, *along, *further]
        found = [self._record_at(point) for point in points]
        made = _carry_structure(found, points, free, sizes)
        for name in free:
            self._confirm_carried(found, points, free, {**base, name: sizes[name]}, name, tried[name])
        return made

    def _confirm_carried(
        self, found: Sequence[Any], points: Sequence[Sizes], free: Sequence[str], at: Sizes, name: str, tried: Sequence[int]
    ) -> None:  # fmt: skip
        """Compare what is carried with what is recorded where one size is as large as is quick to run.

        Raises  NotPolynomial where they differ, as where a length ends at a limit.
        """
        first, spacing = tried[0], tried[1] - tried[0]
        while at[name] > tried[-1]:
            expected = _carry_structure(found, points, free, at)
            if self.work(expected) <= _WORK:
                if self._record_at(at) != expected:
                    raise NotPolynomial
                return
            at = {**at, name: first + (at[name] - first) // (2 * spacing) * spacing}

    def _sizes_to_try(self, sizes: Sizes) -> Iterator[Mapping[str, Sequence[int]]]:
        """Yield small sizes to record at, by name: the smallest, then one size further apart, then all.

        A size that is divided, as a width by a number of heads, has to be as far apart as what it is divided by.
        """
        small = {name: [_LEAST + k + i for i in range(_POINTS)] for k, name in enumerate(self.names)}
        yield small
        kept = {name: [n] * _POINTS for name, n in sizes.items() if n <= _HELD}
        for spacing in _SPACINGS:
            wide = {name: [n % spacing + spacing * k for k in range(2, 2 + _POINTS)] for name, n in sizes.items()}
            yield from ({**small, name: wide[name]} for name in self.names)
            yield from ({**small, **kept, name: wide[name]} for name in self.names if kept and name not in kept)
            if math.prod(xs[1] for xs in wide.values()) <= _WORK:
                yield wide

    def _sizes_that_change_lines(self, sizes: Sizes, tried: Mapping[str, Sequence[int]]) -> frozenset[str]:
        """Return the sizes that change how many lines the program has, such as a number of layers."""
        if self._fixed is None:
            base = {name: xs[0] for name, xs in tried.items()}
            found: set[str] = set()
            for name in self.names:
                start = {**base, **dict.fromkeys(found, 1)}
                first, second = (self._record_at({**start, name: n}) for n in tried[name][:2])
                if self.length(first) != self.length(second):
                    found.add(name)
            self._fixed = frozenset(found)
        return self._fixed

    def polynomials(self, count: Callable[[Sizes], Sequence[int]], sizes: Sizes) -> list[SizePolynomial]:
        """Return the polynomials of what `count` counts at small sizes.

        Raises  NotPolynomial where they follow none; what `record` and `count` raise.
        """
        known: dict[tuple[int, ...], Sequence[int]] = {}

        def counted(at: Sizes) -> Sequence[int]:
            key = tuple(at[name] for name in self.names)
            if key not in known:
                known[key] = count(at)
            return known[key]

        def fit(tried: Mapping[str, Sequence[int]]) -> list[SizePolynomial]:
            fixed = self._sizes_that_change_lines(sizes, tried)
            begin = {name: 1 if name in fixed else xs[0] for name, xs in tried.items()}
            steps = {name: 1 if name in fixed else xs[1] - xs[0] for name, xs in tried.items()}
            return _fit_polynomials(counted, self.names, begin, steps)

        found: list[SizePolynomial] = self._first_found(sizes, fit)
        return found


def _carry_structure(found: Sequence[Any], points: Sequence[Sizes], free: Sequence[str], sizes: Sizes) -> Any:
    """Return the structure at some sizes; its integers follow polynomials, and all other parts are equal at all points.

    Shapes  `found` holds one structure a point: at the first, at three more along each size, and at two to confirm.
    Raises  NotPolynomial if an integer follows none, or if other parts differ.
    """
    known: dict[tuple[int, ...], int] = {}

    def value(same: Sequence[Any]) -> Any:
        first = same[0]
        if type(first) is int and all(type(x) is int for x in same):
            key = tuple(same)
            if key not in known:
                known[key] = _carry_integer(key, points, free, sizes)
            return known[key]
        if isinstance(first, tuple) and all(type(x) is type(first) and len(x) == len(first) for x in same):
            parts = [value(part) for part in zip(*same, strict=True)]
            return first._make(parts) if hasattr(first, "_make") else tuple(parts)
        if any(x is not first and x != first for x in same[1:]):
            raise NotPolynomial
        return first

    return value(found)


def _carry_integer(ys: Sequence[int], points: Sequence[Sizes], free: Sequence[str], sizes: Sizes) -> int:
    """Return an integer at some sizes: a product of polynomials of one size each, or a sum of them.

    Raises  NotPolynomial if it is neither at the points that confirm it.
    """
    if all(y == ys[0] for y in ys):
        return ys[0]
    first, more = ys[0], _POINTS - 1

    def along(at: Sizes) -> list[Fraction]:
        parts = []
        for k, name in enumerate(free):
            own = slice(1 + k * more, 1 + (k + 1) * more)
            xs = [points[0][name], *(point[name] for point in points[own])]
            parts.append(polynomial_at(xs, [first, *ys[own]], at[name]))
        return parts

    ways: tuple[Callable[[Sizes], Fraction], ...] = (
        lambda at: math.prod((part / first for part in along(at)), start=Fraction(first)),
        lambda at: first + sum((part - first for part in along(at)), Fraction(0)),
    )
    for way in ways if first else ways[1:]:
        if all(way(point) == y for point, y in zip(points[-2:], ys[-2:], strict=True)):
            value = way(sizes)
            if value.denominator == 1 and value >= -1:  # -1 stands for a constant operand
                return int(value)
    raise NotPolynomial


def _fit_polynomials(
    counted: Callable[[Sizes], Sequence[int]], names: Sequence[str], start: Sizes, steps: Sizes
) -> list[SizePolynomial]:
    """Return the polynomials of counts, from as many points as their degrees ask for, and two more that confirm them."""
    degrees = {name: _highest_degree(counted, name, start, steps[name]) for name in names}
    axes = [[start[name] + k * steps[name] for k in range(degrees[name] + 1)] for name in names]
    lengths = tuple(map(len, axes))
    table = [counted(dict(zip(names, at, strict=True))) for at in itertools.product(*axes)]
    found = []
    for column in zip(*table, strict=True):
        grid = np.array([Fraction(x) for x in column], dtype=object).reshape(lengths)
        for axis, xs in enumerate(axes):
            grid = np.moveaxis(grid, axis, -1)
            fibres = [_coefficients(xs, list(ys)) for ys in grid.reshape(-1, len(xs))]
            grid = np.moveaxis(np.array(fibres, dtype=object).reshape(grid.shape), -1, axis)
        found.append(SizePolynomial(tuple(names), {at: c for at, c in np.ndenumerate(grid) if c}))
    for extra in ((1, 2), (2, 1)):
        point = {name: start[name] + (degrees[name] + extra[k % 2]) * steps[name] for k, name in enumerate(names)}
        if any(p.at(point) != y for p, y in zip(found, counted(point), strict=True)):
            raise NotPolynomial
    return found


def _highest_degree(counted: Callable[[Sizes], Sequence[int]], name: str, start: Sizes, step: int) -> int:
    """Return the highest degree of the counts in one size. Raises NotPolynomial where it is above 4."""
    if not step:  # it keeps its value
        return 0
    xs, columns = [start[name]], [counted(start)]
    for k in range(1, _DEGREE + 2):
        xs.append(start[name] + k * step)
        columns.append(counted({**start, name: xs[-1]}))
        most = max(len(_divided_differences(xs, ys)) for ys in zip(*columns, strict=True))
        if most < len(xs):
            return max(0, most - 1)
    raise NotPolynomial
