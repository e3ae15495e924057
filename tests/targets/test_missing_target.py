"""A file, a module or a name that is not there is reported before anything is imported; what is not certain is imported."""

import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gradcli.errors import BadTarget
from gradcli.targets.loading import load
from tests.cli.reading import refuse_missing_of
from tests.rows import for_rows
from tests.targets.test_loading import written

PLAIN = """
    import math
    from functools import partial
    LIMIT = 3.0
    def focal(x): return x**2
    def huber(x): return x
    def _hidden(x): return x
    class Model:
        def loss(self, x): return x
    square = lambda x: x**2
"""


def refused(*words: str) -> BadTarget | None:
    try:
        refuse_missing_of(*words)
    except BadTarget as error:
        return error
    return None


@pytest.mark.parametrize("name", ["focl", "hubr", "nothing", "Modl.loss", "squar", "focall()"])
def test_the_error_is_that_of_loading(tmp_path: Path, name: str) -> None:
    target = f"{written(tmp_path, PLAIN)}:{name}"
    early = refused("check", target)
    assert early is not None
    with pytest.raises(BadTarget) as late:
        load(target)
    assert (early.what, early.do) == (late.value.what, late.value.do)


@pytest.mark.parametrize(
    "target", ["no_such_file.py:f", "no_such_module:f", "no.such.module:f", "{folder}/users.py:f", "{folder}:f"]
)
def test_files_and_modules_too(tmp_path: Path, target: str) -> None:
    written(tmp_path, PLAIN, "users_.py")
    (tmp_path / "folder.py").mkdir()
    named = target.replace("{folder}:f", f"{tmp_path}/folder.py:f").replace("{folder}", str(tmp_path))
    early = refused("check", named)
    assert early is not None
    with pytest.raises(BadTarget) as late:
        load(named)
    assert (early.what, early.do) == (late.value.what, late.value.do)


THERE = {
    "a function": "def f(x): return x",
    "a class": "class f: pass",
    "imported": "from math import sin as f",
    "a module": "import math as f",
    "assigned": "f = 3",
    "unpacked": "e, (g, *f) = 1, (2, 3)",
    "in a branch": "import sys\nif sys.version_info > (3,):\n    def f(x): return x",
    "in try": "try:\n    from quick import f\nexcept ImportError:\n    f = None",
    "a loop": "for f in (1, 2): pass",
    "with": "with open(__file__) as f: pass",
    "walrus": "print(f := 3)",
    "global": "def make():\n    global f\n    f = 3\nmake()",
    "annotated": "f: float = 3.0",
    "star": "from math import *",
    "exec": "exec('f = 3')",
    "globals": "globals()['f'] = 3",
    "vars": "vars()['f'] = 3",
    "setattr": "import sys\nsetattr(sys.modules[__name__], 'f', 3)",
    "getattr": "def __getattr__(name): return 3",
    "match": "match 3:\n    case f: pass",
    "other bytes": "\ufeffé = 3\nf = 3",
}  # fmt: skip


@pytest.mark.parametrize("how", THERE)
def test_a_name_that_may_be_there_is_looked_for_by_importing(tmp_path: Path, how: str) -> None:
    path = tmp_path / "users.py"
    path.write_text(THERE[how], encoding="utf-8")
    assert refused("check", f"{path}:f") is None
    assert refused("check", f"{path}:f.inner") is None


@for_rows(
    "words",
    [
        ("check",), ("find", "no.py:f"), ("check", "no.py:f", "also.py:g"), ("check", "no.py:f", "x*y"),
        ("check", "no.py:f", "--", "x"), ("check", "x*y"),
        ("check", "no.py:f", "--json", "other.py:g"), ("check", "json:dumps"), ("check", "os.path:join"),
        ("check", "no.py:f", "x=1;2"), ("check", "no.py:f", "x=", "1"),
        ("check", "no.py:f", "-a=x=1"), ("check", "-", "no.py:f"),
        ("check", "x" * 300 + ".py:f"),
    ],
)  # fmt: skip
def test_anything_else_is_left_to_the_command(words: tuple[str, ...]) -> None:
    assert refused(*words) is None


@for_rows(
    "words",
    [("x=1",), ("--at", "x=1", "--json"), ("--grad", "other.py:g", "y=[1, 2]"), ("params.A=1", "--modes", "fd"),
     ("--at=x=1", "--seed=3"), ("-a", "x=1"), ("--device", "cuda"), ("--stress",), ("-x",), ("--out", "report.json"),
     ("--timeout", "3s"), ("--rtol", "1e-3"), ("--profile", "nightly")],
)  # fmt: skip
def test_values_and_options_are_no_targets(words: tuple[str, ...]) -> None:
    assert refused("check", "no.py:f", *words) is not None
    options = words[: 1 if "=" in words[0] else 2] if words[0].startswith("-") else ()
    assert refused("check", *options, "no.py:f") is not None


