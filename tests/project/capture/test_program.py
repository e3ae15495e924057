"""A program that runs under gradcli does what it does under python: its output, its status, its world."""

import json
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.conftest import Ran, process

FIT = """
import numpy as np
from scipy.optimize import minimize

def f(x):
    return np.sum(x**4)

def g(x):
    return {factor} * x**3

if __name__ == "__main__":
    print(minimize(f, [1.0, 2.0], jac=g).success)
    {then}
"""
WORLD = """
import os, sys
import __main__
print(sys.argv, __name__, __file__, __spec__, __package__, type(__loader__).__name__)
print(sys.path[0], os.getcwd(), __main__.__file__ == __file__, "gradcli" in sys.argv[0])
print(sorted(k for k in globals() if not k.startswith("__")), __builtins__ is not None, __doc__)
"""
PROGRAMS = {
    "world": WORLD,
    "exit with a number": "import sys; sys.exit(7)",
    "exit with a large number": "import sys; sys.exit(256 + 5)",
    "exit with text": "import sys; sys.exit('it is over')",
    "exit with nothing": "import sys; print('x', end=''); sys.exit()",
    "exception": "def deep():\n    raise ValueError('wrong \\u00e9')\n\ntry:\n    1 / 0\nexcept ZeroDivisionError:\n    deep()\n",
    "syntax error": "x = (1,\nprint(x\n",
    "error in a group": "raise ExceptionGroup('many', [ValueError(1), KeyError(2)])",
    "own hook": "import sys\nsys.excepthook = lambda *a: print('hooked', a[0].__name__)\nraise KeyError('x')\n",
    "os._exit": "import os, sys\nprint('before')\nsys.stdout.flush()\nos._exit(9)\n",
    "exit handlers": "import atexit\natexit.register(print, 'first registered')\natexit.register(print, 'last registered')\n",
    "threads": "import threading, time\nthreading.Thread(target=lambda: (time.sleep(0.2), print('thread'))).start()\nprint('main')\n",
    "executor": "from concurrent.futures import ThreadPoolExecutor\np = ThreadPoolExecutor(2)\nprint(p.submit(pow, 2, 5).result())\n",
    "bytes": "import sys\nsys.stdout.buffer.write(bytes(range(256)))\n",
    "standard input": "import sys\nprint(sys.stdin.read()[::-1])\n",
    "fork": "import os\npid = os.fork()\nprint('child' if pid == 0 else os.waitpid(pid, 0)[1], flush=True)\n",
    "terminated": "import os, signal\nos.kill(os.getpid(), signal.SIGTERM)\n",
    "imports beside it": "import helper\nprint(helper.__name__, helper.VALUE)\n",
    "pickle of its own class": "import pickle\nclass A: pass\nprint(type(pickle.loads(pickle.dumps(A()))).__module__)\n",
    "process executor": (
        "from concurrent.futures import ProcessPoolExecutor\np = ProcessPoolExecutor(1)\nprint(p.submit(pow, 2, 5).result())\n"
    ),
    "work that is left to an executor": (
        "import time\nfrom concurrent.futures import ThreadPoolExecutor\np = ThreadPoolExecutor(1)\n"
        "for n in range(3): p.submit(lambda n=n: (time.sleep(0.1), print(n, flush=True)))\n"
    ),
    "pickled functions of scipy": (
        "import pickle\nfrom scipy.optimize import minimize\nprint(pickle.loads(pickle.dumps(minimize)) is minimize)\n"
    ),
    "hook that raises": "import sys\ndef hook(*a): raise KeyError('hook')\nsys.excepthook = hook\nraise ValueError('first')\n",
    "errors of numpy": (
        "import numpy as np, warnings\nfrom scipy.optimize import minimize\nwarnings.simplefilter('error')\nnp.seterr(all='raise')\n"
        "print(minimize(lambda x: float(x[0]), [1e200], jac=lambda x: np.array([1.0]), options={'maxiter': 1}).nit >= 0)\n"
    ),
    "spawned pool": (
        "import multiprocessing as mp\ndef square(x): return x * x\n"
        "if __name__ == '__main__':\n    with mp.get_context('spawn').Pool(1) as p: print(p.map(square, [1, 2, 3]))\n"
    ),
}  # fmt: skip
NEW = {"world", "exit handlers", "bytes", "spawned pool"}  # programs that gradcli runs in a new Python, too


