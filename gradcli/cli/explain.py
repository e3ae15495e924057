"""`gradcli explain`."""

from typing import Annotated

import typer

from gradcli.cli.output import requested_output, write_report
from gradcli.cli.world import World
from gradcli.errors import BadOption
from gradcli.request.options import Options
from gradcli.words import slug

FORMATS = ("text", "brief", "json", "ndjson", "markdown", "csv")
EXAMPLES = """Examples:

    gradcli explain

    gradcli explain kink

    gradcli explain kink --json
"""
KIND = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[KIND]", help="A kind of finding or diagnosis; all, listed, without it.", show_default=False
    ),
]


def explain(world: World, words: list[str] | None, options: Options) -> int:
    """Say what a kind of finding or diagnosis means, with an example, and what to do about it; or list all kinds.

    Formats: text, brief, json, ndjson, markdown, csv.
    """
    from gradcli.report.explain import ExplainReport, read_explanations

    kind = slug(" ".join(words or ()).lower())
    known = read_explanations()
    found = tuple(row for row in known if kind in ("", row.kind))
    if not found:
        raise BadOption(f"there is no kind '{kind}'", do=_hint_nearest_kind(kind, [row.kind for row in known]))
    write_report(ExplainReport(found), requested_output(FORMATS, options, world), world)
    return 0


def _hint_nearest_kind(kind: str, known: list[str]) -> str:
    import difflib

    close = difflib.get_close_matches(kind, known, 1, 0.5) or [k for k in known if kind in k]
    return f"did you mean '{close[0]}'?" if close else "gradcli explain lists them"
