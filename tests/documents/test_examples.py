"""examples/README.md and examples/frameworks/README.md list every example, with its command and its exit status."""

import ast
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from gradcli.testing import assert_gradient
from tests.documents.blocks import ROOT, blocks, read
from tests.documents.running import environment
from tests.rows import for_rows

FOLDER = ROOT / "examples"
FRAMEWORKS = FOLDER / "frameworks"
WORKFLOW = FOLDER / "ci" / "gradients.yml"
CHECKED = {
    "losses.py",
    "copula.py",
    "chain.py",
    "network.py",
}  # what other examples check; there is nothing in it to run
HERE = sorted(
    path
    for path in (*FOLDER.rglob("*.sh"), *FOLDER.rglob("*.py"))
    if path.name not in CHECKED and FRAMEWORKS not in path.parents
)
ALL = [*((FOLDER, path) for path in HERE), *((FRAMEWORKS, path) for path in sorted(FRAMEWORKS.glob("*.py")))]
SECTION = re.compile(r"^## (\S+)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)


def readme(folder: Path) -> str:
    return read(f"{folder.relative_to(ROOT).as_posix()}/README.md")


def command(example: Path) -> str:
    """Return the command that runs an example: of a framework's, the last line of its docstring."""
    if example.parent == FRAMEWORKS:
        text = ast.get_docstring(ast.parse(example.read_text(encoding="utf-8")))
        assert text is not None, example
        return text.splitlines()[-1]
    return f"{'bash' if example.suffix == '.sh' else 'python'} {example.relative_to(ROOT).as_posix()}"


def status_of(example: Path) -> int:
    """Return the exit status that the example states, 0 where it states none."""
    stated = re.search(r"^# status: (\d+)$", example.read_text(encoding="utf-8"), re.MULTILINE)
    return int(stated[1]) if stated else 0


@for_rows(("folder", "example"), ALL, ids=lambda path: path.name)
def test_an_example_has_its_command_and_its_status(folder: Path, example: Path) -> None:
    (block,) = blocks(dict(SECTION.findall(readme(folder)))[example.name])
    lines = {found.line: found.shown for found in block.commands()}
    assert command(example) in lines
    assert lines.get("echo $?", "0\n") == f"{status_of(example)}\n"


@pytest.mark.parametrize("folder", [FOLDER, FRAMEWORKS], ids=lambda path: path.name)
def test_a_readme_lists_every_example_and_no_other(folder: Path) -> None:
    examples = [path for of, path in ALL if of == folder]
    listed = re.findall(r"^\| \[(\S+)\]\(.*\| (\d) \|$", readme(folder), re.MULTILINE)
    assert {name: int(status) for name, status in listed} == {path.name: status_of(path) for path in examples}
    assert sorted(dict(SECTION.findall(readme(folder)))) == sorted(path.name for path in examples)


@for_rows("example", [path for path in HERE if path.suffix == ".sh"], ids=lambda path: path.name)
def test_a_script_is_short_and_says_what_it_shows(example: Path) -> None:
    lines = example.read_text(encoding="utf-8").splitlines()
    assert 3 <= len(lines) <= 12
    assert lines[0] == "#!/usr/bin/env bash"
    assert re.match(r"# \w.{40,}", lines[1])


@pytest.mark.slow
def test_the_workflow_is_in_the_readme_and_its_check_passes(tmp_path: Path) -> None:
    assert f"({WORKFLOW.relative_to(FOLDER).as_posix()})" in readme(FOLDER)
    checks = re.findall(r"^ +- run: (gradcli .*)$", WORKFLOW.read_text(encoding="utf-8"), re.MULTILINE)
    assert checks == ["gradcli check --out gradcli.xml"]
    for name in ("gradcli.toml", "losses.py"):
        shutil.copy(FOLDER / name, tmp_path)
    summary = tmp_path / "summary.md"
    done = subprocess.run(
        ["bash", "-e", "-c", checks[0]], cwd=tmp_path, capture_output=True, encoding="utf-8", timeout=120, check=False,
        env=environment() | {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(summary)},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert "4 passed" in done.stdout
    assert (tmp_path / "gradcli.xml").read_text(encoding="utf-8").count("<testcase ") == 4
    assert summary.exists()


def test_the_suite_checks_gradients_that_are_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(FOLDER / "losses.py", tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "losses", raising=False)
    suite = tomllib.loads((FOLDER / "gradcli.toml").read_text(encoding="utf-8"))
    assert [check["id"] for check in suite["check"]] == ["focal", "network", "arc", "spread"]
    for check in suite["check"]:
        assert assert_gradient(check["target"], check["at"], grad=check["grad"], modes="reverse,fd").passed
