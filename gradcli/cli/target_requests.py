"""Turn the words of the command line, and lines of standard input, into requests, one for each target."""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from gradcli.cli.output import write_blocks
from gradcli.cli.world import World
from gradcli.errors import BadOption, BadPoint, GradcliError
from gradcli.report.blocks import Paragraph
from gradcli.request.options import Options, find_claim, replace_claim
from gradcli.request.target_text import ASSIGNMENT, is_python, names_python, normalise_name
from gradcli.targets.target_request import TargetRequest, format_value

if TYPE_CHECKING:
    from gradcli.modes.mode import Question
    from gradcli.targets.layers import Layer

Report = TypeVar("Report")


# in words joined by newlines: x = 1, x =1, x= 1, x == 1
_SPACED_ASSIGNMENT = re.compile(r"^(?P<name>[^\W\d]\w*)(?:\n=+|\n?==|=(?=\n|$))\n?(?P<value>.*)$", re.MULTILINE)
_STARTS_LIKE_AN_OPERATOR = re.compile(r"[+*^@%<>=|&]|/$")  # "/" alone, for a longer word may be a path
_NUMBER = re.compile(r"[-+]?[\d.]+(e[-+]?\d+)?", re.IGNORECASE)
_NAME = re.compile(r"[^\W\d]\w*")
_GIVEN = re.compile(r"(?P<name>[^\W\d]\w*)\s*=(?!=)")  # x=0.5
_ENDS_WITH_AN_OPERATOR = re.compile(r"[-+*/^@%<>=]$")


def target_requests(words: Sequence[str], options: Options, world: World) -> Iterator[TargetRequest]:
    """Yield a request for each target; NAME=VALUE arguments are added to its point, and `-` stands for standard input.

    Raises  BadOption, NotSupported; BadExpression for what can be read in two ways.
    """
    _refuse_unquoted(words, options)
    targets = [word for k, word in enumerate(words) if k == 0 or not ASSIGNMENT.fullmatch(word)]
    assigned = tuple(word for k, word in enumerate(words) if k > 0 and ASSIGNMENT.fullmatch(word))
    if not targets:
        raise BadOption("there is no target", do='write one: gradcli check "sin(x*y)"')
    common, claim = (*options.at, *assigned), find_claim(options)
    for target in targets:
        if target == "-":
            for number, line in world.lines():
                text = line.strip()
                if text.startswith("{"):
                    yield _request_of_object(text, number, common, options)
                elif text and not text.startswith("#"):
                    yield TargetRequest(text, common, options, number)
        elif names_python(target):
            yield TargetRequest(target, common, options)
        else:  # an expression, which may be typed as by hand, and its claim
            own, claimed = _translate_typed_line(target, _given_names(common, options), common, options, world), claim
            if claim is not None and not names_python(claim[1]):
                claimed = claim[0], read_as_formula(claim[1], own, common, options, world)
            yield TargetRequest(own, common, replace_claim(options, claimed))


def read_as_formula(text: str, target: str, at: Sequence[str], options: Options, world: World) -> str:
    """Return a claim or an answer in the language, where it is typed as by hand; it may use the inputs of the target.

    Raises  BadExpression for what can be read in two ways.
    """
    from gradcli.targets.expression import check_claim

    given = _given_names(at, options) | set((None if is_python(target) else _inputs_of_expression(target)) or ())
    return _translate_typed_line(text, given, at, options, world, check_claim)


def _given_names(at: Sequence[str], options: Options) -> set[str]:
    """Return the names that --at, --shapes and --wrt give."""
    from gradcli.targets.points import split_shapes

    values = [normalise_name(match["name"]) for text in at for match in _GIVEN.finditer(text)]
    wrt = [normalise_name(name.strip()) for name in (options.wrt or "").split(",")]
    sized = [name for name, _ in split_shapes(options.shapes)]
    return {*values, *sized, *(name for name in wrt if name.isidentifier())}


