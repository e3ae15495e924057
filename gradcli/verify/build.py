"""From what was asked, on the command line or in Python, to a request."""

from dataclasses import dataclass

from gradcli.errors import BadOption
from gradcli.frameworks.adapt import PLAIN
from gradcli.frameworks.framework import Natively
from gradcli.modes.claim import Claimed
from gradcli.modes.claimed import ClaimedFunction
from gradcli.modes.registry import chosen, effort_of
from gradcli.modes.stepping import AS_WE_LIKE, Stepping
from gradcli.source.function import Notice
from gradcli.source.loading import pairs
from gradcli.source.names import nearest
from gradcli.verify.check import Request
from gradcli.verify.claims import Claiming, claimed, second_order, value_and_gradient
from gradcli.verify.compare import Tolerance
from gradcli.verify.native import own_gradient
from gradcli.verify.probe import Located
from gradcli.words import Kind, Severity


@dataclass(frozen=True, slots=True)
class Settings:
    """What holds for every target."""

    seed: int = 0
    modes: str | None = None
    rtol: float | None = None
    atol: float | None = None
    mode_timeout: float | None = None
    allow: frozenset[str] = frozenset()
    allow_inconclusive: bool = False
    require_claim: bool = False
    order: int = 1
    has_gradient: bool = False
    stepping: Stepping = AS_WE_LIKE
    mutate: bool = False
    natively: Natively = PLAIN


def request_for(
    found: Located, claiming: Claiming | None, settings: Settings, command: tuple[str, ...] = ()
) -> Request:
    """Return the request: the function whose Jacobian is checked, its points, and the claim.

    Raises  BadOption, BadClaim, BadTarget.
    """
    own = None
    if claiming is None and not settings.has_gradient:
        own = own_gradient(found, settings.seed, settings.order, settings.natively.expect)
        if settings.natively.expect and not (own and any(n.kind in settings.natively.expect for n in own[0].notices)):
            raise BadOption(
                "straight-through estimators are expected, and there is no staircase", do="leave out --expect"
            )
    notices = (*(own[0] if own is not None else found).notices, *_unchecked(found, claiming, settings))
    modes = chosen(settings.modes)
    if own is not None and settings.modes is None:
        modes = tuple(mode for mode in modes if mode != "symbolic")  # it would take longer than all else
    _known_inputs(found, settings.stepping)
    looked_at, claim = own[:2] if own is not None else _claimed(found, claiming, settings)
    not_claimed = _left_out(found, claiming, looked_at, claim, settings) if own is None else ()
    fixed = (
        None
        if settings.rtol is None and settings.atol is None
        else Tolerance(settings.rtol or 0.0, settings.atol or 0.0)
    )
    return Request(
        looked_at.f, looked_at.points, looked_at.wrt, modes, claim, settings.seed, fixed,
        settings.mode_timeout, effort_of(settings.modes), notices,
        settings.allow, settings.allow_inconclusive, command, _derivative(claiming, settings), settings.stepping, settings.mutate,
        None if own is None else own[2], settings.natively, not_claimed,
    )  # fmt: skip


def _left_out(
    found: Located, claiming: Claiming | None, located: Located, claim: Claimed | None, settings: Settings
) -> tuple[str, ...]:
    """Return the inputs that are differentiated by default and that the claim leaves out.

    Raises  BadOption where a claim is required for them: a claim of one array is for the first, and None declines.
    """
    if claim is None or not claim.names or (claiming is not None and claiming.kind in ("jvp", "hvp")):
        return ()
    if isinstance(claim, ClaimedFunction) and claim.for_first:
        return ()
    left = tuple(name for name in found.wrt if name not in located.wrt or name not in claim.names)
    if left and settings.require_claim and not (isinstance(claim, ClaimedFunction) and claim.declines):
        raise BadOption(
            f"--require-claim is given, and the claim leaves out {', '.join(left)}",
            do=f"claim it too, or choose the others: --wrt {','.join(n for n in found.wrt if n not in left)}",
        )
    return left


def _known_inputs(found: Located, stepping: Stepping) -> None:
    """Refuse bounds and scales of what is no input, and points beyond the bounds."""
    for option, names in (("--bounds", stepping.edges), ("--scale", stepping.scales)):
        for name in names:
            if name not in found.f.inputs:
                near = nearest(name, found.f.inputs)
                hint = f"did you mean '{near}'?" if near else f"inputs: {', '.join(found.f.inputs)}"
                raise BadOption(f"{option} names '{name}', which is no input", do=hint)
    for point in found.points:
        for name in stepping.edges:
            if not stepping.inside((name,), (point.values[name],)):
                low, high = stepping.of(name)
                raise BadOption(
                    f"{name} lies outside its bounds, {low:g} to {high:g}", do="move the point, or the bounds"
                )


def _derivative(claiming: Claiming | None, settings: Settings) -> str:
    kind = claiming.kind if claiming is not None else "hess" if settings.order == 2 else "grad"
    return {"hess": "Hessian", "jvp": "product J v", "vjp": "product w J", "hvp": "product H v"}.get(kind, "gradient")


def _claimed(found: Located, claiming: Claiming | None, settings: Settings) -> tuple[Located, Claimed | None]:
    if settings.has_gradient:
        if claiming is not None:
            raise BadOption("--value-and-grad is itself a claim", do="leave out the other one")
        return value_and_gradient(found)
    if claiming is None:
        if settings.require_claim:
            raise BadOption("--require-claim is given, and there is no claim", do='add --grad "x=..."')
        return (second_order(found) if settings.order == 2 else found), None
    if settings.order == 2 and claiming.kind not in ("hess", "hvp"):
        raise BadOption(f"--{claiming.kind} claims a first derivative", do="for second derivatives: --hess or --hvp")
    return claimed(found, claiming, settings.seed)


def _unchecked(found: Located, claiming: Claiming | None, settings: Settings) -> list[Notice]:
    """Say that the file of the function holds what looks like its gradient, where that is not checked."""
    if claiming is not None or settings.has_gradient or found.module is None:
        return []
    name = found.f.text.rpartition(":")[2].removesuffix("()")
    return [
        Notice(Kind.CLAIM, Severity.INFO, f"{other} is in this file and was not checked", hint=f"--grad {other}")
        for other in pairs(found.module, name)
    ]
