"""Every limit accepts what is just under it and refuses what is just over it, before any array is allocated."""

import math
import tracemalloc
import warnings

import numpy as np
import pytest

from gradcli.errors import BadExpression, BadShape, TooLarge
from gradcli.targets import limits
from gradcli.targets.expression import Expression
from gradcli.targets.names import FUNCTIONS
from gradcli.targets.points import read_points
from gradcli.targets.tokens import MAX_CHAIN, MAX_CHARACTERS, MAX_DIGITS, MAX_NESTING
from tests.rows import for_rows
from tests.targets.calls import VALUES, arguments_of

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
    ("tile(v, 3)",                         12), ("tile(W, (2, 3))",                  72), ("tile(A=v, reps=2)",          8),
    ("resize(v, (3, 5))",                  15), ("pad(v, 2)",                         8), ("pad(W, ((1, 2), (0, 3)))",  42),
    ("pad(v, (1, 2), mode='wrap')",         7), ("kron(v, w)",                       12), ("kron(W, r)",                48),
    ("vander(v)",                          16), ("vander(v, 6)",                     24), ("diagflat(w, 2)",            25),
    ("take(v, [0, 1, 1, 1, 1])",            5), ("take(W, [0, 1, 1, 1], axis=0)",    16), ("linspace(x, 3, 9)",          9),
    ("linspace(v, w[0], 9)",               36), ("logspace(0, x, 9)",                 9), ("geomspace(1, x, 9)",         9),
    ("sliding_window_view(v, 2)",           8), ("zeros_like(v, shape=(5, 6))",      30), ("full_like(v, 2, shape=9)",   9),
    ("one_hot([1, 2, 0], 7)",              21), ("embedding([1, 2, 0, 0], W)",       16), ("linear(r, W, w)",            3),
    ("multi_dot([c, r, v])",               20), ("multi_dot([c, r])",                20), ("insert(v, 1, w)",            7),
    ("cov(W)",                           12), ("cov(W, rowvar=False)",      16),
    ("block([[W, W], [W, W]])",            48), ("meshgrid(v, w)[0]",                24), ("broadcast_arrays(c, r)[0]", 40),
    ("svd(c)[0]",                          27), ("qr(c, 'complete')[0]",             55), ("irfft(v, 7)",               14),
    ("abs(fft(v, 9))",                     18), ("attention(c, c, c)",               25), ("polyint(v, m=3)",            7),
    ("select([c > 0], [r], 0)",            20), ("quantile(v, [0.1, 0.2, 0.3, 0.4, 0.5, 0.6])", 6), ("tri(3, 4)",          12),
    ("percentile(W, [10, 20, 30, 40], axis=0)", 16), ("kaiser(9, 3)", 9),
]
# fmt: on


@for_rows(("text", "count"), SIZES)
def test_a_value_of_just_the_limit_is_admitted(text, count, monkeypatch):
    monkeypatch.setattr(limits, "MAX_ENTRIES", count)
    f = Expression(text)
    result, _ = f.survey({name: AT[name] for name in f.inputs})
    assert np.size(result) <= count


