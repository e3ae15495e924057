"""Problems with known answers, as in tables of matrix calculus: each closed form is written here by hand, for numpy.

Source   Petersen and Pedersen (2012), The Matrix Cookbook, and the usual losses and layers.
"""

import re
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Problem:
    """A function, its sizes, what is assumed, the input, and the derivative by it; `larger` where ours is not as small."""

    f: str
    shapes: str
    wrt: str
    right: str
    assume: str = ""
    order: int = 1
    larger: float = 1.5


def rows(shapes: str, *table: tuple[str, str, str, str], order: int = 1) -> dict[str, Problem]:
    """Return problems of the same sizes: a function, an input, the derivative, and what is assumed."""
    names = {f"{f} by {wrt}{f', {assume}' if assume else ''}{', twice' if order == 2 else ''}": k for k, (f, wrt, _, assume) in enumerate(table)}  # fmt: skip
    return {text: Problem(table[k][0], _used(shapes, table[k][0]), table[k][1], table[k][2], table[k][3], order) for text, k in names.items()}  # fmt: skip


def _used(shapes: str, f: str) -> str:
    words = set(re.findall(r"(?<![.\w])[A-Za-z_]\w*", f))
    return "; ".join(part.strip() for part in shapes.split(";") if part.split(":")[0].strip() in words)


VECTORS = "A: n n; B: m n; C: m m; D: m n; S: n n; X: m n; a: n; b: m; c: n; u: n; v: n; w: n; x: n; y: m; t: m; p: n; q: n; g: n"
MATRICES = "A: n n; B: n n; C: m m; F: n m; G: m n; H: m n; K: m m; S: n n; T: n n; X: m n; Y: m k; W: n k; Z: n n; u: m; v: n; x: n; c: n"
NETWORKS = (
    "G: m k; H: m n; K: k n; M: m n; P: m k; Q: m n; V: k d; R: m d; W: n k; X: m n; Y: m k; Z: m k; a: n; b: k; c: m; g: n; h: n; "
    "q: n; r: d; s: n; u: n; v: k; w: n; x: n; y: n; z: n; L: n n; t: m"
)

