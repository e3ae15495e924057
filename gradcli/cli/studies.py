"""`gradcli compare-modes`, `sweep`, `cost`, `grad`, `trace` and `derive`: what is shown of one target without a verdict."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from gradcli.cli.output import DATA, requested_output, write_report
from gradcli.cli.target_requests import read_as_formula, request_target, study_target
from gradcli.cli.world import World
from gradcli.errors import BadOption, NotSupported
from gradcli.request.option_values import split_words
from gradcli.request.options import Options
from gradcli.request.target_text import is_python, normalise_name
from gradcli.targets.target_request import TargetRequest

if TYPE_CHECKING:
    from gradcli.modes.mode import Question
    from gradcli.report.derive import DeriveReport, Lecture
    from gradcli.report.trace import TraceReport
    from gradcli.targets.layers import Layer


COMPARE_MODES_EXAMPLES = """
    gradcli compare-modes "sin(x*y) + exp(-x**2)" x=0.5 y=1.2
    gradcli compare-modes "sum(tanh(W@x)**2)" --shapes "W: 3 4; x: 4" --wrt x --cost
    gradcli compare-modes nets.py:deep --at "x=randn(1000)" --modes reverse,forward --steps
    gradcli compare-modes losses.py:focal --at "z=randn(8), y=ones(8)" --dtype float16,bfloat16 --plot modes.svg
"""


def compare_modes(world: World, target: list[str], options: Options) -> int:
    """Set all modes side by side: values, right digits, error bounds, evaluations of f, operations, time and memory.

    --steps also shows a summary of error against step size; gradcli sweep shows the curves. --dtype shows what low
    precision does to the gradient. For the cost of a gradient at any size, use gradcli cost. Formats: text, json,
    ndjson, markdown, html, csv. A file may also be .pdf, .svg or .png.
    """
    from gradcli.checks.build import build_request
    from gradcli.study.mode_comparison import compare_modes as study

    to = requested_output(("text", "json", "ndjson", "markdown", "html", "csv"), options, world, pictures=True)
    sizes = {normalise_name(name): values[0] for name, values in (options.first_sizes or {}).items()}
    if sizes:
        says = "--sizes gives compare-modes its first sizes alone: gradcli cost --sizes counts how costs grow"
        world.tell(f"note: {says}")
    ask = request_target(target, replace(options, points=1), world)
    if options.loss_scale is not None and not options.formats:
        raise BadOption("--loss-scale is for low precision", do="name one: --dtype float16")
    refuse_unknown_columns(options.columns)
    with world.users_code(ask.target, seconds=options.timeout), world.working("comparing modes", options.quiet):
        report = study(build_request(replace(ask, sizes=sizes)))
    write_report(report, to, world)
    return report.exit_status


def refuse_unknown_columns(text: str | None) -> None:
    """Raise BadOption for a column that does not exist, and for a list without one."""
    from gradcli.report.compare import COLUMNS

    found = split_words(text)
    if text is not None and not found:
        raise BadOption("--columns names no column", do=f"columns: {', '.join(COLUMNS)}")
    for word in found:
        if word not in COLUMNS:
            raise BadOption(f"there is no column '{word}'", do=f"columns: {', '.join(COLUMNS)}")


SWEEP_EXAMPLES = """
    gradcli sweep "sin(x)" x=1
    gradcli sweep "exp(x)*sin(x)" x=1 --dtype float16,float32,float64 --bits 113
    gradcli sweep "sum(tanh(W@x)**2)" --shapes "W: 3 4; x: 4" --each --plot sweep.pdf --size 3.5x2.5
    gradcli sweep losses.py:focal --grad focal_grad --at "z=randn(8), y=ones(8)"
