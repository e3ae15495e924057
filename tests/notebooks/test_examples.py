"""Notebooks: the magics in a shell of IPython, and examples/notebook.ipynb run in a kernel.

`python -m tests.notebooks.test_examples` rewrites the outputs of examples/notebook.ipynb.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gradcli.report.check import CheckReport
from gradcli.report.suite import SuiteReport

NOTEBOOK = Path(__file__).resolve().parents[2] / "examples" / "notebook.ipynb"
GUIDE = NOTEBOOK.parents[1] / "docs" / "how-to" / "notebooks.md"
QUICK = "--modes certified,reverse,finite-difference"
FUNCTIONS = """
import numpy as np
w0 = np.array([0.5, -1.2, 0.8])
x0 = 0.5
def loss(w):
    t = np.tanh(w)
    return np.sum(t**2)
def loss_grad(w):
    t = np.tanh(w)
    return 2 * t * (1 - t**2)
def wrong(w):
    return np.tanh(w)
class Data:
    at = {"w": w0}
data = Data()
"""
PAIRS = """import numpy as np
def f(x):
    return np.sum(x**2)
def f_grad(x):
    return 2 * x
def g(x, k=1.0):
    return np.sum(x**3)
def grad_g(x, k=1.0):
    return 3 * x
"""


@pytest.fixture(name="shell")
def _shell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    """Yield a shell of IPython with the extension loaded; its module of names is gone afterwards."""
    pytest.importorskip("IPython", reason="IPython is not installed")
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    import gradcli

    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    settings = Config({"HistoryManager": {"enabled": False}, "InteractiveShell": {"colors": "nocolor"}})
    shell = InteractiveShell.instance(config=settings)
    gradcli.load_ipython_extension(shell)
    shell.run_cell(FUNCTIONS, store_history=True)
    yield shell
    InteractiveShell.clear_instance()


@pytest.mark.parametrize(
    ("line", "verdict", "target"),
    [
        ('"sin(x*y)" x=0.5 y=1.2', "pass", "sin(x*y)"),
        ('"sin(x)" x=x0', "pass", "sin(x)"),
        ('"sum(w**2)" --at data.at --grad "2*w"', "pass", "sum(w**2)"),
        ('"sum(tanh(w)**2)" w=w0 --grad loss_grad', "pass", "sum(tanh(w)**2)"),
        ("loss --grad loss_grad --at w0", "pass", "loss"),
        ("loss --grad wrong --at w0", "fail", "loss"),
        ('loss --grad loss_grad --at "w = w0"', "pass", "loss"),
        ("loss --grad loss_grad --at data.at", "pass", "loss"),
        ('loss --grad loss_grad --at "w=randn(3)" --seed 3', "pass", "loss"),
    ],
)
def test_a_line_is_that_of_the_command_line(shell: Any, line: str, verdict: str, target: str) -> None:
    report = shell.run_line_magic("gradcheck", f"{line} {QUICK}")
    assert isinstance(report, CheckReport)
    assert (report.verdict, report.target.text) == (verdict, target)
    assert report.command[:2] == ("%gradcheck", target) and "__main__" not in str(report)


def test_a_replayed_line_gives_the_same_report(shell: Any) -> None:
    from gradcli.report.check import quote_command

    first = shell.run_line_magic("gradcheck", f'loss --grad wrong --at "w=randn(3)" --seed 5 {QUICK}')
    words = quote_command(first.command)
    assert words.startswith("%gradcheck loss ") and "--seed 5" in words
    assert str(shell.run_line_magic("gradcheck", words.removeprefix("%gradcheck "))) == str(first)


def test_a_cell_with_one_gradient_gives_its_report(shell: Any) -> None:
    report = shell.run_cell_magic("gradcheck", f'--at "x=randn(3)" {QUICK}', PAIRS[: PAIRS.index("def g")])
    assert isinstance(report, CheckReport) and report.passed
    assert (report.target.text, report.claim) == ("f", "f_grad")
    assert callable(shell.user_ns["f_grad"])


def test_a_cell_with_several_gradients_gives_a_line_for_each(shell: Any) -> None:
    report = shell.run_cell_magic("gradcheck", f"x=w0 {QUICK}", PAIRS)
    assert isinstance(report, SuiteReport)
    assert [(row.id, row.verdict) for row in report.checks] == [("f_grad", "pass"), ("grad_g", "fail")]
    assert repr(report).startswith("<SuiteReport 1 passed, 1 failed in ")


def test_a_value_is_given_to_the_functions_that_have_it(shell: Any) -> None:
    report = shell.run_cell_magic("gradcheck", f"x=w0 k=2.0 {QUICK}", PAIRS)
    assert [row.verdict for row in report.checks] == ["pass", "fail"]


def test_a_cell_can_name_what_is_checked(shell: Any) -> None:
    report = shell.run_cell_magic("gradcheck", f"loss --grad mine --at w0 {QUICK}", "def mine(w):\n    return 2 * w\n")
    assert report.verdict == "fail" and report.claim == "mine"


def test_a_function_that_returns_both_is_checked(shell: Any) -> None:
    cell = "def loss_and_grad(w):\n    value = np.sum(w**2)\n    return value, 2 * w\n"
    assert shell.run_cell_magic("gradcheck", f"--at w0 {QUICK}", cell).passed


def test_lines_are_those_of_the_cell(shell: Any) -> None:
    shell.run_cell("pass", store_history=True)
    report = shell.run_cell(
        f"%%gradcheck --at w0 {QUICK}\n\ndef sq(w):\n    return np.sum(w**2)\n\ndef sq_grad(w):\n    return w\n",
        store_history=True,
    ).result
    assert (report.claimed_at.file, report.claimed_at.line) == ("Cell In[3]", 6)
    assert report.claimed_at.source == "def sq_grad(w):"


ERRORS = [
    ("lss --at w0", "this notebook has no 'lss'\n  did you mean 'loss'?"),
    ("loss --grad loss_gradd --at w0", "the notebook has no function 'loss_gradd' to check"),
    ("loss --grad loss_grad", 'w has no value\n  --at "w=randn(3)"'),
    ("loss --json --at w0", "there is no option '--json' for %gradcheck"),
    ("loss --points many --at w0", "--points takes a whole number from 1 to 1000"),
    ("loss --timeout 3s --at w0", "there is no option '--timeout' for %gradcheck"),
    ("", "there is no target\n  write one: %gradcheck"),
    ('"sin(x', "the line cannot be read: No closing quotation"),
    ("loss wrong --at w0", "this command takes one target, not 2"),
    ('"sin(x)" x=y0', "unknown value 'y0'"),
]


@pytest.mark.parametrize(("line", "says"), ERRORS, ids=[line or "nothing" for line, _ in ERRORS])
def test_an_error_is_that_of_the_command_line(shell: Any, line: str, says: str) -> None:
    from IPython.core.error import UsageError

    with pytest.raises(UsageError) as raised:
        shell.run_line_magic("gradcheck", line)
    assert says in str(raised.value) and "__main__" not in str(raised.value)


def test_an_error_has_no_traceback(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    ran = shell.run_cell("%gradcheck lss --at w0")
    said = capsys.readouterr()
    assert not ran.success and said.err.startswith("UsageError: this notebook has no 'lss'")
    assert "Traceback" not in said.out + said.err


def test_a_cell_without_a_gradient_says_what_is_looked_for(shell: Any) -> None:
    from IPython.core.error import UsageError

    with pytest.raises(UsageError, match="no function together with its gradient\n  name them as f and f_grad"):
        shell.run_cell_magic("gradcheck", "", "a = 1\n")
    assert shell.user_ns["a"] == 1


def test_an_error_of_the_cell_is_raised(shell: Any) -> None:
    with pytest.raises(ZeroDivisionError):
        shell.run_cell_magic("gradcheck", "", "b = 1\nb / 0\n")


def test_help_lists_what_a_notebook_can_have(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert shell.run_line_magic("gradcheck", "--help") is None
    said = capsys.readouterr().out
    assert said.startswith("Usage: %gradcheck [OPTIONS]") and "%%gradcheck" in said and "--stress" in said
    assert "--json" not in said and "--workers" not in said


def test_braces_are_not_replaced(shell: Any) -> None:
    """IPython puts values for {x} and $x, which may stand in an expression or in a shell's variable."""
    magic = shell.magics_manager.magics["line"]["gradcheck"]
    from IPython.core.magic import MAGIC_NO_VAR_EXPAND_ATTR

    assert getattr(magic, MAGIC_NO_VAR_EXPAND_ATTR)


