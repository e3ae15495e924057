"""`gradcli compare-modes` through the program: text that fits, documents that validate, pictures, and what it refuses."""

import csv
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from jsonschema import Draft202012Validator

from gradcli.process.workers import WORKERS
from tests.rows import for_rows
from tests.targets.test_loading import written

Gradcli = Callable[..., Any]
ANSI = "\x1b["
COLUMNS = "columns: digits, median, bound, held, calls, time/f, seconds, ops, adds, mults, fn, memory, sweeps"
DTYPES = "dtypes: float64, float32, float16, bfloat16, float8_e4m3fn, float8_e5m2, longdouble"
QUICK = ("--modes", "certified,forward,reverse,fd")
FEW = ("--modes", "forward,reverse")
EXAMPLE = ("sin(x*y) + exp(-x**2)", "x=0.5", "y=1.2")
LAYER = ("sum(tanh(W@x/n)**2)", "--at", "W=randn(n,n), x=randn(n)", "--wrt", "x")
LOSS = ("mean((X@w - y)**2)", "--at", "X=randn(8,3), y=randn(8), w=randn(3)", "--wrt", "w")
NET = """
    def deep(x, depth=4):
        for _ in range(depth):
            x = np.tanh(x)
        return np.sum(x)
"""


@pytest.fixture(autouse=True)
def _no_process_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no command start sympy's process ahead of need."""
    monkeypatch.setattr(WORKERS, "start", lambda: None)


# fmt: off
RUNS = {
    "plain":           (0, (*EXAMPLE, *QUICK)),
    "cost":            (0, (*EXAMPLE, *QUICK, "--cost")),
    "columns":         (0, (*EXAMPLE, *QUICK, "--columns", "ops,seconds,memory")),
    "all columns":     (0, (*EXAMPLE, *QUICK, "--columns", COLUMNS.partition(": ")[2])),
    "sizes":           (0, (*LAYER, *QUICK, "--sizes", "n=5,10")),
    "many sizes":      (0, (*LAYER, *FEW, "--sizes", "n=2,4,8,16,32", "--cost")),
    "too large sizes": (0, (*LAYER, *FEW, "--sizes", "n=5,10,1000000")),
    "low precision":   (0, ("sum(exp(x))", "x=[1, 12]", *QUICK, "--dtype", "float16,float32")),
    "loss scaling":    (0, ("sum(x*x)*2**-12", "x=[1e-5, 1]", *QUICK, "--dtype", "float16", "--loss-scale", "10")),
    "accumulation":    (0, (*LOSS, *FEW, "--accumulate", "4")),
    "Hessian":         (0, ("x**3*y", "x=2", "y=3", *QUICK, "--order", "2")),
    "Jacobian":        (0, ("[x*y, x]", "x=2", "y=3", *QUICK, "--jacobian")),
    "right claim":     (0, ("x**2", "x=3", "--grad", "2*x", *QUICK)),
    "wrong claim":     (1, ("x**2", "x=3", "--grad", "x", *QUICK)),
    "partial claim":   (0, ("x**2*y", "x=3", "y=2", "--grad", "x=2*x*y", *QUICK)),
    "wrong Jacobian":  (1, ("[x*y, x]", "x=2", "y=3", "--jac", "x=[y, 2], y=[x, 0]", *QUICK)),
    "right Hessian":   (0, ("x**3", "x=2", "--hess", "6*x", *QUICK)),
    "no subgradient":  (3, ("abs(x)", "x=0", "--grad", "1.5", *QUICK)),
    "kink":            (0, ("abs(x)", "x=0", *QUICK)),
    "not finite":      (3, ("log(x)", "x=0", *QUICK, "--cost")),
    "a constant":      (0, ("2**3", *QUICK, "--cost")),
    "unsupported":     (0, ("abs(x)", "x=1", "--modes", "cs,fwd", "--cost")),
    "large":           (0, ("sum(x**2)", "x=arange(3000)", *FEW, "--cost")),
    "drawn":           (0, ("sin(x)*y", "--seed", "3", *FEW)),
}
# fmt: on
CASES = [pytest.param(status, argv, id=name) for name, (status, argv) in RUNS.items()]


