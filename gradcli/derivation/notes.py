"""Notices about input that may be misread, and the reason why something has no closed form."""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from gradcli.derivation.convert import Reader
from gradcli.derivation.sized_problem import DerivationProblem, shapes_line
from gradcli.derivation.sized_recording import Sweep
from gradcli.errors import BadOption, GradcliError, NotSupported
from gradcli.report.common import Finding, finding
from gradcli.targets.expression import Expression, warn_of_missing_axis
from gradcli.targets.facts import Dims, Function, length_of, size_names
from gradcli.targets.instructions import Instruction
from gradcli.tracing.primitive import Value
from gradcli.tracing.provenance import place_of_position
from gradcli.tracing.shapes import shape
from gradcli.words import Kind, Severity

_OF_ARRAYS = {
    "sum", "mean", "prod", "softmax", "log_softmax", "logsumexp", "norm", "dot", "trace", "tr", "det", "logdet", "inv", "std",
    "var", "cumsum", "cross_entropy", "mse", "layer_norm", "outer", "[]", ".T",
}  # fmt: skip
_ENTRY_BY_ENTRY = {
    "exp": "the matrix exponential is expm",
    "log": "the matrix logarithm is logm",
    "sqrt": "the matrix square root is sqrtm",
}


# Shapes under which a function runs, as the line to give: --shapes "W: m n; x: n; y: m".

_Score = tuple[int, int, int, int]
_LETTERS = "mnkdpqr"  # for sizes, of which a few are tried
_FEW = 3
_LENGTHS = (3, 5, 7, 4, 6, 8, 11, 13)  # all different, so that only equal sizes fit
_MOST = 3_000  # evaluations of f
_SCALARS = frozenset(  # names that are numbers more often than vectors
    "lam lambda_ alpha beta gamma eps eta sigma tau rho mu nu s k n m d".split()  # noqa: SIM905
)


def find_fitting_shapes(f: Function, given: Mapping[str, Dims], wrong: bool = False) -> dict[str, Dims] | None:
    """Return sizes for all inputs under which f runs: those `given`, and others that fit them; None where none are found.

    Where the given sizes are `wrong`, those of one input are changed. The most general ones are taken: a number as the value, a
    capital letter for a matrix, and as many different sizes as there can be.
    """
    known = size_names(given.values())
    if not isinstance(f, Expression) or len(known) > len(_LENGTHS):  # a Python function may do more than compute
        return None
    inputs = [n for n in f.inputs if not any(n in dims for dims in given.values()) or n in given]
    open_ = [n for n in inputs if n not in given]
    kept = {n: given[n] for n in inputs if n in given}
    if not wrong:
        found = [_best_shapes(f, kept, open_, given)]
    else:  # of two inputs, a vector is changed before a matrix
        by_rank = sorted(kept, key=lambda n: len(kept[n]))
        found = [_best_shapes(f, {n: kept[n] for n in kept if n != name}, [*open_, name], given) for name in by_rank]
    return max((one for one in found if one is not None), key=lambda pair: pair[0], default=(None, None))[1]


def _best_shapes(
    f: Expression, kept: Mapping[str, Dims], open_: Sequence[str], given: Mapping[str, Dims]
) -> tuple[_Score, dict[str, Dims]] | None:
    """Return the best sizes of the open inputs beside those that are kept, with their score; None where none fit."""
    free = [letter for letter in _LETTERS if letter not in f.inputs][:_FEW]
    names = tuple(dict.fromkeys([*size_names(given.values()), *free]))[: len(_LENGTHS)]
    lengths = dict(zip(names, _LENGTHS, strict=False))
    # a capital is a matrix, other letters are vectors or numbers
    matrices: list[Dims] = list(itertools.product(names[:3], repeat=2))
    vectors: list[Dims] = [(), *((size,) for size in names[:3])]
    choices = [matrices if name[:1].isupper() else vectors for name in open_]
    if not open_ or np.prod([len(c) for c in choices]) > _MOST:
        return None
    every = ({**kept, **dict(zip(open_, own, strict=True))} for own in itertools.product(*choices))
    fits = [(score, dims) for dims in every if (score := _score_shapes(f, dims, lengths)) is not None]
    if not fits:
        return None
    score, best = max(fits, key=lambda pair: pair[0])
    dims = {n: best[n] for n in f.inputs if n in best}
    if not given and len({d for own in dims.values() for d in own}) == 1 and "n" not in dims:  # a single size is n
        dims = {name: tuple("n" for _ in own) for name, own in dims.items()}
    return score, dims


def _score_shapes(f: Expression, dims: Mapping[str, Dims], lengths: Mapping[str, int]) -> _Score | None:
    """Return how good sizes are; None where f does not run."""
    rng = np.random.default_rng(0)
    sizes = {name: [length_of(d, lengths) for d in own] for name, own in dims.items()}
    values: dict[str, Any] = {name: rng.uniform(0.5, 1.5, size)[()] for name, size in sizes.items()}
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


