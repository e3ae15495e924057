"""Turn a claim of any kind (gradient, Hessian, product) into a function and a claim of that function's Jacobian."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gradcli.checks.diagonal import replace_elementwise, with_hessian_diagonal
from gradcli.checks.framework_claim import precision_of
from gradcli.checks.probe import Located
from gradcli.classes import dataclass
from gradcli.errors import BadClaim, BadOption, BadShape, BadTarget, FunctionFailed, NotSupported, closest_name
from gradcli.frameworks.native import native_of, wrap_claim
from gradcli.modes.claim import (
    Claimed,
    ClaimedExpressions,
    ClaimedFunction,
    WrongShape,
    hessian_blocks,
    hessian_diagonal,
    make_claim_matcher,
    prepare_claim,
    to_dense_array,
)
from gradcli.modes.finite_difference import GradientByValues
from gradcli.request.target_text import Pick, is_python
from gradcli.targets.arguments import refuse_coroutine
from gradcli.targets.derived import (
    STEP,
    Along,
    GivenGradient,
    Gradient,
    OnSurfaces,
    SumOfEntries,
    Weighted,
    original_function,
    random_direction,
    tangent_to_surfaces,
)
from gradcli.targets.facts import Function
from gradcli.targets.layers import find_sibling_method, match_gradient_name, returned_names
from gradcli.targets.loading import NOTEBOOK, find_member, load, names_of_callables
from gradcli.targets.nesting import paths_of_leaves, put_together
from gradcli.targets.python import PythonFunction, flatten_result
from gradcli.targets.replacement_scope import solver_tolerances
from gradcli.tracing.primitive import Value
from gradcli.tracing.provenance import place_of_definition
from gradcli.tracing.shapes import concatenate_entries, shape


@dataclass(frozen=True, slots=True)
class Claiming:
    """What the user claims: the kind of derivative, and the claimed function or a string that names it.

    If the claim is of a second derivative, `gradient` is the claimed first derivative, if any.
    """

    kind: str
    claim: str | Callable[..., Any]
    gradient: str | Callable[..., Any] | None = None

    @property
    def text(self) -> str:
        """The text by which messages name the claim."""
        if isinstance(self.claim, str):
            return self.claim.removeprefix(f"{NOTEBOOK}:")
        return str(getattr(self.claim, "__name__", "the claim"))


def resolve_claim(found: Located, claiming: Claiming, seed: int) -> tuple[Located, Claimed]:
    """Return the function whose Jacobian is claimed, at its points, and the claim of this Jacobian.

    For a claim of a Hessian the function is the gradient; for claims of products it is f along a line, or weighted.

    Raises  BadClaim for a claim that cannot be used; BadTarget for a string that names no function; BadShape for a Hessian
            of a function with array values.
    """
    source = _find_claimed_function(found, claiming)
    if isinstance(source, str):
        return _claim_by_expression(found, claiming, source, seed)
    refuse_coroutine(source, claiming.text)
    looked_at, claim = _KINDS[claiming.kind](found, claiming, source, seed)
    claim.place = place_of_definition(inspect.unwrap(getattr(source, "func", source)))
    return looked_at, claim


def claim_returned_gradient(found: Located, pick: Pick) -> tuple[Located, Claimed]:
    """Return the target with the gradient that it returns beside its value, as the claim.

    Raises  BadOption if the target is no Python function; the claim raises BadClaim if f does not return these parts.
    """
    f, at = found.f, found.points[0].values
    if not isinstance(f, PythonFunction):
        raise BadOption(f"{'--value-and-grad' if pick.pair else '--pick'} is for Python functions", do="use --grad")

    def gradient(values: Mapping[str, Value]) -> Any:
        with solver_tolerances(1.0):
            y = f.returned(values)
        parts = pick.gradient_of(y, f.text)
        if isinstance(parts, dict):
            return _gradients_by_name([*parts], [*parts.values()], found.wrt) or parts
        if not pick.pair:
            return parts
        words = returned_names(inspect.unwrap(f.function))
        if len(y) > 2:
            by_word = ((match_gradient_name(word, found.wrt), x) for word, x in zip(words[1:], parts, strict=False))
            named = {name: x for name, x in by_word if name}
            if not named and [*map(shape, parts)] != [shape(at[name]) for name in found.wrt[: len(parts)]]:
                raise pick.no_pair(y, f.text)
            return named or parts
        if isinstance(parts, list) and any(shape(x) for x in parts if not isinstance(x, list)):
            return tuple(parts)
        if isinstance(parts, tuple) or found.chosen:
            return parts
        of = [name for word in words[:2] if (name := match_gradient_name(word, found.wrt)) is not None and word != name]
        fitting = [name for name in found.wrt if shape(at[name]) == shape(parts)]
        by = of if len(of) == 1 else fitting if len(fitting) == 1 else []
        return {by[0]: parts} if by and by[0] != found.wrt[0] else parts

    match = make_claim_matcher(found.arguments, found.wrt, chosen=found.chosen)
    claim = ClaimedFunction(f"{f.text} ({pick.named})", gradient, match, at)
    claim.place = place_of_definition(inspect.unwrap(f.function))
    return replace_elementwise(_restrict_to_claimed(found, claim), claim), claim


def _gradients_by_name(words: Sequence[Any], parts: Sequence[Any], inputs: Sequence[str]) -> dict[str, Any] | None:
    """Return gradients by the inputs that words such as `dW` name; None where one of them names none, or is an input itself."""
    names = [None if word in inputs else match_gradient_name(word, inputs) for word in words]
    if None in names or len(set(names)) != len(parts):
        return None
    return {str(name): part for name, part in zip(names, parts, strict=True)}


def replace_by_gradient(found: Located, claiming: Claiming | None = None, seed: int = 0) -> Located:
    """Return the gradient of the function at the same points; its Jacobian is the Hessian."""
    return found.with_function(_gradient_for_hessian(found, claiming, seed))


def _gradient_for_hessian(found: Located, claiming: Claiming | None, seed: int) -> Gradient:
    """Return the gradient that is differentiated to give the Hessian.

    It is computed by the reverse mode. If the function cannot be traced, it is the claimed gradient, or differences of
    function values if no gradient is claimed.
    """
    at = found.points[0].values
    first = None
    if claiming is not None and claiming.gradient is not None:
        _, first = resolve_claim(found, Claiming("grad", claiming.gradient), seed)
        parts = first(at)
        for name in found.wrt:
            if name not in parts:
                says = f"the claimed gradient leaves out {name}, and the Hessian is its derivative"
                raise BadClaim(says, do=f"--wrt {','.join(parts)}")
            made, wanted = shape(parts[name]), shape(at[name])
            if made != wanted:
                says = f"the claimed gradient of {name} has shape {made}; the right one has shape {wanted}"
                raise BadClaim(says, do="check it alone: --grad")
    gradient = Gradient(found.f, found.wrt, at, first)
    try:
        with np.errstate(all="ignore"):
            gradient(at)
    except NotSupported as ended:
        if shape(found.f(at)) != ():
            says = f"the value has shape {shape(found.f(at))}, and only a scalar has a Hessian"
            raise BadShape(says, do="reduce it: np.sum(...)") from ended
        if first is not None:
            return GivenGradient(found.f, found.wrt, at, first)
        return GradientByValues(found.f, found.wrt, at, ended)
    return gradient


def _find_claimed_function(found: Located, claiming: Claiming) -> str | Callable[..., Any]:
    """Return the function that a claim names, or the string if the claim is an expression."""
    claim = claiming.claim
    native = native_of(original_function(found.f))
    if not isinstance(claim, str):
        return wrap_claim(claim, native)
    text = claim.strip()
    if is_python(text):
        return wrap_claim(load(text).found, native)
    if found.module is None or not all(part.isidentifier() for part in text.split(".")):
        return claim
    owner = getattr(original_function(found.f), "function", None)
    function = find_sibling_method(owner, text) or find_member(found.module, text)
    if callable(function):
        return wrap_claim(function, native)
    if text in found.f.inputs or text == "None":
        return claim
    known = names_of_callables(found.module)
    near = closest_name(text, known)
    raise BadTarget(
        f"{found.f.text.rpartition(':')[0] or 'the notebook'} has no function '{text}' to check",
        do=f"did you mean '{near}'?" if near else f"it has: {', '.join(known[:12])}",
    )


def _claim_by_expression(found: Located, claiming: Claiming, text: str, seed: int) -> tuple[Located, Claimed]:
    given = frozenset(found.f.inputs)
    if claiming.kind in ("grad", "jac"):
        claim = ClaimedExpressions(text, found.wrt, given, found.sizes)
        return replace_elementwise(found, claim), claim
    if claiming.kind != "hess":
        says = f"--{claiming.kind} takes a function of the inputs and a vector"
        raise BadClaim(says, do=f"--{claiming.kind} file.py:name")
    whole = ClaimedExpressions(text, ("H",), given, found.sizes)
    one = whole(found.points[0].values)["H"]
    return _second_order_claim(found, claiming, text, lambda values: whole(values)["H"], one, seed)


def _restrict_to_claimed(found: Located, claim: ClaimedFunction) -> Located:
    """Restrict the inputs to those that the claim covers, unless the user chose them: one array is for the first input."""
    if found.chosen or set(claim.names) >= set(found.wrt):
        return found
    claimed = _parameters_of_inputs(found, list(claim.names))
    kept = [path for path in found.wrt if _parameters_of_inputs(found, [path]) <= claimed]
    return replace(found, wrt=tuple(kept))


def _parameters_of_inputs(found: Located, inputs: list[str]) -> set[str]:
    return {name for name, node in found.arguments.items() if set(paths_of_leaves(node)) & set(inputs)}


def _jacobian_claim(
    found: Located, claiming: Claiming, function: Callable[..., Any], seed: int
) -> tuple[Located, Claimed]:
    compute = prepare_claim(function, claiming.text, found.arguments)
    match = make_claim_matcher(found.arguments, found.wrt, chosen=found.chosen)
    claim = ClaimedFunction(claiming.text, compute, match, found.points[0].values)
    looked_at = replace_elementwise(_restrict_to_claimed(found, claim), claim)
    summed: Callable[[Function], Function] = SumOfEntries if isinstance(looked_at.f, SumOfEntries) else lambda f: f
    claim.precision = precision_of(found.f, found.wrt, summed)
    return looked_at, claim


def _hessian_claim(
    found: Located, claiming: Claiming, function: Callable[..., Any], seed: int
) -> tuple[Located, Claimed]:
    at = found.points[0].values
    compute = prepare_claim(function, claiming.text, found.arguments)
    try:
        with np.errstate(all="ignore"):
            one = compute(at)
    except FunctionFailed as error:
        raise BadClaim(error.what, where=error.where, do=error.do) from error
    if not found.chosen and len(found.wrt) > 1 and not isinstance(one, dict | tuple | list):
        first = shape(at[found.wrt[0]])
        if shape(one) == first * 2 or (first and shape(one) == first):
            found = replace(found, wrt=found.wrt[:1])
    return _second_order_claim(found, claiming, claiming.text, compute, one, seed)


def _second_order_claim(
    found: Located, claiming: Claiming, text: str, compute: Callable[[Mapping[str, Value]], Any], one: Any, seed: int
) -> tuple[Located, Claimed]:
    """Return the gradient and the claim of its Jacobian; if that is diagonal and its diagonal is claimed, these.

    `one` is what the claim returns at the first point.
    """
    at, gradient = found.points[0].values, replace_by_gradient(found, claiming, seed)
    summed = None if hessian_diagonal(one, found.wrt, at) is None else with_hessian_diagonal(found, gradient)
    if summed is not None:

        def match(h: Any) -> dict[str, Any]:
            parts = hessian_diagonal(h, found.wrt, at)
            if parts is None:
                raise WrongShape(f"the claimed Hessian has shape {shape(h)}, and is its diagonal at another point")
            return parts

        return summed, ClaimedFunction(text, compute, match, at)
    return gradient, ClaimedFunction(text, compute, lambda h: hessian_blocks(h, found.wrt, at), at)


def _product_claim(
    found: Located, claiming: Claiming, function: Callable[..., Any], seed: int
) -> tuple[Located, Claimed]:
    """Return the function along a line, or its gradient, and the claim of its derivative there: J v, or H v."""
    at, of_hessian = found.points[0].values, claiming.kind == "hvp"
    v = {name: random_direction(seed, name, at[name]) for name in found.wrt}
    v = tangent_to_surfaces(found.f.surfaces, at, v) if isinstance(found.f, OnSurfaces) else v
    compute = prepare_claim(function, claiming.text, found.arguments, _direction_as_arguments(found, v))
    by_input = make_claim_matcher(found.arguments, found.wrt, chosen=found.chosen)

    def match(result: Any) -> dict[str, Any]:
        if of_hessian:
            parts = by_input(result)
            return {STEP: concatenate_entries(parts[name] for name in found.wrt if name in parts)}
        whole = flatten_result(result, claiming.text)[0] if isinstance(result, tuple | dict) else result
        return {STEP: to_dense_array(claiming.text, whole)}

    along = found.along_line(Along(_gradient_for_hessian(found, claiming, seed) if of_hessian else found.f, v))
    return along, ClaimedFunction(claiming.text, compute, match, along.points[0].values)


def _vjp_claim(found: Located, claiming: Claiming, function: Callable[..., Any], seed: int) -> tuple[Located, Claimed]:
    at = found.points[0].values
    y = found.f(at)
    rng = np.random.default_rng([seed, 0xCAFE])
    w = np.asarray(rng.uniform(0.5, 1.5, shape(y)) * rng.choice([-1.0, 1.0], shape(y)))
    w.flags.writeable = False
    w = w[()]
    compute = prepare_claim(function, claiming.text, found.arguments, w)
    weighted = Weighted(found.f, w)
    match = make_claim_matcher(found.arguments, found.wrt, chosen=found.chosen)
    claim = ClaimedFunction(claiming.text, compute, match, at)
    return _restrict_to_claimed(found, claim).with_function(weighted), claim


def _direction_as_arguments(found: Located, v: Mapping[str, Any]) -> Any:
    """Return a direction in the structure of the differentiated parameters; several parameters form a tuple."""
    values = {path: np.zeros(shape(x))[()] for path, x in found.points[0].values.items()} | dict(v)
    names = _parameters_of_inputs(found, list(v))
    moved = [put_together(node, values) for name, node in found.arguments.items() if name in names]
    return moved[0] if len(moved) == 1 else tuple(moved)


_KINDS: dict[str, Callable[..., tuple[Located, Claimed]]] = {
    "grad": _jacobian_claim, "jac": _jacobian_claim, "hess": _hessian_claim, "jvp": _product_claim, "vjp": _vjp_claim,
    "hvp": _product_claim,
}  # fmt: skip