def _translate_typed_line(
    typed: str, given: set[str], at: Sequence[str], options: Options, world: World,
    check: Callable[[str, frozenset[str]], object] | None = None,
) -> str:  # fmt: skip
    """Return a line in the language, and say first how it is read where that is not as it stands.

    `given` are the inputs that are given by name. `check` raises GradcliError for what is not in the language, if the line is
    no expression.

    Raises  BadExpression for a line that can be read in two ways.
    """
    from gradcli.targets.expression import compile_expression
    from gradcli.targets.hand_notation import explain_joined_names, read_notation

    names = frozenset(given)
    programs = partial(compile_expression, given=names)
    allowed = None if check is None else lambda line: check(line, names)
    if read_notation(typed, dict.fromkeys(given), programs, allowed) is None:
        for sentence in () if options.quiet else explain_joined_names(typed, given):
            world.tell(f"note: {sentence}")
        return typed
    found = read_notation(typed, {**dict.fromkeys(given), **_known_shapes(at, options)}, programs, allowed)
    if found is None:
        return typed
    if found.question is not None:
        raise found.refusal(typed)
    says = f"{typed.strip()} is read as {found.texts[0]}"
    if options.quiet:
        return found.texts[0]
    if options.json or options.format not in (None, "text"):
        world.tell(says)
    else:
        write_blocks((Paragraph(says),), world, options.color)
    return found.texts[0]


def _refuse_unquoted(words: Sequence[str], options: Options) -> None:
    """Refuse an unquoted expression, a bare number, or an input's name as a target; say what to write. Raises BadOption."""
    if "=" in words[1:] and options.at and options.at[-1].strip().isidentifier():
        value = "".join(words[words.index("=") + 1 :][:1])
        raise BadOption(f"--at {options.at[-1]} = {value} is three words", do=f"write --at {options.at[-1]}={value}")
    spaced = _SPACED_ASSIGNMENT.search("\n".join(words[1:]))
    if spaced is not None:
        says = f"write {spaced['name']}={spaced['value'] or '1'}, one word with one ="
        raise BadOption(f"'{spaced.group().replace(chr(10), ' ').strip()}' gives no input a value", do=says)
    targets = [word for k, word in enumerate(words) if k == 0 or not ASSIGNMENT.fullmatch(word)]
    for k, word in enumerate(targets):
        joins = word == "-" or _STARTS_LIKE_AN_OPERATOR.match(word)
        if len(targets) > 1 and (joins or (k and _ENDS_WITH_AN_OPERATOR.search(targets[k - 1]))):
            values = [word for word in words[1:] if ASSIGNMENT.fullmatch(word)]
            quoted = f'"{" ".join(word for word in words if word not in values)}"'
            do = f"quote it: {' '.join((quoted, *values))}"
            raise BadOption("the shell has split this expression into words", do=do)
        if k and _NUMBER.fullmatch(word):
            raise BadOption(f"'{word}' is a number, not a target", do=f"write NAME={word} for a value")
        if k and word.isidentifier() and any(word in _NAME.findall(other) for other in targets[:k]):
            do = f"write --wrt {options.wrt},{word}" if options.wrt else f"write {word}=1 for a value"
            raise BadOption(f"'{word}' is an input of another target, not a target", do=do)


def _known_shapes(at: Sequence[str], options: Options) -> "dict[str, tuple[int, ...]]":
    """Return the shapes of the inputs that have values or sizes; those of a size without a number get one of their own."""
    from gradcli.targets.points import numbers_of_sizes, read_points
    from gradcli.targets.points import parse_shape_options as read_shapes
    from gradcli.tracing.shapes import shape

    sizes = numbers_of_sizes(options.shapes, at, options.seed)
    points = read_points(at, options.seed, sizes)[:1]
    found = {**dict.fromkeys(sizes, ()), **read_shapes(options.shapes, sizes)}
    for point in points:
        found |= {name: shape(x) for name, x in point.items() if name.isidentifier()}
    return found


