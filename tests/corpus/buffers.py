"""Arrays that are allocated, filled, overwritten, viewed and scattered into."""

import numpy as np

rng = np.random.default_rng(4)


def filled_by_index(x):
    """np.zeros filled entry by entry."""
    out = np.zeros(len(x))
    for i in range(len(x)):
        out[i] = np.sin(x[i]) * x[i - 1]
    return out.sum()


def filled_with_tuple_shape(x):
    """np.zeros with shape and dtype keywords, rows written by augmented assignment."""
    n = x.shape[0]
    out = np.zeros(shape=(n, n), dtype=np.float64)
    for i in range(n):
        out[i, i] += x[i] ** 2
        out[i, :] += x
        out[:, i] *= 0.5
    return (out**2).sum()


def empty_like_then_slices(x):
    """np.empty_like, filled by slices."""
    y = np.empty_like(x)
    y[0] = x[0]
    y[1:] = x[1:] - 0.5 * x[:-1]
    return np.sum(y**2)


def augmented(x):
    """Augmented assignment on whole arrays."""
    y = x * 2
    y += 1
    y *= x
    y -= 0.3 * x**2
    y /= 1 + x**2
    y **= 2
    return y.sum()


def masked_assignment(a, b):
    """Boolean masks on the left side."""
    out = a.copy()
    mask = a < 0
    out[mask] = 0.1 * b[mask]
    out[~mask & (b > 0)] *= 2
    return np.sum(out * b)


def views_mutated(x):
    """Writes through views of views, seen by all."""
    m = np.zeros((3, 3))
    diagonal = np.einsum("ii->i", m)
    diagonal[:] = x
    first_row, last_column = m[0], m[:, -1]
    first_row[1:] = x[1:] * x[0]
    last_column += x
    flat = m.reshape(-1)
    flat[::4] *= 2
    m.T[2, 0] += 1.0
    return (m @ m).sum()


def swapped(x):
    """Entries and rows swapped in place."""
    x = x.copy()
    x[0], x[2] = x[2], x[0]
    m = np.outer(x, x) + np.diag(x)
    m[[0, 1]] = m[[1, 0]]
    m[:, 0], m[:, 1] = m[:, 1].copy(), m[:, 0].copy()
    return np.sum(m * np.arange(9).reshape(3, 3))


def out_arguments(x, y):
    """Every result into one buffer."""
    buffer = np.empty_like(x)
    np.multiply(x, y, out=buffer)
    np.exp(buffer, out=buffer)
    total = np.sum(buffer)
    np.subtract(buffer, x, buffer)
    np.maximum(buffer, 0.5, out=buffer)
    return total + buffer.dot(y)


def scattered(values, weights):
    """np.add.at with repeated positions."""
    bins = np.array([0, 2, 1, 2, 0])
    histogram = np.zeros(3)
    np.add.at(histogram, bins, values * weights)
    return np.sum(histogram**2)


def bincounted(values):
    """Sums by group with np.bincount."""
    groups = np.array([0, 1, 1, 2, 0])
    sums = np.bincount(groups, weights=values, minlength=4)
    means = sums[:3] / np.bincount(groups)
    return np.sum((values - means[groups]) ** 2 * np.arange(1, 6))


def ufunc_methods(x):
    """reduce, accumulate, outer and reduceat of ufuncs."""
    products = np.multiply.accumulate(x)
    table = np.add.outer(x, products)
    highest = np.maximum.reduce(table, axis=1)
    parts = np.add.reduceat(x, [0, 2])
    return np.multiply.reduce(highest) + np.subtract.outer(x, x).ravel()[1] + parts[0] * parts[1]


def edit_distance(x, y):
    """A dynamic programme in a preallocated table, with soft costs."""
    n, m = len(x), len(y)
    D = np.empty((n + 1, m + 1))
    D[:, 0] = np.arange(n + 1)
    D[0, :] = np.arange(m + 1)
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            change = D[i - 1, j - 1] + 1 - np.exp(-((x[i - 1] - y[j - 1]) ** 2))
            D[i, j] = min(D[i - 1, j] + 1, D[i, j - 1] + 1, change)
    return D[n, m]


