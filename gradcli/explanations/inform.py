"""Findings that inform, and prevent nothing."""

from gradcli.reports.explain import Example, Explanation
from gradcli.words import Kind

_BRANCH = """\
def f(x):
    return x**2 if x > 1 else x
"""
_UNTRACED = """\
import math

import numpy as np


def f(x):
    return math.sin(np.float64(x))
"""
_INTEGER = """\
def f(x):
    return int(x)
"""
_VALUE_AND_GRADIENT = """\
import numpy as np


def f(x):
    return np.sum(x**2), 2 * x
"""
_REFERENCE = """\
import math

import numpy as np


def f(x):
    return math.sin(np.float64(x))
"""
_PRECISION = """\
import numpy as np


def f(x):
    return np.sum(x**2)


def point():
    return {"x": np.float32([1, 2])}
"""
_CLAIM = """\
def f(x):
    return x**2


def f_grad(x):
    return 2 * x
"""
_COVERAGE = """\
import numpy as np


def f(x):
    return sum(np.float64(a) ** 2 for a in x)
"""

ROWS = (
    Explanation(
        Kind.SUBGRADIENT,
        group="informs",
        summary="the claim at a kink is a subgradient, and passes",
        meaning=(
            "At a kink there is no gradient, but there are subgradients: the means of the gradients of the smooth "
            "pieces that meet there. The claim is one of them, and is accepted."
        ),
        do="Nothing. To know whether it is a gradient elsewhere, check at another point too.",
        example=Example(
            'gradcli check "abs(x)" x=0 --grad "0.5"',
            (
                "PASS (a subgradient at a kink)  abs(x): the claimed gradient is right to better than 2e-08",
                "subgradient: at the kink the claim is a subgradient: a mean of the gradients of the 2 smooth ...",
            ),
        ),
    ),
    Explanation(
        Kind.KINK_NEARBY,
        group="informs",
        summary="a kink is close to the point",
        meaning=(
            "The function is smooth at the point, but has a kink a short distance away, which the message states. The "
            "gradient is checked on the smooth piece at the point itself; differences take steps that stay on it."
        ),
        do="Nothing, if the point is meant. Otherwise move it off the kink.",
        example=Example(
            'gradcli check "abs(x)" x=1e-9',
            (
                "PASS  abs(x): gradcli's own gradient is right to better than 2e-14; none of yours was checked ...",
                "kink-nearby: a kink is 1e-09 away in x; the gradient is checked on the smooth piece at the ...",
            ),
        ),
    ),
    Explanation(
        Kind.BRANCH,
        group="informs",
        summary="which side of a comparison was taken",
        meaning=(
            "The function compares numbers that depend on the inputs, as in an if. Only the side that was taken at "
            "this point is checked."
        ),
        do="Check at a point on the other side, too: --at, or --points N for more points.",
        example=Example(
            "gradcli check f.py:f x=1.5",
            (
                "PASS  f.py:f: gradcli's own gradient is right to better than 7e-15; none of yours was checked ...",
                "branch: 1.5 > 1 is true, by a margin of 0.5",
            ),
            file=_BRANCH,
        ),
    ),
    Explanation(
        Kind.ZERO_SLOPE,
        group="informs",
        summary="the slope is 0 at the point of a sweep",
        meaning=(
            "A relative error has no meaning where the slope is 0. The errors of the sweep are absolute, in units of "
            "the function per step."
        ),
        do="Nothing. For relative errors, choose a point with a slope.",
        example=Example(
            'gradcli sweep "x**2" x=0',
            ("zero-slope: the slope is 0 here: errors are absolute, in units of f per step",),
        ),
    ),
    Explanation(
        Kind.DETERMINISTIC,
        group="informs",
        summary="--samples changes nothing, as nothing is random",
        meaning=(
            "gradcli sweep --samples N takes the step for a random function from the spread of N values. This "
            "function gives the same value every time."
        ),
        do="Leave out --samples.",
        example=Example(
            'gradcli sweep "sin(x)" x=1 --samples 10',
            ("deterministic: f gives the same value at each call: --samples changes nothing",),
        ),
    ),
    Explanation(
        Kind.RANGE,
        group="informs",
        summary="the slope is outside of what float64 holds",
        meaning=(
            "The slope by one step of the inputs' size is too large or too small for a number in float64. Values of "
            "the function near the point overflow or underflow."
        ),
        do="Scale the inputs or the function, or compute with more bits: --bits 113.",
        example=Example(
            'gradcli sweep "x**2" x=1e-170 --schemes central',
            ("range: the slope by one step of the inputs' size is 2.00e-340, which float64 does not hold: ...",),
        ),
    ),
    Explanation(
        Kind.SCALE,
        group="informs",
        summary="no step of a sweep gives a right digit",
        meaning=(
            "The steps of a sweep are chosen by the sizes of the inputs. The function changes on quite another scale, "
            "so that every step is too wide or drowns in rounding."
        ),
        do=(
            "Name the size over which an input makes a difference: --scale x=1e-3. If that is no help, compute with "
            "more bits: --bits 113."
        ),
        example=Example(
            'gradcli sweep "sin(1e30*x)" x=1 --schemes central',
            ("scale: no step gives a right digit: the sizes of the inputs do not show on what scale f ...",),
        ),
    ),
    Explanation(
        Kind.UNTRACED,
        group="informs",
        summary="the function is checked by its values alone",
        meaning=(
            "gradcli could not follow the function: it turns a value into a plain number, calls code that is not "
            "numpy, or is written in TensorFlow or MLX. The message and the line say where. The claim is compared with "
            "differences of function values, which see less small mistakes than gradcli's rules do."
        ),
        do=(
            "Use numpy's functions in place of np.float64(), math or other libraries, or torch or JAX, if you want the "
            "other modes too."
        ),
        example=Example(
            'gradcli check f.py:f x=1 --grad "cos(x)"',
            (
                "PASS  f.py:f: the claimed gradient is right to better than 7e-12",
                "untraced: checked by function values alone: a traced value is converted to a plain array",
            ),
            file=_UNTRACED,
        ),
    ),
    Explanation(
        Kind.INTEGER,
        group="informs",
        summary="the function returns an integer",
        meaning=(
            "The result is a Python int, so that it changes in steps and its gradient is zero. A conversion by int(), "
            "round() or // is often the reason."
        ),
        do="Return a float.",
        example=Example(
            "gradcli check f.py:f x=1.5",
            (
                "INCONCLUSIVE  f.py:f: only function values are available, and nothing independent confirms ...",
                "integer: f.py:f returns an int (1), whose gradient is zero",
            ),
            file=_INTEGER,
        ),
    ),
    Explanation(
        Kind.VALUE_AND_GRADIENT,
        group="informs",
        summary="it seems to return its value and its gradient",
        meaning="It returns a number and an array that is shaped like its input. gradcli differentiates both, as two outputs.",
        do="If the second is the gradient, add --value-and-grad, and it is checked; elsewhere, --pick value=1,grad=0 says where.",
        example=Example(
            'gradcli check f.py:f "x=[1, 2]"',
            (
                "PASS  f.py:f: gradcli's own Jacobian is right to better than 9e-15; none of yours was checked ...",
                "value-and-gradient: it returns a scalar and an array shaped like its input: both are ...",
            ),
            file=_VALUE_AND_GRADIENT,
        ),
    ),
    Explanation(
        Kind.NOTICE,
        group="informs",
        summary="the expression may be meant otherwise",
        meaning=(
            "The expression can be read in two ways, and gradcli took one: softmax of a matrix over all of its "
            "entries, a function of a matrix entry by entry, a size that is named like an input. The message says "
            "which."
        ),
        do="Nothing, if it is what you mean. Otherwise write it out.",
        example=Example(
            'gradcli check "sum(softmax(X)**2)" "X=randn(2,2)"',
            (
                "PASS  sum(softmax(X)**2): gradcli's own gradient is right to better than 4e-14; none of yours ...",
                "notice: without axis, all entries of the matrix are taken together: write axis=-1 for rows, ...",
            ),
        ),
    ),
    Explanation(
        Kind.DIRECTION,
        group="informs",
        summary="function values confirm a random direction",
        meaning=(
            "Where there are too many entries to move each one alone, the function is moved along one random "
            "direction, and its slope there is compared with that of the gradient. A mistake in any entry changes "
            "that slope. With --modes certified,reverse and over four million entries, the direction is also certified, by "
            "values in ball arithmetic of 128 bits, if f is made of entry-by-entry operations and sums."
        ),
        do="Nothing. --modes all moves every entry where that is possible.",
        example=Example(
            'gradcli check "tanh(x)" "x=randn(12000)"',
            (
                "PASS  tanh(x): gradcli's own gradient is right to better than 3e-11; none of yours was checked ...",
                "direction: the untouched function confirms one random direction to 1e-12",
            ),
        ),
    ),
    Explanation(
        Kind.REFERENCE,
        group="informs",
        summary="what the errors of a sweep are measured against",
        meaning=(
            "Errors of a sweep are measured against the certified derivative. Where there is none, as for a function "
            "that cannot be recorded, they are measured against extrapolated differences, whose own error limits what "
            "can be seen."
        ),
        do="Use numpy's functions in place of np.float64() or math, so that the function can be recorded.",
        example=Example(
            "gradcli sweep f.py:f x=1 --schemes central",
            ("reference: f cannot be traced: errors are those against extrapolated differences, whose bound ...",),
            file=_REFERENCE,
        ),
    ),
    Explanation(
        Kind.COMPLEX,
        group="informs",
        summary="there is no complex step for this function",
        meaning=(
            "The complex step evaluates the function at x + ih. That needs operations that are analytic: not abs, "
            "maximum or comparisons. Or the format of the sweep has no complex numbers."
        ),
        do="Nothing. The other schemes answer.",
        example=Example(
            'gradcli sweep "abs(x)*x" x=1 --schemes central,complex',
            ("complex: no complex step: absolute is not analytic",),
        ),
    ),
    Explanation(
        Kind.SECOND_ORDER,
        group="informs",
        summary="function values confirm a Hessian's direction",
        meaning=(
            "Second differences of the function along a random direction agree with the Hessian, and the message says "
            "how symmetric it is."
        ),
        do="Nothing.",
        example=Example(
            'gradcli check "x**3" x=2 --hess "6*x"',
            (
                "PASS  x**3: the claimed Hessian is right to better than 2e-12",
                "second-order: second differences of the untouched function confirm one random direction to ...",
            ),
        ),
    ),
    Explanation(
        Kind.NOT_SYMMETRIC,
        group="informs",
        summary="the claimed Hessian is not symmetric",
        meaning=(
            "The second derivatives of a smooth function do not depend on the order of differentiation, so that its "
            "Hessian is symmetric. Two mirrored entries of the claim differ, and at least one of them is wrong."
        ),
        do="Look at the two entries that the message names.",
        example=Example(
            'gradcli check "x[0]**2*x[1]" "x=[2, 3]" --hess "[[2*x[1], x[0]], [2*x[0], 0]]"',
            (
                "FAIL  x[0]**2*x[1]: the claimed Hessian is wrong in 1 of 4 entries",
                "not-symmetric: the claimed Hessian is not symmetric: 2 at 0,1 and 4 at 1,0",
            ),
        ),
    ),
    Explanation(
        Kind.WEAK,
        group="informs",
        summary="every entry of the gradient is zero at the point",
        meaning=(
            "At an extremum, or where a function is flat, a gradient of zero is right. It is also what a function "
            "gives that has lost its inputs, so that a pass here proves little."
        ),
        do="Check at another point too: --at.",
        example=Example(
            'gradcli check "x**2" x=0',
            (
                "PASS  x**2: gradcli's own gradient is right to within 2e-30 (absolute: every entry is 0); none ...",
                "weak: every entry of the gradient is zero here, which proves little",
            ),
        ),
    ),
    Explanation(
        Kind.PRECISION,
        group="informs",
        summary="the format in which something was checked",
        meaning=(
            "A function or an argument is in a narrow format such as float32. The message says in which format it was "
            "checked, or that a gradient is wrong in float64 too, and not only inexact in its own format."
        ),
        do="Nothing. --dtype chooses the format in which a framework's gradient is checked.",
        example=Example(
            "gradcli check f.py:f --at f.py:point",
            (
                "PASS  f.py:f: gradcli's own gradient is right to better than 9e-15; none of yours was checked ...",
                "precision: x is float32; it was checked as float64",
            ),
            file=_PRECISION,
        ),
    ),
    Explanation(
        Kind.CLAIM,
        group="informs",
        summary="how the claim was read, or what was not checked",
        meaning=(
            "The file has a function that looks like the gradient of the target, and it was not checked; or a note "
            "says how the claim was read, such as a Jacobian that is laid out flat."
        ),
        do="To check the function that is named, add --grad with its name.",
        example=Example(
            "gradcli check f.py:f x=3",
            (
                "PASS  f.py:f: gradcli's own gradient is right to better than 7e-15; none of yours was checked ...",
                "claim: f_grad is in this file and was not checked",
            ),
            file=_CLAIM,
        ),
    ),
    Explanation(
        Kind.DIAGONAL,
        group="informs",
        summary="the claim is the diagonal of the Jacobian",
        meaning=(
            "Each entry of the value depends on one entry of the input alone, as in an activation function, so that the "
            "Jacobian is diagonal; or the Hessian is, as that of a sum of one term for each entry. A claim of the input's "
            "shape is then that diagonal, the gradient of the sum of all entries. That it is diagonal is read off the "
            "recorded program, or seen where groups of entries are moved: the values of the others do not change."
        ),
        do="Nothing; a claim of the whole matrix is taken too.",
        example=Example(
            'gradcli check "tanh(x)" "x=[0.1, 0.5, 2]" --grad "1 - tanh(x)**2"',
            (
                "PASS  tanh(x): the claimed elementwise derivative is right to better than ...",
                "diagonal: f is elementwise: each entry of its value depends on the same entry of x alone, by the recorded "
                "program; the claim is the diagonal of the Jacobian",
            ),
        ),
    ),
    Explanation(
        Kind.INACCURATE,
        group="informs",
        summary="the claim, or f, is right and loses digits",
        meaning=(
            "At the point that the finding names, the claim keeps few of the 16 digits of float64, though its formula is "
            "right: evaluated without rounding it is the gradient. Nearly equal numbers cancel, or an intermediate result "
            "overflows. What the inputs themselves leave uncertain is not counted. Points are those of the check, or those "
            "that --stress looks for; without a claim it counts the digits of f, and of its gradient by each mode."
        ),
        do="Write the line that the finding names another way. To make it a failure, ask for digits: --digits 8.",
        example=Example(
            'gradcli check "sum(exp(x) - x)" --grad "exp(x) - 1" --at "x=[0.7, -1.5]" --stress --bounds x=-100:100',
            (
                "PASS  sum(exp(x) - x): the claimed gradient is right to better than 3e-12",
                "inaccurate: the claim of x keeps 0.0 right digits at x = ...",
            ),
        ),
    ),
    Explanation(
        Kind.NOTHING_TO_COMPARE,
        group="informs",
        summary="there is nothing to compare modes of",
        meaning=(
            "gradcli compare-modes sets modes side by side. The function has no inputs, or they are empty, so that no "
            "mode has anything to compute."
        ),
        do="Name an input.",
        example=Example('gradcli compare-modes "2*pi"', ("nothing-to-compare: f has no entries to differentiate by",)),
    ),
    Explanation(
        Kind.COVERAGE,
        group="informs",
        summary="how small a mistake projections would have seen",
        meaning=(
            "For a function of many entries that can only be called, moving each entry would take too long. Random "
            "combinations of entries are compared instead. The finding says how many calls were made, and how small a "
            "mistake in a single entry would have been found."
        ),
        do="To see smaller mistakes, allow more calls: --budget N.",
        example=Example(
            'gradcli check f.py:f "x=randn(1000)" --grad "2*x" --budget 500',
            (
                "PASS  f.py:f: the claimed gradient is right to better than 3e-01",
                "coverage: function values alone: 5 projections of 1,000 entries, 500 evaluations; with 99 % ...",
            ),
            file=_COVERAGE,
        ),
    ),
    Explanation(
        Kind.PROJECTION,
        group="informs",
        summary="a large Jacobian is checked along one vector",
        meaning=(
            "The Jacobian has too many entries to compute them all. A random combination of the outputs has one "
            "gradient, which is checked in place of the Jacobian. A mistake in any entry changes it."
        ),
        do="Nothing. To see single entries, check fewer inputs or outputs.",
        example=Example(
            'gradcli check "tanh(x)" "x=randn(12000)"',
            (
                "PASS  tanh(x): gradcli's own gradient is right to better than 3e-11; none of yours was checked ...",
                "projection: the Jacobian has 12,000 x 12,000 entries; checked is its product with one random ...",
            ),
        ),
    ),
    Explanation(
        Kind.UNAVAILABLE,
        group="informs",
        summary="a mode that was asked for is not installed",
        meaning=(
            "--modes names a framework that is not installed here. The other modes answer; the headline is ERROR, and the "
            "exit status 2."
        ),
        do="Install it as the hint says, or leave it out; gradcli modes lists what is here.",
        example=Example(
            'gradcli check "x**2" x=3 --modes reverse,fd,mlx',
            ("ERROR  x**2: mlx is not installed ...", "unavailable: mlx is not installed"),
        ),
    ),
)
