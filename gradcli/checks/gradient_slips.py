"""Mistakes that change a whole gradient, or some of its entries; each row of the table is one mistake."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from gradcli.arithmetic.tape import CONSTANT
from gradcli.checks.wrong import CLOSE, SMALL, BudgetSpent, Gradient, Wrong
from gradcli.classes import dataclass
from gradcli.modes.mode import Question
from gradcli.report.point_report import Diagnosis
from gradcli.request.point import Array
from gradcli.targets.derived import original_function
from gradcli.tracing.provenance import code_at
from gradcli.tracing.shapes import concatenate_entries, largest_magnitude, shape, size
from gradcli.words import DiagnosisKind

_SLIGHT = 0.1  # a factor this near 1 means inexact entries, not a missing factor


@dataclass(frozen=True, slots=True)
class Slip:
    """A mistake: a function from the right gradient of one input to the wrong one (None if it does not apply), and a sentence."""

    kind: DiagnosisKind
    makes: Callable[[Array], Array | None]
    says: str


def _is_square_matrix(g: Array) -> bool:
    return bool(np.ndim(g) >= 2 and g.shape[-1] == g.shape[-2])


def _broadcast_along_axis(axis: int, how: Callable[..., Array]) -> Callable[[Array], Array | None]:
    """Return a function that replaces all entries along an axis by one number, computed from them by `how`."""

    def broadcast(g: Array) -> Array | None:
        has_several = np.ndim(g) > axis and g.shape[axis] > 1
        return np.broadcast_to(how(g, axis=axis, keepdims=True), g.shape) if has_several else None

    return broadcast


def _broadcast_to_all(how: Callable[[Array], Array]) -> Callable[[Array], Array | None]:
    return lambda g: np.broadcast_to(how(g), np.shape(g)) if np.size(g) > 1 else None


_TRIANGLE = "the claim is the symmetric part of the right gradient: the function reads one triangle of the matrix"
# fmt: off
TRANSPOSED = Slip(DiagnosisKind.TRANSPOSED, lambda g: np.swapaxes(g, -1, -2) if _is_square_matrix(g) else None, "the gradient is transposed")
REORDERED  = Slip(DiagnosisKind.TRANSPOSED, lambda g: g.T.reshape(g.shape) if np.ndim(g) == 2 else None, "the gradient is flattened by columns but reshaped by rows (or the reverse)")
REORDERED2 = Slip(DiagnosisKind.TRANSPOSED, lambda g: g.reshape(g.shape[::-1]).T if np.ndim(g) == 2 else None, "the gradient is flattened by rows but reshaped by columns (or the reverse)")
SYMMETRIC  = Slip(DiagnosisKind.ONE_TRIANGLE, lambda g: (g + g.T) / 2 if np.ndim(g) == 2 and _is_square_matrix(g) else None, _TRIANGLE)
BOTH       = Slip(DiagnosisKind.FACTOR, lambda g: g + g.T if np.ndim(g) == 2 and _is_square_matrix(g) else None, "the gradient is added to its transpose: mirrored entries are counted twice")
REVERSED   = Slip(DiagnosisKind.PERMUTED, lambda g: g[::-1] if np.ndim(g) == 1 else None, "the entries are in reversed order")
LEFT       = Slip(DiagnosisKind.SHIFTED, lambda g: np.roll(g, -1) if np.ndim(g) == 1 else None, "the entries are shifted by one")
RIGHT      = Slip(DiagnosisKind.SHIFTED, lambda g: np.roll(g, 1) if np.ndim(g) == 1 else None, "the entries are shifted by one")
LEFT_0     = Slip(DiagnosisKind.SHIFTED, lambda g: np.append(g[1:], 0.0) if np.ndim(g) == 1 and g.size > 1 else None, "the entries are shifted by one")
RIGHT_0    = Slip(DiagnosisKind.SHIFTED, lambda g: np.insert(g[:-1], 0, 0.0) if np.ndim(g) == 1 and g.size > 1 else None, "the entries are shifted by one")
SUMMED     = Slip(DiagnosisKind.BROADCAST, _broadcast_to_all(np.sum), "every entry is the sum of the right ones: summed, then broadcast")
AVERAGED   = Slip(DiagnosisKind.BROADCAST, _broadcast_to_all(np.mean), "every entry is the mean of the right ones: averaged, then broadcast")
BY_AXIS    = tuple(
    Slip(DiagnosisKind.BROADCAST, _broadcast_along_axis(axis, how), f"along axis {axis} every entry is the {word} of the right ones: {past}, then broadcast")
    for axis in range(3) for how, word, past in ((np.sum, "sum", "summed over that axis"), (np.mean, "mean", "averaged over that axis"), (lambda g, axis, keepdims: np.take(g, [0], axis=axis), "first", "picked"))
)
ABSOLUTE   = Slip(DiagnosisKind.SIGN, np.abs, "the sign is lost: every entry is the absolute value of the right one")
SQUARED    = Slip(DiagnosisKind.SQUARED, np.square, "every entry is the square of the right one")
WHOLE_SLIPS = (
    TRANSPOSED, REORDERED, REORDERED2, SYMMETRIC, BOTH, REVERSED, LEFT, RIGHT, LEFT_0, RIGHT_0,
    SUMMED, AVERAGED, *BY_AXIS, ABSOLUTE, SQUARED,
)
# fmt: on
_SIGNED = (DiagnosisKind.TRANSPOSED, DiagnosisKind.PERMUTED, DiagnosisKind.SHIFTED)


def find_mistake_in_whole(wrong: Wrong) -> Diagnosis | None:
    """Return the mistake that changed the whole gradient of each wrong input; None if there is none."""
    factor = fit_factor(wrong.claimed, wrong.right, wrong.names)
    if factor is not None and wrong.explained({name: factor * wrong.right[name] for name in wrong.names}):
        named = name_factor(factor, wrong)
        if named is not None:
            return wrong.says(named[0], named[1] + _name_wrong_inputs(wrong))
    for slip in WHOLE_SLIPS:
        made = {name: slip.makes(np.asarray(wrong.right[name])) for name in wrong.names}
        fitting = {name: g for name, g in made.items() if g is not None}
        if len(fitting) < len(made):
            continue
        for sign, also in ((1.0, ""), (-1.0, ", and the sign is flipped")) if slip.kind in _SIGNED else ((1.0, ""),):
            if wrong.explained({name: sign * g for name, g in fitting.items()}):
                return wrong.says(slip.kind, slip.says + also + _name_wrong_inputs(wrong))
    return _find_permutation(wrong)


# Factors by which gradients are commonly wrong, and the mistake behind each.

_SAME = 1e-6  # relative: two factors this near are the same
_FACTORS_WITH_A_CAUSE = (
    (2.0, "a factor 2 too large"),
    (0.5, "a factor 2 too small"),
    (np.pi / 180, "a factor pi/180: degrees for radians"),
    (180 / np.pi, "a factor 180/pi: radians for degrees"),
    (np.log(10.0), "a factor ln 10: the base of a logarithm"),
    (1 / np.log(10.0), "a factor 1/ln 10: the base of a logarithm"),
    (np.log(2.0), "a factor ln 2: the base of a logarithm"),
    (1 / np.log(2.0), "a factor 1/ln 2: the base of a logarithm"),
    (np.pi, "a factor pi too large"),
    (1 / np.pi, "a factor pi too small"),
    (2 * np.pi, "a factor 2 pi too large"),
    (0.5 / np.pi, "a factor 2 pi too small"),
    (np.sqrt(np.pi) / 2, "a factor sqrt(pi)/2: that of erf is missing"),
    (np.sqrt(2.0), "a factor sqrt(2) too large"),
    (np.sqrt(0.5), "a factor sqrt(2) too small"),
)
_SMALL_FACTORS = tuple(
    row for n in (3, 4, 6, 8) for row in ((float(n), f"a factor {n} too large"), (1.0 / n, f"a factor {n} too small"))
)
FACTORS = (*_FACTORS_WITH_A_CAUSE, *_SMALL_FACTORS)
# what a scalar argument causes if it is missing or repeated, such as a step size dt: a power of it
_OF_ARGUMENTS = ((1, "one {} too many"), (-1, "{} is missing"), (2, "{}**2 too many"), (-2, "{}**2 is missing"))


def fit_factor(claimed: Gradient, right: Gradient, names: tuple[str, ...]) -> float | None:
    """Return the factor from the right gradient to the claim by least squares; None if a gradient is zero or not finite.

    Shapes  `claimed[x]` and `right[x]` have the same shape for each input x in `names`.
    """
    a, b = (concatenate_entries(of[name] for name in names) for of in (claimed, right))
    scale = largest_magnitude(b)
    if not scale > 0 or not np.all(np.isfinite(a)):
        return None
    return float((a / scale) @ (b / scale) / ((b / scale) @ (b / scale)))


def name_factor(factor: float, wrong: Wrong) -> tuple[DiagnosisKind, str] | None:
    """Return the kind of mistake that causes a factor, and a sentence; None if no known mistake causes it."""
    if abs(factor) < 1e-9:
        return DiagnosisKind.DETACHED, "the gradient is zero: the input is detached somewhere or treated as a constant"
    if abs(factor + 1) < _SAME:
        return DiagnosisKind.SIGN, "the sign is flipped"
    numbers = {name: x for name, x in wrong.q.point.values.items() if isinstance(x, float | int) and abs(x) != 1.0}
    with np.errstate(all="ignore"):
        powers = [(np.float64(x) ** n, says.format(name)) for name, x in numbers.items() for n, says in _OF_ARGUMENTS]
    of_arguments = [(float(y), f"a factor {y:.6g}: {says}") for y, says in powers if y != 0.0 and np.isfinite(y)]
    for value, says in (
        *_FACTORS_WITH_A_CAUSE, *_factors_of_counts(wrong), *of_arguments, *_SMALL_FACTORS, *_factors_of_constants(wrong.q),
    ):  # fmt: skip
        for sign, also in ((1.0, ""), (-1.0, ", and the sign is flipped")):
            if abs(factor / (sign * value) - 1) < _SAME:
                return DiagnosisKind.FACTOR, says + also
    return None


def _factors_of_constants(q: Question) -> Iterator[tuple[float, str]]:
    """Yield the factors that a number inside the function causes, such as a temperature, if it is missing or repeated."""
    seen: set[float] = set()
    for _, slots, xs, _, _, position in q.lines:
        for slot, x in zip(slots, xs, strict=False):
            if slot == CONSTANT and np.ndim(x) == 0 and isinstance(x, int | float | np.number):
                c, code = abs(float(x)), code_at(position)
                if np.isfinite(c) and c not in (0.0, 1.0) and c not in seen and code:
                    seen.add(c)
                    yield c, f"a factor {c:.6g}: the number in {code} is one too many"
                    yield 1 / c, f"a factor 1/{c:.6g}: the number in {code} is missing"


def _factors_of_counts(wrong: Wrong) -> Iterator[tuple[float, str]]:
    """Yield the factors that come from counts n of entries or axes: n, n - 1, and their quotients."""
    sizes: dict[int, str] = {}
    for name, x in wrong.q.point.values.items():
        if isinstance(x, np.ndarray | np.float64):
            for k, n in enumerate(shape(x)):
                sizes.setdefault(n, f"axis {k} of {name}")
            sizes.setdefault(size(x), f"the entries of {name}")
    sizes.setdefault(size(wrong.q.value), "the outputs")
    for _, _, _, y, _, _ in wrong.q.lines:
        for n in shape(y):
            sizes.setdefault(n, f"the {n} entries of an intermediate value")
    for n, what in sizes.items():
        if n > 2:
            yield float(n), f"a factor {n} too large: a mean over {what} became a sum"
            yield 1.0 / n, f"a factor {n} too small: a sum over {what} became a mean"
            yield float(n - 1), f"a factor {n - 1} too large: the division by n - 1 is missing (n counts {what})"
            yield 1.0 / (n - 1), f"a factor {n - 1} too small: divided by n - 1 once too often (n counts {what})"
            yield n / (n - 1), f"a factor {n}/{n - 1}: n and n - 1 are mixed up (n counts {what})"
            yield (n - 1) / n, f"a factor {n - 1}/{n}: n and n - 1 are mixed up (n counts {what})"


def _name_wrong_inputs(wrong: Wrong) -> str:
    return "" if len(wrong.names) == len(wrong.claimed) else f" ({', '.join(wrong.names)})"


def _find_permutation(wrong: Wrong) -> Diagnosis | None:
    """Return a diagnosis if the entries are right but in another order."""
    for name in wrong.names:
        mask = np.asarray(wrong.masks[name])
        a, b = np.asarray(wrong.claimed[name])[mask], np.asarray(wrong.right[name])[mask]
        order_a, order_b = np.argsort(a), np.argsort(b)
        made = np.array(wrong.right[name])
        if a.size < 2 or np.ptp(b) == 0:
            return None
        values = np.empty(a.size)
        values[order_a] = b[order_b]
        made[mask] = values
        if not wrong.alone(name).explained({name: made}):
            return None
    if len(wrong.names) == 1 and np.sum(wrong.masks[wrong.names[0]]) == 2:
        return wrong.says(DiagnosisKind.PERMUTED, f"two entries are exchanged{wrong.where()}")
    where = wrong.where() or _name_wrong_inputs(wrong)
    return wrong.says(DiagnosisKind.PERMUTED, f"the entries are right but in another order{where}")


def find_factor_in_entries(wrong: Wrong) -> Diagnosis | None:
    """Return one mistake that changed only the wrong entries: a sign or a known factor."""
    factor = _factor_of_wrong_entries(wrong)
    named = None if factor is None else name_factor(factor, wrong)
    return None if named is None else wrong.says(named[0], named[1] + wrong.where())


def _factor_of_wrong_entries(wrong: Wrong) -> float | None:
    """Return the factor that makes the claim of the right gradient, where it is wrong; None if there is none."""
    factor = fit_factor(*wrong.masked, wrong.names)
    if factor is None or not wrong.explained(_change_wrong_entries(wrong, lambda g: factor * g)):
        return None
    return factor


def find_added_constant(wrong: Wrong) -> Diagnosis | None:
    """Return a diagnosis if one constant was added to all wrong entries, and there are several."""
    apart = np.subtract(*map(concatenate_entries, (of.values() for of in wrong.masked)))
    constant = float(np.median(apart))
    if apart.size < 2 or not wrong.explained(_change_wrong_entries(wrong, lambda g: g + constant)):
        return None
    return wrong.says(DiagnosisKind.CONSTANT, f"a constant {constant:.6g} is added{wrong.where()}")


def find_slight_error(wrong: Wrong) -> Diagnosis | None:
    """Return a diagnosis if one factor near 1 explains the wrong entries, or a single entry is slightly wrong."""
    found = find_wrong_entry(wrong) or find_unnamed_factor(wrong)
    if found is None:
        return None
    name, at = wrong.worst()
    claimed, right = float(wrong.claimed[name][at]), float(wrong.right[name][at])
    return found if abs(claimed - right) < _SLIGHT * abs(right) else None


def find_unnamed_factor(wrong: Wrong) -> Diagnosis | None:
    """Return a diagnosis if several entries are wrong, all by one factor, whether its cause is known or not."""
    return _find_common_factor(wrong) if wrong.count > 1 else None


def find_wrong_entry(wrong: Wrong) -> Diagnosis | None:
    """Return a diagnosis if one entry alone is wrong; with its factor, if the gradient has no other entry."""
    if wrong.count > 1:
        return None
    if not wrong.where():
        return _find_common_factor(wrong)
    (claimed,), (right,) = (of[wrong.names[0]] for of in wrong.masked)
    apart = (
        f"by a relative {abs(claimed - right) / abs(right):.1e}; the others agree within their bounds" if right else ""
    )
    says = f"one entry alone is wrong,{wrong.where().removeprefix(' in')}, {apart or 'where the right one is 0'}"
    return wrong.says(DiagnosisKind.ENTRY, says)


def _find_common_factor(wrong: Wrong) -> Diagnosis | None:
    factor = _factor_of_wrong_entries(wrong)
    if factor is None:
        return None
    kind = DiagnosisKind.SCALED if abs(factor - 1) < _SLIGHT else DiagnosisKind.UNKNOWN
    shown = f"{factor:.10g}" if abs(factor - 1) > 1e-8 else f"1 {'+-'[factor < 1]} {abs(factor - 1):.1e}"
    says = f"every wrong entry is {shown} times the right one{wrong.where()}"
    if kind is DiagnosisKind.UNKNOWN:
        says = f"no mistake that gradcli knows explains the claim: {says}"
    return wrong.says(kind, says)


_ROUND = 1e-5  # relative: torch divides by the norm plus 1e-6


def find_clipping(wrong: Wrong) -> Diagnosis | None:
    """Return a diagnosis if the claim is the right gradient clipped: by its norm, or entry by entry."""
    claimed, right = (np.concatenate([np.ravel(of[n]) for n in wrong.claimed]) for of in (wrong.claimed, wrong.right))
    if claimed.size < 2 or not (np.all(np.isfinite(claimed)) and np.all(np.isfinite(right))):
        return None
    norm, whole = float(np.linalg.norm(claimed)), float(np.linalg.norm(right))
    if norm and whole and _is_round_number(norm):
        share = norm / whole
        if wrong.explained({name: share * wrong.right[name] for name in wrong.claimed}):
            says = (
                f"the claim is clipped by norm, or divided by it: its norm is {float(f'{norm:.2g}'):g}, that of the right "
                f"gradient {whole:.6g}, and their direction is the same"
            )
            return wrong.says(DiagnosisKind.CLIPPED, says)
    most = float(np.max(np.abs(claimed)))
    limited = {name: np.clip(wrong.right[name], -most, most) for name in wrong.claimed}
    if most > 0 and (wrong.count > 1 or _is_round_number(most)) and wrong.explained(limited):
        says = f"the claim is clipped by value, to {most:.6g}: the direction is another one than that of the gradient"
        return wrong.says(DiagnosisKind.CLIPPED, says)
    return None


def _is_round_number(x: float) -> bool:
    """Whether a number is one that people write: of at most two digits."""
    return abs(float(f"{x:.2g}") / x - 1) < _ROUND


def _change_wrong_entries(wrong: Wrong, makes: Callable[[Array], Array]) -> dict[str, Any]:
    return {name: np.where(wrong.masks[name], makes(wrong.right[name]), wrong.right[name]) for name in wrong.names}


def find_exchanged_inputs(wrong: Wrong) -> Diagnosis | None:
    """Return a diagnosis if the claim for an input is the gradient of another input."""
    taken: dict[str, str] = {}
    for name in wrong.names:
        others = [n for n in wrong.q.wrt if n != name and n in wrong.right]
        for other in (n for n in others if shape(wrong.right[n]) == shape(wrong.right[name])):
            if wrong.alone(name).explained({name: wrong.right[other]}):
                taken[name] = other
    if not taken or set(taken) != set(wrong.names):
        return None
    if len(taken) == 2 and set(taken) == set(taken.values()):
        return wrong.says(DiagnosisKind.SWAPPED, f"the gradients of {' and '.join(taken)} are exchanged")
    says = "; ".join(f"the claim for {a} is the gradient of {b}" for a, b in taken.items())
    return wrong.says(DiagnosisKind.SWAPPED, says)


def explain_wrong_shape(claimed: Array, right: Array, name: str) -> str | None:
    """Return in words why a claim has the wrong shape: not summed, transposed, flattened; None if none of these fits.

    Shapes  `right` has the shape that the claim should have; `claimed` has any shape.
    """
    for says, made in _possible_reshapings(np.asarray(claimed), shape(right)):
        room = 1e-6 * max(largest_magnitude(right), 1e-300)
        if shape(made) == shape(right) and np.all(np.abs(made - right) <= room):
            return says.format(name)
    return None


def _possible_reshapings(g: Any, wanted: tuple[int, ...]) -> Iterator[tuple[str, Any]]:
    if g.size == int(np.prod(wanted)):
        if g.ndim > 1 and g.T.shape == wanted:
            yield "transposed, it is right", g.T
        yield "the entries are right, in another shape: reshape them", g.reshape(wanted)
        yield "the entries are right, flattened by columns", g.reshape(wanted, order="F")
    missing = "summed over {} it is right: the sum over the {} that {{}} was broadcast along is missing"
    for axis in range(g.ndim):
        yield missing.format(f"axis {axis}", "axis"), np.sum(g, axis=axis)
        yield f"averaged over axis {axis} it is right: the mean over that axis is missing", np.mean(g, axis=axis)
    if g.ndim > 1:
        yield missing.format("all entries", "axes"), np.sum(g)
    if g.ndim < len(wanted):
        with contextlib.suppress(ValueError):  # where the shapes do not fit
            g = np.broadcast_to(g, wanted)
        yield "every entry is the same: it was summed although {} was not broadcast", g


# Mistakes in what the ranks of a distributed program tell each other in backward. A row of the table says of one input, by
# the claims and the right gradients of all ranks: what would be equal, and the sentence. The first row that holds is taken; a
# value that all ranks hold and shards have rows of their own.


@dataclass(frozen=True, slots=True)
class RankSlip:
    """A mistake: the claims of all ranks as it would make them of the right ones (or of their sum), and a sentence."""

    kind: DiagnosisKind
    of_shared: bool | None  # of a value that all ranks hold, of shards, or of both (None)
    holds: Callable[["RankArrays"], bool]
    says: str


@dataclass(frozen=True, slots=True)
class RankArrays:
    """The claims of all ranks for one input, and the right gradients; `near` says whether two arrays are equal."""

    claimed: list[Array]
    right: list[Array]
    near: Callable[[Array, Array], bool]

    def all_near(self, made: Callable[[Array], Array]) -> bool:
        """Whether the claim of each rank is what `made` makes of its right gradient."""
        return all(self.near(c, made(g)) for c, g in zip(self.claimed, self.right, strict=True))

    def each_near(self, whole: Array) -> bool:
        """Whether the claim of each rank is the same array."""
        return all(shape(c) == shape(whole) and self.near(c, whole) for c in self.claimed)

    @property
    def alike(self) -> bool:
        """Whether the right gradients of all ranks have one shape."""
        return len(set(map(shape, self.right))) == 1

    @property
    def agree(self) -> bool:
        """Whether the ranks have the same claim."""
        return all(self.near(c, self.claimed[0]) for c in self.claimed)


# fmt: off
RANK_SLIPS = (
    RankSlip(DiagnosisKind.AVERAGED, None, lambda a: a.all_near(lambda g: g / len(a.right)),
             "is averaged over the {count} ranks, where {loss}"),
    RankSlip(DiagnosisKind.REDUCED_TWICE, None, lambda a: a.all_near(lambda g: g * len(a.right)),
             "is {count} times too large ({twice})"),
    RankSlip(DiagnosisKind.REDUCED_TWICE, None, lambda a: a.all_near(lambda g: g * len(a.right) ** 2),
             "is {count}**2 times too large (reduced three times)"),
    RankSlip(DiagnosisKind.NOT_REDUCED, True, lambda a: a.near(np.sum(a.claimed, axis=0), a.right[0]),
             "on every rank lacks the sum over ranks (an all-reduce in backward)"),
    RankSlip(DiagnosisKind.NOT_REDUCED, True, lambda a: a.near(np.sum(a.claimed, axis=0) / len(a.right), a.right[0]),
             "on every rank {mean} (an all-reduce in backward)"),
    RankSlip(DiagnosisKind.REDUCED_TWICE, False, lambda a: a.alike and a.each_near(np.sum(a.right, axis=0)),
             "is summed over the ranks, though each has a shard of its own (an all-reduce too many)"),
    RankSlip(DiagnosisKind.AVERAGED, False, lambda a: a.alike and a.each_near(np.sum(a.right, axis=0) / len(a.right)),
             "is averaged over the ranks, though each has a shard of its own (an all-reduce too many)"),
)
# fmt: on
_TWICE = {None: "reduced twice", "sum": "reduced twice", "mean": "summed over the ranks, where the loss is their mean"}
_PARTS_TOO_LARGE = "is a part of the sum over ranks, {count} times too large: it lacks the sum"
_MEAN = {None: _PARTS_TOO_LARGE, "sum": _PARTS_TOO_LARGE, "mean": "lacks the mean over ranks, which DDP takes"}
_NO_MEAN = {None: "the loss is one value", "sum": "the loss is a sum", "mean": "it is a mean already"}


def find_rank_mistake(wrong: Wrong) -> Diagnosis | None:
    """Return a diagnosis of what ranks tell each other, if one explains the claims of all of them; None elsewhere."""
    f = original_function(wrong.q.f)
    places = getattr(f, "by_rank", {})
    found: dict[tuple[DiagnosisKind, str], list[str]] = {}
    for name, place in places.items():
        if not any(np.any(wrong.masks.get(part, False)) for part in place.names):
            continue
        if any(part not in wrong.claimed for part in place.names):
            return None
        said = _mistake_in_one_input(wrong, name, place.names, place.replicated)
        if said is None:
            return None
        found.setdefault(said, []).append(name)
    if not found:
        return None
    loss = getattr(f, "loss", None)
    sentences = []
    for (_, says), names in found.items():
        whose = f"{names[0]}'s gradient" if len(names) == 1 else f"the gradient of {' and of '.join(names)}"
        count = len(place.names)
        mean = _MEAN[loss].format(count=count)
        of = says.format(count=count, loss=_NO_MEAN[loss], twice=_TWICE[loss], mean=mean)
        sentences.append(of if of.startswith("ranks ") else f"{whose} {of}")
    return wrong.says(next(iter(found))[0], "; ".join(sentences))


def _mistake_in_one_input(
    wrong: Wrong, name: str, parts: tuple[str, ...], shared: bool
) -> tuple[DiagnosisKind, str] | None:
    """Return the mistake in the gradients of one input on all ranks, and its sentence; None if none explains them."""
    claimed, right = ([np.asarray(of[part]) for part in parts] for of in (wrong.claimed, wrong.right))
    room = sum(np.max(wrong.room.get(part, 0.0), initial=0.0) for part in parts)
    scale = max(largest_magnitude(x) for x in (*right, *claimed))

    def near(a: Array, b: Array) -> bool:
        return bool(np.all(np.abs(a - b) <= CLOSE * np.maximum(np.abs(b), SMALL * scale) + room))

    arrays = RankArrays(claimed, right, near)
    for slip in RANK_SLIPS:
        if slip.of_shared in (shared, None) and slip.holds(arrays):
            return slip.kind, slip.says
    if shared:
        good = [k for k, c in enumerate(claimed) if near(c, right[k])]
        if good and not arrays.agree:
            bad = [k for k in range(len(parts)) if k not in good]
            says = f"ranks disagree about {name}'s gradient: that of {_name_ranks(good)} is right, that of {_name_ranks(bad)} is not"
            return DiagnosisKind.RANKS_DISAGREE, says
        return None
    own = _slopes_of_own_losses(wrong, name)
    if own and all(near(c, g) for c, g in zip(claimed, own, strict=True)):
        return DiagnosisKind.NOT_REDUCED, "lacks what the losses of the other ranks add (a reduce-scatter in backward)"
    from_others = [next((j for j, g in enumerate(right) if shape(g) == shape(c) and near(c, g)), None) for c in claimed]
    moved = [(k, j) for k, j in enumerate(from_others) if j != k]
    if moved and all(j is not None for _, j in moved):
        says = ", ".join(f"that of rank {k} is rank {j}'s" for k, j in moved)
        return DiagnosisKind.SWAPPED, f"is that of another shard: {says}"
    return None


def _slopes_of_own_losses(wrong: Wrong, name: str) -> list[Array]:
    """Return the derivative of each rank's own loss by its own shard; none where that would take too many calls."""
    f: Any = original_function(wrong.q.f)
    f = getattr(f, "ranked", f)
    try:
        wrong.budget.spend(2 * sum(size(f.point[part]) for part in f.by_rank[name].names))
    except BudgetSpent:
        return []
    return [*f.slopes_of_own(name)]


def _name_ranks(numbers: list[int]) -> str:
    return f"rank{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"