def knapsack(values):
    """Best value for a weight of 5: a table of maxima."""
    best = np.zeros(6)
    for value, weight in zip(values, (1, 3, 2, 2), strict=True):
        for w in range(5, weight - 1, -1):
            best[w] = max(best[w], best[w - weight] + value)
    return best[5] ** 2


def viterbi(scores, transition):
    """The best path's score, with back pointers in an integer array."""
    T, K = scores.shape
    delta = np.zeros((T, K))
    back = np.zeros((T, K), dtype=int)
    delta[0] = scores[0]
    for t in range(1, T):
        for k in range(K):
            candidates = delta[t - 1] + transition[:, k]
            back[t, k] = np.argmax(candidates)
            delta[t, k] = candidates[back[t, k]] + scores[t, k]
    path = [int(delta[-1].argmax())]
    for t in range(T - 1, 0, -1):
        path.append(back[t, path[-1]])
    total = 0.0
    for t, k in enumerate(reversed(path)):
        total += scores[t, k] ** 2
    return delta[-1].max() + total


def normalised_in_place(m):
    """Rows normalised in a loop over views."""
    m = np.array(m, copy=True)
    for row in m:
        row -= row.mean()
        row /= np.sqrt((row**2).sum())
    return np.sum(m[0] * m[1])


def cumulative(x):
    """Prefix sums by hand, and numpy's."""
    s = np.zeros(len(x) + 1)
    for i, v in enumerate(x):
        s[i + 1] = s[i] + v
    windows = s[2:] - s[:-2]
    return np.sum(windows**2) + np.cumprod(x)[-1] + np.cumsum(x).max()


def lu_in_place(a):
    """Log determinant by an LU decomposition that overwrites its matrix."""
    a = a.copy()
    n = a.shape[0]
    for k in range(n - 1):
        a[k + 1 :, k] /= a[k, k]
        a[k + 1 :, k + 1 :] -= np.outer(a[k + 1 :, k], a[k, k + 1 :])
    return np.sum(np.log(np.abs(np.diag(a))))


def thomas(lower, main, upper, rhs):
    """A tridiagonal system; the arguments are overwritten."""
    n = len(rhs)
    for i in range(1, n):
        w = lower[i - 1] / main[i - 1]
        main[i] -= w * upper[i - 1]
        rhs[i] -= w * rhs[i - 1]
    rhs[-1] /= main[-1]
    for i in range(n - 2, -1, -1):
        rhs[i] = (rhs[i] - upper[i] * rhs[i + 1]) / main[i]
    return rhs @ np.arange(1.0, n + 1)


def sorted_in_place(x):
    """list.append, ndarray.sort, a stack of rows."""
    rows = []
    for k in range(3):
        row = x * (k + 1)
        row[k] = -row[k]
        row.sort()
        rows.append(row)
    return np.stack(rows)[:, 0].sum() + np.vstack(rows).max(axis=0) @ x


def copyto_and_friends(x):
    """np.copyto, np.put, np.place, np.putmask, np.fill_diagonal, fill and flat."""
    a = np.ones((2, 2))
    np.copyto(a, x[:2])
    np.fill_diagonal(a, x[2])
    a.flat[1] = x[0] * x[1]
    b = np.empty(4)
    b.fill(x[0])
    np.put(b, [1, 3], x[1:3] ** 2)
    np.putmask(b, np.array([False, False, True, False]), x[0] * x[2])
    return (a @ a).trace() + b.prod()


def ndenumerated(m):
    """np.ndenumerate and np.ndindex."""
    out = np.zeros_like(m)
    for (i, j), value in np.ndenumerate(m):
        out[j, i] = value * (i + 2 * j)
    return sum(out[at] ** 2 for at in np.ndindex(*out.shape))


