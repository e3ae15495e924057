"""Gradients that names show, and what names must not be taken for gradients."""

from pathlib import Path

import pytest

from tests.project.discovery.reading import HEAD, names
from tests.rows import for_rows


@pytest.fixture(autouse=True)
def _inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


F = "def {f}(x, c=1.0):\n    return c * x**2\n\n\n"
G = "def {g}(x, c=1.0):\n    return 2 * c * x\n"

# fmt: off
SPELLINGS = [  # the function, its gradient, which derivative
    ("focal",        "focal_grad",       "grad"),
    ("focal",        "grad_focal",       "grad"),
    ("focal",        "dfocal",           "grad"),
    ("focal",        "focal_gradient",   "grad"),
    ("focal",        "gradient_of_focal", "grad"),
    ("focal",        "_focal_grad",      "grad"),
    ("_focal",       "_focal_grad",      "grad"),
    ("focal",        "focal_jac",        "jac"),
    ("focal",        "focal_jacobian",   "jac"),
    ("focal",        "focal_hess",       "hess"),
    ("focal",        "focal_hessian",    "hess"),
    ("focal",        "focal_hvp",        "hvp"),
    ("focal",        "focal_hess_prod",  "hvp"),
    ("focal",        "focal_jvp",        "jvp"),
    ("focal",        "focal_vjp",        "vjp"),
    ("focal",        "_vjp_focal",       "vjp"),
    ("focal",        "focal_prime",      "grad"),
    ("sigmoid",      "sigmoid_derivative", "grad"),
    ("rosen",        "rosen_der",        "grad"),
    ("focal_loss",   "focal_grad",       "grad"),
    ("focalLoss",    "focalGrad",        "grad"),
    ("compute_cost", "compute_gradient", "grad"),
    ("loss",         "gradient",         "grad"),
    ("cost",         "cost_grad",        "grad"),
    ("fun",          "jac",              "jac"),
    ("f",            "fprime",           "grad"),
    ("f",            "df",               "grad"),
    ("loglike",      "score",            "grad"),
    ("loglike_obs",  "score_obs",        "grad"),
    ("loglikeobs",   "score_obs",        "grad"),
    ("nloglike",     "nscore",           "grad"),
    ("neg_loglike",  "neg_score",        "grad"),
]
# fmt: on


@for_rows(("f", "g", "kind"), SPELLINGS, ids=lambda text: text)
def test_a_pair_is_found(tmp_path: Path, f: str, g: str, kind: str) -> None:
    assert names(tmp_path, F.format(f=f) + G.format(g=g)) == [(g, kind, f, "name")]


@for_rows(("f", "g", "kind"), SPELLINGS, ids=lambda text: text)
def test_a_pair_of_methods_is_found(tmp_path: Path, f: str, g: str, kind: str) -> None:
    text = "class Model:\n" + "".join(
        f"    {line}\n" if line else "\n"
        for line in (F.format(f=f) + G.format(g=g)).replace("(x,", "(self, x,").split("\n")
    )
    assert names(tmp_path, text) == [(f"Model.{g}", kind, f"Model.{f}", "name")]


@for_rows(("f", "g", "kind"), SPELLINGS[:4], ids=lambda text: text)
def test_a_pair_inside_a_function_is_found(tmp_path: Path, f: str, g: str, kind: str) -> None:
    inner = (F.format(f=f) + G.format(g=g)).replace("\n", "\n    ")
    assert names(tmp_path, f"def fit(data):\n    {inner}\n    return data\n") == [
        (f"fit.{g}", kind, f"fit.{f}", "name")
    ]


@for_rows("mark", ["@staticmethod", "@classmethod", "@jit", "@jit(nopython=True)"])
def test_decorated_methods_are_found(tmp_path: Path, mark: str) -> None:
    first = "" if mark == "@staticmethod" else "self, "
    text = f"class A:\n    {mark}\n    def loss({first}w):\n        return w @ w\n\n    {mark}\n    def grad({first}w):\n        return 2 * w\n"
    assert names(tmp_path, text) == [("A.grad", "grad", "A.loss", "name")]


