"""Read the words of a command, once, in the process that starts; nothing heavy is imported for it.

The rows of the table of options become the options of typer's commands, and what typer reads becomes a `CommandLine`.
"""

import contextlib
import difflib
import inspect
import itertools
import json
import re
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, NamedTuple, Self, get_args

import typer
from typer.core import TyperCommand, TyperGroup

from gradcli.classes import dataclass
from gradcli.cli.world import World
from gradcli.errors import BadOption, GradcliError
from gradcli.request.option_values import RandomSeed
from gradcli.request.options import GROUPS, Option, Options, options_of_command

HELP_ALL = "--help-all"


def argument(kind: Any, metavar: str, help: str) -> Any:
    """Return the type of the argument of a command, with what its help shows; it can be left out where it may be None."""
    return Annotated[kind, typer.Argument(metavar=metavar, help=help, show_default=False)]


TARGETS = argument(
    list[str] | None, "[TARGET]... [NAME=VALUE]...",
    "Expressions or file.py:name, then values; a folder or a module: the gradients in it; - reads lines from standard "
    "input; none: the project's checks.",
)  # fmt: skip
TARGET = argument(list[str], "TARGET [NAME=VALUE]...", "An expression or file.py:name, then values.")
FILES = argument(list[str], "FILE...", "JSON documents of gradcli check --shard K/N.")
_KEYWORD = inspect.Parameter.KEYWORD_ONLY
_DATA = ("json", "ndjson", "brief")  # formats for programs, in which an error is written on standard output, too
_NEED_A_PROCESS = ("allow_python", "timeout", "recorded")  # options whose command needs a process of its own
_IN_THIS_PROCESS = ("find", "init", "mcp", "lsp")  # commands that run no Python code of the user's themselves


class ErrorForm(NamedTuple):
    """How an error is printed: the format for programs, if any; colour (None: where the stream has it); a traceback."""

    data: str | None
    color: bool | None
    traceback: bool


