"""Cost against size: exponents of what theory knows, predictions marked, and sizes that are not run."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gradcli.commands.check import Wanted, request
from gradcli.commands.request import Ask
from gradcli.errors import BadOption, TooLarge
from gradcli.report.growth import Cell, Growth, Row
from gradcli.study import growth as study
from gradcli.study.growth import growth
from gradcli.verify.build import Settings
from tests.source.test_loading import written

TAME = "sum(tanh(W@x/n)**2)"
AT = ("W=randn(n,n), x=randn(n)",)
DEEP = """
    def deep(x, depth=4):
        for _ in range(depth):
            x = np.tanh(x)
        return np.sum(x)
"""
DECADES = (16, 64, 256)


def grown(
    target: str, at: tuple[str, ...], name: str, sizes: tuple[int, ...], modes: str, wrt: str = "x", **options: Any
) -> Growth:
    settings = Settings(modes=modes, mode_timeout=options.pop("mode_timeout", 10.0))
    return growth(
        name, sizes, lambda n: request(Ask(target, at, wrt=wrt), Wanted(settings, sizes={name: n})), **options
    )


@pytest.fixture(name="wide", scope="module")
def _wide() -> Growth:
    return grown(TAME, AT, "n", DECADES, "reverse,forward,complex-step,fd")


@pytest.fixture(name="deep", scope="module")
def _deep(tmp_path_factory: pytest.TempPathFactory) -> Growth:
    file = written(tmp_path_factory.mktemp("nets"), DEEP)
    return grown(f"{file}:deep", ("x=linspace(-1, 1, 2000)",), "depth", (32, 128, 512), "reverse")


def picked(found: Growth, mode: str, pick: Callable[[Cell], Any]) -> list[Any]:
    return [pick(row.modes[mode]) for row in found.rows]


# Width: evaluations and memory


@pytest.mark.parametrize(("mode", "calls"), [("reverse", [1, 1, 1]), ("forward", DECADES), ("complex-step", DECADES)])
def test_evaluations_are_exact(wide: Growth, mode: str, calls: list[int]) -> None:
    assert picked(wide, mode, lambda c: c.evaluations) == list(calls)
    assert wide.exponents[mode].evaluations == pytest.approx(0.0 if mode == "reverse" else 1.0, abs=1e-9)


def test_differences_take_evaluations_for_each_entry(wide: Growth) -> None:
    assert wide.exponents["finite-difference"].evaluations == pytest.approx(
        1, abs=0.25
    )  # of few entries, values near each are looked at too
    for row in wide.rows:
        assert 4 * row.size <= row.modes["finite-difference"].evaluations <= 40 * row.size


def test_entries_and_sizes_are_told(wide: Growth) -> None:
    assert [(row.size, row.entries, row.predicted) for row in wide.rows] == [(n, n, False) for n in DECADES]


def test_a_gradient_takes_two_to_four_times_the_operations_whatever_the_size(wide: Growth) -> None:
    assert all(2 <= (row.operations_ratio or 0) <= 4 for row in wide.rows)
    assert any(said.startswith("One reverse sweep takes 2") for said in wide.messages)


def test_memory_grows_with_the_matrix() -> None:
    found = grown("sum(tanh(W@x/n)**2)", AT, "n", (100, 200, 400), "reverse", wrt="W")
    assert found.exponents["reverse"].peak_bytes == pytest.approx(2, abs=0.15)  # the gradient is a matrix
    assert found.exponents["reverse"].evaluations == 0


def test_no_checkpointing_of_short_programs(wide: Growth) -> None:
    assert all("checkpointed" not in row.modes for row in wide.rows)


# Depth


@pytest.mark.parametrize(("mode", "power"), [("reverse", 1.0), ("checkpointed", 0.5)])
def test_memory_in_depth(deep: Growth, mode: str, power: float) -> None:
    assert deep.exponents[mode].peak_bytes == pytest.approx(power, abs=0.15)


def test_recomputing_runs_f_twice_and_holds_less(deep: Growth) -> None:
    assert picked(deep, "checkpointed", lambda c: c.evaluations) == [2, 2, 2]
    saved = [row.modes["reverse"].peak_bytes / row.modes["checkpointed"].peak_bytes for row in deep.rows]
    assert saved == sorted(saved) and saved[-1] > 5
    assert all(row.recomputing_time for row in deep.rows)
    assert any("sqrt(L) segments" in said for said in deep.messages)


def test_f_alone_needs_no_more_for_being_deep(deep: Growth) -> None:
    assert max(row.f_peak_bytes for row in deep.rows) < 1.2 * min(row.f_peak_bytes for row in deep.rows)


# What is not run


def test_a_mode_that_would_take_too_long_is_predicted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study, "QUICK", 0.05)
    found = grown("sum(tanh(x))", ("x=randn(n)",), "n", (10, 100_000), "reverse,forward")
    forward, reverse = found.rows[1].modes["forward"], found.rows[1].modes["reverse"]
    assert not found.rows[1].predicted
    assert (forward.predicted, forward.evaluations) == (True, 100_000)
    assert (reverse.predicted, reverse.evaluations) == (False, 1)
    assert found.exponents["forward"].evaluations is None  # of one measured size


BIG = [10**5, 10**6, 10**8]  # 10 billion entries and more: 75 GiB


@pytest.mark.parametrize("n", BIG)
def test_a_size_that_does_not_fit_is_predicted(n: int) -> None:
    found = grown(TAME, AT, "n", (10, 20, n), "reverse,forward")
    last = found.rows[-1]
    assert (last.size, last.entries, last.predicted, last.operations_ratio) == (n, n, True, None)
    assert all(cell.predicted for cell in last.modes.values())
    assert (last.modes["forward"].evaluations, last.modes["reverse"].evaluations) == (n, 1)
    assert any(said.startswith(f"n={n:,} was not run: ") for said in found.messages)


def test_a_size_for_which_memory_is_not_there_is_refused_before_it_is_allocated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gradcli.source.limits.memory_bytes", lambda: 2**20)
    found = grown(TAME, AT, "n", (10, 20, 3000), "reverse")
    assert found.rows[-1].predicted
    assert (
        "n=3,000 was not run: an array of 9,000,000 entries does not fit into the memory that is free."
        in found.messages
    )


def test_what_f_itself_would_need_is_predicted_from_what_it_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study, "memory_bytes", lambda: 10**6)
    found = grown("sum(tanh(x)*x)", ("x=randn(n)",), "n", (1000, 4000, 200_000), "reverse")
    assert [row.predicted for row in found.rows] == [False, False, True]
    assert found.messages[-1].startswith("n=200,000 was not run: f would need about 0.00")


def test_a_record_that_does_not_fit_is_not_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study, "memory_bytes", lambda: 10**8)
    at = ("x=linspace(-1, 1, 10000)",)  # 80,000 bytes a level
    found = grown(f"{written(tmp_path, DEEP)}:deep", at, "depth", (20, 80, 1000), "reverse")
    assert [row.predicted for row in found.rows] == [False, False, True]
    assert found.rows[-1].modes["reverse"].peak_bytes == pytest.approx(8e7, rel=0.25)  # small sizes hold more beside it
    assert found.messages[-1].startswith("depth=1,000 was not run: its record would need about 0.06")


def test_a_first_size_that_does_not_fit_is_an_error() -> None:
    with pytest.raises(TooLarge, match="the result would have 10,000,000,000 entries"):
        grown(TAME, AT, "n", (10**5, 10**6), "reverse")


def test_after_the_time_is_over_sizes_are_predicted() -> None:
    found = grown("sum(tanh(x))", ("x=randn(n)",), "n", (10, 100, 1000), "reverse", timeout=1e-9)
    assert all(row.predicted for row in found.rows)
    assert [said.partition(":")[2] for said in found.messages] == [" 1e-09 s are over."] * 3


def test_a_size_whose_evaluation_would_take_too_long_is_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [Row(n, n, n * 1e-3, 100 * n, {}, False) for n in (10, 100)]
    assert study._why_not(rows, 10**4, math.inf, 60.0) == "one evaluation of f would take about 10 s"
    assert study._why_not(rows, 10**3, math.inf, 60.0) is None


@pytest.mark.parametrize("sizes", [(10,), (10, 10), ()])
def test_one_size_says_nothing_of_growth(sizes: tuple[int, ...]) -> None:
    with pytest.raises(BadOption, match="--sizes needs two sizes at least") as error:
        grown("sum(x**2)", ("x=randn(n)",), "n", sizes, "reverse")
    assert error.value.do == "--sizes n=10,100,1000"


# Arithmetic of rows


def row(n: int, predicted: bool = False, **seconds: float) -> Row:
    cells = {name.replace("_", "-"): Cell(1, s, s, None, predicted) for name, s in seconds.items()}
    return Row(n, n, 1.0, None, cells, predicted)


# fmt: off
CROSSINGS = [  # rows                                                                      faster, slower, size, predicted
    ([row(10, forward=1, reverse=2),       row(1000, forward=4, reverse=2)],               [("reverse", "forward", 100, False)]),
    ([row(10, forward=1, reverse=2),       row(1000, True, forward=4, reverse=2)],         [("reverse", "forward", 100, True)]),
    ([row(10, forward=1, reverse=2),       row(1000, forward=1, reverse=2)],               []),
    ([row(10, forward=1, reverse=2),       row(20, forward=3, reverse=2), row(40, forward=1, reverse=2)],
                                           [("forward", "reverse", 25.83, False), ("reverse", "forward", 15.49, False)]),
    ([row(10, forward=1),                  row(1000, forward=4, reverse=2)],               []),
    ([row(10, forward=1, checkpointed=2),  row(1000, forward=4, checkpointed=2)],          []),
]
POWERS = [
    ((10, 100),        (3.0, 300.0),             2.0),
    ((10, 100, 1000),  (5.0, 5.0, 5.0),          0.0),
    ((1, 10, 100, 1000), (9.0, 1.0, 10.0, 100.0), 1.0),  # the largest three
    ((10,),            (3.0,),                   None),
    ((10, 100),        (0.0, 3.0),               None),
]
# fmt: on


@pytest.mark.parametrize(("rows", "expected"), CROSSINGS)
def test_crossings(rows: list[Row], expected: list[tuple]) -> None:
    found = [(c.faster, c.slower, c.predicted) for c in study._crossings(rows)]
    assert sorted(found) == [(a, b, p) for a, b, _, p in expected]
    sizes = {(c.faster, c.slower): c.size for c in study._crossings(rows)}
    assert sizes == pytest.approx({(a, b): n for a, b, n, _ in expected}, rel=0.01)


@pytest.mark.parametrize(("sizes", "ys", "power"), POWERS)
def test_powers(sizes: tuple, ys: tuple, power: float | None) -> None:
    assert study._exponent(sizes, ys) == (None if power is None else pytest.approx(power, abs=1e-9))


def test_predictions_follow_the_last_two_figures() -> None:
    rows = [row(1, forward=1.0), row(10, forward=10.0), row(100, forward=1000.0)]
    assert study._extrapolated([r.size for r in rows], [r.modes["forward"].seconds for r in rows], 1000) == 1e5


def test_modes_that_evaluate_f_for_each_entry_take_as_many_more() -> None:
    cell = study._predicted("forward", [row(10, forward=20.0)], 40, entries=40, f_seconds=3.0)
    assert (cell.evaluations, cell.seconds, cell.relative_time, cell.predicted) == (4, 240.0, 80.0, True)


def test_a_program_that_returns_a_constant_has_nothing_to_recompute(tmp_path: Path) -> None:
    code = """
        def flat(x, depth):
            for _ in range(depth):
                x = np.tanh(x)
            return 3.0
    """
    found = grown(f"{written(tmp_path, code)}:flat", ("x=ones(3)",), "depth", (20, 40), "reverse")
    assert found.exponents["reverse"].evaluations == 0


# fmt: off
MEMORY = [
    # sizes         bytes                                     at      predicted
    ((10, 30, 100), [10_000 + 16*n*n for n in (10, 30, 100)], 2000,   10_000 + 16*2000**2),
    ((10, 30, 100), [5_000 + 8*n for n in (10, 30, 100)],     2000,   5_000 + 8*2000),
    ((10, 100),     [80, 800],                                1000,   8000),
    ((1, 2, 3),     [7, 7, 7],                                50,     7),
]
# fmt: on


@pytest.mark.parametrize(("sizes", "bytes_", "n", "expected"), MEMORY)
def test_memory_grows_above_what_all_sizes_hold(sizes: tuple, bytes_: list, n: int, expected: float) -> None:
    assert study._bytes(sizes, list(map(float, bytes_)), n) == pytest.approx(expected, rel=1e-3)


def test_a_crossing_says_which_is_quicker_from_where_on() -> None:
    from gradcli.report.growth import Crossing, Growth

    found = Growth("n", (), {}, (Crossing("reverse", "forward", 39.0, True),), ()).blocks()
    assert [block.text for block in found] == ["From about n=39 on reverse is quicker than forward, by prediction."]


def test_predicted_figures_are_drawn_apart_and_colours_stay() -> None:
    cells = [
        {"forward": Cell(n, float(n), 1.0, None, n == 30), "reverse": Cell(1, 1.0, 1.0, 8 * n, False)}
        for n in (10, 20, 30)
    ]
    rows = tuple(Row(n, n, 1.0, 8, c, False) for n, c in zip((10, 20, 30), cells, strict=True))
    seconds, memory = Growth("n", rows, {}, (), ()).pictures()
    assert [(one.name, len(one.points), one.guide) for one in seconds.series] == [
        ("forward", 2, False), ("reverse", 3, False), ("forward, predicted", 2, True),
    ]  # fmt: skip
    assert [one.name for one in memory.series] == ["forward", "reverse"]
