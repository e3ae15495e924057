"""`gradcli sweep` through the program: text that fits, documents that validate, tables and pictures, and what it refuses."""

import csv
import html
import io
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tests.rows import for_rows

Gradcli = Callable[..., Any]
LIST = "schemes: forward, backward, central, 5-point, 7-point, richardson, complex"
DTYPES = "dtypes: float64, float32, float16, bfloat16, float8_e4m3fn, float8_e5m2, longdouble"
SINE = ("sin(x)", "x=1")


# fmt: off
RUNS = {
    "plain":           (0, SINE),
    "formats":         (0, (*SINE, "--dtype", "float16,float32,float64", "--bits", "113")),
    "high precision":  (0, (*SINE, "--bits", "400")),
    "several inputs":  (0, ("sum(tanh(W@x)**2)", "--shapes", "W: 3 4; x: 4")),
    "each":            (0, ("sum(sin(x))", "x=[0.5, 2, -3]", "--each")),
    "each of many":    (0, ("sum(sin(x))", "x=linspace(0.5, 2, 30)", "--each")),
    "each of two":     (0, ("sin(x)*y", "x=1", "y=2", "--each", "--schemes", "forward,complex")),
    "vector":          (0, ("[x*y, x]", "x=3", "y=2")),
    "right claim":     (0, (*SINE, "--grad", "cos(x)")),
    "wrong claim":     (1, (*SINE, "--grad", "-cos(x)")),
    "wrong shape":     (1, ("sum(x**2)", "x=[1, 2]", "--grad", "3")),
    "Jacobian":        (0, ("[x*y, x]", "x=3", "y=2", "--jac", "x=[y, 1], y=[x, 0]")),
    "kink":            (0, ("abs(x)", "x=0")),
    "subgradient":     (0, ("abs(x)", "x=0", "--grad", "0.5")),
    "no subgradient":  (3, ("abs(x)", "x=0", "--grad", "3")),
    "staircase":       (0, ("floor(x)", "x=2.5")),
    "zero-slope":      (0, ("x**2", "x=0")),
    "a constant":      (0, ("0*x", "x=1")),
    "not finite":      (3, ("log(x)", "x=0")),
    "infinite-slope":  (3, ("sqrt(x)", "x=0")),
    "fixed step":      (0, (*SINE, "--h", "1e-4", "--bits", "113", "--dtype", "float64", "--schemes", "forward,central")),
    "bounds":          (0, ("sqrt(x)", "x=0.5", "--bounds", "x=0.4:0.6")),
    "scale":           (0, ("sin(1e6*x)", "x=1", "--scale", "x=1e-6")),
    "budget":          (0, (*SINE, "--budget", "100")),
    "unsupported":     (0, ("det(A)", "A=[[2, 1], [1, 3]]", "--dtype", "float32,longdouble")),
    "no complex":      (0, (*SINE, "--schemes", "complex", "--dtype", "float16")),
    "drawn":           (0, ("sin(x)*y", "--seed", "3")),
    "a large array":   (0, ("sum(c*x)", "x=2", "c=ones(10001)", "--wrt", "x")),
}
# fmt: on
CASES = [pytest.param(status, argv, id=name) for name, (status, argv) in RUNS.items()]


@pytest.fixture(name="validator", scope="module")
def _validator() -> Any:
    from tests.conftest import gradcli

    return Draft202012Validator(gradcli("schema", "sweep").json)


@pytest.mark.slow
@pytest.mark.parametrize(("status", "argv"), CASES)
def test_documents_validate(gradcli: Gradcli, validator: Any, status: int, argv: tuple) -> None:
    ran = gradcli("sweep", *argv, "--json")
    document = ran.json
    assert (ran.exit_status, document["exit_status"], document["schema"]) == (status, status, "gradcli.sweep/3")
    assert [error.message for error in validator.iter_errors(document)] == []
    assert ran.stderr == ""
    for curve in document["curves"]:
        assert len(curve["h"]) == len(curve["relative_error"]) > 7
        assert {"scheme", "dtype", "input", "index", "order", "best", "predicted"} <= set(curve)
        assert {"h", "relative_error", "digits"} == set(curve["best"]) - {"h_absolute"}
        assert curve["predicted"] is None or {"h", "relative_error"} <= set(curve["predicted"])


