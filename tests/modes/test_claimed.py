"""Claims made by Python code: whatever a gradient function returns, right, wrong, misshapen or broken."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.targets.test_loading import written, xfail

QUICK = ("--modes", "forward,reverse,fd")
AT = ("x=[1, 2]", "y=[3, 4]")
CLAIMS = """
    import scipy.sparse as sp
    from scipy.sparse.linalg import LinearOperator, aslinearoperator

    def f(x, y): return np.sum(x**2 * y)

    def as_tuple(x, y): return 2*x*y, x**2
    def as_list(x, y): return [2*x*y, x**2]
    def as_dict(x, y): return {"y": x**2, "x": 2*x*y}
    def as_lists(x, y): return [list(2*x*y), list(x**2)]
    def as_objects(x, y): return (2*x*y).astype(object), x**2
    def only_x(x, y): return {"x": 2*x*y}
    def only_y(x, y): return {"y": x**2}
    def with_none(x, y): return 2*x*y, None
    def none_first(x, y): return None, x**2
    def first(x, y): return 2*x*y
    def by_position(a, b): return 2*a*b, a**2
    def with_default(x, y, k=2.0): return k*x*y, x**2
    def by_keyword(*, x, y): return 2*x*y, x**2
    def takes_all(*args): return 2*args[0]*args[1], args[0]**2
    def other_order(y, x): return {"x": 2*x*y, "y": x**2}
    def writes(x, y):
        y *= x
        return 2*y, x**2
    class Claim:
        def __call__(self, x, y): return 2*x*y, x**2
        def method(self, x, y): return 2*x*y, x**2
    instance = Claim()

    def takes_anything(*args, **named): return 2*args[0]*args[1], args[0]**2
    def takes_names(**named): return 2*named["x"]*named["y"], named["x"]**2

    def wrong_y(x, y): return 2*x*y, 2*x**2
    def sign(x, y): return -2*x*y, -x**2
    def slightly(x, y): return 2*x*y*(1 + 1e-8), x**2
    def wrong_first(x, y): return 2*x
    def nans(x, y): return 2*x*y, x*np.nan
    def infinite(x, y): return 2*x*y, x/0
    def swapped(x, y): return x**2, 2*x*y
    def cut(x, y): return 2*x*y, None if x is None else np.zeros(2)

    def column(x, y): return (2*x*y)[:, None], x**2
    def row(x, y): return (2*x*y)[None], x**2
    def scalar(x, y): return 3.0
    def longer(x, y): return np.append(2*x*y, 0.0), x**2
    def empty(x, y): return np.zeros(0)
    def three(x, y): return x, x, x
    def broadcast(x, y): return {"x": np.float64(6.0), "y": x**2}

    def raises(x, y):
        z = x + y
        raise RuntimeError("no gradient on Sundays")
    def exits(x, y): raise SystemExit(0)
    def text(x, y): return "2*x*y"
    def imaginary(x, y): return 2j*x*y, x**2
    def ragged(x, y): return [[1.0, 2.0], [3.0, [4.0]]]
    def strings(x, y): return ["a", "b"]
    def needs_more(x, y, z): return 2*x*y
    def unknown_name(x, y): return {"x": 2*x*y, "z": x**2}
    def nothing(x, y): pass
    def both_none(x, y): return None, None

    not_callable = 3
