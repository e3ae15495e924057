"""Python targets from the command line: how the user's functions may behave, and what goes to which stream."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.targets.test_loading import written

QUICK = ("--modes", "forward,reverse,fd")
X = "x=[0.5, 2]"


@pytest.fixture(autouse=True)
def _importable_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))


def kinds(ran: Any) -> list[str]:
    """Return the kinds of the findings at the first point."""
    return [finding["kind"] for finding in ran.json["points"][0]["findings"]]


RAISES = [
    (
        "def f(x):\n    y = 2*x\n    raise ValueError('rates must be positive')\n",
        "ValueError: rates must be positive",
        4,
        "raise ValueError",
    ),
    ("def f(x):\n    return x[7]\n", "IndexError", 3, "x[7]"),
    ("def g(x):\n    return {}[0]\ndef f(x):\n    return g(x)\n", "KeyError: 0", 3, "{}[0]"),
    ("def f(x):\n    return x @ np.ones(3)\n", "ValueError", 3, "x @ np.ones(3)"),
    ("def f(x):\n    assert x[0] > 1, 'too small'\n", "AssertionError: too small", 3, "assert"),
    ("def f(x):\n    return np.linalg.inv(np.zeros((2, 2)))\n", "LinAlgError", 3, "np.linalg.inv"),
    ("def f(x):\n    return unknown_name\n", "NameError", 3, "unknown_name"),
    ("def f(x):\n    import no_such_module\n", "no_such_module", 3, "import no_such_module"),
    ("def f(x):\n    return f(x)\n", "RecursionError", 3, "f(x)"),
    ("import sys\ndef f(x):\n    sys.exit(0)\n", "sys.exit(0)", 4, "sys.exit(0)"),
    ("import sys\ndef f(x):\n    sys.exit('bye')\n", "bye", 4, "sys.exit"),
    ("def f(x):\n    raise SystemExit\n", "exit", 3, "raise SystemExit"),
    ("def f(x):\n    raise MemoryError\n", "MemoryError", 3, "raise MemoryError"),
    ("def f(x):\n    raise StopIteration\n", "StopIteration", 3, "raise StopIteration"),
    ("def f(x):\n    exec('1/0')\n", "ZeroDivisionError", 3, "exec('1/0')"),
    (
        "class Odd(Exception):\n    def __str__(self): raise TypeError('no text')\ndef f(x):\n    raise Odd\n",
        "Odd",
        5,
        "raise Odd",
    ),
    ("class Stop(BaseException): pass\ndef f(x):\n    raise Stop('here')\n", "Stop: here", 4, "raise Stop"),
]


@pytest.mark.parametrize(("code", "said", "line", "source"), RAISES)
def test_a_function_that_raises_shows_its_own_message_and_line(
    gradcli: Callable[..., Any], tmp_path: Path, code: str, said: str, line: int, source: str
) -> None:
    file = written(tmp_path, code)
    ran = gradcli("check", f"{file}:f", X, *QUICK)
    assert (ran.exit_status, ran.stdout) == (2, ""), ran.stderr
    assert said in ran.stderr and source in ran.stderr
    assert f"{Path(file).name}:{line} " in ran.stderr or "<string>" in ran.stderr
    assert "Traceback" not in ran.stderr and "internal" not in ran.stderr


def test_the_error_is_a_document_for_programs(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    ran = gradcli("check", f"{written(tmp_path, RAISES[0][0])}:f", X, *QUICK, "--json")
    error = ran.json["error"]
    assert (ran.exit_status, ran.stderr, error["kind"]) == (2, "", "function")
    assert "rates must be positive" in error["message"] and "raise ValueError" in error["where"]


@pytest.mark.parametrize("command", ["check", "grad", "trace", "compare-modes"])
def test_every_command_says_what_the_function_raised(gradcli: Callable[..., Any], tmp_path: Path, command: str) -> None:
    more = QUICK if command in ("check", "compare-modes") else ()
    ran = gradcli(command, f"{written(tmp_path, RAISES[0][0])}:f", X, *more)
    assert ran.exit_status == 2
    assert "ValueError: rates must be positive" in ran.stderr


def test_a_traceback_is_shown_when_asked_for(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    ran = gradcli("check", f"{written(tmp_path, RAISES[0][0])}:f", X, *QUICK, "--traceback")
    assert "Traceback" in ran.stderr and "in f" in ran.stderr


def test_an_interrupt_in_the_function_ends_the_program(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    ran = gradcli("check", f"{written(tmp_path, 'def f(x): raise KeyboardInterrupt')}:f", X, *QUICK)
    assert ran.exit_status == 130


@pytest.mark.parametrize("said", ["a\n::error::no", "a\r\n::warning file=x::no", "\n\n::set-output name=x::y"])
def test_a_message_is_no_workflow_command(gradcli: Callable[..., Any], tmp_path: Path, said: str) -> None:
    file = written(tmp_path, f"def f(x):\n    raise ValueError({said!r})\n")
    ran = gradcli("check", f"{file}:f", X, *QUICK, environ={"GITHUB_ACTIONS": "true"})
    assert ran.exit_status == 2
    assert not [line for line in ran.stderr.splitlines() if line.startswith("::") and "no" in line]


def test_a_message_is_no_terminal_command(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    file = written(tmp_path, "def f(x):\n    raise ValueError('\\x1b[31mred\\u202e\\x07 [bold]rich[/bold]')\n")
    ran = gradcli("check", f"{file}:f", X, *QUICK)
    assert not any(sign in ran.stderr for sign in "\x1b\u202e\x07")
    assert "[bold]rich[/bold]" in ran.stderr


WRITES = {
    "in place": "def f(x):\n    x *= 2\n    return np.sum(x**2)\n",
    "an entry": "def f(x):\n    x[0] = 3*x[1]\n    return np.sum(x**2)\n",
    "by out=": "def f(x):\n    np.sin(x, out=x)\n    return np.sum(x**2)\n",
    "a view": "def f(x):\n    y = x[:1]\n    y += 1\n    return np.sum(x**2)\n",
    "by a method": "def f(x):\n    x.sort()\n    return np.sum(x**2*np.arange(2))\n",
    "by a callee": "def g(y):\n    y -= 1\ndef f(x):\n    g(x)\n    return np.sum(x**2)\n",
}


@pytest.mark.parametrize("what", WRITES)
def test_a_function_that_writes_into_its_input_is_told_and_checked(
    gradcli: Callable[..., Any], tmp_path: Path, what: str
) -> None:
    ran = gradcli("check", f"{written(tmp_path, WRITES[what])}:f", X, *QUICK, "--json")
    assert ran.exit_status == 0, ran.stdout
    assert kinds(ran) == ["mutates-input"]
    assert ran.json["points"][0]["at"] == {"x": [0.5, 2.0]}


def test_the_point_of_python_code_is_not_written_to(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    code = """
        point = {"x": np.array([0.5, 2.0])}
        def f(x):
            x *= 2
            return np.sum(x**2)
        def still(x): return np.sum(point["x"]) + 0*np.sum(x)
    """
    file = written(tmp_path, code)
    for target in ("f", "f", "still"):
        ran = gradcli("check", f"{file}:{target}", "--at", f"{file}:point", *QUICK, "--json")
    assert ran.json["points"][0]["value"] == 2.5


CHANGES = {
    "random": "rng = np.random.default_rng(0)\ndef f(x):\n    return np.sum(x**2)*(1 + 1e-3*rng.normal())\n",
    "global random": "def f(x):\n    return np.sum(x**2) + 1e-6*np.random.rand()\n",
    "dropout": "rng = np.random.default_rng(0)\ndef f(x):\n    return np.sum(x**2*(rng.random(x.shape) < 0.5))\n",
    "a counter": "n = [0]\ndef f(x):\n    n[0] += 1\n    return np.sum(x**2) + n[0]\n",
    "a clock": "import time\ndef f(x):\n    return np.sum(x**2) + 1e-3*time.perf_counter()\n",
    "its value": "n = [0]\ndef f(x):\n    n[0] += 1\n    return x[n[0] % 2]\n",
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_function_that_is_not_deterministic_is_inconclusive(
    gradcli: Callable[..., Any], tmp_path: Path, what: str
) -> None:
    file = written(tmp_path, CHANGES[what] + "def g(x): return 2*x\n")
    ran = gradcli("check", f"{file}:f", X, *QUICK, "--json")
    assert ran.exit_status == 3, ran.stdout
    assert "not-deterministic" in kinds(ran)


def test_a_function_whose_shape_changes_is_inconclusive(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    file = written(tmp_path, "n = [0]\ndef f(x):\n    n[0] += 1\n    return np.ones(1 + n[0] % 2)*x[0]\n")
    assert gradcli("check", f"{file}:f", X, *QUICK).exit_status == 3


@pytest.mark.parametrize("what", ["random", "global random", "a counter", "a clock"])
def test_no_claim_is_judged_by_a_function_that_changes(gradcli: Callable[..., Any], tmp_path: Path, what: str) -> None:
    file = written(tmp_path, CHANGES[what] + "def g(x): return 2*x\n")
    assert gradcli("check", f"{file}:f", X, "--grad", "g", *QUICK).exit_status == 3


def test_a_function_with_its_own_seed_is_deterministic(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    code = "def f(x):\n    return np.sum(x**2*np.random.default_rng(0).random(2))\n"
    ran = gradcli("check", f"{written(tmp_path, code)}:f", X, *QUICK, "--json")
    assert (ran.exit_status, kinds(ran)) == (0, [])


HARMLESS = {
    "warns": "import warnings\ndef f(x):\n    with warnings.catch_warnings():\n"
    "        warnings.simplefilter('ignore')\n        warnings.warn('watch out')\n"
    "    return np.sum(x**2)\n",
    "numpy raises": "def f(x):\n    with np.errstate(all='raise'):\n        return np.sum(x**2)\n",
    "sets numpy": "np.seterr(all='ignore')\ndef f(x):\n    return np.sum(x**2)\n",
    "prints": "def f(x):\n    print('noise', x)\n    return np.sum(x**2)\n",
    "logs": "import logging\ndef f(x):\n    logging.getLogger('f').info('%s', x)\n    return np.sum(x**2)\n",
    "closes over": "def make(k):\n    return lambda x: k*np.sum(x**2)\nf = make(1.0)\n",
    "uses a cache": "cache = {}\ndef f(x):\n    key = 'shape'\n    cache.setdefault(key, 1.0)\n"
    "    return cache[key]*np.sum(x**2)\n",
    "uses threads": "from concurrent.futures import ThreadPoolExecutor\ndef f(x):\n"
    "    with ThreadPoolExecutor(1) as pool:\n        k = pool.submit(lambda: 1.0).result()\n"
    "    return k*np.sum(x**2)\n",
    "catches": "def f(x):\n    try:\n        {}[0]\n    except KeyError:\n        return np.sum(x**2)\n",
    "own names": "from numpy import sum as total\nimport numpy as jnp\ndef f(x):\n    return total(jnp.square(x))\n",
    "annotated": "from typing import Any\ndef f(x: np.ndarray) -> float:\n    return np.sum(x**2)\n",
    "recursive": "def f(x, depth: int = 3):\n    return np.sum(x**2) if depth == 0 else f(x, depth - 1)\n",
    "star args": "def f(*args, **kwargs):\n    return np.sum(kwargs['x']**2 if kwargs else args[0]**2)\n",
}


@pytest.mark.parametrize("what", HARMLESS)
def test_ordinary_code_is_checked_without_a_word(gradcli: Callable[..., Any], tmp_path: Path, what: str) -> None:
    ran = gradcli("check", f"{written(tmp_path, HARMLESS[what])}:f", X, *QUICK, "--json")
    assert ran.exit_status == 0, ran.stdout
    assert kinds(ran) == []
    assert ran.json["points"][0]["gradient"]["x"] == [1.0, 4.0]


def test_a_function_that_changes_the_folder_does_not_move_the_report(
    gradcli: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    file = written(
        tmp_path, f"import os\ndef f(x):\n    os.chdir({str(tmp_path / 'elsewhere')!r})\n    return np.sum(x**2)\n"
    )
    monkeypatch.chdir(tmp_path)
    gradcli("check", f"{file}:f", X, *QUICK, "-q", "-o", "r.json")
    assert (tmp_path / "r.json").exists()


def test_what_numpy_is_told_stays_in_the_function(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    file = written(tmp_path, "def f(x):\n    np.seterr(all='raise')\n    return np.sum(x**2)\n")
    with np.errstate():  # back to what it was, for the tests after this one
        assert gradcli("check", f"{file}:f", X, *QUICK).exit_status == 0
        assert gradcli("check", "exp(x)", "x=1000", *QUICK).exit_status == 3


def test_without_a_claim_the_verdict_says_that_none_was_checked(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    ran = gradcli("check", f"{written(tmp_path, 'def focal(x): return np.sum(x**2)')}:focal", X, *QUICK)
    first = " ".join(ran.stdout.split("\n\n")[0].split())
    assert "gradcli's own gradient" in first and "checked" in first


def test_json_repeats_the_command(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    file = written(tmp_path, "def f(x): return np.sum(x**2)\ndef g(x): return 3*x\n")
    first = gradcli("check", f"{file}:f", X, "--grad", "g", *QUICK, "--json")
    again = gradcli(*first.json["command"][1:], "--json")
    assert first.json["command"][:3] == ["gradcli", "check", f"{file}:f"]
    assert again.json["points"][0]["gradient"] == first.json["points"][0]["gradient"]
    assert again.exit_status == first.exit_status == 1


@pytest.mark.slow
def test_standard_input_runs_python_only_when_allowed(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    file = written(tmp_path, "def f(x): return np.sum(x**2)\n")
    refused = gradcli("check", "-", "x=1", *QUICK, stdin=f"{file}:f\n")
    assert refused.exit_status == 2 and "--allow-python" in refused.stderr
    assert gradcli("check", "-", "x=1", "--allow-python", *QUICK, stdin=f"{file}:f\n").exit_status == 0
    line = json.dumps({"target": f"{file}:f", "at": {"x": 3.0}, "grad": "x"})
    assert gradcli("check", "-", "--allow-python", *QUICK, stdin=line).exit_status == 1


@pytest.mark.parametrize(
    "text", ['{"target": "x**2", "at": {"x": 1}, "grad": "FILE:g"}', '{"target": "x**2", "at": "FILE:p"}']
)
def test_standard_input_runs_no_python_by_the_back_door(gradcli: Callable[..., Any], tmp_path: Path, text: str) -> None:
    mark = tmp_path / "was-run"
    file = written(tmp_path, f"open({str(mark)!r}, 'w').close()\ndef g(x): return 2*x\np = {{'x': 1.0}}\n")
    ran = gradcli("check", "-", *QUICK, stdin=text.replace("FILE", file))
    assert ran.exit_status == 2
    assert not mark.exists()


@pytest.mark.slow
def test_a_file_with_the_name_of_a_module_of_python_hides_nothing(tmp_path: Path) -> None:
    (tmp_path / "numbers.py").write_text("SOFT = 0.5\n")
    (tmp_path / "losses.py").write_text("def f(x):\n    return x**2\n\ndef g(x):\n    return 2*x\n")
    argv = [sys.executable, "-m", "gradcli", "check", "losses.py:f", "x=1.5", "--grad", "g", "--modes", "reverse,fd"]
    ran = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.slow
def test_several_targets_get_the_worst_status(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    file = written(
        tmp_path, "def f(x): return np.sum(x**2)\ndef h(x): return np.abs(x[0] - 0.5)\ndef boom(x): raise ValueError\n"
    )
    argv = ("check", f"{file}:f", f"{file}:h", X, *QUICK)
    assert gradcli(*argv).exit_status == 3
    assert gradcli(*argv, f"{file}:boom").exit_status == 2


NOISY = """
    import ctypes, os, subprocess, sys
    print("Python at load")
    os.write(1, b"descriptor at load\\n")

    def noise(where):
        print("Python in", where)
        sys.__stdout__.write(f"original in {where}\\n")
        os.write(1, f"descriptor in {where}\\n".encode())
        ctypes.CDLL(None).puts(f"C in {where}".encode())
        subprocess.run(["echo", "child in", where])

    def f(x):
        noise("f")
        return np.sum(x**2)

    def g(x):
        noise("claim")
        return 2*x

    def point():
        noise("point")
        return np.array([1.0, 2.0])

    def boom(x):
        noise("f")
        raise ValueError("no")
