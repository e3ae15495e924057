"""Find a mistake in one line of the recorded program: a partial that is missing, negated or replaced, or a lost path."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import field
from typing import Any

import numpy as np

from gradcli.arithmetic.recorded_program import RecordedProgram
from gradcli.arithmetic.tape import CONSTANT, Tape
from gradcli.checks.gradient_slips import (
    Replaced,
    evaluate_rule_at,
    name_factor,
    negated,
    omit_contribution,
    scale_contribution,
    slips_of_argument,
)
from gradcli.checks.wrong import BudgetSpent, Gradient, Wrong
from gradcli.classes import dataclass
from gradcli.errors import GradcliError, Place
from gradcli.frameworks.native import native_of
from gradcli.report.point_report import Diagnosis
from gradcli.rules.kinds import Linear, Partial
from gradcli.targets.derived import original_function
from gradcli.tracing.primitive import Primitive, Rule
from gradcli.tracing.provenance import code_at, place_of_position
from gradcli.tracing.shapes import concatenate_entries, largest_magnitude, shape, size, unbroadcast
from gradcli.words import DiagnosisKind

_FEWEST = 3  # entries that must change together before a factor with no known cause explains them
_MOST_OUTPUTS = 64
_SAME = 1e-9  # relative to the largest entry of each input: two gradients that are the same but for rounding
_WRONG_SIGN = "the derivative of one operation has the wrong sign"


# One trial of the search for a slip: change a line of the recorded program, and compare its gradient with the claim.
#
# Lines from one place in the source, as a loop records them, are changed together: a slip in the code is in every iteration.

Changed = dict[int, dict[int, Rule]]


@dataclass(frozen=True, slots=True)
class Edge:
    """Argument `i` of one operation in the source, the lines that recorded it, and its position."""

    primitive: Primitive
    i: int
    lines: tuple[int, ...]
    position: Any


@dataclass(frozen=True, slots=True)
class SlipTrial:
    """A slip to try: what it is called, with `{}` for the operation that was lost, the program with it, and its position."""

    kind: DiagnosisKind
    says: str
    program: RecordedProgram
    position: Any


_LOST = (DiagnosisKind.LEFT_OUT, DiagnosisKind.OVERWRITTEN)  # kinds whose sentences name the operation that was lost


@dataclass
class SlipSearch:
    """A search for the slip in a wrong claim, along the lines of a program."""

    wrong: Wrong
    program: RecordedProgram
    partly: bool = False  # whether a slip need only explain the gradients of the wrong inputs
    lacking: dict[int, Gradient | None] = field(default_factory=dict)  # the gradient without each edge, by its number

    def made(self, program: RecordedProgram) -> Gradient | None:
        """Return the gradient of a changed program; None if it cannot be pulled back. Raises BudgetSpent."""
        self.wrong.budget.spend(size(self.wrong.q.value))
        try:
            return self.wrong.gradient_of(program, self.wrong.q.xs)
        except (GradcliError, ValueError, IndexError, NotImplementedError, np.linalg.LinAlgError):
            return None  # this slip does not fit the shapes

    def find_first(self, trials: Iterable[SlipTrial]) -> Diagnosis | None:
        """Return the first slip that explains the claim, and keep the program with it; None if none does."""
        for trial in trials:
            whose = self.explains(self.made(trial.program))
            if whose is not None:
                self.wrong.slipped.append(trial.program)
                return self.diagnose(trial.kind, trial.says + whose, trial.position)
        return None

    def explains(self, made: Gradient | None) -> str | None:
        """Return in words where a changed gradient equals the claim: empty if everywhere; None if it does not."""
        if made is None:
            return None
        if self.wrong.explained(made):
            return ""
        if self.partly and self.wrong.explained({n: made[n] for n in self.wrong.names}):
            return f", in the gradient of {' and '.join(self.wrong.names)}"
        return None

    def diagnose(self, kind: DiagnosisKind, says: str, position: Any) -> Diagnosis:
        """Return a diagnosis on a source line; it names the operation that was lost, or quotes it if the line holds more."""
        at = place_of_position(position)
        code = "" if at is None else at.operation if isinstance(at, Place) else at.source
        is_whole_line = isinstance(at, Place) and code == at.source
        if kind in _LOST:
            native = native_of(original_function(self.wrong.q.f))
            says = says.replace("{adds}", "np.add.at" if native is None else _ADDS[native.framework.name])
            says = says.replace("{}", "one operation" if at is None else "this line" if is_whole_line else f"`{code}`")
        elif code and not is_whole_line:
            says = f"{says}, in {code}"
        where = {} if at is None else {"line": at.line, "source": at.source}
        return self.wrong.says(kind, says, **where, **({"file": at.file} if isinstance(at, Place) else {}))


def edges_of(program: RecordedProgram) -> Iterable[Edge]:
    """Return the edges of the program, where slips are tried, the last in the program first."""
    grouped: dict[Any, list[int]] = {}
    keys: dict[Any, Any] = {}  # of positions that many lines share: those of a loop
    for k, (primitive, slots, _, _, _, position) in enumerate(program.lines):
        key = keys.get(position) if isinstance(position, tuple) else None
        if key is None:
            key = source_key(position, k)
            if key is position:
                keys[position] = key
        for i, slot in enumerate(slots):
            if slot != CONSTANT and primitive is not None:
                grouped.setdefault((key, primitive.name, i), []).append(k)
    found = []
    for (_, _, i), lines in grouped.items():
        primitive, slots, _, _, _, position = program.lines[lines[-1]]
        if primitive is not None:
            found.append(Edge(primitive, i, tuple(lines), position))
    return sorted(found, key=lambda edge: -edge.lines[-1])


def source_key(position: Any, k: int) -> Any:
    """Return a key shared by lines from one place in the user's source; a line without a place has its own key."""
    if position is None or place_of_position(position) is None:
        return k
    return position if isinstance(position, tuple) else id(position)


