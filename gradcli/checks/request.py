"""The request to `check`: a function, its points, a claim and the options."""

from collections.abc import Mapping
from dataclasses import field

from gradcli.checks.evidence import Tolerance
from gradcli.checks.framework_claim import FrameworkClaim, Implementation
from gradcli.classes import dataclass
from gradcli.modes.claim import Claimed
from gradcli.modes.mode import Question
from gradcli.modes.recording import WITHOUT_LIMITS, Budget
from gradcli.request.options import DEFAULTS, Options
from gradcli.request.point import Point
from gradcli.targets.facts import Function, Notice, Surface
from gradcli.targets.layers import Layer
from gradcli.words import Derivative


@dataclass(frozen=True, slots=True)
class Request:
    """The request to check the gradient of a function at some points, by some modes, with or without a claim."""

    f: Function
    points: tuple[Point, ...]
    wrt: tuple[str, ...]
    modes: tuple[str, ...]
    claim: Claimed | None = None
    options: Options = DEFAULTS
    budget: Budget = WITHOUT_LIMITS
    notices: tuple[Notice, ...] = ()
    command: tuple[str, ...] = ()
    derivative: Derivative = "gradient"
    own: FrameworkClaim | None = None  # the framework's own gradient, if it is the claim
    implementation: Implementation | None = None  # the target, if f is its reference
    not_claimed: tuple[str, ...] = ()  # inputs that are differentiated by default, but not claimed
    to_widen: FrameworkClaim | None = (
        None  # the framework's gradient that is checked in float64, too, if the claim is narrow
    )
    surfaces: Mapping[str, Surface] = field(default_factory=dict)  # the sets that inputs are assumed to lie on
    layer: Layer | None = None  # the object of one's own that f evaluates
    for_verdict: bool = False  # the verdict is all that is asked: modes that cannot change it are left out

    @property
    def seed(self) -> int:
        """The seed of everything drawn."""
        return self.options.seed

    @property
    def accepted_errors(self) -> Tolerance | None:
        """The errors of the claim that the user accepts; None if none is given."""
        given = self.options.rtol is not None or self.options.atol is not None
        return Tolerance(self.options.rtol or 0.0, self.options.atol or 0.0) if given else None

    def question(self, point: Point, budget: Budget | None = None) -> Question:
        """Return the question for the modes at one point; `budget` replaces the request's own budget."""
        options = self.options
        return Question(self.f, point, self.wrt, self.seed, budget or self.budget, options.stepping, options.device)
