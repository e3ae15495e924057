"""Mistakes that a diagnosis names."""

from gradcli.reports.explain import Example, Explanation
from gradcli.words import DiagnosisKind

ROWS = (
    Explanation(
        DiagnosisKind.SIGN,
        group="mistake",
        summary="the sign is wrong",
        meaning=(
            "Every wrong entry is minus the right one, or its absolute value. The function may be a loss that is "
            "maximised, or a minus of the chain rule is missing."
        ),
        do="Look for the minus: of 1 - x, of a logarithm's argument, of the cosine.",
        example=Example(
            'gradcli check "cos(x)" x=1 --grad "sin(x)"',
            ("FAIL  cos(x): the claimed gradient is wrong in 1 of 1 entry", "Likely mistake: the sign is flipped"),
        ),
    ),
    Explanation(
        DiagnosisKind.FACTOR,
        group="mistake",
        summary="a constant factor is missing, or counted twice",
        meaning=(
            "Every wrong entry is the same multiple of the right one. Where the factor has a usual cause, the message "
            "names it: a 2 from a square, n from a mean that became a sum, degrees for radians, the base of a "
            "logarithm, a step size."
        ),
        do="Divide by the factor, where the message says that it comes from.",
        example=Example(
            'gradcli check "mean(x**2)" "x=[1, 2, 3]" --grad "2*x"',
            (
                "FAIL  mean(x**2): the claimed gradient is wrong in 3 of 3 entries",
                "Likely mistake: a factor 3 too large: a mean over axis 0 of x became a sum",
            ),
        ),
    ),
    Explanation(
        DiagnosisKind.SCALED,
        group="mistake",
        summary="every wrong entry is off by one factor near 1",
        meaning=(
            "The claim is nearly right: one factor close to 1, without a usual cause, explains all wrong entries. A "
            "constant in the code has too few digits, or a small term such as eps is on one side only."
        ),
        do="Compare the constants of the function with those of the gradient.",
        example=Example(
            'gradcli check "sum(exp(x))" "x=[0.1, 0.2]" --grad "1.0001*exp(x)"',
            (
                "FAIL  sum(exp(x)): the claimed gradient is wrong in 2 of 2 entries",
                "Likely mistake: every wrong entry is 1.0001 times the right one",
            ),
        ),
    ),
    Explanation(
        DiagnosisKind.SQUARED,
        group="mistake",
        summary="every entry is the square of the right one",
        meaning="A factor enters twice, or a square is taken of the gradient where it should be taken of a value.",
        do="Look for a factor that is multiplied in twice.",
        example=Example(
            'gradcli check "sum(exp(x))" "x=[0.1, 0.2]" --grad "exp(x)**2"',
            (
                "FAIL  sum(exp(x)): the claimed gradient is wrong in 2 of 2 entries",
                "Likely mistake: every entry is the square of the right one",
            ),
        ),
    ),
    Explanation(
        DiagnosisKind.DETACHED,
        group="mistake",
        summary="zero, as if the input were a constant",
        meaning=(
            "The claim says that the function does not depend on the input, but it does. The input was detached, "
            "copied or rounded somewhere, or its gradient was never assigned."
        ),
        do="Follow the input through the code of the gradient, and find where it is lost.",
        example=Example(
            'gradcli check "sum(exp(x))" "x=[0.1, 0.2]" --grad "0*x"',
            (
                "FAIL  sum(exp(x)): the claimed gradient is wrong in 2 of 2 entries",
                "Likely mistake: the gradient is zero: the input is detached somewhere or treated as a constant",
            ),
        ),
    ),
    Explanation(
        DiagnosisKind.CONSTANT,
        group="mistake",
        summary="one constant is added to the wrong entries",
        meaning=(
            "All wrong entries differ from the right ones by the same number. A term that does not depend on the "
            "index was added, or its derivative was forgotten."
        ),
        do="Look for a term whose derivative is this constant.",
        example=Example(
            'gradcli check "sum(exp(x))" "x=[0.1, 0.2]" --grad "exp(x) + 0.3"',
            (
                "FAIL  sum(exp(x)): the claimed gradient is wrong in 2 of 2 entries",
                "Likely mistake: a constant 0.3 is added",
            ),
        ),
    ),
    Explanation(
        DiagnosisKind.ENTRY,
        group="mistake",
        summary="one entry alone is wrong",
        meaning=(
            "All other entries agree with the right gradient. The entry is an edge of an array, the end of a loop, or "
            "a typing mistake."
        ),
        do="Look at the index that the message names, and at the first and last step of loops.",
        example=Example(
            'gradcli check "sum(x**3)" "x=[1, 2, 3]" --grad "[3, 12, 26.9]"',
            (
                "FAIL  sum(x**3): the claimed gradient is wrong in 1 of 3 entries",
                "Likely mistake: one entry alone is wrong, x[2], by a relative 3.7e-03; the others agree within ...",
            ),
        ),
    ),
    Explanation(
        DiagnosisKind.TRANSPOSED,
        group="mistake",
        summary="the gradient of a matrix is transposed",
        meaning=(
            "The claim is the right gradient with rows and columns exchanged, or flattened in one order and reshaped "
            "in the other. For a matrix A, the gradient has the shape of A."
        ),
        do="Transpose it: the gradient of u @ A @ v by A is outer(u, v).",
        example=Example(
            'gradcli check "u@A@v" "A=[[1, 2], [3, 4]], u=[1, 2], v=[3, 5]" --wrt A --grad "outer(v, u)"',
            (
                "FAIL  u@A@v: the claimed gradient is wrong in 2 of 4 entries",
                "Likely mistake: the gradient is transposed",
            ),
        ),
    ),
    Explanation(
        DiagnosisKind.ONE_TRIANGLE,
        group="mistake",
        summary="the function reads one triangle of a matrix",
        meaning=(
            "The claim is the symmetric part of the right gradient. A function such as Cholesky's factor reads one "
            "triangle only, so that the entries of the other have no gradient."
        ),
        do=(
            "If you mean a symmetric matrix, let the function read both triangles, (A + A.T)/2, or check it on symmetric "
            'matrices, at a symmetric point: --assume "A: symmetric".'
        ),
        example=Example(
            'gradcli check "sum(triu(A)**2)" "A=[[1, 2], [3, 4]]" --grad "triu(A) + triu(A).T"',
            (
                "FAIL  sum(triu(A)**2): the claimed gradient is wrong in 2 of 4 entries",
                "Likely mistake: the claim is the symmetric part of the right gradient: the function reads one ...",
            ),
        ),
    ),
    Explanation(
        DiagnosisKind.PERMUTED,
        group="mistake",
        summary="the entries are right, but in another order",
        meaning="The claim has the right numbers at the wrong places: reversed, exchanged, or sorted.",
        do="Compare the order of the inputs with that of the returned entries.",
        example=Example(
            'gradcli check "sum(x**2)" "x=[1, 2, 3]" --grad "[6, 4, 2]"',
            (
                "FAIL  sum(x**2): the claimed gradient is wrong in 2 of 3 entries",
                "Likely mistake: the entries are in reversed order",
            ),
        ),
    ),
    Explanation(
        DiagnosisKind.SHIFTED,
        group="mistake",
        summary="the entries are shifted by one",
        meaning="Each entry stands one place before or after its own. An index is off by one.",
        do="Look at the bounds of slices and loops.",
        example=Example(
            'gradcli check "sum(x**2)" "x=[1, 2, 3, 5]" --grad "[10, 2, 4, 6]"',
            (
                "FAIL  sum(x**2): the claimed gradient is wrong in 4 of 4 entries",
                "Likely mistake: the entries are shifted by one",
            ),
        ),
    ),
    Explanation(
        DiagnosisKind.BROADCAST,
        group="mistake",
        summary="entries were summed, averaged or copied",
        meaning=(
            "A sum or a mean over an axis was spread over all entries, or the gradient of an operand that was "
            "broadcast is not the sum over its copies."
        ),
        do="Where an operand is broadcast forward, sum its gradient over the same axes backward, and nowhere else.",
        example=Example(
            'gradcli check "sum(x**2)" "x=[1, 2, 3]" --grad "12 + 0*x"',
            (
                "FAIL  sum(x**2): the claimed gradient is wrong in 3 of 3 entries",
                "Likely mistake: every entry is the sum of the right ones: summed, then broadcast",
            ),
        ),
    ),
    Explanation(
        DiagnosisKind.SWAPPED,
        group="mistake",
        summary="gradients or values are exchanged",
        meaning=(
            "The claim for one input is the right gradient of another; or the claim is right with two inputs "
            "exchanged; or in the derivative of a product another value stands in place of the other factor."
        ),
        do="Compare the order in which gradients are returned with the order of the inputs.",
        example=Example(
            'gradcli check "x*y**2" x=2 y=3 --grad "x=2*x*y, y=y**2"',
            (
                "FAIL  x*y**2: the claimed gradient is wrong in 2 of 2 entries",
                "Likely mistake: the gradients of x and y are exchanged",
            ),
        ),
    ),
    Explanation(
        DiagnosisKind.SHAPE,
        group="mistake",
        summary="the claim has the wrong shape",
        meaning=(
            "A gradient has the shape of its input, and a Jacobian that of the output followed by that of the input. "
            "Where a sum or a transpose would make the claim right, the message says so."
        ),
        do="Return the shape that the message names.",
        example=Example(
            'gradcli check "sum(x**2)" "x=[1, 2, 3]" --grad "[2, 4]"',
            ("FAIL  sum(x**2): the claimed gradient of x has shape (2,); the right one has shape (3,)",),
        ),
    ),
    Explanation(
        DiagnosisKind.DIAGONAL_ONLY,
        group="mistake",
        summary="a diagonal is claimed, the matrix has more",
        meaning=(
            "The claim has the shape of the input, as the derivative of an elementwise function has. But an entry of the "
            "value depends on other entries of the input too, so that the Jacobian, or the Hessian, is a whole matrix. The "
            "derivative s*(1 - s) of a softmax is the usual case. The message says whether the claim equals the diagonal."
        ),
        do="Return the whole matrix, indexed [output, input]; or claim its product with a vector: --vjp, --jvp, --hvp.",
        example=Example(
            'gradcli check "softmax(x)" "x=[0.3, -0.2, 0.9]" --grad "softmax(x)*(1 - softmax(x))"',
            (
                "FAIL  softmax(x): the claim for x equals the diagonal; the Jacobian has other entries, such as "
                "df[0]/dx[2] = -0.155",
            ),
        ),
    ),
    Explanation(
        DiagnosisKind.NON_FINITE,
        group="mistake",
        summary="nan or infinite where the right one is finite",
        meaning=(
            "The formula of the claim divides zero by zero, overflows, or multiplies 0 by an infinity, at a point "
            "where the function is smooth."
        ),
        do="Rewrite the formula so that it is finite at the point, as x/x becomes 1.",
        example=Example(
            'gradcli check "sum(x*log(x + 1))" "x=[0, 1]" --grad "x/x*log(x + 1) + x/(x + 1)"',
            (
                "FAIL  sum(x*log(x + 1)): the claimed gradient is wrong in 1 of 2 entries",
                "Likely mistake: the claim is not finite in x[0], where the right gradient is",
            ),
        ),
    ),
    Explanation(
        DiagnosisKind.SLIP,
        group="mistake",
        summary="the derivative of one operation is wrong",
        meaning=(
            "One line of the function, differentiated wrongly, explains the whole claim: 1 - y for 1 - y**2 of tanh, "
            "a forgotten inner derivative, a forgotten transpose. The message has the right and the wrong formula, "
            "and the line."
        ),
        do="Correct that derivative in your gradient.",
        example=Example(
            'gradcli check "sum(tanh(x)**2)" "x=[0.5, 1]" --grad "2*tanh(x)*(1 - tanh(x))"',
            (
                "FAIL  sum(tanh(x)**2): the claimed gradient is wrong in 2 of 2 entries",
                "Likely mistake: tanh' is 1 - y**2, not 1 - y, in tanh(x)",
            ),
        ),
    ),
    Explanation(
        DiagnosisKind.NEGATED,
        group="mistake",
        summary="one operation's derivative has the wrong sign",
        meaning=(
            "With the sign of one line's derivative flipped, the right gradient becomes the claim. The quotient rule "
            "and the derivatives of cos, 1 - x and 1/x have a minus that is often forgotten."
        ),
        do="Flip the sign of that term.",
        example=Example(
            'gradcli check "sum(sin(x)/x)" "x=[1, 2]" --grad "cos(x)/x + sin(x)/x**2"',
            (
                "FAIL  sum(sin(x)/x): the claimed gradient is wrong in 2 of 2 entries",
                "Likely mistake: the derivative on this line has the wrong sign, in sin(x)/x",
            ),
        ),
    ),
    Explanation(
        DiagnosisKind.LEFT_OUT,
        group="mistake",
        summary="an intermediate value is treated as a constant",
        meaning=(
            "The part of the gradient that flows through one intermediate value is missing, for all inputs that it "
            "depends on. The message quotes the operation."
        ),
        do="Add the derivative by that value, times its own derivative.",
        example=Example(
            'gradcli check "x*exp(x*y)" x=1 y=2 --grad "x=exp(x*y), y=0"',
            (
                "FAIL  x*exp(x*y): the claimed gradient is wrong in 2 of 2 entries",
                "Likely mistake: the gradient through `exp(x*y)` is missing: treated as a constant",
            ),
        ),
    ),
    Explanation(
        DiagnosisKind.TERM,
        group="mistake",
        summary="the gradient of one term is missing",
        meaning="The function is a sum, and the claim lacks the gradient of one of its terms, such as a penalty.",
        do="Add the gradient of the term that the message quotes.",
        example=Example(
            'gradcli check "sum(x**3) + sum(sin(x))" "x=[1, 2]" --grad "3*x**2"',
            (
                "FAIL  sum(x**3) + sum(sin(x)): the claimed gradient is wrong in 2 of 2 entries",
                "Likely mistake: the gradient of one term of the function is missing, in sum(sin(x))",
            ),
        ),
    ),
    Explanation(
        DiagnosisKind.AXIS,
        group="mistake",
        summary="a sum runs along the wrong axis, or backwards",
        meaning=(
            "The gradient of one line is summed, spread or accumulated along another axis than it should be. The "
            "gradient of a cumulative sum is a cumulative sum from the end."
        ),
        do="Give the axis along which the operand was broadcast or accumulated forward.",
        example=Example(
            'gradcli check "sum(cumsum(x)**2)" "x=[1, 2, 3]" --grad "cumsum(2*cumsum(x))"',
            (
                "FAIL  sum(cumsum(x)**2): the claimed gradient is wrong in 3 of 3 entries",
                "Likely mistake: the gradient of a cumulative sum is a cumulative sum from the end, not from the ...",
            ),
        ),
    ),
    Explanation(
        DiagnosisKind.OVERWRITTEN,
        group="mistake",
        summary="contributions to a gradient overwrite each other",
        meaning=(
            "A value is used more than once, so that its gradient is the sum over all uses. The claim has the "
            "gradient of some uses only, as if = stood in place of +=. Overlapping slices and repeated indices are "
            "usual places."
        ),
        do="Write += for each use; np.add.at for repeated indices.",
        example=Example(
            'gradcli check "sum(x[0:2]**2) + sum(x[1:3]**3)" "x=[1, 2, 3]" --grad "[2*x[0], 3*x[1]**2, 3*x[2]**2]"',
            (
                "FAIL  sum(x[0:2]**2) + sum(x[1:3]**3): the claimed gradient is wrong in 1 of 3 entries",
                "Likely mistake: where slices of a value overlap, only the later one is counted, as in `x[0:2]`: ...",
            ),
        ),
    ),
    Explanation(
        DiagnosisKind.STALE,
        group="mistake",
        summary="the claim is the right gradient at another point",
        meaning=(
            "It fits a point near by, a rounded or negative one, or the values of another iteration of a loop: a "
            "value was used after or before it was updated."
        ),
        do="Compute the gradient from the values at the point itself, not from stored ones.",
        example=Example(
            'gradcli check "sum(exp(x))" "x=[0.5, 1]" --grad "exp(-x)"',
            (
                "FAIL  sum(exp(x)): the claimed gradient is wrong in 2 of 2 entries",
                "Likely mistake: the claim is the right gradient at the negative point",
            ),
        ),
    ),
    Explanation(
        DiagnosisKind.APPROXIMATION,
        group="mistake",
        summary="a difference quotient, or of low precision",
        meaning=(
            "The claim has the error of an approximation: of differences with a fixed step, which the message names, "
            "of float32, or of a solver's tolerance. It is nearly right, and not exact."
        ),
        do="Return the exact gradient. To accept the approximation, give a tolerance, such as --rtol 1e-4.",
        example=Example(
            'gradcli check "sum(sin(x))" "x=[0.3, 0.9]" --grad "(sin(x + 1e-5) - sin(x))/1e-5"',
            (
                "FAIL  sum(sin(x)): the claimed gradient is wrong in 2 of 2 entries",
                "Likely mistake: the claim is a forward difference with the step h = 1e-05; its error is ...",
            ),
        ),
    ),
    Explanation(
        DiagnosisKind.UNKNOWN,
        group="mistake",
        summary="no single known mistake explains the claim",
        meaning=(
            "The claim is wrong, but no mistake in gradcli's list turns the right gradient into it: there may be two "
            "mistakes at once. The message describes the error: the entries it is in, its sign and size."
        ),
        do=(
            "Check parts of the gradient alone: one input with --wrt, or a part of the function. gradcli trace shows "
            "every step of the right gradient."
        ),
        example=Example(
            'gradcli check "sum(sin(x))" "x=[0.3, 0.9]" --grad "[7, 2]"',
            (
                "FAIL  sum(sin(x)): the claimed gradient is wrong in 2 of 2 entries",
                "no mistake that gradcli knows explains the claim; its error is in every entry of x (positive, ...",
            ),
        ),
    ),
)