def change_rule_on_edge(program: RecordedProgram, edge: Edge, rule: Any) -> RecordedProgram:
    """Return the program with another rule on an edge; `rule` is a rule, or a function from the right rule to one."""
    own = edge.primitive.rule(edge.i)
    return program.with_rules({k: {edge.i: rule(own) if callable(rule) else rule} for k in edge.lines})


def _other_iterations(program: RecordedProgram, edges: list[Edge]) -> Iterator[SlipTrial]:
    """Yield lines of a loop whose partial uses the values of the previous or the next iteration."""
    for edge in edges:
        rule = edge.primitive.rule(edge.i)
        if len(edge.lines) < 2 or not isinstance(rule, Partial | Linear):
            continue
        for step, when in ((-1, "before"), (1, "after")):
            rules: Changed = {}
            for n, k in enumerate(edge.lines):
                other = edge.lines[n + step] if 0 <= n + step < len(edge.lines) else k
                _, _, xs, y, _, _ = program.lines[other]
                rules[k] = {edge.i: evaluate_rule_at(rule, y, xs)}
            says = f"the derivative of one operation uses the values of the iteration {when}"
            yield SlipTrial(DiagnosisKind.STALE, says, program.with_rules(rules), edge.position)


def _other_values(program: RecordedProgram, edges: list[Edge]) -> Iterator[SlipTrial]:
    """Yield products whose partial is not the other factor, but a different value of the program."""
    says = "the derivative of a product is the other factor, but another value is used"
    families: dict[Any, list[int]] = {}  # the lines of the program, inputs included, by their place in the source
    for k, (primitive, _, _, _, _, position) in enumerate(program.lines):
        families.setdefault((source_key(position, k), primitive and primitive.name), []).append(k)
    for edge in edges:
        for lines in families.values() if edge.primitive.name == "multiply" else ():
            rules = _rules_with_factor(program.tape, edge, lines)
            if rules is not None:
                yield SlipTrial(DiagnosisKind.SWAPPED, says, program.with_rules(rules), edge.position)


