"""`gradcli find`."""

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gradcli.commands.output import emit, output
from gradcli.discovery.found import Declared
from gradcli.errors import BadOption
from gradcli.options import CLAIM_KINDS, Options
from gradcli.words import Exit
from gradcli.world import World

if TYPE_CHECKING:
    from gradcli.reports.find import FindReport

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
    to = output(FORMATS, options, world)
    folder = Path()
    report = found(paths or suite_paths(folder), declared_checks(folder), options.fail_under)
    emit(report, to, world)
    if report.exit_status:
        world.tell(
            f"{report.counts}: {report.counts.percent():.4g} percent, less than --fail-under {options.fail_under:g}"
        )
    return report.exit_status


def found(paths: Sequence[str], declared: Sequence[Declared], least: float | None = None) -> "FindReport":
    """Return the report on these paths; its status is 2 where less than `least` percent is checked. Raises BadOption."""
    from gradcli.discovery.finder import find as read
    from gradcli.reports.find import FindCounts, FindReport, FoundGradient, UnreadableFile
    from gradcli.verify.environment import environment

    findings = read(paths, declared)
    counts = FindCounts(len(findings.gradients), sum(bool(g.checked_by) for g in findings.gradients))
    status = Exit.UNUSABLE if least is not None and counts.percent() < least else Exit.CONFIRMED
    gradients = tuple(
        FoundGradient(g.name, g.file, g.line, g.kind, g.of, g.found_by, g.checked_by) for g in findings.gradients
    )
    unreadable = tuple(UnreadableFile(u.file, u.reason) for u in findings.unreadable)
    return FindReport(tuple(paths), gradients, unreadable, counts, environment(), status)


def declared_checks(folder: Path) -> tuple[Declared, ...]:
    """Return the checks that the suite of a folder declares. Raises BadOption for a file that is not TOML."""
    checks = _suite(folder).get("check", [])
    tables = [check for check in checks if isinstance(check, dict)] if isinstance(checks, list) else []
    return tuple(
        Declared(
            str(check.get("id", check["target"])), check["target"],
            tuple(check[kind] for kind in CLAIM_KINDS if isinstance(check.get(kind), str)), folder,
        )
        for check in tables if isinstance(check.get("target"), str)
    )  # fmt: skip


def suite_paths(folder: Path) -> tuple[str, ...]:
    """Return the paths of the suite of a folder, or the folder itself. Raises BadOption."""
    paths = _suite(folder).get("paths")
    return tuple(map(str, paths)) if isinstance(paths, list) and paths else (".",)


def _suite(folder: Path) -> dict[str, Any]:
    """Return the tables of gradcli.toml, or those of gradcli in pyproject.toml; empty where there is neither."""
    own, project = folder / "gradcli.toml", folder / "pyproject.toml"
    if own.is_file():
        return _toml(own)
    found = _toml(project).get("tool", {}).get("gradcli", {}) if project.is_file() else {}
    return found if isinstance(found, dict) else {}


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadOption(f"{path.name} cannot be read: {error}", do="mend it, or name the paths") from None
