"""What expressions mean: precedence, names, calls, conditionals, and the same values as Python and numpy."""

import math
import pickle
import warnings

import numpy as np
import pytest
import scipy.special
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from gradcli.errors import GradcliError
from gradcli.targets.expression import Expression
from gradcli.targets.names import CONSTANTS, FUNCTIONS, PREFIXES
from tests.rows import for_rows
from tests.targets.calls import ROUNDED, VALUES, arguments_of, reference

x, y, v, w, u, A, B, W = VALUES.values()


def value(text, **values):
    values = VALUES | values
    f = Expression(text)
    at = {name: values[name] for name in f.inputs}
    with np.errstate(all="ignore"):
        found, _ = f.survey(at)
        np.testing.assert_array_equal(found, f(at))
    return found


# fmt: off
ARITHMETIC = [
    ("2^3^2",          512.0),
    ("-2^2",           -4.0),
    ("2^-1",           0.5),
    ("2*3^2",          18.0),
    ("-x^2",           -0.25),
    ("x**2 == x^2",    1.0),
    ("7 // 2",         3.0),
    ("-7 // 2",        -4.0),
    ("-7 % 3",         2.0),
    ("1/3",            1 / 3),
    ("10^20",          1e20),
    ("2^0.5",          2**0.5),
    ("1_000 + .5 + 1.", 1001.5),
    ("+x",             0.5),
    ("--x",            0.5),
    ("9007199254740993", 9007199254740992.0),
]
CONSTANT = [
    ("pi",       np.pi),  ("e",       np.e),  ("inf",         np.inf), ("-inf",     -np.inf),
    ("np.pi",    np.pi),  ("math.e",  np.e),  ("torch.pi",    np.pi),  ("np.inf",   np.inf),
]
STATEMENTS = [
    ("u = x*2; t = u + 1; t**2",      4.0),
    ("u = x*2\nt = u + 1\nt**2",      4.0),
    ("x = x + 1; x",                  1.5),
    ("a = 3; a = 4; a + x",           4.5),
    ("t = x; t",                      0.5),
    ("pi = 3; pi",                    3.0),
    ("sin = 2; sin*sin(0)",           0.0),
    ("r = x",                         0.5),
    ("sum([\n  x,  # one\n  y\n])",   -0.75),
]
ARRAYS = [
    ("[x, y]",              [0.5, -1.25]),
    ("[[x, y], [1, 2]]",    [[0.5, -1.25], [1, 2]]),
    ("[v, w]",              np.stack([v, w])),
    ("v[0]",                v[0]),
    ("v[-1]",               v[-1]),
    ("v[1:]",               v[1:]),
    ("v[:-1]",              v[:-1]),
    ("v[::2]",              v[::2]),
    ("v[::-1]",             v[::-1]),
    ("v[1 + 1]",            v[2]),
    ("v[[0, 2, 0]]",        v[[0, 2, 0]]),
    ("W[0, :]",             W[0, :]),
    ("W[:, 1]",             W[:, 1]),
    ("W[..., 0]",           W[..., 0]),
    ("W[1]",                W[1]),
    ("v[:, None]",          v[:, None]),
    ("A.T",                 A.T),
    ("(A @ B).T",           (A @ B).T),
    ("A @ u",               A @ u),
    ("u @ A @ u",           u @ A @ u),
    ("v*w",                 v * w),
    ("concatenate([v, u])", np.concatenate([v, u])),
    ("hstack([v, u])",      np.hstack([v, u])),
    ("concatenate((v, u))", np.concatenate([v, u])),
    ("concatenate([A, W], axis=1)", np.concatenate([A, W], axis=1)),
]
KEYWORDS = [
    ("sum(W, axis=0)",                     W.sum(0)),
    ("sum(W, 1)",                          W.sum(1)),
    ("sum(W, axis=-1, keepdims=True)",     W.sum(-1, keepdims=True)),
    ("sum(W, dim=1, keepdim=True)",        W.sum(1, keepdims=True)),
    ("sum(W, axis=(0, 1))",                W.sum()),
    ("mean(W, axis=None)",                 W.mean()),
    ("softmax(W, dim=1)",                  scipy.special.softmax(W, axis=1)),
    ("softmax(W)",                         scipy.special.softmax(W)),
    ("softmax(x=W, axis=0)",               scipy.special.softmax(W, axis=0)),
    ("broadcast_to(x, shape=(3,))",        np.full(3, 0.5)),
    ("var(v, ddof=1)",                     np.var(v, ddof=1)),
    ("gelu(x, approximate='tanh')",        0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))),
    ("einsum('ij,jk->ik', A, B)",          A @ B),
    ("norm(A, 'fro')",                     np.linalg.norm(A)),
    ("norm(v, 1)",                         np.linalg.norm(v, 1)),
    ("norm(v, ord=inf)",                   np.linalg.norm(v, np.inf)),
    ("reshape(W, (3, 2))",                 W.reshape(3, 2)),
]
METHOD_CALLS = [
    ("v.sum()",                  v.sum()),
    ("W.sum(axis=0)",            W.sum(0)),
    ("W.sum(dim=0)",             W.sum(0)),
    ("(v*w).mean()",             (v * w).mean()),
    ("W.max(axis=1)",            W.max(1)),
    ("v.min()",                  v.min()),
    ("v.dot(w)",                 v.dot(w)),
    ("W.reshape(3, 2)",          W.reshape(3, 2)),
    ("W.reshape((3, 2))",        W.reshape(3, 2)),
    ("W.reshape(-1)",            W.reshape(-1)),
    ("W.T.sum(axis=0).max()",    W.sum(1).max()),
]
COMPARISONS = [
    ("x > 0",              1.0),
    ("x < 0",              0.0),
    ("x >= 0.5",           1.0),
    ("x <= 0.4",           0.0),
    ("x == 0.5",           1.0),
    ("x != 0.5",           0.0),
    ("0 < x < 1",          1.0),
    ("0 < x < 1 < y",      0.0),
    ("0 < x > 0.4",        1.0),
    ("x > 0 and y > 0",    0.0),
    ("x > 0 or y > 0",     1.0),
    ("not x > 0",          0.0),
    ("-(x > 0)",           -1.0),
    ("(x > 0) + (x > 0)",  2.0),
    ("greater(x, 0) + greater(x, 0)", 2.0),
    ("v > 0",              [0.0, 0.0, 1.0, 1.0]),
    ("(v > 0)*v",          [0.0, 0.0, 0.3, 1.6]),
    ("-1 < v < 1",         [0.0, 1.0, 1.0, 0.0]),
]
CHOICES = [
    ("1 if x > 0 else 2",                       1.0),
    ("1 if x < 0 else 2",                       2.0),
    ("1 if y > 0 else 2 if x > 0 else 3",       2.0),
    ("v if v > 0 else 0",                       [0.0, 0.0, 0.3, 1.6]),
    ("v if x > 0 else w",                       v),
    ("x if v > 0 else y",                       [-1.25, -1.25, 0.5, 0.5]),
    ("t = (x if x > 0 else y); t*2",            1.0),
    ("where(v > 0, v, -v)",                     abs(v)),
]
EXTREMES = [
    ("max(x, y)",           0.5),
    ("min(x, y)",           -1.25),
    ("max(v, w)",           np.maximum(v, w)),
    ("max(v, 0)",           np.maximum(v, 0)),
    ("max(v)",              1.6),
    ("min(W, axis=0)",      W.min(0)),
    ("np.max(W, 0)",        W.max(0)),
]
FLOATS = [
    ("power(10, 20)",                         1e20),
    ("power(2, -1)",                          0.5),
    ("multiply(4294967296, 4294967296)",      2.0**64),
    ("sum(full(2, 4611686018427387904))",     2.0**63),
    ("prod([4294967296, 4294967296])",        2.0**64),
]
PREFIXED = [
    ("np.sin(x)", np.sin(x)), ("numpy.sin(x)", np.sin(x)), ("np.linalg.norm(v)", np.linalg.norm(v)),
    ("scipy.special.erf(x)", math.erf(0.5)), ("math.exp(x)", math.exp(0.5)), ("jnp.sum(v)", v.sum()),
    ("torch.sigmoid(x)", scipy.special.expit(x)), ("F.softmax(v)", scipy.special.softmax(v)),
    ("torch.nn.functional.relu(y)", 0.0),
]
# fmt: on


