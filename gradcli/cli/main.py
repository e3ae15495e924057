"""The command line: run a command from its arguments, and turn every outcome into an exit status."""

import contextlib
import itertools
import os
import sys
import warnings
from collections.abc import Sequence

from gradcli.cli.world import Alone, World
from gradcli.errors import BadOption, GradcliError, OutOfTime, TooLarge
from gradcli.process.apart import VERSION, asks_for_version
from gradcli.targets.missing import refuse_missing
from gradcli.words import Exit

_COMPLETE = "_GRADCLI_COMPLETE"
_WITH_SYMPY = ("check", "compare-modes")


def run_once(argv: Sequence[str], world: World | None = None, wrong: GradcliError | None = None) -> int:
    """Run one command, end the processes that it started, and return its exit status; `wrong` as in `run`."""
    try:
        return run(argv, world, wrong)
    finally:
        stop_workers()


def stop_workers() -> None:
    """End the processes that the modes started."""
    workers = sys.modules.get("gradcli.process.workers")
    if workers is not None:
        workers.WORKERS.stop()


def run(argv: Sequence[str], world: World | None = None, wrong: GradcliError | None = None) -> int:
    """Run one command and return its exit status; every failure is reported on the right stream.

    `wrong` is an error that the command is known to end with: it is reported, and nothing is run.
    """
    world = world or World()
    if asks_for_version(argv):
        world.stdout.write(VERSION)
        return Exit.CONFIRMED
    try:
        if wrong is not None:
            raise wrong
        if isinstance(world.link, Alone):  # else the supervisor has looked
            refuse_missing(argv)
        if not world.link.earlier.stopped:  # else an error is reported first, without sympy
            _load_sympy_early(argv)
        return _finished(_dispatch(argv, world), world)
    except GradcliError as error:
        return _report_error(error, argv, world)
    except KeyboardInterrupt:
        world.stderr.write("interrupted\n")
        return Exit.INTERRUPTED
    except BrokenPipeError:
        return _closed(world)
    except MemoryError:
        return _report_error(
            TooLarge("there is not enough memory for this", do="use smaller arrays or fewer modes"), argv, world
        )
    except OSError as error:
        return _report_error(
            BadOption(f"a stream or file cannot be used: {error.strerror or error}", do="check where output goes"),
            argv,
            world,
        )
    except Exception as error:
        return _internal(error, argv, world)


def _closed(world: World) -> int:
    """Return the status after the reader of our output has closed it, and discard what is still buffered."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(nowhere, world.stdout.fileno())
    return Exit.CONFIRMED


def _load_sympy_early(argv: Sequence[str]) -> None:
    """Start the process of the symbolic mode before other modules are imported, because it takes longest to start."""
    help_asked = any(word in ("-h", "--help") for word in argv)
    if (
        argv
        and argv[0] in _WITH_SYMPY
        and len(argv) > 1
        and not help_asked
        and not any(w.startswith("--modes") for w in argv)
    ):
        from gradcli.process.workers import WORKERS

        WORKERS.start()


def _dispatch(argv: Sequence[str], world: World) -> int:
    from gradcli.cli.given import arranged
    from gradcli.cli.program import command

    app = command()
    if _COMPLETE in world.environ:  # the shell requests completions
        app.main(prog_name="gradcli")
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stdout(world.stdout),
        app.make_context("gradcli", arranged(list(argv), app), obj=world) as context,
    ):
        warnings.simplefilter("ignore", RuntimeWarning)  # numpy's; empty and non-finite values become findings
        return int(app.invoke(context) or 0)


def _finished(status: int, world: World) -> int:
    world.stdout.flush()
    return status


def _wants_json(argv: Sequence[str]) -> bool:
    if list(argv[:1]) == ["run"]:
        return False  # standard output is the program's
    return (
        "--json" in argv
        or any(a == "--format" and b in ("json", "ndjson") for a, b in itertools.pairwise(argv))
        or any(word in ("--format=json", "--format=ndjson") for word in argv)
    )


def _color(argv: Sequence[str]) -> bool | None:
    return True if "--color" in argv else False if "--no-color" in argv else None


def _report_error(error: GradcliError, argv: Sequence[str], world: World) -> int:
    """Print an error, as a document under --json, else as text on standard error, and return the exit status."""
    from gradcli.cli.output import print_error

    if "--traceback" in argv:
        import traceback

        traceback.print_exception(error, file=world.stderr)
    print_error(error, _wants_json(argv), world, color=_color(argv))
    with contextlib.suppress(OSError):  # standard output may be the stream that failed
        world.stdout.flush()
    return Exit.INCONCLUSIVE if isinstance(error, OutOfTime) else Exit.UNUSABLE


def _internal(error: Exception, argv: Sequence[str], world: World) -> int:
    """Report an internal error and return its status; errors of the argument parser become BadOption."""
    if type(error).__name__ == "Exit":  # raised by the parser to end after --help
        return int(getattr(error, "exit_code", 0))
    if hasattr(error, "format_message") and not isinstance(error, GradcliError):
        path = getattr(getattr(error, "ctx", None), "command_path", "gradcli")
        return _report_error(BadOption(error.format_message().rstrip("."), do=f"{path} --help"), argv, world)
    if "--traceback" in argv:
        import traceback

        traceback.print_exception(error, file=world.stderr)
    from gradcli.cli.output import print_error

    what = f"internal error: {type(error).__name__}: {str(error)[:300]}"
    report = GradcliError(what, do="please report it, with the command: https://github.com/gradcli/gradcli/issues")
    report.kind = "internal"
    print_error(report, _wants_json(argv), world, color=_color(argv))
    world.stdout.flush()
    return Exit.INTERNAL
