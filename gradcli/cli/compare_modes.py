"""`gradcli compare-modes`."""

from dataclasses import replace

from gradcli.cli.output import requested_output, write_report
from gradcli.cli.target_requests import require_one_target, target_requests
from gradcli.cli.world import World
from gradcli.errors import BadOption
from gradcli.request.option_values import split_words
from gradcli.request.options import Options
from gradcli.request.target_text import normalise_name

FORMATS = ("text", "json", "ndjson", "markdown", "html", "csv")
EXAMPLES = """Examples:

    gradcli compare-modes "sin(x*y) + exp(-x**2)" x=0.5 y=1.2

    gradcli compare-modes "sum(tanh(W@x)**2)" --shapes "W: 3 4; x: 4" --wrt x --cost

    gradcli compare-modes nets.py:deep --at "x=randn(1000)" --modes reverse,forward --steps

    gradcli compare-modes losses.py:focal --at "z=randn(8), y=ones(8)" --dtype float16,bfloat16 --plot modes.svg
"""


def compare_modes(world: World, target: list[str], options: Options) -> int:
    """Set all modes side by side: values, right digits, error bounds, evaluations of f, operations, time and memory.

    --steps also shows a summary of error against step size; gradcli sweep shows the curves. --dtype shows what low
    precision does to the gradient. For the cost of a gradient at any size, use gradcli cost. Formats: text, json,
    ndjson, markdown, html, csv. A file may also be .pdf, .svg or .png.
    """
    from gradcli.checks.build import build_request
    from gradcli.study.mode_comparison import Studies
    from gradcli.study.mode_comparison import compare_modes as study

    to = requested_output(FORMATS, options, world, pictures=True)
    sizes = {normalise_name(name): values[0] for name, values in (options.first_sizes or {}).items()}
    if sizes:
        says = "--sizes gives compare-modes its first sizes alone: gradcli cost --sizes counts how costs grow"
        world.tell(f"note: {says}")
    ask = require_one_target(target_requests(target, replace(options, points=1), world))
    if options.loss_scale is not None and not options.formats:
        raise BadOption("--loss-scale is for low precision", do="name one: --dtype float16")
    studies = Studies(
        options.cost, parse_columns(options.columns), options.jacobian, options.formats, options.loss_scale, options.accumulate,
        options.steps,
    )  # fmt: skip

    with world.users_code(ask.target, seconds=options.timeout), world.working("comparing modes", options.quiet):
        report = study(build_request(replace(ask, sizes=sizes)), studies)
    write_report(report, to, world)
    return report.exit_status


def parse_columns(text: str | None) -> tuple[str, ...]:
    """Return the columns that `--columns` names. Raises BadOption."""
    from gradcli.report.compare import COLUMNS

    found = split_words(text)
    if text is not None and not found:
        raise BadOption("--columns names no column", do=f"columns: {', '.join(COLUMNS)}")
    for word in found:
        if word not in COLUMNS:
            raise BadOption(f"there is no column '{word}'", do=f"columns: {', '.join(COLUMNS)}")
    return found