@pytest.mark.parametrize("command", ["check", "compare-modes", "sweep", "derive", "grad", "trace"])
def test_every_command_says_it(gradcli: Callable[..., Any], tmp_path: Path, command: str) -> None:
    ran = gradcli(command, f"{written(tmp_path, PLAIN)}:focl", "x=1")
    assert ran.exit_status == 2 and "has no function 'focl'" in ran.stderr and ":focal?" in ran.stderr


#  code, and whether what it defines is certain without running it
LISTED = {
    "functions":          ("def focal(x): pass\ndef huber(x): pass", True),
    "twice":              ("def focal(x): pass\ndef huber(x): pass\ndef focal(x, y): pass", True),
    "values":             ("def focal(x): pass\nx0 = np.ones(3)\nLIMIT: float = 3.0", True),
    "a lambda":           ("def huber(x): pass\nfocal = lambda x: huber(x)", True),
    "a call":             ("def focal(x): pass\nfocal(3)", True),
    "imported":           ("from math import sin\nimport json\ndef focal(x): pass", True),
    "in a branch":        ("if LATE:\n    def focal(x): pass\ndef huber(x): pass".replace("LATE", "np.e > 3"), False),
    "in try":             ("try:\n    from quick import focal\nexcept ImportError:\n    def focal(x): pass", False),
    "an alias":           ("def huber(x): pass\nfocal = huber", False),
    "an instance":        ("class Net:\n    def __call__(self, x): pass\nfocal = Net()", False),
    "made":               ("def make(k):\n    return lambda x: x\nfocal = make(3)", False),
    "deleted":            ("def focal(x): pass\ndef huber(x): pass\ndel focal", False),
    "an annotated one":   ("focal: object = lambda x: x", False),
    "for the script":     ("def focal(x): pass\nif __name__ == '__main__':\n    y = focal(3)", True),
}  # fmt: skip


@pytest.mark.parametrize("how", LISTED)
def test_what_a_file_has_is_listed_as_loading_does(tmp_path: Path, how: str) -> None:
    code, certain = LISTED[how]
    target = f"{written(tmp_path, code)}:focl"
    early = refused("check", target)
    assert (early is not None) is certain
    with pytest.raises(BadTarget) as late:
        load(target)
    assert early is None or (early.what, early.do) == (late.value.what, late.value.do)


BROKEN = {
    "a bracket": b"def g(:",
    "an indent": b"def f(x):\nreturn x",
    "tabs": b"if 1:\n\tx = 1\n        y = 2\n",
    "a string": b"x = 'abc\n",
    "later": b"def f(x):\n    return x\n\n\nx = = 3\n",
    "bytes": b"x = '\xff'\n",
    "an encoding": b"# coding: nothing\nx = 1\n",
    "print": b"print 'hello'\n",
    "another language": b"<html>\n",
    "wide": "\ufeffé = (1,\n".encode(),
}  # fmt: skip


@pytest.mark.parametrize("name", ["", ":f", ":nothing"])
@pytest.mark.parametrize("how", BROKEN)
def test_a_file_that_is_not_python_is_reported_as_loading_does(tmp_path: Path, how: str, name: str) -> None:
    path = Path(written(tmp_path, ""))
    path.write_bytes(BROKEN[how])
    early = refused("check", f"{path}{name}")
    assert early is not None
    with pytest.raises(BadTarget) as late:
        load(f"{path}{name}")
    assert (early.what, early.where, early.do) == (late.value.what, late.value.where, late.value.do)


@pytest.mark.parametrize("code", ["return 3\n", "import no_such_module\n", "x = '\\d'\ndef f(x): return x\n"])
def test_what_only_python_itself_can_say_is_left_to_it(tmp_path: Path, code: str) -> None:
    path = Path(written(tmp_path, ""))
    path.write_text(f"def f(x): pass\n{code}")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert refused("check", f"{path}:f") is None


def test_nothing_is_imported_or_run(tmp_path: Path) -> None:
    file = written(tmp_path, f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    code = (
        "import sys\nfrom gradcli.cli.main import run\n"
        f"assert run(['check', {f'{file}:f'!r}]) == 2\nassert run(['check', 'no_such_file.py:f']) == 2\n"
        "loaded = {'numpy', 'sympy', 'rich', 'scipy', 'multiprocessing'} & set(sys.modules)\n"
        "assert not loaded, loaded\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert "has no function 'f'" in ran.stderr and not (tmp_path / "ran").exists()
