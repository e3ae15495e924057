"""`gradcli compare-modes`."""

import typer

from gradcli.commands import options
from gradcli.commands.check import Settings, request
from gradcli.commands.output import emit, output
from gradcli.commands.request import asks, only, seconds_of, seed_of
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

    world: World = context.obj
    to = output(FORMATS, format, json, out, quiet, color, world)
    settings = Settings(
        seed_of(seed),
        tuple(shapes or ()),
        1,
        modes,
        (None, None),
        seconds_of(mode_timeout, "--mode-timeout"),
        frozenset(),
        False,
        False,
    )
    ask = only(asks(target, at, world, grad if grad is not None else jac, wrt))
    with world.working("comparing modes", quiet):
        report = study(request(ask, settings))
    emit(report, to, world)
    return report.exit_status
