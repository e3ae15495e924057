"""Claims that are right at the given point: wrong elsewhere, right everywhere, or inaccurate elsewhere."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradcli as gc
from gradcli.checks.lost_digits import find_digit_loss
from gradcli.report.check import stress_blocks
from gradcli.report.point_report import StressReport
from gradcli.targets.expression import Expression
from gradcli.words import Verdict
from tests.rows import for_rows

Gradcli = Callable[..., Any]

CAPPED = """\
import numpy as np


def f(x):
    return np.sum(np.minimum(x, {cap}) ** 2)


def g(x):
    return 2 * x
"""
FLOOR = """\
import numpy as np


def f(x):
    return np.log(np.maximum(x @ x, 1e-8))


def g(x):
    return 2 * x / (x @ x)
"""
BATCH = """\
import numpy as np


def f(W, X):
    return np.mean(np.sum((X @ W) ** 2, axis=1))


def g(W, X):
    return 2 * X.T @ (X @ W) / 3
"""
LABELS = """\
import numpy as np


def f(z, label):
    return z[label] ** 2


def g(z, label):
    out = np.zeros_like(z)
    out[1] = 2 * z[1]
    return out
"""
CALLED = """\
import numpy as np

LOW, HIGH = 337.0, 338.0


def weight(number):
    return 3.0 if LOW < number < HIGH else 1.0


def cost(numbers):
    return sum(weight(number) * number for number in numbers)


def f(x):
    return cost(x.tolist())


def g(x):
    return np.ones_like(x)
"""
TABLE = """\
import numpy as np

LEVELS = np.array([-40.0, 10.0, 337.0, 338.0])


def f(x):
    return sum(3 * v if LEVELS[2] < v < LEVELS[3] else v for v in x.tolist())


def g(x):
    return np.ones_like(x)
"""
STATE = """\
import numpy as np

LEVELS = np.array([-4.0, 1.0, 6.0])


class Cost:
    slopes = {"low": 1.0, "high": 3.0}

    def __call__(self, x):
        return np.sum(np.where(x < LEVELS[2], self.slopes["low"] * x, self.slopes["high"] * x))

    def grad(self, x):
        return np.full_like(x, self.slopes["low"])


cost = Cost()
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def stressed(gradcli: Gradcli, source: str, at: str, *more: str, names: tuple[str, str] = ("f", "g")) -> Any:
    Path("claimed.py").write_text(source)
    command = ("check", f"claimed.py:{names[0]}", "--grad", f"claimed.py:{names[1]}", "--at", at)
    assert gradcli(*command).exit_status == 0
    return gradcli(*command, "--stress", "--json", *more)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "at", "names"),
    [
        (CAPPED.format(cap=40.0), "x=[1, 2]", ("f", "g")),
        (CAPPED.format(cap=1e5), "x=[1, 2]", ("f", "g")),
        (FLOOR, "x=[1, 2]", ("f", "g")),
        (BATCH, "W=[[1,2],[3,4]], X=[[1,2],[0.5,1],[-1,1]]", ("f", "g")),
        (LABELS, "z=[1,2,3], label=int(1)", ("f", "g")),
        (STATE, "x=[1, 2]", ("cost", "cost.grad")),
        (
            CALLED,
            "x=[1, 2]",
            ("f", "g"),
        ),  # the trace ends before a comparison, so that its numbers are read from the code
        (TABLE, "x=[1, 2]", ("f", "g")),
    ],
)
def test_a_claim_that_is_wrong_elsewhere_fails_with_that_point(
    gradcli: Gradcli, here: Path, source: str, at: str, names: tuple[str, str]
) -> None:
    ran = stressed(gradcli, source, at, names=names)
    assert ran.exit_status == 1, ran.stdout
    last = ran.json["points"][-1]
    assert (last["name"], last["verdict"]) == ("hard point", "fail") and ran.json["points"][0]["verdict"] == "pass"
    assert ran.json["stress"]["wrong"] >= 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("f", "claim", "at"),
    [
        ("sum(maximum(x, 0))", "where(x > 0, 1, 0)", "x=[1, -2]"),
        ("log(sum(exp(x - max(x)))) + max(x)", "softmax(x)", "x=[1, -2, 0.5]"),
        ("sqrt(sum(x**2))", "x/sqrt(sum(x**2))", "x=[3, 4]"),
        ("x**2*y", "x=2*x*y, y=x**2", "x=1.5, y=2"),
        ("sum(log1p(exp(-abs(x))) + maximum(x, 0))", "1/(1 + exp(-x))", "x=[0.5, -2]"),
    ],
)
def test_a_right_claim_passes_at_hard_points_too(gradcli: Gradcli, f: str, claim: str, at: str) -> None:
    ran = gradcli("check", f, "--grad", claim, "--at", at, "--stress", "--json")
    assert ran.exit_status == 0, ran.stdout
    stress = ran.json["stress"]
    assert stress["wrong"] == 0 and stress["right"] > 50
    assert stress["points"] == stress["right"] + stress["skipped"] + stress["wrong"]


