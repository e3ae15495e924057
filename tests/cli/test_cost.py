"""`gradcli cost`: what it counts, at sizes that run and at sizes that do not, and how it refuses."""

import csv
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tests.rows import for_rows

Gradcli = Callable[..., Any]
NET = """
import numpy as np

def layer(x, w):
    return np.tanh(x @ w)

def net(x, w, depth=3):
    for _ in range(depth):
        x = layer(x, w)
    return np.mean(x ** 2)
"""
SHAPES = ("--at", "x=randn(b, d), w=randn(d, d)", "--wrt", "w")


@pytest.fixture(name="net")
def _net(tmp_path: Path) -> str:
    (tmp_path / "net.py").write_text(NET)
    return f"{tmp_path / 'net.py'}:net"


def cost(gradcli: Gradcli, *argv: str) -> Any:
    ran = gradcli("cost", *argv, "--json")
    assert ran.exit_status == 0, ran.stderr
    return ran.json


def passes(document: Any) -> dict[str, tuple[int, int, int]]:
    return {row["name"]: (row["forward"], row["backward"], row["operations"]) for row in document["passes"]}


def formulas(document: Any) -> dict[str, str]:
    return {row["name"]: row["formula"] for row in document["formulas"]}


def test_passes_of_a_scalar(gradcli: Gradcli) -> None:
    document = cost(gradcli, "sum(tanh(W@x)**2)", "--shapes", "W: m n; x: n", "--sizes", "m=3, n=4", "--wrt", "W")
    Draft202012Validator(gradcli("schema", "cost").json).validate(document)
    found = passes(document)
    f = 3 * (4 + 3) + 3 + 3 + 2  # the product, tanh, squares, and their sum
    assert found["f"] == (1, 0, f) and found["reverse mode"][:2] == (1, 1)
    assert found["forward mode"][:2] == (12, 0) and found["forward differences"] == (13, 0, 13 * f)
    assert found["central differences"] == (24, 0, 24 * f) and found["whole Hessian"][:2] == (12, 12)
    assert formulas(document)["operations of f"] == "2 m n + 2 m - 1" and formulas(document)["parameters"] == "m n"


def test_a_jacobian_says_which_way_takes_fewer_operations(gradcli: Gradcli) -> None:
    for shapes, way in (("W: 9 3; x: 3", "columns (forward mode)"), ("W: 3 9; x: 9", "rows (reverse mode)")):
        document = cost(gradcli, "tanh(W@x)", "--shapes", shapes, "--wrt", "x")
        assert f"The Jacobian takes fewer operations by {way}." in document["notes"]
        by = {name: operations for name, (_, _, operations) in passes(document).items()}
        assert ("columns" in way) == (by["forward mode, by columns"] < by["reverse mode, by rows"])


@pytest.mark.slow
def test_counts_at_sizes_that_nothing_runs_are_those_of_the_formulas(gradcli: Gradcli, net: str) -> None:
    sizes = ("--sizes", "b=512, d=768, depth=12")
    large = cost(gradcli, net, *SHAPES, *sizes)
    assert formulas(large)["operations of f"] == "2 b d^2 depth + 2 b d"
    assert large["parameters"] == 768**2 and "These sizes were not run" in large["notes"][-1]
    assert sum(row["count"] for row in large["kept"] if row["name"] == "tanh" and row["shape"] == [512, 768]) == 12
    small = cost(gradcli, net, *SHAPES, "--sizes", "b=5, d=7, depth=3")
    assert formulas(small) == formulas(large)
    assert all(row["value"] == dict(passes_by_formula(small))[row["name"]] for row in small["formulas"][:2])


def passes_by_formula(document: Any) -> dict[str, int]:
    found = passes(document)
    return {"operations of f": found["f"][2], "operations of f with its gradient": found["reverse mode"][2]}


