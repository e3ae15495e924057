"""The cost of a program: its polynomials are what is counted when its code is run, line by line, at three sizes."""

import ast
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy import special

from gradcli.report.derive import Cost
from tests.derivation.problems import PROBLEMS, Problem
from tests.derivation.test_textbook import DRAWN
from tests.rows import for_rows

Gradcli = Callable[..., Any]
SIZES = ({"n": 3, "m": 5, "k": 4, "d": 2}, {"n": 6, "m": 7, "k": 2, "d": 9}, {"n": 11, "m": 2, "k": 3, "d": 5})

# fmt: off
KNOWN = [
    # function                       sizes                          by   operations                              memory
    ("0.5*sum((W@x - y)**2)",        "W: m n; x: n; y: m",          "x", "4*m*n + m",                            "m + n"),
    ("0.5*sum((W@x - y)**2)",        "W: m n; x: n; y: m",          "W", "3*m*n + m",                            "m*n + m"),
    ("x@S@x",                        "S: n n; x: n",                "x", "3*n**2",                               "n**2 + n"),
    ("log(det(S))",                  "S: n n",                      "S", "2*n**3",                               "2*n**2"),
    ("a@inv(S)@x",                   "S: n n; x: n; a: n",          "x", "2/3*n**3 + 2*n**2",                    "n**2 + n"),
    ("det(S)",                       "S: n n",                      "S", "8/3*n**3 + n**2",                      "2*n**2"),
    ("logsumexp(x)",                 "x: n",                        "x", "5*n",                                  "2*n"),
    ("sum(x**3)",                    "x: n",                        "x", "2*n",                                  "n"),
    ("x**2*y",                       "x:; y:",                      "x", "2",                                    "0"),
    ("c@x",                          "c: n; x: n",                  "x", "0",                                    "0"),
    ("sum(A*X)",                     "A: 3 4; X: 3 4",              "X", "0",                                    "0"),
    ("sum(sin(x))",                  "x: 5",                        "x", "5",                                    "5"),
    ("trace(A@X)",                   "A: n m; X: m n",              "X", "0",                                    "0"),
    ("mean(x**2)",                   "x: n",                        "x", "2*n",                                  "n"),
]
SAID = [
    (Cost("2*m*n + 3*m", "2*m*n", "m + n"),                            "2 m n + 3 m operations, m + n numbers of memory"),
    (Cost("2*m*n**2 + n**2 + 3*m + 1", "2*m*n**2", "max(n**2, 2*m)"),  "about 2 m n² operations, max(n², 2 m) numbers of memory"),
    (Cost("2/3*n**3", "2/3*n**3", "n**2"),                             "2/3 n³ operations, n² numbers of memory"),
    (Cost("7", "7", "0"),                                              "7 operations"),
    (Cost("n**12 - n", "n**12", "0"),                                  "n¹² - n operations"),
]
# fmt: on


@dataclass
class Held:
    """A value on the way: what it is, how many numbers are held for it alone, and whether it is a literal."""

    x: Any
    own: int = 0
    literal: bool = False


#           operations of a call, given its arguments and its result; all others take one for each entry
COUNTED: dict[str, Callable[[list[Any], Any], float]] = {
    "linalg.inv": lambda xs, y: 2 * len(y) ** 3,
    "linalg.det": lambda xs, y: 2 / 3 * len(xs[0]) ** 3,
    "linalg.solve": lambda xs, y: 2 / 3 * len(xs[0]) ** 3 + 2 * len(xs[0]) * y.size,
    "linalg.norm": lambda xs, y: 2 * np.size(xs[0]),
    "special.softmax": lambda xs, y: 5 * np.size(xs[0]),
    "special.logsumexp": lambda xs, y: 4 * np.size(xs[0]),
    "var": lambda xs, y: 4 * np.size(xs[0]),
    "sum": lambda xs, y: np.size(xs[0]),
    "mean": lambda xs, y: np.size(xs[0]),
    **dict.fromkeys(["prod", "max", "min"], lambda xs, y: np.size(xs[0])),
    "trace": lambda xs, y: len(xs[0]),
    **dict.fromkeys(
        ["concatenate", "eye", "ones", "zeros", "ones_like", "zeros_like", "diag", "pad", "float64", "tril", "triu"],
        lambda xs, y: 0,
    ),
}
OF_ONE_ENTRY = {"linalg.inv", "linalg.solve", "linalg.det"}  # they copy the matrix
OWN_ARRAY = {"special.softmax", "special.logsumexp", "var"}
VIEWS = {"flip"}
NEW = {
    "concatenate",
    "tril",
    "triu",
    "cumsum",
    "prod",
    "max",
    "min",
    "eye",
    "ones",
    "zeros",
    "ones_like",
    "zeros_like",
    "diag",
    "pad",
    "outer",
    "sum",
    "mean",
    "linalg.norm",
    "trace",
}


