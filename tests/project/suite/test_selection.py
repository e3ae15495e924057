"""Which checks are selected."""

from pathlib import Path
from typing import Any

import pytest

from gradcli.errors import BadOption
from gradcli.project.suite import selection
from gradcli.project.suite.config import Suite, SuiteCheck
from gradcli.project.suite.job import job_of_check
from gradcli.targets.target_request import TargetRequest
from tests.rows import for_rows

IDS = ("focal", "huber", "huber-lost", "x**2 + y")
CHECKS = [SuiteCheck(name, TargetRequest(f"src/{name}.py:f")) for name in IDS]

# fmt: off
WANTED = [
    ("focal",                        [0]),
    ("FOCAL or huber",               [0, 1, 2]),
    ("huber and not lost",           [1]),
    ("not (focal or huber)",         [3]),
    ("'x**2 + y'",                   [3]),
    ("src/huber",                    [1, 2]),
    ("not not focal",                [0]),
    ("focal and focal or lost",      [0, 2]),
]
BROKEN = [("focal and", 9), ("(focal", 0), ("focal)", 5), ("", 0), ("or focal", 0), ("focal huber", 6), ("'focal", 0), ("()", 1)]
# fmt: on


@for_rows(("expression", "numbers"), WANTED)
def test_names_are_combined_as_in_pytest(expression: str, numbers: list[int]) -> None:
    assert selection.select_by_name(CHECKS, expression) == tuple(CHECKS[k] for k in numbers)


@for_rows(("expression", "column"), BROKEN)
def test_a_broken_expression_has_a_caret(expression: str, column: int) -> None:
    with pytest.raises(BadOption) as caught:
        selection.select_by_name(CHECKS, expression)
    where: Any = caught.value.where
    assert where.start == min(column, max(0, len(expression) - 1))


def test_nothing_selected_is_an_error() -> None:
    with pytest.raises(BadOption, match="no check is selected by -k 'nothing'"):
        selection.select_by_name(CHECKS, "nothing")


def test_every_id_is_named_by_the_command_that_repeats_it() -> None:
    for name in ("a\"b'c d", "it's", "and", "a\\b c", "(x)"):
        check = SuiteCheck(name, TargetRequest("f.py:f"))
        command = job_of_check(Suite(Path("gradcli.toml"), Path()), check).ask.command
        assert selection.select_by_name([*CHECKS, check], command[command.index("-k") + 1]) == (check,)


def test_a_shard_depends_on_the_id_alone() -> None:
    many = [f"check {k}" for k in range(300)]
    parts = [selection.ids_of_shard(many, (k, 3)) for k in (1, 2, 3)]
    assert frozenset().union(*parts) == frozenset(many) and sum(map(len, parts)) == 300
    assert min(map(len, parts)) > 60
    assert selection.ids_of_shard(many[:7], (2, 3)) == parts[1] & frozenset(many[:7])


def test_what_did_not_pass_and_what_was_not_reached_is_run_again() -> None:
    last = {"focal": {"verdict": "pass"}, "huber": {"verdict": "fail"}, "huber-lost": {"verdict": "not reached"}}
    assert [check.id for check in selection.select_not_passed(CHECKS, last)] == ["huber", "huber-lost", "x**2 + y"]
    with pytest.raises(BadOption, match="every check passed last time"):
        selection.select_not_passed(CHECKS[:1], last)