@for_rows(
    ("text", "expected"),
    ARITHMETIC
    + CONSTANT
    + STATEMENTS
    + ARRAYS
    + KEYWORDS
    + METHOD_CALLS
    + COMPARISONS
    + CHOICES
    + EXTREMES
    + FLOATS
    + PREFIXED,
)
def test_value(text, expected):
    found = value(text)
    assert np.shape(found) == np.shape(expected)
    np.testing.assert_allclose(found, expected, rtol=1e-15, atol=0)


@for_rows("text", ["1", "x > 0", "v > 0", "isnan(v)", "floor(3)", "maximum(1, 2)", "full((2,), 3)"])
def test_every_value_is_float64(text):
    assert np.asarray(value(text)).dtype == np.float64


@for_rows(("text", "same"), [
    ("softmax_rows(X)", "softmax(X, axis=1)"), ("softmax_columns(X)", "softmax(X, axis=0)"), ("logsumexp_rows(X)", "logsumexp(X, axis=1)"),
    ("max_columns(X)", "max(X, axis=0)"),
])  # fmt: skip
def test_names_that_formulas_print_are_read(text, same):
    X = np.array([[0.5, -0.3, 0.8], [1.1, 0.4, -0.6]])
    np.testing.assert_array_equal(Expression(text)({"X": X}), Expression(same)({"X": X}))


