"""Questions about plain functions, as a mode is asked them; and what must hold of a framework's answer."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradcli.modes.mode import Question
from gradcli.modes.registry import MODES
from gradcli.request.point import Estimate, Point
from gradcli.rules.special import ByOrder
from gradcli.tracing.primitive import Params, Primitive
from tests.rules.test_rules import points

LOSSY = 1e-12  # of rules that state a reason for losing digits, away from their roots and poles
POINTS = 40
ORDERS = (2.0, 1.5, 0.5)  # of special functions: operands without a derivative


@dataclass(frozen=True)
class Plain:
    """A function of positional arguments as gradcli's Function."""

    call: Callable[..., Any]
    inputs: tuple[str, ...]
    text: str = "f"
    kind: str = "expression"
    outputs: tuple[Any, ...] = ()
    seconds: float | None = None

    def __call__(self, values: Mapping[str, Any]) -> Any:
        return self.call(*(values[name] for name in self.inputs))

    def survey(self, values: Mapping[str, Any]) -> tuple[Any, list[Any]]:
        return self(values), []


# rows with a rule by their orders, which frameworks have not; the number of orders
BY_ORDER = {"gammainc": 1, "gammaincc": 1, "betainc": 2, "betaincc": 2, "stdtr": 1}


def asked(f: Callable[..., Any], xs: Sequence[Any]) -> Question:
    """Return the question for the gradient of f by all its arguments."""
    names = tuple(f"x{k}" for k in range(len(xs)))
    return Question(Plain(f, names), Point(dict(zip(names, xs, strict=True))), names)


def of_row(row: Primitive, params: Params) -> tuple[Callable[..., Any], list[Any]]:
    """Return the sum of squares of an elementwise primitive, and points of its domain for what has a derivative."""
    count = BY_ORDER.get(row.name, sum(isinstance(rule, ByOrder) for rule in row.rules))
    still = list(ORDERS[:count])
    drawn = points(row, POINTS) if row.on else np.random.default_rng(1).uniform(0.1, 0.9, (POINTS, len(row.rules)))
    columns = [np.array(column) for column in zip(*drawn, strict=True)][len(still) :]
    return lambda *xs: np.sum(np.square(row(*still, *xs, **params))) / 2, columns


def excess(name: str, q: Question, lossy: bool = False) -> float:
    """Return how far a framework's gradient is from gradcli's, in units of both bounds."""
    found = MODES[name].gradient(q)
    return max(_excess(found, q, wrt, lossy) for wrt in q.wrt)


def _excess(found: Estimate, q: Question, wrt: str, lossy: bool) -> float:
    right = np.asarray(q.slopes[wrt])
    room = found.bound[wrt] + q.rounding[wrt] + (LOSSY * np.abs(right) if lossy else 0.0)
    apart = np.abs(found.value[wrt] - right) / room
    return float(np.max(np.where(np.isfinite(right), apart, 0.0), initial=0.0))
