"""Spans, lines and changes of source texts."""

import ast

import pytest

from gradcli.repair.scope import Change, apply_changes, bracket_operand, lines_of, spans_of


@pytest.mark.parametrize("source", ["a + b", "α = 2*β\nγ = α@β", "x = (\n  1 +\n  2)\r\ny = x\r\n"])
def test_the_span_of_a_node_is_its_text(source: str) -> None:
    span = spans_of(source)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name):
            start, end = span(node)
            assert source[start:end] == node.id


def test_changes_do_not_move_each_other() -> None:
    assert apply_changes("a + b", [Change(0, 1, "long"), Change(4, 5, "x")]) == "long + x"


def test_lines_end_as_git_and_python_end_them() -> None:
    assert lines_of("a\r\nb\x0cc\nd") == ["a\r\n", "b\x0cc\n", "d"]


def test_brackets_are_set_where_they_are_needed() -> None:
    assert bracket_operand("a + b", 10, ast.Mult) == "(a + b)" and bracket_operand("a * b", 11, ast.Add) == "a * b"
    assert bracket_operand("a / b", 11, ast.Div, right=True) == "(a / b)"
