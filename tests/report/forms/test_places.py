"""Annotations and SARIF name the line that is to be changed, with a path from the root of the repository, and the edit."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Gradcli = Callable[..., Any]
FILE = """\
import numpy as np


def f(x):
    y = x**3
    return np.sum(y)


def g(x):
    return {result}


def both(x):
    return np.sum(x**3), 2 * x**2
"""
SLIP, NO_REPAIR = "2 * x**2", "np.array([0.3, 0.123])"
QUICK = ("--at", "x=[1.5, 2]", "--modes", "certified,reverse,fd")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / ".git").mkdir()
    (tmp_path / "code").mkdir()
    monkeypatch.chdir(tmp_path / "code")
    return tmp_path / "code"


def annotation(
    gradcli: Gradcli, *argv: str, environ: dict[str, str] | None = None
) -> tuple[str, str | None, str | None, str]:
    """Return level, file, line and message of the one annotation."""
    ran = gradcli("check", *argv, *QUICK, "--format", "github", environ=environ)
    found = re.fullmatch(r"::(\w+) title=[^,]*(?:,file=([^,]*),line=(\d+))?::(.*)\n", ran.stdout)
    assert found is not None, ran.stdout
    return found[1], found[2], found[3], found[4]


def sarif(gradcli: Gradcli, *argv: str) -> list[dict[str, Any]]:
    document = json.loads(gradcli("check", *argv, *QUICK, "--format", "sarif").stdout)
    return list(document["runs"][0]["results"])


@pytest.mark.slow
@pytest.mark.repairs
def test_they_point_at_the_edit_and_have_it_in_their_text(gradcli: Gradcli, project: Path) -> None:
    Path("slips.py").write_text(FILE.format(result=SLIP))
    level, file, line, message = annotation(gradcli, "slips.py:f", "--grad", "g")
    assert (level, file, line) == ("error", "code/slips.py", "10")
    assert message.endswith("%0A- return 2 * x**2%0A+ return 3 * x**2")
    [result] = sarif(gradcli, "slips.py:f", "--grad", "g")
    assert result["level"] == "error" and result["message"]["text"].endswith("\n- return 2 * x**2\n+ return 3 * x**2")
    place = result["locations"][0]["physicalLocation"]
    assert (place["artifactLocation"]["uri"], place["region"]["startLine"]) == ("code/slips.py", 10)


@pytest.mark.slow
@pytest.mark.repairs
def test_where_a_function_returns_both_it_is_the_edit_too(gradcli: Gradcli, project: Path) -> None:
    Path("pairs.py").write_text(FILE.format(result=SLIP))
    level, file, line, _ = annotation(gradcli, "pairs.py:both", "--value-and-grad")
    assert (level, file, line) == ("error", "code/pairs.py", "14")


def test_without_an_edit_they_point_at_the_claim(gradcli: Gradcli, project: Path) -> None:
    Path("odd.py").write_text(FILE.format(result=NO_REPAIR))
    assert annotation(gradcli, "odd.py:f", "--grad", "g")[:3] == ("error", "code/odd.py", "9")


def test_a_claim_that_is_an_expression_is_in_no_file(gradcli: Gradcli, project: Path) -> None:
    Path("plain.py").write_text(FILE.format(result=SLIP))
    assert annotation(gradcli, "plain.py:f", "--grad", "7 + 0*x")[:3] == ("error", None, None)


def test_a_check_without_a_verdict_is_a_warning_a_note_an_error_of_junit_and_a_row(
    gradcli: Gradcli, project: Path
) -> None:
    asked = ("abs(x) + x", "--grad", "5", "--at", "x=0.0")
    assert gradcli("check", *asked, "--format", "github").stdout.startswith("::warning ")
    [result] = json.loads(gradcli("check", *asked, "--format", "sarif").stdout)["runs"][0]["results"]
    assert (result["ruleId"], result["level"]) == ("kink", "note")
    assert '<error message="' in gradcli("check", *asked, "--format", "junit").stdout
    Path("gradcli.toml").write_text('[[check]]\nid = "open"\ntarget = "abs(x) + x"\ngrad = "5"\nat = "x=0.0"\n')
    assert "| INCONCLUSIVE | `open` |" in gradcli("check", "--format", "markdown").stdout


def test_the_workspace_of_the_job_is_the_root_where_git_is_not(
    gradcli: Gradcli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    monkeypatch.chdir(inner)
    Path("rooted.py").write_text(FILE.format(result=NO_REPAIR))
    found = annotation(gradcli, "rooted.py:f", "--grad", "g", environ={"GITHUB_WORKSPACE": str(tmp_path)})
    assert found[1] == "a/b/rooted.py"
