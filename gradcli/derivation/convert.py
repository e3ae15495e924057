"""Conversion of graphs recorded at several sizes to tensors: linear operations become products and sums."""

import itertools
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from gradcli.core.primitive import by_name
from gradcli.derivation import rules  # noqa: F401  (products are simplified by them)
from gradcli.derivation.algebra import ALGEBRA, FUNCTIONS, exact, number_of, of_numbers
from gradcli.derivation.index import Atom, Index, Tensor, add, fresh, function, of_atom, scalar, scaled, size_of
from gradcli.derivation.indexing import INDEXING, named
from gradcli.derivation.problem import RECORDINGS
from gradcli.derivation.products import ONE, is_truth, multiply, power, product
from gradcli.derivation.structure import STRUCTURE, Axis, Value, broadcast, indices, placed, single
from gradcli.derivation.whole import WHOLE, crossed
from gradcli.errors import NotSupported
from gradcli.interpreters.graph import Graph

Sizes = Mapping[str, Sequence[int]]  # for each name, its value in every recording
_HALF = Fraction(1, 2)
_POWERS = (Fraction(1), Fraction(-1), _HALF, -_HALF, Fraction(2), Fraction(-2))
_CLOSE = 1e-12
OPERATIONS = by_name(STRUCTURE) | INDEXING | WHOLE


