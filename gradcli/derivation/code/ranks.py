"""The number of axes of an expression, by which code can tell arrays from Python's own numbers."""

from collections.abc import Mapping

from gradcli.derivation.expression import E, Op, places
from gradcli.errors import NotSupported

PLAIN = -1  # the rank of a Python number: a literal, or the length of an axis
_SCALAR_VALUED = {"det", "trace", "norm"}
_REDUCED = {"sum", "mean", "var", "logsumexp", "prod", "max", "min"}
_FIXED = {"arange": 1, "outer": 2, "eye": 2, "inv": 2, "eigvalsh": 1, "svdvals": 1}


def rank(e: E, known: Mapping[str, int]) -> int:
    """Return the number of axes; PLAIN for a number of Python's own. Names that are not known are sizes.

    Raises  NotSupported for a product by `@` of operands that do not have one or two axes.
    """
    args = [rank(a, known) for a in e.args]
    if e.op == "name":
        return known.get(e.text, PLAIN)
    if e.op in (Op.MATMUL, Op.DOT):
        return _product(args)
    if e.op == "index":
        return args[0] - places(e)
    if e.op in ("column", "concat"):
        return args[0] + (e.op == "column")
    if e.op != "call":
        return max(args, default=PLAIN)
    if e.text in _REDUCED and args != [PLAIN]:
        return args[0] - 1 if e.options else 0
    if e.text in ("ones", "zeros"):
        return len(args)
    if e.text == "einsum":
        return len(dict(e.options)["first"].strip('"').partition("->")[2])
    if e.text == "diag":
        return 3 - args[0]
    if e.text in _SCALAR_VALUED:
        return 0
    if e.text == "solve":
        return args[1]
    return _FIXED.get(e.text, max(args, default=PLAIN))


def _product(ranks: list[int]) -> int:
    """Return the rank of a chain of products, from the left: each takes one axis of both sides."""
    if not all(r in (1, 2) for r in ranks):
        raise NotSupported("an operand of @ or dot must have one or two axes")
    left, *rest = ranks
    for right in rest:
        if left < 1:
            raise NotSupported("a scalar cannot be an operand of @")
        left = left + right - 2
    return left


def axes(e: E) -> int | None:
    """Return the number of axes, names without known axes being plain numbers; None for a plain number or an unsupported `@`."""
    names = [a for a in e.walk() if a.op == "name" and a.axes is not None]
    try:
        found = rank(e, {a.text: a.axes for a in names if a.axes is not None})
    except NotSupported:
        return None
    return None if found == PLAIN else found
