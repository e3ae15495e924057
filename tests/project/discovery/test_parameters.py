"""What a function says of its arguments."""

from pathlib import Path
from typing import Any

import pytest

from tests.project.discovery.reading import find, found, written
from tests.rows import for_rows


@pytest.fixture(autouse=True)
def _inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def said(folder: Path, head: str, body: str = "    return x\n") -> dict[str, tuple[str, Any, tuple[str, ...]]]:
    """Return kind, sizes and values of the arguments of a function with this head and this body."""
    (gradient,) = found(folder, {"a.py": f"def f({head}):\n{body}\ndef f_grad({head}):\n    return 2 * x\n"}, ("a.py",))
    return {p["name"]: (p["kind"], p["sizes"], p["values"]) for p in gradient["parameters"]}


# fmt: off
ANNOTATED = [  # an annotation, and the kind, sizes and values that it says
    ("int",                      ("integer", None, ())),
    ("float",                    ("number", None, ())),
    ("bool",                     ("flag", None, ())),
    ("str",                      ("text", None, ())),
    ("dict[str, float]",         ("table", None, ())),
    ("Callable",                 ("function", None, ())),
    ("np.ndarray",               ("array", None, ())),
    ("np.ndarray | None",        ("array", None, ())),
    ("Optional[int]",            ("integer", None, ())),
    ("'int | None'",             ("integer", None, ())),
    ("NDArray[np.int64]",        ("integers", None, ())),
    ("list[int]",                ("integers", None, ())),
    ("torch.LongTensor",         ("integers", None, ())),
    ("Literal['mean', 'sum']",   ("text", None, ("mean", "sum"))),
    ("Float[Array, 'n 16']",     ("array", ("n", "16"), ())),
    ("Int[Tensor, 'n']",         ("integers", ("n",), ())),
    ("Float[Array, '']",         ("number", (), ())),
    ("Float[Array, '*batch d']", ("array", None, ())),
    ("Model",                    ("", None, ())),
]
DOCUMENTED = [  # a docstring, and what it says of x
    ("x (n, 16), weight (16,)",                    ("", ("n", "16"), ())),
    ("x: (n, d), weight: (d,).",                   ("", ("n", "d"), ())),
    ("x (n,) of ints",                             ("integers", ("n",), ())),
    ("Parameters\n\n    x : array_like, shape (n, d)\n", ("", ("n", "d"), ())),
    ("x : int array (n,)\n",                       ("integers", ("n",), ())),
    ("x : ndarray of shape (n+1,)",                ("", ("n+1",), ())),
    ("x : int\n        How many.",                 ("integer", None, ())),
    ("x : {'l1', 'l2'}",                           ("text", None, ("l1", "l2"))),
    ("x (optional)",                               ("", None, ())),
    ("x (in, out)",                                ("", None, ())),
    ("x (..., d), the inputs",                     ("", ("d",), ())),
    ("Multiply by x.",                             ("", None, ())),
    ("x is a covariance matrix",                   ("definite", ("n", "n"), ())),
]
USED = [  # a body, and what it says of x
    ("assert x.shape == (n, 16)",                  ("", ("n", "16"), ())),
    ("assert x.shape[1] == 16 and w.ndim == 1",    ("", ("axis_0", "16"), ())),
    ("assert isinstance(x, int)",                  ("integer", None, ())),
    ("assert type(x) is bool",                     ("flag", None, ())),
    ("if not isinstance(x, str): raise TypeError", ("text", None, ())),
    ("assert x.dtype.kind == 'i'",                 ("integers", None, ())),
    ("assert np.asarray(x).dtype.kind == 'i'",     ("integers", None, ())),
    ("assert x.dtype == torch.long",               ("integers", None, ())),
    ("a, b, c = x",                                ("array", ("3",), ())),
    ("n, d = x.shape",                             ("", ("n", "d"), ())),
    ("n, c, h, w = x.shape",                       ("", None, ())),
    ("for k in range(x): pass",                    ("integer", None, ())),
    ("rng = np.random.default_rng(x)",             ("integer", None, ())),
    ("L = np.linalg.cholesky(x)",                  ("definite", ("n", "n"), ())),
    ("L = np.linalg.inv(x)",                       ("", ("n", "n"), ())),
    ("row = w[x]",                                 ("integers", None, ())),
    ("row = w[np.arange(n), x]",                   ("integers", None, ())),
    ("row = x[w]",                                 ("array", ("rows_of_x", "d"), ())),
    ("a = x['W'] @ x['U']",                        ("table", None, ("W", "U"))),
    ("y = x(w)",                                   ("function", None, ())),
    ("y = w if x == 'mean' else 2 * w",            ("text", None, ("mean",))),
    ("y = w if x else 2 * w",                      ("flag", None, ())),
    ("p = np.einsum('bd,bd->b', x, w)",            ("", ("b", "d"), ())),
    ("a = w[x]; p = np.einsum('bkd->bk', a)",      ("integers", ("b", "k"), ())),
    ("p = w.gather(1, x[:, None])",                ("integers", None, ())),
    ("w -= x * np.round(w / x)",                   ("period", None, ())),
    ("w = w - np.floor(w / x + 0.5) * x",          ("period", None, ())),
    ("n = (w / x).round(); w = w - x * n",         ("period", None, ())),
    ("w = w % x",                                  ("period", None, ())),
    ("w = np.mod(w + 1, x)",                       ("period", None, ())),
    ("w = np.where(w > x / 2, w - x, w)",          ("period", None, ())),
    ("w[w > 0.5 * x] -= x",                        ("period", None, ())),
    ("w = x * np.round(w / x)",                    ("", None, ())),
    ("w = np.where(w > x, w - x, w)",              ("", None, ())),
    ("print('%g' % x)",                            ("", None, ())),
]
# fmt: on


