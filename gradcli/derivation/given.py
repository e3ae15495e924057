"""A point that is given: sizes are read from its values, and closed forms are evaluated there."""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gradcli.core.shapes import shape
from gradcli.derivation.facts import Dims
from gradcli.derivation.problem import Problem
from gradcli.derivation.verified import ALLOWED, UNSEEN, Verifier
from gradcli.errors import BadOption, NotSupported
from gradcli.report.common import Finding, finding
from gradcli.report.derive import Result
from gradcli.source.derived import Completed
from gradcli.source.expression import Expression
from gradcli.source.function import Function
from gradcli.verify.probe import Located
from gradcli.words import Kind, Severity

_LETTERS = "nmkdpqrst"


@dataclass(frozen=True)
class Given:
    """A function at a point: the sizes of its inputs, those that were named after the values, and the values.

    `drawn` are inputs that no one gave a value.
    """

    f: Function
    dims: Mapping[str, Dims]
    named: Mapping[str, int]
    values: Mapping[str, Any]
    drawn: tuple[str, ...] = ()

    def stricter(self) -> Iterator["Given"]:
        """Yield the same point with fewer named sizes: without a name for 1, which may be broadcast; without any."""
        for kept in ({d: k for d, k in self.named.items() if k != 1}, {}):
            gone = {d: k for d, k in self.named.items() if d not in kept}
            dims = {n: tuple(str(gone.get(d, d)) for d in own) for n, own in self.dims.items()}
            yield replace(self, dims=dims, named=kept)


def given_at(found: Located, shapes: Mapping[str, Dims]) -> Given:
    """Return a function at its one point; equal lengths that `shapes` does not name are one size.

    Raises  BadOption for several points, and for values that have not the sizes in `shapes`; NotSupported for inputs in
            containers.
    """
    if len(found.points) > 1:
        raise BadOption(f"derive takes one point, not {len(found.points)}", do="run it once for each")
    inside = next((n for n in found.f.inputs if not n.isidentifier()), None)
    if inside is not None:
        raise NotSupported(f"the input {inside} is in a container", do="derive a function of arrays and numbers")
    values = found.points[0].values
    known = {
        word: n for name, words in shapes.items() if name in values for word, n in _sizes(name, words, values[name])
    }
    other = next((n for n in known if n in values and n not in shapes and np.any(values[n] != known[n])), None)
    if other is not None:
        says = f"{other} is the size {known[other]} in --shapes, and {np.asarray(values[other]).tolist()} in --at"
        raise BadOption(says, do="give sizes and inputs different names")
    inputs = [n for n in found.f.inputs if n not in known or n in shapes]
    names = dict(_named([n for n in inputs if n not in shapes], values, known, found.f.inputs))
    dims = {n: shapes[n] if n in shapes else tuple(names[k] for k in shape(values[n])) for n in inputs}
    used = {d for n in inputs if n not in shapes for d in dims[n] if not d.isdecimal()}
    named = {d: k for k, d in names.items() if d in used and d not in known}
    others = {n: x for n, x in values.items() if n not in found.f.inputs}
    f = Completed(found.f, others) if others else found.f
    return Given(f, dims, named, {n: values[n] for n in found.f.inputs}, found.points[0].drawn)


def _sizes(name: str, words: Dims, x: Any) -> Iterator[tuple[str, int]]:
    """Yield the names of sizes with their numbers. Raises BadOption where the value has others."""
    lengths = shape(x)
    if len(lengths) != len(words) or any(w.isdecimal() and int(w) != n for w, n in zip(words, lengths, strict=True)):
        says = f"{name} has shape {lengths}, and --shapes says {' '.join(words) or 'a number'}"
        raise BadOption(says, do="write a name or a number for each of its axes")
    yield from ((w, n) for w, n in zip(words, lengths, strict=True) if not w.isdecimal())


def _named(
    inputs: list[str], values: Mapping[str, Any], known: Mapping[str, int], taken: tuple[str, ...]
) -> Iterator[tuple[int, str]]:
    """Yield each length with its name: that of a size which is as long, or a letter; columns come before rows.

    Raises  BadOption where two sizes are as long.
    """
    names = {n: word for word, n in known.items()}
    alike = [n for n in names if list(known.values()).count(n) > 1]
    letters = (c for c in itertools.chain(_LETTERS, (f"n{k}" for k in itertools.count(1))) if c not in {*taken, *known})
    for name in inputs:
        for n in reversed(shape(values[name])):
            if n in alike:
                both = " and ".join(word for word, length in known.items() if length == n)
                raise BadOption(f"{name} has a length of {n}, as have {both}", do="name its sizes too: --shapes")
            if n not in names:
                names[n] = next(letters)
    yield from names.items()


def at_point(
    result: Result, problem: Problem, sizes: Mapping[str, tuple[int, ...]], given: Given
) -> tuple[Result, Finding | None]:
    """Return a result with its value at the point, compared with the certified derivative there, and what is wrong with it."""
    if result.direction:
        return result, None
    formula = Expression(result.formula.expression)
    known = dict(given.values)
    for name, own in given.dims.items():
        known |= {d: np.float64(n) for d, n in zip(own, shape(given.values[name]), strict=True)}
    with np.errstate(all="ignore"):
        value = np.asarray(formula({n: known[n] for n in formula.inputs}), dtype=np.float64)[()]
        y = np.max(np.abs(np.asarray(problem.f(given.values), dtype=np.float64)), initial=0.0)
    truth = Verifier(problem, sizes, result.wrt, result.kind).truth(dict(given.values))
    if truth is None or not np.isfinite(y):
        return replace(result, value=value), None
    scale = max(float(np.max(np.abs(truth), initial=0.0)), UNSEEN * max(1.0, float(y)))
    alike = np.shape(value) == np.shape(truth)
    error = float(np.max(np.abs(value - truth), initial=0.0)) / scale if alike else float("inf")
    found = replace(result, value=value, value_error=error)
    if error <= ALLOWED:
        return found, None
    says = f"by {result.wrt}: at the point the closed form is off by {error:.1e} of the largest entry"
    return found, finding(
        Kind.DISAGREEMENT, Severity.INCONCLUSIVE, says, hint="check that the assumptions hold at this point"
    )
