"""custom_linear_solve: recovers the matrix from the function that multiplies by it, and solves the equations.

JAX factorises the matrix without derivatives and differentiates the product instead; here the solution itself is
differentiated.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradcli.core.primitive import Value
from gradcli.core.shapes import end_to_end, shape, size, split_like
from gradcli.errors import NotSupported

MOST_UNKNOWNS = 400  # for a product of unknown form, which is evaluated once for each unknown
Run = Callable[[Any, Sequence[Value]], list[Value]]
Axis = tuple[str, int]
MOVES = {"jit": "jaxpr", "pjit": "jaxpr", "closed_call": "call_jaxpr"}


def solved(params: Any, xs: Sequence[Value], run: Run) -> list[Value]:
    """Solve the equations of custom_linear_solve; `xs` are the constants of its four functions, then the right-hand sides.

    Raises  NotSupported for a product of unknown form with more than 400 unknowns.
    """
    lengths = params["const_lengths"]
    count = lengths.matvec + lengths.vecmat + lengths.solve + lengths.transpose_solve
    constants, right = list(xs[: lengths.matvec]), list(xs[count:])
    product = params["jaxprs"].matvec
    form = product_form(product, lengths.matvec) if len(right) == 1 else None
    if form is not None:
        return [form(constants, right[0])]
    return _by_columns(lambda *trial: run(product, [*constants, *trial]), right)


def _by_columns(multiply: Callable[..., list[Value]], right: Sequence[Value]) -> list[Value]:
    """Solve with the matrix whose columns are the products of unit vectors."""
    n = sum(size(x) for x in right)
    if n > MOST_UNKNOWNS:
        raise NotSupported(f"custom_linear_solve with {n} unknowns is not replayed", do=f"at most {MOST_UNKNOWNS}")
    columns = [end_to_end(multiply(*split_like(unit, right))) for unit in np.eye(n)]
    return split_like(np.linalg.solve(np.stack(columns, axis=-1), end_to_end(right)), right)


def product_form(product: Any, count: int) -> Callable[[Sequence[Value], Value], Value] | None:
    """Return a solver for a product that is one contraction of a constant with the vector; None for any other product.

    Axes are followed by name through the equations: the axis of the vector that is contracted, the axis of the constant
    that takes its place, and the axes that stay (stacks of matrices, several right-hand sides).
    """
    jaxpr = getattr(product, "jaxpr", product)
    if len(jaxpr.invars) != count + 1 or jaxpr.constvars:
        return None
    names: dict[Any, list[Axis]] = {}
    for k, variable in enumerate(jaxpr.invars):
        names[variable] = [("x" if k == count else f"constant {k}", axis) for axis in range(len(variable.aval.shape))]
    contracted: list[tuple[Axis, Axis]] = []
    batched: dict[Axis, Axis] = {}
    if not _followed(jaxpr, names, contracted, batched) or len(contracted) != 1:
        return None
    column, unknown = contracted[0] if contracted[0][1][0] == "x" else contracted[0][::-1]
    if unknown[0] != "x" or column[0] == "x":
        return None
    which = int(column[0].split()[1])
    ndim = len(jaxpr.invars[count].aval.shape)
    found = names.get(jaxpr.outvars[0], [])
    rows = [axis for k, axis in enumerate(found) if axis != ("x", k)]
    if len(found) != ndim or len(rows) != 1 or rows[0][0] != column[0] or found.index(rows[0]) != unknown[1]:
        return None
    stacks = {x[1]: axis[1] for axis, x in batched.items()}  # from the vector's axes to the constant's
    return lambda constants, b: _solve(constants[which], b, stacks, rows[0][1], column[1], unknown[1])


def _followed(
    jaxpr: Any, names: dict[Any, list[Axis]], contracted: list[tuple[Axis, Axis]], batched: dict[Axis, Axis]
) -> bool:
    """Name the axes of every value of a jaxpr; return False if an equation does more than move or contract axes."""
    for equation in jaxpr.eqns:
        name, params = equation.primitive.name, equation.params
        inputs = [names.get(atom) if not hasattr(atom, "val") else None for atom in equation.invars]
        if any(x is None for x in inputs):
            return False
        found: list[Any] = [x for x in inputs if x is not None]
        if name == "transpose":
            y = [found[0][k] for k in params["permutation"]]
        elif name in ("copy", "convert_element_type"):
            y = found[0]
        elif name == "dot_general" and not contracted:
            (over, under), (first, second) = params["dimension_numbers"]
            a, b = found
            contracted += [(a[i], b[j]) for i, j in zip(over, under, strict=True)]
            for i, j in zip(first, second, strict=True):
                one, other = (a[i], b[j]) if b[j][0] == "x" else (b[j], a[i])
                batched[one] = other
            y = [batched.get(a[i], a[i]) for i in first]
            y += [axis for k, axis in enumerate(a) if k not in (*over, *first)]
            y += [axis for k, axis in enumerate(b) if k not in (*under, *second)]
        elif name in MOVES:
            inner = getattr(params[MOVES[name]], "jaxpr", params[MOVES[name]])
            inside: dict[Any, list[Axis]] = dict(zip(inner.invars, found, strict=True))
            if inner.constvars or not _followed(inner, inside, contracted, batched):
                return False
            y = inside.get(inner.outvars[0], [])
        else:
            return False
        names[equation.outvars[0]] = y
    return True


def _solve(a: Value, b: Value, stacks: dict[int, int], row: int, column: int, unknown: int) -> Value:
    """Solve for a stack of matrices; `stacks` pairs axes of `b` with those of `a`."""
    ours = list(stacks)
    free = [k for k in range(len(shape(b))) if k not in (*ours, unknown)]
    matrices = np.transpose(a, [stacks[k] for k in ours] + [row, column])
    order = [*ours, unknown, *free]
    stacked = np.transpose(b, order)
    sizes = shape(stacked)
    columns = np.reshape(stacked, (*sizes[: len(ours) + 1], int(np.prod(sizes[len(ours) + 1 :], dtype=int))))
    y = np.reshape(np.linalg.solve(matrices, columns), sizes)
    return np.transpose(y, np.argsort(order).tolist())
