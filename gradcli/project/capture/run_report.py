"""From what was recorded to the report of `gradcli run`."""

import copy
import fnmatch
import functools
import inspect
import itertools
import os
import random
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from gradcli.checks.build import request_for
from gradcli.checks.check import check
from gradcli.checks.claims import Claiming
from gradcli.checks.framework_claim import describe_environment
from gradcli.checks.inner_gradients import locate_call, with_cotangent
from gradcli.checks.probe import Located, locate_function
from gradcli.checks.request import Request
from gradcli.classes import dataclass
from gradcli.errors import BadPoint, FunctionFailed, GradcliError
from gradcli.frameworks.framework import KNOWN, CustomCall, Framework, Placed
from gradcli.frameworks.native import import_framework, is_format_failure
from gradcli.project.capture.backward_passes import CACHE, LayerCall, copy_held_arrays
from gradcli.project.capture.recorder import (
    ChecksTimeUp,
    Convention,
    GradientPair,
    Kept,
    RecordedCalls,
    copy_arrays,
    restored_state,
    time_limit,
)
from gradcli.report.check import CheckReport
from gradcli.report.common import Finding, error_report, finding
from gradcli.report.encode import encode
from gradcli.report.suite import (
    WORST,
    CheckedCall,
    CheckRow,
    Program,
    RunReport,
    UsedGradient,
    exit_status_of_run,
    row_of_document,
    worst_verdict,
)
from gradcli.request.options import DEFAULTS, Options
from gradcli.request.target_text import output_of_pass
from gradcli.targets.layers import InnerCall, chain_layers, match_gradient_name, returned_names
from gradcli.targets.nesting import put_together, take_apart
from gradcli.targets.points import WHOLE
from gradcli.targets.python import PythonFunction, message_of
from gradcli.words import Exit, Kind, Severity, Verdict

_SAME = 1e-10  # relative to the largest entry: two runs of the same code may round sums differently
_VALUE = "the function has another value now than when the gradient was called"
_RIGHT_THEN = "the gradient was right when it was called, and returns something else for the same input now"
_UNKNOWN = "the gradient returns something else for the same input now; what the function returned then is not known"
_ELSEWHERE = "the gradient returns something else for the same input now, and the function has changed at other calls"
_STATUS = {Verdict.PASS: Exit.CONFIRMED, Verdict.FAIL: Exit.WRONG, Verdict.INCONCLUSIVE: Exit.INCONCLUSIVE}


_changed_since = functools.partial(finding, Kind.CHANGED_SINCE, Severity.INCONCLUSIVE)
_earlier_calls = functools.partial(finding, Kind.EARLIER_CALLS)


# Whether a torch backward pass that the program ran gives the same gradient again, at the same values.


def find_changed_backward(kept: Kept) -> Finding | None:
    """Return a finding if a backward pass returned another gradient than it returns now; None if it is the same.

    Two gradients count as different if more than half of their digits differ: sums in another order do not count.
    """
    torch = sys.modules.get("torch")
    if torch is None or kept.returned is None or not hasattr(kept.pair.function, "apply"):
        return None
    floats = [isinstance(x, torch.Tensor) and x.is_floating_point() for x in kept.args]
    args = [x.clone().requires_grad_() if moves else x for x, moves in zip(kept.args, floats, strict=True)]
    try:
        with torch.enable_grad():
            y = kept.pair.function.apply(*args)
            outputs = [x for x in (y if isinstance(y, tuple | list) else [y]) if isinstance(x, torch.Tensor)]
            both = [(x, w) for x, w in zip(outputs, kept.cotangents, strict=False) if w is not None]
            moving, cotangents = [x for x, _ in both if x.requires_grad], [w for x, w in both if x.requires_grad]
            inputs = [x for x, moves in zip(args, floats, strict=True) if moves]
            again = torch.autograd.grad(moving, inputs, cotangents, allow_unused=True)
    except (RuntimeError, TypeError):  # it needs another device, or what the program has freed
        return None
    if not all(_is_nearly_equal(x, then) for x, then in zip(outputs, kept.value, strict=False)):
        return _changed_since("the function has another value now than when it was called")
    tensors = [x for x in kept.args if isinstance(x, torch.Tensor)]
    then = [g for x, g in zip(tensors, kept.returned, strict=False) if x.is_floating_point()]
    if all(_is_nearly_equal(x, g) for x, g in zip(again, then, strict=False) if x is not None and g is not None):
        return None
    says = f"the backward pass of call {kept.number:,} returned another gradient than the same values give now"
    hint = "a buffer that a later call overwrites, a cache, or a saved tensor that was changed in place"
    return _earlier_calls(Severity.ERROR, says, hint=hint)


