"""Turn the rows of the table of options into commands for typer, and the given options into values."""

import inspect
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer

from gradcli.cli.world import World
from gradcli.errors import FunctionFailed, OutOfTime, ProcessEnded
from gradcli.request.option_rows import Option
from gradcli.request.option_values import RandomSeed, seed_words
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
