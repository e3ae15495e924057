"""`gradcli derive`."""

from dataclasses import replace
from typing import TYPE_CHECKING

from gradcli.cli.output import requested_output, write_report
from gradcli.cli.target_requests import read_as_formula, request_target
from gradcli.cli.world import World
from gradcli.errors import BadOption, NotSupported
from gradcli.request.options import Options
from gradcli.request.target_text import is_python
from gradcli.targets.target_request import TargetRequest

if TYPE_CHECKING:
    from gradcli.report.derive import DeriveReport, Lecture

FORMATS = ("text", "brief", "json", "ndjson", "markdown", "latex", "html")
DOCUMENTS = ("markdown", "latex", "html")  # which, at a point, hold the walkthrough and the check as well
EXAMPLES = """
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
    from gradcli.derivation.study import LAYOUTS, STYLES, DeriveOptions, function_at_point, load_python_function
    from gradcli.derivation.study import derive as study

    to = requested_output(FORMATS, options, world)
    ask = request_target(target, options, world)
    answer = options.answer
    if answer is not None:
        answer = read_as_formula(answer, ask.target, ask.at, options, world)
    wanted = DeriveOptions(
        parse_shapes(options.shapes), options.assume, options.wrt, options.order, not options.no_steps, answer,
        options.show, options.layout, options.style, options.seed,
    )  # fmt: skip
    for option, word, words in (("--layout", options.layout, LAYOUTS), ("--style", options.style, STYLES)):
        if word not in words:
            raise BadOption(f"{option} does not know '{word}'", do=f"known: {', '.join(words)}")
    shown = _parse_languages(options.code)
    documents = tuple((form, path) for form, path in to.files if form in DOCUMENTS)
    with world.users_code(ask.target, seconds=options.timeout), world.working("deriving", options.quiet):
        if ask.at:
            from gradcli.checks.probe import locate

            located = locate(replace(ask, options=Options(seed=ask.options.seed, shapes=ask.options.shapes, points=1)))
            given = function_at_point(located, wanted.shapes)
            report = study(given.f, replace(wanted, given=given))
        else:
            from gradcli.targets.expression import Expression

            load = load_python_function if is_python(ask.target) else lambda target, _: Expression(target)
            report = study(load(ask.target, wanted.shapes), wanted)
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
    from gradcli.derivation.code.languages import LANGUAGES
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
