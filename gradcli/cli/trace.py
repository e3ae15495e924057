"""`gradcli trace`."""

from typing import TYPE_CHECKING

from gradcli.cli.output import requested_output, write_report
from gradcli.cli.target_requests import study_target
from gradcli.cli.world import World
from gradcli.request.options import Options

if TYPE_CHECKING:
    from gradcli.modes.mode import Question
    from gradcli.report.trace import TraceReport
    from gradcli.targets.layers import Layer

FORMATS = ("text", "json", "ndjson", "markdown", "html", "csv", "mermaid", "svg")
EXAMPLES = """Examples:

    gradcli trace "v3 = x1 + x2; v3 * x1" x1=3 x2=4

    gradcli trace "sigmoid(w*x + b)" --at "w=2, x=1, b=-1" --out steps.html --out graph.svg

    gradcli trace engine.py:loss --engine Value --at "x=2, w=3"
"""


def trace(world: World, target: list[str], options: Options) -> int:
    """Show the computation as a walkthrough: forward values, local partials, adjoints and how they were summed.

    With --engine, the gradients of your own engine are shown beside the right ones.
    A page (--out steps.html) draws the computation as a graph, with forward and backward steps.
    Formats: text, json, ndjson, markdown, html, csv, mermaid, svg.
    """
    to = requested_output(FORMATS, options, world)

    def study(q: "Question", layer: "Layer | None") -> "TraceReport":
        if layer is not None and layer.engine is not None:
            from gradcli.study.point_walkthrough import engine_walkthrough

            return engine_walkthrough(q, layer.engine, prove=to.pages)
        from gradcli.study.walkthrough import walkthrough

        return walkthrough(q, prove=to.pages)

    report = study_target(study, target, options, world, "tracing")
    write_report(report, to, world)
    return report.exit_status