def ring_buffer(x, size=3):
    """A ring buffer as a moving average uses it."""
    ring, head, total, result = np.zeros(size), 0, 0.0, []
    for value in x:
        total = total - ring[head] + value
        ring[head] = value
        head = (head + 1) % size
        result.append(total / size)
    return np.sum(np.array(result) ** 2)


def game_of_couplings(m):
    """Neighbours by padding and slices."""
    p = np.pad(m, 1)
    around = p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:]
    around[around > 1] = 1
    return np.sum(around * m)


def reversed_view(x):
    """A reversed view written to while the original is read."""
    y = x.copy()
    back = y[::-1]
    back[:2] = x[:2] ** 2
    y[1:-1][0] += back[0]
    return y @ np.arange(1, len(y) + 1)


def gathered(table):
    """take, take_along_axis, choose, compress and fancy indices of two kinds."""
    order = np.argsort(table, axis=1)
    ranked = np.take_along_axis(table, order, axis=1)
    rows = np.take(table, [0, 0, 1], axis=0)
    corner = table[np.ix_([0, 1], [0, 2])]
    return (ranked * np.arange(3)).sum() + rows.std() + np.linalg.det(corner) + table[[0, 1], [2, 1]].prod()


def concatenated(x):
    """r_, c_, hstack, tile, repeat, split and friends."""
    padded = np.r_[x, 1.0, x[0]]
    columns = np.c_[x, x**2]
    left, right = np.split(np.hstack([padded, np.tile(x, 2)]), [4])
    return (columns @ columns.T).sum() + left.prod() + np.repeat(right, 2).sum() + np.append(x, x[0]).var()


POINTS = {
    filled_by_index: {"x": rng.normal(size=4)},
    filled_with_tuple_shape: {"x": rng.normal(size=3)},
    empty_like_then_slices: {"x": rng.normal(size=4)},
    augmented: {"x": rng.normal(size=3)},
    masked_assignment: {"a": np.array([0.3, -0.8, 1.1, -0.2]), "b": np.array([0.7, 1.3, -0.4, 0.5])},
    views_mutated: {"x": rng.normal(size=3)},
    swapped: {"x": rng.normal(size=3)},
    out_arguments: {"x": np.array([0.4, -1.3, 0.8]), "y": np.array([1.1, 0.6, -0.9])},
    scattered: {"values": rng.normal(size=5), "weights": rng.normal(size=5)},
    bincounted: {"values": rng.normal(size=5)},
    ufunc_methods: {"x": np.array([1.2, 0.7, 1.5, 0.4])},
    edit_distance: {"x": np.array([0.1, 0.9, 1.4]), "y": np.array([0.3, 1.1])},
    knapsack: {"values": np.array([1.2, 4.0, 3.0, 2.5])},
    viterbi: {"scores": rng.normal(size=(4, 3)), "transition": rng.normal(size=(3, 3))},
    normalised_in_place: {"m": rng.normal(size=(2, 4))},
    cumulative: {"x": np.array([0.4, 1.2, -0.3, 0.8])},
    lu_in_place: {"a": np.array([[3.0, 0.4, 1.0], [0.2, 2.0, -0.5], [1.1, 0.3, 4.0]])},
    thomas: {
        "lower": np.array([0.5, -0.3, 0.2]),
        "main": np.array([2.0, 3.0, 2.5, 4.0]),
        "upper": np.array([0.4, 0.6, -0.1]),
        "rhs": np.array([1.0, -1.0, 0.5, 2.0]),
    },
    sorted_in_place: {"x": np.array([0.7, 1.9, 0.4])},
    copyto_and_friends: {"x": np.array([0.7, 1.9, -0.4])},
    ndenumerated: {"m": rng.normal(size=(3, 3))},
    ring_buffer: {"x": rng.normal(size=5)},
    game_of_couplings: {"m": rng.normal(size=(3, 3))},
    reversed_view: {"x": rng.normal(size=5)},
    gathered: {"table": rng.normal(size=(2, 3))},
    concatenated: {"x": rng.normal(size=3)},
}
