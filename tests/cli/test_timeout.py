"""`--timeout`: whatever the user's code does, the program ends and shows what was finished."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ends
from tests.targets.test_loading import written

QUICK = ("--modes", "forward,reverse,fd")
X = "x=[0.5, 2]"
SOON = "0.3s"
ENOUGH = "4s"  # for all that is done before f hangs, on a machine with eight times its load too
FOREVER = {
    "sleeps": "import time\ndef f(x):\n    time.sleep(1000)\n",
    "spins": "def f(x):\n    while True: pass\n",
    "is deaf": "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ndef f(x):\n    time.sleep(1000)\n",
    "swallows": "import time\ndef f(x):\n    while True:\n        try: time.sleep(1000)\n"
    "        except BaseException: pass\n",
    "has children": "import subprocess\ndef f(x):\n    subprocess.run(['sleep', '1000'])\n",
    "loads forever": "import time\ntime.sleep(1000)\ndef f(x): return x\n",
    "in C": "def f(x):\n    return sorted([3, 1, 2] * 10**8)\n",
}
GOOD = "def f(x): return np.sum(x**2)\ndef g(x): return 2*x\ndef bad(x): return 3*x\n"
# At the point itself it is quick, so that the modes that call it nowhere else are done when the time is up.
SLOWER = """
    import time
    def f(x):
        if type(x) is np.ndarray and 0 < abs(x[0] - 0.5) < 0.3:
            time.sleep(1000)
        return np.sum(np.sin(x))
    def g(x): return np.cos(x)
    def bad(x): return 2*np.cos(x)
