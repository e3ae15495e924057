"""Reports in files: what fails to be rendered is a defect of gradcli's, and not a file that cannot be written."""

import re
from pathlib import Path
from typing import Any

import pytest

from gradcli.report.forms import html
from gradcli.words import Exit


def test_a_page_that_fails_is_an_internal_error(gradcli: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def render(report: Any, page: Any) -> str:
        raise ValueError("math domain error")

    monkeypatch.setattr(html, "render_html", render)
    ran = gradcli("trace", "x*x", "x=1", "--out", str(tmp_path / "page.html"))
    assert ran.exit_status == Exit.INTERNAL and "math domain error" in ran.stderr


def test_a_file_that_cannot_be_written_is_named(gradcli: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("page.html").mkdir()
    ran = gradcli("trace", "x*x", "x=1", "--out", "page.html")
    assert ran.exit_status == Exit.UNUSABLE and "page.html cannot be written" in ran.stderr


@pytest.mark.parametrize(("direction", "way"), [("down", 1), ("right", 0)])
def test_a_graph_runs_in_the_direction_asked_for(gradcli: Any, tmp_path: Path, direction: str, way: int) -> None:
    gradcli("trace", "sin(x)", "x=1", "--direction", direction, "-o", str(tmp_path / "graph.svg"))
    spots = re.findall(r'id="n\d" transform="translate\((\d+) (\d+)\)"', (tmp_path / "graph.svg").read_text())
    assert int(spots[0][way]) < int(spots[1][way]) and spots[0][1 - way] == spots[1][1 - way]


def test_a_graph_on_standard_output_runs_in_the_direction_asked_for(gradcli: Any, tmp_path: Path) -> None:
    file = tmp_path / "graph.svg"
    ran = gradcli("trace", "sin(x)", "x=1", "--direction", "down", "--format", "svg", "-o", str(file))
    assert ran.stdout.rstrip() == file.read_text(encoding="utf-8").rstrip()


def test_a_graph_runs_in_no_other_direction(gradcli: Any) -> None:
    ran = gradcli("trace", "sin(x)", "x=1", "--direction", "left")
    assert ran.exit_status == 2 and "--direction takes right or down, not" in ran.stderr