def refuse_numbers(problem: DerivationProblem, shapes: Mapping[str, Dims], point: Mapping[str, Value]) -> None:
    """Raise BadOption, with the sizes to add, if a function of arrays gets a number because no sizes were given."""
    silent = [name for name in problem.dims if name not in shapes]
    if not isinstance(problem.f, Expression) or not silent:
        return

    def watch(step: Instruction, args: Sequence[Value], kwargs: Mapping[str, Value]) -> None:
        if step.operation in _OF_ARRAYS and args and _shape_of_value(args[0]) == ():
            found = find_fitting_shapes(problem.f, shapes)
            known, added = shapes_line(shapes), "; ".join(f"{name}: n" for name in silent)
            line = "; ".join(filter(None, (known, added))) if found is None else shapes_line(found)
            says = f"'{step.operation}' takes an array, and {', '.join(silent)} would be numbers"
            do = f'give sizes: --shapes "{line}"; of a number: "{silent[0]}:"'
            raise BadOption(says, where=step.span, do=do)

    with np.errstate(all="ignore"):
        problem.f.watched(point, watch)


def find_notices(problem: DerivationProblem, point: Mapping[str, Any]) -> list[Finding]:
    """Return notices of what may be misread: names, and functions of square matrices that act entry by entry."""
    found = []
    for name in problem.f.inputs:
        owner = next((other for other, dims in problem.dims.items() if name in dims), None)
        if owner is not None:
            found.append(finding(Kind.NOTICE, Severity.INFO, f"{name} is the size of {owner} here, and no input"))
        elif name == "I":
            says = "I is an input here, not the identity matrix; write eye(n) for that"
            found.append(finding(Kind.NOTICE, Severity.INFO, says))
    if isinstance(problem.f, Expression):
        seen: dict[Any, str] = {}

        def watch(step: Instruction, args: Sequence[Value], kwargs: Mapping[str, Value]) -> None:
            says = _notice_of_operation(step, args)
            if not says and step.notice is warn_of_missing_axis:
                says = warn_of_missing_axis(args, kwargs)
            if says:
                seen[step.span] = says

        with np.errstate(all="ignore"):
            problem.f.watched(point, watch)
        found += [finding(Kind.NOTICE, Severity.INFO, says, at=span) for span, says in seen.items()]
    return found


def hints_on_label_sums(problem: DerivationProblem, expressions: Iterable[str]) -> Iterator[str]:
    """Yield a sentence for each input whose sum stands beside a softmax: of labels it is 1, which nobody has said."""
    shown = [text for text in expressions if "softmax(" in text]
    for name, dims in problem.dims.items():
        total = f"sum({name})" if len(dims) == 1 else f"sum({name}, axis=1)"
        if 1 <= len(dims) <= 2 and not problem.facts.get(name) and any(total in text for text in shown):
            rows, fact = ("the entries of each row", "simplex rows") if len(dims) == 2 else ("its entries", "simplex")
            yield f'{total} is kept, as {name} may be any array; if {rows} sum to 1: --assume "{name}: {fact}"'


def _shape_of_value(x: Any) -> tuple[int, ...] | None:
    """Return the shape of a value; None for several values in a list."""
    return None if isinstance(x, list | tuple) else shape(x)


def _notice_of_operation(step: Instruction, args: Sequence[Value]) -> str | None:
    """Return a notice if an operation is an abbreviation, or takes a square matrix entry by entry."""
    if step.operation == "tr":
        return "tr is read as trace"
    dims = _shape_of_value(args[0]) if args else None
    if dims is None or len(dims) != 2 or dims[0] != dims[1] or dims[0] == 1:
        return None
    if step.operation in _ENTRY_BY_ENTRY:
        return f"taken entry by entry: {_ENTRY_BY_ENTRY[step.operation]}"
    if step.operation == "**" and isinstance(args[1], int) and args[1] < 0:
        base = step.span.source.partition("^")[0].partition("**")[0].strip()
        return f"taken entry by entry: for the inverse of the matrix write inv({base})"
    return None


def locate_first_refusal(sweeps: Sequence[Sweep], reader: Reader, error: NotSupported) -> NotSupported:
    """Return the error of the first line that has no formula, with its position; or `error` if every line has one."""
    tapes = [s.tape for s in sweeps]
    for k, (primitive, slots, _, _, _, position) in enumerate(tapes[0].lines):
        same = (primitive, slots)
        if any(k >= len(t.lines) or (t.primitive(k), t.operands(k)) != same for t in tapes[1:]):
            where = place_of_position(max(tapes, key=lambda t: len(t.lines)).position(k))
            says, do = "the program is another one at another size", "give sizes as numbers: --shapes x:3"
            return NotSupported(says, where=where, do=do)
        if primitive is not None:
            try:
                reader.read([t.value(k) for t in tapes])
            except NotSupported as found:
                found.where = place_of_position(position)
                return found
    return error
