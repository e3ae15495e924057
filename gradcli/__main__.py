"""The entry point of `python -m gradcli` and of the `gradcli` script."""

import contextlib
import gc
import os
import sys
from collections.abc import Sequence

from gradcli.process.apart import VERSION, asks_for_version, needs_child, status_of
from gradcli.process.threads import set_threads


def main() -> None:
    """Run the program on the arguments of this process and exit with its status."""
    if sys.argv[1:2] == ["run"]:
        sys.exit(run_program(sys.argv[1:]))
    leave_current_folder()
    gc.set_threshold(50_000)  # loading modules creates many objects but no garbage
    set_threads(sys.argv[1:])
    status = status_of(lambda: run(sys.argv[1:]))
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
    from gradcli.cli.main import run_once, stop_workers
    from gradcli.cli.world import World
    from gradcli.process.threads import compile_from_source

    compile_from_source()
    world = World()
    status = status_of(lambda: run_once(argv, world))
    if world.afterwards is None:
        return status
    try:
        return world.afterwards()
    finally:
        stop_workers()


def run(argv: Sequence[str]) -> int:
    """Run the program on its arguments and return the exit status; arguments that may name Python code run in a child."""
    if asks_for_version(argv) and sys.stdout is not None:
        with contextlib.suppress(OSError):  # the command line meets this error again and reports it
            sys.stdout.write(VERSION)
            sys.stdout.flush()
            return 0
    wrong = None
    if needs_child(argv):
        from gradcli.errors import GradcliError
        from gradcli.targets.missing import refuse_missing

        try:
            refuse_missing(argv)
        except GradcliError as error:
            wrong = error  # which needs no child
        else:
            from gradcli.process.supervisor import Supervisor

            return Supervisor(argv, "gradcli.cli.child").run()
    from gradcli.cli.main import run_once

    return run_once(argv, wrong=wrong)


if __name__ == "__main__":
    main()
