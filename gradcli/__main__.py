"""`python -m gradcli`, and the `gradcli` script."""

import sys


def main() -> None:
    """Run the program on the process's arguments and exit with its status."""
    from gradcli.cli import run

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
