"""What the shell tears apart is one error with the text to paste; help has examples first, and options in groups."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from gradcli.request.options import options_of_command
from tests.rows import for_rows

# fmt: off
TORN = [
    (("x^2", "+", "y^2"),               'quote it: "x^2 + y^2"'),
    (("x^2", "+y^2"),                   'quote it: "x^2 +y^2"'),
    (("x^2+", "y^2", "y=3"),            'quote it: "x^2+ y^2" y=3'),
    (("sin(x)", "*", "y", "x=1"),       'quote it: "sin(x) * y" x=1'),
    (("sin(x)", "-", "y"),              'quote it: "sin(x) - y"'),
    (("sin(x)", "/", "y"),              'quote it: "sin(x) / y"'),
    (("x**2", "x", "=", "3"),           "write x=3, one word with one ="),
    (("x**2", "x=", "3"),               "write x=3, one word with one ="),
    (("x**2", "x", "=3"),               "write x=3, one word with one ="),
    (("x**2", "x==3"),                  "write x=3, one word with one ="),
    (("x**2", "x="),                    "write x=1, one word with one ="),
    (("x*y", "x=1", "y=2", "--wrt", "x", "y"), "write --wrt x,y"),
    (("x*y", "y"),                      "write y=1 for a value"),
    (("x**2", "--at", "x", "=", "3"),   "write --at x=3"),
    (("x*y", "3"),                      "write NAME=3 for a value"),
    (("x*y", "-", "x=1"),               'quote it: "x*y -" x=1'),
]
# fmt: on


@for_rows(("words", "do"), TORN)
def test_it_is_refused_with_the_text_to_paste(gradcli: Callable[..., Any], words: tuple[str, ...], do: str) -> None:
    ran = gradcli("check", *words)
    assert (ran.exit_status, ran.stdout) == (2, "")
    assert ran.stderr.splitlines()[-1].strip() == do


@pytest.mark.parametrize(
    "words", [("-x**2", "x=3"), ("x", "-x"), ("x**2", "x=[1, 2]"), ("x", "x/2", "x=1")], ids=" ".join
)
def test_words_that_belong_apart_are_targets_and_values(gradcli: Callable[..., Any], words: tuple[str, ...]) -> None:
    assert gradcli("check", *words, "--modes", "forward,finite-difference").exit_status == 0


def test_a_name_that_may_be_several_gets_a_note_but_under_quiet(gradcli: Callable[..., Any]) -> None:
    note = "note: xy is one name here; for a product write x*y\n"
    assert gradcli("derive", "xy*y").stderr == note
    assert gradcli("derive", "xy*y", "--quiet").stderr == ""


@pytest.mark.parametrize("argv", [("help",), ("help", "sweep"), ("help", "check")], ids=" ".join)
def test_help_is_a_command_too(gradcli: Callable[..., Any], argv: tuple[str, ...]) -> None:
    assert gradcli(*argv).stdout == gradcli(*argv[1:], "--help").stdout != ""


def test_help_of_a_command_that_is_not_there_names_a_near_one(gradcli: Callable[..., Any]) -> None:
    assert "did you mean 'sweep'?" in gradcli("help", "swep").stderr


@for_rows("command", ["check", "compare-modes", "sweep", "derive", "grad", "trace", "find", "ops", "explain"])
def test_examples_come_before_the_options(gradcli: Callable[..., Any], command: str) -> None:
    text = gradcli(command, "--help").stdout
    assert 0 < text.index("Examples:") < text.index("Arguments:") < text.index("\n\nOutput:")


def test_options_stand_in_groups(gradcli: Callable[..., Any]) -> None:
    lines = gradcli("check", "--help-all").stdout.splitlines()
    heads = [line for line in lines if line.endswith(":") and not line.startswith(" ")]
    assert heads == ["Arguments:", "Point:", "Claim:", "Hard points and repairs:", "Precision and limits:", "Frameworks:", "Several checks:",
                     "Programs:", "Output:", "Other:"]  # fmt: skip


def test_help_shows_what_people_use_and_help_all_everything(gradcli: Callable[..., Any]) -> None:
    short, whole = (gradcli("check", word).stdout for word in ("--help", "--help-all"))
    named = lambda text: {
        row.flag
        for row in options_of_command("check")
        if re.search(rf"(?m)^  (-\w, )?{row.flag.partition('/')[0]}(?![\w-])", text)
    }
    assert named(whole) == {row.flag for row in options_of_command("check") if not row.hidden}
    assert len(named(short)) <= 45 and "--executor" not in short and "--grad" in short
    assert f"{len(named(whole) - named(short))} more, which few people need" in short


def test_no_summary_of_a_command_is_cut(gradcli: Callable[..., Any]) -> None:
    assert "..." not in gradcli("--help").stdout.partition("Commands:")[2]


def test_the_shell_can_complete(process: Callable[..., Any]) -> None:
    asked = {"_GRADCLI_COMPLETE": "complete_bash", "COMP_WORDS": "gradcli sw", "COMP_CWORD": "1"}
    assert process(environ=asked).stdout.split() == ["sweep"]