"""
RIGHT = [
    "as_tuple", "as_list", "as_dict", "as_lists", "as_objects", "only_x", "only_y", "with_none", "none_first", "first",
    "by_position", "with_default", "by_keyword", "takes_all", "writes", "instance", "instance.method",
    "other_order",
    "takes_names", "takes_anything",
]  # fmt: skip


@pytest.fixture(autouse=True)
def _importable_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))


@pytest.fixture(name="claiming")
def _claiming(gradcli: Callable[..., Any], tmp_path: Path) -> Callable[..., Any]:
    """Check f against one of the claims above."""
    file = written(tmp_path, CLAIMS)
    return lambda claim, *more: gradcli("check", f"{file}:f", *AT, "--grad", claim, *QUICK, *more)


@pytest.mark.parametrize("claim", RIGHT)
def test_right_claims_pass_in_whatever_form_they_come(claiming: Callable[..., Any], claim: str) -> None:
    ran = claiming(claim, "--json", *(("--allow", "mutates-input") if claim == "writes" else ()))
    assert (ran.exit_status, ran.json.get("verdict")) == (0, "inconclusive" if claim == "writes" else "pass"), (
        ran.stdout
    )
    assert ran.json["claim"] == claim
    assert ran.json["points"][0]["modes"]["claim"]["verdict"] == "agree"


# fmt: off
CLAIMED = [
    ("as_tuple",  {"x": [6.0, 16.0], "y": [1.0, 4.0]}),
    ("as_dict",   {"x": [6.0, 16.0], "y": [1.0, 4.0]}),
    ("only_y",    {"y": [1.0, 4.0]}),
    ("with_none", {"x": [6.0, 16.0]}),
    ("first",     {"x": [6.0, 16.0]}),
]
# fmt: on


@pytest.mark.parametrize(("claim", "values"), CLAIMED)
def test_a_claim_is_compared_for_the_inputs_it_is_made_for(
    claiming: Callable[..., Any], claim: str, values: dict[str, list[float]]
) -> None:
    (point,) = claiming(claim, "--json").json["points"]
    assert point["modes"]["claim"]["gradient"] == values
    assert point["entries"]["compared"] == 2 * len(values)


def test_one_array_is_for_the_first_input(claiming: Callable[..., Any]) -> None:
    (point,) = claiming("first", "--json").json["points"]
    assert (point["differentiated"], point["constant"]) == (["x"], ["y"])


@pytest.mark.parametrize(("wrt", "status"), [("x", 0), ("y", 1), ("x,y", 2)])
def test_one_array_is_for_the_input_that_wrt_names(claiming: Callable[..., Any], wrt: str, status: int) -> None:
    ran = claiming("first", "--wrt", wrt)
    assert ran.exit_status == status
    assert status != 2 or "tuple" in ran.stderr


# fmt: off
WRONG = [
    ("wrong_y",      "y", "factor"),
    ("sign",         "x", "sign"),
    ("slightly",     "x", None),
    ("wrong_first",  "x", None),
    ("nans",         "y", None),
    ("infinite",     "y", None),
    ("swapped",      "x", "swapped"),
    ("cut",          "y", "detached"),
]
# fmt: on


@pytest.mark.parametrize(("claim", "entry", "kind"), WRONG)
def test_wrong_claims_fail_and_say_where(
    claiming: Callable[..., Any], claim: str, entry: str, kind: str | None
) -> None:
    ran = claiming(claim, "--json")
    (point,) = ran.json["points"]
    assert (ran.exit_status, point["verdict"]) == (1, "fail")
    assert entry in {mismatch["input"] for mismatch in point["mismatches"]}
    assert (point["diagnosis"] or {}).get("kind") == kind or kind is None
    assert f"{entry}[" in claiming(claim).stdout


# fmt: off
SHAPES = [
    ("column",    "(2, 1)", "(2,)"),
    ("row",       "(1, 2)", "(2,)"),
    ("scalar",    "()",     "(2,)"),
    ("longer",    "(3,)",   "(2,)"),
    ("empty",     "(0,)",   "(2,)"),
    ("three",     "(3, 2)", "(2,)"),
    ("broadcast", "()",     "(2,)"),
]
# fmt: on


@pytest.mark.parametrize(("claim", "claimed", "right"), SHAPES)
def test_a_wrong_shape_is_wrong_and_never_broadcast(
    claiming: Callable[..., Any], claim: str, claimed: str, right: str
) -> None:
    ran = claiming(claim, "--json")
    diagnosis = ran.json["points"][0]["diagnosis"]
    assert ran.exit_status == 1
    assert diagnosis["kind"] == "shape"
    assert claimed in diagnosis["message"] and right in diagnosis["message"]
    assert claimed in claiming(claim).stdout


# fmt: off
BROKEN = [
    ("raises",       "RuntimeError: no gradient on Sundays",    "raise RuntimeError"),
    ("exits",        "sys.exit(0)",                             "raise SystemExit"),
    ("text",         "not real numbers",                        ""),
    ("imaginary",    "complex",                                 ""),
    ("ragged",       "different lengths",                       ""),
    ("strings",      "not real numbers",                        ""),
    ("needs_more",   "'z'",                                     ""),
    ("not_callable", "not_callable",                            ""),
    ("asd_tuple",    "did you mean 'as_tuple'?",                ""),
    ("utterly_else", "utterly_else",                            "it has: "),
    ("file.py:g",    "no file",                                 ""),
    ("",             "empty",                                   ""),
    ("2*x*y",        "several inputs",                          "x=..., y=..."),
    ("unknown_name", "'z'", ""),
]
# fmt: on


@pytest.mark.parametrize(("claim", "said", "also"), BROKEN)
def test_a_claim_that_cannot_be_had_is_the_users_error(
    claiming: Callable[..., Any], claim: str, said: str, also: str
) -> None:
    ran = claiming(claim)
    assert (ran.exit_status, ran.stdout) == (2, "")
    assert said in ran.stderr and also in ran.stderr
    assert "Traceback" not in ran.stderr and "internal" not in ran.stderr


def test_a_claim_that_raises_shows_its_own_line(claiming: Callable[..., Any]) -> None:
    error = claiming("raises", "--json").json["error"]
    assert error["kind"] == "claim"
    assert "users_" in error["where"] and 'raise RuntimeError("no gradient on Sundays")' in error["where"]


@pytest.mark.parametrize("claim", ["nothing", "both_none", "x=None, y=None"])
def test_a_claim_of_nothing_is_never_a_pass(claiming: Callable[..., Any], claim: str) -> None:
    assert claiming(claim).exit_status != 0


# fmt: off
TWO = [
    ("--jac", "as_tuple"),
    ("--vjp", "as_tuple"),
    ("--jvp", "as_tuple"),
    ("--value-and-grad",),
]
# fmt: on


@pytest.mark.parametrize("other", TWO)
def test_two_claims_at_once_are_refused(claiming: Callable[..., Any], other: tuple[str, ...]) -> None:
    ran = claiming("as_tuple", *other)
    assert ran.exit_status == 2
    assert other[0].lstrip("-") in ran.stderr and "claim" in ran.stderr


def test_a_claim_may_be_in_another_file_or_an_expression(claiming: Callable[..., Any], tmp_path: Path) -> None:
    other = written(tmp_path / "other", "def g(x, y): return 2*x*y, x**2\n")
    assert claiming(f"{other}:g").exit_status == 0
    assert claiming("x=2*x*y, y=x**2").exit_status == 0
    assert claiming("x=2*x*y, y=2*x**2").exit_status == 1
    assert claiming("p=x*y; x=2*p").exit_status == 0


def test_an_expression_may_be_checked_against_python(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    file = written(tmp_path, CLAIMS)
    for claim, status in (("as_tuple", 0), ("wrong_y", 1)):
        assert gradcli("check", "sum(x**2*y)", *AT, "--grad", f"{file}:{claim}", *QUICK).exit_status == status


JACOBIANS = """
    import scipy.sparse as sp
    from scipy.sparse.linalg import LinearOperator, aslinearoperator

    def f(x): return np.array([x[0]*x[1], x[0]**2, 3*x[1]])
    def J(x): return np.array([[x[1], x[0]], [2*x[0], 0.0], [0.0, 3.0]])

    def as_array(x): return J(x)
    def as_rows(x): return J(x).tolist()
    def as_csr(x): return sp.csr_matrix(J(x))
    def as_csc_array(x): return sp.csc_array(J(x))
    def as_coo(x): return sp.coo_matrix(J(x))
    def as_operator(x): return aslinearoperator(J(x))
    def as_own_operator(x):
        return LinearOperator((3, 2), matvec=lambda v: J(x) @ v, rmatvec=lambda w: J(x).T @ w)
    def as_dict(x): return {"x": J(x)}
    def as_masked(x): return np.ma.array(J(x))

    def slipped(x):
        found = J(x)
        found[2, 1] = 2.0
        return found
    def slipped_csr(x): return sp.csr_matrix(slipped(x))
    def slipped_operator(x): return aslinearoperator(slipped(x))
    def transposed(x): return J(x).T
    def transposed_csr(x): return sp.csr_matrix(J(x).T)
    def row_missing(x): return J(x)[:2]
    def flat(x): return J(x).ravel()
