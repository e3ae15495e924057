"""`gradcli ops`."""

from typing import Annotated

import typer

from gradcli.cli.output import requested_output, write_report
from gradcli.cli.world import World
from gradcli.request.options import Options

FORMATS = ("text", "json", "ndjson", "markdown", "csv")
EXAMPLES = """Examples:

    gradcli ops tanh

    gradcli ops

    gradcli ops rules.py:softplus
"""


NAME = Annotated[
    str | None,
    typer.Argument(metavar="[NAME]", help="One primitive, or file.py:name for one of your own.", show_default=False),
]


def ops(world: World, name: str | None, options: Options) -> int:
    """List the primitives: domain, kinks, derivative, and the worst error of the derivative in ulps, measured now.

    Formats: text, json, ndjson, markdown, csv.
    """
    from gradcli.study.accuracy import known_operations

    to = requested_output(FORMATS, options, world)
    if options.check:
        world.tell("note: --check does nothing: every check verifies the rules that its function uses")
    seconds = options.timeout
    with world.users_code(name or "the primitives", seconds=seconds), world.working("measuring", options.quiet):
        report = known_operations(name)
    write_report(report, to, world)
    return report.exit_status
