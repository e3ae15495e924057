"""The baseline: what is known to fail, so that only what is new stops a job. It holds no lines and no numbers."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradcli.errors import BadOption
from gradcli.report.suite import CheckRow
from gradcli.words import Severity

_SCHEMA = "gradcli.baseline/1"


@dataclass(frozen=True, slots=True, order=True)
class Known:
    """One way in which a check is known not to pass: wrong by an input, or without a verdict, and why."""

    id: str
    input: str  # empty where no single one is wrong
    kind: str  # fail or inconclusive
    reason: str  # the likely mistake, or the finding that prevents a verdict

    def text(self) -> str:
        """Return it on one line: `focal: gamma: fail: factor`."""
        return ": ".join((self.id, self.input, self.kind, self.reason))

    @classmethod
    def of(cls, text: str) -> "Known":
        """Return what a line says. Raises ValueError."""
        name, input_, kind, reason = text.rsplit(": ", 3)
        return cls(name, input_, kind, reason)


@dataclass(frozen=True)
class Baseline:
    """What is known to fail."""

    checks: tuple[Known, ...] = ()

    def covers(self, row: CheckRow) -> bool:
        """Whether all that is wrong with a check is listed. Errors are never covered."""
        return row.verdict in ("fail", "inconclusive") and set(reasons(row)) <= set(self.checks)

    def stale(self, rows: Sequence[CheckRow], declared: Sequence[str]) -> tuple[str, ...]:
        """Return the ids of entries that no longer hold: of checks that ran, and of those that are declared no more."""
        now = {known for row in rows for known in reasons(row)}
        ran = {row.id for row in rows if row.verdict != "error"}
        return tuple(
            dict.fromkeys(
                known.id for known in self.checks if (known.id in ran and known not in now) or known.id not in declared
            )
        )

    def updated(self, rows: Sequence[CheckRow], declared: Sequence[str]) -> "Baseline":
        """Return the baseline of what fails now; entries of checks that did not run stay."""
        ran = {row.id for row in rows if row.verdict != "error"}
        kept = [known for known in self.checks if known.id not in ran and known.id in declared]
        return Baseline(tuple(sorted({*kept, *(known for row in rows for known in reasons(row))})))


def reasons(row: CheckRow) -> tuple[Known, ...]:
    """Return the ways in which a check does not pass."""
    if row.verdict not in ("fail", "inconclusive"):
        return ()
    found: dict[Known, None] = {}
    for point in row.document["points"]:
        if point["verdict"] == "fail":
            reason = point["diagnosis"]["kind"] if point["diagnosis"] else _kinds(point, Severity.ERROR)[0]
            names = dict.fromkeys(entry["input"] for entry in point["mismatches"]) or {"": None}
            found |= dict.fromkeys(Known(row.id, name, "fail", reason) for name in names)
        elif point["verdict"] == "inconclusive":
            kinds = _kinds(point, Severity.INCONCLUSIVE)
            found |= dict.fromkeys(Known(row.id, "", "inconclusive", kind) for kind in kinds)
    return tuple(found)


def _kinds(point: dict[str, Any], severity: Severity) -> list[str]:
    found = dict.fromkeys(f["kind"] for f in point["findings"] if f["severity"] == severity)
    return list(found) or ["unknown"]


def read(path: Path) -> Baseline:
    """Return the baseline in a file. Raises BadOption if there is none, or it is no baseline."""
    do = "write it anew: --update-baseline"
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(found, dict) or found.get("schema") != _SCHEMA:
            raise BadOption(f"{path.name} is no baseline of this version", do=do)
        return Baseline(tuple(sorted(Known.of(text) for text in found["known"])))
    except IsADirectoryError:
        raise BadOption(f"{path} is a folder", do="name the file of the baseline") from None
    except FileNotFoundError:
        raise BadOption(f"there is no baseline {path}", do="write it: --update-baseline") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise BadOption(f"{path.name} is no baseline", do=do) from None


def write(path: Path, baseline: Baseline) -> None:
    """Write a baseline. Raises BadOption if the file cannot be written."""
    content = {"schema": _SCHEMA, "known": [known.text() for known in baseline.checks]}
    try:
        path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise BadOption(f"{path} cannot be written: {error.strerror}", do="name another file") from None
