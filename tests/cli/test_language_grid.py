"""Every construct and function of the language, on every branch, for numbers and arrays, by every command, at the defaults."""

from collections.abc import Callable, Iterator
from typing import Any

import gradcli as package
from gradcli.targets.expression import Expression
from gradcli.targets.names import ALIASES, FUNCTIONS
from gradcli.tracing.primitive import PRIMITIVES
from tests.rows import for_rows
from tests.targets.calls import VALUES, arguments_of

REASONS = {"kink", "jump", "staircase", "non-finite", "weak"}  # findings that keep a right gradient from passing
NUMBER, ARRAY, MATRIX = "0.4", "[0.4, 0.7]", "[[2, 0.3], [0.3, 1.5]]"

# fmt: off
BRANCHES = [  # an expression, and a point on each branch
    ("where(x<1, 2*x, sin(x))",             ("x=0.5", "x=2")),
    ("sum(where(z>0, z, 0))",               ("z=[0.3,-1.2,0.8]", "z=[1,2]", "z=[-1,-2]")),
    ("sum(where(z>0, z**2, exp(z)))",       ("z=[0.3,-1.2,0.8]",)),
    ("where(x, y, z)",                      ("x=1, y=2, z=3", "x=0, y=2, z=3")),
    ("sum(where(x<y, x, y))",               ("x=[1,2], y=[2,1]", "x=[1,2], y=1.5")),
    ("where((x>0) and (y>0), x*y, x-y)",    ("x=1, y=2", "x=-1, y=2", "x=1, y=-2")),
    ("where((x>0) or (y>0), x*y, x-y)",     ("x=1, y=-2", "x=-1, y=-2")),
    ("where(not (x>0), x*x, x)",            ("x=1", "x=-1")),
    ("where(x<0, 1, where(x<1, x, x*x))",   ("x=-0.5", "x=0.5", "x=1.5")),
    ("2*x if x > 1 else x + 1",             ("x=2", "x=0.5")),
    ("x if x >= 1 else x*x if x > 0 else -x", ("x=2", "x=0.5", "x=-1")),
    ("(x < 1)*x**2 + (x >= 1)*x",           ("x=0.5", "x=2")),
    ("(x <= 1)*x**2 + (x > 1)*x",           ("x=0.5", "x=2")),
    ("(x == 1)*5 + (x != 1)*x**2",          ("x=0.5",)),
    ("sum((z > 0)*z)",                      ("z=[0.3,-1.2]",)),
    ("max(x, y)",                           ("x=1, y=2", "x=2, y=1")),
    ("min(x, y)",                           ("x=1, y=2", "x=2, y=1")),
    ("max(z)",                              ("z=[1,3,2]",)),
    ("sum(max(Z, axis=0))",                 ("Z=[[1,4],[3,2]]",)),
    ("sum(maximum(z, 0.5))",                ("z=[0.3,-1.2,0.8]",)),
    ("sum(clip(z, 0, 1))",                  ("z=[0.3,-1.2,1.8]",)),
    ("sum(abs(z))",                         ("z=[0.3,-1.2]",)),
    ("sum(relu(z))",                        ("z=[0.3,-1.2]",)),
    ("abs(x)**3",                           ("x=2", "x=-2")),
    ("sign(x)*x",                           ("x=2",)),
    ("floor(x)*x",                          ("x=1.5",)),
    ("x % 2 + x // 2",                      ("x=3.5",)),
    ("abs(x)",                              ("x=0",)),
    ("max(x, y)",                           ("x=1, y=1",)),
]
CONSTRUCTS = [
    ("x^2 + x**3 - -x",                     ("x=1.5",)),
    ("u = W*x; v = u + b; v**2",            ("W=2, x=3, b=1",)),
    ("[a*b, a]",                            ("a=2, b=3",)),
    ("[[a, b], [b, a*b]]",                  ("a=2, b=3",)),
    ("sum([a, b]*z)",                       ("a=2, b=3, z=[1,2]",)),
    ("pi*x + e*x**2 + x/inf",               ("x=1.5",)),
    ("sum(A @ z)",                          (f"A={MATRIX}, z={ARRAY}",)),
    ("z @ A @ z",                           (f"A={MATRIX}, z={ARRAY}",)),
    ("sum(A.T * A)",                        (f"A={MATRIX}",)),
    ("A.sum() + A.mean() + A.max() + A.min()", (f"A={MATRIX}",)),
    ("z.dot(z) + A.reshape(4)[1]",          (f"A={MATRIX}, z={ARRAY}",)),
    ("sum(z[1:]) + z[0] + z[-1]",           ("z=[1,2,3]",)),
    ("sum(A[0, :]) + A[1, 1] + sum(A[:, 0])", (f"A={MATRIX}",)),
    ("sum(sum(A, axis=0, keepdims=True))",  (f"A={MATRIX}",)),
    ("np.sin(x) + scipy.special.erf(x) + math.cos(x) + jnp.exp(x) + torch.tanh(x)", ("x=0.5",)),
    ("F.softplus(x) + np.linalg.norm(z)",   (f"x=0.5, z={ARRAY}",)),
    ("einsum('ij,j->i', A, z)",             (f"A={MATRIX}, z={ARRAY}",)),
    ("norm(A, 'fro') + norm(z, 1)",         (f"A={MATRIX}, z={ARRAY}",)),
]
UNARY = [  # aliases and composites; functions that are rows of the table are tried by themselves
    "abs", "acos", "asin", "asinh", "atan", "atanh", "ceil", "conj", "deg2rad", "degrees", "fabs", "floor", "gelu",
    "heaviside", "isfinite", "isinf", "isnan", "lgamma", "ln", "logsigmoid", "logical_not", "neg", "ones_like", "psi",
    "rad2deg", "radians", "rint", "sigmoid", "sign", "signbit", "silu", "sinc", "softplus", "trunc", "zeros_like", "round",
    "around",
]
ROWS = [row for row in PRIMITIVES.values() if row.kind == "elementwise" and len(row.rules) == 1 and FUNCTIONS.get(row.name) is row]
BINARY = ["add", "arctan2", "atan2", "beta", "betaln", "divide", "equal", "float_power", "floor_divide", "fmax", "fmin", "fmod", "greater", "greater_equal", "heaviside", "hypot", "kl_div", "less", "less_equal", "logaddexp", "logaddexp2", "logical_and", "logical_or", "logical_xor", "maximum", "minimum", "mod", "multiply", "not_equal", "pow", "power", "pseudo_huber", "rel_entr", "remainder", "subtract", "true_divide", "xlog1py", "xlogy"]
OTHERS = {  # a call of x, a number or an array, or of others
    "gammainc": "gammainc(1.5, x)", "gammaincc": "gammaincc(1.5, x)", "stdtr": "stdtr(3, x)", "hyp0f1": "hyp0f1(1.5, x)",
    "acosh": "acosh(x + 2)",
    "betainc": "betainc(2, 3, x)", "betaincc": "betaincc(2, 3, x)", "clip": "clip(x, 0, 1)",
    "eval_chebyt": "eval_chebyt(3, x)", "eval_chebyu": "eval_chebyu(3, x)", "eval_legendre": "eval_legendre(3, x)",
    "eval_gegenbauer": "eval_gegenbauer(3, 0.7, x)", "eval_genlaguerre": "eval_genlaguerre(3, 0.7, x)",
    "eval_jacobi": "eval_jacobi(3, 0.7, 0.2, x)", "eval_laguerre": "eval_laguerre(3, x)",
    "expn": "expn(2, x)", "hyp1f1": "hyp1f1(1.5, 2.5, x)", "hyp2f1": "hyp2f1(1.5, 0.5, 2.5, x)", "hyperu": "hyperu(1.5, 2.5, x)",
    "iv": "iv(1, x)", "ive": "ive(1, x)", "jv": "jv(1, x)", "kv": "kv(1, x)", "kve": "kve(1, x)", "yv": "yv(1, x)",
    "full": "x*full(2, 3)", "ones": "x*ones(2)", "zeros": "x*zeros(2)", "onehot": "x*onehot(1, 2)",
    "arange": "x*arange(2)", "linspace": "x*linspace(0, 1, 2)", "where": "where(x > 0.5, x, x*x)",
    "broadcast_to": "broadcast_to(x, [2])", "atleast_1d": "atleast_1d(x)", "ravel": "ravel(x)", "reshape": "reshape(x, -1)",
    "sum": "sum(x)", "max": "max(x*[1, 2])", "min": "min(x*[1, 2])",
}
OF_VECTORS = ["amax", "amin", "argmax", "argmin", "average", "cumsum", "diag", "diff", "flip", "log_softmax", "logsumexp", "mean", "norm", "prod", "ptp", "softmax", "std", "var", "squeeze", "atleast_2d", "expand_dims", "hstack", "vstack", "column_stack", "stack", "concatenate", "repeat", "take", "dot", "inner", "vdot", "outer", "kron", "mse", "cross_entropy", "layer_norm", "tensordot"]
VECTOR_CALLS = {
    "take": "take(z, 1)", "repeat": "repeat(z, 2)", "expand_dims": "expand_dims(z, 0)",
    "hstack": "hstack([z, z])", "vstack": "vstack([z, z])", "column_stack": "column_stack([z, z])",
    "stack": "stack([z, 2*z])", "concatenate": "concatenate([z, z])",
    "dot": "dot(z, y)", "inner": "inner(z, y)", "vdot": "vdot(z, y)", "outer": "outer(z, y)", "kron": "kron(z, y)", "mse": "mse(z, y)",
    "cross_entropy": "cross_entropy(z, [0, 1])", "layer_norm": "layer_norm(z, y, y)", "tensordot": "tensordot(z, y, 1)",
}
OF_MATRICES = ["det", "inv", "slogdet", "solve", "trace", "tr", "logdet", "vec", "transpose", "tril", "triu", "diagonal", "matmul", "matrix_power", "swapaxes", "moveaxis", "einsum", "eye", "identity"]
MATRIX_CALLS = {
    "slogdet": "slogdet(A)[1]", "solve": "solve(A, z)", "matmul": "matmul(A, z)", "matrix_power": "matrix_power(A, 2)",
    "swapaxes": "swapaxes(A, 0, 1)", "moveaxis": "moveaxis(A, 0, 1)", "einsum": "einsum('ij,j->i', A, z)",
    "eye": "A @ eye(2)", "identity": "A @ identity(2)",
}
# fmt: on