@for_rows("prefix", sorted(PREFIXES))
def test_every_prefix_stands_before_functions_and_constants(prefix):
    name = {
        "F": "tanh",
        "torch.nn.functional": "tanh",
        "torch.linalg": "norm",
        "torch.special": "expit",
        "torch.fft": "fft",
    }
    assert Expression(f"{prefix}.{name.get(prefix, 'sin')}({prefix}.pi*x)").inputs == ("x",)


# fmt: off
@for_rows(
    ("text", "given", "expected"),
    [
        ("x*y + x",              "",    ("x", "y")),
        ("b + a",                "",    ("b", "a")),
        ("pi*r**2",              "",    ("r",)),
        ("pi*r**2",              "pi",  ("pi", "r")),
        ("e*inf",                "e",   ("e",)),
        ("np.e*x",               "e",   ("x",)),
        ("gamma*x",              "",    ("gamma", "x")),
        ("gamma(x)*gamma",       "",    ("x", "gamma")),
        ("sum*max",              "",    ("sum", "max")),
        ("u = x; u + t",         "",    ("x", "t")),
        ("x = x + 1; x",         "",    ("x",)),
        ("a if x > 0 else b",    "",    ("x", "a", "b")),
        ("u = x; 3",             "",    ("x",)),
        ("\u00b5*\u03bc",        "",    ("\u03bc",)),
        ("\ufb01 = 2; fi*x",     "",    ("x",)),
        ("3",                    "",    ()),
    ],
)
# fmt: on
def test_a_name_is_an_input_unless_called_named_or_constant(text, given, expected):
    assert Expression(text, frozenset(filter(None, [given]))).inputs == expected


def test_a_given_constant_takes_the_given_value():
    assert Expression("pi*x", frozenset({"pi"}))({"pi": np.float64(3.0), "x": np.float64(2.0)}) == 6.0


@pytest.mark.parametrize(("text", "at"), [("log(x) if x > 0 else 0", -1.0), ("0 if x <= 0 else 1/x", 0.0)])
def test_a_scalar_condition_computes_only_the_branch_it_takes(text, at):
    with np.errstate(all="raise"):
        assert Expression(text)({"x": np.float64(at)}) == 0.0


def test_a_long_chain_of_conditionals_is_evaluated():
    f = Expression("".join(f"{k} if x < {k} else " for k in range(1200)) + "-1")
    assert f({"x": np.float64(1198.5)}) == 1199.0


# fmt: off
@for_rows(
    ("text", "notice", "under"),
    [
        ("v.T*2",                  ".T of a vector does nothing: for the product of a column and a row write outer(a, b)", "v.T"),
        ("sum(softmax(W))",        "without axis, all entries of the matrix are taken together: write axis=-1 for rows, axis=0 for columns", "softmax(W)"),
        ("logsumexp(W)",           "without axis, all entries of the matrix are taken together: write axis=-1 for rows, axis=0 for columns", "logsumexp(W)"),
        ("cross_entropy(softmax(v), [0, 0, 1, 0])", "these logits look like probabilities: cross_entropy takes the softmax itself",
                                   "cross_entropy(softmax(v), [0, 0, 1, 0])"),
        ("A.T",                    None, None),
        ("softmax(v)",             None, None),
        ("softmax(W, axis=1)",     None, None),
        ("cross_entropy(v, [0, 0, 1, 0])", None, None),
    ],
)  # fmt: skip
# fmt: on
def test_notice(text, notice, under):
    f = Expression(text)
    found = [(n.message, n.at.source) for n in f.survey({name: VALUES[name] for name in f.inputs})[1]]
    assert found == ([(notice, under)] if notice else [])


def test_evaluating_changes_no_input_and_no_later_result():
    f = Expression("a = v; a[1:]*2 + w[1:]")
    before = {"v": v.copy(), "w": w.copy()}
    first = f(before)
    assert np.array_equal(first, f(before))
    assert np.array_equal(before["v"], v) and np.array_equal(before["w"], w)