def _rules_with_factor(tape: Tape, edge: Edge, lines: list[int]) -> Changed | None:
    """Return rules that use the values of `lines` as the partial of a product, iteration by iteration; None if none fit."""
    if len(lines) not in (1, len(edge.lines)):
        return None
    rules: Changed = {}
    for n, k in enumerate(edge.lines):
        value = tape.value(lines[0] if len(lines) == 1 else lines[n])
        _, _, xs, y, _, _ = tape.lines[k]
        if value is xs[1 - edge.i] or shape(value) not in (shape(y), ()):
            return None
        rules[k] = {edge.i: Replaced(edge.primitive.rule(edge.i), _pull_times(value))}
    return rules


def _pull_times(value: Any) -> Any:
    return lambda pulled, ybar, i, y, xs, params: unbroadcast(ybar * value, xs[i])


# Contributions to a cotangent that overwrite each other: `=` instead of `+=`, also for slices and gathers.

_MOST_USES = 40  # of one value in separate lines: nobody writes out more by hand
_PAIRS = 12  # other uses of a value that are tried as missing together with one use

_OVERWRITTEN = "overwritten instead of added"
# what adds the entries of repeated positions, by framework
_ADDS = {
    "torch": "index_add_", "jax": ".at[...].add", "mlx": ".at[...].add", "tensorflow": "tf.tensor_scatter_nd_add",
}  # fmt: skip

Use = tuple[int, int]  # a line and its argument


def _overwritings(program: RecordedProgram, edges: list[Edge]) -> Iterator[SlipTrial]:
    """Yield the cases in which contributions are lost by assigning instead of adding."""
    for says, rules, position in _ways_to_overwrite(program.tape, edges):
        yield SlipTrial(DiagnosisKind.OVERWRITTEN, f"{says}: {_OVERWRITTEN}", program.with_rules(rules), position)


def _ways_to_overwrite(tape: Tape, edges: list[Edge]) -> Iterator[tuple[str, Changed, Any]]:
    """Yield `(says, rules, position)` for each way to lose contributions by assigning instead of adding."""
    uses = _uses_of_slots(tape)
    groups = {use: n for n, edge in enumerate(edges) for use in ((k, edge.i) for k in edge.lines)}
    for n, edge in enumerate(edges):
        rivals = [use for k in edge.lines for use in uses[tape.operands(k)[edge.i]] if groups.get(use) != n]
        if rivals and len(set(rivals)) > 1:
            yield "only the gradient through {} is counted", _omit_uses(tape, rivals), edge.position
        if edge.primitive.name == "getitem":
            yield from _overwrite_gather(tape, edge)
    for n, edge in enumerate(edges):
        used = (use for k in edge.lines for use in uses[tape.operands(k)[edge.i]])
        others = sorted({groups[use] for use in used if use in groups} - {n})  # the search may be on one line alone
        for other in [m for m in others if m > n][:_PAIRS] if len(others) > 1 else ():
            both = [(k, e.i) for e in (edge, edges[other]) for k in e.lines]
            yield "the gradients through {} and one other operation are missing", _omit_uses(tape, both), edge.position
    for slot, found in sorted(uses.items()):
        if 1 < len(found) <= _MOST_USES:
            yield from _omit_in_turns(tape, slot, found)


def _uses_of_slots(tape: Tape) -> dict[int, list[Use]]:
    """Return the lines and arguments that read each slot, in order."""
    uses: dict[int, list[Use]] = {}
    for k, (_, slots, *_) in enumerate(tape.lines):
        for i, slot in enumerate(slots):
            if slot != CONSTANT:
                uses.setdefault(slot, []).append((k, i))
    return uses


