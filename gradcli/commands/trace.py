"""`gradcli trace`."""

import typer

from gradcli.commands import options
from gradcli.commands.output import emit, output
from gradcli.commands.question import Asked, answered
from gradcli.world import World

FORMATS = ("text", "json", "ndjson", "markdown", "csv", "dot", "mermaid")
EXAMPLES = """Examples:

    gradcli trace "v3 = x1 + x2; v3 * x1" x1=3 x2=4

    gradcli trace "sigmoid(w*x + b)" --at "w=2, x=1, b=-1" --format dot
"""


def trace(
    context: typer.Context,
    target: options.Target,
    at: options.At = None,
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
    """Show the computation as a walkthrough: forward values, local partials, adjoints and how they were summed.

    Formats: text, json, ndjson, markdown, csv, dot, mermaid.
    """
    from gradcli.study.walkthrough import walkthrough

    world: World = context.obj
    to = output(FORMATS, format, json, out, quiet, color, world)
    asked = Asked(target, at, None, seed, shapes)
    report = answered(walkthrough, asked, world, "tracing", timeout, quiet)
    emit(report, to, world)
    return report.exit_status
