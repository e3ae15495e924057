"""Floor 6: each module turns a report into one form; none imports another. They are loaded when they are asked for.

`chart`, `picture` and `figure` draw, for the forms that show pictures.
"""

import importlib
from dataclasses import dataclass
from types import ModuleType
from typing import Any, cast

from gradcli.reports.common import Printed


@dataclass(frozen=True, slots=True)
class Page:
    """Where a rendering goes: columns, colour, and what the encoding can write; of pictures inches, and dots per inch."""

    width: int = 80
    color: bool = False
    encoding: str = "utf-8"
    size: tuple[float, float] | None = None
    dpi: int | None = None


ENDINGS = {
    ".json": "json", ".ndjson": "ndjson", ".md": "markdown", ".csv": "csv", ".xml": "junit",
    ".tex": "latex", ".dot": "dot", ".mmd": "mermaid", ".txt": "text",
    ".svg": "svg", ".png": "png", ".pdf": "pdf",
}  # fmt: skip
PICTURES = ("svg", "png", "pdf")  # forms for files only


def rendered(form: str, report: Any, page: Page | None = None) -> str:
    """Return a report in one form, ending in a line break."""
    return cast(str, _module(form).render(report, page or Page()))


def reports_print_themselves() -> None:
    """Let `str(report)` be the report's text. Rendering is a floor above reports, which therefore cannot know it."""
    Printed.text_form = lambda report: rendered("text", report)


def as_file(form: str, report: Any, page: Page | None = None) -> bytes:
    """Return what a file in one form holds: text in UTF-8, or a picture."""
    content = _module(form).render(report, page or Page())
    return content if isinstance(content, bytes) else cast(str, content).encode()


def _module(form: str) -> ModuleType:
    return importlib.import_module(f"gradcli.forms.{form}")


_ASCII = {"±": "+/-", "ᵀ": "^T", "…": "...", "−": "-", "×": "x", "·": "*"}


def encodable(text: str, encoding: str) -> str:
    """Return text the encoding can write: known signs spelled in ASCII, others as question marks."""
    try:
        text.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        for sign, spelled in _ASCII.items():
            text = text.replace(sign, spelled)
        return text.encode("ascii", "replace").decode()
    return text


def writes_braille(encoding: str) -> bool:
    """Whether the encoding can write braille and the lines of a box."""
    try:
        "⠿│─┤┬└".encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True
