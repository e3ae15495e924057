"""What is done before the words of a command are read; the module imports almost nothing."""

import contextlib
import os
from collections.abc import Callable, Sequence

from gradcli import __version__

INTERNAL, INTERRUPTED = 70, 130
VERSION = f"gradcli {__version__}\n"


def asks_for_version(argv: Sequence[str]) -> bool:
    """Whether `--version` is among the options; it is answered before other modules are loaded."""
    options = argv[: list(argv).index("--")] if "--" in argv else argv
    return any(word in ("--version", "-V") for word in options)


def exit_status_of(work: Callable[[], int]) -> int:
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