def anew(folder: Path, *words: str) -> Ran:
    """Run a new Python."""
    done = subprocess.run(
        [sys.executable, *words], cwd=folder, capture_output=True, text=True, input="some input", errors="replace"
    )
    return Ran(done.returncode, done.stdout, done.stderr)


def both(folder: Path, *words: str, new: bool = False) -> tuple[Ran, Ran]:
    """Run a program by python, and by gradcli: in a copy of this process unless `new`."""
    watched = (
        anew(folder, "-m", "gradcli", "run", *words) if new else process("run", *words, cwd=folder, stdin="some input")
    )
    return anew(folder, *words), watched


def without_report(text: str) -> str:
    """Return standard error up to the report, if the program itself used no gradient or one that passes."""
    return text.partition("no gradient was used as gradcli run watches it")[0].partition("  verdict  defined at")[0]


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_is_undisturbed(name: str, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(PROGRAMS[name], encoding="utf-8")
    (tmp_path / "helper.py").write_text("VALUE = 3\n")
    plain, watched = both(tmp_path, "script.py", "-x", "--json", "a b", new=name in NEW)
    assert (watched.stdout, watched.exit_status) == (plain.stdout, plain.exit_status)
    assert without_report(watched.stderr) == plain.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("missing.py",), ("-m", "missing"), ("-m", "package"), ("-m", "package.part", "--out", "x"), ("-m", "package.nothing"),
        ("folder", "y"), ("archive.zip",), ("./deep/script.py",), ("-m", "empty"),
        ("-m", "package.py"), ("-m", ".package"),
    ],
)  # fmt: skip
def test_a_program_is_found_as_python_finds_it(words: tuple[str, ...], tmp_path: Path) -> None:
    for name in ("package", "folder", "deep", "empty"):
        (tmp_path / name).mkdir()
    (tmp_path / "package" / "__init__.py").write_text("print('package')\n")
    (tmp_path / "empty" / "__init__.py").write_text("")
    (tmp_path / "package" / "__main__.py").write_text(
        "import sys\nfrom . import part\nprint(sys.argv, __name__, __package__, __spec__.name)\n"
    )
    (tmp_path / "package" / "part.py").write_text("import sys\nprint(sys.argv, __name__, __package__, sys.path[0])\n")
    (tmp_path / "folder" / "__main__.py").write_text("import sys\nprint(sys.argv, __name__, sys.path[0])\n")
    (tmp_path / "deep" / "script.py").write_text(WORLD)
    with zipfile.ZipFile(tmp_path / "archive.zip", "w") as archive:
        archive.writestr("__main__.py", "import sys\nprint(sys.argv, __name__)\n")
    plain, watched = both(tmp_path, *words)
    assert (watched.stdout, watched.exit_status) == (plain.stdout, plain.exit_status)
    assert without_report(watched.stderr) == plain.stderr


def run(folder: Path, *options: str, factor: int = 4, then: str = "pass", new: bool = False) -> Ran:
    (folder / "fit.py").write_text(FIT.format(factor=factor, then=then))
    words = ("run", *options, "fit.py")
    return anew(folder, "-m", "gradcli", *words) if new else process(*words, cwd=folder)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("factor", "then", "status"),
    [
        (4, "pass", 0), (5, "pass", 1), (4, "raise SystemExit(6)", 6), (5, "raise SystemExit(6)", 6),
        (5, "import os; os._exit(0)", 1), (5, "raise ValueError('late')", 1), (5, "import os; os._exit(4)", 4),
    ],
)  # fmt: skip
def test_the_status_is_the_programs_and_else_that_of_the_worst_check(
    factor: int, then: str, status: int, tmp_path: Path
) -> None:
    done = run(tmp_path, "--out", "report.json", factor=factor, then=then, new="Error" in then or "(0)" in then)
    report = json.loads((tmp_path / "report.json").read_text())
    assert (done.exit_status, report["exit_status"], done.stdout) == (status, status, "True\n")
    assert (report["program"]["status"] == 0) == ("6" not in then and "late" not in then and "(4)" not in then)
    (gradient,) = report["gradients"]
    assert (gradient["name"], gradient["file"], gradient["line"]) == ("g", "fit.py", 8)
    assert gradient["verdict"] == ("pass" if factor == 4 else "fail")
    assert ("PASS" if factor == 4 else "FAIL") in done.stderr
    if "late" in then:
        assert "ValueError: late" in done.stderr
        assert "gradcli/" not in done.stderr


