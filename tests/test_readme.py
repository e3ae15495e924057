"""The README says what the program does: every console block is run, and the reference lists every option.

`python tests/test_readme.py` writes the blocks and the reference anew.
"""

import doctest
import os
import re
import subprocess
import sys
import textwrap
from collections import Counter
from pathlib import Path

import pytest

from gradcli.commands.program import command
from gradcli.primitives.refused import partition

README = Path(__file__).resolve().parents[1] / "README.md"
BLOCK = re.compile(r"```console\n\$ (?P<command>[^\n]+)\n(?P<output>.*?)```", re.DOTALL)
NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[-+]?\d+)?")
ERROR = re.compile(r"\de[-+]\d+")
FEW = re.compile(r"\d{1,2}(?:\.\d)?")  # right digits
CHART = re.compile(r"^.*[\u2800-\u28ff].*\n", re.MULTILINE)  # dots whose place the last digits decide
COUNTS = re.compile(r"(?<=<!-- counts -->).*?(?=<!-- end of counts -->)", re.DOTALL)
REFERENCE = re.compile(r"(?<=<!-- reference -->\n).*?(?=<!-- end of reference -->)", re.DOTALL)


def blocks() -> list[tuple[str, str]]:
    """Return the commands in the README and the output it shows for each."""
    return [(match["command"], match["output"]) for match in BLOCK.finditer(README.read_text())]


def output_of(line: str) -> str:
    """Run a line in a shell, the interpreter's own scripts first on the path, at 80 columns."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environ = {**os.environ, "PATH": path, "COLUMNS": "80", "NO_COLOR": "1"}
    environ.pop("GITHUB_ACTIONS", None)
    run = subprocess.run(["bash", "-c", line], capture_output=True, text=True, env=environ, timeout=120)
    return run.stdout + run.stderr


def skeleton(text: str) -> str:
    """Return a text with its numbers blanked and runs of spaces made one: columns move with the digits in them."""
    return re.sub(" +", " ", NUMBER.sub("#", CHART.sub("", text)))


def alike(a: str, b: str) -> bool:
    """Whether two numbers say the same on any machine: results to nine digits, error figures to their order of magnitude."""
    x, y = float(a), float(b)
    if ERROR.fullmatch(a) or ERROR.fullmatch(b):
        return x == y or (x > 0 and y > 0 and 0.1 <= x / y <= 10)
    if FEW.fullmatch(a) and FEW.fullmatch(b):
        return abs(x - y) <= 2
    return abs(x - y) <= 1e-9 * abs(y) or (max(abs(x), abs(y)) < 1e-5 and 0.01 <= abs(x / y) <= 100)


def counts() -> str:
    """Return the sentence that says how numpy's functions are taken."""
    found = Counter(partition().values())
    said = (
        f"Of the {found.total()} public functions of numpy, numpy.linalg and numpy.fft, {found['primitive']} are primitives "
        f"with a rule of their own, {found['composite']} are composites of these, {found['constant']} are constants without "
        f"a derivative, and {found['refused']} are refused, each with its reason."
    )
    return "\n" + textwrap.fill(said, 118, initial_indent="  ", subsequent_indent="  ") + "\n  "


def reference() -> str:
    """Return a table of options for every command, made from the program itself."""
    lines = []
    for name, found in command().commands.items():
        usage = " ".join(p.metavar or p.name for p in found.params if p.param_type_name == "argument")
        lines += [f"### gradcli {name} {usage}".rstrip(), "", (found.help or "").strip().split("\n\n")[0], ""]
        rows = [p for p in found.params if p.param_type_name == "option"]
        if rows:
            lines += ["| option | value | meaning |", "| --- | --- | --- |"]
        for option in rows:
            spelled = ", ".join(f"`{o}`" for o in sorted((*option.opts, *option.secondary_opts), key=len))
            value = "" if option.is_flag else f"`{option.metavar}`"
            meaning = (option.help or "").replace("|", "\\|")
            lines.append(f"| {spelled} | {value} | {meaning} |")
        lines.append("")
    return "\n".join(lines)


@pytest.mark.parametrize(("line", "shown"), blocks(), ids=[line[:60] for line, _ in blocks()])
def test_an_example_prints_what_the_readme_shows(line: str, shown: str) -> None:
    real = output_of(line)
    assert skeleton(real) == skeleton(shown)
    for mine, readme in zip(NUMBER.findall(CHART.sub("", real)), NUMBER.findall(CHART.sub("", shown)), strict=True):
        assert alike(mine, readme), (mine, readme)


def test_the_readme_counts_numpys_functions() -> None:
    found = COUNTS.search(README.read_text())
    assert found is not None
    assert found.group().split() == counts().split()


def test_the_python_examples_of_the_readme_hold() -> None:
    failed, tried = doctest.testfile(str(README), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert (failed, tried > 5) == (0, True)


def test_the_examples_in_the_python_interface_hold() -> None:
    import gradcli.api
    import gradcli.source.checkpoint
    import gradcli.studies_api

    for module in (gradcli.api, gradcli.studies_api, gradcli.source.checkpoint):
        failed, tried = doctest.testmod(module)
        assert (failed, tried > 0) == (0, True), module


def test_there_are_ten_examples() -> None:
    text = README.read_text()
    section = text[text.index("## Ten examples") : text.index("## Which step")]
    assert len(BLOCK.findall(section)) == 10


def test_the_reference_lists_every_command_and_option() -> None:
    found = REFERENCE.search(README.read_text())
    assert found is not None
    assert found.group() == reference()


def test_every_exit_status_is_in_the_readme() -> None:
    from gradcli.words import Exit

    text = README.read_text()
    assert all(f"| {int(status)} |" in text for status in Exit if status is not Exit.INTERRUPTED)
    assert "Ctrl-C is 130" in text


def rewritten(text: str) -> str:
    """Return the README with every block and the reference made anew."""
    text = BLOCK.sub(lambda m: f"```console\n$ {m['command']}\n{output_of(m['command'])}```", text)
    text = COUNTS.sub(lambda _: counts(), text)
    return REFERENCE.sub(lambda _: reference(), text)


if __name__ == "__main__":
    README.write_text(rewritten(README.read_text()))
