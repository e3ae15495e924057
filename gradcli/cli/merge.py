"""`gradcli merge`."""

from pathlib import Path

from gradcli.cli.output import requested_output, write_report
from gradcli.cli.world import World
from gradcli.errors import BadOption
from gradcli.request.options import Options

FORMATS = ("text", "brief", "json", "ndjson", "markdown", "html", "csv", "junit", "github", "sarif")
EXAMPLES = """Examples:

    gradcli check --shard 1/2 --out first.json

    gradcli check --shard 2/2 --out second.json

    gradcli merge first.json second.json --out report.xml
"""


def merge(world: World, files: list[str], options: Options) -> int:
    """Merge the documents of the shards of a suite into one report of all checks; the exit status is that of the worst.

    Formats: text, brief, json, ndjson, markdown, csv, junit, github, sarif.
    """
    from gradcli.project.suite.shards import merge_shards, read_shard_report

    to = requested_output(FORMATS, options, world)
    if not files:
        raise BadOption("there is no document", do="gradcli merge first.json second.json")
    for _, path in to.files:
        if path.resolve() in [Path(name).resolve() for name in files]:
            raise BadOption(f"--out {path.name} would replace a document that is merged", do="name another file")
    report = merge_shards([(Path(name), read_shard_report(Path(name))) for name in files])
    write_report(report, to, world)
    return report.exit_status