def assign_own_values(found: Sequence[TargetRequest], common: Sequence[str]) -> list[TargetRequest]:
    """Return several targets, each expression with those NAME=VALUE arguments alone whose name it has.

    `common` are the points of `--at`, which all targets get, as Python code gets everything.

    Raises  BadOption for a name that no target has.
    """
    if len(found) < 2:
        return [*found]
    inputs = [None if is_python(ask.target) else _inputs_of_expression(ask.target) for ask in found]
    given = found[0].at[len(common) :]

    def name_of(text: str) -> str:
        return normalise_name(text.partition("=")[0].strip())

    for name in map(name_of, given):
        if None not in inputs and not any(name in known for known in inputs if known is not None):
            raise BadOption(f"'{name}' is an input of no target", do="leave it out, or correct its name")
    return [
        ask if known is None else replace(ask, at=(*common, *(text for text in given if name_of(text) in known)))
        for ask, known in zip(found, inputs, strict=True)
    ]


def _inputs_of_expression(target: str) -> tuple[str, ...] | None:
    """Return the inputs of an expression; None if it cannot be read, which its check will say."""
    from gradcli.targets.expression import Expression

    try:
        return tuple(Expression(target).inputs)
    except GradcliError:
        return None


def request_target(words: Sequence[str], options: Options, world: World) -> TargetRequest:
    """Return the request for the one target of a command that takes one. Raises BadOption, and as `target_requests`."""
    targets = list(target_requests(words, options, world))
    if len(targets) != 1:
        raise BadOption(f"this command takes one target, not {len(targets)}", do="run it once for each")
    return targets[0]


def _request_of_object(text: str, number: int, at: tuple[str, ...], options: Options) -> TargetRequest:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return TargetRequest(text, at, options, number, problem="this line is not a JSON object")
    here, grad = found.get("at"), found.get("grad")
    if (
        set(found) - {"target", "grad", "at", "wrt"}
        or not all(isinstance(found.get(key, ""), str) for key in ("target", "wrt"))
        or "target" not in found
        or not isinstance(here, str | dict | None)
        or not isinstance(grad, str | dict | None)
    ):
        says = "a line's object needs `target` and may have `grad`, `at` and `wrt`, each a text (`grad` and `at` also an object)"
        return TargetRequest(text, at, options, number, problem=says)
    try:
        said = grad
        if isinstance(grad, dict):
            said = ", ".join(f"{n}={format_value(n, g, True)}" for n, g in grad.items())
    except BadPoint as error:
        return TargetRequest(text, at, options, number, problem=error.what)
    points = (*at, here) if isinstance(here, str) else at
    values = here if isinstance(here, dict) else {}
    texts_from_line = tuple(text for text in (said, here) if isinstance(text, str))
    claimed = options if said is None else replace_claim(options, ("grad", said))
    own = replace(claimed, wrt=found.get("wrt", options.wrt))
    return TargetRequest(found["target"], points, own, number, values, texts_from_line=texts_from_line)


def study_target(
    study: Callable[["Question", "Layer | None"], Report],
    words: Sequence[str],
    options: Options,
    world: World,
    doing: str,
) -> Report:
    """Return the report of a study of the target in `words` at its point; `doing` names the work while it runs.

    The study is given the question, and the layer that the target is.

    Raises  NotSupported if the function cannot be traced, BadOption for several targets, and the errors of locating it.
    """
    from gradcli.checks.probe import locate
    from gradcli.modes.mode import Question

    ask = request_target(words, options, world)
    with world.users_code(ask.target, seconds=options.timeout), world.working(doing, options.quiet):
        found = locate(replace(ask, options=replace(ask.options, points=1)))
        q = Question(found.f, found.points[0], found.wrt, options.seed)
        q.refuse_untraced()
        return study(q, found.layer)
