"""Errors as text. They need no layout, so that rich is not loaded for them, which takes longer than most errors do."""

from gradcli.report.blocks import visible
from gradcli.report.common import ErrorDetail
from gradcli.report.forms import Page, encodable

_WIDEST, _BEFORE = 120, "    "  # columns of a line of source that is shown, and what is between it and its place
_RED, _PLAIN = "\x1b[31m", "\x1b[0m"


def error_as_text(error: ErrorDetail, page: Page) -> str:
    """Return an error as text: what happened, the place with a caret, and what to do."""
    lines = [_red("error: ", page) + _shown(error.message)]
    if error.where is not None:
        line, _, carets = error.where.partition("\n")
        source = _shown(line.replace("\t", " "))
        widest = _WIDEST + (len(source.partition(_BEFORE)[0]) if _BEFORE in source else 0)
        lines.append("  " + (source if len(source) <= widest else f"{source[: widest - 1]}…"))
        if carets[:widest].strip():
            lines.append(_red("  " + carets[:widest], page))
    if error.hint:
        lines.append("  " + _shown(error.hint))
    text = "".join(f"{line}\n" for line in lines)
    return encodable("\n".join(line.rstrip() for line in text.split("\n")), page.encoding)


def _shown(text: str) -> str:
    return visible(text).expandtabs(8)


def _red(text: str, page: Page) -> str:
    return f"{_RED}{text}{_PLAIN}" if page.color else text
