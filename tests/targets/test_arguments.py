"""From values to arguments: what stays an integer, what is missing or unknown, points from Python code, `--wrt`."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradcli as package
from gradcli.errors import BadPoint, BadTarget, FunctionFailed
from gradcli.targets.arguments import bind_arguments, missing_parameters
from tests.targets.test_loading import written

QUICK = ("--modes", "forward,reverse,fd")


@pytest.fixture(autouse=True)
def _importable_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))


# fmt: off
KINDS = [
    # parameters, what is given, what arrives
    ("n",            ("n=3",),             "float64"),
    ("n",            ("n=int(3)",),        "int"),
    ("n",            ("n=int(2 + 1)",),    "int"),
    ("n: int",       ("n=3",),             "int"),
    ("n: 'int'",     ("n=3",),             "int"),
    ("n=2",          ("n=3",),             "int"),
    ("n=2",          (),                   "int"),
    ("n=2.0",        ("n=3",),             "float64"),
    ("n: float = 2", ("n=3",),             "float64"),
    ("n=True",       ("n=False",),         "bool"),
    ("n: bool",      ("n=True",),          "bool"),
    ("n: str",       ("n='a'",),           "str"),
    ("n='b'",        ("n='a'",),           "str"),
    ("n='b'",        (),                   "str"),
    ("n=None",       (),                   "NoneType"),
    ("n=None",       ("n=3",),             "float64"),
    ("n",            ("n=[1, 2]",),        "ndarray"),
    ("n",            ("n=(1, 2)",),        "tuple"),
    ("n",            ("n=['a', 'b']",),    "list"),
    ("*, n=2",       ("n=3",),             "int"),
    ("*, n: int",    ("n=3",),             "int"),
    ("n: bool",      ("n=1",),             "bool"),
]
# fmt: on


@pytest.mark.parametrize(("parameters", "given", "kind"), KINDS)
def test_what_arrives_is_what_the_parameter_asks_for(
    gradcli: Callable[..., Any], tmp_path: Path, parameters: str, given: tuple, kind: str
) -> None:
    code = f"""
        def f(x, {parameters}):
            kind = type(n).__name__
            assert kind == "{kind}" or "Tracer" in kind or "Recorded" in kind or "Dual" in kind, kind
            return x**2
    """
    ran = gradcli("check", f"{written(tmp_path, code)}:f", "x=3", *given, "--wrt", "x", *QUICK)
    assert ran.exit_status == 0, ran.stderr


@pytest.mark.parametrize(("parameters", "given"), [("n: int", "n=2"), ("n", "n=int(2)"), ("n=1", "n=2")])
def test_integers_are_constants_and_shown_as_such(
    gradcli: Callable[..., Any], tmp_path: Path, parameters: str, given: str
) -> None:
    file = written(tmp_path, f"def f(x, {parameters}): return np.sum(x[:n]**2)\n")
    (point,) = gradcli("check", f"{file}:f", "x=[1, 2, 3]", given, *QUICK, "--json").json["points"]
    assert (point["differentiated"], point["constant"]) == (["x"], ["n"])
    assert point["at"]["n"] == 2 and isinstance(point["at"]["n"], int)


@pytest.mark.parametrize("name", ["i.npy", "i.npz"])
def test_integer_data_stays_integer(gradcli: Callable[..., Any], tmp_path: Path, name: str) -> None:
    save = np.save if name == "i.npy" else np.savez
    save(tmp_path / name, **({"i": np.array([0, 2])} if name == "i.npz" else {"arr": np.array([0, 2])}))
    file = written(tmp_path, "def f(x, i): return np.sum(x[i]**2)\n")
    ran = gradcli("check", f"{file}:f", "x=[1, 2, 3]", "--at", f"i=@{tmp_path / name}", *QUICK, "--json")
    (point,) = ran.json["points"]
    assert (ran.exit_status, point["constant"], point["at"]["i"]) == (0, ["i"], [0, 2])
    assert point["gradient"] == {"x": [2.0, 0.0, 6.0]}


@pytest.mark.parametrize(
    "use",
    ["np.sum(x[:n])", "x[n]", "np.sum(np.zeros(n)) + x[0]", "sum(x[k] for k in range(n))", "np.sum(x.reshape(n, -1))"],
)
def test_a_float_where_an_integer_is_needed_says_so(gradcli: Callable[..., Any], tmp_path: Path, use: str) -> None:
    ran = gradcli("check", f"{written(tmp_path, f'def f(x, n): return {use}')}:f", "x=[1, 2]", "n=1", *QUICK)
    assert ran.exit_status == 2
    assert "int(" in ran.stderr and "users_" in ran.stderr and "Traceback" not in ran.stderr


@pytest.mark.parametrize("use", ["np.sum(x[:n])", "x[n]", "np.sum(np.zeros(n)) + x[0]", "sum(x[k] for k in range(n))"])
def test_the_line_to_paste_names_the_integer(gradcli: Callable[..., Any], tmp_path: Path, use: str) -> None:
    ran = gradcli("check", f"{written(tmp_path, f'def f(x, n): return {use}')}:f", "x=[1, 2]", "n=1", *QUICK)
    assert "n=int(" in ran.stderr and "x=int(" not in ran.stderr


POINTS = """
    single = np.array([1.0, 2.0], dtype=np.float32)
    half = np.array([1.0, 2.0], dtype=np.float16)
    imaginary = np.array([1j, 2.0])
    number = 1j
    listed = [np.array([1j])]
    def f(x): return np.sum(x**2)
    def of_list(x): return np.sum(x[0]**2)
