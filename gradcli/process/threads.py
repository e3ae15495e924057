"""Set the number of threads of numerical libraries, before they are loaded, because they read it only once."""

import itertools
import os
from collections.abc import Sequence

_VARIABLES = (
    "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS", "NUMEXPR_NUM_THREADS",
)  # fmt: skip
OPTION = "--threads"
_SET: list[int] = []


def set_threads(argv: Sequence[str]) -> None:
    """Set the threads of numerical libraries to `--threads`, or to 1, because sums over threads vary in the last digits."""
    _SET[:] = [_named(argv)]
    os.environ.update(dict.fromkeys(_VARIABLES, str(_SET[0])))


def threads() -> int | None:
    """Return the number of threads that was set; None if it was not set, as in the Python interface."""
    return _SET[0] if _SET else None


def _named(argv: Sequence[str]) -> int:
    """Return the number after `--threads`, or 1; the parser of options refuses other words later."""
    words = argv[: list(argv).index("--")] if "--" in argv else argv
    texts = [b for a, b in itertools.pairwise(words) if a == OPTION]
    texts += [word.removeprefix(f"{OPTION}=") for word in words if word.startswith(f"{OPTION}=")]
    known = [int(text) for text in texts if text.isdecimal() and 0 < len(text) < 5]
    return max(1, known[-1]) if known else 1
