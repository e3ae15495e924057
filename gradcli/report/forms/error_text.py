"""Errors as text. They need no layout, so that rich is not loaded for them, which takes longer than most errors do."""

from gradcli.report.blocks import make_visible
from gradcli.report.common import ErrorDetail
from gradcli.report.forms import Page, make_encodable

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