@for_rows(("status", "argv"), CASES, parts=4)
def test_text_fits(gradcli: Gradcli, status: int, argv: tuple) -> None:
    ran = gradcli("sweep", *argv, environ={"COLUMNS": "60"})
    assert (ran.exit_status, ran.stderr) == (status, "")
    assert f"f = {argv[0]} = " in " ".join(ran.stdout.split())
    assert max(map(len, ran.stdout.splitlines())) <= 60
    assert "\x1b" not in ran.stdout


def test_the_document_is_validated_for_real(gradcli: Gradcli, validator: Any) -> None:
    document = gradcli("sweep", *SINE, "--json").json
    document["curves"][0]["h"] = "many"
    assert list(validator.iter_errors(document))


@for_rows(("environ", "option", "coloured"), [
    ({}, (), False), ({"FORCE_COLOR": "1"}, (), True), ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, (), False),
    ({}, ("--color",), True), ({"NO_COLOR": "1"}, ("--color",), True), ({"FORCE_COLOR": "1"}, ("--no-color",), False),
])  # fmt: skip
def test_colour_is_asked_for(gradcli: Gradcli, environ: dict[str, str], option: tuple, coloured: bool) -> None:
    plain = gradcli("sweep", "abs(x)", "x=0").stdout
    ran = gradcli("sweep", "abs(x)", "x=0", *option, environ=environ)
    assert ("\x1b[" in ran.stdout) is coloured
    assert coloured or ran.stdout == plain


# fmt: off
SAYS = [
    (SINE,                                    "forward 1.00 1e-08 1e-08 5.5e-09 8.3 2.3e-08 3.6e-08"),
    (SINE,                                    "forward: h = (4 e/|f''|)^(1/2) = (4 x 1.1e-16/0.841)^(1/2) = 2.3e-08"),
    (SINE,                                    "complex: h < sqrt(6 u |f'| / |f'''|) = sqrt(6 x 1.1e-16 x 0.54 / 0.54) = 2.6e-08"),
    (SINE,                                    "From h = 2.2e-16 to 4.6e-06, rounding limits central differences: the error grows as 1/h (observed slope -"),
    (SINE,                                    "From h = 2.2e-05 to 1, truncation limits central differences: the error grows as a power of h (observed slope 2.00)"),
    (SINE,                                    "A step below half a unit in the last place of x is lost: (1 + 1e-16) - 1 = 0 in float64."),
    (("x*y", "x=1", "y=2"),                   "x*y at x = 1.0, y = 2.0: relative error of the slope along all inputs"),
    ((*SINE, "--grad", "cos(x)"),             "Here g is the claim, and v moves each input by its own size."),
    (("sin(x/1000)", "x=700"),                "central: h = (3 e/|f'''|)^(1/3) = (3 x 1.1e-16/7.65e-10)^(1/3) = 0.0076"),
    (("sin(x/1000)", "x=700"),                "Use h = 0.0015 with central differences (10.9 digits) or h = 3.2 with 7-point differences (14.3 digits)."),
    (("x**3*y", "x=3", "y=2"),                "times each input with central differences"),
    ((*SINE, "--dtype", "float32"),           "(1 + 4.6e-08) - 1 = 0 in float32."),
    ((*SINE, "--dtype", "float32,float64"),   "float32 forward"),
    ((*SINE, "--grad", "-cos(x)"),            "FAIL sin(x): the claimed gradient is wrong in 1 of 1 entry"),
    ((*SINE, "--grad", "-cos(x)"),            "Taylor test: The remainder |f(x + h v) - f(x) - h <g, v>| falls with slope 1.00, not 2: along v the gradient is wrong."),
    ((*SINE, "--grad", "cos(x)"),             "PASS sin(x): the claimed gradient is right"),
    (("abs(x)", "x=0"),                       "one-sided curves, against one-sided slopes"),
    (("abs(x)", "x=0"),                       "backward -1"),
    (("log(x)", "x=0"),                       "non-finite: log gives -inf at 0"),
    (("sqrt(x)", "x=0"),                      "infinite-slope: the slope is not finite here"),
    (("x*y", "x=1", "y=2"),                   "along all inputs, each in proportion to its size"),
    (("sum(x**2)", "x=[1,2,3]", "--each"),    "the entry that does worst of 3: df/dx["),
    (("sum(exp(x))", "x=[1,2]", "--each", "--schemes", "forward"), "df/dx[1] float64 forward"),
    ((*SINE, "--h", "1e-4"),                  "at --h"),
    ((*SINE, "--schemes", "complex", "--dtype", "float16"), "float16: there are no complex numbers in float16"),
]
# fmt: on


