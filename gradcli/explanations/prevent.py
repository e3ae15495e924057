"""Findings that prevent a pass."""

from gradcli.reports.explain import Example, Explanation
from gradcli.words import Kind

_FINE_STRUCTURE = """\
import math

import numpy as np


def f(x):
    x = np.float64(x)
    return x * x + 1e-7 * math.sin(1e7 * x)
"""
_NOT_RESOLVED = """\
import math


def f(x):
    return 1e6 + 1e-12 * math.sin(float(x))


def g(x):
    return 1e-12 * math.cos(x)
"""
_NOT_DETERMINISTIC = """\
import random


def f(x):
    return x * random.random()
"""
_EARLIER_CALLS = """\
last = {}


def f(x):
    if last.get("x") != x:
        last["x"], last["y"] = x, x**2
    return last["y"]
"""
_MUTATES_INPUT = """\
import numpy as np


def f(x):
    return np.sum(x**2)


def g(x):
    x *= 2
    return x
"""
_CONTRADICTION = """\
import numpy as np

import gradcli

cube = gradcli.primitive(lambda x: x**3, lambda y, x: 2 * x**2, name="cube")


def f(x):
    return np.sum(cube(x))
"""
_TIMEOUT = """\
def f(x):
    while True:
        pass
"""
_BUDGET = """\
import numpy as np


def f(x):
    return np.float64(x[0]) * np.float64(x[1])
"""

