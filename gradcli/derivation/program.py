"""Programs: an expression in which what occurs more than once is named, and the code that computes it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from gradcli.derivation.expression import COMPARE, E, matmul, name, text
from gradcli.errors import NotSupported

_WORTH = 3  # operations that a name must save
_USERS = 4  # operations that a name of the user's own is worth
_LETTERS = {
    "softmax": "p", "sigmoid": "s", "tanh": "h", "inv": "P", "exp": "e", "det": "D", "var": "v", "mean": "m", "sqrt": "r",
    "outer": "M", "add": "d", "matmul": "u", "relu": "a",
}  # fmt: skip


@dataclass(frozen=True)
class Program:
    """Named parts in order, and the result."""

    parts: tuple[tuple[str, E], ...]
    result: E

    @property
    def size(self) -> int:
        """The operations of the whole."""
        return sum(e.size for _, e in self.parts) + self.result.size

    def text(self) -> str:
        """Return it as an expression of gradcli: statements where there are parts."""
        return "; ".join([*(f"{n} = {text(e)}" for n, e in self.parts), text(self.result)])


def program(e: E, taken: Sequence[str], known: Mapping[E, str] | None = None) -> Program:
    """Return an expression with repeated parts named, the largest first; those the user has a name for by that."""
    names = dict(known or {})
    parts: list[tuple[str, E]] = []
    used = set(taken)
    while True:
        found = Counter(a for a in e.walk() if a.size >= 1 and a.op not in ("neg", "T", "column"))
        for _, part in parts:
            found.update(a for a in part.walk() if a.size >= 1 and a.op not in ("neg", "T", "column"))
        worth = {a: (n - 1) * a.size for a, n in found.items() if n > 1 and (n - 1) * a.size >= _WORTH}
        if not worth:
            return Program(tuple(_in_order(parts)), e)
        best = max(worth, key=lambda a: (worth[a] + _USERS * (a in names), a.size))
        new = names.get(best) or _name_for(best, used)
        names = {replaced(a, best, name(new)): n for a, n in names.items() if n != new}
        used.add(new)
        e = replaced(e, best, name(new))
        parts = [(n, replaced(p, best, name(new))) for n, p in parts]
        parts.append((new, best))


def _name_for(e: E, used: set[str]) -> str:
    letter = _LETTERS.get(e.text if e.op == "call" else e.op, "t")
    return next(n for n in (letter, *(f"{letter}{k}" for k in range(1, 1000))) if n not in used)


def replaced(e: E, old: E, new: E) -> E:
    """Return an expression with one part replaced wherever it occurs."""
    if e == old:
        return new
    if not e.args:
        return e
    return replace(e, args=tuple(replaced(a, old, new) for a in e.args))


def _in_order(parts: list[tuple[str, E]]) -> list[tuple[str, E]]:
    """Return the parts, each after those it uses."""
    done: list[tuple[str, E]] = []
    names = {n for n, _ in parts}
    left = list(parts)
    while left:
        ready = next(
            p for p in left if not {a.text for a in p[1].walk() if a.op == "name"} & (names - {n for n, _ in done})
        )
        done.append(ready)
        left.remove(ready)
    return done


_MODULES = {"np", "special"}
_NUMPY = {
    "inv": "np.linalg.inv", "norm": "np.linalg.norm", "det": "np.linalg.det", "sigmoid": "special.expit",
    "sign": "np.sign",
    **{
        name: f"special.{name}"
        for name in (
            "softmax", "logsumexp", "erf", "erfc", "gammaln", "digamma", "log_expit", "logit", "ndtr", "log_ndtr", "xlogy",
            "entr",
        )
    },
}  # fmt: skip
_IMPORTS = "import numpy as np\nfrom scipy import special"


def numpy_code(
    made: Program, kind: str, inputs: Sequence[str], sizes: Mapping[str, tuple[str, int]], check: str = ""
) -> str:
    """Return a function of all inputs by keyword, named as its kind, that reads sizes from shapes."""
    if clash := sorted({*inputs, *sizes} & _MODULES):
        raise NotSupported(
            f"an input or a size called {clash[0]} hides a module in the code", do="call it something else"
        )
    used = {a.text for e in (*(p for _, p in made.parts), made.result) for a in e.walk() if a.op == "name"}
    lines = [_IMPORTS, "", "", f"def {kind}({', '.join(['*', *inputs]) if inputs else ''}):"]
    for size, (owner, axis) in sizes.items():
        if size in used:
            lines.append(f"    {size} = np.shape({owner})[{axis}]")
    lines += [f"    {n} = {code(e)}" for n, e in made.parts]
    lines.append(f"    return {code(made.result)}")
    return "\n".join(lines) + "\n" + check


def code(e: E) -> str:
    """Return an expression in numpy, every function qualified; an inverse times something is solved for."""
    return text(_qualified(e), COMPARE)


def _qualified(e: E) -> E:
    args = tuple(_qualified(a) for a in e.args)
    if e.op == "matmul":
        return _solved(args)
    if e.op == "dot":
        flat = [x for a in args for x in (a.args if a.op == "matmul" else (a,))]
        return _solved(tuple(flat))
    if e.op == "name" and e.text == "pi":
        return name("np.pi")
    if e.op == "compare":  # numbers, not truth values, which numpy does not subtract
        return E("call", (replace(e, args=args),), "np.float64")
    if e.op == "concat":
        return replace(e, args=args, options=(("module", "np."),))
    if e.op != "call":
        return replace(e, args=args)
    if e.text == "softplus":
        return E("call", (E("number"), *args), "np.logaddexp")
    if e.text == "relu":
        return E("call", (*args, E("number")), "np.maximum")
    if e.text in ("ones", "zeros"):
        return replace(e, args=args, text=f"np.{e.text}")
    return replace(e, args=args, text=_NUMPY.get(e.text, f"np.{e.text}"))


def _solved(parts: tuple[E, ...]) -> E:
    """Return a product in which inverses are not formed: inv(A) @ b is solve(A, b)."""
    for k, a in enumerate(parts[:-1]):
        turned = a.op == "T" and a.args[0].op == "call" and a.args[0].text == "np.linalg.inv"
        straight = a.op == "call" and a.text == "np.linalg.inv"
        if straight or turned:
            inner = a.args[0] if straight else E("T", (a.args[0].args[0],))
            rest = E("call", (inner, _solved(parts[k + 1 :])), "np.linalg.solve")
            return matmul(*parts[:k], rest)
    return matmul(*parts)
