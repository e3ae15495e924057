"""Cost against size: exponents of what theory knows, predictions marked, and sizes that are not run."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gradcli.checks.build import CheckOptions, Settings, request
from gradcli.errors import BadOption, TooLarge
from gradcli.report.growth import Cell, Growth, Row
from gradcli.request.options import Options
from gradcli.study import growth as prediction
from gradcli.study import growth as study
from gradcli.study.growth import growth
from gradcli.targets.target_request import TargetRequest
from tests.rows import for_rows
from tests.targets.test_loading import written

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
    target: str,
    at: tuple[str, ...],
    name: str,
    sizes: tuple[int, ...],
    modes: str,
    wrt: str = "x",
    mode_timeout: float = 10.0,
) -> Growth:
    settings = Settings(Options(modes=modes, mode_timeout=mode_timeout))
    return growth(
        name, sizes, lambda n: request(TargetRequest(target, at, wrt=wrt), CheckOptions(settings, sizes={name: n}))
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
    assert any(said.startswith("One reverse sweep takes 2") and "whatever n is" in said for said in wide.messages)


def test_memory_grows_with_the_matrix() -> None:
    found = grown("sum(tanh(W@x/n)**2)", AT, "n", (100, 200, 400), "reverse", wrt="W")
    assert found.exponents["reverse"].peak_bytes == pytest.approx(2, abs=0.15)  # the gradient is a matrix
    assert found.exponents["reverse"].evaluations == 0


def test_no_checkpointing_of_short_programs(wide: Growth) -> None:
    assert all("checkpointed" not in row.modes for row in wide.rows)


# Depth


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "power"), [("reverse", 1.0), ("checkpointed", 0.5)])
def test_memory_in_depth(deep: Growth, mode: str, power: float) -> None:
    assert deep.exponents[mode].peak_bytes == pytest.approx(power, abs=0.15)


@pytest.mark.slow
def test_recomputing_runs_f_twice_and_holds_less(deep: Growth) -> None:
    assert picked(deep, "checkpointed", lambda c: c.evaluations) == [2, 2, 2]
    saved = [row.modes["reverse"].peak_bytes / row.modes["checkpointed"].peak_bytes for row in deep.rows]
    assert saved == sorted(saved) and saved[-1] > 5
    assert all(row.recomputing_time for row in deep.rows)
    assert any("sqrt(L) segments" in said for said in deep.messages)


@pytest.mark.slow
def test_f_alone_needs_no_more_for_being_deep(deep: Growth) -> None:
    assert max(row.f_peak_bytes for row in deep.rows) < 1.2 * min(row.f_peak_bytes for row in deep.rows)


# What is not run


def test_a_mode_that_is_too_much_work_is_counted_and_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study, "MOST_WORK", 10**8)
    found = grown("sum(tanh(x))", ("x=randn(n)",), "n", (10, 100_000), "reverse,forward")
    forward, reverse = found.rows[1].modes["forward"], found.rows[1].modes["reverse"]
    assert found.rows[1].run and not found.rows[1].predicted
    assert (forward.predicted, forward.evaluations, forward.sweeps) == (True, 100_000, 100_000)
    assert (reverse.predicted, reverse.evaluations, reverse.sweeps) == (False, 1, 1)
    assert forward.estimated == ("seconds", "relative_time") and reverse.estimated == ()
    assert found.exponents["forward"].evaluations == pytest.approx(1)
    assert found.exponents["forward"].seconds is None  # of one measured size


def test_what_runs_does_not_depend_on_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count(step=1000)
    monkeypatch.setattr("time.perf_counter", lambda: float(next(clock)))
    found = grown("sum(tanh(x))", ("x=randn(n)",), "n", (10, 100, 1000), "reverse", mode_timeout=1e12)
    assert [row.run for row in found.rows] == [True] * 3
    assert all("reverse" in row.modes and not row.modes["reverse"].predicted for row in found.rows)


@for_rows("n", [10**5, 10**6, 10**8, 7 * 10**10])
def test_a_size_that_does_not_fit_is_predicted_exactly(n: int) -> None:
    found = grown(TAME, AT, "n", (10, 20, n), "reverse,forward,complex-step")
    last = found.rows[-1]
    assert (last.size, last.entries, last.run, last.predicted) == (n, n, False, True)
    assert (last.input_bytes, last.jacobian_bytes) == (8 * (n * n + n), 8 * n)
    assert all(cell.predicted for cell in last.modes.values())
    assert {mode: cell.evaluations for mode, cell in last.modes.items()} == {
        "reverse": 1, "forward": n, "complex-step": n,
    }  # fmt: skip
    assert last.modes["reverse"].held_bytes == 8 * (n * n + 4 * n)  # a copy of W; of W@x, /n, tanh and squares
    assert last.modes["complex-step"].operations == n * last.f_operations == n * (2 * n * n + 3 * n - 1)
    assert any(said.startswith(f"n={n:,} was not run: f and its record take ") for said in found.messages)


def test_bytes_of_seventy_billion_parameters() -> None:
    found = grown("sum(w**2)", ("w=randn(n)",), "n", (10, 7 * 10**10), "reverse,forward", wrt="w").rows[-1]
    assert (found.input_bytes, found.jacobian_bytes, found.modes["reverse"].held_bytes) == (560 * 10**9,) * 3
    assert (found.modes["reverse"].evaluations, found.modes["forward"].evaluations) == (1, 7 * 10**10)
    assert all(type(x) is int for x in (found.input_bytes, found.modes["reverse"].held_bytes))


# fmt: off
JACOBIANS = [  # target               at                              name, sizes        sweeps back          sweeps forward
    ("tanh(x)",           ("x=randn(n)",),                    "n",  (4, 9, 10**10),  (4, 9, 10**10),      (4, 9, 10**10)),
    ("[sum(x), x[0]]",    ("x=randn(n)",),                    "n",  (4, 9, 10**10),  (2, 2, 2),           (4, 9, 10**10)),
    ("W@x",               ("W=randn(n,3), x=randn(3)",),      "n",  (4, 9, 10**10),  (4, 9, 10**10),      (3, 3, 3)),
    ("outer(x, x)",       ("x=randn(n)",),                    "n",  (2, 3, 10**6),   (4, 9, 10**12),      (2, 3, 10**6)),
    ("sum(x)",            ("x=randn(n)",),                    "n",  (1, 2, 10**10),  (1, 1, 1),           (1, 2, 10**10)),
]
# fmt: on


@for_rows(("target", "at", "name", "sizes", "back", "forward"), JACOBIANS)
def test_a_jacobian_takes_a_sweep_for_each_output_or_entry(
    target: str, at: tuple, name: str, sizes: tuple, back: tuple, forward: tuple
) -> None:
    found = grown(target, at, name, sizes, "reverse,forward")
    assert picked(found, "reverse", lambda c: c.sweeps) == list(back)
    assert picked(found, "forward", lambda c: c.sweeps) == list(forward)
    assert picked(found, "reverse", lambda c: c.evaluations) == [1] * len(sizes)
    assert [row.jacobian_bytes for row in found.rows] == [8 * m * n for m, n in zip(back, forward, strict=True)]
    assert [row.outputs for row in found.rows] == list(back)
    told = [said for said in found.messages if "one reverse sweep for each output" in said]
    assert bool(told) is (back[0] != 1)


def test_the_jacobian_of_n_outputs_takes_n_times_the_operations_of_a_sweep() -> None:
    found = grown("tanh(x)", ("x=randn(n)",), "n", (4, 10**6), "reverse")
    for row in found.rows:
        assert row.operations_ratio == 4  # one call of tanh and three operations on the way back, for each entry
        assert row.modes["reverse"].operations == row.size + row.size * 3 * row.size
    assert any("(n), or one forward sweep for each entry of the inputs (n)" in said for said in found.messages)


CODE = """
    from gradcli import checkpoint
    def halves(x): return np.sum(x[::2] ** 2 * x[1::2])
    def blocks(x): return np.sum(np.sin(x.reshape(16, -1)))
    def few(x): return np.sum(x[:1000] ** 2)
    def hundred(x): return np.sum(x[:100] ** 2)
    def halving(x):
        while len(x) > 1:
            h = (len(x) + 1) // 2
            x = x[:h] * 2 + np.sum(x[h:])
        return np.sum(x)
    def positive(x): return np.sum(x[x > 0] ** 2)
    def other(x): return np.sum(x ** 2) if len(x) < 200 else np.sum(np.sin(x))
    def loop(x):
        s = 0.0
        for i in range(len(x)):
            s = s + x[i] ** 2
        return s
    def layer(x): return np.tanh(np.tanh(x))
    def stored(x, depth=4):
        for _ in range(depth):
            x = layer(x)
        return np.sum(x)
    def again(x, depth=4):
        for _ in range(depth):
            x = checkpoint(layer)(x)
        return np.sum(x)