@pytest.mark.slow
def test_an_interrupted_program_is_reported_and_ends_by_the_signal(tmp_path: Path) -> None:
    done = run(tmp_path, then="import os, signal; os.kill(os.getpid(), signal.SIGINT); import time; time.sleep(9)")
    assert done.exit_status == -signal.SIGINT
    assert "KeyboardInterrupt" in done.stderr
    assert "PASS" in done.stderr


@pytest.mark.slow
def test_a_traceback_through_scipy_holds_no_line_of_gradcli(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(
        "from scipy.optimize import minimize\n\ndef f(x):\n    raise RuntimeError('inside')\n\nminimize(f, [1.0], jac=lambda x: x)\n"
    )
    plain, watched = both(tmp_path, "script.py")
    assert without_report(watched.stderr) == plain.stderr


def test_options_of_gradcli_end_where_the_program_begins(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("import sys\nprint(sys.argv[1:])\n")
    done = process("run", "--keep", "2", "-q", "script.py", "--keep", "3", "-m", "x", cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("['--keep', '3', '-m', 'x']\n", "")


@pytest.mark.slow
def test_a_random_seed_is_in_the_command_and_in_the_text(tmp_path: Path) -> None:
    said = run(tmp_path, "--seed", "random", "--out", "r.json").stderr
    document = json.loads((tmp_path / "r.json").read_text())
    seed = str(document["seed"])
    assert document["command"] == ["gradcli", "run", "--seed", seed, "fit.py"]
    assert f"\nThe seed was drawn: --seed {seed} repeats this.\n" in said
    assert "The seed" not in run(tmp_path, "--seed", seed).stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "SCRIPT"), (["--json", "fit.py"], "write --out report.json"), (["--keep", "0", "fit.py"], "--keep"),
        (["--out", "report.xyz", "fit.py"], "no ending this command can write"), (["--keep-bytes", "many", "fit.py"], "256MB"),
        (["--save", "calls.txt", "fit.py"], ".npz"), (["--write-suite", "there.toml", "fit.py"], "is there already"),
    ],
)  # fmt: skip
def test_options_are_refused_before_the_program_runs(words: list[str], says: str, tmp_path: Path) -> None:
    (tmp_path / "fit.py").write_text("print('ran')\n")
    (tmp_path / "there.toml").write_text("")
    done = process("run", *words, cwd=tmp_path)
    assert (done.exit_status, done.stdout) == (2, "")
    assert says in done.stderr