@for_rows(("annotation", "says"), ANNOTATED)
def test_an_annotation_says_what_an_argument_is(tmp_path: Path, annotation: str, says: tuple) -> None:
    assert said(tmp_path, f"x: {annotation}, w")["x"] == says


@for_rows(("text", "says"), DOCUMENTED)
def test_a_docstring_says_what_an_argument_is(tmp_path: Path, text: str, says: tuple) -> None:
    assert said(tmp_path, "x, w", f'    """Return it.\n\n    {text}\n    """\n    return x\n')["x"] == says


@for_rows(("body", "says"), USED)
def test_its_use_says_what_an_argument_is(tmp_path: Path, body: str, says: tuple) -> None:
    assert said(tmp_path, "x, w", f"    {body}\n    return x\n")["x"] == says


def test_a_weight_that_multiplies_has_one_entry_a_channel(tmp_path: Path) -> None:
    for body, sizes in (("y = x * weight.to(x.dtype) + bias", ("d",)), ("y = 2 * x @ weight + bias", None),
                        ("y = 2 * x.mm(weight.t()) + bias", None)):  # fmt: skip
        found_ = said(tmp_path, "x, weight, bias", f"    {body}\n    return x\n")
        assert [found_[name][1] for name in ("x", "weight", "bias")] == [None, sizes, sizes]


def test_what_is_asserted_comes_before_annotations_and_these_before_the_docstring(tmp_path: Path) -> None:
    body = '    """x (n,) of ints, k : int"""\n    assert isinstance(k, int)\n    return x\n'
    assert said(tmp_path, "x: np.ndarray, k: float", body) == {"x": ("array", ("n",), ()), "k": ("integer", None, ())}


def test_sizes_that_are_asserted_to_be_equal_have_one_name(tmp_path: Path) -> None:
    body = "    n, c = x.shape\n    o, ci = w.shape\n    assert ci == c\n    return x\n"
    assert [sizes for _, sizes, _ in said(tmp_path, "x, w", body).values()] == [("n", "c"), ("o", "c")]


def test_arguments_by_name_alone_come_last(tmp_path: Path) -> None:
    written(
        tmp_path,
        {"a.py": "def f(x, k=2, *, mode, c=1.5): return x\ndef f_grad(x, k=2, *, mode, c=1.5): return 2 * x\n"},
    )
    (gradient,) = find(["a.py"]).gradients
    assert [(p.name, p.default) for p in gradient.parameters] == [("x", ""), ("k", "2"), ("mode", ""), ("c", "1.5")]


