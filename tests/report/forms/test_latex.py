"""Reports in LaTeX: a document that compiles, whatever the names in it."""

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gradcli.report.blocks import Table
from gradcli.report.forms.latex import _write_table, escape_latex
from tests.rows import for_rows

RUNS = [
    ("0.5*sum((W_out@x - y2)**2)", "W_out: m n; x: n; y2: m"),
    ("log(det(S)) + x@inv(S)@x", "S: n n; x: n"),
    ("sum(exp(x)) # 50% of $y$ & \\input{z} ~^", "x: n"),
    ("softmax(z)", "z: n"),
    ("max(x)", "x: n"),
    ("sum(i0e(x))", "x: n"),
]


@for_rows(("text", "shown"), [
    ("a_b & 50% #1 $x$ {y}", r"a\_b \& 50\% \#1 \$x\$ \{y\}"), ("x**2 ^ ~", r"x**2 \textasciicircum{} \textasciitilde{}"),
    ("\\input{x}", r"\textbackslash{}input\{x\}"), ("λ", r"\(\lambda\)"), ("Φ", r"\(\Phi\)"), ("☃", "?"), ("a\x1b[31m", None), ("", ""),
])  # fmt: skip
def test_signs_are_escaped(text: str, shown: str | None) -> None:
    found = escape_latex(text)
    assert found.isascii() and found.isprintable()
    assert shown is None or found == shown


@for_rows(("f", "shapes"), RUNS)
def test_documents_are_whole(gradcli: Callable[..., Any], f: str, shapes: str) -> None:
    text = gradcli("derive", f, "--shapes", shapes, "--format", "latex").stdout
    assert text.startswith(r"\documentclass") and text.rstrip().endswith(r"\end{document}")
    begun, ended = (re.findall(rf"\\{word}{{(\w+\*?)}}", text) for word in ("begin", "end"))
    assert sorted(begun) == sorted(ended)
    braces = re.findall(r"(?<!\\)[{}]", text)
    assert braces.count("{") == braces.count("}")
    assert text.count(r"\left") == text.count(r"\right") and text.isascii()
    body = text.partition(r"\begin{document}")[2]
    assert not re.search(r"(?<!\\)[#%$]|\^\{[^{}]*\}\^|\n\n\\end\{align", body)
    assert r"\input" not in text


# fmt: off
PAGES = [  # of a textbook: the function, the shapes, what is assumed, the inputs
    ("0.5*log(det(S)) + 0.5*(x-u)@inv(S)@(x-u)",                       "S: n n; x: n; u: n",             "S: spd",         "S"),
    ("0.5*sum((W@x - y)**2)",                                          "W: m n; x: n; y: m",             "",               "W,x"),
    ("x@A@x",                                                          "A: n n; x: n",                   "",               "x"),
    ("-mean(y*log(sigmoid(X@w)) + (1-y)*log(1-sigmoid(X@w))) + lam*(w@w)/2", "X: m n; w: n; y: m; lam:", "",               "w"),
    ("-sum(Y*log(softmax(X@W, axis=1)))/m",                            "X: m n; W: n k; Y: m k",         "Y: onehot rows", "W"),
    ("log(det(X))",                                                    "X: n n",                         "",               "X"),
    ("trace(inv(X)@A)",                                                "X: n n; A: n n",                 "",               "X"),
    ("g@((x - mean(x))/sqrt(var(x) + 1e-5))",                          "x: n; g: n",                     "",               "x"),
    ("sum(R*(softmax(Q@K.T/sqrt(d), axis=1)@V))",                      "Q: m d; K: n d; V: n k; R: m k", "",               "Q"),
    ("h = sigmoid(W1@x + b1); a = sigmoid(W2@h + b2); 0.5*sum((a - y)**2)", "W1: k n; x: n; b1: k; W2: m k; b2: m; y: m", "", "W1,b1,W2,b2"),
    ("sum(G*(X - mean(X, axis=0))/sqrt(var(X, axis=0) + 1e-5))",       "X: m n; G: m n",                 "",               "X"),
    ("d1 = (log(S/K)+(r+v**2/2)*T)/(v*sqrt(T)); d2 = d1 - v*sqrt(T); S*ndtr(d1) - K*exp(-r*T)*ndtr(d2)", "S:; K:; r:; v:; T:", "S: positive; K: positive; v: positive; T: positive", "S"),
]
# fmt: on


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not here")
@pytest.mark.parametrize(("f", "shapes", "assume", "wrt"), PAGES)
def test_a_page_of_a_textbook_compiles_within_its_margins(
    gradcli: Callable[..., Any], tmp_path: Path, f: str, shapes: str, assume: str, wrt: str
) -> None:
    assumed = ("--assume", assume) if assume else ()
    gradcli("derive", f, "--shapes", shapes, "--wrt", wrt, *assumed, "--out", str(tmp_path / "page.tex"))
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "page.tex"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="replace", check=False)
    assert run.returncode == 0, run.stdout[-2000:]
    assert "Overfull" not in run.stdout


def test_no_row_of_a_table_is_lost() -> None:
    shown = _write_table(Table(("a", "b"), (("1", "2"), ("[3]", "4"), ("a row of one cell",)), frozenset({1}), "t_1"))
    assert all(text in shown for text in ("1 & 2", "{}[3] & 4", "a row of one cell", r"t\_1"))