def test_an_expression_survives_pickling():
    f = Expression("pi*x", frozenset({"pi"}))
    g = pickle.loads(pickle.dumps(f))
    assert (g.text, g.inputs, g({"pi": np.float64(2), "x": x})) == ("pi*x", ("pi", "x"), 1.0)


SPELLINGS = [
    ("x² + x³", "x**2 + x**3"), ("x⁻² * x¹²", "x**-2 * x**12"), ("Wᵀ@u", "W.T@u"), ("A⁻¹ᵀ", "inv(A).T"), ("x⁻¹", "1/x"), ("-x²", "-(x**2)"),
    ("‖v‖² + ‖w - v‖", "norm(v)**2 + norm(w - v)"), ("‖‖v‖*w‖", "norm(norm(v)*w)"), ("v·w", "dot(v, w)"), ("(2)⋅v", "2*v"), ("A·B", "A@B"),
    ("2 − x", "2 - x"), ("x ≤ 1", "x <= 1"), ("x ≥ 1", "x >= 1"), ("x ≠ 1", "x != 1"), ("2⁻¹ * x", "x/2"), ("v@w·2", "dot(v, w)*2"),
]  # fmt: skip


@for_rows(("text", "plain"), SPELLINGS)
def test_a_mathematicians_spelling_is_that_of_the_language(text, plain):
    np.testing.assert_array_equal(value(text), value(plain))


def test_a_logarithm_of_a_negative_determinant_is_no_number():
    assert np.isnan(value("logdet([[0, 1], [1, 0]])"))


@for_rows("name", sorted(FUNCTIONS), parts=3)
def test_every_function_equals_the_one_of_its_name(name):
    arguments, taken = arguments_of(name)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        expected = eval(f"f({arguments}){taken}", {"f": reference(name)} | VALUES)
        found = value(f"{name}({arguments}){taken}")
    assert np.shape(found) == np.shape(expected)
    np.testing.assert_allclose(found, expected, rtol=ROUNDED.get(name, 1e-14), atol=0)


# fmt: off
@for_rows(
    ("text", "expected"),
    [
        ("cross_entropy(W, [2, 0])",      -np.mean(scipy.special.log_softmax(W, axis=1)[[0, 1], [2, 0]])),
        ("cross_entropy(W, [[0, 0, 1], [1, 0, 0]])", -np.mean(scipy.special.log_softmax(W, axis=1)[[0, 1], [2, 0]])),
        ("layer_norm(W, 2, 1, 0)",        2 * (W - W.mean(1, keepdims=True)) / W.std(1, keepdims=True) + 1),
        ("layer_norm(W, eps=3)",          (W - W.mean(1, keepdims=True)) / np.sqrt(W.var(1, keepdims=True) + 3)),
        ("softplus(800*x)",               400.0),
        ("sigmoid(-800)",                 np.exp(-800.0)),
        ("logsumexp([1000, 1000])",       1000 + np.log(2)),
    ],
)
# fmt: on
def test_losses_and_activations(text, expected):
    np.testing.assert_allclose(value(text), expected, rtol=4e-15, atol=0)


# Random expressions.

NAMESPACE = {
    "x": np.float64(0.7), "y": np.float64(-1.3), "z": np.float64(2.1),
    **{name: getattr(np, name) for name in ("sin", "exp", "tanh", "sqrt", "abs", "arctan2", "maximum", "hypot", "sum")},
}  # fmt: skip
ATOMS = st.sampled_from(["x", "y", "z", "2.0", "0.25", "3.5", "1e-3"])


def grown(inner):
    compared = st.builds("{} {} {}".format, inner, st.sampled_from(["<", "<=", ">", ">=", "=="]), inner)
    logical = compared | st.builds("not {}".format, compared) | st.builds("{} and {}".format, compared, compared)
    return (
        st.builds("{} {} {}".format, inner, st.sampled_from(["+", "-", "*", "/", "//", "%"]), inner)
        | st.builds("{}({})".format, st.sampled_from(["sin", "exp", "tanh", "abs"]), inner)
        | st.builds("{}({}, {})".format, st.sampled_from(["arctan2", "maximum", "hypot"]), inner, inner)
        | st.builds("({})**{}".format, inner, st.sampled_from(["2", "3", "-1", "2.0", "x"]))
        | st.builds("-{}".format, inner)
        | st.builds("({})".format, inner)
        | st.builds("sum([{}, {}])".format, inner, inner)
        | st.builds("[{}, {}][1]".format, inner, inner)
        | st.builds("({} if {} else {})".format, inner, logical, inner)
    )


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(st.recursive(ATOMS, grown, max_leaves=12))
def test_random_expressions_evaluate_as_python_does(text):
    with np.errstate(all="ignore"):
        try:
            expected = eval(text, dict(NAMESPACE))
        except ArithmeticError:  # Python's own floats refuse what float64 calls inf or nan
            assume(False)
        f = Expression(text)
        found = f({name: NAMESPACE[name] for name in f.inputs})
    np.testing.assert_allclose(found, float(expected), rtol=1e-13, atol=0)