@pytest.fixture(name="valid", scope="module")
def _valid() -> Callable[[Any], None]:
    from tests.conftest import gradcli

    schema = gradcli("schema", "compare-modes").json
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema).validate


@pytest.mark.slow
@pytest.mark.parametrize(("status", "argv"), CASES)
def test_documents_validate(gradcli: Gradcli, valid: Callable[[Any], None], status: int, argv: tuple) -> None:
    ran = gradcli("compare-modes", *argv, "--json")
    assert (ran.exit_status, ran.stderr) == (status, "")
    valid(ran.json)
    assert ran.json["exit_status"] == status


@for_rows("width", ["60", "80", "120"], parts=9)
@for_rows(("status", "argv"), CASES)
def test_text_fits(gradcli: Gradcli, status: int, argv: tuple, width: str) -> None:
    ran = gradcli("compare-modes", *argv, environ={"COLUMNS": width})
    assert (ran.exit_status, ran.stderr) == (status, "")
    assert max(map(len, ran.stdout.splitlines())) <= int(width)
    assert ANSI not in ran.stdout


def words(gradcli: Gradcli, *argv: str, width: str = "80") -> str:
    return " ".join(gradcli("compare-modes", *argv, environ={"COLUMNS": width}).stdout.split())


@pytest.mark.parametrize("width", ["60", "80"])
def test_no_column_is_lost_when_it_is_narrow(gradcli: Gradcli, width: str) -> None:
    text = words(gradcli, *EXAMPLE, *QUICK, "--columns", COLUMNS.partition(": ")[2], width=width)
    table = text.partition("digits: right in")[0]
    assert all(f" {name} " in table for name in COLUMNS.partition(": ")[2].split(", "))


@pytest.mark.parametrize("width", ["80", "60"])
def test_no_figure_is_cut_off(gradcli: Gradcli, width: str) -> None:
    """exp(12) overflows in float16, and that entry is not finite."""
    text = words(gradcli, "sum(exp(x))", "x=[1, 12]", *FEW, "--dtype", "float16", width=width)
    assert "overflow" in text and "finite" in text.split("error against")[0]


@for_rows(
    ("environ", "options", "coloured"),
    [({}, (), False), ({"NO_COLOR": "1"}, (), False), ({"FORCE_COLOR": "1"}, (), True), ({"FORCE_COLOR": "1"}, ("--no-color",), False)],
)  # fmt: skip
def test_colour(gradcli: Gradcli, environ: dict[str, str], options: tuple[str, ...], coloured: bool) -> None:
    assert (ANSI in gradcli("compare-modes", *EXAMPLE, *FEW, *options, environ=environ).stdout) is coloured


def test_colour_says_nothing_that_words_do_not(gradcli: Gradcli) -> None:
    assert "NO" in words(gradcli, "x**2", "x=3", "--grad", "2.002*x", *QUICK).split()


# Columns


def test_columns_are_those_asked_for_in_that_order(gradcli: Gradcli) -> None:
    lines = gradcli("compare-modes", *EXAMPLE, *FEW, "--columns", "ops,digits").stdout.splitlines()
    assert "mode     ops  digits" in [line.strip() for line in lines]
    assert "  ops: scalar operations; digits: right in the worst entry" in lines


def test_cost_counts_operations_by_kind(gradcli: Gradcli) -> None:
    modes = gradcli("compare-modes", *EXAMPLE, *QUICK, "--cost", "--json").json["modes"]
    kinds = ("additions", "multiplications", "transcendental", "operations", "evaluations")
    found = {name: tuple(mode.get(kind) for kind in kinds) for name, mode in modes.items()}
    assert found["reverse"] == (3, 9, 3, 15, 1)
    assert found["forward"] == (8, 18, 6, 32, 2)  # twice (4, 9, 3)
    calls = found["finite-difference"][4]
    assert found["finite-difference"] == (2 * calls, 2 * calls, 2 * calls, 6 * calls, calls)
    assert all(mode["peak_bytes"] > 0 for name, mode in modes.items() if name != "certified")


