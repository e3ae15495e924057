"""The table of options: what a replayed command says is read back, and nothing on `check` is forgotten by it."""

import itertools
from typing import Any

import numpy as np
import pytest

from gradcli.errors import BadOption
from gradcli.request.option_values import seed
from gradcli.request.options import (
    ALL,
    DEFAULTS,
    ROWS,
    SERVES,
    Option,
    Options,
    hint_in_python,
    hint_in_suite,
    keyword_options,
    options_from_keywords,
    options_of_command,
    words_to_repeat,
)  # fmt: skip
from gradcli.request.target_text import Pick
from tests.rows import for_rows

NOT_REPLAYED = {  # what says where a report goes, how a line of standard input is read, or which of several checks are run
    "allow_python", "save_point", "format", "json", "out", "direction", "quiet", "verbose", "color", "traceback",
    "select", "last_failed", "changed", "changed_since", "profile", "list_only", "exit_first", "workers", "executor",
    "cache", "baseline", "update_baseline", "recorded", "patch", "watch",
}  # fmt: skip
NO_KEYWORD = NOT_REPLAYED | {  # Python has the values themselves, and a process of its own
    "allow_inconclusive", "at", "points", "require_claim", "shapes", "threads", "timeout",
}  # fmt: skip
SAMPLES: dict[str, Any] = {
    "at": ("x=1", "y=[1, 2]"),
    "seed": 7,
    "shapes": ("W: 3 4",),
    "bounds": {"k": (0.0, float("inf")), "x": (-1e-3, 2.0)},
    "scale": {"x": 1e-3},
    "assume": ("S: spd", "y: simplex"),
    "sizes_check": {"n": (1, 2, 31), "b": (2,)},
    "timeout": 90.0,
    "mode_timeout": 0.5,
    "diagnose": 5.0,
    "pick": Pick("loss", "dw"),
    "loss": "mean",
    "rank_timeout": 2.0,
    "shard": "W: 1, b: 0",
    "framework": "torch",
    "expect": frozenset({"straight-through"}),
    "same_as": frozenset({"eager", "vmap"}),
    "allow": frozenset({"kink", "no-second-witness"}),
}
BY_KIND: dict[Any, Any] = {str: "a, b", int: 2, float: 1e-3, bool: True}
CHECK = [row for row in options_of_command("check") if row.name not in NOT_REPLAYED]
names = lambda row: row.name


def sample(row: Option) -> Any:
    return SAMPLES.get(row.name, BY_KIND[row.kind])


def read_back(row: Option, words: tuple[str, ...]) -> Any:
    """Return the value that the command line reads from the words of one option."""
    texts = [text for flag, text in itertools.pairwise(words) if flag == row.flag]
    if row.kind is bool:
        return row.flag in words
    return row.value(texts if row.repeated else row.kind(texts[0]))


@for_rows("row", CHECK, ids=names)
def test_a_replayed_option_is_read_back(row: Option) -> None:
    words = words_to_repeat(Options(**{row.name: sample(row)}))
    assert read_back(row, words) == sample(row) != row.default


def test_every_option_of_a_check_is_replayed_or_only_says_where_it_goes() -> None:
    silent = {row.name for row in options_of_command("check") if row.write is None}
    assert silent == NOT_REPLAYED, f"write= in the row, or a name in NOT_REPLAYED: {silent ^ NOT_REPLAYED}"
    assert words_to_repeat(DEFAULTS) == ("--seed", "0")


def test_every_option_of_a_check_is_a_keyword_of_python_or_belongs_to_the_command_line() -> None:
    without = {row.name for row in options_of_command("check") if row.take is None}
    assert without == NO_KEYWORD, f"take= in the row, or a name in NO_KEYWORD: {without ^ NO_KEYWORD}"


def test_a_spelling_means_one_option_of_a_command() -> None:
    for command in (*ALL, *SERVES):
        flags = [flag for row in options_of_command(command) for flag in row.flags]
        assert len(flags) == len(set(flags))
    assert all(set(row.on) <= {*ALL, *SERVES} for row in ROWS)


@for_rows("row", keyword_options(), ids=names)
def test_pythons_keywords_are_the_options(row: Option) -> None:
    value = {"order": 2, "expect": ["straight-through"], "allow": ["kink"]}.get(row.name, sample(row))
    taken = getattr(options_from_keywords({row.name: value}), row.name)
    assert taken == (frozenset(value) if isinstance(value, list) else value)


LIMITED = [
    ("stress_points", -5,  "stress_points= takes a whole number from 1 to 100000, not -5"),
    ("stress_points", "9", None),
    ("order",         3,   "order= takes a whole number from 1 to 2, not 3"),
    ("rtol",          -1.0, "rtol= takes a number of at least 0, not -1.0"),
    ("budget",        2.5, "budget= takes a whole number of at least 1, not 2.5"),
]  # fmt: skip