"""


@pytest.fixture(name="jacobian")
def _jacobian(gradcli: Callable[..., Any], tmp_path: Path) -> Callable[..., Any]:
    file = written(tmp_path, JACOBIANS)
    return lambda claim, *more: gradcli("check", f"{file}:f", "x=[0.5, 2]", "--jac", claim, *QUICK, *more)


@pytest.mark.parametrize(
    "claim",
    [
        "as_array", "as_rows", "as_csr", "as_csc_array", "as_coo", "as_operator", "as_own_operator", "as_dict",
        "as_masked",
    ],
)  # fmt: skip
def test_right_jacobians_pass_sparse_and_as_operators_too(jacobian: Callable[..., Any], claim: str) -> None:
    assert jacobian(claim).exit_status == 0


@pytest.mark.parametrize("claim", ["slipped", "slipped_csr", "slipped_operator"])
def test_a_slip_in_a_jacobian_is_named_output_over_input(jacobian: Callable[..., Any], claim: str) -> None:
    ran = jacobian(claim, "--json")
    (mismatch,) = ran.json["points"][0]["mismatches"]
    assert ran.exit_status == 1
    assert (mismatch["output"], mismatch["input"], mismatch["index"]) == ([2], "x", [1])
    assert (mismatch["claimed"], mismatch["reference"]) == (2.0, 3.0)
    assert "f[2]/x[1]" in jacobian(claim).stdout


@pytest.mark.parametrize(
    ("claim", "said"),
    [("transposed", "transposed"), ("transposed_csr", "transposed"), ("row_missing", "(2, 2)"), ("flat", "(6,)")],
)
def test_a_jacobian_of_the_wrong_shape_is_wrong(jacobian: Callable[..., Any], claim: str, said: str) -> None:
    ran = jacobian(claim, "--json")
    assert ran.exit_status == 1
    assert said in ran.json["points"][0]["diagnosis"]["message"]


def test_sparse_gradients_of_matrices_pass(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    code = "import scipy.sparse as sp\ndef f(W): return np.sum(W**2)\ndef g(W): return sp.csr_matrix(2*W)\n"
    file = written(tmp_path, code)
    assert gradcli("check", f"{file}:f", "W=[[1, 2], [3, 4]]", "--grad", "g", *QUICK).exit_status == 0


STRUCTURES = """
    from dataclasses import dataclass
    from typing import NamedTuple

    @dataclass
    class Layer:
        W: object
        b: object

    class Pair(NamedTuple):
        W: object
        b: object

    def f(p): return np.sum(p.W**2) * p.b
    def parts(p): return 2*p.W*p.b, np.sum(p.W**2)

    def as_dataclass(p): return Layer(*parts(p))
    def as_namedtuple(p): return Pair(*parts(p))
    def as_dict(p): return dict(zip(("W", "b"), parts(p)))
    def by_parameter(p): return {"p": as_dict(p)}
    def by_path(p): return dict(zip(("p.W", "p.b"), parts(p)))
    def with_none(p): return Layer(parts(p)[0], None)

    def slipped(p): return Layer(parts(p)[0], 2*parts(p)[1])
    def misshapen(p): return Layer(parts(p)[0][None], parts(p)[1])
    def unknown(p): return {"W": parts(p)[0], "c": parts(p)[1]}
    def flat(p): return np.append(*parts(p))

    point = Layer(np.array([1.0, 2.0]), 3.0)
    layers = {"layers": [point, Layer(np.array([3.0]), 2.0)]}
    def deep(layers): return f(layers[0]) * f(layers[1])
    def deep_grad(layers):
        a, b = layers
        return [Layer(*(f(b)*x for x in parts(a))), Layer(*(f(a)*x for x in parts(b)))]
    def deep_slip(layers):
        a, b = deep_grad(layers)
        return [a, Layer(b.W, -b.b)]
