"""Backpropagation as textbooks have it: the errors of layers by their names, and what each parameter gets of them."""

import numpy as np
import pytest

import gradcli
from gradcli.arithmetic.value_graph import GraphNode
from gradcli.derivation.derive import find_layer_chain, layer_numbers
from gradcli.targets.expression import Expression
from tests.rows import for_rows

VECTORS = {"W1": "h n", "x": "n", "b1": "h", "W2": "m h", "b2": "m", "Y": "m"}
BATCH = {"X": "n d", "W1": "d h", "b1": "h", "W2": "h k", "b2": "k", "Y": "n k"}
SQUARES = "Z1 = W1@x + b1; A1 = sigmoid(Z1); Z2 = W2@A1 + b2; P = sigmoid(Z2); sum((Y - P)**2)"
ENTROPY = "Z1 = X@W1 + b1; A1 = tanh(Z1); Z2 = A1@W2 + b2; P = softmax(Z2, axis=1); -sum(Y*log(P))/n"
NETWORKS = [  # a function, the shapes, what is assumed, the errors, the derivative by each parameter
    (SQUARES, VECTORS, {}, ["δ2 = 2 ((P - Y) ∘ P ∘ (1 - P))", "δ1 = A1 ∘ (1 - A1) ∘ (W2ᵀ δ2)"],
     {"W1": "δ1 xᵀ", "b1": "δ1", "W2": "δ2 A1ᵀ", "b2": "δ2"}),
    (ENTROPY, BATCH, {"Y": "onehot rows"}, ["δ2 = (P - Y) / n", "δ1 = (1 - A1^∘2) ∘ (δ2 W2ᵀ)"],
     {"W1": "Xᵀ δ1", "b1": "δ1ᵀ 𝟏", "W2": "A1ᵀ δ2", "b2": "δ2ᵀ 𝟏"}),
    (f"{SQUARES} + c*sum(W1**2)", VECTORS | {"c": ""}, {},
     ["δ2 = 2 ((P - Y) ∘ P ∘ (1 - P))", "δ1 = A1 ∘ (1 - A1) ∘ (W2ᵀ δ2)"],
     {"W1": "2 c W1 + δ1 xᵀ", "x": "W1ᵀ δ1"}),
]  # fmt: skip


@pytest.mark.slow
@for_rows(("f", "shapes", "assume", "errors", "derivatives"), NETWORKS, parts=3)
def test_the_four_equations_of_backpropagation(
    f: str, shapes: dict[str, str], assume: dict[str, str], errors: list[str], derivatives: dict[str, str]
) -> None:
    """Names of the statements and the errors are in the result as they are in the steps, and the last step is the result."""
    for result in gradcli.derive(f, shapes=shapes, assume=assume, wrt=",".join(derivatives)).results:
        lines = result.formula.unicode.split("; ")
        assert lines[-1] == f"∂f/∂{result.wrt} = {derivatives[result.wrt]}"
        steps = [s.unicode for s in result.steps]
        assert steps[-1] == f"G = {derivatives[result.wrt]}"
        own = [line for line in lines if line.startswith("δ")]
        assert own == errors[: len(own)] and own and all(e in steps for e in own)
        assert {line for line in lines[:-1] if "δ" not in line} <= {*steps}