"""
SOURCES = ("Python", "original", "descriptor", "C", "child")


def process(*argv: str) -> Any:
    """Run the program in a process of its own."""
    command = [sys.executable, "-m", "gradcli", *argv]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=os.environ)


RUNS = [
    (("check", "--grad", "g", "--modes", "forward,fd", "--json"), "gradcli.check/3"),
    (("grad", "--json"), "gradcli.grad/1"),
    (("compare-modes", "--modes", "forward,reverse", "--json"), "gradcli.compare-modes/4"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("words", "schema"), RUNS)
def test_standard_output_carries_the_result_and_nothing_else(tmp_path: Path, words: tuple, schema: str) -> None:
    file = written(tmp_path, NOISY)
    done = process(words[0], f"{file}:f", "--at", f"{file}:point", *words[1:])
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["schema"] == schema
    wheres = ["f", "point", *(["claim"] if "--grad" in words else [])]
    assert all(f"{source} in {where}" in done.stderr for source in SOURCES for where in wheres)
    assert "Python at load" in done.stderr and "descriptor at load" in done.stderr


def test_an_error_document_is_alone_on_standard_output(tmp_path: Path) -> None:
    done = process("check", f"{written(tmp_path, NOISY)}:boom", "x=1", "--modes", "fd", "--json")
    assert done.returncode == 2
    assert json.loads(done.stdout)["error"]["kind"] == "function"
    assert "C in f" in done.stderr
