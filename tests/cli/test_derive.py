"""`gradcli derive` through the program: text that fits, documents that validate, statuses, forms, and what it refuses."""

import re
import shutil
import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jsonschema import Draft202012Validator

from gradcli.targets.expression import Expression
from tests.rows import for_rows

Gradcli = Callable[..., Any]
LEAST = ("0.5*sum((W@x - y)**2)", "--shapes", "W: m n; x: n; y: m")
GAUSS = ("0.5*log(det(S)) + 0.5*(x - u)@inv(S)@(x - u)", "--shapes", "S: n n; x: n; u: n", "--assume", "S: spd")

# fmt: off
RUNS = {
    "least squares":     (0, LEAST),
    "one input":         (0, (*LEAST, "--wrt", "W")),
    "no steps":          (0, (*LEAST, "--no-steps")),
    "graph":             (0, (*LEAST, "--style", "graph")),
    "index":             (0, (*LEAST, "--style", "index")),
    "numerator":         (0, (*LEAST, "--layout", "numerator")),
    "Gauss":             (0, (*GAUSS, "--wrt", "S")),
    "a Jacobian":        (0, ("softmax(z)", "--shapes", "z: n")),
    "a Hessian":         (0, ("logsumexp(A@x)", "--shapes", "A: m n; x: n", "--wrt", "x", "--order", "2")),
    "numbers as sizes":  (0, ("sum(tanh(W@x))", "--shapes", "W: 3 4; x: 4")),
    "numbers":           (0, ("x*y**2",)),
    "several facts":     (0, ("x@S@x + log(det(S))", "--shapes", "S: n n; x: n", "--assume", "S: spd, tied", "--wrt", "S")),
    "right answer":      (0, (*LEAST, "--wrt", "y", "--answer", "y - W@x")),
    "wrong answer":      (1, (*LEAST, "--wrt", "y", "--answer", "W@x - y")),
    "refused":           (3, ("sum(i0e(x))", "--shapes", "x: n")),
    "in torch and jax":  (0, (*LEAST, "--code", "torch,jax")),
    "in C":              (0, ("x*y**2", "--code", "c")),
    "in all languages":  (0, (*LEAST, "--wrt", "W", "--code", "all")),
    "partly refused":    (3, ("c*sum(x) + sum(i0e(x))", "--shapes", "x: n")),
}
BAD = [
    # argv                                             what is wrong                                              what to do
    (("x@x", "--shapes", "x n"),                       "the shape 'x n' cannot be read",                          'write --shapes "W: 3 4; x: 4"'),
    (("x@x", "--shapes", "x: 0"),                      "the sizes of x are not names, numbers or their sums: 0",    'write "W: m n", or "W: m n+k"'),
    (("sum(w)", "--shapes", "w: n+m"),                 "the size n occurs only in n + m",                         "give another axis the size n, or the sum a name"),
    (("x@x + sum(w)", "--shapes", "x: n; w: n-15"),    "the size n - 15 is below 2 where all names are small",    "write it as a sum: x: m+k; y: m"),
    (("x[k:]@y", "--shapes", "x: n; y: n-k"),          "a size of y is a difference: n - k",                      'write sums, such as "y: m; x: m+k"'),
    (("sum(x[:m])", "--shapes", "x: n; m:"),           "m bounds a slice, and is the size of no axis",            'give an axis this size, such as "y: m", or write a number for it'),
    (("sum(x[:m])", "x=[1, 2, 3]", "m=2"),             "m bounds a slice, and is the size of no axis",            'give an axis this size, such as "y: m", or write a number for it'),
    (("x@x", "--shapes", "q: n"),                      "--shapes names 'q', which is not an input",                   "inputs: x"),
    (("x@y", "--shapes", "x: n; y: m"),                "do not fit in '@'",                                       ""),
    (("x@x", "--shapes", "x: n", "--assume", "x: spd"), "x is n and cannot be spd",                               "spd is for a square matrix"),
    (("x@x", "--shapes", "x: n", "--assume", "x: big"), "'big' is no assumption",                                 "known: symmetric, spd, tied"),
    (("x@x", "--shapes", "x: n", "--assume", "q: spd"), "--assume names 'q', which is not an input",                  "inputs: x"),
    (("x@x", "--shapes", "x: n", "--assume", "spd"),   "the assumption 'spd' cannot be read",                     'write --assume "S: spd; y: simplex"'),
    (("x@x", "--shapes", "x: n", "--layout", "up"),    "--layout does not know 'up'",                             "known: mixed, denominator, numerator"),
    (("x@x", "--shapes", "x: n", "--style", "up"),     "--style does not know 'up'",                              "known: differential, graph, index"),
    (("x@x", "--shapes", "x: n", "--code", "tosh"),     "--code does not know 'tosh'",                            "did you mean 'torch'? known: numpy, torch, jax, c, all"),
    (("x@x", "--shapes", "x: n", "--code", "numpy,fortran"), "--code does not know 'fortran'",                   "known: numpy, torch, jax, c, all"),
    (("x@x", "--shapes", "x: n", "--code", ","),       "--code names no language",                               "known: numpy, torch, jax, c, all"),
    (("x@x", "--shapes", "x: n", "--wrt", "q"),        "--wrt names 'q', which is not an input",                      "inputs: x"),
    (("x@x", "--shapes", "x: n", "--order", "3"),      "--order takes a whole number from 1 to 2, not '3'",                           "write --order 1"),
    (("x@x", "--shapes", "x: n", "--seed", "1.5"),     "--seed takes a whole number or 'random', not '1.5'",      "write --seed 0"),
    (("x@x", "--shapes", "x: n", "--format", "pdf"),   "there is no format 'pdf' for this command",               "formats: text, brief, json, ndjson, markdown, latex, html"),
    (("sine(x)",),                                     "unknown function 'sine'",                                 "did you mean 'sin'?"),
    (("x@x", "y@y"),                                   "this command takes one target, not 2",                    "run it once for each"),
]
# fmt: on
CASES = [pytest.param(status, argv, id=name) for name, (status, argv) in RUNS.items()]