"""


@pytest.fixture(name="code", scope="module")
def _code(tmp_path_factory: pytest.TempPathFactory) -> str:
    return written(tmp_path_factory.mktemp("code"), CODE)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "sizes"), [("halves", (10, 500)), ("blocks", (16, 1024)), ("loop", (3, 60)), ("hundred", (10, 880))]
)
def test_what_is_predicted_is_what_is_counted_when_it_is_run(
    code: str, name: str, sizes: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = grown(f"{code}:{name}", ("x=randn(n)",), "n", sizes, "reverse,forward").rows[-1]
    monkeypatch.setattr(study, "MOST_BYTES", 1)
    monkeypatch.setattr(study, "_ALWAYS", 1)
    predicted = grown(f"{code}:{name}", ("x=randn(n)",), "n", sizes, "reverse,forward").rows[-1]
    assert (ran.run, predicted.run) == (True, False)
    for field in ("entries", "outputs", "input_bytes", "jacobian_bytes", "f_operations", "operations_ratio"):
        assert getattr(ran, field) == getattr(predicted, field), field
    for mode in ("reverse", "forward"):
        for field in ("evaluations", "sweeps", "operations", "held_bytes"):
            assert getattr(ran.modes[mode], field) == getattr(predicted.modes[mode], field), (mode, field)


@pytest.mark.parametrize("name", ["few", "halving", "positive"])
def test_operations_that_follow_no_polynomial_are_not_predicted(code: str, name: str) -> None:
    found = grown(f"{code}:{name}", ("x=randn(n)",), "n", (10, 10**9), "reverse,forward")
    last = found.rows[-1]
    assert not last.run and last.f_operations is None and last.operations_ratio is None
    for mode, cell in last.modes.items():
        calls = {"reverse": 1, "forward": 10**9, "checkpointed": 2}  # what inputs and result decide alone
        assert cell.evaluations == calls[mode]
        assert cell.operations is cell.held_bytes is cell.peak_bytes is cell.seconds is None
    assert last.input_bytes == 8 * 10**9
    assert any("How many operations n=1,000,000,000 takes is not predicted" in said for said in found.messages)


def test_a_prediction_that_a_run_contradicts_is_not_used(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prediction, "MOST_TRIED", 0)  # so that no larger size is looked at
    found = grown(f"{code}:other", ("x=randn(n)",), "n", (10, 1000, 10**9), "reverse")
    assert found.rows[1].run and found.rows[-1].modes == {} and found.rows[-1].entries is None
    assert any(said.startswith("What n=1,000,000,000 takes is not predicted") for said in found.messages)


@pytest.mark.slow
def test_sizes_of_unknown_work_are_run_where_the_smaller_ones_promise_little(code: str) -> None:
    found = grown(f"{code}:positive", ("x=randn(n)",), "n", (10, 1000), "reverse,forward")
    assert [row.run for row in found.rows] == [True, True]


@pytest.mark.slow
def test_depth_beyond_any_tape_is_counted(code: str) -> None:
    found = grown(f"{code}:stored", ("x=linspace(-1, 1, 100)",), "depth", (4, 10**6), "reverse,forward")
    last = found.rows[-1]
    assert (last.run, last.f_operations) == (False, 2 * 10**8 + 99)
    assert last.modes["reverse"].held_bytes == 2 * 10**6 * 800
    assert last.modes["forward"].held_bytes == found.rows[0].modes["forward"].held_bytes  # it lets go what was used


@pytest.mark.slow
def test_a_checkpointed_sweep_runs_f_twice_and_holds_less(code: str) -> None:
    at = ("x=linspace(-1, 1, 100)",)
    stored, again = (grown(f"{code}:{name}", at, "depth", (4, 16, 10**6), "reverse") for name in ("stored", "again"))
    for a, b in zip(stored.rows, again.rows, strict=True):
        assert a.f_operations == b.f_operations
        assert (a.modes["reverse"].evaluations, b.modes["reverse"].evaluations) == (1, 2)
        recomputed = b.modes["reverse"].operations - a.modes["reverse"].operations
        assert recomputed == 200 * a.size  # both functions of each layer once more, the last sum not
        assert a.modes["reverse"].held_bytes == 2 * 800 * a.size
        assert b.modes["reverse"].held_bytes == 800 * a.size + 2 * 800  # one array a layer, and one layer's at a time


def test_a_size_for_which_memory_is_not_there_is_refused_before_it_is_allocated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gradcli.targets.limits.memory_bytes", lambda: 2**20)
    found = grown(TAME, AT, "n", (10, 20, 3000), "reverse")
    assert not found.rows[-1].run and found.rows[-1].predicted
    assert (
        "n=3,000 was not run: an array of 9,000,000 entries does not fit into the memory that is free."
        in found.messages
    )


@pytest.mark.slow
def test_a_record_that_does_not_fit_is_not_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study, "MOST_BYTES", 5 * 10**7)
    at = ("x=linspace(-1, 1, 10000)",)  # 80,000 bytes a level
    found = grown(f"{written(tmp_path, DEEP)}:deep", at, "depth", (20, 80, 1000), "reverse")
    assert [row.run for row in found.rows] == [True, True, False]
    assert found.rows[-1].modes["reverse"].held_bytes == 8 * 10**7
    assert found.messages[-1].startswith("depth=1,000 was not run: f and its record take 80,")


def test_a_first_size_that_does_not_fit_is_an_error() -> None:
    with pytest.raises(TooLarge, match="the result would have 10,000,000,000 entries"):
        grown(TAME, AT, "n", (10**5, 10**6), "reverse")


@pytest.mark.parametrize("sizes", [(10,), (10, 10), ()])
def test_one_size_says_nothing_of_growth(sizes: tuple[int, ...]) -> None:
    with pytest.raises(BadOption, match="--sizes needs two sizes at least") as error:
        grown("sum(x**2)", ("x=randn(n)",), "n", sizes, "reverse")
    assert error.value.do == "--sizes n=10,100,1000"


# Arithmetic of rows


def row(n: int, predicted: bool = False, **seconds: float) -> Row:
    cells = {
        name.replace("_", "-"): Cell(1, seconds=s, relative_time=s, predicted=predicted) for name, s in seconds.items()
    }
    return Row(n, not predicted, predicted, f_seconds=1.0, modes=cells)


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


@for_rows(("rows", "expected"), CROSSINGS)
def test_crossings(rows: list[Row], expected: list[tuple]) -> None:
    found = [(c.faster, c.slower, c.predicted) for c in study._crossings(rows)]
    assert sorted(found) == [(a, b, p) for a, b, _, p in expected]
    sizes = {(c.faster, c.slower): c.size for c in study._crossings(rows)}
    assert sizes == pytest.approx({(a, b): n for a, b, n, _ in expected}, rel=0.01)


@for_rows(("sizes", "ys", "power"), POWERS)
def test_powers(sizes: tuple, ys: tuple, power: float | None) -> None:
    assert study._exponent(list(zip(sizes, ys, strict=True))) == (
        None if power is None else pytest.approx(power, abs=1e-9)
    )


def test_a_program_that_returns_a_constant_has_nothing_to_recompute(tmp_path: Path) -> None:
    code = """
        def flat(x, depth):
            for _ in range(depth):
                x = np.tanh(x)
            return 3.0
    """
    found = grown(f"{written(tmp_path, code)}:flat", ("x=ones(3)",), "depth", (20, 40), "reverse")
    assert found.exponents["reverse"].evaluations == 0


def test_a_crossing_says_which_is_quicker_from_where_on() -> None:
    from gradcli.report.growth import Crossing, Growth

    found = Growth("n", (), {}, (Crossing("reverse", "forward", 39.0, True),), ()).blocks()
    assert [block.text for block in found] == ["From about n=39 on reverse is quicker than forward, by estimate."]


def test_predicted_figures_are_drawn_apart_and_colours_stay() -> None:
    cells = [
        {
            "forward": Cell(n, seconds=float(n), relative_time=1.0, predicted=n == 30),
            "reverse": Cell(1, seconds=1.0, relative_time=1.0, peak_bytes=8 * n),
        }
        for n in (10, 20, 30)
    ]
    rows = tuple(Row(n, True, entries=n, f_seconds=1.0, modes=c) for n, c in zip((10, 20, 30), cells, strict=True))
    seconds, memory = Growth("n", rows, {}, (), ()).pictures()
    assert [(one.name, len(one.points), one.guide) for one in seconds.series] == [
        ("forward", 2, False), ("reverse", 3, False), ("forward, predicted", 2, True),
    ]  # fmt: skip
    assert [one.name for one in memory.series] == ["forward", "reverse"]


def test_the_derivative_as_a_formula_swells(gradcli: Callable[..., Any]) -> None:
    rows = gradcli("compare-modes", "prod(sin(x))", "--at", "x=randn(n)", "--sizes", "n=2,4,8", "--json").json[
        "growth"
    ]["rows"]
    assert [row["formula"] for row in rows] == [6, 28, 120]
    assert [row["formula_shared"] for row in rows] == [6, 18, 52]
    assert [row["formula_program"] for row in rows] == [14, 34, 74]
    text = gradcli("compare-modes", "prod(sin(x))", "--at", "x=randn(n)", "--sizes", "n=2,4,8").stdout
    assert "common subexpressions named     6   18   52" in text
