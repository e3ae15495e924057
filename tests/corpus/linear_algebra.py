"""Matrices: factorisations, iterations and functions of eigenvalues."""

import numpy as np
import numpy.linalg as la
from numpy.linalg import eigh, inv, slogdet, solve, svd

rng = np.random.default_rng(7)


def symmetric(a):
    """The symmetric part, made definite."""
    return (a + a.T) / 2 + 3 * np.eye(len(a))


def condition_number(a):
    """Ratio of the outer eigenvalues."""
    w = la.eigvalsh(symmetric(a))
    return w[-1] / w[0]


def log_determinant(a):
    """Log determinant two ways."""
    m = symmetric(a)
    return slogdet(m)[1] + np.log(la.det(m)) * 0.5


def gram_schmidt(a):
    """Classical Gram-Schmidt with columns written in place; the diagonal of R."""
    q = np.zeros_like(a)
    r = 0.0
    for k in range(a.shape[1]):
        v = a[:, k].copy()
        for j in range(k):
            v -= (q[:, j] @ a[:, k]) * q[:, j]
        length = la.norm(v)
        q[:, k] = v / length
        r += np.log(length) * (k + 1)
    return r + q[0, -1]


def cholesky_by_hand(a):
    """The Cholesky factor entry by entry."""
    m = symmetric(a)
    n = len(m)
    L = np.zeros((n, n))
    for i in range(n):
        for j in range(i + 1):
            s = m[i, j] - sum(L[i, k] * L[j, k] for k in range(j))
            L[i, j] = np.sqrt(s) if i == j else s / L[j, j]
    return np.trace(L) + L[-1, 0]


def power_iteration(a):
    """Largest eigenvalue by iteration until it stands still."""
    m = symmetric(a)
    v = np.ones(len(m))
    value = old = 0.0
    while True:
        w = m @ v
        v = w / la.norm(w)
        old, value = value, v @ m @ v
        if abs(value - old) <= 1e-15 * abs(value):
            return value


def conjugate_gradient(a, b):
    """A linear system by conjugate gradients, updated in place."""
    A = symmetric(a)
    x = np.zeros_like(b)
    r = b - A @ x
    p = r.copy()
    rs = r @ r
    for _ in range(len(b)):
        Ap = A @ p
        alpha = rs / (p @ Ap)
        x += alpha * p
        r -= alpha * Ap
        rs, old = r @ r, rs
        p = r + rs / old * p
    return x @ np.arange(1, len(b) + 1)


def matrix_exponential(a, t):
    """Scaling and squaring with a Taylor series."""
    m = a * t / 8
    term = total = np.eye(len(a))
    for k in range(1, 12):
        term = term @ m / k
        total = total + term
    for _ in range(3):
        total = total @ total
    return total[0].sum()


def nuclear_norm(a):
    """Sum of singular values, and the largest."""
    s = svd(a, compute_uv=False)
    return s.sum() + s[0] ** 2


def ridge(X, y, penalty):
    """Residual of a ridge regression by the normal equations."""
    w = solve(X.T @ X + penalty * np.identity(X.shape[1]), X.T @ y)
    return np.sum((y - X @ w) ** 2) + penalty * w.dot(w)


def pseudo_inverse(a, b):
    """Least norm solution by pinv."""
    return (la.pinv(a) @ b).sum() ** 2


def square_root(a):
    """A function of a symmetric matrix by eigh."""
    w, V = eigh(symmetric(a))
    return ((V * np.sqrt(w)) @ V.T)[0, -1]


def mahalanobis(x, mean, cov):
    """Distance by an inverse."""
    d = x - mean
    return np.sqrt(d @ inv(symmetric(cov)) @ d)


def procrustes(a, b):
    """Best rotation between two clouds by svd, as a cost."""
    U, s, Vt = svd(a.T @ b)
    sign = np.sign(la.det(U @ Vt))
    s = s * np.array([1.0] * (len(s) - 1) + [sign])
    return (a**2).sum() + (b**2).sum() - 2 * s.sum()


def kronecker(a, b):
    """Kronecker product, vec and trace identities."""
    k = np.kron(a, b)
    return k.trace() * la.norm(k) + la.matrix_power(a, 3)[0, 1]


def rayleigh(v, a):
    """Rayleigh quotient with vdot, inner and outer."""
    return np.vdot(v, symmetric(a) @ v) / np.inner(v, v) + np.outer(v, v)[0, 1]


def woodbury(u, d):
    """Log determinant of a diagonal plus a low rank."""
    capacitance = np.eye(u.shape[1]) + u.T @ (u / d[:, None])
    return slogdet(capacitance).logabsdet + np.log(d).sum()


def commutator(a, b):
    """np.block, np.matmul and a Frobenius norm."""
    c = np.matmul(a, b) - np.matmul(b, a)
    big = np.block([[c, a], [np.zeros_like(a), b.T]])
    return la.norm(big, "fro") + la.norm(a, 2)


def qr_least_squares(X, y):
    """Least squares by QR and back substitution."""
    Q, R = la.qr(X)
    z = Q.T @ y
    w = np.zeros(X.shape[1])
    for i in reversed(range(len(w))):
        w[i] = (z[i] - R[i, i + 1 :] @ w[i + 1 :]) / R[i, i]
    return w @ w


A = rng.normal(size=(3, 3))
POINTS = {
    condition_number: {"a": A},
    log_determinant: {"a": A},
    gram_schmidt: {"a": A + 2 * np.eye(3)},
    cholesky_by_hand: {"a": A},
    power_iteration: {"a": np.diag([40.0, 1.0, -1.0]) + A},
    conjugate_gradient: {"a": A, "b": np.array([1.0, 2.0, -1.0])},
    matrix_exponential: {"a": A, "t": 0.7},
    nuclear_norm: {"a": rng.normal(size=(3, 2))},
    ridge: {"X": rng.normal(size=(4, 2)), "y": rng.normal(size=4), "penalty": 0.3},
    pseudo_inverse: {"a": rng.normal(size=(3, 2)), "b": rng.normal(size=3)},
    square_root: {"a": A},
    mahalanobis: {"x": rng.normal(size=3), "mean": rng.normal(size=3), "cov": A},
    procrustes: {"a": rng.normal(size=(4, 2)), "b": rng.normal(size=(4, 2))},
    kronecker: {"a": rng.normal(size=(2, 2)), "b": rng.normal(size=(2, 2))},
    rayleigh: {"v": rng.normal(size=3), "a": A},
    woodbury: {"u": rng.normal(size=(3, 2)), "d": np.array([0.8, 1.5, 2.1])},
    commutator: {"a": rng.normal(size=(2, 2)), "b": rng.normal(size=(2, 2))},
    qr_least_squares: {"X": rng.normal(size=(4, 2)), "y": rng.normal(size=4)},
}
