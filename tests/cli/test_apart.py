"""A Python target that ends its process, in any way and anywhere, is an error of that target, and the others go on."""

import fcntl
import json
import os
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gradcli.process.process import Process
from tests.cli.reading import line_of
from tests.conftest import HANG, ends, started
from tests.rows import for_rows
from tests.targets.test_loading import written

QUICK = ("--modes", "forward,reverse,fd")
X = "x=[0.5, 2]"
GOOD = "def f(x): return np.sum(x**2)\ndef g(x): return 2*x\ndef bad(x): return 3*x\n"
IMPORTS = "import ctypes, os, signal, subprocess, sys, threading, time\n"
TOO_DEEP = "sys.setrecursionlimit(10**9); deep = lambda x: sorted([1, 2], key=deep); deep(1)"
# fmt: off
ENDINGS = {
    "os._exit(0)":                                                         "ended with exit status 0",
    "os._exit(1)":                                                         "ended with exit status 1",
    "os._exit(130)":                                                       "ended with exit status 130",
    "os.abort()":                                                          "ended by SIGABRT",
    "ctypes.string_at(0)":                                                 "ended by SIGSEGV",
    "os.kill(os.getpid(), signal.SIGKILL)":                                "ended by SIGKILL",
    "os.kill(os.getpid(), signal.SIGTERM)":                                "ended by SIGTERM",
    "os.execv(sys.executable, [sys.executable, '-c', ''])":                "ended with exit status 0",
    "threading.Thread(target=os._exit, args=(0,)).start(); time.sleep(99)": "ended with exit status 0",
    TOO_DEEP:                                                              "ended by SIGSEGV",
}
PLACES = {
    "in f":         ("def f(x):\n    {0}\n    return np.sum(x**2)\ndef g(x): return 2*x\n",                               5),
    "in the claim": ("def g(x):\n    {0}\n    return 2*x\ndef f(x): return np.sum(x**2)\n",                               5),
    "at import":    ("def f(x): return np.sum(x**2)\ndef g(x): return 2*x\nif True:\n    {0}\n",                          7),
    "when moved":   ("def g(x): return 2*x\ndef f(x):\n    if type(x) is np.ndarray and x[0] != 0.5:\n        {0}\n    return np.sum(x**2)\n", 7),
    "third call":   ("calls = []\ndef g(x): return 2*x\ndef f(x):\n    calls.append(x)\n    if len(calls) == 3:\n        {0}\n    return np.sum(x**2)\n", 9),
}
# fmt: on
KNOWN_LINE = ("os._exit", "os.abort", "ctypes", "sys.setrecursionlimit")


@pytest.fixture(autouse=True)
def _importable_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))


def target(folder: Path, code: str, name: str = "losses.py") -> str:
    """Return a target whose file holds the code after the imports."""
    return f"{written(folder, IMPORTS + code, name)}:f"


@pytest.mark.parametrize(
    ("ending", "place"),
    [(ending, place) for place in PLACES for ending in (ENDINGS if place == "in f" else ("os._exit(0)", "os.abort()"))],
)
def test_a_process_that_ends_is_an_error_document(
    process: Callable[..., Any], tmp_path: Path, ending: str, place: str
) -> None:
    code, line = PLACES[place]
    ran = process("check", target(tmp_path, code.format(ending)), X, "--grad", "g", *QUICK, "--json")
    error = ran.json["error"]
    assert (ran.exit_status, ran.json["schema"], error["kind"]) == (2, "gradcli.error/1", "ended the process")
    assert ENDINGS[ending] in error["message"] and "losses.py:f" in error["message"]
    assert error["hint"]
    if ending.startswith(KNOWN_LINE):
        assert f"losses.py:{line - 1} " in error["where"] and ending in error["where"]


@pytest.mark.parametrize("ending", ["os._exit(0)", "os.abort()"])
def test_on_text_output_it_is_one_error_on_standard_error(
    process: Callable[..., Any], tmp_path: Path, ending: str
) -> None:
    ran = process("check", target(tmp_path, PLACES["in f"][0].format(ending)), X, *QUICK)
    assert (ran.exit_status, ran.stdout) == (2, "")
    assert ran.stderr.startswith("error: the process that ran ") and ENDINGS[ending] in ran.stderr
    assert ran.stderr.count("error:") == 1 and "Traceback" not in ran.stderr