"""


@pytest.fixture(name="structured")
def _structured(gradcli: Callable[..., Any], tmp_path: Path) -> Callable[..., Any]:
    file = written(tmp_path, STRUCTURES)

    def check(claim: str, *more: str, target: str = "f", point: str = "point") -> Any:
        return gradcli("check", f"{file}:{target}", "--at", f"{file}:{point}", "--grad", claim, *QUICK, *more)

    return check


@pytest.mark.parametrize("claim", ["as_dataclass", "as_namedtuple", "as_dict", "by_parameter", "by_path", "with_none"])
def test_nested_claims_match_the_structure(structured: Callable[..., Any], claim: str) -> None:
    assert structured(claim).exit_status == 0


def test_a_slip_in_a_nested_claim_is_named_by_path(structured: Callable[..., Any]) -> None:
    ran = structured("slipped", "--json")
    assert ran.exit_status == 1
    assert [mismatch["input"] for mismatch in ran.json["points"][0]["mismatches"]] == ["p.b"]


def test_a_leaf_of_the_wrong_shape_is_wrong(structured: Callable[..., Any]) -> None:
    ran = structured("misshapen", "--json")
    assert ran.exit_status == 1
    assert "p.W" in ran.json["points"][0]["diagnosis"]["message"]


@pytest.mark.parametrize("claim", ["unknown", "flat"])
def test_a_claim_of_the_wrong_structure_is_wrong(structured: Callable[..., Any], claim: str) -> None:
    ran = structured(claim, "--json")
    assert ran.exit_status == 1
    assert ran.json["points"][0]["diagnosis"]["kind"] == "shape"


def test_lists_of_dataclasses_are_claimed_as_such(structured: Callable[..., Any]) -> None:
    assert structured("deep_grad", target="deep", point="layers").exit_status == 0
    ran = structured("deep_slip", "--json", target="deep", point="layers")
    assert [mismatch["input"] for mismatch in ran.json["points"][0]["mismatches"]] == ["layers[1].b"]


BOTH = """
    def right(x): return np.sum(x**2), 2*x
    def as_list(x): return [np.sum(x**2), 2*x]
    def wrong(x): return np.sum(x**2), 2*x + 1e-3
    def misshapen(x): return np.sum(x**2), np.append(2*x, 0.0)
    def two(x, y): return np.sum(x**2*y), (2*x*y, x**2)
    def two_wrong(x, y): return np.sum(x**2*y), (2*x*y, -x**2)
    def alone(x): return np.sum(x**2)
    def triple(x): return np.sum(x**2), 2*x, 3.0
