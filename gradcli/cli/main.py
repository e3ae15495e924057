"""The command line: read a command and carry it out, and turn every outcome into an exit status."""

import contextlib
import os
import sys
import warnings
from collections.abc import Callable, Sequence

from gradcli.cli.command_line import CommandLine, ErrorForm, arrange_words, error_form_of, parse_command
from gradcli.cli.world import World
from gradcli.errors import BadOption, FunctionFailed, GradcliError, OutOfTime, ProcessEnded, TooLarge
from gradcli.process.apart import VERSION, asks_for_version
from gradcli.request.option_values import seed_words
from gradcli.request.options import CLAIM_KINDS, options_of_command
from gradcli.request.target_text import has_several_targets
from gradcli.targets.missing import refuse_missing
from gradcli.words import Exit

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
    from gradcli.cli.program import COMMANDS, make_parser

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
    from gradcli.cli.program import COMMANDS

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
