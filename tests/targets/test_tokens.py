"""The text of an expression is split into statements that Python can parse, with every column kept."""

import ast

import pytest

from gradcli.errors import BadExpression
from gradcli.request.target_text import normalise_name
from gradcli.targets.tokens import shared_and_parts, split_parts, split_statements, tokenise
from tests.rows import for_rows

SPLITS = [
    ("x", [(None, "x")]),
    ("u = x; u**2", [("u", "x"), (None, "u**2")]),
    ("u = x\nu**2\n", [("u", "x"), (None, "u**2")]),
    ("\n;;u = x ;\n; u\n", [("u", "x"), (None, "u")]),
    ("sum(x,\n    axis=0)", [(None, "sum(x, axis=0)")]),
    ("x  # what it is\n", [(None, "x")]),
    ("u = x == y; u", [("u", "x == y"), (None, "u")]),
    ("  x", [(None, "x")]),
    ("x^2^y", [(None, "x**2**y")]),
    ("f(x, ';')", [(None, "f(x, ';')")]),
]
FOLDS = [("x", "x"), ("\u00b5", "\u03bc"), ("\u03f5", "\u03b5"), ("\u2113", "l"), ("\ufb01t", "fit"), ("\uff58", "x")]
PARTS = [
    ("x=1, y=2", ["x", "y"]),
    ("x=[1, 2], y=randn(3, 4)", ["x", "y"]),
    ("x=1; y=2\nz=3", ["x", "y", "z"]),
    ("x=1,", ["x"]),
    ("", []),
]
CLAIMS = [
    ("2*x", [], [(None, "2*x")]),
    ("x=2*y, y=x", [], [("x", "2*y"), ("y", "x")]),
    ("p = softmax(z); z=p-y, y=-log(p)", ["p"], [("z", "p-y"), ("y", "-log(p)")]),
]


def named(found):
    return [(one.name and one.name.text, one.source) for one in found]


@for_rows(("text", "expected"), SPLITS)
def test_statements_end_at_semicolons_and_newlines_outside_brackets(text, expected):
    assert named(split_statements(text)) == expected


@for_rows("text", [text for text, _ in SPLITS])
def test_every_statement_is_python_and_has_a_column_for_each_character(text):
    for one in split_statements(text):
        assert ast.parse(one.source, mode="eval")
        assert len(one.columns) == len(one.source)


@for_rows("text", [text for text, _ in SPLITS if "^" not in text])
def test_columns_point_at_the_same_characters(text):
    for one in split_statements(text):
        written = [(c, text[at]) for c, at in zip(one.source, one.columns, strict=True) if c != " "]
        assert all(c == original for c, original in written)


@pytest.mark.parametrize(
    ("text", "source", "expected"),
    [("x^y", "x**y", ["x", "^", "^", "y"]), ("a + x ^ y", "a + x ** y", [*"a + x ", "^", "^", " ", "y"])],
)
def test_a_caret_becomes_two_stars_that_point_back_at_it(text, source, expected):
    [one] = split_statements(text)
    assert one.source == source
    assert [text[at] for at in one.columns] == expected


def test_a_span_of_a_later_statement_is_a_span_of_the_whole_text():
    text = "u = x^2\nv = u ^ y; v"
    second = split_statements(text)[1]
    span = second.span(second.source.index("y"), second.source.index("y") + 1)
    assert (span.text, span.source, span.line, span.column) == (text, "y", 2, 8)


def test_tokens_say_their_kind_and_where_they_begin():
    found = [(t.kind, t.text, t.start) for t in tokenise("x1 <= 2.5e-3*'ij'\n")]
    assert found == [
        ("name", "x1", 0), ("op", "<=", 3), ("number", "2.5e-3", 6), ("op", "*", 12), ("string", "'ij'", 13),
        ("newline", "\n", 17),
    ]  # fmt: skip


@for_rows("number", ["1", "1.", ".5", "1.5", "1e3", "1E+3", "1.5e-10", "1_000", "1_000.000_1"])
def test_a_number_is_one_token(number):
    assert [(t.kind, t.text) for t in tokenise(number)] == [("number", number)]


@for_rows(("name", "expected"), FOLDS)
def test_names_are_folded(name, expected):
    assert normalise_name(name) == expected


@for_rows(("text", "expected"), PARTS)
def test_parts_end_at_commas_outside_brackets(text, expected):
    assert [part.name.text for part in split_parts(text)] == expected


@pytest.mark.parametrize(("text", "shared", "expected"), CLAIMS)
def test_a_claim_has_shared_statements_and_parts(text, shared, expected):
    first, last = shared_and_parts(text)
    assert [one.name.text for one in first] == shared
    assert named(last) == expected


@for_rows("text", ["", "  ", "\n;\n", "# nothing"])
def test_a_text_without_statements_is_refused(text):
    with pytest.raises(BadExpression, match="the expression is empty"):
        split_statements(text)