def _omit_uses(tape: Tape, uses: Iterable[Use]) -> Changed:
    rules: Changed = {}
    for k, i in uses:
        primitive = tape.primitive(k)
        if primitive is not None:
            rules.setdefault(k, {})[i] = omit_contribution(primitive.rule(i))
    return rules


def _omit_in_turns(tape: Tape, slot: int, found: list[Use]) -> Iterator[tuple[str, Changed, Any]]:
    """Yield the cases where only one use of a value is counted, or where overlapping slices overwrite each other."""
    for kept, which in ((found[-1], "last"), (found[0], "first")) if len(found) > 2 else ():
        says = f"of {len(found)} uses of a value only the {which}, {{}}, is counted"
        yield says, _omit_uses(tape, [use for use in found if use != kept]), tape.position(kept[0])
    regions: dict[Use, Any] = {}  # masks of the entries of the value that slices read
    for use in found:
        primitive, _, xs, _, params, _ = tape.lines[use[0]]
        if primitive is not None and primitive.name == "getitem":
            regions[use] = np.zeros(shape(xs[use[1]]), dtype=bool)
            regions[use][(params or {})["index"]] = True
    sliced = list(regions)
    if not sliced:
        return
    for order, when in ((sliced, "later"), (sliced[::-1], "earlier")):
        rules: Changed = {}
        for n, use in enumerate(order):
            _mask_contribution(tape, rules, use, [regions[after] for after in order[n + 1 :]])
        says = f"where slices of a value overlap, only the {when} one is counted, as in {{}}"
        yield says, rules, tape.position(sliced[0][0])
    for use in sliced if len(found) <= _PAIRS else ():
        for rivals in (found, [u for u in found if u < use], [u for u in found if u > use]):
            rules = {}
            for rival in rivals:
                if rival != use:
                    _mask_contribution(tape, rules, rival, [regions[use]])
            yield "the gradient through {} replaces what was there", rules, tape.position(use[0])


def _mask_contribution(tape: Tape, rules: Changed, use: Use, regions: list[Any]) -> None:
    """Change the rules so that a contribution is zero where it is overwritten."""
    primitive = tape.primitive(use[0])
    if primitive is None or not regions:
        return
    kept = ~np.any(regions, axis=0)
    own: Rule = primitive.rule(use[1])
    masked = Replaced(own, lambda pulled, ybar, i, y, xs, params: np.where(kept, pulled(ybar), 0.0))
    rules.setdefault(use[0], {})[use[1]] = masked


def _overwrite_gather(tape: Tape, edge: Edge) -> Iterator[tuple[str, Changed, Any]]:
    """Yield the case where repeated positions of a gather are assigned instead of added, as `dx[index] += d` does."""
    rules: Changed = {}
    for k in edge.lines:
        _, _, _, _, params, _ = tape.lines[k]
        index = (params or {})["index"]
        parts = index if isinstance(index, tuple) else (index,)
        if any(isinstance(part, list | np.ndarray) for part in parts):
            rules[k] = {0: Replaced(edge.primitive.rule(0), _assign_cotangent)}
    if rules:
        says = "of repeated positions in the index of {} only the last is counted ({adds} adds them all)"
        yield says, rules, edge.position


def _assign_cotangent(pulled: Any, ybar: Any, i: int, y: Any, xs: Any, params: Any) -> Any:
    made = np.zeros(shape(xs[i]))
    made[params["index"]] = ybar
    return made


def find_overwritten_positions(wrong: Wrong) -> Diagnosis | None:
    """Return a diagnosis if some entries lack what repeated positions of an index add; equal contributions make it a factor."""
    q = wrong.q
    if q.untraced is not None or size(q.value) > _MOST_OUTPUTS or not wrong.where():
        return None
    search = SlipSearch(wrong, q.recording)
    gathers = [edge for edge in edges_of(search.program) if edge.primitive.name == "getitem"]
    ways = (way for edge in gathers for way in _overwrite_gather(search.program.tape, edge))
    return search.find_first(
        SlipTrial(DiagnosisKind.OVERWRITTEN, f"{says}: {_OVERWRITTEN}", search.program.with_rules(rules), position)
        for says, rules, position in ways
    )