# fmt: off
COMMANDS = [
    ("check",),
    ("check", "--timeout", "200s"),
    ("compare-modes",),
    ("compare-modes", "--timeout", "200s"),
    ("sweep",),
    ("trace",),
    ("grad",),
    ("derive",),
]
# fmt: on


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_says_so(process: Callable[..., Any], tmp_path: Path, command: tuple) -> None:
    file = target(tmp_path, PLACES["in f"][0].format("os._exit(0)"))
    ran = process(command[0], file, X, *command[1:], "--json")
    assert (ran.exit_status, ran.json["error"]["kind"]) == (2, "ended the process")
    assert "losses.py:f ended" in ran.json["error"]["message"]


@pytest.mark.parametrize("argv", [("check",), ("ops",), ("check", "x**2", "x=1", "--grad"), ("check", "x**2", "--at")])
def test_a_module_that_is_only_imported_may_end_it_too(
    process: Callable[..., Any], tmp_path: Path, argv: tuple
) -> None:
    file = target(tmp_path, "os._exit(0)\nf = None\n")
    name = file.removesuffix(":f") if argv == ("check",) else file
    ran = process(*argv, name, "--json")
    assert (ran.exit_status, ran.json["error"]["kind"]) == (2, "ended the process")


def test_a_zero_argument_factory_may_end_it_too(process: Callable[..., Any], tmp_path: Path) -> None:
    ran = process("grad", target(tmp_path, "def f(): os._exit(0)\n") + "()", X, "--json")
    assert (ran.exit_status, ran.json["error"]["kind"]) == (2, "ended the process")


# fmt: off
EXITS = {
    "in f":         "def f(x):\n    sys.exit(0)\ndef g(x): return 2*x\n",
    "in the claim": "def f(x): return np.sum(x**2)\ndef g(x):\n    sys.exit(0)\n",
    "at import":    "sys.exit(0)\ndef f(x): return x\n",
}
STANDS = {
    "atexit, sys.exit":  "import atexit\natexit.register(sys.exit, 0)\n",
    "atexit, os._exit":  "import atexit\natexit.register(os._exit, 0)\n",
    "sys.exit, thread":  "threading.Thread(target=sys.exit, args=(0,)).start()\n",
    "a thread that stays": "threading.Thread(target=time.sleep, args=(10**6,)).start()\n",
}
# fmt: on


@pytest.mark.parametrize("place", EXITS)
def test_sys_exit_is_never_status_0(process: Callable[..., Any], tmp_path: Path, place: str) -> None:
    ran = process("check", target(tmp_path, EXITS[place]), X, "--grad", "g", *QUICK, "--json")
    assert (ran.exit_status, ran.json["schema"]) == (2, "gradcli.error/1")
    assert "sys.exit(0)" in ran.json["error"]["message"]


@pytest.mark.parametrize("what", STANDS)
@pytest.mark.parametrize(("claim", "status"), [("g", 0), ("bad", 1)])
def test_what_does_not_end_the_process_changes_no_verdict(
    process: Callable[..., Any], tmp_path: Path, what: str, claim: str, status: int
) -> None:
    ran = process("check", target(tmp_path, STANDS[what] + GOOD), X, "--grad", claim, *QUICK, "--json")
    assert (ran.exit_status, ran.json["exit_status"]) == (status, status)


def test_a_copy_that_goes_on_after_a_fork_says_nothing(process: Callable[..., Any], tmp_path: Path) -> None:
    code = "os.fork()\n" + GOOD
    ran = process("check", target(tmp_path, code), X, "--grad", "g", *QUICK, "--json")
    assert (ran.exit_status, ran.json["verdict"]) == (0, "pass")


def test_a_copy_that_is_made_while_sympy_works_takes_no_answer(process: Callable[..., Any], tmp_path: Path) -> None:
    code = """
calls = []
def f(x):
    calls.append(1)
    if len(calls) == 9 and os.fork():
        time.sleep(1)  # so that the copy is the first to ask for the answer
    return np.sum(x**2)
"""
    ran = process("check", target(tmp_path, code), X, "--modes", "symbolic,fd,reverse", "--json")
    assert (ran.exit_status, ran.json["verdict"]) == (0, "pass")
    assert ran.json["points"][0]["modes"]["symbolic"]["status"] == "ok"