def _is_nearly_equal(x: Any, y: Any) -> bool:
    """Whether two tensors agree in half of their digits, relative to the largest entry."""
    if x.shape != y.shape:
        return False
    if not x.is_floating_point() or x.numel() == 0:
        return bool((x == y).all())
    eps = float(sys.modules["torch"].finfo(x.dtype).eps)
    x, y = x.detach().double(), y.detach().double()
    return bool(((x - y).abs() <= eps**0.5 * max(float(y.abs().max()), 1e-300)).all() or not y.isfinite().all())


# A kept call as a function of what is differentiated, and as the claim of its derivative, indexed [output, input].

_MOST_NODES = 3  # of the mesh of a boundary value problem: its Jacobian is a block for each


@dataclass(frozen=True, slots=True)
class Stated:
    """What is checked: a function at a point, and the claims of its derivative.

    `claim` calls the gradient; `returned` gives what the call returned, None where that is another derivative. `values` are
    the values of the arguments by name.
    """

    function: Callable[..., Any]
    claim: Callable[..., Any]
    returned: Callable[..., Any] | None
    values: dict[str, Any]
    kind: str


def value_at_call(kept: Kept) -> Any:
    """Return the value of the function at a kept call, as it is now."""
    args = [copy_arrays(x) for x in kept.args]
    if kept.pair.convention in ("along", "weighted"):
        del args[1]
    return value_of_pair(kept.pair, *args)


def value_of_pair(pair: GradientPair, *args: Any) -> Any:
    """Return the value of the function of a pair, without what it returns beside."""
    y = pair.function(*args)
    return y[0] if pair.joint else y


def gradient_of_pair(pair: GradientPair, *args: Any, **kwargs: Any) -> Any:
    """Return what the gradient of a pair returns, without the value beside it."""
    y = pair.gradient(*args, **kwargs)
    return y if pair.part is None else y[pair.part]


def _value_at_input(kept: Kept, x: Any) -> Any:
    return value_of_pair(kept.pair, *_with_input(kept, x))


def _with_input(kept: Kept, x: Any) -> tuple[Any, ...]:
    """Return the arguments of a kept call with another value of what is differentiated."""
    return (*kept.args[: kept.pair.wrt], x, *kept.args[kept.pair.wrt + 1 :])


def _plain_statement(kept: Kept) -> Stated:
    def shape_derivative(g: Any, x: Any) -> Any:
        """Return a derivative without, or with, the axes of length 1 by which scipy does not tell shapes apart."""
        if kept.pair.kind == "hess" or hasattr(g, "toarray") or hasattr(g, "matmat"):
            return g
        g, wanted = np.asarray(g), np.shape(_value_at_input(kept, np.array(x))) + np.shape(x)
        same_but_ones = [n for n in g.shape if n != 1] == [n for n in wanted if n != 1]
        return g.reshape(wanted) if g.shape != wanted and same_but_ones else g

    return _statement_by_input(kept, shape_derivative)


def _statement_by_input(
    kept: Kept, shape_derivative: Callable[[Any, Any], Any], function: Callable[[Any], Any] | None = None
) -> Stated:
    """Return what is stated of one argument, with the derivative in the shape that is made of what the gradient returns."""
    pair = kept.pair
    return _make_statement(
        kept, function or functools.partial(_value_at_input, kept),
        lambda x: shape_derivative(gradient_of_pair(pair, *_with_input(kept, x), **kept.kwargs), x),
        lambda x: shape_derivative(kept.returned, x), {_argument_name(pair, pair.wrt): _as_floats(kept.args[pair.wrt])},
    )  # fmt: skip


def _elementwise_statement(kept: Kept) -> Stated:
    """Newton's method of many equations at once: each value depends on its own unknown alone."""
    if np.size(kept.args[kept.pair.wrt]) == 1:
        return _plain_statement(kept)

    def diagonal(g: Any, x: Any) -> Any:
        g = np.broadcast_to(np.asarray(g, dtype=float), np.shape(x))
        return np.diag(np.ravel(g)).reshape(np.shape(x) * 2)

    total = lambda x: np.sum(_value_at_input(kept, x))
    return _statement_by_input(kept, diagonal, total if kept.pair.kind == "hess" else None)