@for_rows(("argv", "says"), SAYS, parts=2)
def test_the_text_says(gradcli: Gradcli, argv: tuple, says: str) -> None:
    assert says in " ".join(gradcli("sweep", *argv).stdout.split())


# fmt: off
LIMITS = [
    # f, point                                 slope of rounding, of truncation of central differences; None: not said
    (SINE,                                     -1,    2),
    (("exp(x)", "x=0"),                        -1,    2),
    (("1/(x-0.999)", "x=1"),                   -1,    2),     # a pole
    (("sin(x)", "x=1e8"),                      -1,    2),
    (("sin(1e5*x)", "x=1"),                    -1,    2),
    ((*SINE, "--dtype", "float32"),            -1,    2),
    (("sin(x)", "x=0"),                        None,  2),     # values that are as small as h have no rounding to speak of
    (("3*x", "x=2"),                           -1,    None),  # central differences of polynomials of degree 2 are exact
    (("x**2", "x=3"),                          -1,    None),
    (("sin(x)+abs(x-1)", "x=1.0001"),          -1,    None),  # a kink
    (("(x+1e10)-1e10", "x=1"),                 -1,    None),
    (("5 + 0*x", "x=1"),                       None,  None),
    (("x**2", "x=0"),                          None,  None),
    (("x**2", "x=1e-200"),                     None,  None),
    (("abs(x)", "x=0"),                        None,  None),
    (("floor(x)", "x=2.5"),                    None,  None),
    (("round(exp(x), 5)", "x=1"),              None,  None),
    ((*SINE, "--dtype", "float8_e4m3fn"),      None,  None),
    ((*SINE, "--schemes", "complex"),          None,  None),
]
# fmt: on


@for_rows(("argv", "rounding", "truncation"), LIMITS)
def test_what_limits_a_scheme_is_said_where_it_is_observed(
    gradcli: Gradcli, argv: tuple, rounding: float | None, truncation: float | None
) -> None:
    said = " ".join(gradcli("sweep", *argv).stdout.split())
    curves = {c["scheme"]: c for c in gradcli("sweep", *argv, "--json").json["curves"]}
    for name, slope in (("rounding", rounding), ("truncation", truncation)):
        found = re.search(rf"From h = (\S+) to (\S+), {name} limits central .*? \(observed slope (\S+)\)", said)
        assert (found is not None) == (f"{name}: slope" in said) == (slope is not None)  # as in the picture
        if found is None:
            continue
        c = curves["central"]
        low, high, observed = map(float, found.groups())
        assert observed == pytest.approx(slope, abs=0.25)
        inside = [(h, e) for h, e in zip(c["h_absolute"], c["relative_error"], strict=True) if low <= h <= high and e]
        fit = math.log10(inside[0][1] / inside[-1][1]) / math.log10(inside[0][0] / inside[-1][0])
        assert fit == pytest.approx(slope, abs=0.5)