def test_the_extension_loads_nothing_until_it_is_used() -> None:
    program = (
        "import sys, gradcli\n"
        "class Shell:\n"
        "    def register_magic_function(self, function, kind, name): assert (kind, name) == ('line_cell', 'gradcheck')\n"
        "gradcli.load_ipython_extension(Shell())\n"
        "print(sorted({name.partition('.')[0] for name in sys.modules} & {'numpy', 'IPython', 'rich', 'typer', 'nbclient'}))\n"
        "print('gradcli.cli.notebooks' in sys.modules)\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\nFalse\n"


def test_the_blocks_of_the_guide_run(shell: Any) -> None:
    text = GUIDE.read_text(encoding="utf-8")
    python, magic = (
        re.findall(rf"```{kind}\n({start}.*?)```", text, re.DOTALL)[0]
        for kind, start in (("python", ""), ("text", "%%"))
    )
    assert shell.run_cell(python).result.passed
    assert shell.run_cell(magic).result.verdict == "fail"
    lines = re.findall(r"^%gradcheck .*$", text, re.MULTILINE)
    shell.run_cell("data.X, w0 = w0, w0\ndef loss_grad(w):\n    return 1\n")
    assert len(lines) == 3
    for line in lines[:2]:
        assert shell.run_cell(line).success


def run(notebook: Any) -> Any:
    """Return the notebook with the outputs that it has now."""
    nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed")
    fresh = nbformat.from_dict(notebook)
    nbclient.NotebookClient(fresh, timeout=300, kernel_name="python3", record_timing=False).execute()
    return fresh


def read() -> Any:
    nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
    return nbformat.read(NOTEBOOK, as_version=4)


def outputs(cell: Any, times: bool) -> list[dict[str, str]]:
    """Return what a cell shows; where that has times in it, without its numbers and the space that they take."""
    shown = [dict(output["data"]) for output in cell["outputs"]]
    if not times:
        return shown
    return [{kind: " ".join(re.sub(r"[-\d.,e+]+", "0", text).split()) for kind, text in one.items()} for one in shown]


@pytest.mark.filterwarnings("ignore::DeprecationWarning:jupyter_client", "ignore::DeprecationWarning:zmq")
def test_the_example_shows_what_it_shows_now() -> None:
    shown = read()
    fresh = run(shown)
    for before, now in zip(shown.cells, fresh.cells, strict=True):
        if before.cell_type == "code":
            times = "times" in before.metadata.get("tags", ())
            assert outputs(now, times) == outputs(before, times), (
                "python -m tests.notebooks.test_examples rewrites the outputs"
            )


def test_the_example_shows_every_report_and_is_small() -> None:
    shown = read()
    texts = [output["data"] for cell in shown.cells if cell.cell_type == "code" for output in cell.outputs]
    assert len(texts) >= 8 and all("text/html" in data for data in texts[:-1])
    assert any("text/latex" in data for data in texts)
    assert NOTEBOOK.stat().st_size < 100_000
    assert "ipykernel_" not in NOTEBOOK.read_text(encoding="utf-8")


if __name__ == "__main__":
    import nbformat

    nbformat.write(run(read()), NOTEBOOK)
