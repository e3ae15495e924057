"""Whether two outputs say the same on any machine."""

import re
from collections.abc import Sequence

from tests.documents.blocks import LEFT_OUT

NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[-+]?\d+)?")
_ERROR = re.compile(r"\de[-+]\d+")
_DIGITS = re.compile(r"\d{1,2}\.\d")  # right digits
_CHART = re.compile(r"^.*[\u2800-\u28ff].*\n", re.MULTILINE)  # dots whose place the last digits decide
_PROGRESS = re.compile(r"^.*: \d+ s so far; .*\n", re.MULTILINE)  # of a command that a busy machine makes long
_TIME = re.compile(r"~?(?<![\w.])[\d.,]+ ?(ms|s|us|µs)\b( \(\d:\d\d:\d\d\))?")
_EVALUATIONS = re.compile(r"[\d,]+(?= evaluations of f\.)")  # which the noise of f decides
_VERSION = re.compile(r"(?<=\btorch )\d[\w.+]*|(?<=\bjax )\d[\w.+]*|(?<=\btensorflow )\d[\w.+]*|(?<=\bmlx )\d[\w.+]*")


def steady(text: str) -> str:
    """Return an output without what differs between runs or machines: charts, times, evaluations, versions of frameworks."""
    for pattern, word in (
        (_CHART, ""),
        (_PROGRESS, ""),
        (_TIME, "TIME"),
        (_EVALUATIONS, "SOME"),
        (_VERSION, "VERSION"),
    ):
        text = pattern.sub(word, text)
    return text


def skeleton(text: str) -> str:
    """Return a text with its numbers blanked and runs of spaces made one: columns move with the digits in them."""
    return re.sub(" +", " ", NUMBER.sub("#", steady(text)))


def alike(a: str, b: str) -> bool:
    """Whether two numbers say the same on any machine: counts and statuses exactly, results to nine digits, errors by size."""
    if a.isdecimal() or b.isdecimal():
        return a == b
    x, y = float(a), float(b)
    if _ERROR.fullmatch(a) or _ERROR.fullmatch(b):
        return x == y or (x > 0 and y > 0 and 0.1 <= x / y <= 10)
    if _DIGITS.fullmatch(a) and _DIGITS.fullmatch(b):
        return abs(x - y) <= 2
    return abs(x - y) <= 1e-9 * abs(y) or (max(abs(x), abs(y)) < 1e-5 and 0.01 <= abs(x / y) <= 100)


def differs(shown: str, printed: str) -> str | None:
    """Return how an output differs from the one that is shown, or None."""
    try:
        mine = shown_part(shown, _PROGRESS.sub("", printed))
    except LookupError as error:
        return str(error)
    a, b = steady(shown), steady(mine)
    if skeleton(a).split() != skeleton(b).split():  # lines are broken elsewhere where a number has another digit
        return "other words"
    apart = [(x, y) for x, y in zip(NUMBER.findall(a), NUMBER.findall(b), strict=True) if not alike(x, y)]
    return f"other numbers: {apart}" if apart else None


def shown_part(shown: str, printed: str) -> str:
    """Return an output with those lines left out that the page leaves out: between the parts, each from its first to its last line.

    Raises  LookupError where such a line is not printed.
    """
    lines = shown.splitlines()
    if LEFT_OUT not in lines:
        return printed
    real, at, kept = printed.splitlines(), 0, []
    parts = _parts(lines)
    for number, part in enumerate(parts):
        if part:
            first = 0 if number == 0 else _find(part[0], real, at)
            last = len(real) - 1 if number == len(parts) - 1 else _end(part, real, first)
            kept += real[first : last + 1]
            at = last + 1
        kept += [LEFT_OUT] if number < len(parts) - 1 else []
    return "\n".join(kept) + "\n"


def _parts(lines: Sequence[str]) -> list[list[str]]:
    parts: list[list[str]] = [[]]
    for line in lines:
        if line == LEFT_OUT:
            parts.append([])
        else:
            parts[-1].append(line)
    return parts


def _end(part: Sequence[str], lines: Sequence[str], first: int) -> int:
    """Return where a part ends: where it did if that line is still the last one of it, else at the next line like it."""
    at = first + len(part) - 1
    if at < len(lines) and skeleton(lines[at] + "\n") == skeleton(part[-1] + "\n"):
        return at
    return _find(part[-1], lines, first + (len(part) > 1))


def _find(line: str, lines: Sequence[str], start: int) -> int:
    wanted = skeleton(line + "\n")
    for k in range(start, len(lines)):
        if skeleton(lines[k] + "\n") == wanted:
            return k
    raise LookupError(f"this line is not printed: {line}")