OF_NUMBERS, OF_ARRAYS = (NUMBER, "1.3"), (ARRAY, "[1.3, 0.2]")


def calls(*points: tuple[str, str]) -> Iterator[tuple[str, str]]:
    """Yield a call of every function of the language with a point for it."""
    for x, y in points:
        for name in UNARY:
            yield f"{name}(x)" if name != "heaviside" else "heaviside(x, 0.5)", f"x={x}"
        for row in ROWS:
            yield f"{row.name}({'x' if row.on[0].contains(float(NUMBER)) else 'x + 2'})", f"x={x}"
        for name in BINARY:
            yield f"{name}(x, y)", f"x={x}, y={y}"
        for text in OTHERS.values():
            yield text, f"x={x}"
    for name in OF_VECTORS:
        text = VECTOR_CALLS.get(name, f"{name}(z)")
        yield text, f"z={ARRAY}" + (", y=[1.3, 0.2]" if "y" in text.partition("(")[2] else "")
    for name in OF_MATRICES:
        text = MATRIX_CALLS.get(name, f"{name}(A)")
        yield text, f"A={MATRIX}" + (f", z={ARRAY}" if "z" in text.partition("(")[2] else "")


COMPLEX = (
    "fft",
    "ifft",
    "rfft",
    "ihfft",
    "fft2",
    "ifft2",
    "rfft2",
    "fftn",
    "ifftn",
    "rfftn",
)  # their results are taken apart
TESTED = {*(row.name for row in ROWS), *UNARY, *BINARY, *OTHERS, *OF_VECTORS, *OF_MATRICES}
CONSTANT = {"bartlett", "blackman", "fftfreq", "hamming", "hanning", "kaiser", "one_hot", "rfftfreq", "tri"}  # of sizes


