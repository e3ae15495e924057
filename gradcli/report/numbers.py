"""How numbers and arrays are written for people: enough digits, no more."""

import itertools
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from gradcli.report.blocks import Cell, Piece
from gradcli.report.common import Absent, Opaque

_SHOWN = 4
_COUNTED = 10**15  # a figure of more digits is written in powers of ten
_YEAR = 365.25 * 24 * 3600  # seconds
_LISTED = 16  # entries that are shown one by one


def all_digits(x: Any) -> str:
    """Return a float64 with every digit that identifies it."""
    return repr(float(x))


def few_digits(x: Any, digits: int = 6) -> str:
    """Return a number rounded to a few digits; -0.0 as 0."""
    return f"{float(x) + 0.0:.{digits}g}"


def two_digits(x: Any) -> str:
    """Return a time, a count or a ratio rounded to two digits: 1,900 and 0.42."""
    number = float(x)
    if not math.isfinite(number):
        return few_digits(number)
    if number >= 99.5:
        scale = 10 ** (len(str(int(number))) - 2)
        return f"{round(number / scale) * scale:,}"
    return f"{number:.2g}"


def write_count(count: int, noun: str) -> str:
    """Return a number of things: 1 entry, 1,900 entries."""
    several = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{count:,} {noun if count == 1 else several}"


def round_step(least: float) -> int:
    """Return the smallest of 1, 2, 5, 10, 20, 50 and so on that is not less: how far apart ticks are."""
    step: int = next(a * 10**k for k in itertools.count() for a in (1, 2, 5) if a * 10**k >= least)
    return step


def write_if_known(x: Any, write: Callable[[Any], str]) -> str:
    """Return a number as `write` writes it; an empty text where it is null or absent."""
    return "" if x is None or isinstance(x, Absent) else write(x)


def write_figure(x: Any) -> str:
    """Return a figure rounded to two digits, in powers of ten where it is long: 1,900 and 4.9e+21."""
    return two_digits(x) if x < _COUNTED else few_digits(x, 2)


def write_bound(x: Any) -> str:
    """Return a bound or an error in scientific notation with one digit, rounded up: 3e-13."""
    number = float(x)
    if number == 0 or not math.isfinite(number):
        return "0" if number == 0 else few_digits(number)
    from decimal import ROUND_UP, Context, Decimal

    up = Context(prec=1, rounding=ROUND_UP).create_decimal(Decimal(f"{number:.12g}"))
    return f"{up.scaleb(-up.adjusted()):.0f}e{up.adjusted():+03}"


def write_differing_pair(x: float, y: float) -> tuple[str, str]:
    """Return two numbers with enough digits to see how they differ: at least seven."""
    largest = max(abs(x), abs(y))
    if not math.isfinite(largest) or x == y:
        return few_digits(x, 7), few_digits(y, 7)
    digits = max(7, min(17, math.ceil(-math.log10(abs(x - y) / largest)) + 2))
    return few_digits(x, digits), few_digits(y, digits)


def write_ratio(x: float) -> str:
    """Return a ratio; one that is nearly 1 as its distance from 1."""
    return f"1{x - 1:+.0e}" if 0 < abs(x - 1) < 1e-3 else few_digits(x, 3)


def write_with_bound(x: float, bound: float) -> str:
    """Return an estimate with its bound, no more digits than the bound leaves: 0.21160195482 ±2e-11."""
    if not math.isfinite(bound) or not math.isfinite(x):
        return f"{few_digits(x)} ±{write_bound(bound)}"
    digits = 16 if bound == 0 or x == 0 else max(1, min(16, math.ceil(math.log10(abs(x) / bound)) + 1))
    return f"{x:.{digits}g} ±{write_bound(bound)}"


def write_value(x: Any) -> str:
    """Return a value: a scalar in full, an array by its shape and first entries."""
    if isinstance(x, bool | str | int) or x is None:
        return repr(x)
    if isinstance(x, Opaque):
        return f"a value of type {x.type}"
    array = np.asarray(x)
    if array.dtype.kind not in "fiub":
        return f"a value of type {type(x).__name__}"
    if array.ndim == 0:
        return all_digits(array)
    entries = array.reshape(-1)
    listed = ", ".join(f"{float(entry):.6g}" for entry in entries[:_SHOWN])  # of an input, -0 is not 0
    more = f", ... {array.size} entries" if array.size > _SHOWN else ""
    kind = f"{'x'.join(map(str, array.shape))} " if array.ndim > 1 else ""
    return f"{kind}[{listed}{more}]"


def write_point(at: Mapping[str, Any], drawn: Collection[str] = ()) -> str:
    """Return the values of a point by name, with those that were drawn marked."""
    return ", ".join(f"{name} = {write_value(x)}{' (drawn)' if name in drawn else ''}" for name, x in at.items())


def list_entries(x: Any) -> str:
    """Return a value with all its entries, where these are few: [[1, 2], [3, 4]]."""
    array = np.asarray(x)
    if array.size > _LISTED:
        return write_value(array)
    if not array.ndim:
        return few_digits(array)
    return f"[{', '.join(list_entries(row) for row in array)}]"


def mark_agreeing_digits(x: float, reference: float) -> Cell:
    """Return a number whose digits that agree with the reference are bright and the rest dim; -0.0 as 0.0."""
    mine, right = all_digits(x + 0.0), all_digits(reference + 0.0)
    if mine == right:
        return Piece(mine, "strong")
    differing = (k for k, (a, b) in enumerate(zip(mine, right, strict=False)) if a != b)
    same = next(differing, min(len(mine), len(right)))
    return (Piece(mine[:same], "strong"), Piece(mine[same:], "dim"))


