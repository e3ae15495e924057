"""Backpropagation as people write it by hand: every shape is checked without glue, and mistakes in it are caught and repaired."""

import contextlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradcli import check
from gradcli.testing import assert_gradient
from tests.corpus.layers import dense, engine

HERE = Path(__file__).parent / "layers"
QUICK = ("--modes", "forward,reverse,fd")
X = "x=randn(4,3)"
# fmt: off
RIGHT = [  # file and target, the point, further options, what is compared
    ("dense:affine_forward",           "x=randn(4,3), W=randn(3,2), b=randn(2)", (), "x W b"),
    ("dense:affine_forward",           "x=randn(4,3), W=randn(3,2), b=randn(2)", ("--backward", "affine_backward"), "x W b"),
    ("dense:normalize",                "x=randn(4,3), gamma=randn(3), state={}", ("--backward", "normalize_bwd"), "x gamma"),
    ("dense:tanh_fwd",                 "z=randn(3)", (), "z"),
    ("dense:Dropout(0.4)",             X, (), "x"),
    ("dense:Overwriting",              X, (), "x"),
    ("dense:Shuffled",                 X, (), "x"),
    ("dense:Dense(3, 2, seed=5)",      X, (), "x W b"),
    ("dense:Given(randn(3, 2), b=zeros(2))", X, (), "x W b"),
    ("dense:Given(ones(3, 2), zeros(2), np.random.default_rng(0))", X, (), "x W b"),
    ("dense:make(3)",                  X, (), "x W b"),
    ("dense:LAYER",                    X, (), "x W b"),
    ("dense:LAYER",                    f"{X}, W=randn(3,4)", (), "x W b"),
    ("dense:LAYER",                    X, ("--wrt", "x"), "x"),
    ("dense:Head",                     f"{X}, t=[0, 1, 1, 0]", (), "x W"),
    ("dense:Outer",                    f"{X}, t=[0, 1, 1, 0], times=2", (), "x inner.W"),
    ("dense:Locked",                   X, (), "x"),
    ("dense:SERVED.loss",              "x=randn(3)", ("--grad", "SERVED.slope"), "x"),
    ("dense:Trainer",                  X, (), "x W bias"),
    ("dense:Trainer()",                f"{X}, learning_rate=0.1", (), "x W bias"),
    ("dense:MeanSquare",               "y=randn(3), t=randn(3)", ("--wrt", "y"), "y"),
    ("convolution:Convolution([[[[0.1, 0.2], [0.3, -0.4]]]], [0.5])", "x=randn(2,1,4,4)", (), "x W b"),
    ("convolution:Pooling(2, 2)",      "x=randn(2,1,4,4)", (), "x"),
    pytest.param("convolution:Net().loss", "x=randn(2,1,6,6), t=[0, 2]", ("--grad", "gradient"), "W1 b1 W2 b2", marks=pytest.mark.slow),
    ("sequence:lstm_step_forward",     "x=randn(2,3), h=randn(2,4), c=randn(2,4), Wx=randn(3,16), Wh=randn(4,16), b=randn(16)", (),
     "x h c Wx Wh b"),
    ("sequence:LayerNorm(3)",          X, (), "x gamma beta"),
    ("sequence:Attention(3)",          X, (), "x weights[0] weights[1] weights[2]"),
    ("sequence:Product",               "inputs=[randn(3), randn(3)]", (), "inputs"),
    ("sequence:Named",                 "x=randn(3), w=randn(3)", (), "x w"),
    ("sequence:Embedding([[1, 2], [3, 4], [5, 6]])", "idx=int([0, 2, 2])", (), "params[0]"),
    ("engine:loss",                    "x=[0.5, -1], w=[0.3, 0.8]", ("--engine", "Scalar"), "x w"),
    ("course:cell_forward",            "xt=randn(2,3), a_prev=randn(4,3), c_prev=randn(4,3), parameters=@point", (),
     "xt a_prev c_prev parameters.W parameters.b"),
    ("course:Linear(3, 2)",            X, (), "x w.value b.val"),
    ("course:Sequential",              X, (), "x layers[0].w.value layers[0].b.val layers[2].w.value layers[2].b.val"),
    ("network:Net",                    "x=randn(5,3), t=[0, 1, 2, 3, 1]", (), "x layers[0].dense.W layers[1].gamma layers[2].b"),
    ("network:Book(3, 4)",             "x=randn(5,3), t=[0, 1, 2, 3, 1]", (), "W1 b1 W2 b2"),
    ("network:BatchNorm(3)",           "x=randn(5,3)", (), "x gamma beta"),
    ("network:BatchNorm(3)",           "x=randn(5,3), train=False", (), "x gamma beta"),
    ("network:Adam(3, 4)",             "x=randn(5,3)", (), "x W b"),
    ("network:Linear(3)",              "X=randn(5,3), y=randn(5)", (), "W"),
    ("network:Ridge(2)",               "w=randn(3), X=randn(4,3), y=randn(4)", ("--wrt", "w"), "w"),
    ("attributes:Dense(3, 2)",         "inputs=randn(4,3)", (), "inputs weights biases"),
    ("attributes:Rectified",           "inputs=randn(4,3)", (), "inputs"),
    ("attributes:Softmax",             "inputs=randn(4,3)", (), "inputs"),
    ("attributes:CrossEntropy",        "y_pred=uniform(0.1, 0.9, 4, 3), y_true=[0, 1, 2, 1]", (), "y_pred"),
    ("attributes:SumOfSquares",        "prediction=randn(4,3), target=randn(4,3)", ("--wrt", "prediction"), "prediction"),
    ("attributes:SoftmaxWithLoss",     "inputs=randn(4,3), y_true=[0, 1, 2, 1]", (), "inputs"),
    ("attributes:Proportional",        "pred=randn(4,3), y=randn(4,3)", ("--wrt", "pred"), "pred"),
    ("course:Classifier().loss",       "X=randn(5,3), y=[0, 1, 0, 1, 1]", ("--value-and-grad",), "W"),
]
KEPT = """import numpy as np
class Odd:
    def __init__(self):
        self.W, self.b, self.store = np.ones((3, 2)), np.ones(2), [0, None]
    def forward(self, x):
        self.x = x
        return x @ self.W + self.b
    def backward(self, dout):
        self.delta, self.store[1] = self.x.T @ dout, dout.mean(axis=0)
        return dout @ self.W.T
"""
PICKS = [("W=delta, b=store[1]", 1, "a factor 4 too small"), ("W=delta", 0, "PASS"), ("W=d", 2, "has nothing at d"),
         ("V=delta", 2, "its parameters: W, b")]  # fmt: skip


