"""The Python interface: the command line's checks, and gradients of plain numpy functions, from Python."""

import functools
import inspect
import operator
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gradcli.arithmetic import dual, recorded_program
from gradcli.arithmetic.dual import cotangent_rows, unit_directions
from gradcli.arithmetic.recorded_program import record
from gradcli.checks.build import end_ranks_on_exit, request_for, target_of_reference
from gradcli.checks.causes import drop_late_causes, with_causes
from gradcli.checks.check import verify
from gradcli.checks.claims import Claiming
from gradcli.checks.framework_claim import implementation_of
from gradcli.checks.probe import Located, locate, locate_expression, locate_function, replace_by_reference
from gradcli.checks.request import Request
from gradcli.compiling.compiling import Compiled, compiled_function
from gradcli.derivation.right_answer import right_answer
from gradcli.errors import BadShape, GradcliError, TraceDiffers
from gradcli.modes.difference_steps import quick_derivative
from gradcli.modes.kinks import EQUALITIES, find_kinks
from gradcli.modes.mode import Question
from gradcli.modes.trace_test import (
    TraceTest,
    allowed_distance,
    displacement,
    random_weights,
    sum_contributions,
    trace_test,
)
from gradcli.repair.full_check import budget_for, check_hard_points, with_cause_and_repair
from gradcli.report.check import CheckReport, rewrite_hints
from gradcli.report.derive import DeriveReport
from gradcli.report.forms import enable_report_display
from gradcli.request.option_values import as_texts
from gradcli.request.options import (
    DEFAULTS,
    Options,
    find_claim,
    hint_in_python,
    keyword_options,
    options_from_keywords,
    replace_claim,
)
from gradcli.request.target_text import is_python
from gradcli.rules.kinds import Partial
from gradcli.study.later_walk import with_walk
from gradcli.targets.arguments import (
    Call,
    Calls,
    Function,
    Wrt,
    as_float,
    copy_array,
    has_passed,
    name_of_callable,
    refuse_again,
    remember_pass,
    remember_refusal,
)
from gradcli.targets.derived import checkpoint, random_signs
from gradcli.targets.expression import Expression
from gradcli.targets.loading import load
from gradcli.targets.nesting import take_apart
from gradcli.targets.points import WHOLE
from gradcli.targets.target_request import TargetRequest
from gradcli.tracing.primitive import REAL, Primitive, Value, sweep_depth
from gradcli.tracing.shapes import shape, size
from gradcli.tracing.tracer import Tracer, exact_integer, is_zero, plain_value

if TYPE_CHECKING:
    from gradcli.report.compare import CompareReport
    from gradcli.report.cost import CostReport
    from gradcli.report.sweep import SweepReport
    from gradcli.report.trace import TraceReport


enable_report_display()

_MOST_HANDED = 10_000_000  # entries of a point that is handed to another process


__all__ = [
    "check", "checkpoint", "compare_modes", "compile", "cost", "derive", "grad", "hessian", "hvp", "jacobian", "jvp", "primitive",
    "sweep", "trace", "value_and_grad", "vjp",
]  # fmt: skip


def check(f: Function | str, at: Any = None, *more: Any, **options: Any) -> CheckReport:
    """Check a gradient at a point and return the report that `gradcli check` prints.

    `print(report)` shows it. `f` is a function of numpy arrays, or an expression or target as on the command line. `at` is
    a dict by parameter, a tuple in their order, or one value for the first; for a target or an expression also a text as for
    `--at`, or a list of texts. The claim is a function of the same arguments:
    `grad=`, `jac=`, `hess=`, `jvp=`, `vjp=` or `hvp=`. The other options are those of the command line.

    Raises  TypeError for arguments in scipy's order, and for an option that is not known; GradcliError for what the
            command line exits with status 2.

    >>> import numpy as np
    >>> bool(check(lambda x: np.sum(x**3), np.array([1.0, 2.0]), grad=lambda x: 3 * x**2))
    True
    """
    if callable(at) or more:
        raise TypeError("check(f, {'x': x0}, grad=my_grad): the point is the second argument, the claim is grad=")
    try:
        chosen = options_from_keywords(options)
        with end_ranks_on_exit(chosen):
            return rewrite_hints(_check(f, at, chosen), hint_in_python)
    except GradcliError as error:
        error.what, error.do = hint_in_python(error.what, values=False), error.do and hint_in_python(error.do)
        error.args = (error.what,)
        raise


