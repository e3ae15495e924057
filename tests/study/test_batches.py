"""Gradient accumulation: micro-batches come to the full batch by their mean or their sum, or the loss mixes rows."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradcli.errors import BadOption
from gradcli.modes.mode import Question
from gradcli.report.compare import Accumulation
from gradcli.request.point import Point
from gradcli.study.mode_comparison import compare_accumulation
from gradcli.targets.arguments import bind_arguments
from gradcli.targets.expression import Expression
from tests.rows import for_rows

RNG = np.random.default_rng(0)
AT = {
    "X": RNG.normal(size=(12, 3)), "y": RNG.normal(size=12), "w": RNG.normal(size=3), "b": np.float64(0.3),
    "z": RNG.normal(size=5), "lam": np.float64(0.1),
}  # fmt: skip


def question(text: str, wrt: tuple[str, ...]) -> Question:
    f = Expression(text, frozenset(AT))
    return Question(f, Point({name: AT[name] for name in f.inputs}), wrt)


def split(text: str, count: int, wrt: tuple[str, ...] = ("w",)) -> Accumulation:
    return compare_accumulation(question(text, wrt), count)


# fmt: off
LOSSES = [
    ("mean((X@w - y)**2)",                         "mean"),
    ("mean((X@w + b - y)**2)",                     "mean"),
    ("sum((X@w - y)**2)",                          "sum"),
    ("sum(logaddexp(0, -y*(X@w)))",                "sum"),
    ("mean(tanh(X@w)) + lam*sum(w**2)",            "mean"),
    ("sum((X@w - y)**2) + lam*sum(w**2)",          None),     # the penalty is counted once a micro-batch
    ("norm(X@w - y)",                              None),
    ("mean((X@w)**2)/mean((X@w - y)**2)",          None),
    ("u = X@w; mean(((u - mean(u))/std(u) - y)**2)", None),   # batch normalisation
    ("logsumexp(X@w)",                             None),
]
# fmt: on


@for_rows("count", [2, 3, 4, 12])
@for_rows(("text", "how"), LOSSES)
def test_how_micro_batches_add_up(text: str, how: str | None, count: int) -> None:
    found = split(text, count)
    assert (found.how, found.uneven, found.count, found.batch) == (how, False, count, 12)
    assert sorted(found.inputs) == (["X", "y"] if "y" in Expression(text).inputs else ["X"])


def test_the_spread_of_micro_batches_falls_as_one_over_the_root_of_their_rows() -> None:
    rows, w = 1200, np.array([0.3, -0.2, 0.9])
    at = {"X": RNG.normal(size=(rows, 3)), "y": RNG.normal(size=rows), "w": w}
    q = Question(Expression("mean((X@w - y)**2)", frozenset(at)), Point(at), ("w",))
    each = 2 * (at["X"] @ w - at["y"])[:, None] * at["X"]  # the gradient of each row
    alone = np.sqrt(np.mean(np.sum((each - each.mean(0)) ** 2, 1))) / np.linalg.norm(each.mean(0))
    assert compare_accumulation(q, rows).spread == pytest.approx(alone)
    assert compare_accumulation(q, rows // 4).spread == pytest.approx(alone / 2, rel=0.1)
    assert split("sum((X@w - y)**2)", 4).spread is None


@for_rows("count", [5, 7, 11])
@for_rows(("text", "how"), LOSSES)
def test_uneven_batches_are_weighted_by_their_rows(text: str, how: str | None, count: int) -> None:
    found = split(text, count)
    assert (found.how, found.uneven) == (how, True)
    assert (
        how != "mean"
        or "the mean, weighted by their rows, of their gradients is that of the full batch" in found.says()
    )


@pytest.mark.parametrize("count", [2, 3, 12])
def test_the_other_way_is_off_by_the_count(count: int) -> None:
    mean, total = split("mean((X@w - y)**2)", count), split("sum((X@w - y)**2)", count)
    assert mean.sum_differs == pytest.approx(count - 1) and mean.mean_differs < 1e-14
    assert total.mean_differs == pytest.approx(1 - 1 / count) and total.sum_differs < 1e-14


def test_several_parameters_are_compared_together() -> None:
    assert split("mean((X@w + b - y)**2)", 3, ("w", "b")).how == "mean"


def test_python_functions(tmp_path: Path) -> None:
    def normalised(w: Any, X: Any, y: Any) -> Any:
        u = X @ w
        return np.mean(((u - u.mean()) / np.sqrt(u.var() + 1e-5) - y) ** 2)

    at = {name: AT[name] for name in ("w", "X", "y")}
    assert (
        compare_accumulation(Question(bind_arguments(normalised, "normalised", at)[0], Point(at), ("w",)), 3).how
        is None
    )


# fmt: off
SAYS = [
    ("mean((X@w - y)**2)", 4, "4 micro-batches of X, y (12 rows): the mean of their gradients is that of the full batch to"),
    ("mean((X@w - y)**2)", 4, "(rounding); their sum is off by 3 times the largest entry"),
    ("sum((X@w - y)**2)",  4, "the sum of their gradients is that of the full batch to"),
    ("sum((X@w - y)**2)",  4, "their mean is off by 0.75 of the largest entry"),
    ("norm(X@w - y)",      2, "neither the mean ("),
    ("norm(X@w - y)",      2, "of their gradients is that of the full batch: the loss mixes rows (batch statistics, a norm over rows)"),
    ("norm(X@w - y)",      5, "neither the mean, weighted by their rows, ("),
    ("sum(log(X@(0*w)))",  2, "2 micro-batches of X (12 rows): a gradient is not finite, so there is nothing to compare"),
]
ERRORS = [  # loss, count, differentiated                     what, do
    ("mean((X@w - y)**2)", 13, ("w",),                        "--accumulate 13 does not fit a batch of 12", "--accumulate 2 to 12"),
    ("mean((X@w - y)**2)", 1, ("w",),                         "--accumulate 1 does not fit a batch of 12", "--accumulate 2 to 12"),
    ("(X@w - y)**2", 2, ("w",),                               "--accumulate needs a scalar loss", "reduce the result: mean(...)"),
    ("sum(w**2)*lam", 2, ("w",),                              "--accumulate splits the inputs that are not differentiated along their first axis, and they have no array", 'differentiate by the parameters alone: --wrt "w,b"'),
    ("mean((X@w - y)**2)", 2, ("w", "X", "y"),                "--accumulate splits the inputs that are not differentiated along their first axis, and they have no array", 'differentiate by the parameters alone: --wrt "w,b"'),
    ("mean((X@w - y)**2) + sum(z)", 2, ("w",),                "--accumulate splits the inputs that are not differentiated along their first axis, and they have several lengths", 'differentiate by the parameters alone: --wrt "w,b"'),
]
# fmt: on


@for_rows(("text", "count", "says"), SAYS)
def test_what_is_said(text: str, count: int, says: str) -> None:
    assert says in split(text, count).says()


@for_rows(("text", "count", "wrt", "what", "do"), ERRORS)
def test_what_cannot_be_split(text: str, count: int, wrt: tuple[str, ...], what: str, do: str) -> None:
    with pytest.raises(BadOption) as error:
        split(text, count, wrt)
    assert (error.value.what, error.value.do) == (what, do)
