"""`gradcli check`."""

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from gradcli.commands import options
from gradcli.commands.ended import TimeIsUp, unfinished_check
from gradcli.commands.output import DATA, Output, emit, for_several, output, print_error
from gradcli.commands.points import keep_point, keepable
from gradcli.commands.request import (
    Ask,
    asks,
    claiming_of,
    kinds_of,
    limit_of,
    natively_of,
    seed_of,
    several,
    stepping_of,
    with_values,
)
from gradcli.errors import GradcliError
from gradcli.source.targets import is_python
from gradcli.words import Exit, Kind, worst
from gradcli.world import World

if TYPE_CHECKING:
    from gradcli.report.check import CheckReport
    from gradcli.verify.build import Settings
    from gradcli.verify.check import Request

FORMATS = ("text", "json", "ndjson", "markdown", "csv", "junit", "github")
EXAMPLES = """Examples:

    gradcli check "sin(x*y) + exp(-x**2)" x=0.5 y=1.2

    gradcli check "u = W*x; v = u + b; v**2" --at "W=2, x=3, b=1" --json

    gradcli check "-sum(y*log(softmax(z)))" --grad "z=softmax(z)-y, y=-log(softmax(z))" --at "z=[1,2,3], y=[0,0,1]"

    gradcli check losses.py:focal --grad focal_grad --at "z=randn(8), y=ones(8)"

    gradcli check model.py:loss --at model.py:point --wrt "params.*" --timeout 90s

    gradcli check "sum(tanh(W@x)**2)" --shapes "W: 3 4; x: 4" --out report.md
"""


def check(
    context: typer.Context,
    targets: options.Targets,
    at: options.At = None,
    wrt: options.Wrt = None, seed: options.Seed = "0", shapes: options.Shapes = None, points: options.Points = None,
    grad: options.Grad = None, jac: options.Jac = None, hess: options.Hess = None,
    jvp: options.Jvp = None, vjp: options.Vjp = None, hvp: options.Hvp = None,
    value_and_grad: options.ValueAndGrad = False,
    require_claim: options.RequireClaim = False,
    order: options.Order = 1,
    allow_python: options.AllowPython = False,
    modes: options.Modes = None,
    rtol: options.Rtol = None, atol: options.Atol = None,
    h: options.Step = None, bounds: options.Bounds = None, scale: options.Scale = None, budget: options.Budget = None,
    mutate: options.Mutate = False,
    save_point: options.SavePoint = None,
    timeout: options.Timeout = None, mode_timeout: options.ModeTimeout = None, threads: options.Threads = 1,
    framework: options.Framework = None, device: options.Device = None, dtype: options.Format_ = None,
    autocast: options.Autocast = None,
    compile: options.Compile = False, localise: options.Localise = False, expect: options.Expect = None,
    allow: options.Allow = None, allow_inconclusive: options.AllowInconclusive = False,
    format: options.Format = None,
    json: options.Json = False, out: options.Out = None, quiet: options.Quiet = False,
    color: options.Color = None, traceback: options.Traceback = False,
) -> int:  # fmt: skip
    """Verify the gradient of an expression or a Python function, or a gradient you claim for it (--grad).

    Python: file.py:name or package.module:name, plain numpy code as it is; it is run. Without
    values, an expression is checked at three points drawn where it is smooth.
    Formats: text, json, ndjson, markdown, csv, junit, github.
    """
    from gradcli.verify.build import Settings

    world: World = context.obj
    to = output(FORMATS, format, json, out, quiet, color, world)
    settings = Settings(
        seed_of(seed), modes, rtol, atol, limit_of(mode_timeout, "--mode-timeout"), kinds_of(allow), allow_inconclusive,
        require_claim, order, value_and_grad, stepping_of(h, bounds, scale, budget), mutate,
        natively_of(framework, dtype, device, compile, localise, expect, autocast),
    )  # fmt: skip
    keep = None if save_point is None else keepable(save_point)
    deadline = limit_of(timeout, "--timeout")
    claim = claiming_of(grad=grad, jac=jac, hess=hess, jvp=jvp, vjp=vjp, hvp=hvp)
    found = asks(targets, at, world, claim, wrt, allow_python)
    wanted = Wanted(settings, tuple(shapes or ()), points or 3, deadline, keep, threads=threads)
    return _all(found, wanted, to, world, several(targets))


def _all(found: Iterator[Ask], wanted: "Wanted", to: Output, world: World, many: bool) -> int:
    """Check every target that no earlier process did, and return the worst status."""
    to = for_several(to) if many else to
    statuses = [Exit(status) for status in world.link.earlier.statuses]
    first = not world.link.earlier.written
    for ask in found:
        if world.link.is_done(ask.word, ask.line or 0):
            continue
        if {Exit.WRONG, Exit.INCONCLUSIVE} & set(statuses):
            wanted = dataclasses.replace(wanted, keep=None)  # the first point that does not pass was kept
        status, written = _one(ask, wanted, to, world, many, first)
        world.link.result(ask.word, ask.line or 0, status, written)
        statuses.append(status)
        first = first and not written
    return worst(statuses)


