"""`check`: is the gradient right, and how small an error would have been seen?"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gradcli.core.shapes import shape
from gradcli.exits import Exit, worst
from gradcli.modes.claim import Claim, ClaimedExpressions, WrongShape
from gradcli.modes.mode import Contradiction, Question
from gradcli.modes.registry import MODES
from gradcli.numerics.kinks import Mark
from gradcli.point import Array, Estimate, Point, Witness
from gradcli.report.check import CheckReport, Detects, Diagnosis, Entries, Mismatch, ModeResult, PointReport
from gradcli.report.common import Finding, Target, finding
from gradcli.report.encode import ABSENT
from gradcli.source.function import Function
from gradcli.verify.compare import AGREE, CANNOT_TELL, DISAGREE, Outcome, Tolerance, allowed, entrywise, reference_of, run
from gradcli.verify.diagnose import diagnose
from gradcli.verify.environment import environment
from gradcli.verify.witness import directional

_STATUS = {"pass": Exit.CONFIRMED, "fail": Exit.WRONG, "inconclusive": Exit.INCONCLUSIVE}
_NEAR_ZERO = 1e-6  # of the largest entry: smaller ones are compared as if they were this large


@dataclass(frozen=True, slots=True)
class Request:
    """What `check` was asked."""

    f: Function
    points: tuple[Point, ...]
    wrt: tuple[str, ...]
    modes: tuple[str, ...]
    claim: ClaimedExpressions | None = None
    seed: int = 0
    fixed: Tolerance | None = None
    mode_timeout: float = 10.0
    allow: frozenset[str] = frozenset()
    allow_inconclusive: bool = False
    command: tuple[str, ...] = ()


def check(request: Request) -> CheckReport:
    """Verify the gradient at each point and return everything found."""
    with np.errstate(all="ignore"):
        points = tuple(_point(request, point) for point in request.points)
    status = worst(_STATUS[point.verdict] for point in points)
    verdict = next(word for word, exit_ in _STATUS.items() if exit_ == status)
    return CheckReport(
        target=Target(request.f.kind, request.f.text),
        claim=request.claim.text if request.claim else None,
        seed=request.seed,
        command=request.command,
        exit_status=_excused(request, status, points),
        verdict=verdict,
        detects=max((point.detects for point in points), key=lambda d: -1.0 if d.relative is None else d.relative),
        points=points,
        environment=environment(),
    )


def _excused(request: Request, status: Exit, points: Sequence[PointReport]) -> int:
    """`--allow` turns the findings it names into success; never a timeout unless it is named."""
    if status is not Exit.INCONCLUSIVE:
        return int(status)
    kinds = {f.kind for point in points for f in point.findings if f.severity == "inconclusive"}
    excused = kinds <= request.allow or (request.allow_inconclusive and "timeout" not in kinds)
    return int(Exit.CONFIRMED if kinds and excused else status)


@dataclass
class _Case:
    """One point under way: what the modes said, and what was found."""

    q: Question
    outcomes: dict[str, Outcome]
    reference: str | None
    fixed: Tolerance | None
    claimed: tuple[str, ...] | None = None
    findings: list[Finding] = field(default_factory=list)
    verdicts: dict[str, dict[str, Any]] = field(default_factory=dict)
    diagnosis: Diagnosis | None = None

    def estimate(self, mode: str) -> Estimate:
        """The estimate of a mode that answered."""
        found = self.outcomes[mode].estimate
        if found is None:
            raise KeyError(mode)
        return found

    def inconclusive(self, kind: str, message: str, **where: Any) -> None:
        """Note why there may be no verdict."""
        self.findings.append(finding(kind, "inconclusive", message, **where))


def _point(request: Request, point: Point) -> PointReport:
    q = Question(request.f, point, request.wrt, request.seed, request.mode_timeout)
    modes = [MODES[name] for name in request.modes]
    outcomes = run(q, modes)
    case = _Case(q, outcomes, reference_of(outcomes), request.fixed)
    for message, span in request.f.survey(point.values)[1]:
        case.findings.append(finding("notice", "warning", message, at=span))
    _place_findings(case)
    if request.claim is not None:
        _add_claim(case, request.claim)
    _compare_all(case)
    verdict = _verdict(case)
    return _report(case, verdict)


def _place_findings(case: _Case) -> None:
    """What the recorded run says about the place: not finite, kinks, staircases."""
    q = case.q
    bad = q.not_finite
    if bad is not None:
        case.inconclusive("non-finite", bad.says, at=_span(bad), operation=_operation(bad), hint="move the point into the domain of the function")
        return
    for mark in q.kinks:
        names = _reached(q, mark)
        where = f" at {names}" if names else ""
        case.inconclusive(
            "kink", f"f has a kink{where}: {mark.says}", at=_span(mark), operation=_operation(mark),
            hint="the value shown is a convention; move the point, or accept it: --allow kink",
        )  # fmt: skip
    for mark in q.staircases:
        case.inconclusive("staircase", mark.says, at=_span(mark), operation=_operation(mark), hint="accept it: --allow staircase")


def _span(mark: Mark) -> Any:
    return getattr(mark.line[5], "span", None)


def _operation(mark: Mark) -> str | None:
    return None if mark.line[0] is None else mark.line[0].name


def _reached(q: Question, mark: Mark) -> str:
    """Return the entries a kink reaches, `x[1] = 0`, three at most."""
    found = []
    for name, x, mask in zip(q.wrt, q.xs, mark.reach, strict=True):
        for at in np.argwhere(mask)[:3]:
            entry = f"{name}[{','.join(map(str, at))}]" if len(at) else name
            found.append(f"{entry} = {float(np.asarray(x)[tuple(at)]):.6g}")
    return ", ".join(found[:3])


def _add_claim(case: _Case, claimed: ClaimedExpressions) -> None:
    claim = Claim(claimed)
    case.claimed = claimed.names
    try:
        estimate = claim.gradient(case.q)
    except WrongShape as error:
        case.diagnosis = Diagnosis("shape", error.what)
        case.outcomes = {"claim": Outcome(claim, "failed", error=error)} | case.outcomes
        return
    case.outcomes = {"claim": Outcome(claim, "ok", estimate)} | case.outcomes


def _scale(case: _Case) -> float:
    """Return the size of gradient below which entries count as zero."""
    if case.reference is None:
        return 0.0
    g = case.estimate(case.reference).value
    largest = max((float(np.max(np.abs(v[np.isfinite(v)]), initial=0.0)) for v in map(np.atleast_1d, g.values())), default=0.0)
    x = max((float(np.max(np.abs(x), initial=0.0)) for x in case.q.xs), default=0.0)
    value = np.abs(np.atleast_1d(case.q.value))
    return _NEAR_ZERO * max(largest, float(np.max(value[np.isfinite(value)], initial=0.0)) / max(x, 1.0))


def _compare_all(case: _Case) -> None:
    if case.reference is None:
        return
    right, scale = case.estimate(case.reference), _scale(case)
    for mode, outcome in case.outcomes.items():
        if outcome.estimate is None:
            continue
        fixed = case.fixed if mode == "claim" else None
        words = {}
        for k, name in enumerate(case.q.wrt):
            if name in outcome.estimate.value:
                word = entrywise(outcome.estimate, right, name, scale, fixed)
                if mode == "claim":
                    word = np.where(~np.isfinite(outcome.estimate.value[name]) & np.isfinite(right.value[name]), DISAGREE, word)
                words[name] = np.where(np.broadcast_to(case.q.undecided[k], word.shape), CANNOT_TELL, word)
        case.verdicts[mode] = words


def _independent(a: Outcome, b: Outcome) -> bool:
    return not (a.mode.rests_on & b.mode.rests_on)


def _witnessed(case: _Case) -> dict[str, Any]:
    """Return, for each input, which entries two modes agree on that rest on nothing in common."""
    names = [mode for mode in case.verdicts if mode != "claim"]
    confirmed = {name: np.zeros(shape(case.q.value) + shape(x), dtype=bool) for name, x in zip(case.q.wrt, case.q.xs, strict=True)}
    for i, a in enumerate(names):
        for b in names[i + 1 :]:
            if _independent(case.outcomes[a], case.outcomes[b]):
                for name, mask in confirmed.items():
                    mask |= (case.verdicts[a][name] == AGREE) & (case.verdicts[b][name] == AGREE)
    return confirmed


def _guarded(case: _Case, confirmed: dict[str, Any]) -> None:
    """Where a certified value has no second witness entry by entry, one direction of the untouched function must do."""
    if case.reference != "certified" or all(np.all(mask | u) for mask, u in zip(confirmed.values(), case.q.undecided, strict=True)):
        return
    direction = directional(case.q, case.estimate("certified"))
    if direction.agrees is False:
        case.inconclusive("trace", "the trace differs from the function: a difference of the untouched function contradicts it")
    elif direction.agrees:
        for name, word in case.verdicts["certified"].items():
            confirmed[name] = confirmed[name] | (word == AGREE)
        case.findings.append(finding("direction", "info", f"the untouched function confirms one random direction to {direction.relative:.0e}"))


def _verdict(case: _Case) -> str:
    if case.q.not_finite is not None and case.diagnosis is None:
        return "inconclusive"
    contradictions = [o for o in case.outcomes.values() if isinstance(o.error, Contradiction)]
    if contradictions:
        case.findings.append(finding("contradiction", "error", str(contradictions[0].error)))
        return "fail" if case.claimed is None else "inconclusive"
    if case.diagnosis is not None:
        return "fail"
    for name, outcome in case.outcomes.items():
        if outcome.status == "timeout":
            case.findings.append(finding("timeout", "info", f"{name}: {outcome.error}"))
    if case.reference is None:
        case.inconclusive("no second witness", "no mode answered", hint="--modes all")
        return "inconclusive"
    confirmed = _witnessed(case)
    _guarded(case, confirmed)
    return _claim_verdict(case, confirmed) if case.claimed is not None else _own_verdict(case, confirmed)


def _claim_verdict(case: _Case, confirmed: dict[str, Any]) -> str:
    words = case.verdicts["claim"]
    wrong = any(np.any((word == DISAGREE) & confirmed[name]) for name, word in words.items())
    if wrong:
        case.diagnosis = diagnose(case.estimate("claim").value, case.estimate(str(case.reference)).value)
        return "fail"
    right = all(np.all((word == AGREE) & confirmed[name]) for name, word in words.items())
    if right and not _blocked(case):
        _weak_evidence(case)
        return "pass"
    _why_not(case, confirmed, words)
    return "inconclusive"


def _own_verdict(case: _Case, confirmed: dict[str, Any]) -> str:
    for mode, words in case.verdicts.items():
        if any(np.any(word == DISAGREE) for word in words.values()):
            case.inconclusive("disagreement", f"{mode} disagrees with {case.reference}", hint="compare-modes shows both")
    if all(np.all(mask) for mask in confirmed.values()) and not _blocked(case):
        _weak_evidence(case)
        return "pass"
    _why_not(case, confirmed, {})
    return "inconclusive"


def _blocked(case: _Case) -> bool:
    return any(f.severity == "inconclusive" for f in case.findings)


def _why_not(case: _Case, confirmed: dict[str, Any], words: dict[str, Any]) -> None:
    """Say why there is no verdict, if nothing said it yet."""
    if _blocked(case):
        return
    answered = [o.mode for name, o in case.outcomes.items() if o.estimate is not None and name != "claim"]
    rests = [mode.rests_on for mode in answered]
    if not any(not (a & b) for a in rests for b in rests):
        values = any(rest == {Witness.FUNCTION_VALUES} for rest in rests)
        missing = "forward or certified" if values else "finite-difference"
        case.inconclusive("no second witness", f"{' and '.join(m.name for m in answered)} share what they rest on", hint=f"add {missing} to --modes")
        return
    open_entries = sum(int(np.sum(~mask)) for mask in confirmed.values())
    doubtful = sum(int(np.sum(word != AGREE)) for word in words.values())
    count = max(open_entries, doubtful)
    case.inconclusive(
        "noise", f"the bounds of the modes are too wide to decide {count} entr{'y' if count == 1 else 'ies'}", hint="compare-modes shows the bounds"
    )


def _weak_evidence(case: _Case) -> None:
    """A gradient of zero everywhere proves little: many wrong gradients are zero there too."""
    value = case.estimate(str(case.reference)).value
    if case.q.wrt and all(np.all(np.asarray(v) == 0) for v in value.values()):
        case.findings.append(
            finding("weak", "warning", "every entry of the gradient is zero here, which proves little", hint="check at another point too")
        )


def _detects(case: _Case, verdict: str) -> Detects:
    """Return the largest relative error that could have stayed unseen, over the entries that are not zero."""
    if case.reference is None or verdict == "inconclusive":
        return Detects(None, None)
    right = case.estimate(case.reference)
    smallest, at = -1.0, None
    for name in case.claimed or case.q.wrt:
        room = _room(case, right, name)
        g = np.abs(np.asarray(right.value[name]))
        if room is None or not np.any(g > 0):
            continue
        relative = np.where(g > 0, room / np.where(g > 0, g, 1.0), 0.0)
        k = np.unravel_index(int(np.argmax(relative)), relative.shape) if relative.ndim else ()
        if float(relative[k]) > smallest:
            smallest, at = float(relative[k]), f"{name}[{','.join(map(str, k))}]" if k else name
    return Detects(smallest if smallest >= 0 else None, at)


def _room(case: _Case, right: Estimate, name: str) -> Array | None:
    """Return how wrong each entry of one input could be unseen: by the claim's bound, or by the best independent pair."""
    if case.claimed is not None:
        claim = case.outcomes["claim"].estimate
        return None if claim is None or name not in claim.value else np.asarray(allowed(claim, right, name, case.fixed))
    rooms = []
    names = list(case.verdicts)
    for i, a in enumerate(names):
        for b in names[i + 1 :]:
            if _independent(case.outcomes[a], case.outcomes[b]):
                both = (case.verdicts[a][name] == AGREE) & (case.verdicts[b][name] == AGREE)
                rooms.append(np.where(both, allowed(case.estimate(a), case.estimate(b), name, None), np.inf))
    return np.min(np.stack(rooms), axis=0) if rooms else None