class Counter(ast.NodeVisitor):
    """Runs code and counts its operations and the numbers held, as numpy's arrays have them."""

    def __init__(self, inputs: dict[str, Any]) -> None:
        self.names = {name: Held(x) for name, x in inputs.items()}
        self.operations = 0.0
        self.held = self.most = 0

    def run(self, code: str) -> Any:
        body = next(node for node in ast.parse(code).body if isinstance(node, ast.FunctionDef)).body
        for line in body:
            assert isinstance(line, ast.Assign | ast.Return) and line.value is not None
            value = self.visit(line.value)
            if isinstance(line, ast.Assign):
                assert isinstance(line.targets[0], ast.Name)
                self.names[line.targets[0].id] = Held(value.x)
        return value.x

    def made(self, x: Any, operations: float, args: list[Held], aside: int = 0, in_place: bool = True) -> Held:
        size = np.size(x) if np.ndim(x) else 0
        taken = in_place and any(a.own == size and np.shape(a.x) == np.shape(x) for a in args)
        self.operations += operations
        self.most = max(self.most, self.held + aside + (0 if taken else size))
        self.held += size - sum(a.own for a in args)
        return Held(x, size)

    def visit_Name(self, node: ast.Name) -> Held:
        return self.names[node.id]

    def visit_Constant(self, node: ast.Constant) -> Held:
        return Held(node.value, literal=True)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Held:
        a = self.visit(node.operand)
        return Held(-a.x, literal=True) if a.literal else self.made(-a.x, np.size(a.x), [a])

    def visit_BinOp(self, node: ast.BinOp) -> Held:
        a, b = self.visit(node.left), self.visit(node.right)
        if isinstance(node.op, ast.MatMult):
            y = a.x @ b.x
            return self.made(y, 2 * np.size(y) * np.shape(b.x)[0], [a, b], in_place=False)
        operate = {
            ast.Add: np.add,
            ast.Sub: np.subtract,
            ast.Mult: np.multiply,
            ast.Div: np.divide,
            ast.Pow: np.float_power,
        }
        y = operate[type(node.op)](a.x, b.x)
        return Held(y, literal=True) if a.literal and b.literal else self.made(y, np.size(y), [a, b])

    def visit_Compare(self, node: ast.Compare) -> Held:
        a, b = self.visit(node.left), self.visit(node.comparators[0])
        operate = {
            ast.Gt: np.greater,
            ast.GtE: np.greater_equal,
            ast.Lt: np.less,
            ast.LtE: np.less_equal,
            ast.Eq: np.equal,
        }
        y = operate[type(node.ops[0])](a.x, b.x)
        return self.made(y, np.size(y), [a, b])

    def visit_Attribute(self, node: ast.Attribute) -> Held:
        if ast.unparse(node) == "np.pi":
            return Held(np.pi, literal=True)
        assert node.attr == "T"
        a = self.visit(node.value)
        return Held(np.transpose(a.x), a.own)

    def visit_Subscript(self, node: ast.Subscript) -> Held:
        if ast.unparse(node.value).startswith("np.shape("):
            return Held(eval(ast.unparse(node), {"np": np}, {name: held.x for name, held in self.names.items()}))
        a = self.visit(node.value)
        whole = ast.Expression(ast.Subscript(ast.Name("x", ast.Load()), node.slice, ast.Load()))
        known = {name: held.x for name, held in self.names.items()} | {"x": a.x}
        y = eval(compile(ast.fix_missing_locations(whole), "<index>", "eval"), known)
        seen = np.ndim(y) == 0 or np.shares_memory(y, a.x)
        return Held(y, a.own) if seen else self.made(y, 0, [a], in_place=False)

    def visit_Tuple(self, node: ast.Tuple) -> Held:
        return Held(tuple(self.visit(e).x for e in node.elts), literal=True)

    def visit_List(self, node: ast.List) -> Held:
        return Held([self.visit(e).x for e in node.elts], literal=True)

    def visit_Call(self, node: ast.Call) -> Held:
        word = ast.unparse(node.func)
        name = word.removeprefix("np.")
        before = self.operations
        listed = node.args[0] if name == "concatenate" else None
        joined = isinstance(listed, ast.List)
        args = [self.visit(a) for a in (listed.elts if isinstance(listed, ast.List) else node.args)]
        if name in {"eye", "ones", "zeros"}:
            self.operations = before  # n - 1 is no operation on numbers of the inputs
        given = [a.x for a in args]
        y = eval(word, {"np": np, "special": special})(
            *([given] if joined else given), **{k.arg: ast.literal_eval(k.value) for k in node.keywords}
        )
        if name in VIEWS:
            return Held(y, args[0].own)
        if all(a.literal for a in args) and name not in NEW:
            return Held(y, literal=True)
        arrays = [a for a in args if not a.literal]
        if name == "einsum":
            letters = {
                c: n
                for w, x in zip(given[0].split("->")[0].split(","), given[1:], strict=True)
                for c, n in zip(w, np.shape(x), strict=True)
            }
            return self.made(y, (len(args) - 1) * np.prod(list(letters.values())), arrays, in_place=False)
        operations = COUNTED[name](given, y) if name in COUNTED else np.size(y)
        aside = (
            len(given[0]) ** 2
            if name in OF_ONE_ENTRY
            else np.size(given[0])
            if name in OWN_ARRAY and np.ndim(given[0])
            else 0
        )
        return self.made(y, operations, arrays, aside, in_place=name not in OF_ONE_ENTRY | OWN_ARRAY | NEW)


