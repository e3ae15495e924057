"""Whether the work is done in a child, apart from the program's own process. Loads nothing: it comes before all else."""

import contextlib
import itertools
import os
from collections.abc import Callable, Sequence

from gradcli import __version__

INTERNAL, INTERRUPTED = 70, 130
VERSION = f"gradcli {__version__}\n"
_NEEDS_CHILD = ("--allow-python", "--timeout")


def asks_for_version(argv: Sequence[str]) -> bool:
    """Whether `--version` is among the options, which is answered before anything is loaded."""
    options = argv[: list(argv).index("--")] if "--" in argv else argv
    return any(word in ("--version", "-V") for word in options)


def needs_child(argv: Sequence[str]) -> bool:
    """Whether the arguments may name Python code, or ask for what only a process of its own can give."""
    return any(".py" in word or word.startswith(_NEEDS_CHILD) or _names_a_member(word) for word in argv)


def _names_a_member(word: str) -> bool:
    """Whether a name, a colon or two, and a name stand somewhere in an argument, as in `package.module:name`."""
    parts = [part for part in word.split(":") if part]
    return any(
        (before[-1].isalnum() or before[-1] == "_") and after[0].isidentifier()
        for before, after in itertools.pairwise(parts)
    )


def status_of(work: Callable[[], int]) -> int:
    """Return the exit status of what the program does, whatever happens."""
    try:
        return work()
    except KeyboardInterrupt:  # also while modules load
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    except Exception as error:  # what the user's code did to streams or files
        with contextlib.suppress(Exception):
            os.write(2, f"error: internal error: {type(error).__name__}\n".encode())
        return INTERNAL
