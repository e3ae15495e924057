"""Every figure beside its goal and beside peers' figures of the same run; what falls short is marked.

    python benchmarks/run_all.py [--rounds 15] [--only checks,sweep] [--json] [--write]

Each topic runs in a process of its own, one thread for each library; candidates are interleaved (A B A B), and ratios are
medians of paired rounds. `--write` puts the table into benchmarks/README.md.
"""

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from common import Figure, environment, table

HERE = Path(__file__).parent
TOPICS = (
    "startup", "losses", "compiled", "per_operation", "checks", "large", "frameworks", "differentiation", "sweep", "swell", "certified", "derive",
    "suites", "programs", "page", "failures", "default_tests",
)  # fmt: skip
KEPT = re.compile(r"(?<=<!-- table -->\n).*?(?=<!-- end of table -->)", re.DOTALL)


def measured(topic: str, rounds: int) -> list[Figure]:
    """Return one topic's figures. Raises CalledProcessError where its script fails."""
    command = [sys.executable, str(HERE / f"{topic}.py"), "--json", "--rounds", str(rounds)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: list[dict[str, Any]] = json.loads(done.stdout)["figures"]
    return [Figure(**{name: x for name, x in figure.items() if name != "met"}) for figure in found]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--only", default=",".join(TOPICS))
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    figures, failed = [], []
    for topic in args.only.split(","):
        print(f"{topic} ...", file=sys.stderr)
        try:
            figures += measured(topic, args.rounds)
        except subprocess.CalledProcessError:
            failed.append(topic)
    goals = [f for f in figures if f.goal is not None]
    machine = ", ".join(f"{name} {version}" for name, version in environment().items())
    says = f"{sum(bool(f.met) for f in goals)} of {len(goals)} goals are met. {machine}."
    if args.json:
        print(
            json.dumps(
                [{**{k: getattr(f, k) for k in f.__slots__}, "met": f.met} for f in figures], indent=2, default=dict
            )
        )
        return
    text = f"{table(figures)}\n\n{says}\n"
    print(text)
    if args.write and not failed:
        readme = HERE / "README.md"
        readme.write_text(KEPT.sub(lambda _: text, readme.read_text(encoding="utf-8")), encoding="utf-8")
    if failed:
        sys.exit(f"no figures of {', '.join(failed)}")


if __name__ == "__main__":
    main()
