"""`gradcli check --watch`: the checks that depend on a file, whenever it is saved."""

import os
from collections.abc import Callable
from pathlib import Path

import watchfiles

from gradcli.cli.output import ReportOutput, print_error, write_blocks
from gradcli.cli.world import World
from gradcli.errors import GradcliError
from gradcli.project.suite.config import Suite, SuiteCheck
from gradcli.project.suite.executors import Checker
from gradcli.project.suite.selection import checks_of_files
from gradcli.report.blocks import Paragraph, Piece

_BEAT = 500  # milliseconds after which the first turn without a change ends
Selected = Callable[[], tuple[Suite, tuple[SuiteCheck, ...]]]


def watch(selected: Selected, to: ReportOutput, world: World) -> int:
    """Run, until it is interrupted, the selected checks that depend on a saved file, and print a line for each.

    `selected` reads them anew, as their declarations may be what was saved. Raises BadOption where it does at the beginning.
    """
    suite, checks = selected()
    folders = {Path(folder).resolve() for folder in (str(suite.folder), *suite.importable) if Path(folder).is_dir()}
    counted = f"{len(checks)} check{'' if len(checks) == 1 else 's'}"
    said = f"watching {os.path.relpath(suite.folder)} for {counted}; Ctrl-C ends it"
    checker = Checker()
    try:
        for changes in watchfiles.watch(*folders, step=100, rust_timeout=_BEAT, yield_on_timeout=True):
            if said:  # no save is missed from now on
                world.tell(said)
                said = ""
            if not changes:
                continue
            try:
                suite, checks = selected()
            except GradcliError as error:  # a file that was saved half-written
                print_error(error, None, world, to.color)
                continue
            files = [Path(file) for _, file in changes]
            for row in checker.rows(suite, checks_of_files(suite, checks, files)):
                word, tone = row.word
                rest = row.brief().lines()[0].partition(" ")[2]
                line = Paragraph((Piece(word, tone), Piece(f" {rest}")), 0, wraps=False)
                write_blocks([line], world, to.color)
    finally:
        checker.close()
    return 0
