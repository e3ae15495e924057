"""Output forms of reports, such as text, JSON and SVG: each is loaded when it is used.

The modules of forms do not import each other. `figure` draws pictures, of which a .png and a .pdf consist, and `elements` writes
blocks for forms in HTML.
"""

import importlib
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

from gradcli.classes import dataclass
from gradcli.report.blocks import make_visible
from gradcli.report.common import ErrorDetail, Printed, Shown


@dataclass(frozen=True, slots=True)
class Page:
    """The properties of the output: columns, colour and encoding of text; size of pictures in inches, and dots per inch.

    Graphs run to the right, or `down`.
    `folder` is the one that paths in reports are relative to, and `workspace` the repository's where no `.git` says which.
    """

    width: int = 80
    color: bool = False
    encoding: str = "utf-8"
    size: tuple[float, float] | None = None
    dpi: int | None = None
    down: bool = False
    folder: str = ""
    workspace: str = ""


ENDINGS = {
    ".json": "json", ".ndjson": "ndjson", ".md": "markdown", ".csv": "csv", ".xml": "junit", ".sarif": "sarif",
    ".tex": "latex", ".html": "html", ".mmd": "mermaid", ".txt": "text",
    ".svg": "svg", ".png": "png", ".pdf": "pdf",
}  # fmt: skip
PICTURES = ("svg", "png", "pdf")  # forms for files only


def render_as_text(form: str, report: Any, page: Page | None = None) -> str:
    """Return a report as text in one form, ending in a newline."""
    return cast(str, _renderer(form)(report, page or Page()))


def place_in_repository(places: Sequence[tuple[str, int | None]], page: Page) -> tuple[str, int | None] | None:
    """Return the first of these places whose file is there, with its path from the root of the repository.

    Where no file is in it, the first place is returned as it is; None if there is no place.
    """
    folder = Path(page.folder).resolve()
    for file, line in places:
        path = (folder / file).resolve()
        with_git = (above for above in path.parents if (above / ".git").exists())
        root = next(with_git, Path(page.workspace).resolve() if page.workspace else folder)
        if path.is_file() and path.is_relative_to(root):
            return path.relative_to(root).as_posix(), line
    return next(((file.replace("\\", "/"), line) for file, line in places), None)


def enable_report_display() -> None:
    """Let reports show themselves to `print`, rich and notebooks; they cannot import the forms, which are a layer above."""

    def in_form(form: Shown, report: Any) -> Any:
        return _renderer(form)(report) if form == "rich" else _renderer(form)(report, Page())

    Printed.in_form = staticmethod(in_form)


def render_as_file(form: str, report: Any, page: Page | None = None) -> bytes:
    """Return the content of a file in one form: text in UTF-8, or a picture."""
    content = _renderer(form)(report, page or Page())
    return content if isinstance(content, bytes) else cast(str, content).encode()


_MODULES = {  # of forms whose module does not have their name
    "json": "programs", "ndjson": "programs", "csv": "programs", "brief": "programs", "github": "ci", "junit": "ci",
    "sarif": "ci", "svg": "figure", "png": "figure", "pdf": "figure", "mermaid": "figure", "rich": "text",
}  # fmt: skip


def _renderer(form: str) -> Callable[..., Any]:
    """Return the function of one form: `render_json` for JSON."""
    module = importlib.import_module(f"gradcli.report.forms.{_MODULES.get(form, form)}")
    return cast(Callable[..., Any], getattr(module, f"render_{form}"))


_ASCII = {"±": "+/-", "ᵀ": "^T", "…": "...", "−": "-", "×": "x", "·": "*"}
_DIGITS = str.maketrans("₀₁₂₃₄₅₆₇₈₉", "0123456789")


def make_encodable(text: str, encoding: str) -> str:
    """Return text that the encoding can write; if it cannot, known signs become ASCII and others question marks."""
    try:
        text.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        for sign, spelled in _ASCII.items():
            text = text.replace(sign, spelled)
        text = re.sub("[₀-₉]+", lambda digits: "#" + digits[0].translate(_DIGITS), text)
        return text.encode("ascii", "replace").decode()
    return text


def can_encode_braille(encoding: str) -> bool:
    """Whether the encoding can write braille and box-drawing characters."""
    try:
        "⠿│─┤┬└".encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


# Errors as text. They need no layout, so that rich is not loaded for them, which takes longer than most errors do.

_WIDEST, _BEFORE = 120, "    "  # columns of a line of source that is shown, and what is between it and its place
_RED, _PLAIN = "\x1b[31m", "\x1b[0m"


def error_as_text(error: ErrorDetail, page: Page) -> str:
    """Return an error as text: what happened, the place with a caret, and what to do."""
    lines = [_colour_red("error: ", page) + _visible_text(error.message)]
    if error.where is not None:
        line, _, carets = error.where.partition("\n")
        source = _visible_text(line.replace("\t", " "))
        widest = _WIDEST + (len(source.partition(_BEFORE)[0]) if _BEFORE in source else 0)
        lines.append("  " + (source if len(source) <= widest else f"{source[: widest - 1]}…"))
        if carets[:widest].strip():
            lines.append(_colour_red("  " + carets[:widest], page))
    if error.hint:
        lines.append("  " + _visible_text(error.hint))
    text = "".join(f"{line}\n" for line in lines)
    return make_encodable("\n".join(line.rstrip() for line in text.split("\n")), page.encoding)


def _visible_text(text: str) -> str:
    return make_visible(text).expandtabs(8)


def _colour_red(text: str, page: Page) -> str:
    return f"{_RED}{text}{_PLAIN}" if page.color else text
