"""From the words of the command line, and the lines of standard input, to targets with what belongs to each."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gradcli.errors import BadOption, BadPoint, NotSupported
from gradcli.options import Options, claim_of
from gradcli.source.targets import is_python
from gradcli.world import World

_SPACED = re.compile(r"^(?P<name>[^\W\d]\w*)(?:\n=+|\n?==|=(?=\n|$))\n?(?P<value>.*)$", re.MULTILINE)
_BEGINS = re.compile(r"[+*^@%<>=|&]|/$")
_NUMBER = re.compile(r"[-+]?[\d.]+(e[-+]?\d+)?", re.IGNORECASE)
_NAME = re.compile(r"[^\W\d]\w*")
_ENDS = re.compile(r"[-+*/^@%<>=]$")
_ASSIGNMENT = re.compile(r"\s*[^\W\d]\w*\s*=(?!=)[^;\n]*")


@dataclass(frozen=True, slots=True)
class TargetRequest:
    """One target with what belongs to it alone.

    `word` is its number among the targets; `line` is where it stood on standard input, `text` what stood there, `own` its
    other texts.
    """

    target: str
    at: tuple[str, ...] = ()
    claim: tuple[str, str] | None = None
    wrt: str | None = None
    line: int | None = None
    values: dict[str, Any] = field(default_factory=dict)
    problem: str | None = None
    may_run: bool = False
    own: tuple[str, ...] = ()
    word: int = 0
    text: str = ""


def target_requests(words: Sequence[str], options: Options, world: World) -> Iterator[TargetRequest]:
    """Yield one ask for each target, NAME=VALUE arguments merged into the point; `-` is a line each of standard input.

    Raises  BadOption, NotSupported.
    """
    _refuse_unquoted(words, options)
    targets = [word for k, word in enumerate(words) if k == 0 or not _ASSIGNMENT.fullmatch(word)]
    assigned = tuple(word for k, word in enumerate(words) if k > 0 and _ASSIGNMENT.fullmatch(word))
    if not targets:
        raise BadOption("there is no target", do='write one: gradcli check "sin(x*y)"')
    common, claim = (*options.at, *assigned), claim_of(options)
    for word, target in enumerate(targets):
        if target == "-":
            for ask in _lines(world, common, claim, options.wrt):
                yield replace(ask, may_run=options.allow_python, word=word)
        else:
            yield TargetRequest(target, common, claim, options.wrt, word=word)


def _refuse_unquoted(words: Sequence[str], options: Options) -> None:
    """Refuse words that the shell has torn apart, with the text to paste. Raises BadOption."""
    if "=" in words[1:] and options.at and options.at[-1].strip().isidentifier():
        value = "".join(words[words.index("=") + 1 :][:1])
        raise BadOption(f"--at {options.at[-1]} = {value} is three words", do=f"write --at {options.at[-1]}={value}")
    spaced = _SPACED.search("\n".join(words[1:]))
    if spaced is not None:
        says = f"write {spaced['name']}={spaced['value'] or '1'}, one word with one ="
        raise BadOption(f"'{spaced.group().replace(chr(10), ' ').strip()}' gives no input a value", do=says)
    targets = [word for k, word in enumerate(words) if k == 0 or not _ASSIGNMENT.fullmatch(word)]
    for k, word in enumerate(targets):
        if len(targets) > 1 and (word == "-" or _BEGINS.match(word) or (k and _ENDS.search(targets[k - 1]))):
            raise BadOption("the shell has split this expression into words", do=f"quote it: {_quoted(words)}")
        if k and _NUMBER.fullmatch(word):
            raise BadOption(f"'{word}' is a number, not a target", do=f"write NAME={word} for a value")
        if k and word.isidentifier() and any(word in _NAME.findall(other) for other in targets[:k]):
            do = f"write --wrt {options.wrt},{word}" if options.wrt else f"write {word}=1 for a value"
            raise BadOption(f"'{word}' is an input of another target, not a target", do=do)


def _quoted(words: Sequence[str]) -> str:
    values = [word for word in words[1:] if _ASSIGNMENT.fullmatch(word)]
    return " ".join((f'"{" ".join(word for word in words if word not in values)}"', *values))


def _lines(
    world: World, at: tuple[str, ...], claim: tuple[str, str] | None, wrt: str | None
) -> Iterator[TargetRequest]:
    for number, line in world.lines():
        text = line.strip()
        if text and not text.startswith("#"):
            ask = (
                _object(text, number, at, claim, wrt)
                if text.startswith("{")
                else TargetRequest(text, at, claim, wrt, number)
            )
            yield replace(ask, text=text)


def only(found: Iterator[TargetRequest]) -> TargetRequest:
    """Return the one target of a command that takes one. Raises BadOption."""
    targets = list(found)
    if len(targets) != 1:
        raise BadOption(f"this command takes one target, not {len(targets)}", do="run it once for each")
    return targets[0]


def several(words: Sequence[str]) -> bool:
    """Whether the words of the command line name more than one target, or standard input."""
    return words[:1] == ["-"] or sum(k == 0 or not _ASSIGNMENT.fullmatch(w) for k, w in enumerate(words)) > 1


def _object(
    text: str, number: int, at: tuple[str, ...], claim: tuple[str, str] | None, wrt: str | None
) -> TargetRequest:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return TargetRequest(text, at, claim, wrt, number, problem="this line is not a JSON object")
    here, grad = found.get("at"), found.get("grad")
    if (
        set(found) - {"target", "grad", "at", "wrt"}
        or not all(isinstance(found.get(key, ""), str) for key in ("target", "wrt"))
        or "target" not in found
        or not isinstance(here, str | dict | None)
        or not isinstance(grad, str | dict | None)
    ):
        says = "a line's object has target, grad, at and wrt, as texts (grad and at also as objects)"
        return TargetRequest(text, at, claim, wrt, number, problem=says)
    try:
        said = grad if not isinstance(grad, dict) else ", ".join(f"{n}={_written(n, g, True)}" for n, g in grad.items())
    except BadPoint as error:
        return TargetRequest(text, at, claim, wrt, number, problem=error.what)
    points = (*at, here) if isinstance(here, str) else at
    values = here if isinstance(here, dict) else {}
    own = tuple(text for text in (said, here) if isinstance(text, str))
    claimed = ("grad", said) if said is not None else claim
    return TargetRequest(found["target"], points, claimed, found.get("wrt", wrt), number, values, own=own)


def with_values(ask: TargetRequest) -> tuple[str, ...]:
    """Return the point's texts, a JSON object's values among them written out.

    Raises  BadPoint for a value that is not numeric.
    """
    if ask.problem is not None:
        raise BadOption(ask.problem, do='write {"target": "x*y", "at": {"x": 1, "y": 2}}')
    if ask.line is not None and not ask.may_run:
        for text in (ask.target, *ask.own):
            if is_python(text):
                says = f"'{text}' names Python code, which standard input may not run"
                raise NotSupported(says, do="allow it: --allow-python")
    if not all(name.isidentifier() for name in ask.values):
        raise BadPoint("a key of `at` is not the name of an input", do="use the inputs' names as keys")
    written = [f"{name}={_written(name, x)}" for name, x in ask.values.items()]
    return (*ask.at, ", ".join(written)) if written else ask.at


def _written(name: str, x: Any, formulas: bool = False) -> str:
    """Return a value as `--at` or `--grad` has it; of a claim, a text is a formula. Raises BadPoint."""
    if formulas and isinstance(x, str):
        return x
    if isinstance(x, bool) or not isinstance(x, int | float | list):
        raise BadPoint(f"{name} is not a number or a list of numbers", do=f'write {{"{name}": 0.5}}')
    if isinstance(x, list):
        return "[" + ", ".join(_written(name, part) for part in x) + "]"
    return repr(x)