ROWS = (
    Explanation(
        Kind.KINK,
        group="prevents a pass",
        summary="one-sided slopes differ at the point",
        meaning=(
            "At a kink the function has no gradient: the slope from the left is not the slope from the right, as for "
            "abs at 0, for relu at 0 and for two equal arguments of a maximum. What a program returns there is a "
            "convention. A claim passes at a kink only if it is a subgradient, a mean of the gradients of the smooth "
            "pieces that meet there."
        ),
        do=(
            "Move the point: it may be an accident of round numbers such as 0. To count kinks as success, add --allow "
            "kink. To check your convention, claim it with --grad."
        ),
        example=Example(
            'gradcli check "abs(x)" x=0',
            ("INCONCLUSIVE  abs(x): f has a kink at x = 0: absolute has a kink where x = 0 (slope 0); the ...",),
        ),
    ),
    Explanation(
        Kind.JUMP,
        group="prevents a pass",
        summary="the function jumps at the point",
        meaning=(
            "The function takes one value on one side of the point and another value on the other side, so that it "
            "has no gradient there. A comparison, a rounding or floor is exactly at its jump."
        ),
        do="Move the point off the jump. To count jumps as success, add --allow jump.",
        example=Example(
            'gradcli check "floor(x)" x=2', ("INCONCLUSIVE  floor(x): f jumps at x = 2: it has no gradient there",)
        ),
    ),
    Explanation(
        Kind.INFINITE_SLOPE,
        group="prevents a pass",
        summary="the slope is infinite at the point",
        meaning=(
            "The function is continuous, but its slope grows without bound as the point is approached, as that of sqrt at 0: "
            "it has no gradient there. In gradcli sweep, which shows the error of differences, there is then nothing to "
            "measure errors against."
        ),
        do="Move the point to where the slope is finite. To count such points as success, add --allow infinite-slope.",
        example=Example(
            'gradcli check "where(x > 0, sqrt(maximum(x, 1e-300)), 0)" x=0',
            ("infinite-slope: f is continuous at x = 0, but its slope grows without bound as the point is approached",),
        ),
    ),
    Explanation(
        Kind.STAIRCASE,
        group="prevents a pass",
        summary="an input reaches the result through steps alone",
        meaning=(
            "The function changes with this input by jumps only: through rounding, comparisons, argmax or draws. Its "
            "slope is 0 wherever it has one, although its value moves, so that a gradient of 0 says nothing of how it "
            "depends on the input. Often a straight-through estimator or a smooth function was meant."
        ),
        do=(
            "If the steps are meant, add --allow staircase. If a framework's function passes the gradient through on "
            "purpose, add --expect straight-through."
        ),
        example=Example(
            'gradcli check "round(x)" x=0.3',
            ("INCONCLUSIVE  round(x): rint is a step function: its slope is 0 although its value changes",),
        ),
    ),
    Explanation(
        Kind.FINE_STRUCTURE,
        group="prevents a pass",
        summary="detail that is narrower than the steps",
        meaning=(
            "Over small steps the function has another slope than over wide ones: a ripple of low amplitude and short "
            "wavelength, say. The claim fits one of the two slopes. A derivative is the slope over ever smaller "
            "steps, but the slope over wide ones may be what you want."
        ),
        do=(
            "If the detail is an artefact, such as a low precision inside, remove it. If it belongs to the function, "
            "claim the slope over small steps. To accept it as it is, add --allow fine-structure."
        ),
        example=Example(
            'gradcli check f.py:f x=0.7 --grad "2*x"',
            ("INCONCLUSIVE  f.py:f: f has fine structure at x: its slope is 0.59709 over steps of 3e-09 and ...",),
            file=_FINE_STRUCTURE,
        ),
    ),
    Explanation(
        Kind.NON_FINITE,
        group="prevents a pass",
        summary="the value or a slope is not finite",
        meaning=(
            "The function returns nan or an infinity at the point, or one of its operations has an infinite slope "
            "there, as sqrt has at 0. The message names the operation. Nothing can be compared with a value that is "
            "not finite."
        ),
        do=(
            "Move the point into the domain of the function, or make the operation safe, as in sqrt(x + 1e-12). To "
            "count this as success, add --allow non-finite."
        ),
        example=Example('gradcli check "log(x)" x=0', ("INCONCLUSIVE  log(x): log gives -inf at 0",)),
    ),
    Explanation(
        Kind.NOT_A_SUBGRADIENT,
        group="prevents a pass",
        summary="the claim at a kink is no subgradient",
        meaning=(
            "At a kink a claim passes if it is a subgradient: a mean of the gradients of the smooth pieces that meet "
            "there. For abs at 0 these are the numbers from -1 to 1. This claim is none. It is not called wrong, "
            "because the function has no gradient at the point."
        ),
        do=(
            "Return one of the one-sided slopes, or a mean of them. Or move the point off the kink, where a wrong "
            "claim is called wrong."
        ),
        example=Example(
            'gradcli check "abs(x)" x=0 --grad "1.5"',
            ("INCONCLUSIVE  abs(x): the claim at the kink is not a subgradient: an entry is 5.0e-01 of its ...",),
        ),
    ),
    Explanation(
        Kind.TRACE,
        group="prevents a pass",
        summary="the recorded program is not the function",
        meaning=(
            "gradcli records the function's operations and differentiates the recording. Here the recording does not "
            "give the function's values or slopes, although every rule is right: a value that depends on the inputs "
            "was treated as a constant while recording. Where it can, gradcli then drops the recording and checks by "
            "function values alone (see untraced), so that this finding is rare."
        ),
        do=(
            "Look for values that leave numpy on the way: text, files, caches, other libraries. Give your gradient "
            "with --grad, so that function values can confirm it. If the function is an expression, please report it. "
            "To count this as success, add --allow trace."
        ),
    ),
    Explanation(
        Kind.TRACE_TEST,
        group="prevents a pass",
        summary="the recorded program could not be compared",
        meaning=(
            "The trace test displaces the point a little and asks whether the recorded program and the function give "
            "the same value. Here that was not possible: the function fails at displaced points, or takes another "
            "branch however near the point. It prevents a verdict only where the function fails there; otherwise it "
            "informs."
        ),
        do=(
            "Move the point away from edges of the domain and from comparisons. To count this as success, add --allow "
            "trace-test."
        ),
        example=Example(
            'gradcli check "sqrt(x)" x=0',
            (
                "INCONCLUSIVE  sqrt(x): the slope of sqrt is not finite at 0",
                "trace-test: near the point the trace was not compared with the function: the function takes ...",
            ),
        ),
    ),
    Explanation(
        Kind.NOT_DETERMINISTIC,
        group="prevents a pass",
        summary="two equal calls give different values",
        meaning=(
            "The function or the claimed gradient draws random numbers, or keeps state between its calls. Differences "
            "of such values mean nothing, so that nothing is decided for such a function. A claim that changes from "
            "call to call fails."
        ),
        do=(
            "Fix the seed inside the function, or pass the random numbers as an input. To count a random function as "
            "success, add --allow not-deterministic."
        ),
        example=Example(
            "gradcli check f.py:f x=2",
            ("INCONCLUSIVE  f.py:f: two calls with the same arguments give different values by 2.4e-01",),
            file=_NOT_DETERMINISTIC,
        ),
    ),
    Explanation(
        Kind.CHANGED_SINCE,
        group="prevents a pass",
        summary="the function changed after the recorded call",
        meaning=(
            "gradcli run checks a gradient when the program has ended. What the function reads besides its arguments was "
            "changed after the recorded call, so that the function has another value at the same input now. gradcli puts "
            "back the contents of arrays, and what closures, globals and attributes were bound to; here that was not "
            "enough. What the gradient returned then can no longer be compared with the function."
        ),
        do=(
            "Give the function what it reads as arguments, args=(...), or check it alone: gradcli check file.py:f --grad g."
        ),
    ),
    Explanation(
        Kind.EARLIER_CALLS,
        group="prevents a pass",
        summary="an earlier call changes the value",
        meaning=(
            "The function returns a different value at the same point after other calls: it counts them, keeps a "
            "cache, or changes a global. Or a later call fails. Then its values at displaced points are not those of "
            "the function that you mean. A claimed gradient that reads what the function kept of its last call is "
            "called right after it, at the same point, and this is a warning: a caller has to do the same."
        ),
        do=(
            "Let the function depend on its arguments alone, or reset its state at the start of each call. To count "
            "this as success, add --allow depends-on-earlier-calls."
        ),
        example=Example(
            "gradcli check f.py:f x=2",
            (
                "INCONCLUSIVE  f.py:f: the function had a value at this point, but a later call fails: a value that ...",
                "depends-on-earlier-calls: the function had a value at this point, but a later call fails: a value that ...",
            ),
            file=_EARLIER_CALLS,
        ),
    ),
    Explanation(
        Kind.MUTATES_INPUT,
        group="prevents a pass",
        summary="the function or the claim writes into its input",
        meaning=(
            "An argument is changed in place, as by x *= 2. gradcli passes copies, so that its own results are right. "
            "A caller without copies would see its data change. In a claimed gradient this prevents a pass; in the "
            "function it is a warning."
        ),
        do="Work on a copy: x = x.copy(). To count it as success, add --allow mutates-input.",
        example=Example(
            'gradcli check f.py:f "x=[1, 2]" --grad g',
            ("INCONCLUSIVE  f.py:f: g writes into its input; it was given copies",),
            file=_MUTATES_INPUT,
        ),
    ),
    Explanation(
        Kind.STRUCTURE,
        group="prevents a pass",
        summary="the claim is right on a set of inputs alone",
        meaning=(
            "The function reads one triangle of a matrix that is symmetric here, as a Cholesky factor does, or it raises "
            "where an input leaves a set, such as a distribution whose sum is not 1. The claim agrees with the derivative "
            "along that set, and differs from the one by single entries, or there is none. With --assume it is a note: what "
            "the set hides of the claim, such as the skew-symmetric part."
        ),
        do=(
            'Say what the input is: --assume "A: symmetric". Then the function is evaluated on that set, and the claim is '
            "compared along it. To count this as success, add --allow structure."
        ),
        example=Example(
            'gradcli check "sum(log(diag(cholesky(A))))" "A=[[2, 1], [1, 3]]" --grad "inv(A)/2"',
            (
                "INCONCLUSIVE  sum(log(diag(cholesky(A)))): f reads one triangle of A: the claim is right on symmetric ...",
                'check it on symmetric matrices: --assume "A: symmetric"',
            ),
        ),
    ),
    Explanation(
        Kind.NOISE,
        group="prevents a pass",
        summary="the bounds are too wide to decide an entry",
        meaning=(
            "Function values are known only up to rounding or noise, and so are differences of them. Here the error "
            "bounds are so wide that the claim could be right or wrong: the function loses digits by cancellation, an "
            "iterative solver stops early (the finding names it and its tolerances), or a fixed step is too small. "
            "Rounding has no bound where f raises an error once its values change by a few roundings, as the Cholesky factor "
            "of a barely positive definite matrix."
        ),
        do=(
            "gradcli compare-modes shows the bound of each mode, gradcli sweep the best step. Leave out --h, compute "
            "in a wider format, or tighten the solver. To count this as success, add --allow noise."
        ),
        example=Example(
            'gradcli check "sin(x)" x=1 --grad "cos(x)" --modes reverse,fd --h 1e-15',
            ("INCONCLUSIVE  sin(x): the bounds of the modes are too wide to decide 1 entry",),
        ),
    ),
    Explanation(
        Kind.NOT_RESOLVED,
        group="prevents a pass",
        summary="an entry is too small to see in function values",
        meaning=(
            "The function cannot be recorded, and moving this entry hardly changes its value by more than the spacing of "
            "its values. The claim lies within the bound of the difference, and so would wrong ones. Such an entry is "
            "accepted, and counted beside the verdict, where an error of that size would not be seen in the largest "
            "entry of the same input either. Here it is larger."
        ),
        do=(
            "Let the function be recorded, as the finding untraced says. Or check at a point where the entry changes the "
            "value more. To count this as success, add --allow not-resolved."
        ),
        example=Example(
            "gradcli check f.py:f x=0.7 --grad g",
            ("INCONCLUSIVE  f.py:f: 1 of 1 entry not resolved: x is 0 +- 2e-07, claimed 7.64842e-13",),
            _NOT_RESOLVED,
        ),
    ),
    Explanation(
        Kind.NO_SECOND_WITNESS,
        group="prevents a pass",
        summary="nothing independent confirms the gradient",
        meaning=(
            "A pass needs two modes that share nothing: gradcli's rules and function values, for example. Here there "
            "is one only: you chose a single mode, or the function cannot be recorded and there is no gradient of "
            "yours to compare with its values."
        ),
        do=(
            "Leave out --modes, or add one that rests on something else, such as finite-difference. Give your "
            "gradient with --grad. To count this as success, add --allow no-second-witness."
        ),
        example=Example(
            'gradcli check "x**2" x=3 --modes forward',
            ("INCONCLUSIVE  x**2: forward alone cannot confirm a gradient: nothing independent confirms it",),
        ),
    ),
    Explanation(
        Kind.DISAGREEMENT,
        group="prevents a pass",
        summary="two ways to the same derivative differ",
        meaning=(
            "Two modes differ by more than their bounds, and it is not known which one is wrong. In gradcli derive, "
            "the closed form does not have the value of the derivative at the point: mostly because an assumption "
            "does not hold there."
        ),
        do=(
            "gradcli compare-modes shows the modes side by side. In derive, check that the assumptions of --assume "
            "hold at the point. To count this as success in a check, add --allow disagreement."
        ),
        example=Example(
            'gradcli derive "-sum(y*log(softmax(z)))" --assume "y: simplex" --wrt z --at "z=[1, 2, 3], y=[0.2, 0.3, 0.6]"',
            ("disagreement: by z: at the point the closed form is off by 5.0e-01 of the largest entry; check ...",),
        ),
    ),
    Explanation(
        Kind.CONTRADICTION,
        group="prevents a pass",
        summary="a rule contradicts the function's values",
        meaning=(
            "The gradient by the rules of the recorded operations is not the slope of the function. The message names "
            "the operation whose rule is wrong. With a rule of your own, by gradcli.primitive, the mistake is yours. "
            "Otherwise a kink or a branch lies closer to the point than the steps of differences, or gradcli has a "
            "mistake."
        ),
        do=(
            "Correct the rule. If it is gradcli's own, "
            "please report it. To count this as success where it is inconclusive, add --allow contradiction."
        ),
        example=Example(
            'gradcli check f.py:f "x=[1, 2]"',
            ("FAIL  f.py:f: the rules disagree with the function's values along a random direction: the rule ...",),
            file=_CONTRADICTION,
        ),
    ),
    Explanation(
        Kind.FIRST_ORDER,
        group="prevents a pass",
        summary="the gradient of which a Hessian is the derivative",
        meaning=(
            "A Hessian is checked as the derivative of a gradient, so that the gradient is checked first. If the "
            "gradient is wrong, the check fails; if it is not confirmed, nothing is decided. If it is right, this "
            "finding says so and prevents nothing."
        ),
        do="Correct the gradient first; check it alone with --grad.",
        example=Example(
            'gradcli check "x**3" x=2 --grad "x**2" --hess "6*x"',
            ("FAIL  x**3: the claimed gradient is wrong: a factor 3 too small",),
        ),
    ),
    Explanation(
        Kind.NOTHING_TO_CHECK,
        group="prevents a pass",
        summary="there is nothing to differentiate",
        meaning="The function has no inputs, or all its inputs or its result are empty.",
        do="Name an input, or give it entries.",
        example=Example(
            'gradcli check "2*pi"',
            ("INCONCLUSIVE  2*pi: there is nothing to differentiate: f has no inputs, or they are empty",),
        ),
    ),
    Explanation(
        Kind.REFUSED,
        group="prevents a pass",
        summary="derive has no closed form for an input",
        meaning=(
            "The function has an operation for which there is no formula in matrix notation, or a form that could not "
            "be verified numerically. The message names it. Other inputs may have their closed form all the same."
        ),
        do="Rewrite the function without the operation, or compute the number: gradcli grad.",
        example=Example(
            'gradcli derive "sum(i0e(x))" --shapes "x: n"',
            ("refused: by x: i0e has no closed form here (i0e(x)); gradcli check verifies its gradient",),
        ),
    ),
    Explanation(
        Kind.MUTANT,
        group="prevents a pass",
        summary="a planted mistake would not have been found",
        meaning=(
            "With --mutate, gradcli plants mistakes in the gradient and asks whether this check would find them. Some "
            "would not be found: the bounds of the modes, or a tolerance that you fixed, are wide enough for them. "
            "Then a pass would say little."
        ),
        do=(
            "Leave out --rtol and --atol, or check at a point where the function loses fewer digits. To count this as "
            "success, add --allow mutant."
        ),
        example=Example(
            'gradcli check "sin(x)" x=1 --grad "cos(x)" --mutate --rtol 1',
            ("INCONCLUSIVE  sin(x): 1 of 1 planted mistakes would not be found: one entry off by a relative error",),
        ),
    ),
    Explanation(
        Kind.TIMEOUT,
        group="prevents a pass",
        summary="the time limit ended before the check did",
        meaning=(
            "The time of --timeout was over. What was finished by then is shown. A mode that took longer than "
            "--mode-timeout is named in a finding of this kind, too, which prevents nothing if other modes answer. Beside a "
            "FAIL it says that no cause is shown, since the time of --diagnose or --timeout was over before one was found."
        ),
        do=(
            "Give more time: --timeout 5min. Or check fewer points or fewer entries, with --points and --wrt. To "
            "count this as success, add --allow timeout; --allow-inconclusive does not cover it."
        ),
        example=Example(
            "gradcli check f.py:f x=1 --timeout 1s", ("INCONCLUSIVE  f.py:f: time is up after 1 s",), file=_TIMEOUT
        ),
    ),
    Explanation(
        Kind.BUDGET,
        group="prevents a pass",
        summary="too few evaluations were allowed",
        meaning="--budget limits how often the function is called. Differences would need more calls than that.",
        do="Give more: the finding says how many, as in --budget 20. To count this as success, add --allow budget.",
        example=Example(
            'gradcli check f.py:f "x=[1, 2]" --grad "[x[1], x[0]]" --budget 2',
            ("INCONCLUSIVE  f.py:f: 2 evaluations of f are too few to decide the claim",),
            file=_BUDGET,
        ),
    ),
)