def valued(text: str, sizes: dict[str, int]) -> float:
    return float(eval(text, {"max": max}, dict(sizes)))


def at_random(problem: Problem, sizes: dict[str, int], shapes: dict[str, list[str]]) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    words = dict(part.split(": ") for part in problem.assume.split("; ") if part)
    found = {}
    for name, dims in shapes.items():
        x = rng.normal(size=tuple(eval(d, dict(sizes)) for d in dims))
        for word in words.get(name, "").split(", "):
            x = DRAWN[word](x) if word in DRAWN else x
        found[name] = np.asarray(x)[()]
    return found


def derived(gradcli: Gradcli, problem: Problem) -> dict[str, Any]:
    facts = ("--assume", problem.assume) if problem.assume else ()
    options = ("--wrt", problem.wrt, "--order", str(problem.order), *facts, "--no-steps", "--json")
    document = gradcli("derive", problem.f, "--shapes", problem.shapes, *options).json
    (result,) = document["results"]
    shapes = document["shapes"] | ({result["direction"]: result["shape"]} if "direction" in result else {})
    return {**result, "shapes": shapes}


# functions whose cost is not a polynomial of sizes here
ITERATED = ("expm", "logm", "sqrtm", "eig", "svd", "pinv", "convolve")


def compared(problem: Problem, result: dict[str, Any]) -> None:
    for sizes in SIZES:
        at = at_random(problem, sizes, result["shapes"])
        counter = Counter(at)
        with np.errstate(all="ignore"):
            y = counter.run(result["code"]["numpy"])
        scope: dict[str, Any] = {}
        exec(result["code"]["numpy"], scope)
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(y, scope[result["kind"]](**at), rtol=1e-12)  # what was counted is what is run
        cost = result["cost"]
        assert counter.operations == pytest.approx(valued(cost["operations"], sizes), rel=1e-12), cost
        assert counter.most == valued(cost["memory"], sizes), cost


@pytest.mark.parametrize("problem", [pytest.param(p, id=name) for name, p in PROBLEMS.items()])
def test_the_cost_is_what_is_counted(gradcli: Gradcli, problem: Problem) -> None:
    result = derived(gradcli, problem)
    if any(word in result["formula"]["expression"] for word in ITERATED):
        assert "cost" not in result
    else:
        compared(problem, result)