# Several targets.


def test_the_targets_that_remain_are_checked(process: Callable[..., Any], tmp_path: Path) -> None:
    codes = (PLACES["in f"][0].format("os._exit(0)"), GOOD, PLACES["in f"][0].format("os.abort()"), GOOD)
    targets = [target(tmp_path, code, f"t{k}.py") for k, code in enumerate(codes)]
    out = tmp_path / "all.ndjson"
    out.write_text("from an earlier run\n")
    ran = process("check", *targets, "x**2", X, *QUICK, "--format", "ndjson", "--out", str(out))
    documents = [json.loads(line) for line in ran.stdout.splitlines()]
    assert ran.exit_status == 2
    assert [document.get("verdict") for document in documents] == [None, "pass", None, "pass", "pass"]
    assert [document["error"]["message"].split(" ended ")[0] for document in (documents[0],)] == [
        f"the process that ran {targets[0]}"
    ]
    assert "SIGABRT" in documents[2]["error"]["message"]
    assert out.read_text() == ran.stdout


def test_a_wrong_gradient_before_it_is_still_status_1(process: Callable[..., Any], tmp_path: Path) -> None:
    bad = target(tmp_path, GOOD.replace("bad", "h"), "a.py")
    ends = target(tmp_path, PLACES["in f"][0].format("os._exit(0)"), "b.py")
    ran = process("check", bad, ends, X, "--grad", "x=3*x", *QUICK, "--format", "ndjson")
    assert ran.exit_status == 1 and len(ran.stdout.splitlines()) == 2


@pytest.mark.slow
def test_output_and_errors_come_in_order(process: Callable[..., Any], tmp_path: Path) -> None:
    targets = [
        target(tmp_path, PLACES["in f"][0].format("os._exit(0)") if k % 2 else GOOD, f"t{k}.py") for k in range(4)
    ]
    done = process("check", *targets, X, *QUICK, together=True)
    said = [line[:5] for line in done.stdout.splitlines() if line.startswith(("PASS", "error"))]
    assert said == ["PASS ", "error", "PASS ", "error"]


def test_lines_of_standard_input_go_on_after_it(process: Callable[..., Any], tmp_path: Path) -> None:
    ends = target(tmp_path, PLACES["in f"][0].format("os._exit(0)"), "a.py")
    good = target(tmp_path, GOOD, "b.py")
    lines = f'# first\n{ends}\n\nx**2\n{{"target": "{ends}"}}\n{good}\nsine(x)\n{ends}'
    ran = process("check", "-", "--allow-python", X, *QUICK, "--format", "ndjson", stdin=lines)
    documents = [json.loads(line) for line in ran.stdout.splitlines()]
    assert [document["line"] for document in documents] == [2, 4, 5, 6, 7, 8]
    kinds = [document.get("error", document).get("kind", document.get("verdict")) for document in documents]
    assert kinds == ["ended the process", "pass", "ended the process", "pass", "expression", "ended the process"]
    assert ran.exit_status == 2


def test_in_text_the_line_is_named(process: Callable[..., Any], tmp_path: Path) -> None:
    ends = target(tmp_path, PLACES["in f"][0].format("os._exit(0)"))
    ran = process("check", "-", "--allow-python", X, *QUICK, stdin=f"x**2\n{ends}\n")
    assert ran.stderr.startswith("line 2: error: the process that ran ") and ran.stdout.startswith("PASS")


@pytest.mark.slow
def test_time_that_is_up_at_one_line_leaves_the_next_its_own(process: Callable[..., Any], tmp_path: Path) -> None:
    sleeps = target(tmp_path, "def f(x): time.sleep(10**6)\n", "a.py")
    lines = f"x**2\n{sleeps}\nx**3\n{sleeps}\n"
    ran = process("check", "-", "--allow-python", X, *QUICK, "--timeout", "2s", "--json", stdin=lines)
    documents = [check["document"] for check in ran.json["checks"]]
    assert [d["line"] for d in documents] == [1, 2, 3, 4]
    assert [d["verdict"] for d in documents] == ["pass", "inconclusive", "pass", "inconclusive"]
    assert [d["points"][0]["findings"][0]["kind"] for d in documents[1::2]] == ["timeout", "timeout"]


