"""Jacobians, as the coefficient of the seed of a reverse sweep, and second derivatives, as the gradient differentiated again."""

from dataclasses import dataclass, replace

from gradcli.derivation.expression import E, text
from gradcli.derivation.index import Atom, Factor, Index, Tensor, Term, add, fresh, of_atom
from gradcli.derivation.problem import Problem, first_free
from gradcli.derivation.products import identity, multiply, product, sum_over, tidied
from gradcli.derivation.simplify import expanded
from gradcli.derivation.statements import Statements
from gradcli.derivation.units import cut, rows
from gradcli.derivation.whole import uncrossed
from gradcli.errors import NotSupported
from gradcli.targets.expression import Expression


def unseeded(x: Tensor, seed: str, output: tuple[Index, ...]) -> Tensor:
    """Return the Jacobian: the coefficient of the seed, a tensor with the indices of the output first.

    Raises  NotSupported if the seed is inside a function that is not opened.
    """
    free = (*output, *x.free)
    parts = []
    for term in _linear(x, seed).terms:
        f = next(f for f in term.factors if _is_seed(f.atom, seed))
        own = tuple(dict.fromkeys((*x.free, *f.at)))
        rest = Tensor(own, (Term(term.coef, tuple(g for g in term.factors if g is not f)),))
        whole = multiply(rest, product(_coefficient(f, output)))
        parts.append(sum_over(whole, [i for i in own if i not in x.free]))
    return Tensor(free, tuple(tidied(t, free) for t in add(parts, free).terms))


def _coefficient(f: Factor, output: tuple[Index, ...]) -> list[Tensor]:
    """Return the derivative of the seed, or of a part of it, by the output: identities, cut in the same way."""
    if f.atom.op != "slice":
        return [of_atom(identity(i.dim), (o, i)) for i, o in zip(f.at, output, strict=True)]
    (g,) = f.atom.args[0].terms[0].factors
    k = f.atom.axes[0]
    whole = fresh(g.at[k].dim)
    at = tuple(whole if n == k else i for n, i in enumerate(f.at))
    found = _coefficient(g._replace(at=at), output)
    return [cut(c, whole, f.at[k], f.atom.name) if whole in c.free else c for c in found]


def _linear(x: Tensor, seed: str) -> Tensor:
    """Return a tensor with brackets around the seed opened, so that the seed is a factor of each term."""
    pending, done = list(x.terms), []
    while pending:
        term = pending.pop()
        if any(_is_seed(f.atom, seed) for f in term.factors):
            done.append(term)
            continue
        f = next((f for f in term.factors if f.power == 1 and _holds(f.atom, seed)), None)
        if f is not None and f.atom.op == "group":
            pending += expanded(term, f, x.free).terms
        elif f is not None and f.atom.op == "pad":
            pending += _unpadded(term, f, x.free).terms
        elif f is not None and f.atom.op == "cross":
            (i,) = f.at
            kept = tuple(dict.fromkeys((*x.free, i)))
            rest = Tensor(kept, (Term(term.coef, tuple(g for g in term.factors if g is not f)),))
            parts = [multiply(rest, Tensor(f.at, (part,))) for part in uncrossed(f).terms]
            pending += [t for part in parts for t in (part if i in x.free else sum_over(part, [i])).terms]
        else:
            raise NotSupported("an index of an indexed array has no derivative in closed form")
    return add([Tensor(x.free, (t,)) for t in done], x.free)


def _unpadded(term: Term, f: Factor, free: tuple[Index, ...]) -> Tensor:
    """Return a term with a padded vector as the product of rows of the identity and the vector."""
    (inside,) = f.atom.args
    (i,), (old,) = f.at, inside.free
    new = fresh(old.dim)
    whole = sum_over(multiply(inside.renamed({old: new}), rows(f.atom.name, new, i)), [new])
    kept = tuple(dict.fromkeys((*free, i)))
    rest = Tensor(kept, (Term(term.coef, tuple(g for g in term.factors if g is not f)),))
    parts = [multiply(rest, Tensor((i,), (t,))) for t in whole.terms]
    return add([sum_over(p, [i]) if i not in free else p for p in parts], free)


def _is_seed(atom: Atom, seed: str) -> bool:
    """Whether an atom is the seed, or a part of it."""
    while atom.op == "slice":
        atom = atom.args[0].terms[0].factors[0].atom
    return atom.op == "input" and atom.name == seed


def _holds(atom: Atom, name: str) -> bool:
    """Whether an atom is, or is made of, an input."""
    if atom.op == "input":
        return atom.name == name
    return any(_holds(f.atom, name) for a in atom.args for t in a.terms for f in t.factors)


OPEN = {"positive"}  # facts that hold all around a point, so that what they imply can be differentiated


@dataclass(frozen=True)
class Begun:
    """The gradient's closed form, from which a second derivative starts: as a function, as statements, and with its names."""

    f: Expression
    made: Statements
    known: dict[E, str]

    def text(self, letter: str) -> str:
        """Return the gradient as statements; the last one gives it its letter."""
        return "; ".join([*(f"{n} = {text(e)}" for n, e in self.made.parts), f"{letter} = {text(self.made.result)}"])


def directed(problem: Problem, wrt: str) -> Problem:
    """Return the problem with a direction as an extra input, if the second derivative has four indices or more."""
    dims = problem.dims[wrt]
    if len(dims) < 2:
        return problem
    v = first_free(("V", f"d{wrt}"), "V", {*problem.dims, *problem.names})
    tied = "tied" in problem.facts.get(wrt, ())
    facts = {**problem.facts, **({v: frozenset({"symmetric"})} if tied else {})}
    return replace(problem, dims={**problem.dims, v: dims}, facts=facts, direction=v)