@pytest.mark.parametrize(("picked", "status", "said"), PICKS)
def test_gradients_under_other_names_are_named(
    gradcli: Callable[..., Any], tmp_path: Path, picked: str, status: int, said: str
) -> None:
    (tmp_path / "odd.py").write_text(KEPT)
    ran = gradcli("check", f"{tmp_path}/odd.py:Odd", "--at", X, "--pick", picked, *QUICK)
    assert ran.exit_status == status
    assert said in " ".join((ran.stdout + ran.stderr).split())


WRONG = [  # file and target, the point, options, what is in the file, the mistake in its place, the mistake's entry
    ("sequence:Product", "inputs=[randn(3), randn(3)]", (), "douts[0] * b, douts", "douts[0] * a, douts", "inputs"),
    ("dense:affine_forward", "x=randn(4,3), W=randn(3,2), b=randn(2)", (), "dout.sum(axis=0)}", "dout.mean(axis=0)}", "b"),
    ("dense:affine_forward", "x=randn(4,3), W=randn(3,3), b=randn(3)", (), "dout @ W.T, \"dW\"", "dout @ W, \"dW\"", "x"),
    ("dense:normalize",      "x=randn(4,3), gamma=randn(3), state={}", ("--backward", "normalize_bwd"), "return d - d.mean(axis=0)", "return d", "x"),
    ("dense:tanh_fwd",       "z=randn(3)", (), "(1 - np.tanh(z_kept) ** 2)", "(1 - np.tanh(z_kept))", "z"),
    ("dense:Dropout(0.4)",   X, (), "dout * self.mask / (1 - self.p)", "dout * self.mask", "x"),
    ("dense:Dense(3, 2)",    X, (), "\"b\": dz.sum(axis=0)", "\"b\": dz[0]", "b"),
    ("dense:Dense(3, 2)",    X, (), "\"W\": x.T @ dz", "\"W\": 2 * x.T @ dz", "W"),
    ("dense:Trainer",        X, (), "self.bias -= learning_rate * output_gradient.sum(axis=0)", "self.bias += learning_rate * output_gradient.sum(axis=0)", "bias"),
    ("dense:Head", f"{X}, t=[0, 1, 1, 0]", (), "self.x.T @ d * dout", "2 * self.x.T @ d * dout", "W"),
    ("convolution:Pooling(2, 2)", "x=randn(2,1,4,4)", (), "= dout.flatten()", "= 1", "x"),
    pytest.param("convolution:Net().loss", "x=randn(2,1,6,6), t=[0, 2]", ("--grad", "gradient"), "dout /= len(t)", "pass", "W2",
                 marks=pytest.mark.slow),
    ("sequence:lstm_step_forward", "x=randn(2,3), h=randn(2,4), c=randn(2,4), Wx=randn(3,16), Wh=randn(4,16), b=randn(16)", (),
     "dc * c * f * (1 - f)", "dc * c * (1 - f)", "Wx"),
    ("sequence:LayerNorm(3)", X, (), "xhat, axis=tuple(range(grad_output.ndim - 1))", "xhat", "gamma"),
    ("sequence:LayerNorm(3)", X, (), "d - d.mean(-1, keepdims=True) -", "d -", "x"),
    ("sequence:Attention(3)", X, (), "dq, dk = ds @ self.k, ds.T @ self.q", "dq, dk = ds @ self.k, ds @ self.q", "weights[1]"),
    ("sequence:Embedding([[1, 2], [3, 4], [5, 6]])", "idx=int([0, 2, 2])", (), "np.add.at(dW, self.idx, dout)", "dW[self.idx] = dout", "params[0]"),
    ("sequence:Decay(3, 2)", X, (), "", "", "W"),
    ("engine:loss", "x=[0.5, -1], w=[0.3, 0.8]", ("--engine", "Scalar"), "self.grad += other.data * out.grad", "self.grad = other.data * out.grad", "x"),
    ("dense:Ignoring",       X, (), "", "", "x"),
    ("network:BatchNorm(3)", "x=randn(5,3)", (), "d - d.mean(axis=0) - self.hat", "d - self.hat", "x"),
    ("network:BatchNorm(3)", "x=randn(5,3)", (), "d = dout * self.gamma", "d = dout", "x"),  # which is one, and not at the second point
    ("network:BatchNorm(3)", "x=randn(5,3)", (), "(dout * self.hat).sum(axis=0)", "(dout * self.hat).sum(axis=1)", "gamma"),
    ("dense:Trainer", X, (), "learning_rate * output_gradient.sum(axis=0)", "output_gradient.sum(axis=0)", "bias"),
    ("network:BatchNorm(3)", "x=randn(5,3), train=False", (), "if self.train:", "if True:", "x"),
    ("network:Book(3, 4)", "x=randn(5,3), t=[0, 1, 2, 3, 1]", (), "d / len(self.t)", "d", "W1"),
    ("network:Ridge(2)", "w=randn(3), X=randn(4,3), y=randn(4)", ("--wrt", "w"), "y) + self.strength * w", "y)", "w"),
    ("attributes:Dense(3, 2)", "inputs=randn(4,3)", (), "np.sum(dvalues, axis=0", "np.mean(dvalues, axis=0", "biases"),
    ("attributes:Rectified", "inputs=randn(4,3)", (), "self.inputs <= 0", "self.inputs > 0", "inputs"),
    ("attributes:Softmax", "inputs=randn(4,3)", (), "np.diagflat(y) - np.outer(y, y)", "np.diagflat(y)", "inputs"),
    ("attributes:CrossEntropy", "y_pred=uniform(0.1, 0.9, 4, 3), y_true=[0, 1, 2, 1]", (), "self.dinputs / len(dvalues)", "self.dinputs",
     "y_pred"),
    ("attributes:SumOfSquares", "prediction=randn(4,3), target=randn(4,3)", ("--wrt", "prediction"), "return output - target",
     "return 2 * (output - target)", "prediction"),
    ("attributes:SoftmaxWithLoss", "inputs=randn(4,3), y_true=[0, 1, 2, 1]", (), "-= 1", "-= 2", "inputs"),
    ("attributes:Proportional", "pred=randn(4,3), y=randn(4,3)", ("--wrt", "pred"), "dvalue * 2", "dvalue", "pred"),
]
REFUSED = [
    ("dense:SERVED",               X, "SERVED cannot be copied"),
    ("dense:Dense(3, n)",          X, "are no literals"),
    ("dense:Dense(*[3, 2])",       X, "are no literals"),
    ("dense:Given(open(3), 0)",    X, "are no literals"),
    ("dense:Given(randn(99999, 99999), 0)", X, "the limit is"),
    ("dense:Given(randn(-1), 0)",  X, "are no literals"),
    ("dense:Dense(3, 2).nothing",  X, "Dense(...) has no function 'nothing'"),
    ("dense:Dense",                X, "Dense(n=..., m=...)"),
    ("dense:Unwritten",            f"{X}, t=[0, 1, 1, 0]", "Unwritten.backward raised: ValueError: not written yet"),
    ("dense:normalize",            "x=randn(4,3)", "takes x, gamma, state, mode)"),
    ("engine:plain",               "x=[1, 2], w=[1, 2]", "without .data"),
]
# fmt: on


