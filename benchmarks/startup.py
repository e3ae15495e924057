"""Start-up: `gradcli --version` against `import typer`, `gradcli check` against the bare imports it rests on.

    python benchmarks/startup.py [--runs 15] [--json]

The commands are interleaved, and ratios are medians of paired runs.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

GRADCLI = str(Path(sys.executable).with_name("gradcli"))
PAIRS = {
    "gradcli --version / import typer": ([GRADCLI, "--version"], [sys.executable, "-c", "import typer"], 1.5),
    "gradcli check / bare imports": (
        [GRADCLI, "check", "sin(x*y)", "--at", "x=1, y=2"],
        [sys.executable, "-c", "import numpy, sympy, typer, rich.table, flint"],
        1.3,
    ),
}


def seconds(command: list[str]) -> float:
    """Return the wall time of one run."""
    start = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - start


def main() -> None:
    """Print a row for each pair."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    rows = []
    for name, (mine, peer, goal) in PAIRS.items():
        seconds(mine), seconds(peer)
        pairs = [(seconds(mine), seconds(peer)) for _ in range(args.runs)]
        ratio = statistics.median(a / b for a, b in pairs)
        rows.append(
            {
                "pair": name,
                "seconds": statistics.median(a for a, _ in pairs),
                "peer": statistics.median(b for _, b in pairs),
                "ratio": ratio,
                "goal": goal,
            }
        )
    if args.json:
        print(json.dumps(rows, indent=2))
        return
    for row in rows:
        print(
            f"{row['pair']:36} {row['seconds'] * 1e3:7.0f} ms {row['peer'] * 1e3:7.0f} ms   ratio {row['ratio']:.2f}   goal {row['goal']}"
        )


if __name__ == "__main__":
    main()
