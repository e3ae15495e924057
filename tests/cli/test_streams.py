"""Streams and files: what goes where, line by line on standard input, in continuous integration, and when things break."""

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gradcli.cli.main import run
from gradcli.cli.world import World
from gradcli.study import gradient
from tests.rows import for_rows

QUICK = ("--modes", "certified,forward,reverse,fd")
CHECK = ("check", "x**2", "x=3", *QUICK)

# fmt: off
LINES = [
    ("# a comment",                                                    None, ""),
    ("",                                                               None, ""),
    ("x**2",                                                           0, "pass"),
    ("   y + x   ",                                                    0, "pass"),
    ('{"target": "x**3", "at": {"x": 2}, "grad": "3*x**2"}',           0, "pass"),
    ('{"target": "x**3", "at": "x=2", "grad": "x**2"}',                1, "fail"),
    ('{"target": "sum(a*b)", "at": {"a": [1, 2], "b": [3, 4]}, "wrt": "a"}', 0, "pass"),
    ("sine(x)",                                                        2, "unknown function 'sine'"),
    ("abs(x - x)",                                                     3, "inconclusive"),
    ("{broken",                                                        2, ""),
    ('{"target": "x", "bogus": 1}',                                    2, "needs `target`"),
    ('{"at": {"x": 1}}',                                               2, "target"),
    ('{"target": 3}',                                                  2, "target"),
    ('{"target": "x", "at": {"x": "a"}}',                              2, "x"),
    ('{"target": "x", "at": {"q": 1}}',                                2, "'q' is not an input"),
    ("losses:focal",                                                   2, ""),
    ("exp(x)",                                                         0, "pass"),
]
# fmt: on
STDIN = "\n".join(line for line, _, _ in LINES) + "\n"


@pytest.fixture(name="batch", scope="module")
def _batch() -> tuple[int, list[Any], str]:
    world = World(io.StringIO(STDIN), io.StringIO(), io.StringIO(), {})
    status = run(["check", "-", *QUICK, "--points", "1", "--format", "ndjson"], world)
    return status, [json.loads(line) for line in world.stdout.getvalue().splitlines()], world.stderr.getvalue()


@pytest.mark.slow
def test_every_line_gets_its_own_document(batch: tuple[int, list[Any], str]) -> None:
    _, documents, stderr = batch
    assert [document["line"] for document in documents] == [
        number for number, (_, status, _) in enumerate(LINES, 1) if status is not None
    ]
    assert stderr == ""


@for_rows("number", [number for number, (_, status, _) in enumerate(LINES, 1) if status is not None])
def test_every_line_gets_its_verdict_or_its_error(batch: tuple[int, list[Any], str], number: int) -> None:
    (document,) = (document for document in batch[1] if document["line"] == number)
    _, status, said = LINES[number - 1]
    if status == 2:
        assert document["schema"] == "gradcli.error/1"
        assert said in document["error"]["message"]
    else:
        assert (document["exit_status"], document["verdict"]) == (status, said)


@pytest.mark.parametrize("flag", ["--cache", "--no-cache"])
def test_an_option_that_does_nothing_any_more_is_said_by_its_name(gradcli: Callable[..., Any], flag: str) -> None:
    ran = gradcli(*CHECK, flag)
    assert ran.exit_status == 0 and ran.stderr.startswith(f"note: {flag} does nothing: a check always runs")


# fmt: off
WORST = [
    (("x", "abs(x)", "sine(x)", '{"target": "x", "grad": "2"}'), 1),
    (("x", "abs(x)", "sine(x)"),                                 2),
    (("x", "abs(x)"),                                            3),
    (("x", "x**2"),                                              0),
    (("# nothing", ""),                                          0),
]
# fmt: on


@for_rows(("lines", "status"), WORST)
@for_rows("form", ["text", "ndjson"])
def test_lines_get_the_worst_status(gradcli: Callable[..., Any], lines: tuple, status: int, form: str) -> None:
    ran = gradcli("check", "-", "x=0", *QUICK, "--format", form, stdin="\n".join(lines))
    assert ran.exit_status == status


def test_errors_of_lines_name_the_line(gradcli: Callable[..., Any]) -> None:
    ran = gradcli("check", "-", "x=1", *QUICK, stdin="x**2\n\nsine(x)\nx**3\n")
    assert ran.stderr.startswith("line 3: error: unknown function 'sine'")
    assert ran.stdout.count("PASS") == 2


def test_a_result_leaves_standard_error_empty(gradcli: Callable[..., Any]) -> None:
    assert gradcli(*CHECK).stderr == ""


