"""The truth table of the verdict: each way to pass, to fail and to leave open, and what is looked at on the way.

A row is evidence in one line and what is decided: `verdict: kinds that are new < what was looked at`. Entries are a (agrees
with the reference), ? (the bounds cannot tell) d (disagrees), and of a claim n (disagrees by a
little).
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gradcli.checks.decide import decide, entries_to_explain
from gradcli.checks.evidence import (
    AGREE,
    CANNOT_TELL,
    DISAGREE,
    Cause,
    ClaimRounding,
    DirectionalCheck,
    Evidence,
    EvidenceKind,
    FormatEvidence,
    MutationResult,
    OmittedConstant,
    Outcome,
    Projections,
    SetLeft,
    Tolerance,
    judge_entries,
    worst_verdict,
    zero_scale,
)
from gradcli.errors import NotSupported
from gradcli.modes.claim import Claim
from gradcli.modes.registry import MODES
from gradcli.modes.trace_test import TraceTest
from gradcli.report.common import Absent, Finding, finding
from gradcli.report.point_report import Detects, Diagnosis, Entries, Mismatch
from gradcli.request.point import Estimate
from gradcli.words import DiagnosisKind, Kind, Severity, Verdict
from tests.rows import for_rows

from .scenes import CHANGED, COVERAGE, HULL, MOVED, found, in_words, narrow, scene, settled, two_slopes

UNTRACED = NotSupported("the function calls code that is no Python")
TRACED_WELL = TraceTest(True, detects=1e-12)
WHOLE = "cert:a rev:a fwd:a fd:a"

TESTED = ("cert:a rev:a fwd:a", {"trace": TRACED_WELL})  # the program was compared with the function beside the point
UNTESTED = ("cert:a rev:a fwd:a", {})
RULES = ("rev:a", {})
SYMPY = ("rev:a sym:a", {})
FRAMEWORK = ("rev:a torch:a", {})
VALUES = ("", {"untraced": UNTRACED})
GRIDS = (  # what is known of the program; differences and a claim beside it, and what is decided
    (
        (TESTED,),
        """
        fd:a                   | pass
        fd:a claim:a           | pass < claim_again
        fd:a claim:?           | inconclusive: noise
        fd:a claim:d           | fail: [unexplained] < claim_again
        fd:?                   | pass
        fd:? claim:a           | pass < claim_again
        fd:? claim:?           | inconclusive: noise
        fd:? claim:d           | fail: [unexplained] < claim_again
        fd:d                   | inconclusive: trace < blame
        fd:d claim:a           | inconclusive: trace < blame
        fd:d claim:?           | inconclusive: trace < blame
        fd:d claim:d           | fail: [unexplained] < claim_again
        fd:not-run             | pass
        fd:not-run claim:a     | pass < claim_again
        fd:not-run claim:?     | inconclusive: noise
        fd:not-run claim:d     | fail: [unexplained] < claim_again
        -                      | pass
        claim:a                | pass < claim_again
        claim:?                | inconclusive: noise
        claim:d                | fail: [unexplained] < claim_again
    """,
    ),
    (
        (UNTESTED,),
        """
        fd:a                   | pass
        fd:a claim:a           | pass < claim_again
        fd:a claim:?           | inconclusive: noise
        fd:a claim:d           | fail: [unexplained] < claim_again
        fd:?                   | pass: direction < direction
        fd:? claim:a           | pass: direction < direction, claim_again
        fd:? claim:?           | inconclusive: direction, noise < direction
        fd:? claim:d           | fail: direction, [unexplained] < direction, claim_again
        fd:d                   | inconclusive: direction, trace < direction, blame
        fd:d claim:a           | inconclusive: direction, trace < direction, blame
        fd:d claim:?           | inconclusive: direction, trace < direction, blame
        fd:d claim:d           | fail: direction, [unexplained] < direction, claim_again
        fd:not-run             | pass: direction < direction
        fd:not-run claim:a     | pass: direction < direction, claim_again
        fd:not-run claim:?     | inconclusive: direction, noise < direction
        fd:not-run claim:d     | fail: direction, [unexplained] < direction, claim_again
        -                      | pass: direction < direction
        claim:a                | pass: direction < direction, claim_again
        claim:?                | inconclusive: direction, noise < direction
        claim:d                | fail: direction, [unexplained] < direction, claim_again
    """,
    ),
    (
        (RULES, SYMPY, FRAMEWORK),
        """
        fd:a                   | pass
        fd:a claim:a           | pass < claim_again
        fd:a claim:?           | inconclusive: noise
        fd:a claim:d           | fail: [unexplained] < claim_again
        fd:?                   | inconclusive: noise
        fd:? claim:a           | inconclusive: noise
        fd:? claim:?           | inconclusive: noise
        fd:? claim:d           | inconclusive: noise
        fd:d                   | inconclusive: trace < blame
        fd:d claim:a           | inconclusive: trace < blame
        fd:d claim:?           | inconclusive: trace < blame
        fd:d claim:d           | inconclusive: trace < blame
        fd:not-run             | pass: direction < direction
        fd:not-run claim:a     | pass: direction < direction, claim_again
        fd:not-run claim:?     | inconclusive: direction, noise < direction
        fd:not-run claim:d     | fail: direction, [unexplained] < direction, claim_again
        -                      | inconclusive: no-second-witness
        claim:a                | inconclusive: no-second-witness
        claim:?                | inconclusive: no-second-witness
        claim:d                | inconclusive: no-second-witness
    """,
    ),
    (
        (VALUES,),
        """
        fd:a                   | inconclusive: no-second-witness
        fd:a claim:a           | pass < claim_again
        fd:a claim:?           | inconclusive: noise
        fd:a claim:d           | fail: [unexplained] < claim_again
        fd:?                   | inconclusive: no-second-witness
        fd:? claim:a           | pass < claim_again
        fd:? claim:?           | inconclusive: noise
        fd:? claim:d           | fail: [unexplained] < claim_again
        fd:not-run             | inconclusive: no-second-witness
        fd:not-run claim:a     | inconclusive: no-second-witness
        fd:not-run claim:?     | inconclusive: no-second-witness
        fd:not-run claim:d     | inconclusive: no-second-witness
    """,
    ),
)

KINK, JUMP, STAIRCASE = found(Kind.KINK), found(Kind.JUMP), found(Kind.STAIRCASE)
OPEN = {"undecided": {"x": np.ones(1, dtype=bool)}}  # a kink leaves the entry open
A_RULE = {EvidenceKind.BLAME: Cause("tanh")}
FLAT = {EvidenceKind.BLAME: Cause(operation_at_kink=True)}
NO_DIRECTION = {EvidenceKind.DIRECTION: DirectionalCheck(None, 0.1, 6)}
AGAINST = {EvidenceKind.DIRECTION: DirectionalCheck(False, 1e-9, 6)}
OTHER_GRADIENT = {EvidenceKind.CLAIM_AGAIN: (CHANGED,)}
OTHER_VALUE = {EvidenceKind.FUNCTION_AGAIN: (MOVED,)}
ROUNDED = {EvidenceKind.CLAIM_ROUNDING: ClaimRounding(finding(Kind.INACCURATE, Severity.WARNING, "8 digits"), 1e-8)}
EPSILON = {EvidenceKind.LEFT_OUT: OmittedConstant("1e-07", "log", 1e-6)}
DOUBT = {"may_retry_without_trace": True}
STATE = {"may_keep_state": True}
MANY = {"untraced": UNTRACED, "needs_projections": True}
CAUGHT = {EvidenceKind.MUTANTS: MutationResult(())}
SURVIVED = {EvidenceKind.MUTANTS: MutationResult((), finding(Kind.MUTANT, Severity.INCONCLUSIVE, "2 of 9 unseen"))}
UNPLANTED = {EvidenceKind.MUTANTS: MutationResult((), finding(Kind.MUTANT, Severity.INFO, "none was planted"))}
SCALES = (finding(Kind.FINE_STRUCTURE, Severity.INCONCLUSIVE, "two slopes"),)
SHAPE = Diagnosis(DiagnosisKind.SHAPE, "the claim has shape (3,)")
FAR = "rev:unsupported fd:not-run claim:a"
WRONG = (Mismatch("x", (4,), 1.0, 2.0, -1.0, 1e-9, 0.5),)


def hull(**change: Any) -> dict[EvidenceKind, Any]:
    """What the pieces at a kink show."""
    return {EvidenceKind.PIECES: replace(HULL, **change)}


def projected(agrees: bool | None, **more: Any) -> dict[EvidenceKind, Any]:
    """What projections show."""
    return {EvidenceKind.PROJECTIONS: Projections(agrees, COVERAGE, Entries(9000, 0, 0), **more)}


ROWS = [  # evidence, what more is known of it, what looking shows, what is decided
    # nothing ran
    ("", {"findings": found(Kind.NOT_DETERMINISTIC)}, {}, "inconclusive"),
    ("", {"findings": found(Kind.EARLIER_CALLS), **STATE}, {}, "inconclusive"),
    ("", {}, {}, "inconclusive: no-second-witness"),
    # the place
    (WHOLE, {"findings": found(Kind.NON_FINITE)}, {}, "inconclusive"),
    (WHOLE + " claim:a", {"findings": found(Kind.NON_FINITE)}, {}, "inconclusive"),
    (WHOLE + " claim:d", {"findings": found(Kind.NON_FINITE)}, {}, "inconclusive"),
    (WHOLE, {"findings": found(Kind.NOTHING_TO_CHECK)}, {}, "inconclusive"),
    (WHOLE, {"findings": JUMP}, {}, "inconclusive"),
    (WHOLE + " claim:a", {"findings": JUMP}, {}, "inconclusive"),
    (WHOLE + " claim:d", {"findings": JUMP}, {}, "fail: [unexplained] < claim_again"),
    (WHOLE, {"findings": STAIRCASE}, {}, "inconclusive"),
    (WHOLE + " claim:a", {"findings": STAIRCASE}, {}, "inconclusive"),
    (WHOLE, {"findings": KINK, **OPEN}, {}, "inconclusive"),
    (WHOLE, {"findings": found(Kind.KINK_NEARBY, Severity.INFO)}, {}, "pass"),
    (WHOLE, {"findings": found(Kind.BRANCH, Severity.INFO)}, {}, "pass"),
    (WHOLE, {"findings": found(Kind.MUTATES_INPUT)}, {}, "inconclusive"),
    (WHOLE, {"findings": found(Kind.FIRST_ORDER)}, {}, "inconclusive"),
    (WHOLE, {"findings": found(Kind.NOT_SYMMETRIC, Severity.WARNING)}, {}, "pass"),
    (WHOLE + " claim:a", {"findings": found(Kind.TRACE)}, {}, "inconclusive"),
    # subgradients at kinks
    ("rev:? fd:? claim:?", {"findings": KINK, **OPEN}, hull(), "pass: kink, subgradient < pieces, claim_again"),
    ("rev:? fd:? claim:?", {"findings": KINK, **OPEN}, {}, "inconclusive < pieces"),
    ("rev:? fd:? claim:?", {"findings": KINK, **OPEN}, hull(distance=0.5), "inconclusive: not-a-subgradient < pieces"),
    (
        "rev:? fd:? claim:?",
        {"findings": KINK, **OPEN},
        hull(contradicted_by_values=True),
        "inconclusive: not-a-subgradient < pieces",
    ),
    ("rev:? fd:? claim:?", {"findings": KINK + JUMP, **OPEN}, hull(), "inconclusive"),
    (
        "rev:? fd:? claim:?",
        {"findings": KINK, **OPEN},
        hull() | OTHER_GRADIENT,
        "fail: kink, subgradient, not-deterministic < pieces, claim_again",
    ),
    (
        "rev:a? fd:a? claim:a?",
        {"findings": KINK, "undecided": {"x": np.array([False, True])}},
        hull(),
        "pass: kink, subgradient < pieces, claim_again",
    ),
    (
        "rev:a? fd:a? claim:??",
        {"findings": KINK, "undecided": {"x": np.array([False, True])}},
        hull(),
        "inconclusive: kink, subgradient, noise < pieces",
    ),
    (
        "rev:a? fd:a? claim:d?",
        {"findings": KINK, "undecided": {"x": np.array([False, True])}},
        hull(),
        "fail: [unexplained] < claim_again",
    ),
    # several entries
    ("rev:aaa fd:aaa", {}, {}, "pass"),
    ("rev:aaa fd:aa?", {}, {}, "inconclusive: noise"),
    ("rev:aaa fd:aad", {}, {}, "inconclusive: trace < blame"),
    ("rev:aaa fd:aaa claim:aad", {}, {}, "fail: [unexplained] < claim_again"),
    ("rev:aaa fd:aa? claim:aad", {}, {}, "inconclusive: noise"),
    ("rev:aaa fd:aa? claim:dad", {}, {}, "fail: [unexplained] < claim_again"),
    ("rev:aaa fd:aaa claim:aa?", {}, {}, "inconclusive: noise"),
    ("cert:aaa rev:aaa fd:aa?", {"trace": TRACED_WELL}, {}, "pass"),
    ("cert:aa? rev:aa? fd:aa?", {"trace": TRACED_WELL}, {}, "inconclusive: noise"),
    # two inputs
    ("rev:a/a fd:a/a", {}, {}, "pass"),
    ("rev:a/a fd:a/?", {}, {}, "inconclusive: noise"),
    ("rev:a/a fd:?/d", {}, {}, "inconclusive: trace < blame"),
    ("rev:a/a fd:a/a claim:a/a", {}, {}, "pass < claim_again"),
    ("rev:a/a fd:a/a claim:a/?", {}, {}, "inconclusive: noise"),
    ("rev:a/a fd:a/a claim:a/d", {}, {}, "fail: [unexplained] < claim_again"),
    ("rev:a/a fd:a/? claim:a/d", {}, {}, "inconclusive: noise"),
    ("cert:a/a rev:a/a fd:a/?", {}, {}, "pass: direction < direction"),
    ("rev:a/a torch:a/d fd:a/a", {}, {}, "inconclusive: disagreement"),
    # what a mode cannot do
    (WHOLE + " sym:unsupported", {}, {}, "pass"),
    (WHOLE + " sym:timeout", {}, {}, "pass: timeout"),
    (WHOLE + " torch:unavailable", {}, {}, "pass"),
    ("rev:timeout fd:timeout", {}, {}, "inconclusive: timeout, timeout, no-second-witness"),
    ("rev:unsupported fd:over-budget", {}, {}, "inconclusive: budget"),
    ("fd:over-budget claim:a", {"untraced": UNTRACED}, {}, "inconclusive: budget"),
    ("rev:not-run fd:not-run", {}, {}, "inconclusive: no-second-witness"),
    ("fwd:a fd:a", {}, {}, "pass"),
    ("fwd:a rev:a", {}, {}, "inconclusive: no-second-witness"),
    ("fwd:a cs:a", {}, {}, "pass"),
    ("sym:a fd:a", {}, {}, "pass"),
    ("sym:a rev:a", {}, {}, "inconclusive: no-second-witness"),
    ("torch:a fd:a", {}, {}, "pass"),
    ("cs:a fd:a", {}, {}, "inconclusive: no-second-witness"),
    ("fd:a", {}, {}, "inconclusive: no-second-witness"),
    ("fd:a claim:a", {}, {}, "inconclusive: no-second-witness"),
    ("cert:a", {"trace": TRACED_WELL}, {}, "pass"),
    ("cert:a", {}, NO_DIRECTION, "inconclusive: no-second-witness < direction"),
    ("cert:a", {"trace": TraceTest(None, "it draws numbers")}, {}, "pass: direction < direction"),
    # modes that disagree
    ("cert:a rev:d fd:a", {"trace": TRACED_WELL}, {}, "inconclusive: disagreement"),
    ("cert:a rev:d fd:a claim:a", {"trace": TRACED_WELL}, {}, "inconclusive: disagreement"),
    ("cert:a sym:d fd:a", {"trace": TRACED_WELL}, {}, "inconclusive: disagreement"),
    ("cert:a rev:d sym:d fd:a", {"trace": TRACED_WELL}, {}, "inconclusive: disagreement, disagreement"),
    ("rev:a torch:d fd:a", {}, {}, "inconclusive: disagreement"),
    ("rev:a torch:d fd:a claim:a", {}, {}, "inconclusive: disagreement"),
    ("rev:a fd:d", {}, A_RULE, "inconclusive: contradiction < blame"),
    ("rev:a fd:d", {}, FLAT, "inconclusive: contradiction < blame"),
    ("rev:a fd:d", {"findings": found(Kind.KINK_NEARBY, Severity.INFO)}, {}, "inconclusive: contradiction < blame"),
    ("rev:a fd:d", {"findings": found(Kind.BRANCH, Severity.INFO)}, {}, "inconclusive: contradiction < blame"),
    ("rev:a fd:d claim:a", {}, A_RULE, "inconclusive: contradiction < blame"),
    ("cert:a fd:not-run", {}, AGAINST, "inconclusive: trace < direction, blame"),
    ("cert:a fd:not-run", {}, AGAINST | A_RULE, "inconclusive: contradiction < direction, blame"),
    ("rev:a fd:not-run claim:a", {}, AGAINST, "inconclusive: trace < direction, blame"),
    ("rev:a fd:not-run claim:d", {}, AGAINST, "inconclusive: trace < direction, blame"),
    ("rev:a fd:not-run", {}, NO_DIRECTION, "inconclusive: no-second-witness < direction"),
    # a mode contradicts itself
    ("cert:contradicts rev:a fd:a", {}, {}, "fail: contradiction < blame"),
    ("cert:contradicts rev:a fd:a", {}, A_RULE, "fail: contradiction < blame"),
    ("cert:contradicts rev:a fd:a claim:a", {}, {}, "inconclusive: contradiction < blame"),
    ("cert:contradicts rev:a fd:a claim:d", {}, A_RULE, "inconclusive: contradiction < blame"),
    ("cert:contradicts rev:a fd:d", {}, {}, "inconclusive: trace < blame"),
    ("cert:contradicts rev:a fd:d", {}, A_RULE, "fail: contradiction < blame"),
    ("cert:contradicts rev:a fd:a", {}, FLAT, "inconclusive: contradiction < blame"),
    ("cert:differs rev:a fd:a", {}, {}, "inconclusive: trace"),
    ("cert:differs rev:a fd:a claim:d", {}, {}, "inconclusive: trace"),
    # the trace is given up
    ("cert:differs rev:a fd:a", DOUBT, {}, "give up the trace < values_alone"),
    ("rev:a fd:d", DOUBT, {}, "give up the trace < blame, values_alone"),
    ("rev:a fd:d claim:a", DOUBT, {}, "give up the trace < blame, values_alone"),
    ("rev:a fd:d", DOUBT, A_RULE, "inconclusive: contradiction < blame"),
    ("rev:a fd:d", {**DOUBT, "written_as_text": True}, FLAT, "give up the trace < blame, values_alone"),
    ("cert:a rev:d fd:a", {**DOUBT, "written_as_text": True}, {}, "give up the trace < direction, values_alone"),
    ("rev:a fd:?", DOUBT, {}, "inconclusive: noise"),
    ("rev:a fd:a", {**DOUBT, "written_as_text": True}, {}, "pass"),
    # claims
    (WHOLE + " claim:n", {}, {}, "fail: [unexplained] < claim_again, claim_rounding, left_out"),
    (WHOLE + " claim:n", {}, EPSILON, "pass: approximation < claim_again, claim_rounding, left_out"),
    (
        WHOLE + " claim:n",
        {"findings": JUMP},
        EPSILON,
        "inconclusive: approximation < claim_again, claim_rounding, left_out",
    ),
    ("rev:aa fd:aa claim:nd", {}, EPSILON, "fail: [unexplained] < claim_again"),
    (WHOLE + " claim:n", {}, ROUNDED, "pass: inaccurate < claim_again, claim_rounding"),
    (WHOLE + " claim:n", {"findings": JUMP}, ROUNDED, "inconclusive: inaccurate < claim_again, claim_rounding"),
    ("rev:aa fd:aa claim:nd", {}, ROUNDED, "fail: [unexplained] < claim_again"),
    (WHOLE + " claim:a", {}, OTHER_GRADIENT, "fail: not-deterministic < claim_again"),
    (WHOLE + " claim:d", {}, OTHER_GRADIENT, "fail: not-deterministic < claim_again"),
    (
        WHOLE + " claim:d",
        {"sets_left": (SetLeft("x", "symmetric", "symmetric matrices", "f reads one triangle of x", True),)},
        {},
        "inconclusive: structure",
    ),
    (
        "rev:a/a fd:a/a claim:d/d",
        {"sets_left": (SetLeft("x", "symmetric", "symmetric matrices", "f reads one triangle of x", True),)},
        {},
        "fail: [unexplained] < claim_again",
    ),
    (
        "fd:? claim:?",
        {
            "untraced": UNTRACED,
            "sets_left": (SetLeft("x", "simplex", "the simplex", "f raises off the simplex", False),),
        },
        {},
        "inconclusive: structure",
    ),
    (WHOLE + " claim:not-run", {"wrong_shape": SHAPE}, {}, "fail: [shape]"),
    (WHOLE + " claim:not-run", {"wrong_shape": SHAPE, "findings": found(Kind.NON_FINITE)}, {}, "fail: [shape]"),
    ("cert:differs claim:not-run", {"wrong_shape": SHAPE}, {}, "inconclusive: trace"),
    (WHOLE + " claim:a", {"findings": found(Kind.MUTATES_INPUT)}, {}, "inconclusive"),
    (WHOLE + " claim:d", {"findings": found(Kind.MUTATES_INPUT)}, {}, "fail: [unexplained] < claim_again"),
    # state that a function keeps between calls
    (WHOLE, STATE, {}, "pass < function_again"),
    (WHOLE, STATE, OTHER_VALUE, "inconclusive: depends-on-earlier-calls < function_again"),
    (WHOLE + " claim:a", STATE, OTHER_VALUE, "inconclusive: depends-on-earlier-calls < claim_again, function_again"),
    (WHOLE + " claim:d", STATE, OTHER_VALUE, "inconclusive: depends-on-earlier-calls < claim_again, function_again"),
    (WHOLE + " claim:a", STATE, {}, "pass < claim_again, function_again"),
    ("rev:a fd:?", STATE, {}, "inconclusive: noise < function_again"),
    # planted mistakes
    (WHOLE, {"wants_mutants": True}, CAUGHT, "pass < mutants"),
    (WHOLE, {"wants_mutants": True}, SURVIVED, "inconclusive: mutant < mutants"),
    (WHOLE, {"wants_mutants": True}, UNPLANTED, "pass: mutant < mutants"),
    (WHOLE + " claim:d", {"wants_mutants": True}, SURVIVED, "fail: mutant, [unexplained] < claim_again, mutants"),
    # bounds that decide nothing
    ("rev:a fd:?", {"scale_findings": SCALES}, {}, "inconclusive: fine-structure"),
    ("rev:a fd:? claim:a", {"scale_findings": SCALES}, {}, "inconclusive: fine-structure"),
    ("rev:a fd:a claim:?", {"scale_findings": SCALES}, {}, "inconclusive: fine-structure"),
    ("fd:?", {"untraced": UNTRACED, "scale_findings": SCALES}, {}, "inconclusive: fine-structure"),
    (
        "fd:a claim:a",
        {"untraced": UNTRACED, "findings": found(Kind.UNTRACED, Severity.WARNING)},
        {},
        "pass < claim_again",
    ),
    # many entries, by function values alone
    (FAR, MANY, projected(True), "pass: coverage < projections, claim_again"),
    (FAR, MANY, projected(True) | OTHER_GRADIENT, "fail: coverage, not-deterministic < projections, claim_again"),
    (FAR, {**MANY, "findings": found(Kind.MUTATES_INPUT)}, projected(True), "inconclusive: coverage < projections"),
    (FAR, MANY, projected(True, undecided_because=KINK), "inconclusive: coverage, kink < projections"),
    (FAR, MANY, projected(None), "inconclusive: coverage, noise < projections"),
    (FAR, MANY, projected(None, complete=False, calls=20), "inconclusive: coverage, budget < projections"),
    (FAR, MANY, projected(None, undecided_because=SCALES), "inconclusive: coverage, fine-structure < projections"),
    (FAR, MANY, projected(False), "fail: coverage < projections, claim_again"),
    (FAR, MANY, projected(False, wrong=WRONG), "fail: coverage, [unexplained] < projections, claim_again"),
    (
        FAR,
        MANY,
        projected(False, wrong=WRONG, undecided_because=SCALES),
        "fail: coverage, fine-structure, [unexplained] < projections, claim_again",
    ),
    (FAR, MANY, projected(False, undecided_because=SCALES), "inconclusive: coverage, fine-structure < projections"),
    (
        FAR,
        MANY,
        projected(False, wrong=WRONG) | OTHER_GRADIENT,
        "fail: coverage, not-deterministic < projections, claim_again",
    ),
    (
        FAR,
        {**MANY, **STATE},
        projected(True) | OTHER_VALUE,
        "inconclusive: no-second-witness, depends-on-earlier-calls < function_again",
    ),
    ("fd:over-budget claim:a", MANY, projected(True), "pass: coverage < projections, claim_again"),
]


# A claim in a narrow format: how many typical errors it is off, what other runs say, and what is decided.
WIDER = "a wider format can: --dtype float32"
CUBE = Diagnosis(DiagnosisKind.FACTOR, "3 times too large")
NARROW = [
    ("claim:a", 0.5, {}, "pass < format, claim_again"),
    ("claim:a", 5.0, {}, "pass: inaccurate < format, claim_again"),
    ("claim:a", 0.5, {"wide": Verdict.PASS}, "pass < format, claim_again"),
    ("claim:a", 0.5, {"wide": Verdict.INCONCLUSIVE}, "pass < format, claim_again"),
    ("claim:a", 0.5, {"wide": Verdict.FAIL}, "fail: other-derivative, [unexplained] < format"),
    ("claim:?", 0.5, {}, "inconclusive: noise < format"),
    ("claim:?", 0.5, {"wide": Verdict.PASS}, "pass < format, claim_again"),
    ("claim:?", 0.5, {"underflows": True}, "fail: [too-inexact] < format"),
    ("claim:d", 9.0, {"changes": True}, "pass: inaccurate < format, claim_again"),
    ("claim:d", 9.0, {"changes": True, "wide": Verdict.PASS}, "pass: inaccurate < format, claim_again"),
    ("claim:d", 9.0, {"changes": True, "wide": Verdict.FAIL}, "fail: precision, [unexplained] < format, claim_again"),
    ("claim:d", 9.0, {"changes": False}, "fail: precision, [unexplained] < format, claim_again"),
    ("claim:d", 9.0, {"changes": None}, "fail: [unexplained] < format, claim_again"),
    ("claim:d", 150.0, {"changes": True}, "fail: [too-inexact] < format"),
    ("claim:a" + "a" * 39 + "?", 0.5, {}, "pass: precision < format, claim_again"),
    ("claim:a" + "a" * 39 + "?", 0.5, {"wide": Verdict.PASS}, "pass < format, claim_again"),
    ("claim:aaa?", 0.5, {}, "inconclusive: noise < format"),
    ("claim:da", 9.0, {"changes": True}, "pass: inaccurate < format, claim_again"),
]


@for_rows(("claim", "off", "known", "wanted"), NARROW)
def test_the_truth_table_of_narrow_formats(claim: str, off: float, known: dict[str, Any], wanted: str) -> None:
    found = FormatEvidence("bfloat16", 2.0**45, wider=WIDER, **known)
    letters = "a" * len(claim.partition(":")[2])
    seen = narrow(scene(f"cert:{letters} rev:{letters} fd:{letters} {claim}"), off)
    assert in_words(seen, {EvidenceKind.FORMAT: found}) == wanted


def test_a_tolerance_of_the_user_takes_nothing_from_what_a_narrow_format_is_granted() -> None:
    seen = narrow(scene(WHOLE + " claim:d", tolerance=Tolerance(rtol=1e-3)))
    assert in_words(seen, {}) == "fail: [unexplained] < format, claim_again"
    assert in_words(seen, {EvidenceKind.FORMAT: FormatEvidence("bfloat16", 2.0**45, changes=True)}).startswith("pass")


@pytest.mark.parametrize("predicted", [True, False])
def test_errors_are_of_rounding_for_certain_only_where_those_in_a_wider_format_predict_them(predicted: bool) -> None:
    seen = narrow(scene("cert:a rev:a fd:a claim:d"), 150.0)
    known = FormatEvidence("bfloat16", 2.0**45, Verdict.PASS, changes=True, predicted=predicted)
    decision, _ = settled(seen, {EvidenceKind.FORMAT: known})
    assert decision is not None and decision.diagnosis is not None
    assert ("not wrong" in decision.diagnosis.message) == predicted


def test_what_differs_by_rounding_counts_as_equal() -> None:
    seen = narrow(scene("cert:aa rev:aa fd:aa claim:da"), 9.0)
    decision, _ = settled(seen, {EvidenceKind.FORMAT: FormatEvidence("bfloat16", 2.0**45, changes=True)})
    assert decision is not None and decision.agreement is not None
    assert [*decision.agreement["claim"]["x"]] == [AGREE, AGREE]


def _rows() -> list[Any]:
    """Return all rows, those of the grids first."""
    of_grids = [
        (f"{modes} {'' if beside.strip() == '-' else beside.strip()}".strip(), more, {}, wanted.strip())
        for bases, grid in GRIDS
        for modes, more in bases
        for beside, wanted in (line.split("|") for line in grid.strip().splitlines())
    ]
    return [*of_grids, *ROWS]


TABLE = _rows()


@for_rows(("modes", "more", "gathered", "wanted"), TABLE, parts=2)
def test_the_truth_table(modes: str, more: dict[str, Any], gathered: dict[EvidenceKind, Any], wanted: str) -> None:
    assert in_words(scene(modes, **more), gathered) == wanted


def test_the_table_is_long_and_has_no_row_twice() -> None:
    assert len(TABLE) >= 150
    assert len({str(row[:3]) for row in TABLE}) == len(TABLE)


def test_every_verdict_and_every_kind_of_evidence_is_in_the_table() -> None:
    text = " ".join(row[3] for row in [*TABLE, *NARROW])
    assert all(verdict in text for verdict in Verdict)
    assert all(kind.value in text for kind in EvidenceKind)


@pytest.mark.parametrize("change", ["letter", "severity"])
def test_the_table_would_see_a_change(change: str) -> None:
    """What is evidence decides: a claim that agrees and one that does not, a finding that blocks and one that does not."""
    if change == "letter":
        assert in_words(scene(WHOLE + " claim:a"), {}) != in_words(scene(WHOLE + " claim:d"), {})
    else:
        blocked, said = (scene(WHOLE, findings=found(Kind.TRACE, s)) for s in (Severity.INCONCLUSIVE, Severity.INFO))
        assert in_words(blocked, {}) != in_words(said, {})


def test_a_decision_leaves_the_evidence_as_it_was() -> None:
    seen = scene(WHOLE + " claim:d")
    before = str(seen)
    assert decide(seen) == decide(seen) == EvidenceKind.CLAIM_AGAIN
    assert str(seen) == before


def test_function_values_do_not_contradict_what_has_another_slope_over_wider_steps() -> None:
    seen = two_slopes(scene("cert:a fd:?"))
    assert in_words(seen, AGAINST) == "inconclusive: no-second-witness < direction"


def last(seen: Evidence, gathered: dict[EvidenceKind, Any] | None = None) -> Finding:
    """Return the last finding of the decision."""
    decision, _ = settled(seen, gathered or {})
    assert decision is not None
    return decision.findings[-1]


def test_a_wider_format_is_recommended_where_one_would_do() -> None:
    seen = narrow(scene(WHOLE + " claim:?"))
    for wider, hint in ((WIDER, WIDER), (None, "compare it with another implementation: --reference")):
        gathered = {EvidenceKind.FORMAT: FormatEvidence("bfloat16", 2.0**45, wider=wider)}
        found = last(seen, gathered)
        assert (found.message, found.hint) == ("bfloat16 has too few digits to decide 1 entry", hint)
    assert last(scene("rev:a fd:?")).hint == "compare-modes shows the bounds"


@pytest.mark.parametrize(
    ("modes", "count"),
    [("rev:aaa fd:a??", "2 entries"), ("rev:aaa fd:aaa claim:aa?", "1 entry"), ("rev:a/a fd:?/?", "2 entries")],
)
def test_the_entries_that_are_open_are_counted(modes: str, count: str) -> None:
    assert last(scene(modes)).message.partition(": ")[0].endswith(f"too wide to decide {count}")


@pytest.mark.parametrize(
    ("modes", "hint"),
    [("fd:a cs:a", "add forward or certified to --modes"), ("fwd:a rev:a", "add finite-difference to --modes")],
)
def test_the_mode_that_is_missing_is_named(modes: str, hint: str) -> None:
    assert last(scene(modes)).hint == hint


def test_the_rule_that_is_wrong_is_named() -> None:
    seen = scene("cert:contradicts rev:a fd:a")
    assert last(seen, A_RULE).message.endswith(": the rule of tanh")
    assert "rule" not in last(seen).message


def test_a_gradient_of_zeros_is_weak_evidence() -> None:
    assert in_words(scene(WHOLE, value=0.0), {}) == "pass: weak"
    right = Estimate({"x": np.zeros(1), "y": np.ones(1)}, {"x": np.zeros(1), "y": np.zeros(1)})
    seen = scene("rev:a/a fd:a/a")
    assert (
        in_words(
            replace(seen, outcomes=seen.outcomes | {"reverse": replace(seen.outcomes["reverse"], estimate=right)}), {}
        )
        == "pass"
    )
    assert in_words(scene(WHOLE + " claim:a", value=0.0), {}) == "pass: weak < claim_again"


def test_a_claim_that_is_not_finite_fails_where_entries_are_many() -> None:
    assert in_words(scene(FAR, value=np.nan, **MANY), projected(True)) == "fail: no-second-witness, [unexplained]"


def test_the_diagnosis_explains_the_entries_that_two_modes_confirm() -> None:
    assert [*entries_to_explain(scene("rev:aaa fd:aa? claim:dad"))["x"]] == [True, False, False]


def test_a_mode_that_did_not_answer_has_no_estimate() -> None:
    with pytest.raises(KeyError):
        scene("rev:timeout fd:a").estimate("reverse")


@for_rows(
    ("modes", "more", "gathered", "relative"),
    [
        ("rev:a fd:a", {}, {}, 1e-6),  # by the pair of modes
        (WHOLE, {"trace": TraceTest(True, detects=1e-9)}, {}, 5e-7),  # by the bound of the entry
        ("cert:a", {"trace": TraceTest(True, detects=1e-3)}, {}, 1e-3),  # by what could be lost in tracing
        ("cert:a", {}, {}, 5e-7),  # by one direction
        ("fd:a claim:a", {"untraced": UNTRACED}, {}, 1e-6),
        ("rev:a fd:a claim:a", {"trace": TraceTest(None, "it draws numbers")}, {}, 1e-6),
        ("rev:a fd:a claim:a", {"tolerance": Tolerance(0.01, 0.0)}, {}, 0.01),
        ("rev:a fd:d", {}, {}, None),
        ("rev:? fd:? claim:?", {"findings": KINK, **OPEN}, hull(), 1e-8),
        (FAR, MANY, projected(True, detects=Detects(1e-4, "x[7]")), 1e-4),
    ],
)
def test_how_small_an_error_would_be_seen(
    modes: str, more: dict[str, Any], gathered: dict[EvidenceKind, Any], relative: float | None
) -> None:
    decision, _ = settled(scene(modes, bound=1e-6, **more), gathered)
    assert decision is not None
    assert decision.detects.relative == (None if relative is None else pytest.approx(relative))


@for_rows(
    ("claimed", "right", "bound", "kind", "word"),
    [
        (2.0, 2.0, 1e-12, {}, AGREE),
        (2.0 + 5e-13, 2.0, 1e-12, {}, AGREE),
        (2.0 + 5e-12, 2.0, 1e-12, {}, DISAGREE),
        (2.0 + 2e-12, 2.0, 1e-12, {"statistical": True}, CANNOT_TELL),
        (2.0 + 5e-12, 2.0, 1e-12, {"statistical": True}, DISAGREE),
        (2.0001, 2.0, 1e-2, {}, CANNOT_TELL),  # the bound decides nothing
        (2.0001, 2.0, 1e-2, {"narrow": True}, AGREE),
        (0.0, 0.0, 1e-4, {}, AGREE),  # two zeros agree
        (0.0, 0.0, 1e3, {}, CANNOT_TELL),  # but not where the bound is as wide as the slopes
        (np.nan, 2.0, 1e-12, {}, CANNOT_TELL),
        (2.0, 2.0, np.inf, {}, CANNOT_TELL),
    ],
)
def test_when_entries_agree(claimed: float, right: float, bound: float, kind: dict[str, Any], word: Any) -> None:
    a = Estimate({"x": np.array([claimed])}, {"x": np.array([bound / 2])}, **kind)
    b = Estimate({"x": np.array([right])}, {"x": np.array([bound / 2])})
    assert judge_entries(a, b, "x", 1e-6) == [word]


def test_a_tolerance_of_the_user_is_taken_at_its_word() -> None:
    a, b = (Estimate({"x": np.array([v])}, {"x": np.zeros(1)}) for v in (2.001, 2.0))
    assert judge_entries(a, b, "x", 1e-6, Tolerance(rtol=1e-3)) == [AGREE]
    assert judge_entries(a, b, "x", 1e-6, Tolerance(rtol=1e-4)) == [DISAGREE]


def test_an_estimate_agrees_with_itself_where_it_is_finite() -> None:
    a = Estimate({"x": np.array([1.0, np.nan, 1.0])}, {"x": np.array([0.0, 0.0, np.inf])})
    assert [*judge_entries(a, a, "x", 1e-6)] == [AGREE, CANNOT_TELL, CANNOT_TELL]


def test_the_scale_of_a_gradient_is_that_of_its_entries_or_of_the_function() -> None:
    right = Estimate({"x": np.array([2.0, np.inf])}, {"x": np.zeros(2)})
    assert zero_scale(right, [np.ones(2)], np.float64(1.0)) == pytest.approx(2e-6)
    assert zero_scale(right, [np.ones(2)], np.float64(30.0)) == pytest.approx(3e-5)


def test_the_worst_entry_names_a_mode() -> None:
    assert worst_verdict([np.array([AGREE, DISAGREE]), np.array([CANNOT_TELL])]) == "disagree"
    assert worst_verdict([]) == "agree"


# fmt: off
RESOLUTIONS = [  # f's differences +- their bounds; a claim, and what is decided: "pass" with what is said, or the findings
    # differences                  bounds                claim                  decision
    ([1.0, 0.0],                   [1e-9, 1e-9],         [1.0, 1e-12],          "pass x[1] not resolved (below 2e-09)"),
    ([1.0, 0.0],                   [1e-9, 1e-9],         [1.0, -1e-12],         "pass x[1] not resolved (below 2e-09)"),
    ([1.0, 0.0],                   [1e-9, 1e-7],         [1.0, 1e-12],          "inconclusive not-resolved"),
    ([1.0, 0.0],                   [1e-9, 2e-3],         [1.0, 1e-4],           "inconclusive not-resolved"),
    ([1.0, 0.0],                   [1e-9, 1e-9],         [1.0, 1e-3],           "fail"),
    ([1.0, 1e-10],                 [1e-9, 1e-9],         [1.0, 2e-10],          "pass x[1] not resolved (below 2e-09)"),
    ([1.0, 1e-7],                  [1e-9, 1e-9],         [1.0, 1e-7],           "pass x[1] not resolved (errors below 2e-09)"),
    ([1.0, 0.0],                   [1e-9, 1e-9],         [1.0, 0.0],            "pass zeros 1e-09"),
    ([1.0, 0.0, 0.0],              [1e-9, 1e-9, 1e-9],   [1.0, 1e-12, 0.0],     "pass zeros 1e-09, x[1] not resolved (below 2e-09)"),
    ([1.0, 0.0, 0.0],              [1e-9, 1e-9, 1e-9],   [1.0, 1e-12, 1e-12],   "pass 2 of 3 entries not resolved (below 2e-09)"),
    ([0.0, 0.0],                   [1e-9, 1e-9],         [1e-12, 1e-12],        "inconclusive not-resolved"),
    ([1.0, 2.0],                   [1e-9, 1e-9],         [1.0, 2.0],            "pass"),
]
# fmt: on


@for_rows(("values", "bounds", "claim", "decided"), RESOLUTIONS)
def test_an_entry_that_differences_do_not_resolve(values: Any, bounds: Any, claim: Any, decided: str) -> None:
    seen = _by_values(values, bounds, claim)
    decision, _ = settled(seen, {})
    assert decision is not None
    said = [str(decision.verdict), *(str(f.kind) for f in decision.findings)]
    detects = decision.detects
    zeros = [] if isinstance(detects.absolute, Absent) else [f"zeros {detects.absolute:.0e}"]
    entries = [] if isinstance(detects.unresolved, Absent) else [detects.unresolved.in_words()]
    said += [", ".join([*zeros, *entries])] if decision.verdict == Verdict.PASS and (zeros or entries) else []
    assert " ".join(said) == decided


def _by_values(values: Any, bounds: Any, claim: Any) -> Evidence:
    """Return the evidence on a function that cannot be traced."""
    right = Estimate({"x": np.array(values)}, {"x": np.array(bounds)}, statistical=True)
    given = Estimate({"x": np.array(claim)}, {"x": np.full(len(claim), 1e-13)})
    agreement = {
        "claim": {"x": judge_entries(given, right, "x", 1e-6)},
        "finite-difference": {"x": np.zeros(len(claim), int)},
    }
    outcomes = {name: Outcome(mode, "ok", e) for name, mode, e in (
        ("claim", Claim(None), given), ("finite-difference", MODES["finite-difference"], right),
    )}  # type: ignore[arg-type]  # fmt: skip
    undecided = {"x": np.zeros(1, dtype=bool)}
    return Evidence(("x",), outcomes, "finite-difference", agreement, ("x",), undecided=undecided, untraced=UNTRACED)


# fmt: off
TOLERATED = [  # reference +- bound, claim and tolerance; the claim is granted 1e-13
    # reference  bound  claim     rtol   atol   word
    (1.0,        1e-9,  1.0,      0.0,   0.0,   AGREE),
    (1.0,        1e-9,  1.0005,   1e-3,  0.0,   AGREE),
    (1.0,        1e-9,  1.002,    1e-3,  0.0,   DISAGREE),
    (1.0,        1e-4,  1.00095,  1e-3,  0.0,   CANNOT_TELL),  # outside for some values of the reference
    (1.0,        1e-2,  1.001,    0.0,   0.0,   CANNOT_TELL),
    (1.0,        1e-2,  1.001,    1e-3,  0.0,   CANNOT_TELL),  # a tolerance within the bound decides nothing
    (1.0,        1e-2,  1.001,    2e-2,  0.0,   AGREE),
    (2.9e-39,    1e-38, 1e-13,    1e-3,  0.0,   AGREE),        # as without a tolerance
    (0.0,        1e-9,  0.5,      1e-3,  1.0,   AGREE),
    (0.0,        1e-9,  0.5,      1e-3,  0.1,   DISAGREE),
    (1.0,        1e-9,  np.nan,   1e-3,  1.0,   CANNOT_TELL),
]
# fmt: on


@for_rows(("reference", "bound", "claim", "rtol", "atol", "word"), TOLERATED)
def test_a_tolerance_only_loosens(
    reference: float, bound: float, claim: float, rtol: float, atol: float, word: Any
) -> None:
    right = Estimate({"x": np.array([reference])}, {"x": np.array([bound])})
    given = Estimate({"x": np.array([claim])}, {"x": np.array([1e-13])})
    assert judge_entries(given, right, "x", 1e-6, Tolerance(rtol, atol))[0] == word


def test_what_a_tolerance_leaves_open_names_the_entry_and_the_tolerance_that_decides() -> None:
    seen = replace(_by_values([1.0, 4.0], [1e-9, 0.1], [1.0, 4.1]), tolerance=Tolerance(rtol=1e-3))
    decision, _ = settled(seen, {})
    assert decision is not None and decision.verdict == Verdict.INCONCLUSIVE
    (said,) = decision.findings
    assert said.message.endswith("to decide 1 entry: x[1] is 4 +- 1e-01, claimed 4.1")
    assert said.hint == "--rtol 5.0e-02 decides it"