def test_several_sizes_at_once(gradcli: Gradcli, net: str) -> None:
    document = cost(gradcli, net, *SHAPES, "--sizes", "b=2,4; d=100,200; depth=2")
    rows = {tuple(row["sizes"].values()): row for row in document["at"]}
    assert list(rows) == [(2, 100, 2), (2, 200, 2), (4, 100, 2), (4, 200, 2)]
    assert document["sizes"] == {"b": 4, "d": 200, "depth": 2}
    assert rows[4, 200, 2]["operations"] == passes(document)["f"][2] == 2 * 4 * 200**2 * 2 + 2 * 4 * 200


@pytest.mark.slow
def test_formats_change_bytes_and_nothing_else(gradcli: Gradcli, net: str) -> None:
    at = (net, *SHAPES, "--sizes", "b=8, d=16, depth=4")
    four, two, mixed = (cost(gradcli, *at, *more) for more in ((), ("--dtype", "bfloat16"), ("--autocast", "float16")))
    kept = [sum(row["bytes"] for row in document["kept"]) for document in (four, two, mixed)]
    assert kept[0] == 2 * kept[1] == 2 * kept[2] and passes(four) == passes(two)
    held = [{row["name"]: row["bytes"] for row in document["memory"]} for document in (four, two, mixed)]
    assert [h["parameters"] for h in held] == [1024, 512, 1024]


def test_checkpoints_by_name_and_within_a_budget(gradcli: Gradcli, net: str) -> None:
    at = (net, *SHAPES, "--sizes", "b=64, d=32, depth=9", "--checkpoint", "layer", "--memory", "40kB")
    rows = {row["name"]: row for row in cost(gradcli, *at)["checkpoints"]}
    everything, named = rows["everything kept"], rows["layer run again"]
    within, least = rows["at most 40 kB"], rows["fewest bytes"]
    assert everything["operations"] == 0 and named["segments"] == 9
    assert least["bytes"] <= within["bytes"] <= 40_000 < everything["bytes"]
    assert 0 < within["operations"] <= least["operations"] and within["percent"] < 40


@pytest.mark.slow
@for_rows(("draw", "f", "low", "high"), [
    ("he(64, 64)", "maximum(W@x, 0)", 0.85, 1.15), ("xavier(64, 64)", "tanh(W@x)", 0.6, 1.1), ("randn(64, 64)", "sigmoid(W@x/64)", 0, 0.25),
])  # fmt: skip
def test_adjoints_keep_their_norm_by_he_and_xavier_and_vanish_behind_sigmoids(
    gradcli: Gradcli, tmp_path: Path, draw: str, f: str, low: float, high: float
) -> None:
    body = (
        f.replace("maximum", "np.maximum")
        .replace("tanh", "np.tanh")
        .replace("sigmoid(W@x/64)", "1 / (1 + np.exp(-W[k] @ x / 64))")
    )
    file = tmp_path / f"{draw[:2]}.py"
    file.write_text(
        "import numpy as np\n\ndef f(x, W, depth=12):\n    for k in range(depth):\n        x = "
        + body.replace("W@x", "W[k] @ x")
        + "\n    return np.sum(x)\n"
    )
    weights = ", ".join([draw] * 12)
    document = cost(gradcli, f"{file}:f", "--at", f"x=randn(64), W=[{weights}]", "--wrt", "x", "--norms")
    row = next(row for row in document["norms"] if row["name"] == "matmul")
    assert row["turns"] == 12 and low <= row["by_turn"] <= high


def test_the_growth_of_adjoints_is_that_of_one_iteration(gradcli: Gradcli, tmp_path: Path) -> None:
    file = tmp_path / "halved.py"
    file.write_text("def f(x):\n    for _ in range(5):\n        x = 0.5 * x\n    return x\n")
    (row,) = cost(gradcli, f"{file}:f", "--at", "x=1.0", "--norms")["norms"]
    assert (row["turns"], row["by_turn"], row["first"], row["last"]) == (5, 0.5, 0.0625, 1.0)


