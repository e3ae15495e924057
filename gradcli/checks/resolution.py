"""Entries that function values alone do not resolve: their differences cannot be told from 0, or hardly."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import ROUND_UP, Context, Decimal
from typing import Any

import numpy as np

from gradcli.checks.entries import AGREE, CANNOT_TELL, DISAGREE, DOUBT, USEFUL, Tolerance, allowed, asked
from gradcli.checks.evidence import Evidence
from gradcli.report import numbers
from gradcli.report.point_report import UnresolvedEntries
from gradcli.request.point import Witness

MOST = 1e-2  # of the largest entry of the input: a larger error is left open, however blunt the check is
Masks = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Resolution:
    """The entries of a claim that function values do not resolve, as masks by input.

    An entry is not resolved if the claim lies within the bound of its difference, and this bound is wide beside the
    difference. `accepted` are those whose largest possible error is below the check's own limit, that of the resolved
    entries, times the largest entry of their input. `open` are others that cannot be told from 0. `zeros` are claimed as
    exactly 0, and their differences are 0.

    Units  `error` is the largest possible error of each entry, in units of the gradient.
    """

    accepted: Masks = field(default_factory=dict)
    open: Masks = field(default_factory=dict)
    zeros: Masks = field(default_factory=dict)
    error: Masks = field(default_factory=dict)

    def agreement(self, words: Any, name: str) -> Any:
        """Return the verdicts of the entries of one input, with those of the entries that are not resolved."""
        if name not in self.accepted:
            return words
        return np.where(self.accepted[name], AGREE, np.where(self.open[name], CANNOT_TELL, words))

    def worst(self, masks: Mapping[str, Any]) -> tuple[str, tuple[int, ...]] | None:
        """Return the place of the entry with the largest possible error among some; None if there are none."""
        found: tuple[float, str, tuple[int, ...]] | None = None
        for name, mask in masks.items():
            if np.any(mask):
                errors = np.where(mask, self.error[name], -1.0)
                at = tuple(int(k) for k in np.unravel_index(int(np.argmax(errors)), errors.shape))
                if found is None or float(errors[at]) > found[0]:
                    found = float(errors[at]), name, at
        return None if found is None else found[1:]

    def zero_limit(self) -> float | None:
        """Return the largest error that an entry claimed as exactly 0 may have; None if there is no such entry."""
        place = self.worst(self.zeros)
        return None if place is None else float(self.error[place[0]][place[1]])


def resolution_of(seen: Evidence) -> Resolution:
    """Return which entries of the claim function values alone do not resolve.

    The check's own limit is the relative error beyond which it is certain to call a resolved entry wrong: `DOUBT` bounds.
    """
    claim = seen.estimate_or_none("claim") if seen.claimed is not None else None
    if claim is None or claim.narrow or seen.reference is None or "claim" not in seen.agreement:
        return Resolution()
    if seen.dependencies(seen.reference) != {Witness.FUNCTION_VALUES}:
        return Resolution()
    right, found = seen.estimate(seen.reference), Resolution()
    hidden: Masks = {}
    limit = 0.0
    with np.errstate(all="ignore"):
        for name, words in seen.agreement["claim"].items():
            x, y = np.asarray(claim.value[name]), np.asarray(right.value[name])
            room, distance = np.asarray(allowed(claim, right, name, None)), np.abs(x - y)
            closed = (distance <= room) & np.isfinite(room) & (words != DISAGREE) & ~_left_open(seen, name)
            closed &= ~(distance + right.bound[name] <= asked(seen.tolerance, y))
            resolved, zero = room <= USEFUL * np.abs(y), (x == 0) & (y == 0)
            hidden[name] = closed & ~resolved & ~zero
            found.zeros[name], found.error[name] = closed & zero, distance + room
            limit = max(limit, float(np.max(np.where(closed & resolved & ~zero, room / np.abs(y), 0.0), initial=0.0)))
        for name, mask in hidden.items():
            y = np.abs(right.value[name])
            top = float(np.max(np.where(mask | ~np.isfinite(y), 0.0, y), initial=0.0))
            found.accepted[name] = mask & (found.error[name] <= min(DOUBT * limit, MOST) * top)
            found.open[name] = mask & ~found.accepted[name] & _is_zero_like(seen, name)
    return found


def _left_open(seen: Evidence, name: str) -> Any:
    """Return a mask of the entries at a kink, and of those with a second slope."""
    slopes = seen.estimate(str(seen.reference)).slopes.get(name)
    several = False if slopes is None else np.isfinite(slopes.left) | np.isfinite(slopes.other)
    return np.asarray(seen.undecided.get(name, False)) | several


def _is_zero_like(seen: Evidence, name: str) -> Any:
    """Return a mask of the entries whose difference cannot be told from 0."""
    right = seen.estimate(str(seen.reference))
    return np.abs(right.value[name]) <= right.bound[name]


def accepted_entries(seen: Evidence, found: Resolution) -> UnresolvedEntries | None:
    """Return what a pass says of the entries that were accepted without being resolved; None if there are none."""
    place = found.worst(found.accepted)
    if place is None:
        return None
    name, at = place
    return UnresolvedEntries(
        count=sum(int(np.sum(mask)) for mask in found.accepted.values()),
        compared=sum(int(np.size(mask)) for mask in found.accepted.values()),
        below=float(found.error[name][at]),
        at=entry_name(name, at),
        told_from_zero=any(bool(np.any(mask & ~_is_zero_like(seen, n))) for n, mask in found.accepted.items()),
    )


def open_entries(seen: Evidence, found: Resolution) -> str | None:
    """Return in words which entries are left open, and the one with the widest bound; None if there are none."""
    place = found.worst(found.open)
    if place is None:
        return None
    count = sum(int(np.sum(mask)) for mask in found.open.values())
    total = sum(int(np.size(mask)) for mask in found.open.values())
    return f"{count:,} of {total:,} entr{'y' if total == 1 else 'ies'} not resolved: {_in_words(seen, *place)}"


@dataclass(frozen=True, slots=True)
class UndecidedEntry:
    """The entry of a claim that needs the largest tolerance to be decided, in words, and the option that decides all."""

    in_words: str
    option: str


def undecided_entry(seen: Evidence) -> UndecidedEntry | None:
    """Return the undecided entry of the claim that needs the largest tolerance; None if none has a finite bound."""
    if seen.claimed is None or seen.reference is None:
        return None
    claim, right = seen.estimate("claim"), seen.estimate(seen.reference)
    given = seen.tolerance or Tolerance()
    relative: dict[str, Any] = {}
    absolute: dict[str, Any] = {}
    with np.errstate(all="ignore"):
        for name, words in seen.agreement["claim"].items():
            y = np.abs(right.value[name])
            needed = np.abs(np.asarray(claim.value[name]) - right.value[name]) + right.bound[name]
            undecided = (words == CANNOT_TELL) & np.isfinite(needed)
            relative[name] = np.where(undecided, (needed - given.atol) / y, -np.inf)
            absolute[name] = np.where(undecided, needed - given.rtol * y, -np.inf)
    largest = {name: float(np.max(x, initial=-np.inf)) for name, x in relative.items()}
    name = max(largest, key=lambda n: largest[n])
    if largest[name] == -np.inf:
        return None
    at = tuple(int(k) for k in np.unravel_index(int(np.argmax(relative[name])), np.shape(relative[name])))
    most = max(float(np.max(x, initial=-np.inf)) for x in absolute.values())
    option = f"--rtol {_up(largest[name])}" if np.isfinite(largest[name]) else f"--atol {_up(most)}"
    return UndecidedEntry(_in_words(seen, name, at), f"{option} decides it")


def _up(x: float) -> str:
    """Return a positive number with two digits, rounded up."""
    return f"{float(Context(prec=2, rounding=ROUND_UP).create_decimal(Decimal(f'{x:.12g}'))):.1e}"


def _in_words(seen: Evidence, name: str, at: tuple[int, ...]) -> str:
    """Return an entry of the reference with its bound, and the claim: `x[1] is 0 +- 2e-03, claimed 0.0001`."""
    right, claim = seen.estimate(str(seen.reference)), seen.estimate("claim")
    value, bound, own = (float(np.asarray(part[name])[at]) for part in (right.value, right.bound, claim.value))
    return f"{entry_name(name, at)} is {value:.3g} +- {numbers.power(bound)}, claimed {numbers.short(own)}"


def entry_name(name: str, at: tuple[int, ...]) -> str:
    """Return the name of an entry, such as `x[1]`; that of a number is its input's."""
    return f"{name}[{','.join(map(str, at))}]" if at else name