"""


@pytest.fixture(autouse=True)
def _importable_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))


@pytest.mark.parametrize("what", FOREVER)
def test_what_never_returns_is_stopped(process: Callable[..., Any], tmp_path: Path, what: str) -> None:
    file = written(tmp_path, FOREVER[what])
    ran = process("check", f"{file}:f", X, *QUICK, "--timeout", SOON, "--json")
    (finding,) = ran.json["points"][0]["findings"]
    assert (ran.exit_status, ran.json["exit_status"], ran.json["verdict"]) == (3, 3, "inconclusive")
    assert finding["kind"] == "timeout" and "0.3 s" in finding["message"]
    assert finding["hint"].startswith("--timeout ")


def test_text_says_that_time_is_up(process: Callable[..., Any], tmp_path: Path) -> None:
    ran = process("check", f"{written(tmp_path, FOREVER['sleeps'])}:f", X, *QUICK, "--timeout", SOON)
    assert ran.exit_status == 3
    assert ran.stdout.startswith("INCONCLUSIVE") and "time is up" in ran.stdout


def test_text_shows_no_value_that_was_never_computed(process: Callable[..., Any], tmp_path: Path) -> None:
    ran = process("check", f"{written(tmp_path, FOREVER['sleeps'])}:f", X, *QUICK, "--timeout", SOON)
    assert "nan" not in ran.stdout


def test_a_claim_that_never_returns_is_stopped(process: Callable[..., Any], tmp_path: Path) -> None:
    file = written(tmp_path, GOOD + "def slow(x):\n    import time; time.sleep(1000)\n")
    ran = process("check", f"{file}:f", X, "--grad", "slow", *QUICK, "--timeout", SOON, "--json")
    assert ran.exit_status == 3
    assert ran.json["claim"] == "slow"


@pytest.fixture(name="unfinished")
def _unfinished(process: Callable[..., Any], tmp_path: Path) -> Callable[..., Any]:
    """Check a function whose differences take too long; other modes are done by then."""
    file = written(tmp_path, SLOWER)
    return lambda *more: process("check", f"{file}:f", X, *QUICK, "--timeout", ENOUGH, *more)


@pytest.mark.slow
def test_what_was_finished_is_in_the_document(unfinished: Callable[..., Any]) -> None:
    ran = unfinished("--json")
    (point,) = ran.json["points"]
    assert ran.exit_status == 3
    assert point["at"] == {"x": [0.5, 2.0]} and point["differentiated"] == ["x"]
    assert point["value"] == pytest.approx(1.38872, rel=1e-5)
    assert point["modes"]["reverse"]["gradient"]["x"] == pytest.approx([0.87758, -0.41615], rel=1e-4)
    assert "timeout" in {finding["kind"] for finding in point["findings"]}


def test_what_was_finished_is_shown_in_every_form(unfinished: Callable[..., Any], tmp_path: Path) -> None:
    files = [tmp_path / f"r.{ending}" for ending in ("txt", "md", "csv", "xml", "json")]
    ran = unfinished(*(word for file in files for word in ("-o", str(file))))
    assert (ran.exit_status, ran.stderr) == (3, "")
    assert ran.stdout.startswith("INCONCLUSIVE") and "time is up" in ran.stdout and "reverse" in ran.stdout
    assert all("reverse" in file.read_text() or file.suffix == ".xml" for file in files)


@pytest.mark.slow
def test_points_that_were_finished_keep_their_verdict(process: Callable[..., Any], tmp_path: Path) -> None:
    file = written(tmp_path, SLOWER)
    ran = process("check", f"{file}:f", "x=[3, 2]", X, *QUICK, "--timeout", ENOUGH, "--json")
    first, second = ran.json["points"]
    assert ran.exit_status == 3
    assert (first["verdict"], second["verdict"]) == ("pass", "inconclusive")
    assert first["modes"]["finite-difference"]["status"] == "ok"
    assert "timeout" in {finding["kind"] for finding in second["findings"]}


@pytest.mark.slow
def test_a_point_that_was_shown_to_be_wrong_stays_wrong(process: Callable[..., Any], tmp_path: Path) -> None:
    file = written(tmp_path, SLOWER)
    ran = process("check", f"{file}:f", "x=[3, 2]", X, "--grad", "bad", *QUICK, "--timeout", ENOUGH, "--json")
    assert ran.exit_status == 1
    assert [point["verdict"] for point in ran.json["points"]] == ["fail", "inconclusive"]


# fmt: off
IN_TIME = [
    ((),                  0, "PASS"),
    (("--grad", "g"),     0, "PASS"),
    (("--grad", "bad"),   1, "FAIL"),
]
# fmt: on


@pytest.mark.parametrize(("words", "status", "said"), IN_TIME)
def test_what_ends_in_time_is_as_without(
    process: Callable[..., Any], tmp_path: Path, words: tuple, status: int, said: str
) -> None:
    argv = ("check", f"{written(tmp_path, GOOD)}:f", X, *words, *QUICK)
    ran = process(*argv, "--timeout", "30s")
    assert (ran.exit_status, ran.stderr) == (status, "")
    assert ran.stdout.startswith(said)
    assert process(*argv).stdout.splitlines()[:4] == ran.stdout.splitlines()[:4]


def test_the_document_is_as_without(process: Callable[..., Any], tmp_path: Path) -> None:
    argv = ("check", f"{written(tmp_path, GOOD)}:f", X, "--grad", "bad", *QUICK, "--json")
    first, second = process(*argv).json, process(*argv, "--timeout", "30s").json
    assert set(first) == set(second)
    for key in ("schema", "target", "claim", "exit_status", "verdict", "detects"):
        assert first[key] == second[key]
    assert first["points"][0]["mismatches"] == second["points"][0]["mismatches"]


# fmt: off
ERRORS = [
    ("def f(x):\n    raise ValueError('odd rates')\n",   "ValueError: odd rates", 3),
    ("raise OSError('no disk')\ndef f(x): ...\n",                       "OSError: no disk",      2),
    ("import sys\ndef f(x):\n    sys.exit(0)\n",         "sys.exit(0)",           4),
    ("def f(x):\n    return f(x)\n",                     "RecursionError",        3),
    ("def f(x)\n",                                       "not valid Python",      2),
]
# fmt: on


@pytest.mark.parametrize(("code", "said", "line"), ERRORS)
def test_errors_come_back_with_their_line(
    process: Callable[..., Any], tmp_path: Path, code: str, said: str, line: int
) -> None:
    file = written(tmp_path, code)
    ran = process("check", f"{file}:f", X, *QUICK, "--timeout", "30s")
    assert (ran.exit_status, ran.stdout) == (2, "")
    assert said in ran.stderr and f"{Path(file).name}:{line} " in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize("death", ["os._exit(0)", "os._exit(3)", "os.kill(os.getpid(), 9)"])
@pytest.mark.parametrize("form", ["text", "json"])
def test_a_process_that_dies_is_never_a_pass(
    process: Callable[..., Any], tmp_path: Path, death: str, form: str
) -> None:
    file = written(tmp_path, f"import os\ndef f(x):\n    {death}\n")
    ran = process("check", f"{file}:f", X, *QUICK, "--timeout", "30s", "--format", form)
    assert ran.exit_status == 2
    assert "ended" in (ran.stderr if form == "text" else ran.json["error"]["message"])


@pytest.mark.parametrize(("words", "status"), [((), 3), (("--allow-inconclusive",), 3), (("--allow", "timeout"), 0)])
def test_only_allow_timeout_excuses_a_timeout(
    process: Callable[..., Any], tmp_path: Path, words: tuple, status: int
) -> None:
    ran = process("check", f"{written(tmp_path, FOREVER['sleeps'])}:f", X, *QUICK, "--timeout", SOON, *words)
    assert ran.exit_status == status


@pytest.mark.parametrize("text", ["soon", "0s", "-1s", "1 week", ""])
def test_a_time_that_is_none_is_refused(process: Callable[..., Any], text: str) -> None:
    ran = process("check", "x**2", "x=1", *QUICK, f"--timeout={text}")
    assert ran.exit_status == 2 and "--timeout" in ran.stderr


@pytest.mark.parametrize("text", ["30", "30s", "0.5min", "30000ms", "1h"])
def test_times_are_read(process: Callable[..., Any], text: str) -> None:
    assert process("check", "x**2", "x=1", *QUICK, "--timeout", text).exit_status == 0


@pytest.mark.slow
def test_several_targets_each_have_their_time(process: Callable[..., Any], tmp_path: Path) -> None:
    slow, good = written(tmp_path, FOREVER["sleeps"]), written(tmp_path, GOOD)
    ran = process("check", f"{slow}:f", f"{good}:f", X, *QUICK, "--timeout", ENOUGH, "--json")
    assert [check["verdict"] for check in ran.json["checks"]] == ["inconclusive", "pass"]
    assert ran.exit_status == 3


def test_compare_modes_has_a_timeout_too(process: Callable[..., Any], tmp_path: Path) -> None:
    ran = process("compare-modes", f"{written(tmp_path, GOOD)}:f", X, *QUICK, "--timeout", "30s")
    assert ran.exit_status == 0


def test_no_process_is_left_behind(process: Callable[..., Any], tmp_path: Path) -> None:
    code = f"""
        import os, subprocess
        def f(x):
            child = subprocess.Popen(["sleep", "1000"])
            open({str(tmp_path / "pids")!r}, "w").write(f"{{os.getpid()}} {{child.pid}}")
            child.wait()
    """
    process("check", f"{written(tmp_path, code)}:f", X, *QUICK, "--timeout", ENOUGH)
    for pid in map(int, (tmp_path / "pids").read_text().split()):
        assert ends(pid)


@pytest.mark.slow
def test_the_streams_stay_apart_in_a_real_process(tmp_path: Path) -> None:
    code = """
        import os
        print("at load")
        def f(x):
            print("from Python")
            os.write(1, b"from the descriptor\\n")
            os.system("echo from a child")
            return np.sum(x**2)
    """
    argv = [
        sys.executable,
        "-m",
        "gradcli",
        "check",
        f"{written(tmp_path, code)}:f",
        X,
        *QUICK,
        "--timeout",
        "60s",
        "--json",
    ]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False, env=os.environ)
    assert done.returncode == 0
    assert json.loads(done.stdout)["verdict"] == "pass"
    assert all(said in done.stderr for said in ("at load", "from Python", "from the descriptor", "from a child"))


def test_an_internal_error_in_the_child_is_one_of_ours(
    process: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr("gradcli.repair.full_check.verify", broken)
    ran = process("check", f"{written(tmp_path, GOOD)}:f", X, "--timeout", "20s", "--json")
    assert (ran.exit_status, ran.json["error"]["kind"]) == (70, "internal")


ONCE = """
    import time
    def f(x):
        time.sleep(0.7)
        return np.sum(x**2)
"""


@pytest.mark.parametrize("command", ["sweep", "compare-modes"])
def test_finding_the_target_counts_too_and_nothing_is_shown(
    process: Callable[..., Any], tmp_path: Path, command: str
) -> None:
    ran = process(command, f"{written(tmp_path, ONCE)}:f", X, "--timeout", "1s")
    assert (ran.exit_status, ran.stdout) == (3, "")
    assert ran.stderr == "error: time is up after 1 s\n  --timeout 10s\n"


@pytest.mark.parametrize("command", ["sweep", "compare-modes"])
def test_the_help_says_that_nothing_is_shown(process: Callable[..., Any], command: str) -> None:
    assert "Other commands show nothing" in " ".join(process(command, "--help").stdout.replace("│", " ").split())


def test_long_work_is_announced(process: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gradcli.study.sweep._LONG", 0.0)
    argv = ("sweep", "x**2", "x=1", "--schemes", "forward")
    said = process(*argv).stderr
    assert said.startswith("float64: about 61 evaluations of f, ") and said.endswith("; --budget N limits them\n")
    assert process(*argv, "-q").stderr == ""