def asked(target: str, at: str, options: tuple[str, ...], folder: Path) -> tuple[str, ...]:
    file, _, name = target.partition(":")
    at = at.replace("@point", f"{folder / file}.py:cell_parameters")
    return ("check", f"{folder / file}.py:{name}", "--at", at, *options, *QUICK)


@pytest.mark.parametrize(("target", "at", "options", "names"), RIGHT)
def test_right_ones_pass_with_every_parameter(
    gradcli: Callable[..., Any], target: str, at: str, options: tuple[str, ...], names: str
) -> None:
    ran = gradcli(*asked(target, at, options, HERE), "--json")
    assert ran.exit_status == 0, ran.stdout + ran.stderr
    assert set(names.split()) <= set(ran.json["points"][0]["differentiated"])
    assert not {"first.W", "second.W"} & set(ran.json["points"][0]["differentiated"])


@pytest.mark.parametrize(("target", "at", "options", "code", "mistake", "entry"), WRONG)
def test_mistakes_are_caught_in_their_entry(
    gradcli: Callable[..., Any],
    tmp_path: Path,
    target: str,
    at: str,
    options: tuple[str, ...],
    code: str,
    mistake: str,
    entry: str,
) -> None:
    file = f"{target.partition(':')[0]}.py"
    source = (HERE / file).read_text()
    assert code in source
    (tmp_path / file).write_text(source.replace(code, mistake) if code else source)
    ran = gradcli(*asked(target, at, options, tmp_path), "--json")
    assert ran.exit_status == 1, ran.stdout + ran.stderr
    points = ran.json["points"]
    said = {word for point in points if point["diagnosis"] for word in point["diagnosis"]["message"].split()[:5]}
    assert entry in {wrong["input"] for point in points for wrong in point["mismatches"]} | said


