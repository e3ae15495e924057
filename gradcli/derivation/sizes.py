"""The sizes at which a function is recorded: three for each name, at which it is finite and inverts what it inverts."""

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from gradcli.derivation.indexing import picks
from gradcli.derivation.problem import RECORDINGS, Problem, point_of
from gradcli.errors import GradcliError, NotSupported
from gradcli.interpreters.graph import Graph

_MOST_ORDERS = 24
_LEAST = (3, 9)  # the smallest size: larger ones where an index lies beyond it
_HUGE = 1e10  # values of f beyond it come of a matrix that is singular but for rounding
_INVERTING = {"inv", "solve", "det", "logdet"}

Sizes = dict[str, tuple[int, ...]]


def sizes_of(problem: Problem) -> Sizes:
    """Return three sizes for each name, in an order of names that suits f: a tall matrix, where it must be."""
    tried = _all(problem.names)
    return next((sizes for sizes in tried if _suits(problem, sizes)), next(_all(problem.names)))


def _all(names: tuple[str, ...]) -> Iterator[Sizes]:
    for least in _LEAST:
        for order in itertools.islice(itertools.permutations(names), _MOST_ORDERS):
            rank = {n: r for r, n in enumerate(order)}
            yield {n: (least + rank[n], least + 2 + 2 * rank[n], least + 4 + 3 * rank[n]) for n in names}


def _suits(problem: Problem, sizes: Mapping[str, tuple[int, ...]]) -> bool:
    for k in range(RECORDINGS):
        point = point_of(problem, {n: v[k] for n, v in sizes.items()}, np.random.default_rng([0, k]))
        held = {n: Graph.variable(n, x) if n in problem.dims else x for n, x in point.items()}
        with np.errstate(all="ignore"):
            try:
                y = problem.f(held)
            except (np.linalg.LinAlgError, GradcliError):
                return False
        value = np.asarray(getattr(y, "value", y), dtype=float)
        if not np.all(np.abs(value) < _HUGE) or any(_singular(node) or _cut_off(node) for node in _nodes(y)):
            return False
    return True


def _nodes(y: Any) -> Iterator[Graph]:
    seen: set[int] = set()
    pending = [y]
    while pending:
        node = pending.pop()
        if isinstance(node, Graph) and id(node) not in seen:
            seen.add(id(node))
            pending += node.args
            yield node


def _singular(node: Graph) -> bool:
    """Whether it inverts a matrix, or takes its determinant, that has not full rank."""
    if node.op not in _INVERTING:
        return False
    matrix = np.asarray(getattr(node.args[0], "value", node.args[0]))
    return not np.all(np.isfinite(matrix)) or bool(np.any(np.linalg.matrix_rank(matrix) < matrix.shape[-1]))


def _cut_off(node: Graph) -> bool:
    """Whether it takes a slice that ends beyond the array, and would take more of a larger one."""
    if node.op != "getitem":
        return False
    try:
        picks([node.params["index"]], [np.shape(getattr(node.args[0], "value", node.args[0]))])
    except NotSupported:
        return True
    return False
