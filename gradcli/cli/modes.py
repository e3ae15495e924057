"""`gradcli modes`."""

from gradcli.cli.output import requested_output, write_report
from gradcli.cli.world import World
from gradcli.request.options import Options

FORMATS = ("text", "json", "ndjson", "markdown", "csv")


def modes(world: World, options: Options) -> int:
    """List the modes and devices available here, their versions, and how to install the others.

    Formats: text, json, ndjson, markdown, csv.
    """
    from gradcli.study.accuracy import available_modes

    write_report(available_modes(), requested_output(FORMATS, options, world), world)
    return 0