@dataclasses.dataclass(frozen=True, slots=True)
class Wanted:
    """The options that hold for every target."""

    settings: "Settings"
    shapes: tuple[str, ...] = ()
    points: int = 1
    timeout: float | None = None
    keep: Path | None = None
    sizes: Mapping[str, int] = dataclasses.field(default_factory=dict)
    threads: int = 1


def _one(ask: Ask, wanted: Wanted, to: Output, world: World, many: bool, first: bool) -> tuple[Exit, bool]:
    """Check one target; return its status, and whether it has a report.

    Where there are several, an error is that one's result and the next follows.
    """
    from gradcli.verify.check import check as verify

    try:
        try:
            with (
                world.users_code(ask.target, ask.word, ask.line or 0, ask.text, wanted.timeout),
                world.working(f"checking {ask.target[:40]}", to.quiet),
            ):
                progress = None if wanted.timeout is None else world.link.point
                report = verify(request(ask, wanted), progress)
        except TimeIsUp as over:
            report = _unfinished(over, ask, wanted)
    except GradcliError as error:
        if not many:
            raise
        print_error(error, to.form in DATA, world, ask.line, compact=True)
        return Exit.UNUSABLE, False
    if ask.line is not None:
        report = dataclasses.replace(report, line=ask.line)
    emit(report, to, world, first)
    status = Exit(report.exit_status)
    if wanted.keep is None or not (first or status):
        return status, True
    try:
        keep_point(report, wanted.keep)
    except GradcliError as error:
        print_error(error, False, world, ask.line)  # the report, which may be data, was written
        status = worst((status, Exit.UNUSABLE))
    return status, True


def _unfinished(over: TimeIsUp, ask: Ask, wanted: Wanted) -> "CheckReport":
    from gradcli.report.common import Target

    target = Target("python" if is_python(ask.target) else "expression", ask.target)
    claim = None if ask.claim is None else ask.claim[1]
    allowed = Kind.TIMEOUT in wanted.settings.allow
    return unfinished_check(over, target, claim, _replay(ask, wanted, ask.at), wanted.settings.seed, allowed)


def request(ask: Ask, wanted: Wanted) -> "Request":
    """Return the request for one target."""
    from gradcli.source.points import shapes as read_shapes
    from gradcli.source.sizes import numbers
    from gradcli.verify.build import request_for
    from gradcli.verify.claims import Claiming
    from gradcli.verify.probe import locate

    settings = wanted.settings
    at = with_values(ask)
    sizes = numbers(wanted.shapes, at, settings.seed, wanted.sizes)
    found = locate(
        ask.target, at, seed=settings.seed, shapes=read_shapes(wanted.shapes, sizes), count=wanted.points, wrt=ask.wrt,
        has_gradient=settings.has_gradient, sizes=sizes, stepping=settings.stepping, natively=settings.natively,
    )  # fmt: skip
    claiming = None if ask.claim is None else Claiming(*ask.claim)
    return request_for(found, claiming, settings, _replay(ask, wanted, at))


def _short(x: float) -> str:
    return repr(float(x)).removesuffix(".0")


def _replay(ask: Ask, wanted: Wanted, at: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command that repeats this check exactly."""
    settings = wanted.settings
    words = ["gradcli", "check", ask.target]
    words += [word for text in at for word in ("--at", text)]
    words += [word for text in wanted.shapes for word in ("--shapes", text)]
    words += [f"--{ask.claim[0]}", ask.claim[1]] if ask.claim is not None else []
    words += ["--wrt", ask.wrt] if ask.wrt is not None else []
    words += ["--modes", settings.modes] if settings.modes is not None else []
    stepping = settings.stepping
    numbers = (("--rtol", settings.rtol), ("--atol", settings.atol), ("--h", stepping.h), ("--budget", stepping.budget))
    for option, x in numbers:
        words += [option, repr(x)] if x is not None else []
    words += [
        w for name, (low, high) in stepping.edges.items() for w in ("--bounds", f"{name}={_short(low)}:{_short(high)}")
    ]
    words += [w for name, size in stepping.scales.items() for w in ("--scale", f"{name}={size!r}")]
    words += ["--mutate"] if settings.mutate else []
    words += ["--allow", ",".join(sorted(settings.allow))] if settings.allow else []
    words += ["--allow-inconclusive"] if settings.allow_inconclusive else []
    words += ["--require-claim"] if settings.require_claim else []
    words += ["--timeout", f"{wanted.timeout:g}s"] if wanted.timeout is not None else []
    words += ["--mode-timeout", f"{settings.mode_timeout:g}s"] if settings.mode_timeout is not None else []
    words += ["--threads", str(wanted.threads)] if wanted.threads != 1 else []
    words += ["--value-and-grad"] if settings.has_gradient else []
    words += ["--order", str(settings.order)] if settings.order != 1 else []
    words += ["--points", str(wanted.points)] if wanted.points != 3 else []
    native = settings.natively
    named = (
        ("--framework", native.framework), ("--device", native.device), ("--dtype", native.dtype),
        ("--autocast", native.autocast),
    )  # fmt: skip
    words += [word for option, text in named if text is not None for word in (option, text)]
    words += ["--compile"] if native.compiles else []
    words += ["--localise"] if native.localises else []
    words += ["--expect", ",".join(sorted(native.expect))] if native.expect else []
    return (*words, "--seed", str(settings.seed))
