"""Decide whether the work is done in a child process. This comes first, so the module imports almost nothing."""

import contextlib
import itertools
import os
from collections.abc import Callable, Sequence

from gradcli import __version__

INTERNAL, INTERRUPTED = 70, 130
VERSION = f"gradcli {__version__}\n"
_NEEDS_CHILD = ("--allow-python", "--timeout", "--recorded")
_READS = ("find", "init")  # commands that read Python files and run none of them


def asks_for_version(argv: Sequence[str]) -> bool:
    """Whether `--version` is among the options; it is answered before other modules are loaded."""
    options = argv[: list(argv).index("--")] if "--" in argv else argv
    return any(word in ("--version", "-V") for word in options)


def needs_child(argv: Sequence[str]) -> bool:
    """Whether the arguments may name Python code, or use an option that needs a child process, such as --timeout."""
    if argv and argv[0] in _READS:
        return False
    return any(".py" in word or word.startswith(_NEEDS_CHILD) or _names_a_member(word) for word in argv)


def _names_a_member(word: str) -> bool:
    """Whether an argument contains a name, one or two colons, and a name, as in `package.module:name`."""
    parts = [part for part in word.split(":") if part]
    return any(
        (before[-1].isalnum() or before[-1] == "_") and after[0].isidentifier()
        for before, after in itertools.pairwise(parts)
    )


def status_of(work: Callable[[], int]) -> int:
    """Run `work` and return its exit status; exceptions become exit statuses too."""
    try:
        return work()
    except KeyboardInterrupt:  # also while modules load
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    except Exception as error:  # such as after the user's code has changed streams or files
        with contextlib.suppress(Exception):
            os.write(2, f"error: internal error: {type(error).__name__}\n".encode())
        return INTERNAL
