"""The study behind `cost`: what a gradient and a training step take, counted from programs or from a model's formulas."""

import itertools
import math
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from importlib.resources import files
from typing import Any, Self

import numpy as np

from gradcli.checks.framework_claim import describe_environment
from gradcli.checks.request import Request
from gradcli.classes import dataclass
from gradcli.errors import BadOption, GradcliError, NotSupported, closest_name
from gradcli.modes.mode import Question
from gradcli.modes.recording import Effort
from gradcli.report.common import ABSENT, Target
from gradcli.report.cost import (
    Activation,
    AdjointNorms,
    AtSizes,
    Checkpointing,
    CostFormula,
    CostReport,
    Held,
    Instant,
    JacobianChain,
    Pass,
    Rank,
)
from gradcli.report.numbers import write_decimal_bytes
from gradcli.request.options import Options
from gradcli.study.outline import (
    CheckpointPlan,
    Checkpoints,
    KeptValue,
    Outline,
    PassCounts,
    ProgramLine,
    Shape,
    chain_of_sizes,
    count_entries,
    count_operations,
    kept_values,
    lines_of_calls,
    one_run,
    operations_of_lines,
    outline,
    products_in_order,
    time_runs,
)
from gradcli.targets.derived import original_function
from gradcli.tracing.shapes import Forgotten

# Counts at any sizes, exactly: programs recorded at small sizes, carried to others line by line, and polynomials.
#
# A program holds nothing but shapes, so it can be made for sizes that no memory could hold. The lengths in its lines are
# polynomials of the sizes, which are determined by recording it at a few small sizes, and confirmed at two more and at larger
# ones as far as these are quick. A size that changes how many lines there are, such as a number of layers, keeps its value.

Sizes = Mapping[str, int]
_SPACINGS = (12, 60, 64)  # between recorded sizes, so that size // 2, size // 3, size // 4, ... are polynomials, too
_POINTS = 4  # along each size: enough for a polynomial of degree 2, and one more to confirm it
_DEGREE = 4  # the highest degree of a count in one size
_LEAST = 3  # the smallest size that is recorded to carry a program: at 1, axes vanish and views appear
_WORK = 2 * 10**7  # operations of a program that is recorded to confirm what is carried
_HELD = 64  # a size of at most this may keep its value, such as a number of heads by which a width is divided
_RECORDED = 96  # a program is recorded as it is where all sizes are at most this
_RUN = 2_000  # and at most this where it cannot be carried; the limits of any check hold there


class NotPolynomial(Exception):
    """What was counted at small sizes follows no polynomial of a degree low enough to be confirmed."""


@dataclass(frozen=True)
class SizePolynomial:
    """A polynomial in named sizes: the coefficient of each product of powers, by the powers in the order of the names."""

    names: tuple[str, ...]
    terms: Mapping[tuple[int, ...], Fraction]

    @classmethod
    def read(cls, text: str, names: Sequence[str]) -> Self:
        """Return the polynomial that is written in a text as `str` writes it: `12 L n d^2 + 2 L n^2 d`."""
        terms: dict[tuple[int, ...], Fraction] = {}
        for term in text.replace("- ", "+ -").split(" + "):
            powers, factor = dict.fromkeys(names, 0), Fraction(1)
            for word in term.split():
                sign, word = (-1, word[1:]) if word.startswith("-") else (1, word)
                base, _, power = word.partition("^")
                factor *= sign
                if base in powers:
                    powers[base] += int(power or 1)
                else:
                    factor *= Fraction(base)
            key = tuple(powers.values())
            terms[key] = terms.get(key, Fraction(0)) + factor
        return cls(tuple(names), terms)

    def at(self, sizes: Sizes) -> int:
        """Return the value at some sizes, exactly; a half is rounded up, as that of a number of bytes."""
        total = Fraction(0)
        for powers, factor in self.terms.items():
            total += factor * math.prod(sizes[name] ** power for name, power in zip(self.names, powers, strict=True))
        return math.ceil(total)

    def __str__(self) -> str:
        order = sorted(self.terms, key=lambda powers: (-sum(powers), [-p for p in powers]))
        words: list[str] = []
        for factor, powers in ((self.terms[powers], powers) for powers in order if self.terms[powers]):
            product = [n if p == 1 else f"{n}^{p}" for n, p in zip(self.names, powers, strict=True) if p]
            text = " ".join(product if product and abs(factor) == 1 else [str(abs(factor)), *product])
            sign = "-" if factor < 0 else "+" if words else ""
            words.append(f"{sign} {text}" if words else sign + text)
        return " ".join(words) or "0"


