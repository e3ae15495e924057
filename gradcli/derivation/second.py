"""Second derivatives: the gradient's closed form, differentiated; by a matrix, the product of the Hessian and a direction."""

from dataclasses import dataclass, replace

from gradcli.derivation.expression import E, text
from gradcli.derivation.problem import Problem, first_free
from gradcli.derivation.statements import Statements
from gradcli.source.expression import Expression

OPEN = {"positive"}  # facts that hold all around a point: what they allow can be differentiated


@dataclass(frozen=True)
class Begun:
    """The gradient's closed form, at which a second derivative begins: as a function, as it is shown, and its names."""

    f: Expression
    made: Statements
    known: dict[E, str]

    def text(self, letter: str) -> str:
        """Return it as statements, the last of which gives its name."""
        return "; ".join([*(f"{n} = {text(e)}" for n, e in self.made.parts), f"{letter} = {text(self.made.result)}"])


def directed(problem: Problem, wrt: str) -> Problem:
    """Return the problem with a direction as one more input where the second derivative has four indices or more."""
    dims = problem.dims[wrt]
    if len(dims) < 2:
        return problem
    v = first_free(("V", f"d{wrt}"), "V", {*problem.dims, *problem.names})
    tied = "tied" in problem.facts.get(wrt, ())
    facts = {**problem.facts, **({v: frozenset({"symmetric"})} if tied else {})}
    return replace(problem, dims={**problem.dims, v: dims}, facts=facts, direction=v)