@pytest.mark.slow
@for_rows(("f", "shapes", "wrt"), [
    ("sum(sigmoid(A@x))*sum(sigmoid(B@x))", {"A": "m n", "B": "k n", "x": "n"}, "x"),
    ("sum((sigmoid(W2@sigmoid(W1@x)) - y)**2)", {"W1": "h n", "x": "n", "W2": "m h", "y": "m"}, "W1"),
    ("sum(tanh(A@x)*tanh(B@x))*sum(tanh(A@x)*tanh(B@x)**2)", {"A": "m n", "B": "m n", "x": "n"}, "x"),
])  # fmt: skip
def test_a_name_is_for_the_same_in_the_steps_and_in_the_result(f: str, shapes: dict[str, str], wrt: str) -> None:
    """Where a name stands for one thing in the steps, it stands for no other in the result, in LaTeX too."""
    (result,) = gradcli.derive(f, shapes=shapes, wrt=wrt).results
    steps = {s.after.partition(" = ")[0]: s for s in result.steps}
    parts = dict(result.program)
    rng = np.random.default_rng(0)
    sizes = {"m": 3, "n": 4, "k": 5, "h": 6}
    values = {name: rng.normal(size=[sizes[d] for d in own.split()]) for name, own in shapes.items()}
    met = 0
    for name, text in parts.items():
        values[name] = Expression(text)({n: values[n] for n in Expression(text).inputs})
        if name in steps:
            met += 1
            known = {**values}
            for step in result.steps:
                left, _, right = step.after.partition(" = ")
                if step.names and left != "f" and left not in parts:
                    known[left] = Expression(right)({n: known[n] for n in Expression(right).inputs})
                if left == name:
                    break
            after = Expression(steps[name].after.partition(" = ")[2])
            np.testing.assert_allclose(after({n: known[n] for n in after.inputs}), values[name])
    assert met


@pytest.mark.slow
def test_a_letter_is_for_the_same_whatever_f_is_differentiated_by() -> None:
    """The first layer's tanh is h1 also where it is a constant, and steps with it are written in its name."""
    shapes = {"W1": "h n", "x": "n", "W2": "k h", "W3": "m k", "y": "m"}
    by_w1, by_w2 = gradcli.derive("sum((W3@tanh(W2@tanh(W1@x)) - y)**2)", shapes=shapes, wrt="W1,W2").results
    for result, last in ((by_w1, "δ1 xᵀ"), (by_w2, "δ2 h1ᵀ")):
        assert result.formula.unicode.split("; ")[:2] == ["h1 = tanh(W1 x)", "h2 = tanh(W2 h1)"]
        assert [s.unicode for s in result.steps][:2] == ["h1 = tanh(W1 x)", "h2 = tanh(W2 h1)"]
        assert result.steps[-1].unicode == f"G = {last}"


def test_a_transpose_of_a_statement_has_its_name() -> None:
    """The transpose of a product of entries is printed as a product of transposes, which is one of the name all the same."""
    shapes = {"X": "n d", "W": "d h", "D": "n h", "V": "h k", "Y": "n k"}
    (result,) = gradcli.derive("A = relu(X@W)*D; sum((A@V - Y)**2)", shapes=shapes, wrt="V").results
    assert result.formula.unicode.endswith("∂f/∂V = Aᵀ δ2") and result.steps[-1].unicode == "G = Aᵀ δ2"


CHAINS = [  # a function, the names of the weights, the numbers of the layers
    ("sum(tanh(B@tanh(A@x)))",             ["A", "B"],         ("1", "2")),
    ("sum(relu(W3@tanh(W2@tanh(W1@x))))",  ["W1", "W2", "W3"], ("1", "2", "3")),
    ("sum(tanh(W1@tanh(W0@x)))",           ["W0", "W1"],       ("0", "1")),
    ("sum(tanh(A@x)**2)",                  ["A"],              ("1",)),
    ("sum(tanh(A@B@x)**2)",                [],                 ()),  # a product of products
    ("sum(softmax(A@x)*y)",                ["A"],              ("1",)),
    ("sum(tanh(B@softmax(A@x)))",          [],                 ()),  # not a function entry by entry
    ("sum(tanh(A@x)) + sum(tanh(B@x))",    [],                 ()),  # beside each other
    ("sum(x**2)",                          [],                 ()),
]  # fmt: skip


@for_rows(("f", "weights", "numbers"), CHAINS)
def test_layers_are_a_chain(f: str, weights: list[str], numbers: tuple[str, ...]) -> None:
    g = Expression(f)
    shape = {"x": (3,), "y": (3,)}
    y = g({n: GraphNode.variable(n, np.ones(shape.get(n, (3, 3)))) for n in g.inputs})
    chain = find_layer_chain(y)
    assert [layer.weights for layer in chain] == weights and layer_numbers(chain) == numbers