def find_slip_on_tape(wrong: Wrong) -> Diagnosis | None:
    """Return the one line of the program whose slip turns the right gradient into the claim; None if none is found.

    Cost  a sweep a trial, within the budget.
    """
    q = wrong.q
    if q.untraced is not None or size(q.value) > _MOST_OUTPUTS:
        return None
    search, edges = SlipSearch(wrong, q.recording), []
    program = search.program = _hold_shifts_constant(search)
    for edge in edges_of(program):
        at = place_of_position(edge.position)
        line = (at.file if isinstance(at, Place) else None, None if at is None else at.line)
        edges += [edge] if wrong.only_line in (None, line) else []
    searches: tuple[Callable[[], Diagnosis | None], ...] = (
        lambda: _find_missing_edge(search, edges),
        lambda: search.find_first(_known_slips(program, edges)),
        lambda: _find_wrong_share(search, edges),
        lambda: search.find_first(_other_iterations(program, edges)),
        lambda: search.find_first(_overwritings(program, edges)),
        lambda: search.find_first(block_slips(program)),
        lambda: search.find_first(_other_values(program, edges)),
    )
    with np.errstate(all="ignore"):
        for search.partly in (False, True) if len(wrong.names) < len(wrong.claimed) else (False,):
            for find in searches:
                try:
                    found = find()
                except BudgetSpent:  # what was computed before is compared in the next round
                    wrong.note_limit()
                    continue
                if found is not None:
                    return found
    return None


def _hold_shifts_constant(search: SlipSearch) -> RecordedProgram:
    """Return the program with largest entries held constant, where that leaves the gradient as it is, as in exp(z - max(z)).

    Nobody writes out what goes through them, so that a slip beside them is one slip.
    """
    held = search.program
    for edge in edges_of(held):
        held = change_rule_on_edge(held, edge, omit_contribution) if edge.primitive.name == "max" else held
    if held is search.program:
        return held
    try:
        with np.errstate(all="ignore"):
            made = search.made(held)
    except BudgetSpent:
        return search.program
    right = search.wrong.right
    rooms = {n: _SAME * largest_magnitude(x) for n, x in right.items()}
    same = made is not None and all(largest_magnitude(made[n] - x) <= rooms[n] for n, x in right.items())
    return held if same else search.program


def find_unnamed_share(wrong: Wrong) -> Diagnosis | None:
    """Return the line whose contribution the claim multiplies by a factor with no known cause, from `find_slip_on_tape`."""
    return next(iter(wrong.unnamed), None)


def _known_slips(program: RecordedProgram, edges: list[Edge]) -> Iterator[SlipTrial]:
    """Yield each slip in the tables: a wrong partial, a forgotten transpose, a wrong axis."""
    recorded: dict[Any, set[str]] = {}
    for edge in edges:
        recorded.setdefault(source_key(edge.position, edge.lines[-1]), set()).add(edge.primitive.name)
    for edge in edges:
        _, _, xs, y, _, _ = program.lines[edge.lines[-1]]
        code, alone = code_at(edge.position), len(recorded[source_key(edge.position, edge.lines[-1])]) == 1
        for kind, says, rule in slips_of_argument(edge.primitive, edge.i, y, xs, code, alone):
            yield SlipTrial(kind, says, change_rule_on_edge(program, edge, rule), edge.position)