@pytest.fixture(name="validator", scope="module")
def _validator() -> Any:
    from tests.conftest import gradcli

    return Draft202012Validator(gradcli("schema", "derive").json)


@pytest.mark.parametrize(("status", "argv"), CASES)
def test_documents_validate(gradcli: Gradcli, validator: Any, status: int, argv: tuple) -> None:
    ran = gradcli("derive", *argv, "--json")
    document = ran.json
    assert (ran.exit_status, document["exit_status"], document["schema"], ran.stderr) == (
        status,
        status,
        "gradcli.derive/2",
        "",
    )
    assert [error.message for error in validator.iter_errors(document)] == []
    for result in document["results"]:
        assert {"wrt", "shape", "kind", "formula", "program", "steps", "code", "operations", "check"} <= set(result)
        assert list(result["formula"]) == ["expression", "unicode", "latex", "mathml"]
        assert f"def {result['kind']}(" in result["code"]["numpy"]
        assert result["check"]["verdict"] == "pass" and result["check"]["max_relative_error"] < 1e-9
        assert all(
            {"rule", "before", "after", "where", "condition", "unicode", "latex", "mathml"} == set(step)
            for step in result["steps"]
        )


def test_the_document_is_validated_for_real(gradcli: Gradcli, validator: Any) -> None:
    document = gradcli("derive", *LEAST, "--json").json
    document["results"][0]["formula"] = 3
    assert list(validator.iter_errors(document))


@for_rows(("status", "argv"), CASES, parts=4)
def test_text_fits(gradcli: Gradcli, status: int, argv: tuple) -> None:
    ran = gradcli("derive", *argv, environ={"COLUMNS": "60"})
    assert (ran.exit_status, ran.stderr) == (status, "")
    code = ("  import", "  from", "  def", "  static", "  double", "      ")
    prose = [line for line in ran.stdout.splitlines() if not line.startswith(code)]
    assert max(map(len, prose)) <= 60 and "\x1b" not in ran.stdout
    assert "layout" in ran.stdout and "variables" in ran.stdout


