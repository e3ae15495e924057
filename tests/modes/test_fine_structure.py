"""Functions that can only be called, with kinks and with structure finer than any usual step: no right claim fails."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradcli
from tests.checks.test_check import checked, kinds
from tests.rows import for_rows
from tests.targets.test_loading import written

Black = Callable[[float], float]


def verdict(f: Black, x: float, claim: float) -> tuple[str, list[str]]:
    """Return the verdict on a claimed slope of a function that is not traced, and the kinds of what leaves it open."""
    report = gradcli.check(
        lambda x: f(x.__float__()), {"x": np.float64(x)}, grad=lambda x: np.float64(claim), modes="fd"
    )
    return report.verdict, [f.kind for f in report.points[0].findings if f.severity == "inconclusive"]


# fmt: off
SYMMETRIC = [
    ("abs",           lambda x: abs(x)),
    ("small abs",     lambda x: math.cos(x) + 1e-9 * abs(x)),
    ("square root",   lambda x: abs(x) ** 0.5),
    ("x sin(1/x)",    lambda x: x * math.sin(1 / x) if x else 0.0),
    ("norm",          lambda x: math.hypot(x, 0.0)),
    ("two relus",     lambda x: max(x, 0.0) + max(-x, 0.0) + x * x),
    ("minus abs",     lambda x: 3.0 - 1e5 * abs(x)),
]
EVEN = [
    ("cos",           lambda x: math.cos(x)),
    ("square",        lambda x: x * x),
    ("fourth power",  lambda x: x ** 4),
    ("cube of abs",   lambda x: abs(x) ** 3),
    ("rounded abs",   lambda x: math.sqrt(x * x + 1e-20)),
    ("bell",          lambda x: math.exp(-x * x)),
    ("beside 1e6",    lambda x: 1e6 + x * x),
    ("constant",      lambda x: 2.5),
]
# fmt: on


@for_rows("f", [pytest.param(f, id=name) for name, f in SYMMETRIC])
def test_zero_by_symmetry_confirms_nothing(f: Black) -> None:
    assert verdict(f, 0.0, 0.0) == ("inconclusive", ["kink"])


@for_rows("f", [pytest.param(f, id=name) for name, f in EVEN])
def test_a_smooth_even_function_has_the_slope_zero(f: Black) -> None:
    assert verdict(f, 0.0, 0.0) == ("pass", [])


def test_the_kink_names_its_entry_and_both_slopes() -> None:
    def f(x: Any) -> float:
        return x[0].__float__() ** 2 + 2 * abs(x[1].__float__()) + x[1].__float__()

    report = gradcli.check(f, {"x": np.array([0.3, 0.0])}, grad=lambda x: np.array([2 * x[0], 1.0]), modes="fd")
    (kink,) = [f for f in report.points[0].findings if f.kind == "kink"]
    assert report.verdict == "inconclusive"
    assert "f has a kink at x[1]: its slope is -1 from the left and 3 from the right" in kink.message
    wrong = gradcli.check(f, {"x": np.array([0.3, 0.0])}, grad=lambda x: np.array([1.01 * x[0], 1.0]), modes="fd")
    assert wrong.verdict == "fail"


def test_one_output_of_several_has_a_kink() -> None:
    def f(x: Any) -> Any:
        return np.array([x.__float__() ** 2, abs(x.__float__()), math.sin(x.__float__())])

    report = gradcli.check(f, {"x": np.float64(0.0)}, jac=lambda x: np.array([0.0, 0.0, 1.0]), modes="fd")
    (kink,) = [f for f in report.points[0].findings if f.kind == "kink"]
    assert report.verdict == "inconclusive" and "output [1] by x" in kink.message


# fmt: off
WAVES = [
    # f                                                     at     slope at the smaller scale            at the larger
    (lambda x: x * x + 1e-7 * math.sin(1e7 * x),            0.7,   1.4 + math.cos(7e6),                  1.4),
    (lambda x: x * x + 1e-3 * math.sin(1e6 * x),            0.7,   1.4 + 1e3 * math.cos(7e5),            1.4),
    (lambda x: x * x + 1e-9 * math.sin(1e9 * x),            1.1,   2.2 + math.cos(1.1e9),                2.2),
    (lambda x: math.exp(x) + 1e-8 * math.cos(1e8 * x),      0.3,   math.exp(0.3) - math.sin(3e7),        math.exp(0.3)),
    (lambda x: x + 1e-6 * math.tanh(1e6 * (x - 1)),         1.0,   2.0,                                  1.0),
    (lambda x: x + 1e-8 * math.atan(1e9 * (x - 1)),         1.0,   11.0,                                 1.0),
]
# fmt: on


@for_rows(("f", "x", "small", "large"), WAVES, parts=2)
def test_a_claim_is_compared_with_both_slopes(f: Black, x: float, small: float, large: float) -> None:
    assert verdict(f, x, small)[0] == "pass"
    assert verdict(f, x, large) == ("inconclusive", ["fine-structure"])
    assert verdict(f, x, 1.01 * small + 0.01 * large)[0] == "fail"


def test_fine_structure_is_told_with_both_slopes_and_can_be_accepted(
    gradcli: Callable[..., Any], tmp_path: Path
) -> None:
    code = "import math\ndef f(x):\n    x = x.__float__()\n    return x*x + 1e-7*math.sin(1e7*x)\n"
    argv = ("check", f"{written(tmp_path, code)}:f", "x=0.7", "--grad", "2*x", "--modes", "fd")
    ran = gradcli(*argv, "--json")
    (finding,) = [f for f in ran.json["points"][0]["findings"] if f["kind"] == "fine-structure"]
    assert ran.exit_status == 3
    assert (
        "its slope is 0.59709 over steps of " in finding["message"] and "and 1.4 over steps of " in finding["message"]
    )
    assert gradcli(*argv, "--allow", "fine-structure").exit_status == 0
    assert gradcli(*argv, "--allow", "fine structure").exit_status == 0  # as the kind was written before


def test_jumps_of_rounding_are_no_fine_structure_where_f_is_level_between_them() -> None:
    single = np.float32
    for f in (lambda x: (single(2) * single(x) ** 2).__float__(), lambda x: ((1e6 + 4 * x) - 1e6) - 0.2):
        assert verdict(f, 0.7, 4 * 0.7 if f(0.0) == 0 else 4.0)[0] == "pass"
        assert verdict(f, 0.7, 2.0)[0] == "fail"


@for_rows(
    ("f", "wide"),
    [
        (lambda x: (np.float32(2) * np.float32(x) ** 2).__float__() + x,    4 * 0.7 + 1),
        (lambda x: x + ((1e6 + 4 * x) - 1e6) - 0.2,                  5.0),
        (lambda x: x * x + 3e-8 * ((2.3e7 * x + 0.1) % 1),           1.4),
        (lambda x: x * x + 3e-10 * ((2.3e8 * x + 0.2) % 1),          1.4),
    ],
)  # fmt: skip
def test_the_slope_between_jumps_is_told_from_the_one_across_them(f: Black, wide: float) -> None:
    said, kinds = verdict(f, 0.7, wide)
    assert said == "inconclusive" and "staircase" in kinds
    assert verdict(f, 0.7, 2.0 * wide + 1)[0] == "fail"


def drawn(kind: str, seed: int) -> tuple[Black, float, float, float | None]:
    """Return a function, a place, its slope there, and the slope over wide steps where that is another."""
    rng = np.random.default_rng([seed, 0xF1E])
    x = float(rng.choice([rng.uniform(-3, 3), rng.uniform(0.5, 2) * 10 ** rng.uniform(-4, 4)]))
    size, (a, b, c), phase = abs(x), rng.uniform(0.3, 2, 3), rng.uniform(0, 6)
    wide = (a * b * math.cos(b * x / size) + 2 * c * x / size) / size
    width = size * 10 ** rng.uniform(-10, -4)
    steep = float(rng.choice([-1, 1]) * 10 ** rng.uniform(-1, 3) * abs(wide))
    height, where = steep * width, float(rng.uniform(-1, 1))
    far = float(rng.choice([-1, 1]) * rng.uniform(7, 50))

    def tame(y: float) -> float:
        return a * math.sin(b * y / size) + c * (y / size) ** 2

    def with_(part: Black) -> Black:
        return lambda y: tame(y) + part((y - x) / width)

    found: dict[str, tuple[Black, float]] = {
        "tame": (tame, 0.0),
        "wave": (with_(lambda u: height * math.sin(u + phase)), steep * math.cos(phase)),
        "bump": (with_(lambda u: height * math.exp(-((u - where) ** 2))), 2 * where * steep * math.exp(-where * where)),
        "bend": (with_(lambda u: height * u * math.exp(-u * u)), steep),
        "bump beside": (with_(lambda u: height * math.exp(-((u - far) ** 2))), 0.0),
        "kink beside": (with_(lambda u: height * abs(u - far)), -steep * math.copysign(1.0, far)),
    }
    f, more = found[kind]
    return f, x, wide + more, wide if abs(more) > 0.1 * abs(wide + more) else None


KINDS = ("tame", "wave", "bump", "bend", "bump beside", "kink beside")


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_random_functions_never_make_right_claims_fail_nor_wrong_ones_pass(kind: str) -> None:
    passed = 0
    for seed in range(10):
        f, x, right, wide = drawn(kind, seed)
        found = verdict(f, x, right)
        assert found[0] != "fail", (seed, found)
        passed += found[0] == "pass"
        assert verdict(f, x, 1.02 * right)[0] != "pass", seed
        assert wide is None or verdict(f, x, wide)[0] != "pass", seed
    assert passed >= 8


# fmt: off
TRACED = [
    ("x*x + 1e-3*sin(1e6*x)",     "2*x + 1e3*cos(1e6*x)"),
    ("x*x + 1e-7*sin(1e7*x)",     "2*x + cos(1e7*x)"),
    ("exp(x) + 1e-9*cos(1e9*x)",  "exp(x) - sin(1e9*x)"),
    ("x + 1e-12*sin(1e12*x)",     "1 + cos(1e12*x)"),
]
# fmt: on


@pytest.mark.parametrize("modes", [("certified", "reverse", "finite-difference"), ("reverse", "finite-difference")])
@pytest.mark.parametrize(("text", "grad"), TRACED)
def test_fine_structure_of_a_traced_function_blames_no_rule(text: str, grad: str, modes: tuple[str, ...]) -> None:
    for x in ("x=0.3", "x=0.7", "x=1.9"):
        for claim in (None, grad):
            report = checked(text, x, claim, modes)
            assert report.verdict in ("pass", "inconclusive")
            assert not {"contradiction", "trace", "disagreement"}.intersection(kinds(report)), (x, kinds(report))
        assert checked(text, x, f"({grad})*1.1 + 0.3", modes).verdict != "pass"
