"""Python in all its ways of getting from a to b."""

import contextlib
import functools
import heapq
import itertools
import operator
from collections import defaultdict, deque
from dataclasses import dataclass, field

import numpy as np

RATES = {"low": 0.1, "middle": 0.2, "high": 0.35}
COEFFICIENTS = [1.0, -0.5, 1 / 6, -1 / 24]
TOLERANCE = 1e-13


def income_tax(income):
    """Progressive tax with early returns."""
    if income <= 0:
        return 0.0
    if income < 1:
        return RATES["low"] * income**1.1
    if income < 3:
        return RATES["low"] + RATES["middle"] * (income - 1) ** 1.2
    return RATES["low"] + 2 * RATES["middle"] + RATES["high"] * (income - 3)


def babylonian(a):
    """Square root by iteration until it stands still."""
    x = 0.5 * (1 + a)
    while abs(x * x - a) > TOLERANCE:
        x = (x + a / x) / 2
    return x


def agm(a, b):
    """Arithmetic-geometric mean."""
    while abs(a - b) > 1e-15 * abs(a):
        a, b = (a + b) / 2, np.sqrt(a * b)
    return a


def power(x, n=7):
    """Recursive exponentiation by squaring."""
    if n == 0:
        return 1
    half = power(x, n // 2)
    return half * half * (x if n % 2 else 1)


def determinant(m):
    """Laplace expansion, recursively."""
    if len(m) == 1:
        return m[0][0]
    return sum((-1) ** j * m[0][j] * determinant([[*row[:j], *row[j + 1 :]] for row in m[1:]]) for j in range(len(m)))


def expression_tree(x, y):
    """A tree of tuples, evaluated recursively by a dict of operators."""
    tree = ("+", ("*", "x", "y"), ("sin", ("-", "x", ("*", 2.0, "y"))))
    operators = {"+": operator.add, "-": operator.sub, "*": operator.mul, "sin": np.sin}

    def evaluate(node):
        match node:
            case str(name):
                return {"x": x, "y": y}[name]
            case (op, *children):
                return operators[op](*map(evaluate, children))
            case number:
                return number

    return evaluate(tree)


def partial_sums(x, n):
    """A generator of partial sums of a series."""
    term, total = 1.0, 0.0
    for k in itertools.count(1):
        total += term
        yield total
        term = term * x / k
        if k > n:
            return


def series(x):
    """Aitken's acceleration of the last three partial sums."""
    a, b, c = deque(partial_sums(x, 6), maxlen=3)
    return c - (c - b) ** 2 / ((c - b) - (b - a))


def make_polynomial(coefficients):
    """A closure over coefficients."""

    def polynomial(t):
        total = 0
        for c in reversed(coefficients):
            total = total * t + c
        return total

    return polynomial


def closure(c, t):
    """A polynomial and its numerical companion, both closures."""
    p = make_polynomial(c)
    q = make_polynomial([k * a for k, a in enumerate(c)][1:])
    return p(t) + 0.5 * q(t) ** 2


def logged(f):
    """A decorator that keeps what went through."""

    @functools.wraps(f)
    def wrapper(*args, **kwargs):
        y = f(*args, **kwargs)
        wrapper.log.append(f"{f.__name__}{args} = {y}")
        del wrapper.log[:-3]
        return y

    wrapper.log = []
    return wrapper


@logged
def decorated(x, *, scale=2.0):
    """A decorated function with a keyword-only parameter."""
    return scale * np.sum(x**3) + np.prod(x)


def _affine(x, w, b):
    return np.tanh(w * x + b)


fixed = functools.partial(_affine, b=0.3)


def reduced(ws, x):
    """functools.partial and reduce over weights."""
    return functools.reduce(lambda h, w: fixed(h, w), ws, x)


@functools.cache
def binomial(n, k):
    """A cached recursion on plain integers."""
    return 1 if k in (0, n) else binomial(n - 1, k - 1) + binomial(n - 1, k)


def bernstein(coefficients, t):
    """A polynomial in Bernstein form."""
    n = len(coefficients) - 1
    return sum(c * binomial(n, k) * t**k * (1 - t) ** (n - k) for k, c in enumerate(coefficients))


def memoised_chain(x):
    """A hand-made memo in a dict over traced numbers."""
    memo = {0: 1.0, 1: x}

    def chebyshev(n):
        if n not in memo:
            memo[n] = 2 * x * chebyshev(n - 1) - chebyshev(n - 2)
        return memo[n]

    return chebyshev(6) + chebyshev(3)


def tries(x):
    """Try one thing, and another when it fails."""
    total = 0.0
    for value in [x[0], None, x[1], "text"]:
        try:
            total += value**2
        except TypeError:
            total += 1.0
        finally:
            total *= 1.1
    with contextlib.suppress(KeyError):
        total += {}["missing"]
    return total


def sorted_gaps(x):
    """Sum of squares of gaps after sorting a list with Python's sort."""
    s = sorted(x.tolist() if type(x) is list else list(x), key=lambda v: -v)
    return sum((a - b) ** 2 for a, b in itertools.pairwise(s)) + max(s) * min(s)


@dataclass
class Parameters:
    """Parameters of a model, some of them nested."""

    rate: float
    weights: np.ndarray
    limits: tuple[float, float] = (0.0, 1.0)
    names: list[str] = field(default_factory=list)


def with_dataclass(params, x):
    """A function of a dataclass."""
    low, high = params.limits
    assert isinstance(params.weights, np.ndarray), f"weights are {type(params.weights)}"
    z = x @ params.weights
    return low + (high - low) / (1 + np.exp(-params.rate * z)) + len(params.names)


def nested_dict(config, x):
    """A dict of dicts and lists."""
    h = x
    for layer in config["layers"]:
        h = h * layer["scale"] + layer.get("shift", 0.0)
    return (h**2).sum() * config["weight"]


def variadic(*terms, weight=1.0):
    """Any number of arguments."""
    return weight * sum(t**k for k, t in enumerate(terms, start=1))


def keywords(**named):
    """Any number of names."""
    return sum(v * np.sin(k) for k, v in enumerate(named.values(), 1)) * named["a"]


class Stack:
    """A calculator on a stack, with operators of its own."""

    def __init__(self):
        self.items = []

    def push(self, *xs):
        """Put on top."""
        self.items.extend(xs)
        return self

    def apply(self, f):
        """Take two off, put one on."""
        b, a = self.items.pop(), self.items.pop()
        return self.push(f(a, b))

    @property
    def top(self):
        """What is on top."""
        return self.items[-1]


def stack_machine(a, b, c):
    """Reverse Polish notation."""
    return Stack().push(a, b).apply(operator.mul).push(c).apply(operator.truediv).push(a).apply(operator.pow).top


class Money:
    """A class with operators around a number."""

    def __init__(self, amount):
        self.amount = amount

    def __add__(self, other):
        return Money(self.amount + other.amount)

    def __mul__(self, factor):
        return Money(self.amount * factor)

    __rmul__ = __mul__

    def __lt__(self, other):
        return self.amount < other.amount


def best_offer(prices, rate):
    """max of objects with operators, and a sum of them."""
    offers = [rate * Money(p) for p in prices]
    return (max(offers) + sum(offers, start=Money(0.0))).amount


def shortest_path(w):
    """Dijkstra on a small graph whose weights are the input."""
    graph = {0: [(1, w[0]), (2, w[1])], 1: [(2, w[2]), (3, w[3])], 2: [(3, w[4])], 3: []}
    distance = defaultdict(lambda: np.inf, {0: 0.0})
    queue = [(0.0, 0)]
    while queue:
        d, node = heapq.heappop(queue)
        if node == 3:
            return d
        if d > distance[node]:
            continue
        for neighbour, weight in graph[node]:
            if (new := d + weight) < distance[neighbour]:
                distance[neighbour] = new
                heapq.heappush(queue, (new, neighbour))
    return np.inf


def bisect_then_newton(c):
    """A root bracketed by bisection on plain numbers, polished by Newton with the input."""
    low, high = 0.0, 2.0
    for _ in range(8):
        mid = (low + high) / 2
        if mid**3 + mid < c:
            low = mid
        else:
            high = mid
    x = low
    for _ in range(5):
        x -= (x**3 + x - c) / (3 * x**2 + 1)
    return x


def count_and_weigh(x):
    """any, all, enumerate, comprehensions with conditions, chained comparisons."""
    positive = [v for v in x if v > 0]
    inside = {i: v for i, v in enumerate(x) if -1 < v <= 1}
    bonus = 2.0 if any(v > 1 for v in x) and not all(v > 0 for v in x) else 1.0
    return bonus * sum(positive) * len(positive) + sum(v**2 * i for i, v in inside.items())


def continued_fraction(x, depth=8):
    """tan(x) by Lambert's continued fraction, from the inside out."""
    value = 0
    for k in range(2 * depth - 1, 0, -2):
        value = x**2 / (k - value)
    return value / x


def running(x):
    """itertools.accumulate, combinations and product on traced numbers."""
    running_max = list(itertools.accumulate(x, max))
    pairs = sum(a * b for a, b in itertools.combinations(x, 2))
    grid = sum(np.exp(-(a**2) - b) for a, b in itertools.product(x, repeat=2))
    return sum(running_max) + pairs + grid


def collatz_like(x):
    """A while loop that goes one way or the other."""
    steps = 0
    while x < 10 and steps < 30:
        x = 3 * x + 1 if steps % 2 else x / 2 + 2
        steps += 1
    return x * steps


def taylor(x):
    """zip with a global list, a star expression, and a conditional expression."""
    first, *rest = (c * x ** (2 * k + 1) for k, c in enumerate(COEFFICIENTS))
    return first + sum(rest) if rest else first


POINTS = {
    income_tax: {"income": 2.2},
    babylonian: {"a": 2.0},
    agm: {"a": 1.0, "b": 1.7},
    power: {"x": 1.3},
    determinant: {"m": np.array([[2.0, 1.0, 0.3], [0.2, 1.5, -0.4], [0.7, 0.1, 1.1]])},
    expression_tree: {"x": 0.6, "y": -0.8},
    series: {"x": 0.9},
    closure: {"c": [0.5, -1.0, 0.3, 0.8], "t": 0.7},
    decorated: {"x": np.array([0.5, 1.5, -0.7])},
    reduced: {"ws": np.array([0.5, -0.8, 1.1]), "x": 0.4},
    bernstein: {"coefficients": np.array([1.0, -0.5, 2.0, 0.3]), "t": 0.4},
    memoised_chain: {"x": 0.45},
    tries: {"x": np.array([0.8, -1.4])},
    sorted_gaps: {"x": np.array([0.3, -0.9, 1.4, 0.7])},
    with_dataclass: {
        "params": Parameters(0.8, np.array([0.5, -0.3, 0.9]), (0.1, 2.0), ["a"]),
        "x": np.array([1.0, 0.4, -0.2]),
    },
    nested_dict: {
        "config": {"layers": [{"scale": 1.5, "shift": 0.1}, {"scale": np.array([0.3, -0.7])}], "weight": 0.9},
        "x": np.array([0.2, 1.1]),
    },
    variadic: {"terms": (0.3, -0.8, 1.2), "weight": 0.7},
    keywords: {"named": {"a": 0.4, "b": 1.1, "c": -0.3}},
    stack_machine: {"a": 1.3, "b": 0.8, "c": 0.6},
    best_offer: {"prices": [3.0, 5.0, 4.0], "rate": 1.1},
    shortest_path: {"w": np.array([1.0, 4.0, 1.5, 6.0, 2.0])},
    bisect_then_newton: {"c": 1.7},
    count_and_weigh: {"x": np.array([0.3, -0.5, 1.6, 0.9])},
    continued_fraction: {"x": 0.8},
    running: {"x": np.array([0.3, -0.5, 0.9])},
    collatz_like: {"x": 1.1},
    taylor: {"x": 0.7},
}
