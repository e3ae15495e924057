"""The square root and the logarithm of a matrix in ball arithmetic, each with a proof that the result is one."""

from flint import arb, arb_mat, ctx

from gradcli.errors import Undecided

_MOST_ROWS = 16  # of a matrix whose root is proved: the proof solves a system with the square of that many rows
_MOST_STEPS = 60
_NEAR = 0.25  # of the largest entry times the rows: so near to the identity the series of the logarithm is short


def root(a: arb_mat) -> arb_mat:
    """Return the principal square root.

    X is found by Newton's method on midpoints. The error E solves XE + EX = A - X^2 - E^2; with K the inverse of the linear
    part and r = K(A - X^2), an E with |E| <= 2|r| exists if 4 |K| |r| < 1 (Newton and Kantorovich).

    Raises  Undecided if the iteration does not converge, or the proof fails.
    """
    n = a.nrows()
    if n > _MOST_ROWS:
        raise Undecided(
            f"the root of a matrix of more than {_MOST_ROWS} rows is not proved", do="take a smaller matrix"
        )
    x = _newton(a)
    try:
        inverse = _linear_part(x).inv()
    except ZeroDivisionError:
        raise _unproved() from None
    rest = a - x * x
    moved = inverse * arb_mat(n * n, 1, rest.entries())
    error, size = _largest(moved), _row_sum(inverse)
    if not 4 * size * n * error < 1:
        raise _unproved()
    radius = (2 * error).upper()
    return arb_mat(n, n, [entry + arb(0, radius) for entry in x.entries()])


def _unproved() -> Undecided:
    return Undecided("a square root of a matrix is not proved", do="move the point away from matrices without a root")


def _newton(a: arb_mat) -> arb_mat:
    """Return a midpoint matrix near the root, by the product form of the iteration of Denman and Beavers."""
    n = a.nrows()
    x, y = a.mid(), _identity(n)
    for _ in range(_MOST_STEPS):
        try:
            following = ((x + y.inv()) / 2).mid(), ((y + x.inv()) / 2).mid()
        except ZeroDivisionError:
            raise _unproved() from None
        moved = _largest(following[0] - x)
        x, y = following
        if moved < arb(2) ** (8 - ctx.prec) * (1 + _largest(x)):
            return x
    raise _unproved()


def _linear_part(x: arb_mat) -> arb_mat:
    """Return the matrix of E -> XE + EX, for E as one column of rows."""
    n = x.nrows()
    entries = [arb(0)] * n**4
    for i in range(n):
        for j in range(n):
            row = (i * n + j) * n * n
            for k in range(n):
                entries[row + k * n + j] += x[i, k]
                entries[row + i * n + k] += x[k, j]
    return arb_mat(n * n, n * n, entries)


def _largest(m: arb_mat) -> arb:
    found = arb(0)
    for entry in m.entries():
        found = found.max(abs(entry).upper())
    return found


def _row_sum(m: arb_mat) -> arb:
    found = arb(0)
    for row in range(m.nrows()):
        found = found.max(sum((abs(m[row, k]).upper() for k in range(m.ncols())), arb(0)))
    return found


def _identity(n: int) -> arb_mat:
    return arb_mat(n, n, [arb(int(i == j)) for i in range(n) for j in range(n)])


def logarithm(a: arb_mat) -> arb_mat:
    """Return the principal logarithm: roots until the matrix is near the identity, then the series, with its remainder.

    Raises  Undecided if a root is not proved.
    """
    n, times = a.nrows(), 0
    while not _largest(a - _identity(n)) * n < _NEAR:
        a, times = root(a), times + 1
        if times > _MOST_STEPS:
            raise _unproved()
    z = a - _identity(n)
    size = _largest(z) * n
    power, total, k = z, z, 1
    while size**k > arb(2) ** (-ctx.prec - 8) and k < 4 * ctx.prec:
        k += 1
        power = power * z
        total = total + power / k if k % 2 else total - power / k
    remainder = (size ** (k + 1) / ((k + 1) * (1 - size))).upper()
    scale = arb(2) ** times
    return arb_mat(n, n, [scale * (entry + arb(0, remainder)) for entry in total.entries()])
