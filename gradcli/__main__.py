"""`python -m gradcli`, and the `gradcli` script."""

import gc
import os
import sys


def main() -> None:
    """Run the program on the process's arguments and exit with its status."""
    gc.set_threshold(50_000)  # loading modules makes many objects and no garbage
    try:
        from gradcli.cli import run

        status = run(sys.argv[1:])
        sys.stdout.flush()
    except KeyboardInterrupt:  # also while modules load
        status = 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        status = 0
    sys.exit(status)


if __name__ == "__main__":
    main()
