"""What `derive` does: closed forms by each input, reasons for those that have none, and a check of a hand derivation."""

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np

from gradcli.arithmetic.value_graph import NotStraight
from gradcli.checks.framework_claim import describe_environment
from gradcli.checks.probe import Located, choose_inputs, locate_function
from gradcli.classes import dataclass
from gradcli.derivation.derive import Derivation
from gradcli.derivation.hand_derivation import judge_answer, parse_answers
from gradcli.derivation.matrix_expression import show_numbers_as_in
from gradcli.derivation.sized_problem import (
    RECORDINGS,
    DerivationProblem,
    first_free_name,
    ignore_comparisons,
    limited_work,
    name_shapes_in_text,
    shapes_line,
)
from gradcli.derivation.sized_recording import prepare_problem
from gradcli.derivation.verified import ALLOWED, UNSEEN, Unverified, Verifier
from gradcli.errors import BadOption, BadShape, GradcliError, NotSupported
from gradcli.modes.mode import Question
from gradcli.modes.recording import Budget, Effort
from gradcli.report.common import ABSENT, ErrorDetail, Finding, Target, error_detail, finding
from gradcli.report.derive import Answer, DeriveReport, Result
from gradcli.request.options import Options
from gradcli.request.point import Point
from gradcli.targets.derived import Completed, Gradient, Weighted, original_function
from gradcli.targets.expression import Expression, warn_of_missing_axis
from gradcli.targets.facts import FACTS, Dims, Function, length_of, parse_facts, size_names
from gradcli.targets.instructions import Instruction
from gradcli.targets.loading import load
from gradcli.targets.names import CONSTANTS
from gradcli.tracing.primitive import Value
from gradcli.tracing.shapes import shape
from gradcli.words import Exit, Kind, Severity

_LETTERS = "nmkdpqrst"


@dataclass(frozen=True)
class FunctionAtPoint:
    """A function at a point: the sizes of its inputs, those sizes that were named from the values, and the values.

    `drawn` are inputs with random values, because none were given.
    """

    f: Function
    dims: Mapping[str, Dims]
    named: Mapping[str, int]
    values: Mapping[str, Any]
    drawn: tuple[str, ...] = ()

    def stricter(self) -> Iterator["FunctionAtPoint"]:
        """Yield the same point with fewer named sizes: first without a name for 1, which may be broadcast, then without any."""
        for kept in ({d: k for d, k in self.named.items() if k != 1}, {}):
            gone = {d: k for d, k in self.named.items() if d not in kept}
            dims = {n: tuple(str(gone.get(d, d)) for d in own) for n, own in self.dims.items()}
            yield replace(self, dims=dims, named=kept)


def function_at_point(found: Located, shapes: Mapping[str, Dims]) -> FunctionAtPoint:
    """Return a function at its one point; equal lengths that `shapes` does not name become one size.

    Raises  BadOption for several points, and for values with other sizes than in `shapes`; NotSupported for inputs in
            containers.
    """
    if len(found.points) > 1:
        raise BadOption(f"derive takes one point, not {len(found.points)}", do="run it once for each")
    inside = next((n for n in found.f.inputs if not n.isidentifier()), None)
    if inside is not None:
        raise NotSupported(f"the input {inside} is in a container", do="derive a function of arrays and numbers")
    values = found.points[0].values
    known: dict[str, int] = {}
    for name in (name for name in shapes if name in values):
        known |= _match_sizes(name, shapes[name], values[name])
    other = next((n for n in known if n in values and n not in shapes and np.any(values[n] != known[n])), None)
    if other is not None:
        says = f"{other} is the size {known[other]} in --shapes, and {np.asarray(values[other]).tolist()} in --at"
        raise BadOption(says, do="give sizes and inputs different names")
    inputs = [n for n in found.f.inputs if n not in known or n in shapes]
    names = _name_lengths([n for n in inputs if n not in shapes], values, known, found.f.inputs)
    dims = {n: shapes[n] if n in shapes else tuple(names[k] for k in shape(values[n])) for n in inputs}
    used = {*size_names(dims[n] for n in inputs if n not in shapes)}
    named = {d: k for k, d in names.items() if d in used and d not in known}
    others = {n: x for n, x in values.items() if n not in found.f.inputs}
    f = Completed(found.f, others) if others else found.f
    return FunctionAtPoint(f, dims, named, {n: values[n] for n in found.f.inputs}, found.points[0].drawn)


