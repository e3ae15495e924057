"""What a case of released code is, and mistakes that somebody could make in its gradient."""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

Claim = Callable[..., Any]
Kind = Literal["grad", "jac", "hess", "jvp", "hvp", "value_and_grad", "framework"]


@dataclass(frozen=True, slots=True)
class Case:
    """A released function with its hand-written gradient at a point, and what a check says of it.

    name        The function, as its package calls it.
    f           The function.
    at          The point: values in the order of the parameters.
    claim       The gradient that the package has; None where f returns it too, or where it is a backward pass of f.
    wrong       The claim with a mistake planted in it; the function, where the claim is None.
    kind        The derivative that the claim is; `framework` for a backward pass that f registers in its framework.
    glue        Lines of Python that a user has to write beyond imports, data and the names of the two functions.
    decided_by  The mode that the claim is compared with; empty for the usual one.
    ended_by    A part of what ended the trace, by its message or its line; None where nothing did.
    options     Options of the check.
    """

    name: str
    f: Claim
    at: tuple[Any, ...]
    claim: Claim | None
    wrong: Claim
    kind: Kind = "grad"
    glue: int = 0
    decided_by: str = ""
    ended_by: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def reference(self) -> str:
        """The mode that decides, where the case names none: proved values, or function values where the trace ended."""
        return self.decided_by or ("certified" if self.ended_by is None else "finite-difference")


def after(claim: Claim, change: Callable[..., Any]) -> Claim:
    """Return the claim with its result changed: `change(result, *arguments)`."""

    @functools.wraps(claim)
    def wrong(*args: Any) -> Any:
        return change(claim(*args), *args)

    return wrong


def negated(claim: Claim) -> Claim:
    """Return the claim with its sign flipped: the gradient of a loss for that of a likelihood."""
    return after(claim, lambda g, *_: -np.asarray(g))


def scaled(claim: Claim, factor: float) -> Claim:
    """Return the claim with a factor too much: a forgotten 1/2, 1/n or chain rule."""
    return after(claim, lambda g, *_: factor * np.asarray(g))


def lost(claim: Claim, *index: int) -> Claim:
    """Return the claim with one entry, or one row, left at zero."""

    def change(g: Any, *_: Any) -> Any:
        g = np.array(g, dtype=float)
        g[index] = 0.0
        return g

    return after(claim, change)


def flipped(claim: Claim, *index: int) -> Claim:
    """Return the claim with the sign of one entry, or of one row, flipped."""

    def change(g: Any, *_: Any) -> Any:
        g = np.array(g, dtype=float)
        g[index] *= -1
        return g

    return after(claim, change)


def transposed(claim: Claim) -> Claim:
    """Return the claim, a matrix, transposed."""
    return after(claim, lambda g, *_: np.asarray(g).T)


def second(both: Claim, mistake: Callable[..., Claim], *more: Any) -> Claim:
    """Return a function of value and gradient with a mistake planted in its gradient."""

    def change(found: Any, *_: Any) -> Any:
        return found[0], mistake(lambda: found[1], *more)()

    return after(both, change)
