"""`gradcli compare-modes`."""

import typer

from gradcli.commands import options
from gradcli.commands.check import Wanted, request
from gradcli.commands.output import emit, output
from gradcli.commands.request import asks, claiming_of, only, seconds_of, seed_of
from gradcli.world import World

FORMATS = ("text", "json", "ndjson", "markdown", "csv")
EXAMPLES = """Examples:

    gradcli compare-modes "sin(x*y) + exp(-x**2)" x=0.5 y=1.2

    gradcli compare-modes "sum(tanh(W@x)**2)" --shapes "W: 3 4; x: 4" --wrt x --json
"""


def compare_modes(
    context: typer.Context,
    target: options.Target,
    at: options.At = None,
    wrt: options.Wrt = None,
    seed: options.Seed = "0",
    shapes: options.Shapes = None,
    grad: options.Grad = None,
    jac: options.Jac = None,
    hess: options.Hess = None,
    jvp: options.Jvp = None,
    vjp: options.Vjp = None,
    hvp: options.Hvp = None,
    value_and_grad: options.ValueAndGrad = False,
    order: options.Order = 1,
    modes: options.Modes = None,
    mode_timeout: options.ModeTimeout = "10s",
    format: options.Format = None,
    json: options.Json = False,
    out: options.Out = None,
    quiet: options.Quiet = False,
    color: options.Color = None,
    traceback: options.Traceback = False,
) -> int:
    """Set all modes side by side: values, right digits, error bounds, evaluations of f, operations and time.

    Below them, error against step size: what each difference scheme reaches, and what theory predicts.
    Formats: text, json, ndjson, markdown, csv.
    """
    from gradcli.study.compare import compare_modes as study
    from gradcli.verify.build import Settings

    world: World = context.obj
    to = output(FORMATS, format, json, out, quiet, color, world)
    seconds = seconds_of(mode_timeout, "--mode-timeout")
    settings = Settings(seed_of(seed), modes, mode_timeout=seconds, order=order, has_gradient=value_and_grad)
    claim = claiming_of(grad=grad, jac=jac, hess=hess, jvp=jvp, vjp=vjp, hvp=hvp)
    ask = only(asks(target, at, world, claim, wrt))
    with world.working("comparing modes", quiet), world.users_code():
        report = study(request(ask, Wanted(settings, tuple(shapes or ()))))
    emit(report, to, world)
    return report.exit_status
