"""Pages of numbers take other values of the inputs: what they compute is what a new run finds, in the digits that are shown."""

import math
from collections.abc import Callable
from pathlib import Path

import pytest

from gradcli.report.forms import html
from tests.browser.conftest import Opened
from tests.conftest import gradcli

Open = Callable[..., Opened]
Written = Callable[..., Path]

# fmt: off
PROGRAMS: list[tuple[str, dict[str, float], dict[str, float]]] = [
    ("v3 = x1 + x2; v3 * x1", {"x1": 3, "x2": 4}, {"x1": -1.25, "x2": 0.1}),
    ("sigmoid(w*x + b)", {"w": 2, "x": 1, "b": -1}, {"w": -3.5, "b": 2.25}),
    ("x*y*z + x*y + y*z", {"x": 1, "y": 2, "z": 3}, {"y": -0.3, "z": 1e6}),
    ("(x*sin(y) - y*cos(x))/(1 + x**2 + y**2)", {"x": 1.2, "y": -0.4}, {"x": -7.7, "y": 123.4}),
    ("log1p(exp(x)) - max(x, 0)", {"x": 0.5}, {"x": 30}),
    ("1 - cos(x)", {"x": 1}, {"x": 1e-5}),
    ("x**y + sqrt(x)*arctan2(y, x)", {"x": 2, "y": 1.5}, {"x": 0.37, "y": -2}),
    ("hypot(x, y)*tanh(x/y) + abs(y)", {"x": 1, "y": 2}, {"x": -4, "y": -0.5}),
    ("arctan(x) + arcsinh(x)*log(2 + x*x) - exp(-x**2)", {"x": 0.3}, {"x": -1.9}),
    ("relu(x)*cosh(y) + minimum(x, y) + 3*x", {"x": 1, "y": 0.2}, {"x": -1, "y": 0.7}),
]
# fmt: on


def given(page: Opened, values: dict[str, float]) -> None:
    for name, x in values.items():
        page.page.get_by_role("textbox", name=name, exact=True).fill(str(x))


def holds(text: str, right: float) -> bool:
    """Whether all digits of a number that is shown are right."""
    if text in ("nan", "inf", "-inf"):
        return not math.isfinite(right)
    written = text.partition("e")[0].lstrip("-0.")
    digits = len(written.replace(".", "") if "." in text else written.rstrip("0")) or 1
    return (
        abs(float(text) - right)
        <= 0.51 * 10.0 ** (math.floor(math.log10(abs(float(text)) or 1.0)) - digits + 1) + 1e-300
    )


@pytest.mark.parametrize(("f", "at", "other"), PROGRAMS, ids=[row[0][:12] for row in PROGRAMS])
def test_a_page_computes_what_a_new_run_finds(
    open_page: Open, written: Written, f: str, at: dict[str, float], other: dict[str, float]
) -> None:
    words = [f"{name}={x}" for name, x in at.items()]
    page = open_page(written("trace", f, *words), fragment="#end")
    shown = "[...document.querySelectorAll('.node')].map(n => ['.n', '.v', '.a'].map(one => n.querySelector(one).textContent))"
    before = page.page.evaluate(shown)
    given(page, other)
    run = gradcli("trace", f, *(f"{name}={x}" for name, x in (at | other).items()), "--json").json
    nodes = {node["name"]: node for node in run["nodes"]}
    found = page.page.evaluate(shown)
    assert {name for name, *_ in found} == set(nodes)
    for name, value, adjoint in found:
        assert holds(value, nodes[name]["value"]), name
        assert holds(adjoint, nodes[name]["adjoint"]), name
    page.page.get_by_role("button", name="first step").click()
    for _ in range(int(page.page.locator("input[aria-label=step]").get_attribute("max") or 0)):
        page.page.keyboard.press("ArrowRight")
        rows = dict(zip(*(page.page.locator(f".step {tag}").all_inner_texts() for tag in ("dt", "dd")), strict=True))
        name = (page.page.locator(".node.on .n").text_content() or "") if rows else ""
        for key in {"value", "adjoint"} & rows.keys():
            assert holds(rows[key], nodes[name][key]), (name, key)
    page.page.get_by_role("button", name="back to the point").click()
    assert page.page.evaluate(shown) == before and page.complaints == [] and page.axe() == []


def test_a_branch_that_is_crossed_is_said(open_page: Open, written: Written) -> None:
    page = open_page(written("trace", "x**2 if x > 1 else 3*x", "x=2"))
    crossed = page.page.locator(".crossed")
    given(page, {"x": 1.5})
    assert crossed.inner_text() == ""
    given(page, {"x": 0.5})
    assert crossed.inner_text().startswith("At these values the program decides otherwise, at column")
    page.page.get_by_role("button", name="back to the point").click()
    assert crossed.inner_text() == ""


def test_what_is_no_number_changes_nothing(open_page: Open, written: Written) -> None:
    page = open_page(written("trace", "x*y", "x=2", "y=3"), fragment="#end")
    field, now, crossed = (
        page.page.get_by_role("textbox", name="x", exact=True),
        page.page.locator(".now"),
        page.page.locator(".crossed"),
    )
    field.fill("5")
    assert now.inner_text().startswith("result = 15 at these values.")
    for typed in ("", "1,5", "abc", "1e400", "nan"):
        field.fill(typed)
        assert crossed.inner_text() == "x is not a number: nothing was computed."
        assert page.page.locator(".node .v").last.text_content() == "15"
    field.fill("123456789")
    assert page.page.locator(".node .v").last.text_content() == "3.7037e8" and crossed.inner_text() == ""


