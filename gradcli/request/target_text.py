"""Which strings name Python code; everything else is an expression."""

import os
import re
import unicodedata

TARGET = re.compile(
    r"(?P<file>[^\n]*\.py|[^\W\d][\w.]*)::?(?P<name>[^\W\d]\w*(?:\.[^\W\d]\w*)*)(?P<made>\(\))?", re.DOTALL
)

ASSIGNMENT = re.compile(r"\s*(?:[^\W\d]\w*|\d+\.\w+)(?:\.\w+|\[\d+\])*\s*=(?!=)[^;\n]*")  # an argument NAME=VALUE


def is_python(text: str) -> bool:
    """Whether a target names Python code: `PATH.py:NAME`, `DOTTED.MODULE:NAME`, or a file alone."""
    stripped = text.strip()
    return TARGET.fullmatch(stripped) is not None or (stripped.endswith(".py") and "\n" not in stripped)


def is_folder(text: str) -> bool:
    """Whether a word names a folder: one that exists, or one that ends in a slash."""
    return bool(text.strip("/ ")) and (text.endswith("/") or os.path.isdir(text))  # noqa: PTH112 (never raises)


def names_python(text: str) -> bool:
    """Whether a target, a claim or a point may name Python code: it has a file or a module with a name after a colon."""
    return is_python(text) or ".py" in text


def folded(name: str) -> str:
    """Return a name in the form in which Python compares names (NFKC)."""
    return unicodedata.normalize("NFKC", name)
