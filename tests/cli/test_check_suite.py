"""`gradcli check` of a project: lines, documents, workers, shards, selection, and what goes wrong."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gradcli.cli.check_suite import _Run
from tests.project.suite.project import QUICK, SUITE, VERDICTS, written

Process = Callable[..., Any]
TIMES = {"seconds", "command"}


@pytest.fixture(name="folder")
def _folder(tmp_path: Path) -> Path:
    return written(tmp_path)


def verdicts(stdout: str) -> dict[str, str]:
    """Return the words of the lines before the details, by id."""
    lines = [line.split() for line in stdout.partition("\n\n")[0].splitlines()]
    return {words[1 + words[1].startswith("(")]: words[0].lower() for words in lines if words and words[0].isupper()}


def without_times(x: Any) -> Any:
    if isinstance(x, dict):
        return {key: without_times(value) for key, value in x.items() if key not in TIMES}
    return [without_times(value) for value in x] if isinstance(x, list) else x


@pytest.mark.slow
def test_a_project_is_checked(process: Process, folder: Path) -> None:
    ran = process("check", cwd=folder)
    assert verdicts(ran.stdout) == VERDICTS and list(verdicts(ran.stdout)) == list(VERDICTS)
    assert ran.stdout.splitlines()[-1].startswith("2 passed, 1 failed, 1 inconclusive, 1 error in ")
    assert "losses.py:14    def bad_grad(r):" in ran.stdout and "gradcli check -k bad" in ran.stdout
    assert ran.exit_status == 1 and ran.stderr.startswith("error: lost: there is no file nowhere.py")
    again = process("check", "--lf", cwd=folder)
    assert verdicts(again.stdout) == {name: v for name, v in VERDICTS.items() if v != "pass"}


@pytest.mark.slow
def test_documents_are_the_same_for_workers_and_shards(process: Process, folder: Path) -> None:
    whole = process("check", "--json", cwd=folder, new_workers=True).json
    two = process("check", "--json", "-n", "2", cwd=folder, new_workers=True).json
    assert without_times(two) == without_times(whole)
    assert whole["counts"] == {"passed": 2, "failed": 1, "inconclusive": 1, "errors": 1, "known": 0}
    assert whole["declared"] == list(VERDICTS) == [check["id"] for check in whole["checks"]]
    assert [point.get("name") for point in whole["checks"][0]["document"]["points"]] == ["at[1]", "at[2]"]
    for k in (1, 2):
        process("check", "--shard", f"{k}/2", "-q", "--out", f"{k}.json", cwd=folder, new_workers=True)
    merged = process("merge", "2.json", "1.json", "--json", cwd=folder)
    assert merged.exit_status == 1 and without_times(merged.json) == without_times(whole)
    assert "2/2" in process("merge", "1.json", cwd=folder).stderr
    assert "the same shard" in process("merge", "1.json", "1.json", cwd=folder).stderr
    (folder / "1.json").write_text('{"schema": "gradcli.suite/1"}')
    assert "is no document" in process("merge", "1.json", "2.json", cwd=folder).stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("-n2",), "-n 2"), (("-kbad",), "-k bad"), (("-x", "x=3"), "gradcli check -- -x"), (("--at", "x=1"), "a suite has many"),
        (("-n", "0"), "from 1"), (("--shard", "3/2"), "K/N"), (("--update-baseline",), "--baseline FILE"),
        (("--list", "--format", "csv"), "prints text"), (("x**2", "y", "--lf"), "leave out the targets"),
        (("--executor", "nowhere://a"), "no executor"), (("--profile", "other"), "no profile"),
        (("bad",), "gradcli check -k bad"),
    ],
)  # fmt: skip
def test_options_that_cannot_be_used_are_refused(
    process: Process, folder: Path, words: tuple[str, ...], says: str
) -> None:
    ran = process("check", *words, cwd=folder)
    assert ran.exit_status == 2 and says in ran.stderr and not ran.stdout


def test_the_repeated_command_has_the_options_of_the_command_line(process: Process, folder: Path) -> None:
    ran = process("check", "-k", "bad", "--modes", "reverse,fd", "--budget", "500", cwd=folder)
    assert "gradcli check --modes reverse,fd --budget 500 -k bad" in " ".join(ran.stdout.split())


def commit_all(folder: Path) -> None:
    for words in (("init",), ("add", "-A"), ("commit", "-m", "all")):
        command = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *words]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)


def test_only_what_changed_is_listed(process: Process, folder: Path) -> None:
    commit_all(folder)
    (folder / "gradcli.toml").write_text(SUITE.replace('at = ["r=[0.5, 1.5]", "r=[1, 2, 3]"]', 'at = "r=[2, 3]"'))
    listed = process("check", "--changed", "--list", cwd=folder).stdout.split()
    assert "good" in listed and "bad" not in listed


@pytest.mark.slow
def test_only_what_changed_is_checked(process: Process, folder: Path) -> None:
    commit_all(folder)
    ran = process("check", "--changed", cwd=folder)
    assert ran.exit_status == 2 and "no check has changed" in ran.stderr
    (folder / "gradcli.toml").write_text(SUITE.replace('at = ["r=[0.5, 1.5]", "r=[1, 2, 3]"]', 'at = "r=[2, 3]"'))
    for words in ((), ("-n", "2"), ("--budget", "500")):
        assert verdicts(process("check", "--changed", *words, cwd=folder).stdout) == {"good": "pass"}


@pytest.mark.slow
def test_every_check_runs_whatever_the_last_run_found(process: Process, folder: Path) -> None:
    (folder / "gradcli.toml").write_text(f"cache = true\n{SUITE}")
    notes = ("--cache does nothing: a check always runs", "cache in gradcli.toml does nothing: a check always runs")
    for _ in range(2):
        ran = process("check", "--cache", "--json", cwd=folder)
        assert all(f"note: {note}, and is never answered from an earlier run\n" in ran.stderr for note in notes)
        assert [check["cached"] for check in ran.json["checks"]] == [False] * len(VERDICTS)
    assert {path.name for path in (folder / ".gradcli_cache").iterdir()} == {"last.json", ".gitignore", "CACHEDIR.TAG"}
    ran = process("check", "x**2", "x=1", "--no-cache", cwd=folder)
    assert ran.exit_status == 0 and ran.stderr.startswith("note: --no-cache does nothing")
    assert "--cache" not in process("check", "--help", cwd=folder).stdout


@pytest.mark.slow
def test_a_baseline_counts_apart(process: Process, folder: Path) -> None:
    (folder / "gradcli.toml").write_text(SUITE.partition('[[check]]\nid = "lost"')[0])
    assert process("check", "--baseline", "known.json", "--update-baseline", cwd=folder).exit_status == 0
    ran = process("check", "--baseline", "known.json", cwd=folder)
    assert ran.exit_status == 0 and "2 passed, 2 known in" in ran.stdout and "FAIL (known)  bad" in ran.stdout
    (folder / "losses.py").write_text((folder / "losses.py").read_text().replace("2 * r**2", "3 * r**2"))
    ran = process("check", "--baseline", "known.json", cwd=folder)
    assert ran.exit_status == 2 and "bad: the baseline lists a failure that is no longer there" in ran.stdout
    (command,) = (line for line in ran.stdout.splitlines() if "--update-baseline" in line)
    assert command == "  gradcli check --baseline known.json --update-baseline"
    assert process(*command.split()[1:], cwd=folder).exit_status == 0
    assert process("check", "--baseline", "known.json", cwd=folder).exit_status == 0
    (folder / "gradcli.toml").write_text('baseline = "known.json"\n' + (folder / "gradcli.toml").read_text())
    (folder / "known.json").write_text('{"schema": "gradcli.baseline/1", "known": ["gone: r: fail: sign"]}')
    ran = process("check", "-k", "good", cwd=folder)
    assert ran.exit_status == 2 and "gone: the baseline lists it, and it is no check of this suite" in ran.stdout
    assert "\n  gradcli check --update-baseline\n" in ran.stdout


ENDS = """
import os, signal, time
def exits(x): os._exit(3)
def dies(x): os.kill(os.getpid(), signal.SIGKILL)
def sleeps(x): time.sleep(1000)
def good(x): return x**2
"""


@pytest.mark.slow
def test_what_ends_a_worker_is_its_own_error(process: Process, tmp_path: Path) -> None:
    names = ("good", "exits", "dies", "sleeps", "good")
    suite = "".join(f'[[check]]\nid = "{n}{k}"\ntarget = "ends.py:{n}"\nat = "x=1"\n' for k, n in enumerate(names))
    written(tmp_path, f'{QUICK}timeout = "2s"\n{suite}', ends=ENDS)
    ran = process("check", "-n", "2", cwd=tmp_path, new_workers=True)
    assert verdicts(ran.stdout) == {
        "good0": "pass", "exits1": "error", "dies2": "error", "sleeps3": "inconclusive", "good4": "pass",
    }  # fmt: skip
    assert "SIGKILL" in ran.stderr and "ends.py:3 " in ran.stderr and ran.exit_status == 2


@pytest.mark.slow
def test_ctrl_c_shows_what_is_finished(tmp_path: Path) -> None:
    written(tmp_path, SUITE + '[[check]]\nid = "last"\ntarget = "ends.py:sleeps"\nat = "x=1"\n', ends=ENDS)
    argv = [sys.executable, "-m", "gradcli", "check"]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        argv, cwd=tmp_path, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as run:
        assert run.stdout is not None and run.stderr is not None
        lines = [run.stdout.readline() for _ in VERDICTS]
        time.sleep(0.5)
        run.send_signal(signal.SIGINT)
        rest, errors = run.communicate(timeout=120)
    assert run.returncode == 130 and errors.endswith("interrupted\n") and "Traceback" not in errors
    assert verdicts("".join(lines)) == VERDICTS and rest.splitlines()[-1].startswith("2 passed, 1 failed")
    assert json.loads((tmp_path / ".gradcli_cache" / "last.json").read_text())["checks"]["last"] == {
        "verdict": "not reached"
    }


def test_a_folder_is_checked(process: Process, folder: Path) -> None:
    (folder / "points.py").write_text("point = {'x': 2.0}\ndef f(x): return x**2\ndef f_grad(x): return 2*x\n")
    (folder / "open.py").write_text("def h(x): return x**2\ndef h_grad(x): return 2*x\n")
    ran = process("check", "./", cwd=folder)
    assert verdicts(ran.stdout) == {"good": "pass", "bad": "fail", "kinked": "inconclusive", "f_grad": "pass"}
    assert "open.py:2  h_grad" in ran.stdout and ran.exit_status == 1


@pytest.mark.slow
def test_a_folder_is_a_part_of_the_suite(process: Process, folder: Path) -> None:
    """Its other checks are declared still: a baseline keeps their entries. What is found takes the suite's options."""
    (folder / "src").mkdir()
    (folder / "src" / "cubes.py").write_text(
        "point = {'x': 2.0}\ndef cube(x): return x**3\ndef cube_grad(x): return 2*x**2\n"
    )
    words = ("--baseline", "known.json")
    process("check", "-q", *words, "--update-baseline", cwd=folder)
    before = json.loads((folder / "known.json").read_text())["known"]
    document = process("check", "src", *words, "--json", cwd=folder).json
    assert document["counts"]["failed"] == 1 and "stale" not in document
    assert [(c["id"], c["target"], set(c["document"]["points"][0]["modes"])) for c in document["checks"]] == [
        ("cube_grad", "src/cubes.py:cube", {"reverse", "finite-difference", "claim"})
    ]
    process("check", "src", *words, "-q", "--update-baseline", cwd=folder)
    assert set(before) < set(json.loads((folder / "known.json").read_text())["known"])
    again = document["checks"][0]["document"]["command"]
    assert process(*again[1:], cwd=folder).exit_status == 1
    inner = process("check", ".", cwd=folder / "src")
    assert verdicts(inner.stdout.partition("\n")[2]) == {"cube_grad": "fail"}