"""


@pytest.mark.parametrize("dtype", ["single", "half"])
def test_shorter_floats_are_checked_in_float64_and_told(
    gradcli: Callable[..., Any], tmp_path: Path, dtype: str
) -> None:
    file = written(tmp_path, POINTS)
    ran = gradcli("check", f"{file}:f", "--at", f"{file}:{dtype}", *QUICK, "--json")
    (finding,) = ran.json["points"][0]["findings"]
    assert ran.exit_status == 0
    assert finding["kind"] == "precision" and "float64" in finding["message"]


def test_shorter_floats_from_files_are_told_too(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([1.0, 2.0], dtype=np.float32))
    ran = gradcli("check", f"{written(tmp_path, POINTS)}:f", f"x=@{tmp_path / 'x.npy'}", *QUICK, "--json")
    assert [finding["kind"] for finding in ran.json["points"][0]["findings"]] == ["precision"]


@pytest.mark.parametrize(("function", "point"), [("f", "imaginary"), ("f", "number"), ("of_list", "listed")])
def test_complex_inputs_are_refused(gradcli: Callable[..., Any], tmp_path: Path, function: str, point: str) -> None:
    file = written(tmp_path, POINTS)
    ran = gradcli("check", f"{file}:{function}", "--at", f"{file}:{point}", *QUICK)
    assert ran.exit_status == 2
    assert "complex" in ran.stderr and "real and imaginary" in ran.stderr


def test_missing_arguments_give_a_line_to_paste(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    file = written(tmp_path, "def f(z, y, k: int, a: float, s: str, b: bool, gamma=2.0): return np.sum(z*y)*a\n")
    ran = gradcli("check", f"{file}:f", *QUICK, "--json")
    error = ran.json["error"]
    assert (ran.exit_status, error["kind"]) == (2, "point")
    assert all(name in error["message"] for name in ("z", "y", "k", "a"))
    line = error["hint"].removeprefix('--at "').removesuffix('"')
    assert "gamma" not in line and "z=randn" in line
    assert gradcli("check", f"{file}:f", "--at", line, *QUICK).exit_status == 0


def test_only_what_is_missing_is_asked_for(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    file = written(tmp_path, "def f(z, y): return np.sum(z*y)\n")
    error = gradcli("check", f"{file}:f", "z=randn(3)", *QUICK, "--json").json["error"]
    assert error["message"].startswith("y has no value")
    assert error["hint"] == 'add --at "y=randn(3)"'


DICTS = """
def loss(params, x, lr): return np.sum(params["w"]*x + params["b"])*lr
def late(x, params): return np.sum(params["w"]*x)
def other(settings, x): return np.sum(settings["depth"]*x)
def picked(z, c, n, lr): return lr*np.sum(z[c])**n
START = {"w": np.ones(3), "b": 1.0}
"""
# fmt: off
LACKING = [
    # target, what is given, the message, the hint
    ("loss",  ("x=[1, 2, 3]", "lr=0.1"), "params has no value ({}:loss takes params, x, lr)", 'params is a dict: --at {}:START --at "x=[1, 2, 3], lr=0.1"'),
    ("loss",  ("x=randn(3)", "lr=0.1"),  "params has no value ({}:loss takes params, x, lr)", 'params is a dict: add --at {}:START --at "lr=0.1"'),
    ("loss",  (),                        "params, x, lr have no value",                       'params is a dict: --at {}:START --at "x=randn(3), lr=randn(3)"'),
    ("late",  ("x=0.5",),                "params has no value ({}:late takes x, params)",     'params is a dict: return it by name from a function, {{"params": {{...}}}}, and name that: --at {}:point --at "x=0.5"'),
    ("other", ("x=0.5",),                "settings has no value ({}:other takes settings, x)", 'settings is a dict: return it by name from a function, {{"settings": {{...}}}}, and name that: --at {}:point --at "x=0.5"'),
    ("picked", ("z=[1, 2, 3]", "c=int([0, 2])", "n=int(2)"), "lr has no value ({}:picked takes z, c, n, lr)", '--at "z=[1, 2, 3], c=int([0, 2]), n=int(2), lr=randn(3)"'),
    ("picked", ("z=[1, 2, 3]", "c=causal(1)", "n=2"),    "lr has no value ({}:picked takes z, c, n, lr)",     'add --at "lr=randn(3)"'),
    ("picked", ("z=[1, 2, 3]", "c=zipf(1, 2)", "n=2"),   "lr has no value ({}:picked takes z, c, n, lr)",     '--at "z=[1, 2, 3], c=int([0, 0]), n=2, lr=randn(3)"'),
]
# fmt: on


@pytest.mark.parametrize(("target", "given", "says", "hint"), LACKING)
def test_a_missing_argument_is_asked_for_beside_those_given(
    gradcli: Callable[..., Any], tmp_path: Path, target: str, given: tuple[str, ...], says: str, hint: str
) -> None:
    file = written(tmp_path, DICTS)
    ran = gradcli("check", f"{file}:{target}", *given, *QUICK, "--json")
    assert ran.exit_status == 2
    assert ran.json["error"]["message"] == says.format(file)
    assert ran.json["error"]["hint"] == hint.format(file)


def test_the_hint_for_a_dict_can_be_followed(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    file = written(tmp_path, DICTS)
    at = ("--at", f"{file}:START", "--at", "x=[1, 2, 3], lr=0.1")
    assert gradcli("check", f"{file}:loss", *at, *QUICK).exit_status == 0
    error = gradcli("check", f"{file}:loss", "params=2.0", "x=1", "lr=0.1", *QUICK, "--json").json["error"]
    assert error["hint"] == f"params is a dict: --at {file}:START"


@pytest.mark.parametrize("body", ["np.sum(x**2)", "x[0]", "x.sum()", "np.sum(np.exp(x))"])
def test_a_function_in_place_of_what_it_returns_is_named(
    gradcli: Callable[..., Any], tmp_path: Path, body: str
) -> None:
    file = written(tmp_path, f"def f(x): return {body}\ndef start(): return np.ones(3)\n")
    error = gradcli("check", f"{file}:f", f"x={file}:start", *QUICK, "--json").json["error"]
    assert error["hint"] == "x is the function start; start(), where it needs no arguments, is what it returns"
    assert gradcli("check", f"{file}:f", f"x={file}:start()", *QUICK).exit_status == 0


@pytest.mark.parametrize(("argv", "name"), [(("f",), "{}:f"), (("h", "--grad", "g"), "g")])
def test_a_coroutine_function_is_refused(
    gradcli: Callable[..., Any], tmp_path: Path, argv: tuple[str, ...], name: str
) -> None:
    file = written(tmp_path, "async def f(x): return x*x\nasync def g(x): return 2*x\ndef h(x): return x*x\n")
    ran = gradcli("check", f"{file}:{argv[0]}", *argv[1:], "x=0.5", *QUICK, "--json")
    assert ran.exit_status == 2
    assert ran.json["error"]["message"] == f"{name.format(file)} is a coroutine function (async def)"
    calls = {"f": "def g(x): return asyncio.run(f(x))", "h": "def h(x): return asyncio.run(g(x))"}
    assert ran.json["error"]["hint"] == f"wrap it: {calls[argv[0]]}"


def test_shapes_draw_what_is_missing(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    file = written(tmp_path, "def f(W, x): return np.sum(np.tanh(W @ x))\n")
    argv = ("grad", f"{file}:f", "--shapes", "W: 2 3; x: 3", "--json")
    at = gradcli(*argv).json["at"]
    assert np.shape(at["W"]) == (2, 3) and np.shape(at["x"]) == (3,)
    assert gradcli(*argv).json["at"] == at != gradcli(*argv, "--seed", "1").json["at"]


# fmt: off
UNKNOWN = [
    ("gama=3",          "'gama' is not a parameter",   "'gamma'"),
    ("zz=3",            "'zz' is not a parameter",     "'z'"),
    ("nothing_alike=3", "is not a parameter",          "z, gamma"),
]
# fmt: on


@pytest.mark.parametrize(("given", "what", "near"), UNKNOWN)
def test_unknown_arguments_get_near_ones(
    gradcli: Callable[..., Any], tmp_path: Path, given: str, what: str, near: str
) -> None:
    ran = gradcli("check", f"{written(tmp_path, 'def f(z, gamma=2.0): return z**2')}:f", "z=1", given, *QUICK)
    assert ran.exit_status == 2
    assert what in ran.stderr and near in ran.stderr


@pytest.mark.parametrize(
    ("parameters", "given", "gradient"),
    [
        ("x, *, k=2.0", (), {"x": 12.0}),
        ("x, *, k", ("k=2",), {"x": 12.0, "k": 9.0}),
        ("x, k=2.0", (), {"x": 12.0}),
        ("x, k=2.0", ("k=3",), {"x": 18.0, "k": 9.0}),
        ("x, /, k=2.0", ("k=3",), {"x": 18.0, "k": 9.0}),
        ("x, unused=7.0, *, k=2.0", ("k=3",), {"x": 18.0, "k": 9.0}),
        ("x, *rest, k=2.0", (), {"x": 12.0}),
    ],
)
def test_defaults_and_keywords(
    gradcli: Callable[..., Any], tmp_path: Path, parameters: str, given: tuple, gradient: dict[str, float]
) -> None:
    file = written(tmp_path, f"def f({parameters}): return k*x**2\n")
    assert gradcli("grad", f"{file}:f", "x=3", *given, "--json").json["gradient"] == gradient


def test_a_default_that_wrt_names_is_an_input(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    file = written(tmp_path, "def f(x, k=2.0): return k*x**2\n")
    document = gradcli("grad", f"{file}:f", "x=3", "--wrt", "k", "--json").json
    assert document["gradient"] == {"k": 9.0} and document["at"]["k"] == 2.0


def test_arguments_beyond_the_named_ones_go_by_name(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    file = written(tmp_path, "def f(x, **others): return x**2 * others['scale']\n")
    ran = gradcli("grad", f"{file}:f", "x=3", "scale=2", "--json")
    assert ran.exit_status == 0, ran.stdout
    assert ran.json["gradient"] == {"x": 12.0, "scale": 9.0}


def test_a_function_without_float_inputs_says_so(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    file = written(tmp_path, "def f(n: int): return n**2\ndef g(): return 1.0\n")
    for argv in ((f"{file}:f", "n=3"), (f"{file}:g",)):
        ran = gradcli("check", *argv, *QUICK)
        assert ran.exit_status == 2 and "no float input" in ran.stderr


SUPPLIED = """
    from dataclasses import dataclass
    from typing import NamedTuple

    class Pair(NamedTuple):
        x: object
        y: object

    def f(x, y=1.0): return np.sum(x**2) * y
    def of_pair(pair): return np.sum(pair.x**2) * pair.y
    def of_dict(params): return np.sum(params["x"]**2) * params["y"]

    x, y = np.array([1.0, 2.0]), 3.0
    as_dict = {"x": x, "y": y}
    as_tuple = (x, y)
    shorter = (x,)
    one = x
    as_list = [1.0, 2.0]
    pair = Pair(x, y)
    def made(): return {"x": x, "y": y}
    def made_tuple(): return x, y
    class Maker:
        def __call__(self): return {"x": x, "y": y}
    maker = Maker()
    class Holder:
        point = {"x": x, "y": y}
    nested = {"params": {"x": x, "y": y}}
    whole = {"x": x, "y": y}
    def broken(): raise KeyError("no such batch")
    def needy(size): return x
    def leaves(): raise SystemExit(0)
    extra = {"x": x, "yy": y}
    longer = (x, y, y)
