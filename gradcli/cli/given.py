"""Turn the rows of the table of options into commands for typer, and the given options into values."""

import difflib
import inspect
import re
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer

from gradcli.cli.world import World
from gradcli.errors import BadOption, FunctionFailed, OutOfTime, ProcessEnded
from gradcli.request.option_values import Option, RandomSeed, seed_words
from gradcli.request.options import Options, rows_of

TARGETS = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[TARGET]... [NAME=VALUE]...",
        help="Expressions or file.py:name, then values; - reads lines from standard input; none: the project's checks.",
        show_default=False,
    ),
]
TARGET = Annotated[
    list[str],
    typer.Argument(
        metavar="TARGET [NAME=VALUE]...", help="An expression or file.py:name, then values.", show_default=False
    ),
]
FILES = Annotated[
    list[str],
    typer.Argument(metavar="FILE...", help="JSON documents of gradcli check --shard K/N.", show_default=False),
]
_KEYWORD = inspect.Parameter.KEYWORD_ONLY


def command(
    name: str, body: Callable[..., Any], argument: Any = None, default: Any = inspect.Parameter.empty,
    rows: Sequence[Option] | None = None,
) -> Any:  # fmt: skip
    """Return a command for typer that calls `body(world, words, options)`; without `words` if there is no argument.

    It has the options of `rows`, or all that the table has for the command.
    """
    rows = rows_of(name) if rows is None else rows

    def run(context: typer.Context, **given: Any) -> Any:
        world: World = context.obj
        words = [given.pop("words")] if argument is not None else []
        values = {option.name: option.value(given[option.name]) for option in rows}
        if isinstance(values.get("seed"), RandomSeed):
            values["seed"] = world.link.seed(values["seed"])
        sources = {name: context.get_parameter_source(name) for name in values}
        on_line = frozenset(name for name, source in sources.items() if source and source.name == "COMMANDLINE")
        options = Options(**values, given=on_line)
        try:
            return body(world, *words, options)
        except (FunctionFailed, ProcessEnded, OutOfTime) as error:
            if options.seed_is_random:
                again = f"{' '.join(seed_words(options.seed))} draws the same values"
                error.do = again if error.do is None else f"{error.do}; {again}"
            raise

    parameters = [inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)]
    if argument is not None:
        parameters.append(inspect.Parameter("words", _KEYWORD, annotation=argument, default=default))
    parameters += map(_parameter, rows)
    run.__doc__ = body.__doc__
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _parameter(option: Option) -> inspect.Parameter:
    shown, kind = _on_the_line(option)
    about = typer.Option(
        *option.flags, metavar=option.metavar or None, help=option.help, rich_help_panel=option.group,
        min=option.low, max=option.high, show_default=shown is not None and option.kind is not bool,
        hidden=option.hidden,
    )  # fmt: skip
    return inspect.Parameter(option.name, _KEYWORD, default=shown, annotation=Annotated[kind, about])


def _on_the_line(option: Option) -> tuple[Any, Any]:
    """Return the default of an option on the command line, and the type of its value there."""
    if option.repeated:
        return None, list[str] | None
    if option.default is None or option.default in ((), frozenset()):
        return None, option.kind | None
    return (str(option.default) if option.kind is str else option.default), option.kind


# Rearrange the command line for the parser: targets may begin with `-`, and options may stand anywhere.

_JOINED = re.compile(r"(-[kn])(\w+)")  # in one word
_X_HAS_A_VALUE = re.compile(r"[^\W\d]\w*\s*=(?!=)")
_STEPS = ("--eps", "--step", "--rel-step", "--epsilon", "--delta", "--stepsize", "--step-size")
_OF_PROGRAMS = ("run",)  # commands whose options end where the command of a program begins
_TO_FILES = {
    "--json": "standard output is the program's: write --out report.json",
    "--format": "standard output is the program's: write --out report.json, .md, .csv or .txt",
}
_STEP = "write --h for a fixed step; without it gradcli chooses steps itself"


