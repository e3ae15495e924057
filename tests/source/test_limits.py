"""Every limit accepts what is just under it and refuses what is just over it, before any array is allocated."""

import math
import tracemalloc

import numpy as np
import pytest

from gradcli.errors import TooLarge
from gradcli.source import limits
from gradcli.source.expression import Expression
from gradcli.source.points import read
from gradcli.source.tokens import MAX_CHAIN, MAX_CHARACTERS, MAX_DIGITS, MAX_NESTING

SMALL_MEMORY = 2**20  # bytes: a thousandth of what the largest admitted value takes


def chain(operator, count):
    """`count` operators in a row."""
    left = {"-": "", "not ": "", ".T": ""}.get(operator, f"x{operator}")
    return "x" + operator * count if operator == ".T" else (left or operator) * count + "x"


# fmt: off
#    a text of size n                                          the limit    the error above it
TEXTS = [
    (lambda n: "x" + " " * (n - 1),                            MAX_CHARACTERS, "the expression has 100,001 characters; the limit is 100,000"),
    (lambda n: "(" * n + "x" + ")" * n,                        MAX_NESTING,    "nested deeper than 500 brackets"),
    (lambda n: "[" * n + "x" + "]" * n,                        MAX_NESTING,    "nested deeper than 500 brackets"),
    (lambda n: "sin(" * n + "x" + ")" * n,                     MAX_NESTING,    "nested deeper than 500 brackets"),
    (lambda n: "(1 + " * n + "x" + ")" * n,                    MAX_NESTING,    "nested deeper than 500 brackets"),
    (lambda n: "(1 if x > 0 else " * n + "x" + ")" * n,        MAX_NESTING,    "nested deeper than 500 brackets"),
    *((lambda n, op=op: chain(op, n),                          MAX_CHAIN,      "more than 2,500 operators in a row")
      for op in ("+", "-", "*", "/", "**", "^", "@", " < ", " and ", " or ", "not ", ".T")),
    (lambda n: "1 if x else " * n + "x",                       MAX_CHAIN,      "more than 2,500 operators in a row"),
    (lambda n: "x + 0." + "0" * (n - 3) + "1",                 MAX_DIGITS,     "a number of 401 characters; the limit is 400"),
    (lambda n: "x" * n,                                        MAX_DIGITS,     "a name of 401 characters; the limit is 400"),
    (lambda n: "[" + "x," * (n - 1) + "]",                     limits.MAX_NODES, "the expression has more than 20,000 parts"),
    (lambda n: "u = [" + "x," * 9_999 + "]; [" + "x," * (n - 10_001) + "]",
                                                               limits.MAX_NODES, "the expression has more than 20,000 parts"),
    (lambda n: f"x**{n}",                                      limits.MAX_EXPONENT, "the integer exponent 1000001 is over the limit of 1,000,000"),
    (lambda n: f"x^-{n}",                                      limits.MAX_EXPONENT, "the integer exponent -1000001 is over the limit of 1,000,000"),
    (lambda n: f"x**({n} - 1 + 1)",                            limits.MAX_EXPONENT, "the integer exponent 1000001 is over the limit of 1,000,000"),
]
# fmt: on


@pytest.mark.parametrize("row", range(len(TEXTS)))
def test_a_text_at_the_limit_is_accepted(row):
    text, limit, _ = TEXTS[row]
    assert Expression(text(limit)).inputs


@pytest.mark.parametrize("row", range(len(TEXTS)))
def test_a_text_over_the_limit_is_refused(row):
    text, limit, what = TEXTS[row]
    with pytest.raises(TooLarge) as caught:
        Expression(text(limit + 1))
    assert caught.value.what == what


def test_operators_are_counted_per_argument_and_per_statement():
    half = chain("+", MAX_CHAIN - 1)
    assert Expression(f"u = {half}; v = {half}; [{half}, u, v]").inputs == ("x",)


@pytest.mark.parametrize("text", ["x**1e7", "x**n", "2**1e6"])
def test_only_integer_exponents_are_limited(text):
    assert Expression(text)


# Entries of one value: a limit of exactly its size admits it, one less refuses it.

