"""The command line: read a command and carry it out, and turn every outcome into an exit status."""

import contextlib
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import typer
from typer.main import get_command

from gradcli.cli import check, find, listings, studies
from gradcli.cli import run as programs
from gradcli.cli.command_line import (
    FILES,
    HELP_ALL,
    TARGET,
    TARGETS,
    AllCommands,
    Command,
    CommandLine,
    ErrorForm,
    arrange_words,
    error_form_of,
    make_command,
    parse_command,
    separate_examples,
)
from gradcli.cli.world import World
from gradcli.errors import BadOption, FunctionFailed, GradcliError, OutOfTime, ProcessEnded, TooLarge
from gradcli.process.start import VERSION, asks_for_version
from gradcli.request.option_values import seed_words
from gradcli.request.options import CLAIM_KINDS, Options, options_of_command
from gradcli.request.target_text import has_several_targets
from gradcli.targets.missing import refuse_missing
from gradcli.words import Exit

# `gradcli mcp` and `gradcli lsp`: servers on standard input and output, for agents and for editors.

MCP_EXAMPLES = """
    gradcli mcp
    gradcli mcp --timeout 20s
A client starts it in the folder of the project; docs/how-to/mcp.md shows the settings of the common ones.
"""
LSP_EXAMPLES = """
    gradcli lsp
    gradcli lsp --timeout 20s
An editor starts it in the folder of the project; docs/how-to/editors.md shows the settings of VS Code and Neovim.
"""
SECONDS = 60.0  # that a check may take, where --timeout does not say otherwise


def mcp(world: World, options: Options) -> int:
    """Serve the Model Context Protocol on standard input and output: agents call check, derive, cost, find and explain.

    The arguments of a tool are the options of the command. A tool gives its result twice, as a text of at most ten
    lines and as data. The result has the verdict, wrong entries with right values, the cause with its file and line,
    the edit as a diff, the command that repeats the check, and what to do next. Files must lie below the current
    folder. Your code runs in a separate process, which ends when its time is over or the call is cancelled. The server
    ends when its input ends.
    """
    return _serve("gradcli.cli.servers.mcp", "mcp", "a client of the Model Context Protocol", world, options)


def lsp(world: World, options: Options) -> int:
    """Serve the Language Server Protocol on standard input and output: an editor shows the checks of a file that is saved.

    When a file is saved, the server runs the checks of the suite that depend on it, as --changed selects them, one at a
    time, in a separate process; a later save stops them and starts its own. A mistake is shown at its line, with an
    edit that the editor can make. Above each gradient that gradcli find lists in the file, there is a command that
    checks it.
    """
    return _serve("gradcli.cli.servers.lsp", "lsp", "an editor", world, options)


def _serve(module: str, extra: str, whom: str, world: World, options: Options) -> int:
    from gradcli.cli.servers import import_with_extra

    server = import_with_extra(module, extra)
    if world.stdin.isatty():
        world.tell(f"this waits for the messages of {whom}, which starts it itself; Ctrl-C ends it")
    server.serve(options.timeout or SECONDS)
    return 0


# The command line program, made from its commands.

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
    "derive": Body(studies.derive, TARGET, studies.DERIVE_EXAMPLES, "Derive a closed form, with steps and code."),
    "grad": Body(studies.grad, TARGET, studies.GRAD_EXAMPLES, "Print only the gradient, for another program."),
    "trace": Body(studies.trace, TARGET, studies.TRACE_EXAMPLES, "Walk through backpropagation, line by line."),
    "merge": Body(check.merge, FILES, check.MERGE_EXAMPLES, "Put the documents of shards together."),
    "find": Body(find.find, find.PATHS, find.EXAMPLES, "List the hand-written gradients, and the checks that cover them."),
    "init": Body(find.init, None, find.INIT_EXAMPLES, "Write a suite of checks for the gradients that gradcli find lists."),
    "run": Body(programs.run, programs.WORDS, programs.EXAMPLES, "Run a program, and check the gradients that it uses."),
    "modes": Body(listings.modes, None, None, "List the modes and devices available here."),
    "ops": Body(listings.ops, listings.OPS_NAME, listings.OPS_EXAMPLES, "List the functions and their derivatives."),
    "explain": Body(listings.explain, listings.EXPLAIN_KIND, listings.EXPLAIN_EXAMPLES, "Say what a finding or diagnosis means."),
    "mcp": Body(mcp, None, MCP_EXAMPLES, "Serve agents: the Model Context Protocol."),
    "lsp": Body(lsp, None, LSP_EXAMPLES, "Serve editors: the Language Server Protocol."),
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


# A command read and carried out, and every outcome as an exit status.

_COMPLETE = "_GRADCLI_COMPLETE"
_WITH_SYMPY = ("check", "compare-modes")


