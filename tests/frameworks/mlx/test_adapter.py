"""Functions and modules in MLX as targets of `gradcli check`: what is found, and what bad ones are told."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradcli import check

mx = pytest.importorskip("mlx.core", reason="MLX is not installed")


FILE = str(Path(__file__).parent / "targets.py")
TWO, ONE = "x=randn(3,4), w=randn(4)", "x=randn(3,4)"


def parts(report: Any) -> dict[str, str]:
    """Return the verdict of each custom function that was met."""
    return {part["name"]: part["verdict"] for part in report["native"]["parts"]}


@pytest.mark.parametrize(
    ("name", "at"), [("right", TWO), ("scaled_sine", TWO), ("branching", ONE), ("random", ONE), ("Net", ONE)]
)
def test_what_is_right_passes_in_float32(gradcli: Any, name: str, at: str) -> None:
    ran = gradcli("check", f"{FILE}:{name}", "--at", at, "--json")
    assert ran.exit_status == 0, ran.stdout
    assert ran.json["claim"] == "mlx's gradient"
    assert ran.json["native"]["dtype"] == "float32"


def test_the_report_names_the_custom_function_that_is_wrong_and_not_the_right_one(gradcli: Any) -> None:
    ran = gradcli("check", f"{FILE}:wrong", "--at", TWO, "--json")
    assert ran.exit_status == 1
    assert parts(ran.json) == {"scaled_sine": "pass", "without_weight": "fail"}
    wrong = next(part for part in ran.json["native"]["parts"] if part["verdict"] == "fail")
    assert wrong["source"].startswith("def without_weight_vjp(")


def test_every_derivative_agrees_and_the_report_says_what_it_was_compared_with(gradcli: Any) -> None:
    found = gradcli("check", f"{FILE}:right", "--at", TWO, "--json").json
    (said,) = [f["message"] for f in found["points"][0]["findings"] if f["kind"] == "untraced"]
    assert said == (
        "checked by function values alone, in float64, in which MLX computes exp, sin, erf and others to float32 only: "
        "gradcli has no rules for the operations of MLX"
    )
    aspects = {aspect["name"]: aspect["status"] for aspect in found["native"]["aspects"]}
    for name in ("forward (jvp)", "second run", "non-contiguous inputs", "vmap of the gradient"):
        assert aspects[name] == "agrees"


def test_a_module_is_checked_by_the_path_of_its_parameters_and_left_as_it_was() -> None:
    from mlx.utils import tree_flatten

    from tests.frameworks.mlx.targets import Net

    net = Net()
    before = {path: np.array(x) for path, x in tree_flatten(net.parameters())}
    report = check(net, {"x": np.random.default_rng(0).normal(size=(3, 4))})
    assert report.verdict == "pass"
    assert set(report.points[0].differentiated) == {"x", *before}
    assert all((np.array(x) == before[path]).all() for path, x in tree_flatten(net.parameters()))


@pytest.mark.parametrize(("name", "says"), [
    ("too_few", "the vjp rule returns 1 for 2 arrays"),
    ("nothing", "the vjp rule returns 1 for 2 arrays"),
    ("numbers", "a float for argument 1, not an array"),
    ("scalar_for_array", "shape () for argument 1 of (4,)"),
    ("none_for_one", "mlx's gradient is wrong in 16 of 16 entries"),
])  # fmt: skip
def test_a_rule_whose_answer_mlx_would_read_past_the_end_is_wrong(gradcli: Any, name: str, says: str) -> None:
    ran = gradcli("check", f"{FILE}:{name}", "--at", TWO, "--framework", "mlx")
    assert ran.exit_status == 1
    assert says in " ".join(ran.stdout.split())


@pytest.mark.parametrize(("name", "says"), [
    ("stopped", "a stopped gradient cuts the graph here"),
    ("through_numpy", "mlx's gradient is wrong in 12 of 12 entries"),
])  # fmt: skip
def test_a_cut_graph_fails_and_says_where(gradcli: Any, name: str, says: str) -> None:
    ran = gradcli("check", f"{FILE}:{name}", "--at", ONE)
    assert ran.exit_status == 1
    assert says in " ".join(ran.stdout.split())


@pytest.mark.parametrize(("name", "says"), [
    ("integer", "integer returns a tensor of uint32, which has no gradient"),
    ("text", "text returns a string, which has no gradient"),
    ("mismatched", "[matmul] Last dimension of first input with shape (3,4) must match"),
    ("Sized", "name a factory: model.py:make_net()"),
])  # fmt: skip
def test_bad_input_is_told_what_is_wrong(gradcli: Any, name: str, says: str) -> None:
    ran = gradcli("check", f"{FILE}:{name}", "--at", ONE)
    assert ran.exit_status == 2
    assert says in ran.stderr
    assert "Traceback" not in ran.stderr


def test_what_a_rule_raises_is_told_with_its_line(gradcli: Any) -> None:
    ran = gradcli("check", f"{FILE}:raising", "--at", TWO, "--framework", "mlx")
    assert ran.exit_status == 2
    assert "KeyError: 'factor'" in ran.stderr
    assert 'raising = answering(lambda ybar: {}["factor"])' in ran.stderr


@pytest.mark.parametrize(("options", "says"), [
    (("--device", "moon"), "there is no device 'moon' here"),
    (("--dtype", "float64"), "MLX computes exp, sin, erf and others of float64 to float32 only"),
])  # fmt: skip
def test_a_device_or_a_format_that_is_not_there_is_refused(gradcli: Any, options: tuple[str, ...], says: str) -> None:
    ran = gradcli("check", f"{FILE}:right", "--at", TWO, *options)
    assert ran.exit_status == 2
    assert says in ran.stderr


@pytest.mark.parametrize("name", ["half_inside", "sum_of_many"])
def test_what_rounds_much_is_not_wrong(gradcli: Any, name: str) -> None:
    ran = gradcli("check", f"{FILE}:{name}", "--at", ONE, "--json")
    assert ran.json["verdict"] == ("pass" if name == "sum_of_many" else "inconclusive"), ran.stdout
    assert ran.json["native"]["dtype"] == ("float32" if name == "sum_of_many" else "float16")


@pytest.mark.parametrize("name", ["tanh", "sin"])
def test_many_entries_are_projected_within_what_float32_rounds(name: str) -> None:
    x = np.random.default_rng(0).normal(size=30_000)
    report = check(lambda x: mx.sum(getattr(mx, name)(x) * x), {"x": x}, framework="mlx")
    assert report.verdict == "pass", str(report)


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
    assert "gradcli has no rules for the operations of MLX" in " ".join((ran.stdout + ran.stderr).split())


def test_a_compiled_gradient_is_the_same(gradcli: Any) -> None:
    assert gradcli("check", f"{FILE}:right", "--at", TWO, "--compile").exit_status == 0
    assert gradcli("check", f"{FILE}:wrong", "--at", TWO, "--compile").exit_status == 1