# Files, streams, and processes that stay.


def test_files_are_written(process: Callable[..., Any], tmp_path: Path) -> None:
    files = [tmp_path / f"r.{ending}" for ending in ("json", "md", "txt", "csv")]
    words = [word for file in files for word in ("--out", file.name)]
    code = GOOD + "os.chdir('/')\n"
    ran = process("check", target(tmp_path, code), X, *QUICK, "-q", *words, cwd=tmp_path)
    assert (ran.exit_status, ran.stdout) == (0, "")
    assert all(file.read_text() for file in files)


def test_a_grandchild_that_keeps_everything_open_is_not_waited_for(process: Callable[..., Any], tmp_path: Path) -> None:
    code = f"""
def f(x):
    if not os.path.exists({str(tmp_path / "pid")!r}):
        pid = os.fork()
        if pid == 0:
            os.setsid()
            time.sleep(10**6)
        open({str(tmp_path / "pid")!r}, "w").write(str(pid))
    return np.sum(x**2)
"""
    for ending, status in (("", 0), ("os._exit(0)\n", 2)):
        (tmp_path / "pid").unlink(missing_ok=True)
        ran = process(
            "check",
            target(tmp_path, code.replace("    return", f"    {ending}    return") if ending else code),
            X,
            *QUICK,
        )
        pid = int((tmp_path / "pid").read_text())
        os.kill(pid, signal.SIGKILL)  # it was there
        assert ran.exit_status == status


def test_time_that_is_up_ends_descendants_whose_parent_has_ended(process: Callable[..., Any], tmp_path: Path) -> None:
    code = f"""
def f(x):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            open({str(tmp_path / "pid")!r}, "w").write(str(os.getpid()))
            time.sleep(10**6)
        os._exit(0)
    os.wait()
    time.sleep(10**6)
"""
    ran = process("check", target(tmp_path, code), X, *QUICK, "--timeout", "2s", "--json")
    assert (ran.exit_status, ran.json["verdict"]) == (3, "inconclusive")
    assert ends(int((tmp_path / "pid").read_text()))


def test_what_the_target_prints_never_reaches_standard_output(process: Callable[..., Any], tmp_path: Path) -> None:
    code = """
print("at load")
os.system("echo from a child")
def f(x):
    os.write(1, b"from the descriptor\\n")
    ctypes.CDLL(None).puts(b"from C")
    ctypes.CDLL(None).fflush(None)
    sys.__stdout__.write("from the original stream\\n")
    sys.__stdout__.flush()
    return np.sum(x**2)
"""
    ran = process("check", target(tmp_path, code), X, *QUICK, "--json")
    assert ran.json["verdict"] == "pass"
    assert all(f"from {who}" in ran.stderr for who in ("a child", "the descriptor", "C", "the original stream"))


def test_standard_output_that_the_target_closes_is_still_written(process: Callable[..., Any], tmp_path: Path) -> None:
    ran = process("check", target(tmp_path, "os.close(1)\nos.close(0)\n" + GOOD), X, *QUICK, "--json")
    assert (ran.exit_status, ran.json["verdict"]) == (0, "pass")


