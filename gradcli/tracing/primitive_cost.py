"""The cost of one evaluation of a primitive: scalar operations, counted from the shapes of its operands and its result."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from gradcli.classes import dataclass
from gradcli.tracing.shapes import shape, size

Params = dict[str, Any]
Values = Sequence[Any]


@dataclass(frozen=True, slots=True)
class Operations:
    """Numbers of scalar operations; a comparison counts as an addition, a square root as transcendental."""

    additions: int = 0
    multiplications: int = 0
    transcendental: int = 0

    @property
    def total(self) -> int:
        return self.additions + self.multiplications + self.transcendental

    def __add__(self, other: "Operations") -> "Operations":
        return Operations(
            self.additions + other.additions,
            self.multiplications + other.multiplications,
            self.transcendental + other.transcendental,
        )

    def __sub__(self, other: "Operations") -> "Operations":
        return self + other.times(-1)

    def times(self, count: int) -> "Operations":
        """Return the operations of `count` runs."""
        return Operations(count * self.additions, count * self.multiplications, count * self.transcendental)


@dataclass(frozen=True, slots=True)
class Work:
    """A coarse measure of work, compared with the limits of a mode.

    `entries` counts results that are computed entry by entry, `products` the multiply-adds of matrix products.
    """

    entries: int = 0
    products: int = 0

    @property
    def operations(self) -> int:
        """The number of scalar operations; a multiply-add counts as two."""
        return self.entries + 2 * self.products


def largest_entry_count(xs: Values, y: Any) -> int:
    """Return the number of entries of the largest value among the operands and the result."""
    return max(size(y), *(size(x) for x in xs))


@dataclass(frozen=True, slots=True)
class PrimitiveCost:
    """The cost of a primitive, as functions of its operands, its result and its parameters.

    `operations` is shown in reports, and `work` is compared with limits. `terms` is the number of terms that one entry of
    the result has when it is written out as a formula of the operands.
    """

    operations: Callable[[Values, Any, Params], Operations]
    work: Callable[[Values, Any, Params], Work] = lambda xs, y, params: Work(largest_entry_count(xs, y))
    terms: Callable[[Values, Any], float] = lambda xs, y: 1.0


def _terms_of_sum(xs: Values, y: Any) -> float:
    return max(1.0, max(size(x) for x in xs) / max(1, size(y)))


def _contraction_operations(terms: int, factors: int, results: int) -> Operations:
    return Operations(max(0, terms - results), terms * factors)


def _einsum_loop_count(subscripts: str, xs: Iterable[Any]) -> int:
    """Return how often the innermost statement of an einsum runs."""
    inputs = subscripts.partition("->")[0].split(",")
    sizes = {letter: n for part, x in zip(inputs, xs, strict=True) for letter, n in zip(part, shape(x), strict=True)}
    return math.prod(sizes.values())


def _power_operations(xs: Values, y: Any, params: Params) -> Operations:
    n = abs(int(params.get("n", 1)))
    return Operations(multiplications=size(y) * max(0, n.bit_length() + n.bit_count() - 2))


FUNCTION = PrimitiveCost(lambda xs, y, params: Operations(transcendental=largest_entry_count(xs, y)))
ADDITION = PrimitiveCost(lambda xs, y, params: Operations(additions=largest_entry_count(xs, y)))
MULTIPLICATION = PrimitiveCost(lambda xs, y, params: Operations(multiplications=largest_entry_count(xs, y)))
MOVE = PrimitiveCost(lambda xs, y, params: Operations())
POWER = PrimitiveCost(_power_operations)
SCATTERED = PrimitiveCost(lambda xs, y, params: Operations(additions=size(xs[0])))
REDUCTION = PrimitiveCost(
    lambda xs, y, params: Operations(additions=max(0, size(xs[0]) - size(y))), terms=_terms_of_sum
)
FUNCTION_OF_ALL = PrimitiveCost(FUNCTION.operations, terms=_terms_of_sum)
PRODUCT = PrimitiveCost(
    lambda xs, y, params: _contraction_operations(size(y) * shape(xs[0])[-1], 1, size(y)),
    lambda xs, y, params: Work(products=size(y) * shape(xs[0])[-1]),
    lambda xs, y: float(shape(xs[0])[-1]),
)
CONTRACTION = PrimitiveCost(
    lambda xs, y, params: _contraction_operations(_einsum_loop_count(params["subscripts"], xs), len(xs) - 1, size(y)),
    lambda xs, y, params: Work(products=size(y) * max(1, *(size(x) for x in xs))),
    lambda xs, y: max(1.0, float(math.prod(size(x) for x in xs)) ** 0.5 / max(1, size(y))),
)


def _operations_of_products(work: Callable[[Values, Any, Params], Work]) -> Callable[[Values, Any, Params], Operations]:
    def operations(xs: Values, y: Any, params: Params) -> Operations:
        products = work(xs, y, params).products
        return Operations(products, products)

    return operations


def factorisation_cost(products: int, expanded: bool = False) -> PrimitiveCost:
    """Return the cost of a matrix factorisation: `products` multiply-adds for each entry and row of the matrix.

    With `expanded`, a formula of the result writes out a determinant: n * n! terms for n rows.
    """

    def work(xs: Values, y: Any, params: Params) -> Work:
        return Work(products=products * size(xs[0]) * max(shape(xs[0])[-2:], default=1))

    def terms(xs: Values, y: Any) -> float:
        n = shape(xs[0])[-1] if expanded and shape(xs[0]) else 0
        return math.prod(map(float, range(1, n + 1))) * n if n else 1.0

    return PrimitiveCost(_operations_of_products(work), work, terms)


def _transform_work(xs: Values, y: Any, params: Params) -> Work:
    return Work(10 * size(y), size(y) * shape(y)[-1])


TRANSFORM = PrimitiveCost(_operations_of_products(_transform_work), _transform_work, lambda xs, y: float(shape(y)[-1]))