ANSWERS = [
    (SINE, "Use h = 1e-05 with central differences (10.6 digits)"),
    (("round(exp(x), 4)", "x=1.3"), "Use h = 0.0"),
    ((*SINE, "--schemes", "complex"), "Use the complex step with h <= "),
    (("x*y", "x=1", "y=2"), "Use h = 1 times each input with central differences"),
    (("sum(sin(x))", "x=[0.5, 2, -3]", "--each"), "df/dx[1] (worst of 3): Use h = "),
    (("sum(sin(x))", "x=[0.5, 2]", "--each"), "df/dx[0]: Use h = "),
]


@for_rows(("argv", "says"), ANSWERS)
def test_the_answer_comes_first(gradcli: Gradcli, tmp_path: Path, argv: tuple, says: str) -> None:
    page = tmp_path / "page.html"
    assert gradcli("sweep", *argv, "--out", str(page)).stdout.startswith(says)
    shown = html.unescape(page.read_text("utf-8"))
    assert shown.index(says) < shown.index(">f = ")


@for_rows("argv", [("floor(x)", "x=2.5"), ("x**2", "x=1e-200"), ("log(x)", "x=0")])
def test_no_step_is_recommended_that_gives_no_digit(gradcli: Gradcli, argv: tuple) -> None:
    assert "Use " not in gradcli("sweep", *argv).stdout


@pytest.mark.slow
def test_the_picture_is_the_same_everywhere(gradcli: Gradcli, tmp_path: Path) -> None:
    page, drawing = tmp_path / "page.html", tmp_path / "sweep.svg"
    text = gradcli("sweep", *SINE, "--out", str(page), "--out", str(drawing)).stdout
    names = (
        "sin(x) at x = 1.0: relative error of df/dx",
        "h = 1e-05, central",
        "rounding: slope -0.98",
        "truncation: slope 2",
    )
    svg = drawing.read_text("utf-8")  # whose letters are paths, each with its words as a comment
    for shown in (text, page.read_text("utf-8"), svg):
        assert [name for name in names if name not in shown] == []
    order = ["forward", "central", "5-point", "7-point", "richardson", "complex"]
    assert re.findall("|".join(order), text.split("step h (absolute)")[1])[:6] == order
    assert re.findall("|".join(order), page.read_text("utf-8").split("<legend>")[1])[:6] == order
    assert re.findall("|".join(order), svg.split("<!-- error -->")[1])[-7:-1] == order


def test_the_table_stands_under_its_heads(gradcli: Gradcli) -> None:
    argv = ("sweep", *SINE, "--h", "1e-4", "--bits", "113", "--dtype", "float64")
    lines = gradcli(*argv, environ={"COLUMNS": "120"}).stdout.splitlines()
    start = next(k for k, line in enumerate(lines) if line.startswith("  dtype"))
    rows = lines[start : start + 12]  # six schemes of float64, five of 113 bits
    assert {len(row) for row in rows} == {len(rows[0])} and len(rows[0].split("  ")) > 9
    assert [row.split()[-1] == "-" for row in rows[7:]] == [True] * 5  # what was not measured


def test_csv_has_a_row_for_every_step(gradcli: Gradcli) -> None:
    argv = ("sweep", "sum(x**3)*y", "x=[1, 2]", "y=3", "--each", "--dtype", "float32,float64")
    rows = list(csv.DictReader(io.StringIO(gradcli(*argv, "--format", "csv").stdout)))
    found = {(c["scheme"], c["dtype"], c["input"], ",".join(map(str, c["index"]))): c for c in gradcli(*argv, "--json").json["curves"]}  # fmt: skip
    assert list(rows[0]) == ["scheme", "dtype", "input", "index", "h", "relative_error", "h_absolute"]
    assert len(rows) == sum(len(curve["h"]) for curve in found.values())
    for key, curve in found.items():
        own = [row for row in rows if tuple(row[name] for name in ("scheme", "dtype", "input", "index")) == key]
        assert [float(row["h"]) for row in own] == curve["h"]
        assert [float(row["h_absolute"]) for row in own] == curve["h_absolute"]
        np_errors = [float(e) for e in curve["relative_error"]]
        assert [float(row["relative_error"]) for row in own] == np_errors