def test_an_overflow_to_nan_is_wrong(gradcli: Gradcli) -> None:
    ran = gradcli(
        "check", "sum(logaddexp(0, x))", "--grad", "exp(x)/(1 + exp(x))", "--at", "x=[0.3, -2]", "--stress", "--json"
    )
    assert ran.exit_status == 1 and ran.json["points"][-1]["diagnosis"]["kind"] == "non-finite"


INACCURATE = (
    ("sum(exp(x) - x)", "exp(x) - 1", "expm1(x)"), ("sum(x - sin(x))", "1 - cos(x)", "2*sin(x/2)**2"),
    ("sum((1 + x)*log1p(x) - x)", "log(1 + x)", "log1p(x)"), ("sum(tanh(x))", "1 - tanh(x)**2", "1/cosh(x)**2"),
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("f", "claim", "better"), INACCURATE)
def test_an_inaccurate_claim_is_named_with_the_line_and_what_to_write(
    gradcli: Gradcli, f: str, claim: str, better: str
) -> None:
    command = ("check", f, "--grad", claim, "--at", "x=[0.7, 1.5]", "--bounds", "x=-0.9:15", "--stress", "--json")
    ran = gradcli(*command)
    (found,) = [f for f in ran.json["points"][0]["findings"] if f["kind"] == "inaccurate"]
    assert ran.exit_status == 0 and "right digits at x = " in found["message"] and found["hint"] == f"write {better}"
    assert found["source"]
    if claim == INACCURATE[0][1]:
        assert gradcli(*command, "--digits", "6").exit_status == 1


def test_digits_count_at_the_given_point_without_a_search(gradcli: Gradcli) -> None:
    command = ("check", "sum(exp(x) - x)", "--grad", "exp(x) - 1", "--at", "x=[1e-9]", "--rtol", "1e-3", "--digits")
    assert gradcli(*command, "9").exit_status == 1
    assert gradcli(*command, "5").exit_status == 0


@pytest.mark.parametrize(
    ("f", "claim"), [("sum(sin(x))", "cos(x)"), ("sum((x - mean(x))**2)", "2*(x - mean(x))"), ("sum(x**3)", "3*x**2")]
)
def test_what_the_inputs_leave_uncertain_is_not_held_against_the_claim(gradcli: Gradcli, f: str, claim: str) -> None:
    ran = gradcli("check", f, "--grad", claim, "--at", "x=[1, 2, 4]", "--stress", "--json")
    assert ran.exit_status == 0 and not [f for f in ran.json["points"][0]["findings"] if f["kind"] == "inaccurate"]


RAISES = """\
import numpy as np


def f(x):
    return np.sum(x**2)


def g(x):
    if np.any(x > 50):
        raise ValueError("too large")
    return 2 * x
"""


def test_a_claim_that_raises_where_f_is_smooth_is_an_error_with_the_point(gradcli: Gradcli, here: Path) -> None:
    ran = stressed(gradcli, RAISES, "x=[1, 2]")
    assert ran.exit_status == 2
    assert "too large" in ran.json["error"]["message"] and "at the hard point x = " in ran.json["error"]["message"]