def _match_sizes(name: str, words: Dims, x: Any) -> dict[str, int]:
    """Return the names of sizes with their numbers. Raises BadOption if the value has a different shape."""
    lengths = shape(x)
    known = [None if size_names([(w,)]) else int(w) for w in words]
    if len(lengths) != len(words) or any(k not in (None, n) for k, n in zip(known, lengths, strict=True)):
        says = f"{name} has shape {lengths}, and --shapes says {' '.join(words) or 'a number'}"
        raise BadOption(says, do="write a name or a number for each of its axes")
    return {w: n for w, n in zip(words, lengths, strict=True) if w.isidentifier()}


def _name_lengths(
    inputs: list[str], values: Mapping[str, Any], known: Mapping[str, int], taken: tuple[str, ...]
) -> dict[int, str]:
    """Return each length with its name: that of a size of this length, or a new letter; columns come before rows.

    Raises  BadOption if two sizes have this length.
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
    return names


def add_value_at_point(
    result: Result, problem: DerivationProblem, sizes: Mapping[str, tuple[int, ...]], given: FunctionAtPoint
) -> tuple[Result, Finding | None]:
    """Return a result with its value and error at the point, and a finding if the certified derivative differs."""
    if result.direction:
        return result, None
    formula = Expression(result.formula.expression)
    known = dict(given.values)
    for name, own in given.dims.items():
        known |= {d: np.float64(n) for d, n in zip(own, shape(given.values[name]), strict=True)}
    try:
        with np.errstate(all="ignore"):
            value = np.asarray(formula({n: known[n] for n in formula.inputs}), dtype=np.float64)[()]
    except GradcliError as failed:
        says = f"by {result.wrt}: the closed form has no value at the point: {failed.what.partition(';')[0]}"
        return result, finding(Kind.NOTICE, Severity.INFO, says)
    with np.errstate(all="ignore"):
        y = np.max(np.abs(np.asarray(problem.f(given.values), dtype=np.float64)), initial=0.0)
    truth = Verifier(problem, sizes, result.wrt, result.kind).truth(dict(given.values))
    if truth is None or not np.isfinite(y):
        return replace(result, value=value), None
    q = _question_at(problem, result, given.values)
    if q.kinks:
        doubt = finding(Kind.KINK, Severity.INFO, _describe_kink(q, result.wrt), hint="see gradcli check at this point")
        return replace(result, value=value), doubt
    scale = max(float(np.max(np.abs(truth), initial=0.0)), UNSEEN * max(1.0, float(y)))
    alike = np.shape(value) == np.shape(truth)
    error = float(np.max(np.abs(value - truth), initial=0.0)) / scale if alike else float("inf")
    found = replace(result, value=value, value_error=error)
    if error <= ALLOWED:
        return found, None
    says = f"by {result.wrt}: at the point the closed form is off by {error:.1e} of the largest entry"
    tied = "there entries are equal, and the closed form holds beside it"
    hint = tied if q.ties else "check that the assumptions hold at this point"
    return found, finding(Kind.DISAGREEMENT, Severity.INCONCLUSIVE, says, hint=hint)


def _question_at(problem: DerivationProblem, result: Result, values: Mapping[str, Any]) -> Question:
    """Return what is differentiated, at a point, as a number: an array, or a gradient, by weights that cancel nothing."""
    f: Any = Gradient(problem.f, (result.wrt,), values) if problem.order == 2 else problem.f
    with np.errstate(all="ignore"):
        lengths = shape(f(dict(values)))
    weights = np.random.default_rng(0).uniform(0.5, 1.5, lengths)
    scalar = Weighted(f, weights, f.text) if lengths else f
    return Question(scalar, Point(dict(values)), (result.wrt,), budget=Budget(Effort.ALL))


_SPELLED = {"absolute": "abs", "rint": "round", "fmax": "maximum", "fmin": "minimum"}


def _describe_kink(q: Question, wrt: str) -> str:
    primitive = q.kinks[0].primitive.name
    where = f"{_SPELLED.get(primitive, primitive)} is at its kink or jump"
    if "equal" in primitive or primitive in ("less", "greater"):
        where = "two sides of a comparison are equal"
    if q.by_convention:
        return f"by {wrt}: at the point f is smooth, but {where}, and rules give another slope there"
    return f"by {wrt}: at the point {where}, so that nothing confirms the value of the closed form there"


_LENGTH = 3  # of every named size, when a Python function is first called


def load_python_function(text: str, shapes: Mapping[str, tuple[str, ...]]) -> Function:
    """Load a Python target as a function of float arrays with these sizes. Raises BadTarget, BadOption."""
    if not shapes:
        raise BadOption("a Python function needs the shapes of its arguments", do='--shapes "W: m n; x: n; y: m"')
    loaded = load(text)
    return wrap_callable(loaded.found, loaded.text, shapes, loaded.module)


def wrap_callable(
    function: Callable[..., object], text: str, shapes: Mapping[str, tuple[str, ...]], module: ModuleType | None = None
) -> Function:
    """Return a Python function of float arrays with these sizes."""
    lengths = dict.fromkeys(size_names(shapes.values()), _LENGTH)
    sizes = {n: tuple(length_of(d, lengths) for d in dims) for n, dims in shapes.items()}
    point = {n: np.full(size, 0.5) if size else np.float64(0.5) for n, size in sizes.items()}
    return locate_function(function, text, [point], typed=True, module=module).f


STYLES = ("differential", "graph", "index")
_AS_INPUT = "a gradient has the shape of its input, df = <G, dX> = tr(G.T dX)"
LAYOUTS = {
    "mixed": f"{_AS_INPUT}; a Jacobian is indexed [output, input]",
    "denominator": f"{_AS_INPUT}; a Jacobian is indexed [input, output]",
    "numerator": "a gradient has the shape of its input's transpose, df = tr(G dX); a Jacobian is indexed [output, input]",
}


def derive(
    f: Function, shapes: Mapping[str, Dims], options: Options, given: FunctionAtPoint | None = None
) -> DeriveReport:
    """Return the verified closed form of the derivative with respect to each input, or the reason why there is none.

    `shapes` has the sizes of inputs by name; with `given`, f is evaluated there, too.

    Raises  BadOption, BadShape.
    """
    with show_numbers_as_in(f.text if f.kind == "expression" else None):
        return _derive(f, shapes, options, given)


def _derive(f: Function, shapes: Mapping[str, Dims], options: Options, given: FunctionAtPoint | None) -> DeriveReport:
    dims = _dims_of_inputs(f, shapes) if given is None else dict(given.dims)
    root = original_function(f)
    if bounds := sorted({*root.bounds} & {*dims}) if isinstance(root, Expression) else []:
        says = f"{bounds[0]} bounds a slice, and is the size of no axis"
        raise BadOption(says, do=f'give an axis this size, such as "y: {bounds[0]}", or write a number for it')
    # other names for the sizes that have the name of an input
    sizes = [d for own in dims.values() for d in own]
    called = {d: first_free_name((d.upper(),), d, {*dims, *sizes}) for d in dict.fromkeys(sizes) if d in dims}
    dims = {n: tuple(called.get(d, d) for d in own) for n, own in dims.items()}
    facts = parse_facts(list(options.assume), dims)
    if isinstance(root, Expression):  # what it uses as a position in an array is an index
        places = {*root.places, *_find_class_indices(root, dims)}
        facts |= {n: facts.get(n, frozenset()) | {"index"} for n in dims if n in places}

    def report(
        problem: DerivationProblem, results: Sequence[Result], findings: Sequence[Finding], **rest: Any
    ) -> DeriveReport:
        known = {n: tuple(w for w in FACTS if w in words) for n, words in facts.items()}
        return DeriveReport(
            Target(problem.f.kind, problem.f.text), dict(problem.dims), known,
            options.seed, f"{options.layout}: {LAYOUTS[options.layout]}", tuple(results), tuple(findings),
            int(_exit_status(results, findings)), describe_environment(), **rest,
        )  # fmt: skip

    names, answers = _inputs_and_answers([n for n in f.inputs if n in dims], options, facts)
    problem = DerivationProblem(f, dims, facts, options.order, options.seed, options.layout, options.style)
    try:
        problem = prepare_problem(problem)
        made, given = _make_at_fitting_sizes(problem, given, shapes)
    except NotStraight as error:  # no input has a formula, for one reason
        refusals = [_refusal_finding(name, error) for name in names]
        return report(problem, (), refusals, refused=dict.fromkeys(names, error_detail(error)))
    if given is None:
        refuse_numbers(replace(made.problem, f=f), shapes, made.points[0])
    results: list[Result] = []
    refused: dict[str, ErrorDetail] = {}
    gradients: dict[str, str] = {}  # by numbers, of which the second derivatives are derived
    findings = find_notices(replace(made.problem, f=f), made.points[0])

    def note(says: str) -> None:
        findings.append(finding(Kind.NOTICE, Severity.INFO, says))

    for size, word in called.items():
        note(f"{size} is an input here, and the size that --shapes calls {size} is called {word}")
    for name in dims if given is None and shapes else ():
        if name not in shapes and "index" not in facts.get(name, ()):
            note(f"{name} is a number, since --shapes does not name it")
    for name in names:
        try:
            own, result, continuous = _derive_by_input(made, name)
        except (NotSupported, Unverified) as error:
            refused[name] = error_detail(error)
            findings.append(_refusal_finding(name, error))
            continue
        if continuous:
            single = f"comparisons of {name} by == are true at single points only"
            note(f"by {name}: {single}, where the formula may not hold")
        if own.begun is not None and not dims[name]:
            gradients[name] = own.begun.f.text
        if name in answers:
            result = replace(result, answer=judge_answer(own, result, answers[name]))
        result = replace(result, steps=()) if options.no_steps else result
        if given is not None:
            result, doubt = add_value_at_point(result, own.problem, own.sizes, given)
            findings += [doubt] if doubt else []
        results.append(result)
    if len(gradients) > 1:
        (name, gradient), (other, _) = list(gradients.items())[:2]
        note(f'mixed second derivatives are not among these: by {name} and {other}, derive "{gradient}" --wrt {other}')
    for says in hints_on_label_sums(made.problem, [result.formula.expression for result in results]):
        note(says)
    with limited_work():
        function, function_mathml = made.function_written() if results else ("", "")
    at = {} if given is None else {"at": dict(given.values), "drawn": given.drawn, "sizes": dict(given.named) or ABSENT}
    return report(
        replace(made.problem, f=f), results, findings, refused=refused or ABSENT,
        function=function, function_mathml=function_mathml, solution=not answers or options.show, **at,
    )  # fmt: skip


def _derive_by_input(made: Derivation, name: str) -> tuple[Derivation, Result, bool]:
    """Return the derivation by one input, its result, and whether comparisons of the input by == are taken as false."""
    try:
        with limited_work():
            own = made.by(name)
            return own, own.result(name), False
    except Unverified:
        if name not in made.problem.compared:
            raise
        smooth = Derivation(ignore_comparisons(made.problem, name), made.sizes)
        with contextlib.suppress(NotSupported, Unverified), limited_work():
            own = smooth.by(name)
            return own, own.result(name), True
        raise


def _refusal_finding(name: str, error: GradcliError) -> Finding:
    says = f"by {name}: {error.what}"
    return finding(Kind.REFUSED, Severity.INCONCLUSIVE, says, hint=error.do, at=error.where)


def _find_class_indices(f: Expression, dims: Mapping[str, Dims]) -> set[str]:
    """Return the inputs that an expression gives `cross_entropy` as class indices: those with an axis less than the logits."""
    found: set[str] = set()
    lengths = {d: k for k, d in enumerate(size_names(dims.values()), 100)}
    point: dict[str, Any] = {n: np.zeros([length_of(d, lengths) for d in own]) for n, own in dims.items()}
    point |= {n: np.float64(k) for n, k in lengths.items() if n in f.inputs and n not in dims}

    def watch(step: Instruction, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        if step.operation == "cross_entropy" and len(args) > 1 and len(shape(args[1])) == len(shape(args[0])) - 1:
            found.update(name for name, x in point.items() if x is args[1])

    if set(f.inputs) <= point.keys():
        with contextlib.suppress(GradcliError, np.linalg.LinAlgError), np.errstate(all="ignore"):
            f.watched(point, watch)
    return found


def _inputs_and_answers(
    inputs: Sequence[str], options: Options, facts: Mapping[str, frozenset[str]]
) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return the inputs to differentiate by, and the answer by each; without --wrt, answers that name inputs choose them.

    Raises  BadOption for an index, and for answers that are not by these inputs.
    """
    moving = [n for n in inputs if "index" not in facts.get(n, ())]
    answers = {} if options.answer is None else parse_answers(options.answer, inputs)
    named = [n for n in inputs if n in answers]
    wrt = ",".join(named) if named and options.wrt is None else options.wrt
    # in the order in which --wrt names them
    parts = [None] if wrt is None else [part for part in wrt.split(",") if part.strip()]
    among = moving if wrt is None else inputs
    names = tuple(dict.fromkeys(name for part in parts for name in choose_inputs(among, part)))
    for name in (n for n in names if n not in moving):
        raise BadOption(f"{name} is a position, and no derivative by it exists", do=f"--wrt {(*moving, 'x')[0]}")
    if None in answers and len(names) != 1:
        says = "--answer does not say which input it is by"
        do = f"say which: --wrt {(*names, 'x')[0]}, or name each: {'; '.join(f'{n} = ...' for n in names)}"
        raise BadOption(says, do=do)
    by_input = {names[0] if n is None else n: text for n, text in answers.items()}
    for name in (n for n in by_input if n not in names):
        raise BadOption(f"--wrt leaves out {name}, which --answer has", do=f"--wrt {','.join(by_input)}")
    for name in (n for n in names if answers and n not in by_input):
        raise BadOption(f"--wrt names {name}, and --answer does not", do=f"--wrt {','.join(by_input)}")
    return names, by_input


