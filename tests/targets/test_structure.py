"""Nested inputs: taken apart into leaves named by path, put together again, and named so in every form of output."""

import csv
import io
import json
import sys
import xml.etree.ElementTree as ET
from collections import OrderedDict, defaultdict, namedtuple
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradcli.errors import BadPoint
from gradcli.targets.nesting import nest_by_path, paths_of_leaves, put_together, take_apart
from tests.rows import for_rows
from tests.targets.test_loading import written

QUICK = ("--modes", "forward,reverse,fd")
Pair = namedtuple("Pair", "x y")


@dataclass
class Layer:
    W: Any
    b: Any = 0.0


@dataclass(frozen=True, slots=True)
class Frozen:
    W: Any


@dataclass(init=False)
class Computed:
    W: Any
    total: float = field(init=False, default=0.0)

    def __init__(self) -> None:
        raise AssertionError("the constructor is not run again")


@dataclass
class Derived:
    W: Any
    total: Any = field(init=False)

    def __post_init__(self) -> None:
        self.total = 3 * self.W


@pytest.fixture(autouse=True)
def _importable_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))


# fmt: off
STRUCTURES = [
    (3.0,                                   {"p": 3.0}),
    ([1.0, 2.0],                            {"p[0]": 1.0, "p[1]": 2.0}),
    ((1.0, (2.0,)),                         {"p[0]": 1.0, "p[1][0]": 2.0}),
    ({"a": 1.0, "b": {"c": 2.0}},           {"p.a": 1.0, "p.b.c": 2.0}),
    ({0: 1.0, "a b": 2.0, "x.y": 3.0},      {"p[0]": 1.0, "p['a b']": 2.0, "p['x.y']": 3.0}),
    (Pair(1.0, [2.0]),                      {"p.x": 1.0, "p.y[0]": 2.0}),
    (Layer(1.0, 2.0),                       {"p.W": 1.0, "p.b": 2.0}),
    (Frozen({"a": 1.0}),                    {"p.W.a": 1.0}),
    ([Layer(1.0, Pair(2.0, 3.0))],          {"p[0].W": 1.0, "p[0].b.x": 2.0, "p[0].b.y": 3.0}),
    (OrderedDict(b=1.0, a=2.0),             {"p.b": 1.0, "p.a": 2.0}),
    (None,                                  {"p": None}),
    ("text",                                {"p": "text"}),
    ([],                                    {}),
    ({},                                    {}),
    (Layer,                                 {"p": Layer}),
]
# fmt: on


@for_rows(("x", "leaves"), STRUCTURES)
def test_structures_are_taken_apart_and_put_together(x: Any, leaves: dict[str, Any]) -> None:
    node, found = take_apart("p", x)
    assert found == leaves and list(found) == list(leaves) == paths_of_leaves(node)
    again = put_together(node, found)
    assert again == x and type(again) is type(x)


def test_arrays_are_leaves_whole() -> None:
    x = np.ones((2, 3))
    assert take_apart("p", {"W": x})[1]["p.W"] is x


@pytest.mark.parametrize("x", [defaultdict(float, a=1.0), MappingProxyType({"a": 1.0})])
def test_mappings_of_other_kinds_come_back_as_mappings(x: Mapping[str, float]) -> None:
    again = put_together(*take_apart("p", x))
    assert isinstance(again, Mapping) and dict(again) == {"a": 1.0}


def test_a_dataclass_is_made_again_without_its_constructor() -> None:
    x = object.__new__(Computed)
    x.W, x.total = 1.0, 2.0
    node, leaves = take_apart("p", x)
    again = put_together(node, {path: 2 * leaf for path, leaf in leaves.items()})
    assert (again.W, again.total, x.W) == (2.0, 4.0, 1.0)


def test_what_a_dataclass_computes_of_its_members_moves_with_them() -> None:
    node, leaves = take_apart("p", Derived(1.0))
    assert put_together(node, leaves | {"p.W": 5.0}).total == 15.0


@pytest.mark.parametrize("depth", [60, 5000])
def test_structures_nested_too_deeply_are_refused(depth: int) -> None:
    x: Any = 1.0
    for _ in range(depth):
        x = [x]
    with pytest.raises(BadPoint, match="nested more than"):
        take_apart("p", x)


def test_a_structure_that_holds_itself_is_refused() -> None:
    x: dict[str, Any] = {}
    x["me"] = x
    with pytest.raises(BadPoint, match="nested more than"):
        take_apart("p", x)


