"""Every example runs, ends with its status, and prints what examples/README.md says.

`python tests/test_examples.py` rewrites the output blocks of examples/README.md.
"""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from gradcli.testing import assert_gradient

FOLDER = Path(__file__).resolve().parents[1] / "examples"
README = FOLDER / "README.md"
WORKFLOW = FOLDER / "ci" / "gradients.yml"
CHECKED = {
    "losses.py",
    "copula.py",
    "chain.py",
    "network.py",
}  # what other examples check; there is nothing in it to run
APART = FOLDER / "frameworks"  # which need torch, and have a README and a test of their own
EXAMPLES = sorted(
    path
    for ending in ("*.sh", "*.py")
    for path in FOLDER.rglob(ending)
    if path.name not in CHECKED and APART not in path.parents
)
SECTION = re.compile(r"^## (\S+)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
OUTPUT = re.compile(r"(^```text\n)(.*?)(^```$)", re.MULTILINE | re.DOTALL)
LEFT_OUT = re.compile(r"GITHUB_.*|.*COLOR|COLUMNS|LINES|PYTHON(PATH|WARNINGS)")


def environment(**more: str) -> dict[str, str]:
    """Return an environment like a plain shell's, with this interpreter's gradcli found first."""
    kept = {name: value for name, value in os.environ.items() if not LEFT_OUT.fullmatch(name)}
    return kept | {"PATH": f"{sysconfig.get_path('scripts')}{os.pathsep}{os.environ.get('PATH', os.defpath)}"} | more


def ran(command: list[str], folder: Path = FOLDER.parent, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a command, in the root of the repository if no folder is given."""
    return subprocess.run(
        command, cwd=folder, env=environment(**more), capture_output=True, encoding="utf-8", timeout=120
    )


def command(example: Path) -> str:
    """Return the command that runs an example, as the README gives it."""
    return f"{'bash' if example.suffix == '.sh' else 'python'} {example.relative_to(FOLDER.parent).as_posix()}"


def run_example(example: Path) -> subprocess.CompletedProcess[str]:
    return ran(["bash" if example.suffix == ".sh" else sys.executable, str(example)])


def status_of(example: Path) -> int:
    """Return the exit status that the example states, 0 where it states none."""
    stated = re.search(r"^# status: (\d+)$", example.read_text(encoding="utf-8"), re.MULTILINE)
    return int(stated[1]) if stated else 0


def sections(readme: str) -> dict[str, str]:
    return {section[1]: section[2] for section in SECTION.finditer(readme)}


def shown(readme: str, name: str) -> str:
    """Return the output block under the heading of an example."""
    blocks = OUTPUT.findall(sections(readme)[name])
    assert len(blocks) == 1, f"{name} has {len(blocks)} output blocks in its README"
    return blocks[0][1]


def listed(readme: str) -> dict[str, int]:
    """Return the examples in the table of a README, with the status it states for each."""
    return {name: int(status) for name, status in re.findall(r"^\| \[(\S+)\]\(.*\| (\d) \|$", readme, re.MULTILINE)}


def with_output(readme: str, name: str, output: str) -> str:
    """Return the README with another output block under the heading of an example."""

    def rewritten(section: re.Match[str]) -> str:
        if section[1] != name:
            return section[0]
        return OUTPUT.sub(lambda block: block[1] + output + block[3], section[0])

    return SECTION.sub(rewritten, readme)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_example_does_what_the_readme_says(example: Path) -> None:
    readme = README.read_text(encoding="utf-8")
    done = run_example(example)
    assert (done.returncode, done.stderr) == (status_of(example), "")
    assert command(example) in sections(readme)[example.name]
    assert done.stdout == shown(readme, example.name), "python tests/test_examples.py rewrites examples/README.md"


def test_readme_lists_every_example_and_no_other() -> None:
    readme = README.read_text(encoding="utf-8")
    assert EXAMPLES
    assert sorted(sections(readme)) == sorted(path.name for path in EXAMPLES)
    assert listed(readme) == {path.name: status_of(path) for path in EXAMPLES}


@pytest.mark.parametrize("example", [path for path in EXAMPLES if path.suffix == ".sh"], ids=lambda path: path.name)
def test_script_is_short_and_says_what_it_shows(example: Path) -> None:
    lines = example.read_text(encoding="utf-8").splitlines()
    assert 3 <= len(lines) <= 12
    assert lines[0] == "#!/usr/bin/env bash"
    assert re.match(r"# \w.{40,}", lines[1])


def test_a_changed_output_block_is_noticed_and_nothing_else_is_rewritten() -> None:
    readme = README.read_text(encoding="utf-8")
    for name in sections(readme):
        changed = with_output(readme, name, "something else\n")
        assert shown(changed, name) == "something else\n" != shown(readme, name)
        assert with_output(changed, name, shown(readme, name)) == readme


def test_the_workflow_is_in_the_readme_and_its_check_passes(tmp_path: Path) -> None:
    assert f"({WORKFLOW.relative_to(FOLDER).as_posix()})" in README.read_text(encoding="utf-8")
    text = WORKFLOW.read_text(encoding="utf-8")
    checks = re.findall(r"^ +- run: (gradcli .*)$", text, re.MULTILINE)
    assert checks == ["gradcli check --out gradcli.xml"]
    pytest.importorskip("gradcli.suite", reason="the command line does not run suites")
    for name in ("gradcli.toml", "losses.py"):
        shutil.copy(FOLDER / name, tmp_path)
    summary = tmp_path / "summary.md"
    done = ran(["bash", "-e", "-c", checks[0]], tmp_path, GITHUB_ACTIONS="true", GITHUB_STEP_SUMMARY=str(summary))
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


def refresh(file: Path, examples: Sequence[Path], run: Callable[[Path], subprocess.CompletedProcess[str]]) -> None:
    """Rewrite the output blocks of a README from what its examples print now; only status 2 may say why on stderr."""
    readme = file.read_text(encoding="utf-8")
    for example in examples:
        done = run(example)
        if done.returncode != status_of(example) or (done.stderr and done.returncode != 2):
            sys.exit(f"{example.name}: status {done.returncode}, not {status_of(example)}\n{done.stderr}")
        readme = with_output(readme, example.name, done.stdout + done.stderr)
    file.write_text(readme, encoding="utf-8")


if __name__ == "__main__":
    refresh(README, EXAMPLES, run_example)