@for_rows(
    ("words", "says"),
    [
        (("x**2", "--at", "x=2", "--digits", "3"), "--digits counts"),
        (("x**3", "--hess", "6*x", "--at", "x=2", "--stress"), "--stress is for gradients"),
        (("x**2", "--grad", "2*x", "--at", "x=-2", "--assume", "x: positive"), "does not hold at the point"),
        (("x**2", "--grad", "2*x", "--at", "x=2", "--stress", "--assume", "x: spd"), "cannot be spd"),
        (("x**2", "--grad", "2*x", "--at", "x=2", "--stress", "--sizes-check", "n"), "--sizes-check takes"),
        (("x**2", "--grad", "2*x", "--at", "x=2", "--stress", "--sizes-check", "n=a"), "--sizes-check takes"),
    ],
)
def test_what_cannot_be_asked_is_refused(gradcli: Gradcli, words: tuple[str, ...], says: str) -> None:
    ran = gradcli("check", *words)
    assert ran.exit_status == 2 and says in ran.stderr


NARROW = """\
import numpy as np


def f(x):
    return np.sum(np.sqrt(x**2 + 1e-20))


def right(x):
    return x / np.sqrt(x**2 + 1e-20)


def counted(x):
    levels = np.round(x * 1e9).astype(np.int32 if x.dtype == np.float32 else np.int64) if x.dtype == np.float32 else x * 1e9
    return (levels / 1e9) / np.sqrt(x**2 + 1e-20)
"""


@pytest.mark.parametrize(("claim", "count"), [pytest.param("right", 0, marks=pytest.mark.slow), ("counted", 1)])
def test_a_claim_that_loses_digits_on_float32_inputs_alone_is_named(
    gradcli: Gradcli, here: Path, claim: str, count: int
) -> None:
    ran = stressed(gradcli, NARROW, "x=[3, -4.5]", names=("f", claim))
    assert ran.exit_status == 0
    found = [
        f for f in ran.json["points"][0]["findings"] if f["message"].startswith("on float32 inputs the claim of x")
    ]
    assert len(found) == count and all(f["kind"] == "inaccurate" for f in found)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("f", "of", "line", "better"),
    [
        ("sum(1 - cos(x))", "value", "1 - cos(x)", "2*sin(x/2)**2"),
        ("sum(log(1 + exp(x)))", "value", "log(1 + exp(x))", "log1p(x)"),
        ("log(sum(exp(x)))", "reverse", None, None),
    ],
)
def test_without_a_claim_the_digits_of_f_and_of_each_mode_are_counted(
    gradcli: Gradcli, f: str, of: str, line: str | None, better: str | None
) -> None:
    ran = gradcli("check", f, "--at", "x=[0.5, -1.2, 0.8]", "--stress", "--json", *(() if line else ("--digits", "4")))
    assert ran.exit_status == (0 if line else 1), ran.stdout
    stress = ran.json["stress"]
    fewest = {each["of"]: each["digits"] for each in stress["fewest"]}
    assert fewest[of] < 1 and fewest["finite-difference"] < 1
    assert stress["right"] > 100 and stress["points"] == stress["right"] + stress["skipped"]
    named = [x for x in ran.json["points"][0]["findings"] if x["kind"] == "inaccurate"]
    about = "f keeps" if of == "value" else f"the gradient by {of} keeps"
    (found,) = [x for x in named if x["message"].startswith(about)]
    if line:
        assert found["source"] == line and found["hint"] == f"write {better}"


def test_products_with_a_jacobian_keep_the_sizes_of_their_weights(gradcli: Gradcli, tmp_path: Path) -> None:
    file = tmp_path / "tanh.py"
    file.write_text(
        "import numpy as np\n\ndef f(x):\n    return np.tanh(x)\n\ndef g(x, w):\n    return w / np.cosh(x)**2\n"
    )
    sizes = ("--shapes", "x: n", "--sizes-check", "n=1,2,5", "--stress-points", "60")
    ran = gradcli("check", f"{file}:f", "x=[0.3, 0.5]", "--vjp", "g", *sizes, "--json")
    assert (ran.json["verdict"], ran.json["stress"]["wrong"]) == ("pass", 0)