def _find_missing_edge(search: SlipSearch, edges: list[Edge]) -> Diagnosis | None:
    """Find the edge whose contribution is missing in the claim."""
    program = search.program
    for n, edge in enumerate(edges):
        operands = program.tape.operands(edge.lines[-1])
        if operands.count(operands[edge.i]) > 1:
            continue  # half of x*x is missing: reported as a factor 2
        whose = search.explains(_gradient_without_edge(search, n, edge))
        if whose is not None:
            search.wrong.slipped.append(change_rule_on_edge(program, edge, omit_contribution))
            return _diagnose_share(search, 0.0, edge, whose)
    return None


def _gradient_without_edge(search: SlipSearch, n: int, edge: Edge) -> Gradient | None:
    """Return the gradient without the contribution through an edge; it is computed once and cached."""
    if n not in search.lacking:
        search.lacking[n] = search.made(change_rule_on_edge(search.program, edge, omit_contribution))
    return search.lacking[n]


def _find_wrong_share(search: SlipSearch, edges: list[Edge]) -> Diagnosis | None:
    """Find the edge whose contribution the claim holds with a wrong factor, such as -1 or 2 instead of 1."""
    program, wrong = search.program, search.wrong
    for n, edge in enumerate(edges):
        without = _gradient_without_edge(search, n, edge)
        if without is None:
            continue
        # the factor with which the claim holds the contribution that is missing there, by least squares
        part, held = (
            concatenate_entries(of[n] - without[n] for n in wrong.names) for of in (wrong.right, wrong.claimed)
        )
        scale = largest_magnitude(part)
        if not scale > 0 or not np.isfinite(scale):
            continue
        factor = float((held / scale) @ (part / scale) / ((part / scale) @ (part / scale)))
        factor = 0.0 if abs(factor) < 1e-6 else factor
        if len(edge.lines) > 1 and abs(factor) > 1e-6:  # in a loop the gradient is not linear in the factor
            turned = SlipTrial(
                DiagnosisKind.NEGATED, _WRONG_SIGN, change_rule_on_edge(program, edge, negated), edge.position
            )
            found = search.find_first([turned])
            if found is not None:
                return found
            continue
        whose = search.explains({n: without[n] + factor * (wrong.right[n] - without[n]) for n in without})
        if whose is None:
            continue
        wrong.slipped.append(change_rule_on_edge(program, edge, scale_contribution(factor)))
        operands = program.tape.operands(edge.lines[-1])
        alike = operands.count(operands[edge.i])  # of the two equal parts of x*x, one may be missing
        factor = (alike - 1 + factor) / alike
        factor = 0.0 if abs(factor) < 1e-6 else factor
        found = _diagnose_share(search, factor, edge, whose)
        if found is not None:
            return found
        moved = sum(int(np.sum(np.abs(wrong.right[n] - without[n]) > 0)) for n in wrong.names)
        if not wrong.unnamed and moved >= _FEWEST:
            says = f"the contribution through one operation is {factor:.6g} times the right one{whose}"
            wrong.unnamed.append(search.diagnose(DiagnosisKind.FACTOR, says, edge.position))
    return None


def _diagnose_share(search: SlipSearch, factor: float, edge: Edge, whose: str) -> Diagnosis | None:
    if factor == 0:
        tape = search.program.tape
        if _is_term(search.program, edge):
            says = f"the gradient of one term of the function is missing{whose}"
            term = tape.operands(edge.lines[-1])[edge.i]
            return search.diagnose(DiagnosisKind.TERM, says, tape.position(term))
        uses, position = _find_fork(tape, edge)
        if uses > 1:
            says = f"the gradient through {{}} is missing{whose}: it is dropped, or overwritten instead of added"
            return search.diagnose(DiagnosisKind.OVERWRITTEN, says, position)
        says = f"the gradient through {{}} is missing{whose}: treated as a constant"
        return search.diagnose(DiagnosisKind.LEFT_OUT, says, position)
    if abs(factor + 1) < 1e-6:
        return search.diagnose(DiagnosisKind.NEGATED, _WRONG_SIGN + whose, edge.position)
    named = name_factor(factor, search.wrong)
    if named is None:
        return None
    return search.diagnose(DiagnosisKind.SLIP, f"in the derivative of one operation, {named[1]}{whose}", edge.position)