def test_time_is_passes_times_that_of_one(gradcli: Gradcli) -> None:
    argv = ("sum(w**2)", "--shapes", "w: N", "--sizes", "N=7e10", "--pass-time", "0.5s")
    document = cost(gradcli, *argv)
    seconds = {row["name"]: row["seconds"] for row in document["passes"]}
    assert seconds["forward differences"] == (7e10 + 1) * 0.5 and seconds["reverse mode"] == 1.0
    assert "1,100 years" in gradcli("cost", *argv).stdout


@pytest.mark.slow
def test_other_formats_hold_the_same(gradcli: Gradcli, net: str, tmp_path: Path) -> None:
    argv = (net, *SHAPES, "--sizes", "b=4, d=8", "--optimizer", "adam", "--shard", "8", "--link", "64GB", "--time")
    text = " ".join(gradcli("cost", *argv, environ={"COLUMNS": "100"}).stdout.split())
    assert "adam 128 512 B float32, m and v of each parameter" in text and "measured here: f" in text
    assert "On 8 ranks (ZeRO 1 divides the optimiser's numbers) each holds 576 B" in text
    rows = list(csv.DictReader(io.StringIO(gradcli("cost", *argv, "--format", "csv").stdout)))
    assert {row["name"] for row in rows if row["table"] == "memory"} >= {"parameters", "adam", "together"}
    page = tmp_path / "cost.html"
    assert gradcli("cost", *argv, "--out", str(page)).exit_status == 0
    assert "memory over a step, without checkpoints" in page.read_text()
    assert "| adam | 128 |" in gradcli("cost", *argv, "--format", "markdown").stdout


def test_a_model_is_a_page_too(gradcli: Gradcli) -> None:
    ran = gradcli("cost", "--model", "gpt-2", "--format", "html")
    assert ran.exit_status == 0 and "attention weights" in ran.stdout


def test_members_of_a_list_are_named_by_their_number(gradcli: Gradcli, tmp_path: Path) -> None:
    (tmp_path / "many.py").write_text(
        "import numpy as np\n\ndef f(params, x):\n    for p in params:\n        x = np.tanh(p['W'] @ x)\n    return np.sum(x)\n"
    )
    for name in ("params.0.W", "params[0].W"):
        document = cost(
            gradcli, f"{tmp_path / 'many.py'}:f", "--at", f"{name}=randn(4,5), x=randn(5)", "--wrt", "params*"
        )
        assert document["parameters"] == 20


# fmt: off
REFUSED = [
    ((),                                                        "there is no target",                            "--model llama-2-70b"),
    (("x", "--model", "gpt-3"),                                 "--model is a target of its own",                "leave the other one out"),
    (("--model", "gpt3"),                                       "there is no model 'gpt3'",                      "did you mean 'gpt-3'?"),
    (("--model", "gpt-3", "--memory", "2GB"),                   "--memory is for a function",                    "leave it out"),
    (("sum(x)", "--shapes", "x: n", "--sizes", "n=5,n=6"),      "--sizes names 'n' twice",                       "n=1,2"),
    (("--model", "gpt-3", "--seq", "4096"),                     "gpt-3 has 2,048 positions",                     "--seq 2048"),
    (("--model", "vit-b-16", "--seq", "7"),                     "--seq is for text",                             "leave it out"),
    (("x", "x=1", "--batch", "3"),                              "--batch and --seq are sizes of a model",        "--sizes b=32"),
    (("x", "x=1", "--dtype", "tf32"),                           "--dtype takes a format, not 'tf32'",            "bfloat16"),
    (("x", "x=1", "--optimizer", "adagrad"),                    "there is no optimizer 'adagrad'",               "adafactor"),
    (("x", "x=1", "--zero", "3"),                               "--zero divides over ranks",                     "--shard 8 --zero 3"),
    (("sum(x)", "x=randn(3)", "--sizes", "n=2"),                "--sizes has 'n', which neither",                '--shapes "x: n"'),
    (("sum(x)", "--shapes", "x: n", "--sizes", "n=0"),          "n=0: a size is at least 1",                     "--sizes n=1"),
    (("sum(sin(x))", "x=[1, 2]", "--checkpoint", "layer"),      "the program calls no function 'layer'", "name a Python function"),
    (("sum(sin(sin(x)))", "x=[1, 2]", "--memory", "1"),         "no checkpoints hold at most 1 bytes",         "the least is"),
    (("x", "2*y", "x=1"),                                       "this command takes one target, not 2",          "run it once for each"),
]
SIZES = ["n", "n=", "=1,2", "n=-1,2", "n=1,x", "2n=1,2", "n=1.5,2", "n=1,99999999999999", "10,100", "n=1e-3", "n=nan"]
# fmt: on