def test_a_suite_of_comments_says_what_to_do(process: Process, tmp_path: Path) -> None:
    written(tmp_path, "seed = 1\n# [[check]]\n")
    assert "fill in" in process("check", "--list", cwd=tmp_path).stdout
    ran = process("check", cwd=tmp_path)
    assert ran.exit_status == 2 and "declares no check" in ran.stderr


def test_modules_of_one_name_in_two_folders_are_two(process: Process, tmp_path: Path) -> None:
    for name, power in (("a", 2), ("b", 3)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "helper.py").write_text(f"def f(x):\n    return x**{power}\n")
        (tmp_path / name / "losses.py").write_text(
            "from helper import f as inner\ndef f(x):\n    return inner(x)\ndef late(x):\n    import helper\n    return helper.f(x)\n"
        )
    order = (("a", 2), ("b", 3), ("a", 2))
    checks = [(name, power, f) for name, power in order for f in ("f", "late")]
    suite = "".join(
        f'[[check]]\nid = "{k}"\ntarget = "{name}/losses.py:{f}"\ngrad = "x={power}*x**{power - 1}"\nat = "x=1.5"\n'
        for k, (name, power, f) in enumerate(checks)
    )
    (tmp_path / "gradcli.toml").write_text(QUICK + suite)
    assert process("check", "-q", cwd=tmp_path).stdout.startswith("6 passed in")