def test_the_formula_has_three_sizes(gradcli: Gradcli) -> None:
    text = words(gradcli, *EXAMPLE, "--modes", "certified,symbolic,reverse")
    assert "The derivative as a formula has 11 operations, 9 with common subexpressions named, 15 as a program." in text


# Sizes


def test_sizes_name_what_is_drawn(gradcli: Gradcli) -> None:
    document = gradcli("compare-modes", *LAYER, *FEW, "--sizes", "n=8,4", "--json").json
    growth = document["growth"]
    assert (growth["name"], [row["size"] for row in growth["rows"]]) == ("n", [4, 8])
    assert len(document["at"]["x"]) == 4 and document["at"]["n"] == 4  # the comparison is made at the smallest
    assert [row["modes"]["forward"]["evaluations"] for row in growth["rows"]] == [4, 8]
    assert growth["exponents"]["forward"]["evaluations"] == pytest.approx(1)


def test_shapes_take_sizes_too(gradcli: Gradcli) -> None:
    argv = (
        "compare-modes",
        "sum(tanh(W@x))",
        "--shapes",
        "W: 3 n; x: n",
        "--wrt",
        "W",
        *FEW,
        "--sizes",
        "n=2,6",
        "--json",
    )
    assert [row["entries"] for row in gradcli(*argv).json["growth"]["rows"]] == [6, 18]


@pytest.mark.slow
def test_a_size_may_be_a_parameter(process: Gradcli, tmp_path: Path) -> None:
    """In a process of its own, where memory is that of the function alone."""
    argv = ("compare-modes", f"{written(tmp_path, NET)}:deep", "--at", "x=linspace(-1, 1, 5000)", "--modes", "reverse")
    found = process(*argv, "--sizes", "depth=20,80", "--json").json["growth"]
    assert [row["entries"] for row in found["rows"]] == [5000, 5000]
    assert found["exponents"]["reverse"]["peak_bytes"] == pytest.approx(1, abs=0.15)
    assert found["exponents"]["checkpointed"]["peak_bytes"] < 0.65


def test_predictions_are_exact_and_estimates_are_marked(gradcli: Gradcli) -> None:
    text = words(gradcli, *LAYER, *FEW, "--sizes", "n=5,10,1000000", width="120")
    assert "forward 5 10 1,000,000 n^1.00" in text and "reverse 1 1 1 n^0.00" in text
    assert "inputs 240 880 8,000,008,000,000" in text and "gradient 40 80 8,000,000" in text
    assert "~ estimated from the sizes that were run; what was not run is otherwise counted on the program" in text
    assert (
        "n=1,000,000 was not run: f and its record take 16,000,056,000,000 bytes; the limit is 1,073,741,824." in text
    )


def test_one_size_that_runs_is_enough_for_counts(gradcli: Gradcli) -> None:
    text = words(gradcli, *LAYER, *FEW, "--sizes", "n=5,7e10", width="120")
    assert "forward 5 70,000,000,000 n^1.00" in text and "reverse 1 1 n^0.00" in text


@pytest.mark.parametrize("spelling", ["70000000000", "70_000_000_000", "7e10", "7.0E+10"])
def test_large_sizes_are_counted_in_json(gradcli: Gradcli, valid: Callable[[Any], None], spelling: str) -> None:
    ran = gradcli("compare-modes", "sum(x**2)", "x=randn(n)", *QUICK, "--sizes", f"n=3,{spelling}", "--json")
    valid(ran.json)
    last = ran.json["growth"]["rows"][-1]
    assert (last["size"], last["run"], last["predicted"], last["input_bytes"]) == (7 * 10**10, False, True, 560 * 10**9)
    modes = last["modes"]
    assert {name: (mode["evaluations"], mode["predicted"]) for name, mode in modes.items() if name != "finite-difference"} == {
        "forward": (7 * 10**10, True), "reverse": (1, True),
    }  # fmt: skip
    assert (
        "evaluations" in modes["finite-difference"]["estimated"] and "evaluations" not in modes["reverse"]["estimated"]
    )
    assert modes["reverse"]["peak_bytes"] == modes["reverse"]["held_bytes"] + last["jacobian_bytes"] == 2 * 560 * 10**9