@for_rows(("argv", "says"), [
    ((*LEAST, "--wrt", "W"), "gradient by W, m x n ∂f/∂W = (W x - y) xᵀ"), ((*LEAST, "--wrt", "x"), "Wᵀ (W x - y)"), ((*LEAST, "--wrt", "W"), "variables W m x n; x n; y m"),
    ((*LEAST, "--wrt", "W"), "layout mixed: a gradient has the shape of its input"), ((*LEAST, "--layout", "numerator"), "layout numerator:"),
    ((*GAUSS, "--wrt", "S"), "S n x n (spd)"), ((*LEAST, "--wrt", "W"), "against certified"), ((*LEAST, "--wrt", "W"), "return np.outer(W@x - y, x)"),
    (("sum(i0e(x))", "--shapes", "x: n"), "refused: by x:"), (("softmax(z)", "--shapes", "z: n"), "jacobian by z, n"),
    (("sum(x**3)", "--shapes", "x: n", "--order", "2"), "hessian by x, n"),
    (("x**2*y**3", "--order", "2"), "mixed second derivatives are not among these: by x and y, derive"),
    (LEAST, "code the numpy code was run against certified values; the torch and jax code carry a self-test"),
    (("x*y",), "the numpy code was run against certified values; the torch, jax and C code carry a self-test"),
    ((*LEAST, "--wrt", "W", "--code", "torch"), "import torch def gradient(*, W, x, y): return torch.outer(W@x - y, x)"),
    ((*LEAST, "--wrt", "W", "--code", "all"), "in jax: import jax.numpy as jnp def gradient(*, W, x, y): return jnp.outer(W@x - y, x)"),
    ((*LEAST, "--wrt", "W", "--code", "all"), "no C code: C is written for functions of numbers, and W is none"),
    (("sum(torch**2)", "--shapes", "torch: n"), "no torch code: what is called torch hides a module in the code"),
    (("cross_entropy(Z, y)", "--shapes", "Z: m k; y: m", "--wrt", "Z"), "∂f/∂Z = (softmax_rows(Z) - onehot(y)) / m"),
    (("-sum(y*log(softmax(z)))", "--shapes", "z: n; y: n", "--assume", "y: simplex", "--wrt", "z"), "1 name p = softmax(z) 2 name f = -yᵀ log(p)"),
    (("log(sum(exp(A@x)))", "--shapes", "A: m n; x: n", "--wrt", "x"), "logsumexp"),
    (("sin(gamma)", "--code", "C"), "#include <math.h> double gradient(double gamma_) { return cos(gamma_); }"),
], parts=3)  # fmt: skip
def test_the_text_says(gradcli: Gradcli, argv: tuple, says: str) -> None:
    assert says in " ".join(gradcli("derive", *argv).stdout.split())


@for_rows(("argv", "what", "do"), BAD)
def test_what_cannot_be_done_is_said(gradcli: Gradcli, argv: tuple, what: str, do: str) -> None:
    ran = gradcli("derive", *argv)
    assert (ran.exit_status, ran.stdout) == (2, "")
    assert ran.stderr.startswith("error: ") and what in ran.stderr and do in ran.stderr
    if "--format" in argv:
        return
    document = gradcli("derive", *argv, "--json").json
    assert document["schema"] == "gradcli.error/1" and what in document["error"]["message"]


@pytest.mark.slow
def test_quiet_says_nothing(gradcli: Gradcli) -> None:
    for status, argv in RUNS.values():
        ran = gradcli("derive", *argv, "-q")
        assert (ran.exit_status, ran.stdout, ran.stderr) == (status, "", "")


@pytest.mark.parametrize("code", ["numpy", "c", "all"])
def test_documents_have_all_code(gradcli: Gradcli, code: str) -> None:
    (result,) = gradcli("derive", "x*exp(y)", "--wrt", "x", "--json", "--code", code).json["results"]
    assert list(result["code"]) == ["numpy", "torch", "jax", "c"] and result["uncoded"] == {}
    assert all('print("ok")' in text or 'puts("ok")' in text for text in result["code"].values())
    document = gradcli("derive", *LEAST, "--wrt", "x", "--json").json
    (result,) = document["results"]
    assert list(result["code"]) == ["numpy", "torch", "jax"] and list(result["uncoded"]) == ["c"]
    assert "shown" not in document


