"""`gradcli find`: its screen, its documents, its exit status, and what it says about paths."""

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gradcli.cli.find import declared_checks, suite_paths
from gradcli.project.suite.config import find_suite
from tests.cli.reading import line_of
from tests.project.discovery.reading import written
from tests.rows import for_rows

Program = Callable[..., Any]
LOSSES = """def focal(z): return z @ z
def focal_grad(z): return 2 * z


def huber(z): return z @ z
def huber_hess(z): return 2 + 0 * z
"""
SUITE = '[tool.gradcli]\npaths = ["src"]\n[[tool.gradcli.check]]\nid = "focal"\ntarget = "src/losses.py:focal"\ngrad = "focal_grad"\n'
FILES = {"src/losses.py": LOSSES, "src/bad.py": "def (:\n", "other.py": LOSSES, "pyproject.toml": SUITE}


@pytest.fixture(autouse=True)
def _inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path, FILES)


SCREEN = """src/losses.py

  2  focal_grad  grad of focal  focal
  6  huber_hess  hess of huber  not checked

cannot be read

  src/bad.py: syntax error, line 1: invalid syntax

1 of 2 hand-written gradients are checked
"""
NEXT = "next: gradcli init --add adds the others to pyproject.toml\n"  # on standard error


def test_the_screen(gradcli: Program) -> None:
    ran = gradcli("find", "src")
    assert (ran.exit_status, ran.stdout, ran.stderr) == (0, SCREEN, NEXT)


def test_without_paths_those_of_the_suite_are_read(gradcli: Program) -> None:
    assert gradcli("find").stdout == SCREEN