def test_a_hessian_is_called_one(gradcli: Gradcli) -> None:
    text = words(gradcli, "sum(x**3)", "x=randn(n)", *FEW, "--order", "2", "--sizes", "n=2,4", width="120")
    assert "evaluations of the gradient n=2" in text and "A Hessian takes one reverse sweep for each output (n)" in text
    assert "Jacobian" not in text and "evaluations of f n=2" not in text


@for_rows(
    ("size", "said"),
    [("0", "0"), ("2.5", "2.5"), ("1e-3", "1e-3"), ("1e14", "1e14"), ("nan", "nan"), ("1e999999999", "1e999999999")],
)
def test_a_size_that_is_none_is_named(gradcli: Gradcli, size: str, said: str) -> None:
    ran = gradcli("compare-modes", *LAYER, *FEW, "--sizes", f"n=5,{size}")
    assert ran.exit_status == 2 and f": {said} is not a whole number from 1 to 10^13" in ran.stderr


# Bad input

# fmt: off
ERRORS = [
    ((*EXAMPLE, "--columns", "digit"),                         "there is no column 'digit'",                         COLUMNS),
    ((*EXAMPLE, "--columns", "calls,memry"),                   "there is no column 'memry'",                         COLUMNS),
    ((*EXAMPLE, "--columns", ","),                             "--columns names no column",                          COLUMNS),
    ((*EXAMPLE, "--dtype", "float17"),                         "there is no dtype 'float17'",                        DTYPES),
    ((*EXAMPLE, "--dtype", ""),                                "--dtype names no format",                            "write --dtype float16,bfloat16"),
    ((*EXAMPLE, "--loss-scale", "4"),                          "--loss-scale is for low precision",                  "name one: --dtype float16"),
    (("[x, x]", "x=1", "--dtype", "float16"),                  "a loss is scaled, and this result is not a scalar",     "reduce it: sum(...)"),
    ((*EXAMPLE, "--jacobian"),                                 "--jacobian is for a vector result, and this one is a scalar", "for its Hessian: --order 2"),
    ((*LOSS, "--accumulate", "9"),                             "--accumulate 9 does not fit a batch of 8",           "--accumulate 2 to 8"),
    ((*LAYER, "--sizes", "n=10"),                              "--sizes needs two sizes at least",                   "--sizes n=10,100,1000"),
    ((*LAYER, "--sizes", "n=10,10"),                           "--sizes needs two sizes at least",                   "--sizes n=10,100,1000"),
    *(((*LAYER, "--sizes", text),                              f"--sizes takes NAME=SIZE,SIZE,..., not '{text}'",    "--sizes n=10,100,1000")
      for text in ("n", "n=", "=1,2", "n=0,1", "n=-1,2", "n=1,x", "2n=1,2", "n=1.5,2", "n=1,99999999999999", "10,100")),
    (("sum(x)", "x=randn(3)", "--sizes", "n=2,4"),             "--sizes varies 'n', which neither the point nor the target uses",             'use it: --at "x=randn(n)"'),
    (("n*x", "x=randn(n)", "n=3", "--sizes", "n=2,4"),         "'n' has a value in the point, and sizes in --sizes", "leave one out"),
    (("sum(x)", "--shapes", "x: 2.5"),                           "the sizes of x are not whole numbers: 2.5",            "values need numbers: --shapes W:3,4"),
    (("sum(x)", "x=randn(n)"),                                 "unknown value 'n'",                                  "values are numbers"),
    (("sum(x)", "x=randn(n, m)", "--sizes", "n=2,4"),          "unknown value 'm'",                                  "values are numbers"),
    ((*LAYER, "--sizes", "n=100000,1000000"),                  "the result would have 10,000,000,000 entries; the limit is 134,217,728", "use smaller arrays"),
    (("x", "2*y", "x=1"),                                      "this command takes one target, not 2",               "run it once for each"),
]
# fmt: on