NAMES = st.text("abcW_1", min_size=1, max_size=4).filter(str.isidentifier)
TREES = st.recursive(
    st.floats(-10, 10),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.tuples(inner, inner), st.dictionaries(NAMES, inner, max_size=3)
    ),
    max_leaves=12,
)


@settings(deadline=None, max_examples=60)
@given(TREES)
def test_any_tree_comes_back(x: Any) -> None:
    node, leaves = take_apart("p", x)
    assert put_together(node, leaves) == x
    assert len(leaves) == len(paths_of_leaves(node)) == len(set(leaves))


@settings(deadline=None, max_examples=60)
@given(
    st.dictionaries(
        NAMES, st.recursive(st.floats(-10, 10), lambda inner: st.lists(inner, min_size=1, max_size=3)), min_size=1
    )
)
def test_flat_paths_of_a_report_are_nested_again(x: dict[str, Any]) -> None:
    flat = {path: leaf for name, part in x.items() for path, leaf in take_apart(name, part)[1].items()}
    assert nest_by_path(flat) == x


# fmt: off
FLAT = [
    ({"x": 1},                                 {"x": 1}),
    ({"p.a": 1, "p.b": 2},                     {"p": {"a": 1, "b": 2}}),
    ({"p[0].w": 1, "p[1].w": 2},               {"p": [{"w": 1}, {"w": 2}]}),
    ({"p[1]": 1, "p[0]": 2},                   {"p": [2, 1]}),
    ({"p.a[0][1]": 1, "p.a[0][0]": 2},         {"p": {"a": [[2, 1]]}}),
]
# fmt: on


@for_rows(("flat", "structure"), FLAT)
def test_paths_are_read_back(flat: dict[str, int], structure: dict[str, Any]) -> None:
    assert nest_by_path(flat) == structure


@pytest.mark.parametrize("flat", [{"p": 1, "p.a": 2}, {"p.a": 1, "p.a[0]": 2}])
def test_a_value_beside_its_own_container_is_refused(flat: dict[str, int]) -> None:
    with pytest.raises(BadPoint, match="is given twice"):
        nest_by_path(flat)


NET = """
    def f(params, x):
        layer = params["layer1"]
        return np.sum(np.tanh(layer["W"] @ x + layer["b"])**2)

    def g(params, x):
        layer = params["layer1"]
        t = np.tanh(layer["W"] @ x + layer["b"])
        d = 2*t*(1 - t**2)
        return {"params": {"layer1": {"W": np.outer(d, x), "b": d}}}

    def slipped(params, x):
        found = g(params, x)
        found["params"]["layer1"]["W"][3, 2] *= 1.5
        return found

    def point():
        rng = np.random.default_rng(0)
        return {"params": {"layer1": {"W": rng.normal(size=(4, 3)), "b": np.ones(4)}}, "x": np.arange(3.0)}
"""
ENTRY = "params.layer1.W[3,2]"


@pytest.fixture(name="slipped")
def _slipped(gradcli: Callable[..., Any], tmp_path: Path) -> Callable[..., Any]:
    """Check a claim that is wrong in one entry, in a form of output."""
    file = written(tmp_path, NET)
    return lambda *more: gradcli("check", f"{file}:f", "--at", f"{file}:point", "--grad", "slipped", *QUICK, *more)


def test_the_wrong_entry_is_named_by_its_path_in_the_document(slipped: Callable[..., Any]) -> None:
    ran = slipped("--json")
    (point,) = ran.json["points"]
    (mismatch,) = point["mismatches"]
    assert ran.exit_status == 1
    assert (mismatch["input"], mismatch["index"]) == ("params.layer1.W", [3, 2])
    assert mismatch["ratio"] == pytest.approx(1.5)
    assert set(point["at"]) == {"params.layer1.W", "params.layer1.b", "x"}
    assert point["differentiated"] == ["params.layer1.W", "params.layer1.b"]
    assert np.shape(point["gradient"]["params.layer1.W"]) == (4, 3)


def test_the_wrong_entry_is_named_by_its_path_in_text(slipped: Callable[..., Any]) -> None:
    assert ENTRY in slipped().stdout


def test_the_wrong_entry_is_named_by_its_path_in_markdown(slipped: Callable[..., Any]) -> None:
    assert ENTRY in slipped("--format", "markdown").stdout.replace("\\", "")


