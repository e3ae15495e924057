"""Contributions to a cotangent that overwrite each other: `=` instead of `+=`, also for slices and gathers."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from gradcli.core.primitive import Rule
from gradcli.core.shapes import shape
from gradcli.diagnosis.partial_slips import Replaced, omitted
from gradcli.diagnosis.search import Changed, Edge, Search, through
from gradcli.interpreters.tape import CONSTANT, Tape
from gradcli.reports.point_report import Diagnosis
from gradcli.words import DiagnosisKind

_MOST_USES = 40  # of one value in separate lines: nobody writes out more by hand
_PAIRS = 12  # other uses of a value that are tried as missing together with one use

Use = tuple[int, int]  # a line and its argument


def overwritten(search: Search, edges: list[Edge]) -> Diagnosis | None:
    """Return a diagnosis if the claim lacks the contributions that an assignment instead of a sum would overwrite."""
    program = search.wrong.q.recording
    tape = program.tape
    for says, rules, position in _lost(tape, edges):
        whose = search.tried(program.with_rules(rules))
        if whose is not None:
            return through(search, DiagnosisKind.OVERWRITTEN, f"{says}: overwritten instead of added{whose}", position)
    return None


def _lost(tape: Tape, edges: list[Edge]) -> Iterator[tuple[str, Changed, Any]]:
    """Yield `(says, rules, position)` for each way to lose contributions by assigning instead of adding."""
    uses = _uses(tape)
    groups = {use: n for n, edge in enumerate(edges) for use in ((k, edge.i) for k in edge.lines)}
    for n, edge in enumerate(edges):
        rivals = [use for k in edge.lines for use in uses[tape.operands(k)[edge.i]] if groups.get(use) != n]
        if rivals and len(set(rivals)) > 1:
            yield "only the gradient through {} is counted", _omit(tape, rivals), edge.position
        if edge.primitive.name == "getitem":
            yield from _gathered(tape, edge)
    for n, edge in enumerate(edges):
        used = (use for k in edge.lines for use in uses[tape.operands(k)[edge.i]])
        others = sorted({groups[use] for use in used if use in groups} - {n})  # the search may be on one line alone
        for other in [m for m in others if m > n][:_PAIRS] if len(others) > 1 else ():
            both = [(k, e.i) for e in (edge, edges[other]) for k in e.lines]
            yield "the gradients through {} and one other operation are missing", _omit(tape, both), edge.position
    for slot, found in sorted(uses.items()):
        if 1 < len(found) <= _MOST_USES:
            yield from _in_turns(tape, slot, found)


def _uses(tape: Tape) -> dict[int, list[Use]]:
    """Return the uses of each slot, in order: the lines and arguments that read it."""
    uses: dict[int, list[Use]] = {}
    for k, (_, slots, _, _, _, _) in enumerate(tape.lines):
        for i, slot in enumerate(slots):
            if slot != CONSTANT:
                uses.setdefault(slot, []).append((k, i))
    return uses


def _omit(tape: Tape, uses: Iterable[Use]) -> Changed:
    rules: Changed = {}
    for k, i in uses:
        primitive = tape.primitive(k)
        if primitive is not None:
            rules.setdefault(k, {})[i] = omitted(primitive.rule(i))
    return rules


def _in_turns(tape: Tape, slot: int, found: list[Use]) -> Iterator[tuple[str, Changed, Any]]:
    """Yield the cases where only one use of a value is counted, or where overlapping slices overwrite each other."""
    for kept, which in ((found[-1], "last"), (found[0], "first")) if len(found) > 2 else ():
        says = f"of {len(found)} uses of a value only the {which}, {{}}, is counted"
        yield says, _omit(tape, [use for use in found if use != kept]), tape.position(kept[0])
    sliced = [use for use in found if _name(tape, use) == "getitem"]
    if not sliced:
        return
    regions = {use: _region(tape, use) for use in sliced}
    for order, when in ((sliced, "later"), (sliced[::-1], "earlier")):
        rules: Changed = {}
        for n, use in enumerate(order):
            _mask(tape, rules, use, [regions[after] for after in order[n + 1 :]])
        yield (
            f"where slices of a value overlap, only the {when} one is counted, as in {{}}",
            rules,
            tape.position(sliced[0][0]),
        )
    for use in sliced if len(found) <= _PAIRS else ():
        for rivals in (found, [u for u in found if u < use], [u for u in found if u > use]):
            rules = {}
            for rival in rivals:
                if rival != use:
                    _mask(tape, rules, rival, [regions[use]])
            yield "the gradient through {} replaces what was there", rules, tape.position(use[0])


def _name(tape: Tape, use: Use) -> str:
    primitive = tape.primitive(use[0])
    return "" if primitive is None else primitive.name


def _region(tape: Tape, use: Use) -> Any:
    """Return a mask of the entries of the value that a slice reads."""
    _, _, xs, _, params, _ = tape.lines[use[0]]
    covered = np.zeros(shape(xs[use[1]]), dtype=bool)
    covered[(params or {})["index"]] = True
    return covered


def _mask(tape: Tape, rules: Changed, use: Use, regions: list[Any]) -> None:
    """Change the rules so that a contribution is zero where it is overwritten."""
    primitive = tape.primitive(use[0])
    if primitive is None or not regions:
        return
    kept = ~np.any(regions, axis=0)
    own: Rule = primitive.rule(use[1])
    rules.setdefault(use[0], {})[use[1]] = Replaced(
        own, lambda pulled, ybar, i, y, xs, params: np.where(kept, pulled(ybar), 0.0)
    )


def _gathered(tape: Tape, edge: Edge) -> Iterator[tuple[str, Changed, Any]]:
    """Yield the case where repeated positions of a gather are assigned instead of added, as `dx[index] += d` does."""
    rules: Changed = {}
    for k in edge.lines:
        _, _, _, _, params, _ = tape.lines[k]
        index = (params or {})["index"]
        parts = index if isinstance(index, tuple) else (index,)
        if any(isinstance(part, list | np.ndarray) for part in parts):
            rules[k] = {0: Replaced(edge.primitive.rule(0), _assigned)}
    if rules:
        yield (
            "of repeated positions in the index of {} only the last is counted (np.add.at adds them all)",
            rules,
            edge.position,
        )


def _assigned(pulled: Any, ybar: Any, i: int, y: Any, xs: Any, params: Any) -> Any:
    made = np.zeros(shape(xs[i]))
    made[params["index"]] = ybar
    return made
