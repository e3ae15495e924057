"""`gradcli ops`."""

from typing import Annotated

import typer

from gradcli.commands import options
from gradcli.commands.output import emit, output
from gradcli.commands.request import limit_of
from gradcli.world import World

FORMATS = ("text", "json", "ndjson", "markdown", "csv")
EXAMPLES = """Examples:

    gradcli ops tanh

    gradcli ops --check

    gradcli ops rules.py:softplus --check
"""


def ops(
    context: typer.Context,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]", help="One primitive, or file.py:name for one of your own.", show_default=False
        ),
    ] = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="Verify each primitive in isolation: a failure is status 1, one that cannot be verified 3."
        ),
    ] = False,
    timeout: options.TimeLimit = None,
    threads: options.Threads = 1,
    format: options.Format = None,
    json: options.Json = False,
    out: options.Out = None,
    quiet: options.Quiet = False,
    color: options.Color = None,
    traceback: options.Traceback = False,
) -> int:
    """List the primitives: domain, kinks, derivative, and the worst error of the derivative in ulps, measured now.

    Formats: text, json, ndjson, markdown, csv.
    """
    from gradcli.study.listing import known_operations

    world: World = context.obj
    to = output(FORMATS, format, json, out, quiet, color, world)
    deadline = limit_of(timeout, "--timeout")
    with world.users_code(name or "the primitives", seconds=deadline), world.working("measuring", quiet):
        report = known_operations(name, check)
    emit(report, to, world)
    return report.exit_status
