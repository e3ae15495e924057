"""`gradcli find`."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gradcli.cli.output import emit, output
from gradcli.cli.world import World
from gradcli.request.options import CLAIM_KINDS, Options
from gradcli.words import Exit

if TYPE_CHECKING:
    from gradcli.project.discovery.project import Declared
    from gradcli.project.suite.config import Suite
    from gradcli.report.find import FindReport

FORMATS = ("text", "json", "ndjson", "markdown", "csv")
EXAMPLES = """Examples:

    gradcli find

    gradcli find src/ --fail-under 90

    gradcli find src/models.py --json
"""
PATHS = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[PATH]...",
        help="Python files and folders; by default the paths of the suite, else this folder.",
        show_default=False,
    ),
]


def find(world: World, paths: list[str] | None, options: Options) -> int:
    """List every hand-written gradient, with the check that covers it. The files are read; nothing in them is run.

    Found are custom gradients of torch, JAX, TensorFlow and MLX, functions that scipy is given as derivatives, and
    functions and methods whose names form a pair, such as focal and focal_grad. Tests, virtual environments, hidden and
    built folders and what git ignores are read only where they are named.

    Formats: text, json, ndjson, markdown, csv.
    """
    from gradcli.project.suite.config import find_suite

    to = output(FORMATS, options, world)
    suite = find_suite(Path.cwd())
    report = found(paths or suite_paths(suite), declared_checks(suite), options.fail_under)
    emit(report, to, world)
    if report.exit_status:
        world.tell(
            f"{report.counts}: {report.counts.percent():.4g} percent, less than --fail-under {options.fail_under:g}"
        )
    return report.exit_status


def found(paths: Sequence[str], declared: Sequence["Declared"], least: float | None = None) -> "FindReport":
    """Return the report on these paths; its status is 2 where less than `least` percent is checked. Raises BadOption."""
    from gradcli.checks.implementation import environment
    from gradcli.project.discovery.reader import find as read
    from gradcli.report.find import FindCounts, FindReport, FoundGradient, UnreadableFile

    findings = read(paths, declared)
    counts = FindCounts(len(findings.gradients), sum(bool(g.checked_by) for g in findings.gradients))
    status = Exit.UNUSABLE if least is not None and counts.percent() < least else Exit.CONFIRMED
    gradients = tuple(
        FoundGradient(g.name, g.file, g.line, g.kind, g.of, g.found_by, g.checked_by) for g in findings.gradients
    )
    unreadable = tuple(UnreadableFile(u.file, u.reason) for u in findings.unreadable)
    return FindReport(tuple(paths), gradients, unreadable, counts, environment(), status)


def declared_checks(suite: "Suite | None") -> "tuple[Declared, ...]":
    """Return the checks of a suite, as far as it matters for what they cover."""
    from gradcli.project.discovery.project import Declared

    if suite is None:
        return ()
    return tuple(
        Declared(
            check.id, check.ask.target,
            tuple(claim for kind in CLAIM_KINDS if isinstance(claim := getattr(check.options, kind), str)), suite.folder,
        )
        for check in suite.checks
    )  # fmt: skip


def suite_paths(suite: "Suite | None") -> tuple[str, ...]:
    """Return the paths of a suite relative to the current folder; of a project that names none, its folder."""
    if suite is None:
        return (".",)
    return tuple(Path(os.path.relpath(suite.folder / path)).as_posix() for path in suite.paths or (".",))
