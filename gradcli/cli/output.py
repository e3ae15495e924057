"""Write reports to standard output in one form, and to files in the forms of their endings."""

import json
import os
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from gradcli.classes import dataclass
from gradcli.cli.world import World
from gradcli.errors import BadOption, GradcliError
from gradcli.process.relay import without_commands
from gradcli.report.common import ErrorDetail, error_detail, error_report
from gradcli.report.forms import ENDINGS, PICTURES, Page, make_encodable, render_as_file, render_as_text
from gradcli.words import Verdict

if TYPE_CHECKING:
    from gradcli.report.check import CheckReport
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


def write_blocks(blocks: Sequence[Any], world: World, color: bool | None, apart: bool = False) -> None:
    """Write blocks to standard output as text; an empty line comes first if they are `apart`."""
    from gradcli.report.forms.text import blocks_as_text

    text = blocks_as_text(tuple(blocks), page_of_stream(world, world.stdout, color))
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
        write_blocks(blocks[opened:], world, to.color, apart)
    elif shown and not (to.quiet and to.form == "text"):  # who asks for another form asks for it
        own = page_of_stream(world, world.stdout, to.color)
        text = render_as_text(
            to.form, report, replace(to.page, width=own.width, color=own.color, encoding=own.encoding)
        )
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
        from gradcli.report.forms.ci import error_annotation

        place = Page(workspace=world.environ.get("GITHUB_WORKSPACE", ""))
        world.stdout.write(make_encodable(error_annotation(detail, place), world.encoding(world.stdout)))
        world.stdout.flush()
    print_error_text(detail, world, None, color)


def print_error_text(error: ErrorDetail, world: World, line: int | None, color: bool | None) -> None:
    """Write an error as text on standard error, with the line of standard input that asked for it."""
    from gradcli.report.forms import error_as_text

    prefix = f"line {line}: " if line is not None else ""
    text = error_as_text(error, page_of_stream(world, world.stderr, color))
    world.stderr.write(prefix + _make_safe_text(text, world, world.stderr))


# `--save-point FILE`: the point of a check, as `--at @FILE` reads it.

_POINT_FILES = (".npz", ".json")


def writable_point_path(text: str) -> Path:
    """Return the path of `--save-point`. Raises BadOption if its ending is unknown or it cannot be written."""
    path = Path(text)
    if path.suffix.lower() not in _POINT_FILES:
        says = f"--save-point writes {' or '.join(_POINT_FILES)}, not '{text[:80]}'"
        raise BadOption(says, do="write --save-point point.npz")
    if not path.parent.is_dir() or path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        raise BadOption(f"{text[:80]} cannot be written", do="name a file in a folder that exists")
    return path


def write_point(report: "CheckReport", path: Path) -> None:
    """Write the first point that did not pass, or else the first point.

    Raises  BadOption for a point with values that are not numeric, or a file that cannot be written.
    """
    point = next((p for p in report.points if p.verdict != Verdict.PASS), report.points[0])
    if not point.at:
        return  # time was up before a point was known
    import numpy as np

    from gradcli.report.encode import encode

    arrays = {name: np.asarray(x) for name, x in point.at.items()}
    others = [
        name for name, x in arrays.items() if isinstance(point.at[name], str | bytes) or x.dtype.kind not in "fiub"
    ]
    if others:
        says = f"the point was not saved: {', '.join(others[:3])} {'is' if len(others) == 1 else 'are'} not numeric"
        raise BadOption(says, do="write a Python function that returns it: --at file.py:point")
    try:
        if path.suffix.lower() == ".json":  # strict: infinities and nan are words, and integers `int(3)`
            kept: dict[str, Any] = {
                name: f"int({x.tolist()})" if x.dtype.kind in "iu" else encode(x.tolist()) for name, x in arrays.items()
            }
            #  else these keys would be read as a report's
            inside = {"at": kept} if {"at", "points"} & set(kept) else kept
            path.write_text(json.dumps(inside, allow_nan=False) + "\n", encoding="utf-8")
            return
        with zipfile.ZipFile(path, "w") as archive:  # numpy.savez itself cannot take some names, such as `file`
            for name, x in arrays.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as stream:
                    np.lib.format.write_array(stream, x, allow_pickle=False)
    except (OSError, ValueError, TypeError) as error:
        raise BadOption(f"the point cannot be saved in {path}: {error}", do="name another file") from None


# `--patch FILE`: write the repairs of wrong claims as one diff.


def write_patches(reports: Iterable["CheckReport"], file: str, world: World) -> None:
    """Write the patches that reports hold to a file, and say so; say why there is none.

    Raises  BadOption if the file cannot be written.
    """
    from gradcli.repair.full_check import patch_in, reason_in

    reports = list(reports)
    patches = list(dict.fromkeys(patch for report in reports if (patch := patch_in(report)) is not None))
    if not patches:
        why = reason_in(reports[0]) if len(reports) == 1 else "no repair was found"
        world.tell(f"{file} was not written: {why}")
        return
    try:
        Path(file).write_text("".join(patches), encoding="utf-8", newline="")
    except OSError as error:
        says = f"--patch {file}: {error.strerror or error}"
        raise BadOption(says, do="name a file in a folder that is there") from None
    several = f"{len(patches)} repairs are" if len(patches) > 1 else "the repair is"
    world.tell(f"{several} in {file}: git apply {file}")
