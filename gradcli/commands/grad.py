"""`gradcli grad`."""

from gradcli.commands.output import emit, output
from gradcli.commands.question import answered
from gradcli.options import Options
from gradcli.world import World

FORMATS = ("text", "json", "ndjson", "csv")
EXAMPLES = """Examples:

    gradcli grad "sin(x*y)" x=0.5 y=1.2

    gradcli grad "sum(log(x))" --at "x=@data.npy" --json
"""


def grad(world: World, target: list[str], options: Options) -> int:
    """Print the gradient alone, by the reverse mode, to pipe. A gradient that is not finite is status 3.

    Formats: text, json, ndjson, csv.
    """
    from gradcli.study.gradient import gradient

    to = output(FORMATS, options, world)
    report = answered(gradient, target, options, world, "differentiating")
    emit(report, to, world)
    return report.exit_status