@for_rows(("argv", "what", "do"), REFUSED)
def test_bad_input_gets_a_sentence(gradcli: Gradcli, argv: tuple[str, ...], what: str, do: str) -> None:
    ran = gradcli("cost", *argv)
    assert ran.exit_status == 2 and what in ran.stderr and do in ran.stderr, ran.stderr


@for_rows("text", SIZES)
def test_a_size_that_is_none_is_named(gradcli: Gradcli, text: str) -> None:
    ran = gradcli("cost", "sum(x)", "--shapes", "x: n", "--sizes", text)
    assert ran.exit_status == 2 and "--sizes takes NAME=N,N,...; ..., with whole numbers from 0 to 10^13" in ran.stderr


@pytest.mark.slow
def test_lengths_that_follow_no_polynomial_are_refused_at_large_sizes(gradcli: Gradcli, tmp_path: Path) -> None:
    (tmp_path / "odd.py").write_text(
        "import numpy as np\ndef f(x):\n    return np.sum(np.sin(x[: len(x).bit_length()]))\n"
    )
    argv = (f"{tmp_path / 'odd.py'}:f", "--shapes", "x: n", "--sizes")
    assert gradcli("cost", *argv, "n=50").exit_status == 0
    ran = gradcli("cost", *argv, "n=50000")
    assert ran.exit_status == 2 and "are no polynomials of the sizes" in ran.stderr


# fmt: off
ELSEWHERE = [  # functions that do otherwise at large sizes, and the operations of f there
    ("np.sum(np.exp(x[:min(len(x), 100)]))",                              {"n": 1000}, 199),
    ("np.sum(np.exp(np.ones((-(-len(x) // 8) * 8, 1)) * x[:1]))",         {"n": 1001}, 3 * 1008 - 1),
]
# fmt: on


@for_rows(("body", "sizes", "operations"), ELSEWHERE)
def test_no_formula_is_shown_that_does_not_hold_at_the_sizes(
    gradcli: Gradcli, tmp_path: Path, body: str, sizes: dict[str, int], operations: int
) -> None:
    file = tmp_path / f"f{operations}.py"
    file.write_text(f"import numpy as np\n\ndef f(x):\n    return {body}\n")
    document = cost(gradcli, f"{file}:f", "--shapes", "x: n", "--sizes", f"n={sizes['n']}")
    assert passes(document)["f"][2] == operations and document["formulas"] == []
    assert any("No formulas are shown" in note for note in document["notes"])
    assert passes(document)["reverse mode"][2] in (None, *range(operations, 3 * operations))


def test_a_size_that_divides_another_keeps_its_value(gradcli: Gradcli, tmp_path: Path) -> None:
    (tmp_path / "heads.py").write_text(
        "import numpy as np\n\ndef f(x, heads=2):\n    n, d = x.shape\n"
        "    return np.sum(np.tanh(np.reshape(x, (n, heads, d // heads))))\n"
    )
    document = cost(gradcli, f"{tmp_path / 'heads.py'}:f", "--shapes", "x: n d", "--sizes", "n=1000, d=768, heads=12")
    assert formulas(document)["operations of f"] == "2 n d - 1"


def test_a_function_that_cannot_be_recorded_says_why(gradcli: Gradcli, tmp_path: Path) -> None:
    (tmp_path / "box.py").write_text("def f(x):\n    return float(x) ** 2\n")
    ran = gradcli("cost", f"{tmp_path / 'box.py'}:f", "x=2")
    assert ran.exit_status == 2 and "error:" in ran.stderr