"""
# fmt: off
AT = [
    ("f",       "as_dict",      {"x", "y"}),
    ("f",       "as_tuple",     {"x", "y"}),
    ("f",       "shorter",      {"x"}),
    ("f",       "one",          {"x"}),
    ("f",       "made",         {"x", "y"}),
    ("f",       "made_tuple",   {"x", "y"}),
    ("f",       "maker",        {"x", "y"}),
    ("f",       "Holder.point", {"x", "y"}),
    ("of_pair", "pair",         {"pair.x", "pair.y"}),
    ("of_dict", "nested",       {"params.x", "params.y"}),
    ("of_dict", "whole",        {"params.x", "params.y"}),
]
# fmt: on


@pytest.mark.parametrize(("function", "point", "inputs"), AT)
def test_python_code_supplies_a_whole_point(
    gradcli: Callable[..., Any], tmp_path: Path, function: str, point: str, inputs: set[str]
) -> None:
    file = written(tmp_path, SUPPLIED)
    ran = gradcli("grad", f"{file}:{function}", "--at", f"{file}:{point}", "--json")
    assert ran.exit_status == 0, ran.stdout
    assert set(ran.json["gradient"]) == inputs


def test_a_point_from_python_is_completed_by_values(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    file = written(tmp_path, SUPPLIED)
    document = gradcli("grad", f"{file}:f", "--at", f"{file}:one", "y=5", "--json").json
    assert document["at"] == {"x": [1.0, 2.0], "y": 5.0}


# fmt: off
BAD_POINTS = [
    ("broken",   "no such batch"),
    ("needy",    "size"),
    ("leaves",   "sys.exit(0)"),
    ("nowhere",  "'nowhere'"),
    ("extra",    "'yy'"),
]
# fmt: on


@pytest.mark.parametrize(("point", "said"), BAD_POINTS)
def test_a_point_that_cannot_be_had_is_the_users_error(
    gradcli: Callable[..., Any], tmp_path: Path, point: str, said: str
) -> None:
    file = written(tmp_path, SUPPLIED.replace("y=1.0", "y"))
    ran = gradcli("check", f"{file}:f", "--at", f"{file}:{point}", *QUICK)
    assert ran.exit_status == 2
    assert said in ran.stderr and "internal" not in ran.stderr and "Traceback" not in ran.stderr


def test_a_tuple_longer_than_the_parameters_is_said_to_be_so(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    file = written(tmp_path, SUPPLIED.replace("y=1.0", "y"))
    ran = gradcli("check", f"{file}:f", "--at", f"{file}:longer", *QUICK)
    assert ran.exit_status == 2
    assert "y has no value" not in ran.stderr


def test_points_are_several_where_an_input_is_named_again(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    file = written(tmp_path, "def f(x, y): return x**2*y\n")
    document = gradcli("check", f"{file}:f", "x=1", "y=2", "x=3", *QUICK, "--json").json
    assert [point["at"] for point in document["points"]] == [{"x": 1.0, "y": 2.0}, {"x": 3.0, "y": 2.0}]


def test_points_of_different_structure_are_refused(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    file = written(tmp_path, "def f(x, y=1.0): return np.sum(x)*y\n")
    ran = gradcli("check", f"{file}:f", "--at", "x=1", "--at", "x=1, y=2", *QUICK)
    assert ran.exit_status == 2 and "different structures" in ran.stderr


LAYERS = """
    def f(params, scale=1.0):
        return scale*sum(np.sum(layer["w"]**2)*layer["b"] for layer in params["layers"])
    point = {"params": {"layers": [{"w": np.array([1.0, 2.0]), "b": 1.0}, {"w": np.array([3.0]), "b": 2.0}]}}
