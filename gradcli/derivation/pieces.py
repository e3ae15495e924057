"""What is joined to products of matrices: expressions that can be written with their axes in either order."""

from collections.abc import Callable
from dataclasses import dataclass

from gradcli.derivation.expression import E, mul, transpose
from gradcli.derivation.index import Index


@dataclass(frozen=True)
class Piece:
    """An expression that can be written with its axes in either order."""

    at: tuple[Index, ...]
    write: Callable[[tuple[Index, ...]], E]
    natural: tuple[Index, ...] = ()

    def e(self, at: tuple[Index, ...]) -> E:
        """Return the expression, its axes in this order."""
        return self.write(at)


def piece(e: E, at: tuple[Index, ...]) -> Piece:
    """Return an expression as a piece: in the other order it is transposed."""
    return Piece(at, lambda wanted: e if wanted == at else transpose(e), at)


@dataclass(frozen=True)
class Part:
    """A factor of a product: pieces of the same axes, over others."""

    at: tuple[Index, ...]
    top: tuple[Piece, ...]
    low: tuple[Piece, ...] = ()

    def e(self, at: tuple[Index, ...] | None = None) -> E:
        """Return the product, its axes in this order."""
        order = self.at if at is None else at
        return mul([x.e(order) for x in self.top], [x.e(order) for x in self.low])
