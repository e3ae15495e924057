"""`gradcli compare-modes` through the program: text that fits, documents that validate, pictures, and what it refuses."""

import csv
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from jsonschema import Draft202012Validator

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


# fmt: off
RUNS = {
    "plain":           (0, (*EXAMPLE, *QUICK)),
    "cost":            (0, (*EXAMPLE, *QUICK, "--cost")),
    "columns":         (0, (*EXAMPLE, *QUICK, "--columns", "ops,seconds,memory")),
    "all columns":     (0, (*EXAMPLE, *QUICK, "--columns", COLUMNS.partition(": ")[2])),
    "steps":           (0, (*EXAMPLE, *QUICK, "--steps")),
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


def test_cost_adds_its_columns_to_the_table(gradcli: Gradcli) -> None:
    header = "adds  mults"
    assert header in gradcli("compare-modes", *EXAMPLE, *QUICK, "--cost").stdout
    assert header not in gradcli("compare-modes", *EXAMPLE, *QUICK).stdout


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


def test_sizes_of_before_are_taken_with_a_note(gradcli: Gradcli) -> None:
    ran = gradcli("compare-modes", *LAYER, *FEW, "--sizes", "n=4,8", "--json")
    assert len(ran.json["at"]["x"]) == 4 and "gradcli cost --sizes counts how costs grow" in ran.stderr


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
    (("sum(x)", "--shapes", "x: 2.5"),                           "the sizes of x are not whole numbers: 2.5",            "values need numbers: --shapes W:3,4"),
    (("sum(x)", "x=randn(n)"),                                 "unknown value 'n'",                                  "values are numbers"),
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
def test_pictures_of_a_jacobian(gradcli: Gradcli, tmp_path: Path) -> None:
    file = tmp_path / "a.svg"
    assert gradcli("compare-modes", "tanh(x)", "x=[0.1, 0.5]", *QUICK, "--out", str(file)).exit_status == 0
    assert "reverse: relative error of the entries of x" in drawn(file)


def test_other_formats_hold_the_same(gradcli: Gradcli) -> None:
    argv = ("compare-modes", "sum(x**2)", "x=[1, 2]", *FEW)
    rows = list(csv.DictReader(io.StringIO(gradcli(*argv, "--format", "csv").stdout)))
    assert [(row["mode"], row["input"], row["index"], row["value"]) for row in rows] == [
        (mode, "x", k, g) for mode in ("forward", "reverse") for k, g in (("0", "2.0"), ("1", "4.0"))
    ]
    assert "| reverse |" in gradcli(*argv, "--format", "markdown").stdout
    assert gradcli(*argv, "--quiet").stdout == ""


@pytest.mark.parametrize(("argv", "first"), [
    (("sin(x)", "x=1"), "6 modes answer; right digits of the worst entry: 13.6 (finite-difference) to 38.3 (certified)."),
    (("sin(x)", "x=1", "--modes", "certified"), "f = sin(x) = "),
    (("abs(x)", "x=0"), "f = abs(x) = "),
    (("sin(x)", "x=1", "--grad", "-cos(x)"), "FAIL "),
])  # fmt: skip
def test_the_answer_comes_first(gradcli: Callable[..., Any], argv: tuple[str, ...], first: str) -> None:
    assert " ".join(gradcli("compare-modes", *argv).stdout.split()).startswith(first)