AT = {
    "x": np.float64(2.0), "v": np.ones(4), "w": np.ones(3), "W": np.ones((3, 4)), "r": np.ones((1, 4)), "c": np.ones((5, 1)),
    "T": np.ones((6, 3, 2)), "U": np.ones((6, 2, 5)),
}  # fmt: skip
# fmt: off
SIZES = [
    ("zeros((3, 4))",                      12), ("zeros(shape=(3, 4))",              12), ("ones(7)",                    7),
    ("full((3, 4), x)",                    12), ("full(value=x, shape=(3, 4))",      12), ("eye(4)",                     16),
    ("identity(3)",                         9), ("onehot(2, 5)",                      5), ("onehot(n=5, k=2)",           5),
    ("linspace(0, 1, 9)",                   9), ("linspace(0, 1)",                   50), ("linspace(num=9, start=0, stop=1)", 9),
    ("linspace(0, 1, num=9)",               9), ("arange(8)",                         8), ("arange(2, 8)",               6),
    ("arange(0, 1, 0.25)",                  4), ("arange(0, 1, 0.3)",                 4), ("arange(5, 0, -1)",           5),
    ("c + r",                              20), ("c**r",                             20), ("maximum(c, r)",             20),
    ("c < r",                              20), ("c >= r",                           20), ("where(c, r, x)",            20),
    ("mse(c, r)",                          20), ("fmax(c, r)",                       20), ("c if x > r else 0",         20),
    ("outer(v, w)",                        12), ("tensordot(v, w, 0)",               12), ("c != r",                    20),
    ("W @ v",                               3), ("c @ r",                            20), ("matmul(c, r)",              20),
    ("dot(c, r)",                          20), ("T @ U",                            90), ("hypot(c, r)",               20),
    ("einsum('i,j->ij', v, w)",            12), ("einsum('i,j', v, w)",              12), ("einsum('...i,...j->...ij', v, w)", 12),
    ("broadcast_to(v, (3, 4))",          12), ("broadcast_to(v, shape=(3, 4))", 12),
    ("repeat(v, 3)",                       12), ("repeat(v, repeats=3)",             12), ("repeat(W, 2, axis=0)",      24),
    ("diag(v)",                            16), ("diag(w, 2)",                       25), ("diag(w, k=-2)",             25),
    ("tril(v)",                            16), ("triu(v)",                          16), ("[v, v, v]",                 12),
    ("r[[0, 0, 0]]",              12),
]
# fmt: on


@pytest.mark.parametrize(("text", "count"), SIZES)
def test_a_value_of_just_the_limit_is_admitted(text, count, monkeypatch):
    monkeypatch.setattr(limits, "MAX_ENTRIES", count)
    f = Expression(text)
    result, _ = f.survey({name: AT[name] for name in f.inputs})
    assert np.size(result) <= count


@pytest.mark.parametrize(("text", "count"), SIZES)
def test_a_value_of_one_entry_more_is_refused(text, count, monkeypatch):
    monkeypatch.setattr(limits, "MAX_ENTRIES", count - 1)
    f = Expression(text)
    with pytest.raises(TooLarge, match=f"the result would have {count} entries; the limit is {count - 1}"):
        f.survey({name: AT[name] for name in f.inputs})


LARGE = {"x": np.float64(2.0), "v": np.broadcast_to(1.0, 2**21), "r": np.broadcast_to(1.0, (1, 2**26))}
# fmt: off
HUGE = [
    "zeros(2**40)", "ones((2**20, 2**20))", "full((10**13,), x)", "full(value=x, shape=(10**13,))", "eye(2**21)", "onehot(0, 10**13)",
    "onehot(n=10**13, k=0)", "linspace(0, 1, 10**13)", "linspace(num=10**13, start=0, stop=1)", "arange(1e13)", "arange(0, 1, 1e-13)",
    "outer(v, v)", "diag(v)", "diag([x], k=2**31)", "tril(v)", "triu(v)", "repeat(v, 2**21)", "einsum('i,j', v, v)",
    "einsum('...i,...j->...ij', v, v)", "tensordot(v, v, 0)", "v[:, None]*v", "v[:, None] < v", "v[:, None] if v else 0",
    "v[:, None] @ v[None, :]",
    "broadcast_to(x, (2**21, 2)) @ broadcast_to(x, (2, 2**21))", "where(v[:, None], v, 0)", "broadcast_to(x, (10**13,))", 
    "r[[" + "0, " * 20_000 + "]]", "logaddexp2(v[:, None], v)", "mse(v[:, None], v)",
]
# fmt: on


