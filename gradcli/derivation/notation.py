"""Expressions printed with Unicode superscripts for a terminal, in LaTeX, and in MathML."""

from collections.abc import Callable
from fractions import Fraction
from xml.sax.saxutils import escape

from gradcli.derivation.code.ranks import axes
from gradcli.derivation.expression import ATOM, COMPARE, MINUS, POWER, PRODUCT, SUM, E, Op, is_scalar, places, written

Write = Callable[[E, int], str]
_RAISED = str.maketrans("0123456789-+.", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺·")
_LOWERED = str.maketrans("0123456789-", "₀₁₂₃₄₅₆₇₈₉₋")
_GREEK = {
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ε", "theta": "θ", "lam": "λ", "lambda_": "λ", "mu": "μ",
    "sigma": "σ", "tau": "τ", "phi": "φ", "psi": "ψ", "omega": "ω", "rho": "ρ", "eta": "η", "kappa": "κ", "pi": "π",
}  # fmt: skip
_LEVELS = {
    Op.ADD: SUM, Op.NEG: SUM, Op.MUL: PRODUCT, Op.DIV: PRODUCT, Op.MATMUL: PRODUCT, Op.DOT: PRODUCT, Op.POW: POWER,
    Op.TRANSPOSE: POWER, "compare": COMPARE, "column": PRODUCT,
}  # fmt: skip


def _level(e: E) -> int:
    if e.op == "number" and isinstance(e.number, Fraction) and "/" in written(e.number):
        return PRODUCT
    if e.op == "call" and e.text in ("inv", "outer"):
        return POWER if e.text == "inv" else PRODUCT
    return _LEVELS.get(e.op, ATOM)


def unicode(e: E, within: int = COMPARE) -> str:
    """Return an expression with superscripts for transposes, inverses and powers: `A.T @ (A @ x - b)` as `Aᵀ (A x - b)`."""
    shown = _unicode(e)
    return f"({shown})" if _level(e) < within else shown


def _unicode(e: E) -> str:
    if e.op == "name":
        return _GREEK.get(e.text, e.text)
    if e.op == "number":
        return written(e.number)
    if e.op == Op.NEG:
        return f"-{unicode(e.args[0], PRODUCT)}"
    if e.op == Op.ADD:
        return _sum(e, unicode, " ")
    if e.op == Op.MUL:
        return _product(e, unicode, " ∘ ")
    if e.op == Op.DIV:
        return f"{unicode(e.args[0], PRODUCT)} / {unicode(e.args[1], MINUS)}"
    if e.op == Op.MATMUL:
        return " ".join(unicode(a, MINUS) for a in e.args)
    if e.op == Op.DOT:
        a, b = e.args
        return (
            f"‖{unicode(a)}‖²"
            if a == b
            else f"{unicode(a, ATOM)}ᵀ {unicode(b, MINUS if b.op != 'matmul' else PRODUCT)}"
        )
    if e.op == Op.POW:
        return _raised(e)
    if e.op == Op.TRANSPOSE:
        inner = e.args[0]
        return f"{_unicode(inner)}ᵀ" if inner.op == "call" and inner.text == "inv" else f"{unicode(inner, ATOM)}ᵀ"
    if e.op == "compare":
        return f"[{unicode(e.args[0], SUM)} {e.text} {unicode(e.args[1], SUM)}]"
    if e.op == "index":
        return f"e{_lowered(e)}" if is_unit(e) else f"{unicode(e.args[0], ATOM)}{e.text}"
    if e.op == "concat":
        return f"[{', '.join(filter(None, [_zeros(e, 0), unicode(e.args[0]), _zeros(e, 1)]))}]"
    if e.op == "column":
        return f"{unicode(e.args[0], MINUS)} 1ᵀ"
    return _called(e)


def is_unit(e: E) -> bool:
    """Whether it is a row of the identity: a unit vector."""
    inner = e.args[0]
    return e.op == "index" and places(e) == 1 and "," not in e.text and inner.op == "call" and inner.text == "eye"


def _lowered(e: E) -> str:
    return e.text[1:-1].translate(_LOWERED)


def by_entry(e: E) -> bool:
    """Whether it is an elementwise power of a matrix, which looks like a power of the matrix itself."""
    return (axes(e.args[0]) or 0) > 1


def _zeros(e: E, k: int) -> str:
    """Return the zeros before (0) or after (1) a padded vector, without their brackets."""
    return e.text.split("|")[k].strip("[]")


def _called(e: E) -> str:
    args = [unicode(a) for a in e.args]
    if e.text == "inv":
        return f"{unicode(e.args[0], ATOM)}⁻¹"
    if e.text == "outer":
        return f"{unicode(e.args[0], MINUS)} {unicode(e.args[1], ATOM)}ᵀ"
    if e.text == "eye":
        return "I"
    if e.text == "abs":
        return f"|{args[0]}|"
    if e.text == "norm":
        return f"‖{args[0]}‖"
    if e.text == "sqrt":
        return f"√{unicode(e.args[0], ATOM)}"
    return f"{e.text}({', '.join([*args, *(f'{k}={v}' for k, v in e.options)])})"


def _raised(e: E) -> str:
    base, p = e.args
    if base.op == Op.DOT and base.args[0] == base.args[1] and p.op == "number":
        return f"‖{unicode(base.args[0])}‖{written(2 * p.number).translate(_RAISED)}"
    if by_entry(e):
        return f"{unicode(base, ATOM)}^∘{unicode(p, ATOM)}"
    if p.op == "number" and isinstance(p.number, Fraction) and p.number.denominator == 1:
        return f"{unicode(base, ATOM)}{written(p.number).translate(_RAISED)}"
    return f"{unicode(base, ATOM)}^{unicode(p, ATOM)}"


def _sum(e: E, write: Write, gap: str) -> str:
    shown = write(e.args[0], SUM)
    for a in e.args[1:]:
        sign, inner = ("-", a.args[0]) if a.op == Op.NEG else ("+", a)
        shown += f"{gap}{sign}{gap}{write(inner, PRODUCT)}"
    return shown


def _product(e: E, write: Write, times: str) -> str:
    """Return a product: numbers are written next to their factor, arrays with the sign of the elementwise product."""
    shown = ""
    for k, a in enumerate(e.args):
        part = write(a, MINUS)
        plain = k and (is_scalar(a) or all(map(is_scalar, e.args[:k])))
        shown += part if not k else (" " if plain else times) + part
    return shown


_FUNCTIONS = {"exp", "log", "sin", "cos", "tan", "tanh", "sinh", "cosh", "det", "max", "min"}
_WORDS = {"trace": r"\operatorname{tr}", "sigmoid": r"\sigma", "eye": "I"}


def latex(e: E, within: int = COMPARE) -> str:
    """Return an expression in LaTeX; names are escaped."""
    shown = _latex(e)
    return rf"\left({shown}\right)" if _level(e) < within and (e.op != Op.DIV or within > MINUS) else shown


def name_in_latex(text: str) -> str:
    """Return a name in LaTeX: a letter, a Greek letter or a word; digits at its end are a subscript."""
    stem, digits = text.rstrip("0123456789"), text[len(text.rstrip("0123456789")) :]
    if stem in _GREEK:
        shown = "\\" + {"lam": "lambda", "lambda_": "lambda"}.get(stem, stem)
    else:
        words = "".join(f"\\{c}" if c in "_#$%&{}" else c for c in stem)
        shown = words if len(stem) == 1 else rf"\mathrm{{{words}}}"
    return f"{shown}_{{{digits}}}" if digits else shown


def _latex(e: E) -> str:
    if e.op == "name":
        return name_in_latex(e.text)
    if e.op == "number":
        shown = written(e.number)
        if isinstance(e.number, Fraction) and "/" in shown:
            return rf"\tfrac{{{e.number.numerator}}}{{{e.number.denominator}}}"
        return shown.replace("*", " ").replace("sqrt(", r"\sqrt{").replace(")", "}").replace("pi", r"\pi")
    if e.op == Op.NEG:
        return f"-{latex(e.args[0], PRODUCT)}"
    if e.op == Op.ADD:
        return _sum(e, latex, " ")
    if e.op == Op.MUL:
        return _product(e, latex, r" \odot ")
    if e.op == Op.DIV:
        return rf"\frac{{{latex(e.args[0])}}}{{{latex(e.args[1])}}}"
    if e.op == Op.MATMUL:
        return r" \, ".join(latex(a, MINUS) for a in e.args)
    if e.op == Op.DOT:
        a, b = e.args
        if a == b:
            return rf"\left\lVert {latex(a)} \right\rVert^{{2}}"
        return rf"{latex(a, ATOM)}^{{\top}} \, {latex(b, MINUS if b.op != 'matmul' else PRODUCT)}"
    if e.op == Op.POW:
        sign = r"\circ " if by_entry(e) else ""
        return rf"{latex(e.args[0], ATOM)}^{{{sign}{latex(e.args[1])}}}"
    if e.op == Op.TRANSPOSE:
        inner = e.args[0]
        if inner.op == "call" and inner.text == "inv":
            return rf"{latex(inner.args[0], ATOM)}^{{-\top}}"
        return rf"{latex(inner, ATOM)}^{{\top}}"
    if e.op == "compare":
        signs = {">=": r"\geq", "<=": r"\leq", "==": "=", "!=": r"\neq"}
        return rf"\left[{latex(e.args[0], SUM)} {signs.get(e.text, e.text)} {latex(e.args[1], SUM)}\right]"
    if e.op == "index":
        return rf"{'e' if is_unit(e) else latex(e.args[0], ATOM)}_{{{e.text[1:-1]}}}"
    if e.op == "concat":
        return rf"\left[{', '.join(filter(None, [_zeros(e, 0), latex(e.args[0]), _zeros(e, 1)]))}\right]"
    if e.op == "column":
        return rf"{latex(e.args[0], MINUS)} \, \mathbf{{1}}^{{\top}}"
    return _called_in_latex(e)


def _called_in_latex(e: E) -> str:
    args = ", ".join(latex(a) for a in e.args)
    if e.text == "inv":
        return rf"{latex(e.args[0], ATOM)}^{{-1}}"
    if e.text == "outer":
        return rf"{latex(e.args[0], MINUS)} \, {latex(e.args[1], ATOM)}^{{\top}}"
    if e.text == "norm":
        return rf"\left\lVert {args} \right\rVert"
    if e.text == "sqrt":
        return rf"\sqrt{{{args}}}"
    if e.text == "abs":
        return rf"\left|{args}\right|"
    if e.text == "eye":
        return "I"
    head = (
        f"\\{e.text}"
        if e.text in _FUNCTIONS
        else _WORDS.get(e.text, rf"\operatorname{{{e.text.replace('_', chr(92) + '_')}}}")
    )
    axis = next((rf"_{{\mathrm{{axis}}\,{v}}}" for k, v in e.options if k == "axis"), "")
    return rf"{head}{axis}\left({args}\right)"


def mathml(e: E) -> str:
    """Return an expression in presentation MathML."""
    return f'<math xmlns="http://www.w3.org/1998/Math/MathML">{_mathml(e)}</math>'


def _mathml(e: E, within: int = COMPARE) -> str:
    shown = _element(e)
    if _level(e) < within and (e.op != Op.DIV or within > MINUS):
        return f"<mrow><mo>(</mo>{shown}<mo>)</mo></mrow>"
    return shown


def _element(e: E) -> str:
    if e.op == "name":
        return f"<mi>{escape(_GREEK.get(e.text, e.text))}</mi>"
    if e.op == "number":
        return f"<mn>{escape(written(e.number))}</mn>"
    if e.op == Op.NEG:
        return f"<mrow><mo>-</mo>{_mathml(e.args[0], PRODUCT)}</mrow>"
    if e.op == Op.ADD:
        parts = [_mathml(e.args[0], SUM)]
        for a in e.args[1:]:
            parts.append(
                f"<mo>{'-' if a.op == Op.NEG else '+'}</mo>{_mathml(a.args[0] if a.op == Op.NEG else a, PRODUCT)}"
            )
        return f"<mrow>{''.join(parts)}</mrow>"
    if e.op in (Op.MUL, Op.MATMUL, Op.DOT):
        scalars = sum(not is_scalar(a) for a in e.args) < 2
        sign = "<mo>&#8290;</mo>" if e.op != Op.MUL or scalars else "<mo>&#8728;</mo>"
        return f"<mrow>{sign.join(_mathml(a, MINUS) for a in e.args)}</mrow>"
    if e.op == Op.DIV:
        return f"<mfrac>{_mathml(e.args[0])}{_mathml(e.args[1])}</mfrac>"
    if e.op == Op.POW:
        power = f"<mrow><mo>&#8728;</mo>{_mathml(e.args[1])}</mrow>" if by_entry(e) else _mathml(e.args[1])
        return f"<msup>{_mathml(e.args[0], ATOM)}{power}</msup>"
    if e.op == Op.TRANSPOSE:
        return f"<msup>{_mathml(e.args[0], ATOM)}<mo>&#8868;</mo></msup>"
    if e.op == "compare":
        return f"<mrow>{_mathml(e.args[0], SUM)}<mo>{escape(e.text)}</mo>{_mathml(e.args[1], SUM)}</mrow>"
    if e.op == "index":
        base = "<mi>e</mi>" if is_unit(e) else _mathml(e.args[0], ATOM)
        return f"<msub>{base}<mi>{escape(e.text[1:-1])}</mi></msub>"
    if e.op == "concat":
        ends = [f"<mn>{_zeros(e, k)}</mn>" if _zeros(e, k) else "" for k in (0, 1)]
        return f"<mrow><mo>[</mo>{'<mo>,</mo>'.join(filter(None, [ends[0], _mathml(e.args[0]), ends[1]]))}<mo>]</mo></mrow>"
    if e.op == "column":
        return f"<mrow>{_mathml(e.args[0], MINUS)}<msup><mn>1</mn><mo>&#8868;</mo></msup></mrow>"
    args = "<mo>,</mo>".join(_mathml(a) for a in e.args)
    if e.text == "inv":
        return f"<msup>{_mathml(e.args[0], ATOM)}<mrow><mo>-</mo><mn>1</mn></mrow></msup>"
    if e.text == "sqrt":
        return f"<msqrt>{args}</msqrt>"
    if e.text == "outer":
        return f"<mrow>{_mathml(e.args[0], MINUS)}<msup>{_mathml(e.args[1], ATOM)}<mo>&#8868;</mo></msup></mrow>"
    return f"<mrow><mi>{escape(e.text)}</mi><mo>(</mo>{args}<mo>)</mo></mrow>"