def _check(f: Function | str, at: Any, options: Options) -> CheckReport:
    claim, reference = find_claim(options), options.reference
    on_ranks = options.on_ranks is not None
    found = locate_target(f if reference is None or on_ranks else reference, at, options)
    by = None
    if reference is not None and on_ranks:
        beside_it = (
            target_of_reference(reference, f) if isinstance(f, str) and isinstance(reference, str) else reference
        )
        found = replace_by_reference(found, locate_target(beside_it, at, replace(options.in_one_process, wrt=None)))
    elif reference is not None:
        by, found = implementation_of(f, found, options)
    request = request_for(found, None if claim is None else Claiming(*claim), options, by=by)
    verified = check_hard_points(verify(request), request)
    ask = _request_elsewhere(f, at, claim, request)
    if ask is None:
        budget = budget_for(verified, options)
        report = drop_late_causes(with_causes(verified, budget), budget)
    else:
        report = with_cause_and_repair(verified, request, ask, right_answer)
    return with_walk(request, report, later=True)


def _request_elsewhere(
    f: Function | str, at: Any, claim: tuple[str, Any] | None, request: Request
) -> TargetRequest | None:
    """Return what is checked by the names of its functions, for another process to make it anew; None where they have none."""
    target, claimed = _target_name(f), None if claim is None else _target_name(claim[1])
    if target is None or (claim is not None and claimed is None):
        return None
    texts = [] if at is None else [at] if isinstance(at, str) else at
    named = None if claim is None or claimed is None else (claim[0], claimed)
    asked = TargetRequest(target, options=replace_claim(request.options, named))
    if isinstance(texts, list) and all(isinstance(text, str) for text in texts):
        return replace(asked, at=tuple(texts))
    (*_, point) = request.points
    values = dict(point.values)
    if len(request.points) > 1 or not all(isinstance(x, float | int | str | np.ndarray) for x in values.values()):
        return None
    return replace(asked, point=values) if sum(map(size, values.values())) <= _MOST_HANDED else None


def _target_name(f: Any) -> str | None:
    """Return a function as a target, its file and its name; None where no module that can be imported has it by this name.

    A script is none: importing it would run it again.
    """
    if isinstance(f, str):
        return f
    module, name = sys.modules.get(getattr(f, "__module__", None) or ""), getattr(f, "__qualname__", "<locals>")
    file = getattr(module, "__file__", None) or ""
    if not file.endswith(".py") or "<" in name or module is sys.modules["__main__"]:
        return None
    try:
        same = operator.attrgetter(name)(module) is f
    except AttributeError:
        return None
    return f"{file}:{name}" if same else None


check.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
    [
        *list(inspect.signature(check).parameters.values())[:3],
        *(
            inspect.Parameter(row.name, inspect.Parameter.KEYWORD_ONLY, default=row.default)
            for row in keyword_options()
        ),
    ],
    return_annotation=CheckReport,
)


def locate_target(f: Function | str, at: Any, options: Options) -> Located:
    """Return a function, target or expression at the points that Python gives."""
    partner = not options.has_claim
    if not isinstance(f, str):
        text = getattr(f, "__qualname__", type(f).__name__).replace("<locals>.", "")
        return locate_function(f, text, [{} if at is None else {WHOLE: at}], options, finds_partner=partner)
    texts = [] if at is None else [at] if isinstance(at, str) else at
    if isinstance(texts, list) and all(isinstance(text, str) for text in texts):
        return locate(TargetRequest(f, tuple(texts), options))
    if options.on_ranks is not None:
        return locate_function(f, f, [{WHOLE: at}], options)
    if is_python(f):
        loaded = load(f)
        return locate_function(
            loaded.found, loaded.text, [{WHOLE: at}], options, module=loaded.module, finds_partner=partner
        )
    if not isinstance(at, dict):
        at = dict(zip(Expression(f).inputs, at if isinstance(at, tuple) else (at,), strict=False))
    return locate_expression(f, [at], options)


