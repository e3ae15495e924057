"""`gradcli grad`."""

from gradcli.cli.output import DATA, requested_output, write_report
from gradcli.cli.target_requests import study_target
from gradcli.cli.world import World
from gradcli.request.options import Options

FORMATS = ("text", "json", "ndjson", "csv")
EXAMPLES = """Examples:

    gradcli grad "sin(x*y)" x=0.5 y=1.2

    gradcli grad "sum(log(x))" --at "x=@data.npy" --json
"""


def grad(world: World, target: list[str], options: Options) -> int:
    """Print only the gradient, by the reverse mode, so that another program can read it.

    Digits that are lost to rounding are left out. A note on standard error says how many digits are right, or where f
    may have a kink. The exit status is 3 if f or its gradient is not finite, or if an entry has no right digit; such an
    entry is printed as nan.

    Formats: text, json, ndjson, csv.
    """
    from gradcli.study.gradient import gradient

    to = requested_output(FORMATS, options, world)
    report = study_target(lambda q, _: gradient(q), target, options, world, "differentiating")
    write_report(report, to, world)
    for note in () if to.quiet or to.form in DATA else report.notes:
        world.tell(f"note: {note}")
    return report.exit_status