def _report(case: _Case, verdict: str) -> PointReport:
    q = case.q
    reference = None if case.reference is None else case.estimate(case.reference)
    values = ABSENT if reference is None else reference.value
    vector = shape(q.value) != ()
    mismatches = _mismatches(case) if verdict == "fail" else ()
    judged = case.verdicts.get("claim") or (case.verdicts.get(case.reference) if case.reference else None) or {}
    wrong = sum(int(np.sum(word == DISAGREE)) for word in judged.values())
    doubtful = sum(int(np.sum(word == CANNOT_TELL)) for word in judged.values())
    return PointReport(
        at=q.point.values, drawn=q.point.drawn, differentiated=q.wrt,
        constant=tuple(name for name in q.point.values if name not in q.wrt),
        value=q.value, verdict=verdict, reference=case.reference,
        gradient=ABSENT if vector else values, jacobian=values if vector else ABSENT,
        entries=Entries(sum(int(np.size(word)) for word in judged.values()), wrong, doubtful),
        mismatches=mismatches, modes={name: mode_result(o, case.verdicts.get(name), vector) for name, o in case.outcomes.items()},
        findings=tuple(case.findings), diagnosis=case.diagnosis, detects=_detects(case, verdict),
    )  # fmt: skip


def mode_result(outcome: Outcome, words: dict[str, Any] | None, vector: bool) -> ModeResult:
    """Return one mode's outcome as it is reported."""
    rests = tuple(witness.value for witness in Witness if witness in outcome.mode.rests_on)
    if outcome.estimate is None:
        error = outcome.error
        return ModeResult(outcome.status, rests_on=rests, message=error.what if error else ABSENT, hint=error.do if error else ABSENT)
    estimate = outcome.estimate
    result = ModeResult(
        "ok", bound=estimate.bound, proved=estimate.proved, verdict=_overall(words) if words is not None else ABSENT,
        evaluations=estimate.cost.evaluations, seconds=estimate.cost.seconds, rests_on=rests,
    )  # fmt: skip
    return replace(result, jacobian=estimate.value) if vector else replace(result, gradient=estimate.value)


def _overall(words: dict[str, Any]) -> str:
    flat = [word for array in words.values() for word in np.ravel(array)]
    return DISAGREE if DISAGREE in flat else CANNOT_TELL if CANNOT_TELL in flat else AGREE


def _mismatches(case: _Case) -> tuple[Mismatch, ...]:
    """Return the wrong entries, the largest ratio of difference to bound first."""
    if "claim" not in case.verdicts or case.reference is None:
        return ()
    claim, right = case.estimate("claim"), case.estimate(case.reference)
    found = []
    for name, word in case.verdicts["claim"].items():
        room = np.broadcast_to(allowed(claim, right, name, case.fixed), word.shape)
        outputs = len(shape(case.q.value))
        for where in np.argwhere(word == DISAGREE)[:1000]:
            k = tuple(int(n) for n in where)
            a, b = float(np.asarray(claim.value[name])[k]), float(np.asarray(right.value[name])[k])
            ratio = a / b if b else float("inf")
            output = k[:outputs] if outputs else ABSENT
            found.append(Mismatch(name, k[outputs:], a, b, a - b, float(room[k]), ratio, output))
    return tuple(sorted(found, key=lambda m: -abs(m.difference) / max(m.bound, 1e-320)))
