"""Tensors written in index notation: G[i,j] = sum_k A[i,k]*B[k,j]."""

import re
from collections.abc import Sequence
from typing import Any

from gradcli.derivation.expression import ATOM, text
from gradcli.derivation.index import Atom, Factor, Index, Tensor, Term, slot
from gradcli.derivation.matrices import Printer
from gradcli.derivation.products import is_product

_LOGS = re.compile(r"sum_(\S+) log\((.*)\)")
_PARTS = {"slice", "pad", "tri"}  # atoms that are written as arrays with indices after them


def indexed(x: Tensor, axes: Sequence[Index | None], name: str = "G") -> str:
    """Return a tensor in index notation: G[i,j] = sum_k A[i,k]*B[k,j]."""
    names: dict[Index, str] = {}
    letters = iter("ijklmnpqrstuvwabc")
    for i in axes:
        if i is not None and i not in names:
            names[i] = next(letters, "z")
    head = name + (f"[{','.join(names[i] for i in axes if i is not None)}]" if names else "")
    return f"{head} = {_indexed(x, names, letters)}"


def _indexed(x: Tensor, names: dict[Index, str], letters: Any) -> str:
    shown = ""
    for term in x.terms:
        sign, size = ("-", -term.coef) if term.coef < 0 else ("+", term.coef)
        part = _term(term, size, dict(names), letters)
        shown += (f" {sign} " if shown else "-" if sign == "-" else "") + part
    return shown or "0"


def _term(term: Term, size: Any, names: dict[Index, str], letters: Any) -> str:
    every = [i for i in dict.fromkeys(i for f in term.factors for i in f.at) if i not in names]
    picks = [f for f in term.factors if f.atom.op == "unit" and f.at[0] in every]
    names |= {f.at[0]: _place(f.atom) for f in picks}
    bound = [i for i in every if i not in names]
    for i in bound:
        names[i] = next(letters, "z")
    shown = [f for f in term.factors if not any(f is p for p in picks)]
    parts = [] if size == 1 and shown else [str(size)]
    parts += [_factor(f, names, letters) for f in shown]
    total = f"sum_{','.join(names[i] for i in bound)} " if bound else ""
    return total + "*".join(parts)


def _place(atom: Atom) -> str:
    """Return the position of the 1 in a unit vector: `0`, or `n-1` if it counts from the end."""
    return f"{atom.dims[0]}{atom.name}" if atom.name.startswith("-") else atom.name


def _factor(f: Factor, names: dict[Index, str], letters: Any) -> str:
    at = f"[{','.join(names[i] for i in f.at)}]" if f.at else ""
    power = "" if f.power == 1 else f"^{f.power}" if f.power.denominator == 1 else f"^({f.power})"
    return f"{_atom(f.atom, [names[i] for i in f.at], at, letters)}{power}"


def _atom(atom: Atom, own: list[str], at: str, letters: Any) -> str:
    if atom.op in ("input", "size", "number", "pi"):
        return f"{atom.name}{at}"
    if atom.op == "delta":
        return f"delta{at}"
    if atom.op == "unit":
        return f"delta[{own[0]},{_place(atom)}]"
    if atom.op in _PARTS:
        return f"{text(Printer({}).atom(atom, tuple(range(len(atom.dims)))), ATOM)}{at}"
    if atom.op in ("inv", "det"):
        matrix = atom.args[0]
        return f"{atom.op}({text(Printer({}).write(matrix, sorted(matrix.free, reverse=True)))}){at}"
    names = {slot(k, d): own[k] for k, d in enumerate(atom.dims)}
    inside = []
    for arg in atom.args:
        inner = dict(names)
        for i in arg.free:
            inner.setdefault(i, next(letters, "z"))
        inside.append(_indexed(arg, inner, letters))
    if atom.op == "group":
        return f"({inside[0]})"
    if is_product(atom) and (factors := _LOGS.fullmatch(inside[0])):
        return f"(prod_{factors[1]} {factors[2]})"
    return f"{atom.op}({', '.join(inside)})" + (at if atom.op == "softmax" else "")