def test_a_slider_changes_the_value(open_page: Open, written: Written) -> None:
    page = open_page(written("trace", "x*y", "x=2", "y=3"), fragment="#end")
    page.page.get_by_role("slider", name="x, slider").press("ArrowRight")
    x = float(page.page.get_by_role("textbox", name="x", exact=True).input_value())
    assert x > 2 and page.page.locator(".node .v").last.text_content() == f"{3 * x:.5g}"


@pytest.mark.parametrize("argv", [
    ("trace", "sum(x**2)", "x=[1,2]"), ("trace", "gamma(x)*x", "x=2"), ("trace", "round(x)*x", "x=2.4"),
])  # fmt: skip
def test_programs_of_what_a_browser_lacks_have_no_sliders(
    open_page: Open, written: Written, argv: tuple[str, ...]
) -> None:
    page = open_page(written(*argv))
    assert page.page.locator(".play").count() == 0 and page.complaints == []


def test_a_claim_that_is_an_expression_is_computed_again(open_page: Open, written: Written) -> None:
    page = open_page(
        written("check", "x**2*sin(y)", "--grad", "x=2*x*sin(y), y=x**2*sin(y)", "x=1.5", "y=0.7"), fragment="#end"
    )
    claim = page.page.locator(".graph .c")
    opacity = "Number(getComputedStyle(document.querySelector('.graph .c')).opacity)"
    assert claim.text_content() == "claimed 1.4495"
    given(page, {"x": 2, "y": 0.5})
    assert claim.text_content() == f"claimed {4 * math.sin(0.5):.5g}" and page.page.evaluate(opacity) == 1
    page.page.get_by_role("button", name="first step").click()
    page.page.keyboard.press("ArrowLeft")
    page.page.evaluate("window.location.hash = '#b1'")
    page.page.locator(".step .bad").first.wait_for()
    assert page.page.locator(".step dd.bad").inner_text() == f"{4 * math.sin(0.5):.6g}"
    given(page, {"y": round(math.pi / 4, 12)})  # where the sine and the cosine are the same
    assert page.page.locator(".step dd.bad").count() == 0 and page.complaints == []
    page.page.get_by_role("button", name="back to the point").click()
    assert claim.text_content() == "claimed 1.4495"


def test_a_claim_that_is_a_function_is_of_the_point_of_the_report(open_page: Open, tmp_path: Path) -> None:
    (tmp_path / "f.py").write_text(
        "import numpy as np\n\ndef f(x):\n    return x**2 * np.sin(x)\n\ndef g(x):\n    return 2*x\n"
    )
    gradcli("check", f"{tmp_path}/f.py:f", "--grad", "g", "x=1.5", "--out", str(tmp_path / "page.html"))
    page = open_page(tmp_path / "page.html", fragment="#end")
    opacity = "Number(getComputedStyle(document.querySelector('.graph .c')).opacity)"
    assert page.page.evaluate(opacity) == 1
    given(page, {"x": 2})
    assert page.page.evaluate(opacity) < 0.5 and page.complaints == []


def test_a_lecture_is_large_and_an_adjoint_travels(open_page: Open, written: Written) -> None:
    page = open_page(written("trace", "v3 = x1 + x2; v3 * x1", "x1=3", "x2=4"), fragment="#f2")
    size = "parseFloat(getComputedStyle(document.querySelector('.graph .n')).fontSize) * document.querySelector('.graph').getScreenCTM().a"
    small = page.page.evaluate(size)
    page.page.keyboard.press("f")
    assert page.page.evaluate(size) > 1.3 * small and not page.page.locator(".code").is_visible()
    page.page.get_by_role("button", name="last step").click()
    assert page.page.locator(".travels").count() == 0
    page.page.get_by_role("button", name="one step back").click()
    assert page.page.locator(".travels").count() == 1
    page.page.locator(".travels").wait_for(state="detached")
    page.page.keyboard.press("f")
    assert page.page.evaluate(size) == small and page.complaints == [] and page.axe() == []


ALL = (
    "abs(x) + arccos(x) + arcsin(x) + arcsinh(x) + arctan(x) + arctan2(x, y) + arctanh(x) + cbrt(x) + cos(x) + cosh(x) + x/y + exp(x)"
    " + exp2(x) + sigmoid(x) + expm1(x) + hypot(x, y) + x**3 + log(x) + log10(x) + log1p(x) + log2(x) + logaddexp(x, y)"
    " + maximum(x, y) + minimum(x, y) + x*y - (-x) + x**y + reciprocal(x) + relu(x) + square(x) + sin(x) + sinh(x) + sqrt(x) + x**2"
    " + tan(x) + tanh(x) + arccosh(y+1) + logsigmoid(x)"
)


def test_all_operations_that_a_browser_computes_are_tried() -> None:
    run = gradcli("trace", ALL, "x=0.71", "y=0.13", "--json").json
    made = {node["operation"] for node in run["nodes"]} - {"input"}
    assert {*html.VALUES} - made == {"real", "positive"}  # which the language has no words for


def test_values_and_partials_of_all_operations(open_page: Open, written: Written) -> None:
    terms = ALL.split(" + ")
    for part in [" + ".join(terms[k : k + 8]) for k in range(0, len(terms), 8)]:
        at = {"x": 0.3, "y": 0.6} if "y" in part else {"x": 0.3}
        other = {"x": 0.71, "y": 0.13}
        page = open_page(written("trace", f"x*({part})", *(f"{name}={x}" for name, x in at.items())), fragment="#end")
        given(page, {name: other[name] for name in at})
        run = gradcli("trace", f"x*({part})", *(f"{name}={other[name]}" for name in at), "--json").json
        for node, box in zip(run["nodes"], page.page.locator(".node").all(), strict=True):
            assert holds(box.locator(".v").text_content() or "", node["value"]), part
            assert holds(box.locator(".a").text_content() or "", node["adjoint"]), part