def test_a_result_leaves_no_warning_where_python_shows_all() -> None:
    argv = [sys.executable, "-W", "error", "-m", "gradcli", "check", "x*y", "x=1", "y=2"]
    assert subprocess.run(argv, capture_output=True, text=True, check=True).stderr == ""


def test_quiet_prints_nothing_and_keeps_the_status(gradcli: Callable[..., Any]) -> None:
    for argv, status in (((), 0), (("--grad", "x"), 1)):
        ran = gradcli(*CHECK, *argv, "--quiet")
        assert (ran.exit_status, ran.stdout, ran.stderr) == (status, "", "")


def test_quiet_keeps_errors(gradcli: Callable[..., Any]) -> None:
    assert "unknown function" in gradcli("check", "sine(x)", "-q").stderr


# fmt: off
FILES = [
    (CHECK,                          "r.json",   '"schema": "gradcli.check/3"'),
    (CHECK,                          "r.ndjson", '"schema": "gradcli.check/3"'),
    (CHECK,                          "R.MD",     "**PASS** "),
    (CHECK,                          "r.csv",    "point,mode,input,index,value,bound"),
    (CHECK,                          "r.xml",    '<?xml version="1.0"'),
    (CHECK,                          "r.txt",    "PASS  "),
    (("trace", "x**2", "x=3"),       "r.mmd",    "flowchart LR"),
    (("trace", "x**2", "x=3"),       "r.md",     "| adjoint | value |"),
    (("grad", "x**2", "x=3"),        "r.txt",    "x = 6.0"),
    (("compare-modes", *CHECK[1:]),  "r.md",     "| mode | digits |"),
    (("modes",),                     "r.csv",    "mode,available"),
    (("ops", "sin"),                 "r.json",   '"schema": "gradcli.ops/1"'),
]
# fmt: on


@pytest.mark.parametrize(("argv", "name", "holds"), FILES)
def test_out_writes_the_form_of_the_ending_and_the_text_too(
    gradcli: Callable[..., Any], tmp_path: Path, argv: tuple, name: str, holds: str
) -> None:
    path = tmp_path / name
    ran = gradcli(*argv, "--out", str(path))
    assert ran.exit_status == 0 and ran.stdout != ""
    assert holds in path.read_text(encoding="utf-8")


