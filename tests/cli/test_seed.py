"""`--seed random`: the seed is drawn, named by the report, and repeats the run."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradcli.targets.points import read_points
from tests.rows import for_rows
from tests.targets.test_loading import written

Gradcli = Callable[..., Any]
QUICK = ("--modes", "reverse,fd")
# fmt: off
RUNS = [  # commands whose point is drawn
    ("check", "x**3*y", *QUICK),
    ("check", "sum(x**3)", "--at", "x=trained(5)", *QUICK),
    ("compare-modes", "x**3*y", *QUICK),
    ("sweep", "x**3*y", "--schemes", "central"),
    ("grad", "x**3*y"),
    ("trace", "x**3*y"),
    ("derive", "sum(x**3)", "--at", "x=randn(2)"),
]
FORMS = [
    ("check", "x**3", *QUICK, "--format", "markdown"),
    ("trace", "x**3", "--format", "markdown"),
]
FAILING = {
    "raises":    ("def f(x): raise ValueError", "raise ValueError"),
    "ends":      ("import os\ndef f(x): os._exit(5)", "return a value or raise an error"),
    "too slow":  ("import time\ndef f(x): time.sleep(1000)", "--timeout "),
}
# fmt: on


def values(document: Any) -> Any:
    """Return what a document says of the points."""
    return document["points"][0]["at"] if "points" in document else document["at"]


def plain(text: str) -> str:
    """Return a text on one line, without what markdown escapes."""
    return " ".join(text.replace("\\", "").split())


@for_rows("argv", RUNS, ids=lambda argv: f"{argv[0]} {argv[1]}")
def test_a_random_seed_is_drawn_anew_and_repeats_the_run(gradcli: Gradcli, argv: tuple[str, ...]) -> None:
    first, second = (gradcli(*argv, "--seed", "random", "--json") for _ in range(2))
    assert first.exit_status == 0 and 0 <= first.json["seed"] < 2**64
    assert first.json["seed"] != second.json["seed"] and values(first.json) != values(second.json)
    again = gradcli(*argv, "--seed", str(first.json["seed"]), "--json").json
    assert values(again) == values(first.json) and again["seed"] == first.json["seed"]


@for_rows("argv", [*RUNS, *FORMS], ids=" ".join)
def test_text_names_a_random_seed_and_no_other(gradcli: Gradcli, argv: tuple[str, ...]) -> None:
    text = plain(gradcli(*argv, "--seed", "random").stdout)
    (seed,) = re.findall(r"--seed (\d+)", text)
    line = f"The seed was drawn: --seed {seed} repeats this."
    assert text.endswith(f"--seed {seed}" if argv[0] == "check" else line) or f"--seed {seed} ```" in text
    assert "The seed" not in gradcli(*argv, "--seed", seed).stdout


def test_the_gradient_is_printed_as_before_the_line_of_the_seed(gradcli: Gradcli) -> None:
    text = gradcli("grad", "x**3*y", "--seed", "random").stdout
    (seed,) = re.findall(r"--seed (\d+)", text)
    assert text.startswith(gradcli("grad", "x**3*y", "--seed", seed).stdout)


def test_seeds_have_64_bits(gradcli: Gradcli) -> None:
    seeds = [gradcli("grad", "x", "--seed", "random", "--json").json["seed"] for _ in range(40)]
    assert len(set(seeds)) == 40 and 2**63 < max(seeds) < 2**64  # all below 2^63 once in 10^12


def test_the_command_of_a_check_has_the_number(gradcli: Gradcli) -> None:
    first = gradcli("check", "x*y", *QUICK, "--seed", "random", "--json").json
    assert first["command"][-2:] == ["--seed", str(first["seed"])]
    assert gradcli(*first["command"][1:], "--json").json["points"][2]["at"] == first["points"][2]["at"]


@pytest.mark.parametrize("seed", ["18446744073709551615", "9223372036854775808"])
def test_the_largest_seeds_run_all_modes(gradcli: Gradcli, seed: str) -> None:
    ran = gradcli("check", "sum(tanh(W@x)**2)", "--shapes", "W: 3 4; x: 4", "--points", "1", "--seed", seed, "--json")
    assert (ran.exit_status, ran.json["seed"]) == (0, int(seed))


@pytest.mark.parametrize("what", FAILING)
def test_an_error_names_the_seed_that_was_drawn(process: Gradcli, tmp_path: Path, what: str) -> None:
    code, says = FAILING[what]
    limit = ("--timeout", "0.5s") if what == "too slow" else ()
    argv = ("grad", f"{written(tmp_path, code)}:f", "--at", "x=randn(2)", *limit)
    error = process(*argv, "--seed", "random", "--json").json["error"]
    assert says in str(error)
    assert re.search(r"--seed \d+ draws the same values$", error["hint"])
    assert "--seed" not in (process(*argv, "--json").json["error"]["hint"] or "")


def test_a_report_that_another_process_ends_has_the_seed_of_the_first(process: Gradcli, tmp_path: Path) -> None:
    code = (
        "import json, time\ndef f(x):\n    open('seen.json', 'w').write(json.dumps(x.tolist()))\n    time.sleep(1000)\n"
    )
    file = written(tmp_path, code)
    ran = process(
        "check",
        f"{file}:f",
        "--at",
        "x=randn(2)",
        *QUICK,
        "--seed",
        "random",
        "--timeout",
        "2s",
        "--json",
        cwd=tmp_path,
    )
    assert ran.exit_status == 3
    assert ran.json["command"][-1] == str(ran.json["seed"])
    seen = json.loads((tmp_path / "seen.json").read_text())
    assert np.array_equal(seen, read_points(["x=randn(2)"], ran.json["seed"])[0]["x"])


def test_several_targets_have_one_seed(gradcli: Gradcli) -> None:
    argv = ("check", "x**2", "x**3", *QUICK, "--seed", "random")
    found = gradcli(*argv, "--json").json
    seed = str(found["seed"])
    assert found["command"] == ["gradcli", "check", "x**2", "x**3", "--seed", seed]
    assert {row["document"]["command"][-1] for row in found["checks"]} == {seed}
    lines = gradcli(*argv).stdout.splitlines()
    assert re.fullmatch(r"The seed was drawn: --seed \d+ repeats this\.", lines[-2])
