"""The child process, which does the work in the same terminal as the supervisor and may end at any time."""

import contextlib
import os
import sys
from typing import NoReturn

from gradcli.cli.command_line import CommandLine
from gradcli.cli.link import Documents, InputLines, SupervisorLink
from gradcli.cli.world import World
from gradcli.process.apart import exit_status_of
from gradcli.process.process import adopt_orphans, die_with, dump_stack_at_exit, open_pipe_ends
from gradcli.process.threads import compile_from_source, set_threads

_exit = os._exit


def started(up: int, down: int, stack: int, parent: int) -> NoReturn:
    """Run a command in this child process, send the exit status to the supervisor, and end.

    `up`, `down` and `stack` are the file descriptors of the pipes and of the file for stacks.
    """
    up, down, stack = open_pipe_ends((up, down, stack))
    die_with(parent)
    adopt_orphans()
    compile_from_source()
    link = SupervisorLink(up, down)
    line = CommandLine.from_json(link.line)
    set_threads(line.options.threads)
    dump_stack_at_exit(stack)
    out = Documents(link, sys.stdout)
    os.dup2(2, 1)  # only what comes over the pipe goes to standard output

    def work() -> int:
        from gradcli.cli.main import run_line

        return run_line(line, World(stdin=InputLines(), stdout=out, link=link))  # type: ignore[arg-type]

    status = exit_status_of(work)
    with contextlib.suppress(Exception):
        sys.stderr.flush()
    link.done(status)
    _exit(status)
