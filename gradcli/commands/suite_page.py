"""The page of several checks: a line for each when it ends, then the details of those that did not pass, and counts."""

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from gradcli.commands.output import DATA, Output, emit, page, refuse_pictures, show_error, written
from gradcli.world import World

if TYPE_CHECKING:
    from gradcli.reports.suite import CheckRow, SuiteReport


class SuitePage:
    """Shows checks as they end, and all of them at the end, as the options say."""

    def __init__(self, to: Output, world: World) -> None:
        refuse_pictures(to)
        self._to, self._world = to, world

    def head(self, text: str) -> None:
        """Write a line before all others, where people read."""
        if self._to.form == "text" and not self._to.quiet:
            self._world.stdout.write(f"{text}\n")

    def add(self, row: "CheckRow") -> None:
        """Show one check: its line, and its error; as a document on a line in ndjson."""
        if row.error is not None and self._to.form not in DATA:
            detail = row.error.error
            if row.error.line is None and row.id not in detail.message:
                detail = replace(detail, message=f"{row.id}: {detail.message}")
            show_error(detail, self._world, row.error.line, self._to.color)
        if self._to.quiet:
            return
        if self._to.form == "ndjson":
            self._world.stdout.write(json.dumps(row.document, allow_nan=False) + "\n")
            self._world.stdout.flush()
        elif self._to.form == "text":
            shown = page(self._world, self._world.stdout, self._to.color)
            written((row.line(shown.width),), shown, self._world)

    def end(self, report: "SuiteReport") -> None:
        """Write the end of the page: the checks that did not pass, in full, and counts; other forms and files get all of it."""
        to, world = self._to, self._world
        if to.form == "text":
            shown = page(world, world.stdout, to.color)
            blocks = report.last() if to.quiet else report.details()
            written(blocks, shown, world, apart=len(blocks) > 1 and not to.quiet)
        emit(report, to, world, shown=to.form not in ("text", "ndjson"))
