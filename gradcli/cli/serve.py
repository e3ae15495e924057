"""`gradcli mcp` and `gradcli lsp`: servers on standard input and output, for agents and for editors."""

from gradcli.cli.servers import import_with_extra
from gradcli.cli.world import World
from gradcli.request.options import Options

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
    server = import_with_extra(module, extra)
    if world.stdin.isatty():
        world.tell(f"this waits for the messages of {whom}, which starts it itself; Ctrl-C ends it")
    server.serve(options.timeout or SECONDS)
    return 0
