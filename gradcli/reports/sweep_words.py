"""What curves of error against step size say, in sentences."""

import numpy as np

from gradcli.reports import numbers
from gradcli.reports.absent import Absent
from gradcli.reports.blocks import Block, Cell, Paragraph, Piece, Table
from gradcli.reports.encode import Values
from gradcli.reports.sweep_rows import WHYS, Curve, Noise, derivative_of


def formulas(curves: tuple[Curve, ...]) -> list[str]:
    """Return the formulas of the predictions, once for each scheme of the first format."""
    first = curves[0]
    lines = [
        f"{c.scheme}: {c.predicted.formula}"
        for c in curves
        if c.predicted is not None and c.ray == first.ray and c.dtype == first.dtype
    ]
    if not lines:
        return []
    meaning = "predicted from e, the rounding error of one value of f, and the derivatives of f, measured:"
    return [meaning, *lines]


def noise_blocks(noise: Noise) -> list[Block]:
    """Return how noisy the function is, the steps that follow from it, and the one to use."""
    by = f"{noise.samples} calls at the point" if noise.random else f"{noise.samples} values beside the point"
    entry = noise.input is not None
    rows: list[tuple[Cell, ...]] = []
    for step in noise.steps:
        absolute = [] if isinstance(step.h_absolute, Absent) else [numbers.short(step.h_absolute, 2)]
        relative = "no digit" if step.relative_error is None else numbers.short(step.relative_error, 2)
        rows.append((step.scheme, *absolute, numbers.short(step.h, 2), relative))
    columns = ("scheme", *(["h (absolute)"] if entry else []), "h/|x|", "error")
    blocks: list[Block] = [
        Paragraph(f"Values of f scatter by {numbers.short(noise.level, 2)} (standard deviation, by {by})."),
        Table(
            columns,
            tuple(rows),
            frozenset(range(1, len(columns))),
            title="steps that balance this noise and truncation",
        ),
    ]
    best = min(noise.steps, key=lambda step: step.error, default=None)
    if best is None:
        return blocks
    unit = "" if entry else " times each input"
    h = best.h if isinstance(best.h_absolute, Absent) else best.h_absolute
    said = f"Use h = {numbers.short(h, 2)}{unit} with {best.scheme} differences."
    return [*blocks, Paragraph((Piece(said, "strong"),))]


def in_words(curves: tuple[Curve, ...], at: dict[str, Values], advise: bool) -> list[Block]:
    """Return what the curves say, in sentences, and where they say nothing; where they `advise`, the step to use."""
    sides = [c.rounding_slope for c in curves if c.rounding_slope is not None]
    found: list[Block] = []
    if sides:
        middle = sorted(sides)[len(sides) // 2]
        says = (
            f"Left of the best step rounding wins: the error grows as 1/h (observed slope {middle:.2f}), because f(x+h) "
            "and f(x-h) agree in all but the last digits."
        )
        if any(c.order is not None for c in curves):
            says += " Right of it truncation wins: the error grows as h to the order."
        found.append(Paragraph(says))
    first = {c.dtype: c for c in reversed(curves)}
    still = [(c, part) for c in reversed(first.values()) for part in c.useless if part.why == "below one ulp"]
    if still:
        c, part = still[0]
        found.append(Paragraph(f"Below one ulp, x + h is x: {_lost(c, part.to, at)} in {c.dtype}."))
    if any(c.best.relative_error > 0 for c in curves):
        says = "Each error is the smallest of its curve (median of three steps), so it is smaller than a typical one."
        found.append(Paragraph((Piece(says, "dim"),)))
    useless = [c for c in curves if c.useless]
    if useless:
        rays = len({c.ray for c in curves}) > 1
        named = [f"{derivative_of(c)} " * rays + f"{c.dtype} {c.scheme}" for c in useless]
        rows = tuple((name, *(_range(c, why) for why in WHYS)) for name, c in zip(named, useless, strict=True))
        right = frozenset(range(1, len(WHYS) + 1))
        found.append(Table(("no right digit", *WHYS), rows, right))
    return found + [Paragraph((Piece(said, "strong"),)) for said in _use(curves) if advise]


def _use(curves: tuple[Curve, ...]) -> list[str]:
    """Return the step to use, for each entry and format: with central differences, and with the scheme that is best."""
    found = []
    for ray, dtype in dict.fromkeys((c.ray, c.dtype) for c in curves):
        those = [c for c in curves if (c.ray, c.dtype) == (ray, dtype) and c.scheme != "complex" and _is_useful(c)]
        usual = next((c for c in those if c.scheme == "central"), None)
        best = max(those, key=lambda c: c.best.digits, default=None)
        chosen = [c for c in dict.fromkeys((usual, best)) if c is not None]
        if len(chosen) == 2 and best is not None and usual is not None and best.best.digits < usual.best.digits + 1:
            chosen = [usual]
        ways = " or ".join(f"h = {_step(c)} with {_differences(c)} ({_accuracy(c)})" for c in chosen)
        several = (f"{derivative_of(chosen[0])}: " if len({c.ray for c in curves}) > 1 else "") if chosen else ""
        narrow = f" in {dtype}" if len({c.dtype for c in curves}) > 1 else ""
        found += [f"{several}Use {ways}{narrow}."] if ways else []
    return found


def _is_useful(c: Curve) -> bool:
    """Whether the best step gives a right digit, or any estimate of a slope of 0."""
    return bool(np.isfinite(c.best.relative_error)) if c.absolute else c.best.digits >= 1


def _accuracy(c: Curve) -> str:
    """Return how good the best step is: its digits, or its error where the slope is 0, which has no digits."""
    return f"an error of {numbers.short(c.best.relative_error, 2)}" if c.absolute else f"{c.best.digits:.1f} digits"


def _step(c: Curve) -> str:
    return f"{numbers.short(c.best.h * c.unit, 2)}{' times each input' if c.input is None else ''}"


def _differences(c: Curve) -> str:
    return "Richardson's extrapolation" if c.scheme == "richardson" else f"{c.scheme} differences"


def _lost(c: Curve, h: float, at: dict[str, Values]) -> str:
    """Return a sum in which a step is lost."""
    if c.input is None:
        return f"so it is for h <= {numbers.short(h, 2)} times each input,"
    x, step = numbers.short(np.asarray(at[c.input])[c.index]), numbers.short(h * c.scale, 2)
    return f"({x} + {step}) - {x} = 0"


def _range(c: Curve, why: str) -> str:
    """Return the steps at which a curve is of no use for one reason."""
    parts = [part for part in c.useless if part.why == why]
    if not parts:
        return ""
    low, high = min(part.from_ for part in parts), max(part.to for part in parts)
    if high == c.h[0]:
        return f"h >= {numbers.short(low * c.unit, 2)}"
    return f"h <= {numbers.short(high * c.unit, 2)}"
