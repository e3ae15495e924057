"""What a process does first: answer `--version`, set the threads of numerical libraries. It imports almost nothing."""

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gradcli import __version__

_VARIABLES = (
    "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS", "NUMEXPR_NUM_THREADS",
)  # fmt: skip
_SET: list[int] = []


def set_threads(count: int) -> None:
    """Set the threads of numerical libraries, because sums over threads vary in the last digits."""
    _SET[:] = [count]
    os.environ.update(dict.fromkeys(_VARIABLES, str(count)))


def thread_count() -> int | None:
    """Return the number of threads that was set; None if it was not set, as in the Python interface."""
    return _SET[0] if _SET else None


# The folders of the standard library and of gradcli, and the names of those in which an installer writes source and bytecode.
_HERE = os.path.dirname(os.path.dirname(__file__))  # noqa: PTH120 (pathlib is loaded later)
_TRUSTED = tuple(f"{folder}{os.sep}" for folder in (os.path.dirname(os.__file__), _HERE))  # noqa: PTH120
_INSTALLED = tuple(f"{os.sep}{name}{os.sep}" for name in ("site-packages", "dist-packages"))


def may_use_bytecode(path: str) -> bool:
    """Return whether the bytecode of a source may be used: that of Python, of gradcli and of installed packages."""
    return path.startswith(_TRUSTED) or any(name in path for name in _INSTALLED)


def compile_from_source() -> None:
    """Neither read nor write bytecode in this process, except of Python, of gradcli and of installed packages.

    Python trusts cached bytecode if the source's size and modification time, in whole seconds, are those stored with it. A
    file that is changed twice within a second may then run as it was before the second change, and a wrong gradient could pass.
    """
    from importlib.machinery import SourceFileLoader  # the answer to `--version` is made without it

    known = SourceFileLoader.path_stats

    def path_stats(self: "SourceFileLoader", path: str) -> Mapping[str, Any]:
        """Raise OSError for the user's files: the loader then compiles the source."""
        if not may_use_bytecode(path):
            raise OSError(f"bytecode of {path} is not used")
        return known(self, path)

    SourceFileLoader.path_stats = path_stats  # type: ignore[method-assign]


# What is done before the words of a command are read.

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
