"""The forms that programs read: JSON, NDJSON and CSV."""

import csv
import io
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from gradcli.report.forms import ENDINGS, render_as_text
from tests.rows import for_rows

QUICK = ("--modes", "certified,forward,reverse,fd")
NASTY = "x**2 # [red]x[/red] </script> \x1b[31m \u202e \u2028 é"


@dataclass(frozen=True)
class Rows:
    """A report of one cell."""

    cell: object

    def records(self) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
        return ("name", "value"), [("a", self.cell)]


def cell(x: object) -> str:
    return next(csv.DictReader(io.StringIO(render_as_text("csv", Rows(x)))))["value"]


@pytest.mark.parametrize("form", ["json", "ndjson"])
def test_json_begins_with_its_schema(gradcli: Callable[..., Any], form: str) -> None:
    assert next(iter(gradcli("grad", "x", "x=1", "--format", form).json)) == "schema"


def test_json_is_ascii_and_indented(gradcli: Callable[..., Any]) -> None:
    stdout = gradcli("grad", NASTY, "x=1", "--json").stdout
    assert stdout.isascii() and "\n  " in stdout and "\x1b" not in stdout


@pytest.mark.parametrize("form", ["json", "ndjson"])
def test_json_keeps_every_character_of_the_target(gradcli: Callable[..., Any], form: str) -> None:
    assert gradcli("grad", NASTY, "x=1", "--format", form).json["target"]["text"] == NASTY


def test_ndjson_is_one_line(gradcli: Callable[..., Any]) -> None:
    stdout = gradcli("grad", NASTY, "x=1", "--format", "ndjson").stdout
    assert len(stdout.splitlines()) == 1 and stdout.endswith("\n")


def test_json_and_ndjson_hold_the_same(gradcli: Callable[..., Any]) -> None:
    assert gradcli("grad", "x", "x=1", "--json").json == gradcli("grad", "x", "x=1", "--format", "ndjson").json


FORMULAS = ["=1+1", "+x", "-x", "@SUM(A1)", "\tx"]


@for_rows("text", FORMULAS)
def test_no_text_in_csv_is_a_formula(text: str) -> None:
    assert cell(text)[0] == "'"


PLAIN = [
    ("x", "x"),
    ("a,b", "a,b"),
    ('say "hi"', 'say "hi"'),
    ("two\nlines", "two lines"),
    (None, ""),
    (3, "3"),
    (-1.5, "-1.5"),
    (math.nan, "nan"),
    (-math.inf, "-inf"),
    (0.1 + 0.2, "0.30000000000000004"),
    (True, "True"),
]


@for_rows(("x", "shown"), PLAIN)
def test_csv_cells_read_back(x: object, shown: str) -> None:
    assert cell(x) == shown


def test_csv_shows_control_characters() -> None:
    assert not {"\x1b", "\u202e", "\x00", "\r"} & set(cell("\ra\x1b[31m\u202e\x00"))


def table(stdout: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(stdout)))


def test_csv_of_a_check_has_a_row_for_each_entry_of_each_mode(gradcli: Callable[..., Any]) -> None:
    ran = gradcli("check", "sum(x**2)*y", "x=[1,2]", "y=3", "--modes", "forward,fd", "--format", "csv")
    rows = table(ran.stdout)
    assert [(row["mode"], row["input"], row["index"]) for row in rows[:3]] == [
        ("forward", "x", "0"),
        ("forward", "x", "1"),
        ("forward", "y", ""),
    ]
    assert len(rows) == 6
    assert [float(row["value"]) for row in rows[:3]] == [6.0, 12.0, 5.0]
    assert {row["verdict"] for row in rows} == {"pass"}


def test_csv_counts_points(gradcli: Callable[..., Any]) -> None:
    ran = gradcli("check", "x**2", "x=1", "x=2", "--modes", "forward,fd", "--format", "csv")
    assert [row["point"] for row in table(ran.stdout)] == ["0", "0", "1", "1"]


CSV = [
    (("grad", "sum(x**2)", "x=[1,2]"), 2),
    (("compare-modes", "x**2", "x=1", "--modes", "fwd,rev"), 2),
    (("trace", "x*y", "x=1", "y=2"), 3),
    (("modes",), 10),
    (("ops", "sin"), 1),
    (("check", "x**2", "x=3", "--grad", "x", *QUICK), 5),
    (("check", "sum(x)", "x=[1,2]", "--grad", "1", "--modes", "fwd"), 2),
]


@for_rows(("argv", "count"), CSV)
def test_every_table_has_its_columns_in_every_row(gradcli: Callable[..., Any], argv: tuple, count: int) -> None:
    rows = table(gradcli(*argv, "--format", "csv").stdout)
    assert len(rows) == count
    assert all(None not in row and None not in row.values() for row in rows)


def test_csv_numbers_of_a_trace_are_numbers(gradcli: Callable[..., Any]) -> None:
    rows = table(gradcli("trace", "-x", "x=1", "--format", "csv").stdout)
    assert [float(row["adjoint"]) for row in rows] == [-1.0, 1.0]


def test_derivatives_in_csv_cannot_start_a_formula(gradcli: Callable[..., Any]) -> None:
    partials = table(gradcli("ops", "cos", "--format", "csv").stdout)[0]["partials"]
    assert partials.startswith("'-sin")


def test_every_ending_has_a_form() -> None:
    assert {ENDINGS[e] for e in (".json", ".md", ".mmd", ".csv", ".xml")} == {
        "json",
        "markdown",
        "mermaid",
        "csv",
        "junit",
    }


def test_a_form_ends_in_one_line_break(gradcli: Callable[..., Any]) -> None:
    stdout = gradcli("grad", "x", "x=1", "--json").stdout
    assert stdout.endswith("}\n")
    assert json.loads(stdout)