TRAPS = {
    "a verb":                     "def make(x): return x + 1\ndef make_grad(x): return x * 2\n",
    "requires_grad":              "def requires(x): return x + 1\ndef requires_grad(x): return x * 2\n",
    "zero_grad":                  "def zero(x): return x * 0\ndef zero_grad(x): return x * 0\n",
    "no_grad":                    "def no(x): return -x\ndef no_grad(x): return x * 1\n",
    "clip_grad":                  "def clip(x): return x + 1\ndef clip_grad(x): return x / 2\n",
    "a norm":                     "def norm(x): return x @ x\ndef grad_norm(x): return x @ x\n",
    "dtype":                      "def type(x): return x * 1\ndef dtype(x, y=1): return x * 2\n",
    "data":                       "def ata(x): return x.T @ x\ndef data(path): return open(path)\n",
    "one half":                   "def focal_grad(x): return 2 * x\n",
    "halves in two scopes":       "def focal(x): return x * x\ndef g(x):\n    def focal_grad(y): return 2 * y\n    return focal_grad(x)\n",
    "not implemented":            "def f(x): return x * x\ndef f_grad(x):\n    'later'\n    raise NotImplementedError\n",
    "only a docstring":           "def f(x): return x * x\ndef f_grad(x):\n    'later'\n",
    "pass":                       "def f(x): return x * x\ndef f_grad(x): pass\n",
    "an ellipsis":                "def f(x): return x * x\ndef f_grad(x): ...\n",
    "no parameter":               "def f(x): return x * x\ndef f_grad(): return 3\n",
    "an abstract method":         "class A:\n    def f(self, x): return x * x\n    @abstractmethod\n    def f_grad(self, x): return x\n",
    "a property":                 "class A:\n    def loss(self): return 1 + 1\n    @property\n    def grad(self): return self._g * 1\n",
    "a stored gradient":          "class A:\n    def loss(self): return self.x + 1\n    def grad(self): return self._grad\n",
    "super alone":                "class A(B):\n    def loglike(self, p): return p @ p\n    def score(self, p): return super().score(p)\n",
    "an accuracy":                "class A:\n    def predict(self, X): return X @ self.w\n    def score(self, X, y): return (self.predict(X) == y).mean()\n",
    "a score of a test":          "def f1(a, b): return a * b\ndef f1_score(a, b): return a / b\n",
    "numerical differences":      "def f(x): return x @ x\ndef f_grad(x): return approx_fprime(x, f, 1e-8)\n",
    "differences, kept first":    "def f(x): return x @ x\ndef f_grad(x):\n    g = numdiff.approx_fprime(x, f)\n    return g.ravel()\n",
    "automatic differentiation":  "import jax\ndef f(x): return x @ x\ndef f_grad(x): return jax.grad(f)(x)\n",
    "torch's":                    "import torch\ndef f(x): return x @ x\ndef f_grad(x):\n    y = f(x)\n    y.backward()\n    return x.grad\n",
    "a loop of training":         "def step(w): return w\ndef train_step(w):\n    loss, grad = w.sum(), w * 2\n    return loss, grad\n",
    "automatic, both":            "import jax\ndef run(w):\n    loss, grad = jax.value_and_grad(f)(w)\n    return loss, grad\n",
    "a factory":                  "def build(x):\n    def f(w): return w\n    def g(w): return w\n    loss, grad = f, g\n    def gradient(w): return w * x\n    return loss, gradient\n",
    "a robot":                    "class R:\n    def forward(self, d): self.x += d\n    def backward(self, d): self.x -= d\n",
    "parameters that save":       "def save(net, path): open(path)\nclass L:\n    def loss(self, x): return x.sum(), {'accuracy': x.mean()}\n",
    "an operator of a library":   "class B:\n    def prepare_function(self, f): return f\n    def generate_gradient_operator(self, f): return lambda x: self.take(f, x) * 1\n",
    "a training engine":          "class E:\n    def forward(self, x): return self.net(x)\n    def backward(self, loss): loss.backward()\n",
    "a colour":                   "def color(x): return x + 1\ndef color_gradient(x): return x * 2\n",
}  # fmt: skip