@pytest.mark.slow
def test_what_a_function_prints_when_it_is_called_again_is_not_on_standard_output(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(
        "import os\nfrom scipy.optimize import minimize\n\n"
        "def f(x):\n    print('value')\n    os.write(1, b'raw\\n')\n    return float(x @ x)\n\n"
        "minimize(f, [1.0, 2.0], jac=lambda x: 2 * x)\n"
    )
    plain, watched = both(tmp_path, "script.py")
    assert sorted(watched.stdout.split()) == sorted(plain.stdout.split())
    assert "PASS" in watched.stderr


@pytest.mark.slow
@pytest.mark.parametrize("then", ["os._exit(0)", "sys.exit(7)", "input()"])
def test_a_function_that_ends_the_process_when_it_is_called_again(then: str, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(
        "import os, sys\nfrom scipy.optimize import minimize\n\nended = False\n\n"
        f"def f(x):\n    if ended:\n        {then}\n    return float(x @ x)\n\n"
        "minimize(f, [1.0, 2.0], jac=lambda x: 3 * x)\nended = None\nglobals()['ended'] = True\nprint('done')\n"
    )
    done = process("run", "--out", "report.json", "script.py", cwd=tmp_path)
    assert done.stdout == "done\n"
    assert done.exit_status == 1  # what it reads is put back, so that it is called as it was
    assert json.loads((tmp_path / "report.json").read_text())["gradients"][0]["verdict"] == "fail"


@pytest.mark.slow
def test_exit_handlers_see_the_random_numbers_of_the_program(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(
        "import atexit, random\nimport numpy as np\nfrom scipy.optimize import minimize\nrandom.seed(1); np.random.seed(2)\n"
        "atexit.register(lambda: print(random.random(), np.random.random()))\n"
        "minimize(lambda x: float(x @ x), [1.0], jac=lambda x: 2 * x)\n"
    )
    plain, watched = both(tmp_path, "script.py")
    assert watched.stdout == plain.stdout


def test_a_time_limit_ends_a_check(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(
        "import time\nfrom scipy.optimize import minimize\n\nclass Slow:\n    __slots__ = ()\n\ncalls = []\n\n"
        "def f(x):\n    time.sleep(0.02 if time.monotonic() < until else 60)\n    return float(x @ x)\n\n"
        "until = time.monotonic() + 0.5\nminimize(f, [1.0, 2.0], jac=lambda x: 2 * x)\n"
        "while time.monotonic() < until: pass\n"
    )
    done = process("run", "--timeout", "1s", "script.py", cwd=tmp_path)
    assert done.exit_status == 3
    assert "the time limit was reached" in " ".join(done.stderr.split())


@pytest.mark.slow
def test_gradients_that_nothing_showed_when_they_ran_are_counted(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text("def f(x): return x * x\ndef f_grad(x): return 2 * x\n")
    (tmp_path / "main.py").write_text("import model\nx = 3.0\nfor _ in range(9): x -= 0.1 * model.f_grad(x)\n")
    (tmp_path / "bare.py").write_text("print(1)\n")
    ran, bare = (anew(tmp_path, "-m", "gradcli", "run", name) for name in ("main.py", "bare.py"))
    assert "its files have 1 hand-written gradient: gradcli find lists them" in " ".join(ran.stderr.split())
    assert bare.stderr == "no gradient was used as gradcli run watches it\n"


IN_SRC = {
    "src/mine/__init__.py": "",
    "src/mine/losses.py": "import numpy as np\nfrom extra import SCALE\n\n\ndef f(x):\n    return np.sum(x**4) * SCALE\n\n\n"
    "def f_grad(x):\n    return 4 * x**3 * SCALE\n\n\ndef h(x):\n    return x * x\n\n\ndef h_grad(x):\n    return 2 * x\n",
    "lib/extra.py": "SCALE = 1.0\n",
    "pyproject.toml": '[tool.gradcli]\npaths = ["src", "lib"]\n',
    "scripts/fit.py": "from scipy.optimize import minimize\nfrom mine.losses import f, f_grad\n\nminimize(f, [1.0, 2.0], jac=f_grad)\n",
}


@pytest.mark.slow
def test_modules_come_from_where_check_has_them_and_what_was_not_watched_is_named(tmp_path: Path) -> None:
    for name, text in IN_SRC.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    out = ("--out", "r.json", "--out", "r.xml", "--out", "r.sarif")
    done = anew(tmp_path, "-m", "gradcli", "run", *out, "scripts/fit.py")
    report = json.loads((tmp_path / "r.json").read_text())
    assert done.exit_status == 0, done.stderr
    assert [gradient["name"] for gradient in report["gradients"]] == ["f_grad"]
    assert report["not_watched"] == ["h_grad, src/mine/losses.py:17"]
    assert "Not watched: h_grad, src/mine/losses.py:17." in done.stderr
    assert 'name="f_grad, src/mine/losses.py:9"' in (tmp_path / "r.xml").read_text()
    assert json.loads((tmp_path / "r.sarif").read_text())["runs"][0]["results"] == []


def test_a_suite_that_is_there_is_not_hidden(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.gradcli]\n")
    done = run(tmp_path, "--write-suite", "gradcli.toml")
    assert (done.exit_status, done.stdout) == (2, "") and "would hide the suite in pyproject.toml" in done.stderr
