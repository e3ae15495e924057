"""The order of the command line: targets may begin with `-`, options stand anywhere, unknown ones get a near name."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.rows import for_rows

QUICK = ("--modes", "forward,fd")

# fmt: off
TARGETS = [
    (("-x**2", "x=3"),                              "-x**2",     {"x": 3.0}),
    (("-a", "x=3", "-x**2"),                        "-x**2",     {"x": 3.0}),
    (("-x", "-a", "x=3"),                           "-x",        {"x": 3.0}),
    (("-ax", "ax=3"),                               "-ax",       {"ax": 3.0}),
    (("-q*2", "q=3"),                               "-q*2",      {"q": 3.0}),
    (("--", "-x**2", "x=3"),                        "-x**2",     {"x": 3.0}),
    (("--at", "x=3", "--", "--x"),                  "--x",       {"x": 3.0}),
    (("x*y", "x=3", "--at", "y=2"),                 "x*y",       {"x": 3.0, "y": 2.0}),
    (("--at=x=3, y=2", "x*y"),                      "x*y",       {"x": 3.0, "y": 2.0}),
    (("x*y", "--at", "x=3", "--at", "y=2"),         "x*y",       {"x": 3.0, "y": 2.0}),
    (("x*y", "--wrt", "x", "x=3", "-a", "y=2"),     "x*y",       {"x": 3.0, "y": 2.0}),
    (("x*y", "x = 3", "y=2*pi - -1"),               "x*y",       {"x": 3.0, "y": 2 * 3.141592653589793 + 1}),
    (("sum(x)", "x=[1, -2]"),                       "sum(x)",    {"x": [1.0, -2.0]}),
    (("x == 1", "x=3"),                             "x == 1",    {"x": 3.0}),
    (("u = 2*x; u**2", "x=3"),                      "u = 2*x; u**2", {"x": 3.0}),
    (("µ*2", "μ=3"),                                "µ*2",       {"μ": 3.0}),
]
# fmt: on


@for_rows(("words", "text", "at"), TARGETS)
def test_targets_and_points_are_found(
    gradcli: Callable[..., Any], words: tuple, text: str, at: dict[str, object]
) -> None:
    ran = gradcli("grad", "--json", *words)
    assert ran.exit_status == 0, ran.stdout
    assert (ran.json["target"]["text"], ran.json["at"]) == (text, at)


@for_rows("place", range(4))
def test_options_stand_anywhere_after_the_command(gradcli: Callable[..., Any], place: int) -> None:
    words = ["x*y", "x=3", "y=2"]
    words[place:place] = ["--json", "--wrt", "y"]
    assert gradcli("grad", *words).json["gradient"] == {"y": 3.0}


# fmt: off
USAGE = [
    (("chek", "x"),                             "there is no command 'chek'",             "did you mean 'check'?"),
    (("compare", "x"),                          "there is no command 'compare'",          "did you mean 'compare-modes'?"),
    (("gradient", "x"),                         "there is no command 'gradient'",         "did you mean 'grad'?"),
    (("zzzz",),                                 "there is no command 'zzzz'",             "commands: check, compare-modes"),
    (("--bogus",),                              "there is no command '--bogus'",          "commands: check"),
    (("check", "x", "--mode", "fd"),            "there is no option '--mode' for check",  "did you mean '--modes'?"),
    (("check", "x", "--tol=3"),                 "there is no option '--tol' for check",   "--rtol"),
    (("check", "x", "--fail-fast"),             "there is no option '--fail-fast' for check", "write --exitfirst, or -x"),
    (("check", "x", "--maxfail=1"),             "there is no option '--maxfail' for check", "write --exitfirst, or -x"),
    (("grad", "x", "--fail-fast"),              "there is no option '--fail-fast' for grad", "gradcli grad --help"),
    (("check", "x", "--x=3"),                   "there is no option '--x' for check",     "the value of an input has no dashes: x=3"),
    (("grad", "x", "-x=3"),                     "'-x=3' is no option and no expression",  "the value of an input has no dashes: x=3"),
    (("check", "x", "--zzzz"),                  "there is no option '--zzzz' for check",  "gradcli check --help"),
    (("trace", "x", "--modes", "fd"),           "there is no option '--modes' for trace", ""),
    (("check", "x", "--modes"),                 "--modes needs a value",                  "gradcli check --help"),
    (("check", "x", "-a"),                      "-a needs a value",                       "gradcli check --help"),
    (("check", "x", "--quiet=1"),               "--quiet",                                "gradcli"),
    (("check",),                                "no target, and no suite",                "gradcli init"),
    (("schema",),                               "argument",                               "gradcli"),
    (("modes", "extra"),                        "extra",                                  "gradcli"),
    (("check", "x", "--points", "0"),           "--points",                               ""),
    (("check", "x", "--points", "many"),        "--points",                               ""),
    (("check", "x", "--rtol", "-1"),            "--rtol",                                 ""),
    (("check", "x", "--seed", "-1"),            "--seed takes a whole number or 'random', not '-1'", "--seed 0"),
    (("check", "x", "--seed", "foo"),           "--seed takes a whole number or 'random', not 'foo'", "write --seed 0"),
    (("grad", "x", "--seed", str(2**64)),       "--seed takes at most 18446744073709551615 (64 bits), not '18446744073709551616'", "write --seed 0"),
    (("check", "x", "--mode-timeout", "soon"),  "--mode-timeout takes a time, not 'soon'", "10s"),
    (("check", "x", "--mode-timeout", "0s"),    "--mode-timeout takes a time, not '0s'",  "10s"),
    (("check", "x", "--modes", "fwd,taylor"),   "there is no mode 'taylor'",              "certified"),
    (("check", "x", "--modes", "f"),            "'f' could be forward or finite-difference", "short: fd"),
    (("check", "x", "--modes", ","),            "--modes names no mode",                  "certified"),
    (("check", "x", "--allow", "knik"),         "--allow does not know knik",             "kinds: kink"),
    (("check", "x", "--require-claim"),         "--require-claim is given, but there is no claim", "--grad"),
    (("check", "x", "--format", "yaml"),        "there is no format 'yaml'",              "formats: text, brief, json"),
    (("grad", "x", "--format", "dot"),          "there is no format 'dot'",               "formats: text, json"),
    (("check", "x", "-o", "report.pdf"),        "report.pdf has no ending this command can write", "endings: .json"),
    (("grad", "x", "-o", "report.dot"),         "report.dot has no ending this command can write", "endings: .json"),
    (("grad", "x", "-o", "no/folder/r.json"),   "no/folder/r.json",                       "folder"),
    (("check", "x", "--shapes", "x:2.5"),         "the sizes of x are not whole numbers: 2.5", "--shapes W:3,4"),
    (("check", "x", "--shapes", "x"),           "the shape 'x' cannot be read",           "--shapes"),
    (("ops", "sine"),                           "there is no primitive 'sine'",           "did you mean 'sin'?"),
    (("grad", "x", "y", "x=1"),                 "",                                       ""),
    (("trace", "x", "y**2", "x=1"),             "",                                       ""),
    (("compare-modes", "x", "y", *QUICK),       "",                                       ""),
]
# fmt: on


@pytest.mark.parametrize(("argv", "what", "do"), USAGE)
def test_usage_errors_are_errors_like_others(gradcli: Callable[..., Any], argv: tuple, what: str, do: str) -> None:
    ran = gradcli(*argv)
    assert ran.exit_status == 2, ran.stderr
    assert ran.stdout == ""
    assert ran.stderr.startswith("error: ") and ran.stderr.count("error: ") == 1
    assert what in ran.stderr and do in ran.stderr
    assert "Traceback" not in ran.stderr and "internal" not in ran.stderr


DOCUMENTED = [(argv, what) for argv, what, _ in USAGE if argv[0] != "schema" and "--format" not in argv]


@pytest.mark.parametrize(("argv", "what"), DOCUMENTED)
def test_usage_errors_are_documents_for_programs(gradcli: Callable[..., Any], argv: tuple, what: str) -> None:
    ran = gradcli(argv[0], "--json", *argv[1:])
    assert ran.exit_status == 2
    assert ran.stderr == ""
    assert ran.json["schema"] == "gradcli.error/1"
    assert set(ran.json["error"]) == {"kind", "message", "where", "hint"}
    assert what in ran.json["error"]["message"]


@for_rows("asked", [("--format", "json"), ("--format=json",), ("--format", "ndjson"), ("--json",)])
def test_every_way_to_ask_for_data_gets_an_error_document(gradcli: Callable[..., Any], asked: tuple) -> None:
    assert gradcli("check", "sine(x)", *asked).json["error"]["hint"] == "did you mean 'sin'?"


def test_repeated_naming_makes_a_second_point_that_inherits(gradcli: Callable[..., Any]) -> None:
    ran = gradcli("check", "x*y", "x=1", "y=2", "x=3", *QUICK, "--json")
    assert [point["at"] for point in ran.json["points"]] == [{"x": 1.0, "y": 2.0}, {"x": 3.0, "y": 2.0}]


def test_options_and_arguments_make_points_together(gradcli: Callable[..., Any]) -> None:
    ran = gradcli("check", "x*y", "--at", "x=1, y=2", "x=3", "y=4", *QUICK, "--json")
    assert [point["at"] for point in ran.json["points"]] == [{"x": 1.0, "y": 2.0}, {"x": 3.0, "y": 4.0}]


@pytest.mark.parametrize("command", ["grad", "trace"])
def test_one_point_is_the_first(gradcli: Callable[..., Any], command: str) -> None:
    assert gradcli(command, "x*2", "x=1", "x=3", "--json").json["at"] == {"x": 1.0}


def test_several_targets_share_the_point_and_get_a_line_each(gradcli: Callable[..., Any]) -> None:
    found = gradcli("check", "x**2", "sin(x)", "x=1", *QUICK, "--json").json
    assert [(check["id"], check["document"]["points"][0]["at"]) for check in found["checks"]] == [
        ("x**2", {"x": 1.0}),
        ("sin(x)", {"x": 1.0}),
    ]


@pytest.mark.parametrize("word", ["--help", "-h"])
def test_help_is_written_to_standard_output(gradcli: Callable[..., Any], word: str) -> None:
    ran = gradcli(word)
    assert ran.exit_status == 0
    assert all(
        command in ran.stdout for command in ("check", "compare-modes", "trace", "grad", "find", "init", "modes", "ops")
    )


@pytest.mark.parametrize(
    "command", ["check", "compare-modes", "trace", "grad", "find", "init", "modes", "ops", "schema"]
)
def test_every_command_has_help(gradcli: Callable[..., Any], command: str, capfd: pytest.CaptureFixture[str]) -> None:
    ran = gradcli(command, "--help")
    shown = ran.stdout + capfd.readouterr().out
    assert ran.exit_status == 0
    assert "--help" in shown and "Traceback" not in shown


def test_no_arguments_ask_for_help(gradcli: Callable[..., Any], capfd: pytest.CaptureFixture[str]) -> None:
    ran = gradcli()
    assert "compare-modes" in ran.stdout + capfd.readouterr().out
    assert ran.stderr == ""


@for_rows("argv", [("--version",), ("-V",), ("check", "--version"), ("modes", "-V")])
def test_the_version_is_told(gradcli: Callable[..., Any], argv: tuple) -> None:
    ran = gradcli(*argv)
    assert (ran.exit_status, ran.stdout) == (0, "gradcli 0.1.0\n")


@for_rows("text", ["losses:focal", "losses.py:focal", "pkg.mod:f()", "a/b.py::f", "losses.py"])
def test_python_targets_are_named_as_such(gradcli: Callable[..., Any], text: str) -> None:
    ran = gradcli("check", text)
    assert ran.exit_status == 2
    assert "there is no" in ran.stderr