def derive(
    f: str | Function, shapes: Mapping[str, str] | str | None = None, *, at: Any = None,
    assume: Mapping[str, str] | str | None = None, wrt: str | None = None, order: int = 1, answer: str | None = None,
    show: bool = False, layout: str = "mixed", style: str = "differential",
) -> DeriveReport:  # fmt: skip
    """Return the closed form of the derivative of an expression, or of a Python function, by each of its inputs.

    Shapes  by input, sizes by name or number: {"W": "m n", "x": "n"}, or "W: m n; x: n" as on the command line; an input that
            is not named is a number. `assume` is written in the same ways.
    `layout` is `mixed`, where gradients have the shape of the input and Jacobians are indexed [output, input], `denominator`,
    where they are indexed [input, output], or `numerator`, where gradients are transposed.
    At a point, as `check` takes it, sizes are read from the values where `shapes` does not name them, and each result has
    its `value` there.

    Raises  BadOption, BadShape; what cannot be derived or confirmed is a finding of the report.

    >>> import gradcli
    >>> gradcli.derive("sum((W@x - y)**2)", {"W": "m n", "x": "n", "y": "m"}, wrt="x").results[0].formula.expression
    '2*(W.T@(W@x - y))'
    """
    from gradcli.derivation.sized_problem import parse_shapes
    from gradcli.derivation.study import derive as study
    from gradcli.derivation.study import function_at_point, load_python_function, wrap_callable

    def by_input(given: Mapping[str, str] | str | None) -> list[str]:
        if isinstance(given, str):
            return [part for part in given.split(";") if part.strip()]
        return [f"{name}: {words}" for name, words in (given or {}).items()]

    dims = parse_shapes(by_input(shapes))
    given = None if at is None else function_at_point(locate_target(f, at, DEFAULTS), dims)
    if given is not None:
        target = given.f
    elif not isinstance(f, str):
        target = wrap_callable(f, getattr(f, "__name__", "f"), dims)
    else:
        target = load_python_function(f, dims) if is_python(f) else Expression(f)
    facts = tuple(by_input(assume))
    options = Options(assume=facts, wrt=wrt, order=order, answer=answer, show=show, layout=layout, style=style)
    return study(target, dims, options, given)


def grad(f: Function, wrt: Wrt = None, *, verify: bool = True) -> Function:
    """Return the gradient of a scalar function, by the reverse mode, as a function of the same arguments.

    Shapes  as the argument that is differentiated: the first, or those that `wrt` names (then a tuple).
    Cost    about three evaluations of f, however many entries there are, and tracing it at each call; `compile(grad(f), x0)`
            traces it once.
    Raises  BadShape where f is not scalar; TraceDiffers.

    f is expected to be pure, as JAX has it: its value depends on its arguments alone. At the first call of each function
    that is tested, unless `verify` is False: what was recorded must give f's own values beside the point. A function that
    fails the test is refused at later calls too.

    >>> import numpy as np
    >>> grad(lambda x: np.sum(x**2))(np.array([1.0, 2.0]))
    array([2., 4.])
    """

    both = value_and_grad(f, wrt, verify=verify)

    @functools.wraps(f)
    def gradient(*args: Any, **kwargs: Any) -> Any:
        return both(*args, **kwargs)[1]

    return gradient


def value_and_grad(f: Function, wrt: Wrt = None, *, verify: bool = True) -> Function:
    """Return a function of the same arguments that returns f's value and its gradient, as `grad` does."""

    calls = Calls(f, wrt)
    first = FirstCall(f, wrt) if verify else None

    @functools.wraps(f)
    def both(*args: Any, **kwargs: Any) -> Any:
        if first is not None and not first.done:
            first.test(args, kwargs)
        call = calls.of(args, kwargs)
        with np.errstate(all="ignore"):
            y, xbars = call.pulled(call.xs)
        return y, call.structured(xbars)

    return both