def test_without_a_suite_the_folder_is_read(gradcli: Program, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").unlink()
    ran = gradcli("find")
    shown = ran.stdout.splitlines()
    assert shown[:5] == ["by folder", "", "  .    2 gradients, 0 checked", "  src  2 gradients, 0 checked", ""]
    assert shown[-1] == "0 of 4 hand-written gradients are checked"
    assert ran.stderr == "next: gradcli init writes a suite with them\n"


def test_a_line_is_never_wrapped(gradcli: Program, tmp_path: Path) -> None:
    name, folder = "f" * 150, f"{'a-' * 20}src"
    written(tmp_path, {f"{folder}/losses.py": f"def {name}(x): return x * x\ndef {name}_grad(x): return 2 * x\n"})
    lines = gradcli("find", folder, environ={"COLUMNS": "40"}).stdout.splitlines()
    assert f"  2  {name}_grad  grad of {name}  not checked" in lines
    assert f"{folder}/losses.py" in lines


PAIR = "def f(x): return x * x\ndef f_grad(x): return 2 * x\n"


def test_the_largest_folders_come_first_and_the_others_are_counted(gradcli: Program, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").unlink()
    written(tmp_path, {f"many/{k:02}/a.py": PAIR for k in range(12)})
    shown = gradcli("find").stdout.splitlines()
    assert shown[2:6] == ["  .        2 gradients, 0 checked", "  src      2 gradients, 0 checked",
                          "  many/00  1 gradient,  0 checked", "  many/01  1 gradient,  0 checked"]  # fmt: skip
    assert shown[11:14] == ["  many/07  1 gradient,  0 checked", "  and 4 more folders", ""]
    document = gradcli("find", "--json").json
    assert len(document["folders"]) == 14
    assert document["folders"][1] == {"folder": "src", "found": 2, "checked": 0}


def test_the_next_command_is_one_that_helps(gradcli: Program, tmp_path: Path) -> None:
    next_of = lambda *argv: gradcli("find", *argv, "--json").json["next"]
    assert next_of("src") == "gradcli init --add adds the others to pyproject.toml"
    assert next_of("other.py") == "gradcli check --help shows how to check one of them"  # it is not below src/
    huber = '[[tool.gradcli.check]]\nid = "huber"\ntarget = "src/losses.py:huber"\nhess = "huber_hess"\n'
    written(tmp_path, {"pyproject.toml": SUITE + huber, "empty.py": ""})
    assert next_of("src") == "gradcli check"
    assert next_of("empty.py") is None


def test_from_a_folder_below_the_suite_the_next_command_goes_to_it(
    gradcli: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path / "src")
    assert gradcli("find", "--json").json["next"] == "cd .. && gradcli init --add adds the others to pyproject.toml"


def test_installed_packages_are_named_by_their_modules(
    gradcli: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = tmp_path / "env" / "site-packages"
    raising = "raise RuntimeError('this package was imported')\n"
    written(installed, {"tall/__init__.py": raising, "tall/deep/__init__.py": raising, "tall/deep/a.py": PAIR,
                        "tall/b.py": PAIR, "tall/tests/test_c.py": PAIR})  # fmt: skip
    written(tmp_path, {"env/.gitignore": "*", ".git/HEAD": ""})  # as environments are made
    monkeypatch.syspath_prepend(str(installed))
    ran = gradcli("find", "tall")
    shown = ran.stdout.splitlines()
    assert shown[:4] == ["by folder", "", "  tall       1 gradient,  0 checked", "  tall/deep  1 gradient,  0 checked"]
    assert shown[5] == "tall/b.py"
    assert ran.stderr == "next: gradcli check --help shows how to check one of them\n"
    document = gradcli("find", "tall.deep", "--json").json
    assert document["paths"] == [(installed / "tall" / "deep").as_posix()]
    assert [g["file"] for g in document["gradients"]] == [(installed / "tall" / "deep" / "a.py").as_posix()]
    assert len(gradcli("find", "tall.b", "--json").json["gradients"]) == 1
    assert "no file, folder or Python module 'tall.c'" in gradcli("find", "tall.c").stderr


def test_a_package_of_the_project_comes_before_one_that_is_installed(gradcli: Program, tmp_path: Path) -> None:
    written(tmp_path, {"src/numpy/__init__.py": PAIR})
    assert gradcli("find", "numpy", "--json").json["paths"] == ["src/numpy"]
    assert gradcli("find", "losses", "--json").json["paths"] == ["src/losses.py"]


def test_a_file_that_several_paths_lead_to_is_read_once(gradcli: Program, tmp_path: Path) -> None:
    (tmp_path / "link.py").symlink_to("src/losses.py")
    assert gradcli("find", "src", "./src/losses.py", "./src", "link.py", "losses").stdout == SCREEN
    assert gradcli("find", "./src").stdout == SCREEN


def test_the_document(gradcli: Program) -> None:
    document = gradcli("find", "src", "--json").json
    assert document["schema"] == "gradcli.find/1"
    assert document["paths"] == ["src"]
    assert document["counts"] == {"found": 2, "checked": 1}
    assert document["unreadable"] == [{"file": "src/bad.py", "reason": "syntax error, line 1: invalid syntax"}]
    assert document["gradients"][0] == {
        "name": "focal_grad", "file": "src/losses.py", "line": 2, "kind": "grad", "of": "focal", "found_by": "name",
        "checked_by": ["focal"],
    }  # fmt: skip


def test_the_other_forms(gradcli: Program, tmp_path: Path) -> None:
    (row, _) = csv.DictReader(io.StringIO(gradcli("find", "src", "--format", "csv").stdout))
    assert (row["name"], row["line"], row["checked_by"]) == ("focal_grad", "2", "focal")
    assert json.loads(gradcli("find", "src", "--format", "ndjson").stdout)["counts"]["found"] == 2
    ran = gradcli("find", "src", "-q", "--out", "found.md")
    assert (ran.exit_status, ran.stdout) == (0, "")
    assert "1 of 2 hand-written gradients are checked" in (tmp_path / "found.md").read_text()


@pytest.mark.parametrize(("least", "status"), [("50", 0), ("50.1", 2), ("0", 0), ("100", 2)])
def test_fail_under(gradcli: Program, least: str, status: int) -> None:
    ran = gradcli("find", "src", "--fail-under", least)
    assert (ran.exit_status, ran.stdout) == (status, SCREEN)
    said = f"50 percent are checked, less than --fail-under {least}\n"
    assert ran.stderr == NEXT + (said if status else "")


def test_fail_under_counts_none_found_as_all(gradcli: Program, tmp_path: Path) -> None:
    written(tmp_path, {"empty.py": ""})
    ran = gradcli("find", "empty.py", "--fail-under", "100")
    assert (ran.exit_status, ran.stdout) == (0, "0 of 0 hand-written gradients are checked\n")


def test_one_gradient_is_singular(gradcli: Program, tmp_path: Path) -> None:
    written(tmp_path, {"one.py": "def f(x): return x * x\ndef f_grad(x): return 2 * x\n"})
    assert "\n0 of 1 hand-written gradient is checked\n" in gradcli("find", "one.py").stdout


@for_rows(
    ("argv", "says"),
    [
        (("nowhere",), "no file, folder or Python module 'nowhere'"),
        (("pyproject.toml",), "no Python file"),
        (("src", "--fail-under", "101"), "--fail-under takes a number from 0 to 100"),
        (("src", "--format", "junit"), "no format 'junit'"),
        (("src", "--bogus"), "--bogus"),
    ],
)
def test_what_cannot_be_done_is_said(gradcli: Program, argv: tuple[str, ...], says: str) -> None:
    ran = gradcli("find", *argv)
    assert ran.exit_status == 2
    assert says in ran.stderr


def test_names_in_files_cannot_act(gradcli: Program, tmp_path: Path) -> None:
    written(tmp_path, {"odd\x1b[31m.py": "def f(x): return x * x\ndef f_grad(x): return 2 * x\n"})
    assert "\x1b" not in gradcli("find", "odd\x1b[31m.py").stdout


@for_rows("argv", [("find", "src/x.py"), ("find", "a:b"), ("init",), ("find", "src/x.py", "--fail-under", "3")])
def test_reading_starts_no_child_for_users_code(argv: tuple[str, ...]) -> None:
    assert not line_of(*argv).needs_child


def test_a_process_of_its_own_gives_the_same(process: Program, tmp_path: Path) -> None:
    assert process("find", "src/losses.py", cwd=tmp_path).stdout == SCREEN.replace(
        SCREEN[SCREEN.index("cannot") : SCREEN.index("1 of")], ""
    )


def test_declared_checks_are_those_of_the_suite(tmp_path: Path) -> None:
    suite = find_suite(tmp_path)
    (check,) = declared_checks(suite)
    assert (check.id, check.claims, check.folder) == ("focal", ("focal_grad",), tmp_path)
    assert suite_paths(suite) == ("src",)


def test_a_suite_that_is_no_toml_is_refused(tmp_path: Path, gradcli: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.gradcli\n")
    monkeypatch.chdir(tmp_path)
    ran = gradcli("find")
    assert ran.exit_status == 2 and "pyproject.toml:1 " in ran.stderr
