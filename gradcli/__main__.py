"""The entry point of `python -m gradcli` and of the `gradcli` script."""

import contextlib
import gc
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gradcli.process.start import VERSION, asks_for_version, exit_status_of

if TYPE_CHECKING:
    from gradcli.cli.command_line import CommandLine


def main() -> None:
    """Run the program on the arguments of this process and exit with its status."""
    if sys.argv[1:2] == ["run"]:
        sys.exit(run_program(sys.argv[1:]))
    leave_current_folder()
    gc.set_threshold(50_000)  # loading modules creates many objects but no garbage
    status = exit_status_of(lambda: run_command(sys.argv[1:]))
    with contextlib.suppress(Exception):
        sys.stderr.flush()
    os._exit(status)  # exit handlers of the user's code must not change the status


def leave_current_folder() -> None:
    """Import no library from the current folder, which `python -m` puts first: a file numbers.py in it would hide Python's.

    It is put back when a target in it is loaded. It stays if gradcli itself is there.
    """
    with contextlib.suppress(OSError):  # the folder may have been removed
        if sys.path[:1] == [os.getcwd()] and not __file__.startswith(sys.path[0] + os.sep):  # noqa: PTH109 (not loaded)
            del sys.path[0]


def run_program(argv: Sequence[str]) -> int:
    """Run `gradcli run`: the program that it names runs in this process, whose settings stay as they are."""
    from gradcli.cli.main import run, stop_workers
    from gradcli.cli.world import World
    from gradcli.process.start import compile_from_source

    compile_from_source()
    world = World()
    status = exit_status_of(lambda: run(argv, world))
    if world.afterwards is None:
        return status
    try:
        return world.afterwards()
    finally:
        stop_workers()


def run_command(argv: Sequence[str]) -> int:
    """Run a command and return its exit status; one that may run Python code of the user's is carried out in a child."""
    if asks_for_version(argv) and sys.stdout is not None:
        with contextlib.suppress(OSError):  # the command line meets this error again and reports it
            sys.stdout.write(VERSION)
            sys.stdout.flush()
            return 0
    from gradcli.cli.main import run

    return run(argv, other=_run_in_child)


def _run_in_child(line: "CommandLine") -> int | None:
    """Carry out a command in a child where it needs one, and return its status; else set this process up for it."""
    if line.needs_child:
        from gradcli.process.process import Supervisor

        return Supervisor(line.as_json(), line.error_form.data, "gradcli.cli.child").run()
    from gradcli.process.start import set_threads

    set_threads(line.options.threads)
    return None


if __name__ == "__main__":
    main()