STATES = [  # a function, the kind of its derivative, and what that is by
    ("t, y, p",    "jac",  "y"),
    ("time, x",    "jac",  "x"),
    ("y, t",       "jac",  "y"),
    ("t, y, p",    "grad", ""),
    ("t, a, k, w", "jac",  ""),
    ("y, p",       "jac",  ""),
]  # fmt: skip


@for_rows(("head", "kind", "wrt"), STATES)
def test_the_jacobian_of_a_differential_equation_is_by_the_state(
    tmp_path: Path, head: str, kind: str, wrt: str
) -> None:
    text = f"def rhs({head}): return np.array([1, 2])\ndef rhs_{kind}({head}): return np.array([[1, 2], [2, 3]]) * 2\n"
    (gradient,) = found(tmp_path, {"a.py": text}, ("a.py",))
    assert gradient["wrt"] == wrt
    if wrt:  # as many entries as the function returns
        assert [p["sizes"] for p in gradient["parameters"] if p["name"] == wrt] == [("2",)]


def test_what_solve_ivp_is_given_is_by_the_second_argument(tmp_path: Path) -> None:
    text = "from scipy.integrate import solve_ivp\ndef f(s, a): return -a\ndef g(s, a): return -1 + 0 * a\ndef run(): return solve_ivp(f, (0, 1), [1.0], jac=g)\n"
    (gradient,) = found(tmp_path, {"a.py": text}, ("a.py",))
    assert (gradient["name"], gradient["wrt"]) == ("g", "a")


ONLY_RUN = {
    "nested": ("def fit(x0):\n    def fun(u): return u * u\n    def jac(u): return 2 * u\n    return fun, jac\n", "it stands inside fit"),
    "a lambda": ("from scipy.optimize import minimize\nbest = minimize(abs, 1.0, jac=lambda x: 2 * x)\n", "a lambda has no name"),
    "of a curve": ("from scipy.optimize import curve_fit\ndef f(t, a, b): return a * t + b\ndef f_jac(t, a, b): return np.column_stack([t, 1 + 0 * t])\nfit = curve_fit(f, [1], [2], jac=f_jac)\n", "curve_fit takes a column for each parameter"),
    "a method": ("class A:\n    def f(self, x): return x * x\n    def f_grad(self, x): return 2 * x\n", ""),
}  # fmt: skip


@for_rows("case", ONLY_RUN)
def test_what_no_check_can_name_says_why(tmp_path: Path, case: str) -> None:
    text, why = ONLY_RUN[case]
    assert {g["only_run"] for g in found(tmp_path, {"a.py": text}, ("a.py",))} == {why}


FUNCTION = """import torch
class Op(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w, eps, mode, k: int, bias=None):
        return x * w
    @staticmethod
    def backward(ctx, g):
        return g, {w}, None, None, None, None
def op(x, w, eps=1e-3, mode="none"):
    return Op.apply(x, w, eps, mode, 4)
"""


@for_rows(("w", "wrt"), [("g", ""), ("None", "x")])
def test_a_function_of_torch_has_the_arguments_of_forward(tmp_path: Path, w: str, wrt: str) -> None:
    (gradient,) = found(tmp_path, {"a.py": FUNCTION.replace("{w}", w)}, ("a.py",))
    assert [(p["name"], p["kind"], p["values"]) for p in gradient["parameters"] if not p["default"]] == [
        ("x", "", ()), ("w", "", ()), ("eps", "number", ("0.001",)), ("mode", "text", ("none",)), ("k", "integer", ("4",)),
    ]  # fmt: skip
    assert gradient["wrt"] == wrt


def test_with_setup_context_forward_has_no_context(tmp_path: Path) -> None:
    own = "    @staticmethod\n    def setup_context(ctx, inputs, output): pass\n"
    text = (
        FUNCTION.replace("forward(ctx, x,", "forward(x,")
        .replace("{w}", "g")
        .replace("    @staticmethod\n", own + "    @staticmethod\n", 1)
    )
    (gradient,) = found(tmp_path, {"a.py": text}, ("a.py",))
    assert [p["name"] for p in gradient["parameters"]] == ["x", "w", "eps", "mode", "k", "bias"]