def test_the_wrong_entry_is_named_by_its_path_in_csv(slipped: Callable[..., Any]) -> None:
    rows = list(csv.DictReader(io.StringIO(slipped("--format", "csv").stdout)))
    (wrong,) = (
        row for row in rows if row["mode"] == "claim" and row["input"] == "params.layer1.W" and row["index"] == "3,2"
    )
    assert wrong["verdict"] == "fail"


def test_the_wrong_entry_is_named_by_its_path_in_junit(slipped: Callable[..., Any]) -> None:
    (failure,) = ET.fromstring(slipped("--format", "junit").stdout).iter("failure")
    assert ENTRY in (failure.text or "")


def test_inputs_are_named_by_their_paths_in_junit(slipped: Callable[..., Any]) -> None:
    (failure,) = ET.fromstring(slipped("--format", "junit").stdout).iter("failure")
    assert "params.layer1.W" in (failure.text or "")


@pytest.mark.parametrize("ending", ["md", "csv", "json", "txt"])
def test_files_name_the_paths_too(slipped: Callable[..., Any], tmp_path: Path, ending: str) -> None:
    slipped("-q", "-o", str(tmp_path / f"r.{ending}"))
    assert "params.layer1.W" in (tmp_path / f"r.{ending}").read_text().replace("\\", "")


def test_grad_prints_a_line_for_each_path(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    file = written(tmp_path, NET)
    lines = gradcli("grad", f"{file}:f", "--at", f"{file}:point").stdout.splitlines()
    found = dict(line.split(" = ") for line in lines)
    assert list(found) == ["df/dparams.layer1.W", "df/dparams.layer1.b", "df/dx"]
    assert np.shape(json.loads(found["df/dparams.layer1.W"])) == (4, 3)


@pytest.mark.parametrize("command", ["compare-modes", "trace"])
def test_other_commands_name_paths(gradcli: Callable[..., Any], tmp_path: Path, command: str) -> None:
    file = written(tmp_path, NET)
    more = QUICK if command == "compare-modes" else ()
    ran = gradcli(command, f"{file}:f", "--at", f"{file}:point", *more, "--json")
    assert ran.exit_status == 0, ran.stdout
    assert "params.layer1.W" in ran.stdout


def test_a_report_is_a_point_for_the_next_check(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    file = written(tmp_path, NET)
    report = tmp_path / "report.json"
    first = gradcli("check", f"{file}:f", "--at", f"{file}:point", *QUICK, "--json", "-o", str(report)).json
    second = gradcli("check", f"{file}:f", "--at", f"@{report}", *QUICK, "--json").json
    assert second["points"][0]["at"] == first["points"][0]["at"]
    assert second["points"][0]["gradient"] == first["points"][0]["gradient"]


CONTAINERS = """
    from dataclasses import dataclass
    from typing import NamedTuple

    class Tuple(NamedTuple):
        W: object
        b: object

    @dataclass
    class Data:
        W: object
        b: object

    W, b = np.array([1.0, 2.0]), 3.0
    as_tuple, as_data = Tuple(W, b), Data(W, b)
    as_dict, as_list, plain = {"p": {"W": W, "b": b}}, {"p": [W, b]}, {"p": (W, b)}

    def by_name(p): return np.sum(p.W**2) * p.b
    def by_key(p): return np.sum(p["W"]**2) * p["b"]
    def by_index(p):
        first, second = p
        return np.sum(first**2) * second
"""


# fmt: off
KINDS = [
    ("by_name",  "as_tuple", ("p.W", "p.b")),
    ("by_index", "as_tuple", ("p.W", "p.b")),
    ("by_name",  "as_data",  ("p.W", "p.b")),
    ("by_key",   "as_dict",  ("p.W", "p.b")),
    ("by_index", "as_list",  ("p[0]", "p[1]")),
    ("by_index", "plain",    ("p[0]", "p[1]")),
]
# fmt: on


@pytest.mark.parametrize(("function", "point", "names"), KINDS)
def test_functions_get_the_containers_they_were_written_for(
    gradcli: Callable[..., Any], tmp_path: Path, function: str, point: str, names: tuple[str, str]
) -> None:
    file = written(tmp_path, CONTAINERS)
    ran = gradcli("check", f"{file}:{function}", "--at", f"{file}:{point}", *QUICK, "--json")
    assert ran.exit_status == 0, ran.stdout
    assert ran.json["points"][0]["gradient"] == dict(zip(names, ([6.0, 12.0], 5.0), strict=True))