@pytest.mark.parametrize("text", HUGE, ids=[text[:40] for text in HUGE])
def test_a_huge_value_is_refused_before_it_is_allocated(text):
    f = Expression(text)
    at = {name: LARGE[name] for name in f.inputs}
    tracemalloc.start()
    try:
        with pytest.raises(TooLarge):
            f.survey(at)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < SMALL_MEMORY


def test_the_limits_are_the_documented_ones():
    assert (limits.MAX_ENTRIES, limits.MAX_TOTAL, limits.MAX_EXPONENT, limits.MAX_NODES) == (
        2**27,
        2**30,
        10**6,
        20_000,
    )
    assert MAX_CHARACTERS == 100_000


@pytest.mark.parametrize("extra", [0, 1])
def test_one_value_may_have_so_many_entries_and_no_more(extra):
    f = Expression(f"broadcast_to(x, (2**27 + {extra},))")  # a view: nothing is allocated
    if extra:
        with pytest.raises(TooLarge, match="the result would have 134,217,729 entries; the limit is 134,217,728"):
            f.survey(LARGE)
    else:
        assert np.size(f.survey({"x": LARGE["x"]})[0]) == 2**27


@pytest.mark.parametrize("count", [8, 9])
def test_all_values_together_may_have_so_many_entries_and_no_more(count):
    f = Expression("".join(f"u{k} = broadcast_to(x, (2**27,)); " for k in range(count)) + "3")
    if count * limits.MAX_ENTRIES > limits.MAX_TOTAL:
        with pytest.raises(TooLarge, match="all values together would have over 1,073,741,824 entries"):
            f.survey({"x": LARGE["x"]})
    else:
        assert f.survey({"x": LARGE["x"]})[0] == 3.0


@pytest.mark.parametrize(
    "text",
    [
        "matmul(T, U)", "inner(v, v)", "tensordot(W, W, 2)", "inner(W, W)", "einsum('bij,bjk->bik', T, U)", "T @ U",
    ],
)  # fmt: skip
def test_products_count_the_entries_they_make(text, monkeypatch):
    f = Expression(text)
    at = {name: AT[name] for name in f.inputs}
    inputs = max(np.size(x) for x in at.values())
    monkeypatch.setattr(limits, "MAX_ENTRIES", max(inputs, np.size(f(at))))
    assert np.array_equal(f.survey(at)[0], f(at))


# Values of points obey the same limits.


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("zeros((3, 4))", 12), ("ones(9)", 9), ("randn(3, 4)", 12), ("randn((3, 4))", 12), ("rand(12)", 12), ("spd(3)", 9),
        ("uniform(0, 1, 3, 4)", 12), ("eye(3)", 9), ("onehot(n=5, k=2)", 5), ("linspace(num=9, start=0, stop=1)", 9), ("arange(8)", 8),
        ("[zeros(5), zeros(5)]", 10), ("zeros((3, 1)) + zeros((1, 4))", 12), ("[1, 2, 3, 4]*[[1], [2], [3]]", 12),
        ("uniform(zeros((3, 1)), 1, 3, 4)", 12),
    ],
)  # fmt: skip
def test_a_value_of_a_point_has_the_same_limit(text, count, monkeypatch):
    monkeypatch.setattr(limits, "MAX_ENTRIES", count)
    assert math.prod(np.shape(read([f"x={text}"])[0]["x"])) == count
    monkeypatch.setattr(limits, "MAX_ENTRIES", count - 1)
    with pytest.raises(TooLarge):
        read([f"x={text}"])


@pytest.mark.parametrize(
    "text",
    [
        "randn(2**27 + 1)", "rand(2**20, 2**20)", "uniform(0, 1, 10**13)", "zeros(10**13)", "eye(2**21)", "spd(2**21)", "arange(1e13)",
        "linspace(num=10**13, start=0, stop=1)", "onehot(n=10**13, k=0)", "ones((2**21, 1))*ones((1, 2**21))",
    ],
)  # fmt: skip
def test_a_huge_value_of_a_point_is_refused_before_it_is_allocated(text):
    with pytest.raises(TooLarge):
        read([f"x={text}"])


@pytest.mark.parametrize("text", ["[" * 201 + "1" + "]" * 201, "1" + "+1" * 2501, "1" * 401])
def test_the_text_of_a_value_has_the_limits_of_expressions(text):
    with pytest.raises(TooLarge):
        read([f"x={text}"])