@for_rows(("text", "count"), SIZES)
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
    "tile(x, 10**9)", "tile(v, (2**21,))", "tile(tile(x, 99), 10**8)", "tile(v, 1e9)", "resize(v, 10**13)",
    "pad(x*[1], 10**13)", "pad(v, (0, 2**28))", "pad(r, ((2**5, 0), (0, 0)))", "kron(v, v)", "kron(kron(v[:99], v[:99]), v)",
    "vander(v[:4096], 2**20)", "vander(v)", "diagflat(v)", "diagflat([x], 2**31)", "meshgrid(v, v)[0]", "meshgrid(v[:999], v[:999], v[:999])[0]",
    "broadcast_arrays(v, v[:, None])[0]", "linspace(x, 3, 10**13)", "linspace(0, v, 2**10)", "logspace(0, x, 10**13)", "geomspace(1, x, 10**13)",
    "sliding_window_view(v, 2**10)", "zeros_like(x, shape=10**13)", "ones_like(x, shape=(10**7, 10**7))", "full_like(x, 2, shape=10**13)",
    "one_hot([0], 10**13)", "one_hot(v, 2**20)", "svd(v[:, None])[0]", "qr(v[:, None], mode='complete')[0]", "cov(v[:, None])",
    "corrcoef(v[:, None])", "fft(x*[1], n=10**13)", "irfft(v, n=2**40)", "fft2(v[None, :], s=(2**20, 2**20))", "attention(v[:, None], v[:, None], v[:, None])",
    "multi_dot([v[:, None], v[None, :], v])", "take(v, zeros((10**4, 2**20)))", "select([v[:, None]], [v], 0)", "linear(v[:, None], v[:, None])",
    "lstsq(v[None, :], v[None, :])[0]", "tri(10**7)", "hanning(10**13)",
    "solve(broadcast_to(x, (2**20, 1, 1)), v[None, None, :])", "nll_loss(v[None, :], v[:, None])", "outer(tile([x, x], 10**4), tile([x, x], 10**4))",
    "huber_loss(v[:, None], v)", "batch_norm(v[:, None], v, v)",
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


@for_rows("name", sorted(FUNCTIONS), parts=2)
def test_no_result_has_more_entries_than_were_counted(name):
    arguments, _ = arguments_of(name)
    f = Expression(f"{name}({arguments})")
    last = []
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        f.watched({key: VALUES[key] for key in f.inputs}, lambda step, args, kwargs: last.append((step, args, kwargs)))
        step, args, kwargs = last[-1]
        y = step.function(*args, **kwargs)
    parts = y if isinstance(y, tuple | list) else [y]
    assert sum(np.size(part) for part in parts) <= limits.bound_on_entries(step.function, args, kwargs)


@pytest.mark.parametrize("table", [limits.ENTRIES, limits.STEPS, limits.PRODUCTS])
def test_every_count_takes_the_arguments_of_its_function(table):
    for name, function in FUNCTIONS.items():
        if function in table:
            arguments, _ = arguments_of(name)
            f = Expression(f"{name}({arguments})")
            last = []
            with np.errstate(all="ignore"):
                at = {key: VALUES[key] for key in f.inputs}
                f.watched(at, lambda step, args, kwargs, last=last: last.append((step, args, kwargs)))
            step, args, kwargs = last[-1]
            assert step.function is function
            assert limits.look_up_count(table, function, args, kwargs) > 0 or name in ("polygamma",), name


# fmt: off
@for_rows(
    ("text", "what"),
    [
        ("diff(v, n=10**9)",                   "this call would take 1,000,000,000 steps; the limit is 2,000"),
        ("polyder(v, 10**8)",                  "this call would take 100,000,000 steps; the limit is 2,000"),
        ("polyint(v, m=10**6)",                "this call would take 1,000,000 steps; the limit is 2,000"),
        ("poly(v)",                            "this call would take 2,097,152 steps; the limit is 2,000"),
        ("polyval(v, x)",                      "this call would take 2,097,152 steps; the limit is 2,000"),
        ("vander([x], 10**6)",                 "this call would take 1,000,000 steps; the limit is 2,000"),
        ("polydiv(v, [x])[0]",                 "this call would take 4,194,304 steps; the limit is 2,000"),
        ("polyfit(v, v, 10**5)",               None),
        ("logcumsumexp(v)",                    "this call would take 2,097,152 steps; the limit is 2,000"),
        ("cummax(v)",                          "this call would take 2,097,152 steps; the limit is 2,000"),
        ("split(v, 2**20)[0]",                 "this call would take 1,048,576 steps; the limit is 2,000"),
        ("unstack(v)[0]",                      "this call would take 2,097,152 steps; the limit is 2,000"),
        ("multigammaln(x, 10**9)",             "this call would take 1,000,000,000 steps; the limit is 2,000"),
        ("polygamma(10**9, x)",                "this call would take 100,000,000 steps; the limit is 2,000"),
        ("eval_hermite(10**9, x)",             "this call would take 2,000,000 steps; the limit is 2,000"),
        ("eval_laguerre(1e12, x)",             "this call would take 2,000,000,000 steps; the limit is 2,000"),
        ("convolve(v, v)",                     "this call would take 70,368,744,177,664 multiply-adds; the limit is 274,877,906,944"),
        ("correlate(v, v, 'full')",            "this call would take 70,368,744,177,664 multiply-adds; the limit is 274,877,906,944"),
        ("polymul(v, v)",                      "this call would take 70,368,744,177,664 multiply-adds; the limit is 274,877,906,944"),
        ("broadcast_to(x, (2**13, 2**13)) @ broadcast_to(x, (2**13, 2**13))",
                                               "this call would take 549,755,813,888 multiply-adds; the limit is 274,877,906,944"),
        ("einsum('i,j,k->', v, v, v)",         "this call would take 147,573,952,589,676,412,928 multiply-adds; the limit is 274,877,906,944"),
    ],
)
# fmt: on
def test_a_call_that_would_take_too_long_is_refused_before_it_begins(text, what):
    f = Expression(text)
    with pytest.raises(TooLarge) as caught:
        f.survey({name: LARGE[name] for name in f.inputs})
    assert what is None or caught.value.what == what
    assert caught.value.where is not None