def _is_term(program: RecordedProgram, edge: Edge) -> bool:
    """Whether an edge leads into a sum that is the result, up to constant factors."""
    y, _, tape = program
    top = y.slot
    while True:
        primitive, slots, _, _, _, _ = tape.lines[top]
        moving = [slot for slot in slots if slot != CONSTANT]
        if primitive is not None and primitive.name in ("add", "subtract"):
            if edge.lines == (top,):
                return True
            towards = [slot for slot in moving if _depends_on(tape, slot, edge.lines[-1])]
            if not towards:
                return False
            top = towards[0]
        elif len(moving) == 1 and primitive is not None and primitive.name in ("multiply", "divide", "negative"):
            top = moving[0]
        else:
            return False


def _depends_on(tape: Tape, slot: int, k: int) -> bool:
    """Whether the value of a slot depends on that of line k."""
    reached = {slot}
    for line in range(slot, k, -1):
        if line in reached:
            reached |= set(tape.operands(line))
    return k in reached


def _find_fork(tape: Tape, edge: Edge) -> tuple[int, Any]:
    """Return how often the value is used at which a missing contribution branches off, and the position of the branch.

    Of an operation on several computed values, it is that of the value through which the contribution is missing.

    The search goes upstream from an edge: a value that is used once, and computed from one value, carries the same
    contribution.
    """
    uses = _uses_of_slots(tape)
    k, i = edge.lines[-1], edge.i
    while True:
        slot = tape.operands(k)[i]
        count, moving = len(uses[slot]), [n for n, source in enumerate(tape.operands(slot)) if source != CONSTANT]
        if count > 1 or len(moving) != 1:
            several = sum(source != CONSTANT for source in tape.operands(k)) > 1
            of_value = several and count == 1 and tape.primitive(slot) is not None
            return count, tape.position(slot if of_value else k)
        k, i = slot, moving[0]


# Slips in the derivative of a value that several lines compute from another, such as a sigmoid written out.

_FARTHEST = 14  # lines between the start and the end of a block, at most
_MOST_ENTRIES = 64  # of a value whose Jacobian is computed row by row

_WRITTEN_OUT: tuple[tuple[Callable[..., Any], str], ...] = (
    (lambda y, x, p: y, "the derivative of this value is computed as y, the value itself"),
    (lambda y, x, p: 1 - y, "the derivative of this value is computed as 1 - y"),
    (lambda y, x, p: y * (1 + y), "the derivative of this value is computed as y*(1 + y)"),
    (lambda y, x, p: y * (1 - y), "the derivative of this value is computed as y*(1 - y), which is that of a sigmoid"),
    (lambda y, x, p: 1 - y * y, "the derivative of this value is computed as 1 - y**2, which is that of tanh"),
    (lambda y, x, p: y * y, "the derivative of this value is computed as y**2"),
    (lambda y, x, p: x * (1 - x), "the derivative of this value is computed as x*(1 - x) of its argument"),
    (lambda y, x, p: 1 - x * x, "the derivative of this value is computed as 1 - x**2 of its argument"),
    (lambda y, x, p: 1 + 0 * y, "the derivative of this value is missing (used as if it were 1)"),
    (lambda y, x, p: np.exp(-x * x), "the derivative of this value is computed as exp(-x**2)"),
    (lambda y, x, p: np.exp(-x * x / 2), "the derivative of this value is computed as exp(-x**2/2)"),
    (lambda y, x, p: 1 / p, "the derivative of this value is inverted"),
)
_DIAGONAL: tuple[tuple[Callable[..., Any], str], ...] = (
    (lambda y, x, p: p, "only the diagonal of the Jacobian of this value is used, but its entries depend on each other too"),
    (lambda y, x, p: 1 + 0 * y, "the derivative of this value is missing (used as if it were 1)"),
)  # fmt: skip


