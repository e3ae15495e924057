"""Points that a check may run at: by what is known of the arguments, else by their names."""

import pytest

from gradcli.project.discovery.parameters import likely_points, outline_point
from gradcli.project.discovery.project import Parameter
from gradcli.targets.points import read_points
from tests.rows import for_rows

P = Parameter

# fmt: off
FIRST = [  # parameters, and the first point at which they are tried
    ((P("r"),),                                                     "r=randn(3)"),
    ((P("w"), P("X"), P("y")),                                      "w=randn(3), X=randn(5,3), y=[0, 1, 0, 1, 0]"),
    ((P("x"), P("c", "1.5")),                                       "x=randn(3)"),
    ((P("x", "", "", ("n", "16")), P("weight", "", "", ("16",))),   "x=randn(5,16), weight=randn(16)"),
    ((P("q", "", "", ("t", "d")), P("k", "", "", ("s", "d")), P("v", "", "", ("s", "e"))),
                                                                    "q=randn(5,3), k=randn(4,3), v=randn(4,2)"),
    ((P("u", "", "", ("n",)), P("k", "", "", ("n+1",)), P("b", "", "", ("2*n",))), "u=randn(3), k=randn(4), b=randn(6)"),
    ((P("n", "", "integer"), P("flag", "", "flag"), P("c", "", "number")), "n=int(2), flag=True, c=0.7"),
    ((P("n_steps"), P("seed"), P("eps"), P("training")),            "n_steps=int(2), seed=int(0), eps=1e-5, training=True"),
    ((P("mode", "", "text", None, ("none", "tanh")),),                    'mode="none"'),
    ((P("eps", "", "number", None, ("0.001",)), P("k", "", "integer", None, ("4",))), "eps=0.001, k=int(4)"),
    ((P("cfg", "", "table", None, ("scale",)),),                          'cfg={"scale": 0.5}'),
    ((P("S", "", "definite", ("n", "n")),),                         "S=spd(3)"),
    ((P("table", "", "array", ("rows_of_table", "d")), P("ids", "", "integers")), "table=randn(5,3), ids=int([0, 2, 1, 0, 2])"),
    ((P("ids", "", "integers", ("b", "k")),),                       "ids=int([[0, 2, 1], [0, 2, 1], [0, 2, 1], [0, 2, 1], [0, 2, 1]])"),
    ((P("h"), P("token_ids")),                                      "h=0.5, token_ids=int([0, 2, 1, 0, 2])"),
    ((P("x", "", "", ("5000", "5000")),),                           "x=randn(3)"),
    ((P("x", "", "", ("n", "3")), P("L", "", "period")),            "x=randn(5,3), L=1.5"),
    ((P("h"), P("box_size")),                                       "h=0.5, box_size=1.5"),
    ((P("mu"), P("sigma")),                                         "mu=randn(3), sigma=uniform(0.5, 1.5, 3)"),
]
AMONG = [  # parameters, and a point that is tried later
    ((P("w"), P("p")),                                "w=randn(3), p=randn(3)"),
    ((P("h"), P("token_ids")),                        "h=randn(3), token_ids=int([0, 2, 1, 0, 2])"),
    ((P("table"), P("ids")),                          "table=randn(5,3), ids=int([[0, 2], [1, 0], [2, 1], [0, 2], [1, 0]])"),
    ((P("u"), P("logk"), P("source")),                "u=randn(3), logk=randn(4), source=randn(3)"),
    ((P("x"), P("weight"), P("bias")),                "x=randn(5,3), weight=randn(3), bias=randn(3)"),
    ((P("params", "", "table", None, ("W", "U")), P("h0")), "params.W=randn(3,3), params.U=randn(3,3), h0=randn(3)"),
    ((P("training"), P("x")),                         "training=False, x=randn(3)"),
    ((P("x"), P("box", "", "period")),                "x=randn(3), box=randn(3)"),
    ((P("params"), P("X"), P("y")),                   "params=randn(4), X=randn(5,3), y=randn(5)"),
]
# fmt: on


@for_rows(("parameters", "first"), FIRST)
def test_the_likeliest_point_comes_first(parameters: tuple[Parameter, ...], first: str) -> None:
    assert next(likely_points(parameters, 3)) == first


@for_rows(("parameters", "point"), AMONG)
def test_other_points_come_later(parameters: tuple[Parameter, ...], point: str) -> None:
    several = [*likely_points(parameters, 3)]
    assert point in several[1:]


def test_a_time_beside_a_state_is_one_number() -> None:
    equation = (P("t"), P("y", "", "", ("2",)), P("mu"))
    assert next(likely_points(equation, 3, "y")) == "t=0.3, y=randn(2), mu=0.7"


@pytest.mark.parametrize("parameters", [parameters for parameters, _ in (*FIRST, *AMONG)])
def test_every_point_can_be_read(parameters: tuple[Parameter, ...]) -> None:
    for text in {*likely_points(parameters, 3)}:
        assert len(read_points([text], target="a.py:f")) == 1, text


def test_what_is_not_known_is_left_open() -> None:
    known = (P("x"), P("k", "", "integer"), P("fn", "", "function"), P("w", "", "", ("16",)), P("c", "1.5"))
    assert outline_point(known) == ["x=randn(?)", "k=int(2)", "fn=?", "w=randn(16)"]