def _divided_differences(xs: Sequence[int], ys: Sequence[int | Fraction]) -> list[Fraction]:
    """Return the divided differences of the polynomial of least degree through all points, without zeros at the end."""
    found, column = [Fraction(ys[0])], [Fraction(y) for y in ys]
    for order in range(1, len(xs)):
        column = [(b - a) / (xs[k + order] - xs[k]) for k, (a, b) in enumerate(itertools.pairwise(column))]
        found.append(column[0])
    while found and not found[-1]:
        found.pop()
    return found


def polynomial_at(xs: Sequence[int], ys: Sequence[int], n: int) -> Fraction:
    """Return the value at n of the polynomial of least degree through all points.

    Raises  NotPolynomial if no point is left to confirm it.
    Source  Newton's divided differences.
    """
    if all(y == ys[0] for y in ys):
        return Fraction(ys[0])
    found = _divided_differences(xs, ys)
    if len(found) == len(xs):
        raise NotPolynomial
    value = Fraction(0)
    for x, c in reversed(list(zip(xs, found, strict=False))):
        value = value * (n - x) + c
    return value


def _coefficients(xs: Sequence[int], ys: Sequence[Fraction]) -> list[Fraction]:
    """Return the coefficients of 1, n, n^2, ... of the polynomial through all points."""
    total = [Fraction(0)] * len(xs)
    for x, c in reversed(list(itertools.zip_longest(xs, _divided_differences(xs, ys), fillvalue=Fraction(0)))):
        shifted = [Fraction(0), *total[:-1]]
        total = [a - x * b for a, b in zip(shifted, total, strict=True)]
        total[0] += c
    return total