@pytest.mark.slow
@pytest.mark.parametrize("closing", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_streams_that_are_closed_from_the_start_do_no_harm(tmp_path: Path, closing: str) -> None:
    words = f"{sys.executable} -m gradcli check {target(tmp_path, GOOD)} '{X}' --grad bad --modes forward,fd {closing}"
    assert subprocess.run(["bash", "-c", words], capture_output=True, timeout=HANG, check=False).returncode == 1


@pytest.mark.slow
def test_a_closed_pipe_ends_quietly(tmp_path: Path) -> None:
    targets = [target(tmp_path, GOOD, f"t{k}.py") for k in range(3)]
    with started("check", *targets, X, *QUICK) as running:
        running.stdout.readline()
        running.stdout.close()
        assert running.wait(HANG) in (0, -signal.SIGPIPE)
        assert running.stderr.read() == ""


@pytest.mark.slow
def test_a_full_device_is_one_error_with_status_2(tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    with Path("/dev/full").open("w") as full:
        argv = [sys.executable, "-m", "gradcli", "check", target(tmp_path, GOOD), X, *QUICK]
        done = subprocess.run(argv, stdout=full, stderr=subprocess.PIPE, text=True, timeout=HANG, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("error: a stream or file cannot be used: No space left")


@pytest.mark.slow
def test_a_debugger_reads_standard_input_and_writes_to_standard_error(tmp_path: Path) -> None:
    code = "seen = []\ndef f(x):\n    if not seen:\n        seen.append(1)\n        breakpoint()\n    return np.sum(x**2)\n"
    with started("check", target(tmp_path, code), X, *QUICK, "--json") as running:
        out, err = running.communicate("p 'the ' + 'debugger'\nc\n", timeout=HANG)
    assert json.loads(out)["verdict"] == "pass"
    assert "'the debugger'" in err


def test_the_child_has_the_terminal(tmp_path: Path) -> None:
    ours, its = os.openpty()
    argv = [sys.executable, "-m", "gradcli", "grad", target(tmp_path, GOOD), X]
    environ = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "COLUMNS")} | {
        "TERM": "xterm",
        "FORCE_COLOR": "",
    }
    code = "import os, sys\nprint(os.isatty(0), os.get_terminal_size(2).columns > 0, file=sys.stderr)\n"
    argv[4] = target(tmp_path, code + GOOD)
    subprocess.run(["stty", "cols", "77"], stdin=its, check=True)
    done = subprocess.run(argv, stdin=its, stdout=its, stderr=its, timeout=HANG, check=False, env=environ)
    os.close(its)
    said = os.read(ours, 1 << 16).decode()
    os.close(ours)
    assert done.returncode == 0 and "True True" in said


# Signals.

WAITS = """
def f(x):
    open({ready!r}, "w").write(f"{{os.getpid()}} {{os.getppid()}}")
    time.sleep(10**6)
"""
SWALLOWS = """
seen = []
def f(x):
    while True:
        try:
            open({ready!r} + str(len(seen)), "w").write("1")
            time.sleep(10**6)
        except KeyboardInterrupt:
            seen.append(1)
"""


def there(path: Path) -> str:
    """Wait until a file has a content, and return it."""
    until = time.monotonic() + HANG
    while not (path.exists() and path.read_text()):
        assert time.monotonic() < until
        time.sleep(0.01)
    return path.read_text()


@pytest.mark.slow
@pytest.mark.parametrize("to_all", [True, False])
@pytest.mark.parametrize("form", ["text", "json"])
def test_ctrl_c_ends_with_130(tmp_path: Path, to_all: bool, form: str) -> None:
    ready = tmp_path / "ready"
    with started("check", target(tmp_path, WAITS.format(ready=str(ready))), X, "--format", form) as running:
        child = int(there(ready).split()[0])
        (os.killpg if to_all else os.kill)(running.pid, signal.SIGINT)
        out, err = running.communicate(timeout=HANG)
        assert (running.returncode, out, err) == (130, "", "interrupted\n")
        assert ends(child)


@pytest.mark.slow
def test_code_that_swallows_an_interrupt_is_ended(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    with started("check", target(tmp_path, SWALLOWS.format(ready=str(ready))), X) as running:
        there(Path(f"{ready}0"))
        os.kill(running.pid, signal.SIGINT)
        assert running.communicate(timeout=HANG) == ("", "interrupted\n")
        assert running.returncode == 130


@pytest.mark.slow
def test_at_a_terminal_code_that_swallows_ctrl_c_is_ended_by_the_second(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    ours, its = os.openpty()
    running = subprocess.Popen(
        [sys.executable, "-m", "gradcli", "check", target(tmp_path, SWALLOWS.format(ready=str(ready))), X],
        stdin=its, stdout=its, stderr=its, start_new_session=True, preexec_fn=lambda: fcntl.ioctl(its, termios.TIOCSCTTY, 0),
    )  # fmt: skip
    try:
        there(Path(f"{ready}0"))
        os.write(ours, b"\x03")
        there(Path(f"{ready}1"))  # as a debugger takes it, which is left to go on
        with pytest.raises(subprocess.TimeoutExpired):
            running.wait(5.5)
        os.write(ours, b"\x03")
        assert running.wait(HANG) == 130
    finally:
        running.kill()
        running.wait()
        os.close(its)
        os.close(ours)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_a_child_does_not_outlive_the_program(tmp_path: Path, number: int) -> None:
    ready = tmp_path / "ready"
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)  # the tests may run where it is ignored, as under nohup
    with started("check", target(tmp_path, WAITS.format(ready=str(ready))), X) as running:
        child, parent = map(int, there(ready).split())
        assert parent == running.pid
        os.kill(running.pid, number)
        assert running.wait(HANG) == -number
        assert ends(child)


# Where a child is, and how it is started.

# fmt: off
NAMES = [
    (("check", "x**2", "x=1"),                         False),
    (("check", "sum(tanh(W@x)**2)", "--shapes", "W: 3 4; x: 4"), False),
    (("check", "-"),                                   False),
    (("check", "-", "--allow-python"),                 True),
    (("check", "losses.py:f"),                         True),
    (("check", "losses.py::f"),                        True),
    (("check", "losses.py"),                           True),
    (("check", "losses:f"),                            True),
    (("check", "a.b:C.f"),                             True),
    (("check", "größe:f"),                             True),
    (("check", "losses.py:make()"),                    True),
    (("check", "x**2", "--grad", "losses.py:g"),       True),
    (("check", "x**2", "--at=losses.py:point"),        True),
    (("check", "x**2", "--timeout=3s"),                True),
    (("ops", "rules.py:softplus"),                     True),
]
# fmt: on


@for_rows(("argv", "expected"), NAMES)
def test_a_child_is_started_where_python_code_may_run(argv: tuple, expected: bool) -> None:
    assert line_of(*argv).needs_child is expected


def test_the_supervisor_imports_only_the_standard_library() -> None:
    code = "import sys, gradcli.__main__, gradcli.process.process; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=HANG, check=True)
    loaded = {name.split(".")[0] for name in done.stdout.split()} - set(sys.stdlib_module_names) - {"__main__"}
    ours = {name for name in done.stdout.split() if name.startswith("gradcli")}
    assert ours == {
        "gradcli",
        "gradcli.process",
        "gradcli.process.start",
        "gradcli.process.process",
        "gradcli.__main__",
        "gradcli.process.relay",
    }
    assert {name for name in loaded if not name.startswith("_")} <= {"gradcli", "sitecustomize", "usercustomize"}


@pytest.mark.slow
def test_python_started_anew_does_the_same(
    process: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gradcli.process.process.FORKS", False)
    monkeypatch.setattr(Process.__init__, "__kwdefaults__", {"forks": False})
    ends_, good = (
        target(tmp_path, c, f"{k}.py") for k, c in enumerate((PLACES["in f"][0].format("os._exit(0)"), GOOD))
    )
    sleeps = target(tmp_path, "def f(x): time.sleep(10**6)\n", "sleeps.py")
    first, *others = (
        process("check", name, X, *QUICK, "--timeout", "3s", "--json").json for name in (ends_, good, sleeps)
    )
    assert [d["verdict"] for d in others] == ["pass", "inconclusive"]
    assert first["schema"] == "gradcli.error/1" and "0.py:4 " in first["error"]["where"]


def test_a_child_that_cannot_begin_is_said_plainly(
    process: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gradcli.cli.main.run_line", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
    argv = ("check", target(tmp_path, GOOD), X)
    text, data = process(*argv), process(*argv, "--json")
    assert (text.exit_status, text.stdout) == (2, "") and "ended with SIGKILL before" in text.stderr
    assert (data.exit_status, data.json["schema"], data.json["error"]["kind"]) == (
        2,
        "gradcli.error/1",
        "ended the process",
    )


def test_values_of_the_users_own_types_come_back_from_a_worker(process: Callable[..., Any], tmp_path: Path) -> None:
    code = (
        "import os\nimport threading\n\nimport numpy as np\n\n\nclass Odd:\n    def __init__(self):\n"
        "        self.lock = threading.Lock()\n\n\npoint = {'x': 2.0, 'o': Odd()}\n\n\n"
        "def f(x, o):\n    return np.sign(x - 2)\n\n\ndef ends(x, o):\n    os._exit(3)\n"
    )
    name = target(tmp_path, code).rpartition(":")[0]
    ran = process("check", f"{name}:f", f"{name}:ends", "--at", f"{name}:point", "--wrt", "x")
    assert "a value of type Odd" in ran.stdout and "internal" not in ran.stderr
