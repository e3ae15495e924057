"""`gradcli sweep`."""

from dataclasses import replace

from gradcli.cli.output import requested_output, write_report
from gradcli.cli.target_requests import require_one_target, target_requests
from gradcli.cli.world import World
from gradcli.request.options import Options

FORMATS = ("text", "json", "ndjson", "markdown", "html", "csv")
EXAMPLES = """Examples:

    gradcli sweep "sin(x)" x=1

    gradcli sweep "exp(x)*sin(x)" x=1 --dtype float16,float32,float64 --bits 113

    gradcli sweep "sum(tanh(W@x)**2)" --shapes "W: 3 4; x: 4" --each --plot sweep.pdf --size 3.5x2.5

    gradcli sweep losses.py:focal --grad focal_grad --at "z=randn(8), y=ones(8)"
"""


def sweep(world: World, target: list[str], options: Options) -> int:
    """Show error against step size: each difference scheme's order, best step and digits, and what theory predicts.

    Steps go from 1 to 1e-20 of an input's size. Errors are measured against the certified derivative. A step moves all
    inputs at once, or with --each one entry at a time. The best error is the least on the curve, where each point
    counts as the median of three neighbouring ones. A claimed gradient (--grad) gets the Taylor remainder test.
    Formats: text, json, ndjson, markdown, html, csv. A file may also be .pdf, .svg or .png.
    """
    from gradcli.checks.build import build_request
    from gradcli.study.sweep import SweepOptions
    from gradcli.study.sweep import sweep as study

    to = requested_output(FORMATS, options, world, pictures=True)
    ask = require_one_target(target_requests(target, replace(options, points=1), world))
    formats = options.formats or (() if options.bits else ("float64",))
    wanted = SweepOptions(options.schemes, formats, options.bits, options.each, options.samples)
    heard = None if options.quiet else world.tell
    with world.users_code(ask.target, seconds=options.timeout), world.working("sweeping", options.quiet):
        report = study(build_request(ask), wanted, heard)
    write_report(report, to, world)
    return report.exit_status
