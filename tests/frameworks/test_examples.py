"""Every example of a framework ends with its status, and prints what examples/frameworks/README.md says.

`python tests/frameworks/test_examples.py` rewrites the output blocks of examples/frameworks/README.md.
"""

import ast
import importlib.util
import re
import subprocess
from pathlib import Path

import pytest

from tests.test_examples import APART, listed, ran, refresh, sections, shown, status_of, with_output
from tests.test_readme import NUMBER, alike, skeleton

README = APART / "README.md"
EXAMPLES = sorted(APART.glob("*.py"))
NOT_RUN = re.compile(r"^  (\S.*?)  +not run: it would take", re.MULTILINE)
TORCH = re.compile(r"(?<= torch )\S+(?=, \S+ on )")
PROGRESS = re.compile(r"^checking .* so far; .*\n", re.MULTILINE)
EVALUATIONS = re.compile(r"\d+(?= evaluations of f\.)")
WITNESSES = re.compile(r"direction: the untouched .*? random direction to \S+|Confirmed by .*? evaluations of f\.")
LATE = """\
  mode       right digits  largest bound
  claim      15.7          2e-11
  certified  49 (proved)   5e-49 (proved)
  finite-difference  not run: it would take about 0.37 s

  direction: the untouched function confirms one random direction to 7e-13
  torch 2.9.1+cu128, float64 on cpu

  also
  second run             agrees: bit by bit
  vmap of the gradient   not run: it would take long
  double backward        agrees
"""
IN_TIME = """\
  mode               right digits  largest bound
  claim              15.7          3e-11
  certified          49 (proved)   5e-49 (proved)
  finite-difference  12.5          2e-11

  Confirmed by function values (finite-difference) and by rules (forward,
  reverse), which are independent. 35 evaluations of f.
  torch 2.13.0+cpu, float64 on cpu

  also
  second run             agrees: bit by bit
  vmap of the gradient   unavailable: In order to use an autograd.Function with
                         functorch transforms (vmap, grad, jvp, jacrev...
  double backward        agrees
"""


def command(example: Path) -> str:
    """Return the command that an example is for: the last line of its docstring."""
    text = ast.get_docstring(ast.parse(example.read_text(encoding="utf-8")))
    assert text is not None, example
    return text.splitlines()[-1]


def run_example(example: Path) -> subprocess.CompletedProcess[str]:
    """Run an example's command; what it says of its progress where it is slow is left out."""
    done = ran(["bash", "-c", command(example)])
    done.stderr = PROGRESS.sub("", done.stderr)
    return done


def not_run(text: str) -> set[str]:
    """Return the names of what a slow machine leaves out of a report; without `certified` another mode is the reference."""
    names = {name for found in NOT_RUN.findall(text) for name in found.split(", ")}
    return names | {"reverse"} if "certified" in names else names


def steady(text: str, left_out: set[str]) -> str:
    """Return what a report says on every machine: without torch's version, evaluations and the rows that are left out."""
    text = re.sub(r"^.*  not run: it would take.*\n", "", text, flags=re.MULTILINE)
    for name in left_out:
        text = re.sub(rf"^  {re.escape(name)}  .*\n(?: {{12,}}.*\n)*", "", text, flags=re.MULTILINE)
    text = EVALUATIONS.sub("some", TORCH.sub("", " ".join(text.split())))
    if left_out:
        text = re.sub(r"\S+(?= ratio )", "reference", WITNESSES.sub("", text))
    return text


def same(mine: str, readme: str) -> bool:
    """Whether two reports say the same, but for the numbers and the rows that differ from machine to machine."""
    left_out = not_run(mine) | not_run(readme)
    mine, readme = steady(mine, left_out), steady(readme, left_out)
    if skeleton(mine) != skeleton(readme):
        return False
    return all(alike(a, b) for a, b in zip(NUMBER.findall(mine), NUMBER.findall(readme), strict=True))


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_example_does_what_the_readme_says(example: Path) -> None:
    done = run_example(example)
    assert done.returncode == status_of(example), done.stdout + done.stderr
    assert bool(done.stderr) == (done.returncode == 2)
    printed, block = done.stdout + done.stderr, shown(README.read_text(encoding="utf-8"), example.name)
    assert same(printed, block), f"{printed}\npython tests/frameworks/test_examples.py rewrites {README.name}"


def test_readme_lists_every_example_and_no_other() -> None:
    readme = README.read_text(encoding="utf-8")
    assert EXAMPLES
    assert sorted(sections(readme)) == [path.name for path in EXAMPLES]
    assert listed(readme) == {path.name: status_of(path) for path in EXAMPLES}
    assert [path.name for path in EXAMPLES if f"```sh\n{command(path)}\n```" not in sections(readme)[path.name]] == []


def test_the_main_readme_shows_parts_of_one_block() -> None:
    main = (APART.parents[1] / "README.md").read_text(encoding="utf-8")
    example = APART / "wrong_backward.py"
    block = shown(README.read_text(encoding="utf-8"), example.name)
    (found,) = re.findall(rf"```text\n\$ {re.escape(command(example))}\n(.*?)```", main, re.DOTALL)
    assert [part for part in found.split("[...]\n") if part not in block] == []


def test_a_slow_machine_says_the_same() -> None:
    assert same(LATE, IN_TIME)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("15.7", "5.7"),
        ("agrees: bit", "differs: bit"),
        ("49 (proved)", "49"),
        ("float64", "float32"),
        ("5e-49", "5e-29"),
    ],
)
def test_another_report_is_noticed(right: str, wrong: str) -> None:
    assert right in IN_TIME
    assert not same(IN_TIME.replace(right, wrong), IN_TIME)
    assert not same(IN_TIME.replace(right, wrong), LATE)


def test_a_changed_block_is_noticed() -> None:
    readme = README.read_text(encoding="utf-8")
    for name in sections(readme):
        assert not same(shown(with_output(readme, name, "something else\n"), name), shown(readme, name))


if __name__ == "__main__":
    refresh(README, EXAMPLES, run_example)
