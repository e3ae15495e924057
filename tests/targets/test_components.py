"""Objects that hold a function and its derivative: forward and backward passes, components of OpenMDAO."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradcli import check
from gradcli.targets.components import component_of
from tests.targets.test_loading import written

QUICK = ("--modes", "forward,reverse,fd")
PASSES = """
    class Tanh:
        def forward(self, x):
            self.y = np.tanh(x)
            return self.y
        def backward(self, dout): return dout*(1 - self.y**2)
    class Wrong(Tanh):
        def backward(self, dout): return dout*(1 - self.y)
    class Unused(Tanh):
        def backward(self, dout): return 1 - self.y**2
    class Linear:
        def __init__(self, n, m):
            self.W = np.random.default_rng(0).normal(size=(m, n))
        def forward(self, x):
            self.x = x
            return x @ self.W.T
        def backward(self, output_gradient, learning_rate):
            found = output_gradient @ self.W
            self.W -= learning_rate*(output_gradient.T @ self.x)
            return found
    linear = Linear(3, 2)
    class Loss:
        def forward(self, p, t):
            self.p, self.t = p, t
            return np.mean((p - t)**2)
        def backward(self):
            found = 2*(self.p - self.t)/self.p.size
            return found, -found
    class Two:
        def forward(self, a, b):
            self.a, self.b = a, b
            return a*b
        def backward(self, g): return g*self.b, g*self.a
    class Optional:
        def forward(self, x, train=True):
            self.x = x
            return x**2 if train else x
        def backward(self, dout): return 2*self.x*dout
    class Named:
        def forward(self, x): return x**2
        def backward(self, dout, x): return 2*x*dout
    class Opaque(Tanh):
        def forward(self, x):
            self.y = np.array([float(np.tanh(float(t))) for t in x])
            return self.y
    class Many(Tanh):
        def backward(self, g): return g, g
    class Cached(Tanh):
        def backward(self, dout, cache): return dout
    class Called(Cached):
        def __call__(self, x): return self.forward(x)
    called = Called()
    class Raises:
        def __init__(self): raise ValueError("no data")
        def forward(self, x): return x
        def backward(self, g): return g
"""
X = ("x=[0.5, -1.0, 0.25]",)
M = ("--at", "x=randn(4,3)")
# fmt: off
CHECKED = [
    ("Tanh",     X, 0, "the claimed product w J is right"),
    ("Tanh",     M, 0, "the claimed product w J is right"),
    ("Wrong",    X, 1, "tanh' is 1 - y**2, not 1 - y"),
    ("Wrong",    X, 1, "def backward(self, dout): return dout*(1 - self.y)"),
    ("Unused",   X, 1, "product w J is wrong"),
    ("linear",   M, 0, "the claimed product w J is right"),
    ("Loss",     ("--at", "p=[1, 2], t=[0.5, 3]"), 0, "the claimed gradient is right"),
    ("Two",      ("--at", "a=[1, 2], b=[0.5, 3]"), 0, "the claimed product w J is right"),
    ("Optional", X, 0, "the claimed product w J is right"),
    ("Optional", (*X, "train=0"), 1, "product w J is wrong"),
    ("Named",    X, 0, "the claimed product w J is right"),
    ("Opaque",   X, 0, "the claimed product w J is right"),
    ("called",   X, 0, "none of yours was checked"),
    ("Tanh.forward", X, 0, "none of yours was checked"),
    ("Linear",   M, 2, "Linear(n=..., m=...)"),
    ("Many",     X, 2, "Many.backward returns 2 values, and forward has 1 input"),
    ("Cached",   X, 2, "give cache a default"),
    ("Raises",   X, 2, "no data"),
    ("Tanh",     (), 2, 'x=randn(3)'),
]
# fmt: on


@pytest.mark.parametrize(("target", "at", "status", "said"), CHECKED)
def test_a_backward_pass_is_compared_with_its_forward_pass(
    gradcli: Callable[..., Any], tmp_path: Path, target: str, at: tuple[str, ...], status: int, said: str
) -> None:
    ran = gradcli("check", f"{written(tmp_path, PASSES)}:{target}", *at, *QUICK)
    assert ran.exit_status == status, ran.stdout + ran.stderr
    assert said in " ".join((ran.stdout + ran.stderr).split())


def test_a_claim_that_is_named_comes_first(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    code = PASSES + "    def mine(x, w): return w*(1 - np.tanh(x)**2)\n"
    ran = gradcli("check", f"{written(tmp_path, code)}:Wrong", *X, "--vjp", "mine", *QUICK)
    assert ran.exit_status == 0, ran.stdout


def test_other_commands_take_the_function(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    ran = gradcli("grad", f"{written(tmp_path, PASSES)}:Tanh", "x=0")
    assert ran.exit_status == 0 and "df/dx = 1.0" in ran.stdout


def test_an_object_of_python_is_checked() -> None:
    class Square:
        def forward(self, x: Any) -> Any:
            self.x = x
            return x**2

        def backward(self, dout: Any) -> Any:
            return 2 * self.x * dout

    assert check(Square(), np.array([1.0, 2.0])).verdict == "pass"
    assert check(Square, np.array([1.0, 2.0])).claim == "Square.backward"


def test_only_classes_with_both_are_components() -> None:
    class Half:
        def forward(self, x: Any) -> Any:
            return x

    assert component_of(Half(), "Half") is None and component_of(np.sin, "sin") is None
    assert component_of(lambda x: x, "f") is None


EXPLICIT = """
    class Ring:
        def compute(self, inputs, outputs):
            outputs["area"] = np.pi*inputs["r"]**2
            outputs["load"] = np.sum(inputs["v"]**2)*inputs["r"]
        def compute_partials(self, inputs, partials):
            partials["area", "r"] = 2*np.pi*inputs["r"]
            partials["load", "r"] = np.sum(inputs["v"]**2)
            partials["load", "v"] = 2*inputs["v"]*inputs["r"]
    class Missing(Ring):
        def compute_partials(self, inputs, partials):
            partials["area", "r"] = 2*np.pi*inputs["r"]
    class Misshapen(Ring):
        def compute_partials(self, inputs, partials):
            partials["area", "r"] = np.ones(5)
    class Each:
        def compute(self, inputs, outputs): outputs["y"] = inputs["v"]**2
        def compute_partials(self, inputs, J): J["y", "v"] = 2*inputs["v"]
    class Sparse(Each):
        def compute_partials(self, inputs, J):
            from scipy import sparse
            J["y", "v"] = sparse.diags_array(2*inputs["v"]).tocsr()
    class Discrete(Ring):
        def compute(self, inputs, outputs, discrete_inputs, discrete_outputs): pass