"""
# fmt: off
WRT = [
    ("params.layers[0].*",       ["params.layers[0].w", "params.layers[0].b"]),
    ("params.layers[1]",         ["params.layers[1].w", "params.layers[1].b"]),
    ("params.layers[*].w",       ["params.layers[0].w", "params.layers[1].w"]),
    ("params.layers[1].b",       ["params.layers[1].b"]),
    ("params", ["params.layers[0].w", "params.layers[0].b", "params.layers[1].w", "params.layers[1].b"]),
    ("*.b",                      ["params.layers[0].b", "params.layers[1].b"]),
    ("params.layers[?].b",       ["params.layers[0].b", "params.layers[1].b"]),
    ("*[1].b, *[0].b",           ["params.layers[0].b", "params.layers[1].b"]),
    ("scale",                    ["scale"]),
    ("scale, params.layers[1].b", ["params.layers[1].b", "scale"]),
]
# fmt: on


@pytest.mark.parametrize(("wrt", "differentiated"), WRT)
def test_wrt_takes_globs_and_containers(
    gradcli: Callable[..., Any], tmp_path: Path, wrt: str, differentiated: list[str]
) -> None:
    file = written(tmp_path, LAYERS)
    ran = gradcli("check", f"{file}:f", "--at", f"{file}:point", "--wrt", wrt, *QUICK, "--json")
    assert ran.exit_status == 0, ran.stdout
    (point,) = ran.json["points"]
    assert point["differentiated"] == differentiated
    assert set(point["gradient"]) == set(differentiated)
    assert not set(point["constant"]) & set(differentiated)


@pytest.mark.parametrize(("wrt", "near"), [("params.layers[0].ww", "params.layers[0].w"), ("parms", "params")])
def test_wrt_of_nothing_gets_a_near_one(gradcli: Callable[..., Any], tmp_path: Path, wrt: str, near: str) -> None:
    file = written(tmp_path, LAYERS)
    ran = gradcli("check", f"{file}:f", "--at", f"{file}:point", "--wrt", wrt, *QUICK)
    assert ran.exit_status == 2
    assert f"'{wrt}'" in ran.stderr and near in ran.stderr


def test_bound_takes_a_call_apart() -> None:
    def f(x: Any, params: Any, n: int = 3) -> Any:
        return x

    function, values, notices = bind_arguments(f, "f", {"x": np.ones(2), "params": {"a": 1.0, "k": 2, "s": "t"}})
    assert function.inputs == ("x", "params.a")
    assert set(values) == {"x", "params.a", "params.k", "params.s"}
    assert notices == [] and missing_parameters(f, {}) == ("x", "params")
    assert not values["x"].flags.writeable


def test_the_callers_array_is_not_the_one_that_is_held() -> None:
    given = np.ones(2)
    _, values, _ = bind_arguments(lambda x: x, "f", {"x": given})
    assert values["x"] is not given and given.flags.writeable


@pytest.mark.parametrize(
    ("function", "given", "error"),
    [(3, {}, BadTarget), (lambda x: x, {"y": 1.0}, BadPoint), (lambda x: x, {}, BadPoint)],
)
def test_bound_refuses(function: Any, given: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        bind_arguments(function, "f", given)


@pytest.mark.parametrize(
    ("x", "kind"), [([1.0, 2.0], "list"), ((1.0, 2.0), "tuple"), ([[1.0, 2.0], [3.0, 4.0]], "list")]
)
def test_a_list_of_numbers_where_the_function_takes_an_array_is_told_to_be_one(x: object, kind: str) -> None:
    with pytest.raises(FunctionFailed) as raised:
        package.check(lambda x: np.sum((x - 1.5) ** 2), {"x": x})
    assert raised.value.do == f"x is a {kind} of numbers; give an array: np.array(x)"


def test_a_list_of_arrays_is_one_argument_in_python() -> None:
    with pytest.raises(BadPoint) as caught:
        package.check(lambda x, y: np.sum(x) * np.sum(y), [np.ones(2), np.ones((3, 2))])
    assert caught.value.do == "a list is the value of x alone: give the 2 values as a tuple, or as a dict by name"
    with pytest.raises(BadPoint, match="y has no value"):
        package.check(lambda x, y: np.sum(x[0]) * np.sum(y), [np.ones(2), np.ones((3, 2)), np.ones(4)])


def test_a_file_of_functions_and_layers_offers_both(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    code = "def f(x): return x\nclass Layer:\n    def forward(self, x): return x\n    def backward(self, d): return d\n"
    (tmp_path / "both.py").write_text(code)
    ran = gradcli("check", f"{tmp_path / 'both.py'}", "--json")
    assert ran.json["error"]["hint"].startswith("it has: f; and the class Layer")