"""


def sweep(world: World, target: list[str], options: Options) -> int:
    """Show error against step size: each difference scheme's order, best step and digits, and what theory predicts.

    Steps go from 1 to 1e-20 of an input's size. Errors are measured against the certified derivative. A step moves all
    inputs at once, or with --each one entry at a time. The best error is the least on the curve, where each point
    counts as the median of three neighbouring ones. A claimed gradient (--grad) gets the Taylor remainder test.
    Formats: text, json, ndjson, markdown, html, csv. A file may also be .pdf, .svg or .png.
    """
    from gradcli.checks.build import build_request
    from gradcli.study.sweep import sweep as study

    to = requested_output(("text", "json", "ndjson", "markdown", "html", "csv"), options, world, pictures=True)
    formats = options.formats or (() if options.bits else ("float64",))
    ask = request_target(target, replace(options, points=1, formats=formats), world)
    heard = None if options.quiet else world.tell
    with world.users_code(ask.target, seconds=options.timeout), world.working("sweeping", options.quiet):
        report = study(build_request(ask), heard)
    write_report(report, to, world)
    return report.exit_status


COST_EXAMPLES = """
    gradcli cost "sum(tanh(W@x)**2)" --shapes "W: m n; x: n" --sizes "m=300, n=400" --wrt W
    gradcli cost block.py:loss --shapes "x: b n d; W: d d" --sizes "b=32, n=512, d=768" --dtype bfloat16 --optimizer adam
    gradcli cost net.py:loss --at "x=randn(64, 100)" --checkpoint attention --memory 2GB
    gradcli cost --model llama-2-70b --batch 4 --seq 4096 --dtype bfloat16 --optimizer adam --master float32 --shard 64 --zero 3
    gradcli cost "sum(w**2)" --shapes "w: N" --sizes N=7e10 --pass-time 0.5s
"""


def cost(world: World, target: list[str] | None, options: Options) -> int:
    """Count what a gradient costs: passes, operations and bytes, and what checkpoints, formats and ranks change.

    gradcli counts the operations of the recorded program. With --sizes, the counts are formulas of the sizes, and
    nothing is run at large sizes. With --model, the counts are those of a published model. Nothing is timed without
    --time.

    Formats: text, brief, json, ndjson, markdown, html, csv. A file may also be .pdf, .svg or .png.
    """
    from gradcli.study.accounting import account, account_model, refuse_unknown_formats

    to = requested_output(("text", "brief", "json", "ndjson", "markdown", "html", "csv"), options, world, pictures=True)
    if options.zero is not None and options.shards is None:
        raise BadOption("--zero divides over ranks, and their number is not given", do="--shard 8 --zero 3")
    refuse_unknown_formats(options)
    if options.model is not None:
        if target:
            raise BadOption("--model is a target of its own", do="leave the other one out")
        for name in ("at", "shapes", "sizes", "wrt", "checkpoint", "memory", "time", "norms"):
            if name in options.given:
                raise BadOption(f"--{name} is for a function, and --model counts by formulas", do="leave it out")
        write_report(account_model(options.model, options), to, world)
        return 0
    if not target:
        raise BadOption("there is no target", do="name a function or an expression, or a model: --model llama-2-70b")
    if options.seq is not None or options.batch != 1:
        raise BadOption("--batch and --seq are sizes of a model", do="write sizes of a function: --sizes b=32")

    from gradcli.checks.build import build_request

    # formats of cost are counted with, and the target runs in its own
    alone = replace(options, points=1, dtype=None, autocast=None)
    ask = request_target(target, alone, world)
    sizes = _values_of_sizes(options, ask)
    with world.users_code(ask.target, seconds=options.timeout), world.working("counting", options.quiet):
        report = account(lambda at: build_request(replace(ask, sizes=at)), sizes, options)
    write_report(report, to, world)
    return report.exit_status


def _values_of_sizes(options: Options, ask: TargetRequest) -> Mapping[str, tuple[int, ...]]:
    """Return the values of every size that has a name. Raises BadOption for one that nothing uses."""
    from gradcli.targets.points import numbers_of_sizes

    given = {normalise_name(name): values for name, values in (options.sizes or {}).items()}
    fixed = {name: values[-1] for name, values in given.items()}
    words = {normalise_name(word) for text in (*ask.at, *options.shapes) for word in re.findall(r"\w+", text)}
    for name, values in given.items():
        if min(values) < 1:
            raise BadOption(f"{name}={min(values)}: a size is at least 1", do=f"--sizes {name}=1")
        if name not in words and not ask.runs_python:
            says = f"--sizes has '{name}', which neither the point nor the shapes use"
            raise BadOption(says, do=f'use it: --shapes "x: {name}"')
    small = numbers_of_sizes(options.shapes, [], options.seed, {name: min(n, 12) for name, n in fixed.items()})
    return {**{name: (n,) for name, n in small.items() if name not in given}, **given}


GRAD_EXAMPLES = """
    gradcli grad "sin(x*y)" x=0.5 y=1.2
    gradcli grad "sum(log(x))" --at "x=@data.npy" --json
