"""What gradcli differentiates in Python code and an expression cannot call, each with the reason.

Every other function with a rule or a handler is in the language; a test finds one that is neither there nor here.
"""

from typing import NamedTuple


class LeftOut(NamedTuple):
    """Why functions are not in the language, what to write instead, and which functions they are."""

    why: str
    do: str
    names: str


# fmt: off
LEFT_OUT: tuple[LeftOut, ...] = (
    LeftOut("it takes a Python function", "write the formula itself", "apply_along_axis apply_over_axes piecewise"),
    LeftOut("it writes into its argument", "write where(...), or concatenate([...])",
            "copyto fill_diagonal place put_along_axis putmask setitem put"),
    LeftOut("it is about types or memory", "leave it out: every value is an array of float64",
            "astype can_cast common_type iscomplexobj isrealobj isscalar may_share_memory min_scalar_type real_if_close "
            "result_type shares_memory asanyarray ascontiguousarray complex"),
    LeftOut("it writes a text", "leave it out", "array2string array_repr array_str"),
    LeftOut("the entries of its result are not defined", "write zeros_like(x)", "empty_like"),
    LeftOut("its result is a size", "write the number, or mean(...) for a sum divided by it", "shape ndim size"),
    LeftOut("its result is a list of positions whose length depends on the values", "multiply by a comparison: x*(x > 0)",
            "nonzero argwhere flatnonzero"),
    LeftOut("its result is a set of positions", "write tril(A), triu(A) or diag(A)",
            "diag_indices_from tril_indices_from triu_indices_from"),
    LeftOut("it takes an array of integers", "write comparisons: sum(w*(k == 2))", "bincount choose"),
    LeftOut("it takes or returns exponents as integers", "write x*2**n, or log2(abs(x))", "frexp ldexp"),
    LeftOut("it is about complex numbers, and inputs are real", "compare imag(x) with 0", "iscomplex isreal"),
    LeftOut("eigenvalues of a matrix that is not symmetric may be complex, or have no derivative",
            "write eigvalsh(A) for a symmetric matrix", "eig eigvals"),
    LeftOut("it has four complex-valued results", "write jv, yv, iv or kv of order 1/3", "airy"),
    LeftOut("scipy has no derivative of the zeta function", "write polygamma(n, x) for sums of powers 1/(k + x)**n", "zetac"),
    LeftOut("it is the part of others that indexes", "write x[0] or x[1:]", "getitem"),
    LeftOut("it is a part of other functions", "write the function that contains it",
            "scatter peaks integer_power eigenvectors singular_vectors dft_cos dft_sin si ci shi chi fresnel_s fresnel_c "
            "eigenvector_signs singular_vector_signs solution gammainc_order"),
)
# fmt: on
REASONS: dict[str, LeftOut] = {name: row for row in LEFT_OUT for name in row.names.split()}
