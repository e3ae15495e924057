"""Build the request for `check` from options and a claim, for the command line and for Python."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from gradcli.checks.assumed_sets import Surfaces, apply_assumptions, restrict_to_surfaces
from gradcli.checks.claims import Claiming, claim_returned_gradient, replace_by_gradient, resolve_claim
from gradcli.checks.framework_claim import Implementation, claim_traced_gradient, implementation_of, own_gradient
from gradcli.checks.probe import Located, locate, replace_by_reference
from gradcli.checks.request import Request
from gradcli.errors import BadOption, closest_name
from gradcli.frameworks.native import native_of
from gradcli.modes.claim import Claimed, ClaimedFunction
from gradcli.modes.finite_difference import GradientByValues
from gradcli.modes.recording import Budget
from gradcli.modes.registry import add_mode_for_device, effort_of, parse_modes
from gradcli.request.options import SECOND_ORDER, Options
from gradcli.request.point import Point, Stepping
from gradcli.request.target_text import is_python
from gradcli.targets.derived import SumOfEntries, inner_gradient
from gradcli.targets.facts import Notice
from gradcli.targets.loading import likely_gradients
from gradcli.targets.target_request import TargetRequest
from gradcli.words import Derivative, Kind, Severity


def request_for(
    found: Located, claiming: Claiming | None, options: Options, command: tuple[str, ...] = (), by: Implementation | None = None
) -> Request:  # fmt: skip
    """Return the request: the function whose Jacobian is checked, its points, and the claim.

    With an implementation `by`, the claim is its gradient, and `found` is its reference.

    Raises  BadOption for options that contradict each other or name unknown inputs; BadClaim for a claim that cannot be
            used; BadTarget for a claim that names no function.
    """
    own = None
    found, surfaces = apply_assumptions(found, options)
    if surfaces:
        _refuse_on_sets(claiming, options, by)
    if found.made_claim is not None:
        _refuse_on_ranks(claiming, options)
    if claiming is None and found.own_claim is not None and options.picked is None and options.order == 1:
        claiming = Claiming(*found.own_claim)
    if claiming is None and options.picked is None:
        own = own_gradient(found, options.seed, options.order, options.expect, by=by)
        if options.expect and not (own and any(n.kind in options.expect for n in own[0].notices)):
            missing = {"straight-through": "step function", "stop-gradient": "gradient that is stopped"}
            has = " and no ".join(missing[kind] for kind in sorted(options.expect))
            raise BadOption(f"the function has no {has}, as --expect has it", do="leave out --expect")
        if options.expect and len(found.points) > 1:
            raise BadOption("--expect holds values constant at one point", do="give one point")
    modes = parse_modes(options.modes)
    if own is not None and options.modes is None:
        # symbolic takes longer than all other modes; constants that are held are known only to float64 rounding
        without = {"symbolic", "certified"} if options.expect else {"symbolic"}
        modes = tuple(mode for mode in modes if mode not in without)
    if options.device is not None and native_of(found.f) is None:
        modes = add_mode_for_device(modes, options.device)
    _check_bounds_and_scales(found, options.stepping)
    looked_at, claim = own[:2] if own is not None else _choose_claim(found, claiming, options, surfaces)
    if claim is None and by is not None:
        looked_at, claim = claim_traced_gradient(found, by, options.seed)
    notices = (*looked_at.notices, *_find_unchecked_gradients(found, claiming, options))
    gradient = inner_gradient(looked_at.f)
    if isinstance(gradient, GradientByValues):
        gradient.stepping = options.stepping
    if surfaces and own is not None and own[2].native.coarseness > 1.0:
        says = f"--assume needs float64, and the function computes in {own[2].native.narrowest}"
        raise BadOption(says, do="leave it out, or give the function float64")
    if claiming is None or claiming.kind != "jvp":
        looked_at, claim = restrict_to_surfaces(looked_at, claim, surfaces)
    not_claimed = _find_unclaimed_inputs(found, claiming, looked_at, claim, options) if own is None else ()
    return Request(
        looked_at.f, looked_at.points, looked_at.wrt, modes, claim, options,
        Budget(effort_of(options.modes), options.mode_timeout), notices, command,
        _name_derivative(claiming, options, looked_at), None if own is None else own[2], by, not_claimed,
        None if own is None or options.order == 2 else own[2], surfaces, found.layer,
    )  # fmt: skip


def _find_unclaimed_inputs(
    found: Located, claiming: Claiming | None, located: Located, claim: Claimed | None, options: Options
) -> tuple[str, ...]:
    """Return the inputs that are differentiated by default but that the claim does not cover.

    Raises  BadOption if `require_claim` is set and the claim leaves out an input without declining it by None.
    """
    if claim is None or not claim.names or (claiming is not None and claiming.kind in ("jvp", "hvp")):
        return ()
    if isinstance(claim, ClaimedFunction) and claim.for_first:
        return ()
    left = tuple(name for name in found.wrt if name not in located.wrt or name not in claim.names)
    if left and options.require_claim and not (isinstance(claim, ClaimedFunction) and claim.declines):
        says = f"--require-claim is given, but the claim does not cover {', '.join(left)}"
        others = ",".join(name for name in found.wrt if name not in left)
        raise BadOption(says, do=f"claim it too, or choose the others: --wrt {others}")
    return left


def _check_bounds_and_scales(found: Located, stepping: Stepping) -> None:
    """Raise BadOption for bounds or scales of an unknown input, and for points outside the bounds."""
    for option, names in (("--bounds", stepping.edges), ("--scale", stepping.scales)):
        for name in names:
            if name not in found.f.inputs:
                near = closest_name(name, found.f.inputs)
                hint = f"did you mean '{near}'?" if near else f"inputs: {', '.join(found.f.inputs)}"
                raise BadOption(f"{option} names '{name}', which is not an input", do=hint)
    for point in found.points:
        for name in stepping.edges:
            if not stepping.are_inside((name,), (point.values[name],)):
                low, high = stepping.edges_of(name)
                says = f"{name} lies outside its bounds, {low:g} to {high:g}"
                raise BadOption(says, do="move the point, or the bounds")


def _name_derivative(claiming: Claiming | None, options: Options, looked_at: Located) -> Derivative:
    if isinstance(looked_at.f, SumOfEntries):
        return "elementwise derivative" if inner_gradient(looked_at.f) is None else "diagonal of the Hessian"
    kind = claiming.kind if claiming is not None else "hess" if options.order == 2 else "grad"
    names: dict[str, Derivative]
    names = {"hess": "Hessian", "jvp": "product J v", "vjp": "product w J", "hvp": "product H v"}
    return names.get(kind, "gradient")


def _choose_claim(
    found: Located, claiming: Claiming | None, options: Options, surfaces: Surfaces
) -> tuple[Located, Claimed | None]:
    if found.made_claim is not None:
        return found, found.made_claim
    if options.picked is not None:
        if claiming is not None:
            flag = "--pick" if options.pick is not None else "--value-and-grad"
            raise BadOption(f"{flag} is itself a claim, and --{claiming.kind} is another", do="drop one of them")
        return claim_returned_gradient(found, options.picked)
    if claiming is None:
        if options.require_claim:
            raise BadOption("--require-claim is given, but there is no claim", do='add --grad "x=..."')
        return (replace_by_gradient(found) if options.order == 2 else found), None
    if options.order == 2 and claiming.kind not in SECOND_ORDER:
        raise BadOption(f"--{claiming.kind} claims a first derivative", do="for second derivatives: --hess or --hvp")
    if claiming.kind in SECOND_ORDER:
        claiming = replace(claiming, gradient=options.grad)
    if claiming.kind == "jvp":
        found = restrict_to_surfaces(found, None, surfaces)[0]
    return resolve_claim(found, claiming, options.seed)


def _refuse_on_sets(claiming: Claiming | None, options: Options, by: Implementation | None) -> None:
    """Raise BadOption for what no check on a set compares."""
    kind = None if claiming is None else claiming.kind
    second = f"--{kind}" if kind in SECOND_ORDER else "--order 2" if options.order == 2 else None
    other = second or ("--reference" if by is not None else "--same-as" if options.same_as else None)
    if other is not None:
        raise BadOption(f"--assume is for first derivatives of one function, not for {other}", do="leave one out")


def _refuse_on_ranks(claiming: Claiming | None, options: Options) -> None:
    """Raise BadOption for what is not checked on several ranks."""
    given = (
        ("a claim of your own", claiming is not None or options.picked is not None), ("--order 2", options.order == 2),
        ("--assume", bool(options.assume)), ("--expect", bool(options.expect)), ("--same-as", bool(options.same_as)),
        ("--compile", options.compile), ("--autocast", options.autocast is not None), ("--stress", options.looks_at_hard_points),
    )  # fmt: skip
    for what, on in given:
        if on:
            says = f"--ranks checks what backward leaves on each rank, without {what}"
            raise BadOption(says, do="leave one of them out")


@contextmanager
def end_ranks_on_exit(options: Options) -> Iterator[None]:
    """End the ranks that a check in the block has started."""
    try:
        yield
    finally:
        if options.ranks is not None:
            from gradcli.process.copies import end_ranks

            end_ranks()


def _find_unchecked_gradients(found: Located, claiming: Claiming | None, options: Options) -> list[Notice]:
    """Return a notice for each function in the same file that looks like the gradient and was not checked."""
    if claiming is not None or options.picked is not None or found.module is None:
        return []
    name = found.f.text.rpartition(":")[2].removesuffix("()")
    return [
        Notice(Kind.CLAIM, Severity.INFO, f"{other} is in this file and was not checked", hint=f"--grad {other}")
        for other in likely_gradients(found.module, name)
    ]


# From a target and the options to the request that a check answers.


def build_request(ask: TargetRequest, values: Mapping[str, Any] | None = None) -> Request:
    """Return the request to check one target, with the command that repeats it; `values` stand for those of the point.

    Raises  GradcliError if the target, its point or its claim cannot be used.
    """
    options = ask.options
    reference = None if options.reference is None else target_of_reference(options.reference, ask.target)
    found = locate(ask if reference is None or options.on_ranks is not None else replace(ask, target=reference))
    if values is not None:
        # sizes that have names follow the values, which may have other ones
        lengths = map_axis_lengths(found.points[0].values, values)
        sizes = {name: lengths.get(n, n) for name, n in found.sizes.items()}
        found = replace(found, points=(Point(dict(values)),), sizes=sizes)
    by = None
    if reference is not None and options.on_ranks is not None:
        found = replace_by_reference(found, locate(replace(ask, target=reference, options=options.in_one_process)))
    elif reference is not None:
        by, found = implementation_of(ask.target, found, options)
    claiming = None if ask.claim is None else Claiming(*ask.claim)
    return request_for(found, claiming, options, ask.command_to_repeat, by)


def map_axis_lengths(given: Mapping[str, Any], values: Mapping[str, Any]) -> dict[int, int]:
    """Return what each length of an axis of some values has become at others."""
    found: dict[int, int] = {}
    for name, x in given.items():
        if isinstance(x, np.ndarray) and name in values:
            found |= zip(x.shape, np.shape(values[name]), strict=False)
    return found


def target_of_reference(reference: str, target: str) -> str:
    """Return the reference as a target of its own; a name alone is one in the target's file."""
    alone = is_python(target) and all(part.isidentifier() for part in reference.removesuffix("()").split("."))
    return f"{target.strip().rpartition(':')[0]}:{reference}" if alone else reference