def test_lists_in_lists_are_nested_no_deeper_than_brackets():
    with pytest.raises((BadExpression, BadShape)):
        Expression("block(" + "[" * 400 + "x" + "]" * 400 + ")").survey({"x": np.float64(1.0)})


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


@for_rows(
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


@for_rows(
    ("text", "count"),
    [
        ("zeros((3, 4))", 12), ("ones(9)", 9), ("randn(3, 4)", 12), ("randn((3, 4))", 12), ("rand(12)", 12), ("spd(3)", 9),
        ("uniform(0, 1, 3, 4)", 12), ("eye(3)", 9), ("onehot(n=5, k=2)", 5), ("linspace(num=9, start=0, stop=1)", 9), ("arange(8)", 8),
        ("[zeros(5), zeros(5)]", 10), ("zeros((3, 1)) + zeros((1, 4))", 12), ("[1, 2, 3, 4]*[[1], [2], [3]]", 12),
        ("uniform(zeros((3, 1)), 1, 3, 4)", 12), ("student(5, 3, 4)", 12), ("outliers(3, 4)", 12), ("trained((3, 4))", 12), ("he(3, 4)", 12), ("xavier(3, 4)", 12),
        ("zipf(99, 12)", 12), ("onehots(3, 4)", 12), ("ragged(3, 4)", 12), ("causal(3)", 9), ("spd(n=3)", 9),
    ],
)  # fmt: skip
def test_a_value_of_a_point_has_the_same_limit(text, count, monkeypatch):
    monkeypatch.setattr(limits, "MAX_ENTRIES", count)
    assert math.prod(np.shape(read_points([f"x={text}"])[0]["x"])) == count
    monkeypatch.setattr(limits, "MAX_ENTRIES", count - 1)
    with pytest.raises(TooLarge):
        read_points([f"x={text}"])


@for_rows(
    "text",
    [
        "randn(2**27 + 1)", "rand(2**20, 2**20)", "uniform(0, 1, 10**13)", "zeros(10**13)", "eye(2**21)", "spd(2**21)", "arange(1e13)",
        "linspace(num=10**13, start=0, stop=1)", "onehot(n=10**13, k=0)", "ones((2**21, 1))*ones((1, 2**21))",
        "student(5, 2**28)", "outliers(2**20, 2**20)", "trained(2**27 + 1)", "zipf(2, 10**13)", "onehots(2**20, 2**20)",
        "ragged(2**20, 2**20)", "causal(2**21)",
    ],
)  # fmt: skip
def test_a_huge_value_of_a_point_is_refused_before_it_is_allocated(text):
    with pytest.raises(TooLarge):
        read_points([f"x={text}"])


@pytest.mark.parametrize("text", ["[" * 201 + "1" + "]" * 201, "1" + "+1" * 2501, "1" * 401])
def test_the_text_of_a_value_has_the_limits_of_expressions(text):
    with pytest.raises(TooLarge):
        read_points([f"x={text}"])
