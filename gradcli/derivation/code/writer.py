"""The code writer: expressions in a dialect, with qualified function names, and linear solves in place of inverses."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from gradcli.derivation.code.dialect import Dialect
from gradcli.derivation.code.ranks import PLAIN, rank
from gradcli.derivation.expression import COMPARE, E, Op, matmul, name, neg, number, text, written
from gradcli.errors import NotSupported


def chained(e: E, known: Mapping[str, int]) -> E:
    """Return an expression with chains of matrices applied to a vector from the right: A.T @ (A @ x).

    From the left, A.T @ A would be formed as a matrix. `known` has the ranks of names. Raises NotSupported.
    """
    args = tuple(chained(a, known) for a in e.args)
    first = next((k for k, a in enumerate(args) if rank(a, known) == 1), 0) if e.op == Op.MATMUL else 0
    if not first:
        return replace(e, args=args)
    inner = args[first]
    for a in reversed(args[1:first]):
        inner = E(Op.MATMUL, (a, inner))
    return E(Op.MATMUL, (args[0], inner, *args[first + 1 :]))


_LARGE = 2**31  # larger integers may not fit into an array's integers, so they are written as floats
_CONSTANT = re.compile(r"(?:(.+)([*/]))?(pi|(?:sqrt|log)\(.+\))")  # a constant, or a number times or divided by one
_FUNCTION = re.compile(r"\b(pi|sqrt|log)\b")
_APART = re.compile(r"(\w+) ([-+]) (\d+)")  # a named size plus or minus a number
_PLACES = re.compile(r"\[[^\[\]]*\]")
_BACKWARD = re.compile(r":[^,\[\]]*:\s*-")
_WITH_NUMBERS = frozenset("eye ones zeros tril triu roll arange".split())  # noqa: SIM905 - their arguments may be sizes
_OF_ARRAYS = {"sum", "mean", "var", "logsumexp", "softmax", "einsum", "outer", "solve"}


@dataclass(frozen=True)
class Writer:
    """Writes expressions for one dialect; `known` has the ranks of inputs and parts, `like` is the input to take a dtype from."""

    dialect: Dialect
    known: Mapping[str, int]
    like: str

    def code(self, e: E) -> str:
        """Return an expression as code. Raises NotSupported if the dialect has no word for it."""
        rank(e, self.known)
        return text(self._said(chained(solved(e), self.known)), COMPARE)

    def result(self, e: E) -> str:
        """Return the code of the function's result: an array, even if it is computed as a Python number."""
        whole = self.code(e)
        if self.dialect.array and rank(e, self.known) == PLAIN:
            return self._filled(self.dialect.array, [whole])
        return whole

    def _said(self, e: E) -> E:
        args = tuple(map(self._said, e.args))
        ranks = [rank(a, self.known) for a in e.args]
        if e.op == "name":
            return self._name(e)
        if e.op == "number":
            return self._number(e)
        if e.op == Op.TRANSPOSE and ranks[0] < 2:
            return args[0]
        if e.op == "compare":
            return self._called("compare", (replace(e, args=args),), ranks, e)
        if e.op == "concat":
            return self._called("pad", args, ranks, e)
        if e.op == "index":
            return replace(e, args=args, text=self._place(e.text))
        return self._called(e.text, args, ranks, e) if e.op == "call" else replace(e, args=args)

    def _name(self, e: E) -> E:
        apart = _APART.fullmatch(e.text)
        if apart:
            by = number(Fraction(int(apart[3])))
            return E(Op.ADD, (name(apart[1]), by if apart[2] == "+" else neg(by)))
        return name(f"{self.dialect.constants}pi") if e.text == "pi" and "pi" not in self.known else e

    def _place(self, text: str) -> str:
        """Return an index, with its brackets, as the dialect writes it."""
        if _BACKWARD.search(text) and not self.dialect.backward:
            raise NotSupported(f"{self.dialect.title} has no steps backward")
        return f"[{_PLACES.sub(lambda m: self.dialect.places.format(m[0]), text[1:-1])}]"

    def _number(self, e: E) -> E:
        known = _CONSTANT.fullmatch(written(e.number))
        if known:
            constant = _raw(_FUNCTION.sub(rf"{self.dialect.constants}\1", known[3]))
            if not known[2]:
                return constant
            return E(Op.MUL if known[2] == "*" else Op.DIV, (number(Fraction(known[1])), constant))
        return replace(e, number=float(e.number)) if e.number >= _LARGE else e

    def _called(self, word: str, args: Sequence[E], ranks: Sequence[int], e: E) -> E:
        strict = bool(self.dialect.plain) and word not in _WITH_NUMBERS  # numbers and arrays need different functions
        plain = strict and set(ranks) == {PLAIN}
        rows = self.dialect.plain if plain else self.dialect.rows
        options = dict(e.options) if e.op == "call" else {}
        kind = "" if "axis" in options else {1: " of a vector", 2: " of a matrix"}.get(max(ranks, default=0), "")
        row = rows.get(word + kind) or rows.get(word)
        if word + " of a vector" in rows and not kind and "axis" not in options:
            row = None
        if row is None or (strict and word in _OF_ARRAYS and PLAIN in ranks):
            raise NotSupported(f"{self.dialect.title} has no {word}{' of a number' if PLAIN in ranks else ''}")
        if strict and not plain and word != "compare":
            args = [self._array(a) if r == PLAIN else a for a, r in zip(args, ranks, strict=True)]
        given = {self.dialect.axis if k == "axis" else k: v for k, v in options.items()}
        if "{" not in row:
            return E("call", tuple(args), row, options=tuple(given.items()))
        axis = "".join(f", {k}={v}" for k, v in given.items())
        return _raw(self._filled(row, [text(a) for a in args], axis, e.text))

    def _array(self, a: E) -> E:
        """Return the code that makes an array of a number, for functions that take arrays only."""
        return _raw(self._filled(self.dialect.array, [text(a)]))

    def _filled(self, row: str, args: Sequence[str], axis: str = "", zeros: str = "") -> str:
        scalar = self.known.get(self.like) == 0
        dtype = (self.dialect.dtype_of_number if scalar else self.dialect.dtype).format(like=self.like)
        before, _, after = zeros.partition("|")
        shape = args[0] if len(args) == 1 else f"[{', '.join(args)}]"
        return row.format(
            *args, args=", ".join(args), shape=shape, axis=axis, along=axis.rpartition("=")[2], like=self.like, dtype=dtype,
            before=before.count("0"), after=after.count("0"),
        )  # fmt: skip


def _raw(code: str) -> E:
    return name(code)


def solved(e: E) -> E:
    """Return an expression with products by inverses as linear solves: inv(A) @ b is solve(A, b)."""
    args = tuple(map(solved, e.args))
    apart = e.op == Op.DOT and all(a.op == Op.MATMUL and not any(b.text == "inv" for b in a.walk()) for a in e.args)
    if e.op not in (Op.MATMUL, Op.DOT) or apart:
        return replace(e, args=args)
    return _product([x for a in args for x in (a.args if a.op == Op.MATMUL else (a,))])


def _product(parts: Sequence[E]) -> E:
    for k, a in enumerate(parts[:-1]):
        turned = a.op == Op.TRANSPOSE and a.args[0].op == "call" and a.args[0].text == "inv"
        if turned or (a.op == "call" and a.text == "inv"):
            inner = E(Op.TRANSPOSE, a.args[0].args) if turned else a.args[0]
            rest = E("call", (inner, _product(parts[k + 1 :])), "solve")
            return matmul(*parts[:k], rest)
    return matmul(*parts)