def compile(f: Function, *example: Any, **named: Any) -> Compiled:
    """Return a function compiled for arguments like these: traced once, and run as straight-line numpy code.

    `f` may be a gradient: `compile(grad(f), x0)`. What it captures is a constant of the code, as it is now. Comparisons,
    `np.where`, `np.maximum` and writes into arrays compile; `source` is the code.

    Shapes  floats and arrays of floats may have other values at each call; anything else must be as in the example. Other
            integers, flags and strings raise; a change inside an object is not seen.
    Cost    tracing and writing the code, as long as a hundred calls or so.
    Raises  CannotCompile, with its line, where `f` needs a plain value (`if`, `float()`, an index from data) or a shape
            that depends on values; BadShape from a call with an argument that is not like the example's.

    >>> import numpy as np
    >>> slope = compile(grad(lambda x: np.sum(np.where(x > 0, x**3, 0.0))), np.zeros(3))
    >>> slope(np.array([-1.0, 0.5, 2.0]))
    array([ 0.  ,  0.75, 12.  ])
    """
    return compiled_function(f, example, named)


def jvp(f: Function, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Value, Value]:
    """Return f(*primals) and its derivative along `tangents`, by dual numbers.

    Shapes  each tangent has the structure and the shapes of its primal.

    >>> value, slope = jvp(lambda x: x**3, (2.0,), (1.0,))
    >>> float(value), float(slope)
    (8.0, 12.0)
    """
    call = Call(f, primals, {}, list(range(len(primals))))
    directions = _leaves_in_order(call, tangents)
    with np.errstate(all="ignore"):
        y, ydot = dual.jvp(call, call.xs, directions)
    return copy_array(y), copy_array(ydot)


def _leaves_in_order(call: Call, moved: Sequence[Any]) -> list[Value]:
    """Return the leaves of tangents, in the order of the primals'. Raises BadShape."""
    if len(moved) != len(call.chosen):
        raise BadShape(f"{len(moved)} tangents are given for {len(call.chosen)} primals", do="give one for each")
    leaves: dict[str, Any] = {}
    for name, part in zip(call.chosen, moved, strict=True):
        leaves |= take_apart(name, part)[1]
    found = []
    for path, x in zip(call.wrt, call.xs, strict=True):
        if path not in leaves or shape(leaves[path]) != shape(x):
            has = shape(leaves[path]) if path in leaves else "no"
            raise BadShape(
                f"the tangent of {path} has {has} shape; {path} has shape {shape(x)}", do="give it that shape"
            )
        found.append(as_float(leaves[path]))
    return found


def vjp(f: Function, *primals: Any) -> tuple[Value, Callable[[Any], tuple[Any, ...]]]:
    """Return f(*primals) and `pull`, which takes a cotangent of the value to the cotangents of the primals, a tuple.

    >>> value, pull = vjp(lambda x, y: x * y, 2.0, 3.0)
    >>> [float(xbar) for xbar in pull(1.0)]
    [3.0, 2.0]
    """
    call = Call(f, primals, {}, list(range(len(primals))))
    with np.errstate(all="ignore"):
        y, pull = recorded_program.vjp(
            call, [copy_array(x) for x in call.xs]
        )  # the user's arrays may change before the pull
    y = copy_array(y)

    def pulled(ybar: Any) -> tuple[Any, ...]:
        if shape(ybar) != shape(y):
            raise BadShape(
                f"the cotangent has shape {shape(ybar)}; the value has shape {shape(y)}", do="give it that shape"
            )
        with np.errstate(all="ignore"):
            return tuple(call.structured(pull(copy_array(as_float(ybar)))))

    return y, pulled


def jacobian(f: Function, wrt: Wrt = None, *, verify: bool = True) -> Function:
    """Return the Jacobian of a function, by reverse sweeps or by forward ones, whichever are fewer.

    Shapes  the output's shape, then the input's; a tuple or dict of outputs is laid end to end.
    Raises  TraceDiffers, as `grad` does.

    >>> import numpy as np
    >>> jacobian(lambda x: x**2)(np.array([1.0, 2.0]))
    array([[2., 0.],
           [0., 4.]])
    """

    first = FirstCall(f, wrt) if verify else None

    @functools.wraps(f)
    def derivative(*args: Any, **kwargs: Any) -> Any:
        if first is not None and not first.done:
            first.test(args, kwargs)
        call = Call(f, args, kwargs, wrt)
        with np.errstate(all="ignore"):
            recorded = recorded_program.record(call, call.xs)
            y = recorded.y
            if size(y) <= sum(size(x) for x in call.xs):
                rows = cotangent_rows(recorded, exact_integer(1, y.primal if isinstance(y, Tracer) else y))
                return call.structured([_stack_rows(rows, k, y, x) for k, x in enumerate(call.xs)])
            return call.structured([_jacobian_by_columns(call, k, y) for k in range(len(call.xs))])

    return derivative