def test_out_is_repeatable_and_written_when_quiet(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    a, b = tmp_path / "a.json", tmp_path / "b.md"
    ran = gradcli(*CHECK, "-q", "-o", str(a), f"--out={b}")
    assert ran.stdout == "" and a.exists() and b.exists()


def test_out_is_not_coloured(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    path = tmp_path / "r.txt"
    gradcli(*CHECK, "--color", "-o", str(path))
    assert "\x1b" not in path.read_text(encoding="utf-8")


def test_a_refused_ending_stops_before_the_work(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    good, bad = tmp_path / "r.json", tmp_path / "r.pdf"
    ran = gradcli(*CHECK, "-o", str(good), "-o", str(bad))
    assert ran.exit_status == 2 and not good.exists() and not bad.exists()


def test_a_file_that_cannot_be_written_is_the_users_error(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    taken = tmp_path / "r.json"
    taken.mkdir()
    ran = gradcli(*CHECK, "-o", str(taken))
    assert ran.exit_status == 2 and "r.json" in ran.stderr


def test_out_of_several_targets_holds_them_all(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    path = tmp_path / "all.ndjson"
    gradcli("check", "x**2", "x**3", "x=3", *QUICK, "-q", "-o", str(path))
    assert [json.loads(line)["target"]["text"] for line in path.read_text().splitlines()] == ["x**2", "x**3"]


# fmt: off
ASCII = [
    *(("check", "µ**2", "µ=2", *QUICK, "--format", form) for form in ("text", "markdown", "csv", "junit", "github", "json")),
    *(("trace", "α = x**2; α*2", "x=1", "--format", form) for form in ("text", "markdown", "csv", "mermaid")),
    ("compare-modes", "µ**2", "µ=2", *QUICK),
    ("check", "α(x)", "x=1"),
    ("grad", "é", "é=1"),
]
# fmt: on


@for_rows("argv", ASCII, ids=[f"{argv[0]} {argv[-1]}" for argv in ASCII])
def test_a_stream_that_knows_only_ascii_gets_ascii(argv: tuple) -> None:
    streams = [io.TextIOWrapper(io.BytesIO(), encoding="ascii", newline="\n") for _ in range(2)]
    status = run(argv, World(io.StringIO(), *streams, {}))
    for stream in streams:
        stream.flush()
    assert status == (2 if "α(x)" in argv else 0)
    assert b"".join(stream.buffer.getvalue() for stream in streams)


def test_plus_minus_is_spelled_in_ascii() -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii", newline="\n")
    run(CHECK, World(io.StringIO(), stream, io.StringIO(), {}))
    stream.flush()
    assert b" +/-" in stream.buffer.getvalue() and b"?" not in stream.buffer.getvalue()


CI = {"GITHUB_ACTIONS": "true"}


def test_annotations_follow_the_text(gradcli: Callable[..., Any]) -> None:
    lines = gradcli(*CHECK, "--grad", "x", environ=CI).stdout.splitlines()
    assert lines[0].startswith("FAIL")
    assert lines[-1].startswith("::error ")


@pytest.mark.parametrize("asked", [("--json",), ("--format", "csv"), ("--format", "text")])
def test_a_form_asked_for_is_not_annotated(gradcli: Callable[..., Any], asked: tuple) -> None:
    assert "::notice" not in gradcli(*CHECK, *asked, environ=CI).stdout


def test_elsewhere_nothing_is_annotated(gradcli: Callable[..., Any]) -> None:
    assert "::" not in gradcli(*CHECK, environ={"GITHUB_ACTIONS": "false"}).stdout


def test_the_step_summary_is_appended_to(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    summary = tmp_path / "summary.md"
    summary.write_text("before\n", encoding="utf-8")
    gradcli(*CHECK, environ=CI | {"GITHUB_STEP_SUMMARY": str(summary)})
    gradcli(*CHECK, "--grad", "x", environ=CI | {"GITHUB_STEP_SUMMARY": str(summary)})
    text = summary.read_text(encoding="utf-8")
    assert text.startswith("before\n")
    assert text.index("**PASS**") < text.index("**FAIL**")


@pytest.mark.parametrize(
    ("target", "status"), [("x**2 # " + "::error::no " * 30, 0), ("(x +\n::error::no)", 2), ("x\n::error::no", 2)]
)
def test_nothing_a_target_says_is_a_workflow_command(gradcli: Callable[..., Any], target: str, status: int) -> None:
    ran = gradcli("check", target, "x=3", *QUICK, environ=CI)
    assert ran.exit_status == status
    assert not [line for line in (ran.stdout + ran.stderr).splitlines() if line.strip().startswith("::error::no")]


def fails(question: Any) -> Any:
    raise ZeroDivisionError("by design")


def test_an_internal_error_is_one_line_and_where_to_report_it(
    gradcli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gradient, "gradient", fails)
    ran = gradcli("grad", "x", "x=1")
    assert (ran.exit_status, ran.stdout) == (70, "")
    assert ran.stderr.startswith("error: internal error: ZeroDivisionError: by design\n  ")
    assert "report" in ran.stderr and "Traceback" not in ran.stderr
    assert gradcli("grad", "x", "x=1", "--json").json["error"]["kind"] == "internal"


def test_tracebacks_are_shown_when_asked_for(gradcli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    assert "Traceback" in gradcli("check", "sine(x)", "--traceback").stderr
    monkeypatch.setattr(gradient, "gradient", fails)
    assert "in fails" in gradcli("grad", "x", "x=1", "--traceback").stderr


class Interrupted:
    """A standard input at which the user presses Ctrl-C."""

    def __iter__(self) -> Iterator[str]:
        raise KeyboardInterrupt


def test_an_interrupt_ends_with_130() -> None:
    world = World(Interrupted(), io.StringIO(), io.StringIO(), {})
    assert run(["check", "-"], world) == 130
    assert "Traceback" not in world.stderr.getvalue()


def test_a_closed_pipe_ends_quietly() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "gradcli", "schema", "check"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ,
    )
    process.stdout.close()
    stderr = process.stderr.read()
    process.stderr.close()
    assert process.wait() != 1
    assert stderr == b""


@pytest.mark.slow
@pytest.mark.parametrize("argv", [("sweep", "sin(x)", "x=1"), ("grad", "sin(x)", "x=1")])
def test_a_full_device_is_one_error_with_status_2(argv: tuple) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    with Path("/dev/full").open("w") as full:
        run = subprocess.run(
            [sys.executable, "-m", "gradcli", *argv], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert run.returncode == 2
    assert (
        run.stderr.startswith("error: a stream or file cannot be used: No space left") and "internal" not in run.stderr
    )