def test_text_leaves_self_tests_out(gradcli: Gradcli) -> None:
    for argv in (LEAST, ("x*exp(y)",)):
        shown = gradcli("derive", *argv, "--code", "all").stdout
        assert "__main__" not in shown and "int main" not in shown and "stdio" not in shown


@pytest.mark.parametrize("f", ["x*inf", "logit(cos(pi))*x"])
def test_a_part_that_is_never_finite_is_refused(gradcli: Gradcli, f: str) -> None:
    ran = gradcli("derive", f)
    assert (ran.exit_status, ran.stderr) == (3, "")
    assert "whatever its inputs are" in " ".join(ran.stdout.split())


def test_no_steps_are_told(gradcli: Gradcli) -> None:
    assert gradcli("derive", *LEAST, "--no-steps", "--json").json["results"][0]["steps"] == []
    assert all(r["steps"] for r in gradcli("derive", *LEAST, "--json").json["results"])


def test_a_layout_is_a_transpose(gradcli: Gradcli) -> None:
    at = {n: np.random.default_rng(0).normal(size=shape) for n, shape in (("W", (2, 3)), ("x", (3,)), ("y", (2,)))}
    found = []
    for layout in ("denominator", "numerator"):
        scope: dict[str, Any] = {}
        exec(
            gradcli("derive", *LEAST, "--wrt", "W", "--layout", layout, "--json").json["results"][0]["code"]["numpy"],
            scope,
        )
        found.append(scope["gradient"](**at))
    np.testing.assert_allclose(found[0], found[1].T)


def test_markdown_has_the_formula_and_the_code(gradcli: Gradcli) -> None:
    text = gradcli("derive", *LEAST, "--wrt", "W", "--format", "markdown").stdout
    assert "```python" in text and "np.outer(W@x - y, x)" in text


def test_ndjson_is_the_same_document_on_a_line(gradcli: Gradcli) -> None:
    one, many = gradcli("derive", *LEAST, "--format", "ndjson"), gradcli("derive", *LEAST, "--json")
    assert one.stdout.count("\n") == 1
    assert one.json["results"] == many.json["results"]


@pytest.mark.parametrize("ending", [".tex", ".json", ".md"])
def test_files_are_written_by_their_ending(gradcli: Gradcli, tmp_path: Path, ending: str) -> None:
    file = tmp_path / f"found{ending}"
    assert gradcli("derive", *LEAST, "--out", str(file)).exit_status == 0
    assert file.read_text(encoding="utf-8").startswith({".tex": r"\documentclass", ".json": "{"}.get(ending, ""))


LATEX = [
    argv for status, argv in [*RUNS.values(), (0, ("sum((sigmoid(W2@sigmoid(W1@x)) - y)**2)", "--shapes", "W1: h n; x: n; W2: m h; y: m"))]
    if status < 2
]  # fmt: skip


@for_rows("argv", LATEX, parts=4)
def test_latex_is_well_formed(gradcli: Gradcli, argv: tuple[str, ...]) -> None:
    """Braces, brackets and environments are balanced, and equations that stand under each other have one sign each."""
    text = gradcli("derive", *argv, "--format", "latex").stdout
    body = re.sub(r"\\begin{lstlisting}.*?\\end{lstlisting}", "", text, flags=re.S).partition(r"\begin{document}")[2]
    assert text.isascii() and "?" not in body
    bare = re.sub(r"\\[{}\\]", "", body)
    assert bare.count("{") == bare.count("}") and body.count(r"\left") == body.count(r"\right")
    assert body.count(r"\[") == body.count(r"\]") and body.count(r"\(") == body.count(r"\)")
    opened: list[str] = []
    for how, name in re.findall(r"\\(begin|end){(\w+)}", body):
        assert how == "begin" or (not opened and name == "document") or opened.pop() == name
        opened += [name] if how == "begin" else []
    for lines in re.findall(r"\\begin{aligned}(.*?)\\end{aligned}", body):
        assert all(line.count("&") == 1 for line in lines.split(r" \\ "))
    assert r" &= \boxed{" in body and body.lstrip().startswith("\\[") and "\nLet \\(" in body


