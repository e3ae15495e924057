"""The script of other values: only what a browser has, numbers as numbers, nothing of the user's text."""

import re

import gradcli
from gradcli.report.forms.html import Page, render_html, write_function, write_script
from tests.rows import for_rows


@for_rows(("f", "x", "line"), [
    ("x*x + 2", 3.0, "v[2] = r((v[1] + 2.0));"),
    ("x - -2", 3.0, "v[1] = r((v[0] - (-2.0)));"),
    ("-x**2", 3.0, "v[2] = r((-v[1]));"),
    ("x**3", 3.0, "v[1] = r(Math.pow(v[0], 3.0));"),
    ("relu(x)", 3.0, "v[1] = r(Math.max(v[0], 0.0));"),
])  # fmt: skip
def test_a_program_is_written_line_by_line(f: str, x: float, line: str) -> None:
    assert line in write_function(gradcli.trace(f, {"x": x}).program)


@for_rows("f", ["gamma(x)", "erf(x)*x", "sum([x, x])", "logdet([[x, 1], [1, x]])"])
def test_what_a_browser_lacks_has_no_script(f: str) -> None:
    trace = gradcli.trace(f, {"x": 2.0})
    assert write_function(trace.program) == write_script([trace]) == ""
    assert "RECOMPUTE =" not in render_html(trace, Page())


def test_decisions_are_compared_with_what_was_decided() -> None:
    program = gradcli.trace("x**2 if x > 1 else 3*x", {"x": 2.0}).program
    assert program is not None and program.answers == (1.0,) and program.places[0].startswith("column")
    assert "d: [(v[0] > 1.0)].map(Number)" in write_function(program)


def test_no_text_of_the_user_is_in_the_script() -> None:
    page = render_html(gradcli.trace("alert = x*x; alert*x # </script><script>alert(1)", {"x": 2.0}), Page())
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    assert len(scripts) == 2 and "alert" not in scripts[0]