def block_slips(program: RecordedProgram) -> Iterator[SlipTrial]:
    """Yield each slip in which the derivative of one block is replaced in the program.

    A block computes a value that depends on the inputs only through one other value, of the same shape. If a loop runs a
    block several times, all runs are replaced at once.
    """
    tape = program.tape
    for blocks in _find_blocks(tape, len(program.inputs)):
        slopes = [_slope_of_block(tape, u, v) for u, v in blocks]
        if any(slope is None for slope in slopes):
            continue
        found = [slope for slope in slopes if slope is not None]
        diagonal = not all(whole for _, whole in found)
        if not diagonal and all(np.all(slope == 1) for slope, _ in found):
            continue  # a slope of 1, as that of a sum, is not written: a factor is one too many
        for makes, says in _DIAGONAL if diagonal else _WRITTEN_OUT:
            lines = {}
            for (u, v), (slope, _) in zip(blocks, found, strict=True):
                made = makes(tape.value(v), tape.value(u), slope)
                whole = Primitive("block", np.positive, (Partial(lambda y, x, made=made: made),))
                lines[v] = whole, (u,), (tape.value(u),), tape.value(v), None, tape.position(v)
            yield SlipTrial(DiagnosisKind.SLIP, says, program.with_lines(lines), tape.position(blocks[0][1]))


def _find_blocks(tape: Tape, inputs: int) -> list[list[tuple[int, int]]]:
    """Return the blocks as pairs of slots, grouped by their place in the source, the last in the program first."""
    found: dict[Any, list[tuple[int, int]]] = {}
    for v in range(len(tape.lines) - 1, inputs - 1, -1):
        for far, u in enumerate(_only_sources(tape, v, inputs)):
            if shape(tape.value(u)) == shape(tape.value(v)):
                found.setdefault((source_key(tape.position(v), v), far), []).append((u, v))
    return list(found.values())


def _only_sources(tape: Tape, v: int, inputs: int) -> Iterator[int]:
    """Yield each slot through which alone `v` depends on the inputs, nearest first; the operand of a unary `v` is left out."""
    frontier = {slot for slot in tape.operands(v) if slot != CONSTANT}
    for steps in range(_FARTHEST):
        if not frontier:
            return
        if len(frontier) == 1 and (steps or len(tape.operands(v)) > 1):
            yield next(iter(frontier))
        last = max(frontier)
        if last < inputs:
            return
        frontier.remove(last)
        frontier |= {slot for slot in tape.operands(last) if slot != CONSTANT}


def _slope_of_block(tape: Tape, u: int, v: int) -> tuple[Any, bool] | None:
    """Return the diagonal of the Jacobian of `v` with respect to `u`, and whether the rest is zero; None if it is too large."""
    x = tape.value(u)
    cut = Tape(tape.level)
    cut.lines = [*tape.lines[:u], (None, (), (), x, None, None), *tape.lines[u + 1 : v + 1]]
    n = size(x)
    moved = (tape.lines[k] for k in range(u + 1, v + 1) if any(slot >= u for slot in tape.operands(k)))
    if all(
        primitive is not None and primitive.kind == "elementwise" and all(shape(x) in ((), shape(y)) for x in xs)
        for primitive, _, xs, y, _, _ in moved
    ):
        bar = cut.sweep(v, np.ones(shape(x))[()])[u]
        return (bar, True) if bar is not None and shape(bar) == shape(x) else None
    if n > _MOST_ENTRIES:
        return None
    diagonal = np.zeros(n)
    for k in range(n):
        bar = cut.sweep(v, np.eye(1, n, k).reshape(shape(x)))[u]
        diagonal[k] = 0.0 if bar is None else np.ravel(bar)[k]
    return diagonal.reshape(shape(x))[()], False