"""


# fmt: off
VALUE_AND_GRAD = [
    ("right",     ("x=[1, 2]",),             0, ""),
    ("as_list",   ("x=[1, 2]",),             0, ""),
    ("wrong",     ("x=[1, 2]",),             1, ""),
    ("misshapen", ("x=[1, 2]",),             1, "(3,)"),
    ("two",       ("x=[1, 2]", "y=[3, 4]"),  0, ""),
    ("two_wrong", ("x=[1, 2]", "y=[3, 4]"),  1, "y["),
    ("triple",    ("x=[1, 2]",),             2, "pair"),
    ("alone",     ("x=[1, 2]",),             2, "pair"),
]
# fmt: on


@pytest.mark.parametrize(("target", "at", "status", "said"), VALUE_AND_GRAD)
def test_value_and_gradient_together(
    gradcli: Callable[..., Any], tmp_path: Path, target: str, at: tuple, status: int, said: str
) -> None:
    ran = gradcli("check", f"{written(tmp_path, BOTH)}:{target}", *at, "--value-and-grad", *QUICK)
    assert ran.exit_status == status, ran.stderr
    assert said in ran.stdout + ran.stderr


def test_the_option_for_a_pair_is_named_where_a_pair_is_returned(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    ran = gradcli("check", f"{written(tmp_path, BOTH)}:right", "x=[1, 2]", *QUICK)
    assert "none of yours was checked (--value-and-grad)" in " ".join(ran.stdout.split())


def test_value_and_gradient_of_an_expression_is_refused(gradcli: Callable[..., Any]) -> None:
    ran = gradcli("check", "x**2", "x=1", "--value-and-grad", *QUICK)
    assert ran.exit_status == 2 and "--value-and-grad" in ran.stderr


METHODS = """
    class Model:
        def __init__(self): self.k = 2.0
        def loss(self, x): return self.k * np.sum(x**2)
        def loss_grad(self, x): return 2 * self.k * x
        def wrong(self, x): return self.k * x
    model = Model()