def run(
    argv: Sequence[str], world: World | None = None, other: Callable[[CommandLine], int | None] | None = None
) -> int:
    """Run one command, end the processes that it started, and return its exit status.

    Every failure is reported on the right stream. `other` is asked first, and may carry out the command in another process
    and return its status.
    """
    world = world or World()
    if asks_for_version(argv):
        world.stdout.write(VERSION)
        return Exit.CONFIRMED
    form = error_form_of(argv)

    def work() -> int:
        nonlocal form
        line = _read(argv, world)
        if isinstance(line, int):
            return line
        form = line.error_form
        _refuse_missing(line)
        status = None if other is None else other(line)
        return _carry_out(line, world) if status is None else status

    return _report_failures(work, lambda: form, world)


def run_line(line: CommandLine, world: World) -> int:
    """Carry out a command that was read, end the processes that it started, and return its exit status."""
    return _report_failures(lambda: _carry_out(line, world), lambda: line.error_form, world)


def stop_workers() -> None:
    """End the processes that the modes started."""
    workers = sys.modules.get("gradcli.process.workers")
    if workers is not None:
        workers.stop_workers()


def _read(argv: Sequence[str], world: World) -> CommandLine | int:
    if _COMPLETE in world.environ:  # the shell requests completions
        make_parser().main(prog_name="gradcli")
    words = arrange_words(list(argv), COMMANDS)
    return parse_command(make_parser(words[0]), "gradcli", words, world)


def _refuse_missing(line: CommandLine) -> None:
    """Raise an error for what the command names and is not there. Raises BadTarget, BadPoint, TooLarge."""
    words, options = line.words, line.options
    has_point = any(row.name == "at" for row in options_of_command(line.command))
    if has_point and isinstance(words, list) and words and not has_several_targets(words):
        claims = (getattr(options, kind) for kind in (*CLAIM_KINDS, "reference"))
        refuse_missing(words[0], (*options.at, *words[1:]), [text for text in claims if text is not None])


def _carry_out(line: CommandLine, world: World) -> int:
    if not world.link.earlier.stopped:  # else an error is reported first, without sympy
        _load_sympy_early(line)
    command, options = COMMANDS[line.command], line.options
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(world.stdout):
            warnings.simplefilter("ignore", RuntimeWarning)  # numpy's; empty and non-finite values become findings
            words = [] if command.argument is None else [line.words]
            status = int(command.body(world, *words, options) or 0)
    except (FunctionFailed, ProcessEnded, OutOfTime) as error:
        if options.seed_is_random:
            again = f"{' '.join(seed_words(options.seed))} draws the same values"
            error.do = again if error.do is None else f"{error.do}; {again}"
        raise
    world.stdout.flush()
    return status


def _load_sympy_early(line: CommandLine) -> None:
    """Start the process of the symbolic mode before other modules are imported, because it takes longest to start.

    A claim rarely needs it: that is seen when its function is certified.
    """
    claimed = line.command == "check" and any(getattr(line.options, kind) is not None for kind in CLAIM_KINDS)
    if line.command in _WITH_SYMPY and line.words and line.options.modes is None and not claimed:
        from gradcli.process.workers import WORKERS

        WORKERS.start()


def _report_failures(work: Callable[[], int], form: Callable[[], ErrorForm], world: World) -> int:
    """Return the exit status of `work`; its failure is reported, in the form that `form` returns then."""
    try:
        return work()
    except GradcliError as error:
        return _report_error(error, form(), world)
    except KeyboardInterrupt:
        world.stderr.write("interrupted\n")
        return Exit.INTERRUPTED
    except BrokenPipeError:  # the reader of our output has closed it: what is still buffered is discarded
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        with contextlib.suppress(OSError, ValueError, AttributeError):
            os.dup2(nowhere, world.stdout.fileno())
        return Exit.CONFIRMED
    except MemoryError:
        full = TooLarge("there is not enough memory for this", do="use smaller arrays or fewer modes")
        return _report_error(full, form(), world)
    except OSError as problem:
        what = f"a stream or file cannot be used: {problem.strerror or problem}"
        return _report_error(BadOption(what, do="check where output goes"), form(), world)
    except Exception as error:
        what = f"internal error: {type(error).__name__}: {str(error)[:300]}"
        report = GradcliError(what, do="please report it, with the command: https://github.com/gradcli/gradcli/issues")
        report.kind, report.__cause__ = "internal", error
        _report_error(report, form(), world)
        return Exit.INTERNAL
    finally:
        stop_workers()


def _report_error(error: GradcliError, form: ErrorForm, world: World) -> int:
    """Print an error, on standard output in a format for programs, else as text on standard error, and return the exit status."""
    from gradcli.cli.output import print_error

    if form.traceback:
        import traceback

        traceback.print_exception(error, file=world.stderr)
    print_error(error, form.data, world, color=form.color)
    with contextlib.suppress(OSError):  # standard output may be the stream that failed
        world.stdout.flush()
    return Exit.INCONCLUSIVE if isinstance(error, OutOfTime) else Exit.UNUSABLE
