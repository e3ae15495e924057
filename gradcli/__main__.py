"""`python -m gradcli`, and the `gradcli` script."""

import contextlib
import gc
import os
import sys

from gradcli.apart import main as run
from gradcli.apart import status_of
from gradcli.threads import set_threads


def main() -> None:
    """Run the program on the process's arguments and exit with its status."""
    gc.set_threshold(50_000)  # loading modules makes many objects and no garbage
    set_threads(sys.argv[1:])
    status = status_of(lambda: run(sys.argv[1:]))
    with contextlib.suppress(Exception):
        sys.stderr.flush()
    os._exit(status)  # what the user's code registered for the end must not change the status


if __name__ == "__main__":
    main()
