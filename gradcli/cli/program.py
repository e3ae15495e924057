"""The command line program, made from its commands."""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import typer
from typer.main import get_command

from gradcli.cli import check, derive, find, init, listings, run, serve, studies
from gradcli.cli.command_line import (
    FILES,
    HELP_ALL,
    TARGET,
    TARGETS,
    AllCommands,
    Command,
    make_command,
    separate_examples,
)

ABOUT = """The referee for gradients: computes a gradient in several independent ways, says whether they agree and how far
each can be trusted, and checks yours.

An expression is data: nothing in it is executed.

    gradcli check "sin(x*y) + exp(-x**2)" x=0.5 y=1.2

    gradcli check "sum(log(x))" --grad "1/x" --at "x=[1, 2, 3]"

    gradcli compare-modes "sum(tanh(W@x)**2)" --shapes "W: 3 4; x: 4"

Exit status: 0 confirmed, 1 a gradient is wrong, 2 the request could not be carried out, 3 inconclusive, 70 internal error.
"""


class Body(NamedTuple):
    """One command: the function that carries it out, its argument, if it has one, its examples, and a summary."""

    body: Callable[..., Any]
    argument: Any
    examples: str | None
    summary: str


COMMANDS: dict[str, Body] = {
    "check": Body(check.check, TARGETS, check.EXAMPLES, "Verify a gradient, or one you claim (--grad)."),
    "compare-modes": Body(
        studies.compare_modes, TARGET, studies.COMPARE_MODES_EXAMPLES, "Set all modes side by side: digits and cost.",
    ),
    "sweep": Body(studies.sweep, TARGET, studies.SWEEP_EXAMPLES, "Show error against step size; choose a step."),
    "cost": Body(studies.cost, TARGETS, studies.COST_EXAMPLES, "Count passes, operations and bytes of a gradient."),
    "derive": Body(derive.derive, TARGET, derive.EXAMPLES, "Derive a closed form, with steps and code."),
    "grad": Body(studies.grad, TARGET, studies.GRAD_EXAMPLES, "Print only the gradient, for another program."),
    "trace": Body(studies.trace, TARGET, studies.TRACE_EXAMPLES, "Walk through backpropagation, line by line."),
    "merge": Body(check.merge, FILES, check.MERGE_EXAMPLES, "Put the documents of shards together."),
    "find": Body(find.find, find.PATHS, find.EXAMPLES, "List the hand-written gradients, and the checks that cover them."),
    "init": Body(init.init, None, init.EXAMPLES, "Write a suite of checks for the gradients that gradcli find lists."),
    "run": Body(run.run, run.WORDS, run.EXAMPLES, "Run a program, and check the gradients that it uses."),
    "modes": Body(listings.modes, None, None, "List the modes and devices available here."),
    "ops": Body(listings.ops, listings.OPS_NAME, listings.OPS_EXAMPLES, "List the functions and their derivatives."),
    "explain": Body(listings.explain, listings.EXPLAIN_KIND, listings.EXPLAIN_EXAMPLES, "Say what a finding or diagnosis means."),
    "mcp": Body(serve.mcp, None, serve.MCP_EXAMPLES, "Serve agents: the Model Context Protocol."),
    "lsp": Body(serve.lsp, None, serve.LSP_EXAMPLES, "Serve editors: the Language Server Protocol."),
    "schema": Body(listings.schema, listings.SCHEMA_NAME, listings.SCHEMA_EXAMPLES, "Print the JSON Schema of a document."),
}  # fmt: skip


@cache
def make_parser(name: str = "") -> Any:
    """Return the parser of the command line, with one command alone if `name` is one, else with all."""
    app = typer.Typer(
        name="gradcli", cls=AllCommands, help=ABOUT, add_completion=True, rich_markup_mode=None, no_args_is_help=True,
        context_settings={"help_option_names": ["-h", "--help"]},
    )  # fmt: skip
    for each in [name] if name in COMMANDS else COMMANDS:
        body, argument, examples, summary = COMMANDS[each]
        made = make_command(each, body.__doc__, argument)
        asks = {"help_option_names": ["-h", "--help", HELP_ALL]}
        app.command(each, epilog=separate_examples(examples), short_help=summary, cls=Command, context_settings=asks)(
            made
        )
    app.callback()(_accept_version_option)
    return get_command(app)


def _accept_version_option(version: bool = typer.Option(False, "--version", "-V", help="Print the version.")) -> None:
    """Run before every command; `--version` itself is answered before the commands are loaded."""


_accept_version_option.__doc__ = ABOUT