def count_right_digits(x: Any, reference: Any, size: Any = 0.0) -> Any:
    """Return how many decimal digits of each entry agree with the reference: 16 where the floats are equal.

    They count from the entry's own size, or from `size` where that is not 0.
    """
    x, reference = np.asarray(x, dtype=float), np.asarray(reference, dtype=float)
    scale = np.where(reference == 0, 1.0, np.abs(reference))
    scale = np.where(np.equal(size, 0), scale, size)
    with np.errstate(all="ignore"):
        relative = np.abs(x - reference) / scale
        digits = np.where(relative == 0, 16.0, -np.log10(relative))
    return np.where(np.isfinite(digits), np.clip(digits, 0.0, 16.0) + 0.0, 0.0)


_LETTERS = {"w": ("w", "u", "c"), "v": ("v", "p", "d"), "J": ("J", "Jacobian"), "H": ("H", "Hessian")}


def free_letters(words: str, names: Collection[str]) -> str:
    """Return words with other letters for those of gradcli's own that are names of inputs: `product u J` where w is one."""
    free = {x: next((other for other in others if other not in names), x) for x, others in _LETTERS.items()}
    return " ".join(free.get(word, word) for word in words.split(" "))


def entry_name(name: str, index: tuple[int, ...], output: tuple[int, ...] = (), outputs: Sequence[str] = ()) -> str:
    """Return how an entry is written: x, W[3,2], and f[0] by it for a vector result, or the output's own name."""
    entry = name + (f"[{','.join(map(str, index))}]" if index else "")
    if outputs and output:
        return f"{outputs[output[0]]}/{entry}"
    return f"f[{','.join(map(str, output))}]/{entry}" if output else entry


def write_seconds(x: float) -> str:
    """Return a time in the unit that suits it: 3.1 ms."""
    if x >= _YEAR:
        return f"{write_figure(x / _YEAR)} years"
    unit, size = next((row for row in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)) if x >= row[1]), ("ns", 1e-9))
    return f"{two_digits(x / size)} {unit}"


def write_bytes(x: float) -> str:
    """Return an amount of memory in the unit that suits it: 64 KiB."""
    unit, size = next(
        (row for row in (("GiB", 2.0**30), ("MiB", 2.0**20), ("KiB", 2.0**10)) if x >= row[1]), ("B", 1.0)
    )
    return f"{two_digits(x / size)} {unit}"


def write_decimal_bytes(x: float) -> str:
    """Return an amount of memory in powers of ten, as data sheets give it, with three digits: 141 GB."""
    for unit, size in (("PB", 1e15), ("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if x >= size:
            return f"{x / size:.3g} {unit}" if x < 999.5 * size else f"{x / size:,.0f} {unit}"
    return f"{x:,.0f} B"


# Arrays in short: as rows of a table, one entry each, and by their norm; a sequence by the turn that it repeats.

_SMALL = 4  # rows and columns at most
_SQUARES = (1e-140, 1e140)  # norms whose squares float64 holds with all digits


def entries_with_index(x: Any) -> Iterator[tuple[str, float]]:
    """Yield each entry's index, as text, and its value."""
    array = np.asarray(x, dtype=float)
    for at in np.ndindex(array.shape):
        yield ",".join(map(str, at)), float(array[at])


def is_small(x: Any) -> bool:
    """Whether an array is a vector or a matrix of at most 4 x 4 entries, which is shown in full."""
    return 1 <= np.ndim(x) <= 2 and np.size(x) > 1 and max(np.shape(x)) <= _SMALL


def write_shape(shape: tuple[int, ...]) -> str:
    """Return a shape as numpy writes it, without spaces: (2,3) and (4,)."""
    return str(shape).replace(" ", "")


def largest_entries(x: np.ndarray, most: int) -> list[tuple[int, ...]]:
    """Return the indices of the largest entries by size: those that are not finite first, and of equal ones the first."""
    sizes = np.abs(x.reshape(-1))
    order = np.argsort(-np.where(np.isfinite(sizes), sizes, np.inf), kind="stable")[:most]
    return [tuple(int(k) for k in np.unravel_index(at, x.shape)) for at in order]


def norm(x: Any) -> float:
    """Return the Euclidean norm of all entries, also where their squares are beyond float64."""
    size = np.abs(np.ravel(np.asarray(x)))
    with np.errstate(over="ignore", under="ignore"):
        found = float(np.linalg.norm(size))
    largest = float(np.max(size, initial=0.0))
    if _SQUARES[0] < found < _SQUARES[1] or not np.isfinite(largest) or largest == 0:
        return found
    return largest * float(np.linalg.norm(size / largest))


def split_by_repetition(items: Sequence[Any], kinds: Sequence[Any]) -> list[Sequence[Any]]:
    """Split items by the shortest sequence of kinds that all of them repeat; one part where they repeat none.

    >>> split_by_repetition("abcdef", [1, 2, 1, 2, 1, 2])
    ['ab', 'cd', 'ef']
    """
    size = len(kinds)
    fits = (n for n in range(1, size + 1) if size % n == 0 and all(kinds[k] == kinds[k % n] for k in range(size)))
    length = next(fits, 1)
    return [items[k : k + length] for k in range(0, size, length)]
