"""From what the checkers said to tables: a row a checker, a row a kind of mistake, and what was not named."""

import re
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from mistakes import Planted
from peers import TITLES, Outcome

SIZES = ("gross", "1e-4", "1e-6", "1e-8", "one entry")
NEIGHBOURS = (  # kinds that say nearly the same
    frozenset({"negated", "sign"}),
    frozenset({"left-out", "overwritten", "detached", "term"}),
    frozenset({"factor", "scaled", "slip"}),
)


@dataclass(frozen=True)
class Result:
    """What one checker said of one claim; the size of the right gradient is `right`, and it has no kind."""

    checker: str
    function: str
    kind: str
    says: str
    size: str
    relative: float
    kinds: frozenset[str]
    outcome: Outcome

    @property
    def naming(self) -> str:
        """Whether the mistake is named: exactly, nearly, or not."""
        said = self.outcome.kind
        if said in self.kinds:
            return "named"
        return "nearly" if any(said in near and near & self.kinds for near in NEIGHBOURS) else "no"

    def as_json(self) -> dict[str, Any]:
        """Return the result as plain data."""
        found = asdict(self) | {"kinds": sorted(self.kinds), "naming": self.naming}
        return found | {"relative": self.relative if np.isfinite(self.relative) else None}


def result(checker: str, function: str, planted: Planted | None, outcome: Outcome) -> Result:
    """Return a result; without a mistake, of the right gradient."""
    if planted is None:
        return Result(checker, function, "", "", "right", 0.0, frozenset(), outcome)
    one = planted
    return Result(checker, function, one.kind, one.says, one.size, one.relative, one.kinds, outcome)


Rows = list[tuple[str, ...]]


def checkers(results: Sequence[Result], cases: int) -> Rows:
    """Return a row a checker: false alarms, misses by size, what it could not tell, names, time."""
    rows: Rows = [
        ("checker", f"false alarms of {cases}", *(f"missed, {size}" for size in SIZES), "inconclusive", "errors", "named",
         "nearly", "ms"),
    ]  # fmt: skip
    for name in dict.fromkeys(r.checker for r in results):
        mine = [r for r in results if r.checker == name]
        wrong = [r for r in mine if r.size in SIZES]
        own = name == "gradcli"
        rows.append(
            (
                TITLES[name],
                str(_count(mine, "fail", "right")),
                *(f"{_count(mine, 'pass', size)}/{sum(r.size == size for r in mine)}" for size in SIZES),
                f"{_count(mine, 'inconclusive', 'right')} + {_count(wrong, 'inconclusive')}" if own else "",
                str(_count(mine, "error")),
                _share(wrong, "named") if own else "",
                _share(wrong, "nearly") if own else "",
                f"{1e3 * statistics.median(r.outcome.seconds for r in mine):.1f}",
            )
        )
    return rows


def _count(results: Iterable[Result], verdict: str, size: str = "") -> int:
    return sum(r.outcome.verdict == verdict and size in ("", r.size) for r in results)


def _share(results: Sequence[Result], naming: str) -> str:
    return f"{sum(r.naming == naming for r in results)}/{len(results)}"


def kinds(results: Sequence[Result]) -> Rows:
    """Return a row a kind of mistake: how many were planted, rejected, and named by gradcli."""
    wrong = [r for r in results if r.checker == "gradcli" and r.size in SIZES]
    rows: Rows = [("kind", "planted", "rejected", "named", "nearly", "not named")]
    for kind in sorted({r.kind for r in wrong}):
        mine = [r for r in wrong if r.kind == kind]
        named = [str(sum(r.naming == naming for r in mine)) for naming in ("named", "nearly", "no")]
        rows.append((kind, str(len(mine)), str(_count(mine, "fail")), *named))
    return rows


def alarms(results: Sequence[Result]) -> list[str]:
    """Return which right gradients each checker rejected or could not tell, and its first errors."""
    lines = []
    for name in dict.fromkeys(r.checker for r in results):
        mine = [r for r in results if r.checker == name]
        for verdict, says in (("fail", "false alarms"), ("inconclusive", "inconclusive"), ("error", "errors")):
            found = [r.function for r in mine if r.size == "right" and r.outcome.verdict == verdict]
            if found:
                lines.append(f"{TITLES[name]}: {says} on the right gradients of {', '.join(found)}")
        errors = Counter(re.sub(r"\d+", "#", r.outcome.message)[:100] for r in mine if r.outcome.verdict == "error")
        lines += [f"{TITLES[name]}: {count} x {word}" for word, count in errors.most_common(3)]
    near = {(r.function, r.says) for r in results if r.size == "near"}
    if near:
        lines.append(f"apart: {len(near)} approximations too near to be a mistake, for which any verdict is fine")
    return lines


def accepted(results: Sequence[Result]) -> list[str]:
    """Return the wrong gradients that gradcli did not reject."""
    return [
        f"{r.outcome.verdict}: {r.function}: {r.kind}, {r.size}, {r.says}: {r.outcome.message}"
        for r in results
        if r.checker == "gradcli" and r.size in SIZES and r.outcome.verdict != "fail"
    ]


def unnamed(results: Sequence[Result]) -> Rows:
    """Return the mistakes that gradcli did not name: function, kind, size, what was done, what it said."""
    rows: Rows = [("function", "kind", "size", "done", "said")]
    for r in results:
        if r.checker == "gradcli" and r.size in SIZES and r.naming != "named":
            said = f"{r.outcome.verdict}: {r.outcome.kind or 'no name'}: {r.outcome.message}"
            rows.append((r.function, "/".join(sorted(r.kinds)), r.size, r.says, said))
    return rows


def text(rows: Rows) -> str:
    """Return rows in aligned columns."""
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    return "\n".join("  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows)


def markdown(rows: Rows) -> str:
    """Return rows as a table of markdown."""
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join([lines[0], "| " + " | ".join("---" for _ in rows[0]) + " |", *lines[1:]])