def _hessian_product_statement(kept: Kept) -> Stated:
    """A product with the Hessian: `gradient` takes the point and a vector."""
    pair, more = kept.pair, kept.args[2:]
    return _make_statement(
        kept, lambda x: value_of_pair(pair, x, *more), lambda x, p: gradient_of_pair(pair, x, p, *more, **kept.kwargs), None,
        {_argument_name(pair, 0): _as_floats(kept.args[0])},
    )  # fmt: skip


def _weighted_statement(kept: Kept) -> Stated:
    """A constraint's Hessian: that of the sum of its values, each times its multiplier."""
    pair, v = kept.pair, np.asarray(kept.args[1])
    return _make_statement(
        kept, lambda x: np.sum(v * np.atleast_1d(value_of_pair(pair, x))),
        lambda x: gradient_of_pair(pair, x, v, *kept.args[2:], **kept.kwargs), lambda x: kept.returned,
        {_argument_name(pair, 0): _as_floats(kept.args[0])},
    )  # fmt: skip


def _curve_statement(kept: Kept) -> Stated:
    """A curve that is fitted: a function of the abscissae, and then of each parameter."""
    pair, t = kept.pair, kept.args[0]
    return _make_statement(
        kept, lambda p: value_of_pair(pair, t, *p), lambda p: gradient_of_pair(pair, t, *p, **kept.kwargs),
        lambda p: kept.returned,
        {"p": np.array(kept.args[1:], dtype=float)},
    )  # fmt: skip


def _mesh_statement(kept: Kept) -> Stated:
    """The right-hand side of a boundary value problem at every node of a mesh: the Jacobian is a block for each node."""
    pair, (x, y) = kept.pair, kept.args[:2]
    chosen = np.unique(np.linspace(0, x.size - 1, min(_MOST_NODES, x.size)).astype(int))
    x, y, p = x[chosen], y[:, chosen], kept.args[2:]
    n, m = y.shape

    def blocks(result: Any, chosen: Any) -> Any:
        by_y, by_p = result if p else (result, None)
        found = np.zeros((n, m, n, m))
        for k in range(m):
            found[:, k, :, k] = np.asarray(by_y)[:, :, chosen[k]]
        return (found, np.moveaxis(np.asarray(by_p)[:, :, chosen], 1, 2)) if p else found

    values = {"y": y, **({"p": np.asarray(p[0])} if p else {})}
    return _make_statement(
        kept, lambda *at: value_of_pair(pair, x, *at),
        lambda *at: blocks(gradient_of_pair(pair, x, *at, **kept.kwargs), range(m)),
        lambda *at: blocks(kept.returned, chosen), values,
    )  # fmt: skip


def _boundary_statement(kept: Kept) -> Stated:
    """The boundary conditions of a boundary value problem: by the values at both ends, and by the parameters."""
    pair = kept.pair
    values = dict(zip(("ya", "yb", "p"), map(_as_floats, kept.args), strict=False))
    return _make_statement(
        kept, lambda *ends: value_of_pair(pair, *ends), lambda *ends: tuple(gradient_of_pair(pair, *ends)),
        lambda *ends: tuple(kept.returned), values,
    )  # fmt: skip


def _make_statement(kept: Kept, function: Any, claim: Any, returned: Any, values: dict[str, Any]) -> Stated:
    """Return what is stated, with functions that have the names and the places of the user's."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [inspect.Parameter(name, kind) for name in values]
    more = [inspect.Parameter("vector", kind)] if kept.pair.convention == "along" else []
    function = _give_users_name(kept, kept.pair.function, function, parameters)
    named = functools.partial(_give_users_name, kept, kept.pair.gradient, parameters=[*parameters, *more])
    return Stated(function, named(claim), returned and named(returned), values, kept.pair.kind)


def _give_users_name(kept: Kept, users: Any, ours: Any, parameters: list[inspect.Parameter]) -> Any:
    """Return a function of ours under the name of the user's; messages about it name the user's file and line.

    Each call begins with what the user's objects held at the kept call: a function may leave values in them.
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        kept.state.rebind()
        return ours(*args, *kwargs.values())

    call.__wrapped__ = users  # type: ignore[attr-defined]
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    name = getattr(users, "__qualname__", type(users).__name__).replace("<locals>.", "")
    call.__name__ = call.__qualname__ = name
    call.__module__ = getattr(users, "__module__", None) or call.__module__
    return call


