"""Text that may not act: control and bidirectional characters made visible."""

from html import escape

_BIDI = set("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff")

_NOT_XML = (0xFFFE, 0xFFFF)  # characters that XML does not allow


def visible(text: str) -> str:
    """Return the text with characters that could drive a terminal or reorder a line replaced, one for one."""
    return "".join(_shown(c) for c in text)


def in_markup(text: str) -> str:
    """Return text as it is written in HTML, SVG and XML, also inside quotes, with signs for what cannot be seen."""
    return escape(visible(text))


def _shown(c: str) -> str:
    code = ord(c)
    if c in "\n\t":
        return c
    if code < 32:
        return chr(0x2400 + code)
    if code == 127:
        return "\u2421"
    if 128 <= code < 160 or c in _BIDI or 0xD800 <= code < 0xE000 or code in _NOT_XML:
        return "\ufffd"
    return c


def workflow_data(text: str) -> str:
    """Return text as the message of a GitHub workflow command."""
    return visible(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def cut(text: str, width: int = 40) -> str:
    """Return the beginning of a string, or the end of a file's name with as many of its folders as fit."""
    flat = " ".join(text.split())
    if len(flat) <= width:
        return flat
    if ".py:" not in flat:
        return f"{flat[: width - 1]}…"
    folders = flat.split("/")
    ends = ("/".join(folders[k:]) for k in range(1, len(folders)))
    return next((f"…/{end}" for end in ends if len(end) <= width - 2), f"…{flat[1 - width :]}")