class Reader:
    """Reads the graphs of one program at several sizes as tensors; `facts` are the assumptions about inputs.

    Comparisons by == and != of the inputs that f itself compares are kept, except those of one `continuous` input; others,
    which rules make, are taken as false, which they are at all but single points.
    """

    def __init__(
        self, sizes: Sizes, facts: Mapping[str, frozenset[str]], order: Sequence[str] = (),
        compared: Collection[str] = (), continuous: str | None = None,
    ) -> None:  # fmt: skip
        self.sizes = sizes
        self.compared = frozenset(compared)
        self.continuous = continuous
        self.order = {name: k for k, name in enumerate(order)}
        self.facts = facts
        self.seen: dict[int, Value] = {}
        self.kept: list[Any] = []

    def read(self, graphs: Sequence[Any]) -> Value:
        """Return one value, given as a graph at every size, as a tensor. Raises NotSupported, naming the operation."""
        graphs = tuple(g.fixed() if isinstance(g, Graph) else g for g in graphs)
        pending = [graphs]
        while pending:
            here = pending[-1]
            if id(here[0]) in self.seen or not isinstance(here[0], Graph):
                pending.pop()
                continue
            first = here[0]
            if any(not isinstance(g, Graph) or g.op != first.op or len(g.args) != len(first.args) for g in here):
                raise NotSupported(
                    "the program is another one at another size", do="give sizes as numbers: --shapes x:3"
                )
            waiting = [
                operand
                for k in range(len(first.args))
                if isinstance(first.args[k], Graph) and id(first.args[k]) not in self.seen
                for operand in [tuple(g.args[k] for g in here)]
            ]
            if waiting:
                pending += waiting
                continue
            self.seen[id(first)] = self._node(here)
            self.kept.append(here)  # so that no id is reused
            pending.pop()
        return self._operand(graphs)

    def _operand(self, operand: Sequence[Any]) -> Value:
        if isinstance(operand[0], Graph):
            return self.seen[id(operand[0])]
        return self.constant([np.asarray(x) for x in operand])

    def dim(self, sizes: Sequence[int]) -> str:
        """Return the size (n, n - 1, n + k - 1, n*m or a number) that has these lengths in the recordings.

        Raises  NotSupported if none has.
        """
        if len(set(sizes)) == 1:
            return str(sizes[0])
        for name, known in self.sizes.items():
            apart = {s - k for s, k in zip(sizes, known, strict=True)}
            if len(apart) == 1:
                d = apart.pop()
                return name if d == 0 else f"{name} - {-d}" if d < 0 else f"{name} + {d}"
        for names in itertools.combinations_with_replacement(self.sizes, 2):
            apart = {s - sum(own) for s, *own in zip(sizes, *(self.sizes[name] for name in names), strict=True)}
            if len(apart) == 1 and abs(d := apart.pop()) <= 2:
                return " + ".join(names) + (f" - {-d}" if d < 0 else f" + {d}" if d else "")
            if all(math.prod(own) == n for n, *own in zip(sizes, *(self.sizes[name] for name in names), strict=True)):
                return "*".join(names)
        raise NotSupported("an axis has a length that is no named size", do="give sizes as numbers: --shapes x:3")

    def lengths(self, dim: str) -> list[int]:
        """Return the lengths that a size, such as n - 1, has in the recordings."""
        if "*" in dim:
            return [math.prod(own) for own in zip(*map(self.lengths, dim.split("*")), strict=True)]
        name, *moved = dim.split()
        base = [int(name)] * RECORDINGS if name.isdecimal() else self.sizes[name]
        more = [(-1 if sign == "-" else 1, self.lengths(n)) for sign, n in zip(moved[::2], moved[1::2], strict=True)]
        return [n + sum(sign * own[k] for sign, own in more) for k, n in enumerate(base)]

    def axes(self, shapes: Sequence[tuple[int, ...]]) -> tuple[Axis, ...]:
        """Return a fresh index for each axis, and None for an axis of length 1."""
        dims = [self.dim(lengths) for lengths in zip(*shapes, strict=True)]
        return tuple(None if d == "1" else fresh(d) for d in dims)

    def constant(self, arrays: Sequence[Any]) -> Value:
        """Return a constant: a number, a function of sizes, an array of equal entries, or an array with a name.

        Raises  NotSupported for any other array.
        """
        axes = self.axes([x.shape for x in arrays])
        free = indices(*axes)
        if all(x.size and np.all(x == x.flat[0]) for x in arrays):
            number = self.number([float(x.flat[0]) for x in arrays])
            return Value(axes, Tensor(free, number.terms))
        if any("*" in i.dim for i in free):
            raise NotSupported("an array of constants along a product of sizes has no formula", do="make it an input")
        found = (
            named(free, [x.reshape([n for n in x.shape if n != 1]) for x in arrays]) if len(free) in (1, 2) else None
        )
        if found is not None:
            return Value(axes, Tensor(free, multiply(self.number(found[1]), found[0]).terms))
        raise NotSupported("an array of constants has no formula", do="make it an input")

    def number(self, xs: Sequence[float]) -> Tensor:
        """Return a number that is the same at all sizes, or a simple function of sizes. Raises NotSupported."""
        if len(set(xs)) == 1:
            return number_of(xs[0])
        for name, known in self.sizes.items():
            apart = [x - n for x, n in zip(xs, known, strict=True)]
            if _same(apart) and apart[0] == round(apart[0]):
                return add([size_of(name), scalar(exact(apart[0]))])
        for count in (1, 2):
            for names in itertools.combinations(self.sizes, count):
                for powers in itertools.product(_POWERS, repeat=count):
                    scale = [
                        float(
                            np.prod([float(self.sizes[n][k]) ** float(p) for n, p in zip(names, powers, strict=True)])
                        )
                        for k in range(len(xs))
                    ]
                    ratio = [x / s for x, s in zip(xs, scale, strict=True)]
                    if _same(ratio):
                        parts = [power(size_of(n), p) for n, p in zip(names, powers, strict=True)]
                        return scaled(product(parts), exact(ratio[0]))
        raise NotSupported("a constant depends on the sizes in a way that is not recognised", do="make it an input")

    def _node(self, graphs: Sequence[Graph]) -> Value:
        first = graphs[0]
        if first.op.startswith("input "):
            name = first.op.removeprefix("input ")
            axes = self.axes([g.shape for g in graphs])
            at = indices(*axes)
            facts = self.facts.get(name, frozenset())
            atom = Atom("input", name, dims=tuple(i.dim for i in at), facts=facts, param=self.order.get(name))
            return Value(axes, of_atom(atom, at))
        if first.op == "constant":
            return self.constant([np.asarray(g.value) for g in graphs])
        if first.op == "equal" and (where := self._indicator(graphs)) is not None:
            return where
        xs = [self._operand(tuple(g.args[k] for g in graphs)) for k in range(len(first.args))]
        params = [g.params or {} for g in graphs]
        if first.op in OPERATIONS:
            return OPERATIONS[first.op](self, xs, params, graphs)
        axes = broadcast(self, xs, graphs)
        operands = [placed(x, axes) for x in xs]
        free = indices(*axes)
        if first.op in ALGEBRA:
            y = ALGEBRA[first.op](*operands, **params[0])
            y = crossed(y) if first.op in ("add", "subtract") else y
        elif first.op in ("equal", "not_equal"):
            y = self._compared(first.op == "not_equal", *operands)
        elif first.op in _LOGICAL:
            y = _LOGICAL[first.op](*map(self._truth, operands))
        elif first.op in FUNCTIONS and operands and all(x.number is not None for x in operands):
            y = of_numbers(
                first.op,
                [float(x.number or 0) for x in operands],
                float(first.value.reshape(-1)[0]) if np.ndim(first.value) else float(first.value),
            )
        elif first.op == "polygamma":
            y = function(first.op, [scalar(Fraction(params[0]["n"])), *operands], free)
        elif first.op in FUNCTIONS:
            if any(params):
                raise NotSupported(f"{first.op} has parameters that formulas do not show")
            y = function(first.op, operands, free)
        else:
            raise NotSupported(f"{first.op} has no closed form here", do="gradcli check verifies its gradient")
        return Value(axes, Tensor(free, y.terms))

    def _indicator(self, graphs: Sequence[Graph]) -> Value | None:
        """Return where an input that is an index has its value, as k == 0, 1, ..., n - 1; None for other comparisons."""
        for k in (0, 1):
            positions = [np.asarray(getattr(g.args[1 - k], "value", g.args[1 - k])) for g in graphs]
            given = isinstance(graphs[0].args[1 - k], Graph) and graphs[0].args[1 - k].op != "constant"
            if given or any(x.ndim != 1 or not np.array_equal(x, np.arange(len(x))) for x in positions):
                continue
            place = self._operand(tuple(g.args[k] for g in graphs))
            last = single(self.axes([x.shape for x in positions])[0])
            if last is None or (place.axes and place.axes[-1] is not None):
                continue
            axes = (*place.axes[:-1], last)
            along = of_atom(Atom("arange", dims=(last.dim,)), (last,))
            return Value(axes, function("equal", [place.tensor, along], indices(*axes)))
        return None

    def _compared(self, unlike: bool, a: Tensor, b: Tensor) -> Tensor:
        """Return a == b, or a != b, as 0 or 1."""
        free = add([a, b]).free
        difference = add([a, scaled(b, -1)])
        if difference.number is not None:
            return scalar(Fraction((difference.number != 0) == unlike))
        for x, number in ((a, b.number), (b, a.number)):
            if number is not None and is_truth(x):
                if number not in (0, 1):
                    return scalar(Fraction(unlike))
                return x if (number == 1) != unlike else _opposite(x, free)
        names = a.inputs | b.inputs
        if not names & self.compared or self.continuous in names:
            return scalar(Fraction(unlike))
        same = function("equal", [a, b], free)
        return _opposite(same, free) if unlike else same

    def _truth(self, x: Tensor) -> Tensor:
        """Return a condition as 0 or 1."""
        return self._compared(True, x, scalar(Fraction(0)))


def _opposite(x: Tensor, free: tuple[Index, ...]) -> Tensor:
    return add([scalar(ONE), scaled(x, -1)], free)


def _either(a: Tensor, b: Tensor) -> Tensor:
    """Return 1 - (1 - a) (1 - b): where one condition holds, or the other, or both."""
    neither = multiply(_opposite(a, a.free), _opposite(b, b.free))
    return _opposite(neither, neither.free)


_LOGICAL: dict[str, Callable[..., Tensor]] = {
    "logical_not": lambda a: _opposite(a, a.free), "logical_and": multiply, "logical_or": _either,
}  # fmt: skip


def _same(xs: Sequence[float]) -> bool:
    return all(abs(x - xs[0]) <= _CLOSE * abs(xs[0]) for x in xs)
