"""`--save-point FILE`: the point of a check in a file that `--at @FILE` reads, and the report is the same."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.targets.test_loading import written

QUICK = ("--modes", "reverse,fd")
FORMS = pytest.mark.parametrize("form", ["npz", "json"])
CODE = """
    def power(x, n=2): return np.sum(x**n)
    def tripled(x, n=2): return 3*x
    def chain(x, n):
        for _ in range(n): x = np.sin(x)
        return np.sum(x)
    def chosen(x, k): return np.sum(x[k]**2)
    def named(x, kind): return np.sum(x**2) if kind == "square" else np.sum(x)
    def net(params, x): return np.sum(np.tanh(params["W"] @ x + params["b"]))
    def point(): return {"params": {"W": np.arange(6.0).reshape(2, 3)/7, "b": np.ones(2)}, "x": np.array([0.1, 0.2, 0.3])}
"""


def without_times(point: dict[str, Any]) -> dict[str, Any]:
    modes = {name: {k: v for k, v in mode.items() if k != "seconds"} for name, mode in point["modes"].items()}
    return {**point, "modes": modes, "drawn": None}


def again(gradcli: Callable[..., Any], file: Path, target: str, *argv: str, more: tuple[str, ...] = ()) -> list[Any]:
    """Check and keep the point, check at the kept point, and return both documents."""
    first = gradcli("check", target, *argv, *more, *QUICK, "--json", "--save-point", str(file))
    second = gradcli("check", target, "--at", f"@{file}", *more, *QUICK, "--json")
    assert second.exit_status == first.exit_status, second.stdout
    return [first.json, second.json]


# fmt: off
POINTS = [
    # target             values                                              claim
    ("x*sin(y)",         ("x=0.1", "y=1/3"),                                 ()),
    ("x*sin(y)",         ("x=0.1", "y=1/3"),                                 ("--grad", "x=sin(y), y=x")),
    ("x*sin(y)",         ("x=1e-320", "y=-0.0"),                             ()),
    ("sum(W@x)",         ("W=randn(2,3)", "x=[1,2,3]"),                      ()),
    ("sum(W@x)",         ("W=randn(2,3)", "x=[1,2,3]", "--seed", "5"),       ()),
    ("W@x",              ("W=randn(2,3)", "x=randn(3)"),                     ("--wrt", "x")),
    ("µ*2",              ("μ=3",),                                           ()),
    ("sum(x**2)",        ("x=linspace(0,1,12000)",),                         ("--budget", "10")),
    ("sum(abs(x))",      ("x=[0,1]",),                                       ()),
    ("exp(-x) + 0*y",    ("x=inf", "y=nan"),                                 ()),
    ("x**2*y",           ("x=1", "y=2"),                                     ("--order", "2")),
    ("sqrt(x)",          ("x=1e-5",),                                        ("--bounds", "x=0:inf", "--h", "1e-7")),
]
# fmt: on


@FORMS
@pytest.mark.parametrize(("target", "values", "more"), POINTS)
def test_the_kept_point_gives_the_same_report(
    gradcli: Callable[..., Any], tmp_path: Path, form: str, target: str, values: tuple, more: tuple
) -> None:
    seed = values[values.index("--seed") :] if "--seed" in values else ()
    values = values[: len(values) - len(seed)]
    first, second = again(gradcli, tmp_path / f"point.{form}", target, *values, more=(*more, *seed))
    assert [without_times(p) for p in first["points"]] == [without_times(p) for p in second["points"]]
    assert (first["verdict"], first["detects"]) == (second["verdict"], second["detects"])


# fmt: off
PYTHON = [
    ("power",   ("x=[1,2]",),                   (),                    "npz"),
    ("power",   ("x=[1,2]",),                   ("--grad", "tripled"), "npz"),
    ("power",   ("x=[1,2]", "n=3"),             (),                    "npz"),
    ("net",     ("--at", "{file}:point"),       (),                    "npz"),
    ("chain",   ("x=[1,2]", "n=int(3)"),        (),                    "npz"),
    ("chosen",  ("x=[1,2,3]", "k=int([0,2])"),  (),                    "npz"),
    ("power",   ("x=[1,2]",),                   (),                    "json"),
    ("net",     ("--at", "{file}:point"),       (),                    "json"),
    ("chain",  ("x=[1,2]", "n=int(3)"),       (), "json"),
    ("chosen", ("x=[1,2,3]", "k=int([0,2])"), (), "json"),
]
# fmt: on


@pytest.mark.parametrize(("name", "values", "more", "form"), PYTHON)
def test_points_of_python_functions_are_kept(
    gradcli: Callable[..., Any], tmp_path: Path, name: str, values: tuple, more: tuple, form: str
) -> None:
    path = written(tmp_path, CODE)
    values = tuple(text.format(file=path) for text in values)
    first, second = again(gradcli, tmp_path / f"point.{form}", f"{path}:{name}", *values, more=more)
    assert [without_times(p) for p in first["points"]] == [without_times(p) for p in second["points"]]


def test_what_is_in_the_files(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    values = ("x=0.1", "W=[[1,2],[3,4]]")
    for form in ("npz", "json", "JSON"):
        gradcli("check", "x*sum(W)", *values, *QUICK, "--save-point", str(tmp_path / f"point.{form}"))
    for form in ("json", "JSON"):
        assert json.loads((tmp_path / f"point.{form}").read_text()) == {"x": 0.1, "W": [[1, 2], [3, 4]]}
    with np.load(tmp_path / "point.npz", allow_pickle=False) as kept:
        assert {name: (x.dtype.str, x.tolist()) for name, x in kept.items()} == {
            "x": ("<f8", 0.1),
            "W": ("<f8", [[1.0, 2.0], [3.0, 4.0]]),
        }


def test_one_input_can_be_taken_from_the_file(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "point.npz"
    gradcli("check", "x*y", "x=0.1", "y=1/3", *QUICK, "--save-point", str(file))
    at = gradcli("check", "y**2", f"y=@{file}", *QUICK, "--json").json["points"][0]["at"]
    assert at == {"y": 1 / 3}


# fmt: off
WHICH = [
    (("abs(x)", "x=1", "x=0", "x=2"),                       {"x": 0.0}),
    (("x**2", "x=1", "x=2", "x=3"),                         {"x": 1.0}),
    (("x**3", "x=1", "x=2", "x=3", "--grad", "3*x"),        {"x": 2.0}),
    (("abs(x)*y", "x=1", "y=3", "x=0"),                     {"x": 0.0, "y": 3.0}),
]
# fmt: on


@pytest.mark.parametrize(("argv", "kept"), WHICH)
def test_the_first_point_that_does_not_pass_is_kept(
    gradcli: Callable[..., Any], tmp_path: Path, argv: tuple, kept: dict[str, float]
) -> None:
    file = tmp_path / "point.json"
    gradcli("check", *argv, *QUICK, "--save-point", str(file))
    assert json.loads(file.read_text()) == kept


def test_a_drawn_point_is_kept_and_no_longer_drawn(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    first, second = again(gradcli, tmp_path / "point.npz", "x*sin(y)")
    assert len(first["points"]) == 3 and first["points"][0]["drawn"] == ["x", "y"]
    assert [(p["at"], p["drawn"]) for p in second["points"]] == [(first["points"][0]["at"], [])]


def test_a_file_that_is_there_is_written_over(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "point.json"
    file.write_text("something else, longer than the point")
    assert gradcli("check", "x**2", "x=1", *QUICK, "--save-point", str(file)).exit_status == 0
    assert json.loads(file.read_text()) == {"x": 1.0}


@pytest.mark.parametrize(("claim", "status"), [("2*x", 0), ("3*x", 1)])
def test_keeping_changes_nothing_else(gradcli: Callable[..., Any], tmp_path: Path, claim: str, status: int) -> None:
    argv = ("check", "x**2", "x=3", "--grad", claim, *QUICK)
    plain, keeping = gradcli(*argv), gradcli(*argv, "--save-point", str(tmp_path / "point.npz"))
    assert plain.exit_status == keeping.exit_status == status
    assert (plain.stdout, plain.stderr) == (keeping.stdout, keeping.stderr)


# fmt: off
BAD = [
    ("point.txt",        "--save-point writes .npz or .json, not 'point.txt'"),
    ("point",            "--save-point writes .npz or .json, not 'point'"),
    ("",                 "--save-point writes .npz or .json, not ''"),
    (".npz",             "--save-point writes .npz or .json, not '.npz'"),
    ("point.npy",        "--save-point writes .npz or .json, not 'point.npy'"),
    ("no/folder/p.npz",  "no/folder/p.npz cannot be written"),
    ("folder.npz",       "folder.npz cannot be written"),
]
# fmt: on


@pytest.mark.parametrize(("name", "what"), BAD)
def test_a_file_that_cannot_be_written_is_an_error_before_any_work(
    gradcli: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, what: str
) -> None:
    (tmp_path / "folder.npz").mkdir()
    monkeypatch.chdir(tmp_path)
    ran = gradcli("check", "x**2", "x=3", *QUICK, "--save-point", name)
    assert (ran.exit_status, ran.stdout) == (2, "")
    assert ran.stderr.splitlines()[0] == f"error: {what}"
    assert ran.stderr.count("error: ") == 1 and "internal" not in ran.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder.npz"]


@pytest.mark.parametrize("argv", [("sine(x)", "x=1"), ("x**2", "z=1"), ("x**2", "x=1", "--grad", "sine(x)")])
def test_where_nothing_was_checked_nothing_is_kept(gradcli: Callable[..., Any], tmp_path: Path, argv: tuple) -> None:
    file = tmp_path / "point.npz"
    assert gradcli("check", *argv, *QUICK, "--save-point", str(file)).exit_status == 2
    assert not file.exists()


def test_a_value_that_is_no_number_is_an_error(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "point.npz"
    argv = ("check", f"{written(tmp_path, CODE)}:named", "x=[1,2]", "kind='square'", *QUICK)
    ran = gradcli(*argv, "--save-point", str(file))
    assert ran.exit_status == 2 and not file.exists()
    assert ran.stderr.startswith("error: the point was not saved: kind is not numeric\n  write a Python function")


@pytest.mark.parametrize("asked", [(), ("--json",)])
def test_a_point_that_cannot_be_kept_hides_no_wrong_gradient(
    gradcli: Callable[..., Any], tmp_path: Path, asked: tuple
) -> None:
    argv = ("check", f"{written(tmp_path, CODE)}:named", "x=[1,2]", "kind='square'", "--grad", "x=3*x", *QUICK)
    ran = gradcli(*argv, *asked, "--save-point", str(tmp_path / "point.npz"))
    assert not asked or ran.json["exit_status"] == 1
    assert ran.exit_status == 1


# fmt: off
NAMES = [
    ("npz",  "key"),
    ("npz",  "at"),
    ("npz",  "points"),
    ("json", "file"),
    ("npz",  "file"),
    ("npz",  "allow_pickle"),
    ("json", "at"),
    ("json", "points"),
]
# fmt: on


@pytest.mark.parametrize(("form", "name"), NAMES)
def test_an_input_may_have_any_name(gradcli: Callable[..., Any], tmp_path: Path, form: str, name: str) -> None:
    _, second = again(gradcli, tmp_path / f"point.{form}", f"{name}**2", f"{name}=3")
    assert second["points"][0]["at"] == {name: 3.0}


# fmt: off
SEVERAL = [
    # values are drawn: those of x and of y differ            kept
    (("x**2", "round(y) + 1", "z + 1"),                         {"y"}),
    (("x**2", "y + 1"),                                       {"x"}),
    (("sine(x)", "x**2", "round(y) + 1"),                       {"y"}),
]
# fmt: on


@pytest.mark.parametrize(("targets", "kept"), SEVERAL)
def test_of_several_targets_the_first_that_does_not_pass_is_kept(
    gradcli: Callable[..., Any], tmp_path: Path, targets: tuple, kept: set[str]
) -> None:
    file = tmp_path / "point.json"
    gradcli("check", *targets, *QUICK, "--save-point", str(file))
    assert set(json.loads(file.read_text())) == kept


def test_a_kept_point_is_strict_json(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "point.json"
    gradcli("check", "exp(-x) + 0*y", "x=inf", "y=nan", *QUICK, "--save-point", str(file))
    assert json.loads(file.read_text(), parse_constant=str) == {"x": "inf", "y": "nan"}


def test_where_nothing_was_finished_in_time_no_empty_point_is_kept(process: Callable[..., Any], tmp_path: Path) -> None:
    path, file = written(tmp_path, "import time\ndef f(x): time.sleep(60)\n"), tmp_path / "point.json"
    ran = process("check", f"{path}:f", "x=[1,2]", *QUICK, "--timeout", "200ms", "--save-point", str(file))
    assert ran.exit_status == 3
    assert not file.exists() or json.loads(file.read_text()) == {"x": [1.0, 2.0]}