"""


@pytest.mark.parametrize(("claim", "status"), [("loss_grad", 0), ("wrong", 1)])
@pytest.mark.parametrize("owner", ["model", "Model"])
def test_methods_are_checked_against_methods(
    gradcli: Callable[..., Any], tmp_path: Path, owner: str, claim: str, status: int
) -> None:
    file = written(tmp_path, METHODS)
    ran = gradcli("check", f"{file}:{owner}.loss", "x=[1, 2]", "--grad", f"{owner}.{claim}", *QUICK)
    assert ran.exit_status == status, ran.stderr


@xfail("near names are looked for in the module, not in the object before the dot")
def test_a_wrong_method_gets_a_near_one(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    file = written(tmp_path, METHODS)
    ran = gradcli("check", f"{file}:model.loss", "x=[1, 2]", "--grad", "model.los_grad", *QUICK)
    assert ran.exit_status == 2 and "loss_grad" in ran.stderr


def test_fixed_tolerances_hold_for_python_claims(claiming: Callable[..., Any]) -> None:
    assert claiming("slightly", "--rtol", "1e-6").exit_status == 0
    assert claiming("slightly", "--rtol", "1e-9").exit_status == 1


def test_require_claim(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    file = written(tmp_path, CLAIMS)
    assert gradcli("check", f"{file}:f", *AT, "--require-claim", *QUICK).exit_status == 2
    assert gradcli("check", f"{file}:f", *AT, "--require-claim", "--grad", "as_tuple", *QUICK).exit_status == 0


@pytest.mark.parametrize(("claim", "status"), [("as_tuple", 0), ("wrong_y", 1)])
def test_compare_modes_measures_a_python_claim(
    gradcli: Callable[..., Any], tmp_path: Path, claim: str, status: int
) -> None:
    file = written(tmp_path, CLAIMS)
    ran = gradcli("compare-modes", f"{file}:f", *AT, "--grad", claim, *QUICK, "--json")
    assert ran.exit_status == status
    assert (ran.json["modes"]["claim"]["right_digits"]["worst"] > 14) is (status == 0)


SHAPES = """
    def corner(x): return np.array([[np.sum(x**2)]])
    def corner_g(x): return 2*x
    def corner_row(x): return (2*x)[None]
    def corner_slip(x): return 2*x + 1e-3
    def outer(x): return np.outer(x[:2], x)
    def outer_J(x):
        found = np.zeros((2, 3, 3))
        for i in range(2):
            for k in range(3):
                found[i, k, i] += x[k]
                found[i, k, k] += x[i]
        return found
    def outer_flat(x): return outer_J(x).reshape(6, 3)
    def outer_turned(x): return outer_flat(x).T
    def outer_slip(x): return outer_flat(x) + 1e-3*np.eye(6)[:, :3]
    def outer_ravel(x): return outer_flat(x).ravel()
    def of_matrix(X): return X @ np.array([1.0, 2.0, 3.0])
    def of_matrix_flat(X): return np.kron(np.eye(2), np.array([1.0, 2.0, 3.0]))
    def of_matrix_slip(X): return of_matrix_flat(X)[::-1]
    def scalar(X): return np.sum(X**2)
    def scalar_row(X): return 2*X.reshape(1, 6)
    def of_one(x): return np.outer(x[:1], [1.0, 2.0, 3.0]).sum(0)**2
    def of_one_vector(x): return 2*x[0]*np.array([1.0, 4.0, 9.0])
    def of_one_slip(x): return of_one_vector(x) + [0, 0, 1e-3]
    def of_column(X): return X[:2]*X[1:]
    def of_column_matrix(X): return np.array([[X[1, 0], X[0, 0], 0], [0, X[2, 0], X[1, 0]]])
    def of_column_vector(X): return np.append(X[1:], X[1:])
