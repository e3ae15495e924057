"""The edits of one place in a claim's source, from the likeliest: an operator, a sign, a factor, a name, an axis, a term."""

from collections.abc import Callable, Iterator

from gradcli.repair.arithmetic import (
    constant_edits,
    factor_edits,
    grouping_edits,
    operator_edits,
    power_edits,
    sign_edits,
    term_edits,
)  # fmt: skip
from gradcli.repair.calls import (
    axis_edits,
    exchange_edits,
    function_edits,
    index_edits,
    matrix_edits,
    name_edits,
    reversal_edits,
    subscript_edits,
    sum_edits,
    transpose_edits,
    whole_edits,
)  # fmt: skip
from gradcli.repair.place import Edit, New, Place

_MAKERS: tuple[Callable[[Place], Iterator[New]], ...] = (
    constant_edits, operator_edits, grouping_edits, sign_edits, power_edits, name_edits, function_edits, axis_edits,
    sum_edits, transpose_edits, subscript_edits, index_edits, factor_edits, term_edits, reversal_edits, matrix_edits,
    whole_edits, exchange_edits,
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