"""
# fmt: off
COMPONENTS = [
    ("Ring",      ("--at", "r=2, v=[1, 2]"), 0, "the claimed Jacobian is right"),
    ("Missing",   ("--at", "r=2, v=[1, 2]"), 1, "load/v[0]"),
    ("Each",      ("--at", "v=[1, 2, 3]"),   0, "the claimed Jacobian is right"),
    ("Sparse",    ("--at", "v=[1, 2, 3]"),   0, "the claimed Jacobian is right"),
    ("Misshapen", ("--at", "r=2, v=[1, 2]"), 2, "write an array of shape (1, 1)"),
    ("Discrete",  ("--at", "r=2, v=[1, 2]"), 2, "discrete inputs"),
    ("Ring",      ("--at", "r=2"),           2, '--at "v=randn(3)"'),
]
# fmt: on


@pytest.mark.parametrize(("target", "at", "status", "said"), COMPONENTS)
def test_partials_are_compared_with_what_is_computed(
    gradcli: Callable[..., Any], tmp_path: Path, target: str, at: tuple[str, ...], status: int, said: str
) -> None:
    ran = gradcli("check", f"{written(tmp_path, EXPLICIT)}:{target}", *at, *QUICK)
    assert ran.exit_status == status, ran.stdout + ran.stderr
    assert said in " ".join((ran.stdout + ran.stderr).split())


OPENMDAO = """
    import openmdao.api as om
    class Disc(om.ExplicitComponent):
        def setup(self):
            self.add_input("a", 0.5)
            self.add_input("v", val=np.ones(3))
            self.add_output("power")
            self.add_output("thrust", shape=3)
            self.declare_partials("power", "a")
            self.declare_partials("thrust", "v", rows=np.arange(3), cols=np.arange(3))
        def compute(self, inputs, outputs):
            outputs["power"] = 4*inputs["a"]*(1 - inputs["a"])**2
            outputs["thrust"][:] = inputs["v"]**2
        def compute_partials(self, inputs, J):
            J["power", "a"] = 4*(1 - inputs["a"])**2 - 8*inputs["a"]*(1 - inputs["a"])
            J["thrust", "v"] = 2*inputs["v"]
    class Wrong(Disc):
        def compute_partials(self, inputs, J):
            super().compute_partials(inputs, J)
            J["thrust", "v"] = inputs["v"]
"""


@pytest.mark.parametrize(
    ("target", "at", "status", "said"),
    [
        ("Disc", (), 0, "the claimed Jacobian is right"),
        ("Disc", ("v=[1, 2, 3]",), 0, "v = [1, 2, 3]"),
        ("Wrong", (), 1, "wrong in 3 of 16 entries"),
        ("Disc", ("v=[1, 2]",), 2, "it is declared as (3,)"),
    ],
)
def test_a_component_of_openmdao(
    gradcli: Callable[..., Any], tmp_path: Path, target: str, at: tuple[str, ...], status: int, said: str
) -> None:
    pytest.importorskip("openmdao")
    ran = gradcli("check", f"{written(tmp_path, OPENMDAO)}:{target}", *at, *QUICK)
    assert ran.exit_status == status, ran.stdout + ran.stderr
    assert said in " ".join((ran.stdout + ran.stderr).split())
