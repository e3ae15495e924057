"""Floor 6: each module turns a report into one form; none imports another. They are loaded when they are asked for."""

import importlib
from dataclasses import dataclass
from typing import Any, cast


@dataclass(frozen=True, slots=True)
class Page:
    """Where a rendering goes: columns, colour, and what the encoding can write."""

    width: int = 80
    color: bool = False
    encoding: str = "utf-8"


ENDINGS = {
    ".json": "json", ".ndjson": "ndjson", ".md": "markdown", ".csv": "csv", ".xml": "junit",
    ".dot": "dot", ".mmd": "mermaid", ".txt": "text",
}  # fmt: skip


def rendered(form: str, report: Any, page: Page | None = None) -> str:
    """Return a report in one form, ending in a line break."""
    module = importlib.import_module(f"gradcli.render.{form}")
    return cast(str, module.render(report, page or Page()))


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
