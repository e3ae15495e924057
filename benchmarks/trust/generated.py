"""What the generated classes share: a function, claims about its gradient whose truth is known, and what gradcli says."""

import itertools
import linecache
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import mpmath
import numpy as np

mp = mpmath.MPContext()
mp.dps = 50  # of what is true

Target = Callable[..., Any] | str
Gradient = dict[str, Any]

_numbers = itertools.count()


SMALLEST_KINK = 2e-6  # relative: the slopes beside it differ by so much, which a limit above it does not see


@dataclass(frozen=True)
class Claim:
    """A claimed gradient, and what is true of it.

    right        the gradient: a check that fails it is a false alarm
    subgradient  f has no gradient there, and this is a subgradient: as right, but a pass has to say that there is a kink
    wrong        its worst entry is off by `error`, relative to that entry or, at a kink, to the largest slope along it
    open         both verdicts can be defended
    """

    truth: str
    says: str
    gradient: Gradient
    error: float = np.inf


@dataclass(frozen=True)
class Generated:
    """A function and claims about it at one point. `make` returns it anew, since functions may remember their calls."""

    family: str
    name: str
    make: Callable[[], Target]
    at: dict[str, Any]
    claims: tuple[Claim, ...]


@dataclass(frozen=True)
class Answer:
    """What gradcli said of one claim."""

    family: str
    function: str
    truth: str
    says: str
    error: float
    status: int
    verdict: str
    detects: float | None
    findings: tuple[str, ...]
    diagnosis: str
    message: str
    seconds: float = field(compare=False)

    @property
    def missed(self) -> bool:
        """Whether a wrong claim passed although its error is beyond what the pass says it sees."""
        return self.truth == "wrong" and self.verdict == "pass" and not self.unseen

    @property
    def unseen(self) -> bool:
        """Whether the error is below what the check says it sees."""
        return self.detects is not None and self.error <= self.detects

    @property
    def silent(self) -> bool:
        """Whether a subgradient passed without a word of the kink."""
        seen = self.detects is None or self.detects < SMALLEST_KINK
        said = {"kink", "subgradient"} & {*self.findings}
        return self.truth == "subgradient" and self.verdict == "pass" and seen and not said


def asked(case: Generated) -> Iterator[Answer]:
    """Yield what gradcli says of each claim of a case, at its defaults."""
    for claim in case.claims:
        yield _answer(case, claim)


def _answer(case: Generated, claim: Claim) -> Answer:
    import gradcli

    start = time.perf_counter()
    at = {name: np.array(x, dtype=float) if np.ndim(x) else float(x) for name, x in case.at.items()}
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            report = gradcli.check(case.make(), at, grad=lambda **_: dict(claim.gradient))
        except Exception as error:  # a crash is a result
            words = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
            said: tuple[Any, ...] = (2, "error", None, (), "", words)
        else:
            (point,) = report.points
            kinds = tuple(f.kind for f in point.findings)
            named = "" if point.diagnosis is None else point.diagnosis.kind
            said = (report.exit_status, report.verdict, report.detects.relative, kinds, named, report.sentence())
    seconds = time.perf_counter() - start
    return Answer(case.family, case.name, claim.truth, claim.says, claim.error, *said, seconds=seconds)


def compiled(source: str, names: dict[str, Any]) -> Callable[..., Any]:
    """Return the function `f` of a source text, whose lines tracebacks and reports can show."""
    file = f"<generated {next(_numbers)}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    found = dict(names)
    exec(compile(source, file, "exec"), found)
    return found["f"]  # type: ignore[no-any-return]


def scale(rng: np.random.Generator, low: float, high: float) -> float:
    """Return a number between two powers of ten, uniform in its exponent, with three digits."""
    return float(f"{10 ** rng.uniform(low, high):.2e}")


def pick(rng: np.random.Generator, options: Any) -> Any:
    """Return one of the options."""
    return options[int(rng.integers(len(options)))]
