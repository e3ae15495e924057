"""The order in which a chain of products is computed: what makes vectors comes first."""

from collections.abc import Mapping
from dataclasses import replace

from gradcli.derivation.code.ranks import rank
from gradcli.derivation.expression import E, Op


def chained(e: E, known: Mapping[str, int]) -> E:
    """Return an expression whose matrices are multiplied by the vector after them from the right: A.T @ (A @ x).

    From the left, A.T @ A would be a product of matrices. `known` has the ranks of names. Raises NotSupported.
    """
    args = tuple(chained(a, known) for a in e.args)
    first = next((k for k, a in enumerate(args) if rank(a, known) == 1), 0) if e.op == Op.MATMUL else 0
    if not first:
        return replace(e, args=args)
    inner = args[first]
    for a in reversed(args[1:first]):
        inner = E(Op.MATMUL, (a, inner))
    return E(Op.MATMUL, (args[0], inner, *args[first + 1 :]))