def test_ndjson_is_the_same_document_on_a_line(gradcli: Gradcli) -> None:
    one, many = gradcli("sweep", *SINE, "--format", "ndjson"), gradcli("sweep", *SINE, "--json")
    assert one.stdout.count("\n") == 1
    assert one.json["curves"] == many.json["curves"]


def test_markdown_has_the_table_and_the_plot(gradcli: Gradcli) -> None:
    text = gradcli("sweep", *SINE, "--format", "markdown").stdout
    assert r"| scheme | order | h | h/\|x\| | error | digits | h in theory | error |" in text
    assert "```" in text


def test_quiet_says_nothing(gradcli: Gradcli) -> None:
    for status, argv in ((0, SINE), (1, (*SINE, "--grad", "0")), (3, ("log(x)", "x=0"))):
        ran = gradcli("sweep", *argv, "-q")
        assert (ran.exit_status, ran.stdout, ran.stderr) == (status, "", "")


HEADS = {".svg": b"<?xml", ".png": b"\x89PNG", ".csv": b"scheme,dtype", ".pdf": b"%PDF-", ".json": b"{", ".md": b""}


@pytest.mark.slow
@pytest.mark.parametrize("option", ["--plot", "--out"])
@pytest.mark.parametrize("ending", HEADS)
def test_files_are_written_by_their_ending(gradcli: Gradcli, tmp_path: Path, option: str, ending: str) -> None:
    file = tmp_path / f"sweep{ending}"
    ran = gradcli("sweep", *SINE, option, str(file))
    if option == "--plot" and ending not in (".svg", ".png", ".pdf"):
        assert ran.exit_status == 2 and "endings: .svg, .png, .pdf" in ran.stderr and not file.exists()
    else:
        assert ran.exit_status == 0, ran.stderr
        assert file.read_bytes().lstrip().startswith(HEADS[ending]) and "relative error" in ran.stdout


@pytest.mark.slow
@pytest.mark.parametrize(("argv", "words"), [
    (SINE, ["forward", "complex", "float64"]), ((*SINE, "--grad", "cos(x)"), ["remainder"]),
    ((*SINE, "--dtype", "float16,float32"), ["float16", "float32", "forward", "central", "7-point", "richardson"]), (("sum(sin(x))", "x=[1, 2]", "--each"), ["df/dx[0]", "df/dx[1]"]),
])  # fmt: skip
def test_pictures_name_what_they_show(gradcli: Gradcli, tmp_path: Path, argv: tuple, words: list[str]) -> None:
    file = tmp_path / "sweep.svg"
    assert gradcli("sweep", *argv, "--plot", str(file)).exit_status == 0
    text = file.read_text(encoding="utf-8")
    assert all(word in text for word in words) and "the table has" not in text


@pytest.mark.parametrize(
    "argv", [("log(x)", "x=0"), ("abs(x)", "x=0"), (*SINE, "--schemes", "complex", "--dtype", "float16")]
)
def test_a_picture_of_nothing_is_no_failure(gradcli: Gradcli, tmp_path: Path, argv: tuple) -> None:
    ran = gradcli("sweep", *argv, "--plot", str(tmp_path / "sweep.svg"))
    assert ran.exit_status in (0, 2, 3) and "internal" not in ran.stderr


