"""Functions, modules and Keras models in TensorFlow as targets of `gradcli check`: what is found, and what bad ones are told."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradcli import check
from gradcli.arithmetic.devices import quiet_imports

with quiet_imports():
    tf = pytest.importorskip("tensorflow", reason="TensorFlow is not installed")

FILE = str(Path(__file__).parent / "targets.py")
TWO, ONE = "x=randn(3,4), w=randn(4)", "x=randn(3,4)"


def parts(report: Any) -> dict[str, str]:
    """Return the verdict of each custom function that was met."""
    return {part["name"]: part["verdict"] for part in report["native"]["parts"]}


@pytest.mark.parametrize(
    ("name", "at"), [("right", TWO), ("scaled_sine", TWO), ("branching", ONE), ("random", ONE), ("Net", ONE)]
)
def test_what_is_right_passes(gradcli: Any, name: str, at: str) -> None:
    ran = gradcli("check", f"{FILE}:{name}", "--at", at, "--json")
    assert ran.exit_status == 0, ran.stdout
    assert ran.json["claim"] == "tensorflow's gradient"
    assert ran.json["native"]["dtype"] == "float64"


def test_the_report_names_the_custom_function_that_is_wrong_and_not_the_right_one(gradcli: Any) -> None:
    ran = gradcli("check", f"{FILE}:wrong", "--at", TWO, "--json")
    assert ran.exit_status == 1
    assert parts(ran.json) == {"scaled_sine": "pass", "without_weight": "fail"}
    wrong = next(part for part in ran.json["native"]["parts"] if part["verdict"] == "fail")
    assert wrong["source"] == "def grad(ybar: Any) -> Any:"


def test_a_custom_function_inside_a_compiled_one_is_met(gradcli: Any) -> None:
    ran = gradcli("check", f"{FILE}:compiled", "--at", TWO, "--json")
    assert ran.exit_status == 1
    assert parts(ran.json) == {"without_weight": "fail"}


def test_every_derivative_agrees_and_the_report_says_what_it_was_compared_with(gradcli: Any) -> None:
    found = gradcli("check", f"{FILE}:right", "--at", TWO, "--json").json
    (said,) = [f["message"] for f in found["points"][0]["findings"] if f["kind"] == "untraced"]
    assert said == "checked by function values alone: gradcli has no rules for the operations of TensorFlow"
    aspects = {aspect["name"]: aspect["status"] for aspect in found["native"]["aspects"]}
    for name in ("forward (jvp)", "second run", "inside tf.function"):
        assert aspects[name] == "agrees"


@pytest.mark.parametrize("name", ["Model", "model()"])
def test_a_keras_model_is_checked_in_all_its_weights_in_float64(gradcli: Any, name: str) -> None:
    ran = gradcli("check", f"{FILE}:{name}", "--at", ONE, "--json")
    assert ran.exit_status == 0, ran.stdout
    weights = {"hidden.kernel", "hidden.bias", "normed.gamma", "normed.beta"}
    assert set(ran.json["points"][0]["differentiated"]) == {"x", *weights}
    assert ran.json["native"]["dtype"] == "float64"


def test_a_sequential_model_is_checked_in_float64_although_it_converts_what_it_is_given(gradcli: Any) -> None:
    ran = gradcli("check", f"{FILE}:sequence()", "--at", "inputs=randn(3,4)", "--json")
    assert ran.exit_status == 0, ran.stdout
    assert ran.json["native"]["dtype"] == "float64"
    assert {"layers.0.kernel", "layers.1.gamma", "layers.2.bias"} < set(ran.json["points"][0]["differentiated"])


def test_a_module_is_checked_by_the_path_of_its_variables_and_left_as_it_was(gradcli: Any) -> None:
    from tests.frameworks.tensorflow.targets import Net

    net = Net()
    before = [w.numpy().copy() for w in net.variables]
    report = check(net, {"x": tf.random.normal((3, 4)).numpy().astype(float)})
    assert report.verdict == "pass"
    assert set(report.points[0].differentiated) == {"x", "layers.0", "layers.1"}
    assert all((w.numpy() == old).all() for w, old in zip(net.variables, before, strict=True))


def test_what_only_takes_float32_is_judged_by_its_bounds(gradcli: Any) -> None:
    ran = gradcli("check", f"{FILE}:single", "--at", ONE)
    assert ran.exit_status == 0
    assert "in float32" in " ".join(ran.stdout.split())
    assert "f takes float32 only" in ran.stdout


@pytest.mark.parametrize(("name", "says"), [
    ("two_for_one", "function expected to return 1 gradients, but returned 2"),
    ("scalar_for_array", "the claimed gradient of x has shape (); the right one has shape (3, 4)"),
    ("stopped", "a stopped gradient cuts the graph here"),
    ("through_numpy", "tensorflow's gradient is wrong in 12 of 12 entries"),
])  # fmt: skip
def test_a_wrong_gradient_fails_and_says_why(gradcli: Any, name: str, says: str) -> None:
    ran = gradcli("check", f"{FILE}:{name}", "--at", ONE)
    assert ran.exit_status == 1
    assert says in " ".join(ran.stdout.split())


@pytest.mark.parametrize(("name", "says"), [
    ("integer", "integer returns a tensor of int64, which has no gradient"),
    ("text", "text returns a string, which has no gradient"),
    ("mismatched", "mismatched raised InvalidArgumentError: Matrix size-incompatible: In[0]: [3,4], In[1]: [7,3]"),
    ("raising", "KeyError: 'factor'"),
    ("Sized", "name a factory: model.py:make_net()"),
])  # fmt: skip
def test_bad_input_is_told_what_is_wrong(gradcli: Any, name: str, says: str) -> None:
    ran = gradcli("check", f"{FILE}:{name}", "--at", ONE)
    assert ran.exit_status == 2
    assert says in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize(("options", "says"), [
    (("--device", "cuda:7"), "devices: cpu"),
    (("--device", "moon"), "there is no device 'moon' here"),
])  # fmt: skip
def test_a_device_that_is_not_there_is_refused(gradcli: Any, options: tuple[str, ...], says: str) -> None:
    ran = gradcli("check", f"{FILE}:right", "--at", TWO, *options)
    assert ran.exit_status == 2
    assert says in ran.stderr


def test_complex_numbers_are_checked_by_their_parts() -> None:
    z = {"z": np.array([1 + 2j, 0.5 - 1j])}
    assert check(lambda z: tf.reduce_sum(tf.abs(z**2) * tf.math.angle(z)), z, framework="tensorflow").verdict == "pass"
    report = check(lambda z: tf.abs(z) * tf.stop_gradient(tf.math.imag(z)), z, framework="tensorflow")
    assert report.verdict == "fail"


@pytest.mark.parametrize("name", ["single_inside", "loop"])
def test_what_computes_in_float32_inside_or_has_no_forward_mode_is_not_wrong(gradcli: Any, name: str) -> None:
    ran = gradcli("check", f"{FILE}:{name}", "--at", ONE, "--json")
    assert ran.exit_status == 0, ran.stdout
    assert ran.json["native"]["dtype"] == ("float32" if name == "single_inside" else "float64")


def test_a_slight_mistake_is_found(gradcli: Any) -> None:
    ran = gradcli("check", f"{FILE}:slightly_wrong", "--at", ONE, "--json")
    assert ran.exit_status == 1 and ran.json["points"][0]["modes"]["claim"]["verdict"] == "disagree"


def test_second_derivatives_are_compared_with_differences_of_the_gradient(gradcli: Any) -> None:
    ran = gradcli("check", f"{FILE}:right", "--at", TWO, "--order", "2", "--json")
    assert ran.exit_status == 0, ran.stdout
    assert gradcli("check", f"{FILE}:wrong_twice", "--at", ONE, "--order", "2").exit_status == 1
    assert gradcli("check", f"{FILE}:wrong_twice", "--at", ONE).exit_status == 0


@pytest.mark.parametrize("words", [
    ("derive", f"{FILE}:right", "--at", TWO), ("trace", f"{FILE}:right", "--at", TWO),
    ("check", f"{FILE}:stopped", "--at", ONE, "--expect", "stop-gradient"),
])  # fmt: skip
def test_what_needs_rules_is_refused(gradcli: Any, words: tuple[str, ...]) -> None:
    ran = gradcli(*words)
    assert ran.exit_status == (3 if words[0] == "derive" else 2)
    assert "gradcli has no rules for the operations of TensorFlow" in " ".join((ran.stdout + ran.stderr).split())


def test_a_compiled_gradient_is_the_same(gradcli: Any) -> None:
    assert gradcli("check", f"{FILE}:right", "--at", TWO, "--compile").exit_status == 0
    assert gradcli("check", f"{FILE}:wrong", "--at", TWO, "--compile").exit_status == 1
