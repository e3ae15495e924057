"""Write reports to standard output in one form, and to files in the forms of their endings."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from gradcli.classes import dataclass
from gradcli.cli.world import World
from gradcli.errors import BadOption, GradcliError
from gradcli.process.relay import without_commands
from gradcli.report.common import ErrorDetail, error_detail, error_report
from gradcli.report.forms import ENDINGS, PICTURES, Page, make_encodable, render_as_file, render_as_text

if TYPE_CHECKING:
    from gradcli.request.options import Options

DATA = ("json", "ndjson")
_AS_DRAWN = Page()


@dataclass(frozen=True, slots=True)
class ReportOutput:
    """Where and how a report is written, as the options say."""

    form: str
    files: tuple[tuple[str, Path], ...]
    quiet: bool
    color: bool | None
    annotations: bool = False
    page: Page = _AS_DRAWN  # the size of pictures, and the folders that paths are relative to

    @property
    def pages(self) -> bool:
        """Whether the report is written as a page anywhere."""
        return "html" in (self.form, *(form for form, _ in self.files))


def requested_output(forms: Sequence[str], options: "Options", world: World, *, pictures: bool = False) -> ReportOutput:
    """Return the output that the options request, checked before any work is done.

    `pictures` says that the command can draw its report into files, including those of --plot.

    Raises  BadOption for an unknown form or file ending, a file that cannot be written, a picture that cannot be drawn, or
            the size of a picture without a picture.
    """
    form, json = options.format, options.json
    if json and form not in (None, "json", "ndjson"):
        raise BadOption(f"--json and --format {form} are two formats", do="give one of them")
    wanted = form or ("json" if json else "text")
    if wanted not in forms:
        raise BadOption(f"there is no format '{wanted}' for this command", do=f"formats: {', '.join(forms)}")
    # absolute: the user's code may change the folder
    wide = (*forms, *PICTURES) if pictures else forms
    asked = [*((name, wide) for name in options.out), *((name, PICTURES) for name in options.plot)]
    files = tuple((_form_of_file(Path(name), kinds), Path(name).absolute()) for name, kinds in asked)
    drawn = {form for form, _ in files if form in PICTURES and form not in forms}  # by matplotlib
    if drawn:
        if options.size is not None and "png" in drawn:
            from gradcli.report.forms.figure import refuse_large_png

            refuse_large_png(options.size, options.dpi)
    elif options.size is not None or options.dpi is not None:
        flag = "--dpi" if options.size is None else "--size"
        raise BadOption(f"{flag} is for pictures, and none is asked for", do=f"name one: {flag} ... --plot FILE.pdf")
    annotate = form is None and not json and "github" in forms and world.on_github
    drawn_on = Page(
        size=options.size, dpi=options.dpi, folder=str(Path.cwd()), workspace=world.environ.get("GITHUB_WORKSPACE", ""),
        down=options.direction == "down",
    )  # fmt: skip
    return ReportOutput(wanted, files, options.quiet, options.color, annotate, drawn_on)


def refuse_pictures(to: ReportOutput) -> None:
    """Raise BadOption if several targets are to be drawn."""
    if any(form in PICTURES for form, _ in to.files):
        raise BadOption("a picture shows one target", do="run gradcli once for each target")


def _form_of_file(path: Path, forms: Sequence[str]) -> str:
    form = ENDINGS.get(path.suffix.lower())
    if form is None or form not in forms:
        endings = ", ".join(ending for ending, kind in ENDINGS.items() if kind in forms)
        raise BadOption(f"{path} has no ending this command can write", do=f"endings: {endings}")
    try:
        place = path if path.exists() else path.parent
        usable = path.parent.is_dir() and not path.is_dir() and os.access(place, os.W_OK)
    except (OSError, ValueError):
        usable = False
    if not usable:
        raise BadOption(f"{str(path)[:80]} cannot be written", do="name a file in a folder that exists")
    return form


def page_of_stream(world: World, stream: TextIO, color: bool | None) -> Page:
    """Return the width, colour and encoding of a stream."""
    return Page(world.width(stream), world.color(stream, color), world.encoding(stream))


def write_blocks(blocks: Sequence[Any], shown: Page, world: World, apart: bool = False) -> None:
    """Write blocks to standard output as text; an empty line comes first if they are `apart`."""
    from gradcli.report.forms.text import blocks_as_text

    text = blocks_as_text(tuple(blocks), shown)
    world.stdout.write(_make_safe_text("\n" * apart + text, world, world.stdout))
    world.stdout.flush()


def write_report(report: Any, to: ReportOutput, world: World, shown: bool = True, opened: int = 0) -> None:
    """Write a report to standard output and to the requested files.

    If not `shown`, the report goes only to files, because standard output has it already. `opened` is the number of its
    first blocks that standard output has already, as text.

    Raises  BadOption if a file cannot be written.
    """
    if shown and opened:
        from gradcli.report.forms.text import are_separate

        blocks = report.blocks()
        apart = are_separate(blocks[opened - 1], blocks[opened])
        write_blocks(blocks[opened:], page_of_stream(world, world.stdout, to.color), world, apart)
    elif shown and not to.quiet:
        own = page_of_stream(world, world.stdout, to.color)
        text = render_as_text(to.form, report, replace(own, folder=to.page.folder, workspace=to.page.workspace))
        if to.form == "github":  # workflow commands that are meant
            world.stdout.write(make_encodable(text, own.encoding))
        else:
            world.stdout.write(_make_safe_text(text, world, world.stdout))
    if to.annotations:
        world.stdout.write(make_encodable(render_as_text("github", report, to.page), world.encoding(world.stdout)))
    summary = world.environ.get("GITHUB_STEP_SUMMARY")
    if summary and (to.annotations or to.form == "github"):
        with Path(summary).open("a", encoding="utf-8") as stream:
            stream.write(render_as_text("markdown", report))
    world.stdout.flush()
    for form, path in to.files:
        try:
            content = render_as_file(form, report, to.page)
        except ValueError as error:
            if form not in PICTURES:
                raise
            raise BadOption(f"the picture cannot be drawn: {error}", do="choose another --size or --dpi") from None
        try:
            path.write_bytes(content)
        except (OSError, ValueError) as error:
            raise BadOption(f"{str(path)[:80]} cannot be written: {error}", do="name another file") from None
    if any(form in PICTURES for form, _ in to.files) and not to.quiet and hasattr(report, "pictures"):
        from gradcli.report.forms.figure import describe_left_out

        for sentence in describe_left_out(report.pictures()):
            world.tell(sentence)


def _make_safe_text(text: str, world: World, stream: TextIO) -> str:
    """Return text that the stream can write and in which a GitHub runner recognises no workflow command."""
    written = make_encodable(text, world.encoding(stream))
    return without_commands(written) if world.on_github else written


def print_error(error: GradcliError, data: str | None, world: World, color: bool | None = None) -> None:
    """Print an error: on standard output in the format `data` for programs, without one as text on standard error."""
    if data is not None:
        world.stdout.write(render_as_text(data, error_report(error)))
        world.stdout.flush()
        return
    detail = error_detail(error)
    if world.on_github:
        from gradcli.report.forms.github import error_annotation

        place = Page(workspace=world.environ.get("GITHUB_WORKSPACE", ""))
        world.stdout.write(make_encodable(error_annotation(detail, place), world.encoding(world.stdout)))
        world.stdout.flush()
    print_error_text(detail, world, None, color)


def print_error_text(error: ErrorDetail, world: World, line: int | None = None, color: bool | None = None) -> None:
    """Write an error as text on standard error, with the line of standard input that asked for it."""
    from gradcli.report.forms.error_text import error_as_text

    prefix = f"line {line}: " if line is not None else ""
    text = error_as_text(error, page_of_stream(world, world.stderr, color))
    world.stderr.write(prefix + _make_safe_text(text, world, world.stderr))
