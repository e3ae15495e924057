"""The signs of a printed formula, as its reader sees them, in every notation."""

import itertools
import re
import xml.etree.ElementTree as ET

Tokens = list[str]  # names begin with a letter, numbers with a digit; ^( and _( open what is raised and lowered
GREEK = dict(
    zip(
        ["alpha", "beta", "gamma", "delta", "epsilon", "theta", "lambda", "mu", "sigma", "phi", "Phi"],
        "αβγδεθλμσφΦ",
        strict=True,
    )
)
RAISED = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁻ᵀ", "0123456789-T", strict=True))
LOWERED = dict(zip("₀₁₂₃₄₅₆₇₈₉₋", "0123456789-", strict=True))


def spelled(name: str) -> str:
    """Return a name as it is compared: `beta_1`, `β₁` and `\\beta_{1}` are the same."""
    stem, digits = re.fullmatch(r"(.*?)_?(\d*)", name).groups()  # type: ignore[union-attr]
    return GREEK.get({"lam": "lambda"}.get(stem, stem), stem) + digits


def of_unicode(text: str) -> Tokens:
    pattern = r">=|<=|==|!=|\d+\.\d+|\d+|[⁰¹²³⁴⁵⁶⁷⁸⁹⁻ᵀ]+|[₀-₉₋]+|[^\W\d_∂𝟏]\w*?(?=[⁰¹²³⁴-⁹⁻ᵀ₀-₉]|\W|$)|\S"
    found: Tokens = []
    for part in re.findall(pattern, text):
        if part[0] in RAISED:
            found += ["^", "(", *of_unicode_number("".join(RAISED[c] for c in part)), ")"]
        elif part[0] in LOWERED:
            found += ["_", "(", *of_unicode_number("".join(LOWERED[c] for c in part)), ")"]
        elif "_" in part and part.partition("_")[0] in ("softmax", "logsumexp", "sum", "prod", "max"):
            name, _, low = part.partition("_")
            found += [name, "_", "(", low, ")"]
        else:
            found.append(part)
    return found


def of_unicode_number(text: str) -> Tokens:
    return re.findall(r"\d+|\D", text)


ROW = r"((?:(?!\\begin|\\end|\\\\).)*?)"  # of the innermost cases
CASES = re.compile(
    rf"\\begin\{{cases\}} {ROW} & \\text\{{if \}} {ROW} \\\\\[2pt\] {ROW} & \\text\{{otherwise\}} \\end\{{cases\}}"
)


def of_latex(text: str) -> Tokens:
    while (plain := CASES.sub(r"(\1 \\mathrm{if} \2 , \\mathrm{else} \3)", text)) != text:
        text = plain
    parts = re.findall(r"\\[A-Za-z]+|\\.|\d+(?:\.\d+)?|\S", text)
    found, _ = _latex_until(parts, 0, "")
    return found


SIGNS = {
    "circ": "∘", "top": "T", "lVert": "‖", "rVert": "‖", "cdot": "·", "geq": ">=", "leq": "<=", "neq": "!=", "partial": "∂",
}  # fmt: skip


def _latex_until(parts: list[str], at: int, end: str) -> tuple[Tokens, int]:
    found: Tokens = []
    while at < len(parts) and parts[at] != end:
        more, at = _latex_one(parts, at)
        found += more
    return found, at + 1


def _latex_group(parts: list[str], at: int) -> tuple[Tokens, int]:
    return _latex_until(parts, at + 1, "}") if parts[at] == "{" else _latex_one(parts, at)


def _latex_one(parts: list[str], at: int) -> tuple[Tokens, int]:
    p, at = parts[at], at + 1
    if p in "^_":
        inner, at = _latex_group(parts, at)
        return [p, "(", *inner, ")"], at
    if p == "{":
        return _latex_until(parts, at, "}")
    if p[0] != "\\" or p in (r"\,", r"\\"):
        return [] if p == r"\," else [";" if p == r"\\" else p], at
    word = p[1:]
    if word in ("frac", "tfrac"):
        above, at = _latex_group(parts, at)
        below, at = _latex_group(parts, at)
        return ["(", "(", *above, ")", "/", "(", *below, ")", ")"], at
    if word == "sqrt":
        inner, at = _latex_group(parts, at)
        return ["√", "(", *inner, ")"], at
    if word in ("mathrm", "operatorname", "mathbf"):
        end = parts.index("}", at)
        name = "".join(parts[at + 1 : end]).replace("\\", "")
        return ["𝟏" if word == "mathbf" else name], end + 1
    if word in ("left", "right"):
        return [], at
    return [SIGNS.get(word, "Φ" if word == "Phi" else GREEK.get(word, word))], at


def of_mathml(text: str) -> Tokens:
    return _element(ET.fromstring(text))


def _element(e: ET.Element) -> Tokens:
    tag, kids = e.tag.rpartition("}")[2], [_element(k) for k in e]
    if tag in ("mi", "mn", "mo", "mtext"):
        text = (e.text or "").strip()
        signs = {"⊤": "T", "∑": "sum", "∏": "prod", "⁢": "", "⋅": "·", "≥": ">=", "≤": "<=", "≠": "!=", "−": "-"}
        return [t for t in [signs.get(text, text)] if t]
    if tag == "mfrac":
        return ["(", "(", *kids[0], ")", "/", "(", *kids[1], ")", ")"]
    if tag == "msqrt":
        return ["√", "(", *itertools.chain(*kids), ")"]
    if tag in ("msup", "msub", "munder"):
        return [*kids[0], "^" if tag == "msup" else "_", "(", *kids[1], ")"]
    if tag == "mrow" and kids[:1] == [["{"]]:  # cases
        return ["(", *kids[1], ")"]
    if tag == "mtable" and e.get("columnalign") == "left left":
        (yes, condition), (no, _) = ([_element(cell) for cell in row] for row in e)
        return [*yes, "if", *condition[1:], ",", "else", *no]
    if tag == "mtable":
        return [t for row in kids for t in (*row, ";")][:-1]
    return [*itertools.chain(*kids)]


READERS = {"unicode": of_unicode, "latex": of_latex, "mathml": of_mathml, "index": of_unicode}