@for_rows("case", TRAPS)
def test_no_gradient_is_seen(tmp_path: Path, case: str) -> None:
    assert [found for found in names(tmp_path, TRAPS[case]) if not found[0].startswith("build.")] == []


DIFFERENCES = {  # the body of a function beside f, and the word in its name
    "central":               "grad: g = np.zeros_like(x)\n    for i in range(x.size):\n        e = np.zeros_like(x); e[i] = h\n        g[i] = (f(x + e) - f(x - e)) / (2 * h)\n    return g",
    "forward, in place":     "grad: f0 = f(x)\n    g = np.empty_like(x)\n    for i in range(len(x)):\n        old = x[i]\n        x[i] = old + h\n        g[i] = (f(x) - f0) / h\n        x[i] = old\n    return g",
    "kept first":            "grad: g = []\n    for e in np.eye(3):\n        up, down = f(x + h * e), f(x - h * e)\n        g.append((up - down) / (2.0 * h))\n    return np.array(g)",
    "a comprehension":       "grad: return np.array([(f(x + h * e) - f(x - h * e)) / (2 * h) for e in np.eye(len(x))])",
    "divided at the end":    "grad: d = np.zeros(3)\n    for i, e in enumerate(np.eye(3)):\n        d[i] = float(f(x + h * e)) - float(f(x - h * e))\n    return d / (2 * h)",
    "a step in numbers":     "grad: return (f(x + 1e-6) - f(x - 1e-6)) / 2e-6",
    "a complex step":        "grad: return f(x + 1j * h).imag / h",
    "a Hessian of gradients": "hess: return np.array([(f_grad(x + h * e) - f_grad(x - h * e)) / (2 * h) for e in np.eye(3)])",
}  # fmt: skip
BY_HAND = {  # which call f, subtract and divide, and are derivatives by hand
    "by the value":          "grad: y = f(x)\n    return (y - y**2) / h + h",
    "at one point":          "grad: return (f(x + h) - 1) / h",
    "no step":               "grad: return (f(x) - f(2 * x)) / np.sum(x)",
    "another function":      "grad: return (np.exp(x + h) - np.exp(x - h)) / (2 * h)",
    "compared only":         "grad: g = 4 * x**3\n    error = g - (f(x + h) - f(x - h)) / (2 * h)\n    assert abs(error) < 1\n    return g",
}  # fmt: skip


def beside(word: str, body: str) -> str:
    return f"def f(x): return np.sum(x**4)\ndef f_{word}(x, h=1e-6):\n    {body}\n"


@for_rows("case", DIFFERENCES)
def test_what_is_computed_by_differences_is_no_gradient_by_hand(tmp_path: Path, case: str) -> None:
    assert names(tmp_path, beside(*DIFFERENCES[case].split(": ", 1))) == []


@for_rows("case", BY_HAND)
def test_a_gradient_that_calls_its_function_is_one_by_hand(tmp_path: Path, case: str) -> None:
    assert names(tmp_path, beside(*BY_HAND[case].split(": ", 1))) == [("f_grad", "grad", "f", "name")]


def test_differences_that_scipy_is_given_are_no_gradient_by_hand(tmp_path: Path) -> None:
    text = beside(*DIFFERENCES["central"].split(": ", 1))
    assert names(tmp_path, HEAD + text + "def fit(x0): return minimize(f, x0, jac=f_grad)\n") == []