"""


def grad(world: World, target: list[str], options: Options) -> int:
    """Print only the gradient, by the reverse mode, so that another program can read it.

    Digits that are lost to rounding are left out. A note on standard error says how many digits are right, or where f
    may have a kink. The exit status is 3 if f or its gradient is not finite, or if an entry has no right digit; such an
    entry is printed as nan.

    Formats: text, json, ndjson, csv.
    """
    from gradcli.study.gradient import gradient

    to = requested_output(("text", "json", "ndjson", "csv"), options, world)
    report = study_target(lambda q, _: gradient(q), target, options, world, "differentiating")
    write_report(report, to, world)
    for note in () if to.quiet or to.form in DATA else report.notes:
        world.tell(f"note: {note}")
    return report.exit_status


TRACE_EXAMPLES = """
    gradcli trace "v3 = x1 + x2; v3 * x1" x1=3 x2=4
    gradcli trace "sigmoid(w*x + b)" --at "w=2, x=1, b=-1" --out steps.html --out graph.svg
    gradcli trace engine.py:loss --engine Value --at "x=2, w=3"
"""


def trace(world: World, target: list[str], options: Options) -> int:
    """Show the computation as a walkthrough: forward values, local partials, adjoints and how they were summed.

    With --engine, the gradients of your own engine are shown beside the right ones.
    A page (--out steps.html) draws the computation as a graph, with forward and backward steps.
    Formats: text, json, ndjson, markdown, html, csv, mermaid, svg.
    """
    to = requested_output(("text", "json", "ndjson", "markdown", "html", "csv", "mermaid", "svg"), options, world)

    def study(q: "Question", layer: "Layer | None") -> "TraceReport":
        if layer is not None and layer.engine is not None:
            from gradcli.study.walkthrough import engine_walkthrough

            return engine_walkthrough(q, layer.engine, prove=to.pages)
        from gradcli.study.walkthrough import walkthrough

        return walkthrough(q, prove=to.pages)

    report = study_target(study, target, options, world, "tracing")
    write_report(report, to, world)
    return report.exit_status


# `gradcli derive`.

DOCUMENTS = ("markdown", "latex", "html")  # which, at a point, hold the walkthrough and the check as well
DERIVE_EXAMPLES = """
    gradcli derive "0.5*sum((W@x - y)**2)" --shapes "W: m n; x: n; y: m"
    gradcli derive "-sum(y*log(softmax(z)))" --shapes "z: n; y: n" --assume "y: simplex" --wrt z
    gradcli derive "log(det(S)) + x@inv(S)@x" --shapes "S: n n; x: n" --assume "S: spd" --wrt S --out gauss.tex
    gradcli derive "sum((X@w - y)**2)" --shapes "X: m n; w: n; y: m" --wrt w --answer "2*X.T@(X@w - y)"
    gradcli derive "norm(W@x - y)" --at "W=[[1, 2, 3], [0, 1, 2]], x=[1, 0, 2], y=[1, 1]" --wrt x
    gradcli derive "w2@tanh(W1@x)" --at "w2=[1, -1], W1=[[1, 2], [0, 1]], x=[0.5, -1]" --out lecture.html --out lecture.md
    gradcli derive "sum(relu(X@w))" --shapes "X: m n; w: n" --wrt w --no-steps --code torch,jax
