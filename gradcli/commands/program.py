"""The program: its commands."""

from functools import cache
from typing import Any

import typer
from typer.main import get_command

from gradcli.commands import check, compare_modes, derive, given, grad, modes, ops, schema, sweep, trace

ABOUT = """The referee for gradients: computes a gradient in several independent ways, says whether they agree and how far
each can be trusted, and checks yours.

An expression is data: nothing in it is executed.

    gradcli check "sin(x*y) + exp(-x**2)" x=0.5 y=1.2

    gradcli check "sum(log(x))" --grad "1/x" --at "x=[1, 2, 3]"

    gradcli compare-modes "sum(tanh(W@x)**2)" --shapes "W: 3 4; x: 4"

Exit status: 0 confirmed, 1 a gradient is wrong, 2 the request could not be carried out, 3 inconclusive, 70 internal error.
"""


@cache
def command() -> Any:
    """Return the whole command line."""
    app = typer.Typer(
        name="gradcli", help=ABOUT, add_completion=False, rich_markup_mode=None, no_args_is_help=True,
        context_settings={"help_option_names": ["-h", "--help"]},
    )  # fmt: skip
    app.command("check", epilog=check.EXAMPLES)(given.command("check", check.check, given.TARGETS))
    for name, body, examples in (
        ("compare-modes", compare_modes.compare_modes, compare_modes.EXAMPLES), ("sweep", sweep.sweep, sweep.EXAMPLES),
        ("derive", derive.derive, derive.EXAMPLES), ("grad", grad.grad, grad.EXAMPLES), ("trace", trace.trace, trace.EXAMPLES),
    ):  # fmt: skip
        app.command(name, epilog=examples)(given.command(name, body, given.TARGET))
    app.command("modes")(given.command("modes", modes.modes))
    app.command("ops", epilog=ops.EXAMPLES)(given.command("ops", ops.ops, ops.NAME, None))
    app.command("schema", epilog=schema.EXAMPLES)(schema.schema)
    app.callback()(_version)
    return get_command(app)


def _version(version: bool = typer.Option(False, "--version", "-V", help="Print the version.")) -> None:
    """Run before every command; `--version` itself is answered before the commands are loaded."""


_version.__doc__ = ABOUT