def _stack_rows(rows: list[list[Value]], k: int, y: Value, x: Value) -> Value:
    if not rows:
        return np.zeros(shape(y) + shape(x))
    return np.reshape(np.stack([row[k] for row in rows]), shape(y) + shape(x))


def _jacobian_by_columns(call: Call, k: int, y: Value) -> Value:
    """Return the derivative by one input, a dual evaluation for each of its entries."""
    x = call.xs[k]

    def alone(xk: Value) -> Value:
        return call(*call.xs[:k], xk, *call.xs[k + 1 :])

    columns = [dual.jvp(alone, [x], [v])[1] for v in unit_directions(x)]
    return np.reshape(np.stack(columns, axis=-1), shape(y) + shape(x)) if columns else np.zeros(shape(y) + shape(x))


def hessian(f: Function, wrt: Wrt = None) -> Function:
    """Return the Hessian of a scalar function, forward over reverse.

    Shapes  the input's shape twice; for a structure of inputs, a structure of rows, each a structure of blocks.

    >>> import numpy as np
    >>> hessian(lambda x: x[0] ** 2 * x[1])(np.array([1.0, 2.0]))
    array([[4., 2.],
           [2., 0.]])
    """

    @functools.wraps(f)
    def second(*args: Any, **kwargs: Any) -> Any:
        call = Call(f, args, kwargs, wrt)
        blocks: list[list[Any]] = [[None] * len(call.xs) for _ in call.xs]
        with np.errstate(all="ignore"):
            for k, x in enumerate(call.xs):
                columns = [_gradient_along(call, k, v) for v in unit_directions(x)]
                for j, other in enumerate(call.xs):
                    entries = [column[j] for column in columns]
                    blocks[j][k] = np.reshape(np.stack(entries, axis=-1), shape(other) + shape(x))
        return call.structured([call.structured(row) for row in blocks])

    return second


def _gradient_along(call: Call, k: int, v: Value) -> list[Value]:
    """Return the derivative, along `v` in the k-th input, of the gradient by all inputs."""

    flat = dual.jvp(lambda xk: call.gradient([*call.xs[:k], xk, *call.xs[k + 1 :]]), [call.xs[k]], [v])[1]
    return call.split(flat)


def hvp(f: Function, primals: Any, v: Any) -> Any:
    """Return the Hessian of a scalar function times `v`, forward over reverse; the Hessian itself is never made.

    Shapes  `v` as `primals`: one value, or a tuple of values where f takes several.
    Cost    about six evaluations of f.

    >>> import numpy as np
    >>> hvp(lambda x: np.sum(x**3), np.array([1.0, 2.0]), np.array([1.0, 0.0]))
    array([6., 0.])
    """
    several = isinstance(primals, tuple)
    call = Call(f, primals if several else (primals,), {}, list(range(len(primals))) if several else None)
    directions = _leaves_in_order(call, v if several else (v,))
    with np.errstate(all="ignore"):
        flat = dual.jvp(lambda *xs: call.gradient(xs), call.xs, directions)[1]
    return call.structured(call.split(flat))


def primitive(
    fun: Function, *partials: Function | float, name: str | None = None, kinks: str | None = None
) -> Primitive:
    """Return `fun` as an elementwise primitive with a rule of your own: one partial an argument, `partial(y, *xs)`.

    The rule is used by the forward and the reverse mode; `certified` runs `fun` itself in balls and so verifies the rule
    in every check of a function that uses it.

    >>> import numpy as np
    >>> softplus = primitive(lambda x: np.log1p(np.exp(x)), lambda y, x: 1 / (1 + np.exp(-x)))
    >>> float(grad(softplus)(0.0))
    0.5
    """
    if not partials:
        raise TypeError("primitive(fun, *partials): give one partial derivative for each argument")
    rules = tuple(Partial(p) if callable(p) else Partial(lambda y, *xs, p=p: p + 0 * y) for p in partials)
    shown = str(name or getattr(fun, "__name__", "primitive"))
    return Primitive(shown, fun, rules, kind="elementwise", on=(REAL,) * len(rules), kinks=kinks, body=True)


