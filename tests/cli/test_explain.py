"""`gradcli explain`: the list, one kind, forms, and what it says of a kind that is not there; and the line that names it."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from gradcli.words import DiagnosisKind, Kind
from tests.rows import for_rows

Gradcli = Callable[..., Any]


def test_the_list_has_every_kind_on_one_line_in_groups(gradcli: Gradcli) -> None:
    ran = gradcli("explain")
    lines = [line.strip() for line in ran.stdout.splitlines()]
    heads = [line for line in lines if line.startswith(("Findings", "Mistakes"))]
    assert (ran.exit_status, ran.stderr) == (0, "")
    assert heads == ["Findings that prevent a pass", "Findings that inform", "Mistakes that a diagnosis names"]
    assert len([line for line in lines if line.split("  ")[0] in {*Kind, *DiagnosisKind}]) == len(Kind) + len(
        DiagnosisKind
    )
    assert len([line for line in lines if line]) == len(Kind) + len(DiagnosisKind) + 3 * 2 + 1


def test_a_kind_is_explained_with_an_example_and_what_to_do(gradcli: Gradcli) -> None:
    text = " ".join(gradcli("explain", "kink").stdout.split())
    assert text.startswith("kink one-sided slopes differ at the point")
    assert '$ gradcli check "abs(x)" x=0 INCONCLUSIVE abs(x): f has a kink' in text
    assert "What to do: " in text and "add --allow kink" in text


@for_rows("words", [("fine-structure",), ("fine structure",), ("fine", "structure"), ("Fine-Structure",)])
def test_the_old_spelling_is_taken(gradcli: Gradcli, words: tuple[str, ...]) -> None:
    assert gradcli("explain", *words).stdout.startswith("fine-structure  ")


def test_a_name_of_a_finding_and_of_a_mistake_has_both_meanings(gradcli: Gradcli) -> None:
    document = gradcli("explain", "non-finite", "--json").json
    assert [row["group"] for row in document["kinds"]] == ["prevents a pass", "mistake"]


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("kinc", "did you mean 'kink'?"),
        ("deterministc", "did you mean 'deterministic'?"),
        ("qqq", "gradcli explain lists them"),
    ],
)
def test_an_unknown_kind_gets_the_nearest_name(gradcli: Gradcli, word: str, hint: str) -> None:
    ran = gradcli("explain", word)
    assert (ran.exit_status, ran.stdout, ran.stderr) == (2, "", f"error: there is no kind '{word}'\n  {hint}\n")


def test_the_forms(gradcli: Gradcli) -> None:
    document = gradcli("explain", "kink", "--json").json
    assert document["schema"] == "gradcli.explain/1"
    assert set(document["kinds"][0]) == {"kind", "group", "summary", "meaning", "do", "example"}
    assert json.loads(gradcli("explain", "kink", "--format", "ndjson").stdout) == document
    assert gradcli("explain", "kink", "--format", "markdown").stdout.startswith("**kink** one")
    rows = gradcli("explain", "--format", "csv").stdout.splitlines()
    assert rows[0] == "kind,group,summary" and len(rows) == 1 + len(Kind) + len(DiagnosisKind)
    assert gradcli("explain", "kink", "--format", "junit").exit_status == 2


# fmt: off
NAMED = [
    ("kink",              ("abs(x)", "x=0")),
    ("not-a-subgradient", ("abs(x)", "x=0", "--grad", "1.5")),
    ("sign",              ("cos(x)", "x=1", "--grad", "sin(x)")),
    ("shape",             ("sum(x**2)", "x=[1, 2]", "--grad", "3")),
    ("first-order",       ("x**3", "x=2", "--grad", "x**2", "--hess", "6*x")),
    ("no-second-witness", ("x**2", "x=3", "--modes", "forward")),
]
# fmt: on


@for_rows(("kind", "argv"), NAMED)
def test_a_report_that_did_not_pass_names_the_kind_once(gradcli: Gradcli, kind: str, argv: tuple[str, ...]) -> None:
    lines = [line.strip() for line in gradcli("check", *argv).stdout.splitlines()]
    (at,) = [k for k, line in enumerate(lines) if line.startswith("More:")]
    assert lines[at] == f"More: gradcli explain {kind}" and lines[at + 1] == "Again:"


@pytest.mark.parametrize("argv", [("x**2", "x=3"), ("abs(x)", "x=0", "--allow", "kink")])
def test_a_report_that_passed_names_none(gradcli: Gradcli, argv: tuple[str, ...]) -> None:
    assert "explain" not in gradcli("check", *argv).stdout
