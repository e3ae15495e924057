"""Custom gradients of frameworks, in the spellings that people use."""

from pathlib import Path

import pytest

from tests.project.discovery.reading import found, names
from tests.rows import for_rows


@pytest.fixture(autouse=True)
def _inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


BODY = "    @staticmethod\n    def forward(ctx, x): return x * 2\n    @staticmethod\n    def backward(ctx, g): return g * 2\n"
TORCH = [
    "import torch\nclass Twice(torch.autograd.Function):\n",
    "import torch.autograd as ag\nclass Twice(ag.Function):\n",
    "from torch import autograd\nclass Twice(autograd.Function):\n",
    "from torch.autograd import Function\nclass Twice(Function):\n",
    "from torch.autograd import Function as F\nclass Twice(F):\n",
    "from torch.autograd.function import InplaceFunction\nclass Twice(InplaceFunction):\n",
]


@for_rows("head", TORCH)
def test_functions_of_torch(tmp_path: Path, head: str) -> None:
    assert names(tmp_path, head + BODY) == [("Twice", "backward", None, "torch")]


def test_a_function_of_torch_that_inherits_its_backward(tmp_path: Path) -> None:
    text = TORCH[0] + BODY + "class Thrice(Twice):\n    @staticmethod\n    def forward(ctx, x): return x * 3\n"
    assert [name for name, *_ in names(tmp_path, text)] == ["Twice", "Thrice"]


@pytest.mark.parametrize("base", ["torch.nn.Module", "object", "Function"])
def test_other_classes_with_backward_are_not_of_torch(tmp_path: Path, base: str) -> None:
    text = f"import torch\nfrom here import Function\nclass Twice({base}):\n    def forward(self, x): return x\n"
    assert names(tmp_path, text) == []


REGISTERED = [
    'torch.library.register_autograd("my::op", back, setup_context=keep)',
    'torch.library.register_autograd("my::op", backward=back)',
    "op.register_autograd(back)",
]


@pytest.mark.parametrize("call", REGISTERED)
def test_registered_operators_of_torch(tmp_path: Path, call: str) -> None:
    text = f"import torch\ndef keep(ctx, inputs, output): pass\ndef back(ctx, g): return g * 2\n{call}\n"
    ((name, kind, of, by),) = names(tmp_path, text)
    assert (name, kind, by) == ("back", "backward", "torch")
    assert of in ("my::op", "op")


RULES = "def f_fwd(x): return x, x\ndef f_bwd(x, g): return (2 * x * g,)\n"
# fmt: off
JAX = {
    "import jax\n@jax.custom_vjp\ndef f(x): return x * x\n" + RULES + "f.defvjp(f_fwd, f_bwd)\n":                        ("f_bwd", "vjp"),
    "from jax import custom_vjp as cv\n@cv\ndef f(x): return x * x\n" + RULES + "f.defvjp(f_fwd, f_bwd)\n":             ("f_bwd", "vjp"),
    "import jax\nfrom functools import partial\n@partial(jax.custom_vjp, nondiff_argnums=(1,))\ndef f(x, n): return x * n\n"
    + RULES + "f.defvjp(f_fwd, f_bwd)\n":                                                                               ("f_bwd", "vjp"),
    "import jax\n@jax.custom_vjp(nondiff_argnums=(1,))\ndef f(x, n): return x * n\n" + RULES + "f.defvjp(f_fwd, bwd=f_bwd)\n": ("f_bwd", "vjp"),
    "import jax\ndef _f(x): return x * x\n" + RULES + "f = jax.custom_vjp(_f)\nf.defvjp(f_fwd, f_bwd)\n":                ("f_bwd", "vjp"),
    "import jax\n@jax.custom_jvp\ndef f(x): return x * x\n@f.defjvp\ndef f_jvp(p, t): return p[0], 2 * t[0]\n":          ("f_jvp", "jvp"),
    "import jax\n@jax.custom_jvp\ndef f(x): return x * x\ndef rule(p, t): return p[0], 2 * t[0]\nf.defjvp(rule)\n":      ("rule", "jvp"),
    "import jax\n@jax.custom_jvp\ndef f(x): return x * x\nf.defjvps(lambda t, y, x: 2 * x * t)\n":                       ("f", "jvp"),
}
OTHERS = {
    "import tensorflow as tf\n@tf.custom_gradient\ndef f(x):\n    def grad(up): return up * 2\n    return x * 2, grad\n":  ("f.grad", "vjp", "tensorflow"),
    "from tensorflow import custom_gradient\n@custom_gradient\ndef f(x):\n    return x * 2, lambda up: up * 2\n":         ("f", "vjp", "tensorflow"),
    "import mlx.core as mx\n@mx.custom_function\ndef f(x): return x * 2\n@f.vjp\ndef f_vjp(p, g, y): return g * 2\n":     ("f_vjp", "vjp", "mlx"),
}
# fmt: on


@for_rows("text", JAX, ids=range(len(JAX)))
def test_custom_rules_of_jax(tmp_path: Path, text: str) -> None:
    name, kind = JAX[text]
    assert names(tmp_path, text) == [(name, kind, "f", "jax")]


@pytest.mark.parametrize("text", OTHERS, ids=range(len(OTHERS)))
def test_custom_gradients_of_tensorflow_and_mlx(tmp_path: Path, text: str) -> None:
    ((name, kind, of, by),) = names(tmp_path, text)
    assert (name, kind, by) == OTHERS[text]
    assert of == "f"


def test_a_base_function_in_another_file(tmp_path: Path) -> None:
    files = {"base.py": TORCH[0] + BODY, "more.py": "from base import Twice\nclass Thrice(Twice):\n    k = 3\n"}
    assert [g["name"] for g in found(tmp_path, files)] == ["Twice", "Thrice"]