# Studies, each loaded when it is called: they return reports that can be printed.


def sweep(
    f: Function | str, at: Any = None, *, grad: Any = None, wrt: str | Sequence[str] | None = None, schemes: str | None = None,
    dtype: str | Sequence[str] = "float64", each: bool = False, samples: int | None = None, seed: int | str = 0,
) -> "SweepReport":  # fmt: skip
    """Return a report of error against step size, as `gradcli sweep` prints it; `print(report)` shows it.

    `f` and `at` are those of `gradcli.check`. With a claim `grad`, the report includes its Taylor remainder test and the
    verdict of `check`.

    Raises  GradcliError in all cases where the command line exits with status 2.

    >>> import numpy as np
    >>> report = sweep(np.sin, 1.0, schemes="central")
    >>> round(report.curves[0].order, 1)
    2.0
    """
    options = options_from_keywords({"grad": grad, "wrt": wrt, "seed": seed})
    formats = as_texts("dtype=", dtype)
    from gradcli.study.sweep import sweep as study

    return study(_make_request(f, at, replace(options, schemes=schemes, formats=formats, each=each, samples=samples)))


def compare_modes(
    f: Function | str, at: Any = None, *, grad: Any = None, wrt: str | Sequence[str] | None = None,
    modes: str | Sequence[str] | None = None, order: int = 1,
    dtype: str | Sequence[str] = (), seed: int | str = 0, device: str | None = None,
) -> "CompareReport":  # fmt: skip
    """Return a report that compares all modes, as `gradcli compare-modes` prints it; `print(report)` shows it.

    `modes` is a list of names, or a text such as "certified,reverse".

    Raises  GradcliError in all cases where the command line exits with status 2.

    >>> report = compare_modes("sin(x)", {"x": 1.0}, modes=["certified", "reverse"])
    >>> list(report.modes)
    ['certified', 'reverse']
    """
    options = options_from_keywords(
        {"grad": grad, "wrt": wrt, "modes": modes, "order": order, "seed": seed, "device": device}
    )
    from gradcli.study.mode_comparison import compare_modes as study

    return study(_make_request(f, at, replace(options, formats=as_texts("dtype=", dtype))))


def cost(
    f: Function | str, at: Any = None, *, wrt: str | Sequence[str] | None = None, dtype: str = "float32",
    autocast: str | None = None, optimizer: str = "none", master: str | None = None, checkpoint: Sequence[str] = (),
    memory: int | None = None, seed: int | str = 0,
) -> "CostReport":  # fmt: skip
    """Return a report of what a gradient costs at this point, as `gradcli cost` prints it; `print(report)` shows it.

    `checkpoint` names functions that are run again in the reverse sweep, and `memory` is the most that checkpoints may hold.
    Sizes that nothing runs are for the command line.

    Units   `memory` in bytes.
    Raises  GradcliError in all cases where the command line exits with status 2.

    >>> report = cost("sum(tanh(x)**2)", {"x": [0.1, 0.2]})
    >>> [(row.name, row.operations) for row in report.passes[:2]]
    [('f', 5), ('reverse mode', 15)]
    """
    from gradcli.study.accounting import account, refuse_unknown_formats

    request = _make_request(f, at, options_from_keywords({"wrt": wrt, "seed": seed}))
    options = replace(
        DEFAULTS, dtype=dtype, autocast=autocast, optimizer=optimizer, master=master, checkpoint=tuple(checkpoint), memory=memory
    )  # fmt: skip
    refuse_unknown_formats(options)
    return account(lambda _: request, {}, options)


def trace(
    f: Function | str, at: Any = None, *, wrt: str | Sequence[str] | None = None, seed: int | str = 0
) -> "TraceReport":
    """Return a report of the computation, forward and backward, as `gradcli trace` prints it; `print(report)` shows it.

    Raises  GradcliError in all cases where the command line exits with status 2, and if f cannot be traced.

    >>> [node.name for node in trace("v = x*y; v + x", {"x": 3.0, "y": 4.0}).nodes]
    ['x', 'y', 'v', 'result']
    """
    from gradcli.study.walkthrough import walkthrough

    options = options_from_keywords({"wrt": wrt, "seed": seed})
    found = locate_target(f, at, options)
    q = Question(found.f, found.points[0], found.wrt, options.seed)
    q.refuse_untraced()
    return walkthrough(q)