BROKEN = """
[[check]]
id = "first"
target = "broken.py:f"
[[check]]
id = "second"
target = "broken.py:g"
[[check]]
id = "a name that is longer than the others of its suite"
target = "x**2"
grad = "x=-2*x"
at = "x=1"
"""


def test_failures_are_named_once_more_at_the_end_and_one_error_is_told_once(process: Process, tmp_path: Path) -> None:
    (tmp_path / "gradcli.toml").write_text(BROKEN)
    (tmp_path / "broken.py").write_text("import no_such_module\ndef f(x): ...\ndef g(x): ...\n")
    ran = process("check", cwd=tmp_path, environ={"COLUMNS": "120"})
    assert ran.stderr.count("No module named 'no_such_module'") == 1
    assert ran.stdout.splitlines()[2].startswith("FAIL          a name that is longer than the others of its suite  ")
    assert ran.stdout.splitlines()[-3:-1] == [
        "FAIL a name that is longer than the others o… dx: the sign is flipped",
        "ERROR broken.py:1 first: broken.py cannot be loaded: ModuleNotFoundError: No module named 'no_such_module'",
    ]


def test_two_checks_of_one_function_have_two_names_and_hints_are_toml(process: Process, tmp_path: Path) -> None:
    (tmp_path / "losses.py").write_text(
        "from gradcli import checked\n\n\n"
        '@checked(grad="g")\n@checked(grad="g", at="x=2", wrt="y")\ndef f(x):\n    return x * x\n\n\ndef g(x):\n    return 2 * x\n'
    )
    (tmp_path / "gradcli.toml").write_text('paths = ["losses.py"]\n')
    ran = process("check", "--json", cwd=tmp_path)
    assert [check["id"] for check in ran.json["checks"]] == ["losses.py:f", "losses.py:f#2"]
    assert "at = [" in "".join(check["document"]["error"]["hint"] for check in ran.json["checks"])


