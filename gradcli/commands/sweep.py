"""`gradcli sweep`."""

import typer

from gradcli.commands import options
from gradcli.commands.check import Wanted, request
from gradcli.commands.output import emit, output
from gradcli.commands.request import asks, claiming_of, formats_of, limit_of, only, seed_of, stepping_of, words_of
from gradcli.errors import BadOption
from gradcli.world import World

FORMATS = ("text", "json", "ndjson", "markdown", "csv")
EXAMPLES = """Examples:

    gradcli sweep "sin(x)" x=1

    gradcli sweep "exp(x)*sin(x)" x=1 --dtype float16,float32,float64 --bits 113

    gradcli sweep "sum(tanh(W@x)**2)" --shapes "W: 3 4; x: 4" --each --plot sweep.svg

    gradcli sweep losses.py:focal --grad focal_grad --at "z=randn(8), y=ones(8)"
"""


def sweep(
    context: typer.Context,
    target: options.Target,
    at: options.At = None, wrt: options.Wrt = None, seed: options.Seed = "0", shapes: options.Shapes = None,
    grad: options.Grad = None, jac: options.Jac = None, hess: options.Hess = None,
    jvp: options.Jvp = None, vjp: options.Vjp = None, hvp: options.Hvp = None,
    value_and_grad: options.ValueAndGrad = False, require_claim: options.RequireClaim = False,
    order: options.Order = 1,
    schemes: options.Schemes = None, dtype: options.Dtype = None, bits: options.Bits = None, each: options.Each = False,
    h: options.Step = None, bounds: options.Bounds = None, scale: options.Scale = None, budget: options.Budget = None,
    timeout: options.TimeLimit = None, mode_timeout: options.ModeTimeout = None, threads: options.Threads = 1,
    format: options.Format = None, json: options.Json = False, out: options.Out = None, plot: options.Plot = None,
    quiet: options.Quiet = False, color: options.Color = None, traceback: options.Traceback = False,
) -> int:  # fmt: skip
    """Show error against step size: each difference scheme's order, best step and digits, and what theory predicts.

    Steps go from 1 to 1e-20 of an input's size; errors are those against the certified derivative. With several
    inputs the sweep is along all of them at once (--each: along every entry); the best error is the least on the
    curve, by the median of three steps. A claimed gradient (--grad) gets the Taylor remainder test.
    Formats: text, json, ndjson, markdown, csv; files also .svg and .png.
    """
    from gradcli.study.sweep import Wanted as Sweeping
    from gradcli.study.sweep import sweep as study
    from gradcli.verify.build import Settings

    world: World = context.obj
    to = output(FORMATS, format, json, out, quiet, color, world, pictures=True, plot=plot)
    seconds = limit_of(mode_timeout, "--mode-timeout")
    deadline = limit_of(timeout, "--timeout")
    stepping = stepping_of(h, bounds, scale, budget)
    settings = Settings(
        seed_of(seed), None, mode_timeout=seconds, require_claim=require_claim, order=order, has_gradient=value_and_grad,
        stepping=stepping,
    )  # fmt: skip
    ask = only(asks(target, at, world, claiming_of(grad=grad, jac=jac, hess=hess, jvp=jvp, vjp=vjp, hvp=hvp), wrt))
    precisions = _whole(bits)
    wanted = Sweeping(schemes, formats_of(dtype) or (() if precisions else ("float64",)), precisions, each)
    heard = None if quiet else world.tell
    with world.users_code(ask.target, seconds=deadline), world.working("sweeping", quiet):
        report = study(request(ask, Wanted(settings, tuple(shapes or ()), threads=threads)), wanted, heard)
    emit(report, to, world)
    return report.exit_status


def _whole(text: str | None) -> tuple[int, ...]:
    words = words_of(text)
    if (text is not None and not words) or not all(word.isdecimal() and len(word) < 7 for word in words):
        raise BadOption(f"--bits takes whole numbers, not '{text}'", do="--bits 113,400")
    return tuple(map(int, words))
