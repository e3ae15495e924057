"""The study behind `cost`: what a gradient and a training step take, counted from programs or from a model's formulas."""

import itertools
import math
import tomllib
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from typing import Any

import numpy as np

from gradcli.checks.implementation import describe_environment
from gradcli.checks.request import Request
from gradcli.errors import BadOption, GradcliError, NotSupported, closest_name
from gradcli.modes.mode import Question
from gradcli.modes.problem import Effort
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
from gradcli.study.mode_cost import one_run, time_runs
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
    operations_of_lines,
    outline,
    products_in_order,
)
from gradcli.study.sizes import NotPolynomial, Programs, SizePolynomial, Sizes
from gradcli.targets.derived import original_function
from gradcli.tracing.shapes import Forgotten

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