@for_rows(("name", "value", "says"), LIMITED)
def test_pythons_numbers_have_the_limits_of_the_command_line(name: str, value: Any, says: str | None) -> None:
    if says is None:
        assert getattr(options_from_keywords({name: value}), name) == int(value)
        return
    with pytest.raises(BadOption) as refused:
        options_from_keywords({name: value})
    assert refused.value.what == says


# fmt: off
WHOLE = "takes a whole number or 'random', not"
MOST = "takes at most 18446744073709551615 (64 bits), not"
BAD_SEEDS = [
    ("foo",        f"{WHOLE} 'foo'"),
    ("",           f"{WHOLE} ''"),
    ("-1",         f"{WHOLE} '-1'"),
    ("1.5",        f"{WHOLE} '1.5'"),
    ("1e3",        f"{WHOLE} '1e3'"),
    ("0x10",       f"{WHOLE} '0x10'"),
    ("\u0663",     f"{WHOLE} '\u0663'"),
    ("Random",     f"{WHOLE} 'Random'"),
    (str(2**64),   f"{MOST} '18446744073709551616'"),
    ("9" * 5000,   f"{MOST} '{'9' * 40}'"),
    (-1,           f"{WHOLE} '-1'"),
    (2**64,        f"{MOST} '18446744073709551616'"),
    (1.0,          f"{WHOLE} '1.0'"),
    (True,         f"{WHOLE} 'True'"),
    (None,         f"{WHOLE} 'None'"),
]
# fmt: on


@for_rows(("given", "says"), BAD_SEEDS, ids=lambda given: str(given)[:20])
def test_a_bad_seed_is_refused(given: Any, says: str) -> None:
    for flag, do in (("--seed", "write --seed 0"), ("seed=", "write seed=0")):
        with pytest.raises(BadOption) as caught:
            seed(flag, given)
        assert (caught.value.what, caught.value.do) == (f"{flag} {says}", do)


@for_rows("given", [0, "0", " 7 ", "007", 2**64 - 1, str(2**64 - 1), np.int64(5), np.uint64(2**64 - 1)])
def test_a_seed_is_a_number_of_64_bits(given: Any) -> None:
    found = seed("--seed", given)
    assert (found, type(found)) == (int(given), int)


def test_a_random_seed_is_drawn_once() -> None:
    first, second = seed("--seed", "random"), seed("seed=", "random")
    assert first != second and Options(seed=first).seed_is_random and not Options(seed=int(first)).seed_is_random
    assert seed("--seed", first) is first
    assert words_to_repeat(Options(seed=first)) == ("--seed", str(int(first)))


@for_rows(
    ("given", "error", "says"),
    [
        ({"rtoll": 1.0}, TypeError, "rtoll"),
        ({"quiet": True}, TypeError, "quiet"),
        ({"order": 3}, BadOption, "order"),
        ({"grad": "x", "jac": "x"}, TypeError, "two claims"),
        ({"allow": ["knik"]}, BadOption, "knik"),
        ({"seed": "many"}, BadOption, "seed= takes a whole number or 'random', not 'many'"),
    ],
)
def test_bad_keywords_are_refused(given: dict[str, Any], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        options_from_keywords(given)


@for_rows(
    ("text", "suite", "python"),
    [
        ('--at "x=randn(3)"', 'at = ["x=randn(3)"]', "at='x=randn(3)'"),
        ("it fits y: --wrt y, or leave --rtol 1e-3 out", 'it fits y: wrt = "y", or leave rtol = 1e-3 out', "it fits y: wrt='y', or leave rtol=1e-3 out"),
        ("the others: --wrt x,W", 'the others: wrt = "x,W"', "the others: wrt='x,W'"),
        ("--pick value=0,grad=1", 'pick = "value=0,grad=1"', "pick='value=0,grad=1'"),
        ("for second derivatives: --hess or --hvp", "for second derivatives: hess or hvp", "for second derivatives: hess= or hvp="),
        ("add --value-and-grad", "add value-and-grad = true", "add value_and_grad=True"),
        ("accept it: --allow kink", 'accept it: allow = ["kink"]', "accept it: allow='kink'"),
        ("name it by --wrt", "name it by wrt", "name it by wrt="),
        ("gradcli check -k f --diagnose 60s", "gradcli check -k f --diagnose 60s", "gradcli check -k f --diagnose 60s"),
        ("pip install --upgrade torch", "pip install --upgrade torch", "pip install --upgrade torch"),
    ],
)  # fmt: skip
def test_hints_are_in_the_language_of_the_place(text: str, suite: str, python: str) -> None:
    assert (hint_in_suite(text), hint_in_python(text)) == (suite, python)


def test_of_several_unknown_names_the_first_is_named() -> None:
    with pytest.raises(BadOption, match="does not know 'one'"):
        options_from_keywords({"expect": "one,two,three,four,five,six,seven,eight"})
