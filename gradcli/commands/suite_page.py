"""The page of several checks: a line for each when it ends, then the details of those that did not pass, and counts."""

import pickle
import time
from typing import TYPE_CHECKING

from gradcli.commands.output import DATA, Output, emit, for_several, page, written
from gradcli.world import World

if TYPE_CHECKING:
    from gradcli.reports.check import CheckReport
    from gradcli.reports.suite import CheckRow


class SuitePage:
    """The common page of several checks; it includes the rows of earlier processes that a target ended."""

    def __init__(self, to: Output, verbose: bool, world: World) -> None:
        self.each, self._to = for_several(to, verbose)
        self._verbose = verbose
        self._world = world
        self._rows: list[CheckRow] = [pickle.loads(row) for row in world.link.earlier.rows if row]
        self._started = time.perf_counter() - sum(row.seconds for row in self._rows)

    def add(self, name: str, report: "CheckReport | None", error: str | None, seconds: float) -> "CheckRow | None":
        """Show one check on a line, and return its row; None if each check has its own document instead of a page."""
        from gradcli.reports.suite import CheckRow, unlike

        if self._to.form in DATA and not self._to.files:
            return None
        row = CheckRow(unlike([row.id for row in self._rows], name), report, error, seconds)
        self._rows.append(row)
        if self._to.form == "text" and not (self._to.quiet or self._verbose):
            shown = page(self._world, self._world.stdout, self._to.color)
            written((row.line(shown.width),), shown, self._world)
        return row

    def end(self) -> None:
        """Write the end of the page: the checks that did not pass, in full, and counts; other forms and files get all of it."""
        from gradcli.reports.blocks import Paragraph, Piece
        from gradcli.reports.suite import SuiteReport

        if self._to.form in DATA and not self._to.files:
            return
        report = SuiteReport(tuple(self._rows), time.perf_counter() - self._started)
        if self._to.form == "text":
            shown = page(self._world, self._world.stdout, self._to.color)
            last = (Paragraph(Piece(report.counts(), "strong"), 0),)
            full = last if self._to.quiet or self._verbose else report.details()
            written(full, shown, self._world, apart=len(full) > 1 or self._verbose)
        emit(report, self._to, self._world, shown=self._to.form not in ("text", *DATA))
