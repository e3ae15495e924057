"""Functions of `*args` and `**kwargs`: how their values are given, and how their gradients are claimed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradcli import check
from tests.targets.test_loading import written

QUICK = ("--modes", "forward,reverse,fd", "--json")
CODE = """
    import functools
    def many(*args): return sum(np.sum(a**2) for a in args)
    def many_grad(*args): return tuple(2*a for a in args)
    def first(x, *rest): return np.sum(x**2) + sum(np.sum(r**3) for r in rest)
    def first_grad(x, *rest): return (2*x, *(3*r**2 for r in rest))
    def first_wrong(x, *rest): return (2*x, *(3*r for r in rest))
    def first_alone(x, *rest): return 2*x
    def optional(x, y=2.0, *rest): return x*y
    def keywords(**p): return p["a"]**2*p["b"]
    def keywords_grad(**p): return {"a": 2*p["a"]*p["b"], "b": p["a"]**2}
    def both(*args, **kwargs): return np.sum(args[0]**2)*kwargs.get("k", 1.0)
    def decorated(f):
        def wrapper(*args, **kwargs): return f(*args, **kwargs)
        return wrapper
    @decorated
    def wrapped(x, y): return x*y**2
    part = functools.partial(first, np.ones(2))
    by_position = eval("lambda x, y, /: x*y**2")
"""

# fmt: off
RUNS = [
    ("many",        ("args=[1, 2]",),                        ["args"]),
    ("many",        ("args=5",),                             ["args"]),
    ("many",        ("args=(1, 2)",),                        ["args[0]", "args[1]"]),
    ("many",        ("args=([1, 2], [3, 4, 5])",),           ["args[0]", "args[1]"]),
    ("many",        ("args=([1, 2], 3)", "--grad", "many_grad"), ["args[0]", "args[1]"]),
    ("many",        ("b=[1, 2]", "a=3", "--grad", "many_grad"), ["b", "a"]),
    ("first",       ("x=[1, 2]", "rest=([1, 2], 3)"),        ["x", "rest[0]", "rest[1]"]),
    ("first",       ("x=[1, 2]", "rest=([1, 2], 3)", "--grad", "first_grad"), ["x", "rest[0]", "rest[1]"]),
    ("first",       ("x=[1, 2]", "rest=([1, 2],)", "--grad", "first_grad"), ["x", "rest[0]"]),
    ("first",       ("x=[1, 2]", "u=[1, 2]", "v=3", "--grad", "first_grad"), ["x", "u", "v"]),
    ("first",       ("x=[1, 2]", "rest=([1, 2], 3)", "--grad", "first_alone"), ["x"]),
    ("keywords",    ("a=1", "b=2", "--grad", "keywords_grad"), ["a", "b"]),
    ("both",        ("args=([1, 2],)", "k=3"),               ["args[0]", "k"]),
    ("wrapped",     ("x=1", "y=2"),                          ["x", "y"]),
    ("wrapped",     ("args=(1, 2)",),                        ["args[0]", "args[1]"]),
    ("part",        ("rest=(1, 2)",),                        ["rest[0]", "rest[1]"]),
    ("by_position", ("x=1", "y=2"),                          ["x", "y"]),
]
REFUSED = [
    ("many",     (),                      'give the values of *args: --at "args=(randn(3), 0.5)"'),
    ("first",    ("x=[1, 2]", "xx=[1]"),  "did you mean 'x'?"),
    ("optional", ("x=1", "k=3"),          "its parameters: x, y, rest"),
    ("keywords", ("a=1",),                'name the values of **p: --at "b=randn(3)"'),
    ("wrapped",  (),                      ""),
]
# fmt: on


@pytest.mark.parametrize(("target", "more", "differentiated"), RUNS)
def test_values_by_position_and_by_name(
    gradcli: Callable[..., Any], tmp_path: Path, target: str, more: tuple[str, ...], differentiated: list[str]
) -> None:
    ran = gradcli("check", f"{written(tmp_path, CODE)}:{target}", *more, *QUICK)
    assert ran.exit_status == 0, ran.stdout
    assert ran.json["points"][0]["differentiated"] == differentiated


@pytest.mark.parametrize("values", [("rest=([1, 2], 3)",), ("u=[1, 2]", "v=3")])
def test_a_wrong_gradient_of_one_of_them_is_seen(
    gradcli: Callable[..., Any], tmp_path: Path, values: tuple[str, ...]
) -> None:
    ran = gradcli("check", f"{written(tmp_path, CODE)}:first", "x=[1, 2]", *values, "--grad", "first_wrong", *QUICK)
    assert ran.exit_status == 1
    assert {entry["input"] for entry in ran.json["points"][0]["mismatches"]} <= {"rest[0]", "rest[1]", "u", "v"}


@pytest.mark.parametrize(("target", "more", "said"), REFUSED)
def test_what_is_missing_is_named(
    gradcli: Callable[..., Any], tmp_path: Path, target: str, more: tuple[str, ...], said: str
) -> None:
    ran = gradcli("check", f"{written(tmp_path, CODE)}:{target}", *more, *QUICK)
    assert ran.exit_status == 2
    assert said in str(ran.json["error"]["hint"])


def test_a_tuple_of_python_is_the_arguments_in_their_order() -> None:
    def f(x: Any, *rest: Any) -> Any:
        return np.sum(x**2) + sum(np.sum(r**3) for r in rest)

    at = (np.ones(2), np.ones(3), 2.0)
    assert check(f, at, grad=lambda x, *rest: (2 * x, *(3 * r**2 for r in rest))).verdict == "pass"
    assert check(f, at[:1]).points[0].differentiated == ("x",)

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return f(*args, **kwargs)

    assert check(wrapper, at).points[0].differentiated == ("args[0]", "args[1]", "args[2]")
    assert check(wrapper, {"x": 2.0}).points[0].differentiated == ("x",)
