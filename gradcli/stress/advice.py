"""What to write instead of a line that loses digits."""

import re

_KNOWN = (  # a pattern of the line, what it does, what to write
    (r"1(?:\.0)?\s*-\s*(?:\w+\.)*cos\((?P<x>.+)\)", "1 - cos(x) cancels near 0", "2*sin(x/2)**2"),
    (r"(?:\w+\.)*exp\((?P<x>.+)\)\s*-\s*1", "exp(x) - 1 cancels near 0", "expm1(x)"),
    (r"(?:\w+\.)*log\(\s*1(?:\.0)?\s*\+", "log(1 + x) cancels near 0", "log1p(x)"),
    (r"1(?:\.0)?\s*-\s*(?:\w+\.)*tanh\(.+\)\s*\*\*\s*2", "1 - tanh(x)**2 cancels where x is large", "1/cosh(x)**2"),
    (r"1(?:\.0)?\s*/\s*\(1(?:\.0)?\s*\+\s*(?:\w+\.)*exp\(.+\)\)\s*-\s*1", "sigmoid(x) - 1 cancels where x is large",
     "-1/(1 + exp(x))"),
    (r"mean\(.+\*\*\s*2.*\)\s*-\s*(?:\w+\.)*mean\(.+\)\s*\*\*\s*2", "mean(x**2) - mean(x)**2 cancels where x varies little",
     "mean((x - mean(x))**2)"),
    (r"sqrt\(.+\)\s*-\s*.*sqrt\(.+\)", "the difference of two roots cancels", "(a - b)/(sqrt(a) + sqrt(b))"),
)  # fmt: skip
_PATTERNS = tuple((re.compile(pattern), says, do) for pattern, says, do in _KNOWN)


def advice(line: str, operation: str) -> tuple[str, str | None]:
    """Return what a line loses its digits by, and what to write instead, None where nothing better is known."""
    for pattern, says, do in _PATTERNS:
        if pattern.search(line):
            return says, do
    if operation in ("sub", "subtract", "add", "sum", "-", "+"):
        return "nearly equal numbers cancel", None
    return "digits are lost", None