# fmt: off
LACKING = [  # factors that only the object has, or the step of an engine; and what the edit has
    ("dense:Dropout(0.4)", X, (), "dout * self.mask", "dout", "* self.mask"),
    ("sequence:LayerNorm(3)", X, (), "(d * self.xhat).mean", "d.mean", "(d * self.xhat).mean"),
    ("engine:loss", "x=[0.5, -1], w=[0.3, 0.8]", ("--engine", "Scalar"), "out.data * out.grad", "out.grad", "math.exp(self.data)"),
    ("engine:square", "x=0.7", ("--engine", "Scalar"), "other.grad += self.data * out", "other.grad = self.data * out", "other.grad += self"),
]
# fmt: on


@pytest.mark.parametrize(("target", "at", "said"), REFUSED)
def test_what_cannot_be_checked_says_why(gradcli: Callable[..., Any], target: str, at: str, said: str) -> None:
    more = ("--engine", "Scalar") if target.startswith("engine") else ()
    ran = gradcli(*asked(target, at, more, HERE))
    assert ran.exit_status == 2 and said in " ".join(ran.stderr.split()), ran.stderr


@pytest.mark.repairs
@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "at", "options", "code", "mistake", "entry"),
    [row for row in WRONG[:6] if row[0] != "dense:normalize"] + LACKING,
)
def test_the_edit_is_in_the_layers_own_line(
    gradcli: Callable[..., Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    target: str,
    at: str,
    options: tuple[str, ...],
    code: str,
    mistake: str,
    entry: str,
) -> None:
    file = f"{target.partition(':')[0]}.py"
    (tmp_path / file).write_text((HERE / file).read_text().replace(code, mistake))
    monkeypatch.chdir(tmp_path)
    ran = gradcli(*asked(target, at, options, tmp_path), "--json")
    patch = ran.json["points"][0]["diagnosis"]["patch"]
    (removed,), (added,) = (re.findall(rf"^[{sign}](?![-+]{{2}})(.*)$", patch, re.MULTILINE) for sign in "-+")
    assert mistake in removed
    assert entry in added or (target, at, options, code, mistake, entry) not in LACKING


NET = "x=randn(5,3), t=[0, 1, 2, 3, 1]"
TOGETHER = "not the derivative of its forward pass alone; right together with "


@pytest.mark.parametrize(
    ("code", "mistake", "first", "wrong"),
    [
        pytest.param("", "", None, set(), marks=pytest.mark.slow),
        pytest.param("(1 - self.y**2)", "(1 - self.y)", "layers[0].tanh (Tanh)",
                     {"layers[0] (Residual)", "layers[0].tanh (Tanh)"}, marks=pytest.mark.slow),
        pytest.param("+ dout\n", "+ 2 * dout\n", "layers[0] (Residual)", {"layers[0] (Residual)"}, marks=pytest.mark.slow),
        pytest.param("dout.sum(axis=0)}", "dout[0]}", "layers[2] (Dense)",
                     {"layers[0] (Residual)", "layers[0].dense (Dense)", "layers[2] (Dense)"}, marks=pytest.mark.slow),
        ("return d\n\n\nclass Book", "return 2 * d\n\n\nclass Book", None, set()),
    ],
)  # fmt: skip
def test_the_first_wrong_layer_of_a_network_is_named(
    gradcli: Callable[..., Any], tmp_path: Path, code: str, mistake: str, first: str | None, wrong: set[str]
) -> None:
    (tmp_path / "network.py").write_text((HERE / "network.py").read_text().replace(code, mistake, 1))
    ran = gradcli(*asked("network:Net", NET, (), tmp_path), "--json")
    assert ran.exit_status == bool(code)
    verdicts = {layer["name"]: layer["verdict"] for layer in ran.json["layers"]}
    assert {name for name, verdict in verdicts.items() if verdict == "fail"} == wrong
    assert list(verdicts)[:3] == ["end (CrossEntropy)", "soft (Softmax)", "layers[2] (Dense)"]
    said = {layer["name"]: layer.get("message") for layer in ran.json["layers"]}
    assert said["soft (Softmax)"] == f"{TOGETHER}end (CrossEntropy)"
    shown = " ".join(gradcli(*asked("network:Net", NET, (), tmp_path)).stdout.split())
    assert (f"from the loss backwards, {first} is the first wrong layer" in shown) == (first is not None)
    assert ("No layer is wrong where it is called first" in shown) == (bool(code) and first is None)


@pytest.mark.repairs
@pytest.mark.slow
def test_of_several_wrong_layers_the_first_is_repaired(
    gradcli: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = (HERE / "network.py").read_text().replace("dout.sum(axis=0)}", "dout.mean(axis=0)}", 1)
    (tmp_path / "network.py").write_text(source.replace("dout * self.gamma", "dout"))
    monkeypatch.chdir(tmp_path)
    found = gradcli(*asked("network:Net", NET, (), tmp_path), "--json").json["points"][0]["diagnosis"]
    assert found["layer"] == "layers[2] (Dense)" and found["message"].startswith("in layers[2] (Dense), a factor 5")
    assert "-    " in found["patch"] and "mean" in re.findall(r"^-(?!--)(.*)$", found["patch"], re.MULTILINE)[0]
    shown = " ".join(gradcli(*asked("network:Net", NET, (), tmp_path)).stdout.split())
    assert "makes layers[2] (Dense) right here" in shown


@pytest.mark.parametrize(
    ("code", "mistake", "departs"),
    [
        ("", "", None),
        ("other.grad += self.data * out.grad", "other.grad = self.data * out.grad", "t1"),
        ("other.grad += self.data * out.grad", "other.grad += out.grad", "t1"),
        ("order.append(v)\n", "order.insert(0, v)\n", "t1"),
    ],
)
def test_the_first_wrong_gradient_of_an_engine_is_marked(
    gradcli: Callable[..., Any], tmp_path: Path, code: str, mistake: str, departs: str | None
) -> None:
    source = (HERE / "engine.py").read_text().replace(code, mistake, 1)
    (tmp_path / "own.py").write_text(
        f"{source}\n\ndef twice(x, w):\n    s = x * w\n    y = s * s\n    return y.exp()\n"
    )
    words = ("trace", f"{tmp_path}/own.py:twice", "--engine", "Scalar", "x=0.5", "w=0.8")
    found = gradcli(*words, "--json").json
    claimed = {node["name"] for node in found["nodes"] if "claimed" in node}
    assert found["engine"] == "Scalar" and bool(claimed) == bool(code)
    assert found.get("departs") == departs
    shown = " ".join(gradcli(*words).stdout.split())
    assert ("Every .grad of Scalar is right." in shown) == (not code)


def test_an_engine_that_cannot_be_followed_says_so(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    source = (
        HERE / "engine.py"
    ).read_text() + "\n\ndef make(x):\n    return Scalar(x)\n\n\ndef twice(x):\n    return x + x\n"
    (tmp_path / "own.py").write_text(source)
    shown = " ".join(gradcli("trace", f"{tmp_path}/own.py:twice", "--engine", "make", "x=0.5").stdout.split())
    assert "notice: the objects of make cannot be followed" in shown and "is right" not in shown


@pytest.mark.slow
def test_hard_points_of_a_product_have_its_shapes(gradcli: Callable[..., Any]) -> None:
    ran = gradcli(*asked("dense:Dense(3, 2)", X, ("--stress-points", "20"), HERE), "--json")
    assert ran.exit_status == 0 and ran.json["stress"]["right"] > 10


def test_a_loss_that_ignores_its_cotangent_is_right_for_one_alone(gradcli: Callable[..., Any]) -> None:
    ran = gradcli(*asked("dense:LossAlone", "y=randn(3), t=randn(3)", ("--wrt", "y"), HERE), "--json")
    (found,) = [f for f in ran.json["points"][0]["findings"] if f["kind"] == "ignores-cotangent"]
    assert ran.exit_status == 0 and found["message"].endswith("it is right for dout = 1 alone")


# fmt: off
TAKEN = [  # a loss, and what its backward pass is said to be compared with; None where it takes an incoming gradient
    ("attributes:CrossEntropy", "y_pred=uniform(0.1, 0.9, 4, 3), y_true=[0, 1, 2, 1]", "the gradient of calculate"),
    ("attributes:SumOfSquares", "prediction=randn(4,3), target=randn(4,3)", "the sum of what forward returns"),
    ("attributes:SoftmaxWithLoss", "inputs=randn(4,3), y_true=[0, 1, 2, 1]", "the gradient of forward"),
    ("attributes:AbsoluteError", "pred=randn(4,3), target=uniform(0, 1, 4, 3)", "the gradient of forward"),
    ("attributes:Squares", "output=randn(4,3), y_true=zeros(4,3)", "the gradient of cost"),
    ("attributes:Elements", "output=randn(4,3), y_true=randn(4,3)", "the mean over rows of the sum of what forward returns"),
    ("attributes:FromLogits", "logits=randn(4,3), y=[0, 1, 2, 1]", "the gradient of forward"),
    ("attributes:Proportional", "pred=randn(4,3), y=randn(4,3)", None),
]
# fmt: on


@pytest.mark.parametrize(("target", "at", "of"), TAKEN)
def test_a_loss_that_takes_its_prediction_says_so(
    gradcli: Callable[..., Any], target: str, at: str, of: str | None
) -> None:
    ran = gradcli(*asked(target, at, (), HERE), "--json")
    assert ran.exit_status == 0
    findings = ran.json["points"][0]["findings"]
    said = [f["message"] for f in findings if "takes the prediction" in f["message"]]
    assert len(said) == (of is not None) and all(message.endswith(str(of)) for message in said)


def test_parameters_without_a_gradient_are_said_to_be_unchecked(gradcli: Callable[..., Any]) -> None:
    ran = gradcli(*asked("dense:Head", f"{X}, t=[0, 1, 1, 0]", (), HERE), "--json")
    assert "no gradient is kept of count: not checked" in [f["message"] for f in ran.json["points"][0]["findings"]]
    ran = gradcli(*asked("dense:Dense(3, 2)", X, (), HERE))
    assert ran.exit_status == 0 and ran.stdout.startswith("PASS (unused not checked)")


def test_the_backward_pass_that_was_found_is_named(gradcli: Callable[..., Any]) -> None:
    ran = gradcli(*asked("dense:tanh_fwd", "z=randn(3)", (), HERE))
    assert "tanh_bwd, which stands beside it, is the backward pass that was checked" in " ".join(ran.stdout.split())


def test_find_lists_every_shape_with_its_forward_pass(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "dense.py").write_text((HERE / "dense.py").read_text())
    suite = '[[tool.gradcli.check]]\nid = "pair"\ntarget = "dense.py:affine_forward"\nat = "x=randn(4,3), W=randn(3,2), b=randn(2)"\n'
    suite += '[[tool.gradcli.check]]\nid = "layer"\ntarget = "dense.py:Dense(3, 2)"\nat = "x=randn(4,3)"\n'
    (tmp_path / "pyproject.toml").write_text(suite)
    with contextlib.chdir(tmp_path):
        ran = gradcli("find", "dense.py", "--json")
    found = {g["name"]: (g["of"], g["checked_by"]) for g in ran.json["gradients"]}
    assert found["affine_backward"] == ("affine_forward", ["pair"])
    assert found["Dense.backward"] == ("Dense.forward", ["layer"])
    assert found["tanh_bwd"] == ("tanh_fwd", [])
    assert {"Dropout.backward", "Shuffled.backward", "Trainer.backward", "Ignoring.backward"} <= found.keys()


def test_what_a_constructor_draws_is_the_same_in_every_run(gradcli: Callable[..., Any]) -> None:
    first, second = (
        gradcli(*asked(target, "x=randn(5,3)", (), HERE), "--json").json
        for target in ("network:Residual(3)", "network:Residual(3)")
    )
    assert first["points"][0]["at"]["dense.W"] == second["points"][0]["at"]["dense.W"]


def test_python_and_pytest_take_every_shape() -> None:
    x, rng = np.ones((4, 3)) / 2, np.random.default_rng(0)
    found = check(dense.Dense(3, 2), x)
    assert found.verdict == "pass" and {"x", "W", "b"} <= set(found.points[0].differentiated)
    at = {"x": x, "W": rng.normal(size=(3, 2)), "b": np.zeros(2)}
    assert check(dense.affine_forward, at).claim == "affine_backward"
    assert check(dense.affine_forward, at, backward=dense.affine_backward).verdict == "pass"
    assert check(lambda z: np.tanh(z), np.ones(2), grad=lambda z: 1 - np.tanh(z) ** 2).verdict == "pass"
    assert check(engine.loss, {"x": [0.5, -1.0], "w": [0.3, 0.8]}, engine=engine.Scalar).verdict == "pass"
    assert_gradient(f"{HERE}/dense.py:Dense(3, 2)", "x=randn(4,3)")


class Holding(dense.Dropout):
    """Holds a large array, and writes to it where it is told to."""

    def __init__(self, writes: str) -> None:
        super().__init__(0.5)
        self.data, self.writes = np.ones(2**17), writes

    def forward(self, x: Any) -> Any:
        MAPPED.append(self.data.flags.writeable and not self.data.flags.owndata)
        if self.writes == "forward":
            self.data += 1
        return super().forward(x) * self.data[0]

    def backward(self, dout: Any) -> Any:
        factor = self.data[0]
        if self.writes == "backward":
            self.data *= 2
        return super().backward(dout) * factor


HELD: list[Holding] = []
MAPPED: list[bool] = []


@pytest.mark.parametrize("writes", ["", "forward", "backward"])
def test_of_large_arrays_what_is_written_to_is_copied(writes: str) -> None:
    HELD.append(Holding(writes))
    MAPPED.clear()
    assert check(HELD[-1], np.ones((2, 3))).verdict == "pass"
    assert MAPPED[-1] and HELD[-1].data[0] == 1


def test_a_claim_that_is_given_comes_before_a_partner() -> None:
    def out(x: Any) -> Any:
        return dense.tanh_layer(x)

    assert (
        check(dense.tanh_layer, np.ones(2), jac=lambda z: np.diag(1 - np.tanh(z) ** 2)).claim != "tanh_layer_backward"
    )
    assert check(out, np.ones(2)).verdict == "pass"


@pytest.mark.parametrize("sign", ["+=", "="])
def test_a_gradient_that_depends_on_the_order_of_a_set_of_an_engine_fails(
    gradcli: Callable[..., Any], tmp_path: Path, sign: str
) -> None:
    code = (HERE / "engine.py").read_text().replace("children, lambda", "set(children), lambda")
    code = code.replace("self.grad += out.data * out.grad", f"self.grad {sign} out.data * out.grad")
    values = {"f": "s.exp() + s * 2", "g": "s * 2 + s.exp()"}
    made = "".join(f"\n\ndef {name}(x, w):\n    s = x * w\n    return {value}\n" for name, value in values.items())
    (tmp_path / "own.py").write_text(code + made)
    ran = [gradcli("check", f"{tmp_path}/own.py:{name}", "--engine", "Scalar", "x=0.5", "w=0.8") for name in values]
    assert [each.exit_status for each in ran] == [sign == "="] * 2
    assert ["add to each gradient with +=" in each.stdout for each in ran] == [sign == "="] * 2


def test_noise_in_an_engine_is_not_called_the_order_of_a_set(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    code = "import random\n" + (HERE / "engine.py").read_text()
    code = code.replace("self.grad += out.data * out.grad", "self.grad += out.data * out.grad + random.random()")
    (tmp_path / "own.py").write_text(code + "\n\ndef f(x, w):\n    return (x * w).exp()\n")
    ran = gradcli("check", f"{tmp_path}/own.py:f", "--engine", "Scalar", "x=0.5", "w=0.8")
    assert ran.exit_status == 1 and "fix the seed inside the claim" in ran.stdout and " set " not in ran.stdout