WORDS = [
    *"xyvWA", *"+-*/^@%<>()[]()[],.;:=\n", "**", "//", "==", "!=", "...", "1", "2", "0.5", "1e400", "'i'", "'ij,j'", "None", "True",
    " if ", " else ", " and ", " or ", " not ", " lambda ", ".T", ".sum()", ".max(", "axis=", "dim=0", "x[", "x)", "[x, y]", "u = ",
    *(f"{name}(" for name in sorted(FUNCTIONS)), *CONSTANTS, "np.", "\u00b5", "\u00b2", "\u221e", "\x00", "{", "}", "!", "\\",
]  # fmt: skip
POINT = {"x": x, "y": y, "v": v, "W": W, "A": A}
CALLS = st.builds(
    "{}({})".format,
    st.sampled_from(sorted(FUNCTIONS)),
    st.lists(
        st.sampled_from([*POINT, "1", "0", "-1", "2.5", "[v, v]", "[x, 2]", "None", "True", "'i'", "(0, 1)", "(2, 2)"])
        | st.builds("{}={}".format, st.sampled_from(["axis", "x", "a", "k", "n", "shape"]), st.sampled_from(["0", "v"])),
        max_size=4,
    ).map(", ".join),
)  # fmt: skip


def only_our_errors(text):
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # numpy's, of arguments that it will refuse
        warnings.simplefilter("ignore", RuntimeWarning)  # as in the program: scipy's, of orders that are no whole numbers
        try:
            f = Expression(text)
            f.survey({name: POINT.get(name, x) for name in f.inputs})
        except GradcliError as error:
            assert error.what


@pytest.mark.slow
@settings(max_examples=500, deadline=None)
@given(st.text(max_size=40) | st.lists(st.sampled_from(WORDS), max_size=20).map("".join))
def test_garbage_raises_only_our_errors(text):
    only_our_errors(text)


@pytest.mark.slow
@settings(max_examples=800, deadline=None)
@example("expn(x, x)")
@example("irfftn(x, 'i')")
@given(CALLS)
def test_random_calls_raise_only_our_errors(text):
    only_our_errors(text)


@for_rows(("text", "right"), [
    ("x[:m]", [0, 1]), ("x[m:]", [2, 3, 4]), ("x[m:m + k]", [2, 3, 4]), ("x[:-m]", [0, 1, 2]), ("x[:2*m - 1]", [0, 1, 2]),
    ("n = 4; x[:n]", [0, 1, 2, 3]), ("X[1:, :m]", [[3, 4], [6, 7]]), ("X[0, :m]", [0, 1]),
])  # fmt: skip
def test_bounds_of_slices_may_be_inputs(text, right):
    point = {"x": np.arange(5.0), "X": np.arange(9.0).reshape(3, 3), "m": np.float64(2), "k": np.float64(3)}
    f = Expression(text)
    np.testing.assert_array_equal(f({name: point[name] for name in f.inputs}), right)
    assert f.places == f.bounds == {*f.inputs} - {"x", "X"}


@pytest.mark.parametrize("f", ["sum(x[:m]**2)", "sum(x[m:m + k]**2)", "sum(x[k:m]**2)", "sum(x[:-m]**2)"])
def test_bounds_that_are_drawn_leave_entries_in_the_slice(gradcli, f):
    ran = gradcli("grad", f, "--shapes", "x: 3", "--json")
    assert np.any(ran.json["gradient"]["x"]), ran.stdout


@pytest.mark.parametrize("argv", [("grad", "sum(x[:m])", "--at", "x=[1, 2], m=1"), ("check", "x[m]", "--at", "x=[1, 2], m=1")])
def test_no_derivative_by_a_position_is_computed(gradcli, argv):
    ran = gradcli(*argv, "--wrt", "m")
    assert (ran.exit_status, ran.stdout) == (2, "")
    assert ran.stderr == "error: m is a position, and no derivative by it exists\n  --wrt x\n"
