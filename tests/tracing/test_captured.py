"""Traced values are found wherever a function can hold them, and replaced there and nowhere else."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from gradcli.arithmetic.recorded_program import record
from gradcli.tracing.primitive import Value
from gradcli.tracing.tracer import Captured
from tests.rows import for_rows


class Holder:
    """An object of the user's."""

    def __init__(self, k: Any) -> None:
        self.inner = {"k": [k], "other": "text"}

    def times(self, x: Any) -> Any:
        return self.inner["k"][0] * x  # type: ignore[operator]

    def __call__(self, x: Any) -> Any:
        return self.times(x)


def closure(k: Any) -> Any:
    return lambda x: k * x


def helper(k: Any) -> Any:
    inner = lambda x: k * x
    return lambda x: inner(x)


def default(k: Any) -> Any:
    return lambda x, k=k: k * x


def keyword(k: Any) -> Any:
    def f(x: Any, *, k: Any = k) -> Any:
        return k * x

    return f


def recursive(k: Any) -> Any:
    def f(x: Any, n: int = 1) -> Any:
        return k * x if n == 0 else f(x, n - 1)

    return f


MAKERS: dict[str, Callable[[Any], Any]] = {
    "closure": closure,
    "helper in a closure": helper,
    "default": default,
    "keyword default": keyword,
    "recursive": recursive,
    "partial": lambda k: functools.partial(lambda k, x: k * x, k),
    "method": lambda k: Holder(k).times,
    "callable object": Holder,
}


@for_rows("make", MAKERS.values(), ids=MAKERS)
def test_what_a_function_holds_is_replaced(make: Callable[[Any], Any]) -> None:
    def traced(k: Value) -> Value:
        f = make(k)
        found = Captured(f)
        assert found.leaves == [k]
        assert found.rebuilt([np.float64(5.0)])(2.0) == 10.0
        assert f(2.0).primal == 6.0, "the function itself is as before"
        return k

    record(traced, [np.float64(3.0)])


def test_containers_are_copied_only_where_they_hold_something() -> None:
    def traced(k: Value) -> Value:
        plain = [1, 2]
        found = Captured(({"a": [k, plain], "b": plain}, k))
        again, last = found.rebuilt([np.float64(7.0)])
        assert len(found.leaves) == 1
        assert (again["a"][0], last, again["b"] is plain, again["a"][1] is plain) == (7.0, 7.0, True, True)
        return k

    record(traced, [np.float64(3.0)])
