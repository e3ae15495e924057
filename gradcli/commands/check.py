"""`gradcli check`."""

import dataclasses
from typing import TYPE_CHECKING

import typer

from gradcli.commands import options
from gradcli.commands.output import DATA, Output, emit, for_several, output, print_error
from gradcli.commands.request import Ask, asks, kinds_of, seconds_of, seed_of, several, with_values
from gradcli.errors import BadOption, GradcliError
from gradcli.exits import Exit, worst
from gradcli.world import World

if TYPE_CHECKING:
    from gradcli.verify.check import Request

FORMATS = ("text", "json", "ndjson", "markdown", "csv", "junit", "github")
EXAMPLES = """Examples:

    gradcli check "sin(x*y) + exp(-x**2)" x=0.5 y=1.2

    gradcli check "u = W*x; v = u + b; v**2" --at "W=2, x=3, b=1" --json

    gradcli check "-sum(y*log(softmax(z)))" --grad "z=softmax(z)-y, y=-log(softmax(z))" --at "z=[1,2,3], y=[0,0,1]"

    gradcli check "sum(tanh(W@x)**2)" --shapes "W: 3 4; x: 4" --out report.md
"""


def check(
    context: typer.Context,
    targets: options.Targets,
    at: options.At = None,
    wrt: options.Wrt = None,
    seed: options.Seed = "0",
    shapes: options.Shapes = None,
    points: options.Points = None,
    grad: options.Grad = None,
    jac: options.Jac = None,
    require_claim: options.RequireClaim = False,
    modes: options.Modes = None,
    rtol: options.Rtol = None,
    atol: options.Atol = None,
    mode_timeout: options.ModeTimeout = "10s",
    allow: options.Allow = None,
    allow_inconclusive: options.AllowInconclusive = False,
    format: options.Format = None,
    json: options.Json = False,
    out: options.Out = None,
    quiet: options.Quiet = False,
    color: options.Color = None,
    traceback: options.Traceback = False,
) -> int:
    """Verify the gradient of an expression, or a gradient you claim for it (--grad).

    Without values, an expression is checked at three points drawn where it is smooth.
    Formats: text, json, ndjson, markdown, csv, junit, github.
    """
    world: World = context.obj
    to = output(FORMATS, format, json, out, quiet, color, world)
    claim = grad if grad is not None else jac
    settings = Settings(
        seed_of(seed), tuple(shapes or ()), points or 3, modes, (rtol, atol), seconds_of(mode_timeout, "--mode-timeout"),
        kinds_of(allow), allow_inconclusive, require_claim,
    )  # fmt: skip
    many = several(targets)
    if many:
        to = for_several(to)
    found = enumerate(asks(targets, at, world, claim, wrt))
    return worst(_one(ask, settings, to, world, many, first=number == 0) for number, ask in found)


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    """The options that hold for every target."""

    seed: int
    shapes: tuple[str, ...]
    points: int
    modes: str | None
    tolerances: tuple[float | None, float | None]
    mode_timeout: float
    allow: frozenset[str]
    allow_inconclusive: bool
    require_claim: bool


def _one(ask: Ask, settings: Settings, to: Output, world: World, many: bool, first: bool) -> Exit:
    """Check one target; where there are several, an error is that one's result and the next follows."""
    from gradcli.verify.check import check as verify

    try:
        with world.working(f"checking {ask.target[:40]}", to.quiet):
            report = verify(request(ask, settings))
    except GradcliError as error:
        if not many:
            raise
        print_error(error, to.form in DATA, world, ask.line, compact=True)
        return Exit.UNUSABLE
    if ask.line is not None:
        report = dataclasses.replace(report, line=ask.line)
    emit(report, to, world, first)
    return Exit(report.exit_status)


def request(ask: Ask, settings: Settings) -> "Request":
    """Return the request for one target."""
    from gradcli.modes.claim import ClaimedExpressions
    from gradcli.modes.registry import chosen
    from gradcli.source.points import shapes as read_shapes
    from gradcli.verify.check import Request
    from gradcli.verify.compare import Tolerance
    from gradcli.verify.probe import locate

    if settings.require_claim and ask.grad is None:
        raise BadOption("--require-claim is given, and there is no claim", do='add --grad "x=..."')
    at = with_values(ask)
    shapes = read_shapes(settings.shapes)
    f, points, wrt = locate(ask.target, at, seed=settings.seed, shapes=shapes, count=settings.points, wrt=ask.wrt)
    given = frozenset(f.inputs)
    rtol, atol = settings.tolerances
    fixed = None if rtol is None and atol is None else Tolerance(rtol or 0.0, atol or 0.0)
    return Request(
        f, points, wrt, chosen(settings.modes), ClaimedExpressions(ask.grad, wrt, given) if ask.grad is not None else None,
        settings.seed, fixed, settings.mode_timeout, settings.allow, settings.allow_inconclusive, _replay(ask, settings, at),
    )  # fmt: skip


def _replay(ask: Ask, settings: Settings, at: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command that repeats this check exactly."""
    words = ["gradcli", "check", ask.target]
    words += [word for text in at for word in ("--at", text)]
    words += [word for text in settings.shapes for word in ("--shapes", text)]
    words += ["--grad", ask.grad] if ask.grad is not None else []
    words += ["--wrt", ask.wrt] if ask.wrt is not None else []
    words += ["--modes", settings.modes] if settings.modes is not None else []
    for option, x in zip(("--rtol", "--atol"), settings.tolerances, strict=True):
        words += [option, repr(x)] if x is not None else []
    words += ["--points", str(settings.points)] if settings.points != 3 else []
    return (*words, "--seed", str(settings.seed))