@dataclass(frozen=True)
class CommandLine:
    """A command as it was typed: all that a process needs to carry it out, and data that can be written as JSON.

    `words` are its arguments, or the one that it may have; `given` are the options that were given, by name, as the parser
    reads them; `drawn` is the seed, where it was drawn for this run.
    """

    command: str
    words: list[str] | str | None
    given: Mapping[str, Any]
    drawn: int | None = None

    @cached_property
    def options(self) -> Options:
        """The values of all options. Raises BadOption."""
        rows = (row for row in options_of_command(self.command) if row.name in self.given)
        values = {row.name: row.value(self.given[row.name]) for row in rows}
        if self.drawn is not None:
            values["seed"] = RandomSeed(self.drawn)
        return Options(**values, given=frozenset(self.given))

    @property
    def error_form(self) -> ErrorForm:
        """How an error of this command is printed."""
        form = "json" if self.given.get("json") else self.given.get("format")
        return ErrorForm(form if form in _DATA else None, self.given.get("color"), bool(self.given.get("traceback")))

    @property
    def needs_child(self) -> bool:
        """Whether the command may run Python code of the user's, or has an option that needs a process of its own."""
        if self.command in _IN_THIS_PROCESS or self.given.get("watch"):
            return False
        if any(self.given.get(name) is not None for name in _NEED_A_PROCESS):
            return True
        found = (self.words, *self.given.values())
        texts = (text for x in found for text in ([x] if isinstance(x, str) else x if isinstance(x, list) else ()))
        return any(".py" in text or _names_a_member(text) for text in texts)

    def as_json(self) -> str:
        """Return the command as JSON, for a process of its own."""
        return json.dumps([self.command, self.words, self.given, self.drawn])

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the command that was written as JSON."""
        return cls(*json.loads(text))


def _names_a_member(word: str) -> bool:
    """Whether an argument contains a name, one or two colons, and a name, as in `package.module:name`."""
    pairs = itertools.pairwise(part for part in word.split(":") if part)
    return any((before[-1].isalnum() or before[-1] == "_") and after[0].isidentifier() for before, after in pairs)


def error_form_of(argv: Sequence[str]) -> ErrorForm:
    """Return how the error in a command is printed that cannot be read."""
    named = [a.removeprefix("--format=") for a in argv if a.startswith("--format=")]
    named += [b for a, b in itertools.pairwise(argv) if a == "--format"] + ["json"] * ("--json" in argv)
    is_program = [*argv[:1]] == ["run"]  # whose standard output it is
    data = None if is_program else next((form for form in named if form in _DATA), None)
    color = True if "--color" in argv else False if "--no-color" in argv else None
    return ErrorForm(data, color, "--traceback" in argv)


def parse_command(parser: Any, called: str, words: Sequence[str], world: World) -> CommandLine | int:
    """Return the command that a parser of typer's reads in words; the exit status where it has printed help.

    `called` is how messages call the program. Raises BadOption.
    """
    try:
        with (
            contextlib.redirect_stdout(world.stdout),
            parser.make_context(called, list(words), obj=HELP_ALL in words) as context,
        ):
            found: CommandLine | int = parser.invoke(context)
            return found
    except typer.Exit as end:
        return end.exit_code
    except GradcliError:
        raise
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise
        path = getattr(getattr(error, "ctx", None), "command_path", called)
        raise BadOption(error.format_message().rstrip("."), do=f"{path} --help") from None


def make_command(name: str, about: str | None, argument: Any, rows: Sequence[Option] | None = None) -> Any:
    """Return a command for typer that returns what it reads as a `CommandLine`; `about` is the text of its help.

    It has the options of `rows`, or all that the table has for the command.
    """
    rows = options_of_command(name) if rows is None else rows

    def run(context: typer.Context, **read: Any) -> CommandLine:
        words = read.pop("words", None)
        sources = {name: context.get_parameter_source(name) for name in read}
        given = {name: read[name] for name, source in sources.items() if source and source.name == "COMMANDLINE"}
        line = CommandLine(name, words, given)
        seed = line.options.seed
        return CommandLine(name, words, given, int(seed)) if isinstance(seed, RandomSeed) else line

    parameters = [inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)]
    if argument is not None:
        default = None if type(None) in get_args(argument.__origin__) else inspect.Parameter.empty
        parameters.append(inspect.Parameter("words", _KEYWORD, annotation=argument, default=default))
    parameters += map(_parameter_of_option, rows)
    run.__doc__ = about
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _parameter_of_option(option: Option) -> inspect.Parameter:
    """Return an option as a parameter, with its default on the command line, and the type of its value there."""
    shown: Any = str(option.default) if option.kind is str else option.default
    kind: Any = option.kind
    if option.repeated:
        shown, kind = None, list[str] | None
    elif option.default is None or option.default in ((), frozenset()):
        shown, kind = None, option.kind | None
    about = typer.Option(
        *option.flags, metavar=option.metavar or None, help=option.help, rich_help_panel=option.group,
        min=option.low, max=option.high, show_default=shown is not None and option.kind is not bool,
        hidden=option.hidden,
    )  # fmt: skip
    return inspect.Parameter(option.name, _KEYWORD, default=shown, annotation=Annotated[kind, about])


# Rearrange the command line for the parser: targets may begin with `-`, and options may stand anywhere.

_JOINED = re.compile(r"(-[kn])(\w+)")  # in one word
_DASHED = re.compile(r"-[^\W\d]\w*")
_X_HAS_A_VALUE = re.compile(r"[^\W\d]\w*\s*=(?!=)")
_OF_PROGRAMS = ("run",)  # commands whose options end where the command of a program begins
_TO_FILES = {
    "--json": "standard output is the program's: write --out report.json",
    "--format": "standard output is the program's: write --out report.json, .md, .csv, .xml, .sarif or .txt",
}
_OF_OTHER_TOOLS = {  # what options of other programs are called here, by the option
    "--h": ("write --h for a fixed step; without it gradcli chooses steps itself", (
        "--eps", "--step", "--rel-step", "--epsilon", "--delta", "--stepsize", "--step-size")),
    "--exitfirst": ("write --exitfirst, or -x", ("--fail-fast", "--failfast", "--maxfail", "--stop-on-first-failure")),
}  # fmt: skip


def arrange_words(argv: list[str], commands: Collection[str]) -> list[str]:
    """Return the arguments in order: one of the commands, its options, `--`, and all other words in their original order.

    A word that begins with one `-` and is no option is an argument, such as `-x**2`. Short options cannot be
    combined into one word.

    Raises  BadOption for an unknown command or option, with the nearest known name, and for a missing value.
    """
    if not argv:
        return ["--help"]
    name, rest = argv[0], argv[1:]
    if name in ("-h", "--help", HELP_ALL):
        return ["--help"]
    if name in ("--install-completion", "--show-completion"):
        return argv
    if name == "help":
        return arrange_words([*rest[:1], "--help"], commands)
    if name not in commands:
        near = _hint_nearest_word(name, list(commands), 0.5)
        raise BadOption(f"there is no command '{name}'", do=near or f"commands: {', '.join(commands)}")
    return [name, *arrange_command_words(name, rest, options_of_command(name), f"gradcli {name}")]


def arrange_command_words(name: str, words: list[str], rows: Sequence[Option], called: str) -> list[str]:
    """Return the arguments of one command in order: its options, `--`, and all other words.

    `called` is how messages call the command. `-n2` and `-kfoo` are refused, and `-x` that may be meant as the expression.

    Raises  BadOption as `arrange_words` does.
    """
    takes_value = flags_of(rows)
    options: list[str] = []
    arguments: list[str] = []
    k = 0
    while k < len(words):
        word = words[k]
        option, equals, value = word.partition("=")
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
            do = _hint_nearest_word(option, [flag for flag in takes_value if flag.startswith("--")], 0.7)
            if do is None and equals and option[2:].isidentifier():
                do = f"the value of an input has no dashes: {option[2:]}={value}"
            for own, (says, others) in _OF_OTHER_TOOLS.items():
                do = says if option in others and own in takes_value else do
            do = _TO_FILES.get(option, do) if name in _OF_PROGRAMS else do
            shown = called.removeprefix("gradcli ")
            raise BadOption(f"there is no option '{option}' for {shown}", do=do or f"{called} --help")
        elif name in _OF_PROGRAMS:
            arguments += words[k - 1 :]  # all that follows is the program's
            break
        elif equals and _DASHED.fullmatch(option) and not takes_value.get(option) and not value.startswith("="):
            says, do = f"'{word}' is no option and no expression", f"the value of an input has no dashes: {word[1:]}"
            raise BadOption(says, do=do)
        else:
            arguments.append(word)
    if name != "check":
        return [*options, "--", *arguments]
    for word in words[: words.index("--") if "--" in words else None]:
        match = _JOINED.fullmatch(word)
        if match is not None:
            do = f"write {match[1]} {match[2]}; for the expression {word} write: gradcli check -- {word}"
            raise BadOption(f"'{word}' is an option and its value in one word", do=do)
    if "-x" in options and arguments and all(_X_HAS_A_VALUE.match(word) for word in arguments):
        do = "for the expression -x write: gradcli check -- -x"
        raise BadOption("-x stops at the first failure, and x has a value", do=do)
    return [*options, "--", *arguments]


def flags_of(rows: Sequence[Option]) -> dict[str, bool]:
    """Return the flags of options, and whether each takes a value."""
    found = {"--help": False, "-h": False, HELP_ALL: False}
    return found | {flag: row.kind is not bool for row in rows for word in row.flags for flag in word.split("/")}


def _hint_nearest_word(word: str, known: list[str], alike: float) -> str | None:
    """Return a hint with the known word most similar to this one; `alike` is the least similarity by difflib, 0 to 1."""
    near = difflib.get_close_matches(word, known, 1, alike) or [k for k in known if k.startswith(word)]
    return f"did you mean '{near[0]}'?" if near else None


# Help pages: what a command does, examples, then its options in groups; `--help-all` shows also those that few need.

_OTHERS = "Other"


class _AsTyped:
    """What typer asks for the value of a parameter: the word itself, as the table of options converts it."""

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        return list(value or ()) if param.multiple or param.nargs == -1 else value


class _Words:
    """What has parameters; typer itself would import pydantic to convert their values, for a sixth of the time of a check."""

    def get_params(self, ctx: Any) -> list[Any]:
        found: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for parameter in found:
            parameter._runtime_param = _AsTyped()
        return found


class AllCommands(_Words, TyperGroup):
    """All commands together."""


class Command(_Words, TyperCommand):
    """A command whose help shows examples before options, and options in groups."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        self.format_usage(ctx, formatter)
        self.format_help_text(ctx, formatter)
        self.format_epilog(ctx, formatter)
        self.format_options(ctx, formatter)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return ["[OPTIONS]", *(_metavar(p) for p in self.get_params(ctx) if p.param_type_name == "argument")]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        found: dict[str, list[tuple[str, str]]] = {}
        of_few = [row.name for row in options_of_command(str(self.name)) if row.rare]
        rare = () if ctx.obj else of_few  # obj: whether all are asked for
        for parameter in self.get_params(ctx):
            if parameter.name in rare or HELP_ALL in parameter.opts:
                continue
            if parameter.param_type_name == "argument":
                found.setdefault("Arguments", []).append((_metavar(parameter), str(getattr(parameter, "help", ""))))
            elif (record := parameter.get_help_record(ctx)) is not None:
                found.setdefault(getattr(parameter, "rich_help_panel", None) or _OTHERS, []).append(record)
        found.setdefault(_OTHERS, []).append(("-h, --help", "Show this and exit."))
        if of_few:
            found[_OTHERS].append((HELP_ALL, f"Show all options: {len(of_few)} more, which few people need."))
        for group in ("Arguments", *GROUPS, _OTHERS):
            if group in found:
                with formatter.section(group):
                    formatter.write_dl(found[group])


def _metavar(parameter: Any) -> str:
    return str(parameter.metavar or parameter.name.upper())


def separate_examples(text: str | None) -> str | None:
    """Return the examples of a command, a line each, as its help shows them: an empty line before each."""
    return None if text is None else "Examples:" + text.replace("\n", "\n\n")
