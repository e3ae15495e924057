"""Fine structure: how functions that cannot be traced, with structure finer than the usual steps, are checked.

    python benchmarks/fine_structure.py [--cases 2000] [--jobs 2] [--seed S] [--list] [--json] [--markdown]

Right claims must never get status 1; wrong ones should pass only within the limit that the pass states.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "trust"))

from classes import all_answers, parser, shown


def main() -> None:
    """Print the table, a row for each family."""
    options = parser(__doc__)
    options.add_argument("--cases", type=int, default=2000, help="random functions")
    options.set_defaults(families=True)
    args = options.parse_args()
    shown(all_answers(["fine"], args.cases, args.jobs, args.seed), args)


if __name__ == "__main__":
    main()
