"""`gradcli modes`."""

import typer

from gradcli.commands import options
from gradcli.commands.output import emit, output
from gradcli.world import World

FORMATS = ("text", "json", "ndjson", "markdown", "csv")


def modes(
    context: typer.Context,
    format: options.Format = None,
    json: options.Json = False,
    out: options.Out = None,
    quiet: options.Quiet = False,
    color: options.Color = None,
    traceback: options.Traceback = False,
) -> int:
    """List the modes and devices available here, their versions, and how to install the others.

    Formats: text, json, ndjson, markdown, csv.
    """
    from gradcli.study.listing import available_modes

    world: World = context.obj
    emit(available_modes(), output(FORMATS, format, json, out, quiet, color, world), world)
    return 0
