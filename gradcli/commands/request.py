"""From the words of the command line to requests."""

import json
import re
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from gradcli.errors import BadOption, BadPoint, NotSupported
from gradcli.source.targets import is_python
from gradcli.source.tokens import folded
from gradcli.words import ALLOWED
from gradcli.world import World

if TYPE_CHECKING:
    from gradcli.frameworks.framework import Natively
    from gradcli.modes.stepping import Stepping

_ASSIGNMENT = re.compile(r"\s*[^\W\d]\w*\s*=(?!=)[^;\n]*")
_DURATION = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*(ms|s|min|m|h)?\s*")
_UNITS = {"ms": 1e-3, "s": 1.0, None: 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


@dataclass(frozen=True, slots=True)
class Ask:
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


def asks(
    words: Sequence[str],
    at: Sequence[str] | None,
    world: World,
    claim: tuple[str, str] | None = None,
    wrt: str | None = None,
    allow_python: bool = False,
) -> Iterator[Ask]:
    """Yield one ask for each target, NAME=VALUE arguments merged into the point; `-` is a line each of standard input.

    Raises  BadOption, NotSupported.
    """
    targets = [word for k, word in enumerate(words) if k == 0 or not _ASSIGNMENT.fullmatch(word)]
    assigned = tuple(word for k, word in enumerate(words) if k > 0 and _ASSIGNMENT.fullmatch(word))
    if not targets:
        raise BadOption("there is no target", do='write one: gradcli check "sin(x*y)"')
    common = (*(at or ()), *assigned)
    for word, target in enumerate(targets):
        if target == "-":
            for ask in _lines(world, common, claim, wrt):
                yield replace(ask, may_run=allow_python, word=word)
        else:
            yield Ask(target, common, claim, wrt, word=word)


def _lines(world: World, at: tuple[str, ...], claim: tuple[str, str] | None, wrt: str | None) -> Iterator[Ask]:
    for number, line in world.lines():
        text = line.strip()
        if text and not text.startswith("#"):
            ask = _object(text, number, at, claim, wrt) if text.startswith("{") else Ask(text, at, claim, wrt, number)
            yield replace(ask, text=text)


def only(found: Iterator[Ask]) -> Ask:
    """Return the one target of a command that takes one. Raises BadOption."""
    targets = list(found)
    if len(targets) != 1:
        raise BadOption(f"this command takes one target, not {len(targets)}", do="run it once for each")
    return targets[0]


def several(words: Sequence[str]) -> bool:
    """Whether the words of the command line name more than one target, or standard input."""
    return (
        words[:1] == ["-"]
        or "-" in words
        or sum(k == 0 or not _ASSIGNMENT.fullmatch(w) for k, w in enumerate(words)) > 1
    )


def _object(text: str, number: int, at: tuple[str, ...], claim: tuple[str, str] | None, wrt: str | None) -> Ask:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return Ask(text, at, claim, wrt, number, problem="this line is not a JSON object")
    here = found.get("at")
    texts_only = all(isinstance(found.get(key, ""), str) for key in ("target", "grad", "wrt"))
    if (
        set(found) - {"target", "grad", "at", "wrt"}
        or not texts_only
        or "target" not in found
        or not isinstance(here, str | dict | None)
    ):
        return Ask(
            text,
            at,
            claim,
            wrt,
            number,
            problem="a line's object has target, grad, at and wrt, as texts (at also as an object)",
        )
    points = (*at, here) if isinstance(here, str) else at
    values = here if isinstance(here, dict) else {}
    own = tuple(text for text in (found.get("grad"), here) if isinstance(text, str))
    claimed = ("grad", found["grad"]) if "grad" in found else claim
    return Ask(found["target"], points, claimed, found.get("wrt", wrt), number, values, own=own)


def with_values(ask: Ask) -> tuple[str, ...]:
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
        raise BadPoint("a name in `at` is no name of an input", do="use the inputs' names as keys")
    written = [f"{name}={_written(name, x)}" for name, x in ask.values.items()]
    return (*ask.at, ", ".join(written)) if written else ask.at


def _written(name: str, x: Any) -> str:
    if isinstance(x, bool) or not isinstance(x, int | float | list):
        raise BadPoint(f"{name} is not a number or a list of numbers", do=f'write {{"{name}": 0.5}}')
    if isinstance(x, list):
        return "[" + ", ".join(_written(name, part) for part in x) + "]"
    return repr(x)


def claiming_of(**claims: str | None) -> tuple[str, str] | None:
    """Return the one claim among the options, with its kind. Raises BadOption for two."""
    given = [(kind, text) for kind, text in claims.items() if text is not None]
    if len(given) > 1:
        raise BadOption(f"--{given[0][0]} and --{given[1][0]} are two claims", do="check one at a time")
    return given[0] if given else None


def seed_of(text: str) -> int:
    """Return the seed that `--seed` names. Raises BadOption."""
    if text.strip() == "random":
        return secrets.randbelow(2**31)
    if not text.strip().isdecimal() or len(text.strip()) > 18:
        raise BadOption(f"--seed takes a whole number or 'random', not '{text}'", do="write --seed 0")
    return int(text)


def words_of(text: str | None) -> tuple[str, ...]:
    """Return the words of a list with commas."""
    return tuple(part.strip() for part in (text or "").split(",") if part.strip())


def formats_of(text: str | None) -> tuple[str, ...]:
    """Return the formats that `--dtype` names. Raises BadOption for none."""
    found = words_of(text)
    if text is not None and not found:
        raise BadOption("--dtype names no format", do="write --dtype float16,bfloat16")
    return found


def limit_of(text: str | None, option: str) -> float | None:
    """Return the seconds in `90s`, `2min` or `500ms`; None without one. Raises BadOption."""
    if text is None:
        return None
    match = _DURATION.fullmatch(text)
    if match is None or float(match[1]) <= 0:
        raise BadOption(f"{option} takes a time, not '{text}'", do=f"write {option} 10s, {option} 2min")
    return float(match[1]) * _UNITS[match[2]]


def stepping_of(
    h: float | None, bounds: Sequence[str] | None, scales: Sequence[str] | None, budget: int | None
) -> "Stepping":
    """Return what the options say of steps. Raises BadOption."""
    from gradcli.modes.stepping import Stepping

    edges = {}
    for name, text in _named("--bounds", bounds, "k=0:inf"):
        low, colon, high = text.partition(":")
        edges[name] = (_number(low, "--bounds", -float("inf")), _number(high, "--bounds", float("inf")))
        if not colon:
            raise BadOption(f"--bounds takes NAME=LOW:HIGH, not '{name}={text}'", do='write --bounds "k=0:inf"')
    sizes = {name: _number(text, "--scale", 0.0) for name, text in _named("--scale", scales, "x=1e-3")}
    return Stepping(h, edges, sizes, budget)


def _named(option: str, texts: Sequence[str] | None, example: str) -> Iterator[tuple[str, str]]:
    seen = set()
    for part in (part.strip() for text in texts or () for part in text.split(",") if part.strip()):
        name, equals, value = part.partition("=")
        if not equals or not name.strip():
            raise BadOption(f"{option} takes NAME=..., not '{part}'", do=f'write {option} "{example}"')
        name = folded(name.strip())
        if name in seen:
            raise BadOption(f"{option} names '{name}' twice", do="leave one out")
        seen.add(name)
        yield name, value.strip()


def _number(text: str, option: str, absent: float) -> float:
    if not text.strip():
        return absent
    try:
        return float(text)
    except ValueError:
        raise BadOption(
            f"{option} takes numbers, not '{text.strip()}'", do="write numbers such as 1e-3, -1, inf"
        ) from None


def natively_of(
    framework: str | None,
    dtype: str | None,
    device: str | None,
    compiles: bool,
    localises: bool,
    expect: str | None,
    autocast: str | None,
) -> "Natively":
    """Return what the options say of a framework's function. Raises BadOption."""
    from gradcli.frameworks.framework import EPS, EXPECTED, KNOWN, MIXED, Natively
    from gradcli.source.names import nearest

    words = (
        ("--framework", framework, (*KNOWN, "numpy")), ("--dtype", dtype, tuple(EPS)), ("--autocast", autocast, MIXED),
    )  # fmt: skip
    for option, word, known in words:
        if word is not None and word not in known:
            near = nearest(word, known)
            raise BadOption(
                f"{option} does not know '{word}'",
                do=f"did you mean '{near}'?" if near else f"it knows {', '.join(known)}",
            )
    expected = frozenset(words_of(expect))
    if expected - EXPECTED:
        raise BadOption(
            f"--expect does not know {min(expected - EXPECTED)}", do=f"it knows {', '.join(sorted(EXPECTED))}"
        )
    return Natively(framework, dtype, device, compiles, localises, expected, autocast)


def kinds_of(text: str | None) -> frozenset[str]:
    """Return the findings that `--allow` names, with blanks or hyphens. Raises BadOption."""
    slugs = {kind.replace(" ", "-"): kind for kind in ALLOWED}
    wanted = frozenset(slugs.get(word, word) for word in words_of(text))
    unknown = wanted - set(ALLOWED)
    if unknown:
        raise BadOption(f"--allow does not know {', '.join(sorted(unknown))}", do=f"kinds: {', '.join(ALLOWED)}")
    return wanted
