"""Checks a list of hand-written gradients and exits with the worst status, to put them under test in one step.

Run it as `python check_list.py [FILE]`; FILE holds JSON lines with the keys target, grad and at.
"""

# status: 1

import json
import subprocess
import sys
from pathlib import Path

FILE = Path(__file__).parent / "data" / "gradients.jsonl"
COMMAND = ("gradcli", "check", "-", "--format", "ndjson", "--require-claim", "--modes", "cert,rev,fd")


def described(report: dict) -> str:
    """Return one line for a report: what went wrong where something did."""
    if report["schema"].startswith("gradcli.error/"):
        return f"error: {report['error']['message']}"
    said = [f"{report['verdict']}: {report['target']['text']}"]
    for point in report["points"]:
        said += [f"{m['input']} is {m['claimed']:.4g}, not {m['reference']:.4g}" for m in point["mismatches"]]
        said += [finding["message"] for finding in point["findings"] if finding["severity"] == "inconclusive"]
    return "; ".join(said)


def main(path: Path) -> int:
    """Check every line of the file in one call of gradcli and report each in one line."""
    done = subprocess.run(COMMAND, input=path.read_text(encoding="utf-8"), capture_output=True, text=True)
    for text in done.stdout.splitlines():
        report = json.loads(text)
        sys.stdout.write(f"line {report['line']}  {described(report)}\n")
    sys.stderr.write(done.stderr)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else FILE))