def _make_at_fitting_sizes(
    problem: DerivationProblem, given: FunctionAtPoint | None, shapes: Mapping[str, Dims]
) -> tuple[Derivation, FunctionAtPoint | None]:
    """Return the derivation; if f runs only at the sizes that its values have, at these."""
    try:
        return _make_derivation(problem, shapes), given
    except GradcliError as error:
        failed = error
    for own in given.stricter() if given is not None and given.named else ():
        try:
            return _make_derivation(replace(problem, dims=own.dims), shapes), own
        except GradcliError as error:
            failed = error
    raise failed


def _exit_status(results: Sequence[Result], findings: Sequence[Finding]) -> Exit:
    if any(isinstance(r.answer, Answer) and r.answer.verdict == "wrong" for r in results):
        return Exit.WRONG
    open_ = any(f.severity == Severity.INCONCLUSIVE for f in findings)
    return Exit.INCONCLUSIVE if open_ or not results else Exit.CONFIRMED


def _dims_of_inputs(f: Function, shapes: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Return the sizes of every input except those whose name is itself a size. Raises BadOption."""
    for name in shapes:
        if name in CONSTANTS and name not in f.inputs:
            says = f"--shapes names '{name}', which is the constant {CONSTANTS[name]:.6g}"
            raise BadOption(says, do=f"call the input by another name: {name}_")
        if name not in f.inputs:
            raise BadOption(f"--shapes names '{name}', which is not an input", do=f"inputs: {', '.join(f.inputs)}")
    sizes = size_names(shapes.values())
    return {n: shapes.get(n, ()) for n in f.inputs if n in shapes or n not in sizes}


def _make_derivation(problem: DerivationProblem, shapes: Mapping[str, Dims]) -> Derivation:
    """Return the derivation; where f does not run, the error has the sizes that fit."""
    made, k = Derivation(problem), 0
    try:
        for k in range(RECORDINGS):
            with np.errstate(all="ignore"):
                problem.f(made.points[k])
    except BadShape as error:
        error.what = name_shapes_in_text(error.what, {n: v[k] for n, v in made.sizes.items()})
        found = find_fitting_shapes(problem.f, shapes, wrong=len(shapes) == len(problem.dims))
        found = found or find_fitting_shapes(problem.f, {})
        what = "give sizes to all arrays" if found is None else "sizes that fit"
        error.do = f'{what}: --shapes "{shapes_line(problem.dims if found is None else found)}"'
        raise
    return made


# Notices about input that may be misread, and sizes that fit.

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
_SIZE_LETTERS = "mnkdpqr"  # for sizes, of which a few are tried
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
    free = [letter for letter in _SIZE_LETTERS if letter not in f.inputs][:_FEW]
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