LINK = """class Log:
    def __call__(self, p): return np.log(p)
    def inverse(self, z): return np.exp(z)
    def deriv(self, p): return 1.0 / p
    def deriv2(self, p): return -1.0 / p**2
    def inverse_deriv(self, z): return np.exp(z)
"""
NORM = "class Huber:\n    def rho(self, z): return z * z\n    def psi(self, z): return 2 * z\n    def psi_deriv(self, z): return 2 + 0 * z\n"
SHAPES_OF_PASSES = {  # code, and the one gradient that it has
    "a step of a network":  ("def lstm_step_forward(x): return x, 2\ndef lstm_step_backward(dh, cache): return dh * cache\n", "lstm_step_backward"),
    "a kind of the pass":   ("def conv_forward_naive(x): return x, 2\ndef conv_backward_naive(dout, cache): return dout * cache\n", "conv_backward_naive"),
    "parameters alone":     ("class E:\n    def forward(self, i): return self.W[i]\n    def backward(self, g): self.dW = np.add.at(self.dW, self.i, g)\n", "E.backward"),
    "the slope left out":   ("class S:\n    def forward(self, x): return np.exp(x)\n    def backward(self, g): return g\n", "S.backward"),
    "no cotangent":         ("class N:\n    def forward(self, x): return self.l.forward(x)\n    def backward(self): return self.l.backward(1)\n", "N.backward"),
    "a dict of gradients":  ("class C:\n    def loss(self, X): return (X @ self.p['W']).sum(), {'W': X.T}\n", "C.loss"),
    "an engine":            ("class V:\n    def __add__(self, o):\n        out = V(self.d + o.d)\n        def _backward(): self.g += out.g\n        out._backward = _backward\n        return out\n    def backward(self): self._backward()\n", "V.backward"),
}  # fmt: skip


@for_rows("case", SHAPES_OF_PASSES)
def test_every_shape_of_backward_passes_is_found_once(tmp_path: Path, case: str) -> None:
    code, name = SHAPES_OF_PASSES[case]
    assert [found for found, *_ in names(tmp_path, code)] == [name]


LAYER = (
    "class Tanh:\n    def forward(self, x): return np.tanh(x)\n    def backward(self, g): return g * (1 - self.y**2)\n"
)


def test_links_norms_and_layers(tmp_path: Path) -> None:
    assert [(name, kind) for name, kind, *_ in names(tmp_path, LINK + NORM + LAYER)] == [
        ("Log.deriv", "grad"), ("Log.deriv2", "hess"), ("Log.inverse_deriv", "grad"),
        ("Huber.psi", "grad"), ("Huber.psi_deriv", "grad"), ("Tanh.backward", "backward"),
    ]  # fmt: skip


CLASS = "class A:\n" + "".join(
    f"    def {name}(self, x, exog): return x * exog\n" for name in ("predict", "loss", "psi")
)
OF_METHODS = {  # a method beside predict, loss and psi, and which derivative of what it is
    "psi_deriv":          ("grad", "A.psi"),
    "psi_derivative":     ("grad", "A.psi"),
    "deriv_psi_dexog":    ("grad", "A.psi"),
    "hessian":            ("hess", "A.loss"),
    "grad_vectorized":    ("grad", "A.loss"),
    "grad_exog":          ("grad", "A.predict"),
    "grad_by_exog":       ("grad", "A.predict"),
    "hessian_factor":     ("hess", None),
    "jac_error":          ("jac", None),
    "_deriv_mean_dparams": ("grad", None),
    "deriv3_psi":         ("grad", None),
}  # fmt: skip


@for_rows("name", OF_METHODS)
def test_what_a_method_is_a_derivative_of_is_said_only_where_its_name_does(tmp_path: Path, name: str) -> None:
    kind, of = OF_METHODS[name]
    text = f"{CLASS}    def {name}(self, x, exog): return 2 * x\n"
    assert (f"A.{name}", kind, of, "name") in names(tmp_path, text)


def test_higher_derivatives_are_those_of_the_one_below(tmp_path: Path) -> None:
    text = "class T:\n" + "".join(
        f"    def {name}(self, z): return z * z\n"
        for name in ("inverse", "deriv2_inverse", "deriv3_inverse", "deriv4_inverse")
    )
    assert [(name, kind, of) for name, kind, of, _ in names(tmp_path, text)] == [
        ("T.deriv2_inverse", "hess", "T.inverse"), ("T.deriv3_inverse", "grad", "T.deriv2_inverse"),
        ("T.deriv4_inverse", "grad", "T.deriv3_inverse"),
    ]  # fmt: skip