@pytest.mark.slow
@pytest.mark.parametrize(("f", "shapes", "wrt", "order"), [
    ("0.5*sum((X@W - Y)**2)", "X: m n; W: n k; Y: m k", "W", 2), ("-sum(Y*log(softmax(X@W, axis=1)))", "X: m n; W: n k; Y: m k", "W", 2),
    ("log(det(S))", "S: n n", "S", 2), ("sum((tanh(X@W)@U - Y)**2)", "X: m n; W: n k; U: k d; Y: m d", "W", 2),
    ("sum((x[1:] - x[:-1])**2)", "x: n", "x", 1), ("sum(relu(W@x))", "W: m n; x: n", "W", 1), ("var(x)*sum(x)", "x: n", "x", 1),
    ("sum(A[:, 1:]**3)", "A: m n", "A", 1), ("sum(maximum(x, 0)**2*y)", "x: n; y: n", "x", 2), ("norm(X)", "X: m n", "X", 2),
    ("sum(tril(A)**2)", "A: n n", "A", 1), ("sum(A[0]**2)", "A: m n", "A", 1), ("x[0]**2*x[1]", "x: n", "x", 1), ("x[-1]*sum(x)", "x: n", "x", 1),
    ("sum(A[::2]**2)", "A: 6 n", "A", 1), ("sum(cumsum(x)**2)", "x: n", "x", 1), ("sum(x[2:-1]**2*y[1:-2])", "x: n; y: n", "y", 1),
    ("prod(x)", "x: n", "x", 1), ("sum(x[[0, 2]]**2*y)", "x: n; y: 2", "y", 1), ("sum(x[:3]*y)", "x: 5; y: 3", "y", 1),
    ("softmax(X@W, axis=1)", "X: m n; W: n k", "X", 1), ("sum(x**4)", "x: 5", "x", 2), ("sum(W)**2", "W: m 3", "W", 2),
])  # fmt: skip
def test_other_programs(gradcli: Gradcli, f: str, shapes: str, wrt: str, order: int) -> None:
    ran = gradcli("derive", f, "--shapes", shapes, "--wrt", wrt, "--order", str(order), "--no-steps", "--json")
    if ran.exit_status == 3:
        pytest.skip("refused")
    problem = Problem(f, shapes, wrt, "", order=order)
    compared(problem, derived(gradcli, problem))


@for_rows(("f", "shapes", "wrt", "operations", "memory"), KNOWN)
def test_known_costs(gradcli: Gradcli, f: str, shapes: str, wrt: str, operations: str, memory: str) -> None:
    cost = derived(gradcli, Problem(f, shapes, wrt, ""))["cost"]
    assert (cost["operations"], cost["memory"]) == (operations, memory)


@for_rows(("f", "shapes", "wrt", "leading"), [
    ("0.5*sum((W@x - y)**2)", "W: m n; x: n; y: m", "x", "4*m*n"), ("det(S)", "S: n n", "S", "8/3*n**3"), ("x**2*y", "x:; y:", "x", "2"),
    ("sum((tanh(X@W)@U)**2)", "X: m n; W: n k; U: k d", "X", None),
])  # fmt: skip
def test_leading_terms_divide_no_other(gradcli: Gradcli, f: str, shapes: str, wrt: str, leading: str | None) -> None:
    cost = derived(gradcli, Problem(f, shapes, wrt, ""))["cost"]
    if leading is not None:
        assert cost["leading"] == leading
    large = dict.fromkeys(("n", "m", "k", "d"), 10**5)
    assert valued(cost["leading"], large) == pytest.approx(valued(cost["operations"], large), rel=1e-3)


@for_rows(("cost", "says"), SAID)
def test_it_is_said_in_a_line(cost: Cost, says: str) -> None:
    assert cost.said() == says


def test_the_text_has_the_line(gradcli: Gradcli) -> None:
    shown = " ".join(
        gradcli("derive", "0.5*sum((W@x - y)**2)", "--shapes", "W: m n; x: n; y: m", "--wrt", "x").stdout.split()
    )
    assert "cost 4 m n + m operations, m + n numbers of memory" in shown


@for_rows(("f", "shapes", "wrt"), [
    ("0.5*sum((X@W - Y)**2)", "X: m n; W: n k; Y: m k", "W"), ("sum(exp(X)/(1 + X**2))", "X: m n", "X"), ("sum(X**3*exp(X))", "X: m n", "X"),
    ("trace(X.T@A@X)", "X: m n; A: m m", "X"), ("log(det(S))", "S: n n", "S"),
])  # fmt: skip
def test_numpy_holds_as_much(gradcli: Gradcli, f: str, shapes: str, wrt: str) -> None:
    """Two arrays for one where numpy does not put a result in place, and less where LAPACK's own memory is not seen."""
    result = derived(gradcli, Problem(f, shapes, wrt, ""))
    sizes = {"m": 400, "n": 300, "k": 350, "d": 200}
    at = at_random(Problem(f, shapes, wrt, ""), sizes, result["shapes"])
    scope: dict[str, Any] = {}
    exec(result["code"]["numpy"], scope)
    scope["gradient"](**at)
    tracemalloc.start()
    try:
        scope["gradient"](**at)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 0.45 < most / 8 / valued(result["cost"]["memory"], sizes) < 2.1
