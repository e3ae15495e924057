"""The edits of one place in a claim's source, from the likeliest: an operator, a sign, a factor, a name, an axis, a term."""

from collections.abc import Callable, Iterator

from gradcli.repair.arithmetic import (
    constants_edits,
    factors_edits,
    groupings_edits,
    operators_edits,
    powers_edits,
    signs_edits,
    terms_edits,
)  # fmt: skip
from gradcli.repair.calls import (
    axes_edits,
    exchanges_edits,
    functions_edits,
    indices_edits,
    matrices_edits,
    names_edits,
    reversals_edits,
    subscripts_edits,
    sums_edits,
    transposes_edits,
    wholes_edits,
)  # fmt: skip
from gradcli.repair.place import Edit, New, Place

_MAKERS: tuple[Callable[[Place], Iterator[New]], ...] = (
    constants_edits, operators_edits, groupings_edits, signs_edits, powers_edits, names_edits, functions_edits, axes_edits,
    sums_edits, transposes_edits, subscripts_edits, indices_edits, factors_edits, terms_edits, reversals_edits, matrices_edits,
    wholes_edits, exchanges_edits,
)  # fmt: skip


def edits_of(place: Place) -> Iterator[Edit]:
    """Yield the edits of one expression."""
    line = getattr(place.node, "lineno", 1)
    seen = {place.piece}
    for make in _MAKERS:
        for kind, cost, new, bound in make(place):
            if new not in seen:
                seen.add(new)
                change = place.text.in_place(place.node, place.parent, new, bound)
                yield Edit(kind, cost, line, (change,))
