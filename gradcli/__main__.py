"""`python -m gradcli`, and the `gradcli` script."""

import contextlib
import gc
import os
import sys


def main() -> None:
    """Run the program on the process's arguments and exit with its status."""
    gc.set_threshold(50_000)  # loading modules makes many objects and no garbage
    try:
        from gradcli.cli import run

        status = run(sys.argv[1:])
    except KeyboardInterrupt:  # also while modules load
        status = 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        status = 0
    except Exception as error:  # what the user's code did to streams or files
        with contextlib.suppress(Exception):
            os.write(2, f"error: internal error: {type(error).__name__}\n".encode())
        status = 70
    with contextlib.suppress(Exception):
        sys.stderr.flush()
    os._exit(status)  # what the user's code registered for the end must not change the status


if __name__ == "__main__":
    main()