def further_calls() -> Iterator[tuple[str, str]]:
    """Yield a call of every function that the tables above do not have."""
    for name in sorted(set(FUNCTIONS) - TESTED - set(ALIASES)):
        arguments, taken = arguments_of(name)
        text = f"{name}({arguments}){taken}"
        text = f"abs({text})**2" if name in COMPLEX else f"x*{text}" if name in CONSTANT else text
        yield text, ", ".join(f"{key}={VALUES[key].tolist()}" for key in Expression(text).inputs)


CASES = [(text, at) for table in (BRANCHES, CONSTRUCTS) for text, points in table for at in points]


def test_the_grid_has_every_function() -> None:
    further = {text.removeprefix("abs(").removeprefix("x*").partition("(")[0] for text, _ in further_calls()}
    assert further == set(FUNCTIONS) - TESTED - set(ALIASES)


@for_rows(("text", "at"), [*calls(OF_NUMBERS, OF_ARRAYS), *further_calls()], parts=22)
def test_a_check_of_every_function_passes_or_has_a_true_reason(text: str, at: str) -> None:
    report = package.check(text, at)
    (point,) = report.points
    kinds = {f.kind for f in point.findings if f.severity in ("inconclusive", "error")}
    assert kinds <= REASONS, point.findings
    assert (report.exit_status == 0) == (not kinds)
    assert not any(f.kind in ("untraced", "trace", "trace-test") for f in point.findings), point.findings


@for_rows(("text", "at"), CASES, parts=3)
def test_a_check_passes_or_has_a_true_reason(gradcli: Callable[..., Any], text: str, at: str) -> None:
    ran = gradcli("check", text, "--at", at, "--json")
    assert ran.exit_status in (0, 3), ran.stdout + ran.stderr
    (point,) = ran.json["points"]
    kinds = {f["kind"] for f in point["findings"] if f["severity"] in ("inconclusive", "error")}
    assert kinds <= REASONS, point["findings"]
    assert (ran.exit_status == 0) == (not kinds)
    assert not any(f["kind"] in ("untraced", "trace", "trace-test") for f in point["findings"]), point["findings"]


@for_rows("command", ["compare-modes", "sweep", "trace", "grad", "derive"], parts=16)
@for_rows(("text", "at"), CASES)
def test_every_other_command_answers(gradcli: Callable[..., Any], command: str, text: str, at: str) -> None:
    more = ("--modes", "certified,forward,reverse,fd") if command == "compare-modes" else ()
    ran = gradcli(command, text, "--at", at, *more, "--json")
    assert ran.exit_status in (0, 3), ran.stdout + ran.stderr


@for_rows(("text", "at"), [*calls(OF_ARRAYS), *further_calls()], parts=5)
def test_every_function_has_a_walkthrough(gradcli: Callable[..., Any], text: str, at: str) -> None:
    ran = gradcli("trace", text, "--at", at, "--json")
    assert ran.exit_status in (0, 3), ran.stdout + ran.stderr
