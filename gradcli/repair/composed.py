"""What an output of a claim lacks: a term or a factor that is made of the names around it, found by its numbers."""

import ast
from collections.abc import Iterator
from typing import Any

import numpy as np

from gradcli.repair.place import Edit, Place
from gradcli.repair.right import Gradient, Right
from gradcli.repair.scope import Term, shape_of
from gradcli.repair.text import ATOM, bound_by, grouped

_NEAR = 1e-9  # relative: how near a term is to what is lacking, before the repair is tried
_MOST = 60  # terms that are combined
_LOOKED_AT = 5  # entries of what is lacking, by which combinations are chosen
_NUMBERS = ((1.0, ""), (2.0, "2"), (0.5, "0.5"), (3.0, "3"), (4.0, "4"), (0.25, "0.25"), (1.5, "1.5"))
_COMBINED = (
    (ast.Mult, np.multiply, "*"),
    (ast.Div, np.divide, "/"),
    (ast.Sub, np.subtract, "-"),
    (ast.Add, np.add, "+"),
)


def lacking(place: Place, name: str, claimed: Gradient, right: Right) -> Iterator[Edit]:
    """Yield edits that add to an output of the claim what it lacks, or multiply it by that.

    Source  the difference and the ratio of the right gradient and the claim, compared with what two or three of the values
            that the code has at this place give, times a simple number.
    """
    wanted, own = np.asarray(right.gradient[name], dtype=float), np.asarray(claimed.get(name, np.nan), dtype=float)
    if own.shape != wanted.shape or not np.all(np.isfinite(own)):
        return
    line = getattr(place.node, "lineno", 1)
    with np.errstate(all="ignore"):
        ratio = wanted / own
        for term, factor in _equal(place, wanted - own):
            if term.text == place.piece:  # a factor is wrong: nobody writes g - 1.5 * g
                continue
            new = f"{place.as_operand(ast.Add)} {'-' if factor < 0 else '+'} {_times(factor, term)}"
            yield Edit("term", 2.5, line, (place.text.in_place(place.node, place.parent, new, bound_by(ast.Add)),))
        if np.all(np.isfinite(ratio)):
            for term, factor in _equal(place, ratio):
                by = grouped(_times(factor, term), bound_by(ast.Mult), ast.Mult, right=True)
                new = f"{'-' if factor < 0 else ''}{place.as_operand(ast.Mult)} * {by}"
                yield Edit(
                    "factor", 2.5, line, (place.text.in_place(place.node, place.parent, new, bound_by(ast.Mult)),)
                )


def _times(factor: float, term: Term) -> str:
    """Return the text of a term times a number of `_NUMBERS`, as an operand of a sum."""
    number = dict(_NUMBERS)[abs(factor)]
    return (
        f"{number} * {grouped(term.text, term.bound, ast.Mult)}"
        if number
        else grouped(term.text, term.bound, ast.Sub, right=True)
    )


def _equal(place: Place, wanted: Any) -> Iterator[tuple[Term, float]]:
    """Yield combinations whose value, times a number of `_NUMBERS`, is the wanted one at the entries looked at."""
    if not np.all(np.isfinite(wanted)) or not np.any(wanted):
        return
    entries = np.unique(np.argsort(-np.abs(wanted), axis=None)[np.linspace(0, wanted.size - 1, _LOOKED_AT).astype(int)])
    sample = wanted.reshape(-1)[entries]
    if not np.all(sample) or (wanted.size > 1 and len(sample) < 2):
        sample, entries = sample[sample != 0], entries[sample != 0]
    terms = list(_terms(place, wanted.shape, entries))
    names = [term for term in terms if term.text.isidentifier()]
    pairs = list(_pairs(terms, terms, _COMBINED))
    yield from _fitting(terms, sample)
    yield from _fitting(pairs, sample)
    of_names = list(_pairs(names, names, _COMBINED))
    yield from _fitting(list(_pairs(of_names, names, _COMBINED[:2])), sample)


def _terms(place: Place, shape: tuple[int, ...], entries: Any) -> Iterator[Term]:
    """Yield the values of this place that broadcast to a shape, at some entries."""
    found = 0
    for term in (*place.scope.names, *place.scope.sizes, *place.scope.terms):
        try:
            value = np.broadcast_to(np.asarray(term.value, dtype=float), shape).reshape(-1)[entries]
        except (TypeError, ValueError, RuntimeError):
            continue
        if np.all(np.isfinite(value)) and (shape_of(term.value) != () or np.any(value)):
            yield Term(term.text, value, term.bound)
            found += 1
        if found == _MOST:
            return


def _pairs(first: list[Term], second: list[Term], operations: Any) -> Iterator[Term]:
    for a in first:
        for b in second:
            if a is b:
                continue
            for op, function, sign in operations:
                if op in (ast.Mult, ast.Add) and a.text > b.text and a.bound == b.bound == ATOM:
                    continue
                text = f"{grouped(a.text, a.bound, op)} {sign} {grouped(b.text, b.bound, op, right=True)}"
                yield Term(text, function(a.value, b.value), bound_by(op))


def _fitting(terms: list[Term], sample: Any) -> Iterator[tuple[Term, float]]:
    """Yield the terms whose values are a simple multiple of a sample."""
    if not terms:
        return
    ratios = sample / np.array([term.value for term in terms])
    factors = ratios[:, 0]
    same = np.all(np.abs(ratios - factors[:, None]) <= _NEAR * np.abs(factors)[:, None], axis=1)
    for k in np.flatnonzero(same):
        number = next((n for n, _ in _NUMBERS if abs(abs(factors[k]) - n) <= _NEAR * n), None)
        if number is not None:
            yield terms[k], number if factors[k] > 0 else -number