def _make_request(f: Function | str, at: Any, options: Options) -> Request:
    found = locate_target(f, at, options)
    return request_for(found, None if options.grad is None else Claiming("grad", options.grad), options)


# The trace test of functions that are differentiated from Python: each is tested until it passes once, or is refused.

_MOST_TESTS = 3  # calls at which nothing could be compared, after which a function is tested no more
_DO = "let it depend on its arguments alone: keep no state, draw no random numbers; verify=False skips this test"


class FirstCall:
    """Tests, at the first call of a function, that its recorded program computes the function.

    A function that differs once is refused at every later call, since a second test may agree by accident.
    """

    def __init__(self, f: Callable[..., Any], wrt: Wrt) -> None:
        self.f, self.wrt = f, wrt
        self.done = has_passed(f)
        self.refusal: str | None = None
        self.tests = 0

    def test(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Compare the function with its recorded program near these arguments.

        Cost    recording f, two or three evaluations of it and one of its program.
        Raises  TraceDiffers if the two differ, or did at an earlier call; whatever f raises.
        """
        if sweep_depth():
            return  # the function is part of another, which is tested itself
        refuse_again(self.f, self.refusal)
        call = Call(self.f, args, kwargs, self.wrt)
        with np.errstate(all="ignore"):
            found = _test_trace(call)
        if found.agrees is False:
            self.refusal = f"the trace of {name_of_callable(self.f)} differs from the function: {found.why}"
            remember_refusal(self.f, self.refusal)
            raise TraceDiffers(self.refusal, do=_DO)
        self.tests += 1
        self.done = bool(found.agrees) or self.tests >= _MOST_TESTS
        if self.done:
            remember_pass(self.f)


def _test_trace(call: Call) -> TraceTest:
    program = record(call, call.xs)
    y, inputs, tape = program
    if not program.moves or not np.all(np.isfinite(plain_value(y))):
        return TraceTest(None)
    weights = np.float64(1) if shape(y) == () else random_signs(np.random.default_rng(0), shape(y))
    bars = tape.swept(y.slot, weights, inputs)
    sizes = [np.where(is_zero(x), 1.0, np.abs(x)) for x in call.xs]
    steps = displacement(random_weights(0, call.xs), sizes)
    if any(mark.primitive in EQUALITIES for mark in find_kinks(program, bars)):
        return _test_at_equality(call, weights, [bars[x.slot] for x in inputs], steps)
    contributed = sum_contributions(program, bars)
    largest = max(float(np.max(np.abs(plain_value(y)), initial=0.0)), 1e-300)

    def room(value: Any) -> Any:
        grown = max(1.0, float(np.max(np.abs(value), initial=0.0)) / largest)
        return allowed_distance(contributed) * grown + allowed_distance(np.abs(value))

    return trace_test(call, program, call.xs, steps, room)


def _test_at_equality(call: Call, weights: Any, slopes: Sequence[Any], vs: Sequence[Any]) -> TraceTest:
    """Compare the recorded slope with function values if a comparison for equality holds only at the point itself.

    The comparison may be a branch of the function, with the same slope as nearby, or the key of a cache. Several results
    are summed with their `weights`.
    """

    def along(t: float) -> float:
        try:
            y = call(*[x + t * v for x, v in zip(call.xs, vs, strict=True)])
        except GradcliError:
            return float("nan")
        return float(np.sum(weights * y)) if shape(y) == shape(weights) else float("nan")

    found = quick_derivative(along, 0.0)
    slope = sum(float(np.sum(g * v)) for g, v in zip(slopes, vs, strict=True) if g is not None)
    apart = abs(float(found.value) - slope)
    size = max(abs(float(found.value)), abs(slope))
    if not np.isfinite(apart) or apart <= 3 * float(found.bound) + 1e-9 * size:
        return TraceTest(None)
    return TraceTest(
        False, f"along one direction the slope of its values is {float(found.value):.9g}, that of the trace {slope:.9g}"
    )
