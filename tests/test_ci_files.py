"""Files that other programs read: the action, the hooks, and the workflows, in the repository and in docs/how-to/ci.md."""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gradcli.cli.command_line import flags_of
from gradcli.cli.main import COMMANDS
from gradcli.request.options import options_of_command
from tests.rows import for_rows

ROOT = Path(__file__).resolve().parents[1]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
HOOKS = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
GUIDE = (ROOT / "docs" / "how-to" / "ci.md").read_text(encoding="utf-8")
BLOCKS = [yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", GUIDE, re.DOTALL)]
WORKFLOWS = [*(ROOT / ".github" / "workflows").glob("*.yml"), *(ROOT / "examples" / "ci").glob("*.yml")]
LATER = {"find": {"--fail-under"}}  # commands and options that the program may not have yet
EXPRESSION = re.compile(r"\$\{\{(.*?)\}\}")
PINNED = re.compile(r"\./|[\w.-]+/[\w./-]+@(v\d+(\.\d+)*|[0-9a-f]{40})$")


def workflow(path: Path) -> dict[str, Any]:
    return dict(yaml.safe_load(path.read_text(encoding="utf-8")))


def steps(value: Any) -> Iterator[dict[str, Any]]:
    """Yield every step of a document, of GitHub's or GitLab's."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if name == "steps":
                yield from inner
            elif name == "script":
                yield from ({"run": line} for line in inner)
            else:
                yield from steps(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from steps(inner)


ALL = {
    "action.yml": ACTION,
    "docs/how-to/ci.md": BLOCKS,
    **{str(path.relative_to(ROOT)): workflow(path) for path in WORKFLOWS},
}
STEPS = [pytest.param(step, id=f"{name}-{k}") for name, found in ALL.items() for k, step in enumerate(steps(found))]


def commands(line: str) -> list[list[str]]:
    """Return the words of each command of gradcli in a line of a shell."""
    parts = re.split(r"&&|\|\||[;|\n]", line)
    words = [shlex.split(part, comments=True) for part in parts if part.strip().startswith("gradcli ")]
    return [found[1:] for found in words]


RUN = [
    *(run for name, found in ALL.items() for step in steps(found) for run in commands(step.get("run", "")) if name != "action.yml"),
    *(run for hook in HOOKS for run in commands(shlex.join([*shlex.split(hook["entry"]), *hook.get("args", [])]))),
]  # fmt: skip


@for_rows("step", STEPS)
def test_no_expression_is_inside_a_script(step: dict[str, Any]) -> None:
    assert "${{" not in step.get("run", "")


@for_rows("step", STEPS)
def test_what_is_used_is_pinned(step: dict[str, Any]) -> None:
    assert "uses" not in step or PINNED.match(step["uses"])


@for_rows("words", RUN, ids=shlex.join)
def test_a_command_is_one_that_the_program_has(words: list[str]) -> None:
    name, *rest = words
    known = set(LATER.get(name, ()))
    known |= set(flags_of(options_of_command(name))) if name in COMMANDS else set()
    assert known, f"there is no command {name}"
    assert {word.partition("=")[0] for word in rest if word.startswith("--")} <= known


def test_there_are_commands() -> None:
    assert ["check", "--out", "gradcli.xml"] in RUN
    assert ["find", "--fail-under", "100"] in RUN


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_may_only_read(path: Path) -> None:
    found = workflow(path)
    assert found["permissions"] == {"contents": "read"}
    assert not any("permissions" in job for job in found["jobs"].values())
    assert not {"pull_request_target", "workflow_run"} & set(found[True])  # YAML reads `on` as true


def test_each_input_of_the_action_is_used_and_explained() -> None:
    inputs = ACTION["inputs"]
    text = json.dumps(ACTION["runs"])
    used = set(re.findall(r"inputs\.([\w-]+)", text))
    assert used == set(inputs)
    assert all(about["description"].endswith(".") and isinstance(about["default"], str) for about in inputs.values())
    table = {
        name: default.strip(" `") for name, default in re.findall(r"^\| `([\w-]+)` \|.*\|(.*)\|$", GUIDE, re.MULTILINE)
    }
    assert table == {name: about["default"] for name, about in inputs.items()} | {"paths": "the suite"}


def test_the_action_gives_its_inputs_to_scripts_by_variables_alone() -> None:
    for step in ACTION["runs"]["steps"]:
        assert step["shell"] == "bash"
        assert set(step) <= {"name", "if", "shell", "env", "run", "working-directory"}
        assert all(EXPRESSION.fullmatch(value) for value in step["env"].values())


def run_action(folder: Path, **inputs: str) -> subprocess.CompletedProcess[str]:
    """Run the last step of the action, as a runner does, with inputs in the variables that it declares."""
    step = ACTION["runs"]["steps"][-1]
    names = {name: EXPRESSION.fullmatch(value) for name, value in step["env"].items()}
    given = {name: about["default"] for name, about in ACTION["inputs"].items()} | {"python": sys.executable} | inputs
    variables = {name: given[found[1].strip().removeprefix("inputs.")] for name, found in names.items() if found}
    environ = {name: value for name, value in os.environ.items() if not name.startswith("GITHUB_")} | variables
    script = folder / "step.sh"
    script.write_text(step["run"])
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", str(script)],
        cwd=folder, env=environ, capture_output=True, text=True, timeout=120,
    )  # fmt: skip


@pytest.mark.slow
def test_the_action_checks_once_and_writes_each_document(tmp_path: Path) -> None:
    done = run_action(
        tmp_path, paths="'x**2'", args='--grad "x = 3*x" --at x=1 --modes reverse,fd', out="a.xml 'b c.json'"
    )
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.startswith("FAIL  x**2: ")
    assert "<testsuite " in (tmp_path / "a.xml").read_text()
    assert json.loads((tmp_path / "b c.json").read_text())["verdict"] == "fail"


@pytest.mark.slow
def test_the_action_runs_nothing_that_an_input_holds(tmp_path: Path) -> None:
    bad = "x**2; $(touch one) `touch two`"
    done = run_action(tmp_path, paths=shlex.quote(bad), args="--json", out="")
    assert done.returncode == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step.sh"]


def test_the_hooks() -> None:
    assert [hook["id"] for hook in HOOKS] == ["gradcli", "gradcli-find"]
    for hook in HOOKS:
        assert hook["language"] == "system"
        assert (hook["pass_filenames"], hook["require_serial"]) == (False, True)
        assert hook["stages"] == ["pre-push", "manual"]
    (shown,) = (block["repos"][0]["hooks"] for block in BLOCKS if "repos" in block)
    assert [hook["id"] for hook in shown] == [hook["id"] for hook in HOOKS]


def test_the_short_job_has_six_lines() -> None:
    first = re.findall(r"```yaml\n(.*?)```", GUIDE, re.DOTALL)[0]
    assert len(first.splitlines()) == 6


def test_gitlab_keeps_the_report_of_a_job_that_fails() -> None:
    (job,) = (block["gradients"] for block in BLOCKS if "gradients" in block and "script" in block["gradients"])
    assert job["artifacts"] == {"when": "always", "reports": {"junit": "gradcli.xml"}}
    assert any("--out gradcli.xml" in line for line in job["script"])


def test_the_projects_own_workflow_runs_everything() -> None:
    jobs = workflow(ROOT / ".github" / "workflows" / "ci.yml")["jobs"]
    scripts = {name: [step.get("run", "") for step in job["steps"]] for name, job in jobs.items()}
    assert scripts["tests"][-1] == ".ci/run"
    assert {"python -m build --outdir dist pytest-gradcli", "pip install dist/*.whl"} <= set(scripts["wheels"])
    assert any(step.get("uses") == "./" for step in jobs["gradients"]["steps"])


def test_ci_installs_the_plugin_in_every_environment() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    installs = [line for line in script.splitlines() if "pip" in line and ' -e ".[' in line]
    assert len(installs) == 8 and all("-e ./pytest-gradcli" in line for line in installs)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (line,) = re.findall(r"<!-- test command -->\n```sh\n(.*)\n", readme)
    assert '-e ".[test]" -e ./pytest-gradcli' in line