def test_digits_that_the_inputs_leave_open_are_not_demanded_at_hard_points(gradcli: Gradcli) -> None:
    """At x = 1e300 no digit of cos(1e6*x) is known from x, and at 0.01 twelve are."""
    claim = ("--grad", "1e6*cos(1e6*x)", "--stress-points", "200", "--digits", "14")
    ran = gradcli("check", "sin(1e6*x)", "x=1.2345678", *claim)
    assert ran.exit_status == 0, ran.stdout


@pytest.mark.slow
def test_without_a_claim_a_function_that_keeps_its_digits_has_no_finding(gradcli: Gradcli) -> None:
    ran = gradcli("check", "sum(x**2)", "--at", "x=[0.5, -1.2, 0.8]", "--stress", "--digits", "12", "--json")
    assert ran.exit_status == 0 and {x["of"] for x in ran.json["stress"]["fewest"]} == {"finite-difference"}
    text = gradcli("check", "sum(x**2)", "--at", "x=[0.5, -1.2, 0.8]", "--stress").stdout
    assert "the right value and gradient are known at" in text and "gradient by finite-difference" in text


def test_without_a_claim_a_function_that_is_not_traced_is_refused(gradcli: Gradcli, here: Path) -> None:
    Path("f.py").write_text("def f(x):\n    return float(str(float(x) ** 2))\n")
    ran = gradcli("check", "f.py:f", "--at", "x=2", "--stress")
    assert ran.exit_status == 2 and "--stress without a claim compares with certified values" in ran.stderr


def test_what_is_assumed_of_an_input_holds_at_every_point(gradcli: Gradcli) -> None:
    command = (
        "check",
        "-sum(y*log(softmax(z)))",
        "--grad",
        "softmax(z) - y",
        "--wrt",
        "z",
        "--at",
        "z=[1,2,3], y=[0,0,1]",
    )
    assert gradcli(*command, "--stress", "--assume", "y: simplex").exit_status == 0


def test_the_number_of_points_is_that_of_the_option(gradcli: Gradcli) -> None:
    ran = gradcli("check", "x**2", "--grad", "2*x", "--at", "x=2", "--stress", "--stress-points", "17", "--json")
    assert ran.json["stress"]["points"] == 17


def test_python_has_the_same_options() -> None:
    f, g = lambda x: np.sum(np.where(x > 3, x, 3.0)), lambda x: np.ones_like(x)
    assert gc.check(f, np.array([4.0, 5.0]), grad=g).passed
    report = gc.check(f, np.array([4.0, 5.0]), grad=g, stress=True)
    assert not report.passed and report.points[-1].name == "hard point"


def test_a_seed_gives_the_same_document(gradcli: Gradcli) -> None:
    command = ("check", "sum(minimum(x, 9)**2)", "--grad", "2*x", "--at", "x=[1, 2]", "--stress", "--json")
    first, second = (gradcli(*command).json for _ in range(2))
    assert first["points"][-1]["at"] == second["points"][-1]["at"] and first["stress"] == second["stress"]


CANCELS = """\
import numpy as np


def f(x):
    return 2 * np.sin(x / 2) ** 2 / x**2


def g(x):
    return (x * np.sin(x) - 2 * (1 - np.cos(x))) / x**3
"""


@pytest.mark.slow
def test_an_error_that_rounding_explains_is_inaccurate_and_not_wrong(gradcli: Gradcli, here: Path) -> None:
    ran = stressed(gradcli, CANCELS, "x=1.3", "--bounds", "x=1e-6:10")
    assert ran.exit_status == 0, ran.stdout
    assert "inaccurate" in {f["kind"] for f in ran.json["points"][0]["findings"]}


def test_the_digits_that_an_operation_loses_are_counted() -> None:
    x = 1e-10
    lost = find_digit_loss(Expression("(1 + x) - 1"), ("x",), {"x": np.float64(x)})
    assert lost is not None and lost.name == "subtract"
    assert lost.digits == pytest.approx(16 + np.log10(abs((1 + x) - 1 - x) / x), abs=0.1)


@for_rows(("skipped", "says"), [(1, "; 1 was left out, where f"), (2, "; 2 were left out, where f")])
def test_points_that_are_left_out_are_counted_in_words(skipped: int, says: str) -> None:
    assert says in str(stress_blocks(StressReport(6, 4, skipped, 0), Verdict.PASS))