def test_a_page_has_sentences_and_formulas(gradcli: Gradcli, tmp_path: Path) -> None:
    """The title is a formula, sizes are spaces, sigmoid is its letter, and each formula has a sentence before it."""
    file = tmp_path / "found.html"
    f = "sum((sigmoid(W@x) - y)**2)"
    assert gradcli("derive", f, "--shapes", "W: m n; x: n; y: m", "--wrt", "W", "--out", str(file)).exit_status == 0
    page = file.read_text(encoding="utf-8")
    body = ET.fromstring(page[page.index("<main>") : page.index("</main>")] + "</main>")
    math = "{http://www.w3.org/1998/Math/MathML}"
    (title,) = body.iter("h1")
    assert "".join(title.itertext()).startswith("f=‖σ(W") and title.find(f"{math}math") is not None
    assert "W∈ℝm×n" in "".join(body.itertext()) and "sigmoid" not in "".join(
        "".join(element.itertext()) for element in body.iter(f"{math}math")
    )
    said = [p.text for p in body.iter("p") if p.text and p.find(f"{math}math") is None]
    assert said[:2] == ["Let", "By the chain rule for sigmoid:"]
    assert "The error δ of a layer is the derivative of f with respect to what the layer gives its function:" in said


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
@pytest.mark.parametrize(("status", "argv"), CASES)
def test_latex_compiles(gradcli: Gradcli, tmp_path: Path, status: int, argv: tuple) -> None:
    (tmp_path / "found.tex").write_text(gradcli("derive", *argv, "--format", "latex").stdout)
    ran = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "found.tex"],
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout[-2000:]


def wrong(reason: str, *argv: str) -> Any:
    return pytest.param(argv, marks=pytest.mark.xfail(reason=reason, strict=True), id=" ".join(argv))


@pytest.mark.parametrize("argv", [
    ("x**3", "--order", "2"),
    ("sum(x)", "--shapes", "x: n", "--order", "2"),
    ("sum(x)*y", "--shapes", "x: n; y: m", "--wrt", "x"),
    ("sum(X - x)", "--shapes", "X: m n; x: n", "--wrt", "x"),
    ("sum(A + s*eye(n))", "--shapes", "A: n n", "--wrt", "s"),
    ("sum(softmax(X, axis=1))", "--shapes", "X: m n"),
    ("trace(inv(X.T@X))", "--shapes", "X: m n"),
    ("var(sum(X, axis=0))", "--shapes", "X: m n"),
    ("where(x > y, x**2, y)",), ("where((x > 1)*(y > 0), x**2, x)*y",), ("2**x", ), ("x**y", "--assume", "x: positive"), ("x**x", "--assume", "x: positive"),
    ("sum((x[1:] - x[:-1])**2)*ones(n - 1)@x[1:]", "--shapes", "x: n"), ("0.1*pi*x**2",), ("0.5641895835477563*(x@x)", "--shapes", "x: n"),
    wrong("an input hides the module that code is qualified by", "sum(sigmoid(special))", "--shapes", "special: n"),
], ids=" ".join)  # fmt: skip
def test_simple_functions_are_derived(gradcli: Gradcli, argv: tuple) -> None:
    assert gradcli("derive", *argv).exit_status == 0


def test_zeros_are_printed_as_gradcli_reads_them(gradcli: Gradcli) -> None:
    f = ("sum(x)", "--shapes", "x: n", "--order", "2", "--no-steps")
    assert "np.zeros([n, n])" in gradcli("derive", *f).stdout
    (result,) = gradcli("derive", *f, "--json").json["results"]
    printed = result["formula"]["expression"]
    assert printed == "zeros([n, n])"
    np.testing.assert_array_equal(Expression(printed)({"n": np.float64(3)}), np.zeros((3, 3)))
    assert gradcli("derive", *f, "--answer", printed).exit_status == 0


def test_a_function_without_inputs_says_so(gradcli: Gradcli) -> None:
    ran = gradcli("derive", "2*3")
    assert ran.exit_status in (2, 3)
    assert re.search("no input|constant", ran.stdout + ran.stderr)
