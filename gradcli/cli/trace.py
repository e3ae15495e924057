"""`gradcli trace`."""

from functools import partial

from gradcli.cli.output import emit, output
from gradcli.cli.target_requests import answered
from gradcli.cli.world import World
from gradcli.request.options import Options

FORMATS = ("text", "json", "ndjson", "markdown", "html", "csv", "mermaid", "svg")
EXAMPLES = """Examples:

    gradcli trace "v3 = x1 + x2; v3 * x1" x1=3 x2=4

    gradcli trace "sigmoid(w*x + b)" --at "w=2, x=1, b=-1" --out steps.html --out graph.svg
"""


def trace(world: World, target: list[str], options: Options) -> int:
    """Show the computation as a walkthrough: forward values, local partials, adjoints and how they were summed.

    A page (--out steps.html) draws it as a graph, with forward and backward steps.
    Formats: text, json, ndjson, markdown, html, csv, mermaid, svg.
    """
    from gradcli.study.walkthrough import walkthrough

    to = output(FORMATS, options, world)
    report = answered(partial(walkthrough, prove=to.pages), target, options, world, "tracing")
    emit(report, to, world)
    return report.exit_status