class Programs:
    """The programs of a function at any sizes: recorded where sizes are small, else carried there line by line.

    `record` returns the program at some sizes as nested tuples of integers and of what does not depend on sizes, `length`
    how many lines it has, and `work` about how many operations it takes.
    """

    def __init__(
        self, record: Callable[[Sizes], Any], names: Sequence[str], length: Callable[[Any], int], work: Callable[[Any], int]
    ) -> None:  # fmt: skip
        self.record = record
        self.names = tuple(names)
        self.length = length
        self.work = work
        self.largest: dict[str, int] = {}  # the largest value of each size at which the program was recorded
        self._known: dict[tuple[int, ...], Any] = {}
        self._fixed: frozenset[str] | None = None

    def at(self, sizes: Sizes) -> Any:
        """Return the program at some sizes.

        Raises  NotPolynomial where its lengths follow no polynomial; NotSupported at once; what else `record` raises at all
                small sizes.
        """
        if all(n <= _RECORDED for n in sizes.values()):
            return self._record_at(sizes)
        try:
            return self._first_found(sizes, lambda tried: self._carry_program(sizes, tried))
        except NotSupported:
            raise
        except (NotPolynomial, GradcliError, ValueError):
            if all(n <= _RUN for n in sizes.values()):
                return self._record_at(sizes)
            raise

    def _first_found(self, sizes: Sizes, find: Callable[[Mapping[str, Sequence[int]]], Any]) -> Any:
        """Return what is found with the first small sizes with which anything is; raise the last error where nothing is."""
        last: Exception = NotPolynomial()
        for tried in self._sizes_to_try(sizes):
            try:
                return find(tried)
            except NotSupported:  # other sizes change nothing, and may take long
                raise
            except (NotPolynomial, GradcliError, ValueError) as error:
                last = error
        raise last

    def _record_at(self, sizes: Sizes) -> Any:
        key = tuple(sizes[name] for name in self.names)
        if key not in self._known:
            self._known[key] = self.record(dict(sizes))
            self.largest = {name: max(n, self.largest.get(name, 0)) for name, n in sizes.items()}
        return self._known[key]

    @property
    def recorded_first(self) -> Sizes:
        """The sizes at which the program was recorded first."""
        return dict(zip(self.names, next(iter(self._known)), strict=True))

    def recorded_like(self, made: Any) -> Sizes:
        """The sizes at which a program with as many lines was recorded."""
        found = next(at for at, program in self._known.items() if self.length(program) == self.length(made))
        return dict(zip(self.names, found, strict=True))

    def recorded_at(self, sizes: Sizes) -> bool:
        """Whether the program was recorded at some sizes, and not carried there."""
        return tuple(sizes[name] for name in self.names) in self._known

    def _carry_program(self, sizes: Sizes, tried: Mapping[str, Sequence[int]]) -> Any:
        fixed = self._sizes_that_change_lines(sizes, tried)
        base = {name: n if name in fixed else tried[name][0] for name, n in sizes.items()}
        free = [name for name in self.names if name not in fixed and sizes[name] != base[name]]
        along = [{**base, name: x} for name in free for x in tried[name][1:]]
        further = [{**base, **{name: tried[name][ks[i % 2]] for i, name in enumerate(free)}} for ks in ((2, 1), (1, 3))]
        points = [base, *along, *further]
        found = [self._record_at(point) for point in points]
        made = _carry_structure(found, points, free, sizes)
        for name in free:
            self._confirm_carried(found, points, free, {**base, name: sizes[name]}, name, tried[name])
        return made

    def _confirm_carried(
        self, found: Sequence[Any], points: Sequence[Sizes], free: Sequence[str], at: Sizes, name: str, tried: Sequence[int]
    ) -> None:  # fmt: skip
        """Compare what is carried with what is recorded where one size is as large as is quick to run.

        Raises  NotPolynomial where they differ, as where a length ends at a limit.
        """
        first, spacing = tried[0], tried[1] - tried[0]
        while at[name] > tried[-1]:
            expected = _carry_structure(found, points, free, at)
            if self.work(expected) <= _WORK:
                if self._record_at(at) != expected:
                    raise NotPolynomial
                return
            at = {**at, name: first + (at[name] - first) // (2 * spacing) * spacing}

    def _sizes_to_try(self, sizes: Sizes) -> Iterator[Mapping[str, Sequence[int]]]:
        """Yield small sizes to record at, by name: the smallest, then one size further apart, then all.

        A size that is divided, as a width by a number of heads, has to be as far apart as what it is divided by.
        """
        small = {name: [_LEAST + k + i for i in range(_POINTS)] for k, name in enumerate(self.names)}
        yield small
        kept = {name: [n] * _POINTS for name, n in sizes.items() if n <= _HELD}
        for spacing in _SPACINGS:
            wide = {name: [n % spacing + spacing * k for k in range(2, 2 + _POINTS)] for name, n in sizes.items()}
            yield from ({**small, name: wide[name]} for name in self.names)
            yield from ({**small, **kept, name: wide[name]} for name in self.names if kept and name not in kept)
            if math.prod(xs[1] for xs in wide.values()) <= _WORK:
                yield wide

    def _sizes_that_change_lines(self, sizes: Sizes, tried: Mapping[str, Sequence[int]]) -> frozenset[str]:
        """Return the sizes that change how many lines the program has, such as a number of layers."""
        if self._fixed is None:
            base = {name: xs[0] for name, xs in tried.items()}
            found: set[str] = set()
            for name in self.names:
                start = {**base, **dict.fromkeys(found, 1)}
                first, second = (self._record_at({**start, name: n}) for n in tried[name][:2])
                if self.length(first) != self.length(second):
                    found.add(name)
            self._fixed = frozenset(found)
        return self._fixed

    def polynomials(self, count: Callable[[Sizes], Sequence[int]], sizes: Sizes) -> list[SizePolynomial]:
        """Return the polynomials of what `count` counts at small sizes.

        Raises  NotPolynomial where they follow none; what `record` and `count` raise.
        """
        known: dict[tuple[int, ...], Sequence[int]] = {}

        def counted(at: Sizes) -> Sequence[int]:
            key = tuple(at[name] for name in self.names)
            if key not in known:
                known[key] = count(at)
            return known[key]

        def fit(tried: Mapping[str, Sequence[int]]) -> list[SizePolynomial]:
            fixed = self._sizes_that_change_lines(sizes, tried)
            begin = {name: 1 if name in fixed else xs[0] for name, xs in tried.items()}
            steps = {name: 1 if name in fixed else xs[1] - xs[0] for name, xs in tried.items()}
            return _fit_polynomials(counted, self.names, begin, steps)

        found: list[SizePolynomial] = self._first_found(sizes, fit)
        return found


def _carry_structure(found: Sequence[Any], points: Sequence[Sizes], free: Sequence[str], sizes: Sizes) -> Any:
    """Return the structure at some sizes; its integers follow polynomials, and all other parts are equal at all points.

    Shapes  `found` holds one structure a point: at the first, at three more along each size, and at two to confirm.
    Raises  NotPolynomial if an integer follows none, or if other parts differ.
    """
    known: dict[tuple[int, ...], int] = {}

    def value(same: Sequence[Any]) -> Any:
        first = same[0]
        if type(first) is int and all(type(x) is int for x in same):
            key = tuple(same)
            if key not in known:
                known[key] = _carry_integer(key, points, free, sizes)
            return known[key]
        if isinstance(first, tuple) and all(type(x) is type(first) and len(x) == len(first) for x in same):
            parts = [value(part) for part in zip(*same, strict=True)]
            return first._make(parts) if hasattr(first, "_make") else tuple(parts)
        if any(x is not first and x != first for x in same[1:]):
            raise NotPolynomial
        return first

    return value(found)


def _carry_integer(ys: Sequence[int], points: Sequence[Sizes], free: Sequence[str], sizes: Sizes) -> int:
    """Return an integer at some sizes: a product of polynomials of one size each, or a sum of them.

    Raises  NotPolynomial if it is neither at the points that confirm it.
    """
    if all(y == ys[0] for y in ys):
        return ys[0]
    first, more = ys[0], _POINTS - 1

    def along(at: Sizes) -> list[Fraction]:
        parts = []
        for k, name in enumerate(free):
            own = slice(1 + k * more, 1 + (k + 1) * more)
            xs = [points[0][name], *(point[name] for point in points[own])]
            parts.append(polynomial_at(xs, [first, *ys[own]], at[name]))
        return parts

    ways: tuple[Callable[[Sizes], Fraction], ...] = (
        lambda at: math.prod((part / first for part in along(at)), start=Fraction(first)),
        lambda at: first + sum((part - first for part in along(at)), Fraction(0)),
    )
    for way in ways if first else ways[1:]:
        if all(way(point) == y for point, y in zip(points[-2:], ys[-2:], strict=True)):
            value = way(sizes)
            if value.denominator == 1 and value >= -1:  # -1 stands for a constant operand
                return int(value)
    raise NotPolynomial


def _fit_polynomials(
    counted: Callable[[Sizes], Sequence[int]], names: Sequence[str], start: Sizes, steps: Sizes
) -> list[SizePolynomial]:
    """Return the polynomials of counts, from as many points as their degrees ask for, and two more that confirm them."""
    degrees = {name: _highest_degree(counted, name, start, steps[name]) for name in names}
    axes = [[start[name] + k * steps[name] for k in range(degrees[name] + 1)] for name in names]
    lengths = tuple(map(len, axes))
    table = [counted(dict(zip(names, at, strict=True))) for at in itertools.product(*axes)]
    found = []
    for column in zip(*table, strict=True):
        grid = np.array([Fraction(x) for x in column], dtype=object).reshape(lengths)
        for axis, xs in enumerate(axes):
            grid = np.moveaxis(grid, axis, -1)
            fibres = [_coefficients(xs, list(ys)) for ys in grid.reshape(-1, len(xs))]
            grid = np.moveaxis(np.array(fibres, dtype=object).reshape(grid.shape), -1, axis)
        found.append(SizePolynomial(tuple(names), {at: c for at, c in np.ndenumerate(grid) if c}))
    for extra in ((1, 2), (2, 1)):
        point = {name: start[name] + (degrees[name] + extra[k % 2]) * steps[name] for k, name in enumerate(names)}
        if any(p.at(point) != y for p, y in zip(found, counted(point), strict=True)):
            raise NotPolynomial
    return found


def _highest_degree(counted: Callable[[Sizes], Sequence[int]], name: str, start: Sizes, step: int) -> int:
    """Return the highest degree of the counts in one size. Raises NotPolynomial where it is above 4."""
    if not step:  # it keeps its value
        return 0
    xs, columns = [start[name]], [counted(start)]
    for k in range(1, _DEGREE + 2):
        xs.append(start[name] + k * step)
        columns.append(counted({**start, name: xs[-1]}))
        most = max(len(_divided_differences(xs, ys)) for ys in zip(*columns, strict=True))
        if most < len(xs):
            return max(0, most - 1)
    raise NotPolynomial


# What a gradient and a training step take.

WIDTHS = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2, "float8": 1}  # bytes of a number
OPTIMIZERS = ("none", "sgd", "momentum", "adam", "adafactor")
_INSTANTS = 400  # of the picture of memory over a step
_COUNTED = (
    "operations of f", "operations of f with its gradient", "operations of f with a tangent",
    "operations of a Hessian times a vector", "parameters", "numbers kept", "bytes of masks kept",
)  # fmt: skip


