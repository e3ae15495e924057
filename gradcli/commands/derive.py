"""`gradcli derive`."""

from collections.abc import Iterable

import typer

from gradcli.commands import options
from gradcli.commands.output import emit, output
from gradcli.commands.request import asks, only, seed_of
from gradcli.errors import BadOption
from gradcli.source.targets import is_python
from gradcli.world import World

FORMATS = ("text", "json", "ndjson", "markdown", "latex")
EXAMPLES = """Examples:

    gradcli derive "0.5*sum((W@x - y)**2)" --shapes "W: m n; x: n; y: m"

    gradcli derive "-sum(y*log(softmax(z)))" --shapes "z: n; y: n" --assume "y: simplex" --wrt z

    gradcli derive "log(det(S)) + x@inv(S)@x" --shapes "S: n n; x: n" --assume "S: spd" --wrt S --out gauss.tex

    gradcli derive "sum((X@w - y)**2)" --shapes "X: m n; w: n; y: m" --wrt w --answer "2*X.T@(X@w - y)"
"""


def derive(
    context: typer.Context,
    target: options.Target,
    shapes: options.SizedShapes = None, assume: options.Assume = None, wrt: options.Wrt = None, order: options.Order = 1,
    answer: options.AnswerText = None, layout: options.Layout = "denominator", style: options.Style = "differential",
    no_steps: options.NoSteps = False, seed: options.Seed = "0",
    format: options.Format = None, json: options.Json = False, out: options.Out = None,
    quiet: options.Quiet = False, color: options.Color = None, traceback: options.Traceback = False,
) -> int:  # fmt: skip
    """Derive the gradient in closed form, with the steps, and as code, checked before it is printed.

    Sizes have names (--shapes "W: m n; x: n"). What cannot be derived or confirmed is refused, with status 3; a hand
    derivation (--answer) that is wrong has status 1. Formats: text, json, ndjson, markdown, latex.
    """
    from gradcli.derivation.facts import dims_of
    from gradcli.derivation.study import LAYOUTS, STYLES, Wanted, of_python
    from gradcli.derivation.study import derive as study
    from gradcli.source.expression import Expression

    world: World = context.obj
    to = output(FORMATS, format, json, out, quiet, color, world)
    ask = only(asks(target, None, world, None, wrt))
    wanted = Wanted(
        dims_of(shapes or ()), tuple(assume or ()), wrt, order, not no_steps, answer, layout, style, seed_of(seed)
    )
    _known("--layout", layout, LAYOUTS)
    _known("--style", style, STYLES)
    with world.working("deriving", quiet), world.users_code():
        f = of_python(ask.target, wanted.shapes) if is_python(ask.target) else Expression(ask.target)
        report = study(f, wanted)
    emit(report, to, world)
    return report.exit_status


def _known(option: str, word: str, words: Iterable[str]) -> None:
    if word not in words:
        raise BadOption(f"{option} does not know '{word}'", do=f"known: {', '.join(words)}")
