"""Where reports go: standard output in one form, and files by their endings."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from gradcli.errors import BadOption, GradcliError
from gradcli.render import ENDINGS, Page, rendered
from gradcli.report.common import error_report
from gradcli.world import World

DATA = ("json", "ndjson")


@dataclass(frozen=True, slots=True)
class Output:
    """What the options say about the result."""

    form: str
    files: tuple[tuple[str, Path], ...]
    quiet: bool
    color: bool | None
    annotations: bool = False


def output(
    forms: Sequence[str],
    form: str | None,
    json: bool,
    out: Sequence[str] | None,
    quiet: bool,
    color: bool | None,
    world: World,
) -> Output:
    """Return the output that was asked for, checked before any work is done.

    Raises  BadOption for a form or a file ending that the command has not.
    """
    wanted = "json" if json else form or "text"
    if wanted not in forms:
        raise BadOption(f"there is no format '{wanted}' for this command", do=f"formats: {', '.join(forms)}")
    files = tuple((_form_of(Path(name), forms), Path(name)) for name in out or ())
    annotate = form is None and not json and "github" in forms and world.on_github
    return Output(wanted, files, quiet, color, annotate)


def _form_of(path: Path, forms: Sequence[str]) -> str:
    form = ENDINGS.get(path.suffix.lower())
    if form is None or form not in forms:
        endings = ", ".join(ending for ending, kind in ENDINGS.items() if kind in forms)
        raise BadOption(f"{path} has no ending this command can write", do=f"endings: {endings}")
    if not path.parent.is_dir():
        raise BadOption(f"the folder of {path} does not exist", do="create it first")
    return form


def page(world: World, stream: TextIO, color: bool | None) -> Page:
    """Return what a stream can show."""
    return Page(world.width(stream), world.color(stream, color), world.encoding(stream))


def emit(report: Any, to: Output, world: World) -> None:
    """Write a report to standard output and to the files that were asked for."""
    for form, path in to.files:
        path.write_text(rendered(form, report), encoding="utf-8")
    if to.annotations:
        _annotate(report, world)
    if not to.quiet:
        world.stdout.write(rendered(to.form, report, page(world, world.stdout, to.color)))
        world.stdout.flush()


def _annotate(report: Any, world: World) -> None:
    """Under GitHub Actions: annotations beside the text, and the report in the job's step summary."""
    world.stdout.write(rendered("github", report))
    summary = world.environ.get("GITHUB_STEP_SUMMARY")
    if summary:
        with Path(summary).open("a", encoding="utf-8") as stream:
            stream.write(rendered("markdown", report))


def print_error(error: GradcliError, as_data: bool, world: World, line: int | None = None) -> None:
    """Print an error: a document on standard output for programs, text on standard error for people."""
    if as_data:
        report = error_report(error)
        import dataclasses

        form = "json" if line is None else "ndjson"
        world.stdout.write(rendered(form, dataclasses.replace(report, line=line)))
        return
    from gradcli.render.text import error_as_text

    prefix = f"line {line}: " if line is not None else ""
    world.stderr.write(prefix + error_as_text(error, page(world, world.stderr, None)))
