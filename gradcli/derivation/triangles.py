"""Triangles of ones, and products with them: sums up to each entry, or the entries below a diagonal; and products of entries."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from gradcli.derivation.expression import E, Op, call, matmul, mul, name, neg, number, transpose
from gradcli.derivation.index import Atom


def times(a: E, v: E) -> E:
    """Return the product of a matrix and a vector: with a triangle of ones, which no one forms, as cumsum(v)."""
    *before, last = a.args if a.op == Op.MATMUL else (a,)
    rows = last.op == "index" and _of_ones(last.args[0])
    if _of_ones(last) or rows:
        v = replace(last, args=(call("cumsum", v),)) if rows else call("cumsum", v)
    elif last.op == Op.TRANSPOSE and _of_ones(last.args[0]):
        v = _turned(call("cumsum", _turned(v)))
    else:
        return matmul(a, v)
    return matmul(*before, v) if before else v


def kept(parts: Sequence[E]) -> list[E]:
    """Return matrices to be multiplied entry by entry, a triangle of ones among them as tril or triu of the others."""
    for k, a in enumerate(parts):
        lower = a.op == "call" and a.text == "tril" and a.args[0].text == "ones"
        upper = (
            a.op == Op.TRANSPOSE
            and a.args[0].op == "call"
            and a.args[0].text == "tril"
            and a.args[0].args[0].text == "ones"
        )
        others = [b for n, b in enumerate(parts) if n != k]
        if others and lower:
            return [call("tril", mul(others), *a.args[1:])]
        if others and upper:
            return [call("triu", mul(others), *map(neg, a.args[0].args[1:]))]
    return list(parts)


def triangle_of(atom: Atom, order: tuple[int, ...]) -> E:
    """Return a triangle of ones."""
    ones = call("ones", *(name(d) for d in atom.dims))
    e = call("tril", ones, *([] if atom.name == "0" else [number(Fraction(atom.name))]))
    return e if order == tuple(sorted(order)) else transpose(e)


def product_of(logs: E) -> E:
    """Return exp(sum(log(u))) as the product of the entries of u."""
    if logs.op == "call" and logs.text == "sum" and logs.args[0].op == "call" and logs.args[0].text == "log":
        return E("call", logs.args[0].args, "prod", options=logs.options)
    return call("exp", logs)


def _of_ones(e: E) -> bool:
    return e.op == "call" and e.text == "tril" and len(e.args) == 1 and e.args[0].text == "ones"


def _turned(v: E) -> E:
    return v.args[0] if v.op == "call" and v.text == "flip" else call("flip", v)
