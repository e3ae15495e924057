"""How large a tensor's printed form is, so that a simplification is one for the reader."""

from collections.abc import Sequence
from fractions import Fraction

from gradcli.derivation.expression import E, Op, number
from gradcli.derivation.index import Index, Tensor
from gradcli.derivation.matrices import Printer
from gradcli.derivation.simplify import bulk
from gradcli.errors import NotSupported

_UNPRINTABLE = 10**6
_RANK_TWO = 3  # operations an outer product in another product counts for: it makes a matrix of two vectors


def measure(printer: Printer, x: Tensor, axes: Sequence[Index | None]) -> int:
    """Return the size of a tensor's printed form; one without a matrix form is larger than any that has one."""
    try:
        e = printer.write(x, axes)
        operations = shared(e) + _RANK_TWO * _outers(e) + _unfactored(e)
        return 1_000_000 * operations + 1_000 * e.size + bulk(x)
    except NotSupported:
        return _UNPRINTABLE * 1_000_000 + bulk(x)


def shared(e: E) -> int:
    """Return the number of operations, those of a part that occurs again counted once, as where it has a name."""
    found = {a for a in e.walk() if a.size}
    return sum(a.size - sum(b.size for b in a.args) for a in found)


def _outers(e: E, inside: bool = False) -> int:
    """Return how many outer products are inside other products."""
    own = inside and e.op == "call" and e.text in ("outer", "einsum")
    deeper = inside or e.op == Op.MATMUL or (e.op == "call" and e.text in ("trace", "sum", "einsum"))
    return int(own) + sum(_outers(a, deeper) for a in e.args)


def _unfactored(e: E) -> int:
    """Return what powers count for that textbooks write as slopes: s (1 - s) of a sigmoid, h (1 - h**2) of tanh."""
    own = _SLOPES.get((e.args[0].text, e.args[1]), 0) if e.op == Op.POW and e.args[0].op == "call" else 0
    return own + sum(map(_unfactored, e.args))


_SLOPES = {("sigmoid", number(Fraction(2))): 1, ("tanh", number(Fraction(3))): 2}  # operations that the slope has more