"""


def derive(world: World, target: list[str], options: Options) -> int:
    """Derive the gradient in closed form, with the steps, and as code, checked before it is printed.

    Sizes have names (--shapes "W: m n; x: n"), or are those of given values (--at), at which the derivative is then
    evaluated. If a closed form cannot be derived or confirmed, gradcli refuses it, and the exit status is 3. If a hand
    derivation (--answer) is wrong, the exit status is 1. With --at, a document (--out lecture.md, .tex or .html) also
    has the forward values, the adjoints and the check of the gradient at this point.
    Formats: text, brief, json, ndjson, markdown, latex, html.
    """
    from gradcli.derivation.sized_problem import parse_shapes
    from gradcli.derivation.study import LAYOUTS, STYLES, function_at_point, load_python_function
    from gradcli.derivation.study import derive as study

    to = requested_output(("text", "brief", "json", "ndjson", "markdown", "latex", "html"), options, world)
    ask = request_target(target, options, world)
    if options.answer is not None:
        options = replace(options, answer=read_as_formula(options.answer, ask.target, ask.at, options, world))
    shapes = parse_shapes(options.shapes)
    for option, word, words in (("--layout", options.layout, LAYOUTS), ("--style", options.style, STYLES)):
        if word not in words:
            raise BadOption(f"{option} does not know '{word}'", do=f"known: {', '.join(words)}")
    shown = _parse_languages(options.code)
    documents = tuple((form, path) for form, path in to.files if form in DOCUMENTS)
    with world.users_code(ask.target, seconds=options.timeout), world.working("deriving", options.quiet):
        if ask.at:
            from gradcli.checks.probe import locate

            located = locate(replace(ask, options=Options(seed=ask.options.seed, shapes=ask.options.shapes, points=1)))
            given = function_at_point(located, shapes)
            report = study(given.f, shapes, options, given)
        else:
            from gradcli.targets.expression import Expression

            load = load_python_function if is_python(ask.target) else lambda target, _: Expression(target)
            report = study(load(ask.target, shapes), shapes, options)
        report, lecture = replace(report, shown=shown), None
        if ask.at and documents and report.results:
            lecture = _make_lecture(report, ask, options, world, to.pages)
    if lecture is None:
        write_report(report, to, world)
        return report.exit_status
    write_report(report, replace(to, files=tuple(file for file in to.files if file not in documents)), world)
    write_report(lecture, replace(to, files=documents), world, shown=False)
    return report.exit_status


def _make_lecture(
    report: "DeriveReport", ask: TargetRequest, options: Options, world: World, prove: bool
) -> "Lecture | None":
    """Return the derivation with the walkthrough and the check at its point; None where the function cannot be traced.

    With `prove`, the values of the walkthrough have the digits that ball arithmetic proves.
    """
    from gradcli.checks.build import build_request
    from gradcli.derivation.right_answer import right_answer
    from gradcli.modes.mode import Question
    from gradcli.repair.full_check import full_check
    from gradcli.report.derive import Lecture
    from gradcli.study.walkthrough import walkthrough

    ask = replace(ask, options=replace(ask.options, assume=(), points=1))  # at one point, whatever is assumed
    asked = build_request(ask)
    q = Question(asked.f, asked.points[0], asked.wrt, options.seed)
    try:
        q.refuse_untraced()
    except NotSupported as error:
        world.tell(f"the document has the derivation alone, without a walkthrough: {error.what}")
        return None
    return Lecture(report, walkthrough(q, prove=prove), full_check(asked, ask, right_answer))


def _parse_languages(text: str) -> tuple[str, ...]:
    """Return the languages that --code names, in their own order. Raises BadOption."""
    from gradcli.derivation.languages import LANGUAGES
    from gradcli.errors import closest_name

    words = [word.strip().lower() for word in text.split(",") if word.strip()]
    for word in words:
        if word not in (*LANGUAGES, "all"):
            close = closest_name(word, (*LANGUAGES, "all"))
            known = f"known: {', '.join(LANGUAGES)}, all"
            raise BadOption(f"--code does not know '{word}'", do=f"did you mean '{close}'? {known}" if close else known)
    if not words:
        raise BadOption("--code names no language", do=f"known: {', '.join(LANGUAGES)}, all")
    return tuple(name for name in LANGUAGES if name in words or "all" in words)