def test_no_map_has_a_hessian(tmp_path: Path) -> None:
    text = "class A:\n    def predict(self, x): return x * x\n    def hessian(self, x): return 2 * x\n"
    assert names(tmp_path, text) == [("A.hessian", "hess", None, "name")]


def test_a_penalty_is_known_by_reg(tmp_path: Path) -> None:
    text = "def make(c):\n    def reg_l2(G): return np.sum((G - c) ** 2) / 2\n    def grad_l2(G): return G - c\n    return reg_l2, grad_l2\n"
    assert names(tmp_path, text) == [("make.grad_l2", "grad", "make.reg_l2", "name")]


BOTH = {
    "by name":        "def value_and_grad(w): return w @ w, 2 * w\n",
    "by return":      "def objective(w):\n    loss = w @ w\n    grad = 2 * w\n    return loss, grad\n",
    "by short names": "def objective(w):\n    cost, dJ = w @ w, 2 * w\n    return cost, dJ\n",
    "by a parameter": "def svm(W, X):\n    loss = (X @ W).sum()\n    dW = X.sum(axis=0)\n    return loss, dW\n",
    "the cost last":  "def propagate(w, X):\n    cost = (X @ w).sum()\n    grads = {'dw': X.sum(axis=0)}\n    return grads, cost\n",
    "by a flag":      "def kernel(w, eval_gradient=False):\n    K = w @ w\n    if eval_gradient:\n        return K, 2 * w\n    return K\n",
    "in a class":     "class A:\n    def value_and_grad(self, w): return w @ w, 2 * w\n",
}  # fmt: skip


@for_rows("case", BOTH)
def test_a_function_that_returns_both_is_found(tmp_path: Path, case: str) -> None:
    ((_, kind, of, by),) = names(tmp_path, BOTH[case])
    assert (kind, of, by) == ("value-and-grad", None, "name")


def test_a_base_class_in_another_file_has_the_function(tmp_path: Path) -> None:
    from tests.project.discovery.reading import found

    files = {
        "pkg/__init__.py": "",
        "pkg/base.py": "class Model:\n    def loglike(self, params): return params @ params\n",
        "pkg/poisson.py": "from .base import Model\nclass Poisson(Model):\n    def score(self, params): return 2 * params\n",
        "pkg/logit.py": "import pkg.base as b\nclass Logit(b.Model):\n    def hessian(self, params): return 2 * params\n",
    }
    assert [(g["name"], g["of"]) for g in found(tmp_path, files)] == [
        ("Logit.hessian", "Model.loglike"), ("Poisson.score", "Model.loglike"),
    ]  # fmt: skip


def test_a_product_inside_a_gradient_is_found(tmp_path: Path) -> None:
    text = "class L:\n    def loss(self, w): return w @ w\n    def gradient_hessian(self, w):\n        def hessp(s): return 2 * s\n        return 2 * w, hessp\n"
    assert [name for name, *_ in names(tmp_path, text)] == ["L.gradient_hessian", "L.gradient_hessian.hessp"]


def test_what_is_written_into_an_argument_is_found(tmp_path: Path) -> None:
    text = "def layer_grad(delta, coef_grads):\n    coef_grads[0] = delta * 2\n"
    assert names(tmp_path, text) == [("layer_grad", "grad", None, "name")]


def test_the_same_name_twice_is_two_gradients(tmp_path: Path) -> None:
    text = "def fit(k):\n" + "".join(
        f"    {w} k == {k}:\n        def g(x): return x**{k}\n        def gprime(x): return {k} * x\n"
        for k, w in enumerate(("if", "elif"))
    )
    assert [name for name, *_ in names(tmp_path, text)] == ["fit.gprime", "fit.gprime"]
