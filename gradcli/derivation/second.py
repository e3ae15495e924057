"""Second derivatives: the gradient's closed form, differentiated; by a matrix, the product of the Hessian and a direction."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gradcli.derivation.expression import E, text
from gradcli.derivation.problem import Problem, first_free
from gradcli.derivation.program import Program, program
from gradcli.derivation.verified import ALLOWED, Verifier
from gradcli.errors import GradcliError
from gradcli.source.expression import Expression

if TYPE_CHECKING:
    from gradcli.derivation.derive import Derivation

_OPEN = {"positive"}  # facts that hold all around a point: what they allow can be differentiated


@dataclass(frozen=True)
class Begun:
    """The gradient's closed form, at which a second derivative begins: as a function, as it is shown, and its names."""

    f: Expression
    made: Program
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


def begun(made: "Derivation", wrt: str) -> Begun | None:
    """Return the gradient's closed form, checked; None where it has none.

    What is assumed of the input itself holds at a point and not around it: inv(S).T is inv(S), and yet moves otherwise.
    """
    problem = made.problem
    words = problem.facts.get(wrt, frozenset())
    facts = {**problem.facts, wrt: words & _OPEN}
    dims = {n: d for n, d in problem.dims.items() if n != problem.direction}
    own = replace(problem, order=1, dims=dims, facts=facts, direction=None, layout="denominator")
    drawn = replace(own, facts={**facts, wrt: frozenset("symmetric" if w == "tied" else w for w in words)})
    try:
        closed = type(made)(own, made.sizes, made.points).closed(wrt)
        f = Expression(program(closed.e, [*dims, *made.sizes], closed.known, least=1).text())  # each part moves once
        if not Verifier(drawn, made.sizes, wrt, "gradient").error(f) <= ALLOWED:
            return None
    except GradcliError:  # the recorded gradient may have a derivative that has a form all the same
        return None
    return Begun(f, closed.made, {e: name for e, name in closed.known.items() if name != problem.direction})