def _argument_name(pair: GradientPair, position: int) -> str:
    """Return the name that the user's function has for an argument."""
    try:
        names = [p.name for p in inspect.signature(pair.function).parameters.values() if p.kind is not p.VAR_POSITIONAL]
    except (TypeError, ValueError):
        names = []
    return names[position] if position < len(names) else "x"


def _as_floats(x: Any) -> Any:
    """Return an argument as an array of floats; scalars stay scalars."""
    array = np.asarray(x)
    return array.astype(float)[()] if array.dtype.kind in "iub" else array[()]


_CONVENTIONS: dict[Convention, Callable[[Kept], Stated]] = {
    "plain": _plain_statement,
    "transposed": lambda kept: _statement_by_input(kept, lambda g, x: np.transpose(g))
    if kept.pair.options.get("col_deriv") else _plain_statement(kept),
    "elementwise": _elementwise_statement,
    "along": _hessian_product_statement, "weighted": _weighted_statement,
    "curve": _curve_statement, "mesh": _mesh_statement, "ends": _boundary_statement,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Judge:
    """Checks kept calls, each with these options."""

    options: Options

    def row(self, recorded: RecordedCalls, kept: Kept) -> CheckRow:
        """Return the check of one kept call; every error is an answer too."""
        begun = time.perf_counter()
        name = recorded.definition.name
        try:
            with restored_state(kept.state), np.errstate(all="ignore"):
                document = encode(self._check_call_again(recorded, kept))
        except GradcliError as error:
            document = encode(error_report(error))
        except (Exception, SystemExit) as error:  # whatever the user's code raises when it is called again
            says = f"it cannot be called again: {type(error).__name__}: {message_of(error)[:300]}"
            document = encode(error_report(FunctionFailed(says)))
        return row_of_document(name, recorded.of or name, document, time.perf_counter() - begun)

    def _check_call_again(self, recorded: RecordedCalls, kept: Kept) -> CheckReport:
        if kept.pair.convention == "framework":
            return self._check_framework_call(recorded, kept)
        if kept.pair.convention == "layer":
            return self._check_layer_call(kept)
        what = _CONVENTIONS[kept.pair.convention](kept)
        if what.returned is None:
            return self._check_statement(what, what.claim)
        same = _is_equal_but_rounding(what.claim(**what.values), what.returned(**what.values))
        steady = None if kept.value is None else _is_equal_but_rounding(value_at_call(kept), kept.value)
        now = self._check_statement(what, what.claim)
        if steady is False:
            hint = "what it reads besides its arguments was changed after the call"
            return _with_finding(now, _changed_since(_VALUE, hint=hint))
        if same:
            cause = _likely_cause(recorded, kept) if now.verdict == Verdict.FAIL else None
            says = f"call {kept.number:,} {cause}"
            return now if cause is None else _with_finding(now, _earlier_calls(Severity.ERROR, says))
        then = self._check_statement(what, what.returned)
        if then.verdict == Verdict.PASS:
            return _with_finding(now, _earlier_calls(Severity.WARNING, _RIGHT_THEN))
        if steady is None:
            return _with_finding(now, _changed_since(_UNKNOWN))
        cause = _likely_cause(recorded, kept) or "depends on earlier calls"
        alike = (other for other in recorded.kept() if other.pair.convention == kept.pair.convention)
        if any(map(_has_function_changed, alike)):
            return _with_finding(now, _changed_since(_ELSEWHERE))
        says = f"call {kept.number:,} returned another gradient than the same input gives now: it {cause}"
        return _with_finding(then, _earlier_calls(Severity.ERROR, says))

    def _check_framework_call(self, recorded: RecordedCalls, kept: Kept) -> CheckReport:
        """Check a custom gradient of a framework, and what its backward pass returned when it ran."""
        name = kept.pair.options["framework"]
        own = import_framework(name)
        request = self._build_request(own, recorded, kept, Placed(KNOWN[name].dtype))
        if name == "torch":  # its other derivatives are not those that the program used
            request = replace(request, own=None)
        report = check(request)
        said = find_changed_backward(kept)
        return report if said is None or report.verdict == Verdict.FAIL else _with_finding(report, said)

    def row_together(self, first: RecordedCalls, second: RecordedCalls) -> CheckRow | None:
        """Return the check of two layers as one, at the first call of each; None where they do not follow each other, or fail.

        A softmax may leave its slope to the loss after it: neither is right alone, and both together are.
        """
        begun, calls = time.perf_counter(), []
        for recorded in (first, second):
            kept = next((kept for kept in recorded.kept() if kept.number == 1), None)
            if kept is None or (kept.pair.convention, kept.pair.kind) != ("layer", "backward"):
                return None
            if kept.args[0].held is None:
                return None
            call = kept.args[0]
            calls.append(InnerCall(_forward_name(kept), call.held, call.arguments, kept.value))
        try:
            both = chain_layers(*calls)
            if both is None:
                return None
            found = locate_function(both.layer, both.path, [dict(both.arguments)], self._options_of_point)
            report = check(replace(request_for(found, None, self.options), layer=None))
        except GradcliError:
            return None
        if report.verdict != Verdict.PASS:
            return None
        name = f"{first.definition.name}, {second.definition.name}"
        return row_of_document(name, both.path, encode(report), time.perf_counter() - begun)

    def _check_layer_call(self, kept: Kept) -> CheckReport:
        """Check a backward pass at the state and the arguments of its forward pass, and what it returned when it ran.

        Where it is wrong for the last forward pass, and right for an earlier one that was open still, it belongs to that.
        """
        report = self._check_at_forward_call(kept, kept.args[0])
        if report.verdict == Verdict.FAIL and report.points[0].mismatches:
            for earlier in kept.args[1:]:
                other = self._check_at_forward_call(kept, earlier)
                if other.verdict == Verdict.PASS:
                    return other
        return report

    def _check_at_forward_call(self, kept: Kept, call: LayerCall) -> CheckReport:
        function, name = kept.pair.function, _forward_name(kept)
        both = kept.pair.kind == "value-and-grad"
        target = function if call.held is None else getattr(call.held, function.__name__) if both else call.held
        options = replace(self.options, value_and_grad=True) if both else self.options
        backward = kept.pair.gradient if call.held is None and not both else None
        if both and call.held is None:
            target = _with_call_state(function, call)
        locate = replace(self._options_of_point, value_and_grad=both, backward=backward)
        _set_random_states(call)
        found = locate_function(target, name, [call.arguments], locate, module=inspect.getmodule(function))
        report = check(replace(request_for(found, None, options), layer=None))
        if report.verdict == Verdict.FAIL and both and call.held is None:
            report = self._retry_other_argument(report, found, options)
        if report.verdict == Verdict.FAIL or kept.returned is None:
            return report
        y, again = _rerun_layer_call(kept, call)
        if _has_equal_parts(again[0], kept.returned[0]) and _has_same_effects(again, kept.returned):
            return report
        if not _has_equal_parts(again[0], _rerun_layer_call(kept, call)[1][0]):
            return _with_finding(report, _changed_since("two calls with the same values give different gradients"))
        if kept.value is not None and call is kept.args[0] and not _has_equal_parts(y, kept.value):
            says = "the forward pass has another value now than when it was called"
            return _with_finding(report, _changed_since(says))
        what, hint = (
            "the backward pass",
            "a cache that a later forward pass overwrites, as where one layer is used twice",
        )
        hint += ", or an array that is shared"
        if both:
            what, hint = "the function", "a value that calls change, and that is not among the arguments"
        says = f"call {kept.number:,} of {what} returned another gradient than the same values give now"
        return _with_finding(report, _earlier_calls(Severity.ERROR, says, hint=hint))

    def _retry_other_argument(self, report: CheckReport, found: Located, options: Options) -> CheckReport:
        """Return the check by another argument of the first one's shape, if it passes: names did not tell them apart."""
        values = found.points[0].values
        words = returned_names(inspect.unwrap(found.f.function)) if isinstance(found.f, PythonFunction) else []
        if any(match_gradient_name(word, found.wrt) for word in words):
            return report  # of dW it is W
        for name in found.wrt[1:]:
            if np.shape(values[name]) == np.shape(values[found.wrt[0]]):
                other = replace(found, wrt=(name,), chosen=True)
                again = check(replace(request_for(other, None, options), layer=None))
                if again.verdict == Verdict.PASS:
                    says = f"the gradient is that by {name}; no name says of which it is"
                    return _with_finding(again, finding(Kind.CLAIM, Severity.INFO, says))
        return report

    def _build_request(self, own: Framework, recorded: RecordedCalls, kept: Kept, placed: Placed) -> Request:
        text, seed = recorded.of or recorded.definition.name, self.options.seed
        node, leaves = take_apart("", (kept.args, kept.kwargs))  # arrays were kept as those of numpy
        tensors = {path: own.tensor(x, placed) if isinstance(x, np.ndarray) else x for path, x in leaves.items()}
        args, kwargs = put_together(node, tensors)
        call = CustomCall(text, kept.pair.function, args, kwargs, constants=kept.constants)
        try:
            found = locate_call(call, own, placed, seed)
        except FunctionFailed as error:
            if placed.dtype == "float32" or not is_format_failure(error.what, None):
                raise
            return self._build_request(own, recorded, kept, Placed("float32"))
        if not found.wrt:
            says = f"{text} was called with nothing to differentiate"
            raise BadPoint(says, do="it is checked where a gradient is asked for")
        request = request_for(replace(found, chosen=True), None, self.options)
        return with_cotangent(request, found) or request

    def _check_statement(self, what: Stated, claim: Callable[..., Any]) -> CheckReport:
        found = locate_function(what.function, what.function.__name__, [{WHOLE: what.values}], self._options_of_point)
        return check(request_for(found, Claiming(what.kind, claim), self.options))

    @property
    def _options_of_point(self) -> Options:
        return Options(seed=self.options.seed)


def _forward_name(kept: Kept) -> str:
    return str(kept.pair.function.__qualname__).replace("<locals>.", "")


def _with_call_state(function: Callable[..., Any], call: LayerCall) -> Callable[..., Any]:
    """Return a function each call of which begins with the random states, and what else it reads, of a call in the program."""

    @functools.wraps(function)
    def call_again(*args: Any, **named: Any) -> Any:
        _set_random_states(call)
        call.state.rebind()
        return function(*args, **named)

    return call_again


def _set_random_states(call: LayerCall) -> None:
    """Let random numbers be those of a call."""
    python, numpys, generators = call.states
    random.setstate(python)
    if numpys is not None:
        np.random.set_state(numpys)
    for generator, state in generators:
        if isinstance(generator, np.random.Generator):
            generator.bit_generator.state = state
        else:
            generator.set_state(state)


def _is_inverse_call(kept: Kept) -> bool:
    """Whether what is called a backward pass turned its forward pass round, as that of a transform does.

    It got what the forward pass had returned, and returned what that had taken; or neither of the two returns anything.
    """
    if kept.pair.convention != "layer" or kept.pair.kind != "backward" or kept.returned is None:
        return False
    found, given = kept.returned[0], [x for x in kept.args[0].arguments.values() if isinstance(x, np.ndarray)]
    if kept.value is None or len(given) != 1 or len(kept.cotangents) != 1:
        return kept.value is None and found is None
    return bool(np.any(given[0])) and _has_equal_parts((kept.cotangents[0], found), (kept.value, given[0]))


def _rerun_layer_call(kept: Kept, call: LayerCall) -> tuple[Any, tuple[Any, dict[str, Any], dict[str, Any]]]:
    """Return what a forward pass gives now, and its backward pass for the cotangent that it had.

    Beside what this returns are the arrays of the object before and after it.
    """
    _set_random_states(call)
    call.state.rebind()
    held, arguments = copy.deepcopy((call.held, call.arguments))
    ahead, back = kept.pair.function, kept.pair.gradient
    if kept.pair.kind != "backward":
        return None, (back(*(() if held is None else (held,)), **arguments), {}, {})
    if held is not None:
        y = output_of_pass(held, ahead(held, **arguments))
        before = copy_held_arrays(held)
        gradient = back(held, *copy_arrays(kept.cotangents), **kept.kwargs)
        return y, (gradient, before, copy_held_arrays(held))
    *y, cache = ahead(**arguments)
    given = [cache if type(x) is str and x == CACHE else x for x in copy_arrays(kept.cotangents)]
    named = {name: cache if type(x) is str and x == CACHE else x for name, x in kept.kwargs.items()}
    return tuple(y), (back(*given, **named), {}, {})


def _has_same_effects(now: tuple[Any, Any, Any], then: tuple[Any, Any, Any]) -> bool:
    """Whether a backward pass leaves the same in each array of its object, or adds the same to it."""
    for path in now[2].keys() & then[2].keys():
        after, after_then = now[2][path], then[2][path]
        before, before_then = now[1].get(path, 0.0), then[1].get(path, 0.0)
        if _has_equal_parts(after, after_then):
            continue
        shapes = {np.shape(before), np.shape(before_then)} <= {(), after.shape}
        numbers = after.dtype.kind == "f" and shapes and after.shape == after_then.shape
        if not numbers or not _is_equal_but_rounding(after - before, after_then - before_then):
            return False
    return True


def _has_equal_parts(x: Any, y: Any) -> bool:
    """Whether two results with parts are equal but for rounding."""
    if isinstance(x, dict) and isinstance(y, dict):
        return x.keys() == y.keys() and all(_has_equal_parts(x[key], y[key]) for key in x)
    if isinstance(x, tuple | list) and isinstance(y, tuple | list):
        return len(x) == len(y) and all(map(_has_equal_parts, x, y))
    return x is y or (x is not None and y is not None and _is_equal_but_rounding(x, y))


def _with_finding(report: CheckReport, said: Finding) -> CheckReport:
    """Return a report with one more finding, and the verdict that it leads to: a warning changes none."""
    verdicts = {Severity.ERROR: Verdict.FAIL, Severity.INCONCLUSIVE: Verdict.INCONCLUSIVE}
    verdict = verdicts.get(said.severity, report.verdict)
    points = tuple(replace(p, findings=(said, *p.findings), verdict=verdict) for p in report.points)
    return replace(report, points=points, verdict=verdict, exit_status=int(_STATUS[verdict]))


def _has_function_changed(kept: Kept) -> bool:
    """Whether the function has another value now than it had at a kept call."""
    if kept.value is None:
        return False
    with restored_state(kept.state):
        return not _is_equal_but_rounding(value_at_call(kept), kept.value)


def _likely_cause(recorded: RecordedCalls, kept: Kept) -> str | None:
    """Return the likely cause why a gradient was wrong at one call and not at another, None if none is seen."""
    earlier = [other for other in recorded.kept() if other.number < kept.number and other.process == kept.process]
    if all(_is_equal_but_rounding(other.returned, kept.returned) for other in recorded.kept()):
        earlier = []  # a constant gradient is no cache
    for other in earlier:
        if other.pair.convention == kept.pair.convention and _is_equal_but_rounding(other.returned, kept.returned):
            return f"returned the gradient of call {other.number:,}, as from a cache that is out of date"
    if kept.changes_input:
        return "changed its input in place"
    if kept.reuses_array:
        return "returned the array of an earlier call, which each call overwrites"
    return None


def _is_equal_but_rounding(x: Any, y: Any) -> bool:
    """Whether two results are equal but for rounding."""
    if isinstance(x, tuple | list) and isinstance(y, tuple | list) and len(x) == len(y) and any(map(np.ndim, x)):
        return all(map(_is_equal_but_rounding, x, y))
    x, y = (np.asarray(each.toarray() if hasattr(each, "toarray") else each) for each in (x, y))
    if x.shape != y.shape:
        x, y = np.squeeze(x), np.squeeze(y)
    if x.shape != y.shape:
        return False
    if x.dtype.kind not in "fc" and y.dtype.kind not in "fc":
        return bool(np.array_equal(x, y))
    largest = float(np.max(np.abs(x), initial=0.0))
    return bool(np.allclose(x, y, rtol=0.0, atol=_SAME * largest, equal_nan=True))


def check_recorded_calls(
    recorded: Iterable[tuple[RecordedCalls, str]], command: Sequence[str], program: Program | None, options: Options,
    folder: Path,
) -> RunReport:  # fmt: skip
    """Check what was recorded, and return the report; paths in it begin at `folder`.

    Each record comes with the reason why it cannot be checked, which is empty where it can.
    """
    judge = Judge(options)
    clock = _Clock(options.timeout)
    wanted: list[RecordedCalls] = []
    gradients: list[UsedGradient] = []
    for each, reason in recorded:
        if not any(fnmatch.fnmatchcase(each.definition.name, pattern) for pattern in options.exclude):
            gradient = _check_gradient(each, reason, judge, folder, clock)
            kept = each.kept()
            if gradient.verdict == "pass" or not (kept and all(map(_is_inverse_call, kept))):
                wanted.append(each)
                gradients.append(gradient)
    wrong = [k for k, gradient in enumerate(gradients) if gradient.verdict == "fail" and not clock.stopped]
    for a, b in itertools.permutations(wrong, 2):
        first, second = wanted[a], wanted[b]
        row = clock.run_check(judge.row_together, first, second)
        if clock.stopped:
            note = f"not checked together with other layers: {clock.stopped}"
            for k in wrong:
                if gradients[k].verdict == "fail":
                    gradients[k] = replace(gradients[k], notes=(*gradients[k].notes, note))
            break
        if row is not None:
            for k, other in ((a, second), (b, first)):
                note = f"not the derivative of its forward pass alone; right together with {other.definition.name}"
                point = replace(gradients[k].points[0], check=row)
                gradients[k] = replace(gradients[k], verdict="pass", notes=(note,), points=(point,), checked=1)
    return _build_run_report(gradients, command, program, options)


def merge_run_reports(reports: Sequence[RunReport], command: Sequence[str]) -> RunReport:
    """Return one report for those of several processes: the calls of each gradient together."""
    every = sorted((gradient for report in reports for gradient in report.gradients), key=_identity_of_gradient)
    gradients = []
    for _, group in itertools.groupby(every, key=_identity_of_gradient):
        parts = [*group]
        points = tuple(point for part in parts for point in part.points)
        notes = tuple(dict.fromkeys(note for part in parts for note in part.notes))
        calls, checked = sum(part.calls for part in parts), sum(part.checked for part in parts)
        verdict = worst_verdict(points)
        whole = replace(parts[0], calls=calls, checked=checked, verdict=verdict, notes=notes, points=points)
        gradients.append(whole)
    return _build_run_report(gradients, command, None, DEFAULTS)


def _identity_of_gradient(gradient: UsedGradient) -> tuple[str, int, str, str]:
    return gradient.file, gradient.line, gradient.name, gradient.kind


def _build_run_report(
    gradients: list[UsedGradient], command: Sequence[str], program: Program | None, options: Options
) -> RunReport:
    gradients.sort(key=lambda each: (WORST.index(each.verdict), *_identity_of_gradient(each)))
    status = (program.status if program else 0) or int(exit_status_of_run(gradients))
    return RunReport(
        tuple(command), options.seed, program, status, tuple(gradients), describe_environment(), full=options.verbose
    )


def _check_gradient(recorded: RecordedCalls, reason: str, judge: Judge, folder: Path, clock: "_Clock") -> UsedGradient:
    points: list[CheckedCall] = []
    notes = sorted({reason, *recorded.unclear} - {""})
    kept = recorded.kept()
    for call in kept:
        row = clock.run_check(judge.row, recorded, call)
        if row is not None:
            at = None if call.at is None else f"{shown_path(call.at[0], folder)}:{call.at[1]}"
            points.append(CheckedCall(call.number, at, call.process or None, call.drawn, row))
        if clock.stopped:
            notes.append(f"{len(kept) - len(points)} of {len(kept)} kept calls were not checked: {clock.stopped}")
            break
    if recorded.outside:
        notes.append(f"{recorded.outside:,} calls were left out: the function is not finite there")
    if recorded.not_kept:
        notes.append(f"{recorded.not_kept:,} calls could not be kept: --keep-bytes gives more room")
    if not kept and not notes:
        notes.append(f"no call could be recorded: {recorded.none_because}")
    definition = recorded.definition
    return UsedGradient(
        definition.name, shown_path(definition.file, folder), definition.line, recorded.kind, recorded.of, recorded.calls,
        len(points), worst_verdict(points), tuple(notes), tuple(points),
    )  # fmt: skip


class _Clock:
    """The time that is left for the checks, and why they stopped before the end."""

    def __init__(self, seconds: float | None) -> None:
        self._until = None if seconds is None else time.monotonic() + seconds
        self.stopped = ""

    def run_check(self, check: Callable[..., CheckRow | None], *given: Any) -> CheckRow | None:
        """Return the result of a check; None if the time is up, or at an interrupt, and then no other check begins."""
        left = None if self._until is None else self._until - time.monotonic()
        try:
            if self.stopped or (left is not None and left <= 0):
                raise ChecksTimeUp
            with time_limit(left):
                return check(*given)
        except (ChecksTimeUp, KeyboardInterrupt) as ended:
            why = "the time limit was reached" if isinstance(ended, ChecksTimeUp) else "an interrupt ended the checks"
            self.stopped = self.stopped or why
            return None


def shown_path(file: str, folder: Path) -> str:
    """Return a path as people and programs read it: from the folder where gradcli was started, if it is inside."""
    path = os.path.realpath(file) if not file.startswith("<") else file
    inside = path.startswith(os.path.realpath(folder) + os.sep)
    return Path(os.path.relpath(path, os.path.realpath(folder))).as_posix() if inside else path