# fmt: off
PROBLEMS = {
    # vectors and forms          function                            by   derivative                                     assuming
    **rows(VECTORS,
        ("dot(c, x)",                                                "x", "c", ""),
        ("c@(A@x + a)",                                              "x", "A.T@c", ""),
        ("c@(A@x + a)",                                              "A", "outer(c, x)", ""),
        ("u@A@v",                                                    "v", "A.T@u", ""),
        ("x@A@x - 3*c@x",                                            "A", "outer(x, x)", ""),
        ("0.5*x@A@x - c@x",                                          "x", "A@x - c", "A: symmetric"),
        ("(x - u)@A@(x - u)",                                        "u", "-2*A@(x - u)", "A: symmetric"),
        ("(B@x + b)@C@(D@x + t)",                                    "x", "B.T@C@(D@x + t) + D.T@C.T@(B@x + b)", ""),
        ("norm(x - a)",                                              "x", "(x - a)/norm(x - a)", ""),
        ("norm(B@x - b)",                                            "B", "outer(B@x - b, x)/norm(B@x - b)", ""),
        ("(a@x)/norm(x)",                                            "x", "a/norm(x) - (a@x)*x/norm(x)**3", ""),
        ("sum(t*(X@w - y)**2)",                                      "w", "2*X.T@(t*(X@w - y))", ""),
        ("(a@x)*(c@x)",                                              "x", "(c@x)*a + (a@x)*c", ""),
        ("(a@x)**3",                                                 "x", "3*(a@x)**2*a", ""),
        ("log(a@x)",                                                 "x", "a/(a@x)", "a: positive; x: positive"),
        ("exp(-0.5*(x@x))",                                          "x", "-exp(-0.5*(x@x))*x", ""),
        ("mean(x)",                                                  "x", "ones(n)/n", ""),
        ("var(x)",                                                   "x", "2*(x - mean(x))/n", ""),
        ("std(x)",                                                   "x", "(x - mean(x))/(n*std(x))", ""),
        ("sum(abs(x)**3)",                                           "x", "3*x*abs(x)", ""),
        ("sum(sqrt(1 + x**2))",                                      "x", "x/sqrt(1 + x**2)", ""),
        ("-sum(p*log(p))",                                           "p", "-log(p) - 1", "p: positive"),
        ("sum(p*log(p/q))",                                          "q", "-p/q", "p: positive; q: positive"),
        ("logsumexp(B@x + b)",                                       "x", "B.T@softmax(B@x + b)", ""),
        ("sum(sin(x)*cos(a))",                                       "a", "-sin(x)*sin(a)", ""),
        ("c@diag(A)",                                                "A", "diag(c)", ""),
        ("a@diag(x)@c",                                              "x", "a*c", ""),
        ("trace(diag(x)@A)",                                         "x", "diagonal(A)", ""),
        ("x@A@A@x",                                                  "x", "2*A@(A@x)", "A: symmetric"),
        ("sum((A@x - c)**2)",                                        "x", "2*(x - A.T@c)", "A: orthogonal"),
        ("norm(A@x)",                                                "x", "x/norm(x)", "A: orthogonal"),
        ("x@A@x",                                                    "x", "2*A@x", "A: diagonal"),
        ("x@A@x",                                                    "A", "2*outer(x, x) - diag(x*x)", "A: tied"),
        ("sum((1 - y*(X@w))**2)",                                    "w", "2*X.T@(X@w - y)", "y: signs"),
        ("sum(relu(1 - y*(X@w))**2)",                                "w", "-2*X.T@(y*maximum(1 - y*(X@w), 0))", "y: signs"),
        ("mean(softplus(-y*(X@w)))",                                 "w", "-X.T@(y*sigmoid(-y*(X@w)))/m", "y: signs"),
        ("sum(exp(X@w) - y*(X@w))",                                  "w", "X.T@(exp(X@w) - y)", ""),
        ("-sum(y*log(sigmoid(X@w)) + (1 - y)*log(1 - sigmoid(X@w)))","w", "X.T@(sigmoid(X@w) - y)", ""),
        ("logsumexp(x) - p@x",                                       "x", "softmax(x) - p", ""),
        ("-p@log_softmax(x)",                                        "x", "softmax(x) - p", "p: onehot"),
        ("cross_entropy(x, p)",                                      "x", "softmax(x) - p", "p: simplex"),
        ("g@softmax(x)",                                             "x", "softmax(x)*(g - softmax(x)@g)", ""),
        ("g@log_softmax(x)",                                         "x", "g - sum(g)*softmax(x)", ""),
        ("sqrt((x - u)@inv(S)@(x - u))",                             "x", "solve(S, x - u)/sqrt((x - u)@solve(S, x - u))", "S: spd"),
        ("-0.5*log(det(S)) + 0.5*(x - u)@S@(x - u)",                 "S", "-0.5*inv(S) + 0.5*outer(x - u, x - u)", "S: spd"),
        ("-0.5*log(det(S)) + 0.5*(x - u)@S@(x - u)",                 "u", "-S@(x - u)", "S: spd"),
        ("sum(log(p) + 0.5*((x - u)/p)**2)",                         "p", "1/p - (x - u)**2/p**3", "p: positive"),
        ("sum((x[:, None] - y)**2)",                                 "x", "2*(m*x - sum(y))", ""),
    ),
    **rows("s: ; x: n; u: ; nu: ; lam: ; c: n; A: n n",
        ("sum(log(s) + (x - u)**2/(2*s**2))",                        "s", "n/s - sum((x - u)**2)/s**3", "s: positive"),
        ("sum(log(s) + (x - u)**2/(2*s**2))",                        "u", "(n*u - sum(x))/s**2", "s: positive"),
        ("0.5*(nu + 1)*log(1 + (x@x)/nu)",                           "x", "(nu + 1)*x/(nu + x@x)", "nu: positive"),
        ("s*logsumexp(x/s)",                                         "x", "softmax(x/s)", "s: positive"),
        ("c@inv(A + lam*eye(n))@c",                                  "lam", "-sum(solve(A + lam*eye(n), c)**2)", "A: spd; lam: positive"),
    ),
    # matrices, traces, determinants, inverses
    **rows(MATRICES,
        ("trace(A@Z)",                                               "Z", "A.T", ""),
        ("trace(G@X.T)",                                             "X", "G", ""),
        ("trace(X@B@X.T)",                                           "X", "X@(B + B.T)", ""),
        ("trace(A@Z@B@Z)",                                           "Z", "A.T@Z.T@B.T + B.T@Z.T@A.T", ""),
        ("trace(Z@Z@Z)",                                             "Z", "3*(Z@Z).T", ""),
        ("trace(X.T@C@X@B)",                                         "X", "C@X@B + C.T@X@B.T", ""),
        ("sum((X - G)**2)",                                          "X", "2*(X - G)", ""),
        ("sum((C@X@B - G)**2)",                                      "X", "2*C.T@(C@X@B - G)@B.T", ""),
        ("sum(G*X*H)",                                               "X", "G*H", ""),
        ("sum(X)",                                                   "X", "ones((m, n))", ""),
        ("sum(sum(X, axis=1)**2)",                                   "X", "2*outer(sum(X, axis=1), ones(n))", ""),
        ("slogdet(Z)[1]",                                            "Z", "inv(Z).T", ""),
        ("log(det(X.T@X))",                                          "X", "2*X@inv(X.T@X)", ""),
        ("det(A@Z@B)",                                               "Z", "det(A@Z@B)*inv(Z).T", ""),
        ("det(Z)**2",                                                "Z", "2*det(Z)**2*inv(Z).T", ""),
        ("sqrt(det(S))",                                             "S", "0.5*sqrt(det(S))*inv(S)", "S: spd"),
        ("1/det(S)",                                                 "S", "-inv(S)/det(S)", "S: spd"),
        ("log(det(S))",                                              "S", "2*inv(S) - diag(diagonal(inv(S)))", "S: spd, tied"),
        ("trace(A@inv(Z)@B)",                                        "Z", "-(inv(Z)@B@A@inv(Z)).T", ""),
        ("trace(inv(Z + A))",                                        "Z", "-(inv(Z + A)@inv(Z + A)).T", ""),
        ("trace(inv(X.T@C@X)@S)",                                    "X", "-2*C@X@inv(X.T@C@X)@S@inv(X.T@C@X)", "C: spd; S: symmetric"),
        ("trace(inv(X.T@C@X)@(X.T@K@X))",                            "X", "2*K@X@inv(X.T@C@X) - 2*C@X@inv(X.T@C@X)@X.T@K@X@inv(X.T@C@X)", "C: spd; K: symmetric"),
        ("sum(solve(Z, c)**2)",                                      "c", "2*solve(Z.T, solve(Z, c))", ""),
        ("trace(solve(Z, B))",                                       "Z", "-(inv(Z)@B@inv(Z)).T", ""),
        ("sum(inv(Z)**2)",                                           "Z", "-2*inv(Z).T@inv(Z)@inv(Z).T", ""),
        ("sum((A@Z - Z@A)**2)",                                      "Z", "2*(A.T@(A@Z - Z@A) - (A@Z - Z@A)@A.T)", ""),
        ("sum((X.T@X)**2)",                                          "X", "4*X@X.T@X", ""),
        ("sum((X.T@X - eye(n))**2)",                                 "X", "4*X@(X.T@X - eye(n))", ""),
        ("sum((X - X@Z@Z.T)**2)",                                    "Z", "-2*(X.T@(X - X@Z@Z.T) + (X - X@Z@Z.T).T@X)@Z", ""),
        ("sum((X - mean(X, axis=0))**2)",                            "X", "2*(X - mean(X, axis=0))", ""),
        ("sum(sqrt(sum(X**2, axis=0)))",                             "X", "X/sqrt(sum(X**2, axis=0))", ""),
        ("sum((X - outer(u, v))**2)",                                "v", "-2*(X - outer(u, v)).T@u", ""),
        ("u@exp(X)@v",                                               "X", "outer(u, v)*exp(X)", ""),
        ("trace(S@S)",                                               "S", "2*S", "S: symmetric"),
        ("0.5*m*log(det(S)) + 0.5*trace((X - v)@inv(S)@(X - v).T)",  "S", "0.5*m*inv(S) - 0.5*inv(S)@(X - v).T@(X - v)@inv(S)", "S: spd"),
        ("3*log(det(S)) + trace(inv(S)@T)",                          "S", "3*inv(S) - inv(S)@T@inv(S)", "S: spd; T: symmetric"),
        ("trace(inv(T)@S) + log(det(T)) - log(det(S))",              "S", "inv(T) - inv(S)", "S: spd; T: spd"),
    ),
    # entries, spans and triangles at fixed places
    **rows("x: n; c: n; A: n n; B: n n; X: m n; y: m",
        ("x[0]**2*x[-1]",                                            "x", "2*x[0]*x[-1]*eye(n)[0] + x[0]**2*eye(n)[-1]", ""),
        ("x[0]/x[1]",                                                "x", "eye(n)[0]/x[1] - x[0]*eye(n)[1]/x[1]**2", ""),
        ("sum(A[:, 1]**2)",                                          "A", "2*outer(A[:, 1], eye(n)[1])", ""),
        ("A[0]@x + A[1, 2]*c@x",                                     "A", "outer(eye(n)[0], x) + (c@x)*outer(eye(n)[1], eye(n)[2])", ""),
        ("exp(A@x)[0]",                                              "x", "exp(A[0]@x)*A[0]", ""),
        ("-log(softmax(x)[2])",                                      "x", "softmax(x) - eye(n)[2]", ""),
        ("logsumexp(x) - x[0]",                                      "x", "softmax(x) - eye(n)[0]", ""),
        ("sum(x[1:3]**2)",                                           "x", "2*(eye(n)[:, 1:3]@x[1:3])", ""),
        ("sum(X[1:]**2)",                                            "X", "2*(eye(m)[:, 1:]@X[1:])", ""),
        ("sum(X[:, [0, 2]])",                                        "X", "outer(ones(m), eye(n)[0] + eye(n)[2])", ""),
        ("sum(flip(x)*x)",                                           "x", "2*flip(x)", ""),
        ("c@cumsum(x)",                                              "x", "flip(cumsum(flip(c)))", ""),
        ("sum(cumsum(X, axis=1)*X)",                                 "X", "X@tril(ones((n, n))) + X@tril(ones((n, n))).T", ""),
        ("prod(x)",                                                  "x", "prod(x)/x", ""),
        ("prod(x)/sum(c*x)",                                         "x", "prod(x)/(x*(c@x)) - prod(x)*c/(c@x)**2", ""),
        ("sum(prod(X, axis=1)*y)",                                   "X", "outer(prod(X, axis=1)*y, ones(n))/X", ""),
        ("sum(tril(A)**2)",                                          "A", "2*tril(A)", ""),
        ("sum(triu(A, 1)*B)",                                        "A", "triu(B, 1)", ""),
        ("trace(tril(A)@B)",                                         "A", "tril(B.T)", ""),
        ("sum(concatenate([[0], x])**2)",                            "x", "2*x", ""),
    ),
    **rows("x: n",
        ("x[0]*x[-1]",                                               "x", "outer(eye(n)[0], eye(n)[-1]) + outer(eye(n)[-1], eye(n)[0])", ""),
        ("sum(exp(x)[1:])",                                          "x", "eye(n)[:, 1:]@diag(exp(x[1:]))@eye(n)[1:]", ""),
        order=2,
    ),
    # factorisations, functions of matrices, Kronecker products, convolutions, the largest entry
    **rows("A: n n; B: m k; C: n n; S: n n; X: m n; Y: n k; Z: m k; b: m; x: n; y: n; z: n; h: 3; q: k",
        ("trace(expm(A))",                                           "A", "expm(A).T", ""),
        ("x@expm(A)@y",                                              "x", "expm(A)@y", ""),
        ("x@expm(A)@y",                                              "A", "expm_frechet(A.T, outer(x, y), compute_expm=False)", ""),
        ("trace(sqrtm(S))",                                          "S", "0.5*inv(sqrtm(S))", "S: spd"),
        ("sum(cholesky(S)**2)",                                      "S", "eye(n)", "S: spd"),
        ("sum(log(diag(cholesky(S))))",                              "S", "0.5*inv(S)", "S: spd"),
        ("norm(solve(cholesky(S), x))**2",                           "x", "2*inv(S)@x", "S: spd"),
        ("sum(log(eigvalsh(S)))",                                    "S", "inv(S)", "S: spd"),
        ("sum(eigvalsh(S)**2)",                                      "S", "2*S", "S: symmetric"),
        ("sum(exp(eigvalsh(S)))",                                    "S", "expm(S)", "S: symmetric"),
        ("max(eigvalsh(S))",                                         "S", "outer(eigh(S)[1][:, -1], eigh(S)[1][:, -1])", "S: symmetric"),
        ("sum(eigvalsh(X.T@X)**2)",                                  "X", "4*X@X.T@X", ""),
        ("sum(svdvals(X))",                                          "X", "svd(X, full_matrices=False)[0]@svd(X, full_matrices=False)[2]", ""),
        ("norm(X, 2)",                                               "X", "outer(svd(X)[0][:, 0], svd(X)[2][0])", ""),
        ("sum(svdvals(X)**2)",                                       "X", "2*X", ""),
        ("norm(pinv(X)@b)**2",                                       "b", "2*pinv(X).T@pinv(X)@b", ""),
        ("sum(kron(A, B))",                                          "A", "sum(B)*ones((n, n))", ""),
        ("norm(kron(A, B))**2",                                      "B", "2*norm(A)**2*B", ""),
        ("trace(kron(A, C))",                                        "A", "trace(C)*eye(n)", ""),
        ("norm(kron(Y.T, X)@vec(C) - vec(Z))**2",                    "C", "2*X.T@(X@C@Y - Z)@Y.T", ""),
        ("norm(ravel(X))",                                           "X", "X/norm(X)", ""),
        ("sum(convolve(x, h)**2)",                                   "x", "2*correlate(convolve(x, h), h, 'valid')", ""),
        ("sum(convolve(x, q))",                                      "q", "sum(x)*ones(k)", ""),
        ("sum(convolve(x, h, mode='same')*y)",                       "y", "convolve(x, h)[1:-1]", ""),
        ("max(x)",                                                   "x", "1.0*(x == max(x))", ""),
        ("min(x*y)",                                                 "x", "(x*y == min(x*y))*y", ""),
        ("sum(max(X, axis=1))",                                      "X", "1.0*(X == max(X, axis=1)[:, None])", ""),
        ("norm(x, inf)",                                             "x", "(abs(x) == max(abs(x)))*sign(x)", ""),
        ("y@(exp(z - max(z))/sum(exp(z - max(z))))",                 "z", "softmax(z)*(y - y@softmax(z))", ""),
        ("log(sum(exp(z - max(z)))) + max(z)",                       "z", "softmax(z)", ""),
        ("logsumexp(X)**2",                                          "X", "2*log(sum(exp(X)))*softmax(X)", ""),
    ),
    # textbook forms: one denominator, one base, the normal distribution
    **rows("x: n; X: m n; w: n; y: m; A: n n; s: ; k: ; t: ",
        ("sum(gelu(x))",                                             "x", "ndtr(x) + x*exp(-0.5*x**2)/sqrt(2*pi)", ""),
        ("0.5*t*(1 + erf(t/sqrt(2)))",                               "t", "ndtr(t) + t*exp(-0.5*t**2)/sqrt(2*pi)", ""),
        ("sum(y*log(ndtr(X@w)) + (1 - y)*log(1 - ndtr(X@w)))",       "w", "X.T@(exp(-0.5*(X@w)**2)*(y/ndtr(X@w) - (1 - y)/ndtr(-X@w)))/sqrt(2*pi)", ""),
        ("sum(where(abs(x) <= 1, 0.5*x**2, abs(x) - 0.5))",         "x", "maximum(-1, minimum(x, 1))", ""),
        ("sum(where(abs(X@w - y) <= k, 0.5*(X@w - y)**2, k*(abs(X@w - y) - 0.5*k)))", "w", "X.T@maximum(-k, minimum(X@w - y, k))", "k: positive"),
        ("s/(1 + abs(s))",                                           "s", "1/(1 + abs(s))**2", ""),
        ("(s**2 + 1)/(s - 1)",                                       "s", "(s**2 - 2*s - 1)/(s - 1)**2", ""),
        ("exp(s)/(1 + exp(s))",                                      "s", "sigmoid(s) - sigmoid(s)**2", ""),
        ("det(A)**k",                                                "A", "k*det(A)**k*inv(A).T", "A: spd"),
        ("prod(x)**k",                                               "x", "k*prod(x)**k/x", "x: positive"),
        ("s**s",                                                     "s", "s**s*(1 + log(s))", "s: positive"),
        ("s**2*log(s)",                                              "s", "2*s*log(s) + s", "s: positive"),
    ),
    # layers and losses
    **rows(NETWORKS,
        ("-sum(Y*log_softmax(X@W, axis=1))",                         "W", "X.T@(rowsoftmax(X@W) - Y)", "Y: onehot rows"),
        ("cross_entropy(X@W, Y)",                                    "W", "X.T@(rowsoftmax(X@W) - Y)/m", "Y: onehot rows"),
        ("-sum(P*log_softmax(Z, axis=1))",                           "Z", "rowsoftmax(Z) - P", "P: simplex rows"),
        ("g@((x - mean(x))/std(x))",                                 "x", "(g - mean(g) - hat(x)*mean(g*hat(x)))/std(x)", ""),
        ("sum(g*layer_norm(x, w, y))",                               "w", "g*(x - mean(x))/sqrt(var(x) + 1e-5)", ""),
        ("sum(M*((X - mean(X, axis=0))/std(X, axis=0)))",            "X", "(M - mean(M, axis=0) - hat(X)*mean(M*hat(X), axis=0))/std(X, axis=0)", ""),
        ("g@(x/sqrt(mean(x**2)))",                                   "x", "g/sqrt(mean(x**2)) - mean(g*x)*x/mean(x**2)**1.5", ""),
        ("sum(R*(softmax(Q@K.T, axis=1)@V))",                        "V", "rowsoftmax(Q@K.T).T@R", ""),
        ("r@(softmax(K@q)@V)",                                       "q", "K.T@(softmax(K@q)*(V@r - softmax(K@q)@(V@r)))", ""),
        ("sum((tanh(X@W)@v - t)**2)",                                "v", "2*tanh(X@W).T@(tanh(X@W)@v - t)", ""),
        ("sum((tanh(X@W)@v - t)**2)",                                "W", "2*X.T@(outer(tanh(X@W)@v - t, v)*(1 - tanh(X@W)**2))", ""),
        ("sum(G*relu(X@W))",                                         "W", "X.T@(G*(X@W > 0))", ""),
        ("g@sigmoid(L@x + a)",                                       "x", "L.T@(g*sigmoid(L@x + a)*(1 - sigmoid(L@x + a)))", ""),
        ("g@(sigmoid(u)*h + (1 - sigmoid(u))*y)",                    "u", "g*sigmoid(u)*(1 - sigmoid(u))*(h - y)", ""),
        ("sum((x + L@tanh(x))**2)",                                  "x", "2*(x + L@tanh(x) + (1 - tanh(x)**2)*(L.T@(x + L@tanh(x))))", ""),
        ("sum(G*(X@W + b))",                                         "X", "G@W.T", ""),
        ("sum(M*(X*c[:, None]))",                                    "c", "sum(M*X, axis=1)", ""),
        ("sum(M*(X/s))",                                             "s", "-sum(M*X, axis=0)/s**2", "s: positive"),
        ("sum(M*(X + c[:, None]))",                                  "c", "sum(M, axis=1)", ""),
        ("g@tanh(a*x)",                                              "x", "g*a*(1 - tanh(a*x)**2)", ""),
        ("g@arctan(x)",                                              "x", "g/(1 + x**2)", ""),
        ("g@log1p(x**2)",                                            "x", "2*g*x/(1 + x**2)", ""),
        ("g@erf(x)",                                                 "x", "2*g*exp(-x**2)/sqrt(pi)", ""),
        ("g@cosh(x)",                                                "x", "g*sinh(x)", ""),
        ("g@silu(x)",                                                "x", "g*sigmoid(x)*(1 + x*(1 - sigmoid(x)))", ""),
        ("g@softplus(x)",                                            "x", "g*sigmoid(x)", ""),
    ),
    # blocks of named sizes, and differences of points
    **rows("x: n; y: m; z: k; a: n; b: m; w: n+m; u: n+m+k; c: m+k; h: m; A: m n; B: k n; C: m k; W: m n+m; X: n d; Y: m d; P: n m; lam:; v: n+k; q: m",
        ("sum(concatenate([x, y])**2)",                              "x", "2*x", ""),
        ("w@concatenate([x, y])",                                    "y", "w[n:]", ""),
        ("w@concatenate([x, y])",                                    "w", "concatenate([x, y])", ""),
        ("u@concatenate([x, y, z])",                                 "y", "u[n:n + m]", ""),
        ("norm(concatenate([x, y]))",                                "x", "x/sqrt(x@x + y@y)", ""),
        ("logsumexp(concatenate([x, y]))",                           "x", "softmax(concatenate([x, y]))[:n]", ""),
        ("sum((vstack([A, B])@x - c)**2)",                           "x", "2*A.T@(A@x - c[:m]) + 2*B.T@(B@x - c[m:])", ""),
        ("sum((vstack([A, B])@x - c)**2)",                           "A", "2*outer(A@x - c[:m], x)", ""),
        ("norm(vstack([A, sqrt(lam)*eye(n)])@x - concatenate([b, zeros(n)]))**2", "x", "2*A.T@(A@x - b) + 2*lam*x", ""),
        ("sum((hstack([A, C])@v)**2)",                               "v", "2*hstack([A, C]).T@(A@v[:n] + C@v[n:])", ""),
        ("q@tanh(W@concatenate([x, h]))",                            "W", "outer(q*(1 - tanh(W[:, :n]@x + W[:, n:]@h)**2), concatenate([x, h]))", ""),
        ("q@tanh(W@concatenate([x, h]))",                            "h", "W[:, n:].T@(q*(1 - tanh(W[:, :n]@x + W[:, n:]@h)**2))", ""),
        ("max(concatenate([x, y]))",                                 "x", "1.0*(x == max(concatenate([x, y])))", ""),
        ("prod(concatenate([x, y]))",                                "x", "prod(x)*prod(y)/x", "x: positive; y: positive"),
        ("mean(concatenate([x, y])**2)",                             "x", "2*x/(n + m)", ""),
        ("concatenate([x, y])",                                      "x", "concatenate([eye(n), zeros((m, n))])", ""),
        ("sum(P*sum((X[:, None, :] - Y[None, :, :])**2, axis=2))",   "Y", "2*Y*sum(P, axis=0)[:, None] - 2*P.T@X", ""),
        ("sum(P*exp(-sum((X[:, None, :] - Y[None, :, :])**2, axis=2)/2))", "X",
         "(P*exp(-0.5*sum((X[:, None, :] - Y[None, :, :])**2, axis=2)))@Y - X*sum(P*exp(-0.5*sum((X[:, None, :] - Y[None, :, :])**2, axis=2)), axis=1)[:, None]", ""),
    ),
    **rows("x: n; w: n+1; W: k n+1; X: k n; q: k; Z: k+1 n; y:; v: k",
        ("w@append(x, 1)",                                           "w", "concatenate([x, ones(1)])", ""),
        ("q@tanh(W@append(x, 1))",                                   "W", "outer(q*(1 - tanh(W@concatenate([x, ones(1)]))**2), concatenate([x, ones(1)]))", ""),
        ("sum((hstack([X, ones([k, 1])])@w - v)**2)",                "w", "2*hstack([X, ones((k, 1))]).T@(hstack([X, ones((k, 1))])@w - v)", ""),
        ("sum(vstack([X, x])*Z)",                                    "Z", "concatenate([X, x[None, :]])", ""),
        ("norm(append(x, y))",                                       "x", "x/norm(concatenate([x, y*ones(1)]))", ""),
    ),
    # Jacobians and Hessians
    **rows("x: n; A: n n; w: n; X: m n",
        ("x[1:]**2",                                                 "x", "2*eye(n)[1:]*x", ""),
        ("cumsum(x)",                                                "x", "tril(ones((n, n)))", ""),
        ("diff(exp(x))",                                             "x", "(eye(n)[1:] - eye(n)[:-1])*exp(x)", ""),
        ("softmax(x)",                                               "x", "diag(softmax(x)) - outer(softmax(x), softmax(x))", ""),
        ("A@tanh(x)",                                                "x", "A*(1 - tanh(x)**2)", ""),
        ("exp(x)",                                                   "x", "diag(exp(x))", ""),
        ("x/norm(x)",                                                "x", "(eye(n) - outer(x, x)/(x@x))/norm(x)", ""),
    ),
    **rows("x: n; A: n n; w: n; X: m n",
        ("x@A@x + w@x",                                              "x", "A + A.T", ""),
        ("sum(exp(x))",                                              "x", "diag(exp(x))", ""),
        ("logsumexp(x)",                                             "x", "diag(softmax(x)) - outer(softmax(x), softmax(x))", ""),
        ("sqrt(x@x)",                                                "x", "(eye(n) - outer(x, x)/(x@x))/norm(x)", ""),
        ("sum(softplus(X@w))",                                       "w", "X.T@diag(sigmoid(X@w)*(1 - sigmoid(X@w)))@X", ""),
        order=2,
    ),
}
# fmt: on
LARGER = {  # what is right and is not so small as in the textbook: how much larger it may be
    "g@((x - mean(x))/std(x)) by x": 2.0,  # (x - mean(x))/std(x) has no name of its own
    "sum(M*((X - mean(X, axis=0))/std(X, axis=0))) by X": 2.0,
    "norm(X, 2) by X": 2.0,  # singular vectors are parts of what svd returns
    "norm(ravel(X)) by X": 2.0,  # the norm is that of a matrix
    "max(eigvalsh(S)) by S, S: symmetric": 2.0,  # the largest one is found again
    "sum((X - mean(X, axis=0))**2) by X": 2.0,  # a mean over one axis is a sum over a size
}
PROBLEMS |= {name: replace(PROBLEMS[name], larger=larger) for name, larger in LARGER.items()}