def arranged(argv: list[str], app: Any) -> list[str]:
    """Return the arguments in order: the command, its options, `--`, and all other words in their original order.

    A word that begins with one `-` and is no declared option is an argument, such as `-x**2`. Short options cannot be
    combined into one word.

    Raises  BadOption for an unknown command or option, with the nearest known name, and for a missing value.
    """
    if not argv:
        return ["--help"]
    name, rest = argv[0], argv[1:]
    if name in ("-h", "--help"):
        return ["--help"]
    if name in ("--install-completion", "--show-completion"):
        return argv
    if name == "help":
        return arranged([*rest[:1], "--help"], app)
    if name not in app.commands:
        raise BadOption(
            f"there is no command '{name}'",
            do=_near(name, list(app.commands), 0.5) or f"commands: {', '.join(app.commands)}",
        )
    return [name, *arranged_for(name, rest, app.commands[name], f"gradcli {name}")]


def arranged_for(name: str, words: list[str], command: Any, called: str) -> list[str]:
    """Return the arguments of one command in order: its options, `--`, and all other words.

    `called` is how messages call the command. Raises  BadOption as `arranged` does.
    """
    options, arguments = _sorted(name, words, command, called)
    if name == "check":
        _refuse_joined(words, options, arguments)
    return [*options, "--", *arguments]


def _refuse_joined(words: list[str], options: list[str], arguments: list[str]) -> None:
    """Refuse `-n2` and `-kfoo`, and `-x` that may be meant as the expression. Raises BadOption."""
    for word in words[: words.index("--") if "--" in words else None]:
        match = _JOINED.fullmatch(word)
        if match is not None:
            says = f"write {match[1]} {match[2]}; for the expression {word} write: gradcli check -- {word}"
            raise BadOption(f"'{word}' is an option and its value in one word", do=says)
    if "-x" in options and arguments and all(_X_HAS_A_VALUE.match(word) for word in arguments):
        raise BadOption(
            "-x stops at the first failure, and x has a value", do="for the expression -x write: gradcli check -- -x"
        )


def _sorted(name: str, words: list[str], command: Any, called: str) -> tuple[list[str], list[str]]:
    takes_value = _declared(command)
    options: list[str] = []
    arguments: list[str] = []
    k = 0
    while k < len(words):
        word = words[k]
        option, equals, _ = word.partition("=")
        k += 1
        if word == "--":
            arguments += words[k:]
            break
        if option in takes_value and (not equals or option.startswith("--")):
            options.append(word)
            if takes_value[option] and not equals:
                if k == len(words):
                    raise BadOption(f"{option} needs a value", do=f"{called} --help")
                options.append(words[k])
                k += 1
        elif word.startswith("--"):
            do = _STEP if option in _STEPS and "--h" in takes_value else _near(option, list(takes_value), 0.7)
            do = _TO_FILES.get(option, do) if name in _OF_PROGRAMS else do
            shown = called.removeprefix("gradcli ")
            raise BadOption(f"there is no option '{option}' for {shown}", do=do or f"{called} --help")
        elif name in _OF_PROGRAMS:
            arguments += words[k - 1 :]  # all that follows is the program's
            break
        else:
            arguments.append(word)
    return options, arguments


def _declared(command: Any) -> dict[str, bool]:
    """Return the options of a command, and whether each takes a value."""
    found = {"--help": False, "-h": False}
    for parameter in command.params:
        if getattr(parameter, "param_type_name", "") == "option":
            takes = not (parameter.is_flag or getattr(parameter, "count", False))
            found |= dict.fromkeys([*parameter.opts, *parameter.secondary_opts], takes)
    return found


def _near(word: str, known: list[str], alike: float) -> str | None:
    """Return a hint with the known word most similar to this one; `alike` is the least similarity by difflib, 0 to 1."""
    near = difflib.get_close_matches(word, known, 1, alike) or [k for k in known if k.startswith(word)][:1]
    if near:
        return f"did you mean '{near[0]}'?"
    return None