# fmt: off
BAD = [
    # argv                                       what is wrong                                         what to do
    ((*SINE, "--dtype", "double"),               "there is no dtype 'double'",                         DTYPES),
    ((*SINE, "--dtype", "float"),                "there is no dtype 'float'",                          DTYPES),
    ((*SINE, "--dtype", "float64,int8"),         "there is no dtype 'int8'",                           DTYPES),
    ((*SINE, "--schemes", "c"),                  "there is no scheme 'c'",                             LIST),
    ((*SINE, "--schemes", "forward,3-point"),    "there is no scheme '3-point'",                       LIST),
    ((*SINE, "--schemes", ","),                  "--schemes names none",                               LIST),
    ((*SINE, "--bits", "15"),                    "--bits takes 16 to 800, not 15",                     "--bits 113 is quadruple precision"),
    ((*SINE, "--bits", "801"),                   "--bits takes 16 to 800, not 801",                    "--bits 113 is quadruple precision"),
    ((*SINE, "--bits", "113,0"),                 "--bits takes 16 to 800, not 0",                      "--bits 113 is quadruple precision"),
    ((*SINE, "--bits", "many"),                  "--bits takes whole numbers, not 'many'",             "--bits 113,400"),
    ((*SINE, "--bits", "-5"),                    "--bits takes whole numbers, not '-5'",               "--bits 113,400"),
    ((*SINE, "--bits", "1.5"),                   "--bits takes whole numbers, not '1.5'",              "--bits 113,400"),
    ((*SINE, "--bits", "99999999999999999999"),  "--bits takes whole numbers, not '99999999999999999999'", "--bits 113,400"),
    ((*SINE, "--budget", "3"),                   "--budget 3 is not enough for 8 steps",               "--budget 72, or fewer --schemes"),
    ((*SINE, "--h", "0"),                        "--h takes a positive step, not 0",                   "drop --h"),
    ((*SINE, "--h", "nan"),                      "--h takes a positive step, not nan",                 "drop --h"),
    ((*SINE, "--bounds", "x=2:3"),               "x lies outside its bounds, 2 to 3",                  "move the point, or the bounds"),
    ((*SINE, "--bounds", "z=0:1"),               "--bounds names 'z', which is not an input",              "inputs: x"),
    ((*SINE, "--scale", "x=-1"),                 "--scale takes positive sizes",                       "--scale"),
    ((*SINE, "--plot", "sweep.bmp"),             "sweep.bmp has no ending this command can write",     "endings: .svg, .png, .pdf"),
    ((*SINE, "--plot", "s.pdf", "--size", "3"),  "--size takes WIDTHxHEIGHT in inches, not '3'",       "write --size 3.5x2.5"),
    ((*SINE, "--plot", "s.pdf", "--size", "0.9x2"), "--size takes 1x1 to 40x40 inches, not '0.9x2'",   "write --size 3.5x2.5"),
    ((*SINE, "--plot", "s.pdf", "--size", "2x41"), "--size takes 1x1 to 40x40 inches, not '2x41'",     "write --size 3.5x2.5"),
    ((*SINE, "--plot", "s.png", "--dpi", "49"),  "--dpi takes 50 to 1200 dots per inch, not '49'",     "write --dpi 300"),
    ((*SINE, "--plot", "s.png", "--dpi", "high"), "--dpi takes 50 to 1200 dots per inch, not 'high'",  "write --dpi 300"),
    ((*SINE, "--size", "3.5x2.5"),               "--size is for pictures, and none is asked for",      "name one: --size ... --plot FILE.pdf"),
    ((*SINE, "--format", "xml"),                 "there is no format 'xml' for this command",          "formats: text, json, ndjson, markdown, html, csv"),
    ((*SINE, "--wrt", "z"),                      "",                                                   "x"),
    ((*SINE, "--grad", "z=1"),                   "",                                                   ""),
    (("2**3",),                                  "there is no input to differentiate by",              "--wrt x"),
    (("sum(x)", "x=zeros(0)"),                   "there is no input to differentiate by",              "--wrt x"),
    (("sin(x)", "cos(x)", "x=1"),                "this command takes one target, not 2",               "run it once for each"),
]
# fmt: on


@for_rows(("argv", "what", "do"), BAD)
def test_bad_input_is_one_clear_error(gradcli: Gradcli, argv: tuple, what: str, do: str) -> None:
    ran = gradcli("sweep", *argv)
    assert (ran.exit_status, ran.stdout) == (2, "")
    first, *rest = ran.stderr.splitlines()
    assert first.startswith(f"error: {what}") and "internal" not in first
    assert do in " ".join(rest)


@for_rows(("argv", "what", "do"), [row for row in BAD if "--format" not in row[0]])
def test_bad_input_is_a_document_for_programs(gradcli: Gradcli, argv: tuple, what: str, do: str) -> None:
    ran = gradcli("sweep", *argv, "--json")
    assert (ran.exit_status, ran.stderr) == (2, "")
    assert (
        ran.json["error"]["kind"] in ("usage", "point", "expression", "claim", "value")
        and what in ran.json["error"]["message"]
    )