"""


@pytest.mark.parametrize(
    ("f", "claim", "status"),
    [
        ("corner", "corner_g", 0), ("corner", "corner_row", 0), ("corner", "corner_slip", 1), ("outer", "outer_J", 0),
        ("outer", "outer_flat", 0), ("outer", "outer_turned", 1), ("outer", "outer_slip", 1), ("outer", "outer_ravel", 1),
        ("of_matrix", "of_matrix_flat", 0), ("of_matrix", "of_matrix_slip", 1), ("scalar", "scalar_row", 1),
        ("of_one", "of_one_vector", 0), ("of_one", "of_one_slip", 1),
        ("of_column", "of_column_matrix", 0), ("of_column", "of_column_vector", 1),
    ],
)  # fmt: skip
def test_a_jacobian_may_be_flat(gradcli: Callable[..., Any], tmp_path: Path, f: str, claim: str, status: int) -> None:
    file = written(tmp_path, SHAPES)
    points = {
        "of_matrix": "X=[[1,2,3],[4,5,6]]",
        "scalar": "X=[[1,2,3],[4,5,6]]",
        "of_one": "x=[2]",
        "of_column": "X=[[1],[2],[3]]",
    }
    at = points.get(f, "x=[1,2,3]")
    ran = gradcli("check", f"{file}:{f}", "--jac", claim, at)
    assert ran.exit_status == status, ran.stdout
    assert status or claim == "outer_J" or "taken as" in ran.stdout


def test_a_lone_part_that_fits_another_input_gets_the_option_that_says_so(
    gradcli: Callable[..., Any], tmp_path: Path
) -> None:
    path = tmp_path / "rhs.py"
    path.write_text(
        "import numpy as np\n\n\ndef rhs(t, y):\n    return np.array([-y[0] * t, y[0] - y[1]])\n\n\n"
        "def jac(t, y):\n    return np.array([[-t, 0], [1, -1]])\n"
    )
    ran = gradcli("check", f"{path}:rhs", "--jac", "jac", "--at", "t=0.5, y=[1, 2]", *QUICK)
    assert ran.exit_status == 1 and "it fits y: --wrt y" in " ".join(ran.stdout.split())
    assert (
        gradcli("check", f"{path}:rhs", "--jac", "jac", "--at", "t=0.5, y=[1, 2]", "--wrt", "y", *QUICK).exit_status
        == 0
    )


@pytest.mark.parametrize(
    ("option", "inputs", "says"),
    [
        ("vjp", "x", ("the claimed product w J", "f = w . ")),
        ("vjp", "w", ("the claimed product u J", "f = u . ")),
        ("jvp", "v", ("the claimed product J p", " along p = ")),
        ("hvp", "H", ("the claimed product Hessian v", " along v = ")),
    ],
)
def test_letters_of_products_are_no_names_of_inputs(
    gradcli: Callable[..., Any], tmp_path: Path, option: str, inputs: str, says: tuple[str, str]
) -> None:
    f = f"np.sum({inputs}**3)" if option == "hvp" else f"np.sin({inputs})"
    code = (
        f"import numpy as np\n\ndef f({inputs}):\n    return {f}\n\ndef g({inputs}, vector):\n    return vector * 0.0\n"
    )
    ran = gradcli("check", f"{written(tmp_path, code)}:f", f"{inputs}=[1, 2]", f"--{option}", "g", *QUICK)
    assert ran.exit_status == 1 and all(part in " ".join(ran.stdout.split()) for part in says)
