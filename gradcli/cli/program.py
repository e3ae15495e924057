"""The command line program, made from its commands."""

from functools import cache
from typing import Any

import typer
from typer.main import get_command

from gradcli.cli import (
    check,
    compare_modes,
    derive,
    explain,
    find,
    given,
    grad,
    init,
    merge,
    modes,
    ops,
    run,
    schema,
    sweep,
    trace,
)
from gradcli.cli.help import Command

ABOUT = """The referee for gradients: computes a gradient in several independent ways, says whether they agree and how far
each can be trusted, and checks yours.

An expression is data: nothing in it is executed.

    gradcli check "sin(x*y) + exp(-x**2)" x=0.5 y=1.2

    gradcli check "sum(log(x))" --grad "1/x" --at "x=[1, 2, 3]"

    gradcli compare-modes "sum(tanh(W@x)**2)" --shapes "W: 3 4; x: 4"

Exit status: 0 confirmed, 1 a gradient is wrong, 2 the request could not be carried out, 3 inconclusive, 70 internal error.
"""


COMMANDS: dict[str, tuple[Any, Any, str | None, str]] = {  # the function, its argument, its examples, a summary
    "check": (check.check, given.TARGETS, check.EXAMPLES, "Verify a gradient, or one you claim (--grad)."),
    "compare-modes": (
        compare_modes.compare_modes, given.TARGET, compare_modes.EXAMPLES, "Set all modes side by side: digits and cost.",
    ),
    "sweep": (sweep.sweep, given.TARGET, sweep.EXAMPLES, "Show error against step size; choose a step."),
    "derive": (derive.derive, given.TARGET, derive.EXAMPLES, "Derive a closed form, with steps and code."),
    "grad": (grad.grad, given.TARGET, grad.EXAMPLES, "Print the gradient alone, to pipe."),
    "trace": (trace.trace, given.TARGET, trace.EXAMPLES, "Walk through backpropagation, line by line."),
    "merge": (merge.merge, given.FILES, merge.EXAMPLES, "Put the documents of shards together."),
    "find": (find.find, find.PATHS, find.EXAMPLES, "List the hand-written gradients, and the checks that cover them."),
    "init": (init.init, None, init.EXAMPLES, "Write a suite of checks for what find finds."),
    "run": (run.run, run.WORDS, run.EXAMPLES, "Run a program, and check the gradients that it uses."),
    "modes": (modes.modes, None, None, "List the modes and devices available here."),
    "ops": (ops.ops, ops.NAME, ops.EXAMPLES, "List the functions and their derivatives."),
    "explain": (explain.explain, explain.KIND, explain.EXAMPLES, "Say what a finding or diagnosis means."),
    "schema": (schema.schema, None, schema.EXAMPLES, "Print the JSON Schema of a document."),
}  # fmt: skip


_OPTIONAL = ("check", "explain", "find", "ops")  # whose argument can be left out


@cache
def command() -> Any:
    """Return the command line program with all commands."""
    app = typer.Typer(
        name="gradcli", help=ABOUT, add_completion=True, rich_markup_mode=None, no_args_is_help=True,
        context_settings={"help_option_names": ["-h", "--help"]},
    )  # fmt: skip
    for name, (body, argument, examples, short) in COMMANDS.items():
        default = {} if name not in _OPTIONAL else {"default": None}
        made = body if name == "schema" else given.command(name, body, argument, **default)
        app.command(name, epilog=examples, short_help=short, cls=Command)(made)
    app.callback()(_version)
    return get_command(app)


def _version(version: bool = typer.Option(False, "--version", "-V", help="Print the version.")) -> None:
    """Run before every command; `--version` itself is answered before the commands are loaded."""


_version.__doc__ = ABOUT
