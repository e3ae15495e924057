"""Check a Jacobian that is too large to hold, by its product with one random vector of outputs."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from gradcli.modes.claim import Claimed, WrongShape, in_shape
from gradcli.modes.mode import Question
from gradcli.report.common import Finding, finding
from gradcli.targets.derived import Weighted
from gradcli.tracing.primitive import Value
from gradcli.tracing.shapes import shape, size
from gradcli.words import Kind, Severity


class ProjectedClaim:
    """The product w J of a vector and the claimed Jacobian; sparse matrices and LinearOperators stay as they are.

    Shapes  `w` has the shape of the output, the product for each input the shape of the input.
    """

    def __init__(self, claim: Claimed, w: Any) -> None:
        self.text, self.place = claim.text, claim.place
        self.precision = replace(claim.precision, typical=lambda values: None)
        self.claim = claim
        self.w = w

    @property
    def names(self) -> tuple[str, ...]:
        return self.claim.names

    @property
    def mutates(self) -> bool:
        return self.claim.mutates

    def __call__(self, values: Mapping[str, Value]) -> dict[str, Any]:
        return {name: self._projected(name, x, values[name]) for name, x in self.claim(values).items()}

    def _projected(self, name: str, x: Any, at: Any) -> Any:
        if not isinstance(x, np.ndarray):
            expected = (size(self.w), size(at))
            if x.shape != expected:
                raise WrongShape(
                    f"the claimed Jacobian of {name} has shape {x.shape}; the right one has shape {expected}"
                )
            product = x.rmatvec(np.ravel(self.w)) if hasattr(x, "rmatvec") else x.T @ np.ravel(self.w)
            return np.reshape(product, shape(at))
        return np.tensordot(self.w, in_shape(name, x, shape(self.w), shape(at)), np.ndim(self.w))


def projected(q: Question, claim: Claimed | None) -> tuple[Question, Claimed | None, Finding]:
    """Return the question for w . f with random weights w, the claim of its gradient, and a finding that says so."""
    rng = np.random.default_rng([q.seed, 0x9905])
    w = rng.uniform(0.5, 1.5, shape(q.value)) * rng.choice([-1.0, 1.0], shape(q.value))
    entries = sum(size(x) for x in q.xs)
    says = (
        f"the Jacobian has {size(q.value):,} x {entries:,} entries; checked is its product with one random vector "
        f"of outputs (seed {q.seed})"
    )
    point = replace(q.point, value=None, seconds=None)
    weighted = replace(q, f=Weighted(q.f, w, f"w . {q.f.text}"), point=point)
    return weighted, ProjectedClaim(claim, w) if claim else None, finding(Kind.PROJECTION, Severity.INFO, says)