def refuse_unknown_formats(options: Options) -> None:
    """Raise BadOption for an unknown format or optimiser of a training step."""
    for flag, name in {"--dtype": options.dtype, "--autocast": options.autocast, "--master": options.master}.items():
        if name is not None and name not in WIDTHS:
            raise BadOption(f"{flag} takes a format, not '{name}'", do=f"formats: {', '.join(WIDTHS)}")
    if options.optimizer not in OPTIMIZERS:
        raise BadOption(f"there is no optimizer '{options.optimizer}'", do=f"optimizers: {', '.join(OPTIMIZERS)}")


def _formats(options: Options) -> tuple[str, str]:
    """Return the format of parameters, and that of values that are kept for the reverse sweep."""
    dtype = options.dtype or "float32"
    return dtype, options.autocast or dtype


# The memory of a training step.


def _step_memory(
    shapes: Sequence[tuple[int, int, int]], options: Options, values: Held
) -> tuple[tuple[Held, ...], Rank | None]:
    """Return what a training step holds beside its `values`, with these, and what each rank does.

    Shapes  each of `shapes` is how many parameters have these rows and columns.
    """
    dtype, _ = _formats(options)
    width, stage, ranks = WIDTHS[dtype], options.zero or 1, options.shards
    count = sum(number * rows * columns for number, rows, columns in shapes)
    states = {"momentum": count, "adam": 2 * count}.get(options.optimizer, 0)  # Kingma and Ba (2015)
    if options.optimizer == "adafactor":  # Shazeer and Stern (2018): the rows and columns of a matrix
        states = sum(n * (r + c if r > 1 and c > 1 else r * c) for n, r, c in shapes)
    state_format = options.master or dtype
    rows = [Held(name, count, count * width, dtype) for name in ("parameters", "gradients")]
    copy = 0
    if options.master is not None:
        copy = count * WIDTHS[options.master]
        rows.append(Held("copy of the parameters", count, copy, f"{options.master}, for the optimiser"))
    if states:
        what = {"momentum": "one a parameter", "adam": "m and v of each parameter", "adafactor": "rows and columns"}
        says = f"{state_format}, {what[options.optimizer]}"
        rows.append(Held(options.optimizer, states, states * WIDTHS[state_format], says))
    kept = sum(row.bytes for row in rows)
    rows += [values, Held("together", None, kept + values.bytes, "")]
    if ranks is None:
        return tuple(rows), None
    optimiser = copy + states * WIDTHS[state_format]
    whole = (count * width, count * width, optimiser)
    divided = [-(-x // ranks) if stage >= s else x for x, s in zip(whole, (3, 2, 1), strict=True)]
    times = 3 if stage == 3 else 2  # parameters gathered (twice at stage 3), gradients scattered
    moved = times * count * width * (ranks - 1) // ranks
    return tuple(rows), Rank(ranks, stage, sum(divided), moved)


# What a function costs.


def account(make: Callable[[Sizes], Request], sizes: Mapping[str, Sequence[int]], options: Options) -> CostReport:
    """Return the costs of a function; `make` returns the request at some sizes, and the last of each are looked at closely.

    Raises  NotSupported for a function that cannot be recorded, and for sizes at which it can neither be run nor counted
            from smaller ones; any error of `make`.
    """
    dtype, kept_in = _formats(options)
    width = WIDTHS[kept_in]
    last = {name: values[-1] for name, values in sizes.items()}
    programs = Programs(
        lambda at: outline(_first_question(make(at))),
        tuple(sizes),
        lambda made: len(made.function),
        lambda made: sum(count_entries(step.result) for step in made.function) + operations_of_lines(made.function),
    )
    try:
        made: Outline = programs.at(last)
    except NotPolynomial:
        what = "the lengths of its arrays are no polynomials of the sizes, and the sizes are too large to run it"
        raise NotSupported(what, do="sizes of at most 2,000 each are run and counted") from None

    def count(at: Sizes) -> tuple[int, ...]:  # what `_COUNTED` names
        q = _first_question(make(at))
        return (*count_operations(q), *_count_kept(outline(q)))

    formulas = _fit_formulas(programs, count, last, made)
    every = [dict(zip(sizes, at, strict=True)) for at in itertools.product(*sizes.values())]
    at = []
    for one in every if len(every) > 1 and formulas else ():
        function, gradient, _, _, parameters, held, masks = (formula.at(one) for formula in formulas)
        at.append(AtSizes(one, function, gradient, parameters, held * width + masks))
    request = make(programs.recorded_first)
    taken = PassCounts(*(formula.at(last) for formula in formulas[:4])) if formulas else None
    if taken is None and programs.recorded_at(last):
        taken = PassCounts(*count(last)[:4])
    checkpoints = Checkpoints(made.function, width)
    moments = list(checkpoints.memory_by_line())
    peak = max((m.values + m.adjoints for m in moments), default=0)
    step = -(-len(moments) // _INSTANTS) or 1
    chosen = [max(moments[k : k + step], key=lambda m: m.values + m.adjoints) for k in range(0, len(moments), step)]
    timeline = tuple(Instant(m.line, m.backward, m.values + m.adjoints) for m in chosen)
    values = Held("values and adjoints", None, peak, f"{kept_in}, at the peak")
    # a shape as matrices: how many, their rows and columns
    shapes = [(math.prod(x[:-2]), x[-2], x[-1]) if len(x) > 1 else (1, count_entries(x), 1) for x in made.parameters]
    rows, rank = _step_memory(shapes, options, values)
    kept = kept_values(made.function)
    whole = checkpoints.everything_kept().bytes
    parameters = sum(map(count_entries, made.parameters))
    passes = _list_passes(operations_of_lines(made.function), parameters, made.output, taken, options.pass_time)
    chain = None  # of at least four Jacobians, from the input that has the longest one
    chains = [(name, chain_of_sizes(made.function, k)) for k, name in enumerate(request.wrt)]
    name, lengths = max(chains, key=lambda pair: len(pair[1]), default=("", []))
    if len(lengths) > 4:
        forward, reverse, best = products_in_order(lengths)
        pairs = [b * a for a, b in itertools.pairwise(lengths)]
        chain = JacobianChain(name, tuple(lengths), max(pairs), forward, reverse, best, lengths[-1] * sum(pairs))
    return CostReport(
        target=Target(original_function(request.f).kind, original_function(request.f).text), sizes=last, dtype=dtype,
        kept_in=kept_in, parameters=parameters, outputs=count_entries(made.output),
        lines=sum(step.operation is not None for step in made.function), passes=passes, memory=rows,
        kept=_group_kept_values(made.function, kept, width),
        checkpoints=_checkpoint_plans(
            checkpoints, options, 0 if taken is None else taken.gradient, _first_question(make(programs.recorded_like(made)))
        ),
        formulas=tuple(
            CostFormula(name, str(formula), formula.at(last))
            for name, formula in zip(_COUNTED, formulas, strict=bool(formulas))
            if formula.terms and formula.at(last) > 0
        ),
        at=tuple(at), chain=chain, ranks=rank,
        offload=None if options.link is None else 2 * whole / options.link,
        measured=_measure_seconds(request, last, programs) if options.time else None,
        norms=_adjoint_norms(request, last, programs) if options.norms else (), timeline=timeline,
        notes=tuple(_write_notes(made, programs, last, passes, formulas, request.layer is not None)),
        environment=describe_environment(()),
    )  # fmt: skip


def _first_question(request: Request) -> Question:
    return request.question(request.points[0], request.budget.at_least(Effort.ALL))


def _question_with_values(request: Request, sizes: Sizes, programs: Programs, why: str) -> Question:
    if not programs.recorded_at(sizes):
        raise BadOption(f"{why}, and these sizes are too large to be run", do="--sizes of at most 96")
    return _first_question(request)


def _count_kept(made: Outline) -> tuple[int, int, int]:
    """Return the numbers of parameters, of values kept, and of bytes of masks kept."""
    kept = kept_values(made.function)
    masks = sum(value.entries for value in kept if value.mask)
    return sum(map(count_entries, made.parameters)), sum(value.entries for value in kept) - masks, masks


def _fit_formulas(
    programs: Programs, count: Callable[[Sizes], Sequence[int]], sizes: Sizes, made: Outline
) -> list[SizePolynomial]:
    """Return the polynomials of what `_COUNTED` names; none without sizes, and where they are not those of the program."""
    try:
        found = programs.polynomials(count, sizes) if sizes else []
    except (NotPolynomial, GradcliError, ValueError):
        return []
    values = [formula.at(sizes) for formula in found]
    return found if [*values[:1], *values[4:]] == [operations_of_lines(made.function), *_count_kept(made)] else []


def _list_passes(f: int, n: int, output: Shape, taken: PassCounts | None, seconds: float | None) -> tuple[Pass, ...]:
    """Return the ways to the derivative by n parameters: differences, forward and reverse mode, and of a scalar the Hessian.

    `f` is the operations of the function, and `seconds` the time of one pass, where it is known.
    """
    scalar, m = output == (), count_entries(output)
    ways: list[tuple[str, int, int, int | None]] = [
        ("f", 1, 0, f),
        ("reverse mode" if scalar else "reverse mode, by rows", 1, m, taken and f + m * (taken.gradient - f)),
        ("forward mode" if scalar else "forward mode, by columns", n, 0, taken and n * taken.tangent),
        ("forward differences", n + 1, 0, (n + 1) * f),
        ("central differences", 2 * n, 0, 2 * n * f),
    ]
    if scalar and taken is not None and taken.product >= 0:
        ways += [("Hessian times a vector", 1, 1, taken.product), ("whole Hessian", n, n, n * taken.product)]
    return tuple(
        Pass(
            name, forward, backward, ops, ops / f if ops is not None and f else None,
            ABSENT if seconds is None else (forward + backward) * seconds,
        )
        for name, forward, backward, ops in ways
    )  # fmt: skip


def _group_kept_values(steps: Sequence[ProgramLine], kept: Sequence[KeptValue], width: int) -> tuple[Activation, ...]:
    """Return what is kept, values of one place, operation and shape together, the most bytes first."""
    groups: dict[tuple[Any, ...], list[KeptValue]] = {}
    for value in kept:
        step = steps[value.line]
        operation = step.operation.name if step.operation is not None else "input"
        name = "constant" if value.constant else operation
        shape = (value.entries,) if value.mask or value.constant else step.result
        readers = tuple(dict.fromkeys(reader.name for k in value.readers if (reader := steps[k].operation) is not None))
        groups.setdefault((name, step.place, step.function, shape, readers, value.mask), []).append(value)
    rows = [
        Activation(
            name, place, function, shape, len(values), sum(v.entries for v in values),
            sum(v.entries for v in values) * (1 if mask else width), readers, mask,
        )
        for (name, place, function, shape, readers, mask), values in groups.items()
    ]  # fmt: skip
    return tuple(sorted(rows, key=lambda row: -row.bytes))


def _checkpoint_plans(
    checkpoints: Checkpoints, options: Options, gradient: int, q: Question
) -> tuple[Checkpointing, ...]:
    """Return choices of checkpoints, and what they cost.

    Raises  BadOption for a name of no function of the program, and for a budget that no choice meets.
    """
    count = len(checkpoints.steps) - checkpoints.first
    root = math.isqrt(count)
    found: list[tuple[str, CheckpointPlan]] = [("everything kept", checkpoints.everything_kept())]
    if root > 1 and found[0][1].bytes:
        found.append((f"{root} equal segments, sqrt({count})", checkpoints.uniform(root)))
    if options.checkpoint:
        spans, known = lines_of_calls(q, options.checkpoint)
        for name in options.checkpoint:
            if name not in known:
                names = f"functions: {', '.join(sorted(known))}" if known else "name a Python function"
                raise BadOption(f"the program calls no function '{name}'", do=names)
        found.append((f"{', '.join(options.checkpoint)} run again", checkpoints.calls(spans)))
    if count > 1 and found[0][1].bytes:
        least = checkpoints.least()
        if options.memory is not None:
            best = checkpoints.best(options.memory)
            if best is None:
                raise BadOption(
                    f"no checkpoints hold at most {options.memory:,} bytes", do=f"the least is {least.bytes:,} bytes"
                )
            found.append((f"at most {write_decimal_bytes(options.memory)}", best))
        name = "fewest bytes" if checkpoints.is_cut_everywhere else "fewest bytes found"
        found.append((name, min((least, *(plan for _, plan in found)), key=lambda plan: plan[1:])))
    return tuple(
        Checkpointing(
            name, sum(s.again for s in plan.segments), plan.bytes, plan.operations,
            100 * plan.operations / gradient if gradient else None,
        )
        for name, plan in found
    )  # fmt: skip


def _adjoint_norms(request: Request, sizes: Sizes, programs: Programs) -> tuple[AdjointNorms, ...]:
    """Return the norms of adjoints of what runs several times at one place. Raises BadOption at sizes that were not run."""
    q = _question_with_values(request, sizes, programs, "--norms needs values")
    found: dict[tuple[str, str], list[float]] = {}
    for (operation, *_), step, bar in zip(q.lines, outline(q).function, q.bars, strict=True):
        if operation is not None and step.views < 0 and not isinstance(bar, Forgotten):
            norm = 0.0 if bar is None else float(np.linalg.norm(bar))
            found.setdefault((operation.name, step.place), []).append(norm)
    return tuple(
        AdjointNorms(
            name, at, len(ns), ns[0], ns[-1], (ns[0] / ns[-1]) ** (1 / (len(ns) - 1)) if ns[0] and ns[-1] else None
        )
        for (name, at), ns in found.items()
        if len(ns) > 1
    )


def _measure_seconds(request: Request, sizes: Sizes, programs: Programs) -> tuple[float, float]:
    q = _question_with_values(request, sizes, programs, "--time measures")
    f, gradient = one_run(q, "finite-difference"), one_run(q, "reverse")
    assert f is not None and gradient is not None
    return time_runs(f)[1], time_runs(gradient)[1]


def _write_notes(
    made: Outline, programs: Programs, sizes: Sizes, passes: Sequence[Pass], formulas: Sequence[SizePolynomial], layer: bool
) -> list[str]:  # fmt: skip
    found = []
    rows, columns = passes[1], passes[2]
    if made.output != () and rows.operations is not None and columns.operations is not None:
        if rows.operations != columns.operations:
            fewer = "rows (reverse mode)" if rows.operations < columns.operations else "columns (forward mode)"
            found.append(f"The Jacobian takes fewer operations by {fewer}.")
    elif rows.ratio is not None:
        found.append(f"f with its gradient takes {rows.ratio:.3g} times the operations of f.")
    found.append(
        "Counted on the recorded program; a product and a sum are one operation each, a function such as exp is one, and moving "
        "entries is none."
    )
    if layer:
        found.append("A layer's result is multiplied by a constant and summed, for its backward pass gets a gradient.")
    if sizes and not formulas:
        found.append(
            "No formulas are shown: counts at small sizes follow no polynomial that holds at these sizes, too."
        )
    if any(n > programs.largest.get(name, n) for name, n in sizes.items()):
        largest = ", ".join(f"{name}={n:,}" for name, n in programs.largest.items())
        found.append(
            f"These sizes were not run: the program was recorded at several, up to {largest}, and its shapes follow those "
            "exactly."
        )
    return found


# What a published model costs, by formulas.


def _read_model_file(name: str) -> Mapping[str, Any]:
    return tomllib.loads((files("gradcli.study") / "models" / f"{name}.toml").read_text(encoding="utf-8"))


def account_model(name: str, options: Options) -> CostReport:
    """Return the costs of training a published model on a batch of sequences or images.

    Raises  BadOption for an unknown model, and for more tokens than it has positions.
    """
    dtype, kept_in = _formats(options)
    width = WIDTHS[kept_in]
    presets = _read_model_file("presets")  # the published sizes by the name of the model
    if name not in presets:
        near = closest_name(name, list(presets))
        do = f"did you mean '{near}'?" if near else f"models: {', '.join(presets)}"
        raise BadOption(f"there is no model '{name}'", do=do)
    preset, formulas = presets[name], _read_model_file(presets[name]["of"])
    sizes = {**preset["sizes"], "b": options.batch}
    length = options.seq
    if length is not None:
        if "c" in sizes:
            raise BadOption("--seq is for text, and this model reads images", do="leave it out")
        if length > sizes.get("s", length):
            what = f"{name} has {sizes['s']:,} positions, and --seq asks for {length:,}"
            raise BadOption(what, do=f"--seq {sizes['s']}")
        sizes["n"] = length

    def value(text: str) -> int:
        return SizePolynomial.read(text, tuple(sizes)).at(sizes)

    shapes = [(value(a), value(b), value(c)) for a, b, c in formulas["parameters"].values()]
    kept = [
        Activation(what, "", "", (), 1, value(text), value(text) * bytes_each, (), mask, text)
        for table, bytes_each, mask in (("activations", width, False), ("masks", 1, True))
        for what, text in formulas[table].items()
    ]  # fmt: skip
    everything = sum(row.bytes for row in kept)
    rows, rank = _step_memory(shapes, options, Held("values kept", None, everything, f"{kept_in}, as listed"))
    count = rows[0].numbers or 0
    f = sum(value(text) for text in formulas["operations"].values())
    layers = sizes["L"]
    block = value(formulas["block"]["activations"]) * width + value(formulas["block"]["masks"])
    inside, rest = value(formulas["block"]["input"]) * width, everything - layers * block
    root = math.isqrt(layers - 1) + 1
    again = sum(value(formulas["operations"][what]) for what in formulas["block"]["operations"])
    plans = [
        ("everything kept", 0, everything, 0),
        ("every block run again", layers, rest + layers * inside + block, again),
    ]
    if root < layers:
        groups = -(-layers // root)
        held = rest + groups * inside + root * block
        plans.append((f"groups of {root} blocks run again: sqrt({layers})", groups, held, again))
    rows_of_formulas = []
    for what, parts in formulas["parameters"].items():
        factors = [part for part in parts if part != "1"]
        product = " ".join(f"({part})" if " + " in part and len(factors) > 1 else part for part in factors)
        rows_of_formulas.append(CostFormula(f"parameters, {what}", product, math.prod(map(value, parts))))
    for what, text in formulas["operations"].items():
        rows_of_formulas.append(CostFormula(f"operations of f, {what}", text, value(text)))
    return CostReport(
        model=name, sizes=sizes, dtype=dtype, kept_in=kept_in, parameters=count, outputs=1, lines=None,
        passes=_list_passes(f, count, (), PassCounts(f, 3 * f, 2 * f, -1), options.pass_time), memory=rows,
        kept=tuple(sorted(kept, key=lambda row: -row.bytes)),
        checkpoints=tuple(Checkpointing(what, n, held, ops, 100 * ops / (3 * f)) for what, n, held, ops in plans),
        formulas=tuple(rows_of_formulas), at=(), chain=None, ranks=rank,
        offload=None if options.link is None else 2 * everything / options.link, measured=None, norms=(), timeline=(),
        notes=(
            f"Sizes: {preset['source']}.",
            "A reverse sweep is counted as twice the operations of f, which holds for products of matrices; other operations are "
            "not counted. Attention weights are kept, as they are without a kernel that forms them block by block.",
        ),
        environment=describe_environment(()),
    )  # fmt: skip
