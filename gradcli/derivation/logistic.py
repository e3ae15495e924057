"""sigmoid(-t) is 1 - sigmoid(t): written so where a sum has both, and becomes smaller by it."""

from collections.abc import Callable, Iterator
from fractions import Fraction

from gradcli.derivation.index import Factor, Index, Tensor, Term, add, function, outside, scaled

SAYS = "sigmoid(-t) is 1 - sigmoid(t)"
_FEW = 3  # terms of a bracket that is opened beside a sigmoid: 1 - y, not a layer
Expand = Callable[[Term, Factor, tuple[Index, ...]], Tensor]


def complemented(x: Tensor, expand: Expand) -> Iterator[Tensor]:
    """Yield the sum with one sigmoid(-t) as 1 - sigmoid(t), for each that another term has as sigmoid(t), brackets opened."""
    for k, term in enumerate(x.terms):
        for f in term.factors:
            if f.atom.op != "expit" or f.power != 1:
                continue
            other = function("expit", [scaled(outside(f), Fraction(-1))], f.at).terms[0].factors[0]
            beside = [j for j, t in enumerate(x.terms) if j != k and any(g.atom == other.atom for g in t.factors)]
            if beside:
                left = tuple(g for g in term.factors if g is not f)
                parts = [Term(term.coef, left), Term(-term.coef, (*left, other)), *(x.terms[j] for j in beside)]
                rest = [Tensor(x.free, (t,)) for j, t in enumerate(x.terms) if j != k and j not in beside]
                yield add([*rest, *(_opened(part, x, expand) for part in parts)], x.free)


def _opened(term: Term, x: Tensor, expand: Expand) -> Tensor:
    f = next((f for f in term.factors if f.atom.op == "group" and f.power == 1 and _small(f)), None)
    if f is None:
        return Tensor(x.free, (term,))
    return add([_opened(part, x, expand) for part in expand(term, f, x.free).terms], x.free)


def _small(f: Factor) -> bool:
    return 1 < len(f.atom.args[0].terms) <= _FEW
