"""`gradcli find`."""

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gradcli.cli.command_line import argument
from gradcli.cli.output import requested_output, write_report
from gradcli.cli.world import World
from gradcli.request.options import CLAIM_KINDS, Options
from gradcli.words import Exit

if TYPE_CHECKING:
    from gradcli.project.discovery.project import Declared, HandGradient
    from gradcli.project.suite.config import Suite
    from gradcli.report.find import FindReport

FORMATS = ("text", "brief", "json", "ndjson", "markdown", "csv")
EXAMPLES = """
    gradcli find
    gradcli find src/ --fail-under 90
    gradcli find src/models.py --json
    gradcli find statsmodels.robust
"""
PATHS = argument(
    list[str] | None, "[PATH]...",
    "Python files, folders, and modules by name; by default the paths of the suite, else this folder.",
)  # fmt: skip


def find(world: World, paths: list[str] | None, options: Options) -> int:
    """List every hand-written gradient, with the check that covers it. The files are read; nothing in them is run.

    gradcli finds custom gradients of torch, JAX, TensorFlow and MLX, functions that are passed to scipy as derivatives,
    and functions and methods whose names form a pair, such as focal and focal_grad. It reads tests, virtual
    environments, hidden and built folders, and files that git ignores, but only if you name them.

    Formats: text, brief, json, ndjson, markdown, csv.
    """
    from gradcli.project.suite.config import find_suite

    to = requested_output(FORMATS, options, world)
    suite = find_suite(Path.cwd())
    report = build_find_report(paths or suite_paths(suite), suite, options.fail_under)
    write_report(report, to, world)
    if report.next is not None and to.form == "text" and not to.quiet:
        world.tell(f"next: {report.next}")
    if report.exit_status:
        world.tell(f"{report.counts.percent():.4g} percent are checked, less than --fail-under {options.fail_under:g}")
    return report.exit_status


def build_find_report(paths: Sequence[str], suite: "Suite | None", least: float | None = None) -> "FindReport":
    """Return the report on these paths; its status is 2 where less than `least` percent is checked. Raises BadOption."""
    from gradcli.checks.implementation import describe_environment
    from gradcli.project.discovery.reader import find_gradients as read
    from gradcli.report.find import FindCounts, FindReport, FoundGradient, UnreadableFile, counts_by_folder

    findings = read(paths, declared_checks(suite))
    counts = FindCounts(len(findings.gradients), sum(bool(g.checked_by) for g in findings.gradients))
    status = Exit.UNUSABLE if least is not None and counts.percent() < least else Exit.CONFIRMED
    gradients = tuple(
        FoundGradient(g.name, g.file, g.line, g.kind, g.of, g.found_by, g.checked_by) for g in findings.gradients
    )
    unreadable = tuple(UnreadableFile(u.file, u.reason) for u in findings.unreadable)
    return FindReport(
        findings.paths, gradients, counts_by_folder(gradients), unreadable, counts, _next_step(findings.gradients, suite),
        describe_environment(), status,
    )  # fmt: skip


def _next_step(gradients: "Sequence[HandGradient]", suite: "Suite | None") -> str | None:
    """Return what to do next: check, fill in what stands as a comment, or let init write the checks that lack, if it can."""
    from gradcli.project.discovery.project import is_read_from
    from gradcli.project.discovery.proposal import check_ids, commented_ids
    from gradcli.project.suite.config import read_text

    if all(gradient.checked_by for gradient in gradients):
        return "gradcli check" if gradients else None
    open_ = commented_ids(read_text(suite.path)) if suite is not None and suite.path is not None else frozenset()
    named = zip(gradients, check_ids(gradients), strict=True)
    lacking = {gradient.file for gradient, id in named if not gradient.checked_by and id not in open_}
    if not lacking and suite is not None and suite.path is not None:
        return f"fill in the checks that {suite.path.name} has as comments, then gradcli check"
    if not any(is_read_from(folder, file) for folder in paths_for_init(suite) for file in lacking):
        return "gradcli check --help shows how to check one of them"
    if suite is None or suite.path is None:
        return "gradcli init writes a suite with them"
    there = os.path.relpath(suite.folder)
    return f"{'' if there == '.' else f'cd {shlex.quote(there)} && '}gradcli init --add adds the others to {suite.path.name}"


def paths_for_init(suite: "Suite | None") -> tuple[str, ...]:
    """Return the paths in which `gradcli init` looks: those of the suite, else the folder src/ or this one."""
    if suite is not None and suite.path is not None:
        return suite_paths(suite)
    return ("src" if Path("src").is_dir() else ".",)


def declared_checks(suite: "Suite | None") -> "tuple[Declared, ...]":
    """Return the checks of a suite, as far as it matters for what they cover."""
    from gradcli.project.discovery.project import Declared

    if suite is None:
        return ()
    return tuple(
        Declared(
            check.id, check.ask.target,
            tuple(claim for kind in CLAIM_KINDS if isinstance(claim := getattr(check.ask.options, kind), str)), suite.folder,
        )
        for check in suite.checks
    )  # fmt: skip


def suite_paths(suite: "Suite | None") -> tuple[str, ...]:
    """Return the paths of a suite relative to the current folder; of a project that names none, its folder."""
    if suite is None:
        return (".",)
    return tuple(Path(os.path.relpath(suite.folder / path)).as_posix() for path in suite.paths or (".",))