@pytest.mark.slow
def test_a_module_is_checked_as_its_folder_is(process: Process, tmp_path: Path) -> None:
    (tmp_path / "src" / "mine").mkdir(parents=True)
    (tmp_path / "src" / "mine" / "__init__.py").write_text("")
    (tmp_path / "src" / "mine" / "losses.py").write_text(
        "def f(x=3.0):\n    return x * x\n\n\ndef f_grad(x=3.0):\n    return 3 * x\n"
    )
    (tmp_path / "gradcli.toml").write_text(
        '[[check]]\nid = "named"\ntarget = "mine.losses:f"\ngrad = "f_grad"\nat = "x=1"\n'
    )
    for word in ("src/", "mine", "mine.losses"):
        ran = process("check", word, cwd=tmp_path)
        assert (ran.exit_status, verdicts(ran.stdout)) == (1, {"named": "fail"}), word
    assert process("check", "mine", "x*y", cwd=tmp_path).exit_status == 2
    assert process("check", "mine", "mine=2", cwd=tmp_path).exit_status == 0  # an expression with a value


def test_long_work_says_how_much_of_it_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    world = SimpleNamespace(working=lambda says, quiet: contextlib.nullcontext(told.append(says)))
    monkeypatch.setattr("gradcli.cli.check_suite.time.perf_counter", lambda: 130.0)
    for rows, wanted in (
        ((), 12),
        ((1, 2, 3), 12),
        ((1, 2, 3), 0),
    ):  # 0: lines of standard input, of which no one knows
        run = SimpleNamespace(_rows=rows, _started=100.0, _world=world, _to=SimpleNamespace(quiet=False))
        _Run._wait_for_row(run, iter(()), wanted)
    assert told == ["0 of 12 checked", "3 of 12 checked, about 90 s left", "3 checked"]