@pytest.mark.parametrize(
    ("argv", "enough"), [(SINE, "72"), (("sum(x**3)", "x=[1, 2]", "--each", "--schemes", "forward"), "16")]
)
def test_the_budget_told_is_enough(gradcli: Gradcli, argv: tuple, enough: str) -> None:
    refused = gradcli("sweep", *argv, "--budget", str(int(enough) - 1))
    assert f"--budget {enough}" in refused.stderr
    assert gradcli("sweep", *argv, "--budget", enough).exit_status == 0


def test_the_same_seed_gives_the_same_document(gradcli: Gradcli) -> None:
    one, two = (gradcli("sweep", "sum(sin(x))*y", "--shapes", "x: 3", "--seed", "5", "--json").json for _ in range(2))
    assert {**one, "seconds": 0} == {**two, "seconds": 0}
    assert one["drawn"] == ["x", "y"] and one["seed"] == 5


def test_help_names_every_option_and_example(gradcli: Gradcli) -> None:
    text = gradcli("sweep", "--help-all").stdout
    options = ("--schemes", "--dtype", "--bits", "--each", "--grad", "--h", "--bounds", "--scale", "--budget", "--plot")
    assert all(option in text for option in (*options, "float8_e5m2", "richardson", 'gradcli sweep "sin(x)" x=1'))


def test_numbers_of_the_text_are_those_of_the_document(gradcli: Gradcli) -> None:
    curve = gradcli("sweep", *SINE, "--json").json["curves"][1]
    row = next(line for line in gradcli("sweep", *SINE).stdout.splitlines() if line.startswith("  central "))
    _, order, _, h, error, digits, *_ = row.split()
    assert float(order) == pytest.approx(curve["order"], abs=0.005)
    assert float(h) == pytest.approx(curve["best"]["h"], rel=0.05)
    assert float(error) == pytest.approx(curve["best"]["relative_error"], rel=0.05)
    assert float(digits) == pytest.approx(-math.log10(curve["best"]["relative_error"]), abs=0.06)


def test_steps_are_given_in_units_of_the_input_too(gradcli: Gradcli) -> None:
    for curve in gradcli("sweep", "sum(sin(x/1000))", "x=[700, -20]", "--each", "--json").json["curves"]:
        scale = curve["scale"]
        assert curve["h_absolute"] == pytest.approx([h * scale for h in curve["h"]], rel=1e-15)
        assert curve["best"]["h_absolute"] == pytest.approx(curve["best"]["h"] * scale, rel=1e-15)
        assert curve["predicted"]["h_absolute"] == pytest.approx(curve["predicted"]["h"] * scale, rel=1e-15)


def test_along_all_inputs_a_step_has_no_one_size(gradcli: Gradcli) -> None:
    ran = gradcli("sweep", "x*y", "x=3", "y=2")
    assert "h/|x|" in ran.stdout and "absolute)" not in ran.stdout
    assert "h_absolute" not in gradcli("sweep", "x*y", "x=3", "y=2", "--json").json["curves"][0]


def test_samples_of_a_function_that_is_not_random(gradcli: Callable[..., Any]) -> None:
    found = gradcli("sweep", "sin(x)", "x=1", "--samples", "5", "--json").json["findings"]
    assert [f["kind"] for f in found] == ["deterministic"]


@pytest.mark.parametrize("argv", [("sin(x*1e-308)", "x=1.7e308"), ("x**2", "x=1e-310"), ("3.0 + 0*x", "x=1")])
def test_sweeps_at_the_ends_of_float64_have_pages(gradcli: Gradcli, tmp_path: Any, argv: tuple[str, ...]) -> None:
    page = tmp_path / "page.html"
    assert gradcli("sweep", *argv, "--out", str(page)).exit_status == 0
    assert page.read_text(encoding="utf-8").endswith("</html>\n")
