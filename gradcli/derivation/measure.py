"""How large a tensor's printed form is, so that a simplification is one for the reader."""

from collections.abc import Sequence

from gradcli.derivation.expression import E, Op
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
        operations = shared(e) + _RANK_TWO * _outers(e) + _squares(e)
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


def _squares(e: E) -> int:
    """Return how many squares of sigmoids there are: textbooks write s (1 - s)."""
    own = e.op == Op.POW and e.args[0].op == "call" and e.args[0].text == "sigmoid"
    return int(own) + sum(map(_squares, e.args))
