"""What a command names and is not there: said before anything is loaded, in the words in which the command says it."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradcli.errors import GradcliError
from tests.cli.reading import refuse_missing_of
from tests.rows import for_rows

F = "def f(x):\n    return x**2\n"


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Go to a folder with some files."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plain.py").write_text(F)
    (tmp_path / "broken.py").write_text("def f(:\n")
    (tmp_path / "folder").mkdir()
    (tmp_path / "words.txt").write_text("1 2 3")
    np.save(tmp_path / "x.npy", 3.0)


def refused(*words: str) -> GradcliError | None:
    try:
        refuse_missing_of(*words)
    except GradcliError as error:
        return error
    return None


#  what is missing, and the command
MISSING = {
    "a file":                 ("check", "plan.py:f", "x=1"),
    "a file alone":           ("check", "plan.py"),
    "a folder":               ("check", "folder.py:f"),
    "a name":                 ("check", "plain.py:g", "x=1"),
    "a module":               ("check", "no_such_module:f"),
    "Python":                 ("check", "broken.py:f", "x=1"),
    "a value's file":         ("check", "plain.py:f", "x=@y.npy"),
    "a value's file, at":     ("check", "plain.py:f", "--at", "x=@no/such/folder.npy"),
    "a value's file, second": ("check", "x*y", "--at", "x=1, y=@data.csv"),
    "an expression's file":   ("check", "sin(x)", "x=@y.npy"),
    "a quoted file":          ("check", "sin(x)", "x=@'y.npy'"),
    "no data":                ("check", "sin(x)", "x=@words.txt"),
    "no regular file":        ("check", "sin(x)", "x=@folder"),
    "a point":                ("check", "plain.py:f", "--at", "@point.npz"),
    "a point's form":         ("check", "plain.py:f", "--at", "@words.txt"),
    "a point in Python":      ("check", "plain.py:f", "--at", "plan.py:POINT"),
    "a point's name":         ("check", "plain.py:f", "--at", "plain.py:POINT"),
    "a claim":                ("check", "plain.py:f", "x=1", "--grad", "plan.py:g"),
    "a claim's name":         ("check", "plain.py:f", "x=1", "--grad", "plain.py:g"),
    "a claim's Python":       ("check", "x**2", "x=1", "--grad", "broken.py:g"),
    "in compare-modes":       ("compare-modes", "plan.py:f", "x=1"),
    "in sweep":               ("sweep", "sin(x)", "x=@y.npy"),
    "in derive":              ("derive", "broken.py:f", "--shapes", "x: n"),
    "in derive, a point":     ("derive", "sin(x)", "--at", "x=@y.npy"),
    "in grad":                ("grad", "plain.py:g", "x=1"),
    "in trace":               ("trace", "plain.py:f", "x=@y.npy"),
}  # fmt: skip


@for_rows("form", [(), ("--json",)])
@for_rows("what", MISSING)
def test_the_command_says_the_same_in_the_same_words(
    gradcli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, what: str, form: tuple[str, ...]
) -> None:
    assert refused(*MISSING[what], *form) is not None
    early = gradcli(*MISSING[what], *form)
    with monkeypatch.context() as patched:
        patched.setattr("gradcli.cli.main.refuse_missing", lambda *texts: None)
        assert early == gradcli(*MISSING[what], *form)
    assert early.exit_status == 2


LOOKED_AT = """
import sys, gradcli.__main__, gradcli.process.process
gradcli.process.process.Supervisor = None  # a call of it would end this
status = gradcli.__main__.run_command({argv!r})
loaded = {{"numpy", "sympy", "scipy", "rich", "plain"}} & set(sys.modules)
print(status, sorted(loaded), file=sys.stderr)
"""


@pytest.mark.parametrize("what", MISSING)
def test_nothing_is_loaded_and_no_process_is_started(what: str) -> None:
    argv = [*MISSING[what], "--json"]
    ran = subprocess.run([sys.executable, "-c", LOOKED_AT.format(argv=argv)], capture_output=True, text=True)
    assert ran.stderr == "2 []\n"
    assert json.loads(ran.stdout)["schema"] == "gradcli.error/1"


@for_rows(
    "words",
    [
        ("plain.py:f", "x=@x.npy"), ("plain.py:f", "--at", "x=@x.npy"), ("sin(x)", "x=@x.npy"), ("plain.py:f", "--grad", "x=2*x"),
        ("plain.py:f", "--grad", "g"), ("plain.py:f", "--at", "POINT"), ("plain.py:f", "x=plain.py:DATA"),
        ("sin(x)", "--at", "x='@y.npy'"), ("plain.f", "x=@y.npz", "z"), ("folder", "x=@y.npy"), ("folder/", "x=@y.npy"),
        ("json:dumps", "x=@y.npy"),
    ],
)  # fmt: skip
def test_what_is_there_or_not_certain_is_left_to_the_command(words: tuple[str, ...]) -> None:
    assert refused("check", *words) is None


@pytest.mark.parametrize(
    "written", ["np.save('made.npy', 3.0)", 'np.save("made", 3.0)', "np.save('data/made.npy', 3.0)"]
)
def test_a_file_that_the_target_may_write_is_looked_for_later(tmp_path: Path, written: str) -> None:
    (tmp_path / "writes.py").write_text(f"import numpy as np\n{written}\n{F}")
    assert refused("check", "writes.py:f", "x=@made.npy") is None
    assert refused("check", "writes.py:f", "x=@other.npy") is not None


def test_a_target_that_writes_its_data_is_checked(process: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "writes.py").write_text(f"import numpy as np\nnp.save('made.npy', 3.0)\n{F}")
    ran = process("check", "writes.py:f", "x=@made.npy", "--modes", "rev,fd", cwd=tmp_path)
    assert ran.exit_status == 0, ran.stderr


def test_the_target_comes_before_its_point_and_the_point_before_the_claim() -> None:
    points = ("--grad", "no_claim.py:g", "x=@no_data.npy")
    assert "no_target.py" in str(refused("check", "no_target.py:f", *points))
    assert "no_data.npy" in str(refused("check", "plain.py:f", *points))
    assert "no_claim.py" in str(refused("check", "plain.py:f", *points[:2]))
