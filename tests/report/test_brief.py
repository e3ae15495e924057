"""Reports in ten lines at most: what they say first, and that they stay short whatever they report."""

import json
from pathlib import Path

import pytest

from gradcli.report.brief_of_check import LINES, Brief, brief_of, first_lines
from gradcli.report.check import CheckReport
from gradcli.report.encode import decode_document, encode
from tests.conftest import Ran, gradcli

WRONG = ("check", "sum(x**2)", "--grad", "x", "--at", "x=[1, 2, 3, 4, 5]")
SUITE = '[[check]]\nid = "c{}"\ntarget = "x**2"\ngrad = "{}"\nat = "x=3"\n'


def lines(*argv: str) -> list[str]:
    ran: Ran = gradcli(*argv, "--format", "brief")
    assert len(ran.stdout.splitlines()) <= LINES
    return ran.stdout.splitlines()


@pytest.mark.repairs
def test_a_wrong_claim_says_why_the_edit_and_the_command_on_its_first_line() -> None:
    first, *rest = lines(*WRONG)
    assert first.startswith("FAIL sum(x**2) dx: a factor 2 too small | edit: 2 * x | again: gradcli check 'sum(x**2)'")
    assert rest == [
        "  x[4]: 5 claimed, 10 right", "  x[3]: 4 claimed, 8 right", "  x[2]: 3 claimed, 6 right", "  2 more wrong entries",
        "  next: make the edit, and run the check again",
    ]  # fmt: skip


def test_a_pass_is_one_line() -> None:
    (line,) = lines("check", "x**2", "--grad", "2*x", "--at", "x=3")
    assert (
        line.startswith("PASS x**2: the claimed gradient is right to better than ")
        and " | again: gradcli check" in line
    )


def test_what_is_open_says_what_to_do() -> None:
    first, second = lines("check", "abs(x)", "x=0")
    assert first.startswith("INCONCLUSIVE abs(x): f has a kink at x = 0")
    assert second.endswith("accept it: --allow kink")


def test_several_have_a_line_for_each_that_did_not_pass_and_the_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("gradcli.toml").write_text("".join(SUITE.format(k, "x" if k else "2*x") for k in range(3)))
    *wrong, last = lines("check")
    assert [line.partition(":")[0] for line in wrong] == ["FAIL c1 dx", "FAIL c2 dx"]
    assert last.startswith("1 passed, 2 failed in ")
    Path("gradcli.toml").write_text("".join(SUITE.format(k, "x") for k in range(12)))
    *wrong, more, last = lines("check")
    assert (len(wrong), more, last[:9]) == (LINES - 2, "and 4 more that did not pass", "12 failed")


def test_an_error_among_several_has_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    first, last = lines("check", "x**2", "log(x", "x=3")
    assert first.startswith("ERROR log(x: ") and last.startswith("1 passed, 1 error in ")


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (("check", "nofile.py:f"), "there is no file nofile.py"),
        (("check", "sin(x"), "'(' was never closed"),
        (("check", "--nonsense"), "there is no option '--nonsense' for check"),
    ],
)
def test_an_error_is_one_line_of_standard_output_in_formats_by_lines(argv: tuple[str, ...], says: str) -> None:
    brief, document = (gradcli(*argv, "--format", form) for form in ("brief", "ndjson"))
    assert brief.exit_status == document.exit_status == 2 and brief.stderr == document.stderr == ""
    assert brief.stdout.startswith(f"ERROR gradcli: {says}") and brief.stdout.count("\n") == 1
    assert json.loads(document.stdout)["error"]["message"].startswith(says) and document.stdout.count("\n") == 1


def test_a_name_cannot_drive_a_terminal_or_begin_a_line() -> None:
    brief = Brief("c\x1b[31m\nFAIL", "error", "a\nb", (), 0, None, None, None, None, None, (), {}, None, "c\rd")
    assert brief.lines() == ("ERROR c␛[31m FAIL: a b | next: c␍d",)


@pytest.mark.parametrize(
    ("argv", "first"),
    [
        (("derive", "sum((X@w - y)**2)", "--shapes", "X: m n; w: n; y: m", "--wrt", "w"), "gradient by w: "),
        (("derive", "x**2", "--answer", "x"), "FAIL "),
        (("cost", "sum(tanh(W@x)**2)", "--shapes", "W: 3 4; x: 4"), "sum(tanh(W@x)**2)"),
        (("explain", "kink"), "kink: "),
        (("explain",), ""),
        (("find", "."), "0 of 0 hand-written gradients are checked"),
    ],
)
def test_other_commands_have_ten_lines_at_most(
    argv: tuple[str, ...], first: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert lines(*argv)[0].startswith(first)


def test_lines_that_are_left_out_are_counted() -> None:
    assert first_lines(["a"] * 10) == ("a",) * 10
    assert first_lines(["a"] * 12) == (*["a"] * 9, "and 3 more lines: another --format has all")


def test_it_is_made_from_the_document_and_is_one() -> None:
    report = decode_document(CheckReport, json.loads(gradcli(*WRONG, "--json").stdout))
    brief = brief_of(report)
    assert (brief.verdict, brief.cause, len(brief.wrong), brief.more) == ("fail", "a factor 2 too small", 5, 0)
    assert decode_document(Brief, encode(brief)) == brief
