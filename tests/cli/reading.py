"""Read a command as the program reads it."""

import io

from gradcli.cli import main
from gradcli.cli.command_line import CommandLine
from gradcli.cli.world import World


def line_of(*argv: str) -> CommandLine:
    """Return the command in words."""
    line = main._read(argv, World(io.StringIO()))
    assert isinstance(line, CommandLine)
    return line


def refuse_missing_of(*argv: str) -> None:
    """Raise the error for what the command names and is not there."""
    main._refuse_missing(line_of(*argv))
