"""Shapes under which a function runs, as the line to give: --shapes "W: m n; x: n; y: m"."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from gradcli.errors import GradcliError
from gradcli.targets.expression import Expression
from gradcli.targets.facts import Dims, Function
from gradcli.targets.instructions import Instruction
from gradcli.tracing.shapes import shape

_Score = tuple[int, int, int, int]
_LETTERS = ("m", "n", "k")
_LENGTHS = (3, 5, 7, 4, 6, 8, 11, 13)  # all different, so that only equal sizes fit
_MOST = 3_000  # evaluations of f
_SCALARS = frozenset(  # names that are numbers more often than vectors
    "lam lambda_ alpha beta gamma eps eta sigma tau rho mu nu s k n m d".split()  # noqa: SIM905
)


def fitting(f: Function, given: Mapping[str, Dims], wrong: bool = False) -> dict[str, Dims] | None:
    """Return sizes for all inputs under which f runs: those `given`, and others that fit them; None where none are found.

    Where the given sizes are `wrong`, those of one input are changed. The most general ones are taken: a number as the value, a
    capital letter for a matrix, and as many different sizes as there can be.
    """
    known = {d for dims in given.values() for d in dims if not d.isdecimal()}
    if not isinstance(f, Expression) or len(known) > len(_LENGTHS):  # a Python function may do more than compute
        return None
    inputs = [n for n in f.inputs if not any(n in dims for dims in given.values()) or n in given]
    open_ = [n for n in inputs if n not in given]
    kept = {n: given[n] for n in inputs if n in given}
    if not wrong:
        found = [_best(f, kept, open_, given)]
    else:  # of two inputs, a vector is changed before a matrix
        by_rank = sorted(kept, key=lambda n: len(kept[n]))
        found = [_best(f, {n: kept[n] for n in kept if n != name}, [*open_, name], given) for name in by_rank]
    return max((one for one in found if one is not None), key=lambda pair: pair[0], default=(None, None))[1]


def _best(
    f: Expression, kept: Mapping[str, Dims], open_: Sequence[str], given: Mapping[str, Dims]
) -> tuple[_Score, dict[str, Dims]] | None:
    """Return the best sizes of the open inputs beside those that are kept, with their score; None where none fit."""
    known = (d for dims in given.values() for d in dims if not d.isdecimal())
    names = tuple(dict.fromkeys([*known, *_free(f)]))[: len(_LENGTHS)]
    lengths = dict(zip(names, _LENGTHS, strict=False))
    choices = [list(_of(name, names[:3])) for name in open_]
    if not open_ or np.prod([len(c) for c in choices]) > _MOST:
        return None
    every = ({**kept, **dict(zip(open_, own, strict=True))} for own in itertools.product(*choices))
    fits = [(score, dims) for dims in every if (score := _score(f, dims, lengths)) is not None]
    best = max(fits, key=lambda pair: pair[0], default=None)
    return None if best is None else (best[0], _named({n: best[1][n] for n in f.inputs if n in best[1]}, given))


def _named(dims: dict[str, Dims], given: Mapping[str, Dims]) -> dict[str, Dims]:
    """Return sizes of which a single one is n, unless it has been named."""
    used = {d for own in dims.values() for d in own}
    if given or len(used) != 1 or "n" in dims:
        return dims
    return {name: tuple("n" for _ in own) for name, own in dims.items()}


def _free(f: Expression) -> list[str]:
    return [letter for letter in (*_LETTERS, "d", "p", "q", "r") if letter not in f.inputs][: len(_LETTERS)]


def _of(name: str, sizes: Sequence[str]) -> Iterator[Dims]:
    """Yield the sizes that an input may have: a capital is a matrix, other letters are vectors or numbers."""
    if name[:1].isupper():
        yield from itertools.product(sizes, repeat=2)
        return
    yield ()
    yield from ((size,) for size in sizes)


def _score(f: Expression, dims: Mapping[str, Dims], lengths: Mapping[str, int]) -> _Score | None:
    """Return how good sizes are; None where f does not run."""
    rng = np.random.default_rng(0)
    values: dict[str, Any] = {
        name: rng.uniform(0.5, 1.5, [int(d) if d.isdecimal() else lengths[d] for d in own])[()]
        for name, own in dims.items()
    }
    values |= {name: np.float64(1.0) for name in f.places if name in values and not dims[name]}  # a position
    used = {d for own in dims.values() for d in own}
    sized = {n: np.float64(lengths[n]) for n in f.inputs if n in used and n not in values}
    if set(f.inputs) - set(values) - set(sized):
        return None
    try:
        with np.errstate(all="ignore"):
            y = f.watched(values | sized, _refuse_traces)
    except (GradcliError, ValueError, TypeError, np.linalg.LinAlgError):
        return None
    vectors = sum(bool(own) != (name in _SCALARS) for name, own in dims.items())
    squares = sum(len(own) == 2 and len(set(own)) == 1 for own in dims.values())
    return -len(shape(y)), vectors, len(used), -squares


def _refuse_traces(step: Instruction, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Raise ValueError for the trace of a matrix that is not square, which numpy takes."""
    if step.operation in ("trace", "tr") and len(set(shape(args[0]))) > 1:
        raise ValueError("a trace is that of a square matrix")
