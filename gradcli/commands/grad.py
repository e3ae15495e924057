"""`gradcli grad`."""

import typer

from gradcli.commands import options
from gradcli.commands.output import emit, output
from gradcli.commands.question import Asked, answered
from gradcli.world import World

FORMATS = ("text", "json", "ndjson", "csv")
EXAMPLES = """Examples:

    gradcli grad "sin(x*y)" x=0.5 y=1.2

    gradcli grad "sum(log(x))" --at "x=@data.npy" --json
"""


def grad(
    context: typer.Context,
    target: options.Target,
    at: options.At = None,
    wrt: options.Wrt = None,
    seed: options.Seed = "0",
    shapes: options.Shapes = None,
    timeout: options.TimeLimit = None,
    threads: options.Threads = 1,
    format: options.Format = None,
    json: options.Json = False,
    out: options.Out = None,
    quiet: options.Quiet = False,
    color: options.Color = None,
    traceback: options.Traceback = False,
) -> int:
    """Print the gradient alone, by the reverse mode, to pipe. A gradient that is not finite is status 3.

    Formats: text, json, ndjson, csv.
    """
    from gradcli.study.gradient import gradient

    world: World = context.obj
    to = output(FORMATS, format, json, out, quiet, color, world)
    asked = Asked(target, at, wrt, seed, shapes)
    report = answered(gradient, asked, world, "differentiating", timeout, quiet)
    emit(report, to, world)
    return report.exit_status