@for_rows(("argv", "what", "do"), ERRORS)
def test_bad_input_gets_a_sentence(gradcli: Gradcli, argv: tuple, what: str, do: str) -> None:
    ran = gradcli("compare-modes", *argv, *FEW)
    assert (ran.exit_status, ran.stdout) == (2, "")
    assert ran.stderr.startswith(f"error: {what}") and f"\n  {do}" in ran.stderr


def test_a_loss_that_cannot_be_traced_has_no_low_precision(gradcli: Gradcli, tmp_path: Path) -> None:
    file = written(tmp_path, "def f(x): return x.__float__()**2")
    ran = gradcli("compare-modes", f"{file}:f", "x=2.0", "--modes", "fd", "--dtype", "float16")
    assert ran.exit_status == 2 and ran.stderr.startswith("error: float() of a traced value loses its derivative")


@pytest.mark.parametrize("text", ["sum(solve(A, x))", "sum(inv(A) @ x)"])
def test_singular_steps_of_the_sweep_are_left_out(gradcli: Gradcli, text: str) -> None:
    assert gradcli("compare-modes", text, "--at", "A=spd(3), x=randn(3)", *FEW).exit_status == 0


# Pictures and files


def drawn(path: Path) -> str:
    ElementTree.parse(path)
    return path.read_text()


@pytest.mark.slow
def test_pictures_of_digits_cost_and_errors(gradcli: Gradcli, tmp_path: Path) -> None:
    files = tmp_path / "modes.svg", tmp_path / "modes.png"
    argv = ("compare-modes", "sum(tanh(W@x))", "--at", "W=randn(3,4), x=randn(4)", *QUICK)
    assert gradcli(*argv, *[word for file in files for word in ("--plot", str(file))]).exit_status == 0
    image = drawn(files[0])
    for title in ("right digits of the worst entry", "time of a gradient"):
        assert f"<!-- {title} -->" in image
    for mode in ("forward", "reverse", "finite-difference"):
        assert f"<!-- {mode}: relative error of the entries of W, the largest ringed -->" in image
    assert "certified: relative error" not in image and "entries of x" not in image
    assert files[1].read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


@pytest.mark.slow
def test_pictures_tell_of_low_precision_and_of_modes_without_digits(gradcli: Gradcli, tmp_path: Path) -> None:
    file = tmp_path / "modes.svg"
    argv = ("sum(abs(x))", "x=[1, 2]", "--modes", "cert,cs,fwd", "--dtype", "float16", "--plot", str(file))
    assert gradcli("compare-modes", *argv).exit_status == 0
    assert "<!-- worst error of a gradient in low precision -->" in drawn(file)
    assert "<!-- digits -->" in drawn(file) and "none:" not in drawn(file)


@pytest.mark.slow
def test_pictures_of_a_jacobian_and_of_growth(gradcli: Gradcli, tmp_path: Path) -> None:
    file = tmp_path / "a.svg"
    assert gradcli("compare-modes", "tanh(x)", "x=[0.1, 0.5]", *QUICK, "--out", str(file)).exit_status == 0
    assert "reverse: relative error of the entries of x" in drawn(file)
    assert gradcli("compare-modes", *LAYER, *FEW, "--sizes", "n=3,6", "--plot", str(file)).exit_status == 0
    assert "memory of a gradient" in drawn(file)


def test_other_formats_hold_the_same(gradcli: Gradcli) -> None:
    argv = ("compare-modes", "sum(x**2)", "x=[1, 2]", *FEW)
    rows = list(csv.DictReader(io.StringIO(gradcli(*argv, "--format", "csv").stdout)))
    assert [(row["mode"], row["input"], row["index"], row["value"]) for row in rows] == [
        (mode, "x", k, g) for mode in ("forward", "reverse") for k, g in (("0", "2.0"), ("1", "4.0"))
    ]
    assert "| reverse |" in gradcli(*argv, "--format", "markdown").stdout
    assert gradcli(*argv, "--quiet").stdout == ""
