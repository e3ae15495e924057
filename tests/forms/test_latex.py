"""Reports in LaTeX: a document that compiles, whatever the names in it."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from gradcli.forms.latex import _table, escaped
from gradcli.reports.blocks import Table

RUNS = [
    ("0.5*sum((W_out@x - y2)**2)", "W_out: m n; x: n; y2: m"),
    ("log(det(S)) + x@inv(S)@x", "S: n n; x: n"),
    ("sum(exp(x)) # 50% of $y$ & \\input{z} ~^", "x: n"),
    ("softmax(z)", "z: n"),
    ("max(x)", "x: n"),
    ("sum(i0e(x))", "x: n"),
]


@pytest.mark.parametrize(("text", "shown"), [
    ("a_b & 50% #1 $x$ {y}", r"a\_b \& 50\% \#1 \$x\$ \{y\}"), ("x**2 ^ ~", r"x**2 \textasciicircum{} \textasciitilde{}"),
    ("\\input{x}", r"\textbackslash{}input\{x\}"), ("λ", "?"), ("a\x1b[31m", None), ("", ""),
])  # fmt: skip
def test_signs_are_escaped(text: str, shown: str | None) -> None:
    found = escaped(text)
    assert found.isascii() and found.isprintable()
    assert shown is None or found == shown


@pytest.mark.parametrize(("f", "shapes"), RUNS)
def test_documents_are_whole(gradcli: Callable[..., Any], f: str, shapes: str) -> None:
    text = gradcli("derive", f, "--shapes", shapes, "--format", "latex").stdout
    assert text.startswith(r"\documentclass") and text.rstrip().endswith(r"\end{document}")
    begun, ended = (re.findall(rf"\\{word}{{(\w+\*?)}}", text) for word in ("begin", "end"))
    assert sorted(begun) == sorted(ended)
    braces = re.findall(r"(?<!\\)[{}]", text)
    assert braces.count("{") == braces.count("}")
    assert text.count(r"\left") == text.count(r"\right") and text.isascii()
    assert not re.search(r"(?<!\\)[#%$]|\^\{[^{}]*\}\^|\n\n\\end\{align", text)
    assert r"\input" not in text


def test_no_row_of_a_table_is_lost() -> None:
    shown = _table(Table(("a", "b"), (("1", "2"), ("[3]", "4"), ("a row of one cell",)), frozenset({1}), "t_1"))
    assert all(text in shown for text in ("1 & 2", "{}[3] & 4", "a row of one cell", r"t\_1"))
