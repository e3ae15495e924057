"""Names as mathematics writes them: Greek letters, digits at the end as a subscript."""

import re
from collections.abc import Container

_WORDS = "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau upsilon phi chi psi omega"
_LETTERS = "αβγδεζηθικλμνξπρστυφχψω"
_CAPITALS = dict(
    zip(
        ["Gamma", "Delta", "Theta", "Lambda", "Xi", "Pi", "Sigma", "Upsilon", "Phi", "Psi", "Omega"],
        "ΓΔΘΛΞΠΣΥΦΨΩ",
        strict=True,
    )
)
GREEK = dict(zip(_WORDS.split(), _LETTERS, strict=True)) | _CAPITALS | {"lam": "λ", "lambda_": "λ"}
_ENDING = re.compile(r"(?P<stem>.*?[^\d_])_?(?P<digits>\d+)$")


def parts_of(name: str) -> tuple[str, str]:
    """Return a name without the digits at its end, which are a subscript, and these digits."""
    found = _ENDING.match(name)
    return (found["stem"], found["digits"]) if found else (name, "")


_TEX_GREEK = {word: {"lam": "lambda", "lambda_": "lambda"}.get(word, word) for word in GREEK}
_TEX_GREEK |= {sign: _TEX_GREEK[word] for word, sign in GREEK.items() if word not in ("lam", "lambda_")}


def latex_name(name: str) -> str:
    """Return a name as LaTeX writes it in a formula, escaped."""
    stem, digits = parts_of(name)
    if stem in _TEX_GREEK:
        shown = "\\" + _TEX_GREEK[stem]
    else:
        words = "".join(f"\\{c}" if c in "_#$%&{}" else c if c.isascii() else f"u{ord(c):04X}" for c in stem)
        shown = words if len(words) == 1 else rf"\mathrm{{{words}}}"
    return f"{shown}_{{{digits}}}" if digits else shown


def printed(name: str) -> str:
    """Return a name with a letter for a Greek word, as formulas print it."""
    stem, digits = parts_of(name)
    return f"{GREEK[stem]}{digits}" if stem in GREEK else GREEK.get(name, name)


_INDICES = "ijklmnpqrstuvwabcdgh"


def index_letters(taken: Container[str]) -> list[str]:
    """Return the letters for indices, those first that textbooks take; none of them is the name of anything else."""
    return [c for c in (*_INDICES, *_LETTERS, *_INDICES.upper()) if c not in taken]
